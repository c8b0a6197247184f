"""Drawings of single graphs with their causal edges highlighted beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import shortest_path

from cignn.explanations import Explanation, Explanations
from cignn.report.style import house_style, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGE_COLOUR = "#d55e00"  # vermilion of the Okabe–Ito palette, safe for colour-blind readers
TRUTH_COLOUR = "#56b4e9"
QUIET_COLOUR = "#b8b8b8"
NODE_COLOUR = "#404040"
LAYOUT_STEPS = 300


def layout(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """(n, 2) positions in which distance on the page follows distance in the graph (stress majorisation).

    edges : (e, 2). Deterministic; the parts of a graph in pieces are set apart.
    """
    adj = np.zeros((n_nodes, n_nodes))
    adj[edges[:, 0], edges[:, 1]] = adj[edges[:, 1], edges[:, 0]] = 1
    target = shortest_path(adj, unweighted=True)
    finite = np.isfinite(target)
    target[~finite] = target[finite].max() + 2
    weight = np.divide(1.0, target**2, out=np.zeros_like(target), where=target > 0)
    angle = np.random.default_rng(0).permutation(n_nodes) * 2 * np.pi / n_nodes
    position = np.stack([np.cos(angle), np.sin(angle)], 1) * target.max() / 2
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(LAYOUT_STEPS):
        distance = np.linalg.norm(position[:, None] - position[None], axis=-1)
        pull = np.divide(weight * target, distance, out=np.zeros_like(distance), where=distance > 1e-9)
        position = inverse @ ((np.diag(pull.sum(1)) - pull) @ position)
    return position - position.mean(0)


def draw_graph(explanation: Explanation, truth: np.ndarray | None = None, ax: Axes | None = None) -> Axes:
    """Draw one graph: an edge is the thicker and the more orange, the heavier its weight.

    truth : (n, n) bool, edges known to make the class, drawn as a blue band underneath.
    """
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap

    ax = plt.gca() if ax is None else ax
    position = layout(explanation.edges, explanation.n_nodes)
    order = np.argsort(explanation.edge_weights, kind="stable")  # the heaviest on top
    edges, weights = explanation.edges[order], explanation.edge_weights[order]
    if truth is not None:
        true_edges = edges[np.asarray(truth, bool)[edges[:, 0], edges[:, 1]]]
        band = LineCollection(
            list(position[true_edges]), colors=TRUTH_COLOUR, linewidths=9, alpha=0.55, zorder=1
        )
        band.set_capstyle("round")
        band.set_label("truth")
        ax.add_collection(band)
    colours = LinearSegmentedColormap.from_list("causal", [QUIET_COLOUR, EDGE_COLOUR])
    lines = LineCollection(
        list(position[edges]), colors=colours(weights), linewidths=0.7 + 3.3 * weights, zorder=2
    )
    lines.set_label("edges")
    ax.add_collection(lines)
    ax.scatter(
        position[:, 0], position[:, 1], s=28, color=NODE_COLOUR, edgecolors="white", linewidths=0.6, zorder=3
    )
    ax.margins(0.08)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def draw_graphs(
    explanations: Explanations,
    titles: Sequence[str] | None = None,
    columns: int = 3,
    *,
    width: float = 8.7,
    path: str | Path | None = None,
) -> Figure:
    """Draw every explanation in a grid, beside the graphs' own truth where they carry it, with one legend.

    titles : one per graph. columns : graphs in a row. width : inches. path : where to save the figure.
    """
    from matplotlib.lines import Line2D

    if titles is not None and len(titles) != len(explanations):
        raise ValueError(f"expected {len(explanations)} titles, one per graph, got {len(titles)}.")
    if not len(explanations) or columns < 1:
        raise ValueError(
            f"a grid needs a graph and a column at least, got {len(explanations)} and {columns}."
        )
    rows, side = -(-len(explanations) // columns), width / columns
    with house_style():
        figure = new_figure(width, side * rows + 0.5)
        axes = figure.subplots(rows, columns, squeeze=False)
        for ax in axes.flat:
            ax.axis("off")
        for i, (ex, ax) in enumerate(zip(explanations, axes.flat, strict=False)):
            draw_graph(ex, explanations.graphs[i].edge_truth, ax)
            if titles is not None:
                ax.set_title(titles[i])
        handles = [
            Line2D([], [], color=EDGE_COLOUR, lw=4, label="causal edge (weight near 1)"),
            Line2D([], [], color=QUIET_COLOUR, lw=1, label="other edge (weight near 0)"),
        ]
        if explanations.graphs.edge_truth is not None:
            handles.append(Line2D([], [], color=TRUTH_COLOUR, lw=9, alpha=0.55, label="true motif"))
        figure.legend(handles=handles, loc="outside lower center", ncol=3 if width > 5 else 1, fontsize=8)
        return save(figure, path)
