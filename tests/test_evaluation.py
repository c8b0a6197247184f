"""What must hold for the scores: each against an example worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

from cignn import Explanations, GraphSet
from cignn.evaluation import (
    classification_scores,
    explanation_gap,
    explanation_roc_auc,
    explanation_roc_auc_overall,
    positive_class,
    precision_at_k,
)
from cignn.evaluation.classification import code, weighted_scores


def path_graph(weights: list[float], truth: list[int]) -> tuple[GraphSet, list[float]]:
    """A path whose i-th edge has weight i and truth i, as a set of one graph."""
    n = len(weights) + 1
    at = np.arange(len(weights))
    adj, true = np.zeros((n, n)), np.zeros((n, n), bool)
    adj[at, at + 1] = adj[at + 1, at] = 1
    true[at, at + 1] = np.array(truth, bool)
    return GraphSet.from_arrays([adj], edge_truth=[true]), weights


def explained(weights: list[float], truth: list[int]) -> Explanations:
    graphs, edge_weights = path_graph(weights, truth)
    return Explanations(graphs, [np.array(edge_weights)])


RANKINGS = {
    #  weights, truth, area, precision among as many edges as are true
    "perfect": ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], 1.0, 1.0),
    "inverted": ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], 0.0, 0.0),
    "one of two": ([0.9, 0.2, 0.8, 0.1], [1, 1, 0, 0], 3 / 4, 1 / 2),
    "constant": ([0.5] * 5, [1, 0, 0, 0, 1], 1 / 2, 2 / 5),
    "all zero": ([0.0] * 4, [1, 0, 0, 0], 1 / 2, 1 / 4),
    # pairs (true, false): 0.9 beats 0.5 and 0.1, 0.5 ties with 0.5 and beats 0.1
    "tied at the border": ([0.9, 0.5, 0.5, 0.1], [1, 1, 0, 0], 3.5 / 4, (1 + 1 / 2) / 2),
    # of three places one is taken by the top, false, edge; the other two are drawn from three, two true
    "tied over more places": ([0.9, 0.5, 0.5, 0.5, 0.1], [0, 1, 1, 0, 1], (0.5 + 0.5) / 6, (2 * 2 / 3) / 3),
    "a tie that does not matter": ([0.9, 0.1, 0.1, 0.1], [1, 0, 0, 0], 1.0, 1.0),
}


@pytest.mark.parametrize(("weights", "truth", "area", "precision"), RANKINGS.values(), ids=RANKINGS.keys())
def test_rankings_worked_out_by_hand(
    weights: list[float], truth: list[int], area: float, precision: float
) -> None:
    explanations = explained(weights, truth)
    assert explanation_roc_auc(explanations) == pytest.approx([area])
    assert explanation_roc_auc_overall(explanations) == pytest.approx(area)  # of one graph
    assert precision_at_k(explanations) == pytest.approx([precision])
    weights_, truth_ = np.array(weights), np.array(truth, bool)
    gap = weights_[truth_].mean() - weights_[~truth_].mean()
    assert explanation_gap(explanations) == pytest.approx([gap], abs=1e-6)


def test_a_constant_mask_has_no_gap_and_half_the_area() -> None:
    explanations = explained([0.7] * 5, [1, 0, 0, 0, 1])
    assert explanation_gap(explanations) == pytest.approx([0], abs=1e-12)
    assert explanation_roc_auc_overall(explanations) == explanation_roc_auc(explanations)[0] == 0.5


def test_a_gap_tells_the_size_that_an_area_does_not() -> None:
    far, near = explained([1.0, 1.0, 0.0], [1, 1, 0]), explained([0.5001, 0.5001, 0.5], [1, 1, 0])
    assert explanation_roc_auc(far)[0] == explanation_roc_auc(near)[0] == 1
    assert explanation_gap(far)[0] == pytest.approx(1) and 0 < explanation_gap(near)[0] < 1e-3
    assert explanation_gap(explained([0.0, 0.25, 1.0], [1, 1, 0]))[0] == pytest.approx(-0.875)


def test_one_curve_over_all_edges_compares_graphs_that_have_a_true_edge() -> None:
    rng = np.random.default_rng(0)
    truths = [[1, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0]]
    weights = [rng.random(len(truth)).astype(np.float32) for truth in truths]
    sets = [path_graph(list(w), t)[0] for w, t in zip(weights, truths, strict=True)]
    graphs = GraphSet.from_arrays(
        [one[0].weights for one in sets], edge_truth=[one[0].edge_truth for one in sets]
    )
    explanations = Explanations(graphs, weights)
    expected = roc_auc_score(np.concatenate(truths[:2]), np.concatenate(weights[:2]))
    assert explanation_roc_auc_overall(explanations) == pytest.approx(expected)
    # every graph is ranked perfectly, their weights lie apart
    apart = Explanations(graphs[:2], [[0.9, 0.9, 0.8, 0.8], [0.3, 0.2, 0.2, 0.2, 0.2, 0.2]])
    assert explanation_roc_auc(apart).tolist() == [1, 1]
    assert explanation_roc_auc_overall(apart) == pytest.approx((7 * 2 + 5) / 21)
    assert math.isnan(explanation_roc_auc_overall(explanations[[2]]))
    assert math.isnan(explanation_gap(explanations)[2])


def test_the_order_of_equal_edges_does_not_matter() -> None:
    truth = [1, 0, 0, 1, 0, 0]
    scores = [precision_at_k(explained([0.5] * 6, list(np.roll(truth, shift))))[0] for shift in range(6)]
    assert scores == pytest.approx([1 / 3] * 6)


def test_where_there_is_nothing_to_rank_there_is_no_score() -> None:
    nothing_true, all_true = explained([0.1, 0.9], [0, 0]), explained([0.1, 0.9], [1, 1])
    assert math.isnan(explanation_roc_auc(nothing_true)[0]) and math.isnan(precision_at_k(nothing_true)[0])
    assert math.isnan(explanation_roc_auc(all_true)[0]) and precision_at_k(all_true)[0] == 1
    no_edges = Explanations(GraphSet.from_arrays([np.zeros((3, 3))]), [[]])
    truth = [np.zeros((3, 3), bool)]
    assert math.isnan(explanation_roc_auc(no_edges, truth)[0])
    assert math.isnan(precision_at_k(no_edges, truth)[0])


def test_each_graph_has_its_own_score_and_edges_count_once() -> None:
    star = np.zeros((4, 4))
    star[0, 1:] = star[1:, 0] = 1
    true = np.zeros((4, 4), bool)
    true[1, 0] = True  # marked in one direction only
    graphs = GraphSet.from_arrays([star, star[:3, :3]], edge_truth=[true, true[:3, :3]])
    explanations = Explanations(graphs, [[0.6, 0.9, 0.1], [0.8, 0.2]])
    np.testing.assert_allclose(explanation_roc_auc(explanations), [0.5, 1.0])
    np.testing.assert_allclose(precision_at_k(explanations), [0.0, 1.0])
    np.testing.assert_allclose(precision_at_k(explanations[[1, 0]]), [1.0, 0.0])


@pytest.mark.parametrize("score", [explanation_roc_auc, precision_at_k])
def test_a_truth_given_may_mark_one_direction_and_stand_for_all(score: object) -> None:
    star = np.zeros((4, 4))
    star[0, 1:] = star[1:, 0] = 1
    true = np.zeros((4, 4), bool)
    true[0, 2] = True
    explanations = Explanations(GraphSet.from_arrays([star] * 2, aligned=True), [[0.1, 0.9, 0.2]] * 2)
    for truth in (true, true.T, [true, true.T], np.stack([true | true.T] * 2)):
        assert score(explanations, truth).tolist() == [1, 1]  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"truth of graph 1 must be \(4, 4\), got \(3, 3\)"):
        score(explanations, [true, true[:3, :3]])  # type: ignore[operator]


def test_a_truth_given_overrules_the_graphs_own() -> None:
    explanations = explained([0.9, 0.1], [1, 0])
    other = np.zeros((3, 3), bool)
    other[1, 2] = other[2, 1] = True
    assert explanation_roc_auc(explanations)[0] == 1
    assert explanation_roc_auc(explanations, [other])[0] == 0
    assert precision_at_k(explanations, [other])[0] == 0


@pytest.mark.parametrize(
    "score", [explanation_roc_auc, precision_at_k, explanation_gap, explanation_roc_auc_overall]
)
def test_without_truth_there_is_nothing_to_compare_with(score: object) -> None:
    explanations = Explanations(GraphSet.from_arrays([np.eye(3)[::-1]]), [[0.5]])
    with pytest.raises(ValueError, match="carry no edge truth; pass truth"):
        score(explanations)  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"one matrix per graph \(1\), got 2"):
        score(explanations, [np.eye(3)] * 2)  # type: ignore[operator]


# --------------------------------------------------------------- classification


def paper_scores(*args: object, **more: object) -> dict[str, float]:
    scores = classification_scores(*args, **more)  # type: ignore[arg-type]
    return {name: scores[name] for name in ("accuracy", "f1", "mcc")}


def test_scores_of_two_classes_worked_out_by_hand() -> None:
    # 3 true positives, 1 false negative, 2 false positives, 4 true negatives
    y_true = np.array([1] * 4 + [0] * 6)
    y_pred = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    expected = {
        "accuracy": 7 / 10,
        "f1": 2 * 3 / (2 * 3 + 2 + 1),
        "mcc": (3 * 4 - 2 * 1) / math.sqrt((3 + 2) * (3 + 1) * (4 + 2) * (4 + 1)),
    }
    expected |= {"sensitivity": 3 / 4, "specificity": 4 / 6, "balanced_accuracy": (3 / 4 + 4 / 6) / 2}
    assert classification_scores(y_true, y_pred) == pytest.approx(expected)
    words = np.array(["control", "patient"])
    assert classification_scores(words[y_true], words[y_pred]) == pytest.approx(expected)
    assert classification_scores(2 * y_true - 1, 2 * y_pred - 1) == pytest.approx(expected)


def test_scores_of_three_classes_are_means_over_classes() -> None:
    y_true, y_pred = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 2, 2, 1])
    scores = classification_scores(y_true, y_pred)
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["f1"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    # MCC = (c·s − Σ p_k t_k) / √((s² − Σ p_k²)(s² − Σ t_k²)), c right of s
    assert scores["mcc"] == pytest.approx((4 * 6 - 12) / (36 - 12))
    assert scores["sensitivity"] == scores["balanced_accuracy"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    assert scores["specificity"] == pytest.approx((1 + 3 / 4 + 3 / 4) / 3)


def test_perfect_inverted_and_constant_predictions() -> None:
    y = np.array([0, 1, 0, 1])
    assert paper_scores(y, y) == {"accuracy": 1, "f1": 1, "mcc": 1}
    assert paper_scores(y, 1 - y) == {"accuracy": 0, "f1": 0, "mcc": -1}
    assert paper_scores(y, np.zeros(4, int)) == {"accuracy": 0.5, "f1": 0, "mcc": 0}


def test_a_class_that_only_one_side_has_still_counts() -> None:
    assert classification_scores(np.array([0, 0]), np.array([0, 1]))["f1"] == 0
    three = classification_scores(np.array([0, 1, 1]), np.array([0, 1, 2]))
    assert three["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_a_test_set_that_lacks_a_class_is_scored_by_the_classes_there_are() -> None:
    controls = np.zeros(3, int)
    assert paper_scores(controls, controls) == {"accuracy": 1, "f1": 1, "mcc": 0}
    assert paper_scores(controls, controls, classes=[0, 1]) == {"accuracy": 1, "f1": 0, "mcc": 0}
    scores = classification_scores(controls, controls, [0, 1], np.tile([0.9, 0.1], (3, 1)))
    assert scores["specificity"] == 1
    assert all(math.isnan(scores[name]) for name in ("sensitivity", "balanced_accuracy", "roc_auc"))
    two_of_three = classification_scores(np.array([0, 1]), np.array([0, 1]), classes=[0, 1, 2])
    assert two_of_three["f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("patients", "controls", "said"), [("ASD", "HC", "ASD"), (1, 2, "1"), (1, 2, 1), (True, False, True)]
)
def test_the_patients_can_be_named(patients: Any, controls: Any, said: Any) -> None:
    rng = np.random.default_rng(0)
    ill, called, chance = rng.random(40) < 0.4, rng.random(40) < 0.5, rng.random(40).round(1)
    plain = classification_scores(ill, called, [False, True], np.stack([1 - chance, chance], 1))
    words, classes = np.array([controls, patients]), np.unique([controls, patients])
    chances = np.stack([chance if one == patients else 1 - chance for one in classes], 1)
    named = classification_scores(words[ill.astype(int)], words[called.astype(int)], classes, chances, said)
    assert named == pytest.approx(plain)
    assert positive_class(classes, said) == patients and positive_class(classes) == classes[1]


def test_a_positive_class_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="positive must be one of the classes, 'ASD' or 'HC', got 'MDD'"):
        classification_scores(np.array(["ASD", "HC"]), np.array(["HC", "HC"]), positive="MDD")
    with pytest.raises(ValueError, match="positive is for two classes, there are 3; leave it out"):
        classification_scores(np.array([0, 1, 2]), np.array([0, 1, 2]), positive=2)
    assert positive_class([0, 1, 2]) is None


KINDS = [np.array(["a", "b"]), np.array(["a", "b"], object), np.array([False, True]), np.array([1.0, 2.0])]


@pytest.mark.parametrize("kind", KINDS, ids=["words", "objects", "truths", "floats"])
def test_labels_of_any_kind_are_scored_alike(kind: np.ndarray) -> None:
    y_true, y_pred = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])
    assert classification_scores(kind[y_true], kind[y_pred]) == classification_scores(y_true, y_pred)


@pytest.mark.parametrize("labels", [([], []), ([0, 1], [0]), ([[0], [1]], [[0], [1]])])
def test_labels_that_do_not_match_are_refused(labels: tuple[list, list]) -> None:
    with pytest.raises(ValueError, match="as many predictions as labels and at least one"):
        classification_scores(*labels)


def test_probabilities_of_two_classes_worked_out_by_hand() -> None:
    y, chance = np.array([0, 0, 1, 1]), np.array([0.12, 0.55, 0.55, 0.93])
    scores = classification_scores(y, (chance > 0.5).astype(int), [0, 1], np.stack([1 - chance, chance], 1))
    assert scores["roc_auc"] == pytest.approx((1 + 1 + 1 + 0.5) / 4)  # of four pairs one is tied
    # bins: 0.12 promised and 0 came, twice 0.55 promised and one of two came, 0.93 promised and 1 came
    assert scores["calibration_error"] == pytest.approx((0.12 + 2 * 0.05 + 0.07) / 4)


def test_probabilities_of_three_classes_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, chances = rng.integers(0, 3, 60), rng.dirichlet([1, 1, 1], 60).round(2)
    chances /= chances.sum(1, keepdims=True)
    scores = classification_scores(y, chances.argmax(1), [0, 1, 2], chances)
    assert scores["roc_auc"] == pytest.approx(roc_auc_score(y, chances, multi_class="ovr"))
    assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, chances.argmax(1)))
    assert scores["mcc"] == pytest.approx(matthews_corrcoef(y, chances.argmax(1)))
    assert scores["f1"] == pytest.approx(f1_score(y, chances.argmax(1), average="macro"))


def test_a_prediction_of_weight_two_counts_as_two() -> None:
    rng = np.random.default_rng(0)
    for k in (2, 3):
        y, chances = rng.integers(0, k, 30), rng.dirichlet([1] * k, 30)
        counts = rng.integers(0, 4, (5, 30))
        weighted = weighted_scores(code(y, chances.argmax(1), np.arange(k), chances), counts)
        for i, count in enumerate(counts):
            some = np.repeat(np.arange(30), count)
            again = classification_scores(y[some], chances.argmax(1)[some], np.arange(k), chances[some])
            assert {name: value[i] for name, value in weighted.items()} == pytest.approx(again)


def test_a_class_that_was_never_learnt_is_always_wrong() -> None:
    y, chances = np.array([0, 1, 2]), np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    scores = classification_scores(y, chances.argmax(1), [0, 1], chances)
    assert scores["accuracy"] == scores["sensitivity"] == pytest.approx(2 / 3)
    assert scores["roc_auc"] == pytest.approx((1 + 1 + 0.5) / 3)


def test_probabilities_without_their_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one column per class \(2\), got \(2, 3\)"):
        classification_scores([0, 1], [0, 1], [0, 1], np.ones((2, 3)))
    with pytest.raises(ValueError, match="pass classes too"):
        classification_scores([0, 1], [0, 1], probabilities=np.ones((2, 2)))
