"""What must hold where node i is the same thing in every graph: node vectors, edge readout, ensembles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cignn import CIGNNClassifier, GraphSet, load_model
from cignn.datasets import make_ba2motifs
from cignn.estimators import stacks
from cignn.estimators.set_statistics import SetStatistics
from cignn.evaluation import explanation_roc_auc
from cignn.nn import GraphModel
from cignn.nn.classifiers import EdgeNetwork
from conftest import Stop
from examples import ci_gnn

N = 8
SMALL: dict[str, Any] = {
    "encoder_hidden": (8,),
    "head_hidden": (8,),
    "n_causal": 6,
    "n_noncausal": 2,
    "n_estimators": 1,
    "random_state": 0,
}


def cohort(g: int = 60, effect: float = 1.0, seed: int = 0, n: int = N) -> GraphSet:
    """Complete signed graphs in which the class moves edges 0–1 and 2–3."""
    rng = np.random.default_rng(seed)
    adj = rng.normal(0.3, 0.3, (g, n, n)).astype(np.float32)
    adj = (adj + adj.transpose(0, 2, 1)) / 2
    y = np.arange(g) % 2
    truth = np.zeros((n, n), bool)
    for i, j, sign in ((0, 1, 1), (2, 3, -1)):
        adj[y == 1, i, j] += sign * effect
        adj[y == 1, j, i] += sign * effect
        truth[i, j] = truth[j, i] = True
    names = [f"ROI {k}" for k in range(n)]
    return GraphSet.from_arrays(adj, y=y, node_names=names, edge_truth=np.broadcast_to(truth, adj.shape))


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return cohort()


@pytest.fixture(scope="module")
def fitted(graphs: GraphSet) -> CIGNNClassifier:
    return ci_gnn(epochs=40, learning_rate=1e-2, mask_lr_factor=3.0, patience=None, **SMALL).fit(graphs)


def test_aligned_graphs_get_node_vectors_and_the_edge_readout_by_themselves(graphs: GraphSet) -> None:
    settings = CIGNNClassifier()._settings(graphs)
    assert settings["node_vectors"] and settings["readout"] == "edges" and settings["n_nodes"] == N
    motif = CIGNNClassifier("motif")._settings(graphs)
    ragged = CIGNNClassifier()._settings(make_ba2motifs(len(graphs), random_state=0))
    differ = {name for name in motif if motif[name] != ragged[name]} - {"n_nodes", "encoder_density"}
    assert not differ, "a preset means the same on all graphs"
    assert (settings["preset"], ragged["preset"]) == ("connectome", "motif")
    paper = CIGNNClassifier("paper")._settings(graphs)
    assert paper["readout"] == "sum" and not paper["node_vectors"]


@pytest.mark.parametrize(("name", "value"), [("readout", "edges"), ("node_vectors", True)])
def test_what_needs_aligned_graphs_says_so(graphs: GraphSet, name: str, value: Any) -> None:
    ragged = GraphSet.from_arrays([graph.weights for graph in graphs], y=graphs.y)
    with pytest.raises(ValueError, match=f"{name}.*needs aligned graphs"):
        ci_gnn(**{name: value}).fit(ragged)


def test_planted_edges_are_found_in_graphs_never_seen(fitted: CIGNNClassifier) -> None:
    unseen = cohort(40, seed=1)
    assert (fitted.predict(unseen) == unseen.y).mean() > 0.9
    assert np.mean(explanation_roc_auc(fitted.explain(unseen))) > 0.95


def test_an_edge_left_out_says_nothing(fitted: CIGNNClassifier, graphs: GraphSet) -> None:
    """Neither its weight nor its mean in the training graphs reaches the classifier."""
    batch = graphs.batch([0, 1])
    classifier = fitted.network_.classifier
    weights = torch.ones_like(batch.adj)
    weights[:, 0, 1] = weights[:, 1, 0] = 0

    def evidence(weight: float, mask: torch.Tensor) -> np.ndarray:
        """What is read where the edge of nodes 0 and 1 has this weight."""
        adj = batch.adj.clone()
        adj[:, 0, 1] = adj[:, 1, 0] = weight
        return (classifier.evidence(replace(batch, adj=adj)) * classifier.edge_values(mask)).numpy()

    there = torch.ones_like(weights)
    assert not np.allclose(evidence(5.0, there), evidence(1.0, there))
    np.testing.assert_allclose(evidence(5.0, weights), evidence(1.0, weights))
    np.testing.assert_allclose(evidence(0.0, there), evidence(1.0, weights))


def test_evidence_is_standardised_by_the_training_graphs(graphs: GraphSet) -> None:
    model = ci_gnn(epochs=1, **SMALL).fit(graphs, eval_set=graphs)
    evidence = model.network_.classifier.evidence(graphs.batch()).numpy()
    assert evidence.shape == (len(graphs), N * (N - 1) // 2)
    np.testing.assert_allclose(evidence.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(evidence.std(0), 1, atol=1e-4)


def test_statistics_of_edges_centre_only_what_most_graphs_have() -> None:
    adj = np.zeros((10, 3, 3), np.float32)
    adj[:, 0, 1] = adj[:, 1, 0] = np.arange(1, 11)
    adj[:3, 1, 2] = adj[:3, 2, 1] = 2.0
    centre, scale = GraphSet.from_arrays(adj, aligned=True).edge_statistics()
    assert centre[0, 1] == pytest.approx(5.5) and scale[0, 1] == pytest.approx(np.arange(1, 11).std())
    assert centre[1, 2] == 0 and scale[1, 2] == pytest.approx(2.0)
    assert centre[0, 2] == 0 and scale[0, 2] == 1
    with pytest.raises(ValueError, match="need aligned graphs"):
        GraphSet.from_arrays(adj).edge_statistics()


def test_the_edge_network_reads_each_pair_once() -> None:
    torch.manual_seed(0)
    network = EdgeNetwork(4, 2, (5,), dropout=0.0)
    adj = torch.randn(3, 4, 4)
    lower = torch.tril(torch.randn(3, 4, 4))
    assert torch.equal(network.edge_values(adj), network.edge_values(torch.triu(adj, 1) + lower))
    assert network(adj, network.edge_values(adj)).shape == (3, 2) and network.layers[0].in_features == 6
    matrix = network.edge_matrix(network.edge_values(adj))
    assert torch.equal(matrix, torch.triu(adj, 1) + torch.triu(adj, 1).transpose(1, 2))


def test_nodes_with_vectors_are_told_apart_where_their_neighbours_are_alike() -> None:
    adj = np.ones((4, 5, 5), np.float32)
    same = GraphSet.from_arrays(adj, y=[0, 1, 0, 1], aligned=True)
    logits = {}
    for vectors in (True, False):
        model = ci_gnn(epochs=1, encoder_density=None, node_vectors=vectors, **SMALL)
        model.fit(same, eval_set=same)
        logits[vectors] = model.network_(same.batch()).edge_logits[0].detach()
    upper = torch.triu_indices(5, 5, 1)
    assert logits[True][upper[0], upper[1]].std() > 0.01
    assert logits[False][upper[0], upper[1]].std() < 1e-4


@pytest.mark.parametrize("encoder", ["gin", "gcn"])
def test_the_mask_begins_the_same_for_every_edge(graphs: GraphSet, encoder: str) -> None:
    """What it becomes is then for the data to say; and one edge moves without moving the others."""
    model = ci_gnn(**SMALL | {"n_causal": N + 1, "encoder": encoder})
    network = model._build(model._settings(graphs), graphs.n_features, 2).eval()
    logits = network(graphs.batch([0, 1])).edge_logits
    upper = torch.triu_indices(N, N, 1)
    assert logits[:, upper[0], upper[1]].abs().max() < 1e-5
    logits[:, 2, 5].sum().backward()
    with torch.no_grad():
        network.encoder.node_vectors -= network.encoder.node_vectors.grad
        moved = network(graphs.batch([0])).edge_logits[0].abs() > 1e-4
    assert moved[2, 5] and moved.triu(1).sum() == 1


# ------------------------------------------------------------------------ ensembles


@pytest.fixture(scope="module")
def ensemble(graphs: GraphSet) -> CIGNNClassifier:
    return ci_gnn(**SMALL | {"n_estimators": 3, "epochs": 4}).fit(graphs)


def test_an_ensemble_is_the_mean_of_its_members(ensemble: CIGNNClassifier, graphs: GraphSet) -> None:
    batch = graphs.batch([0, 1, 2])
    with torch.no_grad():
        outs = [member(batch) for member in ensemble.network_.members]
    expected = torch.stack([out.logits.softmax(1) for out in outs]).mean(0)
    np.testing.assert_allclose(ensemble.predict_proba(graphs[:3]), expected.numpy(), rtol=1e-5)
    weights = torch.stack([out.edge_weights.logit() for out in outs]).mean(0).sigmoid()
    np.testing.assert_allclose(ensemble.explain(graphs[:3])[1].weights, weights[1].numpy(), rtol=1e-5)
    assert not torch.allclose(outs[0].edge_weights, outs[1].edge_weights)
    assert not any(module.training for module in ensemble.network_.modules())
    assert isinstance(ensemble.network_, GraphModel) and len(ensemble.network_.networks()) == 3
    assert all(member.networks() == [member] for member in ensemble.network_.networks())


def test_the_history_tells_members_apart(ensemble: CIGNNClassifier) -> None:
    assert sorted(ensemble.history_["member"].unique()) == [0, 1, 2]
    assert len(ensemble.best_epoch_) == 3


def test_an_ensemble_survives_saving(ensemble: CIGNNClassifier, graphs: GraphSet, tmp_path: Any) -> None:
    ensemble.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(graphs), ensemble.predict_proba(graphs))


@pytest.mark.parametrize("together", [1, 3])
def test_an_ensemble_goes_on_from_its_checkpoints(
    graphs: GraphSet, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, stop: Stop, together: int
) -> None:
    """Members trained one after the other are then ready, begun and not begun; in a stack all are begun."""
    monkeypatch.setattr(stacks, "at_once", lambda training: together)
    params = SMALL | {"n_estimators": 3, "epochs": 4}
    whole = ci_gnn(**params).fit(graphs)
    model = ci_gnn(**params | {"checkpoint": tmp_path / "training"})
    stop(6 // together)
    with pytest.raises(SystemExit):
        model.fit(graphs)
    counter = stop(None)
    monkeypatch.setattr(stacks, "at_once", lambda training: 3)
    model.fit(graphs)
    assert counter.finished == (6 if together == 1 else 2)
    np.testing.assert_array_equal(model.predict_proba(graphs), whole.predict_proba(graphs))
    assert model.best_epoch_ == whole.best_epoch_
    losses = ["member", "epoch", "loss", "validation_loss"]
    np.testing.assert_array_equal(model.history_[losses], whole.history_[losses])


@pytest.mark.parametrize(("together", "after", "ready"), [(1, 4, 2), (1, 5, 3), (4, 1, 4)])
def test_an_interrupted_ensemble_keeps_the_members_that_are_ready(
    graphs: GraphSet,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    stop: Stop,
    together: int,
    after: int,
    ready: int,
) -> None:
    monkeypatch.setattr(stacks, "at_once", lambda training: together)
    model = ci_gnn(**SMALL | {"n_estimators": 4, "epochs": 2, "keep_anneal": 0.0})
    stop(after, KeyboardInterrupt)
    model.fit(graphs)
    assert model.interrupted_
    assert model.settings_["n_estimators"] == len(model.network_.members) == ready
    assert len(model.history_) == after * together
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model").predict_proba(graphs), model.predict_proba(graphs)
    )


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e6, 1e8])
def test_statistics_of_training_graphs_do_not_know_how_large_the_others_are(factor: float) -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.normal(0.3, 0.2, (50, 6, 6)), 1)
    upper[:, 0, 1] = 0.37
    upper[40:, :3] *= factor
    weights = (upper + upper.swapaxes(1, 2)).astype(np.float32)
    graphs = GraphSet.from_arrays(weights, y=np.arange(50) % 2, aligned=True)
    found, expected = SetStatistics(graphs).edge_statistics(np.arange(40)), graphs[:40].edge_statistics()
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-9)
    np.testing.assert_allclose(found.centre, expected.centre, rtol=1e-9)


# -------------------------------------------------------------------------- patience


def test_training_ends_when_patience_does(graphs: GraphSet) -> None:
    rng = np.random.default_rng(0)
    noise = graphs.with_y(rng.permutation(graphs.y))
    model = ci_gnn(epochs=200, learning_rate=1e-2, patience=3, **SMALL).fit(noise)
    assert len(model.history_) == model.best_epoch_ + 3 < 200


def test_the_epoch_chosen_by_loss_has_the_lowest(graphs: GraphSet) -> None:
    model = ci_gnn(epochs=15, learning_rate=1e-2, patience=None, choose_by="loss", **SMALL)
    history = model.fit(graphs).history_
    cost = history["validation_loss"] + history["validation_price"]
    assert model.best_epoch_ == history["epoch"][cost.idxmin()]


def test_the_mask_learns_at_a_rate_of_its_own(graphs: GraphSet) -> None:
    """With a vanishing rate the mask stays where it began while the classifier learns."""
    slow, fast = (
        ci_gnn(epochs=2, mask_lr_factor=rate, ema_decay=0.0, **SMALL).fit(graphs).network_
        for rate in (1e-9, 100.0)
    )
    start = ci_gnn(**SMALL)
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.RandomState(0).randint(2**31 - 1)))
        begun = start._build(start._settings(graphs), graphs.n_features, 2)
    moved = [
        (network.encoder.node_vectors - begun.encoder.node_vectors).abs().max().item()
        for network in (slow, fast)
    ]
    assert moved[0] < 1e-5 < 1e-3 < moved[1]


def test_a_mask_of_node_vectors_is_the_same_for_every_subject(fitted: CIGNNClassifier) -> None:
    weights = np.stack([ex.weights for ex in fitted.explain(cohort(6, seed=1))])
    assert (weights == weights[0]).all() and np.ptp(weights[0][np.triu_indices(N, 1)]) > 0.1


def test_latents_give_every_subject_a_mask_of_its_own(graphs: GraphSet) -> None:
    """The head of the encoder begins at zero, with one mask for all; a head that learnt something tells."""
    model = ci_gnn(**SMALL | {"n_estimators": 2, "epochs": 1, "mask_from": "latents"}).fit(graphs)
    with torch.no_grad():
        for member in model.network_.members:
            member.encoder.mean.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(0))
    weights = np.stack([ex.weights for ex in model.explain(graphs[:6])])
    for i in range(6):
        for j in range(i):
            assert np.abs(weights[i] - weights[j]).max() > 1e-3
    again = model.explain(graphs[[2, 2]])
    np.testing.assert_allclose(again[0].weights, again[1].weights, atol=1e-5)
    np.testing.assert_allclose(again[0].weights, weights[2], atol=1e-5)
