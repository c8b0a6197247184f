"""Checks of the input that graph sets are built from: arrays in memory or on disk, and edge lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cignn._arrays import above_diagonal, blocks, is_finite, is_symmetric
from cignn._mapped import MappedArray
from cignn.graphs.storage import Ragged

CHUNK = 2**20  # cells of matrices checked at once: bounds the memory beyond the result


def stack_weights(adj: Sequence | np.ndarray | MappedArray) -> list[np.ndarray] | np.ndarray | MappedArray:
    """Checked edge weights: (g, n, n) where sizes agree, else a list of (n_i, n_i)."""
    if not len(adj):
        raise ValueError("a graph set needs at least one graph, got none.")
    if isinstance(adj, MappedArray):
        return mapped_weights(adj)
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


def mapped_weights(adj: MappedArray) -> MappedArray:
    """Edge weights of matrices on disk, (g, n, n), checked block by block.

    They stay where they are: what `_checked_weights` would change is changed whenever they are read.
    """
    if adj.ndim != 3 or adj.shape[1] != adj.shape[2] or not adj.shape[1]:
        raise ValueError(f"adj must be (graphs, nodes, nodes), got shape {adj.shape}.")
    first, loops, exact = 0, False, True
    for block in blocks(adj):
        loops |= bool(block.diagonal(axis1=1, axis2=2).any())
        weights = _checked_weights(zero_diagonal(block), first, adj.shape[1])
        exact &= np.array_equal(weights, block)
        first += len(block)
    adj = adj.with_step(zero_diagonal) if loops else adj
    return adj if exact else adj.with_step(symmetrised)


def zero_diagonal(matrices: np.ndarray) -> np.ndarray:
    """(k, n, n) matrices with a diagonal of zeros, in place: no node is connected to itself."""
    own = np.arange(matrices.shape[1])
    matrices[:, own, own] = 0  # may be infinite, as Fisher's z is there
    return matrices


def symmetrised(matrices: np.ndarray) -> np.ndarray:
    """(k, n, n) exactly symmetric, so that both directions of an edge exist and agree."""
    return (matrices + matrices.swapaxes(1, 2)) / 2


def mapped_features(x: MappedArray, sizes: np.ndarray) -> MappedArray:
    """Node features on disk, (g, n, d), checked block by block."""
    if x.ndim != 3 or x.shape[:2] != (len(sizes), sizes[0]):
        raise ValueError(f"x must be ({len(sizes)}, {sizes[0]}, features), got shape {x.shape}.")
    finite = is_finite(x)
    if not finite.all():
        raise ValueError(f"graph {finite.argmin()} has NaN or infinite node features; repair or drop it.")
    return x


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
    zero_diagonal(weights)
    good = is_finite(weights)
    if not good.all():
        raise ValueError(
            f"graph {first + good.argmin()} has NaN or infinite edge weights; repair or drop it."
        )
    good = is_symmetric(weights)
    if not good.all():
        raise ValueError(
            f"graph {first + good.argmin()} is not symmetric; graphs are undirected, average it with its "
            "transpose."
        )
    return symmetrised(weights)


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
    """(all nodes, d) float32 features of all graphs, concatenated."""
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
    """Refuse numbers of graphs, (nodes,), that are not sorted from 0 without gaps."""
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


def ragged_from_matrices(
    weights: Sequence[np.ndarray] | np.ndarray,
    x: np.ndarray | None,
    truth: Sequence[np.ndarray] | np.ndarray | None,
) -> Ragged:
    """Storage of checked matrices of graphs that are not aligned."""
    pairs = [np.argwhere((matrix != 0) & above_diagonal(len(matrix))) for matrix in weights]
    sizes = [len(matrix) for matrix in weights]
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])

    def on_edges(matrices: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        return np.concatenate([matrix[tuple(at.T)] for matrix, at in zip(matrices, pairs, strict=True)])

    return ragged(
        np.concatenate([pair + offset for pair, offset in zip(pairs, offsets, strict=True)]),
        np.repeat(np.arange(len(sizes)), sizes),
        x,
        on_edges(weights),
        None if truth is None else on_edges(truth),
    )


def ragged(
    edges: np.ndarray,
    graph_of_node: np.ndarray,
    x: np.ndarray | None,
    edge_weight: np.ndarray | None,
    edge_truth: np.ndarray | None,
) -> Ragged:
    """Sort edges by graph, keep each undirected one once, drop self-loops and zero weights."""
    numbers = _whole_numbers(edges)
    graph_of_node = np.asarray(graph_of_node, np.int64)
    check_graph_of_node(graph_of_node)
    x = _checked_features(x, graph_of_node)
    _check_ends(numbers, graph_of_node)
    weight, truth = _checked_columns(numbers, graph_of_node, edge_weight, edge_truth)

    node_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph_of_node))])
    keep = (numbers[:, 0] != numbers[:, 1]) & (weight != 0)
    low, high = numbers[keep].min(1), numbers[keep].max(1)
    _, first, back = np.unique(low * len(graph_of_node) + high, return_index=True, return_inverse=True)
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
    edge_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph, minlength=len(node_ptr) - 1))])
    if truth is not None:  # marked in one direction is enough
        truth = np.bincount(back, truth[keep], len(first)) > 0
    return Ragged(node_ptr, edge_ptr, pairs, None if (weight == 1).all() else weight, compact(x), truth)


def _whole_numbers(edges: np.ndarray) -> np.ndarray:
    """(e, 2) int64 node numbers."""
    edges = np.asarray(edges)
    if edges.size and (edges.ndim != 2 or edges.shape[1] != 2):
        raise ValueError(f"edges must be (edges, 2), got shape {edges.shape}; transpose an edge index.")
    with np.errstate(invalid="ignore"):
        numbers = edges.astype(np.int64).reshape(-1, 2)
    if edges.size and (numbers != edges).any():
        raise ValueError("edges must be whole node numbers.")
    return numbers


def _checked_features(x: np.ndarray | None, graph_of_node: np.ndarray) -> np.ndarray:
    """(nodes, d) numbers; a constant 1 in place of None."""
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
    return x


def _check_ends(edges: np.ndarray, graph_of_node: np.ndarray) -> None:
    """Refuse edges, (e, 2), of unknown nodes and between graphs."""
    n_nodes = len(graph_of_node)
    if len(edges) and (edges.min() < 0 or edges.max() >= n_nodes):
        culprit = edges.max() if edges.max() >= n_nodes else edges.min()
        raise ValueError(f"edges name node {culprit}, there are {n_nodes}.")
    across = graph_of_node[edges[:, 0]] != graph_of_node[edges[:, 1]]
    if across.any():
        source, target = edges[across.argmax()]
        graphs = graph_of_node[[source, target]]
        raise ValueError(
            f"edge {source}–{target} joins two different graphs ({graphs[0]} and {graphs[1]}); "
            "nodes are numbered over all graphs."
        )


def _checked_columns(
    edges: np.ndarray,
    graph_of_node: np.ndarray,
    edge_weight: np.ndarray | None,
    edge_truth: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Weight, float32, and truth, bool, of every edge, (e,) each."""
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
    return weight, truth


def select_features(x: np.ndarray, own: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Columns (..., len(names)) of x : (..., len(own)) in the order of names; absent node labels are 0."""
    column = {name: k for k, name in enumerate(own)}
    lacking = [name for name in names if name not in column and not name.startswith("label ")]
    if lacking:
        raise ValueError(
            f"graphs lack the node feature '{lacking[0]}' of the training graphs; pass graphs with the same "
            "features."
        )
    unknown = [name for name in column.keys() - set(names) if x[..., column[name]].any()]
    if unknown:
        label = min(unknown).startswith("label ")
        remedy = "leave out the graphs that have it" if label else "pass graphs with the same features"
        raise ValueError(
            f"graphs have the node feature '{min(unknown)}', the training graphs do not; {remedy}."
        )
    chosen = np.zeros((*x.shape[:-1], len(names)), x.dtype)
    for k, name in enumerate(names):
        if name in column:
            chosen[..., k] = x[..., column[name]]
    return chosen
