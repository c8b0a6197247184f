"""Matrix-based Rényi entropies of Gram matrices, and the mutual informations built from them.

All values are in bits. Each function computes all the entropies it needs in one batch, in float64, and
returns the dtype of its inputs. The CPU uses eigenvalues, and so do orders below 1 everywhere; orders above 1
on CUDA use inverses instead, for which the host need not wait (see `power_trace`), and which agree to 1e-6
bits for up to 128 samples. Order 2 needs neither. All functions work under `torch.func.vmap`.

A value that cannot be computed, such as that of a matrix with a NaN, is NaN, and no gradient comes from it;
nothing is raised, and other matrices of the batch are not affected.

Eigenvalues that are rounding count as zero: at low orders, where every eigenvalue weighs nearly the same, an
entropy would otherwise be that of the rounding. There, prefer Gram matrices in float64: those of float32 have
eigenvalues of about 1e-8 that are rounding too, but cannot be told from others.

A joint entropy is never below its marginals. Mutual informations are non-negative in the limit of order 1,
where the entropies are von Neumann's; at other orders they can be slightly negative.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from cignn.information.gram import check_grams
from cignn.information.power_trace import log_power_trace


class CausalTerms(NamedTuple):
    """The terms of the causal loss, each in bits.

    Parameters
    ----------
    independence : Tensor of shape (...,)
        I(α; β), to be made small.
    cmi : Tensor of shape (...,)
        I(α; Y | β), to be made large.
    mi : Tensor of shape (...,) or None
        I(α; Y), the variant without conditioning; None unless asked for.

    References
    ----------
    Equation (8) of the paper.

    Examples
    --------
    >>> from cignn.information import CausalTerms
    >>> CausalTerms._fields
    ('independence', 'cmi', 'mi')
    """

    independence: Tensor
    cmi: Tensor
    mi: Tensor | None


def renyi_entropy(gram: Tensor, order: float = 1.01) -> Tensor:
    """Matrix-based Rényi entropy in bits.

    Parameters
    ----------
    gram : Tensor of shape (..., n, n)
        Symmetric positive semi-definite Gram matrices with a positive trace; they are normalised to trace 1.
    order : float, default=1.01
        Order of the entropy, positive and not 1. Close to 1 it approaches the Shannon entropy.

    Returns
    -------
    Tensor of shape (...,)
        Entropies between 0 (all samples the same) and log2 n (all samples far apart).

    References
    ----------
    Equation (11) of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import renyi_entropy
    >>> round(renyi_entropy(torch.eye(4, dtype=torch.float64)).item(), 6)
    2.0
    """
    return joint_entropy(gram, order=order)


def joint_entropy(*grams: Tensor, order: float = 1.01) -> Tensor:
    """Joint Rényi entropy of several variables in bits: that of the Hadamard product of their Gram matrices.

    Parameters
    ----------
    *grams : Tensor of shape (..., n, n)
        One or more Gram matrices, as in `renyi_entropy`; leading dimensions broadcast.
    order : float, default=1.01
        Order of the entropies, positive and not 1.

    Returns
    -------
    Tensor of shape (...,)
        The joint entropies.

    References
    ----------
    Equation (12) of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import joint_entropy, label_gram
    >>> first, second = label_gram(torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]])).double()
    >>> round(joint_entropy(first, second).item(), 6)
    2.0
    """
    dtype, factors = _prepare(*grams)
    return _entropies(reduce(torch.mul, factors), order).to(dtype)


def mutual_information(gram_a: Tensor, gram_b: Tensor, order: float = 1.01) -> Tensor:
    """I(a; b) = H(a) + H(b) - H(a, b) in bits.

    Parameters
    ----------
    gram_a : Tensor of shape (..., n, n)
        Gram matrices, as in `renyi_entropy`; leading dimensions broadcast.
    gram_b : Tensor of shape (..., n, n)
        Those of the other variable.
    order : float, default=1.01
        Order of the entropies, positive and not 1.

    Returns
    -------
    Tensor of shape (...,)
        The mutual informations.

    References
    ----------
    Equation (9) of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import label_gram, mutual_information
    >>> label = label_gram(torch.tensor([0, 0, 1, 1])).double()
    >>> round(mutual_information(label, label).item(), 6)
    1.0
    """
    dtype, (a, b) = _prepare(gram_a, gram_b)
    h_a, h_b, h_ab = _entropies(torch.stack([a, b, a * b]), order)
    return (h_a + h_b - h_ab).to(dtype)


def conditional_mutual_information(
    gram_a: Tensor, gram_y: Tensor, gram_b: Tensor, order: float = 1.01
) -> Tensor:
    """I(a; y | b) = H(a, b) + H(y, b) - H(b) - H(a, y, b) in bits.

    Parameters
    ----------
    gram_a : Tensor of shape (..., n, n)
        Gram matrices, as in `renyi_entropy`; leading dimensions broadcast.
    gram_y : Tensor of shape (..., n, n)
        Those of the second variable.
    gram_b : Tensor of shape (..., n, n)
        Those of the condition.
    order : float, default=1.01
        Order of the entropies, positive and not 1.

    Returns
    -------
    Tensor of shape (...,)
        The conditional mutual informations.

    References
    ----------
    Equation (10) of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import conditional_mutual_information, label_gram
    >>> label, constant = label_gram(torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]])).double()
    >>> round(conditional_mutual_information(label, label, constant).item(), 6)
    1.0
    """
    dtype, (a, y, b) = _prepare(gram_a, gram_y, gram_b)
    ab = a * b
    h_b, h_ab, h_yb, h_ayb = _entropies(torch.stack([b, ab, y * b, ab * y]), order)
    return (h_ab + h_yb - h_b - h_ayb).to(dtype)


def causal_terms(
    gram_alpha: Tensor, gram_beta: Tensor, gram_y: Tensor, order: float = 1.01, *, with_mi: bool = False
) -> CausalTerms:
    """All terms of the causal loss at once, from one batch of spectra.

    Parameters
    ----------
    gram_alpha : Tensor of shape (..., n, n)
        Gram matrices of α, as in `renyi_entropy`; leading dimensions broadcast.
    gram_beta : Tensor of shape (..., n, n)
        Those of β.
    gram_y : Tensor of shape (..., n, n)
        Those of Y.
    order : float, default=1.01
        Order of the entropies, positive and not 1.
    with_mi : bool, default=False
        Whether to compute I(α; Y) too, which needs two further spectra, those of Y and (α, Y).

    Returns
    -------
    CausalTerms
        The terms, each of shape (...,). The paper's loss is ``terms.independence - terms.cmi``.

    References
    ----------
    Equations (8) to (10) of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.information import causal_terms, label_gram
    >>> label, constant = label_gram(torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]])).double()
    >>> terms = causal_terms(gram_alpha=label, gram_beta=constant, gram_y=label)
    >>> abs(round(terms.independence.item(), 6)), round(terms.cmi.item(), 6)
    (0.0, 1.0)
    """
    dtype, (a, b, y) = _prepare(gram_alpha, gram_beta, gram_y)
    ab = a * b
    matrices = [a, b, ab, y * b, ab * y]
    if with_mi:
        matrices += [y, a * y]
    h_a, h_b, h_ab, h_yb, h_ayb, *extra = _entropies(torch.stack(matrices), order).unbind()
    return CausalTerms(
        independence=(h_a + h_b - h_ab).to(dtype),
        cmi=(h_ab + h_yb - h_b - h_ayb).to(dtype),
        mi=(h_a + extra[0] - extra[1]).to(dtype) if with_mi else None,
    )


def _prepare(*grams: Tensor) -> tuple[torch.dtype, tuple[Tensor, ...]]:
    """Check shapes; return the dtype of the result and the matrices in float64, broadcast to one shape.

    A matrix that is not finite is replaced by zeros, which have no entropy either: as a factor of a product
    it would spoil the gradients of others.
    """
    check_grams(*grams)
    dtype = reduce(torch.promote_types, [gram.dtype for gram in grams])
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    matrices = torch.stack(torch.broadcast_tensors(*[gram.to(torch.float64) for gram in grams]))
    finite = matrices.detach().sum((-2, -1), keepdim=True).abs() < math.inf
    return dtype, torch.where(finite, matrices, 0.0).unbind()


def _entropies(matrices: Tensor, order: float) -> Tensor:
    """Entropies of float64 matrices of any positive trace, (..., n, n) -> (...,)."""
    if not 0 < order < math.inf or order == 1:
        raise ValueError(f"order must be positive and different from 1, got {order}.")
    return log_power_trace(matrices, order) / ((1 - order) * math.log(2))
