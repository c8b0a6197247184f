"""Simulated cohorts: brain-like correlations in which the edges that make the class or score are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from cignn._arrays import upper_pairs
from cignn._checks import number, whole
from cignn._random import RandomState, as_generator
from cignn.datasets.atlas import Atlas, aal116
from cignn.datasets.cohort import Cohort
from cignn.datasets.planting import (
    SHRINKAGE,
    Plan,
    as_score,
    assign_sites,
    check_planting,
    draw_carriers,
    draw_levels,
    draw_offsets,
    ranks_within,
    shifts_of,
    site_names,
)
from cignn.datasets.series import SeriesStack

DATA = ("series", "matrices")
_NETWORKS = 9
_MILD = 0.8  # edges are planted where the population's Fisher z is smaller: there is room on both sides
_SPREAD = 0.15  # standard deviation of subjects' loadings around the population's
_MOTION_SPREAD = 0.4  # standard deviation of the logarithm of framewise displacement
_LEAST = 1e-3  # smallest eigenvalue of a covariance that had to be repaired


class _Brain(NamedTuple):
    """What the population shares."""

    loadings: np.ndarray  # (R, factors)
    unique: np.ndarray  # (R,) variance of each ROI that no other shares
    atlas: Atlas


def make_cohort(
    n_subjects: int = 200,
    n_rois: int = 116,
    *,
    n_edges: int = 40,
    effect: float = 0.3,
    affected: float = 1.0,
    subtypes: int = 1,
    either_direction: bool = False,
    direct: bool = False,
    n_sites: int = 3,
    site_effect: float = 0.0,
    n_site_edges: int = 40,
    confounded: bool | float = False,
    motion: float = 0.0,
    score: bool = False,
    motion_shift: float = 0.0,
    data: str = "series",
    lengths: tuple[int, int] = (120, 240),
    n_scans: int = 1,
    reliability: float = 0.6,
    random_state: RandomState = None,
) -> Cohort:
    """Simulate controls (y = 0) and as many patients (y = 1), who differ in known connections.

    ROIs belong to nine networks and load on a global, a network and a few spatial factors; every subject
    has loadings of their own, and series are autocorrelated and differ in length. In patients each planted
    edge is moved in Fisher z by +effect or −effect, the sign drawn once per edge (hyper- or
    hypo-connectivity).

    Parameters
    ----------
    n_subjects : int, default=200
        Number of subjects.
    n_rois : int, default=116
        Number of ROIs; 116 are the AAL's, with its names, coordinates and systems.
    n_edges : int, default=40
        Number of planted edges; with ``subtypes``, of each.
    effect : float, default=0.3
        How far planted edges move in Fisher z. In a few hundred subjects a t-test finds all of them at 0.15,
        most at 0.08 and less than half at 0.05.
    affected : float, default=1.0
        Share of patients in whom they move, in [0, 1]; the other patients are like controls.
    subtypes : int, default=1
        Number of disjoint sets of edges; each affected patient carries one of them, all equally often.
    either_direction : bool, default=False
        Whether a patient's set moves up or down as one: in half of its carriers as drawn, in the others the
        other way, so that no mean differs between the classes.
    direct : bool, default=False
        Whether partial correlations move instead of correlations, so that other correlations follow. Only
        the planted edges are true; those that follow by at least half as much are in ``induced_truth``. An
        effect that would make a subject's matrix nearly singular is smaller there. With ``data="matrices"``
        the partial correlations are those of the matrix shrunk by a tenth towards no correlation.
    n_sites : int, default=3
        Number of sites, equally frequent unless ``confounded``.
    site_effect : float, default=0.0
        How far the two extreme sites lie apart in Fisher z on each edge with a site effect; 0 is no effect.
    n_site_edges : int, default=40
        Number of edges with a site effect, none of which is planted.
    confounded : bool or float, default=False
        Share of the patients who come from the first site, where 1 − that share of the controls come from
        it. True means 0.8; with False the sites have nothing to do with the label.
    motion : float, default=0.0
        Strength of motion-like artefacts: in moving frames all ROIs jump together, the more so the larger a
        subject's mean framewise displacement; 0 is none, 1 a visible one.
    score : bool, default=False
        Whether y is a score instead of a class, of mean 50 and standard deviation 10: each planted edge moves
        by its effect per standard deviation of the score, and everybody counts as a patient.
    motion_shift : float, default=0.0
        How much more patients move than controls: standard deviations between the means of the logarithm of
        their displacement. With ``motion``, a nuisance that follows the label.
    data : {"series", "matrices"}, default="series"
        ROI series, or matrices of their correlations. Planted in matrices, effects are exact; in series they
        pass through a covariance that must stay positive definite, and through sampling.
    lengths : tuple of two int, default=(120, 240)
        Least and largest number of time points, drawn evenly.
    n_scans : int, default=1
        Number of scans of every subject, told apart by the covariate "session". The scans of a subject follow
        each other.
    reliability : float, default=0.6
        With several scans, the share of the variance of a subject's loadings that all of its scans have in
        common, in [0, 1]: the intraclass correlation of connections without a planted effect in endless
        series. Sampling lowers it in short ones.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same cohort.

    Returns
    -------
    Cohort
        The subjects, with ``edge_truth`` and, with a site effect, ``site_truth``, each (R, R) bool;
        ``edge_sets`` and ``carries`` tell who carries what. The covariates age, sex and, without
        ``motion_shift``, mean_fd have nothing to do with the label.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> make_cohort(20, n_rois=10, n_edges=4, data="matrices", random_state=0)
    Cohort(20 subjects, 10 ROIs, matrices, labels 0: 10, 1: 10, 3 sites)
    """
    n_site_edges = n_site_edges if site_effect else 0
    check_planting(affected, subtypes, n_sites, n_site_edges)
    _check(n_subjects, n_rois, n_edges, data, lengths)
    whole("n_scans", n_scans, 1)
    number("reliability", reliability, 0, 1, include_low=True, include_high=True)
    rng = as_generator(random_state)
    brain = _brain(n_rois, rng)
    y = rng.permutation(np.arange(n_subjects) % 2)
    sites = assign_sites(y, n_sites, confounded, rng)
    n_planted = subtypes * n_edges
    edges = _choose_edges(brain, n_planted, n_site_edges, rng)

    effects = rng.choice([-1.0, 1.0], n_planted) * effect
    ill = ((y == 1) | score) & (ranks_within(y, rng) < affected)
    carries = draw_carriers(ill, subtypes, either_direction, rng)
    levels = draw_levels(y, rng) if score else np.ones(n_subjects)
    offsets = draw_offsets(n_site_edges, n_sites, site_effect, rng)[sites]
    shifts = np.concatenate([levels[:, None] * shifts_of(carries, effects), offsets], 1)
    changes = np.zeros((subtypes, n_rois, n_rois))

    table = _covariates(n_subjects, rng)
    table["mean_fd"] = (table["mean_fd"] * np.exp(_MOTION_SPREAD * motion_shift * y)).round(3)
    n_frames = rng.integers(lengths[0], lengths[1] + 1, n_subjects)
    owner = np.repeat(np.arange(n_subjects), n_scans)  # of every scan
    plan = Plan(edges, shifts[owner], carries[owner], n_planted, direct)
    n_frames, table = n_frames[owner], table.iloc[owner].reset_index(drop=True)
    if n_scans > 1:
        table["session"] = np.tile(np.arange(1, n_scans + 1), n_subjects)
    stack = SeriesStack(np.empty((n_frames.sum(), n_rois), np.float32), n_frames)
    for i, series in enumerate(stack):
        if i % n_scans == 0:
            own = _own_loadings(brain, rng)
        correlation = _correlation(_loadings_now(brain, own, n_scans, reliability, rng), brain.unique)
        if data == "series":
            plan.move(correlation, i, changes)
        series[:] = _draw_series(correlation, n_frames[i], rng)
        if motion:
            series += _jumps(n_frames[i], n_rois, motion * table["mean_fd"][i] / 0.2, rng)

    target = (as_score(levels) if score else y)[owner]
    rest = {"y": target, "sites": site_names(sites)[owner], "covariates": table, "atlas": brain.atlas}
    rest["subjects"] = [f"sub-{i + 1:04d}" for i in owner]
    if data == "series":
        return Cohort(stack, **rest, **plan.truths(changes))
    matrices = np.stack([np.corrcoef(series, rowvar=False) for series in stack]).astype(np.float32)
    for i, matrix in enumerate(matrices):
        plan.move(matrix, i, changes, shrinkage=SHRINKAGE)
    return Cohort(matrices=matrices, **rest, **plan.truths(changes))


# ------------------------------------------------------------------------ the population


def _brain(n_rois: int, rng: np.random.Generator) -> _Brain:
    """Draw networks, loadings and unique variances."""
    if n_rois == 116:
        atlas = aal116()
    else:
        network = np.arange(n_rois) * min(_NETWORKS, n_rois) // n_rois
        names = [f"ROI-{i:03d}" for i in range(1, n_rois + 1)]
        atlas = Atlas(names, systems=np.array([f"network-{k + 1}" for k in network]))
    systems, network = np.unique(np.asarray(atlas.systems), return_inverse=True)
    loadings = np.zeros((n_rois, 1 + len(systems) + 5))
    loadings[:, 0] = rng.uniform(0.1, 0.5, n_rois)
    loadings[np.arange(n_rois), 1 + network] = rng.uniform(0.5, 0.9, n_rois)
    loadings[:, 1 + len(systems) :] = rng.normal(0, 0.3, (n_rois, 5))
    return _Brain(loadings, rng.uniform(0.6, 0.9, n_rois), atlas)


def _own_loadings(brain: _Brain, rng: np.random.Generator) -> np.ndarray:
    """(R, factors) how far a subject's loadings are from the population's."""
    return rng.normal(0, _SPREAD, brain.loadings.shape)


def _loadings_now(
    brain: _Brain, own: np.ndarray, n_scans: int, reliability: float, rng: np.random.Generator
) -> np.ndarray:
    """(R, factors) loadings of one scan; a share of what makes a subject special changes between scans."""
    if n_scans == 1:
        return brain.loadings + own
    passing = rng.normal(0, _SPREAD, own.shape)
    return brain.loadings + np.sqrt(reliability) * own + np.sqrt(1 - reliability) * passing


def _correlation(loadings: np.ndarray, unique: np.ndarray) -> np.ndarray:
    covariance = loadings @ loadings.T + np.diag(unique)
    scale = np.sqrt(np.diag(covariance))
    return covariance / scale / scale[:, None]


def _choose_edges(brain: _Brain, n_planted: int, n_site_edges: int, rng: np.random.Generator) -> np.ndarray:
    """(e, 2) planted edges, then those with a site effect, no edge twice."""
    pairs = upper_pairs(len(brain.unique))
    population = np.arctanh(_correlation(brain.loadings, brain.unique)[tuple(pairs.T)])
    mild = pairs[np.abs(population) < _MILD]
    total = n_planted + n_site_edges
    if len(mild) < total:
        raise ValueError(
            f"n_edges of all subtypes + n_site_edges must be at most {len(mild)} "
            f"for {len(brain.unique)} ROIs, got {total}."
        )
    return rng.choice(mild, total, replace=False, shuffle=True)


# -------------------------------------------------------------------------- the subjects


def _draw_series(correlation: np.ndarray, n_frames: int, rng: np.random.Generator) -> np.ndarray:
    """(n_frames, R) an AR(1) process, unit variance, with these correlations between ROIs."""
    root = _root(correlation)
    memory = rng.uniform(0.5, 0.8)  # the same for all ROIs, so that correlations stay as they are
    noise = rng.standard_normal((n_frames, len(root))) @ root.T
    noise[1:] *= np.sqrt(1 - memory**2)
    return lfilter([1.0], [1.0, -memory], noise, axis=0)


def _root(correlation: np.ndarray) -> np.ndarray:
    """(R, R) L with L Lᵀ = the correlations, or the nearest ones that a covariance can have."""
    try:
        return np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:  # planted effects need not be possible together
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, _LEAST))
        return root / np.linalg.norm(root, axis=1, keepdims=True)


def _jumps(n_frames: int, n_rois: int, strength: float, rng: np.random.Generator) -> np.ndarray:
    """(n_frames, R) artefacts in which all ROIs jump together, most of them to the same side."""
    moving = rng.random(n_frames) < min(0.5, 0.05 * strength)
    sizes = moving * rng.normal(0, 1 + strength, n_frames)
    return sizes[:, None] * rng.uniform(0.3, 1.0, n_rois)


def _covariates(n: int, rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": rng.uniform(18, 60, n).round(1),
            "sex": rng.choice(["M", "F"], n),
            "mean_fd": rng.lognormal(np.log(0.15), _MOTION_SPREAD, n).round(3),
        }
    )


def _check(
    n_subjects: int,
    n_rois: int,
    n_edges: int,
    data: str,
    lengths: tuple[int, int],
) -> None:
    for name, value, least in (
        ("n_subjects", n_subjects, 2),
        ("n_rois", n_rois, 3),
        ("n_edges", n_edges, 0),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}.")
    if data not in DATA:
        raise ValueError(f"data must be one of {', '.join(DATA)}, got {data!r}.")
    if not 3 <= lengths[0] <= lengths[1]:
        raise ValueError(f"lengths must be (least, largest) with at least 3 time points, got {lengths}.")
