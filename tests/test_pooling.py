"""Contributions pooled over edges that go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns.fuzzing.containers import reseal
from safetensors.numpy import load_file, save_file

from cignn import CIGNNClassifier, CohortClassifier, Explanations, GraphSet, load_model
from cignn._arrays import subject_halves
from cignn.cli.models import explained as explained_by
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import make_estimator
from cignn.explainers import explain_group
from cignn.explanations.pooling import Unseen, find_pool

N = 16
PAIRS = N * (N - 1) // 2
SETS = (slice(0, 12), slice(12, 24))


def drawn(n: int, seed: int, size: float = 1.2, sets: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contributions (n, pairs), labels, and which set of edges each graph of class 1 carries."""
    rng = np.random.default_rng(seed)
    y, carried = np.arange(n) % 2, rng.integers(0, 2, n)
    c = rng.normal(size=(n, PAIRS))
    for k, edges in enumerate(SETS[:sets]):
        c[:, edges] += size * ((y == 1) & (carried == k))[:, None]
    return c, y, carried


def explained(
    c: np.ndarray, y: np.ndarray | None, explain: np.ndarray | None = None, keep: np.ndarray | None = None
) -> Explanations:
    """Explanations of complete graphs, or of those that have the edges of keep (g, pairs)."""
    keep = np.ones(c.shape, bool) if keep is None else keep
    adj = np.zeros((len(c), N, N), np.float32)
    adj[:, *np.triu_indices(N, 1)] = keep
    graphs = GraphSet.from_arrays(adj + adj.swapaxes(1, 2), y=y, aligned=True)
    label = np.ones(len(c), int) if explain is None else explain
    signs = np.where(label == 1, 1, -1)
    contributions = [sign * row[has] for sign, row, has in zip(signs, c, keep, strict=True)]
    weights = [np.ones(len(row)) for row in contributions]
    told = {"edge_contributions": contributions, "base": 0.5 * signs, "explained": label}
    return Explanations(graphs, weights, **told, classes=np.array([0, 1]))


def told_apart(ex: Explanations, carried: np.ndarray, y: np.ndarray) -> float:
    """How often an edge of a graph's own set contributes more than one of the other set."""
    shares = []
    for i in np.flatnonzero(y):
        values = ex.edge_contributions[i]
        own, other = (values[SETS[k]] for k in (carried[i], 1 - carried[i]))
        shares.append((own[:, None] > other).mean())
    return float(np.mean(shares))


@pytest.mark.parametrize("seed", range(3))
def test_what_goes_together_tells_whose_set_it_is(seed: int) -> None:
    training, y, _ = drawn(200, seed)
    c, own, carried = drawn(80, seed + 10)
    plain = explained(c, own)
    pooled = plain.pooled(explained(training, y))
    assert told_apart(pooled, carried, own) > told_apart(plain, carried, own) + 0.08
    np.testing.assert_allclose(pooled.log_odds, plain.log_odds, atol=1e-4)
    others = np.stack(pooled.edge_contributions)[own == 0][:, :24]
    assert others.mean() < 0.1, "nothing is made up where nothing is carried"


def test_nothing_is_pooled_where_nothing_goes_together() -> None:
    for seed in range(5):
        training, y, _ = drawn(120, seed, size=0.0)
        c, own, _ = drawn(20, seed + 10, size=0.0)
        pooled = explained(c, own).pooled(explained(training, y))
        np.testing.assert_array_equal(np.stack(pooled.edge_contributions), c.astype(np.float32))


def test_only_edges_that_go_together_are_replaced() -> None:
    training, y, _ = drawn(200, 0)
    pool = find_pool(training, y == 1, subject_halves(np.arange(200), y))
    found = set(pool.edges[pool.pooled].tolist())
    assert set(range(24)) <= found and len(found) < 40


def test_edges_outside_the_pool_count_by_what_is_no_noise_in_them() -> None:
    training, y, _ = drawn(400, 0)
    c, own, _ = drawn(80, 1)
    pooled = np.stack(explained(c, own).pooled(explained(training, y)).edge_contributions)
    outside = slice(40, None)
    assert np.abs(pooled[:, outside]).mean() < 0.5 * np.abs(c[:, outside]).mean()


def test_the_class_explained_does_not_matter() -> None:
    training, y, _ = drawn(200, 0)
    c, own, _ = drawn(20, 1)
    towards = explained(c, own).pooled(explained(training, y))
    turned = explained(c, own, explain=own).pooled(explained(training, y, explain=y))
    np.testing.assert_allclose(
        np.stack(turned.towards(1).edge_contributions), np.stack(towards.edge_contributions), atol=1e-5
    )


def test_edges_that_a_graph_lacks_have_no_contribution() -> None:
    training, y, _ = drawn(200, 0)
    c, own, _ = drawn(40, 1)
    keep = np.random.default_rng(0).random(c.shape) < 0.9
    plain = explained(c, own, keep=keep)
    pooled = plain.pooled(explained(training, y))
    assert [len(row) for row in pooled.edge_contributions] == keep.sum(1).tolist()
    np.testing.assert_allclose(pooled.log_odds, plain.log_odds, atol=1e-4)


def test_few_training_graphs_leave_contributions_as_they_are() -> None:
    training, y, _ = drawn(30, 0)
    c, own, _ = drawn(10, 1)
    pooled = explained(c, own).pooled(explained(training, y))
    np.testing.assert_array_equal(np.stack(pooled.edge_contributions), c.astype(np.float32))


def test_what_cannot_be_pooled_is_refused() -> None:
    c, y, _ = drawn(40, 0)
    with pytest.raises(ValueError, match="needs the labels of the training graphs"):
        explained(c, y).pooled(explained(c, None))
    three = explained(c, y, explain=y)._with(classes=np.arange(3))
    with pytest.raises(ValueError, match=r"explain both sets with explain\(graphs, target="):
        three.pooled(three)
    with pytest.raises(ValueError, match="pooled already; explain both sets"):
        explained(c, y).pooled(explained(c, y)._with(pooled_edges=3))
    bare = Explanations(three.graphs, three.edge_weights)
    with pytest.raises(ValueError, match="contributions"):
        bare.pooled(explained(c, y))


@pytest.mark.parametrize("size", [0.0, 1.2])
def test_what_does_not_return_in_unseen_graphs_is_not_pooled(size: float) -> None:
    training, y, _ = drawn(200, 0)
    values, own, _ = drawn(60, 1, size=size)
    halves = subject_halves(np.arange(200), y)
    pool = find_pool(training, y == 1, halves, Unseen(values, own == 1, np.zeros(200, bool)))
    assert bool(pool.n_edges) == (size > 0)
    few = Unseen(values[:10], own[:10] == 1, np.zeros(200, bool))
    assert not find_pool(training, y == 1, halves, few).n_edges


# ------------------------------------------------------------------- models that pool on their own

COHORT = make_cohort(200, N, n_edges=8, effect=1.0, subtypes=2, data="matrices", random_state=0)
NAMES = np.array(["HC", "ASD"])  # the patients are the first of the sorted classes


def quick(**more: Any) -> CIGNNClassifier:
    return make_estimator(
        "ci-gnn", random_state=0, **({"epochs": 10, "n_estimators": 1, "validation_fraction": 0.2} | more)
    )


@pytest.fixture(scope="module", params=[COHORT.y, NAMES[COHORT.y]], ids=["numbers", "names"])
def model(request: pytest.FixtureRequest) -> CohortClassifier:
    return CohortClassifier.make(quick()).fit(COHORT.with_y(request.param))


@pytest.mark.medium
def test_a_model_pools_evidence_of_subtypes_and_says_what_it_decides(model: CohortClassifier) -> None:
    assert model.classifier_.pool_ is not None
    new = COHORT[:40]
    plain, pooled = (model.explain(new, pooled=wanted) for wanted in (False, True))
    assert (plain.pooled_edges, pooled.pooled_edges) == (0, model.classifier_.pool_.n_edges)
    assert pooled[3:5].pooled_edges == pooled.pooled_edges
    difference = np.abs(np.stack(plain.edge_contributions) - np.stack(pooled.edge_contributions))
    assert difference.max() > 0.01
    np.testing.assert_allclose(pooled.log_odds, plain.log_odds, atol=1e-4)
    np.testing.assert_array_equal(pooled.base, plain.base)
    np.testing.assert_array_equal(np.stack(pooled.edge_weights), np.stack(plain.edge_weights))
    chances = model.predict_proba(new)
    for k, label in enumerate(model.classes_):
        expected = np.log(chances[:, k] / (1 - chances[:, k]))
        np.testing.assert_allclose(model.explain(new, label).log_odds, expected, rtol=0.01, atol=1e-3)


@pytest.mark.medium
def test_the_model_pools_as_explanations_of_its_training_graphs_do(model: CohortClassifier) -> None:
    if model.classes_[1] == "HC":
        pytest.skip("`pooled` takes the last of two classes")
    graphs, classifier = model.to_graphs(COHORT), model.classifier_
    plain = classifier.explain(graphs, pooled=False)
    expected = plain.pooled(plain._with(graphs=graphs.with_y(COHORT.y)))
    found = classifier.explain(graphs)
    np.testing.assert_allclose(
        np.stack(found.edge_contributions), np.stack(expected.edge_contributions), atol=1e-4
    )


@pytest.mark.medium
def test_what_is_pooled_is_mostly_what_was_planted(model: CohortClassifier) -> None:
    pool = model.classifier_.pool_
    planted = np.flatnonzero(np.asarray(COHORT.edge_truth)[np.triu_indices(N, 1)])
    assert np.isin(pool.edges[pool.pooled], planted).mean() > 0.5


@pytest.mark.medium
def test_a_saved_model_pools_as_before(model: CohortClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for one, other in zip(model.classifier_.pool_, loaded.classifier_.pool_, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    own, again = (each.explain(COHORT[:5]).edge_contributions for each in (model, loaded))
    np.testing.assert_array_equal(np.stack(own), np.stack(again))
    model.classifier_.pool_, kept = None, model.classifier_.pool_
    try:
        model.save(tmp_path / "model")
    finally:
        model.classifier_.pool_ = kept
    assert load_model(tmp_path / "model").classifier_.pool_ is None


DAMAGES = {
    "a name": (lambda one: one.pop("std"), "does not hold edges, pooled, filter, mean, std, reliability"),
    "a shape": (lambda one: one.update(mean=one["mean"][1:]), "mean in pool.safetensors has shape"),
    "a filter": (lambda one: one.update(filter=one["filter"][1:]), "filter in pool.safetensors has shape"),
    "a type": (lambda one: one.update(pooled=one["pooled"] * 1.0), "pooled in pool.safetensors has shape"),
    "an edge": (lambda one: one["edges"].__setitem__(0, 10**6), "are not numbers of 120 connections"),
    "an edge twice": (lambda one: one["edges"].__setitem__(0, one["edges"][1]), "each once"),
    "a spread": (lambda one: one["std"].__setitem__(0, 0), "out of range"),
}


@pytest.mark.medium
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pool_is_refused_in_one_line(damage: str, model: CohortClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "pool.safetensors"
    arrays = {name: values.copy() for name, values in load_file(file).items()}
    change, words = DAMAGES[damage]
    change(arrays)
    save_file(arrays, file)
    reseal(tmp_path / "model")
    with pytest.raises(ValueError, match=words) as caught:
        load_model(tmp_path / "model")
    assert len(str(caught.value).splitlines()) == 1


def noise(classes: int, n_graphs: int = 60) -> GraphSet:
    x = np.random.default_rng(0).normal(size=(n_graphs, 8, 8))
    return GraphSet.from_arrays(x + x.swapaxes(1, 2), y=np.arange(n_graphs) % classes, aligned=True)


@pytest.mark.parametrize(
    "graphs",
    [noise(2), noise(3), noise(2, 30), make_ba2motifs(60, random_state=0)],
    ids=["noise", "three classes", "few", "not aligned"],
)
def test_models_without_a_pool_explain_edge_by_edge(graphs: GraphSet) -> None:
    model = quick(epochs=3).fit(graphs)
    assert model.pool_ is None
    plain, pooled = (model.explain(graphs, pooled=wanted) for wanted in (False, True))
    for one, other in zip(plain.edge_contributions, pooled.edge_contributions, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not pooled.pooled_edges


def test_a_pool_that_cannot_be_found_costs_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no room\nfor it")

    monkeypatch.setattr(Explanations, "_pool", fails)
    with pytest.warns(UserWarning, match=r"will not be pooled \(no room\)"):
        model = quick(epochs=1).fit(noise(2))
    assert model.pool_ is None and len(model.explain(noise(2)[:3])) == 3


@pytest.mark.medium
def test_networks_of_a_group_explanation_look_for_no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Explanations, "_pool", lambda *_: pytest.fail("a pool was sought"))
    explain_group(quick(epochs=1), noise(2), n_resamples=2, n_permutations=0)


@pytest.mark.medium
def test_the_command_line_leaves_pooling_out_on_request(model: CohortClassifier) -> None:
    graphs = model.to_graphs(COHORT[:3])
    plain, pooled = (
        explained_by(model.classifier_, graphs, "auto", 0, True, None, way) for way in (False, True)
    )
    assert (plain.pooled_edges, pooled.pooled_edges) == (0, model.classifier_.pool_.n_edges)
