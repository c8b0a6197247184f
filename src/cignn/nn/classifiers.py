"""The classifiers ϕ of the masked graph: a GNN with a head, or an MLP over the edges of aligned graphs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.nn.layers import READOUTS, apply_layers, bounded_relu, make_layers, max_readout
from cignn.nn.model import GraphOutput, Losses, SingleModel
from cignn.nn.noise import Noise, dropout


class GNN(SingleModel):
    """A plain GNN: a `GraphNetwork` that reads the whole graph.

    Parameters
    ----------
    n_features : int
        Number of node features.
    n_classes : int
        Number of classes.
    layer : str, default="gin"
        Kind of GNN layer, a key of `LAYERS`.
    hidden : sequence of int, default=(128, 128, 128)
        Widths of the GNN layers.
    head : sequence of int, default=(64, 32)
        Widths of the hidden layers of the MLP after the readout.
    readout : str, default="sum"
        How nodes are pooled, a key of `READOUTS`.
    dropout : float, default=0.5
        Dropout in the MLP.
    density : float or None, default=None
        Share of node pairs whose edges are read, the strongest by absolute weight; None reads all.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import GNN
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> GNN(batch.x.shape[-1], n_classes=2)(batch).logits.shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        layer: str = "gin",
        hidden: Sequence[int] = (128, 128, 128),
        head: Sequence[int] = (64, 32),
        readout: str = "sum",
        dropout: float = 0.5,
        density: float | None = None,
    ) -> None:
        super().__init__(n_features, n_classes, density)
        self.classifier = GraphNetwork(n_features, n_classes, layer, hidden, head, readout, dropout)

    def forward(
        self, batch: GraphBatch, edge_weights: Tensor | None = None, noise: Noise | None = None
    ) -> GraphOutput:
        """Classify a batch.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.
        noise : Noise, default=None
            Source of random numbers while training; None is torch's own.

        Returns
        -------
        GraphOutput
            The logits.
        """
        adj, sums = self.adjacency(batch, edge_weights), self.sums(batch, edge_weights)
        return GraphOutput(self.classifier(self.features(batch), adj, batch.padding, noise, sums))

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Return the node embeddings of the last GNN layer.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.

        Returns
        -------
        Tensor of shape (b, n, d)
            Embeddings, 0 at padded nodes.
        """
        adj, sums = self.adjacency(batch, edge_weights), self.sums(batch, edge_weights)
        return self.classifier.embed(self.features(batch), adj, batch.padding, sums)

    def losses(self, batch: GraphBatch, noise: Noise | None = None) -> Losses:
        """Return the terms of the training loss.

        Parameters
        ----------
        batch : GraphBatch
            Graphs with labels.
        noise : Noise, default=None
            Source of random numbers; None is torch's own.

        Returns
        -------
        dict of str to Tensor
            The cross-entropy, "classification".
        """
        return {"classification": self.cross_entropy(self(batch, noise=noise).logits, batch)}


class SubgraphClassifier(nn.Module, ABC):
    """A classifier ϕ that reads a graph through its masked edges.

    CI-GNN brings every quantity of an edge (logit, weight, presence) into the form in which the classifier
    reads edges, masks the classifier's evidence with the edge weights and asks for the logits. It need not
    know which classifier it has.
    """

    directed: bool  # whether a message from i to j can be weighted apart from that from j to i

    @abstractmethod
    def edge_values(self, matrix: Tensor) -> Tensor:
        """Bring an edge matrix (b, n, n) into the form the classifier reads: (b, n, n) or (b, n_pairs)."""

    @abstractmethod
    def edge_matrix(self, values: Tensor) -> Tensor:
        """Return the symmetric matrix (b, n, n) of values in the form of `edge_values`."""

    @abstractmethod
    def evidence(self, batch: GraphBatch) -> Tensor:
        """Return what the classifier reads of unmasked edges, in the form of `edge_values`."""

    @abstractmethod
    def presence(self, batch: GraphBatch) -> Tensor:
        """Return where there are edges, 1 or 0, in the form the classifier reads."""

    def node_weights(self, prob: Tensor) -> Tensor | None:
        """Return how far each node is in the subgraph, (b, n), where the classifier reads nodes.

        prob : weights in [0, 1] of the edges, 0 where there is none, in the form of `edge_values`.
        """
        return None

    @abstractmethod
    def forward(
        self, x: Tensor, edges: Tensor, mask: Tensor | None = None, noise: Noise | None = None
    ) -> Tensor:
        """Return class logits (b, n_classes).

        x : (b, n, d), node features; edges : masked evidence; mask : (b, n), weights of nodes or True for
        real ones, None when all are; noise : source of dropout, None is torch's own.
        """


class GraphNetwork(SubgraphClassifier):
    """GNN layers, a readout and an MLP head, equations (1) and (2) of the paper.

    The defaults are the paper's sizes, [128, 128, 128, 64, 32, classes]; the parameters are those of `GNN`,
    and ``bound``, the largest value of an activation of the layers.
    """

    directed = True

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        layer: str = "gin",
        hidden: Sequence[int] = (128, 128, 128),
        head: Sequence[int] = (64, 32),
        readout: str = "sum",
        dropout: float = 0.5,
        bound: float = math.inf,
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden]
        self.layers = make_layers(layer, sizes, bound)
        self.activation = partial(bounded_relu, bound=bound)
        self.readout = READOUTS[readout]
        widths = [sizes[-1], *head, n_classes]
        self.head = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = _share(dropout)

    def edge_values(self, matrix: Tensor) -> Tensor:
        """Return the matrix itself."""
        return matrix

    def edge_matrix(self, values: Tensor) -> Tensor:
        """Return the matrix itself."""
        return values

    def evidence(self, batch: GraphBatch) -> Tensor:
        """Return the signed edge weights, (b, n, n)."""
        return batch.adj

    def presence(self, batch: GraphBatch) -> Tensor:
        """Return 1 where there is an edge, 0 elsewhere: (b, n, n)."""
        return batch.edges

    def node_weights(self, prob: Tensor) -> Tensor:
        """Return the largest weight of the edges of each node: without a kept edge a node is outside."""
        return prob.amax(-1)

    def embed(self, x: Tensor, adj: Tensor, mask: Tensor | None = None, sums: Tensor | None = None) -> Tensor:
        """Return the node embeddings of the last layer, (b, n, d), equation (1)."""
        return apply_layers(self.layers, self.activation, x, adj, mask, sums)

    def pool(self, x: Tensor, adj: Tensor, mask: Tensor | None = None, sums: Tensor | None = None) -> Tensor:
        """Return graph embeddings, (b, d), equation (2); where nodes have weights, they count by these."""
        if mask is None or mask.dtype == torch.bool:
            return self.readout(self.embed(x, adj, mask, sums), mask)
        weight = mask.unsqueeze(-1)
        h = self.embed(x * weight, adj, mask) * weight
        # nodes outside are 0, and no activation is less
        return h.amax(1) if self.readout is max_readout else self.readout(h, mask)

    def decide(self, h: Tensor, noise: Noise | None = None) -> Tensor:
        """Return the class logits (b, n_classes) of graph embeddings h : (b, d)."""
        return _mlp(self.head, h, self.dropout if self.training else 0.0, noise)

    def forward(
        self,
        x: Tensor,
        edges: Tensor,
        mask: Tensor | None = None,
        noise: Noise | None = None,
        sums: Tensor | None = None,
    ) -> Tensor:
        """Return class logits (b, n_classes); edges : (b, n, n), signed weights; sums : edges @ x or None."""
        return self.decide(self.pool(x, edges, mask, sums), noise)


class EdgeNetwork(SubgraphClassifier):
    """An MLP on the edges of aligned graphs: every pair of nodes has weights of its own.

    Nothing is lost by pooling over nodes, but node i has to be the same in every graph. ``hidden`` are the
    widths of the hidden layers, each followed by ``dropout``. ``fit`` fills the buffers ``edge_centre`` and
    ``edge_scale``, (n_nodes, n_nodes), with the mean and the spread of each edge in the training graphs.

    ``n_pooled`` directions over the edges pool what moves together: the size of the projection on each,
    √(1 + z²) − 1, adds to the logits whether the edges move up or down. ``fit`` starts them, see
    `start_pooled`; those it leaves at 0 have no gradient and stay there.
    """

    directed = False
    edge_centre: Tensor
    edge_scale: Tensor
    upper: Tensor  # (n_pairs,), where the pairs i < j are in a flattened matrix

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        hidden: Sequence[int] = (64,),
        dropout: float = 0.5,
        n_pooled: int = 0,
    ) -> None:
        super().__init__()
        row, column = torch.triu_indices(n_nodes, n_nodes, 1)
        widths = [len(row), *hidden, n_classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = _share(dropout)
        self.n_pooled = n_pooled
        if n_pooled:
            self.pooled = nn.Parameter(torch.zeros(n_pooled, len(row)))
            self.pooled_weight = nn.Parameter(torch.zeros(n_classes, n_pooled))
        self.register_buffer("edge_centre", torch.zeros(n_nodes, n_nodes))
        self.register_buffer("edge_scale", torch.ones(n_nodes, n_nodes))
        self.register_buffer("upper", row * n_nodes + column, persistent=False)

    def edge_values(self, matrix: Tensor) -> Tensor:
        """Return the upper triangles, row by row: (b, n, n) → (b, n_pairs)."""
        return matrix.flatten(1).index_select(1, self.upper)

    def edge_matrix(self, values: Tensor) -> Tensor:
        """Return the symmetric matrices (b, n, n), 0 on the diagonal, of values : (b, n_pairs)."""
        n = len(self.edge_centre)
        upper = values.new_zeros(len(values), n * n).index_copy(1, self.upper, values).view(-1, n, n)
        return upper + upper.transpose(1, 2)

    def evidence(self, batch: GraphBatch) -> Tensor:
        """Return how far each edge is from its mean in the training graphs, in its spread: (b, n_pairs).

        An edge left out then says nothing, where a weight of 0 would say much.
        """
        pairs = self.edge_values(batch.adj) if batch.pairs is None else batch.pairs
        centre, scale = self.edge_values(self.edge_centre[None]), self.edge_values(self.edge_scale[None])
        return (pairs - centre) / scale * (pairs != 0)

    def presence(self, batch: GraphBatch) -> Tensor:
        """Return 1 where there is an edge, 0 elsewhere: (b, n_pairs)."""
        pairs = self.edge_values(batch.adj) if batch.pairs is None else batch.pairs
        return (pairs != 0).to(pairs.dtype)

    @torch.no_grad()
    def start_pooled(self, vectors: Tensor, weights: Tensor, offsets: Tensor) -> None:
        """Start the directions: (n_pooled, n_pairs), their weights (n_classes, n_pooled), sizes (n_pooled,).

        A projection of size ``offsets`` leaves the logits as they are.
        """
        self.pooled.copy_(vectors)
        self.pooled_weight.copy_(weights)
        self.layers[-1].bias.sub_((weights @ offsets).to(self.pooled))  # type: ignore[operator]

    def project(self, edges: Tensor) -> Tensor:
        """Return linear projections (b, h) of masked evidence (b, n_pairs); no evidence projects to 0."""
        h = F.linear(edges, self.layers[0].weight)  # type: ignore[arg-type]
        return torch.cat([h, F.linear(edges, self.pooled)], 1) if self.n_pooled else h

    def decide(self, h: Tensor, noise: Noise | None = None) -> Tensor:
        """Return the class logits (b, n_classes) of projections h : (b, h)."""
        h, pooled = h.split([h.shape[1] - self.n_pooled, self.n_pooled], 1)
        h = h + self.layers[0].bias  # type: ignore[operator]
        for linear in self.layers[1:]:
            h = linear(dropout(torch.relu(h), self.dropout if self.training else 0.0, noise))
        return h + F.linear(torch.sqrt(1 + pooled**2) - 1, self.pooled_weight) if self.n_pooled else h

    def forward(
        self, x: Tensor, edges: Tensor, mask: Tensor | None = None, noise: Noise | None = None
    ) -> Tensor:
        """Return class logits (b, n_classes); edges : (b, n_pairs). Node features are not read.

        The logits are those of `project`, then `decide`: contributions of edges follow from the two.
        """
        return self.decide(self.project(edges), noise)


def _share(dropout: float) -> float:
    """Return the dropout; refuses what is no share."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), got {dropout}.")
    return dropout


def _mlp(layers: nn.ModuleList, h: Tensor, probability: float, noise: Noise | None) -> Tensor:
    """Apply linear maps with ReLU and dropout between them: (b, d) → (b, n_classes)."""
    for linear in layers[:-1]:
        h = dropout(torch.relu(linear(h)), probability, noise)
    return layers[-1](h)
