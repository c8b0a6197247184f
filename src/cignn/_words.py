"""Words of messages: some of many names, and what a misspelt one may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MOST = 5  # names in a message
LONGEST = 120  # letters of each


def name_some(names: Iterable[Any], most: int = MOST) -> str:
    """Name the first few, then say how many more there are."""
    words = [word if len(word := str(name)) <= LONGEST else f"{word[:40]}…" for name in names]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def likest(name: Any, known: Iterable[str]) -> str | None:
    """Return the known name most like this one, or one that it is a part of; None where there is none.

    Capitals, and underscores or spaces for dashes, make no difference.
    """
    plain = {dashed(one): one for one in known}
    wanted = dashed(str(name))
    close = get_close_matches(wanted, plain, 1)
    close = close or [one for one in plain if len(wanted) > 2 and wanted in one]
    return plain[close[0]] if close else None


def nearest(name: Any, known: Iterable[str]) -> str:
    """End a complaint about an unknown name with the likest and all there are."""
    known = list(known)
    close = likest(name, known)
    hint = "." if close is None else f"; did you mean {close!r}?"
    return f"{hint} There are {', '.join(known)}."


def meant(name: Any, known: Iterable[str]) -> str:
    """Say in a few words what was meant, or all there is."""
    known = list(known)
    close = likest(name, known)
    return f"there are {', '.join(known) or 'none'}." if close is None else f"did you mean {close}?"


def dashed(name: str) -> str:
    """Return a name in small letters with dashes for underscores and spaces."""
    return name.lower().replace("_", "-").replace(" ", "-")


def letters(name: str) -> str:
    """Return the letters and digits of a name, small: what is left of it in every spelling."""
    return "".join(filter(str.isalnum, name)).casefold()
