"""A model of scores on a cohort from elsewhere, and nuisances at equal score."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cignn import Cohort, CohortClassifier, CohortRegressor, load_model
from cignn.cli import app
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import nuisance_test, regression_scores, site_controlled_r2, validate
from cignn.evaluation.nuisances import nuisances_of, score_checks, without_target

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    made = make_cohort(
        140, 12, n_edges=8, effect=0.4, lengths=(60, 80), n_sites=4, score=True, random_state=0
    )
    return made._with(covariates=made.covariates.assign(severity=made.y))


@pytest.fixture(scope="module")
def elsewhere(cohort: Cohort) -> np.ndarray:
    return np.isin(cohort.sites, np.unique(cohort.sites)[2:])


@pytest.fixture(scope="module")
def model(cohort: Cohort, elsewhere: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> CohortRegressor:
    regressor = make_estimator("ridge", target="severity", random_state=0)
    made = CohortRegressor.make(regressor).fit(cohort[~elsewhere])
    folder = tmp_path_factory.mktemp("model")
    made.save(folder)
    return load_model(folder)


def test_numbers_are_those_computed_by_hand(
    model: CohortRegressor, cohort: Cohort, elsewhere: np.ndarray
) -> None:
    found, new = validate(model, cohort, n_resamples=200), cohort[elsewhere]
    assert found.left_out == (~elsewhere).sum() and len(found.predictions) == len(new)
    predicted, y = model.predict(new), new.y
    np.testing.assert_allclose(found.predictions["y_pred"], predicted)
    scores = found.scores.set_index("metric")
    for name, value in regression_scores(y, predicted).items():
        assert scores.loc[name, "value"] == pytest.approx(value)
        assert scores.loc[name, "low"] <= value <= scores.loc[name, "high"]
    mean = cohort.y[~elsewhere].mean()
    assert found.training_mean == pytest.approx(mean) and found.target == "severity"
    assert scores.loc["mae", "trivial"] == pytest.approx(np.abs(y - mean).mean())
    assert scores.loc["r2", "trivial"] <= 0 and np.isnan(scores.loc["r", "trivial"])
    others = [
        np.mean([y[j] for j in range(len(y)) if j != i and new.sites[j] == new.sites[i]])
        for i in range(len(y))
    ]
    assert scores.loc["mae", "site_mean"] == pytest.approx(np.abs(y - others).mean())

    slope, intercept = np.polyfit(predicted, y, 1)
    line = found.calibration
    assert line.slope == pytest.approx(slope) and line.intercept == pytest.approx(intercept)
    assert line.bias == pytest.approx((y - predicted).mean())
    assert line.slope_low <= line.slope <= line.slope_high and line.bias_low <= line.bias <= line.bias_high
    assert found.reliability["count"].sum() == len(new)
    assert (np.diff(found.reliability["predicted"]) > 0).all()
    shares = found.reliability["count"] / len(new)
    assert (shares * found.reliability["observed"]).sum() == pytest.approx(y.mean())

    assert found.sites is not None and found.sites["subjects"].sum() == len(new)
    for row in found.sites.to_dict("records"):
        here = new.sites == row["site"]
        assert row["mae"] == pytest.approx(np.abs(y - predicted)[here].mean())
        assert row["bias"] == pytest.approx((y - predicted)[here].mean())
    assert found.nuisances is not None
    assert set(found.nuisances["nuisance"]) == {"motion", "age", "sex", "site"}
    assert found.site_r2 is not None and found.site_r2.overall == pytest.approx(scores.loc["r2", "value"])
    assert found.drift is not None and found.mean_shift < 3 * found.shift_by_chance


def test_recentring_does_not_read_scores(
    model: CohortRegressor, cohort: Cohort, elsewhere: np.ndarray
) -> None:
    new = cohort[elsewhere]
    back = validate(model, new, recentre=True, n_resamples=10)
    other = validate(model, new.with_y(new.y[::-1]), recentre=True, n_resamples=10)
    assert back.recentred
    np.testing.assert_allclose(other.predictions["y_pred"], back.predictions["y_pred"])


def test_subjects_without_a_score_are_left_out(
    model: CohortRegressor, cohort: Cohort, elsewhere: np.ndarray
) -> None:
    new = cohort[elsewhere]
    y = new.y.copy()
    y[:5] = np.nan
    assert len(validate(model, new.with_y(y), n_resamples=10).predictions) == len(new) - 5


def test_what_does_not_fit_is_refused_in_a_line(
    model: CohortRegressor, cohort: Cohort, elsewhere: np.ndarray
) -> None:
    new = cohort[elsewhere]
    with pytest.raises(ValueError, match="the cohort has no scores"):
        validate(model, new.with_y(None))
    with pytest.raises(ValueError, match="labels that are no numbers"):
        validate(model, new.with_y(np.full(len(new), "ill")))
    with pytest.raises(ValueError, match="all scores are 3"):
        validate(model, new.with_y(np.full(len(new), 3.0)))
    with pytest.raises(ValueError, match="trained on all of these subjects"):
        validate(model, cohort[~elsewhere])
    with pytest.raises(ValueError, match="needs 3 new subjects, got 2"):
        validate(model, new[:2])
    with pytest.raises(ValueError, match="positive is for two classes"):
        validate(model, new, positive=1)


def test_the_command_writes_tables_and_tells_json(
    model: CohortRegressor, cohort: Cohort, elsewhere: np.ndarray, tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    cohort[elsewhere].with_y(None).save(tmp_path / "other.npz")
    arguments = ["validate", str(tmp_path / "model"), str(tmp_path / "other.npz"), "--target", "severity"]
    result = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "out"), "--recentre"])
    assert result.exit_code == 0, result.output
    for words in ("training mean", "site's mean", "transductive", "slope", "R² among subjects"):
        assert words in result.output
    table = pd.read_csv(tmp_path / "out" / "predictions.csv")
    assert list(table) == ["subject", "site", "y_true", "y_pred"]
    names = {one.name for one in (tmp_path / "out").glob("*.csv")}
    assert names >= {f"{one}.csv" for one in ("scores", "reliability", "sites", "nuisances", "drift")}
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert told["subjects"] == elsewhere.sum() and told["target"] == "severity" and not told["recentred"]
    assert {"scores", "calibration", "sites", "nuisances", "site_controlled_r2", "drift"} <= set(told)
    wrong = CliRunner().invoke(app, [*arguments, "--positive", "1"])
    assert wrong.exit_code == 2 and "is for classes" in wrong.output


def test_a_target_is_for_models_of_scores(tmp_path: Path) -> None:
    cohort = make_cohort(40, 8, n_edges=3, lengths=(30, 40), random_state=0)
    CohortClassifier.make(make_estimator("linear-svm", C=0.1, random_state=0)).fit(cohort).save(
        tmp_path / "m"
    )
    cohort.save(tmp_path / "new.npz")
    wrong = CliRunner().invoke(
        app, ["validate", str(tmp_path / "m"), str(tmp_path / "new.npz"), "--target", "age"]
    )
    assert wrong.exit_code == 2 and "is for models of scores" in wrong.output


# ------------------------------------------------------------------------- nuisances


def drawn(n: int, seed: int, follows: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A skewed score, a prediction and a nuisance that both go along with it, along different curves."""
    rng = np.random.default_rng(seed)
    y = rng.gamma(2, 10, n)
    own = rng.normal(size=n)
    return y, 0.1 * y + 0.5 * np.sqrt(y) + follows * own + rng.normal(size=n), 2 * np.sqrt(y) + own


def test_predictions_are_tested_at_equal_score() -> None:
    true, false = [], []
    for seed in range(40):
        y, predicted, nuisance = drawn(150, seed, 0.0)
        false.append(nuisance_test(y, predicted, nuisance, n_permutations=199).p_value)
        y, predicted, nuisance = drawn(150, seed, 0.7)
        true.append(nuisance_test(y, predicted, nuisance, n_permutations=199).p_value)
    assert np.mean(np.array(false) < 0.05) < 0.2 and 0.3 < np.mean(false) < 0.7
    assert np.mean(np.array(true) < 0.05) > 0.7
    y, predicted, nuisance = drawn(150, 0, 0.7)
    groups = np.where(nuisance - 2 * np.sqrt(y) > 0, "moves", "rests")
    assert nuisance_test(y, predicted, groups, n_permutations=199).p_value < 0.05
    monotone = nuisance_test(np.exp(y / 20), predicted**3, nuisance, n_permutations=199)
    assert monotone == nuisance_test(y, predicted, nuisance, n_permutations=199)  # ranks alone count


def test_the_score_is_no_nuisance_of_itself() -> None:
    cohort = make_cohort(60, 6, n_edges=2, data="matrices", random_state=0)
    aged = cohort.with_y(cohort.covariates["age"].to_numpy(float))
    assert "age" in nuisances_of(aged) and "age" not in without_target(nuisances_of(aged), aged.y)
    columns = {"position": range(60), "subject": aged.subjects, "y_true": aged.y}
    predicted = np.random.default_rng(0).normal(size=60)
    checks = score_checks(pd.DataFrame(columns | {"y_pred": predicted}), aged, 99)
    assert checks is not None and "age" not in set(checks.table["nuisance"])


def test_within_sites_a_prediction_of_the_site_is_worth_nothing() -> None:
    rng = np.random.default_rng(0)
    site = np.arange(400) % 4
    own = rng.normal(size=400)
    y = 10.0 * site + own
    of_site = site_controlled_r2(y, 10.0 * site, site, n_resamples=100)
    assert of_site.overall > 0.98 and abs(of_site.value) < 0.05
    known = site_controlled_r2(y, 10.0 * site + own, site, n_resamples=100)
    assert known.value == pytest.approx(1) and known.r == pytest.approx(1) and known.n_sites == 4
    half = site_controlled_r2(y, 10.0 * site + own / 2, site, n_resamples=100)
    centred = y - np.array([y[site == s].mean() for s in site])
    assert half.value == pytest.approx(1 - np.square(own / 2).sum() / np.square(centred).sum())
    assert half.low < half.value < half.high
    assert np.isnan(site_controlled_r2([1.0, 2.0], [1.0, 2.0], ["a", "b"]).value)
    with pytest.raises(ValueError, match="as many predictions and sites"):
        site_controlled_r2([1.0], [1.0, 2.0], ["a", "b"])
