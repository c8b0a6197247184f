"""The Donsker–Varadhan lower bound of mutual information, from scores of a learned discriminator."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def donsker_varadhan(scores: Tensor) -> Tensor:
    """I(U; V) ≥ E_joint[T] − log E_marginal[exp T], in nats: large when T tells true pairs from false ones.

    scores : (b, b), T(u_i, v_j); pairs that belong together stand on the diagonal, all others are taken as
    draws from the product of the marginals. Returns a scalar; 0 for a T that cannot tell, and for b = 1.
    """
    b = len(scores)
    if b < 2:
        return scores.sum() * 0
    off = scores.masked_fill(torch.eye(b, dtype=torch.bool, device=scores.device), -torch.inf)
    return scores.diagonal().mean() - (off.flatten().logsumexp(0) - math.log(b * (b - 1)))
