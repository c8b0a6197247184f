"""`Explanation`: the weights of one graph's edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Explanation:
    """The explanation of one graph.

    Parameters
    ----------
    edges : ndarray of shape (e, 2)
        Node numbers, each undirected edge once.
    edge_weights : ndarray of shape (e,)
        Weights in [0, 1].
    n_nodes : int
        Number of nodes.
    node_names : sequence of str, default=None
        Names of the nodes.
    prediction : object, default=None
        The class explained.
    connectivity : ndarray of shape (e,), default=None
        The signed weight of each edge in the graph (in tangent space: its correlation).
    systems : ndarray of shape (n,), default=None
        The system of each node.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanation
    >>> explanation = Explanation(np.array([[0, 1], [1, 2]]), np.array([0.25, 1.0]), 3, ["a", "b", "c"])
    >>> explanation.top_edges(1)
      source target  weight
    0      b      c     1.0
    """

    edges: np.ndarray
    edge_weights: np.ndarray
    n_nodes: int
    node_names: Sequence[str] | None = None
    prediction: object = None
    connectivity: np.ndarray | None = None
    systems: np.ndarray | None = None

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights as a symmetric (n, n) matrix, zero where the graph has no edge."""
        dense = np.zeros((self.n_nodes, self.n_nodes), np.float32)
        source, target = self.edges.T
        dense[source, target] = dense[target, source] = self.edge_weights
        return dense

    def top_edges(self, k: int = 10) -> pd.DataFrame:
        """Return the k edges of largest weight.

        Parameters
        ----------
        k : int, default=10
            Number of edges.

        Returns
        -------
        DataFrame
            One row per edge, the top edge first: source, target, weight and, where they are known, the
            systems of both ends and the connectivity with its sign.
        """
        return self.table(np.argsort(-self.edge_weights, kind="stable")[: _positive(k)])

    def table(self, order: np.ndarray | None = None) -> pd.DataFrame:
        """Return edges as a table.

        Parameters
        ----------
        order : ndarray of int, default=None
            Positions of the edges in `edges`. By default all.

        Returns
        -------
        DataFrame
            One row per edge, with the columns of `top_edges`. Where names of nodes repeat, the columns
            ``source_node`` and ``target_node`` hold their numbers.
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
        """Return the mean edge weight within and between systems.

        Returns
        -------
        DataFrame
            A symmetric table of systems, NaN where no edge joins two.
        """
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


def _positive(k: int) -> int:
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be a whole number of at least 1, got {k!r}.")
    return int(k)
