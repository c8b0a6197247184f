"""What must hold for the vectors of graphs and the classifiers that read them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import networkx as nx
import numpy as np
import pytest
import torch
from campaigns.fuzzing.containers import reseal
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, l1_min_c

from cignn import GraphSet, load_model
from cignn.datasets import make_ba2motifs
from cignn.estimators import GraphVectors, ShallowGraphClassifier
from cignn.estimators import graph_vectors as module
from cignn.estimators.graph_vectors import STATISTICS, graph_statistics
from cignn.estimators.shallow import MODELS
from cignn.estimators.sparse_regression import SparseLogisticRegression

L1 = {"penalty": "l1"} if LogisticRegression().penalty == "l2" else {"l1_ratio": 1.0}
STOCK: dict[str, Any] = {
    "linear-svm": LinearSVC(dual="auto", max_iter=20_000),
    "rbf-svm": SVC(),
    "random-forest": RandomForestClassifier(20),
    "lasso": LogisticRegression(solver="liblinear", tol=1e-3, max_iter=20_000, **L1),
}
SVMS = ("linear-svm", "rbf-svm")


def brains(y: np.ndarray, n: int = 8, gap: float = 1.0, seed: int = 0) -> GraphSet:
    """Aligned complete graphs in which one connection goes with the class."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(size=(len(y), n, n)), 1)
    upper[:, 0, 1] += gap * np.unique(y, return_inverse=True)[1]
    return GraphSet.from_arrays(upper + upper.transpose(0, 2, 1), y=y, aligned=True)


def shallow(model: str, **more: Any) -> ShallowGraphClassifier:
    return ShallowGraphClassifier(model, **{"n_estimators": 20, "random_state": 0} | more)


# ------------------------------------------------------------------- vectors


def test_the_connectivity_vector_is_the_upper_triangle() -> None:
    matrix = np.array([[0, 1, 2], [1, 0, -3], [2, -3, 0]])
    graphs = GraphSet.from_arrays(np.stack([matrix, 2 * matrix]), node_names=["a", "b", "c"])
    vectors = GraphVectors().fit(graphs)
    np.testing.assert_array_equal(vectors.transform(graphs), [[1, 2, -3], [2, 4, -6]])
    assert vectors.get_feature_names_out().tolist() == ["a - b", "a - c", "b - c"]
    assert vectors.transform(graphs[[]]).shape == (0, 3)
    with pytest.raises(ValueError, match="needs aligned graphs"):
        GraphVectors("connectivity").fit(make_ba2motifs(4, random_state=0))
    larger = GraphSet.from_arrays(np.ones((2, 4, 4)), aligned=True)
    with pytest.raises(ValueError, match=r"got aligned graphs of 4 nodes, GraphVectors learnt from .* of 3;"):
        vectors.transform(larger)
    with pytest.raises(ValueError, match="got graphs that are not aligned"):
        vectors.transform(make_ba2motifs(4, random_state=0))


def test_statistics_have_names_and_other_features_are_refused() -> None:
    graphs = make_ba2motifs(4, random_state=0)
    vectors = GraphVectors().fit(graphs)
    table = vectors.set_output(transform="pandas").transform(graphs)
    assert list(table.columns) == vectors.get_feature_names_out().tolist()
    np.testing.assert_array_equal(table["nodes"], graphs.n_nodes)
    with pytest.raises(ValueError, match=r"have 2 node features, GraphVectors expects \d+"):
        vectors.transform(GraphSet.from_arrays([np.ones((3, 3))], [np.ones((3, 2))]))


def test_vectors_know_nodes_and_features_by_name() -> None:
    matrices, order = brains(np.arange(6) % 2, n=3).batch().adj.numpy(), [2, 0, 1]
    named = {"aligned": True, "node_names": ["a", "b", "c"]}
    vectors = GraphVectors().fit(GraphSet.from_arrays(matrices, **named))
    moved = GraphSet.from_arrays(matrices[:, order][:, :, order], aligned=True, node_names=["c", "a", "b"])
    with pytest.raises(ValueError, match=r"node 0 is 'c', not 'a'\); bring them into the same order"):
        vectors.transform(moved)
    edges, nodes, x = np.array([(0, 1)]), np.zeros(3, int), np.random.default_rng(0).normal(size=(3, 2))
    graphs = GraphSet.from_edges(edges, nodes, x, [1], feature_names=["u", "v"])
    swapped = GraphSet.from_edges(edges, nodes, x[:, ::-1], [1], feature_names=["v", "u"])
    statistics = GraphVectors().fit(graphs)
    np.testing.assert_array_equal(statistics.transform(swapped), statistics.transform(graphs))


@pytest.mark.parametrize(("name", "stock"), STOCK.items(), ids=STOCK)
def test_a_named_method_is_a_stock_pipeline(name: str, stock: Any) -> None:
    """The same C, scaling and model with scikit-learn's own parts alone give the same decisions."""
    y = np.arange(61) % 2
    train, test = brains(y, gap=1.5), brains(y, gap=1.5, seed=1)
    ours = shallow(name).fit(train)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    params = {"random_state": seed} | ({"C": ours.settings_["C"]} if name != "random-forest" else {})
    pipeline = make_pipeline(GraphVectors(), StandardScaler(), clone(stock).set_params(**params))
    last = pipeline.steps[-1][0]  # a forest draws otherwise where no weights are given
    pipeline.fit(train, train.y, **{f"{last}__sample_weight": np.ones(len(train))})
    np.testing.assert_array_equal(ours.predict(test), pipeline.predict(test))
    if hasattr(pipeline, "predict_proba"):
        np.testing.assert_array_equal(ours.predict_proba(test), pipeline.predict_proba(test))


def test_c_is_the_choice_of_a_stock_grid_search() -> None:
    graphs = brains(np.arange(60) % 2, gap=1.0)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    grid = {"svc__C": [0.3, 1.0, 3.0, 10.0]}
    cv = StratifiedKFold(3, shuffle=True, random_state=seed)
    search = GridSearchCV(make_pipeline(GraphVectors(), StandardScaler(), SVC()), grid, cv=cv)
    search.fit(graphs, graphs.y)
    assert shallow("rbf-svm").fit(graphs).settings_["C"] == search.best_params_["svc__C"]


def test_graph_vectors_work_in_cross_validation() -> None:
    graphs = brains(np.arange(60) % 2, gap=4.0)
    rest = [StandardScaler(), SVC()]
    scores = cross_val_score(make_pipeline(GraphVectors(), *rest), graphs, graphs.y, cv=3)
    vectors = GraphVectors().fit_transform(graphs)
    np.testing.assert_array_equal(scores, cross_val_score(make_pipeline(*rest), vectors, graphs.y, cv=3))


@pytest.mark.parametrize("name", ["lasso", "rbf-svm", "random-forest"])
def test_scikit_learns_metadata_routing_changes_nothing(name: str) -> None:
    graphs = brains(np.arange(24) % 2)
    expected = shallow(name).fit(graphs).predict_proba(graphs)
    with config_context(enable_metadata_routing=True):
        np.testing.assert_array_equal(shallow(name).fit(graphs).predict_proba(graphs), expected)


def by_networkx(graph: nx.Graph, weights: np.ndarray) -> list[float]:
    degree = np.array([d for _, d in graph.degree()])
    edge = np.array([w for _, _, w in graph.edges(data="weight")]) if graph.number_of_edges() else np.zeros(1)
    squares = sum(len(c) == 4 for c in nx.simple_cycles(graph, length_bound=4))
    values = {
        "nodes": len(graph),
        "edges": graph.number_of_edges(),
        "density": nx.density(graph),
        "degree mean": degree.mean(),
        "degree std": degree.std(),
        "degree max": degree.max(),
        "leaves": np.mean(degree == 1),
        "isolated": np.mean(degree == 0),
        "strength mean": weights.sum(0).mean(),
        "strength std": weights.sum(0).std(),
        "weight mean": edge.mean(),
        "weight std": edge.std(),
        "triangles": sum(nx.triangles(graph).values()) / 3,
        "clustering": nx.average_clustering(graph),
        "squares": squares,
    }
    return [float(values[name]) for name in STATISTICS]


def test_statistics_agree_with_networkx() -> None:
    rng = np.random.default_rng(0)
    uppers = [
        np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < p), 1)
        for n, p in [(1, 0.5), (2, 1.0), (5, 0.0), (7, 0.5), (9, 0.3), (6, 1.0)]
    ]
    x = [rng.normal(size=(len(u), 2)) for u in uppers]
    graphs = GraphSet.from_arrays([u + u.T for u in uppers], x)
    statistics = graph_statistics(graphs)
    assert statistics.shape == (6, len(STATISTICS) + 6)
    for row, graph, features in zip(statistics, graphs, x, strict=True):
        expected = by_networkx(nx.from_numpy_array(graph.weights), graph.weights)
        np.testing.assert_allclose(row[: len(STATISTICS)], expected, rtol=1e-4, atol=1e-6)
        moments = [features.sum(0), features.mean(0), features.std(0)]
        np.testing.assert_allclose(row[len(STATISTICS) :], np.concatenate(moments), rtol=1e-4, atol=1e-6)


def test_statistics_of_large_graphs_are_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = make_ba2motifs(10, random_state=0)
    plain = graph_statistics(graphs)
    monkeypatch.setattr(module, "LARGE", 1)
    monkeypatch.setattr(module, "SPARSE", 1.0)
    dense = Mock(side_effect=AssertionError)
    monkeypatch.setattr(torch.Tensor, "__matmul__", dense)
    np.testing.assert_array_equal(graph_statistics(graphs), plain)


def test_statistics_do_not_depend_on_the_order_of_nodes_or_graphs() -> None:
    graphs = make_ba2motifs(12, random_state=0)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(n) for n in graphs.n_nodes]
    moved = GraphSet.from_arrays(
        [g.weights[np.ix_(o, o)] for g, o in zip(graphs, orders, strict=True)],
        [g.x[o] for g, o in zip(graphs, orders, strict=True)],
    )
    np.testing.assert_allclose(graph_statistics(moved), graph_statistics(graphs), atol=1e-9)
    order = rng.permutation(12)
    np.testing.assert_array_equal(graph_statistics(graphs[order]), graph_statistics(graphs)[order])
    assert graph_statistics(graphs[[]]).shape == (0, len(STATISTICS) + 3 * graphs.n_features)


# ---------------------------------------------------------------- classifiers


@pytest.mark.parametrize("kind", MODELS)
def test_aligned_graphs_are_read_by_their_connections(kind: str) -> None:
    y = np.arange(90) % 2
    train, test = brains(y, gap=4.0), brains(y, gap=4.0, seed=1)
    model = shallow(kind).fit(train)
    assert model.settings_["features"] == "connectivity"
    assert model.score(test, y) >= 0.85
    assert shallow(kind, features="statistics").fit(train).settings_["features"] == "statistics"


@pytest.mark.parametrize("kind", MODELS)
def test_other_graphs_are_read_by_their_statistics(kind: str) -> None:
    graphs = make_ba2motifs(60, random_state=0)  # a house has a triangle, a cycle none
    model = shallow(kind).fit(graphs)
    assert model.settings_["features"] == "statistics"
    assert model.score(make_ba2motifs(30, random_state=1), make_ba2motifs(30, random_state=1).y) >= 0.95


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", SVMS)
def test_probabilities_of_an_svm_say_what_it_decides(kind: str, n_classes: int) -> None:
    y = np.array(["a", "b", "c"])[np.arange(60) % n_classes]
    train, test = brains(y), brains(y, seed=1)
    model = shallow(kind).fit(train)
    scaler = StandardScaler().fit(GraphVectors().fit_transform(train))
    make = {"linear-svm": LinearSVC, "rbf-svm": SVC}[kind]
    svm = make(C=model.settings_["C"], random_state=0, max_iter=20_000)
    svm.fit(scaler.transform(GraphVectors().fit_transform(train)), y)
    values = svm.decision_function(scaler.transform(GraphVectors().fit_transform(test)))
    decided = svm.classes_[(values > 0).astype(int) if n_classes == 2 else values.argmax(1)]
    np.testing.assert_array_equal(model.predict(test), decided)
    np.testing.assert_array_equal(model.classes_[model.predict_proba(test).argmax(1)], decided)


def test_probabilities_of_an_svm_are_fitted_on_graphs_it_did_not_see() -> None:
    noise = brains(np.arange(60) % 2, n=30, gap=0.0)  # 435 entries of noise: separable, and nothing in it
    for kind in SVMS:
        model = shallow(kind).fit(noise)
        assert model.score(noise, noise.y) > 0.9, "it knows its training graphs by heart"
        surprise = np.abs(model.predict_proba(brains(noise.y, n=30, gap=0.0, seed=1)) - 0.5).mean()
        assert surprise < 0.2, "yet claims to know little"
    clear = brains(np.arange(60) % 2, gap=6.0)
    sure = shallow("linear-svm").fit(clear).predict_proba(brains(clear.y, gap=6.0, seed=1))
    assert np.abs(sure - 0.5).mean() > 0.4


def test_the_temperature_is_the_best_on_folds_of_the_training_graphs() -> None:
    graphs = brains(np.arange(90) % 2, gap=2.0)
    model = shallow("linear-svm", C=0.01).fit(graphs)
    x, y = GraphVectors().fit_transform(graphs), graphs.y
    seed = np.random.RandomState(0).randint(2**31 - 1)
    values = np.empty(90)
    for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(x, y):
        scaler = StandardScaler().fit(x[train])
        svm = LinearSVC(C=0.01, max_iter=20_000, random_state=seed).fit(scaler.transform(x[train]), y[train])
        values[test] = svm.decision_function(scaler.transform(x[test]))

    def loss(factor: float) -> float:
        p = softmax(factor * np.stack([-values, values], 1) / 2, axis=1)
        sure = 46 / 47  # of a label among 45, as in Platt's scaling
        return -(sure * np.log(p[np.arange(90), y]) + (1 - sure) * np.log(p[np.arange(90), 1 - y])).mean()

    best = model.settings_["temperature"]
    assert loss(best) <= min(loss(0.9 * best), loss(1.1 * best)) + 1e-9


@pytest.mark.parametrize("kind", SVMS)
def test_probabilities_of_separable_classes_are_not_certain(kind: str) -> None:
    graphs = brains(np.arange(90) % 2, gap=60.0)
    chances = shallow(kind).fit(graphs).predict_proba(graphs)
    assert (chances.argmax(1) == graphs.y).all()
    assert 0.5 < np.median(chances.max(1)) < 1 - 1e-6, "45 graphs of a class do not make sure of more"


def test_c_is_chosen_inside_the_training_graphs_or_given() -> None:
    graphs = brains(np.arange(60) % 2)
    assert shallow("lasso", C=0.5).fit(graphs).settings_["C"] == 0.5
    chosen = {shallow("linear-svm").fit(brains(np.arange(60) % 2, gap=g)).settings_["C"] for g in (0.3, 6.0)}
    assert all(0 < C < 10 for C in chosen)
    coefficients = shallow("lasso").fit(brains(np.arange(60) % 2, gap=4.0)).pipeline_[-1].coef_
    assert np.abs(coefficients).argmax() == 0 and (coefficients == 0).mean() > 0.3


@pytest.mark.parametrize("kind", SVMS)
def test_two_scans_of_a_subject_do_not_make_an_svm_sure_of_itself(kind: str) -> None:
    """Noise, every graph there twice: folds with one of the two on either side would seem easy."""
    noise = brains(np.random.default_rng(0).integers(0, 2, 40), n=30, gap=0.0)
    twice = noise[np.tile(np.arange(40), 2)]
    sure = []
    for subjects in (np.arange(80), np.tile(np.arange(40), 2)):
        twice.meta["subject"] = subjects
        model = shallow(kind).fit(twice)
        chances = model.predict_proba(brains(np.arange(40) % 2, n=30, gap=0.0, seed=1))
        sure.append(np.abs(chances - 0.5).mean())
    assert sure[1] < sure[0] / 2


def test_lasso_is_l1_logistic_regression() -> None:
    graphs = brains(np.arange(60) % 2, gap=2.0)
    x = StandardScaler().fit_transform(GraphVectors().fit_transform(graphs))
    by_hand = LogisticRegression(C=0.3, solver="liblinear", tol=1e-6, **L1).fit(x, graphs.y)
    ours = shallow("lasso", C=0.3).fit(graphs).predict_proba(graphs)
    np.testing.assert_allclose(ours, by_hand.predict_proba(x), atol=0.02)


@pytest.mark.parametrize("factor", [3.0, 10.0, 30.0])
@pytest.mark.parametrize("even", [True, False])
def test_lasso_of_three_classes_is_scikit_learns(factor: float, even: bool) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(45) % 3
    x = rng.normal(size=(45, 5)) @ rng.normal(size=(5, 60)) + rng.normal(size=(45, 60))
    x[:, :4] += y[:, None]
    x = StandardScaler().fit_transform(x)
    weight = np.ones(45) if even else rng.uniform(0.5, 2, 45)
    strength = factor * l1_min_c(x, y, loss="log")
    stock = LogisticRegression(C=strength, solver="saga", tol=1e-7, max_iter=100_000, **L1)
    stock.fit(x, y, sample_weight=weight)
    ours = SparseLogisticRegression(C=strength, tol=1e-6, max_iter=20_000, **L1)
    rough = clone(ours).set_params(tol=1e-3).fit(x, y, sample_weight=weight)
    ours.fit(x, y, sample_weight=weight)
    assert (ours.coef_ == 0).any() and (ours.coef_ != 0).any()
    np.testing.assert_allclose(ours.coef_, stock.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, stock.intercept_, atol=2e-3)
    np.testing.assert_allclose(rough.predict_proba(x), stock.predict_proba(x), atol=0.01)


def test_lasso_of_three_classes_is_where_no_derivative_exceeds_the_penalty() -> None:
    graphs = brains(np.arange(60) % 3, n=30, gap=2.0)
    model = shallow("lasso").fit(graphs)
    x = model.pipeline_[:-1].transform(graphs)
    residual = model.pipeline_[-1].predict_proba(x) - np.eye(3)[graphs.y]
    gradient, coef = model.settings_["C"] * residual.T @ x, model.pipeline_[-1].coef_
    assert np.abs(gradient[coef == 0]).max() < 1.01
    np.testing.assert_allclose(gradient[coef != 0], -np.sign(coef[coef != 0]), atol=0.01)


def test_a_lasso_that_has_not_converged_says_so() -> None:
    x = np.random.default_rng(0).normal(size=(30, 10))
    with pytest.warns(ConvergenceWarning, match="has not converged in 2 steps; lower C or raise tol"):
        SparseLogisticRegression(C=10.0, max_iter=2, tol=1e-9, **L1).fit(x, np.arange(30) % 3)


@pytest.mark.parametrize("kind", MODELS)
def test_nothing_to_learn_is_no_error(kind: str) -> None:
    same = GraphSet.from_arrays(np.ones((12, 4, 4)), y=np.arange(12) % 2, aligned=True)
    proba = shallow(kind).fit(same).predict_proba(same)
    np.testing.assert_allclose(proba, 0.5, atol=0.1)


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"model": "svm"},
        "model must be one of 'linear-svm', 'rbf-svm', 'random-forest', 'lasso', 'logistic', got 'svm'",
    ),
    ({"features": "connectivity"}, "needs aligned graphs"),
    ({"features": "all"}, "features must be one of"),
    ({"C": 0}, r"C must lie in \(0, inf\), got 0"),
    ({"C": "large"}, "C must be a number in"),
    ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, got 0"),
]


@pytest.mark.parametrize(("params", "words"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_parameters_are_refused_by_name(params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ShallowGraphClassifier(**params).fit(make_ba2motifs(8, random_state=0))


def test_graphs_of_other_nodes_are_refused() -> None:
    graphs = brains(np.arange(12) % 2)
    model = shallow("lasso").fit(
        GraphSet.from_arrays(graphs.batch().adj.numpy(), np.ones((12, 8, 1)), graphs.y, aligned=True)
    )
    fewer = GraphSet.from_arrays(np.ones((2, 5, 5)), np.ones((2, 5, 1)), aligned=True)
    with pytest.raises(ValueError, match=r"got aligned graphs of 5 nodes.*learnt from aligned graphs of 8"):
        model.predict(fewer)
    with pytest.raises(ValueError, match="got graphs that are not aligned"):
        model.predict(GraphSet.from_arrays(np.ones((2, 8, 8)), np.ones((2, 8, 1))))


# -------------------------------------------------------------------- on disk


class Evil:
    """Would run when unpickled."""

    def __reduce__(self) -> Any:
        return (print, ("run",))


def foreign_type(folder: Path) -> None:
    import skops.io

    skops.io.dump({"a": Path("x")}, folder / "model.skops")
    reseal(folder)


def other_pipeline(folder: Path) -> None:
    import skops.io

    skops.io.dump(StandardScaler(), folder / "model.skops")
    reseal(folder)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def forget(folder: Path, name: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config[name]
    (folder / "config.json").write_text(json.dumps(config))
    reseal(folder)


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut": (lambda f: cut(f / "model.skops"), r"model\.skops is damaged .*save the model again"),
    "empty": (lambda f: (f / "model.skops").write_bytes(b""), r"model\.skops is damaged"),
    "pickle": (lambda f: (f / "model.skops").write_bytes(pickle.dumps(Evil())), r"model\.skops is damaged"),
    "pickle, sealed": (
        lambda f: ((f / "model.skops").write_bytes(pickle.dumps(Evil())), reseal(f)),
        r"model\.skops is damaged",
    ),
    "foreign type": (foreign_type, r"was not written by cignn and is not loaded: it holds pathlib"),
    "other object": (other_pipeline, "is damaged: config and weights do not fit"),
    "missing": (lambda f: (f / "model.skops").unlink(), r"model\.skops is missing"),
    "no classes": (lambda f: forget(f, "classes"), "is damaged: .*classes"),
    "no nodes": (lambda f: forget(f, "n_nodes"), "is damaged: .*n_nodes"),
}


@pytest.mark.parametrize(("spoil", "words"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_or_foreign_model_is_refused_in_one_line(
    tmp_path: Path, spoil: Callable[[Path], Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shallow("linear-svm").fit(brains(np.arange(12) % 2)).save(tmp_path / "model")
    spoil(tmp_path / "model")
    with pytest.raises(ValueError, match=words) as caught:
        load_model(tmp_path / "model")
    assert "\n" not in str(caught.value) and str(tmp_path / "model") in str(caught.value)
    assert capsys.readouterr().out == "", "nothing of the file was run"


def test_a_model_folder_can_change_its_kind(tmp_path: Path) -> None:
    for kind, n_classes in (("random-forest", 2), ("lasso", 3), ("lasso", 2)):
        graphs = brains(np.arange(12) % n_classes)
        model = shallow(kind).fit(graphs)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(
            load_model(tmp_path / "model").predict_proba(graphs), model.predict_proba(graphs)
        )
    files = ["MODEL_CARD.md", "config.json", "connections.safetensors", "model.skops"]
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == files
