"""The line that stretches predictions of a score which are too near the mean."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cignn import CIGNNRegressor, GraphSet, load_model
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_cohort
from cignn.estimators.persistence import ModelError
from cignn.estimators.score_line import LEAST, ScoreLine, fit_line
from cignn.estimators.stacks import Fit, fit_together


def drawn(n: int, slope: float, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and predictions of which the line of this slope is right."""
    rng = np.random.default_rng(seed)
    predictions = rng.normal(size=n) / max(slope, 1.0)
    return slope * predictions + noise * rng.normal(size=n), predictions


@pytest.mark.parametrize("slope", [0.5, 2.0, 4.0])
def test_a_clear_slope_is_found(slope: float) -> None:
    scores, predictions = drawn(400, slope, 0.3, 0)
    line = fit_line(scores + 0.4, predictions + 0.2, 400)
    assert line.slope == pytest.approx(slope, rel=0.15)
    stretched = line.of(predictions + 0.2)
    before, after = (np.square(scores + 0.4 - one).mean() for one in (predictions + 0.2, stretched))
    assert after < 0.8 * before and abs(np.mean(stretched) - np.mean(scores + 0.4)) < 0.1
    assert abs(line.slope - 1) <= abs(line.measured - 1) + 1e-12


def test_chance_does_no_harm() -> None:
    """Where predictions say nothing they are stretched rarely, and cost little on the whole."""
    worse, slopes = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        scores, predictions = rng.normal(size=40), 0.2 * rng.normal(size=40)
        line = fit_line(scores, predictions, 40)
        y, new = rng.normal(size=2000), 0.2 * rng.normal(size=2000)  # other subjects
        worse.append(np.square(y - line.of(new)).mean() - np.square(y - new).mean())
        slopes.append(line.slope)
    assert np.median(slopes) <= 1 and np.mean(np.array(slopes) > 1.2) < 0.2
    assert np.mean(worse) < 0.02


def test_too_little_leaves_predictions_as_they_are() -> None:
    scores, predictions = drawn(200, 3.0, 0.1, 0)
    assert fit_line(scores[:9], predictions[:9], 9) == ScoreLine()
    assert fit_line(scores, predictions, 9)[:2] == (1.0, 0.0)  # scans of few subjects
    assert fit_line(scores, np.full(200, 0.3), 200)[:2] == (1.0, 0.0)


def test_a_slope_is_never_negative() -> None:
    scores, predictions = drawn(200, 1.0, 0.1, 0)
    assert fit_line(-scores, predictions, 200).slope == LEAST


def test_a_line_comes_back_from_a_list() -> None:
    for line in (ScoreLine(), ScoreLine(1.5, -0.1, 1.7, 0.2)):
        assert ScoreLine.read(json.loads(json.dumps(line.as_list())))[:2] == line[:2]
    assert ScoreLine.read(None)[:2] == (1.0, 0.0)
    for wrong in ([0.0, 0.0, None, None], [None, 0.0, None, None], [1.0, None, 1.0, 1.0]):
        with pytest.raises(ValueError, match="score_line"):
            ScoreLine.read(wrong)


@pytest.fixture(scope="module")
def brains() -> GraphSet:
    cohort = make_cohort(80, 10, n_edges=8, effect=0.8, data="matrices", score=True, random_state=0)
    return ConnectomeGraphs().fit_transform(cohort)


@pytest.fixture(scope="module")
def stretched(brains: GraphSet) -> CIGNNRegressor:
    """A model whose networks are stopped far too early."""
    model = CIGNNRegressor(epochs=20, n_estimators=2, random_state=0, device="cpu")
    return model.fit(brains[:50], eval_set=brains[50:])


def test_predictions_near_the_mean_are_stretched(stretched: CIGNNRegressor, brains: GraphSet) -> None:
    line, held_out = stretched.score_line_, brains[50:]
    assert line.slope > 1.1 and line.error > 0
    own = stretched.predict(held_out)
    stretched.score_line_ = ScoreLine()
    try:
        plain = stretched.predict(held_out)
    finally:
        stretched.score_line_ = line
    assert np.square(held_out.y - own).mean() < np.square(held_out.y - plain).mean()
    assert np.corrcoef(own, plain)[0, 1] > 0.999


def test_base_and_contributions_of_stretched_predictions_add_up(
    stretched: CIGNNRegressor, brains: GraphSet
) -> None:
    explanations = stretched.explain(brains)
    np.testing.assert_allclose(explanations.log_odds, stretched.predict(brains), rtol=1e-4)
    np.testing.assert_allclose(explanations.predictions, stretched.predict(brains), rtol=1e-4)


def test_the_line_is_saved(stretched: CIGNNRegressor, brains: GraphSet, tmp_path: Path) -> None:
    stretched.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.score_line_ == pytest.approx(stretched.score_line_)
    np.testing.assert_array_equal(loaded.predict(brains), stretched.predict(brains))
    config = tmp_path / "model" / "config.json"
    content = json.loads(config.read_text())
    config.write_text(json.dumps(content | {"score_line": [-1.0, 0.0, None, None]}))
    with pytest.raises(ModelError):
        load_model(tmp_path / "model")


def test_the_line_does_not_depend_on_company(brains: GraphSet) -> None:
    alone = CIGNNRegressor(epochs=3, n_estimators=2, random_state=3, device="cpu")
    pair = [CIGNNRegressor(**alone.get_params(deep=False)) for _ in range(2)]
    pair[1].random_state = 4
    assert fit_together([Fit(one, brains) for one in pair]) == [None, None]
    assert alone.fit(brains).score_line_ == pytest.approx(pair[0].score_line_, rel=1e-3, nan_ok=True)
