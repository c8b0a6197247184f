"""`Explanation`: what the edges of one graph did to its decision; `EdgeReference`: what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn._checks import choice
from cignn.graphs import GraphSet

BY = ("auto", "contribution", "weight")
SIDES = ("both", "for", "against")


class EdgeReference(NamedTuple):
    """Mean and spread of every connection in a reference group, such as the controls of the training set.

    Parameters
    ----------
    mean : ndarray of shape (n, n)
        Mean value of every connection.
    std : ndarray of shape (n, n)
        Its standard deviation; NaN or 0 where it is not known.
    name : str
        Name of the reference group.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import GraphSet
    >>> from cignn.explanations import EdgeReference
    >>> controls = np.array([0.25, 0.5, 0.75])[:, None, None] * (1 - np.eye(2))
    >>> reference = EdgeReference.of(GraphSet.from_arrays(controls, aligned=True), "controls")
    >>> reference.mean[0, 1].item(), reference.std[0, 1].item()
    (0.5, 0.25)
    >>> reference.deviations(np.array([[0, 1]]), np.array([1.0])).tolist()
    [2.0]
    """

    mean: np.ndarray
    std: np.ndarray
    name: str

    @classmethod
    def of(cls, graphs: GraphSet, name: str) -> EdgeReference:
        """Return the reference that aligned graphs make.

        Parameters
        ----------
        graphs : GraphSet
            The graphs of the group, aligned.
        name : str
            Name of the group.

        Returns
        -------
        EdgeReference
            Moments over the graphs that have an edge; NaN for edges that fewer than two of them have.
        """
        sums = graphs.edge_sums()
        n = np.where(sums.having > 1, sums.having, np.nan)
        mean = sums.total / n
        variance = np.maximum(sums.squares / n - mean**2, 0) * n / (n - 1)
        real = variance > (1e-7 * mean) ** 2  # a sum of squares cannot tell less from rounding
        std = np.sqrt(np.where(real, variance, np.nan))
        return cls(mean.astype(np.float32), std.astype(np.float32), name)

    def deviations(self, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return how far values of edges are from the group's mean.

        Parameters
        ----------
        edges : ndarray of shape (e, 2)
            Node numbers.
        values : ndarray of shape (e,)
            Their values.

        Returns
        -------
        ndarray of shape (e,)
            Distances in standard deviations of the group, NaN where these are not known.
        """
        ends = tuple(edges.T)
        std = self.std[ends]
        distance = np.asarray(values, np.float64) - self.mean[ends]
        out = np.full(len(edges), np.nan)
        return np.divide(distance, std, out=out, where=std > 0).astype(np.float32)


@dataclass(frozen=True)
class Explanation:
    """The explanation of one graph.

    Parameters
    ----------
    edges : ndarray of shape (e, 2)
        Node numbers, each undirected edge once.
    edge_weights : ndarray of shape (e,)
        Weights in [0, 1]: where the model looks.
    n_nodes : int
        Number of nodes.
    node_names : sequence of str, default=None
        Names of the nodes.
    prediction : object, default=None
        The predicted class.
    connectivity : ndarray of shape (e,), default=None
        The signed weight of each edge in the graph (in tangent space: its correlation).
    systems : ndarray of shape (n,), default=None
        The system of each node.
    edge_contributions : ndarray of shape (e,), default=None
        What each edge adds to the log-odds of the class explained, negative where it speaks against it.
    base : float, default=None
        Log-odds of that class without any edge's contribution.
    explained : object, default=None
        The class explained.
    deviations : ndarray of shape (e,), default=None
        Distance of each edge's value from the mean of the controls, in their standard deviations.
    unit : str, default=None
        Name of the score that a regressor predicts, in whose units contributions are; None for log-odds.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanation
    >>> edges, weights = np.array([[0, 1], [1, 2]]), np.array([0.25, 1.0])
    >>> explanation = Explanation(edges, weights, 3, ["a", "b", "c"])
    >>> explanation.top_edges(1)
      source target  weight
    0      b      c     1.0
    >>> contributions = np.array([-1.5, 0.5])
    >>> explanation = Explanation(edges, weights, 3, edge_contributions=contributions, base=0.25)
    >>> explanation.top_edges(1)
       source  target  contribution     role  weight
    0       0       1          -1.5  against    0.25
    >>> explanation.log_odds
    -0.75
    """

    edges: np.ndarray
    edge_weights: np.ndarray
    n_nodes: int
    node_names: Sequence[str] | None = None
    prediction: object = None
    connectivity: np.ndarray | None = None
    systems: np.ndarray | None = None
    edge_contributions: np.ndarray | None = None
    base: float | None = None
    explained: object = None
    deviations: np.ndarray | None = None
    unit: str | None = None

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights as a symmetric (n, n) matrix, zero where the graph has no edge."""
        return self._matrix(self.edge_weights)

    @cached_property
    def contributions(self) -> np.ndarray:
        """Contributions as a symmetric (n, n) matrix: an edge's value is at [i, j] and at [j, i]."""
        return self._matrix(self._contributions())

    @property
    def log_odds(self) -> float:
        """Log-odds of the class explained: the base and the sum of all contributions; or the score."""
        total = float(self._contributions().sum(dtype=np.float64))
        return total if self.base is None else float(self.base) + total

    @property
    def roles(self) -> tuple[str, str]:
        """Words for positive and negative contributions."""
        return ("for", "against") if self.unit is None else ("raises", "lowers")

    def ranking(self, by: str = "auto", side: str = "both") -> np.ndarray:
        """Return the edges in the order of what they matter.

        Parameters
        ----------
        by : {"auto", "contribution", "weight"}, default="auto"
            What ranks the edges: the absolute contribution, or the weight. "auto" is the contribution where
            there is one.
        side : {"both", "for", "against"}, default="both"
            Which edges: all, or those that speak for or against the class explained.

        Returns
        -------
        ndarray of int
            Positions of the edges in `edges`, the top one first.
        """
        choice("side", side, SIDES)
        values = np.abs(self._contributions()) if self.ranked_by(by) == "contribution" else self.edge_weights
        order = np.argsort(-values, kind="stable")
        if side == "both":
            return order
        sign = 1 if side == "for" else -1
        return order[self._contributions()[order] * sign > 0]

    def ranked_by(self, by: str = "auto") -> str:
        """Return what "auto" stands for.

        Parameters
        ----------
        by : {"auto", "contribution", "weight"}, default="auto"
            The choice.

        Returns
        -------
        {"contribution", "weight"}
            The choice, "auto" resolved: contributions where there are any.
        """
        choice("by", by, BY)
        if by == "auto":
            return "weight" if self.edge_contributions is None else "contribution"
        if by == "contribution":
            self._contributions()
        return by

    def select(self, order: np.ndarray) -> Explanation:
        """Return the explanation with some of its edges.

        Parameters
        ----------
        order : ndarray of int or bool
            Positions of the edges in `edges`, or a mask.

        Returns
        -------
        Explanation
            The edges in this order, with all that is known of them. The base takes in what the others
            contribute, so that the log-odds stay.
        """

        def some(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[order]

        kept, base = some(self.edge_contributions), self.base
        if kept is not None and base is not None:
            base = self.log_odds - float(kept.sum(dtype=np.float64))
        return replace(
            self,
            edges=self.edges[order],
            edge_weights=self.edge_weights[order],
            connectivity=some(self.connectivity),
            edge_contributions=kept,
            base=base,
            deviations=some(self.deviations),
        )

    def top_edges(self, k: int = 10, by: str = "auto", side: str = "both") -> pd.DataFrame:
        """Return the k edges that matter most.

        Parameters
        ----------
        k : int, default=10
            Number of edges.
        by : {"auto", "contribution", "weight"}, default="auto"
            What ranks the edges, see `ranking`.
        side : {"both", "for", "against"}, default="both"
            Which edges: all, or those that speak for or against the class explained.

        Returns
        -------
        DataFrame
            One row per edge, the top edge first, with the columns of `table`.
        """
        return self.table(self.ranking(by, side)[: _positive(k)])

    def table(self, order: np.ndarray | None = None) -> pd.DataFrame:
        """Return edges as a table.

        Parameters
        ----------
        order : ndarray of int, default=None
            Positions of the edges in `edges`. By default all.

        Returns
        -------
        DataFrame
            One row per edge: ``source`` and ``target``; ``contribution`` and its ``role`` ("for" or
            "against", of a score "raises" or "lowers"), ``deviation`` and its ``direction`` ("higher" or
            "lower") where they are known; ``weight``; where they are known, ``connectivity`` with its
            ``sign`` and the systems of both ends. Where names of nodes repeat, ``source_node`` and
            ``target_node`` hold their numbers.
        """
        order = np.arange(len(self.edges)) if order is None else order
        ends = self.edges[order].T
        names = np.arange(self.n_nodes) if self.node_names is None else np.asarray(self.node_names)
        columns = {"source": names[ends[0]], "target": names[ends[1]]}
        for values, name, (word, up, down) in (
            (self.edge_contributions, "contribution", ("role", *self.roles)),
            (self.deviations, "deviation", ("direction", "higher", "lower")),
        ):
            if values is not None:
                columns |= {name: values[order], word: _signs(values[order], up, down)}
        columns["weight"] = self.edge_weights[order]
        if len(np.unique(names)) < len(names):
            columns |= {"source_node": ends[0], "target_node": ends[1]}
        if self.connectivity is not None:
            columns["connectivity"] = self.connectivity[order]
            columns["sign"] = np.where(self.connectivity[order] < 0, "−", "+")
        if self.systems is not None:
            columns |= {"source_system": self.systems[ends[0]], "target_system": self.systems[ends[1]]}
        return pd.DataFrame(columns)

    def by_system(self, by: str = "auto") -> pd.DataFrame:
        """Return what the edges within and between systems contribute, or their mean weight.

        Parameters
        ----------
        by : {"auto", "contribution", "weight"}, default="auto"
            The sum of the signed contributions, or the mean weight. "auto" is the contributions where there
            are any.

        Returns
        -------
        DataFrame
            A symmetric table of systems, NaN where no edge joins two.
        """
        names, place = self._system_pairs()
        count = np.bincount(place, minlength=len(names) ** 2)
        if self.ranked_by(by) == "contribution":
            values, divisor = self._contributions(), np.where(count > 0, 1.0, np.nan)
        else:
            values, divisor = self.edge_weights, np.where(count > 0, count, np.nan)
        upper = (np.bincount(place, values, len(count)) / divisor).reshape(len(names), -1)
        both = np.where(np.tri(len(names), k=-1, dtype=bool), upper.T, upper)
        return pd.DataFrame(both, index=names, columns=names)

    def system_table(self) -> pd.DataFrame:
        """Return one row per pair of systems that edges join.

        Returns
        -------
        DataFrame
            ``source_system``, ``target_system``, where there are contributions their sum ``contribution``
            and its parts ``for`` and ``against``, the mean ``weight`` and the number ``n_edges``; sorted by
            the absolute contribution, else by weight.
        """
        names, place = self._system_pairs()
        found, place, count = np.unique(place, return_inverse=True, return_counts=True)
        low, high = np.divmod(found, max(len(names), 1))
        columns = {"source_system": names[low], "target_system": names[high]}
        if self.edge_contributions is not None:
            given = self.edge_contributions.astype(np.float64)
            for name, values in (
                ("contribution", given),
                (self.roles[0], given.clip(min=0)),
                (self.roles[1], given.clip(max=0)),
            ):
                columns[name] = np.bincount(place, values, len(found))
        columns["weight"] = np.bincount(place, self.edge_weights, len(found)) / count
        table = pd.DataFrame(columns | {"n_edges": count})
        leading = "weight" if self.edge_contributions is None else "contribution"
        return table.sort_values(leading, key=np.abs, ascending=False, kind="stable", ignore_index=True)

    def _matrix(self, values: np.ndarray) -> np.ndarray:
        """(n, n) symmetric of the (e,) values of the edges."""
        dense = np.zeros((self.n_nodes, self.n_nodes), np.float32)
        source, target = self.edges.T
        dense[source, target] = dense[target, source] = values
        return dense

    def _contributions(self) -> np.ndarray:
        """(e,) contributions; an error where there are none."""
        if self.edge_contributions is None:
            raise ValueError(NO_CONTRIBUTIONS)
        return self.edge_contributions

    def _system_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Names of the k systems, and (e,) the pair each edge joins: first · k + second, first ≤ second."""
        if self.systems is None:
            raise ValueError(
                'the nodes have no systems; make the graphs with node_meta={"system": ...} or an atlas.'
            )
        names, codes = np.unique(self.systems, return_inverse=True)
        source, target = codes[self.edges.T]
        return names, np.minimum(source, target) * len(names) + np.maximum(source, target)


NO_CONTRIBUTIONS = (
    "these explanations have weights alone, no contributions; explain with a classifier's own explain or "
    'with make_explainer("contributions"), or pass by="weight" and side="both".'
)


def _signs(values: np.ndarray, above: str, below: str) -> np.ndarray:
    """A word for the sign of each value, none for 0 and NaN."""
    return np.select([values > 0, values < 0], [above, below], "")


def _positive(k: int) -> int:
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be a whole number of at least 1, got {k!r}.")
    return int(k)
