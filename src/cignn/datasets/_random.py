"""Randomness of the generators: one argument, one generator, numpy's global state never touched."""

from __future__ import annotations

import numpy as np

RandomState = None | int | np.random.RandomState | np.random.Generator


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a random generator for any customary ``random_state``.

    random_state : None for a new one each time, a number for the same one each time, a `Generator` to draw
    from it, or a `RandomState`, which seeds a new generator and thereby moves on.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if isinstance(random_state, (int, np.integer)) and random_state < 0:
        raise ValueError(f"random_state must not be negative, got {random_state}.")
    if random_state is not None and not isinstance(random_state, (int, np.integer, np.random.Generator)):
        kind = type(random_state).__name__
        raise TypeError(f"random_state must be None, an int, a RandomState or a Generator, got {kind}.")
    return np.random.default_rng(random_state)
