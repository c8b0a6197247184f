"""`audit`: what in a cohort could pass for a diagnosis without being one.

Duplicates, subjects on both sides of a split, sites and covariates that tell the label or the score,
connectivity that tells the site: each becomes a `Finding` with its size and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from cignn._checks import DataError, name_some
from cignn.connectome.deconfound import Deconfound
from cignn.datasets.cohort import Cohort
from cignn.datasets.likeness import (
    NEAR_IDENTICAL,
    connectivity_vectors,
    near_identical_pairs,
    too_many,
)
from cignn.datasets.scores import is_score, same_as_score
from cignn.evaluation.prediction_probe import prediction_findings
from cignn.evaluation.probes import (
    FEWEST,
    Audit,
    Finding,
    Probe,
    class_from_connectivity,
    coded,
    label_from,
    number_from_connectivity,
)
from cignn.evaluation.retest import has_repeats, retest_reliability
from cignn.evaluation.score_probe import score_findings, score_prediction_findings

CLEAR = 3.0  # standard errors above chance from which a score is no accident
NOTABLE, STRONG = 0.55, 0.65  # AUC of the label told from a covariate
UNRELIABLE = 0.2  # median ICC below which connections hardly come back in the same subject
SITE_NOTABLE, MOTION_NOTABLE = 0.1, 0.3  # balanced accuracy above chance; rank correlation
COVARIATES = ("age", "sex", "mean_fd")
_some = partial(name_some, most=3)  # names given in a line


def audit(
    cohort: Cohort,
    split: Any = None,
    *,
    near_identical: float = NEAR_IDENTICAL,
    covariates: Sequence[str] = COVARIATES,
    predictions: pd.DataFrame | None = None,
    deconfound: Sequence[str] | Deconfound | None = None,
) -> Audit:
    """Check a cohort for confounds and duplicates that would make scores misleading.

    Examples are a site or head motion that predicts the label, and the same scan under two ids. Labels may be
    classes or a score, see `Cohort.with_target`. A finding such as "site → label" says how well one thing
    predicts another in cross-validation. It is flagged if the score is both large and three standard errors
    above chance. A subject with several scans counts once.

    Parameters
    ----------
    cohort : Cohort
        Subjects with series or matrices. Labels, sites and covariates are checked if it has them.
    split : Split, tuple of arrays, sequence of these, or None, default=None
        One split as (train, test) or (train, validation, test), each indices or a mask, or several such
        splits. No subject, by name or by near-identical data, may be on both sides.
    near_identical : float, default=0.7
        Two subjects whose connectivity correlates at least this much count as the same scan. The cohort's
        mean and leading principal components are removed before, so that different subjects are near 0.
    covariates : sequence of str, default=("age", "sex", "mean_fd")
        Columns of ``cohort.covariates`` that are tested as predictors of the label, or the score.
    predictions : DataFrame, default=None
        Rows of `Store.predictions` of one method: whether they follow a nuisance beyond the label is tested
        instead of the predictions of a linear model that the audit fits.
    deconfound : sequence of str or Deconfound, default=None
        Covariates that are regressed out of connectivity before that linear model, inside its folds. It shows
        whether `Deconfound` is a remedy for this cohort.

    Returns
    -------
    Audit
        The findings, worst first.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import audit
    >>> cohort = make_cohort(20, n_rois=6, n_edges=2, data="matrices", random_state=0)
    >>> audit(cohort)["repeated subjects"].severity
    'fine'
    >>> twice = cohort[[0, *range(20)]]
    >>> audit(twice, split=([0], range(1, 21)))["subjects on both sides of a split"].severity
    'serious'
    """
    if not isinstance(cohort, Cohort):
        raise TypeError(f"audit works on a Cohort, got {type(cohort).__name__}; graphs have no subjects.")
    if not len(cohort):
        raise ValueError("audit needs at least one subject, the cohort has none.")
    if reason := too_many(cohort):
        raise DataError(f"the audit compares all subjects: {reason}, as audit(cohort[:5000]) does")
    scored = cohort.y is not None and is_score(cohort.y)
    vectors, constant = connectivity_vectors(cohort)
    pairs = near_identical_pairs(vectors, near_identical)
    findings = [
        _not_finite(cohort),
        _constant_rois(cohort, constant),
        *_duplicates(cohort, pairs, near_identical),
        *_retest(cohort.with_y(None) if scored else cohort),
    ]
    if split is not None:
        findings.append(_both_sides(cohort, pairs, _splits(split, len(cohort))))
    once = _once(cohort)
    people = cohort[once]
    if scored:
        to_label = score_findings(people, _columns(people, covariates))
    else:
        to_label = _to_label(people, covariates) + _balance(people)
    findings += to_label
    leaky = ("site → label", "site → score")
    leaks = any(f.name in leaky and f.severity in ("serious", "warning") for f in to_label)
    findings += _from_connectivity(people, vectors[once], leaks, "score" if scored else "label")
    if deconfound is not None and not isinstance(deconfound, Deconfound):
        deconfound = Deconfound(deconfound, unseen="pass")
    of_predictions = score_prediction_findings if scored else prediction_findings
    findings += of_predictions(people, vectors[once], predictions, deconfound)
    return Audit(findings, len(np.unique(cohort.subjects)), len(cohort))


def _once(cohort: Cohort) -> np.ndarray:
    """Positions of one scan of each subject, of each of its classes where it has several.

    A probe on all scans would find a subject it was fitted on, and take scans for independent people.
    """
    table = pd.DataFrame({"subject": cohort.subjects.astype(str)})
    if cohort.y is not None and not is_score(cohort.y):
        table["y"] = pd.Series(cohort.y).astype(str)
    return np.flatnonzero(~table.duplicated())


# -------------------------------------------------------------------- subjects and splits


def _duplicates(cohort: Cohort, pairs: pd.DataFrame, threshold: float) -> list[Finding]:
    names = cohort.subjects
    same_name = names[pairs["first"]] == names[pairs["second"]]
    strangers = pairs[~same_name]
    table = strangers.assign(first=names[strangers["first"]], second=names[strangers["second"]])
    if len(strangers):
        shown = [f"{a} and {b}" for a, b in zip(table["first"], table["second"], strict=True)]
        conflict = "" if cohort.y is None else _conflict(cohort.y, strangers)
        near = Finding(
            "near-identical subjects",
            "serious",
            len(strangers),
            "pairs",
            f"{len(strangers)} pairs with connectivity alike above {threshold:g}: {_some(shown)}{conflict}",
            "look at their files; drop one of each pair, or give both the same subject name so that splits "
            "keep them together",
            table,
        )
    else:
        near = Finding("near-identical subjects", "fine", 0, "pairs", f"no two alike above {threshold:g}")
    counts = pd.Series(names).value_counts()
    repeated = counts[counts > 1]
    if not len(repeated):
        return [near, Finding("repeated subjects", "fine", 0, "subjects", "every name once")]
    message = (
        f"{len(repeated)} of {len(counts)} subjects have more than one scan, {len(names)} scans in all: "
        f"{_some(list(repeated.index))}"
    )
    advice = "split by subject (the protocols here do), never by scan"
    return [near, Finding("repeated subjects", "warning", len(repeated), "subjects", message, advice)]


def _retest(cohort: Cohort) -> list[Finding]:
    """How well connections come back in scans of one subject, where there are repeated ones."""
    if not has_repeats(cohort.subjects):
        return []
    name, measure = "test–retest reliability", "median ICC"
    try:
        found = retest_reliability(cohort)
    except ValueError as error:  # labels that change between scans
        return [Finding(name, "unknown", np.nan, measure, str(error).rstrip("."))]
    message = (
        f"median {found.kind} of connections {found.median:.2f} ({found.low:.2f} to {found.high:.2f}) in "
        f"{found.n_subjects} subjects with {found.n_scans} scans, {found.strangers:.2f} with scans of "
        f"strangers; {found.identification:.0%} of scans find their own subject (chance {found.chance:.0%})"
    )
    clear = found.low > max(found.strangers, 0) and found.median >= UNRELIABLE
    if clear:
        return [Finding(name, "fine", found.median, measure, message, table=found.table)]
    advice = "connections that do not come back say little about a subject: use longer series, join the runs "
    advice += 'of a scan (runs="concatenate"), and make sure whose the scans are'
    return [Finding(name, "warning", found.median, measure, message, advice, found.table)]


def _conflict(y: np.ndarray, pairs: pd.DataFrame) -> str:
    different = int((y[pairs["first"]] != y[pairs["second"]]).sum())
    what = "scores" if is_score(y) else "labels"
    return f"; {different} of them with different {what}" if different else ""


def _splits(split: Any, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(seen while training, test) for every split."""
    if hasattr(split, "train") and hasattr(split, "test"):
        split = [split]
    split = list(split)
    if not split:
        raise ValueError("split is empty; give (train, test) indices or several such pairs.")
    if not hasattr(split[0], "train") and (not len(split[0]) or np.ndim(split[0][0]) == 0):
        split = [split]  # one split, not several
    out = []
    for one in split:
        if hasattr(one, "train"):
            parts = [one.train, getattr(one, "validation", None), one.test]
            one = [part for part in parts if part is not None]
        if len(one) not in (2, 3):
            raise ValueError(
                f"a split must be (train, test) or (train, validation, test), got {len(one)} parts."
            )
        try:
            index = [np.arange(n)[np.asarray(part)] if len(part) else np.empty(0, int) for part in one]
        except IndexError:
            raise ValueError(
                f"parts of a split must be positions from 0 to {n - 1} or masks of {n}."
            ) from None
        out.append((np.concatenate(index[:-1]), index[-1]))
    return out


def _both_sides(cohort: Cohort, pairs: pd.DataFrame, splits: list[tuple[np.ndarray, np.ndarray]]) -> Finding:
    names, guilty = cohort.subjects, set()
    first, second = pairs["first"].to_numpy(), pairs["second"].to_numpy()
    for seen, test in splits:
        guilty |= set(np.intersect1d(names[seen], names[test]))
        trained, tested = np.isin(np.arange(len(names)), seen), np.isin(np.arange(len(names)), test)
        across = (trained[first] & tested[second]) | (trained[second] & tested[first])
        guilty |= set(names[first[across]]) | set(names[second[across]])
    name = "subjects on both sides of a split"
    if not guilty:
        return Finding(name, "fine", 0, "subjects", f"none in {len(splits)} splits")
    everyone = len(np.unique(names))
    message = f"{len(guilty)} of {everyone} subjects are trained on and tested: {_some(sorted(guilty))}"
    return Finding(
        name, "serious", len(guilty), "subjects", message, "split by subject, and drop duplicates first"
    )


def _not_finite(cohort: Cohort) -> Finding:
    """Whose values are not all numbers; the diagonal of a matrix is not read."""
    name = "NaN or infinite values"
    counts = np.array([int((~np.isfinite(one)).sum()) for one in cohort.series or ()], int)
    if cohort.matrices is not None:
        beside = ~np.eye(cohort.n_rois, dtype=bool)
        counts = np.array([int((~np.isfinite(one[beside])).sum()) for one in cohort.matrices])
    bad = counts > 0
    if not bad.any():
        return Finding(name, "fine", 0, "subjects", "none")
    message = f"{_of_all(cohort, bad)} have some: {_some(list(dict.fromkeys(cohort.subjects[bad])))}"
    advice = "repair their files, or drop the subjects (check_cohort, non_finite=); no model takes them"
    table = pd.DataFrame({"subject": cohort.subjects[bad], "values": counts[bad]})
    return Finding(name, "serious", _people(cohort, bad), "subjects", message, advice, table)


def _constant_rois(cohort: Cohort, constant: np.ndarray) -> Finding:
    bad: np.ndarray = np.asarray(constant.any(1))
    name = "ROIs without signal"
    if not bad.any():
        return Finding(name, "fine", 0, "subjects", "none")
    rois = np.flatnonzero(constant.any(0))
    often = rois[np.argsort(-constant[:, rois].sum(0), kind="stable")]
    message = f"{_of_all(cohort, bad)} have some, {len(rois)} ROIs in all: "
    message += _some([cohort.roi_names[i] for i in often])
    names = [[cohort.roi_names[i] for i in np.flatnonzero(row)] for row in constant[bad]]
    whose = [f"{who} ({_some(own)})" for who, own in zip(cohort.subjects[bad], names, strict=True)]
    message += f"; in {_some(whose)}"
    severity = "warning"
    advice = (
        "drop these subjects or ROIs (check_cohort), or keep them without connections (constant_rois='zero')"
    )
    if cohort.sites is not None:
        where = pd.Series(cohort.sites[bad]).value_counts()
        message += f"; most at {_some([f'{site} ({count})' for site, count in where.items()])}"
    if cohort.y is not None:
        once = _once(cohort)
        p, what = _goes_along(bad[once], pd.Series(cohort.y).to_numpy()[once])
        if p < 0.001:
            severity, message = "serious", f"{message}; they go along with the {what} (p = {p:.1g})"
            advice = f"drop these ROIs from everyone: a model can read the {what} from lacking signal"
    lost = {"subject": cohort.subjects[bad], "ROIs without signal": constant[bad].sum(1)}
    details = pd.DataFrame(lost | {"names": [", ".join(own) for own in names]})
    return Finding(name, severity, _people(cohort, bad), "subjects", message, advice, details)


def _goes_along(bad: np.ndarray, y: np.ndarray) -> tuple[float, str]:
    """p of the hypothesis that lack of signal has nothing to do with the label or score; which it is."""
    if is_score(y):
        groups = [pd.to_numeric(pd.Series(y[side])).dropna() for side in (bad, ~bad)]
        return (float(stats.mannwhitneyu(*groups).pvalue) if all(map(len, groups)) else 1.0), "score"
    table = pd.crosstab(bad, y)
    return (float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0), "label"


def _people(cohort: Cohort, scans: np.ndarray) -> int:
    """How many subjects the scans are of."""
    return len(np.unique(cohort.subjects[scans]))


def _of_all(cohort: Cohort, scans: np.ndarray) -> str:
    """Say "3 of 20 subjects", with the scans where there are more of them."""
    everyone = len(np.unique(cohort.subjects))
    words = f"{_people(cohort, scans)} of {everyone} subjects"
    return words if everyone == len(cohort) else f"{words} ({int(scans.sum())} of {len(cohort)} scans)"


# --------------------------------------------------------------------- label, site, motion


def _columns(cohort: Cohort, covariates: Sequence[str]) -> dict[str, np.ndarray]:
    """(n, k) numbers of site, covariates, scan length and of all of these, by name."""
    columns: dict[str, np.ndarray] = {}
    if cohort.sites is not None:
        columns["site"] = coded(cohort.sites)
    for name in covariates:
        scored = cohort.y is not None and is_score(cohort.y)
        if name in cohort.covariates and not (scored and same_as_score(cohort.covariates[name], cohort.y)):
            columns["motion" if name == "mean_fd" else name] = coded(cohort.covariates[name])
    if cohort.lengths is not None and len(np.unique(cohort.lengths)) > 1:
        columns["scan length"] = coded(cohort.lengths)
    if len(columns) > 1:
        columns["all of these"] = np.concatenate(list(columns.values()), axis=1)
    return columns


def _to_label(cohort: Cohort, covariates: Sequence[str]) -> list[Finding]:
    """How well each covariate, and all of them, predict the label without connectivity."""
    columns = _columns(cohort, covariates)
    if cohort.y is None:
        named = f" ({name_some(cohort.covariates.columns)})" if len(cohort.covariates.columns) else ""
        message = "the cohort has no labels: nothing that needs them was looked at"
        advice = f"name the column of the diagnosis where the cohort is read{named}: label=, --label"
        return [Finding("label", "warning", np.nan, "AUC", message, advice)]
    labelled = pd.notna(pd.Series(cohort.y)).to_numpy()
    y = cohort.y[labelled]
    return [_label_finding(name, label_from(values[labelled], y)) for name, values in columns.items()]


def _label_finding(what: str, probe: Probe | None) -> Finding:
    name = f"{what} → label"
    if probe is None:
        reason = f"{what} does not vary, or a class has fewer than {FEWEST} subjects"
        return Finding(name, "unknown", np.nan, "AUC", reason)
    message = f"AUC {probe.score:.2f}, accuracy {probe.accuracy:.2f} without connectivity "
    message += f"(largest class {probe.majority:.2f})"
    if probe.z < CLEAR or probe.score < NOTABLE:
        return Finding(name, "fine", probe.score, "AUC", message)
    advice = {
        "site": 'report leave-one-site-out (protocol "loso"), balance classes within sites, harmonise with '
        "ComBat inside the fold",
        "all of these": "an accuracy no higher than this says nothing about brains; report it beside yours",
        "scan length": "cut all series to the same length, or to the same length within a site",
    }.get(what, f"match the classes for {what}, or take it out inside the fold (Deconfound), and report both")
    severity = "serious" if probe.score >= STRONG else "warning"
    return Finding(name, severity, probe.score, "AUC", message, advice)


def _balance(cohort: Cohort) -> list[Finding]:
    """Shares of the classes, in the cohort and at each site."""
    if cohort.y is None:
        return []
    labels = pd.Series(cohort.y)
    shares = labels.value_counts(normalize=True)
    if len(shares) < 2:
        only = f"all labels are {shares.index.tolist()[0]!r}" if len(shares) else "no labels"
        return [Finding("class balance", "serious", 1.0, "largest share", only, "add the other class")]
    lopsided = shares.iloc[0] > 1.5 / len(shares)
    message = ", ".join(f"{label}: {share:.0%}" for label, share in shares.sort_index().items())
    advice = "compare balanced accuracy, MCC and AUC, not accuracy" if lopsided else ""
    out = [
        Finding(
            "class balance",
            "warning" if lopsided else "fine",
            float(shares.iloc[0]),
            "largest share",
            message,
            advice,
        )
    ]
    if cohort.sites is None or len(np.unique(cohort.sites)) < 2:
        return out
    table = pd.crosstab(pd.Series(cohort.sites, name="site"), labels.rename("label"))
    test = stats.chi2_contingency(table)
    strength = float(np.sqrt(test.statistic / table.to_numpy().sum() / (min(table.shape) - 1)))
    alone = table.index[(table > 0).sum(axis=1) == 1].tolist()
    share = table.div(table.sum(axis=1), axis=0).iloc[:, -1]
    low, high = f"{share.min():.2f}", f"{share.max():.2f}"
    spread = f"from {low} ({share.idxmin()}) to {high} ({share.idxmax()})"
    message = (
        f"Cramér's V {strength:.2f} (p = {test.pvalue:.2g}); share of {table.columns[-1]} "
        f"{f'is {low} at every site' if low == high else spread}"
    )
    name, measure = "class balance per site", "Cramér's V"
    uneven = test.pvalue < 0.001
    if not alone and not uneven:
        return [*out, Finding(name, "fine", strength, measure, message, table=table)]
    if alone:
        message += f"; one class only at {_some(alone)}"
    advice = "drop sites with one class, balance the others, or report leave-one-site-out"
    severity = "serious" if uneven and strength >= 0.3 else "warning"
    return [*out, Finding(name, severity, strength, measure, message, advice, table)]


def _from_connectivity(cohort: Cohort, vectors: np.ndarray, leaks: bool, what: str) -> list[Finding]:
    """What connectivity gives away besides the label or score; what : which of these it is."""
    out = []
    if cohort.sites is not None:
        probe = class_from_connectivity(vectors, cohort.sites)
        out.append(_site_finding(probe, leaks, what))
    if "mean_fd" in cohort.covariates:
        fd = pd.to_numeric(cohort.covariates["mean_fd"], errors="coerce").to_numpy(float, na_value=np.nan)
        out.append(_motion_finding(number_from_connectivity(vectors, fd), what))
    return out


def _site_finding(probe: Probe | None, leaks: bool, what: str) -> Finding:
    name, measure = "connectivity → site", "balanced accuracy"
    if probe is None:
        return Finding(
            name, "unknown", np.nan, measure, f"fewer than two sites of {FEWEST} subjects, or all are alike"
        )
    message = f"balanced accuracy {probe.score:.2f} (chance {probe.chance:.2f})"
    if probe.z < CLEAR or probe.score - probe.chance < SITE_NOTABLE:
        return Finding(name, "fine", probe.score, measure, message)
    advice = "harmonise inside the fold (ComBat) and report leave-one-site-out beside random splits"
    if leaks:
        message += f"; and site tells the {what}, so random splits can be won by recognising the scanner"
    return Finding(name, "serious" if leaks else "warning", probe.score, measure, message, advice)


def _motion_finding(probe: Probe | None, what: str) -> Finding:
    name, measure = "connectivity → motion", "rank correlation"
    if probe is None:
        return Finding(
            name, "unknown", np.nan, measure, "mean_fd is missing or does not vary, or all subjects are alike"
        )
    message = f"mean_fd can be told with rank correlation {probe.score:.2f}"
    if probe.z < CLEAR or probe.score < MOTION_NOTABLE:
        return Finding(name, "fine", probe.score, measure, message)
    advice = (
        "clean the series for motion, exclude the worst scans, take it out inside the fold (Deconfound), "
    )
    advice += f"and check motion → {what}"
    return Finding(name, "warning", probe.score, measure, message, advice)
