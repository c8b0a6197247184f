"""The causal subgraph θ2: which edges of the graph the classifier may read."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class EdgeScorer(nn.Module):
    """MLP([h_i; h_j]), averaged over both orders of the nodes; computed on the edges alone."""

    def __init__(self, n_in: int, hidden: int = 64) -> None:
        super().__init__()
        self.source = nn.Linear(n_in, hidden)
        self.target = nn.Linear(n_in, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, edge_mask: Tensor) -> Tensor:
        """h : (b, n, d), edge_mask : (b, n, n) → symmetric logits (b, n, n), zero off the edges."""
        graph, i, j = edge_mask.triu(1).nonzero(as_tuple=True)
        source, target = self.source(h), self.target(h)  # the first map is linear: once per node
        forth = torch.relu(source[graph, i] + target[graph, j])
        back = torch.relu(source[graph, j] + target[graph, i])
        logits = self.out((forth + back) / 2).squeeze(-1)
        upper = logits.new_zeros(edge_mask.shape).index_put((graph, i, j), logits)
        return upper + upper.transpose(1, 2)


def sample_edges(edge_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Draw edge weights in (0, 1) from the binary concrete distribution, one draw per undirected edge.

    edge_logits : (b, n, n), symmetric, or (b, pairs); returns the same shape.
    """
    noise = torch.rand_like(edge_logits).clamp_(1e-6, 1 - 1e-6).logit_()
    if noise.dim() == 3:
        noise = noise.triu_(1)
        noise = noise + noise.transpose(1, 2)
    logits = edge_logits + noise
    return torch.sigmoid(logits if temperature == 1 else logits / temperature)


class EdgeUse(NamedTuple):
    """What probabilities p make of the edges of a batch, means over these; both 0 where there is none."""

    negentropy: Tensor  # p log p + (1 - p) log (1 - p), in nats
    prob: Tensor  # p
    present: Tensor  # 1 where there are edges, else 0

    def information(self, keep: float) -> Tensor:
        """KL(Bernoulli(p) ‖ Bernoulli(keep)) in nats."""
        log_absent_keep = math.log1p(-keep)
        log_odds_keep = math.log(keep) - log_absent_keep
        return self.negentropy - log_odds_keep * self.prob - log_absent_keep * self.present


def edge_use(edge_logits: Tensor, edge_mask: Tensor) -> EdgeUse:
    """Summarise the edges of a batch, of which any number of prices can be made.

    edge_logits, edge_mask : (b, n, n) or (b, pairs).
    """
    mask = edge_mask.to(edge_logits.dtype)
    count = mask.sum()
    negentropy, prob = _EdgeUse.apply(edge_logits, mask, 1 / count.clamp(min=1))
    return EdgeUse(negentropy, prob, count.clamp(max=1))


def edge_information(edge_logits: Tensor, edge_mask: Tensor, keep: float) -> Tensor:
    """KL(Bernoulli(p) ‖ Bernoulli(keep)) in nats, averaged over the edges of the batch: the price of an edge.

    edge_logits, edge_mask : (b, n, n) or (b, pairs).
    """
    return edge_use(edge_logits, edge_mask).information(keep)


class _EdgeUse(torch.autograd.Function):
    """Sums over edges of negentropy and probability, in few passes, finite however sure the logits are.

    p log p + (1 - p) log(1 - p) = p · logit - softplus(logit), whose slope is p (1 - p) · logit.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, mask: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        prob = torch.sigmoid(logits)
        negentropy = torch.addcmul(F.softplus(logits).neg_(), prob, logits)
        ctx.save_for_backward(logits, mask, scale, prob)
        flat = mask.flatten()
        return scale * torch.dot(negentropy.flatten(), flat), scale * torch.dot(prob.flatten(), flat)

    @staticmethod
    def backward(ctx: Any, by_negentropy: Tensor, by_prob: Tensor) -> tuple[Tensor, None, None]:
        logits, mask, scale, prob = ctx.saved_tensors
        slope = prob * mask
        slope.addcmul_(slope, prob, value=-1)
        return slope.mul_(torch.addcmul(scale * by_prob, logits, scale * by_negentropy)), None, None
