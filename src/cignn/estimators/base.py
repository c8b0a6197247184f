"""What every graph classifier with a network inside shares: classes, probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cignn.estimators.classifier import GraphClassifier, checked_probabilities, class_codes, labelled
from cignn.estimators.feeds import Data
from cignn.estimators.neural import NeuralGraphEstimator, Target
from cignn.estimators.settings import class_weights, score_weights
from cignn.graphs import GraphSet


class NeuralGraphClassifier(NeuralGraphEstimator, GraphClassifier):
    """Base of the classifiers of graphs around a torch network.

    A subclass stores its parameters, checks and resolves them in ``_settings``, makes its network in
    ``_build`` and says in ``_stages`` how to train it.

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network.
    history_ : DataFrame
        One row per epoch with every named loss and the validation scores. ``skipped_terms`` counts
        information terms that could not be computed and were left out of a step.
    best_epoch_ : int or list of int
        The epoch kept, chosen on validation graphs.
    interrupted_ : bool
        Whether Ctrl-C ended the training early.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import NeuralGraphClassifier, make_estimator
    >>> clf = make_estimator("gcn", epochs=2, random_state=0).fit(make_ba2motifs(20, random_state=0))
    >>> isinstance(clf, NeuralGraphClassifier), len(clf.history_)
    (True, 2)
    """

    def _target(self, X: Any, y: Any) -> tuple[GraphSet, Target]:
        graphs, labels = labelled(X, y)
        classes, codes = class_codes(labels)
        return graphs, Target(labels, codes, codes, classes, classes, len(classes))

    def _held_out(self, X: Any, y: Any, target: Target) -> tuple[GraphSet, np.ndarray]:
        graphs, labels = labelled(X, y)
        unknown = sorted(set(labels.tolist()) - set(target.names.tolist()), key=str)
        if unknown:
            raise ValueError(f"eval_set has labels that the training graphs lack: {unknown}.")
        return graphs, np.searchsorted(target.names, labels)

    def _weights(
        self, target: Target, training: Data, validation: Data
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        weight = class_weights(self.class_weight, target.names, training.y)
        return weight, score_weights(self.class_weight, weight, validation.y)

    def _learnt(self, target: Target) -> None:
        self.classes_ = target.about

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _decided(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.softmax(logits, 1)

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        X : GraphSet
            Graphs with the same node features as the training graphs and, if aligned, the same nodes.

        Returns
        -------
        ndarray of shape (n_graphs, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        X = self._check_fitted(X)
        return checked_probabilities(self._logits(X))
