"""GCN, GAT and GIN as classifiers of whole graphs."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from cignn.graphs import GraphBatch
from cignn.nn.classifier import GraphNetwork
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
