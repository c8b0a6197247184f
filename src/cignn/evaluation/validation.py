"""`validate`: a fitted model on a cohort from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pandas as pd

from cignn._checks import DataError, Option, name_some
from cignn.connectome.connectome_graphs import TrainingConnections
from cignn.datasets.cohort import Cohort
from cignn.estimators.cohort_classifier import CohortClassifier, CohortRegressor
from cignn.estimators.decision_classifier import DecisionClassifier
from cignn.estimators.model_parts import SavedModel, whole
from cignn.evaluation.calibration import CalibrationLine, brier_score, calibration_line
from cignn.evaluation.classification import calibration_curve, classification_scores, positive_class
from cignn.evaluation.drift import connection_drift, prepared, recentred, shift_by_chance, site_members
from cignn.evaluation.methods import predicts_scores
from cignn.evaluation.nuisances import nuisance_checks
from cignn.evaluation.resampling import bootstrap_intervals
from cignn.evaluation.score_validation import TASK, ScoreValidation, validate_scores
from cignn.evaluation.site_auc import SiteControlledAUC

SITE_SCORES = ("accuracy", "balanced_accuracy", "roc_auc")


@dataclass(frozen=True)
class Validation:
    """How a model does on a cohort from elsewhere.

    Parameters
    ----------
    predictions : DataFrame
        One row per scan: subject, site, y_true, y_pred and p_<class>.
    scores : DataFrame
        metric, value, low, high (95 %, bootstrap over subjects) and trivial: what always predicting the
        larger class of these subjects gives.
    calibration : CalibrationLine
        Intercept and slope of the line that would calibrate the log-odds; 0 and 1 are perfect.
    reliability : DataFrame
        Predicted probability, observed frequency and count in ten bins.
    sites : DataFrame or None
        Subjects, scores and drift of each site.
    nuisances : DataFrame or None
        Whether predictions follow a nuisance at equal label, see `nuisance_table`.
    site_auc : SiteControlledAUC or None
        AUC among subjects of the same site.
    drift : DataFrame or None
        source, target and shift (in standard deviations of the training cohort) and spread (ratio of standard
        deviations) of each connection; None for models that do not know their training connections.
    left_out : int
        Scans that the model was trained on, which are not scored.
    positive : object
        The positive class of two.
    recentred : bool
        Whether connections were shifted to the training mean, which uses all new subjects (transductive).
    shift_by_chance : float
        Mean size of a shift by sampling error alone.

    Examples
    --------
    >>> from cignn import CohortClassifier
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import validate
    >>> cohort = make_cohort(60, 10, n_edges=5, effect=0.8, lengths=(40, 50), random_state=0)
    >>> model = CohortClassifier.make(make_estimator("lasso", random_state=0)).fit(cohort[:40])
    >>> found = validate(model, cohort[40:])
    >>> found.scores["metric"].tolist()[:2], len(found.predictions)
    (['accuracy', 'balanced_accuracy'], 20)
    """

    predictions: pd.DataFrame
    scores: pd.DataFrame
    calibration: CalibrationLine
    reliability: pd.DataFrame
    sites: pd.DataFrame | None
    nuisances: pd.DataFrame | None
    site_auc: SiteControlledAUC | None
    drift: pd.DataFrame | None
    left_out: int = 0
    positive: Any = None
    recentred: bool = False
    shift_by_chance: float = np.nan

    @property
    def mean_shift(self) -> float:
        """Mean absolute shift of the connections, in standard deviations of the training cohort."""
        return np.nan if self.drift is None else float(self.drift["shift"].abs().mean())


@overload
def validate(
    model: CohortRegressor,
    cohort: Cohort,
    *,
    recentre: bool = ...,
    positive: Any = ...,
    n_resamples: int = ...,
    random_state: int = ...,
) -> ScoreValidation: ...


@overload
def validate(
    model: CohortClassifier,
    cohort: Cohort,
    *,
    recentre: bool = ...,
    positive: Any = ...,
    n_resamples: int = ...,
    random_state: int = ...,
) -> Validation: ...


def validate(
    model: CohortClassifier | SavedModel,
    cohort: Cohort,
    *,
    recentre: bool = False,
    positive: Any = None,
    n_resamples: int = 2000,
    random_state: int = 0,
) -> Validation | ScoreValidation:
    """Score a fitted model on a cohort that it was not trained on, such as one from another site.

    Nothing is fitted: every step is the model's own. Subjects whose data the model was trained on are left
    out.

    Parameters
    ----------
    model : CohortClassifier, FusedClassifier, DecisionClassifier or TableClassifier
        Fitted model, for instance from `load_model`; a `CohortRegressor` predicts scores.
    cohort : Cohort
        Subjects with labels, or scores (see `Cohort.with_target`), and the regions of the model, in any order
        if they have names; with series, or with matrices of the connectivity that the model was trained on.
    recentre : bool, default=False
        Whether to shift the connections of each site so that their mean is that of the training cohort. This
        is transductive: it uses all subjects of a site, without their labels, so that a prediction depends
        on the other subjects, and on their share of patients or their mean score. Not for a model of several
        views.
    positive : object, default=None
        The positive class of two; see `positive_class`.
    n_resamples : int, default=2000
        Bootstrap resamples of the intervals.
    random_state : int, default=0
        Seed of the resamples.

    Returns
    -------
    Validation or ScoreValidation
        Scores with intervals beside trivial ones, calibration, scores and drift of sites and connections,
        and whether predictions follow a nuisance. Of a model of scores, a `ScoreValidation`.

    Examples
    --------
    >>> from cignn import CohortClassifier
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import validate
    >>> cohort = make_cohort(60, 10, n_edges=5, effect=0.8, lengths=(40, 50), random_state=0)
    >>> model = CohortClassifier.make(make_estimator("lasso", random_state=0)).fit(cohort[:40])
    >>> validate(model, cohort[40:], recentre=True).recentred
    True
    """
    inner = _checked(model)
    if predicts_scores(model):
        if positive is not None:
            raise ValueError("positive is for two classes, the model predicts a score; leave it out.")
        return validate_scores(inner, cohort, recentre, n_resamples, random_state)
    single = isinstance(inner, CohortClassifier)
    fitted: Any = model
    counted = positive_class(fitted.classes_, positive)
    cohort = _labelled(fitted, inner.with_rois(cohort) if single else cohort)
    seen = np.asarray(fitted.trained_on(cohort), bool)
    if seen.all():
        raise DataError(
            "the model was trained on all of these subjects", remedy="validate it on subjects from elsewhere"
        )
    cohort = cohort[~seen]
    connections, known = cohort, None
    if single:
        connections, learnt = prepared(inner, cohort)
        known = learnt.connections_
        connections = recentred(connections, known) if recentre else connections
        chances = np.asarray(inner.classifier_.predict_proba(learnt.transform(connections)))
        chances = fitted._calibrated(chances) if isinstance(fitted, DecisionClassifier) else chances
    elif recentre:
        raise DataError(
            "recentring shifts the connections of a model that reads one kind of them, this one does not",
            remedy="leave it out",
        )
    else:
        chances = np.asarray(fitted.predict_proba(cohort))
    table = _predictions(fitted, cohort, chances)
    told: dict[str, Any] = {"positive": counted, "n_resamples": n_resamples, "random_state": random_state}
    checks = nuisance_checks(table, cohort, positive=counted)
    truth = np.asarray(table["y_true"].tolist())
    right = truth == counted if counted is not None else truth == np.asarray(table["y_pred"].tolist())
    promised = chances[:, fitted.classes_.tolist().index(counted)] if counted is not None else chances.max(1)
    return Validation(
        table,
        _scores(table, fitted.classes_, chances, **told),
        calibration_line(right, promised),
        calibration_curve(truth, chances, fitted.classes_, positive=counted).reset_index(drop=True),
        _sites(table, fitted.classes_, chances, connections, known, counted),
        None if checks is None else checks.table,
        None if checks is None else checks.auc,
        None if known is None else connection_drift(connections, known),
        int(seen.sum()),
        counted,
        recentre,
        np.nan if known is None else shift_by_chance(len(cohort), known.n),
    )


# ----------------------------------------------------------------------- helpers


def _checked(model: Any) -> Any:
    """The model of subjects that a model is, or puts decisions on."""
    inner = whole(model.estimator_) if isinstance(model, DecisionClassifier) else model
    if not isinstance(inner, (CohortClassifier, SavedModel)):
        raise TypeError(
            f"validate works on a CohortClassifier, got {type(inner).__name__}; fit one on a cohort."
        )
    return inner


def _labelled(model: Any, cohort: Cohort) -> Cohort:
    """The subjects with labels, all of which the model must know."""
    labels = None if cohort.y is None else pd.Series(cohort.y)
    if labels is None or labels.isna().all():
        raise DataError(
            "the cohort has no labels, which a validation compares predictions with",
            options=[Option("label", advice="name their column with {}")],
        )
    by_name = {str(one): one for one in model.classes_.tolist()}
    known = [one if one in by_name.values() else by_name.get(str(one)) for one in labels]
    strange = sorted({str(a) for a, b in zip(labels, known, strict=True) if pd.notna(a) and b is None})
    if strange:
        raise DataError(
            f"labels {name_some(strange)} are none of the model's classes ({name_some(model.classes_)})",
            values=strange,
            options=[Option("label", advice="name another column with {}")],
            remedy="recode them or leave these subjects out",
        )
    there = labels.notna().to_numpy()
    return cohort[there].with_y([one for one, told in zip(known, there, strict=True) if told])


def _predictions(model: Any, cohort: Cohort, chances: np.ndarray) -> pd.DataFrame:
    columns: dict[str, Any] = TASK | {"position": np.arange(len(cohort)), "subject": cohort.subjects}
    if cohort.sites is not None:
        columns["site"] = cohort.sites
    columns["y_true"] = np.asarray(cohort.y).astype(model.classes_.dtype)
    decided = model.decide(chances) if hasattr(model, "decide") else model.classes_[chances.argmax(1)]
    columns["y_pred"] = decided
    columns |= {f"p_{name}": chances[:, k] for k, name in enumerate(model.classes_.tolist())}
    return pd.DataFrame(columns)


def _scores(
    table: pd.DataFrame,
    classes: np.ndarray,
    chances: np.ndarray,
    *,
    positive: Any,
    n_resamples: int,
    random_state: int,
) -> pd.DataFrame:
    """Scores with intervals, and those of the larger class with its share as probability."""
    resampling: dict[str, Any] = {"n_resamples": n_resamples, "random_state": random_state}
    found = bootstrap_intervals(table, positive=positive, **resampling)[["metric", "value", "low", "high"]]
    truth = np.asarray(table["y_true"].tolist())
    brier = brier_score(truth, chances, classes, subjects=table["subject"], **resampling)
    found.loc[len(found)] = ["brier", *brier]
    shares = np.array([(truth == one).mean() for one in classes.tolist()])
    constant = np.tile(shares, (len(truth), 1))
    trivial = classification_scores(
        truth, np.full(len(truth), classes[shares.argmax()]), classes, constant, positive
    )
    trivial["brier"] = brier_score(truth, constant, classes, n_resamples=0).value
    return found.assign(trivial=[trivial.get(metric, np.nan) for metric in found["metric"]])


def _sites(
    table: pd.DataFrame,
    classes: np.ndarray,
    chances: np.ndarray,
    cohort: Cohort,
    training: TrainingConnections | None,
    positive: Any,
) -> pd.DataFrame | None:
    """Scores and drift at each site."""
    if cohort.sites is None:
        return None
    rows = []
    for site, here in site_members(cohort).items():
        some = table.iloc[here]
        y, predicted = (np.asarray(some[name].tolist()) for name in ("y_true", "y_pred"))
        scores = classification_scores(y, predicted, classes, chances[here], positive)
        row: dict[str, Any] = {"site": site, "subjects": some["subject"].nunique()}
        if positive is not None:
            row["positive"] = int((y == positive).sum())
        row |= {name: scores[name] for name in SITE_SCORES}
        if training is not None:
            drift = connection_drift(cohort[here], training)["shift"].abs().mean()
            row |= {"shift": float(drift), "by_chance": shift_by_chance(len(here), training.n)}
        rows.append(row)
    return pd.DataFrame(rows)
