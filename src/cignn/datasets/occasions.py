"""When a subject was scanned: the session and run of each scan of a cohort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

NAMES = ("session", "run")  # covariates that tell the scans of a subject apart


def occasions_of(subjects: np.ndarray, covariates: Any) -> np.ndarray:
    """(n,) words such as "session 1, run 2" for each scan; "" where the covariates have neither.

    subjects : (n,) names. covariates : table, or dict of columns with n rows.
    """
    words = pd.Series([""] * len(subjects))
    for name in NAMES:
        if name in covariates:
            column = pd.Series(np.asarray(covariates[name], object))
            own = column.map(_word)
            told = (own != "").to_numpy()
            joint = np.where((words != "").to_numpy() & told, ", ", "")
            words = words + joint + np.where(told, name + " " + own, "")
    return words.to_numpy(str)


def scans_told_apart(subjects: np.ndarray, covariates: Any) -> np.ndarray:
    """(n,) False for a scan of the same subject, session and run as one before it."""
    table = pd.DataFrame({"subject": subjects, "occasion": occasions_of(subjects, covariates)})
    return ~table.duplicated().to_numpy()


def scan_names(subjects: np.ndarray, covariates: Any) -> np.ndarray:
    """(n,) names of scans: that of the subject, with the session and run where it has several scans."""
    several = pd.Series(subjects).duplicated(keep=False).to_numpy()
    occasions = occasions_of(subjects, covariates)
    pairs = zip(subjects, occasions, several, strict=True)
    return np.array([f"{name} ({when})" if many and when else name for name, when, many in pairs], dtype=str)


def _word(value: Any) -> str:
    """A session or run as a word; whole numbers without a point."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
