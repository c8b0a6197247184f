"""What must hold for networks that are trained together: each is what it would be alone."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cignn import GraphSet
from cignn.estimators import NeuralGraphClassifier, ci_gnn_stages, make_estimator, stacks
from cignn.estimators.captured import Captured, Read
from cignn.estimators.feeds import BATCH_CELLS, Data, Feed, _pool_bytes, even, rounded_up
from cignn.estimators.network_stack import NetworkStack
from cignn.estimators.stacks import PADDED_NETWORKS, Fit, at_once, fit_together
from cignn.estimators.training import Training
from cignn.estimators.training_loop import VALIDATION_CELLS, TrainingLoop, train, validation_cells
from cignn.graphs import GraphBatch
from cignn.nn import CIGNN, Noise
from cignn.nn.layers import NodeNorm
from conftest import Stop
from examples import TINY, random_matrix

pytestmark = pytest.mark.medium

STEPS = 20
CI_GNN = TINY | {
    "n_estimators": 1,
    "epochs": STEPS,
    "causal_weight": 0.5,
    "mask": "stochastic",
    "generative_epochs": 0,
}
GNN = {"hidden": (8, 8), "head_hidden": (8,), "epochs": STEPS}
PAPER = CI_GNN | {"preset": "paper", "generative_epochs": 8}
MOTIF = CI_GNN | {"preset": "motif", "warm_up": 0.6, "rest_weight": 1.0, "cut_weight": 1.0, "refinement": 0.3}
METHODS: dict[str, dict[str, Any]] = {
    "ci-gnn": CI_GNN,
    "paper": PAPER,
    "motif": MOTIF,
    "sib": GNN | {"inner_steps": 2},
    "dir": GNN | {"scorer_hidden": (8,)},
    "gcn": GNN,
    "gat": GNN,
    "gin": GNN,
}
KINDS = ["aligned", "one size", "several sizes"]


def make(method: str, **more: Any) -> NeuralGraphClassifier:
    """A small network of a kind."""
    name = "ci-gnn" if method in ("paper", "motif") else method
    params = METHODS[method] | {"device": "cpu", "random_state": 0} | more
    made = make_estimator(name, **params)
    assert isinstance(made, NeuralGraphClassifier)
    return made


def draw(kind: str, g: int, seed: int) -> GraphSet:
    """Graphs with random features, whose class moves the first."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 10, g) if kind == "several sizes" else np.full(g, 6)
    y = np.arange(g) % 2
    matrices = [random_matrix(rng, n, 0.7) for n in sizes]
    x = [rng.normal(size=(n, 3)) + label * np.eye(3)[0] for n, label in zip(sizes, y, strict=True)]
    if kind == "aligned":
        return GraphSet.from_arrays(np.stack(matrices), np.stack(x), y, node_names=list("abcdef"))
    return GraphSet.from_arrays(matrices, x, y)


def plan(model: NeuralGraphClassifier, graphs: GraphSet, held_out: int = 8) -> Training:
    """The training of one network, in float64: rounding must not grow to steps of Adam."""
    (training,) = model._plan(graphs[held_out:], None, graphs[:held_out]).trainings
    training.network.double()
    if isinstance(training.network, CIGNN):
        training.network.label_entropy.fill_(10.0)  # as if labels were explained: every term counts
    return training


def doubled(batch: GraphBatch) -> GraphBatch:
    """The same graphs in float64."""
    return dataclasses.replace(batch, x=batch.x.double(), adj=batch.adj.double())


def trained(trainings: Sequence[Training]) -> list[Training]:
    """The same trainings, done together."""
    train(trainings)
    return list(trainings)


def assert_same(one: Training, other: Training, rtol: float = 1e-7) -> None:
    """Same history, same epoch, same weights."""
    assert one.error is None and other.error is None
    mine, theirs = one.state.history, other.state.history
    assert [row["stage"] for row in mine] == [row["stage"] for row in theirs]
    for a, b in zip(mine, theirs, strict=True):
        assert a.keys() == b.keys()
        numbers = [name for name in a if name not in ("seconds", "stage")]
        np.testing.assert_allclose(
            [a[name] for name in numbers], [b[name] for name in numbers], rtol=rtol, atol=1e-9
        )
    assert one.state.best_epoch == other.state.best_epoch and one.state.steps == other.state.steps
    for name, value in one.network.state_dict().items():
        torch.testing.assert_close(value, other.network.state_dict()[name], rtol=1e-6, atol=1e-8)


CASES = [(method, kind) for method in METHODS for kind in KINDS if method == "ci-gnn" or kind == KINDS[-1]]


def several(method: str, kind: str, **more: Any) -> list[Callable[[], Training]]:
    """Makers of trainings that differ in graphs, number of graphs and of batches, and seed."""
    sizes = ((24, 0), (40, 1), (33, 2))  # of which eight validate
    return [
        lambda g=g, seed=seed: plan(
            make(method, random_state=seed, batch_size=16, **more), draw(kind, g, seed), 8
        )
        for g, seed in sizes
    ]


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_networks_of_a_stack_are_those_trained_alone(method: str, kind: str) -> None:
    """The first network has one batch in an epoch: its history is that of twenty steps."""
    makers = several(method, kind)
    together = trained([maker() for maker in makers])
    assert together[0].state.steps == STEPS and len({one.state.steps for one in together}) > 1
    for maker, one in zip(makers, together, strict=True):
        (alone,) = trained([maker()])
        assert_same(one, alone)
        batch = doubled(one.validation.graphs.batch())
        with torch.no_grad():
            mine, theirs = (training.network(batch).logits for training in (one, alone))
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)
        if method == "motif":
            history = one.state.history
            assert {row["stage"] for row in history} == {"warm-up", "classification", "refinement"}
            assert all(any(row.get(name) for row in history) for name in ("rest", "cut", "consistency"))


def test_a_network_gives_up_small_subgraphs_whatever_others_of_its_stack_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[float, float]] = []

    def given_up(history: Any, done: int, trial: int, free: float) -> bool:
        asked.append((done, free))
        return done >= trial > 0 and free > 0.1  # those of few validation graphs

    monkeypatch.setattr(ci_gnn_stages, "is_given_up", given_up)

    def makers() -> list[Training]:
        return [
            plan(make("motif", batch_size=16, random_state=seed), draw("several sizes", g, seed), held_out)
            for seed, (g, held_out) in enumerate([(40, 8), (44, 12), (48, 8)])
        ]

    for number, one in enumerate(trained(makers())):
        (alone,) = trained([makers()[number]])
        assert_same(one, alone)
    assert {free > 0.1 for _, free in asked} == {True, False} and max(done for done, _ in asked) > 0


# ---------------------------------------------------------------- company


OTHERS: dict[str, list[dict[str, Any]]] = {
    "ci-gnn": [
        {"learning_rate": 0.05, "weight_decay": 0.01, "ema_decay": 0.5, "patience": 1, "keep_anneal": 0.0},
        {"learning_rate": 1e200, "keep_anneal": 0.0},
        {"causal_weight": 3.0, "rest_weight": 0.3, "reconstruction": 0.2, "keep_anneal": 0.0},
    ],
    "gin": [
        {"learning_rate": 0.05, "weight_decay": 0.0, "ema_decay": 0.0},
        {"learning_rate": 1e200},
        {"random_state": 5},
    ],
}


@pytest.mark.parametrize("method", OTHERS)
def test_a_network_does_not_depend_on_its_company(method: str) -> None:
    """Nor on its place, on one that stops early, or on one that comes to nothing."""
    more = {"keep_anneal": 0.0} if method == "ci-gnn" else {}

    def mine() -> Training:
        return plan(make(method, epochs=8, batch_size=16, **more), draw("several sizes", 40, 0))

    def others() -> list[Training]:
        return [
            plan(make(method, **{"epochs": 8, "batch_size": 16} | params), draw("several sizes", 30, seed))
            for seed, params in enumerate(OTHERS[method], 1)
        ]

    (alone,) = trained([mine()])
    first, other, bad, last = trained([mine(), *others()])
    assert_same(first, alone)
    assert isinstance(bad.error, FloatingPointError) and "diverged" in str(bad.error)
    assert other.error is None and last.error is None
    if method == "ci-gnn":
        assert other.state.epoch < 8, "it was to stop early"
    early, bad, last = others()
    for company in ([early, mine(), last], [bad, last, mine()]):  # the first, whose modules all use, leaves
        train(company)
        assert_same(next(one for one in company if len(one.training) == len(alone.training)), alone)


# ------------------------------------------------------------ interruptions


def in_folder(folder: Path, method: str) -> list[Training]:
    """Trainings with checkpoints."""
    return [
        plan(
            make(method, epochs=12, random_state=seed, batch_size=16, checkpoint=folder / str(seed)),
            draw("several sizes", g, seed),
        )
        for g, seed in ((24, 0), (40, 1), (33, 2))
    ]


@pytest.mark.parametrize("method", ["paper", "motif", "sib"])
def test_a_stack_that_was_killed_goes_on_to_the_same_numbers(tmp_path: Path, stop: Stop, method: str) -> None:
    """Also when one of its networks is some epochs behind the others, in another stage."""
    (tmp_path / "whole").mkdir()
    whole = trained(in_folder(tmp_path / "whole", method))
    for done in (5, 5):  # in the tenth epoch the paper's second stage and the refinement have begun
        stop(done)
        with pytest.raises(SystemExit):
            train(in_folder(tmp_path, method))
        if not (tmp_path / "behind").exists():
            (tmp_path / "behind").write_bytes((tmp_path / "1").read_bytes())
    counter = stop(None)
    (tmp_path / "all").mkdir()
    for name in "012":
        (tmp_path / "all" / name).write_bytes((tmp_path / name).read_bytes())
    for one, expected in zip(trained(in_folder(tmp_path / "all", method)), whole, strict=True):
        assert_same(one, expected)
    assert counter.finished == 2
    (tmp_path / "1").write_bytes((tmp_path / "behind").read_bytes())
    for one, expected in zip(trained(in_folder(tmp_path, method)), whole, strict=True):
        assert_same(one, expected)
    assert counter.finished == 2 + 2 + 7


def test_ctrl_c_is_meant_for_all_networks(tmp_path: Path, stop: Stop) -> None:
    """Those that go on from another epoch, those of another kind and those that wait for their turn."""
    stop(3)
    with pytest.raises(SystemExit):
        train(in_folder(tmp_path, "gin"))
    (tmp_path / "2").unlink()
    counter = stop(1, KeyboardInterrupt)
    first, second, third = trained(in_folder(tmp_path, "gin"))
    assert counter.finished == 1
    assert first.state.interrupted and second.state.interrupted and third.state.interrupted
    assert first.state.epoch == second.state.epoch == 4
    assert first.error is None and isinstance(third.error, KeyboardInterrupt)
    models = [make(name, epochs=3) for name in ("gin", "gin", "gcn")]
    stop(4, KeyboardInterrupt)
    graphs = draw("several sizes", 30, 0)
    with pytest.raises(KeyboardInterrupt):
        fit_together([Fit(model, graphs) for model in models], networks=1)
    assert not models[0].interrupted_ and models[1].interrupted_ and not hasattr(models[2], "network_")


def test_ctrl_c_while_graphs_are_prepared_keeps_networks_that_are_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare, calls = Feed._pool, []

    def spy(feed: Feed, graphs: GraphSet) -> Any:
        calls.append(graphs)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return prepare(feed, graphs)

    monkeypatch.setattr(Feed, "_pool", spy)
    model = make("ci-gnn", epochs=2, n_estimators=4)
    fit_together([Fit(model, draw("aligned", 30, 0))], networks=1)
    assert model.interrupted_ and len(model.network_.networks()) == 2 and len(calls) == 3


def test_ctrl_c_while_weights_are_copied_keeps_those_of_the_epoch_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    epochs, state_of = iter(range(9)), NetworkStack.state_of

    def improving(loop: TrainingLoop) -> list[dict[str, float]]:
        return [{"accuracy": float(next(epochs)), "loss": 1.0, "price": 0.0}]

    def spy(stack: NetworkStack, row: int, average: bool = False) -> dict[str, Tensor]:
        if stack.steps[0] == 2:
            raise KeyboardInterrupt
        return state_of(stack, row, average)

    monkeypatch.setattr(TrainingLoop, "_evaluate", improving)
    monkeypatch.setattr(NetworkStack, "state_of", spy)
    (one,) = trained([plan(make("gin", epochs=3), draw("one size", 24, 0))])
    assert one.state.interrupted and one.state.best_epoch == 1 and one.state.best_score[0] == 0


@pytest.mark.parametrize("bad", [0, 2])
def test_a_network_that_came_to_nothing_does_not_hide_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, stop: Stop, bad: int
) -> None:
    """Whatever its place: who runs many trainings must not go on with the next."""
    plan = NeuralGraphClassifier._plan

    def spoilt(model: NeuralGraphClassifier, *args: Any) -> Any:
        made = plan(model, *args)
        made.trainings[bad].learning_rate = 1e38
        return made

    monkeypatch.setattr(NeuralGraphClassifier, "_plan", spoilt)
    stop(4, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt) as found:
        fit_together(
            [Fit(make("ci-gnn", epochs=9, n_estimators=3), draw("several sizes", 30, 0))], networks=3
        )
    assert isinstance(found.value.__cause__, FloatingPointError)


# ---------------------------------------------------------------- estimators


@pytest.mark.parametrize("networks", [1, 4])
def test_one_that_fails_does_not_keep_others_from_their_fit(tmp_path: Path, networks: int) -> None:
    graphs = draw("several sizes", 30, 0)
    (tmp_path / "spoilt").write_text("no checkpoint")
    more: list[dict[str, Any]] = [{}, {}, {"learning_rate": 1e38}, {"checkpoint": tmp_path / "spoilt"}, {}]
    labels = [None, np.where(graphs.y == 1, np.nan, 0.0), None, None, None]
    models = [make("gin", epochs=3, **{"random_state": i} | params) for i, params in enumerate(more)]
    fits = [Fit(model, graphs, y) for model, y in zip(models, labels, strict=True)]
    found = fit_together(fits, networks=networks)
    kinds = [None, ValueError, FloatingPointError, ValueError, None]
    assert [None if error is None else type(error) for error in found] == kinds
    assert "checkpoint" in str(found[3])
    for model, error in zip(models, found, strict=True):
        assert hasattr(model, "network_") == (error is None)
    alone = make("gin", epochs=3, random_state=4).fit(graphs)
    np.testing.assert_allclose(models[4].predict_proba(graphs), alone.predict_proba(graphs), atol=1e-3)


@pytest.mark.parametrize("networks", [1, 2])
def test_a_bar_counts_the_epochs_of_all_networks(networks: int) -> None:
    """So that the time left is that of all, also where they take turns."""
    steps = []

    class Bar:
        def add_task(self, *args: Any, **more: Any) -> None:
            pass

        def update(self, task: None, completed: int, total: int, **more: Any) -> None:
            steps.append((completed, total))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cignn.estimators.training.progress_bar", lambda *args, **more: nullcontext(Bar()))
        model = make("ci-gnn", epochs=3, n_estimators=4, verbose=1)
        fit_together([Fit(model, draw("several sizes", 30, 0))], networks=networks)
    assert steps == [(done, 12) for done in range(networks, 13, networks)]


@pytest.mark.parametrize("networks", [0, -1, 1.5, "many", None])
def test_an_unknown_number_of_networks_is_refused(networks: Any) -> None:
    with pytest.raises(ValueError, match="networks must be a whole number of at least 1"):
        fit_together([Fit(make("gin"), draw("one size", 20, 0))], networks=networks)


def test_members_with_batches_of_different_lengths_are_trained_too() -> None:
    graphs = draw("several sizes", 26, 0)
    graphs.meta["subject"] = np.repeat(np.arange(8), [1, 1, 2, 2, 3, 4, 6, 7])
    model = make("ci-gnn", epochs=2, n_estimators=4, validation_fraction=0.3)
    lengths = {len(one.training) for one in model._plan(graphs, None, None).trainings}
    assert len(lengths) > 1, "the case is not there"
    assert fit_together([Fit(model, graphs)], networks=4) == [None]
    assert len(model.network_.networks()) == 4


@pytest.mark.parametrize("method", ["gin", "paper"])
def test_networks_that_find_too_little_memory_begin_anew_in_smaller_stacks(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """In the eleventh epoch, which is in the second stage of the paper's."""
    evaluate, sizes = TrainingLoop._evaluate, []

    def spy(loop: TrainingLoop) -> list[dict[str, float]]:
        sizes.append(len(loop.members))
        if len(loop.members) > 2 and loop.members[0].state.epoch == 10:
            raise torch.cuda.OutOfMemoryError
        return evaluate(loop)

    graphs = draw("several sizes", 30, 0)
    alone = [make(method, epochs=12, random_state=seed).fit(graphs) for seed in range(4)]
    monkeypatch.setattr(TrainingLoop, "_evaluate", spy)
    models = [make(method, epochs=12, random_state=seed) for seed in range(4)]
    assert fit_together([Fit(model, graphs) for model in models], networks=4) == [None] * 4
    assert sizes == [4] * 11 + [2] * 24
    for model, one in zip(models, alone, strict=True):
        assert model.history_.epoch.tolist() == list(range(1, 13))
        np.testing.assert_allclose(model.history_.loss, one.history_.loss, rtol=1e-3)


def test_a_network_too_large_for_the_memory_does_not_keep_others_from_their_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluate = TrainingLoop._evaluate

    def spy(loop: TrainingLoop) -> list[dict[str, float]]:
        if any(one.learning_rate == 0.5 for one in loop.members):
            raise torch.cuda.OutOfMemoryError
        return evaluate(loop)

    monkeypatch.setattr(TrainingLoop, "_evaluate", spy)
    models = [make("gin", epochs=2, learning_rate=rate) for rate in (0.1, 0.5, 0.2)]
    found = fit_together([Fit(model, draw("one size", 24, 0)) for model in models], networks=3)
    assert isinstance(found[1], torch.cuda.OutOfMemoryError)
    assert found[0] is None and found[2] is None and len(models[2].history_) == 2


# -------------------------------------------------------------------- feeds


@pytest.mark.parametrize(
    ("method", "kind"), [("ci-gnn", "aligned"), ("ci-gnn", KINDS[-1]), ("dir", KINDS[-1])]
)
def test_graphs_that_are_read_batch_by_batch_give_the_same(
    monkeypatch: pytest.MonkeyPatch, method: str, kind: str
) -> None:
    makers = several(method, kind, epochs=6)
    resident = trained([maker() for maker in makers])
    monkeypatch.setattr(Feed, "_fits", lambda self: False)
    for one, other in zip(trained([maker() for maker in makers]), resident, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("fits", [True, False])
def test_a_batch_has_the_graphs_at_its_positions_and_their_labels(
    monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    monkeypatch.setattr(Feed, "_fits", lambda self: fits)
    trainings = [maker() for maker in several("dir", "several sizes")]
    loop = TrainingLoop(trainings, None)
    data = [one.training for one in trainings]
    rng = np.random.default_rng(0)
    positions = [[rng.permutation(len(one))[:7] for one in data] for _ in range(3)]
    for at, read in zip(positions, loop.batches(data, positions), strict=True):
        tensors = read.tensors(loop.feed)
        assert (
            tensors["adj"].shape[-1]
            == read.width
            == max(one.sizes[i].max() for one, i in zip(data, at, strict=True))
        )
        for row, (one, i) in enumerate(zip(data, at, strict=True)):
            batch = one.graphs.batch(one.rows[i])
            n = batch.adj.shape[1]
            assert torch.equal(tensors["adj"][row, :, :n, :n], batch.adj.double())
            assert torch.equal(tensors["x"][row, :, :n], batch.x.double())
            assert tensors["mask"][row].sum() == batch.mask.sum() and not tensors["adj"][row, :, n:].any()
            assert read.y[row].tolist() == one.y[i].tolist()
            edges = tensors["edge_list"][row]
            found = tensors["adj"][row].flatten(1).gather(1, edges)[edges > 0]
            assert len(found) == batch.edge_mask.sum() / 2 and found.all()


SIZES: list[tuple[int, int]] = [(1, 32), (5, 32), (31, 32), (32, 32), (33, 32), (64, 32), (100, 32), (100, 7)]


@pytest.mark.parametrize(("g", "batch_size"), SIZES)
def test_batches_have_one_length_and_every_graph_is_in_an_epoch(g: int, batch_size: int) -> None:
    rng = np.random.default_rng(0)
    graphs: Any = SimpleNamespace(n_nodes=rng.integers(3, 30, 200))
    data = Data(graphs, rng.permutation(200)[:g], np.zeros(g, int))
    for _ in range(5):
        batches = data.batches(batch_size, rng)
        assert {len(batch) for batch in batches} == {min(batch_size, g)} == {data.length(batch_size)}
        assert len(batches) == -(-g // batch_size)
        assert all(len(set(batch.tolist())) == len(batch) for batch in batches)
        assert set(np.concatenate(batches).tolist()) == set(range(g))


def test_batches_of_huge_graphs_are_shorter() -> None:
    sizes = np.array([6000] * 3 + [10] * 61)
    graphs: Any = SimpleNamespace(n_nodes=sizes)
    data = Data(graphs, np.arange(64), np.zeros(64, int))
    batches = data.batches(32, np.random.default_rng(0))
    assert not even(sizes, 32) and data.length(32) is None
    assert sorted(np.concatenate(batches).tolist()) == list(range(64))
    assert max(map(len, batches)) <= 32 and min(len(batch) for batch in batches if (batch < 3).any()) < 32


def test_a_gpu_pads_large_graphs_where_a_cpu_reads_fewer_at_once() -> None:
    graphs: Any = SimpleNamespace(n_nodes=np.array([600] * 3 + [10] * 61))
    here, there = (Data(graphs, np.arange(64), np.zeros(64, int), most) for most in BATCH_CELLS.values())
    assert here.length(32) is None and there.length(32) == 32
    assert len({len(batch) for batch in here.batches(32, np.random.default_rng(0))}) > 1
    assert {len(batch) for batch in there.batches(32, np.random.default_rng(0))} == {32}


def test_every_network_has_batches_and_noise_in_every_epoch_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders, seeds = [], []
    batches = TrainingLoop.batches

    def spy(loop: TrainingLoop, data: Any, positions: Any) -> Any:
        if torch.is_grad_enabled():
            orders.extend(tuple(np.concatenate(row).tolist()) for row in zip(*positions, strict=True))
            seeds.extend(generator.initial_seed() for generator in loop.noise.generators)
        return batches(loop, data, positions)

    monkeypatch.setattr(TrainingLoop, "batches", spy)
    graphs = draw("one size", 40, 0)
    train([plan(make("gin", epochs=3, random_state=seed), graphs) for seed in (0, 1)])
    assert len(orders) == len(set(orders)) == len(set(seeds)) == 6
    again = len(orders)
    train([plan(make("gin", epochs=3, random_state=1), graphs)])
    assert orders[again:] == orders[1:again:2] and seeds[again:] == seeds[1:again:2]


# -------------------------------------------------------------------- noise


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_a_network_draws_the_same_numbers_in_any_company(kind: str) -> None:
    def draws(seeds: Sequence[int], row: int, n: int, own: Sequence[int] | None = None) -> list[Tensor]:
        noise = Noise([torch.Generator().manual_seed(seed) for seed in seeds])
        noise.widths = own
        sample = getattr(noise, kind)
        vectors, matrices = torch.zeros(len(seeds), 4, n, 3), torch.zeros(len(seeds), 4, n, n)
        heads = torch.zeros(len(seeds), 4, 5)
        stacked = [
            torch.func.vmap(lambda like: sample(like, nodes=1))(vectors),
            torch.func.vmap(lambda like: sample(like, nodes=2))(matrices),
            torch.func.vmap(sample)(heads),
        ]
        return [part[row] for part in stacked]

    vectors, matrices, heads = draws([7], 0, 6)
    assert len({vectors.std().item(), matrices.std().item(), heads.std().item()}) == 3
    for seeds, row, n, own in (
        ([5, 7], 1, 6, None),
        ([7, 7, 3], 0, 9, [6, 4, 9]),
        ([1, 2, 7], 2, 8, [3, 8, 6]),
    ):
        found = draws(seeds, row, n, own)
        assert torch.equal(found[0][:, :6], vectors) and not found[0][:, 6:].any()
        assert torch.equal(found[1][:, :6, :6], matrices) and not found[1][:, 6:].any()
        assert torch.equal(found[2], heads)
    wide, narrow = draws([7], 0, 6, [9]), draws([7], 0, 9, [9])
    assert torch.equal(wide[0], narrow[0][:, :6]) and torch.equal(wide[1], narrow[1][:, :6, :6])


# ------------------------------------------------------------ prepared batches


@pytest.mark.parametrize("density", [None, 0.5])
@pytest.mark.parametrize("kind", ["aligned", "several sizes"])
@pytest.mark.parametrize("method", METHODS)
def test_a_prepared_batch_gives_what_others_give(method: str, kind: str, density: float | None) -> None:
    name = "encoder_density" if method in ("ci-gnn", "paper", "motif") else "density"
    graphs = draw(kind, 24, 0)
    one = plan(make(method, **{name: density}), graphs)
    plain = dataclasses.replace(doubled(graphs.batch()), y=torch.from_numpy(graphs.y))
    network, found = one.network, []
    state = {k: v.clone() for k, v in network.state_dict().items()}
    for batch in (plain, network.prepare(plain)):
        numbers = []
        for stage in one.stages:
            network.load_state_dict(state)
            network.train()
            noise = Noise([torch.Generator().manual_seed(0)])
            now = {k: torch.tensor(v, dtype=torch.float64) for k, v in stage.numbers(0, one).items()}
            terms = stage.losses(batch, noise, **now)
            numbers += [terms, dict(network.named_buffers())]
        network.load_state_dict(state)
        out = network.eval()(batch)
        numbers += [{"logits": out.logits, "embedding": network.embed(batch)}]
        if out.edge_weights is not None:
            numbers += [{"weights": out.edge_weights}]
        found.append([{k: v.detach().clone() for k, v in part.items()} for part in numbers])
    torch.testing.assert_close(found[0], found[1], rtol=1e-8, atol=1e-10)


# ------------------------------------------------------------ terms that are none


def test_a_term_that_is_no_number_is_left_out_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nowhere else: the others learn from theirs."""
    makers = several("ci-gnn", "aligned", epochs=4)
    alone = [trained([maker()])[0] for maker in makers]
    causal_losses = CIGNN.causal_losses

    def spoilt(self: CIGNN, *args: Any) -> dict[str, Tensor]:
        terms = causal_losses(self, *args)
        return terms | {"causal": torch.where(self.class_weight[0] == 1 + 1e-9, torch.nan, terms["causal"])}

    monkeypatch.setattr(CIGNN, "causal_losses", spoilt)
    together = [maker() for maker in makers]
    together[1].network.class_weight.fill_(1 + 1e-9)  # a mark that changes no loss
    train(together)
    first, second, third = together
    assert_same(first, alone[0])
    assert_same(third, alone[2])
    assert second.error is None and "causal" not in second.state.history[0]
    assert [row["skipped_terms"] for row in second.state.history] == [2] * 4, "one in each of two steps"
    assert all(np.isfinite(row["loss"]) for row in second.state.history)
    assert all(value.isfinite().all() for value in second.network.state_dict().values())
    different = [
        not torch.equal(value, alone[1].network.state_dict()[name])
        for name, value in second.network.state_dict().items()
    ]
    assert any(different)


@pytest.mark.parametrize("spoilt", [torch.nan, 1e30])
def test_a_network_that_waits_is_not_touched_by_its_gradient(spoilt: float) -> None:
    """In the batches that it reads again for the sake of others."""
    network = torch.nn.Linear(3, 1)
    state = {
        name: value.detach()[None].repeat(2, *[1] * value.dim())
        for name, value in network.state_dict().items()
    }
    stack = NetworkStack(network, state, list(state))

    def step(factors: list[float], active: list[float]) -> None:
        loss = stack.apply(lambda x: network(x).sum(), torch.ones(2, 4, 3)) * torch.tensor(factors)
        one, zero = torch.ones(2), torch.zeros(2)
        stack.step(loss, torch.tensor(active), 0.1 * one, one, 0.1 * one, zero)

    step([1.0, 1.0], [1.0, 1.0])
    tables = [stack.weights, stack.mean, stack.square, stack.averages[0]]
    before = [table[0].clone() for table in tables]
    step([spoilt, 1.0], [0.0, 1.0])
    assert all(torch.equal(table[0], old) for table, old in zip(tables, before, strict=True))
    assert not torch.equal(stack.weights[1], before[0]) and stack.weights.isfinite().all()


@pytest.mark.parametrize(
    ("order", "captured"), [(0.5, False), (1.01, True), (2, True), (64, True), (65, False)]
)
@pytest.mark.parametrize("method", ["ci-gnn", "paper"])
def test_a_step_that_needs_eigenvalues_is_not_captured(method: str, order: float, captured: bool) -> None:
    """Their solvers make the host wait, which ends a capture with an error."""
    one = plan(make(method, renyi_order=order), draw("aligned", 24, 0))
    assert [stage.capturable for stage in one.stages] == [captured] * 2


def test_only_so_many_steps_are_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of very different sizes make many shapes; those that are captured stay captured."""
    taken, replayed = [], []

    def step(batch: Read, active: Tensor) -> None:
        taken.append(batch.width)

    def capture(self: Captured, step: Any, batch: Read, active: Tensor) -> Any:
        return SimpleNamespace(replay=lambda: replayed.append(batch.width)), batch, active

    monkeypatch.setattr(Captured, "_capture", capture)
    monkeypatch.setattr("cignn.estimators.captured.MOST_GRAPHS", 2)
    captured = Captured([])
    rows = torch.zeros(1, 4, dtype=torch.long)
    for width in (8, 8, 16, 16, 24, 24, 24, 8, 16):
        captured.run(step, Read([], rows, rows, width), torch.ones(1))
    assert taken == [8, 16, 24, 24, 24] and replayed == [8, 16, 8, 16]


def test_steps_of_two_kinds_are_captured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def learn(batch: Read, active: Tensor) -> None:
        done.append("learn")

    def score(batch: Read, active: Tensor) -> None:
        done.append("score")

    def capture(self: Captured, step: Any, batch: Read, active: Tensor) -> Any:
        return SimpleNamespace(replay=lambda: done.append(f"{step.__name__} again")), batch, active

    monkeypatch.setattr(Captured, "_capture", capture)
    captured, rows = Captured([]), torch.zeros(1, 4, dtype=torch.long)
    for step in (learn, score, learn, score, learn):
        captured.run(step, Read([], rows, rows, 8), torch.ones(1))
    assert done == ["learn", "score", "learn again", "score again", "learn again"]


@pytest.mark.parametrize("method", ["ci-gnn", "motif", "gin", "gcn", "sib", "dir"])
def test_passes_that_renew_statistics_can_be_captured_too(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """There are ten of them in an epoch, more than steps where graphs are few."""
    seen: list[str] = []
    take = TrainingLoop.take

    def spy(loop: TrainingLoop, step: Any, batch: Read, active: Tensor) -> None:
        seen.append(step.__name__)
        take(loop, step, batch, active)

    monkeypatch.setattr(TrainingLoop, "take", spy)
    model = make(method).fit(draw("several sizes", 40, 0))
    norms = [module for module in model.network_.modules() if isinstance(module, NodeNorm)]
    assert set(seen) == {"_step"} | ({"_renewal"} if norms else set())


@pytest.mark.parametrize("number", [1, 3])
def test_renewed_statistics_are_means_over_batches(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    found: list[dict[str, Tensor]] = []
    keep = NetworkStack.keep_changed

    def spy(stack: NetworkStack, endings: tuple[str, ...], share: Tensor) -> None:
        if share.max() == 1:
            found.clear()
        found.append({name: value.clone() for name, value in stack.changed.items() if name.endswith(endings)})
        keep(stack, endings, share)
        for name, value in stack.tensors(average=True).items():
            if name.endswith(endings):
                mean = torch.stack([batch[name] for batch in found]).mean(0)
                torch.testing.assert_close(value, mean, rtol=1e-4, atol=1e-5)

    monkeypatch.setattr(NetworkStack, "keep_changed", spy)
    fits = [Fit(make("gin", random_state=i, epochs=3), draw("one size", 90, i)) for i in range(number)]
    assert fit_together(fits) == [None] * number, "what the spy asserts is among the failures"
    assert len(found) > 1 and len({value.shape[0] for value in found[0].values()} | {number}) == 1


@pytest.mark.parametrize("own", [False, True])
def test_what_a_batch_may_hold_goes_by_the_device(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    monkeypatch.setitem(BATCH_CELLS, "cpu", 7)
    graphs = draw("several sizes", 40, 0)
    found = make("gin")._plan(graphs, None, graphs[:10] if own else None)
    assert {one.training.most_cells for one in found.trainings} == {7}


def test_only_a_gpu_rounds_widths_up() -> None:
    sizes: Any = SimpleNamespace(sizes=np.array([3, 70, 65]))
    for device, expected in (("cpu", 65), ("cuda", 80)):
        feed: Any = SimpleNamespace(padded=True, widest=100, device=torch.device(device))
        assert Feed.width(feed, [sizes], [np.array([0, 2])]) == expected
        assert Feed.width(feed, [SimpleNamespace(sizes=np.array([99]))], [np.array([0])]) <= 100  # type: ignore[list-item]


@pytest.mark.parametrize("largest", [9, 25, 111, 620, 5000])
def test_graphs_are_padded_to_a_few_widths_on_a_gpu(largest: int) -> None:
    sizes = np.arange(1, largest + 1)
    widths = np.array([rounded_up(int(size)) for size in sizes])
    assert (widths >= sizes).all() and (np.diff(widths) >= 0).all()
    assert (widths <= np.maximum(sizes + 7, 1.25 * sizes)).all()
    assert len(np.unique(widths)) <= max(-(-largest // 8), 8 + 4 * np.log2(largest / 32))


def test_a_gpu_is_asked_how_much_memory_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch keeps of an earlier training is free; a small GPU holds fewer graphs and networks."""
    memory = {"free": 2**20, "kept": 0}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (memory["free"], 2**40))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5 + memory["kept"])
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 5)
    graphs, device = draw("several sizes", 200, 0), torch.device("cuda")
    feed = SimpleNamespace(sets={0: graphs}, device=device)
    needed = 200 * 4 * 9 * (3 * 9 + 2 * 3)
    for free, kept, fits in ((4 * needed, 0, True), (4 * needed - 4, 0, False), (0, 4 * needed, True)):
        memory |= {"free": free, "kept": kept}
        assert Feed._fits(feed) == fits  # type: ignore[arg-type]
    memory |= {"free": 2**28, "kept": 2**28}
    assert validation_cells(device) == 2**21 < VALIDATION_CELLS["cuda"]
    narrow, wide = (plan(make("gin", hidden=(width,)), graphs) for width in (8, 2048))
    memory |= {"free": 2**33, "kept": 0}
    found = []
    for one in (narrow, wide):
        network = SimpleNamespace(parameters=lambda one=one: (p.to("meta") for p in one.network.parameters()))
        found.append(at_once(dataclasses.replace(one, network=network)))  # type: ignore[arg-type]
    assert found[0] > 5 * found[1] >= 5
    memory |= {"free": 2**30, "kept": 7 * 2**30}
    assert at_once(dataclasses.replace(one, network=network)) == found[1]  # type: ignore[arg-type]


def test_small_graphs_share_steps_on_a_cpu_and_large_ones_are_read_alone() -> None:
    few, large = draw("several sizes", 40, 0), [np.ones((n, n)) - np.eye(n) for n in [300, *[5] * 39]]
    assert at_once(plan(make("gin"), few)) == PADDED_NETWORKS
    assert at_once(plan(make("gin"), GraphSet.from_arrays(large[::-1], y=few.y))) == 1


def test_small_steps_take_one_thread_and_leave_the_number_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(stacks, "train", lambda some, progress: seen.append(torch.get_num_threads()))
    try:
        torch.set_num_threads(2)
        for kind in ("several sizes", "aligned"):
            stacks._train_kind([plan(make("gin"), draw(kind, 40, 0))], "auto", None)
        assert seen == [1, 2] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_wide_features_count_for_what_stays_in_memory() -> None:
    x = [np.zeros((3, 50_000), np.float32)] * 2 + [np.zeros((4, 50_000), np.float32)]
    narrow = GraphSet.from_arrays([1 - np.eye(len(one)) for one in x], [one[:, :1] for one in x], [0, 1, 0])
    wide = GraphSet.from_arrays([1 - np.eye(len(one)) for one in x], x, [0, 1, 0])
    assert _pool_bytes(wide) > 3 * 4 * 4 * 50_000 > 1000 * _pool_bytes(narrow)


@pytest.mark.parametrize("method", ["ci-gnn", "sib"])
def test_graphs_on_the_device_are_forgotten_after_the_training(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """At once, not when Python happens to look for what is no longer used."""
    pool, held = Feed._pool, []

    def spy(feed: Feed, graphs: GraphSet) -> dict[str, Tensor]:
        tensors = pool(feed, graphs)
        held.extend(weakref.ref(value) for value in tensors.values())
        return tensors

    monkeypatch.setattr(Feed, "_pool", spy)
    gc.collect()
    gc.disable()
    try:
        make(method, epochs=2).fit(draw("several sizes", 24, 0))
        assert held and not any(tensor() is not None for tensor in held)
    finally:
        gc.enable()
