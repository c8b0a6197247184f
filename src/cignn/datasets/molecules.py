"""Molecules whose true edges are known from chemistry: groups of atoms that make a molecule mutagenic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from cignn._checks import name_some, nearest, shown
from cignn.graphs import GraphSet

# Atoms of the node labels 0, 1, … in sets of the TU collection.
ATOMS = {
    "MUTAG": ("C", "N", "O", "F", "I", "Cl", "Br"),
    "Mutagenicity": ("C", "O", "Cl", "H", "N", "F", "Br", "S", "P", "I", "Na", "K", "Li", "Ca"),
}
_MUTAGENS = {"MUTAG": 1, "Mutagenicity": 0}  # their graph labels of mutagens
GROUPS = ("nitro", "amino")
_MOST_BONDS = {"H": 1, "F": 1, "O": 2, "N": 4, "C": 4}
_ODD = 0.1  # share of the atoms of an element that may have more bonds than that


def mutagenic_groups(
    graphs: GraphSet,
    atoms: str | Mapping[int, str] | Sequence[str] = "MUTAG",
    *,
    mutagen: Any = None,
    groups: Collection[str] = GROUPS,
) -> GraphSet:
    """Mark the bonds of nitro and amino groups in mutagens as true edges.

    Such groups are the usual reason why the molecules of MUTAG and Mutagenicity are mutagenic, and are what
    explanations of these sets are scored against.

    Parameters
    ----------
    graphs : GraphSet
        Molecules with node labels, as `load_tu` reads them.
    atoms : str, mapping of int to str or sequence of str, default="MUTAG"
        Symbols of the elements by node label: the name of a set that is known ("MUTAG", "Mutagenicity"), a
        mapping such as ``{0: "C", 1: "N", 2: "O"}``, or the symbols of the labels 0, 1, ….
    mutagen : label, default=None
        The label in ``graphs.y`` of mutagens. By default 1 in MUTAG and 0 in Mutagenicity; needed with
        other ``atoms``.
    groups : collection of {"nitro", "amino"}, default=("nitro", "amino")
        Which groups to mark.

    Returns
    -------
    GraphSet
        The same graphs with this ``edge_truth``. Mutagens without such a group and all other molecules have
        no true edge.

    Notes
    -----
    All molecules of MUTAG, mutagens or not, have a nitro group, so there these groups alone do not tell the
    classes apart.

    *nitro*: a nitrogen with exactly two oxygens that have no other neighbour. True are its two N–O bonds.

    *amino*: where hydrogens are nodes, a nitrogen with exactly two of them; true are its two N–H bonds.
    Where they are not, a nitrogen whose one neighbour is a carbon with at least two other neighbours, as in
    a ring; true is its C–N bond. The carbon of a nitrile has one other neighbour, so a nitrile is none.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import GraphSet
    >>> from cignn.datasets import mutagenic_groups
    >>> edges = np.array([(0, 1), (1, 2), (1, 3)])  # C–NO2
    >>> labels = np.eye(3)[[0, 1, 2, 2]]
    >>> names = ["label 0", "label 1", "label 2"]
    >>> graphs = GraphSet.from_edges(edges, np.zeros(4, int), labels, [1], feature_names=names)
    >>> np.argwhere(np.triu(mutagenic_groups(graphs, "MUTAG").edge_truth[0])).tolist()
    [[1, 2], [1, 3]]
    """
    unknown = [group for group in groups if group not in GROUPS]
    if isinstance(groups, str) or unknown or not len(groups):
        raise ValueError(
            f"groups must be some of nitro and amino, for instance ['nitro'], got {shown(groups)}."
        )
    table = _table(atoms)
    mutagens = _mutagens(graphs, atoms, mutagen)
    x = np.concatenate([graph.x for graph in graphs])
    symbols = _symbols(x, graphs.feature_names or [], table)
    first = np.cumsum(graphs.n_nodes) - graphs.n_nodes
    edges = np.concatenate([graphs.edges(i) for i in range(len(graphs))])
    edges = edges + np.repeat(first, graphs.n_edges)[:, None]
    degrees = np.bincount(edges.ravel(), minlength=len(symbols))
    _check_bonds(symbols, degrees)
    truth = np.zeros(len(edges), bool)
    if "nitro" in groups:
        truth |= _nitro(edges, symbols, degrees)
    if "amino" in groups:
        truth |= _amino(edges, symbols, degrees)
    return GraphSet.from_edges(
        edges,
        np.repeat(np.arange(len(graphs)), graphs.n_nodes),
        x,
        graphs.y,
        edge_weight=np.concatenate([graphs.edge_values(i) for i in range(len(graphs))]),
        edge_truth=truth & np.repeat(mutagens, graphs.n_edges),
        groups=graphs.groups,
        meta=graphs.meta,
        feature_names=graphs.feature_names,
    )


def _nitro(edges: np.ndarray, symbols: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """(e,) bonds between a nitrogen and its two oxygens without another neighbour."""
    oxygens = (symbols == "O") & (degrees == 1)
    return _between(edges, (symbols == "N") & (_neighbours(edges, oxygens) == 2), oxygens)


def _amino(edges: np.ndarray, symbols: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """(e,) bonds of a nitrogen to its two hydrogens or, where there are none, to its only carbon."""
    hydrogens = symbols == "H"
    if hydrogens.any():
        return _between(edges, (symbols == "N") & (_neighbours(edges, hydrogens) == 2), hydrogens)
    return _between(edges, (symbols == "N") & (degrees == 1), (symbols == "C") & (degrees >= 3))


def _neighbours(edges: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """(nodes,) number of neighbours of a kind, (nodes,) bool."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    return np.bincount(ends[:, 0], kind[ends[:, 1]], len(kind))


def _between(edges: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(e,) edges from nodes of one kind to those of the other."""
    source, target = edges.T
    return (one[source] & other[target]) | (other[source] & one[target])


# ---------------------------------------------------------------------- checks


def _mutagens(graphs: GraphSet, atoms: Any, mutagen: Any) -> np.ndarray:
    """(g,) which graphs are mutagens."""
    if mutagen is None and not (isinstance(atoms, str) and atoms in _MUTAGENS):
        raise ValueError(
            "mutagen must be given, the label of mutagens, where atoms is not the name of a set."
        )
    label = _MUTAGENS[atoms] if mutagen is None else mutagen
    if graphs.y is None:
        raise ValueError("graphs must have labels y that say which of them are mutagens, got none.")
    found = np.asarray([one == label for one in graphs.y.tolist()], bool)
    if not found.any():
        raise ValueError(
            f"mutagen must be a label of the graphs, {name_some(np.unique(graphs.y))}, got {shown(label)}; "
            "pass the label of mutagens."
        )
    return found


def _symbols(x: np.ndarray, names: Sequence[str], table: Mapping[float, str]) -> np.ndarray:
    """(nodes,) symbols of the elements; x : (nodes, d) features of these names."""
    columns = [k for k, name in enumerate(names) if name.startswith("label ")]
    if not columns or any(" in column " in names[k] for k in columns):
        got = f"the features {name_some(names)}" if names else "features without names"
        raise ValueError(
            f"graphs must have one node label, as load_tu reads it from NAME_node_labels.txt, got {got}."
        )
    labels = [float(names[k].removeprefix("label ")) for k in columns]
    one_hot = x[:, columns] != 0
    used = [label for label, any_node in zip(labels, one_hot.any(0), strict=True) if any_node]
    lacking = [label for label in used if label not in table]
    if lacking:
        raise ValueError(
            f"atoms must name the element of every node label, that of {lacking[0]:g} is missing; give a "
            "mapping such as {0: 'C', 1: 'N'} for the labels of this set."
        )
    if not (one_hot.sum(1) == 1).all():
        raise ValueError(
            "every node must have one label, got a node with none or several; load the set again."
        )
    return np.array([table.get(label, "") for label in labels])[one_hot.argmax(1)]


def _table(atoms: Any) -> dict[float, str]:
    """Symbols by node label."""
    if isinstance(atoms, str):
        if atoms not in ATOMS:
            raise ValueError(f"atoms of the set {shown(atoms)} are not known{nearest(atoms, ATOMS)}")
        return _table(ATOMS[atoms])
    if not isinstance(atoms, Mapping):
        if not isinstance(atoms, Collection):
            raise ValueError(f"atoms must be a mapping of node labels to elements, got {shown(atoms)}.")
        atoms = dict(enumerate(atoms))
    for label, symbol in atoms.items():
        is_symbol = isinstance(symbol, str) and symbol.isalpha() and len(symbol) <= 2
        if not (isinstance(label, Real) and is_symbol):
            raise ValueError(
                "atoms must map node labels, numbers, to symbols of elements such as 'N', got "
                f"{shown(label)}: {shown(symbol)}."
            )
    if "N" not in atoms.values():
        raise ValueError(f"atoms must have nitrogen, 'N', got {shown(atoms)}.")
    return {float(label): str(symbol) for label, symbol in atoms.items()}


def _check_bonds(symbols: np.ndarray, degrees: np.ndarray) -> None:
    """Refuse atoms with more bonds than their element has: then labels mean other elements."""
    for symbol, most in _MOST_BONDS.items():
        own = degrees[symbols == symbol]
        over = int((own > most).sum())
        if over > _ODD * len(own):
            raise ValueError(
                f"atoms do not fit these graphs: {over} of {len(own)} nodes called {symbol} have more "
                f"neighbours than {most}; give the elements of this set's node labels."
            )
