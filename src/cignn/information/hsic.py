"""Hilbert-Schmidt independence criterion: a check of independence that shares nothing with the entropies."""

from __future__ import annotations

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
