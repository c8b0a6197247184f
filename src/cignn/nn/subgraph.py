"""The causal subgraph θ2: which edges of the graph the classifier may read."""

from __future__ import annotations

import torch
from torch import Tensor


def sample_edges(edge_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Draw edge weights in (0, 1) from the binary concrete distribution, one draw per undirected edge.

    edge_logits : (b, n, n), symmetric; returns the same shape, symmetric.
    """
    uniform = torch.rand_like(edge_logits).clamp_(1e-6, 1 - 1e-6)
    noise = torch.logit(uniform).triu_(1)
    return torch.sigmoid((edge_logits + noise + noise.transpose(1, 2)) / temperature)


def edge_information(edge_logits: Tensor, edge_mask: Tensor, keep: float) -> Tensor:
    """KL(Bernoulli(p) ‖ Bernoulli(keep)) in nats, averaged over the edges of the batch: the price of an edge.

    edge_logits, edge_mask : (b, n, n). Written with softplus: finite however sure the logits are.
    """
    prob = torch.sigmoid(edge_logits)
    log_odds_keep = torch.logit(torch.tensor(keep, dtype=torch.float64)).item()
    log_absent_keep = torch.log1p(-torch.tensor(keep, dtype=torch.float64)).item()
    # p log(p / r) + (1 - p) log((1 - p) / (1 - r)), with log(1 - p) = -softplus(logit)
    divergence = (
        prob * (edge_logits - log_odds_keep) - torch.nn.functional.softplus(edge_logits) - log_absent_keep
    )
    return (divergence * edge_mask).sum() / edge_mask.sum().clamp(min=1)
