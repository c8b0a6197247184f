"""Late fusion: weights of several models' log-odds, learnt from scores of subjects none of them has seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.model_selection import StratifiedGroupKFold

from cignn._checks import choice, whole
from cignn.datasets.cohort import Cohort
from cignn.estimators.subjects import Parts, Subjects
from cignn.graphs import GraphSet

LEAST = 1e-9  # probabilities are not taken for smaller than this
BY = ("subject", "site")


class Weights(NamedTuple):
    """A fusion of logits: weights and shares of the views (views,), and intercepts (classes,)."""

    views: np.ndarray
    intercept: np.ndarray
    shares: np.ndarray

    def logits(self, scores: np.ndarray) -> np.ndarray:
        """(n, classes) fused logits of (views, n, classes) logits."""
        return np.tensordot(self.views, scores, 1) + self.intercept

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """(n, classes) fused probabilities of (views, n, classes) logits."""
        return softmax(self.logits(scores), axis=1)


def centred_logits(probabilities: np.ndarray) -> np.ndarray:
    """(..., classes) logits of probabilities, whose mean over classes is 0."""
    logs = np.log(np.clip(probabilities, LEAST, 1.0))
    return logs - logs.mean(-1, keepdims=True)


def equal_weights(n_views: int, n_classes: int) -> Weights:
    """The mean of the log-odds."""
    each = np.full(n_views, 1 / n_views)
    return Weights(each, np.zeros(n_classes), each)


def stacked_weights(scores: np.ndarray, codes: np.ndarray, l2: float) -> Weights:
    """Learn non-negative weights of views by penalised maximum likelihood.

    scores : (views, n, classes) logits of subjects that the models have not seen; codes : (n,) classes.

    The penalty, l2 / 2 times the squared distances of the weights from their mean, in units of the views'
    spread, draws the fusion to the mean of the views: views that are alike share their weight. As usual in
    logistic regression, half the sum of squares of all weights keeps them finite where classes are separable.
    A view that says the same of everybody has no weight.
    """
    n_views, _, k = scores.shape
    spread = scores.std(axis=(1, 2))
    tells = spread > LEAST
    spread = np.where(tells, spread, 1.0)
    scaled = np.where(tells[:, None, None], scores / spread[:, None, None], 0.0)
    truth = np.eye(k)[codes]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        weights, intercept = values[:n_views], values[n_views:]
        logits = np.tensordot(weights, scaled, 1) + intercept
        logs = log_softmax(logits, axis=1)
        apart = weights - weights.mean()
        error = np.exp(logs) - truth
        slopes = np.tensordot(scaled, error, ((1, 2), (0, 1))) + l2 * apart + weights
        ridge = (intercept @ intercept + weights @ weights) / 2
        value = -(logs * truth).sum() + l2 / 2 * apart @ apart + ridge
        return float(value), np.concatenate([slopes, error.sum(0) + intercept])

    start = np.concatenate([np.full(n_views, 1 / n_views), np.zeros(k)])
    bounds = [(0.0, None)] * n_views + [(None, None)] * k
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = np.where(tells, found[:n_views], 0.0)
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(n_views, np.nan)
    return Weights(weights / spread, found[n_views:], shares)


def inner_folds(data: Cohort | GraphSet, codes: np.ndarray, n: int, by: str, seed: int) -> list[Parts]:
    """Folds of training scans: all scans of a subject, or by site all of a site, are held together."""
    choice("by", by, BY)
    whole("n_splits", n, 2)
    n_classes = int(codes.max()) + 1
    names, sites = _subjects_and_sites(data)
    numbers = pd.factorize(names)[0]
    subjects = Subjects.of(numbers, codes, n_classes)
    least = int(subjects.has.sum(0).min())
    if least < 2:
        raise ValueError("inner folds need at least two subjects of every class to learn from; add subjects.")
    if by == "subject":
        drawn = subjects.folds(min(n, least), seed)
        return [Parts(*map(subjects.scans, fold)) for fold in drawn]
    if sites is None:
        raise ValueError('by="site" needs sites, the data have none; pass sites or use by="subject".')
    first = pd.Series(np.asarray(sites)).groupby(numbers).transform("first").to_numpy().astype(str)
    n_sites = len(np.unique(first))
    if n_sites < 2:
        raise ValueError('by="site" needs at least two sites, the data have one; use by="subject".')
    cv = StratifiedGroupKFold(min(n, n_sites), shuffle=True, random_state=seed)
    folds = [Parts(*fold) for fold in cv.split(codes, codes, first)]
    folds = [fold for fold in folds if len(fold.held)]
    if any(len(np.unique(codes[fold.kept])) < n_classes for fold in folds):
        raise ValueError(
            'by="site" leaves a class without subjects to learn from; use by="subject" or fewer n_splits.'
        )
    return folds


def _subjects_and_sites(data: Cohort | GraphSet) -> tuple[np.ndarray, Any]:
    """(n,) names of subjects, each graph its own where it has none, and (n,) sites or None."""
    if isinstance(data, Cohort):
        return data.subjects, data.sites
    names = data.meta.get("subject", np.arange(len(data)))
    return np.asarray(names).astype(str), data.meta.get("site", data.groups)
