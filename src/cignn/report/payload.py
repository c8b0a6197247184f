"""The data that a report's script reads: JSON about graphs, nodes and the group."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cignn.explanations import GroupExplanation
from cignn.report.evidence import evidence, pair_sums
from cignn.report.group import group_payload, sign_words, survey_payload
from cignn.report.performance import calibration_bins
from cignn.report.records import Edges, Records, alike, packed
from cignn.report.report_data import ReportData
from cignn.report.style import in_order, system_colours


def payload_of(data: ReportData, edges: Edges | None, kept: Records) -> dict[str, object]:
    """Everything the script reads except the edges of single graphs."""
    graphs = data.graphs
    systems = graphs.node_meta.get("system") if graphs.aligned else None
    known = [] if systems is None else in_order(systems)
    colours = system_colours(known, data.colours)
    own = data.explanations.connectivity is None
    return {
        "unit": data.unit,
        "classes": data.class_labels,
        "positive": data.positive_number,
        "strength": "connectivity" if own else "correlation",
        "calibrated_by": "" if data.predictions is None else " in the evaluation",
        "systems": [{"name": name, "colour": colours[name]} for name in known],
        "nodes": _nodes(data, known) if graphs.aligned else None,
        "n_nodes": graphs.n_nodes.tolist(),
        "weighted": bool(graphs.weighted and (graphs.aligned or _varies(data))),
        "layout": kept.layout,
        "columns": kept.columns,
        "kept": kept.kept,
        "subjects": _subjects(data),
        "evidence": _evidence(data),
        "reference": None if edges is None else _reference(data, edges),
        "removal": _removal(data),
        "calibration": [
            [b.low, b.high, b.n, *(round(float(v), 4) for v in b.observed)] for b in calibration_bins(data)
        ],
        "trained_on": data.trained_on and data.held_out is None,
        "alike": alike(edges),
        "group": None if edges is None else group_payload(data, edges),
        "survey": None if data.group is None else _survey(data, data.group),
    }


def _survey(data: ReportData, group: GroupExplanation) -> dict[str, object]:
    words = {"signs": sign_words(data, group), "second": data.class_name(group.classes[1])}
    return survey_payload(group) | words | {"alpha": float(group.alpha)}


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
        "probability": rounded(data.probabilities),
        "members": None if members is None else rounded(members.transpose(1, 0, 2)),
        "columns": {
            str(name): [cell(value) for value in column]
            for name, column in data.graphs.meta.items()
            if name != "subject" and np.ndim(column) == 1
        },
    }


def _evidence(data: ReportData) -> dict[str, object] | None:
    """Sums of the contributions of every graph, and by pair of systems; None without contributions."""
    found = evidence(data)
    if found is None:
        return None
    sums = pair_sums(data)
    return {
        "explained": found.explained.tolist(),
        "base": rounded(found.base),
        "plus": rounded(found.plus),
        "minus": rounded(found.minus),
        "pairs": None if sums is None else sums.pairs,
        "sums": None if sums is None else packed(sums.sums, "<f4"),
        "pooled": _pooled(data),
    }


def _pooled(data: ReportData) -> dict[str, object] | None:
    """How many connections evidence is pooled over, and in which class they go together."""
    n = data.explanations.pooled_edges
    names = [name for name in data.class_labels if name != data.reference_name]
    return {"n": n, "name": names[0]} if n else None


def _reference(data: ReportData, edges: Edges) -> dict[str, object] | None:
    """Mean and standard deviation of every edge in the controls; None where there are none."""
    reference = data.explanations.reference
    if reference is None:
        return None
    ends = tuple(edges.pairs.T)
    std = np.nan_to_num(np.asarray(reference.std)[ends])
    mean = np.nan_to_num(np.asarray(reference.mean)[ends])
    return {"name": data.reference_name, "mean": packed(mean, "<f4"), "std": packed(std, "<f4")}


def _removal(data: ReportData) -> dict[str, object] | None:
    removal = data.removal
    if removal is None:
        return None
    return {
        "counts": removal.shares.tolist(),
        "top": rounded(removal.top.T),
        "random": rounded(removal.random.T),
    }


def _distinct(names: list[str]) -> list[str]:
    """Names of nodes, with the number of the node where several have the same name."""
    counts = pd.Series(names).value_counts()
    return [name if counts[name] == 1 else f"{name} (node {i})" for i, name in enumerate(names)]


def _varies(data: ReportData) -> bool:
    """Whether edge weights differ within any graph."""
    return any(
        np.ptp(data.graphs.edge_values(i)) > 0 for i in range(len(data.graphs)) if data.graphs.n_edges[i]
    )


def rounded(values: np.ndarray) -> list:
    """Return numbers of four digits for JSON."""
    return np.round(np.asarray(values, float), 4).tolist()


def cell(value: object) -> str:
    """A value as the text of a table's cell."""
    if value is None or (np.isscalar(value) and pd.isna(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
