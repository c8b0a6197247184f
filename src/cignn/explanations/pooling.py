"""Pool a graph's evidence over edges whose contributions go together in a class.

One edge of one graph is mostly noise. Where edges go together in the graphs of a class, such as those of a
subtype, all of them tell what each of them is: contributions are taken as a sum of a signal, whose
covariance S is what the class has beyond the others, and of noise, whose covariance N is that of the others.
The expected signal S (S + N)⁻¹ c takes their place (Wiener's filter). Beside it the noise of all other edges
would look large: they count by the share of their squares that is no noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SCREENED = 100  # edges among which those that go together are sought: the largest excess of squares
MODES = 4  # at the most
SHRINKAGE = 0.3  # of the covariances of noise between edges
FAR = 4.0  # standard deviations of the others beyond which an edge counts no more
LEAST_RATIO = 4.0  # of mean squares, class to others, along a mode in graphs that it was not made from
# of an edge's excess, or of a quarter of its noise, that the modes explain: edges below are left as they are
LEAST_SHARE, LEAST_EXCESS = 0.5, 0.25
FEWEST = 10  # graphs in either half of the class and of the others, below which nothing is pooled


class Pool(NamedTuple):
    """Edges whose contributions go together, and the filter of their contributions."""

    edges: np.ndarray  # (m,), edges that are read
    pooled: np.ndarray  # (m,), bool: edges that are replaced
    filter: np.ndarray  # (m, m)
    mean: np.ndarray  # (e,), of the contributions of the others
    std: np.ndarray  # (e,)
    reliability: np.ndarray  # (e,), in [0, 1]: share of the class's squares that exceeds those of the others

    @property
    def n_edges(self) -> int:
        """Number of edges that are replaced."""
        return int(self.pooled.sum())

    def apply(self, contributions: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Return pooled contributions (g, e); their sums stay as they are. present : (g, e), bool.

        What the filter takes from a graph, noise, is shared by all of its edges, in proportion to ``std``.
        """
        if not self.pooled.any():
            return contributions
        at = self.edges
        standard = (contributions[:, at] - self.mean[at]) / self.std[at]
        signal = self.mean[at] + self.std[at] * (standard @ self.filter.T)
        found = self.reliability * contributions
        found[:, at[self.pooled]] = signal[:, self.pooled]
        found *= present
        rest = contributions.sum(1, dtype=np.float64) - found.sum(1)
        shares = self.std * present
        return found + rest[:, None] * shares / np.maximum(shares.sum(1, keepdims=True), 1e-300)


def find_pool(contributions: np.ndarray, own: np.ndarray, halves: np.ndarray) -> Pool:
    """Find the edges whose contributions go together in a class.

    contributions : (g, e), towards the class; own : (g,), bool, its graphs; halves : (g,), bool, a mode of
    one half is used only if it is one of the other half too.
    """
    c = np.asarray(contributions, np.float64)
    mean, std = c[~own].mean(0), c[~own].std(0)
    std = np.where(std > 0, std, 1e-12)
    nothing = Pool(np.empty(0, int), np.empty(0, bool), np.empty((0, 0)), mean, std, np.ones(len(std)))
    if min((part & half).sum() for part in (own, ~own) for half in (halves, ~halves)) < FEWEST:
        return nothing
    standard = np.clip((c - mean) / std, -FAR, FAR)
    squares = [(standard[part] ** 2).mean(0) for part in (own, ~own)]
    edges = np.argsort(-(squares[0] - squares[1]) * std**2, kind="stable")[:SCREENED]
    standard = standard[:, edges]
    found = _modes(standard, own)
    used = _returning(standard, own, halves)
    if not used.any():
        return nothing
    loadings = found.loadings[:, : len(used)][:, used]
    signal = (loadings * np.maximum(found.excess[: len(used)][used], 0)) @ loadings.T
    noise = np.diag(found.noise)
    excess = np.maximum(np.diag(found.second) - noise, LEAST_EXCESS * noise)
    pooled = np.diag(signal) / excess > LEAST_SHARE
    filtered = np.linalg.solve(signal + found.noise, signal).T
    reliability = 1 - np.minimum(squares[1] / np.maximum(squares[0], 1e-12), 1)
    return Pool(edges, pooled, filtered, mean, std, reliability)


class _Modes(NamedTuple):
    """Directions in which the class exceeds the others, the largest excess first."""

    second: np.ndarray  # (m, m), second moments of the class about the others' mean
    noise: np.ndarray  # (m, m), those of the others, shrunk
    vectors: np.ndarray  # (m, m), columns: projections on them have mean square 1 in the noise
    loadings: np.ndarray  # (m, m), columns: second − noise = loadings · excess · loadingsᵀ
    excess: np.ndarray  # (m,)


def _modes(standard: np.ndarray, own: np.ndarray) -> _Modes:
    """Modes of excess; standard : (g, m), contributions in standard deviations of the others."""
    second, noise = (standard[part].T @ standard[part] / part.sum() for part in (own, ~own))
    noise = (1 - SHRINKAGE) * noise + SHRINKAGE * np.diag(np.maximum(np.diag(noise), 1e-9))
    values, axes = np.linalg.eigh(noise)
    root = np.sqrt(np.maximum(values, 1e-9))
    whiten = axes / root
    excess, turned = np.linalg.eigh(whiten.T @ second @ whiten - np.eye(len(noise)))
    turned = turned[:, ::-1]
    return _Modes(second, noise, whiten @ turned, (axes * root) @ turned, excess[::-1])


def _returning(standard: np.ndarray, own: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Which of the first modes, up to `MODES`, of each half exceed the others in the other half: bool."""
    ratios = []
    for half in (halves, ~halves):
        vectors = _modes(standard[half], own[half]).vectors[:, :MODES]
        squares = (standard[~half] @ vectors) ** 2
        ratios.append(squares[own[~half]].mean(0) / squares[~own[~half]].mean(0))
    return np.sqrt(ratios[0] * ratios[1]) > LEAST_RATIO
