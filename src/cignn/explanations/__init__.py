"""Explanations: of every edge of every graph a weight and a signed contribution, from any explainer."""

from cignn.explanations.explanation import EdgeReference, Explanation
from cignn.explanations.explanation_set import Explanations

__all__ = ["EdgeReference", "Explanation", "Explanations"]
