"""Cohorts from disk: a table and one file per subject, arrays in an .npz or folder, or scans of fMRIPrep."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._array_files import named, regular
from cignn._checks import DataError, Option, name_some, whole
from cignn._progress import track
from cignn.datasets import participants as people
from cignn.datasets.atlas import Atlas, places_of
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_arrays import holds_arrays, read_cohort, was_saved
from cignn.datasets.cohort_checks import Checks, apply_checks, checks_from, remedies
from cignn.datasets.exclusions import excluded, joined
from cignn.datasets.reading import all_named
from cignn.datasets.roi_files import ENDINGS, MatReader, RoiTable, read_roi_file
from cignn.datasets.scans import all_scans, from_scans, holds_scans
from cignn.datasets.series import SeriesStack, are_matrices, looks_turned

FOLDERS = ("series", "matrices")
TRANSPOSE = Option("transpose", (True,), "pass {} if the files hold ROIs × time points")


def load_cohort(
    path: str | Path,
    *,
    label: str | None = "label",
    data: str | None = None,
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
    """Load a cohort from disk and check it.

    ``path`` is one of

    - a folder with ``participants.tsv`` (columns ``participant_id``, ``label`` and optionally ``site``,
      ``age``, ``sex``, ``mean_fd``, …) and a folder ``series/`` (time points × ROIs) or ``matrices/`` (ROIs ×
      ROIs) with one file per subject: .1D, .csv, .tsv, .txt, .npy or .mat. File names begin with the id, with
      or without ``sub-``; anything may follow an underscore (``sub-001_task-rest.csv``). If subjects have
      several scans, pass ``duplicates="keep"``: files or lines with the same id are scans of one subject,
      told apart by the columns ``session`` and ``run`` and by names such as ``sub-001_ses-2_run-1.csv``;
    - an .npz file with ``series`` (all time points, R) and ``lengths`` (n,), or ``series`` (n, t, R), or
      ``matrices`` (n, R, R), with ``label`` and optional ``site``, ``subject``, ``roi``. `Cohort.save` writes
      such files; they are not checked again unless one of ``checks`` is given;
    - a folder with these arrays as .npy files (``matrices.npy``, ``label.npy``, …), as
      ``Cohort.save(path, mapped=True)`` writes them. Series and matrices, which must be float32, stay on disk
      and are read when they are needed: a cohort may be larger than memory;
    - a BIDS-derivatives folder written by fMRIPrep, together with ``extract=RoiSeries(atlas=…)`` of
      `cignn.connectome`, which extracts ROI series from the scans.

    Parameters
    ----------
    path : str or Path
        The folder or file.
    label : str or None, default="label"
        Column (array of the .npz) with the labels; None for a cohort without labels.
    data : {"series", "matrices"}, default=None
        Which of the two to read if the folder has both.
    participants : str, Path or DataFrame, default=None
        Table of participants. By default the one in the folder; for derivatives also in the folders above,
        where BIDS puts it.
    atlas : Atlas, default=None
        Names, coordinates and systems of the ROIs. By default names come from the files' headers; those of
        scans, from the atlas of ``extract``.
    n_rois : int, default=None
        Number of ROIs each file must have. By default that of the atlas, else that of most files.
    transpose : bool, default=False
        Whether the files hold ROIs × time points instead of time points × ROIs.
    extract : RoiSeries, default=None
        Extracts ROI series from scans of derivatives; ``extract.transform(paths)`` must return a cohort.
    entities : dict, default=None
        BIDS entities of the scans to read, for instance ``{"task": "rest", "space": "MNI152Lin"}``.
    n_jobs : int, default=None
        Number of files read at once; by default the number of processors.
    verbose : int, default=0
        1 shows a progress bar.
    **checks : str or int
        What to do about bad data: the options of `check_cohort`, most of them "raise" by default, and two
        more, each "raise" or "drop_subject": ``missing`` (ids of the table without a file, or files without a
        line in the table) and ``mixed_rois`` (files with another number of ROIs than the others, or other
        names in their headers). ROIs whose headers have the same names in another order are reordered.

    Returns
    -------
    Cohort
        The subjects in the order of the table. ``exclusions`` lists those left out.

    Raises
    ------
    DataError
        If the data have problems; the message names the options that deal with them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cignn.datasets import load_cohort
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as name:
    ...     study = Path(name)
    ...     (study / "series").mkdir()
    ...     for i in (1, 2, 3, 4):
    ...         np.save(study / "series" / f"sub-0{i}.npy", rng.normal(size=(60, 5)))
    ...     lines = ["participant_id,label", "01,patient", "02,control", "03,patient", "05,control"]
    ...     _ = (study / "participants.csv").write_text("\\n".join(lines))
    ...     cohort = load_cohort(study, missing="drop_subject")
    >>> cohort
    Cohort(3 subjects, 5 ROIs, series of 60 time points, labels control: 1, patient: 2)
    >>> cohort.exclusions["subject"].tolist()
    ['05', 'sub-04.npy']
    """
    rules = checks_from(checks)
    path = named(path)
    if data not in (None, *FOLDERS):
        raise ValueError(f"data must be series or matrices, got {data!r}.")
    if n_rois is not None:
        whole("n_rois", n_rois, 1)
    if not path.is_dir() or holds_arrays(path):
        cohort = _from_arrays(path, label, data, n_rois, transpose)
        cohort = cohort if atlas is None else cohort.with_atlas(atlas)
        if not checks and was_saved(path):
            return cohort
    elif extract is not None or holds_scans(path):
        cohort = from_scans(path, label, participants, extract, dict(entities or {}), rules)
        cohort = cohort if atlas is None else cohort.with_atlas(atlas)
    else:
        place = _data_folder(path, data)
        frame, source = people.participants_table(participants, [path])
        cohort = _from_files(
            frame, source, place, label=label, atlas=atlas, n_rois=n_rois, transpose=transpose,
            n_jobs=n_jobs, verbose=verbose, rules=rules,
        )  # fmt: skip
    if cohort.series is not None:
        _check_series(cohort, path, told=transpose or n_rois is not None or atlas is not None)
    return checked(cohort, rules, path)


def _from_arrays(path: Path, label: str | None, wanted: str | None, n_rois: int | None, turn: bool) -> Cohort:
    path = path if path.is_dir() else regular(path, "give a cohort's folder or .npz file")
    if not path.is_dir() and path.suffix != ".npz":
        raise ValueError(
            f"{path} is neither a folder nor an .npz file; give the folder that holds participants.tsv."
        )
    cohort = read_cohort(path, label, turn)
    if wanted is not None and (wanted == "series") != (cohort.matrices is None):
        raise DataError(f"{path} holds no {wanted}", options=[Option("data", advice="leave {} out")])
    if n_rois not in (None, cohort.n_rois):
        problem = f"n_rois is {n_rois}, the file has {cohort.n_rois}"
        raise DataError(problem, values=(cohort.n_rois,), remedy="correct it", source=path)
    return cohort


def _check_series(cohort: Cohort, path: Path, told: bool) -> None:
    """Refuse matrices among series, and ROIs × time points unless names or the caller told which is which."""
    assert cohort.series is not None
    n = cohort.n_rois
    if are_matrices(cohort.series):
        raise DataError(
            f"the series are symmetric tables of {n}×{n}",
            remedy="put connectivity into matrices/, or into the array matrices of an .npz",
            source=path,
        )
    shapes = set(cohort.series.lengths.tolist())
    if not told and cohort.nameless and len(shapes) == 1 and looks_turned(cohort.series):
        raise DataError(
            f"the series of {shapes.pop()}×{n} look like ROIs × time points (neighbouring columns are far "
            "more alike than rows)",
            options=[TRANSPOSE, Option("n_rois", (n,), "pass {} if the columns are ROIs")],
            source=path,
        )


def checked(cohort: Cohort, rules: Checks, path: Path) -> Cohort:
    """Apply the checks to a cohort just read; every line of their error names where it came from."""
    try:
        return apply_checks(cohort, rules, own=True)
    except DataError as error:
        raise error.at(path) from error


# ------------------------------------------------------------------------- a table and files


def _data_folder(path: Path, wanted: str | None) -> Path:
    have = [name for name in FOLDERS if (path / name).is_dir() and wanted in (None, name)]
    if len(have) == 2:
        raise DataError(f"{path} has both series/ and matrices/", options=[Option("data", FOLDERS)])
    if not have:
        name = f"{wanted}/" if wanted else "series/ or matrices/"
        scans = Option("extract", advice="pass extract=RoiSeries(atlas=…) for what fMRIPrep leaves")
        raise DataError(f"{path} has no folder {name} with one file per subject", options=[scans])
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
        raise DataError(f"{folder} holds no file with an ending of {', '.join(ENDINGS)}{advice}")
    choose = all_scans if rules.duplicates == "keep" else people.one_scan_each
    frame, paths, gone = choose(frame, files, folder, source, rules)
    tables = read_many(paths, n_jobs, verbose)
    if transpose:
        tables = [RoiTable(table.values.T, None) for table in tables]
    square = folder.name == "matrices"
    for misfits in (
        lambda ids, tables: _other_rois(ids, tables, folder, n_rois, atlas, rules),
        lambda ids, tables: _other_names(ids, tables, folder, rules),
    ):
        wrong = misfits(frame["participant_id"], tables)  # place → why
        ids = frame["participant_id"].iloc[list(wrong)]
        gone = joined(gone, excluded(ids, "mixed_rois", list(wrong.values())))
        frame = frame.drop(index=list(wrong)).reset_index(drop=True)
        tables = [table for i, table in enumerate(tables) if i not in wrong]
    tables = _in_one_order(frame["participant_id"], tables, folder, atlas)
    names = [table.names for table in tables]
    shared = names[0] if names[0] is not None and all(n == names[0] for n in names) else None
    if shared is not None and len(set(shared)) < len(shared):
        shared = None
    values = [table.values for table in tables]
    data: dict[str, Any] = {"matrices": np.stack(values)} if square else {"series": SeriesStack.of(values)}
    roi_names = atlas.names if atlas is not None else shared
    told = people.describe(frame, label, source)
    return Cohort(**data, **told, roi_names=roi_names, atlas=atlas)._noting(gone)


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


def _other_rois(
    subjects: Sequence[str],
    tables: list[RoiTable],
    folder: Path,
    n_rois: int | None,
    atlas: Atlas | None,
    rules: Checks,
) -> dict[int, str]:
    """Place and shape of each table without the expected number of ROIs: the atlas's, or what most have."""
    expected = n_rois or (None if atlas is None else len(atlas))
    square = folder.name == "matrices"
    shapes = [table.values.shape for table in tables]
    words = ["×".join(map(str, shape)) for shape in shapes]
    widths = Counter(width for _, width in shapes)
    if square and all(height != width for height, width in shapes):
        got = name_some(f"{name} ({shape})" for name, shape in zip(subjects, words, strict=True))
        raise DataError(
            f"matrices must be ROIs × ROIs, got {got}",
            subjects=subjects,
            values=words,
            remedy="unfold vectors into matrices, put series into series/",
            source=folder,
        )
    wanted = expected or widths.most_common(1)[0][0]
    wrong = {i: words[i] for i, (h, w) in enumerate(shapes) if w != wanted or (square and h != w)}
    if not wrong:
        return wrong
    turned = not square and sum(height == wanted for height, _ in shapes) > len(tables) / 2
    if wanted not in widths and not turned:
        usual, count = widths.most_common(1)[0]
        have = f"{'all' if count == len(tables) else count} of the {len(tables)} files have {usual}"
        what = f"n_rois is {n_rois}" if n_rois else f"the atlas has {wanted} regions"
        remedy = "leave it out or correct it" if n_rois else "give the atlas of these files"
        raise DataError(f"{what}, {have}", values=list(widths), remedy=remedy, source=folder)
    if len(wrong) == len(tables) or rules.mixed_rois == "raise":
        may_be_turned = not square and expected is None and len({h for h, _ in shapes}) == 1
        hint = [Option("transpose", (True,))] if turned else [TRANSPOSE] if may_be_turned else []
        number = Option("n_rois", advice="set the right number with {}")
        what = "matrices" if square else "series (time points × ROIs)"
        got = name_some(f"{subjects[i]} ({shape})" for i, shape in wrong.items())
        raise DataError(
            f"expected {what} of {wanted} ROIs, got {got}",
            subjects=[subjects[i] for i in wrong],
            values=list(wrong.values()),
            options=[*hint, remedies("mixed_rois"), number],
            source=folder,
        )
    return wrong


def _other_names(
    subjects: Sequence[str], tables: list[RoiTable], folder: Path, rules: Checks
) -> dict[int, str]:
    """Place of each table whose header names other regions than most do, in any order, and the first name."""
    named = [None if table.names is None else tuple(sorted(table.names)) for table in tables]
    counts = Counter(names for names in named if names is not None)
    usual = counts.most_common(1)[0][0] if counts else ()
    wrong = {
        i: f"{_first_without(names, usual)} instead of {_first_without(usual, names)}"
        for i, names in enumerate(named)
        if names is not None and names != usual
    }
    if wrong and rules.mixed_rois == "raise":
        whom = name_some(f"{subjects[i]} ({why})" for i, why in wrong.items())
        raise DataError(
            f"headers name other regions than most do in {whom}",
            subjects=[subjects[i] for i in wrong],
            values=list(wrong.values()),
            options=[remedies("mixed_rois")],
            remedy="give all files the same names",
            source=folder,
        )
    return wrong


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
        raise DataError(str(error).removesuffix("."), source=folder) from None
    wanted = headers[0] if places is None else [headers[0][i] for i in places]
    if all(names == wanted for names in headers):
        return tables
    without = [name for name, table in zip(subjects, tables, strict=True) if table.names is None]
    if without or len(set(wanted)) < len(wanted):
        who = f"{name_some(without)} without names" if without else "some names twice"
        raise DataError(
            f"headers give the regions in different orders, with {who}",
            subjects=without,
            remedy="name every region once in every file",
            source=folder,
        )
    square = folder.name == "matrices"
    return [_reordered(table, wanted, square) for table in tables]


def _reordered(table: RoiTable, wanted: list[str], square: bool) -> RoiTable:
    assert table.names is not None
    order = [table.names.index(name) for name in wanted]
    return RoiTable(table.values[np.ix_(order, order)] if square else table.values[:, order], wanted)
