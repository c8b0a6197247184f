"""What all steps from cohort to graphs check, and how they name culprits."""

from __future__ import annotations

from typing import Any

import numpy as np

from cignn._storage import CLOSE
from cignn._words import name_some
from cignn.datasets.cohort import Cohort


def check_cohort_input(X: Any, step: str, matrices: bool = False) -> None:
    """Raise unless X is a cohort with subjects and, where asked for, finite matrices."""
    if not isinstance(X, Cohort):
        raise TypeError(f"{step} works on a Cohort, got {type(X).__name__}; make one with Cohort(series=…).")
    if not len(X):
        raise ValueError(f"{step} needs at least one subject, the cohort has none.")
    if not matrices:
        return
    if X.matrices is None:
        raise ValueError(f"{step} needs connectivity, the cohort has series; put Connectivity() before it.")
    bad = ~np.isfinite(X.matrices).all(axis=(1, 2))
    if bad.any():
        raise ValueError(
            f"NaN or infinite values in the matrix of {name_some(X.subjects[bad])}; repair or drop them."
        )


def check_symmetry(X: Cohort) -> None:
    """Raise unless all matrices are as symmetric as those of graphs must be."""
    assert X.matrices is not None
    askew = [not np.allclose(matrix, matrix.T, CLOSE, CLOSE, equal_nan=True) for matrix in X.matrices]
    if any(askew):
        raise ValueError(
            f"the matrix of {name_some(X.subjects[askew])} is not symmetric; make it so with "
            'check_cohort(cohort, asymmetric="symmetrise").'
        )


def check_rois(X: Cohort, n_rois: int) -> None:
    """Raise unless the cohort has as many ROIs as the one a step was fitted on."""
    if X.n_rois != n_rois:
        raise ValueError(f"fitted on {n_rois} ROIs, got a cohort with {X.n_rois}; use the same atlas.")
