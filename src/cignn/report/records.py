"""The edges of every graph as one line of base64: what the script decodes when a page is opened."""

from __future__ import annotations

import base64
from typing import NamedTuple

import numpy as np

from cignn.explanations import Explanations
from cignn.report.report_data import ReportData

ALIKE = 0.02  # edge weights that vary less than this over graphs count as the same
BUDGET = 21_000_000  # bytes of all graphs before base64: the page stays below 30 MB


class Edges(NamedTuple):
    """The edges of an aligned set."""

    pairs: np.ndarray  # (e, 2)
    weights: np.ndarray  # (g, e)
    present: np.ndarray  # (g, e) bool
    connectivity: np.ndarray  # (g, e), 0 where a graph does not have the edge
    contributions: np.ndarray | None  # (g, e)


def edges_of(data: ReportData) -> Edges | None:
    """The edges of an aligned set; None for any other."""
    explanations = data.explanations
    if not explanations.graphs.aligned:
        return None
    pairs, weights, present = explanations.aligned_weights("a report")
    ends = tuple(pairs.T)
    values = np.stack([explanations.connectivity_matrix(i)[ends] for i in range(len(explanations))])
    given = explanations.edge_contributions
    contributions = None if given is None else aligned(explanations, given, pairs)
    return Edges(pairs, weights, present, values, contributions)


def aligned(explanations: Explanations, values: list[np.ndarray], pairs: np.ndarray) -> np.ndarray:
    """(g, e) values of aligned graphs' edges, at the ``pairs`` (e, 2) that any of them has; else 0."""
    n = int(explanations.graphs.n_nodes[0])
    number = np.zeros((n, n), np.int64)
    number[tuple(pairs.T)] = np.arange(len(pairs))
    out = np.zeros((len(values), len(pairs)), np.float32)
    for i, own in enumerate(values):
        out[i, number[tuple(explanations.graphs.edges(i).T)]] = own
    return out


def alike(edges: Edges | None) -> bool:
    """Whether a model gives the edges nearly the same weights in every graph."""
    if edges is None or len(edges.weights) < 2:
        return False
    return bool(edges.weights.std(0, ddof=1).max(initial=0) < ALIKE)


class Records(NamedTuple):
    """The encoded edges of all graphs."""

    layout: str  # "dense": an entry per edge of the group; "listed": edges with their two nodes
    columns: list[str]  # what each byte of an edge is, such as "contribution"
    kept: int | None  # largest number of edges kept per graph, None for all
    lines: list[str]  # (g,) base64


def records(data: ReportData, edges: Edges | None, budget: int = BUDGET) -> Records:
    """Every graph's edges as one line.

    Where all graphs have the same weights, the script reads them from the group's mean; where the reference
    is in the units of the connectivity, it computes the deviations.
    """
    graphs, explanations = data.graphs, data.explanations
    columns = [] if explanations.edge_contributions is None else ["contribution"]
    columns += [] if columns and alike(edges) else ["weight"]
    columns.append("connectivity")
    if explanations.reference is not None and explanations.connectivity is not None:
        columns.append("deviation")
    head = 8 * len(columns)
    if edges is not None and len(graphs) * (len(columns) * len(edges.pairs) + head) <= budget:
        lines = [_dense(data, edges, columns, i) for i in range(len(graphs))]
        return Records("dense", columns, None, lines)
    most = int(graphs.n_edges.max(initial=0))
    kept = max(100, (budget // len(graphs) - head - 4) // (4 + len(columns)))
    lines = [_listed(data, columns, i, kept) for i in range(len(graphs))]
    return Records("listed", columns, kept if kept < most else None, lines)


def packed(values: np.ndarray, dtype: str) -> str:
    """Return an array of this type as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode()


def _dense(data: ReportData, edges: Edges, columns: list[str], i: int) -> str:
    here = edges.present[i]
    known = {"weight": edges.weights[i], "connectivity": edges.connectivity[i]}
    if edges.contributions is not None:
        known["contribution"] = edges.contributions[i]
    if "deviation" in columns:
        known["deviation"] = np.zeros(len(here))
        known["deviation"][here] = _deviations(data, i)
    heads, codes = zip(*(encoded(name, known[name][here]) for name in columns), strict=True)
    out = np.zeros((len(columns), len(here)), np.uint8)
    out[:, here] = codes
    return base64.b64encode(b"".join(heads) + out.tobytes()).decode()


def _listed(data: ReportData, columns: list[str], i: int, kept: int) -> str:
    one = data.explanations[i]
    values = np.ones(len(one.edges)) if one.connectivity is None else one.connectivity
    known = {"weight": one.edge_weights, "connectivity": values}
    if one.edge_contributions is not None:
        known["contribution"] = one.edge_contributions
    if "deviation" in columns:
        known["deviation"] = _deviations(data, i)
    order = np.argsort(-np.abs(known[columns[0]]), kind="stable")[:kept]
    heads, codes = zip(*(encoded(name, known[name][order]) for name in columns), strict=True)
    ends = np.ascontiguousarray(one.edges[order].T, "<u2").tobytes()
    count = np.array([len(order)], "<u4").tobytes()
    return base64.b64encode(b"".join(heads) + count + ends + np.stack(codes).tobytes()).decode()


def _deviations(data: ReportData, i: int) -> np.ndarray:
    """(e,) deviations of one graph's edges, 0 where they are not known."""
    deviations = data.explanations[i].deviations
    assert deviations is not None  # there is a reference
    return np.nan_to_num(deviations, posinf=0, neginf=0)


def encoded(name: str, values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """A column's two bounds and its values as codes from 1 to 255; 0 is for edges that are not there.

    Weights are steps between the two bounds, signed values of the second bound with 0 at code 128.
    Contributions are coded by their square roots: many are small beside the largest.
    """
    if name == "weight":
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        part = (values - low) / (high - low) if high > low else np.ones(len(values))
        return np.array([low, high], "<f4").tobytes(), (1 + np.round(254 * part)).astype(np.uint8)
    largest = float(np.abs(values).max(initial=0))
    part = np.asarray(values, float) / (largest or 1)
    if name == "contribution":
        part = np.sign(part) * np.sqrt(np.abs(part))
    return np.array([0, largest], "<f4").tobytes(), (128 + np.round(127 * part)).astype(np.uint8)
