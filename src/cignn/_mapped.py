"""Arrays that stay on disk: `MappedArray` reads rows of an .npy file when they are needed.

Rows are read from the file instead of through a memory map. What was read once then does not count as memory
of the process, and a file that gets shorter meanwhile is an error instead of a crash.
"""

from __future__ import annotations

import copy
import io
import math
import os
import shutil
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from cignn._array_files import BROKEN, NUMBERS, UnreadableError, memory, read_header, reading, regular
from cignn._arrays import BLOCK
from cignn._files import unwritten

Step = Callable[[np.ndarray], np.ndarray]  # changes rows after they were read; travels to other processes


class _OpenFile(io.FileIO):
    """An open file that closes with the last array that reads it."""

    def __del__(self) -> None:
        self.close()


class ArrayFile:
    """An open .npy file of float32 rows; threads and processes may read it at the same time."""

    def __init__(self, path: str | Path) -> None:
        self.path = regular(path, "give an .npy file").absolute()
        with reading(self.path, BROKEN):
            self.open = _OpenFile(self.path)
            header = read_header(self.open, self.path.stat().st_size, "the array", NUMBERS)
            if header.dtype != np.float32 or header.fortran or not header.shape:
                order = "columns first" if header.fortran else header.dtype
                raise UnreadableError(
                    f": an array that stays on disk must hold float32 row by row, got {order}; write it with "
                    "np.save(path, np.ascontiguousarray(array, np.float32))."
                )
        self.shape, self._offset = header.shape, header.offset
        self._row = 4 * math.prod(self.shape[1:])
        self._seeking = threading.Lock()

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return rows, (k,) numbers in any order, as an array of shape (k, ...)."""
        out = np.empty((len(rows), *self.shape[1:]), np.float32)
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            if out[start:stop].size:
                self._fill(out[start:stop], self._offset + int(rows[start]) * self._row)
        return out

    def _fill(self, part: np.ndarray, place: int) -> None:
        """Fill a contiguous array from the byte at ``place`` on."""
        rest = memoryview(part.reshape(-1).view(np.uint8).data)
        while len(rest):
            if hasattr(os, "preadv"):
                got = os.preadv(self.open.fileno(), [rest], place)
            else:
                with self._seeking:
                    self.open.seek(place)
                    got = self.open.readinto(rest) or 0
            if not got:
                raise OSError(f"{self.path} is cut off; get or write the file again.")
            rest, place = rest[got:], place + got

    def reshaped(self, shape: tuple[int, ...]) -> ArrayFile:
        """Return the file with rows of another shape."""
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"{self.path} has changed: it held {shape}, now {self.shape}; load it again.")
        other = copy.copy(self)
        other.shape, other._row = shape, 4 * math.prod(shape[1:])
        return other

    def checksum(self) -> int:
        """Return the CRC-32 of all values."""
        crc = 0
        step = max(1, 4 * BLOCK // max(self._row, 1))
        for start in range(0, self.shape[0], step):
            crc = zlib.crc32(self.read(np.arange(start, min(start + step, self.shape[0]))).data, crc)
        return crc


class MappedArray:
    """An array whose rows are read from an .npy file of float32 when they are needed.

    ``array[3]`` is an ndarray. ``array[mask]``, ``array[[0, 2]]`` and ``array[:10]`` are mapped arrays that
    copy nothing; ``np.asarray`` reads everything.

    file : the open file. rows : (n,) which rows of it; None for all. steps : functions of blocks of rows,
    (k, ...) → (k, ...), applied after reading. tail : shape of a row after the steps.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self,
        file: ArrayFile,
        rows: np.ndarray | None = None,
        steps: tuple[Step, ...] = (),
        tail: tuple[int, ...] | None = None,
    ) -> None:
        self.file, self.steps = file, steps
        self._rows = rows
        self.shape = (
            file.shape[0] if rows is None else len(rows),
            *(file.shape[1:] if tail is None else tail),
        )

    @classmethod
    def open(cls, path: str | Path) -> MappedArray:
        """Open an .npy file after its header was held against its size."""
        return cls(ArrayFile(path))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the array would take in memory."""
        return 4 * math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            return self._read(np.array([range(len(self))[key]]))[0]
        if isinstance(key, tuple):
            if key[0] is not Ellipsis and key[0] != slice(None):
                raise IndexError("an array on disk is indexed by rows, or as array[:, …]; read it first.")
            return np.concatenate([block[key] for block in self.blocks()])
        chosen = np.arange(len(self))[key]
        rows = chosen if self._rows is None else self._rows[chosen]
        return MappedArray(self.file, rows, self.steps, self.shape[1:])

    def __iter__(self) -> Iterator[np.ndarray]:
        return (row for block in self.blocks() for row in block)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.nbytes > memory():
            gib = self.nbytes / 2**30
            raise ValueError(
                f"{self.file.path}: the array takes {gib:.0f} GiB, more than this machine's memory."
            )
        whole = self._read(np.arange(len(self)))
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield consecutive rows, at most `BLOCK` values at once."""
        step = max(1, BLOCK // max(1, math.prod(self.file.shape[1:])))
        for start in range(0, len(self), step):
            yield self._read(np.arange(start, min(start + step, len(self))))

    def flattened(self) -> MappedArray:
        """Return (n, t, R) as (n t, R): of a whole file, nothing moves."""
        n, t, *tail = self.shape
        return MappedArray(self.file.reshaped((n * t, *tail)))

    def with_step(self, step: Step, tail: tuple[int, ...] | None = None) -> MappedArray:
        """Return the array with one more change of its rows; tail : their shape where it becomes another."""
        return MappedArray(
            self.file, self._rows, (*self.steps, step), self.shape[1:] if tail is None else tail
        )

    def _read(self, places: np.ndarray) -> np.ndarray:
        values = self.file.read(places if self._rows is None else self._rows[places])
        for step in self.steps:
            values = step(values)
        return values

    def __reduce__(self) -> tuple:  # another process opens the file itself
        return _reopened, (str(self.file.path), self.file.shape, self._rows, self.steps, self.shape[1:])


def _reopened(
    path: str,
    shape: tuple[int, ...],
    rows: np.ndarray | None,
    steps: tuple[Step, ...],
    tail: tuple[int, ...],
) -> MappedArray:
    return MappedArray(ArrayFile(path).reshaped(shape), rows, steps, tail)


def write_npy(file: BinaryIO, array: Any) -> int:
    """Write an array block by block and return the CRC-32 of its values.

    array : has ``shape``, ``dtype`` and either ``blocks()`` or the methods of an ndarray.
    """
    shape, dtype = tuple(array.shape), np.dtype(array.dtype).newbyteorder("=")
    descr = npy.dtype_to_descr(dtype)
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    crc, count = 0, 0
    for block in array.blocks() if hasattr(array, "blocks") else [array]:
        part = np.ascontiguousarray(block, dtype).reshape(-1).view(np.uint8).data
        file.write(part)
        crc, count = zlib.crc32(part, crc), count + len(part)
    if count != dtype.itemsize * math.prod(shape):
        raise ValueError(f"an array of shape {shape} was announced, {count} bytes came.")
    return crc


class Rows:
    """An array that is made block by block: what `write_npy` and `scratch` write."""

    dtype = np.dtype(np.float32)

    def __init__(self, shape: tuple[int, ...], made: Iterable[np.ndarray]) -> None:
        self.shape, self._made = shape, made

    def blocks(self) -> Iterable[np.ndarray]:
        """Return the blocks of rows, in order; once."""
        return self._made


def scratch(rows: Rows, beside: Path) -> MappedArray:
    """Write rows to a temporary file and return them as an array, with which the file goes.

    The file lies in the folder ``beside``, whose disk holds data of that size already; where that is full or
    read-only, in the folder for temporary files.
    """
    need = 4 * math.prod(rows.shape)
    folder = _roomy(beside, need)
    _remove_abandoned(folder)
    handle, name = tempfile.mkstemp(prefix=SCRATCH, suffix=".npy", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            _lock(file.fileno())
            write_npy(file, rows)
            file.flush()
            array = MappedArray.open(path)
            _lock(array.file.open.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, InterruptedError):
            raise unwritten(path, error) from error
        raise
    weakref.finalize(array.file.open, _remove, path, os.getpid())
    return array


SCRATCH = ".cignn-scratch-"


def _roomy(beside: Path, need: int) -> Path:
    """Return the folder that temporary arrays of that many bytes fit into."""
    places = [beside, Path(tempfile.gettempdir())]
    free = {place: shutil.disk_usage(place).free for place in places}
    for place in places:
        if free[place] > need and os.access(place, os.W_OK):
            return place
    told = " and ".join(f"{size / 2**30:.1f} GiB are free in {place}" for place, size in free.items())
    raise OSError(
        f"temporary arrays of {need / 2**30:.1f} GiB do not fit on the disk: {told}; free some space, or set "
        "TMPDIR to a folder with more."
    )


def _lock(handle: int) -> None:
    """Mark a file as in use for as long as it is open, where the file system can."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that were killed: nobody holds their locks."""
    with suppress(ImportError):
        import fcntl

        for path in folder.glob(f"{SCRATCH}*.npy"):
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _remove(path: Path, owner: int) -> None:
    """Remove a temporary file, not from a process that was forked."""
    if os.getpid() == owner:
        with suppress(OSError):
            path.unlink()
