"""What is known about a cohort's connections: which ones were planted, and in whom."""

from __future__ import annotations

from typing import Any

import numpy as np

# arrays of a cohort with the ROIs along their last two axes
BY_ROI = ("edge_truth", "site_truth", "induced_truth", "edge_sets")


def as_truth(name: str, truth: Any, n_rois: int) -> np.ndarray | None:
    """(R, R) bool, symmetric."""
    if truth is None:
        return None
    truth = np.asarray(truth, bool)
    if truth.shape != (n_rois, n_rois) or not np.array_equal(truth, truth.T):
        raise ValueError(f"{name} must be a symmetric ({n_rois}, {n_rois}) array, got shape {truth.shape}.")
    return truth


def as_sets(edge_sets: Any, n_rois: int) -> np.ndarray | None:
    """(k, R, R) bool, each symmetric."""
    if edge_sets is None:
        return None
    sets = np.asarray(edge_sets, bool)
    if sets.ndim != 3 or sets.shape[1:] != (n_rois, n_rois) or not np.array_equal(sets, sets.swapaxes(1, 2)):
        raise ValueError(
            f"edge_sets must be symmetric arrays (sets, {n_rois}, {n_rois}), got shape {sets.shape}."
        )
    return sets


def as_carries(carries: Any, n_subjects: int, edge_sets: np.ndarray | None) -> np.ndarray | None:
    """(n, k) int8 of −1, 0 and 1."""
    if (carries is None) != (edge_sets is None):
        raise ValueError("edge_sets and carries belong together; give both or neither.")
    if carries is None or edge_sets is None:
        return None
    signs, want = np.asarray(carries), (n_subjects, len(edge_sets))
    if signs.shape != want:
        raise ValueError(f"carries must have shape {want}, subjects and edge_sets, got {signs.shape}.")
    if not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(f"carries must hold -1, 0 and 1, got {np.setdiff1d(signs, (-1, 0, 1))[0]}.")
    return signs.astype(np.int8)


def taken(truth: np.ndarray | None, keep: np.ndarray) -> np.ndarray | None:
    """(..., r, r) the entries of r ROIs, in this order."""
    return None if truth is None else truth[..., keep[:, None], keep]


def as_matrix(edges: np.ndarray, n_rois: int) -> np.ndarray:
    """(R, R) bool: True for these pairs (e, 2), in both directions."""
    matrix = np.zeros((n_rois, n_rois), bool)
    matrix[tuple(edges.T)] = matrix[tuple(edges.T[::-1])] = True
    return matrix
