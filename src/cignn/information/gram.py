"""Gram matrices, and the dependence measures that need no entropy: HSIC and the Donsker-Varadhan bound."""

from __future__ import annotations

import math
from numbers import Integral

import torch
from torch import Tensor

_NEIGHBOURS = 10
# A nearest-neighbour distance below this many roundings of the mean pairwise distance counts as zero.
_ROUNDINGS = 100


def bandwidth(x: Tensor, neighbours: int = _NEIGHBOURS) -> Tensor:
    """Kernel width: the mean distance of a sample to its nearest other samples.

    It carries no gradient: a width that followed the latents would let a loss change the ruler instead of
    what is measured. Where most samples have duplicates and the width is numerically zero, it is the mean
    of all pairwise distances; where that is zero too (constant samples, or a single one), it is 1.

    Parameters
    ----------
    x : Tensor of shape (..., n, d)
        Samples.
    neighbours : int, default=10
        How many nearest other samples to average over; n - 1 if there are fewer.

    Returns
    -------
    Tensor of shape (...,)
        Widths, finite and positive.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import bandwidth
    >>> bandwidth(torch.tensor([[0.0], [1.0], [2.0]]), neighbours=1).item()
    1.0
    """
    dtype = _float_dtype(x)
    return _width(_distances(x.detach()), neighbours, dtype).to(dtype)


def gaussian_gram(x: Tensor, sigma: float | Tensor | None = None) -> Tensor:
    """Gaussian Gram matrix K(i, j) = exp(-‖xᵢ - xⱼ‖² / σ²).

    Parameters
    ----------
    x : Tensor of shape (..., n, d)
        Samples.
    sigma : float or Tensor of shape (...,), default=None
        Kernel width; None takes ``bandwidth(x)``.

    Returns
    -------
    Tensor of shape (..., n, n)
        Symmetric matrices with entries in [0, 1], exactly 1 on the diagonal.

    References
    ----------
    The kernel κ of definition 1 of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import gaussian_gram
    >>> gaussian_gram(torch.tensor([[0.0], [0.0], [1e3]]), sigma=1.0).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    dtype = _float_dtype(x)
    distances = _distances(x)
    if sigma is None:
        sigma = _width(distances.detach(), _NEIGHBOURS, dtype)
    if isinstance(sigma, Tensor):
        sigma = sigma.to(distances.dtype)[..., None, None]
    elif not sigma > 0:
        raise ValueError(f"sigma must be positive, got {sigma}.")
    return torch.exp(-(distances / sigma).square()).to(dtype)


def label_gram(y: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Gram matrix of class labels: 1 where two samples share the label, else 0.

    The names of the classes do not matter: 0, 1, 2 and 0, 10, 20 give the same matrix.

    Parameters
    ----------
    y : Tensor of shape (..., n)
        Whole numbers or truth values, one per sample.
    dtype : torch.dtype, default=torch.float32
        Type of the result.

    Returns
    -------
    Tensor of shape (..., n, n)
        Symmetric matrices of zeros and ones.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import label_gram
    >>> label_gram(torch.tensor([0, 0, 7])).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if y.is_floating_point():
        raise ValueError(f"labels must be integers, got {y.dtype}; use gaussian_gram for predictions.")
    return (y.unsqueeze(-1) == y.unsqueeze(-2)).to(dtype)


def check_grams(*grams: Tensor) -> None:
    """Raise ValueError unless all Gram matrices are (..., n, n) with the same n."""
    for gram in grams:
        if gram.ndim < 2 or gram.shape[-1] != gram.shape[-2]:
            raise ValueError(f"a Gram matrix must be square, (..., n, n), got {tuple(gram.shape)}.")
    sizes = [gram.shape[-1] for gram in grams]
    if len(set(sizes)) > 1:
        raise ValueError(f"Gram matrices must be over the same samples, got sizes {sizes}.")


def _distances(x: Tensor) -> Tensor:
    """Euclidean distances in float64, (..., n, d) -> (..., n, n).

    From differences, not from inner products: those would leave sqrt(eps) instead of 0 between duplicates
    and on the diagonal. The gradient at distance 0 is 0.
    """
    if x.ndim < 2:
        raise ValueError(f"samples must have shape (..., n, d), got {tuple(x.shape)}.")
    x = x.to(torch.float64)
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


def _width(distances: Tensor, neighbours: int, dtype: torch.dtype) -> Tensor:
    """Kernel width from (..., n, n) distances of samples that were stored as `dtype`, in float64."""
    if isinstance(neighbours, bool) or not isinstance(neighbours, Integral) or neighbours < 1:
        raise ValueError(f"neighbours must be a whole number of at least 1, got {neighbours!r}.")
    n = distances.shape[-1]
    if n < 2:
        return distances.new_ones(distances.shape[:-2])
    k = min(int(neighbours), n - 1)
    # The distance of a sample to itself is the smallest and adds nothing: k + 1 terms, k of them others.
    near = distances.topk(k + 1, dim=-1, largest=False, sorted=False).values.sum((-2, -1)) / (n * k)
    overall = distances.sum((-2, -1)) / (n * (n - 1))
    width = torch.where(near > _ROUNDINGS * torch.finfo(dtype).eps * overall, near, overall)
    width = torch.where(width > 0, width, 1.0)
    # Only samples near the ends of their number range come here: the width must be a number of that range.
    return width.clamp(torch.finfo(dtype).tiny, torch.finfo(dtype).max)


def _float_dtype(x: Tensor) -> torch.dtype:
    return x.dtype if x.is_floating_point() else torch.get_default_dtype()


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
