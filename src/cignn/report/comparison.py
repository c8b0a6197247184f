"""Scores side by side: ablation, sensitivity, sites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cignn.report.curves import wilson
from cignn.report.style import (
    COLUMN,
    INK,
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


HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----")


def draw_ablation(
    results: pd.DataFrame,
    *,
    variant: str = "method",
    panel: str = "data",
    value: str = "value",
    label: str = "accuracy",
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw a group of bars per data set and a bar per variant: the mean, its standard deviation, each run.

    Parameters
    ----------
    results : DataFrame
        A row per run with the columns ``variant``, ``value`` and, where there are several data sets,
        ``panel``, such as `evaluate`'s rows of one metric. Bars have the order of the rows.
    variant : str, default="method"
        Column that names the variants.
    panel : str, default="data"
        Column that names the data sets.
    value : str, default="value"
        Column of the scores.
    label : str, default="accuracy"
        What the scores are.
    width : float, default=7.2
        Width in inches.
    path : str, Path or None, default=None
        File to write, its ending the format.

    Returns
    -------
    Figure
        The figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.report import draw_ablation
    >>> runs = pd.DataFrame({"method": ["full", "full", "no HSIC", "no HSIC"], "value": [0.9, 0.8, 0.7, 0.6]})
    >>> len(draw_ablation(runs).axes[0].patches)
    2
    """
    return _draw_bars(results, panel, variant, value, label, None, width, path)


def draw_sensitivity(
    results: pd.DataFrame,
    *,
    setting: str = "setting",
    by: str = "data",
    value: str = "value",
    label: str = "accuracy",
    setting_label: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw a group of bars per value of a setting and a bar per data set: mean, standard deviation, runs.

    Parameters
    ----------
    results : DataFrame
        A row per run with the columns ``setting``, ``value`` and, where there are several data sets, ``by``.
    setting : str, default="setting"
        Column of the setting's values.
    by : str, default="data"
        Column that names the data sets.
    value : str, default="value"
        Column of the scores.
    label : str, default="accuracy"
        What the scores are.
    setting_label : str or None, default=None
        Name of the setting on the axis, by default that of the column.
    width : float, default=3.5
        Width in inches.
    path : str, Path or None, default=None
        File to write, its ending the format.

    Returns
    -------
    Figure
        The figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.report import draw_sensitivity
    >>> runs = pd.DataFrame({"dropout": [0.5, 0.0], "data": "MUTAG", "value": [0.8, 0.7]})
    >>> figure = draw_sensitivity(runs, setting="dropout")
    >>> [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    ['0.0', '0.5']
    """
    if isinstance(results, pd.DataFrame) and setting in results and setting != by:
        results = results.sort_values(setting, kind="stable")
    name = readable(setting) if setting_label is None else setting_label
    return _draw_bars(results, setting, by, value, label, name, width, path)


def draw_sites(
    results: pd.DataFrame,
    *,
    site: str = "site",
    value: str = "value",
    chance: float | None = 0.5,
    label: str = "accuracy",
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the score at every site, best first, with its mean over sites.

    Parameters
    ----------
    results : DataFrame
        A row per site, or per run of it, with the columns ``site`` and ``value``. Where there is a column
        "n", the subjects at the site, points have Wilson's 95 % interval, which fits an accuracy. Where there
        is a column "method", methods are drawn side by side, and the first one sorts the sites.
    site : str, default="site"
        Column that names the sites.
    value : str, default="value"
        Column of the scores.
    chance : float or None, default=0.5
        Where to draw the line of chance.
    label : str, default="accuracy"
        What the scores are.
    title : str or None, default=None
        Title of the figure.
    width : float, default=3.5
        Width in inches.
    path : str, Path or None, default=None
        File to write, its ending the format.

    Returns
    -------
    Figure
        The figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.report import draw_sites
    >>> figure = draw_sites(pd.DataFrame({"site": ["NYU", "UCLA"], "value": [0.8, 0.6], "n": [40, 30]}))
    >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    ['UCLA  (30)', 'NYU  (40)']
    """
    need_columns(results, [site, value], "the table of sites")
    results = results.assign(method=results.get("method", ""))
    methods = list(pd.unique(results["method"]))
    means = results.pivot_table(index=site, columns="method", values=value, aggfunc="mean")[methods]
    means = means.sort_values(methods[0], kind="stable")
    sizes = results.groupby(site)["n"].max() if "n" in results else None
    rows, offsets = np.arange(len(means)), (np.arange(len(methods)) - (len(methods) - 1) / 2) * 0.22
    with house_style():
        figure = new_figure(
            width, 0.75 + (0.14 + 0.05 * (len(methods) - 1)) * len(means) + (0.2 if title else 0)
        )
        ax = figure.add_subplot(label="sites")
        if chance is not None:
            _draw_chance(ax, chance)
        for i, (method, offset) in enumerate(zip(methods, offsets, strict=True)):
            n = None if sizes is None else sizes.loc[means.index].to_numpy(float)
            _draw_site_scores(ax, means[method].to_numpy(float), rows - offset, n, str(method), i)
        names = [str(name) if sizes is None else f"{name}  ({int(sizes[name])})" for name in means.index]
        ax.set_yticks(rows, names)
        ax.set_ylim(-0.6, len(means) - 0.4)
        ax.set_xlabel(label)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", color=RULE, lw=0.3)
        ax.set_axisbelow(True)
        if len(methods) > 1 or methods[0]:
            figure.legend(loc="outside lower center", ncol=min(len(methods), 2))
        if title:
            ax.set_title(title, loc="left", weight="bold", pad=10)
        return save(figure, path)


# ----------------------------------------------------------------------------- parts


def _draw_chance(ax: Axes, chance: float) -> None:
    ax.axvline(chance, color=QUIET, lw=0.7, ls=":", gid="chance")
    above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 6, "color": QUIET}
    ax.annotate("chance", (chance, 1), xytext=(0, 1), **above, **look)


def _draw_site_scores(
    ax: Axes, scores: np.ndarray, rows: np.ndarray, n: np.ndarray | None, method: str, i: int
) -> None:
    """Points of one method, with their intervals where the (sites,) numbers of subjects are known."""
    colour, mean = PALETTE[i % len(PALETTE)], np.nanmean(scores)
    if n is not None:
        ends = wilson(np.clip(scores, 0, 1), n)
        ax.hlines(rows, ends.low, ends.high, color=colour, lw=0.7, label="_interval")
    look: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], "ms": 3.6, "mec": "white", "mew": 0.3}
    name = f"{method}  (mean {mean:.3f})" if method else None
    ax.plot(scores, rows, ls="", color=colour, label=name, **look)
    ax.axvline(mean, color=colour, lw=0.8, ls="--", zorder=0, gid="mean")


def _draw_bars(
    results: pd.DataFrame,
    group: str,
    bar: str,
    value: str,
    label: str,
    group_label: str | None,
    width: float,
    path: str | Path | None,
) -> Figure:
    """Groups of bars: the mean over rows, the standard deviation, a dot for every row."""
    what = "the table of results"
    if isinstance(results, pd.DataFrame):  # one bar a group, or one group, where a column is not there
        missing = bar if group_label is not None else group
        if missing not in results:
            results = results.assign(**{missing: ""})
    need_columns(results, [group, bar, value], what)
    groups, bars = list(pd.unique(results[group])), list(pd.unique(results[bar]))
    cells = {key: table[value].to_numpy(float) for key, table in results.groupby([group, bar], sort=False)}
    thick = 0.8 / len(bars)
    with house_style():
        figure = new_figure(width, 2.1)
        ax = figure.add_subplot(label="bars")
        for j, name in enumerate(bars):
            place, runs = _bar_places(cells, groups, name, j, len(bars), thick)
            means = [run.mean() for run in runs]
            look: dict[str, Any] = {"facecolor": PALETTE[j % len(PALETTE)], "edgecolor": "white"}
            look |= {"linewidth": 0, "hatch": HATCHES[j % len(HATCHES)], "label": str(name)}
            for patch in ax.bar(place, means, thick * 0.92, **look):
                patch.set_gid(str(name))
            spread = [_spread(run) for run in runs]
            ax.errorbar(place, means, yerr=spread, fmt="none", ecolor=INK, elinewidth=0.7, capsize=1.8)
            _draw_runs(ax, place, runs, thick)
        low = min(run.min() for run in cells.values())
        high = max(max(run.max(), run.mean() + _spread(run)) for run in cells.values())
        ax.set_ylim(min(0.0, low), high + 0.05 * (high - min(0.0, low)))
        ax.set_xticks(range(len(groups)), [str(name) for name in groups])
        ax.tick_params(axis="x", length=0)
        ax.set_ylabel(label)
        if group_label:
            ax.set_xlabel(group_label)
        if len(bars) > 1:
            figure.legend(loc="outside upper center", ncol=min(len(bars), 5 if width > 5 else 2))
        return save(figure, path)


def _bar_places(
    cells: dict[Any, np.ndarray], groups: Sequence[Any], name: Any, j: int, n_bars: int, thick: float
) -> tuple[list[float], list[np.ndarray]]:
    have = [i for i, group in enumerate(groups) if (group, name) in cells]
    return [i + (j - (n_bars - 1) / 2) * thick for i in have], [cells[groups[i], name] for i in have]


def _draw_runs(ax: Axes, place: list[float], runs: list[np.ndarray], thick: float) -> None:
    for x, run in zip(place, runs, strict=True):
        if len(run) > 1:
            across = x + np.linspace(-0.25, 0.25, len(run)) * thick
            ax.plot(
                across, run, ls="", marker="o", ms=1.8, mfc="white", mec=INK, mew=0.4, zorder=3, gid="runs"
            )


def _spread(run: np.ndarray) -> float:
    return float(run.std(ddof=1)) if len(run) > 1 else 0.0
