"""Calibrated probabilities, chosen thresholds, operating points and decision curves."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import roc_curve
from sklearn.model_selection import TunedThresholdClassifierCV

matplotlib.use("Agg")

from cignn import CohortClassifier
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import Cohort, make_cohort
from cignn.estimators import DecisionClassifier, make_estimator
from cignn.estimators.decision_classifier import best_threshold
from cignn.evaluation import (
    KFold,
    decision_curve,
    decision_curves,
    evaluate,
    operating_points,
    sensitivity_at_specificity,
)
from cignn.report import draw_decision_curves

CLASSES = np.array([0, 1])


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(48, n_rois=8, n_edges=6, effect=1.0, lengths=(30, 40), n_sites=3, random_state=0)


def both(p: np.ndarray) -> np.ndarray:
    return np.stack([1 - p, p], axis=1)


class Told(ClassifierMixin, BaseEstimator):
    """Gives the covariate ``p`` as the probability of its last class, whatever it was trained on."""

    def fit(self, X: Cohort, y: np.ndarray | None = None) -> Told:
        self.classes_ = np.unique(X.y if y is None else y)
        return self

    def predict_proba(self, X: Cohort) -> np.ndarray:
        p = X.covariates["p"].to_numpy(float)
        rest = (1 - p) / (len(self.classes_) - 1)
        return np.stack([*([rest] * (len(self.classes_) - 1)), p], axis=1)

    def predict(self, X: Cohort) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(1)]


def told(n: int, n_classes: int = 2, power: float = 3.0, seed: int = 0) -> Cohort:
    """Subjects whose probabilities are too bold by a factor in their log-odds."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=n)
    last = rng.random(n) < 1 / (1 + np.exp(-odds))
    y = np.where(last, n_classes - 1, rng.integers(0, n_classes - 1, n))
    p = 1 / (1 + np.exp(-power * odds))
    return Cohort(matrices=np.zeros((n, 3, 3)), y=y, covariates={"p": p})


# ---------------------------------------------------------------------- scikit-learn's own


@pytest.mark.parametrize("make", [make_connectome_pipeline, CohortClassifier.make])
def test_scikit_learn_calibrates_and_tunes_our_pipelines(cohort: Cohort, make) -> None:
    pipe = make(make_estimator("lasso", C=1.0, random_state=0))
    for model in (
        CalibratedClassifierCV(pipe, cv=KFold(3)),
        CalibratedClassifierCV(pipe, method="isotonic", cv=KFold(3), ensemble=False),
        TunedThresholdClassifierCV(pipe, cv=KFold(3), scoring="balanced_accuracy"),
    ):
        chances = model.fit(cohort, cohort.y).predict_proba(cohort)
        np.testing.assert_allclose(chances.sum(1), 1)
    results = evaluate({"tuned": model}, cohort, KFold(2), verbose=0)
    assert not (results["metric"] == "error").any()


def test_scikit_learn_calibrates_classifiers_of_graphs(cohort: Cohort) -> None:
    graphs = make_connectome_pipeline().fit_transform(cohort)
    model = CalibratedClassifierCV(make_estimator("lasso", C=1.0), cv=KFold(3)).fit(graphs, graphs.y)
    assert model.predict_proba(graphs).shape == (48, 2)


# ----------------------------------------------------------------------- calibration


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sigmoid_takes_bold_log_odds_back(n_classes: int) -> None:
    train, test = told(2000, n_classes), told(2000, n_classes, seed=1)
    plain = Told().fit(train)
    model = DecisionClassifier(Told(), calibrate="sigmoid", random_state=0).fit(train)
    rows = np.arange(len(test))
    loss = {
        name: -np.log(np.clip(one.predict_proba(test)[rows, test.y], 1e-12, 1)).mean()
        for name, one in (("plain", plain), ("calibrated", model))
    }
    assert loss["calibrated"] < loss["plain"]
    if n_classes == 2:
        assert model.calibration_.views[0] == pytest.approx(1 / 3, rel=0.2)


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
def test_calibration_keeps_order_and_sums(how: str) -> None:
    data = told(300)
    model = DecisionClassifier(Told(), calibrate=how, random_state=0).fit(data)
    chances = model.predict_proba(data)
    np.testing.assert_allclose(chances.sum(1), 1)
    order = np.argsort(data.covariates["p"])
    assert (np.diff(chances[order, 1]) >= -1e-12).all()
    np.testing.assert_allclose(
        DecisionClassifier(Told(), calibrate="isotonic").fit(told(300, 3)).predict_proba(data).sum(1), 1
    )


def test_without_anything_to_do_it_is_the_classifier(cohort: Cohort) -> None:
    pipe = CohortClassifier.make(make_estimator("lasso", C=1.0, random_state=0))
    model = DecisionClassifier(pipe).fit(cohort)
    np.testing.assert_array_equal(model.predict_proba(cohort), pipe.fit(cohort).predict_proba(cohort))
    assert (model.predict(cohort) == pipe.predict(cohort)).all()
    assert model.explain(cohort[:2])[0].contributions.shape == (8, 8)


# ------------------------------------------------------------------------ thresholds


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_a_threshold_reaches_what_is_asked_and_no_more(share: float) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2 == 1
    p = 1 / (1 + np.exp(-(y + rng.normal(size=400))))
    t = best_threshold(p, y, f"sensitivity@{share}")
    assert (p[y] >= t).mean() >= share > (p[y] >= np.nextafter(p[p >= t].min(), 1)).mean() - 1 / 200
    t = best_threshold(p, y, f"specificity@{share}")
    below = p[p < t].max()
    assert (p[~y] < t).mean() >= share and (p[~y] < below).mean() < share + 1e-9


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1", "mcc"])
def test_a_threshold_is_the_best_of_all(name: str) -> None:
    from cignn.evaluation import classification_scores

    rng = np.random.default_rng(1)
    y = (rng.random(120) < 0.2).astype(int)
    p = np.round(1 / (1 + np.exp(-(2 * y - 2 + rng.normal(size=120)))), 2)

    def score(t: float) -> float:
        return classification_scores(y, (p >= t).astype(int), CLASSES)[name]

    assert score(best_threshold(p, y == 1, name)) == pytest.approx(max(score(t) for t in np.r_[p, 0, 1.01]))


def test_the_positive_class_and_its_threshold_decide(cohort: Cohort) -> None:
    data = told(200)
    model = DecisionClassifier(Told(), threshold=0.9).fit(data)
    p = data.covariates["p"].to_numpy()
    assert (model.predict(data) == (p >= 0.9)).all()
    other = DecisionClassifier(Told(), threshold=0.9, positive="0").fit(data)
    assert (other.predict(data) == ~(1 - p >= 0.9)).all() and other.positive_ == 0
    pipe = CohortClassifier.make(make_estimator("lasso", C=1.0))
    careful = DecisionClassifier(pipe, threshold="sensitivity@0.99", n_splits=3, by="site")
    results = evaluate({"careful": careful}, cohort, KFold(2), verbose=0)
    assert not (results["metric"] == "error").any()


@pytest.mark.parametrize(
    ("change", "n_classes", "words"),
    [
        ({"calibrate": "platt"}, 2, "calibrate must be one of None, 'sigmoid', 'isotonic', got 'platt'"),
        ({"threshold": "best"}, 2, "threshold must be a number in"),
        ({"threshold": "sensitivity@2"}, 2, "got 'sensitivity@2'"),
        ({"threshold": 1.5}, 2, "threshold must"),
        ({"threshold": "f1"}, 3, "threshold is for two classes, there are 3"),
        ({"positive": "x", "threshold": 0.5}, 2, "positive must be 0 or 1, got 'x'"),
    ],
)
def test_wrong_parameters_are_refused(change: dict, n_classes: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DecisionClassifier(Told(), **change).fit(told(60, n_classes))


def test_a_method_without_probabilities_is_refused() -> None:
    class Silent(ClassifierMixin, BaseEstimator):
        pass

    with pytest.raises(TypeError, match="need probabilities, Silent gives none"):
        DecisionClassifier(Silent(), threshold=0.3).fit(told(20))


# ---------------------------------------------------------------------- operating points


def test_sensitivity_at_a_specificity_is_that_of_the_roc_curve() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    p = np.round(rng.random(200) * 0.7 + 0.3 * y, 2)
    false, true, _ = roc_curve(y, p, drop_intermediate=False)
    for wanted in (0.5, 0.8, 0.95):
        best = true[1 - false >= wanted].max()
        assert sensitivity_at_specificity(y, both(p), CLASSES, wanted) == pytest.approx(best)
    turned = sensitivity_at_specificity(y, both(p), CLASSES, 0.8, positive=0)
    assert turned == pytest.approx(sensitivity_at_specificity(1 - y, both(1 - p), CLASSES, 0.8))
    assert np.isnan(sensitivity_at_specificity(np.ones(4), both(p[:4]), CLASSES))


def test_decision_curves_of_known_classifiers() -> None:
    y = np.arange(100) < 30
    perfect = decision_curve(y.astype(int), both(y.astype(float)), CLASSES)
    np.testing.assert_allclose(perfect["net_benefit"], 0.3)
    everybody = decision_curve(y.astype(int), both(np.ones(100)), CLASSES)
    np.testing.assert_allclose(everybody["net_benefit"], everybody["treat_all"])
    nobody = decision_curve(y.astype(int), both(np.zeros(100)), CLASSES)
    assert (nobody["net_benefit"] == 0).all() and (nobody["treat_none"] == 0).all()
    share = perfect.set_index("threshold")["treat_all"]
    assert share[0.3] == pytest.approx(0) and share[0.5] == pytest.approx(0.3 - 0.7)
    with pytest.raises(ValueError, match="between two classes, there are 3"):
        decision_curve([0, 1, 2], np.full((3, 3), 1 / 3), [0, 1, 2])
    with pytest.raises(ValueError, match="thresholds must be numbers in"):
        decision_curve([0, 1], both(np.array([0.1, 0.9])), CLASSES, [0.0])


def predictions(n: int = 60, methods: tuple[str, ...] = ("good", "blind")) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = []
    for method in methods:
        for seed in range(2):
            y = rng.integers(0, 2, n)
            p = np.clip(0.5 + (0.3 if method == "good" else 0) * (2 * y - 1) + rng.normal(size=n) / 10, 0, 1)
            rows = {"method": method, "data": "d", "protocol": "kfold", "seed": seed, "split": "1"}
            rows |= {"y_true": y, "y_pred": (p > 0.5).astype(int), "p_0": 1 - p, "p_1": p}
            parts.append(pd.DataFrame(rows))
    return pd.concat(parts, ignore_index=True)


def test_tables_of_methods_and_their_figure(tmp_path: Path) -> None:
    rows = predictions()
    points = operating_points(rows, [0.9]).set_index("method")["sensitivity"]
    assert points["good"] > points["blind"]
    curves = decision_curves(rows, [0.3, 0.5])
    at_half = curves[curves["threshold"] == 0.5].set_index("method")["net_benefit"]
    assert at_half["good"] > at_half["blind"]
    figure = draw_decision_curves(decision_curves(rows), path=tmp_path / "curves.png")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["good", "blind", "act on all", "act on none"] and (tmp_path / "curves.png").is_file()
    with pytest.raises(ValueError, match="no probabilities"):
        decision_curves(rows.drop(columns=["p_0", "p_1"]))


def test_the_report_draws_the_curve_of_what_it_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    from cignn.evaluation.classification import code
    from cignn.report import decisions
    from cignn.report.performance import Scored

    def view(y: np.ndarray, chances: np.ndarray) -> decisions.DecisionView | None:
        k = chances.shape[1]
        coded = code(y, chances.argmax(1), np.arange(k), chances)
        scored = Scored(coded, np.arange(len(y)), np.zeros(len(y), int), None)
        monkeypatch.setattr(decisions, "scored_of", lambda data: scored)
        return decisions.decision_view(None)  # type: ignore[arg-type]

    rows = predictions(methods=("good",))
    good = view(rows["y_true"].to_numpy(), rows[["p_0", "p_1"]].to_numpy())
    assert good is not None and "worth more than acting on everybody" in good.words
    assert [row[0] for row in good.rows] == list(decisions.SHOWN)
    heights = [float(pair.split(",")[1]) for pair in good.every.split()]
    assert max(heights) <= 250 and min(heights) >= 10
    blind = view(np.arange(40) % 2, np.full((40, 2), [0.4, 0.6]))
    assert blind is not None and blind.words.startswith("At no threshold")
    assert view(np.arange(30) % 3, np.full((30, 3), 1 / 3)) is None


# ------------------------------------------------------------------------- command line


@pytest.mark.medium
def test_decisions_on_the_command_line(call, tmp_path: Path, monkeypatch, cohort: Cohort) -> None:
    monkeypatch.chdir(tmp_path)
    cohort.save("study.npz")
    words = "evaluate study.npz --methods lasso --set C=1.0 --protocol kfold --folds 2 --calibrate sigmoid"
    result = call(*words.split(), "--threshold", "specificity@0.9", "--specificity", "0.8,0.9", "--json")
    assert result.code == 0, result.err
    points = json.loads(result.out)["operating_points"]
    assert [row["specificity"] for row in points] == [0.8, 0.9]
    curves = pd.read_csv("results/decision_curves.csv")
    assert {"method", "threshold", "net_benefit", "treat_all", "treat_none"} <= set(curves)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--calibrate platt", "must be one of sigmoid, isotonic, got platt"),
        ("--threshold best", "must be a number between 0 and 1 or one of accuracy"),
        ("--threshold sensitivity@7", "got sensitivity@7"),
        ("--specificity 80", "must be numbers between 0 and 1, got 80.0"),
    ],
)
def test_wrong_decisions_end_with_one_line(
    call, tmp_path: Path, monkeypatch, cohort: Cohort, words: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cohort.save("study.npz")
    result = call("evaluate", "study.npz", "--methods", "lasso", *words.split())
    assert result.code == 2 and said in result.words
