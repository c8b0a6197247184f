"""Explanations on the glass brain: one, several, or a subject and their group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cignn.datasets.atlas import Atlas
from cignn.explanations import Explanation, GroupExplanation
from cignn.report.selection import Drawn, check_same_nodes, common_edges, drawn, n_edges_at, pair, top_nodes
from cignn.report.style import (
    INK,
    PAGE,
    QUIET,
    difference_colours,
    house_style,
    label_points,
    new_figure,
    readable,
    save,
    weight_colours,
)
from cignn.report.systems import (
    DASHED,
    GREY,
    OWN,
    SHARED,
    VIEW_NAMES,
    VIEWS,
    Regions,
    draw_scale,
    draw_shared_legend,
    draw_size_legend,
    draw_system_legend,
    legend_height,
    node_area,
    regions,
    seen,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

_FOOT = 0.49  # inches for the legends, without that of the systems
_HEAD = 0.14  # inches for a title


def draw_connectome(
    explanation: Explanation | GroupExplanation,
    atlas: Atlas | np.ndarray | None = None,
    *,
    other: Explanation | GroupExplanation | None = None,
    by: str = "auto",
    top: int | None = 50,
    threshold: float = 0.0,
    only_surviving: bool = False,
    n_labels: int = 6,
    views: str = "lzr",
    colours: str | Mapping[str, str] = "safe",
    title: str | None = None,
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw an explanation, of one subject or of a group, on the glass brain.

    Contributions are orange and solid where they speak for the class explained, purple and dashed where they
    speak against it; without contributions, edges of larger weight are darker. In a `GroupExplanation` edges
    that do not survive are grey. Nodes have the colour of their system and an area that grows with their
    number of edges drawn; nodes without such an edge are left out.

    Parameters
    ----------
    explanation : Explanation or GroupExplanation
        Explanation whose nodes are regions.
    atlas : Atlas or array of shape (n, 3), default=None
        Where the nodes lie, in MNI millimetres. Not needed for the nodes of AAL.
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
    n_labels : int, default=6
        Number of nodes that are named, those with the largest sum of absolute values.
    views : str, default="lzr"
        Different letters out of "l" and "r" (left and right, with what lies within that hemisphere), "x"
        (side), "y" (back) and "z" (top).
    colours : {"safe", "paper"} or mapping of str to str, default="safe"
        Colours of the systems: "safe" for colour-blind readers, those of the paper, or your own.
    title : str, default=None
        Title of the figure.
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
    >>> import numpy as np
    >>> from cignn.datasets import aal116
    >>> from cignn.explanations import Explanation
    >>> from cignn.report import draw_connectome
    >>> atlas = aal116()
    >>> edges, weights = np.array([[0, 1], [2, 30], [40, 41]]), np.array([0.2, 0.6, 1.0])
    >>> explanation = Explanation(edges, weights, 116, atlas.names, systems=atlas.systems)
    >>> figure = draw_connectome(explanation, views="z", width=3)
    >>> len(figure.axes)
    2
    """
    panels = {title or "": drawn(explanation, other, by, top, threshold, only_surviving)}
    return _draw(panels, atlas, n_labels, views, colours, width, path)


def draw_connectomes(
    explanations: Mapping[str, Explanation | GroupExplanation],
    atlas: Atlas | np.ndarray | None = None,
    *,
    by: str = "auto",
    top: int | None = 50,
    threshold: float = 0.0,
    only_surviving: bool = False,
    n_labels: int = 4,
    views: str = "lzr",
    colours: str | Mapping[str, str] = "safe",
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw several explanations of the same nodes in rows, on one scale of values and sizes.

    Parameters
    ----------
    explanations : mapping of str to Explanation or GroupExplanation
        Title and explanation of each row: groups, methods or subjects.
    atlas : Atlas or array of shape (n, 3), default=None
        Where the nodes lie, in MNI millimetres. Not needed for the nodes of AAL.
    by : {"auto", "contribution", "weight"}, default="auto"
        What is drawn of an `Explanation`. "auto" is the contributions where there are any.
    top : int, default=50
        Largest number of edges drawn, those of largest absolute value. None draws all.
    threshold : float, default=0.0
        Only edges of larger absolute value are drawn.
    only_surviving : bool, default=False
        Whether to draw only the edges of a `GroupExplanation` that survive.
    n_labels : int, default=4
        Number of nodes that are named in each row.
    views : str, default="lzr"
        Different letters out of "l" and "r" (left and right, with what lies within that hemisphere), "x"
        (side), "y" (back) and "z" (top).
    colours : {"safe", "paper"} or mapping of str to str, default="safe"
        Colours of the systems: "safe" for colour-blind readers, those of the paper, or your own.
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
    >>> import numpy as np
    >>> from cignn.datasets import aal116
    >>> from cignn.explanations import Explanation
    >>> from cignn.report import draw_connectomes
    >>> atlas = aal116()
    >>> edges, weights = np.array([[0, 1], [2, 30], [40, 41]]), np.array([0.2, 0.6, 1.0])
    >>> explanation = Explanation(edges, weights, 116, atlas.names, systems=atlas.systems)
    >>> figure = draw_connectomes({"patients": explanation, "controls": explanation}, views="z")
    >>> len(figure.axes)
    3
    """
    if not explanations:
        raise ValueError("draw_connectomes needs at least one explanation, got none.")
    panels = {
        str(title): drawn(ex, None, by, top, threshold, only_surviving) for title, ex in explanations.items()
    }
    first = next(iter(panels.values()))
    for panel in panels.values():
        check_same_nodes(first.edges, panel.edges)
        if panel.label != first.label:
            raise ValueError(
                f'one scale holds one kind of value, got {first.label} and {panel.label}; pass by="weight".'
            )
    return _draw(panels, atlas, n_labels, views, colours, width, path)


def draw_against_group(
    subject: Explanation,
    group: Explanation | GroupExplanation,
    atlas: Atlas | np.ndarray | None = None,
    *,
    titles: Sequence[str] = ("subject", "group"),
    by: str = "auto",
    top: int | None = 50,
    threshold: float = 0.0,
    n_labels: int = 4,
    views: str = "lzr",
    colours: str | Mapping[str, str] = "safe",
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw one subject above their group, with the edges that both have marked.

    Edges among the top of both are blue and solid, the others orange and dashed.

    Parameters
    ----------
    subject : Explanation
        Explanation of the subject, ``explanations[i]``.
    group : Explanation or GroupExplanation
        Explanation of the group, ``explanations[mask].mean()``.
    atlas : Atlas or array of shape (n, 3), default=None
        Where the nodes lie, in MNI millimetres. Not needed for the nodes of AAL.
    titles : sequence of two str, default=("subject", "group")
        Titles of the two rows.
    by : {"auto", "contribution", "weight"}, default="auto"
        What ranks the edges of an `Explanation`. "auto" is the contributions where there are any.
    top : int, default=50
        Largest number of edges drawn in each row, those of largest absolute value. None draws all.
    threshold : float, default=0.0
        Only edges of larger absolute value are drawn.
    n_labels : int, default=4
        Number of nodes that are named in each row.
    views : str, default="lzr"
        Different letters out of "l" and "r" (left and right, with what lies within that hemisphere), "x"
        (side), "y" (back) and "z" (top).
    colours : {"safe", "paper"} or mapping of str to str, default="safe"
        Colours of the systems: "safe" for colour-blind readers, those of the paper, or your own.
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
    >>> import numpy as np
    >>> from cignn.datasets import aal116
    >>> from cignn.explanations import Explanation
    >>> from cignn.report import draw_against_group
    >>> atlas = aal116()
    >>> edges, weights = np.array([[0, 1], [2, 30], [40, 41]]), np.array([0.2, 0.6, 1.0])
    >>> explanation = Explanation(edges, weights, 116, atlas.names, systems=atlas.systems)
    >>> figure = draw_against_group(explanation, explanation, views="z", width=3)
    >>> len(figure.axes)
    2
    """
    rows = [drawn(ex, None, by, top, threshold) for ex in (subject, group)]
    check_same_nodes(rows[0].edges, rows[1].edges)
    if len(titles) != 2 or titles[0] == titles[1]:
        raise ValueError(f"titles must be two different ones, for the subject and the group, got {titles!r}.")
    panels = {str(title): row for title, row in zip(titles, rows, strict=True)}
    return _draw(panels, atlas, n_labels, views, colours, width, path, shared=True)


# ----------------------------------------------------------------------------- drawing


def _draw(
    panels: dict[str, Drawn],
    atlas: Atlas | np.ndarray | None,
    n_labels: int,
    views: str,
    colours: str | Mapping[str, str],
    width: float,
    path: str | Path | None,
    shared: bool = False,
) -> Figure:
    from matplotlib.colors import Normalize
    from nilearn.plotting.displays import GlassBrainAxes

    bad = [view for view in views if view not in VIEWS]
    if bad or not views or len(set(views)) < len(views):
        raise ValueError(f"views must be different letters out of {''.join(VIEWS)}, got {views!r}.")
    rows = list(panels.values())
    shown = [row.edges for row in rows]
    nodes = regions(shown[0], atlas, colours)
    scales = [_scale(row) for row in rows]
    if not shared:
        scales = [max(scales)] * len(rows)  # rows that are compared by their top edges have their own
    most = max(n_edges_at(ex).max(initial=0) for ex in shown)
    both = common_edges(shown) if shared else None
    signed = rows[0].signed
    cmap = difference_colours() if signed else weight_colours()
    with house_style():
        places = _Places(views, list(panels), width, legend_height(nodes.colours, width))
        figure = new_figure(width, places.height)
        figure.set_layout_engine("none")
        for at, (title, row) in enumerate(panels.items()):
            norm = Normalize(-scales[at] if signed else 0.0, scales[at])
            axes: dict[str, Axes] = {}
            for view in views:
                ax = figure.add_axes(places.box(at, view), label=f"{title}|{view}")
                GlassBrainAxes(ax, view, 0, alpha=0.4, linewidth=0.5)
                ax.set(xlim=places.limits[view][0], ylim=places.limits[view][1], aspect="equal")
                ax.axis("off")
                if at == 0:
                    ax.set_title(VIEW_NAMES[view], fontsize=6.5, color=QUIET, y=0.985, pad=0)
                axes[view] = ax
                _draw_edges(ax, view, row, nodes, cmap, norm, places.scale, both)
                _draw_nodes(ax, view, row.edges, nodes, most, places.scale)
            _label_nodes(axes, row.edges, nodes, n_labels)
            if title:
                figure.text(0.008, places.top(at), title, fontsize=8, weight="bold", va="top", ha="left")
        used = np.unique(np.concatenate([ex.edges.ravel() for ex in shown]).astype(int))
        draw_system_legend(figure, nodes, used)
        draw_size_legend(figure, nodes, most, places.scale)
        if shared:
            draw_shared_legend(figure, nodes)
        else:
            draw_scale(figure, nodes, cmap, norm, signed, rows[0].scale_label)
        return save(figure, path)


def _scale(row: Drawn) -> float:
    """The largest absolute value drawn."""
    return float(np.abs(row.edges.edge_weights).max(initial=0.0)) or 1.0


class _Places:
    """Position of each view of each row in the figure; all views have the same scale."""

    def __init__(self, views: str, titles: list[str], width: float, legend: float) -> None:
        # millimetres of the glass brain in each view, with a margin for labels
        side, back, top = ((-112, 82), (-72, 88)), ((-80, 80), (-72, 88)), ((-80, 80), (-112, 82))
        spans = {"l": side, "r": side, "x": side, "y": back, "z": top}
        self.limits = {view: spans[view] for view in views}
        if "l" in views:  # seen from the left the front is on the left
            self.limits["l"] = (side[0][::-1], side[1])
        wide = {view: abs(x[1] - x[0]) for view, (x, _) in self.limits.items()}
        tall = {view: y[1] - y[0] for view, (_, y) in self.limits.items()}
        # a single view does not fill the page
        inch = min(width / sum(wide.values()), 3.4 / max(tall.values()))
        self.scale = inch * 508 / PAGE  # 1 for three views on a page
        self.row = max(tall.values()) * inch + (_HEAD if any(titles) else 0.08)
        self.height = self.row * len(titles) + _FOOT + legend + 0.1
        self._wide, self._tall, self._inch, self._width = wide, tall, inch, width
        self._titled, self._views = any(titles), views

    def top(self, row: int) -> float:
        return 1 - (row * self.row + 0.06) / self.height

    def box(self, row: int, view: str) -> tuple[float, float, float, float]:
        before = sum(self._wide[v] for v in self._views[: self._views.index(view)])
        margin = (self._width - self._inch * sum(self._wide.values())) / 2
        head = (_HEAD if self._titled else 0.08) + 0.08
        room = max(self._tall.values()) - self._tall[view]
        down = row * self.row + head + (self._tall[view] + room / 2) * self._inch
        return (
            (margin + before * self._inch) / self._width,
            1 - down / self.height,
            self._wide[view] * self._inch / self._width,
            self._tall[view] * self._inch / self.height,
        )


def _draw_edges(
    ax: Axes,
    view: str,
    row: Drawn,
    nodes: Regions,
    cmap: Colormap,
    norm: Normalize,
    scale: float,
    both: set[tuple[int, int]] | None,
) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    keep = seen(nodes.coordinates, view)[row.edges.edges].all(1)
    edges, values = row.edges.edges[keep], row.edges.edge_weights[keep]
    shades: np.ndarray | list[str] = cmap(norm(values))
    dashed = np.asarray(values) < 0 if row.signed else np.zeros(len(edges), bool)
    if both is not None:
        dashed = np.array([pair(edge) not in both for edge in edges], bool)
        shades = [OWN if own else SHARED for own in dashed]
    elif row.survives is not None:
        shades = np.where(row.survives[keep][:, None], shades, to_rgba(GREY))
    lines = LineCollection(
        list(nodes.coordinates[edges][:, :, VIEWS[view]]),
        colors=shades,
        linewidths=0.4 + 1.8 * np.sqrt(scale) * np.abs(values) / norm.vmax,
        linestyles=[DASHED if dash else "-" for dash in dashed],
        alpha=0.85,
        zorder=3,
    )
    lines.set_label("edges")
    ax.add_collection(lines, autolim=False)


def _draw_nodes(ax: Axes, view: str, ex: Explanation, nodes: Regions, most: int, scale: float) -> None:
    counts = n_edges_at(ex)
    shown = np.flatnonzero((counts > 0) & seen(nodes.coordinates, view))
    shown = shown[np.argsort(-counts[shown], kind="stable")]  # small nodes in front of large ones
    right, up = nodes.coordinates[shown][:, VIEWS[view]].T
    ax.scatter(
        right,
        up,
        s=node_area(counts[shown], most, scale),
        color=nodes.own_colours[shown],
        edgecolors="white" if nodes.systems is None else INK,
        linewidths=0.4,
        zorder=4,
        label="nodes",
    )


def _label_nodes(axes: dict[str, Axes], ex: Explanation, nodes: Regions, n_labels: int) -> None:
    """Name each of the top nodes once, in a view of its own hemisphere if there is one."""
    counts = n_edges_at(ex)
    by_view: dict[str, list[int]] = {}
    for node in top_nodes(ex, n_labels):
        within = [view for view in axes if seen(nodes.coordinates, view)[node]]
        beside = [view for view in within if view in "lr"] or within
        if beside:
            by_view.setdefault(beside[0], []).append(int(node))
    for view, named in by_view.items():
        drawn = (counts > 0) & seen(nodes.coordinates, view)
        flat = nodes.coordinates[:, VIEWS[view]]
        label_points(axes[view], flat[named], [readable(nodes.names[n]) for n in named], flat[drawn])
