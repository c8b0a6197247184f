"""Measures of dependence without entropies: HSIC and the Donsker-Varadhan bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cignn.information.gram import check_grams


def hsic(gram_a: Tensor, gram_b: Tensor) -> Tensor:
    """Biased HSIC, tr(K H L H) / n² with H = I - 11ᵀ/n.

    The divisor is n², the V-statistic: the mean over pairs of samples of the product of the two centred
    kernels. It is defined for a single sample too (0), unlike the (n - 1)² of Gretton et al. (2005), which
    is larger by n² / (n - 1)².

    Parameters
    ----------
    gram_a, gram_b : (..., n, n), symmetric positive semi-definite; leading dimensions broadcast.

    Returns
    -------
    (...,), at least 0 but for rounding, and 0 where one of the two variables is constant.
    """
    check_grams(gram_a, gram_b)
    # tr(K H L H) = tr(HKH · HLH) because H is idempotent: centring both keeps the estimate symmetric.
    return (_centred(gram_a) * _centred(gram_b)).mean((-2, -1))


def _centred(gram: Tensor) -> Tensor:
    """H K H, (..., n, n)."""
    rows = gram.mean(-1, keepdim=True)
    columns = gram.mean(-2, keepdim=True)
    return gram - rows - columns + rows.mean(-2, keepdim=True)


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
