"""How a `GraphSet` keeps its graphs: stacked arrays where nodes are aligned, one edge list for all others.

Whatever comes in is checked here: weights become symmetric float32 without a diagonal, node features
float32 or bytes, edge truth symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cignn._arrays import above_diagonal

CHUNK = 2**20  # cells of matrices checked at once: bounds the memory beyond the result
CLOSE = 1e-5  # how far the two directions of an edge may differ, absolutely and relatively


class Stacked(NamedTuple):
    """Storage of an aligned set. ``x`` may be the very array ``weights``: it is then kept once."""

    weights: np.ndarray  # (g, n, n)
    x: np.ndarray  # (g, n, d)
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
        return (np.count_nonzero(self.weights, axis=(1, 2)) // 2).astype(np.int64)

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
        weights = self.weights[index]
        return weights, weights if self.x is self.weights else self.x[index]

    def parts(self, i: int) -> list[np.ndarray]:
        """All that graph i is made of; an array under two names stands here twice."""
        weights = self.weights[i]
        return [weights, weights if self.x is self.weights else self.x[i]]

    def keep_edges(self, keep: np.ndarray) -> Stacked:
        """Keep some of all edges, keep : (all edges,) bool, graph by graph; the truth of node pairs stays."""
        present = (self.weights != 0) & above_diagonal(self.weights.shape[1])
        present[present] = keep  # in the order of ``edges``
        present |= present.transpose(0, 2, 1)
        return Stacked(self.weights * present, self.x, self.truth)

    def edge_truth(self) -> np.ndarray | None:
        """(g, n, n), a view that must not be written where the truth is kept once."""
        return None if self.truth is None else np.broadcast_to(self.truth, self.weights.shape)

    def content(self) -> list[np.ndarray | None]:
        """Everything, in one form whatever way it is kept."""
        return [self.weights, self.x, self.edge_truth()]


class Ragged(NamedTuple):
    """Storage of any other set: graphs one behind the other, each undirected edge once (source < target)."""

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
        """All that graph i is made of, in one form whatever way it is kept."""
        x = self.x[self.node_ptr[i] : self.node_ptr[i + 1]]
        return [self.edges(i), self.values(i), x.astype(np.float32)]

    def keep_edges(self, keep: np.ndarray) -> Ragged:
        """Keep some of all edges, keep : (all edges,) bool, graph by graph."""
        edge_ptr = np.concatenate([[0], np.cumsum(keep)])[self.edge_ptr]
        weight = None if self.weight is None else self.weight[keep]
        truth = None if self.truth is None else self.truth[keep]
        return Ragged(self.node_ptr, edge_ptr, self.pairs[keep], weight, self.x, truth)

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
        """Everything, in one form whatever way it is kept."""
        weight = np.ones(len(self.pairs), np.float32) if self.weight is None else self.weight
        return [self.node_ptr, self.edge_ptr, self.pairs, weight, self.x.astype(np.float32), self.truth]


def _ranges(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the stretches ptr[i]:ptr[i+1] for i in index, one behind the other, and their own ptr."""
    lengths = (ptr[1:] - ptr[:-1])[index]
    new_ptr = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(ptr[:-1][index] - new_ptr[:-1], lengths)
    return np.arange(new_ptr[-1]) + shift, new_ptr


def positions(key: Any, length: int) -> np.ndarray:
    """Positions that numpy would pick from ``length`` things: by list, mask, slice or array."""
    if not isinstance(key, slice):
        key = np.asarray(key)
        key = key if key.size else key.astype(int)  # an empty list picks nothing
    index = np.arange(length)[key]
    if index.ndim != 1:
        raise IndexError(f"index with a number or in one dimension, got {index.ndim} dimensions.")
    return index


# -------------------------------------------------------------------- checking


def stack_weights(adj: Sequence | np.ndarray) -> list[np.ndarray] | np.ndarray:
    """Checked edge weights: (g, n, n) where sizes agree, else a list of (n_i, n_i)."""
    if not len(adj):
        raise ValueError("a graph set needs at least one graph, got none.")
    shapes = [np.shape(matrix) for matrix in adj]
    for i, shape in enumerate(shapes):
        if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
            raise ValueError(f"graph {i} must be a square matrix, got shape {tuple(shape)}.")
    if len(set(shapes)) > 1:
        return [_checked_weights(adj[i : i + 1], i, shapes[i][0])[0] for i in range(len(adj))]
    n = shapes[0][0]
    out = np.empty((len(adj), n, n), np.float32)
    step = max(1, CHUNK // n**2)
    for first in range(0, len(adj), step):
        out[first : first + step] = _checked_weights(adj[first : first + step], first, n)
    return out


def _checked_weights(matrices: Sequence | np.ndarray, first: int, n: int) -> np.ndarray:
    """(k, n, n) float32, exactly symmetric, zero diagonal; ``first`` is the number of the first of them."""
    weights = np.empty((len(matrices), n, n), np.float32)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused below
        for i, matrix in enumerate(matrices):
            try:
                numbers = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else _detached(matrix))
                if numbers.dtype.kind == "c":
                    raise TypeError
                weights[i] = numbers
            except (TypeError, ValueError):
                raise ValueError(f"graph {first + i} must be a square matrix of numbers.") from None
    weights[:, np.arange(n), np.arange(n)] = 0  # may be infinite, as Fisher's z is there
    good = np.isfinite(weights).all((1, 2))
    if not good.all():
        raise ValueError(
            f"graph {first + good.argmin()} has NaN or infinite edge weights; repair or drop it."
        )
    turned = weights.swapaxes(1, 2)
    good = (np.abs(weights - turned) <= CLOSE + CLOSE * np.abs(turned)).all((1, 2))
    if not good.all():
        raise ValueError(
            f"graph {first + good.argmin()} is not symmetric; graphs are undirected, average it with its "
            "transpose."
        )
    return (weights + turned) / 2  # exactly symmetric, so that both directions of an edge exist and agree


def _detached(matrix: Any) -> Any:
    """A torch tensor without its gradient and off its device; anything else as it is."""
    return matrix.detach().cpu().to_dense().numpy() if hasattr(matrix, "detach") else matrix


def stack_truth(truth: Sequence | np.ndarray, sizes: np.ndarray) -> np.ndarray | list[np.ndarray]:
    """Checked edge truth: one symmetric bool matrix per graph, (g, n, n) where sizes agree.

    One (n, n) array for all graphs comes back as (1, n, n).
    """
    if getattr(truth, "ndim", 3) == 2:
        truth, sizes = truth[None], sizes[:1]  # type: ignore[call-overload]
    _match("edge_truth", truth, sizes)
    matrices = []
    for i, matrix in enumerate(truth):
        marked = np.asarray(matrix, bool)
        if marked.ndim != 2 or marked.shape[0] != marked.shape[1]:
            raise ValueError(f"edge_truth of graph {i} must be a square matrix, got shape {marked.shape}.")
        matrices.append(marked | marked.T)  # an edge may be marked in one direction only
    return np.stack(matrices) if len(set(sizes)) == 1 else matrices


def stack_features(x: Sequence | np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(all nodes, d) float32 features of all graphs, one behind the other."""
    _match("x", x, sizes)
    widths = [1 if len(np.shape(rows)) == 1 else np.shape(rows)[-1] for rows in x]
    if len(set(widths)) > 1:
        other = next(i for i, width in enumerate(widths) if width != widths[0])
        raise ValueError(f"graph {other} has {widths[other]} node features, graph 0 has {widths[0]}.")
    out = np.empty((sizes.sum(), widths[0]), np.float32)
    start = 0
    for i, (rows, n) in enumerate(zip(x, sizes, strict=True)):
        try:
            with np.errstate(over="ignore"):
                out[start : start + n] = np.reshape(_detached(rows), (n, widths[0]))
        except (TypeError, ValueError):
            raise ValueError(f"node features of graph {i} must be numbers, (nodes, features).") from None
        start += n
    check_finite(out, np.repeat(np.arange(len(sizes)), sizes))
    return out


def _match(name: str, values: Sequence | np.ndarray, sizes: np.ndarray) -> None:
    if not hasattr(values, "__len__"):
        raise ValueError(f"{name} must have one entry per graph, got {values!r}.")
    if len(values) != len(sizes):
        raise ValueError(f"{name} must have one entry per graph ({len(sizes)}), got {len(values)}.")
    for i, (value, n) in enumerate(zip(values, sizes, strict=True)):
        if len(value) != n:
            raise ValueError(f"{name} of graph {i} must have {n} rows, got {len(value)}.")


def check_finite(x: np.ndarray, graph: np.ndarray) -> None:
    """Refuse rows of x that are not finite; graph : (rows,) the graph of each."""
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        raise ValueError(f"graph {graph[bad.argmax()]} has NaN or infinite node features; repair or drop it.")


def check_graph_of_node(graph_of_node: np.ndarray) -> None:
    """Refuse numbers, (nodes,), that are not those of graphs one behind the other."""
    if len(graph_of_node) == 0:
        raise ValueError("a graph set needs at least one graph, got none.")
    steps = np.diff(graph_of_node, prepend=0)
    if graph_of_node[0] < 0 or steps.min() < 0:
        raise ValueError("graph_of_node must be sorted and start at 0.")
    jump = steps > (np.arange(len(steps)) > 0)  # the first node is of graph 0
    if jump.any():
        at = jump.argmax()
        culprit = graph_of_node[at - 1] + 1 if at else 0
        raise ValueError(f"graph {culprit} has no nodes; graph_of_node must leave no graph without nodes.")


def compact(x: np.ndarray) -> np.ndarray:
    """Keep small whole numbers (one-hot labels, degrees) in a byte, all else in float32."""
    small = x.astype(np.uint8) if x.size and x.min() >= 0 and x.max() <= 255 else None
    return small if small is not None and (small == x).all() else x.astype(np.float32)


def ragged(
    edges: np.ndarray,
    graph_of_node: np.ndarray,
    x: np.ndarray,
    edge_weight: np.ndarray | None,
    edge_truth: np.ndarray | None,
) -> Ragged:
    """Sort edges by graph, keep each undirected one once, drop self-loops and zero weights."""
    node_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph_of_node))])
    n_nodes, n_graphs = len(graph_of_node), len(node_ptr) - 1
    if len(edges) and (edges.min() < 0 or edges.max() >= n_nodes):
        culprit = edges.max() if edges.max() >= n_nodes else edges.min()
        raise ValueError(f"edges name node {culprit}, there are {n_nodes}.")
    across = graph_of_node[edges[:, 0]] != graph_of_node[edges[:, 1]]
    if across.any():
        source, target = edges[across.argmax()]
        graphs = graph_of_node[[source, target]]
        raise ValueError(
            f"edge {source}–{target} joins two different graphs ({graphs[0]} and {graphs[1]}); "
            "edges count nodes over all graphs."
        )
    weight = np.ones(len(edges)) if edge_weight is None else np.asarray(edge_weight).ravel()
    with np.errstate(over="ignore"):
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
        source, target = low[clash.argmax()], high[clash.argmax()]
        culprit = graph_of_node[source]
        own = f"{source - node_ptr[culprit]}–{target - node_ptr[culprit]}"
        raise ValueError(
            f"graph {culprit}: edge {own} has two different weights; graphs are undirected, give both "
            "directions the same."
        )
    low, high, weight = low[first], high[first], weight[first]
    graph = graph_of_node[low]  # sorted, because nodes are and the keys sort by low
    pairs = (np.stack([low, high], 1) - node_ptr[graph][:, None]).astype(np.int32)
    edge_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph, minlength=n_graphs))])
    if truth is not None:  # marked in one direction is enough
        truth = np.bincount(back, truth[keep], len(first)) > 0
    return Ragged(node_ptr, edge_ptr, pairs, None if (weight == 1).all() else weight, compact(x), truth)
