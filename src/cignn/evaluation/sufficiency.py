"""Sufficiency of explanations: do their edges fix the decision, and does the mask of a cut graph agree?

A classifier may decide as before on the top edges alone and yet change its mind once some of the other edges
are there too: such an explanation passes `fidelity` and is none. What removing an edge means is said in
`cignn.evaluation.removal`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from cignn._checks import number, whole
from cignn._random import as_random_state
from cignn.estimators import ExplainingClassifier, FlatMaskWarning
from cignn.evaluation.explanation import pearson
from cignn.evaluation.removal import (
    Classifier,
    edge_scores,
    graphs_without,
    probabilities_of,
    random_ranks,
    refuse_wrapped,
    some,
    top_edge_masks,
)
from cignn.explainers import BuiltInExplainer
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

CELLS = 2**22  # of the dense matrices of the graphs that are predicted in one call


class SupersetSufficiency(NamedTuple):
    """How much a prediction changes while the edges of its explanation stay.

    Parameters
    ----------
    worst : array of shape (g,)
        Largest change, up or down, of the probability of the class predicted on the whole graph.
    label_changes : bool array of shape (g,)
        Whether another class was predicted at least once.
    random_worst : array of shape (g,)
        As ``worst``, for as many random edges in place of the explanation.
    random_label_changes : array of shape (g,)
        Share of these random explanations for which another class was predicted at least once.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import SupersetSufficiency
    >>> found = SupersetSufficiency(np.array([0.25]), np.array([False]), np.array([0.75]), np.array([1.0]))
    >>> (found.random_worst - found.worst).tolist()
    [0.5]
    """

    worst: np.ndarray
    label_changes: np.ndarray
    random_worst: np.ndarray
    random_label_changes: np.ndarray


class SelfConsistency(NamedTuple):
    """How alike the weights of the top edges are when a graph is cut to them and explained again.

    Parameters
    ----------
    difference : array of shape (g,)
        Mean absolute difference of the weights of the top edges.
    rank_correlation : array of shape (g,)
        Spearman correlation of these weights.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import SelfConsistency
    >>> SelfConsistency(np.array([0.25, 0.5]), np.array([1.0, -1.0])).difference.mean().item()
    0.375
    """

    difference: np.ndarray
    rank_correlation: np.ndarray


def superset_sufficiency(
    classifier: Classifier,
    explanations: Explanations,
    share: float = 0.3,
    *,
    threshold: float | None = None,
    by: str = "weight",
    side: str = "both",
    n_draws: int = 10,
    n_random: int = 1,
    probabilities: np.ndarray | None = None,
    random_state: Any = 0,
) -> SupersetSufficiency:
    """Worst change of the prediction over random graphs between the explanation and the whole graph.

    Every graph drawn has all edges of the explanation and some of the others. The first has none of them, as
    in `fidelity`, draw k of n keeps each with probability k / n. If the explanation is sufficient, no choice
    of the others changes the prediction. More draws find more changes: compare figures of equal ``n_draws``.

    Parameters
    ----------
    classifier : Classifier
        Fitted classifier with ``predict_proba(GraphSet)``.
    explanations : Explanations
        Explanations of the graphs to predict.
    share : float, default=0.3
        Share of edges that make the explanation, the top ones.
    threshold : float or None, default=None
        Weight from which on an edge belongs to the explanation, used in place of ``share``.
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges and is compared with ``threshold``, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions rank, see `top_edge_masks`.
    n_draws : int, default=10
        Number of graphs drawn for each graph and explanation.
    n_random : int, default=1
        Number of random explanations of the same size over which chance is averaged. They see the same draws.
    probabilities : array of shape (g, classes), default=None
        Probabilities of the whole graphs where they are known already.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the draws and of the random explanations.

    Returns
    -------
    SupersetSufficiency
        Named tuple of ``worst``, ``label_changes``, ``random_worst`` and ``random_label_changes``, each (g,).
        A good explanation has a low worst change, well below that of random edges.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import superset_sufficiency
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> explanations = model.explain(graphs)
    >>> superset_sufficiency(model, explanations, n_draws=3).worst.shape
    (20,)
    >>> superset_sufficiency(model, explanations, share=1.0).label_changes.any().item()
    False
    """
    whole("n_draws", n_draws, 1)
    graphs, random = some(explanations), as_random_state(random_state)
    of_graph = np.repeat(np.arange(len(graphs)), graphs.n_edges)
    inside = np.concatenate(_explanation(explanations, share, threshold, by, side))
    sizes = np.bincount(of_graph, inside, minlength=len(graphs))
    chance = [ranks < sizes[of_graph] for ranks in random_ranks(graphs, n_random, random)]
    others = [random.random_sample(len(inside)) < draw / n_draws for draw in range(n_draws)]
    before = probabilities_of(classifier, graphs) if probabilities is None else np.asarray(probabilities)
    label, row = before.argmax(1), np.arange(len(graphs))
    worst, changes = [], []
    for kept in (inside, *chance):
        after = _probabilities(classifier, graphs, [kept | other for other in others])
        worst.append(np.abs(after[:, row, label] - before[row, label]).max(0))
        changes.append((after.argmax(2) != label).any(0))
    return SupersetSufficiency(worst[0], changes[0], np.mean(worst[1:], 0), np.mean(changes[1:], 0))


def self_consistency(explainer: Any, explanations: Explanations, share: float = 0.3) -> SelfConsistency:
    """Cut every graph to its top edges, explain it again and compare the weights of these edges.

    A constant mask is perfectly consistent: read the difference beside `explanation_gap` or `sparsity`.

    Parameters
    ----------
    explainer : Explainer or classifier with ``explain``
        The fitted explainer, or the classifier, that made the explanations.
    explanations : Explanations
        Its explanations of the whole graphs.
    share : float, default=0.3
        Share of edges that are kept, the top ones by weight.

    Returns
    -------
    SelfConsistency
        Named tuple of ``difference``, NaN for a graph without edges, and ``rank_correlation``, NaN where the
        weights of the kept edges are constant in either explanation; each (g,).

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import self_consistency
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> self_consistency(model, model.explain(graphs), share=1.0).difference.max().item() < 1e-6
    True
    """
    refuse_wrapped(explainer)
    if not callable(getattr(explainer, "explain", None)):
        name = type(explainer).__name__
        raise TypeError(f"self_consistency explains anew, {name} has no explain; pass the fitted explainer.")
    graphs, keep = some(explanations), top_edge_masks(explanations, share)
    cut = graphs_without(getattr(explainer, "estimator_", explainer), graphs, [~mask for mask in keep])
    again = _weights(explainer, cut)
    difference, correlation = np.full((2, len(graphs)), np.nan)
    for i, mask in enumerate(keep):
        first = explanations.edge_weights[i][mask].astype(np.float64)
        second = again.edge_weights[i][_places(graphs.edges(i)[mask], again.graphs.edges(i))]
        if len(first):
            difference[i] = np.abs(first - second).mean()
            correlation[i] = pearson(rankdata(first), rankdata(second))
    return SelfConsistency(difference, correlation)


def _explanation(
    explanations: Explanations, share: float, threshold: float | None, by: str, side: str
) -> list[np.ndarray]:
    """One bool mask per graph: its top edges, or those from a weight on."""
    if threshold is None:
        return top_edge_masks(explanations, share, by, side)
    number("threshold", threshold, -np.inf, np.inf)
    return [values >= threshold for values in edge_scores(explanations, by, side)]


def _probabilities(classifier: Classifier, graphs: GraphSet, kept: Sequence[np.ndarray]) -> np.ndarray:
    """(draws, g, classes) probabilities with some edges only; kept : (all edges,) bool for every draw.

    Several draws are predicted in one call, unless the graphs are large.
    """
    ends = np.cumsum(graphs.n_edges)[:-1]
    together = max(1, int(CELLS // (graphs.n_nodes.astype(np.int64) ** 2).sum()))
    parts = []
    for start in range(0, len(kept), together):
        draws = kept[start : start + together]
        many = graphs if len(draws) == 1 else graphs[np.tile(np.arange(len(graphs)), len(draws))]
        gone = [mask for draw in draws for mask in np.split(~draw, ends)]
        after = probabilities_of(classifier, graphs_without(classifier, many, gone))
        parts.append(after.reshape(len(draws), len(graphs), -1))
    return np.concatenate(parts)


def _weights(explainer: Any, graphs: GraphSet) -> Explanations:
    """Explanations of which only the weights are needed; those of cut graphs may well be alike."""
    own = explainer.estimator_ if isinstance(explainer, BuiltInExplainer) else explainer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatMaskWarning)
        if isinstance(own, ExplainingClassifier):
            return own.explain(graphs, contributions=False)
        return explainer.explain(graphs)


def _places(edges: np.ndarray, among: np.ndarray) -> np.ndarray:
    """(k,) where edges (k, 2) are found among others (e, 2) of the same graph."""
    n = int(among.max(initial=0)) + 1
    wanted, codes = (pairs.astype(np.int64) @ [n, 1] for pairs in (edges, among))
    order = np.argsort(codes)
    return order[np.searchsorted(codes, wanted, sorter=order)]
