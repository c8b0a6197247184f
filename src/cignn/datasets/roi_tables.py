"""ROI tables of many subjects: the same regions in the same order, and the runs of a subject as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cignn._checks import DataError, Option, name_some
from cignn.datasets.atlas import Atlas, places_of
from cignn.datasets.cohort_checks import Checks, remedies

TRANSPOSE = Option("transpose", (True,), "pass {} if the files hold ROIs × time points")


class RoiTable(NamedTuple):
    """The content of one file."""

    values: np.ndarray  # (rows, columns) float32
    names: list[str] | None  # of the columns, where a header gives them


def counts_up(names: list[str]) -> bool:
    """Whether names only count: 1, 2, 3, … or 0, 1, 2, …"""
    return any(names == [str(i) for i in range(start, len(names) + start)] for start in (0, 1))


def kept_rois(table: RoiTable, rois: Sequence[str], square: bool, path: Path) -> RoiTable:
    """Keep the regions whose names fit one of the patterns, in the order of the file."""
    if table.names is None:
        raise DataError(
            "gives its regions no names", options=[Option("rois", advice="leave {} out")], source=path
        )
    fits = [{one for one in rois if name == one or fnmatchcase(name, one)} for name in table.names]
    keep = [i for i, found in enumerate(fits) if found]
    unused = [one for one in rois if not any(one in found for found in fits)]
    if unused:
        raise DataError(
            f"has no region {name_some(unused)}, only {name_some(table.names)}",
            values=unused,
            options=[Option("rois", advice="change {}")],
            source=path,
        )
    values = table.values[np.ix_(keep, keep)] if square else table.values[:, keep]
    return RoiTable(values, [table.names[i] for i in keep])


def joined_runs(tables: Sequence[RoiTable]) -> RoiTable:
    """Put the series of a subject's runs one after the other, each standardised region by region.

    A region without signal in a run stays constant there, at 0.
    """
    parts = []
    for table in tables:
        values = table.values.astype(np.float64)
        moves = np.ptp(values, axis=0) > 0  # rounding would make a signal of a constant
        values -= np.where(moves, values.mean(0), values[0])
        parts.append(values / np.where(moves, values.std(0), 1))
    return RoiTable(np.concatenate(parts).astype(np.float32), tables[0].names)


def other_rois(
    subjects: Sequence[str],
    tables: list[RoiTable],
    folder: Path,
    square: bool,
    n_rois: int | None,
    atlas: Atlas | None,
    rules: Checks,
) -> dict[int, str]:
    """Place and shape of each table without the expected number of ROIs: the atlas's, or what most have."""
    expected = n_rois or (None if atlas is None else len(atlas))
    shapes = [table.values.shape for table in tables]
    words = ["×".join(map(str, shape)) for shape in shapes]
    widths = Counter(width for _, width in shapes)
    if square and all(height != width for height, width in shapes):
        got = name_some(f"{name} ({shape})" for name, shape in zip(subjects, words, strict=True))
        raise DataError(
            f"matrices must be ROIs × ROIs, got {got}",
            subjects=subjects,
            values=words,
            remedy="unfold vectors into matrices, put series into series/",
            source=folder,
        )
    wanted = expected or widths.most_common(1)[0][0]
    wrong = {i: words[i] for i, (h, w) in enumerate(shapes) if w != wanted or (square and h != w)}
    if not wrong:
        return wrong
    turned = not square and sum(height == wanted for height, _ in shapes) > len(tables) / 2
    if wanted not in widths and not turned:
        usual, count = widths.most_common(1)[0]
        have = f"{'all' if count == len(tables) else count} of the {len(tables)} files have {usual}"
        what = f"n_rois is {n_rois}" if n_rois else f"the atlas has {wanted} regions"
        remedy = "leave it out or correct it" if n_rois else "give the atlas of these files"
        raise DataError(f"{what}, {have}", values=list(widths), remedy=remedy, source=folder)
    if len(wrong) == len(tables) or rules.mixed_rois == "raise":
        may_be_turned = not square and expected is None and len({h for h, _ in shapes}) == 1
        hint = [Option("transpose", (True,))] if turned else [TRANSPOSE] if may_be_turned else []
        number = Option("n_rois", advice="set the right number with {}")
        what = "matrices" if square else "series (time points × ROIs)"
        got = name_some(f"{subjects[i]} ({shape})" for i, shape in wrong.items())
        raise DataError(
            f"expected {what} of {wanted} ROIs, got {got}",
            subjects=[subjects[i] for i in wrong],
            values=list(wrong.values()),
            options=[*hint, remedies("mixed_rois"), number],
            source=folder,
        )
    return wrong


def other_names(
    subjects: Sequence[str], tables: list[RoiTable], folder: Path, rules: Checks
) -> dict[int, str]:
    """Place of each table whose header names other regions than most do, in any order, and the first name."""
    named = [None if table.names is None else tuple(sorted(table.names)) for table in tables]
    counts = Counter(names for names in named if names is not None)
    usual = counts.most_common(1)[0][0] if counts else ()
    wrong = {
        i: f"{_first_without(names, usual)} instead of {_first_without(usual, names)}"
        for i, names in enumerate(named)
        if names is not None and names != usual
    }
    if wrong and rules.mixed_rois == "raise":
        whom = name_some(f"{subjects[i]} ({why})" for i, why in wrong.items())
        raise DataError(
            f"headers name other regions than most do in {whom}",
            subjects=[subjects[i] for i in wrong],
            values=list(wrong.values()),
            options=[remedies("mixed_rois")],
            remedy="give all files the same names",
            source=folder,
        )
    return wrong


def _first_without(names: Sequence[str], others: Sequence[str]) -> str:
    """The first name that is not, or not as often, among the others."""
    return next(iter(Counter(names) - Counter(others)))


def in_one_order(
    subjects: Sequence[str], tables: list[RoiTable], folder: Path, square: bool, atlas: Atlas | None
) -> list[RoiTable]:
    """Bring regions into one order, the atlas's where headers give its names, else the first header's."""
    headers = [table.names for table in tables if table.names is not None]
    if not headers:
        return tables
    try:
        places = None if atlas is None else places_of(atlas.names, headers[0])
    except ValueError as error:
        raise DataError(str(error).removesuffix("."), source=folder) from None
    wanted = headers[0] if places is None else [headers[0][i] for i in places]
    if all(names == wanted for names in headers):
        return tables
    without = [name for name, table in zip(subjects, tables, strict=True) if table.names is None]
    if without or len(set(wanted)) < len(wanted):
        who = f"{name_some(without)} without names" if without else "some names twice"
        raise DataError(
            f"headers give the regions in different orders, with {who}",
            subjects=without,
            remedy="name every region once in every file",
            source=folder,
        )
    return [_reordered(table, wanted, square) for table in tables]


def _reordered(table: RoiTable, wanted: list[str], square: bool) -> RoiTable:
    assert table.names is not None
    order = [table.names.index(name) for name in wanted]
    return RoiTable(table.values[np.ix_(order, order)] if square else table.values[:, order], wanted)
