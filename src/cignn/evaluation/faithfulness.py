"""Explanations against the classifier they explain: does its decision depend on the top edges?

Every function works with any fitted classifier that has ``predict_proba(GraphSet)``. What removing an edge
means is said in `cignn.evaluation.removal`: nodes and their features stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cignn._checks import number
from cignn.evaluation.removal import (
    Classifier,
    checked_share,
    class_numbers,
    edge_ranks,
    first_edges,
    graphs_without,
    probabilities_of,
    probabilities_without,
    random_ranks,
    some,
    top_edge_masks,
)
from cignn.explanations import Explanations

SHARES = tuple(round(0.1 * k, 1) for k in range(1, 11))  # the paper's μ
OUTPUTS = ("probability", "label")


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


def explanation_accuracy(
    classifier: Classifier,
    explanations: Explanations,
    shares: Sequence[float] = SHARES,
    *,
    by: str = "weight",
    side: str = "both",
    probabilities: np.ndarray | None = None,
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
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions rank, see `top_edge_masks`.
    probabilities : array of shape (g, classes), default=None
        Probabilities of the whole graphs where they are known already.

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
    shares_ = np.array([checked_share(share) for share in shares])
    if len(shares_) < 2 or (np.diff(shares_) <= 0).any():
        raise ValueError(f"shares must be at least two and rise, got {list(shares)}.")
    graphs, ranks = some(explanations), edge_ranks(explanations, by, side)
    whole = probabilities_of(classifier, graphs) if probabilities is None else np.asarray(probabilities)
    accuracy = []
    for share in shares_:
        gone = [~mask for mask in first_edges(explanations, ranks, share)]
        after = whole
        if any(mask.any() for mask in gone):
            after = probabilities_of(classifier, graphs_without(classifier, graphs, gone))
        accuracy.append((after.argmax(1) == whole.argmax(1)).mean())
    heights, steps = np.array(accuracy), np.diff(shares_)
    area = ((heights[1:] + heights[:-1]) / 2) @ steps / steps.sum()
    return ExplanationCurve(shares_, heights, float(area))


def fidelity(
    classifier: Classifier,
    explanations: Explanations,
    share: float = 0.3,
    output: str = "probability",
    *,
    by: str = "weight",
    side: str = "both",
    probabilities: np.ndarray | None = None,
) -> Fidelity:
    """How predictions change without the top edges, and with the top edges only.

    Parameters
    ----------
    classifier : Classifier
        Fitted classifier with ``predict_proba(GraphSet)``.
    explanations : Explanations
        Explanations of the graphs to predict.
    share : float, default=0.3
        Share of edges that make the explanation, the top ones.
    output : {"probability", "label"}, default="probability"
        What is looked at: the fall in the probability of the class predicted on the whole graph, or 1 where
        the predicted class changes and 0 where it stays.
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions rank, see `top_edge_masks`.
    probabilities : array of shape (g, classes), default=None
        Probabilities of the whole graphs where they are known already.

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
    graphs, keep = some(explanations), top_edge_masks(explanations, share, by, side)
    before = probabilities_of(classifier, graphs) if probabilities is None else np.asarray(probabilities)
    rest = probabilities_of(classifier, graphs_without(classifier, graphs, keep))
    alone = probabilities_of(classifier, graphs_without(classifier, graphs, [~mask for mask in keep]))
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
    by: str = "weight",
    side: str = "both",
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
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions rank, see `top_edge_masks`.
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
    shares_ = np.array([checked_share(share) for share in shares])
    target = _targets(classifier, explanations, y)
    orders = [edge_ranks(explanations, by, side)]
    orders += random_ranks(explanations.graphs, n_random, random_state)
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


def _targets(classifier: Classifier, explanations: Explanations, y: np.ndarray | None) -> np.ndarray:
    """(g,) class numbers to hold on to: those of ``y``, else the predicted ones."""
    if y is None:
        return probabilities_of(classifier, some(explanations)).argmax(1)
    if len(y) != len(explanations):
        raise ValueError(f"y must have one label per graph ({len(explanations)}), got {len(y)}.")
    return class_numbers(classifier, y, "y")
