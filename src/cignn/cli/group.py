"""`cignn group`: which connections separate classes or tell a score, how sure that is, and if it returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._checks import meant
from cignn._files import write_csv, write_text
from cignn.cli import options as opt
from cignn.cli.app import InterruptedWorkError, command, say, say_json, say_words
from cignn.cli.models import check_kind, check_methods, cohort_model, refuse_for_graphs
from cignn.cli.reading import check_data, check_folder, read_data
from cignn.cli.scores import Target, refuse_classes, refuse_target, score_methods
from cignn.cli.settings import FILE, assignments, names_in, write_settings

if TYPE_CHECKING:
    from cignn import GroupExplanation
    from cignn.evaluation import Reproducibility

BY = ["halves", "sites"]


def _ways(text: str | None) -> list[str]:
    """Return the ways to divide the subjects; refuse others before the data are read."""
    ways = names_in(text)
    for way in ways:
        if way not in BY:
            raise typer.BadParameter(
                f"there is no '{way}'; {meant(way, BY)}", param_hint="'--reproducibility'"
            )
    return ways


@command()
def group(
    context: typer.Context,
    data: opt.Study,
    out: Annotated[Path, typer.Option(help="Folder to write into.", file_okay=False)] = Path("group"),
    n_resamples: Annotated[
        int, typer.Option(min=2, help="Number of half-samples of the subjects.", metavar="N")
    ] = 100,
    n_permutations: Annotated[
        int, typer.Option(min=0, help="Number of permutations of the labels.", metavar="N")
    ] = 20,
    alpha: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="q-value up to which connections survive.", metavar="Q")
    ] = 0.1,
    reproducibility: Annotated[
        str | None,
        typer.Option(
            help="Also compare explanations of disjoint halves, sites or both: halves,sites. Takes longer.",
            autocompletion=opt._words(BY),
            metavar="NAMES",
        ),
    ] = None,
    splits: Annotated[
        int, typer.Option(min=1, help="Number of times --reproducibility divides.", metavar="N")
    ] = 5,
    positive: opt.Positive = None,
    method: opt.MethodName = "ci-gnn",
    preset: opt.Preset = None,
    connectivity: opt.Kind = None,
    fisher: opt.Fisher = False,
    combat: opt.Combat = False,
    combat_on: opt.CombatOn = "all",
    repeated_scans: opt.Repeated = "raise",
    covariates: opt.Covariates = None,
    unseen_sites: opt.Unseen = "grand_mean",
    missing_covariates: opt.Missing = "raise",
    deconfound: opt.Deconfound = None,
    deconfound_on: opt.DeconfoundOn = "auto",
    density: opt.Density = None,
    epochs: opt.Epochs = None,
    n_estimators: opt.NEstimators = None,
    settings: opt.Settings = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    label: opt.Label = "label",
    target: Target = None,
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Explain what separates two classes of a cohort, or tells a score.

    Models are trained on half-samples of the subjects and on permuted labels.
    The folder then holds summary.txt, connections.csv (effects, stability, q),
    systems.csv, components.csv, nuisance.csv and group.npz. With --target the
    connections are those that tell a score such as age.

    Example: [bold]cignn group my_study --deconfound age,site --out group[/]
    """
    check_methods([method])
    (method,) = score_methods([method], target)
    refuse_classes(context, target, "positive")
    refuse_target(target, deconfound, deconfound_on)
    check_data(data, format, label, assignments(load), target)
    check_kind(connectivity, fisher)
    ways = _ways(reproducibility)
    from cignn import Cohort
    from cignn.estimators import make_estimator
    from cignn.evaluation import reproducibility as compare_halves
    from cignn.evaluation.splits import labels_of
    from cignn.explainers import explain_group

    check_folder(out)
    given = {"preset": preset, "epochs": epochs, "n_estimators": n_estimators}
    params = assignments(settings) | {name: value for name, value in given.items() if value is not None}
    params |= {} if target is None else {"target": target}
    model: Any = make_estimator(method, **({"random_state": seed, "device": device} | params))
    named: dict[str, Any] = {"format": format, "label": label, "atlas": atlas, "target": target}
    cohort = read_data(data, **named, load=assignments(load), quiet=as_json)
    counted = None if target is not None else _target(labels_of(cohort).y, positive)
    if isinstance(cohort, Cohort):
        steps = (connectivity, fisher, combat, covariates, unseen_sites, missing_covariates, density)
        choices = (*steps, deconfound, deconfound_on, combat_on, repeated_scans)
        model = cohort_model(model, cohort, *choices, positive=positive)
    else:
        refuse_for_graphs(context)
    if not as_json:
        say_words(f"{cohort!r}")
    running: dict[str, Any] = {"n_resamples": n_resamples, "random_state": seed, "verbose": int(not as_json)}
    tested: dict[str, Any] = {"n_permutations": n_permutations, "alpha": alpha, "target": counted}
    found = explain_group(model, cohort, **tested, **running)
    found.to_csv(out)
    found.save(out / "group.npz")
    write_text(out / "summary.txt", found.summary() + "\n")
    write_settings(out / FILE, context)
    if not as_json:
        say_lines(found.summary())
    compared: dict[str, Reproducibility] = {}
    try:
        for by in ways:
            compared[by] = compare_halves(model, cohort, by, n_splits=splits, options=tested, **running)
            write_csv(out / f"reproducibility_{by}.csv", compared[by].table)
            if not as_json:
                say_lines(f"\n{compared[by].summary()}")
    except KeyboardInterrupt:
        raise InterruptedWorkError(
            f"the group explanation is in {out}; its reproducibility was not measured to the end."
        ) from None
    if as_json:
        say_json(_content(found, compared) | {"out": out})
    else:
        say(f"tables of connections, systems and components: {out}")


def _target(labels: Any, positive: str | None) -> Any:
    """Return the class to explain: of several, the one that --positive names."""
    from cignn.evaluation import positive_class

    classes = sorted(set(labels.tolist()))
    if len(classes) <= 2:
        return positive_class(labels, positive)
    named = [one for one in classes if str(one) == positive]
    if not named:
        raise typer.BadParameter(
            f"there are {len(classes)} classes; name the one to explain against all others: "
            f"{', '.join(map(str, classes))}.",
            param_hint="'--positive'",
        )
    return named[0]


def say_lines(text: str) -> None:
    """Write lines that are short enough for any terminal."""
    for line in text.splitlines():
        say(line)


def _content(found: GroupExplanation, compared: dict[str, Reproducibility]) -> dict[str, Any]:
    """Return what JSON says: of connections those that survive, all of the smaller tables."""
    facts = ("classes", "n_subjects", "reading", "reason", "alpha", "p", "systems", "components", "nuisance")
    return {
        **{name: getattr(found, name) for name in facts},
        "target": found.score or None,
        "connections": found.table[found.table["selected"]],
        "reproducibility": {by: one.means for by, one in compared.items()},
    }
