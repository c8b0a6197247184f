"""Readings of a group: one map of the connections from the coefficients of many networks.

Networks of half-samples give coefficients w of every connection. Two linear readings follow from them and
from the covariance Σ of the connections among the subjects:

- *use*, what the decision is made from: (Σ + γ)⁻¹ w, divided by the root of the spread of w over
  half-samples. Training shrinks coefficients along weak modes of the data; this undoes part of it.
- *pattern*, what goes along with the decision: Σ^k w. With k = 1 it is the covariance of each connection with
  the score (Haufe et al. 2014); larger k smooth it along the strong modes of the data.

Where the difference of the classes is sparse the use comes back on other subjects, where it is diffuse the
pattern does. *size* is for classes that no mean tells apart: how much a connection contributes to the right
class, whatever its direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, stats

from cignn.explanations.stability import largest, top_count

READINGS = ("use", "pattern", "size")
RIDGE = 1.25  # γ in mean variances of the modes
SMOOTH = (1.0, 1.5, 2.0)  # exponents of the pattern that are tried
USUAL = 1.5  # where none is chosen
MOST_GRAPHS = 2000  # from which the covariance is estimated
CLEAR = 3.0  # standard deviations above permuted labels from which an agreement counts
# agreements that count where there are no permuted labels; where the use has this overlap, as a share of the
# top connections, it is specific and comes back, and is preferred
LEAST_OVERLAP, LEAST_RHO = 0.1, 0.2


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
    def mean(self) -> float:
        """Mean variance of the modes."""
        return float(self.values.mean()) if len(self.values) else 1.0


class Networks(NamedTuple):
    """What networks say of every connection; rows 2j and 2j + 1 are of disjoint halves of the subjects."""

    coefficients: np.ndarray  # (R, e) log-odds per standard deviation
    sizes: np.ndarray  # (R, e) mean contribution to the right class, in the half the network was trained on
    permutation: np.ndarray  # (R,) number of the permutation of the labels, −1 for the true ones


class Agreement(NamedTuple):
    """How well maps of disjoint halves agree: the mean over pairs, and that of every permutation."""

    value: float
    null: np.ndarray  # (P,)
    spread: float  # expected of the value under permuted labels; 0 where they are too few
    least: float  # from which it counts where there are no permuted labels

    @classmethod
    def of(cls, pairs: np.ndarray, permutation: np.ndarray, least: float) -> Agreement:
        """Summarise agreements of pairs (R / 2,); permutation : (R / 2,) as in `Networks`."""
        true = pairs[permutation < 0]
        groups = [pairs[permutation == i] for i in np.unique(permutation[permutation >= 0])]
        null = np.array([group.mean() for group in groups])
        value = float(true.mean()) if len(true) else 0.0
        if len(groups) < 3:
            return cls(value, null, 0.0, least)
        # the value is a mean of more pairs than those of permutations
        several = [group.var(ddof=1) for group in groups if len(group) > 1]
        own, m = float(np.mean(several)) if several else 0.0, np.mean([len(group) for group in groups])
        shared = max(null.var(ddof=1) - own / m, 0.0)
        spread = max(np.sqrt(shared + own / max(len(true), 1)), null.std(ddof=1) / 2)
        return cls(value, null, float(spread), least)

    @property
    def z(self) -> float:
        """Standard deviations above permuted labels."""
        if len(self.null) < 3:
            return CLEAR * self.value / self.least
        return (self.value - float(self.null.mean())) / max(self.spread, 1e-9)

    @property
    def clear(self) -> bool:
        """Whether the agreement is beyond that of permuted labels."""
        return self.z > CLEAR

    def words(self, form: str) -> str:
        """Return the value beside that of permuted labels."""
        beside = ""
        if len(self.null) >= 3:
            beside = f" ({self.null.mean():{form}} ± {self.spread:{form}} with permuted labels)"
        return f"{self.value:{form}}{beside}"


class Reading(NamedTuple):
    """One map with those of half-samples and of permuted labels."""

    name: str
    values: np.ndarray  # (e,)
    halves: np.ndarray  # (R, e)
    null: np.ndarray  # (P, e), scaled to the spread of a map of R networks
    common: Agreement  # number of top connections that halves share with the same sign, less the others
    rho: Agreement  # rank correlation


class Chosen(NamedTuple):
    """The reading that is the map, both linear ones, and why."""

    reading: Reading
    use: Reading
    pattern: Reading
    reason: str


def choose(networks: Networks, modes: Modes, wanted: str = "auto") -> Chosen:
    """Choose the reading that comes back on other subjects.

    Complementary halves of the subjects decide. The use is chosen where a tenth of its top connections
    returns on the other half; else the pattern where it agrees between the halves clearly more than with
    permuted labels, by correlation and top connections together, smoothed so that most of them are shared.
    Where neither returns but the size does, that is chosen; else the use.
    """
    w, permutation = networks.coefficients, networks.permutation
    sharpened = modes.power(w, -1.0, RIDGE * modes.mean) / _root_spread(w[permutation < 0])
    use = _read("use", sharpened * (w != 0), permutation, compared=w)  # of sparse models most are not in use
    patterns = [_read("pattern", modes.power(w, exponent), permutation) for exponent in SMOOTH]
    smoothest = max(patterns, key=lambda one: one.common.value)
    plain, k = patterns[0], top_count(w.shape[1])
    sparse = use.common.clear and use.common.value >= LEAST_OVERLAP * k
    both = np.array([plain.rho.z, plain.common.z])
    returns = both.mean() > CLEAR and both.min() > CLEAR / 2
    returns &= smoothest.common.value > use.common.value
    diffuse = returns and not sparse
    pattern = smoothest if diffuse else patterns[SMOOTH.index(USUAL)]
    size = _read("size", networks.sizes, permutation)
    direction, permuted = (np.where(maps < 0, -1.0, 1.0) for maps in (use.values, use.null))
    size = size._replace(
        values=size.values * direction, halves=size.halves * direction, null=size.null * permuted
    )
    if wanted != "auto":
        reading = {"use": use, "pattern": pattern, "size": size}[wanted]
        return Chosen(reading, use, pattern, "This reading was asked for.")
    reading = use
    if diffuse:
        reading = pattern
    elif size.common.clear and not use.common.clear:
        reading = size
    return Chosen(reading, use, pattern, _reason(reading, use, patterns[0], size))


def _root_spread(w: np.ndarray) -> np.ndarray:
    """(e,) root of the standard deviation of coefficients (R, e); the median for those that are always 0."""
    variance = w.var(0)
    spread = np.sqrt(np.sqrt(np.maximum(variance, 1e-30)))
    spread = np.maximum(spread, 1e-3 * max(spread.max(initial=0.0), 1e-12))
    never = (variance == 0) & ~w.any(0)
    return np.where(never, np.median(spread[~never]), spread) if never.any() and not never.all() else spread


def _read(
    name: str, maps: np.ndarray, permutation: np.ndarray, compared: np.ndarray | None = None
) -> Reading:
    """Gather the maps (R, e) of networks; compared : other maps by which halves are compared."""
    compared = maps if compared is None else compared
    halves = maps[permutation < 0]
    groups = [maps[permutation == i] for i in np.unique(permutation[permutation >= 0])]
    null = np.array([group.mean(0) for group in groups]).reshape(len(groups), maps.shape[1])
    of_pair = permutation[::2]
    k = top_count(maps.shape[1])
    return Reading(
        name,
        halves.mean(0),
        compared[permutation < 0],
        null * _shrink(groups, null, len(halves)),
        Agreement.of(overlaps(compared), of_pair, LEAST_OVERLAP * k),
        Agreement.of(rank_correlations(compared), of_pair, LEAST_RHO),
    )


def _shrink(groups: list[np.ndarray], null: np.ndarray, n: int) -> float:
    """Factor that gives means of few networks the spread of means of n.

    Networks of complementary halves err in opposite directions, so that pairs are what is independent. A mean
    of m pairs varies by what its subjects share, τ², and by σ² / m of the pairs' own.
    """
    if len(groups) < 2 or min(map(len, groups)) < 4:
        return 1.0
    pairs = [(group[::2] + group[1::2]) / 2 for group in groups]
    own = np.mean([pair.var(0, ddof=1).mean() for pair in pairs])
    m = np.mean([len(pair) for pair in pairs])
    total = float((null**2).mean())
    shared = max(total - own / m, 0.0)
    return float(np.sqrt((shared + own / max(n / 2, 1)) / max(shared + own / m, 1e-300)))


def overlaps(maps: np.ndarray) -> np.ndarray:
    """(R / 2,) top connections that maps 2j and 2j + 1 share with the same sign, less those with another."""
    marked = np.where(largest(maps, top_count(maps.shape[1])), np.sign(maps), 0.0)
    return (marked[::2] * marked[1::2]).sum(1)


def rank_correlations(maps: np.ndarray) -> np.ndarray:
    """(R / 2,) Spearman's correlations of maps 2j and 2j + 1."""
    ranks = stats.rankdata(maps, axis=1)
    ranks -= ranks.mean(1, keepdims=True)
    sizes = np.sqrt((ranks**2).sum(1))
    return (ranks[::2] * ranks[1::2]).sum(1) / np.maximum(sizes[::2] * sizes[1::2], 1e-12)


def _reason(reading: Reading, use: Reading, pattern: Reading, size: Reading) -> str:
    """Say why a reading was chosen, in one sentence."""
    k = top_count(len(use.values))
    diffuse = f"patterns of disjoint halves of the subjects correlate by {pattern.rho.words('.2f')}"
    sparse = f"of the top {k} connections in use they share {use.common.words('.1f')}"
    if reading.name == "size":
        return (
            f"By size, disjoint halves of the subjects share {size.common.words('.1f')} of their top {k} "
            f"connections; where the direction counts, no more than by chance ({use.common.words('.1f')})."
        )
    if reading.name == "use" and not use.common.clear:
        return f"No reading comes back on other subjects: {diffuse}; {sparse}."
    return f"{diffuse[0].upper()}{diffuse[1:]}; {sparse}."
