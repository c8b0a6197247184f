"""What must hold for the drawings of molecules; those that draw need RDKit."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest

from cignn.explanations import Explanation
from cignn.report import draw_molecules, molecule_picture
from cignn.report.graphs import make_molecule, top_bonds

# Nitrobenzene: a ring of six carbons, a nitro group on the first.
RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)]
EDGES = np.array([*RING, (0, 6), (6, 7), (6, 8)])
SYMBOLS = ["C"] * 6 + ["N", "O", "O"]
ORDERS = [1.5] * 6 + [1, 2, 1]
NITRO = Explanation(EDGES, np.array([0.1] * 6 + [0.7, 0.9, 0.8]), 9)


@pytest.mark.parametrize(("top", "expected"), [(1, [7]), (2, [7, 8]), (0.3, [7, 8, 6]), (1.0, [7, 8, 6])])
def test_the_top_bonds_come_first(top: float, expected: list[int]) -> None:
    assert top_bonds(NITRO, top)[: len(expected)].tolist() == expected
    assert len(top_bonds(NITRO, 1.0)) == 9


@pytest.mark.parametrize("top", [0, -1, 1.5, 0.0, True, "all"])
def test_what_is_no_number_of_bonds_is_refused(top: Any) -> None:
    with pytest.raises(ValueError, match="whole number of at least 1, or a share of the bonds"):
        top_bonds(NITRO, top)


def test_without_rdkit_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ImportError, match=r'install it with pip install "cignn\[molecules\]"'):
        molecule_picture(NITRO, SYMBOLS)


def test_atoms_and_orders_must_fit_the_graph() -> None:
    with pytest.raises(ValueError, match="expected 9 atoms, one per node, got 2"):
        make_molecule(NITRO, ["C", "C"], None)
    with pytest.raises(ValueError, match="expected 9 orders, one per edge, got 1"):
        make_molecule(NITRO, SYMBOLS, [1])
    with pytest.raises(ValueError, match=r"must be 1, 1\.5, 2 or 3, got 7"):
        make_molecule(NITRO, SYMBOLS, [7] * 9)
    with pytest.raises(ValueError, match="atoms has no entry for nitrobenzene"):
        draw_molecules({"nitrobenzene": NITRO}, {})
    with pytest.raises(ValueError, match="at least one"):
        draw_molecules({}, {})


@pytest.mark.medium
def test_rdkit_draws_the_molecule_with_its_top_bonds_in_colour(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    molecule = make_molecule(NITRO, SYMBOLS, ORDERS)
    assert [atom.GetSymbol() for atom in molecule.GetAtoms()] == SYMBOLS
    bonds = [sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx())) for b in molecule.GetBonds()]
    assert bonds == [sorted(edge) for edge in EDGES.tolist()]
    drawing = molecule_picture(NITRO, SYMBOLS, ORDERS, top=3)
    assert isinstance(drawing, str)
    orange = [line for line in drawing.splitlines() if re.search("#D[45]5[DE]00", line.upper())]
    assert {n for n in range(9) if any(f"bond-{n} " in line for line in orange)} == {6, 7, 8}
    figure = draw_molecules(
        {"nitrobenzene": NITRO}, {"nitrobenzene": SYMBOLS}, orders={"nitrobenzene": ORDERS},
        path=tmp_path / "molecule.png",
    )  # fmt: skip
    assert figure.axes[0].get_title() == "nitrobenzene" and len(figure.axes[0].get_images()) == 1
