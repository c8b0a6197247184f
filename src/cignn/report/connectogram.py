"""`draw_connectogram`: an explanation as a ring of regions grouped by system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cignn.explanations import Explanation, GroupExplanation
from cignn.report.selection import Drawn, drawn, n_edges_at, names_of, top_nodes
from cignn.report.style import (
    INK,
    PAGE,
    QUIET,
    difference_colours,
    house_style,
    in_order,
    new_figure,
    readable,
    save,
    system_colours,
    text_on,
    weight_colours,
)
from cignn.report.systems import GREY, dress_bar, legend_columns, legend_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Wedge

_GAP = 2.0  # space between two systems, in units of nodes
_BEND = np.linspace(0, 1, 30)[:, None]  # steps along a curve


def draw_connectogram(
    explanation: Explanation | GroupExplanation,
    *,
    other: Explanation | GroupExplanation | None = None,
    by: str = "auto",
    top: int | None = 50,
    threshold: float = 0.0,
    only_surviving: bool = False,
    n_labels: int | None = None,
    colours: str | Mapping[str, str] = "safe",
    title: str | None = None,
    width: float = PAGE * 0.7,
    path: str | Path | None = None,
) -> Figure:
    """Draw an explanation as a ring: nodes grouped by system, edges of large value as thick curves.

    Contributions are orange and solid where they speak for the class explained, purple and dashed where they
    speak against it; without contributions, edges of larger weight are darker. In a `GroupExplanation` edges
    that do not survive are grey.

    Parameters
    ----------
    explanation : Explanation or GroupExplanation
        Explanation of a subject or a group. Without systems the nodes keep their order.
    other : Explanation or GroupExplanation, default=None
        Draw the difference explanation − other: orange and solid where the first has the larger value,
        purple and dashed where the other has.
    by : {"auto", "contribution", "weight"}, default="auto"
        What is drawn of an `Explanation`. "auto" is the contributions where there are any.
    top : int, default=50
        Largest number of edges drawn, those of largest absolute value. None draws all.
    threshold : float, default=0.0
        Only edges of larger absolute value are drawn.
    only_surviving : bool, default=False
        Whether to draw only the edges of a `GroupExplanation` that survive.
    n_labels : int, default=None
        Number of nodes that are named, those with the largest sum of absolute values. By default every node
        with an edge in figures wider than 4.5 inches, else 12.
    colours : {"safe", "paper"} or mapping of str to str, default="safe"
        Colours of the systems: "safe" for colour-blind readers, those of the paper, or your own.
    title : str, default=None
        Title of the figure.
    width : float, default=5.04
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
    >>> from cignn.datasets import aal116
    >>> from cignn.explanations import Explanation
    >>> from cignn.report import draw_connectogram
    >>> atlas = aal116()
    >>> edges, weights = np.array([[0, 1], [2, 30], [40, 41]]), np.array([0.2, 0.6, 1.0])
    >>> explanation = Explanation(edges, weights, 116, atlas.names, systems=atlas.systems)
    >>> figure = draw_connectogram(explanation, width=3)
    >>> len(figure.axes)
    2
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    shown = drawn(explanation, other, by, top, threshold, only_surviving)
    ex, signed = shown.edges, shown.signed
    angle = ring(ex.systems, ex.n_nodes)
    largest = np.abs(ex.edge_weights).max(initial=0.0) or 1.0
    norm = Normalize(-largest if signed else 0, largest)
    cmap = difference_colours() if signed else weight_colours()
    if n_labels is None:
        n_labels = ex.n_nodes if width > 4.5 else 12
    with house_style():
        figure = new_figure(width, width + 0.35)
        ax = figure.add_subplot(aspect="equal", label="ring")
        ax.axis("off")
        _draw_curves(ax, shown, angle, cmap(norm(ex.edge_weights)), norm, width)
        reach = _label_ring(ax, ex, angle, n_labels, width)
        _draw_ring(ax, ex, angle, colours, width, 72 * width / 2 / reach)
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
        if title:
            ax.set_title(title, weight="bold", loc="left")
        bar = figure.colorbar(
            ScalarMappable(norm, cmap), ax=ax, orientation="horizontal", shrink=0.35, aspect=18, pad=0.01
        )
        dress_bar(bar, norm, signed, shown.scale_label)
        return save(figure, path)


def ring(systems: np.ndarray | None, n_nodes: int) -> np.ndarray:
    """(n,) angle of every node, clockwise from the top, system by system with gaps between."""
    if systems is None:
        return np.pi / 2 - 2 * np.pi * (np.arange(n_nodes) + 0.5) / n_nodes
    systems = np.asarray(systems, str)
    groups = in_order(systems)
    place, at = np.zeros(n_nodes), 0.0
    for system in groups:
        members = np.flatnonzero(systems == system)
        place[members] = at + np.arange(len(members)) + 0.5 + _GAP / 2
        at += len(members) + _GAP
    return np.pi / 2 - 2 * np.pi * place / at


# ----------------------------------------------------------------------------- parts


def _draw_curves(
    ax: Axes, shown: Drawn, angle: np.ndarray, shades: np.ndarray, norm: Normalize, width: float
) -> None:
    """Edges as curves bent towards the centre, more so between distant nodes; grey if they do not survive."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    ex = shown.edges
    if shown.survives is not None:
        shades = np.where(shown.survives[:, None], shades, to_rgba(GREY))
    at = 0.965 * np.stack([np.cos(angle), np.sin(angle)], 1)
    start, end = at[ex.edges[:, 0], None], at[ex.edges[:, 1], None]
    apart = np.linalg.norm(start - end, axis=-1, keepdims=True) / 2  # 0 … 1
    middle = (start + end) / 2 * (1 - apart) ** 0.7
    curves = (1 - _BEND) ** 2 * start + 2 * _BEND * (1 - _BEND) * middle + _BEND**2 * end
    lines = LineCollection(
        list(curves),
        colors=shades,
        linewidths=(0.35 + 1.9 * np.abs(ex.edge_weights) / norm.vmax) * np.sqrt(width / PAGE),
        linestyles=[(0, (3, 1.2)) if shown.signed and value < 0 else "-" for value in ex.edge_weights],
        alpha=0.85,
        zorder=2,
    )
    lines.set_label("edges")
    ax.add_collection(lines)


def _draw_ring(
    ax: Axes, ex: Explanation, angle: np.ndarray, colours: str | Mapping[str, str], width: float, unit: float
) -> None:
    """Nodes as dots sized by their number of edges, and a band for each system.

    unit : the ring's radius in points. Systems whose names are too long for their bands are listed in a
    legend.
    """
    from matplotlib.patches import Wedge

    counts = n_edges_at(ex)
    used = counts > 0
    at = 0.985 * np.stack([np.cos(angle), np.sin(angle)], 1)
    own = np.full(ex.n_nodes, QUIET, dtype="<U9")
    if ex.systems is not None:
        systems = np.asarray(ex.systems, str)
        palette = system_colours(systems, colours)
        own = np.array([palette[system] for system in systems])
        unnamed = []
        half = np.rad2deg(np.pi / (ex.n_nodes + _GAP * len(palette)))
        for system, colour in palette.items():
            degrees = np.rad2deg(angle[systems == system])
            low, high = degrees.min() - half, degrees.max() + half
            band = Wedge((0, 0), 1.1, low, high, width=0.08, facecolor=colour, edgecolor=INK, lw=0.3)
            band.set_label(system)
            ax.add_patch(band)
            size = min(5.5, 0.065 * unit)
            if np.deg2rad(high - low) * 1.06 * unit > 0.75 * size * len(system) + 2:  # the name fits
                _name_band(ax, system, np.deg2rad((low + high) / 2), size, text_on(colour))
            else:
                unnamed.append(band)
        if unnamed:
            _list_below(ax, unnamed, width)
    most = max(counts.max(initial=1), 2)
    ax.scatter(
        at[used, 0],
        at[used, 1],
        s=(width / PAGE) ** 2 * (14 + 50 * (counts[used] - 1) / (most - 1)),
        color=own[used],
        edgecolors=INK,
        linewidths=0.4,
        zorder=4,
        label="nodes",
    )
    ax.scatter(
        at[~used, 0], at[~used, 1], s=1.2, color=QUIET, linewidths=0, zorder=3, label="nodes without edges"
    )


def _list_below(ax: Axes, bands: list[Wedge], width: float) -> None:
    """A legend below the ring; the figure becomes higher by it."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    names = [str(band.get_label()) for band in bands]
    figure.set_figheight(figure.get_figheight() + legend_height(names, width) + 0.1)
    columns = legend_columns(names, width)
    figure.legend(handles=bands, loc="outside lower center", ncol=columns, handlelength=0.8, columnspacing=1)


def _name_band(ax: Axes, name: str, middle: float, size: float, ink: str) -> None:
    """Write a system's name along its band, never upside down."""
    turn = np.rad2deg(middle) - 90 + (180 if np.sin(middle) < 0 else 0)
    ax.text(
        1.06 * np.cos(middle),
        1.06 * np.sin(middle),
        name,
        ha="center",
        va="center_baseline",
        rotation=turn,
        rotation_mode="anchor",
        fontsize=size,
        color=ink,
        weight="bold",
        zorder=5,
    )


def _label_ring(ax: Axes, ex: Explanation, angle: np.ndarray, n_labels: int, width: float) -> float:
    """Write names outwards along the radius and return the extent of the drawing."""
    named = top_nodes(ex, n_labels)
    if not len(named):
        return 1.135
    size = float(np.clip(1.15 * width, 4.0, 5.5))
    names = [readable(name) for name in names_of(ex)]
    # the ring fills the half width that the names leave: reach = 1.16 + names / (inches per unit)
    inches = max(len(names[node]) for node in named) * size * 0.56 / 72
    reach = 1.16 * (width / 2) / max(width / 2 - inches, width / 8)
    lines = 1.1 * size / (72 * width / 2 / reach) / 1.15  # radians per line of text there
    for node, at in zip(named, spread(angle[named], lines), strict=True):
        turn = np.rad2deg(at) % 360
        flip = 90 < turn < 270
        out = np.array([np.cos(at), np.sin(at)])
        side: dict[str, Any] = {"rotation": turn + 180 if flip else turn, "ha": "right" if flip else "left"}
        x, y = 1.15 * out
        ax.text(x, y, names[node], fontsize=size, rotation_mode="anchor", va="center", **side)
        foot = 1.105 * np.cos(angle[node]), 1.105 * np.sin(angle[node])
        ax.plot([foot[0], 1.143 * out[0]], [foot[1], 1.143 * out[1]], color=QUIET, lw=0.3, gid="tie")
    return float(reach)


def spread(angles: np.ndarray, least: float) -> np.ndarray:
    """Angles, moved as little as possible until neighbours on the circle are ``least`` radians apart.

    Without room for all of them, they become evenly spaced.
    """
    n = len(angles)
    order = np.argsort(angles)
    at, least = angles[order].astype(float), min(least, 2 * np.pi / n)
    for _ in range(500 if n > 1 else 0):
        short = np.maximum(least - np.diff(at, append=at[0] + 2 * np.pi), 0) / 2  # to the next one
        if short.max() < 1e-4 * least:
            break
        at += np.roll(short, 1) - short
    out = np.empty(n)
    out[order] = at
    return out
