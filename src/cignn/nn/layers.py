"""Dense graph layers that take signed edge weights, and the readouts that pool nodes into a graph.

Every layer maps x : (b, n, d_in), adj : (b, n, n), mask : (b, n) or None (no padding) to (b, n, d_out) with
zeros at padded nodes, so that padding changes nothing. A mask may hold weights of nodes in [0, 1] instead of
True and False: a node of weight 0 is padding, and batch statistics count the others by their weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.nn.packing import Links, Packing


def zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Set padded nodes of x : (b, n, d) to zero; mask : (b, n), None when there are none."""
    return x if mask is None else x * (mask > 0).unsqueeze(-1).to(x.dtype)


def bounded_relu(x: Tensor, bound: float = math.inf) -> Tensor:
    """Return max(0, x), at most ``bound``."""
    return torch.relu(x) if bound == math.inf else F.hardtanh(x, 0.0, bound)  # clamp's gradient is slow


class NodeNorm(nn.Module):
    """Batch normalisation over the real nodes of a batch.

    In evaluation mode the running mean and variance of the training batches take the place of the batch's.
    """

    RUNNING = ("running_mean", "running_var")
    running_mean: Tensor
    running_var: Tensor
    momentum, eps = 0.1, 1e-5

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalise x : (b, n, d); mask : (b, n), True or weights of real nodes; 0 at padded nodes."""
        if mask is None and len(x) * x.shape[1] == 1:  # torch refuses to train on a lone node
            mask = x.new_ones(1, 1, dtype=torch.bool)
        if mask is None or not self.training:
            known = (self.running_mean, self.running_var, self.weight, self.bias)
            normed = F.batch_norm(x.flatten(0, 1), *known, self.training, self.momentum, self.eps)
            return zero_padding(normed.view_as(x), mask)
        weight = mask.to(x.dtype).flatten()
        count = weight.sum().clamp(min=1e-6)  # a batch without any node of weight has nothing to normalise
        share = weight / count
        mean = share @ x.flatten(0, 1)
        centred = x - mean
        var = share @ centred.square().flatten(0, 1)
        with torch.no_grad():
            unbiased = var * count / (count - 1).clamp(min=1)
            rate = self.momentum * count.clamp(max=1)  # nodes of hardly any weight teach hardly anything
            for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
                running.add_(rate * (new - running))
        scale = torch.rsqrt(var + self.eps) * self.weight
        return zero_padding(torch.addcmul(self.bias, centred, scale), mask)


class GCNLayer(nn.Module):
    """Graph convolution: D^-1/2 (A + I) D^-1/2 X W, with degrees from absolute weights.

    Parameters
    ----------
    n_in : int
        Size of the input vectors.
    n_out : int
        Size of the output vectors.

    References
    ----------
    Equation (3) of the paper, without the activation.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import GCNLayer
    >>> GCNLayer(4, 8)(torch.rand(2, 5, 4), torch.ones(2, 5, 5)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor of shape (b, n, n_in)
            Node vectors.
        adj : Tensor of shape (b, n, n)
            Signed edge weights.
        mask : Tensor of shape (b, n), default=None
            True for real nodes; None when all are.

        Returns
        -------
        Tensor of shape (b, n, n_out)
            New node vectors, 0 at padded nodes.
        """
        scale = torch.rsqrt(1 + adj.abs().sum(-1, keepdim=True))  # D^-1/2, (b, n, 1)
        x = self.linear(x) * scale
        return zero_padding((adj @ x + x) * scale, mask)


class GINLayer(nn.Module):
    """Graph isomorphism layer: MLP((1 + eps) x + A x), normalised after each of its two linear maps.

    Parameters
    ----------
    n_in : int
        Size of the input vectors.
    n_out : int
        Size of the output vectors.
    bound : float, default=inf
        Largest value after the first map's activation. Normalised values seldom exceed 3; in graphs larger
        than those of the training, the hub of a wheel does, and its neighbours would drown in it.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import GINLayer
    >>> GINLayer(4, 8)(torch.rand(2, 5, 4), torch.ones(2, 5, 5)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, n_in: int, n_out: int, bound: float = math.inf) -> None:
        super().__init__()
        self.bound = bound
        self.eps = nn.Parameter(torch.zeros(()))
        self.first = nn.Linear(n_in, n_out, bias=False)  # a bias would be gone after the norm
        self.norm = NodeNorm(n_out)
        self.second = nn.Linear(n_out, n_out, bias=False)
        self.out_norm = NodeNorm(n_out)

    def forward(
        self, x: Tensor, adj: Tensor | Links, mask: Tensor | None = None, sums: Tensor | None = None
    ) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor of shape (b, n, n_in)
            Node vectors.
        adj : Tensor of shape (b, n, n) or Links
            Signed edge weights; those of packed nodes, of which there is one row, are in a list.
        mask : Tensor of shape (b, n), default=None
            True for real nodes; None when all are.
        sums : Tensor of shape (b, n, n_in), default=None
            The sums A x of neighbours, where they are known.

        Returns
        -------
        Tensor of shape (b, n, n_out)
            New node vectors, 0 at padded nodes.
        """
        # the first map is linear: before or after the sum over neighbours, wherever vectors are shorter
        if sums is not None:
            h = (1 + self.eps) * self.first(x) + self.first(sums)
        elif self.first.out_features <= self.first.in_features:
            h = self.first(x)
            h = (1 + self.eps) * h + adj @ h
        else:
            h = self.first((1 + self.eps) * x + adj @ x)
        h = bounded_relu(self.norm(h, mask), self.bound)
        return self.out_norm(self.second(h), mask)


class GATLayer(nn.Module):
    """Graph attention: a softmax over neighbours and the node itself, times the edge weight.

    The attention of an edge is proportional to |w| exp(e), so an edge of weight 0 is no edge and the
    output is continuous in the weights; the sign of w is the sign of the message.

    Parameters
    ----------
    n_in : int
        Size of the input vectors.
    n_out : int
        Size of the output vectors, a multiple of ``heads``.
    heads : int, default=4
        Number of attention heads.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import GATLayer
    >>> GATLayer(4, 8)(torch.rand(2, 5, 4), torch.ones(2, 5, 5)).shape
    torch.Size([2, 5, 8])
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
        """Apply the layer.

        Parameters
        ----------
        x : Tensor of shape (b, n, n_in)
            Node vectors.
        adj : Tensor of shape (b, n, n)
            Signed edge weights.
        mask : Tensor of shape (b, n), default=None
            True for real nodes; None when all are.

        Returns
        -------
        Tensor of shape (b, n, n_out)
            New node vectors, 0 at padded nodes.
        """
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
"""Kinds of GNN layers by their names."""


def make_layers(kind: str, sizes: Sequence[int], bound: float = math.inf) -> nn.ModuleList:
    """Make a layer between each two sizes; only those of kind "gin" have a bound of their own."""
    own = {"bound": bound} if kind == "gin" else {}
    return nn.ModuleList(LAYERS[kind](a, b, **own) for a, b in pairwise(sizes))


def sum_readout(x: Tensor, mask: Tensor | None) -> Tensor:
    """Sum over nodes: (b, n, d) → (b, d)."""
    return x.sum(1)


def mean_readout(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over real nodes: (b, n, d) → (b, d)."""
    return x.mean(1) if mask is None else x.sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-6)


def max_readout(x: Tensor, mask: Tensor | None) -> Tensor:
    """Maximum over real nodes: (b, n, d) → (b, d)."""
    return (x if mask is None else x.masked_fill(~(mask > 0).unsqueeze(-1), -torch.inf)).amax(1)


READOUTS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "sum": sum_readout,
    "mean": mean_readout,
    "max": max_readout,
}
"""Readouts by their names."""


def edge_positions(adj: Tensor) -> Tensor:
    """Where the edges of each graph are in its flattened matrix, each once (i < j): (b, e), 0 for none.

    adj : (b, n, n), symmetric. No edge is at 0, which is the diagonal.
    """
    present = (adj != 0).triu(1).flatten(1)
    count = present.sum(1)
    graph, place = present.nonzero(as_tuple=True)
    before = count.cumsum(0) - count  # edges of the graphs before
    edges = place.new_zeros(len(adj), max(int(count.max()), 1) if len(adj) else 1)
    edges[graph, torch.arange(len(place), device=adj.device) - before[graph]] = place
    return edges


def apply_layers(
    layers: nn.ModuleList,
    activation: Callable[[Tensor], Tensor],
    x: Tensor,
    adj: Tensor,
    mask: Tensor | None,
    sums: Tensor | None = None,
) -> Tensor:
    """Apply GNN layers one after the other; sums : A x of the features, where they are known, or None.

    Padding is left out where much of a batch is padding.
    """
    # only edges whose weight is not 0 are packed. In training a weight of exactly 0 has no gradient; where
    # one asks for the gradient of left-out edges, it has
    if all(isinstance(layer, GINLayer) for layer in layers) and (layers.training or not adj.requires_grad):
        packing = Packing.of(adj, mask)
        if packing is not None:
            assert mask is not None
            real = None if mask.dtype == torch.bool else packing.pack(mask.unsqueeze(-1)).squeeze(-1)
            known = None if sums is None else packing.pack(sums)
            return packing.unpack(_apply(layers, activation, packing.pack(x), packing.links, real, known))
    return _apply(layers, activation, x, adj, mask, sums)


def _apply(
    layers: nn.ModuleList,
    activation: Callable[[Tensor], Tensor],
    x: Tensor,
    adj: Tensor | Links,
    mask: Tensor | None,
    sums: Tensor | None,
) -> Tensor:
    for i, layer in enumerate(layers):
        known = (sums,) if i == 0 and sums is not None and isinstance(layer, GINLayer) else ()
        x = activation(layer(x, adj, mask, *known))
    return x


def strongest_edges(adj: Tensor, density: float, mask: Tensor | None = None) -> Tensor:
    """Keep the edges with the largest absolute weights of each graph.

    Parameters
    ----------
    adj : Tensor of shape (b, n, n)
        Signed edge weights, symmetric.
    density : float
        Share of node pairs to keep, in (0, 1]; at least one pair is kept, and equal weights stay together.
    mask : Tensor of shape (b, n), default=None
        True for real nodes, only pairs of which count; None when all are.

    Returns
    -------
    Tensor of shape (b, n, n)
        The weights of the kept edges, 0 elsewhere.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import strongest_edges
    >>> adj = torch.tensor([[[0.0, -3.0, 1.0], [-3.0, 0.0, 2.0], [1.0, 2.0, 0.0]]])
    >>> strongest_edges(adj, 1 / 3)[0].tolist()
    [[0.0, -3.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    n = adj.shape[-1]
    if n < 2:
        return adj
    # place of the weakest pair that a graph without padding keeps; kept are entries, two of each pair
    most = (max(1, round(density * (n * (n - 1)))) + 1) // 2
    row, column = torch.triu_indices(n, n, 1, device=adj.device)
    strength = adj.detach().abs().flatten(1).index_select(1, row * n + column)
    strongest = strength.topk(most, dim=1).values
    if mask is None:
        threshold = strongest[:, -1:].unsqueeze(-1)  # (b, 1, 1)
    else:
        nodes = mask.sum(1)
        kept = (density * (nodes * (nodes - 1)).double()).round().clamp(min=1)
        place = ((kept + 1) // 2).long()
        threshold = strongest.gather(1, place[:, None] - 1).unsqueeze(-1)
    return torch.where(adj.abs() >= threshold, adj, 0.0)
