"""`ExplainingClassifier`: a neural classifier whose network weights edges while it classifies."""

from __future__ import annotations

import numpy as np
import torch

from cignn.estimators.base import NeuralGraphClassifier
from cignn.explanations import Explanations
from cignn.graphs import GraphSet


class ExplainingClassifier(NeuralGraphClassifier):
    """Its network's output has ``edge_weights`` (b, n, n) in [0, 1] beside ``logits``."""

    @torch.no_grad()
    def explain(self, X: GraphSet) -> Explanations:
        """Return the weight of every edge of every graph, as the network gave it while it classified."""
        X = self._check_fitted(X)
        device = next(self.network_.parameters()).device
        weights: list[np.ndarray] = [np.empty(0)] * len(X)
        predictions = np.empty(len(X), np.int64)
        for index in X.batch_indices(self.settings_["batch_size"]) if len(X) else []:
            out = self.network_(X.batch(index).to(device))
            predictions[index] = out.logits.argmax(1).cpu().numpy()
            dense = out.edge_weights.cpu().numpy()
            for i, matrix in zip(index, dense, strict=True):
                source, target = X.edges(i).T
                weights[i] = matrix[source, target]
        return Explanations(X, weights, self.classes_[predictions])
