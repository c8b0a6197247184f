"""Synthetic graphs whose class is a small motif: the edges that make the class are known exactly.

In every graph the nodes of the base come first and the five nodes of the motif last. Models here do not
depend on the order of nodes, so nothing is shuffled within a graph. True edges are the motif's own; the
edge that joins it to the base is not one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from cignn._arrays import above_diagonal
from cignn._random import RandomState, as_generator
from cignn.graphs import GraphSet

MOTIF_NODES = 5
MOTIFS = {
    "cycle": np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    "house": np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]),  # a square, node 4 the roof
    "crane": np.array([(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)]),  # complete bipartite K(2, 3)
}
BASES = ("tree", "ladder", "wheel")  # base i belongs to motif i

_BA_NODES, _BA_FEATURES = 20, 10
_BASE_SIZES = (15, 24)
_EXTRA_EDGES = 0.05  # share of random edges added to a base, so that bases are not perfectly regular


class _Base(NamedTuple):
    """A regular base graph."""

    size: int
    edges: np.ndarray  # (e, 2)
    absent: np.ndarray  # (size · (size - 1) / 2 - e, 2) pairs of nodes without an edge


def make_ba2motifs(n_graphs: int = 1000, *, random_state: RandomState = None) -> GraphSet:
    """Make BA-2Motifs graphs: a random tree with a five-cycle (y = 0) or a house (y = 1).

    Nodes 0..19 are a Barabási–Albert tree (each new node brings one edge), nodes 20..24 the motif, joined by
    one edge between a random node of each. Both classes are equally frequent, and each node has 10 constant
    features. Differences from the published file: every motif is attached (40 there are not), at random
    nodes (there it is always 0–20), and the constant is 1 (there 0.01), for features of ordinary scale.

    Parameters
    ----------
    n_graphs : int, default=1000
        Number of graphs, at least 2.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same graphs.

    Returns
    -------
    GraphSet
        Graphs of 25 nodes with ``y`` (n_graphs,) and ``edge_truth`` (n_graphs, 25, 25): 5 or 6 edges.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> graphs = make_ba2motifs(10, random_state=0)
    >>> len(graphs), graphs.n_nodes[0].item(), sorted(graphs.y.tolist())
    (10, 25, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    """
    if n_graphs < 2:
        raise ValueError(f"n_graphs must be at least 2, one for each class, got {n_graphs}.")
    rng = as_generator(random_state)
    y = rng.permutation(np.arange(n_graphs) % 2)
    bases = _preferential_trees(n_graphs, _BA_NODES, rng)
    motifs = [("cycle", "house")[label] for label in y]
    return _attach(bases, np.full(n_graphs, _BA_NODES), motifs, rng, n_features=_BA_FEATURES, y=y)


def make_spurious_motifs(
    n_graphs: int = 3000, *, bias: float = 0.9, test_fraction: float = 0.2, random_state: RandomState = None
) -> GraphSet:
    """Make Spurious-Motif graphs: the motif is the class; the base agrees with it in training graphs only.

    The motif is a five-cycle (y = 0), a house (y = 1) or a crane, that is K(2, 3) (y = 2). The base is a
    complete binary tree, a ladder or a wheel of 15 to 24 nodes with 5 % random edges added. In training
    graphs the base is its label's own (tree–cycle, ladder–house, wheel–crane) with probability ``bias`` and
    either other one with probability (1 - bias) / 2; in test graphs every base is equally likely. A
    base may hold further copies of a motif (a wheel is full of houses); only the attached one is true.

    Parameters
    ----------
    n_graphs : int, default=3000
        Number of training and test graphs together; labels are equally frequent in both.
    bias : float, default=0.9
        Probability of the label's own base in training graphs, in [1/3, 1]; 1/3 is no bias.
    test_fraction : float, default=0.2
        Share of test graphs, in [0, 1).
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same graphs.

    Returns
    -------
    GraphSet
        Graphs with ``y`` (n_graphs,), ``edge_truth``, a constant feature 1, ``groups`` "train" or "test" and
        ``meta["base"]`` "tree", "ladder" or "wheel", each (n_graphs,).

    Examples
    --------
    >>> from cignn.datasets import make_spurious_motifs
    >>> graphs = make_spurious_motifs(30, bias=1.0, random_state=0)
    >>> train = graphs[graphs.groups == "train"]
    >>> len(train), set(train.meta["base"][train.y == 2].tolist())
    (24, {'wheel'})
    """
    if not 1 / 3 - 1e-6 <= bias <= 1:  # a third may come rounded
        raise ValueError(f"bias must lie in [1/3, 1], got {bias}.")
    n_test = _count_test_graphs(n_graphs, test_fraction)
    rng = as_generator(random_state)
    order = rng.permutation(n_graphs)
    y, test = order % len(MOTIFS), order < n_test
    chance = np.where(test, 1 / 3, bias)
    other = (y + rng.integers(1, len(BASES), n_graphs)) % len(BASES)
    names = [BASES[i] for i in np.where(rng.random(n_graphs) < chance, y, other)]
    sizes = rng.integers(_BASE_SIZES[0], _BASE_SIZES[1] + 1, n_graphs)
    bases = [_base(name, int(size)) for name, size in zip(names, sizes, strict=True)]
    return _attach(
        [_with_extra_edges(base, rng) for base in bases],
        np.array([base.size for base in bases]),
        [tuple(MOTIFS)[label] for label in y],
        rng,
        n_features=1,
        y=y,
        groups=np.where(test, "test", "train"),
        base=np.array(names),
    )


def _attach(
    bases: Sequence[np.ndarray] | np.ndarray,
    sizes: np.ndarray,
    motifs: Sequence[str],
    rng: np.random.Generator,
    *,
    n_features: int,
    y: np.ndarray,
    groups: np.ndarray | None = None,
    base: np.ndarray | None = None,
) -> GraphSet:
    """Put each motif behind its base, joined by one edge between a random node of each.

    bases : one (e, 2) edge array per graph; sizes : (g,) nodes of each base.
    """
    n_graphs, n_nodes = len(sizes), sizes + MOTIF_NODES
    first = np.cumsum(n_nodes) - n_nodes  # each graph's first node in the list of all nodes
    behind = first + sizes  # its motif's first node
    planted = [MOTIFS[name] for name in motifs]
    base_edges = np.concatenate(bases) + np.repeat(first, [len(edges) for edges in bases])[:, None]
    motif_edges = np.concatenate(planted) + np.repeat(behind, [len(edges) for edges in planted])[:, None]
    joints = np.stack([first + rng.integers(sizes), behind + rng.integers(MOTIF_NODES, size=n_graphs)], 1)
    edges = np.concatenate([base_edges, joints, motif_edges])
    return GraphSet.from_edges(
        edges,
        np.repeat(np.arange(n_graphs), n_nodes),
        np.ones((n_nodes.sum(), n_features), np.float32),
        y,
        edge_truth=np.arange(len(edges)) >= len(base_edges) + len(joints),
        groups=groups,
        meta=None if base is None else {"base": base},
    )


def _preferential_trees(n_graphs: int, n_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """(n_graphs, n_nodes - 1, 2) Barabási–Albert trees: a node is chosen as often as it ends an edge."""
    ends = np.zeros((n_graphs, 2 * (n_nodes - 1)), np.int64)
    ends[:, 1] = 1
    for node in range(2, n_nodes):
        so_far = 2 * (node - 1)
        ends[:, so_far] = ends[np.arange(n_graphs), rng.integers(so_far, size=n_graphs)]
        ends[:, so_far + 1] = node
    return ends.reshape(n_graphs, n_nodes - 1, 2)


@cache
def _base(name: str, size: int) -> _Base:
    """A tree, ladder or wheel of ``size`` nodes; a ladder takes the next even number."""
    if name == "tree":
        edges = [((node - 1) // 2, node) for node in range(1, size)]
    elif name == "ladder":
        rungs = (size + 1) // 2
        size = 2 * rungs
        edges = [(2 * rung, 2 * rung + 1) for rung in range(rungs)]
        edges += [(node, node + 2) for node in range(size - 2)]
    else:
        rim = range(1, size)
        edges = [(0, node) for node in rim] + [(node, node + 1) for node in rim[:-1]] + [(1, size - 1)]
    linked = np.zeros((size, size), bool)
    linked[tuple(np.array(edges).T)] = True
    return _Base(size, np.array(edges), np.argwhere(~linked & above_diagonal(size)))


def _with_extra_edges(base: _Base, rng: np.random.Generator) -> np.ndarray:
    n_extra = max(1, round(_EXTRA_EDGES * len(base.edges)))
    return np.concatenate([base.edges, rng.choice(base.absent, n_extra, replace=False, shuffle=False)])


def _count_test_graphs(n_graphs: int, test_fraction: float) -> int:
    """Number of test graphs, checked to leave each label a graph on both sides."""
    if not 0 <= test_fraction < 1:
        raise ValueError(f"test_fraction must lie in [0, 1), got {test_fraction}.")
    n_labels, n_test = len(MOTIFS), round(n_graphs * test_fraction)
    if n_graphs - n_test < n_labels or (test_fraction > 0 and n_test < n_labels):
        shares = [share for share in (test_fraction, 1 - test_fraction) if share > 0]
        least = math.ceil(n_labels / min(shares))
        raise ValueError(
            f"n_graphs must be at least {least} for test_fraction={test_fraction}, so that each of the "
            f"{n_labels} labels has training and test graphs, got {n_graphs}."
        )
    return n_test
