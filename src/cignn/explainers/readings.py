"""Readings of a group: one map of the connections from the coefficients of many networks.

Networks of half-samples give coefficients w of every connection. Two linear readings follow from them and
from the covariance Σ of the connections among the subjects:

- *use*, what the decision is made from: (Σ + γ)^(−3/4) w. Training shrinks coefficients along weak modes of
  the data; this undoes part of it.
- *pattern*, what goes along with the decision: Σ^k w. With k = 1 it is the covariance of each connection with
  the score (Haufe et al. 2014); larger k smooth it along the strong modes of the data.

Where the difference of the classes is sparse the use comes back on other subjects, where it is diffuse the
pattern does. *size* is for classes that no mean tells apart: how much a connection contributes to the right
class, whatever its direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from cignn.explanations.stability import largest, top_count

READINGS = ("use", "pattern", "size")
SHARPEN = -0.75
SMOOTH = (1.0, 1.5, 2.0)  # exponents of the pattern that are tried
USUAL = 1.5  # where none is chosen
MOST_GRAPHS = 2000  # from which the covariance is estimated
CLEAR = 2.0  # standard deviations above permuted labels from which an overlap counts
LEAST_OVERLAP = 0.1  # of the top connections, where there are no permuted labels


class Modes(NamedTuple):
    """Σ, the correlations of connections among subjects, by its modes."""

    values: np.ndarray  # (m,) variances along the modes, positive
    vectors: np.ndarray  # (m, e)

    @classmethod
    def of(cls, x: np.ndarray) -> Modes:
        """Find the modes of connections x (g, e)."""
        if len(x) > MOST_GRAPHS:
            x = x[np.linspace(0, len(x) - 1, MOST_GRAPHS).round().astype(int)]
        z = x - x.mean(0, dtype=np.float64)
        spread = z.std(0)
        z = np.divide(z, spread, out=np.zeros_like(z), where=spread > 1e-7)
        few = len(z) <= z.shape[1]
        values, modes = linalg.eigh(z @ z.T if few else z.T @ z)
        kept = values > 1e-6 * max(values[-1], 1e-12)
        values, modes = values[kept], modes[:, kept]
        vectors = (modes.T @ z) / np.sqrt(values)[:, None] if few else modes.T
        return cls(values / len(z), vectors)

    def power(self, maps: np.ndarray, exponent: float, ridge: float = 0.0) -> np.ndarray:
        """(Σ + ridge)^exponent of maps (..., e); without a ridge, within the modes."""
        along = maps @ self.vectors.T
        new = (along * (self.values + ridge) ** exponent) @ self.vectors
        return new + (maps - along @ self.vectors) * ridge**exponent if ridge else new

    @property
    def ridge(self) -> float:
        """γ, the mean variance of the modes."""
        return float(self.values.mean()) if len(self.values) else 1.0


class Networks(NamedTuple):
    """What networks say of every connection; rows 2j and 2j + 1 are of disjoint halves of the subjects."""

    coefficients: np.ndarray  # (R, e) log-odds per standard deviation
    sizes: np.ndarray  # (R, e) mean contribution to the right class, in the half the network was trained on
    permutation: np.ndarray  # (R,) number of the permutation of the labels, −1 for the true ones

    def part(self, rows: np.ndarray) -> Networks:
        """Some of the networks."""
        return Networks(*(one[rows] for one in self))


class Reading(NamedTuple):
    """One map with those of half-samples and of permuted labels."""

    name: str
    values: np.ndarray  # (e,)
    halves: np.ndarray  # (R, e)
    null: np.ndarray  # (P, e), scaled to the spread of a map of R networks
    overlap: float  # mean number of top connections that disjoint halves share, with the same sign
    null_overlaps: np.ndarray  # (P,) the same for permuted labels

    @property
    def clear(self) -> bool:
        """Whether the overlap is beyond that of permuted labels."""
        if len(self.null_overlaps) < 3:
            return self.overlap > LEAST_OVERLAP * top_count(len(self.values))
        return bool(self.overlap > self.null_overlaps.mean() + CLEAR * self.null_overlaps.std(ddof=1))

    def words(self) -> str:
        """Return the overlap beside that of permuted labels."""
        beside = ""
        if len(self.null_overlaps) > 1:
            mean, spread = self.null_overlaps.mean(), self.null_overlaps.std(ddof=1)
            beside = f" ({mean:.1f} ± {spread:.1f} with permuted labels)"
        return f"{self.overlap:.1f}{beside}"


class Chosen(NamedTuple):
    """The reading that is the map, both linear ones, and why."""

    reading: Reading
    use: Reading
    pattern: Reading
    reason: str


def choose(networks: Networks, modes: Modes, wanted: str = "auto") -> Chosen:
    """Choose the reading that comes back on other subjects.

    Complementary halves of the subjects decide: the pattern is chosen where its top connections return on the
    other half clearly more often than with permuted labels, and more often than those of the use; where
    neither returns but the size does, that is chosen; else the use.
    """
    true = networks.part(networks.permutation < 0)
    spread = np.sqrt(np.sqrt(np.maximum(true.coefficients.var(0), 1e-30)))  # root of the standard deviation
    spread = np.maximum(spread, 1e-3 * max(spread.max(initial=0.0), 1e-12))
    sharpened = modes.power(networks.coefficients, SHARPEN, modes.ridge)
    use = _read("use", sharpened / spread, networks.permutation)
    patterns = [
        _read("pattern", modes.power(networks.coefficients, k), networks.permutation)
        for k in SMOOTH
    ]  # fmt: skip
    clear = [one for one in patterns if one.clear and one.overlap > use.overlap]
    pattern = max(clear, key=lambda one: one.overlap) if clear else patterns[SMOOTH.index(USUAL)]
    size = _read("size", networks.sizes, networks.permutation)
    direction = np.where(use.values < 0, -1.0, 1.0)
    size = size._replace(values=size.values * direction, halves=size.halves * direction)
    if wanted != "auto":
        reading = {"use": use, "pattern": pattern, "size": size}[wanted]
        return Chosen(reading, use, pattern, "this reading was asked for.")
    reading = pattern if clear else size if size.clear and not use.clear else use
    return Chosen(reading, use, pattern, _reason(reading, use, pattern, size))


def _read(name: str, maps: np.ndarray, permutation: np.ndarray) -> Reading:
    """Gather the maps (R, e) of networks."""
    halves = maps[permutation < 0]
    numbers = np.unique(permutation[permutation >= 0])
    groups = [maps[permutation == i] for i in numbers]
    null = np.array([group.mean(0) for group in groups]).reshape(len(groups), maps.shape[1])
    overlaps = np.array([overlap(group) for group in groups])
    return Reading(
        name, halves.mean(0), halves, null * _shrink(groups, null, len(halves)), overlap(halves), overlaps
    )


def _shrink(groups: list[np.ndarray], null: np.ndarray, n: int) -> float:
    """Factor that gives means of few networks the spread of means of n.

    A mean of m networks varies by what its subjects share, τ², and by σ² / m of the networks' own.
    """
    if len(groups) < 2 or min(map(len, groups)) < 2:
        return 1.0
    own = np.mean([group.var(0, ddof=1).mean() for group in groups])
    m = np.mean([len(group) for group in groups])
    total = float((null**2).mean())
    shared = max(total - own / m, 0.0)
    return float(np.sqrt((shared + own / max(n, 1)) / max(shared + own / m, 1e-300)))


def overlap(halves: np.ndarray) -> float:
    """Mean number of top connections that maps 2j and 2j + 1 share with the same sign, less the others."""
    if len(halves) < 2:
        return 0.0
    k = top_count(halves.shape[1])
    marked = np.where(largest(halves, k), np.sign(halves), 0.0)
    return float((marked[::2] * marked[1::2]).sum(1).mean())


def _reason(reading: Reading, use: Reading, pattern: Reading, size: Reading) -> str:
    """Say why a reading was chosen, in one sentence."""
    k = top_count(len(use.values))
    shared = f"of the top {k} connections, disjoint halves of the subjects share"
    if reading.name == "pattern":
        return f"{shared} {pattern.words()} in the pattern and {use.words()} in the use."
    if reading.name == "size":
        return (
            f"{shared} {size.words()} by size, and no more than by chance where the direction counts: "
            f"{use.words()}."
        )
    if use.clear:
        return f"{shared} {use.words()} in the use and {pattern.words()} in the pattern."
    return f"no reading comes back on other subjects; {shared} {use.words()} in the use."
