"""Scores of a diagnosis: the paper's accuracy, F1 and MCC, and what clinicians ask for beside them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._checks import whole

LABEL_METRICS = ("accuracy", "balanced_accuracy", "f1", "mcc", "sensitivity", "specificity")
PROBABILITY_METRICS = ("roc_auc", "calibration_error")
METRICS = LABEL_METRICS + PROBABILITY_METRICS
OF_POSITIVE = ("f1", "sensitivity", "specificity", "calibration_error")  # of two classes, other with another
ERRORS = ("calibration_error", "mae")  # metrics of which less is better
BINS = 10  # of equal width, in which probability and frequency are compared


class Coded(NamedTuple):
    """Predictions as class numbers."""

    truth: np.ndarray  # (n,)
    predicted: np.ndarray  # (n,)
    probabilities: np.ndarray | None  # (n, k)
    labels: np.ndarray  # (k,) the classes the numbers stand for


def classification_scores(
    y_true: np.ndarray,
    y_pred: np.ndarray,
    classes: np.ndarray | None = None,
    probabilities: np.ndarray | None = None,
    positive: Any = None,
) -> dict[str, float]:
    """Scores of predicted labels and, where they are given, of their probabilities.

    Of two classes one counts as positive. Of more classes F1, sensitivity, specificity and ROC-AUC are means
    over classes, each against the rest. A score is NaN where there is nothing to measure: there is no
    sensitivity without patients and no balanced accuracy without one of the classes.

    Parameters
    ----------
    y_true : array of shape (g,)
        True labels.
    y_pred : array of shape (g,)
        Predicted labels.
    classes : array of shape (classes,) or None, default=None
        All classes there are (a classifier's ``classes_``), since a small test set may lack some; by default
        those that occur.
    probabilities : array of shape (g, classes) or None, default=None
        Probabilities, columns in the order of ``classes``. They add "roc_auc" and "calibration_error", the
        mean distance of probability and frequency in ten bins: of two classes the probability of the positive
        one, of more that of the predicted one.
    positive : object, default=None
        The class, of two, whose share recognised is the sensitivity, by default the second in sorted order (1
        of 0 and 1; but TD of ASD and TD). See `positive_class`.

    Returns
    -------
    dict of str to float
        "accuracy", "balanced_accuracy", "f1", "mcc", "sensitivity", "specificity" and, with probabilities,
        "roc_auc" and "calibration_error".

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import classification_scores
    >>> scores = classification_scores(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    >>> scores["accuracy"], scores["sensitivity"], scores["specificity"]
    (0.75, 1.0, 0.5)
    """
    coded = counted_by(code(y_true, y_pred, classes, probabilities), positive)
    scores = weighted_scores(coded, np.ones((1, len(coded.truth))))
    return {name: float(value[0]) for name, value in scores.items()}


def positive_class(classes: Any, positive: Any = None) -> Any:
    """Return the class that counts as positive.

    Parameters
    ----------
    classes : array-like
        All classes there are; labels with repetitions will do.
    positive : object, default=None
        One of two classes, or its name as text ("1" for 1).

    Returns
    -------
    object
        The class given, by default the second of two in sorted order; None where there are more than two.

    Examples
    --------
    >>> from cignn.evaluation import positive_class
    >>> positive_class(["TD", "ASD"])
    'TD'
    >>> positive_class([0, 1], "0")
    0
    """
    known = np.unique(pd.Series(classes).dropna().to_numpy()).tolist()
    if positive is None:
        return known[1] if len(known) == 2 else None
    if len(known) != 2:
        raise ValueError(f"positive is for two classes, there are {len(known)}; leave it out.")
    same = [one for one in known if one == positive] or [one for one in known if str(one) == str(positive)]
    if not same:
        raise ValueError(
            f"positive must be one of the classes, {known[0]!r} or {known[1]!r}, got {positive!r}."
        )
    return same[0]


def counted_by(coded: Coded, positive: Any) -> Coded:
    """Return the predictions with ``positive`` as the second of two classes, the one that scores are of.

    None leaves them in sorted order.
    """
    if positive is None or positive_class(coded.labels, positive) != coded.labels.tolist()[0]:
        return coded
    chances = None if coded.probabilities is None else coded.probabilities[:, ::-1]
    return Coded(1 - coded.truth, 1 - coded.predicted, chances, coded.labels[::-1])


def code(
    y_true: np.ndarray,
    y_pred: np.ndarray,
    classes: np.ndarray | None = None,
    probabilities: np.ndarray | None = None,
) -> Coded:
    """Check predictions and number their classes; one that only ``y_true`` has gets probability 0."""
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.ndim != 1 or y_true.shape != y_pred.shape or not len(y_true):
        raise ValueError(
            f"expected as many predictions as labels and at least one, got {y_pred.shape} and {y_true.shape}."
        )
    known = np.unique(y_pred if classes is None else np.asarray(classes))
    labels = np.unique(np.concatenate([known, y_true, y_pred]))
    chances = None
    if probabilities is not None:
        given = np.asarray(probabilities, np.float64)
        if classes is None or given.shape != (len(y_true), len(classes)):
            want = "(predictions, classes); pass classes too" if classes is None else len(classes)
            raise ValueError(f"probabilities must have one column per class ({want}), got {given.shape}.")
        bad = int((~np.isfinite(given)).any(1).sum())
        if bad:
            raise ValueError(f"probabilities of {bad} of {len(given)} predictions are NaN or infinite.")
        chances = np.zeros((len(y_true), len(labels)))
        chances[:, np.searchsorted(labels, np.asarray(classes).astype(labels.dtype))] = given
    return Coded(np.searchsorted(labels, y_true), np.searchsorted(labels, y_pred), chances, labels)


def weighted_scores(coded: Coded, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Every score, (b,), under b ways of weighting n predictions: (b, n), how often each one counts."""
    k = len(coded.labels)
    cells = np.zeros((len(coded.truth), k * k))
    cells[np.arange(len(cells)), coded.truth * k + coded.predicted] = 1
    scores = confusion_scores((weights @ cells).reshape(-1, k, k))
    if coded.probabilities is not None:
        scores["roc_auc"] = _areas(coded.truth, coded.probabilities, weights)
        scores["calibration_error"] = _calibration_error(coded, weights)
    return scores


def scores_of_truths(coded: Coded, truths: np.ndarray) -> dict[str, np.ndarray]:
    """Scores, (b,), of the same predictions for b other truths, (b, n) class numbers; no calibration."""
    k = len(coded.labels)
    cells = truths * k + coded.predicted + k * k * np.arange(len(truths))[:, None]
    counts = np.bincount(cells.ravel(), minlength=len(truths) * k * k).reshape(-1, k, k)
    scores = confusion_scores(counts.astype(float))
    if coded.probabilities is not None:
        scores["roc_auc"] = _areas(truths, coded.probabilities, np.ones((1, len(coded.truth))))
    return scores


def confusion_scores(confusion: np.ndarray) -> dict[str, np.ndarray]:
    """The scores of `LABEL_METRICS`, (...,), of (..., k, k) counts: rows truth, columns prediction."""
    k = confusion.shape[-1]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    true, called = confusion.sum(-1), confusion.sum(-2)
    total = confusion.sum((-2, -1))
    recall = _ratio(right, true)
    some = np.where(total > 0, 1.0, np.nan)  # without predictions there is no score at all
    f1 = np.nan_to_num(_ratio(2 * right, true + called)) * some[..., None]
    # MCC of any number of classes: (c·s − Σ p_k t_k) / √((s² − Σ p_k²)(s² − Σ t_k²)), c right of s
    above = right.sum(-1) * total - (true * called).sum(-1)
    below = np.sqrt((total**2 - (called**2).sum(-1)) * (total**2 - (true**2).sum(-1)))
    if k > 2:
        rest = total[..., None]
        specificity = _mean(_ratio(rest - true - called + right, rest - true))
        sensitivity = _mean(recall)
    else:
        sensitivity = recall[..., -1]
        specificity = recall[..., 0] if k == 2 else np.full(total.shape, np.nan)
    return {
        "accuracy": _ratio(right.sum(-1), total),
        "balanced_accuracy": recall.mean(-1),  # NaN where a class is absent
        "f1": f1.mean(-1) if k > 2 else f1[..., -1],
        "mcc": np.nan_to_num(_ratio(above, below)) * some,
        "sensitivity": sensitivity,
        "specificity": specificity,
    }


def calibration_curve(
    y_true: np.ndarray,
    probabilities: np.ndarray,
    classes: np.ndarray,
    n_bins: int = BINS,
    positive: Any = None,
) -> pd.DataFrame:
    """Predicted probability and observed frequency in bins of equal width.

    Of two classes the probability of the positive one is looked at, of more that of the most probable one.
    Empty bins are left out.

    Parameters
    ----------
    y_true : array of shape (n,)
        True labels.
    probabilities : array of shape (n, classes)
        Predicted probabilities.
    classes : array of shape (classes,)
        The classes, in the order of the columns of ``probabilities``.
    n_bins : int, default=10
        Number of bins.
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    DataFrame
        One row per bin: probability, frequency and count.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import calibration_curve
    >>> chances = np.array([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]])
    >>> calibration_curve(np.array([0, 0, 1, 0]), chances, np.array([0, 1])).to_numpy().tolist()
    [[0.25, 0.0, 2.0], [0.75, 0.5, 2.0]]
    """
    whole("n_bins", n_bins, 1)
    chances = np.asarray(probabilities, float)
    if chances.ndim != 2 or chances.shape != (len(y_true), len(classes)):
        want = (len(y_true), len(classes))
        raise ValueError(f"probabilities must be (predictions, classes) {want}, got {chances.shape}.")
    coded = counted_by(code(y_true, np.asarray(classes)[chances.argmax(1)], classes, chances), positive)
    promised, came = calibration_pairs(coded.truth, coded.probabilities)
    table = pd.DataFrame({"bin": bin_numbers(promised, n_bins), "probability": promised, "frequency": came})
    bins = table.groupby("bin")
    return bins.mean().assign(count=bins.size())


def expected_calibration_error(
    y_true: np.ndarray,
    probabilities: np.ndarray,
    classes: np.ndarray,
    n_bins: int = BINS,
    positive: Any = None,
) -> float:
    """Mean distance of probability and frequency over the bins of `calibration_curve`, by their counts.

    Parameters
    ----------
    y_true : array of shape (n,)
        True labels.
    probabilities : array of shape (n, classes)
        Predicted probabilities.
    classes : array of shape (classes,)
        The classes, in the order of the columns of ``probabilities``.
    n_bins : int, default=10
        Number of bins.
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    float
        The error, 0 for probabilities that come true.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import expected_calibration_error
    >>> chances = np.array([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]])
    >>> expected_calibration_error(np.array([0, 0, 1, 0]), chances, np.array([0, 1]))
    0.25
    """
    curve = calibration_curve(y_true, probabilities, classes, n_bins, positive)
    return float(np.average((curve["probability"] - curve["frequency"]).abs(), weights=curve["count"]))


def calibration_pairs(truth: np.ndarray, probabilities: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) probabilities and whether what they promise came true: see `classification_scores`."""
    if probabilities.shape[1] == 2:
        return probabilities[:, 1], truth == 1
    return probabilities.max(1), probabilities.argmax(1) == truth


def bin_numbers(promised: np.ndarray, n_bins: int) -> np.ndarray:
    """(n,) the bin of equal width, from 0, that each probability lies in."""
    return np.clip((promised * n_bins).astype(int), 0, n_bins - 1)


# ----------------------------------------------------------------------- helpers


def _calibration_error(coded: Coded, weights: np.ndarray) -> np.ndarray:
    assert coded.probabilities is not None
    promised, came = calibration_pairs(coded.truth, coded.probabilities)
    bins = np.zeros((len(promised), BINS))
    bins[np.arange(len(bins)), bin_numbers(promised, BINS)] = came - promised
    return _ratio(np.abs(weights @ bins).sum(-1), weights.sum(-1))


def _areas(truth: np.ndarray, probabilities: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(b,) area under the ROC curve: of the second of two classes, of more the mean over classes."""
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    return _mean(np.stack([_area(truth == c, probabilities[:, c], weights) for c in classes], -1))


def _area(positive: np.ndarray, score: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(b,) share of (positive, negative) pairs in the right order, ties counted half."""
    return _ratio(*ordered_pairs(positive, score, weights))


def ordered_pairs(
    positive: np.ndarray, score: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(b,) number of (positive, negative) pairs in the right order, ties counted half, and of all pairs."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    counts, positive = weights[:, order], positive[..., order]
    of_positive = np.add.reduceat(counts * positive, starts, axis=1)
    of_negative = np.add.reduceat(counts * ~positive, starts, axis=1)
    below = np.cumsum(of_negative, axis=1) - of_negative / 2
    return (of_positive * below).sum(1), of_positive.sum(1) * of_negative.sum(1)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Quotient, NaN where the divisor is 0."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0)


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis of what is not NaN; NaN where nothing is."""
    there = ~np.isnan(values)
    return _ratio(np.where(there, values, 0).sum(-1), there.sum(-1))
