"""Random numbers of networks that are trained together, each network's from a generator of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Fill = Callable[[Tensor, torch.Generator], Tensor]  # writes random numbers into a tensor


def _uniform(out: Tensor, generator: torch.Generator) -> Tensor:
    return out.uniform_(generator=generator)


def _normal(out: Tensor, generator: torch.Generator) -> Tensor:
    return out.normal_(generator=generator)


class Noise:
    """Random numbers for a stack of networks.

    Network i of a stack, which runs under `torch.func.vmap`, draws from ``generators[i]``: its numbers do not
    depend on the other networks.

    Parameters
    ----------
    generators : sequence of torch.Generator
        One for each network, on the device of the networks.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import Noise
    >>> alone = Noise([torch.Generator().manual_seed(7)]).uniform(torch.zeros(3))
    >>> both = Noise([torch.Generator().manual_seed(seed) for seed in (5, 7)])
    >>> torch.equal(torch.func.vmap(both.uniform)(torch.zeros(2, 3))[1], alone)
    True
    """

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = list(generators)

    def uniform(self, like: Tensor) -> Tensor:
        """Draw from the uniform distribution on [0, 1).

        Parameters
        ----------
        like : Tensor
            Tells shape, dtype and device.

        Returns
        -------
        Tensor
            Of the same shape.
        """
        return _Draw.apply(like, self, _uniform)

    def normal(self, like: Tensor) -> Tensor:
        """Draw from the standard normal distribution.

        Parameters
        ----------
        like : Tensor
            Tells shape, dtype and device.

        Returns
        -------
        Tensor
            Of the same shape.
        """
        return _Draw.apply(like, self, _normal)


class _Draw(torch.autograd.Function):
    """Draws that know, under vmap, which network they are for."""

    @staticmethod
    def forward(like: Tensor, noise: Noise, fill: Fill) -> Tensor:
        return fill(torch.empty_like(like, memory_format=torch.contiguous_format), noise.generators[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        return None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, like: Tensor, noise: Noise, fill: Fill) -> tuple[Tensor, int]:
        like = like.movedim(in_dims[0], 0)
        out = torch.empty_like(like, memory_format=torch.contiguous_format)
        for part, generator in zip(out, noise.generators, strict=True):
            fill(part, generator)
        return out, 0


def uniform(like: Tensor, noise: Noise | None) -> Tensor:
    """Draw as `Noise.uniform` does; without a noise, from torch's own generator."""
    return torch.rand_like(like) if noise is None else noise.uniform(like)


def normal(like: Tensor, noise: Noise | None) -> Tensor:
    """Draw as `Noise.normal` does; without a noise, from torch's own generator."""
    return torch.randn_like(like) if noise is None else noise.normal(like)


def dropout(h: Tensor, probability: float, noise: Noise | None) -> Tensor:
    """Set each entry to 0 with a probability and scale the others, so that the mean stays."""
    if probability == 0:
        return h
    return h * ((uniform(h, noise) >= probability) / (1 - probability))
