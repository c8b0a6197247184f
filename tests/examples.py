"""Small graphs and small networks that several test files learn from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from cignn import CIGNNClassifier
from cignn._arrays import sha256
from cignn.estimators import make_estimator
from cignn.estimators.persistence import CONFIG, sealed

TINY: dict[str, Any] = {
    "encoder_hidden": (8, 8),
    "classifier_hidden": (8, 8),
    "head_hidden": (8,),
    "n_causal": 6,
    "n_noncausal": 2,
    "epochs": 3,
    "random_state": 0,
}


def reseal(path: str | Path) -> None:
    """Update the sizes and checksums in the config of a model folder whose files were changed."""
    folder = Path(path)
    config = json.loads((folder / CONFIG).read_bytes())
    for kind in ("files", "notes"):
        config[kind] = {
            name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in config[kind]
        }
    (folder / CONFIG).write_bytes(sealed(config))


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
