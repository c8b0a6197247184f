"""Directions along which one class varies more than another, and what the classifier makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cignn import CIGNNClassifier, load_model
from cignn._arrays import subject_halves
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_cohort
from cignn.estimators.excess_variance import excess_variance
from cignn.nn.classifiers import EdgeNetwork

QUICK = {"encoder_hidden": (4,), "n_causal": 8, "head_hidden": (8,), "learning_rate": 3e-3}


def evidence(seed, n=240, edges=60, size=2.0, planted=8, kind="either"):
    """Noise of unit variance; of every other graph the first edges move as one."""
    rng = np.random.default_rng(seed)
    z, codes = rng.normal(size=(n, edges)), np.arange(n) % 2
    sides = rng.choice([-1, 1], n) if kind == "either" else np.ones(n)
    z[:, :planted] += size * (codes * sides)[:, None] * rng.choice([-1, 1], planted)
    return z, codes, np.arange(n) % 4 < 2


@pytest.mark.parametrize("seed", range(3))
def test_a_set_that_moves_as_one_is_found(seed):
    z, codes, half = evidence(seed)
    found = excess_variance(z, codes, 2, half, 4)
    assert (found.weights[1] > 0).tolist() == [True, False, False, False], "one set, one direction"
    assert not found.weights[0].any() and not found.vectors[1:].any() and not found.offsets[1:].any()
    size = np.abs(found.vectors[0])
    assert size[:8].min() > size[8:].max(), "made of the edges that move"
    larger = np.sqrt(1 + (z @ found.vectors[0]) ** 2) - 1 > found.offsets[0]
    assert (larger == codes).mean() > 0.9


def test_the_class_that_varies_less_has_the_negative_weight():
    z, codes, half = evidence(0)
    found = excess_variance(z, 1 - codes, 2, half, 2)
    assert found.weights[1, 0] < 0 and not found.weights[:, 1].any()


@pytest.mark.parametrize("kind", ["nothing", "means", "few graphs"])
def test_what_a_linear_model_reads_as_well_is_left_to_it(kind):
    for seed in range(5):
        z, codes, half = evidence(
            seed, 30 if kind == "few graphs" else 240, size=float(kind != "nothing"), kind=kind
        )
        found = excess_variance(z, codes, 2, half, 4)
        assert not any(part.any() for part in found)


def test_each_of_several_classes_has_its_own_direction():
    rng = np.random.default_rng(0)
    codes = np.arange(360) % 3
    z, sides = rng.normal(size=(360, 40)), rng.choice([-2, 2], 360)
    z[:, :6] += (sides * (codes == 0))[:, None]
    z[:, 6:12] += (sides * (codes == 2))[:, None]
    found = excess_variance(z, codes, 3, np.arange(360) % 2 == 0, 4)
    for label, edges in ((0, slice(0, 6)), (2, slice(6, 12))):
        (own,) = np.flatnonzero(found.weights[label] > 0)
        assert set(np.argsort(-np.abs(found.vectors[own]))[:6]) == set(range(40)[edges])


def test_a_class_without_graphs_is_not_sought():
    z, codes, half = evidence(0)
    assert not excess_variance(z, codes, 3, half, 4).weights.any()


def test_fewer_edges_than_directions():
    z, codes, half = evidence(0, edges=2, planted=2, size=5.0)
    assert excess_variance(z, codes, 2, half, 4).vectors.shape == (4, 2)


def test_scans_of_a_subject_are_in_one_half():
    subject = np.repeat(["f", "e", "d", "c", "b", "a"], 2)
    half = subject_halves(subject, np.repeat([0, 1], 6))
    assert (half[::2] == half[1::2]).all() and sorted(half[::2].tolist()) == [False] * 3 + [True] * 3


# ---------------------------------------------------------------------------- in the network


def test_a_pooled_direction_reads_up_and_down_alike():
    network = EdgeNetwork(4, 2, (5,), dropout=0.0, n_pooled=2)
    with torch.no_grad():
        network.layers[0].weight.zero_()
    edges = torch.randn(7, 6)
    before = network(None, edges)
    network.start_pooled(torch.eye(6)[:2], torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([1.0, 9.0]))
    assert torch.allclose(network(None, edges), network(None, -edges))
    moved = network(None, edges) - before
    assert torch.allclose(moved[:, 1], (1 + edges[:, 0] ** 2).sqrt() - 2, atol=1e-5) and not moved[:, 0].any()
    edges[:, 0] = 3**0.5
    assert torch.allclose(network(None, edges), before[:1].expand(7, -1), atol=1e-5), "the offset"


def test_directions_that_are_not_started_change_nothing():
    graphs = made_up("nothing", 60)
    models = [fitted(graphs, epochs=3, n_pooled=k) for k in (0, 3)]
    assert not models[1].network_.classifier.pooled.any()
    assert np.allclose(*(model.predict_proba(graphs) for model in models), atol=1e-6)


@pytest.fixture(scope="module")
def either():
    """A cohort in which patients' connections move up or down as one, and a model of it."""
    graphs = made_up("either", 320)
    return graphs, fitted(graphs[:240], epochs=15)


def test_classes_without_a_difference_of_means_are_told(either):
    graphs, model = either
    assert model.score(graphs[240:]) > 0.8


def test_pooled_directions_are_saved(either, tmp_path):
    graphs, model = either
    assert model.network_.classifier.pooled.any()
    model.save(tmp_path)
    assert np.array_equal(load_model(tmp_path).predict_proba(graphs), model.predict_proba(graphs))


def made_up(kind, n):
    """Graphs of a simulated cohort of 16 ROIs."""
    effect = 0.5 if kind == "either" else 0.0
    cohort = make_cohort(
        n, 16, n_edges=12, effect=effect, either_direction=True, data="matrices", random_state=1
    )
    return ConnectomeGraphs().fit_transform(cohort)


def fitted(graphs, epochs, n_pooled=4):
    """A single network of the connectome's kind."""
    settings = QUICK | {"n_pooled": n_pooled}
    model = CIGNNClassifier(
        "connectome", settings=settings, epochs=epochs, n_estimators=1, device="cpu", random_state=0
    )
    return model.fit(graphs)
