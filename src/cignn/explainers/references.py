"""References every explainer must beat, and the explanations a classifier brings along."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from cignn.explainers.base import ADVICE, Explainer, NetworkExplainer, has_network
from cignn.explainers.edges import EdgeBatch
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

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
