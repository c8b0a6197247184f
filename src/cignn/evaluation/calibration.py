"""Calibration of probabilities: the line that would correct them, and the Brier score with its interval."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

_STEPS = 50
_CLIP = 1e-6  # probabilities are kept this far from 0 and 1
_STEEPEST = 1e3  # slopes beyond are those of classes that are told apart completely


class CalibrationLine(NamedTuple):
    """Result of `calibration_line`.

    Parameters
    ----------
    intercept : float
        Shift of the log-odds at slope 1 (calibration in the large): above 0, probabilities are too low.
    slope : float
        Below 1, probabilities are too extreme; above 1, too timid.
    intercept_low : float
        Lower end of the 95 % interval of the intercept.
    intercept_high : float
        Upper end.
    slope_low : float
        Lower end of the 95 % interval of the slope.
    slope_high : float
        Upper end.

    Examples
    --------
    >>> from cignn.evaluation import CalibrationLine
    >>> CalibrationLine(0.1, 0.8, -0.1, 0.3, 0.6, 1.0).slope
    0.8
    """

    intercept: float
    slope: float
    intercept_low: float = np.nan
    intercept_high: float = np.nan
    slope_low: float = np.nan
    slope_high: float = np.nan


def calibration_line(outcome: npt.ArrayLike, probability: npt.ArrayLike) -> CalibrationLine:
    """Intercept and slope of the logistic recalibration of probabilities.

    Parameters
    ----------
    outcome : array-like of shape (n,)
        Whether what the probability promises came true.
    probability : array-like of shape (n,)
        Predicted probabilities.

    Returns
    -------
    CalibrationLine
        Intercept (at slope 1) and slope with 95 % Wald intervals; NaN where there is only one outcome, or
        probabilities do not vary or tell the outcomes apart completely.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import calibration_line
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 5000)
    >>> line = calibration_line(rng.random(5000) < p, p)
    >>> line.slope_low < 1 < line.slope_high
    True
    """
    y = np.asarray(outcome, float)
    p = np.clip(np.asarray(probability, float), _CLIP, 1 - _CLIP)
    log_odds = np.log(p / (1 - p))
    if y.min(initial=1) == y.max(initial=0) or len(y) < 3:
        return CalibrationLine(np.nan, np.nan)
    level = _logistic(np.ones((len(y), 1)), y, log_odds)
    centred = log_odds - log_odds.mean()
    both = None
    if np.ptp(log_odds) > 0:
        both = _logistic(np.column_stack([np.ones(len(y)), centred]), y, np.zeros(len(y)))
    ends = [np.nan] * 2 if level is None else [level[0][0] + side * 1.96 * level[1][0] for side in (-1, 1)]
    slope = [np.nan] * 3
    if both is not None and abs(both[0][1]) < _STEEPEST:
        slope = [both[0][1], *(both[0][1] + side * 1.96 * both[1][1] for side in (-1, 1))]
    intercept = np.nan if level is None else level[0][0]
    return CalibrationLine(*map(float, (intercept, slope[0], *ends, *slope[1:])))


class Brier(NamedTuple):
    """A Brier score with its interval."""

    value: float
    low: float
    high: float


def brier_score(
    y_true: np.ndarray,
    probabilities: np.ndarray,
    classes: np.ndarray,
    *,
    subjects: Any = None,
    n_resamples: int = 2000,
    random_state: int = 0,
) -> Brier:
    """Mean squared distance of probabilities and outcomes, (n, classes), half the sum over classes.

    Of two classes this is the usual Brier score. The interval is a bootstrap over subjects with all scans.
    """
    hit = np.asarray(y_true)[:, None] == np.asarray(classes)[None]
    squares = ((probabilities - hit) ** 2).sum(1) / 2
    if not n_resamples:
        return Brier(float(squares.mean()), np.nan, np.nan)
    owner = np.arange(len(squares)) if subjects is None else pd.factorize(np.asarray(subjects))[0]
    n = int(owner.max()) + 1
    counts = np.random.default_rng(random_state).multinomial(n, np.full(n, 1 / n), n_resamples)
    weights = counts[:, owner]
    drawn = weights @ squares / np.maximum(weights.sum(1), 1)
    return Brier(float(squares.mean()), *map(float, np.quantile(drawn, [0.025, 0.975])))


def _logistic(design: np.ndarray, y: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Coefficients and standard errors of a logistic regression by Newton's method; None if it diverges."""
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(offset + design @ weights, -500, 500)))
        information = design.T @ (design * (expected * (1 - expected))[:, None])
        try:
            inverse = np.linalg.inv(information)
        except np.linalg.LinAlgError:
            return None
        step = inverse @ (design.T @ (y - expected))
        weights = weights + np.clip(step, -5, 5)
        if not np.isfinite(weights).all() or np.abs(weights).max() > _STEEPEST:
            return None
        if np.abs(step).max() < 1e-8:
            return weights, np.sqrt(np.diag(inverse))
    return None
