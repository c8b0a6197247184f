"""Steps captured in CUDA graphs: what hundreds of small kernels do is launched at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cignn.estimators.feeds import Data, Feed


@dataclass(frozen=True)
class Read:
    """The batches of all networks for one step.

    place : (networks, b) rows of resident graphs, or the tensors themselves; y : (networks, b); width :
    number of nodes they are padded to; own : how many each network draws random numbers for, None for all.
    """

    data: Sequence[Data]
    place: Tensor | dict[str, Tensor]
    y: Tensor
    width: int
    own: Sequence[int] | None = None

    def tensors(self, feed: Feed) -> dict[str, Tensor]:
        """Return the tensors of the batches, (networks, b, ...)."""
        return (
            feed.gather(self.data, self.place, self.width) if isinstance(self.place, Tensor) else self.place
        )


MOST_GRAPHS = 64  # captured: each takes memory, and a shape that comes late rarely comes often
Step = Callable[[Read, Tensor], None]


class Captured:
    """Runs steps; from the second of a kind and shape on, replays what was captured of them.

    generators : those that steps draw from. A step may change only tensors that stay where they are.
    """

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = generators
        self.graphs: dict[Any, tuple[torch.cuda.CUDAGraph, Read, Tensor]] = {}
        self.seen: set[Any] = set()
        self.pool: Any = None

    def run(self, step: Step, batch: Read, active: Tensor) -> None:
        """Take a step on a batch of resident graphs; captured by its method, number of graphs and width."""
        assert isinstance(batch.place, Tensor)
        key = (step, batch.place.shape, batch.width)
        full = key not in self.graphs and len(self.graphs) >= MOST_GRAPHS
        if full or key not in self.seen:  # the first is done as it is: libraries set themselves up in it
            self.seen.add(key)
            step(batch, active)
            return
        if key not in self.graphs:
            self.graphs[key] = self._capture(step, batch, active)
        graph, fixed, fixed_active = self.graphs[key]
        assert isinstance(fixed.place, Tensor)
        fixed.place.copy_(batch.place)
        fixed.y.copy_(batch.y)
        fixed_active.copy_(active)
        graph.replay()

    def _capture(self, step: Step, batch: Read, active: Tensor) -> tuple[torch.cuda.CUDAGraph, Read, Tensor]:
        """Capture a step without taking it."""
        assert isinstance(batch.place, Tensor)
        fixed = replace(batch, place=batch.place.clone(), y=batch.y.clone())
        fixed_active = active.clone()
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        # other threads may use the device meanwhile
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            step(fixed, fixed_active)
        self.pool = graph.pool()
        return graph, fixed, fixed_active
