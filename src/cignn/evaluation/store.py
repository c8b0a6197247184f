"""Finished tasks on disk: one SQLite file per results folder, one row per task.

A task is written in one transaction when it has finished, so a killed run loses only what was in flight. Two
runs may write to one store: a task that both have done is kept once. The write-ahead log needs a local disk.
"""

from __future__ import annotations

import json
import platform
import sqlite3
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from cignn._arrays import digest
from cignn._files import unwritten
from cignn.evaluation.store_file import (
    BROKEN,
    FORMAT,
    SCHEMA,
    SUMS,
    TABLES,
    DamagedError,
    Rows,
    checksum,
    columns_in,
    connect,
    connect_to_read,
    may_write,
    parsed,
    read_tables,
    rows_of,
    salvaged,
)
from cignn.evaluation.tables import SETTINGS
from cignn.evaluation.tasks import Outcome, Predictions, Task

FILE = "results.sqlite"
PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "pandas", "nilearn")
COLUMNS = ["method", "data", "protocol", "split", "seed"]
SIZES = ["n_train", "n_validation", "n_test"]
# SQLite's codes of what is no damage: somebody else writes, or the disk does not take it
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
UNWRITTEN = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}


class Store:
    """The finished tasks of a results folder.

    Parameters
    ----------
    path : str, Path or None, default=None
        Folder, made where it is missing; the file in it is ``results.sqlite``. Where it cannot be written, as
        on a read-only medium, what it holds can still be read. Without a path tasks are kept in memory.

    Attributes
    ----------
    read_only : bool
        Whether nothing can be added.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.evaluation import Store, evaluate
    >>> with Store() as store:
    ...     results = evaluate({"lasso": {"C": 1.0}}, make_ba2motifs(40, random_state=0), store=store)
    ...     predictions, tasks = store.predictions(), store.tasks()
    >>> len(predictions), tasks["status"].tolist()
    (4, ['done'])
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.file = None if self.path is None else self.path / FILE
        self.read_only = False
        self._lock = threading.RLock()  # joblib asks for tasks from a thread of its own
        if self.path is not None and self.path.is_file():
            raise ValueError(f"store must be a folder, {self.path} is a file.")
        try:
            self._db = self._connect()
            self._prepare()
        except BROKEN as error:
            raise self._refused(error) from None

    def _connect(self) -> sqlite3.Connection:
        if self.file is None:
            return connect(Path(":memory:"))
        self.read_only = self.file.is_file() and not may_write(self.file)
        if self.read_only:
            return connect_to_read(self.file)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritten(self.file.parent, error) from None
        return connect(self.file)

    def _prepare(self) -> None:
        # before the version: another run may make the tables meanwhile, in one step with it
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise ValueError(f"{self.path} was written by a newer cignn; upgrade.")
        if tables and not version:
            raise ValueError(
                f"{self.file} is no store (a database of something else); choose another folder."
            )
        wanted = TABLES | ({"checksums": SUMS} if version == FORMAT else {})  # which older ones do not have
        if version and any(columns_in(self._db, table) != list(names) for table, names in wanted.items()):
            raise DamagedError("its tables are not those of a store")
        if self.read_only:
            if not tables:
                raise ValueError(f"{self.file} holds no results, and cannot be written.")
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing, a power cut little
        if version < FORMAT:
            self._db.executescript(f"BEGIN IMMEDIATE;{SCHEMA}PRAGMA user_version = {FORMAT};COMMIT;")

    def close(self) -> None:
        """Close the file; what is in memory is lost."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ writing

    def add(self, task: Task, outcome: Outcome) -> None:
        """Keep a finished task, whole or not at all; only a failure is ever replaced.

        Parameters
        ----------
        task : Task
            The task.
        outcome : Outcome
            What came of it.
        """
        key, errors = task.key, outcome.explainer_errors
        scores: list[tuple] = [(key, s.explainer, s.metric, _real(s.value), None) for s in outcome.scores]
        scores += [(key, name, "error", None, error) for name, error in errors.items()]
        self._add(Rows(key, [_row(task, outcome)], scores, [*_prediction_rows(key, outcome.predictions)]))

    def check_writable(self) -> None:
        """Refuse a store that nothing can be added to, before the work and not after it."""
        if self.read_only:
            raise PermissionError(f"{self.file} cannot be written, only read; choose another folder.")

    def _add(self, rows: Rows) -> None:
        self.check_writable()
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                if self.status([rows.key]).get(rows.key) != "done":
                    for table in (*TABLES, "checksums"):  # a failure may have left scores as well
                        self._db.execute(f"DELETE FROM {table} WHERE key = ?", [rows.key])
                    for table in TABLES:
                        self._insert(table, getattr(rows, table))
                    # of what is read, not of what was given: SQLite makes a real number of a whole one
                    sums = [checksum(rows_of(self._db, table, rows.key)) for table in TABLES]
                    self._insert("checksums", [(rows.key, *sums)])
                self._db.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                if isinstance(error, (*BROKEN, OverflowError)):
                    raise self._refused(error) from None
                raise

    def _insert(self, table: str, rows: list[tuple]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    # ------------------------------------------------------------------ reading

    def status(self, keys: Collection[str]) -> dict[str, str]:
        """Return which tasks are kept.

        Parameters
        ----------
        keys : collection of str
            Keys of tasks.

        Returns
        -------
        dict of str to str
            "done" or "failed" for those of the keys that are kept.
        """
        wanted = set(keys)
        only, which = (" WHERE key = ?", list(wanted)) if len(wanted) == 1 else ("", [])
        with self._lock:
            try:
                rows = self._db.execute(f"SELECT key, status FROM tasks{only}", which).fetchall()
            except BROKEN as error:
                raise self._refused(error) from None
        return {key: status for key, status in rows if key in wanted}

    def tasks(self) -> pd.DataFrame:
        """Return one row per task.

        Returns
        -------
        DataFrame
            Status, error, settings, what a search chose, seconds, memory and versions. The column
            settings_digest is a word for the settings and the version of the package; rows of `results` and
            `predictions` have it too, and the task's key.
        """
        (table,) = self._read("tasks")
        for name in ("settings", "chosen", "versions", "classes"):
            table[name] = [parsed(text) if isinstance(text, str) else None for text in table[name]]
        return _sorted(table)

    def results(self) -> pd.DataFrame:
        """Return one row per task and metric of everything that is kept, several runs too.

        Returns
        -------
        DataFrame
            The columns of `evaluate`.
        """
        tasks, scores = self._read("tasks", "scores")
        names = ["key", *COLUMNS, *SIZES, SETTINGS]
        scored = scores.merge(tasks[names], on="key")
        failed = tasks[tasks["status"] == "failed"]
        failed = failed[[*names, "error"]].assign(explainer="", metric="error", value=np.nan)
        order = ["key", *COLUMNS, "explainer", "metric", "value", *SIZES, "error", SETTINGS]
        table = pd.DataFrame({name: [*scored[name], *failed[name]] for name in order}, columns=order)
        table["value"] = table["value"].astype(float)
        known = dict(zip(tasks["key"], tasks["classes"], strict=True))
        table["positive"] = pd.Series([_second(known[key]) for key in table["key"]], dtype=object)
        return _sorted(table, "explainer", "metric")

    def predictions(self) -> pd.DataFrame:
        """Return one row per task and scan of its test part.

        Returns
        -------
        DataFrame
            The names of the task, position, subject, site, y_true, y_pred and the probabilities in columns
            ``p_<class>``.
        """
        tasks, table = self._read("tasks", "predictions")
        table = tasks[["key", *COLUMNS, "classes", SETTINGS]].merge(table, on="key")
        for name in ("y_true", "y_pred"):
            table[name] = pd.Series([parsed(text) for text in table[name]], dtype=object).infer_objects()
        columns: dict[str, np.ndarray] = {}
        for text, rows in table.groupby("classes").indices.items():
            chances = [parsed(p) if isinstance(p, str) else None for p in table["probabilities"].iloc[rows]]
            for k, label in enumerate(parsed(text)):
                column = columns.setdefault(f"p_{label}", np.full(len(table), np.nan))
                column[rows] = [np.nan if p is None else p[k] for p in chances]
        names = ["key", *COLUMNS, "position", "subject", "site", "y_true", "y_pred"]
        table = table[[*names, SETTINGS]].assign(**columns)
        return _sorted(table[[*names, *columns, SETTINGS]], "position")

    def _read(self, *tables: str) -> list[pd.DataFrame]:
        """Return tables as they are kept, the tasks with the digest of their settings."""
        with self._lock:
            try:
                found = read_tables(self._db, *tables)
            except BROKEN as error:
                raise self._refused(error) from None
        out = [
            pd.DataFrame.from_records(rows, columns=list(TABLES[table]))
            for table, rows in zip(tables, found, strict=True)
        ]
        for table, frame in zip(tables, out, strict=True):
            if table == "tasks":
                pairs = zip(frame["settings"], frame["versions"], strict=True)
                frame[SETTINGS] = [digest(text, parsed(said)["cignn"], length=8) for text, said in pairs]
        return out

    # ----------------------------------------------------------------- rescuing

    @staticmethod
    def rescue(path: str | Path, into: str | Path) -> Rescued:
        """Copy what can be read of a damaged store into a new one; nothing happens to the old one.

        Parameters
        ----------
        path : str or Path
            Folder of the damaged store.
        into : str or Path
            Folder of the new one, without a store so far. The same evaluation there does only what was lost.

        Returns
        -------
        Rescued
            How many tasks were copied, and how many are named in the old file but cannot be read whole.
        """
        old, new = Path(path) / FILE, Path(into) / FILE
        if not old.is_file():
            raise FileNotFoundError(f"there is no store at {path}: {FILE} is missing.")
        if new.exists():
            raise FileExistsError(f"{new} is there already; choose another folder.")
        copied = lost = 0
        with Store(into) as store:
            for rows in salvaged(old):
                if rows is None:
                    lost += 1
                else:
                    store._add(rows)
                    copied += 1
        return Rescued(copied, lost)

    def _refused(self, error: Exception) -> Exception:
        """Return what to raise: what is wrong with which file, what is left, and what to do."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        where = self.file or "the store in memory"
        if code in BUSY or code in UNWRITTEN or isinstance(error, OverflowError) or self.file is None:
            what = "is in use by another program" if code in BUSY else "could not be written to"
            return OSError(f"{where} {what} ({error}).")
        if code == sqlite3.SQLITE_NOTADB:
            return ValueError(f"{where} is no store ({error}); choose another folder.")
        try:
            tasks = list(salvaged(self.file))
        except (*BROKEN, OSError):
            tasks = []
        readable = sum(task is not None for task in tasks)
        why = str(error) or type(error).__name__
        line = f"{where} is damaged ({why}); {readable} of {len(tasks)} tasks in it can be read"
        if not readable:
            return ValueError(f"{line}: put back a copy, or evaluate again into another folder.")
        return ValueError(f'{line}: Store.rescue("{self.path}", "rescued") copies them into a new folder.')


class Rescued(NamedTuple):
    """What `Store.rescue` found."""

    copied: int
    lost: int


# ----------------------------------------------------------------------- helpers


def _row(task: Task, outcome: Outcome) -> tuple:
    split, p = task.split, outcome.predictions
    return (
        *(task.key, task.method, task.data, task.protocol.name, split.name, int(task.seed)),
        *(len(split.train), len(split.validation), len(split.test)),
        *("done" if outcome.error is None else "failed", outcome.error, outcome.trace),
        json.dumps(task.settings, sort_keys=True),
        None if outcome.chosen is None else json.dumps(outcome.chosen, default=str),
        None if p is None else json.dumps(np.asarray(p.classes).tolist()),
        *(outcome.seconds, outcome.peak_memory, json.dumps(versions()), outcome.host),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _prediction_rows(key: str, p: Predictions | None) -> Iterable[tuple]:
    if p is None:
        return
    true, predicted = np.asarray(p.y_true).tolist(), np.asarray(p.y_pred).tolist()
    for i, position in enumerate(p.position):
        yield (
            *(key, int(position), str(p.subject[i]), None if p.site is None else str(p.site[i])),
            *(json.dumps(true[i]), json.dumps(predicted[i])),
            None if p.probabilities is None else json.dumps(p.probabilities[i].tolist()),
        )


def versions() -> dict[str, str]:
    """Versions of what the figures come from."""
    import cignn

    return {"cignn": cignn.__version__, "python": platform.python_version()} | _package_versions()


@cache
def _package_versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _real(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None  # a score that is no number is a missing one


def _second(classes: str | None) -> Any:
    """The class, of two, that scores in the store are of; None of more, and of tasks that failed."""
    labels = parsed(classes) if isinstance(classes, str) else []
    return labels[1] if len(labels) == 2 else None


def _sorted(table: pd.DataFrame, *more: str) -> pd.DataFrame:
    return table.sort_values([*COLUMNS, *more], kind="stable").reset_index(drop=True)
