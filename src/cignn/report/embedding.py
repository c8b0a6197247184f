"""Explanations as the page carries them: bytes in base64, one line per graph, decoded when it is opened.

Weights take one byte each (0 for no edge, 1 to 255 from the graph's least weight to its largest),
connectivity another. 1000 connectomes of 116 regions take 18 MB.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np

from cignn.explanations import NEGLIGIBLE
from cignn.report.report_data import ReportData

BUDGET = 18_000_000  # bytes of all graphs before base64: the page stays below 30 MB
LISTED = 6  # bytes of an edge that names its two ends


class Records(NamedTuple):
    """layout : "dense", an entry per edge of the group, or "listed", edges named one by one; kept : the most
    edges of a graph that are kept, or None for all; lines : (g,) base64.
    """

    layout: str
    kept: int | None
    lines: list[str]


class Group(NamedTuple):
    """Edges (e, 2) of an aligned set, weights (g, e) and where they exist, mean connectivity (e,)."""

    edges: np.ndarray
    weights: np.ndarray
    present: np.ndarray
    connectivity: np.ndarray


def group_of(data: ReportData) -> Group | None:
    """What the graphs of an aligned set share; None where there is no such thing."""
    if not data.graphs.aligned:
        return None
    edges, weights, present = data.explanations._aligned("a report")
    mean = data.explanations.mean().connectivity
    assert mean is not None  # aligned sets are weighted
    return Group(edges, weights, present, mean)


def group_payload(data: ReportData, group: Group) -> dict[str, Any]:
    """Group means of every edge: of all graphs, and of each class."""
    sets = [("all", np.ones(len(data.explanations), bool))]
    truth = data.truth if (data.truth >= 0).any() else data.predicted
    known = "" if (data.truth >= 0).any() else "predicted "
    for k, name in enumerate(data.class_labels):
        if 1 < (truth == k).sum() < len(truth):
            sets.append((known + name, truth == k))
    marked = data.graphs.edge_truth
    marks = None
    if marked is not None:
        both = np.asarray(marked[0], bool)
        marks = (both | both.T)[tuple(group.edges.T)]
    deviation = group.weights.std(0, ddof=1) if len(group.weights) > 1 else np.zeros(len(group.edges))
    heaviest = float(group.weights.mean(0).max(initial=0.0))
    return {
        "pairs": packed(group.edges, "<u2"),
        "sets": [
            {"name": name, "n": int(who.sum()), "weight": packed(group.weights[who].mean(0), "<f4")}
            for name, who in sets
        ],
        "deviation": packed(deviation, "<f4"),
        "negligible": NEGLIGIBLE * heaviest,  # weights that spread less are the same for everyone
        "connectivity": packed(group.connectivity, "<f4"),
        "usual": packed(_spread(data, group), "<f4"),
        "known": None if marks is None else packed(marks, "u1"),
    }


def _spread(data: ReportData, group: Group) -> np.ndarray:
    """(e,) standard deviation over graphs of an edge's connectivity."""
    if len(data.graphs) < 2:
        return np.zeros(len(group.edges))
    ends = tuple(group.edges.T)
    values = np.stack([data.explanations.connectivity_matrix(i)[ends] for i in range(len(data.graphs))])
    return values.std(0, ddof=1)


def records(data: ReportData, group: Group | None, budget: int = BUDGET) -> Records:
    """Every graph's edges as one line."""
    graphs = data.graphs
    if group is not None and len(graphs) * (2 * len(group.edges) + 12) <= budget:
        lines = [_dense(data, group, i) for i in range(len(graphs))]
        return Records("dense", None, lines)
    most = int(graphs.n_edges.max(initial=0))
    kept = max(100, (budget // len(graphs) - 16) // LISTED)
    lines = [_listed(data, i, kept) for i in range(len(graphs))]
    return Records("listed", kept if kept < most else None, lines)


def packed(values: Any, kind: str) -> str:
    """Return an array as base64."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def _dense(data: ReportData, group: Group, i: int) -> str:
    here = group.present[i]
    codes, low, high = _codes(group.weights[i][here])
    weights = np.zeros(len(here), np.uint8)
    weights[here] = codes
    signed, largest = _signed(data.explanations.connectivity_matrix(i)[tuple(group.edges.T)])
    head = np.array([low, high, largest], "<f4").tobytes()
    return base64.b64encode(head + weights.tobytes() + signed.tobytes()).decode()


def _listed(data: ReportData, i: int, kept: int) -> str:
    edges, weights = data.graphs.edges(i), data.explanations.edge_weights[i]
    values = data.explanations[i].connectivity
    values = np.ones(len(edges)) if values is None else values
    order = np.argsort(-weights, kind="stable")[:kept]
    codes, low, high = _codes(weights[order])
    signed, largest = _signed(values[order])
    head = np.array([low, high, largest], "<f4").tobytes() + np.array([len(order)], "<u4").tobytes()
    ends = np.ascontiguousarray(edges[order].T, "<u2").tobytes()
    return base64.b64encode(head + ends + codes.tobytes() + signed.tobytes()).decode()


def _codes(weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Weights as 1 … 255, with the weights that 1 and 255 stand for."""
    if not len(weights):
        return np.zeros(0, np.uint8), 0.0, 0.0
    low, high = float(weights.min()), float(weights.max())
    share = (weights - low) / (high - low) if high > low else np.ones(len(weights))
    return (1 + np.round(254 * share)).astype(np.uint8), low, high


def _signed(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Values as −127 … 127, with the value that 127 stands for."""
    largest = float(np.abs(values).max(initial=0))
    return np.round(values / (largest or 1) * 127).astype(np.int8), largest
