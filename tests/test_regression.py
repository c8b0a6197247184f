"""Scores as targets: metrics, splits, cohorts, and the shallow regressors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import cross_val_score

from cignn import Cohort, GraphSet, load_cohort, load_model
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import DataError, make_cohort, plant_edges
from cignn.datasets.scores import is_score, score_strata
from cignn.estimators import REGRESSORS, ConnectomePredictiveModel, make_estimator
from cignn.evaluation import (
    KFold,
    LeaveOneSiteOut,
    Store,
    bootstrap_intervals,
    evaluate,
    permutation_test,
    regression_scores,
    scores_by_site,
    site_table,
    summary,
)
from cignn.report import draw_scores, write_score_report

SHALLOW = ("mean", "ridge", "svr", "rbf-svr", "cpm")


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(60, 12, n_edges=5, effect=0.3, data="matrices", score=True, random_state=0)


@pytest.fixture(scope="module")
def graphs(cohort: Cohort) -> GraphSet:
    return make_connectome_pipeline(make_estimator("ridge"))[:-1].fit_transform(cohort, cohort.y)


# ----------------------------------------------------------------------- metrics


def test_metrics_are_those_of_scipy_and_sklearn() -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(size=40).round(1)  # with ties
    predicted = true + rng.normal(size=40).round(1)
    found = regression_scores(true, predicted)
    assert found["mae"] == pytest.approx(mean_absolute_error(true, predicted))
    assert found["r2"] == pytest.approx(r2_score(true, predicted))
    assert found["r"] == pytest.approx(stats.pearsonr(true, predicted).statistic)
    assert found["spearman"] == pytest.approx(stats.spearmanr(true, predicted).statistic)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_what_cannot_be_measured_is_nan(shift: float) -> None:
    constant = regression_scores(shift + np.array([1.0, 2.0, 4.0]), np.full(3, shift + 1 / 3))
    assert np.isnan(constant["r"]) and np.isnan(constant["spearman"]) and constant["r2"] < 0
    single = regression_scores([2.0], [3.0])
    assert single["mae"] == 1 and np.isnan(single["r2"])


def test_bad_predictions_are_refused() -> None:
    with pytest.raises(ValueError, match="as many predictions as scores"):
        regression_scores([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="must be finite"):
        regression_scores([1.0, 2.0], [1.0, np.nan])


# -------------------------------------------------------------------- what is a score


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1] * 20, False),
        (["a", "b"] * 20, False),
        ([0.0, 1.0] * 20, False),
        ([True, False] * 5, False),
        (np.linspace(0, 1, 30), True),
        (np.arange(40), True),
        (np.repeat(np.arange(20), 30), False),
        ([1.5, 2.0, None], True),
    ],
)
def test_scores_are_told_from_classes(labels: object, expected: bool) -> None:
    assert is_score(labels) == expected


def test_strata_hold_similar_scores_and_enough_subjects() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=103)
    strata = score_strata(scores)
    assert strata.max() == 4 and np.bincount(strata).min() >= 20
    assert (np.diff(strata[np.argsort(scores)]) >= 0).all()
    assert score_strata(rng.normal(size=15)).max() == 0
    tied = score_strata(np.r_[np.zeros(90), rng.normal(size=10)])
    assert len(set(tied[:90].tolist())) == 1


def test_folds_of_a_score_have_similar_means_and_keep_subjects_together() -> None:
    rng = np.random.default_rng(1)
    scores = np.repeat(rng.exponential(10, 60), 2) + 0.5
    subjects = np.repeat([f"s{i}" for i in range(60)], 2)
    data = Cohort(matrices=np.zeros((120, 3, 3)), y=scores, subjects=subjects)
    tests = [split.test for split in KFold(3).splits(data)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(120))
    for train, test in KFold(3).split(data):
        assert not set(subjects[train]) & set(subjects[test])
        # each fold has its share of the largest and of the smallest scores
        for low, high in ((0, 20), (80, 100)):
            ends = np.percentile(scores, [low, high])
            inside = (scores >= ends[0]) & (scores <= ends[1])
            assert abs(inside[test].mean() - inside.mean()) < 0.1


def test_sites_are_left_out_whatever_their_scores() -> None:
    sites = np.repeat(["child", "adult", "old"], 20)
    scores = np.concatenate([np.linspace(5, 12, 20), np.linspace(20, 40, 20), np.linspace(60, 80, 20)])
    data = Cohort(matrices=np.zeros((60, 3, 3)), y=scores, sites=sites)
    splits = LeaveOneSiteOut().splits(data)
    assert [set(sites[split.test]) for split in splits] == [{"adult"}, {"child"}, {"old"}]
    assert all(len(split.validation) for split in splits)


def test_too_few_subjects_for_the_folds_are_named() -> None:
    data = Cohort(matrices=np.zeros((4, 3, 3)), y=[1.5, 2.5, 3.5, 4.5])
    with pytest.raises(DataError, match="needs at least 10 subjects of similar scores, there are 4"):
        KFold(10).splits(data)


# ------------------------------------------------------------------------ cohorts


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "matrices").mkdir()
    rng = np.random.default_rng(0)
    lines = ["participant_id\tdiagnosis\tAge_at_scan\thamd"]
    for i in range(8):
        matrix = np.corrcoef(rng.normal(size=(4, 30)))
        np.save(tmp_path / "matrices" / f"sub-{i}.npy", matrix.astype(np.float32))
        lines.append(f"sub-{i}\t{'HC' if i % 2 else 'MDD'}\t{20 + 1.5 * i}\t{'n/a' if i == 2 else 3 * i}")
    (tmp_path / "participants.tsv").write_text("\n".join(lines))
    return tmp_path


def test_a_column_becomes_the_score(study: Path) -> None:
    for name in ("age", "AGE", "Age_at_scan"):
        cohort = load_cohort(study, target=name)
        assert cohort.y.dtype == np.float64 and cohort.y.tolist() == [20 + 1.5 * i for i in range(8)]
        assert "age" not in cohort.covariates and "diagnosis" in cohort.covariates
    assert "scores from 20 to 30.5" in repr(cohort)
    assert cohort.summary().index.tolist() == [("all", "all")]


def test_subjects_without_a_score_are_named_or_dropped(study: Path) -> None:
    with pytest.raises(DataError, match='no hamd for sub-2; pass missing_labels="drop_subject"'):
        load_cohort(study, target="hamd")
    cohort = load_cohort(study, target="hamd", missing_labels="drop_subject")
    assert "sub-2" not in cohort.subjects and len(cohort) == 7
    assert cohort.exclusions[["subject", "detail"]].to_numpy().tolist() == [["sub-2", "no hamd"]]


def test_what_is_no_score_is_refused_by_name(study: Path) -> None:
    with pytest.raises(DataError, match="diagnosis must be a number, got 'MDD' for sub-0"):
        load_cohort(study, target="diagnosis")
    with pytest.raises(DataError, match="no covariate 'bdi' to predict, got age, diagnosis, hamd"):
        load_cohort(study, target="bdi")
    with pytest.raises(DataError, match="predict it as a score with target"):
        load_cohort(study, label="Age_at_scan")


def test_the_label_stays_beside_a_score_of_saved_cohorts(tmp_path: Path) -> None:
    cohort = make_cohort(12, n_rois=4, n_edges=1, data="matrices", random_state=0)
    cohort.save(tmp_path / "cohort.npz")
    read = load_cohort(tmp_path / "cohort.npz", target="age")
    assert read.y.tolist() == cohort.covariates["age"].tolist()
    assert read.covariates["label"].tolist() == cohort.y.tolist()


@pytest.mark.parametrize("data", ["matrices", "series"])
def test_a_planted_score_moves_the_planted_edges(data: str) -> None:
    cohort = make_cohort(80, 10, n_edges=4, effect=0.4, data=data, score=True, random_state=3)
    matrices = cohort.matrices
    if matrices is None:
        matrices = np.stack([np.corrcoef(one, rowvar=False) for one in cohort.series])
    above = np.triu_indices(10, 1)
    r = [abs(np.corrcoef(values, cohort.y)[0, 1]) for values in matrices[:, *above].T]
    truth = cohort.edge_truth[above]
    assert np.mean(np.array(r)[truth]) > 2 * np.mean(np.array(r)[~truth])
    assert abs(cohort.y.mean() - 50) < 5 and 5 < cohort.y.std() < 15


def test_planting_a_score_leaves_cohorts_of_classes_as_they_were() -> None:
    controls = make_cohort(30, 8, n_edges=0, data="matrices", random_state=0)
    planted = plant_edges(controls, 3, score=True, random_state=1)
    classes = plant_edges(controls, 3, random_state=1)
    assert (planted.edge_truth == classes.edge_truth).all()
    assert ((planted.y > 50) == (classes.y == 1)).all()


# --------------------------------------------------------------------- regressors


@pytest.mark.parametrize("name", SHALLOW)
def test_contributions_add_up_to_the_prediction(name: str, graphs: GraphSet) -> None:
    model = make_estimator(name, random_state=0, target="BDI").fit(graphs)
    explanations = model.explain(graphs)
    assert is_regressor(model)
    np.testing.assert_allclose(explanations.log_odds, model.predict(graphs), rtol=1e-5)
    assert explanations.unit == "BDI" and set(explanations.explained) == {"BDI"}
    assert set(explanations.top_edges(5)["role"]) <= {"raises", "lowers", ""}
    if name != "mean":
        assert {"raises", "lowers"} <= set(explanations[0].table()["role"])


@pytest.mark.parametrize("name", SHALLOW)
def test_units_of_the_score_do_not_matter(name: str, graphs: GraphSet) -> None:
    one = make_estimator(name, random_state=0).fit(graphs)
    other = clone(one).fit(graphs, 1000 + 7 * graphs.y)
    np.testing.assert_allclose(other.predict(graphs), 1000 + 7 * one.predict(graphs), rtol=1e-6)


@pytest.mark.parametrize("name", SHALLOW)
def test_saved_models_predict_the_same(name: str, graphs: GraphSet, tmp_path: Path) -> None:
    model = make_estimator(name, random_state=0, target="BDI").fit(graphs)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.predict(graphs) == model.predict(graphs)).all()
    assert (loaded.explain(graphs).log_odds == model.explain(graphs).log_odds).all()
    assert loaded.trained_on(graphs).all() and loaded.target == "BDI"


def test_cpm_is_a_line_through_the_sums_of_selected_connections() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 30))
    y = x[:, :3].sum(1) - x[:, 3:5].sum(1) + rng.normal(size=100)
    model = ConnectomePredictiveModel(threshold=0.01).fit(x, y)
    p = np.array([stats.pearsonr(column, y).pvalue for column in x.T])
    r = np.array([stats.pearsonr(column, y).statistic for column in x.T])
    assert (model.selected_ == np.where(p < 0.01, np.sign(r), 0)).all()
    sums = np.stack([x[:, model.selected_ == side].sum(1) for side in (1, -1)], 1)
    by_hand = LinearRegression().fit(sums, y).predict(sums)
    np.testing.assert_allclose(model.predict(x), by_hand)


def test_cpm_without_a_connection_predicts_the_mean() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    model = ConnectomePredictiveModel(threshold=1e-12).fit(x, y)
    assert not model.selected_.any() and np.allclose(model.predict(x), y.mean())


def test_errors_of_regressors(graphs: GraphSet) -> None:
    with pytest.raises(ValueError, match="must hold numbers, the scores to predict, got a, b; a classifier"):
        make_estimator("ridge").fit(graphs, ["a", "b"] * 30)
    with pytest.raises(ValueError, match="finite scores, number 0 is inf"):
        make_estimator("ridge").fit(graphs, [np.inf] + [1.0] * 59)
    with pytest.raises(ValueError, match="at least 4 graphs with scores, got 2"):
        make_estimator("ridge").fit(graphs[:2])
    with pytest.raises(ValueError, match="strength must lie"):
        make_estimator("ridge", strength=-1).fit(graphs)
    with pytest.raises(ValueError, match="a regressor, such as CIGNNRegressor, learns a score"):
        make_estimator("lasso").fit(graphs)
    with pytest.raises(ValueError, match="target must be the name of the score"):
        make_estimator("ridge", target="").fit(graphs)


def test_cpm_needs_connections() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 7, 12)
    graphs = GraphSet.from_arrays([1 - np.eye(n) for n in sizes], y=sizes + 0.5)
    with pytest.raises(ValueError, match="'cpm' reads connections of aligned graphs"):
        make_estimator("cpm").fit(graphs)
    assert make_estimator("ridge", random_state=0).fit(graphs).predict(graphs).shape == (12,)
    with pytest.raises(AttributeError, match="does not explain its predictions"):
        _ = make_estimator("ridge", random_state=0).fit(graphs).explain


# ------------------------------------------------------------------------- report


def test_the_figure_of_scores_shows_every_subject_and_its_residual() -> None:
    observed, predicted = np.array([20.0, 30.0, 45.0, 50.0]), np.array([24.0, 31.0, 39.0, 51.0])
    figure = draw_scores(observed, predicted, "age", groups=np.array(["a", "a", "b", "b"]))
    left, right = figure.axes
    points = [np.concatenate([one.get_offsets() for one in ax.collections]) for ax in (left, right)]
    np.testing.assert_allclose(points[0], np.stack([observed, predicted], 1))
    np.testing.assert_allclose(points[1], np.stack([predicted, observed - predicted], 1))
    with pytest.raises(ValueError, match="as many predictions as scores"):
        draw_scores(observed, predicted[:2])


def test_the_page_of_scores_escapes_and_lists_everybody(graphs: GraphSet, tmp_path: Path) -> None:
    model = make_estimator("cpm", target="<b>BDI</b>").fit(graphs[:40])
    told = {
        "subject": [f"s<{i}" for i in range(60)],
        "observed": graphs.y,
        "predicted": model.predict(graphs),
    }
    table = pd.DataFrame(told | {"trained_on": model.trained_on(graphs)})
    page = write_score_report(
        tmp_path / "r.html", table, model.explain(graphs), target=model.target
    ).read_text()
    assert "<b>BDI</b>" not in page and "&lt;b&gt;BDI" in page and "s&lt;59" in page
    expected = regression_scores(graphs.y[40:], model.predict(graphs[40:]))["mae"]
    assert f"<td>{expected:.3f}</td>" in page
    with pytest.raises(ValueError, match=r"a report is an \.html file"):
        write_score_report(tmp_path / "r.pdf", table, model.explain(graphs))


# --------------------------------------------------------------------- evaluation


@pytest.fixture(scope="module")
def evaluated(cohort: Cohort, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("store")
    results = evaluate(["mean", "ridge", "cpm"], cohort, KFold(3), store=folder, verbose=0)
    with Store(folder) as store:
        return results, store.predictions()


def test_evaluate_scores_regressors_in_the_same_folds(evaluated: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    results, predictions = evaluated
    assert set(results["metric"]) == {"mae", "r2", "r", "spearman"} and results["positive"].isna().all()
    assert not [c for c in predictions if c.startswith("p_")]
    tested = {method: tuple(some["position"]) for method, some in predictions.groupby("method")}
    assert len(set(tested.values())) == 1
    mean = predictions[predictions["method"] == "mean"]
    for split, some in mean.groupby("split"):  # of those that are not tested
        rest = mean[mean["split"] != split]["y_true"].mean()
        assert some["y_pred"].to_numpy() == pytest.approx(rest)
    table = summary(results, as_text=False)
    assert table.loc[("data", "ridge"), ("mae", "mean")] < table.loc[("data", "mean"), ("mae", "mean")]


def test_p_values_and_intervals_of_regressors(evaluated: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    predictions = evaluated[1]
    for metric in ("auto", "r2", "mae"):
        table = permutation_test(predictions, metric, n_permutations=100).set_index("method")
        assert table.loc["ridge", "p_value"] < 0.05 and table.loc["mean", "p_value"] > 0.5
    assert np.isnan(permutation_test(predictions, "r", n_permutations=20).set_index("method").p_value["mean"])
    with pytest.raises(ValueError, match="accuracy needs another kind of labels"):
        permutation_test(predictions, "accuracy")
    table = bootstrap_intervals(predictions, n_resamples=50)
    table = table[table["method"] == "ridge"]
    assert table["metric"].tolist() == ["mae", "r2", "r", "spearman"]
    assert (table["low"] < table["high"]).all()


def test_scores_of_sites(evaluated: tuple[pd.DataFrame, pd.DataFrame], cohort: Cohort) -> None:
    table = scores_by_site(evaluated[1])
    ridge = table[table["method"] == "ridge"].set_index("site")
    assert ridge["scans"].to_dict() == pd.Series(cohort.sites).value_counts().to_dict()
    one = evaluated[1].query("method == 'ridge' and site == 'site-1'")
    assert ridge["mae"]["site-1"] == pytest.approx((one["y_true"] - one["y_pred"]).abs().mean())
    results = evaluate("ridge", cohort, "loso", verbose=0)
    assert site_table(results, "mae").index.tolist() == ["site-1", "site-2", "site-3", "mean over sites"]


def test_settings_are_searched_by_the_error(cohort: Cohort, tmp_path: Path) -> None:
    search = {"ridge": {"strength": [1e-3, 1e9]}}
    evaluate("ridge", cohort, KFold(2), search=search, store=tmp_path, verbose=0)
    with Store(tmp_path) as store:  # the larger predicts the mean
        assert {one["strength"] for one in store.tasks()["chosen"]} == {1e-3}


def test_classifiers_and_scores_do_not_go_together(cohort: Cohort) -> None:
    with pytest.raises(ValueError, match="are a score, and 'lasso' predicts classes; evaluate regressors"):
        evaluate("lasso", cohort)
    with pytest.raises(ValueError, match="'ridge' predicts a score and 'lasso' classes"):
        evaluate(["lasso", "ridge"], cohort)
    with pytest.raises(ValueError, match="positive is for two classes"):
        evaluate("ridge", cohort, positive=1)
    with pytest.raises(ValueError, match="search_metric must be one of mae"):
        evaluate("ridge", cohort, search_metric="accuracy")


def test_scikit_learn_cross_validates_regressors(graphs: GraphSet) -> None:
    assert cross_val_score(make_estimator("cpm"), graphs, graphs.y, cv=KFold(3)).shape == (3,)


def test_the_registry_tells_regressors_from_classifiers() -> None:
    assert all(is_regressor(make_estimator(name)) for name in REGRESSORS)
    with pytest.raises(ValueError, match="there is no method 'rigde'"):
        make_estimator("rigde")


def test_the_labels_of_a_cohort_may_be_the_score() -> None:
    cohort = make_cohort(40, n_rois=8, n_edges=3, data="matrices", score=True, random_state=0)
    again = cohort.with_target("label")
    np.testing.assert_allclose(again.y, cohort.y)
    assert "label" not in again.covariates
    assert "label" in cohort.with_target("age").covariates
