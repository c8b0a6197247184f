"""SRPBS: ROI series of patients with a psychiatric disorder (y = 1) and healthy controls (y = 0)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import name_some
from cignn._random import RandomState, as_generator
from cignn.datasets.atlas import aal116, places_of
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_checks import logger
from cignn.datasets.cohort_files import load_cohort

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
    path : the folder
    patients, controls : codes in the column ``label`` of the two groups; everyone else is left out. In the
        release 0 is healthy and 4 schizophrenia
    label : column with the diagnosis
    selection : None takes all of both groups. "paper" draws as many controls as there are patients, from
        the patients' sites in the same proportion where there are enough, as the paper's 92 and 92 (it does
        not say whom it took)
    random_state : draws the controls of "paper"
    constant_rois : "zero", the default here, keeps subjects with ROIs without signal
    **options : those of `load_cohort`

    Returns
    -------
    Cohort with y 1 for patients and 0 for controls; sex is "M" or "F" (1 and 2 in the release)
    """
    if selection not in (None, "paper"):
        raise ValueError(f"selection must be None or paper, got {selection!r}.")
    if str(patients) == str(controls):
        raise ValueError(f"patients and controls must differ, got {patients} for both.")
    given = {"missing": "drop_subject", "missing_labels": "drop_subject", "one_class": "keep"} | options
    cohort = load_cohort(path, label=label, constant_rois=constant_rois, **given)
    if cohort.y is None:
        raise ValueError(f"{path} has no labels to tell patients from controls; give label= their column.")
    names = cohort.y.astype(str)
    for role, code in (("patients", patients), ("controls", controls)):
        if not (names == str(code)).any():
            have = name_some(np.unique(names))
            raise ValueError(f"{path}: nobody has {label} {code}, only {have}; change {role}=.")
    chosen = np.isin(names, [str(patients), str(controls)])
    cohort = cohort[chosen].with_y((names[chosen] == str(patients)).astype(int))
    if "sex" in cohort.covariates:
        sex = cohort.covariates["sex"].replace({1: "M", 2: "F"})
        cohort = cohort._with(covariates=cohort.covariates.assign(sex=sex))
    if cohort.atlas is None and cohort.n_rois == 116 and (cohort.nameless or _is_aal(cohort.roi_names)):
        cohort = cohort.with_atlas(aal116())
    return cohort if selection is None else cohort[_balanced(cohort, as_generator(random_state))]


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
        raise ValueError(f"there are {ill.sum()} patients but only {(~ill).sum()} controls to draw from.")
    if short:
        logger.info("%d controls come from other sites than the patients", short)
    first[rng.choice(rest, short, replace=False)] = True
    return ill | first
