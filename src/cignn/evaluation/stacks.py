"""Stacks of tasks: what is trained together, and how it is run."""

from __future__ import annotations

import platform
import warnings
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from cignn._arrays import digest
from cignn.connectome import Connectivity, ConnectomeGraphs
from cignn.estimators.stacks import Fit, fit_together, stackable
from cignn.evaluation.classification import ERRORS
from cignn.evaluation.methods import (
    plain,
    predicts_scores,
    uses_validation,
    was_interrupted,
    with_seed,
    with_settings,
)
from cignn.evaluation.splits import Labels, Split, labels_of
from cignn.evaluation.tasks import (
    Fitted,
    Outcome,
    Task,
    forget_peak_memory,
    limited_threads,
    memory_left,
    nanmean,
    peak_memory,
    predict,
    score,
    scores_of,
    shared_time,
    unlabelled_test,
)

# Trainings in a stack by default. On a GPU a hundred networks at once are enough (the time of each falls no
# further), and a kill loses no more than these: minutes of the slowest method. On a CPU they take turns.
ON_GPU, ON_CPU = 100, 1


class Stack(NamedTuple):
    """Tasks on the same data whose networks are trained together.

    ``at_once`` is how many trainings, of tasks or of candidates of their searches, are done at once.
    """

    tasks: list[Task]
    at_once: int = 1

    def smaller(self) -> list[Stack]:
        """Return stacks of the same tasks that need less memory; none where that cannot be."""
        half = ceil(len(self.tasks) / 2)
        if len(self.tasks) == 1:
            return [Stack(self.tasks)] if self.at_once > 1 else []
        at_once = ceil(self.at_once / 2)
        return [Stack(self.tasks[:half], at_once), Stack(self.tasks[half:], at_once)]


def stacked(tasks: Sequence[Task], size: int | str, gpu_workers: int) -> list[Stack]:
    """Put tasks that can be trained together into stacks; any other is a stack of its own.

    size : trainings in a stack, or "auto". gpu_workers : workers with a GPU, among whom "auto" divides the
    tasks evenly; 0 where they have none.
    """
    groups: dict[Hashable, list[Task]] = {}
    stacks = []
    for task in tasks:
        common = _in_common(task)
        if common is None:
            stacks.append(Stack([task]))
        else:
            groups.setdefault(common, []).append(task)
    for group in groups.values():
        at_once = _at_once(group[0], gpu_workers) if isinstance(size, str) else size
        each = max(1, at_once // max(map(_trainings, group)))
        if isinstance(size, str) and gpu_workers:
            each = min(each, ceil(len(group) / gpu_workers))
        stacks += [Stack(group[i : i + each], at_once) for i in range(0, len(group), each)]
    return stacks


def _in_common(task: Task) -> Hashable | None:
    """What the tasks of a stack have in common: data, steps and network; None for one that is run alone."""
    estimator, model = task.estimator, _classifier(task.estimator)
    network = stackable(model)
    if network is None or model.checkpoint is not None:  # a file that they would write at the same time
        return None
    steps = plain([step for _, step in estimator.steps[:-1]]) if isinstance(estimator, Pipeline) else []
    return task.data, digest(steps), network


def _classifier(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) and estimator.steps else estimator


def _at_once(task: Task, gpu_workers: int) -> int:
    device = str(_classifier(task.estimator).device)
    return ON_GPU if gpu_workers and (device == "auto" or device.startswith("cuda")) else ON_CPU


def _trainings(task: Task) -> int:
    """How many fits a task is made of."""
    return 1 if task.grid is None else 1 + len(task.grid) * task.protocol.n_inner


# --------------------------------------------------------------------- running


def run_stack(stack: Stack, data: Any, threads: int = 1) -> Iterator[Outcome]:
    """Do the tasks of a stack; yields each outcome when it is known. An exception is that of its task alone.

    The seconds of a task are those of its own work (steps before the network, predictions, explanations) and
    an equal part of the time in which its network was trained with others. Its peak memory is that of the
    stack until then.
    """
    forget_peak_memory()
    labels = labels_of(data)
    if predicts_scores(stack.tasks[0].estimator):
        labels = labels.as_scores()
    running = [(task, Outcome(task.key, host=platform.node())) for task in stack.tasks]
    with limited_threads(threads):
        _search(running, data, labels, stack.at_once)
        trainings = [Training(task, outcome, outcome.chosen or {}, task.split) for task, outcome in running]
        for training, fitted in zip(trainings, fit_in_folds(trainings, data, stack.at_once), strict=True):
            task, outcome = training.task, training.outcome
            if outcome.error is None:
                with outcome.alone():
                    score(task, unfailed(fitted), data, labels, outcome)
            outcome.peak_memory = peak_memory()
            yield outcome


def _search(running: Sequence[tuple[Task, Outcome]], data: Any, labels: Labels, at_once: int) -> None:
    """Choose the settings of the tasks that have a grid: the best mean score over inner splits."""
    searching = [pair for pair in running if pair[0].grid is not None]
    trainings: list[Training] = []
    for task, outcome in searching:
        with outcome.alone():
            inner = task.protocol.inner_splits(labels, task.split, task.seed)
            trainings += [Training(task, outcome, one, split) for one in task.grid or [] for split in inner]
    values: dict[str, list[float]] = {task.key: [] for task, _ in searching}
    for training, fitted in zip(trainings, fit_in_folds(trainings, data, at_once), strict=True):
        if training.outcome.error is None:
            with training.outcome.alone():
                values[training.task.key].append(_inner_score(training, unfailed(fitted), data, labels))
    for task, outcome in searching:
        if outcome.error is None:
            with outcome.alone():
                outcome.chosen = _best(task.grid or [], values[task.key], task.search_metric)


def _inner_score(training: Training, fitted: Fitted, data: Any, labels: Labels) -> float:
    task, index = training.task, training.split.test
    predictions = predict(fitted, unlabelled_test(fitted, data, training.split), index, labels)
    scores = scores_of(predictions, task.positive)
    if task.search_metric not in scores:
        raise ValueError(
            f"{task.search_metric} needs probabilities, {type(fitted.model).__name__} gives none."
        )
    return scores[task.search_metric]


def _best(grid: list[dict[str, Any]], values: list[float], metric: str) -> dict[str, Any]:
    """Return the settings with the best mean of their scores, of equal ones the first.

    Splits that cannot be scored, for want of a class, are left out of the mean.
    """
    of_splits = np.reshape(values, (len(grid), len(values) // max(1, len(grid))))
    means = [nanmean(row) * (-1 if metric in ERRORS else 1) for row in of_splits]
    if np.isnan(means).all():
        raise ValueError(
            f"there is no {metric} in any of {of_splits.shape[1]} inner splits, which lack a class; "
            'search by another search_metric, such as "accuracy".'
        )
    return grid[int(np.nanargmax(means))]


# --------------------------------------------------------------------- fitting


class Training(NamedTuple):
    """A fit of a task, whose outcome counts the time: the settings that are tried, and the split."""

    task: Task
    outcome: Outcome
    settings: dict[str, Any]
    split: Split


class Start(NamedTuple):
    """Steps that learn nothing, and all data after them."""

    steps: list[Any]
    data: Any


class Parts(NamedTuple):
    """The training and validation parts as the classifier sees them, and the fitted transformers."""

    transformers: list[Any]
    train: Any
    y: Any
    eval_set: tuple[Any, Any] | None  # None for a classifier that chooses no epoch


@dataclass
class Fold:
    """A classifier, what it learns from, and why it could not."""

    outcome: Outcome
    model: Any = None
    parts: Parts | None = None
    error: Exception | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Count the time of the work inside as the task's own, and keep an exception in it."""
        with shared_time([self.outcome]):
            try:
                yield
            except Exception as error:
                self.error = error

    def fitted(self) -> Fitted | Exception:
        """Return the method, or why there is none."""
        if self.parts is None or self.error is not None:
            return self.error or ValueError("its task has failed")
        return Fitted(self.parts.transformers, self.model, self.parts.train)


def unfailed(fitted: Fitted | Exception) -> Fitted:
    """Return the method, or raise the exception that it has become."""
    if isinstance(fitted, Exception):
        raise fitted
    return fitted


def fit_in_folds(trainings: Sequence[Training], data: Any, at_once: int) -> Iterator[Fitted | Exception]:
    """Yield methods fitted on their training parts, or the exception where that failed.

    Every step is fitted on the training part, and the epoch is chosen on the validation part. A classifier
    that chooses no epoch learns from both: what is set aside for others is not withheld from it. As many are
    fitted together as ``at_once`` says, and as long as their parts take no more than half of the free memory.
    """
    waiting = deque(trainings)
    starts: dict[str, Start] | None = {} if at_once > 1 and len(trainings) > 1 else None
    while waiting:
        folds: list[Fold] = []
        known: dict[str, Parts] = {}
        enough = memory_left() / 2
        while waiting and len(folds) < at_once and (not folds or memory_left() >= enough):
            folds.append(_fold(waiting.popleft(), data, known, starts))
        known.clear()
        _fit([fold for fold in folds if fold.parts is not None])
        folds.reverse()
        while folds:  # what has been used is forgotten
            yield folds.pop().fitted()


def _fold(training: Training, data: Any, known: dict[str, Parts], starts: dict[str, Start] | None) -> Fold:
    """Fit the steps before the classifier, once for all with the same steps, seed and training part."""
    task, outcome, settings, split = training
    fold = Fold(outcome)
    if outcome.error is not None:  # another training of the task has failed
        return fold
    with fold.alone():
        estimator = with_seed(with_settings(task.estimator, settings), task.seed)
        steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
        transformers = [step for step in steps[:-1] if step not in (None, "passthrough")]
        fold.model = steps[-1]
        validates = uses_validation(fold.model) and len(split.validation) > 0
        rows = (split.train, split.validation) if validates else (split.development, split.development[:0])
        same = digest(plain(transformers), task.seed if _by_chance(transformers) else None, *rows)
        if same not in known:
            start = Start([], data) if starts is None else _start(transformers, data, starts)
            known[same] = _parts(transformers, start, *rows)
        fold.parts = known[same]
    return fold


def _by_chance(transformers: list[Any]) -> bool:
    names = [name for step in transformers for name in step.get_params(deep=True)]
    return any(name.split("__")[-1] == "random_state" for name in names)


def _start(transformers: list[Any], data: Any, known: dict[str, Start]) -> Start:
    """Apply the first steps to all data, as long as they treat every scan on its own.

    They learn nothing, and what they make of a scan does not depend on the others: folds can share it.
    """
    start = Start([], data)
    for i, step in enumerate(transformers):
        if type(step) is not ConnectomeGraphs and (type(step) is not Connectivity or step.kind == "tangent"):
            break
        name = digest(plain(transformers[: i + 1]))
        try:
            if name not in known:
                made = clone(step).fit(start.data)
                known[name] = Start([*start.steps, made], made.transform(start.data))
        except Exception:  # of some scans: the folds that they are in will say so
            break
        start = known[name]
    return start


def _parts(transformers: list[Any], start: Start, rows: np.ndarray, held_out: np.ndarray) -> Parts:
    """Fit the steps on the training part, the first of them excepted that are applied already."""
    train, validation = start.data[rows], start.data[held_out] if len(held_out) else None
    y, y_validation = train.y, None if validation is None else validation.y
    rest = transformers[len(start.steps) :]
    for step in rest:
        train = step.fit(train, y).transform(train)
        validation = None if validation is None else step.transform(validation)
    eval_set = None if validation is None else (validation, y_validation)
    return Parts([*start.steps, *rest], train, y, eval_set)


def _fit(folds: list[Fold]) -> None:
    """Fit the classifiers, networks together."""
    networks, fits = [], []
    for fold in folds:
        assert fold.parts is not None
        _, train, y, eval_set = fold.parts
        if stackable(fold.model) is not None:
            networks.append(fold)
            fits.append(Fit(fold.model, train, y, eval_set))
            continue
        with fold.alone():
            fold.model.fit(train, y, **({} if eval_set is None else {"eval_set": eval_set}))
    with shared_time([fold.outcome for fold in networks]):
        failures = _fit_networks(fits)
    for fold, failure in zip(networks, failures, strict=True):
        fold.error = failure
    if any(was_interrupted(fold.model) for fold in folds):  # it kept what it had: no score of the method
        raise KeyboardInterrupt


def _fit_networks(fits: list[Fit]) -> list[Exception | None]:
    """Return the exceptions of those that failed; what fails as a whole is fitted one by one."""
    try:
        return fit_together(fits) if fits else []
    except Exception as error:
        if len(fits) == 1:
            return [error]
        why = f"{type(error).__name__}: {error}"
    # out here the exception is gone, and with it what it held of the memory
    warnings.warn(f"{len(fits)} networks are trained one by one, together failed ({why}).", stacklevel=2)
    return [_fit_networks([fit])[0] for fit in fits]
