"""`Explainer`: fitted to a trained classifier, it gives every edge of every graph a weight."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from torch import Tensor, nn

from cignn._progress import track
from cignn._random import RandomState, as_random_state, one_thread, torch_seed
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.graph_estimator import check_graphs
from cignn.estimators.settings import whole, within
from cignn.estimators.training import evaluation_mode
from cignn.explanations import Explanations
from cignn.graphs import GraphBatch, GraphSet
from cignn.nn import GraphModel


@dataclass(frozen=True)
class EdgeBatch:
    """A batch and its edges, graph by graph in the order of ``GraphSet.edges``, each once."""

    batch: GraphBatch
    counts: np.ndarray  # (b,) edges of each graph
    graph: Tensor  # (e,) the graph of each edge, as source and target on the batch's device
    source: Tensor
    target: Tensor
    seeds: np.ndarray  # (b,) computed from each graph alone: its random numbers do not depend on the batch

    @classmethod
    def of(cls, graphs: GraphSet, index: np.ndarray, device: torch.device | str = "cpu") -> EdgeBatch:
        """The graphs of a set at ``index``."""
        batch = graphs.batch(index)
        counts = graphs.n_edges[index]
        pairs = np.concatenate([np.empty((0, 2), np.int64), *(graphs.edges(i) for i in index)])
        graph = np.repeat(np.arange(len(index)), counts)
        weights = batch.adj.numpy()[graph, pairs[:, 0], pairs[:, 1]]
        ends = np.cumsum(counts)
        seeds = [
            zlib.crc32(weights[a:b].tobytes(), zlib.crc32(pairs[a:b].tobytes()))
            for a, b in zip(ends - counts, ends, strict=True)
        ]
        at, source, target = (torch.from_numpy(row).to(device) for row in (graph, *pairs.T.copy()))
        return cls(batch.to(device), counts, at, source, target, np.array(seeds))

    def __len__(self) -> int:
        return len(self.graph)

    def dense(self, values: Tensor) -> Tensor:
        """(..., e) values of edges → (..., b, n, n), symmetric, zero without an edge; differentiable."""
        return self.directed(values, values)

    def directed(self, there: Tensor, back: Tensor) -> Tensor:
        """(..., e) weights of edges from source to target and back → (..., b, n to, n from)."""
        b, n, _ = self.batch.adj.shape
        row = self.graph * (n * n)
        both = torch.cat([row + self.target * n + self.source, row + self.source * n + self.target])
        values = torch.cat([there, back], -1)
        flat = values.new_zeros(*values.shape[:-1], b * n * n)
        return flat.scatter(-1, both.expand_as(values), values).view(*values.shape[:-1], b, n, n)

    def read(self, matrices: Tensor) -> Tensor:
        """(b, n, n) → (e,) the mean of an edge's two entries."""
        there = matrices[self.graph, self.source, self.target]
        return (there + matrices[self.graph, self.target, self.source]) / 2

    def ends(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """(b, n, d) node vectors → those of both ends of every edge, (e, d) each."""
        return h[self.graph, self.source], h[self.graph, self.target]

    def count(self, values: Tensor) -> Tensor:
        """(b,) one value per graph → (e,) one per edge."""
        return values[self.graph]

    def relative(self, values: Tensor, least: float = 0.0) -> Tensor:
        """(e,) values of at least 0 divided by the largest of their graph, where that is above ``least``."""
        largest = values.new_zeros(len(self.batch)).scatter_reduce(0, self.graph, values, "amax")
        largest = torch.where(largest > least, largest, torch.inf)
        return values / self.count(largest)

    def noise(self, seed: int, normal: bool = False, copies: int = 1) -> Tensor:
        """(copies · e,) random numbers, uniform or standard normal, from each graph's own generator."""
        parts = [np.empty((copies, 0), np.float32)]
        for own, count in zip(self.seeds, self.counts, strict=True):
            rng = np.random.default_rng([seed, own])
            draw = rng.standard_normal if normal else rng.random
            parts.append(draw((copies, count), dtype=np.float32))
        return torch.from_numpy(np.concatenate(parts, 1).ravel()).to(self.graph.device)

    def rank_weights(self, scores: Tensor) -> Tensor:
        """(e,) scores → weights by rank in their graph: 1 for the highest score, then falling by 1/e each."""
        order = torch.argsort(scores, descending=True, stable=True)
        order = order[torch.argsort(self.graph[order], stable=True)]
        counts = torch.as_tensor(self.counts, device=scores.device)
        place = torch.arange(len(scores), device=scores.device) - self.count(counts.cumsum(0) - counts)
        weights = torch.empty(len(scores), device=scores.device)
        weights[order] = 1 - place / self.count(counts)
        return weights


T = TypeVar("T")
# remedy where a classifier has no network
ADVICE = (
    'use a neural classifier, such as make_estimator("gin"); only the references "random", "degree" and '
    '"connectivity", which look at graphs alone, need none'
)


class Explainer(BaseEstimator, ABC):
    """Base class of all explainers.

    A subclass stores its parameters in ``__init__`` and writes ``_explain``, which returns the edge weights
    of graphs; one that trains something also writes ``_fit``. The weights of a graph must not depend on the
    other graphs that are explained with it.

    Attributes
    ----------
    estimator_ : GraphClassifier
        The classifier explained.
    seed_ : int
        The seed of all random numbers, drawn from ``random_state`` in ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import Explainer
    >>> class Constant(Explainer):
    ...     def _explain(self, graphs):
    ...         return self._explained(graphs, [np.ones(n) for n in graphs.n_edges])
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> Constant().fit(gnn, graphs).explain(graphs)
    Explanations(8 graphs, mean edge weight 1.00)
    """

    estimator_: GraphClassifier
    aligned_only: bool = False  # whether it explains aligned graphs alone
    random_state: RandomState = None
    verbose: int = 0

    def fit(self, estimator: GraphClassifier, graphs: GraphSet) -> Self:
        """Prepare to explain a classifier.

        Parameters
        ----------
        estimator : GraphClassifier
            A fitted classifier of graphs.
        graphs : GraphSet
            Graphs to learn from, for explainers that train something.

        Returns
        -------
        Explainer
            The explainer itself.
        """
        _refuse_wrapped(estimator)
        check_graphs(graphs)
        if not len(graphs):
            raise ValueError("there are no graphs to learn to explain from, got an empty GraphSet.")
        if not hasattr(estimator, "classes_"):
            raise NotFittedError(
                f"this {type(estimator).__name__} is not fitted yet; fit it, then explain it."
            )
        self._check(estimator)
        graphs = read_by(estimator, graphs)
        self.estimator_ = estimator
        self.seed_ = int(as_random_state(self.random_state).randint(2**31 - 1))
        with torch_seed(self.seed_, device_of(estimator)):
            self._fit(graphs)
        return self

    def explain(self, graphs: GraphSet) -> Explanations:
        """Explain the class that the classifier predicts for each graph.

        Parameters
        ----------
        graphs : GraphSet
            The graphs.

        Returns
        -------
        Explanations
            A weight in [0, 1] for every edge of every graph.
        """
        graphs = self._seen(graphs)
        if not len(graphs):
            return Explanations(graphs, [], np.empty(0, self.estimator_.classes_.dtype))
        return self._explain(graphs)

    def _seen(self, graphs: GraphSet) -> GraphSet:
        """Return graphs with the features that the estimator reads; refuse what cannot be explained."""
        if not hasattr(self, "estimator_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit(estimator, graphs)."
            )
        check_graphs(graphs)
        self._check(self.estimator_)  # parameters may have changed since
        return read_by(self.estimator_, graphs)

    def _check(self, estimator: GraphClassifier) -> None:
        """Refuse an estimator this method cannot explain, and parameters out of range."""

    def _fit(self, graphs: GraphSet) -> None:
        """Learn what the method learns; torch is seeded."""

    @abstractmethod
    def _explain(self, graphs: GraphSet) -> Explanations:
        """Return the explanations of at least one graph."""

    def _explained(self, graphs: GraphSet, weights: Sequence[np.ndarray]) -> Explanations:
        """Explanations with these weights and the predicted classes."""
        return Explanations(graphs, weights, self.estimator_.predict(graphs))

    def _track(self, work: Iterable[T], what: str, total: int) -> Iterator[T]:
        """Iterate over ``work`` with a progress bar when verbose."""
        return track(work, what, total, self.verbose)


class NetworkExplainer(Explainer):
    """Base class of explainers that use the network of a classifier and its logits of weighted graphs.

    A subclass writes ``_weigh``, which returns the weights of one batch.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import NetworkExplainer
    >>> class Certainty(NetworkExplainer):
    ...     def __init__(self, batch_size=128):
    ...         self.batch_size = batch_size
    ...     def _weigh(self, edges):
    ...         return edges.count(self.network_.read(edges.batch).softmax(1).amax(1))
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> Certainty().fit(gnn, graphs).explain(graphs)[0].weights.shape
    (25, 25)
    """

    estimator_: NeuralGraphClassifier
    batch_size: int = 128
    epochs: int  # of subclasses that train something, as is learning_rate
    learning_rate: float

    @property
    def network_(self) -> GraphModel:
        """The network explained."""
        return self.estimator_.network_

    def _check(self, estimator: GraphClassifier) -> None:
        need_network(self, estimator)
        check_params(self, whole_numbers=("batch_size",))

    def _descend(self, module: nn.Module, n_batches: int, loss: Callable[[int, int], torch.Tensor]) -> None:
        """Train ``module`` by Adam with a subclass's ``epochs`` and ``learning_rate``, then freeze it.

        loss(batch, epoch) : the loss of a batch, by its number; batches are shuffled each epoch.
        """
        name = type(self).__name__
        optimiser = torch.optim.Adam(module.parameters(), lr=self.learning_rate, fused=True)
        with frozen(self.network_):
            for epoch in self._track(range(self.epochs), f"training {name}", self.epochs):
                for batch in torch.randperm(n_batches).tolist():
                    optimiser.zero_grad(set_to_none=True)
                    loss(batch, epoch).backward()
                    optimiser.step()
                # after a loss that is not finite, no weight is finite
                if not all(weight.isfinite().all() for weight in module.parameters()):
                    raise FloatingPointError(
                        f"{name} diverged in epoch {epoch + 1} of its training: its weights are not finite; "
                        "lower learning_rate."
                    )
        module.eval().requires_grad_(False)

    @abstractmethod
    def _weigh(self, edges: EdgeBatch) -> torch.Tensor:
        """(e,) weights in [0, 1] of the undirected edges of a batch."""

    def _explain(self, graphs: GraphSet) -> Explanations:
        weights: list[np.ndarray] = [np.empty(0)] * len(graphs)
        batches = graphs.batch_indices(self.batch_size)
        with frozen(self.network_):
            for index in self._track(batches, "explaining", len(batches)):
                edges = self._edges(graphs, index)
                values = self._weigh(edges).detach().clamp(0, 1).cpu().numpy()
                for i, part in zip(index, np.split(values, np.cumsum(edges.counts)[:-1]), strict=True):
                    weights[i] = part
        return self._explained(graphs, weights)

    def _edges(self, graphs: GraphSet, index: np.ndarray) -> EdgeBatch:
        """The graphs at ``index`` and their edges, on the network's device."""
        return EdgeBatch.of(graphs, index, device_of(self.estimator_))


# ----------------------------------------------------------------------- helpers


def has_network(estimator: object) -> bool:
    """Whether the estimator has a network that explainers can use."""
    return isinstance(getattr(estimator, "network_", None), GraphModel)


def need_network(explainer: Explainer, estimator: GraphClassifier) -> None:
    """Refuse an estimator without a network; of a search, its best estimator is to be explained."""
    name = type(estimator).__name__
    if has_network(getattr(estimator, "best_estimator_", None)):
        raise TypeError(f"a {name} is explained by its best estimator: fit(search.best_estimator_, graphs).")
    if not has_network(estimator):
        raise TypeError(f"{type(explainer).__name__} explains networks, {name} has none; {ADVICE}.")


def _refuse_wrapped(estimator: object) -> None:
    """Refuse estimators that take a cohort: of those, the classifier in the last step is explained."""
    if hasattr(type(estimator), "to_graphs"):
        parts = "fit(model.classifier_, model.to_graphs(cohort))"
    elif isinstance(estimator, Pipeline):
        parts = "fit(pipe[-1], pipe[:-1].transform(cohort))"
    else:
        return
    name = type(estimator).__name__
    raise TypeError(f"a {name} is explained by its classifier and the graphs it sees: {parts}.")


def read_by(estimator: GraphClassifier, graphs: GraphSet) -> GraphSet:
    """Graphs with the node features an estimator reads; its ``predict`` refuses those it cannot read."""
    if len(graphs):
        estimator.predict(graphs[:1])
    return graphs.with_features(getattr(estimator, "feature_names_", None))


def device_of(estimator: GraphClassifier) -> torch.device:
    """The device of a classifier's network; the CPU where it has none."""
    network = getattr(estimator, "network_", None)
    return next(network.parameters()).device if isinstance(network, GraphModel) else torch.device("cpu")


@contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
    """Let gradients pass through ``network`` without computing those of its weights.

    One thread at a time: another thread would find the network frozen and leave it so.
    """
    with one_thread(), evaluation_mode(network), torch.enable_grad():
        wanted = [(p, p.requires_grad) for p in network.parameters()]
        network.requires_grad_(False)
        try:
            yield
        finally:
            for parameter, needed in wanted:
                parameter.requires_grad_(needed)


def check_params(
    explainer: Explainer,
    whole_numbers: Sequence[str] = (),
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
) -> None:
    """Refuse parameters that are not whole numbers of at least 1, positive, or not negative."""
    params = explainer.get_params(deep=False)
    for name in whole_numbers:
        whole(params, name, 1)
    for name in positive:
        within(params, name, 0, math.inf)
    for name in not_negative:
        within(params, name, 0, math.inf, include_low=True)
