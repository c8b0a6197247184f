"""Checks of parameters: what is wrong is named, with what was expected and what came.

A comparison with NaN is false, whichever way it is written, so a check asks whether a number lies inside.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

LARGEST = 2**31 - 1  # of whole numbers: no loop ends that is longer
WIDEST = 2**16  # of layers: more is a slip, and would be asked for as memory


def choice(name: str, value: Any, options: Collection[Any]) -> Any:
    """Return the option that a value equals; refuse any other value."""
    try:
        hash(value)
    except TypeError:  # a list, an array: nothing that could be an option
        known = []
    else:
        known = [option for option in options if option == value]
    if not known:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}, got {shown(value)}.")
    return known[0]


def whole(name: str, value: Any, low: int, high: int = LARGEST) -> int:
    """Return a whole number of Python's from ``low`` to ``high``; refuse any other value.

    Examples
    --------
    >>> whole("epochs", 50, 1)
    50
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        most = "" if high == LARGEST and not _is_huge(value) else f" and at most {high}"
        raise ValueError(f"{name} must be a whole number of at least {low}{most}, got {shown(value)}.")
    return int(value)


def number(
    name: str, value: Any, low: float, high: float, include_low: bool = False, include_high: bool = False
) -> float:
    """Return a number of Python's that lies in the interval; refuse any other value.

    Examples
    --------
    >>> number("dropout", 0.5, 0, 1, include_low=True)
    0.5
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    above = is_number and (low < value or (include_low and value == low))
    if above and not _is_huge(value) and (value < high or (include_high and value == high)):
        return float(value)
    left, right = "[" if include_low else "(", "]" if include_high else ")"
    what = "lie" if is_number else "be a number"
    raise ValueError(f"{name} must {what} in {left}{low}, {high}{right}, got {shown(value)}.")


def jobs(name: str, value: Any) -> int:
    """Return a number of processes; negative ones count from all cores, as joblib does."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not value or abs(int(value)) > LARGEST:
        raise ValueError(f"{name} must be a number of processes, or -1 for all cores, got {shown(value)}.")
    return int(value)


def widths(name: str, value: Any, least: int = 0) -> tuple[int, ...]:
    """Return a sequence of at least that many layer widths, positive whole numbers, as a tuple."""
    sizes = value.tolist() if isinstance(value, np.ndarray) else value
    is_list = isinstance(sizes, Sequence) and not isinstance(sizes, (str, bytes)) and len(sizes) >= least
    try:
        return tuple(whole(name, size, 1, WIDEST) for size in sizes) if is_list else (whole(name, 0, 1),)
    except ValueError:
        some = "" if least == 0 else f", {least} or more,"
        raise ValueError(
            f"{name} must be positive layer widths{some} such as (64, 64), got {shown(value)}."
        ) from None


def shown(value: Any) -> str:
    """Return a value as a message shows it, on one line and not for pages."""
    if _is_huge(value):
        return f"a number of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # a huge number inside, or a list a thousand deep
        text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"


def _is_huge(value: Any) -> bool:
    """Whether a whole number is too large for a float, and for Python to write down."""
    return isinstance(value, int) and value.bit_length() > 1023
