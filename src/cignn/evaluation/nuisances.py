"""Do predictions follow motion, age, sex or site beyond the label, or the score?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from cignn._checks import whole
from cignn.connectome.covariates import find_covariate
from cignn.connectome.deconfound import NUISANCES
from cignn.datasets.cohort import Cohort
from cignn.datasets.scores import is_score, same_as_score
from cignn.evaluation.resampling import CHUNK, are_scores, permutation_p_value, prediction_arrays
from cignn.evaluation.site_auc import SiteControlledAUC, site_controlled_auc
from cignn.evaluation.site_r2 import SiteControlledR2, site_controlled_r2
from cignn.evaluation.statistics import holm

MEMBERS = 10  # subjects of similar scores among whom a nuisance is permuted
_RANK = 1e-9  # scores that vary less than this beside the largest direction do not vary


class NuisanceTest(NamedTuple):
    """Result of `nuisance_test`.

    Parameters
    ----------
    association : float
        Rank correlation of prediction and nuisance within classes, with its sign; for categories, and for
        more than two classes, the correlation ratio or multiple correlation, which has none.
    chance : float
        Mean size of the association where the nuisance is permuted.
    p_value : float
        Share of permutations with an association at least as large.
    n_subjects : int
        Subjects with a label and a value of the nuisance.

    Examples
    --------
    >>> from cignn.evaluation import NuisanceTest
    >>> NuisanceTest(0.3, 0.05, 0.001, 200).p_value
    0.001
    """

    association: float
    chance: float
    p_value: float
    n_subjects: int


def nuisance_test(
    y_true: npt.ArrayLike,
    scores: npt.ArrayLike,
    nuisance: npt.ArrayLike,
    *,
    within: npt.ArrayLike | None = None,
    subjects: npt.ArrayLike | None = None,
    of_scores: bool | None = None,
    n_permutations: int = 2000,
    random_state: int = 0,
) -> NuisanceTest:
    """Test whether predictions follow a nuisance beyond the label, or beyond the score that is predicted.

    The null hypothesis is that prediction and nuisance are independent given the label: all that the two
    share is that both go along with it. The nuisance is permuted among subjects of the same label, which
    leaves its relation to the label as it is; labels are classes, so this draws from the conditional
    distribution exactly and the p-value is valid whatever the shape of the data. Scores and numbers enter by
    rank: a probability and its log-odds give the same result.

    Where what is predicted is a score itself, predictions enter as what a cubic curve through the ranks of
    the score leaves of them, and the nuisance is permuted among about ten subjects of similar scores. That is
    exact up to what scores of such neighbours differ in.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels, or scores.
    scores : array-like of shape (n,) or (n, classes)
        Out-of-sample scores or probabilities, such as those of `Store.predictions`; where a score is
        predicted, the predictions.
    nuisance : array-like of shape (n,)
        Numbers (motion, age) or categories (sex, site). Rows without a value are left out.
    within : array-like of shape (n,), default=None
        Categories that are held fixed beside the label, for instance the site in a test of motion.
    subjects : array-like of shape (n,), default=None
        Names of the subjects. Several rows of a subject with one label, scans or repeated predictions, count
        as one, by their mean. By default each row is a subject.
    of_scores : bool or None, default=None
        Whether ``y_true`` are scores rather than classes; by default told by their values.
    n_permutations : int, default=2000
        Number of permutations.
    random_state : int, default=0
        Seed of the permutations.

    Returns
    -------
    NuisanceTest
        Size of the association, its size by chance, the p-value and the number of subjects. NaN where nothing
        varies within a class.

    References
    ----------
    Spisak, "Statistical quantification of confounding bias in machine learning models", GigaScience 2022
    (the partial confounder test). Berrett et al., "The conditional permutation test for independence while
    controlling for confounders", JRSS B 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import nuisance_test
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> motion = y + rng.normal(size=200)  # patients move more
    >>> nuisance_test(y, y + rng.normal(size=200), motion).p_value > 0.05
    True
    >>> nuisance_test(y, motion + rng.normal(size=200), motion).p_value < 0.01
    True
    """
    whole("n_permutations", n_permutations, 1)
    scored = is_score(y_true) if of_scores is None else of_scores
    rows = _rows(y_true, scores, nuisance, within, subjects, scored)
    rows = _at_equal_score(rows) if scored else rows
    stratum = rows.groupby(["label", "within"], sort=False).ngroup().to_numpy()
    order = np.argsort(stratum, kind="stable")
    rows, stratum = rows.iloc[order], stratum[order]
    columns = [name for name in rows if str(name).startswith("score")]
    basis = _basis(rows[columns].to_numpy(float), stratum)
    values = _nuisance_values(rows["nuisance"], stratum)
    if values is None or not basis.shape[1]:
        return NuisanceTest(np.nan, np.nan, np.nan, len(rows))
    parts = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(stratum)) + 1)
    rng = np.random.default_rng(random_state)
    null = []
    for start in range(0, n_permutations, CHUNK):
        drawn = np.tile(values, (min(CHUNK, n_permutations - start), 1))
        for part in parts:
            drawn[:, part] = rng.permuted(drawn[:, part], axis=1)
        null.append(np.abs(_association(basis, drawn)))
    chance = np.concatenate(null)
    found = float(_association(basis, values[None])[0])
    return NuisanceTest(found, float(chance.mean()), permutation_p_value(abs(found), chance), len(rows))


def nuisance_table(
    y_true: npt.ArrayLike,
    scores: npt.ArrayLike,
    nuisances: pd.DataFrame | Mapping[str, npt.ArrayLike],
    *,
    within: npt.ArrayLike | None = None,
    subjects: npt.ArrayLike | None = None,
    of_scores: bool | None = None,
    n_permutations: int = 2000,
    random_state: int = 0,
) -> pd.DataFrame:
    """Test several nuisances with `nuisance_test`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels, or scores.
    scores : array-like of shape (n,) or (n, classes)
        Out-of-sample scores or probabilities; where a score is predicted, the predictions.
    nuisances : DataFrame or mapping of str to array-like
        Name and values, (n,), of each nuisance.
    within : array-like of shape (n,), default=None
        Categories that are held fixed beside the label.
    subjects : array-like of shape (n,), default=None
        Names of the subjects, where some have several rows.
    of_scores : bool or None, default=None
        Whether ``y_true`` are scores rather than classes; by default told by their values.
    n_permutations : int, default=2000
        Number of permutations.
    random_state : int, default=0
        Seed of the permutations.

    Returns
    -------
    DataFrame
        One row per nuisance: nuisance, association, chance, p_value, p_holm (corrected for the number of
        nuisances) and n_subjects.

    Examples
    --------
    >>> from cignn.evaluation import nuisance_table
    >>> y, scores = [0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.8]
    >>> table = nuisance_table(y, scores, {"age": [20, 30, 40, 20, 30, 40]})
    >>> table.loc[0, "nuisance"], round(float(table.loc[0, "association"]), 6)
    ('age', 1.0)
    """
    given = {"within": within, "subjects": subjects, "of_scores": of_scores}
    rest: dict[str, Any] = given | {"n_permutations": n_permutations, "random_state": random_state}
    found = {str(name): nuisance_test(y_true, scores, nuisances[name], **rest) for name in nuisances}
    table = pd.DataFrame(found.values(), columns=NuisanceTest._fields)
    table.insert(0, "nuisance", list(found))
    table.insert(4, "p_holm", holm(table["p_value"].to_numpy()))
    return table


class NuisanceChecks(NamedTuple):
    """What out-of-sample predictions owe to nuisances: one row each, and AUC or R² within sites, if known."""

    table: pd.DataFrame
    auc: SiteControlledAUC | None
    r2: SiteControlledR2 | None = None


def nuisance_checks(
    predictions: pd.DataFrame, cohort: Cohort, *, n_permutations: int = 2000, positive: Any = None
) -> NuisanceChecks | None:
    """Test the predictions of one method, rows of `Store.predictions`, for the nuisances of their cohort.

    Subjects are found by name, scans of one subject by their position. None where the cohort has neither
    sites nor covariates, or the method gives no probabilities of classes.
    """
    if are_scores(predictions):
        return score_checks(predictions, cohort, n_permutations)
    true, _, classes, chances = prediction_arrays(predictions)
    rows = _positions(predictions, cohort)
    known = nuisances_of(cohort)
    if chances is None or not known.shape[1] or (rows >= 0).sum() < 2:
        return None
    kept = np.flatnonzero(rows >= 0)
    true, chances, rows = true[kept], chances[kept], rows[kept]
    some = predictions.iloc[kept]
    subjects = some["subject"].to_numpy().astype(str)
    table = nuisance_table(true, chances, known.iloc[rows], subjects=subjects, n_permutations=n_permutations)
    if "site" not in known or known["site"].nunique() < 2:
        return NuisanceChecks(table, None)
    task = some.groupby(["split", "seed"], sort=False).ngroup().to_numpy() if "split" in some else None
    given: dict[str, Any] = {"classes": classes, "positive": positive, "subjects": subjects, "tasks": task}
    auc = site_controlled_auc(true, chances, known["site"].to_numpy()[rows], **given)
    return NuisanceChecks(table, auc if auc.n_pairs else None)


def score_checks(
    predictions: pd.DataFrame, cohort: Cohort, n_permutations: int = 2000
) -> NuisanceChecks | None:
    """Test predicted scores as `nuisance_checks` does those of classes, at equal score."""
    rows = _positions(predictions, cohort)
    known = without_target(nuisances_of(cohort), cohort.y)
    kept = np.flatnonzero(rows >= 0)
    if not known.shape[1] or len(kept) < MEMBERS:
        return None
    some, rows = predictions.iloc[kept], rows[kept]
    true, predicted = (some[name].to_numpy(np.float64) for name in ("y_true", "y_pred"))
    subjects = some["subject"].to_numpy().astype(str)
    told: dict[str, Any] = {"subjects": subjects, "of_scores": True, "n_permutations": n_permutations}
    table = nuisance_table(true, predicted, known.iloc[rows], **told)
    r2 = None
    if "site" in known:
        r2 = site_controlled_r2(true, predicted, known["site"].to_numpy()[rows], subjects=subjects)
    return NuisanceChecks(table, None, r2 if r2 is not None and r2.n_sites > 1 else None)


def without_target(nuisances: pd.DataFrame, y: Any) -> pd.DataFrame:
    """Leave out what is the score itself: beyond it nothing of it is left to follow."""
    if y is None or not is_score(y):
        return nuisances
    return nuisances.drop(columns=[name for name in nuisances if same_as_score(nuisances[name], y)])


def nuisances_of(cohort: Cohort, names: Sequence[str] = NUISANCES) -> pd.DataFrame:
    """(n, k) the nuisances of these names that a cohort has and that vary: motion, age, sex and site."""
    found = {name: find_covariate(cohort, name) for name in names}
    return pd.DataFrame(
        {
            name: values.to_numpy()
            for name, values in found.items()
            if values is not None and values.nunique() > 1
        },
        index=range(len(cohort)),
    )


# ----------------------------------------------------------------------- helpers


def _positions(predictions: pd.DataFrame, cohort: Cohort) -> np.ndarray:
    """(n,) the scan of the cohort that each row is of; −1 for subjects it does not have."""
    names = cohort.subjects.astype(str)
    subject = predictions["subject"].to_numpy().astype(str)
    if "position" in predictions and predictions["position"].notna().all():
        at = predictions["position"].to_numpy(int)
        if at.min() >= 0 and at.max() < len(names) and (names[at] == subject).all():
            return at
    first = pd.Series(np.arange(len(names)), index=names)
    return first[~first.index.duplicated()].reindex(subject).fillna(-1).to_numpy(int)


def _rows(
    y_true: Any, scores: Any, nuisance: Any, within: Any, subjects: Any, scored: bool = False
) -> pd.DataFrame:
    """One row per subject and label: label, within, nuisance, score0, …, without missing values.

    scored : where labels are scores, a subject has one row with their mean.
    """
    label, score = np.asarray(y_true), np.asarray(scores, float)
    score = score[:, None] if score.ndim == 1 else score
    score = score[:, 1:] if score.shape[1] == 2 else score  # of two classes one says it all
    columns: dict[str, Any] = {"label": label, "within": 0 if within is None else np.asarray(within)}
    columns["nuisance"] = pd.Series(nuisance).to_numpy()
    columns["subject"] = np.arange(len(label)) if subjects is None else np.asarray(subjects)
    columns |= {f"score{k}": score[:, k] for k in range(score.shape[1])}
    lengths = {name: len(values) for name, values in columns.items() if np.ndim(values)}
    for name, length in lengths.items():
        if length != len(label) or label.ndim != 1:
            raise ValueError(
                f"{name.rstrip('0123456789')} must have one row per label ({len(label)}), got {length}."
            )
    rows = pd.DataFrame(columns)
    numeric = _numeric(rows["nuisance"])
    if numeric:
        rows["nuisance"] = rows["nuisance"].where(np.isfinite(rows["nuisance"].astype(float)))
    rows = rows.dropna()
    if subjects is None:
        return rows
    means = dict.fromkeys([name for name in rows if name.startswith("score")], "mean")
    if scored:
        means["label"] = "mean"
    by = rows.groupby("subject" if scored else ["subject", "label"], sort=False)
    return by.agg({"within": "first", "nuisance": "mean" if numeric else "first"} | means).reset_index()


def _at_equal_score(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with strata of similar scores as labels, and what the score leaves of the predictions."""
    n = len(rows)
    if not n:
        return rows
    rank = stats.rankdata(rows["label"].to_numpy(float))
    level = (rank - rank.mean()) / n
    curve = np.vander(level, 4)
    columns = [name for name in rows if str(name).startswith("score")]
    ranks = stats.rankdata(rows[columns].to_numpy(float), axis=0)
    left = ranks - curve @ np.linalg.lstsq(curve, ranks, rcond=None)[0]
    strata = ((rank - 0.5) * max(1, n // MEMBERS) / n).astype(int)  # equal scores are in one stratum
    return rows.assign(label=strata, **{name: left[:, k].round(9) for k, name in enumerate(columns)})


def _numeric(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def _centred(values: np.ndarray, stratum: np.ndarray) -> np.ndarray:
    """(n, k) values without the mean of their stratum."""
    table = pd.DataFrame(values)
    return (table - table.groupby(stratum).transform("mean")).to_numpy()


def _basis(scores: np.ndarray, stratum: np.ndarray) -> np.ndarray:
    """(n, q) orthonormal ranks of the scores, centred within strata; of one column with its sign."""
    if not len(scores):
        return scores[:, :0]
    ranks = _centred(stats.rankdata(scores, axis=0) / len(scores), stratum)
    if ranks.shape[1] == 1:
        size = np.linalg.norm(ranks)
        return ranks / size if size > _RANK else ranks[:, :0]
    left, sizes, _ = np.linalg.svd(ranks, full_matrices=False)
    return left[:, sizes > max(_RANK, 1e-6 * sizes.max(initial=0))]


def _nuisance_values(nuisance: pd.Series, stratum: np.ndarray) -> np.ndarray | None:
    """(n,) unit vector of centred ranks of numbers, or the numbers of categories; None if none varies."""
    if not _numeric(nuisance):
        codes = pd.factorize(nuisance.astype(str))[0]
        varies = pd.Series(codes).groupby(stratum).nunique().max() > 1 if len(codes) else False
        return codes if varies else None
    if not len(nuisance):
        return None
    ranks = _centred(stats.rankdata(nuisance.to_numpy(float))[:, None] / len(nuisance), stratum)[:, 0]
    size = np.linalg.norm(ranks)
    return ranks / size if size > _RANK else None


def _association(basis: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(b,) correlation of scores (n, q) with numbers (b, n), or correlation ratio with categories."""
    if values.dtype.kind == "f":
        found = values @ basis
        return found[:, 0] if basis.shape[1] == 1 else np.linalg.norm(found, axis=1)
    between = np.zeros(len(values))
    for level in np.unique(values[0]):
        inside = values == level
        between += ((inside @ basis) ** 2).sum(1) / max(inside[0].sum(), 1)
    return np.sqrt(between / basis.shape[1])
