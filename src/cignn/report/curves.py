"""Curves of explanations and of calibration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cignn.evaluation.classification import calibration_curve
from cignn.evaluation.faithfulness import ExplanationCurve, RemovalCurve
from cignn.report.style import (
    COLUMN,
    DASHES,
    MARKERS,
    PALETTE,
    QUIET,
    RULE,
    house_style,
    need_columns,
    new_figure,
    save,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Interval(NamedTuple):
    """Lower and upper ends of intervals, arrays of the same shape."""

    low: np.ndarray
    high: np.ndarray


class Calibration(NamedTuple):
    """Observed frequencies of predicted probabilities.

    bins : a row per non-empty bin: predicted, the mean probability; observed, the share of y = 1; low and
    high, its 95 % Wilson interval; n. error : the expected calibration error, the mean of
    |observed − predicted| over subjects.
    """

    bins: pd.DataFrame
    error: float


def draw_explanation_curves(
    curves: pd.DataFrame | Mapping[str, ExplanationCurve],
    *,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw how often the predicted class stays when only the share μ of top edges is kept.

    Parameters
    ----------
    curves : DataFrame or mapping of str to ExplanationCurve
        A curve per method; or a table with the columns method, share and accuracy, whose repetitions (seeds,
        folds) give mean and standard deviation. Methods are listed by area, largest first.
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
    >>> from cignn.report import draw_explanation_curves
    >>> curves = pd.DataFrame({"method": "CI-GNN", "share": [0.1, 0.5, 1.0], "accuracy": [0.7, 0.9, 1.0]})
    >>> figure = draw_explanation_curves(curves)
    >>> len(figure.axes)
    1
    """
    if isinstance(curves, Mapping):
        parts = [
            pd.DataFrame({"method": str(name), "share": curve.shares, "accuracy": curve.accuracy})
            for name, curve in curves.items()
        ]
        curves = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    need_columns(curves, ["method", "share", "accuracy"], "the table of curves")
    lines = {
        str(name): table.groupby("share")["accuracy"].agg(["mean", "std"])
        for name, table in curves.groupby("method", sort=False)
    }
    areas = {name: _area(line) for name, line in lines.items()}
    looks = {name: i for i, name in enumerate(lines)}
    with house_style():
        figure = new_figure(width, min(width * 0.75, 3.6))
        ax = figure.add_subplot()
        for name in sorted(lines, key=lambda name: -areas[name]):
            line, i = lines[name], looks[name]
            colour = PALETTE[i % len(PALETTE)]
            ax.plot(
                line.index,
                line["mean"],
                color=colour,
                ls=DASHES[i % len(DASHES)],
                ms=3.2,
                lw=1.1,
                marker=MARKERS[i % len(MARKERS)],
                mew=0.4,
                mec="white",
                label=f"{name}  ({areas[name]:.2f})",
            )
            if line["std"].notna().any():
                low, high = line["mean"] - line["std"], line["mean"] + line["std"]
                ax.fill_between(line.index, low, high.clip(upper=1), color=colour, alpha=0.15, lw=0)
        ax.set(xlabel="share of edges kept, μ", ylabel="class unchanged")
        ax.set_ylim(top=1.02)
        ax.legend(
            title="area under the curve",
            title_fontsize=6.5,
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            handlelength=2.6,
            alignment="left",
        )
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def draw_removal_curve(
    curve: RemovalCurve, *, title: str | None = None, width: float = COLUMN, path: str | Path | None = None
) -> Figure:
    """Draw the decision after edges were removed: the top edges, and as many random ones.

    Parameters
    ----------
    curve : RemovalCurve
        Result of `cignn.evaluation.removal_curve`.
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
    >>> from cignn.evaluation import RemovalCurve
    >>> from cignn.report import draw_removal_curve
    >>> curve = RemovalCurve(np.array([0.0, 0.5]), *np.array([[1, 0.5], [0.9, 0.5], [1, 0.9], [0.9, 0.8]]))
    >>> figure = draw_removal_curve(curve)
    >>> len(figure.axes)
    2
    """
    with house_style():
        figure = new_figure(width, width * 0.5)
        left, right = figure.subplots(1, 2, sharex=True)
        for ax, random, top, name in (
            (left, curve.random_accuracy, curve.accuracy, "class unchanged"),
            (right, curve.random_probability, curve.probability, "probability of the class"),
        ):
            ax.plot(
                curve.shares, random, color=QUIET, ls="--", marker="s", ms=2.6, lw=1, label="random edges"
            )
            ax.plot(curve.shares, top, color=PALETTE[5], marker="o", ms=3, lw=1.2, label="top edges first")
            ax.set_title(name, fontsize=7, loc="left")
            ax.set_xlabel("share of edges removed")
            ax.set_ylim(-0.03, 1.03)
        left.legend(loc="lower left")
        if title:
            figure.suptitle(title, weight="bold", x=0.02, ha="left")
        return save(figure, path)


def draw_calibration(
    predictions: pd.DataFrame,
    *,
    n_bins: int = 10,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the calibration of each method: observed frequency against predicted probability.

    The legend shows the expected calibration error; below is a histogram of the probabilities.

    Parameters
    ----------
    predictions : DataFrame
        A row per subject with the columns y (1 or True for the class of the probability), probability and,
        for several methods, method.
    n_bins : int, default=10
        Number of bins of equal width; empty ones have no point.
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
    >>> from cignn.report import draw_calibration
    >>> predictions = pd.DataFrame({"y": [0, 0, 1, 1], "probability": [0.1, 0.4, 0.6, 0.9]})
    >>> figure = draw_calibration(predictions)
    >>> len(figure.axes)
    2
    """
    predictions = _checked_predictions(predictions, n_bins)
    with house_style():
        figure = new_figure(width, width * 1.05)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
        upper.plot([0, 1], [0, 1], color=RULE, lw=1, zorder=0, label="perfect")
        for i, (name, table) in enumerate(predictions.groupby("method", sort=False)):
            bins, error = calibration(
                table["y"].to_numpy(float), table["probability"].to_numpy(float), n_bins
            )
            look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": DASHES[i % len(DASHES)]}
            text = f"{name}, error {error:.3f}" if name else f"error {error:.3f}"
            bar = np.stack([bins["observed"] - bins["low"], bins["high"] - bins["observed"]])
            upper.errorbar(
                bins["predicted"],
                bins["observed"],
                yerr=bar,
                marker=MARKERS[i % len(MARKERS)],
                ms=3.5,
                lw=1.1,
                elinewidth=0.6,
                capsize=1.5,
                label=text,
                **look,
            )
            counts, edges = np.histogram(table["probability"], bins=n_bins, range=(0, 1))
            lower.stairs(counts, edges, lw=1.1, **look)
        upper.set(ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        upper.legend(loc="upper left")
        lower.set(xlabel="predicted probability", ylabel="subjects")
        if title:
            upper.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def _checked_predictions(predictions: pd.DataFrame, n_bins: int) -> pd.DataFrame:
    """The table with a column method; refuse labels, probabilities and bins out of range."""
    need_columns(predictions, ["y", "probability"], "the table of predictions")
    y, p = predictions["y"], predictions["probability"].to_numpy(float)
    if not set(pd.unique(y)) <= {0, 1}:
        raise ValueError(
            f"y must hold 0 and 1 (or False and True), got {', '.join(map(str, pd.unique(y)[:5]))}."
        )
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"probability must lie in [0, 1], got {np.nanmin(p):g} to {np.nanmax(p):g}.")
    if n_bins < 2:
        raise ValueError(f"n_bins must be at least 2, got {n_bins}.")
    return predictions if "method" in predictions else predictions.assign(method="")


def calibration(y: np.ndarray, probability: np.ndarray, n_bins: int = 10) -> Calibration:
    """Compare (n,) probabilities with (n,) labels 0 and 1, in bins of equal width."""
    chances = np.stack([1 - probability, probability], axis=1)
    table = calibration_curve(y.astype(int), chances, np.array([0, 1]), n_bins)
    table = table.rename(columns={"probability": "predicted", "frequency": "observed", "count": "n"})
    interval = wilson(table["observed"].to_numpy(), table["n"].to_numpy())
    table["low"], table["high"] = interval.low, interval.high
    error = (table["n"] * (table["observed"] - table["predicted"]).abs()).sum() / len(y)
    return Calibration(table.reset_index(drop=True), float(error))


def wilson(share: np.ndarray, n: np.ndarray, z: float = 1.959964) -> Interval:
    """Wilson's interval of shares out of n, by default at 95 %."""
    n = np.asarray(n, float)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Interval(np.minimum(middle - half, share), np.maximum(middle + half, share))


def _area(line: pd.DataFrame) -> float:
    """Area under the mean, divided by the range of shares."""
    shares, height = line.index.to_numpy(float), line["mean"].to_numpy(float)
    if len(shares) < 2:
        return float(height.mean())
    return float((height[1:] + height[:-1]) / 2 @ np.diff(shares) / (shares[-1] - shares[0]))
