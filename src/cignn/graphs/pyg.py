"""Graphs of PyTorch Geometric, in and out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from cignn.graphs.graph_set import Graph


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
