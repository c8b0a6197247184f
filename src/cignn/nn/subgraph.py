"""The causal subgraph θ2: which edges of the graph the classifier may read."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.nn.noise import Noise, uniform

LEAST_SHARE = 0.1  # of its edges that a cut graph keeps
TIE_NOISE = 0.02  # weights that differ by less change places when a graph is cut


class EdgeScorer(nn.Module):
    """Edge logits by an MLP on [h_i; h_j], averaged over both orders of the nodes."""

    def __init__(self, n_in: int, hidden: int = 64, start: float | None = None) -> None:
        super().__init__()
        self.source = nn.Linear(n_in, hidden)
        self.target = nn.Linear(n_in, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)
        if start is not None:
            nn.init.constant_(self.out.bias, start)

    def forward(self, h: Tensor, edges: Tensor) -> Tensor:
        """Return the logits (b, e) of the edges at these positions; h : (b, n, n_in), edges : (b, e)."""
        n = h.shape[1]
        i, j = (
            part.unsqueeze(-1).expand(-1, -1, self.source.out_features) for part in (edges // n, edges % n)
        )
        source, target = self.source(h), self.target(h)  # the first map is linear: once per node
        forth = torch.relu(source.gather(1, i) + target.gather(1, j))
        back = torch.relu(source.gather(1, j) + target.gather(1, i))
        return self.out((forth + back) / 2).squeeze(-1)


def edge_matrices(values: Tensor, edges: Tensor, like: Tensor) -> Tensor:
    """Symmetric matrices (b, n, n) of the values (b, e) of edges at these positions, 0 elsewhere."""
    upper = torch.zeros_like(like).flatten(1).scatter(1, edges, values).view_as(like)
    return upper + upper.transpose(1, 2)


def symmetric_uniform(like: Tensor, noise: Noise | None = None) -> Tensor:
    """Draw from [0, 1), one draw per pair of nodes, 0 on the diagonal; like : (b, n, n)."""
    draw = uniform(like, noise, 2).triu(1)
    return draw + draw.transpose(1, 2)


def pair_draws(like: Tensor, edges: Tensor, noise: Noise | None = None) -> Tensor:
    """Draw from [0, 1) for every pair of nodes and return the draws (b, e) of these edges; like : (b, n, n).

    A draw then depends on the nodes of its edge alone, not on how many edges other graphs have.
    """
    return uniform(like, noise, 2).flatten(1).gather(1, edges)


def heaviest_edges(weights: Tensor, edges: Tensor, noise: Noise | None = None) -> Tensor:
    """Keep a random share of the edges of each graph, those of the largest weights; more often few.

    weights, edges : (b, n, n), symmetric, edges 1 or 0. Edges of nearly the same weight are kept in random
    order. Returns 1 for kept edges, 0 elsewhere, without a gradient.
    """
    share = LEAST_SHARE + (1 - LEAST_SHARE) * uniform(weights[:, 0, 0], noise).square()
    key = (weights.detach() + TIE_NOISE * symmetric_uniform(weights, noise)).masked_fill(edges == 0, -1.0)
    return _top_edges(key, share * edges.sum((1, 2)) / 2)


def expected_edges(weights: Tensor) -> Tensor:
    """Keep the heaviest edges of each graph, as many as the weights add up to, at least one.

    weights : (b, n, n), symmetric, 0 where there is no edge. Returns 1 for kept edges, 0 elsewhere; edges of
    the same weight are kept together.
    """
    return _top_edges(weights.masked_fill(weights <= 0, -1.0), weights.sum((1, 2)) / 2)


def _top_edges(key: Tensor, count: Tensor) -> Tensor:
    """1 for the ``count`` edges (b,) with the highest keys (b, n, n), 0 for others; no edge has a key < 0."""
    ordered = key.flatten(1).sort(dim=1, descending=True).values
    # every edge is there twice; a lone node has none, and in a network that diverges no weight is a number
    last = (2 * count.nan_to_num().round().clamp(min=1) - 1).clamp(max=ordered.shape[1] - 1)
    threshold = ordered.gather(1, last.long()[:, None])[:, :, None]
    return ((key >= threshold) & (key >= 0)).to(key.dtype)


def sample_edges(
    edge_logits: Tensor, temperature: float = 1.0, noise: Noise | None = None, draw: Tensor | None = None
) -> Tensor:
    """Draw edge weights from the binary concrete distribution, one draw per undirected edge.

    Parameters
    ----------
    edge_logits : Tensor of shape (b, n, n) or (b, n_pairs)
        Logits of the edge probabilities: symmetric matrices, or each edge once.
    temperature : float, default=1.0
        Temperature of the distribution; the lower, the closer the weights are to 0 and 1.
    noise : Noise, default=None
        Source of random numbers; None is torch's own.
    draw : Tensor of the same shape, default=None
        Uniform random numbers in [0, 1); None draws them.

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
    if draw is None:
        matrix = edge_logits.dim() == 3
        draw = symmetric_uniform(edge_logits, noise) if matrix else uniform(edge_logits, noise)
    draw = draw.clamp(1e-6, 1 - 1e-6).logit()
    return torch.sigmoid((edge_logits + draw) / temperature)


def edge_information(edge_logits: Tensor, edge_mask: Tensor, keep: float | Tensor) -> Tensor:
    """Information that edge probabilities carry beyond a fixed share of edges: the price of a subgraph.

    Parameters
    ----------
    edge_logits : Tensor of shape (b, n, n) or (b, n_pairs)
        Logits of the edge probabilities p.
    edge_mask : Tensor of the same shape
        True (or 1) where there is an edge; other logits do not count.
    keep : float or Tensor of shape ()
        Share r of edges that may be kept without a price, in (0, 1).

    Returns
    -------
    Tensor of shape ()
        KL(Bernoulli(p) ‖ Bernoulli(r)) in nats, averaged over the edges of the batch; 0 if there are none.

    See Also
    --------
    edge_price : The same for each graph.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import edge_information
    >>> triangle = ~torch.eye(3, dtype=torch.bool)[None]
    >>> edge_information(torch.zeros(1, 3, 3), triangle, keep=0.5).item()
    0.0
    """
    return EdgeMeans.of(edge_logits.flatten(), edge_mask.flatten()).information(keep)


def edge_price(edge_logits: Tensor, edge_mask: Tensor, keep: float | Tensor) -> Tensor:
    """`edge_information` of each graph by itself: (b,), a mean over its edges, 0 if there are none."""
    return EdgeMeans.of(edge_logits.flatten(1), edge_mask.flatten(1)).information(keep)


class EdgeMeans(NamedTuple):
    """Means over edges of p = sigmoid(l) and of −H(p) = p l − softplus(l), and whether there are edges.

    The divergence of p from any share r follows from them: KL = −H(p) − p log r − (1 − p) log(1 − r).
    """

    prob: Tensor
    negentropy: Tensor
    any: Tensor

    @classmethod
    def of(cls, edge_logits: Tensor, edge_mask: Tensor) -> EdgeMeans:
        """Return the means over the last axis."""
        mask = edge_mask.to(edge_logits.dtype)
        count = mask.sum(-1)
        prob = torch.sigmoid(edge_logits)
        # log p − log(1 − p) = l and log(1 − p) = −softplus(l), finite for every l
        negentropy = prob * edge_logits - F.softplus(edge_logits)
        share = mask / count.clamp(min=1).unsqueeze(-1)
        return cls((prob * share).sum(-1), (negentropy * share).sum(-1), count > 0)

    def information(self, keep: float | Tensor) -> Tensor:
        """Return KL(Bernoulli(p) ‖ Bernoulli(keep)) in nats, 0 without edges."""
        if isinstance(keep, Tensor):
            keep = keep.to(self.prob)
        else:  # filled where it is: no copy from the host
            keep = torch.full((), keep, dtype=self.prob.dtype, device=self.prob.device)
        return (self.negentropy - self.prob * keep.logit() - torch.log1p(-keep)) * self.any
