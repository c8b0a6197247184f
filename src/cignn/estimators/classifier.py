"""`GraphClassifier`: what every classifier of graphs shares, with a network inside or without."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags

from cignn.datasets.labels import control_class, refuse_scores
from cignn.estimators.graph_estimator import EvalSet, GraphEstimator, with_targets
from cignn.estimators.settings import ClassWeight
from cignn.explanations import EdgeReference
from cignn.graphs import GraphSet

LARGEST_LABEL = 4096  # bytes; a config must not ask for more memory than labels need


def labelled(graphs: Any, y: Sequence | np.ndarray | None) -> tuple[GraphSet, np.ndarray]:
    """Return the graphs and their class labels, ``y`` or their own; refuse what is neither."""
    graphs, labels = with_targets(graphs, y)
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.round(labels))).all():
        raise ValueError(
            "y must hold class labels, got continuous values; a regressor, such as CIGNNRegressor, learns "
            "a score."
        )
    return graphs, labels


def class_codes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and every label's place among them."""
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(f"y must hold labels of one kind, got {kinds}.") from None
    if len(classes) < 2:
        raise ValueError(f"fit needs at least two classes, got one class, {classes.tolist()[0]!r}.")
    refuse_scores(labels)
    return classes, codes


class GraphClassifier(ClassifierMixin, GraphEstimator):
    """Base of all classifiers of graphs: scikit-learn's interface with a `GraphSet` as X.

    A subclass writes ``fit``, ``predict_proba`` and, for its models on disk, ``_files`` and ``_from_saved``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Node features of the training graphs.
    node_names_ : list of str or None
        Node names of the training graphs.
    settings_ : dict
        Every parameter as it was used.
    edge_statistics_ : EdgeStatistics or None
        Centre and scale of every connection in the training graphs, where they were aligned.
    reference_ : EdgeReference or None
        Mean and standard deviation of every connection in the controls among them: the graphs of the class
        that is named like controls ("HC", "control", "TD"), else of the class 0, else of the first class.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import GraphClassifier, make_estimator
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> clf = make_estimator("gin", epochs=1, random_state=0)
    >>> isinstance(clf, GraphClassifier)
    True
    >>> clf.fit(graphs).predict(graphs).shape
    (20,)
    """

    class_weight: ClassWeight

    classes_: np.ndarray

    @abstractmethod
    def fit(self, X: GraphSet, y: Sequence | np.ndarray | None = None, eval_set: EvalSet = None) -> Self:
        """Learn from labelled graphs.

        Parameters
        ----------
        X : GraphSet
            Graphs to learn from.
        y : array-like of shape (n_graphs,), default=None
            Labels; those of `X` by default.
        eval_set : GraphSet or tuple of GraphSet and labels, default=None
            Validation graphs, for classifiers that choose an epoch on them.

        Returns
        -------
        GraphClassifier
            The fitted classifier.
        """

    @abstractmethod
    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        X : GraphSet
            Graphs with the same node features as the training graphs and, if aligned, the same nodes.

        Returns
        -------
        ndarray of shape (n_graphs, n_classes)
            Probabilities, in the order of ``classes_``.
        """

    def predict(self, X: GraphSet) -> np.ndarray:
        """Predict labels.

        Parameters
        ----------
        X : GraphSet
            Graphs with the same node features as the training graphs and, if aligned, the same nodes.

        Returns
        -------
        ndarray of shape (n_graphs,)
            The most probable labels.
        """
        probabilities = self.predict_proba(X)  # says first whether there is anything to predict with
        return self.classes_[probabilities.argmax(1)]

    def score(
        self,
        X: GraphSet,
        y: Sequence | np.ndarray | None = None,
        sample_weight: Sequence | np.ndarray | None = None,
    ) -> float:
        """Compute the accuracy on labelled graphs.

        Parameters
        ----------
        X : GraphSet
            Graphs to classify.
        y : array-like of shape (n_graphs,), default=None
            Labels; those of `X` by default.
        sample_weight : array-like of shape (n_graphs,), default=None
            Weights of the graphs.

        Returns
        -------
        float
            Share of graphs whose label is predicted correctly.
        """
        self._check_is_fitted()
        graphs, labels = labelled(X, y)
        return float(accuracy_score(labels, self.predict(graphs), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False  # graphs bring their labels along
        return tags

    def _reference(self, graphs: GraphSet, labels: np.ndarray) -> EdgeReference:
        control = control_class(np.unique(labels).tolist())
        return EdgeReference.of(graphs[labels == control], str(control))

    def _config(self) -> dict[str, Any]:
        config = super()._config()
        if isinstance(self.class_weight, dict):  # JSON would make strings of the labels
            config["params"]["class_weight"] = list(self.class_weight.items())
        return config | classes_config(self.classes_)

    @classmethod
    def _read_params(cls, params: dict[str, Any]) -> None:
        if isinstance(params["class_weight"], tuple):
            params["class_weight"] = dict(params["class_weight"])

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> Self:
        estimator = super()._from_config(config)
        estimator.classes_ = read_classes(config)
        return estimator


def classes_config(classes: np.ndarray) -> dict[str, Any]:
    """What a config says of the classes; `read_classes` reads it."""
    return {"classes": classes.tolist(), "classes_dtype": classes.dtype.str}


def checked_probabilities(values: np.ndarray) -> np.ndarray:
    """Return (g, classes) probabilities as they are; refuse numbers that are none."""
    good = (values >= 0).all(1) & (np.abs(values.sum(1) - 1) < 1e-3)  # of a NaN neither holds
    if not good.all():
        raise ValueError(
            f"the model gives graph {good.argmin()} no probabilities: its weights, or the numbers of "
            "the graph, are too large; look for extreme values, or fit the model again."
        )
    return values


def read_classes(config: dict[str, Any]) -> np.ndarray:
    """(classes,) the labels that the config of a saved model lists, in order."""
    labels, dtype = config["classes"], config["classes_dtype"]
    kind = np.dtype(dtype)
    if kind.kind not in "iufbUSO" or kind.itemsize > LARGEST_LABEL or not isinstance(labels, list):
        raise ValueError(f"classes of type {dtype} are no labels")
    if not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError("classes hold more than words and numbers")
    classes = np.array(labels, dtype=kind)
    if classes.tolist() != labels or len(np.unique(classes)) < max(len(labels), 2):
        raise ValueError(f"classes {labels[:5]} are no two or more different labels of type {dtype}")
    return classes
