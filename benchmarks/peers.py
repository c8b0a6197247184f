"""The peers: PyTorch Geometric's plain three-layer GIN with our classifier's head, and a twin of our GIN."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, global_add_pool
from torch_geometric.nn.models import GIN

from cignn.nn import GNN, GINLayer


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


class PygTwin(nn.Module):
    """A trained GIN of ours, weight for weight, in PyTorch Geometric: same logits on unweighted graphs."""

    def __init__(self, network: GNN) -> None:
        super().__init__()
        ours = network.classifier
        if not all(isinstance(layer, GINLayer) for layer in ours.layers) or network.density is not None:
            raise ValueError("only a GIN that looks at every edge has a twin.")
        self.register_buffer("feature_scale", network.feature_scale.clone())
        self.convs = nn.ModuleList(self._conv(layer) for layer in ours.layers)
        self.head = copy.deepcopy(ours.head)
        self.eval()

    @staticmethod
    def _conv(layer: GINLayer) -> GINConv:
        norms = [nn.BatchNorm1d(len(layer.norm.weight)) for _ in range(2)]
        first, second = copy.deepcopy(layer.first), copy.deepcopy(layer.second)
        mlp = nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1], nn.ReLU())
        conv = GINConv(mlp, train_eps=True)
        conv.eps.data.copy_(layer.eps.detach())  # GINConv draws all its weights anew: copy them afterwards
        for theirs, part in zip(
            conv.nn, (layer.first, layer.norm, None, layer.second, layer.out_norm, None), strict=True
        ):
            if part is not None:
                counted = {k: v for k, v in theirs.state_dict().items() if k == "num_batches_tracked"}
                theirs.load_state_dict(part.state_dict() | counted)
        return conv

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Node embeddings of the last layer, (nodes, d)."""
        x = x / self.feature_scale
        for conv in self.convs:
            x = conv(x, edge_index)
        return x

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, size: int = 1) -> Tensor:
        """Class logits, (size, classes)."""
        h = self.embed(x, edge_index)
        batch = torch.zeros(len(x), dtype=torch.long, device=x.device) if batch is None else batch
        h = global_add_pool(h, batch, size)
        for linear in self.head[:-1]:
            h = torch.relu(linear(h))
        return self.head[-1](h)
