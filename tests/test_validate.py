"""A model is scored on a cohort from elsewhere, beside the trivial, and what does not fit is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cignn import Cohort, CohortClassifier, load_model
from cignn.cli import app
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import calibration_line, classification_scores, validate
from cignn.evaluation.calibration import brier_score

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(120, 12, n_edges=8, effect=0.4, lengths=(60, 80), n_sites=4, random_state=0)


@pytest.fixture(scope="module")
def elsewhere(cohort: Cohort) -> np.ndarray:
    return np.isin(cohort.sites, np.unique(cohort.sites)[2:])


@pytest.fixture(scope="module")
def model(
    cohort: Cohort, elsewhere: np.ndarray, tmp_path_factory: pytest.TempPathFactory
) -> CohortClassifier:
    made = CohortClassifier.make(make_estimator("linear-svm", random_state=0)).fit(cohort[~elsewhere])
    folder = tmp_path_factory.mktemp("model")
    made.save(folder)
    return load_model(folder)


def test_scores_are_those_of_the_model_on_whom_it_has_not_seen(
    model: CohortClassifier, cohort: Cohort, elsewhere: np.ndarray
) -> None:
    found = validate(model, cohort, n_resamples=200)
    new = cohort[elsewhere]
    assert found.left_out == (~elsewhere).sum() and len(found.predictions) == len(new)
    chances = model.predict_proba(new)
    assert np.allclose(found.predictions[["p_0", "p_1"]], chances)
    expected = classification_scores(new.y, model.predict(new), model.classes_, chances)
    scores = found.scores.set_index("metric")
    for name in ("accuracy", "roc_auc", "sensitivity", "specificity"):
        assert scores.loc[name, "value"] == pytest.approx(expected[name])
        assert scores.loc[name, "low"] <= scores.loc[name, "value"] <= scores.loc[name, "high"]
    assert scores.loc["roc_auc", "trivial"] == 0.5 and scores.loc["brier", "trivial"] == pytest.approx(0.25)
    assert found.sites is not None and found.sites["subjects"].sum() == len(new)
    assert found.reliability["count"].sum() == len(new)
    assert found.nuisances is not None and set(found.nuisances["nuisance"]) == {
        "motion",
        "age",
        "sex",
        "site",
    }


def test_drift_is_measured_and_recentring_takes_it_away(
    model: CohortClassifier, cohort: Cohort, elsewhere: np.ndarray
) -> None:
    new = cohort[elsewhere]
    matrices = np.stack([np.corrcoef(one, rowvar=False) for one in new.series]).astype(np.float32)
    moved = 0.8 * matrices + 0.2 * np.outer(*[np.ones(12)] * 2)
    strange = Cohort(matrices=moved, y=new.y, sites=new.sites, roi_names=new.roi_names)
    same = Cohort(matrices=matrices, y=new.y, sites=new.sites, roi_names=new.roi_names)
    quiet, far = (validate(model, one, n_resamples=10) for one in (same, strange))
    assert quiet.mean_shift < 2 * quiet.shift_by_chance < far.mean_shift
    back = validate(model, strange, recentre=True, n_resamples=10)
    assert back.recentred and back.mean_shift < far.mean_shift / 3
    y = np.asarray(new.y).copy()
    y[:4] = 1 - y[:4]  # labels are not read
    other = validate(model, strange.with_y(y), recentre=True, n_resamples=10)
    assert np.allclose(other.predictions["p_1"], back.predictions["p_1"])


def test_regions_are_matched_by_name(model: CohortClassifier, cohort: Cohort, elsewhere: np.ndarray) -> None:
    new = cohort[elsewhere]
    order = np.random.default_rng(0).permutation(12)
    series = [one[:, order] for one in new.series]
    names = [new.roi_names[i] for i in order]
    mixed = Cohort(series=series, y=new.y, roi_names=names)
    expected = validate(model, new, n_resamples=10).predictions["p_1"]
    assert np.allclose(validate(model, mixed, n_resamples=10).predictions["p_1"], expected, atol=1e-6)


def test_what_does_not_fit_is_refused_in_a_line(
    model: CohortClassifier, cohort: Cohort, elsewhere: np.ndarray
) -> None:
    new = cohort[elsewhere]
    with pytest.raises(ValueError, match="labels ill are none of the model's classes"):
        validate(model, new.with_y(np.where(new.y == 1, "ill", "0")))
    with pytest.raises(ValueError, match="the cohort has no labels"):
        validate(model, new.with_y(None))
    with pytest.raises(ValueError, match="trained on all of these subjects"):
        validate(model, cohort[~elsewhere])
    with pytest.raises(ValueError, match="fitted on 12 ROIs, got a cohort with 9"):
        validate(model, Cohort(series=[one[:, :9] for one in new.series], y=new.y))
    names = [f"other {i}" for i in range(12)]
    with pytest.raises(ValueError, match="number 1 is 'other 0'"):
        validate(model, Cohort(series=list(new.series), y=new.y, roi_names=names))
    covariance = np.stack([9 * np.cov(one, rowvar=False) for one in new.series]).astype(np.float32)
    with pytest.raises(ValueError, match="not of one kind of connectivity"):
        validate(model, Cohort(matrices=covariance, y=new.y, roi_names=new.roi_names))
    with pytest.raises(TypeError, match="validate works on a CohortClassifier"):
        validate(model.classifier_, new)  # type: ignore[arg-type]


def test_a_model_that_does_not_know_its_training_connections_goes_on(
    cohort: Cohort, elsewhere: np.ndarray
) -> None:
    older = CohortClassifier.make(make_estimator("linear-svm", random_state=0)).fit(cohort[~elsewhere])
    older["graphs"].connections_ = None
    found = validate(older, cohort[elsewhere], n_resamples=10)
    assert found.drift is None and np.isnan(found.mean_shift) and len(found.scores)
    with pytest.raises(ValueError, match="does not know"):
        validate(older, cohort[elsewhere], recentre=True)


def test_the_line_is_that_of_calibrated_and_of_sharpened_probabilities() -> None:
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=4000)
    p = 1 / (1 + np.exp(-log_odds))
    came = rng.random(4000) < p
    honest = calibration_line(came, p)
    assert honest.slope == pytest.approx(1, abs=0.2) and honest.intercept == pytest.approx(0, abs=0.2)
    sharp = calibration_line(came, 1 / (1 + np.exp(-2 * log_odds)))
    assert sharp.slope == pytest.approx(honest.slope / 2) and sharp.slope_high < 1
    low = calibration_line(came, 1 / (1 + np.exp(-log_odds + 1)))
    assert low.intercept_low > 0
    assert np.isnan(calibration_line([1, 1, 1], [0.2, 0.3, 0.4]).slope)
    assert np.isnan(calibration_line([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9]).slope)  # no finite line
    assert brier_score(np.array([0, 1]), np.array([[1, 0], [0.5, 0.5]]), np.array([0, 1])).value == 0.125


def test_the_command_writes_tables_and_tells_json(
    model: CohortClassifier, cohort: Cohort, elsewhere: np.ndarray, tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    cohort[elsewhere].save(tmp_path / "other.npz")
    arguments = ["validate", str(tmp_path / "model"), str(tmp_path / "other.npz")]
    result = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "out"), "--recentre"])
    assert result.exit_code == 0 and "transductive" in result.output and "calibration" in result.output
    table = pd.read_csv(tmp_path / "out" / "predictions.csv")
    assert list(table) == ["subject", "site", "y_true", "y_pred", "p_0", "p_1"]
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert told["subjects"] == elsewhere.sum() and not told["recentred"]
    assert {"scores", "calibration", "reliability", "sites", "nuisances", "drift"} <= set(told)
