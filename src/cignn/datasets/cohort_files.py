"""Cohorts from disk: a table and one file per subject, arrays in an .npz or folder, or scans of fMRIPrep."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._array_files import named, regular
from cignn._array_folders import array_names
from cignn._checks import DataError, Option, choice, name_some, shown, whole
from cignn._progress import track
from cignn.datasets import participants as people
from cignn.datasets.atlas import Atlas
from cignn.datasets.cifti_files import cifti_kind, read_dlabel
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_arrays import holds_arrays, read_cohort, was_saved
from cignn.datasets.cohort_checks import Checks, apply_checks, checks_from
from cignn.datasets.derivative_files import (
    CHOOSE,
    check_runs,
    chosen_files,
    find_files,
    matching,
    no_files,
    with_entities,
)
from cignn.datasets.exclusions import excluded, joined
from cignn.datasets.mat_files import MatReader
from cignn.datasets.reading import all_named
from cignn.datasets.roi_files import Wanted, ending_of, read_roi_file
from cignn.datasets.roi_tables import (
    TRANSPOSE,
    RoiTable,
    in_one_order,
    joined_runs,
    kept_rois,
    other_names,
    other_rois,
)
from cignn.datasets.scans import all_scans, from_scans, holds_scans, told_apart
from cignn.datasets.series import SeriesStack, are_matrices, looks_turned

FOLDERS = ("series", "matrices")
FORWARDED = (  # what says how a cohort is read, whatever is predicted
    *("data", "participants", "atlas", "n_rois", "transpose", "variable", "rois", "files", "runs"),
    *("dlabel", "extract", "entities", "n_jobs", "verbose"),
)


def load_cohort(
    path: str | Path,
    *,
    label: str | None = "label",
    target: str | None = None,
    data: str | None = None,
    participants: str | Path | pd.DataFrame | None = None,
    atlas: Atlas | None = None,
    n_rois: int | None = None,
    transpose: bool = False,
    variable: str | None = None,
    rois: str | Sequence[str] | None = None,
    files: str | None = None,
    runs: str | None = None,
    dlabel: str | Path | None = None,
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
      ROIs) with one file per subject: .1D, .csv, .tsv, .txt, .npy, .mat (of DPABI, CONN or your own), .netcc,
      .ptseries.nii, .pconn.nii or .dtseries.nii. File names begin with the id, with or without ``sub-``;
      anything may follow an underscore (``sub-001_task-rest.csv``). ``ROISignals_001.mat`` and CONN's
      ``ROI_Subject001_Condition000.mat`` are found too. If subjects have
      several scans, pass ``duplicates="keep"``: files or lines with the same id are scans of one subject,
      told apart by the columns ``session`` and ``run`` and by names such as ``sub-001_ses-2_run-1.csv``;
    - an .npz file with ``series`` (all time points, R) and ``lengths`` (n,), or ``series`` (n, t, R), or
      ``matrices`` (n, R, R), with ``label`` and optional ``site``, ``subject``, ``roi``. `Cohort.save` writes
      such files; they are not checked again unless one of ``checks`` is given;
    - a folder with these arrays as .npy files (``matrices.npy``, ``label.npy``, …), as
      ``Cohort.save(path, mapped=True)`` writes them. Series and matrices, which must be float32, stay on disk
      and are read when they are needed: a cohort may be larger than memory;
    - the output folder of xcp_d, C-PAC or the HCP pipelines, with the table of participants in it or in a
      folder above. Where it has both, series are read; ``data="matrices"`` reads matrices;
    - a BIDS-derivatives folder written by fMRIPrep, together with ``extract=RoiSeries(atlas=…)`` of
      `cignn.connectome`, which extracts ROI series from the scans.

    Parameters
    ----------
    path : str or Path
        The folder or file.
    label : str or None, default="label"
        Column (array of the .npz) with the labels; None for a cohort without labels.
    target : str, default=None
        Column with a score to predict, such as "age", instead of labels: ``y`` are then numbers. The column
        of the labels, where there is one, becomes a covariate. Subjects without a score are named in an
        error; ``missing_labels="drop_subject"`` leaves them out.
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
    variable : str, default=None
        What to read of files that hold several things: the variable of .mat files, the matrix of .netcc files
        ("CC" by default), the map of ``dlabel``.
    rois : str or sequence of str, default=None
        Names of the ROIs to keep, or patterns such as "atlas.*". By default all; of CONN's files all but
        tissues ("Grey Matter", "White Matter", "CSF") and covariates.
    files : str, default=None
        Pattern of the names of the files to read, such as "*_run-1_*". In a folder that has neither
        ``series/`` nor ``matrices/`` and is of no program above, files with such names are read wherever they
        are below it.
    runs : {"concatenate"}, default=None
        What to do if subjects have several files of series: "concatenate" standardises each region in each
        file and puts the files of a subject one after the other. By default ``duplicates`` decides.
    dlabel : str or Path, default=None
        A .dlabel.nii file with the regions of .dtseries.nii files: series are means over the grayordinates
        of each label.
    extract : RoiSeries, default=None
        Extracts ROI series from scans of derivatives; ``extract.transform(paths)`` must return a cohort.
    entities : dict, default=None
        BIDS entities in the names of the files or scans to read, for instance ``{"task": "rest", "space":
        "MNI152Lin"}`` or ``{"atlas": "Gordon"}``.
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
    if target is not None:
        given = {name: value for name, value in locals().items() if name in FORWARDED}
        cohort = load_cohort(path, label=_label_beside(path, label), **given, **checks)
        return cohort.with_target(target, missing=rules.missing_labels)
    if data not in (None, *FOLDERS):
        raise ValueError(f"data must be series or matrices, got {data!r}.")
    if n_rois is not None:
        whole("n_rois", n_rois, 1)
    choice("runs", runs, (None, "concatenate"))
    rois = [rois] if isinstance(rois, str) else rois
    words = [("variable", variable), ("files", files), *(("rois", one) for one in rois or ())]
    for name, word in words:
        if word is not None and not (isinstance(word, str) and word.strip()):
            raise ValueError(f"{name} must be a name or pattern, got {shown(word)}.")
    reading = {"variable": variable, "rois": rois, "files": files, "runs": runs, "dlabel": dlabel}
    entities = dict(entities or {})
    found = None
    if not path.is_dir() or holds_arrays(path):
        cohort = _from_arrays(path, label, data, n_rois, transpose)
        _refuse(reading, path, "is read as arrays")
        cohort = cohort if atlas is None else cohort.with_atlas(atlas)
        if not checks and was_saved(path):
            return cohort
    elif extract is not None or (found := _files_in(path, data, files, entities, dlabel)) is None:
        _refuse(reading, path, "holds scans")
        cohort = from_scans(path, label, participants, extract, entities, rules)
        cohort = cohort if atlas is None else cohort.with_atlas(atlas)
    else:
        folder, square, paths = found
        above = [] if folder != path else [path.parent, path.parent.parent]
        frame, source = people.participants_table(participants, [path, *above])
        labels = None if dlabel is None else read_dlabel(dlabel, variable)
        cohort = _from_files(
            frame, source, folder, paths, square, label=label, atlas=atlas, n_rois=n_rois,
            transpose=transpose, runs=runs, n_jobs=n_jobs, verbose=verbose, rules=rules,
            wanted=Wanted(variable, labels, rois),
        )  # fmt: skip
    if cohort.series is not None:
        _check_series(cohort, path, told=transpose or n_rois is not None or atlas is not None)
    return checked(cohort, rules, path)


def _label_beside(path: Path, label: str | None) -> str | None:
    """The array of labels that stays beside a score; in a table it is one of the covariates anyway."""
    arrays = array_names(path) if holds_arrays(path) or path.suffix == ".npz" else []
    return label if label in arrays else None


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


class _Files(NamedTuple):
    folder: Path
    square: bool  # whether they hold matrices
    paths: list[Path]


def _files_in(
    path: Path,
    wanted: str | None,
    pattern: str | None,
    entities: dict[str, str],
    dlabel: str | Path | None,
) -> _Files | None:
    """The files of a folder's series/ or matrices/, or where other programs put them; None for scans."""
    have = [name for name in FOLDERS if (path / name).is_dir() and wanted in (None, name)]
    if len(have) == 2:
        raise DataError(f"{path} has both series/ and matrices/", options=[Option("data", FOLDERS)])
    if have:
        folder = path / have[0]
        there = [file for file in folder.iterdir() if file.name[0] != "."]
        files = all_named(file for file in there if ending_of(file))
        if not files:
            raise no_files(folder, sorted({kind for file in there if (kind := cifti_kind(file))}))
        files = with_entities(matching(files, pattern, folder), entities, folder)
        return _Files(folder, have[0] == "matrices", files)
    found = find_files(path, pattern)
    series = found.dense if dlabel is not None else found.series
    matrices = wanted == "matrices" or (wanted is None and not series)
    chosen = found.matrices if matrices else series
    if wanted == "matrices" and pattern is not None:
        chosen = chosen or found.series  # their names do not say what they are
    if chosen:
        return _Files(path, matrices, chosen_files(chosen, entities, path))
    if wanted is not None and (found.series or found.matrices):
        raise DataError(f"{path} holds no {wanted}", options=[Option("data", advice="leave {} out")])
    if holds_scans(path):
        return None
    if found.dense:
        option = Option("dlabel", advice="name the .dlabel.nii of the regions with {}")
        raise DataError(f"{path} has series of grayordinates, not of regions", options=[option])
    name = f"{wanted}/" if wanted else "series/ or matrices/"
    scans = Option("extract", advice="pass extract=RoiSeries(atlas=…) for what fMRIPrep leaves")
    below = Option("files", advice="name files of folders below with {}")
    raise DataError(f"{path} has no folder {name} with one file per subject", options=[scans, below])


def _refuse(options: Mapping[str, Any], path: Path, why: str) -> None:
    """Refuse options of files where none are read one by one."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        problem = f"{path} {why}, {name_some(given)} is for one file per subject"
        raise DataError(problem, options=[Option(given[0], advice="leave {} out")])


def _from_files(
    frame: pd.DataFrame,
    source: str,
    folder: Path,
    files: list[Path],
    square: bool,
    *,
    label: str | None,
    atlas: Atlas | None,
    n_rois: int | None,
    transpose: bool,
    runs: str | None,
    n_jobs: int | None,
    verbose: int,
    rules: Checks,
    wanted: Wanted,
) -> Cohort:
    people.labels(frame, label, source)  # a wrong name is told before a thousand files are read
    frame, paths, gone = _owned(frame, files, folder, source, runs, square, rules)
    tables = read_many(paths, n_jobs, verbose, wanted=wanted)
    if transpose:
        tables = [RoiTable(table.values.T, None) for table in tables]
    if wanted.rois is not None:
        named = zip(tables, paths, strict=True)
        tables = [kept_rois(table, wanted.rois, square, path) for table, path in named]
    for misfits in (
        lambda ids, tables: other_rois(ids, tables, folder, square, n_rois, atlas, rules),
        lambda ids, tables: other_names(ids, tables, folder, rules),
    ):
        wrong = misfits(frame["participant_id"], tables)  # place → why
        ids = frame["participant_id"].iloc[list(wrong)]
        gone = joined(gone, excluded(ids, "mixed_rois", list(wrong.values())))
        frame = frame.drop(index=list(wrong)).reset_index(drop=True)
        tables = [table for i, table in enumerate(tables) if i not in wrong]
    tables = in_one_order(frame["participant_id"], tables, folder, square, atlas)
    if runs is not None:
        places = frame.groupby("participant_id", sort=False).indices.values()
        tables = [joined_runs([tables[i] for i in some]) for some in places]
        frame = frame.drop_duplicates("participant_id").reset_index(drop=True)
    names = [table.names for table in tables]
    shared = names[0] if names[0] is not None and all(n == names[0] for n in names) else None
    if shared is not None and len(set(shared)) < len(shared):
        shared = None
    values = [table.values for table in tables]
    data: dict[str, Any] = {"matrices": np.stack(values)} if square else {"series": SeriesStack.of(values)}
    roi_names = atlas.names if atlas is not None else shared
    told = people.describe(frame, label, source)
    return Cohort(**data, **told, roi_names=roi_names, atlas=atlas)._noting(gone)


def _owned(
    frame: pd.DataFrame,
    files: list[Path],
    folder: Path,
    source: str,
    runs: str | None,
    square: bool,
    rules: Checks,
) -> people.Matched:
    """Match the lines of the table with their files, one each, all scans or all runs."""
    if runs is None:
        if rules.duplicates == "keep" or (rules.duplicates == "raise" and told_apart(frame, files, folder)):
            return all_scans(frame, files, folder, source, rules)
        joins = [] if square else [Option("runs", ("concatenate",))]
        return people.one_scan_each(frame, files, folder, source, rules, [people.SCANS, *joins, CHOOSE])
    if square:
        raise DataError(f"{folder} holds matrices", options=[Option("runs", advice="leave {} out")])
    twice = frame["participant_id"].map(people.bare).duplicated()
    if twice.any():
        names = frame["participant_id"][twice].unique()
        problem = f"the same id occurs more than once for {name_some(names)}"
        raise DataError(problem, subjects=names, remedy="keep one line for all runs", source=source)
    matched = all_scans(frame, files, folder, source, rules)
    check_runs(matched.frame["participant_id"].tolist(), matched.paths, folder)
    return matched


def read_many(
    paths: Sequence[Path],
    n_jobs: int | None = None,
    verbose: int = 0,
    columns: slice | None = None,
    wanted: Wanted | None = None,
) -> list[RoiTable]:
    """Read many files, several at once: it is mostly waiting for the disk that threads save.

    columns : which columns to keep, None for all. wanted : what to take of files that hold several things
    """

    def read(path: Path) -> RoiTable:
        table = read_roi_file(path, mats, wanted)
        return table if columns is None else RoiTable(table.values[:, columns].copy(), None)

    workers = min(n_jobs or os.cpu_count() or 1, 16, max(len(paths), 1))
    with MatReader(len(paths)) as mats, ThreadPoolExecutor(max(workers, 1)) as pool:
        return list(track(pool.map(read, paths), "reading subjects", len(paths), verbose))
