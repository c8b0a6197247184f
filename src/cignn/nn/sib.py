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
from torch.func import functional_call

from cignn.graphs import GraphBatch
from cignn.information import donsker_varadhan
from cignn.nn.classifiers import GraphNetwork
from cignn.nn.layers import mean_readout, zero_padding
from cignn.nn.model import Losses, SingleModel

MOMENTS = ("mean", "square")  # of Adam in the inner loop
BETAS = (0.9, 0.999)


class SIBOutput(NamedTuple):
    """What one pass through SIB gives.

    logits : (b, classes); edge_weights : (b, n, n) pᵢpⱼ on the edges; assignment : (b, n, 2) S,
    subgraph first, zero at padded nodes; graph, subgraph : (b, d) their embeddings.
    """

    logits: Tensor
    edge_weights: Tensor
    assignment: Tensor
    graph: Tensor
    subgraph: Tensor


class SIB(SingleModel):
    """The whole model; its discriminator is trained apart, in ``losses``."""

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
        """Node embeddings of the last layer, (b, n, d)."""
        adj = self.adjacency(batch, edge_weights)
        return self.classifier.embed(self.features(batch), adj, batch.padding)

    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> SIBOutput:
        """Classify a batch by the embedding of its subgraphs alone."""
        h = self.embed(batch, edge_weights)
        assignment = zero_padding(torch.softmax(self.assign(h), -1), batch.padding)
        prob = assignment[..., :1]
        subgraph = (prob * h).sum(1)
        return SIBOutput(
            self.classifier.decide(subgraph),
            prob * prob.transpose(1, 2) * batch.edges,
            assignment,
            mean_readout(h, batch.padding),
            subgraph,
        )

    def losses(self, batch: GraphBatch, inner_steps: int, inner_learning_rate: float) -> Losses:
        """Cross-entropy, I(G; G_sub) after ``inner_steps`` of the discriminator, and connectivity.

        The last two are asked for as far as the predictions explain the labels: before a network has learnt
        anything an empty subgraph is the cheapest, and there is no way back from it.
        """
        out = self(batch)
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
        """Return all parameters but the discriminator's, which its inner loop trains."""
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

    @torch.enable_grad()
    def learn(self, u: Tensor, v: Tensor, steps: int, learning_rate: float) -> None:
        """Raise the bound on these pairs by ``steps`` steps of Adam."""
        parameters: list[Tensor] = list(self.parameters())
        names = [name.replace(".", "_") for name, _ in self.named_parameters()]
        mean, square = ([self.get_buffer(f"{moment}_{name}") for name in names] for moment in MOMENTS)
        done = int(self.steps)
        for step in range(done + 1, done + steps + 1):
            gradients = torch.autograd.grad(-donsker_varadhan(self(u, v)), parameters)
            _adam(parameters, list(gradients), mean, square, step, learning_rate)
        self.steps += steps


@torch.no_grad()
def _adam(
    parameters: list[Tensor],
    gradients: list[Tensor],
    mean: list[Tensor],
    square: list[Tensor],
    step: int,
    learning_rate: float,
) -> None:
    """One step of Adam in place."""
    torch._foreach_lerp_(mean, gradients, 1 - BETAS[0])
    torch._foreach_mul_(square, BETAS[1])
    torch._foreach_addcmul_(square, gradients, gradients, 1 - BETAS[1])
    correction = (1 - BETAS[1] ** step) ** 0.5
    scale = torch._foreach_sqrt(square)
    torch._foreach_add_(scale, 1e-8 * correction)
    torch._foreach_addcdiv_(parameters, mean, scale, -learning_rate * correction / (1 - BETAS[0] ** step))


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
