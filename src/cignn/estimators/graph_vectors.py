"""`GraphVectors`: one vector per graph, for classifiers that read rows of numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cignn._arrays import upper_pairs, upper_triangle
from cignn._checks import choice
from cignn.estimators.graph_estimator import check_features, check_graphs, check_nodes, size_of
from cignn.graphs import GraphBatch, GraphSet

FEATURES = ("connectivity", "statistics")
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


class GraphVectors(TransformerMixin, BaseEstimator):
    """Turn each graph into one vector.

    With it any classifier of scikit-learn classifies graphs:
    ``make_pipeline(GraphVectors(), StandardScaler(), SVC())``.

    Parameters
    ----------
    features : {"auto", "connectivity", "statistics"}, default="auto"
        "connectivity" takes the edge weights above the diagonal, for aligned graphs. "statistics" takes
        numbers that do not depend on the order of the nodes: counts of nodes, edges, triangles and squares,
        moments of degrees and weights, and sum, mean and standard deviation of every node feature.
        "auto" takes connectivity where the graphs are aligned and statistics elsewhere.

    Attributes
    ----------
    features_ : str
        What was taken: "connectivity" or "statistics".
    n_features_in_ : int
        Number of node features.
    n_nodes_ : int or None
        Number of nodes of aligned graphs.
    node_names_ : list of str or None
        Names of the nodes.
    feature_names_ : list of str or None
        Names of the node features.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import GraphSet
    >>> from cignn.estimators import GraphVectors
    >>> matrix = np.array([[0, 1, 2], [1, 0, -3], [2, -3, 0]])
    >>> graphs = GraphSet.from_arrays(np.stack([matrix, 2 * matrix]), aligned=True)
    >>> vectors = GraphVectors().fit(graphs)
    >>> vectors.transform(graphs)
    array([[ 1.,  2., -3.],
           [ 2.,  4., -6.]], dtype=float32)
    >>> vectors.get_feature_names_out()
    array(['0 - 1', '0 - 2', '1 - 2'], dtype=object)
    """

    def __init__(self, features: str = "auto") -> None:
        self.features = features

    def fit(self, X: GraphSet, y: Any = None) -> Self:
        """Choose what to take from the graphs.

        Parameters
        ----------
        X : GraphSet
            Graphs.
        y : None
            Not used.

        Returns
        -------
        GraphVectors
            The fitted transformer.
        """
        check_graphs(X)
        features = choice("features", self.features, ("auto", *FEATURES))
        if features == "auto":
            features = "connectivity" if X.aligned else "statistics"
        if features == "connectivity" and (size_of(X) or 0) < 2:
            raise ValueError(
                'features="connectivity" needs aligned graphs of two nodes or more; use "statistics".'
            )
        self.features_ = features
        self.n_features_in_ = X.n_features
        self.n_nodes_ = size_of(X)
        self.node_names_ = X.node_names
        self.feature_names_ = X.feature_names
        return self

    def transform(self, X: GraphSet) -> np.ndarray:
        """Return the vectors of graphs.

        Parameters
        ----------
        X : GraphSet
            Graphs of the same kind as those of `fit`.

        Returns
        -------
        ndarray of shape (g, features)
            One row per graph.
        """
        check_is_fitted(self)
        check_graphs(X)
        if self.features_ == "connectivity":
            check_nodes("GraphVectors", X, self.n_nodes_, self.node_names_)
            return connectivity_vector(X, self.n_nodes_ or 0)
        X = X.with_features(self.feature_names_)
        check_features("GraphVectors", X, self.n_features_in_)
        return graph_statistics(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for every column.

        Parameters
        ----------
        input_features : None
            Not used: the names are those of the nodes and node features of `fit`.

        Returns
        -------
        ndarray of shape (features,)
            Pairs of nodes, or statistics.
        """
        check_is_fitted(self)
        if self.features_ == "connectivity":
            n = self.n_nodes_ or 0
            names = self.node_names_ or [str(i) for i in range(n)]
            return np.array([f"{names[i]} - {names[j]}" for i, j in upper_pairs(n)], object)
        features = self.feature_names_ or [f"feature {i}" for i in range(self.n_features_in_)]
        moments = [f"{name} {moment}" for moment in ("sum", "mean", "std") for name in features]
        return np.array([*STATISTICS, *moments], object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True  # of arrays: it reads graphs
        return tags


def connectivity_vector(graphs: GraphSet, n: int) -> np.ndarray:
    """(g, n(n-1)/2) the weights above the diagonal of aligned graphs of n nodes, row by row."""
    vectors = np.empty((len(graphs), n * (n - 1) // 2), np.float32)
    for start in range(0, len(graphs), BATCH):
        index = np.arange(start, min(start + BATCH, len(graphs)))
        vectors[index] = upper_triangle(graphs.batch(index).adj.numpy())
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
