"""Problems of a cohort: each is named with the option that deals with it, or dealt with."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._arrays import ROUNDING, asymmetry, is_finite
from cignn._checks import DataError, Option, name_some, nearest, whole
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_repairs import drop_rois, repaired, with_known_labels_and_sites
from cignn.datasets.exclusions import excluded
from cignn.datasets.labels import (
    ANOTHER_LABEL,
    clean_labels,
    refuse_numbers,
    refuse_scores,
    spelt_apart,
    without_label,
    without_site,
)
from cignn.datasets.likeness import data_of, identical_pairs, near_duplicates
from cignn.datasets.occasions import occasions_of, scan_names, scans_told_apart

logger = logging.getLogger(__name__)

LONGEST_ID = 200  # letters: files are named by ids, with more behind them
DROPS = ("drop_subject", "keep_first")  # actions that leave subjects out
UNUSABLE = ("non_finite", "constant_rois")  # problems that no model takes: "keep" is for an audit, no remedy


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
    "non_finite": ("raise", "drop_subject", "zero", "keep"),
    "constant_rois": ("raise", "drop_subject", "drop_roi", "zero", "keep"),
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
    """Return the checks with these options; an unknown one is refused with the closest name."""
    known = [field.name for field in fields(Checks)]
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}{nearest(name, known)}")
    return Checks(**options)


def remedies(option: str) -> Option:
    """Return an option with the values that deal with its problem."""
    no_remedy = ("raise", "keep") if option in UNUSABLE else ("raise",)
    return Option(option, tuple(action for action in ACTIONS[option] if action not in no_remedy))


def check_cohort(
    cohort: Cohort,
    *,
    non_finite: str = "raise",
    constant_rois: str = "raise",
    short_series: str = "raise",
    min_length: int = 30,
    asymmetric: str = "raise",
    duplicates: str = "raise",
    near_duplicates: str = "warn",
    missing_labels: str = "raise",
    missing_sites: str = "raise",
    one_class: str = "raise",
) -> Cohort:
    """Check the data of a cohort and return it, repaired as the options say.

    Every problem whose option is "raise" (the default of nearly all) becomes one line of one `DataError`.
    The ``exclusions`` of the cohort returned list who was left out.

    Parameters
    ----------
    cohort : Cohort
        The cohort, which is not changed.
    non_finite : {"raise", "drop_subject", "zero", "keep"}, default="raise"
        What to do about NaN or infinite values; "zero" makes them 0. "keep" is for an audit: no model takes
        them.
    constant_rois : {"raise", "drop_subject", "drop_roi", "zero", "keep"}, default="raise"
        What to do about ROIs without signal, whose correlations are undefined. "drop_roi" drops the ROI from
        everyone; "zero" makes the series 0, and `cignn.connectome.Connectivity` gives it no connections;
        "keep" leaves them as they are, for an audit.
    short_series : {"raise", "drop_subject", "keep"}, default="raise"
        What to do about series of fewer than ``min_length`` time points.
    min_length : int, default=30
        Number of time points a series should have.
    asymmetric : {"raise", "drop_subject", "symmetrise"}, default="raise"
        What to do about matrices that differ from their transpose by more than rounding. "symmetrise" takes
        the mean of both triangles, or the one that is not empty.
    duplicates : {"raise", "keep_first", "keep"}, default="raise"
        What to do about an id that occurs twice, or identical data under two ids. Scans of one subject that
        differ in the covariate "session" or "run" are no duplicates.
    near_duplicates : {"raise", "warn", "drop_subject", "keep_first", "keep"}, default="warn"
        What to do about nearly the same scan under two ids: connectivity that correlates above 0.7 after
        what all subjects share is removed, while that of different subjects correlates by about 0. "warn"
        logs and keeps them; "drop_subject" drops both, because it is unknown whose scan it is. Checked if
        there are at least 20 subjects and 10 ROIs.
    missing_labels : {"raise", "drop_subject", "keep"}, default="raise"
        What to do about subjects without a label.
    missing_sites : {"raise", "drop_subject", "own_site"}, default="raise"
        What to do about subjects without a site where others have one; "own_site" puts them into the site
        "unknown". Where nobody has a site the cohort has no sites.
    one_class : {"raise", "keep"}, default="raise"
        What to do if all labels are equal.

    Returns
    -------
    Cohort
        The cohort; the same object if nothing had to be changed.

    Examples
    --------
    >>> from cignn.datasets import check_cohort, make_cohort
    >>> cohort = make_cohort(6, 8, n_edges=2, random_state=0)
    >>> check_cohort(cohort) is cohort
    True
    >>> cohort.series[2][:, 3] = 1.0
    >>> checked = check_cohort(cohort, constant_rois="drop_subject")
    >>> len(checked), checked.exclusions["subject"].tolist(), checked.exclusions["reason"].tolist()
    (5, ['sub-0003'], ['constant_rois'])
    """
    checks = Checks(
        non_finite, constant_rois, short_series, min_length, asymmetric, duplicates, near_duplicates,
        missing_labels, missing_sites, one_class,
    )  # fmt: skip
    return apply_checks(cohort, checks)


# ------------------------------------------------------------------------------- findings


class Finding(NamedTuple):
    """A problem of some subjects, and the option that deals with it."""

    option: str
    found: np.ndarray  # (n,) True for the subjects concerned
    problem: str
    details: str | Sequence[str] = ""  # why a subject is left out: one for all, or one for each found
    values: Sequence[Any] = ()  # what was found


def apply_checks(cohort: Cohort, checks: Checks, *, own: bool = False) -> Cohort:
    """Check as `check_cohort` does; ``own`` allows to repair the data in place."""
    if not len(cohort):
        raise DataError("the cohort has no subjects")
    finite = np.array([is_finite(one) for one in data_of(cohort)])
    constant = np.array([_constant(one, cohort.series is not None) for one in data_of(cohort)])
    constant &= finite[:, None]
    gaps = np.array([] if cohort.matrices is None else [asymmetry(one) for one in cohort.matrices])
    findings = [one for one in _findings(cohort, checks, finite, constant, gaps) if one.found.any()]
    _refuse(cohort, checks, findings)
    drop = np.zeros(len(cohort), bool)
    gone = []
    for one in findings:
        action = getattr(checks, one.option)
        if action == "warn":
            logger.warning("%s", _error(cohort, one))
        elif action in DROPS:  # the first reason counts
            table = excluded(cohort.subjects[one.found], one.option, one.details)
            gone.append(table[~drop[one.found]])
            drop |= one.found
    cohort = with_known_labels_and_sites(cohort)
    zeros = checks.constant_rois == "zero" and constant.any()
    if (checks.non_finite == "zero" and not finite.all()) or zeros or (gaps > 0).any():
        cohort = repaired(cohort, checks.non_finite == "zero", constant if zeros else None, own)
    if checks.constant_rois == "drop_roi" and constant.any():
        absent = np.asarray(constant[~drop].any(0))
        names = np.array(cohort.roi_names)[absent]
        gone.append(excluded((), "constant_rois", "constant in at least one subject", names))
        cohort = drop_rois(cohort, absent)
    if gone:
        cohort = cohort._noting(*gone)
    if drop.any():
        cohort = cohort[~drop]
    if not len(cohort):
        raise DataError(
            "no subject is left after dropping", remedy="look at the options that say drop_subject"
        )
    return _with_clean_labels(cohort, checks)


def _findings(
    cohort: Cohort, checks: Checks, finite: np.ndarray, constant: np.ndarray, gaps: np.ndarray
) -> list[Finding]:
    """Every problem there may be, those that nobody has among them."""

    def these(found: np.ndarray) -> str:
        return name_some(cohort.subjects[found])

    bad = ~finite
    out = [Finding("non_finite", bad, f"NaN or infinite values in {these(bad)}", "NaN or infinite values")]
    without = np.asarray(constant.any(1))
    counts = [_count_constant(row.sum()) for row in constant[without]]
    rois = np.array(cohort.roi_names)[constant.any(0)].tolist()
    out.append(Finding("constant_rois", without, _constant_line(cohort, constant), counts, rois))
    if cohort.lengths is not None:
        short = cohort.lengths < checks.min_length
        lengths = cohort.lengths[short].tolist()
        details = [f"{length} time points" for length in lengths]
        out.append(Finding("short_series", short, _short_line(cohort, checks, short), details, lengths))
    askew = gaps > ROUNDING
    if len(askew):
        line = f"matrices are not symmetric in {these(askew)}"
        out.append(Finding("asymmetric", askew, line, "matrix not symmetric"))
    out += _duplicates(cohort, checks, finite)
    if cohort.y is not None:
        unlabelled = without_label(cohort.y)
        out.append(Finding("missing_labels", unlabelled, f"no label for {these(unlabelled)}", "no label"))
    nowhere = without_site(cohort.sites, len(cohort))
    if not nowhere.all():
        out.append(Finding("missing_sites", nowhere, f"no site for {these(nowhere)}", "no site"))
    return out


def _duplicates(cohort: Cohort, checks: Checks, finite: np.ndarray) -> list[Finding]:
    """Ids that occur twice, identical data under two ids, and scans that are nearly the same."""
    repeated = ~scans_told_apart(cohort.subjects, cohort.covariates)
    line = f"the same id occurs more than once for {name_some(pd.unique(cohort.subjects[repeated]))}"
    out = [Finding("duplicates", repeated, line, "id of another scan")]
    unnamed = occasions_of(cohort.subjects, cohort.covariates) == ""
    unnamed &= pd.Series(cohort.subjects).duplicated(keep=False).to_numpy()
    pairs = identical_pairs(cohort, finite & ~unnamed)
    again = np.zeros(len(cohort), bool)
    again[[later for _, later in pairs]] = True
    called = scan_names(cohort.subjects, cohort.covariates)
    names = [f"{called[first]} = {called[later]}" for first, later in pairs]
    details = [f"same data as {called[first]}" for first, _ in sorted(pairs, key=lambda p: p[1])]
    own = all(cohort.subjects[first] == cohort.subjects[later] for first, later in pairs)
    line = f"identical data {'in two scans' if own else 'under two ids'}: {name_some(names)}"
    out.append(Finding("duplicates", again, line, details, names))
    if checks.near_duplicates != "keep" and finite.all():
        alike = near_duplicates(cohort)
        alike = alike[~again[alike["first"]] & ~again[alike["second"]]]
        found = _of_pairs(alike, checks.near_duplicates, len(cohort))
        names = _alike(cohort, alike)
        line = f"near-identical scans under two ids: {name_some(names)}"
        out.append(Finding("near_duplicates", found, line, "near-identical scan under two ids", names))
    return out


def _refuse(cohort: Cohort, checks: Checks, findings: list[Finding]) -> None:
    """Raise one error for all problems that are not to be dealt with."""
    errors = [_error(cohort, one) for one in findings if getattr(checks, one.option) == "raise"]
    wordy = np.char.str_len(cohort.subjects) > LONGEST_ID
    if wordy.any():
        problem = f"ids of more than {LONGEST_ID} letters, too long for names of files"
        names = cohort.subjects[wordy]
        errors.append(DataError(f"{problem}: {name_some(names)}", subjects=names))
    if cohort.y is not None:
        errors += spelt_apart(cohort.y[~without_label(cohort.y)], "labels")
    if cohort.sites is not None:
        errors += spelt_apart(cohort.sites[~without_site(cohort.sites, len(cohort))], "sites")
    if errors:
        raise DataError.together(errors)


def _error(cohort: Cohort, finding: Finding) -> DataError:
    options = [remedies(finding.option)]
    if finding.option == "short_series" and _may_be_turned(cohort, finding.found):
        options.append(Option("transpose", (True,), "pass {} if the files hold ROIs × time points"))
    return DataError(
        finding.problem, subjects=cohort.subjects[finding.found], values=finding.values, options=options
    )


# --------------------------------------------------------------------------------- words


def _count_constant(n: int) -> str:
    return f"{n} constant ROI{'s' if n > 1 else ''}"


def _constant_line(cohort: Cohort, constant: np.ndarray) -> str:
    found = np.flatnonzero(constant.any(1))
    if len(found) == 1:
        rois = np.array(cohort.roi_names)[constant[found[0]]]
        return f"subject {cohort.subjects[found[0]]} has {_count_constant(len(rois))} ({name_some(rois)})"
    counts = [f"{cohort.subjects[i]} ({constant[i].sum()})" for i in found]
    return f"constant ROIs in {len(found)} subjects: {name_some(counts)}"


def _short_line(cohort: Cohort, checks: Checks, short: np.ndarray) -> str:
    assert cohort.lengths is not None
    names, shortest = name_some(cohort.subjects[short]), cohort.lengths.min()
    line = f"fewer than {checks.min_length} time points in {names}, the shortest {shortest}"
    return line + (f" with {cohort.n_rois} ROIs" if _may_be_turned(cohort, short) else "")


def _may_be_turned(cohort: Cohort, short: np.ndarray) -> bool:
    """Whether all series are short and have more ROIs than time points."""
    return cohort.lengths is not None and bool(short.all() and cohort.n_rois > cohort.lengths.max())


def _alike(cohort: Cohort, pairs: pd.DataFrame) -> list[str]:
    """Name pairs of scans that are one, and those that have two labels."""
    names = []
    for first, second in zip(pairs["first"], pairs["second"], strict=True):
        y = None if cohort.y is None else (cohort.y[first], cohort.y[second])
        apart = "" if y is None or y[0] == y[1] else f" (labels {y[0]} and {y[1]})"
        names.append(f"{cohort.subjects[first]} ≈ {cohort.subjects[second]}{apart}")
    return names


def _of_pairs(pairs: pd.DataFrame, action: str, n: int) -> np.ndarray:
    """(n,) who of the pairs is meant: the later ones where the first are kept, else both."""
    found = np.zeros(n, bool)
    found[pairs["second"]] = True
    if action != "keep_first":
        found[pairs["first"]] = True
    return found


def _constant(data: np.ndarray, is_series: bool) -> np.ndarray:
    """(R,) True where a series does not move, or a matrix has no connection."""
    if is_series:
        low, high = data.min(0, initial=np.inf), data.max(0, initial=-np.inf)
        return high - low <= 1e-6 * np.maximum(np.abs(low), np.abs(high))
    connected = (data != 0) & ~np.eye(len(data), dtype=bool)
    return ~(connected.any(0) | connected.any(1))


def _with_clean_labels(cohort: Cohort, checks: Checks) -> Cohort:
    """Labels as whole numbers where they are, checked to be of two classes at least."""
    if cohort.y is None:
        return cohort
    y = clean_labels(cohort.y)
    refuse_numbers(y)
    refuse_scores(y)
    known = pd.unique(pd.Series(y).dropna())
    if len(known) < 2 and checks.one_class == "raise":
        only = f"all labels are {known[0]}" if len(known) else "no subject has a label"
        raise DataError(
            f"{only} ({len(cohort)} subjects), expected at least two classes",
            subjects=cohort.subjects,
            values=known,
            options=[remedies("one_class"), ANOTHER_LABEL],
        )
    return cohort if y is cohort.y else cohort.with_y(y)
