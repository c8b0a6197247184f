"""One subject's numbers from one file: text, .npy, .mat, .netcc or CIFTI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cignn._array_files import UnreadableError, read_npy, reading, regular
from cignn.datasets.cifti_files import READ as CIFTI
from cignn.datasets.cifti_files import DenseLabels, cifti_kind, read_cifti, reading_cifti
from cignn.datasets.mat_files import MatReader
from cignn.datasets.netcc_files import read_netcc
from cignn.datasets.reading import Line, cells_of, count_cells, is_number, numbered_lines, read_numbers
from cignn.datasets.roi_tables import RoiTable, counts_up

ENDINGS = (".1d", ".csv", ".tsv", ".txt", ".npy", ".mat", ".netcc", *CIFTI)
_ROW_NAMES = {"", "unnamed: 0", "index", "time", "frame", "volume", "node", "tr"}  # columns that are no ROI
_CODE = re.compile(r"\d+(\.0+)?")  # of a region in an atlas, some tools write 2001.0
_QUOTED = re.compile(r'"[^"]*"')


class Wanted(NamedTuple):
    """What to take of files that hold more than one thing."""

    variable: str | None = None  # name of the array, matrix or map
    labels: DenseLabels | None = None  # of the grayordinates of .dtseries.nii files
    rois: Sequence[str] | None = None  # patterns of names; None for all regions


def ending_of(path: Path) -> str:
    """Return the ending that says how a file is read; "" where it is none of `ENDINGS`."""
    return next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), "")


def read_roi_file(path: str | Path, mats: MatReader | None = None, wanted: Wanted | None = None) -> RoiTable:
    """Read a table of numbers: time points × ROIs, or ROIs × ROIs.

    Text may have a header line with ROI names, in quotes where they hold separators, comment lines (# or %),
    and commas, semicolons, tabs or spaces between numbers. A comment above the numbers with one name for each
    column is a header too, and so are whole numbers that all differ, above broken ones: the codes of the
    regions. First columns of words, and one that rises evenly (the time)
    or that the header gives no name or calls index, time, frame, volume, node or TR, are left out.
    A .mat file holds one two-dimensional array of numbers, or several of which one is ``ROISignals``, or
    CONN's cells ``data`` and ``names``; ``wanted.variable`` names another one.

    mats : reads .mat files where there are many; by default one is made for this file
    """
    path = regular(path, f"give a file that ends in one of {', '.join(ENDINGS)}")
    ending, wanted = ending_of(path), wanted or Wanted()
    if not ending and not cifti_kind(path):
        raise ValueError(f"{path} has no known ending; expected one of {', '.join(ENDINGS)}.")
    if ending == ".npy":
        table = RoiTable(_single(read_npy(path)), None)
    elif cifti_kind(path):
        with reading_cifti(path):
            table = read_cifti(path, wanted.labels)
    else:
        with reading(path, "is not a readable file of numbers."):
            if ending == ".mat":
                table = _read_mat(path, mats, wanted)
            else:
                text = _text_of(path)
                table = read_netcc(text, wanted.variable) if ending == ".netcc" else _read_text(text)
    if table.values.ndim != 2 or not table.values.size:
        raise ValueError(f"{path} must hold a table of numbers, got shape {table.values.shape}.")
    return table


def _single(values: np.ndarray) -> np.ndarray:
    """Numbers as float32; those it cannot hold become infinite, and infinite values are refused later."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def _read_mat(path: Path, mats: MatReader | None, wanted: Wanted) -> RoiTable:
    whole = wanted.rois is not None
    if mats is not None:
        return mats.read(path, wanted.variable, whole)
    with MatReader() as reader:
        return reader.read(path, wanted.variable, whole)


def _read_text(text: str) -> RoiTable:
    lines = numbered_lines(text, comments="#%")
    if not lines:
        raise UnreadableError("holds no numbers.")
    above = [line for line in numbered_lines(text) if line.number < lines[0].number]
    separator = _separator(lines)
    lines = _without_margin(_trimmed(lines, separator), separator, above)
    first = cells_of(lines[0][1], separator)  # as written: names may hold commas
    lines = _with_points(lines, separator)
    below = cells_of(lines[1][1], separator) if len(lines) > 1 else []
    names = first if _is_header(cells_of(lines[0][1], separator), below) else None
    lines = lines if names is None else lines[1:]
    if not lines:
        raise UnreadableError("holds a header but no numbers.")
    counts = [count_cells(line, separator) for _, line in lines]
    width = Counter(counts).most_common(1)[0][0]
    cells = cells_of(lines[counts.index(width)][1], separator)
    skip = next((i for i, cell in enumerate(cells) if not cell or is_number(cell)), 0)  # words in front
    unnamed = names is not None and len(names) == width - 1 and not skip  # the rows seem to have numbers
    if names is not None and len(names) != width - 1:
        skip = skip or int(names[0].lower() in _ROW_NAMES)
        names = names[skip:]
    values = _single(read_numbers(lines, separator, width, skip))
    if unnamed and _counts_rows(values[:, 0]):
        values = values[:, 1:]
    if names is not None and len(names) != values.shape[1]:
        raise UnreadableError(f"has {len(names)} names in its header for {values.shape[1]} columns.")
    if names is not None and (skip or unnamed) and len(values) == len(names):
        _check_rows([cells_of(line, separator)[0] for _, line in lines], names)
    if _rises_evenly(values):
        values, names = values[:, 1:], None if names is None else names[1:]
    names = _commented(above, separator, values.shape[1]) if names is None else names
    names = None if names is None else _plain_codes(names)
    return RoiTable(values, None if names is None or counts_up(names) else names)


def _commented(above: list[Line], separator: str | None, width: int) -> list[str] | None:
    """The names that a comment above the numbers gives to the columns, all different, or None.

    Between spaces they could be a sentence of as many words: of few columns they must have marks of their
    own, as in "#2001 #2002".
    """
    for _, line in reversed(above):
        cells = [cell.lstrip("#% ").strip() for cell in cells_of(line.strip(), separator)]
        cells = cells[1:] if len(cells) == width + 1 and not cells[0] else cells  # a mark of its own
        sure = separator is not None or width >= 5 or line.count("#") == width
        if len(set(cells)) == len(cells) == width and all(cells) and sure and "/" not in line:
            return cells
    return None


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError("is not a text file of numbers.") from error


def _check_rows(rows: list[str], names: list[str]) -> None:
    """Refuse a matrix whose rows are the regions of its columns in another order."""
    if rows != names and sorted(rows) == sorted(names):
        at = next(i for i, (row, name) in enumerate(zip(rows, names, strict=True)) if row != name)
        raise UnreadableError(
            f"names its rows in another order than its columns: {rows[at]} where the header says "
            f"{names[at]}; write both in one order."
        )


def _rises_evenly(values: np.ndarray) -> bool:
    """Whether the first column, and it alone, goes up by the same step from row to row: time, no region."""
    if values.shape[1] < 3 or len(values) < 5:
        return False
    steps = np.diff(values[:, :2].astype(float), axis=0)
    spread, size = np.ptp(steps, axis=0), np.abs(values[:, :2]).max(0)
    even = spread <= 1e-6 * np.maximum(size, steps[0])
    return bool(steps[0, 0] > 0 and even[0] and not even[1])


def _counts_rows(column: np.ndarray) -> bool:
    """Whether a column without a name can be the numbers of the rows, or the time: only then it is no ROI."""
    steps = np.diff(column.astype(float))
    return bool((steps > 0).all() and ((column == np.round(column)).all() or np.allclose(steps, steps[0])))


def _plain_codes(names: list[str]) -> list[str]:
    """2001 for 2001.0, where all names are numbers."""
    return [name.split(".")[0] for name in names] if all(map(_CODE.fullmatch, names)) else names


def _trimmed(lines: list[Line], separator: str | None) -> list[Line]:
    """One space between numbers, no separator behind the last one."""
    if separator is None:
        return [Line(i, " ".join(line.split())) for i, line in lines]
    if all(line.rstrip(" ").endswith(separator) for _, line in lines):
        lines = [Line(i, line.rstrip(" ")[:-1]) for i, line in lines]
    return lines


def _without_margin(lines: list[Line], separator: str | None, above: list[Line]) -> list[Line]:
    """Drop the separator with which 3dROIstats -1Dformat begins every row, if a comment names the others."""
    if separator is None or not all(line.startswith(separator) for _, line in lines):
        return lines
    named = _commented(above, separator, count_cells(lines[0].text, separator) - 1)
    return lines if named is None else [Line(i, line[1:]) for i, line in lines]


def _with_points(lines: list[Line], separator: str | None) -> list[Line]:
    """Points for decimal commas."""
    if separator in (None, ","):
        return lines
    return [Line(i, line.replace(",", ".")) for i, line in lines]


def _is_header(cells: list[str], below: list[str]) -> bool:
    """Whether the first line holds names, counts the columns or gives codes of regions."""
    if any(cell and not is_number(cell) for cell in cells[1:]):
        return True
    front = bool(cells[0]) and not is_number(cells[0])
    if front and not (below and below[0] and not is_number(below[0])):
        return True  # else a word in front of numbers is the name of the row
    codes = [cell for cell in cells[front:] if cell]
    if len(codes) < 3 or not all(map(_CODE.fullmatch, codes)) or len(set(codes)) < len(codes):
        return False
    broken = any(not _CODE.fullmatch(cell.lstrip("+-")) for cell in below if cell and is_number(cell))
    return broken or counts_up(_plain_codes(codes))


def _separator(lines: list[Line]) -> str | None:
    """Tab, semicolon or comma where most lines behind the first have them, None for spaces."""
    marks = Counter(_mark(line) for _, line in lines[1:] or lines)
    return max(marks, key=lambda mark: (marks[mark], mark is not None))


def _mark(line: str) -> str | None:
    outside = _QUOTED.sub("", line) if '"' in line else line
    return next((mark for mark in "\t;," if mark in outside.strip()), None)
