"""`GraphClassifier`: what every classifier of graphs shares, with a network inside or without."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from cignn._random import RandomState
from cignn.datasets.cohort import Cohort
from cignn.datasets.labels import control_class, refuse_scores
from cignn.estimators.persistence import (
    CONNECTIONS,
    Saved,
    connection_bytes,
    read_connections,
    write_folder,
)
from cignn.estimators.settings import ClassWeight
from cignn.explanations import EdgeReference
from cignn.graphs import GraphSet
from cignn.graphs.edge_statistics import EdgeStatistics

EvalSet = GraphSet | tuple[GraphSet, Sequence | np.ndarray] | None

LARGEST_LABEL = 4096  # bytes; a config must not ask for more memory than labels need
UNSAVED = ("random_state", "checkpoint")  # parameters that belong to a training, not to a model


def check_graphs(graphs: Any) -> None:
    """Refuse what is no GraphSet, and say how to make one of it."""
    if isinstance(graphs, GraphSet):
        return
    advice = "make one with GraphSet.from_arrays"
    if isinstance(graphs, Cohort):
        steps = "Connectivity(), ConnectomeGraphs()" if graphs.matrices is None else "ConnectomeGraphs()"
        advice = f"put {steps} before the classifier, as make_connectome_pipeline(classifier) does"
    raise TypeError(f"expected a GraphSet, got {type(graphs).__name__}; {advice}.")


def labelled(graphs: Any, y: Sequence | np.ndarray | None) -> tuple[GraphSet, np.ndarray]:
    """Return the graphs and their labels, ``y`` or their own; refuse what is neither."""
    check_graphs(graphs)
    if not len(graphs):
        raise ValueError("there are no graphs to learn or choose from, got an empty GraphSet.")
    if y is None and graphs.y is None:
        raise ValueError("the graphs carry no labels; pass y or make the GraphSet with y.")
    labels = np.asarray(graphs.y if y is None else y)
    if labels.shape != (len(graphs),):
        raise ValueError(f"y must have one label per graph ({len(graphs)}), got shape {labels.shape}.")
    if pd.isna(labels).any():
        raise ValueError(f"y has no label for graph {int(pd.isna(labels).argmax())}; drop unlabelled graphs.")
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.round(labels))).all():
        raise ValueError("y must hold class labels, got continuous values.")
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


class GraphClassifier(ClassifierMixin, BaseEstimator):
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
    random_state: RandomState

    classes_: np.ndarray
    settings_: dict[str, Any]
    n_features_in_: int
    feature_names_: list[str] | None
    n_nodes_: int | None  # of the aligned graphs learnt from; None where they were not aligned
    node_names_: list[str] | None
    training_digest_: str
    graphs_: np.ndarray  # (g,) fingerprints of the graphs learnt from
    edge_statistics_: EdgeStatistics | None = None  # also of models saved before they were kept
    reference_: EdgeReference | None = None

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

    def trained_on(self, X: GraphSet) -> np.ndarray:
        """Return which graphs ``fit`` has seen, as training or validation graphs.

        Parameters
        ----------
        X : GraphSet
            Graphs to look up; they are recognised by their data.

        Returns
        -------
        ndarray of bool of shape (n_graphs,)
            Whether each graph was seen.
        """
        self._check_is_fitted()
        return np.isin(X.with_features(self.feature_names_).fingerprints(), self.graphs_)

    def without_edges(self, X: GraphSet, gone: Sequence[np.ndarray]) -> GraphSet:
        """Return graphs in which some edges have no evidence for any class.

        Parameters
        ----------
        X : GraphSet
            Graphs.
        gone : sequence of bool arrays of shape (e,)
            One mask per graph, aligned with ``X.edges(i)``: the edges to remove.

        Returns
        -------
        GraphSet
            The graphs without these edges, which is no evidence for a network. For a model that reads
            connections as numbers, their values are the means of the training graphs.
        """
        return X.with_edges([~np.asarray(mask, bool) for mask in gone])

    def _remember(self, graphs: GraphSet, labels: np.ndarray, *more: GraphSet) -> None:
        """Store the facts of the training graphs; more : other graphs that ``fit`` has seen."""
        self.n_features_in_ = graphs.n_features
        self.feature_names_ = graphs.feature_names
        self.n_nodes_ = size_of(graphs)
        self.node_names_ = graphs.node_names
        self.training_digest_ = graphs.with_y(labels).digest()
        self.graphs_ = np.unique(np.concatenate([part.fingerprints() for part in (graphs, *more)]))
        self.edge_statistics_, self.reference_ = None, None
        if graphs.aligned:
            self.edge_statistics_ = graphs.edge_statistics()
            control = control_class(np.unique(labels).tolist())
            self.reference_ = EdgeReference.of(graphs[labels == control], str(control))

    def resolved_defaults(self) -> dict[str, Any]:
        """Return what parameters such as "auto" stand for.

        A store of results tells tasks apart by the parameters and by this: when a rule or a preset changes,
        old results are not taken for new ones.

        Returns
        -------
        dict of str to object
            Values by name; empty where the parameters say it all.
        """
        return {}

    # ---------------------------------------------------------------- saving

    def save(self, path: str | Path, notes: Mapping[str, str] | None = None) -> None:
        """Write the fitted model into a folder; nothing in it is pickled.

        A model that is already in the folder is replaced. If the process is killed meanwhile, the folder
        holds the complete old model or the complete new one.

        Parameters
        ----------
        path : str or Path
            The folder; made if missing.
        notes : mapping of str to str, default=None
            Text files to save with the model, by name: ``{"settings.toml": text}``.
        """
        self._check_is_fitted()
        write_folder(path, self._config(), self._files(), notes)

    @abstractmethod
    def _files(self) -> dict[str, bytes]:
        """Return the content of the files that a model folder holds beside its config, by name."""

    def _connection_files(self) -> dict[str, bytes]:
        """The statistics of connections as a file; none where they are not known."""
        if self.edge_statistics_ is None or self.reference_ is None:
            return {}
        return {CONNECTIONS: connection_bytes(self.edge_statistics_, self.reference_)}

    def _read_connections(self, saved: Saved) -> None:
        """Take the statistics of connections from a model folder that has some."""
        if CONNECTIONS in saved.files:
            name = str(saved.config.get("control"))
            self.edge_statistics_, self.reference_ = read_connections(saved, self.n_nodes_, name)

    @classmethod
    @abstractmethod
    def _from_saved(cls, saved: Saved) -> Self:
        """Make a fitted estimator of a model folder; refuse what is damaged in one line."""

    def _config(self) -> dict[str, Any]:
        """What a saved model says of itself, as plain data."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in UNSAVED}
        if isinstance(self.class_weight, dict):
            params["class_weight"] = list(self.class_weight.items())  # JSON would make strings of the labels
        if "device" in params:
            params["device"] = str(params["device"])
        return {
            "estimator": type(self).__name__,
            "params": params,
            "settings": self.settings_,
            "classes": self.classes_.tolist(),
            "classes_dtype": self.classes_.dtype.str,
            "n_features": self.n_features_in_,
            "feature_names": self.feature_names_,
            "n_nodes": self.n_nodes_,
            "node_names": self.node_names_,
            "training_digest": self.training_digest_,
            "graphs": self.graphs_,
            "control": None if self.reference_ is None else self.reference_.name,
        }

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> Self:
        """Make an estimator that knows all that `_config` said."""
        params = _with_tuples(config["params"])
        if isinstance(params["class_weight"], tuple):
            params["class_weight"] = dict(params["class_weight"])
        estimator = cls(**params)
        estimator.settings_ = _with_tuples(config["settings"])
        estimator.classes_ = _classes(config["classes"], config["classes_dtype"])
        estimator.n_features_in_ = _size(config, "n_features")
        estimator.feature_names_ = _names(config, "feature_names", estimator.n_features_in_)
        estimator.n_nodes_ = None if config["n_nodes"] is None else _size(config, "n_nodes")
        estimator.node_names_ = _names(config, "node_names", estimator.n_nodes_)
        estimator.training_digest_ = str(config["training_digest"])
        estimator.graphs_ = read_fingerprints(config["graphs"])
        return estimator

    # -------------------------------------------------------------- checking

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a GraphSet is no array
        tags.target_tags.required = False  # and brings its labels along
        return tags

    def _check_is_fitted(self) -> None:
        check_is_fitted(self, "classes_", msg="this %(name)s is not fitted yet; call fit first.")

    def _check_fitted(self, X: GraphSet) -> GraphSet:
        self._check_is_fitted()
        check_graphs(X)
        X = X.with_features(self.feature_names_)
        check_features(type(self).__name__, X, self.n_features_in_)
        check_nodes(type(self).__name__, X, self.n_nodes_, self.node_names_)
        return X


def check_features(who: str, graphs: GraphSet, n_features: int) -> None:
    """Refuse graphs with another number of node features; who : the class that asks."""
    if graphs.n_features != n_features:
        raise ValueError(f"graphs have {graphs.n_features} node features, {who} expects {n_features}.")


def check_nodes(who: str, graphs: GraphSet, n_nodes: int | None, names: list[str] | None) -> None:
    """Refuse graphs of other nodes than the aligned ones learnt from; n_nodes : None where they were not."""
    if n_nodes is not None and len(graphs) and size_of(graphs) != n_nodes:
        kind = (
            f"aligned graphs of {size_of(graphs)} nodes" if graphs.aligned else "graphs that are not aligned"
        )
        raise ValueError(
            f"got {kind}, {who} learnt from aligned graphs of {n_nodes}; give graphs of the same nodes, made "
            "with aligned=True."
        )
    if names is None or graphs.node_names is None or graphs.node_names == names:
        return
    pairs = enumerate(zip(graphs.node_names, names, strict=False))
    different = next((f"node {i} is {a!r}, not {b!r}" for i, (a, b) in pairs if a != b), "sizes differ")
    raise ValueError(
        f"the nodes are not those that were learnt from ({different}); bring them into the same order."
    )


def checked_probabilities(values: np.ndarray) -> np.ndarray:
    """Return (g, classes) probabilities as they are; refuse numbers that are none."""
    good = (values >= 0).all(1) & (np.abs(values.sum(1) - 1) < 1e-3)  # of a NaN neither holds
    if not good.all():
        raise ValueError(
            f"the model gives graph {good.argmin()} no probabilities: its weights, or the numbers of "
            "the graph, are too large; look for extreme values, or fit the model again."
        )
    return values


def size_of(graphs: GraphSet) -> int | None:
    """Return the number of nodes of aligned graphs; None if there are no graphs or they are not aligned."""
    return int(graphs.n_nodes[0]) if graphs.aligned and len(graphs) else None


def read_fingerprints(values: Any) -> np.ndarray:
    """(n,) fingerprints that a saved model lists; refuse anything else."""
    if not isinstance(values, list) or not all(isinstance(one, str) and len(one) <= 64 for one in values):
        raise ValueError("fingerprints are no list of words")
    return np.array(values, dtype=str)


def _classes(labels: Any, dtype: Any) -> np.ndarray:
    """(classes,) the labels that a saved model lists, in order."""
    kind = np.dtype(dtype)
    if kind.kind not in "iufbUSO" or kind.itemsize > LARGEST_LABEL or not isinstance(labels, list):
        raise ValueError(f"classes of type {dtype} are no labels")
    if not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError("classes hold more than words and numbers")
    classes = np.array(labels, dtype=kind)
    if classes.tolist() != labels or len(np.unique(classes)) < max(len(labels), 2):
        raise ValueError(f"classes {labels[:5]} are no two or more different labels of type {dtype}")
    return classes


def _size(config: dict[str, Any], name: str) -> int:
    value = config[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is {value!r}")
    return value


def _names(config: dict[str, Any], name: str, size: int | None) -> list[str] | None:
    names = config[name]
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != size or not all(isinstance(one, str) for one in names):
        raise ValueError(f"{name} are no list of {size} names")
    return names


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has only lists."""

    def read(value: Any) -> Any:
        if isinstance(value, dict):
            return _with_tuples(value)
        return tuple(value) if isinstance(value, list) else value

    return {name: read(value) for name, value in values.items()}
