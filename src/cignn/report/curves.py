"""Curves of trainings, of explanations and of calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    PAGE,
    PALETTE,
    QUIET,
    RULE,
    house_style,
    need_columns,
    new_figure,
    readable,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


NOT_TERMS = ("epoch", "stage", "seconds", "member")
TERM_NAMES = {
    "kl": "KL divergence",
    "independence": "independence  I(α; β)",
    "causal": "causal term  −I(α; Y | β)",
    "hsic": "HSIC(α, β)",
    "features": "reconstruction of features",
    "adjacency": "reconstruction of edges",
    "loss": "sum of weighted terms",
    "edges": "sparsity of edges",
    "rest": "class from the other edges",
    "skipped_terms": "terms skipped in a step",
    "validation_loss": "validation cross-entropy",
    "validation_price": "validation sparsity",
}
VALIDATION = "validation_"


def draw_history(
    history: pd.DataFrame,
    best_epoch: int | Sequence[int] | None = None,
    *,
    columns: int | None = None,
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw a training: one panel per loss term and per validation score.

    Parameters
    ----------
    history : DataFrame
        ``classifier.history_``, one row per epoch: epoch, stage, every named term, validation_…. The members
        of an ensemble (column member) are drawn in the same panels.
    best_epoch : int or sequence of int, default=None
        ``classifier.best_epoch_``, the epoch whose weights were kept, which is marked; one per member of an
        ensemble.
    columns : int, default=None
        Panels in a row. By default as many as fit.
    width : float, default=7.2
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
    >>> from cignn.report import draw_history
    >>> history = pd.DataFrame({"epoch": [0, 1], "loss": [1.0, 0.5], "validation_accuracy": [0.6, 0.8]})
    >>> figure = draw_history(history, best_epoch=1)
    >>> len(figure.axes)
    2
    """
    from matplotlib.ticker import MaxNLocator

    panels = _history_panels(history)
    members = [table for _, table in history.groupby("member")] if "member" in history else [history]
    chosen = [] if best_epoch is None else np.atleast_1d(np.asarray(best_epoch)).astype(int).tolist()
    if len(chosen) not in (0, len(members)):
        raise ValueError(f"expected {len(members)} best epochs, one per member, got {len(chosen)}.")
    columns = max(1, int(width // 1.75)) if columns is None else columns
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with house_style():
        figure = new_figure(width, 1.35 * rows + 0.3)
        grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
        for ax in grid.flat[len(panels) :]:
            ax.remove()
        for i, (ax, name) in enumerate(zip(grid.flat, panels, strict=False)):
            ax.set_title(TERM_NAMES.get(str(name), readable(name)), loc="left", fontsize=7)
            for member, table in enumerate(members):
                seen = table[table[name].notna()]
                look: dict[str, Any] = {"color": PALETTE[member % len(PALETTE)], "lw": 0.9, "ms": 2.5}
                look["ls"] = DASHES[member // len(PALETTE) % len(DASHES)]
                look["marker"] = "o" if len(seen) == 1 else None  # a line needs two epochs
                ax.plot(seen["epoch"], seen[name], label=f"member {member}", **look)
                if chosen:
                    _mark(ax, seen, name, chosen[member], alone=len(members) == 1)
            _draw_stages(ax, members[0], first=i == 0)
            ax.margins(x=0.03, y=0.12)
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.yaxis.set_major_locator(MaxNLocator(4))
            ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}".replace("-", "−"))
            if i >= len(panels) - columns:
                ax.tick_params(labelbottom=True)
        kept = ", ".join(map(str, chosen))
        figure.supxlabel(f"epoch (kept: {kept})" if chosen else "epoch", fontsize=7)
        return save(figure, path)


def _history_panels(history: pd.DataFrame) -> list[str]:
    """Columns that are drawn: validation scores, then loss terms."""
    need_columns(history, ["epoch"], "the history")
    measured = history.select_dtypes("number").columns
    scores = [name for name in measured if str(name).startswith(VALIDATION)]
    terms = [name for name in measured if name not in NOT_TERMS and name not in scores]
    panels = [name for name in scores + terms if history[name].notna().any()]
    for name in ("validation_price", "skipped_terms"):  # 0 throughout for most classifiers
        if name in panels and not history[name].any():
            panels.remove(name)
    if not panels:
        raise ValueError(
            "the history has no loss term and no validation score; pass a classifier's history_."
        )
    return panels


def _mark(ax: Axes, seen: pd.DataFrame, name: str, epoch: int, alone: bool) -> None:
    """A line at the chosen epoch and a dot on the curve there, with its value in the title of a score."""
    if alone:
        ax.axvline(epoch, color=PALETTE[5], lw=0.8, ls="--", zorder=1).set_gid("chosen")
    value = seen.loc[seen["epoch"] == epoch, name]
    if value.empty:
        return
    ax.plot(epoch, value.iloc[0], "o", ms=3.5, mfc=PALETTE[5], mec="white", mew=0.5, zorder=4, gid="chosen")
    if alone and str(name).startswith(VALIDATION):
        ax.set_title(f"{ax.get_title(loc='left')}: {value.iloc[0]:.3g}", loc="left", fontsize=7)


def _draw_stages(ax: Axes, table: pd.DataFrame, first: bool) -> None:
    """A thin line where one stage of the training follows another; their names in the first panel."""
    if "stage" not in table or table["stage"].nunique() < 2:
        return
    begins = table.groupby("stage", sort=False)["epoch"].min()
    for stage, epoch in begins.items():
        if epoch > table["epoch"].min():
            ax.axvline(epoch - 0.5, color=QUIET, lw=0.5, zorder=0).set_gid("stage")
        if first:
            ax.text(
                epoch,
                0.02,
                f" {readable(stage)}",
                transform=ax.get_xaxis_transform(),
                fontsize=5.5,
                color=QUIET,
                va="bottom",
                ha="left",
            )
