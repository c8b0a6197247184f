"""The undirected edges of a batch as one flat list, and the way to dense matrices and back."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cignn.graphs import GraphBatch, GraphSet


@dataclass(frozen=True)
class EdgeBatch:
    """A batch and its edges, graph by graph in the order of ``GraphSet.edges``, each once.

    batch : (b graphs); counts : (b,) edges of each graph; graph, source, target : (e,) on the device;
    seeds : (b,) a number made of each graph alone, for chance that does not depend on its company.
    """

    batch: GraphBatch
    counts: np.ndarray
    graph: Tensor
    source: Tensor
    target: Tensor
    seeds: np.ndarray

    @classmethod
    def of(cls, graphs: GraphSet, index: np.ndarray, device: torch.device | str = "cpu") -> EdgeBatch:
        """The graphs of a set at ``index``."""
        batch = graphs.batch(index)
        counts = graphs.n_edges[index]
        pairs = np.concatenate([np.empty((0, 2), np.int64), *(graphs.edges(i) for i in index)])
        graph = np.repeat(np.arange(len(index)), counts)
        weights = batch.adj.numpy()[graph, pairs[:, 0], pairs[:, 1]]
        ends = np.cumsum(counts)
        seeds = [
            zlib.crc32(weights[a:b].tobytes(), zlib.crc32(pairs[a:b].tobytes()))
            for a, b in zip(ends - counts, ends, strict=True)
        ]
        at, source, target = (torch.from_numpy(row).to(device) for row in (graph, *pairs.T.copy()))
        return cls(batch.to(device), counts, at, source, target, np.array(seeds))

    def __len__(self) -> int:
        return len(self.graph)

    def dense(self, values: Tensor) -> Tensor:
        """(..., e) values of edges → (..., b, n, n), symmetric, zero where no edge is; differentiable."""
        return self.directed(values, values)

    def directed(self, there: Tensor, back: Tensor) -> Tensor:
        """(..., e) weights of what edges carry from source to target, and back → (..., b, n to, n from)."""
        b, n, _ = self.batch.adj.shape
        row = self.graph * (n * n)
        both = torch.cat([row + self.target * n + self.source, row + self.source * n + self.target])
        values = torch.cat([there, back], -1)
        flat = values.new_zeros(*values.shape[:-1], b * n * n)
        return flat.scatter(-1, both.expand_as(values), values).view(*values.shape[:-1], b, n, n)

    def read(self, matrices: Tensor) -> Tensor:
        """(b, n, n) → (e,) the mean of an edge's two entries."""
        there = matrices[self.graph, self.source, self.target]
        return (there + matrices[self.graph, self.target, self.source]) / 2

    def ends(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """(b, n, d) node vectors → those of both ends of every edge, (e, d) each."""
        return h[self.graph, self.source], h[self.graph, self.target]

    def count(self, values: Tensor) -> Tensor:
        """(b,) one value per graph → (e,) one per edge."""
        return values[self.graph]

    def relative(self, values: Tensor, least: float = 0.0) -> Tensor:
        """(e,) values of at least 0 divided by the largest of their graph, where that is above ``least``."""
        largest = values.new_zeros(len(self.batch)).scatter_reduce(0, self.graph, values, "amax")
        largest = torch.where(largest > least, largest, torch.inf)
        return values / self.count(largest)

    def noise(self, seed: int, normal: bool = False, copies: int = 1) -> Tensor:
        """(copies · e,) chance numbers, uniform or standard normal, of each graph's own generator."""
        parts = [np.empty((copies, 0), np.float32)]
        for own, count in zip(self.seeds, self.counts, strict=True):
            rng = np.random.default_rng([seed, own])
            draw = rng.standard_normal if normal else rng.random
            parts.append(draw((copies, count), dtype=np.float32))
        return torch.from_numpy(np.concatenate(parts, 1).ravel()).to(self.graph.device)

    def rank_weights(self, scores: Tensor) -> Tensor:
        """(e,) scores → weights by place in their graph: 1 for the highest, then falling by 1/e each."""
        order = torch.argsort(scores, descending=True, stable=True)
        order = order[torch.argsort(self.graph[order], stable=True)]
        counts = torch.as_tensor(self.counts, device=scores.device)
        place = torch.arange(len(scores), device=scores.device) - self.count(counts.cumsum(0) - counts)
        weights = torch.empty(len(scores), device=scores.device)
        weights[order] = 1 - place / self.count(counts)
        return weights
