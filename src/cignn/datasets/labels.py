"""Labels and sites as they are found: which say nothing, which are classes and which are scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cignn._checks import DataError, Option, name_some
from cignn.datasets.reading import MISSING, NO_VALUES
from cignn.datasets.scores import is_score

ANOTHER_LABEL = Option("label", advice="choose another column with {}")
AS_SCORE = Option("target", advice="predict it as a score with {}")
_EXACT = 2**53  # whole numbers below this survive a float
# names of control groups in lower case, without spaces and signs
CONTROLS = {
    *("control", "controls", "healthycontrol", "healthycontrols", "healthy", "normal", "normalcontrol"),
    *("hc", "hcs", "nc", "cn", "con", "ctrl", "ctl", "td", "tc", "tdc", "typicallydeveloping", "typical"),
}


def without_label(y: Any) -> np.ndarray:
    """(n,) True where a label says nothing: NaN, "n/a", -9999 or "-9999"."""
    words = pd.Series(y).astype(object)
    texts = words.astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce")
    return (words.isna() | texts.str.lower().isin(MISSING) | numbers.isin(NO_VALUES)).to_numpy()


def control_class(classes: Any) -> Any:
    """Return the class of the controls: one named like it ("HC", "control", "TD"), 0, or the first."""
    labels = list(classes)
    names = ["".join(c for c in str(label).casefold() if c.isalpha()) for label in labels]
    found = next((label for label, name in zip(labels, names, strict=True) if name in CONTROLS), None)
    return found if found is not None else 0 if 0 in labels else labels[0]


def as_sites(sites: Any) -> np.ndarray:
    """A copy in which a missing site is a word, so that sites can be sorted and counted."""
    column = np.array(sites, object)  # else NaN among words would be one of them
    if column.ndim != 1 or not pd.isna(column).any():
        return np.array(sites)
    return np.array(["n/a" if pd.isna(site) else _word(site) for site in column.tolist()])


def _word(site: Any) -> str:
    """A site as text; 2.0, a whole number in a column with NaN, is 2."""
    return str(int(site)) if isinstance(site, float) and site.is_integer() else str(site)


def without_site(sites: Any, n: int) -> np.ndarray:
    """(n,) True where a subject's site says nothing; everywhere where there are no sites."""
    if sites is None:
        return np.ones(n, bool)
    return pd.Series(sites).astype(str).str.strip().str.lower().isin(MISSING).to_numpy()


def spelt_apart(words: np.ndarray, what: str) -> list[DataError]:
    """Say which words are one in different spellings (HC and hc, 1 and 1.0): they would be two classes."""
    seen: dict[Any, Any] = {}
    for word in pd.unique(pd.Series(words).dropna()):
        plain: Any = " ".join(str(word).casefold().split())
        number = pd.to_numeric(plain, errors="coerce")
        first = seen.setdefault(plain if pd.isna(number) else number, word)
        if first is not word:
            problem = f"the {what} {str(first)!r} and {str(word)!r} differ in spelling only"
            return [DataError(problem, values=(first, word), remedy="write them alike")]
    return []


def refuse_numbers(labels: Any) -> None:
    """Refuse numbers that are not whole."""
    known = pd.unique(pd.Series(labels).dropna())
    broken = [label for label in known if isinstance(label, (float, np.floating)) and not label.is_integer()]
    if broken:
        problem = f"labels must be classes, got the numbers {name_some(f'{label:g}' for label in broken)}"
        raise DataError(problem, values=broken, options=[ANOTHER_LABEL, AS_SCORE])


def refuse_scores(labels: Any) -> None:
    """Refuse numbers that are a score rather than classes, see `is_score`.

    A symptom score as label makes a classifier of dozens of classes that nobody could learn.
    """
    values = pd.Series(labels).dropna()
    counts = pd.to_numeric(values, errors="coerce").value_counts()
    if counts.sum() < len(values) or not is_score(counts.index.repeat(counts)):
        return
    low, high = counts.index.min(), counts.index.max()
    raise DataError(
        f"the labels are {len(counts)} different numbers from {low:g} to {high:g} with {counts.median():g} "
        "members each in the middle: a score, not classes",
        values=counts.index,
        options=[AS_SCORE],
        remedy="make classes of it (below and above a cut-off), or take another column; numbers that are "
        "names of classes can be given as words (c12)",
    )


def clean_labels(labels: Any) -> np.ndarray:
    """Return whole numbers as integers and words as text; missing ones stay missing."""
    column = pd.Series(labels).infer_objects()
    if column.isna().any():
        return column.to_numpy()
    if pd.api.types.is_float_dtype(column) and (column % 1 == 0).all() and (column.abs() < _EXACT).all():
        return column.to_numpy(int)
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return labels if isinstance(labels, np.ndarray) else column.to_numpy()
    return column.to_numpy(str)
