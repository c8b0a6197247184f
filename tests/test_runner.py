"""What must hold for a run: honest, the same however it is run, and nothing done twice or lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from cignn import Cohort, CohortClassifier, GraphSet
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import PRESETS, GNNClassifier, ShallowGraphClassifier, make_estimator, settings
from cignn.evaluation import (
    Holdout,
    KFold,
    Split,
    Store,
    TaskFailedWarning,
    bootstrap_intervals,
    evaluate,
    make_protocol,
    permutation_test,
    runner,
    score_table,
    store_file,
    summary,
    tasks,
)
from cignn.evaluation.classification import METRICS
from cignn.evaluation.methods import plain
from cignn.evaluation.splits import labels_of
from cignn.evaluation.splitters import Given
from cignn.evaluation.stacks import Stack, run_stack
from cignn.evaluation.tasks import Outcome, Task
from cignn.evaluation.workers import in_processes
from cignn.explainers import make_explainer
from cignn.paper.data import SubgraphClassifier
from cignn.report.performance import method_tables

pytestmark = pytest.mark.medium

GIN = {"method": "gin", "epochs": 2, "hidden": (8,), "head_hidden": ()}
FEW = {"lasso": {"C": 1.0}, "linear-svm": {"C": 1.0}}


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(40, 10, n_edges=6, effect=0.8, n_sites=5, data="matrices", random_state=0)


@pytest.fixture(scope="module")
def motifs() -> GraphSet:
    return make_ba2motifs(30, random_state=0)


def test_a_classifier_of_tables_is_told_that_a_cohort_is_none(cohort: Cohort) -> None:
    with pytest.warns(TaskFailedWarning):
        results = evaluate({"logistic": LogisticRegression()}, cohort)
    (told,) = results["error"].unique()
    assert "a Cohort is no table of features; use a classifier of graphs" in told
    with pytest.raises(ValueError, match="no scores, every task failed; the column error says why"):
        summary(results, ["accuracy"])


class Spy(ClassifierMixin, BaseEstimator):
    """Predicts the most frequent class; writes down what it is given."""

    seen: list[dict[str, Any]] = []  # noqa: RUF012

    def __init__(self, guess: Any = None, random_state: Any = None) -> None:
        self.guess = guess
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Spy:
        self.classes_, counts = np.unique(y, return_counts=True)
        self.most_ = self.classes_[counts.argmax()] if self.guess is None else self.guess
        Spy.seen.append({"fit": list(X.meta["subject"]), "seed": self.random_state, "guess": self.guess})
        return self

    def predict(self, X: Any) -> np.ndarray:
        Spy.seen.append({"predict": list(X.meta["subject"]), "y": X.y})
        return np.full(len(X), self.most_)


class EpochSpy(Spy):
    """A spy that would choose an epoch."""

    def fit(self, X: Any, y: Any, eval_set: Any = None) -> EpochSpy:
        super().fit(X, y)
        Spy.seen[-1]["validation"] = list(eval_set[0].meta["subject"])
        assert list(eval_set[1]) == list(eval_set[0].y)
        return self


class FitSpy(TransformerMixin, BaseEstimator):
    """A transformer that writes down whom it is fitted on."""

    def fit(self, X: Any, y: Any = None) -> FitSpy:
        Spy.seen.append({"transformer": list(X.subjects)})
        return self

    def transform(self, X: Any) -> Any:
        return X


class Fails(Spy):
    """Fails for some seeds, and says how many threads there are."""

    def fit(self, X: Any, y: Any) -> Fails:
        if self.random_state in (1, 3):
            raise RuntimeError(f"no luck with {torch.get_num_threads()} thread")
        return super().fit(X, y)  # type: ignore[return-value]


@pytest.fixture
def seen() -> list[dict[str, Any]]:
    Spy.seen.clear()
    return Spy.seen


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the tasks that are really done from now on, in this process."""
    keys: list[str] = []
    run = runner.run_stack

    def count(stack: Stack, *rest: Any) -> Iterator[Outcome]:
        keys.extend(task.key for task in stack.tasks)
        return run(stack, *rest)

    monkeypatch.setattr(runner, "run_stack", count)
    return keys


# -------------------------------------------------------------------------- table


def test_every_task_and_metric_is_a_row(cohort: Cohort, motifs: GraphSet) -> None:
    data = {"brains": cohort, "motifs": motifs}
    table = evaluate({"lasso": None, "short gin": GIN}, data, Holdout(n_repeats=2), seeds=[3, 5])
    assert list(table.columns[:5]) == ["method", "data", "protocol", "split", "seed"]
    assert {"metric", "value", "explainer", "error"} <= set(table.columns)
    assert len(table) == 2 * 2 * 2 * 2 * len(METRICS)
    assert set(table["metric"]) == set(METRICS) and set(table["seed"]) == {3, 5}
    assert set(table["split"]) == {"1", "2"} and set(table["protocol"]) == {"holdout"}
    assert table["value"].between(-1, 1).all() and table["error"].isna().all()
    assert not table.duplicated(["method", "data", "split", "seed", "metric"]).any()


def test_the_same_run_gives_the_same_table(motifs: GraphSet) -> None:
    tables = [evaluate({"gin": GIN}, motifs, "kfold", seeds=1) for _ in range(2)]
    pd.testing.assert_frame_equal(*tables)


def test_planted_edges_are_found_at_sites_never_seen(cohort: Cohort) -> None:
    table = evaluate(FEW, cohort, "loso")
    assert set(table["split"]) == {f"site-{k}" for k in range(1, 6)}
    assert table[table["metric"] == "accuracy"].groupby("method")["value"].mean().min() > 0.8


def test_processes_give_the_same_table_with_one_thread_each(cohort: Cohort, tmp_path: Path) -> None:
    methods = {"gin": GIN, "lasso": {"C": 1.0}, "fails": make_pipeline(ConnectomeGraphs(), Fails())}
    large = cohort.with_matrices(cohort.matrices)[np.arange(400) % 40]  # subjects of ten scans, over 1 MB
    tables = []
    for n_jobs in (1, 2):
        with pytest.warns(TaskFailedWarning, match="1 of 6 tasks failed, first fails.*no luck with 1 thread"):
            tables.append(evaluate(methods, large, Holdout(), 2, n_jobs=n_jobs, store=tmp_path / str(n_jobs)))
    pd.testing.assert_frame_equal(*tables)


class Mortal:
    """Runs calls in turn as joblib would in processes, which die of the task of seed 1."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def __call__(self, calls: Iterable[Any]) -> Iterator[list[Outcome]]:
        waiting: list[Any] = []
        for call in calls:
            waiting.append(call)
            if len(waiting) == self.n_jobs:
                yield self.run(waiting)
        while waiting:
            yield self.run(waiting)

    def run(self, waiting: list[Any]) -> list[Outcome]:
        if any(task.seed == 1 for _, arguments, _ in waiting for task in arguments[0].tasks):
            raise TerminatedWorkerError("killed")
        function, arguments, _ = waiting.pop(0)
        return function(*arguments)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_task_that_kills_its_process_is_found_and_the_others_are_done(motifs: GraphSet, size: int) -> None:
    tasks = runner.plan({"lasso": {"C": 1.0}}, {"data": motifs}, "holdout", 7)
    stacks = [Stack(tasks[i : i + size], size) for i in range(0, len(tasks), size)]
    workers = partial(nullcontext, Mortal(3))
    outcomes = list(in_processes(iter(stacks), {"data": motifs}, workers, 1))
    assert sorted(o.key for o in outcomes) == sorted(task.key for task in tasks)
    failed = [o for o in outcomes if o.error is not None]
    assert [o.key for o in failed] == [task.key for task in tasks if task.seed == 1]
    assert "its process was killed" in str(failed[0].error)


# --------------------------------------------------------------------------- honesty


def garbled(data: Any, split: Split) -> Any:
    y = np.array(data.y).astype(object)
    y[split.test] = 7
    return data.with_y(y.astype(int))


@pytest.mark.parametrize("protocol", ["holdout", "kfold", "loso"])
def test_predictions_do_not_know_the_test_labels(cohort: Cohort, protocol: str) -> None:
    """Test labels are replaced with garbage: whatever a method could learn from them would show."""
    methods: dict[str, Any] = {
        "lasso": None,
        "gin": GIN,
        "harmonised": make_pipeline(
            Connectivity(), ComBat(), ConnectomeGraphs(), ShallowGraphClassifier(C=1.0)
        ),
        "searched": {"method": "lasso"},
    }
    if protocol == "loso":  # a site never seen cannot be harmonised
        del methods["harmonised"]
    split = make_protocol(protocol).splits(labels_of(cohort), 0)[0]
    said = []
    for data in (cohort, garbled(cohort, split)):
        with Store() as store:
            grid = {"searched": {"C": [0.1, 1.0, 10.0]}}
            evaluate(methods, data, [split], seeds=2, search=grid, store=store)
            assert (store.tasks()["status"] == "done").all(), store.tasks()["error"].tolist()
            said.append(store.predictions())
            chosen = store.tasks().set_index("method")["chosen"]["searched"].tolist()
        said[-1]["chosen"] = str(chosen)
    assert (said[0]["y_true"] != 7).all() and (said[1]["y_true"] == 7).all()
    same = ["method", "seed", "position", "subject", "y_pred", "p_0", "p_1", "chosen"]
    pd.testing.assert_frame_equal(said[0][same], said[1][same])
    assert said[0]["p_1"].nunique() > 10


def test_every_step_learns_from_the_training_part_alone(cohort: Cohort, seen: list) -> None:
    names = np.asarray(cohort.subjects)
    split = Holdout().splits(labels_of(cohort), 0)[0]
    evaluate({"spy": make_pipeline(FitSpy(), ConnectomeGraphs(), EpochSpy())}, cohort, [split])
    assert [list(one) for one in seen] == [
        ["transformer"],
        ["fit", "seed", "guess", "validation"],
        ["predict", "y"],
    ]
    assert seen[0]["transformer"] == seen[1]["fit"] == names[split.train].tolist()
    assert seen[1]["validation"] == names[split.validation].tolist()
    assert seen[2]["predict"] == names[split.test].tolist()
    assert seen[2]["y"] is None  # the labels are off


def test_who_chooses_no_epoch_learns_from_the_validation_part_too(cohort: Cohort, seen: list) -> None:
    split = Holdout().splits(labels_of(cohort), 0)[0]
    evaluate({"spy": make_pipeline(FitSpy(), ConnectomeGraphs(), Spy())}, cohort, [split], seeds=[4])
    expected = np.asarray(cohort.subjects)[split.development].tolist()
    assert seen[0]["transformer"] == seen[1]["fit"] == expected
    assert seen[1]["seed"] == 4


def test_settings_are_searched_without_the_test_part(cohort: Cohort, seen: list) -> None:
    split = KFold(4).splits(labels_of(cohort), 0)[0]
    tested = set(np.asarray(cohort.subjects)[split.test])
    pipeline = make_pipeline(FitSpy(), ConnectomeGraphs(), Spy())
    y = cohort.y.copy()
    y[:] = 1
    y[split.test] = 0  # guessing 0 is right in the test part and nowhere else
    y[split.development[:6]] = 0
    with Store() as store:
        evaluate({"spy": pipeline}, cohort.with_y(y), [split], search={"spy": {"guess": [0, 1]}}, store=store)
        assert store.tasks()["chosen"].tolist() == [{"guess": 1}]
    last = max(i for i, one in enumerate(seen) if "transformer" in one)
    assert last == 2 * 3 * 3  # two settings, three inner splits; then the task itself
    for one in seen[:last]:
        assert not tested & set(one.get("transformer", []) + one.get("fit", []) + one.get("predict", []))
    assert set(seen[-1]["predict"]) == tested


class Tells(Spy):
    """Gives the probability it is told to, whatever it has learnt."""

    def __init__(self, chance: float = 0.5, random_state: Any = None) -> None:
        self.chance = chance
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Tells:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile([1 - self.chance, self.chance], (len(X), 1))

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(1)]


def chosen_by(metric: str, model: Any, grid: dict, data: GraphSet, inner: list[Split]) -> dict[str, Any]:
    class Inner(Given):
        def inner_splits(self, *_: Any) -> list[Split]:
            return inner

    protocol = Inner(tuple(inner))
    task = Task(
        "key", "method", "data", protocol, inner[-1], 0, model, {}, {}, [*ParameterGrid(grid)], metric
    )
    (outcome,) = run_stack(Stack([task]), data)
    if outcome.error is not None:
        raise ValueError(outcome.error)
    assert outcome.chosen is not None
    return outcome.chosen


def test_the_search_keeps_the_smallest_error(motifs: GraphSet) -> None:
    """Half the graphs are of either class: the honest probability is a half."""
    inner = KFold(3).splits(labels_of(motifs), 0)
    for chances in ([0.9, 0.5], [0.5, 0.9]):
        assert chosen_by("calibration_error", Tells(), {"chance": chances}, motifs, inner) == {"chance": 0.5}


class Ranks(Tells):
    """Tells houses from cycles well or not at all: a house has one edge more than a cycle."""

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        house = X.n_edges > np.median(X.n_edges)
        chance = np.where(house, 0.9, 0.1) if self.chance > 0.5 else np.full(len(X), 0.5)
        return np.stack([1 - chance, chance], 1)


def test_an_inner_split_of_one_class_does_not_decide_a_search(motifs: GraphSet) -> None:
    first, *rest = KFold(3).splits(labels_of(motifs), 0)
    y = np.asarray(motifs.y)
    one_class = first._replace(test=first.test[y[first.test] == 1])
    grid = {"chance": [0.1, 0.9]}
    assert chosen_by("roc_auc", Ranks(), grid, motifs, [one_class, *rest]) == {"chance": 0.9}
    with pytest.raises(ValueError, match=r"no roc_auc in any of 1 inner splits.*search_metric"):
        chosen_by("roc_auc", Ranks(), grid, motifs, [one_class])
    spy = Spy(guess=0)
    motifs = GraphSet(motifs._store, motifs.y, meta={"subject": np.arange(len(motifs))})
    with pytest.raises(ValueError, match="roc_auc needs probabilities, Spy gives none"):
        chosen_by("roc_auc", spy, {"guess": [0, 1]}, motifs, rest)


# -------------------------------------------------------------------------- the store


def test_what_is_kept_is_not_done_again(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = counted(monkeypatch)
    first = evaluate(FEW, motifs, seeds=2, store=tmp_path / "new" / "folder")
    assert len(done) == 4
    again = evaluate(FEW, motifs, seeds=2, store=tmp_path / "new" / "folder")
    assert len(done) == 4
    pd.testing.assert_frame_equal(first, again)
    more = evaluate(FEW, motifs, seeds=3, store=tmp_path / "new" / "folder")
    assert len(done) == 6
    pd.testing.assert_frame_equal(first, more[more["seed"] < 2].reset_index(drop=True), check_dtype=False)
    evaluate(FEW, motifs, seeds=2)  # without a store nothing is kept
    assert len(done) == 10


def test_a_task_is_what_its_settings_data_split_seed_and_version_are(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = counted(monkeypatch)
    split = Holdout().splits(labels_of(motifs), 0)
    with Store() as store:

        def new(method: Any = None, data: GraphSet = motifs, seeds: Any = 1, **more: Any) -> int:
            before = len(done)
            methods = {"lasso": {"C": 1.0} if method is None else method}
            evaluate(methods, data, more.pop("protocol", split), seeds, store=store, **more)
            return len(done) - before

        assert new() == 1
        assert new() == 0
        for same in ({"C": 1.0, "verbose": 1}, {"C": 1.0, "device": "cpu"}, {"C": 1.0, "random_state": 9}):
            assert new(same) == 0
        assert new(ShallowGraphClassifier("lasso", C=1.0)) == 0
        assert new({"C": 2.0}) == 1
        assert new(data=motifs.with_y(1 - motifs.y)) == 1
        assert new(seeds=[1]) == 1
        assert new(protocol=[Split("other", *split[0][1:])]) == 0  # a name changes nothing
        swapped = Split("1", split[0].validation, split[0].train, split[0].test)
        assert new(protocol=[swapped]) == 1
        assert new(search={"lasso": {"C": [1.0]}}) == 1
        assert new(explainers=["degree"]) == 1
        monkeypatch.setattr("cignn.__version__", "99")
        assert new() == 1


def keys(method: Any, data: Any, **more: Any) -> set[str]:
    return {task.key for task in runner.plan({"method": method}, {"data": data}, "holdout", 1, **more)}


CIGNN = make_estimator("ci-gnn")
PRESET: dict[str, Any] = {
    "alone": CIGNN,
    "in a pipeline": make_pipeline(ConnectomeGraphs(), CIGNN),
    "of a cohort": CohortClassifier.make(CIGNN),
    "of a cohort, by default": CohortClassifier.make(),
    "in a wrapper": SubgraphClassifier(CIGNN, make_explainer("degree")),
}


@pytest.mark.parametrize("name", PRESET)
def test_a_preset_that_means_something_else_is_another_task(
    cohort: Cohort, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    first = keys(PRESET[name], cohort)
    assert keys(PRESET[name], cohort) == first
    changes: list[tuple[Any, str, Any]] = [
        (PRESETS["motif"], "learning_rate", 0.5),
        (PRESETS["connectome"], "keep", 0.7),
    ]
    for table, key, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(table, key, value)
            assert keys(PRESET[name], cohort) != first, key
    for rule in ("ci_gnn.STEPS", "ci_gnn.READ_GRAPHS", "ci_gnn.USUAL_EPOCHS", "settings.MIN_BATCH"):
        with monkeypatch.context() as patch:
            patch.setattr(f"cignn.estimators.{rule}", 7)
            assert keys(PRESET[name], cohort) != first, rule
    with monkeypatch.context() as patch:  # of another preset
        patch.setattr(PRESETS["paper"], "learning_rate", 0.5)
        assert keys(PRESET[name], cohort) == first


def test_what_the_caller_settles_does_not_change_with_the_preset(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"method": "ci-gnn", "learning_rate": 0.01, "epochs": 5, "batch_size": 20}
    first = keys(given, motifs)
    searched = {"search": {"method": {"preset": ["motif", "paper"]}}}
    before = keys(given, motifs, **searched)
    monkeypatch.setattr(PRESETS["motif"], "learning_rate", 0.5)
    monkeypatch.setattr("cignn.estimators.ci_gnn.LEAST_EPOCHS", 7)
    monkeypatch.setattr(settings, "MIN_BATCH", 7)
    assert keys(given, motifs) == first and keys(given, motifs, **searched) == before
    monkeypatch.setattr(PRESETS["paper"], "mask_lr_factor", 5.0)
    assert keys(given, motifs) == first
    assert keys(given, motifs, **searched) != before, "what a search tries is part of the task"


@pytest.mark.parametrize("method", ["gin", "sib", "dir"])
def test_other_rules_for_auto_are_other_tasks(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    auto, given = {"method": method}, {"method": method, "epochs": 5, "density": None}
    first, settled = keys(auto, motifs), keys(given, motifs)
    for name in ("STEPS", "MIN_EPOCHS", "MAX_EPOCHS", "AUTO_DENSITY"):
        with monkeypatch.context() as patch:
            patch.setattr(settings, name, 1)
            assert keys(auto, motifs) != first, name
            assert keys(given, motifs) == settled, name


def test_methods_without_rules_are_known_by_their_parameters() -> None:
    for method in (ShallowGraphClassifier(), make_estimator("gin", epochs=5, density=0.1), Connectivity()):
        assert set(plain(method)) == {"class", "params"}


def test_the_same_settings_under_two_names_are_done_once(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = counted(monkeypatch)
    table = evaluate({"a": {"method": "lasso"}, "b": {"method": "lasso"}}, motifs)
    assert len(done) == 1
    a, b = (table[table["method"] == name]["value"].tolist() for name in ("a", "b"))
    assert a == b and len(a) == len(METRICS)


def test_one_name_for_two_settings_is_not_one_method(motifs: GraphSet) -> None:
    """A regularised one predicts one class for all, a free one tells them apart."""
    split = Holdout(test_size=0.2).splits(labels_of(motifs), 0)
    with Store() as store:
        tables = [evaluate({"lasso": {"C": C}}, motifs, split, store=store) for C in (1e-9, 10.0)]
        said, kept = store.predictions(), store.results()
        described = store.tasks().set_index("key")
    rows = bootstrap_intervals(said, ["accuracy"], n_resamples=50).set_index("settings_digest")
    assert len(rows) == 2
    for table in tables:
        (key,), (settings_digest,) = table["key"].unique(), table["settings_digest"].unique()
        assert described.loc[key, "settings_digest"] == settings_digest
        mine = said[said["key"] == key]
        assert len(mine) == len(split[0].test)
        accuracy = table.set_index("metric")["value"]["accuracy"]
        assert rows.loc[settings_digest, "value"] == pytest.approx(accuracy)
        assert permutation_test(mine, n_permutations=50)["value"].tolist() == pytest.approx([accuracy])
        assert summary(kept[kept["key"].isin(table["key"])], ["accuracy"], as_text=False).iloc[0, 2] == 1
    words = r"method 'lasso' on 'data' \(protocol given\) stands for 2 different settings.*isin"
    for refused in (summary, score_table, method_tables):
        with pytest.raises(ValueError, match=words):
            refused(kept)
    with pytest.raises(ValueError, match=words):
        summary(pd.concat(tables))


def test_one_name_for_two_data_sets_or_ways_to_split_is_not_one_task(motifs: GraphSet) -> None:
    with Store() as store:
        for n in (3, 4):
            evaluate(FEW, motifs, KFold(n), store=store)
        said, kept = store.predictions(), store.results()
    words = r"there are 2 tasks of method 'lasso' on 'data' \(protocol kfold, split 1, seed 0\): other data"
    for refused, rows in ((bootstrap_intervals, said), (permutation_test, said), (summary, kept)):
        with pytest.raises(ValueError, match=words):
            refused(rows)


def test_seeds_that_came_later_are_of_the_same_method(motifs: GraphSet) -> None:
    with Store() as store:
        for seeds in ([0], [1, 2]):
            evaluate(FEW, motifs, seeds=seeds, store=store)
        assert (summary(store.results(), ["mcc"], as_text=False)["mcc"]["n"] == 3).all()
        assert len(bootstrap_intervals(store.predictions(), ["mcc"], n_resamples=9)) == 2


def test_predictions_time_memory_and_versions_are_kept(cohort: Cohort, tmp_path: Path) -> None:
    table = evaluate(FEW, cohort, "kfold", seeds=1, store=tmp_path)
    with Store(tmp_path) as store:
        said, tasks, kept = store.predictions(), store.tasks(), store.results()
    lasso = said[said["method"] == "lasso"].sort_values("position")
    assert lasso["subject"].tolist() == list(cohort.subjects) and lasso["site"].tolist() == list(cohort.sites)
    assert lasso["y_true"].tolist() == cohort.y.tolist()
    np.testing.assert_allclose(lasso["p_0"] + lasso["p_1"], 1)
    assert ((lasso["p_1"] > 0.5) == (lasso["y_pred"] == 1)).all()
    right = (said["y_true"] == said["y_pred"]).groupby([said["method"], said["split"]]).mean()
    scored = table[table["metric"] == "accuracy"].set_index(["method", "split"])["value"]
    pd.testing.assert_series_equal(right, scored.sort_index(), check_names=False)
    assert (tasks["seconds"] > 0).all() and (tasks["peak_memory"] > 10**7).all()
    assert tasks["versions"][0]["torch"] == torch.__version__ and "cignn" in tasks["versions"][0]
    order = ["method", "split", "seed", "metric"]
    columns = ["method", "data", "split", "seed", "metric", "value", "n_train"]
    pd.testing.assert_frame_equal(
        kept.sort_values(order)[columns].reset_index(drop=True),
        table.sort_values(order)[columns].reset_index(drop=True),
    )


def test_a_failing_task_does_not_stop_the_others(cohort: Cohort, tmp_path: Path, seen: list) -> None:
    methods = {"fails": make_pipeline(ConnectomeGraphs(), Fails()), **FEW}
    with pytest.warns(
        TaskFailedWarning, match="2 of 12 tasks failed, first fails.*no luck.*retry_failed=True"
    ):
        table = evaluate(methods, cohort, seeds=4, store=tmp_path)
    failed = table[table["error"].notna()]
    assert failed[["method", "seed", "metric"]].values.tolist() == [
        ["fails", 1, "error"],
        ["fails", 3, "error"],
    ]
    assert failed["error"].tolist() == ["RuntimeError: no luck with 1 thread"] * 2
    assert failed["value"].isna().all()
    assert (table[table["method"] == "lasso"]["metric"] == "accuracy").sum() == 4
    with Store(tmp_path) as store:
        assert "in fit" in store.tasks().query("status == 'failed'")["trace"].iloc[0]
    before = len(seen)
    with pytest.warns(TaskFailedWarning):
        evaluate(methods, cohort, seeds=4, store=tmp_path)
    assert len(seen) == before  # a failure is kept as well


def test_a_failure_is_done_again_on_demand(
    cohort: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list
) -> None:
    methods = {"fails": make_pipeline(ConnectomeGraphs(), Fails())}
    with pytest.warns(TaskFailedWarning):
        evaluate(methods, cohort, seeds=2, store=tmp_path)
    monkeypatch.setattr(Fails, "fit", Spy.fit)
    done = counted(monkeypatch)
    table = evaluate(methods, cohort, seeds=2, store=tmp_path, retry_failed=True)
    assert len(done) == 1 and table["error"].isna().all()


def test_a_failure_that_came_after_the_predictions_is_done_again(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_scores(*_: Any) -> Any:
        raise RuntimeError("no score")

    with monkeypatch.context() as patch, pytest.warns(TaskFailedWarning, match="no score"):
        patch.setattr(tasks, "classification_scores", no_scores)
        evaluate(FEW, motifs, store=tmp_path)
    with Store(tmp_path) as store:
        assert len(store.predictions()) > 0  # they are kept, and replaced below
    with pytest.warns(TaskFailedWarning), monkeypatch.context() as patch:
        patch.setattr(tasks, "classification_scores", no_scores)
        evaluate(FEW, motifs, store=tmp_path, retry_failed=True)
    table = evaluate(FEW, motifs, store=tmp_path, retry_failed=True)
    assert table["error"].isna().all()
    with Store(tmp_path) as store:
        said = store.predictions()
    assert not said.duplicated(["method", "split", "seed", "position"]).any()


QUICK_GIN = make_estimator("gin", epochs=2, hidden=(8,), head_hidden=())
WRAPPED: dict[str, Any] = {
    "pipeline": make_pipeline(ConnectomeGraphs(), QUICK_GIN),
    "pipeline in a pipeline": make_pipeline(ConnectomeGraphs(), make_pipeline("passthrough", QUICK_GIN)),
    "cohort": CohortClassifier.make(QUICK_GIN),
    "subgraph": make_pipeline(ConnectomeGraphs(), SubgraphClassifier(QUICK_GIN, make_explainer("degree"))),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_half_a_training_is_never_kept_as_a_score(
    cohort: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        always = property(lambda self: True, lambda self, value: None)  # Ctrl-C ends it, what it has is kept
        patch.setattr(GNNClassifier, "interrupted_", always, raising=False)
        with pytest.raises(KeyboardInterrupt):
            evaluate({name: WRAPPED[name]}, cohort, store=tmp_path)
    with Store(tmp_path) as store:
        assert not len(store.tasks())
    assert evaluate({name: WRAPPED[name]}, cohort, store=tmp_path)["error"].isna().all()


# ------------------------------------------------------------------- killed and crowded


def in_a_process(work: Callable[[], Any]) -> int:
    """Do it in a process of its own and give its number; the parent goes on."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    return pid


def slowly(log: Path) -> Callable[..., Iterator[Outcome]]:
    """Do tasks as ever, a little slower, and log their keys."""
    run = runner.run_stack

    def slow(*arguments: Any) -> Iterator[Outcome]:
        for outcome in run(*arguments):
            time.sleep(0.01)
            with log.open("a") as file:
                file.write(f"{outcome.key}\n")
            yield outcome

    return slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_run_killed_five_times_ends_with_the_same_table(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 tasks; SIGKILL at random moments costs at most the task in flight."""
    arguments: Any = ({"lasso": {"C": 1.0}, "gin": GIN}, motifs, KFold(3), 10)
    whole = evaluate(*arguments)
    assert len(whole) == 60 * len(METRICS)
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setattr(runner, "run_stack", slowly(log))
    rng = random.Random(0)
    store = tmp_path / "store"
    for _ in range(5):
        before = len(log.read_text().splitlines())
        pid = in_a_process(lambda: evaluate(*arguments, store=store))
        wanted = before + rng.randint(1, 9)
        deadline = time.monotonic() + 60
        while len(log.read_text().splitlines()) < wanted and time.monotonic() < deadline:
            time.sleep(0.003)
        time.sleep(rng.random() * 0.03)
        os.kill(pid, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])  # it was still at work
    again = evaluate(*arguments, store=store)
    pd.testing.assert_frame_equal(whole, again)
    done = log.read_text().split()
    assert len(set(done)) == 60 and len(done) <= 65
    n = len(done)
    evaluate(*arguments, store=store)
    assert len(log.read_text().split()) == n


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_runs_share_a_store(motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: Any = (FEW, motifs, KFold(3), 5)
    whole = evaluate(*arguments)
    log = tmp_path / "log"
    monkeypatch.setattr(runner, "run_stack", slowly(log))
    pids = [in_a_process(lambda: evaluate(*arguments, store=tmp_path / "store")) for _ in range(3)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
    done = log.read_text().split()
    assert set(done) == {task.key for task in runner.plan(FEW, {"data": motifs}, *arguments[2:])}
    assert len(done) < 3 * 30  # what one has finished the others leave alone
    pd.testing.assert_frame_equal(whole, evaluate(*arguments, store=tmp_path / "store"))
    with sqlite3.connect(tmp_path / "store" / "results.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("SELECT count(*) FROM tasks").fetchone()[0] == 30
    db.close()


# ------------------------------------------------------------------------- explainers


def test_explainers_are_scored_on_the_test_graphs(motifs: GraphSet) -> None:
    methods = {"gin": GIN, "lasso": {"C": 1.0}}
    explainers = {"random": None, "dice": "random", "quick": {"explainer": "gnn-explainer", "steps": 2}}
    table = evaluate(methods, motifs, explainers=explainers)
    scores = table[table["explainer"] != ""].set_index(["method", "explainer", "metric"])["value"]
    for method, explainer in (("gin", "random"), ("gin", "dice"), ("gin", "quick"), ("lasso", "random")):
        assert 0 < scores[method, explainer, "explanation_roc_auc"] < 1
        assert 0 <= scores[method, explainer, "explanation_accuracy"] <= 1
        assert scores[method, explainer, "milliseconds"] > 0
        own = scores[method, explainer]
        assert 0 < own["explanation_roc_auc_overall"] < 1 and -1 < own["explanation_gap"] < 1
        assert max(0, own["fidelity_minus"]) <= own["superset_worst"] <= 1
        for name in ("superset_worst_random", "superset_label_changes", "superset_label_changes_random"):
            assert 0 <= own[name] <= 1
        assert 0 <= own["weight_range"] <= 1
        assert 0 < own["self_difference"] < 1 and -1 <= own["self_rank_correlation"] <= 1
    refused = table[table["error"].notna()]  # of no network; the classifier's own scores stay
    assert refused[["method", "explainer"]].values.tolist() == [["lasso", "quick"]]
    assert "explains networks" in refused["error"].iloc[0]
    assert (table["metric"] == "accuracy").sum() == 2


def test_tasks_stored_without_newer_scores_stay_and_stand_in_the_tables(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: Any = ({"gin": GIN}, motifs, "holdout")
    every = tasks.explanation_scores
    with monkeypatch.context() as older:
        kept = ("explanation_roc_auc", "fidelity_plus")
        older.setattr(
            tasks,
            "explanation_scores",
            lambda *given: {name: value for name, value in every(*given).items() if name in kept},
        )
        before = evaluate(*arguments, explainers="random", store=tmp_path)
    assert "explanation_gap" not in set(before["metric"])
    old = evaluate(*arguments, explainers="random", store=tmp_path)
    pd.testing.assert_frame_equal(before, old)  # nothing was done again
    assert "explanation_gap" not in summary(old)
    both = evaluate(*arguments, seeds=2, explainers="random", store=tmp_path)
    table = summary(both, as_text=False).loc[("data", "gin", "random")]
    assert table["explanation_roc_auc", "n"] == 2 and table["explanation_gap", "n"] == 1
    assert summary(both).loc[("data", "gin", "random"), "superset_worst"].count("±") == 0  # of one task


# -------------------------------------------------------------------------- refusals

REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "method": ({"methods": ["laso"]}, ValueError, "no method 'laso'; did you mean 'lasso'"),
    "setting": ({"methods": {"gin": {"epoch": 2}}}, ValueError, "'gin' has no parameter 'epoch'"),
    "no method": ({"methods": []}, ValueError, "no methods to evaluate"),
    "a class": ({"methods": {"x": Spy}}, TypeError, "method 'x' must be settings or a scikit-learn"),
    "data": ({"data": np.ones(3)}, TypeError, "data 'data' must be a GraphSet or a Cohort, got ndarray"),
    "protocol": ({"protocol": "houldout"}, ValueError, "no protocol 'houldout'; did you mean 'holdout'"),
    "splits": ({"protocol": [1, 2]}, ValueError, "a name, a splitter or splits.*got a list of int"),
    "seeds of a kind": ({"seeds": 2.0}, ValueError, "seeds must be different whole numbers, or how many"),
    "processes": ({"n_jobs": 0}, ValueError, "n_jobs must be a number of processes, or -1 for all cores"),
    "stack": ({"stack": 0}, ValueError, 'stack must be "auto" or a whole number of at least 1, got 0'),
    "a word for a stack": ({"stack": "all"}, ValueError, "stack must be \"auto\" or a .*, got 'all'"),
    "inner splits": (
        {"protocol": KFold(3, n_inner=1), "search": {"lasso": {"C": [1.0]}}},
        ValueError,
        "n_inner must be a whole number of at least 2, got 1",
    ),
    "threads": ({"threads": 0}, ValueError, "threads must be a whole number of at least 1, got 0"),
    "a function without a name": (
        {
            "methods": {
                "x": make_pipeline(FunctionTransformer(lambda graphs: graphs), make_estimator("lasso"))
            }
        },
        ValueError,
        "a setting is the function <lambda>, which cannot be told from others of that name; define it by def",
    ),
    "seeds": ({"seeds": 0}, ValueError, "seeds must be different whole numbers, or how many"),
    "seed twice": ({"seeds": [1, 1]}, ValueError, "seeds must be different"),
    "explainer": ({"explainers": ["gnn"]}, ValueError, "no explainer 'gnn'; did you mean 'gnn-explainer'"),
    "no explainer": ({"explainers": {"x": 3}}, TypeError, "explainer 'x' must be settings or an explainer"),
    "search": ({"search": {"gin": {}}}, ValueError, "search names 'gin', which is not evaluated"),
    "grid": ({"search": {"lasso": 3}}, ValueError, "search of 'lasso' must be name → values"),
    "grid name": ({"search": {"lasso": {"c": [1]}}}, ValueError, "no parameter 'c' to search.*C"),
    "metric": ({"search_metric": "auc"}, ValueError, "search_metric must be one of accuracy"),
    "both": ({"n_jobs": 2, "scheduler": "tcp://x"}, ValueError, "give n_jobs or scheduler, not both"),
    "one class": ({"data": None}, ValueError, "at least two classes"),
}


@pytest.mark.parametrize(("change", "kind", "words"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch, change: dict, kind: type[Exception], words: str
) -> None:
    done = counted(monkeypatch)
    arguments = {"methods": ["lasso"], "data": motifs} | change
    if arguments["data"] is None:
        arguments["data"] = motifs.with_y(np.zeros(30))
    with pytest.raises(kind, match=words) as caught:
        evaluate(**arguments)
    assert "\n" not in str(caught.value) and not done


def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").write_text("notes of a year, and no database at all" * 9)
    with pytest.raises(ValueError, match=r"is no store.*choose another folder"):
        Store(tmp_path)
    assert "notes of a year" in (tmp_path / "results.sqlite").read_text()
    with pytest.raises(ValueError, match="store must be a folder"):
        Store(tmp_path / "results.sqlite")
    (tmp_path / "newer").mkdir()
    with sqlite3.connect(tmp_path / "newer" / "results.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ValueError, match="written by a newer cignn; upgrade"):
        Store(tmp_path / "newer")
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / "results.sqlite") as db:
        db.execute("CREATE TABLE tasks (mine)")
    db.close()
    with pytest.raises(ValueError, match=r"a database of something else\); choose another folder"):
        Store(tmp_path / "other")


def test_a_store_that_another_program_holds_is_named(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_file, "PATIENCE", 0.01)
    evaluate(FEW, motifs, store=tmp_path)
    holder = sqlite3.connect(tmp_path / "results.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(OSError, match=r"in use by another program \(database is locked\)"):
        evaluate(FEW, motifs, seeds=2, store=tmp_path)
    holder.close()
    assert len(evaluate(FEW, motifs, seeds=2, store=tmp_path)["key"].unique()) == 4


class Unsure(ClassifierMixin, BaseEstimator):
    """Gives probabilities that are no numbers."""

    def fit(self, graphs: GraphSet, y: np.ndarray) -> Unsure:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, graphs: GraphSet) -> np.ndarray:
        return np.full((len(graphs), 2), np.nan)

    def predict(self, graphs: GraphSet) -> np.ndarray:
        return self.classes_[np.zeros(len(graphs), int)]


def test_probabilities_that_are_no_numbers_are_a_failure_not_a_score(motifs: GraphSet) -> None:
    with pytest.warns(TaskFailedWarning, match="probabilities of 3 of 3 predictions are NaN or infinite"):
        table = evaluate({"unsure": Unsure()}, motifs)
    assert table["metric"].tolist() == ["error"]


# --------------------------------------------------------------------------- the rest


def test_progress_is_shown_with_the_time_left(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(FEW, motifs)
    assert capsys.readouterr().err == ""  # nobody is looking
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    evaluate(FEW, motifs, verbose=0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    evaluate(FEW, motifs)
    shown = capsys.readouterr().err
    assert "evaluating" in shown and "2/2" in shown and "0:00:00" in shown


def test_series_pass_through_connectivity(seen: list) -> None:
    cohort = make_cohort(24, 6, n_edges=3, lengths=(20, 30), random_state=0)
    table = evaluate({"lasso": {"C": 1.0}}, cohort[:20], KFold(3), seeds=1, search={"lasso": {"C": [1.0]}})
    assert table["value"].notna().any()


def test_without_dask_a_cluster_is_refused_with_the_remedy(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "cignn\[cluster\]"'):
        evaluate(["lasso"], motifs, scheduler="tcp://127.0.0.1:8786")


class Telling(ClassifierMixin, BaseEstimator):
    """Fails, and says where."""

    def fit(self, graphs: GraphSet, y: np.ndarray) -> Telling:
        raise ValueError(f"process {os.getpid()}.")


@pytest.mark.slow
def test_a_cluster_gives_the_same_table(motifs: GraphSet, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    arguments: Any = ({"lasso": {"C": 1.0}, "gin": GIN}, motifs, KFold(3), 10)
    whole = evaluate(*arguments)
    options = {"processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        spread = evaluate(*arguments, scheduler=cluster.scheduler_address, store=tmp_path)
    pd.testing.assert_frame_equal(whole, spread)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster:
        with pytest.warns(TaskFailedWarning):
            alone = evaluate({"x": Telling()}, motifs, scheduler=cluster.scheduler_address)
        assert "process" in alone["error"][0] and f"process {os.getpid()}." not in alone["error"][0]
    wide = distributed.LocalCluster(n_workers=1, threads_per_worker=2, **options)
    with wide as cluster, pytest.raises(ValueError, match="start workers with --nthreads 1"):
        evaluate(["lasso"], motifs, seeds=2, scheduler=cluster.scheduler_address)


def test_a_cluster_is_reached_by_tls(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    made = shutil.which("openssl") and subprocess.run(
        [*words.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        capture_output=True,
    )
    if not made or made.returncode:
        pytest.skip("openssl is needed to make a certificate")
    ours, sides = {"cert": str(cert), "key": str(key)}, ("client", "scheduler", "worker")
    paths = {f"tls_{side}_{what}": path for side in sides for what, path in ours.items()}
    secured = distributed.Security(tls_ca_file=str(cert), require_encryption=True, **paths)
    options = {"processes": False, "dashboard_address": ":0", "security": secured, "protocol": "tls://"}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        with pytest.raises(ValueError, match=r"answers at 'tls://.*the certificates that Dask is told of"):
            evaluate(["lasso"], motifs, scheduler=cluster.scheduler_address)
        place = "distributed.comm.tls"
        with dask.config.set({f"{place}.ca-file": str(cert), f"{place}.client": ours}):
            table = evaluate(["lasso"], motifs, scheduler=cluster.scheduler_address)
    assert table["error"].isna().all()


class Killing(ClassifierMixin, BaseEstimator):
    """Takes its process along."""

    def fit(self, graphs: GraphSet, y: np.ndarray) -> Killing:
        os._exit(1)


@pytest.mark.slow
def test_a_task_that_kills_its_worker_does_not_stop_the_others(motifs: GraphSet) -> None:
    distributed = pytest.importorskip("distributed")
    methods: Any = {"killing": Killing(), "lasso": {"C": 1.0}}
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        pytest.warns(TaskFailedWarning, match="1 of 2 tasks failed, first killing .* process was killed"),
    ):
        table = evaluate(methods, motifs, scheduler=cluster.scheduler_address)
    assert set(table["method"][table["error"].notna()]) == {"killing"}
    assert table["value"][table["method"] == "lasso"].notna().all()


# ---------------------------------------------------------------- the positive class


@pytest.fixture(scope="module")
def patients(cohort: Cohort) -> Cohort:
    """The cohort with words for labels: ASD, the patients, stands before TD in sorted order."""
    return cohort.with_y(np.where(np.asarray(cohort.y) == 1, "ASD", "TD"))


def scores_of(results: pd.DataFrame) -> pd.Series:
    return results.set_index(["method", "split", "metric"])["value"].unstack("metric")


def test_another_positive_class_is_scored_from_what_is_kept(
    patients: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = {"lasso": {"C": 1.0}, "spy": make_pipeline(ConnectomeGraphs(), Spy())}
    how = {"protocol": "loso", "store": tmp_path, "verbose": 0}
    usual = evaluate(methods, patients, **how)
    assert set(usual["positive"]) == {"TD"}
    monkeypatch.setattr(runner, "run_stack", None)  # nothing is left to do
    other = evaluate(methods, patients, positive="ASD", **how)
    assert set(other["positive"]) == {"ASD"} and other["key"].tolist() == usual["key"].tolist()
    before, after = scores_of(usual), scores_of(other)
    for name, was in {"sensitivity": "specificity", "specificity": "sensitivity", "mcc": "mcc"}.items():
        pd.testing.assert_series_equal(after[name], before[was], check_names=False)
    pd.testing.assert_series_equal(after["roc_auc"], before["roc_auc"])
    assert (after["f1"] != before["f1"]).any()
    again = evaluate(methods, patients, positive="TD", **how)
    pd.testing.assert_frame_equal(again, usual)
    with Store(tmp_path) as store:
        assert set(store.results()["positive"]) == {"TD"}
        intervals = bootstrap_intervals(store.predictions(), "sensitivity", n_resamples=5, positive="ASD")
    assert set(intervals["positive"]) == {"ASD"}
    mean = after.groupby("method")["sensitivity"].mean()
    assert intervals.set_index("method")["value"].to_dict() == pytest.approx(mean.to_dict())
    with pytest.raises(ValueError, match=r"scores of method 'lasso' .* are of several positive classes"):
        summary(pd.concat([usual, other]))
    assert set(summary(other)["positive"]) == {"ASD"} and "positive" not in summary(other, ["accuracy"])


def test_a_search_by_sensitivity_depends_on_whose_it_is(patients: Cohort) -> None:
    def keys(positive: Any, metric: str) -> set[str]:
        grid = {"lasso": {"C": [0.1, 1.0]}}
        tasks = runner.plan(["lasso"], {"d": patients}, "holdout", 1, None, grid, metric, positive)
        return {task.key for task in tasks}

    assert keys("ASD", "accuracy") == keys(None, "accuracy")
    assert keys("TD", "sensitivity") == keys(None, "sensitivity") != keys("ASD", "sensitivity")


def test_a_positive_class_that_is_none_of_two_is_refused_before_anything_runs(patients: Cohort) -> None:
    with pytest.raises(ValueError, match="positive must be one of the classes, 'ASD' or 'TD', got 'MDD'"):
        evaluate("lasso", patients, positive="MDD")
    three = patients.with_y(np.arange(len(patients)) % 3)
    with pytest.raises(ValueError, match="positive is for two classes, there are 3; leave it out"):
        evaluate("lasso", three, positive=1)
    assert evaluate({"lasso": {"C": 1.0}}, three, verbose=0)["positive"].isna().all()
