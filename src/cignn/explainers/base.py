"""`Explainer`: fit on a trained classifier, then give every edge of every graph a weight."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from torch import Tensor, nn

from cignn._progress import track
from cignn._random import as_random_state, one_thread, torch_seed
from cignn.estimators.base import at_rest
from cignn.estimators.classifier import check_graphs
from cignn.estimators.settings import whole, within
from cignn.explanations import Explanations
from cignn.graphs import GraphBatch, GraphSet
from cignn.nn import GraphModel


@dataclass(frozen=True)
class EdgeBatch:
    """A batch and its edges, graph by graph in the order of ``GraphSet.edges``, each once.

    batch : (b graphs); counts : (b,) edges of each graph; graph, source, target : (e,) on the device;
    seeds : (b,) a number made of each graph alone, for chance that does not depend on its company.
    """

    batch: GraphBatch
    counts: np.ndarray
    graph: Tensor
    source: Tensor
    target: Tensor
    seeds: np.ndarray

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
        """(..., e) values of edges → (..., b, n, n), symmetric, zero where no edge is; differentiable."""
        return self.directed(values, values)

    def directed(self, there: Tensor, back: Tensor) -> Tensor:
        """(..., e) weights of what edges carry from source to target, and back → (..., b, n to, n from)."""
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
        """(copies · e,) chance numbers, uniform or standard normal, of each graph's own generator."""
        parts = [np.empty((copies, 0), np.float32)]
        for own, count in zip(self.seeds, self.counts, strict=True):
            rng = np.random.default_rng([seed, own])
            draw = rng.standard_normal if normal else rng.random
            parts.append(draw((copies, count), dtype=np.float32))
        return torch.from_numpy(np.concatenate(parts, 1).ravel()).to(self.graph.device)

    def rank_weights(self, scores: Tensor) -> Tensor:
        """(e,) scores → weights by place in their graph: 1 for the highest, then falling by 1/e each."""
        order = torch.argsort(scores, descending=True, stable=True)
        order = order[torch.argsort(self.graph[order], stable=True)]
        counts = torch.as_tensor(self.counts, device=scores.device)
        place = torch.arange(len(scores), device=scores.device) - self.count(counts.cumsum(0) - counts)
        weights = torch.empty(len(scores), device=scores.device)
        weights[order] = 1 - place / self.count(counts)
        return weights


T = TypeVar("T")
# where there is no network
ADVICE = (
    'use a neural classifier, such as make_estimator("gin"); only the references "random", "degree" and '
    '"connectivity", which look at graphs alone, ask for none'
)


class Explainer(BaseEstimator, ABC):
    """What every explainer shares.

    A subclass stores its parameters and writes ``_explain``, which gives the edge weights of graphs; one that
    trains something writes ``_fit`` too. Weights may not depend on what other graphs are explained along.

    Attributes
    ----------
    estimator_ : the classifier explained
    seed_ : the number all chance comes from, drawn from ``random_state`` in ``fit``
    """

    random_state: Any = None
    verbose: int = 0

    def fit(self, estimator: Any, graphs: GraphSet) -> Self:
        """Get ready to explain ``estimator``, which is fitted; methods that learn do so on ``graphs``."""
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
        """Weigh every edge of every graph for the class the estimator predicts."""
        graphs = self._seen(graphs)
        if not len(graphs):
            return Explanations(graphs, [], np.empty(0, self.estimator_.classes_.dtype))
        return self._explain(graphs)

    def _seen(self, graphs: GraphSet) -> GraphSet:
        """Return graphs as the estimator reads them; refuse what cannot be explained."""
        if not hasattr(self, "estimator_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit(estimator, graphs)."
            )
        check_graphs(graphs)
        self._check(self.estimator_)  # parameters may have changed since
        return read_by(self.estimator_, graphs)

    def _check(self, estimator: Any) -> None:
        """Refuse an estimator this method cannot explain, and parameters that make no sense."""

    def _fit(self, graphs: GraphSet) -> None:
        """Learn what the method learns; torch is seeded."""

    @abstractmethod
    def _explain(self, graphs: GraphSet) -> Explanations:
        """Return the explanations of at least one graph."""

    def _explained(self, graphs: GraphSet, weights: Sequence[np.ndarray]) -> Explanations:
        """Put weights together with the classes they are for."""
        return Explanations(graphs, weights, self.estimator_.predict(graphs))

    def _track(self, work: Iterable[T], what: str, total: int) -> Iterator[T]:
        """Go through ``work`` with a progress bar when verbose."""
        return track(work, what, total, self.verbose)


class NetworkExplainer(Explainer):
    """An explainer that asks the network inside a classifier: how do logits change with edge weights?

    A subclass writes ``_weigh``, the weights of one batch.
    """

    batch_size: int = 128
    epochs: int  # of those that train something, as is learning_rate
    learning_rate: float

    @property
    def network_(self) -> GraphModel:
        """The network explained."""
        return self.estimator_.network_

    def _check(self, estimator: Any) -> None:
        if has_network(getattr(estimator, "best_estimator_", None)):
            raise TypeError(
                f"a {type(estimator).__name__} is explained by its best: fit(search.best_estimator_, graphs)."
            )
        if not has_network(estimator):
            raise TypeError(
                f"{type(self).__name__} explains networks, {type(estimator).__name__} has none; {ADVICE}."
            )
        check_params(self, whole_numbers=("batch_size",))

    def _descend(self, module: nn.Module, n_batches: int, loss: Callable[[int, int], torch.Tensor]) -> None:
        """Train ``module`` by Adam with a subclass's ``epochs`` and ``learning_rate``, then leave it at rest.

        loss(batch, epoch) : of a batch, by its number; batches come in a new order each epoch.
        """
        name = type(self).__name__
        optimiser = torch.optim.Adam(module.parameters(), lr=self.learning_rate, fused=True)
        with frozen(self.network_):
            for epoch in self._track(range(self.epochs), f"training {name}", self.epochs):
                for batch in torch.randperm(n_batches).tolist():
                    optimiser.zero_grad(set_to_none=True)
                    loss(batch, epoch).backward()
                    optimiser.step()
                # a loss that is not finite leaves no weight that is
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


def has_network(estimator: Any) -> bool:
    """Whether there is a network inside that explainers can ask."""
    network = getattr(estimator, "network_", None)
    return all(callable(getattr(network, answer, None)) for answer in ("read", "embed"))


def _refuse_wrapped(estimator: Any) -> None:
    """Explainers see graphs: of what takes a cohort they explain the last step."""
    kind = type(estimator)
    if hasattr(kind, "to_graphs"):
        parts = "fit(model.classifier_, model.to_graphs(cohort))"
    elif isinstance(estimator, Pipeline):
        parts = "fit(pipe[-1], pipe[:-1].transform(cohort))"
    else:
        return
    raise TypeError(f"a {kind.__name__} is explained by its classifier and the graphs it sees: {parts}.")


def read_by(estimator: Any, graphs: GraphSet) -> GraphSet:
    """Graphs with the node features an estimator reads; those it cannot read it refuses in its own words."""
    if len(graphs):
        estimator.predict(graphs[:1])
    return graphs.with_features(getattr(estimator, "feature_names_", None))


def device_of(estimator: Any) -> torch.device:
    """Where the network of a classifier lies; the CPU where it has none."""
    network = getattr(estimator, "network_", None)
    return next(network.parameters()).device if isinstance(network, nn.Module) else torch.device("cpu")


@contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
    """Let gradients pass through ``network`` but not into it: its weights stay and need none.

    One thread at a time, since another one would find a network that is frozen and leave it so.
    """
    with one_thread(), at_rest(network), torch.enable_grad():
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
