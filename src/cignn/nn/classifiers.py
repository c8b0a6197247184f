"""The classifiers of the masked graph: a GNN with a head, or an MLP over the edges of aligned graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.nn.layers import LAYERS, READOUTS, Pairs
from cignn.nn.model import GraphModel, GraphOutput, Losses


class GNN(GraphModel):
    """A `GraphNetwork` behind the questions of a `GraphModel`."""

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        kind: str = "gin",
        hidden: Sequence[int] = (128, 128, 128),
        head: Sequence[int] = (64, 32),
        readout: str = "sum",
        dropout: float = 0.5,
        density: float | None = None,
    ) -> None:
        super().__init__(n_features, n_classes, density)
        self.classifier = GraphNetwork(n_features, n_classes, kind, hidden, head, readout, dropout)

    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> GraphOutput:
        """Classify a batch."""
        adj = self.adjacency(batch, edge_weights)
        return GraphOutput(self.classifier(self.features(batch), adj, batch.padding))

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Node embeddings of the last layer, (b, n, d)."""
        adj = self.adjacency(batch, edge_weights)
        return self.classifier.embed(self.features(batch), adj, batch.padding)

    def losses(self, batch: GraphBatch) -> Losses:
        """Return the cross-entropy alone."""
        return {"classification": self.cross_entropy(self.read(batch), batch)}


class GraphNetwork(nn.Module):
    """GNN layers, a readout and an MLP head; the paper's [128, 128, 128, 64, 32, classes]."""

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        kind: str = "gin",
        hidden: Sequence[int] = (128, 128, 128),
        head: Sequence[int] = (64, 32),
        readout: str = "sum",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden]
        self.layers = nn.ModuleList(LAYERS[kind](a, b) for a, b in pairwise(sizes))
        self.readout = READOUTS[readout]
        widths = [sizes[-1], *head, n_classes]
        self.head = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = dropout

    def embed(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Node embeddings of the last layer, (b, n, d)."""
        for layer in self.layers:
            x = torch.relu(layer(x, adj, mask))
        return x

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Class logits, (b, classes)."""
        return self.decide(self.pool(x, adj, mask))

    def pool(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Graph embeddings, (b, d)."""
        return self.readout(self.embed(x, adj, mask), mask)

    def decide(self, h: Tensor) -> Tensor:
        """Class logits (b, classes) of graph embeddings (b, d)."""
        for linear in self.head[:-1]:
            h = F.dropout(torch.relu(linear(h)), self.dropout, self.training)
        return self.head[-1](h)


class EdgeNetwork(nn.Module):
    """An MLP on the upper triangle of the edge matrix: every pair of nodes has weights of its own.

    It forgets nothing by pooling over nodes, and needs node i to be the same thing in every graph.
    """

    def __init__(
        self, n_nodes: int, n_classes: int, hidden: Sequence[int] = (64,), dropout: float = 0.5
    ) -> None:
        super().__init__()
        widths = [n_nodes * (n_nodes - 1) // 2, *hidden, n_classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = dropout
        self.pairs = Pairs(n_nodes)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Class logits (b, classes) of edge values, (b, n, n) or each once; the rest does not matter."""
        h = adj if adj.dim() == 2 else self.pairs.of(adj)
        for linear in self.layers[:-1]:
            h = F.dropout(torch.relu(linear(h)), self.dropout, self.training)
        return self.layers[-1](h)
