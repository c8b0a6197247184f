"""Maps of connections as references: t, coefficients, patterns; and contributions as an explainer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from cignn import GraphSet
from cignn._arrays import upper_triangle
from cignn.datasets import make_ba2motifs
from cignn.estimators import GraphClassifier, make_estimator
from cignn.explainers import EXPLAINERS, make_explainer
from cignn.explainers.maps import STRENGTH

N, GRAPHS = 6, 40
MAPS = ("univariate", "coefficients", "haufe")


def aligned(classes: int = 2) -> GraphSet:
    values = np.random.default_rng(0).normal(size=(GRAPHS, N, N)).astype(np.float32)
    values = (values + values.swapaxes(1, 2)) / 2
    score = values[:, 0, 1] - values[:, 2, 3]
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return GraphSet.from_arrays(values, y=y, aligned=True)


def vectors(graphs: GraphSet) -> np.ndarray:
    found = upper_triangle(graphs.batch().adj.numpy()).astype(float)
    return (found - found.mean(0)) / found.std(0)


def lasso(graphs: GraphSet) -> GraphClassifier:
    return make_estimator("lasso", random_state=0).fit(graphs)


def gin(graphs: GraphSet) -> GraphClassifier:
    return make_estimator("gin", hidden=(8,), epochs=2, random_state=0).fit(graphs)


def test_univariate_is_the_t_of_two_samples() -> None:
    graphs = aligned()
    found = make_explainer("univariate").fit(gin(graphs), graphs)
    x = vectors(graphs)
    expected = stats.ttest_ind(x[graphs.y == 1], x[graphs.y == 0]).statistic
    np.testing.assert_allclose(upper_triangle(found.map_), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found.map_, found.map_.T)
    for i, explanation in enumerate(found.explain(graphs)):
        sizes = np.abs(found.map_[tuple(graphs.edges(i).T)])
        np.testing.assert_allclose(explanation.edge_weights, sizes / sizes.max(), rtol=1e-5)


def test_coefficients_are_those_of_a_linear_model_or_of_a_regression() -> None:
    graphs = aligned()
    model = lasso(graphs)
    found = make_explainer("coefficients").fit(model, graphs)
    np.testing.assert_array_equal(upper_triangle(found.map_), model.coefficients())
    beside = make_explainer("coefficients").fit(gin(graphs), graphs)
    x = vectors(graphs)
    regression = LogisticRegression(C=STRENGTH / x.shape[1], tol=1e-8, max_iter=1000).fit(x, graphs.y)
    np.testing.assert_allclose(upper_triangle(beside.map_), regression.coef_[0], atol=1e-3)


def test_haufes_pattern_is_the_covariance_with_the_log_odds() -> None:
    graphs = aligned()
    model = lasso(graphs)
    found = make_explainer("haufe").fit(model, graphs)
    chances = model.predict_proba(graphs)
    score = np.log(chances[:, 1]) - np.log(chances[:, 0])
    expected = [np.cov(column, score, ddof=0)[0, 1] for column in vectors(graphs).T]
    np.testing.assert_allclose(upper_triangle(found.map_), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MAPS)
def test_of_several_classes_each_has_a_map(name: str) -> None:
    graphs = aligned(3)
    model = lasso(graphs)
    found = make_explainer(name).fit(model, graphs)
    assert found.map_.shape == (3, N, N)
    predicted = np.searchsorted(model.classes_, model.predict(graphs))
    sizes = np.abs(upper_triangle(found.map_))[predicted]
    weights = np.array(found.explain(graphs).edge_weights)
    np.testing.assert_allclose(weights, sizes / sizes.max(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("name", MAPS)
def test_maps_need_aligned_graphs(name: str) -> None:
    assert EXPLAINERS[name].aligned_only
    graphs = make_ba2motifs(8, random_state=0)
    with pytest.raises(ValueError, match=r"explains connections of aligned graphs \(node i the same"):
        make_explainer(name).fit(gin(graphs), graphs)


@pytest.mark.parametrize("name", ["univariate", "coefficients"])
def test_maps_of_classes_need_their_labels(name: str) -> None:
    graphs = aligned()
    model = gin(graphs)
    with pytest.raises(ValueError, match="learns from labelled graphs; make the GraphSet with y"):
        make_explainer(name).fit(model, graphs.with_y(None))
    with pytest.raises(ValueError, match="compares classes, got graphs of one class alone"):
        make_explainer(name).fit(model, graphs[graphs.y == 1])


def test_contributions_explain_networks_and_linear_models() -> None:
    graphs = aligned()
    for model in (gin(graphs), lasso(graphs)):
        explainer = make_explainer("contributions").fit(model, graphs)
        found = explainer.explain(graphs, target=0)
        assert (found.explained == 0).all() and found.edge_contributions is not None
        for weights, values in zip(found.edge_weights, found.edge_contributions, strict=True):
            largest = np.abs(values).max()
            np.testing.assert_allclose(weights * largest, np.abs(values), atol=1e-5 * max(1, largest))
        predicted = explainer.explain(graphs)
        np.testing.assert_array_equal(predicted.explained, model.predict(graphs))
    svm = make_estimator("rbf-svm", random_state=0).fit(aligned(3))
    with pytest.raises(TypeError, match="'rbf-svm' explains decisions between two classes, these are 3"):
        make_explainer("contributions").fit(svm, graphs)


def test_built_in_explanations_have_contributions_where_they_are_cheap() -> None:
    motifs = make_ba2motifs(12, random_state=0)
    model = make_estimator("dir", hidden=(8,), epochs=1, random_state=0).fit(motifs)
    assert make_explainer("built-in").fit(model, motifs).explain(motifs).edge_contributions is None
    wanted = make_explainer("built-in", contributions=True).fit(model, motifs)
    assert wanted.explain(motifs).edge_contributions is not None
    with pytest.raises(ValueError, match="contributions must be one of 'auto', True, False, got 'some'"):
        make_explainer("built-in", contributions="some").fit(model, motifs)
