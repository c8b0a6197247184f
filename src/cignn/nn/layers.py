"""Dense graph layers that take signed edge weights, and the readouts that pool nodes into a graph.

Every layer maps x : (b, n, d_in), adj : (b, n, n), mask : (b, n) or None (no padding) to (b, n, d_out) with
zeros at padded nodes, so that padding changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import weight_threshold


def zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Set padded nodes of x : (b, n, d) to zero."""
    return x if mask is None else x * mask.unsqueeze(-1).to(x.dtype)


class NodeNorm(nn.BatchNorm1d):
    """Batch normalisation over the real nodes of a batch."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x : (b, n, d), zero at padded nodes."""
        if mask is None and len(x) * x.shape[1] == 1:  # nn.BatchNorm1d refuses to train on a lone node
            mask = x.new_ones(1, 1, dtype=torch.bool)
        if mask is None or not self.training:
            return zero_padding(super().forward(x.flatten(0, 1)).view_as(x), mask)
        count = mask.sum()
        mean = x.sum((0, 1)) / count
        centred = zero_padding(x - mean, mask)
        var = centred.square().sum((0, 1)) / count
        with torch.no_grad():
            unbiased = var * count / (count - 1).clamp(min=1)
            self.running_mean.lerp_(mean, self.momentum)  # type: ignore[union-attr, arg-type]
            self.running_var.lerp_(unbiased, self.momentum)  # type: ignore[union-attr, arg-type]
            self.num_batches_tracked.add_(1)  # type: ignore[union-attr]
        scaled = centred * (torch.rsqrt(var + self.eps) * self.weight)
        return zero_padding(scaled + self.bias, mask)


def folded(linear: nn.Linear, norm: NodeNorm) -> tuple[Tensor, Tensor]:
    """Weight and bias of the one linear map that ``linear`` and a ``norm`` which no longer learns make."""
    mean, var = norm.get_buffer("running_mean"), norm.get_buffer("running_var")
    scale = norm.weight * torch.rsqrt(var + norm.eps)
    return linear.weight * scale[:, None], torch.addcmul(norm.bias, linear.bias - mean, scale)


class GCNLayer(nn.Module):
    """Graph convolution, paper eq. (3): D^-1/2 (A + I) D^-1/2 X W, degrees from absolute weights."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return (b, n, d_out)."""
        scale = torch.rsqrt(1 + adj.abs().sum(-1, keepdim=True))
        x = self.linear(x) * scale
        return zero_padding((torch.bmm(adj, x) + x) * scale, mask)


class GINLayer(nn.Module):
    """Graph isomorphism layer: MLP((1 + eps) x + A x), normalised after each of its two linear maps.

    The sum over neighbours and the first map commute: neighbours are summed where vectors are shorter.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(()))
        self.first = nn.Linear(n_in, n_out)
        self.norm = NodeNorm(n_out)
        self.second = nn.Linear(n_out, n_out)
        self.out_norm = NodeNorm(n_out)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return (b, n, d_out)."""
        if self.training:
            x = torch.relu_(self.norm(zero_padding(self._first(x, adj), mask), mask))
            return self.out_norm(zero_padding(self.second(x), mask), mask)
        return zero_padding(self._inferred(x, adj), mask)

    def _first(self, x: Tensor, adj: Tensor) -> Tensor:
        first = self.first
        if first.in_features < first.out_features:
            return first(torch.baddbmm(x * (1 + self.eps), adj, x))
        x = F.linear(x, first.weight)
        return torch.baddbmm(torch.addcmul(first.bias, x, 1 + self.eps), adj, x)

    def _inferred(self, x: Tensor, adj: Tensor) -> Tensor:
        """Both maps with their norms folded in, the node itself a loop in the graph: fewer passes over x."""
        loops = (1 + self.eps) * torch.eye(adj.shape[-1], dtype=adj.dtype, device=adj.device)
        weight, bias = folded(self.first, self.norm)
        if self.first.in_features <= self.first.out_features:
            x = F.linear(torch.bmm(adj + loops, x), weight, bias)
        else:
            x = torch.baddbmm(bias, adj + loops, F.linear(x, weight))
        return F.linear(torch.relu_(x), *folded(self.second, self.out_norm))


class GATLayer(nn.Module):
    """Graph attention: a softmax over neighbours and the node itself, times the edge weight.

    The attention of an edge is proportional to |w| exp(e), so an edge of weight 0 is no edge and the
    output is continuous in the weights; the sign of w is the sign of the message.
    """

    def __init__(self, n_in: int, n_out: int, heads: int = 4) -> None:
        super().__init__()
        if n_out % heads:
            raise ValueError(
                f"the width of a GAT layer must be a multiple of its {heads} heads, got {n_out}."
            )
        self.heads = heads
        self.linear = nn.Linear(n_in, n_out, bias=False)
        self.source = nn.Parameter(torch.empty(heads, n_out // heads))
        self.target = nn.Parameter(torch.empty(heads, n_out // heads))
        self.bias = nn.Parameter(torch.zeros(n_out))
        nn.init.xavier_uniform_(self.source)
        nn.init.xavier_uniform_(self.target)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return (b, n, d_out)."""
        b, n, _ = x.shape
        h = self.linear(x).view(b, n, self.heads, -1).transpose(1, 2)  # (b, heads, n, d)
        to, from_ = h @ self.target.unsqueeze(-1), h @ self.source.unsqueeze(-1)
        scores = F.leaky_relu(to + from_.transpose(2, 3), 0.2)  # (b, heads, n to, n from)
        weights = (adj + torch.eye(n, device=adj.device, dtype=adj.dtype)).unsqueeze(1)
        highest = scores.detach().masked_fill(weights == 0, -torch.inf).amax(-1, keepdim=True)
        attention = weights.abs() * (scores - highest).clamp(max=0).exp()
        attention = attention / attention.sum(-1, keepdim=True).clamp(min=1e-12)
        out = (attention * weights.sign()) @ h
        return zero_padding(out.transpose(1, 2).reshape(b, n, -1) + self.bias, mask)


LAYERS: dict[str, Callable[[int, int], nn.Module]] = {"gcn": GCNLayer, "gat": GATLayer, "gin": GINLayer}


def sum_readout(x: Tensor, mask: Tensor | None) -> Tensor:
    """Sum over nodes: (b, n, d) → (b, d)."""
    return x.sum(1)


def mean_readout(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over real nodes: (b, n, d) → (b, d)."""
    return x.mean(1) if mask is None else x.sum(1) / mask.sum(1, keepdim=True)


def max_readout(x: Tensor, mask: Tensor | None) -> Tensor:
    """Maximum over real nodes: (b, n, d) → (b, d)."""
    return (x if mask is None else x.masked_fill(~mask.unsqueeze(-1), -torch.inf)).amax(1)


READOUTS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "sum": sum_readout,
    "mean": mean_readout,
    "max": max_readout,
}


def strongest_edges(
    adj: Tensor, density: float, mask: Tensor | None = None, threshold: Tensor | None = None
) -> Tensor:
    """Keep, in each graph of adj : (b, n, n), the given share of node pairs with the largest |weight|.

    mask : (b, n), True for real nodes: only pairs of these count; None when all are. threshold : (b,), the
    `weight_threshold` of the graphs where it is known.
    """
    if threshold is None:
        threshold = weight_threshold(adj, density, mask)
    if not threshold.any():
        return adj
    return torch.where(adj.abs() >= threshold[:, None, None], adj, 0.0)


class Pairs(nn.Module):
    """From a symmetric matrix to its upper triangle and back, for matrices of ``n`` rows; no parameters."""

    upper: Tensor  # (n (n - 1) / 2,) where the upper triangle stands in a flattened matrix
    place: Tensor  # (n²,) which pair each cell of a matrix belongs to; 0 on the diagonal

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        row, column = torch.triu_indices(n, n, 1)
        place = torch.zeros(n, n, dtype=torch.long)
        place[row, column] = place[column, row] = torch.arange(len(row))
        self.register_buffer("upper", row * n + column, persistent=False)
        self.register_buffer("place", place.flatten(), persistent=False)

    def __len__(self) -> int:
        return len(self.upper)

    def of(self, matrix: Tensor) -> Tensor:
        """The upper triangle of (..., n, n), (..., n (n - 1) / 2)."""
        return matrix.flatten(-2).index_select(-1, self.upper)

    def matrix(self, values: Tensor) -> Tensor:
        """The symmetric matrix (b, n, n), zero on the diagonal, of values : (b, n (n - 1) / 2)."""
        flat = values.index_select(1, self.place)
        flat[:, :: self.n + 1] = 0
        return flat.view(len(values), self.n, self.n)
