"""The GraphVAE: encoder of a graph into α and β, decoders of both into the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.nn.layers import LAYERS, Pairs, strongest_edges

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "sigmoid": torch.sigmoid}


class Latent(NamedTuple):
    """Mean and log standard deviation of every node's latent, both (b, n, d)."""

    mean: Tensor
    log_std: Tensor

    def sample(self) -> Tensor:
        """One reparametrised draw, (b, n, d)."""
        return torch.addcmul(self.mean, self.log_std.exp(), torch.randn_like(self.mean))

    def kl(self) -> Tensor:
        """KL(q(Z) ‖ N(0, I)) in nats of every entry, (b, n, d)."""
        return 0.5 * (self.mean.square() + (2 * self.log_std).exp() - 1) - self.log_std


class GraphEncoder(nn.Module):
    """A GNN with two heads, mean and log σ, each one more layer (GCN) or a linear map (GIN).

    n_latent = K + L. ``density`` keeps only the strongest edges of its input: on a complete graph every
    node would otherwise get the same embedding. ``n_nodes``, for aligned graphs, adds to every node's mean a
    learned vector of its own. ``initial_noise`` is about what σ is at the start.
    """

    def __init__(
        self,
        n_features: int,
        n_latent: int,
        hidden: Sequence[int] = (128,),
        kind: str = "gcn",
        activation: str = "relu",
        density: float | None = None,
        n_nodes: int | None = None,
        initial_noise: float = 1.0,
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden]
        self.layers = nn.ModuleList(LAYERS[kind](a, b) for a, b in pairwise(sizes))
        head = LAYERS["gcn"] if kind == "gcn" else nn.Linear
        self.mean = head(sizes[-1], n_latent)
        self.log_std = head(sizes[-1], n_latent)
        self.noise_offset = math.log(initial_noise)
        self.activation = ACTIVATIONS[activation]
        self.density = density
        self.node_vectors = None if n_nodes is None else nn.Parameter(torch.randn(n_nodes, n_latent))

    def embed(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Node embeddings before the heads, (b, n, d); x : (b, n, d_in), adj : (b, n, n)."""
        for layer in self.layers:
            x = self.activation(layer(x, adj, mask))
        return x

    def forward(
        self, x: Tensor, adj: Tensor, mask: Tensor | None = None, threshold: Tensor | None = None
    ) -> Latent:
        """Return the latent Gaussian of every node; threshold as in `strongest_edges`."""
        if self.density is not None:
            adj = strongest_edges(adj, self.density, mask, threshold)
        return self.heads(self.embed(x, adj, mask), adj, mask)

    def heads(self, h: Tensor, adj: Tensor, mask: Tensor | None = None) -> Latent:
        """Return mean and log σ from node embeddings."""
        mean, log_std = (
            head(h) if isinstance(head, nn.Linear) else head(h, adj, mask)
            for head in (self.mean, self.log_std)
        )
        if self.node_vectors is not None:
            mean.add_(self.node_vectors)
        # a clamp with a faster gradient
        return Latent(mean, F.hardtanh_(log_std.add_(self.noise_offset), -10, 5))


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


def _shortened(z: Tensor, short: bool) -> tuple[Tensor, Tensor]:
    """u = z / √(d + |z|²), (b, n, d), and that factor, (b, n, 1); without ``short``, z itself and 1."""
    if not short:
        return z, z.new_ones(())
    factor = torch.rsqrt(z.shape[-1] + torch.linalg.vector_norm(z, dim=-1, keepdim=True).square())
    return z * factor, factor


def _back(both: Tensor, u: Tensor, factor: Tensor, gain: Tensor, short: bool) -> tuple[Tensor, Tensor]:
    """Gradients of the z of u = `_shortened` z and of the gain, where logits are gain · uuᵀ + bias.

    both : (G + Gᵀ) u, G the gradient of the logits; it is written over.
    """
    along = (both * u).sum(-1, keepdim=True)
    if short:  # of z · factor: factor · (g - u (uᵀg))
        both.addcmul_(u, along, value=-1)
    return both.mul_(factor * gain), along.sum() / 2


class _PairProduct(torch.autograd.Function):
    """The upper triangle of a `_SymmetricProduct`. Its gradient never makes an asymmetric matrix."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, short: bool, gain: Tensor, bias: Tensor, pairs: Pairs) -> Tensor:
        u, factor = _shortened(z, short)
        ctx.save_for_backward(u, factor, gain)
        ctx.short, ctx.pairs = short, pairs
        return torch.addcmul(bias, pairs.of(torch.bmm(u, u.transpose(1, 2))), gain)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        u, factor, gain = ctx.saved_tensors
        both = torch.bmm(ctx.pairs.matrix(grad), u)
        by_z, by_gain = _back(both, u, factor, gain, ctx.short)
        return by_z, None, by_gain, grad.sum(), None


class _EdgeDistance(torch.autograd.Function):
    """‖σ(g · u_iᵀu_j + b) − E‖_F of each graph, (b,). E is symmetric, hence the gradient: one product."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, short: bool, gain: Tensor, bias: Tensor, edges: Tensor, mask: Tensor | None
    ) -> Tensor:
        u, factor = _shortened(z, short)
        prob = torch.baddbmm(bias, u * gain, u.transpose(1, 2)).sigmoid_()
        difference = prob - edges
        if mask is not None:
            nodes = mask.to(u.dtype)
            difference.mul_(nodes.unsqueeze(2)).mul_(nodes.unsqueeze(1))
        distance = torch.linalg.vector_norm(difference, dim=(1, 2))
        ctx.save_for_backward(u, factor, gain, prob, difference, distance)
        ctx.short = short
        return distance

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None, None]:
        u, factor, gain, prob, difference, distance = ctx.saved_tensors
        scale = inverse(distance) * grad
        slope = difference * prob
        slope.addcmul_(slope, prob, value=-1)  # difference · p (1 − p)
        by_bias = slope.sum((1, 2)) @ scale
        both = torch.bmm(slope, u * (2 * scale)[:, None, None])
        by_z, by_gain = _back(both, u, factor, gain, ctx.short)
        return by_z, None, by_gain, by_bias, None, None


class _LinearDistance(torch.autograd.Function):
    """‖X − (H Wᵀ + b)‖_F of each graph, (b,), padded nodes left out; few passes over what is as wide as X."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        difference = F.linear(h, weight, bias).sub_(x)
        if mask is not None:
            difference.mul_(mask.unsqueeze(-1).to(h.dtype))
        distance = torch.linalg.vector_norm(difference, dim=(1, 2))
        ctx.save_for_backward(h, weight, difference, distance)
        return distance

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        h, weight, difference, distance = ctx.saved_tensors
        scale = (inverse(distance) * grad)[:, None, None]
        flat = difference.flatten(0, 1)
        by_h = (difference @ weight).mul_(scale)
        by_weight = flat.t() @ (h * scale).flatten(0, 1)
        return by_h, by_weight, scale.expand(-1, h.shape[1], 1).reshape(-1) @ flat, None, None


def inverse(norm: Tensor) -> Tensor:
    """1 / norm, and 0 where that is 0: a norm is given no gradient there."""
    return torch.where(norm > 0, 1 / norm, 0.0)


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
        z, short = self._projected(z)
        if short:
            z = z * torch.rsqrt(z.shape[-1] + z.square().sum(-1, keepdim=True))
        return _SymmetricProduct.apply(z, self.gain, self.bias)

    def _projected(self, z: Parts) -> tuple[Tensor, bool]:
        """Return Wz and that it has to be shortened, or z and that it has not."""
        if self.projection is not None:
            return linear_of(self.projection, z), True
        return z if isinstance(z, Tensor) else torch.cat(z, -1), False

    def of_pairs(self, z: Tensor, pairs: Pairs) -> Tensor:
        """Return the logits of each pair of nodes once: z : (b, n, d) → (b, n (n - 1) / 2)."""
        return _PairProduct.apply(*self._projected(z), self.gain, self.bias, pairs)

    def of_affine(self, h: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
        """Return the logits of z = h Wᵀ + c, (b, n, n), without making z.

        h : (b, n, m); weight W : (d, m); offset c : (n, d) or (1, d). Where m is small against d, the inner
        products come from those of h: z_iᵀz_j = h_iᵀ(WᵀW)h_j + (Wᵀc_i)ᵀh_j + h_iᵀ(Wᵀc_j) + c_iᵀc_j.
        """
        if self.projection is not None:
            weight, offset = self.projection.weight @ weight, self.projection(offset)
        size, width = weight.shape
        offset = offset.expand(h.shape[1], size)
        if 2 * width >= size:
            z = F.linear(h, weight) + offset
            product = torch.bmm(z, z.transpose(1, 2))
        else:
            seen = (offset @ weight).expand_as(h)
            left = torch.cat([h @ (weight.t() @ weight) + seen, h], -1)
            product = torch.baddbmm(offset @ offset.t(), left, torch.cat([h, seen], -1).transpose(1, 2))
        if self.projection is not None:  # shorten z
            factor = torch.rsqrt(size + product.diagonal(dim1=1, dim2=2).clamp(min=0))
            product.mul_(factor.unsqueeze(1)).mul_((factor * self.gain).unsqueeze(2))
            return product.add_(self.bias)
        return product.mul_(self.gain).add_(self.bias)

    def distance(self, z: Parts, edges: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return ‖Â − A‖_F of each graph, (b,): Â the probabilities of z : (b, n, d), A = edges : (b, n, n).

        mask : (b, n), True for real nodes, None when all are; other pairs do not count.
        """
        return _EdgeDistance.apply(*self._projected(z), self.gain, self.bias, edges, mask)


class FeatureDecoder(nn.Sequential):
    """X̂ = MLP(Z), one hidden layer: (b, n, d_latent) → (b, n, d)."""

    def __init__(self, n_latent: int, n_features: int, hidden: int = 16) -> None:
        super().__init__(nn.Linear(n_latent, hidden), nn.ReLU(), nn.Linear(hidden, n_features))

    def forward(self, z: Parts) -> Tensor:
        """Return X̂."""
        return self[2](self._hidden(z))

    def distance(self, z: Parts, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return ‖X̂ − X‖_F of each graph, (b,); x : (b, n, d); mask : (b, n), True for real nodes."""
        last = self[2]
        return _LinearDistance.apply(self._hidden(z), last.weight, last.bias, x, mask)

    def _hidden(self, z: Parts) -> Tensor:
        first = self[0]
        assert isinstance(first, nn.Linear)
        return torch.relu_(linear_of(first, z))
