"""Inner-product decoders of edges, and the decoder θ1 of node features, paper eq. (4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cignn.nn.pairs import Pairs

Parts = Tensor | tuple[Tensor, ...]  # vectors (b, n, d), or pieces that make them side by side

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


class _PairProduct(torch.autograd.Function):
    """The upper triangle of a `_SymmetricProduct`. Its gradient never makes an asymmetric matrix."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, gain: Tensor, bias: Tensor, pairs: Pairs) -> Tensor:
        ctx.save_for_backward(u, gain)
        ctx.pairs = pairs
        return pairs.of(torch.bmm(u * gain, u.transpose(1, 2))).add_(bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        u, gain = ctx.saved_tensors
        both = torch.bmm(ctx.pairs.matrix(grad), u)
        return both * gain, (both * u).sum() / 2, grad.sum(), None


class _EdgeDistance(torch.autograd.Function):
    """‖σ(g · u_iᵀu_j + b) − E‖_F of each graph, (b,). E is symmetric, hence the gradient: one product."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, gain: Tensor, bias: Tensor, edges: Tensor, mask: Tensor | None
    ) -> Tensor:
        prob = torch.baddbmm(bias, u * gain, u.transpose(1, 2)).sigmoid_()
        difference = prob - edges
        if mask is not None:
            nodes = mask.to(u.dtype)
            difference.mul_(nodes.unsqueeze(2)).mul_(nodes.unsqueeze(1))
        distance = torch.linalg.vector_norm(difference, dim=(1, 2))
        ctx.save_for_backward(u, gain, prob, difference, distance)
        return distance

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        u, gain, prob, difference, distance = ctx.saved_tensors
        scale = torch.where(distance > 0, grad / distance, 0.0)[:, None, None]  # at 0 a norm has no gradient
        slope = difference * prob
        slope.addcmul_(slope, prob, value=-1)  # difference · p (1 − p)
        half = torch.bmm(slope, u * scale)
        by_bias = slope.sum((1, 2)) @ scale.flatten()
        return half * (2 * gain), (half * u).sum(), by_bias, None, None


def linear_of(linear: nn.Linear, z: Parts) -> Tensor:
    """Map vectors in pieces, (b, n, d) in all, without joining them: a fixed piece costs no gradient."""
    if isinstance(z, Tensor):
        return linear(z)
    out, start = None, 0
    for part in z:
        weight = linear.weight[:, start : start + part.shape[-1]].t()
        flat = part.flatten(0, 1)
        if out is None:
            out = torch.mm(flat, weight) if linear.bias is None else torch.addmm(linear.bias, flat, weight)
        else:
            out = torch.addmm(out, flat, weight)
        start += part.shape[-1]
    assert out is not None and start == linear.in_features
    return out.view(*z[0].shape[:2], -1)


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
        return _SymmetricProduct.apply(self.vectors(z), self.gain, self.bias)

    def vectors(self, z: Parts) -> Tensor:
        """Return u, of which the logits are the inner products: (b, n, d) → (b, n, d)."""
        if self.projection is None:
            return z if isinstance(z, Tensor) else torch.cat(z, -1)
        z = linear_of(self.projection, z)
        return z * torch.rsqrt(z.shape[-1] + z.square().sum(-1, keepdim=True))

    def of_pairs(self, z: Tensor, pairs: Pairs) -> Tensor:
        """Return the logits of each pair of nodes once: z : (b, n, d) → (b, n (n - 1) / 2)."""
        return _PairProduct.apply(self.vectors(z), self.gain, self.bias, pairs)

    def distance(self, z: Parts, edges: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return ‖Â − A‖_F of each graph, (b,): Â the probabilities of z : (b, n, d), A = edges : (b, n, n).

        mask : (b, n), True for real nodes, None when all are; other pairs do not count.
        """
        return _EdgeDistance.apply(self.vectors(z), self.gain, self.bias, edges, mask)


class FeatureDecoder(nn.Sequential):
    """X̂ = MLP(Z), one hidden layer: (b, n, d_latent) → (b, n, d)."""

    def __init__(self, n_latent: int, n_features: int, hidden: int = 16) -> None:
        super().__init__(nn.Linear(n_latent, hidden), nn.ReLU(), nn.Linear(hidden, n_features))

    def forward(self, z: Parts) -> Tensor:
        """Return X̂."""
        first, _, second = self
        assert isinstance(first, nn.Linear)
        return second(torch.relu_(linear_of(first, z)))
