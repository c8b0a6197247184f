"""Decision curves: what acting on a probability is worth, as a figure and in the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cignn.evaluation.decisions import decision_curve
from cignn.report.performance import scored_of
from cignn.report.style import COLUMN, DASHES, PALETTE, QUIET, house_style, need_columns, new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cignn.report.report_data import ReportData

SHOWN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)  # thresholds of the report's table


def draw_decision_curves(
    curves: pd.DataFrame,
    *,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the net benefit of each method against the threshold, beside acting on all and on none.

    Parameters
    ----------
    curves : DataFrame
        Rows of `decision_curve`, or of `decision_curves` with a column method.
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
    >>> import numpy as np
    >>> from cignn.evaluation import decision_curve
    >>> from cignn.report import draw_decision_curves
    >>> p = np.array([0.1, 0.2, 0.8, 0.9])
    >>> figure = draw_decision_curves(decision_curve([0, 0, 1, 1], np.stack([1 - p, p], 1), [0, 1]))
    >>> len(figure.axes)
    1
    """
    need_columns(curves, ["threshold", "net_benefit", "treat_all"], "the table of curves")
    table = curves if "method" in curves else curves.assign(method="")
    with house_style():
        figure = new_figure(width, width * 0.75)
        ax = figure.add_subplot()
        for i, (name, one) in enumerate(table.groupby("method", sort=False)):
            look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": DASHES[i % len(DASHES)]}
            ax.plot(one["threshold"], one["net_benefit"], lw=1.2, label=str(name) or "the classifier", **look)
        reference = table.groupby("threshold")["treat_all"].mean()
        ax.plot(reference.index, reference, color=QUIET, lw=0.9, ls="-", label="act on all")
        ax.axhline(0, color=QUIET, lw=0.9, ls=":", label="act on none")
        top = max(float(table["net_benefit"].max()), float(reference.max()), 0.01)
        ax.set(xlabel="threshold probability", ylabel="net benefit", xlim=(0, 1))
        ax.set_ylim(-0.25 * top, 1.08 * top)
        ax.legend(loc="upper right")
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


class DecisionView(NamedTuple):
    """The decision curve as the page shows it: lines in a chart of 240 × 240, ticks, rows and a sentence."""

    model: str
    every: str
    zero: float
    ticks: list[tuple[float, str]]
    rows: list[tuple[float, float, float]]
    words: str


def decision_view(data: ReportData) -> DecisionView | None:
    """Return the decision curve of the predictions that are scored; None for other than two classes."""
    scored = scored_of(data)
    if scored is None or scored.coded.probabilities is None or len(scored.coded.labels) != 2:
        return None
    coded = scored.coded
    if len(np.unique(coded.truth)) < 2:
        return None
    assert coded.probabilities is not None
    curve = decision_curve(coded.truth, coded.probabilities, np.array([0, 1]), positive=1)
    top = max(float(curve[["net_benefit", "treat_all"]].max(axis=None)), 0.01)
    low = -0.25 * top

    def height(value: float) -> float:
        return 250 - 240 * (value - low) / (top - low)

    def line(name: str) -> str:
        inside = curve[curve[name] >= low]
        pairs = zip(inside["threshold"], inside[name], strict=True)
        return " ".join(f"{40 + 240 * t:.1f},{height(h):.1f}" for t, h in pairs)

    ticks = [(round(height(v), 1), f"{v:.2f}") for v in (0.0, top / 2, top)]
    wanted = curve[curve["threshold"].round(2).isin(SHOWN)]
    rows = list(wanted[["threshold", "net_benefit", "treat_all"]].itertuples(index=False, name=None))
    return DecisionView(line("net_benefit"), line("treat_all"), height(0.0), ticks, rows, _words(curve))


def _words(curve: pd.DataFrame) -> str:
    """Say at which thresholds the model is worth more than acting on all or on none."""
    better = curve["net_benefit"] > np.maximum(curve["treat_all"], 0) + 1e-9
    if not better.any():
        return "At no threshold is the model worth more than acting on everybody or on nobody."
    runs = better.ne(better.shift()).cumsum()[better]
    longest = runs.value_counts().idxmax()
    where = curve.loc[runs.index[runs == longest], "threshold"]
    low, high = where.min(), where.max()
    span = f"thresholds from {low:.2f} to {high:.2f}" if high > low else f"the threshold {low:.2f}"
    return f"The model is worth more than acting on everybody or on nobody at {span}."
