"""References every explainer must beat, and the explanations a classifier brings along."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.explainers.base import ADVICE, EdgeBatch, Explainer, NetworkExplainer, has_network
from cignn.explanations import Explanations
from cignn.graphs import GraphSet
from cignn.nn import GraphModel

CHUNK = 256  # graphs at a time
ROUNDING = 1e-7  # slopes of the log-odds that are nothing but rounding error


class BuiltInExplainer(Explainer):
    """The estimator's own ``explain``: CI-GNN, SIB, DIR."""

    def __init__(self, random_state: Any = None, verbose: int = 0) -> None:
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: Any) -> None:
        if not callable(getattr(estimator, "explain", None)):
            advice = 'use a post-hoc explainer such as "gnn-explainer"' if has_network(estimator) else ADVICE
            raise TypeError(f"{type(estimator).__name__} brings no explanation along; {advice}.")

    def _explain(self, graphs: GraphSet) -> Explanations:
        return self.estimator_.explain(graphs)


class _EdgeReference(Explainer):
    """An explainer that looks at the graphs alone, and works for any classifier."""

    def __init__(self, random_state: Any = None, verbose: int = 0) -> None:
        self.random_state = random_state
        self.verbose = verbose

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        raise NotImplementedError

    def _explain(self, graphs: GraphSet) -> Explanations:
        weights: list[np.ndarray] = []
        starts = range(0, len(graphs), CHUNK)
        for start in self._track(starts, "explaining", len(starts)):
            edges = EdgeBatch.of(graphs, np.arange(start, min(start + CHUNK, len(graphs))))
            weights += np.split(self._weigh(edges).numpy(), np.cumsum(edges.counts)[:-1])
        return self._explained(graphs, weights)


class RandomExplainer(_EdgeReference):
    """Weights by chance."""

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        return edges.noise(self.seed_)


class DegreeExplainer(_EdgeReference):
    """The number of neighbours of both ends, relative to the busiest edge of the graph."""

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        source, target = edges.ends(edges.batch.edges.sum(2, keepdim=True))
        return edges.relative((source + target).squeeze(-1))


class ConnectivityExplainer(_EdgeReference):
    """The size |w| of an edge's weight, relative to the largest of the graph."""

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        return edges.relative(edges.read(edges.batch.adj.abs()))


class GradientExplainer(NetworkExplainer):
    """How much the predicted class's log-probability changes with an edge's weight, relative to the largest.

    All edges of a graph weigh 0 where the network looks at none, as a GAT does on equal node features.

    batch_size : graphs differentiated at a time.
    """

    def __init__(self, batch_size: int = 128, random_state: Any = None, verbose: int = 0) -> None:
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        weights = torch.ones(len(edges), device=edges.graph.device, requires_grad=True)
        logits = self.network_.read(edges.batch, edges.dense(weights))
        # the log-odds have the same slope up to a factor 1 - p, which a sure network rounds to 0
        chosen = F.one_hot(logits.argmax(1), logits.shape[1]).bool()
        odds = logits[chosen] - logits.masked_fill(chosen, -torch.inf).logsumexp(1)
        (gradient,) = torch.autograd.grad(odds.sum(), weights)
        return edges.relative(gradient.abs(), ROUNDING)


PASSES = 512  # subgraphs that go through the network together


@dataclass(frozen=True)
class Problem:
    """A batch whose edges stand in rows: there : (b, E) bool; slot : (e,) an edge's place in its row.

    h : (b, n, d) node embeddings of the whole graphs; target : (b,) the class explained.
    """

    edges: EdgeBatch
    there: Tensor
    slot: Tensor
    h: Tensor
    target: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, edges: EdgeBatch, network: GraphModel) -> Problem:
        """The problem of explaining the graphs of ``edges``."""
        counts = torch.as_tensor(edges.counts, device=edges.graph.device)
        slot = torch.arange(len(edges), device=counts.device) - edges.count(counts.cumsum(0) - counts)
        there = torch.arange(max(1, int(counts.max())), device=counts.device) < counts[:, None]
        batch = edges.batch
        return cls(edges, there, slot, network.embed(batch), network.read(batch).argmax(1))

    def flat(self, rows: Tensor) -> Tensor:
        """(b, ..., E) → (..., e)."""
        return rows[self.edges.graph, ..., self.slot].movedim(0, -1)

    def padded(self, flat: Tensor, fill: float) -> Tensor:
        """(e,) → (b, E)."""
        rows = flat.new_full(self.there.shape, fill)
        rows[self.edges.graph, self.slot] = flat
        return rows

    @torch.no_grad()
    def log_prob(self, network: GraphModel, chosen: Tensor) -> Tensor:
        """Log-probability of the target class from the chosen edges: (b, E) → (b,), (b, K, E) → (b, K)."""
        batch = self.edges.batch
        if chosen.ndim == 2:
            return self.log_prob(network, chosen[:, None])[:, 0]
        masks = self.flat(chosen.float())  # (K, e)
        out = []
        for part in masks.split(max(1, PASSES // len(batch))):
            k = len(part)
            many = replace(
                batch,
                x=batch.x.repeat(k, 1, 1),
                adj=batch.adj.repeat(k, 1, 1),
                mask=batch.mask.repeat(k, 1),
                y=None,
            )
            logits = network.read(many, self.edges.dense(part).flatten(0, 1))
            log_prob = F.log_softmax(logits, 1).view(k, len(batch), -1)
            index = self.target.expand(k, -1).unsqueeze(-1)
            out.append(log_prob.gather(2, index).squeeze(-1))
        return torch.cat(out).T


class Policy(nn.Module):
    """Scores of edges, given the subgraph so far and the class."""

    def __init__(self, n_in: int, n_classes: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * n_in)
        self.edge = nn.Linear(2 * n_in, hidden)
        self.own = nn.Linear(hidden, hidden)
        self.subgraph = nn.Linear(hidden, hidden, bias=False)
        self.label = nn.Embedding(n_classes, hidden)
        self.score = nn.Linear(hidden, 1)

    def edges(self, problem: Problem) -> Tensor:
        """(b, E, d) embeddings of edges, the same from either end."""
        source, target = problem.edges.ends(problem.h)
        z = torch.relu(self.edge(self.norm(torch.cat([source + target, source * target], 1))))
        rows = z.new_zeros(*problem.there.shape, z.shape[1])
        return rows.index_put((problem.edges.graph, problem.slot), z)

    def scores(self, z: Tensor, chosen: Tensor, target: Tensor) -> Tensor:
        """Logits of all edges, (b, ..., E); chosen : (b, ..., E), the subgraph so far."""
        picked = chosen.to(z.dtype).view(len(z), -1, z.shape[1])  # (b, K, E)
        subgraph = picked @ z / picked.sum(-1, keepdim=True).clamp(min=1)
        state = self.subgraph(subgraph) + self.label(target)[:, None]  # (b, K, d)
        out = self.score(torch.relu(self.own(z)[:, None] + state[:, :, None])).squeeze(-1)
        return out.view(chosen.shape)
