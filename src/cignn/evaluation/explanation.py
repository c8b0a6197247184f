"""Explanations against known truth: are the heavy edges the ones that made the class?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

from cignn.explanations import Explanations


def explanation_roc_auc(explanations: Explanations, truth: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """(g,) area under the ROC curve of edge weight against edge truth, each undirected edge once.

    truth : one (n, n) bool matrix per graph, or one array for all aligned graphs; by default the graphs' own.
    An edge may be marked in one direction only. NaN for a graph whose edges are
    all true or all false: it has nothing to rank.
    """
    areas = [
        roc_auc_score(labels, weights) if 0 < labels.sum() < len(labels) else np.nan
        for weights, labels in _edges_with_truth(explanations, truth)
    ]
    return np.array(areas)


def precision_at_k(explanations: Explanations, truth: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """(g,) share of true edges among a graph's k heaviest, k its number of true edges; NaN where k is 0.

    Edges of equal weight share the places left: a constant mask scores the share of true edges, not luck.
    """
    out = []
    for weights, labels in _edges_with_truth(explanations, truth):
        k = int(labels.sum())
        if k == 0:
            out.append(np.nan)
            continue
        threshold = np.sort(weights)[-k]
        above, tied = weights > threshold, weights == threshold
        places = k - above.sum()
        out.append((labels[above].sum() + places * labels[tied].mean()) / k)
    return np.array(out)


def _edges_with_truth(
    explanations: Explanations, truth: Sequence[np.ndarray] | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    matrices = explanations.graphs.edge_truth if truth is None else truth
    if matrices is None:
        raise ValueError("the graphs carry no edge truth; pass truth, one (n, n) matrix per graph.")
    if getattr(matrices, "ndim", 3) == 2 and explanations.graphs.aligned:
        matrices = [matrices] * len(explanations)  # type: ignore[list-item]
    if len(matrices) != len(explanations):
        raise ValueError(f"truth must have one matrix per graph ({len(explanations)}), got {len(matrices)}.")
    for i, (ex, matrix) in enumerate(zip(explanations, matrices, strict=True)):
        marked, (source, target) = np.asarray(matrix, bool), ex.edges.T
        if marked.shape != (ex.n_nodes, ex.n_nodes):
            raise ValueError(f"truth of graph {i} must be {(ex.n_nodes, ex.n_nodes)}, got {marked.shape}.")
        yield ex.edge_weights, marked[source, target] | marked[target, source]
