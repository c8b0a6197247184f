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
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from cignn.evaluation.methods import digest
from cignn.evaluation.mixtures import SETTINGS
from cignn.evaluation.tasks import Outcome, Predictions, Task

FILE = "results.sqlite"
FORMAT = 1
PATIENCE = 60.0  # seconds to wait for another run that is writing
PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "pandas", "nilearn")
COLUMNS = ["method", "data", "protocol", "split", "seed"]

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
"""


class Store:
    """The finished tasks of a results folder; without a path they are kept in memory.

    path : folder, made where it is missing; the file in it is ``results.sqlite``.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._lock = threading.RLock()  # joblib asks for tasks from a thread of its own
        where = ":memory:"
        if self.path is not None:
            if self.path.is_file():
                raise ValueError(f"store must be a folder, {self.path} is a file.")
            self.path.mkdir(parents=True, exist_ok=True)
            where = str(self.path / FILE)
        try:
            self._db = sqlite3.connect(where, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{where} cannot be used as a store ({error}); choose another folder.") from None

    def _prepare(self) -> None:
        # before the version: another run may make the tables meanwhile, in one step with it
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise ValueError(f"{self.path} was written by a newer cignn; upgrade.")
        if tables and not version:
            raise sqlite3.DatabaseError("a database of something else")
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
        """Keep a finished task, whole or not at all; only a failure is ever replaced."""
        key, errors = task.key, outcome.explainer_errors
        scores: list[tuple] = [(key, s.explainer, s.metric, _real(s.value), None) for s in outcome.scores]
        scores += [(key, name, "error", None, error) for name, error in errors.items()]
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                known = self._db.execute("SELECT status FROM tasks WHERE key = ?", [key]).fetchone()
                if known is None or known[0] == "failed":
                    for table in ("scores", "predictions"):  # a failure may have come after these
                        self._db.execute(f"DELETE FROM {table} WHERE key = ?", [key])
                    self._insert("REPLACE", "tasks", [_row(task, outcome)])
                    self._insert("INSERT", "scores", scores)
                    self._insert("INSERT", "predictions", _prediction_rows(key, outcome.predictions))
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):  # a full disk, or another run that hangs
                    raise OSError(f"{self.path} could not be written to ({error}).") from None
                raise

    def _insert(self, verb: str, table: str, rows: Iterable[tuple]) -> None:
        rows = list(rows)
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._db.executemany(f"{verb} INTO {table} VALUES ({marks})", rows)

    # ------------------------------------------------------------------ reading

    def status(self, keys: Collection[str]) -> dict[str, str]:
        """Return "done" or "failed" for those of the keys that are kept."""
        wanted = set(keys)
        only, which = (" WHERE key = ?", list(wanted)) if len(wanted) == 1 else ("", [])
        with self._lock:
            rows = self._db.execute(f"SELECT key, status FROM tasks{only}", which).fetchall()
        return {key: status for key, status in rows if key in wanted}

    def tasks(self) -> pd.DataFrame:
        """One row per task: status, error, settings, what a search chose, seconds, memory, versions.

        settings_digest : a word for the settings and the version of the package; rows of `results` and
        `predictions` have it too, and the task's key.
        """
        table = self._read("SELECT * FROM tasks")
        table[SETTINGS] = _settings_digests(table)
        for name in ("settings", "chosen", "versions", "classes"):
            table[name] = [json.loads(text) if isinstance(text, str) else None for text in table[name]]
        return _sorted(table)

    def results(self) -> pd.DataFrame:
        """One row per task and metric of everything that is kept, several runs too: see `evaluate`."""
        scores = self._read(
            "SELECT key, method, data, protocol, split, seed, explainer, metric, value, "
            "n_train, n_validation, n_test, scores.error AS error FROM tasks JOIN scores USING (key)"
        )
        failures = self._read(
            "SELECT key, method, data, protocol, split, seed, '' AS explainer, 'error' AS metric, "
            "NULL AS value, n_train, n_validation, n_test, error FROM tasks WHERE status = 'failed'"
        )
        table = pd.DataFrame(
            {name: [*scores[name], *failures[name]] for name in scores}, columns=list(scores.columns)
        )
        table["value"] = table["value"].astype(float)
        table[SETTINGS] = table["key"].map(self._settings_by_key())
        return _sorted(table, "explainer", "metric")

    def predictions(self) -> pd.DataFrame:
        """One row per task and scan of its test part, probabilities in columns ``p_<class>``."""
        names = ", ".join(f"tasks.{name}" for name in COLUMNS)
        table = self._read(
            f"SELECT key, {names}, position, subject, site, y_true, y_pred, probabilities, classes "
            "FROM predictions JOIN tasks USING (key)"
        )
        for name in ("y_true", "y_pred"):
            table[name] = pd.Series([json.loads(text) for text in table[name]]).infer_objects()
        columns: dict[str, np.ndarray] = {}
        for text, rows in table.groupby("classes").indices.items():
            chances = [
                json.loads(p) if isinstance(p, str) else None for p in table["probabilities"].iloc[rows]
            ]
            for k, label in enumerate(json.loads(str(text))):
                column = columns.setdefault(f"p_{label}", np.full(len(table), np.nan))
                column[rows] = [np.nan if p is None else p[k] for p in chances]
        table = table.drop(columns=["probabilities", "classes"]).assign(**columns)
        table[SETTINGS] = table["key"].map(self._settings_by_key())
        return _sorted(table, "position")

    def _settings_by_key(self) -> dict[str, str]:
        table = self._read("SELECT key, settings, versions FROM tasks")
        return dict(zip(table["key"], _settings_digests(table), strict=True))

    def _read(self, query: str) -> pd.DataFrame:
        with self._lock:
            cursor = self._db.execute(query)
            rows = cursor.fetchall()
        return pd.DataFrame.from_records(rows, columns=[column[0] for column in cursor.description])


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


def _settings_digests(tasks: pd.DataFrame) -> list[str]:
    pairs = zip(tasks["settings"], tasks["versions"], strict=True)
    return [digest(settings, json.loads(said)["cignn"])[:8] for settings, said in pairs]


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
    return None if np.isnan(value) else float(value)


def _sorted(table: pd.DataFrame, *more: str) -> pd.DataFrame:
    return table.sort_values([*COLUMNS, *more], kind="stable").reset_index(drop=True)
