"""The encoder φ: a graph to a Gaussian over node latents, q(Z | A, X)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import weight_threshold
from cignn.nn.layers import LAYERS

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "sigmoid": torch.sigmoid}


class Latent(NamedTuple):
    """Mean and log standard deviation of every node's latent, both (b, n, d)."""

    mean: Tensor
    log_std: Tensor

    def sample(self) -> Tensor:
        """One reparametrised draw, (b, n, d)."""
        return torch.addcmul(self.mean, self.log_std.exp(), torch.randn_like(self.mean))

    def kl(self) -> Tensor:
        """KL(q(Z) ‖ N(0, I)) in nats of every entry, (b, n, d)."""
        return 0.5 * (self.mean.square() + (2 * self.log_std).exp() - 1) - self.log_std


def strongest_edges(
    adj: Tensor, density: float, mask: Tensor | None = None, threshold: Tensor | None = None
) -> Tensor:
    """Keep, in each graph of adj : (b, n, n), the given share of node pairs with the largest |weight|.

    mask : (b, n), True for real nodes: only pairs of these count; None when all are. threshold : (b,), the
    `weight_threshold` of the graphs where it is known.
    """
    if threshold is None:
        threshold = weight_threshold(adj, density, mask)
    if not threshold.any():
        return adj
    return torch.where(adj.abs() >= threshold[:, None, None], adj, 0.0)


class GraphEncoder(nn.Module):
    """A GNN with two heads, mean and log σ, each one more layer (GCN) or a linear map (GIN).

    n_latent = K + L. ``density`` keeps only the strongest edges of its input: on a complete graph every
    node would otherwise get the same embedding. ``n_nodes``, for aligned graphs, adds to every node's mean a
    learned vector of its own. ``initial_noise`` is about what σ is at the start.
    """

    def __init__(
        self,
        n_features: int,
        n_latent: int,
        hidden: Sequence[int] = (128,),
        kind: str = "gcn",
        activation: str = "relu",
        density: float | None = None,
        n_nodes: int | None = None,
        initial_noise: float = 1.0,
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden]
        self.layers = nn.ModuleList(LAYERS[kind](a, b) for a, b in pairwise(sizes))
        head = LAYERS["gcn"] if kind == "gcn" else nn.Linear
        self.mean = head(sizes[-1], n_latent)
        self.log_std = head(sizes[-1], n_latent)
        self.noise_offset = math.log(initial_noise)
        self.activation = ACTIVATIONS[activation]
        self.density = density
        self.node_vectors = None if n_nodes is None else nn.Parameter(torch.randn(n_nodes, n_latent))

    def embed(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Node embeddings before the heads, (b, n, d); x : (b, n, d_in), adj : (b, n, n)."""
        for layer in self.layers:
            x = self.activation(layer(x, adj, mask))
        return x

    def forward(
        self, x: Tensor, adj: Tensor, mask: Tensor | None = None, threshold: Tensor | None = None
    ) -> Latent:
        """Return the latent Gaussian of every node; threshold as in `strongest_edges`."""
        if self.density is not None:
            adj = strongest_edges(adj, self.density, mask, threshold)
        return self.heads(self.embed(x, adj, mask), adj, mask)

    def heads(self, h: Tensor, adj: Tensor, mask: Tensor | None = None) -> Latent:
        """Return mean and log σ from node embeddings."""
        mean, log_std = (
            head(h) if isinstance(head, nn.Linear) else head(h, adj, mask)
            for head in (self.mean, self.log_std)
        )
        if self.node_vectors is not None:
            mean.add_(self.node_vectors)
        # a clamp with a faster gradient
        return Latent(mean, F.hardtanh_(log_std.add_(self.noise_offset), -10, 5))
