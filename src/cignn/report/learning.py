"""Learning curves: the score with the number of subjects, as a figure and in the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cignn.report.performance import NAMES, Score
from cignn.report.style import (
    COLUMN,
    DASHES,
    MARKERS,
    PALETTE,
    QUIET,
    house_style,
    need_columns,
    new_figure,
    save,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDED = ["method", "metric", "n", "value", "low", "high", "kind"]


def draw_learning_curve(
    curve: pd.DataFrame,
    *,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw scores against the number of subjects learnt from, with intervals and fitted power laws.

    Beyond the largest number measured, the power law is dashed and its interval shaded. The dotted line is
    what guessing scores.

    Parameters
    ----------
    curve : DataFrame
        What `LearningCurve.to_frame` returns; of one metric.
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
    >>> from cignn.report import draw_learning_curve
    >>> columns = {"method": "lasso", "metric": "roc_auc", "n": [20, 40, 80], "value": [0.55, 0.6, 0.63]}
    >>> curve = pd.DataFrame(columns | {"low": 0.5, "high": 0.7, "kind": "measured", "chance": 0.5})
    >>> len(draw_learning_curve(curve).axes)
    1
    """
    need_columns(curve, NEEDED, "the table of the curve")
    metrics = curve["metric"].unique().tolist()
    if len(metrics) != 1:
        raise ValueError(f"a learning curve is of one metric, the table has {', '.join(map(str, metrics))}.")
    with house_style():
        figure = new_figure(width, width * 0.78)
        ax = figure.add_subplot()
        for i, (name, some) in enumerate(curve.groupby("method", sort=False)):
            _draw_method(ax, str(name), some, i)
        chance = curve["chance"].dropna() if "chance" in curve else pd.Series(dtype=float)
        if len(chance):
            ax.axhline(float(chance.iloc[0]), color=QUIET, lw=0.9, ls=":", label="guessing")
        ax.set_xscale("log")
        ticks = _ticks(float(curve["n"].min()), float(curve["n"].max()))
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set(xlabel="subjects to learn from", ylabel=NAMES.get(metrics[0], metrics[0]))
        ax.legend(loc="best")
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def _draw_method(ax: Any, name: str, some: pd.DataFrame, i: int) -> None:
    """Draw one method: points with intervals, and its power law."""
    colour = PALETTE[i % len(PALETTE)]
    measured, fitted = some[some["kind"] == "measured"], some[some["kind"] == "fitted"]
    bars = np.stack([measured["value"] - measured["low"], measured["high"] - measured["value"]])
    ax.errorbar(
        measured["n"] * (1 + 0.02 * i),  # intervals of several methods side by side
        measured["value"],
        yerr=np.nan_to_num(bars),
        color=colour,
        ls="none" if len(fitted) else DASHES[i % len(DASHES)],
        marker=MARKERS[i % len(MARKERS)],
        ms=3.5,
        elinewidth=0.7,
        capsize=1.5,
        label=name,
    )
    if not len(fitted):
        return
    last = measured["n"].max()
    inside, beyond = fitted[fitted["n"] <= last], fitted[fitted["n"] >= last]
    ax.plot(inside["n"], inside["value"], color=colour, lw=1.1)
    ax.plot(beyond["n"], beyond["value"], color=colour, lw=1.1, ls="--")
    ax.fill_between(beyond["n"], beyond["low"], beyond["high"], color=colour, alpha=0.12, lw=0)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the ends: 10, 20, 50, 100 and so on."""
    every = [k * 10.0**power for power in range(7) for k in (1, 2, 5)]
    return [tick for tick in every if low * 0.9 <= tick <= high * 1.1] or [round(low), round(high)]


class LearningView(NamedTuple):
    """A learning curve as the page shows it."""

    metric: str
    methods: list[str]
    rows: list[tuple[int, list[Score]]]  # by number of subjects
    words: list[tuple[str, str]]
    picture: str


def learning_view(curve: pd.DataFrame | None) -> LearningView | None:
    """Return what the template reads of a learning curve; None without one."""
    if curve is None or not len(curve):
        return None
    import base64
    import io

    measured = curve[curve["kind"] == "measured"]
    methods = measured["method"].unique()
    rows = []
    for n, some in measured.assign(n=measured["n"].round().astype(int)).groupby("n"):
        by_method = some.set_index("method")[["value", "low", "high"]].reindex(methods)
        rows.append((int(n), [Score(*map(float, row)) for row in by_method.to_numpy()]))
    told = measured.drop_duplicates("method") if "words" in measured else measured.head(0)
    words = [(str(row["method"]), str(row["words"])) for _, row in told.iterrows()]
    kept = io.BytesIO()
    draw_learning_curve(curve, width=COLUMN).savefig(kept, format="png", dpi=220)
    picture = base64.b64encode(kept.getvalue()).decode()
    metric = str(measured["metric"].iloc[0])
    return LearningView(NAMES.get(metric, metric), [str(name) for name in methods], rows, words, picture)
