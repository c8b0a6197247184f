"""Graph classifiers that show which edges made the decision.

Research software: it says "causality-inspired" and is not a medical device.
"""

from cignn.datasets import Cohort, load_cohort
from cignn.estimators import CIGNNClassifier, CohortClassifier, load_model
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

__version__ = "0.1.0"
__all__ = [
    "CIGNNClassifier",
    "Cohort",
    "CohortClassifier",
    "Explanations",
    "GraphSet",
    "load_cohort",
    "load_model",
]
