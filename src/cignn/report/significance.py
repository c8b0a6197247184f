"""Which methods differ: the heat map of pairwise p-values and the critical-difference diagram."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cignn.evaluation.statistics import critical_difference
from cignn.report.style import COLUMN, INK, PALETTE, cell_colours, house_style, new_figure, save, text_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    below = np.tril_indices(len(table), -1)
    if not np.allclose(cells[below], cells.T[below], equal_nan=True):
        raise ValueError("p_values must be symmetric: the same for a pair in either order.")
    if not ((cells[below] >= 0) & (cells[below] <= 1)).all():
        raise ValueError("p_values must lie in [0, 1]; some are missing or outside.")
    names, n = [str(name) for name in table.index], len(table)
    norm, cmap = LogNorm(1e-4, 1, clip=True), cell_colours().reversed()
    shown = np.where(np.tri(n, k=-1, dtype=bool), np.maximum(cells, 1e-4), np.nan)[1:, :-1]
    with house_style():
        figure = new_figure(width, width * 0.86 + (0.2 if title else 0))
        ax = figure.add_subplot(label="p-values")
        image = ax.imshow(np.ma.masked_invalid(shown), cmap=cmap, norm=norm)
        size = float(np.clip(72 * 0.58 * width / (n - 1) / 3.6, 3, 6.5))
        for i, j in zip(*(side.tolist() for side in below), strict=True):
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
