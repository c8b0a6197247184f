"""`GNNExplainer` (Ying et al. 2019): a mask per graph under which the model still sees what it saw."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cignn.explainers.base import NetworkExplainer, not_negative, positive
from cignn.explainers.edges import EdgeBatch


class GNNExplainer(NetworkExplainer):
    """Learn the edge mask of every graph: cross-entropy to the model's own prediction, size and entropy.

    The masks of a whole batch are optimised together; each is what it would be alone.

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
        positive(self, "steps", "learning_rate")
        not_negative(self, "size_weight", "entropy_weight")

    def _weigh(self, edges: EdgeBatch) -> Tensor:
        network, batch = self.network_, edges.batch
        with torch.no_grad():
            target = network.read(batch).argmax(1)
        counts = torch.as_tensor(edges.counts, device=edges.graph.device)
        share = 1 / edges.count(counts)  # of an edge in its graph's mean entropy
        logits = self.start(edges).requires_grad_()
        optimiser = torch.optim.Adam([logits], lr=self.learning_rate, fused=True)
        for _ in range(self.steps):
            mask = torch.sigmoid(logits)
            # sums over graphs, not means: a graph's gradient does not depend on how many there are
            fit = F.cross_entropy(network.read(batch, edges.dense(mask)), target, reduction="sum")
            size = 2 * self.size_weight * mask.sum()
            entropy = self.entropy_weight * (share * binary_entropy(logits, mask)).sum()
            (logits.grad,) = torch.autograd.grad(fit + size + entropy, logits)
            optimiser.step()
        return torch.sigmoid(logits)

    def start(self, edges: EdgeBatch) -> Tensor:
        """(e,) logits to start from: noise whose size falls with that of the graph, as the authors'."""
        scale = math.sqrt(2) * (1 / edges.count(edges.batch.n_nodes)).sqrt()
        return scale * edges.noise(self.seed_, normal=True)


def binary_entropy(logits: Tensor, prob: Tensor) -> Tensor:
    """Entropy in nats of a coin with the given logit and probability, finite however sure it is."""
    return F.softplus(logits) - logits * prob
