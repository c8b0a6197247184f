"""Inner-product decoders of edges, and the decoder θ1 of node features, paper eq. (4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

GAIN = 4.0  # of a projected product at the start: neighbours, who are alike, begin near probability 0.9


class _SymmetricProduct(torch.autograd.Function):
    """g · u_iᵀu_j + b. Its gradient takes one product; autograd, blind to the symmetry, makes two."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(u, gain)
        return torch.baddbmm(bias, u * gain, u.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, gain = ctx.saved_tensors
        both = torch.bmm(grad + grad.transpose(1, 2), u)
        return both * gain, (both * u).sum() / 2, grad.sum()


class InnerProduct(nn.Module):
    """Edge logits from an inner product of node vectors, linear in it: g · z_iᵀz_j + b, g and b learned.

    With ``projected`` the vectors are first mapped, u = Wz / √(d + |Wz|²), so that two inner products can
    read one latent without fighting over it, and a node stays out of the subgraph by a short u; the logits
    of large graphs stay moderate because |u| < 1. Without, g = 1 and b = 0 at the start, the paper's decoder,
    and for ever where they are not ``learned``.
    """

    def __init__(self, n_in: int, projected: bool = True, learned: bool = True) -> None:
        super().__init__()
        self.projection = nn.Linear(n_in, n_in, bias=False) if projected else None
        self.gain = nn.Parameter(torch.tensor(GAIN if projected else 1.0), requires_grad=learned)
        self.bias = nn.Parameter(torch.zeros(()), requires_grad=learned)

    def forward(self, z: Tensor) -> Tensor:
        """z : (b, n, d) → symmetric logits (b, n, n)."""
        if self.projection is not None:
            z = self.projection(z)
            z = z * torch.rsqrt(z.shape[-1] + z.square().sum(-1, keepdim=True))
        return _SymmetricProduct.apply(z, self.gain, self.bias)


class FeatureDecoder(nn.Sequential):
    """X̂ = MLP(Z), one hidden layer: (b, n, d_latent) → (b, n, d)."""

    def __init__(self, n_latent: int, n_features: int, hidden: int = 16) -> None:
        super().__init__(nn.Linear(n_latent, hidden), nn.ReLU(), nn.Linear(hidden, n_features))
