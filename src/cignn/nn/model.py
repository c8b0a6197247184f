"""`GraphModel`: what every network behind an estimator can be asked; explainers need to know only this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.nn.layers import GINLayer, strongest_edges

Losses = dict[str, Tensor]
LEAST_WEIGHT = 1e-4  # and most, 1 less this, that an edge weight counts in a mean of log-odds


class Output(Protocol):
    """What a pass through a network gives at least."""

    @property
    def logits(self) -> Tensor:
        """(b, classes)."""

    @property
    def edge_weights(self) -> Tensor | None:
        """(b, n, n) in [0, 1], 0 where there is no edge; None where the network does not weight edges."""


class GraphOutput(NamedTuple):
    """What a pass through a network gives.

    Parameters
    ----------
    logits : Tensor of shape (b, classes)
        Class logits.
    edge_weights : Tensor of shape (b, n, n), default=None
        Weights in [0, 1] of the edges the network classified by, 0 where there is no edge. None where the
        network does not weight edges.

    Examples
    --------
    >>> import torch
    >>> from cignn.nn import GraphOutput
    >>> GraphOutput(torch.zeros(2, 3)).edge_weights is None
    True
    """

    logits: Tensor
    edge_weights: Tensor | None = None


@dataclass(frozen=True)
class Path:
    """What a network reads of the edges of a batch, as a way from nothing (t = 0) to all of it (t = 1).

    The logits on the way are ``decide(t * project(whole))``; every network is free to say what of an edge
    grows along it.

    Parameters
    ----------
    whole : Tensor of shape (b, n, n) or (b, n_pairs)
        What is read of every edge, 0 where there is none.
    project : callable
        A linear map of ``whole`` whose result, (b, ...), is all that ``decide`` looks at.
    decide : callable
        Class logits (b, classes) of projections.
    edge_matrix : callable
        Symmetric matrices (b, n, n) of a value for each entry of ``whole``.

    Examples
    --------
    >>> import torch
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import GNN
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> network = GNN(batch.x.shape[-1], n_classes=2).eval()
    >>> path = network.path(batch)
    >>> torch.allclose(path.decide(path.project(path.whole)), network.read(batch), atol=1e-5)
    True
    """

    whole: Tensor
    project: Callable[[Tensor], Tensor]
    decide: Callable[[Tensor], Tensor]
    edge_matrix: Callable[[Tensor], Tensor]

    @classmethod
    def of_weights(cls, batch: GraphBatch, read: Callable[[Tensor], Tensor]) -> Path:
        """Make the path on which the weights of all edges grow from 0 to 1.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        read : callable
            Class logits (b, classes) of edge weights (b, n, n).

        Returns
        -------
        Path
            The way from graphs without edges to the graphs themselves.
        """
        return cls(batch.edges, lambda whole: whole, read, lambda values: values + values.transpose(1, 2))


class GraphModel(nn.Module, ABC):
    """A network, or several, that classify a `GraphBatch`.

    Networks to be trained subclass `SingleModel`, which is one of these; an `Ensemble` is another.

    Examples
    --------
    >>> from cignn.nn import GNN, Ensemble, GraphModel
    >>> isinstance(GNN(3, 2), GraphModel), isinstance(Ensemble([GNN(3, 2), GNN(3, 2)]), GraphModel)
    (True, True)
    """

    def __init__(self) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Output:
        """Classify a batch.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `read`.

        Returns
        -------
        Output
            Something with ``logits`` and ``edge_weights``, such as `GraphOutput`.
        """

    @abstractmethod
    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Return node embeddings.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `read`.

        Returns
        -------
        Tensor of shape (b, n, d)
            Embeddings, 0 at padded nodes.
        """

    def read(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Classify graphs with every edge multiplied by a weight; node features stay as they are.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            Usually in [0, 1]: 1 leaves an edge as it is, 0 removes it; entries without an edge are ignored.
            Entry (i, j) weights the message from node j to node i; a network without directions takes the
            mean of both. None reads the graphs as they are.

        Returns
        -------
        Tensor of shape (b, classes)
            Class logits, differentiable in ``edge_weights``.
        """
        return self(batch, edge_weights).logits

    def networks(self) -> list[GraphModel]:
        """Return the networks that classify together.

        Returns
        -------
        list of GraphModel
            The model itself, or the members of an ensemble.
        """
        return [self]


class SingleModel(GraphModel):
    """A single network with the facts of its training set as buffers.

    ``fit`` fills the buffers: ``feature_scale`` (n_features,), what node features are divided by;
    ``class_weight`` (n_classes,); ``class_share`` (n_classes,), the weighted share of each class;
    ``label_entropy``, that of the training labels in nats.

    Parameters
    ----------
    n_features : int
        Number of node features.
    n_classes : int
        Number of classes.
    density : float or None, default=None
        Share of node pairs whose edges are read, the strongest by absolute weight; None reads all. On a
        complete graph a GNN gives every node nearly the same embedding. The edges are chosen before they are
        weighted.

    Examples
    --------
    >>> from cignn.nn import GNN, SingleModel
    >>> isinstance(GNN(n_features=3, n_classes=2), SingleModel)
    True
    """

    score_name = "accuracy"  # what `graph_scores` is the mean of

    feature_scale: Tensor
    class_weight: Tensor
    class_share: Tensor
    label_entropy: Tensor

    def __init__(self, n_features: int, n_classes: int, density: float | None = None) -> None:
        super().__init__()
        self.density = density
        self.register_buffer("feature_scale", torch.ones(n_features))
        self.register_buffer("class_weight", torch.ones(n_classes))
        self.register_buffer("class_share", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("label_entropy", torch.tensor(float(n_classes)).log())

    def path(self, batch: GraphBatch) -> Path:
        """Return the way from no edges to the graphs of a batch, along which contributions are summed.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        Path
            By default the weights of all edges grow together, from 0 to 1, in `read`. A network that chooses
            edges keeps the choice of the whole graph, so that the logits are continuous.
        """
        return Path.of_weights(batch, lambda weights: self.read(batch, weights))

    def adjacency(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Return the edges the network looks at, weighted.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `read`.

        Returns
        -------
        Tensor of shape (b, n, n)
            Signed edge weights.
        """
        adj = batch.adj if batch.strongest is None else batch.strongest
        if self.density is not None and batch.strongest is None:
            adj = strongest_edges(adj, self.density, batch.padding)
        return adj if edge_weights is None else adj * edge_weights

    def prepare(self, batch: GraphBatch) -> GraphBatch:
        """Compute what depends on the graphs alone and is needed at every pass.

        Training does it once for each graph. A batch that is not prepared gives the same results.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        GraphBatch
            The same graphs with ``strongest`` where the network reads only some edges and ``sums`` where its
            first layer starts from the neighbours' sums.
        """
        density, layers = self._reader()
        if density is not None:
            batch = replace(batch, strongest=strongest_edges(batch.adj, density, batch.padding))
        if len(layers) and isinstance(layers[0], GINLayer):
            adj = batch.adj if batch.strongest is None else batch.strongest
            batch = replace(batch, sums=adj @ batch.x)
        return batch

    def _reader(self) -> tuple[float | None, nn.ModuleList]:
        """The share of edges read, and the layers that read them, where the network has some."""
        return self.density, getattr(getattr(self, "classifier", None), "layers", nn.ModuleList())

    def sums(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor | None:
        """Return the sums of neighbours' features, where the batch has them and no edge is weighted anew.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `read`.

        Returns
        -------
        Tensor of shape (b, n, n_features) or None
            Scaled as `features` are.
        """
        return None if batch.sums is None or edge_weights is not None else batch.sums / self.feature_scale

    def features(self, batch: GraphBatch) -> Tensor:
        """Return the node features, each divided by its largest absolute value in the training graphs.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        Tensor of shape (b, n, n_features)
            Scaled features.
        """
        return batch.x / self.feature_scale

    def cross_entropy(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Return the cross-entropy with the labels of the batch, classes weighted.

        Parameters
        ----------
        logits : Tensor of shape (b, classes)
            Class logits.
        batch : GraphBatch
            Graphs with labels.

        Returns
        -------
        Tensor of shape ()
            Cross-entropy in nats.

        References
        ----------
        Equation (15) of the paper.
        """
        assert batch.y is not None
        return F.cross_entropy(logits, batch.y, self.class_weight)

    def graph_scores(self, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return how well each of some validation graphs is predicted.

        Parameters
        ----------
        logits : Tensor of shape (b, classes)
            Class logits.
        y : Tensor of shape (b,)
            Labels.

        Returns
        -------
        score : Tensor of shape (b,)
            1 where the class is right, whose mean is the accuracy.
        loss : Tensor of shape (b,)
            Cross-entropy.
        """
        return (logits.argmax(1) == y).float(), F.cross_entropy(logits, y, reduction="none")


def mean_weights(weights: Sequence[Tensor]) -> Tensor:
    """Return the edge weights, each in [0, 1], whose log-odds are the mean of those given.

    Members that are sure of an edge outweigh one that has lost its way and tells edges hardly apart. A weight
    that is 0 for all stays 0.
    """
    log_odds = [weight.clamp(LEAST_WEIGHT, 1 - LEAST_WEIGHT).logit() for weight in weights]
    present = reduce(torch.maximum, weights) > 0
    return torch.sigmoid(reduce(torch.add, log_odds) / len(weights)) * present


class Ensemble(GraphModel):
    """The mean of its members' probabilities and of the log-odds of their edge weights.

    It is steadier from seed to seed than one network.

    Parameters
    ----------
    members : iterable of GraphModel
        The networks.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import GNN, Ensemble
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> ensemble = Ensemble([GNN(batch.x.shape[-1], 2) for _ in range(3)])
    >>> ensemble(batch).logits.shape
    torch.Size([4, 2])
    """

    def __init__(self, members: Iterable[GraphModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def networks(self) -> list[GraphModel]:
        """Return the members.

        Returns
        -------
        list of GraphModel
            The networks of the ensemble.
        """
        return list(self.members)  # type: ignore[arg-type]

    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> GraphOutput:
        """Classify a batch.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.

        Returns
        -------
        GraphOutput
            The logarithm of the mean probabilities, of a score the mean, and the edge weights of mean
            log-odds where the members have some.
        """
        outputs: list[Output] = [member(batch, edge_weights) for member in self.members]
        weights = [out.edge_weights for out in outputs if out.edge_weights is not None]
        mean = mean_weights(weights) if weights else None
        logits = torch.stack([out.logits for out in outputs])
        if logits.shape[-1] == 1:  # a score, which has no probabilities
            return GraphOutput(logits.mean(0), mean)
        return GraphOutput(torch.softmax(logits, -1).mean(0).clamp(min=1e-12).log(), mean)

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Return the node embeddings of all members side by side.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.

        Returns
        -------
        Tensor of shape (b, n, members · d)
            Embeddings, 0 at padded nodes.
        """
        return torch.cat([member.embed(batch, edge_weights) for member in self.networks()], -1)
