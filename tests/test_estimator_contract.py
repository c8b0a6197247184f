"""The contract that every classifier in the registry keeps, on ragged and on aligned graphs.

``dummy`` follows the recipe of CONTRIBUTING.md and must pass like the rest.
"""

from __future__ import annotations

import copy
import pickle
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from torch import Tensor, nn

from cignn import GraphSet, load_model
from cignn.estimators import (
    CLASSIFIERS,
    ESTIMATORS,
    GraphClassifier,
    Method,
    NeuralGraphClassifier,
    make_estimator,
)
from cignn.estimators.settings import training_settings
from cignn.estimators.training import Stage
from cignn.graphs import GraphBatch
from cignn.nn import GraphOutput, Noise, SingleModel

pytestmark = pytest.mark.medium

# ------------------------------------------------- the recipe, followed by a dummy


class Linear(SingleModel):
    """Class logits linear in the mean over nodes of x + A x."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__(n_features, n_classes)
        self.linear = nn.Linear(n_features, n_classes)

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        x = self.features(batch)
        return x + self.adjacency(batch, edge_weights) @ x

    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> GraphOutput:
        pooled = self.embed(batch, edge_weights).sum(1) / batch.n_nodes.unsqueeze(1)
        return GraphOutput(self.linear(pooled))


class DummyClassifier(NeuralGraphClassifier):
    def __init__(
        self,
        *,
        epochs: int | str = "auto",
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        ema_decay: float = 0.0,
        batch_size: int = 32,
        class_weight: Any = None,
        validation_fraction: float = 0.1,
        checkpoint: Any = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.ema_decay = ema_decay
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        return training_settings(self.get_params(deep=False), graphs)

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> nn.Module:
        return Linear(n_features, n_classes)

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        assert isinstance(network, Linear)

        def losses(batch: GraphBatch, noise: Noise) -> dict[str, Tensor]:
            return {"classification": network.cross_entropy(network(batch).logits, batch)}

        parameters = list(network.parameters())
        weights = {"classification": 1.0}
        return [Stage("classification", settings["epochs"], parameters, losses, weights, choose_from=0)]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "dummy", Method(DummyClassifier))


# --------------------------------------------------------------- graphs and models

TRAINING: dict[str, Any] = {"epochs": 12, "learning_rate": 0.03, "ema_decay": 0.0}
GNN = TRAINING | {"hidden": (8, 8), "head_hidden": (8,), "dropout": 0.0}
QUICK: dict[str, dict[str, Any]] = {
    "linear-svm": {},
    "rbf-svm": {},
    "random-forest": {"n_estimators": 20},
    "lasso": {},
    "logistic": {},
    "gcn": GNN,
    "gat": GNN,
    "gin": GNN,
    "sib": GNN | {"inner_steps": 2},
    "dir": GNN | {"scorer_hidden": (8,), "ratio": 0.5},
    "ci-gnn": TRAINING
    | {"encoder_hidden": (8,), "classifier_hidden": (8, 8), "head_hidden": (8,), "dropout": 0.0}
    | {"n_causal": 6, "n_noncausal": 2, "keep_anneal": 0.5, "n_estimators": 1, "epochs": 30},
    "dummy": TRAINING | {"learning_rate": 0.3},
}
NAMES = list(QUICK)
NEURAL = [name for name in NAMES if "epochs" in QUICK[name]]
SETS = ["ragged", "aligned"]

every = pytest.mark.parametrize("name", NAMES)
on_both = pytest.mark.parametrize("kind", SETS)


def make(name: str, **more: Any) -> GraphClassifier:
    return make_estimator(name, **QUICK[name] | {"random_state": 0} | more)


def make_graphs(kind: str, y: np.ndarray, seed: int = 0) -> GraphSet:
    """Weighted graphs whose class is written into their nodes and, into one connection."""
    rng = np.random.default_rng(seed)
    codes = np.unique(y, return_inverse=True)[1]
    sizes = rng.integers(5, 10, len(y)) if kind == "ragged" else np.full(len(y), 6)
    uppers = [np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.6), 1) for n in sizes]
    for upper, code in zip(uppers, codes, strict=True):
        upper[0, 1:4] = 0.5 + 2 * np.eye(3)[code]
    x = [2 * np.eye(3)[code] + 0.2 * rng.normal(size=(n, 3)) for code, n in zip(codes, sizes, strict=True)]
    return GraphSet.from_arrays([u + u.T for u in uppers], x, y, aligned=kind == "aligned")


@cache
def graphs_of(kind: str) -> GraphSet:
    return make_graphs(kind, np.array(["patient", "control", "other"])[np.arange(48) % 3])


@cache
def fitted(name: str, kind: str) -> GraphClassifier:
    return make(name).fit(graphs_of(kind))


def other_graphs(kind: str) -> GraphSet:
    return make_graphs(kind, graphs_of(kind).y, seed=1)


def global_states() -> list[Any]:
    return [torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()]  # noqa: NPY002


def test_every_entry_of_the_registry_is_tested() -> None:
    assert set(CLASSIFIERS) == set(NAMES) - {"dummy"}


# ------------------------------------------------------------------ the registry


@every
def test_a_name_makes_its_classifier(name: str) -> None:
    model = make_estimator(name, random_state=3, class_weight="balanced", device="cpu", verbose=0)
    assert isinstance(model, ESTIMATORS[name].estimator) and is_classifier(model)
    expected = ESTIMATORS[name].settled | {"random_state": 3, "class_weight": "balanced"}
    assert {key: model.get_params()[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gin ", "gin"), ("cignn", "ci-gnn"), ("Linear_SVM", "linear-svm"), ("randomforest", "random-forest")],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"no method '{name}'; did you mean '{hint}'?") as caught:
        make_estimator(name)
    assert all(known in str(caught.value) for known in NAMES) and "\n" not in str(caught.value)


def test_a_strange_name_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"no method 'xyz'\. There are linear-svm, rbf-svm, random-forest"):
        make_estimator("xyz")


def test_parameters_are_checked_by_name() -> None:
    with pytest.raises(ValueError, match=r"'gcn' has no parameter 'epoch'; did you mean 'epochs'\?"):
        make_estimator("gcn", epoch=3)
    with pytest.raises(ValueError, match="layer is settled by the name 'gcn'; leave it out"):
        make_estimator("gcn", layer="gin")


# --------------------------------------------------------- scikit-learn's interface

CHECKS = [
    "check_parameters_default_constructible",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimator_tags_renamed",
    "check_mixin_order",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("check", CHECKS)
@every
def test_scikit_learns_own_checks_pass(name: str, check: str) -> None:
    run = getattr(estimator_checks, check)  # one that is renamed is to be renamed here
    run(type(make(name)).__name__, make_estimator(name))


@every
def test_fit_returns_itself_and_leaves_its_parameters_alone(name: str) -> None:
    model = make(name)
    before, stored = model.get_params(), set(vars(model))
    assert model.fit(graphs_of("ragged")) is model
    assert model.get_params() == before
    assert all(key.endswith("_") and not key.startswith("_") for key in set(vars(model)) - stored)


@every
def test_a_clone_is_not_fitted_and_learns_the_same(name: str) -> None:
    model = fitted(name, "ragged")
    other = clone(model)
    assert other.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        other.predict(graphs_of("ragged"))
    expected = model.predict_proba(graphs_of("ragged"))
    np.testing.assert_array_equal(other.fit(graphs_of("ragged")).predict_proba(graphs_of("ragged")), expected)


@every
def test_it_can_be_copied_and_sent_to_another_process(name: str) -> None:
    model, graphs = fitted(name, "aligned"), graphs_of("aligned")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(graphs), model.predict_proba(graphs))


@every
@on_both
def test_cross_validation_learns(name: str, kind: str) -> None:
    graphs = make_graphs(kind, np.arange(48) % 2)
    assert cross_val_score(make(name), graphs, graphs.y, cv=2).mean() >= 0.75  # chance: 0.5 ± 0.07


@every
def test_grid_search_and_pipelines(name: str) -> None:
    graphs = make_graphs("ragged", np.arange(24) % 2)
    short = {"epochs": 2} if name in NEURAL else {}
    if name == "ci-gnn":
        short["keep_anneal"] = 0.0
    search = GridSearchCV(
        make(name, **short), {"class_weight": [None, "balanced"]}, cv=2, error_score="raise"
    )
    search.fit(graphs, graphs.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict_proba(graphs).shape == (24, 2)
    pipe = make_pipeline(FunctionTransformer(lambda graphs: graphs), make(name, **short))
    pipe.fit(graphs, graphs.y)
    direct = make(name, **short).fit(graphs)
    np.testing.assert_array_equal(pipe.predict_proba(graphs), direct.predict_proba(graphs))


# --------------------------------------------------------------------- predictions


@every
@on_both
def test_probabilities_and_labels_agree(name: str, kind: str) -> None:
    model, graphs = fitted(name, kind), other_graphs(kind)
    np.testing.assert_array_equal(model.classes_, ["control", "other", "patient"])
    proba = model.predict_proba(graphs)
    assert proba.shape == (48, 3) and proba.min() >= 0
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.predict(graphs), model.classes_[proba.argmax(1)])
    assert recall_score(graphs.y, model.predict(graphs), average="macro") >= 0.85
    assert model.score(graphs, graphs.y) == np.mean(model.predict(graphs) == graphs.y)
    turned = graphs.with_y(np.roll(graphs.y, 1))  # their own labels count where none are given
    assert model.score(turned) == np.mean(model.predict(graphs) == turned.y)


LABELS = {
    "minus and plus one": np.arange(32) % 2 * 2 - 1,
    "objects": np.array(["b", "a"], dtype=object)[np.arange(32) % 2],
    "bools": np.arange(32) % 2 == 1,
    "whole floats": np.array([2.0, 1.0])[np.arange(32) % 2],
}


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS.keys())
@every
def test_labels_of_any_kind_come_back(name: str, y: np.ndarray) -> None:
    graphs = make_graphs("ragged", y)
    prediction = make(name).fit(graphs.with_y(None), y.tolist()).predict(graphs)
    assert set(prediction.tolist()) <= set(y.tolist()) and np.mean(prediction == y) >= 0.85


@every
@on_both
def test_class_weights_count_for_the_rare_class(name: str, kind: str) -> None:
    y = np.where(np.arange(40) % 5 == 0, "rare", "common")
    same = graphs_of(kind)[[0] * 40].with_y(y)  # nothing tells them apart

    def chance(class_weight: Any) -> float:
        model = make(name, class_weight=class_weight).fit(same, eval_set=same)
        return float(model.predict_proba(same)[:, 1].mean())

    plain, balanced, by_hand = chance(None), chance("balanced"), chance({"common": 1.0, "rare": 4.0})
    assert plain < 0.35 and abs(balanced - 0.5) < 0.1
    assert by_hand == pytest.approx(balanced, abs=0.02)


@every
@on_both
def test_a_prediction_does_not_depend_on_its_batch_mates(name: str, kind: str) -> None:
    model, graphs = fitted(name, kind), other_graphs(kind)
    together = model.predict_proba(graphs)
    assert np.ptp(together[:, 0]) > 0.01
    order = np.random.default_rng(0).permutation(48)
    np.testing.assert_allclose(model.predict_proba(graphs[order]), together[order], atol=1e-5)
    for i in (0, 7, 23):
        np.testing.assert_allclose(model.predict_proba(graphs[[i]])[0], together[i], atol=1e-5)
    assert model.predict_proba(graphs[[]]).shape == (0, 3) and model.predict(graphs[[]]).shape == (0,)


@every
def test_relabelling_the_nodes_of_a_graph_changes_nothing(name: str) -> None:
    model, graphs = fitted(name, "ragged"), other_graphs("ragged")
    rng = np.random.default_rng(0)
    orders = [rng.permutation(n) for n in graphs.n_nodes]
    moved = GraphSet.from_arrays(
        [g.weights[np.ix_(o, o)] for g, o in zip(graphs, orders, strict=True)],
        [g.x[o] for g, o in zip(graphs, orders, strict=True)],
    )
    np.testing.assert_allclose(model.predict_proba(moved), model.predict_proba(graphs), atol=1e-4)


# ----------------------------------------------------------------- reproducibility


@every
@on_both
def test_the_same_seed_gives_the_same_numbers_and_touches_no_other(name: str, kind: str) -> None:
    graphs = graphs_of(kind)
    torch.manual_seed(1)
    np.random.seed(2)  # noqa: NPY002
    before = global_states()
    model = make(name).fit(graphs)
    np.testing.assert_array_equal(model.predict_proba(graphs), fitted(name, kind).predict_proba(graphs))
    assert global_states() == before
    np.testing.assert_array_equal(model.fit(graphs).predict_proba(graphs), model.predict_proba(graphs))


@pytest.mark.parametrize("name", [*NEURAL, "random-forest"])
def test_another_seed_gives_other_numbers(name: str) -> None:
    graphs = graphs_of("ragged")
    other = make(name, random_state=1).fit(graphs)
    assert not np.allclose(other.predict_proba(graphs), fitted(name, "ragged").predict_proba(graphs))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_generator_is_a_random_state(name: str) -> None:
    graphs = graphs_of("ragged")
    first, again = (make(name, random_state=np.random.default_rng(0)).fit(graphs) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(graphs), again.predict_proba(graphs))
    with pytest.raises(ValueError, match=r"random_state must be None, an int, .* or a Generator, got str"):
        make(name, random_state="a").fit(graphs)


# ------------------------------------------------------------------------- on disk


@every
@on_both
def test_a_loaded_model_is_the_saved_one(tmp_path: Path, name: str, kind: str) -> None:
    model, graphs = fitted(name, kind), other_graphs(kind)
    model.save(tmp_path / "model")
    model.save(tmp_path / "model")  # over an older one
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    np.testing.assert_array_equal(loaded.predict(graphs), model.predict(graphs))
    assert loaded.settings_ == model.settings_ and loaded.training_digest_ == model.training_digest_
    params = {k: v for k, v in model.get_params().items() if k != "random_state"}
    assert {k: loaded.get_params()[k] for k in params} == params


@every
@on_both
def test_a_model_knows_what_it_was_trained_on_by_the_data_alone(tmp_path: Path, name: str, kind: str) -> None:
    model = fitted(name, kind)
    both = [graphs_of(kind)[:5].with_y(None), other_graphs(kind)[:5]]
    model.save(tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        assert [one.trained_on(graphs).tolist() for graphs in both] == [[True] * 5, [False] * 5]


@pytest.mark.parametrize("name", NEURAL)
def test_graphs_that_chose_the_epoch_count_as_trained_on(name: str) -> None:
    graphs, held_out = graphs_of("ragged"), other_graphs("ragged")
    model = make(name, epochs=1).fit(graphs, eval_set=(held_out, held_out.y))
    assert model.trained_on(graphs).all() and model.trained_on(held_out).all()


@every
def test_the_digest_of_a_training_knows_its_labels(name: str) -> None:
    graphs = graphs_of("ragged")
    quick = {"epochs": 1} if name in NEURAL else {}
    own = make(name, **quick).fit(graphs).training_digest_
    assert own == graphs.digest() == make(name, **quick).fit(graphs.with_y(None), graphs.y).training_digest_
    assert own != make(name, **quick).fit(graphs, graphs.y[::-1]).training_digest_


@every
def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    fitted(name, "ragged").save(tmp_path / "model")
    content = next(p for p in (tmp_path / "model").iterdir() if p.name.startswith("model."))
    content.write_bytes(content.read_bytes()[:-100])
    with pytest.raises(ValueError, match=rf"{content.name} is damaged") as caught:
        load_model(tmp_path / "model")
    assert "\n" not in str(caught.value)


@every
def test_what_is_not_a_model_folder_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(ValueError, match="exists and is not a model folder"):
        fitted(name, "ragged").save(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "dear"


# ------------------------------------------------------------------------ bad input


@every
def test_before_fit_nothing_can_be_asked(tmp_path: Path, name: str) -> None:
    model = make(name)
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError, match="is not fitted yet; call fit first"):
            ask(graphs_of("ragged"))
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")


def with_nan() -> tuple[GraphSet, Any]:
    y = np.arange(48) % 2 * 1.0
    y[5] = np.nan
    return graphs_of("ragged"), y


BAD_FITS: dict[str, tuple[Any, str]] = {
    "one class": (lambda: (graphs_of("ragged"), np.ones(48)), "at least two classes"),
    "NaN label": (with_nan, "y has no label for graph 5"),
    "None label": (lambda: (graphs_of("ragged"), [None, "a"] * 24), "y has no label for graph 0"),
    "continuous": (lambda: (graphs_of("ragged"), np.linspace(0, 1, 48)), "must hold class labels"),
    "too few labels": (lambda: (graphs_of("ragged"), [0, 1]), r"one label per graph \(48\)"),
    "no labels": (lambda: (graphs_of("ragged").with_y(None), None), "carry no labels; pass y"),
    "no graphs": (lambda: (graphs_of("ragged")[[]], None), "empty GraphSet"),
    "a lone graph": (
        lambda: (graphs_of("ragged"), np.where(np.arange(48) == 9, "z", "a")),
        "class 'z' has only one graph",
    ),
}


@pytest.mark.parametrize(("bad", "words"), BAD_FITS.values(), ids=BAD_FITS.keys())
@every
def test_bad_labels_are_refused(name: str, bad: Any, words: str) -> None:
    graphs, y = bad()
    with pytest.raises(ValueError, match=words) as caught:
        make(name).fit(graphs, y)
    assert "\n" not in str(caught.value)


@every
def test_other_graphs_than_those_learnt_from_are_refused(name: str) -> None:
    model = fitted(name, "ragged")
    narrow = GraphSet.from_arrays([np.ones((4, 4))], [np.ones((4, 2))])
    with pytest.raises(ValueError, match=r"graphs have 2 node features, .* expects 3"):
        model.predict(narrow)
    for wrong in (np.ones((3, 4, 4)), [graphs_of("ragged")], None):
        with pytest.raises(TypeError, match="expected a GraphSet, got"):
            model.predict(wrong)
        with pytest.raises(TypeError, match="expected a GraphSet, got"):
            make(name).fit(wrong, [0, 1, 0])


@every
def test_nodes_in_another_order_are_refused(name: str) -> None:
    weights = graphs_of("aligned").batch().adj.numpy()
    x = graphs_of("aligned").batch().x.numpy()
    y = np.arange(48) % 2
    model = make(name).fit(GraphSet.from_arrays(weights, x, y, node_names=list("abcdef")))
    assert model.node_names_ == list("abcdef")
    with pytest.raises(ValueError, match="node 0 is 'f', not 'a'"):
        model.predict(GraphSet.from_arrays(weights, x, node_names=list("fbcdea")))


@every
def test_a_model_of_aligned_graphs_refuses_other_nodes(name: str) -> None:
    model, adj = fitted(name, "aligned"), np.ones((2, 6, 6))
    more = GraphSet.from_arrays(np.ones((2, 7, 7)), np.ones((2, 7, 3)), aligned=True)
    with pytest.raises(
        ValueError, match=r"got aligned graphs of 7 nodes, .* learnt from aligned graphs of 6;"
    ):
        model.predict(more)
    with pytest.raises(ValueError, match=r"got graphs that are not aligned, .* learnt from aligned"):
        model.predict(GraphSet.from_arrays(adj, np.ones((2, 6, 3))))
    if name in NEURAL:
        with pytest.raises(ValueError, match="got aligned graphs of 7 nodes"):
            make(name).fit(graphs_of("aligned"), eval_set=more.with_y(["other", "control"]))
    assert model.predict(graphs_of("aligned")[[]]).shape == (0,)
    assert fitted(name, "ragged").predict(GraphSet.from_arrays(adj, np.ones((2, 6, 3)), aligned=True)).size


@every
def test_a_failed_fit_leaves_the_fitted_model_as_it_was(name: str) -> None:
    graphs = graphs_of("ragged")
    model = copy.deepcopy(fitted(name, "ragged"))
    with pytest.raises(ValueError, match="class_weight"):
        model.set_params(class_weight="heavy").fit(graphs, np.arange(48) % 2)
    np.testing.assert_array_equal(model.predict(graphs), fitted(name, "ragged").predict(graphs))


# -------------------------------------------------------------- what networks share


@pytest.mark.parametrize("name", NEURAL)
def test_the_epoch_is_chosen_on_an_eval_set(name: str) -> None:
    graphs, held_out = graphs_of("ragged"), other_graphs("ragged")
    model = make(name).fit(graphs, eval_set=held_out)
    epochs = QUICK[name]["epochs"]
    assert 1 <= model.best_epoch_ <= epochs and len(model.history_) == epochs
    row = model.history_.iloc[model.best_epoch_ - 1]
    assert model.score(held_out, held_out.y) == pytest.approx(row["validation_accuracy"])
    other = make(name).fit(graphs, eval_set=(held_out, held_out.y[::-1]))
    same = 8 if name == "ci-gnn" else epochs  # then its price of edges follows the accuracy on the eval set
    np.testing.assert_array_equal(other.history_["loss"][:same], model.history_["loss"][:same])


@every
def test_an_eval_set_is_accepted_by_all(name: str) -> None:
    graphs = graphs_of("ragged")
    assert make(name).fit(graphs, eval_set=other_graphs("ragged")).predict(graphs).shape == (48,)


@on_both
@pytest.mark.parametrize("name", NEURAL)
def test_explainers_can_ask_for_both_directions_of_an_edge(name: str, kind: str) -> None:
    network: Any = fitted(name, kind).network_
    batch = graphs_of(kind).batch()
    torch.manual_seed(0)
    weights = torch.rand_like(batch.adj).requires_grad_()
    logits = network.read(batch, weights)
    inside = [getattr(member, "classifier", None) for member in network.networks()]
    if not all(getattr(one, "directed", True) for one in inside):  # others pass messages along directions
        torch.testing.assert_close(network.read(batch, weights.transpose(1, 2)), logits)
    (grad,) = torch.autograd.grad(logits[:, 0].sum(), weights)
    there = (torch.triu(grad) != 0).sum()
    back = (torch.tril(grad) != 0).sum()
    assert 0.8 < back / there < 1.25, "neither direction is deaf"


@on_both
@pytest.mark.parametrize("name", NEURAL)
def test_explainers_can_weight_the_edges_of_every_network(name: str, kind: str) -> None:
    network: Any = fitted(name, kind).network_
    batch = graphs_of(kind).batch()
    ones = torch.ones_like(batch.adj)
    torch.testing.assert_close(network.read(batch, ones), network(batch).logits)
    assert network.embed(batch).shape[:2] == batch.mask.shape and not network.embed(batch)[~batch.mask].any()
    weights = (0.5 * ones).requires_grad_()
    network.read(batch, weights).square().sum().backward()
    assert weights.grad is not None and torch.isfinite(weights.grad).all()
    assert weights.grad[batch.edge_mask].any() and not weights.grad[~batch.edge_mask].any()


@on_both
@pytest.mark.parametrize("name", ["sib", "dir", "ci-gnn"])
def test_built_in_explanations_are_weights_of_existing_edges(name: str, kind: str) -> None:
    model, graphs = fitted(name, kind), other_graphs(kind)
    explained = model.explain(graphs)
    np.testing.assert_array_equal(explained.predictions, model.predict(graphs))
    for graph, ex in zip(graphs, explained, strict=True):
        assert np.array_equal(ex.weights, ex.weights.T) and not ex.weights[graph.weights == 0].any()
        assert ex.weights.min() >= 0 and ex.weights.max() <= 1


# ------------------------------------------------------------- features with names


def labelled_nodes(values: list[int], n_graphs: int = 12) -> GraphSet:
    """Paths of three nodes whose labels, of the values given, say the class."""
    columns = [values[g % 2] for g in range(n_graphs) for _ in range(3)]
    edges = np.array([(3 * g + k, 3 * g + k + 1) for g in range(n_graphs) for k in (0, 1)])
    names = sorted(set(columns))
    return GraphSet.from_edges(
        edges,
        np.repeat(np.arange(n_graphs), 3),
        np.array(columns)[:, None] == names,
        np.arange(n_graphs) % 2,
        feature_names=[f"label {name}" for name in names],
    )


@every
def test_a_model_finds_its_features_in_graphs_with_fewer(name: str, tmp_path: Path) -> None:
    graphs = labelled_nodes([3, 7])
    model = make(name).fit(graphs)
    model.save(tmp_path / "model")
    fewer = labelled_nodes([7, 7])  # its only column stands where the model's second does
    ones = graphs[graphs.y == 1]
    for fitted in (model, load_model(tmp_path / "model")):
        np.testing.assert_allclose(fitted.predict_proba(fewer)[:6], fitted.predict_proba(ones), atol=1e-6)
        known = fitted.trained_on(fewer)
        assert known is not None and known.all(), "the same graphs, however few labels their set has"
        with pytest.raises(ValueError, match="have the node feature 'label 8', the training graphs do not"):
            fitted.predict(labelled_nodes([3, 8]))


@pytest.mark.parametrize("name", NEURAL)
def test_validation_graphs_may_have_fewer_features(name: str) -> None:
    graphs = labelled_nodes([3, 7])
    fewer = labelled_nodes([7, 7])
    history = make(name, epochs=2).fit(graphs, eval_set=fewer[fewer.y == 1]).history_
    expected = make(name, epochs=2).fit(graphs, eval_set=graphs[graphs.y == 1]).history_
    np.testing.assert_allclose(history["validation_loss"], expected["validation_loss"], rtol=1e-5)
