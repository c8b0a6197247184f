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

    Attributes
    ----------
    widths : sequence of int or None
        Numbers of nodes for which each network draws, however far its graphs are padded for the sake of
        others. None draws for all nodes.

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
        self.widths: Sequence[int] | None = None

    def uniform(self, like: Tensor, nodes: int = 0) -> Tensor:
        """Draw from the uniform distribution on [0, 1).

        Parameters
        ----------
        like : Tensor
            Tells shape, dtype and device.
        nodes : int, default=0
            How many axes after the first run over nodes.

        Returns
        -------
        Tensor
            Of the same shape.
        """
        return _Draw.apply(like, self, _uniform, nodes)

    def normal(self, like: Tensor, nodes: int = 0) -> Tensor:
        """Draw from the standard normal distribution.

        Parameters
        ----------
        like : Tensor
            Tells shape, dtype and device.
        nodes : int, default=0
            How many axes after the first run over nodes.

        Returns
        -------
        Tensor
            Of the same shape.
        """
        return _Draw.apply(like, self, _normal, nodes)

    def _write(self, out: Tensor, row: int, fill: Fill, nodes: int) -> Tensor:
        """Fill a tensor with random numbers of one network, 0 beyond its own nodes."""
        n = out.shape[1] if nodes else 0
        width = n if self.widths is None or not nodes else self.widths[row]
        if width == n:
            return fill(out, self.generators[row])
        drawn = fill(out.new_empty(len(out), *[width] * nodes, *out.shape[1 + nodes :]), self.generators[row])
        own = (slice(None), *[slice(min(width, n))] * nodes)
        out.zero_()[own] = drawn[own]
        return out


class _Draw(torch.autograd.Function):
    """Draws that know, under vmap, which network they are for."""

    @staticmethod
    def forward(like: Tensor, noise: Noise, fill: Fill, nodes: int) -> Tensor:
        return noise._write(torch.empty_like(like, memory_format=torch.contiguous_format), 0, fill, nodes)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, None]:
        return None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple, like: Tensor, noise: Noise, fill: Fill, nodes: int
    ) -> tuple[Tensor, int]:
        like = like.movedim(in_dims[0], 0)
        out = torch.empty_like(like, memory_format=torch.contiguous_format)
        for row, part in enumerate(out):
            noise._write(part, row, fill, nodes)
        return out, 0


def uniform(like: Tensor, noise: Noise | None, nodes: int = 0) -> Tensor:
    """Draw as `Noise.uniform` does; without a noise, from torch's own generator."""
    return torch.rand_like(like) if noise is None else noise.uniform(like, nodes)


def normal(like: Tensor, noise: Noise | None, nodes: int = 0) -> Tensor:
    """Draw as `Noise.normal` does; without a noise, from torch's own generator."""
    return torch.randn_like(like) if noise is None else noise.normal(like, nodes)


def dropout(h: Tensor, probability: float, noise: Noise | None) -> Tensor:
    """Set each entry to 0 with a probability and scale the others, so that the mean stays."""
    if probability == 0:
        return h
    return h * ((uniform(h, noise) >= probability) / (1 - probability))
