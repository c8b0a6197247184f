"""What the paper says in words, judged by our figures and their spread."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from cignn.evaluation.statistics import critical_difference
from cignn.paper.spec import Claim

LEVEL = 0.95
HOLDS, FAILS = "holds", "does not hold"
WITHIN, ONCE, UNKNOWN = "undecided, within the spread,", "undecided, one run has no spread,", "not measured"


class Gap(NamedTuple):
    """How far one figure lies above another, and how far chance alone may take it; NaN where unknown."""

    difference: float
    margin: float


def judge(claim: Claim, ours: pd.DataFrame) -> str:
    """Say where a claim of the paper holds for our figures (data, row, metric, value, std, runs).

    It holds where every difference that it speaks of exceeds its 95 % margin, and does not hold where one
    points the other way by more than that, or is exactly nothing. Margins come from the spread over runs
    (Welch's t), over sites where the claim is about their mean (a paired t), and of ranks from Nemenyi's
    critical difference.
    """
    verdicts: dict[str, list[str]] = {}
    for name in claim.data or dict.fromkeys(ours["data"]):
        verdicts.setdefault(_verdict(_gaps(claim, ours[ours["data"] == name])), []).append(str(name))
    order = (HOLDS, FAILS, WITHIN, ONCE, UNKNOWN)
    parts = [f"{word} on {', '.join(verdicts[word])}" for word in order if word in verdicts]
    return "; ".join(parts) or UNKNOWN


def _verdict(gaps: list[Gap] | None) -> str:
    if gaps is None:
        return UNKNOWN
    if any(gap.difference < -gap.margin or gap.difference == gap.margin == 0 for gap in gaps):
        return FAILS
    if any(np.isnan(gap.margin) for gap in gaps):
        return ONCE
    return HOLDS if all(gap.difference > gap.margin for gap in gaps) else WITHIN


def _gaps(claim: Claim, here: pd.DataFrame) -> list[Gap] | None:
    """The differences that must be positive for a claim to hold on one data set; None without figures."""
    if claim.within:
        return _over_sites(claim, here)
    figures = here[here["metric"] == claim.metric].dropna(subset=["value"]).set_index("row")
    best = claim.best or claim.lowest
    if not figures.index.isin([*claim.order, *filter(None, [best])]).any() or len(figures) < 2:
        return None
    pairs = list(pairwise(claim.order)) or [(best, row) for row in figures.index.drop(best, errors="ignore")]
    if not {row for pair in pairs for row in pair} <= set(figures.index):
        return None
    sign = -1 if claim.lowest else 1
    gaps = []
    for high, low in pairs:
        first, second = figures.loc[high], figures.loc[low]
        if claim.metric == "rank":  # runs are data sets there
            margin = critical_difference(len(figures), int(first["runs"]), 1 - LEVEL)
        else:
            margin = _margin(first, second)
        gaps.append(Gap(sign * float(first["value"] - second["value"]), margin))
    return gaps


def _margin(first: pd.Series, second: pd.Series) -> float:
    """Half the width of Welch's interval of the difference of two means."""
    errors = np.array(
        [one["std"] ** 2 / one["runs"] if one["runs"] > 1 else np.nan for one in (first, second)]
    )
    if np.isnan(errors).any():
        return np.nan
    if not errors.any():
        return 0.0
    freedom = errors.sum() ** 2 / (errors**2 / [first["runs"] - 1, second["runs"] - 1]).sum()
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(errors.sum()))


def _over_sites(claim: Claim, here: pd.DataFrame) -> list[Gap] | None:
    """Differences of methods, which are the metrics here, in the mean over the other rows."""
    figures = here.pivot_table(index="row", columns="metric", values="value")
    if claim.within not in figures.index or not set(claim.order) <= set(figures.columns):
        return None
    gaps = []
    for high, low in pairwise(claim.order):
        differences = figures[high] - figures[low]
        sites = differences.drop(claim.within).dropna()
        if np.isnan(differences[claim.within]):
            return None
        width = stats.t.ppf((1 + LEVEL) / 2, len(sites) - 1) if len(sites) > 1 else np.nan
        gaps.append(Gap(float(differences[claim.within]), float(width * sites.sem())))
    return gaps
