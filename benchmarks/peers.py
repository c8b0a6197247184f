"""The peer: PyTorch Geometric's plain three-layer GIN with the head of our classifier."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import global_add_pool
from torch_geometric.nn.models import GIN


class PygGIN(nn.Module):
    """GIN, sum over nodes, MLP head. It reads no edge weights; CI-GNN does."""

    def __init__(
        self, n_features: int, n_classes: int, width: int, head: Sequence[int], dropout: float
    ) -> None:
        super().__init__()
        self.gin = GIN(in_channels=n_features, hidden_channels=width, num_layers=3)
        hidden = [
            layer
            for a, b in pairwise([width, *head])
            for layer in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(dropout))
        ]
        self.head = nn.Sequential(*hidden, nn.Linear(head[-1], n_classes))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, size: int = 1) -> Tensor:
        """Class logits, (size, classes)."""
        h = self.gin(x, edge_index)
        batch = torch.zeros(len(x), dtype=torch.long, device=x.device) if batch is None else batch
        return self.head(global_add_pool(h, batch, size))
