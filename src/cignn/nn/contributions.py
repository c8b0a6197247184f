"""Contributions: what every edge of a graph did to the log-odds of a class, by path integrals.

The log-odds F of a class are followed along the `Path` of the network, from no edges to the whole graph. Edge
e contributes c_e = whole_e ∫₀¹ ∂F/∂whole_e(t) dt, so that F(1) = F(0) + Σ_e c_e (integrated gradients,
Sundararajan, Taly and Yan 2017). An ensemble follows the log-odds of its mean probability, with the same t
for all members.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cignn.graphs import GraphBatch
from cignn.nn.model import GraphModel, Path, SingleModel

# of the Gauss–Legendre rule, at first and where the sum is not yet the change. The gates of ReLUs switch on
# the way, so that errors fall only as the inverse of the points; vectors cost nothing to follow
POINTS, VECTOR_POINTS = (8, 32), (64, 256)
TOLERANCE = 0.005  # of the change of the log-odds, or of `SMALL_CHANGE` where that is larger
SMALL_CHANGE = 0.1
CELLS = 1_000_000  # projections that are decided on at once


class Contributions(NamedTuple):
    """What the edges of a batch contributed to the log-odds of a class, in nats.

    Parameters
    ----------
    values : Tensor of shape (b, n, n)
        Signed contributions, symmetric; an edge's whole contribution is in both of its entries.
    base : Tensor of shape (b,)
        Log-odds without edges.
    log_odds : Tensor of shape (b,)
        Log-odds of the graphs, ``base`` and the contributions of their edges together.

    Examples
    --------
    >>> from cignn.nn import Contributions
    >>> Contributions._fields
    ('values', 'base', 'log_odds')
    """

    values: Tensor
    base: Tensor
    log_odds: Tensor


def log_odds(logits: Tensor, target: Tensor) -> Tensor:
    """Log-odds of a class under the mean probability of several networks.

    Parameters
    ----------
    logits : Tensor of shape (m, ..., classes)
        Class logits of every network.
    target : Tensor of shape (...,)
        Class numbers.

    Returns
    -------
    Tensor of shape (...,)
        log p − log(1 − p) in nats, p the mean probability of the class.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import log_odds
    >>> log_odds(torch.tensor([[[2.0, 0.0]]]), torch.tensor([0])).item()
    2.0
    """
    log_prob = torch.log_softmax(logits, -1).logsumexp(0)  # of the sum over networks
    chosen = target.unsqueeze(-1) == torch.arange(logits.shape[-1], device=logits.device)
    others = log_prob.masked_fill(chosen, -torch.inf).logsumexp(-1)
    return log_prob.gather(-1, target.unsqueeze(-1)).squeeze(-1) - others


def contributions(network: GraphModel, batch: GraphBatch, target: Tensor | None) -> Contributions:
    """Contributions of all edges to the log-odds of a class, or to a score.

    The integral takes 8 points (64 with ``readout="edges"``), and four times as many for graphs whose
    contributions do not yet add up to the change of the log-odds within 0.5 %. What is still missing then is
    added in proportion to the size of the contributions.

    Parameters
    ----------
    network : GraphModel
        A network or an ensemble, in evaluation mode.
    batch : GraphBatch
        The graphs.
    target : Tensor of shape (b,) or None
        The class number to explain, for each graph; None for a network of scores.

    Returns
    -------
    Contributions
        Contributions and log-odds, or scores in the units the network learnt them in, without a gradient.

    Examples
    --------
    >>> import torch
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import GNN, contributions
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> found = contributions(GNN(batch.x.shape[-1], 2).eval(), batch, torch.ones(4, dtype=torch.long))
    >>> total = found.base + found.values.sum((1, 2)) / 2
    >>> torch.allclose(total, found.log_odds, atol=1e-4)
    True
    """
    paths = _paths(network, batch)
    points, more_points = VECTOR_POINTS if _vectors(paths) else POINTS
    found = integral(paths, target, points)
    some = _missing(found).nonzero().squeeze(1)
    if len(some):
        wanted = None if target is None else target[some]
        again = integral(_paths(network, batch.part(some)), wanted, more_points)
        for values, better in zip(found, again, strict=True):
            values[some] = better
    return Contributions(paths[0].edge_matrix(_complete(found)), found.base, found.end)


def _paths(network: GraphModel, batch: GraphBatch) -> list[Path]:
    """The path of every network of an ensemble."""
    with torch.no_grad():
        return [member.path(batch) for member in network.networks() if isinstance(member, SingleModel)]


def _vectors(paths: Sequence[Path]) -> bool:
    """Whether there is one vector per graph to follow along the paths."""
    with torch.no_grad():
        return all(path.project(path.whole[:1]).dim() == 2 for path in paths)


class Integral(NamedTuple):
    """An integral; values : (b, ...), of the entries of ``Path.whole``, summed over members."""

    values: Tensor
    base: Tensor
    end: Tensor


def integral(paths: Sequence[Path], target: Tensor | None, points: int = VECTOR_POINTS[0]) -> Integral:
    """Integrate the log-odds of the target classes (b,), or scores, along paths, by a Gauss–Legendre rule."""
    with torch.enable_grad():
        wholes = [path.whole.detach().requires_grad_() for path in paths]
        projections = [path.project(whole) for path, whole in zip(paths, wholes, strict=True)]
        slopes, base, end = _mean_slopes(paths, [h.detach() for h in projections], target, points)
        gradients = torch.autograd.grad(projections, wholes, slopes)
    values = torch.zeros_like(paths[0].whole)
    for path, gradient in zip(paths, gradients, strict=True):
        values.addcmul_(path.whole, gradient)
    return Integral(values, base, end)


class _Slopes(NamedTuple):
    """Mean slopes of the log-odds by the projections of each path, and the log-odds at both ends."""

    slopes: list[Tensor]
    base: Tensor
    end: Tensor


def _mean_slopes(
    paths: Sequence[Path], projections: list[Tensor], target: Tensor | None, points: int
) -> _Slopes:
    """Follow the paths; projections : (b, ...) of each path at its end."""
    nodes, weights = (np.pad(values, 1) for values in quadrature(points))  # both ends, which count nothing
    nodes[-1] = 1
    at_once = max(1, CELLS // max(1, sum(h.numel() for h in projections)))
    slopes = [torch.zeros_like(h) for h in projections]
    odds = []
    for start in range(0, len(nodes), at_once):
        part = slice(start, start + at_once)
        t, weight = (torch.tensor(values[part]).to(projections[0]) for values in (nodes, weights))
        moved = [_times(t, h).requires_grad_() for h in projections]
        logits = [_decisions(path, h) for path, h in zip(paths, moved, strict=True)]
        together = torch.stack(logits)
        value = together.mean(0)[..., 0] if target is None else log_odds(together, target.expand(len(t), -1))
        gradients = torch.autograd.grad((value * weight.unsqueeze(1)).sum(), moved)
        for slope, gradient in zip(slopes, gradients, strict=True):
            slope += gradient.sum(0)
        odds.append(value.detach())
    along = torch.cat(odds)
    return _Slopes(slopes, along[0].clone(), along[-1].clone())


@cache
def quadrature(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in [0, 1] and their weights, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1) / 2, weights / 2


def _times(t: Tensor, h: Tensor) -> Tensor:
    """(k,) and (b, ...) → (k, b, ...)."""
    return t.view(-1, *[1] * h.dim()) * h


def _decisions(path: Path, moved: Tensor) -> Tensor:
    """(k, b, classes) logits of projections (k, b, ...); graphs are read one point at a time."""
    if moved.dim() == 3:
        return path.decide(moved.flatten(0, 1)).unflatten(0, moved.shape[:2])
    return torch.stack([path.decide(h) for h in moved])


def _missing(found: Integral) -> Tensor:
    """(b,) whether the contributions of a graph do not yet add up to the change of its log-odds."""
    change = found.end - found.base
    error = (found.values.flatten(1).sum(1) - change).abs()
    return error > TOLERANCE * change.abs().clamp(min=SMALL_CHANGE)


def _complete(found: Integral) -> Tensor:
    """Add what is missing to the contributions of each graph, in proportion to their size."""
    values, sizes = found.values.flatten(1), found.values.flatten(1).abs()
    error = (found.end - found.base).double() - values.sum(1, dtype=torch.float64)
    share = error / sizes.sum(1, dtype=torch.float64).clamp(min=1e-12)
    return torch.addcmul(values, sizes, share.to(sizes)[:, None]).view_as(found.values)
