"""ABIDE I, preprocessed: ROI series of patients with autism (y = 1) and of controls (y = 0)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._array_files import named, read_npz, regular
from cignn._checks import DataError, Option, name_some
from cignn._random import RandomState, as_generator
from cignn.datasets.atlas import aal116
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_checks import checks_from
from cignn.datasets.cohort_files import checked, read_many
from cignn.datasets.exclusions import excluded
from cignn.datasets.participants import numbers, tidy, tidy_sex
from cignn.datasets.reading import all_named, read_table
from cignn.datasets.series import SeriesStack

SELECTIONS = (None, "paper", "paper-balanced", "quality")
# The paper has 528 of these 531 patients and its table of sites says that the other three are from CMU. It
# does not name them; these are the three of CMU with the most ROIs without signal (15, 14 and 12).
NOT_IN_PAPER = (50645, 50655, 50651)
BALANCED_WOMEN = 35  # female controls that the paper removes to reduce gender bias
RATERS = ("qc_rater_1", "qc_anat_rater_2", "qc_func_rater_2", "qc_anat_rater_3", "qc_func_rater_3")
_MERGED = {
    "LEUVEN_1": "LEUVEN",
    "LEUVEN_2": "LEUVEN",
    "UCLA_1": "UCLA",
    "UCLA_2": "UCLA",
    "UM_1": "UM",
    "UM_2": "UM",
}
_NO_VALUE = -9999
_STACKED = ("data", "lengths", "file_id", "label_asd", "site")  # arrays of all subjects in one file
_NUMBER = re.compile(r"(?<![0-9])([0-9]{1,9})$")  # of a subject, at the end of its file id


def load_abide(
    path: str | Path,
    *,
    download: bool = False,
    selection: str | None = None,
    atlas: str = "aal",
    pipeline: str = "dparsf",
    filtered: bool = True,
    global_signal: bool = True,
    merge_sites: bool = False,
    phenotype: str | Path | None = None,
    columns: Sequence[str] = (),
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    constant_rois: str = "zero",
    **checks: Any,
) -> Cohort:
    """Load ABIDE I as the Preprocessed Connectomes Project (PCP) shares it.

    Where the data come from: http://preprocessed-connectomes-project.org/abide, free to download without
    registration (please read ABIDE's usage agreement). ``download=True`` fetches them with nilearn into
    ``path``; PCP offers up to 1035 subjects, those whose phenotype names a file. By hand: any folder below
    which lie ``<file id>_rois_<atlas>.1D`` and a phenotype table (``Phenotypic_V1_0b_preprocessed1.csv``).
    A folder with all series in one ``ts_aal.npz`` (``data`` (all time points, 116), ``lengths``, ``file_id``,
    ``label_asd``, ``site``) beside ``phenotypic.csv`` is read as well.

    Parameters
    ----------
    path : str or Path
        The folder, or the .npz file.
    download : bool, default=False
        Whether to fetch what is not there yet.
    selection : {None, "paper", "paper-balanced", "quality"}, default=None
        None takes everyone. "paper" leaves out three patients of CMU to give the paper's 528 patients and 571
        controls (it does not say which three). "paper-balanced" leaves out 35 female controls too, drawn by
        ``random_state``: 528 and 536. "quality" keeps those whom no rater of PCP failed.
    atlas : str, default="aal"
        One of aal, cc200, cc400, dosenbach160, ez, ho and tt; names, coordinates and systems are known for
        aal.
    pipeline : {"dparsf", "cpac", "css", "niak"}, default="dparsf"
        Which preprocessing to download.
    filtered : bool, default=True
        Whether to download series with a band-pass filter (0.01–0.1 Hz).
    global_signal : bool, default=True
        Whether to download series with global signal regression.
    merge_sites : bool, default=False
        Whether to count the two samples of LEUVEN, UCLA and UM as one site each: 17 sites, as in the paper,
        instead of 20.
    phenotype : str or Path, default=None
        The phenotype table, where it lies elsewhere.
    columns : sequence of str, default=()
        Further columns of the phenotype table to keep as covariates, for instance ``["FIQ"]``.
    random_state : int, Generator or None, default=0
        Draws the controls that "paper-balanced" leaves out.
    n_jobs : int, default=None
        Number of files read at once; by default as many as there are processors.
    verbose : int, default=0
        1 shows a progress bar.
    constant_rois : {"zero", "drop_subject", "drop_roi", "raise"}, default="zero"
        In 47 of 1102 subjects (mostly CMU, SBL and PITT, where the field of view is cut) some ROIs have no
        signal. "zero" keeps these subjects: the series becomes 0 and `cignn.connectome.Connectivity` gives
        the ROI no connections. The others are described at `check_cohort`.
    **checks : str or int
        The other options of `check_cohort`. Three pairs of subjects have practically the same scan, two of
        them with opposite labels (KKI_0050805 and KKI_0050808, UM_1_0050279 and UM_1_0050286, Yale_0050578
        and Yale_0050602; AAL series of DPARSF): they are named in a warning and kept, and
        ``near_duplicates="drop_subject"`` leaves all six out.

    Returns
    -------
    Cohort
        The subjects, named by their file id, with y 1 for ASD and 0 for TD, sites and the covariates age, sex
        and mean_fd. ``exclusions`` says who was left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cignn.datasets import load_abide
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as name:  # in the layout of PCP
    ...     folder = Path(name)
    ...     for code in ("NYU_0050001", "NYU_0050002"):
    ...         np.savetxt(folder / f"{code}_rois_aal.1D", rng.normal(size=(80, 116)))
    ...     table = "SUB_ID,DX_GROUP,SITE_ID\\n50001,1,NYU\\n50002,2,NYU\\n"
    ...     _ = (folder / "Phenotypic_V1_0b_preprocessed1.csv").write_text(table)
    ...     cohort = load_abide(folder)
    >>> cohort.subjects.tolist(), cohort.y.tolist()
    (['NYU_0050001', 'NYU_0050002'], [1, 0])
    >>> cohort = load_abide("abide", download=True)  # doctest: +SKIP
    """
    rules = checks_from({"constant_rois": constant_rois, "one_class": "keep"} | checks)
    if selection not in SELECTIONS:
        raise ValueError(f"selection must be None, paper, paper-balanced or quality, got {selection!r}.")
    path = named(path)
    if download:
        _download(path, atlas, pipeline, filtered, global_signal, verbose)
    if not path.is_dir() or (path / "ts_aal.npz").exists():
        file = path / "ts_aal.npz" if path.is_dir() else path
        file = regular(file, "pass download=True to fetch ABIDE into a folder")
        ids, stack, known = _read_stacked(file)
        folder = file.parent
    else:
        ids, stack = _read_files(path, atlas, n_jobs, verbose)
        folder, known = path, None
    table = _phenotype(phenotype, folder, ids, known)
    keep = _select(table, selection, random_state)
    cohort = Cohort(
        stack,
        y=(table["DX_GROUP"] == 1).to_numpy(int),
        sites=table["SITE_ID"].replace(_MERGED if merge_sites else {}).to_numpy(str),
        subjects=ids,
        covariates=_covariates(table, columns),
        atlas=aal116() if atlas == "aal" and stack.values.shape[1] == 116 else None,
    )
    if not keep.all():
        gone = excluded(cohort.subjects[~keep], "selection", f"not in the selection {selection!r}")
        cohort = cohort[keep]._noting(gone)
    return checked(cohort, rules, path)


def _download(
    path: Path, atlas: str, pipeline: str, filtered: bool, global_signal: bool, verbose: int
) -> None:
    from nilearn.datasets import fetch_abide_pcp

    path.mkdir(parents=True, exist_ok=True)
    fetch_abide_pcp(
        data_dir=path,
        pipeline=pipeline,
        band_pass_filtering=filtered,
        global_signal_regression=global_signal,
        derivatives=[f"rois_{atlas}"],
        quality_checked=False,
        verbose=verbose,
    )


def _read_stacked(path: Path) -> tuple[list[str], SeriesStack, pd.DataFrame]:
    """File ids, series, and what the file itself says of the subjects."""
    arrays = read_npz(path)
    lacking = [name for name in _STACKED if name not in arrays]
    if lacking:
        raise ValueError(f"{path} has no array '{lacking[0]}', got {', '.join(arrays)}; get the file again.")
    try:
        stack = SeriesStack(arrays["data"], arrays["lengths"])
    except ValueError as error:
        raise DataError(str(error).removesuffix("."), source=path) from error
    for name in _STACKED[2:]:
        if arrays[name].shape != (len(stack),):
            shape = arrays[name].shape
            raise DataError(f"'{name}' must be ({len(stack)},) as lengths, got shape {shape}", source=path)
    ids, asd = arrays["file_id"].astype(str), arrays["label_asd"]
    odd = ~np.isin(asd, (0, 1))
    if odd.any():
        got = [f"{value} for {one}" for one, value in zip(ids[odd], asd[odd], strict=True)]
        raise DataError(
            f"label_asd must be 1 (ASD) or 0 (TD), got {name_some(got)}",
            subjects=ids[odd],
            values=asd[odd],
            remedy="correct them",
            source=path,
        )
    table = pd.DataFrame({"DX_GROUP": 2 - asd.astype(int), "SITE_ID": arrays["site"].astype(str)})
    return ids.tolist(), stack, table


def _read_files(folder: Path, atlas: str, n_jobs: int | None, verbose: int) -> tuple[list[str], SeriesStack]:
    tail = f"_rois_{atlas}.1D"
    files = all_named(folder.rglob(f"*{tail}"))
    if not files:
        have = sorted({p.name.rsplit("_rois_", 1)[1][:-3] for p in folder.rglob("*_rois_*.1D")})
        if have:
            problem = f"{folder} holds no *{tail}, only files of the atlases {', '.join(have)}"
            raise DataError(problem, values=have, options=[Option("atlas", tuple(have))])
        raise DataError(
            f"{folder} holds no *{tail}",
            options=[Option("download", (True,))],
            remedy="give the folder that holds them",
        )
    ids = [file.name.removesuffix(tail) for file in files]
    twice = sorted({one for one in ids if ids.count(one) > 1}) if len(set(ids)) < len(ids) else []
    if twice:
        folders = sorted({str(f.parent) for f in files if f.name.removesuffix(tail) == twice[0]})
        problem = f"{twice[0]} lies in {name_some(folders)}"
        raise DataError(problem, subjects=twice, values=folders, remedy="give the folder of one pipeline")
    tables = read_many(files, n_jobs, verbose)
    widths = sorted({table.values.shape[1] for table in tables})
    if len(widths) > 1:
        odd = [one for one, t in zip(ids, tables, strict=True) if t.values.shape[1] != widths[-1]]
        problem = f"files differ in their number of ROIs ({widths}): {name_some(odd)}"
        raise DataError(problem, subjects=odd, values=widths, source=folder)
    return ids, SeriesStack.of([table.values for table in tables])


def _phenotype(
    given: str | Path | None, folder: Path, ids: list[str], known: pd.DataFrame | None
) -> pd.DataFrame:
    """One row per subject, in their order, from the phenotype table; without one, what is ``known``."""
    codes = [int(found.group(1)) if (found := _NUMBER.search(one)) else -1 for one in ids]
    places = sorted(folder.rglob("[Pp]henotypic*.csv"))
    for above in list(folder.resolve().parents)[:2]:  # PCP's files lie below pipeline and strategy
        places += sorted(above.glob("[Pp]henotypic*.csv"))
    path = Path(given) if given is not None else next(iter(places), None)
    if path is None:
        if known is None:
            raise FileNotFoundError(
                f"{folder} holds no phenotype table (Phenotypic_V1_0b_preprocessed1.csv); pass phenotype=."
            )
        return known.assign(SUB_ID=codes)
    table = read_table(path)
    for column in ("SUB_ID", "DX_GROUP", "SITE_ID"):
        if column not in table:
            table_of = Option("phenotype", advice="give ABIDE's phenotype table with {}")
            raise DataError(f"{path} has no column {column}", values=table.columns, options=[table_of])
    table = table.apply(tidy)
    twice = table[["SUB_ID", "DX_GROUP"]].drop_duplicates()["SUB_ID"]
    if (again := twice[twice.duplicated()]).size:
        problem = f"SUB_ID {name_some(again)} has two different DX_GROUP"
        raise DataError(problem, subjects=again, remedy="keep one line", source=path)
    table = table.drop_duplicates("SUB_ID").set_index("SUB_ID", drop=False)
    unknown = [one for one, code in zip(ids, codes, strict=True) if code not in table.index]
    if unknown:
        whole = Option("phenotype", advice="give the whole table with {}")
        raise DataError(f"{path} has no line for {name_some(unknown)}", subjects=unknown, options=[whole])
    table = table.loc[codes].reset_index(drop=True)
    odd = ~pd.to_numeric(table["DX_GROUP"], errors="coerce").isin([1, 2]).to_numpy()
    if odd.any():
        got, whom = table["DX_GROUP"][odd], np.asarray(ids)[odd]
        raise DataError(
            f"DX_GROUP must be 1 (ASD) or 2 (TD), got {got.iloc[0]} for {name_some(whom)}",
            subjects=whom,
            values=got,
            remedy="correct it or take these files away",
            source=path,
        )
    if known is not None and (apart := (known["DX_GROUP"] != table["DX_GROUP"]).to_numpy()).any():
        whom = np.asarray(ids)[apart]
        problem = f"DX_GROUP is not what label_asd says of {name_some(whom)}"
        raise DataError(problem, subjects=whom, remedy="correct one of them", source=path)
    for column in ("AGE_AT_SCAN", "func_mean_fd"):
        if column in table:
            table[column] = numbers(table[column], column, ids, str(path))
    return table


def _covariates(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    out = pd.DataFrame(index=table.index)
    for name, column in (("age", "AGE_AT_SCAN"), ("sex", "SEX"), ("mean_fd", "func_mean_fd")):
        if column in table:
            values = table[column].replace(_NO_VALUE, np.nan)
            out[name] = tidy_sex(values.replace({1: "M", 2: "F"})) if name == "sex" else values
    for column in columns:
        if column not in table:
            change = Option("columns", advice="change {}")
            raise DataError(f"the phenotype table has no column {column!r}", options=[change])
        out[column] = table[column].replace(_NO_VALUE, np.nan)
    return out


def _select(table: pd.DataFrame, selection: str | None, random_state: RandomState) -> np.ndarray:
    """(n,) who is in the selection."""
    keep = np.ones(len(table), bool)
    if selection is None:
        return keep
    needed = {"quality": RATERS, "paper-balanced": ("SEX",), "paper": ()}[selection]
    lacking = [column for column in needed if column not in table]
    if lacking:
        raise DataError(f"selection {selection!r} needs the column {lacking[0]} of the phenotype table")
    if selection == "quality":
        return ~(table[list(RATERS)] == "fail").any(axis=1).to_numpy()
    keep &= ~table["SUB_ID"].isin(NOT_IN_PAPER).to_numpy()
    controls = BALANCED_WOMEN if selection == "paper-balanced" else 0
    if controls:
        women = np.flatnonzero(((table["SEX"] == 2) & (table["DX_GROUP"] == 2)).to_numpy())
        gone = as_generator(random_state).choice(women, min(controls, len(women)), replace=False)
        keep[gone] = False
    counts = tuple(int((table["DX_GROUP"][keep] == group).sum()) for group in (1, 2))
    if counts != (528, 571 - controls):
        warnings.warn(
            f"the paper's selection is 528 patients and {571 - controls} controls, these data give "
            f"{counts[0]} and {counts[1]}.",
            stacklevel=3,
        )
    return keep
