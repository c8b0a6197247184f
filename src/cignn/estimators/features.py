"""One vector per graph, for classifiers that read vectors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cignn.graphs import GraphBatch, GraphSet

BATCH = 256  # graphs whose statistics are computed together
LARGE, SPARSE = 1024, 0.05  # nodes from which on, density up to which, walks are counted along the edges
STATISTICS = (
    "nodes",
    "edges",
    "density",
    "degree mean",
    "degree std",
    "degree max",
    "leaves",  # share of nodes with one neighbour
    "isolated",  # share of nodes with none
    "strength mean",  # of a node: the sum of its edge weights
    "strength std",
    "weight mean",
    "weight std",
    "triangles",
    "clustering",  # mean over nodes of the share of their pairs of neighbours that are neighbours
    "squares",  # closed walks of four steps that visit four nodes, divided by 8: cycles of length 4
)


def connectivity_vector(graphs: GraphSet) -> np.ndarray:
    """(g, n(n-1)/2) the weights above the diagonal of every graph of an aligned set, row by row."""
    if not graphs.aligned:
        raise ValueError(
            "a connectivity vector needs aligned graphs (node i the same in each); use statistics."
        )
    n = int(graphs.n_nodes[0]) if len(graphs) else 1
    row, column = np.triu_indices(n, 1)
    vectors = np.empty((len(graphs), len(row)), np.float32)
    for start in range(0, len(graphs), BATCH):
        index = np.arange(start, min(start + BATCH, len(graphs)))
        vectors[index] = graphs.batch(index).adj.numpy()[:, row, column]
    return vectors


def graph_statistics(graphs: GraphSet) -> np.ndarray:
    """(g, len(STATISTICS) + 3d) numbers that do not depend on the order of the nodes.

    First `STATISTICS`, then the sum, mean and standard deviation over nodes of each of the d node features:
    for one-hot labels, how often each label occurs.
    """
    vectors = np.empty((len(graphs), len(STATISTICS) + 3 * graphs.n_features))
    for index in graphs.batch_indices(BATCH) if len(graphs) else []:
        batch = graphs.batch(index)
        vectors[index] = torch.cat([_structure(batch), _node_features(batch)], 1).numpy()
    return vectors


def _structure(batch: GraphBatch) -> Tensor:
    weights, edges = batch.adj.double(), batch.edges.double()
    nodes, mask = batch.n_nodes.double(), batch.mask.double()
    degree = edges.sum(2)
    n_edges = degree.sum(1) / 2
    degree_mean, degree_std = _moments(degree.unsqueeze(-1), mask)
    strength_mean, strength_std = _moments(weights.sum(2, keepdim=True), mask)
    total = (2 * n_edges).clamp(min=1)
    weight_mean = weights.sum((1, 2)) / total
    weight_std = (weights.square().sum((1, 2)) / total - weight_mean.square()).clamp(min=0).sqrt()
    paths = _two_steps(edges)
    corners = (paths * edges).sum(2)  # twice the triangles at each node
    clustering = corners / (degree * (degree - 1)).clamp(min=1)
    walks = paths.square().sum((1, 2))  # closed, four steps; those that visit fewer than four nodes go
    squares = (walks - 2 * degree.square().sum(1) + 2 * n_edges) / 8
    columns = [
        nodes,
        n_edges,
        n_edges / (nodes * (nodes - 1) / 2).clamp(min=1),
        degree_mean.squeeze(1),
        degree_std.squeeze(1),
        degree.amax(1),
        ((degree == 1) * mask).sum(1) / nodes,
        ((degree == 0) * mask).sum(1) / nodes,
        strength_mean.squeeze(1),
        strength_std.squeeze(1),
        weight_mean,
        weight_std,
        corners.sum(1) / 6,
        clustering.sum(1) / nodes,
        squares,
    ]
    return torch.stack(columns, 1)


def _two_steps(edges: Tensor) -> Tensor:
    """(b, n, n) number of walks of two steps between nodes: whole numbers, hence exact either way."""
    if edges.shape[1] < LARGE or edges.mean() > SPARSE:
        return edges @ edges
    return torch.stack([torch.sparse.mm(one.to_sparse(), one) for one in edges])


def _node_features(batch: GraphBatch) -> Tensor:
    x, mask = batch.x.double(), batch.mask.double()
    mean, std = _moments(x, mask)
    return torch.cat([(x * mask.unsqueeze(-1)).sum(1), mean, std], 1)


def _moments(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over the real nodes, (b, n, d) → two (b, d)."""
    mask, count = mask.unsqueeze(-1), mask.sum(1, keepdim=True)
    mean = (x * mask).sum(1) / count
    return mean, (((x - mean.unsqueeze(1)) * mask).square().sum(1) / count).sqrt()
