"""scikit-learn's own checks of estimators; what is expected to fail is listed with the reason.

The checks make arrays, which a classifier of graphs refuses; its tags say so. It is checked as a subclass
that takes each row of an array as the node features of a small graph.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from cignn import CIGNNClassifier, GraphSet
from cignn.estimators import GNNClassifier

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


class GNNOfRows(OfRows, GNNClassifier):
    pass


class CIGNNOfRows(OfRows, CIGNNClassifier):
    pass


ESTIMATORS: dict[str, BaseEstimator] = {
    "GNNClassifier": GNNOfRows("gin", hidden=(8,), head_hidden=(8,), learning_rate=0.1, dropout=0.0, **QUICK),
    "CIGNNClassifier": CIGNNOfRows(
        n_estimators=1,
        settings={
            "encoder_hidden": (8,),
            "classifier_hidden": (8,),
            "head_hidden": (8,),
            "learning_rate": 0.1,
            "dropout": 0.0,
            "causal_effect": None,
            "independence": False,
        },
        **QUICK,
    ),
}
EXPECTED = {
    "check_methods_subset_invariance": "networks compute in float32: sums round differently in other batches",
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_classifiers_of_graphs(name: str) -> None:
    check_estimator(ESTIMATORS[name], expected_failed_checks=EXPECTED, on_skip=None)


@pytest.mark.parametrize(
    "estimator", [CIGNNClassifier(), GNNClassifier()], ids=lambda one: type(one).__name__
)
def test_tags_do_not_claim_arrays(estimator: BaseEstimator) -> None:
    tags = get_tags(estimator)
    assert not tags.input_tags.two_d_array and not tags.target_tags.required
    assert tags.estimator_type == "classifier"
