"""Inner-product decoders of edges, and the decoder θ1 of node features, paper eq. (4)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

GAIN = 4.0  # of a projected product at the start: neighbours, who are alike, begin near probability 0.9
LIMIT = 4.0  # |logit| of a projected product stays below: probabilities between 0.018 and 0.982


class InnerProduct(nn.Module):
    """Edge logits from an inner product of node vectors, linear in it: g · z_iᵀz_j + b, g and b learned.

    With ``projected`` the vectors are first mapped, u = Wz / √(d + |Wz|²), so that two inner products can
    read one latent without fighting over it and a node can take part in few edges by a short u; the logits
    are softly held within ±LIMIT, because the gradient of a saturated edge vanishes and it could never be
    given up. Without, g = 1 and b = 0 at the start: the paper's decoder.
    """

    def __init__(self, n_in: int, projected: bool = True) -> None:
        super().__init__()
        self.projection = nn.Linear(n_in, n_in, bias=False) if projected else None
        self.gain = nn.Parameter(torch.tensor(GAIN if projected else 1.0))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, z: Tensor) -> Tensor:
        """z : (b, n, d) → symmetric logits (b, n, n)."""
        if self.projection is None:
            return torch.baddbmm(self.bias, z * self.gain, z.transpose(1, 2))
        u = self.projection(z)
        u = u * torch.rsqrt(u.shape[-1] + u.square().sum(-1, keepdim=True))
        logits = torch.baddbmm(self.bias / LIMIT, u * (self.gain / LIMIT), u.transpose(1, 2))
        return LIMIT * torch.tanh(logits)


class FeatureDecoder(nn.Sequential):
    """X̂ = MLP(Z), one hidden layer: (b, n, d_latent) → (b, n, d)."""

    def __init__(self, n_latent: int, n_features: int, hidden: int = 16) -> None:
        super().__init__(nn.Linear(n_latent, hidden), nn.ReLU(), nn.Linear(hidden, n_features))
