"""ABIDE's connectivity in one small file, for a machine that has neither the series nor nilearn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.cohorts import abide
from cignn import Cohort
from cignn._arrays import symmetric, upper_triangle
from cignn.datasets import aal116

COVARIATES = ("age", "sex", "mean_fd")


def write_connections(path: Path) -> None:
    """Write Fisher z of the correlations as half-precision numbers, with labels, sites and covariates."""
    cohort = abide("correlation")
    of_subjects = {name: cohort.covariates[name].to_numpy() for name in COVARIATES}
    of_subjects["sex"] = of_subjects["sex"].astype(str)
    np.savez_compressed(
        path,
        connections=upper_triangle(np.asarray(cohort.matrices)).astype(np.float16),
        y=cohort.y,
        site=cohort.sites.astype(str),
        subject=cohort.subjects,
        **of_subjects,
    )


def read_connections(path: Path) -> Cohort:
    """Read what `write_connections` wrote; regions are those of AAL-116 where there are 116."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    missing = {"connections", "y", "site", "subject", *COVARIATES} - arrays.keys()
    if missing:
        raise ValueError(f"{path} has no {sorted(missing)[0]!r}; write it with --write-connections.")
    values = arrays["connections"].astype(np.float32)
    n_rois = round((1 + np.sqrt(1 + 8 * values.shape[1])) / 2)
    matrices = symmetric(values, np.zeros((len(values), n_rois, n_rois), np.float32))
    return Cohort(
        matrices=matrices,
        y=arrays["y"],
        sites=arrays["site"],
        subjects=arrays["subject"],
        covariates={name: arrays[name] for name in COVARIATES},
        atlas=aal116() if n_rois == 116 else None,
    )
