"""`GraphRegressor`: what every regressor of graphs shares, with a network inside or without."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from cignn._checks import shown
from cignn.datasets.scores import as_scores
from cignn.estimators.graph_estimator import EvalSet, GraphEstimator, with_targets
from cignn.explanations import EdgeReference, Explanations
from cignn.graphs import GraphSet

FEWEST_GRAPHS = 4  # to learn a score from: two to learn and two to choose on
REFERENCE = "all subjects"  # name of what deviations are from


class Scale(NamedTuple):
    """Mean and standard deviation of the scores of training graphs."""

    mean: float
    scale: float

    @classmethod
    def of(cls, scores: np.ndarray) -> Scale:
        """Measure scores; those that are all the same have the scale 1."""
        spread = float(scores.std())
        return cls(float(scores.mean()), spread if spread > 1e-12 * max(1.0, abs(scores).max()) else 1.0)

    def standardised(self, scores: np.ndarray) -> np.ndarray:
        """Scores in standard deviations from the mean."""
        return (scores - self.mean) / self.scale

    def restored(self, values: np.ndarray) -> np.ndarray:
        """Standardised values as scores."""
        return self.mean + self.scale * np.asarray(values, np.float64)


def scored(graphs: Any, y: Sequence | np.ndarray | None) -> tuple[GraphSet, np.ndarray]:
    """Return the graphs and their scores (g,) float64, ``y`` or their own; refuse what is neither."""
    graphs, labels = with_targets(graphs, y)
    return graphs, as_scores(labels)


def checked_scores(values: np.ndarray) -> np.ndarray:
    """Return (g,) predictions as they are; refuse numbers that are not finite."""
    good = np.isfinite(values)
    if not good.all():
        raise ValueError(
            f"the model gives graph {good.argmin()} no score: its weights, or the numbers of the graph, are "
            "too large; look for extreme values, or fit the model again."
        )
    return values


class GraphRegressor(RegressorMixin, GraphEstimator):
    """Base of all regressors of graphs: scikit-learn's interface with a `GraphSet` as X.

    Scores are standardised inside ``fit`` and predicted in their own units.

    Attributes
    ----------
    target_scale_ : Scale
        Mean and standard deviation of the training scores.
    n_features_in_ : int
        Node features of the training graphs.
    node_names_ : list of str or None
        Node names of the training graphs.
    settings_ : dict
        Every parameter as it was used.
    edge_statistics_ : EdgeStatistics or None
        Centre and scale of every connection in the training graphs, where they were aligned.
    reference_ : EdgeReference or None
        Mean and standard deviation of every connection in the training graphs.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import GraphRegressor, make_estimator
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("ridge", random_state=0).fit(graphs, [graph.weights.sum() for graph in graphs])
    >>> isinstance(model, GraphRegressor), model.predict(graphs).shape
    (True, (20,))
    """

    target: str

    target_scale_: Scale

    @abstractmethod
    def fit(self, X: GraphSet, y: Sequence | np.ndarray | None = None, eval_set: EvalSet = None) -> Self:
        """Learn from graphs with scores.

        Parameters
        ----------
        X : GraphSet
            Graphs to learn from.
        y : array-like of shape (n_graphs,), default=None
            Scores; those of `X` by default.
        eval_set : GraphSet or tuple of GraphSet and scores, default=None
            Validation graphs, for regressors that choose an epoch on them.

        Returns
        -------
        GraphRegressor
            The fitted regressor.
        """

    @abstractmethod
    def predict(self, X: GraphSet) -> np.ndarray:
        """Predict scores.

        Parameters
        ----------
        X : GraphSet
            Graphs with the same node features as the training graphs and, if aligned, the same nodes.

        Returns
        -------
        ndarray of shape (n_graphs,)
            Scores, in the units of those learnt from.
        """

    def score(
        self,
        X: GraphSet,
        y: Sequence | np.ndarray | None = None,
        sample_weight: Sequence | np.ndarray | None = None,
    ) -> float:
        """Compute R² on graphs with scores.

        Parameters
        ----------
        X : GraphSet
            Graphs to predict.
        y : array-like of shape (n_graphs,), default=None
            Scores; those of `X` by default.
        sample_weight : array-like of shape (n_graphs,), default=None
            Weights of the graphs.

        Returns
        -------
        float
            Share of the variance of the scores that is predicted; below 0 where their mean is closer.
        """
        self._check_is_fitted()
        graphs, scores = scored(X, y)
        return float(r2_score(scores, self.predict(graphs), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False  # graphs bring their scores along
        return tags

    def _reference(self, graphs: GraphSet, labels: np.ndarray) -> EdgeReference:
        return EdgeReference.of(graphs, REFERENCE)

    def _output_scale(self) -> Scale:
        """The scale of what the model gives; that of the scores unless the model corrects itself."""
        return self.target_scale_

    def _check_target(self) -> None:
        if not isinstance(self.target, str) or not self.target.strip():
            raise ValueError(
                f'target must be the name of the score, such as "age", got {shown(self.target)}.'
            )

    def _explanations(
        self,
        graphs: GraphSet,
        weights: list[np.ndarray],
        predictions: np.ndarray,
        contributions: list[np.ndarray] | None,
        base: np.ndarray | None,
    ) -> Explanations:
        """Explanations in units of the score; contributions and base are of what the model gives."""
        mean, scale = self._output_scale()
        return Explanations(
            graphs,
            weights,
            predictions,
            edge_contributions=None if contributions is None else [scale * one for one in contributions],
            base=None if base is None else mean + scale * base,
            explained=np.full(len(graphs), self.target),
            reference=self.reference_,
            unit=self.target,
        )

    def _config(self) -> dict[str, Any]:
        return super()._config() | {"target_scale": list(self.target_scale_)}

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> Self:
        estimator = super()._from_config(config)
        mean, scale = map(float, config["target_scale"])
        if not (math.isfinite(mean) and math.isfinite(scale) and scale > 0):
            raise ValueError(f"target_scale is {mean}, {scale}")
        estimator.target_scale_ = Scale(mean, scale)
        estimator._check_target()
        return estimator
