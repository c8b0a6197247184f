"""Molecules drawn by RDKit, the bonds that made the decision highlighted."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cignn.explanations import Explanation
from cignn.report.style import PAGE, house_style, new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
