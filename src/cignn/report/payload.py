"""The data that a report's script reads: JSON about graphs, nodes and the group, and edges in base64."""

from __future__ import annotations

import base64
from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn.explanations.explanation_set import NEGLIGIBLE
from cignn.report.performance import calibration_bins
from cignn.report.report_data import ReportData
from cignn.report.style import in_order, system_colours

ALIKE = 0.02  # edge weights that vary less than this over graphs count as the same
BUDGET = 18_000_000  # bytes of all graphs before base64: the page stays below 30 MB
LISTED = 6  # bytes of an edge that names its two ends


def payload_of(data: ReportData, group: Group | None, kept: Records) -> dict[str, object]:
    """Everything the script reads except the edges of single graphs."""
    graphs, removal = data.graphs, data.removal
    systems = graphs.node_meta.get("system") if graphs.aligned else None
    known = [] if systems is None else in_order(systems)
    colours = system_colours(known, data.colours)
    return {
        "unit": data.unit,
        "classes": data.class_labels,
        "positive": data.positive_number,
        "strength": "connectivity" if data.explanations.connectivity is None else "correlation",
        "calibrated_by": "" if data.predictions is None else " in the evaluation",
        "systems": [{"name": name, "colour": colours[name]} for name in known],
        "nodes": _nodes(data, known) if graphs.aligned else None,
        "n_nodes": graphs.n_nodes.tolist(),
        "weighted": bool(graphs.weighted and (graphs.aligned or _varies(data))),
        "layout": kept.layout,
        "kept": kept.kept,
        "subjects": _subjects(data),
        "removal": None
        if removal is None
        else {
            "shares": removal.shares.tolist(),
            "top": _rounded(removal.top.T),
            "random": _rounded(removal.random.T),
        },
        "calibration": [
            [b.low, b.high, b.n, *(round(float(v), 4) for v in b.observed)] for b in calibration_bins(data)
        ],
        "trained_on": data.trained_on and data.held_out is None,
        "alike": alike(group),
        "group": None if group is None else group_payload(data, group),
    }


def _nodes(data: ReportData, known: list[str]) -> dict[str, object]:
    """Names, systems (as numbers in ``known``) and coordinates of the nodes of an aligned set."""
    graphs = data.graphs
    names = graphs.node_names or [f"node {i}" for i in range(int(graphs.n_nodes[0]))]
    systems, places = graphs.node_meta.get("system"), graphs.node_meta.get("coordinates")
    return {
        "names": _distinct(names),
        "system": None if systems is None else [known.index(str(s)) for s in systems],
        "xyz": None if places is None or not np.isfinite(places).all() else packed(places, "<f4"),
    }


def _subjects(data: ReportData) -> dict[str, object]:
    """Names, labels, predictions and further columns of the graphs."""
    members = data.member_probabilities
    return {
        "name": data.names,
        "site": None if data.sites is None else data.sites.tolist(),
        "truth": data.truth.tolist() if (data.truth >= 0).any() else None,
        "predicted": data.predicted.tolist(),
        "held_out": None if data.held_out is None else np.asarray(data.held_out, int).tolist(),
        "probability": _rounded(data.probabilities),
        "members": None if members is None else _rounded(members.transpose(1, 0, 2)),
        "columns": {
            str(name): [cell(value) for value in column]
            for name, column in data.graphs.meta.items()
            if name != "subject" and np.ndim(column) == 1
        },
    }


def _distinct(names: list[str]) -> list[str]:
    """Names of nodes, with the number of the node where several have the same name."""
    counts = pd.Series(names).value_counts()
    return [name if counts[name] == 1 else f"{name} (node {i})" for i, name in enumerate(names)]


def alike(group: Group | None) -> bool:
    """Whether a model gives the edges nearly the same weights in every graph."""
    if group is None or len(group.weights) < 2:
        return False
    return bool(group.weights.std(0, ddof=1).max(initial=0) < ALIKE)


def _varies(data: ReportData) -> bool:
    """Whether edge weights differ within any graph."""
    return any(
        np.ptp(data.graphs.edge_values(i)) > 0 for i in range(len(data.graphs)) if data.graphs.n_edges[i]
    )


def _rounded(values: np.ndarray) -> list:
    return np.round(np.asarray(values, float), 4).tolist()


def cell(value: object) -> str:
    """A value as the text of a table's cell."""
    if value is None or (np.isscalar(value) and pd.isna(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


class Records(NamedTuple):
    """The encoded edges of all graphs."""

    layout: str  # "dense": an entry per edge of the group; "listed": edges with their two nodes
    kept: int | None  # largest number of edges kept per graph, None for all
    lines: list[str]  # (g,) base64


class Group(NamedTuple):
    """The edges of an aligned set."""

    edges: np.ndarray  # (e, 2)
    weights: np.ndarray  # (g, e)
    present: np.ndarray  # (g, e) bool
    connectivity: np.ndarray  # (e,) means


def group_of(data: ReportData) -> Group | None:
    """The edges of an aligned set; None for any other."""
    if not data.graphs.aligned:
        return None
    edges, weights, present = data.explanations.aligned_weights("a report")
    mean = data.explanations.mean().connectivity
    assert mean is not None  # aligned sets are weighted
    return Group(edges, weights, present, mean)


def group_payload(data: ReportData, group: Group) -> dict[str, object]:
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
    largest = float(group.weights.mean(0).max(initial=0.0))
    return {
        "pairs": packed(group.edges, "<u2"),
        "sets": [
            {"name": name, "n": int(who.sum()), "weight": packed(group.weights[who].mean(0), "<f4")}
            for name, who in sets
        ],
        "deviation": packed(deviation, "<f4"),
        "negligible": NEGLIGIBLE * largest,  # weights that vary less count as the same
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


def packed(values: np.ndarray, dtype: str) -> str:
    """Return an array of this type as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode()


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
    """Weights as codes from 1 to 255, with the weights of codes 1 and 255."""
    if not len(weights):
        return np.zeros(0, np.uint8), 0.0, 0.0
    low, high = float(weights.min()), float(weights.max())
    share = (weights - low) / (high - low) if high > low else np.ones(len(weights))
    return (1 + np.round(254 * share)).astype(np.uint8), low, high


def _signed(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Values as codes from −127 to 127, with the value of code 127."""
    largest = float(np.abs(values).max(initial=0))
    return np.round(values / (largest or 1) * 127).astype(np.int8), largest
