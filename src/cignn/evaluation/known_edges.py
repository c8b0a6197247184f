"""Scores of explanations against known edges, which are the true ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import rankdata

from cignn.evaluation.removal import edge_scores
from cignn.explanations import Explanations


def explanation_roc_auc(
    explanations: Explanations,
    truth: Sequence[np.ndarray] | None = None,
    *,
    by: str = "weight",
    side: str = "both",
) -> np.ndarray:
    """Area under the ROC curve of edge weight against edge truth, each undirected edge once.

    Parameters
    ----------
    explanations : Explanations
        The explained graphs.
    truth : sequence of arrays of shape (n, n) or None, default=None
        One bool matrix per graph, or one for all aligned graphs; by default the graphs' own. An edge may be
        marked in one direction only.
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions rank, see `top_edge_masks`.

    Returns
    -------
    array of shape (g,)
        The areas; NaN for a graph whose edges are all true or all false.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import explanation_roc_auc
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> truth = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    >>> explanation_roc_auc(Explanations(triangle, [[0.5, 0.9, 0.1]]), [truth]).tolist()
    [0.5]
    """
    return np.array([roc_area(*edges) for edges in _edges_with_truth(explanations, truth, by, side)])


def explanation_roc_auc_overall(
    explanations: Explanations,
    truth: Sequence[np.ndarray] | None = None,
    *,
    by: str = "weight",
    side: str = "both",
) -> float:
    """Area under one ROC curve over the edges of all graphs, as most published tables have it.

    Unlike the mean of `explanation_roc_auc` it compares weights of different graphs and counts graphs by
    their edges. Graphs without a true edge, such as molecules of the other class, are left out.

    Parameters
    ----------
    explanations : Explanations
        The explained graphs.
    truth : sequence of arrays of shape (n, n) or None, default=None
        One bool matrix per graph, or one for all aligned graphs; by default the graphs' own. An edge may be
        marked in one direction only.
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions rank, see `top_edge_masks`.

    Returns
    -------
    float
        The area, 0.5 for a constant mask; NaN if no edge is true, or every edge of graphs with a true one.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import explanation_roc_auc, explanation_roc_auc_overall
    >>> from cignn.graphs import GraphSet
    >>> paths = GraphSet.from_arrays([np.diag([1, 1], 1) + np.diag([1, 1], -1)] * 2)
    >>> explanations = Explanations(paths, [[0.9, 0.8], [0.3, 0.2]])
    >>> truth = [np.diag([1, 0], 1)] * 2  # the first edge
    >>> explanation_roc_auc(explanations, truth).tolist(), explanation_roc_auc_overall(explanations, truth)
    ([1.0, 1.0], 0.75)
    """
    pairs = [edges for edges in _edges_with_truth(explanations, truth, by, side) if edges[1].any()]
    return roc_area(*map(np.concatenate, zip(*pairs, strict=True))) if pairs else np.nan


def explanation_gap(
    explanations: Explanations,
    truth: Sequence[np.ndarray] | None = None,
    *,
    by: str = "weight",
    side: str = "both",
) -> np.ndarray:
    """Mean weight of the true edges minus that of the other edges.

    A mask may rank the edges well and give all of them nearly the same weight: its ROC-AUC is high, its gap
    is small, and rounding decides the order.

    Parameters
    ----------
    explanations : Explanations
        The explained graphs.
    truth : sequence of arrays of shape (n, n) or None, default=None
        One bool matrix per graph, or one for all aligned graphs; by default the graphs' own. An edge may be
        marked in one direction only.
    by : {"weight", "contribution", "auto"}, default="weight"
        What is averaged, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions count, see `top_edge_masks`.

    Returns
    -------
    array of shape (g,)
        The gaps, in [-1, 1] for weights and 0 for a constant mask; NaN for a graph whose edges are all true
        or all false.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import explanation_gap
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> truth = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    >>> explanation_gap(Explanations(triangle, [[1.0, 0.5, 0.25]]), [truth]).tolist()
    [0.625]
    """
    pairs = _edges_with_truth(explanations, truth, by, side)
    return np.array([_gap(values.astype(np.float64), true) for values, true in pairs])


def _gap(values: np.ndarray, true: np.ndarray) -> float:
    return float(values[true].mean() - values[~true].mean()) if 0 < true.sum() < len(true) else np.nan


def roc_area(values: np.ndarray, true: np.ndarray) -> float:
    """Area under the ROC curve of values (e,); NaN where all or none are true."""
    count = int(true.sum())
    if not 0 < count < len(true):
        return np.nan
    ranks = rankdata(values)
    return float((ranks[true].sum() - count * (count + 1) / 2) / (count * (len(true) - count)))


def precision_at_k(
    explanations: Explanations,
    truth: Sequence[np.ndarray] | None = None,
    *,
    by: str = "weight",
    side: str = "both",
) -> np.ndarray:
    """Share of true edges among a graph's top k, k its number of true edges.

    Edges of equal weight share the places left: a constant mask scores the share of true edges, not luck.

    Parameters
    ----------
    explanations : Explanations
        The explained graphs.
    truth : sequence of arrays of shape (n, n) or None, default=None
        One bool matrix per graph, or one for all aligned graphs; by default the graphs' own. An edge may be
        marked in one direction only.
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges, see `top_edge_masks`.
    side : {"both", "for", "against"}, default="both"
        How contributions rank, see `top_edge_masks`.

    Returns
    -------
    array of shape (g,)
        The shares; NaN where no edge is true.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import precision_at_k
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> truth = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    >>> precision_at_k(Explanations(triangle, [[0.9, 0.1, 0.5]]), [truth]).tolist()
    [0.5]
    """
    return np.array([share_of_true(*edges) for edges in _edges_with_truth(explanations, truth, by, side)])


def share_of_true(values: np.ndarray, truth: np.ndarray) -> float:
    """Share of true edges among the k of the largest values (e,), k the number of true ones; NaN without."""
    k = int(truth.sum())
    if k == 0:
        return np.nan
    threshold = np.sort(values)[-k]
    above, tied = values > threshold, values == threshold
    places = k - above.sum()
    return float((truth[above].sum() + places * truth[tied].mean()) / k)


def _edges_with_truth(
    explanations: Explanations, truth: Sequence[np.ndarray] | None, by: str, side: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    matrices = explanations.graphs.edge_truth if truth is None else truth
    if matrices is None:
        raise ValueError("the graphs carry no edge truth; pass truth, one (n, n) matrix per graph.")
    if getattr(matrices, "ndim", 3) == 2 and explanations.graphs.aligned:
        matrices = [matrices] * len(explanations)  # type: ignore[list-item]
    if len(matrices) != len(explanations):
        raise ValueError(f"truth must have one matrix per graph ({len(explanations)}), got {len(matrices)}.")
    scores = edge_scores(explanations, by, side)
    for i, (ex, matrix) in enumerate(zip(explanations, matrices, strict=True)):
        marked, (source, target) = np.asarray(matrix, bool), ex.edges.T
        if marked.shape != (ex.n_nodes, ex.n_nodes):
            raise ValueError(f"truth of graph {i} must be {(ex.n_nodes, ex.n_nodes)}, got {marked.shape}.")
        yield scores[i], marked[source, target] | marked[target, source]
