"""Tables of performance: compared with other methods, of the model itself, per site, calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn.evaluation.classification import (
    BINS,
    METRICS,
    Coded,
    bin_numbers,
    calibration_pairs,
    code,
    counted_by,
    weighted_scores,
)
from cignn.evaluation.resampling import Part, mean_scores
from cignn.evaluation.statistics import corrected_interval
from cignn.evaluation.tables import refuse_mixtures
from cignn.evaluation.tasks import MissingTask
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
    "accuracy": "share of correct predictions; always predicting the larger class gives its share.",
    "balanced_accuracy": "mean over classes of the share of correct predictions; guessing gives {guess:.2f}.",
    "f1": "harmonic mean of sensitivity and of the share of {positive} predictions that are correct.",
    "mcc": "correlation of predictions and labels (Matthews): 1 is perfect, 0 is guessing.",
    "sensitivity": "share of {positive} that is recognised.",
    "specificity": "share of {negative} that is recognised.",
    "roc_auc": "how often a {positive} gets a higher probability than a {negative}; guessing gives 0.50.",
    "calibration_error": "mean distance between predicted probabilities and observed frequencies: 0 is best.",
}
RESAMPLES = 1000
UNSPREAD = "calibration_error"  # no interval: resampling inflates it
MIN_TASKS = 3  # for an interval of their mean


def meanings(metrics: Iterable[str], classes: list[str], positive: int = 1) -> dict[str, str]:
    """Names and meanings of the metrics shown; positive : number of the positive class."""
    words = {"positive": "a class", "negative": "the others"}
    if len(classes) == 2:
        words = {"positive": classes[positive], "negative": classes[1 - positive]}
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
    """Scores of methods on one data set by one protocol.

    rows : scores by method and metric. done : number of test sets with scores, out of ``runs``, by method.
    The best method comes first if all are complete; else methods are in the order of the evaluation.
    """

    data: str
    protocol: str
    runs: int
    metrics: list[str]
    rows: dict[str, dict[str, Score]]
    failed: dict[str, int]
    done: dict[str, int]
    positive: object = None

    @property
    def complete(self) -> bool:
        """Whether every method has scores of every test set."""
        return all(count == self.runs for count in self.done.values())


class CalibrationBin(NamedTuple):
    """Subjects whose probability lies in a bin: the observed frequency with its interval."""

    low: float
    high: float
    n: int
    predicted: float
    observed: Score


def method_tables(results: pd.DataFrame | None, missing: Sequence[MissingTask] = ()) -> list[MethodTable]:
    """One table per data set and protocol of `evaluate`'s rows.

    missing : tasks without scores, of an unfinished run or failed. The interval of a mean over tasks is
    Student's, with the variance corrected for overlapping training sets (Nadeau and Bengio 2003) where the
    rows have their sizes.
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
        _method_table(str(d), str(p), some, [m for m in missing if (m.data, m.protocol) == (str(d), str(p))])
        for (d, p), some in own.groupby(["data", "protocol"], sort=False)
    ]


def _method_table(
    data: str, protocol: str, rows: pd.DataFrame, missing: Sequence[MissingTask]
) -> MethodTable:
    scores = rows[rows["metric"] != "error"]
    errors = rows[rows["metric"] == "error"]["method"].value_counts()
    failed = {str(method): int(count) for method, count in errors.items()}
    present = list(scores["metric"].unique())
    metrics = [m for m in METRICS if m in present] + [m for m in present if m not in METRICS]
    names = list(dict.fromkeys([*rows["method"].astype(str), *(one.method for one in missing)]))
    table: dict[str, dict[str, Score]] = {name: {} for name in names}
    done = dict.fromkeys(names, 0)
    for method, some in scores.groupby("method", sort=False):
        by_metric = some.groupby("metric")
        table[str(method)] = {str(metric): mean_interval(values) for metric, values in by_metric}
        done[str(method)] = int(by_metric.size().max())
    unrun = Counter(one.method for one in missing if not one.why.startswith("failed"))
    runs = max((done[name] + failed.get(name, 0) + unrun[name] for name in names), default=0)
    positive = rows["positive"].dropna().unique().tolist() if "positive" in rows else []
    out = MethodTable(data, protocol, runs, metrics, table, failed, done, positive[0] if positive else None)
    if not out.complete:
        return out
    lead = leading_metric(metrics)
    order = sorted(table, key=lambda m: -np.nan_to_num(table[m].get(lead, Score(np.nan)).value, nan=-9))
    return out._replace(rows={m: table[m] for m in order})


def leading_metric(metrics: list[str]) -> str:
    """The metric by which methods are ranked and drawn."""
    for name in ("balanced_accuracy", "accuracy"):
        if name in metrics:
            return name
    return metrics[0] if metrics else ""


def mean_interval(rows: pd.DataFrame) -> Score:
    """Mean of the column "value" over tasks with its 95 % interval, which needs three tasks.

    Intervals are cut at 1 and at 0, or at −1 for Matthews' correlation.
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


class Scored(NamedTuple):
    """Predictions that are scored: class numbers of which 1, of two, is the positive one."""

    coded: Coded
    subject: np.ndarray  # (n,) numbers
    task: np.ndarray  # (n,) number of the test set; 0 where a single model is scored
    sites: np.ndarray | None  # (n,)

    def take(self, where: np.ndarray) -> Scored:
        """Return the predictions where the mask (n,) is true."""
        rows = np.flatnonzero(where)
        c = self.coded
        chances = None if c.probabilities is None else c.probabilities[rows]
        coded = Coded(c.truth[rows], c.predicted[rows], chances, c.labels)
        sites = None if self.sites is None else self.sites[rows]
        return Scored(coded, self.subject[rows], self.task[rows], sites)

    @property
    def n_subjects(self) -> int:
        """Number of subjects scored."""
        return len(np.unique(self.subject))


def scored_of(data: ReportData) -> Scored | None:
    """The predictions that are scored: of the evaluation, else of the model on graphs it has not seen."""
    positive = data.positive_number if len(data.classes) == 2 else None
    numbers = np.arange(len(data.classes))
    if data.predictions is None:
        chosen = np.flatnonzero(data.scored)
        if not len(chosen):
            return None
        coded = code(data.truth[chosen], data.predicted[chosen], numbers, data.probabilities[chosen])
        sites = None if data.sites is None else data.sites[chosen]
        subject = np.unique(data.subjects[chosen], return_inverse=True)[1]
        return Scored(counted_by(coded, positive), subject, np.zeros(len(chosen), int), sites)
    rows = data.predictions
    number = {str(label): k for k, label in enumerate(data.classes.tolist())}
    found = [[number.get(str(label), -1) for label in rows[name]] for name in ("y_true", "y_pred")]
    truth, predicted = np.array(found, int)
    if min(truth.min(), predicted.min()) < 0:
        raise ValueError(
            f"the evaluation and the model of the report have different classes; the model knows "
            f"{', '.join(number)}; pass a model of the same labels."
        )
    columns = [f"p_{label}" for label in data.classes.tolist()]
    chances = None
    if set(columns) <= set(rows) and rows[columns].notna().all(axis=None):
        chances = rows[columns].to_numpy(float)
    coded = counted_by(code(truth, predicted, numbers, chances), positive)
    subject = np.unique(rows["subject"].to_numpy().astype(str), return_inverse=True)[1]
    task = rows.groupby(["split", "seed"], sort=False).ngroup().to_numpy()
    sites = rows["site"].to_numpy().astype(str) if "site" in rows and rows["site"].notna().all() else None
    return Scored(coded, subject, task, sites)


def own_scores(data: ReportData) -> dict[str, Score]:
    """Mean scores over test sets, with intervals by a bootstrap over subjects with all their scans."""
    scored = scored_of(data)
    if scored is None or scored.n_subjects < 2:
        return {}
    n = int(scored.subject.max()) + 1
    tasks = [scored.take(scored.task == task) for task in np.unique(scored.task)]
    parts = [Part(one.coded, one.subject, one.subject) for one in tasks]
    draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    values = mean_scores(parts, np.ones((1, n)))
    spread = mean_scores(parts, draws.astype(float))
    out = {}
    for name in [m for m in METRICS if m in values]:
        usable = spread[name][~np.isnan(spread[name])]
        ends = (
            np.quantile(usable, [0.025, 0.975])
            if len(usable) > RESAMPLES / 2 and name != UNSPREAD
            else (np.nan, np.nan)
        )
        out[name] = Score(float(values[name][0]), float(ends[0]), float(ends[1]))
    return out


class SiteRow(NamedTuple):
    """Scores of one site: n subjects scored, accuracy with its Wilson interval, balanced accuracy."""

    site: str
    n: int
    accuracy: Score
    balanced: Score


def site_rows(data: ReportData) -> list[SiteRow]:
    """Scores at every site, of the same predictions as `own_scores`."""
    scored = scored_of(data)
    if scored is None or scored.sites is None:
        return []
    rows = []
    for site in np.unique(scored.sites):
        here = scored.take(scored.sites == site)
        n = len(here.subject)
        scores = weighted_scores(here.coded, np.ones((1, n)))
        right = share_of(scores["accuracy"][0], here.n_subjects)
        rows.append(SiteRow(str(site), here.n_subjects, right, Score(float(scores["balanced_accuracy"][0]))))
    return rows


def calibration_bins(data: ReportData, n_bins: int = BINS) -> list[CalibrationBin]:
    """Observed frequencies of probabilities: of the positive class of two, else of the predicted one."""
    scored = scored_of(data)
    if scored is None or scored.coded.probabilities is None:
        return []
    predicted, correct = calibration_pairs(scored.coded.truth, scored.coded.probabilities)
    numbers = bin_numbers(predicted, n_bins)
    bins = []
    for k in np.unique(numbers):
        inside = np.flatnonzero(numbers == k)
        n = len(np.unique(scored.subject[inside]))
        ends = int(k) / n_bins, (int(k) + 1) / n_bins
        observed = share_of(float(correct[inside].mean()), n)
        bins.append(CalibrationBin(*ends, n, float(predicted[inside].mean()), observed))
    return bins


def share_of(share: float, n: float) -> Score:
    """A share of n with its 95 % Wilson interval."""
    ends = wilson(np.array(share, float), np.array(n, float))
    return Score(float(share), float(ends.low), float(ends.high))
