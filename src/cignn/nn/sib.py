"""SIB: a subgraph of nodes that predicts the class and tells little else of its graph.

Yu et al. 2021, "Recognizing Predictive Substructures with Subgraph Information Bottleneck": nodes are put in
the subgraph by S = softmax(MLP(GNN)), and min CE + β I(G; G_sub) + connectivity, the information by the
Donsker–Varadhan bound whose discriminator is trained in an inner loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

from cignn.graphs import GraphBatch
from cignn.information import donsker_varadhan
from cignn.nn.classifiers import GraphNetwork
from cignn.nn.layers import mean_readout, zero_padding
from cignn.nn.model import Losses, SingleModel
from cignn.nn.noise import Noise

MOMENTS = ("mean", "square")  # of Adam in the inner loop
BETAS = (0.9, 0.999)


class SIBOutput(NamedTuple):
    """What a pass through SIB gives.

    Parameters
    ----------
    logits : Tensor of shape (b, classes)
        Class logits of the subgraphs.
    edge_weights : Tensor of shape (b, n, n)
        Products pᵢpⱼ of node probabilities on the edges, 0 elsewhere.
    assignment : Tensor of shape (b, n, 2)
        Probabilities S of every node, subgraph first; 0 at padded nodes.
    graph : Tensor of shape (b, d)
        Embeddings of the graphs.
    subgraph : Tensor of shape (b, d)
        Embeddings of the subgraphs.

    Examples
    --------
    >>> from cignn.nn import SIBOutput
    >>> SIBOutput._fields[:2]
    ('logits', 'edge_weights')
    """

    logits: Tensor
    edge_weights: Tensor
    assignment: Tensor
    graph: Tensor
    subgraph: Tensor


class SIB(SingleModel):
    """SIB: a subgraph of nodes that predicts the class and tells little else of its graph.

    Its discriminator is trained by an inner loop in `losses`.

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
    dropout : float, default=0.5
        Dropout in the MLP.
    density : float or None, default=None
        Share of node pairs whose edges are read, the strongest by absolute weight; None reads all.
    discriminator_hidden : int, default=64
        Width of the discriminator.

    References
    ----------
    Yu et al. (2021), "Recognizing Predictive Substructures with Subgraph Information Bottleneck".

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import SIB
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> out = SIB(batch.x.shape[-1], n_classes=2)(batch)
    >>> out.logits.shape, out.assignment.shape
    (torch.Size([4, 2]), torch.Size([4, 25, 2]))
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        layer: str = "gin",
        hidden: Sequence[int] = (128, 128, 128),
        head: Sequence[int] = (64, 32),
        dropout: float = 0.5,
        density: float | None = None,
        discriminator_hidden: int = 64,
    ) -> None:
        super().__init__(n_features, n_classes, density)
        self.classifier = GraphNetwork(n_features, n_classes, layer, hidden, head, "sum", dropout)
        width = hidden[-1]
        self.assign = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
        self.discriminator = Discriminator(width, width, discriminator_hidden)

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Return the node embeddings of the classifier's last layer.

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

    def forward(
        self, batch: GraphBatch, edge_weights: Tensor | None = None, noise: Noise | None = None
    ) -> SIBOutput:
        """Classify a batch by the embeddings of its subgraphs alone.

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
        SIBOutput
            Logits, edge weights, node assignments and embeddings.
        """
        h = self.embed(batch, edge_weights)
        assignment = zero_padding(torch.softmax(self.assign(h), -1), batch.padding)
        prob = assignment[..., :1]
        subgraph = (prob * h).sum(1)
        return SIBOutput(
            self.classifier.decide(subgraph, noise),
            prob * prob.transpose(1, 2) * batch.edges,
            assignment,
            mean_readout(h, batch.padding),
            subgraph,
        )

    def losses(
        self,
        batch: GraphBatch,
        inner_steps: int,
        inner_learning_rate: float,
        noise: Noise | None = None,
    ) -> Losses:
        """Train the discriminator and return the terms of the training loss.

        Information and connectivity count as far as the predictions explain the labels: before a network has
        learnt anything an empty subgraph is the cheapest, and there is no way back from it.

        Parameters
        ----------
        batch : GraphBatch
            Graphs with labels.
        inner_steps : int
            Steps of the discriminator.
        inner_learning_rate : float
            Learning rate of the discriminator.
        noise : Noise, default=None
            Source of random numbers; None is torch's own.

        Returns
        -------
        dict of str to Tensor
            "classification", the cross-entropy; "information", I(G; G_sub); "connectivity".
        """
        out = self(batch, noise=noise)
        graph, subgraph = standardised(out.graph), standardised(out.subgraph)
        self.discriminator.learn(graph.detach(), subgraph.detach(), inner_steps, inner_learning_rate)
        risk = self.cross_entropy(out.logits, batch)
        explained = (1 - risk.detach() / self.label_entropy).clamp(0, 1)
        return {
            "classification": risk,
            "information": explained * self.discriminator.information(graph, subgraph),
            "connectivity": explained * connectivity_loss(out.assignment, batch.adj),
        }

    def outer_parameters(self) -> list[nn.Parameter]:
        """Return all parameters but the discriminator's, which its inner loop trains.

        Returns
        -------
        list of Parameter
            Those of the classifier and of the node assignment.
        """
        return [*self.classifier.parameters(), *self.assign.parameters()]


class Discriminator(nn.Module):
    """T(u, v), an MLP on [u; v], with its own Adam, whose moments are buffers.

    So a checkpoint of the network is a checkpoint of the inner loop too.
    """

    steps: Tensor

    def __init__(self, n_first: int, n_second: int, hidden: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(n_first, hidden)
        self.second = nn.Linear(n_second, hidden, bias=False)
        self.out = nn.Linear(hidden, 1, bias=False)  # the bound does not change when T is shifted
        self.register_buffer("steps", torch.zeros(()))
        for name, parameter in list(self.named_parameters()):
            for moment in MOMENTS:
                self.register_buffer(f"{moment}_{name.replace('.', '_')}", torch.zeros_like(parameter))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Scores (b, b) of every u : (b, d) with every v : (b, e)."""
        return self.out(torch.relu(self.first(u).unsqueeze(1) + self.second(v))).squeeze(-1)

    def information(self, u: Tensor, v: Tensor) -> Tensor:
        """Bound of I(U; V) in nats, with gradients for u and v but not for the discriminator."""
        fixed = {name: parameter.detach() for name, parameter in self.named_parameters()}
        return donsker_varadhan(functional_call(self, fixed, (u, v)))

    @torch.no_grad()
    def learn(self, u: Tensor, v: Tensor, steps: int, learning_rate: float) -> None:
        """Raise the bound on these pairs by ``steps`` steps of Adam."""

        def negative_bound(parameters: dict[str, Tensor]) -> Tensor:
            return -donsker_varadhan(functional_call(self, parameters, (u, v)))

        parameters = {name: parameter.detach() for name, parameter in self.named_parameters()}
        for _ in range(steps):
            gradients = grad(negative_bound)(parameters)
            self.steps.add_(1)
            correction = (1 - BETAS[1] ** self.steps).sqrt()
            rate = learning_rate * correction / (1 - BETAS[0] ** self.steps)
            for name, gradient in gradients.items():
                first, second = (self.get_buffer(f"{m}_{name.replace('.', '_')}") for m in MOMENTS)
                first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
                second.mul_(BETAS[1]).add_(gradient.square(), alpha=1 - BETAS[1])
                moved = rate * first / (second.sqrt() + 1e-8 * correction)
                parameters[name] = parameters[name] - moved
        for name, parameter in self.named_parameters():
            parameter.copy_(parameters[name])


def connectivity_loss(assignment: Tensor, adj: Tensor) -> Tensor:
    """‖rownorm(Sᵀ A S) − I‖_F, a mean over graphs: neighbours should be assigned alike.

    assignment : (b, n, 2), zero at padded nodes; adj : (b, n, n), of which the size counts, not the sign.
    """
    links = assignment.transpose(1, 2) @ adj.abs() @ assignment
    links = links / links.sum(-1, keepdim=True).clamp(min=1e-12)
    distance = links - torch.eye(assignment.shape[-1], device=links.device, dtype=links.dtype)
    return torch.linalg.vector_norm(distance.flatten(1), dim=1).mean()


def standardised(x: Tensor) -> Tensor:
    """Subtract the mean over the batch and divide by the deviation, both without a gradient; x : (b, d)."""
    fixed = x.detach()
    return (x - fixed.mean(0)) / (fixed.std(0, correction=0) + 1e-6)
