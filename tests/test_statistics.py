"""What must hold for the statistics: each against an example worked out by hand, and on pure noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cignn.datasets import make_cohort
from cignn.evaluation import (
    KFold,
    Store,
    average_ranks,
    bootstrap_intervals,
    calibration_curve,
    compare_methods,
    corrected_interval,
    corrected_t_test,
    critical_difference,
    evaluate,
    expected_calibration_error,
    friedman_test,
    nemenyi_test,
    permutation_p_value,
    permutation_test,
    score_table,
    site_table,
    summary,
)
from cignn.evaluation.explanation import permuted_labels
from cignn.evaluation.statistics import holm


def results(scores: dict[str, list[float]], metric: str = "accuracy", **columns: Any) -> pd.DataFrame:
    """What `evaluate` gives: the scores of each method on splits 1, 2, …"""
    rows = [
        {
            "method": method,
            "data": "d",
            "protocol": "kfold",
            "split": str(k + 1),
            "seed": 0,
            "explainer": "",
            "metric": metric,
            "value": value,
            "n_train": 80,
            "n_validation": 10,
            "n_test": 10,
            "error": None,
        }
        | columns
        for method, values in scores.items()
        for k, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


# Three methods in four blocks; ranks of a: 1 1 2 1, of b: 2 2 1 3, of c: 3 3 3 2
TABLE = pd.DataFrame({"a": [0.9, 0.8, 0.7, 0.9], "b": [0.8, 0.7, 0.8, 0.5], "c": [0.1, 0.2, 0.3, 0.6]})


# ------------------------------------------------------------------------ tables


def test_a_summary_is_mean_and_standard_deviation() -> None:
    both = pd.concat([results({"x": [0.5, 0.7], "y": [0.6]}), results({"x": [0.1, 0.3]}, "mcc")])
    table = summary(both)
    assert table.loc[("d", "x")].tolist() == ["0.600 ± 0.141", "0.200 ± 0.141"]
    assert table.loc[("d", "y")].tolist() == ["0.600", "–"]
    assert table.columns.tolist() == ["accuracy", "mcc"]
    numbers = summary(both, ["mcc"], as_text=False)
    assert numbers.loc[("d", "x"), ("mcc", "std")] == pytest.approx(math.sqrt(0.02))
    assert numbers.loc[("d", "x"), ("mcc", "n")] == 2
    assert summary(both, digits=1).loc[("d", "x"), "accuracy"] == "0.6 ± 0.1"


def test_a_summary_counts_failures_and_leaves_explainers_apart() -> None:
    failed = results({"x": [math.nan], "z": [math.nan]}, "error", error="no luck")
    table = summary(pd.concat([results({"x": [0.5, 0.7]}), failed]))
    assert table.loc[("d", "x"), "failed"] == 1 and table.loc[("d", "x"), "accuracy"] == "0.600 ± 0.141"
    assert table.loc[("d", "z")].tolist() == ["–", 1]
    numbers = summary(pd.concat([results({"x": [0.5, 0.7]}), failed]), as_text=False)
    assert numbers["accuracy", "n"].tolist() == [2, 0] and numbers["accuracy", "n"].dtype == int
    for table_of in (score_table, compare_methods):
        with pytest.raises(ValueError, match="no scores, every task failed; the column error says why"):
            table_of(failed)
    explained = results({"x": [0.8]}, "explanation_roc_auc", explainer="random")
    table = summary(pd.concat([results({"x": [0.5, 0.7]}), explained]))
    assert table.loc[("d", "x", ""), "accuracy"] == "0.600 ± 0.141"
    assert table.loc[("d", "x", "random"), "explanation_roc_auc"] == "0.800"


def test_a_score_table_has_a_row_per_block() -> None:
    scores = results({"b": [0.1, 0.2], "a": [0.3, 0.5]})
    table = score_table(scores)
    assert table.columns.tolist() == ["b", "a"] and table.shape == (2, 2)
    assert score_table(scores, block=("data",)).loc["d"].tolist() == pytest.approx([0.15, 0.4])
    with pytest.raises(ValueError, match=r"method 'b' has no accuracy in block \(data d, .*, seed 0\);"):
        score_table(results({"a": [0.1, 0.2], "b": [0.3]}))
    with pytest.raises(ValueError, match=r"no metric 'acc'\. There are accuracy"):
        score_table(scores, "acc")


def test_a_site_table_has_a_row_per_site_and_their_mean() -> None:
    parts = [
        results({"m": [value]}, protocol="loso", split=site, seed=seed, n_test=size)
        for site, size, values in (("A", 30, (0.6, 0.8)), ("B", 10, (0.9, 0.9)))
        for seed, value in enumerate(values)
    ]
    table = site_table(pd.concat(parts))
    assert table.loc["A"].tolist() == [30, "0.700 ± 0.141"]
    assert table.loc["B"].tolist() == [10, "0.900 ± 0.000"]
    assert table.loc["mean over sites"].tolist() == [40, "0.800 ± 0.141"]
    with pytest.raises(ValueError, match='evaluate with protocol="loso"'):
        site_table(results({"m": [0.5]}))


def test_a_site_table_of_two_data_sets_ends_with_the_mean_over_all_sites() -> None:
    parts = [
        results({"m": [value], "o": [value - 0.1]}, protocol="loso", data=data, split=site, n_test=10)
        for data, site, value in (("d", "A", 0.6), ("d", "B", 0.8), ("e", "A", 1.0))
    ]
    table = site_table(pd.concat(parts))
    assert table.columns.tolist() == ["scans", "m", "o"] and table.index.names == ["data", "site"]
    assert table.loc[("e", "A")].tolist() == [10, "1.000", "0.900"]
    assert table.index.tolist()[-1] == ("all", "mean over sites") and len(table) == 4
    assert table.iloc[-1].tolist() == [30, "0.800 ± 0.200", "0.700 ± 0.200"]


# ------------------------------------------------------------------------- ranks


def test_average_ranks_worked_out_by_hand() -> None:
    assert average_ranks(TABLE).to_dict() == {"a": 5 / 4, "b": 8 / 4, "c": 11 / 4}
    assert average_ranks(TABLE, higher_is_better=False).to_dict() == {"a": 11 / 4, "b": 8 / 4, "c": 5 / 4}
    tied = pd.DataFrame({"a": [1, 1], "b": [1, 0], "c": [0, 0]})
    assert average_ranks(tied).to_dict() == {"a": 1.25, "b": 2.0, "c": 2.75}


def test_friedman_worked_out_by_hand() -> None:
    # 12 / (N k (k + 1)) · Σ R² − 3 N (k + 1) with rank sums 5, 8, 11
    statistic = 12 / (4 * 3 * 4) * (25 + 64 + 121) - 3 * 4 * 4
    test = friedman_test(TABLE)
    assert test.statistic == pytest.approx(statistic)
    assert test.p_value == pytest.approx(math.exp(-statistic / 2))  # chi-square with two degrees of freedom
    assert friedman_test(pd.DataFrame(np.ones((4, 3)))).p_value == 1


def test_critical_differences_of_the_published_table() -> None:
    # Demšar 2006: q(0.05) is 1.960, 2.343 and 2.569 for 2, 3 and 4 methods; his example has 4 on 14 data sets
    assert critical_difference(2, 1) == pytest.approx(1.960 * math.sqrt(6 / 6), abs=1e-3)
    assert critical_difference(3, 6) == pytest.approx(2.343 * math.sqrt(12 / 36), abs=1e-3)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert critical_difference(6, 10) == pytest.approx(2.850 * math.sqrt(42 / 60), abs=1e-3)
    assert critical_difference(4, 14, 0.1) < critical_difference(4, 14)
    with pytest.raises(ValueError, match="at least 2 methods and 1 ranking, got 1 and 3"):
        critical_difference(1, 3)


def test_nemenyi_worked_out_by_hand() -> None:
    test = nemenyi_test(TABLE)
    # q = |rank difference| / √(k (k + 1) / 6N), times √2 a studentised range
    q = (11 / 4 - 5 / 4) / math.sqrt(3 * 4 / (6 * 4)) * math.sqrt(2)
    assert test.p_values.loc["a", "c"] == pytest.approx(stats.studentized_range.sf(q, 3, np.inf), abs=1e-6)
    assert (test.p_values.to_numpy() == test.p_values.T.to_numpy()).all()
    assert test.average_ranks["a"] == 1.25
    gaps = np.abs(np.subtract.outer(test.average_ranks.to_numpy(), test.average_ranks.to_numpy()))
    assert ((gaps > test.critical_difference) == (test.p_values.to_numpy() < 0.05)).all()


def test_ranks_refuse_what_cannot_be_ranked() -> None:
    with pytest.raises(ValueError, match=r"at least 3 methods in 2 blocks.*corrected_t_test"):
        friedman_test(TABLE[["a", "b"]])
    with pytest.raises(ValueError, match="missing scores"):
        average_ranks(TABLE.replace(0.1, math.nan))
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\), got 5"):
        nemenyi_test(TABLE, alpha=5)


def test_means_of_the_same_scores_in_another_order_are_ties() -> None:
    table = pd.DataFrame({"a": [0.1 + 0.2] * 3, "b": [0.3] * 3, "c": [0.0, 0.9, 0.0]})
    assert (table["a"] != table["b"]).all(), "in the last digit"
    assert average_ranks(table)["a"] == average_ranks(table)["b"]
    assert friedman_test(table) == friedman_test(table.assign(a=table["b"]))
    assert nemenyi_test(table).p_values.loc["a", "b"] == pytest.approx(1)


# ------------------------------------------------------------------------- pairs


def test_the_corrected_t_test_worked_out_by_hand() -> None:
    d = np.array([0.1, 0.2, 0.3, 0.2])  # mean 0.2, variance 0.02 / 3
    test = corrected_t_test(d, n_train=90, n_test=10)
    t = 0.2 / math.sqrt((1 / 4 + 1 / 9) * 0.02 / 3)
    assert test.difference == pytest.approx(0.2) and test.statistic == pytest.approx(t)
    assert test.p_value == pytest.approx(2 * stats.t.sf(t, 3))
    plain = stats.ttest_1samp(d, 0)
    assert corrected_t_test(d, 1e12, 1).p_value == pytest.approx(plain.pvalue)  # nothing to correct
    assert test.p_value > plain.pvalue
    half = stats.t.ppf(0.975, 3) * math.sqrt((1 / 4 + 1 / 9) * 0.02 / 3)
    assert (test.low, test.high) == pytest.approx((0.2 - half, 0.2 + half))
    narrow = corrected_t_test(d, 90, 10, level=0.5)
    assert test.low < narrow.low < 0.2 < narrow.high < test.high
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 95"):
        corrected_t_test(d, 90, 10, level=95)


def test_an_interval_ends_at_zero_where_the_p_value_is_its_level() -> None:
    d = np.array([0.1, 0.2, -0.1, 0.3, 0.2])
    test = corrected_t_test(d, 80, 20)
    assert corrected_t_test(d, 80, 20, level=1 - test.p_value).low == pytest.approx(0, abs=1e-9)


def test_an_interval_without_overlap_is_students() -> None:
    values = np.array([0.6, 0.7, 0.8, 0.7])
    ends = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert corrected_interval(values, 0.0) == pytest.approx(ends)


def test_differences_without_spread() -> None:
    assert corrected_t_test(np.zeros(5), 9, 1) == (0, 0, 1, 0, 0)
    assert corrected_t_test(np.full(5, -0.5), 9, 1) == (-0.5, -math.inf, 0, -0.5, -0.5)
    with pytest.raises(ValueError, match="at least two differences"):
        corrected_t_test([0.1], 9, 1)


def test_differences_that_are_rounding_are_none() -> None:
    assert corrected_t_test(np.array([1.1e-16, 1.2e-16, 1.1e-16]), 90, 10).p_value == 1
    assert corrected_t_test(np.array([0.1, 0.12, 0.11]), 90, 10).p_value < 0.05


def test_methods_are_compared_pair_by_pair() -> None:
    scores = {"a": [0.9, 0.8, 0.9, 0.8], "b": [0.8, 0.6, 0.6, 0.6], "c": [0.9, 0.8, 0.9, 0.8]}
    table = compare_methods(results(scores)).set_index(["first", "second"])
    expected = corrected_t_test(np.array([0.1, 0.2, 0.3, 0.2]), 90, 10)
    assert table.loc[("a", "b"), "difference"] == pytest.approx(0.2)
    assert table.loc[("a", "b"), "p_value"] == pytest.approx(expected.p_value)
    assert table.loc[("a", "b"), ["low", "high"]].tolist() == pytest.approx([expected.low, expected.high])
    assert table.loc[("a", "c"), "p_value"] == 1
    assert table.loc[("a", "b"), "p_holm"] == pytest.approx(3 * expected.p_value)
    with pytest.raises(ValueError, match="only one method on 'd', 'a'; evaluate two"):
        compare_methods(results({"a": [0.1, 0.2]}))


def test_holm_worked_out_by_hand() -> None:
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03, 0.5])), [0.09, 0.04, 0.09, 0.5])
    assert holm(np.array([0.9, 0.8])).tolist() == [1, 1]


# -------------------------------------------------------------------- resampling


def predictions(
    y: np.ndarray, predicted: np.ndarray, chances: np.ndarray | None = None, **columns: Any
) -> pd.DataFrame:
    """What `Store.predictions` gives of one task."""
    table = pd.DataFrame(
        {"method": "m", "data": "d", "protocol": "holdout", "split": "1", "seed": 0}, range(len(y))
    )
    table = table.assign(subject=[f"s{i:04d}" for i in range(len(y))], y_true=y, y_pred=predicted)
    if chances is not None:
        table = table.assign(p_0=1 - chances, p_1=chances)
    return table.assign(**columns)


def test_intervals_of_an_accuracy_are_those_of_a_binomial() -> None:
    y = np.arange(400) % 2
    predicted = np.where(np.arange(400) < 300, y, 1 - y)
    row = bootstrap_intervals(predictions(y, predicted), ["accuracy"]).iloc[0]
    half = 1.96 * math.sqrt(0.75 * 0.25 / 400)
    assert row["value"] == 0.75
    assert row["low"] == pytest.approx(0.75 - half, abs=0.01)
    assert row["high"] == pytest.approx(0.75 + half, abs=0.01)


def test_scans_of_one_subject_are_drawn_together() -> None:
    y = np.arange(100) % 2
    predicted = np.where(np.arange(100) < 75, y, 1 - y)
    once = predictions(y, predicted)
    often = pd.concat([once.assign(seed=seed) for seed in range(9)])  # nine times the same people
    widths = [np.ptp(bootstrap_intervals(t, ["accuracy"])[["low", "high"]]) for t in (once, often)]
    assert widths[0] == pytest.approx(widths[1])


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        y = rng.integers(0, 2, 60)
        predicted = np.where(rng.random(60) < 0.7, y, 1 - y)
        row = bootstrap_intervals(predictions(y, predicted), ["accuracy"], n_resamples=300).iloc[0]
        covered += row["low"] <= 0.7 <= row["high"]
    assert 88 <= covered <= 99


def test_intervals_are_around_the_mean_of_the_summary() -> None:
    cohort = make_cohort(30, 8, n_edges=4, effect=0.5, data="matrices", random_state=0)
    with Store() as store:
        table = evaluate({"lasso": {"C": 1.0}}, cohort, KFold(3), seeds=2, store=store)
        said = store.predictions()
    intervals = bootstrap_intervals(said, n_resamples=200).set_index("metric")
    means = table.groupby("metric")["value"].mean().drop("calibration_error")
    pd.testing.assert_series_equal(intervals["value"].sort_index(), means, check_names=False)
    assert (intervals["low"] <= intervals["high"]).all() and len(intervals) == 7
    p = permutation_test(said, "roc_auc").iloc[0]
    assert p["p_value"] < 0.05 and p["value"] == pytest.approx(means["roc_auc"])


@pytest.mark.medium
@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "mcc"])
def test_p_values_of_noise_are_uniform(metric: str) -> None:
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(200):
        y, chances = np.arange(400) % 2, rng.random(400)
        some = predictions(y, (chances > 0.5).astype(int), chances)
        p_values.append(permutation_test(some, metric, n_permutations=199).iloc[0]["p_value"])
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) <= 0.05) <= 0.1


def test_labels_are_permuted_over_subjects_not_scans() -> None:
    """Two subjects with many scans each cannot be significant: their labels permute in two ways."""
    y = np.repeat([0, 1], 50)
    some = predictions(y, y, subject=np.repeat(["a", "b"], 50))
    assert permutation_test(some).iloc[0]["p_value"] == pytest.approx(0.5, abs=0.05)
    assert permutation_test(predictions(y, y)).iloc[0]["p_value"] < 0.001


def test_a_model_on_permuted_labels_sees_one_label_per_subject() -> None:
    subjects = np.repeat([f"sub-{i}" for i in range(20)], 2)
    labels = np.repeat(np.arange(20) % 2, 2)
    shuffled = permuted_labels(labels, subjects, np.random.RandomState(0))
    by_subject = shuffled.reshape(20, 2)
    assert (by_subject[:, 0] == by_subject[:, 1]).all() and shuffled.sum() == labels.sum()
    assert (shuffled != labels).any()
    alone = permuted_labels(labels, None, np.random.RandomState(0)).reshape(20, 2)
    assert (alone[:, 0] != alone[:, 1]).any()


def test_labels_of_scans_before_and_after_are_permuted_within_the_subject() -> None:
    rng = np.random.default_rng(0)
    y, subject = np.tile([0, 1], 20), np.repeat([f"s{i}" for i in range(20)], 2)
    both = {"subject": subject, "position": np.arange(40)}
    told = permutation_test(predictions(y, y, **both)).iloc[0]
    assert told["p_value"] < 0.01 and told["chance"] == pytest.approx(0.5, abs=0.02)
    always = permutation_test(predictions(y, np.ones(40, int), **both)).iloc[0]
    assert always["p_value"] == 1 and always["chance"] == 0.5
    p_values = [
        permutation_test(predictions(y, y, rng.random(40), **both), "roc_auc", n_permutations=99)["p_value"][
            0
        ]
        for _ in range(100)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    with pytest.raises(ValueError, match='only the column "position" tells apart'):
        permutation_test(predictions(y, y, subject=subject))
    mixed = np.where(np.arange(40) < 20, y, 1)  # the others have one class
    assert permutation_test(predictions(mixed, mixed, **both)).iloc[0]["p_value"] < 0.01


def test_labels_are_permuted_within_a_split() -> None:
    """All of a site have one label and are called so: within a site there is nothing to permute."""
    parts = [predictions(np.full(20, k), np.full(20, k), split=str(k)) for k in (0, 1)]
    parts[1]["subject"] += "b"
    row = permutation_test(pd.concat(parts)).iloc[0]
    assert row["value"] == row["chance"] == row["p_value"] == 1


def test_p_values_worked_out_by_hand() -> None:
    assert permutation_p_value(0.8, [0.5, 0.8, 0.9, 0.4]) == pytest.approx(3 / 5)
    assert permutation_p_value(1.0, np.zeros(99)) == 1 / 100
    assert permutation_p_value(0.5, [math.nan, 0.1]) == 1 / 2
    assert math.isnan(permutation_p_value(math.nan, [0.1, 0.2])), "no score is not the best one"


def test_words_three_classes_and_a_class_that_nobody_had() -> None:
    y = np.array(["a", "b", "c"] * 10)
    some = predictions(y, y).assign(p_a=y == "a", p_b=y == "b", p_c=y == "c")
    some[["p_a", "p_b", "p_c"]] = some[["p_a", "p_b", "p_c"]].astype(float)
    values = bootstrap_intervals(some, n_resamples=20).set_index("metric")["value"]
    assert values["accuracy"] == values["roc_auc"] == values["f1"] == 1
    two = some[some["y_true"] != "c"]
    assert bootstrap_intervals(two, ["accuracy"], n_resamples=20).iloc[0]["value"] == 1


def test_resampling_refuses_what_it_cannot_use() -> None:
    y = np.arange(10) % 2
    with pytest.raises(ValueError, match=r"metric must be one of accuracy.*got 'auc'"):
        bootstrap_intervals(predictions(y, y), ["auc"])
    with pytest.raises(ValueError, match="roc_auc needs probabilities, 'm' gives none"):
        permutation_test(predictions(y, y), "roc_auc")
    with pytest.raises(ValueError, match="no column 'subject'"):
        permutation_test(predictions(y, y).drop(columns="subject"))
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 95"):
        bootstrap_intervals(predictions(y, y), level=95)
    with pytest.raises(ValueError, match="no predictions; evaluate with this store first"):
        permutation_test(predictions(y, y)[:0])


# ------------------------------------------------------------------- calibration


def test_a_calibration_curve_worked_out_by_hand() -> None:
    y = np.array([0, 0, 1, 0, 1, 1])
    chance = np.array([0.1, 0.3, 0.3, 0.7, 0.9, 1.0])
    curve = calibration_curve(y, np.stack([1 - chance, chance], 1), [0, 1], n_bins=4)
    np.testing.assert_allclose(curve["probability"], [0.1, 0.3, 0.7, 0.95])
    np.testing.assert_allclose(curve["frequency"], [0, 1 / 2, 0, 1])
    assert curve["count"].tolist() == [1, 2, 1, 2] and curve.index.tolist() == [0, 1, 2, 3]
    error = expected_calibration_error(y, np.stack([1 - chance, chance], 1), [0, 1], n_bins=4)
    assert error == pytest.approx((0.1 + 2 * 0.2 + 0.7 + 2 * 0.05) / 6)


def test_the_class_whose_probabilities_are_calibrated_can_be_named() -> None:
    chances = np.array([[0.9, 0.1], [0.85, 0.15], [0.25, 0.75]])
    y = np.array(["ASD", "TD", "TD"])
    curve = calibration_curve(y, chances, np.array(["ASD", "TD"]), positive="ASD")
    assert curve["frequency"].tolist() == [0, 0, 1] and curve["count"].sum() == 3
    assert curve["probability"].tolist() == pytest.approx([0.25, 0.85, 0.9])


def test_three_classes_are_calibrated_by_the_one_predicted() -> None:
    chances = np.array([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.2, 0.6, 0.2]])
    curve = calibration_curve(np.array([0, 2, 1]), chances, [0, 1, 2], n_bins=2)
    assert curve["frequency"].tolist() == pytest.approx([2 / 3])
    assert curve["probability"].tolist() == pytest.approx([2.2 / 3])


def test_honest_probabilities_have_no_calibration_error() -> None:
    rng = np.random.default_rng(0)
    chance = rng.random(20000)
    y = (rng.random(20000) < chance).astype(int)
    assert expected_calibration_error(y, np.stack([1 - chance, chance], 1), [0, 1]) < 0.02
    sure = (chance > 0.5).astype(float)
    assert expected_calibration_error(y, np.stack([1 - sure, sure], 1), [0, 1]) > 0.2
    with pytest.raises(ValueError, match=r"\(predictions, classes\) \(3, 2\), got \(3,\)"):
        calibration_curve(y[:3], chance[:3], [0, 1])
