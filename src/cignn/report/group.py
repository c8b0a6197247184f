"""What a report says about the group: what survives resampling, or means of which nobody knows how sure."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn._arrays import upper_indices
from cignn.datasets.atlas import SYSTEM_NAMES
from cignn.evaluation.reproducibility import Reproducibility
from cignn.explanations import GroupExplanation
from cignn.explanations.comparisons import NEGLIGIBLE
from cignn.explanations.group_summary import READINGS
from cignn.report.evidence import evidence, mean_contributions, means, pair_sums
from cignn.report.records import Edges, alike, packed
from cignn.report.report_data import ReportData
from cignn.report.style import in_order
from cignn.report.systems import surviving_pairs

FLAT = 0.1  # mean weights of systems that differ by less are no finding
COMPONENT = 0.05  # p of a component that counts as larger than chance
MEANINGS = {
    "pattern": "connections that vary together with the model's score, whether or not it reads them.",
    "use": "connections that the model reads, weighed by what they change.",
    "size": "connections that help to tell the classes even if they are higher in some and lower in others.",
}
HELP = {
    "value": "on the map that ranks the connections.",
    "direction": "whether the connection is higher or lower in {}.",
    "effect": "standardised mean difference, {} minus the other class.",
    "contribution": "mean contribution to the true class, in log-odds, in subjects not trained on.",
    "selection": "share of half-samples in which the connection is among the largest.",
    "bound": "largest number of false selections to expect at this share.",
    "q": "expected share of false ones among connections as large, against permuted labels.",
}
AGREEMENT = (("rho", 2), ("common", 1), ("permuted_rho", 2), ("permuted_common", 1))  # columns, digits
CARRIED = ("roc_auc", "precision_at_k", "own_against_other")
COLUMNS = ("effect", "contribution", "selection", "bound", "q")  # of the table of connections


def group_context(data: ReportData) -> dict[str, object]:
    """What the template reads about the group."""
    return {
        "group": None if data.group is None else _survey(data, data.group),
        "contributions": data.explanations.edge_contributions is not None,
        "systems": system_matrix(data),
        "carriers": _carriers(data.carriers),
        "reproducibility": [_agreement(found) for found in data.reproducibility],
        "system_names": _long_names(data),
    }


# --------------------------------------------------------------- with resampling


def _survey(data: ReportData, group: GroupExplanation) -> dict[str, object]:
    """A `GroupExplanation` in words and tables."""
    pairs = group.systems[surviving_pairs(group)]
    small = group.components["n_edges"] < 3
    names = [f"{row.source_system}–{row.target_system}" for row in pairs.itertuples()]
    return {
        "n_found": group.n_selected,
        "n": f"{len(group.table):,}",
        "alpha": f"{group.alpha:g}",
        "percent": f"{100 * group.alpha:g}",
        "least": f"{group.table['q'].min():.2g}",
        "tested": group.n_permutations > 0,
        "p": f"{group.p:.2g}",
        "n_resamples": group.n_resamples,
        "n_permutations": group.n_permutations,
        "n_subjects": group.n_subjects,
        "pairs": names,
        "n_pairs": len(group.systems),
        "components": _components(group.components[~small]),
        "n_small": int(small.sum()),
        "columns": {name: words.format(data.class_name(group.classes[1])) for name, words in HELP.items()},
        "nuisance": _nuisance(group.nuisance),
        "reading": group.reading,
        "reason": re.sub(r"-(?=\d)", "−", group.reason[:1].upper() + group.reason[1:]),
        "readings": {name: f"{READINGS[name]}: {words}" for name, words in MEANINGS.items()},
        "signs": sign_words(data, group),
    }


def sign_words(data: ReportData, group: GroupExplanation) -> tuple[str, str]:
    """What positive and negative values of the map mean."""
    if group.reading == "size":
        return "speaks for the true class", "speaks against it"
    second = data.class_name(group.classes[1])
    return f"higher speaks for {second}", f"lower speaks for {second}"


def _components(table: pd.DataFrame) -> list[dict[str, object]]:
    return [
        {
            "n_edges": int(row.n_edges),
            "n_nodes": int(row.n_nodes),
            "nodes": str(row.nodes),
            "p": "–" if np.isnan(row.p) else f"{row.p:.3f}",
            "found": bool(row.p <= COMPONENT),
        }
        for row in table.head(10).itertuples()
    ]


def _nuisance(table: pd.DataFrame) -> list[dict[str, object]]:
    """How much of the map is motion, age or site; the largest first."""
    rows = table.sort_values("rho", key=np.abs, ascending=False, kind="stable")
    return [
        {"name": str(row.nuisance), "rho": fixed(row.rho, 2), "warn": bool(row.flag)}
        for row in rows.itertuples()
        if np.isfinite(row.rho)
    ]


def survey_payload(group: GroupExplanation) -> dict[str, object]:
    """The table of connections as columns of numbers, by pair of nodes."""
    ends = upper_indices(len(group.map))
    sign = np.select([group.matrix("direction")[ends] == word for word in ("higher", "lower")], [1, -1], 0)
    readings = {"pattern": group.pattern[ends], "use": group.use[ends]}
    others = {name: map_ for name, map_ in readings.items() if not np.allclose(map_, group.map[ends])}
    columns = {name: group.matrix(name)[ends].astype(float) for name in COLUMNS} | others
    return {
        "pairs": packed(np.stack(ends, 1), "<u2"),
        "selected": packed(group.matrix("selected")[ends], "u1"),
        "direction": packed(sign, "i1"),
        "value": packed(group.map[ends], "<f4"),
        "columns": {name: packed(values, "<f4") for name, values in columns.items()},
        "others": list(others),
    }


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
        sets = [_set(one.name, one.who, mean, one.towards) for one, mean in zip(chosen, values, strict=True)]
        sets[0]["deviation"] = _mean_deviations(data, chosen[0].who)
        return sets
    groups = [("all", np.ones(len(data.explanations), bool))]
    truth = data.truth if (data.truth >= 0).any() else data.predicted
    known = "" if (data.truth >= 0).any() else "predicted "
    for k, name in enumerate(data.class_labels):
        if not alike(edges) and 1 < (truth == k).sum() < len(truth):
            groups.append((known + name, truth == k))
    return [_set(name, who, edges.weights[who].mean(0)) for name, who in groups]


def _set(name: str, who: np.ndarray, values: np.ndarray, towards: str | None = None) -> dict[str, object]:
    return {"name": name, "n": int(who.sum()), "towards": towards, "value": packed(values, "<f4")}


def _mean_deviations(data: ReportData, who: np.ndarray) -> str | None:
    """Mean deviation of every edge of some graphs from the controls; None without these."""
    deviations = data.explanations[who].mean().deviations
    return None if deviations is None else packed(np.nan_to_num(deviations), "<f4")


# ----------------------------------------------------------------------- systems


class Cell(NamedTuple):
    """A pair of systems in the matrix."""

    text: str  # its value, – where no edge joins the two
    shade: float  # per cent of the darkest colour, 0 without a colour
    side: str  # "plus", "minus", or "" for values without a sign
    star: bool


class SystemMatrix(NamedTuple):
    """Values within and between systems, as the page shows them."""

    names: list[str]
    rows: list[list[Cell]]
    caption: str
    note: str


EMPTY = Cell("–", 0.0, "", False)


def system_matrix(data: ReportData) -> SystemMatrix | None:
    """The matrix of systems: the map of the group, mean contributions, or mean weights."""
    if not data.graphs.aligned or "system" not in data.graphs.node_meta:
        return None
    names = in_order(data.graphs.node_meta["system"])
    if not 2 <= len(names) <= 20:
        return None
    if data.group is not None and len(data.group.systems):
        return _map_matrix(data, data.group, names)
    if data.explanations.edge_contributions is not None:
        return _contribution_matrix(data, names)
    return _weight_matrix(data, names)


def _map_matrix(data: ReportData, group: GroupExplanation, names: list[str]) -> SystemMatrix:
    """Means of the group's map; only pairs that survive have a colour and a star."""
    values = np.full((len(names),) * 2, np.nan)
    stars = np.zeros(values.shape, bool)
    at = {name: k for k, name in enumerate(names)}
    found = set(group.systems.index[surviving_pairs(group)])
    for row in group.systems.itertuples():
        a, b = at[str(row.source_system)], at[str(row.target_system)]
        values[a, b] = values[b, a] = row.mean
        stars[a, b] = stars[b, a] = row.Index in found
    caption = f"Mean of the map between systems (positive: {sign_words(data, group)[0]})"
    note = (
        "★ pairs with larger values than permuted labels give, or shifted to one side as a whole; the others "
        "have no colour."
        if found
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
    note = (
        "Large systems have more connections to sum over. No colours: how sure these sums are is not known."
    )
    return _signed_matrix(names, values, none, caption, note, coloured=none)


def _signed_matrix(
    names: list[str], values: np.ndarray, stars: np.ndarray, caption: str, note: str, coloured: np.ndarray
) -> SystemMatrix:
    largest = float(np.nanmax(np.abs(values), initial=0)) or 1.0
    digits = int(np.clip(np.ceil(-np.log10(largest)) + 1, 2, 6))
    rows = [
        [
            EMPTY
            if np.isnan(value)
            else Cell(
                fixed(value, digits),
                100 * abs(float(value)) / largest if colour else 0.0,
                ("plus" if value > 0 else "minus") if colour else "",
                bool(star),
            )
            for value, star, colour in zip(*row, strict=True)
        ]
        for row in zip(values, stars, coloured, strict=True)
    ]
    return SystemMatrix(names, rows, caption, note)


def _weight_matrix(data: ReportData, names: list[str]) -> SystemMatrix:
    """Mean weights, shaded from 0 to 1 so that small differences stay small."""
    values = data.explanations.by_system(by="weight").loc[names, names].to_numpy(float)
    span = float(np.nanmax(values) - np.nanmin(values))
    digits, note = 2, ""
    if span < FLAT:
        digits = 3
        note = f"The means differ by {span:.2g} at most: the model looks at all pairs of systems alike."
    rows = [
        [EMPTY if np.isnan(v) else Cell(fixed(v, digits), 100 * float(v), "", False) for v in row]
        for row in values
    ]
    return SystemMatrix(names, rows, "Mean edge weight; shades run from 0 to 1", note)


def fixed(value: float, digits: int) -> str:
    """A number with a real minus sign, and none before 0."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if not float(text) else text.replace("-", "−")


def _long_names(data: ReportData) -> list[tuple[str, str]]:
    systems = data.graphs.node_meta.get("system") if data.graphs.aligned else None
    known = [] if systems is None else in_order(systems)
    return [(name, SYSTEM_NAMES[name]) for name in known if name in SYSTEM_NAMES]


def _agreement(found: Reproducibility) -> dict[str, object]:
    """How well maps of disjoint halves agree."""
    splits = found.table.loc[found.table["labels"] == "true", "split"].nunique()
    rows = [
        [str(row.map), *(_digits(row, name, n) for name, n in AGREEMENT)] for row in found.means.itertuples()
    ]
    how = "no site in both" if found.by == "sites" else "drawn at random"
    return {"rows": rows, "how": how, "splits": splits, "n_top": found.n_top, "chance": f"{found.chance:.1f}"}


def _carriers(table: pd.DataFrame | None) -> list[list[str]] | None:
    """How well known connections are found, one row per role."""
    if table is None:
        return None
    return [
        [str(row.Index), str(row.n), *(_digits(row, name, 2) for name in CARRIED)]
        for row in table.itertuples()
    ]


def _digits(row: object, name: str, digits: int) -> str:
    value = float(getattr(row, name))
    return fixed(value, digits) if np.isfinite(value) else "–"
