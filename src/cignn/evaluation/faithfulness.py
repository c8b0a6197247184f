"""Explanations against the classifier they explain: does its decision depend on the top edges?

Every function works with any fitted classifier that has ``predict_proba(GraphSet)``. Edges are kept or
removed for real: nodes and their features stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.pipeline import Pipeline

from cignn import _checks
from cignn._checks import number
from cignn._random import as_random_state
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

SHARES = tuple(round(0.1 * k, 1) for k in range(1, 11))  # the paper's μ
OUTPUTS = ("probability", "label")


class Classifier(Protocol):
    """What the scores ask of a classifier."""

    def predict_proba(self, X: GraphSet, /) -> np.ndarray:
        """(g, classes) class probabilities."""


class ExplanationCurve(NamedTuple):
    """How often the predicted class stays the same if only the top share of edges is kept.

    Parameters
    ----------
    shares : array of shape (s,)
        Shares of edges kept, the top ones by explanation weight.
    accuracy : array of shape (s,)
        Share of graphs whose predicted class stays.
    auc : float
        Area under the curve, divided by the range of the shares.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import ExplanationCurve
    >>> ExplanationCurve(np.array([0.5, 1.0]), np.array([0.8, 1.0]), 0.9).auc
    0.9
    """

    shares: np.ndarray
    accuracy: np.ndarray
    auc: float


class Fidelity(NamedTuple):
    """What the decision loses without the explanation (plus) and with nothing but it (minus), each (g,)."""

    plus: np.ndarray
    minus: np.ndarray


class RemovalCurve(NamedTuple):
    """How predictions change when a share of edges is removed, top edges first or at random.

    Parameters
    ----------
    shares : array of shape (s,)
        Shares of edges removed.
    accuracy : array of shape (s,)
        Share of graphs whose class stays (or is right) without their top edges.
    probability : array of shape (s,)
        Mean probability of that class without the top edges.
    random_accuracy : array of shape (s,)
        As ``accuracy``, with edges removed at random.
    random_probability : array of shape (s,)
        As ``probability``, with edges removed at random.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import RemovalCurve
    >>> falls, stays = np.array([1.0, 0.5]), np.array([1.0, 0.9])
    >>> curve = RemovalCurve(np.array([0.0, 0.3]), falls, falls, stays, stays)
    >>> (curve.random_accuracy - curve.accuracy).tolist()
    [0.0, 0.4]
    """

    shares: np.ndarray
    accuracy: np.ndarray
    probability: np.ndarray
    random_accuracy: np.ndarray
    random_probability: np.ndarray


# ------------------------------------------------------------------ what is kept


def top_edge_masks(explanations: Explanations, share: float) -> list[np.ndarray]:
    """Mark the top edges of every graph by explanation weight.

    Which of equally weighted edges are marked is decided by a fixed scramble of their node numbers: the same
    in every run and whatever the other graphs are, and no favour to the nodes that come first.

    Parameters
    ----------
    explanations : Explanations
        The explained graphs.
    share : float
        Share of edges in [0, 1]; of e edges ⌈share · e⌉ are marked.

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
    return _first(explanations, edge_ranks(explanations), _checked_share(share))


def edge_ranks(explanations: Explanations) -> np.ndarray:
    """(all edges,) place of every edge in its graph, 0 for the top one, graph after graph."""
    pairs = [explanations.graphs.edges(i) for i in range(len(explanations))]
    flat = np.concatenate([np.empty((0, 2), np.int64), *pairs]).astype(np.uint64)
    scramble = (flat[:, 0] << np.uint64(32) | flat[:, 1]) * np.uint64(0x9E3779B97F4A7C15)
    scramble = (scramble ^ scramble >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    weights = np.concatenate([np.empty(0, np.float32), *explanations.edge_weights])
    return _ranks(explanations.graphs.n_edges, -weights, scramble)


def _ranks(counts: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """Place of every edge among those of its graph, by the first key, then the next."""
    graph = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((*reversed(keys), graph))
    place = np.arange(len(graph)) - np.repeat(np.cumsum(counts) - counts, counts)
    ranks = np.empty(len(graph), np.int64)
    ranks[order] = place
    return ranks


def _first(explanations: Explanations, ranks: np.ndarray, share: float) -> list[np.ndarray]:
    counts = explanations.graphs.n_edges
    n_kept = np.ceil(np.round(share * counts, 6)).astype(np.int64)  # 0.1 · 30 is 3, not 3.0000000000000004
    first = ranks < np.repeat(n_kept, counts)
    return np.split(first, np.cumsum(counts)[:-1])[: len(counts)]


def _checked_share(share: float) -> float:
    return number("share", share, 0, 1, include_low=True, include_high=True)


# ------------------------------------------------------------------------ scores


def explanation_accuracy(
    classifier: Classifier, explanations: Explanations, shares: Sequence[float] = SHARES
) -> ExplanationCurve:
    """How often the predicted class stays the same with the top edges only: the explanation accuracy.

    Parameters
    ----------
    classifier : Classifier
        Fitted classifier with ``predict_proba(GraphSet)``.
    explanations : Explanations
        Explanations of the graphs to predict.
    shares : sequence of float, default=(0.1, 0.2, ..., 1.0)
        Shares of edges to keep, the paper's μ, rising.

    Returns
    -------
    ExplanationCurve
        Named tuple of ``shares``, ``accuracy`` and ``auc``, the area under the curve divided by the range of
        the shares: 1 when no class ever changes.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import explanation_accuracy
    >>> from cignn.explainers import make_explainer
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("random-forest", n_estimators=5, random_state=0).fit(graphs)
    >>> explanations = make_explainer("random", random_state=0).fit(model, graphs).explain(graphs)
    >>> explanation_accuracy(model, explanations, shares=[0.5, 1.0]).accuracy[-1].item()
    1.0
    """
    shares_ = np.array([_checked_share(share) for share in shares])
    if len(shares_) < 2 or (np.diff(shares_) <= 0).any():
        raise ValueError(f"shares must be at least two and rise, got {list(shares)}.")
    whole = _classes(classifier, _some(explanations))
    ranks = edge_ranks(explanations)
    accuracy = []
    for share in shares_:
        kept = explanations.graphs.with_edges(_first(explanations, ranks, share))
        accuracy.append((_classes(classifier, kept) == whole).mean())
    heights, steps = np.array(accuracy), np.diff(shares_)
    area = ((heights[1:] + heights[:-1]) / 2) @ steps / steps.sum()
    return ExplanationCurve(shares_, heights, float(area))


def fidelity(
    classifier: Classifier, explanations: Explanations, share: float = 0.3, output: str = "probability"
) -> Fidelity:
    """How predictions change without the top edges, and with the top edges only.

    Parameters
    ----------
    classifier : Classifier
        Fitted classifier with ``predict_proba(GraphSet)``.
    explanations : Explanations
        Explanations of the graphs to predict.
    share : float, default=0.3
        Share of edges that make the explanation, the top ones by weight.
    output : {"probability", "label"}, default="probability"
        What is looked at: the fall in the probability of the class predicted on the whole graph, or 1 where
        the predicted class changes and 0 where it stays.

    Returns
    -------
    Fidelity
        Named tuple of ``plus`` and ``minus``, each (g,): the loss without the top edges and with these alone.
        A good explanation has a high plus and a low minus.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import fidelity
    >>> from cignn.explainers import make_explainer
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("random-forest", n_estimators=5, random_state=0).fit(graphs)
    >>> explanations = make_explainer("random", random_state=0).fit(model, graphs).explain(graphs)
    >>> fidelity(model, explanations, share=1.0).minus.max().item()  # all edges are the whole graph
    0.0
    """
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(map(repr, OUTPUTS))}, got {output!r}.")
    graphs, keep = _some(explanations), top_edge_masks(explanations, share)
    before = _ask(classifier, graphs)
    rest = _ask(classifier, graphs.with_edges([~mask for mask in keep]))
    alone = _ask(classifier, graphs.with_edges(keep))
    label = before.argmax(1)
    if output == "label":
        return Fidelity(*((after.argmax(1) != label).astype(float) for after in (rest, alone)))
    row = np.arange(len(label))
    return Fidelity(*(before[row, label] - after[row, label] for after in (rest, alone)))


def characterisation_score(
    plus: float | np.ndarray, minus: float | np.ndarray, plus_weight: float = 0.5, minus_weight: float = 0.5
) -> Any:
    """Weighted harmonic mean of fidelity+ and 1 − fidelity−.

    Give it means over graphs: a mean of harmonic means is dominated by zeros.

    Parameters
    ----------
    plus : float or array of shape (g,)
        Fidelity+.
    minus : float or array of shape (g,)
        Fidelity−.
    plus_weight : float, default=0.5
        Weight of fidelity+.
    minus_weight : float, default=0.5
        Weight of 1 − fidelity−.

    Returns
    -------
    float or array of shape (g,)
        The score; 0 where either part is not above 0, NaN where one is NaN.

    Examples
    --------
    >>> from cignn.evaluation import characterisation_score
    >>> float(characterisation_score(0.5, 0.5))
    0.5
    """
    for name, weight in (("plus_weight", plus_weight), ("minus_weight", minus_weight)):
        number(name, weight, 0, np.inf)
    kept, lost = np.asarray(plus, float), 1 - np.asarray(minus, float)
    good = (kept > 0) & (lost > 0)
    kept_, lost_ = np.where(good, kept, 1), np.where(good, lost, 1)
    score = (plus_weight + minus_weight) / (plus_weight / kept_ + minus_weight / lost_)
    return np.where(good, score, 0.0 * (kept + lost))[()]


def sparsity(explanations: Explanations, threshold: float | None = 0.5) -> np.ndarray:
    """Share of a graph's edges that the explanation leaves out.

    Parameters
    ----------
    explanations : Explanations
        The explained graphs.
    threshold : float or None, default=0.5
        Weight below which an edge is left out. None for 1 − the mean weight.

    Returns
    -------
    array of shape (g,)
        The shares; NaN for a graph without edges.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import sparsity
    >>> from cignn.graphs import GraphSet
    >>> square = GraphSet.from_arrays([np.eye(4)[[1, 2, 3, 0]] + np.eye(4)[[3, 0, 1, 2]]])
    >>> sparsity(Explanations(square, [[0.1, 0.9, 0.2, 0.3]])).tolist()
    [0.75]
    """
    if threshold is not None:
        number("threshold", threshold, -np.inf, np.inf)
    light = [1 - w if threshold is None else w < threshold for w in explanations.edge_weights]
    return np.array([values.mean(dtype=np.float64) if len(values) else np.nan for values in light])


def removal_curve(
    classifier: Classifier,
    explanations: Explanations,
    shares: Sequence[float] = (0.0, *SHARES),
    *,
    y: np.ndarray | None = None,
    n_random: int = 5,
    random_state: Any = 0,
) -> RemovalCurve:
    """How predictions change when top edges are removed, and when random edges are removed.

    An explanation that matters falls faster than chance.

    Parameters
    ----------
    classifier : Classifier
        Fitted classifier with ``predict_proba(GraphSet)``.
    explanations : Explanations
        Explanations of the graphs to predict.
    shares : sequence of float, default=(0.0, 0.1, ..., 1.0)
        Shares of edges to remove.
    y : array of shape (g,) or None, default=None
        Labels to be right about, by default the classes predicted on the whole graphs.
    n_random : int, default=5
        Number of random orders over which chance is averaged.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the random orders.

    Returns
    -------
    RemovalCurve
        Named tuple of ``shares``, ``accuracy``, ``probability``, ``random_accuracy`` and
        ``random_probability``, each (s,).

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import removal_curve
    >>> from cignn.explainers import make_explainer
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("random-forest", n_estimators=5, random_state=0).fit(graphs)
    >>> explanations = make_explainer("random", random_state=0).fit(model, graphs).explain(graphs)
    >>> curve = removal_curve(model, explanations, shares=[0.0, 0.5], n_random=2)
    >>> curve.accuracy[0].item(), curve.random_accuracy[0].item()
    (1.0, 1.0)
    """
    _checks.whole("n_random", n_random, 1)
    shares_ = np.array([_checked_share(share) for share in shares])
    rng = as_random_state(random_state)
    counts = explanations.graphs.n_edges
    target = _targets(classifier, explanations, y)
    orders = [edge_ranks(explanations)]
    orders += [_ranks(counts, rng.random_sample(counts.sum())) for _ in range(n_random)]
    curves = np.array([_removed(classifier, explanations, ranks, shares_, target) for ranks in orders])
    (accuracy, probability), chance = curves[0], curves[1:].mean(0)
    return RemovalCurve(shares_, accuracy, probability, *chance)


def _removed(
    classifier: Classifier,
    explanations: Explanations,
    ranks: np.ndarray,
    shares: np.ndarray,
    target: np.ndarray,
) -> np.ndarray:
    """(2, s): accuracy and probability of the target class, the first edges by ``ranks`` removed."""
    out = np.empty((2, len(shares)))
    for k, after in enumerate(probabilities_without(classifier, explanations, ranks, shares)):
        out[:, k] = (after.argmax(1) == target).mean(), after[np.arange(len(target)), target].mean()
    return out


def probabilities_without(
    classifier: Classifier,
    explanations: Explanations,
    ranks: np.ndarray,
    shares: Sequence[float] | np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Yield, share by share, (g, classes) probabilities once the first edges by ``ranks`` are gone.

    ranks : see `edge_ranks`; whole : the probabilities of the whole graphs, where they are known already.
    """
    for share in shares:
        gone = _first(explanations, ranks, _checked_share(share))
        if whole is not None and not any(mask.any() for mask in gone):
            yield whole
        else:
            left = explanations.graphs.with_edges([~mask for mask in gone])
            yield np.asarray(_ask(classifier, left))


def _targets(classifier: Classifier, explanations: Explanations, y: np.ndarray | None) -> np.ndarray:
    """(g,) class numbers to hold on to: those of ``y``, else the predicted ones."""
    if y is None:
        return _classes(classifier, _some(explanations))
    if len(y) != len(explanations):
        raise ValueError(f"y must have one label per graph ({len(explanations)}), got {len(y)}.")
    classes = np.asarray(classifier.classes_)  # type: ignore[attr-defined]
    unknown = sorted(set(np.asarray(y).tolist()) - set(classes.tolist()))
    if unknown:
        raise ValueError(f"y has labels that the classifier does not know: {unknown}.")
    return np.searchsorted(classes, y)


def _classes(classifier: Classifier, graphs: GraphSet) -> np.ndarray:
    return _ask(classifier, graphs).argmax(1)


def _ask(classifier: Classifier, graphs: GraphSet) -> np.ndarray:
    """(g, classes) probabilities; explained graphs are those the last step of a pipeline sees."""
    kind = type(classifier)
    if hasattr(kind, "to_graphs") or (isinstance(classifier, Pipeline) and len(classifier) > 1):
        last = "model.classifier_" if hasattr(kind, "to_graphs") else "pipe[-1]"
        raise TypeError(f"a {kind.__name__} is scored by its classifier, which sees the graphs: pass {last}.")
    return classifier.predict_proba(graphs)


def _some(explanations: Explanations) -> GraphSet:
    if not len(explanations):
        raise ValueError("there are no explanations to score, got none.")
    return explanations.graphs
