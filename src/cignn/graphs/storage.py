"""Storage of a `GraphSet`: stacked arrays where nodes are aligned, one edge list for all others."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from cignn._arrays import Index, above_diagonal, blocks, by_block, digest, positions
from cignn._mapped import MappedArray
from cignn.graphs.edge_statistics import EdgeStatistics, EdgeSums
from cignn.graphs.graph_batch import GraphBatch


class Stacked(NamedTuple):
    """Storage of an aligned set. ``x`` may be the array ``weights`` itself, which is then stored once."""

    weights: np.ndarray | MappedArray  # (g, n, n)
    x: np.ndarray | MappedArray  # (g, n, d)
    truth: np.ndarray | None  # (g, n, n) bool, or (1, n, n) when it is the same for every graph

    def take(self, index: np.ndarray) -> Stacked:
        """Keep the graphs at ``index``."""
        weights = self.weights[index]
        x = weights if self.x is self.weights else self.x[index]
        truth = self.truth if self.truth is None or len(self.truth) == 1 else self.truth[index]
        return Stacked(weights, x, truth)

    def n_nodes(self) -> np.ndarray:
        """(g,)."""
        return np.full(len(self.weights), self.weights.shape[1])

    def n_edges(self) -> np.ndarray:
        """(g,)."""
        counts = by_block(lambda block: np.count_nonzero(block, axis=(1, 2)), self.weights)
        return (counts // 2).astype(np.int64)

    def edges(self, i: int) -> np.ndarray:
        """(e, 2) of graph i."""
        n = self.weights.shape[1]
        present = (self.weights[i] != 0) & above_diagonal(n)
        return np.stack(np.divmod(np.flatnonzero(present), n), axis=1)  # argwhere is much slower

    def values(self, i: int) -> np.ndarray:
        """(e,) weights of the edges of graph i."""
        return self.weights[i][tuple(self.edges(i).T)]

    def dense(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (b, n, n) and features (b, n, d) of the graphs at ``index``."""
        weights = np.asarray(self.weights[index])
        return weights, weights if self.x is self.weights else np.asarray(self.x[index])

    def parts(self, i: int) -> list[np.ndarray]:
        """The arrays of graph i: weights and features, possibly the same array."""
        weights = self.weights[i]
        return [weights, weights if self.x is self.weights else self.x[i]]

    def keep_edges(self, keep: np.ndarray, fill: np.ndarray | None = None) -> Stacked:
        """Keep some edges, keep : (all edges,) bool, graph by graph; the truth of node pairs stays.

        fill : (n, n), weights of the other edges, 0 if None.
        """
        weights = np.asarray(self.weights)
        present = (weights != 0) & above_diagonal(weights.shape[1])
        present[present] = keep  # in the order of ``edges``
        present |= present.transpose(0, 2, 1)
        left = weights * present
        if fill is not None:
            left = np.where((weights != 0) & ~present, fill, left)
        return Stacked(left, self.x, self.truth)

    def edge_truth(self) -> np.ndarray | None:
        """(g, n, n), a read-only view where one truth holds for all graphs."""
        return None if self.truth is None else np.broadcast_to(self.truth, self.weights.shape)

    def content(self) -> list[Any]:
        """Everything, in one form however it is stored."""
        return [self.weights, self.x, self.edge_truth()]

    def feature_range(self) -> np.ndarray:
        """(2, d) smallest and largest value of every node feature."""
        ends = np.array([[block.min((0, 1)), block.max((0, 1))] for block in blocks(self.x)])
        return np.stack([ends[:, 0].min(0), ends[:, 1].max(0)])

    def edge_statistics(self) -> EdgeStatistics:
        """Centre and scale of every edge's weight over the graphs."""
        return self.edge_sums().statistics()

    def edge_sums(self) -> EdgeSums:
        """Sums over the graphs that centre and scale follow from."""
        shape = self.weights.shape[1:]
        sums = EdgeSums(0, np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape))
        for block in blocks(self.weights):
            wide = block.astype(np.float64)
            sums = EdgeSums(
                sums.graphs + len(block),
                sums.having + np.count_nonzero(block, axis=0),
                sums.total + wide.sum(0),
                sums.squares + np.square(wide, out=wide).sum(0),
            )
        return sums

    def feature_sizes(self) -> np.ndarray:
        """(g, d) largest absolute value of every node feature in each graph."""
        return np.concatenate([np.abs(block).max(1) for block in blocks(self.x)])


class Ragged(NamedTuple):
    """Storage of any other set: the graphs concatenated, each undirected edge once (source < target)."""

    node_ptr: np.ndarray  # (g + 1,)
    edge_ptr: np.ndarray  # (g + 1,)
    pairs: np.ndarray  # (e, 2) int32, node numbers within the graph
    weight: np.ndarray | None  # (e,) float32; None when every edge weighs 1
    x: np.ndarray  # (all nodes, d)
    truth: np.ndarray | None  # (e,) bool

    def take(self, index: np.ndarray) -> Ragged:
        """Keep the graphs at ``index``."""
        nodes, node_ptr = _ranges(self.node_ptr, index)
        edges, edge_ptr = _ranges(self.edge_ptr, index)
        weight = None if self.weight is None else self.weight[edges]
        truth = None if self.truth is None else self.truth[edges]
        return Ragged(node_ptr, edge_ptr, self.pairs[edges], weight, self.x[nodes], truth)

    def n_nodes(self) -> np.ndarray:
        """(g,)."""
        return np.diff(self.node_ptr)

    def n_edges(self) -> np.ndarray:
        """(g,)."""
        return np.diff(self.edge_ptr)

    def edges(self, i: int) -> np.ndarray:
        """(e, 2) of graph i."""
        return self.pairs[self.edge_ptr[i] : self.edge_ptr[i + 1]].astype(np.int64)

    def values(self, i: int) -> np.ndarray:
        """(e,) weights of the edges of graph i."""
        start, stop = self.edge_ptr[i : i + 2]
        return np.ones(stop - start, np.float32) if self.weight is None else self.weight[start:stop]

    def dense(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (b, n, n) and features (b, n, d) of the graphs at ``index``, padded with zeros."""
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

    def parts(self, i: int) -> list[np.ndarray]:
        """The arrays of graph i, in one form however they are stored."""
        x = self.x[self.node_ptr[i] : self.node_ptr[i + 1]]
        return [self.edges(i), self.values(i), x.astype(np.float32)]

    def keep_edges(self, keep: np.ndarray) -> Ragged:
        """Keep some edges, keep : (all edges,) bool, graph by graph."""
        edge_ptr = np.concatenate([[0], np.cumsum(keep)])[self.edge_ptr]
        weight = None if self.weight is None else self.weight[keep]
        truth = None if self.truth is None else self.truth[keep]
        return Ragged(self.node_ptr, edge_ptr, self.pairs[keep], weight, self.x, truth)

    def feature_range(self) -> np.ndarray:
        """(2, d) smallest and largest value of every node feature."""
        return np.stack([self.x.min(0), self.x.max(0)])

    def feature_sizes(self) -> np.ndarray:
        """(g, d) largest absolute value of every node feature in each graph; every graph has a node."""
        return np.maximum.reduceat(np.abs(self.x), self.node_ptr[:-1], axis=0)

    def edge_truth(self) -> np.ndarray | list[np.ndarray] | None:
        """One (n, n) matrix per graph, stacked where sizes agree."""
        if self.truth is None:
            return None
        matrices = []
        for i, n in enumerate(self.n_nodes()):
            source, target = self.edges(i).T
            matrix = np.zeros((n, n), bool)
            matrix[source, target] = self.truth[self.edge_ptr[i] : self.edge_ptr[i + 1]]
            matrices.append(matrix | matrix.T)
        return np.stack(matrices) if len({len(matrix) for matrix in matrices}) == 1 else matrices

    def content(self) -> list[np.ndarray | None]:
        """Everything, in one form however it is stored."""
        weight = np.ones(len(self.pairs), np.float32) if self.weight is None else self.weight
        return [self.node_ptr, self.edge_ptr, self.pairs, weight, self.x.astype(np.float32), self.truth]


def _ranges(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the ranges ptr[i]:ptr[i+1] for i in index, concatenated, and their own ptr."""
    lengths = (ptr[1:] - ptr[:-1])[index]
    new_ptr = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(ptr[:-1][index] - new_ptr[:-1], lengths)
    return np.arange(new_ptr[-1]) + shift, new_ptr


def plain_labels(y: np.ndarray) -> np.ndarray:
    """Labels in one form for all widths of a number and for all ways to store words."""
    if y.dtype.kind in "iufb":
        return y.astype({"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}[y.dtype.kind])
    return y.astype(str)


# node pairs in a batch of graphs of different sizes: bounds the time and memory of the largest
MAX_CELLS = 2**21
# standard deviation of the noise on log size by which graphs are sorted into batches: only graphs of very
# different sizes are kept apart. Where size goes with the class, batches of one size would be batches of one
# class, and their statistics would tell it
SIZE_BLUR = 1.0


class StoredGraphs:
    """The part of `GraphSet` that reads its storage and makes batches."""

    _store: Stacked | Ragged

    def __len__(self) -> int:
        return len(self.n_nodes)

    @property
    def shape(self) -> tuple[int]:
        """Number of graphs as a tuple, which scikit-learn reads to index the set like an array."""
        return (len(self),)

    @property
    def aligned(self) -> bool:
        """Whether node i is the same thing in every graph."""
        return isinstance(self._store, Stacked)

    @property
    def weighted(self) -> bool:
        """Whether edges have weights other than 1."""
        return isinstance(self._store, Stacked) or self._store.weight is not None

    @property
    def mapped(self) -> bool:
        """Whether the graphs stay on disk and are read when they are needed."""
        return isinstance(self._store, Stacked) and isinstance(self._store.weights, MappedArray)

    @property
    def n_features(self) -> int:
        """Number of features of a node."""
        return self._store.x.shape[-1]

    @cached_property
    def n_nodes(self) -> np.ndarray:
        """Number of nodes of each graph, array of shape (g,)."""
        return self._store.n_nodes()

    @cached_property
    def n_edges(self) -> np.ndarray:
        """Number of undirected edges of each graph, array of shape (g,)."""
        return self._store.n_edges()

    @property
    def nbytes(self) -> int:
        """Bytes that the graphs' arrays take: of memory, or of the disk where they stay there."""
        arrays = {id(a): a.nbytes for a in self._store if a is not None}  # one array may have two names
        return sum(arrays.values())

    @property
    def edge_truth(self) -> np.ndarray | list[np.ndarray] | None:
        """Where an edge is known to cause the class: (g, n, n) bool, a list if sizes differ, or None."""
        return self._store.edge_truth()

    def feature_range(self) -> np.ndarray:
        """Return the smallest and the largest value of every node feature.

        Returns
        -------
        ndarray of shape (2, d)
            Minima and maxima over all nodes of all graphs.
        """
        return self._store.feature_range().astype(np.float64)

    def edge_statistics(self) -> EdgeStatistics:
        """Return centre and scale of every edge's weight over the graphs of an aligned set.

        Returns
        -------
        EdgeStatistics
            Two arrays of shape (n, n).
        """
        if not isinstance(self._store, Stacked):
            raise ValueError("statistics of edges need aligned graphs (node i the same in each).")
        return self._store.edge_statistics()

    def edge_sums(self) -> EdgeSums:
        """Return the sums over an aligned set that its `edge_statistics` follow from.

        Returns
        -------
        EdgeSums
            Number of graphs and three arrays of shape (n, n).
        """
        if not isinstance(self._store, Stacked):
            raise ValueError("statistics of edges need aligned graphs (node i the same in each).")
        return self._store.edge_sums()

    def feature_sizes(self) -> np.ndarray:
        """Return how large the node features of each graph are.

        Returns
        -------
        ndarray of shape (g, d)
            Largest absolute value over the nodes.
        """
        return self._store.feature_sizes()

    def edges(self, i: int) -> np.ndarray:
        """Return the undirected edges of graph i, each once.

        Parameters
        ----------
        i : int
            Number of the graph.

        Returns
        -------
        ndarray of shape (e, 2)
            Node numbers, source < target.
        """
        return self._store.edges(range(len(self))[i])

    def edge_values(self, i: int) -> np.ndarray:
        """Return the signed weights of the edges of graph i.

        Parameters
        ----------
        i : int
            Number of the graph.

        Returns
        -------
        ndarray of shape (e,)
            Weights in the order of `edges`.
        """
        return self._store.values(range(len(self))[i])

    def edge_matrix(self, i: int) -> np.ndarray:
        """Return the signed weights of graph i as a matrix.

        Parameters
        ----------
        i : int
            Number of the graph.

        Returns
        -------
        ndarray of shape (n, n)
            Symmetric, 0 where there is no edge.
        """
        return self._store.dense(np.array([range(len(self))[i]]))[0][0]

    def fingerprints(self) -> np.ndarray:
        """Return a digest of each graph: equal edges, weights and features give equal ones.

        Returns
        -------
        ndarray of shape (g,)
            16 hexadecimal digits each; labels do not count.
        """
        return np.array([digest(*self._store.parts(i), length=16) for i in range(len(self))], dtype="U16")

    def batch(self, index: Index | None = None, y: np.ndarray | None = None) -> GraphBatch:
        """Return graphs as one dense batch on the CPU.

        Parameters
        ----------
        index : array-like of int, mask or slice, default=None
            Which graphs. By default all.
        y : array of shape (g,), default=None
            Class numbers of the whole set, for a batch with labels.

        Returns
        -------
        GraphBatch
            The batch, padded to its largest graph.
        """
        chosen = np.arange(len(self)) if index is None else positions(index, len(self))
        if index is None and isinstance(self._store, Stacked) and not self.mapped:
            weights, x = self._store.weights, self._store.x  # no copy
        else:
            weights, x = self._store.dense(chosen)
        nodes = np.arange(weights.shape[1]) < self.n_nodes[chosen][:, None]
        labels = None if y is None else torch.from_numpy(np.asarray(y)[chosen].astype(np.int64))
        adj = torch.from_numpy(weights)
        features = adj if x is weights else torch.from_numpy(np.asarray(x, np.float32))
        return GraphBatch(features, adj, torch.from_numpy(nodes), labels, padded=not nodes.all())

    def batch_indices(self, batch_size: int, shuffle: bool = False) -> list[np.ndarray]:
        """Divide the set into batches of nearly equal length with graphs of similar size in each.

        Parameters
        ----------
        batch_size : int
            Largest number of graphs in a batch. Batches of very large graphs hold fewer.
        shuffle : bool, default=False
            Sort graphs by a noisy size, cut, and shuffle the batches, with torch's random generator.

        Returns
        -------
        list of ndarray of shape (b,)
            The numbers of the graphs of each batch.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        log_sizes = np.log(self.n_nodes)
        if not shuffle:
            return cut(np.argsort(-log_sizes, kind="stable"), self.n_nodes, batch_size)
        blur = SIZE_BLUR * torch.randn(len(self), dtype=torch.float64).numpy()
        batches = cut(np.argsort(blur - log_sizes), self.n_nodes, batch_size)
        return [batches[i] for i in torch.randperm(len(batches))]


def cut(
    order: np.ndarray, sizes: np.ndarray, batch_size: int, most_cells: int = MAX_CELLS
) -> list[np.ndarray]:
    """Cut graphs, ordered by falling size, into batches of at most so many padded node pairs."""
    batches: list[np.ndarray] = []
    while len(order):
        widest = np.maximum.accumulate(sizes[order[:batch_size]])
        fits = np.arange(1, len(widest) + 1) * widest**2 <= most_cells
        if fits.all() or sizes.min() == sizes.max():  # from here on graphs are small enough
            return batches + np.array_split(order, -(-len(order) // batch_size))
        batches.append(order[: max(1, fits.sum())])
        order = order[len(batches[-1]) :]
    return batches
