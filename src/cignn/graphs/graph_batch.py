"""`GraphBatch`: a dense mini-batch of graphs on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class GraphBatch:
    """A dense mini-batch of graphs, padded to the largest of them.

    `GraphSet.batch` makes one.

    Parameters
    ----------
    x : Tensor of shape (b, n, d)
        Node features, 0 at padded nodes.
    adj : Tensor of shape (b, n, n)
        Signed edge weights, symmetric; 0 where there is no edge.
    mask : Tensor of shape (b, n)
        True for real nodes.
    y : Tensor of shape (b,), default=None
        Class numbers, where they are known.
    padded : bool, default=True
        Whether some nodes are padding. If not, layers skip the masking.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> len(batch), batch.n_nodes.tolist()
    (4, [25, 25, 25, 25])
    >>> batch.padded
    False
    """

    x: Tensor
    adj: Tensor
    mask: Tensor
    y: Tensor | None = None
    padded: bool = True

    def __len__(self) -> int:
        return len(self.x)

    @property
    def padding(self) -> Tensor | None:
        """The mask of real nodes (b, n) if some are padding, else None."""
        return self.mask if self.padded else None

    @cached_property
    def edge_mask(self) -> Tensor:
        """True where there is an edge, (b, n, n)."""
        return self.adj != 0

    @cached_property
    def edges(self) -> Tensor:
        """The unweighted adjacency matrices (b, n, n), 1 where there is an edge; without a gradient."""
        return self.edge_mask.to(self.adj.dtype)

    @property
    def n_nodes(self) -> Tensor:
        """Number of real nodes of each graph, (b,)."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> GraphBatch:
        """Move the batch to a device.

        Parameters
        ----------
        device : torch.device or str
            Where to.

        Returns
        -------
        GraphBatch
            The same graphs there.
        """
        adj = self.adj.to(device)
        x = adj if self.x is self.adj else self.x.to(device)  # features that are the weights stay one tensor
        y = None if self.y is None else self.y.to(device)
        return GraphBatch(x, adj, self.mask.to(device), y, self.padded)
