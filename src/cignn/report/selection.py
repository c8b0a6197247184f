"""What figures draw of an explanation: its values, its top edges and nodes, names, the difference of two."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from cignn._arrays import upper_indices
from cignn.explanations import Explanation, GroupExplanation

LABELS = {"contribution": "contribution (log-odds)", "weight": "edge weight"}


class Drawn(NamedTuple):
    """What is drawn of an explanation."""

    edges: Explanation  # its edge weights are the values drawn, by ascending size
    signed: bool  # whether values are on both sides of 0
    label: str  # what the values are
    survives: np.ndarray | None = None  # (e,) bool, where that is known
    note: str = ""  # what grey edges are

    @property
    def scale_label(self) -> str:
        """What the scale says: what the values are, and what grey edges are."""
        return f"{self.label}\n({self.note})" if self.note else self.label


def drawn(
    shown: Explanation | GroupExplanation,
    other: Explanation | GroupExplanation | None = None,
    by: str = "auto",
    top: int | None = 50,
    threshold: float = 0.0,
    only_surviving: bool = False,
) -> Drawn:
    """The top edges of an explanation, of a group, or of the difference shown − other.

    by : "contribution" or "weight"; "auto" is the contribution where there is one. Not used for a group.
    """
    whole = values_of(shown, by)
    if other is not None:
        minus = values_of(other, by)
        change = difference(whole.edges, minus.edges)
        whole = Drawn(change, True, f"difference of {whole.label.replace('weight', 'weights')}")
    order = top_order(np.where(_left_out(whole, only_surviving), 0, whole.edges.edge_weights), top, threshold)
    survives = None if whole.survives is None else whole.survives[order]
    return whole._replace(edges=whole.edges.select(order), survives=survives)


def values_of(shown: Explanation | GroupExplanation, by: str = "auto") -> Drawn:
    """All edges of an explanation, its edge weights the values to draw."""
    if isinstance(shown, GroupExplanation):
        ends = upper_indices(len(shown.map))
        names, systems = _nodes(shown)
        edges = Explanation(np.stack(ends, 1), shown.map[ends], len(shown.map), names, systems=systems)
        some = bool(shown.n_selected)
        note = f"grey: q > {shown.alpha:g}" if some else f"no connection survives (q ≤ {shown.alpha:g})"
        return Drawn(edges, True, f"{shown.reading} of the group", shown.matrix("selected")[ends], note)
    kind = shown.ranked_by(by)
    if kind == "weight":
        return Drawn(replace(shown, edge_contributions=None), False, LABELS[kind])
    values = shown.edge_contributions
    assert values is not None
    return Drawn(replace(shown, edge_weights=values, edge_contributions=None), True, LABELS[kind])


def _nodes(group: GroupExplanation) -> tuple[list[str] | None, np.ndarray | None]:
    """Names and systems of a group's nodes, None where they have none."""

    def ends(column: str) -> list:
        first, second = group.matrix(f"source{column}"), group.matrix(f"target{column}")
        n = len(first)
        return [*(first[i, i + 1] for i in range(n - 1)), second[n - 2, n - 1]]

    named = group.table["source"].dtype.kind not in "iu"
    systems = np.array(ends("_system")) if "source_system" in group.table else None
    return [str(name) for name in ends("")] if named else None, systems


def _left_out(whole: Drawn, only_surviving: bool) -> np.ndarray:
    """(e,) edges that are not drawn because they do not survive."""
    if not only_surviving:
        return np.zeros(len(whole.edges.edges), bool)
    if whole.survives is None:
        raise ValueError(
            "only_surviving needs to know what survives: draw a GroupExplanation, see explain_group."
        )
    return ~whole.survives


def top_edges(explanation: Explanation, top: int | None = 50, threshold: float = 0.0) -> Explanation:
    """The explanation with only its ``top`` edges above ``threshold``, by ascending weight.

    Signed weights, as those of a `difference`, count by absolute value; edges of weight 0 are never kept.
    top : None keeps every edge above the threshold.
    """
    return explanation.select(top_order(explanation.edge_weights, top, threshold))


def top_order(values: np.ndarray, top: int | None = 50, threshold: float = 0.0) -> np.ndarray:
    """Positions of the ``top`` values of largest size above ``threshold``, the largest last."""
    if top is not None and (not isinstance(top, Integral) or isinstance(top, bool) or top < 1):
        raise ValueError(f"top must be a whole number of at least 1, or None for all edges, got {top!r}.")
    if not threshold >= 0:
        raise ValueError(f"threshold must be at least 0, got {threshold!r}.")
    size = np.abs(values)
    order = np.argsort(-size, kind="stable")[:top]
    return order[size[order] > threshold][::-1]  # the top edge is drawn last, above the others


def difference(one: Explanation, other: Explanation) -> Explanation:
    """One − other as an explanation with signed weights, over the edges that either has."""
    check_same_nodes(one, other)
    change = one.weights.astype(float) - other.weights
    present = np.zeros(change.shape, bool)
    for ex in (one, other):
        present[tuple(np.sort(ex.edges, 1).T)] = True
    edges = np.argwhere(present)
    told: dict[str, Any] = dict.fromkeys(("connectivity", "prediction", "edge_contributions", "deviations"))
    return replace(one, edges=edges, edge_weights=change[tuple(edges.T)], **told)


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


def pair(edge: np.ndarray) -> tuple[int, int]:
    """The two nodes of an edge, the smaller number first."""
    return int(min(edge)), int(max(edge))


def common_edges(explanations: list[Explanation]) -> set[tuple[int, int]]:
    """Edges that all explanations have."""
    return set.intersection(*({pair(edge) for edge in ex.edges} for ex in explanations))
