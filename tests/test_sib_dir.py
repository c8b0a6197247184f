"""What must hold for SIB and DIR: each is its paper's method, and both explain."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cignn import GraphSet
from cignn.datasets import make_ba2motifs
from cignn.estimators import DIRClassifier, SIBClassifier, load_model
from cignn.estimators.explaining import ExplainingClassifier
from cignn.information import donsker_varadhan
from cignn.nn import DIR, SIB
from cignn.nn.dir import intervene, intervention_risks, top_edges
from cignn.nn.layers import edge_positions
from cignn.nn.sib import Discriminator, connectivity_loss, standardised
from cignn.nn.subgraph import EdgeScorer
from conftest import Stop
from examples import random_matrix

TINY: dict[str, Any] = {"hidden": (16, 16), "head_hidden": (8,), "epochs": 3, "random_state": 0}
MAKE: dict[str, Callable[..., ExplainingClassifier]] = {
    "sib": lambda **more: SIBClassifier(**TINY | {"inner_steps": 3} | more),
    "dir": lambda **more: DIRClassifier(**TINY | {"scorer_hidden": (8,)} | more),
}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return make_ba2motifs(40, random_state=0)


def ragged(seed: int = 0) -> GraphSet:
    rng = np.random.default_rng(seed)
    matrices = [random_matrix(rng, n, 0.5) for n in (5, 7, 9, 6) * 4]
    x = [rng.normal(size=(len(matrix), 3)) for matrix in matrices]
    return GraphSet.from_arrays(matrices, x, np.arange(16) % 2)


# ------------------------------------------------------------------------ SIB


def pairs(dependent: bool, b: int = 64) -> tuple[Tensor, Tensor]:
    """Two-dimensional Gaussians; the dependent ones share 0.51 nats: correlation 0.8 in one dimension."""
    u, noise = torch.randn(b, 2), torch.randn(b, 2)
    rho = torch.tensor([0.8, 0.0]) if dependent else torch.zeros(2)
    return u, rho * u + (1 - rho**2).sqrt() * noise


def estimate(dependent: bool) -> tuple[float, float]:
    """The bound on new pairs before and after the discriminator has learnt from others, batch after batch."""
    torch.manual_seed(0)
    discriminator = Discriminator(2, 2, 32)

    def on_new_pairs() -> float:
        return float(np.mean([discriminator.information(*pairs(dependent)).item() for _ in range(40)]))

    before = on_new_pairs()
    for _ in range(60):
        discriminator.learn(*pairs(dependent), 5, 0.003)
    return before, on_new_pairs()


def test_information_rises_on_dependent_pairs_and_stays_near_zero_on_independent_ones() -> None:
    before, after = estimate(dependent=True)
    truth = -0.5 * math.log(1 - 0.8**2)
    assert abs(before) < 0.05 and 0.6 * truth < after < 1.1 * truth
    before, after = estimate(dependent=False)
    assert abs(before) < 0.05 and -0.1 < after < 0.05


def test_the_bound_equals_its_formula() -> None:
    scores = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
    expected = 2.0 - math.log((math.exp(2) + math.exp(0)) / 2)
    assert donsker_varadhan(scores).item() == pytest.approx(expected)
    assert donsker_varadhan(torch.full((5, 5), 7.0)).item() == pytest.approx(0, abs=1e-6)
    assert donsker_varadhan(torch.tensor([[4.0]])).item() == 0
    assert donsker_varadhan(torch.diag(torch.full((4,), 1e4))).isfinite()


def test_the_inner_loop_is_adam() -> None:
    torch.manual_seed(0)
    ours, other = Discriminator(2, 2, 8), Discriminator(2, 2, 8)
    other.load_state_dict(ours.state_dict())
    optimiser = torch.optim.Adam(other.parameters(), lr=0.01)
    for _ in range(3):
        u, v = pairs(True)
        ours.learn(u, v, 4, 0.01)
        for _ in range(4):
            optimiser.zero_grad()
            (-donsker_varadhan(other(u, v))).backward()
            optimiser.step()
    for mine, theirs in zip(ours.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_outer_step_moves_the_network_and_leaves_the_discriminator(graphs: GraphSet) -> None:
    torch.manual_seed(0)
    network = SIB(graphs.n_features, 2, hidden=(8, 8), head=(8,))
    losses = network.losses(graphs.batch(y=graphs.y), 2, 1e-3)
    assert set(losses) == {"classification", "information", "connectivity"}
    losses["information"].backward()
    assert all(p.grad is None for p in network.discriminator.parameters())
    assert all(p.grad is not None for p in network.assign.parameters())
    outer = {id(p) for p in network.outer_parameters()}
    assert outer | {id(p) for p in network.discriminator.parameters()} == {
        id(p) for p in network.parameters()
    }
    assert all(id(p) not in outer for p in network.discriminator.parameters())


def test_a_price_on_information_lowers_it(graphs: GraphSet) -> None:
    quick = {
        "ema_decay": 0.0,
        "learning_rate": 0.01,
        "epochs": 12,
        "dropout": 0.0,
        "connectivity_weight": 0.0,
    }
    free, dear = (
        MAKE["sib"](**quick, information_weight=w).fit(graphs).history_["information"].iloc[-4:].mean()
        for w in (0.0, 3.0)
    )
    assert dear < free


def test_sib_asks_nothing_of_subgraphs_before_it_has_learnt(graphs: GraphSet) -> None:
    """Where predictions explain nothing of the labels, an empty subgraph must not be worth having."""
    network = MAKE["sib"]().fit(graphs).network_.train()
    batch = graphs.batch(np.arange(len(graphs)), graphs.y)
    with torch.no_grad():
        for parameter in network.classifier.head[-1].parameters():
            parameter.zero_()
    losses = network.losses(batch, 1, 1e-3)
    assert losses["information"] == 0 and losses["connectivity"] == 0
    network.label_entropy *= 2  # as if half of the labels' entropy were explained
    losses = network.losses(batch, 1, 1e-3)
    assert losses["connectivity"] > 0


def test_connectivity_is_lost_by_cutting_edges() -> None:
    adj = torch.zeros(1, 5, 5)
    for i, j in [(0, 1), (1, 2), (3, 4), (2, 3)]:
        adj[0, i, j] = adj[0, j, i] = 1
    halves, alternate = torch.tensor([1.0, 1, 1, 0, 0]), torch.tensor([1.0, 0, 1, 0, 1])
    loss = {
        name: connectivity_loss(torch.stack([p, 1 - p], -1)[None], adj).item()
        for name, p in {"halves": halves, "alternate": alternate}.items()
    }
    # SᵀAS of the halves is [[4, 1], [1, 2]]: rows 4/5, 1/5 and 1/3, 2/3
    assert loss["halves"] == pytest.approx(math.sqrt(2 * (1 / 5) ** 2 + 2 * (1 / 3) ** 2), rel=1e-5)
    assert loss["alternate"] == pytest.approx(2.0, rel=1e-5)


def test_standardising_is_blind_to_place_and_scale() -> None:
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(standardised(50 * x + 7), standardised(x), rtol=1e-3, atol=1e-3)
    assert standardised(torch.ones(4, 2)).abs().max() == 0


def test_sib_classifies_by_the_nodes_of_the_subgraph_alone(graphs: GraphSet) -> None:
    torch.manual_seed(0)
    network, batch = SIB(graphs.n_features, 2, hidden=(8, 8), head=(4,)).eval(), graphs.batch()
    out = network(batch)
    expected = (out.assignment[..., :1] * network.embed(batch)).sum(1)
    torch.testing.assert_close(out.subgraph, expected)
    torch.testing.assert_close(out.logits, network.classifier.decide(expected))
    with torch.no_grad():  # nobody is in the subgraph: nothing is left to tell graphs apart
        network.assign[-1].bias.copy_(torch.tensor([-1e3, 1e3]))
    nobody = network(batch)
    assert not nobody.subgraph.any()
    torch.testing.assert_close(nobody.logits, nobody.logits[:1].expand_as(nobody.logits))


def test_edge_weights_of_sib_are_products_of_node_probabilities(graphs: GraphSet) -> None:
    network = MAKE["sib"]().fit(graphs).network_
    batch = graphs.batch()
    out = network(batch)
    p = out.assignment[..., 0]
    torch.testing.assert_close(out.edge_weights, p.unsqueeze(2) * p.unsqueeze(1) * batch.edge_mask)
    torch.testing.assert_close(out.assignment.sum(-1)[batch.mask], torch.ones(int(batch.mask.sum())))


# ------------------------------------------------------------------------ DIR


def dir_losses(graphs: GraphSet) -> tuple[DIR, dict[str, Tensor]]:
    torch.manual_seed(0)
    network = DIR(graphs.n_features, 2, hidden=(16, 16), head=(8,), scorer_hidden=(8,), dropout=0.0)
    return network, network.losses(graphs.batch(y=graphs.y))


def test_interventions_change_the_logits(graphs: GraphSet) -> None:
    torch.manual_seed(0)
    network = DIR(graphs.n_features, 2, hidden=(16, 16), head=(8,), scorer_hidden=(8,))
    out = network(graphs.batch())
    paired = intervene(out.logits, out.complement_logits)
    assert paired.shape == (40, 40, 2)
    torch.testing.assert_close(paired[3, 5], out.logits[5] * torch.sigmoid(out.complement_logits[3]))
    assert (paired - out.logits).abs().amax() > 1e-3 and paired.std(0).amax() > 1e-6
    one_complement = intervention_risks(
        out.logits, out.complement_logits[:1].expand(40, 2), graphs.batch(y=graphs.y).y, torch.ones(2)
    )
    assert one_complement.var().item() == pytest.approx(0, abs=1e-10)


def test_the_loss_carries_the_variance_of_the_risk(graphs: GraphSet) -> None:
    network, _ = dir_losses(graphs)
    batch = graphs.batch(y=graphs.y)
    out = copy.deepcopy(network)(batch)  # a pass moves the batch statistics by which complements are read
    losses = network.losses(batch)
    assert losses["variance"].item() > 0
    risks = torch.stack(
        [
            torch.nn.functional.cross_entropy(out.logits * torch.sigmoid(s), batch.y)
            for s in out.complement_logits
        ]
    )
    assert losses["interventions"].item() == pytest.approx(risks.mean().item(), rel=1e-5)
    assert losses["variance"].item() == pytest.approx(risks.var(correction=0).item(), rel=1e-3)


def test_complements_neither_train_the_classifier_nor_move_its_statistics(graphs: GraphSet) -> None:
    network, losses = dir_losses(graphs)
    losses["complement"].backward()
    assert all(parameter.grad is None for parameter in network.classifier.parameters())
    assert all(parameter.grad is not None for parameter in network.complement.parameters())

    batch = graphs.batch(y=graphs.y)
    alone = copy.deepcopy(network)
    out = copy.deepcopy(network)(batch)
    kept = alone.adjacency(batch) * out.rationale * out.edge_weights
    alone.classifier(alone.features(batch), kept, batch.padding)
    network(batch)
    torch.testing.assert_close(network.classifier.state_dict(), alone.classifier.state_dict())


def test_its_weight_changes_the_gradients(graphs: GraphSet) -> None:
    def gradient(variance_weight: float) -> Tensor:
        network, _ = dir_losses(graphs)
        model = MAKE["dir"](variance_weight=variance_weight)
        stage = model._stages(model._settings(graphs), network)[0]
        losses = stage.losses(graphs.batch(y=graphs.y), 0)
        sum(stage.weights[name] * value for name, value in losses.items()).backward()  # type: ignore[union-attr]
        return torch.cat([p.grad.flatten() for p in network.scorer.parameters()])  # type: ignore[union-attr]

    assert torch.equal(gradient(0.0), gradient(0.0))
    assert not torch.allclose(gradient(0.0), gradient(1000.0), rtol=1e-3)


def test_complements_teach_only_their_own_head(graphs: GraphSet) -> None:
    network, losses = dir_losses(graphs)
    losses["complement"].backward(retain_graph=True)
    taught = {name for name, p in network.named_parameters() if p.grad is not None and p.grad.any()}
    assert taught and all(name.startswith("complement") for name in taught)
    network.zero_grad()
    (losses["interventions"] + losses["variance"]).backward()
    taught = {name for name, p in network.named_parameters() if p.grad is not None and p.grad.any()}
    assert not any(name.startswith("complement") for name in taught)
    assert any(name.startswith("scorer") for name in taught)
    assert any(name.startswith("generator") for name in taught)


def test_the_rationale_is_the_share_of_edges_with_the_highest_scores() -> None:
    graphs = ragged()
    present = edge_positions(graphs.batch().adj) > 0
    scores = torch.randn(present.shape, generator=torch.Generator().manual_seed(0))
    chosen = top_edges(scores, present, 0.3)
    assert not (chosen & ~present).any()
    assert chosen.sum(1).tolist() == [math.ceil(0.3 * e) for e in graphs.n_edges]
    for i in range(len(graphs)):
        left = present[i] & ~chosen[i]
        assert scores[i][chosen[i]].min() > scores[i][left].max()
    ties = top_edges(torch.zeros_like(scores), present, 0.3)
    assert torch.equal(ties, present)


def test_the_positions_of_edges_are_those_of_the_upper_triangle() -> None:
    graphs = ragged()
    adj = graphs.batch().adj
    positions = edge_positions(adj)
    assert positions.shape[1] == max(graphs.n_edges)
    for matrix, found, n_edges in zip(adj, positions, graphs.n_edges, strict=True):
        upper = matrix.triu(1).flatten().nonzero()[:, 0]
        assert found[:n_edges].tolist() == upper.tolist() and not found[n_edges:].any()


def test_the_rationale_of_a_graph_is_a_symmetric_share_of_its_edges() -> None:
    graphs = ragged()
    batch = graphs.batch()
    torch.manual_seed(0)
    network = DIR(3, 2, hidden=(8,), scorer_hidden=(8,), ratio=0.3).eval()
    out = network(batch)
    for matrix in (out.rationale, out.edge_weights):
        assert torch.equal(matrix, matrix.transpose(1, 2)) and not matrix[~batch.edge_mask].any()
    assert (out.edge_weights[batch.edge_mask] > 0).all()
    assert (out.rationale.sum((1, 2)) / 2 >= torch.tensor([math.ceil(0.3 * e) for e in graphs.n_edges])).all()


def test_a_graph_without_edges_has_no_rationale() -> None:
    adj = torch.zeros(2, 3, 3)
    adj[1, 0, 1] = adj[1, 1, 0] = 1
    present = edge_positions(adj) > 0
    assert top_edges(torch.randn(present.shape), present, 0.5).sum(1).tolist() == [0, 1]
    graphs = GraphSet.from_arrays([*np.zeros((2, 3, 3)), *np.ones((4, 3, 3))], y=[0, 0, 1, 1, 0, 1])
    for make in MAKE.values():
        model = make(epochs=1).fit(graphs)
        assert np.isfinite(model.predict_proba(graphs)).all()
        assert [len(w) for w in model.explain(graphs).edge_weights] == [0, 0, 3, 3, 3, 3]


def test_edge_scores_do_not_depend_on_the_order_of_nodes() -> None:
    torch.manual_seed(0)
    batch = ragged().batch()
    scorer, edges = EdgeScorer(3, 8), edge_positions(batch.adj)
    logits, n = scorer(batch.x, edges), batch.adj.shape[1]
    there, back = edges // n, edges % n
    torch.testing.assert_close(scorer(batch.x, back * n + there), logits)
    order = torch.randperm(n)
    place = order.argsort()
    permuted = scorer(batch.x[:, order], place[there] * n + place[back])
    torch.testing.assert_close(permuted, logits)


# ----------------------------------------------------------------------- both


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_explanations_are_symmetric_and_on_existing_edges(make: Callable[..., ExplainingClassifier]) -> None:
    graphs = ragged()
    model = make().fit(graphs)
    explained = model.explain(graphs)
    np.testing.assert_array_equal(explained.predictions, model.predict(graphs))
    for graph, ex in zip(graphs, explained, strict=True):
        assert np.array_equal(ex.weights, ex.weights.T)
        assert ((ex.weights > 0) == (graph.weights != 0)).all() and ex.weights.max() <= 1
    assert np.ptp(np.concatenate(explained.edge_weights)) > 0.001


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_relabelling_nodes_permutes_the_explanation(make: Callable[..., ExplainingClassifier]) -> None:
    graphs = ragged()
    model = make().fit(graphs)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(n) for n in graphs.n_nodes]
    moved = GraphSet.from_arrays(
        [g.weights[np.ix_(o, o)] for g, o in zip(graphs, orders, strict=True)],
        [g.x[o] for g, o in zip(graphs, orders, strict=True)],
    )
    for one, other, o in zip(model.explain(graphs), model.explain(moved), orders, strict=True):
        np.testing.assert_allclose(other.weights, one.weights[np.ix_(o, o)], atol=1e-5)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_a_killed_fit_goes_on_to_the_same_numbers(
    tmp_path: Path, graphs: GraphSet, make: Callable[..., ExplainingClassifier], stop: Stop
) -> None:
    whole = make(epochs=4).fit(graphs)
    stop(2)
    with pytest.raises(SystemExit):
        make(epochs=4, checkpoint=tmp_path / "fit.ckpt").fit(graphs)
    counter = stop(None)
    resumed = make(epochs=4, checkpoint=tmp_path / "fit.ckpt").fit(graphs)
    assert counter.finished == 2
    np.testing.assert_array_equal(resumed.predict_proba(graphs), whole.predict_proba(graphs))
    np.testing.assert_array_equal(resumed.history_["loss"], whole.history_["loss"])


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_a_loaded_model_explains_as_the_saved_one(
    tmp_path: Path, graphs: GraphSet, make: Callable[..., ExplainingClassifier]
) -> None:
    model = make().fit(graphs)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for a, b in zip(loaded.explain(graphs), model.explain(graphs), strict=True):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(a.weights, b.weights)


BAD = [
    ("sib", {"information_weight": -1}, "information_weight must lie in"),
    ("sib", {"inner_steps": 0}, "inner_steps must be a whole number of at least 1, got 0"),
    ("sib", {"inner_learning_rate": 0}, "inner_learning_rate must lie in"),
    ("dir", {"ratio": 1.0}, r"ratio must lie in \(0, 1\), got 1.0"),
    ("dir", {"variance_weight": -0.1}, "variance_weight must lie in"),
    ("dir", {"scorer_hidden": ()}, "scorer_hidden must be positive layer widths, 1 or more"),
]


@pytest.mark.parametrize(("name", "params", "words"), BAD, ids=[f"{b[0]} {b[1]}" for b in BAD])
def test_bad_parameters_are_refused_by_name(
    graphs: GraphSet, name: str, params: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        MAKE[name](**params).fit(graphs)
