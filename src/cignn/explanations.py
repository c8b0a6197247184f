"""`Explanations`: one weight in [0, 1] for every edge of every graph, however it was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from cignn.graphs import GraphSet

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation as PygExplanation


@dataclass(frozen=True)
class Explanation:
    """The explanation of one graph.

    edges : (e, 2), each undirected edge once; edge_weights : (e,) in [0, 1]; n_nodes : number of nodes;
    node_names : names of the nodes, or None; prediction : the class explained, or None.
    """

    edges: np.ndarray
    edge_weights: np.ndarray
    n_nodes: int
    node_names: Sequence[str] | None = None
    prediction: Any = None

    @cached_property
    def weights(self) -> np.ndarray:
        """(n, n) symmetric, zero where the graph has no edge."""
        dense = np.zeros((self.n_nodes, self.n_nodes), np.float32)
        source, target = self.edges.T
        dense[source, target] = dense[target, source] = self.edge_weights
        return dense

    def top_edges(self, k: int = 10) -> pd.DataFrame:
        """The k heaviest edges, heaviest first: source, target, weight."""
        order = np.argsort(-self.edge_weights, kind="stable")[: _positive(k)]
        names = np.arange(self.n_nodes) if self.node_names is None else np.asarray(self.node_names)
        source, target = names[self.edges[order].T]
        return pd.DataFrame({"source": source, "target": target, "weight": self.edge_weights[order]})


class Explanations:
    """Explanations of the graphs of a `GraphSet`, in their order.

    ``ex[i]`` is one `Explanation`; ``ex[mask]``, ``ex[[0, 2]]`` and ``ex[:10]`` are `Explanations`.

    Attributes
    ----------
    graphs : the graphs explained
    edge_weights : one array per graph, aligned with ``graphs.edges(i)``, in [0, 1]
    predictions : (g,) the class each explanation is for, or None
    """

    def __init__(
        self, graphs: GraphSet, edge_weights: Sequence[np.ndarray], predictions: np.ndarray | None = None
    ) -> None:
        if len(edge_weights) != len(graphs):
            raise ValueError(f"expected edge weights for {len(graphs)} graphs, got {len(edge_weights)}.")
        self.graphs = graphs
        self.edge_weights = [np.asarray(weights, np.float32) for weights in edge_weights]
        self.predictions = None if predictions is None else np.asarray(predictions)
        for i, weights in enumerate(self.edge_weights):
            if weights.shape != (graphs.n_edges[i],):
                raise ValueError(
                    f"graph {i} has {graphs.n_edges[i]} edges, got weights of shape {weights.shape}."
                )
            if weights.size and not (weights.min() >= 0 and weights.max() <= 1):
                raise ValueError(
                    f"edge weights must lie in [0, 1], graph {i} has {weights.min()} to {weights.max()}."
                )

    def __len__(self) -> int:
        return len(self.edge_weights)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            i = range(len(self))[key]
            return Explanation(
                self.graphs.edges(i),
                self.edge_weights[i],
                int(self.graphs.n_nodes[i]),
                self.graphs.node_names,
                None if self.predictions is None else self.predictions[i],
            )
        if not isinstance(key, slice):
            key = np.asarray(key)
            key = key if key.size else key.astype(int)  # an empty list picks no explanation
        index = np.arange(len(self))[key]
        return Explanations(
            self.graphs[index],
            [self.edge_weights[i] for i in index],
            None if self.predictions is None else self.predictions[index],
        )

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        mean = np.concatenate(self.edge_weights).mean() if len(self) else np.nan
        return f"Explanations({len(self)} graphs, mean edge weight {mean:.2f})"

    def top_edges(self, k: int = 10) -> pd.DataFrame:
        """The k heaviest edges of every graph: graph, source, target, weight."""
        tables = [ex.top_edges(k).assign(graph=i) for i, ex in enumerate(self)]
        columns = ["graph", "source", "target", "weight"]
        return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)

    def mean(self) -> Explanation:
        """The group's explanation: the mean weight of every edge over the graphs of an aligned set.

        A graph without the edge counts as weight 0.
        """
        if not self.graphs.aligned:
            raise ValueError("a group mean needs aligned graphs (node i the same in each); these are not.")
        if not len(self):
            raise ValueError("a group mean needs at least one explanation, got none.")
        n = int(self.graphs.n_nodes[0])
        total = np.zeros((n, n))
        for ex in self:
            total[ex.edges[:, 0], ex.edges[:, 1]] += ex.edge_weights
        edges = np.argwhere(total > 0)
        return Explanation(
            edges, (total[tuple(edges.T)] / len(self)).astype(np.float32), n, self.graphs.node_names
        )

    def to_pyg(self) -> list[PygExplanation]:
        """PyTorch Geometric explanations, with ``edge_mask`` on both directions of every edge."""
        from torch_geometric.explain import Explanation as PygExplanation

        out = []
        for data, ex in zip(self.graphs.to_pyg(), self, strict=True):
            mask = torch.from_numpy(np.tile(ex.edge_weights, 2))
            out.append(PygExplanation(edge_mask=mask, **data.to_dict()))
        return out


def _positive(k: int) -> int:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}.")
    return k
