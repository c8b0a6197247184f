"""Stability selection: how often connections are selected on half-samples, and how many by chance.

Half-samples come in complementary pairs, two disjoint halves of the subjects, as Shah and Samworth propose.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from cignn._checks import choice, number, whole

Assumption = Literal["none", "unimodal", "r-concave"]
ASSUMPTIONS = ("none", "unimodal", "r-concave")
FEW = 100  # connections that count as the top ones of a map; 5 % where a map has fewer than 2000
SHARE = 0.05
GRID = 65  # values of the free parameter of an r-concave distribution tried in each interval


class SelectionFrequencies(NamedTuple):
    """How often each of e connections is selected."""

    single: np.ndarray  # (e,) share of half-samples
    simultaneous: np.ndarray  # (e,) share of pairs in both halves of which it is selected


def top_count(n_connections: int) -> int:
    """Return how many connections count as the top ones of a map: 100, or 5 % where that is fewer."""
    return max(1, min(FEW, int(SHARE * n_connections)))


def largest(maps: np.ndarray, k: int) -> np.ndarray:
    """Mark the k largest absolute values of each map.

    maps : (..., e). Returns (..., e) bool. Of values that tie for the last places none is marked, so never
    more than k are, and no place in the map is preferred.
    """
    size = np.abs(np.asarray(maps, np.float64))
    e = size.shape[-1]
    k = whole("k", k, 0, e)
    if k == e:
        return size > 0
    return size > np.partition(size, e - k - 1, axis=-1)[..., e - k - 1, None]


def selection_frequencies(maps: np.ndarray, k: int) -> SelectionFrequencies:
    """Return how often each connection is among the k of largest absolute value.

    maps : (R, e), R even; rows 2j and 2j + 1 come from disjoint halves of the subjects. The frequencies are
    Π̂ and Π̃ of Shah and Samworth (2013), equations (1) and (4).
    """
    maps = np.asarray(maps, np.float64)
    if maps.ndim != 2 or not len(maps) or len(maps) % 2:
        raise ValueError(
            f"maps must be (R, e) with an even number R of half-samples in complementary pairs, got "
            f"{maps.shape}."
        )
    marked = largest(maps, k)
    return SelectionFrequencies(marked.mean(0), (marked[::2] & marked[1::2]).mean(0))


def false_selection_bound(
    frequency: np.ndarray, k: int, n_connections: int, n_pairs: int, assumption: Assumption = "r-concave"
) -> np.ndarray:
    """Bound the expected number of false selections at each threshold of the selection frequency.

    A connection is false here if it is selected on a half-sample with probability k / e at most, as chance
    would. The bound never exceeds the number of connections.

    Parameters
    ----------
    frequency : array of shape (...)
        Thresholds τ in [0, 1]: connections selected on at least this share of the half-samples are kept.
        A threshold between two possible frequencies counts as the next larger one.
    k : int
        Number of connections selected on each half-sample.
    n_connections : int
        Number e of connections.
    n_pairs : int
        Number B of complementary pairs; there are 2B half-samples.
    assumption : {"none", "unimodal", "r-concave"}, default="r-concave"
        What is assumed about the frequencies of false connections. "none" is k² / ((2τ − 1) e), for τ > 1/2.
        "unimodal" assumes that the simultaneous frequency has one mode. "r-concave" assumes that it is
        −1/2-concave and the frequency itself −1/4-concave; it is also defined for τ ≤ 1/2.

    Returns
    -------
    ndarray of shape (...)
        The bounds.

    References
    ----------
    N. Meinshausen and P. Bühlmann, Stability selection, JRSS B 72, 2010, theorem 1: "none". R. D. Shah and
    R. J. Samworth, Variable selection with error control: another look at stability selection, JRSS B 75,
    2013: theorem 1 ("none", without exchangeability), theorem 2 ("unimodal"), equation (8) ("r-concave").
    """
    choice("assumption", assumption, ASSUMPTIONS)
    e = whole("n_connections", n_connections, 1)
    k, pairs = whole("k", k, 1, e), whole("n_pairs", n_pairs, 1)
    steps = np.ceil(np.round(np.asarray(frequency, np.float64) * 2 * pairs, 6)).astype(np.int64)
    if steps.size and not (steps.min() >= 0 and steps.max() <= 2 * pairs):
        raise ValueError("frequency must lie in [0, 1].")
    tau, theta = steps / (2 * pairs), k / e
    with np.errstate(divide="ignore"):
        worst = np.where(tau > 0.5, theta / (2 * tau - 1), np.inf)
    if assumption == "none":
        share = theta * worst
    elif assumption == "unimodal":
        share = theta * np.minimum(worst, _unimodal(tau, theta, pairs))
    else:
        simultaneous = r_concave_tails(theta**2, pairs, -0.5)
        single = r_concave_tails(theta, 2 * pairs, -0.25)
        share = np.minimum(simultaneous[np.maximum(steps - pairs, 0)], single[steps])
    return np.minimum(share, 1.0) * e


def _unimodal(tau: np.ndarray, theta: float, pairs: int) -> np.ndarray:
    """θ C(τ, B) of theorem 2 of Shah and Samworth; infinite where it makes no statement."""
    low = 1 / (2 * np.maximum(2 * tau - 1 - 1 / (2 * pairs), 1e-12))
    high = 4 * (1 - tau + 1 / (2 * pairs)) / (1 + 1 / pairs)
    least = 0.5 + min(theta**2, 1 / (2 * pairs) + 0.75 * theta**2)
    known = (tau > least) & (theta <= 3**-0.5) & (tau >= 0.5 + 1 / pairs)
    return np.where(known, theta * np.where(tau <= 0.75, low, high), np.inf)


@lru_cache(32)
def r_concave_tails(mean: float, n_steps: int, r: float) -> np.ndarray:
    """Return the largest P(X ≥ t / B) of r-concave X on {0, 1/B, …, 1} of a given mean, for t = 0 … B.

    mean : η, the largest mean. n_steps : B. r : negative order of concavity. Returns (B + 1,).

    The extreme distribution is proportional to (a + i)^(1/r) on 0 … m and has what is left of its mass at
    m + 1; a lies between the values for which the mean is reached without that mass on 0 … m + 1 and on
    0 … m (Shah and Samworth 2013, appendix A.4). All a on a fine grid are tried.
    """
    number("mean", mean, 0, 1, include_high=True)
    tails = np.ones(n_steps + 1)
    eta = mean * n_steps
    first = int(np.ceil(2 * eta)) + 1
    if first >= n_steps:
        return tails
    steps = np.arange(n_steps + 1, dtype=np.float64)
    tails[first:] = 0.0
    lengths = np.arange(first, n_steps + 1)
    a = _reaching(eta, lengths, 1 / r)
    for j in range(len(lengths) - 1):
        m = lengths[j]
        grid = np.geomspace(a[j + 1], a[j], GRID)
        weights = (grid[:, None] + steps[None, : m + 1]) ** (1 / r)
        scale = (m + 1 - eta) / (weights @ (m + 1 - steps[: m + 1]))
        below = scale[:, None] * np.cumsum(weights, axis=1)  # P(X ≤ t - 1) at t = 1 … m + 1
        reached = 1 - below.min(0)
        tails[first : m + 2] = np.maximum(tails[first : m + 2], reached[first - 1 : m + 1])
    tails.flags.writeable = False  # the cache hands out the same array
    return tails


def _reaching(eta: float, lengths: np.ndarray, power: float) -> np.ndarray:
    """(m,) a for which weights (a + i)^power on 0 … m have the mean eta, for each m."""
    low, high = np.full(len(lengths), -30.0), np.full(len(lengths), 30.0)
    steps = np.arange(lengths[-1] + 1, dtype=np.float64)
    inside = steps <= lengths[:, None]
    for _ in range(60):
        middle = (low + high) / 2
        weights = np.where(inside, (np.exp(middle)[:, None] + steps) ** power, 0.0)
        above = weights @ steps > eta * weights.sum(1)
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp((low + high) / 2)
