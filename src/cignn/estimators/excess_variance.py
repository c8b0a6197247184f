"""Directions over the edges of aligned graphs along which one class varies more than the others.

A set of edges that moves as one, up in some graphs of a class and down in others, changes no mean. It shows
in the variance: of each edge, and along the direction in which they go together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

SCREENED = 128  # edges among which directions are sought: those whose variances differ most
SHRINKAGE = 3.0  # added to the variance of every edge, whose own is about 1
FAR = 3.0  # standard deviations beyond which an edge counts no more
FEWEST = 10  # graphs of a class in either half, below which nothing is sought
# a direction is used where its size tells the classes of graphs it was not made from: by an area under the
# ROC curve that exceeds chance by more than its error, and clearly that of a linear discriminant
LEAST_AREA, LEAST_GAIN = 0.55, 0.1


class Directions(NamedTuple):
    """Directions over edges, and what sizes of projections tell; the size of p is √(1 + p²) − 1."""

    vectors: np.ndarray  # (k, n_pairs)
    weights: np.ndarray  # (n_classes, k), log-odds per size
    offsets: np.ndarray  # (k,), sizes at which the log-odds are 0


class _HeldOut(NamedTuple):
    """What directions of each half tell of the other."""

    sizes: np.ndarray  # (k, g)
    areas: np.ndarray  # (k,), under the ROC curve
    telling: np.ndarray  # (k,), bool: whether that is enough


class _Candidates(NamedTuple):
    """Directions of one part of the graphs, the most unequal variances first."""

    edges: np.ndarray  # (m,), the edges they are made of
    vectors: np.ndarray  # (k, m), with variance 1 on the side that varies less
    signs: np.ndarray  # (k,), 1 where the class varies more than the others, -1 where less

    def project(self, z: np.ndarray) -> np.ndarray:
        """(k, g) projections of graphs z : (g, n_pairs)."""
        return self.vectors @ z[:, self.edges].T


def excess_variance(
    evidence: np.ndarray, codes: np.ndarray, n_classes: int, halves: np.ndarray, k: int
) -> Directions:
    """Find up to k directions that tell classes apart by the size of the projection, whatever its sign.

    They are made from all graphs, but only where those made from either half of the graphs tell the classes
    of the other half, and more than a linear model does. What is not used is 0.

    evidence : (g, n_pairs), deviations of edges; codes : (g,), class numbers; halves : (g,), bool.
    """
    used = Directions(np.zeros((k, evidence.shape[1])), np.zeros((n_classes, k)), np.zeros(k))
    fewest = min(np.bincount(codes[half], minlength=n_classes).min() for half in (halves, ~halves))
    if fewest < FEWEST:
        return used
    z = np.clip(evidence, -FAR, FAR)
    found: list[tuple[float, int, np.ndarray, np.ndarray]] = []
    for label in range(n_classes) if n_classes > 2 else [1]:
        own = codes == label
        held = _held_out(z, own, halves, min(k, z.shape[1]), both=n_classes == 2)
        if held.telling.any():
            whole = _candidates(z, own, len(held.areas))
            for rank in np.flatnonzero(held.telling):
                vector = np.zeros(z.shape[1])
                vector[whole.edges] = whole.vectors[rank]
                found.append((float(held.areas[rank]), label, vector, held.sizes[rank]))
    for i, (_, label, vector, sizes) in enumerate(sorted(found, key=lambda one: -one[0])[:k]):
        own, rest = sizes[codes == label], sizes[codes != label]
        used.vectors[i] = vector
        used.weights[label, i] = 2 * (own.mean() - rest.mean()) / (own.var() + rest.var())
        used.offsets[i] = (own.mean() + rest.mean()) / 2
    return used


def _candidates(z: np.ndarray, own: np.ndarray, k: int) -> _Candidates:
    """Directions of unequal variance, own : (g,) one class against the others."""
    parts = [z[own] - z[own].mean(0), z[~own] - z[~own].mean(0)]
    spreads = [np.log(np.maximum((part**2).mean(0), 1e-9)) for part in parts]
    edges = _largest(spreads[0] - spreads[1])
    first, second = (_covariance(part[:, edges]) for part in parts)
    values, modes = np.linalg.eigh((first + second) / 2 + SHRINKAGE * np.eye(len(edges)))
    whiten = modes / np.sqrt(values)
    contrasts, axes = np.linalg.eigh(whiten.T @ (first - second) @ whiten)
    order = np.argsort(-np.abs(contrasts), kind="stable")[:k]
    vectors = (whiten @ axes[:, order]).T
    variances = [np.einsum("ke,ef,kf->k", vectors, one, vectors) for one in (first, second)]
    scale = np.sqrt(np.maximum(np.minimum(*variances), 1e-9))
    return _Candidates(edges, vectors / scale[:, None], np.sign(contrasts[order]))


def _discriminant(z: np.ndarray, own: np.ndarray) -> _Candidates:
    """The linear discriminant of one class against the others, among the edges whose means differ most."""
    difference = z[own].mean(0) - z[~own].mean(0)
    edges = _largest(difference)
    within = (_covariance(z[own][:, edges]) + _covariance(z[~own][:, edges])) / 2
    vector = np.linalg.solve(within + SHRINKAGE * np.eye(len(edges)), difference[edges])
    return _Candidates(edges, vector[None], np.ones(1))


def _largest(values: np.ndarray) -> np.ndarray:
    """Numbers of the edges with the largest absolute values, at most `SCREENED`."""
    return np.argsort(-np.abs(values), kind="stable")[:SCREENED]


def _covariance(values: np.ndarray) -> np.ndarray:
    centred = (values - values.mean(0)).astype(float)
    return centred.T @ centred / len(values)


def _held_out(z: np.ndarray, own: np.ndarray, halves: np.ndarray, k: int, both: bool) -> _HeldOut:
    """Try the directions of each half on the other; both : also those along which the class varies less."""
    sizes, areas, signs, linear = np.zeros((k, len(z))), np.zeros((2, k)), np.zeros((2, k)), np.zeros(2)
    for i, half in enumerate((halves, ~halves)):
        found, straight = _candidates(z[half], own[half], k), _discriminant(z[half], own[half])
        sizes[:, ~half] = np.sqrt(1 + found.project(z[~half]) ** 2) - 1
        areas[i] = 0.5 + found.signs * (_area(sizes[:, ~half], own[~half]) - 0.5)
        linear[i] = _area(straight.project(z[~half]), own[~half])[0]
        signs[i] = found.signs
    error = np.sqrt((len(z) + 1) / (12 * own.sum() * (~own).sum()))
    area, wanted = areas.mean(0), (signs[0] == signs[1]) & (both | (signs[0] > 0))
    telling = (area - 2 * error > LEAST_AREA) & (area > linear.mean() + LEAST_GAIN)
    return _HeldOut(sizes, area, telling & wanted)


def _area(values: np.ndarray, own: np.ndarray) -> np.ndarray:
    """(k,) areas under the ROC curve of values (k, g)."""
    n, rest = own.sum(), (~own).sum()
    return (rankdata(values, axis=1)[:, own].sum(1) - n * (n + 1) / 2) / (n * rest)
