"""ROC curves, confusion matrices and tests of methods in figures and in the report."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix as sklearn_confusion
from sklearn.metrics import roc_auc_score

from cignn import Explanations
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_cohort
from cignn.evaluation import compare_methods
from cignn.evaluation.resampling import prediction_parts
from cignn.report import ReportData, draw_confusion, draw_roc
from cignn.report.html import render_report
from cignn.report.roc import GRID, confusion_of, roc_curves

pytestmark = pytest.mark.medium

RNG = np.random.default_rng(0)


def made_up(n: int = 90, folds: int = 5, seeds: int = 1, effect: float = 1.0, method: str = "gin") -> Any:
    """Out-of-fold predictions of a method on labels "ill" and "well"."""
    y = RNG.permuted(np.arange(n) % 2)
    parts = []
    for seed in range(seeds):
        p = 1 / (1 + np.exp(-RNG.normal(effect * (2 * y - 1), 1)))
        split = RNG.permuted(np.arange(n) % folds).astype(str)
        columns = {"method": method, "data": "d", "protocol": "kfold", "split": split, "seed": seed}
        names = {"position": np.arange(n), "subject": [f"s{i}" for i in range(n)]}
        said = {"y_true": np.where(y, "well", "ill"), "y_pred": np.where(p > 0.5, "well", "ill")}
        parts.append(pd.DataFrame(columns | names | said | {"p_ill": 1 - p, "p_well": p}))
    return pd.concat(parts, ignore_index=True)


def curves(table: pd.DataFrame, positive: Any = None) -> Any:
    ((_, parts, _),) = prediction_parts(table, positive)
    return roc_curves(parts)


def test_the_mean_curve_is_that_of_the_test_sets_and_its_area_their_mean() -> None:
    table = made_up()
    (curve,) = curves(table)
    areas = [roc_auc_score(one["y_true"] == "well", one["p_well"]) for _, one in table.groupby("split")]
    assert curve.area.value == pytest.approx(np.mean(areas)) and curve.tests == 5 and not curve.left_out
    assert (np.diff(curve.sensitivity) >= -1e-12).all(), "a curve never falls"
    assert curve.sensitivity[0] == 0 and curve.sensitivity[-1] == 1
    assert (curve.low <= curve.sensitivity + 1e-12).all() and (curve.high >= curve.sensitivity - 1e-12).all()
    assert (curve.low >= 0).all() and (curve.high <= 1).all()
    assert len(GRID) == len(curve.sensitivity)


def test_the_other_class_has_the_curve_turned_and_the_same_area() -> None:
    table = made_up()
    (well,), (ill,) = curves(table), curves(table, "ill")
    assert (well.label, ill.label) == ("well", "ill")
    assert well.area.value == pytest.approx(ill.area.value)


def test_perfect_and_useless_scores_have_areas_one_and_a_half() -> None:
    table = made_up()
    right = (table["y_true"] == "well").astype(float)
    (perfect,) = curves(table.assign(p_well=right, p_ill=1 - right))
    (none,) = curves(table.assign(p_well=0.5, p_ill=0.5))
    assert perfect.area.value == 1 and (perfect.sensitivity[1:] == 1).all()
    assert none.area.value == 0.5
    np.testing.assert_allclose(none.sensitivity, GRID, atol=1e-12)


def test_test_sets_of_one_class_have_no_curve_and_two_have_no_interval() -> None:
    table = made_up(folds=3)
    alone = table[(table["split"] != "0") | (table["y_true"] == "ill")]
    (curve,) = curves(alone)
    assert (curve.tests, curve.left_out) == (2, 1) and np.isnan(curve.low).all()
    assert np.isnan(curve.area.low)
    assert curves(table[table["y_true"] == "ill"]) == []
    with pytest.raises(ValueError, match="no method has probabilities"):
        draw_roc(table.drop(columns=["p_ill", "p_well"]))


def test_three_classes_are_each_drawn_against_the_others() -> None:
    n = 90
    chances = RNG.dirichlet(np.ones(3), n)
    columns = {"method": "gin", "data": "d", "protocol": "kfold", "split": np.arange(n) % 3, "seed": 0}
    columns |= {"subject": np.arange(n), "y_true": RNG.integers(0, 3, n), "y_pred": chances.argmax(1)}
    table = pd.DataFrame(columns | {f"p_{k}": chances[:, k] for k in range(3)})
    found = curves(table)
    assert [curve.label for curve in found] == [0, 1, 2]
    assert len(draw_roc(table).axes[0].lines) == 4, "and the diagonal"
    with pytest.raises(ValueError, match="predictions of one method"):
        draw_roc(pd.concat([table, table.assign(method="gat")]))


def test_the_confusion_matrix_counts_every_prediction() -> None:
    table = made_up(seeds=2)
    ((_, parts, _),) = prediction_parts(table)
    found = confusion_of(parts, 90)
    np.testing.assert_array_equal(found.counts, sklearn_confusion(table["y_true"], table["y_pred"]))
    np.testing.assert_allclose(found.shares.sum(1), 1)
    assert found.repeats == 2
    assert "45" not in found.labels and list(found.labels) == ["ill", "well"]
    with pytest.raises(ValueError, match="one method on one data set, got gin, gat"):
        draw_confusion(pd.concat([table, table.assign(method="gat")]))


# ------------------------------------------------------------------------ report


def results_of(tables: list[pd.DataFrame]) -> pd.DataFrame:
    rows = []
    for table in tables:
        for (split, seed), some in table.groupby(["split", "seed"]):
            right = (some["y_true"] == some["y_pred"]).mean()
            area = roc_auc_score(some["y_true"] == "well", some["p_well"])
            for metric, value in (("accuracy", right), ("balanced_accuracy", right), ("roc_auc", area)):
                rows.append((table["method"].iloc[0], "d", "kfold", split, seed, "", metric, value))
    names = ["method", "data", "protocol", "split", "seed", "explainer", "metric", "value"]
    return pd.DataFrame(rows, columns=names).assign(n_train=60, n_validation=12, n_test=18)


@pytest.fixture(scope="module")
def evaluated() -> ReportData:
    cohort = make_cohort(90, 8, data="matrices", n_edges=4, random_state=0)
    cohort = cohort.with_y(np.where(cohort.y == 1, "well", "ill"))
    graphs = ConnectomeGraphs().transform(cohort)
    weights = [RNG.random(graphs.n_edges[0]) for _ in range(90)]
    first, second = made_up(), made_up(method="<b>lasso</b>", effect=0.3)
    rows = [("gin", "accuracy", 0.8), ("gin", "roc_auc", 0.9), ("majority class", "accuracy", 0.5)]
    tested = pd.DataFrame(rows, columns=["method", "metric", "value"])
    tested = tested.assign(permuted_mean=0.5, permuted_std=0.04, p_value=[0.0005, 0.01, 1], n_permutations=99)
    trivial = results_of([first]).assign(method="majority class", value=0.5)
    return ReportData(
        Explanations(graphs, weights),
        np.array(["ill", "well"]),
        np.tile([0.4, 0.6], (90, 1)),
        results=results_of([first, second]),
        predictions=first,
        class_names={"ill": "schizo_affective", "well": "healthy"},
        permutations=tested,
        trivial=trivial,
    )


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_the_report_shows_curve_matrix_comparison_and_tests(evaluated: ReportData) -> None:
    page = render_report(evaluated)
    text = words(page)
    assert "ROC curve of healthy , mean over 5 test sets" in text.replace("healthy,", "healthy ,")
    assert "Confusion matrix: share of each true class" in text and "schizo_<wbr>affective" in page
    counts = sklearn_confusion(evaluated.predictions["y_true"], evaluated.predictions["y_pred"])
    for count in counts.ravel():
        assert f"<small>{count}</small>" in page
    (pair,) = compare_methods(evaluated.results, "balanced_accuracy").itertuples()
    assert f"{pair.difference:.2f}".replace("-", "−") in text and "Are the methods different?" in text
    assert "repeated 99 times" in text and "&lt; 0.001" in page and "smallest possible is 0.01" in text
    assert "always the larger class" in text and 'class="trivial"' in page
    assert "<b>lasso</b>" not in page, "names are escaped"


def test_nothing_is_compared_where_there_is_nothing_to_compare(evaluated: ReportData) -> None:
    from dataclasses import replace

    one = evaluated.results[evaluated.results["method"] == "gin"]
    page = words(render_report(replace(evaluated, results=one, permutations=None, trivial=None)))
    assert "Are the methods different?" not in page and "better than chance?" not in page
    bare = replace(evaluated, results=None, predictions=None, permutations=None, trivial=None)
    assert "ROC curve and confusion matrix" not in words(render_report(bare))
