"""Reading tables of unknown origin: every error is reported in one line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._array_files import UnreadableError, named, reading, regular
from cignn._checks import DataError, name_some


def all_named(paths: Iterable[Path]) -> list[Path]:
    """Return the paths, sorted, after a look at every name."""
    return sorted(named(path) for path in paths)


MISSING = {"", "n/a", "na", "nan", "null", "none", "<na>"}  # what tables write for a missing value

NO_VALUES = (-9999, -999)  # what tables of ABIDE, ADHD-200 and others write for a missing number
_BREAKS = re.compile(r"[\r\n]+")  # in quotes; messages and ids have one line
_QUOTED = re.compile(r'"[^"]*"')


_NUMBERLESS = {"nan", "na", "n/a"}  # accepted where a number is expected


class Line(NamedTuple):
    """A line of a file."""

    number: int  # from 1
    text: str


class _Row(NamedTuple):
    line: int  # of the file, where the row ends
    cells: list[str]


def read_table(path: str | Path, rows: str = "participants") -> pd.DataFrame:
    """Read a .tsv, .csv or .txt table, every cell as text; rows : what its lines are, for messages.

    Columns are separated by tabs, commas, semicolons or, where the lines have as many words as the header, by
    spaces. A byte-order mark, UTF-16, spaces around names and values, and commas in a .tsv do no harm. Every
    row must have as many cells as the header, and every column a name of its own: else values would be read
    from the wrong column.
    """
    path = regular(path, f"give a .tsv or .csv table of {rows}")
    with reading(path, "is not a readable table."):
        text = _decoded(path.read_bytes())
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            raise UnreadableError(f"is empty; expected a header line and then the {rows}, one per line.")
        header, *body = _rows(text, _separator(lines)) or [_Row(1, [])]
        _check_lengths(header, body)
        frame = pd.DataFrame([row.cells for row in body], columns=header.cells, dtype=object)
        frame = _named_columns(frame)
        if frame.empty:
            raise UnreadableError(f"has a header but no {rows}.")
        return frame


def no_column(source: str, wanted: str, of: str, frame: pd.DataFrame) -> DataError:
    """Return an error that says that a column is missing, or that the columns were not told apart."""
    names = [str(name) for name in frame.columns]
    together = len(names) == 1 and len(names[0].split()) > 1
    remedy = "separate columns by tabs or commas" if together else f"call the column of the {of} so"
    return DataError(f"{source} has no column {wanted}, got {', '.join(names)}", values=names, remedy=remedy)


def repeated(names: Iterable[Any]) -> str:
    """Name the columns that occur more than once; "" where there are none."""
    return name_some(name for name, count in Counter(names).items() if count > 1)


def check_finite_column(column: pd.Series, name: str, subjects: Any, source: str) -> None:
    """Refuse infinite numbers in a column, by name; NaN says that a number is not known."""
    if not pd.api.types.is_float_dtype(column):
        return
    infinite = np.isinf(column.to_numpy(float, na_value=np.nan))
    if infinite.any():
        whom = np.asarray(subjects)[infinite]
        raise DataError(
            f"{name} of {name_some(whom)} is infinite",
            subjects=whom,
            remedy="correct it, or write n/a where it is not known",
            source=source,
        )


# ------------------------------------------------------------------------------ numbers


def numbered_lines(text: str, comments: str = "") -> list[Line]:
    """Return the lines that are neither blank nor begin with one of the marks of comments."""
    lines = [Line(i, line.rstrip("\r")) for i, line in enumerate(text.split("\n"), 1)]
    return [line for line in lines if line.text.strip() and line.text.lstrip()[0] not in (comments or " ")]


def is_number(cell: str) -> bool:
    """Whether a cell holds a number, or says that there is none."""
    if cell.lower() in _NUMBERLESS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python takes for a separator of thousands


def cells_of(line: str, separator: str | None) -> list[str]:
    """Return the cells of a line; None separates by spaces."""
    if '"' in line:  # quoted cells may hold the separator
        cells = next(csv.reader([line], delimiter=separator or " ", skipinitialspace=True))
    else:
        cells = line.split(separator)
    return [cell.strip().strip('"') for cell in cells]


def count_cells(line: str, separator: str | None) -> int:
    """How many cells a line has."""
    return len(cells_of(line, separator)) if '"' in line else line.count(separator or " ") + 1


def read_numbers(lines: Sequence[Line], separator: str | None, width: int, skip: int = 0) -> np.ndarray:
    """(rows, width - skip) float64, NaN for empty cells; skip : columns of words in front.

    pandas reads them at once. Where it finds words among them, or takes words for numbers (True, 1_0), they
    are read one by one, to name the line that is wrong.
    """
    body = io.StringIO("\n".join(line.text for line in lines))
    try:
        frame = pd.read_csv(body, sep=separator or " ", header=None, skipinitialspace=True, index_col=False)
        frame = frame.iloc[:, skip:]
        whole = {count_cells(line.text, separator) for line in lines} == {width}  # pandas fills cut lines
        if whole and frame.shape[1] == width - skip and all(one.kind in "iuf" for one in frame.dtypes):
            return frame.to_numpy(np.float64, na_value=np.nan)
    except (ValueError, TypeError):  # pandas' own errors are ValueErrors too
        pass
    return np.array([_numbers_of(line, separator, width, skip) for line in lines], np.float64)


def _numbers_of(line: Line, separator: str | None, width: int, skip: int) -> list[float]:
    cells = cells_of(line.text, separator)
    wrong = [cell for cell in cells[skip:] if cell and not is_number(cell)]
    if wrong or len(cells) != width:
        got = f"{wrong[0]!r}" if wrong else f"{len(cells) - skip}"
        raise UnreadableError(f", line {line.number}: expected {width - skip} numbers, got {got}.")
    return [np.nan if cell.lower() in ("", "na", "n/a") else float(cell) for cell in cells[skip:]]


# ------------------------------------------------------------------------------ lines and cells


def _decoded(content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # Excel's "Unicode text"
        text = content.decode("utf-16")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
    if "\0" in text:
        raise UnreadableError("holds zero bytes; save it as text in UTF-8.")
    return text


def _separator(lines: list[str]) -> str | None:
    """Tab, comma or semicolon where the header has one, None for spaces; a tab where there is one column."""
    outside = _QUOTED.sub("", lines[0])
    mark = next((mark for mark in "\t,;" if mark in outside), None)
    if mark is not None:
        return mark
    wide = len(lines[0].split())
    counts = Counter(len(line.split()) for line in lines[1:])
    usual = counts.most_common(1)[0] if counts else (0, 0)
    # spaces between columns, where the rows agree with the header, or with each other at least
    alike = counts[wide] * 2 >= len(lines) - 1 or (usual[0] > 1 and usual[1] == len(lines) - 1 > 1)
    return None if wide > 1 and alike and counts else "\t"


def _rows(text: str, separator: str | None) -> list[_Row]:
    """All rows that are not blank."""
    stream = io.StringIO(text, newline="")
    if separator is None:
        rows: Iterator[_Row] = (_Row(i, line.split()) for i, line in enumerate(stream, 1))
    else:
        rows = _separated(stream, separator)
    return [row for row in rows if any(row.cells)]


def _separated(stream: io.StringIO, separator: str) -> Iterator[_Row]:
    reader = csv.reader(stream, delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            yield _Row(reader.line_num, [_BREAKS.sub(" ", cell.strip()) for cell in cells])
    except csv.Error as error:  # a quote that is not closed swallows all that follows
        raise UnreadableError(
            f", line {reader.line_num}: cells cannot be told apart ({error}); close or remove the quotes."
        ) from error


def _check_lengths(header: _Row, body: list[_Row]) -> None:
    expected = len(header.cells)
    odd = [row for row in body if len(row.cells) != expected]
    if odd:
        more = f" ({len(odd) - 1} more lines differ too)" if len(odd) > 1 else ""
        blame = "the header" if len(odd) == len(body) else "the line"
        raise UnreadableError(
            f", line {odd[0].line}: expected {expected} cells, one for each name in the header, got "
            f"{len(odd[0].cells)}{more}; correct {blame}."
        )


def _named_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Give columns names that differ; an empty one comes from a separator at the line's end."""
    keep = [bool(name) or frame.iloc[:, i].any() for i, name in enumerate(frame.columns)]
    frame.columns = [name or f"column {i}" for i, name in enumerate(frame.columns, 1)]
    twice = repeated(frame.columns)
    if twice:
        raise UnreadableError(f"has the column {twice} more than once; keep or rename one.")
    return frame.loc[:, keep]


def as_table(covariates: Any, subjects: np.ndarray) -> pd.DataFrame:
    """Return covariates as a table with one row per subject, its columns checked."""
    n = len(subjects)
    if covariates is None:
        return pd.DataFrame(index=range(n))
    try:
        table = pd.DataFrame(covariates)
    except (TypeError, ValueError) as error:
        raise ValueError(f"covariates must be a table or columns of equal length ({error}).") from None
    if len(table) != n:
        raise ValueError(f"covariates must have one row per subject ({n}), got {len(table)}.")
    if twice := repeated(table.columns):
        raise ValueError(f"covariates have the column {twice} more than once; keep or rename one.")
    for name in table:
        check_finite_column(table[name].reset_index(drop=True), str(name), subjects, "covariates")
    return table.reset_index(drop=True)
