"""What must hold for the plain GNN classifiers and for what explainers ask of every network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cignn import GraphSet
from cignn.datasets import make_ba2motifs
from cignn.estimators import GNNClassifier
from cignn.nn import GNN, LAYERS, READOUTS, GraphModel
from examples import random_matrix

TINY: dict[str, Any] = {"hidden": (8, 8), "head_hidden": (8,), "epochs": 3, "random_state": 0}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    rng = np.random.default_rng(0)
    matrices = [random_matrix(rng, n, 0.5) for n in (5, 7, 9, 6) * 5]
    x = [rng.normal(size=(len(matrix), 3)) * [1, 10, 100] for matrix in matrices]
    return GraphSet.from_arrays(matrices, x, np.arange(20) % 2)


@pytest.fixture(scope="module", params=LAYERS)
def network(request: pytest.FixtureRequest, graphs: GraphSet) -> GraphModel:
    params = TINY | {"hidden": (16, 16), "head_hidden": ()}  # hardly a dead unit between edges and logits
    return GNNClassifier(request.param, **params).fit(graphs).network_  # type: ignore[return-value]


def test_all_edges_in_full_are_the_graph_itself(network: GraphModel, graphs: GraphSet) -> None:
    batch = graphs.batch()
    ones = torch.ones_like(batch.adj)
    torch.testing.assert_close(network.read(batch, ones), network(batch).logits)
    torch.testing.assert_close(network.read(batch), network(batch).logits)
    torch.testing.assert_close(network.embed(batch, ones), network.embed(batch))
    assert not network.embed(batch)[~batch.mask].any()


def test_an_edge_of_weight_zero_is_no_edge(network: GraphModel, graphs: GraphSet) -> None:
    keep = (torch.rand(graphs.batch().adj.shape, generator=torch.Generator().manual_seed(0)) < 0.5).triu(1)
    keep = (keep | keep.transpose(1, 2)).float()
    cut = [g.weights * keep[i, : len(g.weights), : len(g.weights)].numpy() for i, g in enumerate(graphs)]
    fewer = GraphSet.from_arrays(cut, [g.x for g in graphs])
    torch.testing.assert_close(network.read(graphs.batch(), keep), network(fewer.batch()).logits)


def test_a_reading_can_be_differentiated_on_every_edge(network: GraphModel, graphs: GraphSet) -> None:
    batch = graphs.batch()
    weights = torch.full_like(batch.adj, 0.5).requires_grad_()
    network.read(batch, weights)[:, 0].sum().backward()
    assert weights.grad is not None and torch.isfinite(weights.grad).all()
    on_edges = weights.grad[batch.edge_mask]
    assert (on_edges != 0).float().mean() > 0.9
    assert not weights.grad[~batch.edge_mask].any()


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_gnn_learns_what_is_written_in_the_nodes(layer: str, readout: str) -> None:
    rng = np.random.default_rng(1)
    y = np.arange(48) % 2
    uppers = np.triu(rng.random((48, 6, 6)) < 0.5, 1).astype(float)
    x = np.stack([np.full((6, 1), 2.0 * label - 1) + 0.1 * rng.normal(size=(6, 1)) for label in y])
    easy = GraphSet.from_arrays(uppers + uppers.transpose(0, 2, 1), x, y)
    params = TINY | {"epochs": 15, "learning_rate": 0.02, "ema_decay": 0.0, "dropout": 0.0}
    assert GNNClassifier(layer, readout=readout, **params).fit(easy).score(easy, y) >= 0.95


def test_density_is_chosen_before_edges_are_weighted(graphs: GraphSet) -> None:
    torch.manual_seed(0)
    network = GNN(3, 2, hidden=(4,), head=(4,), density=0.2).eval()
    batch = graphs.batch()
    weights = torch.ones_like(batch.adj).requires_grad_()
    network.read(batch, weights).sum().backward()
    assert weights.grad is not None
    seen = (weights.grad != 0).sum((1, 2))
    pairs = batch.n_nodes * (batch.n_nodes - 1)
    assert (seen <= 0.2 * pairs + 2).all() and (seen > 0).all()


def test_aligned_graphs_are_looked_at_by_their_strongest_tenth(graphs: GraphSet) -> None:
    aligned = GraphSet.from_arrays(np.ones((4, 5, 5)), y=[0, 1, 0, 1], aligned=True)
    assert GNNClassifier()._settings(aligned)["density"] == 0.1
    assert GNNClassifier()._settings(graphs)["density"] is None
    assert GNNClassifier(density=None)._settings(aligned)["density"] is None


BAD = [
    ({"layer": "gnn"}, "layer must be one of 'gcn', 'gat', 'gin', got 'gnn'"),
    ({"hidden": ()}, "hidden must be positive layer widths, 1 or more"),
    ({"layer": "gat", "hidden": (6,)}, "multiple of its 4 heads, got 6"),
    ({"readout": "median"}, "readout must be one of"),
    ({"density": 1.7}, r"density must lie in \(0, 1\], got 1.7"),
    ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
    ({"dropout": 1}, r"dropout must lie in \[0, 1\)"),
]


@pytest.mark.parametrize(("params", "words"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_parameters_are_refused_by_name(graphs: GraphSet, params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GNNClassifier(**TINY | params).fit(graphs)


def test_the_defaults_are_the_papers_network() -> None:
    settings = GNNClassifier()._settings(make_ba2motifs(40, random_state=0))
    assert settings["hidden"] == (128, 128, 128) and settings["head_hidden"] == (64, 32)
