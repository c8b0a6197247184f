"""`GraphSet`: many labelled graphs in compact storage.

Graphs are undirected and simple: an edge is a pair of different nodes with a weight of either sign, a
weight of zero means no edge, and self-loops are dropped. Aligned sets, in which node i is the same thing in
every graph (a brain region), are stacked arrays; all others store each undirected edge once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from cignn._arrays import Index, digest, positions
from cignn._mapped import MappedArray
from cignn.graphs.building import (
    mapped_features,
    ragged,
    ragged_from_matrices,
    select_features,
    stack_features,
    stack_truth,
    stack_weights,
)
from cignn.graphs.pyg import read_pyg, write_pyg
from cignn.graphs.storage import Ragged, Stacked, StoredGraphs, plain_labels

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Graph(NamedTuple):
    """One dense graph: what ``graphs[i]`` returns for an integer i.

    Parameters
    ----------
    weights : ndarray of shape (n, n)
        Edge weights, float32, symmetric with a zero diagonal.
    x : ndarray of shape (n, d)
        Node features, float32.
    y : object
        The label, or None.
    edge_truth : ndarray of shape (n, n) or None
        True where an edge is known to cause the class.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> graph = make_ba2motifs(4, random_state=0)[0]
    >>> graph.weights.shape, graph.x.shape
    ((25, 25), (25, 10))
    """

    weights: np.ndarray
    x: np.ndarray
    y: object
    edge_truth: np.ndarray | None


class GraphSet(StoredGraphs):
    """Many labelled graphs that index like an array.

    Made by `from_arrays`, `from_edges`, `from_pyg` or by a loader of `cignn.datasets`. ``graphs[3]`` is one
    `Graph`; ``graphs[mask]``, ``graphs[[0, 2]]`` and ``graphs[:10]`` are graph sets, so scikit-learn's
    splitters, searches and pipelines work. All parameters but ``store`` are also attributes.

    Parameters
    ----------
    store : Stacked or Ragged
        Internal storage of the graphs, made by the class methods.
    y : array-like of shape (g,), default=None
        Labels of any type.
    groups : array-like of shape (g,), default=None
        Groups as in scikit-learn: sites, for leave-one-site-out; or "train" and "test" of a set that comes
        with its own test graphs.
    node_names : sequence of str, default=None
        Names of the nodes of an aligned set.
    meta : mapping of str to array-like of shape (g,), default=None
        Further columns. "subject" is the subject of each graph: all graphs of a subject stay on the same side
        of every split.
    node_meta : mapping of str to array-like of shape (n, ...), default=None
        Further columns for the nodes of an aligned set, such as "system" and "coordinates".
    feature_names : sequence of str, default=None
        Names of the node features; see `with_features`.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import GraphSet
    >>> triangle, path = 1 - np.eye(3), np.diag([0.5, 0.5], 1) + np.diag([0.5, 0.5], -1)
    >>> graphs = GraphSet.from_arrays([triangle, path, triangle], y=["ring", "path", "ring"])
    >>> graphs
    GraphSet(3 graphs, 3 nodes, 2.7 edges, 1 features)
    >>> graphs[graphs.y == "path"].edges(0).tolist()
    [[0, 1], [1, 2]]
    """

    def __init__(
        self,
        store: Stacked | Ragged,
        y: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        node_names: Sequence[str] | None = None,
        meta: Mapping[str, npt.ArrayLike] | None = None,
        node_meta: Mapping[str, npt.ArrayLike] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self._store = store
        self.y = None if y is None else np.asarray(y)
        self.groups = None if groups is None else np.asarray(groups)
        self.node_names = None if node_names is None else [str(name) for name in node_names]
        self.meta = {key: np.asarray(column) for key, column in (meta or {}).items()}
        self.node_meta = {key: np.asarray(column) for key, column in (node_meta or {}).items()}
        self.feature_names = None if feature_names is None else [str(name) for name in feature_names]
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(f"expected {self.n_features} feature_names, got {len(self.feature_names)}.")
        for name, column in {"y": self.y, "groups": self.groups, **self.meta}.items():
            if column is not None and column.shape[:1] != (len(self),):
                raise ValueError(f"{name} must have one entry per graph ({len(self)}), got {column.shape}.")
        for name, column in self.node_meta.items():
            if not isinstance(store, Stacked):
                raise ValueError(f"node_meta ({name}) needs aligned graphs: node i the same in each.")
            if column.shape[:1] != store.weights.shape[1:2]:
                n = store.weights.shape[1]
                raise ValueError(f"{name} must have one entry per node ({n}), got {column.shape}.")

    # ------------------------------------------------------------------ making

    @classmethod
    def from_arrays(
        cls,
        adj: np.ndarray | Sequence[np.ndarray] | MappedArray,
        x: np.ndarray | Sequence[np.ndarray] | MappedArray | None = None,
        y: npt.ArrayLike | None = None,
        *,
        groups: npt.ArrayLike | None = None,
        node_names: Sequence[str] | None = None,
        edge_truth: np.ndarray | Sequence[np.ndarray] | None = None,
        aligned: bool | None = None,
        meta: Mapping[str, npt.ArrayLike] | None = None,
        node_meta: Mapping[str, npt.ArrayLike] | None = None,
    ) -> GraphSet:
        """Make a graph set from dense matrices.

        Parameters
        ----------
        adj : array of shape (g, n, n) or sequence of arrays of shape (n_i, n_i)
            Symmetric edge weights. scipy's sparse matrices and torch's tensors work too.
        x : array of shape (g, n, d) or sequence of arrays of shape (n_i, d), default=None
            Node features. By default the rows of ``adj`` in an aligned set, and a constant 1 in any other.
        y : array-like of shape (g,), default=None
            Labels of any type.
        groups : array-like of shape (g,), default=None
            Sites, or "train" and "test".
        node_names : sequence of str, default=None
            Names of the nodes of an aligned set.
        edge_truth : like ``adj``, default=None
            True where an edge is known to cause the class; for aligned graphs also one (n, n) array for all.
        aligned : bool, default=None
            Whether node i is the same thing in every graph. By default when ``node_names`` are given.
        meta : mapping of str to array-like of shape (g,), default=None
            Further columns.
        node_meta : mapping of str to array-like of shape (n, ...), default=None
            More about the nodes of an aligned set.

        Returns
        -------
        GraphSet
            The graphs.
        """
        if getattr(adj, "ndim", 3) != 3 and getattr(adj, "dtype", None) != np.dtype(object):
            raise ValueError(f"adj must be (graphs, nodes, nodes), got shape {np.shape(adj)}.")
        aligned = node_names is not None if aligned is None else aligned
        if node_meta and not aligned:
            raise ValueError("node_meta needs aligned graphs; pass aligned=True or node_names.")
        if isinstance(adj, MappedArray) and not aligned:
            raise ValueError("arrays on disk need aligned graphs; pass aligned=True or node_names.")
        weights = stack_weights(adj if hasattr(adj, "__len__") else list(adj))
        sizes = np.array(
            [len(m) for m in weights] if isinstance(weights, list) else len(weights) * [weights.shape[1]]
        )
        features: np.ndarray | MappedArray | None = None
        if isinstance(x, MappedArray):
            features = mapped_features(x, sizes)
        elif x is not None:
            features = stack_features(x, sizes)
        if not aligned and getattr(edge_truth, "ndim", 3) == 2:
            raise ValueError("one edge_truth for all graphs needs aligned graphs; pass one matrix per graph.")
        truth = None if edge_truth is None else stack_truth(edge_truth, sizes)
        if not aligned:
            return cls(ragged_from_matrices(weights, features, truth), y, groups, meta=meta)  # type: ignore[arg-type]
        if isinstance(weights, list):
            found = sorted(set(sizes.tolist()))
            raise ValueError(f"aligned graphs must have the same nodes, got sizes {found}.")
        if node_names is not None and len(node_names) != sizes[0]:
            raise ValueError(f"expected {sizes[0]} node_names, got {len(node_names)}.")
        if isinstance(features, np.ndarray):
            features = features.reshape(*weights.shape[:2], -1)
        store = Stacked(
            weights, weights if features is None else features, None if truth is None else np.asarray(truth)
        )
        return cls(store, y, groups, node_names, meta, node_meta)

    @classmethod
    def from_edges(
        cls,
        edges: np.ndarray,
        graph_of_node: np.ndarray,
        x: np.ndarray | None = None,
        y: npt.ArrayLike | None = None,
        *,
        edge_weight: np.ndarray | None = None,
        edge_truth: np.ndarray | None = None,
        groups: npt.ArrayLike | None = None,
        meta: Mapping[str, npt.ArrayLike] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> GraphSet:
        """Make a graph set from one edge list over all nodes of all graphs.

        Parameters
        ----------
        edges : array of shape (e, 2)
            Node numbers. An undirected edge may be listed once or in both directions with the same weight.
        graph_of_node : array of shape (nodes,)
            The number of the graph of each node, sorted, from 0.
        x : array of shape (nodes, d), default=None
            Node features. By default a constant 1.
        y : array-like of shape (g,), default=None
            Labels of any type.
        edge_weight : array of shape (e,), default=None
            Signed edge weights. By default 1.
        edge_truth : array of shape (e,), default=None
            True where an edge is known to cause the class.
        groups : array-like of shape (g,), default=None
            Sites, or "train" and "test".
        meta : mapping of str to array-like of shape (g,), default=None
            Further columns.
        feature_names : sequence of str, default=None
            Names of the d node features.

        Returns
        -------
        GraphSet
            The graphs.
        """
        store = ragged(edges, graph_of_node, x, edge_weight, edge_truth)
        return cls(store, y, groups, meta=meta, feature_names=feature_names)

    @classmethod
    def from_pyg(cls, data: Iterable[Data]) -> GraphSet:
        """Make a graph set from graphs of PyTorch Geometric.

        Parameters
        ----------
        data : iterable of torch_geometric.data.Data
            Undirected graphs, each edge listed in both directions. ``x``, ``y`` (one label of any type),
            ``edge_weight`` and ``edge_truth`` are read where they exist, ``edge_attr`` is not.

        Returns
        -------
        GraphSet
            The graphs.
        """
        read = read_pyg(data)
        return cls(ragged(read.edges, read.graph_of_node, read.x, read.edge_weight, read.edge_truth), read.y)

    def to_pyg(self) -> list[Data]:
        """Return the graphs as PyTorch Geometric data.

        Returns
        -------
        list of torch_geometric.data.Data
            One item per graph, each edge listed in both directions.
        """
        labels = [None] * len(self) if self.y is None else self.y
        return [write_pyg(self[i], self.edges(i), labels[i : i + 1]) for i in range(len(self))]

    @overload
    def __getitem__(self, key: int | np.integer) -> Graph: ...

    @overload
    def __getitem__(self, key: Index) -> GraphSet: ...

    def __getitem__(self, key: int | np.integer | Index) -> Graph | GraphSet:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn asks for X[index, ...]
        if isinstance(key, (int, np.integer)):
            i = range(len(self))[key]
            one = self._store.take(np.array([i]))
            weights, x = one.dense(np.array([0]))
            truth = one.edge_truth()
            return Graph(
                weights[0],
                np.asarray(x[0], np.float32),
                None if self.y is None else self.y[i],
                None if truth is None else np.array(truth[0]),
            )
        index = positions(key, len(self))
        return GraphSet(
            self._store.take(index),
            None if self.y is None else self.y[index],
            None if self.groups is None else self.groups[index],
            self.node_names,
            {name: column[index] for name, column in self.meta.items()},
            self.node_meta,
            self.feature_names,
        )

    def __iter__(self) -> Iterator[Graph]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if not len(self):
            return "GraphSet(no graphs)"
        nodes = "–".join(str(n) for n in sorted({self.n_nodes.min(), self.n_nodes.max()}))
        graphs = "aligned graphs" if self.aligned else "graphs"
        edges = "on disk" if self.mapped else f"{self.n_edges.mean():.1f} edges"  # to count takes a while
        return f"GraphSet({len(self)} {graphs}, {nodes} nodes, {edges}, {self.n_features} features)"

    def with_y(self, y: npt.ArrayLike | None) -> GraphSet:
        """Return the same graphs with other labels.

        Parameters
        ----------
        y : array-like of shape (g,) or None
            The labels.

        Returns
        -------
        GraphSet
            The graphs, which share their arrays with this set.
        """
        return self._with(self._store, y)

    def with_features(self, names: Sequence[str] | None) -> GraphSet:
        """Return the same graphs with the node features of these names, in their order.

        Graphs without ``feature_names`` stay as they are.

        Parameters
        ----------
        names : sequence of str or None
            Names of features. A feature called "label …" is 1 at nodes of that label, so it is 0 where the
            graphs do not have it. None keeps the features.

        Returns
        -------
        GraphSet
            The graphs.
        """
        if names is None or self.feature_names is None or list(names) == self.feature_names:
            return self
        x = select_features(np.asarray(self._store.x), self.feature_names, names)
        return self._with(self._store._replace(x=x), self.y, names)

    def _with(
        self, store: Stacked | Ragged, y: npt.ArrayLike | None, feature_names: Sequence[str] | None = None
    ) -> GraphSet:
        names = self.feature_names if feature_names is None else feature_names
        return GraphSet(store, y, self.groups, self.node_names, self.meta, self.node_meta, names)

    def with_edges(self, keep: Sequence[np.ndarray], fill: np.ndarray | None = None) -> GraphSet:
        """Return the same graphs with some of their edges; nodes and their features stay.

        Parameters
        ----------
        keep : sequence of bool arrays of shape (e,)
            One mask per graph, aligned with ``edges(i)``.
        fill : array of shape (n, n), default=None
            Weights that the other edges of aligned graphs get. By default there are no such edges.

        Returns
        -------
        GraphSet
            The graphs without the other edges, or with their new weights.
        """
        if len(keep) != len(self):
            raise ValueError(f"keep must have one mask per graph ({len(self)}), got {len(keep)}.")
        masks = [np.asarray(mask) for mask in keep]
        for i, (mask, edges) in enumerate(zip(masks, self.n_edges, strict=True)):
            if mask.shape != (edges,) or (mask.dtype != bool and mask.size):
                got = f"{mask.dtype} of shape {mask.shape}"
                raise ValueError(f"keep of graph {i} must be a bool mask of shape ({edges},), got {got}.")
        flat = np.concatenate([np.empty(0, bool), *(mask.astype(bool) for mask in masks)])
        if fill is None:
            return self._with(self._store.keep_edges(flat), self.y)
        if not isinstance(self._store, Stacked):
            raise ValueError("fill needs aligned graphs (node i the same in each).")
        return self._with(self._store.keep_edges(flat, np.asarray(fill, np.float32)), self.y)

    # ------------------------------------------------------------------ on disk

    def save(self, path: str | Path, *, mapped: bool | None = None) -> Path:
        """Write the graphs to one .npz file or, to train on more than fits into memory, to a folder.

        Parameters
        ----------
        path : str or Path
            The file, to which ".npz" is added where it is missing, or the folder. Arrays that are already in
            the folder are replaced.
        mapped : bool, default=None
            Whether to write a folder of .npy files, which `load` leaves on disk. By default so for graphs
            that are on disk themselves.

        Returns
        -------
        Path
            The file or folder written.
        """
        from cignn.graphs.graph_files import write_graphs

        return write_graphs(self, path, self.mapped if mapped is None else mapped)

    @classmethod
    def load(cls, path: str | Path) -> GraphSet:
        """Read graphs that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The .npz file, or the folder. The matrices of aligned graphs in a folder stay on disk, and batches
            are read when they are needed; everything else is read into memory.

        Returns
        -------
        GraphSet
            The graphs.
        """
        from cignn.graphs.graph_files import read_graphs

        return read_graphs(path)

    def digest(self) -> str:
        """Return a digest of graphs and labels: equal data give equal digests.

        Weights, features, edge truth and labels count, in their order, and whether the graphs are aligned;
        names, groups and further columns do not.

        Returns
        -------
        str
            16 hexadecimal digits.
        """
        labels = None if self.y is None else plain_labels(self.y)
        return digest(self.aligned, *self._store.content(), labels, length=16)
