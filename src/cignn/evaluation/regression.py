"""Scores of a prediction of numbers: mean absolute error, R², Pearson's and Spearman's correlation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from cignn.evaluation.tables import NAMES, SETTINGS

REGRESSION_METRICS = ("mae", "r2", "r", "spearman")
FEWEST = 2  # predictions that a correlation or a variance needs


class Scored(NamedTuple):
    """Predicted scores, the true ones as numbers of the different scores that there are."""

    truth: np.ndarray  # (n,) place of the true score in ``labels``
    predicted: np.ndarray  # (n,)
    labels: np.ndarray  # (k,) the different scores, sorted

    @property
    def probabilities(self) -> None:
        """There are none."""
        return


def regression_scores(y_true: np.ndarray, y_pred: np.ndarray) -> dict[str, float]:
    """Scores of predicted numbers.

    Parameters
    ----------
    y_true : array of shape (g,)
        True scores.
    y_pred : array of shape (g,)
        Predicted scores.

    Returns
    -------
    dict of str to float
        "mae", the mean absolute error; "r2", the share of the variance of the true scores that is predicted,
        below 0 where their own mean would be closer; "r", Pearson's correlation, and "spearman", that of
        ranks, of predicted and true scores. A score is NaN where there is nothing to measure: a constant
        prediction has no correlation, a single subject no variance.

    Examples
    --------
    >>> from cignn.evaluation import regression_scores
    >>> scores = regression_scores([1.0, 2.0, 3.0, 4.0], [1.5, 1.5, 3.5, 3.5])
    >>> {name: round(value, 3) for name, value in scores.items()}
    {'mae': 0.5, 'r2': 0.8, 'r': 0.894, 'spearman': 0.894}
    """
    true, predicted = np.asarray(y_true, np.float64), np.asarray(y_pred, np.float64)
    if true.ndim != 1 or true.shape != predicted.shape or not len(true):
        raise ValueError(
            f"expected as many predictions as scores, one at least, got {predicted.shape} and {true.shape}."
        )
    if not (np.isfinite(true).all() and np.isfinite(predicted).all()):
        raise ValueError("scores and predictions must be finite; drop subjects without a score.")
    found = weighted_regression_scores(number_scores(true, predicted), np.ones((1, len(true))))
    return {name: float(value[0]) for name, value in found.items()}


def number_scores(true: np.ndarray, predicted: np.ndarray, known: np.ndarray | None = None) -> Scored:
    """Return predictions with their true scores numbered; known : all scores there are, more perhaps."""
    labels = np.unique(true if known is None else known)
    return Scored(np.searchsorted(labels, true), np.asarray(predicted, np.float64), labels)


def weighted_regression_scores(scored: Scored, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Every score, (b,), under b ways of weighting n predictions: (b, n), how often each one counts."""
    true = scored.labels[scored.truth]
    found = _moments(true[None], scored.predicted[None], weights)
    ranks, predicted = (_weighted_ranks(values, weights) for values in (true, scored.predicted))
    return found | {"spearman": _moments(ranks, predicted, weights)["r"]}


def regression_scores_of_truths(scored: Scored, truths: np.ndarray) -> dict[str, np.ndarray]:
    """Scores, (b,), of the same predictions for b other truths, (b, n) numbers of scores."""
    true, ones = scored.labels[truths], np.ones((1, len(scored.predicted)))
    found = _moments(true, scored.predicted[None], ones)
    ranks = rankdata(true, axis=1), rankdata(scored.predicted)[None]
    return found | {"spearman": _moments(*ranks, ones)["r"]}


def _moments(true: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """(b,) error, R² and correlation of (b, n) or (1, n) values with (b, n) or (1, n) weights."""
    total = weights.sum(-1, keepdims=True)
    share = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    from_mean = [values - (share * values).sum(-1, keepdims=True) for values in (true, predicted)]
    variances = [(share * np.square(values)).sum(-1) for values in from_mean]
    error = (share * np.square(true - predicted)).sum(-1)
    together = (share * from_mean[0] * from_mean[1]).sum(-1)
    scale = np.maximum(np.square(true).max(initial=0), np.square(predicted).max(initial=0))
    none = 1e-20 * max(1.0, float(scale))  # what rounding leaves of the variance of equal numbers
    some = (total > 0)[..., 0] & ((weights > 0).sum(-1) >= FEWEST)
    varied = [some & (variance > none) for variance in variances]
    return {
        "mae": _where((total > 0)[..., 0], (share * np.abs(true - predicted)).sum(-1)),
        "r2": _where(varied[0], 1 - _ratio(error, variances[0], varied[0])),
        "r": _where(
            varied[0] & varied[1],
            np.clip(_ratio(together, np.sqrt(variances[0] * variances[1]), varied[0] & varied[1]), -1, 1),
        ),
    }


def _ratio(above: np.ndarray, below: np.ndarray, where: np.ndarray) -> np.ndarray:
    above, below, where = np.broadcast_arrays(above, below, where)
    return np.divide(above, below, out=np.zeros(above.shape), where=where)


def _where(there: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(there, values, np.nan)


def _weighted_ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(b, n) mean ranks of values that count several times each; weights : (b, n)."""
    _, place = np.unique(values, return_inverse=True)
    counts = np.zeros((len(weights), int(place.max(initial=-1)) + 1))
    np.add.at(counts.T, place, weights.T)
    ends = np.cumsum(counts, 1)
    return (ends - counts / 2)[:, place]


def scores_by_site(predictions: pd.DataFrame) -> pd.DataFrame:
    """Scores of a regression at each site, over all folds in which its subjects were tested.

    R² compares with the mean of the site's own subjects: a model that knows the site alone has none.

    Parameters
    ----------
    predictions : DataFrame
        Rows of `Store.predictions`, of regressors.

    Returns
    -------
    DataFrame
        One row per method, data, protocol and site: scans (how many predictions), mae, r2, r and spearman,
        each the mean over seeds.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import scores_by_site
    >>> columns = {"method": "ridge", "data": "study", "protocol": "kfold", "seed": 0, "site": list("AAABBB")}
    >>> columns |= {"y_true": [1.0, 2.0, 3.0, 5.0, 6.0, 7.0], "y_pred": [1.0, 2.0, 3.0, 6.0, 6.0, 6.0]}
    >>> scores_by_site(pd.DataFrame(columns))[["site", "scans", "r2"]].to_numpy().tolist()
    [['A', 3, 1.0], ['B', 3, 0.0]]
    """
    names = [*NAMES, *([SETTINGS] if SETTINGS in predictions else [])]
    for name in (*names, "seed", "site", "y_true", "y_pred"):
        if name not in predictions:
            raise ValueError(f"predictions must come from Store.predictions, these have no column {name!r}.")
    known = predictions[predictions["site"].notna()]
    rows = []
    for group, some in known.groupby([*names, "site"], sort=False):
        of_seeds = [regression_scores(one["y_true"], one["y_pred"]) for _, one in some.groupby("seed")]
        means = {metric: _mean([scores[metric] for scores in of_seeds]) for metric in REGRESSION_METRICS}
        rows.append(dict(zip([*names, "site"], group, strict=True)) | {"scans": len(some)} | means)
    return pd.DataFrame(rows, columns=[*names, "site", "scans", *REGRESSION_METRICS])


def _mean(values: list[float]) -> float:
    there = [value for value in values if not np.isnan(value)]
    return float(np.mean(there)) if there else np.nan
