"""Explanations: of every edge of every graph a weight and a signed contribution, from any explainer; of a group."""

from cignn.explanations.explanation import EdgeReference, Explanation
from cignn.explanations.explanation_set import Explanations
from cignn.explanations.group import GroupExplanation

__all__ = ["EdgeReference", "Explanation", "Explanations", "GroupExplanation"]
