"""`GraphSet`: many labelled graphs, kept compactly.

Graphs are undirected and simple: an edge is a pair of different nodes with a weight of either sign, a
weight of zero means no edge, self-loops are dropped. Aligned sets, in which node i is the same thing in
every graph (a brain region), are stacked arrays; all others keep each undirected edge once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from cignn.graphs.graph_batch import GraphBatch
from cignn.graphs.pyg import read_pyg
from cignn.graphs.storage import (
    Ragged,
    Stacked,
    check_finite,
    check_graph_of_node,
    positions,
    ragged,
    stack_features,
    stack_truth,
    stack_weights,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data

# node pairs in a batch of graphs of different sizes: bounds the time and memory of the largest
MAX_CELLS = 2**21
# std of the noise on log size by which graphs are sorted into batches: little padding, much chance
SIZE_BLUR = 0.25
# share of graphs that have an edge from which on its mean weight is what an absent one is taken to have
COMMON = 0.9


class Graph(NamedTuple):
    """One graph of a `GraphSet`, dense: what ``graphs[i]`` gives for an integer i."""

    weights: np.ndarray  # (n, n) float32, symmetric, zero diagonal
    x: np.ndarray  # (n, d) float32
    y: Any  # its label, or None
    edge_truth: np.ndarray | None  # (n, n) bool, or None


class EdgeStatistics(NamedTuple):
    """Centre and scale of every edge's weight in an aligned set, both (n, n)."""

    centre: np.ndarray
    scale: np.ndarray


class GraphSet:
    """Many labelled graphs that index like an array.

    Made by `from_arrays`, `from_edges`, `from_pyg` or by a loader of `cignn.datasets`. ``graphs[3]`` is one
    `Graph`; ``graphs[mask]``, ``graphs[[0, 2]]`` and ``graphs[:10]`` are graph sets, so scikit-learn's
    splitters, searches and pipelines work on it.

    Attributes
    ----------
    y : (g,) labels of any kind, or None
    groups : (g,) sites, which `cignn.evaluation` may leave out one by one; or "train" and "test" of a set
        with test graphs of its own, which are what it is tested on; or None
    node_names : names of the nodes of an aligned set, or None
    node_meta : more about the nodes of an aligned set, each (n, ...): "system", "coordinates"
    aligned : whether node i is the same thing in every graph
    feature_names : names of the node features, or None; see `with_features`
    meta : further columns, each (g,); "subject" names whose graph it is: those of one subject stay on one
        side of every split
    """

    def __init__(
        self,
        store: Stacked | Ragged,
        y: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        node_names: Sequence[str] | None = None,
        meta: Mapping[str, np.ndarray] | None = None,
        node_meta: Mapping[str, np.ndarray] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self._store = store
        self.feature_names = None if feature_names is None else [str(name) for name in feature_names]
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(f"expected {self.n_features} feature_names, got {len(self.feature_names)}.")
        self.y = None if y is None else np.asarray(y)
        self.groups = None if groups is None else np.asarray(groups)
        self.node_names = None if node_names is None else [str(name) for name in node_names]
        self.meta = {key: np.asarray(column) for key, column in (meta or {}).items()}
        self.node_meta = {key: np.asarray(column) for key, column in (node_meta or {}).items()}
        for name, column in {"y": self.y, "groups": self.groups, **self.meta}.items():
            if column is not None and column.shape[:1] != (len(self),):
                raise ValueError(f"{name} must have one entry per graph ({len(self)}), got {column.shape}.")
        for name, column in self.node_meta.items():
            if not isinstance(store, Stacked):
                raise ValueError(f"node_meta ({name}) needs aligned graphs: node i the same in each.")
            if column.shape[:1] != store.weights.shape[1:2]:
                raise ValueError(
                    f"{name} must have one entry per node ({store.weights.shape[1]}), got {column.shape}."
                )

    # ------------------------------------------------------------------ making

    @classmethod
    def from_arrays(
        cls,
        adj: np.ndarray | Sequence[np.ndarray],
        x: np.ndarray | Sequence[np.ndarray] | None = None,
        y: Sequence | np.ndarray | None = None,
        *,
        groups: Sequence | np.ndarray | None = None,
        node_names: Sequence[str] | None = None,
        edge_truth: np.ndarray | Sequence[np.ndarray] | None = None,
        aligned: bool | None = None,
        meta: Mapping[str, np.ndarray] | None = None,
        node_meta: Mapping[str, np.ndarray] | None = None,
    ) -> GraphSet:
        """Make a graph set from dense matrices.

        adj : (g, n, n) or a sequence of (n_i, n_i), symmetric; scipy's sparse matrices and torch's tensors
        too. x : (g, n, d) or a sequence of (n_i, d);
        left out, an aligned set takes its own rows of ``adj`` and any other a constant 1.
        edge_truth : like ``adj``, true where an edge is known to make the class; for aligned graphs also one
        (n, n) array for all. aligned : node i is the same thing in every graph; by default when
        ``node_names`` are given.
        """
        if getattr(adj, "ndim", 3) != 3 and getattr(adj, "dtype", None) != np.dtype(object):
            raise ValueError(f"adj must be (graphs, nodes, nodes), got shape {np.shape(adj)}.")
        aligned = node_names is not None if aligned is None else aligned
        if node_meta and not aligned:
            raise ValueError("node_meta needs aligned graphs; pass aligned=True or node_names.")
        weights = stack_weights(adj if hasattr(adj, "__len__") else list(adj))
        sizes = np.array([len(matrix) for matrix in weights])
        features = None if x is None else stack_features(x, sizes)
        if not aligned and getattr(edge_truth, "ndim", 3) == 2:
            raise ValueError("one edge_truth for all graphs needs aligned graphs; pass one matrix per graph.")
        truth = None if edge_truth is None else stack_truth(edge_truth, sizes)
        rest: dict[str, Any] = {"y": y, "groups": groups, "meta": meta}
        if aligned:
            if not isinstance(weights, np.ndarray):
                raise ValueError(
                    f"aligned graphs must have the same nodes, got sizes {sorted(set(sizes.tolist()))}."
                )
            if node_names is not None and len(node_names) != sizes[0]:
                raise ValueError(f"expected {sizes[0]} node_names, got {len(node_names)}.")
            rows = weights if features is None else features.reshape(*weights.shape[:2], -1)
            store = Stacked(weights, rows, truth)  # type: ignore[arg-type]
            return cls(store, node_names=node_names, node_meta=node_meta, **rest)

        pairs = [np.argwhere(np.triu(matrix, 1)) for matrix in weights]
        at = [tuple(pair.T) for pair in pairs]
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])

        def on_edges(matrices: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
            return np.concatenate([matrix[k] for matrix, k in zip(matrices, at, strict=True)])

        return cls.from_edges(
            np.concatenate([pair + offset for pair, offset in zip(pairs, offsets, strict=True)]),
            np.repeat(np.arange(len(sizes)), sizes),
            features,
            edge_weight=on_edges(weights),
            edge_truth=None if truth is None else on_edges(truth),
            **rest,
        )

    @classmethod
    def from_edges(
        cls,
        edges: np.ndarray,
        graph_of_node: np.ndarray,
        x: np.ndarray | None = None,
        y: Sequence | np.ndarray | None = None,
        *,
        edge_weight: np.ndarray | None = None,
        edge_truth: np.ndarray | None = None,
        groups: Sequence | np.ndarray | None = None,
        meta: Mapping[str, np.ndarray] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> GraphSet:
        """Make a graph set from one edge list over all nodes of all graphs.

        edges : (e, 2) node numbers; an undirected edge may stand once or in both directions, with the same
        weight. graph_of_node : (nodes,), sorted, from 0. x : (nodes, d); left out, a constant 1.
        edge_weight, edge_truth : (e,). feature_names : d names.
        """
        edges = np.asarray(edges)
        if edges.size and (edges.ndim != 2 or edges.shape[1] != 2):
            raise ValueError(f"edges must be (edges, 2), got shape {edges.shape}; transpose an edge index.")
        with np.errstate(invalid="ignore"):
            numbers = edges.astype(np.int64).reshape(-1, 2)
        if edges.size and (numbers != edges).any():
            raise ValueError("edges must be whole node numbers.")
        graph_of_node = np.asarray(graph_of_node, np.int64)
        check_graph_of_node(graph_of_node)
        x = np.ones((len(graph_of_node), 1), np.float32) if x is None else np.asarray(x)
        x = x[:, None] if x.ndim == 1 else x
        if len(x) != len(graph_of_node):
            raise ValueError(f"x must have one row per node ({len(graph_of_node)}), got {len(x)}.")
        if x.dtype.kind not in "buif":
            raise ValueError(f"node features must be numbers, got {x.dtype}.")
        if x.ndim != 2:
            raise ValueError(f"x must be (nodes, features), got shape {x.shape}.")
        if x.dtype.kind == "f":
            with np.errstate(over="ignore"):
                check_finite(x.astype(np.float32, copy=False), graph_of_node)
        store = ragged(numbers, graph_of_node, x, edge_weight, edge_truth)
        return cls(store, y=y, groups=groups, meta=meta, feature_names=feature_names)  # type: ignore[arg-type]

    @classmethod
    def from_pyg(cls, data: Iterable[Data]) -> GraphSet:
        """Make a graph set from PyTorch Geometric graphs: a list, a data set or a generator of them.

        ``x``, ``y`` (one label of any kind), ``edge_weight`` and ``edge_truth`` are read where they exist,
        ``edge_attr`` is not. The graphs must be undirected: every edge stands in both directions.
        """
        columns = read_pyg(data)
        return cls.from_edges(
            columns.edges,
            columns.graph_of_node,
            columns.x,
            columns.y,
            edge_weight=columns.edge_weight,
            edge_truth=columns.edge_truth,
        )

    def to_pyg(self) -> list[Data]:
        """Return the graphs as PyTorch Geometric data, each edge in both directions."""
        from torch_geometric.data import Data

        out = []
        for i in range(len(self)):
            graph = self[i]
            source, target = self.edges(i).T
            index = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
            item = Data(x=torch.from_numpy(graph.x), edge_index=torch.from_numpy(index))
            item.edge_weight = torch.from_numpy(graph.weights[tuple(index)])
            if self.y is not None:
                word = self.y.dtype.kind not in "biuf"  # which no tensor holds
                item.y = str(self.y[i]) if word else torch.as_tensor(self.y[i : i + 1])
            if graph.edge_truth is not None:
                item.edge_truth = torch.from_numpy(graph.edge_truth[tuple(index)])
            out.append(item)
        return out

    # ----------------------------------------------------------------- reading

    def __len__(self) -> int:
        return len(self.n_nodes)

    @property
    def shape(self) -> tuple[int]:
        """(number of graphs,): what scikit-learn reads to index the set like an array."""
        return (len(self),)

    @property
    def aligned(self) -> bool:
        """Whether node i is the same thing in every graph."""
        return isinstance(self._store, Stacked)

    @property
    def n_features(self) -> int:
        """Number of features of a node."""
        return self._store.x.shape[-1]

    @cached_property
    def n_nodes(self) -> np.ndarray:
        """(g,) number of nodes of each graph."""
        return self._store.n_nodes()

    @cached_property
    def n_edges(self) -> np.ndarray:
        """(g,) number of undirected edges of each graph."""
        return self._store.n_edges()

    @property
    def nbytes(self) -> int:
        """Bytes held by the graphs' arrays, an array held under two names counted once."""
        arrays = {id(a): a.nbytes for a in self._store if a is not None}
        return sum(arrays.values())

    @property
    def edge_truth(self) -> np.ndarray | list[np.ndarray] | None:
        """True where an edge is known to make the class: (g, n, n) bool, a list if sizes differ, or None."""
        return self._store.edge_truth()

    def feature_range(self) -> np.ndarray:
        """(2, d) smallest and largest value of every node feature."""
        x = self._store.x.reshape(-1, self.n_features)
        return np.stack([x.min(0), x.max(0)]).astype(np.float64)

    def edge_statistics(self) -> EdgeStatistics:
        """Centre and scale, (n, n) each, of every edge's weight over the graphs of an aligned set.

        The centre is the mean weight of an edge that most graphs have, and 0 of any other, whose presence
        itself says something; the scale is the root mean square distance from it, 1 where that is 0.
        """
        if not isinstance(self._store, Stacked):
            raise ValueError("statistics of edges need aligned graphs (node i the same in each).")
        weights = self._store.weights
        n = weights.shape[1]
        centre, scale = np.zeros((n, n)), np.ones((n, n))
        for i in range(n):  # row by row: no second copy of the set
            row = weights[:, i].astype(np.float64)
            present = row != 0
            count = present.sum(0)
            mean = row.sum(0) / np.maximum(count, 1)
            centre[i] = np.where(count >= COMMON * len(row), mean, 0)
            spread = np.sqrt((np.square(row - centre[i]) * present).sum(0) / np.maximum(count, 1))
            scale[i] = np.where(spread > 1e-8, spread, 1)
        return EdgeStatistics(centre, scale)

    def edges(self, i: int) -> np.ndarray:
        """(e, 2) the undirected edges of graph i, each once, source < target."""
        return self._store.edges(range(len(self))[i])

    def edge_values(self, i: int) -> np.ndarray:
        """(e,) the signed weights of the edges of graph i, in the order of `edges`."""
        return self._store.values(range(len(self))[i])

    def edge_matrix(self, i: int) -> np.ndarray:
        """(n, n) the signed weights of graph i, symmetric, 0 where there is no edge."""
        return self._store.dense(np.array([range(len(self))[i]]))[0][0]

    @property
    def weighted(self) -> bool:
        """Whether edges carry weights of their own."""
        return isinstance(self._store, Stacked) or self._store.weight is not None

    def __getitem__(self, key: Any) -> Any:
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
        kind = "aligned graphs" if self.aligned else "graphs"
        edges = f"{self.n_edges.mean():.1f}"
        return f"GraphSet({len(self)} {kind}, {nodes} nodes, {edges} edges, {self.n_features} features)"

    def with_y(self, y: Sequence | np.ndarray | None) -> GraphSet:
        """Return the same graphs with other labels."""
        return self._with(self._store, y)

    def with_features(self, names: Sequence[str] | None) -> GraphSet:
        """Return the same graphs with the node features of these names, in their order.

        A feature called "label …" is 1 at nodes of that label: where no node has it, it is 0. Graphs stay as
        they are where they have no ``feature_names``, or ``names`` is None.
        """
        own = self.feature_names
        if names is None or own is None or list(names) == own:
            return self
        x, column = self._store.x, {name: k for k, name in enumerate(own)}
        lacking = [name for name in names if name not in column and not name.startswith("label ")]
        if lacking:
            raise ValueError(
                f"graphs lack the node feature '{lacking[0]}' of those learnt from; give graphs of that kind."
            )
        unknown = [name for name in column.keys() - set(names) if x[..., column[name]].any()]
        if unknown:
            label = min(unknown).startswith("label ")
            remedy = "leave out graphs that have it" if label else "give graphs of that kind"
            raise ValueError(
                f"graphs have the node feature '{min(unknown)}', those learnt from do not; {remedy}."
            )
        chosen = np.zeros((*x.shape[:-1], len(names)), x.dtype)
        for k, name in enumerate(names):
            if name in column:
                chosen[..., k] = x[..., column[name]]
        return self._with(self._store._replace(x=chosen), self.y, names)

    def _with(self, store: Any, y: Any, feature_names: Sequence[str] | None = None) -> GraphSet:
        names = self.feature_names if feature_names is None else feature_names
        return GraphSet(store, y, self.groups, self.node_names, self.meta, self.node_meta, names)

    def with_edges(self, keep: Sequence[np.ndarray]) -> GraphSet:
        """Return the same graphs with only some of their edges; nodes and their features stay as they are.

        keep : one (e,) bool mask per graph, aligned with ``edges(i)``.
        """
        if len(keep) != len(self):
            raise ValueError(f"keep must have one mask per graph ({len(self)}), got {len(keep)}.")
        masks = [np.asarray(mask) for mask in keep]
        for i, (mask, edges) in enumerate(zip(masks, self.n_edges, strict=True)):
            if mask.shape != (edges,) or (mask.dtype != bool and mask.size):
                raise ValueError(
                    f"keep of graph {i} must be {edges} truths, got {mask.dtype} of shape {mask.shape}."
                )
        flat = np.concatenate([np.empty(0, bool), *(mask.astype(bool) for mask in masks)])
        store = self._store.keep_edges(flat)
        return self._with(store, self.y)

    def digest(self) -> str:
        """Return a fingerprint of graphs and labels: equal data, equal digest, however they are kept.

        Weights, features, edge truth and labels count, in their order, and whether the graphs are aligned;
        names, groups and further columns do not.
        """
        fingerprint = hashlib.sha256(b"aligned" if self.aligned else b"")
        known: dict[int, bytes] = {}  # an array under two names is read once
        parts = [*self._store.content(), None if self.y is None else _labels(self.y)]
        for part in parts:
            if part is not None and id(part) not in known:
                content = hashlib.sha256(f"{part.dtype.kind}{part.shape}".encode())
                content.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
                known[id(part)] = content.digest()
            fingerprint.update(b"|" if part is None else known[id(part)])
        return fingerprint.hexdigest()[:16]

    def fingerprints(self) -> np.ndarray:
        """(g,) one word for each graph: equal edges, weights and features, equal word, whatever its label."""
        return np.array([_word(self._store.parts(i)) for i in range(len(self))], dtype="U16")

    # ---------------------------------------------------------------- batching

    def batch(
        self, index: np.ndarray | Sequence[int] | None = None, y: np.ndarray | None = None
    ) -> GraphBatch:
        """Return the graphs at ``index`` (all by default) as one dense batch on the CPU.

        y : (g,) class numbers of the whole set, when the batch should carry labels.
        """
        index = np.arange(len(self)) if index is None else positions(index, len(self))
        weights, x = self._store.dense(index)
        nodes = np.arange(weights.shape[1]) < self.n_nodes[index][:, None]
        labels = None if y is None else torch.from_numpy(np.asarray(y)[index].astype(np.int64))
        adj = torch.from_numpy(weights)
        features = adj if x is weights else torch.from_numpy(np.asarray(x, np.float32))
        return GraphBatch(features, adj, torch.from_numpy(nodes), labels, not nodes.all())

    def batch_indices(self, batch_size: int, shuffle: bool = False) -> list[np.ndarray]:
        """Cut the set into batches of nearly equal length in which graphs of similar size travel together.

        Shuffled, chance comes from torch's generator: graphs are sorted by a blurred size, cut, and the
        batches shuffled. Batches of very large graphs hold fewer of them.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        log_sizes = np.log(self.n_nodes)
        if not shuffle:
            return _cut(np.argsort(-log_sizes, kind="stable"), self.n_nodes, batch_size)
        blur = SIZE_BLUR * torch.randn(len(self), dtype=torch.float64).numpy()
        batches = _cut(np.argsort(blur - log_sizes), self.n_nodes, batch_size)
        return [batches[i] for i in torch.randperm(len(batches))]


def _cut(order: np.ndarray, sizes: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Cut graphs, in an order of roughly falling size, into batches of at most ``MAX_CELLS`` padded cells."""
    batches: list[np.ndarray] = []
    while len(order):
        widest = np.maximum.accumulate(sizes[order[:batch_size]])
        fits = np.arange(1, len(widest) + 1) * widest**2 <= MAX_CELLS
        if fits.all() or sizes.min() == sizes.max():  # from here on graphs are small enough
            return batches + np.array_split(order, -(-len(order) // batch_size))
        batches.append(order[: max(1, fits.sum())])
        order = order[len(batches[-1]) :]
    return batches


def _word(parts: list[np.ndarray]) -> str:
    """Sixteen letters made of the shapes and the content of arrays; one that stands twice is read once."""
    digests: dict[int, bytes] = {}
    for part in parts:
        if id(part) not in digests:
            content = hashlib.sha256(f"{part.dtype.kind}{part.shape}".encode())
            content.update(np.ascontiguousarray(part).data)
            digests[id(part)] = content.digest()
    return hashlib.sha256(b"".join(digests[id(part)] for part in parts)).hexdigest()[:16]


def _labels(y: np.ndarray) -> np.ndarray:
    """The labels in one form for all widths of a kind, and for words however they are kept."""
    if y.dtype.kind in "iufb":
        return y.astype({"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}[y.dtype.kind])
    return np.frombuffer(json.dumps([str(label) for label in y]).encode(), np.uint8)
