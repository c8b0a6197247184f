"""The audit of a cohort with a score: what predicts it without a brain, and what its predictions follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cignn import Cohort
from cignn.cli import app
from cignn.connectome import Deconfound
from cignn.datasets import make_cohort
from cignn.evaluation import Audit, audit, evaluate
from cignn.evaluation.score_probe import score_from, score_predictions

pytestmark = pytest.mark.medium


def scored(n: int = 150, seed: int = 0, **more: Any) -> Cohort:
    return make_cohort(
        n, 14, **({"n_edges": 8, "score": True, "data": "matrices", "random_state": seed} | more)
    )


def flagged(found: Audit) -> set[str]:
    return {finding.name for finding in found if finding.severity in ("serious", "warning")}


@pytest.mark.parametrize("seed", range(2))
def test_a_clean_cohort_passes(seed: int) -> None:
    found = audit(scored(seed=seed))
    assert flagged(found) == set()
    names = {finding.name for finding in found}
    assert {"site → score", "age → score", "sex → score", "motion → score", "all of these → score"} <= names
    assert {"score per site", "R² within sites", "prediction → motion | score"} <= names
    assert not any("label" in name or "class" in name for name in names)


def test_sites_that_tell_the_score_are_named() -> None:
    cohort = scored()
    offset = pd.factorize(cohort.sites)[0]
    found = audit(cohort.with_y(cohort.y + 20.0 * offset))
    site = found["site → score"]
    assert site.severity == "serious" and site.size > 0.5 and "R²" in site.message
    table = found["score per site"].table
    assert found["score per site"].severity == "serious" and table["count"].sum() == len(cohort)
    assert table["mean"].max() - table["mean"].min() > 20


def test_covariates_that_tell_the_score_are_named() -> None:
    cohort = scored()
    rng = np.random.default_rng(0)
    y = 40 * cohort.covariates["mean_fd"].rank().to_numpy() / len(cohort) + rng.normal(size=len(cohort))
    found = audit(cohort.with_y(y))
    assert found["motion → score"].severity == "serious" and found["sex → score"].severity == "fine"
    aged = audit(cohort.with_y(cohort.covariates["age"].to_numpy(float) + 0.0))
    assert "age → score" not in [one.name for one in aged]  # what is predicted is no predictor
    assert "prediction → age | score" not in [one.name for one in aged]


def test_predictions_that_follow_motion_at_equal_score_are_found() -> None:
    cohort = scored(240)
    rng = np.random.default_rng(0)
    motion = rng.normal(size=len(cohort))
    y = 0.7 * motion + 0.7 * rng.normal(size=len(cohort))  # the score goes along with motion,
    matrices = np.array(cohort.matrices)
    matrices[:, :6, :6] += 0.15 * motion[:, None, None]  # and connectivity tells motion alone
    matrices[:, range(14), range(14)] = 1
    moved = Cohort(matrices=matrices, y=y, covariates={"mean_fd": motion}, roi_names=cohort.roi_names)
    follows = audit(moved)["prediction → motion | score"]
    assert follows.severity in ("warning", "serious") and follows.size > 0.2
    clean = audit(moved, deconfound=["motion"])["prediction → motion | score"]
    assert abs(clean.size) < follows.size / 2


def test_given_predictions_are_tested() -> None:
    cohort = scored(80)
    motion = cohort.covariates["mean_fd"].to_numpy()
    rows = {"position": range(80), "subject": cohort.subjects, "y_true": cohort.y}
    found = audit(cohort, predictions=pd.DataFrame(rows | {"y_pred": cohort.y + 300 * motion}))
    assert found["prediction → motion | score"].severity == "serious"
    assert "of the evaluation" in found["prediction → motion | score"].message


def test_several_scans_of_a_subject_count_once() -> None:
    cohort = scored(60)
    twice = cohort[np.repeat(np.arange(60), 2)].with_y(np.repeat(cohort.y, 2) + np.tile([0, 0.5], 60))
    found = audit(twice)
    assert found["repeated subjects"].size == 60
    assert found["score per site"].table["count"].sum() == 60


def test_the_probe_is_no_better_than_chance_without_knowledge() -> None:
    rng = np.random.default_rng(0)
    found = [score_from(rng.normal(size=(60, 3)), rng.normal(size=60)) for _ in range(30)]
    assert abs(np.mean([one.r for one in found if one is not None])) < 0.12
    assert np.mean([one.r2 for one in found if one is not None]) < 0
    x = rng.normal(size=(60, 1))
    known = score_from(x, x[:, 0] + 0.1 * rng.normal(size=60))
    assert known is not None and known.r > 0.95 and known.r2 > 0.9 and known.z > 5
    assert score_from(np.ones((60, 1)), rng.normal(size=60)) is None


def test_a_ridge_regression_tells_a_planted_score() -> None:
    cohort = scored(200, effect=0.3)
    vectors = np.stack([one[np.triu_indices(14, 1)] for one in cohort.matrices])
    predicted = score_predictions(cohort, vectors)
    assert predicted is not None and np.corrcoef(predicted, cohort.y)[0, 1] > 0.5
    assert score_predictions(cohort[:10], vectors[:10]) is None


def test_what_is_predicted_is_not_taken_out() -> None:
    cohort = scored(60)
    aged = cohort.with_y(cohort.covariates["age"].to_numpy(float))
    with pytest.raises(ValueError, match="age is the score that is predicted"):
        Deconfound(("age", "sex")).fit(aged)
    with pytest.raises(ValueError, match="within classes, which a score has not"):
        Deconfound(("sex",), fit_on="within_classes").fit(aged)
    assert Deconfound(("sex",)).fit(aged).transform(aged).y is not None


def test_the_command_takes_a_target(tmp_path: Path) -> None:
    cohort = make_cohort(60, 8, n_edges=3, lengths=(40, 50), random_state=0)
    cohort.save(tmp_path / "study.npz")
    arguments = ["audit", str(tmp_path / "study.npz"), "--target", "age"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    names = {row["finding"] for row in json.loads(done.stdout)["findings"]}
    assert "site → score" in names and "age → score" not in names
    for more, words in (
        (["--deconfound", "motion,AGE"], "is what is predicted"),
        (["--deconfound", "motion", "--deconfound-on", "within_classes"], "is for classes"),
    ):
        wrong = CliRunner().invoke(app, [*arguments, *more])
        assert wrong.exit_code == 2 and words in " ".join(wrong.output.split())
    wrong = CliRunner().invoke(app, ["audit", str(tmp_path / "study.npz"), "--target", "BDI"])
    assert wrong.exit_code and "no covariate 'BDI'" in str(wrong.exception)


def test_an_evaluation_of_scores_is_audited(capsys: pytest.CaptureFixture) -> None:
    cohort = scored(60)
    offset = pd.factorize(cohort.sites)[0]
    evaluate(["mean"], cohort.with_y(cohort.y + 30.0 * offset), "holdout", verbose=1)
    assert "site → score" in capsys.readouterr().err
