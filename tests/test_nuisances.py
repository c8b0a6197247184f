"""Predictions that follow a nuisance beyond the label are told from those that only share the label."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.nuisances import null_p_values
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from cignn import Cohort, CohortClassifier
from cignn.connectome import Deconfound, make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import KFold, Store, audit, evaluate, nuisance_table, nuisance_test, site_controlled_auc
from cignn.evaluation.nuisances import nuisance_checks
from cignn.report import report_of
from cignn.report.html import render_report

RNG = np.random.default_rng(0)


def drawn(n: int = 150, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and motion that follows them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return y, y + rng.normal(size=n)


def test_p_values_are_uniform_where_predictions_know_the_label_alone() -> None:
    table = null_p_values(40, subjects=60)
    assert (table["p (uniform)"] > 1e-4).all() and (table["p < 0.05"] < 0.25).all()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["number", "category"])
def test_a_prediction_made_of_the_nuisance_is_found(classes: int, kind: str) -> None:
    y, motion = drawn(classes=classes)
    noise = np.random.default_rng(1).normal(size=(len(y), classes))
    nuisance: Any = motion if kind == "number" else np.where(motion > 0.5, "high", "low")
    found = nuisance_test(y, noise + motion[:, None] * np.arange(classes), nuisance, n_permutations=199)
    assert found.p_value == 1 / 200 and abs(found.association) > 2 * found.chance


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 100))
def test_neither_monotone_scores_nor_order_nor_names_of_classes_matter(seed: int) -> None:
    y, motion = drawn(40, seed=seed)
    scores = motion + np.random.default_rng(seed + 1).normal(size=40)
    found = nuisance_test(y, scores, motion, n_permutations=19)
    assert nuisance_test(y, np.exp(scores), motion**3, n_permutations=19) == found
    order = np.random.default_rng(seed).permutation(40)
    other = nuisance_test(np.array(["td", "asd"])[y][order], scores[order], motion[order], n_permutations=19)
    assert other.association == pytest.approx(found.association)


def test_the_association_is_that_within_classes() -> None:
    y = np.repeat([0, 1], 50)
    motion = np.concatenate([np.arange(50), 100 + np.arange(50)])
    against = np.concatenate([-np.arange(50), 100 - np.arange(50)])  # over all subjects they go together
    assert nuisance_test(y, against, motion, n_permutations=19).association == pytest.approx(-1)
    site = np.repeat(["A", "B"], 50)
    assert np.isnan(nuisance_test(y, against, site).p_value)  # a site of one class tells nothing more


def test_what_is_held_fixed_is_no_longer_found() -> None:
    rng = np.random.default_rng(0)
    y, site = rng.integers(0, 2, 300), rng.integers(0, 3, 300)
    motion, scores = 3 * site + rng.normal(size=300), 3 * site + rng.normal(size=300)
    assert nuisance_test(y, scores, motion).p_value < 0.01
    assert nuisance_test(y, scores, motion, within=site).p_value > 0.01


def test_rows_of_a_subject_count_once_and_missing_values_not() -> None:
    y, motion = drawn(30)
    scores = motion + RNG.normal(size=30)
    once = nuisance_test(y, scores, motion, n_permutations=49)
    again = np.r_[0:30, 0:30]
    names = np.array([f"sub-{i}" for i in range(30)])
    twice = nuisance_test(y[again], scores[again], motion[again], subjects=names[again], n_permutations=49)
    assert twice.n_subjects == 30 and twice.association == pytest.approx(once.association)
    assert nuisance_test(y, scores, np.where(y == 0, np.nan, motion)).n_subjects == (y == 1).sum()
    with pytest.raises(ValueError, match=r"nuisance must have one row per label \(30\), got 29"):
        nuisance_test(y, scores, motion[1:])


def test_p_values_of_several_nuisances_are_corrected() -> None:
    y, motion = drawn()
    table = nuisance_table(y, motion, {"motion": motion, "age": RNG.normal(size=150), "site": ["A"] * 150})
    assert table["nuisance"].tolist() == ["motion", "age", "site"]
    assert (table["p_holm"] >= table["p_value"])[:2].all() and np.isnan(table["p_holm"].iloc[2])


# ------------------------------------------------------------------------- within sites


def test_recognising_the_scanner_wins_nothing_within_sites() -> None:
    rng = np.random.default_rng(0)
    site = rng.integers(0, 2, 400)
    y = (rng.random(400) < np.where(site == 1, 0.8, 0.2)).astype(int)
    found = site_controlled_auc(y, site + 0.01 * rng.normal(size=400), site, n_resamples=200)
    assert found.overall > 0.7 and found.low < 0.5 < found.high and found.n_sites == 2


@pytest.mark.parametrize("classes", [2, 3])
def test_with_one_site_it_is_the_plain_auc(classes: int) -> None:
    y, chances = RNG.integers(0, classes, 60), RNG.dirichlet(np.ones(classes), 60)
    found = site_controlled_auc(y, chances, ["A"] * 60, n_resamples=0)
    shown = chances[:, 1] if classes == 2 else chances
    assert found.value == found.overall == pytest.approx(roc_auc_score(y, shown, multi_class="ovr"))
    assert np.isnan(found.low)


def test_pairs_are_those_of_the_same_site_and_model() -> None:
    y, score, site = [0, 1, 0, 1], [0.1, 0.2, 0.9, 0.8], ["A", "A", "B", "B"]
    assert site_controlled_auc(y, score, site, n_resamples=0).value == 0.5
    assert site_controlled_auc(y, score, site, n_resamples=0, positive=0).value == 0.5
    fold = [0, 1, 1, 1]
    assert site_controlled_auc(y, score, site, tasks=fold, n_resamples=0)[:1] == (0.0,)
    nobody = site_controlled_auc(y, score, list("ABCD"), n_resamples=10)
    assert np.isnan(nobody.value) and nobody.n_pairs == nobody.n_sites == 0


# ------------------------------------------------------------------ audit and evaluation


def moving(seed: int = 0, **more: Any) -> Cohort:
    given: dict[str, Any] = {"n_edges": 20, "effect": 0.2, "motion": 1.0, "motion_shift": 0.75}
    return make_cohort(200, 30, data="matrices", lengths=(60, 80), random_state=seed, **given | more)


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(2))
def test_the_audit_says_that_the_prediction_follows_motion_and_what_helps(seed: int) -> None:
    cohort, name = moving(seed), "prediction → motion | label"
    found = audit(cohort)
    assert found[name].severity in ("warning", "serious") and "Deconfound" in found[name].advice
    assert found["prediction → age | label"].severity == "fine"
    within = audit(cohort, deconfound=Deconfound(("motion",), "within_classes"))
    assert within[name].severity == "fine" and abs(within[name].size) < abs(found[name].size) / 2
    assert "without motion" in within[name].message


@pytest.mark.medium
def test_a_site_that_tells_the_label_lifts_the_auc_between_sites_only() -> None:
    cohort = make_cohort(
        200, 16, n_edges=1, effect=0.0, site_effect=1.5, confounded=0.85, n_site_edges=30, random_state=0
    )
    found = audit(cohort)["AUC within sites"]
    assert found.severity == "warning" and found.size < 0.65 and "among all" in found.message


@pytest.mark.medium
def test_predictions_of_an_evaluation_are_tested(tmp_path: Path) -> None:
    cohort = moving(effect=0.0, motion_shift=2.0)
    pipe = make_connectome_pipeline(make_estimator("linear-svm", random_state=0))
    with Store(tmp_path) as store:
        evaluate({"svm": pipe}, {"moving": cohort}, KFold(3), store=store, verbose=0)
        rows = store.predictions()
    checks = nuisance_checks(rows, cohort, n_permutations=199)
    assert checks is not None and checks.auc is not None
    by_name = checks.table.set_index("nuisance")
    assert by_name.loc["motion", "p_value"] < 0.02 and by_name.loc["motion", "n_subjects"] == 200
    order = np.random.default_rng(0).permutation(200)  # subjects are found by name
    shuffled = nuisance_checks(rows, cohort[order], n_permutations=199)
    assert shuffled is not None
    assert np.allclose(shuffled.table["association"], checks.table["association"])
    assert "of the evaluation" in audit(cohort, predictions=rows)["prediction → motion | label"].message
    assert nuisance_checks(rows, Cohort(matrices=cohort.matrices, y=cohort.y)) is None


@pytest.mark.medium
def test_a_report_tells_what_the_predictions_follow() -> None:
    cohort = make_cohort(60, 12, n_edges=3, data="matrices", random_state=0)
    model = CohortClassifier.make(make_estimator("dir", epochs=1, random_state=0)).fit(cohort[:30])
    data = report_of(model, cohort)
    assert data.nuisances is not None and data.nuisances.table["n_subjects"].max() == 30
    motion = data.nuisances.table["nuisance"] == "motion"
    loud = data.nuisances.table.assign(
        association=np.where(motion, 0.6, 0), p_holm=np.where(motion, 0.001, 1)
    )
    page = render_report(replace(data, nuisances=data.nuisances._replace(table=loud)))
    assert "Do predictions follow a nuisance?" in page and "--deconfound motion<" in page
    assert "of the same site:" in page
    assert "Do predictions follow" not in render_report(replace(data, nuisances=None))
    assert report_of(model, cohort[:30]).nuisances is None  # all were trained on


def test_effects_within_classes_are_the_plain_ones_where_classes_do_not_differ() -> None:
    cohort = moving(effect=0.0, motion=0.5, motion_shift=0.0)
    plain, within = (Deconfound(("motion",), way).fit(cohort) for way in ("all", "within_classes"))
    assert np.allclose(plain.effects_, within.effects_, atol=0.2 * np.abs(plain.effects_).max())
    with pytest.raises(ValueError, match='fit_on="within_classes" needs labels'):
        Deconfound(("motion",), "within_classes").fit(cohort.with_y(None))


def test_effects_within_classes_leave_what_the_classes_differ_in() -> None:
    """A difference of the classes that is far from chance is no effect of motion."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    motion = y + rng.normal(size=200)
    values = 2.0 * y + 0.5 * motion + 0.1 * rng.normal(size=200)
    matrices = np.zeros((200, 3, 3))
    matrices[:, 0, 1] = matrices[:, 1, 0] = values
    cohort = Cohort(matrices=matrices, y=y, covariates=pd.DataFrame({"mean_fd": motion}))
    clean = Deconfound(("motion",), "within_classes").fit_transform(cohort).matrices[:, 0, 1]
    assert clean[y == 1].mean() - clean[y == 0].mean() == pytest.approx(2, abs=0.1)
    taken = Deconfound(("motion",), "all").fit_transform(cohort).matrices[:, 0, 1]
    assert taken[y == 1].mean() - taken[y == 0].mean() < 1.9
