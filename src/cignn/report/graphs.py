"""Drawings of graphs and molecules, and of all graphs of a set as points."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import shortest_path

from cignn.explanations import Explanation, Explanations
from cignn.explanations.explanation_set import NEGLIGIBLE
from cignn.report.report_data import ReportData
from cignn.report.style import PAGE, house_style, new_figure, save

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


# What the node labels 0, 1, … of these sets of the TU collection stand for.
ATOMS = {"MUTAG": ("C", "N", "O", "F", "I", "Cl", "Br")}
CAUSAL = (213 / 255, 94 / 255, 0.0)  # vermilion, as in the drawings of graphs
_ORDERS = {1: "SINGLE", 2: "DOUBLE", 3: "TRIPLE", 1.5: "AROMATIC"}


def draw_molecules(
    explanations: Mapping[str, Explanation],
    atoms: Mapping[str, Sequence[str]],
    *,
    orders: Mapping[str, Sequence[float]] | None = None,
    top: int | float = 0.3,
    columns: int = 3,
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw molecules in a grid, their heaviest bonds highlighted.

    Parameters
    ----------
    explanations : title → explanation of one molecule, its nodes atoms and its edges bonds
    atoms : title → symbol of every atom ("C", "N", "Cl" …); `ATOMS` has those of MUTAG's labels
    orders : title → order of every bond, aligned with ``edges``: 1, 2, 3, or 1.5 for an aromatic one; single
        bonds where it is not given
    top : how many bonds are highlighted, or the share of them (0.3: three in ten)
    columns, width : molecules in a row; inches
    path : where to save it; .pdf, .svg, .png …, or no ending for .pdf and .png
    """
    if not explanations:
        raise ValueError("draw_molecules needs at least one explanation, got none.")
    missing = [title for title in explanations if title not in atoms]
    if missing:
        raise ValueError(f"atoms has no entry for {', '.join(missing)}.")
    columns = min(columns, len(explanations))
    rows = -(-len(explanations) // columns)
    side = width / columns
    pixels = int(side * 300)
    with house_style():
        figure = new_figure(width, rows * (side + 0.2))
        grid = figure.subplots(rows, columns, squeeze=False)
        for ax in grid.flat:
            ax.axis("off")
        for ax, (title, ex) in zip(grid.flat, explanations.items(), strict=False):
            bonds = None if orders is None else orders.get(title)
            picture = molecule_picture(ex, atoms[title], bonds, top=top, size=pixels, vector=False)
            assert isinstance(picture, bytes)
            from PIL import Image

            ax.imshow(np.asarray(Image.open(io.BytesIO(picture))), interpolation="lanczos")
            ax.set_title(title, fontsize=7)
        return save(figure, path)


def molecule_picture(
    explanation: Explanation,
    atoms: Sequence[str],
    orders: Sequence[float] | None = None,
    *,
    top: int | float = 0.3,
    size: int = 400,
    vector: bool = True,
) -> str | bytes:
    """Let RDKit draw one molecule: an SVG text, or the bytes of a PNG; parameters as in `draw_molecules`."""
    molecule = make_molecule(explanation, atoms, orders)
    from rdkit.Chem.Draw import rdMolDraw2D

    bonds = [int(i) for i in heavy_bonds(explanation, top)]
    ends = sorted({int(node) for node in explanation.edges[bonds].ravel()})
    drawer: Any = (rdMolDraw2D.MolDraw2DSVG if vector else rdMolDraw2D.MolDraw2DCairo)(size, size)
    options = drawer.drawOptions()
    options.useBWAtomPalette()  # colour is left to what is causal
    options.prepareMolsBeforeDrawing = False  # no hydrogens that the graph does not have
    drawer.DrawMolecule(
        molecule,
        highlightAtoms=ends,
        highlightAtomColors=dict.fromkeys(ends, CAUSAL),
        highlightBonds=bonds,
        highlightBondColors=dict.fromkeys(bonds, CAUSAL),
    )
    drawer.FinishDrawing()
    return drawer.GetDrawingText()


def make_molecule(explanation: Explanation, atoms: Sequence[str], orders: Sequence[float] | None) -> Any:
    """RDKit's molecule with the explanation's edges as bonds, in their order, laid out on the plane."""
    if len(atoms) != explanation.n_nodes:
        raise ValueError(f"expected {explanation.n_nodes} atoms, one per node, got {len(atoms)}.")
    orders = [1] * len(explanation.edges) if orders is None else list(orders)
    if len(orders) != len(explanation.edges):
        raise ValueError(f"expected {len(explanation.edges)} orders, one per edge, got {len(orders)}.")
    bad = sorted({order for order in orders if order not in _ORDERS})
    if bad:
        raise ValueError(f"orders of bonds must be 1, 1.5, 2 or 3, got {bad[0]}.")
    chem = _rdkit()
    from rdkit.Chem import rdDepictor

    molecule = chem.RWMol()
    for symbol in atoms:
        atom = chem.Atom(str(symbol))
        atom.SetNoImplicit(True)  # valences are as the data say
        molecule.AddAtom(atom)
    for (a, b), order in zip(explanation.edges.tolist(), orders, strict=True):
        molecule.AddBond(a, b, getattr(chem.BondType, _ORDERS[order]))
    out = molecule.GetMol()
    out.UpdatePropertyCache(strict=False)
    chem.FastFindRings(out)
    rdDepictor.Compute2DCoords(out)
    return out


def heavy_bonds(explanation: Explanation, top: int | float) -> np.ndarray:
    """Numbers of the heaviest edges, heaviest first: ``top`` of them, or that share, rounded up."""
    whole = isinstance(top, (int, np.integer)) and not isinstance(top, bool)
    if not (whole and top >= 1) and not (isinstance(top, float) and 0 < top <= 1):
        raise ValueError(
            f"top must be a whole number of bonds from 1 on, or a share of them in (0, 1], got {top!r}."
        )
    count = int(top) if whole else int(np.ceil(round(top * len(explanation.edges), 6)))
    return np.argsort(-explanation.edge_weights, kind="stable")[:count]


def _rdkit() -> Any:
    try:
        from rdkit import Chem
    except ImportError as error:
        raise ImportError(
            'drawing molecules needs RDKit; install it with pip install "cignn[molecules]".'
        ) from error
    return Chem


BUDGET = 18_000_000  # bytes of all graphs before base64: the page stays below 30 MB
LISTED = 6  # bytes of an edge that names its two ends


class Records(NamedTuple):
    """layout : "dense", an entry per edge of the group, or "listed", edges named one by one; kept : the most
    edges of a graph that are kept, or None for all; lines : (g,) base64.
    """

    layout: str
    kept: int | None
    lines: list[str]


class Group(NamedTuple):
    """Edges (e, 2) of an aligned set, weights (g, e) and where they exist, mean connectivity (e,)."""

    edges: np.ndarray
    weights: np.ndarray
    present: np.ndarray
    connectivity: np.ndarray


def group_of(data: ReportData) -> Group | None:
    """What the graphs of an aligned set share; None where there is no such thing."""
    if not data.graphs.aligned:
        return None
    edges, weights, present = data.explanations.aligned_weights("a report")
    mean = data.explanations.mean().connectivity
    assert mean is not None  # aligned sets are weighted
    return Group(edges, weights, present, mean)


def group_payload(data: ReportData, group: Group) -> dict[str, Any]:
    """Group means of every edge: of all graphs, and of each class."""
    sets = [("all", np.ones(len(data.explanations), bool))]
    truth = data.truth if (data.truth >= 0).any() else data.predicted
    known = "" if (data.truth >= 0).any() else "predicted "
    for k, name in enumerate(data.class_labels):
        if 1 < (truth == k).sum() < len(truth):
            sets.append((known + name, truth == k))
    marked = data.graphs.edge_truth
    marks = None
    if marked is not None:
        both = np.asarray(marked[0], bool)
        marks = (both | both.T)[tuple(group.edges.T)]
    deviation = group.weights.std(0, ddof=1) if len(group.weights) > 1 else np.zeros(len(group.edges))
    heaviest = float(group.weights.mean(0).max(initial=0.0))
    return {
        "pairs": packed(group.edges, "<u2"),
        "sets": [
            {"name": name, "n": int(who.sum()), "weight": packed(group.weights[who].mean(0), "<f4")}
            for name, who in sets
        ],
        "deviation": packed(deviation, "<f4"),
        "negligible": NEGLIGIBLE * heaviest,  # weights that spread less are the same for everyone
        "connectivity": packed(group.connectivity, "<f4"),
        "usual": packed(_spread(data, group), "<f4"),
        "known": None if marks is None else packed(marks, "u1"),
    }


def _spread(data: ReportData, group: Group) -> np.ndarray:
    """(e,) standard deviation over graphs of an edge's connectivity."""
    if len(data.graphs) < 2:
        return np.zeros(len(group.edges))
    ends = tuple(group.edges.T)
    values = np.stack([data.explanations.connectivity_matrix(i)[ends] for i in range(len(data.graphs))])
    return values.std(0, ddof=1)


def records(data: ReportData, group: Group | None, budget: int = BUDGET) -> Records:
    """Every graph's edges as one line."""
    graphs = data.graphs
    if group is not None and len(graphs) * (2 * len(group.edges) + 12) <= budget:
        lines = [_dense(data, group, i) for i in range(len(graphs))]
        return Records("dense", None, lines)
    most = int(graphs.n_edges.max(initial=0))
    kept = max(100, (budget // len(graphs) - 16) // LISTED)
    lines = [_listed(data, i, kept) for i in range(len(graphs))]
    return Records("listed", kept if kept < most else None, lines)


def packed(values: Any, kind: str) -> str:
    """Return an array as base64."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def _dense(data: ReportData, group: Group, i: int) -> str:
    here = group.present[i]
    codes, low, high = _codes(group.weights[i][here])
    weights = np.zeros(len(here), np.uint8)
    weights[here] = codes
    signed, largest = _signed(data.explanations.connectivity_matrix(i)[tuple(group.edges.T)])
    head = np.array([low, high, largest], "<f4").tobytes()
    return base64.b64encode(head + weights.tobytes() + signed.tobytes()).decode()


def _listed(data: ReportData, i: int, kept: int) -> str:
    edges, weights = data.graphs.edges(i), data.explanations.edge_weights[i]
    values = data.explanations[i].connectivity
    values = np.ones(len(edges)) if values is None else values
    order = np.argsort(-weights, kind="stable")[:kept]
    codes, low, high = _codes(weights[order])
    signed, largest = _signed(values[order])
    head = np.array([low, high, largest], "<f4").tobytes() + np.array([len(order)], "<u4").tobytes()
    ends = np.ascontiguousarray(edges[order].T, "<u2").tobytes()
    return base64.b64encode(head + ends + codes.tobytes() + signed.tobytes()).decode()


def _codes(weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Weights as 1 … 255, with the weights that 1 and 255 stand for."""
    if not len(weights):
        return np.zeros(0, np.uint8), 0.0, 0.0
    low, high = float(weights.min()), float(weights.max())
    share = (weights - low) / (high - low) if high > low else np.ones(len(weights))
    return (1 + np.round(254 * share)).astype(np.uint8), low, high


def _signed(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Values as −127 … 127, with the value that 127 stands for."""
    largest = float(np.abs(values).max(initial=0))
    return np.round(values / (largest or 1) * 127).astype(np.int8), largest
