"""One subject's numbers from one file: .1D, .csv, .tsv, .txt, .npy, .mat."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn.datasets.mat_files import MatReader
from cignn.datasets.reading import UnreadableError, read_npy, reading, regular

ENDINGS = (".1d", ".csv", ".tsv", ".txt", ".npy", ".mat")
_NUMBERLESS = {"nan", "na", "n/a"}  # may stand where a number is expected
_ROW_NAMES = {"", "unnamed: 0", "index", "time", "frame", "volume", "tr"}  # columns that are no ROI
_CODE = re.compile(r"\d+(\.0+)?")  # of a region in an atlas, some tools write 2001.0
_QUOTED = re.compile(r'"[^"]*"')


class RoiTable(NamedTuple):
    """The content of one file."""

    values: np.ndarray  # (rows, columns) float32
    names: list[str] | None  # of the columns, where a header gives them


def read_roi_file(path: str | Path, mats: MatReader | None = None) -> RoiTable:
    """Read a table of numbers: time points × ROIs, or ROIs × ROIs.

    Text may have a header line with ROI names, in quotes where they hold separators, comment lines (# or %),
    and commas, semicolons, tabs or spaces between numbers. Whole numbers that all differ, above broken ones,
    are a header too: the codes of the regions. First columns of words, and one that rises evenly (the time)
    or that the header gives no name or calls index, time, frame, volume or TR, are left out.
    A .mat file holds one two-dimensional array of numbers, or several of which one is ``ROISignals``.

    mats : reads .mat files where there are many; by default one is made for this file
    """
    path = regular(path, f"give a file that ends in one of {', '.join(ENDINGS)}")
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"{path} has no known ending; expected one of {', '.join(ENDINGS)}.")
    if ending == ".npy":
        table = RoiTable(_single(read_npy(path)), None)
    else:
        with reading(path, "is not a readable file of numbers."):
            table = _read_mat(path, mats) if ending == ".mat" else _read_text(path)
    if table.values.ndim != 2 or not table.values.size:
        raise ValueError(f"{path} must hold a table of numbers, got shape {table.values.shape}.")
    return table


def _single(values: np.ndarray) -> np.ndarray:
    """Numbers as float32; those it cannot hold become infinite, and infinite values are refused later."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def _read_mat(path: Path, mats: MatReader | None) -> RoiTable:
    if mats is not None:
        return RoiTable(mats.read(path), None)
    with MatReader() as reader:
        return RoiTable(reader.read(path), None)


def _read_text(path: Path) -> RoiTable:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError("is not a text file of numbers.") from error
    lines = [(i, line.rstrip("\r")) for i, line in enumerate(text.split("\n"), 1)]
    lines = [(i, line) for i, line in lines if line.strip() and line.lstrip()[0] not in "#%"]
    if not lines:
        raise UnreadableError("holds no numbers.")
    separator = _separator(lines)
    lines = _trimmed(lines, separator)
    first = _cells(lines[0][1], separator)  # as written: names may hold commas
    lines = _with_points(lines, separator)
    below = _cells(lines[1][1], separator) if len(lines) > 1 else []
    names = first if _is_header(_cells(lines[0][1], separator), below) else None
    lines = lines if names is None else lines[1:]
    if not lines:
        raise UnreadableError("holds a header but no numbers.")
    counts = [_count(line, separator) for _, line in lines]
    width = Counter(counts).most_common(1)[0][0]
    cells = _cells(lines[counts.index(width)][1], separator)
    skip = next((i for i, cell in enumerate(cells) if not cell or _is_number(cell)), 0)  # words in front
    unnamed = names is not None and len(names) == width - 1 and not skip  # the rows seem to have numbers
    if names is not None and len(names) != width - 1:
        skip = skip or int(names[0].lower() in _ROW_NAMES)
        names = names[skip:]
    try:
        if set(counts) != {width}:
            raise ValueError
        body = io.StringIO("\n".join(line for _, line in lines))
        frame = pd.read_csv(body, sep=separator or " ", header=None, skipinitialspace=True, index_col=False)
        frame = frame.iloc[:, skip:]
        if frame.shape[1] != width - skip or any(kind.kind not in "iuf" for kind in frame.dtypes):
            raise ValueError  # words, of which Python might make numbers: True, 1_0
        values = _single(frame.to_numpy(np.float64, na_value=np.nan))
    except (ValueError, TypeError):
        values = _read_slowly(lines, separator, skip, width)
    if unnamed and _counts_rows(values[:, 0]):
        values = values[:, 1:]
    if names is not None and len(names) != values.shape[1]:
        raise UnreadableError(f"has {len(names)} names in its header for {values.shape[1]} columns.")
    if names is not None and (skip or unnamed) and len(values) == len(names):
        _check_rows([_cells(line, separator)[0] for _, line in lines], names)
    if _rises_evenly(values):
        values, names = values[:, 1:], None if names is None else names[1:]
    names = None if names is None else _plain_codes(names)
    return RoiTable(values, None if names is None or _counts_up(names) else names)


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


def _trimmed(lines: list[tuple[int, str]], separator: str | None) -> list[tuple[int, str]]:
    """One space between numbers, no separator behind the last one."""
    if separator is None:
        return [(i, " ".join(line.split())) for i, line in lines]
    if all(line.rstrip(" ").endswith(separator) for _, line in lines):
        lines = [(i, line.rstrip(" ")[:-1]) for i, line in lines]
    return lines


def _with_points(lines: list[tuple[int, str]], separator: str | None) -> list[tuple[int, str]]:
    """Points for decimal commas."""
    if separator in (None, ","):
        return lines
    return [(i, line.replace(",", ".")) for i, line in lines]


def _is_header(cells: list[str], below: list[str]) -> bool:
    """Whether the first line holds names, counts the columns or gives codes of regions."""
    if any(cell and not _is_number(cell) for cell in cells[1:]):
        return True
    front = bool(cells[0]) and not _is_number(cells[0])
    if front and not (below and below[0] and not _is_number(below[0])):
        return True  # else a word in front of numbers is the name of the row
    codes = [cell for cell in cells[front:] if cell]
    if len(codes) < 3 or not all(map(_CODE.fullmatch, codes)) or len(set(codes)) < len(codes):
        return False
    broken = any(not _CODE.fullmatch(cell.lstrip("+-")) for cell in below if cell and _is_number(cell))
    return broken or _counts_up(_plain_codes(codes))


def _counts_up(names: list[str]) -> bool:
    """Whether names only count: 1, 2, 3, … or 0, 1, 2, …"""
    return any(names == [str(i) for i in range(start, len(names) + start)] for start in (0, 1))


def _read_slowly(lines: list[tuple[int, str]], separator: str | None, skip: int, width: int) -> np.ndarray:
    """Read line by line, to name the one that is wrong."""
    rows = []
    for number, line in lines:
        cells = _cells(line, separator)
        wrong = [cell for cell in cells[skip:] if cell and not _is_number(cell)]
        if wrong or len(cells) != width:
            got = f"{wrong[0]!r}" if wrong else f"{len(cells) - skip}"
            raise UnreadableError(f"line {number}: expected {width - skip} numbers, got {got}.")
        rows.append([np.nan if cell.lower() in ("", "na", "n/a") else float(cell) for cell in cells[skip:]])
    return np.array(rows, np.float32)


def _separator(lines: list[tuple[int, str]]) -> str | None:
    """Tab, semicolon or comma where most lines behind the first have them, None for spaces."""
    marks = Counter(_mark(line) for _, line in lines[1:] or lines)
    return max(marks, key=lambda mark: (marks[mark], mark is not None))


def _mark(line: str) -> str | None:
    outside = _QUOTED.sub("", line) if '"' in line else line
    return next((mark for mark in "\t;," if mark in outside.strip()), None)


def _cells(line: str, separator: str | None) -> list[str]:
    if '"' in line:  # what stands in quotes may hold the separator
        cells = next(csv.reader([line], delimiter=separator or " ", skipinitialspace=True))
    else:
        cells = line.split(separator)
    return [cell.strip().strip('"') for cell in cells]


def _count(line: str, separator: str | None) -> int:
    """How many cells a line has."""
    return len(_cells(line, separator)) if '"' in line else line.count(separator or " ") + 1


def _is_number(cell: str) -> bool:
    if cell.lower() in _NUMBERLESS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python takes for a separator of thousands
