"""A score for every edge from the embeddings of its two nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EdgeScorer(nn.Module):
    """MLP([h_i; h_j]), averaged over both orders of the nodes; computed on the edges alone."""

    def __init__(self, n_in: int, hidden: int = 64) -> None:
        super().__init__()
        self.source = nn.Linear(n_in, hidden)
        self.target = nn.Linear(n_in, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, edge_mask: Tensor) -> Tensor:
        """h : (b, n, d), edge_mask : (b, n, n) → symmetric logits (b, n, n), zero off the edges."""
        graph, i, j = edge_mask.triu(1).nonzero(as_tuple=True)
        source, target = self.source(h), self.target(h)  # the first map is linear: once per node
        forth = torch.relu(source[graph, i] + target[graph, j])
        back = torch.relu(source[graph, j] + target[graph, i])
        logits = self.out((forth + back) / 2).squeeze(-1)
        upper = logits.new_zeros(edge_mask.shape).index_put((graph, i, j), logits)
        return upper + upper.transpose(1, 2)
