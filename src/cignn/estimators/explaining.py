"""`ExplainingClassifier`: a neural classifier whose network weights edges while it classifies."""

from __future__ import annotations

import numpy as np
import torch

from cignn.estimators.base import NeuralGraphClassifier, at_rest
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

CELLS = 1_300_000  # of the edge matrices of a batch: where nothing is learnt, larger batches are quicker


class ExplainingClassifier(NeuralGraphClassifier):
    """Its network's output has ``edge_weights`` (b, n, n) in [0, 1] beside ``logits``."""

    @torch.no_grad()
    def explain(self, X: GraphSet) -> Explanations:
        """Return the weight of every edge of every graph, as the network gave it while it classified."""
        X = self._check_fitted(X)
        device = next(self.network_.parameters()).device
        weights: list[np.ndarray] = [np.empty(0)] * len(X)
        predictions = np.empty(len(X), np.int64)
        for index in X.batch_indices(self._batch_size(X)) if len(X) else []:
            with at_rest(self.network_):
                out = self.network_.explain(X.batch(index).to(device))  # type: ignore[operator]
            predictions[index] = out.logits.argmax(1).cpu().numpy()
            for i, found in zip(index, out.edge_weights.cpu().numpy(), strict=True):
                source, target = X.edges(i).T
                if found.ndim == 2:
                    weights[i] = found[source, target]
                else:
                    weights[i] = found[pair_number(source, target, X.n_nodes[i])]
        return Explanations(X, weights, self.classes_[predictions])

    def _batch_size(self, graphs: GraphSet) -> int:
        """How many graphs to explain at once."""
        size = self.settings_["batch_size"]
        return max(size, CELLS // int(graphs.n_nodes[0]) ** 2) if graphs.aligned else size


def pair_number(source: np.ndarray, target: np.ndarray, n: int) -> np.ndarray:
    """Where the pairs source < target of n nodes stand in the upper triangle, counted row by row."""
    return source * (2 * n - source - 1) // 2 + target - source - 1
