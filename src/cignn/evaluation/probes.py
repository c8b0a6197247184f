"""Findings of an audit, and the probes that make them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import KFold, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SEVERITIES = ("serious", "warning", "fine", "unknown")
MARKS = {"serious": "!!", "warning": " !", "fine": "ok", "unknown": " ?"}


@dataclass(frozen=True)
class Finding:
    """One result of an audit.

    Parameters
    ----------
    name : str
        What was looked at.
    severity : {"serious", "warning", "fine", "unknown"}
        "serious" where scores would mislead; "unknown" where it could not be looked at, the message says why.
    size : float
        How much was found, in terms of ``measure``.
    measure : str
        What the size is, such as "AUC" or "pairs".
    message : str
        One line with the numbers.
    advice : str, default=""
        What to do, empty where all is well.
    table : DataFrame or None, default=None
        The details.

    Examples
    --------
    >>> from cignn.evaluation import Finding
    >>> Finding("repeated subjects", "fine", 0, "subjects", "every name once").severity
    'fine'
    """

    name: str
    severity: str
    size: float
    measure: str
    message: str
    advice: str = ""
    table: pd.DataFrame | None = field(default=None, repr=False, compare=False)


class Audit(Sequence):
    """The findings of an audit, worst first, by number or name.

    Parameters
    ----------
    findings : sequence of Finding
        What was found.
    subjects : int
        Number of subjects in the cohort.
    scans : int or None, default=None
        Number of scans, by default one per subject.

    Examples
    --------
    >>> from cignn.evaluation import Audit, Finding
    >>> found = Audit([Finding("repeated subjects", "fine", 0, "subjects", "every name once")], subjects=20)
    >>> found.worst, found["repeated subjects"].message
    ('fine', 'every name once')
    """

    def __init__(self, findings: Sequence[Finding], subjects: int, scans: int | None = None) -> None:
        self.findings = sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
        self.subjects = subjects
        self.scans = subjects if scans is None else scans

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self.findings[key]
        for finding in self.findings:
            if finding.name == key:
                return finding
        names = ", ".join(finding.name for finding in self.findings)
        raise KeyError(f"the audit has no finding {key!r}; there are {names}.")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def worst(self) -> str:
        """The severity of the worst finding.

        Returns
        -------
        str
            "serious", "warning", "fine" or "unknown".
        """
        return self.findings[0].severity if self.findings else "fine"

    def to_frame(self) -> pd.DataFrame:
        """Return the findings as a table.

        Returns
        -------
        DataFrame
            One row per finding: finding, severity, size, measure, message, what to do.
        """
        rows = [(f.name, f.severity, f.size, f.measure, f.message, f.advice) for f in self]
        columns = ["finding", "severity", "size", "measure", "message", "what to do"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        counts = pd.Series([f.severity for f in self]).value_counts()
        heads = [f"{counts[s]} {s}" for s in SEVERITIES if s in counts]
        more = f" ({self.scans} scans)" if self.scans != self.subjects else ""
        lines = [f"Audit of {self.subjects} subjects{more}: {', '.join(heads)}"]
        lines += [line for finding in self for line in _lines(finding)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False, float_format="%.2f")


def brief(audit: Audit) -> str:
    """What matters of an audit, one or two lines per finding; empty when nothing does."""
    matters = [finding for finding in audit if finding.severity in ("serious", "warning")]
    return "\n".join(line for finding in matters for line in _lines(finding))


def _lines(finding: Finding) -> list[str]:
    lines = [f"{MARKS[finding.severity]} {finding.name}: {finding.message}"]
    return lines + ([f"   → {finding.advice}"] if finding.advice else [])


FOLDS = 5
REPEATS = 2
COMPONENTS = 50  # of connectivity: sites and motion are broad patterns, and a probe must be quick
STRENGTH = 0.1  # of covariates: weak enough for twenty sites
FEWEST = 10  # members of the smallest class a probe is fitted for


class Probe(NamedTuple):
    """A cross-validated score beside the one without knowledge, and how many standard errors lie between."""

    score: float
    chance: float
    z: float
    accuracy: float = np.nan
    majority: float = np.nan  # accuracy of always naming the most frequent class


# ----------------------------------------------------------------- label from covariates


def label_from(features: np.ndarray, y: np.ndarray) -> Probe | None:
    """ROC-AUC and accuracy of labels (n,) told from features (n, d) by logistic regression.

    With more than two classes, the mean area of one class against the rest. None where there is nothing to
    tell apart: fewer than two classes of ten subjects, or features that do not vary.
    """
    classes, codes = np.unique(y, return_inverse=True)
    counts = np.bincount(codes)
    if len(classes) < 2 or counts.min() < FEWEST or not np.ptp(features, axis=0).any():
        return None
    folds = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=REPEATS, random_state=0)
    model = LogisticRegression(C=STRENGTH, max_iter=500)
    areas, hits = [], []
    for train, test in folds.split(features, codes):
        chances = clone(model).fit(features[train], codes[train]).predict_proba(features[test])
        shown = chances[:, 1] if len(classes) == 2 else chances
        areas.append(roc_auc_score(codes[test], shown, multi_class="ovr"))
        hits.append((chances.argmax(1) == codes[test]).mean())
    # the variance of the Mann-Whitney statistic without knowledge; the rarest class has the largest
    n, few = len(codes), counts.min()
    error = np.sqrt((n + 1) / (12 * few * (n - few)))
    score = float(np.mean(areas))
    return Probe(score, 0.5, (score - 0.5) / error, float(np.mean(hits)), float(counts.max() / n))


def coded(column: Any) -> np.ndarray:
    """(n, k) numbers of a column: a rank and its square, or one column per category; missing is a value."""
    values = pd.Series(column).reset_index(drop=True)
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        numbers = values.to_numpy(float, na_value=np.nan, copy=True)
        absent = ~np.isfinite(numbers)
        numbers[absent] = np.median(numbers[~absent]) if (~absent).any() else 0.0
        ranks = stats.rankdata(numbers)  # a few who moved a lot must not rule
        level = (ranks - ranks.mean()) / max(ranks.std(), 0.5)
        return np.stack([level, level**2, absent], axis=1).astype(float)
    words = values.astype(object).where(values.notna(), "n/a").astype(str)
    return pd.get_dummies(words).to_numpy(float)


# ------------------------------------------------------------- what connectivity gives away


def class_from_connectivity(vectors: np.ndarray, groups: np.ndarray) -> Probe | None:
    """Balanced accuracy of groups (n,), such as sites, told from connectivity (n, edges).

    Groups of fewer than ten subjects are left out; None where fewer than two are left or all are alike.
    """
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    large = counts >= FEWEST
    if large.sum() < 2 or not np.ptp(vectors, axis=0).any():
        return None
    chosen = large[codes]
    vectors, codes = vectors[chosen], np.unique(codes[chosen], return_inverse=True)[1]
    counts = np.bincount(codes)
    model = _model(LogisticRegression(class_weight="balanced", max_iter=300), len(codes))
    predicted = np.empty_like(codes)
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(vectors, codes):
        predicted[test] = _fitted(model, vectors[train], codes[train]).predict(vectors[test])
    score, chance = float(balanced_accuracy_score(codes, predicted)), 1 / len(counts)
    error = np.sqrt(chance * (1 - chance) * (1 / counts).sum()) / len(counts)
    return Probe(score, chance, (score - chance) / error)


def number_from_connectivity(vectors: np.ndarray, numbers: np.ndarray) -> Probe | None:
    """Spearman correlation of numbers (n,), such as motion, with what connectivity (n, e) says of them."""
    known = np.isfinite(numbers)
    if known.sum() < 2 * FEWEST or np.ptp(numbers[known]) == 0 or not np.ptp(vectors, axis=0).any():
        return None
    vectors, ranks = vectors[known], stats.rankdata(numbers[known])
    model = _model(Ridge(1.0), len(ranks))
    predicted = np.empty(len(ranks))
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(vectors):
        level = ranks[train].mean()  # differs between folds, in the direction away from the test ranks
        predicted[test] = _fitted(model, vectors[train], ranks[train] - level).predict(vectors[test])
    score = 0.0 if np.ptp(predicted) == 0 else float(stats.spearmanr(predicted, ranks).statistic)
    return Probe(score, 0.0, score * np.sqrt(len(ranks) - 1))


def _model(last: Any, n: int) -> Any:
    components = min(COMPONENTS, n * (FOLDS - 1) // FOLDS // 4)
    return make_pipeline(
        PCA(max(1, components), svd_solver="randomized", random_state=0), StandardScaler(), last
    )


def _fitted(model: Any, vectors: np.ndarray, target: np.ndarray) -> Any:
    model = clone(model)
    model[0].n_components = min(model[0].n_components, vectors.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough answer is enough here
        return model.fit(vectors, target)
