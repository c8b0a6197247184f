"""Connections planted in a cohort, and who carries them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cignn._arrays import upper_pairs
from cignn._checks import whole
from cignn._random import RandomState, as_generator
from cignn.datasets.cohort import Cohort
from cignn.datasets.truth import as_matrix


def plant_edges(
    cohort: Cohort,
    n_edges: int = 40,
    effect: float = 0.3,
    *,
    affected: float = 1.0,
    subtypes: int = 1,
    either_direction: bool = False,
    fisher: bool = False,
    random_state: RandomState = None,
) -> Cohort:
    """Split subjects into random halves and shift random connections of one half, on real noise.

    Parameters
    ----------
    cohort : Cohort
        Subjects with correlation matrices, best of one class, such as controls.
    n_edges : int, default=40
        Number of edges that move in the class y = 1; with ``subtypes``, of each.
    effect : float, default=0.3
        How far they move in Fisher z; the sign is drawn once per edge. In a few hundred subjects a t-test
        finds all of them at 0.15, most at 0.08 and less than half at 0.05.
    affected : float, default=1.0
        Share of the class y = 1 in whom they move, in [0, 1]; the others are like the class y = 0.
    subtypes : int, default=1
        Number of disjoint sets of edges; each affected subject carries one of them, all equally often.
    either_direction : bool, default=False
        Whether a subject's set moves up or down as one: in half of its carriers as drawn, in the others the
        other way, so that no mean differs between the classes.
    fisher : bool, default=False
        Whether the matrices hold Fisher z values already.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same halves and edges.

    Returns
    -------
    Cohort
        The same subjects with new labels (0 and 1), the planted edges in ``edge_truth`` and those of each
        subject in ``edge_sets`` and ``carries``.

    Examples
    --------
    >>> from cignn.datasets import make_cohort, plant_edges
    >>> controls = make_cohort(20, n_rois=10, n_edges=0, data="matrices", random_state=0)
    >>> planted = plant_edges(controls, 4, subtypes=2, random_state=0)
    >>> int(planted.edge_truth.sum()) // 2, sorted(set(planted.y.tolist()))
    (8, [0, 1])
    >>> planted.carries[planted.y == 1].sum(0).tolist()
    [5, 5]
    """
    check_carriers(affected, subtypes)
    if cohort.matrices is None:
        raise ValueError("plant_edges needs connectivity matrices; apply Connectivity to the cohort first.")
    most = cohort.n_rois * (cohort.n_rois - 1) // 2 // subtypes
    if not 1 <= n_edges <= most:
        where = "the pairs of ROIs" if subtypes == 1 else f"the pairs of ROIs for each of {subtypes} subtypes"
        raise ValueError(f"n_edges must lie between 1 and {most}, {where}, got {n_edges}.")
    if len(cohort) < 2:
        raise ValueError(f"plant_edges needs at least 2 subjects, one for each class, got {len(cohort)}.")
    rng = as_generator(random_state)
    y = rng.permutation(np.arange(len(cohort)) % 2)
    edges = rng.choice(upper_pairs(cohort.n_rois), subtypes * n_edges, replace=False, shuffle=False)
    if subtypes > 1:  # the order of the choice is not random
        edges = rng.permutation(edges)
    signs = rng.choice([-1.0, 1.0], len(edges))
    ill = y == 1 if affected == 1 else (y == 1) & (ranks_within(y, rng) < affected)
    carries = draw_carriers(ill, subtypes, either_direction, rng)
    shifts = shifts_of(carries, signs * effect)
    matrices = np.array(cohort.matrices)
    if not fisher and np.abs(matrices[:, edges[:, 0], edges[:, 1]]).max() > 1 + 1e-4:
        raise ValueError("plant_edges expects correlations within [-1, 1]; pass fisher=True for Fisher z.")
    for i in np.flatnonzero(ill):
        shift(matrices[i], edges, shifts[i], fisher)
    known = truths(edges, carries, cohort.n_rois)
    return cohort._with(matrices=matrices, y=y, **known, site_truth=None, induced_truth=None)


# -------------------------------------------------------------------------- who carries what


def check_carriers(affected: float, subtypes: int) -> None:
    """Refuse shares and numbers of subtypes that cannot be."""
    if not 0 <= affected <= 1:
        raise ValueError(f"affected must lie in [0, 1], got {affected}.")
    whole("subtypes", subtypes, 1)


def draw_carriers(
    ill: np.ndarray, subtypes: int, either_direction: bool, rng: np.random.Generator
) -> np.ndarray:
    """(n, subtypes) int8: 1 or −1 for the set an ill subject carries, as many subjects for each, else 0."""
    carries = np.zeros((len(ill), subtypes), np.int8)
    count = int(ill.sum())
    drawn = subtypes > 1 or either_direction
    order = rng.permutation(count) if drawn else np.zeros(count, int)
    signs = 1 - 2 * (order // subtypes % 2) if either_direction else 1
    carries[np.flatnonzero(ill), order % subtypes] = signs
    return carries


def shifts_of(carries: np.ndarray, effects: np.ndarray) -> np.ndarray:
    """(n, e) how far each edge moves in each subject; effects : (e,), set after set."""
    return np.repeat(carries, len(effects) // carries.shape[1], axis=1) * effects


def truths(edges: np.ndarray, carries: np.ndarray, n_rois: int) -> dict[str, Any]:
    """What a cohort remembers of planted edges (e, 2), set after set, and their carriers."""
    sets = np.split(edges, carries.shape[1])
    return {
        "edge_truth": as_matrix(edges, n_rois),
        "edge_sets": np.stack([as_matrix(part, n_rois) for part in sets]),
        "carries": carries,
    }


def ranks_within(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n,) a random rank within each label, as a share in [0, 1)."""
    ranks = np.zeros(len(y))
    for label in np.unique(y):
        count = (y == label).sum()
        ranks[y == label] = rng.permutation(count) / count
    return ranks


# ------------------------------------------------------------------------------ what moves


def shift(matrix: np.ndarray, edges: np.ndarray, shifts: np.ndarray, fisher: bool = False) -> None:
    """Move edges of a correlation matrix by ``shifts`` in Fisher z, in place."""
    source, target = edges.T
    value = matrix[source, target].astype(float)
    moved = value + shifts if fisher else np.tanh(np.arctanh(np.clip(value, -0.999999, 0.999999)) + shifts)
    matrix[source, target] = matrix[target, source] = moved


def assign_sites(
    y: np.ndarray, n_sites: int, confounded: bool | float, rng: np.random.Generator
) -> np.ndarray:
    """(n,) site numbers; shares are kept exactly, up to rounding."""
    sites = np.zeros(len(y), int)
    if confounded is False:
        for label in (0, 1):
            sites[y == label] = rng.permutation((y == label).sum()) % n_sites
        return sites
    share = 0.8 if confounded is True else float(confounded)
    if not 0 <= share <= 1 or n_sites < 2:
        raise ValueError(
            f"confounded must be a share in [0, 1] of at least 2 sites, got {confounded} of {n_sites}."
        )
    for label, first in ((0, 1 - share), (1, share)):
        order = rng.permutation((y == label).sum())
        others = 1 + order % (n_sites - 1)
        sites[y == label] = np.where(order < round(first * len(order)), 0, others)
    return sites
