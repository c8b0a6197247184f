"""Explanations as a system × system matrix."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cignn.explanations import Explanation, Explanations
from cignn.report.legends import dress_bar
from cignn.report.style import (
    COLUMN,
    EMPTY,
    INK,
    cell_colours,
    difference_colours,
    house_style,
    in_order,
    new_figure,
    save,
    signed_number,
    system_colours,
    text_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_system_matrix(
    values: pd.DataFrame | Explanation | Explanations,
    *,
    other: pd.DataFrame | Explanation | Explanations | None = None,
    colours: str | Mapping[str, str] = "safe",
    title: str | None = None,
    label: str = "mean edge weight",
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the system × system matrix of an explanation, or of two groups' difference, with its numbers.

    Parameters
    ----------
    values : an explanation, or a square table such as ``explanations.by_system()``; NaN where no edge joins
        two systems
    other : the same of another group; then values − other is drawn, in diverging colours
    colours : of the systems beside the names: "safe", "paper" or a dict system → colour
    title, label, width : of the figure; what the numbers are; inches
    path : where to save it; .pdf, .svg, .png …, or no ending for .pdf and .png
    """
    from matplotlib.colors import Normalize

    table = _system_table(values)
    signed = other is not None
    if other is not None:
        minus = _system_table(other)
        if set(minus.index) != set(table.index):
            odd = sorted(set(minus.index) ^ set(table.index))
            raise ValueError(f"both tables must have the same systems; {', '.join(odd)} is in one only.")
        table = table - minus.loc[table.index, table.columns]
        label = f"difference of {label}"
    cells = table.to_numpy(float)
    largest = np.nanmax(np.abs(cells), initial=0.0) or 1.0
    norm = Normalize(-largest if signed else min(0.0, np.nanmin(cells, initial=0.0)), largest)
    cmap = difference_colours() if signed else cell_colours()
    n, digits = len(table), int(np.clip(np.ceil(-np.log10(largest)) + 1, 2, 4))
    with house_style():
        figure = new_figure(width, width * 1.08 + (0.2 if title else 0))
        ax = figure.add_subplot(label="matrix")
        ax.set_facecolor(EMPTY)
        image = ax.imshow(np.ma.masked_invalid(cells), cmap=cmap, norm=norm)
        cell = 72 * 0.86 * width / n  # points
        size = min(6.5, cell / 2.6)
        for i, j in np.ndindex(n, n):
            if np.isfinite(cells[i, j]):
                text = signed_number(cells[i, j], digits) if signed else f"{cells[i, j]:.{digits}f}"
                text = text.replace("0.", ".", 1)
                ax.text(
                    j,
                    i,
                    text,
                    ha="center",
                    va="center",
                    fontsize=size,
                    color=text_on(cmap(norm(cells[i, j]))),
                )
        ax.set_xticks(range(n), table.columns, rotation=0 if n <= 12 else 90)
        ax.set_yticks(range(n), table.index)
        ax.xaxis.tick_top()
        ax.tick_params(length=0)
        ax.tick_params(axis="x", pad=1.2 + 0.29 * cell)  # room for the chips
        ax.tick_params(axis="y", pad=1.2 + 0.29 * cell)
        ax.spines[:].set_visible(False)
        ax.set_xticks(np.arange(n + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="white", lw=0.8)
        ax.tick_params(which="minor", length=0)
        own = system_colours(table.index, colours)
        for i, system in enumerate(table.index):  # a chip of the system's colour beside each name
            for corner in ((-0.78, i - 0.4), (i - 0.4, -0.78)):
                size_ = (0.18, 0.8) if corner[0] == -0.78 else (0.8, 0.18)
                _chip(ax, corner, size_, own[system])
        if title:
            ax.set_title(title, weight="bold", loc="left")
        bar = figure.colorbar(image, ax=ax, orientation="horizontal", shrink=0.6, aspect=22, pad=0.02)
        dress_bar(bar, norm, signed, label, digits)
        return save(figure, path)


def _chip(ax: Axes, corner: tuple[float, float], size: tuple[float, float], colour: str) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor=INK, lw=0.3, clip_on=False))


def _system_table(values: pd.DataFrame | Explanation | Explanations) -> pd.DataFrame:
    """A square table, the nine systems in the paper's order first."""
    table = values if isinstance(values, pd.DataFrame) else values.by_system()
    table = table.rename(index=str, columns=str)
    if set(table.index) != set(table.columns) or not len(table) or not table.index.is_unique:
        raise ValueError(
            "a system matrix needs the same systems, each once, as rows and as columns; "
            f"got rows {', '.join(table.index)} and columns {', '.join(table.columns)}."
        )
    order = in_order(table.index)
    return table.loc[order, order]
