"""`GraphModel`: what every network behind an estimator can be asked; explainers need to know only this.

==========================================  =============================================================
``network(batch, edge_weights)``            an output with ``.logits`` (b, classes)
``network.read(batch, edge_weights)``       logits of the graphs with their edges weighted, differentiable
``network.embed(batch, edge_weights)``      (b, n, d) embeddings of the nodes, zero at padded ones
``network.explain(batch)``                  logits and, where the network weights edges, their weights
==========================================  =============================================================
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.nn.layers import strongest_edges

Losses = dict[str, Tensor]


class GraphOutput(NamedTuple):
    """What one pass gives: logits : (b, classes)."""

    logits: Tensor


class Explained(NamedTuple):
    """How a batch is classified and by which edges.

    logits : (b, classes); edge_weights : in [0, 1], (b, n, n), or of each pair of nodes once, (b, pairs) in
    the order of the upper triangle; what stands where no edge is does not matter.
    """

    logits: Tensor
    edge_weights: Tensor


class GraphModel(nn.Module):
    """A network from a `GraphBatch` to class logits, with the facts of its training set as buffers.

    ``density`` keeps only the strongest edges of its input: on a complete graph every node would otherwise
    get nearly the same embedding. The strongest are chosen before edges are weighted.
    """

    feature_scale: Tensor  # (d,) what node features are divided by
    class_weight: Tensor  # (classes,)
    class_share: Tensor  # (classes,) of the training labels, weighted
    label_entropy: Tensor  # () nats, of the training labels

    def __init__(self, n_features: int, n_classes: int, density: float | None = None) -> None:
        super().__init__()
        self.density = density
        self.register_buffer("feature_scale", torch.ones(n_features))
        self.register_buffer("class_weight", torch.ones(n_classes))
        self.register_buffer("class_share", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("label_entropy", torch.tensor(float(n_classes)).log())

    @abstractmethod
    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Any:
        """Classify a batch: something with ``.logits`` (b, classes); edge_weights as in `read`."""

    def read(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Class logits (b, classes) of the graphs with every edge multiplied by its weight.

        edge_weights : (b, n, n), usually in [0, 1]: 1 leaves an edge as it is, 0 removes it; what stands
        where no edge is does not matter. Entry (i, j) weighs what goes from node j to node i; a network
        without directions takes the mean of both. None reads the graphs as they are. Differentiable in
        ``edge_weights``; node features stay as they are.
        """
        return self(batch, edge_weights).logits

    @abstractmethod
    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Node embeddings (b, n, d) the logits are made of; edge_weights as in `read`."""

    def explain(self, batch: GraphBatch) -> Explained:
        """Classify a batch and say by which edges; for networks that weight edges while they classify."""
        out = self(batch)
        return Explained(out.logits, out.edge_weights)

    def adjacency(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """(b, n, n) the edges the network looks at, weighted."""
        adj = batch.adj
        if self.density is not None:
            adj = strongest_edges(adj, self.density, batch.padding, batch.threshold(self.density))
        return adj if edge_weights is None else adj * edge_weights

    def features(self, batch: GraphBatch) -> Tensor:
        """(b, n, d) node features, each divided by its largest size in the training graphs."""
        return batch.x / self.feature_scale

    def cross_entropy(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Cross-entropy with the labels of the batch, classes weighted."""
        assert batch.y is not None
        return F.cross_entropy(logits, batch.y, self.class_weight)


class CommitteeOutput(NamedTuple):
    """What the members say together.

    logits : (b, classes), the logarithm of their mean probabilities; edge_weights : (b, n, n), the mean of
    their edge weights, or None where they give none.
    """

    logits: Tensor
    edge_weights: Tensor | None


class Ensemble(nn.Module):
    """The mean of its members' probabilities and edge weights: surer, and steadier from seed to seed."""

    def __init__(self, members: Iterable[GraphModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> CommitteeOutput:
        """Classify a batch; edge_weights as in `read`."""
        outs = [member(batch, edge_weights) for member in self.members]
        weights = [out.edge_weights for out in outs if getattr(out, "edge_weights", None) is not None]
        return CommitteeOutput(_together(outs), torch.stack(weights).mean(0) if weights else None)

    def explain(self, batch: GraphBatch) -> Explained:
        """Classify a batch and say by which edges; see `GraphModel.explain`."""
        outs = [member.explain(batch) for member in self.members]  # type: ignore[operator]
        weights = outs[0].edge_weights.clone()
        for out in outs[1:]:
            weights += out.edge_weights
        return Explained(_together(outs), weights.div_(len(outs)))

    def read(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Class logits (b, classes) of the graphs with their edges weighted; see `GraphModel.read`."""
        return self(batch, edge_weights).logits

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Node embeddings of all members side by side, (b, n, members · d)."""
        return torch.cat([member.embed(batch, edge_weights) for member in self.members], -1)  # type: ignore[operator]


def _together(outs: Iterable[Any]) -> Tensor:
    """The logarithm of the members' mean probabilities."""
    return torch.stack([torch.softmax(out.logits, 1) for out in outs]).mean(0).clamp(min=1e-12).log()
