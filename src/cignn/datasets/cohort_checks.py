"""What can be wrong with a cohort: each problem named in one line, with the option that deals with it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from cignn._arrays import digest, upper_triangle
from cignn._checks import name_some, nearest, whole
from cignn.datasets.cohort import Cohort, SeriesStack
from cignn.datasets.likeness import near_duplicates
from cignn.datasets.tables import MISSING, NO_VALUES

logger = logging.getLogger(__name__)

UNKNOWN_SITE = "unknown"
LONGEST_ID = 200  # letters: files are named by ids, with more behind them
_EXACT = 2**53  # whole numbers below this survive a float
MOST_CLASSES, FEWEST_MEMBERS = 12, 10  # see `refuse_scores`
ROUNDING = 1e-4  # asymmetry of a matrix, relative to its largest value, that counts as rounding


@dataclass(frozen=True)
class Checks:
    """What to do about each problem of a cohort; see `check_cohort`."""

    non_finite: str = "raise"
    constant_rois: str = "raise"
    short_series: str = "raise"
    min_length: int = 30
    asymmetric: str = "raise"
    duplicates: str = "raise"
    near_duplicates: str = "warn"
    missing_labels: str = "raise"
    missing_sites: str = "raise"
    one_class: str = "raise"
    mixed_rois: str = "raise"
    missing: str = "raise"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ACTIONS and value not in ACTIONS[field.name]:
                allowed = ", ".join(ACTIONS[field.name])
                raise ValueError(f"{field.name} must be one of {allowed}, got {value!r}.")
        whole("min_length", self.min_length, 2)


ACTIONS = {
    "non_finite": ("raise", "drop_subject", "zero"),
    "constant_rois": ("raise", "drop_subject", "drop_roi", "zero"),
    "short_series": ("raise", "drop_subject", "keep"),
    "asymmetric": ("raise", "drop_subject", "symmetrise"),
    "duplicates": ("raise", "keep_first", "keep"),
    "near_duplicates": ("raise", "warn", "drop_subject", "keep_first", "keep"),
    "missing_labels": ("raise", "drop_subject", "keep"),
    "missing_sites": ("raise", "drop_subject", "own_site"),
    "one_class": ("raise", "keep"),
    "mixed_rois": ("raise", "drop_subject"),
    "missing": ("raise", "drop_subject"),
}


def checks_from(options: Mapping[str, Any]) -> Checks:
    """Return the checks with these options; one that does not exist is named with the closest_name."""
    known = [field.name for field in fields(Checks)]
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}{nearest(name, known)}")
    return Checks(**options)


def check_cohort(cohort: Cohort, **options: Any) -> Cohort:
    """Look for what makes a cohort unfit to learn from; return it, repaired as the options say.

    Every problem found whose option is "raise" (the default of nearly all) becomes one line of one
    ValueError.

    Parameters
    ----------
    non_finite : NaN or infinite values: "raise", "drop_subject" or "zero" (these values become 0)
    constant_rois : ROIs without signal, whose correlations are undefined: "raise", "drop_subject",
        "drop_roi" (the ROI is dropped from everyone) or "zero" (the series becomes 0 and `Connectivity`
        gives it no connections)
    short_series, min_length : series of fewer than ``min_length`` (30) time points: "raise", "drop_subject"
        or "keep"
    asymmetric : matrices that differ from their transpose by more than rounding: "raise", "drop_subject" or
        "symmetrise" (the mean of both triangles; where one triangle is empty, the other one)
    duplicates : an id that stands twice, or identical data under two ids: "raise", "keep_first" or "keep"
    near_duplicates : practically the same scan under two ids (connectivity that correlates above 0.7 where
        that of strangers does by 0): "raise", "warn" (the default here: they are named and kept),
        "drop_subject" (both are dropped: nobody knows whose scan it is), "keep_first" or "keep". Looked for
        among 20 subjects or more with at least 10 ROIs
    missing_labels : subjects without a label: "raise", "drop_subject" or "keep"
    missing_sites : subjects without a site where others have one: "raise", "drop_subject" or "own_site" (they
        become the site "unknown"); where nobody has one the cohort has no sites
    one_class : all labels equal: "raise" or "keep"
    mixed_rois, missing : met while files are read, see `load_cohort`

    Returns
    -------
    Cohort, the same one where nothing had to change; the one given is never changed.
    """
    return apply_checks(cohort, checks_from(options))


def apply_checks(cohort: Cohort, checks: Checks, *, own: bool = False) -> Cohort:
    """Check as `check_cohort` does; ``own`` allows to repair the data in place."""
    if not len(cohort):
        raise ValueError("the cohort has no subjects.")
    problems: list[str] = []
    drop = np.zeros(len(cohort), bool)

    def act(option: str, found: np.ndarray, line: str) -> bool:
        """Note the problem or the subjects to drop; return whether something must be repaired."""
        action = getattr(checks, option)
        if not found.any():
            return False
        if action == "raise":
            problems.append(f"{line}; {remedy(option)}.")
        elif action in ("drop_subject", "keep_first"):
            drop[found] = True
            logger.info("%s: %s (%s=%r)", "dropped", line, option, action)
        elif action == "warn":
            logger.warning("%s; %s.", line, remedy(option))
        return action not in ("raise", "drop_subject", "keep_first", "keep", "warn")

    def these(found: np.ndarray) -> str:
        return name_some(cohort.subjects[found])

    bad = np.array([not np.isfinite(one).all() for one in _data(cohort)])
    zero_values = act("non_finite", bad, f"NaN or infinite values in {these(bad)}")

    constant = np.array([_constant(one, cohort.series is not None) for one in _data(cohort)])
    constant &= ~bad[:, None]
    without = np.asarray(constant.any(1))
    repair_rois = act("constant_rois", without, _constant_line(cohort, constant))

    if cohort.lengths is not None:
        short = cohort.lengths < checks.min_length
        shortest = cohort.lengths.min()
        line = f"fewer than {checks.min_length} time points in {these(short)}, the shortest {shortest}"
        if short.all() and cohort.n_rois > cohort.lengths.max():
            line += f" (if the files hold ROIs × time points, {shortest}×{cohort.n_rois}: transpose=True)"
        act("short_series", short, line)

    mirror = False
    if cohort.matrices is not None:
        gap = np.array([_asymmetry(one) for one in cohort.matrices])
        askew = gap > ROUNDING
        mirror = act("asymmetric", askew, f"matrices are not symmetric in {these(askew)}")
        mirror |= bool((gap > 0).any())

    wordy = np.char.str_len(cohort.subjects) > LONGEST_ID
    if wordy.any():
        problems.append(
            f"ids of more than {LONGEST_ID} letters, too long for names of files: {these(wordy)}."
        )
    twice = pd.Series(cohort.subjects).duplicated(keep=False).to_numpy()
    repeated = pd.Series(cohort.subjects).duplicated().to_numpy()
    act("duplicates", repeated, f"the same id stands more than once for {these(repeated)}")
    pairs = _identical(cohort, ~bad & ~twice)
    again = np.zeros(len(cohort), bool)
    again[[later for _, later in pairs]] = True
    names = [f"{cohort.subjects[first]} = {cohort.subjects[later]}" for first, later in pairs]
    act("duplicates", again, f"identical data under two ids: {name_some(names)}")
    if checks.near_duplicates != "keep" and not bad.any():
        alike = near_duplicates(cohort)
        alike = alike[~again[alike["first"]] & ~again[alike["second"]]]
        act("near_duplicates", _of_pairs(alike, checks.near_duplicates, len(cohort)), _alike(cohort, alike))

    unlabelled = np.zeros(len(cohort), bool)
    if cohort.y is not None:
        unlabelled = without_label(cohort.y)
        problems += _spelt_apart(cohort.y[~unlabelled], "labels")
        act("missing_labels", unlabelled, f"no label for {these(unlabelled)}")

    nowhere = without_site(cohort)
    problems += [] if cohort.sites is None else _spelt_apart(cohort.sites[~nowhere], "sites")
    own_site = not nowhere.all() and act("missing_sites", nowhere, f"no site for {these(nowhere)}")

    if problems:
        raise ValueError("\n".join(problems))
    if (unlabelled & ~pd.isna(cohort.y)).any():
        cohort = cohort.with_y(pd.Series(cohort.y).astype(object).mask(unlabelled, None).to_numpy())
    if nowhere.all() and cohort.sites is not None:
        cohort = cohort._with(sites=None)
    elif own_site:
        cohort = cohort._with(
            sites=np.where(nowhere, UNKNOWN_SITE, np.asarray(cohort.sites, object)).astype(str)
        )
    if zero_values or mirror or (repair_rois and checks.constant_rois == "zero"):
        cohort = _repaired(cohort, zero_values, constant if checks.constant_rois == "zero" else None, own)
    if repair_rois and checks.constant_rois == "drop_roi":
        gone = np.asarray(constant[~drop].any(0))
        logger.info(
            "dropped ROIs: %s (constant_rois='drop_roi')", name_some(np.array(cohort.roi_names)[gone])
        )
        cohort = drop_rois(cohort, gone)
    if drop.any():
        cohort = cohort[~drop]
    if not len(cohort):
        raise ValueError("no subject is left after dropping; look at the options that say drop_subject.")
    return _with_clean_labels(cohort, checks)


# --------------------------------------------------------------------------------- words


def remedy(option: str) -> str:
    """Say which values of an option deal with a problem."""
    *others, last = [f'"{action}"' for action in ACTIONS[option] if action != "raise"]
    return f"pass {option}={', '.join(others)}{' or ' if others else ''}{last}"


def _constant_line(cohort: Cohort, constant: np.ndarray) -> str:
    found = np.flatnonzero(constant.any(1))
    if len(found) == 1:
        rois = np.array(cohort.roi_names)[constant[found[0]]]
        count = f"{len(rois)} constant ROI{'s' if len(rois) > 1 else ''}"
        return f"subject {cohort.subjects[found[0]]} has {count} ({name_some(rois)})"
    counts = [f"{cohort.subjects[i]} ({constant[i].sum()})" for i in found]
    return f"constant ROIs in {len(found)} subjects: {name_some(counts)}"


def _alike(cohort: Cohort, pairs: pd.DataFrame) -> str:
    """Name pairs of scans that are one, and those that have two labels."""
    names = []
    for first, second in zip(pairs["first"], pairs["second"], strict=True):
        y = None if cohort.y is None else (cohort.y[first], cohort.y[second])
        apart = "" if y is None or y[0] == y[1] else f" (labels {y[0]} and {y[1]})"
        names.append(f"{cohort.subjects[first]} ≈ {cohort.subjects[second]}{apart}")
    return f"near-identical scans under two ids: {name_some(names)}"


# ----------------------------------------------------------------------------------- looks


def _of_pairs(pairs: pd.DataFrame, action: str, n: int) -> np.ndarray:
    """(n,) who of the pairs is meant: the later ones where the first are kept, else both."""
    found = np.zeros(n, bool)
    found[pairs["second"]] = True
    if action != "keep_first":
        found[pairs["first"]] = True
    return found


def _data(cohort: Cohort) -> Any:
    return cohort.matrices if cohort.series is None else cohort.series


def _constant(data: np.ndarray, is_series: bool) -> np.ndarray:
    """(R,) True where a series does not move, or a matrix has no connection."""
    if is_series:
        low, high = data.min(0, initial=np.inf), data.max(0, initial=-np.inf)
        return high - low <= 1e-6 * np.maximum(np.abs(low), np.abs(high))
    connected = (data != 0) & ~np.eye(len(data), dtype=bool)
    return ~(connected.any(0) | connected.any(1))


def _spelt_apart(words: np.ndarray, what: str) -> list[str]:
    """Say which words are one in different spellings (HC and hc, 1 and 1.0): they would be two classes."""
    seen: dict[Any, Any] = {}
    for word in pd.unique(pd.Series(words).dropna()):
        plain: Any = " ".join(str(word).casefold().split())
        number = pd.to_numeric(plain, errors="coerce")
        first = seen.setdefault(plain if pd.isna(number) else number, word)
        if first is not word:
            return [f"the {what} {str(first)!r} and {str(word)!r} differ in spelling only; write them alike."]
    return []


def looks_turned(series: SeriesStack) -> bool:
    """Whether time seems to run along the columns: neighbours in a row are far more alike than in a column.

    Series move slowly (in ABIDE neighbouring time points correlate by 0.5 to 0.9, neighbouring AAL regions by
    0.2 to 0.4). In doubt not: regions of a fine atlas are alike too, and rows that are all unlike may be
    simulated time points.
    """
    likeness = np.array([_likeness(series[int(i)]) for i in np.linspace(0, len(series) - 1, 30)])
    rows, columns = np.nanmedian(likeness, axis=0) if np.isfinite(likeness).any() else (0, 0)
    return bool(rows > 0.08 and columns > max(0.5, rows + 0.25))


def _likeness(one: np.ndarray) -> tuple[float, float]:
    """How alike neighbouring rows and neighbouring columns are, both centred; NaN where that says nothing."""
    values = one.astype(float)
    values -= values.mean(0)
    values -= values.mean(1, keepdims=True)
    total = (values**2).sum()
    if min(values.shape) < 10 or not (np.isfinite(total) and total > 0):
        return np.nan, np.nan
    rows, columns = (values[1:] * values[:-1]).sum(), (values[:, 1:] * values[:, :-1]).sum()
    return rows / total, columns / total


def are_matrices(series: SeriesStack) -> bool:
    """Whether what should be series is symmetric tables."""
    n_rois = series.values.shape[1]
    square = n_rois > 2 and len(series) > 0 and (series.lengths == n_rois).all()
    return bool(square) and all(one.any() and _asymmetry(one) < ROUNDING for one in series)


def without_label(y: Any) -> np.ndarray:
    """(n,) True where a label says nothing: NaN, "n/a", -9999 or "-9999"."""
    words = pd.Series(y).astype(object)
    texts = words.astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce")
    return (words.isna() | texts.str.lower().isin(MISSING) | numbers.isin(NO_VALUES)).to_numpy()


def without_site(cohort: Cohort) -> np.ndarray:
    """(n,) True where a subject's site says nothing; everywhere where there are no sites."""
    if cohort.sites is None:
        return np.ones(len(cohort), bool)
    return pd.Series(cohort.sites).astype(str).str.strip().str.lower().isin(MISSING).to_numpy()


def _asymmetry(matrix: np.ndarray) -> float:
    """Largest difference from the transpose, relative to the largest value."""
    if not np.isfinite(matrix).all():
        return 0.0
    largest = np.abs(matrix).max(initial=0.0)
    return float(np.abs(matrix - matrix.T).max(initial=0.0) / largest) if largest else 0.0


def _identical(cohort: Cohort, among: np.ndarray) -> list[tuple[int, int]]:
    """Pairs (first, later) of subjects with the very same numbers that are not all constant."""
    seen: dict[str, int] = {}
    pairs = []
    for i, one in enumerate(_data(cohort)):
        if among[i] and one.size and one.min() != one.max():
            key = digest(one)
            if key in seen:
                pairs.append((seen[key], i))
            seen.setdefault(key, i)
    return pairs


# --------------------------------------------------------------------------------- repairs


def _repaired(cohort: Cohort, zero_values: bool, constant: np.ndarray | None, own: bool) -> Cohort:
    """Set values without meaning to 0 and make matrices exactly symmetric."""
    if cohort.series is not None:
        stack = (
            cohort.series
            if own
            else SeriesStack(cohort.series.values.copy(), cohort.series.lengths, cohort.series.starts)
        )
        for i, one in enumerate(stack):
            if zero_values:
                np.nan_to_num(one, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
            if constant is not None:
                one[:, constant[i]] = 0
        absent = cohort.zeros_mean_absent or constant is not None
        return cohort._with(series=stack, zeros_mean_absent=absent)
    matrices = cohort.matrices if own else cohort.matrices.copy()  # type: ignore[union-attr]
    for one in matrices:  # type: ignore[union-attr]
        if zero_values:
            np.nan_to_num(one, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        _symmetrise(one)
    return cohort._with(matrices=matrices)


def _symmetrise(matrix: np.ndarray) -> None:
    """Make a matrix symmetric in place; where one triangle is empty the other one counts."""
    if not np.array_equal(matrix, matrix.T):
        one_sided = not upper_triangle(matrix).any() or not upper_triangle(matrix.T).any()
        diagonal = matrix.diagonal().copy()
        matrix[:] = (matrix + matrix.T) if one_sided else (matrix + matrix.T) / 2
        np.fill_diagonal(matrix, diagonal)


def drop_rois(cohort: Cohort, gone: np.ndarray) -> Cohort:
    """Return the cohort without the ROIs that are True in ``gone`` (R,)."""
    keep = np.flatnonzero(~np.asarray(gone))
    if not len(keep):
        raise ValueError("no ROI is left: each one is constant in some subject; drop these subjects instead.")
    return take_rois(cohort, keep)


def take_rois(cohort: Cohort, keep: np.ndarray) -> Cohort:
    """Return the cohort with the ROIs at ``keep``, in that order."""
    pair = np.ix_(keep, keep)
    stack = cohort.series
    return cohort._with(
        series=None if stack is None else SeriesStack(stack.values[:, keep], stack.lengths, stack.starts),
        matrices=None if cohort.matrices is None else cohort.matrices[:, keep[:, None], keep],
        roi_names=[cohort.roi_names[i] for i in keep],
        atlas=None if cohort.atlas is None else cohort.atlas[keep],
        edge_truth=None if cohort.edge_truth is None else cohort.edge_truth[pair],
        site_truth=None if cohort.site_truth is None else cohort.site_truth[pair],
    )


def _with_clean_labels(cohort: Cohort, checks: Checks) -> Cohort:
    """Labels as whole numbers where they are, checked to be of two classes at least."""
    if cohort.y is None:
        return cohort
    y = clean_labels(cohort.y)
    known = pd.unique(pd.Series(y).dropna())
    broken = [label for label in known if isinstance(label, (float, np.floating)) and not label.is_integer()]
    if broken:
        raise ValueError(
            f"labels must be classes, got the numbers {name_some(broken)}; give label= another column."
        )
    refuse_scores(y)
    if len(known) < 2 and checks.one_class == "raise":
        only = f"all labels are {known[0]}" if len(known) else "no subject has a label"
        raise ValueError(
            f"{only} ({len(cohort)} subjects), expected at least two classes; {remedy('one_class')}, or "
            f"give label= another column."
        )
    return cohort if y is cohort.y else cohort.with_y(y)


def refuse_scores(labels: Any) -> None:
    """Refuse numbers that are a score rather than classes: many values, few subjects with each.

    A symptom score as label makes a classifier of dozens of classes that nobody could learn. More than 12
    classes are numbers of a scale and not of diagnoses; with fewer than 10 members in the middle class a fold
    of five has one or two of each to test. Graph sets of many classes have dozens of graphs in each, and
    words are classes whatever their number.
    """
    values = pd.Series(labels).dropna()
    counts = pd.to_numeric(values, errors="coerce").value_counts()
    if counts.sum() < len(values) or len(counts) <= MOST_CLASSES or counts.median() >= FEWEST_MEMBERS:
        return
    low, high = counts.index.min(), counts.index.max()
    raise ValueError(
        f"the labels are {len(counts)} different numbers from {low:g} to {high:g} with {counts.median():g} "
        "members each in the middle: a score, not classes; make classes of it (below and above a cut-off), "
        "or take another column; numbers that are names of classes can be given as words (c12)."
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
