"""What figures of explanations share: their top edges and nodes, and labels that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from cignn.explanations import Explanation
from cignn.report.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation


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


def top_edges(explanation: Explanation, top: int | None = 50, threshold: float = 0.0) -> Explanation:
    """The explanation with only its ``top`` edges above ``threshold``, by ascending weight.

    Signed weights, as those of a `difference`, count by absolute value; edges of weight 0 are never kept.
    top : None keeps every edge above the threshold.
    """
    if top is not None and (not isinstance(top, Integral) or isinstance(top, bool) or top < 1):
        raise ValueError(f"top must be a whole number of at least 1, or None for all edges, got {top!r}.")
    if not threshold >= 0:
        raise ValueError(f"threshold must be at least 0, got {threshold!r}.")
    size = np.abs(explanation.edge_weights)
    order = np.argsort(-size, kind="stable")[:top]
    order = order[size[order] > threshold][::-1]  # the top edge is drawn last, above the others
    connectivity = explanation.connectivity
    return replace(
        explanation,
        edges=explanation.edges[order],
        edge_weights=explanation.edge_weights[order],
        connectivity=None if connectivity is None else connectivity[order],
    )


def difference(one: Explanation, other: Explanation) -> Explanation:
    """One − other as an explanation with signed weights, over the edges that either has."""
    check_same_nodes(one, other)
    change = one.weights.astype(float) - other.weights
    present = np.zeros(change.shape, bool)
    for ex in (one, other):
        present[tuple(np.sort(ex.edges, 1).T)] = True
    edges = np.argwhere(present)
    return replace(one, edges=edges, edge_weights=change[tuple(edges.T)], connectivity=None, prediction=None)


def check_same_nodes(one: Explanation, other: Explanation) -> None:
    """Refuse two explanations whose nodes are not the same."""
    if one.n_nodes != other.n_nodes:
        raise ValueError(
            f"the explanations must have the same nodes, got {one.n_nodes} and {other.n_nodes} of them."
        )
    names, others = one.node_names, other.node_names
    if names is not None and others is not None and list(names) != list(others):
        first = next(i for i, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"the explanations must have the same nodes; node {first} is {names[first]!r} in one "
            f"and {others[first]!r} in the other."
        )


def n_edges_at(explanation: Explanation) -> np.ndarray:
    """(n,) number of edges at each node."""
    return np.bincount(explanation.edges.ravel(), minlength=explanation.n_nodes)


def top_nodes(explanation: Explanation, k: int) -> np.ndarray:
    """Up to k nodes with the largest sums of absolute edge weights, in descending order."""
    strength = np.zeros(explanation.n_nodes)
    np.add.at(strength, explanation.edges, np.abs(explanation.edge_weights)[:, None])
    order = np.argsort(-strength, kind="stable")
    return order[strength[order] > 0][: max(k, 0)]


def names_of(explanation: Explanation) -> list[str]:
    """Names of the nodes, their numbers where they have none."""
    names = range(explanation.n_nodes) if explanation.node_names is None else explanation.node_names
    return [str(name) for name in names]
