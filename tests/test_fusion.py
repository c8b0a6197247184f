"""Several views of the subjects: matched by id, scored on unseen subjects, fused by non-negative weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from cignn.datasets import Cohort, DataError, MultiViewCohort, make_cohort
from cignn.estimators import FusedClassifier, TableClassifier, make_estimator
from cignn.estimators.fusion import centred_logits, equal_weights, inner_folds, stacked_weights
from cignn.evaluation import KFold, evaluate


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(48, n_rois=8, n_edges=5, effect=0.8, lengths=(30, 40), n_sites=3, random_state=0)


@pytest.fixture(scope="module")
def both(cohort: Cohort) -> MultiViewCohort:
    """Another atlas in another order, with somebody more, and a table."""
    rng = np.random.default_rng(0)
    other = Cohort(rng.normal(size=(49, 30, 5)), subjects=[*cohort.subjects[::-1], "sub-9999"])
    table = pd.DataFrame({"volume": rng.normal(size=48) + cohort.y, "hand": ["l", "r"] * 24})
    return MultiViewCohort(cohort, {"finer": other, "anatomy": table.set_index(cohort.subjects)[::-1]})


class Memory(ClassifierMixin, BaseEstimator):
    """Knows the label of whom it was trained on and nothing else."""

    def fit(self, X: Cohort, y: np.ndarray | None = None) -> Memory:
        y = X.y if y is None else y
        self.classes_ = np.unique(y)
        self.known_ = dict(zip(X.subjects.tolist(), np.asarray(y).tolist(), strict=True))
        return self

    def predict_proba(self, X: Cohort) -> np.ndarray:
        told = [[0.01, 0.99] if self.known_.get(s) == self.classes_[1] else [0.99, 0.01] for s in X.subjects]
        unknown = np.array([s not in self.known_ for s in X.subjects])
        return np.where(unknown[:, None], 0.5, np.array(told))

    def predict(self, X: Cohort) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(1)]


# --------------------------------------------------------------------------- views


def test_views_are_matched_by_id_and_go_along(both: MultiViewCohort, cohort: Cohort) -> None:
    some = both[[7, 2, 30]]
    finer = some.view("finer")
    assert finer.subjects.tolist() == cohort.subjects[[7, 2, 30]].tolist() and finer.n_rois == 5
    assert finer.y.tolist() == cohort.y[[7, 2, 30]].tolist() and some.with_y(None).view("finer").y is None
    for i, place in enumerate((7, 2, 30)):
        np.testing.assert_array_equal(finer.series[i], both.views["finer"].series[place])
    volumes = some.view("anatomy").covariates["volume"]
    np.testing.assert_array_equal(volumes, both.views["anatomy"]["volume"].to_numpy()[[7, 2, 30]])
    assert isinstance(both[:, ...], MultiViewCohort) and both[3].subject == cohort.subjects[3]
    assert "views finer (5 ROIs), anatomy (2 columns)" in repr(both)


def test_the_digest_knows_the_views(both: MultiViewCohort, cohort: Cohort) -> None:
    table = both.views["anatomy"].assign(volume=0.0).set_index(cohort.subjects)
    assert MultiViewCohort(cohort, both.views | {"anatomy": table}).digest() != both.digest()
    assert both[:].digest() == both.digest() != cohort.digest()


def test_who_lacks_a_view_is_named(cohort: Cohort) -> None:
    with pytest.raises(DataError, match="view 'finer' lacks 3 of 48 subjects: sub-0001, sub-0002, sub-0003;"):
        MultiViewCohort(cohort, {"finer": cohort[3:]})
    with pytest.raises(TypeError, match="view 'finer' must be a Cohort or a DataFrame, got list"):
        MultiViewCohort(cohort, {"finer": [1, 2]})
    with pytest.raises(ValueError, match="there is no view 'fin'"):
        MultiViewCohort(cohort, {"finer": cohort}).view("fin")
    with pytest.raises(TypeError, match="saved view by view"):
        MultiViewCohort(cohort, {}).save("both.npz")


def test_scans_of_a_subject_have_one_row_or_one_each() -> None:
    scans = Cohort(np.random.default_rng(0).normal(size=(4, 20, 3)), subjects=["a", "b", "a", "b"])
    one = pd.DataFrame({"v": [1, 2]}, index=["b", "a"])
    each = pd.DataFrame({"subject": ["a", "a", "b", "b"], "v": [1, 2, 3, 4]})
    found = MultiViewCohort(scans, {"one": one, "each": each})
    assert found.views["one"]["v"].tolist() == [2, 1, 2, 1]
    assert found.views["each"]["v"].tolist() == [1, 3, 2, 4]
    with pytest.raises(DataError, match="has 3 rows of a, the cohort 2 scans"):
        MultiViewCohort(scans, {"odd": pd.DataFrame({"v": range(4)}, index=list("aaab"))})


# ------------------------------------------------------------------------- weights


def scores(rng: np.random.Generator, codes: np.ndarray, *effects: float) -> np.ndarray:
    """(views, n, classes) logits that tell the class with these effects."""
    n, k = len(codes), codes.max() + 1
    raw = np.array([effect * np.eye(k)[codes] + rng.normal(size=(n, k)) for effect in effects])
    return raw - raw.mean(-1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_not_negative_and_go_to_what_tells(n_classes: int) -> None:
    codes = np.arange(600) % n_classes
    views = scores(np.random.default_rng(0), codes, 2.0, 1.0, 0.0, -1.0)
    found = stacked_weights(views, codes, l2=0.0)
    assert (found.views >= 0).all() and found.views[3] == 0 and np.isclose(found.shares.sum(), 1)
    assert found.shares[0] > found.shares[1] > found.shares[2]
    turned = stacked_weights(views[::-1], codes, l2=0.0)
    np.testing.assert_allclose(turned.shares[::-1], found.shares, atol=1e-3)


def test_the_penalty_draws_weights_together_and_scale_does_not_matter() -> None:
    codes = np.arange(300) % 2
    views = scores(np.random.default_rng(1), codes, 2.0, 0.5)
    free, bound = stacked_weights(views, codes, 0.0), stacked_weights(views, codes, 1e6)
    np.testing.assert_allclose(bound.shares, 0.5, atol=1e-3)
    assert free.shares[0] > 0.6
    scaled = stacked_weights(views * np.array([100.0, 1.0])[:, None, None], codes, 10.0)
    np.testing.assert_allclose(scaled.shares, stacked_weights(views, codes, 10.0).shares, atol=1e-3)
    same = stacked_weights(np.stack([views[0], views[0]]), codes, 1.0)
    np.testing.assert_allclose(same.shares, 0.5, atol=1e-3)


def test_the_mean_is_that_of_log_odds() -> None:
    chances = np.array([[[0.2, 0.8]], [[0.6, 0.4]]])
    fused = equal_weights(2, 2).probabilities(centred_logits(chances))
    odds = np.log(chances[..., 1] / chances[..., 0]).mean(0)
    np.testing.assert_allclose(fused[:, 1], 1 / (1 + np.exp(-odds)))


@pytest.mark.parametrize("by", ["subject", "site"])
def test_inner_folds_hold_subjects_and_sites_together(by: str) -> None:
    rng = np.random.default_rng(0)
    subjects = np.repeat([f"s{i}" for i in range(30)], 2)
    sites = np.repeat(rng.choice(list("ABCD"), 30), 2)
    codes = np.repeat(np.arange(30) % 2, 2)
    scans = Cohort(matrices=np.zeros((60, 3, 3)), subjects=subjects, sites=sites)
    folds = inner_folds(scans, codes, 4, by, 0)
    assert sorted(np.concatenate([fold.held for fold in folds])) == list(range(60))
    names = subjects if by == "subject" else sites
    assert all(not set(names[fold.kept]) & set(names[fold.held]) for fold in folds)
    with pytest.raises(ValueError, match='by="site" needs sites'):
        inner_folds(Cohort(matrices=np.zeros((60, 3, 3))), codes, 4, "site", 0)


# ---------------------------------------------------------------------- classifier


def test_weights_come_from_subjects_that_a_model_has_not_seen(cohort: Cohort) -> None:
    knowing = TableClassifier(["truth"])
    table = cohort.covariates.assign(truth=cohort.y + np.random.default_rng(0).normal(size=48) / 3)
    told = cohort._with(covariates=table)
    model = FusedClassifier([("memory", Memory()), ("table", knowing)], l2=0.0, random_state=0).fit(told)
    np.testing.assert_allclose(model.out_of_fold_[0], 0, atol=1e-12)
    assert model.shares_.tolist() == [0.0, 1.0]
    again = clone(model).fit(told)
    np.testing.assert_array_equal(again.predict_proba(told), model.predict_proba(told))


def test_a_fusion_of_views_explains_what_each_added(both: MultiViewCohort) -> None:
    views = {"correlation": "correlation", "finer": "partial", "anatomy": None, "who": ["age", "sex"]}
    model = FusedClassifier.make(views, make_estimator("lasso", C=0.2), n_splits=3, random_state=0)
    model.fit(both[:36])
    held = both[36:].with_y(None)
    chances = model.predict_proba(held)
    told = model.explain(held)
    odds = np.log(chances.max(1) / chances.min(1))
    np.testing.assert_allclose(told.base + told.by_view.to_numpy().sum(1), odds, atol=1e-6)
    assert list(told.views) == list(views) == list(model.shares_.index)
    connections, columns = told.views["finer"], told.views["anatomy"]
    np.testing.assert_allclose(connections.log_odds, told.by_view["finer"], atol=1e-4)
    whole = columns[["base", "volume", "hand"]].to_numpy().sum(1)
    np.testing.assert_allclose(whole, told.by_view["anatomy"], atol=1e-6)
    assert connections.graphs.n_nodes.max() == 5 and (told.explained == model.predict(held)).all()
    other = model.explain(held, target=model.classes_[0])
    assert set(other.explained) == {model.classes_[0]}
    with pytest.raises(ValueError, match="reads the view 'finer', which these subjects do not have"):
        model.predict_proba(both.cohort)


def test_one_view_alone_is_its_model(cohort: Cohort) -> None:
    model = FusedClassifier.make(["correlation"], make_estimator("lasso", C=0.2), fusion="mean").fit(cohort)
    alone = model.view_probabilities(cohort)["correlation"]
    np.testing.assert_allclose(model.predict_proba(cohort), alone, atol=1e-7)
    assert model.shares_.tolist() == [1.0] and model.out_of_fold_ is None


def test_evaluate_takes_a_fusion_and_keeps_its_shares(both: MultiViewCohort) -> None:
    views = {"correlation": "correlation", "anatomy": None}
    fused = FusedClassifier.make(views, make_estimator("lasso", C=0.2), n_splits=2)
    results = evaluate({"fused": fused}, both, KFold(2), verbose=0)
    assert not (results["metric"] == "error").any()
    shares = results[results["metric"].str.startswith("share_")]
    assert set(shares["metric"]) == {"share_correlation", "share_anatomy"}
    np.testing.assert_allclose(shares.groupby("split")["value"].sum(), 1)


def test_parameters_of_views_are_reached_by_name() -> None:
    model = FusedClassifier.make(["correlation", "tangent"], make_estimator("lasso"))
    model.set_params(tangent__classifier__C=0.5, random_state=3)
    assert model.views[1][1][-1].C == 0.5 and model.views[0][1][-1].C == "auto"
    assert clone(model).get_params()["tangent__classifier__C"] == 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fusion": "vote"}, "fusion must be one of 'stacking', 'mean', got 'vote'"),
        ({"by": "region"}, "by must be one of 'subject', 'site', got 'region'"),
        ({"l2": -1}, "l2 must"),
        ({"views": []}, "a fusion needs views"),
        ({"views": [("a", Memory()), ("a", Memory())]}, "two views are named 'a'"),
    ],
)
def test_wrong_parameters_are_refused(cohort: Cohort, change: dict, words: str) -> None:
    model = FusedClassifier([("memory", Memory())]).set_params(**change)
    with pytest.raises(ValueError, match=words):
        model.fit(cohort)


def test_wrong_views_are_refused() -> None:
    with pytest.raises(ValueError, match="view 'a' must be a kind of connectivity"):
        FusedClassifier.make({"a": "corr"})
    with pytest.raises(TypeError, match="view 'a' must be a kind, columns or an estimator, got int"):
        FusedClassifier.make({"a": 3})


# --------------------------------------------------------------------------- tables


def test_a_table_names_who_lacks_a_value(cohort: Cohort) -> None:
    table = cohort.covariates.copy()
    table.loc[3, "age"] = np.nan
    lacking = cohort._with(covariates=table)
    with pytest.raises(DataError, match="age is missing for sub-0004"):
        TableClassifier(["age", "sex"]).fit(lacking)
    filled = TableClassifier(["age", "sex"], missing="mean").fit(lacking)
    assert np.isfinite(filled.predict_proba(lacking)).all()
    with pytest.raises(DataError, match="the cohort has no covariate weight"):
        TableClassifier(["weight"]).fit(cohort)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_contributions_of_columns_add_up(cohort: Cohort, n_classes: int) -> None:
    labels = np.arange(len(cohort)) % n_classes
    model = TableClassifier(["age", "sex", "site"]).fit(cohort, labels)
    table = model.explain(cohort)
    chances = model.predict_proba(cohort).max(1)
    whole = table[["base", "age", "sex", "site"]].to_numpy().sum(1)
    np.testing.assert_allclose(whole, np.log(chances / (1 - chances)), atol=1e-5)


# ------------------------------------------------------------------------ commands


@pytest.mark.medium
def test_views_on_the_command_line(call, tmp_path: Path, monkeypatch, both: MultiViewCohort) -> None:
    monkeypatch.chdir(tmp_path)
    both.cohort.save("study.npz")
    both.view("finer").save("finer.npz")
    both.views["anatomy"].assign(participant_id=both.subjects).to_csv("anatomy.csv", index=False)
    words = "evaluate study.npz --methods lasso --set C=0.2 --protocol kfold --folds 2 --views correlation"
    added = "--view finer=finer.npz --view anatomy=anatomy.csv --view who=age+sex"
    result = call(*words.split(), *added.split(), "--json")
    assert result.code == 0, result.err
    rows = pd.DataFrame(json.loads(result.out)["summary"]).set_index("method")
    alone = ["lasso/correlation", "lasso/finer", "anatomy", "who"]
    assert rows.index.tolist() == [*alone, "lasso/mean", "lasso/stacked"]
    assert np.isclose(rows.filter(regex="share_.* mean").loc["lasso/stacked"].sum(), 1)
    shown = call(*words.split(), *added.split())
    assert "share of each view" in shown.words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--views correlation", "a fusion needs two views, got only correlation"),
        ("--views correlation,tangents", "did you mean tangent?"),
        ("--views correlation,partial --connectivity tangent", "is among --views"),
        ("--views correlation --view correlation=x.npz", "two views are named 'correlation'"),
        ("--views correlation --view x", "expected NAME=WHAT, got 'x'"),
        ("--views correlation --view who=ages", "neither a file nor columns of the participants"),
    ],
)
def test_wrong_views_end_with_one_line(
    call, tmp_path: Path, monkeypatch, cohort: Cohort, words: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cohort.save("study.npz")
    result = call("evaluate", "study.npz", "--methods", "lasso", *words.split())
    assert result.code == 2 and said in result.words
