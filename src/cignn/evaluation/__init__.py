"""How good a classifier and its explanations are."""

from cignn.evaluation.audit import audit
from cignn.evaluation.classification import (
    calibration_curve,
    classification_scores,
    expected_calibration_error,
)
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
from cignn.evaluation.resampling import bootstrap_intervals, permutation_p_value, permutation_test
from cignn.evaluation.runner import TaskFailedWarning, evaluate
from cignn.evaluation.statistics import (
    FriedmanTest,
    NemenyiTest,
    TTest,
    average_ranks,
    compare_methods,
    corrected_interval,
    corrected_t_test,
    critical_difference,
    friedman_test,
    nemenyi_test,
    score_table,
    site_table,
    summary,
)
from cignn.evaluation.store import Store

__all__ = [
    "PROTOCOLS",
    "Agreement",
    "Audit",
    "ExplanationCurve",
    "Fidelity",
    "Finding",
    "FriedmanTest",
    "Holdout",
    "KFold",
    "LeaveOneSiteOut",
    "NemenyiTest",
    "PermutationCheck",
    "RemovalCurve",
    "Split",
    "Store",
    "TTest",
    "TaskFailedWarning",
    "agreement",
    "agreement_table",
    "audit",
    "average_ranks",
    "bootstrap_intervals",
    "brief",
    "calibration_curve",
    "characterisation_score",
    "classification_scores",
    "compare_methods",
    "corrected_interval",
    "corrected_t_test",
    "critical_difference",
    "evaluate",
    "expected_calibration_error",
    "explanation_accuracy",
    "explanation_roc_auc",
    "fidelity",
    "friedman_test",
    "heaviest_edges",
    "label_permutation_check",
    "make_protocol",
    "nemenyi_test",
    "permutation_p_value",
    "permutation_test",
    "precision_at_k",
    "rank_correlation",
    "removal_curve",
    "score_table",
    "site_table",
    "sparsity",
    "stability",
    "summary",
    "top_overlap",
]
