"""Drawings of graphs and molecules."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import shortest_path

from cignn.explanations import Explanation, Explanations
from cignn.report.selection import values_of
from cignn.report.style import NEGATIVE, PAGE, POSITIVE, difference_colours, house_style, new_figure, save

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rdkit.Chem import Mol


EDGE_COLOUR = "#d55e00"  # vermilion of the Okabe–Ito palette, safe for colour-blind readers
TRUTH_COLOUR = "#56b4e9"
QUIET_COLOUR = "#b8b8b8"
NODE_COLOUR = "#404040"
LAYOUT_STEPS = 300


def layout(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """(n, 2) positions whose distances approximate those in the graph (stress majorisation).

    edges : (e, 2). Deterministic; separate components are placed apart.
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


def draw_graph(
    explanation: Explanation, truth: np.ndarray | None = None, ax: Axes | None = None, by: str = "weight"
) -> Axes:
    """Draw one graph, with thicker and more orange edges for larger weights.

    Contributions are orange and solid where they speak for the class explained, purple and dashed where they
    speak against it.

    Parameters
    ----------
    explanation : Explanation
        The graph and its edge weights.
    truth : bool array of shape (n, n), default=None
        Edges known to cause the class, drawn as a blue band underneath.
    ax : matplotlib.axes.Axes, default=None
        Where to draw. By default pyplot's current axes.
    by : {"weight", "contribution", "auto"}, default="weight"
        What is drawn. "auto" is the contributions where there are any.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from cignn.explanations import Explanation
    >>> from cignn.report import draw_graph
    >>> triangle = Explanation(np.array([[0, 1], [0, 2], [1, 2]]), np.array([0.1, 0.5, 1.0]), 3)
    >>> len(draw_graph(triangle, ax=Figure().subplots()).collections)
    2
    """
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap

    ax = plt.gca() if ax is None else ax
    position = layout(explanation.edges, explanation.n_nodes)
    shown = values_of(explanation, by)
    order = np.argsort(np.abs(shown.edges.edge_weights), kind="stable")  # the top edge above the others
    edges, values = explanation.edges[order], shown.edges.edge_weights[order]
    if truth is not None:
        true_edges = edges[np.asarray(truth, bool)[edges[:, 0], edges[:, 1]]]
        band = LineCollection(
            list(position[true_edges]), colors=TRUTH_COLOUR, linewidths=9, alpha=0.55, zorder=1
        )
        band.set_capstyle("round")
        band.set_label("truth")
        ax.add_collection(band)
    colours = LinearSegmentedColormap.from_list("causal", [QUIET_COLOUR, EDGE_COLOUR])
    shades, sizes = colours(values), values
    if shown.signed:
        part = values / (np.abs(values).max(initial=0) or 1)
        shades, sizes = difference_colours()(0.5 + part / 2), np.abs(part)
    lines = LineCollection(
        list(position[edges]),
        colors=shades,
        linewidths=0.7 + 3.3 * sizes,
        linestyles=[(0, (2.5, 1.2)) if value < 0 else "-" for value in values],
        zorder=2,
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
    by: str = "weight",
    width: float = 8.7,
    path: str | Path | None = None,
) -> Figure:
    """Draw every explanation in a grid, with the true edges where the graphs have them.

    Parameters
    ----------
    explanations : Explanations
        Explanations of the graphs.
    titles : sequence of str, default=None
        One title per graph.
    columns : int, default=3
        Graphs in a row.
    by : {"weight", "contribution", "auto"}, default="weight"
        What is drawn, see `draw_graph`.
    width : float, default=8.7
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
    >>> from cignn import Explanations, GraphSet
    >>> from cignn.report import draw_graphs
    >>> graphs = GraphSet.from_arrays([1 - np.eye(3)])
    >>> figure = draw_graphs(Explanations(graphs, [np.array([0.1, 0.5, 1.0])]), width=3)
    >>> len(figure.axes)
    3
    """
    from matplotlib.lines import Line2D

    if titles is not None and len(titles) != len(explanations):
        raise ValueError(f"expected {len(explanations)} titles, one per graph, got {len(titles)}.")
    if not len(explanations) or columns < 1:
        raise ValueError(
            f"a grid needs at least one graph and one column, got {len(explanations)} and {columns}."
        )
    rows, side = -(-len(explanations) // columns), width / columns
    with house_style():
        figure = new_figure(width, side * rows + 0.5)
        axes = figure.subplots(rows, columns, squeeze=False)
        for ax in axes.flat:
            ax.axis("off")
        for i, (ex, ax) in enumerate(zip(explanations, axes.flat, strict=False)):
            draw_graph(ex, explanations.graphs[i].edge_truth, ax, by)
            if titles is not None:
                ax.set_title(titles[i])
        handles = [
            Line2D([], [], color=EDGE_COLOUR, lw=4, label="causal edge (weight near 1)"),
            Line2D([], [], color=QUIET_COLOUR, lw=1, label="other edge (weight near 0)"),
        ]
        if explanations[0].ranked_by(by) == "contribution":
            handles = [
                Line2D([], [], color=POSITIVE, lw=4, label="speaks for the class"),
                Line2D([], [], color=NEGATIVE, lw=4, ls="--", label="speaks against it"),
            ]
        if explanations.graphs.edge_truth is not None:
            handles.append(Line2D([], [], color=TRUTH_COLOUR, lw=9, alpha=0.55, label="true motif"))
        figure.legend(handles=handles, loc="outside lower center", ncol=3 if width > 5 else 1, fontsize=8)
        return save(figure, path)


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
    """Draw molecules in a grid, with their top bonds highlighted. Needs RDKit.

    Parameters
    ----------
    explanations : mapping of str to Explanation
        Title and explanation of each molecule: nodes are atoms, edges are bonds.
    atoms : mapping of str to sequence of str
        Title and symbol of every atom ("C", "N", "Cl" …).
    orders : mapping of str to sequence of float, default=None
        Title and order of every bond, aligned with ``edges``: 1, 2, 3, or 1.5 for aromatic bonds. By default
        all are single bonds.
    top : int or float, default=0.3
        How many bonds are highlighted, or which share of them.
    columns : int, default=3
        Molecules in a row.
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
    >>> from cignn.explanations import Explanation
    >>> from cignn.report import draw_molecules
    >>> propane = Explanation(np.array([[0, 1], [1, 2]]), np.array([0.2, 1.0]), 3)
    >>> figure = draw_molecules({"propane": propane}, {"propane": ["C", "C", "C"]}, width=2)
    >>> len(figure.axes)
    1
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
    """Draw one molecule with RDKit.

    Parameters
    ----------
    explanation : Explanation
        The molecule: nodes are atoms, edges are bonds.
    atoms : sequence of str
        Symbol of every atom.
    orders : sequence of float, default=None
        Order of every bond: 1, 2, 3, or 1.5 for aromatic bonds. By default all are single bonds.
    top : int or float, default=0.3
        How many bonds are highlighted, or which share of them.
    size : int, default=400
        Width and height in pixels.
    vector : bool, default=True
        Whether to make an SVG instead of a PNG.

    Returns
    -------
    str or bytes
        The text of the SVG, or the bytes of the PNG.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanation
    >>> from cignn.report import molecule_picture
    >>> propane = Explanation(np.array([[0, 1], [1, 2]]), np.array([0.2, 1.0]), 3)
    >>> "<svg" in molecule_picture(propane, ["C", "C", "C"])
    True
    """
    molecule = make_molecule(explanation, atoms, orders)
    from rdkit.Chem.Draw import rdMolDraw2D

    bonds = [int(i) for i in top_bonds(explanation, top)]
    ends = sorted({int(node) for node in explanation.edges[bonds].ravel()})
    drawer: Any = (rdMolDraw2D.MolDraw2DSVG if vector else rdMolDraw2D.MolDraw2DCairo)(size, size)
    options = drawer.drawOptions()
    options.useBWAtomPalette()  # colours are used for the top bonds
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


def make_molecule(explanation: Explanation, atoms: Sequence[str], orders: Sequence[float] | None) -> Mol:
    """RDKit's molecule with the explanation's edges as bonds, in their order, with positions."""
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
        atom.SetNoImplicit(True)  # valences as in the data
        molecule.AddAtom(atom)
    for (a, b), order in zip(explanation.edges.tolist(), orders, strict=True):
        molecule.AddBond(a, b, getattr(chem.BondType, _ORDERS[order]))
    out = molecule.GetMol()
    out.UpdatePropertyCache(strict=False)
    chem.FastFindRings(out)
    rdDepictor.Compute2DCoords(out)
    return out


def top_bonds(explanation: Explanation, top: int | float) -> np.ndarray:
    """Numbers of the top edges in descending order: ``top`` of them, or that share, rounded up."""
    whole = isinstance(top, (int, np.integer)) and not isinstance(top, bool)
    if not (whole and top >= 1) and not (isinstance(top, float) and 0 < top <= 1):
        raise ValueError(
            f"top must be a whole number of at least 1, or a share of the bonds in (0, 1], got {top!r}."
        )
    count = int(top) if whole else int(np.ceil(round(top * len(explanation.edges), 6)))
    return np.argsort(-explanation.edge_weights, kind="stable")[:count]


def _rdkit() -> ModuleType:
    try:
        from rdkit import Chem
    except ImportError as error:
        raise ImportError(
            'drawing molecules needs RDKit; install it with pip install "cignn[molecules]".'
        ) from error
    return Chem
