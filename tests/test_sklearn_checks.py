"""scikit-learn's own checks of estimators; what is expected to fail is listed with the reason.

The checks make arrays, which a classifier of graphs refuses; its tags say so. It is checked as a subclass
that takes each row of an array as the node features of a small graph.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils import Tags, get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from cignn import CIGNNClassifier, CIGNNRegressor, Cohort, GraphSet
from cignn._arrays import digest, upper_triangle
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs, Deconfound, RoiSeries
from cignn.estimators import (
    ConnectomePredictiveModel,
    GNNClassifier,
    GraphVectors,
    ShallowGraphClassifier,
    ShallowGraphRegressor,
)

pytestmark = pytest.mark.medium

QUICK: dict[str, Any] = {"epochs": 5, "random_state": 0, "device": "cpu"}


def graphs_of(rows: np.ndarray) -> GraphSet:
    """Triangles whose three nodes have a row of the array as their features."""
    n = len(rows)
    triangle = np.ones((3, 3)) - np.eye(3)
    return GraphSet.from_arrays(np.tile(triangle, (n, 1, 1)), np.repeat(rows[:, None], 3, axis=1))


class OfRows:
    """A classifier of graphs that takes arrays, as scikit-learn's checks make them."""

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y)
        return super().fit(graphs_of(X), y)

    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return super().predict_proba(graphs_of(validate_data(self, X, reset=False)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return float(np.average(self.predict(X) == y, weights=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = tags.target_tags.required = True
        return tags


class ScoresOfRows:
    """A regressor of graphs that takes arrays."""

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, y_numeric=True)
        return super().fit(graphs_of(X), y)

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return super().predict(graphs_of(validate_data(self, X, reset=False)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = tags.target_tags.required = True
        return tags


class VectorsOfRows(GraphVectors):
    """Takes arrays in place of graphs."""

    def fit(self, X: Any, y: Any = None) -> Self:
        return super().fit(graphs_of(validate_data(self, X)))

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return super().transform(graphs_of(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation = True, False
        return tags


def cohort_of(rows: np.ndarray, series: bool) -> Cohort:
    """Subjects whose connectivity depends on a row of the array, from two sites."""
    d = rows.shape[1]
    sites = np.array([int(digest(row), 16) % 2 for row in rows])  # depends on the row alone
    if not series:
        return Cohort(matrices=rows[:, :, None] * rows[:, None], sites=sites)
    time = np.random.default_rng(0).normal(size=(d + 8, d + 1))
    return Cohort(series=[time[:, :1] * row + time[:, 1:] for row in rows], sites=sites)


class OfSubjects:
    """A transformer of cohorts that takes and returns arrays, as scikit-learn's checks make them."""

    series = False

    def fit(self, X: Any, y: Any = None) -> Self:
        return super().fit(cohort_of(validate_data(self, X), self.series))

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        out = super().transform(cohort_of(validate_data(self, X, reset=False), self.series))
        matrices = out.batch().adj.numpy() if isinstance(out, GraphSet) else out.matrices
        return upper_triangle(matrices)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation = True, False
        return tags


class ConnectivityOfRows(OfSubjects, Connectivity):
    series = True


class ComBatOfRows(OfSubjects, ComBat):
    pass


class DeconfoundOfRows(OfSubjects, Deconfound):
    pass


class GraphsOfRows(OfSubjects, ConnectomeGraphs):
    pass


class ShallowOfRows(OfRows, ShallowGraphClassifier):
    pass


class GNNOfRows(OfRows, GNNClassifier):
    pass


class CIGNNOfRows(OfRows, CIGNNClassifier):
    pass


class ShallowScoresOfRows(ScoresOfRows, ShallowGraphRegressor):
    pass


class CIGNNScoresOfRows(ScoresOfRows, CIGNNRegressor):
    pass


SMALL = {
    "encoder_hidden": (8,),
    "classifier_hidden": (8,),
    "head_hidden": (8,),
    "learning_rate": 0.1,
    "dropout": 0.0,
    "causal_effect": None,
    "independence": False,
}
ESTIMATORS: dict[str, BaseEstimator] = {
    "ShallowGraphRegressor, ridge": ShallowScoresOfRows(random_state=0),
    "ShallowGraphRegressor, svr": ShallowScoresOfRows("rbf-svr", random_state=0),
    "ConnectomePredictiveModel": ConnectomePredictiveModel(0.2),
    "CIGNNRegressor": CIGNNScoresOfRows(n_estimators=1, settings=SMALL, **QUICK | {"epochs": 20}),
    "ShallowGraphClassifier, svm": ShallowOfRows(random_state=0),
    "ShallowGraphClassifier, forest": ShallowOfRows("random-forest", n_estimators=5, random_state=0),
    "GNNClassifier": GNNOfRows("gin", hidden=(8,), head_hidden=(8,), learning_rate=0.1, dropout=0.0, **QUICK),
    "CIGNNClassifier": CIGNNOfRows(n_estimators=1, settings=SMALL, **QUICK),
}
EXPECTED = {
    "check_methods_subset_invariance": "networks compute in float32: sums round differently in other batches",
    "check_fit2d_1sample": "one graph is refused with the number that a regressor needs",
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_of_graphs(name: str) -> None:
    check_estimator(ESTIMATORS[name], expected_failed_checks=EXPECTED, on_skip=None)


@pytest.mark.parametrize(
    "estimator", [CIGNNClassifier(), GNNClassifier(), CIGNNRegressor()], ids=lambda one: type(one).__name__
)
def test_tags_do_not_claim_arrays(estimator: BaseEstimator) -> None:
    tags = get_tags(estimator)
    assert not tags.input_tags.two_d_array and not tags.target_tags.required
    assert tags.estimator_type == ("regressor" if isinstance(estimator, CIGNNRegressor) else "classifier")


TRANSFORMERS: dict[str, BaseEstimator] = {
    "GraphVectors": VectorsOfRows(),
    "Connectivity": ConnectivityOfRows(),
    "Connectivity, tangent": ConnectivityOfRows("tangent"),
    "ComBat": ComBatOfRows(()),
    "Deconfound": DeconfoundOfRows(("site",), unseen="pass"),
    "ConnectomeGraphs": GraphsOfRows(),
}
EXPECTED_OF_COMBAT = {
    "check_fit2d_1sample": "one subject is refused with the number of subjects and sites",
    "check_fit2d_1feature": "one ROI has no connection and is refused in the same words",
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name: str) -> None:
    expected = EXPECTED_OF_COMBAT if name == "ComBat" else {}
    check_estimator(TRANSFORMERS[name], expected_failed_checks=expected, on_skip=None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "transformer",
    [GraphVectors(), Connectivity(), ComBat(), Deconfound(), ConnectomeGraphs(), RoiSeries("atlas.nii")],
    ids=lambda one: type(one).__name__,
)
def test_tags_of_transformers_do_not_claim_arrays(transformer: BaseEstimator) -> None:
    check_estimator(transformer, on_skip=None)  # what needs no data
    tags = get_tags(transformer)
    assert not tags.input_tags.two_d_array and tags.transformer_tags is not None
    assert tags.requires_fit == (not isinstance(transformer, (ConnectomeGraphs, RoiSeries)))
