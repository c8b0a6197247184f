"""`PGExplainer` (Luo et al. 2020): one small network, trained once, predicts masks from node embeddings."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn._checks import shown
from cignn._random import RandomState
from cignn.estimators.classifier import GraphClassifier
from cignn.explainers.base import EdgeBatch, NetworkExplainer, check_params, frozen
from cignn.graphs import GraphSet

DISTANCE = 0.01  # uniform draws lie in [0.01, 0.99]: no edge is drawn with certainty


class PGExplainer(NetworkExplainer):
    """PGExplainer: an MLP on the embeddings [h_i; h_j] of two nodes gives the logit of their edge.

    While it learns, edges are drawn from a concrete distribution of falling temperature; the loss is that of
    `GNNExplainer`. The weight of an edge is the mean of both directions.

    Parameters
    ----------
    epochs : int, default=20
        Passes over the graphs of ``fit``.
    learning_rate : float, default=0.01
        Learning rate of Adam.
    hidden : int, default=64
        Width of the MLP.
    temperatures : tuple of two floats, default=(5.0, 2.0)
        First and last temperature of the draws.
    size_weight : float, default=0.02
        Weight of the mask's sum, both directions of an edge counted.
    entropy_weight : float, default=1.0
        Weight of the mask's mean entropy.
    train_batch_size : int, default=32
        Graphs in a training step.
    batch_size : int, default=128
        Graphs explained at a time.
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    References
    ----------
    Luo et al., "Parameterized explainer for graph neural network", NeurIPS 2020.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import PGExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = PGExplainer(epochs=1, random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def __init__(
        self,
        epochs: int = 20,
        learning_rate: float = 0.01,
        hidden: int = 64,
        temperatures: tuple[float, float] = (5.0, 2.0),
        size_weight: float = 0.02,
        entropy_weight: float = 1.0,
        train_batch_size: int = 32,
        batch_size: int = 128,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.temperatures = temperatures
        self.size_weight = size_weight
        self.entropy_weight = entropy_weight
        self.train_batch_size = train_batch_size
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: GraphClassifier) -> None:
        super()._check(estimator)
        whole_numbers = ("epochs", "hidden", "train_batch_size")
        check_params(self, whole_numbers, ("learning_rate",), ("size_weight", "entropy_weight"))
        try:
            first, last = map(float, self.temperatures)
        except (TypeError, ValueError, OverflowError):
            first = last = math.nan
        if not 0 < min(first, last) <= max(first, last) < math.inf:
            raise ValueError(f"temperatures must be two positive numbers, got {shown(self.temperatures)}.")

    def _fit(self, graphs: GraphSet) -> None:
        batches = [self._edges(graphs, index) for index in graphs.batch_indices(self.train_batch_size, True)]
        with frozen(self.network_), torch.no_grad():
            known = [(self.network_.embed(e.batch), self.network_.read(e.batch).argmax(1)) for e in batches]
        self.mlp_ = edge_mlp(known[0][0].shape[-1], self.hidden).to(known[0][0].device)
        first, last = self.temperatures

        def loss(i: int, epoch: int) -> Tensor:
            return self._loss(batches[i], *known[i], first * (last / first) ** (epoch / self.epochs))

        self._descend(self.mlp_, len(batches), loss)

    def _loss(self, edges: EdgeBatch, h: Tensor, target: Tensor, temperature: float) -> Tensor:
        """Mean over the graphs of cross-entropy, size and entropy; each direction is drawn independently."""
        logits = torch.cat(self._logits(edges, h))
        noise = torch.rand_like(logits).mul_(1 - 2 * DISTANCE).add_(DISTANCE).logit_()
        mask = torch.sigmoid((logits + noise) / temperature)
        there, back = mask.chunk(2)
        counts = edges.count(torch.as_tensor(edges.counts, device=h.device)).repeat(2)
        fit = F.cross_entropy(self.network_.read(edges.batch, edges.directed(there, back)), target)
        inside = 0.99 * mask + 0.005  # as the authors do, to keep the entropy's gradient finite
        entropy = F.binary_cross_entropy(inside, inside, reduction="none") / (2 * counts)
        return fit + (self.size_weight * mask + self.entropy_weight * entropy).sum() / len(edges.batch)

    def _logits(self, edges: EdgeBatch, h: Tensor) -> tuple[Tensor, Tensor]:
        """(e,) logits of both directions of every edge."""
        source, target = edges.ends(h)
        there, back = torch.cat([source, target], 1), torch.cat([target, source], 1)
        return self.mlp_(there).squeeze(-1), self.mlp_(back).squeeze(-1)

    def _weigh(self, edges: EdgeBatch) -> Tensor:
        there, back = self._logits(edges, self.network_.embed(edges.batch))
        return (torch.sigmoid(there) + torch.sigmoid(back)) / 2


def edge_mlp(n_in: int, hidden: int) -> nn.Sequential:
    """[h_i; h_j] → the logit of edge ij."""
    return nn.Sequential(nn.Linear(2 * n_in, hidden), nn.ReLU(), nn.Linear(hidden, 1))
