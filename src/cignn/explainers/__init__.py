"""Explainers of graph classifiers and the one result type they share."""

from cignn.explanations import Explanation, Explanations

__all__ = ["Explanation", "Explanations"]
