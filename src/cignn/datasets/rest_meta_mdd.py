"""REST-meta-MDD: ROI series of patients with major depression (y = 1) and controls (y = 0)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._array_files import named
from cignn._checks import DataError, Option, name_some
from cignn.datasets import participants as people
from cignn.datasets.atlas import aal116
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_checks import Checks, checks_from, remedies
from cignn.datasets.cohort_files import checked, read_many
from cignn.datasets.exclusions import excluded
from cignn.datasets.reading import all_named
from cignn.datasets.series import SeriesStack

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
    path : str or Path
        The folder; files may lie in folders below it.
    selection : {None, "paper"}, default=None
        None takes every file. "paper" applies the exclusions of the paper that can be read off the data: bad
        coverage (ROIs without signal), incomplete series (NaN), incomplete information (age or sex missing in
        the table), excessive motion (mean_fd above 0.2 mm, where the table has it), and sites with fewer than
        10 subjects left. Poor normalisation was judged by eye: name those in ``exclude``.
    participants : str, Path or DataFrame, default=None
        Table with a column ID ("S1-1-0001") or participant_id, age, sex (1 = male, 2 = female, or words) and,
        where known, mean_fd.
    min_site_size : int, default=0
        Leave out sites with fewer subjects.
    max_mean_fd : float, default=None
        Leave out subjects with more motion, in mm.
    complete : bool, default=False
        Leave out subjects without age or sex.
    exclude : iterable of str, default=()
        Ids to leave out.
    columns : slice, default=slice(0, 116)
        Which columns of the files to take; the first 116 of the release's 1833 are the AAL regions.
    n_jobs : int, default=None
        Number of files read at once; by default as many as there are processors.
    verbose : int, default=0
        1 shows a progress bar.
    constant_rois : {"zero", "drop_subject", "drop_roi", "raise"}, default="zero"
        What to do about ROIs without signal; "zero" keeps the subjects.
    **checks : str or int
        The other options of `check_cohort`. Identical series under two ids (subjects whom two sites
        contributed) are found by ``duplicates``, "raise" by default; "keep_first" drops the second. Files
        without a line in the table are refused unless ``missing="drop_subject"``.

    Returns
    -------
    Cohort
        The subjects "S1-1-0001", …, with y 1 for MDD and 0 for controls, and sites "S1", "S2", …;
        ``exclusions`` says who was left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from scipy.io import savemat
    >>> from cignn.datasets import load_rest_meta_mdd
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as folder:  # in the layout of the release
    ...     for name in ("S1-1-0001", "S1-2-0001", "S2-1-0001"):
    ...         series = rng.normal(size=(40, 120))
    ...         savemat(Path(folder) / f"ROISignals_{name}.mat", {"ROISignals": series})
    ...     cohort = load_rest_meta_mdd(folder, exclude=["S2-1-0001"])
    >>> cohort.subjects.tolist(), cohort.y.tolist(), cohort.n_rois
    (['S1-1-0001', 'S1-2-0001'], [1, 0], 116)
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
    files = _find(path)
    left_out = _named(exclude, files)
    table = _table(participants, [name for name in files if name not in left_out], rules)
    lineless = [name for name in files if name not in left_out and name not in set(table["participant_id"])]
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
    cohort = cohort._noting(
        excluded(sorted(left_out), "exclude", "named in exclude"),
        excluded(lineless, "missing", "no line in the table"),
    )
    cohort = _exclude(cohort, max_mean_fd, complete)
    cohort = checked(cohort, rules, path)
    if min_site_size > 1 and cohort.sites is not None:
        sizes = pd.Series(cohort.sites).map(pd.Series(cohort.sites).value_counts()).to_numpy()
        why = f"site with fewer than {min_site_size} subjects"
        cohort = _keep(cohort, sizes >= min_site_size, "min_site_size", why)
    return cohort


def _find(path: Path) -> dict[str, Path]:
    """Subject → file, sorted by site, class and number."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; give the one that holds ROISignals_S*-*-*.mat.")
    found = [
        (match.group(1).upper(), file)
        for file in all_named(path.rglob("*.mat"))
        if (match := _NAME.search(file.name))
    ]
    if not found:
        problem = f"{path} holds no ROISignals_S<site>-<1 or 2>-<number>.mat"
        raise DataError(problem, remedy="unpack the release there")
    counts = Counter(name for name, _ in found)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise DataError(
            f"more than one file for {name_some(twice)}",
            subjects=twice,
            remedy="give the folder of one preprocessing, with or without global signal",
            source=path,
        )
    found.sort(key=lambda item: [int(number) for number in re.findall(r"\d+", item[0])])
    return dict(found)


def _named(exclude: Iterable[str], files: dict[str, Path]) -> set[str]:
    """Ids to leave out, in capitals."""
    names = {people.bare(name).upper() for name in exclude}
    if unknown := sorted(names - set(files)):
        problem = f"exclude names {name_some(unknown)}, of whom there is no file"
        raise DataError(problem, subjects=unknown)
    return names


def _table(given: str | Path | pd.DataFrame | None, names: list[str], rules: Checks) -> pd.DataFrame:
    """One row per file, in their order; those without a line as ``missing`` says."""
    if given is None:
        return pd.DataFrame({"participant_id": names})
    frame, source = people.participants_table(given, [])
    frame = frame.assign(participant_id=frame["participant_id"].str.upper())
    frame = frame.drop_duplicates("participant_id").set_index("participant_id", drop=False)
    lacking = [name for name in names if name not in frame.index]
    if lacking and rules.missing == "raise":
        problem = f"{source} has no line for {name_some(lacking)}"
        raise DataError(problem, subjects=lacking, options=[remedies("missing")])
    frame = frame.loc[[name for name in names if name in frame.index]].reset_index(drop=True)
    sex = people.known_column(frame, "sex")
    if sex is not None:
        frame[sex] = frame[sex].replace({"1": "M", "2": "F", "1.0": "M", "2.0": "F"})
    return frame


def _check_widths(names: list[str], widths: list[int], columns: slice) -> None:
    wanted = columns.stop - (columns.start or 0) if columns.stop is not None else max(widths)
    wrong = [f"{name} ({width})" for name, width in zip(names, widths, strict=True) if width != wanted]
    if wrong:
        problem = f"expected {wanted} ROIs in each file, got fewer in {name_some(wrong)}"
        raise DataError(problem, values=widths, options=[Option("columns", advice="change {}")])


def _exclude(cohort: Cohort, max_mean_fd: float | None, complete: bool) -> Cohort:
    table = cohort.covariates
    if max_mean_fd is not None:
        if "mean_fd" not in table:
            raise DataError("max_mean_fd needs a table of participants with the column mean_fd")
        still = (pd.to_numeric(table["mean_fd"]) <= max_mean_fd).to_numpy()
        cohort = _keep(cohort, still, "max_mean_fd", f"mean_fd above {max_mean_fd}")
        table = cohort.covariates
    if complete:
        lacking = [name for name in ("age", "sex") if name not in table]
        if lacking:
            raise DataError(f"complete=True needs a table of participants with the column {lacking[0]}")
        known = table[["age", "sex"]].notna().all(axis=1).to_numpy()
        cohort = _keep(cohort, known, "complete", "age or sex missing")
    return cohort


def _keep(cohort: Cohort, keep: np.ndarray, reason: str, why: str) -> Cohort:
    if keep.all():
        return cohort
    if not keep.any():
        problem = f"no subject is left: {why} in all {len(cohort)}"
        raise DataError(problem, subjects=cohort.subjects, options=[Option(reason, advice="change {}")])
    return cohort[keep]._noting(excluded(cohort.subjects[~keep], reason, why))
