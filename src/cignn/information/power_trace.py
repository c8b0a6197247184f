"""log tr Aᵒ of matrices A = M / tr M, M symmetric and positive semi-definite, for any positive order o.

Two ways, both batched over leading dimensions:

- on the CPU, and for orders below 1: eigenvalues;
- on CUDA, for orders above 1: tr(A Aᵒ⁻¹), with Aᵒ⁻¹ from integer powers and a sum of shifted inverses,
  λᶠ ≈ c + dλ + Σₖ wₖ / (λ + tₖ). Eigenvalue solvers make the host wait, inverses do not, so that a training
  step can be captured in a CUDA graph. It is also the way out where a solver does not converge, and at order
  2, where nothing needs to be inverted, the way everywhere.

The sum of inverses errs by less than 1e-6 bits of entropy for up to 128 samples; it needs matrices A whose
eigenvalues are above -5e-8, others give NaN. Value and gradient are computed together, outside of autograd:
no temporaries are kept, what is not finite is taken out of both, and there are no second derivatives.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Of n samples, eigenvalues below 10 n roundings of the largest are rounding: LAPACK errs by up to 3 of them
# for a few samples, by about 20 for hundreds.
_ROUNDINGS = 10
# The smallest shift is above the negative eigenvalues that rounding to float32 leaves in a Gram matrix
# (about 1e-8 of the trace), the number of shifts what keeps the error below 1e-6 bits.
_SHIFTS, _SMALLEST_SHIFT, _LARGEST_SHIFT = 16, 5e-8, 5.0
_MOST_SAMPLES = 128
# Powers of matrices underflow at larger orders.
_LARGEST_ORDER = 64


def log_power_trace(matrices: Tensor, order: float) -> Tensor:
    """log tr Aᵒ, (..., n, n) -> (...,); NaN without a gradient where it cannot be computed."""
    constant = matrices.detach()
    value, slope = _value_and_slope(constant, order)
    unknown = ~(value.abs() < math.inf)
    slope = slope.masked_fill(unknown[..., None, None], 0.0)
    return value.masked_fill(unknown, torch.nan) + (slope * (matrices - constant)).sum((-2, -1))


def _value_and_slope(matrices: Tensor, order: float) -> tuple[Tensor, Tensor]:
    """log tr Aᵒ and its gradient with respect to M, (...,) and (..., n, n)."""
    if _without_eigenvalues(matrices, order):
        return _from_power(matrices, order)
    try:
        values, vectors = torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:
        if has_way_without_eigenvalues(order):
            return _from_power(matrices, order)
        solved = [_stubborn_eigh(matrix) for matrix in matrices.reshape(-1, *matrices.shape[-2:])]
        values = torch.stack([values for values, _ in solved]).view(matrices.shape[:-1])
        vectors = torch.stack([vectors for _, vectors in solved]).view(matrices.shape)
    return _from_eigenvalues(values, vectors, order)


def _without_eigenvalues(matrices: Tensor, order: float) -> bool:
    """Whether to take the way that never makes the host wait for the device."""
    return order == 2 or (matrices.is_cuda and has_way_without_eigenvalues(order))


def has_way_without_eigenvalues(order: float) -> bool:
    """Whether CUDA needs no eigenvalues at this order, so that a training step can be captured."""
    return 1 < order <= _LARGEST_ORDER


def _from_eigenvalues(values: Tensor, vectors: Tensor, order: float) -> tuple[Tensor, Tensor]:
    """log Σ λᵒ - o log Σ λ of ascending spectra (..., n), and V diag(its derivative) Vᵀ.

    What is rounding, often negative, adds nothing at any order and gets no gradient. It is left out of both
    sums, which keeps the entropy between 0 and log2 n.
    """
    largest = values[..., -1:]
    ratios = values / largest  # so that no power underflows
    absent = ratios <= _ROUNDINGS * values.shape[-1] * torch.finfo(values.dtype).eps
    ratios = ratios.masked_fill(absent, 0.0)
    powers = ratios.pow(order - 1).masked_fill(absent, 0.0)
    power_sum, ratio_sum = (ratios * powers).sum(-1, keepdim=True), ratios.sum(-1, keepdim=True)
    value = power_sum.log() - order * ratio_sum.log()
    derivative = (powers / power_sum - 1 / ratio_sum).masked_fill(absent, 0.0) * (order / largest)
    return value.squeeze(-1), (vectors * derivative.unsqueeze(-2)) @ vectors.mT


def _stubborn_eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Try again on the CPU, whose algorithm is another, with a diagonal moved by less than a rounding."""
    shift = torch.linspace(0, torch.finfo(matrix.dtype).eps / 2, len(matrix), dtype=matrix.dtype)
    try:
        values, vectors = torch.linalg.eigh(matrix.cpu() + shift.diag())
    except torch.linalg.LinAlgError:
        return torch.full_like(matrix[0], torch.nan), matrix
    return values.to(matrix.device), vectors.to(matrix.device)


def _from_power(matrices: Tensor, order: float) -> tuple[Tensor, Tensor]:
    """The same without eigenvalues: log tr(A Aᵒ⁻¹), and o (Aᵒ⁻¹ / tr Aᵒ - I) / tr M."""
    trace = matrices.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    density = matrices / trace
    power = _power(density, order - 1)
    power_trace = (density * power).sum((-2, -1), keepdim=True)
    eye = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    return power_trace.log()[..., 0, 0], order / trace * (power / power_trace - eye)


def _power(density: Tensor, exponent: float) -> Tensor:
    """Aᵖ for a positive p, (..., n, n) -> (..., n, n)."""
    whole = math.floor(exponent)
    fraction = exponent - whole
    if fraction == 0:
        return torch.linalg.matrix_power(density, whole)
    terms = _fractional_power(fraction, density.dtype, density.device)
    eye = torch.eye(density.shape[-1], dtype=density.dtype, device=density.device)
    # Cholesky factors, because batched LU factors cannot be captured: Σ w (LLᵀ)⁻¹ = Σ w L⁻ᵀL⁻¹.
    shifted = density.unsqueeze(-3) + terms.shifts * eye
    factors, failed = torch.linalg.cholesky_ex(shifted)
    roots = torch.linalg.solve_triangular(factors, eye.expand(shifted.shape), upper=False)
    power = terms.constant * eye + terms.slope * density
    power = power + (terms.weights * roots).flatten(-3, -2).mT @ roots.flatten(-3, -2)
    power = power.masked_fill((failed != 0).any(-1)[..., None, None], torch.nan)
    return torch.linalg.matrix_power(density, whole) @ power if whole else power


class _Terms(NamedTuple):
    """λᶠ ≈ constant + slope λ + Σ weights / (λ + shifts); the last two are (k, 1, 1)."""

    constant: float
    slope: float
    weights: Tensor
    shifts: Tensor


@lru_cache(maxsize=64)
def _fractional_power(fraction: float, dtype: torch.dtype, device: torch.device) -> _Terms:
    """The terms for an exponent between 0 and 1.

    Least squares for (1 - λᶠ) / f, the logarithm as f approaches 0, so that the error does not grow when an
    entropy divides by f. The functions fitted vanish at 1 as it does. The shifts cluster towards 0 with
    density tapering off, which halves their number (Trefethen, Nakatsukasa and Weideman, 2021). An error
    counts as often as there can be eigenvalues of its size: once for each of n samples, 1 / λ at most.
    """
    steps = np.sqrt(np.arange(1, _SHIFTS + 1))
    steps = (steps - steps[0]) / (steps[-1] - steps[0])
    shifts = _SMALLEST_SHIFT * (_LARGEST_SHIFT / _SMALLEST_SHIFT) ** steps
    values = np.geomspace(1e-3 * _SMALLEST_SHIFT, 1, 3000)[:, None]
    counted = np.minimum(_MOST_SAMPLES * values, 1)
    functions = np.hstack([shifts * (1 - values) / (values + shifts), 1 - values])
    target = -np.expm1(fraction * np.log(values)) / fraction
    fitted = np.linalg.lstsq(counted * functions, (counted * target)[:, 0], rcond=None)[0]
    # (1 - λ) / (λ + t) = (1 + t) / (λ + t) - 1
    scaled, slope = fraction * fitted[:-1] * shifts, fraction * float(fitted[-1])
    weights, shifts = (
        torch.tensor(x, dtype=dtype, device=device)[:, None, None] for x in (-scaled * (1 + shifts), shifts)
    )
    return _Terms(1 + float(scaled.sum()) - slope, slope, weights, shifts)
