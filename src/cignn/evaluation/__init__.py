"""How good a classifier and its explanations are."""

from cignn.evaluation.classification import classification_scores
from cignn.evaluation.explanation import explanation_roc_auc, precision_at_k

__all__ = ["classification_scores", "explanation_roc_auc", "precision_at_k"]
