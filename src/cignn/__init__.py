"""Graph classifiers that show which edges made the decision.

Research software. It implements a "causality-inspired" method, does not prove causes, and is not a medical
device.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cignn.datasets import Cohort, load_cohort
    from cignn.estimators import (
        CIGNNClassifier,
        CIGNNRegressor,
        CIGNNSettings,
        CohortClassifier,
        CohortRegressor,
        load_model,
        save_model,
    )
    from cignn.explanations import Explanations, GroupExplanation
    from cignn.graphs import GraphSet

__version__ = "0.1.0"
__all__ = [
    "CIGNNClassifier",
    "CIGNNRegressor",
    "CIGNNSettings",
    "Cohort",
    "CohortClassifier",
    "CohortRegressor",
    "Explanations",
    "GraphSet",
    "GroupExplanation",
    "load_cohort",
    "load_model",
    "save_model",
]

# Names come when they are first asked for: help and completion of the command line wait for no torch.
_PLACES = {
    "CIGNNClassifier": "estimators",
    "CIGNNRegressor": "estimators",
    "CIGNNSettings": "estimators",
    "Cohort": "datasets",
    "CohortClassifier": "estimators",
    "CohortRegressor": "estimators",
    "Explanations": "explanations",
    "GraphSet": "graphs",
    "GroupExplanation": "explanations",
    "load_cohort": "datasets",
    "load_model": "estimators",
    "save_model": "estimators",
}
_MODULES = (
    *("connectome", "datasets", "estimators", "evaluation", "explainers", "explanations"),
    *("graphs", "information", "nn", "paper", "report"),
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"cignn.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'cignn' has no attribute {name!r}")
    found = getattr(import_module(f"cignn.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
