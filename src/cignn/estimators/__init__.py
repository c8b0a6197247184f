"""Graph classifiers with scikit-learn's interface."""

from __future__ import annotations

from pathlib import Path

from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.ci_gnn import CIGNNClassifier
from cignn.estimators.dir import DIRClassifier
from cignn.estimators.explaining import ExplainingClassifier
from cignn.estimators.gnn import GNNClassifier
from cignn.estimators.persistence import read_model
from cignn.estimators.presets import PRESETS
from cignn.estimators.sib import SIBClassifier

SAVED: dict[str, type[NeuralGraphClassifier]] = {
    "CIGNNClassifier": CIGNNClassifier,
    "DIRClassifier": DIRClassifier,
    "GNNClassifier": GNNClassifier,
    "SIBClassifier": SIBClassifier,
}


def load_model(path: str | Path) -> NeuralGraphClassifier:
    """Read a model that ``save`` wrote; a damaged, foreign or newer folder is refused with one clear line."""
    config, weights = read_model(path)
    name = config.get("estimator")
    if name not in SAVED:
        raise ValueError(f"{path} holds an unknown kind of model, {name!r}; upgrade cignn.")
    try:
        return SAVED[name]._from_saved(config, weights)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        line = str(error).splitlines()[0]
        raise ValueError(f"{path} is damaged: config and weights do not fit ({line}).") from None


__all__ = [
    "PRESETS",
    "SAVED",
    "CIGNNClassifier",
    "DIRClassifier",
    "ExplainingClassifier",
    "GNNClassifier",
    "NeuralGraphClassifier",
    "SIBClassifier",
    "load_model",
]
