"""ROC-AUC among subjects of the same site: what is left where the scanner tells nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cignn._checks import number, whole
from cignn.evaluation.classification import ordered_pairs, positive_class


class SiteControlledAUC(NamedTuple):
    """Result of `site_controlled_auc`.

    Parameters
    ----------
    value : float
        Area under the ROC curve among pairs of the same site.
    low : float
        Lower end of its interval.
    high : float
        Upper end of its interval.
    overall : float
        The same among all pairs.
    n_pairs : int
        Pairs of the same site that were compared.
    n_sites : int
        Sites with such pairs.

    Examples
    --------
    >>> from cignn.evaluation import SiteControlledAUC
    >>> SiteControlledAUC(0.5, 0.4, 0.6, overall=0.8, n_pairs=100, n_sites=2).overall
    0.8
    """

    value: float
    low: float
    high: float
    overall: float
    n_pairs: int
    n_sites: int


def site_controlled_auc(
    y_true: npt.ArrayLike,
    scores: npt.ArrayLike,
    sites: npt.ArrayLike,
    *,
    classes: npt.ArrayLike | None = None,
    positive: Any = None,
    tasks: npt.ArrayLike | None = None,
    subjects: npt.ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int = 0,
) -> SiteControlledAUC:
    """Area under the ROC curve in which only subjects of the same site are compared.

    Where sites differ in their share of patients, a classifier that recognises the scanner wins pairs of
    different sites. It wins none within a site.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    scores : array-like of shape (n,) or (n, classes)
        Scores of the positive class, or probabilities of all classes. Of more than two classes the mean over
        classes, each against the rest.
    sites : array-like of shape (n,)
        Site of each row; those without one are left out.
    classes : array-like of shape (classes,), default=None
        Classes in the order of the columns of ``scores``, by default those of ``y_true`` in sorted order.
    positive : object, default=None
        The positive class of two; see `positive_class`.
    tasks : array-like of shape (n,), default=None
        The model that made each prediction, such as the fold: scores of different models are not compared.
    subjects : array-like of shape (n,), default=None
        Names of the subjects, who are resampled with all their rows. By default each row is a subject.
    level : float, default=0.95
        Level of the interval.
    n_resamples : int, default=1000
        Number of bootstrap resamples of subjects; 0 for no interval.
    random_state : int, default=0
        Seed of the resamples.

    Returns
    -------
    SiteControlledAUC
        The area with its interval, the area over all pairs, and how many pairs and sites there were.

    Examples
    --------
    >>> from cignn.evaluation import site_controlled_auc
    >>> y, scores = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.15, 0.8, 0.9, 0.7]
    >>> found = site_controlled_auc(y, scores, list("AAABBB"), n_resamples=0)
    >>> found.value, round(found.overall, 2), found.n_pairs
    (0.5, 0.67, 4)
    """
    number("level", level, 0, 1)
    whole("n_resamples", n_resamples, 0)
    chosen = pd.notna(pd.Series(np.asarray(sites, object))).to_numpy()
    labels = np.asarray(y_true)[chosen]
    known = np.unique(labels) if classes is None else np.asarray(classes)
    columns = _class_scores(np.asarray(scores, float)[chosen], known, positive)
    site = pd.factorize(np.asarray(sites, object)[chosen])[0]
    task = np.zeros(len(site), int) if tasks is None else pd.factorize(np.asarray(tasks, object)[chosen])[0]
    owner = np.arange(len(site)) if subjects is None else pd.factorize(np.asarray(subjects)[chosen])[0]
    n = int(owner.max(initial=-1)) + 1
    once = np.ones((1, len(site)))
    inside = _pairs(labels, columns, np.stack([site, task], 1), once)
    across = _pairs(labels, columns, task[:, None], once)
    there = [s for s in np.unique(site) if _pairs(labels, columns, task[:, None], 1.0 * (site == s)[None])[1]]
    ends = (np.nan, np.nan)
    if n_resamples and inside[1]:
        counts = np.random.default_rng(random_state).multinomial(n, np.full(n, 1 / n), n_resamples)
        drawn = _pairs(labels, columns, np.stack([site, task], 1), counts[:, owner].astype(float))[0]
        ends = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return SiteControlledAUC(
        float(inside[0][0]), float(ends[0]), float(ends[1]), float(across[0][0]), inside[1], len(there)
    )


# ----------------------------------------------------------------------- helpers


def _class_scores(scores: np.ndarray, classes: np.ndarray, positive: Any) -> dict[Any, np.ndarray]:
    """Classes that count, each against the rest, and their scores (n,)."""
    if scores.ndim == 1 or len(classes) == 2:
        label = positive_class(classes, positive)
        if label is None:
            raise ValueError(f"scores of {len(classes)} classes must have a column each, got {scores.shape}.")
        if scores.ndim == 1:
            return {label: scores}
    if scores.shape[1] != len(classes):
        raise ValueError(f"scores must have one column per class ({len(classes)}), got {scores.shape}.")
    if len(classes) == 2:
        return {label: scores[:, classes.tolist().index(label)]}
    return {name: scores[:, k] for k, name in enumerate(classes.tolist())}


def _pairs(
    labels: np.ndarray, columns: dict[Any, np.ndarray], groups: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, int]:
    """(b,) area among pairs of the same group, the mean over classes, and the number of pairs."""
    number = pd.DataFrame(groups).groupby(list(range(groups.shape[1]))).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []
    areas, most = [], 0
    for label, score in columns.items():
        won, pairs = np.zeros(len(weights)), np.zeros(len(weights))
        for part in parts:
            right, among = ordered_pairs(labels[part] == label, score[part], weights[:, part])
            won, pairs = won + right, pairs + among
        areas.append(np.divide(won, pairs, out=np.full(len(won), np.nan), where=pairs > 0))
        most = max(most, int(pairs[0]))
    return np.mean(areas, axis=0), most
