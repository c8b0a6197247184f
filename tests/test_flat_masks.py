"""What must hold for what is told of masks in which no edge weighs more than another."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from cignn import Explanations, GraphSet
from cignn.datasets import make_cohort
from cignn.estimators import FlatMaskWarning, FusedClassifier, make_estimator
from cignn.estimators.explaining import FLAT, told_by_weights
from cignn.evaluation import Holdout, evaluate, label_permutation_check, self_consistency
from cignn.explainers import make_explainer
from cignn.report import report_of


def explanations(*ranges: float) -> Explanations:
    """Graphs of six edges whose weights spread over so much."""
    graphs = GraphSet.from_arrays(np.repeat((1 - np.eye(4))[None], len(ranges), 0))
    return Explanations(graphs, [0.5 + spread * np.linspace(0, 1, 6) for spread in ranges])


def test_ranges_are_those_of_each_graph() -> None:
    np.testing.assert_allclose(explanations(0.0, 0.25, 0.5).weight_ranges, [0, 0.25, 0.5], atol=1e-6)
    lone = GraphSet.from_arrays([np.zeros((2, 2)), 1 - np.eye(2)])
    found = Explanations(lone, [np.empty(0), np.array([0.7])])
    assert found.weight_ranges.tolist() == [0, 0] and told_by_weights(found) is None


def test_the_median_graph_tells_whether_a_mask_is_flat() -> None:
    assert told_by_weights(explanations(2 * FLAT, 2 * FLAT, 0.0)) is None
    told = told_by_weights(explanations(2e-4, 2e-4, 0.4))
    assert told is not None and "(by 0.0002 within a graph)" in told and "contributions" in told


@pytest.fixture(scope="module")
def cohort() -> GraphSet:
    upper = np.triu(np.random.default_rng(0).normal(size=(60, 8, 8)), 1)
    upper[::2, 0, 1:4] += 4
    return GraphSet.from_arrays(upper + upper.transpose(0, 2, 1), y=np.arange(60) % 2, aligned=True)


QUICK = {"preset": "connectome", "epochs": 12, "n_estimators": 1, "random_state": 0}
STILL = {"learning_rate": 1e-9}  # at the start all connections have the same weight


@pytest.mark.medium
@pytest.mark.parametrize("method", ["ci-gnn", "ci-gnn-regressor"])
def test_explain_warns_of_a_mask_that_says_nothing(cohort: GraphSet, method: str) -> None:
    graphs = cohort.with_y(np.asarray(cohort.y) + np.linspace(0, 0.1, 60)) if "reg" in method else cohort
    still = make_estimator(method, settings=STILL, **QUICK).fit(graphs)
    with pytest.warns(FlatMaskWarning, match="edge weights hardly differ.*; read contributions") as caught:
        still.explain(graphs)
    with pytest.warns(FlatMaskWarning, match="; ask for contributions"):
        still.explain(graphs, contributions=False)
    assert caught[0].filename == __file__
    moved = clone(still).set_params(settings={"learning_rate": 0.01}).fit(graphs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FlatMaskWarning)
        moved.explain(graphs)
        clone(still).set_params(epochs=2).fit(graphs).explain(graphs)  # nobody meant to train it


@pytest.mark.medium
def test_the_line_that_is_warned_of_is_outside_the_package(cohort: GraphSet) -> None:
    still = make_estimator("ci-gnn", settings=STILL, **QUICK).fit(cohort)
    explainer = make_explainer("built-in").fit(still, cohort)
    with pytest.warns(FlatMaskWarning) as caught:
        explainer.explain(cohort)
    assert caught[0].filename == __file__


@pytest.mark.medium
def test_checks_that_expect_such_masks_do_not_warn_of_them(cohort: GraphSet) -> None:
    still = make_estimator("ci-gnn", settings=STILL, **QUICK).fit(cohort)
    explainer = make_explainer("built-in").fit(still, cohort)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatMaskWarning)
        explanations = explainer.explain(cohort)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FlatMaskWarning)
        self_consistency(explainer, explanations)
        table = evaluate({"still": still}, cohort, Holdout(), explainers=["built-in"])
    assert table["error"].isna().all(), "a warning would be the error of a task here"
    ranges = table.loc[table["metric"] == "weight_range", "value"]
    assert len(ranges) == 1 and ranges.iloc[0] < FLAT
    with pytest.warns(FlatMaskWarning) as caught:
        label_permutation_check(still, cohort)
    flat = [one for one in caught if one.category is FlatMaskWarning]
    assert len(flat) == 1, "of its own mask, not of the permuted one"


@pytest.mark.medium
def test_fused_views_are_named() -> None:
    subjects = make_cohort(24, n_rois=5, n_edges=3, lengths=(30, 40), random_state=0)
    still = make_estimator("ci-gnn", settings=STILL, **QUICK)
    fused = FusedClassifier.make(["correlation", "partial"], still, fusion="mean").fit(subjects)
    with pytest.warns(FlatMaskWarning) as caught:
        fused.explain(subjects)
    flat = [one for one in caught if one.category is FlatMaskWarning]
    assert [str(one.message).split(":")[0] for one in flat] == ["view correlation", "view partial"]
    assert {one.filename for one in flat} == {__file__}


@pytest.mark.medium
def test_a_report_says_that_weights_say_nothing(cohort: GraphSet) -> None:
    still = make_estimator("ci-gnn", settings=STILL, **QUICK).fit(cohort)
    assert "hardly differ" in str(report_of(still, cohort).facts["weights"])
    moved = clone(still).set_params(settings={"learning_rate": 0.01}).fit(cohort)
    assert "weights" not in report_of(moved, cohort).facts
