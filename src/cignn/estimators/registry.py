"""Every classifier by its name, and models from disk."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cignn._checks import nearest
from cignn.estimators.ci_gnn import CIGNNClassifier
from cignn.estimators.ci_gnn_settings import SETTINGS, with_settings_inside
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.estimators.dir import DIRClassifier
from cignn.estimators.gnn import GNNClassifier
from cignn.estimators.persistence import PREPARATION, ModelError, first_line, read_folder
from cignn.estimators.shallow import ShallowGraphClassifier
from cignn.estimators.sib import SIBClassifier


@dataclass(frozen=True)
class Method:
    """A class and the parameters its name settles."""

    estimator: type[GraphClassifier]
    settled: dict[str, Any] = field(default_factory=dict)


ESTIMATORS: dict[str, Method] = {
    "linear-svm": Method(ShallowGraphClassifier, {"model": "linear-svm"}),
    "rbf-svm": Method(ShallowGraphClassifier, {"model": "rbf-svm"}),
    "random-forest": Method(ShallowGraphClassifier, {"model": "random-forest"}),
    "lasso": Method(ShallowGraphClassifier, {"model": "lasso"}),
    "gcn": Method(GNNClassifier, {"layer": "gcn"}),
    "gat": Method(GNNClassifier, {"layer": "gat"}),
    "gin": Method(GNNClassifier, {"layer": "gin"}),
    "sib": Method(SIBClassifier),
    "dir": Method(DIRClassifier),
    "ci-gnn": Method(CIGNNClassifier),
}


def make_estimator(name: str, **params: Any) -> GraphClassifier:
    """Make the classifier of that name, one of `ESTIMATORS`; ``params`` are those of its class.

    Settings of CI-GNN may stand among its parameters: ``make_estimator("ci-gnn", dropout=0.3)``.
    """
    if name not in ESTIMATORS:
        raise ValueError(f"there is no classifier {name!r}{nearest(name, ESTIMATORS)}")
    method = ESTIMATORS[name]
    known = parameters_of(method.estimator)
    for param in params:
        if param in method.settled:
            raise ValueError(f"{param} is settled by the name {name!r}; leave it out.")
        if param not in known:
            raise ValueError(f"{name!r} has no parameter {param!r}{nearest(param, known)}")
    if method.estimator is CIGNNClassifier:
        params = with_settings_inside(params)
    return method.estimator(**method.settled, **params)


def parameters_of(estimator: type[GraphClassifier]) -> list[str]:
    """Return the names that `make_estimator` takes for a class: its parameters and those of its settings."""
    own = list(inspect.signature(estimator).parameters)
    return [*own, *SETTINGS] if estimator is CIGNNClassifier else own


def load_model(path: str | Path) -> Any:
    """Read a model that ``save`` wrote: a `GraphClassifier`, or the `CohortClassifier` around it.

    A damaged, foreign or newer folder is refused with one clear line.
    """
    saved = read_folder(path)
    kinds = {method.estimator.__name__: method.estimator for method in ESTIMATORS.values()}
    name = saved.config.get("estimator")
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"{path} holds an unknown kind of model, {name!r}; upgrade cignn.")
    try:
        classifier = kinds[name]._from_saved(saved)
        return CohortClassifier._from_saved(saved, classifier) if PREPARATION in saved.files else classifier
    except ModelError:
        raise
    except Exception as error:  # whatever comes of a config that says something else than the files
        line = first_line(error)
        raise ModelError(f"{path} is damaged: config and weights do not fit ({line}).") from None
