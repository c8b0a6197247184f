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
    gram_a : Tensor of shape (..., n, n)
        Symmetric positive semi-definite Gram matrices; leading dimensions broadcast.
    gram_b : Tensor of shape (..., n, n)
        Those of the other variable.

    Returns
    -------
    Tensor of shape (...,)
        At least 0 except for rounding, and 0 where one of the variables is constant.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import hsic
    >>> hsic(torch.eye(2), torch.eye(2)).item(), hsic(torch.eye(2), torch.ones(2, 2)).item()
    (0.25, 0.0)
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
    """Donsker-Varadhan bound of a mutual information: E_joint[T] − log E_marginal[exp T] ≤ I(U; V), in nats.

    It is large when the scores T tell true pairs from false ones.

    Parameters
    ----------
    scores : Tensor of shape (b, b)
        T(u_i, v_j). True pairs are on the diagonal; all others count as draws from the product of the
        marginals.

    Returns
    -------
    Tensor of shape ()
        The bound; 0 where all scores are the same, and for b = 1.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import donsker_varadhan
    >>> round(donsker_varadhan(2 * torch.eye(3)).item(), 4)
    2.0
    """
    b = len(scores)
    if b < 2:
        return scores.sum() * 0
    off = scores.masked_fill(torch.eye(b, dtype=torch.bool, device=scores.device), -torch.inf)
    return scores.diagonal().mean() - (off.flatten().logsumexp(0) - math.log(b * (b - 1)))
