"""The preset "motif": what is outside the subgraph stays outside, and cut graphs keep their mask."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cignn import CIGNNClassifier, GraphSet, load_model
from cignn.datasets import make_ba2motifs, make_spurious_motifs
from cignn.estimators import PRESETS, ci_gnn_stages
from cignn.estimators.checkpoint import State
from cignn.estimators.ci_gnn import LEAST_EPOCHS, MOST_EPOCHS, READ_GRAPHS, STEPS, USUAL_EPOCHS
from cignn.estimators.ci_gnn_stages import (
    FREE_LOST,
    FREE_OTHERWISE,
    GONE,
    LAST_RATE,
    LEVEL_EPOCHS,
    is_given_up,
    make_stages,
    price_level,
)
from cignn.estimators.network_stack import NetworkStack, stacked_state
from cignn.estimators.settings import MAX_BATCH, MIN_BATCH
from cignn.estimators.training import Stage, keep_better
from cignn.estimators.training_loop import TrainingLoop
from cignn.graphs import GraphBatch
from cignn.nn import CIGNN, Noise
from cignn.nn.ci_gnn import PRICE_FLOOR
from cignn.nn.layers import GINLayer, NodeNorm, edge_positions, strongest_edges
from cignn.nn.subgraph import TIE_NOISE, expected_edges, heaviest_edges

WEIGHTS = {"warm_up": 0.25, "cut_weight": 0.25, "rest_weight": 1.0, "logit_weight": 0.02}
EASY: dict[str, Any] = {
    "epochs": 4,
    "n_estimators": 1,
    "settings": {"classifier_hidden": (8, 8), "encoder_hidden": (8,), "batch_size": 16, **WEIGHTS},
}
TERMS: dict[str, Any] = {"node_weights": True, "constant": True, "rest": True, "cut": True, "limit": True}


@pytest.fixture(scope="module")
def fitted() -> CIGNNClassifier:
    return CIGNNClassifier("motif", random_state=0, **EASY).fit(make_spurious_motifs(90, random_state=0))


def path_graph(n: int, features: np.ndarray, lone: int = 0) -> GraphSet:
    """A path of n nodes with these features, and nodes without an edge behind it."""
    adj = np.zeros((n + lone, n + lone))
    adj[np.arange(n - 1), np.arange(1, n)] = 1
    return GraphSet.from_arrays([adj + adj.T], [features])


def labelled(graphs: GraphSet) -> GraphBatch:
    """The graphs as a batch, of two classes in turn."""
    return replace(graphs.batch(), y=torch.arange(len(graphs)) % 2)


@pytest.mark.parametrize("readout", ["max", "sum", "mean"])
def test_what_is_outside_the_kept_edges_does_not_reach_the_classifier(readout: str) -> None:
    """Other features of nodes without an edge, and more or fewer of them, leave the logits as they are."""
    torch.manual_seed(0)
    network = CIGNN(
        2, 3, encoder="gin", mask_by="pairs", node_weights=True, bound=3.0, constant=True, readout=readout
    ).eval()
    rng = np.random.default_rng(0)
    kept, other = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    alone = network(path_graph(5, kept).batch()).logits
    for lone in (1, 4):
        features = np.concatenate([kept, 100 * other[:lone]])
        torch.testing.assert_close(network(path_graph(5, features, lone).batch()).logits, alone)
    open_ = CIGNN(2, 3, encoder="gin", mask_by="pairs", constant=True, readout="sum").eval()
    with_more = open_(path_graph(5, np.concatenate([kept, other]), 4).batch()).logits
    assert not torch.allclose(with_more, open_(path_graph(5, kept).batch()).logits)


def test_a_graph_cut_to_some_edges_is_the_graph_of_these_edges(fitted: CIGNNClassifier) -> None:
    """Removed edges, and what hangs on them, leave no trace: a weight of 0 is no edge."""
    batch = make_spurious_motifs(6, test_fraction=0, random_state=1).batch()
    network = fitted.network_
    weights = torch.zeros_like(batch.adj)
    weights[:, -10:, -10:] = 1  # the last nodes of every padded graph
    cut = replace(batch, adj=batch.adj * weights)
    torch.testing.assert_close(network.read(batch, weights), network.read(cut), atol=1e-5, rtol=1e-5)
    changed = replace(cut, x=torch.where(cut.adj.any(-1, keepdim=True), cut.x, 7.0))
    torch.testing.assert_close(network.read(changed), network.read(cut), atol=1e-5, rtol=1e-5)


def test_batch_statistics_count_nodes_by_their_weights() -> None:
    norm = NodeNorm(1).train()
    x, weight = torch.tensor([[[1.0], [3.0], [50.0]]]), torch.tensor([[1.0, 1.0, 0.0]])
    out = norm(x * (weight > 0).unsqueeze(-1), weight)
    assert out[0, 2].item() == 0 and norm.running_mean.item() == pytest.approx(0.2)
    halves = NodeNorm(1).train()
    halves(x, torch.tensor([[0.5, 0.5, 0.0]]))
    assert halves.running_mean.item() == pytest.approx(0.2)


def test_a_hub_does_not_drown_its_neighbours() -> None:
    """With a bound a node that no training graph had changes its neighbours' vectors by a bounded amount."""
    torch.manual_seed(0)
    layer = GINLayer(3, 8, bound=3.0).eval()
    adj = torch.ones(1, 4, 4) - torch.eye(4)
    with torch.no_grad():
        outs = [layer(scale * torch.ones(1, 4, 3), adj) for scale in (1e3, 1e4)]
    torch.testing.assert_close(outs[0], outs[1])


def test_heaviest_edges_are_those_of_the_largest_weights() -> None:
    torch.manual_seed(0)
    edges = (torch.ones(8, 8) - torch.eye(8)).expand(50, 8, 8)
    weights = torch.rand(50, 8, 8).triu(1).round(decimals=1)
    weights = weights + weights.transpose(1, 2)
    kept = heaviest_edges(weights, edges)
    assert torch.equal(kept, kept.transpose(1, 2)) and kept.unique().tolist() == [0, 1]
    counts = kept.sum((1, 2)) / 2
    assert counts.min() < 8 and counts.max() > 20 and (counts >= 1).all()
    lightest = torch.where(kept > 0, weights, 2.0).amin((1, 2))
    heaviest = torch.where((kept == 0) & (edges > 0), weights, -1.0).amax((1, 2))
    assert (heaviest <= lightest + TIE_NOISE).all()


def test_expected_edges_are_as_many_as_the_weights_add_up_to() -> None:
    weights = torch.zeros(2, 4, 4)
    for i, j, w in ((0, 1, 0.9), (1, 2, 0.8), (2, 3, 0.2)):
        weights[0, i, j] = weights[0, j, i] = w
    kept = expected_edges(weights)
    assert kept[0].nonzero().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert kept[1].sum() == 0  # a graph without edges


def test_the_mask_of_pairs_is_symmetric_and_has_no_other_edges() -> None:
    torch.manual_seed(0)
    batch = make_spurious_motifs(5, test_fraction=0, random_state=0).batch()
    out = CIGNN(1, 3, encoder="gin", mask_by="pairs", n_causal=4).eval()(batch)
    assert torch.equal(out.edge_weights, out.edge_weights.transpose(1, 2))
    assert torch.equal(out.edge_weights > 0, batch.edge_mask)


def test_the_warm_up_trains_the_classifier_alone(fitted: CIGNNClassifier) -> None:
    history = fitted.history_
    assert history["stage"].tolist() == ["warm-up", "classification", "classification", "classification"]
    assert history.loc[0, ["edges", "consistency", "rest"]].isna().all()
    assert history.loc[1:, ["edges", "logits", "consistency", "rest"]].notna().all(None)
    short = CIGNNClassifier("motif", random_state=0, **EASY | {"epochs": 1})
    assert short.fit(make_ba2motifs(40, random_state=0)).history_["stage"].tolist() == ["classification"]


def test_the_warm_up_finds_what_whole_graphs_explain() -> None:
    """The share of an untrained network is soon the least there is; nothing but the warm-up moves it."""
    torch.manual_seed(0)
    network = CIGNN(1, 2, encoder="gin", mask_by="pairs", pricing="relative", **TERMS).train()
    batch = labelled(make_spurious_motifs(8, test_fraction=0, random_state=0))
    network.classification_losses(batch, 0.3)
    assert network.whole_share == 1
    for _ in range(100):
        loss = network.warm_up_losses(batch)["classification"]
    assert network.whole_share < 0.2
    loss.backward()
    assert all(p.grad is None for part in (network.encoder, network.subgraph) for p in part.parameters())
    assert all(p.grad is not None for p in network.classifier.parameters())


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_the_learning_rate_falls_at_the_end(decay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rates, step = [], NetworkStack.step

    def spy(stack: NetworkStack, *args: Any, learning_rate: torch.Tensor, **more: Any) -> None:
        rates.append(learning_rate.item())
        step(stack, *args, learning_rate=learning_rate, **more)

    monkeypatch.setattr(NetworkStack, "step", spy)
    settings = EASY["settings"] | {"rate_decay": decay, "warm_up": 0.4, "refinement": 0.0}
    settings |= {"learning_rate": 0.01}
    more = {"epochs": 20, "n_estimators": 1, "settings": settings | {"batch_size": 100}}
    CIGNNClassifier("motif", random_state=0, **more).fit(make_ba2motifs(40, random_state=0))
    assert len(rates) == 20
    for stage in (rates[:8], rates[8:]):  # the warm-up, then the rest
        constant = len(stage) if decay == 0 else max(1, int((1 - decay) * len(stage)))
        if decay < 1:
            np.testing.assert_allclose(stage[:constant], 0.01, rtol=1e-6)
        assert (np.diff(stage[constant - 1 :]) < 0).all()
        assert stage[-1] == pytest.approx(0.01 * (LAST_RATE if decay else 1))


def test_the_epoch_is_chosen_by_cut_graphs_too(fitted: CIGNNClassifier) -> None:
    """Of two epochs of one accuracy the one whose cut graphs keep their class is kept, cheaper or not."""
    assert fitted.history_["validation_cut_accuracy"].iloc[1:].between(0, 1).all()
    stage = Stage("classification", 3, [], lambda batch, noise: {}, {}, choose_from=0)
    state = State()
    for epoch, (cut, loss) in enumerate([(0.5, 0.1), (0.9, 0.2), (0.6, 0.0)]):
        state.epoch = epoch + 1
        scores = {"accuracy": 1.0, "cut_accuracy": cut, "loss": loss, "price": 0.0}
        keep_better(state, stage, epoch, scores, dict, 100)
    assert state.best_epoch == 2


@pytest.mark.parametrize(("price", "kept"), [(0.4, 2), (0.8, 1)])
def test_of_two_epochs_of_nearly_the_same_accuracy_the_smaller_mask_is_kept(price: float, kept: int) -> None:
    """Cut to many edges a graph keeps its class more easily."""
    stage = Stage("classification", 2, [], lambda batch, noise: {}, {}, choose_from=0)
    state = State()
    for epoch, (cut, cost) in enumerate([(0.99, 0.9), (0.96, price)]):
        state.epoch = epoch + 1
        scores = {"accuracy": 1.0, "cut_accuracy": cut, "loss": 0.0, "price": cost}
        keep_better(state, stage, epoch, scores, dict, 100)
    assert state.best_epoch == kept


def accuracies(*values: float, stage: str = "classification") -> list[dict[str, Any]]:
    """A history with each accuracy for as long as it takes to count."""
    return [{"stage": stage, "validation_accuracy": value} for value in values for _ in range(LEVEL_EPOCHS)]


def level(history: list[dict[str, Any]], done: int = LEVEL_EPOCHS) -> float:
    """The level after so many epochs at full price."""
    return price_level(history, done, FREE_LOST)


def test_the_price_falls_with_what_subgraphs_lose() -> None:
    """It counts in full until clearly fewer validation graphs are right, and again when they are."""
    middle = FREE_LOST * (1 + GONE) / 2
    assert level([]) == level(accuracies(0.8)) == level(accuracies(0.8, 0.9)) == 1
    assert level(accuracies(0.9, 0.9 - FREE_LOST + 1e-6)) == 1
    assert level(accuracies(0.9, 0.9 - middle)) == pytest.approx(0.5)
    assert level(accuracies(0.9, 0.9 - 2 * GONE * FREE_LOST)) == 0
    assert level(accuracies(0.9, 0.5, 0.9)) == 1
    once = accuracies(0.9, 0.9)
    once[-1]["validation_accuracy"] -= FREE_LOST
    assert level(once) == 1, "a single epoch is averaged with others"
    before = accuracies(1.0, 1.0, stage="generative")
    assert level(before + accuracies(0.8)) == 1, "nothing was trained to classify yet"
    assert level(accuracies(0.9, stage="warm-up") + accuracies(0.8)) == 0, "whole graphs did better"


@pytest.mark.parametrize(("n_graphs", "expected"), [(17, 1.0), (1000, 0.0)])
def test_one_validation_graph_may_always_be_lost(n_graphs: int, expected: float) -> None:
    """Where there are few, a single one is no sign that subgraphs are too small."""
    settings = PRESETS["motif"].replace(warm_up=0.0, refinement=0.0, keep_anneal=0.0)
    stage = make_stages({**settings, "epochs": 20}, CIGNN(3, 2, mask_by="pairs"))[-1]
    history = accuracies(0.9, 0.9 - 1 / 17)
    training: Any = SimpleNamespace(state=State(history=history), validation=range(n_graphs))
    assert stage.numbers(len(history), training)["level"] == pytest.approx(expected)


def test_the_price_is_asked_in_full_until_it_has_risen() -> None:
    assert level(accuracies(0.9, stage="warm-up") + accuracies(0.5), done=-1) == 1


@pytest.mark.parametrize("tried", [0.9, 0.5])
def test_a_trial_decides_whether_small_subgraphs_are_asked_for_later(tried: float) -> None:
    """What whole graphs tell comes back where they are not: with them it would be lost again."""
    history = accuracies(0.9, stage="warm-up") + accuracies(tried, tried, 0.9, 0.9)
    done = 3 * LEVEL_EPOCHS
    assert is_given_up(history, done, LEVEL_EPOCHS, FREE_LOST) is (tried == 0.5)
    for too_early in (-1, LEVEL_EPOCHS - 1):
        assert not is_given_up(history, too_early, LEVEL_EPOCHS, FREE_LOST)
    assert not is_given_up(history, done, 0, FREE_LOST)


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_graphs_that_need_more_edges_are_asked_for_larger_subgraphs(keep: float) -> None:
    """A mask of every edge chooses nothing: the price is that of a larger share, never of a smaller one."""
    settings = PRESETS["motif"].replace(warm_up=0.0, refinement=0.0, keep_anneal=0.0, keep=keep)
    stage = make_stages({**settings, "epochs": 4 * LEVEL_EPOCHS}, CIGNN(3, 2, mask_by="pairs"))[-1]

    def prices(*found: float) -> dict[str, float]:
        history = accuracies(0.9, stage="warm-up") + accuracies(*found)
        training: Any = SimpleNamespace(state=State(history=history), validation=range(1000))
        return stage.numbers(len(found) * LEVEL_EPOCHS, training)

    assert prices(0.9, 0.9, 0.9) == {"keep": pytest.approx(keep), "level": 1.0, "least": PRICE_FLOOR}
    assert prices(0.5, 0.5, 0.9) == {"keep": max(keep, FREE_OTHERWISE), "level": 0.0, "least": 1.0}


@pytest.mark.parametrize(("given_up", "kept"), [(True, 3), (False, 2)])
def test_the_choice_of_the_epoch_begins_anew_with_larger_subgraphs(
    given_up: bool, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept before has another mask, however well graphs were classified with it."""
    scores = {"loss": 0.0, "price": 0.0, "cut_accuracy": 1.0}
    accuracy = iter([1.0, 1.0, 0.5, 0.4])
    evaluate = TrainingLoop._evaluate

    def spy(loop: TrainingLoop) -> list[dict[str, float]]:
        assert len(evaluate(loop)) == 1
        return [{"accuracy": next(accuracy)} | scores]

    monkeypatch.setattr(TrainingLoop, "_evaluate", spy)
    monkeypatch.setattr(ci_gnn_stages, "is_given_up", lambda history, done, *more: given_up and done >= 2)
    settings = EASY["settings"] | {"warm_up": 0.0, "refinement": 0.0, "keep_anneal": 0.0, "rate_decay": 0.0}
    given = EASY | {"settings": settings}
    model = CIGNNClassifier("motif", random_state=0, **given).fit(make_spurious_motifs(90, random_state=0))
    assert model.best_epoch_ == kept


@pytest.mark.parametrize(("rate_decay", "kept"), [(0.5, 16), (0.0, 10)])
def test_the_epoch_is_one_of_the_last_where_the_learning_rate_falls(rate_decay: float, kept: int) -> None:
    """There the mask has settled; others choose among all in which the price is due."""
    settings = PRESETS["motif"].replace(rate_decay=rate_decay, warm_up=0.0, refinement=0.0)
    stage = make_stages({**settings, "epochs": 20}, CIGNN(3, 2, mask_by="pairs"))[-1]
    state = State()
    for epoch in range(20):  # each is worse than the one before
        state.epoch = epoch
        scores = {"accuracy": 1 - epoch / 500, "loss": 0.0, "price": 0.0, "cut_accuracy": 0.5}
        keep_better(state, stage, epoch, scores, lambda: {"weight": torch.zeros(1)}, 1000)
        assert bool(state.best_weights) == (epoch >= 10), "a training that ends early has weights too"
    assert state.best_epoch == kept


@pytest.mark.parametrize(("n_graphs", "kept"), [(1000, 15), (20, 19)])
def test_a_network_that_loses_its_way_at_the_end_is_kept_as_it_was_before(n_graphs: int, kept: int) -> None:
    """But a few validation graphs more or less are no sign of that."""
    settings = PRESETS["motif"].replace(warm_up=0.0, refinement=0.0, keep_anneal=0.5)
    stage = make_stages({**settings, "epochs": 20}, CIGNN(3, 2, mask_by="pairs"))[-1]
    state = State()
    for epoch in range(20):
        state.epoch = epoch
        scores = {"accuracy": 0.9 if epoch < 16 else 0.83, "loss": 0.0, "price": 0.5, "cut_accuracy": 0.9}
        keep_better(state, stage, epoch, scores, dict, n_graphs)
    assert state.best_epoch == kept


def test_without_level_no_term_but_the_least_of_the_price_is_left() -> None:
    torch.manual_seed(0)
    network = CIGNN(1, 2, encoder="gin", mask_by="pairs", pricing="relative", **TERMS).train()
    network.whole_share.fill_(0.05)
    batch = labelled(make_spurious_motifs(8, test_fraction=0, random_state=0))
    full, none, other = (
        network.classification_losses(batch, 0.3, noise=Noise([torch.Generator()]), **prices)
        for prices in ({}, {"level": 0.0}, {"level": 0.0, "least": 1.0})
    )
    assert none["rest"] == none["consistency"] == 0 != full["consistency"]
    assert 0 < none["edges"] <= full["edges"]
    torch.testing.assert_close(none["edges"], PRICE_FLOOR * other["edges"])
    torch.testing.assert_close(none["classification"], full["classification"])


@pytest.mark.parametrize("n_graphs", [60, 900, 6000, 40_000])
def test_epochs_and_batches_follow_the_number_of_graphs(n_graphs: int) -> None:
    """Within bounds: enough epochs for so many steps, at least the usual number but for very many graphs."""
    graphs = GraphSet.from_arrays([np.zeros((size, size)) for size in (2, 3)] * (n_graphs // 2))
    settings = CIGNNClassifier("motif", settings={"refinement": 0.0})._settings(graphs)
    epochs, batch_size = settings["epochs"], settings["batch_size"]
    more = CIGNNClassifier("motif")._settings(graphs)
    assert more["epochs"] * (1 - more["refinement"]) == pytest.approx(epochs, abs=1), "refined besides"
    steps = -(-n_graphs // batch_size)
    assert MIN_BATCH <= batch_size <= MAX_BATCH and LEAST_EPOCHS <= epochs <= MOST_EPOCHS
    if epochs > USUAL_EPOCHS:
        assert (epochs - 1) * steps < STEPS
    if epochs > LEAST_EPOCHS:
        assert epochs * n_graphs <= READ_GRAPHS
    if epochs < USUAL_EPOCHS:
        assert (epochs + 1) * n_graphs > READ_GRAPHS
    elif epochs < MOST_EPOCHS:
        assert epochs * steps >= STEPS
    assert CIGNNClassifier("motif", settings={"batch_size": 7})._settings(graphs)["batch_size"] == 7


def test_a_saved_model_reads_as_before(fitted: CIGNNClassifier, tmp_path: Path) -> None:
    graphs = make_spurious_motifs(15, random_state=2)
    fitted.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(graphs), fitted.predict_proba(graphs))
    assert again.settings_ == fitted.settings_ and again.settings_["bound"] == PRESETS["motif"].bound


def test_seeds_together_are_seeds_alone() -> None:
    graphs = make_spurious_motifs(60, random_state=0)
    alone = CIGNNClassifier("motif", random_state=0, **EASY).fit(graphs)
    pair = CIGNNClassifier("motif", random_state=0, **EASY | {"n_estimators": 2}).fit(graphs)
    assert np.isfinite(pair.predict_proba(graphs)).all() and pair.history_["epoch"].max() == 4
    assert alone.history_["loss"].notna().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mask_by": "sums"}, "mask_by must be one of 'pairs', 'products', got 'sums'"),
        ({"warm_up": 1.0}, "warm_up"),
        ({"bound": -1.0}, "bound"),
        ({"cut_weight": -0.1}, "cut_weight"),
        ({"keep_start": 1.5}, "keep_start"),
        ({"batch_size": "all"}, "batch_size"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CIGNNClassifier("motif", settings=settings).fit(make_ba2motifs(20, random_state=0))


@pytest.mark.parametrize("cut", [heaviest_edges, lambda weights, edges: expected_edges(weights)])
def test_graphs_without_edges_and_weights_that_are_no_numbers_are_cut_to_nothing(cut: Any) -> None:
    for n in (1, 3):
        assert cut(torch.zeros(2, n, n), torch.zeros(2, n, n)).sum() == 0
    edges = torch.ones(1, 3, 3) - torch.eye(3)
    assert cut(edges * torch.nan, edges).shape == (1, 3, 3)


@pytest.mark.parametrize("sizes", [[5], [5, 3], [4, 1, 6], [1, 1]], ids=str)
def test_few_graphs_are_enough_for_every_term(sizes: list[int]) -> None:
    """Terms that read every fourth graph read at least one, whatever its edges."""
    torch.manual_seed(0)
    arrays = [np.ones((n, n)) - np.eye(n) for n in sizes]
    batch = labelled(GraphSet.from_arrays(arrays))
    network = CIGNN(batch.x.shape[-1], 2, encoder="gin", mask_by="pairs", pricing="relative", **TERMS)
    losses = network.train().classification_losses(batch, 0.3, generative=True)
    assert {"rest", "consistency", "edges", "logits", "features"} <= losses.keys()
    losses |= network.refinement_losses(batch)
    assert "cut" in losses
    assert all(torch.isfinite(value) for value in losses.values())


def test_the_class_of_a_cut_graph_is_not_asked_while_the_mask_learns() -> None:
    """Else a classifier can learn to tell a class by what is missing: few edges may tell none."""
    torch.manual_seed(0)
    network = CIGNN(1, 3, encoder="gin", mask_by="pairs", **TERMS).train()
    network.label_entropy.fill_(9.0)  # what graphs say is enough for the term to count
    losses = network.classification_losses(labelled(make_spurious_motifs(8, test_fraction=0)), 0.3)
    assert "cut" not in losses
    losses["consistency"].backward()
    assert all(value.grad is None for value in network.classifier.parameters())
    assert any(value.grad is not None and value.grad.any() for value in network.subgraph.parameters())


def test_cutting_leaves_every_module_in_its_mode() -> None:
    """A module that is not trained keeps its batch statistics, in the first step and in all others."""
    network = CIGNN(1, 3, encoder="gin", mask_by="pairs", **TERMS).train()
    network.encoder.eval()
    before = {name: value.clone() for name, value in network.encoder.state_dict().items()}
    batch = labelled(make_spurious_motifs(8, test_fraction=0, random_state=0))
    for _ in range(2):
        network.classification_losses(batch, 0.3)
    assert network.training and network.classifier.training and not network.encoder.training
    assert all(torch.equal(value, before[name]) for name, value in network.encoder.state_dict().items())


def test_graphs_of_one_mask_are_cut_too() -> None:
    """With a mask that all graphs share, and a classifier of pairs of nodes."""
    torch.manual_seed(0)
    batch = labelled(GraphSet.from_arrays(np.ones((8, 4, 4)), aligned=True))
    shared = {"n_nodes": 4, "node_vectors": True, "mask_from": "nodes", "readout": "edges", "cut": True}
    network = CIGNN(4, 2, **shared).train()
    losses = network.classification_losses(batch, 0.3) | network.refinement_losses(batch)
    assert torch.isfinite(losses["cut"]) and torch.isfinite(losses["consistency"])


def test_the_strongest_edges_are_found_in_a_stack() -> None:
    """Padded graphs of many networks at once: what is chosen is what each would choose alone."""
    graphs = make_spurious_motifs(6, test_fraction=0, random_state=0)
    batch = graphs.batch()
    noise = torch.rand(2, *batch.adj.shape, generator=torch.Generator().manual_seed(0)).triu(1)
    adj = (noise + noise.transpose(2, 3)) * batch.adj
    mask = batch.mask.expand(2, -1, -1)
    together = torch.func.vmap(lambda a, m: strongest_edges(a, 0.1, m))(adj, mask)
    for one, found in zip(adj, together, strict=True):
        alone = [strongest_edges(a[None, :n, :n], 0.1)[0] for a, n in zip(one, batch.n_nodes, strict=True)]
        for graph, own, n in zip(found, alone, batch.n_nodes, strict=True):
            assert torch.equal(graph[:n, :n], own) and 0 < (own != 0).sum() < (graph.shape[0] ** 2)


def test_longer_lists_of_edges_change_nothing() -> None:
    """Places without an edge at the ends of lists count in no term, and draws stay those of the nodes."""
    torch.manual_seed(0)
    batch = labelled(make_spurious_motifs(15, random_state=0)[:8])
    network = CIGNN(batch.x.shape[-1], 2, encoder="gin", mask_by="pairs", **TERMS).double()
    network.label_entropy.fill_(9.0)  # what graphs say is enough for every term to count
    tensors = batch.tensors()
    batch = GraphBatch.of(
        {name: value.double() if value.is_floating_point() else value for name, value in tensors.items()},
        batch.padded,
    )
    found = []
    for more in (0, 7):
        edges = torch.nn.functional.pad(edge_positions(batch.adj), (0, more))
        noise = Noise([torch.Generator().manual_seed(1)])
        terms = deepcopy(network).classification_losses(replace(batch, edge_list=edges), 0.3, noise=noise)
        found.append({name: value.item() for name, value in terms.items()})
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0]["edges"] > 0 and found[0]["consistency"] > 0


def test_a_network_alone_is_trained_as_in_a_stack() -> None:
    """Without vmap and with it: the same losses and, after a step, the same weights and statistics."""
    torch.manual_seed(0)
    batch = labelled(make_spurious_motifs(15, random_state=0)[:8])
    networks = [CIGNN(batch.x.shape[-1], 2, encoder="gin", mask_by="pairs", **TERMS) for _ in range(2)]
    batch = networks[0].prepare(batch)
    tensors = {name: value for name, value in batch.tensors().items() if name != "y"}
    seen = []
    for some in (networks[:1], networks):
        stack = NetworkStack(networks[0], stacked_state(some), [n for n, _ in some[0].named_parameters()])
        noise = Noise([torch.Generator().manual_seed(seed) for seed in range(len(some))])
        many = {name: value.expand(len(some), *value.shape) for name, value in tensors.items()}
        labels = batch.y.expand(len(some), -1)

        def losses(tensors: dict, y: torch.Tensor, noise: Noise = noise) -> dict[str, torch.Tensor]:
            graphs = GraphBatch.of(tensors | {"y": y}, batch.padded)
            return networks[0].classification_losses(graphs, 0.3, noise=noise)

        terms = stack.apply(losses, many, labels)
        ones = torch.ones(len(some))
        stack.step(sum(terms.values()), ones, 1e-3 * ones, ones, 0 * ones, 0 * ones)
        seen.append(({name: value[0].item() for name, value in terms.items()}, stack.state_of(0)))
    assert seen[0][0] == pytest.approx(seen[1][0], rel=1e-4, abs=1e-5)
    for name, value in seen[0][1].items():
        if "running" in name or "whole" in name:  # Adam's first step is the sign of the gradient
            torch.testing.assert_close(value, seen[1][1][name], rtol=1e-4, atol=1e-5)


# --------------------------------------------------------------- where the mask begins


@pytest.mark.parametrize(
    ("changed", "inherits"),
    [
        ({}, True),
        ({"encoder_hidden": (8,)}, False),
        ({"encoder": "gcn"}, False),
        ({"warm_up": 0.0}, False),
        ({"generative_epochs": 1}, False),
    ],
    ids=str,
)
def test_the_encoder_begins_as_the_classifier_after_its_warm_up(
    changed: dict[str, Any], inherits: bool
) -> None:
    settings = {"classifier_hidden": (8, 8), "encoder_hidden": (8, 8), "batch_size": 16, "warm_up": 0.5}
    still = {"learning_rate": 1e-9, "ema_decay": 0.0}  # what a stage begins with is what it ends with
    model = CIGNNClassifier(
        "motif", epochs=4, n_estimators=1, random_state=0, settings=settings | still | changed
    ).fit(make_spurious_motifs(60, random_state=0))
    mine, theirs = (
        dict(part.layers.named_parameters()) for part in (model.network_.encoder, model.network_.classifier)
    )
    same = list(mine) == list(theirs) and all(
        value.shape == theirs[name].shape and torch.allclose(value, theirs[name], atol=1e-6)
        for name, value in mine.items()
    )
    assert same is inherits
