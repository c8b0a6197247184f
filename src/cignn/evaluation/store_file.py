"""The SQLite file of a `Store`: its tables, how it is opened, and what a sound row looks like.

SQLite notices damage of its own pages, not of the values in them; a checksum per task and table does.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = 2  # 1: without checksums
PATIENCE = 60.0  # seconds to wait for another run that is writing
LONGEST = 10**8  # bytes of one value; a damaged file may claim any length

SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    key TEXT PRIMARY KEY, method TEXT, data TEXT, protocol TEXT, split TEXT, seed INTEGER,
    n_train INTEGER, n_validation INTEGER, n_test INTEGER,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')), error TEXT, trace TEXT,
    settings TEXT, chosen TEXT, classes TEXT, seconds REAL, peak_memory INTEGER,
    versions TEXT, host TEXT, finished TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scores (
    key TEXT, explainer TEXT, metric TEXT, value REAL, error TEXT, PRIMARY KEY (key, explainer, metric)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS predictions (
    key TEXT, position INTEGER, subject TEXT, site TEXT, y_true TEXT, y_pred TEXT, probabilities TEXT,
    PRIMARY KEY (key, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checksums (
    key TEXT PRIMARY KEY, tasks TEXT, scores TEXT, predictions TEXT
) WITHOUT ROWID;
"""

Table = list[tuple[Any, ...]]


class DamagedError(Exception):
    """Something in the file is not what was written; the message says what."""


# what a damaged file raises when it is read: names of columns that are not UTF-8 come as they are, and a page
# may claim more memory than there is
BROKEN = (sqlite3.Error, UnicodeDecodeError, DamagedError, MemoryError)


# ------------------------------------------------------------------ what a value must be


def parsed(text: Any) -> Any:
    """Read a value kept as JSON."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise DamagedError("a value is not JSON") from None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int)


def _is_real(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_scalar(value: Any) -> bool:
    return not isinstance(parsed(value), (dict, list))


def _is_list(value: Any) -> bool:
    return isinstance(parsed(value), list)


def _is_table(value: Any) -> bool:
    return isinstance(parsed(value), dict)


def _says_versions(value: Any) -> bool:
    said = parsed(value)
    return isinstance(said, dict) and isinstance(said.get("cignn"), str)


def _are_chances(value: Any) -> bool:
    chances = parsed(value)
    return isinstance(chances, list) and all(isinstance(p, float) or p in (0, 1) for p in chances)


def _perhaps(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


TABLES: dict[str, dict[str, Callable[[Any], bool]]] = {
    "tasks": {
        **dict.fromkeys(("key", "method", "data", "protocol", "split"), _is_text),
        **dict.fromkeys(("seed", "n_train", "n_validation", "n_test"), _is_whole),
        "status": ("done", "failed").__contains__,
        **dict.fromkeys(("error", "trace"), _perhaps(_is_text)),
        "settings": _is_table,
        "chosen": _perhaps(_is_table),
        "classes": _perhaps(_is_list),
        "seconds": _is_real,
        "peak_memory": _perhaps(_is_whole),
        "versions": _says_versions,
        **dict.fromkeys(("host", "finished"), _is_text),
    },
    "scores": {
        **dict.fromkeys(("key", "explainer", "metric"), _is_text),
        "value": _perhaps(_is_real),
        "error": _perhaps(_is_text),
    },
    "predictions": {
        "key": _is_text,
        "position": _is_whole,
        "subject": _is_text,
        "site": _perhaps(_is_text),
        "y_true": _is_scalar,
        "y_pred": _is_scalar,
        "probabilities": _perhaps(_are_chances),
    },
}
SUMS = ["key", *TABLES]  # columns of the checksums
PARTS = {"tasks": "key", "scores": "key, explainer, metric", "predictions": "key, position"}


def checksum(rows: Sequence[tuple[Any, ...]]) -> str:
    """Return a digest of the rows that one task has in one table, in the order of their keys."""
    content = repr(list(rows)).encode("utf-8", "replace")
    return hashlib.blake2b(content, digest_size=16).hexdigest()  # part of the format: files keep it


def check_rows(table: str, rows: Table) -> None:
    """Refuse rows with values that no store writes."""
    for row in rows:
        for (name, sound), value in zip(TABLES[table].items(), row, strict=True):
            if not sound(value):
                raise DamagedError(f"{table}.{name} holds {repr(value)[:40]}")


# ---------------------------------------------------------------------------- reading


def columns_in(db: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of a table's columns; none where there is no such table."""
    known = db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [table]).fetchone()
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")] if known else []


def rows_of(db: sqlite3.Connection, table: str, key: str | None = None) -> Table:
    """Return the rows of a table, of one task or of all, task by task."""
    names = ", ".join(TABLES.get(table, SUMS))
    which, values = ("", []) if key is None else (" WHERE key = ?", [key])
    order = PARTS.get(table, "key")
    return db.execute(f"SELECT {names} FROM {table}{which} ORDER BY {order}", values).fetchall()


def read_tables(db: sqlite3.Connection, *tables: str, key: str | None = None) -> list[Table]:
    """Return all rows of some tables as they stand at one moment; refuse what is damaged.

    key : of the only task to read; all by default
    """
    db.execute("BEGIN")
    try:
        tasks = {row[0] for row in rows_of(db, "tasks", key)}
        found = [rows_of(db, table, key) for table in tables]
        sums = rows_of(db, "checksums", key) if columns_in(db, "checksums") else []
    finally:
        with suppress(sqlite3.Error):
            db.execute("COMMIT")
    for table, rows in zip(tables, found, strict=True):
        check_rows(table, rows)
        _check_sums(table, rows, tasks, sums)
    if "predictions" in tables:
        _check_chances(found[tables.index("tasks")], found[tables.index("predictions")])
    return found


def _check_chances(tasks: Table, predictions: Table) -> None:
    """Refuse predictions without one probability per class."""
    classes = {row[0]: row[list(TABLES["tasks"]).index("classes")] for row in tasks}
    n_classes = {key: -1 if text is None else len(parsed(text)) for key, text in classes.items()}
    for row in predictions:
        if n_classes[row[0]] < 0 or (row[-1] is not None and len(parsed(row[-1])) != n_classes[row[0]]):
            raise DamagedError("predictions.probabilities do not fit the classes")


def _check_sums(table: str, rows: Table, tasks: set[str], sums: Table) -> None:
    """Refuse rows that are not those that were written; tasks of older versions have no checksum."""
    by_key = {key: list(some) for key, some in groupby(rows, itemgetter(0))}
    place = SUMS.index(table)
    for row in sums:
        if row[0] not in tasks or checksum(by_key.get(row[0], [])) != row[place]:
            raise DamagedError(f"the checksum of {table} of task {str(row[0])[:40]} does not hold")
    if not tasks.issuperset(by_key):
        raise DamagedError(f"{table} holds rows of tasks that are not there")


# ---------------------------------------------------------------------------- opening


def connect(file: Path) -> sqlite3.Connection:
    """Open a file to read and to write, made where it is missing."""
    return _ready(sqlite3.connect(file, timeout=PATIENCE, isolation_level=None, check_same_thread=False))


def connect_to_read(file: Path) -> sqlite3.Connection:
    """Open a file that may not be written, such as on a read-only medium.

    Beside a run of somebody else its log is read as well. Where SQLite cannot, because it may not make a
    file beside it, nobody writes: the file stands alone, or is copied together with the log of a killed run.
    """
    address = file.absolute().as_uri()
    for how in ("mode=ro", "mode=ro&immutable=1"):
        db = None
        try:
            if "immutable" in how and _log_of(file):
                return _in_memory(file)
            db = sqlite3.connect(
                f"{address}?{how}", timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=True
            )
            _ready(db).execute("SELECT count(*) FROM sqlite_master").fetchone()
            return db
        except sqlite3.OperationalError:
            if db is not None:
                db.close()
            if "immutable" in how:
                raise
    raise AssertionError("one of the ways returns or raises")


def _in_memory(file: Path) -> sqlite3.Connection:
    with _copied(file) as source:
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        source.backup(db)
    return _ready(db)


@contextmanager
def _copied(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a copy of a file and its log: nothing happens to the file."""
    with tempfile.TemporaryDirectory(prefix="cignn-") as folder:
        for one in (file, *_log_of(file)):
            shutil.copyfile(one, Path(folder) / one.name)
        with closing(sqlite3.connect(Path(folder) / file.name, isolation_level=None)) as db:
            yield db


def _log_of(file: Path) -> list[Path]:
    """The log of a run that was killed before it was written into the file."""
    log = file.with_name(f"{file.name}-wal")
    return [log] if log.is_file() and log.stat().st_size else []


def _ready(db: sqlite3.Connection) -> sqlite3.Connection:
    db.text_factory = _decoded
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    db.execute("PRAGMA trusted_schema = OFF")  # a file may come from anywhere
    return db


def _decoded(raw: bytes) -> Any:
    """Text, or the bytes themselves where they are none: `check_rows` tells where."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def may_write(file: Path) -> bool:
    """Whether the file, or one in its place, can be written: SQLite makes others beside it."""
    return os.access(file.parent, os.W_OK) and (not file.exists() or os.access(file, os.W_OK))


# -------------------------------------------------------------------------- rescuing


class Rows(NamedTuple):
    """The rows of one task."""

    key: str
    tasks: Table
    scores: Table
    predictions: Table


def salvaged(file: Path) -> Iterator[Rows | None]:
    """Yield the tasks of a damaged file one by one, None for each that cannot be read whole."""
    with _copied(file) as db:
        with suppress(sqlite3.Error):
            _ready(db)
        for key in sorted(_keys(db)):
            try:
                task = Rows(key, *read_tables(db, *TABLES, key=key))
            except BROKEN:
                yield None
            else:
                yield task if task.tasks else None


def _keys(db: sqlite3.Connection) -> set[str]:
    """The keys that any table names, read from both ends: a damaged page ends a walk."""
    found = set()
    for table in (*TABLES, "checksums"):
        for order in ("ASC", "DESC"):
            with suppress(*BROKEN):
                for (key,) in db.execute(f"SELECT DISTINCT key FROM {table} ORDER BY key {order}"):
                    if isinstance(key, str):
                        found.add(key)
    return found
