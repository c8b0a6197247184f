"""Checks of parameters, and the words of their messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
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


MOST = 5  # names in a message
LONGEST = 120  # letters of each


def name_some(names: Iterable[Any], most: int = MOST) -> str:
    """Name the first few, then say how many more there are."""
    words = [word if len(word := str(name)) <= LONGEST else f"{word[:40]}…" for name in names]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def closest_name(name: Any, known: Iterable[str]) -> str | None:
    """Return the known name most like this one, or one that it is a part of; None where there is none.

    Capitals, and underscores or spaces for dashes, make no difference.
    """
    plain = {dashed(one): one for one in known}
    wanted = dashed(str(name))
    close = get_close_matches(wanted, plain, 1)
    close = close or [one for one in plain if len(wanted) > 2 and wanted in one]
    return plain[close[0]] if close else None


def nearest(name: Any, known: Iterable[str]) -> str:
    """End a complaint about an unknown name with the closest_name and all there are."""
    known = list(known)
    close = closest_name(name, known)
    hint = "." if close is None else f"; did you mean {close!r}?"
    return f"{hint} There are {', '.join(known)}."


def meant(name: Any, known: Iterable[str]) -> str:
    """Say in a few words what was meant, or all there is."""
    known = list(known)
    close = closest_name(name, known)
    return f"there are {', '.join(known) or 'none'}." if close is None else f"did you mean {close}?"


def dashed(name: str) -> str:
    """Return a name in small letters with dashes for underscores and spaces."""
    return name.lower().replace("_", "-").replace(" ", "-")


def letters(name: str) -> str:
    """Return the letters and digits of a name, small: what is left of it in every spelling."""
    return "".join(filter(str.isalnum, name)).casefold()
