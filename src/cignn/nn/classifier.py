"""The base classifier ϕ: a weighted graph to class logits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.nn.layers import LAYERS, READOUTS


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
