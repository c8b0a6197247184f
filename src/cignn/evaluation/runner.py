"""`evaluate`: methods × data × splits × seeds, in processes or on a cluster, kept as they finish."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._arrays import digest
from cignn._checks import jobs, shown, whole
from cignn._progress import progress_bar
from cignn.datasets import Cohort
from cignn.estimators import REGRESSORS
from cignn.evaluation.audit import audit
from cignn.evaluation.classification import METRICS, OF_POSITIVE, positive_class
from cignn.evaluation.methods import (
    Methods,
    are_regressors,
    on_data,
    plain,
    resolve_data,
    resolve_explainers,
    resolve_methods,
    resolve_search,
    with_settings,
)
from cignn.evaluation.probes import brief
from cignn.evaluation.regression import REGRESSION_METRICS
from cignn.evaluation.resampling import rescored
from cignn.evaluation.splits import Split, check_splits, labels_of
from cignn.evaluation.splitters import Given, Splitter, make_protocol
from cignn.evaluation.stacks import Stack, run_stack, stacked
from cignn.evaluation.store import Store, versions
from cignn.evaluation.tasks import Outcome, Task
from cignn.evaluation.workers import gpu_workers, in_processes, workers

COLUMNS = [
    *("method", "data", "protocol", "split", "seed", "explainer", "metric", "value", "positive"),
    *("n_train", "n_validation", "n_test", "error", "settings_digest", "key"),
]

_TOLD: dict[str, str] = {}  # what audits of this process found, by data and splits


class TaskFailedWarning(UserWarning):
    """Some tasks of an evaluation failed; the results of the others are complete.

    Examples
    --------
    >>> import warnings
    >>> from cignn.evaluation import TaskFailedWarning
    >>> warnings.simplefilter("error", TaskFailedWarning)  # stop at the end of an evaluation with failures
    >>> warnings.simplefilter("default", TaskFailedWarning)
    """


def evaluate(
    methods: Methods,
    data: Any,
    protocol: str | Splitter | Sequence[Split] = "holdout",
    seeds: int | Iterable[int] = 1,
    *,
    explainers: Methods | None = None,
    search: Mapping[str, Any] | None = None,
    search_metric: str = "auto",
    positive: Any = None,
    store: Store | str | Path | None = None,
    n_jobs: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    stack: int | str = "auto",
    retry_failed: bool = False,
    verbose: int = 1,
) -> pd.DataFrame:
    """Train and score methods by hold-out or cross-validation, without leakage of test data.

    Every step of a method is fitted inside the fold. The epoch is chosen on validation data, and parameters
    are searched on inner splits. Test labels are removed before a method sees the test part, which is scored
    once. A task is one method on one data set, split and seed.

    Parameters
    ----------
    methods : str, sequence of str, or mapping
        Names known to `make_estimator`; or a mapping of names to parameters (``{"gin": {"epochs": 50}}`` or,
        with a name of your own, ``{"short": {"method": "gin", "epochs": 50}}``) or to estimators and
        pipelines. All are classifiers, or all are regressors, whose labels are a score. Every
        ``random_state`` in them is set to the seed.
    data : GraphSet, Cohort, or mapping of names to them
        For a classifier of graphs, a cohort is turned into graphs by `Connectivity` and `ConnectomeGraphs`. A
        pipeline gets the cohort itself.
    protocol : {"holdout", "kfold", "loso"}, splitter, or sequence of Split, default="holdout"
        How the data are split: a name, a splitter such as ``KFold(n_splits=5)``, or splits of your own.
    seeds : int or iterable of int, default=1
        Seeds, or their number (3 means 0, 1, 2). Each seed draws its own splits.
    explainers : str, sequence of str, mapping, or None, default=None
        Names known to `make_explainer`, or a mapping of names to parameters or explainers. They explain the
        test graphs of every classifier that they support.
    search : mapping or None, default=None
        For each method a mapping of parameters to values to try, such as ``{"lasso": {"C": [0.1, 1.0]}}``.
        The best are chosen on inner splits of the training and validation parts.
    search_metric : str, default="auto"
        Metric by which parameters are chosen: the highest is best, for "calibration_error" and "mae" the
        lowest. "auto" is "accuracy", and for regressors "mae".
    positive : object, default=None
        The positive class, of two, for sensitivity, specificity and F1. By default the second in sorted
        order: 1 for 0 and 1, but TD for ASD and TD. After a change, stored predictions are scored again
        without training.
    store : Store, str, Path or None, default=None
        Folder or `Store` in which finished tasks are kept. Tasks that are there already are not repeated, so
        an interrupted run resumes.
    n_jobs : int, default=1
        Number of processes; -1 for all cores.
    scheduler : str or None, default=None
        Address of a Dask cluster to use instead of processes, "tcp://…" or "tls://…".
    threads : int, default=1
        Number of threads of torch and linear algebra in each process. Scores may differ in the last digits.
    stack : int or "auto", default="auto"
        Number of tasks of a neural method that are trained at the same time, as one stack; the settings that
        a search tries count as well. "auto" means up to 100 on a GPU, if memory allows, and 1 on a CPU; on a
        cluster, up to 100 if all workers have a GPU. Probabilities may differ in the last digits. A run that
        is killed loses the stack in flight.
    retry_failed : bool, default=False
        Whether to repeat tasks that failed in an earlier run with the same store.
    verbose : int, default=1
        1 shows a progress bar and, before the run, problems that the `audit` of each cohort finds.

    Returns
    -------
    DataFrame
        One row per task and metric: method, data, protocol, split, seed, explainer ("" for scores of the
        classifier), metric, value, positive (the positive class; None if there are more than two classes),
        n_train, n_validation, n_test (numbers of scans), error, settings_digest (a hash of the settings) and
        key (of the task). A task that failed has one row with the metric "error". Predictions, times
        and memory are in the store under the same keys: `Store.predictions`, `Store.tasks`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.evaluation import KFold, evaluate
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> methods = {"lasso": {"C": 1.0}, "random-forest": {"n_estimators": 5}}
    >>> with TemporaryDirectory() as folder:
    ...     results = evaluate(methods, graphs, KFold(2), store=folder)
    >>> results[results["metric"] == "accuracy"][["method", "split", "n_test"]]
               method split  n_test
    0           lasso     1      20
    8           lasso     2      20
    16  random-forest     1      20
    24  random-forest     2      20
    """
    named = resolve_data(data)
    tasks = plan(methods, named, protocol, seeds, explainers, search, search_metric, positive)
    options: dict[str, Any] = {"n_jobs": n_jobs, "scheduler": scheduler, "threads": threads}
    options |= {"stack": stack, "retry_failed": retry_failed, "verbose": verbose}
    results = run_tasks(tasks, named, positive=positive, store=store, **options)
    _warn_of_failures(results)
    return results


def run_tasks(
    tasks: list[Task],
    data: Mapping[str, Any],
    *,
    positive: Any = None,
    store: Store | str | Path | None = None,
    n_jobs: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    stack: int | str = "auto",
    retry_failed: bool = False,
    verbose: int = 1,
) -> pd.DataFrame:
    """Do the tasks of a `plan` that the store does not have and return the rows of all: see `evaluate`."""
    jobs("n_jobs", n_jobs)
    whole("threads", threads, 1)
    _check_stack(stack)
    if scheduler is not None and n_jobs != 1:
        raise ValueError("give n_jobs or scheduler, not both; a cluster brings its own workers.")
    data = {name: _compact(one) for name, one in data.items()}
    kept = store if isinstance(store, Store) else Store(store)
    try:
        known = kept.status({task.key for task in tasks})
        todo = list({t.key: t for t in tasks if _open(known.get(t.key), retry_failed)}.values())
        if todo:
            kept.check_writable()
        if verbose and todo:
            _tell_audits(data, tasks)
        finished = _run(todo, data, kept, n_jobs, scheduler, threads, retry_failed, stack)
        with _progress(len(tasks), len(tasks) - len(todo), verbose) as advance, closing(finished):
            for task, outcome in finished:
                if outcome is not None:
                    kept.add(task, outcome)
                advance(task)
        return _table(tasks, kept, positive)
    finally:
        if kept is not store:
            kept.close()


def plan(
    methods: Methods,
    data: Mapping[str, Any],
    protocol: str | Splitter | Sequence[Split],
    seeds: int | Iterable[int],
    explainers: Methods | None = None,
    search: Mapping[str, Any] | None = None,
    search_metric: str = "auto",
    positive: Any = None,
) -> list[Task]:
    """Return every task of an evaluation, with its key; wrong names and settings are refused here."""
    estimators = resolve_methods(methods)
    scores = are_regressors(estimators)
    known = REGRESSION_METRICS if scores else METRICS
    search_metric = ("mae" if scores else "accuracy") if search_metric == "auto" else search_metric
    if search_metric not in known:
        raise ValueError(f"search_metric must be one of {', '.join(known)}, got {search_metric!r}.")
    if scores and positive is not None:
        raise ValueError("positive is for two classes, the methods predict a score; leave it out.")
    named_explainers = resolve_explainers(explainers)
    grids = resolve_search(search, estimators)
    protocol = _protocol(protocol)
    if grids:
        whole("n_inner", protocol.n_inner, 2)
    version = versions()["cignn"]
    tasks = []
    for data_name, one in data.items():
        labels, data_digest = labels_of(one), one.digest()
        labels = labels.as_scores() if scores else labels
        if labels.strata is not None and not scores:
            raise ValueError(
                f"the labels of {data_name!r} are a score, and {next(iter(estimators))!r} predicts classes; "
                f"evaluate regressors: {', '.join(REGRESSORS)}."
            )
        classes = () if scores else labels.y
        counted, usual = positive_class(classes, positive), positive_class(classes)
        splits = {seed: protocol.splits(labels, seed) for seed in _seeds(seeds)}
        check_splits([split for some in splits.values() for split in some], labels)
        for name, estimator in estimators.items():
            estimator = on_data(estimator, one)
            settings: dict[str, Any] = {"method": plain(estimator)}
            if name in grids:
                searched = [plain(grids[name]), search_metric, protocol.n_inner]
                settings["search"] = searched + _tried(estimator, grids[name])
                if counted != usual and search_metric in OF_POSITIVE:  # other settings may be chosen
                    settings["search"].append({"positive": plain(counted)})
            if named_explainers:
                settings["explainers"] = plain(named_explainers)
            what = digest(settings, data_digest, version, length=32)
            rest = (named_explainers, grids.get(name), search_metric, counted)
            for seed, split in ((seed, split) for seed, some in splits.items() for split in some):
                key = digest(what, split.digest(), seed, length=32)
                tasks.append(Task(key, name, data_name, protocol, split, seed, estimator, settings, *rest))
    return tasks


def _tried(estimator: Any, grid: list[dict[str, Any]]) -> list[Any]:
    """Return what the settings of a grid mean where words such as "auto" are among them."""
    tried = [plain(with_settings(estimator, settings)) for settings in grid]
    return [tried] if "resolved_defaults" in json.dumps(tried) else []


def _protocol(protocol: str | Splitter | Sequence[Split]) -> Splitter:
    if isinstance(protocol, Splitter):
        return protocol
    if isinstance(protocol, str):
        return make_protocol(protocol)
    splits = tuple(protocol) if isinstance(protocol, Iterable) else ()
    if not splits or not all(isinstance(split, Split) for split in splits):
        what = f"a {type(protocol).__name__} of {type(splits[0]).__name__}" if splits else repr(protocol)
        raise ValueError(
            f"protocol must be a name, a splitter or splits (cignn.evaluation.Split), got {what}."
        )
    return Given(splits)


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    numbers: Sequence[Any] = list(seeds) if isinstance(seeds, Iterable) else []
    if isinstance(seeds, (int, np.integer)):
        numbers = range(int(seeds))
    are_seeds = all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 0 for n in numbers)
    if not len(numbers) or not are_seeds or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be different whole numbers, or how many of them, got {seeds!r}.")
    return [int(seed) for seed in numbers]


def _check_stack(stack: Any) -> None:
    if not isinstance(stack, str) or stack != "auto":
        try:
            whole("stack", stack, 1)
        except ValueError:
            raise ValueError(
                f'stack must be "auto" or a whole number of at least 1, got {shown(stack)}.'
            ) from None


def _open(status: str | None, retry_failed: bool) -> bool:
    return status is None or (status == "failed" and retry_failed)


def _compact(data: Any) -> Any:
    """Without the series that a selected cohort shares with subjects left out: processes get less to read."""
    if isinstance(data, Cohort) and data.series is not None:
        return data._with(series=data.series.compact())
    return data


def _tell_audits(data: Mapping[str, Any], tasks: list[Task]) -> None:
    """Write what an audit of each cohort and its splits finds serious or notable to stderr."""
    for name, one in data.items():
        if not isinstance(one, Cohort):
            continue
        splits = {task.split.digest(): task.split for task in tasks if task.data == name}
        key = digest(one.digest(), sorted(splits), length=32)
        if key not in _TOLD:
            try:
                _TOLD[key] = brief(audit(one, list(splits.values())))
            except ValueError as error:  # data so odd that tasks will fail, and say so
                _TOLD[key] = f" ? could not be made: {error}"
        if _TOLD[key]:
            sys.stderr.write(f"audit of {name}:\n{_fitted(_TOLD[key])}\n")


def _fitted(text: str) -> str:
    """Wrap lines at the width of the terminal."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.fill(line, width, subsequent_indent="     ") for line in text.splitlines())


# ---------------------------------------------------------------------- running


def _run(
    todo: list[Task],
    data: Mapping[str, Any],
    store: Store,
    n_jobs: int,
    scheduler: str | None,
    threads: int,
    retry_failed: bool,
    size: int | str,
) -> Generator[tuple[Task, Outcome | None]]:
    """Yield tasks as they finish, with None for those that another run has finished meanwhile."""
    by_key = {task.key: task for task in todo}
    elsewhere: list[Task] = []

    stacks = stacked(todo, size, gpu_workers(scheduler, n_jobs) if todo and size == "auto" else 0)

    def still_open() -> Iterator[Stack]:
        # by chance: the time left is told well, and two runs on one store do different things
        for i in np.random.default_rng().permutation(len(stacks)):
            known = store.status([task.key for task in stacks[i].tasks])  # asked when its turn comes
            tasks: list[Task] = []
            for task in stacks[i].tasks:
                (tasks if _open(known.get(task.key), retry_failed) else elsewhere).append(task)
            if tasks:
                yield stacks[i]._replace(tasks=tasks)

    if n_jobs == 1 and scheduler is None:
        for stack in still_open():
            for outcome in run_stack(stack, data[stack.tasks[0].data], threads):
                yield by_key[outcome.key], outcome
    elif todo:
        processes = partial(workers, scheduler, n_jobs, threads, data)
        for outcome in in_processes(still_open(), data, processes, threads):
            yield by_key[outcome.key], outcome
    for task in elsewhere:
        yield task, None


@contextmanager
def _progress(total: int, done: int, verbose: int) -> Iterator[Any]:
    """Yield a function to call with every finished task; on a terminal it moves a progress bar."""
    if not verbose or not sys.stderr.isatty() or done == total:
        yield lambda task: None
        return
    with progress_bar("{task.fields[last]}", period=3600) as bar:
        shown = bar.add_task("evaluating", total=total, completed=done, last="")
        bar.advance(shown, 0)  # the speed counts from here: the tasks of a stack finish together
        yield lambda task: bar.update(shown, advance=1, last=str(task))


# ----------------------------------------------------------------------- result


def _table(tasks: list[Task], store: Store, positive: Any = None) -> pd.DataFrame:
    """Return the rows of these tasks, in their order and under their names, scored for the positive class."""
    rows = store.results()
    if positive is not None:
        asked = rows[rows["key"].isin({task.key for task in tasks})]
        rows = rescored(asked, store.predictions(), positive)
    by_key = dict(tuple(rows.groupby("key")))
    parts = []
    for task in tasks:
        names = {"method": task.method, "data": task.data, "protocol": task.protocol.name}
        rows = by_key[task.key]
        counted = pd.Series([task.positive] * len(rows), rows.index, dtype=object)
        parts.append(rows.assign(**names, split=task.split.name, positive=counted))
    return pd.concat(parts, ignore_index=True)[COLUMNS]


def _warn_of_failures(results: pd.DataFrame) -> None:
    failed = results[(results["metric"] == "error") & (results["explainer"] == "")]
    if len(failed):
        first = failed.iloc[0]
        n_tasks = len(results[["method", "data", "split", "seed"]].drop_duplicates())
        warnings.warn(
            f"{len(failed)} of {n_tasks} tasks failed, first {first['method']} on {first['data']} (split "
            f"{first['split']}, seed {first['seed']}): {first['error']} The column error names them; "
            "retry_failed=True does them again.",
            TaskFailedWarning,
            stacklevel=3,
        )
