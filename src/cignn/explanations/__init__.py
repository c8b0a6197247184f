"""Explanations: weights and signed contributions of every edge of every graph, and of a group."""

from cignn.explanations.explanation import EdgeReference, Explanation
from cignn.explanations.explanation_set import Explanations
from cignn.explanations.group import GroupExplanation

__all__ = ["EdgeReference", "Explanation", "Explanations", "GroupExplanation"]
