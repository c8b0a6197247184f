"""Synthetic graphs whose class is a small motif: the edges that make the class are known exactly.

In every graph the nodes of the base come first and the five nodes of the motif last. Models here do not
depend on the order of nodes, so nothing is shuffled within a graph. True edges are the motif's own; the
edge that joins it to the base is not one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from numbers import Real
from typing import NamedTuple

import numpy as np

from cignn._arrays import above_diagonal
from cignn._checks import choice, number, shown, whole
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
_PUBLISHED_FEATURES = 4
_EDGES_PER_EXTRA = 20  # edges of a published graph for one random edge more
_ENTRANCES = {"cycle": 0, "house": 4, "crane": 2}  # the node by which a published graph's motif is joined

Meta = Mapping[str, np.ndarray] | None


class _Kind(NamedTuple):
    """What a kind of Spurious-Motif has by default."""

    n_graphs: int
    test_fraction: float
    validation_fraction: float


_KINDS = {"easy": _Kind(3000, 0.2, 0.0), "published": _Kind(18000, 1 / 3, 1 / 6)}


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
    planted = _attach(bases, np.full(n_graphs, _BA_NODES), motifs, rng)
    return planted.graphs(np.ones((planted.n_nodes.sum(), _BA_FEATURES), np.float32), y)


def make_spurious_motifs(
    n_graphs: int | None = None,
    *,
    bias: float = 0.9,
    kind: str = "easy",
    test_fraction: float | None = None,
    validation_fraction: float | None = None,
    random_state: RandomState = None,
) -> GraphSet:
    """Make Spurious-Motif graphs: the motif is the class; the base agrees with it in training graphs only.

    The motif is a five-cycle (y = 0), a house (y = 1) or a crane, that is K(2, 3) (y = 2). The base is a
    tree, a ladder or a wheel. In training graphs the base is its label's own (tree–cycle, ladder–house,
    wheel–crane) with probability ``bias`` and either other one with probability (1 - bias) / 2; in all
    others every base is equally likely. A base may hold further copies of a motif (a wheel is full of
    houses); only the attached one is true.

    Parameters
    ----------
    n_graphs : int, default=None
        Number of graphs of all parts together; labels are equally frequent in each part. By default 3000,
        or 18000 of the kind "published".
    bias : float, default=0.9
        Probability of the label's own base in training graphs, in [1/3, 1]; 1/3 is no bias.
    kind : {"easy", "published"}, default="easy"
        Which graphs to make, see Notes. Only those of the kind "published" compare with published tables.
    test_fraction : float, default=None
        Share of test graphs, in [0, 1). By default 0.2, or 1/3 of the kind "published".
    validation_fraction : float, default=None
        Share of validation graphs of the kind "published", by default 1/6. The kind "easy" has none.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same graphs.

    Returns
    -------
    GraphSet
        Graphs with ``y`` (n_graphs,), ``edge_truth``, ``groups`` "train", "val" or "test" and
        ``meta["base"]`` "tree", "ladder" or "wheel", each (n_graphs,).

    Notes
    -----
    *easy*: bases of 15 to 24 nodes in training and test graphs, the tree a complete binary one, with 5 %
    random edges added; the motif joined to the base by an edge between a random node of each; one constant
    feature. The size of a graph says nothing about its label.

    *published*: as in the files that `load_spmotif` reads. Trees have two or three children at every node
    and are 3 levels deep (15 or 40 nodes; in test graphs 3 to 5, up to 364 nodes); in training graphs with
    another motif than the cycle only 0 to 2 (1 to 13 nodes). Ladders have 8 to 11 rungs (30 to 49), wheels
    15 to 19 nodes (60 to 79). The motif is joined by its first node, of a house the roof and of a crane one
    of the three, to a random node of the base. Random edges are added anywhere in the graph, one for every
    20 that it has; those that would lie within the motif are left out. Four features are uniform in [0, 1).

    References
    ----------
    .. [1] Wu et al., "Discovering invariant rationales for graph neural networks", ICLR 2022.
    .. [2] Miao et al., "Interpretable and generalizable graph learning via stochastic attention mechanism",
       ICML 2022.

    Examples
    --------
    >>> from cignn.datasets import make_spurious_motifs
    >>> graphs = make_spurious_motifs(30, bias=1.0, random_state=0)
    >>> train = graphs[graphs.groups == "train"]
    >>> len(train), set(train.meta["base"][train.y == 2].tolist())
    (24, {'wheel'})
    >>> graphs = make_spurious_motifs(180, kind="published", random_state=0)
    >>> [(graphs.groups == part).sum().item() for part in ("train", "val", "test")]
    [90, 30, 60]
    """
    usual = _KINDS[choice("kind", kind, _KINDS)]
    if not isinstance(bias, Real) or not 1 / 3 - 1e-6 <= bias <= 1:  # a third may come rounded
        raise ValueError(f"bias must lie in [1/3, 1], got {shown(bias)}.")
    if kind == "easy" and validation_fraction:
        raise ValueError(
            f'validation_fraction is for kind="published", got {shown(validation_fraction)} with '
            'kind="easy"; leave it out.'
        )
    n_graphs = usual.n_graphs if n_graphs is None else whole("n_graphs", n_graphs, 1)
    parts = _part_sizes(
        n_graphs,
        {
            "test": usual.test_fraction if test_fraction is None else test_fraction,
            "validation": usual.validation_fraction if validation_fraction is None else validation_fraction,
        },
    )
    rng = as_generator(random_state)
    order = rng.permutation(n_graphs)
    y, groups = order % len(MOTIFS), np.repeat(["test", "val", "train"], parts)[order]
    chance = np.where(groups == "train", bias, 1 / 3)
    other = (y + rng.integers(1, len(BASES), n_graphs)) % len(BASES)
    base = np.array(BASES)[np.where(rng.random(n_graphs) < chance, y, other)]
    motifs = [tuple(MOTIFS)[label] for label in y]
    if kind == "easy":
        sizes = rng.integers(_BASE_SIZES[0], _BASE_SIZES[1] + 1, n_graphs)
        regular = [_base(name, int(size)) for name, size in zip(base, sizes, strict=True)]
        bases = [_with_extra_edges(one, rng) for one in regular]
        planted = _attach(bases, np.array([one.size for one in regular]), motifs, rng)
        x = np.ones((planted.n_nodes.sum(), 1), np.float32)
    else:
        trees, sizes = _published_sizes(base, y, groups, rng)
        bases = [
            _regular_edges(name, int(size), int(children))
            for name, size, children in zip(base, sizes, trees, strict=True)
        ]
        ends = np.array([_ENTRANCES[name] for name in motifs])
        planted = _with_random_edges(_attach(bases, sizes, motifs, rng, ends), rng)
        x = rng.random((planted.n_nodes.sum(), _PUBLISHED_FEATURES), np.float32)
    return planted.graphs(x, y, groups, {"base": base})


class _Planted(NamedTuple):
    """Graphs with a motif behind each base."""

    n_nodes: np.ndarray  # (g,)
    edges: np.ndarray  # (e, 2), nodes numbered over all graphs
    truth: np.ndarray  # (e,) whether an edge is a motif's

    def graphs(
        self, x: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None, meta: Meta = None
    ) -> GraphSet:
        """The graphs with features, x : (all nodes, d), and labels."""
        graph_of_node = np.repeat(np.arange(len(y)), self.n_nodes)
        return GraphSet.from_edges(
            self.edges, graph_of_node, x, y, edge_truth=self.truth, groups=groups, meta=meta
        )


def _attach(
    bases: Sequence[np.ndarray] | np.ndarray,
    sizes: np.ndarray,
    motifs: Sequence[str],
    rng: np.random.Generator,
    ends: np.ndarray | None = None,
) -> _Planted:
    """Put each motif behind its base, joined by one edge to a random node of it.

    bases : one (e, 2) edge array per graph; sizes : (g,) nodes of each base; ends : (g,) the motif's node
    that is joined, a random one if None.
    """
    n_graphs, n_nodes = len(sizes), sizes + MOTIF_NODES
    first = np.cumsum(n_nodes) - n_nodes  # each graph's first node in the list of all nodes
    behind = first + sizes  # its motif's first node
    planted = [MOTIFS[name] for name in motifs]
    base_edges = np.concatenate(bases) + np.repeat(first, [len(edges) for edges in bases])[:, None]
    motif_edges = np.concatenate(planted) + np.repeat(behind, [len(edges) for edges in planted])[:, None]
    starts = first + rng.integers(sizes)
    ends = rng.integers(MOTIF_NODES, size=n_graphs) if ends is None else ends
    edges = np.concatenate([base_edges, np.stack([starts, behind + ends], 1), motif_edges])
    return _Planted(n_nodes, edges, np.arange(len(edges)) >= len(edges) - len(motif_edges))


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
def _regular_edges(name: str, size: int, children: int = 2) -> np.ndarray:
    """(e, 2) edges of a tree, ladder or wheel of ``size`` nodes, of a ladder an even number."""
    if name == "tree":
        edges = [((node - 1) // children, node) for node in range(1, size)]
    elif name == "ladder":
        edges = [(node, node + 1) for node in range(0, size, 2)]  # the rungs
        edges += [(node, node + 2) for node in range(size - 2)]
    else:
        rim = range(1, size)
        edges = [(0, node) for node in rim] + [(node, node + 1) for node in rim[:-1]] + [(1, size - 1)]
    return np.array(edges, np.int64).reshape(-1, 2)


@cache
def _base(name: str, size: int) -> _Base:
    """A tree, ladder or wheel of ``size`` nodes; a ladder takes the next even number."""
    size += size % 2 if name == "ladder" else 0
    edges = _regular_edges(name, size)
    linked = np.zeros((size, size), bool)
    linked[tuple(edges.T)] = True
    return _Base(size, edges, np.argwhere(~linked & above_diagonal(size)))


def _with_extra_edges(base: _Base, rng: np.random.Generator) -> np.ndarray:
    n_extra = max(1, round(_EXTRA_EDGES * len(base.edges)))
    return np.concatenate([base.edges, rng.choice(base.absent, n_extra, replace=False, shuffle=False)])


def _published_sizes(
    base: np.ndarray, y: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(g,) children of every node of a tree, and (g,) nodes of every base."""

    def draw(usual: tuple[int, int], large: tuple[int, int]) -> np.ndarray:
        low, high = np.where((groups == "test")[:, None], large, usual).T
        return rng.integers(low, high + 1)

    children = rng.integers(2, 4, len(y))
    depths = draw((3, 3), (3, 5))
    small = (groups == "train") & (y != BASES.index("tree"))
    depths[small] = rng.integers(0, 3, small.sum())
    trees = (children ** (depths + 1) - 1) // (children - 1)
    ladders, wheels = 2 * draw((8, 11), (30, 49)), draw((15, 19), (60, 79))
    return children, np.select([base == "tree", base == "ladder"], [trees, ladders], wheels)


def _with_random_edges(planted: _Planted, rng: np.random.Generator) -> _Planted:
    """Add random edges anywhere in each graph, one for every 20 it has, and drop those within a motif."""
    n_nodes, edges, truth = planted
    first, n = np.cumsum(n_nodes) - n_nodes, n_nodes.sum()
    graph_of_node = np.repeat(np.arange(len(n_nodes)), n_nodes)
    n_extra = np.bincount(graph_of_node[edges[:, 0]], minlength=len(n_nodes)) // _EDGES_PER_EXTRA
    graph = np.repeat(np.arange(len(n_nodes)), n_extra)  # of every edge to draw
    known, found = np.sort(edges.min(1) * n + edges.max(1)), []
    while len(graph):  # those that hit a pair with an edge are drawn again
        pairs = first[graph, None] + rng.integers(n_nodes[graph, None], size=(len(graph), 2))
        keys = pairs.min(1) * n + pairs.max(1)
        new = np.zeros(len(keys), bool)
        new[np.unique(keys, return_index=True)[1]] = True
        new &= (pairs[:, 0] != pairs[:, 1]) & (known[np.searchsorted(known[:-1], keys)] != keys)
        known = np.sort(np.concatenate([known, keys[new]]))
        found.append(pairs[new])
        graph = graph[~new]
    extra = np.concatenate([edges[:0], *found])
    within = (extra >= (first + n_nodes - MOTIF_NODES)[graph_of_node[extra]]).all(1)
    extra = extra[~within]
    return _Planted(
        n_nodes, np.concatenate([edges, extra]), np.concatenate([truth, np.zeros(len(extra), bool)])
    )


def _part_sizes(n_graphs: int, fractions: Mapping[str, float]) -> list[int]:
    """Number of graphs of each part, then of training graphs; checked to leave each label a graph in each."""
    for name, share in fractions.items():
        number(f"{name}_fraction", share, 0, 1, include_low=True)
    rest = 1 - sum(fractions.values())
    given = ", ".join(f"{name}_fraction={share:.4g}" for name, share in fractions.items() if share)
    if rest <= 0:
        raise ValueError(f"test and validation fraction must leave training graphs, got {given}.")
    sizes = [round(n_graphs * share) for share in fractions.values()]
    shares = [*fractions.values(), rest]
    sizes.append(n_graphs - sum(sizes))
    n_labels = len(MOTIFS)
    if any(size < n_labels for size, share in zip(sizes, shares, strict=True) if share > 0):
        least = math.ceil(n_labels / min(share for share in shares if share > 0))
        raise ValueError(
            f"n_graphs must be at least {least} for {given or 'training graphs alone'}, so that each of the "
            f"{n_labels} labels has graphs in each part, got {n_graphs}."
        )
    return sizes
