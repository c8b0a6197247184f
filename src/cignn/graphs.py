"""Labelled graphs: `GraphSet` keeps many of them compactly, `GraphBatch` is a dense mini-batch on a device.

Graphs are undirected and simple: an edge is a pair of different nodes with a weight of either sign, a
weight of zero means no edge, self-loops are dropped. Aligned sets, in which node i is the same thing in
every graph (a brain region), are stacked arrays; all others keep each undirected edge once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

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


@dataclass(frozen=True)
class GraphBatch:
    """A dense mini-batch, padded to its largest graph.

    x : (b, n, d); adj : (b, n, n) signed edge weights, 0 where there is no edge; mask : (b, n), True for
    real nodes; y : (b,) class numbers or None.
    """

    x: Tensor
    adj: Tensor
    mask: Tensor
    y: Tensor | None = None
    padded: bool = True  # False where every node is real: layers then skip the masking

    def __len__(self) -> int:
        return len(self.x)

    @property
    def padding(self) -> Tensor | None:
        """The node mask where there is something to mask, else None."""
        return self.mask if self.padded else None

    @cached_property
    def edge_mask(self) -> Tensor:
        """(b, n, n) bool: where an edge is."""
        return self.adj != 0

    @cached_property
    def edges(self) -> Tensor:
        """(b, n, n) 1 where an edge is, else 0: `edge_mask` as numbers, which multiply faster than truths."""
        return self.adj.sign().abs_()

    @property
    def n_nodes(self) -> Tensor:
        """(b,) number of real nodes of each graph."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> GraphBatch:
        """Return the same batch on ``device``."""
        y = None if self.y is None else self.y.to(device)
        return GraphBatch(self.x.to(device), self.adj.to(device), self.mask.to(device), y, self.padded)


class _Stacked(NamedTuple):
    """Storage of an aligned set. ``x`` may be the very array ``weights``: it is then kept once."""

    weights: np.ndarray  # (g, n, n)
    x: np.ndarray  # (g, n, d)
    truth: np.ndarray | None  # (g, n, n) bool

    def take(self, index: np.ndarray) -> _Stacked:
        weights = self.weights[index]
        x = weights if self.x is self.weights else self.x[index]
        return _Stacked(weights, x, None if self.truth is None else self.truth[index])

    def n_nodes(self) -> np.ndarray:
        return np.full(len(self.weights), self.weights.shape[1])

    def edges(self, i: int) -> np.ndarray:
        n = self.weights.shape[1]
        present = (self.weights[i] != 0) & _above_diagonal(n)
        return np.stack(np.divmod(np.flatnonzero(present), n), axis=1)  # argwhere is much slower

    def values(self, i: int) -> np.ndarray:
        return self.weights[i][tuple(self.edges(i).T)]

    def dense(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.weights[index], self.x[index]

    def n_edges(self) -> np.ndarray:
        return (np.count_nonzero(self.weights, axis=(1, 2)) // 2).astype(np.int64)


class _Ragged(NamedTuple):
    """Storage of any other set: graphs one behind the other, each undirected edge once (source < target)."""

    node_ptr: np.ndarray  # (g + 1,)
    edge_ptr: np.ndarray  # (g + 1,)
    pairs: np.ndarray  # (e, 2) int32, node numbers within the graph
    weight: np.ndarray | None  # (e,) float32; None when every edge weighs 1
    x: np.ndarray  # (all nodes, d)
    truth: np.ndarray | None  # (e,) bool

    def take(self, index: np.ndarray) -> _Ragged:
        nodes, node_ptr = _ranges(self.node_ptr, index)
        edges, edge_ptr = _ranges(self.edge_ptr, index)
        weight = None if self.weight is None else self.weight[edges]
        truth = None if self.truth is None else self.truth[edges]
        return _Ragged(node_ptr, edge_ptr, self.pairs[edges], weight, self.x[nodes], truth)

    def n_nodes(self) -> np.ndarray:
        return np.diff(self.node_ptr)

    def n_edges(self) -> np.ndarray:
        return np.diff(self.edge_ptr)

    def edges(self, i: int) -> np.ndarray:
        return self.pairs[self.edge_ptr[i] : self.edge_ptr[i + 1]].astype(np.int64)

    def values(self, i: int) -> np.ndarray:
        start, stop = self.edge_ptr[i : i + 2]
        return np.ones(stop - start, np.float32) if self.weight is None else self.weight[start:stop]

    def dense(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes = np.diff(self.node_ptr)[index]
        g, n = len(index), int(sizes.max(initial=1))
        nodes, node_ptr = _ranges(self.node_ptr, index)
        edges, edge_ptr = _ranges(self.edge_ptr, index)
        graph_of_node = np.repeat(np.arange(g), sizes)
        x = np.zeros((g, n, self.x.shape[1]), np.float32)
        x[graph_of_node, np.arange(len(nodes)) - node_ptr[graph_of_node]] = self.x[nodes]
        graph = np.repeat(np.arange(g), np.diff(edge_ptr))
        source, target = self.pairs[edges].T
        weights = np.zeros((g, n, n), np.float32)
        value = 1.0 if self.weight is None else self.weight[edges]
        weights[graph, source, target] = value
        weights[graph, target, source] = value
        return weights, x


class GraphSet:
    """Many labelled graphs that index like an array.

    Made by `from_arrays`, `from_edges`, `from_pyg` or by a loader of `cignn.datasets`. ``graphs[3]`` is one
    `Graph`; ``graphs[mask]``, ``graphs[[0, 2]]`` and ``graphs[:10]`` are graph sets, so scikit-learn's
    splitters, searches and pipelines work on it.

    Attributes
    ----------
    y : (g,) labels of any kind, or None
    groups : (g,) what a split must respect (site, subject, "train"/"test"), or None
    node_names : names of the nodes of an aligned set, or None
    node_meta : more about the nodes of an aligned set, each (n, ...): "system", "coordinates"
    aligned : whether node i is the same thing in every graph
    meta : further columns, each (g,)
    """

    def __init__(
        self,
        store: _Stacked | _Ragged,
        y: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        node_names: Sequence[str] | None = None,
        meta: Mapping[str, np.ndarray] | None = None,
        node_meta: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self._store = store
        self.y = None if y is None else np.asarray(y)
        self.groups = None if groups is None else np.asarray(groups)
        self.node_names = None if node_names is None else [str(name) for name in node_names]
        self.meta = {key: np.asarray(column) for key, column in (meta or {}).items()}
        self.node_meta = {key: np.asarray(column) for key, column in (node_meta or {}).items()}
        for name, column in {"y": self.y, "groups": self.groups, **self.meta}.items():
            if column is not None and column.shape[:1] != (len(self),):
                raise ValueError(f"{name} must have one entry per graph ({len(self)}), got {column.shape}.")
        for name, column in self.node_meta.items():
            if not isinstance(store, _Stacked):
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

        adj : (g, n, n) or a sequence of (n_i, n_i), symmetric. x : (g, n, d) or a sequence of (n_i, d);
        left out, an aligned set takes its own rows of ``adj`` and any other a constant 1.
        edge_truth : like ``adj``, true where an edge is known to make the class. aligned : node i is the
        same thing in every graph; by default when ``node_names`` are given.
        """
        if isinstance(adj, np.ndarray) and adj.ndim != 3:
            raise ValueError(f"adj must be (graphs, nodes, nodes), got shape {adj.shape}.")
        aligned = node_names is not None if aligned is None else aligned
        matrices = [_checked_matrix(matrix, i) for i, matrix in enumerate(adj)]
        if not matrices:
            raise ValueError("a graph set needs at least one graph, got none.")
        _match("x", x, matrices)
        _match("edge_truth", edge_truth, matrices)
        truths = None if edge_truth is None else [_checked_truth(t, i) for i, t in enumerate(edge_truth)]
        rest = {"y": y, "groups": groups, "meta": meta}
        if node_meta and not aligned:
            raise ValueError("node_meta needs aligned graphs; pass aligned=True or node_names.")
        if aligned:
            if len({len(matrix) for matrix in matrices}) > 1:
                sizes = sorted({len(matrix) for matrix in matrices})
                raise ValueError(f"aligned graphs must have the same nodes, got sizes {sizes}.")
            weights = np.stack(matrices)
            if node_names is not None and len(node_names) != weights.shape[1]:
                raise ValueError(f"expected {weights.shape[1]} node_names, got {len(node_names)}.")
            features = weights if x is None else np.stack([np.asarray(f, np.float32) for f in x])
            truth = None if truths is None else np.stack(truths)
            _check_finite(features.reshape(len(features), -1), np.arange(len(features)))
            store = _Stacked(weights, features, truth)
            return cls(store, node_names=node_names, node_meta=node_meta, **rest)  # type: ignore[arg-type]

        sizes_ = np.array([len(matrix) for matrix in matrices])
        pairs = [np.argwhere(np.triu(matrix, 1)) for matrix in matrices]
        at = [tuple(pair.T) for pair in pairs]
        truth = None if truths is None else np.concatenate([t[k] for t, k in zip(truths, at, strict=True)])
        offsets = np.concatenate([[0], np.cumsum(sizes_)[:-1]])
        return cls.from_edges(
            np.concatenate([pair + offset for pair, offset in zip(pairs, offsets, strict=True)]),
            np.repeat(np.arange(len(matrices)), sizes_),
            None if x is None else np.concatenate([np.asarray(f, np.float32) for f in x]),
            edge_weight=np.concatenate([matrix[k] for matrix, k in zip(matrices, at, strict=True)]),
            edge_truth=truth,
            **rest,  # type: ignore[arg-type]
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
    ) -> GraphSet:
        """Make a graph set from one edge list over all nodes of all graphs.

        edges : (e, 2) node numbers; an undirected edge may stand once or in both directions, with the same
        weight. graph_of_node : (nodes,), sorted, from 0. x : (nodes, d); left out, a constant 1.
        edge_weight, edge_truth : (e,).
        """
        edges = np.asarray(edges, np.int64).reshape(-1, 2)
        graph_of_node = np.asarray(graph_of_node, np.int64)
        if len(graph_of_node) == 0:
            raise ValueError("a graph set needs at least one graph, got none.")
        if graph_of_node[0] != 0 or not np.isin(np.diff(graph_of_node), (0, 1)).all():
            raise ValueError("graph_of_node must be sorted, start at 0 and leave no graph without nodes.")
        counts = np.bincount(graph_of_node)
        node_ptr = np.concatenate([[0], np.cumsum(counts)])
        x = np.ones((len(graph_of_node), 1), np.float32) if x is None else np.asarray(x)
        x = x[:, None] if x.ndim == 1 else x
        if len(x) != len(graph_of_node):
            raise ValueError(f"x must have one row per node ({len(graph_of_node)}), got {len(x)}.")
        _check_finite(x, graph_of_node)
        pairs, edge_ptr, weight, truth = _undirected(edges, graph_of_node, node_ptr, edge_weight, edge_truth)
        store = _Ragged(node_ptr, edge_ptr, pairs, weight, _compact(x), truth)
        return cls(store, y=y, groups=groups, meta=meta)  # type: ignore[arg-type]

    @classmethod
    def from_pyg(cls, data: Sequence[Data]) -> GraphSet:
        """Make a graph set from PyTorch Geometric graphs.

        ``x``, ``y``, ``edge_weight`` and ``edge_truth`` are read where they exist. The graphs must be
        undirected: every edge stands in both directions.
        """
        if not len(data):
            raise ValueError("a graph set needs at least one graph, got none.")
        for i, graph in enumerate(data):
            if not graph.is_undirected():
                raise ValueError(
                    f"graph {i} is directed; make it undirected first (torch_geometric.utils.to_undirected)."
                )
        sizes = np.array([graph.num_nodes for graph in data])
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])

        def column(name: str) -> np.ndarray | None:
            have = [getattr(graph, name, None) is not None for graph in data]
            if not any(have):
                return None
            if not all(have):
                raise ValueError(f"graph {have.index(False)} has no {name} while others have one.")
            values = [torch.as_tensor(getattr(graph, name)).detach().cpu().numpy() for graph in data]
            return np.concatenate([np.atleast_1d(value) for value in values])

        edges = np.concatenate([g.edge_index.cpu().numpy().T + k for g, k in zip(data, offsets, strict=True)])
        return cls.from_edges(
            edges,
            np.repeat(np.arange(len(data)), sizes),
            column("x"),
            column("y"),
            edge_weight=column("edge_weight"),
            edge_truth=column("edge_truth"),
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
            if self.y is not None and self.y.dtype.kind in "biuf":
                item.y = torch.as_tensor(self.y[i : i + 1])
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
        return isinstance(self._store, _Stacked)

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
        if self._store.truth is None:
            return None
        if isinstance(self._store, _Stacked):
            return self._store.truth
        truth: list[np.ndarray] = [self._truth(i) for i in range(len(self))]  # type: ignore[misc]
        return np.stack(truth) if len(set(self.n_nodes)) == 1 else truth

    def feature_range(self) -> np.ndarray:
        """(2, d) smallest and largest value of every node feature."""
        x = self._store.x.reshape(-1, self.n_features)
        return np.stack([x.min(0), x.max(0)]).astype(np.float64)

    def edge_statistics(self) -> EdgeStatistics:
        """Centre and scale, (n, n) each, of every edge's weight over the graphs of an aligned set.

        The centre is the mean weight of an edge that most graphs have, and 0 of any other, whose presence
        itself says something; the scale is the root mean square distance from it, 1 where that is 0.
        """
        if not isinstance(self._store, _Stacked):
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
        return self._store.edges(i)

    def edge_values(self, i: int) -> np.ndarray:
        """(e,) the signed weights of the edges of graph i, in the order of `edges`."""
        return self._store.values(i)

    def edge_matrix(self, i: int) -> np.ndarray:
        """(n, n) the signed weights of graph i, symmetric, 0 where there is no edge."""
        return self._store.dense(np.array([i]))[0][0]

    @property
    def weighted(self) -> bool:
        """Whether edges carry weights of their own."""
        return isinstance(self._store, _Stacked) or self._store.weight is not None

    def _truth(self, i: int) -> np.ndarray | None:
        store = self._store
        if store.truth is None or isinstance(store, _Stacked):
            return None if store.truth is None else store.truth[i]
        truth = np.zeros((self.n_nodes[i],) * 2, bool)
        source, target = self.edges(i).T
        truth[source, target] = truth[target, source] = store.truth[store.edge_ptr[i] : store.edge_ptr[i + 1]]
        return truth

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn asks for X[index, ...]
        if isinstance(key, (int, np.integer)):
            i = range(len(self))[key]
            weights, x = self._store.dense(np.array([i]))
            label = None if self.y is None else self.y[i]
            return Graph(weights[0], np.asarray(x[0], np.float32), label, self._truth(i))
        if not isinstance(key, slice):
            key = np.asarray(key)
            key = key if key.size else key.astype(int)  # an empty list picks no graph
        index = np.arange(len(self))[key]
        if index.ndim != 1:
            raise IndexError(f"index graphs with a number or in one dimension, got {index.ndim} dimensions.")
        return GraphSet(
            self._store.take(index),
            None if self.y is None else self.y[index],
            None if self.groups is None else self.groups[index],
            self.node_names,
            {name: column[index] for name, column in self.meta.items()},
            self.node_meta,
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
        return GraphSet(self._store, y, self.groups, self.node_names, self.meta, self.node_meta)  # type: ignore[arg-type]

    def digest(self) -> str:
        """Return a fingerprint of graphs and labels: equal data, equal digest."""
        fingerprint = hashlib.sha256()
        for part in [*self._store, self.y]:
            if part is not None:
                array = np.ascontiguousarray(part.astype(str) if part.dtype == object else part)
                fingerprint.update(f"{array.dtype}{array.shape}".encode())
                fingerprint.update(array.tobytes())
            fingerprint.update(b"|")
        return fingerprint.hexdigest()[:16]

    # ---------------------------------------------------------------- batching

    def batch(
        self, index: np.ndarray | Sequence[int] | None = None, y: np.ndarray | None = None
    ) -> GraphBatch:
        """Return the graphs at ``index`` (all by default) as one dense batch on the CPU.

        y : (g,) class numbers of the whole set, when the batch should carry labels.
        """
        index = np.arange(len(self)) if index is None else np.asarray(index)
        weights, x = self._store.dense(index)
        nodes = np.arange(weights.shape[1]) < self.n_nodes[index][:, None]
        labels = None if y is None else torch.from_numpy(np.asarray(y)[index].astype(np.int64))
        features = torch.from_numpy(np.asarray(x, np.float32))
        return GraphBatch(
            features, torch.from_numpy(weights), torch.from_numpy(nodes), labels, not nodes.all()
        )

    def batch_indices(self, batch_size: int, shuffle: bool = False) -> list[np.ndarray]:
        """Cut the set into batches of nearly equal length in which graphs of similar size travel together.

        Shuffled, chance comes from torch's generator: graphs are sorted by a blurred size, cut, and the
        batches shuffled. Batches of very large graphs hold fewer of them.
        """
        log_sizes = np.log(self.n_nodes)
        if not shuffle:
            return _cut(np.argsort(-log_sizes, kind="stable"), self.n_nodes, batch_size)
        blur = SIZE_BLUR * torch.randn(len(self), dtype=torch.float64).numpy()
        batches = _cut(np.argsort(blur - log_sizes), self.n_nodes, batch_size)
        return [batches[i] for i in torch.randperm(len(batches))]


# --------------------------------------------------------------------- helpers


@cache
def _above_diagonal(n: int) -> np.ndarray:
    """(n, n) bool, True above the diagonal: where each undirected edge stands once."""
    return np.triu(np.ones((n, n), bool), 1)


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


def _ranges(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the stretches ptr[i]:ptr[i+1] for i in index, one behind the other, and their own ptr."""
    lengths = (ptr[1:] - ptr[:-1])[index]
    new_ptr = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(ptr[:-1][index] - new_ptr[:-1], lengths)
    return np.arange(new_ptr[-1]) + shift, new_ptr


def _checked_matrix(matrix: np.ndarray, i: int) -> np.ndarray:
    matrix = np.array(matrix, np.float32)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(f"graph {i} must be a square matrix, got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ValueError(f"graph {i} has NaN or infinite edge weights; repair or drop it.")
    if not np.allclose(matrix, matrix.T, atol=1e-5):
        raise ValueError(f"graph {i} is not symmetric; graphs are undirected, average it with its transpose.")
    matrix = (matrix + matrix.T) / 2  # exactly symmetric, so that both directions of an edge exist and agree
    np.fill_diagonal(matrix, 0)
    return matrix


def _checked_truth(truth: np.ndarray, i: int) -> np.ndarray:
    truth = np.asarray(truth, bool)
    if truth.ndim != 2 or truth.shape[0] != truth.shape[1]:
        raise ValueError(f"edge_truth of graph {i} must be a square matrix, got shape {truth.shape}.")
    return truth | truth.T  # an edge may be marked in one direction only


def _match(name: str, values: Sequence | np.ndarray | None, matrices: list[np.ndarray]) -> None:
    if values is None:
        return
    if len(values) != len(matrices):
        raise ValueError(f"{name} must have one entry per graph ({len(matrices)}), got {len(values)}.")
    for i, (value, matrix) in enumerate(zip(values, matrices, strict=True)):
        if len(value) != len(matrix):
            raise ValueError(f"{name} of graph {i} must have {len(matrix)} rows, got {len(value)}.")


def _check_finite(x: np.ndarray, graph: np.ndarray) -> None:
    if x.dtype.kind not in "buif":
        raise ValueError(f"node features must be numbers, got {x.dtype}.")
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        raise ValueError(f"graph {graph[bad.argmax()]} has NaN or infinite node features; repair or drop it.")


def _compact(x: np.ndarray) -> np.ndarray:
    """Keep small whole numbers (one-hot labels, degrees) in a byte, all else in float32."""
    small = x.astype(np.uint8) if x.size and x.min() >= 0 and x.max() <= 255 else None
    return small if small is not None and (small == x).all() else x.astype(np.float32)


def _undirected(
    edges: np.ndarray,
    graph_of_node: np.ndarray,
    node_ptr: np.ndarray,
    edge_weight: np.ndarray | None,
    edge_truth: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Sort edges by graph, keep each undirected one once, drop self-loops and zero weights."""
    n_nodes, n_graphs = len(graph_of_node), len(node_ptr) - 1
    if len(edges) and (edges.min() < 0 or edges.max() >= n_nodes):
        culprit = edges.max() if edges.max() >= n_nodes else edges.min()
        raise ValueError(f"edges name node {culprit}, there are {n_nodes}.")
    across = graph_of_node[edges[:, 0]] != graph_of_node[edges[:, 1]]
    if across.any():
        source, target = edges[across.argmax()]
        raise ValueError(f"edge {source}–{target} joins two different graphs.")
    weight = np.ones(len(edges)) if edge_weight is None else np.asarray(edge_weight).ravel()
    weight = weight.astype(np.float32)
    truth = None if edge_truth is None else np.asarray(edge_truth, bool).ravel()
    for name, column in {"edge_weight": weight, "edge_truth": truth}.items():
        if column is not None and len(column) != len(edges):
            raise ValueError(f"{name} must have one entry per edge ({len(edges)}), got {len(column)}.")
    if not np.isfinite(weight).all():
        culprit = graph_of_node[edges[(~np.isfinite(weight)).argmax(), 0]]
        raise ValueError(f"graph {culprit} has NaN or infinite edge weights; repair or drop it.")

    keep = (edges[:, 0] != edges[:, 1]) & (weight != 0)
    low, high = edges[keep].min(1), edges[keep].max(1)
    _, first, back = np.unique(low * n_nodes + high, return_index=True, return_inverse=True)
    weight = weight[keep]
    clash = ~np.isclose(weight, weight[first][back])
    if clash.any():
        at = clash.argmax()
        raise ValueError(f"edge {low[at]}–{high[at]} has two different weights; graphs are undirected.")
    low, high, weight = low[first], high[first], weight[first]
    graph = graph_of_node[low]  # sorted, because nodes are and the keys sort by low
    pairs = (np.stack([low, high], 1) - node_ptr[graph][:, None]).astype(np.int32)
    edge_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph, minlength=n_graphs))])
    truth = None if truth is None else truth[keep][first]
    return pairs, edge_ptr, None if (weight == 1).all() else weight, truth
