"""Batches without padding: nodes side by side and edges in a list, for sparse graphs of unlike sizes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MOST_REAL = 0.8  # share of real nodes up to which a batch is worth packing
MOST_EDGES = 0.05  # share of node pairs up to which a list of edges costs less than matrices


class Links(NamedTuple):
    """Weighted edges between packed nodes, in place of matrices.

    target, source : (e,) nodes; weights : (e,).
    """

    target: Tensor
    source: Tensor
    weights: Tensor

    def __matmul__(self, h: Tensor) -> Tensor:
        """Return the sums over neighbours, (1, nodes, d); h : (1, nodes, d)."""
        messages = self.weights.unsqueeze(-1) * h[0].index_select(0, self.source)
        return torch.zeros_like(h[0]).index_add(0, self.target, messages)[None]


class Packing(NamedTuple):
    """The real nodes of a batch and the edges between them.

    nodes : (nodes,) their places among all (b·n), padded ones as well; shape : (b, n); links : the edges.
    """

    nodes: Tensor
    shape: torch.Size
    links: Links

    @classmethod
    def of(cls, adj: Tensor, mask: Tensor | None) -> Packing | None:
        """Pack a batch; None where that saves nothing.

        adj : (b, n, n), whose edges of weight 0 are left out; mask : (b, n), 0 or False at padded nodes, None
        when there are none. Only on a CPU: a GPU would have to wait for the number of nodes, and has
        arithmetic to spare. Networks in a stack read batches of one shape.
        """
        if mask is None or adj.device.type != "cpu" or _in_stack(adj) or _in_stack(mask):
            return None
        nodes = (mask > 0).flatten().nonzero().squeeze(1)
        if not 0 < len(nodes) <= MOST_REAL * mask.numel():
            return None
        at = adj.detach().flatten().nonzero().squeeze(1)
        if len(at) > MOST_EDGES * adj.numel():
            return None
        n = mask.shape[1]
        places = torch.full((mask.numel(),), -1)
        places[nodes] = torch.arange(len(nodes))
        row, column = at // n, at % n
        target, source = places[row], places[row // n * n + column]
        real = (target >= 0) & (source >= 0)
        if not real.all():
            at, target, source = at[real], target[real], source[real]
        return cls(nodes, mask.shape, Links(target, source, adj.flatten().index_select(0, at)))

    def pack(self, x: Tensor) -> Tensor:
        """Return the vectors (1, nodes, d) of the real nodes; x : (b, n, d)."""
        return x.flatten(0, 1).index_select(0, self.nodes)[None]

    def unpack(self, x: Tensor) -> Tensor:
        """Return the vectors (b, n, d), 0 at padded nodes, of real nodes x : (1, nodes, d)."""
        whole = x.new_zeros(self.shape.numel(), x.shape[-1]).index_copy(0, self.nodes, x[0])
        return whole.view(*self.shape, -1)


def _in_stack(x: Tensor) -> bool:
    """Whether `torch.vmap` is at work: there, what depends on the values cannot have a shape."""
    return bool(torch._C._functorch.is_batchedtensor(x))
