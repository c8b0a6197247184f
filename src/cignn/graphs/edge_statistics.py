"""Centre and scale of every edge of aligned graphs, and the sums they follow from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# share of graphs that must have an edge for its mean weight to be its centre
COMMON = 0.9


class EdgeStatistics(NamedTuple):
    """Centre and scale of every edge's weight in an aligned set.

    Parameters
    ----------
    centre : ndarray of shape (n, n)
        The mean weight of an edge that at least nine tenths of the graphs have, and 0 for any other edge,
        whose presence itself is informative.
    scale : ndarray of shape (n, n)
        Root mean square distance of the weights from the centre, 1 where that is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import GraphSet
    >>> adj = (1 - np.eye(3)) * np.array([0.5, 0.75, 1.0])[:, None, None]
    >>> GraphSet.from_arrays(adj, aligned=True).edge_statistics().centre[0].tolist()
    [0.0, 0.75, 0.75]
    """

    centre: np.ndarray
    scale: np.ndarray


class EdgeSums(NamedTuple):
    """Sums over the graphs of an aligned set: those of a part are the whole's without the rest's."""

    graphs: int
    having: np.ndarray  # (n, n), graphs that have the edge
    total: np.ndarray  # (n, n), of the weights
    squares: np.ndarray  # (n, n), of the squared weights

    def without(self, rest: EdgeSums) -> EdgeSums:
        """Return the sums over the other graphs."""
        return EdgeSums(
            self.graphs - rest.graphs,
            self.having - rest.having,
            self.total - rest.total,
            self.squares - rest.squares,
        )

    def statistics(self) -> EdgeStatistics:
        """Return centre and scale of every edge's weight."""
        seen = np.maximum(self.having, 1)
        mean = self.total / seen
        centre = np.where(self.having >= COMMON * self.graphs, mean, 0)
        # the mean square distance from c is that from the mean and (mean - c)²
        variance = np.maximum(self.squares / seen - mean**2, 0)
        spread = np.sqrt(variance + (mean - centre) ** 2)
        # what a sum of squares cannot tell from rounding is no spread
        real = spread > np.maximum(1e-8, 1e-7 * np.abs(mean))
        return EdgeStatistics(centre, np.where(real & (self.having > 0), spread, 1))
