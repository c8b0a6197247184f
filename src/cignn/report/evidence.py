"""What contributions add up to: for and against a decision, by pair of systems, and over the group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cignn.report.records import Edges
from cignn.report.report_data import ReportData
from cignn.report.style import in_order


class Evidence(NamedTuple):
    """The contributions to every decision, in log-odds of the class explained."""

    explained: np.ndarray  # (g,) class numbers
    base: np.ndarray  # (g,) log-odds without any edge's contribution
    plus: np.ndarray  # (g,) sum of the contributions for the class
    minus: np.ndarray  # (g,) sum of those against it, not negative


def evidence(data: ReportData) -> Evidence | None:
    """Sums of the contributions; None where the explanations have none."""
    explanations = data.explanations
    given = explanations.edge_contributions
    if given is None:
        return None
    assert explanations.base is not None and explanations.explained is not None
    number = {label: k for k, label in enumerate(data.classes.tolist())}
    explained = np.array([number[label] for label in explanations.explained.tolist()])
    plus = np.array([np.maximum(values, 0).sum(dtype=float) for values in given])
    minus = np.array([np.maximum(-values, 0).sum(dtype=float) for values in given])
    return Evidence(explained, np.asarray(explanations.base, float), plus, minus)


class PairSums(NamedTuple):
    """Contributions between systems."""

    names: list[str]  # of the systems
    pairs: list[tuple[int, int]]  # (p,) numbers of two systems, first <= second
    sums: np.ndarray  # (g, p, 2) sums for and against, neither negative


def pair_sums(data: ReportData) -> PairSums | None:
    """Sum the contributions of every graph by pair of systems; None without systems or contributions."""
    graphs, given = data.graphs, data.explanations.edge_contributions
    systems = graphs.node_meta.get("system") if graphs.aligned else None
    if systems is None or given is None:
        return None
    names = in_order(systems)
    code = np.array([names.index(str(system)) for system in systems])
    rows, columns = np.triu_indices(len(names))
    number = np.zeros((len(names),) * 2, np.int64)
    number[rows, columns] = number[columns, rows] = np.arange(len(rows))
    sums = np.zeros((len(graphs), len(rows), 2))
    for i, values in enumerate(given):
        at = number[tuple(code[graphs.edges(i)].T)]
        for side, part in enumerate((values, -values)):
            sums[i, :, side] = np.bincount(at, np.maximum(part, 0), len(rows))
    return PairSums(names, list(zip(rows.tolist(), columns.tolist(), strict=True)), sums)


class Mean(NamedTuple):
    """Mean contributions of some graphs."""

    name: str  # of the graphs
    towards: str  # the class the contributions speak for
    who: np.ndarray  # (g,) bool
    signs: np.ndarray  # (g,) what a graph's contributions are multiplied by: 1, or −1 for the other class

    def of(self, values: np.ndarray) -> np.ndarray:
        """Mean over these graphs of (g, ...) contributions."""
        signs = self.signs[self.who].reshape(-1, *(1,) * (values.ndim - 1))
        return (values[self.who] * signs).mean(0)


def means(data: ReportData, found: Evidence) -> list[Mean]:
    """The groups of graphs whose mean contributions are shown.

    Of two classes, all contributions are turned towards the positive class, whatever was predicted, and
    averaged over each true class (the predicted one where no label is known) and over all. Of more classes,
    those explained for one class are averaged.
    """
    labels, positive = data.class_labels, data.positive_number
    everyone = np.ones(len(data.graphs), bool)
    if len(labels) != 2:
        one = np.ones(len(everyone))
        chosen = [(k, found.explained == k) for k in range(len(labels))]
        return [Mean(f"explained as {labels[k]}", labels[k], who, one) for k, who in chosen if who.any()]
    signs = np.where(found.explained == positive, 1.0, -1.0)
    known = bool((data.truth >= 0).any())
    truth = data.truth if known else data.predicted
    sets = [(labels[k] if known else f"predicted {labels[k]}", truth == k) for k in (positive, 1 - positive)]
    sets.append(("all", everyone))
    return [Mean(name, labels[positive], who, signs) for name, who in sets if who.any()]


def mean_contributions(chosen: list[Mean], edges: Edges) -> list[np.ndarray]:
    """(e,) mean contributions of each group of graphs, 0 where a graph does not have the edge."""
    assert edges.contributions is not None
    return [one.of(edges.contributions) for one in chosen]
