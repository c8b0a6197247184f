"""`GNNExplainer` (Ying et al. 2019): a mask per graph that keeps the model's prediction."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from cignn._random import RandomState
from cignn.estimators.classifier import GraphClassifier
from cignn.explainers.base import EdgeBatch, NetworkExplainer, check_params


class GNNExplainer(NetworkExplainer):
    """GNNExplainer: learn an edge mask for every graph.

    The loss is the cross-entropy to the model's own prediction plus the size and the entropy of the mask. The
    masks of a batch are optimised together; each is the same as it would be alone. Both directions of an edge
    are learned, and the weight is their mean.

    Parameters
    ----------
    steps : int, default=100
        Steps of Adam.
    learning_rate : float, default=0.01
        Learning rate of Adam.
    size_weight : float, default=0.005
        Weight of the mask's sum, both directions of an edge counted.
    entropy_weight : float, default=1.0
        Weight of the mask's mean entropy, which drives weights to 0 or 1.
    batch_size : int, default=128
        Graphs optimised together.
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    References
    ----------
    Ying et al., "GNNExplainer: Generating explanations for graph neural networks", NeurIPS 2019.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import GNNExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = GNNExplainer(steps=2, random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def __init__(
        self,
        steps: int = 100,
        learning_rate: float = 0.01,
        size_weight: float = 0.005,
        entropy_weight: float = 1.0,
        batch_size: int = 128,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.steps = steps
        self.learning_rate = learning_rate
        self.size_weight = size_weight
        self.entropy_weight = entropy_weight
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: GraphClassifier) -> None:
        super()._check(estimator)
        check_params(self, ("steps",), ("learning_rate",), ("size_weight", "entropy_weight"))

    def _weigh(self, edges: EdgeBatch) -> Tensor:
        network, batch = self.network_, edges.batch
        with torch.no_grad():
            target = network.read(batch).argmax(1)
        graph = edges.graph.repeat(2)
        logits = self._start(edges).requires_grad_()
        seen = share = torch.zeros_like(logits)
        optimiser = torch.optim.Adam([logits], lr=self.learning_rate, fused=True)
        for step in range(self.steps):
            mask = torch.sigmoid(logits)
            # sums over graphs, not means: a graph's gradient does not depend on how many there are
            weights = edges.directed(*mask.chunk(2))
            loss = F.cross_entropy(network.read(batch, weights), target, reduction="sum")
            if step:
                size = self.size_weight * (seen * mask).sum()
                loss = loss + size + self.entropy_weight * (share * binary_entropy(logits, mask)).sum()
            (logits.grad,) = torch.autograd.grad(loss, logits)
            if not step:  # edges without any effect have weight 0 and no cost
                seen = (logits.grad != 0).to(logits.dtype)
                count = logits.new_zeros(len(batch)).index_add(0, graph, seen)
                share = seen / count.clamp(min=1)[graph]
            optimiser.step()
        there, back = (torch.sigmoid(logits) * seen).detach().chunk(2)
        return (there + back) / 2

    def _start(self, edges: EdgeBatch) -> Tensor:
        """(2e,) initial logits of both directions: noise that is smaller in larger graphs."""
        scale = math.sqrt(2) * (1 / edges.count(edges.batch.n_nodes)).sqrt()
        return scale.repeat(2) * edges.noise(self.seed_, normal=True, copies=2)


def binary_entropy(logits: Tensor, prob: Tensor) -> Tensor:
    """Entropy in nats of a binary variable with this logit and probability, finite also near 0 and 1."""
    return F.softplus(logits) - logits * prob
