"""Connections planted in a cohort, and who carries them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from cignn._arrays import upper_pairs
from cignn._checks import whole
from cignn._random import RandomState, as_generator
from cignn.datasets.cohort import Cohort
from cignn.datasets.truth import as_matrix

SHRINKAGE = 0.1  # towards no correlation, of measured matrices, most of which are nearly singular
_LARGEST = 0.999  # correlation


def plant_edges(
    cohort: Cohort,
    n_edges: int = 40,
    effect: float = 0.3,
    *,
    affected: float = 1.0,
    subtypes: int = 1,
    either_direction: bool = False,
    direct: bool = False,
    n_sites: int = 3,
    site_effect: float = 0.0,
    n_site_edges: int = 40,
    confounded: bool | float = False,
    score: bool = False,
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
    direct : bool, default=False
        Whether partial correlations move instead of correlations, so that other correlations follow. Only
        the planted edges are true; those that follow by at least half as much are in ``induced_truth``.
        Partial correlations of the matrix shrunk by a tenth towards no correlation move by ``effect``, less
        where that would make it nearly singular. They are small: with a hundred ROIs 0.02 is a clear effect.
    n_sites : int, default=3
        Number of made-up sites, which replace those of the cohort if ``site_effect`` or ``confounded`` is
        given.
    site_effect : float, default=0.0
        How far the two extreme sites lie apart in Fisher z on each edge with a site effect; 0 is no effect.
    n_site_edges : int, default=40
        Number of edges with a site effect, none of which is planted.
    confounded : bool or float, default=False
        Share of the class y = 1 that comes from the first site, where 1 − that share of the class y = 0 comes
        from it. True means 0.8; with False the sites have nothing to do with the label.
    score : bool, default=False
        Whether y is a score instead of a class, of mean 50 and standard deviation 10: each planted edge moves
        by its effect per standard deviation of the score, in everybody.
    fisher : bool, default=False
        Whether the matrices hold Fisher z values already.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same halves and edges.

    Returns
    -------
    Cohort
        The same subjects with new labels (0 and 1, or scores), the planted edges in ``edge_truth``, those of
        each subject in ``edge_sets`` and ``carries`` and those with a site effect in ``site_truth``.

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
    if cohort.matrices is None:
        raise ValueError("plant_edges needs connectivity matrices; apply Connectivity to the cohort first.")
    if len(cohort) < 2:
        raise ValueError(f"plant_edges needs at least 2 subjects, one for each class, got {len(cohort)}.")
    n_site_edges = n_site_edges if site_effect else 0
    check_planting(affected, subtypes, n_sites, n_site_edges)
    most = max(0, cohort.n_rois * (cohort.n_rois - 1) // 2 - n_site_edges) // subtypes
    if not 1 <= n_edges <= most:
        of = f" for each of {subtypes} subtypes" if subtypes > 1 else ""
        of += f" beside {n_site_edges} with a site effect" if n_site_edges else ""
        raise ValueError(f"n_edges must lie between 1 and {most}, the pairs of ROIs{of}, got {n_edges}.")
    rng = as_generator(random_state)
    y = rng.permutation(np.arange(len(cohort)) % 2)
    pairs, n_planted = upper_pairs(cohort.n_rois), subtypes * n_edges
    edges = rng.choice(pairs, n_planted + n_site_edges, replace=False, shuffle=False)
    if len(edges) > n_edges:  # the order of the choice is not random
        edges = rng.permutation(edges)
    effects = rng.choice([-1.0, 1.0], n_planted) * effect
    ill = (y == 1) | score
    ill = ill if affected == 1 else ill & (ranks_within(y, rng) < affected)
    carries = draw_carriers(ill, subtypes, either_direction, rng)
    levels = draw_levels(y, rng) if score else np.ones(len(y))
    sites, offsets = None, np.zeros((len(y), 0))
    if site_effect or confounded is not False:
        sites = assign_sites(y, n_sites, confounded, rng)
        offsets = draw_offsets(n_site_edges, n_sites, site_effect, rng)[sites]
    shifts = levels[:, None] * shifts_of(carries, effects)
    plan = Plan(edges, np.concatenate([shifts, offsets], 1), carries, n_planted, direct)
    matrices = np.array(cohort.matrices)
    if not fisher and np.abs(matrices[:, edges[:, 0], edges[:, 1]]).max() > 1 + 1e-4:
        raise ValueError("plant_edges expects correlations within [-1, 1]; pass fisher=True for Fisher z.")
    changes = np.zeros((subtypes, cohort.n_rois, cohort.n_rois))
    for i in np.flatnonzero(plan.shifts.any(1)):
        plan.move(matrices[i], int(i), changes, fisher=fisher, shrinkage=SHRINKAGE)
    known = plan.truths(changes)
    if sites is not None:
        known["sites"] = site_names(sites)
    return cohort._with(matrices=matrices, y=as_score(levels) if score else y, **known)


# -------------------------------------------------------------------------- who carries what


def check_planting(affected: float, subtypes: int, n_sites: int, n_site_edges: int) -> None:
    """Refuse shares and numbers that cannot be."""
    if not 0 <= affected <= 1:
        raise ValueError(f"affected must lie in [0, 1], got {affected}.")
    whole("subtypes", subtypes, 1)
    whole("n_sites", n_sites, 1)
    whole("n_site_edges", n_site_edges, 0)


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


def draw_levels(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n,) standard normal levels of a score, positive where y is 1."""
    return np.abs(rng.standard_normal(len(y))) * np.where(y == 1, 1.0, -1.0)


def as_score(levels: np.ndarray) -> np.ndarray:
    """(n,) levels as scores of mean 50 and standard deviation 10, rounded to a tenth."""
    return np.round(50 + 10 * levels, 1)


def shifts_of(carries: np.ndarray, effects: np.ndarray) -> np.ndarray:
    """(n, e) how far each edge moves in each subject; effects : (e,), set after set."""
    return np.repeat(carries, len(effects) // carries.shape[1], axis=1) * effects


def ranks_within(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n,) a random rank within each label, as a share in [0, 1)."""
    ranks = np.zeros(len(y))
    for label in np.unique(y):
        count = (y == label).sum()
        ranks[y == label] = rng.permutation(count) / count
    return ranks


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


def site_names(sites: np.ndarray) -> np.ndarray:
    """(n,) names of numbered sites."""
    return np.array([f"site-{site + 1}" for site in sites])


def draw_offsets(n_edges: int, n_sites: int, site_effect: float, rng: np.random.Generator) -> np.ndarray:
    """(sites, edges) how far each site moves each edge, the extreme ones ``site_effect`` apart."""
    levels = np.linspace(-0.5, 0.5, n_sites) if n_sites > 1 else np.zeros(1)
    return rng.permuted(np.tile(levels, (n_edges, 1)), axis=1).T * site_effect


# ------------------------------------------------------------------------------ what moves


class Plan(NamedTuple):
    """Which edges move how far in whom."""

    edges: np.ndarray  # (e, 2) the planted ones, set after set, then those with a site effect
    shifts: np.ndarray  # (n, e) in Fisher z
    carries: np.ndarray  # (n, k)
    n_planted: int
    direct: bool  # planted in partial correlations

    def move(
        self, matrix: np.ndarray, i: int, changes: np.ndarray, *, fisher: bool = False, shrinkage: float = 0.0
    ) -> None:
        """Move the edges of subject i in place; ``changes`` (k, R, R) sums those of each set's carriers."""
        first = self.n_planted if self.direct else 0
        if self.direct and self.carries[i].any():
            before = matrix.astype(float) if fisher else _fisher_z(matrix)
            z = _fisher_z(
                _with_partial(np.tanh(before), self.edges[:first], self.shifts[i, :first], shrinkage)
            )
            changes += self.carries[i][:, None, None] * (z - before)
            off = ~np.eye(len(matrix), dtype=bool)
            matrix[off] = (z if fisher else np.tanh(z))[off]
        shift(matrix, self.edges[first:], self.shifts[i, first:], fisher)

    def truths(self, changes: np.ndarray) -> dict[str, Any]:
        """What a cohort remembers; changes : (k, R, R) as `move` filled it."""
        n_rois, n_sets = changes.shape[1], self.carries.shape[1]
        planted, of_site = np.split(self.edges, [self.n_planted])
        truth, induced = as_matrix(planted, n_rois), None
        if self.direct:
            count = np.maximum(np.abs(self.carries).sum(0), 1)[:, None, None]
            size = np.abs(changes / count).max(0)
            least = max(np.median(size[truth]) / 2, 1e-6) if len(planted) else np.inf
            induced = (size >= least) & ~truth & ~np.eye(n_rois, dtype=bool)
        return {
            "edge_truth": truth,
            "site_truth": as_matrix(of_site, n_rois) if len(of_site) else None,
            "induced_truth": induced,
            "edge_sets": np.stack([as_matrix(part, n_rois) for part in np.split(planted, n_sets)]),
            "carries": self.carries,
        }


def shift(matrix: np.ndarray, edges: np.ndarray, shifts: np.ndarray, fisher: bool = False) -> None:
    """Move edges of a correlation matrix by ``shifts`` in Fisher z, in place."""
    source, target = edges.T
    value = matrix[source, target].astype(float)
    moved = value + shifts if fisher else np.tanh(np.arctanh(np.clip(value, -0.999999, 0.999999)) + shifts)
    matrix[source, target] = matrix[target, source] = moved


def _fisher_z(correlation: np.ndarray) -> np.ndarray:
    """(R, R) Fisher z, 0 on the diagonal."""
    z = np.arctanh(np.clip(correlation, -_LARGEST, _LARGEST), dtype=float)
    np.fill_diagonal(z, 0)
    return z


def _with_partial(
    correlation: np.ndarray, edges: np.ndarray, shifts: np.ndarray, shrinkage: float
) -> np.ndarray:
    """(R, R) correlations whose partial correlations differ by ``shifts`` in Fisher z on these edges alone.

    Both sets of partial correlations are those of the matrices shrunk towards no correlation. Shifts that
    would bring the matrix more than half the way to a singular one are all scaled down to that.
    """
    shrunk = (1 - shrinkage) * correlation
    np.fill_diagonal(shrunk, 1)
    precision = np.linalg.inv(shrunk)
    scale = np.sqrt(np.diag(precision))
    precision /= scale * scale[:, None]
    source, target = edges.T
    value = -precision[source, target]
    change = np.zeros_like(precision)
    change[source, target] = change[target, source] = value - np.tanh(np.arctanh(value) + shifts)
    try:
        lowest = eigh(change, precision, eigvals_only=True, subset_by_index=[0, 0])[0]  # -1 is singular
    except np.linalg.LinAlgError:
        raise ValueError(
            "direct=True needs matrices that are correlations of series (positive semi-definite)."
        ) from None
    precision += change * min(1.0, 0.5 / max(-lowest, 1e-12))
    moved = np.linalg.inv(precision)
    scale = np.sqrt(np.diag(moved))
    return correlation + (moved / scale / scale[:, None] - shrunk) / (1 - shrinkage)
