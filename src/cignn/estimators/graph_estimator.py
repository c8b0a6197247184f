"""`GraphEstimator`: what every classifier and regressor of graphs shares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from cignn._random import RandomState
from cignn.datasets.cohort import Cohort
from cignn.estimators.model_card import training_facts
from cignn.estimators.persistence import (
    CONNECTIONS,
    Packed,
    Saved,
    connection_bytes,
    read_connections,
    write_folder,
)
from cignn.explanations import EdgeReference
from cignn.graphs import GraphSet
from cignn.graphs.edge_statistics import EdgeStatistics

EvalSet = GraphSet | tuple[GraphSet, Sequence | np.ndarray] | None

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


def with_targets(graphs: Any, y: Sequence | np.ndarray | None) -> tuple[GraphSet, np.ndarray]:
    """Return the graphs and what is to be learnt of them, ``y`` or their own; refuse what is neither."""
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
    return graphs, labels


class GraphEstimator(BaseEstimator):
    """Base of all classifiers and regressors of graphs: scikit-learn's interface with a `GraphSet` as X.

    A subclass writes ``fit``, what it predicts, ``_reference`` and, for its models on disk, ``_files`` and
    ``_from_saved``.

    Attributes
    ----------
    n_features_in_ : int
        Node features of the training graphs.
    node_names_ : list of str or None
        Node names of the training graphs.
    settings_ : dict
        Every parameter as it was used.
    edge_statistics_ : EdgeStatistics or None
        Centre and scale of every connection in the training graphs, where they were aligned.
    reference_ : EdgeReference or None
        Mean and standard deviation of every connection in the graphs that others are compared with.

    Examples
    --------
    >>> from cignn.estimators import GraphEstimator, make_estimator
    >>> isinstance(make_estimator("gin"), GraphEstimator), isinstance(make_estimator("ridge"), GraphEstimator)
    (True, True)
    """

    random_state: RandomState

    settings_: dict[str, Any]
    n_features_in_: int
    feature_names_: list[str] | None
    n_nodes_: int | None  # of the aligned graphs learnt from; None where they were not aligned
    node_names_: list[str] | None
    training_digest_: str
    graphs_: np.ndarray  # (g,) fingerprints of the graphs learnt from
    training_facts_: dict[str, Any]  # numbers of graphs, subjects, sites and classes learnt from
    edge_statistics_: EdgeStatistics | None = None  # also of models saved before they were kept
    reference_: EdgeReference | None = None

    @abstractmethod
    def _reference(self, graphs: GraphSet, labels: np.ndarray) -> EdgeReference:
        """Return what is usual among aligned training graphs; deviations are from it."""

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
        self.training_facts_ = training_facts(graphs, labels)
        self.edge_statistics_, self.reference_ = None, None
        if graphs.aligned:
            self.edge_statistics_ = graphs.edge_statistics()
            self.reference_ = self._reference(graphs, labels)

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
        write_folder(path, *self._packed(), notes)

    def _packed(self) -> Packed:
        """What `save` writes."""
        self._check_is_fitted()
        return Packed(self._config(), self._files())

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
        if "device" in params:
            params["device"] = str(params["device"])
        return {
            "estimator": type(self).__name__,
            "params": params,
            "settings": self.settings_,
            "n_features": self.n_features_in_,
            "feature_names": self.feature_names_,
            "n_nodes": self.n_nodes_,
            "node_names": self.node_names_,
            "training_digest": self.training_digest_,
            "graphs": self.graphs_,
            "training": self.training_facts_,
            "control": None if self.reference_ is None else self.reference_.name,
        }

    @classmethod
    def _read_params(cls, params: dict[str, Any]) -> None:
        """Turn parameters that JSON cannot hold back into what they were, in place."""

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> Self:
        """Make an estimator that knows all that `_config` said."""
        params = _with_tuples(config["params"])
        cls._read_params(params)
        estimator = cls(**params)
        estimator.settings_ = _with_tuples(config["settings"])
        estimator.n_features_in_ = _size(config, "n_features")
        estimator.feature_names_ = _names(config, "feature_names", estimator.n_features_in_)
        estimator.n_nodes_ = None if config["n_nodes"] is None else _size(config, "n_nodes")
        estimator.node_names_ = _names(config, "node_names", estimator.n_nodes_)
        estimator.training_digest_ = str(config["training_digest"])
        estimator.graphs_ = read_fingerprints(config["graphs"])
        known = config.get("training")  # models saved earlier do not say
        estimator.training_facts_ = known if isinstance(known, dict) else {}
        return estimator

    # -------------------------------------------------------------- checking

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a GraphSet is no array
        return tags

    def _check_is_fitted(self) -> None:
        check_is_fitted(self, "settings_", msg="this %(name)s is not fitted yet; call fit first.")

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


def size_of(graphs: GraphSet) -> int | None:
    """Return the number of nodes of aligned graphs; None if there are no graphs or they are not aligned."""
    return int(graphs.n_nodes[0]) if graphs.aligned and len(graphs) else None


def read_fingerprints(values: Any) -> np.ndarray:
    """(n,) fingerprints that a saved model lists; refuse anything else."""
    if not isinstance(values, list) or not all(isinstance(one, str) and len(one) <= 64 for one in values):
        raise ValueError("fingerprints are no list of words")
    return np.array(values, dtype=str)


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
