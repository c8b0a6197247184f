"""What a graph regressor with a network inside has: standardised scores, contributions in their units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch

from cignn.datasets.scores import score_strata
from cignn.estimators.explaining import Contributed, explained_batches, put_edges, warn_of_flat_mask
from cignn.estimators.feeds import Data
from cignn.estimators.neural import NeuralGraphEstimator, Target
from cignn.estimators.regressor import FEWEST_GRAPHS, GraphRegressor, Scale, checked_scores, scored
from cignn.estimators.score_line import ScoreLine, fit_line
from cignn.estimators.training import Training, evaluation_mode
from cignn.explanations import Explanations
from cignn.graphs import GraphSet


class NeuralGraphRegressor(NeuralGraphEstimator, GraphRegressor):
    """Base of the regressors of graphs around a torch network with one output, a standardised score.

    Attributes
    ----------
    target_scale_ : Scale
        Mean and standard deviation of the training scores.
    score_line_ : ScoreLine
        Line from what the networks give to the standardised score, see `cignn.estimators.score_line`.
    network_ : torch.nn.Module
        The trained network.
    history_ : DataFrame
        One row per epoch with every named loss and the validation scores.
    best_epoch_ : int or list of int
        The epoch kept, chosen on validation graphs.
    interrupted_ : bool
        Whether Ctrl-C ended the training early.

    Examples
    --------
    >>> from cignn import CIGNNRegressor
    >>> from cignn.estimators import NeuralGraphRegressor
    >>> isinstance(CIGNNRegressor(), NeuralGraphRegressor)
    True
    """

    score_line_: ScoreLine = ScoreLine()  # also of models saved before it was kept
    _stretches: bool = True  # whether ``fit`` fits the line

    def _target(self, X: Any, y: Any) -> tuple[GraphSet, Target]:
        self._check_target()
        graphs, scores = scored(X, y)
        if len(graphs) < FEWEST_GRAPHS:
            raise ValueError(f"fit needs at least {FEWEST_GRAPHS} graphs with scores, got {len(graphs)}.")
        scale, strata = Scale.of(scores), score_strata(scores)
        names = np.arange(strata.max() + 1)
        return graphs, Target(scores, scale.standardised(scores), strata, names, scale, 1)

    def _held_out(self, X: Any, y: Any, target: Target) -> tuple[GraphSet, np.ndarray]:
        graphs, scores = scored(X, y)
        return graphs, target.about.standardised(scores)

    def _weights(
        self, target: Target, training: Data, validation: Data
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        return None, None

    def _learnt(self, target: Target) -> None:
        self.target_scale_ = target.about

    def _finish(self, trained: Sequence[Training]) -> None:
        self.score_line_ = ScoreLine()
        if self._stretches and not self.interrupted_:  # half-trained networks say nothing of the line
            self.score_line_ = self._line([one.validation for one in trained])

    def _line(self, validation: Sequence[Data]) -> ScoreLine:
        """Fit the line on the graphs that networks were validated on, in the order of the networks."""
        graphs = validation[0].graphs  # the same for all: those of ``fit``, or an eval_set
        scores, total, count = np.zeros((3, len(graphs)))
        for network, part in zip(self.network_.networks(), validation, strict=True):
            scores[part.rows] = part.y
            total[part.rows] += self._logits(graphs[part.rows], network)[:, 0]
            count[part.rows] += 1
        known = np.flatnonzero(count)
        names = np.asarray(graphs.meta.get("subject", np.arange(len(graphs))))[known]
        return fit_line(scores[known], total[known] / count[known], len(np.unique(names.astype(str))))

    def _output_scale(self) -> Scale:
        mean, scale = self.target_scale_
        line = self.score_line_
        return Scale(mean + scale * line.intercept, scale * line.slope)

    def _n_outputs(self) -> int:
        return 1

    def _decided(self, logits: torch.Tensor) -> torch.Tensor:
        return logits

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
        X = self._check_fitted(X)
        return checked_scores(self._output_scale().restored(self._logits(X)[:, 0]))

    def explain(self, X: GraphSet, *, contributions: bool = True) -> Explanations:
        """Say of every edge where the network looks and what the edge did to the predicted score.

        Parameters
        ----------
        X : GraphSet
            Graphs with the same node features as the training graphs and, if aligned, the same nodes.
        contributions : bool, default=True
            Whether to compute contributions too. On graphs that are not aligned they take several times as
            long as the weights.

        Returns
        -------
        Explanations
            Of every edge a weight in [0, 1], as the network computes it while it predicts, and its
            contribution in units of the score, see `cignn.nn.contributions`. Base and contributions add up to
            the prediction.

        Warns
        -----
        FlatMaskWarning
            If in most graphs all edges have nearly the same weight.
        """
        X = self._check_fitted(X)
        weights: list[np.ndarray] = [np.empty(0)] * len(X)
        predictions, found = np.empty(len(X)), Contributed.empty(len(X))
        for index, batch in explained_batches(self, X):
            with torch.no_grad(), evaluation_mode(self.network_):
                out = self.network_(batch)
            predictions[index] = self._output_scale().restored(out.logits[:, 0].double().cpu().numpy())
            put_edges(weights, X, index, out.edge_weights)
            if contributions:
                found.add(self, X, index, batch, None)
        told = (found.values, found.base) if contributions else (None, None)
        explanations = self._explanations(X, weights, predictions, *told)
        warn_of_flat_mask(explanations, self.settings_)
        return explanations

    # ---------------------------------------------------------------- saving

    def _config(self) -> dict[str, Any]:
        return super()._config() | {"score_line": self.score_line_.as_list()}

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> Self:
        estimator = super()._from_config(config)
        estimator.score_line_ = ScoreLine.read(config.get("score_line"))
        return estimator
