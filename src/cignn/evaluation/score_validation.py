"""A model of scores on a cohort from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._checks import DataError, Option
from cignn.connectome.connectome_graphs import TrainingConnections
from cignn.datasets.cohort import Cohort
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.evaluation.drift import connection_drift, prepared, recentred, shift_by_chance, site_members
from cignn.evaluation.nuisances import score_checks
from cignn.evaluation.regression import (
    REGRESSION_METRICS,
    number_scores,
    regression_scores,
    weighted_regression_scores,
)
from cignn.evaluation.site_r2 import SiteControlledR2

TASK = {"method": "model", "data": "validation", "protocol": "external", "split": "0", "seed": 0}
BINS = 10
CHUNK = 200  # resamples at once
FEWEST = 3  # subjects that a validation needs


class ScoreCalibration(NamedTuple):
    """The line of observed on predicted scores, with 95 % intervals (bootstrap over subjects).

    Parameters
    ----------
    slope : float
        1 is perfect; above 1 predictions are too near the mean, below 1 too far from it.
    intercept : float
        Observed score where 0 is predicted; 0 is perfect with slope 1.
    bias : float
        Mean of observed minus predicted scores, in units of the score.
    slope_low : float
        Lower end of the interval of the slope.
    slope_high : float
        Upper end.
    intercept_low : float
        Lower end of the interval of the intercept.
    intercept_high : float
        Upper end.
    bias_low : float
        Lower end of the interval of the bias.
    bias_high : float
        Upper end.

    Examples
    --------
    >>> from cignn.evaluation import ScoreCalibration
    >>> ScoreCalibration(0.8, 6.0, -1.5).bias
    -1.5
    """

    slope: float
    intercept: float
    bias: float
    slope_low: float = np.nan
    slope_high: float = np.nan
    intercept_low: float = np.nan
    intercept_high: float = np.nan
    bias_low: float = np.nan
    bias_high: float = np.nan


@dataclass(frozen=True)
class ScoreValidation:
    """How a model of scores does on a cohort from elsewhere.

    Parameters
    ----------
    predictions : DataFrame
        One row per scan: subject, site, y_true, y_pred.
    scores : DataFrame
        metric (mae, r2, r, spearman), value, low, high (95 %, bootstrap over subjects), trivial (always
        predicting the mean of the training scores) and site_mean (predicting the mean of the other new
        subjects of the same site, which the model does not know; NaN where there is one site only).
    calibration : ScoreCalibration
        The line of observed on predicted scores; slope 1, intercept 0 and bias 0 are perfect.
    reliability : DataFrame
        Mean predicted and observed score and count in up to ten bins of equal size.
    sites : DataFrame or None
        Subjects, scores, bias and drift of each site.
    nuisances : DataFrame or None
        Whether predictions follow a nuisance at equal score, see `nuisance_table`.
    site_r2 : SiteControlledR2 or None
        R² among subjects of the same site.
    drift : DataFrame or None
        As in `Validation`.
    left_out : int
        Scans that the model was trained on, which are not scored.
    target : str
        Name of the score.
    training_mean : float
        Mean of the training scores.
    score_shift : float
        How far the mean of the new scores lies from it, in standard deviations of the training scores.
    recentred : bool
        Whether connections were shifted to the training mean, which uses all new subjects (transductive).
    shift_by_chance : float
        Mean size of a shift of a connection by sampling error alone.

    Examples
    --------
    >>> from cignn import CohortRegressor
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import validate
    >>> cohort = make_cohort(60, 10, n_edges=5, score=True, lengths=(40, 50), random_state=0)
    >>> model = CohortRegressor.make(make_estimator("ridge", random_state=0)).fit(cohort[:40])
    >>> found = validate(model, cohort[40:])
    >>> found.scores["metric"].tolist(), len(found.predictions)
    (['mae', 'r2', 'r', 'spearman'], 20)
    """

    predictions: pd.DataFrame
    scores: pd.DataFrame
    calibration: ScoreCalibration
    reliability: pd.DataFrame
    sites: pd.DataFrame | None
    nuisances: pd.DataFrame | None
    site_r2: SiteControlledR2 | None
    drift: pd.DataFrame | None
    left_out: int = 0
    target: str = "score"
    training_mean: float = np.nan
    score_shift: float = np.nan
    recentred: bool = False
    shift_by_chance: float = np.nan

    @property
    def mean_shift(self) -> float:
        """Mean absolute shift of the connections, in standard deviations of the training cohort."""
        return np.nan if self.drift is None else float(self.drift["shift"].abs().mean())


def validate_scores(
    model: CohortClassifier, cohort: Cohort, recentre: bool, n_resamples: int, random_state: int
) -> ScoreValidation:
    """Score a fitted model of scores, see `validate`."""
    cohort = _scored(model.with_rois(cohort))
    seen = np.asarray(model.trained_on(cohort), bool)
    if seen.all():
        raise DataError(
            "the model was trained on all of these subjects", remedy="validate it on subjects from elsewhere"
        )
    cohort = cohort[~seen]
    if len(np.unique(cohort.subjects)) < FEWEST:
        raise DataError(
            f"a validation of scores needs {FEWEST} new subjects, got {len(np.unique(cohort.subjects))}",
            remedy="add some",
        )
    connections, learnt = prepared(model, cohort)
    known = learnt.connections_
    if recentre:
        connections = recentred(connections, known)
    regressor: Any = model.classifier_
    table = _predictions(cohort, regressor.predict(learnt.transform(connections)))
    checks = score_checks(table, cohort)
    mean, scale = regressor.target_scale_
    return ScoreValidation(
        table,
        _scores(table, mean, n_resamples, random_state),
        score_calibration(table, n_resamples, random_state),
        reliability(table),
        _sites(table, connections, known),
        None if checks is None else checks.table,
        None if checks is None else checks.r2,
        None if known is None else connection_drift(connections, known),
        int(seen.sum()),
        regressor.target,
        float(mean),
        float((table["y_true"].mean() - mean) / scale),
        recentre,
        np.nan if known is None else shift_by_chance(len(cohort), known.n),
    )


def _scored(cohort: Cohort) -> Cohort:
    """The subjects with scores, which must be numbers that differ."""
    scores = None if cohort.y is None else pd.to_numeric(pd.Series(cohort.y), errors="coerce")
    if scores is None or scores.isna().all():
        what = "has no scores" if cohort.y is None else "has labels that are no numbers"
        raise DataError(
            f"the cohort {what}, which a validation compares predictions with",
            options=[Option("target", advice="name their column with {}")],
        )
    there = np.isfinite(scores.to_numpy(float))
    scores = scores[there].to_numpy(float)
    if np.ptp(scores) == 0:
        raise DataError(
            f"all scores are {scores[0]:g}, which no prediction can be compared with",
            options=[Option("target", advice="name another column with {}")],
        )
    return cohort[there].with_y(scores)


def _predictions(cohort: Cohort, predicted: np.ndarray) -> pd.DataFrame:
    columns: dict[str, Any] = TASK | {"position": np.arange(len(cohort)), "subject": cohort.subjects}
    if cohort.sites is not None:
        columns["site"] = cohort.sites
    return pd.DataFrame(columns | {"y_true": np.asarray(cohort.y, float), "y_pred": predicted})


def _scores(table: pd.DataFrame, training_mean: float, n_resamples: int, random_state: int) -> pd.DataFrame:
    """Scores with intervals, beside those of the training mean and of the site's other subjects."""
    y, predicted = table["y_true"].to_numpy(float), table["y_pred"].to_numpy(float)
    coded = number_scores(y, predicted)
    drawn: dict[str, list[np.ndarray]] = {metric: [] for metric in REGRESSION_METRICS}
    for weights in _resampled(table, n_resamples, random_state):
        for metric, values in weighted_regression_scores(coded, weights).items():
            drawn[metric].append(values)
    beside = {"trivial": np.full(len(y), training_mean)}
    if "site" in table and table["site"].nunique() > 1:  # of one site they follow from y alone
        beside["site_mean"] = means_of_others(table)
    others = {name: regression_scores(y, values) for name, values in beside.items()}
    rows = []
    for metric, value in regression_scores(y, predicted).items():
        of_others = [others[name][metric] if name in others else np.nan for name in ("trivial", "site_mean")]
        rows.append((metric, value, *_ends(drawn[metric]), *of_others))
    return pd.DataFrame(rows, columns=["metric", "value", "low", "high", "trivial", "site_mean"])


def _resampled(table: pd.DataFrame, n_resamples: int, random_state: int) -> Iterator[np.ndarray]:
    """Yield (b, n) how often each scan counts in bootstrap resamples of the subjects."""
    owner = pd.factorize(table["subject"].astype(str))[0]
    n, rng = int(owner.max()) + 1, np.random.default_rng(random_state)
    for start in range(0, n_resamples, CHUNK):
        counts = rng.multinomial(n, np.full(n, 1 / n), min(CHUNK, n_resamples - start))
        yield counts[:, owner].astype(float)


def _ends(drawn: list[np.ndarray]) -> tuple[float, float]:
    """Ends of the 95 % interval of what was drawn."""
    values = np.concatenate([one[np.isfinite(one)] for one in drawn]) if drawn else np.empty(0)
    low, high = np.quantile(values, [0.025, 0.975]) if len(values) else (np.nan, np.nan)
    return float(low), float(high)


def means_of_others(table: pd.DataFrame) -> np.ndarray:
    """(n,) mean score of the other subjects of the same site; of all others where there are none."""
    y, subject = table["y_true"].to_numpy(float), table["subject"].astype(str).to_numpy()
    site = table["site"].astype(str).to_numpy()
    out = np.empty(len(y))
    for i in range(len(y)):
        others = subject != subject[i]
        here = others & (site == site[i])
        out[i] = y[here if here.any() else others].mean()
    return out


def score_calibration(table: pd.DataFrame, n_resamples: int, random_state: int) -> ScoreCalibration:
    """The line of observed on predicted scores."""
    y, predicted = table["y_true"].to_numpy(float), table["y_pred"].to_numpy(float)
    whole = _line(y, predicted, np.ones((1, len(y))))[:, 0]
    drawn = [_line(y, predicted, weights) for weights in _resampled(table, n_resamples, random_state)]
    ends = [end for k in range(3) for end in _ends([one[k] for one in drawn])]
    return ScoreCalibration(*map(float, [*whole, *ends]))


def _line(y: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(3, b) slope, intercept and bias of observed on predicted scores, under weights (b, n)."""
    share = weights / np.maximum(weights.sum(1, keepdims=True), 1e-12)
    mean_y, mean_p = share @ y, share @ predicted
    from_mean = predicted - mean_p[:, None]
    variance = (share * from_mean**2).sum(1)
    slope = np.full(len(weights), np.nan)
    varies = variance > 1e-12 * max(1.0, float(np.square(predicted).max()))
    np.divide((share * from_mean * y).sum(1), variance, out=slope, where=varies)
    return np.stack([slope, mean_y - slope * mean_p, mean_y - mean_p])


def reliability(table: pd.DataFrame) -> pd.DataFrame:
    """Mean predicted and observed scores of bins of the predictions."""
    order = np.argsort(table["y_pred"].to_numpy(), kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    y, predicted = table["y_true"].to_numpy(float), table["y_pred"].to_numpy(float)
    rows = [(predicted[part].mean(), y[part].mean(), len(part)) for part in parts]
    return pd.DataFrame(rows, columns=["predicted", "observed", "count"])


def _sites(table: pd.DataFrame, cohort: Cohort, training: TrainingConnections | None) -> pd.DataFrame | None:
    """Scores, bias and drift at each site."""
    if cohort.sites is None:
        return None
    rows = []
    for site, here in site_members(cohort).items():
        some = table.iloc[here]
        y, predicted = some["y_true"].to_numpy(), some["y_pred"].to_numpy()
        row: dict[str, Any] = {"site": site, "subjects": some["subject"].nunique(), "mean": float(y.mean())}
        row |= regression_scores(y, predicted) | {"bias": float((y - predicted).mean())}
        if training is not None:
            drift = connection_drift(cohort[here], training)["shift"].abs().mean()
            row |= {"shift": float(drift), "by_chance": shift_by_chance(len(here), training.n)}
        rows.append(row)
    return pd.DataFrame(rows)
