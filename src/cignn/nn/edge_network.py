"""The base classifier of aligned graphs: it reads the masked connectivity edge by edge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.nn.pairs import Pairs


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
