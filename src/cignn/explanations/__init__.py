"""Explanations: one weight in [0, 1] for every edge of every graph, from any explainer."""

from cignn.explanations.explanation import Explanation
from cignn.explanations.explanation_set import Explanations
from cignn.explanations.group import GroupExplanation

__all__ = ["Explanation", "Explanations", "GroupExplanation"]
