"""What the audit says of a score: what predicts it without a brain, and what its predictions follow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, RepeatedKFold

from cignn._arrays import symmetric, upper_triangle
from cignn.connectome.deconfound import Deconfound
from cignn.datasets.cohort import Cohort
from cignn.evaluation.nuisances import NuisanceChecks, score_checks
from cignn.evaluation.prediction_probe import nuisance_finding
from cignn.evaluation.probes import FEWEST, FOLDS, REPEATS, Finding
from cignn.evaluation.site_r2 import SiteControlledR2

CLEAR = 3.0  # standard errors above chance from which a correlation is no accident
NOTABLE, STRONG = 0.1, 0.3  # correlation of the score with what is told from a covariate
UNEVEN, LOSS = 0.001, 0.05  # p of equal sites; R² that is lost within sites, from which it matters
STRENGTHS = np.logspace(-2, 2, 9)  # of ridge regression, chosen in each fold
ADVICE = {
    "site": 'report leave-one-site-out (protocol "loso") and R² within sites, harmonise inside the fold',
    "all of these": "an R² no higher than this says nothing about brains; report it beside yours",
    "scan length": "cut all series to the same length, or to the same length within a site",
}


class ScoreProbe(NamedTuple):
    """Out-of-fold correlation and R², and how many standard errors the correlation lies above 0."""

    r: float
    r2: float
    z: float


def score_findings(cohort: Cohort, columns: dict[str, np.ndarray]) -> list[Finding]:
    """How well covariates (n, k) predict the score without connectivity, and how it differs between sites.

    cohort : subjects, each once.
    """
    y = pd.to_numeric(pd.Series(cohort.y), errors="coerce").to_numpy(float)
    known = np.isfinite(y)
    told = {what: score_from(values[known], y[known]) for what, values in columns.items()}
    return [_score_finding(what, probe) for what, probe in told.items()] + _per_site(cohort[known], y[known])


def score_from(features: np.ndarray, y: np.ndarray) -> ScoreProbe | None:
    """How well scores (n,) are told from features (n, d) by ridge regression; None where nothing varies."""
    if len(y) < 2 * FEWEST or np.ptp(y) == 0 or not np.ptp(features, axis=0).any():
        return None
    found, errors = [], []
    for repeat in range(REPEATS):
        predicted = np.empty(len(y))
        folds = RepeatedKFold(n_splits=FOLDS, n_repeats=1, random_state=repeat)
        for train, test in folds.split(features):
            level = y[train].mean()  # differs between folds, in the direction away from the test scores
            predicted[test] = Ridge(1.0).fit(features[train], y[train] - level).predict(features[test])
        varies = np.ptp(predicted) > 0
        found.append(float(np.corrcoef(predicted, y)[0, 1]) if varies else 0.0)
        errors.append(float(np.square(y - y.mean() - predicted).mean()))
    r = float(np.mean(found))
    return ScoreProbe(r, 1 - float(np.mean(errors)) / float(y.var()), r * np.sqrt(len(y) - 1))


def _score_finding(what: str, probe: ScoreProbe | None) -> Finding:
    name, measure = f"{what} → score", "correlation"
    if probe is None:
        reason = f"{what} or the score does not vary, or there are fewer than {2 * FEWEST} subjects"
        return Finding(name, "unknown", np.nan, measure, reason)
    message = f"correlation {probe.r:.2f}, R² {probe.r2:.2f} without connectivity"
    if probe.z < CLEAR or probe.r < NOTABLE:
        return Finding(name, "fine", probe.r, measure, message)
    advice = ADVICE.get(what, f"take {what} out inside the fold (Deconfound), and report both")
    return Finding(name, "serious" if probe.r >= STRONG else "warning", probe.r, measure, message, advice)


def _per_site(cohort: Cohort, y: np.ndarray) -> list[Finding]:
    """Means and spreads of the score at each site."""
    if cohort.sites is None or len(np.unique(cohort.sites)) < 2:
        return []
    groups = pd.Series(y).groupby(pd.Series(cohort.sites, name="site").astype(str))
    table = groups.agg(["count", "mean", "std", "min", "max"])
    parts = [part.to_numpy() for _, part in groups if len(part) > 1]
    if len(parts) < 2 or np.ptp(y) == 0:
        return []
    means = groups.transform("mean").to_numpy()
    share = float(np.square(means - y.mean()).mean() / y.var())
    p = float(stats.kruskal(*parts).pvalue)
    low, high = table["mean"].idxmin(), table["mean"].idxmax()
    message = (
        f"sites differ by {share:.0%} of the variance (p = {p:.2g}); means from "
        f"{table.loc[low, 'mean']:.3g} ({low}) to {table.loc[high, 'mean']:.3g} ({high})"
    )
    name, measure = "score per site", "share of variance"
    if p >= UNEVEN:
        return [Finding(name, "fine", share, measure, message, table=table)]
    advice = "compare with the mean of the site, report R² within sites and leave-one-site-out"
    return [
        Finding(name, "serious" if share >= STRONG else "warning", share, measure, message, advice, table)
    ]


# ------------------------------------------------------------------------- predictions


def score_prediction_findings(
    cohort: Cohort, vectors: np.ndarray, predictions: pd.DataFrame | None, deconfound: Deconfound | None
) -> list[Finding]:
    """Findings about predictions of the score: those given, else those of a ridge regression.

    cohort : subjects, each once. vectors : (n, edges) connectivity, for the regression.
    """
    known = np.isfinite(pd.to_numeric(pd.Series(cohort.y), errors="coerce").to_numpy(float))
    if predictions is not None:
        checks, whose = score_checks(predictions, cohort), "of the evaluation"
    else:
        checks = _probed(cohort[known], vectors[known], deconfound)
        taken = "" if deconfound is None else f", without {', '.join(deconfound.covariates)}"
        whose = f"of a ridge regression in {FOLDS} folds{taken}"
    if checks is None:
        if cohort.sites is None and not cohort.covariates.shape[1]:
            return []
        reason = f"no predictions: fewer than {2 * FEWEST} subjects, all are alike, or no nuisance varies"
        return [Finding("prediction → nuisances | score", "unknown", np.nan, "association", reason)]
    rows = checks.table.to_dict("records")
    found = [nuisance_finding(row, whose, "score", _advice(row["nuisance"])) for row in rows]
    return found + ([] if checks.r2 is None else [_within_finding(checks.r2, whose)])


def _probed(cohort: Cohort, vectors: np.ndarray, deconfound: Deconfound | None) -> NuisanceChecks | None:
    """Checks of out-of-fold predictions."""
    predicted = score_predictions(cohort, vectors, deconfound)
    if predicted is None:
        return None
    columns: dict[str, Any] = {"position": np.arange(len(cohort)), "subject": cohort.subjects}
    columns |= {"y_true": np.asarray(cohort.y, float), "y_pred": predicted}
    return score_checks(pd.DataFrame(columns), cohort)


def score_predictions(
    cohort: Cohort, vectors: np.ndarray, deconfound: Deconfound | None = None
) -> np.ndarray | None:
    """(n,) out-of-fold predictions of the score by ridge regression on connectivity (n, edges).

    deconfound : fitted in each fold on its training subjects. None where there are fewer than twenty
    subjects, or nothing varies.
    """
    y = np.asarray(cohort.y, float)
    if len(y) < 2 * FEWEST or np.ptp(y) == 0 or not np.ptp(vectors, axis=0).any():
        return None
    data: Any = vectors
    if deconfound is not None:
        diagonal = np.zeros((len(cohort), cohort.n_rois, cohort.n_rois), np.float32)
        data = cohort.with_matrices(symmetric(vectors, diagonal))
    predicted = np.empty(len(y))
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(y):
        seen, new = data[train], data[test]
        if deconfound is not None:
            step = clone(deconfound).fit(seen)
            seen, new = (upper_triangle(step.transform(part).matrices) for part in (seen, new))
        predicted[test] = _predicted(np.asarray(seen), y[train], np.asarray(new))
    return predicted


def _predicted(seen: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(m,) predictions for new subjects by ridge regression of the least leave-one-out error."""
    mean, scale = seen.mean(0), seen.std(0)
    scale = np.where(scale > 0, scale, 1) * np.sqrt(seen.shape[1])
    seen, new = (seen - mean) / scale, (new - mean) / scale
    values, axes = np.linalg.eigh((seen @ seen.T).astype(np.float64))
    along, squares = axes.T @ (y - y.mean()), axes**2
    fits = []
    for strength in STRENGTHS:
        inverse = 1 / (np.maximum(values, 0) + strength)
        weights = axes @ (along * inverse)
        fits.append((float(np.square(weights / (squares @ inverse)).mean()), weights))
    _, weights = min(fits, key=lambda fit: fit[0])
    return y.mean() + new @ (seen.T @ weights)


def _advice(what: str) -> str:
    """What to do where predictions of a score follow a nuisance."""
    if what == "site":
        return "harmonise inside the fold (ComBat, Deconfound) and report leave-one-site-out"
    return f"take {what} out inside the fold (Deconfound), and report both"


def _within_finding(found: SiteControlledR2, whose: str) -> Finding:
    """Whether R² holds among subjects of the same site."""
    message = (
        f"R² {found.value:.2f} ({found.low:.2f} to {found.high:.2f}) beside the means of the sites, "
        f"{found.overall:.2f} beside that of all; correlation {found.r:.2f} within sites, "
        f"{found.overall_r:.2f} among all, {whose}"
    )
    lost = found.overall - found.value >= LOSS and found.overall > found.high
    advice = "sites help to tell the score: report R² within sites, and leave-one-site-out" if lost else ""
    return Finding("R² within sites", "warning" if lost else "fine", found.value, "R²", message, advice)
