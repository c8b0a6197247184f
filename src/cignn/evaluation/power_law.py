"""Power laws of learning curves: score = a − b n^(−c), with what resampled splits say of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RATES = np.linspace(0.05, 2.0, 79)  # candidates of c
CLEAR = 0.005  # a gain below this is none


class PowerLaw(NamedTuple):
    """A law score = a − b n^(−c) with b ≥ 0: more subjects never cost.

    Parameters
    ----------
    a : float
        The score that no number of subjects exceeds.
    b : float
        How far the score of one subject would be below it.
    c : float
        The rate at which the distance falls.
    n : ndarray of shape (sizes,)
        Numbers of subjects that the law was fitted to.
    resampled : ndarray of shape (resamples, 3)
        a, b and c of resampled splits.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation.power_law import fit_power_law
    >>> n = np.array([20.0, 40, 80, 160])
    >>> law = fit_power_law(n, np.tile(0.8 - 2.0 / n, (3, 1)), overlap=0.1)
    >>> round(law.a, 2), round(law.c, 2), round(float(law(np.array([320.0]))[0]), 3)
    (0.8, 1.0, 0.794)
    """

    a: float
    b: float
    c: float
    n: np.ndarray
    resampled: np.ndarray

    def __call__(self, n: np.ndarray) -> np.ndarray:
        """(k,) scores with (k,) numbers of subjects."""
        return self.a - self.b * np.asarray(n, float) ** -self.c

    def _draws(self, n: np.ndarray) -> np.ndarray:
        """(resamples, k) scores of the resampled laws."""
        a, b, c = self.resampled.T[:, :, None]
        return a - b * np.asarray(n, float) ** -c

    def interval(self, n: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (k,), of the scores with (k,) numbers of subjects."""
        ends = np.quantile(self._draws(n), [(1 - level) / 2, (1 + level) / 2], axis=0)
        return ends[0], ends[1]

    def gain(self, factor: float = 2.0, level: float = 0.95) -> tuple[float, float, float]:
        """What ``factor`` times as many subjects may bring, and its lower and upper end."""
        sizes = np.array([self.n.max(), factor * self.n.max()])
        draws = np.diff(self._draws(sizes), axis=1)[:, 0]
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        return float(np.diff(self(sizes))[0]), float(low), float(high)

    def words(self, score: float, low: float, chance: float) -> str:
        """Say what twice as many subjects may bring to a score with this lower end of its interval."""
        if not np.isnan(chance) and not np.isnan(low) and low <= chance:
            return (
                f"with all subjects, {score:.3f}, it is not measurably better than guessing ({chance:.3f}): "
                "the curve has nothing to extrapolate."
            )
        twice = 2 * round(self.n.max())
        gain, least, most = self.gain(2.0)
        ends = f"95 % interval {least:+.3f} to {most:+.3f}"
        told = f"twice as many subjects ({twice}) are expected to change {score:.3f} by {gain:+.3f} ({ends})"
        if least > CLEAR:
            return f"{told}: more subjects are worth it, if the law goes on."
        if most < CLEAR:
            return f"{told}: more subjects of this kind will hardly help."
        return f"{told}: whether more subjects help cannot be told from these."


def fit_power_law(
    n: np.ndarray,
    scores: np.ndarray,
    overlap: float,
    best: float = 1.0,
    n_resamples: int = 500,
    random_state: int = 0,
) -> PowerLaw:
    """Fit a power law to mean scores (splits, sizes) by least squares, and again to resampled splits.

    Splits are resampled as a whole, with all their sizes. Their training subjects overlap, so the deviations
    of resampled means are widened by √(1 + k · overlap) for k splits, as the corrected t-test widens its
    standard error; overlap : test scans per training scan. best : the highest score there can be.
    """
    k = len(scores)
    mean = scores.mean(0)
    drawn = np.random.default_rng(random_state).integers(0, k, (n_resamples, k))
    wide = mean + np.sqrt(1 + k * overlap) * (scores[drawn].mean(1) - mean)
    a, b, c = _fitted(n, mean[None], best).T
    return PowerLaw(float(a[0]), float(b[0]), float(c[0]), np.asarray(n, float), _fitted(n, wide, best))


def _fitted(n: np.ndarray, means: np.ndarray, best: float) -> np.ndarray:
    """(r, 3) a, b and c of r curves (r, sizes): for every rate the best a ≤ best and b ≥ 0, then the rate."""
    x = np.asarray(n, float)[None, :] ** -RATES[:, None]  # (rates, sizes)
    centred = x - x.mean(1, keepdims=True)
    y = means[:, None, :]
    b = -(centred * (y - y.mean(-1, keepdims=True))).sum(-1) / (centred**2).sum(-1)
    b = np.maximum(b, 0)
    a = means.mean(-1)[:, None] + b * x.mean(1)
    over = a > best
    b = np.where(over, np.maximum((x * (best - y)).sum(-1) / (x**2).sum(-1), 0), b)
    a = np.where(over, best, a)
    errors = ((a[..., None] - b[..., None] * x - y) ** 2).sum(-1)
    chosen = errors.argmin(1)
    rows = np.arange(len(means))
    return np.stack([a[rows, chosen], b[rows, chosen], RATES[chosen]], axis=1)
