"""Files of others: looked at before they are opened, and whatever reading them raises told in one line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


def all_named(paths: Iterable[Path]) -> list[Path]:
    """Return the paths, sorted, after a look at every name."""
    return sorted(named(path) for path in paths)


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
    except MemoryError as error:
        size = path.stat().st_size / 2**20
        raise OSError(
            f"there is not enough memory to read {path} ({size:.0f} MiB on disk); close other programs."
        ) from error
    except OSError as error:
        raise type(error)(f"{path} cannot be read ({error.strerror or error}).") from error
    except Exception as error:  # numpy, zipfile, zlib and SciPy raise nearly anything
        raise ValueError(f"{path} {otherwise}") from error
