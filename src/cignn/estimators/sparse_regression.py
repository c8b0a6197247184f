"""`SparseLogisticRegression`: the lasso for more than two classes, quick where features are many.

For more than two classes scikit-learn has one solver with an L1 penalty, SAGA. Its steps are limited by the
longest vector, |x|² of some thousands for connections, and each goes through all features: it takes
thousands of passes. Here features without a coefficient are left out until their gradient asks for them.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import log_softmax, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import validate_data

FEWEST = 20  # features that join at once
RISE, FALL = 1.1, 0.5  # factors of the step length after a step that holds, and one that does not


class Problem(NamedTuple):
    """C · Σ weight · cross-entropy + Σ |coefficients|, with free intercepts.

    x : (n, features); y : (n, classes), one-hot; weight : (n,), C times what each sample counts.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def loss(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Smooth part of the objective; coef : (features, classes), intercept : (classes,)."""
        logits = self.x @ coef + intercept
        return float(self.weight @ (logsumexp(logits, axis=1) - (self.y * logits).sum(1)))

    def residual(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """(n, classes) derivative of the smooth part by the logits."""
        chances = np.exp(log_softmax(self.x @ coef + intercept, axis=1))
        return self.weight[:, None] * (chances - self.y)

    def of(self, features: np.ndarray) -> Problem:
        """Return the problem with some of the features."""
        return Problem(np.ascontiguousarray(self.x[:, features]), self.y, self.weight)


class SparseLogisticRegression(LogisticRegression):
    """scikit-learn's logistic regression with an L1 penalty and another solver for several classes.

    Same parameters, same objective, same attributes. It is done when no derivative is further than ``tol``
    from where the penalty, which is 1 per unit, would have it; ``max_iter`` bounds the steps.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the coefficients of each class to (n, features) samples and their (n,) classes."""
        X = validate_data(self, X, dtype=np.float64)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        counts = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        problem = Problem(X, np.eye(len(self.classes_))[codes], self.C * counts)
        found = solve(problem, self.tol, self.max_iter)
        if not found.converged:
            warnings.warn(
                f"the lasso has not converged in {self.max_iter} steps; lower C or raise tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.coef_ = np.ascontiguousarray(found.coef.T)
        self.intercept_ = found.intercept - found.intercept.mean()  # a constant changes no probability
        self.n_iter_ = np.array([found.steps])
        return self


class Solution(NamedTuple):
    """Coefficients (features, classes), intercepts (classes,) and how they were found."""

    coef: np.ndarray
    intercept: np.ndarray
    steps: int
    converged: bool


def solve(problem: Problem, tol: float, max_iter: int) -> Solution:
    """Solve on few features, let those join whose derivative exceeds the penalty, until none does."""
    n_features, n_classes = problem.x.shape[1], problem.y.shape[1]
    coef, share = np.zeros((n_features, n_classes)), problem.weight @ problem.y
    intercept = np.log(share / share.sum())
    active: np.ndarray = np.zeros(n_features, bool)
    steps = 0
    while True:
        gradient = problem.x.T @ problem.residual(coef, intercept)
        excess = np.abs(gradient).max(1) - 1
        excess[active] = -np.inf
        joining = np.flatnonzero(excess > tol)
        done = not len(joining)
        if done or steps >= max_iter:
            return Solution(coef, intercept, steps, done)
        most = max(FEWEST, int(active.sum()))
        active[joining[np.argsort(-excess[joining], kind="stable")][:most]] = True
        inner = descend(problem.of(active), coef[active], intercept, tol, max_iter - steps)
        coef[active], intercept, steps = inner.coef, inner.intercept, steps + inner.steps
        if not inner.converged:
            return Solution(coef, intercept, steps, False)
        active = np.asarray(coef.any(1))


def descend(problem: Problem, coef: np.ndarray, intercept: np.ndarray, tol: float, max_iter: int) -> Solution:
    """Accelerated proximal gradient steps with a step length that adapts, begun anew where they overshoot.

    Beck and Teboulle, "A fast iterative shrinkage-thresholding algorithm", 2009; O'Donoghue and Candès,
    "Adaptive restart for accelerated gradient schemes", 2015.
    """
    largest = problem.weight.max() * np.linalg.norm(problem.x, 2) ** 2 / 2 + problem.weight.sum() / 2
    length = 1 / largest
    ahead, ahead_b, momentum = coef, intercept, 1.0
    for step in range(1, max_iter + 1):
        residual = problem.residual(ahead, ahead_b)
        gradient, slope = problem.x.T @ residual, residual.sum(0)
        loss = problem.loss(ahead, ahead_b)
        length = max(length * RISE, 1 / largest)
        while True:
            moved = ahead - length * gradient
            new = np.sign(moved) * np.maximum(np.abs(moved) - length, 0)
            new_b = ahead_b - length * slope
            change, change_b = new - ahead, new_b - ahead_b
            bound = (gradient * change).sum() + slope @ change_b
            bound += ((change**2).sum() + (change_b**2).sum()) / (2 * length)
            if length <= 1 / largest or problem.loss(new, new_b) <= loss + bound + 1e-12 * abs(loss):
                break
            length = max(length * FALL, 1 / largest)
        if max(np.abs(change).max(initial=0), np.abs(change_b).max()) <= tol * length and (
            excess_of(problem, new, new_b) <= tol
        ):
            return Solution(new, new_b, step, True)
        turned = (change * (new - coef)).sum() + change_b @ (new_b - intercept) < 0
        following = 1.0 if turned else (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        push = 0.0 if turned else (momentum - 1) / following
        ahead, ahead_b = new + push * (new - coef), new_b + push * (new_b - intercept)
        coef, intercept, momentum = new, new_b, following
    return Solution(coef, intercept, max_iter, False)


def excess_of(problem: Problem, coef: np.ndarray, intercept: np.ndarray) -> float:
    """How far the largest derivative is from what the penalty allows."""
    residual = problem.residual(coef, intercept)
    gradient = problem.x.T @ residual
    off = np.where(coef == 0, np.abs(gradient) - 1, np.abs(gradient + np.sign(coef)))
    return float(max(off.max(initial=0.0), np.abs(residual.sum(0)).max()))
