"""Graph classifiers with scikit-learn's interface."""

from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.ci_gnn import CIGNNClassifier
from cignn.estimators.ci_gnn_settings import PRESETS, CIGNNSettings
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.estimators.dir import DIRClassifier
from cignn.estimators.explaining import ExplainingClassifier
from cignn.estimators.gnn import GNNClassifier
from cignn.estimators.graph_vectors import GraphVectors
from cignn.estimators.kept_epochs import KeptEpochWarning
from cignn.estimators.registry import ESTIMATORS, Method, load_model, make_estimator, save_model
from cignn.estimators.shallow import ShallowGraphClassifier
from cignn.estimators.sib import SIBClassifier

__all__ = [
    "ESTIMATORS",
    "PRESETS",
    "CIGNNClassifier",
    "CIGNNSettings",
    "CohortClassifier",
    "DIRClassifier",
    "ExplainingClassifier",
    "GNNClassifier",
    "GraphClassifier",
    "GraphVectors",
    "KeptEpochWarning",
    "Method",
    "NeuralGraphClassifier",
    "SIBClassifier",
    "ShallowGraphClassifier",
    "load_model",
    "make_estimator",
    "save_model",
]
