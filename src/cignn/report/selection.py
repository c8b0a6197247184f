"""What figures draw of an explanation: its top edges and nodes, names, and the difference of two."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

import numpy as np

from cignn.explanations import Explanation


def top_edges(explanation: Explanation, top: int | None = 50, threshold: float = 0.0) -> Explanation:
    """The explanation with only its ``top`` edges above ``threshold``, by ascending weight.

    Signed weights, as those of a `difference`, count by absolute value; edges of weight 0 are never kept.
    top : None keeps every edge above the threshold.
    """
    if top is not None and (not isinstance(top, Integral) or isinstance(top, bool) or top < 1):
        raise ValueError(f"top must be a whole number of at least 1, or None for all edges, got {top!r}.")
    if not threshold >= 0:
        raise ValueError(f"threshold must be at least 0, got {threshold!r}.")
    size = np.abs(explanation.edge_weights)
    order = np.argsort(-size, kind="stable")[:top]
    order = order[size[order] > threshold][::-1]  # the top edge is drawn last, above the others
    connectivity = explanation.connectivity
    return replace(
        explanation,
        edges=explanation.edges[order],
        edge_weights=explanation.edge_weights[order],
        connectivity=None if connectivity is None else connectivity[order],
    )


def difference(one: Explanation, other: Explanation) -> Explanation:
    """One − other as an explanation with signed weights, over the edges that either has."""
    check_same_nodes(one, other)
    change = one.weights.astype(float) - other.weights
    present = np.zeros(change.shape, bool)
    for ex in (one, other):
        present[tuple(np.sort(ex.edges, 1).T)] = True
    edges = np.argwhere(present)
    return replace(one, edges=edges, edge_weights=change[tuple(edges.T)], connectivity=None, prediction=None)


def check_same_nodes(one: Explanation, other: Explanation) -> None:
    """Refuse two explanations whose nodes are not the same."""
    if one.n_nodes != other.n_nodes:
        raise ValueError(
            f"the explanations must have the same nodes, got {one.n_nodes} and {other.n_nodes} of them."
        )
    names, others = one.node_names, other.node_names
    if names is not None and others is not None and list(names) != list(others):
        first = next(i for i, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"the explanations must have the same nodes; node {first} is {names[first]!r} in one "
            f"and {others[first]!r} in the other."
        )


def n_edges_at(explanation: Explanation) -> np.ndarray:
    """(n,) number of edges at each node."""
    return np.bincount(explanation.edges.ravel(), minlength=explanation.n_nodes)


def top_nodes(explanation: Explanation, k: int) -> np.ndarray:
    """Up to k nodes with the largest sums of absolute edge weights, in descending order."""
    strength = np.zeros(explanation.n_nodes)
    np.add.at(strength, explanation.edges, np.abs(explanation.edge_weights)[:, None])
    order = np.argsort(-strength, kind="stable")
    return order[strength[order] > 0][: max(k, 0)]


def names_of(explanation: Explanation) -> list[str]:
    """Names of the nodes, their numbers where they have none."""
    names = range(explanation.n_nodes) if explanation.node_names is None else explanation.node_names
    return [str(name) for name in names]
