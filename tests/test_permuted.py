"""Permuted labels, trivial methods and the files of an evaluation for a paper."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from cignn import Cohort
from cignn.datasets import make_cohort
from cignn.evaluation import (
    KFold,
    LeaveOneSiteOut,
    Store,
    evaluate,
    evaluate_permuted,
    permutation_table,
    runner,
)
from cignn.evaluation.permuted import labels_permuted
from cignn.evaluation.runner import plan
from cignn.evaluation.trivial import trivial_scores
from commands import SCRIPT, Result, interrupted, write_study

LASSO = {"lasso": {"C": 1.0}}


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    sizes = {"n_rois": 8, "n_edges": 4, "effect": 1.0, "n_sites": 3, "data": "matrices"}
    return make_cohort(36, random_state=0, **sizes)


def test_labels_stay_within_their_site_and_scans_with_their_subject() -> None:
    rng = np.random.default_rng(0)
    subjects = np.repeat([f"s{i}" for i in range(30)], 2)
    y = np.repeat(rng.integers(0, 2, 30), 2)
    sites = np.repeat(rng.choice(["a", "b"], 30), 2)
    cohort = Cohort(matrices=np.tile(np.eye(3), (60, 1, 1)), y=y, sites=sites, subjects=subjects)
    seen = set()
    for seed in range(20):
        new = labels_permuted(cohort, seed)
        assert (new[::2] == new[1::2]).all(), "a subject has one label"
        for site in ("a", "b"):
            assert sorted(new[sites == site]) == sorted(y[sites == site])
        seen.add(tuple(new))
    assert len(seen) > 10 and (labels_permuted(cohort, 3) == labels_permuted(cohort, 3)).all()


def test_a_subject_at_two_sites_keeps_one_label() -> None:
    subjects = np.repeat([f"s{i}" for i in range(12)], 2)
    sites = np.array(["a", "b"] * 6 + ["a", "a"] * 6)
    y = np.repeat([0, 1] * 6, 2)
    cohort = Cohort(matrices=np.tile(np.eye(3), (24, 1, 1)), y=y, sites=sites, subjects=subjects)
    for seed in range(10):
        new = labels_permuted(cohort, seed)
        assert (new[::2] == new[1::2]).all()
        assert new[:12].sum() == 6, "those at both sites exchange labels among themselves"


def test_classes_that_are_sites_cannot_be_permuted(cohort: Cohort) -> None:
    alike = cohort._with(sites=[f"site-{label}" for label in cohort.y])
    with pytest.raises(ValueError, match="no site has subjects of two classes"):
        evaluate_permuted(LASSO, alike, n_permutations=2)


def test_a_strong_effect_is_told_from_chance_and_permutations_resume(
    cohort: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = evaluate(LASSO, cohort, KFold(3), verbose=0)
    few = evaluate_permuted(LASSO, cohort, KFold(3), n_permutations=5, store=tmp_path, verbose=0)
    ran = Mock(wraps=runner.run_stack)
    monkeypatch.setattr(runner, "run_stack", ran)
    more = evaluate_permuted(LASSO, cohort, KFold(3), n_permutations=9, store=tmp_path, verbose=0)
    assert ran.call_count == 4 * 3, "only the new ones are run"
    same = more[more["permutation"] <= 5].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, few)
    table = permutation_table(results, more).set_index("metric")
    assert table.loc["accuracy", "p_value"] == pytest.approx(0.1), "the smallest there is"
    assert table.loc["accuracy", "n_permutations"] == 9
    assert abs(table.loc["accuracy", "permuted_mean"] - 0.5) < 0.25


def test_permutations_with_a_failure_do_not_count() -> None:
    columns = {"method": "gin", "data": "d", "protocol": "kfold"}
    results = pd.DataFrame(columns | {"metric": "accuracy", "value": [0.9, 0.9]})
    null = pd.DataFrame(columns | {"metric": "accuracy", "value": [0.5, 0.5, 0.95], "permutation": [1, 1, 2]})
    broken = pd.DataFrame(columns | {"metric": "error", "value": [np.nan], "permutation": [2]})
    (row,) = permutation_table(results, pd.concat([null, broken])).to_dict("records")
    assert row["n_permutations"] == 1 and row["p_value"] == 0.5
    with pytest.raises(ValueError, match="must come from evaluate_permuted"):
        permutation_table(results, results)
    with pytest.raises(ValueError, match="metric must be one of accuracy"):
        permutation_table(results, null, ["calibration_error"])


def test_trivial_methods_know_classes_and_sites_of_the_training_part_alone(cohort: Cohort) -> None:
    y = np.where(cohort.sites == cohort.sites[0], 1, 0)  # the site is the label
    data = cohort.with_y(y)
    tasks = plan(LASSO, {"d": data}, KFold(3), 1)
    scores = trivial_scores(tasks, data).pivot_table("value", "method", "metric")
    assert scores.loc["site's majority", "accuracy"] == 1 and scores.loc["site's majority", "roc_auc"] == 1
    assert scores.loc["majority class", "roc_auc"] == 0.5 and scores.loc["majority class", "mcc"] == 0
    left_out = trivial_scores(plan(LASSO, {"d": cohort}, LeaveOneSiteOut(), 1), cohort)
    assert set(left_out["method"]) == {"majority class"}, "nothing is known of a site that is left out"


def test_scores_are_permuted_too_and_a_small_error_is_good(cohort: Cohort) -> None:
    score = cohort.matrices[:, 0, 1] + cohort.matrices[:, 2, 3]
    data = cohort.with_y(score)
    results = evaluate(["ridge"], data, KFold(3), verbose=0)
    permuted = evaluate_permuted(["ridge"], data, KFold(3), n_permutations=9, verbose=0)
    assert {"mean", "site's mean"} <= set(permuted["method"])
    table = permutation_table(results, permuted).set_index("metric")
    assert table.loc["mae", "value"] < table.loc["mae", "permuted_mean"]
    assert table.loc["mae", "p_value"] <= 0.2 and list(table.index) == ["mae", "r2", "r"]


@pytest.mark.medium
def test_evaluate_writes_what_a_results_section_needs(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cohort = make_cohort(36, 8, n_edges=4, effect=0.8, n_sites=2, lengths=(30, 40), random_state=0)
    write_study(tmp_path / "my_study", cohort)
    line = "evaluate my_study --protocol kfold --folds 3 --methods lasso,linear-svm --seeds 2 --out res"
    words = line.split()
    monkeypatch.setenv("COLUMNS", "80")
    result = call(*words, "--permutations", "2")
    assert result.code == 0, result.err
    assert all(len(line) <= 80 for line in result.out.splitlines())
    for name in ("sensitivity", "specificity", "majority class", "permuted labels"):
        assert name in result.words
    said = pd.read_csv("res/predictions.csv")
    assert len(said) == 36 * 2 * 2 and list(said) == [
        *("subject", "site", "split", "seed", "label", "prediction", "p_control", "p_patient", "method")
    ]
    assert (said.groupby(["method", "seed", "subject"]).size() == 1).all()
    scores = pd.read_csv("res/scores.csv")
    known = scores[scores["metric"] == "sensitivity"].set_index(["method", "split", "seed"])["value"]
    for (method, split, seed), some in said[said["label"] == "patient"].groupby(["method", "split", "seed"]):
        share = (some["prediction"] == "patient").mean()
        assert share == pytest.approx(known.loc[(method, split, seed)])
    compared = pd.read_csv("res/comparison.csv")
    assert compared["metric"].tolist() == ["accuracy", "balanced_accuracy", "roc_auc"]
    tested = pd.read_csv("res/permutations.csv")
    assert set(tested["method"]) == {"lasso", "linear-svm", "majority class", "site's majority"}
    assert (tested["p_value"] >= 1 / 3 - 1e-9).all() and (tested["n_permutations"] == 2).all()
    with Store("res") as store:
        assert len(store.tasks()) == 12, "permuted labels are kept elsewhere"
    told = json.loads(call(*words[:-1], "res", "--methods", "lasso", "--json").out)
    assert told["permutations"] is None and told["comparison"] is None
    assert not (tmp_path / "res" / "comparison.csv").exists(), "of methods that are not there any more"
    assert {row["method"] for row in told["trivial"]} == {"majority class", "site's majority"}


# ------------------------------------------------------------------------ a cluster


@pytest.mark.slow
def test_permutations_on_a_cluster_resume_and_give_the_same(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted on the cluster and resumed there, it gives the table of one process."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    make_cohort(40, 12, n_edges=4, effect=0.8, lengths=(40, 50), random_state=0).save("study.npz")
    words = "evaluate study.npz --methods lasso --set C=1.0 --protocol kfold --folds 3 --permutations 30"
    words += " --json"
    alone = call(*words.split(), "--out", "alone")
    assert alone.code == 0, alone.err
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        line = [*words.split(), "--out", "spread", "--scheduler", cluster.scheduler_address]
        stopped = interrupted(SCRIPT, *line, cwd=tmp_path, when=lambda: kept_tasks("spread") > 10)
        assert stopped.code == 130 and "the same command resumes them" in stopped.words, stopped.err
        before = times_of("spread")
        assert 10 < len(before) < 90
        done = call(*line)
        assert done.code == 0, done.err
    after = times_of("spread")
    assert len(after) == 90 and before.items() <= after.items()  # nothing is repeated
    one, other = (pd.DataFrame(json.loads(result.out)["permutations"]) for result in (alone, done))
    pd.testing.assert_frame_equal(one, other)


def kept_tasks(folder: str) -> int:
    """Number of tasks with permuted labels that are stored."""
    try:
        return len(times_of(folder))
    except sqlite3.Error:  # just being made
        return 0


def times_of(folder: str) -> dict[str, str]:
    """When each task with permuted labels was finished, by key."""
    place = Path(folder, "permutations", "results.sqlite")
    with contextlib.closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as file:
        return dict(file.execute("SELECT key, finished FROM tasks"))
