"""Reference explainers that any other should beat, and a classifier's own explanations."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from cignn._random import RandomState
from cignn.estimators.classifier import GraphClassifier
from cignn.explainers.base import ADVICE, EdgeBatch, Explainer, NetworkExplainer, has_network
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

CHUNK = 256  # graphs at a time
ROUNDING = 1e-7  # slopes of the log-odds up to this are rounding errors


class BuiltInExplainer(Explainer):
    """The classifier's own explanations: CI-GNN, SIB and DIR have them.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import BuiltInExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> explainer = BuiltInExplainer(random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def __init__(self, random_state: RandomState = None, verbose: int = 0) -> None:
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: GraphClassifier) -> None:
        if not callable(getattr(estimator, "explain", None)):
            advice = 'use a post-hoc explainer such as "gnn-explainer"' if has_network(estimator) else ADVICE
            raise TypeError(f"{type(estimator).__name__} has no explanations of its own; {advice}.")

    def _explain(self, graphs: GraphSet) -> Explanations:
        return self.estimator_.explain(graphs)


class _EdgeReference(Explainer):
    """An explainer that looks at the graphs alone and works with any classifier."""

    def __init__(self, random_state: RandomState = None, verbose: int = 0) -> None:
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
    """Random weights, uniform in [0, 1].

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import RandomExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = RandomExplainer(random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        return edges.noise(self.seed_)


class DegreeExplainer(_EdgeReference):
    """Sum of the degrees of an edge's two nodes, relative to the largest sum in the graph.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import DegreeExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = DegreeExplainer(random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        source, target = edges.ends(edges.batch.edges.sum(2, keepdim=True))
        return edges.relative((source + target).squeeze(-1))


class ConnectivityExplainer(_EdgeReference):
    """Absolute weight of an edge, relative to the largest in the graph.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import ConnectivityExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = ConnectivityExplainer(random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        return edges.relative(edges.read(edges.batch.adj.abs()))


class GradientExplainer(NetworkExplainer):
    """Absolute gradient of the predicted class's log-odds by an edge's weight, relative to the largest.

    All edges of a graph have weight 0 where the network ignores them, as a GAT does when all node features
    are equal.

    Parameters
    ----------
    batch_size : int, default=128
        Graphs differentiated at a time.
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import GradientExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = GradientExplainer(random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def __init__(self, batch_size: int = 128, random_state: RandomState = None, verbose: int = 0) -> None:
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        weights = torch.ones(len(edges), device=edges.graph.device, requires_grad=True)
        logits = self.network_.read(edges.batch, edges.dense(weights))
        # log-probabilities have the same slope up to a factor 1 - p, which rounds to 0 where p is near 1
        chosen = F.one_hot(logits.argmax(1), logits.shape[1]).bool()
        odds = logits[chosen] - logits.masked_fill(chosen, -torch.inf).logsumexp(1)
        (gradient,) = torch.autograd.grad(odds.sum(), weights)
        return edges.relative(gradient.abs(), ROUNDING)
