"""Time two things in turn: on a noisy machine only the ratio of neighbours means something."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

Work = Callable[[], Any]


@dataclass(frozen=True)
class Quartiles:
    """Lower quartile, median and upper quartile of repeated measurements."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> Quartiles:
        """Summarise measurements."""
        return cls(*np.quantile(values, [0.25, 0.5, 0.75]).tolist())


@dataclass(frozen=True)
class Row:
    """One entry of the table: times in seconds, the figure made of them and, if there is one, its target."""

    what: str
    times: dict[str, Quartiles]
    figure: Quartiles
    target: str = ""
    met: bool | None = None
    kind: str = "ratio"
    notes: dict[str, str] = field(default_factory=dict)  # further lines, by their names

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return asdict(self)


def seconds(work: Work, device: torch.device) -> float:
    """Time one call, waiting for the device before and after."""
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def in_turn(
    first: Work, second: Work, device: torch.device, repeats: int, warm_up: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Time two works as A, B, A, B, …; returns the seconds of each, (repeats,) and (repeats,)."""
    pairs = [(seconds(first, device), seconds(second, device)) for _ in range(warm_up + repeats)]
    times = np.array(pairs[warm_up:])
    return times[:, 0], times[:, 1]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
