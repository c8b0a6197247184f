"""Repairs of a cohort: values set to 0, matrices made symmetric, ROIs left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from cignn._arrays import upper_triangle
from cignn._checks import DataError, Option
from cignn._mapped import MappedArray, Rows, scratch
from cignn.datasets.cohort import Cohort
from cignn.datasets.labels import without_label, without_site
from cignn.datasets.series import SeriesStack
from cignn.datasets.truth import BY_ROI, taken

UNKNOWN_SITE = "unknown"


def repaired(cohort: Cohort, zero_values: bool, constant: np.ndarray | None, own: bool) -> Cohort:
    """Set values without meaning to 0 and make matrices exactly symmetric."""
    if cohort.series is not None:
        stack = _repaired_series(cohort.series, zero_values, constant, own)
        absent = cohort.zeros_mean_absent or constant is not None
        return cohort._with(series=stack, zeros_mean_absent=absent)
    repair = partial(_repaired_matrices, zero_values=zero_values)
    if isinstance(cohort.matrices, MappedArray):  # stays as it is on disk
        return cohort._with(matrices=cohort.matrices.with_step(repair))
    return cohort._with(matrices=repair(np.asarray(cohort.matrices) if own else np.array(cohort.matrices)))


def _repaired_series(
    stack: SeriesStack, zero_values: bool, constant: np.ndarray | None, own: bool
) -> SeriesStack:
    """Set values without meaning to 0: in place, in a copy, or in a temporary file where they are on disk."""
    if not own and not stack.mapped:
        stack = SeriesStack(stack.values.copy(), stack.lengths, stack.starts)  # type: ignore[union-attr]

    def repaired() -> Iterator[np.ndarray]:
        for i, one in enumerate(stack):
            if zero_values:
                np.nan_to_num(one, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
            if constant is not None:
                one[:, constant[i]] = 0
            yield one

    if isinstance(stack.values, MappedArray):
        rows = Rows(stack.rows().shape, repaired())
        return SeriesStack(scratch(rows, stack.values.file.path.parent), stack.lengths)
    for _ in repaired():
        pass
    return stack


def _repaired_matrices(matrices: np.ndarray, zero_values: bool) -> np.ndarray:
    """(k, R, R) repaired in place."""
    for one in matrices:
        if zero_values:
            np.nan_to_num(one, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        _symmetrise(one)
    return matrices


def _symmetrise(matrix: np.ndarray) -> None:
    """Make a matrix symmetric in place; where one triangle is empty the other one counts."""
    if not np.array_equal(matrix, matrix.T):
        one_sided = not upper_triangle(matrix).any() or not upper_triangle(matrix.T).any()
        diagonal = matrix.diagonal().copy()
        matrix[:] = (matrix + matrix.T) if one_sided else (matrix + matrix.T) / 2
        np.fill_diagonal(matrix, diagonal)


def drop_rois(cohort: Cohort, gone: np.ndarray) -> Cohort:
    """Return the cohort without the ROIs that are True in ``gone`` (R,)."""
    keep = np.flatnonzero(~np.asarray(gone))
    if not len(keep):
        raise DataError(
            "no ROI is left: each one is constant in some subject",
            values=cohort.roi_names,
            options=[Option("constant_rois", ("drop_subject",))],
        )
    return take_rois(cohort, keep)


def take_rois(cohort: Cohort, keep: np.ndarray) -> Cohort:
    """Return the cohort with the ROIs at ``keep``, in that order."""
    stack = cohort.series
    if stack is not None:
        stack = SeriesStack(_taken(stack.values, keep), stack.lengths, stack.starts)
    return cohort._with(
        series=stack,
        matrices=None if cohort.matrices is None else _taken(cohort.matrices, keep),
        roi_names=[cohort.roi_names[i] for i in keep],
        atlas=None if cohort.atlas is None else cohort.atlas[keep],
        **{name: taken(getattr(cohort, name), keep) for name in BY_ROI},
    )


def _taken(data: Any, keep: np.ndarray) -> Any:
    """Columns of series, (k, R), or rows and columns of matrices, (k, R, R); on disk nothing is copied."""
    if isinstance(data, MappedArray):
        return data.with_step(partial(_taken, keep=keep), (len(keep),) * (data.ndim - 1))
    return data[:, keep] if data.ndim == 2 else data[:, keep[:, None], keep]


def with_known_labels_and_sites(cohort: Cohort) -> Cohort:
    """Labels that say nothing as None, sites that say nothing as the site "unknown", or no sites at all."""
    if cohort.y is not None and ((unlabelled := without_label(cohort.y)) & ~pd.isna(cohort.y)).any():
        cohort = cohort.with_y(pd.Series(cohort.y).astype(object).mask(unlabelled, None).to_numpy())
    if cohort.sites is None:
        return cohort
    nowhere = without_site(cohort.sites, len(cohort))
    if nowhere.all():
        return cohort._with(sites=None)
    if nowhere.any():
        sites = np.where(nowhere, UNKNOWN_SITE, np.asarray(cohort.sites, object)).astype(str)
        return cohort._with(sites=sites)
    return cohort
