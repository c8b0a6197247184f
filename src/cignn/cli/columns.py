"""Widths of a table's columns: lines break between words, and within a name only at its joints."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_JOINTS = re.compile(r"[^\s_/-]*[_/-]+|[^\s_/-]+")  # "social_anxiety-type" → "social_", "anxiety-", "type"


class Fitted(NamedTuple):
    """Cells of each column, headings first, and widths in which they fit; None where nothing helps."""

    cells: list[list[str]]
    widths: list[int] | None


def fitted_columns(columns: Sequence[Sequence[str]], room: int, whole: bool = False) -> Fitted:
    """Fit columns into a room by breaking lines between words, else long words at their joints.

    columns : the cells of each, headings first. room : letters for all columns together. whole : whether the
    first column's cells never break. Joints are underscores, hyphens and slashes.
    """
    cells = [list(column) for column in columns]
    natural = [max(map(len, column), default=0) for column in cells]
    if sum(natural) <= room:
        return Fitted(cells, natural)
    least = [_longest(column, str.split) for column in cells]
    fixed = range(1 if whole else 0)
    for k in fixed:
        least[k] = max([least[k], *map(len, cells[k][1:])])
    while sum(least) > room:
        gains = [least[k] - _longest(column, _JOINTS.findall) for k, column in enumerate(cells)]
        for k in fixed:
            gains[k] = 0
        k = max(range(len(cells)), key=gains.__getitem__)
        if gains[k] <= 0:
            return Fitted(cells, None)
        width = max(least[k] - gains[k], least[k] - (sum(least) - room))
        cells[k] = [_folded(cell, width) for cell in cells[k]]
        least[k] = _longest(cells[k], str.split)
    widths = list(least)
    bodies = [max(map(len, column[1:]), default=0) for column in cells]
    for wanted in (bodies, natural):  # what is left goes where most lines break, first those below headings
        while sum(widths) < room:
            lacking = [full - width for full, width in zip(wanted, widths, strict=True)]
            if max(lacking) <= 0:
                break
            widths[lacking.index(max(lacking))] += 1
    return Fitted(cells, widths)


def _longest(column: Sequence[str], pieces: Callable[[str], list[str]]) -> int:
    return max((len(piece) for cell in column for piece in pieces(cell)), default=0)


def _folded(cell: str, width: int) -> str:
    """Break the words of a cell that are wider, at their joints."""
    out = []
    for word in cell.split(" "):
        lines = [""]
        for piece in _JOINTS.findall(word) if len(word) > width else [word]:
            if lines[-1] and len(lines[-1]) + len(piece) > width:
                lines.append("")
            lines[-1] += piece
        out.append("\n".join(lines))
    return " ".join(out)
