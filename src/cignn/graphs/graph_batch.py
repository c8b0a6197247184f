"""`GraphBatch`: a dense mini-batch of graphs on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
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
    strongest : Tensor of shape (b, n, n), default=None
        The edges that a network reads of these graphs, see `SingleModel.prepare`.
    sums : Tensor of shape (b, n, d), default=None
        Sums of neighbours' features over these edges.
    edge_list : Tensor of shape (b, e), default=None
        Where these edges are in the flattened matrices, each once; 0 for none.
    pairs : Tensor of shape (b, n (n - 1) / 2), default=None
        Edge weights of aligned graphs, each pair of nodes once.
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
    strongest: Tensor | None = None
    sums: Tensor | None = None
    edge_list: Tensor | None = None
    pairs: Tensor | None = None
    padded: bool = True

    def __len__(self) -> int:
        return len(self.adj)

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
        return GraphBatch.of({k: v.to(device) for k, v in self.tensors().items()}, self.padded)

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], padded: bool = True) -> GraphBatch:
        """Make a batch of its tensors.

        Parameters
        ----------
        tensors : mapping of str to Tensor
            As `tensors` returns them; without ``x`` the features are the weights.
        padded : bool, default=True
            Whether some nodes are padding.

        Returns
        -------
        GraphBatch
            The batch.
        """
        return cls(padded=padded, **{"x": tensors["adj"], **tensors})

    def part(self, index: slice | Tensor) -> GraphBatch:
        """Return some graphs of the batch.

        Parameters
        ----------
        index : slice or Tensor of int
            Which graphs.

        Returns
        -------
        GraphBatch
            These graphs, padded as before.
        """
        return GraphBatch.of({name: value[index] for name, value in self.tensors().items()}, self.padded)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name; features that are the weights themselves are listed once.

        Returns
        -------
        dict of str to Tensor
            What `GraphBatch.of` makes the same batch of.
        """
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "padded"}
        if self.x is self.adj:
            del found["x"]
        return {name: value for name, value in found.items() if value is not None}
