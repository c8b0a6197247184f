"""What must hold for the true edges of molecules: nitro and amino groups of mutagens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cignn.datasets import load_tu, mutagenic_groups
from cignn.datasets.molecules import ATOMS
from cignn.graphs import GraphSet

Molecule = tuple[str, list[tuple[int, int]]]

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)]
NITROBENZENE = ("C C C C C C N O O", [*RING, (0, 6), (6, 7), (6, 8)])
ANILINE = ("C C C C C C N", [*RING, (0, 6)])
NITRILE = ("C C C C C C C N", [*RING, (0, 6), (6, 7)])
NITROSO = ("C C C C C C N O", [*RING, (0, 6), (6, 7)])
NITRITE = ("C O N O", [(0, 1), (1, 2), (2, 3)])  # one of its oxygens leads on
AZO = ("C N N C", [(0, 1), (1, 2), (2, 3)])
HYDRAZINE = ("C N N", [(0, 1), (1, 2)])  # its last nitrogen is at a nitrogen
IMPLICIT = [NITROBENZENE, ANILINE, NITRILE, NITROSO, NITRITE, AZO, HYDRAZINE]
IMPLICIT_TRUTH: list[list[tuple[int, int]]] = [[(6, 7), (6, 8)], [(0, 6)], [], [], [], [], []]

METHYLAMINE = ("C H H H N H H", [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (4, 6)])
DIMETHYLAMINE = ("C C N H", [(0, 2), (1, 2), (2, 3)])
AMMONIUM = ("C N H H H", [(0, 1), (1, 2), (1, 3), (1, 4)])
NITROMETHANE = ("O N O C H H H", [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (3, 6)])
HYDROXY = ("C N O O H", [(0, 1), (1, 2), (1, 3), (3, 4)])  # an oxygen with a hydrogen
CYANIDE = ("C C N", [(0, 1), (1, 2)])
EXPLICIT = [METHYLAMINE, DIMETHYLAMINE, AMMONIUM, NITROMETHANE, HYDROXY, CYANIDE]
EXPLICIT_TRUTH: list[list[tuple[int, int]]] = [[(4, 5), (4, 6)], [], [], [(0, 1), (1, 2)], [], []]


def molecules(all_of: Sequence[Molecule], atoms: Sequence[str], y: Any) -> GraphSet:
    """The molecules as `load_tu` would read them, label k for the k-th atom."""
    symbols = [symbol for names, _ in all_of for symbol in names.split()]
    sizes = [len(names.split()) for names, _ in all_of]
    first = np.cumsum(sizes) - sizes
    edges = np.concatenate([np.array(bonds) + start for (_, bonds), start in zip(all_of, first, strict=True)])
    return GraphSet.from_edges(
        edges,
        np.repeat(np.arange(len(sizes)), sizes),
        np.array([[symbol == atom for atom in atoms] for symbol in symbols], float),
        y,
        feature_names=[f"label {k}" for k in range(len(atoms))],
    )


def true_edges(graphs: GraphSet) -> list[list[tuple[int, int]]]:
    assert graphs.edge_truth is not None
    return [[(int(a), int(b)) for a, b in np.argwhere(np.triu(truth))] for truth in graphs.edge_truth]


@pytest.mark.parametrize(
    ("kind", "all_of", "truth", "mutagen"),
    [("MUTAG", IMPLICIT, IMPLICIT_TRUTH, 1), ("Mutagenicity", EXPLICIT, EXPLICIT_TRUTH, 0)],
)
def test_groups_of_mutagens_are_true(
    kind: str, all_of: list[Molecule], truth: list[list[tuple[int, int]]], mutagen: int
) -> None:
    twice = molecules([*all_of, *all_of], ATOMS[kind], [mutagen] * len(all_of) + [1 - mutagen] * len(all_of))
    marked = mutagenic_groups(twice, kind)
    assert true_edges(marked) == truth + [[]] * len(all_of)
    assert marked.fingerprints().tolist() == twice.fingerprints().tolist()
    np.testing.assert_array_equal(marked.y, twice.y)
    assert marked.feature_names == twice.feature_names
    other = true_edges(mutagenic_groups(twice, kind, mutagen=1 - mutagen))
    assert other == [[]] * len(all_of) + truth


def test_each_group_can_be_asked_for_alone() -> None:
    graphs = molecules(IMPLICIT, ATOMS["MUTAG"], [1] * len(IMPLICIT))
    nitro, amino = (true_edges(mutagenic_groups(graphs, groups=[group])) for group in ("nitro", "amino"))
    assert nitro[:2] == [[(6, 7), (6, 8)], []] and amino[:2] == [[], [(0, 6)]]
    assert not any(nitro[2:]) and not any(amino[2:])


def test_labels_may_be_any_numbers() -> None:
    plain = mutagenic_groups(molecules(EXPLICIT, ATOMS["Mutagenicity"], [0] * 6), "Mutagenicity")
    others = ("N", "H", "C", "O")
    graphs = molecules(EXPLICIT, others, ["yes"] * 6)
    assert true_edges(mutagenic_groups(graphs, others, mutagen="yes")) == true_edges(plain)
    graphs.feature_names = ["label 7", "label -2", "label 30", "label 1"]
    table = {7: "N", -2: "H", 30: "C", 1: "O", 99: "Zn"}
    assert true_edges(mutagenic_groups(graphs, table, mutagen="yes")) == true_edges(plain)


def test_the_order_of_atoms_makes_no_difference() -> None:
    graphs = molecules(IMPLICIT, ATOMS["MUTAG"], [1] * len(IMPLICIT))
    rng = np.random.default_rng(0)
    mixed, expected = [], []
    for (names, bonds), truth in zip(IMPLICIT, IMPLICIT_TRUTH, strict=True):
        at = rng.permutation(len(names.split()))  # where each atom goes
        symbols = np.array(names.split())[np.argsort(at)]
        mixed.append((" ".join(symbols), [(at[a], at[b]) for a, b in bonds]))
        expected.append(sorted((min(at[a], at[b]), max(at[a], at[b])) for a, b in truth))
    found = mutagenic_groups(molecules(mixed, ATOMS["MUTAG"], graphs.y))
    assert true_edges(found) == expected


def test_what_else_the_graphs_have_is_kept() -> None:
    graphs = molecules(IMPLICIT, ATOMS["MUTAG"], [1] * 7)
    graphs = GraphSet(
        graphs._store,
        graphs.y,
        groups=list("aabbccd"),
        meta={"subject": np.arange(7)},
        feature_names=graphs.feature_names,
    )
    found = mutagenic_groups(graphs)[[1, 0]]
    assert found.groups.tolist() == ["a", "a"] and found.meta["subject"].tolist() == [1, 0]
    assert true_edges(found) == [[(0, 6)], [(6, 7), (6, 8)]]


def nameless() -> GraphSet:
    graphs = molecules(IMPLICIT, ATOMS["MUTAG"], [1] * 7)
    graphs.feature_names = None
    return graphs


def columns() -> GraphSet:
    graphs = molecules(IMPLICIT, ATOMS["MUTAG"], [1] * 7)
    graphs.feature_names = [f"label {k} in column 1" for k in range(7)]
    return graphs


GOOD = molecules(IMPLICIT, ATOMS["MUTAG"], [1] * 7)
BAD_CALLS: list[tuple[Callable[[], GraphSet], str]] = [
    (
        lambda: mutagenic_groups(GOOD, "MUTAGG"),
        "atoms of the set 'MUTAGG' are not known; did you mean 'MUTAG'",
    ),
    (
        lambda: mutagenic_groups(GOOD, {0: "C", 1: "N"}, mutagen=1),
        "of every node label, that of 2 is missing; give",
    ),
    (lambda: mutagenic_groups(GOOD, ["C", "N"], mutagen=1), "of every node label, that of 2 is missing"),
    (lambda: mutagenic_groups(GOOD, {0: "C", 1: "O"}, mutagen=1), "atoms must have nitrogen, 'N', got"),
    (lambda: mutagenic_groups(GOOD, {"0": "N"}, mutagen=1), "atoms must map node labels, .* got '0': 'N'"),
    (lambda: mutagenic_groups(GOOD, {0: "nitrogen"}, mutagen=1), "symbols of elements .*got 0: 'nitrogen'"),
    (lambda: mutagenic_groups(GOOD, 7, mutagen=1), "atoms must be a mapping .*got 7"),  # type: ignore[arg-type]
    (
        lambda: mutagenic_groups(GOOD, "Mutagenicity", mutagen=1),
        "atoms do not fit these graphs: 1 of 9 nodes called O have more neighbours than 2; give the elements",
    ),
    (lambda: mutagenic_groups(GOOD, ATOMS["MUTAG"]), "mutagen must be given, the label of mutagens"),
    (lambda: mutagenic_groups(GOOD, mutagen=0), "mutagen must be a label of the graphs, 1, got 0; pass"),
    (lambda: mutagenic_groups(GOOD.with_y(None)), "graphs must have labels y .*got none"),
    (lambda: mutagenic_groups(GOOD, groups=["nitrile"]), r"some of nitro and amino.*got \['nitrile'\]"),
    (lambda: mutagenic_groups(GOOD, groups="nitro"), "some of nitro and amino, .*got 'nitro'"),
    (lambda: mutagenic_groups(GOOD, groups=[]), r"some of nitro and amino, .*got \[\]"),
    (
        lambda: mutagenic_groups(nameless()),
        "must have one node label, as load_tu .*got features without names",
    ),
    (lambda: mutagenic_groups(columns()), "must have one node label, .*got the features label 0 in column 1"),
]


@pytest.mark.parametrize(("call", "words"), BAD_CALLS, ids=[words[:40] for _, words in BAD_CALLS])
def test_what_does_not_fit_is_refused_in_one_line(call: Callable[[], GraphSet], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        call()
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------- real data


@pytest.mark.data
def test_real_mutag_has_a_nitro_group_in_every_molecule(real_data: Callable[[str], Path]) -> None:
    graphs = load_tu(real_data("tu/MUTAG"))
    counts = {
        group: np.array([len(edges) for edges in true_edges(mutagenic_groups(graphs, groups=[group]))])
        for group in ("nitro", "amino")
    }
    assert ((counts["nitro"] > 0) == (graphs.y == 1)).all() and counts["nitro"].sum() == 2 * 197
    assert (counts["amino"] > 0).sum() == 4 and counts["amino"].sum() == 4
    others = true_edges(mutagenic_groups(graphs, mutagen=-1, groups=["nitro"]))
    assert ([bool(edges) for edges in others] == (graphs.y == -1)).all()


@pytest.mark.data
@pytest.mark.parametrize(("name", "mutagen"), [("MUTAG", -1), ("NCI1", 1)])
def test_the_atoms_of_another_set_are_refused(
    real_data: Callable[[str], Path], name: str, mutagen: int
) -> None:
    graphs = load_tu(real_data(f"tu/{name}"))
    with pytest.raises(ValueError, match="atoms "):
        mutagenic_groups(graphs, "Mutagenicity", mutagen=mutagen)
