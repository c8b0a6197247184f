"""How good a classifier or regressor and its explanations are."""

from cignn.evaluation.audit import audit
from cignn.evaluation.calibration import CalibrationLine, calibration_line
from cignn.evaluation.carriers import subject_score_table, subject_scores
from cignn.evaluation.classification import (
    calibration_curve,
    classification_scores,
    expected_calibration_error,
    positive_class,
)
from cignn.evaluation.decisions import (
    decision_curve,
    decision_curves,
    operating_points,
    sensitivity_at_specificity,
)
from cignn.evaluation.explanation import (
    agreement,
    agreement_table,
    label_permutation_check,
    rank_correlation,
    stability,
    top_overlap,
)
from cignn.evaluation.faithfulness import (
    ExplanationCurve,
    RemovalCurve,
    characterisation_score,
    explanation_accuracy,
    fidelity,
    removal_curve,
    sparsity,
)
from cignn.evaluation.known_edges import (
    explanation_gap,
    explanation_roc_auc,
    explanation_roc_auc_overall,
    precision_at_k,
)
from cignn.evaluation.learning import LearningCurve, Subsampled, learning_curve
from cignn.evaluation.model_cards import write_model_card
from cignn.evaluation.nuisances import NuisanceTest, nuisance_table, nuisance_test
from cignn.evaluation.permuted import evaluate_permuted, permutation_table
from cignn.evaluation.probes import Audit, Finding
from cignn.evaluation.regression import regression_scores, scores_by_site
from cignn.evaluation.removal import Removal, removal, reversals, top_edge_masks, univariate_scores
from cignn.evaluation.reproducibility import Reproducibility, reproducibility
from cignn.evaluation.resampling import bootstrap_intervals, permutation_p_value, permutation_test
from cignn.evaluation.retest import Retest, intraclass_correlation, retest_reliability
from cignn.evaluation.runner import TaskFailedWarning, evaluate
from cignn.evaluation.score_validation import ScoreCalibration, ScoreValidation
from cignn.evaluation.site_auc import SiteControlledAUC, site_controlled_auc
from cignn.evaluation.site_r2 import SiteControlledR2, site_controlled_r2
from cignn.evaluation.splits import Split
from cignn.evaluation.splitters import (
    PROTOCOLS,
    Holdout,
    KFold,
    LeaveOneSiteOut,
    PredefinedGroups,
    make_protocol,
)
from cignn.evaluation.statistics import (
    average_ranks,
    compare_methods,
    corrected_interval,
    corrected_t_test,
    critical_difference,
    friedman_test,
    nemenyi_test,
)
from cignn.evaluation.store import Store
from cignn.evaluation.sufficiency import (
    SelfConsistency,
    SupersetSufficiency,
    self_consistency,
    superset_sufficiency,
)
from cignn.evaluation.tables import score_table, site_table, summary
from cignn.evaluation.validation import Validation, validate

__all__ = [
    "PROTOCOLS",
    "Audit",
    "CalibrationLine",
    "ExplanationCurve",
    "Finding",
    "Holdout",
    "KFold",
    "LearningCurve",
    "LeaveOneSiteOut",
    "NuisanceTest",
    "PredefinedGroups",
    "Removal",
    "RemovalCurve",
    "Reproducibility",
    "Retest",
    "ScoreCalibration",
    "ScoreValidation",
    "SelfConsistency",
    "SiteControlledAUC",
    "SiteControlledR2",
    "Split",
    "Store",
    "Subsampled",
    "SupersetSufficiency",
    "TaskFailedWarning",
    "Validation",
    "agreement",
    "agreement_table",
    "audit",
    "average_ranks",
    "bootstrap_intervals",
    "calibration_curve",
    "calibration_line",
    "characterisation_score",
    "classification_scores",
    "compare_methods",
    "corrected_interval",
    "corrected_t_test",
    "critical_difference",
    "decision_curve",
    "decision_curves",
    "evaluate",
    "evaluate_permuted",
    "expected_calibration_error",
    "explanation_accuracy",
    "explanation_gap",
    "explanation_roc_auc",
    "explanation_roc_auc_overall",
    "fidelity",
    "friedman_test",
    "intraclass_correlation",
    "label_permutation_check",
    "learning_curve",
    "make_protocol",
    "nemenyi_test",
    "nuisance_table",
    "nuisance_test",
    "operating_points",
    "permutation_p_value",
    "permutation_table",
    "permutation_test",
    "positive_class",
    "precision_at_k",
    "rank_correlation",
    "regression_scores",
    "removal",
    "removal_curve",
    "reproducibility",
    "retest_reliability",
    "reversals",
    "score_table",
    "scores_by_site",
    "self_consistency",
    "sensitivity_at_specificity",
    "site_controlled_auc",
    "site_controlled_r2",
    "site_table",
    "sparsity",
    "stability",
    "subject_score_table",
    "subject_scores",
    "summary",
    "superset_sufficiency",
    "top_edge_masks",
    "top_overlap",
    "univariate_scores",
    "validate",
    "write_model_card",
]
