"""The line from what networks give to the score: predictions that are too near the mean are stretched.

A network with strong dropout that is stopped early predicts too close to the mean, and the mean of several
networks still more so. How much too close is measured on graphs that a network was not trained on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

FEWEST = 10  # subjects with a prediction out of sample, below which nothing is corrected
LEAST, MOST = 0.1, 10.0  # slopes that are believed
DOUBT = 2.0  # squared standard errors that are taken off the squared distance of a slope from 1
LINE_RULE = {"fewest": FEWEST, "least": LEAST, "most": MOST, "doubt": DOUBT}  # tells stored results apart


class ScoreLine(NamedTuple):
    """A line through standardised scores: intercept + slope × what the networks give.

    Parameters
    ----------
    slope : float, default=1.0
        Above 1 where predictions are too near the mean.
    intercept : float, default=0.0
        In standard deviations of the training scores.
    measured : float, default=nan
        The slope of observed scores on predicted ones, out of sample, before it is shrunk towards 1.
    error : float, default=nan
        Standard error of the measured slope.

    Examples
    --------
    >>> from cignn.estimators.score_line import ScoreLine
    >>> ScoreLine(1.2, 0.1).of(0.5)
    0.7
    """

    slope: float = 1.0
    intercept: float = 0.0
    measured: float = math.nan
    error: float = math.nan

    @classmethod
    def read(cls, values: Any) -> ScoreLine:
        """Read what `as_list` gave; None is the line of models that were saved without one."""
        if values is None:
            return cls()
        slope, intercept, measured, error = (math.nan if one is None else float(one) for one in values)
        if not (math.isfinite(slope) and slope > 0 and math.isfinite(intercept)):
            raise ValueError(f"score_line is {slope}, {intercept}")
        return cls(slope, intercept, measured, error)

    def as_list(self) -> list[float | None]:
        """Return the numbers, None for those that are not known."""
        return [one if math.isfinite(one) else None for one in self]

    def of(self, values: np.ndarray | float) -> np.ndarray | float:
        """Return points of the line."""
        return self.intercept + self.slope * values


def fit_line(scores: np.ndarray, predictions: np.ndarray, n_subjects: int) -> ScoreLine:
    """Fit the line to predictions of graphs by networks that were not trained on them.

    A measured slope b with standard error s becomes 1 + (b − 1) max(0, 1 − 2 s² / (b − 1)²), as estimates of
    James and Stein do: what may be chance is not corrected, what is clear is corrected almost whole. The
    offset of the means is treated alike. Where networks of an ensemble have validation graphs of their own,
    most graphs are predicted by one of them. The mean of all varies less, and the slope errs towards 1.

    scores : (g,) standardised. predictions : (g,) standardised, out of sample. n_subjects : whose graphs
    these are; scans of one subject count once.
    """
    if n_subjects < FEWEST:
        return ScoreLine()
    centre, offset = float(predictions.mean()), float((scores - predictions).mean())
    x, y = predictions - centre, scores - scores.mean()
    variance = float((x**2).mean())
    if variance < 1e-12:
        return ScoreLine()
    measured = float((x * y).mean()) / variance
    noise = float(((y - measured * x) ** 2).mean()) / (n_subjects - 2)
    error = math.sqrt(noise / variance)
    slope = min(max(1 + _doubted(measured - 1, error), LEAST), MOST)
    intercept = centre * (1 - slope) + _doubted(offset, math.sqrt(noise))
    return ScoreLine(slope, intercept, measured, error)


def _doubted(value: float, error: float) -> float:
    """A value shrunk towards 0 by what may be chance."""
    return value * max(0.0, 1 - DOUBT * error**2 / value**2) if value else 0.0
