"""Explanations: of every edge a weight and a signed contribution; group explanations."""

from cignn.explanations.explanation import EdgeReference, Explanation
from cignn.explanations.explanation_set import Explanations
from cignn.explanations.group import GroupExplanation

__all__ = ["EdgeReference", "Explanation", "Explanations", "GroupExplanation"]
