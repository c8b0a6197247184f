"""`validate`: a fitted model on a cohort from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._arrays import symmetric, upper_pairs, upper_triangle
from cignn._checks import DataError, Option, name_some
from cignn.connectome.combat import chance_free_shift
from cignn.connectome.connectome_graphs import ConnectomeGraphs, TrainingConnections
from cignn.datasets.cohort import Cohort
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.estimators.decision_classifier import DecisionClassifier
from cignn.estimators.model_parts import SavedModel, whole
from cignn.evaluation.calibration import CalibrationLine, brier_score, calibration_line
from cignn.evaluation.classification import calibration_curve, classification_scores, positive_class
from cignn.evaluation.methods import predicts_scores
from cignn.evaluation.nuisances import nuisance_checks
from cignn.evaluation.resampling import bootstrap_intervals
from cignn.evaluation.site_auc import SiteControlledAUC

MOST = 1.05  # largest absolute value of connections that may be correlations
TASK = {"method": "model", "data": "validation", "protocol": "external", "split": "0", "seed": 0}
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


def validate(
    model: CohortClassifier | SavedModel,
    cohort: Cohort,
    *,
    recentre: bool = False,
    positive: Any = None,
    n_resamples: int = 2000,
    random_state: int = 0,
) -> Validation:
    """Score a fitted model on a cohort that it was not trained on, such as one from another site.

    Nothing is fitted: every step is the model's own. Subjects whose data the model was trained on are left
    out.

    Parameters
    ----------
    model : CohortClassifier, FusedClassifier, DecisionClassifier or TableClassifier
        Fitted model, for instance from `load_model`.
    cohort : Cohort
        Labelled subjects with the regions of the model, in any order if they have names, and with series, or
        with matrices of the connectivity that the model was trained on.
    recentre : bool, default=False
        Whether to shift the connections of each site so that their mean is that of the training cohort. This
        is transductive: it uses all subjects of a site, without their labels, so that a prediction depends
        on the other subjects, and on their share of patients. Not for a model of several views.
    positive : object, default=None
        The positive class of two; see `positive_class`.
    n_resamples : int, default=2000
        Bootstrap resamples of the intervals.
    random_state : int, default=0
        Seed of the resamples.

    Returns
    -------
    Validation
        Scores with intervals beside trivial ones, calibration, scores and drift of sites and connections,
        and whether predictions follow a nuisance.

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
    prepared, known = cohort, None
    if single:
        prepared, learnt = _prepared(inner, cohort)
        known = learnt.connections_
        prepared = recentred(prepared, known) if recentre else prepared
        chances = np.asarray(inner.classifier_.predict_proba(learnt.transform(prepared)))
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
        _sites(table, fitted.classes_, chances, prepared, known, counted),
        None if checks is None else checks.table,
        None if checks is None else checks.auc,
        None if known is None else connection_drift(prepared, known),
        int(seen.sum()),
        counted,
        recentre,
        np.nan if known is None else _by_chance(len(cohort), known.n),
    )


def recentred(cohort: Cohort, training: TrainingConnections | None) -> Cohort:
    """Shift the connections of each site to the training mean, by what is more than sampling error."""
    if training is None:
        raise DataError(
            "recentring needs the mean of the training connections, which this model does not know",
            remedy="fit and save it again with this version",
        )
    values = upper_triangle(np.asarray(cohort.matrices)).astype(np.float64)
    varies = training.std > 0
    scale = np.where(varies, training.std, 1)
    standard = (values - training.mean) / scale
    for here in _members(cohort).values():
        part = np.ix_(here, varies)
        standard[part] -= chance_free_shift(standard[part])
    moved = np.where(varies, training.mean + standard * scale, values)
    return cohort.with_matrices(symmetric(moved.astype(np.float32), np.asarray(cohort.matrices)))


def connection_drift(cohort: Cohort, training: TrainingConnections) -> pd.DataFrame:
    """How far each connection lies from the training cohort's, largest shift first."""
    new = TrainingConnections.of(cohort)
    varies = training.std > 0
    scale = np.where(varies, training.std, np.nan)
    names, pairs = np.asarray(cohort.roi_names), upper_pairs(cohort.n_rois)
    table = pd.DataFrame({"source": names[pairs[:, 0]], "target": names[pairs[:, 1]]})
    table["shift"], table["spread"] = (new.mean - training.mean) / scale, new.std / scale
    order = np.argsort(-table["shift"].abs().fillna(0).to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


# ----------------------------------------------------------------------- helpers


def _by_chance(n_new: int, n_training: int) -> float:
    """Mean size of a standardised shift by sampling error alone."""
    return float(np.sqrt(2 / np.pi * (1 / n_new + 1 / n_training)))


def _checked(model: Any) -> Any:
    """The model of subjects that a model is, or puts decisions on."""
    inner = whole(model.estimator_) if isinstance(model, DecisionClassifier) else model
    if not isinstance(inner, (CohortClassifier, SavedModel)):
        raise TypeError(
            f"validate works on a CohortClassifier, got {type(inner).__name__}; fit one on a cohort."
        )
    if predicts_scores(model):
        raise TypeError(
            "validate works on models that predict classes, this one predicts a score; compare what it "
            "predicts with the scores themselves."
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


class _Learnt(NamedTuple):
    cohort: Cohort
    graphs: ConnectomeGraphs


def _prepared(model: CohortClassifier, cohort: Cohort) -> _Learnt:
    """The cohort with the connections that the model makes graphs of, and the step that does."""
    given = cohort.matrices is not None
    for _, step in model.steps[:-1]:
        if isinstance(step, ConnectomeGraphs):
            _check_connectivity(cohort, step.connections_, given)
            return _Learnt(cohort, step)
        if step is not None and step != "passthrough":
            cohort = step.transform(cohort)
    raise TypeError("validate works on a model that makes graphs of connectivity (ConnectomeGraphs).")


def _check_connectivity(cohort: Cohort, training: TrainingConnections | None, given: bool) -> None:
    """Refuse matrices that are not of the kind of the training connections, as far as values tell."""
    if training is None or not given:
        return
    largest = TrainingConnections.of(cohort).largest
    if (largest <= MOST) != (training.largest <= MOST):
        raise DataError(
            f"the matrices reach {largest:.2f} and those of the training cohort {training.largest:.2f}: they "
            "are not of one kind of connectivity (correlations do not exceed 1, Fisher's z does)",
            remedy="compute them as for the training cohort",
        )


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


def _members(cohort: Cohort) -> dict[str, np.ndarray]:
    """Positions of the subjects of each site; without sites, of all."""
    sites = np.full(len(cohort), "all") if cohort.sites is None else np.asarray(cohort.sites).astype(str)
    return {str(site): np.flatnonzero(sites == site) for site in np.unique(sites)}


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
    for site, here in _members(cohort).items():
        some = table.iloc[here]
        y, predicted = (np.asarray(some[name].tolist()) for name in ("y_true", "y_pred"))
        scores = classification_scores(y, predicted, classes, chances[here], positive)
        row: dict[str, Any] = {"site": site, "subjects": some["subject"].nunique()}
        if positive is not None:
            row["positive"] = int((y == positive).sum())
        row |= {name: scores[name] for name in SITE_SCORES}
        if training is not None:
            drift = connection_drift(cohort[here], training)["shift"].abs().mean()
            row |= {"shift": float(drift), "by_chance": _by_chance(len(here), training.n)}
        rows.append(row)
    return pd.DataFrame(rows)
