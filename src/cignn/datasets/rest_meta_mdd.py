"""REST-meta-MDD: ROI series of patients with major depression (y = 1) and controls (y = 0)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import name_some
from cignn.datasets import participants as people
from cignn.datasets.atlas import aal116
from cignn.datasets.cohort import Cohort, SeriesStack
from cignn.datasets.cohort_checks import Checks, checks_from, logger
from cignn.datasets.cohort_files import checked, read_many
from cignn.datasets.reading import all_named, named

AAL = slice(0, 116)  # of the release's 1833 columns
PAPER_MAX_FD = 0.2  # mm, the consortium's own limit of mean framewise displacement
PAPER_MIN_SITE = 10
_NAME = re.compile(r"ROISignals_(S(\d+)-([12])-\d+)\.mat$", re.IGNORECASE)


def load_rest_meta_mdd(
    path: str | Path,
    *,
    selection: str | None = None,
    participants: str | Path | pd.DataFrame | None = None,
    min_site_size: int = 0,
    max_mean_fd: float | None = None,
    complete: bool = False,
    exclude: Iterable[str] = (),
    columns: slice = AAL,
    n_jobs: int | None = None,
    verbose: int = 0,
    constant_rois: str = "zero",
    **checks: Any,
) -> Cohort:
    """Load REST-meta-MDD from its files ``ROISignals_S<site>-<1 patient, 2 control>-<number>.mat``.

    Where the data come from: http://rfmri.org/REST-meta-MDD. The consortium shares preprocessed ROI series on
    request (an application form and a data use agreement); unpack them anywhere below ``path``. Age, sex and
    motion are in the table that comes with them; save it as .csv or .tsv for ``participants``.

    Parameters
    ----------
    path : the folder; files may lie in folders below it
    selection : None takes every file. "paper" applies the exclusions of the paper that can be read off the
        data: bad coverage (ROIs without signal), incomplete series (NaN), incomplete information (age or sex
        missing in the table), excessive motion (mean_fd above 0.2 mm, where the table has it), and sites
        with fewer than 10 subjects left. Poor normalisation was judged by eye: name those in ``exclude``
    participants : table with a column ID ("S1-1-0001") or participant_id, age, sex (1 = male, 2 = female, or
        words) and, where known, mean_fd
    min_site_size, max_mean_fd, complete : the same exclusions one by one: sites with fewer subjects,
        more motion, no age or sex
    exclude : ids to leave out
    columns : which columns of the files to take; the first 116 of the release's 1833 are the AAL regions
    n_jobs, verbose : files read at once; 1 shows a progress bar
    constant_rois : "zero", the default here, keeps subjects with ROIs without signal
    **checks : the other options of `check_cohort`; identical series under two ids (subjects whom two sites
        contributed) are found by ``duplicates``, "raise" by default, "keep_first" drops the second

    Returns
    -------
    Cohort with y 1 for MDD and 0 for controls, sites "S1", "S2", …, subjects "S1-1-0001", …
    """
    if selection not in (None, "paper"):
        raise ValueError(f"selection must be None or paper, got {selection!r}.")
    if selection == "paper":
        constant_rois, complete = "drop_subject", participants is not None
        min_site_size = max(min_site_size, PAPER_MIN_SITE)
        max_mean_fd = PAPER_MAX_FD if max_mean_fd is None else max_mean_fd
        checks = {"non_finite": "drop_subject", "short_series": "drop_subject"} | checks
    rules = checks_from({"constant_rois": constant_rois, "one_class": "keep"} | checks)
    if not isinstance(columns, slice):
        raise TypeError(f"columns must be a slice, for instance slice(116, 228), got {columns!r}.")
    path = named(path)
    files = _find(path, exclude)
    table = _table(participants, list(files), rules)
    files = {name: files[name] for name in table["participant_id"]}
    rows = read_many(list(files.values()), n_jobs, verbose, columns)
    _check_widths(list(files), [row.values.shape[1] for row in rows], columns)
    parts = [_NAME.search(file.name) for file in files.values()]
    source = str(participants) if isinstance(participants, str | Path) else "the table of participants"
    cohort = Cohort(
        SeriesStack.of([row.values for row in rows]),
        y=[int(part.group(3) == "1") for part in parts if part],
        sites=[f"S{int(part.group(2))}" for part in parts if part],
        subjects=list(files),
        covariates=people.covariates(table, ["participant_id", "ID"], source),
        atlas=aal116() if columns == AAL else None,
    )
    if selection == "paper" and "mean_fd" not in cohort.covariates:
        max_mean_fd = None
    cohort = _exclude(cohort, max_mean_fd, complete)
    cohort = checked(cohort, rules, path)
    if min_site_size > 1 and cohort.sites is not None:
        sizes = pd.Series(cohort.sites).map(pd.Series(cohort.sites).value_counts()).to_numpy()
        cohort = _keep(cohort, sizes >= min_site_size, f"sites with fewer than {min_site_size} subjects")
    return cohort


def _find(path: Path, exclude: Iterable[str]) -> dict[str, Path]:
    """Subject → file, sorted by site, group and number."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; give the one that holds ROISignals_S*-*-*.mat.")
    found = [
        (match.group(1).upper(), file)
        for file in all_named(path.rglob("*.mat"))
        if (match := _NAME.search(file.name))
    ]
    if not found:
        raise ValueError(
            f"{path} holds no ROISignals_S<site>-<1 or 2>-<number>.mat; unpack the release there."
        )
    names = [name for name, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(
            f"{path}: more than one file for {name_some(twice)}; give the folder of one preprocessing, "
            f"with or without global signal."
        )
    left_out = {people.bare(name).upper() for name in exclude}
    unknown = left_out - set(names)
    if unknown:
        raise ValueError(f"exclude names {name_some(sorted(unknown))}, of whom there is no file.")
    found.sort(key=lambda item: [int(number) for number in re.findall(r"\d+", item[0])])
    return {name: file for name, file in found if name not in left_out}


def _table(given: str | Path | pd.DataFrame | None, names: list[str], rules: Checks) -> pd.DataFrame:
    """One row per file, in their order; those without a line as ``missing`` says."""
    if given is None:
        return pd.DataFrame({"participant_id": names})
    frame, source = people.participants_table(given, [])
    frame = frame.assign(participant_id=frame["participant_id"].str.upper())
    frame = frame.drop_duplicates("participant_id").set_index("participant_id", drop=False)
    lacking = [name for name in names if name not in frame.index]
    if lacking and rules.missing == "raise":
        raise ValueError(f'{source} has no line for {name_some(lacking)}; pass missing="drop_subject".')
    frame = frame.loc[[name for name in names if name in frame.index]].reset_index(drop=True)
    sex = people.known_column(frame, "sex")
    if sex is not None:
        frame[sex] = frame[sex].replace({"1": "M", "2": "F", "1.0": "M", "2.0": "F"})
    return frame


def _check_widths(names: list[str], widths: list[int], columns: slice) -> None:
    wanted = columns.stop - (columns.start or 0) if columns.stop is not None else max(widths)
    wrong = [f"{name} ({width})" for name, width in zip(names, widths, strict=True) if width != wanted]
    if wrong:
        raise ValueError(
            f"expected {wanted} ROIs in each file, got fewer in {name_some(wrong)}; see columns=."
        )


def _exclude(cohort: Cohort, max_mean_fd: float | None, complete: bool) -> Cohort:
    table = cohort.covariates
    if max_mean_fd is not None:
        if "mean_fd" not in table:
            raise ValueError("max_mean_fd needs a table of participants with the column mean_fd.")
        still = (pd.to_numeric(table["mean_fd"]) <= max_mean_fd).to_numpy()
        cohort = _keep(cohort, still, f"mean_fd above {max_mean_fd}")
        table = cohort.covariates
    if complete:
        lacking = [name for name in ("age", "sex") if name not in table]
        if lacking:
            raise ValueError(f"complete=True needs a table of participants with the column {lacking[0]}.")
        cohort = _keep(cohort, table[["age", "sex"]].notna().all(axis=1).to_numpy(), "age or sex missing")
    return cohort


def _keep(cohort: Cohort, keep: np.ndarray, why: str) -> Cohort:
    if keep.all():
        return cohort
    if not keep.any():
        raise ValueError(f"no subject is left: {why} in all {len(cohort)}.")
    logger.info("left out %s: %s", name_some(cohort.subjects[~keep]), why)
    return cohort[keep]
