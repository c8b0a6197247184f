"""Ranks and tests of methods: pairwise p-values, critical differences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cignn._arrays import above_diagonal, upper_pairs, upper_triangle
from cignn.evaluation.statistics import critical_difference
from cignn.report.style import COLUMN, INK, PALETTE, cell_colours, house_style, new_figure, save, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
SCALE, NAME, CLIQUE = -0.36, 0.15, 0.07  # inches: place of the scale of ranks, heights of a name and of a bar


def draw_p_values(
    p_values: pd.DataFrame,
    *,
    alpha: float = 0.05,
    title: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the heat map of pairwise p-values, such as those of Nemenyi's test.

    Only pairs are drawn: the diagonal and the upper half stay empty. Small p-values have stars: one below
    ``alpha``, two below 0.01, three below 0.001.

    Parameters
    ----------
    p_values : DataFrame of shape (methods, methods)
        Symmetric table of p-values.
    alpha : float, default=0.05
        Level below which a difference has stars.
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
    >>> from cignn.report import draw_p_values
    >>> methods = ["gin", "gcn", "gat"]
    >>> table = pd.DataFrame([[1, 0.2, 0.01], [0.2, 1, 0.5], [0.01, 0.5, 1]], methods, methods)
    >>> sorted(text.get_text().split() for text in draw_p_values(table).axes[0].texts)
    [['.010', '*'], ['.20'], ['.50']]
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
        _draw_scale(figure, image, alpha)
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def _draw_scale(figure: Figure, image: AxesImage, alpha: float) -> None:
    """The colours of p-values, with a line at ``alpha``."""
    ticks = [1, 0.1, 0.01, 0.001, 1e-4]
    bar = figure.colorbar(image, ax=image.axes, shrink=0.6, aspect=16, pad=0.02, ticks=ticks)
    bar.ax.set_yticklabels(["1", "0.1", "0.01", "0.001", "≤ 0.0001"], fontsize=6)
    bar.ax.minorticks_off()
    bar.ax.axhline(alpha, color=text_on(image.cmap(image.norm(alpha))), lw=0.8)  # type: ignore[arg-type]
    bar.outline.set_visible(False)
    bar.set_label("p-value", fontsize=6.5)


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

    Methods joined by a thick bar lie closer than the critical difference. The diagram of scikit-posthocs
    shows neither the critical difference nor a scale of whole ranks, which is why this one is drawn here.

    Parameters
    ----------
    ranks : Series of shape (methods,)
        Average rank of every method, 1 the best.
    n_blocks : int
        Number of rankings (data sets × metrics) that were averaged.
    alpha : float, default=0.05
        Level of the critical difference.
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
    >>> from cignn.report import draw_critical_difference
    >>> figure = draw_critical_difference(pd.Series({"gin": 1.2, "gcn": 1.8}), n_blocks=20)
    >>> figure.axes[0].texts[-1].get_text().strip()
    'critical difference 0.44'
    """
    ranks = pd.Series(ranks, dtype=float).sort_values(kind="stable")
    n = len(ranks)
    if n < 2 or not np.isfinite(ranks).all() or ranks.min() < 1 or ranks.max() > n:
        raise ValueError(f"ranks must be average ranks of at least two methods, each between 1 and {n}.")
    critical = critical_difference(n, n_blocks, alpha)
    joined = cliques(ranks.to_numpy(), critical)
    above = 0.25 if title else 0
    height = 0.5 + CLIQUE * len(joined) + NAME * ((n + 1) // 2) + 0.12 + above
    with house_style():
        figure = new_figure(width, height)
        ax = figure.add_subplot(label="ranks")
        low = np.floor(ranks.min())
        high = max(np.ceil(ranks.max()), low + 1)
        margin = (high - low) * 0.62
        ax.set(xlim=(low - margin, high + margin), ylim=(-height + above, 0))
        ax.axis("off")
        ax.plot([low, high], [SCALE, SCALE], color=INK, lw=0.8, gid="axis")
        for tick in np.arange(low, high + 1):
            ax.plot([tick, tick], [SCALE, SCALE + 0.05], color=INK, lw=0.8)
            ax.text(tick, SCALE + 0.07, f"{tick:g}", ha="center", va="bottom", fontsize=6.5)
        _draw_names(ax, ranks, low, high, SCALE - 0.14 - CLIQUE * len(joined))
        for k, (first, last) in enumerate(joined):
            reach = 0.012 * (high - low)
            ends, y = [ranks.iloc[first] - reach, ranks.iloc[last] + reach], SCALE - 0.07 - CLIQUE * k
            ax.plot(ends, [y, y], color=PALETTE[5], lw=2.2, solid_capstyle="butt", gid="clique")
        ax.plot([low, low + critical], [-0.08, -0.08], color=INK, lw=1.2, marker="|", ms=4, gid="cd")
        ax.text(low + critical, -0.08, f"  critical difference {critical:.2f}", fontsize=6.5, va="center")
        if title:
            ax.set_title(title, loc="left", weight="bold")
        return save(figure, path)


def _draw_names(ax: Axes, ranks: pd.Series, low: float, high: float, top: float) -> None:
    """Methods below the scale, each joined to its rank: the better half on the left, from ``top`` down."""
    n, span = len(ranks), high - low
    for i, (method, rank) in enumerate(ranks.items()):
        at_left = i < (n + 1) // 2
        y = top - NAME * (i if at_left else n - 1 - i)
        end, sign = (low, -1) if at_left else (high, 1)
        end += sign * 0.04 * span
        ax.plot([rank, rank, end], [SCALE, y, y], color=INK, lw=0.6, gid="method")
        text = f"{method}  {rank:.2f}" if at_left else f"{rank:.2f}  {method}"
        ax.text(end + sign * 0.02 * span, y, text, ha="right" if at_left else "left", va="center")


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
