"""Several views of the subjects: which there are, and the methods that fuse them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._checks import meant
from cignn.cli import options as opt
from cignn.cli.models import cohort_model
from cignn.cli.outputs import STEPS
from cignn.cli.reading import read_data
from cignn.cli.settings import names_in

if TYPE_CHECKING:
    import pandas as pd

    from cignn import Cohort


Views = Annotated[
    str | None,
    typer.Option(
        "--views",
        help="Connectivities to fuse, such as correlation,partial,tangent; each alone and their mean are "
        "evaluated beside the fusion.",
        autocompletion=opt._words(opt.KINDS),
        rich_help_panel=opt.MODEL,
        metavar="KINDS",
    ),
]
NewView = Annotated[
    list[str] | None,
    typer.Option(
        "--view",
        help="Data of these subjects for a view of the model: a cohort or a table (.csv, .tsv). Repeatable.",
        rich_help_panel=opt.DATA,
        metavar="NAME=PATH",
    ),
]
View = Annotated[
    list[str] | None,
    typer.Option(
        "--view",
        help="Another view to fuse: a cohort of the same subjects, a table (.csv, .tsv), or columns of the "
        "participants, age+sex. Repeatable.",
        rich_help_panel=opt.MODEL,
        metavar="NAME=WHAT",
    ),
]


def check_views(views: str | None, added: list[str] | None, connectivity: str | None) -> bool:
    """Refuse views that make no sense before anything is read; False where none are asked for."""
    kinds, others = names_in(views), [_named(one)[0] for one in added or []]
    for kind in kinds:
        if kind not in opt.KINDS:
            raise typer.BadParameter(
                f"there is no '{kind}'; {meant(kind, opt.KINDS)}", param_hint="'--views'"
            )
    names = kinds + others
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise typer.BadParameter(f"two views are named '{twice}'; rename one.", param_hint="'--views'")
    if len(names) == 1:
        raise typer.BadParameter(f"a fusion needs two views, got only {names[0]}.", param_hint="'--views'")
    if kinds and connectivity is not None and not added:
        raise typer.BadParameter("is among --views where it is wanted.", param_hint="'--connectivity'")
    return bool(names)


def _named(word: str) -> tuple[str, str]:
    name, sign, what = word.partition("=")
    if not sign or not name.strip() or not what.strip():
        raise typer.BadParameter(f"expected NAME=WHAT, got '{word}'.", param_hint="'--view'")
    return name.strip(), what.strip()


def with_views(cohort: Cohort, added: list[str] | None, label: str, quiet: bool) -> tuple[Cohort, dict]:
    """Return the cohort with the views that were added, and what they are: "data", "table" or columns."""
    from cignn.connectome.covariates import find_covariate
    from cignn.datasets import Cohort, MultiViewCohort

    found: dict[str, Any] = {}
    what: dict[str, Any] = {}
    for name, given in map(_named, added or []):
        if Path(given).is_file() and Path(given).suffix.lower() in (".csv", ".tsv", ".txt"):
            found[name], what[name] = read_view_table(Path(given)), "table"
        elif Path(given).exists():
            found[name] = read_data(Path(given), label=label, new=True, quiet=quiet)
            what[name] = "data"
            if not isinstance(found[name], Cohort):
                raise typer.BadParameter(f"{given} holds graphs, no cohort.", param_hint="'--view'")
        else:
            what[name] = given.split("+")
            for column in what[name]:
                if find_covariate(cohort, column) is None:
                    known = [*map(str, cohort.covariates.columns), "site"]
                    raise typer.BadParameter(
                        f"'{given}' is neither a file nor columns of the participants; "
                        f"{meant(column, known)}",
                        param_hint="'--view'",
                    )
    return (MultiViewCohort(cohort, found) if found else cohort), what


def views_of(fitted: Any) -> list[str]:
    """Names of the views whose data a fitted model asks for with the subjects."""
    return list(getattr(getattr(fitted, "estimator_", fitted), "read_", []))


def with_new_views(fitted: Any, data: Any, added: list[str] | None, label: str, quiet: bool) -> Any:
    """Return subjects with the views that a model asks for; refuse others, and to do without."""
    wanted, given = views_of(fitted), [_named(one)[0] for one in added or []]
    for name in given:
        if name not in wanted:
            raise typer.BadParameter(
                f"the model asks for no view '{name}'" + (f"; {meant(name, wanted)}" if wanted else "."),
                param_hint="'--view'",
            )
    for name in wanted:
        if name not in given:
            raise typer.BadParameter(
                f"the model reads the view '{name}'; give that of these subjects: --view {name}=PATH.",
                param_hint="'--view'",
            )
    cohort, what = with_views(data, added, label, quiet) if given else (data, {})
    columns = next((name for name, one in what.items() if isinstance(one, list)), None)
    if columns is not None:
        raise typer.BadParameter(f"there is no file for the view '{columns}'.", param_hint="'--view'")
    return cohort


def read_view_table(path: Path) -> pd.DataFrame:
    """Return a table of subjects with their ids as its index, and numbers where columns hold numbers."""
    import pandas as pd

    from cignn.datasets.participants import participants_table
    from cignn.datasets.reading import MISSING

    frame, _ = participants_table(path, [])
    frame = frame.set_index("participant_id")
    for name in frame.columns:
        column = frame[name].mask(frame[name].str.strip().str.lower().isin(MISSING))
        as_numbers = pd.to_numeric(column, errors="coerce")
        frame[name] = as_numbers if as_numbers.notna().equals(column.notna()) else column
    return frame


def with_steps(
    context: typer.Context, cohort: Cohort, estimators: dict[str, Any], by: str, verbose: int = 0
) -> tuple[Cohort, dict[str, Any]]:
    """Put the steps that the options of a command name before every method, fused where it fuses views.

    by : what inner folds hold together. The cohort comes back with the views that were added.
    """
    asked = context.params
    connectivity, added = asked["connectivity"], asked["view"]
    steps = {name: asked[name] for name in STEPS if name not in ("connectivity", "fisher")}
    subjects = cohort

    def model(one: Any, kind: str | None) -> Any:
        fisher = asked["fisher"] and kind not in ("tangent", "covariance")
        return cohort_model(one, subjects, kind, fisher, **steps, positive=asked["positive"], verbose=verbose)

    if not check_views(asked["views"], added, connectivity):
        return cohort, {name: model(one, connectivity) for name, one in estimators.items()}
    cohort, what = with_views(cohort, added, asked["label"], asked["as_json"])
    return cohort, _fused_methods(estimators, names_in(asked["views"]), what, connectivity, by, model)


def _fused_methods(
    estimators: dict[str, Any],
    kinds: list[str],
    added: dict[str, Any],
    connectivity: str | None,
    by: str,
    model: Callable[[Any, str], Any],
) -> dict[str, Any]:
    """Return every method on every view alone, on their mean and stacked.

    model : makes the model of a classifier on a kind of connectivity. added : see `with_views`.
    """
    from sklearn.base import clone

    from cignn.estimators import FusedClassifier, TableClassifier

    out: dict[str, Any] = {}
    for name, classifier in estimators.items():
        views = [(kind, model(clone(classifier), kind)) for kind in kinds]
        for view, what in added.items():
            if what == "data":
                views.append((view, model(clone(classifier), connectivity or "correlation")))
            else:
                views.append((view, TableClassifier(None if what == "table" else what, missing="mean")))
        for view, one in views:  # the view alone: a fusion of one
            alone = FusedClassifier([(view, one)], fusion="mean")
            is_table = isinstance(one, TableClassifier)
            out[view if is_table else f"{name}/{view}"] = one if view in kinds else alone
        out[f"{name}/mean"] = FusedClassifier(views, fusion="mean")
        out[f"{name}/stacked"] = FusedClassifier(views, by=by)
    return out


def share_table(results: pd.DataFrame) -> pd.DataFrame | None:
    """Return the mean share of each view in the stacked methods; None where nothing was stacked."""
    shares = results[results["metric"].str.startswith("share_") & results["method"].str.endswith("/stacked")]
    if not len(shares):
        return None
    table = shares.pivot_table("value", "method", "metric", sort=False)
    return table.rename(columns=lambda name: name.removeprefix("share_")).round(2).reset_index()
