"""Several scans of a subject: which file of a folder is described by which line of the table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from cignn._words import name_some
from cignn.datasets.cohort_checks import Checks
from cignn.datasets.participants import bare, files_of, known_column, refuse_missing, short
from cignn.datasets.tables import MISSING

ENTITIES = {"session": "ses", "run": "run"}  # a column of the table → its word in names of files


class Scans(NamedTuple):
    """One line of the table and one file per scan."""

    frame: pd.DataFrame
    paths: list[Path]


def all_scans(frame: pd.DataFrame, files: list[Path], folder: Path, source: str, rules: Checks) -> Scans:
    """Keep every file of every participant; all scans of a subject get its first id, so splits see it.

    One line of an id describes all its files; of several, each describes the files with its session and
    run (``sub-01_ses-2_run-1.csv``).
    """
    spelling = {bare(name): name for name in reversed(frame["participant_id"].tolist())}
    frame = frame.assign(participant_id=frame["participant_id"].map(bare).map(spelling))
    matched = files_of(list(dict.fromkeys(frame["participant_id"])), files)
    alone = ~frame["participant_id"].duplicated(keep=False)
    pairs = [
        (line, path)
        for line, name in enumerate(frame["participant_id"])
        for path in matched[name]
        if alone[line] or _fits(path, frame, line)
    ]
    taken = pd.Series([path for _, path in pairs], dtype=object)
    twice = taken[taken.duplicated()].unique()
    if len(twice):
        raise ValueError(
            f"{source}: more than one line for {name_some(path.name for path in twice)}; tell the scans of a "
            "subject apart by a column session or run, written as in the names of their files (ses-1, run-1)."
        )
    described = {line for line, _ in pairs}
    without = [name for line, name in enumerate(frame["participant_id"]) if line not in described]
    ownerless = [path.name for path in files if path not in set(taken)]
    refuse_missing(without, ownerless, len(files), folder, source, rules)
    lines = [line for line, _ in pairs]
    return Scans(frame.iloc[lines].reset_index(drop=True), [path for _, path in pairs])


def _fits(path: Path, frame: pd.DataFrame, line: int) -> bool:
    """Whether the name of a file has the session and the run that a line gives."""
    for name, word in ENTITIES.items():
        column = known_column(frame, name)
        value = "" if column is None else _number(str(frame[column].iloc[line]), word)
        found = re.search(rf"_{word}-([a-z0-9]+)", path.name, re.IGNORECASE)
        if value not in MISSING and (found is None or _number(found[1], word) != value):
            return False
    return True


def _number(value: str, word: str) -> str:
    """``ses-01``, ``01`` and ``1`` are the same."""
    return short(re.sub(rf"^{word}[-_]?(?=.)", "", value.strip().lower()))
