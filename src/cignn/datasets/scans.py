"""Files of scans: fMRIPrep derivatives and other images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from cignn._checks import DataError, Option, name_some
from cignn.datasets import participants as people
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_checks import Checks
from cignn.datasets.derivative_files import find_files
from cignn.datasets.exclusions import excluded, joined
from cignn.datasets.participants import Matched, bare, files_of, known_column, names_of, refuse_missing, short
from cignn.datasets.reading import MISSING, all_named

ENTITIES = {"session": "ses", "run": "run"}  # a column of the table → its word in names of files


def all_scans(frame: pd.DataFrame, files: list[Path], folder: Path, source: str, rules: Checks) -> Matched:
    """Keep every file of every participant; all scans of a subject get its first id, so splits see it.

    One line of an id describes all its files; of several, each describes the files with its session and
    run (``sub-01_ses-2_run-1.csv``).
    """
    spelling = {bare(name): name for name in reversed(frame["participant_id"].tolist())}
    frame = frame.assign(participant_id=frame["participant_id"].map(bare).map(spelling))
    matched = files_of(list(dict.fromkeys(frame["participant_id"])), files, folder)
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
        names = [path.name for path in twice]
        raise DataError(
            f"more than one line for {name_some(names)}",
            values=names,
            remedy="tell the scans of a subject apart by a column session or run, written as in the names of "
            "their files (ses-1, run-1)",
            source=source,
        )
    described = {line for line, _ in pairs}
    without = [name for line, name in enumerate(frame["participant_id"]) if line not in described]
    owned = set(taken)
    ownerless = names_of([path for path in files if path not in owned], folder)
    gone = refuse_missing(without, ownerless, len(files), folder, source, rules)
    lines = [line for line, _ in pairs]
    return Matched(frame.iloc[lines].reset_index(drop=True), [path for _, path in pairs], gone)


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


def holds_scans(path: Path) -> bool:
    """Whether a folder holds scans rather than series or matrices."""
    if any((path / name).is_dir() for name in ("series", "matrices")):
        return False
    if next(path.glob("sub-*/**/*_bold.nii*"), None) is None:
        return False
    found = find_files(path)  # xcp_d leaves its series beside denoised scans
    return not (found.series or found.matrices)


def from_scans(
    path: Path,
    label: str | None,
    participants: str | Path | pd.DataFrame | None,
    extract: Any,
    entities: dict[str, str],
    rules: Checks,
) -> Cohort:
    """Find fMRIPrep's scans, have their series extracted and say whose they are."""
    if extract is None:
        given = Option(
            "extract", ("RoiSeries(atlas=…)",), "pass extract=RoiSeries(atlas=…) (cignn.connectome)"
        )
        raise DataError(f"{path} holds scans, not series", options=[given])
    frame, source = people.participants_table(participants, [path, path.parent, path.parent.parent])
    people.labels(frame, label, source)
    choose = Option("entities", ({"task": "…"}, {"ses": "…"}, {"run": "…"}))
    frame, paths, gone = people.one_scan_each(
        frame, _choose_scans(path, entities), path, source, rules, [choose]
    )
    cohort = extract.transform([str(scan) for scan in paths])
    by_id = {people.bare(name): i for i, name in enumerate(frame["participant_id"])}
    rows = [by_id[people.bare(name)] for name in cohort.subjects]  # a scan that failed is not among them
    failed = frame["participant_id"].drop(index=rows)
    why = dict(zip(cohort.exclusions["subject"].map(people.bare), cohort.exclusions["detail"], strict=True))
    details = [why.get(people.bare(name), "no series") for name in failed]
    told = people.describe(frame.iloc[rows].reset_index(drop=True), label, source)
    if "mean_fd" in cohort.covariates:  # of the confounds, where the table does not say
        table, motion = told["covariates"], cohort.covariates["mean_fd"]
        said = table["mean_fd"].combine_first(motion) if "mean_fd" in table else motion
        told["covariates"] = table.assign(mean_fd=said)
    return cohort._with(exclusions=None, **told)._noting(joined(gone, excluded(failed, "extract", details)))


def _choose_scans(path: Path, entities: dict[str, str]) -> list[Path]:
    scans = all_named(path.glob("sub-*/**/*_desc-preproc_bold.nii.gz"))
    scans = [scan for scan in scans if "_space-" in scan.name]
    if not scans:
        raise DataError(
            f"{path} holds no sub-*/…_space-…_desc-preproc_bold.nii.gz",
            remedy="give the folder that fMRIPrep wrote",
        )
    for entity, value in entities.items():
        kept = [scan for scan in scans if _entity(scan, entity) == str(value)]
        if not kept:
            have = sorted({str(_entity(scan, entity)) for scan in scans})
            problem = f"{path} has no scan with {entity}-{value}, only {name_some(have)}"
            raise DataError(problem, values=have, options=[Option("entities", advice="change {}")])
        scans = kept
    spaces = sorted({str(_entity(scan, "space")) for scan in scans})
    if len(spaces) > 1:
        problem = f"{path} has scans in {len(spaces)} spaces ({name_some(spaces)})"
        options = [Option("entities", ({"space": spaces[0]},))]
        raise DataError(problem, values=spaces, options=options)
    return scans


def _entity(path: Path, name: str) -> str | None:
    parts = dict(part.split("-", 1) for part in path.name.split("_") if "-" in part)
    return parts.get(name)
