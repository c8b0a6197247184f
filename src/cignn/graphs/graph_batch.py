"""`GraphBatch`: a dense mini-batch of graphs on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Memory(NamedTuple):
    """What a graph set remembers of the graphs of a batch, as long as the batch has the weights ``adj``."""

    thresholds: dict[float, np.ndarray]  # by density: (size,) float64 of all graphs, nan where not yet known
    size: int
    graphs: np.ndarray  # (b,) the numbers of the graphs in the set
    adj: Tensor


def weight_threshold(adj: Tensor, density: float, mask: Tensor | None = None) -> Tensor:
    """Return the |weight| that the given share of node pairs reaches in each graph of adj : (b, n, n), (b,).

    mask : (b, n), True for real nodes: only pairs of these count; None when all are. It is 0 where a graph
    has no more edges than that.
    """
    strength = adj.detach().abs().flatten(1)
    if mask is None:
        n = adj.shape[-1]
        keep = max(1, round(density * (n * (n - 1))))  # every pair stands twice
        if strength.sign().sum(1).max() <= keep:  # sparse enough: to rank the edges would take far longer
            return adj.new_zeros(len(adj))
        row, column = torch.triu_indices(n, n, 1, device=adj.device)
        pairs = strength.index_select(1, row * n + column)
        return pairs.kthvalue(len(row) - (keep + 1) // 2 + 1, dim=1).values
    nodes = mask.sum(1).double()
    place = (density * (nodes * (nodes - 1))).round().long().clamp(min=1) - 1
    return strength.sort(1, descending=True).values.gather(1, place[:, None]).squeeze(1)


@dataclass(frozen=True)
class GraphBatch:
    """A dense mini-batch, padded to its largest graph.

    x : (b, n, d); adj : (b, n, n) signed edge weights, 0 where there is no edge; mask : (b, n), True for
    real nodes; y : (b,) class numbers or None.
    """

    x: Tensor
    adj: Tensor
    mask: Tensor
    y: Tensor | None = None
    padded: bool = True  # False where every node is real: layers then skip the masking
    memory: Memory | None = None  # what is known of these graphs from earlier batches

    def __len__(self) -> int:
        return len(self.x)

    def threshold(self, density: float) -> Tensor:
        """(b,) `weight_threshold` of each graph; found once per graph set, not at every epoch anew."""
        memory = self.memory
        if memory is None or memory.adj is not self.adj:  # other weights than those of the set
            return weight_threshold(self.adj, density, self.padding)
        known = memory.thresholds.setdefault(density, np.full(memory.size, np.nan))
        if np.isnan(known[memory.graphs]).any():
            known[memory.graphs] = weight_threshold(self.adj, density, self.padding).double().cpu().numpy()
        return torch.from_numpy(known[memory.graphs]).to(self.adj)

    @property
    def padding(self) -> Tensor | None:
        """The node mask where there is something to mask, else None."""
        return self.mask if self.padded else None

    @cached_property
    def edge_mask(self) -> Tensor:
        """(b, n, n) bool: where an edge is."""
        return self.adj != 0

    @cached_property
    def edges(self) -> Tensor:
        """(b, n, n) 1 where an edge is, else 0: `edge_mask` as numbers, which multiply faster than truths.

        No gradient goes through it: whether an edge is there does not change with its weight.
        """
        return self.adj.detach().sign().abs_()

    @cached_property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """The upper triangles, row by row, of `adj` and `edges`: (b, n (n - 1) / 2) each."""
        n = self.adj.shape[-1]
        row, column = torch.triu_indices(n, n, 1, device=self.adj.device)
        adj = self.adj.flatten(1).index_select(1, row * n + column)
        return adj, adj.detach().sign().abs_()

    @property
    def n_nodes(self) -> Tensor:
        """(b,) number of real nodes of each graph."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> GraphBatch:
        """Return the same batch on ``device``."""
        y = None if self.y is None else self.y.to(device)
        adj = self.adj.to(device)
        x = adj if self.x is self.adj else self.x.to(device)
        memory = self.memory
        if memory is not None:
            memory = memory._replace(adj=adj if memory.adj is self.adj else memory.adj)
        return GraphBatch(x, adj, self.mask.to(device), y, self.padded, memory)
