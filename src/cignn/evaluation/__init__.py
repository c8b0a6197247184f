"""How good a classifier and its explanations are."""

from cignn.evaluation.audit import audit
from cignn.evaluation.classification import classification_scores
from cignn.evaluation.consistency import (
    Agreement,
    PermutationCheck,
    agreement,
    agreement_table,
    label_permutation_check,
    rank_correlation,
    stability,
    top_overlap,
)
from cignn.evaluation.explanation import explanation_roc_auc, precision_at_k
from cignn.evaluation.faithfulness import (
    ExplanationCurve,
    Fidelity,
    RemovalCurve,
    characterisation_score,
    explanation_accuracy,
    fidelity,
    heaviest_edges,
    removal_curve,
    sparsity,
)
from cignn.evaluation.findings import Audit, Finding, brief
from cignn.evaluation.protocols import PROTOCOLS, Holdout, KFold, LeaveOneSiteOut, Split, make_protocol
from cignn.evaluation.runner import TaskFailedWarning, evaluate
from cignn.evaluation.store import Store

__all__ = [
    "PROTOCOLS",
    "Agreement",
    "Audit",
    "ExplanationCurve",
    "Fidelity",
    "Finding",
    "Holdout",
    "KFold",
    "LeaveOneSiteOut",
    "PermutationCheck",
    "RemovalCurve",
    "Split",
    "Store",
    "TaskFailedWarning",
    "agreement",
    "agreement_table",
    "audit",
    "brief",
    "characterisation_score",
    "classification_scores",
    "evaluate",
    "explanation_accuracy",
    "explanation_roc_auc",
    "fidelity",
    "heaviest_edges",
    "label_permutation_check",
    "make_protocol",
    "precision_at_k",
    "rank_correlation",
    "removal_curve",
    "sparsity",
    "stability",
    "top_overlap",
]
