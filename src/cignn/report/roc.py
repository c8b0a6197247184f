"""ROC curves and confusion matrices of out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cignn.evaluation.classification import Coded
from cignn.evaluation.resampling import Part, prediction_parts
from cignn.evaluation.statistics import corrected_interval
from cignn.report.performance import MIN_TASKS, Score
from cignn.report.style import (
    COLUMN,
    DASHES,
    INK,
    PALETTE,
    RULE,
    cell_colours,
    house_style,
    new_figure,
    save,
    text_on,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID = np.linspace(0, 1, 101)  # false positive rates at which curves are averaged


class RocCurve(NamedTuple):
    """The mean ROC curve of a class against the others over test sets.

    sensitivity, low, high : (101,) at the false positive rates of `GRID`, the ends of the 95 % interval over
    test sets; NaN with fewer than three. area : mean area under the curves with its interval. tests : number
    of test sets with both classes; left_out : of those without.
    """

    label: Any
    sensitivity: np.ndarray
    low: np.ndarray
    high: np.ndarray
    area: Score
    tests: int
    left_out: int


class Confusion(NamedTuple):
    """Counts of predictions, (k, k), true classes in rows; repeats : how often each scan was predicted."""

    labels: np.ndarray
    counts: np.ndarray
    repeats: float

    @property
    def shares(self) -> np.ndarray:
        """(k, k) shares of each true class, NaN where it does not occur."""
        total = self.counts.sum(1, keepdims=True).astype(float)
        return np.divide(self.counts, total, out=np.full(self.counts.shape, np.nan), where=total > 0)


def roc_curves(parts: Sequence[Part]) -> list[RocCurve]:
    """Mean ROC curves over test sets: of two classes the second, of more each against the others.

    Curves are averaged vertically. The interval of the mean is Student's, with the variance corrected for
    overlapping training sets (Nadeau and Bengio 2003). Without probabilities there are none.
    """
    if not parts or any(part.coded.probabilities is None for part in parts):
        return []
    labels = parts[0].coded.labels
    numbers = [1] if len(labels) == 2 else range(len(labels))
    found = [_mean_curve(parts, number, labels[number]) for number in numbers]
    return [curve for curve in found if curve is not None]


def _mean_curve(parts: Sequence[Part], number: int, label: Any) -> RocCurve | None:
    from sklearn.metrics import auc, roc_curve

    curves, areas = [], []
    for part in parts:
        assert part.coded.probabilities is not None
        truth = part.coded.truth == number
        if truth.all() or not truth.any():
            continue
        false, true, _ = roc_curve(truth, part.coded.probabilities[:, number], drop_intermediate=False)
        heights = np.interp(GRID, false, true)
        heights[0] = 0.0
        curves.append(heights)
        areas.append(auc(false, true))
    if not curves:
        return None
    heights, values = np.stack(curves), np.array(areas)
    low = high = np.full(len(GRID), np.nan)
    area = Score(float(values.mean()))
    if len(curves) >= MIN_TASKS:
        overlap = _overlap(parts)
        ends = np.array([corrected_interval(column, overlap) for column in heights.T]).clip(0, 1)
        low, high = ends.T
        area = Score(float(values.mean()), *np.clip(corrected_interval(values, overlap), 0, 1).tolist())
    return RocCurve(label, heights.mean(0), low, high, area, len(curves), len(parts) - len(curves))


def _overlap(parts: Sequence[Part]) -> float:
    """Test scans per training scan, where all scans that were tested once are trained on otherwise."""
    total = len(np.unique(np.concatenate([part.scan for part in parts])))
    tested = float(np.mean([len(part.scan) for part in parts]))
    return tested / (total - tested) if total > tested else 1.0


def confusion_of(parts: Sequence[Part], scans: int) -> Confusion:
    """Count the predictions of all test sets; scans : how many different ones there are."""
    coded = [part.coded for part in parts if isinstance(part.coded, Coded)]
    if len(coded) < len(parts):
        raise ValueError("a confusion matrix is of predicted classes, these are scores.")
    labels = coded[0].labels
    counts = np.zeros((len(labels),) * 2, int)
    for one in coded:
        np.add.at(counts, (one.truth, one.predicted), 1)
    return Confusion(labels, counts, counts.sum() / max(scans, 1))


def draw_roc(
    predictions: pd.DataFrame,
    *,
    positive: Any = None,
    class_names: Mapping[Any, str] | None = None,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the mean ROC curve of every method over its test sets, with the 95 % interval over test sets.

    Curves are averaged vertically; the interval is Student's with the variance corrected for overlapping
    training sets. Test sets with one class have no curve. Of more than two classes each is drawn against the
    others, for a single method.

    Parameters
    ----------
    predictions : DataFrame
        Rows of `Store.predictions` with probabilities.
    positive : object, default=None
        The positive class of two; see `positive_class`.
    class_names : mapping of object to str, default=None
        Names of the labels.
    title : str, default=None
        Title of the figure.
    width : float, default=3.5
        Width of the figure in inches.
    path : str or Path, default=None
        File to save to: .pdf, .svg, .png and so on, or without an ending for .pdf and .png.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.report import draw_roc
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "kfold", "split": list("112233"), "seed": 0}
    >>> columns |= {"subject": list("abcdef"), "y_true": [0, 1] * 3, "y_pred": [0, 1, 0, 1, 1, 1]}
    >>> predictions = pd.DataFrame(columns | {"p_0": [0.9, 0.2, 0.8, 0.1, 0.4, 0.3]})
    >>> figure = draw_roc(predictions.assign(p_1=1 - predictions["p_0"]))
    >>> len(figure.axes)
    1
    """
    drawn = [
        (names[0], curve)
        for names, parts in _named_parts(predictions, positive)
        for curve in roc_curves(parts)
    ]
    if not drawn:
        raise ValueError("no ROC curve: no method has probabilities and a test set with both classes.")
    several = len({method for method, _ in drawn}) > 1
    if several and len({str(curve.label) for _, curve in drawn}) > 1:
        raise ValueError("with more than two classes, pass the predictions of one method.")
    named = dict(class_names or {})
    with house_style():
        figure = new_figure(width, width)
        ax = figure.add_subplot()
        ax.plot([0, 1], [0, 1], color=RULE, lw=1, zorder=0, label="guessing")
        for i, (method, curve) in enumerate(drawn):
            colour = PALETTE[i % len(PALETTE)]
            called = method if several else str(named.get(curve.label, curve.label))
            label = f"{called}, area {curve.area}"
            heights = np.concatenate([[0.0], curve.sensitivity])
            ax.plot([0.0, *GRID], heights, color=colour, ls=DASHES[i % len(DASHES)], label=label)
            if not np.isnan(curve.low).all():
                ax.fill_between(GRID, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
        ax.set(xlabel="1 − specificity", ylabel="sensitivity", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_aspect("equal")
        ax.legend(loc="lower right")
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def draw_confusion(
    predictions: pd.DataFrame,
    *,
    positive: Any = None,
    class_names: Mapping[Any, str] | None = None,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the confusion matrix of one method: shares of each true class, and numbers of predictions.

    Parameters
    ----------
    predictions : DataFrame
        Rows of `Store.predictions` of one method.
    positive : object, default=None
        The positive class of two, which comes last; see `positive_class`.
    class_names : mapping of object to str, default=None
        Names of the labels.
    title : str, default=None
        Title of the figure.
    width : float, default=3.5
        Width of the figure in inches.
    path : str or Path, default=None
        File to save to: .pdf, .svg, .png and so on, or without an ending for .pdf and .png.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.report import draw_confusion
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "holdout", "split": "1", "seed": 0}
    >>> columns |= {"subject": list("abcd"), "y_true": [0, 0, 1, 1], "y_pred": [0, 1, 1, 1]}
    >>> figure = draw_confusion(pd.DataFrame(columns))
    >>> len(figure.axes)
    1
    """
    methods = list(_named_parts(predictions, positive))
    if len(methods) != 1:
        found = ", ".join(str(names[0]) for names, _ in methods)
        raise ValueError(f"a confusion matrix is of one method on one data set, got {found}.")
    parts = methods[0][1]
    scans = len(np.unique(np.concatenate([part.scan for part in parts])))
    found_matrix = confusion_of(parts, scans)
    named = dict(class_names or {})
    names = [str(named.get(label, label)) for label in found_matrix.labels.tolist()]
    colours, shares = cell_colours(), found_matrix.shares
    with house_style():
        figure = new_figure(width, width * 0.9)
        ax = figure.add_subplot()
        ax.imshow(np.nan_to_num(shares), cmap=colours, vmin=0, vmax=1)
        for (row, column), share in np.ndenumerate(shares):
            text = "–" if np.isnan(share) else f"{100 * share:.0f} %\n{found_matrix.counts[row, column]}"
            shade = text_on(colours(np.nan_to_num(share)))
            ax.text(column, row, text, ha="center", va="center", color=shade)
        turned = max(map(len, names)) > 12
        ticks = range(len(names))
        ax.set_xticks(ticks, [_wrapped(name) for name in names], rotation=0 if not turned else 20)
        ax.set_yticks(ticks, [_wrapped(name) for name in names])
        ax.set(xlabel="predicted", ylabel="true")
        ax.tick_params(length=0, colors=INK)
        ax.spines[:].set_visible(False)
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def _wrapped(name: str, width: int = 16) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(name, width, break_long_words=False)) or name


def _named_parts(predictions: pd.DataFrame, positive: Any) -> list[tuple[tuple, list[Part]]]:
    return [(names, parts) for names, parts, _ in prediction_parts(predictions, positive)]
