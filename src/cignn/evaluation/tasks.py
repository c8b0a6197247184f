"""Tasks of an evaluation: what they are, what comes of them, and how a trained method is scored."""

from __future__ import annotations

import os
import platform
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from cignn.estimators import FlatMaskWarning, GraphClassifier
from cignn.evaluation.classification import classification_scores
from cignn.evaluation.faithfulness import explanation_accuracy, fidelity
from cignn.evaluation.known_edges import (
    explanation_gap,
    explanation_roc_auc,
    explanation_roc_auc_overall,
    precision_at_k,
)
from cignn.evaluation.methods import predicts_scores, with_seed
from cignn.evaluation.regression import regression_scores
from cignn.evaluation.removal import probabilities_of
from cignn.evaluation.splits import Labels, Split
from cignn.evaluation.splitters import Splitter
from cignn.evaluation.sufficiency import self_consistency, superset_sufficiency
from cignn.explainers import Explainer
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

PAPER_SHARES = (0.3, 0.4, 0.5)  # the points of the curve of explanation accuracy that the paper prints
MOST_GRAPHS = 100  # for scores that ask the classifier or the explainer many times


@dataclass(frozen=True)
class Task:
    """A method on one split of one data set with one seed, and the key it is kept under."""

    key: str
    method: str
    data: str
    protocol: Splitter
    split: Split
    seed: int
    estimator: Any
    settings: dict[str, Any]
    explainers: Mapping[str, Explainer] = field(default_factory=dict)
    grid: list[dict[str, Any]] | None = None
    search_metric: str = "accuracy"
    positive: Any = None  # the class, of two, that the scores asked for are of; those kept are of the second

    def __str__(self) -> str:
        return f"{self.method} on {self.data}, {self.protocol.name} {self.split.name}, seed {self.seed}"


class MissingTask(NamedTuple):
    """A planned task without scores, and the reason."""

    method: str
    data: str
    protocol: str
    split: str
    seed: str
    why: str = "not yet run"

    def __str__(self) -> str:
        return f"{self.method} ({self.protocol} {self.split}, seed {self.seed}) {self.why}"


class Score(NamedTuple):
    """One score; ``explainer`` is "" for scores of the classifier."""

    explainer: str
    metric: str
    value: float


class Predictions(NamedTuple):
    """What a task predicted for each scan of its test part; without classes the labels are scores."""

    position: np.ndarray  # in the data
    subject: np.ndarray
    site: np.ndarray | None
    y_true: np.ndarray
    y_pred: np.ndarray
    probabilities: np.ndarray | None  # (n, classes)
    classes: np.ndarray


@dataclass
class Outcome:
    """The result of a task; ``error`` is None where it went well."""

    key: str
    scores: list[Score] = field(default_factory=list)
    predictions: Predictions | None = None
    chosen: dict[str, Any] | None = None  # by the search
    explainer_errors: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    trace: str | None = None
    seconds: float = 0.0
    peak_memory: int | None = None  # bytes of the process while it ran
    host: str = ""

    def fail(self, error: Exception) -> None:
        """Keep an exception as what came of the task."""
        line = (str(error).splitlines() or [""])[0]
        self.error, self.trace = f"{type(error).__name__}: {line}", "".join(traceback.format_exception(error))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Count the time of the work inside as the task's own; an exception in it becomes the outcome."""
        with shared_time([self]):
            try:
                yield
            except Exception as error:
                self.fail(error)


@contextmanager
def shared_time(outcomes: Sequence[Outcome]) -> Iterator[None]:
    """Count the time of the work inside in equal parts; an outcome that occurs twice gets two."""
    started = time.perf_counter()
    try:
        yield
    finally:
        for outcome in outcomes:
            outcome.seconds += (time.perf_counter() - started) / len(outcomes)


class Fitted(NamedTuple):
    """A method after training: its transformers, its classifier and what that learnt from."""

    transformers: list[Any]
    model: Any
    learnt_from: Any

    def transform(self, data: Any) -> Any:
        """Pass data through the transformers."""
        for step in self.transformers:
            data = step.transform(data)
        return data


# --------------------------------------------------------------------- scoring


def score(task: Task, fitted: Fitted, data: Any, labels: Labels, outcome: Outcome) -> None:
    """Score a trained method on the test part of its task, and explainers on that method."""
    graphs = unlabelled_test(fitted, data, task.split)
    outcome.predictions = predict(fitted, graphs, task.split.test, labels)
    outcome.scores = [Score("", *pair) for pair in scores_of(outcome.predictions).items()]
    shares = getattr(fitted.model, "shares_", {})  # of the views of a fusion
    outcome.scores += [Score("", f"share_{name}", float(share)) for name, share in shares.items()]
    for name, explainer in task.explainers.items():
        try:
            outcome.scores += explain(name, with_seed(explainer, task.seed), fitted, graphs)
        except Exception as error:  # the classifier's scores stay
            outcome.explainer_errors[name] = f"{type(error).__name__}: {error}"


def unlabelled_test(fitted: Fitted, data: Any, split: Split) -> Any:
    """Return the test part as the classifier sees it: without labels, which only scores know."""
    return fitted.transform(data[split.test].with_y(None))


def predict(fitted: Fitted, graphs: Any, index: np.ndarray, labels: Labels) -> Predictions:
    """Predict the classes of the scans at these positions, with probabilities where the method has any."""
    model = fitted.model
    known = labels[index]
    if predicts_scores(model):
        scores = np.asarray(model.predict(graphs), np.float64)
        true = np.asarray(known.y, np.float64)
        return Predictions(index, known.subjects, known.sites, true, scores, None, np.empty(0))
    chances = np.asarray(model.predict_proba(graphs)) if hasattr(model, "predict_proba") else None
    if isinstance(model, GraphClassifier) and chances is not None:
        predicted = model.classes_[chances.argmax(1)]  # as its predict does, without asking twice
    else:
        predicted = model.predict(graphs)
    return Predictions(
        index, known.subjects, known.sites, known.y, np.asarray(predicted), chances, model.classes_
    )


def scores_of(p: Predictions, positive: Any = None) -> dict[str, float]:
    """Score predictions by every metric that they allow."""
    if not len(p.classes):
        return regression_scores(p.y_true, p.y_pred)
    return classification_scores(p.y_true, p.y_pred, p.classes, p.probabilities, positive)


def explain(name: str, explainer: Explainer, fitted: Fitted, graphs: Any) -> list[Score]:
    """Explain test graphs and score the explanations."""
    if not isinstance(graphs, GraphSet):
        raise TypeError(f"explainers need graphs, the classifier reads {type(graphs).__name__}.")
    explainer.fit(fitted.model, fitted.learnt_from)
    started = time.perf_counter()
    with warnings.catch_warnings():  # the range of the weights is among the scores
        warnings.simplefilter("ignore", FlatMaskWarning)
        explanations = explainer.explain(graphs)
    scores = {"milliseconds": 1000 * (time.perf_counter() - started) / len(graphs)}
    scores |= explanation_scores(explainer, fitted.model, explanations)
    return [Score(name, metric, value) for metric, value in scores.items()]


def explanation_scores(explainer: Explainer, model: Any, explanations: Explanations) -> dict[str, float]:
    """Score explanations of test graphs, means over graphs; what takes many passes is scored on some."""
    graphs, scores = explanations.graphs, {}
    if graphs.edge_truth is not None:
        scores["explanation_roc_auc"] = nanmean(explanation_roc_auc(explanations))
        scores["explanation_roc_auc_overall"] = explanation_roc_auc_overall(explanations)
        scores["explanation_gap"] = nanmean(explanation_gap(explanations))
        scores["precision_at_k"] = nanmean(precision_at_k(explanations))
    whole = probabilities_of(model, graphs)
    curve = explanation_accuracy(model, explanations, probabilities=whole)
    scores["explanation_accuracy"] = curve.auc
    for share in PAPER_SHARES:
        scores[f"explanation_accuracy@{share:g}"] = float(curve.accuracy[np.isclose(curve.shares, share)][0])
    both = fidelity(model, explanations, probabilities=whole)
    scores["fidelity_plus"], scores["fidelity_minus"] = nanmean(both.plus), nanmean(both.minus)
    some = _spread(len(graphs), MOST_GRAPHS)
    supersets = superset_sufficiency(model, explanations[some], probabilities=whole[some])
    scores["superset_worst"] = nanmean(supersets.worst)
    scores["superset_worst_random"] = nanmean(supersets.random_worst)
    scores["superset_label_changes"] = nanmean(supersets.label_changes)
    scores["superset_label_changes_random"] = nanmean(supersets.random_label_changes)
    half = _spread(len(graphs), min(MOST_GRAPHS, -(-len(graphs) // 2)))  # explainers may be slow
    again = self_consistency(explainer, explanations[half])
    scores["self_difference"] = nanmean(again.difference)
    scores["self_rank_correlation"] = nanmean(again.rank_correlation)
    scores["weight_range"] = explanations.usual_range
    return scores


def _spread(n: int, most: int) -> np.ndarray:
    """Numbers of at most this many of n graphs, spread evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def nanmean(values: np.ndarray) -> float:
    """Return the mean of the values that are numbers; NaN where none is."""
    return float(np.nanmean(values)) if not np.isnan(values).all() else np.nan


# ------------------------------------------------------------------- measuring


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Limit the threads of torch and of the libraries of linear algebra."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def forget_peak_memory() -> None:
    """Start measuring the peak memory of the process anew, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int | None:
    """Return the peak memory in bytes since `forget_peak_memory`, elsewhere than on Linux since the start."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if os.name != "posix":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024


def memory_left() -> float:
    """Return the bytes of memory that are free for this process, as far as Linux tells; else infinity."""
    try:
        left = _kernel_table("/proc/meminfo")["MemAvailable:"] * 1024
    except (OSError, KeyError, ValueError):
        return float("inf")
    with suppress(OSError, KeyError, ValueError):  # no container, or one without a limit
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        left = min(left, limit - used + _kernel_table(group / "memory.stat")["inactive_file"])
    return left


def _kernel_table(path: str | Path) -> dict[str, int]:
    """Names and numbers of a file of the system."""
    rows = (line.split() for line in Path(path).read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}
