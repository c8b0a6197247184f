"""Is a score better than chance? The whole evaluation again, with permuted labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import whole
from cignn._progress import track
from cignn.evaluation.explanation import permuted_labels
from cignn.evaluation.methods import Methods, resolve_data
from cignn.evaluation.resampling import EVERY, permutation_p_value
from cignn.evaluation.runner import plan, run_tasks
from cignn.evaluation.splits import Split, labels_of
from cignn.evaluation.splitters import Splitter
from cignn.evaluation.store import Store
from cignn.evaluation.tables import refuse_mixtures
from cignn.evaluation.trivial import trivial_scores

PERMUTATION = "permutation"
TESTED = ("accuracy", "balanced_accuracy", "roc_auc", "mae", "r2", "r")
LOW = ("mae",)  # of which less is better
AT_A_TIME = 20  # tasks of a method that are handed on together: enough for a stack, or for some processes


def evaluate_permuted(
    methods: Methods,
    data: Any,
    protocol: str | Splitter | Sequence[Split] = "holdout",
    seeds: int | Iterable[int] = 1,
    *,
    n_permutations: int = 100,
    random_state: int = 0,
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
    """Repeat an evaluation with permuted labels: what the methods score where there is nothing to learn.

    Labels are permuted over subjects, within sites where the data have any; scans of a subject that share a
    label keep sharing one. Everything is done again, the splits included, so the test by `permutation_table`
    is exact, and it takes as many evaluations as there are permutations. A site whose subjects differ in the
    share of patients from those of other sites does so under permutation as well: what it gives away counts
    as chance.

    Parameters
    ----------
    methods : str, sequence of str, or mapping
        As for `evaluate`.
    data : GraphSet or Cohort, or mapping of one name to it
        As for `evaluate`, one data set.
    protocol : {"holdout", "kfold", "loso"}, splitter, or sequence of Split, default="holdout"
        As for `evaluate`.
    seeds : int or iterable of int, default=1
        As for `evaluate`.
    n_permutations : int, default=100
        Number of permutations; the smallest p-value is 1 / (n_permutations + 1).
    random_state : int, default=0
        Seed of the permutations. More of them continue those there are.
    search : mapping or None, default=None
        As for `evaluate`.
    search_metric : str, default="auto"
        As for `evaluate`.
    positive : object, default=None
        As for `evaluate`.
    store : Store, str, Path or None, default=None
        Folder or `Store` of finished tasks, so that an interrupted run resumes. Take another one than that of
        the evaluation: predictions of permuted labels are not to be mixed with those of true ones.
    n_jobs : int, default=1
        As for `evaluate`.
    scheduler : str or None, default=None
        As for `evaluate`.
    threads : int, default=1
        As for `evaluate`.
    stack : int or "auto", default="auto"
        As for `evaluate`.
    retry_failed : bool, default=False
        As for `evaluate`.
    verbose : int, default=1
        1 shows a progress bar.

    Returns
    -------
    DataFrame
        The columns of `evaluate` and "permutation", their number from 1. Methods called "majority class" and
        "site's majority" ("mean" and "site's mean" of scores) are there as well: they need no connection.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.evaluation import evaluate, evaluate_permuted, permutation_table
    >>> graphs, methods = make_ba2motifs(40, random_state=0), {"lasso": {"C": 1.0}}
    >>> results = evaluate(methods, graphs, verbose=0)
    >>> permuted = evaluate_permuted(methods, graphs, n_permutations=4, verbose=0)
    >>> table = permutation_table(results, permuted, ["accuracy"])
    >>> table[["method", "n_permutations"]].to_numpy().tolist()
    [['lasso', 4]]
    """
    whole("n_permutations", n_permutations, 1)
    named = resolve_data(data)
    if len(named) != 1:
        raise ValueError(
            f"labels of one data set are permuted at a time, got {len(named)}: {', '.join(named)}."
        )
    ((name, one),) = named.items()
    _check_movable(one)
    running: dict[str, Any] = {"n_jobs": n_jobs, "scheduler": scheduler, "threads": threads, "stack": stack}
    running |= {"retry_failed": retry_failed, "positive": positive, "verbose": 0}
    asked = (protocol, seeds, None, search, search_metric, positive)
    each = Counter(task.method for task in plan(methods, {name: one}, *asked))
    size = -(-AT_A_TIME // max(each.values()))
    kept = store if isinstance(store, Store) else Store(store)
    parts: list[pd.DataFrame] = []
    try:
        waiting: list[int] = []
        for k in track(range(1, n_permutations + 1), "permutations", n_permutations, verbose):
            waiting.append(k)
            if len(waiting) < size and k < n_permutations:
                continue
            moved = {_called(name, i): one.with_y(labels_permuted(one, [random_state, i])) for i in waiting}
            tasks = plan(methods, moved, *asked)
            parts += _rows(run_tasks(tasks, moved, store=kept, **running), tasks, moved, name, waiting)
            waiting = []
    finally:
        if kept is not store:
            kept.close()
    return pd.concat(parts, ignore_index=True)


def _called(name: str, k: int) -> str:
    return f"{name}, permutation {k}"


def _rows(
    results: pd.DataFrame, tasks: list[Any], moved: Mapping[str, Any], name: str, numbers: list[int]
) -> list[pd.DataFrame]:
    """Rows of some permutations under the name of the data, with those of trivial methods."""
    out = []
    for (called, one), k in zip(moved.items(), numbers, strict=True):
        own = results[results["data"] == called]
        trivial = trivial_scores([task for task in tasks if task.data == called], one)
        both = pd.concat([own, trivial.reindex(columns=own.columns)], ignore_index=True)
        out.append(both.assign(data=name, permutation=k))
    return out


def labels_permuted(data: Any, seed: Any) -> np.ndarray:
    """(n,) labels of the scans, permuted over the subjects of each site.

    A subject with scans at several sites exchanges labels with subjects of the same sites.
    """
    labels = labels_of(data)
    random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))
    if labels.sites is None:
        return permuted_labels(labels.y, labels.subjects, random)
    y = labels.y.copy()
    where = _strata(labels.subjects, labels.sites)
    for stratum in np.unique(where):
        here = np.flatnonzero(where == stratum)
        y[here] = permuted_labels(y[here], labels.subjects[here], random)
    return y


def _strata(subjects: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """(n,) the sites of each scan's subject, as a number."""
    of_subject = pd.Series(sites).groupby(subjects).agg(lambda own: tuple(sorted(set(own))))
    return pd.factorize(of_subject.loc[subjects].to_numpy())[0]


def _check_movable(data: Any) -> None:
    """Refuse data in which no two subjects of a site differ in their label."""
    labels = labels_of(data)
    if labels.sites is None:
        return
    where = _strata(labels.subjects, labels.sites)
    if all(len(np.unique(labels.y[where == stratum])) == 1 for stratum in np.unique(where)):
        raise ValueError(
            "labels are permuted within sites, and no site has subjects of two classes: no score can be told "
            "from that of the site."
        )


def permutation_table(
    results: pd.DataFrame, permuted: pd.DataFrame, metrics: Sequence[str] = TESTED
) -> pd.DataFrame:
    """Test the scores of methods against those with permuted labels.

    Parameters
    ----------
    results : DataFrame
        Rows of `evaluate`.
    permuted : DataFrame
        Rows of `evaluate_permuted` with the same methods, protocol and seeds.
    metrics : sequence of str, default=("accuracy", "balanced_accuracy", "roc_auc", "mae", "r2", "r")
        The scores to test, their mean over all tasks of a method. Those that no method has are left out.

    Returns
    -------
    DataFrame
        One row per method and metric: method, data, protocol, metric, value, permuted_mean, permuted_std
        (over permutations), p_value (1 + how many permutations reach the value, divided by 1 + how many there
        are) and n_permutations. Permutations with a failed task of the method do not count.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import permutation_table
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "kfold", "metric": "accuracy"}
    >>> results = pd.DataFrame(columns | {"value": [0.7, 0.8]})
    >>> permuted = pd.DataFrame(columns | {"permutation": [1, 1, 2, 2], "value": [0.5, 0.4, 0.6, 0.5]})
    >>> table = permutation_table(results, permuted)
    >>> table["value"].item(), table["permuted_mean"].item(), round(table["p_value"].item(), 3)
    (0.75, 0.5, 0.333)
    """
    for metric in metrics:
        if metric not in EVERY:
            raise ValueError(f"metric must be one of {', '.join(EVERY)}, got {metric!r}.")
    if PERMUTATION not in permuted:
        raise ValueError(f"permuted must come from evaluate_permuted, it has no column {PERMUTATION!r}.")
    refuse_mixtures(results)
    results, permuted = (_of_classifiers(table) for table in (results, permuted))
    failed = permuted[permuted["metric"] == "error"]
    spoilt = set(zip(failed["method"], failed[PERMUTATION], strict=True))
    rows = []
    by = ["method", "data", "protocol"]
    for names, own in results.groupby(by, sort=False):
        null = permuted[(permuted[by] == list(names)).all(axis=1)]
        for metric in metrics:
            value = own.loc[own["metric"] == metric, "value"].mean()
            means = null[null["metric"] == metric].groupby(PERMUTATION)["value"].mean()
            means = means[[(names[0], k) not in spoilt for k in means.index]].dropna()
            if np.isnan(value) or not len(means):
                continue
            sign = -1 if metric in LOW else 1
            p_value = permutation_p_value(sign * value, sign * means.to_numpy())
            spread = means.std() if len(means) > 1 else np.nan
            rows.append((*names, metric, value, means.mean(), spread, p_value, len(means)))
    columns = [*by, "metric", "value", "permuted_mean", "permuted_std", "p_value", "n_permutations"]
    return pd.DataFrame(rows, columns=columns)


def _of_classifiers(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["explainer"] == ""] if "explainer" in table else table
