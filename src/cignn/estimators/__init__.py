"""Graph classifiers and regressors with scikit-learn's interface."""

from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.ci_gnn import CIGNNClassifier
from cignn.estimators.ci_gnn_regressor import CIGNNRegressor
from cignn.estimators.ci_gnn_settings import PRESETS, CIGNNSettings
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.cohort_classifier import CohortClassifier, CohortRegressor
from cignn.estimators.decision_classifier import DecisionClassifier
from cignn.estimators.dir import DIRClassifier
from cignn.estimators.explaining import ExplainingClassifier, FlatMaskWarning
from cignn.estimators.fused_classifier import FusedClassifier, FusedExplanations
from cignn.estimators.gnn import GNNClassifier
from cignn.estimators.graph_estimator import GraphEstimator
from cignn.estimators.graph_vectors import GraphVectors
from cignn.estimators.kept_epochs import KeptEpochWarning
from cignn.estimators.neural_regressor import NeuralGraphRegressor
from cignn.estimators.predictive_model import ConnectomePredictiveModel
from cignn.estimators.registry import (
    CLASSIFIERS,
    ESTIMATORS,
    REGRESSORS,
    Method,
    load_model,
    make_estimator,
    save_model,
)
from cignn.estimators.regressor import GraphRegressor
from cignn.estimators.shallow import ShallowGraphClassifier
from cignn.estimators.shallow_regressor import ShallowGraphRegressor
from cignn.estimators.sib import SIBClassifier
from cignn.estimators.table_classifier import TableClassifier

__all__ = [
    "CLASSIFIERS",
    "ESTIMATORS",
    "PRESETS",
    "REGRESSORS",
    "CIGNNClassifier",
    "CIGNNRegressor",
    "CIGNNSettings",
    "CohortClassifier",
    "CohortRegressor",
    "ConnectomePredictiveModel",
    "DIRClassifier",
    "DecisionClassifier",
    "ExplainingClassifier",
    "FlatMaskWarning",
    "FusedClassifier",
    "FusedExplanations",
    "GNNClassifier",
    "GraphClassifier",
    "GraphEstimator",
    "GraphRegressor",
    "GraphVectors",
    "KeptEpochWarning",
    "Method",
    "NeuralGraphClassifier",
    "NeuralGraphRegressor",
    "SIBClassifier",
    "ShallowGraphClassifier",
    "ShallowGraphRegressor",
    "TableClassifier",
    "load_model",
    "make_estimator",
    "save_model",
]
