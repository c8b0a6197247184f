"""One subject's numbers from one file: .1D, .csv, .tsv, .txt, .npy, .mat."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from cignn._array_files import UnreadableError, read_npy, reading, regular
from cignn.datasets import mat_worker
from cignn.datasets.reading import Line, cells_of, count_cells, is_number, numbered_lines, read_numbers

PATIENCE = 15.0  # seconds for a file; the largest of REST-meta-MDD take a tenth of one
SPEED = 10 * 2**20  # bytes a second: large files on slow disks have as much more
WORTHWHILE = 500  # files for which another process is worth its start
WORKER = Path(mat_worker.__file__)


class MatReader:
    """Reads any number of .mat files, from several threads at once; to be used in a ``with`` statement.

    A process is started when it is needed, and again after one that died.

    Parameters
    ----------
    n_files : int, default=1
        How many files there will be. To start a process takes as long as to read some hundred files, so there
        is one for each so many, and the other threads wait.
    """

    def __init__(self, n_files: int = 1) -> None:
        self._idle: list[subprocess.Popen] = []
        self._free = threading.Semaphore(1 + n_files // WORTHWHILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            _end(self._idle.pop())

    def read(self, path: Path) -> np.ndarray:
        """(rows, columns) float32 of the one table of numbers of a file, or of its ``ROISignals``."""
        with self._free:
            about, content = self._answer(path)
        if "wrong" in about:
            raise UnreadableError(about["wrong"])
        return np.frombuffer(content, np.float32).reshape(about["shape"])

    def _answer(self, path: Path) -> tuple[dict[str, Any], bytearray]:
        """What a process says of a file, and its bytes; where it dies, whether it crashed or was too late."""
        seconds = PATIENCE + path.stat().st_size / SPEED
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _start()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            worker.kill()

        patience = threading.Timer(seconds, give_up)
        patience.start()
        try:
            answer = _ask(worker, path)
        except (OSError, EOFError, ValueError):  # the process is gone
            _end(worker)
            if late.is_set():
                raise UnreadableError(f"was not read within {seconds:.0f} seconds; save it again.") from None
            raise UnreadableError("is damaged: it crashed SciPy's reader; save or get it again.") from None
        except BaseException:
            _end(worker)
            raise
        finally:
            patience.cancel()
        self._idle.append(worker)
        return answer


def _start() -> subprocess.Popen:
    paths = os.pathsep.join(path for path in sys.path if path)  # where this process finds SciPy
    worker = subprocess.Popen(
        [sys.executable, "-P", str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    with suppress(ImportError, AttributeError, OSError):  # Linux alone has pipes of a chosen size
        import fcntl

        assert worker.stdout is not None
        fcntl.fcntl(worker.stdout, fcntl.F_SETPIPE_SZ, 2**20)  # a whole file at once
    return worker


def _ask(worker: subprocess.Popen, path: Path) -> tuple[dict[str, Any], bytearray]:
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(json.dumps(str(path.absolute())).encode() + b"\n")
    worker.stdin.flush()
    about = json.loads(worker.stdout.readline() or "")
    content = bytearray(about.get("bytes", 0))
    rest = memoryview(content)
    while len(rest):
        got = worker.stdout.readinto(rest)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        rest = rest[got:]
    return about, content


def _end(worker: subprocess.Popen) -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not sent has no reader any more
                pipe.close()


ENDINGS = (".1d", ".csv", ".tsv", ".txt", ".npy", ".mat")
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
    lines = numbered_lines(_text_of(path), comments="#%")
    if not lines:
        raise UnreadableError("holds no numbers.")
    separator = _separator(lines)
    lines = _trimmed(lines, separator)
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
    names = None if names is None else _plain_codes(names)
    return RoiTable(values, None if names is None or _counts_up(names) else names)


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
    return broken or _counts_up(_plain_codes(codes))


def _counts_up(names: list[str]) -> bool:
    """Whether names only count: 1, 2, 3, … or 0, 1, 2, …"""
    return any(names == [str(i) for i in range(start, len(names) + start)] for start in (0, 1))


def _separator(lines: list[Line]) -> str | None:
    """Tab, semicolon or comma where most lines behind the first have them, None for spaces."""
    marks = Counter(_mark(line) for _, line in lines[1:] or lines)
    return max(marks, key=lambda mark: (marks[mark], mark is not None))


def _mark(line: str) -> str | None:
    outside = _QUOTED.sub("", line) if '"' in line else line
    return next((mark for mark in "\t;," if mark in outside.strip()), None)
