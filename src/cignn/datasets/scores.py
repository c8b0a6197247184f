"""Scores as targets: which numbers are one, what is refused, and strata of similar scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import DataError, Option, choice, name_some
from cignn.datasets.exclusions import excluded
from cignn.datasets.reading import MISSING, NO_VALUES

MOST_CLASSES, FEWEST_MEMBERS = 12, 10  # see `is_score`
STRATA, LEAST_OF_STRATUM = 5, 20  # strata of a score at the most, and subjects of each


def is_score(labels: Any) -> bool:
    """Whether labels are a score rather than classes: numbers that are not whole, or very many of them.

    More than 12 different numbers are those of a scale and not of diagnoses where the middle one of them has
    fewer than 10 members: a fold of five would have one or two of each to test. Graph sets of many classes
    have dozens of graphs in each, and words are classes whatever their number.
    """
    values = pd.Series(labels).dropna()
    if not len(values) or pd.api.types.is_bool_dtype(values):
        return False
    if isinstance(values.iloc[0], str):  # a column of words is told by its first
        return False
    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.isna().any():
        return False
    counts = numbers.value_counts()
    many = len(counts) > MOST_CLASSES and counts.median() < FEWEST_MEMBERS
    return bool((numbers % 1 != 0).any() or many)


def as_scores(labels: Any, what: str = "y") -> np.ndarray:
    """(n,) labels as float64; refuse words, numbers that are not finite and scores that are all the same."""
    column = pd.Series(np.asarray(labels)).infer_objects()
    words = not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)
    if words or pd.api.types.is_complex_dtype(column):
        raise ValueError(
            f"{what} must hold numbers, the scores to predict, got {name_some(pd.unique(column), 3)}; a "
            "classifier, such as CIGNNClassifier, learns classes."
        )
    scores = column.to_numpy(np.float64)
    bad = ~np.isfinite(scores)
    if bad.any():
        raise ValueError(
            f"{what} must hold finite scores, number {int(bad.argmax())} is {scores[bad.argmax()]}; drop it."
        )
    return scores


def same_as_score(values: Any, score: Any) -> bool:
    """Whether a column (n,) is the score (n,) itself, such as everybody's age where that is predicted."""
    column = pd.Series(np.asarray(values)).infer_objects()
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    known = pd.to_numeric(pd.Series(np.asarray(score)), errors="coerce").to_numpy(float)
    return len(column) == len(known) and np.allclose(column.to_numpy(float), known, equal_nan=True)


def score_strata(scores: np.ndarray) -> np.ndarray:
    """(n,) numbers of strata of similar scores, by quantiles: up to five, of about 20 subjects at least.

    Equal scores are in one stratum, so that there are fewer where many subjects have the same.
    """
    n = len(scores)
    for count in range(min(STRATA, n // LEAST_OF_STRATUM), 1, -1):
        codes = pd.qcut(pd.Series(scores), count, labels=False, duplicates="drop").to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
        if np.bincount(codes).min() >= LEAST_OF_STRATUM // 2:
            return codes
    return np.zeros(n, np.int64)


def scores_of(table: pd.DataFrame, target: str, subjects: np.ndarray) -> tuple[str, np.ndarray]:
    """Name of the column of covariates that is called ``target``, and its values, NaN where there is none."""
    from cignn.datasets.participants import known_name

    usual = known_name(str(target))  # "age" for "AGE_AT_SCAN"
    alike = [name for name in table if str(name).lower() in (str(target).lower(), usual)]
    name = target if target in table else alike[0] if len(alike) == 1 else None
    if name is None:
        problem = f"there is no covariate {target!r} to predict, got {name_some(map(str, table)) or 'none'}"
        raise DataError(problem, values=list(table), options=[Option("target", advice="choose one with {}")])
    words = table[name].astype(object)
    known = ~(words.isna() | words.astype(str).str.strip().str.lower().isin(MISSING))
    values = pd.to_numeric(words.where(known), errors="coerce").astype(np.float64)
    wrong = (values.isna() & known).to_numpy()
    if wrong.any():
        raise DataError(
            f"{name} must be a number, got {words[wrong].iloc[0]!r} for {name_some(subjects[wrong])}",
            subjects=subjects[wrong],
            values=words[wrong],
            options=[Option("label", advice="where these are classes, name the column with {}")],
        )
    return str(name), values.mask(values.isin(NO_VALUES) | ~np.isfinite(values)).to_numpy()


def without_score(
    subjects: np.ndarray, name: str, scores: np.ndarray, missing: str
) -> tuple[pd.DataFrame, np.ndarray]:
    """Who is left out for want of a score, and (n,) who has one; refuse where nobody is to be left out."""
    choice("missing", missing, ("raise", "drop_subject", "keep"))
    there = ~np.isnan(scores)
    if missing == "keep":
        return excluded((), "missing_labels"), np.ones(len(scores), bool)
    if not there.all() and missing == "raise":
        raise DataError(
            f"no {name} for {name_some(subjects[~there])}",
            subjects=subjects[~there],
            options=[Option("missing_labels", ("drop_subject",))],
        )
    if len(np.unique(scores[there])) < 2:
        raise DataError(f"{name} is the same for everybody", options=[Option("target", advice="change {}")])
    return excluded(subjects[~there], "missing_labels", f"no {name}"), there
