"""Graph sets that other papers print figures of, their splits, and those figures."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from cignn import GraphSet
from cignn.datasets import (
    load_ba2motifs,
    load_spmotif,
    load_tu,
    make_ba2motifs,
    make_spurious_motifs,
    mutagenic_groups,
)
from cignn.paper import load_spec

DATA = Path(os.environ.get("CIGNN_DATA", "../shared/data"))
MUTAGENS = {"MUTAG": 1, "Mutagenicity": 0}  # the class whose true edges are scored
BIASES = (0.5, 0.7, 0.9)
HYDROGEN = 99  # a node label that NCI1 does not have
NCI1_ATOMS = {number: {1: "O", 2: "N", 3: "C"}.get(number, "X") for number in range(1, 99)}  # by label
NCI1_ATOMS[HYDROGEN] = "H"
MOST_ATOMS = 60  # of molecules with planted classes


class Parts(NamedTuple):
    """Places of the training, validation and test graphs."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def molecules(folder: Path) -> GraphSet:
    """A TU set; true edges are those of its file or, in sets of known mutagens, nitro and amino groups."""
    graphs, name = load_tu(folder), folder.resolve().name
    known = name in MUTAGENS and graphs.edge_truth is None
    return mutagenic_groups(graphs, name) if known else graphs


def generated_spmotif(bias: float) -> GraphSet:
    """The published kind from another seed: to choose settings on."""
    return make_spurious_motifs(bias=bias, kind="published", random_state=1)


def houses_and_grids(n_graphs: int = 1000, seed: int = 0) -> GraphSet:
    """Random trees of 20 nodes with a house (y = 0) or a grid of 3 × 3 nodes (y = 1), joined by one edge.

    The square of the house is a part of the grid too, so that only its roof tells the classes apart.
    """
    drawn = make_ba2motifs(n_graphs, random_state=seed)
    y = (np.asarray(drawn.y) == 0).astype(int)
    square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    rows = np.arange(9).reshape(3, 3)
    grid = [pair for part in (rows, rows.T) for pair in zip(part[:-1].flat, part[1:].flat, strict=True)]
    return _trees_with(drawn, [[*square, (0, 4), (1, 4)], grid], y, seed)


def cycles_with_chords(n_graphs: int = 1000, seed: int = 0) -> GraphSet:
    """Random trees of 20 nodes with a cycle of six, joined by one edge; its chord makes the class.

    Class 0 has no chord, that of class 1 makes two squares, that of class 2 a triangle and a pentagon.
    """
    cycle = [(node, (node + 1) % 6) for node in range(6)]
    motifs = [cycle, [*cycle, (0, 3)], [*cycle, (0, 2)]]
    drawn = make_ba2motifs(n_graphs, random_state=seed)
    return _trees_with(drawn, motifs, np.arange(n_graphs) % 3, seed)


def _trees_with(drawn: GraphSet, motifs: list[list[tuple[int, int]]], y: np.ndarray, seed: int) -> GraphSet:
    """The trees of BA-2Motifs with other motifs in the place of theirs.

    drawn : as `make_ba2motifs` draws them; motifs : edges of each class's motif, nodes counted from 0; y :
    (graphs,) classes.
    """
    matrices, truths, rng = [], [], np.random.default_rng(seed)
    for number, label in enumerate(y):
        edges = drawn.edges(number)
        base = edges[(edges < 20).all(1)]
        joined = edges[(edges < 20).any(1) & (edges >= 20).any(1)].min()  # the node of the base
        motif = 20 + np.array(motifs[label])
        size = motif.max() + 1
        matrix, truth = np.zeros((size, size)), np.zeros((size, size), bool)
        for i, j in [*base, *motif, (joined, rng.integers(20, size))]:
            matrix[i, j] = matrix[j, i] = 1
        truth[tuple(motif.T)] = True
        matrices.append(matrix)
        truths.append(truth | truth.T)
    return GraphSet.from_arrays(matrices, [np.ones((len(m), 10)) for m in matrices], y, edge_truth=truths)


def _with_groups(molecules: GraphSet) -> tuple[GraphSet, np.ndarray]:
    """The molecules with their nitro and amino groups as true edges, and (g,) which of them have some."""
    known = mutagenic_groups(molecules.with_y(np.ones(len(molecules), int)), NCI1_ATOMS, mutagen=1)
    assert known.edge_truth is not None
    return known, np.array([bool(truth.any()) for truth in known.edge_truth])


def molecules_with_groups(
    molecules: GraphSet, flipped: float = 0.15, n_graphs: int = 900, seed: int = 5
) -> GraphSet:
    """Real molecules whose class is whether they have a nitro or amino group; some labels are wrong.

    molecules : as `load_tu` reads NCI1; flipped : share of wrong labels; n_graphs : molecules of each kind,
    those of at most 60 atoms.
    """
    known, has = _with_groups(molecules)
    rng = np.random.default_rng(seed)
    small = known.n_nodes <= MOST_ATOMS
    kept = [rng.permutation(np.flatnonzero(small & (has == one)))[:n_graphs] for one in (True, False)]
    y = has ^ (rng.random(len(has)) < flipped)
    kept_rows = np.sort(np.concatenate(kept))
    return known[kept_rows].with_y(y[kept_rows].astype(int))


def molecules_with_alerts(molecules: GraphSet, n_graphs: int = 3000, seed: int = 5) -> GraphSet:
    """Real molecules whose class has several causes, one of them known, and chance.

    molecules : as `load_tu` reads NCI1; n_graphs : how many, of at most 60 atoms. The class is 1 with
    probability 0.9 where there is a nitro or amino group, the true edges of molecules of class 1; with 0.85
    where, instead, two nitrogens are bound or an atom that is not oxygen, nitrogen or carbon has one bond;
    with 0.2 elsewhere.
    """
    _, has = _with_groups(molecules)
    rng = np.random.default_rng(seed)
    others = np.array([_has_other_alert(molecules, number) for number in range(len(molecules))])
    y = rng.random(len(has)) < np.where(has, 0.9, np.where(others, 0.85, 0.2))
    small = np.flatnonzero(molecules.n_nodes <= MOST_ATOMS)
    rows = np.sort(rng.permutation(small)[:n_graphs])
    return mutagenic_groups(molecules[rows].with_y(y[rows].astype(int)), NCI1_ATOMS, mutagen=1)


def molecules_with_mixed_causes(molecules: GraphSet, seed: int = 5) -> GraphSet:
    """Real molecules with a known cause beside the real, unknown ones.

    molecules : as `load_tu` reads NCI1; those of at most 60 atoms are taken. The class is 1 with probability
    0.9 where there is a nitro or amino group, the true edges of molecules of class 1, and that of NCI1
    elsewhere, which depends on most bonds.
    """
    _, has = _with_groups(molecules)
    lucky = np.random.default_rng(seed).random(len(has)) < 0.9
    y = np.where(has, lucky, np.asarray(molecules.y) == 1).astype(int)
    small = np.flatnonzero(molecules.n_nodes <= MOST_ATOMS)
    return mutagenic_groups(molecules[small].with_y(y[small]), NCI1_ATOMS, mutagen=1)


def with_hydrogens(molecules: GraphSet) -> GraphSet:
    """Molecules of NCI1 with their hydrogens as nodes, as in Mutagenicity; true edges are N–H and N–O bonds.

    molecules : as `load_tu` reads NCI1, class 1 being that of mutagens. NCI1 has no bond orders, so the
    numbers of hydrogens are guessed from the numbers of neighbours: carbons in rings have one double bond,
    others one where they have three neighbours. Atoms between two rings count as in a ring.
    """
    names = list(molecules.feature_names or ())
    x = np.concatenate([molecules[i].x for i in range(len(molecules))])
    owner = np.repeat(np.arange(len(molecules)), molecules.n_nodes)
    first = np.cumsum(molecules.n_nodes) - molecules.n_nodes
    edges = np.concatenate([molecules.edges(i) + first[i] for i in range(len(molecules))])
    oxygen, nitrogen, carbon = (x[:, names.index(f"label {label}")] > 0 for label in (1, 2, 3))
    degree = np.bincount(edges.ravel(), minlength=len(x))
    ring = _in_rings(edges, len(x))
    ends = np.concatenate([edges, edges[:, ::-1]])

    def beside(kind: np.ndarray) -> np.ndarray:
        """(nodes,) whether a neighbour is of a kind."""
        return np.bincount(ends[:, 0], kind[ends[:, 1]], len(x)) > 0

    triple = carbon & (degree == 2) & ~ring & beside(nitrogen & (degree == 1))  # of a nitrile
    double = carbon & (degree == 3) & ~ring  # to an oxygen, most often
    count = np.zeros(len(x), int)
    count[carbon] = np.clip(4 - degree - ring, 0, 3)[carbon]
    count[nitrogen] = np.clip(3 - degree - ring, 0, 2)[nitrogen]
    count[oxygen & (degree == 1) & ~beside(double | nitrogen)] = 1
    count[triple | double | (nitrogen & (degree == 1) & beside(triple))] = 0
    holder = np.repeat(np.arange(len(x)), count)
    added = np.stack([holder, len(x) + np.arange(len(holder))], 1)
    features = np.zeros((len(x) + len(holder), len(names) + 1), np.float32)
    features[: len(x), :-1], features[len(x) :, -1] = x, 1
    owner = np.concatenate([owner, owner[holder]])
    order = np.argsort(owner, kind="stable")  # the nodes of a graph stand together
    graphs = GraphSet.from_edges(
        np.argsort(order)[np.concatenate([edges, added])],
        owner[order],
        features[order],
        molecules.y,
        feature_names=[*names, f"label {HYDROGEN}"],
    )
    return mutagenic_groups(graphs, NCI1_ATOMS, mutagen=1)


def _in_rings(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """(nodes,) what is left when nodes with one neighbour are taken away, again and again."""
    left = np.ones(n_nodes, bool)
    while True:
        inside = edges[left[edges].all(1)]
        lone = left & (np.bincount(inside.ravel(), minlength=n_nodes) < 2)
        if not lone.any():
            return left
        left &= ~lone


def _has_other_alert(molecules: GraphSet, number: int) -> bool:
    """Whether two nitrogens are bound, or an atom other than oxygen, nitrogen and carbon has one bond."""
    graph, names = molecules[number], list(molecules.feature_names or ())
    bonds = graph.weights != 0
    oxygen, nitrogen, carbon = (graph.x[:, names.index(f"label {label}")] > 0 for label in (1, 2, 3))
    other = ~(oxygen | nitrogen | carbon)
    return bool((bonds & nitrogen[:, None] & nitrogen).any() or (other & (bonds.sum(1) == 1)).any())


SETS: dict[str, Callable[[], GraphSet]] = {
    "BA-2Motifs": lambda: load_ba2motifs(DATA / "ba2motifs.npz"),
    "BA-2Motifs-generated": lambda: make_ba2motifs(1000, random_state=0),
    "House-Grid": houses_and_grids,
    "Chords": cycles_with_chords,
    "Spurious-Motif": lambda: make_spurious_motifs(3000, bias=0.9, random_state=0),
    **{f"Spurious-Motif-{b}": partial(load_spmotif, DATA / f"spmotif_{b}.npz") for b in BIASES},
    "Spurious-Motif-generated": partial(generated_spmotif, 0.9),
    **{f"Spurious-Motif-generated-{b}": partial(generated_spmotif, b) for b in BIASES[:2]},
    **{name: partial(molecules, DATA / "tu" / name) for name in ("MUTAG", "PROTEINS", "NCI1")},
    "NCI1-groups": lambda: molecules_with_groups(load_tu(DATA / "tu" / "NCI1")),
    "NCI1-alerts": lambda: molecules_with_alerts(load_tu(DATA / "tu" / "NCI1")),
    "NCI1-alerts-hydrogens": lambda: with_hydrogens(molecules_with_alerts(load_tu(DATA / "tu" / "NCI1"))),
    "NCI1-mixed": lambda: molecules_with_mixed_causes(load_tu(DATA / "tu" / "NCI1")),
    "NCI1-mixed-hydrogens": lambda: with_hydrogens(
        molecules_with_mixed_causes(load_tu(DATA / "tu" / "NCI1"))
    ),
}
_SPMOTIF = load_spec("spurious-motif").numbers
# Figures of other papers: set, score, method. Most have one ROC curve over the edges of all test graphs.
PUBLISHED: dict[str, dict[str, dict[str, str]]] = {
    "BA-2Motifs": {
        "roc_auc_overall": {
            "GNNExplainer": "0.67",
            "PGExplainer": "0.85",
            "DIR": "0.83",
            "GSAT": "0.987",
            "π-GNN": "0.993",
            "GMT": "0.996",
            "TopInG": "0.996–1.00",
        }
    },
    **{
        str(name): {"roc_auc_overall": dict(zip(part["row"], part["printed"], strict=True))}
        for name, part in _SPMOTIF.groupby("data")
    },
    "PROTEINS": {"accuracy": {"GIN, 10 folds": "0.733", "without edges, 10 folds": "0.758"}},
    "NCI1": {"accuracy": {"GIN, 10 folds": "0.800"}},
}


def set_name(word: str) -> str:
    """Return what to call a set in the results: its name, or that of the folder or file of a path."""
    if word in SETS:
        return word
    path = Path(word)
    if path.is_dir():
        return path.resolve().name
    if path.is_file() and path.suffix == ".npz":
        return path.stem
    raise ValueError(
        f"data must be one of {', '.join(SETS)}, a TU folder or a Spurious-Motif .npz, got {word}."
    )


@cache
def load_set(word: str) -> GraphSet:
    """Read or make a set by its name or path, once in a process."""
    if word in SETS:
        return SETS[word]()
    path = Path(word)
    return molecules(path) if path.is_dir() else load_spmotif(path)


def split(graphs: GraphSet, seed: int) -> Parts:
    """Draw 80/10/10, or take the set's own split; the seed draws its validation graphs where it has none."""
    y, index = np.asarray(graphs.y), np.arange(len(graphs))
    if graphs.groups is not None:
        train, validation, test = (index[graphs.groups == part] for part in ("train", "val", "test"))
        if not len(validation):
            train, validation = _cut(train, y, 0.1, seed)
        return Parts(train, validation, test)
    train, rest = _cut(index, y, 0.2, seed)
    return Parts(train, *_cut(rest, y, 0.5, seed))


def fold(graphs: GraphSet, seed: int, n_folds: int, number: int) -> Parts:
    """Fold ``number`` (from 0) of a stratified cross-validation; a tenth of the others is for validation."""
    if graphs.groups is not None:
        raise ValueError("the set brings a split of its own; leave out --folds.")
    y = np.asarray(graphs.y)
    cuts = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(y, y)
    rest, test = list(cuts)[number]
    return Parts(*_cut(rest, y, 0.1, seed), test)


def scored(graphs: GraphSet, name: str, label: Any = None) -> np.ndarray:
    """(g,) graphs whose explanations are scored against true edges: those that have some, mutagens alone.

    label : the class to score where the set is not known to be of mutagens.
    """
    if graphs.edge_truth is None:
        return np.zeros(len(graphs), bool)
    known = np.array([bool(truth.any()) for truth in graphs.edge_truth])
    label = MUTAGENS.get(name) if label is None else label
    return known if label is None else known & (np.asarray(graphs.y).astype(str) == str(label))


def _cut(index: np.ndarray, y: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two parts of the places, the second of this share, classes as frequent in both."""
    first, second = train_test_split(index, test_size=share, stratify=y[index], random_state=seed)
    return first, second
