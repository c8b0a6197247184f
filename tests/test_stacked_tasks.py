"""What must hold for stacks of tasks: they give what the tasks alone give, and lose no more than a stack."""

from __future__ import annotations

import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from cignn import Cohort, CohortClassifier, GraphSet
from cignn._progress import progress_bar
from cignn.connectome import Connectivity, ConnectomeGraphs
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import GNNClassifier, make_estimator
from cignn.evaluation import KFold, Store, TaskFailedWarning, evaluate, make_protocol, runner, stacks, workers
from cignn.evaluation.splits import labels_of
from cignn.evaluation.stacks import Stack, run_stack, stacked
from cignn.evaluation.tasks import Outcome

pytestmark = pytest.mark.medium

# a network whose gradients are never mere rounding, which Adam would make as large as any
GCN = {"method": "gcn", "epochs": 2, "hidden": (8,), "head_hidden": ()}
CLOSE = 1e-4  # of probabilities: networks of a stack are those alone to rounding


class Unlucky(GNNClassifier):
    """A network that does not train with seed 1."""

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        if self.random_state == 1:
            raise RuntimeError("no luck\nat all")
        return super()._settings(graphs)


class Stubborn(TransformerMixin, BaseEstimator):
    """A step that fails on the training part of some splits, and counts the others."""

    fitted: list[int] = []  # noqa: RUF012

    def __init__(self, refused: int = -1) -> None:
        self.refused = refused

    def fit(self, X: Any, y: Any = None) -> Stubborn:
        if self.refused in X.meta["number"]:
            raise ValueError(f"graph {self.refused} is refused.")
        Stubborn.fitted.append(len(X))
        return self

    def transform(self, X: Any) -> Any:
        return X


class Dice(Stubborn):
    """A step with a seed."""

    def __init__(self, refused: int = -1, random_state: int = 0) -> None:
        super().__init__(refused)
        self.random_state = random_state


@pytest.fixture(scope="module")
def motifs() -> GraphSet:
    graphs = make_ba2motifs(30, random_state=0)
    return GraphSet(graphs._store, graphs.y, meta={"number": np.arange(30)})


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(40, 10, n_edges=6, effect=0.8, n_sites=4, data="matrices", random_state=0)


def network(**more: Any) -> Any:
    return make_estimator("gcn", epochs=2, hidden=(8,), head_hidden=(), **more)


class Kept:
    """Everything that a store keeps of an evaluation, with the key of its task."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with Store() as store:
            evaluate(*arguments, store=store, verbose=0, **options)
            self.tasks = store.tasks().set_index("key").sort_index()
            rows = store.results()
            rows = rows[rows["metric"] != "milliseconds"]
            self.scores = rows.set_index(["key", "explainer", "metric"]).sort_index()
            self.predictions = store.predictions().set_index(["key", "position"]).sort_index()


def assert_same(alone: Kept, together: Kept) -> None:
    """The same rows: exactly where probabilities are, else as rounding allows."""
    said = ["method", "data", "split", "seed", "status", "error", "settings", "classes", "chosen"]
    pd.testing.assert_frame_equal(alone.tasks[said], together.tasks[said])
    for first, second in zip(alone.tasks["trace"].dropna(), together.tasks["trace"].dropna(), strict=True):
        assert first.splitlines()[-2:] == second.splitlines()[-2:]
    columns = [name for name in alone.predictions if name.startswith("p_")]
    np.testing.assert_allclose(alone.predictions[columns], together.predictions[columns], atol=CLOSE)
    sure = (alone.predictions[columns].max(axis=1) - 0.5).abs() > 2 * CLOSE
    one, other = (kept.predictions.loc[sure, ["y_true", "y_pred"]] for kept in (alone, together))
    pd.testing.assert_frame_equal(one, other)
    assert alone.scores.index.equals(together.scores.index)
    pd.testing.assert_series_equal(alone.scores["error"], together.scores["error"])
    equal = (alone.predictions[columns] == together.predictions[columns]).all(axis=1).groupby("key").all()
    exact = alone.scores.index.get_level_values("key").isin(equal.index[equal])
    np.testing.assert_array_equal(alone.scores["value"][exact], together.scores["value"][exact])
    np.testing.assert_allclose(alone.scores["value"], together.scores["value"], atol=0.2)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many fits are handed over at a time."""
    seen: list[int] = []
    fit_together = stacks.fit_together

    def count(fits: list[stacks.Fit], **more: Any) -> list[Exception | None]:
        seen.append(len(fits))
        return fit_together(fits, **more)

    monkeypatch.setattr(stacks, "fit_together", count)
    return seen


# -------------------------------------------------------------------------- the same rows


def test_a_stack_gives_the_rows_of_its_tasks_alone(motifs: GraphSet, sizes: list[int]) -> None:
    methods = {
        "gcn": GCN,
        "refused": make_pipeline(Stubborn(3), network()),
        "unlucky": Unlucky(layer="gcn", epochs=2, hidden=(8,), head_hidden=()),
        "wrong": GCN | {"learning_rate": -1.0},
        "lasso": {"C": 1.0},
    }
    arguments = (methods, motifs, KFold(3), 2)
    how = {"explainers": ["degree", "gradient"], "search": {"gcn": {"dropout": [0.0, 0.5]}}}
    with pytest.warns(TaskFailedWarning):
        alone = Kept(*arguments, **how, stack=1)
    assert set(sizes) == {1}
    with pytest.warns(TaskFailedWarning):
        together = Kept(*arguments, **how, stack=16)
    assert max(sizes) > 6
    assert_same(alone, together)
    failed = together.tasks.query("status == 'failed'")
    counts = failed.groupby("method").size().to_dict()
    assert 0 < counts.pop("refused") < 6 and counts == {"unlucky": 3, "wrong": 6}
    assert "RuntimeError: no luck" in set(failed["error"])
    assert together.tasks.query("method == 'gcn'")["chosen"].notna().all()
    assert (together.tasks["seconds"] > 0).all() and (together.tasks["peak_memory"] > 10**7).all()
    assert together.scores.loc[(slice(None), "gradient"), "error"].notna().sum() == 6  # of the lasso alone


def test_brains_are_stacked_behind_their_own_steps(cohort: Cohort, sizes: list[int]) -> None:
    quick = {"epochs": 2, "n_estimators": 2}
    methods = {
        "ci-gnn": CohortClassifier.make(make_estimator("ci-gnn", **quick)),
        "gcn": GCN,
        "sparse": make_pipeline(ConnectomeGraphs(density=0.2), network()),
    }
    alone = Kept(methods, cohort, "loso", stack=1)
    assert max(sizes) == 1
    together = Kept(methods, cohort, "loso", stack=100)
    assert max(sizes) >= 4
    assert_same(alone, together)


def test_candidates_of_a_search_are_fits_of_the_stack(motifs: GraphSet, sizes: list[int]) -> None:
    how = {"search": {"gcn": {"learning_rate": [0.001, 0.01]}}, "seeds": 2}
    alone = Kept({"gcn": GCN}, motifs, **how, stack=1)
    assert sizes == [1] * 14
    sizes.clear()
    assert_same(alone, Kept({"gcn": GCN}, motifs, **how, stack=14))
    assert sizes == [12, 2]
    sizes.clear()  # of fewer, a stack has one task, whose candidates are done in turn
    assert_same(alone, Kept({"gcn": GCN}, motifs, **how, stack=4))
    assert sizes == [4, 2, 1, 4, 2, 1]


def test_the_first_failure_of_a_search_is_that_of_the_task(motifs: GraphSet) -> None:
    grid = {"gcn": {"learning_rate": [0.01, -1.0], "dropout": [7.0, 0.0]}}
    kept = []
    for stack in (1, 100):
        with pytest.warns(TaskFailedWarning):
            kept.append(Kept({"gcn": GCN}, motifs, search=grid, stack=stack))
    assert_same(*kept)


def test_steps_are_fitted_once_for_all_who_learn_from_the_same(motifs: GraphSet) -> None:
    split = make_protocol("holdout").splits(labels_of(motifs), 0)
    for step, fits in ((Stubborn(), 1), (Dice(), 3)):
        kept = []
        for stack, count in ((1, 3), (3, fits)):
            Stubborn.fitted.clear()
            kept.append(Kept({"method": make_pipeline(step, network())}, motifs, split, 3, stack=stack))
            assert Stubborn.fitted == [len(split[0].train)] * count
        assert_same(*kept)


def series(n: int = 30, constant: bool = False) -> Cohort:
    cohort = make_cohort(n, 8, n_edges=4, n_sites=3, lengths=(25, 35), random_state=0)
    if constant:
        values = [np.array(one) for one in cohort.series or ()]
        values[4][:, 2] = 1.0
        cohort = Cohort(series=values, y=cohort.y, sites=cohort.sites)
    return cohort


STEPS = {
    "correlation": (1, {}),
    "covariance": (1, {"connectivity": "covariance", "density": 0.3}),
    "tangent": (3, {"connectivity": "tangent"}),  # its reference is that of the training part
    "combat": (1, {"combat": True}),
}


@pytest.mark.parametrize("name", STEPS)
def test_connectivity_that_learns_nothing_is_computed_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, steps = STEPS[name]
    cohort, computed = series(), []
    transform = Connectivity.transform

    def count(self: Connectivity, X: Cohort) -> Cohort:
        computed.append(len(X))
        return transform(self, X)

    monkeypatch.setattr(Connectivity, "transform", count)
    method = {"gcn": CohortClassifier.make(network(), **steps)}
    alone = Kept(method, cohort, KFold(3), stack=1)
    assert len(computed) == 3 * 3  # training, validation and test part
    computed.clear()
    assert_same(alone, Kept(method, cohort, KFold(3), stack=3))
    assert len(computed) == (1 + 3 if times == 1 else 3 * 3)


def test_a_scan_without_connectivity_fails_the_folds_it_is_in() -> None:
    kept = []
    for stack in (1, 3):
        with pytest.warns(TaskFailedWarning, match="3 of 3 tasks failed.*constant"):
            kept.append(Kept({"gcn": GCN}, series(constant=True), KFold(3), stack=stack))
    assert_same(*kept)


def test_processes_take_stacks(motifs: GraphSet) -> None:
    arguments = ({"gcn": GCN, "unlucky": Unlucky(layer="gcn", epochs=2, hidden=(8,))}, motifs, KFold(3), 2)
    kept = []
    for how in ({"stack": 1}, {"stack": 2, "n_jobs": 2}):
        with pytest.warns(TaskFailedWarning, match="3 of 12 tasks failed"):
            kept.append(Kept(*arguments, **how))
    assert_same(*kept)


def test_workers_of_a_cluster_take_stacks(motifs: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    taken: list[int] = []

    def note(stack: Stack, *rest: Any) -> Iterator[Outcome]:
        taken.append(len(stack.tasks))
        return run_stack(stack, *rest)

    alone = Kept({"gcn": GCN}, motifs, KFold(3), 2, stack=1)
    monkeypatch.setattr(workers, "run_stack", note)  # workers are threads of this process
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        address = cluster.scheduler_address
        assert_same(alone, Kept({"gcn": GCN}, motifs, KFold(3), 2, stack=4, scheduler=address))
        assert sorted(taken) == [2, 4]
        assert workers.gpu_workers(address, 1) == int(torch.cuda.is_available())
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        assert workers.gpu_workers(address, 1) == 1


@pytest.mark.slow
def test_workers_in_processes_of_their_own_take_stacks(motifs: GraphSet) -> None:
    distributed = pytest.importorskip("distributed")
    arguments = ({"gcn": GCN, "unlucky": Unlucky(layer="gcn", epochs=2, hidden=(8,))}, motifs, KFold(3), 2)
    with pytest.warns(TaskFailedWarning):
        alone = Kept(*arguments, stack=1)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, pytest.warns(TaskFailedWarning):
        assert_same(alone, Kept(*arguments, stack=4, scheduler=cluster.scheduler_address))


# ------------------------------------------------------------------------- what goes together


def planned(data: GraphSet | dict[str, GraphSet], *methods: Any, **more: Any) -> list[Any]:
    named = data if isinstance(data, dict) else {"data": data}
    return runner.plan({str(i): one for i, one in enumerate(methods)}, named, KFold(3), 4, **more)


def lengths(tasks: list[Any], size: int | str, gpu_workers: int = 0) -> list[int]:
    return sorted(len(stack.tasks) for stack in stacked(tasks, size, gpu_workers))


def test_networks_go_together_on_a_gpu_and_take_turns_on_a_cpu(motifs: GraphSet) -> None:
    tasks = planned(motifs, GCN)
    assert lengths(tasks, "auto") == [1] * 12
    assert lengths(tasks, "auto", 1) == [12] and lengths(tasks, "auto", 5) == [3] * 4
    assert lengths(tasks, 5) == [2, 5, 5] and lengths(tasks, 1, 1) == [1] * 12
    assert lengths(planned(motifs, GCN | {"device": "cpu"}), "auto", 1) == [1] * 12
    assert lengths(planned(motifs, GCN | {"device": "cuda:0"}), "auto", 1) == [12]
    many = tasks * 30
    assert max(lengths(many, "auto", 1)) == stacks.ON_GPU and sum(lengths(many, "auto", 1)) == len(many)
    searched = planned(motifs, GCN, search={"0": {"dropout": [0.0, 0.1, 0.2]}})
    assert lengths(searched, "auto", 1) == [2, 10] and lengths(searched, 9) == [1] * 12


def test_what_does_not_go_together_is_kept_apart(motifs: GraphSet, tmp_path: Path) -> None:
    assert lengths(planned(motifs, {"method": "lasso"}, GCN), 100) == [*[1] * 12, 12]
    assert lengths(planned({"a": motifs, "b": motifs[:24]}, GCN), 100) == [12, 12]
    assert lengths(planned(motifs, GCN | {"checkpoint": tmp_path / "file"}), 100) == [1] * 12
    assert lengths(planned(motifs, GCN, GCN | {"method": "gat"}), 100) == [12, 12]
    assert lengths(planned(motifs, GCN, make_pipeline(Stubborn(), network(dropout=0.2))), 100) == [12, 12]
    wrong = planned(motifs, GCN | {"hidden": "wide"}, GCN | {"epochs": None}, GCN | {"device": 3})
    assert sum(lengths(wrong, "auto", 1)) == 36  # each fails on its own, when it runs


def test_as_many_are_fitted_at_once_as_memory_allows(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    alone = Kept({"gcn": GCN}, motifs, KFold(3), 2, stack=1)
    sizes.clear()
    free = iter([100, 80, 49, 100, 50, 60, 20, 100])  # at the start of a stack, then after each part
    monkeypatch.setattr(stacks, "memory_left", lambda: next(free))
    assert_same(alone, Kept({"gcn": GCN}, motifs, KFold(3), 2, stack=6))
    assert sizes == [2, 3, 1]


def test_a_smaller_stack_is_half_of_it_and_one_task_the_smallest() -> None:
    def halved(stack: Stack) -> list[Stack]:
        return [stack, *(one for part in stack.smaller() for one in halved(part))]

    tasks: Any = [object() for _ in range(5)]
    parts = halved(Stack(tasks, 5))
    assert all(len(stack.tasks) <= stack.at_once or len(stack.tasks) == 1 for stack in parts)
    smallest = [stack for stack in parts if not stack.smaller()]
    assert [stack.tasks for stack in smallest] == [[task] for task in tasks]
    assert all(stack.at_once == 1 for stack in smallest)
    assert Stack(tasks[:1], 30).smaller() == [Stack(tasks[:1], 1)]  # the candidates of its search in turn


# ------------------------------------------------------------------------------ what is lost


def test_stacks_and_tasks_alone_share_a_store(motifs: GraphSet, sizes: list[int]) -> None:
    with Store() as store:
        evaluate({"gcn": GCN}, motifs, KFold(3), 1, store=store, stack=3)
        evaluate({"gcn": GCN}, motifs, KFold(3), 2, store=store, stack=1)
        evaluate({"gcn": GCN}, motifs, KFold(3), 3, store=store, stack=100)
    assert sizes == [3, 1, 1, 1, 3]


def breaking(at: int, how: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Hand fits over, but not the ``at``-th time."""
    fit_together, calls = stacks.fit_together, []

    def fit(fits: list[Any], **more: Any) -> Any:
        calls.append(len(fits))
        return how(fits) if len(calls) == at else fit_together(fits, **more)

    return fit


def ctrl_c(fits: list[Any]) -> Any:
    raise KeyboardInterrupt


def cut_short(fits: list[Any]) -> Any:
    failures = [fit.estimator.fit(fit.graphs, fit.y, eval_set=fit.eval_set) for fit in fits]
    fits[-1].estimator.interrupted_ = True
    return [None for _ in failures]


@pytest.mark.parametrize("how", [ctrl_c, cut_short])
def test_ctrl_c_keeps_finished_stacks_and_nothing_half_done(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Callable[..., Any]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stacks, "fit_together", breaking(3, how))
        with pytest.raises(KeyboardInterrupt):
            evaluate({"gcn": GCN}, motifs, KFold(3), 4, store=tmp_path, stack=4)
    with Store(tmp_path) as store:
        assert store.tasks()["status"].tolist() == ["done"] * 8
    table = evaluate({"gcn": GCN}, motifs, KFold(3), 4, store=tmp_path, stack=4)
    assert table["error"].isna().all()


def out_of_memory(fits: list[Any]) -> Any:
    raise MemoryError("no room")


def test_a_stack_that_fails_as_a_whole_is_fitted_one_by_one(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Kept({"gcn": GCN}, motifs, KFold(3), 2, stack=1)
    monkeypatch.setattr(stacks, "fit_together", breaking(1, out_of_memory))
    with pytest.warns(UserWarning, match="6 networks are trained one by one.*MemoryError: no room"):
        assert_same(alone, Kept({"gcn": GCN}, motifs, KFold(3), 2, stack=6))


def test_what_a_failed_stack_held_is_free_when_its_networks_are_fitted_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[weakref.ref[Any]] = []

    def together(fits: list[Any]) -> list[None]:
        if len(fits) == 1:
            assert held[0]() is None
            return [None]
        large = torch.zeros(9)
        held.append(weakref.ref(large))
        raise MemoryError("no room")

    monkeypatch.setattr(stacks, "fit_together", together)
    with pytest.warns(UserWarning, match="one by one"):
        assert stacks._fit_networks([None, None]) == [None, None]  # type: ignore[list-item]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_loses_at_most_the_stack_in_flight(
    motifs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, fit_together = tmp_path / "log", stacks.fit_together
    log.touch()

    def slow(fits: list[Any], **more: Any) -> Any:
        with log.open("a") as file:
            file.write("fit\n" * len(fits))
        time.sleep(0.05)
        return fit_together(fits, **more)

    monkeypatch.setattr(stacks, "fit_together", slow)
    arguments: Any = ({"gcn": GCN}, motifs, KFold(3), 8)
    for _ in range(3):
        before = len(log.read_text().split())
        pid = os.fork()
        if pid == 0:
            evaluate(*arguments, store=tmp_path / "store", stack=4, verbose=0)
            os._exit(0)
        deadline = time.monotonic() + 60
        while len(log.read_text().split()) < before + 8 and time.monotonic() < deadline:
            time.sleep(0.003)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    again = evaluate(*arguments, store=tmp_path / "store", stack=4, verbose=0)
    assert again["key"].nunique() == 24 and again["error"].isna().all()
    assert len(log.read_text().split()) <= 24 + 3 * 4


def test_the_seconds_of_a_stack_are_divided_among_its_tasks(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_together = stacks.fit_together

    def slow(fits: list[Any], **more: Any) -> Any:
        time.sleep(0.5)
        return fit_together(fits, **more)

    monkeypatch.setattr(stacks, "fit_together", slow)
    (stack,) = stacked(planned(motifs, GCN), 100, 0)
    started = time.perf_counter()
    seconds = [outcome.seconds for outcome in run_stack(stack, motifs)]
    elapsed = time.perf_counter() - started
    assert min(seconds) >= 0.5 / 12 and 0.5 <= sum(seconds) <= elapsed


def test_the_time_left_is_that_of_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of a stack finish at the same moment: the speed is not how fast they are written down."""
    bars = []

    @contextmanager
    def kept(*arguments: Any, **options: Any) -> Iterator[Any]:
        with progress_bar(*arguments, **options) as bar:
            bars.append(bar)
            yield bar

    monkeypatch.setattr(runner, "progress_bar", kept)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with runner._progress(1000, 0, 1) as advance:
        time.sleep(0.3)
        for _ in range(5):
            advance("task")
        assert bars[0].tasks[0].time_remaining > 30  # a minute, at 0.3 seconds for five tasks
