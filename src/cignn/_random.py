"""Randomness: what a ``random_state`` may be, the generator made of it, and torch's own generators."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from cignn._checks import shown

if TYPE_CHECKING:
    import torch

RandomState = None | int | np.random.RandomState | np.random.Generator

_lock = threading.RLock()


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a random generator for any customary ``random_state``.

    random_state : None for a new one each time, a number for the same one each time, a `Generator` to draw
    from it, or a `RandomState`, which seeds a new generator and thereby moves on.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    _check(random_state)
    return np.random.default_rng(random_state)


def as_random_state(random_state: Any) -> np.random.RandomState:
    """Return scikit-learn's kind of generator for any customary ``random_state``; a `Generator` moves on."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    if not isinstance(random_state, np.random.RandomState):
        _check(random_state)
        if isinstance(random_state, (int, np.integer)) and random_state >= 2**32:
            raise ValueError(f"random_state must be less than 2**32, got {shown(random_state)}.")
    return check_random_state(random_state)


def _check(random_state: Any) -> None:
    if isinstance(random_state, (int, np.integer)) and random_state < 0:
        raise ValueError(f"random_state must not be negative, got {shown(random_state)}.")
    if random_state is not None and not isinstance(random_state, (int, np.integer, np.random.Generator)):
        kind = type(random_state).__name__
        raise ValueError(f"random_state must be None, an int, a RandomState or a Generator, got {kind}.")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let one thread of the process in at a time; it may come in again. For what threads share in torch."""
    with _lock:
        yield


@contextmanager
def torch_seed(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's generators, that of the CPU and that of the device, and leave them as they were.

    Layers, dropout and shuffling draw from generators that all threads of a process share, so one thread at a
    time is let in: trainings in several threads wait for each other and give the numbers they give alone.
    Those in several processes run at once.
    """
    import torch

    cuda = [device] if device is not None and device.type == "cuda" else []
    with one_thread(), torch.random.fork_rng(cuda):
        torch.default_generator.manual_seed(seed)
        for place in cuda:
            with torch.cuda.device(place):
                torch.cuda.manual_seed(seed)
        yield


def _renew_lock() -> None:
    """Forget who held the lock: a forked child has only the thread that forked."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
