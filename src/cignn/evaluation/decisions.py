"""What a classifier is worth when somebody acts on it: operating points and decision curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import number
from cignn.evaluation.classification import positive_class
from cignn.evaluation.resampling import prediction_arrays
from cignn.evaluation.tables import NAMES

THRESHOLDS = np.round(np.arange(0.01, 1.0, 0.01), 2)
SPECIFICITIES = (0.8, 0.9, 0.95)


def sensitivity_at_specificity(
    y_true: np.ndarray,
    probabilities: np.ndarray,
    classes: np.ndarray,
    specificity: float = 0.9,
    positive: Any = None,
) -> float:
    """Largest sensitivity of any threshold whose specificity is at least the given one.

    The threshold is read off the ROC curve of these subjects, so the value is that of the best threshold in
    hindsight. For one that is chosen beforehand, see `DecisionClassifier`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True labels of two classes.
    probabilities : array of shape (n, 2)
        Predicted probabilities.
    classes : array of shape (2,)
        The classes, in the order of the columns of ``probabilities``.
    specificity : float, default=0.9
        Share of the negatives that are recognised at least, in (0, 1).
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    float
        The sensitivity; NaN where one of the classes is absent.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import sensitivity_at_specificity
    >>> p = np.array([0.1, 0.3, 0.6, 0.4, 0.7, 0.9])
    >>> y = np.array([0, 0, 0, 1, 1, 1])
    >>> round(sensitivity_at_specificity(y, np.stack([1 - p, p], 1), np.array([0, 1]), 0.6), 3)
    1.0
    """
    number("specificity", specificity, 0, 1)
    chances, truth = _of_positive(y_true, probabilities, classes, positive)
    if truth.all() or not truth.any():
        return float("nan")
    thresholds = np.append(np.unique(chances), np.inf)
    above = chances[:, None] >= thresholds
    reached = 1 - above[~truth].mean(0) >= specificity - 1e-12
    return float(above[truth].mean(0)[reached].max())


def operating_points(
    predictions: pd.DataFrame, specificities: Sequence[float] = SPECIFICITIES, positive: Any = None
) -> pd.DataFrame:
    """Sensitivity at given specificities, mean over tasks.

    Parameters
    ----------
    predictions : DataFrame
        Rows of `Store.predictions` with probabilities of two classes.
    specificities : sequence of float, default=(0.8, 0.9, 0.95)
        Shares of the negatives that are recognised at least.
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    DataFrame
        One row per method, data, protocol and specificity: sensitivity (mean over tasks, read off each task's
        ROC curve), std over tasks, n (tasks) and the positive class.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import operating_points
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "holdout", "split": "1", "seed": 0}
    >>> columns |= {"y_true": [0, 0, 1, 1], "y_pred": [0, 0, 0, 1]}
    >>> columns |= {"p_0": [0.9, 0.6, 0.7, 0.1], "p_1": [0.1, 0.4, 0.3, 0.9]}
    >>> operating_points(pd.DataFrame(columns), [0.9])["sensitivity"].tolist()
    [0.5]
    """
    rows = []
    for names, some in predictions.groupby(NAMES, sort=False):
        counted = None
        values: dict[float, list[float]] = {s: [] for s in specificities}
        for _, task in some.groupby(["split", "seed"], sort=False):
            y, chances, classes = _told(task)
            counted = positive_class(classes, positive)
            for s in specificities:
                values[s].append(sensitivity_at_specificity(y, chances, classes, s, positive))
        for s, found in values.items():
            there = np.array(found)[~np.isnan(found)]
            mean = float(there.mean()) if len(there) else np.nan
            std = float(there.std(ddof=1)) if len(there) > 1 else np.nan
            rows.append((*names, s, mean, std, len(there), counted))
    columns = [*NAMES, "specificity", "sensitivity", "std", "n", "positive"]
    return pd.DataFrame(rows, columns=columns)


def decision_curve(
    y_true: np.ndarray,
    probabilities: np.ndarray,
    classes: np.ndarray,
    thresholds: Sequence[float] | np.ndarray | None = None,
    positive: Any = None,
) -> pd.DataFrame:
    """Net benefit of acting on the probability of the positive class, beside acting on all and on none.

    A threshold t is the probability from which somebody would act: with t = 0.2, a false alarm weighs a
    quarter (t / (1 − t)) of a case found. The net benefit is the share of true positives less that weight
    times the share of false positives. A classifier is worth using at the thresholds where it lies above both
    references. The curve needs calibrated probabilities.

    Parameters
    ----------
    y_true : array of shape (n,)
        True labels of two classes.
    probabilities : array of shape (n, 2)
        Predicted probabilities.
    classes : array of shape (2,)
        The classes, in the order of the columns of ``probabilities``.
    thresholds : sequence of float, default=None
        Thresholds in (0, 1); by default 0.01, 0.02, … 0.99.
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    DataFrame
        One row per threshold: threshold, net_benefit, treat_all and treat_none (0).

    References
    ----------
    A. J. Vickers and E. B. Elkin, Decision curve analysis, Medical Decision Making 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import decision_curve
    >>> p = np.array([0.1, 0.2, 0.8, 0.9])
    >>> curve = decision_curve([0, 0, 1, 1], np.stack([1 - p, p], 1), [0, 1], [0.2, 0.5])
    >>> curve.to_numpy().round(3).tolist()
    [[0.2, 0.438, 0.375, 0.0], [0.5, 0.5, 0.0, 0.0]]
    """
    points = np.asarray(THRESHOLDS if thresholds is None else thresholds, float)
    if points.ndim != 1 or not len(points) or not ((points > 0) & (points < 1)).all():
        raise ValueError("thresholds must be numbers in (0, 1), at least one.")
    chances, truth = _of_positive(y_true, probabilities, classes, positive)
    above = chances[:, None] >= points
    weight = points / (1 - points)
    share = truth.mean()
    benefit = (above & truth[:, None]).mean(0) - weight * (above & ~truth[:, None]).mean(0)
    every = share - weight * (1 - share)
    return pd.DataFrame({"threshold": points, "net_benefit": benefit, "treat_all": every, "treat_none": 0.0})


def decision_curves(
    predictions: pd.DataFrame,
    thresholds: Sequence[float] | np.ndarray | None = None,
    positive: Any = None,
) -> pd.DataFrame:
    """Decision curves of every method, of all test subjects of a seed together, mean over seeds.

    Parameters
    ----------
    predictions : DataFrame
        Rows of `Store.predictions` with probabilities of two classes.
    thresholds : sequence of float, default=None
        Thresholds in (0, 1); by default 0.01, 0.02, … 0.99.
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    DataFrame
        One row per method, data, protocol and threshold, with the columns of `decision_curve`.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import decision_curves
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "holdout", "split": "1", "seed": 0}
    >>> columns |= {"y_true": [0, 0, 1, 1], "y_pred": [0, 0, 0, 1]}
    >>> columns |= {"p_0": [0.9, 0.6, 0.7, 0.1], "p_1": [0.1, 0.4, 0.3, 0.9]}
    >>> decision_curves(pd.DataFrame(columns), [0.5])["net_benefit"].tolist()
    [0.25]
    """
    parts = []
    for names, some in predictions.groupby(NAMES, sort=False):
        curves = [
            decision_curve(*_told(seed), thresholds, positive) for _, seed in some.groupby("seed", sort=False)
        ]
        mean = pd.concat(curves).groupby("threshold", sort=False).mean().reset_index()
        parts.append(mean.assign(**dict(zip(NAMES, names, strict=True))))
    columns = [*NAMES, "threshold", "net_benefit", "treat_all", "treat_none"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


# -------------------------------------------------------------------------- helpers


def _of_positive(
    y_true: Any, probabilities: Any, classes: Any, positive: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) probabilities of the positive class, and who belongs to it."""
    known, chances = np.asarray(classes), np.asarray(probabilities, float)
    if len(known) != 2:
        raise ValueError(f"a decision with a threshold is between two classes, there are {len(known)}.")
    if chances.shape != (len(y_true), 2):
        raise ValueError(f"probabilities must have shape {(len(y_true), 2)}, got {chances.shape}.")
    if not np.isfinite(chances).all():
        raise ValueError("probabilities must be finite, some are NaN or infinite.")
    label = positive_class(known, positive)
    return chances[:, known.tolist().index(label)], np.asarray(y_true) == label


def _told(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, probabilities and classes of rows of predictions."""
    true, _, classes, chances = prediction_arrays(rows)
    if chances is None:
        raise ValueError("the predictions have no probabilities (columns p_…); use methods that give them.")
    return true, chances, classes
