"""SRPBS: ROI series of patients with a psychiatric disorder (y = 1) and healthy controls (y = 0)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import DataError, Option, name_some
from cignn._random import RandomState, as_generator
from cignn.datasets.atlas import aal116, places_of
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_files import load_cohort
from cignn.datasets.exclusions import excluded

logger = logging.getLogger(__name__)

CONTROL, SCHIZOPHRENIA = 0, 4  # codes of the column diag


def load_srpbs(
    path: str | Path,
    *,
    patients: int | str = SCHIZOPHRENIA,
    controls: int | str = CONTROL,
    label: str = "diag",
    selection: str | None = None,
    random_state: RandomState = 0,
    constant_rois: str = "zero",
    **options: Any,
) -> Cohort:
    """Load the SRPBS Multi-disorder MRI Dataset: its table of participants and series extracted from it.

    Where the data come from: https://bicr-resource.atr.jp/srpbsopen (unrestricted) and
    https://bicr-resource.atr.jp/srpbs1600, free for research after registration. They are scans with a
    ``participants.tsv``: preprocess them (SPM or fMRIPrep), extract AAL series with
    `cignn.connectome.RoiSeries`, and lay them out as `load_cohort` reads them: ``participants.tsv`` and
    ``series/`` with one file per subject. A folder that fMRIPrep wrote is read directly with
    ``extract=RoiSeries(atlas=…)``.

    Parameters
    ----------
    path : str or Path
        The folder.
    patients : int or str, default=4
        Code of the patients in the column ``label``; in the release 4 is schizophrenia.
    controls : int or str, default=0
        Code of the controls. Subjects with other codes are left out.
    label : str, default="diag"
        Column with the diagnosis.
    selection : {None, "paper"}, default=None
        None takes all of both classes. "paper" draws as many controls as there are patients, from the
        patients' sites in the same proportion where there are enough, as the paper's 92 and 92 (it does not
        say whom it took).
    random_state : int, Generator or None, default=0
        Draws the controls of "paper".
    constant_rois : {"zero", "drop_subject", "drop_roi", "raise"}, default="zero"
        What to do about ROIs without signal; "zero" keeps the subjects.
    **options : object
        Those of `load_cohort`.

    Returns
    -------
    Cohort
        The subjects with y 1 for patients and 0 for controls; sex is "M" or "F" (1 and 2 in the release).
        ``exclusions`` says who was left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cignn.datasets import load_srpbs
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     (folder / "series").mkdir()
    ...     for i in (1, 2, 3):
    ...         np.save(folder / "series" / f"sub-000{i}.npy", rng.normal(size=(50, 116)))
    ...     table = "participant_id,diag,sex\\nsub-0001,4,1\\nsub-0002,0,2\\nsub-0003,2,1\\n"
    ...     _ = (folder / "participants.csv").write_text(table)
    ...     cohort = load_srpbs(folder)
    >>> cohort.y.tolist(), cohort.covariates["sex"].tolist(), cohort.exclusions["subject"].tolist()
    ([1, 0], ['M', 'F'], ['sub-0003'])
    """
    if selection not in (None, "paper"):
        raise ValueError(f"selection must be None or paper, got {selection!r}.")
    if str(patients) == str(controls):
        raise ValueError(f"patients and controls must differ, got {patients} for both.")
    given = {"missing": "drop_subject", "missing_labels": "drop_subject", "one_class": "keep"} | options
    cohort = load_cohort(path, label=label, constant_rois=constant_rois, **given)
    if cohort.y is None:
        problem = f"{path} has no labels to tell patients from controls"
        raise DataError(problem, options=[Option("label", advice="name their column with {}")])
    names = cohort.y.astype(str)
    for role, code in (("patients", patients), ("controls", controls)):
        if not (names == str(code)).any():
            have = np.unique(names)
            problem = f"nobody has {label} {code}, only {name_some(have)}"
            change = Option(role, advice="change {}")
            raise DataError(problem, values=have, options=[change], source=path)
    chosen = np.isin(names, [str(patients), str(controls)])
    others = excluded(cohort.subjects[~chosen], "label", [f"{label} {code}" for code in names[~chosen]])
    cohort = cohort[chosen].with_y((names[chosen] == str(patients)).astype(int))._noting(others)
    if "sex" in cohort.covariates:
        sex = cohort.covariates["sex"].replace({1: "M", 2: "F"})
        cohort = cohort._with(covariates=cohort.covariates.assign(sex=sex))
    if cohort.atlas is None and cohort.n_rois == 116 and (cohort.nameless or _is_aal(cohort.roi_names)):
        cohort = cohort.with_atlas(aal116())
    if selection is None:
        return cohort
    drawn = _balanced(cohort, as_generator(random_state))
    return cohort[drawn]._noting(excluded(cohort.subjects[~drawn], "selection", "control not drawn"))


def _is_aal(names: list[str]) -> bool:
    """Whether these are AAL's regions; 116 others are for instance 100 of Schaefer and 16 of Tian."""
    return places_of(names, aal116().names) is not None


def _balanced(cohort: Cohort, rng: np.random.Generator) -> np.ndarray:
    """(n,) all patients and as many controls, site by site as far as there are controls."""
    ill = np.asarray(cohort.y) == 1
    sites = np.zeros(len(cohort)) if cohort.sites is None else cohort.sites
    order = pd.Series(rng.permutation(len(cohort)))
    rank = order[~ill].groupby(sites[~ill]).rank().reindex(range(len(cohort)))
    wanted = pd.Series(sites).map(pd.Series(sites[ill]).value_counts()).fillna(0)
    first = (rank <= wanted).to_numpy(copy=True)
    short = int(ill.sum() - first.sum())
    rest = np.flatnonzero(~ill & ~first)
    if short > len(rest):
        raise DataError(f"there are {ill.sum()} patients but only {(~ill).sum()} controls to draw from")
    if short:
        logger.info("%d controls come from other sites than the patients", short)
    first[rng.choice(rest, short, replace=False)] = True
    return ill | first
