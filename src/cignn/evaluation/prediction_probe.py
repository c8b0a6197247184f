"""What the audit says of predictions: does what connectivity tells of the label follow a nuisance?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from cignn._arrays import symmetric, upper_triangle
from cignn.connectome.deconfound import Deconfound
from cignn.datasets.cohort import Cohort
from cignn.evaluation.nuisances import NuisanceChecks, nuisance_checks, nuisance_table, nuisances_of
from cignn.evaluation.probes import FEWEST, FOLDS, Finding
from cignn.evaluation.site_auc import SiteControlledAUC, site_controlled_auc

UNLIKELY = 0.01  # p-value, corrected for the number of nuisances, below which a prediction follows one
WEAK, LARGE = 0.1, 0.3  # association from which that is worth a warning, and serious
LOSS = 0.02  # AUC that is lost within sites, from which it matters
ADVICE = {
    "motion": "take motion out inside the fold (Deconfound), clean the series, or match the classes",
    "site": "harmonise inside the fold (ComBat, Deconfound) and report leave-one-site-out",
}


def prediction_findings(
    cohort: Cohort, vectors: np.ndarray, predictions: pd.DataFrame | None, deconfound: Deconfound | None
) -> list[Finding]:
    """Findings about predictions of the label: those given, else those of a linear probe.

    cohort : subjects, each once. vectors : (n, edges) connectivity, for the probe.
    """
    if cohort.y is None:
        return []
    labelled = pd.notna(pd.Series(cohort.y)).to_numpy()
    known = nuisances_of(cohort)
    if not known.shape[1]:
        return []
    if predictions is not None:
        checks = nuisance_checks(predictions, cohort)
        whose = "of the evaluation"
    else:
        checks = _probed(cohort[labelled], vectors[labelled], deconfound)
        taken = "" if deconfound is None else f", without {', '.join(deconfound.covariates)}"
        whose = f"of a linear model in {FOLDS} folds{taken}"
    if checks is None:
        reason = f"no predictions: a class has fewer than {FEWEST} subjects, or all are alike"
        return [Finding("prediction → nuisances | label", "unknown", np.nan, "association", reason)]
    rows = checks.table.to_dict("records")
    found = [nuisance_finding(row, whose, "label", _advice(row["nuisance"])) for row in rows]
    return found + ([] if checks.auc is None else [_auc_finding(checks.auc, whose)])


def _probed(cohort: Cohort, vectors: np.ndarray, deconfound: Deconfound | None) -> NuisanceChecks | None:
    """Checks of the probe's out-of-fold predictions."""
    chances = label_predictions(cohort, vectors, deconfound)
    if chances is None:
        return None
    y, known = np.asarray(cohort.y), nuisances_of(cohort)
    table = nuisance_table(y, chances, known)
    if "site" not in known:
        return NuisanceChecks(table, None)
    auc = site_controlled_auc(y, chances, known["site"], n_resamples=500)
    return NuisanceChecks(table, auc if auc.n_pairs else None)


def label_predictions(
    cohort: Cohort, vectors: np.ndarray, deconfound: Deconfound | None = None
) -> np.ndarray | None:
    """(n, classes) out-of-fold probabilities of the labels by logistic regression on connectivity (n, edges).

    deconfound : fitted in each fold on its training subjects. None where a class has fewer than ten subjects
    or connectivity does not vary.
    """
    codes = np.unique(np.asarray(cohort.y), return_inverse=True)[1]
    counts = np.bincount(codes)
    if len(counts) < 2 or counts.min() < FEWEST or not np.ptp(vectors, axis=0).any():
        return None
    data: Any = vectors
    if deconfound is not None:
        diagonal = np.zeros((len(cohort), cohort.n_rois, cohort.n_rois), np.float32)
        data = cohort.with_matrices(symmetric(vectors, diagonal))
    chances = np.empty((len(codes), len(counts)))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(codes, codes):
        seen, new = data[train], data[test]
        if deconfound is not None:
            step = clone(deconfound).fit(seen)
            seen, new = (upper_triangle(step.transform(part).matrices) for part in (seen, new))
        chances[test] = _predicted(np.asarray(seen), codes[train], np.asarray(new))
    return chances


def _predicted(seen: np.ndarray, codes: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(m, classes) probabilities of new subjects by ridge logistic regression on all connections.

    It is fitted in the space that the n training subjects span, which gives the same as in that of all edges.
    """
    mean, scale = seen.mean(0), seen.std(0)
    scale = np.where(scale > 0, scale, 1) * np.sqrt(seen.shape[1])
    seen, new = (seen - mean) / scale, (new - mean) / scale
    values, axes = np.linalg.eigh((seen @ seen.T).astype(np.float64))
    kept = values > 1e-9 * values[-1]
    axes = axes[:, kept] / np.sqrt(values[kept])
    turned = seen.T @ axes
    model = LogisticRegression(C=1.0, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough answer is enough here
        model.fit(seen @ turned, codes)
    return model.predict_proba(new @ turned)


def nuisance_finding(row: dict[str, Any], whose: str, given: str, advice: str) -> Finding:
    """What the test of one nuisance says; given : what is held equal, the "label" or the "score"."""
    what, size = row["nuisance"], row["association"]
    name, measure = f"prediction → {what} | {given}", "association"
    if np.isnan(row["p_value"]):
        return Finding(name, "unknown", np.nan, measure, f"{what} does not vary at equal {given}")
    message = (
        f"at equal {given}, predictions {whose} go along with {what} by {size:.2f} "
        f"(chance {row['chance']:.2f}, p = {row['p_value']:.2g})"
    )
    if not follows(row):
        return Finding(name, "fine", size, measure, message)
    severity = "serious" if abs(size) - row["chance"] >= LARGE else "warning"
    return Finding(name, severity, size, measure, message, advice)


def _advice(what: str) -> str:
    """What to do where predictions of classes follow a nuisance."""
    return ADVICE.get(what, f"take {what} out inside the fold (Deconfound), or match the classes for it")


def follows(row: dict[str, Any]) -> bool:
    """Whether a row of `nuisance_table` says that predictions follow a nuisance, and by enough to matter."""
    return bool(row["p_holm"] < UNLIKELY and abs(row["association"]) - row["chance"] >= WEAK)


def _auc_finding(auc: SiteControlledAUC, whose: str) -> Finding:
    """Whether the AUC holds among subjects of the same site."""
    message = (
        f"AUC {auc.value:.2f} ({auc.low:.2f} to {auc.high:.2f}) among pairs of the same site, "
        f"{auc.overall:.2f} among all, {whose}"
    )
    lost = auc.overall - auc.value >= LOSS and auc.overall > auc.high
    advice = (
        "sites help to tell the label: report the AUC within sites, and leave-one-site-out" if lost else ""
    )
    return Finding("AUC within sites", "warning" if lost else "fine", auc.value, "AUC", message, advice)
