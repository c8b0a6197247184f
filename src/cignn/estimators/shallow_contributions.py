"""Contributions of features to the decisions of shallow models, each by the model's own way to decide.

All models offer ``contributions(x, codes)``: of scaled vectors (g, features), whose training mean is 0, and
of class numbers (g,), it returns contributions (g, features) and bases (g,), which add up to the log-odds.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from cignn.nn.contributions import integral, quadrature
from cignn.nn.model import Path

POINTS = 64  # of the rule along a path


class Found(NamedTuple):
    """Contributions (g, features) and bases (g,)."""

    values: np.ndarray
    base: np.ndarray


class Explicable(Protocol):
    """A model whose decisions are sums of contributions."""

    def contributions(self, x: np.ndarray, codes: np.ndarray) -> Found:
        """Contributions of scaled vectors (g, features) to the log-odds of classes (g,)."""


def explicable(model: Any, factor: float | None) -> Explicable:
    """Return the explicable form of a fitted model; factor : of its decision values, where it has one."""
    if isinstance(model, RandomForestClassifier):
        return Forest(model)
    if isinstance(model, SVC):
        return Kernel(model, 1.0 if factor is None else factor)
    return Linear.of(model, factor)


class Linear(NamedTuple):
    """Class logits as linear functions: weights (classes, features) and intercepts (classes,)."""

    weights: np.ndarray
    intercept: np.ndarray

    @classmethod
    def of(cls, model: Any, factor: float | None) -> Linear:
        """Return the logits behind the probabilities of a linear model."""
        weights, intercept = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
        if len(weights) == 1:
            weights, intercept = np.concatenate([-weights, weights]) / 2, np.append(-intercept, intercept) / 2
        factor = 1.0 if factor is None else factor
        return cls((factor * weights).astype(np.float64), (factor * intercept).astype(np.float64))

    def contributions(self, x: np.ndarray, codes: np.ndarray) -> Found:
        """Coefficient × deviation; with more than two classes, integrated along the deviations."""
        weights, intercept = torch.from_numpy(self.weights), torch.from_numpy(self.intercept)
        path = Path(
            torch.from_numpy(x), lambda z: z @ weights.T, lambda h: h + intercept, lambda values: values
        )
        found = integral([path], torch.from_numpy(codes), POINTS)
        return Found(found.values.numpy(), found.base.numpy())

    def odds_coefficients(self) -> np.ndarray:
        """(classes, features) what a feature does to the log-odds of a class where all others are equal."""
        others = (self.weights.sum(0) - self.weights) / (len(self.weights) - 1)
        return self.weights - others


class Kernel(NamedTuple):
    """An RBF-SVM of two classes."""

    model: SVC
    factor: float

    def contributions(self, x: np.ndarray, codes: np.ndarray) -> Found:
        """Integrals of the decision value's gradient along the deviations."""
        found = path_of_kernel(self.model, x)
        signs = self.factor * np.where(codes == 1, 1.0, -1.0)
        return Found(signs[:, None] * found.values, signs * found.base)


def path_of_kernel(model: SVC | SVR, x: np.ndarray) -> Found:
    """Integrals of the gradient of an RBF-SVM's decision value, or an SVR's prediction, along deviations x.

    The value f(t x) = Σᵢ αᵢ exp(−γ |t x − sᵢ|²) + b has the gradient 2γ Σᵢ αᵢ kᵢ(t) (sᵢ − t x): on the way
    only the products x·sᵢ are needed.
    """
    vectors, weights = model.support_vectors_, model.dual_coef_[0]
    gamma, intercept = model._gamma, model.intercept_[0]
    products, lengths = x @ vectors.T, np.square(vectors).sum(1)
    own = np.square(x).sum(1, keepdims=True)

    def values(t: float) -> np.ndarray:
        """(g, support vectors) αᵢ kᵢ(t)."""
        return weights * np.exp(-gamma * (t * t * own - 2 * t * products + lengths))

    towards, away = np.zeros_like(products), np.zeros((len(x), 1))
    for t, weight in zip(*quadrature(POINTS), strict=True):
        here = weight * values(t)
        towards += here
        away += t * here.sum(1, keepdims=True)
    return Found(2 * gamma * x * (towards @ vectors - away * x), values(0.0).sum(1) + intercept)


class Forest(NamedTuple):
    """A random forest."""

    model: RandomForestClassifier

    def contributions(self, x: np.ndarray, codes: np.ndarray) -> Found:
        """What each split on a graph's way through the trees did to the probability, as log-odds.

        A split's feature gets the change of the class's share from node to node (Saabas 2014), so that the
        changes add up to the probability; the log-odds are integrated along them. Probabilities of 0 and 1,
        whose log-odds are not finite, count as those of half a tree.
        """
        trees = self.model.estimators_
        values, start = np.zeros(x.shape), np.zeros(len(x))
        for tree in trees:
            self._follow(tree, x.astype(np.float32), codes, values, start)
        values, start, least = values / len(trees), start / len(trees), 0.5 / len(trees)
        ends = np.clip(np.stack([start, start + values.sum(1)]), least, 1 - least)
        base, log_odds = np.log(ends) - np.log1p(-ends)
        changes = values.sum(1)
        flat = np.abs(changes) < 1e-12  # what moves the probability to and fro does so at one slope
        slopes = np.where(flat, 1 / (ends[0] * (1 - ends[0])), (log_odds - base) / np.where(flat, 1, changes))
        return Found(values * slopes[:, None], base)

    @staticmethod
    def _follow(
        tree: DecisionTreeClassifier, x: np.ndarray, codes: np.ndarray, values: np.ndarray, start: np.ndarray
    ) -> None:
        """Add what the splits of a tree did to the shares of classes, and the shares at its root."""
        shares = tree.tree_.value[:, 0] / tree.tree_.value[:, 0].sum(1, keepdims=True)
        parents = np.zeros(len(shares), np.int64)  # the root, node 0, has none
        for children in (tree.tree_.children_left, tree.tree_.children_right):
            inner = np.flatnonzero(children >= 0)
            parents[children[inner]] = inner
        visited = tree.decision_path(x)
        rows, nodes = np.repeat(np.arange(len(x)), np.diff(visited.indptr)), visited.indices
        rows, nodes = rows[nodes > 0], nodes[nodes > 0]
        changes = shares[nodes, codes[rows]] - shares[parents[nodes], codes[rows]]
        np.add.at(values, (rows, tree.tree_.feature[parents[nodes]]), changes)
        start += shares[0, codes]
