"""Systems and regions: their matrix, and what figures of brains share (regions, legends, scales)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cignn.datasets.atlas import Atlas, aal116
from cignn.explanations import Explanation, Explanations, GroupExplanation
from cignn.report.selection import names_of
from cignn.report.style import (
    COLUMN,
    EMPTY,
    INK,
    QUIET,
    RULE,
    cell_colours,
    difference_colours,
    house_style,
    in_order,
    leading_digits,
    new_figure,
    save,
    signed_number,
    system_colours,
    text_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure


def draw_system_matrix(
    values: pd.DataFrame | Explanation | Explanations | GroupExplanation,
    *,
    other: pd.DataFrame | Explanation | Explanations | GroupExplanation | None = None,
    by: str = "auto",
    only_surviving: bool = False,
    colours: str | Mapping[str, str] = "safe",
    title: str | None = None,
    label: str | None = None,
    width: float = COLUMN,
    path: str | Path | None = None,
) -> Figure:
    """Draw the matrix of contributions or weights within and between systems, or the difference of two.

    Signed values have diverging colours with 0 in the middle. In a `GroupExplanation` only pairs that survive
    have a colour, and a star.

    Parameters
    ----------
    values : Explanation, Explanations, GroupExplanation or DataFrame
        An explanation, or a square table such as ``explanations.by_system()`` with NaN where no edge joins
        two systems.
    other : Explanation, Explanations, GroupExplanation or DataFrame, default=None
        The same of another group: values − other is drawn, in diverging colours.
    by : {"auto", "contribution", "weight"}, default="auto"
        What is drawn of explanations: the sum of contributions, or the mean weight. "auto" is the
        contributions where there are any.
    only_surviving : bool, default=False
        Whether to show only the pairs of a `GroupExplanation` that survive.
    colours : {"safe", "paper"} or mapping of str to str, default="safe"
        Colours of the systems: "safe" for colour-blind readers, those of the paper, or your own.
    title : str, default=None
        Title of the figure.
    label : str, default=None
        What the numbers are, by default what they are known to be.
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
    >>> from cignn.report import draw_system_matrix
    >>> table = pd.DataFrame([[0.5, 0.2], [0.2, 0.4]], index=["VN", "SMN"], columns=["VN", "SMN"])
    >>> figure = draw_system_matrix(table)
    >>> len(figure.axes)
    2
    """
    from matplotlib.colors import Normalize

    shown = _system_values(values, by, only_surviving)
    if other is not None:
        shown = _less(shown, _system_values(other, by, only_surviving))
    table, signed = shown.table, shown.signed
    cells = table.to_numpy(float)
    largest = np.nanmax(np.abs(cells), initial=0.0) or 1.0
    norm = Normalize(-largest if signed else min(0.0, np.nanmin(cells, initial=0.0)), largest)
    cmap = difference_colours() if signed else cell_colours()
    n, digits = len(table), int(np.clip(np.ceil(-np.log10(largest)) + 1, 2, 4))
    with house_style():
        figure = new_figure(width, width * 1.08 + (0.2 if title else 0))
        ax = figure.add_subplot(label="matrix")
        ax.set_facecolor(EMPTY)
        plain = np.isnan(cells) if shown.stars is None else ~shown.stars  # cells without a colour
        image = ax.imshow(np.ma.masked_array(cells, plain), cmap=cmap, norm=norm)
        cell = 72 * 0.86 * width / n  # points
        for i, j in np.argwhere(np.isfinite(cells)):
            text = signed_number(cells[i, j], digits) if signed else f"{cells[i, j]:.{digits}f}"
            ink = INK if plain[i, j] else text_on(cmap(norm(cells[i, j])))
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": min(6.5, cell / 2.6)}
            star = "*" if shown.stars is not None and shown.stars[i, j] else ""
            ax.text(j, i, text.replace("0.", ".", 1) + star, color=ink, **look)
        _name_cells(ax, table, system_colours(table.index, colours), cell)
        if title:
            ax.set_title(title, weight="bold", loc="left")
        bar = figure.colorbar(image, ax=ax, orientation="horizontal", shrink=0.6, aspect=22, pad=0.02)
        dress_bar(bar, norm, signed, label or shown.label, digits)
        return save(figure, path)


class _SystemValues(NamedTuple):
    """A square table of systems, in the paper's order, and what it holds."""

    table: pd.DataFrame
    signed: bool
    label: str
    stars: np.ndarray | None = None  # (k, k) bool, pairs that survive


def _system_values(
    values: pd.DataFrame | Explanation | Explanations | GroupExplanation, by: str, only_surviving: bool
) -> _SystemValues:
    if isinstance(values, GroupExplanation):
        return _group_values(values, only_surviving)
    if only_surviving:
        raise ValueError(
            "only_surviving needs to know what survives: draw a GroupExplanation, see explain_group."
        )
    if isinstance(values, pd.DataFrame):
        table = _system_table(values)
        return _SystemValues(table, bool((table < 0).to_numpy().any()), "mean edge weight")
    one = values.mean() if isinstance(values, Explanations) else values
    if one.ranked_by(by) == "weight":
        return _SystemValues(_system_table(one.by_system("weight")), False, "mean edge weight")
    table = _system_table(one.by_system("contribution"))
    return _SystemValues(table, True, "sum of contributions (log-odds)")


def _group_values(group: GroupExplanation, only_surviving: bool) -> _SystemValues:
    """Mean of the group's map by pair of systems, with stars where a pair survives."""
    pairs = group.systems
    if not len(pairs):
        raise ValueError("the group has no systems; explain a cohort whose atlas has them.")
    ends = [pairs["source_system"].astype(str), pairs["target_system"].astype(str)]
    names = in_order({*ends[0], *ends[1]})
    at = [[names.index(name) for name in column] for column in ends]
    found = surviving_pairs(group).to_numpy()
    means, stars = np.full((len(names),) * 2, np.nan), np.zeros((len(names),) * 2, bool)
    for a, b in (at, at[::-1]):
        means[a, b] = np.where(found, pairs["mean"], np.nan) if only_surviving else pairs["mean"]
        stars[a, b] = found
    table = pd.DataFrame(means, index=names, columns=names)
    mark = "* survives" if found.any() else "no pair survives"
    return _SystemValues(
        table, True, f"mean {group.reading} of the group\n({mark}, q ≤ {group.alpha:g})", stars
    )


def surviving_pairs(group: GroupExplanation) -> pd.Series:
    """Which pairs of systems have large values, or are shifted as a whole, beyond permuted labels."""
    return (group.systems["q"] <= group.alpha) | (group.systems["shift_q"] <= group.alpha)


def _less(shown: _SystemValues, minus: _SystemValues) -> _SystemValues:
    """The difference of two tables of the same systems."""
    table, other = shown.table, minus.table
    if set(other.index) != set(table.index):
        odd = sorted(set(other.index) ^ set(table.index))
        raise ValueError(f"both tables must have the same systems; {', '.join(odd)} is in one only.")
    change = table - other.loc[table.index, table.columns]
    return _SystemValues(change, True, f"difference of {shown.label}")


def _name_cells(ax: Axes, table: pd.DataFrame, own: Mapping[str, str], cell: float) -> None:
    """Names of the systems with a chip of their colour, and white lines between cells of ``cell`` points."""
    from matplotlib.patches import Rectangle

    n = len(table)
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
    for i, system in enumerate(table.index):
        for corner, size in (((-0.78, i - 0.4), (0.18, 0.8)), ((i - 0.4, -0.78), (0.8, 0.18))):
            chip = Rectangle(corner, *size, facecolor=own[system], edgecolor=INK, lw=0.3, clip_on=False)
            ax.add_patch(chip)


def _system_table(table: pd.DataFrame) -> pd.DataFrame:
    """A square table, the paper's nine systems first and in its order."""
    table = table.rename(index=str, columns=str)
    if set(table.index) != set(table.columns) or not len(table) or not table.index.is_unique:
        raise ValueError(
            "a system matrix needs the same systems, each once, as rows and as columns; "
            f"got rows {', '.join(table.index)} and columns {', '.join(table.columns)}."
        )
    order = in_order(table.index)
    return table.loc[order, order]


# The coordinates out of (x, y, z) that point right and up in each view, and the views' names.
VIEWS = {"l": (1, 2), "r": (1, 2), "x": (1, 2), "y": (0, 2), "z": (0, 1)}
VIEW_NAMES = {"l": "left", "r": "right", "x": "side", "y": "back", "z": "top"}


class Regions(NamedTuple):
    """The n nodes of a figure."""

    coordinates: np.ndarray  # (n, 3)
    names: list[str]
    systems: np.ndarray | None  # (n,)
    colours: dict[str, str]  # of the systems

    @property
    def own_colours(self) -> np.ndarray:
        """(n,) colour of each node."""
        if self.systems is None:
            return np.full(len(self.names), QUIET)
        return np.array([self.colours[system] for system in self.systems])


def regions(ex: Explanation, atlas: Atlas | np.ndarray | None, colours: str | Mapping[str, str]) -> Regions:
    """Names, coordinates and systems of the nodes, from an explanation and an atlas.

    atlas : an `Atlas`, (n, 3) coordinates, or None for the nodes of AAL. An atlas with the same names in
    another order, or with more, is put in the explanation's order.
    """
    names, systems = names_of(ex), ex.systems
    if atlas is None:
        known = aal116()
        if names != known.names:
            raise ValueError(
                "the coordinates of the nodes are not known; pass atlas=, an Atlas or an (n, 3) "
                "array in MNI millimetres."
            )
        atlas = known
    if isinstance(atlas, Atlas):
        if atlas.coordinates is None:
            raise ValueError("the atlas has no coordinates; make it with columns x, y and z.")
        if ex.node_names is not None and names != atlas.names and set(names) <= set(atlas.names):
            if len(set(names)) < len(names):
                raise ValueError(
                    "some nodes share a name, so the atlas cannot be put into their order; give every region "
                    "its own name."
                )
            atlas = atlas[[atlas.names.index(name) for name in names]]
        elif ex.node_names is None and len(atlas) == ex.n_nodes:
            names = atlas.names
        systems = atlas.systems if systems is None else systems
        places = atlas.coordinates
    else:
        places = np.asarray(atlas, float)
    assert places is not None
    if places.shape != (ex.n_nodes, 3) or not np.isfinite(places).all():
        raise ValueError(
            f"expected finite coordinates of shape ({ex.n_nodes}, 3), one row per node, got {places.shape}."
        )
    if systems is None:
        return Regions(places, names, None, {})
    systems = np.asarray(systems, str)
    return Regions(places, names, systems, system_colours(systems, colours))


def seen(coordinates: np.ndarray, view: str) -> np.ndarray:
    """(n,) whether a node is drawn in this view; views from a side show that hemisphere and the midline."""
    x = coordinates[:, 0]
    return x <= 0 if view == "l" else x >= 0 if view == "r" else np.ones(len(x), bool)


def node_area(counts: np.ndarray, most: int, scale: float) -> np.ndarray:
    """Area of a node in points²: it grows with the number of edges."""
    return scale * (8 + 60 * (counts - 1) / max(most - 1, 1))


SHARED, OWN = "#0072b2", "#d55e00"
GREY = "#b8b8b8"  # edges that do not survive
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
    """Height of the elements above the legend of systems, as a share of the figure's height."""
    return (0.27 + legend_height(nodes.colours, figure.get_figwidth())) / figure.get_figheight()


def draw_system_legend(figure: Figure, nodes: Regions, used: np.ndarray) -> None:
    """A legend of the systems of the nodes drawn, at the lower end. used : their numbers."""
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
    """A legend of node sizes: one edge, half of the largest number, the largest number."""
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
    """A legend of the edges' colours in a figure of a subject and a group."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=SHARED, lw=1.6, label="among the top edges of both"),
        Line2D([], [], color=OWN, lw=1.6, ls=DASHED, label="of this one only"),
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


def dress_bar(bar: Colorbar, norm: Normalize, signed: bool, label: str, digits: int = 2) -> None:
    """Label a colour scale: its ends, 0 between them if signed, and a title."""
    assert norm.vmin is not None and norm.vmax is not None
    ends = [norm.vmin, 0.0, norm.vmax] if signed else [norm.vmin, norm.vmax]
    digits = max(digits, leading_digits(max(abs(norm.vmin), abs(norm.vmax))))
    bar.set_ticks(ends, labels=[signed_number(end, digits) if signed else f"{end:.2g}" for end in ends])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=1.5, pad=1.5, labelsize=6)
    bar.ax.set_title(label, fontsize=6.5, pad=2)
