"""From a row of a spec to something that `evaluate` runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline

from cignn.connectome import Connectivity, ConnectomeGraphs
from cignn.datasets import Cohort
from cignn.estimators import make_estimator
from cignn.evaluation.faithfulness import heaviest_edges
from cignn.explainers import Explainer, make_explainer
from cignn.graphs import GraphSet
from cignn.paper.spec import Method

# a smoke run shows that everything runs, not what it is worth
_GNN: dict[str, Any] = {"epochs": 2, "hidden": (8, 8), "head_hidden": (8,)}
SMOKE: dict[str, dict[str, Any]] = {
    "linear-svm": {"C": 1.0},
    "rbf-svm": {"C": 1.0},
    "random-forest": {"n_estimators": 5},
    "lasso": {"C": 1.0},
    "gcn": _GNN,
    "gat": _GNN,
    "gin": _GNN,
    "sib": _GNN | {"inner_steps": 1},
    "dir": _GNN | {"scorer_hidden": (8,)},
    "ci-gnn": {
        "epochs": 2,
        "generative_epochs": 0,
        "members": 1,
        "encoder_hidden": (8,),
        "classifier_hidden": (8, 8),
        "head_hidden": (8,),
    },
    "gnn-explainer": {"steps": 2},
    "pg-explainer": {"epochs": 1, "hidden": 8},
    "rc-explainer": {"epochs": 1, "max_edges": 3, "hidden": 8},
    "orphicx": {"epochs": 1, "hidden": (8,), "n_draws": 1},
    "built-in": {},
}


class SubgraphClassifier(ClassifierMixin, BaseEstimator):
    """A graph classifier that, when tested, reads nothing but the edges an explainer finds heavy.

    base : the classifier, trained on whole graphs; explainer : fitted on it and the training graphs; share :
    of the edges that it reads, the heaviest.
    """

    def __init__(self, base: Any, explainer: Explainer, share: float = 0.5) -> None:
        self.base = base
        self.explainer = explainer
        self.share = share

    def fit(self, X: GraphSet, y: Sequence | np.ndarray | None = None, eval_set: Any = None) -> Self:
        """Train the classifier, then the explainer; arguments are the classifier's."""
        self.base_ = clone(self.base).fit(X, y, eval_set=eval_set)
        self.explainer_ = clone(self.explainer).fit(self.base_, X)
        self.classes_ = self.base_.classes_
        return self

    @property
    def interrupted_(self) -> bool:
        """Whether Ctrl-C cut the training of the classifier short."""
        return bool(getattr(self.base_, "interrupted_", False))

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """(g, classes) probabilities of the subgraphs."""
        kept = heaviest_edges(self.explainer_.explain(X), self.share)
        return self.base_.predict_proba(X.with_edges(kept))

    def predict(self, X: GraphSet) -> np.ndarray:
        """(g,) labels of the subgraphs."""
        return self.classes_[self.predict_proba(X).argmax(1)]


def make_method(method: Method, data: Any, scale: str, density: float | None = None) -> Any:
    """Make the estimator or, for a cohort, the pipeline of a row."""
    density = density if method.density is None else method.density
    model: Any = make_estimator(method.estimator, **settings(method, scale))
    if method.subgraph_of:
        model = SubgraphClassifier(
            model, make_explainer(method.subgraph_of, **_small(method.subgraph_of, scale))
        )
        density = 0.1 if density is None else density  # the edges a GNN reads of brain graphs
    if not isinstance(data, Cohort):
        return model
    steps = [("connectivity", Connectivity(constant_rois="zero")), ("graphs", ConnectomeGraphs(density))]
    return Pipeline([*steps, ("classifier", model)])


def make_row_explainer(method: Method, scale: str) -> Explainer:
    """Make the explainer of a row."""
    params = method.explainer_params | _small(method.explainer, scale)
    return make_explainer(method.explainer, **params)


def settings(method: Method, scale: str) -> dict[str, Any]:
    """Parameters of the estimator of a row; lists of a spec become tuples."""
    params = {k: tuple(v) if isinstance(v, list) else v for k, v in method.params.items()}
    if scale == "smoke":
        params = params | _small(method.estimator, scale)
        if params.get("preset") == "paper":
            params |= {"epochs": 3, "generative_epochs": 1}
    return params


def _small(name: str, scale: str) -> dict[str, Any]:
    return dict(SMOKE.get(name, {})) if scale == "smoke" else {}
