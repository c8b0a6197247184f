"""Scores side by side: ablation, sensitivity, sites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cignn._arrays import above_diagonal, upper_pairs, upper_triangle
from cignn.evaluation.statistics import critical_difference
from cignn.report.curves import wilson
from cignn.report.style import (
    COLUMN,
    INK,
    MARKERS,
    PAGE,
    PALETTE,
    QUIET,
    RULE,
    cell_colours,
    house_style,
    need_columns,
    new_figure,
    readable,
    save,
    text_on,
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

    results : a row per run with the columns ``variant``, ``value`` and, where there are several data sets,
    ``panel`` (`evaluate`'s rows of one metric). Order is that of the rows. label : what the values are.
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

    results : a row per run with the columns ``setting``, ``value`` and, where there are several, ``by``.
    label, setting_label : what the values and the setting are.
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
    """Draw the score at every site, best first, with its mean over sites; one row per site.

    results : a row per site, or per run of it, with the columns ``site`` and ``value``; where known also n,
    the subjects there (then with Wilson's 95 % interval, which fits an accuracy), and method (up to a few,
    drawn side by side; the first sorts the sites). chance : where to draw the line of chance, or None.
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
            ax.axvline(chance, color=QUIET, lw=0.7, ls=":", gid="chance")
            ax.annotate(
                "chance",
                (chance, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 1),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6,
                color=QUIET,
            )
        for i, (method, offset) in enumerate(zip(methods, offsets, strict=True)):
            scores, colour = means[method].to_numpy(float), PALETTE[i % len(PALETTE)]
            if sizes is not None:
                ends = wilson(np.clip(scores, 0, 1), sizes.loc[means.index].to_numpy(float))
                ax.hlines(rows - offset, ends.low, ends.high, color=colour, lw=0.7, label="_interval")
            ax.plot(
                scores,
                rows - offset,
                ls="",
                marker=MARKERS[i % len(MARKERS)],
                color=colour,
                ms=3.6,
                mec="white",
                mew=0.3,
                label=f"{method}  (mean {np.nanmean(scores):.3f})" if method else None,
            )
            ax.axvline(np.nanmean(scores), color=colour, lw=0.8, ls="--", zorder=0, gid="mean")
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
            colour = PALETTE[j % len(PALETTE)]
            means = [run.mean() for run in runs]
            drawn = ax.bar(
                place,
                means,
                thick * 0.92,
                facecolor=colour,
                edgecolor="white",
                linewidth=0,
                hatch=HATCHES[j % len(HATCHES)],
                label=str(name),
            )
            for patch in drawn:
                patch.set_gid(str(name))
            spread = [_spread(run) for run in runs]
            ax.errorbar(place, means, yerr=spread, fmt="none", ecolor=INK, elinewidth=0.7, capsize=1.8)
            _draw_runs(ax, place, runs, thick)
        low = min(run.min() for run in cells.values())
        high = max(
            max(run.max(), run.mean() + (run.std(ddof=1) if len(run) > 1 else 0)) for run in cells.values()
        )
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


STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def draw_p_values(
    p_values: pd.DataFrame,
    *,
    alpha: float = 0.05,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the heat map of pairwise p-values, as of Nemenyi's test; differences below ``alpha`` have stars.

    p_values : a symmetric table method × method. One star below alpha (0.05), two below 0.01, three below
    0.001. Only pairs are drawn: the diagonal and the upper half stay empty.
    """
    from matplotlib.colors import LogNorm

    table = p_values.rename(index=str, columns=str)
    cells = table.to_numpy(float)
    if list(table.index) != list(table.columns) or len(table) < 2:
        raise ValueError("p_values must have the same methods, at least two, as rows and as columns.")
    pairs = upper_triangle(cells)
    if not np.allclose(pairs, upper_triangle(cells.T), equal_nan=True):
        raise ValueError("p_values must be symmetric: the same for a pair in either order.")
    if not ((pairs >= 0) & (pairs <= 1)).all():
        raise ValueError("p_values must lie in [0, 1]; some are missing or outside.")
    names, n = [str(name) for name in table.index], len(table)
    norm, cmap = LogNorm(1e-4, 1, clip=True), cell_colours().reversed()
    shown = np.where(above_diagonal(n).T, np.maximum(cells, 1e-4), np.nan)[1:, :-1]
    with house_style():
        figure = new_figure(width, width * 0.86 + (0.2 if title else 0))
        ax = figure.add_subplot(label="p-values")
        image = ax.imshow(np.ma.masked_invalid(shown), cmap=cmap, norm=norm)
        size = float(np.clip(72 * 0.58 * width / (n - 1) / 3.6, 3, 6.5))
        for j, i in upper_pairs(n).tolist():
            ink = text_on(cmap(norm(max(cells[i, j], 1e-4))))
            star = stars(cells[i, j], alpha)
            text = f"{_p_text(cells[i, j])}\n{star}" if star else _p_text(cells[i, j])
            ax.text(j, i - 1, text, ha="center", va="center", fontsize=size, color=ink, linespacing=0.9)
        ax.set_xticks(range(n - 1), names[:-1], rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(n - 1), names[1:])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        bar = figure.colorbar(
            image, ax=ax, shrink=0.6, aspect=16, pad=0.02, ticks=[1, 0.1, 0.01, 0.001, 1e-4]
        )
        bar.ax.set_yticklabels(["1", "0.1", "0.01", "0.001", "≤ 0.0001"], fontsize=6)
        bar.ax.minorticks_off()
        bar.ax.axhline(alpha, color=INK if text_on(cmap(norm(alpha))) == INK else "white", lw=0.8)
        bar.outline.set_visible(False)
        bar.set_label("p-value", fontsize=6.5)
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def stars(p: float, alpha: float = 0.05) -> str:
    """Return "" from ``alpha`` on; below it * and, below 0.01 and 0.001, ** and ***."""
    if not p < alpha:
        return ""
    return next((mark for limit, mark in STARS if p < limit), "*")


def draw_critical_difference(
    ranks: pd.Series,
    n_blocks: int,
    *,
    alpha: float = 0.05,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the critical-difference diagram of Nemenyi's test: methods on the scale of their average ranks.

    ranks : method → average rank, 1 the best. n_blocks : how many rankings (data sets × metrics) were
    averaged. Methods joined by a thick bar lie closer than the critical difference at level ``alpha``.
    """
    ranks = pd.Series(ranks, dtype=float).sort_values(kind="stable")
    n = len(ranks)
    if n < 2 or not np.isfinite(ranks).all() or ranks.min() < 1 or ranks.max() > n:
        raise ValueError(f"ranks must be average ranks of at least two methods, each between 1 and {n}.")
    critical = critical_difference(n, n_blocks, alpha)
    left = list(range((n + 1) // 2))  # the better half has its names on the left
    groups = cliques(ranks.to_numpy(), critical)
    step, head = 0.15, 0.5 + 0.07 * len(groups)
    height = head + step * ((n + 1) // 2) + 0.12 + (0.25 if title else 0)
    with house_style():
        figure = new_figure(width, height)
        ax = figure.add_subplot(label="ranks")
        low, high = np.floor(ranks.min()), np.ceil(ranks.max())
        high = max(high, low + 1)
        margin = (high - low) * 0.62
        ax.set(xlim=(low - margin, high + margin), ylim=(-height + (0.25 if title else 0), 0))
        ax.axis("off")
        axis = -0.36
        ax.plot([low, high], [axis, axis], color=INK, lw=0.8, gid="axis")
        for tick in np.arange(low, high + 1):
            ax.plot([tick, tick], [axis, axis + 0.05], color=INK, lw=0.8)
            ax.text(tick, axis + 0.07, f"{tick:g}", ha="center", va="bottom", fontsize=6.5)
        for i, (method, rank) in enumerate(ranks.items()):
            at_left = i in left
            row = i if at_left else n - 1 - i
            y = axis - 0.14 - 0.07 * len(groups) - step * row
            end = low - 0.04 * (high - low) if at_left else high + 0.04 * (high - low)
            ax.plot([rank, rank, end], [axis, y, y], color=INK, lw=0.6, gid="method")
            side: dict[str, Any] = {"ha": "right" if at_left else "left", "va": "center"}
            sign = -1 if at_left else 1
            text = f"{method}  {rank:.2f}" if at_left else f"{rank:.2f}  {method}"
            ax.text(end + sign * 0.02 * (high - low), y, text, **side)
        for k, (first, last) in enumerate(groups):
            y = axis - 0.07 - 0.07 * k
            reach = 0.012 * (high - low)
            ax.plot(
                [ranks.iloc[first] - reach, ranks.iloc[last] + reach],
                [y, y],
                color=PALETTE[5],
                lw=2.2,
                solid_capstyle="butt",
                gid="clique",
            )
        ax.plot([low, low + critical], [-0.08, -0.08], color=INK, lw=1.2, marker="|", ms=4, gid="cd")
        ax.text(low + critical, -0.08, f"  critical difference {critical:.2f}", fontsize=6.5, va="center")
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def cliques(ranks: np.ndarray, critical: float) -> list[tuple[int, int]]:
    """First and last of every largest run of rising ``ranks`` that lie within ``critical`` of each other."""
    out: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.flatnonzero(ranks - ranks[first] <= critical).max())
        if last > first and (not out or last > out[-1][1]):
            out.append((first, last))
    return out


def _p_text(p: float) -> str:
    if p < 0.001:
        return "<.001"
    return f"{p:.2f}".removeprefix("0") if p >= 0.1 else f"{p:.3f}".removeprefix("0")
