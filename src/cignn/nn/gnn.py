"""GCN, GAT and GIN as classifiers of whole graphs."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from cignn.graphs import GraphBatch
from cignn.nn.classifier import GraphNetwork
from cignn.nn.encoder import strongest_edges
from cignn.nn.model import GraphModel, GraphOutput, Losses


class GNN(GraphModel):
    """A `GraphNetwork` behind the questions of a `GraphModel`.

    ``density`` keeps only the strongest edges of its input: on a complete graph every node would otherwise
    get nearly the same embedding. The strongest are chosen before edges are weighted.
    """

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
        super().__init__(n_features, n_classes)
        self.classifier = GraphNetwork(n_features, n_classes, kind, hidden, head, readout, dropout)
        self.density = density

    def forward(self, batch: GraphBatch) -> GraphOutput:
        """Classify a batch."""
        return GraphOutput(self.read(batch))

    def read(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Class logits (b, classes) of the graphs with their edges weighted."""
        return self.classifier(self.features(batch), self._adj(batch, edge_weights), batch.padding)

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Node embeddings of the last layer, (b, n, d)."""
        return self.classifier.embed(self.features(batch), self._adj(batch, edge_weights), batch.padding)

    def losses(self, batch: GraphBatch) -> Losses:
        """Return the cross-entropy alone."""
        return {"classification": self.cross_entropy(self.read(batch), batch)}

    def _adj(self, batch: GraphBatch, edge_weights: Tensor | None) -> Tensor:
        adj = batch.adj
        if self.density is not None:
            adj = strongest_edges(adj, self.density, batch.padding)
        return adj if edge_weights is None else adj * edge_weights
