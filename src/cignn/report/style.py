"""The style of all figures: widths of a journal's columns, colours safe for colour-blind readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cignn._files import replacing
from cignn.datasets.atlas import SYSTEMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation


COLUMN = 3.5
"""Width of a column of a journal, in inches."""
PAGE = 7.2
"""Width of a page of a journal, in inches."""
FORMATS = (".pdf", ".svg", ".eps", ".png", ".jpg", ".tif")
DPI = 300

INK, QUIET, RULE = "#262626", "#8c8c8c", "#d9d9d9"
EMPTY = "#ececec"  # a cell without a value
POSITIVE, NEGATIVE = "#b35806", "#542788"  # the ends of PuOr, distinct for every colour vision

# Okabe and Ito's colours, in an order in which neighbours differ in lightness too.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000", "#8c8c8c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

# Nine systems in the paper's hues. Lightness and saturation are such that any two differ by at least 35 ΔE
# with full colour vision, protanopia or deuteranopia, and by 25 with tritanopia; in the paper's own colours
# the least difference is 8.
SAFE_SYSTEMS = {
    "VN": "#000000",
    "SMN": "#c24a0c",
    "DAN": "#b44cd9",
    "VAN": "#9eca83",
    "LIN": "#ffd149",
    "FPN": "#0009e6",
    "DMN": "#58bac5",
    "CBL": "#16654d",
    "SBN": "#4b1e64",
}
SYSTEM_COLOURS = {"safe": SAFE_SYSTEMS, "paper": SYSTEMS}

_RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Arial", "Helvetica", "Liberation Sans", "DejaVu Sans"],
    "font.size": 7,
    "axes.titlesize": 8,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # text stays editable
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "cignn",
    "text.parse_math": False,  # a $ in a name is a $
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the package's style, then restore the caller's settings of matplotlib."""
    import logging

    from matplotlib import rc_context

    fonts = logging.getLogger("matplotlib.font_manager")
    level = fonts.level
    fonts.setLevel(logging.ERROR)  # no warnings about fonts of the list that are not installed
    try:
        with rc_context(_RC):
            yield
    finally:
        fonts.setLevel(level)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, outside pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not 1 <= width <= 50:
        raise ValueError(f"width must lie between 1 and 50 inches, got {width}.")
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # measures text with any backend
    return figure


def save(figure: Figure, path: str | Path | None) -> Figure:
    """Save ``figure`` if a path is given, and return it.

    The ending chooses the format; a path without one writes .pdf and .png.
    """
    if path is None:
        return figure
    path = Path(path)
    if path.suffix and path.suffix.lower() not in FORMATS:
        raise ValueError(f"a figure can be saved as {', '.join(FORMATS)}, got {path.name!r}.")
    with house_style():
        for target in [path] if path.suffix else [path.with_suffix(".pdf"), path.with_suffix(".png")]:
            undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}  # same data, same file
            with replacing(target) as new:
                figure.savefig(new, dpi=DPI, metadata=undated.get(target.suffix.lower()))
    return figure


def weight_colours() -> Colormap:
    """Light grey to black, for weights: hues are used for the systems."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", ["#cfcfcf", "#7d7d7d", "#111111"])


def difference_colours() -> Colormap:
    """Purple over light grey to orange, for signed values; all are visible on white paper."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "differences", [NEGATIVE, "#998ec3", "#e3e3e3", "#f1a340", POSITIVE]
    )


def cell_colours() -> Colormap:
    """Near white to dark blue, for the cells of a matrix."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("cells", ["#f7fbff", "#9ecae1", "#2171b5", "#08306b"])


def in_order(systems: Iterable[str]) -> list[str]:
    """The systems that occur, once each: the nine in the paper's order, then others by name."""
    present = sorted(set(map(str, systems)))
    nine = [name for name in SYSTEMS if name in present]
    return nine + [name for name in present if name not in SYSTEMS]


def system_colours(systems: Iterable[str], colours: str | Mapping[str, str] = "safe") -> dict[str, str]:
    """Return the colours of the systems that occur, in their order.

    colours : "safe" for colour-blind readers, "paper" for those of the paper's figures, or a mapping (an
    atlas's ``colours``). Systems that it does not name get unused colours.
    """
    if isinstance(colours, str):
        if colours not in SYSTEM_COLOURS:
            raise ValueError(
                f"colours must be one of {', '.join(map(repr, SYSTEM_COLOURS))} or a dict "
                f"system → colour, got {colours!r}."
            )
        colours = SYSTEM_COLOURS[colours]
    names = in_order(systems)
    taken = {colours[name] for name in names if name in colours}
    pool = (*SAFE_SYSTEMS.values(), *PALETTE[:7])
    free = [colour for colour in pool if colour not in taken] or list(pool)
    unnamed = [name for name in names if name not in colours]
    extra = {name: free[i % len(free)] for i, name in enumerate(unnamed)}
    return {name: colours.get(name) or extra[name] for name in names}


def text_on(colour: object) -> str:
    """Colour for text on a patch of this colour: black or white, by contrast."""
    from matplotlib.colors import to_rgb

    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]  # type: ignore[arg-type]
    return INK if np.dot(linear, (0.2126, 0.7152, 0.0722)) > 0.2 else "white"


def readable(name: object) -> str:
    """Return the name of a region or a term without underscores."""
    return str(name).replace("_", " ")


def signed_number(value: float, digits: int = 2) -> str:
    """Return +0.12 or −0.12; 0 for values that round to 0."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if float(f"{value:.{digits}f}") else "0"


def leading_digits(value: float) -> int:
    """Number of decimals that show a value's first digit: 1 for 0.5, 3 for 0.004; 0 for 0 and from 1 on."""
    return max(0, -math.floor(math.log10(abs(value)))) if value else 0


def need_columns(table: object, columns: Sequence[str], what: str) -> None:
    """Refuse a table without these columns, or without rows."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{what} must be a DataFrame, got {type(table).__name__}.")
    missing = [name for name in columns if name not in table.columns]
    if missing:
        have = ", ".join(map(str, table.columns)) or "none"
        raise ValueError(f"{what} needs the column {', '.join(missing)}; it has {have}.")
    if table.empty:
        raise ValueError(f"{what} has no rows.")


_RADII = (6.5, 10, 14, 20, 28, 38, 50)  # points
_ANGLES = np.deg2rad([0, 180, 90, 270, 45, 135, 315, 225, 20, 160, 200, 340])


def label_points(
    ax: Axes, points: np.ndarray, texts: Sequence[str], obstacles: np.ndarray, fontsize: float = 6
) -> list[Annotation]:
    """Write texts beside (k, 2) points, each at the nearest place without overlap.

    obstacles : (m, 2) further points, such as all nodes. The axes must have their final position in the
    figure. A text that is not next to its point is connected to it by a thin line.
    """
    from matplotlib.patheffects import withStroke

    figure = ax.get_figure(root=True)
    assert figure is not None
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    per_point = figure.dpi / 72
    edge = figure.bbox.padded(-3 * per_point)
    own = ax.get_window_extent(renderer).padded(4 * per_point)
    bounds = np.clip(own.extents, np.tile(edge.min, 2), np.tile(edge.max, 2))
    pixels = ax.transData.transform(np.asarray(obstacles, float).reshape(-1, 2))
    taken = [_box(at, np.full(2, 3 * per_point)) for at in pixels]
    out = []
    for x, y, text in zip(*np.asarray(points, float).reshape(-1, 2).T, texts, strict=True):
        point = (float(x), float(y))
        note = ax.annotate(
            text,
            point,
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=fontsize,
            color=INK,
            zorder=6,
            annotation_clip=False,
            path_effects=[withStroke(linewidth=1.8, foreground="white", alpha=0.85)],
        )
        size = note.get_window_extent(renderer)
        half = np.array([size.width, size.height]) / 2
        anchor = ax.transData.transform(point)
        shift = _free_place(anchor, half, taken, bounds, per_point)
        taken.append(_box(anchor + shift, half))
        note.set_position(tuple(shift / per_point))
        end = np.clip(0, shift - half, shift + half)  # the point of the text nearest to its node
        if np.hypot(*end) > 7 * per_point:  # too far without a line
            tie = {"arrowstyle": "-", "color": INK, "lw": 0.4, "shrinkA": 0, "shrinkB": 1}
            ax.annotate(
                "",
                point,
                xytext=tuple(end / per_point),
                textcoords="offset points",
                arrowprops=tie,
                zorder=5,
                annotation_clip=False,
            )
        out.append(note)
    return out


def _free_place(
    anchor: np.ndarray, half: np.ndarray, taken: list[np.ndarray], bounds: np.ndarray, per_point: float
) -> np.ndarray:
    """The nearest shift in pixels at which a text of this half size overlaps nothing, else the best one."""
    best, least = np.zeros(2), np.inf
    boxes = np.array(taken)
    for radius in _RADII:
        for angle in _ANGLES:
            way = np.array([np.cos(angle), np.sin(angle)])
            shift = way * (radius * per_point + half * np.abs(way))
            low, high = anchor + shift - half, anchor + shift + half
            inside = np.maximum(np.maximum(bounds[:2] - low, high - bounds[2:]), 0).sum() * 1e3
            wide = np.minimum(high, boxes[:, 2:]) - np.maximum(low, boxes[:, :2])
            crowding = inside + np.prod(np.maximum(wide, 0), axis=1).sum()
            if crowding < least:
                best, least = shift, crowding
            if not crowding:
                return shift
    return best


def _box(middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    return np.concatenate([middle - half, middle + half])
