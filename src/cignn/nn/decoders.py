"""The decoder θ1: node features and adjacency back from the latents, paper eq. (4)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class InnerProduct(nn.Module):
    """Edge logits from an inner product of node vectors: g · (W z_i)ᵀ(W z_j) / √d + b.

    With ``projected=False`` W is the identity and nothing is divided, g = 1 and b = 0 at the start: the
    paper's decoder. A projection of its own lets two inner products read one latent without fighting
    over it.
    """

    def __init__(self, n_in: int, projected: bool = True) -> None:
        super().__init__()
        self.projection = nn.Linear(n_in, n_in, bias=False) if projected else None
        self.scale = 1 / math.sqrt(n_in) if projected else 1.0
        self.gain = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(()))
        self.bounded = False

    def forward(self, z: Tensor) -> Tensor:
        """z : (b, n, d) → symmetric logits (b, n, n)."""
        if self.projection is not None:
            z = self.projection(z)
            if self.bounded:
                z = z * torch.rsqrt(z.shape[-1] + z.square().sum(-1, keepdim=True))
                return torch.baddbmm(self.bias, z * self.gain, z.transpose(1, 2))
        return torch.baddbmm(self.bias, z * (self.gain * self.scale), z.transpose(1, 2))


class FeatureDecoder(nn.Sequential):
    """X̂ = MLP(Z), one hidden layer: (b, n, d_latent) → (b, n, d)."""

    def __init__(self, n_latent: int, n_features: int, hidden: int = 16) -> None:
        super().__init__(nn.Linear(n_latent, hidden), nn.ReLU(), nn.Linear(hidden, n_features))
