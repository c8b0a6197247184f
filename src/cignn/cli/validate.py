"""`cignn validate`: a saved model on a cohort from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import write_csv
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import NAMES, command, complain, positive_words, say, say_json, say_words, show_table
from cignn.cli.models import positive_of, read_new, with_names
from cignn.cli.nuisances import joined, show_nuisances
from cignn.cli.reading import check_folder, check_model, format_of, how_many
from cignn.cli.scores import SCORE_NAMES, Target, predicts_scores, refuse_classes, target_of
from cignn.cli.settings import FILE, write_settings
from cignn.cli.views import NewView, with_new_views

if TYPE_CHECKING:
    from cignn.evaluation import ScoreValidation, Validation

DRIFTED = 5  # connections shown


@command()
def validate(
    context: typer.Context,
    model: opt.ModelFolder,
    new: Annotated[
        Path,
        typer.Argument(help="Labelled subjects from elsewhere: a folder or file as for fit.", metavar="DATA"),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", help="Folder to write the tables into.", file_okay=False),
    ] = None,
    recentre: Annotated[
        bool,
        typer.Option(
            "--recentre",
            help="Transductive: shift the connections of each site to the training mean. It uses all new "
            "subjects of a site, without their labels.",
        ),
    ] = False,
    positive: opt.Positive = None,
    view: NewView = None,
    seed: opt.Seed = 0,
    label: opt.Label = "label",
    target: Target = None,
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Score a saved model on a cohort from elsewhere, such as another site.

    Scores with intervals beside those of a trivial predictor, calibration, scores
    and drift of each site, and whether predictions follow motion, age, sex or
    site. Nothing is fitted. Regions, connectivity and classes must be the model's.
    Of a model of scores: MAE, R², r and Spearman, beside the training mean and the
    site's mean; --target names the column where it is not that of the model.

    Example: [bold]cignn validate model other_study --out validated[/]
    """
    check_model(model)
    format_of(new, format)
    from cignn import Cohort, CohortClassifier, load_model
    from cignn.estimators import GraphEstimator
    from cignn.evaluation import validate as score

    if out is not None:
        check_folder(out)
    fitted = load_model(model)
    if isinstance(getattr(fitted, "estimator_", fitted), GraphEstimator):
        raise ValueError(f"{model} is a model of graphs; a validation needs one that was fitted on a cohort.")
    of_scores = predicts_scores(fitted)
    if of_scores:
        refuse_classes(context, fitted.classifier_.target, "positive")
    elif target is not None:
        raise typer.BadParameter(
            f"is for models of scores, {model} predicts classes; leave it out.", param_hint="'--target'"
        )
    counted = None if of_scores else positive_of(fitted, model, positive)
    column = target_of(model, target) if of_scores else None
    cohort = read_new(new, model, format, label, atlas, load, as_json, column)
    if not isinstance(cohort, Cohort):
        raise ValueError(f"{new} holds graphs without subjects; a validation needs a cohort.")
    cohort = with_new_views(fitted, cohort, view, label, as_json)
    fitted = with_names(fitted, cohort, atlas is not None, quiet=True)
    with working("validating", not as_json):
        found: Any = score(fitted, cohort, recentre=recentre, positive=counted, random_state=seed)
    if out is not None:
        write_validation(out, found)
        write_settings(out / FILE, context)
    if as_json:
        say_json((score_content(found) if of_scores else as_content(found)) | {"out": out})
        return
    if of_scores:
        show_score_validation(found)
    else:
        several = not isinstance(getattr(fitted, "estimator_", fitted), CohortClassifier)
        show_validation(found, counted, several=several)
    if out is not None:
        say(f"predictions, scores and drift: {out}")


def write_validation(out: Path, found: Validation | ScoreValidation) -> None:
    """Write every table of a validation into a folder."""
    from cignn.evaluation.validation import TASK

    tables: dict[str, Any] = {
        "predictions": found.predictions.drop(columns=[*TASK, "position"]),
        "scores": found.scores,
    }
    tables["reliability"] = found.reliability
    others = {"sites": found.sites, "nuisances": found.nuisances, "drift": found.drift}
    for name, table in (tables | {k: t for k, t in others.items() if t is not None}).items():
        write_csv(out / f"{name}.csv", table)


def as_content(found: Validation) -> dict[str, Any]:
    """Return what --json prints."""
    shown: dict[str, Any] = {
        "subjects": found.predictions["subject"].nunique(),
        "scans": len(found.predictions),
    }
    shown |= {"left_out": found.left_out, "positive": found.positive, "recentred": found.recentred}
    shown |= {"scores": found.scores, "calibration": found.calibration._asdict()}
    shown |= {"reliability": found.reliability, "sites": found.sites, "nuisances": found.nuisances}
    auc = None if found.site_auc is None else found.site_auc._asdict()
    return shown | {"site_controlled_auc": auc, "drift": drift_summary(found)}


def drift_summary(found: Validation | ScoreValidation) -> dict[str, Any] | None:
    """Mean shift and spread of the connections; None for models that do not know their training ones."""
    if found.drift is None:
        return None
    facts = {"mean_shift": found.mean_shift, "by_chance": found.shift_by_chance}
    return facts | {"median_spread": float(found.drift["spread"].median())}


def show_validation(found: Validation, positive: Any, several: bool = False) -> None:
    """Show a validation on the screen; several : the model reads several views, or a table."""
    if found.left_out:
        complain("note", f"{found.left_out} scans are left out: the model was trained on them.")
    words = ", recentred (transductive)" if found.recentred else ""
    title = f"{how_many(found.predictions['subject'])}{words}: scores with 95 % intervals"
    named = [NAMES.get(metric, metric.replace("_", " ")) for metric in found.scores["metric"]]
    show_table(found.scores.assign(metric=named), title + positive_words(positive))
    line = found.calibration
    say_words(
        f"calibration: slope {line.slope:.2f} ({line.slope_low:.2f} to {line.slope_high:.2f}), intercept "
        f"{line.intercept:.2f} ({line.intercept_low:.2f} to {line.intercept_high:.2f}); perfect are 1 and 0"
    )
    show_table(found.reliability, "probability and frequency", digits=2)
    show_drift(found, several)
    if found.sites is not None and len(found.sites) > 1:
        show_table(found.sites, "by site", digits=2)
    if found.nuisances is not None:
        from cignn.evaluation.nuisances import NuisanceChecks

        show_nuisances(joined({"model": NuisanceChecks(found.nuisances, found.site_auc)}))


def show_drift(found: Validation | ScoreValidation, several: bool = False) -> None:
    """Show how far the connections lie from those of the training cohort; several : see `show_validation`."""
    drift = drift_summary(found)
    if several:
        complain("note", "drift is not measured: the model does not read connections of one kind.")
    elif drift is None:
        complain(
            "note",
            "drift is unknown: the model does not know its training connections; fit and save it again with "
            "this version.",
        )
    else:
        say_words(
            f"drift of the connections: mean shift {drift['mean_shift']:.2f} standard deviations of the "
            f"training cohort (sampling error alone {drift['by_chance']:.2f}), spread × "
            f"{drift['median_spread']:.2f}"
        )
        assert found.drift is not None
        show_table(found.drift.head(DRIFTED), "connections that drifted most", digits=2)


# ------------------------------------------------------------------ models of scores


def score_content(found: ScoreValidation) -> dict[str, Any]:
    """Return what --json prints of a model of scores."""
    shown: dict[str, Any] = {
        "target": found.target,
        "subjects": found.predictions["subject"].nunique(),
        "scans": len(found.predictions),
        "left_out": found.left_out,
        "recentred": found.recentred,
        "training_mean": found.training_mean,
        "score_shift": found.score_shift,
        "scores": found.scores,
        "calibration": found.calibration._asdict(),
    }
    shown |= {"reliability": found.reliability, "sites": found.sites, "nuisances": found.nuisances}
    within = None if found.site_r2 is None else found.site_r2._asdict()
    return shown | {"site_controlled_r2": within, "drift": drift_summary(found)}


def show_score_validation(found: ScoreValidation) -> None:
    """Show the validation of a model of scores on the screen."""
    if found.left_out:
        complain("note", f"{found.left_out} scans are left out: the model was trained on them.")
    words = ", recentred (transductive)" if found.recentred else ""
    people = how_many(found.predictions["subject"])
    named = [SCORE_NAMES[metric] for metric in found.scores["metric"]]
    columns = {"trivial": "training mean", "site_mean": "site's mean"}
    known = found.scores.dropna(axis=1, how="all").assign(metric=named).rename(columns=columns)
    show_table(known, f"{found.target} of {people}{words}: scores with 95 % intervals")
    line = found.calibration
    say_words(
        f"calibration, observed on predicted: slope {line.slope:.2f} ({line.slope_low:.2f} to "
        f"{line.slope_high:.2f}), intercept {line.intercept:.2f} ({line.intercept_low:.2f} to "
        f"{line.intercept_high:.2f}), bias {line.bias:.2f} ({line.bias_low:.2f} to {line.bias_high:.2f}); "
        "perfect are 1, 0 and 0"
    )
    say_words(
        f"mean {found.target} {found.predictions['y_true'].mean():.2f}, {found.training_mean:.2f} in the "
        f"training cohort ({found.score_shift:+.2f} of its standard deviations)"
    )
    show_table(found.reliability, "predicted and observed", digits=2)
    show_drift(found)
    if found.sites is not None and len(found.sites) > 1:
        show_table(found.sites.rename(columns=SCORE_NAMES), "by site", digits=2)
    if found.nuisances is not None:
        from cignn.evaluation.nuisances import NuisanceChecks

        show_nuisances(joined({"model": NuisanceChecks(found.nuisances, None, found.site_r2)}), "score")
