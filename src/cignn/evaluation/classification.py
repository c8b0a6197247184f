"""The paper's three scores of a diagnosis: accuracy, F1, MCC."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef


def classification_scores(y_true: np.ndarray, y_pred: np.ndarray) -> dict[str, float]:
    """Accuracy, F1 and Matthews correlation of (g,) predicted labels.

    F1 is that of the second of two classes in sorted order (the patients, where controls are 0), and the
    mean over classes when there are more.
    """
    classes = np.unique(np.concatenate([y_true, y_pred]))
    average = {"average": "macro"} if len(classes) > 2 else {"pos_label": classes[-1]}
    return {
        "accuracy": float(accuracy_score(y_true, y_pred)),
        "f1": float(f1_score(y_true, y_pred, zero_division=0, **average)),
        "mcc": float(matthews_corrcoef(y_true, y_pred)),
    }
