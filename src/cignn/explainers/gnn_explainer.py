"""`GNNExplainer` (Ying et al. 2019): a mask per graph under which the model still sees what it saw."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cignn.explainers.base import EdgeBatch, NetworkExplainer, check_params


class GNNExplainer(NetworkExplainer):
    """Learn the edge mask of every graph: cross-entropy to the model's own prediction, size and entropy.

    The masks of a whole batch are optimised together; each is what it would be alone. Both directions of an
    edge are learned, their mean is its weight.

    Parameters
    ----------
    steps : of Adam; learning_rate : its own
    size_weight : price of the mask's sum, both directions of an edge counted; entropy_weight : of its mean
        entropy, which drives weights to 0 or 1
    batch_size : graphs optimised together
    """

    def __init__(
        self,
        steps: int = 100,
        learning_rate: float = 0.01,
        size_weight: float = 0.005,
        entropy_weight: float = 1.0,
        batch_size: int = 128,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.steps = steps
        self.learning_rate = learning_rate
        self.size_weight = size_weight
        self.entropy_weight = entropy_weight
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: Any) -> None:
        super()._check(estimator)
        check_params(self, ("steps",), ("learning_rate",), ("size_weight", "entropy_weight"))

    def _weigh(self, edges: EdgeBatch) -> Tensor:
        network, batch = self.network_, edges.batch
        with torch.no_grad():
            target = network.read(batch).argmax(1)
        graph = edges.graph.repeat(2)
        logits = self.start(edges).requires_grad_()
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
            if not step:  # edges that do not matter at all weigh nothing and cost nothing
                seen = (logits.grad != 0).to(logits.dtype)
                count = logits.new_zeros(len(batch)).index_add(0, graph, seen)
                share = seen / count.clamp(min=1)[graph]
            optimiser.step()
        there, back = (torch.sigmoid(logits) * seen).detach().chunk(2)
        return (there + back) / 2

    def start(self, edges: EdgeBatch) -> Tensor:
        """(2e,) logits to start from, both directions: noise whose size falls with that of the graph."""
        scale = math.sqrt(2) * (1 / edges.count(edges.batch.n_nodes)).sqrt()
        return scale.repeat(2) * edges.noise(self.seed_, normal=True, copies=2)


def binary_entropy(logits: Tensor, prob: Tensor) -> Tensor:
    """Entropy in nats of a coin with the given logit and probability, finite however sure it is."""
    return F.softplus(logits) - logits * prob
