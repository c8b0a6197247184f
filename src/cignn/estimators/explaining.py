"""Explanations of classifiers: weights and contributions of all edges, class by class."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from cignn._checks import shown
from cignn._progress import track
from cignn.datasets.labels import control_class
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.kept_epochs import FEWEST
from cignn.estimators.neural import NeuralGraphEstimator, Plan
from cignn.estimators.persistence import POOL, Saved, first_line, pool_bytes, read_pool
from cignn.estimators.training import evaluation_mode
from cignn.explanations import Explanations
from cignn.explanations.pooling import Pool, Unseen
from cignn.graphs import GraphBatch, GraphSet
from cignn.nn.contributions import contributions
from cignn.nn.model import GraphModel

CELLS = 1_300_000  # of the edge matrices of a batch: where nothing is learnt, larger batches are quicker
MOST_GRAPHS, POOL_CELLS = 2000, 2**26  # graphs in which a pool is sought, and node pairs of all of them
FLAT = 0.01  # weights of a graph that lie closer together hardly tell its edges apart
PACKAGE = str(Path(__file__).parents[1]) + os.sep


class FlatMaskWarning(UserWarning):
    """In most graphs, all edges have nearly the same weight, so that edges should not be ranked by it.

    Some classes do not depend on particular edges: those of proteins depend on how many edges there are.
    `explain` warns where weights differ by less than 0.01 within the median graph. Contributions still say
    what every edge did. There is no warning where fewer than 10 epochs were allowed, `generative_epochs` not
    counted.

    Examples
    --------
    >>> import warnings
    >>> from cignn.estimators import FlatMaskWarning
    >>> warnings.simplefilter("error", FlatMaskWarning)  # refuse such explanations
    >>> warnings.simplefilter("default", FlatMaskWarning)
    """


def told_by_weights(explanations: Explanations) -> str | None:
    """Return what to tell of weights that are nearly the same for all edges of a graph, else None."""
    usual = explanations.usual_range
    if not usual < FLAT:  # NaN too
        return None
    remedy = "ask for" if explanations.edge_contributions is None else "read"
    return (
        f"edge weights hardly differ (by {usual:.1g} within a graph): do not rank edges by them; "
        f"{remedy} contributions instead."
    )


def warn_of_flat_mask(explanations: Explanations, settings: Mapping[str, Any]) -> None:
    """Tell whoever asked the package for an explanation of a mask that says nothing."""
    told = told_by_weights(explanations)
    if told is None or settings["epochs"] - settings.get("generative_epochs", 0) < FEWEST:
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(told, FlatMaskWarning, stacklevel=level)


class ExplainingClassifier(NeuralGraphClassifier):
    """Base of the classifiers that explain themselves.

    The output of the network has ``edge_weights`` (b, n, n) in [0, 1] beside ``logits``.

    Attributes
    ----------
    pool_ : Pool or None
        Connections whose contributions go together in the training graphs of the class that is not the
        controls', and again in validation graphs; `explain` pools their evidence. None where there are none,
        where graphs are not aligned, for more than two classes, and for classifiers other than CI-GNN.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import ExplainingClassifier, make_estimator
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> clf = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> isinstance(clf, ExplainingClassifier), len(clf.explain(graphs))
    (True, 20)
    """

    pool_: Pool | None = None
    _pools: bool = False  # whether ``fit`` looks for a pool

    def explain(
        self, X: GraphSet, target: Any = None, *, contributions: bool = True, pooled: bool = True
    ) -> Explanations:
        """Say of every edge where the network looks and what the edge did to the decision.

        Parameters
        ----------
        X : GraphSet
            Graphs with the same node features as the training graphs and, if aligned, the same nodes.
        target : label or array-like of shape (n_graphs,), default=None
            The class to explain, one for all graphs or one each. None explains the predicted class.
        contributions : bool, default=True
            Whether to compute contributions too. On graphs that are not aligned they take several times as
            long as the weights.
        pooled : bool, default=True
            Whether to pool the evidence of connections that go together in the training graphs of a class,
            such as those of a subtype: each of them gets its share of what all of them say, and noise is
            spread over all connections of the graph. Tables, figures, reports and scores that rank edges by
            the contributions of these explanations then use pooled ones. False gives the contribution of
            every edge by itself, the path integral. It makes no difference to a model without ``pool_``.

        Returns
        -------
        Explanations
            Of every edge a weight in [0, 1], as the network computes it while it classifies, and its
            contribution to the log-odds of the class, see `cignn.nn.contributions`. Pooled or not, base and
            contributions add up to the log-odds.

        Warns
        -----
        FlatMaskWarning
            If in most graphs all edges have nearly the same weight.
        """
        explanations = self._explanations(self._check_fitted(X), target, contributions)
        warn_of_flat_mask(explanations, self.settings_)
        if not (contributions and pooled and self.pool_ is not None and len(X)):
            return explanations
        return explanations._pooled(self.pool_, self._pooled_class())

    def _explanations(self, X: GraphSet, target: Any, contributions: bool = True) -> Explanations:
        """Explain checked graphs, every edge by itself."""
        codes = target_codes(self, target, len(X))
        weights: list[np.ndarray] = [np.empty(0)] * len(X)
        predictions = np.empty(len(X), np.int64)
        found = Contributed.empty(len(X))
        for index, batch in explained_batches(self, X):
            with torch.no_grad(), evaluation_mode(self.network_):
                out = self.network_(batch)
            predicted = out.logits.argmax(1)
            predictions[index] = predicted.cpu().numpy()
            put_edges(weights, X, index, out.edge_weights)
            if contributions:
                chosen = predictions[index] if codes is None else codes[index]
                found.add(self, X, index, batch, chosen)
        explained = self.classes_[predictions if codes is None else codes]
        return Explanations(
            X,
            weights,
            self.classes_[predictions],
            edge_contributions=found.values if contributions else None,
            base=found.base if contributions else None,
            explained=explained,
            reference=self.reference_,
            classes=self.classes_,
        )

    def _accept(self, plan: Plan) -> None:
        super()._accept(plan)
        wanted = self._pools and self.n_nodes_ is not None and len(self.classes_) == 2
        self.pool_ = self._find_pool(plan) if wanted else None

    def _find_pool(self, plan: Plan) -> Pool | None:
        """Connections that go together in training graphs, or in some of very many; None without any."""
        graphs, target = plan.graphs.with_y(plan.target.labels), self._pooled_class()
        most = min(MOST_GRAPHS, POOL_CELLS // int(graphs.n_nodes[0]) ** 2)
        some = np.unique(np.linspace(0, len(graphs) - 1, most).astype(int))
        try:
            unseen = _unseen(plan, some, int(np.flatnonzero(self.classes_ == target)[0]), most)
            pool = self._explanations(graphs[some], target)._pool(target, unseen)
        except Exception as error:  # a trained network is worth more than its pool
            warnings.warn(f"explanations will not be pooled ({first_line(error)}).", stacklevel=2)
            return None
        return pool if pool.n_edges > 1 else None

    def _pooled_class(self) -> Any:
        """The class of two that is not the controls'."""
        control = control_class(self.classes_.tolist())
        return self.classes_[self.classes_ != control][0]

    def _files(self) -> dict[str, bytes]:
        return super()._files() | ({} if self.pool_ is None else {POOL: pool_bytes(self.pool_)})

    @classmethod
    def _from_saved(cls, saved: Saved) -> Self:
        estimator = super()._from_saved(saved)
        if POOL in saved.files:
            estimator.pool_ = read_pool(saved, estimator.n_nodes_)
            if len(estimator.classes_) != 2:
                raise ValueError(f"{POOL} belongs to two classes, there are {len(estimator.classes_)}")
        return estimator


class Contributed(NamedTuple):
    """Contributions and bases of the graphs of a set, filled batch by batch."""

    values: list[np.ndarray]
    base: np.ndarray

    @classmethod
    def empty(cls, n: int) -> Contributed:
        """Make room for the graphs of a set."""
        return cls([np.empty(0, np.float32)] * n, np.zeros(n))

    def add(
        self,
        estimator: NeuralGraphEstimator,
        graphs: GraphSet,
        index: np.ndarray,
        batch: GraphBatch,
        codes: np.ndarray | None,
    ) -> None:
        """Explain the class codes (b,) of one batch; None explains scores."""
        with evaluation_mode(estimator.network_):
            chosen = None if codes is None else torch.as_tensor(codes, device=batch.adj.device)
            found = contributions(estimator.network_, batch, chosen)
        self.base[index] = found.base.double().cpu().numpy()
        put_edges(self.values, graphs, index, found.values)


def _unseen(plan: Plan, some: np.ndarray, code: int, most: int) -> Unseen:
    """Mean contributions to validation graphs by the networks that set them aside.

    some : (g,), numbers of the training graphs that are used; code : the class explained.
    """
    total: dict[tuple[bool, int], list[Any]] = {}  # by whether it is a training graph, and its number
    for one in plan.trainings:
        if one.error is not None:
            continue
        graphs, rows, codes = one.validation.graphs, one.validation.rows, one.validation.y
        inside = graphs is plan.graphs
        kept = np.isin(rows, some) if inside else np.arange(len(rows)) < most
        values = _pair_contributions(one.network, graphs, rows[kept], code)
        for row, own, found in zip(rows[kept].tolist(), codes[kept] == code, values, strict=True):
            before = total.setdefault((inside, row), [0.0, own, 0])
            before[0], before[2] = before[0] + found, before[2] + 1
    among = np.array([(True, row) in total for row in some.tolist()])
    means = [summed / n for summed, _, n in total.values()]
    n_pairs = int(plan.graphs.n_nodes[0]) * (int(plan.graphs.n_nodes[0]) - 1) // 2
    return Unseen(
        np.reshape(means, (len(means), n_pairs)), np.array([own for _, own, _ in total.values()], bool), among
    )


def _pair_contributions(network: GraphModel, graphs: GraphSet, rows: np.ndarray, code: int) -> np.ndarray:
    """(r, pairs) contributions of aligned graphs to a class."""
    n = int(graphs.n_nodes[0])
    device, step = next(network.parameters()).device, max(1, CELLS // n**2)
    above = np.triu_indices(n, 1)
    parts = [np.empty((0, len(above[0])), np.float32)]
    for start in range(0, len(rows), step):
        batch = graphs.batch(rows[start : start + step]).to(device)
        with evaluation_mode(network):
            codes = torch.full((len(batch.adj),), code, device=device)
            parts.append(contributions(network, batch, codes).values.cpu().numpy()[:, *above])
    return np.concatenate(parts)


def network_contributions(
    estimator: NeuralGraphClassifier, graphs: GraphSet, target: Any = None, verbose: int = 0
) -> Explanations:
    """Explain any network by contributions; weights are their size, relative to the largest of the graph.

    graphs : as `GraphClassifier._check_fitted` returns them; target : see `ExplainingClassifier.explain`.
    """
    predictions = estimator.predict(graphs)
    codes = target_codes(estimator, target, len(graphs))
    codes = np.searchsorted(estimator.classes_, predictions) if codes is None else codes
    found = Contributed.empty(len(graphs))
    for index, batch in explained_batches(estimator, graphs, verbose):
        found.add(estimator, graphs, index, batch, codes[index])
    return Explanations(
        graphs,
        [relative_sizes(values) for values in found.values],
        predictions,
        edge_contributions=found.values,
        base=found.base,
        explained=estimator.classes_[codes],
        reference=estimator.reference_,
        classes=estimator.classes_,
    )


def target_codes(estimator: GraphClassifier, target: Any, n: int) -> np.ndarray | None:
    """(n,) class numbers of a label, or of one label per graph; None stays None."""
    if target is None:
        return None
    labels = np.asarray(target)
    if labels.ndim > 1 or (labels.ndim and len(labels) != n):
        raise ValueError(f"target must be a label or one per graph ({n}), got shape {labels.shape}.")
    classes = estimator.classes_.tolist()
    for label in labels.ravel().tolist():
        if label not in classes:
            raise ValueError(f"target must be one of the classes {classes}, got {shown(label)}.")
    return np.array([classes.index(label) for label in np.broadcast_to(labels, n).tolist()], np.int64)


def relative_sizes(values: np.ndarray) -> np.ndarray:
    """(e,) absolute values divided by the largest of them; 0 where all are 0."""
    sizes = np.abs(values)
    largest = sizes.max(initial=0)
    return np.minimum(sizes / largest, 1) if largest > 0 else np.zeros_like(sizes)


def explained_batches(
    estimator: NeuralGraphEstimator, graphs: GraphSet, verbose: int = 0
) -> Iterator[tuple[np.ndarray, GraphBatch]]:
    """Batches on the network's device, and the numbers of their graphs."""
    size = estimator.settings_["batch_size"]
    if graphs.aligned and len(graphs):
        size = max(size, CELLS // int(graphs.n_nodes[0]) ** 2)
    device = next(estimator.network_.parameters()).device
    indices = graphs.batch_indices(size) if len(graphs) else []
    for index in track(indices, "explaining", len(indices), verbose):
        yield index, graphs.batch(index).to(device)


def put_edges(into: list[np.ndarray], graphs: GraphSet, index: np.ndarray, matrices: Tensor) -> None:
    """Read the edges of graphs off their matrices (b, n, n)."""
    for i, found in zip(index, matrices.cpu().numpy(), strict=True):
        source, target = graphs.edges(i).T
        into[i] = found[source, target]
