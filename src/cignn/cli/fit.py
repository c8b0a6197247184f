"""`cignn fit`: from a cohort or graphs to a model folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import (
    FailedWorkError,
    InterruptedWorkError,
    command,
    complain,
    positive_words,
    say,
    say_json,
    say_words,
    show_facts,
)
from cignn.cli.decisions import Calibrate, Threshold, check_decisions, with_decisions
from cignn.cli.models import called, check_kind, check_methods, refuse_for_graphs, suggest_atlas
from cignn.cli.outputs import STEPS, evaluation_of, other_settings
from cignn.cli.reading import check_data, how_many, read_data
from cignn.cli.scores import (
    SCORE_NAMES,
    Target,
    predicts_scores,
    refuse_classes,
    refuse_target,
    score_methods,
)
from cignn.cli.settings import FILE, assignments, names_in, read_settings, settings_text
from cignn.cli.views import View, Views, check_views, with_steps

OTHERS: dict[str, Any] = {"views": None, "view": [], "calibrate": None, "threshold": None}  # beside STEPS


@command()
def fit(
    context: typer.Context,
    data: opt.Study,
    out: Annotated[Path, typer.Option(help="Folder to save the model in.", file_okay=False)] = Path("model"),
    method: opt.MethodName = "ci-gnn",
    preset: opt.Preset = None,
    connectivity: opt.Kind = None,
    fisher: opt.Fisher = False,
    combat: opt.Combat = False,
    combat_on: opt.CombatOn = "all",
    repeated_scans: opt.Repeated = "raise",
    covariates: opt.Covariates = None,
    unseen_sites: opt.Unseen = "raise",
    missing_covariates: opt.Missing = "raise",
    deconfound: opt.Deconfound = None,
    deconfound_on: opt.DeconfoundOn = "auto",
    density: opt.Density = None,
    views: Views = None,
    view: View = None,
    calibrate: Calibrate = None,
    threshold: Threshold = None,
    epochs: opt.Epochs = None,
    n_estimators: opt.NEstimators = None,
    settings: opt.Settings = None,
    hold_out: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=0.8,
            help="Share of subjects to hold out of training and score the model on.",
            metavar="SHARE",
        ),
    ] = 0.0,
    positive: opt.Positive = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of cignn evaluate whose scores of this method go into the model card.",
            metavar="FOLDER",
        ),
    ] = None,
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
    """Train a model on a cohort (or graphs) and save it for use on new subjects.

    With --target a score such as age is predicted instead of classes. --views fuses
    several connectivities, --calibrate and --threshold put decisions on top.

    Example: [bold]cignn fit my_study --out model --hold-out 0.2[/]
    """
    check_methods([method])
    (method,) = score_methods([method], target)
    refuse_classes(context, target, "positive", "views", "view", "calibrate", "threshold")
    refuse_target(target, deconfound, deconfound_on)
    check_data(data, format, label, assignments(load), target)
    check_kind(connectivity, fisher)
    fused = check_views(views, view, connectivity)
    cut, _ = check_decisions(calibrate, threshold, None)
    import numpy as np

    from cignn import Cohort
    from cignn.estimators import make_estimator
    from cignn.estimators.persistence import check_model_path
    from cignn.evaluation import Holdout, positive_class, write_model_card
    from cignn.evaluation.splits import labels_of

    check_model_path(out)
    evaluated = None if results is None else evaluation_of(results, f"{method}/stacked" if fused else method)
    given = {"preset": preset, "epochs": epochs, "n_estimators": n_estimators}
    params = assignments(settings) | {name: value for name, value in given.items() if value is not None}
    running = {"random_state": seed, "device": device, "verbose": int(not as_json)}
    running |= {} if target is None else {"target": target}
    classifier = make_estimator(method, **(running | params))
    named: dict[str, Any] = {"format": format, "label": label, "atlas": atlas, "target": target}
    cohort = read_data(data, **named, load=assignments(load), quiet=as_json)
    labels = labels_of(cohort) if target is None else labels_of(cohort).as_scores()
    counted = None if target is not None else positive_class(labels.y, positive)
    model: Any = classifier
    if isinstance(cohort, Cohort):
        suggest_atlas(cohort.roi_names, as_json)
        verbose = int(not as_json)
        cohort, made = with_steps(context, cohort, {method: classifier}, "subject", verbose)
        model = made[f"{method}/stacked"].set_params(random_state=seed) if fused else made[method]
    else:
        refuse_for_graphs(context)
    if calibrate is not None or cut is not None:
        n_classes = len(set(labels.y.tolist()))
        model = with_decisions({method: model}, calibrate, cut, counted, n_classes, "subject")[method]
        model.set_params(random_state=seed)
    train, validation, test = np.arange(len(cohort)), np.arange(0), np.arange(0)
    own_split = labels.parts is not None
    if hold_out and own_split:
        raise ValueError(f"{data} has test graphs of its own; leave out --hold-out.")
    if hold_out or own_split:
        split = Holdout(test_size=hold_out or 0.1).splits(labels, seed)[0]
        train, test = split.development, split.test
        if own_split and model is classifier and hasattr(classifier, "epochs"):
            train, validation = split.train, split.validation
    if not as_json:
        say_words(f"{cohort!r}")
        if unseen_sites == "raise" and (combat or "site" in names_in(deconfound or "")):
            complain(
                "note",
                "effects of the site are taken out, so the model will refuse subjects of other sites; "
                "--unseen-sites pass (leave their connections as they are) or grand_mean (shift each site "
                "to the mean) accepts them.",
            )
    started = time.perf_counter()
    with working(f"training {method}", not as_json and not hasattr(classifier, "epochs")):
        model.fit(cohort[train], **{"eval_set": cohort[validation]} if len(validation) else {})
    seconds = time.perf_counter() - started
    fitted = getattr(model, "classifier_", model)
    save_or_keep(model, out, {FILE: settings_text(context, **_resolved(fitted))})
    if evaluated is not None and results is not None:
        other = other_settings(read_settings(results), read_settings(out), STEPS | OTHERS)
        note = f"The models of the evaluation differed in {other}." if other else ""
        write_model_card(out, evaluated, positive=positive, note=note)

    interrupted = bool(getattr(fitted, "interrupted_", False))
    scores = _scores(model, cohort[test], counted) if len(test) else {}
    if as_json:
        content = {"model": out, "method": method, "trained_on": len(train), "held_out": len(test)}
        known = {"classes": model.classes_, "positive": counted} if target is None else {"target": target}
        content |= known | _learnt(model) | {"scores": scores}
        say_json(content | {"training_seconds": round(seconds, 2), "interrupted": interrupted})
    else:
        if scores:
            words = positive_words(counted) if target is None else f": {target}"
            named_scores = {SCORE_NAMES.get(name, name): value for name, value in scores.items()}
            show_facts(named_scores, f"{method} on {_counted(cohort, test)} held out{words}")
        say(f"trained on {_counted(cohort, train)} in {seconds:.0f} s; the model: {out}")
        for name, told in _learnt(model).items():
            if isinstance(told, dict):
                told = ", ".join(f"{key} {value:.2f}" for key, value in told.items())
            say_words(f"{name}: {told if isinstance(told, str) else f'{told:.3f}'}")
        if hasattr(fitted, "settings_") and hasattr(fitted, "explain"):
            say(f"to look at it: cignn report {out}")
    if interrupted:
        epoch = getattr(fitted, "best_epoch_", None)
        what = "the model" if epoch is None else f"the model of epoch {epoch}"
        raise InterruptedWorkError(f"{what} is kept in {out}.")


def _resolved(fitted: Any) -> dict[str, Any]:
    """What became of settings that depend on the data."""
    if not hasattr(fitted, "settings_"):
        return _learnt(fitted)
    return {**fitted.settings_, "best_epoch": getattr(fitted, "best_epoch_", None)}


def _learnt(model: Any) -> dict[str, Any]:
    """Shares of the views of a fusion, and the threshold of decisions; empty for other models."""
    inner = getattr(model, "estimator_", model)
    told: dict[str, Any] = {}
    if hasattr(inner, "shares_"):
        told["shares"] = {str(name): float(share) for name, share in inner.shares_.items()}
    if getattr(model, "threshold_", None) is not None:
        told["threshold"] = float(model.threshold_)
    return told


def _scores(model: Any, held_out: Any, positive: Any) -> dict[str, float]:
    """Scores on subjects, or graphs, that were held out of training."""
    from cignn.evaluation import classification_scores, regression_scores

    if predicts_scores(model):
        return regression_scores(held_out.y, model.predict(held_out))
    chances = model.predict_proba(held_out)
    return dict(classification_scores(held_out.y, called(model, chances), model.classes_, chances, positive))


def _counted(data: Any, index: Any) -> str:
    """Say how many subjects, or scans of how many, or graphs the places are."""
    return how_many(data.subjects[index]) if hasattr(data, "subjects") else f"{len(index)} graphs"


def save_or_keep(model: Any, out: Path, notes: Mapping[str, str]) -> None:
    """Save a trained model; where that fails, keep it somewhere else and say where."""
    try:
        model.save(out, notes)
        return
    except (OSError, ValueError) as error:
        failure = str(error)
    for place in (out.absolute().parent, Path.cwd(), Path(tempfile.gettempdir())):
        kept = place / f"cignn-model-{datetime.now():%Y-%m-%d-%H-%M-%S}"
        try:
            model.save(kept, notes)
        except (OSError, ValueError):
            continue
        raise FailedWorkError(f"{failure} The trained model is kept in {kept}.")
    raise FailedWorkError(f"{failure} The trained model could be kept nowhere.")
