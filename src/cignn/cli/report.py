"""`cignn report`: a model or an evaluation as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import InterruptedWorkError, command, complain, say, say_json
from cignn.cli.learning import read_learning
from cignn.cli.models import (
    cohort_model,
    estimators_of,
    explainable,
    explained,
    with_correlations,
    with_names,
)
from cignn.cli.outputs import STEPS, other_settings, read_permutations, read_trivial, told_settings
from cignn.cli.reading import (
    as_graphs,
    check_file,
    format_of,
    missing_tasks,
    name_of,
    planned,
    read_data,
    subject_names,
)
from cignn.cli.scans import atlas_for
from cignn.cli.scores import report_of_scores
from cignn.cli.settings import FILE, assignments, names_in, read_settings, to_toml, write_settings

if TYPE_CHECKING:
    import pandas as pd

    from cignn import Cohort, GraphSet
    from cignn.evaluation import Reproducibility
    from cignn.evaluation.tasks import MissingTask
    from cignn.explanations import GroupExplanation

GROUP_FILE = "group.npz"
HOLD_OUT = 0.2  # of the subjects, when a report trains its own model
KNOWN: dict[str, dict[Any, str]] = {  # what readers call the labels
    "abide": {0: "TD", 1: "ASD"},
    "rest-meta-mdd": {0: "control", 1: "MDD"},
    "srpbs": {0: "control", 1: "patient"},
}
# settings of an evaluation on which the model of its report depends
DECISIVE = ("data", "format", "label", "atlas", "load", "methods", "model", *STEPS)


@command()
def report(
    context: typer.Context,
    run: Annotated[
        Path, typer.Argument(help="Folder written by cignn fit or cignn evaluate.", metavar="RUN")
    ],
    data: Annotated[
        Path | None,
        typer.Argument(help="Subjects to show; by default those of the run.", metavar="[DATA]"),
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.", metavar="FILE")] = Path("report.html"),
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of cignn evaluate whose scores to show with a model.", metavar="FOLDER"),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Folder of cignn fit whose explanations to show with an evaluation.", metavar="FOLDER"
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", metavar="TEXT")] = None,
    class_names: Annotated[
        str | None, typer.Option(help="Names of the labels, such as 0=controls,1=patients.", metavar="NAMES")
    ] = None,
    audit: Annotated[bool, typer.Option(help="Include an audit of the cohort.")] = True,
    files: Annotated[
        bool,
        typer.Option(help="Write methods.md, tables and figures for a paper to a folder beside the page."),
    ] = True,
    resamples: Annotated[
        int,
        typer.Option(
            min=0,
            help="Half-samples on which the model is trained again, to say which connections survive. "
            "Takes long; kept beside the report.",
            metavar="N",
        ),
    ] = 0,
    group: Annotated[
        Path | None,
        typer.Option(
            help="Folder of cignn group, or an .npz kept by --resamples, to show instead.", metavar="PATH"
        ),
    ] = None,
    explainer: opt.ExplainerName = "auto",
    positive: opt.Positive = None,
    seed: opt.Seed = 0,
    label: opt.Label = "label",
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Write a report as one HTML file that opens offline in any browser.

    The scores of an evaluation are shown as they are. Where it comes without a
    model, one is trained on four fifths of the subjects and saved in its folder:
    ci-gnn, else the first method that explains itself, else the first network.
    With --resamples 100 the report says which connections of the group survive.

    Example: [bold]cignn report model --out report.html[/]
    """
    check_file(out, ".html")
    if group is not None and resamples:
        raise typer.BadParameter("has no use beside --group.", param_hint="'--resamples'")
    is_results = (run / "results.sqlite").is_file()
    if not run.is_dir() or not (is_results or (run / "config.json").is_file()):
        raise FileNotFoundError(f"{run} is not a folder written by cignn fit or cignn evaluate.")
    from cignn import Cohort, load_model
    from cignn.evaluation.splits import labels_of
    from cignn.report import report_of, write_report
    from cignn.report.inputs import steps_of
    from cignn.report.methods_text import OTHER

    results, model = (run, model) if is_results else (results, run)
    settings = read_settings(run)
    fitted = None if model is None else load_model(model)
    if fitted is not None and not hasattr(getattr(fitted, "classifier_", fitted), "settings_"):
        raise ValueError(
            f"a report shows one classifier of graphs, and {model} is made of others "
            f"({type(fitted).__name__}); see cignn explain {model} and cignn validate {model}."
        )
    if settings.get("target") is not None:
        for name, value in {"--group": group, "--resamples": resamples}.items():
            if value:
                raise typer.BadParameter(
                    "is for classes, this report is of a score; the tables of cignn group stand beside it.",
                    param_hint=f"'{name}'",
                )
        shown = with_names if atlas is not None else None
        report_of_scores(context, run, data, out, fitted, results, title, shown, as_json)
        return
    place, found_format, cohort = _read_subjects(run, data, settings, label, atlas, format, load, as_json)
    classes = labels_of(cohort).y if fitted is None else fitted.classes_
    names = _class_names(class_names, classes, found_format)
    counted = _positive(positive, classes, names, results, model)
    evaluated = _evaluated(results, counted)
    try:
        if fitted is None:
            model, fitted = _trained(run, settings, cohort, seed, as_json)
        fitted = with_names(fitted, cohort, atlas is not None, as_json)
        classifier, graphs = as_graphs(fitted, cohort)
        explanations = explained(classifier, graphs, explainer, seed, as_json)
        explanations = with_correlations(explanations, fitted, cohort)
        seen = fitted.trained_on(cohort)
        if isinstance(cohort, Cohort):
            cohort = fitted.with_rois(cohort)
        explained_group = _group(group, resamples, fitted, cohort, counted, out, seed, as_json)
        with working("looking for leaks", not as_json):
            findings = (
                _audited(cohort, names, steps_of(fitted)) if audit and isinstance(cohort, Cohort) else None
            )
        content = report_of(
            classifier,
            graphs,
            cohort if isinstance(cohort, Cohort) else None,
            evaluated.scores,
            findings,
            explanations=explanations,
            held_out=~seen,
            predictions=evaluated.of_method(_method(model, run, settings)),
            missing=evaluated.missing,
            positive=counted,
            class_names=names,
            title=title or f"Connections behind the decisions: {place}",
            group=explained_group,
            reproducibility=_agreements(group, graphs),
            steps=steps_of(fitted),
            permutations=evaluated.permutations,
            trivial=evaluated.trivial,
            learning=evaluated.learning,
            random_state=seed,
            verbose=int(not as_json),
        )
        if results is not None and model is not None and (model / FILE).is_file():
            other = other_settings(read_settings(results), read_settings(model), STEPS)
            said = told_settings(read_settings(results)) | ({OTHER: other} if other else {})
            content = replace(content, facts={**content.facts, **said})
        with working("writing", not as_json):
            write_report(out, content, files=files)
    except KeyboardInterrupt:
        raise InterruptedWorkError(_kept(out, run / "model")) from None
    write_settings(out.with_suffix(".settings.toml"), context)
    if as_json:
        counts = {"subjects": len(set(subject_names(cohort))), "scans": len(graphs)}
        told = {"positive": counted, "missing": [str(task) for task in evaluated.missing]}
        told["files"] = out.with_name(f"{out.stem}_files") if files else None
        say_json({"report": out, "model": model, **counts, **told, "bytes": out.stat().st_size})
    else:
        if evaluated.missing:
            n = len(evaluated.missing)
            complain("note", f"the evaluation is unfinished, {n} tasks are missing; nothing is ranked.")
        say(f"the report: {out.resolve()}")
        if files:
            say(f"for the paper: {out.resolve().with_name(f'{out.stem}_files')}")


def _group(
    given: Path | None,
    resamples: int,
    fitted: Any,
    cohort: Cohort | GraphSet,
    target: Any,
    out: Path,
    seed: int,
    quiet: bool,
) -> GroupExplanation | None:
    """Read the group's explanation, or make it and keep it beside the report; None if not asked for."""
    import pandas as pd

    from cignn.explanations import GroupExplanation

    if given is not None:
        file = given / GROUP_FILE if given.is_dir() else given
        if not file.is_file():
            raise FileNotFoundError(f"{given} is not a folder written by cignn group.")
        return GroupExplanation.load(file)
    if not resamples:
        return None
    from cignn.explainers import explain_group

    known = None if cohort.y is None else pd.Series(cohort.y).isin(fitted.classes_.tolist()).to_numpy()
    if known is None or not known.any():
        raise ValueError("--resamples needs labelled subjects, got none.")
    if target is None:
        raise typer.BadParameter(
            "is for two classes; of several, explain one with cignn group --positive and show it by --group.",
            param_hint="'--resamples'",
        )
    running: dict[str, Any] = {"n_resamples": resamples, "random_state": seed, "verbose": int(not quiet)}
    found = explain_group(fitted, cohort if known.all() else cohort[known], target=target, **running)
    found.save(out.with_suffix(".group.npz"))
    return found


def _agreements(folder: Path | None, graphs: GraphSet) -> list[Reproducibility]:
    """Read what cignn group found about halves of the subjects."""
    import pandas as pd

    from cignn.evaluation import Reproducibility
    from cignn.explanations.stability import top_count

    n = int(graphs.n_nodes.max(initial=0))
    n_connections = n * (n - 1) // 2
    names = ("halves", "sites")
    files = {} if folder is None else {by: folder / f"reproducibility_{by}.csv" for by in names}
    return [
        Reproducibility(pd.read_csv(file), by, top_count(n_connections), n_connections)
        for by, file in files.items()
        if file.is_file()
    ]


def _kept(out: Path, model: Path) -> str:
    """What Ctrl-C leaves."""
    kept = f"the model is kept in {model}; " if (model / "config.json").is_file() else ""
    older = f", the older {out} stays" if out.is_file() else ""
    return f"{kept}no report was written{older}."


def _read_subjects(
    run: Path,
    data: Path | None,
    settings: dict[str, Any],
    label: str,
    atlas: str | None,
    format: str,
    load: list[str] | None,
    quiet: bool,
) -> tuple[str, str, Cohort | GraphSet]:
    """Read the subjects given, or those of the run in the way it read them; with their name and format."""
    options = assignments(load)
    if data is None:
        named = settings.get("data")
        places = [] if named is None else [Path(named), run / named, run.parent / named]
        data = next((place for place in places if place.exists()), None)
        if data is None:
            where = "" if named is None else f" ({named} is not there any more)"
            raise ValueError(
                f"{run} does not say where its subjects are{where}; name them: cignn report {run} DATA."
            )
        kept = settings.get("load", {})
        options = {**kept, **options} if isinstance(kept, dict) else options
        label = settings.get("label", label) if label == "label" else label
        atlas = settings.get("atlas", atlas) if atlas is None else atlas
        format = settings.get("format", format) if format == "auto" else format
    atlas = atlas_for(data, atlas, settings)
    found = read_data(data, format=format, label=label, atlas=atlas, load=options, new=True, quiet=quiet)
    return name_of(data), format_of(data, format), found


def _trained(
    run: Path, settings: dict[str, Any], cohort: Cohort | GraphSet, seed: int, quiet: bool
) -> tuple[Path, Any]:
    """Train the method of an evaluation that can be explained and keep it beside the results.

    A model that is there is taken, unless an earlier report trained it with other settings.
    """
    from cignn import Cohort, load_model
    from cignn.evaluation import Holdout

    place = run / "model"
    asked = {name: settings[name] for name in DECISIVE if name in settings}
    if (place / "config.json").is_file():
        kept = read_settings(place)
        if "methods" not in kept or asked == {name: kept[name] for name in DECISIVE if name in kept}:
            try:
                return place, load_model(place)
            except ValueError as error:  # of an older version
                told = str(error).removesuffix(".")
                raise ValueError(f"{told}, or delete {place}: the report then trains a new one.") from None
    made = _methods(run, settings)
    able = explainable(made)
    if not able:
        raise ValueError(
            f"the report shows explanations, and no method of {run} can be explained; give "
            f"a model: cignn report {run} --model MODEL."
        )
    classifier: Any = made[able[0]].set_params(random_state=seed, verbose=int(not quiet))
    fitted: Any = classifier
    if isinstance(cohort, Cohort):
        choices = [settings.get(name, default) for name, default in STEPS.items()]
        positive = settings.get("positive")
        fitted = cohort_model(classifier, cohort, *choices, positive=positive, verbose=int(not quiet))
    split = Holdout(test_size=HOLD_OUT).splits(cohort, seed)[0]
    if not quiet:
        complain("note", f"training {able[0]} on {len(split.development)} of {len(cohort)} for the report")
    fitted.fit(cohort[split.development])
    if getattr(fitted, "interrupted_", False):
        raise KeyboardInterrupt  # half a training is no model to report on
    fitted.save(place, {FILE: to_toml({**asked, "method": able[0]})})
    return place, fitted


def _methods(run: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Make the methods of an evaluation."""
    names = names_in(settings.get("methods"))
    try:
        return (
            estimators_of(names, settings.get("model", {}), settings.get("device", "auto")) if names else {}
        )
    except (ValueError, typer.BadParameter) as error:  # settings of another version
        told = error.message if isinstance(error, typer.BadParameter) else error
        raise ValueError(f"{run / FILE}: {told}") from None


class _Evaluated(NamedTuple):
    """What a report shows of an evaluation: its scores, its predictions and what is missing."""

    scores: pd.DataFrame | None = None
    predictions: pd.DataFrame | None = None
    missing: Sequence[MissingTask] = ()
    permutations: pd.DataFrame | None = None
    trivial: pd.DataFrame | None = None
    learning: pd.DataFrame | None = None

    def of_method(self, name: str | None) -> pd.DataFrame | None:
        """Return the predictions of one method; None where there are none."""
        if self.predictions is None:
            return None
        own = self.predictions[self.predictions["method"] == name]
        return own if len(own) else None


def _evaluated(results: Path | None, positive: Any = None) -> _Evaluated:
    """Read the evaluation asked for last; the store of the folder may hold others."""
    from cignn.evaluation import Store
    from cignn.evaluation.resampling import rescored
    from cignn.evaluation.tables import refuse_mixtures

    if results is None:
        return _Evaluated()
    if not (results / "results.sqlite").is_file():
        raise FileNotFoundError(f"{results} is not a folder written by cignn evaluate.")
    plan = planned(results)
    with Store(results) as store:
        rows, predictions, missing = store.results(), store.predictions(), missing_tasks(plan, store)
    if plan:
        keys = [key for key, *_ in plan]
        rows, predictions = (table[table["key"].isin(keys)] for table in (rows, predictions))
    try:
        refuse_mixtures(rows)
    except ValueError as error:
        line = f"{results}: {str(error).partition(';')[0]}"
        raise ValueError(f"{line}; evaluate again what to show, which repeats nothing.") from None
    if positive is not None:
        rows = rescored(rows, predictions, positive)
    beside = (read_permutations(results, rows), read_trivial(results, rows), read_learning(results, rows))
    return _Evaluated(rows.reset_index(drop=True), predictions.reset_index(drop=True), missing, *beside)


def _positive(
    given: str | None, classes: Any, names: dict[Any, str], results: Path | None, model: Path | None
) -> Any:
    """Return the class that counts as positive: the one given, else that of the evaluation or the model."""
    from cignn.evaluation import positive_class

    said = [read_settings(folder).get("positive") for folder in (results, model) if folder is not None]
    wanted = given or next((word for word in said if word is not None), None)
    by_name = {name: label for label, name in names.items()}
    return positive_class(classes, by_name.get(str(wanted), wanted))


def _method(model: Path | None, run: Path, settings: dict[str, Any]) -> str | None:
    """Return the name that the model's method has in an evaluation."""
    own = {} if model is None else read_settings(model)
    if "method" in own:
        return str(own["method"])
    names = names_in(settings.get("methods")) if model == run / "model" else []
    able = explainable(estimators_of(names, {}, "cpu")) if names else []
    return able[0] if able else None


def _audited(cohort: Cohort, names: dict[Any, str], steps: Sequence[Any]) -> Any:
    """Audit a cohort whose labels are called what readers call them; what the model regresses out is out."""
    from sklearn.base import clone

    from cignn.connectome import Deconfound
    from cignn.evaluation import audit

    labels = [] if cohort.y is None else cohort.y.tolist()
    known = bool(names) and len(labels) > 0 and set(labels) <= set(names)
    named = cohort._with(y=[names[label] for label in labels]) if known else cohort
    own = next((clone(step) for step in steps if isinstance(step, Deconfound)), None)
    if own is not None:
        own.set_params(unseen="pass", control=names.get(own.control, own.control) if known else own.control)
    return audit(named, deconfound=own)


def _class_names(given: str | None, classes: Any, format: str) -> dict[Any, str]:
    """Return label → name; labels are written as they stand in the data."""
    labels = {str(label): label for label in sorted(set(classes.tolist()), key=str)}
    out = {label: name for label, name in KNOWN.get(format, {}).items() if label in labels.values()}
    for word in names_in(given):
        label, sign, name = word.partition("=")
        if not sign or label.strip() not in labels:
            known = ", ".join(labels)
            raise typer.BadParameter(
                f"expected LABEL=NAME with a label of {known}, got '{word}'.", param_hint="'--class-names'"
            )
        out[labels[label.strip()]] = name.strip()
    return out
