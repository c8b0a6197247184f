"""Files written whole: a kill, a full disk or a crash leaves the old content or the new one, never a part."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t")  # what a spreadsheet takes for the beginning of a formula
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield the path of a new file beside ``path``; it takes that name once the block has ended well.

    A link is followed. What cannot be written is an `OSError` that says so and that the old file is intact.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "scores.txt"
    >>> with replacing(path) as new:
    ...     _ = new.write_text("0.71")
    >>> path.read_text()
    '0.71'
    """
    target = Path(os.path.realpath(path))
    new: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            raise IsADirectoryError(errno.EISDIR, "not a regular file")
        # a name of its own: two runs may write the same file, and its own name may be as long as names get
        handle, name = tempfile.mkstemp(prefix=".cignn-", suffix=target.suffix[:16], dir=target.parent)
        os.close(handle)
        new = Path(name)
        yield new
        sync(new)
        os.chmod(new, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(new, target)
        sync(target.parent)
    except OSError as error:
        raise unwritten(path, error) from error
    finally:
        if new is not None:
            with suppress(OSError):
                new.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


def write_csv(path: str | Path, table: pd.DataFrame) -> None:
    """Write a table without its index; no cell of it is a formula to a spreadsheet."""
    with replacing(path) as new:
        guarded(table).to_csv(new, index=False)


def guarded(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose words, and names of columns, that begin like a formula have an apostrophe first.

    Numbers stay as they are, also where they are written as words.
    """
    words = table.select_dtypes(include=["object", "string", "category"])
    table = table.assign(**{name: table[name].astype(object).map(_guarded) for name in words})
    return table.rename(columns=_guarded)


def unwritten(path: str | Path, error: OSError) -> OSError:
    """Return the error that says what could not be written, why, and what became of the old file."""
    if isinstance(error.__cause__, OSError):  # of a part of it, said in the same words
        error = error.__cause__
    reason = error.strerror or str(error) or type(error).__name__
    there = "; the old one is intact" if os.path.lexists(path) else ""
    advice = "; free some space and try again" if error.errno in FULL else ""
    kind = type(error) if isinstance(error, PermissionError | IsADirectoryError) else OSError
    return kind(f"{path} could not be written ({reason}){there}{advice}.")


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk before anything that relies on it is written."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder that may be written but not read
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # file systems that cannot
            raise
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Lock a folder for this process; yields whether the file system supports that."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            alone = True
        except OSError:
            alone = False
        yield alone
    finally:
        os.close(handle)


def _guarded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    value = value.replace("\r", " ")  # which pandas would leave bare: a new line to other readers
    if not value.startswith(FORMULA) or len(value) == 1:  # a sign alone is no formula
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
