"""Cohorts from disk: a folder with a table and one file per subject, one .npz, or what fMRIPrep leaves."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import name_some, whole
from cignn._progress import track
from cignn.datasets import participants as people
from cignn.datasets.atlas import Atlas, places_of
from cignn.datasets.cohort import Cohort, SeriesStack
from cignn.datasets.cohort_checks import (
    Checks,
    apply_checks,
    are_matrices,
    checks_from,
    logger,
    looks_turned,
    remedy,
)
from cignn.datasets.cohort_npz import read_npz, was_saved
from cignn.datasets.mat_files import MatReader
from cignn.datasets.reading import all_named, named, regular
from cignn.datasets.roi_files import ENDINGS, RoiTable, read_roi_file
from cignn.datasets.scans import Scans, all_scans, from_scans, holds_scans

KINDS = ("series", "matrices")


def load_cohort(
    path: str | Path,
    *,
    label: str | None = "label",
    kind: str | None = None,
    participants: str | Path | pd.DataFrame | None = None,
    atlas: Atlas | None = None,
    n_rois: int | None = None,
    transpose: bool = False,
    extract: Any = None,
    entities: Mapping[str, str] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **checks: Any,
) -> Cohort:
    """Load a cohort from disk and look for what is wrong with it.

    ``path`` is one of

    - a folder with ``participants.tsv`` (columns ``participant_id``, ``label`` and, where known, ``site``,
      ``age``, ``sex``, ``mean_fd``, …) and a folder ``series/`` (time points × ROIs) or ``matrices/`` (ROIs ×
      ROIs) with one file per subject: .1D, .csv, .tsv, .txt, .npy or .mat, named by the id, with or without
      ``sub-`` in front and more behind an underscore (``sub-001_task-rest.csv``); with
      ``duplicates="keep"`` several files or lines of an id are scans of one subject, told apart by columns
      ``session`` and ``run`` and names as ``sub-001_ses-2_run-1.csv``;
    - an .npz file with ``series`` (all time points, R) and ``lengths`` (n,), or ``series`` (n, t, R), or
      ``matrices`` (n, R, R), with ``label`` and optional ``site``, ``subject``, ``roi``: what `Cohort.save`
      writes, and what it wrote comes back unchecked unless one of ``checks`` is given;
    - a BIDS-derivatives folder as fMRIPrep leaves it, together with ``extract=RoiSeries(atlas=…)`` of
      `cignn.connectome`, which makes series of its scans.

    Parameters
    ----------
    path : the folder or file
    label : column (array of the .npz) with the labels, None for a cohort without
    kind : "series" or "matrices", where the folder has both
    participants : another table (path or DataFrame); by default the folder's own; for derivatives also
        that of the folders above, as BIDS places them
    atlas : names, places and systems of the ROIs; by default names come from the files' headers
    n_rois : how many ROIs each file must have; by default the atlas's number, else what most files have
    transpose : the files hold ROIs × time points
    extract : turns scans into a cohort, for derivatives: ``extract.transform(paths)``
    entities : which scans of derivatives to take, for instance ``{"task": "rest", "space": "MNI152Lin"}``
    n_jobs : files read at once; by default as many as there are processors
    verbose : 1 shows a progress bar
    **checks : what to do about bad subjects, "raise" by default, all described at `check_cohort`:
        ``non_finite``, ``constant_rois``, ``short_series``, ``min_length``, ``asymmetric``, ``duplicates``,
        ``near_duplicates``, ``missing_labels``, ``missing_sites``, ``one_class``; and, while reading,
        ``missing`` (ids of the table without a file, or files without a line in the table) and ``mixed_rois``
        (files with another number of ROIs than the others, or other names in their headers), each "raise" or
        "drop_subject";
        headers with the same names in another order are brought into one

    Returns
    -------
    Cohort in the order of the table
    """
    rules = checks_from(checks)
    path = named(path)
    if kind not in (None, *KINDS):
        raise ValueError(f"kind must be series or matrices, got {kind!r}.")
    if n_rois is not None:
        whole("n_rois", n_rois, 1)
    if not path.is_dir():
        path = regular(path, "give a cohort's folder or .npz file")
        if path.suffix != ".npz":
            raise ValueError(
                f"{path} is neither a folder nor an .npz file; give the folder that holds participants.tsv."
            )
        cohort = read_npz(path, label, transpose)
        if kind is not None and (kind == "series") != (cohort.matrices is None):
            raise ValueError(f"{path} holds no {kind}; leave kind= out.")
        if n_rois not in (None, cohort.n_rois):
            raise ValueError(f"{path}: n_rois is {n_rois}, the file has {cohort.n_rois}; correct it.")
        cohort = cohort if atlas is None else cohort.with_atlas(atlas)
        if not checks and was_saved(path):
            return cohort
    elif extract is not None or holds_scans(path):
        cohort = from_scans(path, label, participants, extract, dict(entities or {}), rules)
    else:
        folder = _data_folder(path, kind)
        frame, source = people.participants_table(participants, [path])
        cohort = _from_files(
            frame, source, folder, label=label, atlas=atlas, n_rois=n_rois, transpose=transpose,
            n_jobs=n_jobs, verbose=verbose, rules=rules,
        )  # fmt: skip
    if cohort.series is not None:
        _check_series(cohort, path, told=transpose or n_rois is not None or atlas is not None)
    return checked(cohort, rules, path)


def _check_series(cohort: Cohort, path: Path, told: bool) -> None:
    """Refuse matrices among series, and ROIs × time points unless names or the caller told which is which."""
    assert cohort.series is not None
    n = cohort.n_rois
    if are_matrices(cohort.series):
        raise ValueError(
            f"{path}: the series are symmetric tables of {n}×{n}: connectivity goes into matrices/, or the "
            "array matrices of an .npz."
        )
    shapes = set(cohort.series.lengths)
    if not told and cohort.nameless and len(shapes) == 1 and looks_turned(cohort.series):
        raise ValueError(
            f"{path}: the series of {shapes.pop()}×{n} look like ROIs × time points (neighbouring columns "
            f"are far more alike than rows); pass transpose=True, or n_rois={n} if the columns are ROIs."
        )


def checked(cohort: Cohort, rules: Checks, path: Path) -> Cohort:
    """Apply the checks to a cohort just read; every line of their error names where it came from."""
    try:
        return apply_checks(cohort, rules, own=True)
    except ValueError as error:
        raise ValueError("\n".join(f"{path}: {line}" for line in str(error).split("\n"))) from error


# ------------------------------------------------------------------------- a table and files


def _data_folder(path: Path, kind: str | None) -> Path:
    have = [name for name in KINDS if (path / name).is_dir() and kind in (None, name)]
    if len(have) == 2:
        raise ValueError(f"{path} has both series/ and matrices/; pass kind='series' or kind='matrices'.")
    if not have:
        wanted = f"{kind}/" if kind else "series/ or matrices/"
        raise ValueError(
            f"{path} has no folder {wanted} with one file per subject; for what fMRIPrep leaves pass "
            f"extract=RoiSeries(atlas=…)."
        )
    return path / have[0]


def _from_files(
    frame: pd.DataFrame,
    source: str,
    folder: Path,
    *,
    label: str | None,
    atlas: Atlas | None,
    n_rois: int | None,
    transpose: bool,
    n_jobs: int | None,
    verbose: int,
    rules: Checks,
) -> Cohort:
    people.labels(frame, label, source)  # a wrong name is told before a thousand files are read
    files = all_named(p for p in folder.iterdir() if p.suffix.lower() in ENDINGS and p.name[0] != ".")
    if not files:
        deeper = any(p.suffix.lower() in ENDINGS for p in folder.rglob("*"))
        advice = "; put those of the folders below into this one" if deeper else ""
        raise ValueError(f"{folder} holds no file with an ending of {', '.join(ENDINGS)}{advice}.")
    choose = all_scans if rules.duplicates == "keep" else _one_scan_each
    frame, paths = choose(frame, files, folder, source, rules)
    tables = read_many(paths, n_jobs, verbose)
    if transpose:
        tables = [RoiTable(table.values.T, None) for table in tables]
    square = folder.name == "matrices"
    keep = _same_rois(frame["participant_id"], tables, folder, n_rois, atlas, rules)
    frame, tables = frame[keep].reset_index(drop=True), [t for t, k in zip(tables, keep, strict=True) if k]
    keep = _same_names(frame["participant_id"], tables, folder, rules)
    frame, tables = frame[keep].reset_index(drop=True), [t for t, k in zip(tables, keep, strict=True) if k]
    tables = _in_one_order(frame["participant_id"], tables, folder, atlas)
    names = [table.names for table in tables]
    shared = names[0] if names[0] is not None and all(n == names[0] for n in names) else None
    if shared is not None and len(set(shared)) < len(shared):
        shared = None
    values = [table.values for table in tables]
    data: dict[str, Any] = {"matrices": np.stack(values)} if square else {"series": SeriesStack.of(values)}
    roi_names = atlas.names if atlas is not None else shared
    return Cohort(**data, **people.describe(frame, label, source), roi_names=roi_names, atlas=atlas)


def _one_scan_each(frame: pd.DataFrame, files: list[Path], folder: Path, source: str, rules: Checks) -> Scans:
    keep = ', or "keep" where they are scans of one subject'
    frame = people.unique_ids(frame, source, rules, keep)
    matched = people.files_of(frame["participant_id"].tolist(), files)
    chosen = people.one_file_each(matched, files, folder, source, rules, keep=keep)
    frame = frame[frame["participant_id"].isin(chosen)].reset_index(drop=True)
    return Scans(frame, [chosen[name] for name in frame["participant_id"]])


def read_many(
    paths: Sequence[Path], n_jobs: int | None = None, verbose: int = 0, columns: slice | None = None
) -> list[RoiTable]:
    """Read many files, several at once: it is mostly waiting for the disk that threads save.

    columns : which columns to keep, None for all
    """

    def read(path: Path) -> RoiTable:
        table = read_roi_file(path, mats)
        return table if columns is None else RoiTable(table.values[:, columns].copy(), None)

    workers = min(n_jobs or os.cpu_count() or 1, 16, max(len(paths), 1))
    with MatReader(len(paths)) as mats, ThreadPoolExecutor(max(workers, 1)) as pool:
        return list(track(pool.map(read, paths), "reading subjects", len(paths), verbose))


def _same_rois(
    subjects: Sequence[str],
    tables: list[RoiTable],
    folder: Path,
    n_rois: int | None,
    atlas: Atlas | None,
    rules: Checks,
) -> np.ndarray:
    """(n,) whose table has the expected number of ROIs, by default that of the atlas or what most have."""
    expected = n_rois or (None if atlas is None else len(atlas))
    square = folder.name == "matrices"
    shapes = [table.values.shape for table in tables]
    widths = Counter(width for _, width in shapes)
    if square and all(height != width for height, width in shapes):
        got = name_some(f"{name} ({'×'.join(map(str, s))})" for name, s in zip(subjects, shapes, strict=True))
        raise ValueError(
            f"{folder}: matrices must be ROIs × ROIs, got {got}; unfold vectors into matrices, put series "
            "into series/."
        )
    wanted = expected or widths.most_common(1)[0][0]
    fits = np.array([w == wanted and (h == w or not square) for h, w in shapes])
    wrong = [
        f"{name} ({'×'.join(map(str, s))})"
        for name, s, ok in zip(subjects, shapes, fits, strict=True)
        if not ok
    ]
    if not wrong:
        return fits
    turned = not square and sum(height == wanted for height, _ in shapes) > len(tables) / 2
    if wanted not in widths and not turned:
        usual, count = widths.most_common(1)[0]
        have = f"{'all' if count == len(tables) else count} of the {len(tables)} files have {usual}"
        if n_rois:
            raise ValueError(f"{folder}: n_rois is {n_rois}, {have}; leave it out or correct it.")
        raise ValueError(f"{folder}: the atlas has {wanted} regions, {have}; give the atlas of these files.")
    what = "matrices" if square else "series (time points × ROIs)"
    line = f"{folder}: expected {what} of {wanted} ROIs, got {name_some(wrong)}"
    if not fits.any() or rules.mixed_rois == "raise":
        hint = ""
        if turned:
            hint = "transpose=True, or "
        elif not square and expected is None and len({h for h, _ in shapes}) == 1 and len(widths) > 1:
            hint = "transpose=True if the files hold ROIs × time points, or "
        advice = remedy("mixed_rois").replace("pass ", f"pass {hint}")
        raise ValueError(f"{line}; {advice}, or give n_rois= the right number.")
    logger.info("dropped: %s (mixed_rois='drop_subject')", line)
    return fits


def _same_names(subjects: Sequence[str], tables: list[RoiTable], folder: Path, rules: Checks) -> np.ndarray:
    """(n,) whose header names the regions that most headers name, in any order; no header is no objection."""
    named = [None if table.names is None else tuple(sorted(table.names)) for table in tables]
    counts = Counter(names for names in named if names is not None)
    usual = counts.most_common(1)[0][0] if counts else None
    fits = np.array([names is None or names == usual for names in named])
    if usual is None or fits.all():
        return fits
    wrong = [
        f"{name} ({_first_without(names, usual)} instead of {_first_without(usual, names)})"
        for name, names in zip(subjects, named, strict=True)
        if names is not None and names != usual
    ]
    line = f"{folder}: headers name other regions than most do in {name_some(wrong)}"
    if rules.mixed_rois == "raise":
        raise ValueError(f"{line}; {remedy('mixed_rois')}, or give all files the same names.")
    logger.info("dropped: %s (mixed_rois='drop_subject')", line)
    return fits


def _first_without(names: Sequence[str], others: Sequence[str]) -> str:
    """The first name that is not, or not as often, among the others."""
    return next(iter(Counter(names) - Counter(others)))


def _in_one_order(
    subjects: Sequence[str], tables: list[RoiTable], folder: Path, atlas: Atlas | None
) -> list[RoiTable]:
    """Bring regions into one order, the atlas's where headers give its names, else the first header's."""
    headers = [table.names for table in tables if table.names is not None]
    if not headers:
        return tables
    try:
        places = None if atlas is None else places_of(atlas.names, headers[0])
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
    wanted = headers[0] if places is None else [headers[0][i] for i in places]
    if all(names == wanted for names in headers):
        return tables
    without = [name for name, table in zip(subjects, tables, strict=True) if table.names is None]
    if without or len(set(wanted)) < len(wanted):
        who = f"{name_some(without)} without names" if without else "some names twice"
        raise ValueError(
            f"{folder}: headers give the regions in different orders, with {who}; name every region once in "
            "every file."
        )
    square = folder.name == "matrices"
    return [_reordered(table, wanted, square) for table in tables]


def _reordered(table: RoiTable, wanted: list[str], square: bool) -> RoiTable:
    assert table.names is not None
    order = [table.names.index(name) for name in wanted]
    return RoiTable(table.values[np.ix_(order, order)] if square else table.values[:, order], wanted)
