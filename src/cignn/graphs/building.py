"""Checks of the input that graph sets are built from: arrays, edge lists and PyTorch Geometric's data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from cignn._arrays import above_diagonal, is_finite, is_symmetric
from cignn.graphs.storage import Ragged

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from cignn.graphs.graph_set import Graph


CHUNK = 2**20  # cells of matrices checked at once: bounds the memory beyond the result


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
    # exactly symmetric, so that both directions of an edge exist and agree
    return (weights + weights.swapaxes(1, 2)) / 2


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


class Columns(NamedTuple):
    """All graphs concatenated, as `GraphSet.from_edges` takes them."""

    edges: np.ndarray  # (e, 2) node numbers over all graphs
    graph_of_node: np.ndarray  # (nodes,)
    x: np.ndarray | None  # (nodes, d)
    y: np.ndarray | None  # (g,)
    edge_weight: np.ndarray | None  # (e,)
    edge_truth: np.ndarray | None  # (e,)


def read_pyg(data: Iterable[Data]) -> Columns:
    """Check the graphs and concatenate them."""
    graphs = _listed(data)
    sizes = np.array([_checked_size(graph, i) for i, graph in enumerate(graphs)])
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    edges = [graph.edge_index.cpu().numpy().T + k for graph, k in zip(graphs, offsets, strict=True)]
    rest = {name: _column(graphs, name) for name in ("x", "y", "edge_weight", "edge_truth")}
    return Columns(
        np.concatenate(edges),
        np.repeat(np.arange(len(graphs)), sizes),
        _stacked_features(rest["x"], sizes),
        _one_label_each(rest["y"]),
        _stacked(rest["edge_weight"], "edge_weight", [len(pairs) for pairs in edges], "edge"),
        _stacked(rest["edge_truth"], "edge_truth", [len(pairs) for pairs in edges], "edge"),
    )


def write_pyg(graph: Graph, edges: np.ndarray, y: Sequence | np.ndarray) -> Data:
    """Graph with its edges, (e, 2), and its label, (1,), as PyTorch Geometric data."""
    from torch_geometric.data import Data

    source, target = edges.T
    index = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    item = Data(x=torch.from_numpy(graph.x), edge_index=torch.from_numpy(index))
    item.edge_weight = torch.from_numpy(graph.weights[tuple(index)])
    if graph.y is not None:
        word = np.asarray(y).dtype.kind not in "biuf"  # which no tensor holds
        item.y = str(graph.y) if word else torch.as_tensor(y)
    if graph.edge_truth is not None:
        item.edge_truth = torch.from_numpy(graph.edge_truth[tuple(index)])
    return item


def _listed(data: Iterable[Data]) -> list[Data]:
    from torch_geometric.data import Batch, Data

    if isinstance(data, Batch):
        raise ValueError("expected a list of graphs, got a Batch; pass batch.to_data_list().")
    if isinstance(data, Data):
        raise ValueError("expected a list of graphs, got one Data; pass [data].")
    graphs = list(data)
    if not graphs:
        raise ValueError("a graph set needs at least one graph, got none.")
    for i, graph in enumerate(graphs):
        if isinstance(graph, Batch):
            raise ValueError(f"graph {i} is a Batch of graphs; split it first (.to_data_list()).")
        if not isinstance(graph, Data):
            raise ValueError(f"graph {i} must be torch_geometric.data.Data, got {type(graph).__name__}.")
    return graphs


def _checked_size(graph: Data, i: int) -> int:
    """Return the number of nodes of graph i, whose edges must join its own nodes and have both directions."""
    from torch_geometric.utils import coalesce, is_undirected

    index = graph.edge_index
    if index is None:
        raise ValueError(
            f"graph {i} has no edge_index; without edges it is torch.empty(2, 0, dtype=torch.long)."
        )
    if index.ndim != 2 or len(index) != 2:
        raise ValueError(f"edge_index of graph {i} must be (2, edges), got shape {tuple(index.shape)}.")
    if index.dtype.is_floating_point or index.dtype.is_complex or index.dtype == torch.bool:
        raise ValueError(f"edge_index of graph {i} must hold whole node numbers, got {index.dtype}.")
    size = int(graph.num_nodes or 0)
    if not size:
        raise ValueError(f"graph {i} has no nodes; drop it.")
    if index.numel() and (index.min() < 0 or index.max() >= size):
        culprit = int(index.max() if index.max() >= size else index.min())
        raise ValueError(f"edge_index of graph {i} names node {culprit}, it has nodes 0 to {size - 1}.")
    if not is_undirected(coalesce(index, num_nodes=size), num_nodes=size):  # an edge may be listed twice
        raise ValueError(
            f"graph {i} is directed; make it undirected first (torch_geometric.utils.to_undirected)."
        )
    return size


def _column(graphs: list[Data], name: str) -> list[np.ndarray] | None:
    have = [getattr(graph, name, None) is not None for graph in graphs]
    if not any(have):
        return None
    if not all(have):
        raise ValueError(f"graph {have.index(False)} has no {name} while others have one.")
    return [_array(getattr(graph, name)) for graph in graphs]


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach().to_dense().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def _stacked(
    values: list[np.ndarray] | None, name: str, lengths: Sequence[int], thing: str
) -> np.ndarray | None:
    """All values concatenated; each graph must have as many as it has edges."""
    if values is None:
        return None
    for i, (value, length) in enumerate(zip(values, lengths, strict=True)):
        if value.size != length:
            raise ValueError(
                f"{name} of graph {i} must have one entry per {thing} ({length}), got {value.size}."
            )
    return np.concatenate([value.ravel() for value in values])


def _stacked_features(values: list[np.ndarray] | None, sizes: np.ndarray) -> np.ndarray | None:
    if values is None:
        return None
    rows = [value[:, None] if value.ndim == 1 else value for value in values]
    for i, value in enumerate(rows):
        if value.ndim and len(value) != sizes[i]:
            raise ValueError(f"x of graph {i} must have one row per node ({sizes[i]}), got {len(value)}.")
        if value.ndim != 2:
            raise ValueError(f"x of graph {i} must be (nodes, features), got shape {value.shape}.")
        if value.shape[1:] != rows[0].shape[1:]:
            widths = value.shape[1], rows[0].shape[1]
            raise ValueError(f"graph {i} has {widths[0]} node features, graph 0 has {widths[1]}.")
    return np.concatenate(rows)


def _one_label_each(values: list[np.ndarray] | None) -> np.ndarray | None:
    if values is None:
        return None
    for i, value in enumerate(values):
        if value.size != 1:
            raise ValueError(
                f"graph {i} has {value.size} values in y, expected one label; set data.y to the one to learn."
            )
    return np.concatenate([value.ravel() for value in values])
