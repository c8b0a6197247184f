"""Tasks of an evaluation, and the processes and clusters that run them."""

from __future__ import annotations

import gc
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from cignn.estimators import GraphClassifier
from cignn.evaluation.classification import ERRORS, classification_scores
from cignn.evaluation.explanation import explanation_roc_auc, precision_at_k
from cignn.evaluation.faithfulness import explanation_accuracy, fidelity
from cignn.evaluation.methods import uses_validation, was_interrupted, with_seed, with_settings
from cignn.evaluation.splits import Labels, Split, labels_of
from cignn.evaluation.splitters import Splitter
from cignn.explainers import Explainer
from cignn.graphs import GraphSet

PAPER_SHARES = (0.3, 0.4, 0.5)  # the points of the curve of explanation accuracy that the paper prints


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
    """What a task predicted for each scan of its test part."""

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


def run_task(task: Task, data: Any, threads: int = 1) -> Outcome:
    """Do a task; an exception becomes its outcome."""
    outcome = Outcome(task.key, host=platform.node())
    started = time.perf_counter()
    forget_peak_memory()
    try:
        with limited_threads(threads):
            _work(task, data, outcome)
    except Exception as error:
        line = (str(error).splitlines() or [""])[0]
        outcome.error, outcome.trace = f"{type(error).__name__}: {line}", traceback.format_exc()
    outcome.seconds = time.perf_counter() - started
    outcome.peak_memory = peak_memory()
    return outcome


def _work(task: Task, data: Any, outcome: Outcome) -> None:
    labels = labels_of(data)
    estimator = task.estimator
    if task.grid is not None:
        inner = task.protocol.inner_splits(labels, task.split, task.seed)
        by = (task.search_metric, task.seed, task.positive)
        outcome.chosen = search(estimator, task.grid, data, labels, inner, *by)
        estimator = with_settings(estimator, outcome.chosen)
    fitted = fit_in_fold(with_seed(estimator, task.seed), data, task.split)
    test = data[task.split.test].with_y(None)  # from here on nobody but the scores sees the labels
    graphs = fitted.transform(test)
    outcome.predictions = _predict(fitted, graphs, task.split.test, labels)
    outcome.scores = [Score("", *pair) for pair in _scores(outcome.predictions).items()]
    for name, explainer in task.explainers.items():
        try:
            outcome.scores += explain(name, with_seed(explainer, task.seed), fitted, graphs)
        except Exception as error:  # the classifier's scores stay
            outcome.explainer_errors[name] = f"{type(error).__name__}: {error}"


# --------------------------------------------------------------------- fitting


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


def fit_in_fold(estimator: Any, data: Any, split: Split) -> Fitted:
    """Fit every step on the training part; the epoch is chosen on the validation part.

    A classifier that chooses no epoch learns from both parts: what is set aside for others is not withheld
    from it.
    """
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    transformers, model = [step for step in steps[:-1] if step not in (None, "passthrough")], steps[-1]
    validates = uses_validation(model) and len(split.validation)
    train = data[split.train if validates else split.development]
    held_out = data[split.validation] if validates else None
    y, y_held_out = train.y, None if held_out is None else held_out.y
    for step in transformers:
        train = step.fit(train, y).transform(train)
        held_out = None if held_out is None else step.transform(held_out)
    if held_out is None:
        model.fit(train, y)
    else:
        model.fit(train, y, eval_set=(held_out, y_held_out))
    if was_interrupted(model):  # it kept what it had, which is no score of the method
        raise KeyboardInterrupt
    return Fitted(transformers, model, train)


def search(
    estimator: Any,
    grid: list[dict[str, Any]],
    data: Any,
    labels: Labels,
    inner: list[Split],
    metric: str,
    seed: int,
    positive: Any = None,
) -> dict[str, Any]:
    """Return the settings with the best mean score over inner splits; of equal ones the first.

    Splits that cannot be scored, for want of a class, are left out of the mean.
    """
    means = []
    for settings in grid:
        values = []
        for split in inner:
            fitted = fit_in_fold(with_seed(with_settings(estimator, settings), seed), data, split)
            graphs = fitted.transform(data[split.test].with_y(None))
            scores = _scores(_predict(fitted, graphs, split.test, labels), positive)
            if metric not in scores:
                raise ValueError(f"{metric} needs probabilities, {type(fitted.model).__name__} gives none.")
            values.append(scores[metric])
        means.append(_nanmean(np.array(values)) * (-1 if metric in ERRORS else 1))
    if np.isnan(means).all():
        raise ValueError(
            f"there is no {metric} in any of {len(inner)} inner splits, which lack a class; "
            'search by another search_metric, such as "accuracy".'
        )
    return grid[int(np.nanargmax(means))]


# --------------------------------------------------------------------- scoring


def _predict(fitted: Fitted, graphs: Any, index: np.ndarray, labels: Labels) -> Predictions:
    model = fitted.model
    chances = np.asarray(model.predict_proba(graphs)) if hasattr(model, "predict_proba") else None
    if isinstance(model, GraphClassifier) and chances is not None:
        predicted = model.classes_[chances.argmax(1)]  # as its predict does, without asking twice
    else:
        predicted = model.predict(graphs)
    known = labels[index]
    return Predictions(
        index, known.subjects, known.sites, known.y, np.asarray(predicted), chances, model.classes_
    )


def _scores(p: Predictions, positive: Any = None) -> dict[str, float]:
    return classification_scores(p.y_true, p.y_pred, p.classes, p.probabilities, positive)


def explain(name: str, explainer: Explainer, fitted: Fitted, graphs: Any) -> list[Score]:
    """Explain test graphs and score the explanations."""
    if not isinstance(graphs, GraphSet):
        raise TypeError(f"explainers need graphs, the classifier reads {type(graphs).__name__}.")
    explainer.fit(fitted.model, fitted.learnt_from)
    started = time.perf_counter()
    explanations = explainer.explain(graphs)
    scores = {"milliseconds": 1000 * (time.perf_counter() - started) / len(graphs)}
    if graphs.edge_truth is not None:
        scores["explanation_roc_auc"] = _nanmean(explanation_roc_auc(explanations))
        scores["precision_at_k"] = _nanmean(precision_at_k(explanations))
    curve = explanation_accuracy(fitted.model, explanations)
    scores["explanation_accuracy"] = curve.auc
    for share in PAPER_SHARES:
        scores[f"explanation_accuracy@{share:g}"] = float(curve.accuracy[np.isclose(curve.shares, share)][0])
    both = fidelity(fitted.model, explanations)
    scores["fidelity_plus"], scores["fidelity_minus"] = _nanmean(both.plus), _nanmean(both.minus)
    return [Score(name, metric, value) for metric, value in scores.items()]


def _nanmean(values: np.ndarray) -> float:
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


IDLE = 20  # seconds after which processes without work end, those of a killed run too
DIED = "TerminatedWorkerError: its process was killed, probably for lack of memory; use fewer processes."


def in_processes(
    tasks: Iterator[Task],
    data: Mapping[str, Any],
    processes: Callable[[], AbstractContextManager[Parallel]],
    threads: int,
) -> Iterator[Outcome]:
    """Yield outcomes as they come; when a process dies, find the task that kills it and do the others."""
    in_flight: dict[str, Task] = {}

    def outcomes(some: Iterable[Task]) -> Iterator[Outcome]:
        def calls() -> Iterator[Any]:
            for task in some:
                in_flight[task.key] = task
                yield delayed(run_task)(task, data[task.data], threads)

        with processes() as parallel:  # anew after a death: data that lay at the dead are sent again
            for outcome in parallel(calls()):
                del in_flight[outcome.key]
                yield outcome

    while True:
        try:
            yield from outcomes(tasks)
            return
        except TerminatedWorkerError:
            suspects = list(in_flight.values())
        in_flight.clear()
        for task in suspects:  # one at a time: who is alone when a process dies did it
            try:
                yield from outcomes([task])
            except TerminatedWorkerError:
                in_flight.clear()
                yield Outcome(task.key, error=DIED)


@contextmanager
def workers(scheduler: str | None, n_jobs: int, threads: int, data: Mapping[str, Any]) -> Iterator[Parallel]:
    """Yield a `Parallel` of processes on this machine or on a Dask cluster; results come as they finish."""
    how = {"return_as": "generator_unordered", "batch_size": 1, "pre_dispatch": "n_jobs"}
    if scheduler is None:
        # copy-on-write: processes share large arrays, and what one writes stays its own
        options = {"inner_max_num_threads": threads, "mmap_mode": "c", "idle_worker_timeout": IDLE}
        with parallel_config("loky", n_jobs=n_jobs, **options):
            yield Parallel(**how)
        return
    with _client(scheduler) as client:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from joblib._dask import DaskDistributedBackend

        class Cluster(DaskDistributedBackend):
            def effective_n_jobs(self, n_jobs: int) -> int:
                # with one, joblib would do all in this process
                return max(2, super().effective_n_jobs(n_jobs))

        try:
            with parallel_config(Cluster(client=client, scatter=list(data.values()))):
                yield Parallel(**how)
        except (KilledWorker, FutureCancelledError) as error:  # the task's own, or data that lay there
            raise TerminatedWorkerError(str(error)) from None


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            'scheduler needs Dask, which is not installed: pip install "cignn[cluster]".'
        ) from None
    client, failure = None, ""
    try:
        client = Client(scheduler, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TypeError: TLS without certificates
        failure = str(error)
    if client is None:
        # What is left of a client stops its loop when it is collected; while the next one starts, that would
        # wait for a lock without end.
        gc.collect()
        advice = "check the address"
        if scheduler.startswith("tls://"):
            advice += " and the certificates that Dask is told of (DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …)"
        raise ValueError(f"no Dask scheduler answers at {scheduler!r} ({failure}); {advice}.")
    with client:
        wide = [address for address, threads in client.nthreads().items() if threads != 1]
        if wide:  # torch's chance is one for all threads of a process
            raise ValueError(
                f"Dask worker {wide[0]} has several threads; start workers with --nthreads 1 "
                "(--nworkers for more of them), else figures depend on what runs beside."
            )
        yield client
