"""DIR: a rationale whose prediction holds whatever the rest of the graph is replaced by.

Wu et al. 2022, "Discovering Invariant Rationales for Graph Neural Networks": the edges with the highest
scores are the rationale, the others its complement; interventions pair a rationale with the complements of
other graphs, and the loss is the mean and the variance of the risk over interventions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.nn.classifiers import GraphNetwork
from cignn.nn.layers import edge_positions
from cignn.nn.model import Losses, Path, SingleModel
from cignn.nn.noise import Noise
from cignn.nn.subgraph import EdgeScorer, edge_matrices

TIE = 1e-5  # scores that differ by less are the same but for rounding: nodes of motifs are often alike


class DIROutput(NamedTuple):
    """What a pass through DIR gives.

    Parameters
    ----------
    logits : Tensor of shape (b, classes)
        Class logits of the rationales.
    edge_weights : Tensor of shape (b, n, n)
        σ(score) on the edges the network reads, 0 elsewhere.
    rationale : Tensor of shape (b, n, n)
        1 on the edges of the rationale, 0 elsewhere.
    complement_logits : Tensor of shape (b, classes), default=None
        Class logits of the complements by a head of their own; None outside training.

    Examples
    --------
    >>> from cignn.nn import DIROutput
    >>> DIROutput._fields[:2]
    ('logits', 'edge_weights')
    """

    logits: Tensor
    edge_weights: Tensor
    rationale: Tensor
    complement_logits: Tensor | None = None


class DIR(SingleModel):
    """DIR-GNN: edge scores by a GNN, a classifier of rationales, and a head for complements.

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
    scorer_hidden : sequence of int, default=(64, 64)
        Widths of the GNN that scores edges.
    ratio : float, default=0.25
        Share of a graph's edges in its rationale.

    References
    ----------
    Wu et al. (2022), "Discovering Invariant Rationales for Graph Neural Networks".

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import DIR
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> out = DIR(batch.x.shape[-1], n_classes=2)(batch)
    >>> out.logits.shape, out.rationale.shape
    (torch.Size([4, 2]), torch.Size([4, 25, 25]))
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
        scorer_hidden: Sequence[int] = (64, 64),
        ratio: float = 0.25,
    ) -> None:
        super().__init__(n_features, n_classes, density)
        self.ratio = ratio
        self.generator = GraphNetwork(n_features, 1, layer, scorer_hidden, ())
        self.generator.head = nn.ModuleList()  # only its node embeddings are read
        self.scorer = EdgeScorer(scorer_hidden[-1])
        self.classifier = GraphNetwork(n_features, n_classes, layer, hidden, head, readout, dropout)
        self.complement = nn.Sequential(
            nn.Linear(hidden[-1], hidden[-1]), nn.ReLU(), nn.Linear(hidden[-1], n_classes)
        )

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

    def prepare(self, batch: GraphBatch) -> GraphBatch:
        """List the edges of the graphs, beside what `SingleModel.prepare` computes.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        GraphBatch
            The same graphs.
        """
        batch = super().prepare(batch)
        return replace(batch, edge_list=edge_positions(self.adjacency(batch)))

    def forward(
        self, batch: GraphBatch, edge_weights: Tensor | None = None, noise: Noise | None = None
    ) -> DIROutput:
        """Classify a batch by its rationales alone; while training, read the complements too.

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
        DIROutput
            Logits, edge weights and rationales.
        """
        x, adj, mask = self.features(batch), self.adjacency(batch, edge_weights), batch.padding
        known = batch.edge_list if edge_weights is None else None
        edges = edge_positions(adj) if known is None else known
        scores = self._scores(batch, adj, edges, edge_weights)
        present = edges > 0
        chosen = top_edges(scores, present, self.ratio)
        prob = edge_matrices(torch.sigmoid(scores) * present, edges, adj)
        rationale = edge_matrices(chosen.to(scores.dtype), edges, adj)
        kept, rest = adj * rationale * prob, adj * (1 - rationale) * (1 - prob)
        logits = self.classifier(x, kept, mask, noise)
        if not self.training:
            return DIROutput(logits, prob, rationale)
        return DIROutput(logits, prob, rationale, self._read_complements(x, rest, mask))

    def _scores(self, batch: GraphBatch, adj: Tensor, edges: Tensor, edge_weights: Tensor | None) -> Tensor:
        """(b, e) scores of the edges at these positions; adj : (b, n, n), the weighted graphs."""
        sums = self.sums(batch, edge_weights)
        return self.scorer(self.generator.embed(self.features(batch), adj, batch.padding, sums), edges)

    def path(self, batch: GraphBatch) -> Path:
        """Return the way from no edges to the graphs of a batch; the rationale is that of the whole graph.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        Path
            The weights of all edges grow together, from 0 to 1.
        """
        edges = edge_positions(self.adjacency(batch))
        with torch.no_grad():
            rationale = self(batch).rationale

        def read(weights: Tensor) -> Tensor:
            adj = self.adjacency(batch, weights)
            scores = self._scores(batch, adj, edges, weights)
            prob = edge_matrices(torch.sigmoid(scores) * (edges > 0), edges, adj)
            return self.classifier(self.features(batch), adj * rationale * prob, batch.padding)

        return Path.of_weights(batch, read)

    def _read_complements(self, x: Tensor, rest: Tensor, mask: Tensor | None) -> Tensor:
        """Class logits of the complements by their own head, (b, classes).

        The classifier reads them as it will read test graphs: they do not train it, and its batch statistics
        stay those of the rationales.
        """
        self.classifier.eval()
        with torch.no_grad():
            pooled = self.classifier.pool(x, rest, mask)
        self.classifier.train()
        return self.complement(pooled)

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
            "classification", the risk of the rationales; "interventions" and "variance", mean and variance of
            the risk over interventions; "complement", the risk of the complements' own head.
        """
        out = self(batch, noise=noise)
        assert out.complement_logits is not None and batch.y is not None
        risks = intervention_risks(out.logits, out.complement_logits, batch.y, self.class_weight)
        return {
            "classification": self.cross_entropy(out.logits, batch),
            "interventions": risks.mean(),
            "variance": risks.var(correction=0),
            "complement": self.cross_entropy(out.complement_logits, batch),
        }


def intervene(logits: Tensor, complement_logits: Tensor) -> Tensor:
    """Pair every rationale with every complement: ŷ_c ⊙ σ(ŷ_s), (interventions, b, classes).

    logits : (b, classes) of rationales; complement_logits : (s, classes), which gets no gradient.
    """
    return logits * torch.sigmoid(complement_logits.detach()).unsqueeze(1)


def intervention_risks(logits: Tensor, complement_logits: Tensor, y: Tensor, class_weight: Tensor) -> Tensor:
    """(interventions,) cross-entropy over the batch when every graph has the same complement put in."""
    paired = intervene(logits, complement_logits)
    weight = class_weight[y]
    losses = F.cross_entropy(paired.flatten(0, 1), y.repeat(len(paired)), reduction="none")
    return (losses.view(len(paired), -1) * weight).sum(1) / weight.sum()


def top_edges(scores: Tensor, present: Tensor, ratio: float) -> Tensor:
    """(b, e) bool: the ⌈ratio · |E|⌉ edges of each graph with the highest scores; ties enter together.

    scores : (b, e); present : (b, e) bool, False where a graph has fewer edges than others.
    """
    ranked = scores.detach().masked_fill(~present, -torch.inf)
    count = (present.sum(1).double() * ratio).ceil().long()
    highest = ranked.topk(math.ceil(ranked.shape[1] * ratio), dim=1).values  # quicker than to sort them all
    threshold = highest.gather(1, (count - 1).clamp(min=0)[:, None])
    return (ranked >= threshold - TIE) & present
