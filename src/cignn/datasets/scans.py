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
from cignn.datasets.participants import (
    ENTITIES,
    Matched,
    bare,
    files_of,
    known_column,
    names_of,
    occasion_number,
    refuse_missing,
)
from cignn.datasets.reading import MISSING, all_named


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
    paths = [path for _, path in pairs]
    frame = frame.iloc[[line for line, _ in pairs]].reset_index(drop=True)
    return Matched(_with_occasions(frame, paths), paths, gone)


def told_apart(frame: pd.DataFrame, files: list[Path], folder: Path) -> bool:
    """Whether some subjects have several scans, all told apart by what the table or the files say.

    Lines of an id differ in their session or run. Where every id has one line, its files differ in
    their session (``sub-01_ses-1.csv``); files that differ in their run alone may be parts of one scan.
    """
    ids = frame["participant_id"].map(bare)
    columns = {name: known_column(frame, name) for name in ENTITIES}
    if ids.duplicated().any():
        given = [_numbers(frame[column], ENTITIES[name]) for name, column in columns.items() if column]
        key = pd.concat([ids, *given], axis=1)
        nowhere = pd.concat([one.isin(MISSING) for one in given], axis=1).all(axis=1) if given else True
        return bool(given) and not (key.duplicated() | (nowhere & ids.duplicated(keep=False))).any()
    several = [paths for paths in files_of(ids.tolist(), files, folder).values() if len(paths) > 1]
    sessions = [[_entity_number(path, "ses") for path in paths] for paths in several]
    return bool(several) and all(None not in one and len(set(one)) == len(one) for one in sessions)


def _with_occasions(frame: pd.DataFrame, paths: list[Path]) -> pd.DataFrame:
    """Add the session and run of the files' names where subjects have several and the table is silent."""
    if not frame["participant_id"].duplicated().any():
        return frame
    for name, word in ENTITIES.items():
        found = [_entity_number(path, word) for path in paths]
        if known_column(frame, name) is None and len(set(found)) > 1:
            frame = frame.assign(**{name: ["" if one is None else one for one in found]})
    return frame


def _fits(path: Path, frame: pd.DataFrame, line: int) -> bool:
    """Whether the name of a file has the session and the run that a line gives."""
    for name, word in ENTITIES.items():
        column = known_column(frame, name)
        value = "" if column is None else occasion_number(str(frame[column].iloc[line]), word)
        if value not in MISSING and _entity_number(path, word) != value:
            return False
    return True


def _entity_number(path: Path, word: str) -> str | None:
    """The session or run in the name of a file or, of a session, of a folder above it."""
    found = re.search(rf"(?:^|_){word}-([a-z0-9]+)", path.name, re.IGNORECASE)
    if found is None and word == "ses":
        found = re.match(r"ses-([a-z0-9]+)$", path.parent.name, re.IGNORECASE)
    return None if found is None else occasion_number(found[1], word)


def _numbers(column: pd.Series, word: str) -> pd.Series:
    return column.astype(str).map(lambda value: occasion_number(value, word))


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
    scans = _choose_scans(path, entities)
    if rules.duplicates == "keep" or (rules.duplicates == "raise" and told_apart(frame, scans, path)):
        frame, paths, gone = all_scans(frame, scans, path, source, rules)
    else:
        frame, paths, gone = people.one_scan_each(frame, scans, path, source, rules, [choose])
    names = _scan_ids(frame["participant_id"].tolist(), paths)
    wanted: Any = [str(scan) for scan in paths]
    if frame["participant_id"].duplicated().any():  # names of files tell subjects alone
        wanted = pd.DataFrame({"path": wanted, "subject": names})
    cohort = extract.transform(wanted)
    place = {people.bare(name): i for i, name in enumerate(names)}
    rows = [place[people.bare(name)] for name in cohort.subjects]  # a scan that failed is not among them
    failed = pd.Series(names).drop(index=rows)
    why = dict(zip(cohort.exclusions["subject"].map(people.bare), cohort.exclusions["detail"], strict=True))
    details = [why.get(people.bare(name), "no series") for name in failed]
    told = people.describe(frame.iloc[rows].reset_index(drop=True), label, source)
    if "mean_fd" in cohort.covariates:  # of the confounds, where the table does not say
        table, motion = told["covariates"], cohort.covariates["mean_fd"]
        said = table["mean_fd"].combine_first(motion) if "mean_fd" in table else motion
        told["covariates"] = table.assign(mean_fd=said)
    return cohort._with(exclusions=None, **told)._noting(joined(gone, excluded(failed, "extract", details)))


def _scan_ids(ids: list[str], paths: list[Path]) -> list[str]:
    """A name for each scan: the subject's id, and its session and run where the subject has several."""
    several = pd.Series(ids).duplicated(keep=False)
    words = [
        [part for part in path.name.split("_") if part.split("-")[0] in ENTITIES.values()] for path in paths
    ]
    names = [
        "_".join([name, *own]) if many else name for name, own, many in zip(ids, words, several, strict=True)
    ]
    again = pd.Series(names).groupby(names).cumcount()
    return [name if k == 0 else f"{name}_scan-{k + 1}" for name, k in zip(names, again, strict=True)]


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
