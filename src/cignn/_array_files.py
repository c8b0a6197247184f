"""Arrays in files of unknown origin, .npy and .npz: checked before they are read, every error in one line."""

from __future__ import annotations

import math
import os
import stat
import threading
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from cignn._checks import DataError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
LONGEST = 255  # bytes of a name, on all common file systems


class UnreadableError(Exception):
    """Says what is wrong with a file, without its name."""


def named(path: str | Path) -> Path:
    """Return a path whose name can be written in messages and tables, and exist; refuse others.

    Names of files are bytes. Those that are not UTF-8 cannot be printed or written, and would end a run only
    when its results are.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise ValueError(f"the name of {shown} is not UTF-8; rename the file or folder.") from None
    longest = max(Path(path).parts, key=len, default="")
    if len(longest.encode()) > LONGEST:
        raise FileNotFoundError(
            f"{longest[:40]}… does not exist: no file has a name of {len(longest)} letters."
        )
    return Path(path)


def regular(path: str | Path, missing: str) -> Path:
    """Return the path of a regular file; refuse pipes and devices, which could be waited for without end.

    missing : what to do where there is no such file, for the message
    """
    path = named(path)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for a zero in the name
        raise FileNotFoundError(f"{path} does not exist; {missing}.") from None
    except OSError as error:
        raise type(error)(f"{path} cannot be read ({error.strerror}).") from error
    if not stat.S_ISREG(mode):
        what = next((word for test, word in _KINDS if test(mode)), "no regular file")
        raise ValueError(f"{path} is {what}, expected a regular file; {missing}.")
    return path


@contextmanager
def reading(path: Path, otherwise: str) -> Iterator[None]:
    """Turn what foreign bytes make readers raise into one ValueError that names the file.

    otherwise : what is wrong where the error does not say it in our words
    """
    try:
        yield
    except UnreadableError as error:
        told = str(error)
        raise ValueError(f"{path}{told}" if told[0] in ":," else f"{path} {told}") from error
    except DataError as error:
        raise error.at(path) from error
    except MemoryError as error:
        size = path.stat().st_size / 2**20
        raise OSError(
            f"there is not enough memory to read {path} ({size:.0f} MiB on disk); close other programs."
        ) from error
    except OSError as error:
        raise type(error)(f"{path} cannot be read ({error.strerror or error}).") from error
    except Exception as error:  # numpy, zipfile, zlib and SciPy raise nearly anything
        raise ValueError(f"{path} {otherwise}") from error


NUMBERS = "biuf"
NUMBERS_AND_WORDS = "biufUS"
BROKEN = "is not a readable .npy file of numbers; write it with np.save."
_DTYPES = {"O": "Python objects", "c": "complex numbers", "M": "dates", "m": "times", "V": "records"}
_DEFLATE = 1032  # no zip member unpacks to more than this many times its size
_SLACK = 2**16
_REMEDY = "write it with cohort.save or np.savez"
_HEADERS = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
    (3, 0): npy.read_array_header_2_0,  # differs in the names of fields, and records are refused
}
# Headers are Python literals. Before 3.11.9 and 3.12.3 two threads that parse literals at the same time can
# both fail (SystemError, AST constructor recursion depth mismatch), and cohorts are read by threads.
_parsing = threading.Lock()


def read_npy(path: str | Path, kinds: str = NUMBERS) -> np.ndarray:
    """Return the array of an .npy file; kinds : of values that it may hold."""
    path = regular(path, "give an .npy file")
    with reading(path, BROKEN), path.open("rb") as stream:
        return _checked_array(stream, path.stat().st_size, "the array", kinds)


def read_npz(
    path: str | Path, *, only: Collection[str] | None = None, remedy: str = _REMEDY
) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, numbers or words.

    only : names of the arrays to read, None for all. remedy : what to do with a file that cannot be read
    """
    path = regular(path, "give an .npz file")
    broken = f"is not a readable .npz file of plain arrays; {remedy}."
    arrays: dict[str, np.ndarray] = {}
    with reading(path, broken), zipfile.ZipFile(path) as file:
        for member in file.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename or (only is not None and name not in only):
                continue
            if name in arrays:
                raise UnreadableError(f"holds the array {name!r} twice; write it again.")
            if member.file_size > _DEFLATE * member.compress_size + _SLACK:
                raise UnreadableError(f"says that {name!r} is larger than it can be; get the file again.")
            what = f"the array {name!r}"
            with file.open(member) as stream:
                arrays[name] = _checked_array(stream, member.file_size, what, NUMBERS_AND_WORDS)
    return arrays


def names_in(path: Path) -> list[str]:
    """Return the names of the arrays in an .npz file."""
    broken = f"is not a readable .npz file of plain arrays; {_REMEDY}."
    with reading(path, broken), zipfile.ZipFile(path) as file:
        return [name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy")]


class Header(NamedTuple):
    """What the beginning of an .npy file says of its array."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool  # whether columns, not rows, are contiguous
    offset: int  # byte of the first value


def read_header(stream: Any, size: int, what: str, kinds: str) -> Header:
    """Read a header and hold it against the bytes there are; ``size`` of the whole."""
    version = npy.read_magic(stream)
    with _parsing:
        shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.kind not in kinds:
        raise UnreadableError(f": {what} holds {_DTYPES.get(dtype.kind, 'words')}; {_advice(what, dtype)}.")
    count, there = math.prod(shape), size - stream.tell()
    empty = not count and max(shape) > size  # no values, but sides that others would allocate
    if min(shape, default=0) < 0 or empty or count * dtype.itemsize != there or count > there:
        raise UnreadableError(
            f": {what} should have {' × '.join(map(str, shape)) or 'one'} values of {dtype.itemsize} bytes, "
            f"{there} bytes are there; get or write the file again."
        )
    return Header(shape, dtype, fortran, size - there)


def _checked_array(stream: Any, size: int, what: str, kinds: str) -> np.ndarray:
    """Read an array after its header was held against the bytes there are; ``size`` of the whole."""
    shape, dtype, fortran, offset = read_header(stream, size, what, kinds)
    if size - offset > memory():
        gib = (size - offset) / 2**30
        raise UnreadableError(f": {what} takes {gib:.0f} GiB, more than this machine's memory.")
    values = np.empty(math.prod(shape), dtype)
    _fill(stream, values)
    values = values.reshape(shape, order="F" if fortran else "C")
    native = dtype.newbyteorder("=")  # pandas takes no other
    return _words(values, what) if dtype.kind in "US" else values.astype(native, copy=False)


def _fill(stream: Any, values: np.ndarray) -> None:
    rest = memoryview(values.view(np.uint8).data) if values.nbytes else memoryview(b"")
    while len(rest):
        got = stream.readinto(rest[: 2**24])
        if not got:
            raise UnreadableError("is cut off; get or write the file again.")
        rest = rest[got:]
    stream.read(1)  # the end of a zip member, where its check sum is compared


def _words(values: np.ndarray, what: str) -> np.ndarray:
    """Text that can be printed and written: no code points that Unicode does not have."""
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise UnreadableError(f": {what} holds words that are not UTF-8; write them as text.") from None
    native = values.astype(values.dtype.newbyteorder("="))
    points = np.ascontiguousarray(native).reshape(-1).view(np.uint32)
    if ((points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))).any():
        raise UnreadableError(f": {what} holds characters that do not exist; get or write the file again.")
    return native


def _advice(what: str, dtype: np.dtype) -> str:
    if dtype.kind == "O" and "'series'" in what:
        return "save np.concatenate(series) with lengths=[len(one) for one in series]"
    return "save numbers or words (.astype(str))" if dtype.kind == "O" else "save plain numbers"


def memory() -> float:
    """Bytes of memory this machine has, infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf
