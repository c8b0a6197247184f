"""Small graphs and small networks that several test files learn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from cignn import CIGNNClassifier
from cignn.estimators import make_estimator

TINY: dict[str, Any] = {
    "encoder_hidden": (8, 8),
    "classifier_hidden": (8, 8),
    "head_hidden": (8,),
    "n_causal": 6,
    "n_noncausal": 2,
    "epochs": 3,
    "n_estimators": 1,
    "random_state": 0,
}


def ci_gnn(**params: Any) -> CIGNNClassifier:
    """CI-GNN whose settings stand among its parameters."""
    model = make_estimator("ci-gnn", **params)
    assert isinstance(model, CIGNNClassifier)
    return model


def tiny(**more: Any) -> CIGNNClassifier:
    """CI-GNN that trains in a moment."""
    return ci_gnn(**(TINY | more))


def random_matrix(rng: np.random.Generator, n: int, density: float = 0.4) -> np.ndarray:
    """(n, n) symmetric float32, signed, zero diagonal; never two equal weights."""
    upper = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < density), 1)
    return (upper + upper.T).astype(np.float32)
