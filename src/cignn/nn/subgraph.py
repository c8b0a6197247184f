"""The causal subgraph θ2: which edges of the graph the classifier may read."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


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


def edge_information(edge_logits: Tensor, edge_mask: Tensor, keep: float) -> Tensor:
    """KL(Bernoulli(p) ‖ Bernoulli(keep)) in nats, averaged over the edges of the batch: the price of an edge.

    edge_logits, edge_mask : (b, n, n) or (b, pairs). With softplus: finite however sure the logits are.
    """
    prob = torch.sigmoid(edge_logits)
    log_absent_keep = math.log1p(-keep)
    log_odds_keep = math.log(keep) - log_absent_keep
    # p log(p / r) + (1 - p) log((1 - p) / (1 - r)), with log(1 - p) = -softplus(logit). The gradient goes
    # through p alone: p · logit - softplus(logit) changes with the logit beside p by p - p = 0.
    logits, mask = edge_logits.detach(), edge_mask.to(edge_logits.dtype)
    absent = F.softplus(logits).add_(log_absent_keep).neg_()
    divergence = torch.addcmul(absent, prob, logits - log_odds_keep)
    return (divergence * mask).sum() / mask.sum().clamp(min=1)
