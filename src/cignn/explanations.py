"""`Explanations`: one weight in [0, 1] for every edge of every graph, however it was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from cignn._arrays import upper_indices
from cignn.graphs import GraphSet
from cignn.graphs.storage import positions

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation as PygExplanation

__all__ = ["Explanation", "Explanations"]

# Of the heaviest edge's mean weight: what two masks differ by below this is rounding or drift of a training,
# far above what float32 can tell apart (1e-7) and far below what a reader of weights would call a difference.
NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Explanation:
    """The explanation of one graph.

    edges : (e, 2), each undirected edge once; edge_weights : (e,) in [0, 1]; n_nodes : number of nodes;
    node_names : names of the nodes, or None; prediction : the class explained, or None; connectivity : (e,)
    the signed weight each edge has in the graph (in tangent space: its correlation), or None; systems : (n,)
    the system of each node, or None.
    """

    edges: np.ndarray
    edge_weights: np.ndarray
    n_nodes: int
    node_names: Sequence[str] | None = None
    prediction: Any = None
    connectivity: np.ndarray | None = None
    systems: np.ndarray | None = None

    @cached_property
    def weights(self) -> np.ndarray:
        """(n, n) symmetric, zero where the graph has no edge."""
        dense = np.zeros((self.n_nodes, self.n_nodes), np.float32)
        source, target = self.edges.T
        dense[source, target] = dense[target, source] = self.edge_weights
        return dense

    def top_edges(self, k: int = 10) -> pd.DataFrame:
        """The k heaviest edges, heaviest first: source, target, weight.

        Where they are known, also the systems of both ends and the connectivity with its sign.
        """
        return self.table(np.argsort(-self.edge_weights, kind="stable")[: _positive(k)])

    def table(self, order: np.ndarray | None = None) -> pd.DataFrame:
        """The edges at ``order`` (all by default), one row each.

        Where names of nodes repeat, the columns ``source_node`` and ``target_node`` are their numbers.
        """
        order = np.arange(len(self.edges)) if order is None else order
        ends = self.edges[order].T
        names = np.arange(self.n_nodes) if self.node_names is None else np.asarray(self.node_names)
        columns = {"source": names[ends[0]], "target": names[ends[1]], "weight": self.edge_weights[order]}
        if len(np.unique(names)) < len(names):
            columns |= {"source_node": ends[0], "target_node": ends[1]}
        if self.connectivity is not None:
            columns["connectivity"] = self.connectivity[order]
            columns["sign"] = np.where(self.connectivity[order] < 0, "−", "+")
        if self.systems is not None:
            columns |= {"source_system": self.systems[ends[0]], "target_system": self.systems[ends[1]]}
        return pd.DataFrame(columns)

    def by_system(self) -> pd.DataFrame:
        """Mean edge weight within and between systems: a symmetric table, NaN where no edge joins two."""
        if self.systems is None:
            raise ValueError(
                'the nodes have no systems; make the graphs with node_meta={"system": ...} or an atlas.'
            )
        names, codes = np.unique(self.systems, return_inverse=True)
        source, target = codes[self.edges.T]
        total, count = np.zeros((2, len(names), len(names)))
        for a, b, different in ((source, target, True), (target, source, source != target)):
            np.add.at(total, (a, b), self.edge_weights * different)
            np.add.at(count, (a, b), np.broadcast_to(different, len(a)).astype(float))
        mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        return pd.DataFrame(mean, index=names, columns=names)


class Explanations:
    """Explanations of the graphs of a `GraphSet`, in their order.

    ``ex[i]`` is one `Explanation`; ``ex[mask]``, ``ex[[0, 2]]`` and ``ex[:10]`` are `Explanations`.

    Attributes
    ----------
    graphs : the graphs explained
    edge_weights : one array per graph, aligned with ``graphs.edges(i)``, in [0, 1]
    predictions : (g,) the class each explanation is for, or None
    connectivity : (g, n, n) what tables call the connectivity of edges; None for the graphs' own weights
    """

    def __init__(
        self,
        graphs: GraphSet,
        edge_weights: Sequence[np.ndarray],
        predictions: np.ndarray | None = None,
        connectivity: np.ndarray | None = None,
    ) -> None:
        if len(edge_weights) != len(graphs):
            raise ValueError(f"expected edge weights for {len(graphs)} graphs, got {len(edge_weights)}.")
        self.graphs = graphs
        self.edge_weights = [np.asarray(weights, np.float32) for weights in edge_weights]
        self.predictions = None if predictions is None else np.asarray(predictions)
        if self.predictions is not None and self.predictions.shape != (len(graphs),):
            raise ValueError(
                f"expected one prediction for each of {len(graphs)} graphs, got {self.predictions.shape}."
            )
        self.connectivity = None if connectivity is None else np.asarray(connectivity, np.float32)
        if self.connectivity is not None:
            shape = (len(graphs), *(int(graphs.n_nodes.max(initial=0)),) * 2)
            if not graphs.aligned or (len(graphs) and self.connectivity.shape != shape):
                raise ValueError(
                    f"connectivity must be {shape}, one matrix for each of aligned graphs, "
                    f"got {self.connectivity.shape}."
                )
        for i, weights in enumerate(self.edge_weights):
            if weights.shape != (graphs.n_edges[i],):
                raise ValueError(
                    f"graph {i} has {graphs.n_edges[i]} edges, got weights of shape {weights.shape}."
                )
            if weights.size and not (weights.min() >= 0 and weights.max() <= 1):
                raise ValueError(
                    f"edge weights must lie in [0, 1], graph {i} has {weights.min()} to {weights.max()}."
                )

    def __len__(self) -> int:
        return len(self.edge_weights)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            i = range(len(self))[key]
            return Explanation(
                self.graphs.edges(i),
                self.edge_weights[i],
                int(self.graphs.n_nodes[i]),
                self.graphs.node_names,
                None if self.predictions is None else self.predictions[i],
                self._connectivity_of(i),
                self.graphs.node_meta.get("system"),
            )
        index = positions(key, len(self))
        return Explanations(
            self.graphs[index],
            [self.edge_weights[i] for i in index],
            None if self.predictions is None else self.predictions[index],
            None if self.connectivity is None else self.connectivity[index],
        )

    def with_connectivity(self, connectivity: np.ndarray | None) -> Explanations:
        """Return the same explanations whose tables show (g, n, n) values as the connectivity of edges.

        For graphs whose own weights are no connectivity: those of the tangent space are distances from the
        group's mean, and their mean over the group is 0 by construction.
        """
        return Explanations(self.graphs, self.edge_weights, self.predictions, connectivity)

    def connectivity_matrix(self, i: int) -> np.ndarray:
        """(n, n) signed connectivity of one graph's edges, zero where it has none."""
        own = self.graphs.edge_matrix(i)
        return own if self.connectivity is None else np.where(own != 0, self.connectivity[i], 0)

    def _connectivity_of(self, i: int) -> np.ndarray | None:
        """(e,) signed connectivity of one graph's edges; None where they have none."""
        if self.connectivity is not None:
            return self.connectivity[i][tuple(self.graphs.edges(i).T)]
        return self.graphs.edge_values(i) if self.graphs.weighted else None

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        weights = np.concatenate([np.empty(0, np.float32), *self.edge_weights])
        mean = f"mean edge weight {weights.mean():.2f}" if len(weights) else "no edges"
        return f"Explanations({len(self)} graphs, {mean})"

    def top_edges(self, k: int = 10) -> pd.DataFrame:
        """The k heaviest edges of every graph: graph, source, target, weight, and what else is known."""
        tables = [ex.top_edges(k) for ex in self]
        if not tables:
            return pd.DataFrame(columns=["graph", "source", "target", "weight"])
        out = pd.concat(tables, ignore_index=True)
        out.insert(0, "graph", np.repeat(np.arange(len(tables)), [len(table) for table in tables]))
        return out

    def mean(self) -> Explanation:
        """The group's explanation: the mean weight of every edge over the graphs of an aligned set.

        A graph without the edge counts as weight 0; the connectivity is the mean over graphs that have it.
        """
        edges, weights, present = self._aligned("a group mean")
        connectivity = None
        if self.graphs.weighted:
            total = np.zeros((self.graphs.n_nodes[0],) * 2)
            for i in range(len(self)):
                total += self.connectivity_matrix(i)
            connectivity = (total[tuple(edges.T)] / present.sum(0)).astype(np.float32)
        return Explanation(
            edges,
            weights.mean(0, dtype=np.float64).astype(np.float32),
            int(self.graphs.n_nodes[0]),
            self.graphs.node_names,
            connectivity=connectivity,
            systems=self.graphs.node_meta.get("system"),
        )

    def by_system(self) -> pd.DataFrame:
        """Mean edge weight of the group within and between systems."""
        return self.mean().by_system()

    def compare(self, group: Any, other: Any = None) -> pd.DataFrame:
        """Edge by edge, one group against another: means, difference, Welch's t and its p-value.

        group, other : masks, indices or slices of the graphs; ``other`` is by default everyone else. Graphs
        of one subject (``meta["subject"]``) are averaged first: subjects are compared, not scans. Rows are
        sorted by the size of t. The p-values are not corrected for the number of edges.

        A difference below a thousandth of the heaviest edge's mean weight is none: its t is 0, its p is 1 and
        the column ``note`` says so, "no difference between subjects" where the weight is one and the same for
        all. However small, such a difference of a mask shared by everyone would otherwise be "significant".
        """
        edges, weights, _ = self._aligned("a comparison")
        chosen = self._chosen(group)
        rest = ~chosen if other is None else self._chosen(other)
        a, b = self._by_subject(weights, chosen), self._by_subject(weights, rest)
        if min(len(a), len(b)) < 2:
            raise ValueError(
                f"a comparison needs at least two {self._unit}s on each side, got {len(a)} and {len(b)}."
            )
        table = self._of(edges).drop(columns="weight")
        table["weight"], table["other"] = a.mean(0), b.mean(0)
        table["difference"] = table["weight"] - table["other"]
        spread = np.maximum(a.std(0, ddof=1), b.std(0, ddof=1))
        floor = _floor(np.concatenate([a, b]))
        real = np.abs(table["difference"].to_numpy()) > floor
        test = stats.ttest_ind_from_stats(
            *(a.mean(0), a.std(0, ddof=1), len(a), b.mean(0), b.std(0, ddof=1), len(b)), equal_var=False
        )
        table["t"] = np.where(real, np.nan_to_num(test.statistic), 0.0)
        table["p"] = np.where(real, np.nan_to_num(test.pvalue, nan=1.0), 1.0)
        table["note"] = np.where(
            real, "", np.where(spread > floor, "negligible", f"no difference between {self._unit}s")
        )
        return table.sort_values("t", key=np.abs, ascending=False, kind="stable", ignore_index=True)

    def against_group(self, i: int, group: Any = None) -> pd.DataFrame:
        """One graph's edges beside those of a group (by default all others): weight, mean, std, z.

        Graphs of one subject are averaged first, and "all others" are other subjects. Rows are sorted by
        weight; z is NaN where the group does not vary by more than rounding: see `compare`.
        """
        edges, weights, _ = self._aligned("a comparison")
        i = range(len(self))[i]
        chosen = self._subjects != self._subjects[i] if group is None else self._chosen(group)
        others = self._by_subject(weights, chosen)
        if len(others) < 2:
            raise ValueError(f"a group needs at least two {self._unit}s, got {len(others)}.")
        table = self._of(edges).drop(columns="weight")
        table["weight"] = weights[i]
        table["group_mean"] = others.mean(0)
        table["group_std"] = spread = others.std(0, ddof=1)
        distance = weights[i] - others.mean(0)
        varies = spread > _floor(others)
        table["z"] = np.divide(distance, spread, out=np.full(len(edges), np.nan), where=varies)
        return table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def _chosen(self, group: Any) -> np.ndarray:
        """(g,) bool of a mask, indices or a slice."""
        chosen = np.zeros(len(self), bool)
        chosen[group] = True
        return chosen

    @cached_property
    def _subjects(self) -> np.ndarray:
        """(g,) number of the subject each graph is of; without names each graph is its own."""
        if "subject" not in self.graphs.meta:
            return np.arange(len(self))
        return np.unique(np.asarray(self.graphs.meta["subject"]).astype(str), return_inverse=True)[1]

    @property
    def _unit(self) -> str:
        return "subject" if "subject" in self.graphs.meta else "graph"

    def _by_subject(self, weights: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """(subjects, e) mean weights of each subject's graphs among the chosen ones."""
        _, subject, counts = np.unique(self._subjects[chosen], return_inverse=True, return_counts=True)
        total = np.zeros((len(counts), weights.shape[1]))
        np.add.at(total, subject, weights[chosen])
        return total / np.maximum(counts, 1)[:, None]

    def _of(self, edges: np.ndarray) -> pd.DataFrame:
        """Names and systems of edges."""
        n, names = int(self.graphs.n_nodes[0]), self.graphs.node_names
        blank = np.zeros(len(edges), np.float32)
        return Explanation(edges, blank, n, names, systems=self.graphs.node_meta.get("system")).table()

    def _aligned(self, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Edges (e, 2) of any graph of an aligned set, their weights (g, e) and where they exist (g, e)."""
        if not self.graphs.aligned:
            raise ValueError(f"{what} needs aligned graphs (node i the same in each); these are not.")
        if not len(self):
            raise ValueError(f"{what} needs at least one explanation, got none.")
        n = int(self.graphs.n_nodes[0])
        rows, columns = upper_indices(n)
        number = np.zeros((n, n), np.int64)
        number[rows, columns] = np.arange(len(rows))
        weights = np.zeros((len(self), len(rows)), np.float32)
        present = np.zeros((len(self), len(rows)), bool)
        for i, values in enumerate(self.edge_weights):
            at = number[tuple(self.graphs.edges(i).T)]
            weights[i, at], present[i, at] = values, True
        used = present.any(0)
        return np.stack([rows, columns], 1)[used], weights[:, used], present[:, used]

    def to_pyg(self) -> list[PygExplanation]:
        """PyTorch Geometric explanations, with ``edge_mask`` on both directions of every edge."""
        from torch_geometric.explain import Explanation as PygExplanation

        out = []
        for data, ex in zip(self.graphs.to_pyg(), self, strict=True):
            mask = torch.from_numpy(np.tile(ex.edge_weights, 2))
            out.append(PygExplanation(edge_mask=mask, **data.to_dict()))
        return out


def _floor(weights: np.ndarray) -> float:
    """What a difference of (subjects, e) weights must exceed to be one: see `NEGLIGIBLE`."""
    return NEGLIGIBLE * float(weights.mean(0).max(initial=0.0)) if len(weights) else 0.0


def _positive(k: int) -> int:
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be a whole number of at least 1, got {k!r}.")
    return int(k)
