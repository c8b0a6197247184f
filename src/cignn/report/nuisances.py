"""Do the predictions of a report follow motion, age, sex or site at equal label?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cignn.datasets.cohort import Cohort
from cignn.evaluation.nuisances import NuisanceChecks, nuisance_checks
from cignn.evaluation.prediction_probe import follows

FEWEST = 10  # scored subjects from which a test says anything


def checked_nuisances(
    cohort: Cohort | None,
    classes: np.ndarray,
    probabilities: np.ndarray,
    held_out: np.ndarray | None,
    predictions: pd.DataFrame | None,
    positive: Any,
) -> NuisanceChecks | None:
    """Test the predictions of an evaluation, else those of the model for subjects it was not trained on."""
    if cohort is None:
        return None
    if predictions is None:
        if cohort.y is None or held_out is None:
            return None
        known = pd.Series(cohort.y).isin(np.asarray(classes).tolist()).to_numpy()
        at = np.flatnonzero(known & np.asarray(held_out, bool))
        columns: dict[str, Any] = {"position": at, "subject": cohort.subjects[at], "y_true": cohort.y[at]}
        columns["y_pred"] = np.asarray(classes)[probabilities[at].argmax(1)]
        columns |= {f"p_{name}": probabilities[at, k] for k, name in enumerate(np.asarray(classes).tolist())}
        predictions = pd.DataFrame(columns)
    if predictions["subject"].nunique() < FEWEST:
        return None
    return nuisance_checks(predictions, cohort, positive=positive)


def nuisance_context(checks: NuisanceChecks | None) -> dict[str, object]:
    """What the template reads: rows of the tests, and the AUC within sites."""
    if checks is None:
        return {"nuisances": [], "site_auc": None}
    rows = [row | {"follows": follows(row)} for row in checks.table.to_dict("records")]
    return {"nuisances": rows, "site_auc": checks.auc}
