"""Legends and colour scales that several figures share."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from cignn.report.regions import Regions, node_area
from cignn.report.style import INK, RULE, signed_number

if TYPE_CHECKING:
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

SHARED, OWN = "#0072b2", "#d55e00"
DASHED = (0, (2.5, 1.2))


def legend_columns(names: Collection[str], width: float) -> int:
    """Columns of a legend with these names that fits into ``width`` inches, its rows about equally long."""
    longest = max(map(len, names), default=1)
    most = max(1, int(width / (0.3 + 0.052 * longest)))
    return -(-len(names) // -(-len(names) // most)) if names else 1


def legend_height(names: Collection[str], width: float) -> float:
    """Inches that the legend of `legend_columns` is high; 0 without names."""
    return 0.135 * -(-len(names) // legend_columns(names, width))


def foot_of(figure: Figure, nodes: Regions) -> float:
    """Height above the figure's lower end, as a share of it, of what stands above the legend of systems."""
    return (0.27 + legend_height(nodes.colours, figure.get_figwidth())) / figure.get_figheight()


def draw_system_legend(figure: Figure, nodes: Regions, used: np.ndarray) -> None:
    """At the lower end, the systems of the nodes that are drawn. used : their numbers."""
    from matplotlib.lines import Line2D

    if nodes.systems is None or not len(used):
        return
    present = set(nodes.systems[used])
    handles = [
        Line2D([], [], ls="", marker="o", ms=4.5, mfc=colour, mec=INK, mew=0.4, label=system)
        for system, colour in nodes.colours.items()
        if system in present
    ]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 0.0)}
    columns = legend_columns(nodes.colours, figure.get_figwidth())
    figure.legend(handles=handles, ncol=columns, handletextpad=0.1, columnspacing=0.9, **place)


def draw_size_legend(figure: Figure, nodes: Regions, most: int, scale: float) -> None:
    """How large a node with one edge, with half as many as the largest, and the largest are."""
    from matplotlib.lines import Line2D

    if not most:
        return
    handles = []
    for count in sorted({1, max(1, round(most / 2)), int(most)}):
        size = float(np.sqrt(node_area(np.array([count]), most, scale)[0]))
        handles.append(
            Line2D([], [], ls="", marker="o", ms=size, mfc=RULE, mec=INK, mew=0.4, label=str(count))
        )
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (0.0, foot_of(figure, nodes))}
    look: dict[str, Any] = {"handletextpad": 0.2, "columnspacing": 0.9, "title_fontsize": 6.5}
    figure.legend(handles=handles, ncol=3, title="edges at a node", **place, **look)


def draw_shared_legend(figure: Figure, nodes: Regions) -> None:
    """What the colours of edges mean when a subject stands beside a group."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=SHARED, lw=1.6, label="among the heaviest of both"),
        Line2D([], [], color=OWN, lw=1.6, ls=DASHED, label="of this one alone"),
    ]
    figure.legend(handles=handles, loc="center right", bbox_to_anchor=(1.0, foot_of(figure, nodes)))


def draw_scale(
    figure: Figure, nodes: Regions, cmap: Colormap, norm: Normalize, signed: bool, label: str
) -> None:
    """A colour scale at the lower right end."""
    from matplotlib.cm import ScalarMappable

    width, height = figure.get_size_inches()
    place = (0.95 - 1.3 / width, foot_of(figure, nodes) - 0.02 / height, 1.3 / width, 0.07 / height)
    bar = figure.colorbar(
        ScalarMappable(norm, cmap), cax=figure.add_axes(place, label="scale"), orientation="horizontal"
    )
    dress_bar(bar, norm, signed, label)


def dress_bar(bar: Any, norm: Normalize, signed: bool, label: str, digits: int = 2) -> None:
    """Give a colour scale its ends, 0 between them where there is a sign, and a title."""
    assert norm.vmin is not None and norm.vmax is not None
    ends = [norm.vmin, 0.0, norm.vmax] if signed else [norm.vmin, norm.vmax]
    bar.set_ticks(ends, labels=[signed_number(end, digits) if signed else f"{end:.2g}" for end in ends])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=1.5, pad=1.5, labelsize=6)
    bar.ax.set_title(label, fontsize=6.5, pad=2)
