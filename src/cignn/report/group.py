"""What a report says about the group: what survives resampling, or means of which nobody knows how sure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from cignn.datasets.atlas import SYSTEM_NAMES
from cignn.explanations.explanation_set import NEGLIGIBLE
from cignn.report.evidence import evidence, mean_contributions, means, pair_sums
from cignn.report.records import Edges, packed
from cignn.report.report_data import ReportData
from cignn.report.style import in_order

if TYPE_CHECKING:
    from cignn.explanations import GroupExplanation

FLAT = 0.1  # mean weights of systems that differ by less are no finding
NUISANCE = 0.3  # rank correlation with a nuisance's map above which the reader is warned
COMPONENT = 0.05  # p of a component that counts as larger than chance
READINGS = {
    "pattern": "what goes along with the decision: connections that vary together with the model's score, "
    "whether or not it reads them.",
    "use": "what the decision is made from: connections that the model itself reads, weighed by what they "
    "change.",
}


def group_context(data: ReportData) -> dict[str, object]:
    """What the template reads about the group."""
    return {
        "group": None if data.group is None else _survey(data, data.group),
        "contributions": data.explanations.edge_contributions is not None,
        "systems": system_matrix(data),
        "reproducibility": _plain_table(data.reproducibility),
        "system_names": _long_names(data),
    }


# --------------------------------------------------------------- with resampling


def _survey(data: ReportData, group: GroupExplanation) -> dict[str, object]:
    """A `GroupExplanation` in words and tables."""
    table, pairs, components = group.table, group.systems, group.components
    n_found = int(table["selected"].sum())
    found_pairs = [] if pairs is None else _found_pairs(pairs, group.alpha)
    found_parts = [] if components is None else components[components["p"] <= COMPONENT]
    return {
        "any": bool(n_found or len(found_pairs) or len(found_parts)),
        "n_found": n_found,
        "n": f"{len(table):,}",
        "alpha": f"{group.alpha:.2g}",
        "n_resamples": group.n_resamples,
        "n_subjects": group.n_subjects,
        "pairs": None if pairs is None else found_pairs,
        "n_pairs": 0 if pairs is None else len(pairs),
        "n_parts": None if components is None else len(found_parts),
        "components": None if components is None else _components(components),
        "nuisance": _nuisance(group.nuisance),
        "reading": str(group.reading),
        "reason": str(group.reason),
        "readings": READINGS,
        "first": data.class_name(group.classes[0]),
        "second": data.class_name(group.classes[1]),
    }


def _found_pairs(pairs: pd.DataFrame, alpha: float) -> list[str]:
    """Names of the pairs of systems that survive."""
    found = pairs[pairs["q"] <= alpha]
    return [f"{a}–{b}" for a, b in zip(found["source_system"], found["target_system"], strict=True)]


def _components(components: pd.DataFrame) -> list[dict[str, object]]:
    rows = components.sort_values("p", kind="stable").head(10)
    return [
        {
            "n_edges": int(row.n_edges),
            "n_nodes": int(row.n_nodes),
            "nodes": row.nodes if isinstance(row.nodes, str) else ", ".join(map(str, row.nodes)),
            "p": f"{row.p:.3f}",
            "found": bool(row.p <= COMPONENT),
        }
        for row in rows.itertuples()
    ]


def _nuisance(table: pd.DataFrame | None) -> list[dict[str, object]]:
    """How much of the map is motion, age or site; the largest first."""
    if table is None or not len(table):
        return []
    rows = table.sort_values("rho", key=np.abs, ascending=False, kind="stable")
    return [
        {"name": str(row.nuisance), "rho": float(row.rho), "warn": abs(row.rho) > NUISANCE}
        for row in rows.itertuples()
        if np.isfinite(row.rho)
    ]


def survey_payload(group: GroupExplanation, names: list[str] | None) -> dict[str, object]:
    """The table of connections as columns of numbers."""
    table = group.table
    columns = ("value", "effect", "contribution", "selection", "bound", "q")
    return {
        "pairs": packed(table_ends(table, names), "<u2"),
        "selected": packed(table["selected"].to_numpy(bool), "u1"),
        "columns": {
            name: packed(pd.to_numeric(table[name]).to_numpy(float), "<f4")
            for name in columns
            if name in table
        },
    }


def table_ends(table: pd.DataFrame, names: list[str] | None) -> np.ndarray:
    """(e, 2) node numbers of a table of connections, smaller number first."""
    if "source_node" in table:
        ends = table[["source_node", "target_node"]].to_numpy(np.int64)
    elif names is None or pd.api.types.is_integer_dtype(table["source"]):
        ends = table[["source", "target"]].to_numpy(np.int64)
    else:
        number = {str(name): k for k, name in enumerate(names)}
        ends = np.array(
            [[number[str(a)], number[str(b)]] for a, b in zip(table["source"], table["target"], strict=True)],
            np.int64,
        ).reshape(-1, 2)
    return np.sort(ends, 1)


# ------------------------------------------------------------ without resampling


def group_payload(data: ReportData, edges: Edges) -> dict[str, object]:
    """Means of every edge over the graphs: weights, connectivity and contributions."""
    marked = data.graphs.edge_truth
    marks = None
    if marked is not None:
        both = np.any([np.asarray(truth, bool) for truth in marked], axis=0)
        marks = (both | both.T)[tuple(edges.pairs.T)]
    several = len(edges.weights) > 1
    spread = edges.weights.std(0, ddof=1) if several else np.zeros(len(edges.pairs))
    usual = edges.connectivity.std(0, ddof=1) if several else np.zeros(len(edges.pairs))
    mean = edges.weights.mean(0)
    return {
        "pairs": packed(edges.pairs, "<u2"),
        "weight": packed(mean, "<f4"),
        "spread": packed(spread, "<f4"),
        "sets": _mean_sets(data, edges),
        "negligible": NEGLIGIBLE * float(mean.max(initial=0.0)),  # weights that vary less count as the same
        "connectivity": packed(edges.connectivity.sum(0) / edges.present.sum(0), "<f4"),
        "usual": packed(usual, "<f4"),
        "known": None if marks is None else packed(marks, "u1"),
    }


def _mean_sets(data: ReportData, edges: Edges) -> list[dict[str, object]]:
    """Mean contributions, or without any the mean weights, of all graphs and of each class."""
    found = evidence(data)
    if found is not None:
        chosen = means(data, found)
        values = mean_contributions(chosen, edges)
        return [
            {"name": one.name, "n": int(one.who.sum()), "towards": one.towards, "value": packed(mean, "<f4")}
            for one, mean in zip(chosen, values, strict=True)
        ]
    sets = [("all", np.ones(len(data.explanations), bool))]
    truth = data.truth if (data.truth >= 0).any() else data.predicted
    known = "" if (data.truth >= 0).any() else "predicted "
    for k, name in enumerate(data.class_labels):
        if 1 < (truth == k).sum() < len(truth):
            sets.append((known + name, truth == k))
    return [
        {
            "name": name,
            "n": int(who.sum()),
            "towards": None,
            "value": packed(edges.weights[who].mean(0), "<f4"),
        }
        for name, who in sets
    ]


# ----------------------------------------------------------------------- systems


class Cell(NamedTuple):
    """A pair of systems in the matrix."""

    value: float | None  # None where no edge joins the two
    shade: float  # per cent of the darkest colour, 0 without a colour
    side: str  # "plus", "minus", or "" for values without a sign
    star: bool


class SystemMatrix(NamedTuple):
    """Values within and between systems, as the page shows them."""

    names: list[str]
    rows: list[list[Cell]]
    caption: str
    digits: int
    note: str


def system_matrix(data: ReportData) -> SystemMatrix | None:
    """The matrix of systems: the map of the group, mean contributions, or mean weights."""
    if not data.graphs.aligned or "system" not in data.graphs.node_meta:
        return None
    names = in_order(data.graphs.node_meta["system"])
    if not 2 <= len(names) <= 20:
        return None
    if data.group is not None and data.group.systems is not None:
        return _map_matrix(data, data.group, names)
    if data.explanations.edge_contributions is not None:
        return _contribution_matrix(data, names)
    return _weight_matrix(data, names)


def _map_matrix(data: ReportData, group: GroupExplanation, names: list[str]) -> SystemMatrix:
    """Means of the group's map; only pairs that survive have a colour and a star."""
    values = np.full((len(names),) * 2, np.nan)
    stars = np.zeros(values.shape, bool)
    at = {name: k for k, name in enumerate(names)}
    for row in group.systems.itertuples():
        a, b = at[str(row.source_system)], at[str(row.target_system)]
        values[a, b] = values[b, a] = row.mean
        stars[a, b] = stars[b, a] = row.q <= group.alpha
    second = data.class_name(group.classes[1])
    caption = f"Mean of the map between systems: positive where connections are higher in {second}"
    note = (
        "★ pairs in which the map is larger than with permuted labels; the others have no colour."
        if stars.any()
        else "No pair has a star: none differs from what permuted labels give."
    )
    return _signed_matrix(names, values, stars, caption, note, coloured=stars)


def _contribution_matrix(data: ReportData, names: list[str]) -> SystemMatrix:
    """Mean sums of contributions by pair of systems, over the graphs shown first."""
    found, sums = evidence(data), pair_sums(data)
    assert found is not None and sums is not None
    one = means(data, found)[0]
    net = one.of(sums.sums[:, :, 0] - sums.sums[:, :, 1])
    values = np.full((len(names),) * 2, np.nan)
    for (a, b), value in zip(sums.pairs, net, strict=True):
        values[a, b] = values[b, a] = value
    caption = f"Mean net contribution to the log-odds of {one.towards}, {one.name} ({int(one.who.sum())})"
    none = np.zeros(values.shape, bool)
    return _signed_matrix(names, values, none, caption, "", coloured=~none)


def _signed_matrix(
    names: list[str], values: np.ndarray, stars: np.ndarray, caption: str, note: str, coloured: np.ndarray
) -> SystemMatrix:
    largest = float(np.nanmax(np.abs(values), initial=0)) or 1.0
    digits = int(np.clip(np.ceil(-np.log10(largest)) + 1, 2, 4))
    rows = [
        [
            Cell(None, 0.0, "", False)
            if np.isnan(value)
            else Cell(
                float(value),
                100 * abs(float(value)) / largest if colour else 0.0,
                ("plus" if value > 0 else "minus") if colour else "",
                bool(star),
            )
            for value, star, colour in zip(*row, strict=True)
        ]
        for row in zip(values, stars, coloured, strict=True)
    ]
    return SystemMatrix(names, rows, caption, digits, note)


def _weight_matrix(data: ReportData, names: list[str]) -> SystemMatrix:
    """Mean weights, shaded from 0 to 1 so that small differences stay small."""
    values = data.explanations.by_system(by="weight").loc[names, names].to_numpy(float)
    span = float(np.nanmax(values) - np.nanmin(values))
    rows = [
        [
            Cell(None, 0.0, "", False) if np.isnan(v) else Cell(float(v), 100 * float(v), "", False)
            for v in row
        ]
        for row in values
    ]
    note = ""
    if span < FLAT:
        note = f"The means differ by {span:.2g} at most: the model looks at all pairs of systems alike."
    return SystemMatrix(
        names, rows, "Mean edge weight; shades run from 0 to 1", 2 if span >= FLAT else 3, note
    )


def _long_names(data: ReportData) -> list[tuple[str, str]]:
    systems = data.graphs.node_meta.get("system") if data.graphs.aligned else None
    known = [] if systems is None else in_order(systems)
    return [(name, SYSTEM_NAMES[name]) for name in known if name in SYSTEM_NAMES]


def _plain_table(frame: pd.DataFrame | None) -> dict[str, object] | None:
    """A table of words and numbers, two digits each."""
    if frame is None:
        return None
    rows = [
        [f"{v:.2f}" if isinstance(v, (float, np.floating)) and np.isfinite(v) else _word(v) for v in row]
        for row in frame.itertuples(index=False)
    ]
    return {"columns": [str(name).replace("_", " ") for name in frame], "rows": rows}


def _word(value: object) -> str:
    return "–" if value is None or (np.isscalar(value) and pd.isna(value)) else str(value)
