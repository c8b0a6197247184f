"""Randomness: what a ``random_state`` may be, and the generator made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

RandomState = None | int | np.random.RandomState | np.random.Generator


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
    return check_random_state(random_state)


def _check(random_state: Any) -> None:
    if isinstance(random_state, (int, np.integer)) and random_state < 0:
        raise ValueError(f"random_state must not be negative, got {random_state}.")
    if random_state is not None and not isinstance(random_state, (int, np.integer, np.random.Generator)):
        kind = type(random_state).__name__
        raise TypeError(f"random_state must be None, an int, a RandomState or a Generator, got {kind}.")
