"""`Subject`: one subject of a cohort."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Subject(NamedTuple):
    """One subject of a cohort: what ``cohort[i]`` gives for an integer i.

    Parameters
    ----------
    subject : str
        The subject's id.
    series : ndarray of shape (t, R) or None
        ROI series, float32; None in a cohort of matrices.
    matrix : ndarray of shape (R, R) or None
        Connectivity, float32; None in a cohort of series.
    y : object
        The label, or None.
    site : object
        Where the subject was scanned, or None.
    covariates : dict
        Value of each covariate.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> one = make_cohort(12, random_state=0)[3]
    >>> one.subject, one.series.shape[1]
    ('sub-0004', 116)
    """

    subject: str
    series: np.ndarray | None
    matrix: np.ndarray | None
    y: Any
    site: Any
    covariates: dict[str, Any]
