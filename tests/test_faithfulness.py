"""What must hold for scores of explanations without a truth: each against an example worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import ttest_ind
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from torch_geometric.explain import characterization_score as pyg_characterisation

from cignn import CohortClassifier, Explanations, GraphSet
from cignn.estimators import make_estimator
from cignn.evaluation import (
    agreement,
    agreement_table,
    characterisation_score,
    explanation_accuracy,
    explanation_roc_auc,
    fidelity,
    label_permutation_check,
    precision_at_k,
    rank_correlation,
    removal,
    removal_curve,
    reversals,
    sparsity,
    stability,
    top_edge_masks,
    top_overlap,
    univariate_scores,
)
from cignn.evaluation.removal import edge_ranks


def paths(n_graphs: int = 1, edges: int = 10, aligned: bool = False, **kwargs: object) -> GraphSet:
    """Paths: edge i joins nodes i and i + 1."""
    adj = np.zeros((edges + 1, edges + 1))
    at = np.arange(edges)
    adj[at, at + 1] = adj[at + 1, at] = 1
    return GraphSet.from_arrays(np.stack([adj] * n_graphs), aligned=aligned, **kwargs)  # type: ignore[arg-type]


class CountsEdges:
    """Class 1 when at least ``needed`` of the path's first ``among`` edges are there; p rises with each."""

    classes_ = np.array(["few", "many"])

    def __init__(self, needed: int = 2, among: int = 4) -> None:
        self.needed, self.among = needed, among

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        count = np.array([sum(graph.weights[i, i + 1] != 0 for i in range(self.among)) for graph in X])
        high = 0.5 + 0.1 * (count - self.needed + 0.5)
        return np.stack([1 - high, high], 1)


FALLING = [np.linspace(1, 0.1, 10)]  # of a path with ten edges: the first has the largest weight


# ------------------------------------------------------------------ edges kept


@pytest.mark.parametrize("aligned", [False, True])
def test_a_set_keeps_the_edges_it_is_told_to(aligned: bool) -> None:
    rng = np.random.default_rng(0)
    adj = rng.normal(size=(3, 6, 6)) * (rng.random((3, 6, 6)) < 0.7)
    adj = np.triu(adj, 1) + np.triu(adj, 1).transpose(0, 2, 1)
    graphs = GraphSet.from_arrays(adj, y=[0, 1, 0], edge_truth=adj > 0.5, aligned=aligned)
    keep = [rng.random(n) < 0.5 for n in graphs.n_edges]
    keep[1][:] = False
    kept = graphs.with_edges(keep)
    for i, mask in enumerate(keep):
        np.testing.assert_array_equal(kept.edges(i), graphs.edges(i)[mask])
        expected = np.zeros((6, 6))
        source, target = graphs.edges(i)[mask].T
        expected[source, target] = expected[target, source] = graphs[i].weights[source, target]
        np.testing.assert_array_equal(kept[i].weights, expected)
        np.testing.assert_array_equal(kept[i].x, graphs[i].x)  # what nodes know of themselves stays
        np.testing.assert_array_equal(kept[i].edge_truth & (expected != 0), expected > 0.5)
    assert kept.y.tolist() == [0, 1, 0] and kept.aligned is aligned
    everything = graphs.with_edges([np.ones(n, bool) for n in graphs.n_edges])
    assert everything.digest() == graphs.digest()


def test_masks_that_do_not_fit_are_refused() -> None:
    graphs = paths(2, 3)
    with pytest.raises(ValueError, match=r"one mask per graph \(2\), got 1"):
        graphs.with_edges([np.ones(3, bool)])
    with pytest.raises(ValueError, match="keep of graph 1 must be a bool mask of shape"):
        graphs.with_edges([np.ones(3, bool), np.ones(2, bool)])
    with pytest.raises(ValueError, match="keep of graph 0 must be a bool mask of shape"):
        graphs.with_edges([np.array([0, 1, 2]), np.ones(3, bool)])


def test_the_number_of_top_edges_is_rounded_up() -> None:
    explanations = Explanations(paths(1, 7), [[0.1, 0.7, 0.3, 0.9, 0.2, 0.6, 0.5]])
    assert np.flatnonzero(top_edge_masks(explanations, 0.3)[0]).tolist() == [1, 3, 5]  # ⌈2.1⌉ = 3
    assert top_edge_masks(explanations, 0.0)[0].sum() == 0
    assert top_edge_masks(explanations, 1.0)[0].all()
    for share in (0.1, 0.3, 0.7):  # no rounding error adds an edge
        assert top_edge_masks(Explanations(paths(), FALLING), share)[0].sum() == round(10 * share)
    assert top_edge_masks(explanations[[]], 0.3) == []
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\], got 1.5"):
        top_edge_masks(explanations, 1.5)


def test_ties_are_broken_alike_in_any_company_and_without_favour() -> None:
    sizes = (30, 12, 20)
    sets = [paths(1, n) for n in sizes]
    together = GraphSet.from_arrays([graphs[0].weights for graphs in sets])
    masks = top_edge_masks(Explanations(together, [np.ones(n) for n in sizes]), 0.4)
    for mask, graphs, n in zip(masks, sets, sizes, strict=True):
        alone = top_edge_masks(Explanations(graphs, [np.ones(n)]), 0.4)[0]
        np.testing.assert_array_equal(mask, alone)
    big = top_edge_masks(Explanations(paths(1, 1000), [np.ones(1000)]), 0.5)[0]
    assert 200 < big[:500].sum() < 300


# ---------------------------------------------------------------------- curves


def test_explanation_accuracy_worked_out_by_hand() -> None:
    graphs = paths(2)
    # the first graph's top edges are the ones that count, the second's the last to come
    explanations = Explanations(graphs, [FALLING[0], FALLING[0][::-1]])
    curve = explanation_accuracy(CountsEdges(), explanations)
    # two of the first four edges needed: there from 2 edges on, from 8 on
    expected = [0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1]
    np.testing.assert_allclose(curve.accuracy, expected)
    np.testing.assert_allclose(curve.shares, np.arange(1, 11) / 10)
    area = sum((a + b) / 2 for a, b in itertools.pairwise(expected)) / 9
    assert curve.auc == pytest.approx(area)


def test_a_class_that_never_changes_has_the_whole_area() -> None:
    curve = explanation_accuracy(CountsEdges(needed=0), Explanations(paths(), FALLING))
    assert curve.auc == pytest.approx(1) and (curve.accuracy == 1).all()
    with pytest.raises(ValueError, match="shares must be at least two and rise"):
        explanation_accuracy(CountsEdges(), Explanations(paths(), FALLING), shares=[0.5])
    with pytest.raises(ValueError, match="no explanations to score"):
        explanation_accuracy(CountsEdges(), Explanations(paths(), FALLING)[[]])


def test_removal_falls_with_the_edges_that_matter() -> None:
    model, graphs = CountsEdges(), paths(40, y=["many"] * 40)
    explanations = Explanations(graphs, FALLING * 40)
    curve = removal_curve(model, explanations, n_random=20)
    np.testing.assert_allclose(curve.shares, np.arange(11) / 10)
    # 4 counted edges: p = 0.75, and 0.1 less with each that goes; the class changes with the third
    np.testing.assert_allclose(curve.probability, [0.75, 0.65, 0.55, 0.45, *[0.35] * 7])
    np.testing.assert_allclose(curve.accuracy, [1, 1, 1, *[0] * 8])
    np.testing.assert_allclose(curve.random_probability, 0.75 - 0.4 * curve.shares, atol=0.02)
    assert curve.random_accuracy[3] > 0.8
    labelled = removal_curve(model, explanations, y=graphs.y, n_random=1)
    np.testing.assert_allclose(labelled.accuracy, curve.accuracy)
    wrong = removal_curve(model, explanations, y=np.array(["few"] * 40), n_random=1)
    np.testing.assert_allclose(wrong.accuracy, 1 - curve.accuracy)
    with pytest.raises(ValueError, match=r"does not know: \['none'\]"):
        removal_curve(model, explanations, y=np.array(["none"] * 40))


def supported(n: int = 2) -> Explanations:
    """Paths whose weights mislead; the first two of the edges that count speak for "many", two against it."""
    contributions = np.array([3.0, 2.0, -4.0, -1.0, 0, 0, 0, 0, 0, 0])
    return Explanations(
        paths(n),
        [FALLING[0][::-1]] * n,
        np.full(n, "many"),
        edge_contributions=[contributions] * n,
        base=np.zeros(n),
    )


def test_removal_takes_what_speaks_for_the_class_first() -> None:
    model, explanations = CountsEdges(), supported()
    found = removal(model, explanations, shares=[0, 0.1, 2, 1.0], n_random=20)
    np.testing.assert_allclose(found.top[:, 0], [0.75, 0.65, 0.55, 0.35])
    np.testing.assert_allclose(found.top[:, 0], found.top[:, 1])
    np.testing.assert_allclose(found.random[[0, -1]], [[0.75] * 2, [0.35] * 2])
    assert (found.random[2] > found.top[2]).all()
    against = edge_ranks(explanations, "contribution", "against")[:10]
    assert np.argsort(against)[:2].tolist() == [2, 3]
    assert np.argsort(edge_ranks(explanations, "contribution")[:10])[:3].tolist() == [2, 0, 1]
    by_weight = removal(model, explanations, shares=[3], by="weight", n_random=1)
    np.testing.assert_allclose(by_weight.top, 0.75)  # the weights name the path's end
    few = Explanations(
        explanations.graphs, explanations.edge_weights, explanations.predictions,
        edge_contributions=explanations.edge_contributions, base=[0, 0], explained=np.array(["few"] * 2),
    )  # fmt: skip
    np.testing.assert_allclose(removal(model, few, shares=[2]).top, 1 - 0.55)
    again = removal(model, explanations, shares=[0.3], random_state=3)
    np.testing.assert_array_equal(again.random, removal(model, explanations, [0.3], random_state=3).random)


def test_reversals_count_decisions_that_change() -> None:
    model, explanations = CountsEdges(needed=3), supported(4)
    first = np.arange(10)[::-1]
    table = reversals(model, explanations, {"first": [first, first, -first, -first]}, share=2).set_index(
        "ranking"
    )
    assert table.index.tolist() == ["contribution", "weight", "first", "random"]
    assert table.loc["contribution", "reversed"] == 1 and table.loc["weight", "reversed"] == 0
    assert table.loc["first", "reversed"] == 0.5 and table.loc["first", "lost"] == pytest.approx(0.1)
    assert reversals(model, explanations, share=0.0)["reversed"].max() == 0
    alone = Explanations(explanations.graphs, explanations.edge_weights)
    assert reversals(model, alone, share=1)["ranking"].tolist() == ["weight", "random"]
    with pytest.raises(ValueError, match="weights alone, no contributions"):
        removal(model, alone, by="contribution")
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\], got 1.5"):
        removal(model, explanations, shares=[1.5])


def test_metrics_rank_by_weight_unless_contributions_are_asked_for() -> None:
    model, explanations = CountsEdges(), supported()
    assert fidelity(model, explanations, 0.2).plus == pytest.approx(0)
    assert fidelity(model, explanations, 0.2, by="contribution", side="for").plus == pytest.approx(0.2)
    kept = explanation_accuracy(model, explanations, [0.2, 1.0], by="contribution")
    assert kept.accuracy[0] == 1 and explanation_accuracy(model, explanations, [0.2, 1.0]).accuracy[0] == 0
    truth = np.zeros((2, 11, 11), bool)
    truth[:, 0, 1] = truth[:, 1, 2] = True  # the two edges that speak for the class
    np.testing.assert_allclose(explanation_roc_auc(explanations, truth), 0)
    np.testing.assert_allclose(explanation_roc_auc(explanations, truth, by="contribution", side="for"), 1)
    np.testing.assert_allclose(precision_at_k(explanations, truth, by="contribution"), 0.5)
    turned = Explanations(
        explanations.graphs, explanations.edge_weights, explanations.predictions,
        edge_contributions=[-values for values in explanations.edge_contributions], base=[0, 0],
    )  # fmt: skip
    np.testing.assert_allclose(rank_correlation(explanations, turned), 1)
    np.testing.assert_allclose(rank_correlation(explanations, turned, by="contribution"), -1)
    np.testing.assert_allclose(top_overlap(explanations, turned, 3, by="contribution"), 1)
    curve = removal_curve(model, explanations, [0.2], by="contribution", side="for", n_random=1)
    assert curve.probability[0] == pytest.approx(0.55)


def test_univariate_scores_are_t_times_deviation_worked_out_by_hand() -> None:
    rng = np.random.default_rng(0)
    adj = np.triu(rng.normal(3, 1, (30, 4, 4)), 1)
    graphs = GraphSet.from_arrays(adj + adj.transpose(0, 2, 1), y=np.arange(30) % 2, aligned=True)
    values = np.stack([graphs.edge_values(i) for i in range(30)]).astype(float)
    t = ttest_ind(values[1::2], values[::2]).statistic
    evidence = t * (values - values.mean(0)) / values.std(0, ddof=1)
    np.testing.assert_allclose(univariate_scores(graphs, graphs), np.abs(evidence), rtol=1e-4)
    towards = univariate_scores(graphs, graphs, np.zeros(30))
    np.testing.assert_allclose(towards, -evidence, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="two classes, got 3"):
        univariate_scores(graphs.with_y(np.arange(30) % 3), graphs)


@pytest.mark.parametrize("model", ["linear-svm", "lasso"])
def test_a_removed_connection_is_no_evidence_for_a_model_of_numbers(model: str) -> None:
    rng = np.random.default_rng(0)
    adj = np.triu(rng.normal(3, 1, (40, 4, 4)), 1)
    adj[:20, 0, 1] += 2
    graphs = GraphSet.from_arrays(adj + adj.transpose(0, 2, 1), y=np.arange(40) // 20, aligned=True)
    fitted = make_estimator(model, random_state=0).fit(graphs)
    gone = [rng.random(6) < 0.5 for _ in range(40)]
    scale = fitted.pipeline_["scale"]
    with_all = scale.transform(fitted.pipeline_["vectors"].transform(graphs))
    without = scale.transform(fitted.pipeline_["vectors"].transform(fitted.without_edges(graphs, gone)))
    np.testing.assert_allclose(without, np.where(gone, 0, with_all), atol=1e-5)


def test_a_removed_connection_is_no_evidence_for_ci_gnn_on_brains() -> None:
    rng = np.random.default_rng(0)
    adj = np.triu(rng.normal(3, 1, (40, 5, 5)), 1)
    adj[:20, 0, 1] += 2
    graphs = GraphSet.from_arrays(adj + adj.transpose(0, 2, 1), y=np.arange(40) // 20, aligned=True)
    model = make_estimator("ci-gnn", epochs=2, n_estimators=1, random_state=0).fit(graphs)
    bare = model.predict_proba(model.without_edges(graphs, [np.ones(10, bool)] * 40))
    np.testing.assert_allclose(bare, bare[:1].repeat(40, 0), atol=1e-6)  # all that is left is the prior
    usual = np.repeat(graphs.edge_statistics().centre[None], 2, 0)
    at_mean = model.predict_proba(GraphSet.from_arrays(usual, aligned=True))
    np.testing.assert_allclose(bare[:2], at_mean, atol=0.01)


# -------------------------------------------------------------------- fidelity


def test_fidelity_worked_out_by_hand() -> None:
    explanations = Explanations(paths(2), [FALLING[0], FALLING[0][::-1]])
    model = CountsEdges()
    # three edges taken: of the first graph they count (4 → 1 left, 3 kept), of the second they do not
    plus, minus = fidelity(model, explanations, 0.3)
    np.testing.assert_allclose(plus, [0.3, 0.0], atol=1e-12)
    np.testing.assert_allclose(minus, [0.1, 0.4], atol=1e-12)
    plus, minus = fidelity(model, explanations, 0.3, "label")
    np.testing.assert_array_equal(plus, [1, 0])
    np.testing.assert_array_equal(minus, [0, 1])
    with pytest.raises(ValueError, match="output must be one of 'probability', 'label', got 'logit'"):
        fidelity(model, explanations, output="logit")


def test_what_takes_a_cohort_is_scored_by_its_classifier() -> None:
    explanations = Explanations(paths(), FALLING)
    pipe = make_pipeline("passthrough", MeanDifference())
    for score in (fidelity, explanation_accuracy, removal_curve):
        with pytest.raises(TypeError, match=r"a Pipeline is scored by its classifier, .*: pass pipe\[-1\]"):
            score(pipe, explanations)
        with pytest.raises(TypeError, match=r"a CohortClassifier is scored .*: pass model\.classifier_"):
            score(CohortClassifier.make(), explanations)


def test_characterisation_is_pyg_s() -> None:
    import torch

    for plus, minus in [(0.5, 0.2), (0.9, 0.9), (1.0, 0.0)]:
        ours = characterisation_score(plus, minus, 0.3, 0.7)
        theirs = pyg_characterisation(torch.tensor(plus), torch.tensor(minus), 0.3, 0.7)
        assert ours == pytest.approx(float(theirs))
    # harmonic mean of 1/2 and 4/5
    assert characterisation_score(0.5, 0.2) == pytest.approx(2 / (2 + 5 / 4))
    np.testing.assert_allclose(characterisation_score(np.array([0.0, -0.1, 1]), np.array([0, 0.5, 1])), 0)
    assert np.isnan(characterisation_score(np.array([np.nan, 0.5]), np.array([0.5, np.nan]))).all()
    with pytest.raises(ValueError, match=r"plus_weight must lie in \(0, inf\)|minus_weight must lie in"):
        characterisation_score(0.5, 0.5, 0, 1)


def test_sparsity_worked_out_by_hand() -> None:
    graphs = GraphSet.from_arrays([paths(1, 4)[0].weights, np.zeros((2, 2))])
    explanations = Explanations(graphs, [[1.0, 0.5, 0.25, 0.0], []])
    np.testing.assert_allclose(sparsity(explanations), [0.5, np.nan])
    np.testing.assert_allclose(sparsity(explanations, 0.2), [0.25, np.nan])
    np.testing.assert_allclose(sparsity(explanations, None), [1 - 1.75 / 4, np.nan])


# ----------------------------------------------------------------- consistency


def test_rank_correlation_worked_out_by_hand() -> None:
    graphs = paths(4, 3)
    first = Explanations(graphs, [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.5, 0.5, 0.5]])
    second = Explanations(graphs, [[0.2, 0.5, 0.9], [0.9, 0.5, 0.1], [0.2, 0.1, 0.3], [0.1, 0.2, 0.3]])
    # 1 − 6 Σ d² / (n (n² − 1)): the third graph swaps two neighbours, Σ d² = 2
    np.testing.assert_allclose(rank_correlation(first, second), [1, -1, 1 - 12 / 24, np.nan])
    np.testing.assert_allclose(rank_correlation(second, first), rank_correlation(first, second))


def test_overlap_worked_out_by_hand() -> None:
    graphs = paths(2)
    first = Explanations(graphs, FALLING * 2)
    second = Explanations(graphs, [FALLING[0], np.roll(FALLING[0], 2)])
    np.testing.assert_allclose(top_overlap(first, second, 4), [1, 2 / 4])
    np.testing.assert_allclose(top_overlap(first, second, 10), [1, 3 / 5])  # all ten: half of them count
    empty = Explanations(GraphSet.from_arrays([np.zeros((3, 3))]), [[]])
    assert np.isnan(top_overlap(empty, empty)[0])
    with pytest.raises(ValueError, match=r"k must be a whole number of at least 1, got 2\.5"):
        top_overlap(first, second, 2.5)  # type: ignore[arg-type]
    both = agreement(first, second, 4)
    np.testing.assert_allclose(both.top_overlap, [1, 0.5])
    table = agreement_table({"a": first, "b": second, "c": first}, 4)
    assert table[["first", "second"]].values.tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert table["top_overlap"].tolist() == pytest.approx([0.75, 1, 0.75])


def test_stability_is_the_mean_over_pairs() -> None:
    graphs = paths(1, 3)
    runs = [Explanations(graphs, [w]) for w in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.1, 0.2, 0.3])]
    np.testing.assert_allclose(stability(runs), [(-1 + 1 - 1) / 3])
    constant = Explanations(graphs, [[0.5, 0.5, 0.5]])
    np.testing.assert_allclose(stability([runs[0], constant]), [0])
    with pytest.raises(ValueError, match="at least two runs, got 1"):
        stability(runs[:1])
    with pytest.raises(ValueError, match="graph 0 has 3 edges in one and 10 in the other"):
        stability([runs[0], Explanations(paths(), FALLING)])


def test_explanations_of_other_graphs_are_not_compared() -> None:
    path, star = paths(1, 3), np.zeros((4, 4))
    star[0, 1:] = star[1:, 0] = 1
    of_path = Explanations(path, [[0.1, 0.2, 0.3]])
    of_star = Explanations(GraphSet.from_arrays([star]), [[0.1, 0.2, 0.3]])
    for compare in (rank_correlation, top_overlap, agreement):
        with pytest.raises(ValueError, match="same graphs, graph 0 has other edges in one than in the other"):
            compare(of_path, of_star)
    brains = Explanations(paths(2, 3, True, meta={"subject": ["ann", "bob"]}), [[0.1, 0.2, 0.3]] * 2)
    with pytest.raises(ValueError, match="graph 0 is of ann in one and of bob in the other"):
        stability([brains, brains[::-1]])
    np.testing.assert_allclose(rank_correlation(brains, brains[:]), 1)


class MeanDifference(ClassifierMixin, BaseEstimator):
    """Explains every graph by |difference of the classes' mean weights|, edge by edge."""

    def fit(self, X: GraphSet, y: np.ndarray | None = None) -> MeanDifference:
        y = np.asarray(X.y if y is None else y)
        weights = np.stack([graph.weights for graph in X])
        self.difference_ = np.abs(weights[y == 1].mean(0) - weights[y == 0].mean(0))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: GraphSet) -> np.ndarray:
        return self.classes_[np.zeros(len(X), int)]

    def explain(self, X: GraphSet) -> Explanations:
        scale = self.difference_.max()
        return Explanations(X, [self.difference_[tuple(X.edges(i).T)] / scale for i in range(len(X))])


class NeverTrains(MeanDifference):
    """A training that would take hours."""

    def fit(self, X: GraphSet, y: np.ndarray | None = None) -> MeanDifference:
        raise AssertionError("trained for nothing")


def test_labels_permuted_explain_nothing() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    adj = rng.normal(3, 1, (60, 12, 12))
    truth = np.zeros((60, 12, 12), bool)
    truth[:, :3, 3:8] = True
    adj[y == 1] += 3 * truth[y == 1]
    adj = np.triu(adj, 1) + np.triu(adj, 1).transpose(0, 2, 1)
    graphs = GraphSet.from_arrays(adj, y=y, edge_truth=truth, aligned=True)
    model = MeanDifference().fit(graphs)
    check = label_permutation_check(model, graphs, graphs[:5])
    assert check.agreement.rank_correlation.shape == (5,)
    assert check.roc_auc.mean() > 0.95 > 0.75 > check.permuted_roc_auc.mean()
    assert check.agreement.rank_correlation.mean() < 0.4
    again = label_permutation_check(model, graphs, graphs[:5])
    np.testing.assert_array_equal(check.permuted_roc_auc, again.permuted_roc_auc)
    blind = MeanDifference().fit(graphs, rng.permutation(y))  # a model that learnt nothing is found out
    found = label_permutation_check(blind, graphs, graphs[:5])
    assert found.roc_auc.mean() < 0.8
    made = label_permutation_check(model, graphs, graphs[:5], random_state=np.random.default_rng(0))
    assert (made.permuted_roc_auc != check.permuted_roc_auc).any()
    with pytest.raises(NotFittedError, match="not fitted yet; fit it, then explain it"):
        label_permutation_check(NeverTrains(), graphs)  # before the clone is trained
    with pytest.raises(ValueError, match="no labels to permute; pass y"):
        label_permutation_check(model, graphs.with_y(None))
