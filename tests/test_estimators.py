"""What must hold for the estimators: scikit-learn's contract, honest validation, presets, reproducibility."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from cignn import CIGNNClassifier, CIGNNSettings, GraphSet
from cignn.datasets import make_ba2motifs, make_cohort, make_spurious_motifs
from cignn.estimators import PRESETS, GNNClassifier, make_estimator
from cignn.estimators.network_stack import WARM_UP, NetworkStack
from cignn.estimators.stacks import Fit, fit_together
from cignn.estimators.subjects import folds, set_aside
from cignn.estimators.training_loop import TrainingLoop
from cignn.nn.layers import NodeNorm
from examples import ci_gnn, random_matrix, tiny

QUICK: dict[str, Any] = {
    "learning_rate": 0.02,
    "ema_decay": 0.0,
    "dropout": 0.0,
    "epochs": 10,
    "refinement": 0.0,
}
PARAMS = sorted(CIGNNClassifier().get_params(deep=False))
SCORES = ["validation_accuracy", "validation_loss", "validation_price"]


def easy_graphs(y: np.ndarray, seed: int = 0) -> GraphSet:
    """Weighted graphs of different sizes whose class is written into their node features."""
    rng = np.random.default_rng(seed)
    codes = np.unique(y, return_inverse=True)[1]
    sizes = rng.integers(5, 10, len(y))
    matrices = [random_matrix(rng, n, 0.5) for n in sizes]
    x = [np.eye(3)[code] + 0.1 * rng.normal(size=(n, 3)) for code, n in zip(codes, sizes, strict=True)]
    return GraphSet.from_arrays(matrices, x, y)


def numbered(graphs: GraphSet) -> GraphSet:
    """The same graphs, each carrying its number."""
    meta = {"number": np.arange(len(graphs))}
    return GraphSet(graphs._store, graphs.y, graphs.groups, graphs.node_names, meta)


def without_time(history: pd.DataFrame) -> pd.DataFrame:
    return history.drop(columns="seconds")


def global_states() -> list[Any]:
    """The states of every global random generator, comparable with ==."""
    return [torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()]  # noqa: NPY002


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Numbers of the graphs put into batches with a gradient ("trained") and without.

    The latter are "renewed" where batch statistics are computed from them, else "scored".
    """
    seen: dict[str, list[int]] = {"trained": [], "scored": [], "renewed": []}
    batches, renew = TrainingLoop.batches, TrainingLoop._renew
    without = "scored"

    def renewing(loop: TrainingLoop, data: Any, positions: Any) -> None:
        nonlocal without
        without = "renewed"
        renew(loop, data, positions)
        without = "scored"

    def spy(loop: TrainingLoop, data: Any, positions: Any) -> Any:
        kind = "trained" if torch.is_grad_enabled() else without
        for step in positions:
            for one, at in zip(data, step, strict=True):
                seen[kind] += one.graphs.meta["number"][one.rows[at]].tolist()
        return batches(loop, data, positions)

    monkeypatch.setattr(TrainingLoop, "batches", spy)
    monkeypatch.setattr(TrainingLoop, "_renew", renewing)
    return seen


# ------------------------------------------------------ scikit-learn's contract


@pytest.mark.parametrize("name", PARAMS)
def test_the_constructor_only_stores(name: str) -> None:
    nonsense = f"nonsense for {name}"
    model = CIGNNClassifier(**{name: nonsense})
    assert getattr(model, name) is nonsense and model.get_params()[name] is nonsense
    assert clone(model).get_params() == model.get_params()
    assert CIGNNClassifier().set_params(**{name: nonsense}).get_params() == model.get_params()
    assert set(vars(model)) == set(PARAMS)


def test_fit_returns_the_estimator_and_leaves_the_parameters_alone(graphs: GraphSet) -> None:
    model = tiny(epochs=1)
    before = model.get_params()
    assert model.fit(graphs) is model
    assert model.get_params() == before


def test_what_fit_learns_ends_in_an_underscore(fitted: CIGNNClassifier) -> None:
    learned = set(vars(fitted)) - set(PARAMS)
    assert learned >= {"classes_", "network_", "settings_", "history_", "best_epoch_", "n_features_in_"}
    assert all(name.endswith("_") and not name.startswith("_") for name in learned)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "explain"])
def test_before_fit_nothing_can_be_asked(graphs: GraphSet, method: str) -> None:
    with pytest.raises(NotFittedError, match="CIGNNClassifier is not fitted yet; call fit first"):
        getattr(CIGNNClassifier(), method)(graphs)


def test_cross_validation_learns_on_the_folds_it_is_given() -> None:
    graphs = easy_graphs(np.arange(60) % 2)
    assert cross_val_score(tiny(**QUICK), graphs, graphs.y, cv=3).mean() >= 0.75  # chance: 0.5 ± 0.06
    shuffled = graphs.with_y(np.random.default_rng(0).permutation(graphs.y))
    assert cross_val_score(tiny(**QUICK), shuffled, shuffled.y, cv=3).mean() < 0.8
    own, given = (cross_val_score(tiny(), shuffled, y, cv=KFold(2)) for y in (None, shuffled.y))
    np.testing.assert_array_equal(own, given)


@pytest.mark.parametrize("start", [None, {"dropout": 0.1}, CIGNNSettings(dropout=0.1)], ids=str)
def test_grid_search_tries_each_value_and_refits_the_best(graphs: GraphSet, start: Any) -> None:
    search = GridSearchCV(
        CIGNNClassifier(epochs=1, settings=start, random_state=0),
        {"settings__sparsity_weight": [0.0, 2.0], "settings__n_causal": np.array([4, 6])},
        cv=2,
    )
    search.fit(graphs, graphs.y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_.settings_
    chosen = {name.removeprefix("settings__"): value for name, value in search.best_params_.items()}
    assert {name: best[name] for name in chosen} == chosen
    expected = PRESETS["motif"].dropout if start is None else 0.1
    assert best["dropout"] == expected, "what is not searched stays"
    assert search.predict_proba(graphs).shape == (60, 2)


def test_pipelines_pass_graph_sets_on(graphs: GraphSet) -> None:
    pipe = make_pipeline(FunctionTransformer(lambda graphs: graphs), tiny(epochs=1))
    pipe.set_params(cignnclassifier__settings__sparsity_weight=0.7).fit(graphs, graphs.y)
    assert pipe[-1].settings_["sparsity_weight"] == 0.7
    direct = tiny(epochs=1, sparsity_weight=0.7).fit(graphs)
    np.testing.assert_array_equal(pipe.predict_proba(graphs), direct.predict_proba(graphs))
    assert cross_val_score(pipe, graphs, graphs.y, cv=2).shape == (2,)


def test_labels_come_from_the_graphs_unless_given(graphs: GraphSet) -> None:
    own = tiny().fit(graphs)
    given = tiny().fit(graphs.with_y(None), graphs.y.tolist())
    overruled = tiny().fit(graphs.with_y(1 - graphs.y), pd.Series(graphs.y, index=np.arange(60) + 7))
    for other in (given, overruled):
        pd.testing.assert_frame_equal(without_time(own.history_), without_time(other.history_))
    flipped = tiny().fit(graphs.with_y(1 - graphs.y))
    assert not np.allclose(flipped.history_["classification"], own.history_["classification"])


def test_a_failed_fit_leaves_the_fitted_model_as_it_was(graphs: GraphSet) -> None:
    model = tiny().fit(graphs)
    before = model.predict(graphs)
    with pytest.raises(ValueError, match="keep"):
        model.set_params(settings__keep=1.7).fit(graphs, np.array(["a", "b", "c"] * 20))
    np.testing.assert_array_equal(model.predict(graphs), before)


def test_a_fitted_model_can_be_copied_and_sent_to_another_process(
    graphs: GraphSet, fitted: CIGNNClassifier
) -> None:
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.predict_proba(graphs), fitted.predict_proba(graphs))


# ---------------------------------------------------------------- labels, classes


LABELS = {
    "zero and one": np.arange(60) % 2,
    "minus and plus one": np.arange(60) % 2 * 2 - 1,
    "strings": np.array(["patient", "control"])[np.arange(60) % 2],
    "objects": np.array(["patient", "control"], dtype=object)[np.arange(60) % 2],
    "bools": np.arange(60) % 2 == 1,
    "whole floats": np.array([1.0, 2.0])[np.arange(60) % 2],
    "three classes": np.array([30, 10, 20])[np.arange(60) % 3],
    "imbalance": (np.arange(60) % 10 == 0).astype(int),
}


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS.keys())
def test_labels_of_any_kind_are_learnt(y: np.ndarray) -> None:
    graphs = easy_graphs(y)
    more = {"epochs": 40, "learning_rate": 0.01, "rate_decay": 0.0, "warm_up": 0.7}
    model = tiny(**QUICK | more).fit(graphs)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert model.classes_.dtype == y.dtype
    proba, prediction = model.predict_proba(graphs), model.predict(graphs)
    assert proba.shape == (60, len(model.classes_)) and proba.min() >= 0
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(prediction, model.classes_[proba.argmax(1)])
    assert recall_score(y, prediction, average="macro") >= 0.95
    assert model.score(graphs, y) == np.mean(prediction == y)


@pytest.fixture(scope="module")
def rare() -> GraphSet:
    """Graphs of two classes, 9 to 1, that nothing tells apart."""
    graphs = make_ba2motifs(100, random_state=1)
    return graphs[graphs.y == 0].with_y(np.where(np.arange(50) % 10 == 3, "rare", "common"))


def chance_of_rare(rare: GraphSet, class_weight: Any) -> float:
    flat = {"classifier": "gcn", "readout": "mean", "mask": "stochastic", "keep_anneal": 1.0}
    model = tiny(**QUICK | {"epochs": 20} | flat, class_weight=class_weight).fit(rare)
    return model.predict_proba(rare)[:, list(model.classes_).index("rare")].mean()


def test_class_weights_move_the_decision(rare: GraphSet) -> None:
    plain = chance_of_rare(rare, None)
    assert plain < 0.3
    for class_weight in ("balanced", {"common": 1.0, "rare": 9.0}):
        assert abs(chance_of_rare(rare, class_weight) - 0.5) < 0.15
    assert chance_of_rare(rare, {"common": 9.0, "rare": 1.0}) < plain
    assert chance_of_rare(rare, {"common": 1.0, "rare": 1.0}) == plain


BAD_CLASS_WEIGHTS = {
    "unknown word": ("heavy", ["None", '"balanced"', "dict", "'heavy'"]),
    "unknown class": ({"healthy": 2.0}, ["rare", "common"]),
    "no dict": ([1.0, 2.0], ["dict", "[1.0, 2.0]"]),
    "zero": ({"common": 0.0, "rare": 1.0}, ["positive", "0.0"]),
    "negative": ({"common": 1.0, "rare": -2.0}, ["positive", "-2.0"]),
    "no number": ({"common": 1.0, "rare": None}, ["positive", "None"]),
    "word": ({"common": 1.0, "rare": "much"}, ["positive", "'much'"]),
    "number": (2.0, ["dict", "2.0"]),
}


@pytest.mark.parametrize("class_weight", ["balanced", {"common": 1.0, "rare": 4.0}])
def test_class_weights_choose_the_epoch_too(rare: GraphSet, class_weight: Any) -> None:
    few = rare[np.flatnonzero(rare.y == "rare").tolist() + list(range(20))]  # not the training set's shares
    model = tiny(**QUICK | {"learning_rate": 0.1}, class_weight=class_weight).fit(rare, eval_set=few)
    cost = {"common": 1.0, "rare": np.mean(few.y == "common") / np.mean(few.y == "rare")}
    counts = np.array([(cost if class_weight == "balanced" else class_weight)[label] for label in few.y])
    row = model.history_.set_index("epoch").loc[model.best_epoch_]
    right = model.predict(few) == few.y
    assert row["validation_accuracy"] == pytest.approx(np.average(right, weights=counts), abs=1e-6)
    if class_weight == "balanced":
        assert row["validation_accuracy"] == pytest.approx(balanced_accuracy_score(few.y, model.predict(few)))
    proba = model.predict_proba(few)[np.arange(len(few)), np.searchsorted(model.classes_, few.y)]
    assert row["validation_loss"] == pytest.approx(np.average(-np.log(proba), weights=counts), rel=1e-4)
    assert model.best_epoch_ == best_row(eligible(model))


def test_an_eval_set_without_a_class_can_be_balanced(rare: GraphSet) -> None:
    model = tiny(class_weight="balanced").fit(rare, eval_set=rare[rare.y == "common"])
    assert model.history_[SCORES].notna().all(axis=None)


@pytest.mark.parametrize(("class_weight", "words"), BAD_CLASS_WEIGHTS.values(), ids=BAD_CLASS_WEIGHTS.keys())
def test_bad_class_weights_are_refused(rare: GraphSet, class_weight: Any, words: list[str]) -> None:
    with pytest.raises(ValueError, match="class_weight") as caught:
        tiny(class_weight=class_weight).fit(rare)
    assert all(word in str(caught.value) for word in words), str(caught.value)


# -------------------------------------------------------- history and validation


def test_history_keeps_every_named_term_of_every_epoch(graphs: GraphSet) -> None:
    settings = {"reconstruction": 0.5, "mask": "stochastic", "warm_up": 0.4}
    settings |= {"cut_weight": 0.5, "rest_weight": 0.5, "logit_weight": 0.5}
    model = tiny(generative_epochs=2, epochs=7, **settings).fit(graphs)
    history = model.history_
    assert history["epoch"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    stages = ["generative"] * 2 + ["warm-up"] * 2 + ["classification"] * 3
    assert history["stage"].tolist() == stages
    encoded = ["features", "adjacency", "kl", "independence", "causal", "hsic", "skipped_terms"]
    masked = ["edges", "logits", "rest", "consistency", "validation_cut_accuracy"]
    terms = {
        ("generative", "warm-up", "classification"): ["loss", *SCORES, "seconds"],
        ("generative", "classification"): encoded,
        ("warm-up", "classification"): ["classification"],
        ("classification",): masked,
    }
    assert sorted(sum(terms.values(), ["epoch", "stage"])) == sorted(history)
    for some, names in terms.items():
        there = history["stage"].isin(some)
        assert np.isfinite(history.loc[there, names].to_numpy(float)).all()
        assert history.loc[~there, names].isna().all(axis=None)
    assert (history.loc[history["hsic"].notna(), ["kl", "hsic", "features", "adjacency"]] >= 0).all(axis=None)


def test_the_loss_is_the_weighted_sum_of_its_terms(graphs: GraphSet) -> None:
    weights = {"reconstruction": 0.3, "sparsity_weight": 2.0, "causal_weight": 0.1, "rest_weight": 0.7}
    weights |= {"cut_weight": 0.6, "logit_weight": 0.2}
    model = tiny(generative_epochs=1, mask="stochastic", **weights).fit(graphs)
    first, second = model.history_.iloc[0], model.history_.iloc[-1]
    vae, causal = ["features", "adjacency", "kl"], ["independence", "causal"]
    assert first["loss"] == pytest.approx(first[vae].sum() + 0.1 * first[causal].sum(), rel=1e-4)
    expected = second["classification"] + 2 * second["edges"] + 0.7 * second["rest"] + 0.3 * second[vae].sum()
    expected += 0.6 * second["consistency"] + 0.2 * second["logits"]
    assert second["loss"] == pytest.approx(expected + 0.1 * second[causal].sum(), rel=1e-4)


def best_row(history: pd.DataFrame) -> int:
    """The last of the rows with the highest accuracy and, among these, the lowest loss and price.

    Where there is an accuracy on cut graphs, it is added, and a tenth of the price is taken off.
    """
    cost, accuracy = history["validation_price"] + history["validation_loss"], history["validation_accuracy"]
    if "validation_cut_accuracy" in history:
        accuracy = accuracy + history["validation_cut_accuracy"] - 0.1 * history["validation_price"]
    keys = list(zip(accuracy, -cost, history["epoch"], strict=True))
    return max(keys)[-1]


def eligible(model: CIGNNClassifier) -> pd.DataFrame:
    """The epochs that may be kept: those of the last stage, once the free share of edges has fallen.

    Where the learning rate falls, too, the last fifth.
    """
    last = model.history_[model.history_["stage"] == "classification"]
    falls = math.ceil(model.settings_["keep_anneal"] * len(last))
    settled = math.floor(0.8 * len(last)) if model.settings_["rate_decay"] else 0
    return last[max(min(falls, len(last) - 1), settled) :]


def test_the_kept_epoch_is_the_best_on_the_validation_graphs(graphs: GraphSet) -> None:
    train, held_out = graphs[:40], graphs[40:]
    kept = []
    for seed in range(4):
        jumpy = QUICK | {"learning_rate": 0.1, "keep_anneal": 0.0, "rate_decay": 0.0, "random_state": seed}
        model = tiny(**jumpy).fit(train, eval_set=held_out)
        kept.append(model.best_epoch_)
        assert model.best_epoch_ == best_row(eligible(model))
        row = model.history_.set_index("epoch").loc[model.best_epoch_]
        proba = model.predict_proba(held_out)
        assert np.mean(proba.argmax(1) == held_out.y) == pytest.approx(row["validation_accuracy"])
        loss = -np.log(proba[np.arange(len(held_out)), held_out.y]).mean()
        assert loss == pytest.approx(row["validation_loss"], rel=1e-4)
    assert set(kept) != {10}, "the last epoch was the best each time: the test could not fail"


@pytest.mark.parametrize("anneal", [0.5, 1.0])
def test_no_epoch_is_kept_while_the_free_share_still_falls(graphs: GraphSet, anneal: float) -> None:
    settings = {"mask": "stochastic", "keep_anneal": anneal, "learning_rate": 0.1, "rate_decay": 0.0}
    for seed in range(3):
        model = tiny(epochs=6, random_state=seed, **settings).fit(graphs)
        last = model.history_["stage"].eq("classification").sum()
        assert len(eligible(model)) == (last // 2 if anneal < 1 else 1)
        assert model.best_epoch_ == best_row(eligible(model))


def test_no_epoch_of_the_generative_stage_is_kept(graphs: GraphSet) -> None:
    model = tiny(preset="paper", generative_epochs=5, epochs=7).fit(graphs)
    assert model.best_epoch_ == best_row(model.history_[5:])


def test_validation_graphs_are_set_aside_and_never_trained_on(read: dict[str, list[int]]) -> None:
    graphs = numbered(easy_graphs((np.arange(80) % 4 == 0).astype(int)))
    model = tiny(validation_fraction=0.25).fit(graphs)
    trained, scored = set(read["trained"]), set(read["scored"])
    assert not trained & scored and trained | scored == set(range(80))
    assert read["renewed"] and set(read["renewed"]) <= trained, "nor do they reach batch statistics"
    assert len(scored) == 20
    times = np.bincount(read["trained"])[sorted(trained)]
    assert (times >= 3).all(), "each epoch reads each training graph, some twice to fill the last batch"
    assert times.sum() == 3 * 64 and times.max() <= 6
    assert model.training_digest_ == graphs.digest(), "what fit was given, validation graphs included"


def test_the_split_keeps_the_share_of_each_class(read: dict[str, list[int]]) -> None:
    graphs = numbered(easy_graphs((np.arange(80) % 4 == 0).astype(int)))
    splits = set()
    for seed in range(4):
        read["scored"].clear()
        tiny(validation_fraction=0.25, epochs=1, random_state=seed).fit(graphs)
        splits.add(tuple(sorted(set(read["scored"]))))
        assert graphs.y[list(set(read["scored"]))].mean() == pytest.approx(0.25)
    assert len(splits) == 4, "the split goes with the seed"


def test_scans_of_a_subject_are_all_trained_on_or_all_set_aside(read: dict[str, list[int]]) -> None:
    subject = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 2))
    graphs = numbered(easy_graphs((subject % 4 == 0).astype(int)))
    graphs.meta["subject"] = np.array([f"sub-{k}" for k in subject])
    tiny(validation_fraction=0.25).fit(graphs)
    trained, scored = set(read["trained"]), set(read["scored"])
    assert not {subject[i] for i in trained} & {subject[i] for i in scored}
    assert trained | scored == set(range(80)) and len(scored) == 20
    assert graphs.y[list(scored)].mean() == pytest.approx(0.25, abs=0.06)


def test_names_of_subjects_with_one_scan_each_change_nothing(read: dict[str, list[int]]) -> None:
    graphs = numbered(easy_graphs((np.arange(80) % 4 == 0).astype(int)))
    order = []
    for names in (None, np.arange(80)[::-1]):
        read["trained"].clear()
        graphs.meta |= {} if names is None else {"subject": names}
        tiny(epochs=1).fit(graphs)
        order.append(list(read["trained"]))
    assert order[0] == order[1]


def test_subjects_with_graphs_of_both_classes_are_kept_together() -> None:
    subject = np.repeat(np.arange(15), 2).astype(str)
    graphs = make_ba2motifs(30, random_state=0).with_y([0, 1] * 15)
    graphs = GraphSet.from_arrays([g.weights for g in graphs], y=graphs.y, meta={"subject": subject})
    for parts in (
        set_aside(graphs, graphs.y, np.arange(2), 0.2, 0),
        *folds(graphs, graphs.y, np.arange(2), 5, 0),
    ):
        assert sorted(np.concatenate(parts)) == list(range(30))
        assert not set(subject[parts.kept]) & set(subject[parts.held])
        assert set(graphs.y[parts.kept]) == set(graphs.y[parts.held]) == {0, 1}


def test_a_class_of_one_subject_cannot_be_split() -> None:
    graphs = easy_graphs(np.arange(20) % 2)
    graphs.meta["subject"] = np.where(np.arange(20) % 2, "one", np.arange(20).astype(str))
    with pytest.raises(
        ValueError, match="class 1 has only one subject; add subjects, drop the class or pass"
    ):
        tiny().fit(graphs)


def test_labels_of_an_eval_set_are_matched_with_the_classes(graphs: GraphSet) -> None:
    words = np.array(["patient", "control"])  # sorted the other way round
    plain = tiny().fit(graphs[:40], 1 - graphs.y[:40], eval_set=(graphs[40:], 1 - graphs.y[40:]))
    named = tiny().fit(graphs[:40], words[graphs.y[:40]], eval_set=(graphs[40:], words[graphs.y[40:]]))
    pd.testing.assert_frame_equal(without_time(plain.history_), without_time(named.history_))
    accuracy = named.score(graphs[40:], words[graphs.y[40:]])
    assert accuracy == pytest.approx(named.history_["validation_accuracy"][named.best_epoch_ - 1])


def test_an_eval_set_takes_the_place_of_the_split(graphs: GraphSet, read: dict[str, list[int]]) -> None:
    graphs = numbered(graphs)
    model = tiny().fit(graphs[:40], eval_set=graphs[40:])
    assert set(read["trained"]) == set(range(40)) and set(read["scored"]) == set(range(40, 60))
    assert model.training_digest_ == graphs[:40].digest()
    other = tiny().fit(graphs[:40], eval_set=(graphs[40:].with_y(None), graphs.y[40:].tolist()))
    pd.testing.assert_frame_equal(without_time(model.history_), without_time(other.history_))


def test_at_a_fixed_price_validation_labels_choose_the_epoch_and_touch_nothing_else(
    graphs: GraphSet,
) -> None:
    train, held_out = graphs[:40], graphs[40:]
    settings = {"epochs": 6, "cut_weight": 0.5, "pricing": "fixed"}
    honest = tiny(**settings).fit(train, eval_set=held_out)
    garbage = tiny(**settings).fit(train, eval_set=(held_out, 1 - held_out.y))
    by_label = ("validation_accuracy", "validation_cut_accuracy", "validation_loss")
    others = [c for c in honest.history_ if c not in (*by_label, "seconds")]
    pd.testing.assert_frame_equal(honest.history_[others], garbage.history_[others])
    for name in by_label[:2]:
        np.testing.assert_allclose(honest.history_[name], 1 - garbage.history_[name])


def test_a_larger_eval_set_than_training_set_is_fine(graphs: GraphSet) -> None:
    model = tiny().fit(graphs[:8], eval_set=graphs[8:])
    assert len(model.predict(graphs)) == 60


# -------------------------------------------------------------- reproducibility


def test_the_same_seed_gives_the_same_numbers(graphs: GraphSet) -> None:
    torch.manual_seed(1)
    one = tiny().fit(graphs)
    torch.manual_seed(2)
    np.random.seed(3)  # noqa: NPY002
    two = tiny().fit(graphs)
    pd.testing.assert_frame_equal(without_time(one.history_), without_time(two.history_), check_exact=True)
    np.testing.assert_array_equal(one.predict_proba(graphs), two.predict_proba(graphs))
    np.testing.assert_array_equal(one.explain(graphs)[0].weights, two.explain(graphs)[0].weights)


def test_another_seed_gives_other_numbers(graphs: GraphSet) -> None:
    seeds: list[Any] = [0, 1, np.random.RandomState(2), None]
    models = [tiny(random_state=seed).fit(graphs) for seed in seeds]
    assert len({model.history_["loss"].iloc[-1] for model in models}) == len(seeds)


def test_fitting_twice_starts_anew(graphs: GraphSet) -> None:
    model = tiny().fit(graphs)
    first = model.predict_proba(graphs)
    np.testing.assert_array_equal(model.fit(graphs).predict_proba(graphs), first)


def test_global_generators_are_left_alone(graphs: GraphSet) -> None:
    before = global_states()
    model = tiny().fit(graphs)
    assert global_states() == before
    model.predict_proba(graphs)
    model.explain(graphs)
    assert global_states() == before


def test_repeated_questions_get_the_same_answer(graphs: GraphSet, fitted: CIGNNClassifier) -> None:
    np.testing.assert_array_equal(fitted.predict_proba(graphs), fitted.predict_proba(graphs))
    one, two = fitted.explain(graphs), fitted.explain(graphs)
    for mine, theirs in zip(one.edge_weights, two.edge_weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder": "gin"},
        {"encoder": "gcn"},
        {"encoder": "gat", "classifier": "gat"},
        {"readout": "max"},
        {"encoder_density": 0.2},
    ],
    ids=["gin", "gcn", "gat", "max", "density"],
)
def test_a_prediction_does_not_depend_on_its_batch_mates(settings: dict[str, Any]) -> None:
    graphs = easy_graphs(np.arange(40) % 2, seed=1)
    assert len(set(graphs.n_nodes)) > 3
    model = tiny(**QUICK | {"epochs": 4} | settings).fit(graphs)
    together, explained = model.predict_proba(graphs), model.explain(graphs)
    assert np.ptp(together[:, 0]) > 0.01
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_allclose(model.predict_proba(graphs[order]), together[order], atol=1e-5)
    for i in range(40):
        np.testing.assert_allclose(model.predict_proba(graphs[[i]])[0], together[i], atol=1e-5)
        alone = model.explain(graphs[[i]])[0].weights
        np.testing.assert_allclose(alone, explained[i].weights, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_causal": 200},
        {"encoder": "gcn"},
        {"separate_products": False},
        {"preset": "paper", "generative_epochs": 1},
        {"aligned": True},
        {"aligned": True, "encoder_hidden": (8,), "n_causal": 40, "n_estimators": 1},
        {"aligned": True, "node_vectors": False},
        {"aligned": True, "separate_products": False},
        {"aligned": True, "readout": "mean"},
    ],
    ids=str,
)
def test_an_explanation_is_what_the_whole_network_computes(settings: dict[str, Any]) -> None:
    """Explaining leaves out what only training needs, and that only."""
    settings = dict(settings)
    aligned = settings.pop("aligned", False)
    y = np.arange(40) % 2
    rng = np.random.default_rng(0)
    matrices = np.stack([random_matrix(rng, 12, 0.6) for _ in y]) if aligned else None
    graphs = easy_graphs(y) if matrices is None else GraphSet.from_arrays(matrices, y=y, aligned=True)
    model = ci_gnn(epochs=3, random_state=0, **settings).fit(graphs)
    with torch.no_grad():
        out = model.network_(graphs.batch())
    explanations = model.explain(graphs)
    np.testing.assert_array_equal(explanations.predictions, out.logits.argmax(1))
    for i, weights in enumerate(explanations.edge_weights):
        source, target = graphs.edges(i).T
        np.testing.assert_allclose(weights, out.edge_weights[i, source, target], atol=2e-5)


def test_no_graphs_give_no_predictions(graphs: GraphSet, fitted: CIGNNClassifier) -> None:
    assert fitted.predict_proba(graphs[[]]).shape == (0, 2)
    assert fitted.predict(graphs[[]]).shape == (0,) and len(fitted.explain(graphs[[]])) == 0


# ---------------------------------------------------------------------- presets


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_settles_every_parameter_left_to_it(preset: str) -> None:
    y = np.arange(4) % 2
    graphs = GraphSet.from_arrays(np.ones((4, 3, 3)), y=y, aligned=preset == "connectome")
    assert list(PRESETS[preset]) == list(CIGNNSettings().get_params()), "complete"
    settings = CIGNNClassifier(preset)._settings(graphs)
    assert set(settings) == {*PRESETS[preset], "preset", "epochs", "n_estimators", "n_nodes"}
    assert settings["preset"] == preset and "auto" not in settings.values()
    own = CIGNNClassifier(preset, settings={"n_causal": 3, "readout": "max"})._settings(graphs)
    assert own == settings | {"n_causal": 3, "readout": "max"}, "the rest stays the preset's"


def test_the_paper_preset_is_the_paper(graphs: GraphSet) -> None:
    settings = CIGNNClassifier("paper")._settings(graphs)
    expected = {
        "n_causal": 56,
        "n_noncausal": 8,
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "dropout": 0.5,
        "batch_size": 32,
        "causal_weight": 1e-3,
        "epochs": 450,
        "generative_epochs": 150,
        "renyi_order": 1.01,
        "train_encoder": False,
        "mask": "soft",
        "encoder": "gcn",
        "causal_effect": "cmi",
        "independence": True,
        "ema_decay": 0.0,
        "encoder_density": None,
    }
    assert {name: settings[name] for name in expected} == expected
    network = ci_gnn(preset="paper", epochs=2, generative_epochs=1, random_state=0).fit(graphs).network_
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert shapes["encoder.layers.0.linear.weight"] == (128, 10)
    assert shapes["encoder.mean.linear.weight"] == shapes["encoder.log_std.linear.weight"] == (64, 128)
    assert shapes["decoders.features.0.weight"] == (16, 64)
    assert [layer.second.out_features for layer in network.classifier.layers] == [128, 128, 128]
    assert [linear.out_features for linear in network.classifier.head] == [64, 32, 2]


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Which parts of the network had their parameters changed in which stage."""
    changed: dict[str, set[str]] = {}
    train_epoch = TrainingLoop._train_epoch

    def spy(loop: TrainingLoop, *rest: Any) -> list[dict[str, float]]:
        before = {name: value.clone() for name, value in loop.stack.tensors().items()}
        means = train_epoch(loop, *rest)
        now = loop.stack.tensors()
        names = [name for name, _ in loop.network.named_parameters()]
        parts = {name.split(".")[0] for name in names if not torch.equal(now[name], before[name])}
        changed.setdefault(loop.stages[0].name, set()).update(parts)
        return means

    monkeypatch.setattr(TrainingLoop, "_train_epoch", spy)
    return changed


def test_the_paper_preset_trains_one_half_in_each_stage(graphs: GraphSet, moved: dict[str, set[str]]) -> None:
    model = tiny(preset="paper", generative_epochs=2, epochs=5).fit(graphs)
    assert model.history_["stage"].tolist() == ["generative"] * 2 + ["classification"] * 3
    assert moved == {"generative": {"encoder", "decoders"}, "classification": {"subgraph", "classifier"}}


def test_the_motif_preset_trains_the_encoder_beside_the_classifier(
    graphs: GraphSet, moved: dict[str, set[str]]
) -> None:
    tiny().fit(graphs)
    assert moved["classification"] >= {"encoder", "subgraph", "classifier"}


def test_a_frozen_encoder_is_the_same_however_long_the_second_stage(graphs: GraphSet) -> None:
    short, long = (
        tiny(preset="paper", generative_epochs=2, epochs=epochs, learning_rate=0.01, choose_by="loss")
        .fit(graphs)
        .network_
        for epochs in (3, 8)
    )
    for part in ("encoder", "decoders"):
        mine, theirs = getattr(short, part).state_dict(), getattr(long, part).state_dict()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    mine, theirs = short.classifier.state_dict(), long.classifier.state_dict()
    assert not all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
@pytest.mark.parametrize("encoder", ["gcn", "gin"])
def test_a_frozen_encoder_stands_still_with_its_batch_statistics(
    graphs: GraphSet, monkeypatch: pytest.MonkeyPatch, encoder: str, ema_decay: float
) -> None:
    states: list[dict[str, torch.Tensor]] = []
    evaluate = TrainingLoop._evaluate

    def spy(loop: TrainingLoop) -> list[dict[str, float]]:
        state = loop.stack.state_of(0, average=True)
        states.append({k.removeprefix("encoder."): v for k, v in state.items() if k.startswith("encoder.")})
        return evaluate(loop)

    monkeypatch.setattr(TrainingLoop, "_evaluate", spy)
    settings = {"generative_epochs": 2, "epochs": 5, "encoder": encoder, "ema_decay": ema_decay}
    network = tiny(preset="paper", **settings).fit(graphs).network_
    for state in [*states[2:], network.encoder.state_dict()]:
        assert all(torch.equal(state[name], states[1][name]) for name in state)
    assert not all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_weight_of_zero_switches_a_term_off(graphs: GraphSet, moved: dict[str, set[str]]) -> None:
    tiny(reconstruction=0.0, causal_weight=0.0).fit(graphs)
    assert "decoders" not in moved["classification"]


# ---------------------------------------------------------------------- choices


@pytest.fixture(scope="module")
def few() -> GraphSet:
    return make_spurious_motifs(42, test_fraction=0.0, random_state=0)


@pytest.mark.parametrize("independence", [True, False])
@pytest.mark.parametrize("effect", ["cmi", "cmi_prediction", "mi", None])
def test_every_causal_effect_trains(few: GraphSet, effect: str | None, independence: bool) -> None:
    model = tiny(causal_effect=effect, independence=independence, generative_epochs=1, epochs=2).fit(few)
    history = model.history_
    assert ("causal" in history) == (effect is not None)
    assert ("independence" in history) == independence
    assert np.isfinite(history[["loss", "hsic"]].to_numpy(float)).all()


def test_causal_effects_differ(few: GraphSet) -> None:
    effects = ("cmi", "cmi_prediction", "mi")
    causal = [tiny(causal_effect=e, epochs=1).fit(few).history_["causal"].iloc[0] for e in effects]
    assert len(set(causal)) == 3


@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
@pytest.mark.parametrize("classifier", ["gcn", "gat", "gin"])
def test_every_classifier_and_readout_trains(few: GraphSet, classifier: str, readout: str) -> None:
    model = tiny(classifier=classifier, readout=readout, epochs=2).fit(few)
    assert np.isfinite(model.history_["loss"]).all()
    assert np.isfinite(model.predict_proba(few)).all()


@pytest.mark.parametrize("mask", ["stochastic", "soft"])
@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("encoder", ["gcn", "gat", "gin"])
def test_every_encoder_and_mask_trains(encoder: str, separate: bool, mask: str) -> None:
    graphs = easy_graphs(np.arange(40) % 2)
    model = tiny(encoder=encoder, separate_products=separate, mask=mask, epochs=2).fit(graphs)
    assert np.isfinite(model.history_["loss"]).all()
    assert ("edges" in model.history_) == (mask == "stochastic")
    weights = np.concatenate(model.explain(graphs).edge_weights)
    assert weights.min() >= 0 and weights.max() <= 1 and np.ptp(weights) > 0


UNUSUAL = {
    "one graph a batch": {"batch_size": 1, "epochs": 1},
    "one batch": {"batch_size": 1000},
    "no hidden layers": {"encoder_hidden": (), "classifier_hidden": (), "head_hidden": ()},
    "numpy numbers": {"n_causal": np.int64(4), "learning_rate": np.float32(0.01), "epochs": np.int32(2)},
    "numpy widths": {"encoder_hidden": np.array([4, 4])},
    "no ema_decay": {"ema_decay": 0.0},
    "order two": {"renyi_order": 2},
    "few edges for the encoder": {"encoder_density": 0.1},
    "sigmoid encoder": {"encoder_activation": "sigmoid"},
    "cpu": {"device": "cpu"},
}


@pytest.mark.parametrize("settings", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_unusual_settings_train(few: GraphSet, settings: dict[str, Any]) -> None:
    model = tiny(**settings, cut_weight=0.5, rest_weight=0.5).fit(few)
    assert np.isfinite(model.history_[["loss", *SCORES]].to_numpy(float)).all()
    masked = model.history_["stage"] == "classification"
    terms = model.history_.loc[masked, ["hsic", "consistency", "rest"]]
    assert masked.any() and np.isfinite(terms.to_numpy()).all()


def test_graphs_without_edges_are_classified_too() -> None:
    graphs = easy_graphs(np.arange(40) % 2)
    lonely = GraphSet.from_arrays([np.zeros((n, n)) for n in (4, 1)], [np.ones((4, 3)), np.ones((1, 3))])
    model = tiny().fit(graphs)
    assert np.isfinite(model.predict_proba(lonely)).all()
    assert [len(weights) for weights in model.explain(lonely).edge_weights] == [0, 0]


ODD_SETS: dict[str, Callable[[], GraphSet]] = {
    "lone nodes": lambda: GraphSet.from_arrays([np.zeros((1, 1))] * 20, [[[i % 2]] for i in range(20)]),
    "no edges": lambda: GraphSet.from_arrays([np.zeros((3, 3))] * 20),
    "some lone, some not": lambda: GraphSet.from_arrays([np.ones((1 + i % 4,) * 2) for i in range(20)]),
    "an isolated node": lambda: GraphSet.from_arrays([np.pad(np.ones((3, 3)), (0, 1))] * 20),
    "aligned, one node": lambda: GraphSet.from_arrays(np.zeros((20, 1, 1)), aligned=True),
    "aligned, no edges": lambda: GraphSet.from_arrays(np.zeros((20, 4, 4)), aligned=True),
    "aligned, all the same": lambda: GraphSet.from_arrays(np.ones((20, 4, 4)), aligned=True),
    "huge weights": lambda: GraphSet.from_arrays(1e6 * np.ones((20, 4, 4)), aligned=True),
}


@pytest.mark.parametrize("preset", ["auto", "paper"])
@pytest.mark.parametrize("make", ODD_SETS.values(), ids=ODD_SETS.keys())
def test_odd_graphs_are_learnt_from_and_explained(make: Callable[[], GraphSet], preset: str) -> None:
    graphs = make().with_y(np.arange(20) % 2)
    for kind in ("gin", "gcn", "gat"):
        model = tiny(preset=preset, encoder=kind, classifier=kind, epochs=2, generative_epochs=1).fit(graphs)
        together = model.predict_proba(graphs)
        assert np.isfinite(together).all() and np.isfinite(model.history_["loss"]).all()
        np.testing.assert_allclose(model.predict_proba(graphs[[3]]), together[[3]], atol=1e-5)
        explained = model.explain(graphs)
        assert [len(weights) for weights in explained.edge_weights] == graphs.n_edges.tolist()
        assert len(explained.top_edges(1)) == np.count_nonzero(graphs.n_edges)


def test_a_brain_like_set_is_read_with_a_sparse_encoder() -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.normal(size=(40, 12, 12)), 1)
    names = [f"region {i}" for i in range(12)]
    graphs = GraphSet.from_arrays(upper + upper.swapaxes(1, 2), y=np.arange(40) % 2, node_names=names)
    model = tiny().fit(graphs)
    assert 0 < model.settings_["encoder_density"] < 1
    assert model.node_names_ == names
    assert set(model.explain(graphs).top_edges(3)["source"]) <= set(names)


def test_verbose_shows_a_bar_and_silence_is_the_default(
    graphs: GraphSet, capfd: pytest.CaptureFixture[str]
) -> None:
    tiny().fit(graphs)
    assert capfd.readouterr() == ("", "")
    tiny(verbose=1).fit(graphs)
    shown = capfd.readouterr()
    assert "3/3" in shown.err and "validation accuracy" in shown.err and shown.out == ""


def test_the_bar_is_full_where_training_ends_early(
    graphs: GraphSet, capfd: pytest.CaptureFixture[str]
) -> None:
    model = tiny(verbose=1, epochs=90, settings={"patience": 1, "learning_rate": 1e-9, "keep_anneal": 0.0})
    assert len(model.fit(graphs).history_) < 90
    assert "90/90" in capfd.readouterr().err


# ----------------------------------------------------------------------- errors


BAD_SETTINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "preset": ({"preset": "papr"}, ["preset", "'auto'", "'motif'", "'paper'", "'papr'"]),
    "encoder": ({"encoder": "mlp"}, ["encoder", "'gcn'", "'gat'", "'gin'", "'mlp'"]),
    "classifier": ({"classifier": "cnn"}, ["classifier", "'gin'", "'cnn'"]),
    "readout": ({"readout": "median"}, ["readout", "'sum'", "'mean'", "'max'", "'median'"]),
    "activation": ({"encoder_activation": "tanh"}, ["encoder_activation", "'relu'", "'sigmoid'", "'tanh'"]),
    "mask": ({"mask": "hard"}, ["mask", "'stochastic'", "'soft'", "'hard'"]),
    "causal_effect": ({"causal_effect": "cause"}, ["causal_effect", "'cmi'", "'mi'", "None", "'cause'"]),
    "train_encoder": ({"train_encoder": "no"}, ["train_encoder", "True", "False", "'no'"]),
    "independence": ({"independence": "no"}, ["independence", "True", "False", "'no'"]),
    "separate_products": ({"separate_products": "no"}, ["separate_products", "True", "False", "'no'"]),
    "keep": ({"keep": 1.7}, ["keep", "(0, 1)", "1.7"]),
    "keep none": ({"keep": None}, ["keep", "(0, 1)", "None"]),
    "keep_anneal": ({"keep_anneal": -0.1}, ["keep_anneal", "[0, 1]", "-0.1"]),
    "sparsity_weight": ({"sparsity_weight": -1.0}, ["sparsity_weight", "[0, inf)", "-1.0"]),
    "temperature": ({"temperature": 0.0}, ["temperature", "(0, inf)", "0.0"]),
    "order one": ({"renyi_order": 1}, ["order", "positive", "different from 1", "got 1"]),
    "order negative": ({"renyi_order": -2.0}, ["order", "-2.0"]),
    "order word": ({"renyi_order": "high"}, ["order", "'high'"]),
    "epochs": ({"epochs": 0}, ["epochs", "whole number of at least 1", "got 0"]),
    "epochs half": ({"epochs": 2.5}, ["epochs", "whole number", "2.5"]),
    "epochs bool": ({"epochs": True}, ["epochs", "whole number", "True"]),
    "stages": ({"epochs": 5, "generative_epochs": 5}, ["epochs", "exceed generative_epochs", "5 and 5"]),
    "generative": ({"generative_epochs": -1}, ["generative_epochs", "at least 0", "-1"]),
    "dropout": ({"dropout": 1.5}, ["dropout", "[0, 1)", "1.5"]),
    "dropout none": ({"dropout": None}, ["dropout", "[0, 1)", "None"]),
    "ema_decay": ({"ema_decay": 1.0}, ["ema_decay", "[0, 1)", "1.0"]),
    "learning_rate": ({"learning_rate": 0}, ["learning_rate", "(0, inf)", "got 0"]),
    "weight_decay": ({"weight_decay": math.nan}, ["weight_decay", "[0, inf)", "nan"]),
    "causal_weight": ({"causal_weight": "big"}, ["causal_weight", "[0, inf)", "'big'"]),
    "reconstruction": ({"reconstruction": -1}, ["reconstruction", "[0, inf)", "-1"]),
    "density": ({"encoder_density": 0}, ["encoder_density", "(0, 1]", "got 0"]),
    "batch_size": ({"batch_size": 0}, ["batch_size", "whole number of at least 1", "got 0"]),
    "n_causal": ({"n_causal": 0}, ["n_causal", "whole number of at least 1", "got 0"]),
    "n_noncausal": ({"n_noncausal": 1.5}, ["n_noncausal", "whole number", "1.5"]),
    "widths": ({"encoder_hidden": (0,)}, ["encoder_hidden", "positive", "(64, 64)", "(0,)"]),
    "width": ({"classifier_hidden": 64}, ["classifier_hidden", "(64, 64)", "got 64"]),
    "width word": ({"head_hidden": "64"}, ["head_hidden", "(64, 64)", "'64'"]),
    "width fraction": ({"encoder_hidden": (6.7,)}, ["encoder_hidden", "(6.7,)"]),
    "gat width": ({"encoder": "gat", "encoder_hidden": (6,)}, ["GAT", "multiple", "4", "got 6"]),
    "device": ({"device": "tpu"}, ["device", '"auto"', '"cpu"', '"cuda"', "'tpu'"]),
    "device unknown to torch builds": ({"device": "xla"}, ["device", '"auto"', '"cuda"', "'xla'"]),
    "device without float64": ({"device": "mps"}, ["device", '"auto"', '"cuda"', "'mps'"]),
    "device none": ({"device": None}, ["device", '"auto"', "got None"]),
    "device number": ({"device": 3}, ["device", '"auto"', "got 3"]),
    "no such cuda": ({"device": "cuda:99"}, ["device", "cuda:99", 'use device="auto"']),
    "checkpoint": ({"checkpoint": 3}, ["checkpoint", "path", "got 3"]),
    "preset list": ({"preset": ["paper"]}, ["preset", "'paper'", "['paper']"]),
    "encoder list": ({"encoder": ["gin"]}, ["encoder", "'gcn'", "['gin']"]),
    "readout none": ({"readout": None}, ["readout", "'sum'", "got None"]),
    "readout dict": ({"readout": {}}, ["readout", "'sum'", "got {}"]),
    "mask array": ({"mask": np.ones(2)}, ["mask", "'soft'", "array"]),
    "independence array": ({"independence": np.ones(2)}, ["independence", "True", "array"]),
    "causal_effect list": ({"causal_effect": ["mi"]}, ["causal_effect", "'mi'", "['mi']"]),
    "validation word": ({"validation_fraction": "x"}, ["validation_fraction", "(0, 1)", "'x'"]),
    "validation none": ({"validation_fraction": None}, ["validation_fraction", "(0, 1)", "None"]),
    "validation list": ({"validation_fraction": [0.1]}, ["validation_fraction", "(0, 1)", "[0.1]"]),
    "validation 0": ({"validation_fraction": 0}, ["validation_fraction", "(0, 1)", "got 0"]),
    "validation 1": ({"validation_fraction": 1.0}, ["validation_fraction", "(0, 1)", "1.0"]),
}


@pytest.mark.parametrize(("settings", "words"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_a_bad_setting_is_named_with_what_was_expected(
    graphs: GraphSet, settings: dict[str, Any], words: list[str]
) -> None:
    model = tiny(**settings)
    with pytest.raises(ValueError) as caught:
        model.fit(graphs)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert not hasattr(model, "network_") and not hasattr(model, "classes_")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_is_refused_where_there_is_none(graphs: GraphSet) -> None:
    with pytest.raises(ValueError, match=r'no CUDA device is there; use device="auto"'):
        tiny(device="cuda").fit(graphs)


def with_gap(y: np.ndarray, gap: Any, dtype: Any) -> np.ndarray:
    y = y.astype(dtype)
    y[7] = gap
    return y


BAD_LABELS: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "one class": (np.zeros_like, r"at least two classes, got one class, 0\."),
    "too few": (lambda y: y[:-1], r"one label per graph \(60\), got shape \(59,\)"),
    "a column": (lambda y: y[:, None], r"one label per graph \(60\), got shape \(60, 1\)"),
    "nan": (lambda y: with_gap(y, np.nan, float), "no label for graph 7; drop"),
    "none": (lambda y: with_gap(y, None, object), "no label for graph 7; drop"),
    "continuous": (lambda y: y + 0.3, "class labels, got continuous"),
    "infinite": (lambda y: with_gap(y, np.inf, float), "class labels, got continuous"),
    "mixed": (lambda y: with_gap(y, "x", object), "labels of one kind, got int, str"),
    "one of a class": (lambda y: with_gap(y, 5, int), "class 5 has only one graph"),
}


@pytest.mark.parametrize(("spoil", "words"), BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_bad_labels_are_refused(graphs: GraphSet, spoil: Callable[[np.ndarray], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tiny().fit(graphs, spoil(graphs.y))


def test_graphs_without_labels_are_refused(graphs: GraphSet) -> None:
    with pytest.raises(ValueError, match="carry no labels; pass y"):
        tiny().fit(graphs.with_y(None))


def test_a_single_graph_of_a_class_is_enough_with_an_eval_set(graphs: GraphSet) -> None:
    labels = (np.arange(30) == 4).astype(int)
    assert len(tiny().fit(graphs[:30], labels, eval_set=graphs[30:]).classes_) == 2


@pytest.mark.parametrize("what", [[[0.0, 1.0]], np.zeros((60, 5)), None, pd.DataFrame({"a": [1]})])
def test_only_graph_sets_are_taken(fitted: CIGNNClassifier, what: Any) -> None:
    for ask in (tiny().fit, fitted.predict, fitted.explain):
        words = rf"expected a GraphSet, got {type(what).__name__}; make one with GraphSet\.from_arrays"
        with pytest.raises(TypeError, match=words):
            ask(what)


@pytest.mark.parametrize(
    ("kind", "steps"),
    [("series", r"Connectivity\(\), ConnectomeGraphs\(\)"), ("matrices", r"ConnectomeGraphs\(\)")],
)
def test_a_cohort_is_told_what_makes_graphs_of_it(fitted: CIGNNClassifier, kind: str, steps: str) -> None:
    cohort = make_cohort(8, 5, n_edges=2, data=kind, random_state=0)
    for ask in (tiny().fit, fitted.predict, fitted.explain):
        words = rf"expected a GraphSet, got Cohort; put {steps} before the classifier, as make_connectome_"
        with pytest.raises(TypeError, match=words):
            ask(cohort)


def test_no_graphs_to_learn_from_is_an_error(graphs: GraphSet) -> None:
    with pytest.raises(ValueError, match="there are no graphs"):
        tiny().fit(graphs[[]])
    with pytest.raises(ValueError, match="there are no graphs"):
        tiny().fit(graphs, eval_set=graphs[[]])


def test_other_node_features_are_refused(graphs: GraphSet, fitted: CIGNNClassifier, few: GraphSet) -> None:
    for ask in (fitted.predict, fitted.predict_proba, fitted.explain):
        with pytest.raises(ValueError, match="have 1 node features, CIGNNClassifier expects 10"):
            ask(few)
    with pytest.raises(ValueError, match="have 1 node features, CIGNNClassifier expects 10"):
        tiny().fit(graphs, eval_set=few)


def test_nodes_in_another_order_are_refused() -> None:
    upper = np.triu(np.random.default_rng(0).normal(size=(30, 4, 4)), 1)
    adj, y = upper + upper.swapaxes(1, 2), np.arange(30) % 2
    graphs = GraphSet.from_arrays(adj, y=y, node_names=["a", "b", "c", "d"])
    other = GraphSet.from_arrays(adj, y=y, node_names=["a", "c", "b", "d"])
    model = tiny(epochs=1).fit(graphs)
    for ask in (model.predict, model.explain, lambda g: tiny(epochs=1).fit(graphs, eval_set=g)):
        with pytest.raises(ValueError, match=r"not those .* learnt from .node 1 is 'c', not 'b'.*same order"):
            ask(other)
    assert len(model.predict(GraphSet.from_arrays(adj, aligned=True))) == 30


def test_a_split_that_leaves_too_little_to_learn_from(graphs: GraphSet) -> None:
    assert len(tiny(validation_fraction=0.99).fit(graphs).history_) == 3
    labels = (np.arange(60) < 2).astype(int)
    with pytest.raises(ValueError, match=r"no graph of class .*1.* lower validation_fraction \(0\.9\)"):
        for seed in range(20):
            tiny(validation_fraction=0.9, random_state=seed, epochs=1).fit(graphs, labels)


def test_a_bad_eval_set_is_refused(graphs: GraphSet) -> None:
    with pytest.raises(ValueError, match=r"eval_set has labels that the training graphs lack: \[5\]"):
        tiny().fit(graphs, eval_set=(graphs, with_gap(graphs.y, 5, int)))
    with pytest.raises(ValueError, match="carry no labels"):
        tiny().fit(graphs, eval_set=graphs.with_y(None))
    with pytest.raises(ValueError, match="one label per graph"):
        tiny().fit(graphs, eval_set=(graphs, [0, 1]))
    with pytest.raises(ValueError, match=r"eval_set must be graphs or \(graphs, labels\), got 3 things"):
        tiny().fit(graphs, eval_set=(graphs, graphs.y, graphs.y))
    with pytest.raises(TypeError, match="expected a GraphSet, got list"):
        tiny().fit(graphs, eval_set=[graphs, graphs.y])


# ------------------------------------------------------------ numbers that are none


@pytest.mark.parametrize(("stage", "warm_up"), [("warm-up", 0.4), ("classification", 0.0)])
def test_a_training_that_diverges_says_so(graphs: GraphSet, stage: str, warm_up: float) -> None:
    words = rf"diverged in stage {stage}, epoch \d: .* not finite; lower learning_rate"
    with pytest.raises(FloatingPointError, match=words):
        tiny(learning_rate=1e30, separate_products=False, warm_up=warm_up).fit(graphs)


def spoil_validation(monkeypatch: pytest.MonkeyPatch, bad: set[int]) -> None:
    """Let the validation loss of the epochs in ``bad`` be NaN, as that of a network with a NaN inside is."""
    evaluate, calls = TrainingLoop._evaluate, iter(range(1, 1000))

    def spy(loop: TrainingLoop) -> list[dict[str, float]]:
        spoilt = {"accuracy": 1.0, "loss": math.nan} if next(calls) in bad else {}
        return [scores | spoilt for scores in evaluate(loop)]

    monkeypatch.setattr(TrainingLoop, "_evaluate", spy)


@pytest.mark.parametrize("name", ["ci-gnn", "sib", "dir", "gin"])
def test_an_epoch_without_a_validation_loss_is_never_kept(
    graphs: GraphSet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    more = {"keep_anneal": 0.0, "n_estimators": 1} if name == "ci-gnn" else {}
    model = make_estimator(name, epochs=3, random_state=0, device="cpu", **more)
    with monkeypatch.context() as patch:
        spoil_validation(patch, {1, 3})
        model.fit(graphs)
    assert model.best_epoch_ == 2
    assert "not finite in 2 of 3 epochs, first in epoch 1; these were not kept; lower" in caplog.text
    spoil_validation(monkeypatch, {1, 2, 3})
    words = (
        "validation loss is not finite in any epoch that could be kept, first in epoch 1; lower learning_rate"
    )
    with pytest.raises(FloatingPointError, match=words):
        model.fit(graphs)


class Failing:
    """An `eigh` whose results are NaN in some of its calls."""

    def __init__(self, bad: Callable[[int], bool]) -> None:
        self.bad, self.calls, self.original = bad, 0, torch.linalg.eigh

    def __call__(self, matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        values, vectors = self.original(matrices)
        return (values * math.nan, vectors * math.nan) if self.bad(self.calls) else (values, vectors)


def test_information_that_cannot_be_computed_does_not_end_a_training(
    graphs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 54 graphs: three steps
    settings = {"batch_size": 18, "generative_epochs": 1, "causal_weight": 1.0, "warm_up": 0.0}
    whole = tiny(**settings).fit(graphs)
    assert whole.history_["skipped_terms"].tolist() == [0, 0, 0]
    monkeypatch.setattr(torch.linalg, "eigh", Failing(lambda call: call % 3 == 2))
    model = tiny(**settings).fit(graphs)
    assert model.history_["skipped_terms"].tolist() == [2, 2, 2]  # both terms, one step of each epoch
    assert all(torch.isfinite(value).all() for value in model.network_.state_dict().values())
    terms = model.history_[["loss", "independence", "causal"]]
    assert np.isfinite(terms.to_numpy()).all()
    assert (terms["independence"] > 0).all()
    monkeypatch.setattr(torch.linalg, "eigh", Failing(lambda call: True))
    model = tiny(**settings).fit(graphs)
    assert model.history_["skipped_terms"].tolist() == [6, 6, 6]
    without = tiny(**settings | {"causal_weight": 0.0}).fit(graphs)
    for name, value in without.network_.state_dict().items():
        assert torch.equal(model.network_.state_dict()[name], value)


# ------------------------------------- what would go unnoticed where only scores are looked at


def test_by_default_the_causal_terms_move_the_encoder(graphs: GraphSet) -> None:
    with_terms, without = (tiny(**more).fit(graphs).network_ for more in ({}, {"causal_weight": 0.0}))
    moved = [
        not torch.equal(mine, theirs)
        for mine, theirs in zip(with_terms.encoder.parameters(), without.encoder.parameters(), strict=True)
    ]
    assert all(moved)


@pytest.mark.parametrize("ema_decay", [0.0, 0.5, 0.99])
def test_the_weights_kept_are_the_running_average(
    graphs: GraphSet, monkeypatch: pytest.MonkeyPatch, ema_decay: float
) -> None:
    states: list[dict[str, torch.Tensor]] = []
    step = NetworkStack.step

    def spy(stack: NetworkStack, *args: Any, **rates: Any) -> None:
        if not states:
            states.append(stack.state_of(0))
        step(stack, *args, **rates)
        states.append(stack.state_of(0))

    monkeypatch.setattr(NetworkStack, "step", spy)
    model = tiny(epochs=1, ema_decay=ema_decay, batch_size=3).fit(graphs)
    assert len(states) == 1 + 18
    expected = states[0]
    for number, state in enumerate(states[1:], 1):
        share = min(ema_decay, number / (number + WARM_UP))
        expected = {name: share * value + (1 - share) * state[name] for name, value in expected.items()}
    renewed = NodeNorm.RUNNING if ema_decay else ()
    for name, value in model.network_.state_dict().items():
        if not name.endswith(renewed):
            torch.testing.assert_close(value, expected[name])
    kept = model.network_.state_dict()
    assert all(torch.equal(kept[name], v) for name, v in states[-1].items()) == (ema_decay == 0)


@pytest.mark.parametrize("number", [1, 2])
def test_batch_statistics_are_those_of_the_averaged_weights(graphs: GraphSet, number: int) -> None:
    running = {"epochs": 3, "learning_rate": 0.05, "dropout": 0.0, "random_state": 0, "device": "cpu"}
    models = [GNNClassifier("gin", hidden=(8, 8), **running) for _ in range(number)]
    fit_together([Fit(model, graphs) for model in models])
    for model in models:
        network = copy.deepcopy(model.network_)
        kept = {name: value.clone() for name, value in network.named_buffers() if name.endswith("mean")}
        network.train()
        for norm in (module for module in network.modules() if isinstance(module, NodeNorm)):
            norm.momentum = 1.0
        network(graphs.batch())
        spread = dict(network.named_buffers())
        for name, value in kept.items():
            deviation = spread[name.replace("mean", "var")].sqrt()
            # a few batches are not all graphs; those of the weights on the way are several deviations off
            assert ((spread[name] - value).abs() / deviation).mean() < 0.3, name


@pytest.mark.parametrize("name", ["ci-gnn", "sib", "dir", "gin"])
def test_by_default_what_is_kept_is_an_average(graphs: GraphSet, name: str) -> None:
    usual, plain = (
        make_estimator(name, epochs=1, random_state=0, device="cpu", **more).fit(graphs).network_
        for more in ({}, {"ema_decay": 0.0})
    )
    assert not all(map(torch.equal, usual.parameters(), plain.parameters()))


def test_every_member_has_validation_graphs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, held = TrainingLoop._evaluate, []

    def spy(loop: TrainingLoop) -> list[dict[str, float]]:
        for data in (one.validation for one in loop.members):
            held.append(frozenset(data.graphs.meta["number"][data.rows].tolist()))
        return evaluate(loop)

    monkeypatch.setattr(TrainingLoop, "_evaluate", spy)
    graphs = numbered(easy_graphs(np.arange(60) % 2))
    tiny(n_estimators=3, epochs=1, validation_fraction=0.2).fit(graphs)
    assert len(held) == len(set(held)) == 3
    held.clear()
    tiny(n_estimators=3, epochs=1).fit(graphs[:40], eval_set=graphs[40:])
    assert set(held) == {frozenset(range(40, 60))}


def total_loss(graphs: GraphSet, **more: Any) -> dict[str, float]:
    """What one step of the last stage sums up, in a network whose predictions explain all of the labels."""
    one = tiny(**more, mask_by="pairs", batch_size=20)._plan(graphs[:20], None, graphs[20:]).trainings[0]
    one.network.label_entropy.fill_(100.0)
    torch.nn.init.constant_(one.network.subgraph.out.bias, 3.5)  # some logits are beyond 3
    loop = TrainingLoop([one], None)
    loop.begin(len(one.stages) - 1)
    (losses,) = loop._train_epoch(0, 0)
    return losses


def test_the_rest_counts_by_its_weight(graphs: GraphSet) -> None:
    once, thrice = total_loss(graphs, rest_weight=1.0), total_loss(graphs, rest_weight=3.0)
    assert once["rest"] == thrice["rest"] != 0
    assert thrice["loss"] - once["loss"] == pytest.approx(2 * once["rest"], rel=1e-4)
    assert "rest" not in total_loss(graphs, rest_weight=0.0)
    assert "rest" in total_loss(graphs)


def test_every_weight_of_the_loss_counts(graphs: GraphSet) -> None:
    terms = {"sparsity_weight": ["edges"], "reconstruction": ["features", "adjacency", "kl"]}
    terms |= {"causal_weight": ["independence", "causal"], "cut_weight": ["consistency"]}
    terms |= {"logit_weight": ["logits"]}
    for setting, names in terms.items():
        one, other = (total_loss(graphs, **{setting: weight}) for weight in (1.0, 3.0))
        expected = 2 * sum(one[name] for name in names)
        assert abs(expected) > 1e-3, setting
        assert other["loss"] - one["loss"] == pytest.approx(expected, rel=1e-3), setting
