"""What must hold for the sufficiency of explanations: each against a classifier whose rule is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from cignn import CohortClassifier, Explanations, GraphSet
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import fidelity, self_consistency, superset_sufficiency, top_edge_masks
from cignn.evaluation import sufficiency as module
from cignn.explainers import Explainer, make_explainer


def paths(n_graphs: int = 1, edges: int = 10, aligned: bool = False) -> GraphSet:
    """Paths: edge i joins nodes i and i + 1."""
    adj = np.zeros((edges + 1, edges + 1))
    at = np.arange(edges)
    adj[at, at + 1] = adj[at + 1, at] = 1
    return GraphSet.from_arrays(np.stack([adj] * n_graphs), aligned=aligned)


def present(graphs: GraphSet) -> np.ndarray:
    """(g, e) which edges of paths are there."""
    return np.stack([np.diag(graph.weights, 1) != 0 for graph in graphs])


class ByEdges:
    """A classifier of paths that is sure, by 0.1 or 0.9, of a rule of the edges that are there."""

    classes_ = np.array([0, 1])

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.seen: list[np.ndarray] = []

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        there = present(X)
        self.seen.append(there)
        high = np.where(self.rule(there), 0.9, 0.1)
        return np.stack([1 - high, high], 1)


def even(there: np.ndarray) -> np.ndarray:
    """Whether an even number of the first four edges is there."""
    return there[:, :4].sum(1) % 2 == 0


FIRST = np.linspace(1, 0.1, 10)  # explanations whose top edges are the first ones, and the last ones
LAST = FIRST[::-1]


# ---------------------------------------------------------------------- supersets


def test_a_planted_fake_passes_fidelity_and_fails_supersets() -> None:
    model, graphs = ByEdges(even), paths(20)
    fake, right = Explanations(graphs, [LAST] * 20), Explanations(graphs, [FIRST] * 20)
    # the last edges have no part in the rule; none of the first four is even, as all of them are
    assert np.abs(fidelity(model, fake, 0.4).minus).max() == 0
    assert fidelity(model, fake, 0.4, "label").minus.max() == 0
    found = superset_sufficiency(model, fake, 0.4, n_draws=40)
    np.testing.assert_allclose(found.worst, 0.8)
    assert found.label_changes.all()
    found = superset_sufficiency(model, right, 0.4)
    assert found.worst.max() == 0 and not found.label_changes.any()
    # the right one is better than as many random edges, the fake is not
    assert found.random_worst.mean() > 0.5 and found.random_label_changes.mean() > 0.5


def test_a_rule_that_needs_more_than_the_explanation_changes() -> None:
    model = ByEdges(lambda there: there[:, 5])
    explanations = Explanations(paths(), [FIRST])
    np.testing.assert_allclose(superset_sufficiency(model, explanations, 0.3).worst, 0.8)
    assert superset_sufficiency(model, explanations, 0.6).worst.tolist() == [0]
    assert superset_sufficiency(model, explanations, 1.0).random_worst.tolist() == [0]


def test_a_prediction_may_also_rise() -> None:
    class Falls(ByEdges):
        def predict_proba(self, X: GraphSet) -> np.ndarray:
            high = 0.95 - 0.04 * present(X).sum(1)  # 0.55 with all ten edges, always class 1
            return np.stack([1 - high, high], 1)

    found = superset_sufficiency(Falls(None), Explanations(paths(), [FIRST]), 0.3)
    np.testing.assert_allclose(found.worst, 0.04 * 7)  # on the explanation alone
    assert not found.label_changes.any()


@pytest.mark.parametrize("cells", [1, 2**22])
def test_graphs_drawn_lie_between_the_explanation_and_the_whole(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CELLS", cells)  # one draw a call, or all in one
    model, graphs = ByEdges(even), paths(30)
    explanations = Explanations(graphs, [FIRST, LAST] * 15)
    superset_sufficiency(model, explanations, 0.3, n_draws=8, n_random=2)
    assert len(model.seen) == (1 + 3 * 8 if cells == 1 else 1 + 3)
    seen = np.concatenate(model.seen[1:]).reshape(3, 8, 30, 10)
    inside = np.stack(top_edge_masks(explanations, 0.3))
    assert seen[0][:, inside].all()
    assert (seen[0, 0] == inside).all()  # the first is the explanation alone
    outside = seen[0][:, ~inside].mean(1)
    assert outside[0] == 0 and 0.75 < outside[-1] < 1 and outside[1] < 0.25  # rates rise from 0 to 7/8
    assert len({row.tobytes() for row in seen[0].reshape(-1, 10)}) > 50
    alone = seen[1:, 0]  # random explanations have the same size and are others
    assert (alone.sum(2) == 3).all() and (alone[0] != alone[1]).any() and (alone != inside).any()
    assert (seen[1:] | ~alone[:, None]).all()  # and all of their edges stay


def test_the_result_does_not_depend_on_how_draws_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 9, 12)
    adj = [np.triu(rng.random((n, n)) < 0.7, 1) for n in sizes]
    graphs = GraphSet.from_arrays([(one | one.T).astype(float) for one in adj])

    class Degrees:
        classes_ = np.arange(3)

        def predict_proba(self, X: GraphSet) -> np.ndarray:
            sums = np.array([[(g.weights.sum(1) == k).sum() for k in (1, 2, 3)] for g in X]) + 1.0
            return sums / sums.sum(1, keepdims=True)

    explanations = Explanations(graphs, [rng.random(n) for n in graphs.n_edges])
    together = superset_sufficiency(Degrees(), explanations, random_state=3)
    monkeypatch.setattr(module, "CELLS", 1)
    known = Degrees().predict_proba(graphs)
    for other in (
        superset_sufficiency(Degrees(), explanations, random_state=3),
        superset_sufficiency(Degrees(), explanations, random_state=3, probabilities=known),
    ):
        for a, b in zip(together, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert (superset_sufficiency(Degrees(), explanations, random_state=4).worst != together.worst).any()
    # no worse than the explanation alone, which is among the graphs drawn
    assert (together.worst >= np.abs(fidelity(Degrees(), explanations).minus) - 1e-12).all()


def test_an_explanation_may_be_the_edges_from_a_weight_on() -> None:
    model = ByEdges(even)
    explanations = Explanations(paths(2), [FIRST, LAST])
    found = superset_sufficiency(model, explanations, threshold=0.65)  # the first four, the last four
    assert found.worst[0] == 0 and found.worst[1] == pytest.approx(0.8)
    assert superset_sufficiency(model, explanations, threshold=-1).worst.max() == 0  # every edge
    nothing = GraphSet.from_arrays([np.zeros((11, 11))])
    assert superset_sufficiency(model, Explanations(nothing, [[]])).worst.tolist() == [0]


def test_values_of_the_supersets_are_checked() -> None:
    model, explanations = ByEdges(even), Explanations(paths(), [FIRST])
    for options, message in (
        ({"n_draws": 0}, "n_draws must be a whole number of at least 1, got 0"),
        ({"n_random": 0}, "n_random must be a whole number of at least 1, got 0"),
        ({"share": 1.5}, r"share must lie in \[0, 1\], got 1.5"),
        ({"threshold": np.nan}, "threshold must lie in"),
        ({"by": "size"}, "by must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            superset_sufficiency(model, explanations, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no explanations to score"):
        superset_sufficiency(model, explanations[[]])
    with pytest.raises(TypeError, match=r"a CohortClassifier is scored by its classifier"):
        superset_sufficiency(CohortClassifier.make(), explanations)


# ---------------------------------------------------------------- self-consistency


class ByRule(ByEdges):
    """Explains itself by a rule of the edges that are there, (e,) bool → (e,) weights."""

    def explain(self, graphs: GraphSet) -> Explanations:
        return Explanations(graphs, [self.rule(row)[row] for row in present(graphs)])


def test_self_consistency_worked_out_by_hand() -> None:
    graphs = paths(2)
    same = ByRule(lambda there: FIRST)
    found = self_consistency(same, same.explain(graphs))
    np.testing.assert_allclose(found.difference, 0, atol=1e-7)
    np.testing.assert_allclose(found.rank_correlation, 1)
    # without the other edges, weights fall by 0.5 and their order is reversed
    changing = ByRule(lambda there: FIRST if there.all() else 1.2 - FIRST)
    found = self_consistency(changing, changing.explain(graphs), 0.3)
    np.testing.assert_allclose(found.difference, np.abs(2 * FIRST[:3] - 1.2).mean(), atol=1e-6)
    np.testing.assert_allclose(found.rank_correlation, -1)
    whole = self_consistency(changing, changing.explain(graphs), 1.0)  # nothing is cut
    np.testing.assert_allclose(whole.difference, 0, atol=1e-7)


def test_a_constant_mask_is_consistent_and_has_no_order() -> None:
    constant = ByRule(lambda there: np.full(10, 0.7))
    found = self_consistency(constant, constant.explain(paths()))
    assert found.difference == pytest.approx([0]) and np.isnan(found.rank_correlation).all()
    found = self_consistency(constant, Explanations(GraphSet.from_arrays([np.zeros((11, 11))]), [[]]))
    assert np.isnan(found.difference).all() and np.isnan(found.rank_correlation).all()


def test_explainers_explain_the_cut_graphs() -> None:
    class Degrees(Explainer):
        """The mean degree of an edge's ends, divided by 10."""

        def _explain(self, graphs: GraphSet) -> Explanations:
            weights = []
            for i, graph in enumerate(graphs):
                degree = (graph.weights != 0).sum(0)
                weights.append(degree[graphs.edges(i)].mean(1) / 10)
            return self._explained(graphs, weights)

    star = np.zeros((5, 5))
    star[0, 1:] = star[1:, 0] = 1
    star[3, 4] = star[4, 3] = 1
    graphs = GraphSet.from_arrays([star] * 4, y=[0, 1, 0, 1])
    model = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    explainer = Degrees().fit(model, graphs)
    # degrees 4, 1, 1, 2, 2: 0-3 and 0-4 are the top edges with 0.3 and have 0.15 when they are all there is
    np.testing.assert_allclose(self_consistency(explainer, explainer.explain(graphs), 0.4).difference, 0.15)
    dice = make_explainer("random", random_state=0).fit(model, graphs)
    assert self_consistency(dice, dice.explain(graphs), 0.6).difference.min() > 0


def test_weights_are_matched_where_removed_edges_keep_a_value() -> None:
    cohort = make_cohort(30, n_rois=6, n_edges=3, data="matrices", random_state=0)
    graphs = GraphSet.from_arrays(cohort.matrices, y=cohort.y, aligned=True)
    model = make_estimator("lasso", C=1.0, random_state=0).fit(graphs)  # a removed edge has the mean

    class Values(Explainer):
        def _explain(self, graphs: GraphSet) -> Explanations:
            sizes = [np.abs(graphs.edge_values(i)) for i in range(len(graphs))]
            return self._explained(graphs, [np.clip(size, 0, 1) for size in sizes])

    explainer = Values().fit(model, graphs)
    found = self_consistency(explainer, explainer.explain(graphs), 0.4)
    np.testing.assert_allclose(found.difference, 0, atol=1e-7)
    np.testing.assert_allclose(found.rank_correlation, 1)


def test_a_classifier_and_its_built_in_explainer_agree() -> None:
    cohort = make_cohort(30, n_rois=6, n_edges=3, data="matrices", random_state=0)
    graphs = GraphSet.from_arrays(cohort.matrices, y=cohort.y, aligned=True)
    model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    explainer = make_explainer("built-in").fit(model, graphs)
    explanations = explainer.explain(graphs)
    assert explanations.edge_contributions is not None
    first, second = (self_consistency(one, explanations) for one in (model, explainer))
    np.testing.assert_allclose(first.difference, second.difference, atol=1e-7)


def test_what_cannot_explain_is_refused() -> None:
    explanations = Explanations(paths(), [FIRST])
    with pytest.raises(TypeError, match="ByEdges has no explain; pass the fitted explainer"):
        self_consistency(ByEdges(even), explanations)
    with pytest.raises(TypeError, match=r"a Pipeline is scored by its classifier"):
        self_consistency(make_pipeline("passthrough", ByEdges(even)), explanations)
    with pytest.raises(ValueError, match="no explanations to score"):
        self_consistency(ByRule(lambda there: FIRST), explanations[[]])
