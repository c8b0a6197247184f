"""`Explanations`: one weight in [0, 1] for every edge of every graph, from any explainer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import pandas as pd
import torch
from scipy import stats

from cignn._arrays import upper_indices
from cignn.explanations.explanation import Explanation
from cignn.graphs import GraphSet
from cignn.graphs.storage import Index, positions

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation as PygExplanation

# Smallest difference of two masks that counts, relative to the top edge's mean weight: far above the rounding
# of float32 (1e-7) and far below what a reader of weights would call a difference.
NEGLIGIBLE = 1e-3


class AlignedWeights(NamedTuple):
    """Weights of all edges that any graph of an aligned set has."""

    edges: np.ndarray  # (e, 2) node numbers, source < target
    weights: np.ndarray  # (g, e) float32, 0 where a graph does not have the edge
    present: np.ndarray  # (g, e) bool


class Explanations:
    """Explanations of the graphs of a `GraphSet`, in their order.

    ``ex[i]`` is one `Explanation`; ``ex[mask]``, ``ex[[0, 2]]`` and ``ex[:10]`` are `Explanations`. All
    parameters are also attributes.

    Parameters
    ----------
    graphs : GraphSet
        The graphs explained.
    edge_weights : sequence of arrays of shape (e,)
        One array per graph with a weight in [0, 1] for each edge, in the order of ``graphs.edges(i)``.
    predictions : array of shape (g,), default=None
        The predicted class that each explanation explains.
    connectivity : array of shape (g, n, n), default=None
        Connectivity to show in tables of edges. By default the edge weights of the graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import Explanations, GraphSet
    >>> graphs = GraphSet.from_arrays((1 - np.eye(3))[None])
    >>> explanations = Explanations(graphs, [np.array([0.0, 0.5, 1.0])])
    >>> explanations.top_edges(2)
       graph  source  target  weight
    0      0       1       2     1.0
    1      0       0       2     0.5
    >>> explanations[0].weights.tolist()
    [[0.0, 0.0, 0.5], [0.0, 0.0, 1.0], [0.5, 1.0, 0.0]]
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
                f"expected {len(graphs)} predictions, one per graph, got {self.predictions.shape}."
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
                found = f"{weights.min()} to {weights.max()}"
                raise ValueError(f"edge weights must lie in [0, 1], graph {i} has {found}.")

    def __len__(self) -> int:
        return len(self.edge_weights)

    @overload
    def __getitem__(self, key: int | np.integer) -> Explanation: ...

    @overload
    def __getitem__(self, key: Index) -> Explanations: ...

    def __getitem__(self, key: int | np.integer | Index) -> Explanation | Explanations:
        if isinstance(key, (int, np.integer)):
            i = range(len(self))[key]
            prediction = None if self.predictions is None else self.predictions[i]
            return self._of(
                i, self.graphs.edges(i), self.edge_weights[i], self._connectivity_of(i), prediction
            )
        index = positions(key, len(self))
        return Explanations(
            self.graphs[index],
            [self.edge_weights[i] for i in index],
            None if self.predictions is None else self.predictions[index],
            None if self.connectivity is None else self.connectivity[index],
        )

    def with_connectivity(self, connectivity: np.ndarray | None) -> Explanations:
        """Return the same explanations with other connectivity values in tables of edges.

        This is for graphs whose edge weights are not connectivity. In tangent space they are distances from
        the group's mean, so their mean over the group is 0 by construction.

        Parameters
        ----------
        connectivity : array of shape (g, n, n) or None
            The values; None for the edge weights of the graphs.

        Returns
        -------
        Explanations
            The explanations.
        """
        return Explanations(self.graphs, self.edge_weights, self.predictions, connectivity)

    def connectivity_matrix(self, i: int) -> np.ndarray:
        """Return the signed connectivity of one graph's edges.

        Parameters
        ----------
        i : int
            Number of the graph.

        Returns
        -------
        ndarray of shape (n, n)
            Symmetric, zero where the graph has no edge.
        """
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
        """Return the k edges of largest weight of every graph.

        Parameters
        ----------
        k : int, default=10
            Number of edges per graph.

        Returns
        -------
        DataFrame
            The column ``graph`` and those of `Explanation.top_edges`.
        """
        tables = [ex.top_edges(k) for ex in self]
        if not tables:
            return pd.DataFrame(columns=["graph", "source", "target", "weight"])
        out = pd.concat(tables, ignore_index=True)
        out.insert(0, "graph", np.repeat(np.arange(len(tables)), [len(table) for table in tables]))
        return out

    def aligned_weights(self, purpose: str = "an array of weights") -> AlignedWeights:
        """Return the weights of an aligned set as one array.

        Parameters
        ----------
        purpose : str, default="an array of weights"
            What needs it, for the error where graphs are not aligned.

        Returns
        -------
        AlignedWeights
            The edges that any graph has, of shape (e, 2), their weights and where they exist, both (g, e).
        """
        if not self.graphs.aligned:
            raise ValueError(f"{purpose} needs aligned graphs (node i the same in each); these are not.")
        if not len(self):
            raise ValueError(f"{purpose} needs at least one explanation, got none.")
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
        return AlignedWeights(np.stack([rows, columns], 1)[used], weights[:, used], present[:, used])

    def mean(self) -> Explanation:
        """Return the explanation of the group: the mean weight of every edge over aligned graphs.

        Returns
        -------
        Explanation
            In graphs that lack an edge its weight counts as 0; connectivity is averaged over the others.
        """
        edges, weights, present = self.aligned_weights("a group mean")
        connectivity = None
        if self.graphs.weighted:
            total = np.zeros((self.graphs.n_nodes[0],) * 2)
            for i in range(len(self)):
                total += self.connectivity_matrix(i)
            connectivity = (total[tuple(edges.T)] / present.sum(0)).astype(np.float32)
        return self._of(0, edges, weights.mean(0, dtype=np.float64).astype(np.float32), connectivity)

    def by_system(self) -> pd.DataFrame:
        """Return the mean edge weight of the group within and between functional systems.

        Returns
        -------
        DataFrame
            Like that of `Explanation.by_system`.
        """
        return self.mean().by_system()

    def compare(self, group: Index, other: Index | None = None) -> pd.DataFrame:
        """Compare the mean weight of every edge between two groups of graphs.

        Graphs of one subject (``meta["subject"]``) are averaged first: subjects are compared, not scans.

        Parameters
        ----------
        group : mask, indices or slice
            The graphs of the first group.
        other : mask, indices or slice, default=None
            The graphs of the second group. By default all others.

        Returns
        -------
        DataFrame
            One row per edge, sorted by absolute t: both means (``weight``, ``other``), ``difference``,
            Welch's ``t`` and its ``p``, which is not corrected for the number of edges. A difference below a
            thousandth of the top edge's mean weight is treated as zero: t is 0, p is 1 and ``note`` is
            "negligible", or "no difference between subjects" if the weight is the same for all subjects.
        """
        edges, weights, _ = self.aligned_weights("a comparison")
        chosen = self._chosen(group)
        rest = ~chosen if other is None else self._chosen(other)
        a, b = self._by_subject(weights, chosen), self._by_subject(weights, rest)
        if min(len(a), len(b)) < 2:
            found = f"{len(a)} and {len(b)}"
            raise ValueError(f"a comparison needs at least two {self._unit}s on each side, got {found}.")
        table = self._of(0, edges, a.mean(0)).table()
        table["other"] = b.mean(0)
        table["difference"] = table["weight"] - table["other"]
        spread = np.maximum(a.std(0, ddof=1), b.std(0, ddof=1))
        floor = _floor(np.concatenate([a, b]))
        real = np.abs(table["difference"].to_numpy()) > floor
        moments = (a.mean(0), a.std(0, ddof=1), len(a), b.mean(0), b.std(0, ddof=1), len(b))
        test = stats.ttest_ind_from_stats(*moments, equal_var=False)
        table["t"] = np.where(real, np.nan_to_num(test.statistic), 0.0)
        table["p"] = np.where(real, np.nan_to_num(test.pvalue, nan=1.0), 1.0)
        table["note"] = np.where(
            real, "", np.where(spread > floor, "negligible", f"no difference between {self._unit}s")
        )
        return table.sort_values("t", key=np.abs, ascending=False, kind="stable", ignore_index=True)

    def against_group(self, i: int, group: Index | None = None) -> pd.DataFrame:
        """Compare one graph's edge weights with those of a group.

        Graphs of one subject are averaged first.

        Parameters
        ----------
        i : int
            Number of the graph.
        group : mask, indices or slice, default=None
            The graphs of the group. By default those of all other subjects.

        Returns
        -------
        DataFrame
            One row per edge, sorted by weight: ``weight``, ``group_mean``, ``group_std`` and ``z``. z is NaN
            for edges whose weight is practically the same in the whole group (see `compare`).
        """
        edges, weights, _ = self.aligned_weights("a comparison")
        i = range(len(self))[i]
        chosen = self._subjects != self._subjects[i] if group is None else self._chosen(group)
        others = self._by_subject(weights, chosen)
        if len(others) < 2:
            raise ValueError(f"a group needs at least two {self._unit}s, got {len(others)}.")
        table = self._of(0, edges, weights[i]).table()
        table["group_mean"] = others.mean(0)
        table["group_std"] = spread = others.std(0, ddof=1)
        distance = weights[i] - others.mean(0)
        varies = spread > _floor(others)
        table["z"] = np.divide(distance, spread, out=np.full(len(edges), np.nan), where=varies)
        return table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def _chosen(self, group: Index) -> np.ndarray:
        """(g,) bool of a mask, indices or a slice."""
        chosen = np.zeros(len(self), bool)
        chosen[group] = True
        return chosen

    @cached_property
    def _subjects(self) -> np.ndarray:
        """(g,) number of each graph's subject; without names each graph is a subject of its own."""
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

    def _of(
        self,
        i: int,
        edges: np.ndarray,
        weights: np.ndarray,
        connectivity: np.ndarray | None = None,
        prediction: object = None,
    ) -> Explanation:
        """Explanation with the nodes of graph i: edges (e, 2), weights and connectivity (e,)."""
        names, systems = self.graphs.node_names, self.graphs.node_meta.get("system")
        n_nodes = int(self.graphs.n_nodes[i])
        return Explanation(edges, weights, n_nodes, names, prediction, connectivity, systems)

    def to_pyg(self) -> list[PygExplanation]:
        """Return the explanations as those of PyTorch Geometric.

        Returns
        -------
        list of torch_geometric.explain.Explanation
            One per graph, with ``edge_mask`` on both directions of every edge.
        """
        from torch_geometric.explain import Explanation as PygExplanation

        out = []
        for data, ex in zip(self.graphs.to_pyg(), self, strict=True):
            mask = torch.from_numpy(np.tile(ex.edge_weights, 2))
            out.append(PygExplanation(edge_mask=mask, **data.to_dict()))
        return out


def _floor(weights: np.ndarray) -> float:
    """Smallest difference of (subjects, e) weights that counts: see `NEGLIGIBLE`."""
    return NEGLIGIBLE * float(weights.mean(0).max(initial=0.0)) if len(weights) else 0.0
