"""The GraphVAE: an encoder of graphs into latents Z = [α; β], and the decoders of the graph from Z."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cignn.nn.layers import (
    GCNLayer,
    apply_layers,
    bounded_relu,
    make_layers,
    mean_readout,
    strongest_edges,
    zero_padding,
)
from cignn.nn.noise import Noise, normal

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "sigmoid": torch.sigmoid}

GAIN = 4.0  # of a projected product at the start: neighbours, who are alike, begin near probability 0.9


class Latent(NamedTuple):
    """The Gaussian q(Z | A, X) of every node's latent.

    Parameters
    ----------
    mean : Tensor of shape (b, n, d)
        Means.
    log_std : Tensor of shape (b, n, d) or (b, n, k)
        Logarithms of the standard deviations of all latents, or of the last k; the others are their means.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import Latent
    >>> standard_normal = Latent(torch.zeros(1, 3, 2), torch.zeros(1, 3, 2))
    >>> standard_normal.sample().shape
    torch.Size([1, 3, 2])
    >>> standard_normal.kl().sum().item()
    0.0
    """

    mean: Tensor
    log_std: Tensor

    def sample(self, noise: Noise | None = None) -> Tensor:
        """Draw from the Gaussian; gradients reach the mean and the deviation.

        Parameters
        ----------
        noise : Noise, default=None
            Source of random numbers; None is torch's own.

        Returns
        -------
        Tensor of shape (b, n, d)
            μ + σ·ε with standard normal ε.
        """
        n_drawn = self.log_std.shape[-1]
        fixed, mean = self.mean.split([self.mean.shape[-1] - n_drawn, n_drawn], -1)
        drawn = mean + self.log_std.exp() * normal(self.log_std, noise, nodes=1)
        return torch.cat([fixed, drawn], -1) if fixed.shape[-1] else drawn

    def kl(self) -> Tensor:
        """Return the divergence from the standard normal distribution.

        Returns
        -------
        Tensor of shape (b, n, d) or (b, n, k)
            KL(q(Z) ‖ N(0, 1)) in nats, entry by entry, of the latents that are drawn.
        """
        mean = self.mean[..., -self.log_std.shape[-1] :]
        return 0.5 * (mean.square() + (2 * self.log_std).exp() - 1) - self.log_std


class GraphEncoder(nn.Module):
    """The encoder φ of the GraphVAE: GNN layers and a head each for the mean and log σ of the latents.

    Parameters
    ----------
    n_features : int
        Number of node features d.
    n_latent : int
        Size of the latents, K + L.
    hidden : sequence of int, default=(128,)
        Widths of the GNN layers.
    layer : str, default="gcn"
        Kind of GNN layer, a key of `LAYERS`. With "gcn" the heads are GCN layers too, otherwise linear maps.
    activation : str, default="relu"
        Activation after each layer, "relu" or "sigmoid".
    density : float or None, default=None
        Share of node pairs whose edges are read, the strongest by absolute weight; None reads all. On a
        complete graph a GCN gives every node nearly the same embedding.
    n_nodes : int or None, default=None
        Number of nodes of aligned graphs. If given, a learned vector is added to each node's mean.
    initial_noise : float, default=1.0
        About the standard deviation of the latents before training.
    n_drawn : int or None, default=None
        How many of the latents, the last ones, are drawn at random; None draws all.
    bound : float, default=inf
        Largest value of an activation "relu", see `GINLayer`.

    References
    ----------
    Equation (3) of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import GraphEncoder
    >>> encoder = GraphEncoder(n_features=4, n_latent=8, hidden=(16,))
    >>> latent = encoder(torch.rand(2, 5, 4), torch.ones(2, 5, 5) - torch.eye(5))
    >>> latent.mean.shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        n_features: int,
        n_latent: int,
        hidden: Sequence[int] = (128,),
        layer: str = "gcn",
        activation: str = "relu",
        density: float | None = None,
        n_nodes: int | None = None,
        initial_noise: float = 1.0,
        n_drawn: int | None = None,
        bound: float = math.inf,
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden]
        self.layers = make_layers(layer, sizes, bound)
        self.heads_convolve = layer == "gcn"
        head = GCNLayer if self.heads_convolve else nn.Linear
        self.mean = head(sizes[-1], n_latent)
        self.log_std = head(sizes[-1], n_latent if n_drawn is None else n_drawn)
        self.noise_offset = math.log(initial_noise)
        self.activation = (
            partial(bounded_relu, bound=bound) if activation == "relu" else ACTIVATIONS[activation]
        )
        self.density = density
        self.node_vectors = None if n_nodes is None else nn.Parameter(torch.randn(n_nodes, n_latent))

    def forward(
        self,
        x: Tensor,
        adj: Tensor,
        mask: Tensor | None = None,
        strongest: Tensor | None = None,
        sums: Tensor | None = None,
    ) -> Latent:
        """Encode a batch of graphs.

        Parameters
        ----------
        x : Tensor of shape (b, n, n_features)
            Node features.
        adj : Tensor of shape (b, n, n)
            Signed edge weights.
        mask : Tensor of shape (b, n), default=None
            True for real nodes; None when all are.
        strongest : Tensor of shape (b, n, n), default=None
            The edges that are read, where they are known.
        sums : Tensor of shape (b, n, n_features), default=None
            The sums of neighbours' features over these edges, where they are known.

        Returns
        -------
        Latent
            Means of shape (b, n, n_latent) and log σ of those that are drawn.
        """
        return self.latents(*self.hidden(x, adj, mask, strongest, sums))

    def hidden(
        self,
        x: Tensor,
        adj: Tensor,
        mask: Tensor | None = None,
        strongest: Tensor | None = None,
        sums: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the vectors (b, n, d) of the last GNN layer, the edges it read, and the mask.

        Parameters
        ----------
        x : Tensor of shape (b, n, n_features)
            Node features.
        adj : Tensor of shape (b, n, n)
            Signed edge weights.
        mask : Tensor of shape (b, n), default=None
            True for real nodes; None when all are.
        strongest : Tensor of shape (b, n, n), default=None
            See `forward`.
        sums : Tensor of shape (b, n, n_features), default=None
            See `forward`.

        Returns
        -------
        tuple of Tensor, Tensor and Tensor or None
            What `latents` takes.
        """
        if strongest is not None:
            adj = strongest
        elif self.density is not None and (sums is None or len(self.layers) > 1 or self.heads_convolve):
            adj = strongest_edges(adj, self.density, mask)
        return apply_layers(self.layers, self.activation, x, adj, mask, sums), adj, mask

    def latents(self, h: Tensor, adj: Tensor, mask: Tensor | None = None) -> Latent:
        """Return the Gaussian of the latents.

        Parameters
        ----------
        h : Tensor of shape (b, n, d)
            Vectors of the last GNN layer.
        adj : Tensor of shape (b, n, n)
            Edges, for heads that are GNN layers.
        mask : Tensor of shape (b, n), default=None
            True for real nodes; None when all are.

        Returns
        -------
        Latent
            As `forward` does.
        """
        inputs = (h, adj, mask) if self.heads_convolve else (h,)
        mean, log_std = self.mean(*inputs), self.log_std(*inputs)
        if self.node_vectors is not None:
            mean = mean + self.node_vectors
        return Latent(mean, (log_std + self.noise_offset).clamp(-10, 5))

    def pooled(self, h: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the mean latents (b, n_latent) of graphs; a linear head and the mean can change places.

        Parameters
        ----------
        h : Tensor of shape (b, n, d)
            Vectors of the last GNN layer.
        adj : Tensor of shape (b, n, n)
            Edges, for heads that are GNN layers.
        mask : Tensor of shape (b, n), default=None
            True for real nodes; None when all are.

        Returns
        -------
        Tensor of shape (b, n_latent)
            Means over the real nodes of the latents' means.
        """
        if self.heads_convolve or mask is not None:
            return mean_readout(zero_padding(self.latents(h, adj, mask).mean, mask), mask)
        mean = self.mean(h.mean(1))
        return mean if self.node_vectors is None else mean + self.node_vectors.mean(0)


class InnerProduct(nn.Module):
    """Edge logits that are linear in an inner product of node vectors: g · z_iᵀz_j + b, g and b learned.

    It is the adjacency decoder of the GraphVAE and the subgraph generator θ2. With ``projected`` the vectors
    are mapped first, u = Wz / √(d + |Wz|²), so that both products can read one latent without competing for
    it. As |u| < 1, the logits of large graphs stay moderate, and a node leaves the subgraph by a short u.
    Without it, g = 1 and b = 0 at the start, as in the paper.

    Parameters
    ----------
    n_in : int
        Size d of the node vectors.
    projected : bool, default=True
        Whether to map the vectors before the product.
    learned : bool, default=True
        Whether g and b are trained.

    References
    ----------
    Equations (4) and (14) of the paper.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import InnerProduct
    >>> z = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])
    >>> InnerProduct(2, projected=False)(z).tolist()
    [[[1.0, 1.0], [1.0, 2.0]]]
    """

    def __init__(self, n_in: int, projected: bool = True, learned: bool = True) -> None:
        super().__init__()
        self.projection = nn.Linear(n_in, n_in, bias=False) if projected else None
        self.gain = nn.Parameter(torch.tensor(GAIN if projected else 1.0), requires_grad=learned)
        self.bias = nn.Parameter(torch.zeros(()), requires_grad=learned)

    def forward(self, z: Tensor) -> Tensor:
        """Return the logit of every pair of nodes.

        Parameters
        ----------
        z : Tensor of shape (b, n, d)
            Node vectors.

        Returns
        -------
        Tensor of shape (b, n, n)
            Symmetric logits.
        """
        u = z
        if self.projection is not None:
            u = self.projection(z)
            u = u * torch.rsqrt(u.shape[-1] + u.square().sum(-1, keepdim=True))
        return self.gain * u @ u.transpose(1, 2) + self.bias


class FeatureDecoder(nn.Sequential):
    """The feature decoder X̂ = MLP(Z), equation (4) of the paper: (b, n, d_latent) → (b, n, d)."""

    def __init__(self, n_latent: int, n_features: int, hidden: int = 16) -> None:
        super().__init__(nn.Linear(n_latent, hidden), nn.ReLU(), nn.Linear(hidden, n_features))
