"""`StoredGraphs`: what can be read from stored graphs without their labels, and how they are batched."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from cignn._arrays import digest
from cignn.graphs.graph_batch import GraphBatch
from cignn.graphs.storage import EdgeStatistics, Index, Ragged, Stacked, positions

# node pairs in a batch of graphs of different sizes: bounds the time and memory of the largest
MAX_CELLS = 2**21
# standard deviation of the noise on log size by which graphs are sorted into batches
SIZE_BLUR = 0.25


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
        """Bytes of memory that the graphs' arrays take."""
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
        x = self._store.x.reshape(-1, self.n_features)
        return np.stack([x.min(0), x.max(0)]).astype(np.float64)

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
        weights, x = self._store.dense(chosen)
        nodes = np.arange(weights.shape[1]) < self.n_nodes[chosen][:, None]
        labels = None if y is None else torch.from_numpy(np.asarray(y)[chosen].astype(np.int64))
        adj = torch.from_numpy(weights)
        features = adj if x is weights else torch.from_numpy(np.asarray(x, np.float32))
        return GraphBatch(features, adj, torch.from_numpy(nodes), labels, not nodes.all())

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
            return _cut(np.argsort(-log_sizes, kind="stable"), self.n_nodes, batch_size)
        blur = SIZE_BLUR * torch.randn(len(self), dtype=torch.float64).numpy()
        batches = _cut(np.argsort(blur - log_sizes), self.n_nodes, batch_size)
        return [batches[i] for i in torch.randperm(len(batches))]


def _cut(order: np.ndarray, sizes: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Cut graphs, ordered by falling size, into batches of at most ``MAX_CELLS`` padded node pairs."""
    batches: list[np.ndarray] = []
    while len(order):
        widest = np.maximum.accumulate(sizes[order[:batch_size]])
        fits = np.arange(1, len(widest) + 1) * widest**2 <= MAX_CELLS
        if fits.all() or sizes.min() == sizes.max():  # from here on graphs are small enough
            return batches + np.array_split(order, -(-len(order) // batch_size))
        batches.append(order[: max(1, fits.sum())])
        order = order[len(batches[-1]) :]
    return batches
