"""Several networks, trained apart, that answer as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cignn.graphs import GraphBatch
from cignn.nn.model import Explained, GraphModel


class CommitteeOutput(NamedTuple):
    """What the members say together.

    logits : (b, classes), the logarithm of their mean probabilities; edge_weights : (b, n, n), the mean of
    their edge weights, or None where they give none.
    """

    logits: Tensor
    edge_weights: Tensor | None


class Committee(nn.Module):
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
