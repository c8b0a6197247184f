"""The paper's three scores of a diagnosis: accuracy, F1, MCC."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef


def classification_scores(
    y_true: np.ndarray, y_pred: np.ndarray, classes: np.ndarray | None = None
) -> dict[str, float]:
    """Accuracy, F1 and Matthews correlation of (g,) predicted labels.

    F1 is that of the second of two classes in sorted order (the patients, where controls are 0), and the
    mean over classes when there are more. classes : all there are (a classifier's ``classes_``), where a
    small test set may lack some; by default those that occur.
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.ndim != 1 or y_true.shape != y_pred.shape or not len(y_true):
        raise ValueError(
            f"expected as many predictions as labels and at least one, got {y_pred.shape} and {y_true.shape}."
        )
    labels = np.unique(np.concatenate([y_true, y_pred])) if classes is None else np.unique(classes)
    f1 = f1_score(y_true, y_pred, labels=labels, average=None, zero_division=0)
    same = len(np.unique(y_true)) == 1 and (y_true == y_pred).all()  # one class: nothing to correlate
    return {
        "accuracy": float(accuracy_score(y_true, y_pred)),
        "f1": float(f1.mean() if len(labels) > 2 else f1[-1]),
        "mcc": 0.0 if same else float(matthews_corrcoef(y_true, y_pred)),
    }
