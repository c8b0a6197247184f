"""Removal of edges: which decisions depend on those that an explanation names, beside removal at random.

Every function works with any fitted classifier that has ``predict_proba(GraphSet)``. A removed edge has no
evidence for any class: classifiers that say so by a method ``without_edges`` (see
`cignn.estimators.GraphClassifier`) are asked; for others the edge is gone. Nodes and their features stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from cignn import _checks
from cignn._arrays import symmetric
from cignn._checks import choice, number
from cignn._random import as_random_state
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.explainers.maps import t_values
from cignn.explanations import Explanations
from cignn.explanations.explanation import BY, NO_CONTRIBUTIONS, SIDES
from cignn.graphs import GraphSet

# a small part of a brain's edges can take its decision away
FEW = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
ROUNDED = 6  # digits of share · edges: 0.1 · 30 is 3, not 3.0000000000000004


class Classifier(Protocol):
    """What the scores ask of a classifier."""

    def predict_proba(self, X: GraphSet, /) -> np.ndarray:
        """(g, classes) class probabilities."""


class Removal(NamedTuple):
    """Probability of the class explained once edges of a graph are removed.

    Parameters
    ----------
    shares : array of shape (s,)
        Shares, or numbers, of edges removed.
    top : array of shape (s, g)
        The probability without the top edges.
    random : array of shape (s, g)
        The mean probability without as many random edges.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import Removal
    >>> removal = Removal(np.array([0.0, 0.01]), np.array([[0.75], [0.25]]), np.array([[0.75], [0.75]]))
    >>> (removal.random - removal.top)[-1].tolist()
    [0.5]
    """

    shares: np.ndarray
    top: np.ndarray
    random: np.ndarray


# ------------------------------------------------------------------ what is removed


def top_edge_masks(
    explanations: Explanations, share: float, by: str = "weight", side: str = "both"
) -> list[np.ndarray]:
    """Mark the top edges of every graph.

    Which of equal edges are marked is decided by a fixed scramble of their node numbers: the same in every
    run and whatever the other graphs are, and no favour to the nodes that come first.

    Parameters
    ----------
    explanations : Explanations
        The explained graphs.
    share : float
        Share of edges in [0, 1]; of e edges ⌈share · e⌉ are marked.
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges. "auto" is the contribution where there is one.
    side : {"both", "for", "against"}, default="both"
        How contributions rank: by their size, or with those first that speak most for, or most against, the
        class explained. Not used for weights.

    Returns
    -------
    list of bool arrays of shape (edges,)
        One mask per graph, aligned with ``graphs.edges(i)``.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import top_edge_masks
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> top_edge_masks(Explanations(triangle, [[0.1, 0.9, 0.5]]), 0.5)[0].tolist()
    [False, True, True]
    """
    return first_edges(explanations, edge_ranks(explanations, by, side), checked_share(share))


def edge_ranks(explanations: Explanations, by: str = "weight", side: str = "both") -> np.ndarray:
    """(all edges,) place of every edge in its graph, 0 for the top one, graph after graph."""
    return ranks_of(explanations.graphs, edge_scores(explanations, by, side))


def ranks_of(graphs: GraphSet, scores: Sequence[np.ndarray]) -> np.ndarray:
    """(all edges,) place of every edge in its graph by its score, the largest first; ties are scrambled."""
    pairs = [graphs.edges(i) for i in range(len(graphs))]
    flat = np.concatenate([np.empty((0, 2), np.int64), *pairs]).astype(np.uint64)
    scramble = (flat[:, 0] << np.uint64(32) | flat[:, 1]) * np.uint64(0x9E3779B97F4A7C15)
    scramble = (scramble ^ scramble >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    return _ranks(graphs.n_edges, -np.concatenate([np.empty(0, np.float32), *scores]), scramble)


def edge_scores(explanations: Explanations, by: str = "weight", side: str = "both") -> list[np.ndarray]:
    """(e,) per graph: what ranks its edges, see `top_edge_masks`."""
    choice("by", by, BY)
    choice("side", side, SIDES)
    contributions = explanations.edge_contributions
    if by == "weight" or (by == "auto" and contributions is None):
        return explanations.edge_weights
    if contributions is None:
        raise ValueError(NO_CONTRIBUTIONS)
    if side == "both":
        return [np.abs(values) for values in contributions]
    return contributions if side == "for" else [-values for values in contributions]


def random_ranks(graphs: GraphSet, n_random: int, random_state: Any) -> list[np.ndarray]:
    """Random orders of the edges of every graph, as `edge_ranks` gives them."""
    _checks.whole("n_random", n_random, 1)
    rng, counts = as_random_state(random_state), graphs.n_edges
    return [_ranks(counts, rng.random_sample(counts.sum())) for _ in range(n_random)]


def _ranks(counts: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """Place of every edge among those of its graph, by the first key, then the next."""
    graph = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((*reversed(keys), graph))
    place = np.arange(len(graph)) - np.repeat(np.cumsum(counts) - counts, counts)
    ranks = np.empty(len(graph), np.int64)
    ranks[order] = place
    return ranks


def first_edges(explanations: Explanations, ranks: np.ndarray, share: float) -> list[np.ndarray]:
    """One bool mask per graph of the first edges by rank; share : of all edges, a number if it is whole."""
    counts = explanations.graphs.n_edges
    exact = np.full(len(counts), share) if isinstance(share, Integral) else np.round(share * counts, ROUNDED)
    first = ranks < np.repeat(np.ceil(exact).astype(np.int64), counts)
    return np.split(first, np.cumsum(counts)[:-1])[: len(counts)]


def checked_share(share: float) -> float:
    """Return a share in [0, 1]."""
    return number("share", share, 0, 1, include_low=True, include_high=True)


def graphs_without(classifier: Classifier, graphs: GraphSet, gone: Sequence[np.ndarray]) -> GraphSet:
    """The graphs without the evidence of some edges; gone : one bool mask per graph."""
    remove = getattr(classifier, "without_edges", None)
    return graphs.with_edges([~mask for mask in gone]) if remove is None else remove(graphs, gone)


def probabilities_of(classifier: Classifier, graphs: GraphSet) -> np.ndarray:
    """(g, classes) probabilities; explained graphs are those the last step of a pipeline sees."""
    refuse_wrapped(classifier)
    return np.asarray(classifier.predict_proba(graphs))


def refuse_wrapped(classifier: Any) -> None:
    """Refuse what takes a cohort: of that, the classifier of graphs in the last step is scored."""
    kind = type(classifier)
    if hasattr(kind, "to_graphs") or (isinstance(classifier, Pipeline) and len(classifier) > 1):
        last = "model.classifier_" if hasattr(kind, "to_graphs") else "pipe[-1]"
        raise TypeError(f"a {kind.__name__} is scored by its classifier, which sees the graphs: pass {last}.")


def some(explanations: Explanations) -> GraphSet:
    """The explained graphs, at least one."""
    if not len(explanations):
        raise ValueError("there are no explanations to score, got none.")
    return explanations.graphs


# ------------------------------------------------------------------ what it does


def removal(
    classifier: Classifier,
    explanations: Explanations,
    shares: Sequence[float] = FEW,
    *,
    by: str = "auto",
    side: str = "for",
    n_random: int = 5,
    probabilities: np.ndarray | None = None,
    random_state: Any = 0,
) -> Removal:
    """How each graph's probability changes without its top edges, and without as many random ones.

    Parameters
    ----------
    classifier : Classifier
        Fitted classifier with ``predict_proba(GraphSet)``.
    explanations : Explanations
        Explanations of the graphs to predict.
    shares : sequence of float or int, default=(0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
        Shares of edges to remove as floats, or numbers of edges as ints.
    by : {"auto", "contribution", "weight"}, default="auto"
        What ranks the edges. "auto" is the contribution where there is one.
    side : {"for", "both", "against"}, default="for"
        How contributions rank: with those first that speak most for, or most against, the class explained,
        or by their size. Not used for weights.
    n_random : int, default=5
        Number of random orders over which chance is averaged.
    probabilities : array of shape (g, classes), default=None
        Probabilities of the whole graphs where they are known already.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the random orders.

    Returns
    -------
    Removal
        Named tuple of ``shares``, and of ``top`` and ``random``, both (s, g): the probability of the class
        explained, which is the predicted one where nothing else was asked for.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import removal
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> removal(model, model.explain(graphs), shares=[0, 1, 5], n_random=1).top.shape
    (3, 20)
    """
    steps = [_step(share) for share in shares]
    counts = some(explanations).n_edges
    whole = probabilities_of(classifier, explanations.graphs) if probabilities is None else probabilities
    target = _explained(classifier, explanations, whole)
    orders = [edge_ranks(explanations, by, side)]
    orders += random_ranks(explanations.graphs, n_random, random_state)
    left = np.empty((len(orders), len(steps), len(counts)))
    for order, ranks in enumerate(orders):
        for k, after in enumerate(probabilities_without(classifier, explanations, ranks, steps, whole)):
            left[order, k] = after[np.arange(len(counts)), target]
    return Removal(np.array(steps), left[0], left[1:].mean(0))


def reversals(
    classifier: Classifier,
    explanations: Explanations,
    rankings: Mapping[str, Sequence[np.ndarray]] | None = None,
    share: float = 0.01,
    *,
    n_random: int = 5,
    random_state: Any = 0,
) -> pd.DataFrame:
    """How many decisions change without the top edges, by contribution, weight, other rankings and chance.

    Parameters
    ----------
    classifier : Classifier
        Fitted classifier with ``predict_proba(GraphSet)``.
    explanations : Explanations
        Explanations, of the predicted classes, of the graphs to predict.
    rankings : mapping of str to sequences of arrays of shape (e,), default=None
        Other rankings to compare with: for each graph one score per edge, the largest first.
    share : float or int, default=0.01
        Share of edges to remove as a float, or the number of edges as an int.
    n_random : int, default=5
        Number of random orders over which chance is averaged.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the random orders.

    Returns
    -------
    DataFrame
        One row per ranking: its name in ``ranking``; ``reversed``, the share of graphs whose predicted class
        changes; ``lost``, the mean loss in the probability of this class. "contribution" removes first what
        speaks most for the class explained.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import reversals
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> by_number = {"edge number": [np.arange(n) for n in graphs.n_edges]}
    >>> reversals(model, model.explain(graphs), by_number, share=0)["reversed"].max().item()
    0.0
    """
    graphs, step = some(explanations), _step(share)
    whole = probabilities_of(classifier, graphs)
    orders = {"weight": [edge_ranks(explanations)]}
    if explanations.edge_contributions is not None:
        orders = {"contribution": [edge_ranks(explanations, "contribution", "for")]} | orders
    orders |= {name: [ranks_of(graphs, scores)] for name, scores in (rankings or {}).items()}
    chance = random_ranks(graphs, n_random, random_state)
    every, label = np.arange(len(graphs)), whole.argmax(1)
    rows = []
    for name, alike in (orders | {"random": chance}).items():
        after = [
            next(probabilities_without(classifier, explanations, ranks, [step], whole)) for ranks in alike
        ]
        changed = np.mean([left.argmax(1) != label for left in after])
        lost = np.mean([(whole - left)[every, label] for left in after])
        rows.append({"ranking": name, "reversed": float(changed), "lost": float(lost)})
    return pd.DataFrame(rows)


def univariate_scores(
    training: GraphSet, graphs: GraphSet, explained: np.ndarray | None = None
) -> list[np.ndarray]:
    """Evidence of each connection read alone: its two-sample t times the graph's deviation.

    This is what a ranking of connections without a model has to offer; `reversals` compares it with
    contributions.

    Parameters
    ----------
    training : GraphSet
        Aligned graphs with labels of two classes: t, mean and standard deviation come from them.
    graphs : GraphSet
        Graphs with the same nodes.
    explained : array of shape (g,), default=None
        The class towards which each graph's evidence counts. By default it counts by its size.

    Returns
    -------
    list of arrays of shape (e,)
        One score per edge of ``graphs.edges(i)``: |t| · |deviation|, or t · deviation with the sign of the
        class explained.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import GraphSet
    >>> from cignn.evaluation import univariate_scores
    >>> adj = (1 - np.eye(3)) * np.array([0.25, 0.5, 0.75, 1.0])[:, None, None]
    >>> graphs = GraphSet.from_arrays(adj, y=[0, 0, 1, 1], aligned=True)
    >>> [len(scores) for scores in univariate_scores(graphs, graphs)]
    [3, 3, 3, 3]
    """
    n = int(training.n_nodes[0])
    vectors = connectivity_vector(training, n).astype(np.float64)
    labels = np.empty(0) if training.y is None else training.y
    classes = np.unique(labels)
    if len(classes) != 2:
        raise ValueError(f"a two-sample t needs training graphs of two classes, got {len(classes)}.")
    t = t_values(vectors, labels == classes[1])
    spread = vectors.std(0, ddof=1)
    slope = np.divide(t, spread, out=np.zeros(len(spread)), where=spread > 0)
    sign = np.ones(len(graphs)) if explained is None else np.where(explained == classes[1], 1, -1)
    slopes, means = (symmetric(values, np.zeros((n, n))) for values in (slope, vectors.mean(0)))
    scores = []
    for i in range(len(graphs)):
        ends = tuple(graphs.edges(i).T)
        evidence = slopes[ends] * (graphs.edge_values(i) - means[ends])
        scores.append(np.abs(evidence) if explained is None else sign[i] * evidence)
    return scores


def probabilities_without(
    classifier: Classifier,
    explanations: Explanations,
    ranks: np.ndarray,
    shares: Sequence[float] | np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Yield, share by share, (g, classes) probabilities once the first edges by ``ranks`` are gone.

    ranks : see `edge_ranks`; shares : see `removal`; whole : probabilities of the whole graphs, if known.
    """
    for share in shares:
        gone = first_edges(explanations, ranks, share)
        if whole is not None and not any(mask.any() for mask in gone):
            yield whole
        else:
            yield probabilities_of(classifier, graphs_without(classifier, explanations.graphs, gone))


def _explained(classifier: Classifier, explanations: Explanations, whole: np.ndarray) -> np.ndarray:
    """(g,) numbers of the classes explained, the predicted ones where explanations do not say."""
    if explanations.edge_contributions is None or explanations.explained is None:
        return whole.argmax(1)
    return class_numbers(classifier, explanations.explained, "explained")


def class_numbers(classifier: Classifier, labels: np.ndarray, what: str) -> np.ndarray:
    """(g,) class numbers of labels."""
    classes = np.asarray(classifier.classes_)  # type: ignore[attr-defined]
    unknown = sorted(set(np.asarray(labels).tolist()) - set(classes.tolist()))
    if unknown:
        raise ValueError(f"{what} has labels that the classifier does not know: {unknown}.")
    return np.searchsorted(classes, labels)


def _step(share: float) -> float:
    """A share of edges in [0, 1] as a float, or a number of edges as an int."""
    is_count = isinstance(share, Integral) and not isinstance(share, bool)
    return _checks.whole("share", share, 0) if is_count else checked_share(share)
