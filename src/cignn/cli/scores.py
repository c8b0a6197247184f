"""Scores instead of classes: the option --target, its methods, and what commands tell of predicted scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._checks import nearest
from cignn._files import write_csv
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import complain, say, say_json, show_facts, show_table
from cignn.cli.outputs import read_trivial
from cignn.cli.reading import as_graphs, name_of, read_data, subject_names
from cignn.cli.settings import assignments, names_in, read_settings, write_settings

if TYPE_CHECKING:
    import pandas as pd

    from cignn import Cohort, GraphSet
    from cignn.evaluation import Store

SCORE_METHODS = ["ci-gnn-regressor", "ridge", "svr", "rbf-svr", "cpm", "mean"]
SCORE_NAMES = {"mae": "MAE", "r2": "R²", "r": "r", "spearman": "Spearman"}
CALLED = {"ci-gnn": "ci-gnn-regressor"}  # methods that have a form for scores, under the same name
EVALUATED = "ci-gnn,ridge,svr,cpm"
FOR_CLASSES = (  # options of evaluate that scores have no use for
    *("positive", "specificity", "views", "view", "calibrate", "threshold", "explainers", "learning_curve"),
)
Target = Annotated[
    str | None,
    typer.Option(
        help="Column with a score to predict, such as age, instead of classes.",
        rich_help_panel=opt.DATA,
        metavar="COLUMN",
    ),
]


def score_methods(names: list[str], target: str | None) -> list[str]:
    """Return the methods that names stand for with and without a score to predict; refuse others."""
    if target is None:
        scored = next((name for name in names if name in SCORE_METHODS), None)
        if scored is not None:
            raise typer.BadParameter(
                f"{scored} predicts a score; name its column with --target, or --target label.",
                param_hint="'--method'",
            )
        return names
    found = [CALLED.get(name, name) for name in names]
    for name in found:
        if name not in SCORE_METHODS:
            known = [next((k for k, v in CALLED.items() if v == one), one) for one in SCORE_METHODS]
            what = "predicts classes" if name in opt.METHODS else "is unknown"
            raise typer.BadParameter(
                f"{name} {what}, --target needs a method for scores{nearest(name, known)}",
                param_hint="'--method'",
            )
    return found


def refuse_classes(context: typer.Context, target: str | None, *names: str) -> None:
    """Refuse options that are for classes where a score is predicted."""
    for param in context.command.params:
        if target is not None and param.name in names and context.params.get(str(param.name)):
            raise typer.BadParameter(
                "is for classes, --target predicts a score; leave it out.", param_hint=f"'{param.opts[0]}'"
            )


def refuse_target(target: str | None, deconfound: str | None, on: str = "all") -> None:
    """Refuse to take out the score that is predicted, or effects within classes where there are none."""
    if target is None or deconfound is None:
        return
    from cignn.datasets.participants import known_name

    def plain(name: str) -> str:
        return (known_name(name) or name).lower()

    if plain(target) in map(plain, names_in(deconfound)):
        raise typer.BadParameter(
            f"{target} is what is predicted, without it nothing is left to predict; leave it out.",
            param_hint="'--deconfound'",
        )
    if on not in ("auto", "all"):
        raise typer.BadParameter(
            f"{on} is for classes, --target predicts a score; leave it out.", param_hint="'--deconfound-on'"
        )


def predicts_scores(model: Any) -> bool:
    """Whether a model predicts a score rather than classes."""
    from cignn.evaluation.methods import predicts_scores as are_scores

    return are_scores(model)


def target_of(model: Path, given: str | None) -> str | None:
    """The column of the scores of new subjects: the one given, else that of the model's own cohort."""
    known = read_settings(model).get("target")
    return given or (str(known) if known else None)


def score_table(model: Any, data: Cohort | GraphSet, predictions: Any) -> pd.DataFrame:
    """One row per subject: subject, site, the score where it is known, whether trained on, predicted."""
    import pandas as pd

    columns: dict[str, Any] = {"subject": subject_names(data)}
    sites = getattr(data, "sites", getattr(data, "groups", None))
    if sites is not None:
        columns["site"] = sites
    known = None if data.y is None else pd.to_numeric(pd.Series(data.y), errors="coerce").to_numpy(float)
    if known is not None and not pd.isna(known).all():
        columns["observed"] = known
    columns["trained_on"] = model.trained_on(data)
    columns["predicted"] = predictions
    if "observed" in columns:
        columns["residual"] = columns["observed"] - predictions
    return pd.DataFrame(columns)


def scores_of_table(table: pd.DataFrame) -> dict[str, float]:
    """Scores on subjects with a known score that the model was not trained on; empty without two of them."""
    from cignn.evaluation import regression_scores

    if "observed" not in table:
        return {}
    usable = table[table["observed"].notna() & ~table["trained_on"]]
    if len(usable) < 2:
        return {}
    return regression_scores(usable["observed"].to_numpy(), usable["predicted"].to_numpy())


def tell_regression(scores: dict[str, float], table: pd.DataFrame, target: str) -> None:
    """Show scores, or say why subjects with a known score have none."""
    if scores:
        named = {SCORE_NAMES[name]: value for name, value in scores.items()}
        show_facts(named, f"{target} of subjects the model was not trained on")
    elif "observed" in table and table.loc[table["observed"].notna(), "trained_on"].all():
        complain("note", f"no scores: the model was trained on all subjects whose {target} is known.")


def write_sites(out: Path, store: Store, results: pd.DataFrame) -> pd.DataFrame | None:
    """Write the scores of methods at each site, over all folds; None where no site is known."""
    from cignn.evaluation import scores_by_site

    rows = store.predictions()
    rows = rows[rows["key"].isin(set(results["key"]))]
    if not rows["site"].notna().any():
        return None
    table = scores_by_site(rows)
    write_csv(out / "sites.csv", table)
    return table


def show_sites(table: pd.DataFrame | None) -> None:
    """Show the errors of methods at each site, where there are several sites."""
    if table is None or table["site"].nunique() < 2:
        return
    wide = table.pivot_table("mae", "site", "method", sort=False).reset_index()
    wide.insert(1, "scans", [int(table.loc[table["site"] == site, "scans"].iloc[0]) for site in wide["site"]])
    show_table(wide.rename_axis(None, axis=1), "MAE at each site, over all folds", digits=2)


def report_of_scores(
    context: typer.Context,
    run: Path,
    data: Path | None,
    out: Path,
    fitted: Any,
    results: Path | None,
    title: str | None,
    named: Callable[..., Any] | None,
    quiet: bool,
) -> None:
    """Write the report of a model of scores; named : gives its regions names of an atlas."""
    settings = read_settings(run)
    target, place = str(settings["target"]), data or Path(str(settings.get("data", "")))
    if fitted is None:
        raise FileNotFoundError(
            f"{run} is an evaluation of scores without a model; fit one with cignn fit --target {target} and "
            f"show both with cignn report MODEL --results {run}."
        )
    given = context.params
    load = assignments(given["load"]) or dict(settings.get("load") or {})
    how: dict[str, Any] = {"format": given["format"], "atlas": given["atlas"] or settings.get("atlas")}
    cohort = read_data(place, **how, target=target, load=load, new=data is not None, quiet=quiet)
    fitted = fitted if named is None else named(fitted, cohort, True, quiet)
    words = title or f"Connections behind the prediction of {target}: {name_of(place)}"
    scores = _write(out, fitted, cohort, results, words, quiet)
    write_settings(out.with_suffix(".settings.toml"), context)
    if quiet:
        say_json({"report": out, "target": target, "scores": scores, "bytes": out.stat().st_size})
    else:
        say(f"the report: {out.resolve()}")


def _write(
    out: Path, fitted: Any, cohort: Cohort | GraphSet, results: Path | None, title: str, quiet: bool
) -> dict[str, float]:
    """Write the page; returns scores on subjects that the model was not trained on."""
    from cignn.report import write_score_report
    from cignn.report.inputs import weights_facts

    classifier, graphs = as_graphs(fitted, cohort)
    with working("explaining", not quiet):
        table = score_table(fitted, cohort, classifier.predict(graphs))
        explanations = classifier.explain(graphs)
    facts = {name: value for name, value in classifier.settings_.items() if value is not None}
    with working("writing", not quiet):
        write_score_report(
            out,
            table,
            explanations,
            target=classifier.target,
            title=title,
            results=None if results is None else _summary(results),
            facts={"model": type(classifier).__name__, **weights_facts(explanations), **facts},
            atlas=getattr(fitted, "atlas_", None),
        )
    return scores_of_table(table)


def _summary(folder: Path) -> pd.DataFrame:
    """Mean scores of the methods of an evaluation, with those that need no connection."""
    import pandas as pd

    from cignn.evaluation import Store, summary

    with Store(folder) as store:
        own = store.results()
    trivial = read_trivial(folder, own)
    rows = own
    if trivial is not None:
        rows = pd.concat([own, trivial.reindex(columns=own.columns)], ignore_index=True)
    metrics = [metric for metric in SCORE_NAMES if metric in set(rows["metric"])]
    return summary(rows, metrics).reset_index().drop(columns="data").rename(columns=SCORE_NAMES)
