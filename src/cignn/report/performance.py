"""How well a model did, as tables: beside other methods, on its own, per site, calibration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn.evaluation.classification import BINS, METRICS, Coded, calibration_curve, code, weighted_scores
from cignn.evaluation.mixtures import refuse_mixtures
from cignn.evaluation.statistics import corrected_interval
from cignn.report.curves import wilson
from cignn.report.report_data import ReportData

NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "mcc": "MCC",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "roc_auc": "ROC-AUC",
    "calibration_error": "calibration error",
}
MEANINGS = {
    "accuracy": "share of predictions that are right; the larger class alone gives its own share.",
    "balanced_accuracy": "mean of the shares that are right in each class; guessing gives {guess:.2f}.",
    "f1": "harmonic mean of sensitivity and of the share of {positive} predictions that are right.",
    "mcc": "correlation of predictions and labels (Matthews): 1 all right, 0 guessing.",
    "sensitivity": "share of {positive} that is recognised.",
    "specificity": "share of {negative} that is recognised.",
    "roc_auc": "how often one {positive} gets a higher probability than one {negative}; guessing gives 0.50.",
    "calibration_error": "mean distance between the probabilities given and what came true: 0 is best.",
}
RESAMPLES = 1000
UNSPREAD = "calibration_error"  # resampling inflates it: no interval
MIN_TASKS = 3  # for an interval of their mean


def meanings(metrics: Iterable[str], classes: list[str]) -> dict[str, str]:
    """Name → what it says, of the metrics shown, in words for readers."""
    two = len(classes) == 2
    words = {"positive": classes[1] if two else "a class", "negative": classes[0] if two else "the others"}
    shown = set(metrics)
    return {
        NAMES[m]: text.format(guess=1 / len(classes), **words) for m, text in MEANINGS.items() if m in shown
    }


class Score(NamedTuple):
    """A value with its 95 % interval; the ends are NaN where there is none."""

    value: float
    low: float = np.nan
    high: float = np.nan

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "–"
        value = f"{self.value:.2f}".replace("-", "−")
        if np.isnan(self.low):
            return value
        return f"{value} ({self.low:.2f} to {self.high:.2f})".replace("-", "−")


class MethodTable(NamedTuple):
    """Scores of methods on one data set by one protocol: rows method → metric → score, best first."""

    data: str
    protocol: str
    runs: int
    metrics: list[str]
    rows: dict[str, dict[str, Score]]
    failed: dict[str, int]


class CalibrationBin(NamedTuple):
    """Graphs whose probability lies in a bin: how often what was promised came true, with its interval."""

    low: float
    high: float
    n: int
    predicted: float
    observed: Score


def method_tables(results: pd.DataFrame | None) -> list[MethodTable]:
    """One table per data set and protocol of `evaluate`'s rows.

    The interval of a mean over tasks is Student's, its variance corrected for training sets that overlap
    (Nadeau and Bengio 2003) where the rows say how large they were.
    """
    if results is None or not len(results):
        return []
    for name in ("method", "metric", "value"):
        if name not in results:
            raise ValueError(f"results must come from evaluate, these have no column {name!r}.")
    own = results[results["explainer"].fillna("") == ""] if "explainer" in results else results
    refuse_mixtures(own)
    own = own.assign(**{name: "" for name in ("data", "protocol") if name not in own})
    return [
        _method_table(str(d), str(p), some) for (d, p), some in own.groupby(["data", "protocol"], sort=False)
    ]


def _method_table(data: str, protocol: str, rows: pd.DataFrame) -> MethodTable:
    errors = rows[rows["metric"] == "error"]["method"].value_counts()
    scores = rows[rows["metric"] != "error"]
    present = list(scores["metric"].unique())
    metrics = [m for m in METRICS if m in present] + [m for m in present if m not in METRICS]
    table = {
        str(method): {str(metric): mean_interval(values) for metric, values in some.groupby("metric")}
        for method, some in scores.groupby("method", sort=False)
    }
    lead = leading_metric(metrics)
    order = sorted(table, key=lambda m: -np.nan_to_num(table[m].get(lead, Score(np.nan)).value, nan=-9))
    runs = int(scores.groupby(["method", "metric"]).size().max()) if len(scores) else 0
    failed = {str(method): int(count) for method, count in errors.items()}
    return MethodTable(data, protocol, runs, metrics, {m: table[m] for m in order}, failed)


def leading_metric(metrics: list[str]) -> str:
    """The metric by which methods are listed and drawn."""
    for name in ("balanced_accuracy", "accuracy"):
        if name in metrics:
            return name
    return metrics[0] if metrics else ""


def mean_interval(rows: pd.DataFrame) -> Score:
    """Mean of the column "value" over tasks with its 95 % interval, which two tasks are too few for.

    No score here exceeds 1, and only Matthews' correlation falls below 0: intervals end there.
    """
    values = rows["value"].to_numpy(float)
    rows, values = rows[~np.isnan(values)], values[~np.isnan(values)]
    if not len(values):
        return Score(np.nan)
    if len(values) < MIN_TASKS:
        return Score(float(values.mean()))
    overlap = 0.0
    if {"n_train", "n_test"} <= set(rows):
        seen = rows["n_train"] + (rows["n_validation"].fillna(0) if "n_validation" in rows else 0)
        overlap = float(np.nan_to_num(rows["n_test"].sum() / max(float(seen.sum()), 1.0)))
    ends = corrected_interval(values, overlap)
    lowest = -1.0 if "metric" in rows and (rows["metric"] == "mcc").any() else 0.0
    return Score(float(values.mean()), max(lowest, ends.low), min(1.0, ends.high))


def own_scores(data: ReportData) -> dict[str, Score]:
    """Scores of the reported model on its scored graphs; intervals by drawing graphs anew."""
    chosen = np.flatnonzero(data.scored)
    if len(chosen) < 2:
        return {}
    coded = _coded(data, chosen)
    rng = np.random.default_rng(0)
    draws = rng.multinomial(len(chosen), np.full(len(chosen), 1 / len(chosen)), RESAMPLES)
    values = weighted_scores(coded, np.ones((1, len(chosen))))
    spread = weighted_scores(coded, draws.astype(float))
    out = {}
    for name in METRICS:
        usable = spread[name][~np.isnan(spread[name])]
        ends = (
            np.quantile(usable, [0.025, 0.975])
            if len(usable) > RESAMPLES / 2 and name != UNSPREAD
            else (np.nan, np.nan)
        )
        out[name] = Score(float(values[name][0]), float(ends[0]), float(ends[1]))
    return out


class SiteRow(NamedTuple):
    """Scores of one site: n graphs scored, accuracy with its Wilson interval, balanced accuracy."""

    site: str
    n: int
    accuracy: Score
    balanced: Score


def site_rows(data: ReportData) -> list[SiteRow]:
    """Scores of the reported model at every site."""
    if data.sites is None:
        return []
    rows = []
    for site in np.unique(data.sites):
        chosen = np.flatnonzero(data.scored & (data.sites == site))
        if len(chosen):
            scores = weighted_scores(_coded(data, chosen), np.ones((1, len(chosen))))
            right = (data.truth == data.predicted)[chosen].mean()
            rows.append(
                SiteRow(
                    str(site),
                    len(chosen),
                    share_of(right, len(chosen)),
                    Score(float(scores["balanced_accuracy"][0])),
                )
            )
    return rows


def calibration_bins(data: ReportData, n_bins: int = BINS) -> list[CalibrationBin]:
    """What came true of probabilities: of two classes the second's, of more the predicted one's."""
    chosen = data.scored
    if not chosen.any():
        return []
    numbers = np.arange(len(data.classes))
    curve = calibration_curve(data.truth[chosen], data.probabilities[chosen], numbers, n_bins)
    return [
        CalibrationBin(
            int(k) / n_bins,
            (int(k) + 1) / n_bins,
            int(row["count"]),
            float(row["probability"]),
            share_of(row["frequency"], row["count"]),
        )
        for k, row in curve.iterrows()
    ]


def share_of(share: float, n: float) -> Score:
    """A share of n with its 95 % Wilson interval."""
    ends = wilson(np.array(share, float), np.array(n, float))
    return Score(float(share), float(ends.low), float(ends.high))


def _coded(data: ReportData, chosen: np.ndarray) -> Coded:
    numbers = np.arange(len(data.classes))
    return code(data.truth[chosen], data.predicted[chosen], numbers, data.probabilities[chosen])
