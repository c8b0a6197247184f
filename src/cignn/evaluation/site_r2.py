"""R² within sites: how well a score is predicted among subjects of the same site."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cignn._checks import whole


class SiteControlledR2(NamedTuple):
    """Result of `site_controlled_r2`.

    Parameters
    ----------
    value : float
        Share of the variance within sites that is predicted.
    low : float
        Lower end of its 95 % interval.
    high : float
        Upper end.
    overall : float
        R² beside the mean of all subjects.
    r : float
        Correlation of predicted and true scores, both without the mean of the site.
    overall_r : float
        Correlation among all subjects.
    n_sites : int
        Sites of at least two subjects.

    Examples
    --------
    >>> from cignn.evaluation import SiteControlledR2
    >>> SiteControlledR2(0.2, 0.1, 0.3, 0.5, 0.45, 0.71, 4).overall
    0.5
    """

    value: float
    low: float
    high: float
    overall: float
    r: float
    overall_r: float
    n_sites: int


def site_controlled_r2(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    sites: npt.ArrayLike,
    *,
    subjects: npt.ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: int = 0,
) -> SiteControlledR2:
    """R² beside the mean of each site: a prediction that knows the site alone has none.

    Sites differ in age and severity, and connectivity tells the site. A model can so predict a score well
    that it cannot tell within any site.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True scores.
    y_pred : array-like of shape (n,)
        Predictions, out of sample.
    sites : array-like of shape (n,)
        Sites. Those with one row are left out.
    subjects : array-like of shape (n,), default=None
        Names of the subjects, who are resampled with all their rows. By default each row is a subject.
    n_resamples : int, default=1000
        Bootstrap resamples of the interval.
    random_state : int, default=0
        Seed of the resamples.

    Returns
    -------
    SiteControlledR2
        R² and correlation within sites and overall. NaN where scores do not vary within a site.

    Examples
    --------
    >>> from cignn.evaluation import site_controlled_r2
    >>> found = site_controlled_r2([1, 3, 11, 13], [2, 2, 12, 12], list("AABB"), n_resamples=50)
    >>> found.value, round(found.overall, 2)
    (0.0, 0.96)
    """
    whole("n_resamples", n_resamples, 0)
    y, predicted = np.asarray(y_true, np.float64), np.asarray(y_pred, np.float64)
    code = pd.factorize(np.asarray(sites).astype(str))[0]
    if not len(y) or not len(y) == len(predicted) == len(code):
        raise ValueError(
            f"expected as many predictions and sites as scores, one at least, got {len(predicted)}, "
            f"{len(code)} and {len(y)}."
        )
    counts = np.bincount(code)
    owner = np.arange(len(y)) if subjects is None else pd.factorize(np.asarray(subjects).astype(str))[0]
    there = counts[code] > 1
    one = np.ones((1, len(y)))
    overall, overall_r = _fit(y, predicted, np.zeros_like(code), one)
    if not there.any():
        return SiteControlledR2(
            np.nan, np.nan, np.nan, float(overall[0]), np.nan, float(overall_r[0]), n_sites=0
        )
    y, predicted, code, owner = y[there], predicted[there], code[there], owner[there]
    value, r = _fit(y, predicted, code, one[:, there])
    low, high = np.nan, np.nan
    if n_resamples:
        n = int(owner.max()) + 1
        drawn = np.random.default_rng(random_state).multinomial(n, np.full(n, 1 / n), n_resamples)
        spread = _fit(y, predicted, code, drawn[:, owner].astype(float))[0]
        spread = spread[np.isfinite(spread)]
        if len(spread):
            low, high = np.quantile(spread, [0.025, 0.975])
    ends = float(value[0]), float(low), float(high), float(overall[0]), float(r[0]), float(overall_r[0])
    return SiteControlledR2(*ends, int((counts > 1).sum()))


def _fit(
    y: np.ndarray, predicted: np.ndarray, code: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(b,) R² beside the sites' means and correlation within sites, under weights (b, n)."""
    member = (code[:, None] == np.unique(code)).astype(float)
    total = np.maximum(weights @ member, 1e-12) @ member.T
    left = [values - ((weights * values) @ member) @ member.T / total for values in (y, predicted)]
    variance, spread = ((weights * np.square(one)).sum(1) for one in left)
    error = (weights * np.square(y - predicted)).sum(1)
    together = (weights * left[0] * left[1]).sum(1)
    none = 1e-20 * max(1.0, float(np.square(y).max()))
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(variance > none, 1 - error / variance, np.nan)
        r = np.where((variance > none) & (spread > none), together / np.sqrt(variance * spread), np.nan)
    return r2, r
