"""Contributions: base and contributions add up to the log-odds, for every estimator and every class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cignn import GraphSet, load_model
from cignn.datasets import make_ba2motifs
from cignn.datasets.labels import control_class
from cignn.estimators import GraphClassifier, make_estimator
from cignn.estimators.explaining import network_contributions
from cignn.explainers import effective_coefficients
from cignn.explanations import Explanations
from cignn.nn import GNN, contributions, log_odds

N = 6


def matrices(n_graphs: int = 40, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(n_graphs, N, N)).astype(np.float32)
    return (values + values.swapaxes(1, 2)) / 2


def aligned(classes: int = 2, holes: float = 0.0) -> GraphSet:
    values = matrices()
    score = values[:, 0, 1] + values[:, 2, 3]
    y = np.array(["ASD", "HC", "other"])[
        np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    ]
    return GraphSet.from_arrays(np.where(np.abs(values) < holes, 0, values), y=y, aligned=True)


SETS = {
    "aligned": aligned(),
    "three classes": aligned(3),
    "missing edges": aligned(holes=0.3),
    "motifs": make_ba2motifs(16, random_state=0),
}
SMALL = {"hidden": (8, 8)}
NETWORKS: dict[str, dict[str, Any]] = {
    "ci-gnn": {"n_estimators": 2},
    "ci-gnn, mask of each graph": {"n_estimators": 2, "mask_from": "latents"},
    "ci-gnn, paper": {"preset": "paper", "generative_epochs": 1, "classifier_hidden": (8, 8)},
    "sib": SMALL,
    "dir": SMALL,
    "gin": SMALL,
    "gcn": SMALL,
    "gat": SMALL,
}


def fitted(name: str, graphs: GraphSet, **params: Any) -> GraphClassifier:
    name = name.partition(",")[0]
    epochs = {} if name in SHALLOW else {"epochs": 3}
    return make_estimator(name, random_state=0, **epochs, **params).fit(graphs)


def explained(model: GraphClassifier, graphs: GraphSet, target: Any = None) -> Explanations:
    if hasattr(model, "explain"):
        return model.explain(graphs, target)
    return network_contributions(model, graphs, target)  # type: ignore[arg-type]


def own_log_odds(model: GraphClassifier, graphs: GraphSet, labels: np.ndarray) -> np.ndarray:
    chances = model.predict_proba(graphs)
    chosen = labels[:, None] == model.classes_
    with np.errstate(divide="ignore"):
        return np.log(chances[chosen]) - np.log(np.where(chosen, 0, chances).sum(1))


@pytest.mark.medium
@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_base_and_contributions_of_networks_are_the_log_odds(name: str, data: str) -> None:
    graphs = SETS[data]
    model = fitted(name, graphs, **NETWORKS[name])
    for target in (None, model.classes_[1]):
        explanations = explained(model, graphs, target)
        expected = own_log_odds(model, graphs, explanations.explained)
        np.testing.assert_allclose(explanations.log_odds, expected, rtol=0.01, atol=1e-4)
        assert (explanations.explained == (model.predict(graphs) if target is None else target)).all()
        np.testing.assert_array_equal(explanations.predictions, model.predict(graphs))


SHALLOW = {
    name: {"n_estimators": 20} if name == "random-forest" else {}
    for name in ("lasso", "linear-svm", "rbf-svm", "random-forest")
}


@pytest.mark.parametrize("data", ["aligned", "three classes", "missing edges"])
@pytest.mark.parametrize("name", SHALLOW)
def test_base_and_contributions_of_shallow_models_are_the_log_odds(name: str, data: str) -> None:
    graphs = SETS[data]
    model = fitted(name, graphs, **SHALLOW[name])
    if (name, data) == ("rbf-svm", "three classes"):
        with pytest.raises(AttributeError, match="explains decisions between two classes, these are 3"):
            model.explain(graphs)
        return
    for target in (None, *model.classes_):
        explanations = explained(model, graphs, target)
        expected = own_log_odds(model, graphs, explanations.explained)
        if name == "random-forest":  # certainty counts as that of all trees but half a one
            expected = np.clip(expected, -np.log(39), np.log(39))
        np.testing.assert_allclose(explanations.log_odds, expected, rtol=1e-4, atol=1e-5)


def test_a_forest_that_splits_on_one_connection_gives_it_all_of_the_log_odds() -> None:
    values = np.random.default_rng(0).normal(size=(60, 3, 3))
    values[:, 0, 2] = values[:, 1, 2] = 1.0  # constant: nothing to split on
    values = np.triu(values, 1) + np.triu(values, 1).swapaxes(1, 2)
    graphs = GraphSet.from_arrays(values, y=values[:, 0, 1] > 0, aligned=True)
    found = fitted("random-forest", graphs, n_estimators=10).explain(graphs).edge_contributions
    assert (np.array(found)[:, 1:] == 0).all() and (np.array(found)[:, 0] > 0).all()


def test_contributions_of_an_rbf_svm_are_integrated_gradients() -> None:
    graphs = SETS["aligned"]
    model = fitted("rbf-svm", graphs)
    found = model.explain(graphs[:1], "HC").edge_contributions[0]
    x = model.pipeline_[:2].transform(graphs[:1])[0].astype(float)
    steps, small = (np.arange(400) + 0.5) / 400, 1e-4
    svm, factor = model.pipeline_[-1], model.settings_["temperature"]
    for e in range(3):
        moved = np.zeros_like(x)
        moved[e] = small
        slopes = [np.diff(svm.decision_function([t * x - moved, t * x + moved]))[0] for t in steps]
        np.testing.assert_allclose(found[e], factor * x[e] * np.mean(slopes) / (2 * small), rtol=1e-3)


@pytest.mark.parametrize("name", ["lasso", "linear-svm"])
def test_contributions_of_linear_models_are_coefficient_times_deviation(name: str) -> None:
    graphs = SETS["aligned"]
    model = fitted(name, graphs)
    found = explained(model, graphs, "HC").edge_contributions
    assert found is not None
    vectors = model.pipeline_[0].transform(graphs).astype(float)
    deviations = (vectors - vectors.mean(0)) / vectors.std(0)
    np.testing.assert_allclose(np.array(found), deviations * model.coefficients(), atol=1e-4)
    np.testing.assert_array_equal(effective_coefficients(model, graphs), model.coefficients())


def test_effective_coefficients_of_a_network_without_hidden_layers_are_its_weights() -> None:
    graphs = SETS["aligned"]
    model = fitted("ci-gnn", graphs, n_estimators=1, head_hidden=())
    network = model.network_
    with torch.no_grad():
        mask = torch.sigmoid(network.classifier.edge_values(network.subgraph(network._mask_vectors(None))))
        weights = network.classifier.layers[0].weight
        expected = ((weights[1] - weights[0]) * mask[0]).numpy()
    found = effective_coefficients(model, graphs)
    # not equal: the network's own scale leaves out the graphs set aside for validation
    assert np.corrcoef(found, expected)[0, 1] > 0.95


def test_the_contributions_towards_two_classes_are_opposite() -> None:
    graphs = SETS["aligned"]
    model = fitted("ci-gnn", graphs, n_estimators=2)
    one, other = (explained(model, graphs, label) for label in model.classes_)
    for a, b in zip(one.edge_contributions or [], other.edge_contributions or [], strict=True):
        np.testing.assert_allclose(a, -b, atol=1e-5)
    each = explained(model, graphs, graphs.y)
    np.testing.assert_array_equal(each.explained, graphs.y)


def test_an_edge_that_says_nothing_new_contributes_nothing() -> None:
    graphs = SETS["aligned"]
    model = fitted("ci-gnn", graphs, n_estimators=1)
    mean = GraphSet.from_arrays(
        model.network_.classifier.edge_centre.numpy()[None], aligned=True, node_names=graphs.node_names
    )
    (values,) = explained(model, mean).edge_contributions or []
    np.testing.assert_allclose(values, 0, atol=1e-5)


def test_contributions_do_not_depend_on_the_other_graphs() -> None:
    for graphs, name in ((SETS["aligned"], "ci-gnn"), (SETS["motifs"], "gin")):
        model = fitted(name, graphs, **NETWORKS[name])
        together, alone = explained(model, graphs, graphs.y[0]), explained(model, graphs[3:4], graphs.y[0])
        np.testing.assert_allclose(
            together[3].edge_contributions, alone[0].edge_contributions, atol=1e-4, rtol=1e-2
        )


def test_log_odds_are_those_of_the_mean_probability() -> None:
    logits = torch.randn(3, 5, 4, dtype=torch.float64)
    target = torch.tensor([0, 1, 2, 3, 0])
    prob = torch.softmax(logits, -1).mean(0)[torch.arange(5), target]
    torch.testing.assert_close(log_odds(logits, target), prob.log() - (1 - prob).log())


def test_contributions_leave_no_gradient_behind() -> None:
    network = GNN(SETS["motifs"].n_features, 2, hidden=(8,)).eval()
    found = contributions(network, SETS["motifs"].batch(), torch.zeros(16, dtype=torch.long))
    assert not any(value.requires_grad for value in found)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_class_that_is_none_is_refused() -> None:
    model = fitted("lasso", SETS["aligned"])
    with pytest.raises(ValueError, match=r"target must be one of the classes \['ASD', 'HC'\], got 'TD'"):
        model.explain(SETS["aligned"], "TD")
    with pytest.raises(ValueError, match=r"target must be a label or one per graph \(40\), got shape \(2,\)"):
        model.explain(SETS["aligned"], ["ASD", "HC"])


def test_who_cannot_explain_says_so_in_one_line() -> None:
    svm = fitted("linear-svm", SETS["motifs"])
    with pytest.raises(AttributeError, match="on statistics of graphs does not explain its decisions"):
        svm.explain(SETS["motifs"])
    with pytest.raises(ValueError, match="coefficients of connections need aligned graphs"):
        effective_coefficients(svm, SETS["motifs"])


def test_models_remember_the_connections_of_their_controls(tmp_path: Path) -> None:
    graphs = SETS["aligned"]
    for name in ("lasso", "ci-gnn"):
        model = fitted(name, graphs)
        reference = model.reference_
        assert reference is not None and reference.name == "HC"
        controls = matrices()[graphs.y == "HC"]
        np.testing.assert_allclose(reference.mean[0, 1], controls[:, 0, 1].mean(), rtol=1e-4)
        np.testing.assert_allclose(reference.std[0, 1], controls[:, 0, 1].std(ddof=1), rtol=1e-4)
        model.save(tmp_path / name)
        loaded = load_model(tmp_path / name)
        before, after = model.explain(graphs), loaded.explain(graphs)
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a.edge_contributions, b.edge_contributions)
            np.testing.assert_array_equal(a.deviations, b.deviations)
    assert fitted("gin", SETS["motifs"], **SMALL).reference_ is None


@pytest.mark.parametrize(
    ("classes", "control"),
    [
        (["ASD", "TD"], "TD"),
        (["MDD", "healthy control"], "healthy control"),
        (["HC", "MDD"], "HC"),
        ([-1, 0], 0),
        ([1, 2], 1),
        (["a", "b"], "a"),
    ],
)
def test_the_class_of_the_controls(classes: list, control: object) -> None:
    assert control_class(classes) == control
