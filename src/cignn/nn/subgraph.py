"""The causal subgraph θ2: which edges of the graph the classifier may read."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class EdgeScorer(nn.Module):
    """Edge logits by an MLP on [h_i; h_j], averaged over both orders of the nodes."""

    def __init__(self, n_in: int, hidden: int = 64) -> None:
        super().__init__()
        self.source = nn.Linear(n_in, hidden)
        self.target = nn.Linear(n_in, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, edge_mask: Tensor) -> Tensor:
        """Return symmetric logits (b, n, n), 0 off the edges; h : (b, n, n_in), edge_mask : (b, n, n)."""
        graph, i, j = edge_mask.triu(1).nonzero(as_tuple=True)
        source, target = self.source(h), self.target(h)  # the first map is linear: once per node
        forth = torch.relu(source[graph, i] + target[graph, j])
        back = torch.relu(source[graph, j] + target[graph, i])
        logits = self.out((forth + back) / 2).squeeze(-1)
        upper = logits.new_zeros(edge_mask.shape).index_put((graph, i, j), logits)
        return upper + upper.transpose(1, 2)


def sample_edges(edge_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Draw edge weights from the binary concrete distribution, one draw per undirected edge.

    Parameters
    ----------
    edge_logits : Tensor of shape (b, n, n) or (b, n_pairs)
        Logits of the edge probabilities: symmetric matrices, or each pair of nodes once.
    temperature : float, default=1.0
        Temperature of the distribution; the lower, the closer the weights are to 0 and 1.

    Returns
    -------
    Tensor of the same shape
        Weights in (0, 1), symmetric where the logits are; gradients reach the logits.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import sample_edges
    >>> weights = sample_edges(torch.zeros(1, 3, 3))
    >>> torch.equal(weights, weights.transpose(1, 2))
    True
    """
    noise = torch.rand_like(edge_logits).clamp(1e-6, 1 - 1e-6).logit()
    if noise.dim() == 3:
        noise = noise.triu(1)
        noise = noise + noise.transpose(1, 2)
    return torch.sigmoid((edge_logits + noise) / temperature)


def edge_information(edge_logits: Tensor, edge_mask: Tensor, keep: float) -> Tensor:
    """Information that edge probabilities carry beyond a fixed share of edges: the price of a subgraph.

    Parameters
    ----------
    edge_logits : Tensor of shape (b, n, n) or (b, n_pairs)
        Logits of the edge probabilities p.
    edge_mask : Tensor of the same shape
        True (or 1) where there is an edge; other logits do not count.
    keep : float
        Share r of edges that may be kept without a price, in (0, 1).

    Returns
    -------
    Tensor of shape ()
        KL(Bernoulli(p) ‖ Bernoulli(r)) in nats, averaged over the edges of the batch; 0 if there are none.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import edge_information
    >>> triangle = ~torch.eye(3, dtype=torch.bool)[None]
    >>> edge_information(torch.zeros(1, 3, 3), triangle, keep=0.5).item()
    0.0
    """
    mask = edge_mask.to(edge_logits.dtype)
    logit_keep = math.log(keep) - math.log1p(-keep)
    # With p = sigmoid(l): log p − log(1 − p) = l and log(1 − p) = −softplus(l), finite for every l.
    prob = torch.sigmoid(edge_logits)
    divergence = prob * (edge_logits - logit_keep) - F.softplus(edge_logits) - math.log1p(-keep)
    return (divergence * mask).sum() / mask.sum().clamp(min=1)
