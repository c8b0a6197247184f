"""Fit several estimators together: what their networks have in common is computed once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from cignn._arrays import digest
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.classifier import EvalSet
from cignn.graphs import GraphSet


class Fit(NamedTuple):
    """An estimator and the arguments of its ``fit``."""

    estimator: NeuralGraphClassifier
    graphs: GraphSet
    y: Any = None
    eval_set: EvalSet = None


def stackable(estimator: Any) -> Hashable | None:
    """What estimators have to share to be trained in one stack; None for one that trains no network."""
    if not isinstance(estimator, NeuralGraphClassifier):
        return None
    params = {
        k: v for k, v in estimator.get_params(deep=False).items() if k not in ("random_state", "checkpoint")
    }
    return digest(type(estimator).__name__, {k: repr(v) for k, v in params.items()})


def fit_together(fits: Sequence[Fit], *, networks: int | str = "auto") -> list[Exception | None]:
    """Fit every estimator in place; returns the exceptions of those that failed, None for the others."""
    failures: list[Exception | None] = []
    for fit in fits:
        try:
            fit.estimator.fit(fit.graphs, fit.y, eval_set=fit.eval_set)
            failures.append(None)
        except Exception as error:
            failures.append(error)
    return failures
