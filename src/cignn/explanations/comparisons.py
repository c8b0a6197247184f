"""Comparisons of explanations: group against group, one graph against a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from cignn._checks import choice
from cignn.explanations.explanation import BY
from cignn.graphs.storage import Index

if TYPE_CHECKING:
    from cignn.explanations.explanation_set import Explanations

# Smallest difference of two groups that counts, relative to the top edge's mean value: far above the rounding
# of float32 (1e-7) and far below what a reader of weights or contributions would call a difference.
NEGLIGIBLE = 1e-3


def compare(
    explanations: Explanations, group: Index, other: Index | None, by: str, target: object
) -> pd.DataFrame:
    """Table of edges with the means of two groups and Welch's t; see `Explanations.compare`."""
    leading, target = _leading(explanations, by, target)
    chosen = _chosen(explanations, group)
    rest = ~chosen if other is None else _chosen(explanations, other)
    values = _values(explanations, leading, target)
    a, b = _by_subject(explanations, values, chosen), _by_subject(explanations, values, rest)
    if min(len(a), len(b)) < 2:
        unit, found = _unit(explanations), f"{len(a)} and {len(b)}"
        raise ValueError(f"a comparison needs at least two {unit}s on each side, got {found}.")
    table = _table(explanations, chosen, leading, a.mean(0))
    table["other"] = b.mean(0)
    table["difference"] = table[leading] - table["other"]
    spread = np.maximum(a.std(0, ddof=1), b.std(0, ddof=1))
    floor = _floor(np.concatenate([a, b]))
    real = np.abs(table["difference"].to_numpy()) > floor
    moments = (a.mean(0), a.std(0, ddof=1), len(a), b.mean(0), b.std(0, ddof=1), len(b))
    test = stats.ttest_ind_from_stats(*moments, equal_var=False)
    table["t"] = np.where(real, np.nan_to_num(test.statistic), 0.0)
    table["p"] = np.where(real, np.nan_to_num(test.pvalue, nan=1.0), 1.0)
    same = f"no difference between {_unit(explanations)}s"
    table["note"] = np.where(real, "", np.where(spread > floor, "negligible", same))
    return table.sort_values("t", key=np.abs, ascending=False, kind="stable", ignore_index=True)


def against_group(explanations: Explanations, i: int, group: Index | None, by: str) -> pd.DataFrame:
    """Table of one graph's edges beside a group's mean and spread; see `Explanations.against_group`."""
    i = range(len(explanations))[i]
    own_class = None if explanations.explained is None else explanations.explained[i]
    leading, target = _leading(explanations, by, own_class)
    subjects = _subjects(explanations)
    chosen = subjects != subjects[i] if group is None else _chosen(explanations, group)
    values = _values(explanations, leading, target)
    others = _by_subject(explanations, values, chosen)
    if len(others) < 2:
        raise ValueError(f"a group needs at least two {_unit(explanations)}s, got {len(others)}.")
    table = _table(explanations, _chosen(explanations, [i]), leading, values[i])
    table["group_mean"] = others.mean(0)
    table["group_std"] = spread = others.std(0, ddof=1)
    distance = values[i] - others.mean(0)
    varies = spread > _floor(others)
    table["z"] = np.divide(distance, spread, out=np.full(len(table), np.nan), where=varies)
    return table.sort_values(leading, key=np.abs, ascending=False, kind="stable", ignore_index=True)


def _leading(explanations: Explanations, by: str, target: object) -> tuple[str, object]:
    """What is compared, "contribution" or "weight", and the class towards which contributions count."""
    choice("by", by, BY)
    possible = explanations.one_class()
    if by == "weight" or (by == "auto" and possible is None):
        return "weight", None
    return "contribution", possible if target is None else target


def _values(explanations: Explanations, leading: str, target: object) -> np.ndarray:
    """(g, e) contributions or weights of all edges that any graph has."""
    if leading == "weight":
        return explanations.aligned_weights("a comparison").weights
    return explanations.aligned_contributions(target, "a comparison").contributions


def _table(explanations: Explanations, chosen: np.ndarray, leading: str, means: np.ndarray) -> pd.DataFrame:
    """Table of all edges of some graphs, led by the (e,) mean contribution or weight."""
    edges, weights, present = explanations.aligned_weights("a comparison")
    told: dict[str, Any] = {}
    if leading == "contribution":
        told["edge_contributions"] = means
        means = _by_subject(explanations, weights, chosen).mean(0)
    if explanations.reference is not None:
        some = explanations[chosen]
        own = some._mean_of(some.graphs.edge_matrix, edges, present[chosen])
        told["deviations"] = explanations.reference.deviations(edges, own)
    return explanations._of(edges, means, **told).table()


def _chosen(explanations: Explanations, group: Index) -> np.ndarray:
    """(g,) bool of a mask, indices or a slice."""
    chosen = np.zeros(len(explanations), bool)
    chosen[group] = True
    return chosen


def _subjects(explanations: Explanations) -> np.ndarray:
    """(g,) number of each graph's subject; without names each graph is a subject of its own."""
    if "subject" not in explanations.graphs.meta:
        return np.arange(len(explanations))
    names = np.asarray(explanations.graphs.meta["subject"]).astype(str)
    return np.unique(names, return_inverse=True)[1]


def _unit(explanations: Explanations) -> str:
    return "subject" if "subject" in explanations.graphs.meta else "graph"


def _by_subject(explanations: Explanations, values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """(subjects, e) mean (g, e) values of each subject's graphs among the chosen ones."""
    subjects = _subjects(explanations)[chosen]
    _, subject, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    total = np.zeros((len(counts), values.shape[1]))
    np.add.at(total, subject, values[chosen])
    return total / np.maximum(counts, 1)[:, None]


def _floor(values: np.ndarray) -> float:
    """Smallest difference of (subjects, e) values that counts: see `NEGLIGIBLE`."""
    return NEGLIGIBLE * float(np.abs(values).mean(0).max(initial=0.0)) if len(values) else 0.0
