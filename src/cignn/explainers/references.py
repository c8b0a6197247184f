"""Reference explainers that any other should beat, and a classifier's own explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from cignn._checks import choice
from cignn._random import RandomState
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.explaining import ExplainingClassifier, network_contributions, relative_sizes
from cignn.estimators.shallow import ShallowGraphClassifier
from cignn.explainers.base import (
    ADVICE,
    EdgeBatch,
    Explainer,
    NetworkExplainer,
    has_network,
    need_network,
)
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

CHUNK = 256  # graphs at a time
ROUNDING = 1e-7  # slopes of the log-odds up to this are rounding errors


class BuiltInExplainer(Explainer):
    """The classifier's own explanations: CI-GNN, SIB and DIR have them.

    Parameters
    ----------
    contributions : bool or "auto", default="auto"
        Whether to compute contributions of edges beside their weights; "auto" does on aligned graphs.
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

    def __init__(
        self, contributions: bool | str = "auto", random_state: RandomState = None, verbose: int = 0
    ) -> None:
        self.contributions = contributions
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: GraphClassifier) -> None:
        choice("contributions", self.contributions, ("auto", True, False))
        if not callable(getattr(estimator, "explain", None)):
            advice = 'use a post-hoc explainer such as "gnn-explainer"' if has_network(estimator) else ADVICE
            raise TypeError(f"{type(estimator).__name__} has no explanations of its own; {advice}.")

    def _explain(self, graphs: GraphSet) -> Explanations:
        if not isinstance(self.estimator_, ExplainingClassifier):
            return self.estimator_.explain(graphs)
        wanted = graphs.aligned if self.contributions == "auto" else bool(self.contributions)
        return self.estimator_.explain(graphs, contributions=wanted)


class ContributionExplainer(Explainer):
    """Signed contributions of all edges to the log-odds of a class, for networks and linear models.

    Contributions and their base add up to the log-odds, see `cignn.nn.contributions`. The weight of an edge
    is the size of its contribution, relative to the largest in the graph. Contributions are those of single
    edges, also of a classifier that pools its own.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Not used.
    verbose : int, default=0
        Whether to show a progress bar.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import ContributionExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gcn", epochs=1, random_state=0).fit(graphs)
    >>> explanations = ContributionExplainer().fit(gnn, graphs).explain(graphs[:2], target=1)
    >>> explanations[0].contributions.shape, explanations[0].explained
    ((25, 25), np.int64(1))
    """

    def __init__(self, random_state: RandomState = None, verbose: int = 0) -> None:
        self.random_state = random_state
        self.verbose = verbose

    def explain(self, graphs: GraphSet, target: Any = None) -> Explanations:
        """Explain a class of each graph.

        Parameters
        ----------
        graphs : GraphSet
            The graphs.
        target : label or array-like of shape (n_graphs,), default=None
            The class to explain, one for all graphs or one each. None explains the predicted class.

        Returns
        -------
        Explanations
            Weights and contributions of all edges.
        """
        return self._explain(self._seen(graphs), target)

    def _check(self, estimator: GraphClassifier) -> None:
        if not isinstance(estimator, ShallowGraphClassifier):
            need_network(self, estimator)
            return
        try:
            estimator.explain  # noqa: B018
        except AttributeError as error:  # it says why
            raise TypeError(str(error)) from None

    def _explain(self, graphs: GraphSet, target: Any = None) -> Explanations:
        if isinstance(self.estimator_, NeuralGraphClassifier):
            return network_contributions(self.estimator_, graphs, target, self.verbose)
        found = self.estimator_.explain(graphs, target)
        weights = [relative_sizes(values) for values in found.edge_contributions]
        return found._with(edge_weights=weights)


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
