"""Group explanations of a score: planted connections are found, permuted scores select nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from cignn import Cohort, CohortRegressor, GroupExplanation
from cignn.cli import app
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import reproducibility
from cignn.explainers import explain_group
from cignn.explainers.half_samples import Work, half_samples, permuted

RUN: dict[str, Any] = {"n_resamples": 8, "n_permutations": 6}
UPPER = np.triu_indices(12, 1)


def ridge(**params: Any) -> CohortRegressor:
    return CohortRegressor.make(make_estimator("ridge", strength=300.0, target="BDI"), **params)


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(100, 12, n_edges=4, effect=0.3, score=True, data="matrices", random_state=0)


@pytest.fixture(scope="module")
def group(cohort: Cohort) -> GroupExplanation:
    return explain_group(ridge(), cohort, **RUN)


def test_planted_connections_lead_the_map_and_are_selected(cohort: Cohort, group: GroupExplanation) -> None:
    truth = cohort.edge_truth[UPPER]
    assert roc_auc_score(truth, np.abs(group.map[UPPER])) > 0.95
    selected = group.matrix("selected")[UPPER]
    assert selected[truth].sum() >= 3 and selected[~truth].sum() <= 2


def test_effects_are_correlations_and_signs_follow_them(cohort: Cohort, group: GroupExplanation) -> None:
    values = np.stack([one[UPPER] for one in cohort.matrices])
    expected = [np.corrcoef(column, cohort.y)[0, 1] for column in values.T]
    np.testing.assert_allclose(group.matrix("effect")[UPPER], expected, atol=1e-4)
    truth = cohort.edge_truth[UPPER]
    assert (np.sign(group.map[UPPER][truth]) == np.sign(np.array(expected)[truth])).all()
    assert (group.matrix("contribution")[UPPER][truth] > 0).all()  # towards the true score, in its units


def test_a_score_that_runs_the_other_way_turns_the_map_round(cohort: Cohort, group: GroupExplanation) -> None:
    other = explain_group(ridge(), cohort.with_y(100 - cohort.y), **RUN)
    assert np.corrcoef(other.map[UPPER], group.map[UPPER])[0, 1] < -0.9


@pytest.mark.parametrize("seed", range(2))
def test_permuted_scores_select_nothing(cohort: Cohort, seed: int) -> None:
    y = np.random.default_rng(10 + seed).permutation(cohort.y)
    assert explain_group(ridge(), cohort.with_y(y), random_state=seed, **RUN).n_selected <= 1


@pytest.mark.parametrize("name", ["ci-gnn-regressor", "svr", "cpm"])
def test_networks_and_other_models_are_read(cohort: Cohort, name: str) -> None:
    params = {"ci-gnn-regressor": {"epochs": 2, "device": "cpu"}, "svr": {"strength": 0.01}}.get(name, {})
    pipe = make_connectome_pipeline(make_estimator(name, target="BDI", **params))
    found = explain_group(pipe, cohort, n_resamples=4, n_permutations=3)
    assert np.isfinite(found.map).all() and found.map.any() and found.score == "BDI"
    assert found.table["q"].between(0, 1).all()


def test_of_sparse_models_connections_in_use_lead(cohort: Cohort) -> None:
    truth = cohort.edge_truth[UPPER]
    found = explain_group(
        make_connectome_pipeline(make_estimator("cpm")), cohort, n_resamples=10, n_permutations=3
    )
    assert roc_auc_score(truth, np.abs(found.use[UPPER])) > 0.9
    classes = cohort.with_y((cohort.y > np.median(cohort.y)).astype(int))
    lasso = make_connectome_pipeline(make_estimator("lasso", C=0.3, random_state=0))
    found = explain_group(lasso, classes, n_resamples=10, n_permutations=3)
    assert roc_auc_score(truth, np.abs(found.use[UPPER])) > 0.9


def test_halves_have_similar_scores_and_permutations_keep_them(cohort: Cohort) -> None:
    work = Work.of(ridge(), cohort, None, None)
    random = np.random.default_rng(0)
    first, second = half_samples(work, 1, -1, random)
    assert set(first.rows) | set(second.rows) == set(range(100)) and not set(first.rows) & set(second.rows)
    means = [cohort.y[one.rows].mean() for one in (first, second)]
    assert abs(means[0] - means[1]) < 0.5 * cohort.y.std()
    new = permuted(work, random)
    np.testing.assert_allclose(np.sort(new), np.sort(cohort.y))
    assert (new != cohort.y).mean() > 0.9


def test_scans_of_a_subject_stay_together(cohort: Cohort) -> None:
    rows = np.repeat(np.arange(50), 2)
    twice = cohort[rows].with_y(cohort.y[rows] + np.tile([0.0, 1.0], 50))
    work = Work.of(ridge(), twice, None, None)
    (first, _) = half_samples(work, 1, -1, np.random.default_rng(0))
    assert (np.bincount(first.rows // 2, minlength=50) % 2 == 0).all()
    new = permuted(work, np.random.default_rng(0))
    np.testing.assert_allclose(new[1::2] - new[::2], 1.0)
    assert explain_group(ridge(), twice, n_resamples=2, n_permutations=2).n_subjects == 50


def test_it_is_told_in_words_and_comes_back_from_disk(group: GroupExplanation, tmp_path: Path) -> None:
    words = " ".join(group.summary().split())
    assert words.startswith("BDI: 100 subjects") and "permutations of the scores" in words
    assert "where BDI is higher" in words and "labels" not in words and "class" not in words
    assert group.classes == ("low BDI", "high BDI")
    loaded = GroupExplanation.load(group.save(tmp_path / "group.npz"))
    assert loaded.score == "BDI" and loaded.summary() == group.summary()


def test_what_is_predicted_is_no_nuisance_and_is_not_taken_out(cohort: Cohort) -> None:
    aged = cohort.with_y(cohort.covariates["age"].to_numpy(float))
    found = explain_group(ridge(), aged, n_resamples=2, n_permutations=2)
    assert "age" not in set(found.nuisance["nuisance"]) and "motion" in set(found.nuisance["nuisance"])
    clean = explain_group(ridge(deconfound=("motion", "sex")), aged, n_resamples=2, n_permutations=2)
    assert not np.allclose(clean.map, found.map)
    with pytest.raises(ValueError, match="age is the score that is predicted"):
        explain_group(ridge(deconfound=("age", "sex")), aged, **RUN)


def test_what_cannot_be_is_refused(cohort: Cohort) -> None:
    with pytest.raises(ValueError, match="target names a class, the estimator predicts a score"):
        explain_group(ridge(), cohort, target=1)
    with pytest.raises(ValueError, match="needs 20 subjects, got 12"):
        explain_group(ridge(), cohort[:12])
    with pytest.raises(ValueError, match="all scores are 3"):
        explain_group(ridge(), cohort.with_y(np.full(100, 3.0)))


@pytest.mark.parametrize("by", ["halves", "sites"])
def test_maps_of_disjoint_subjects_are_compared(cohort: Cohort, by: str) -> None:
    options = {"n_permutations": 2}
    found = reproducibility(ridge(), cohort, by, n_splits=2, n_resamples=4, n_permutations=2, options=options)
    assert set(found.table["map"]) == {"model", "correlation", "coefficients", "haufe"}
    means = found.means.set_index("map")
    assert means.loc["correlation", "rho"] > means.loc["correlation", "permuted_rho"]


@pytest.mark.medium
def test_the_command_explains_a_score(cohort: Cohort, tmp_path: Path) -> None:
    told = cohort.covariates.assign(BDI=cohort.y)
    cohort._with(covariates=told, y=None).save(tmp_path / "study.npz")
    arguments = ["group", str(tmp_path / "study.npz"), "--target", "BDI", "--out", str(tmp_path / "out")]
    quick = ["--method", "ridge", "--n-resamples", "4", "--n-permutations", "2"]
    done = CliRunner().invoke(app, [*arguments, *quick, "--deconfound", "motion", "--json"])
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["target"] == "BDI" and content["classes"] == ["low BDI", "high BDI"]
    assert len(pd.read_csv(tmp_path / "out" / "connections.csv")) == 66
    assert (tmp_path / "out" / "summary.txt").read_text().startswith("BDI: 100 subjects")
    for more, words in (
        (["--deconfound", "BDI"], "is what is predicted"),
        (["--positive", "1"], "is for classes"),
        (["--method", "linear-svm"], "predicts classes"),
    ):
        wrong = CliRunner().invoke(app, [*arguments, *quick, *more])
        assert wrong.exit_code == 2 and words in " ".join(wrong.output.split())
