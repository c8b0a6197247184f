"""`GraphModel`: what every network behind an estimator can be asked; explainers need to know only this.

==========================================  =============================================================
``network(batch)``                          an output with ``.logits`` (b, classes)
``network.read(batch, edge_weights)``       logits of the graphs with their edges weighted, differentiable
``network.embed(batch, edge_weights)``      (b, n, d) embeddings of the nodes, zero at padded ones
==========================================  =============================================================
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch

Losses = dict[str, Tensor]


class GraphOutput(NamedTuple):
    """What one pass gives: logits : (b, classes)."""

    logits: Tensor


class GraphModel(nn.Module):
    """A network from a `GraphBatch` to class logits, with the facts of its training set as buffers."""

    feature_scale: Tensor  # (d,) what node features are divided by
    class_weight: Tensor  # (classes,)
    class_share: Tensor  # (classes,) of the training labels, weighted
    label_entropy: Tensor  # () nats, of the training labels

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.register_buffer("feature_scale", torch.ones(n_features))
        self.register_buffer("class_weight", torch.ones(n_classes))
        self.register_buffer("class_share", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("label_entropy", torch.tensor(float(n_classes)).log())

    @abstractmethod
    def forward(self, batch: GraphBatch) -> Any:
        """Classify a batch: something with ``.logits`` (b, classes)."""

    def read(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Class logits (b, classes) of the graphs with every edge multiplied by its weight.

        edge_weights : (b, n, n), symmetric, usually in [0, 1]: 1 leaves an edge as it is, 0 removes it; what
        stands where no edge is does not matter. None reads the graphs as they are. Differentiable in
        ``edge_weights``; node features stay as they are.
        """
        return self(weighted(batch, edge_weights)).logits

    @abstractmethod
    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Node embeddings (b, n, d) the logits are made of; edge_weights as in `read`."""

    def features(self, batch: GraphBatch) -> Tensor:
        """(b, n, d) node features, each divided by its largest size in the training graphs."""
        return batch.x / self.feature_scale

    def cross_entropy(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Cross-entropy with the labels of the batch, classes weighted."""
        assert batch.y is not None
        return F.cross_entropy(logits, batch.y, self.class_weight)


def weighted(batch: GraphBatch, edge_weights: Tensor | None) -> GraphBatch:
    """Return the batch with every edge multiplied by its weight, (b, n, n); None leaves it as it is."""
    return batch if edge_weights is None else replace(batch, adj=batch.adj * edge_weights)
