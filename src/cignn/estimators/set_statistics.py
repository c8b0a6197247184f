"""Statistics of training graphs that networks keep: scales of features and edges, shares of classes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from cignn._arrays import subject_halves
from cignn.estimators.excess_variance import excess_variance
from cignn.estimators.feeds import CHUNK_CELLS, Data
from cignn.graphs import GraphSet
from cignn.graphs.edge_statistics import EdgeStatistics, EdgeSums
from cignn.nn.classifiers import EdgeNetwork

FAR_LARGER = 100  # sums over all graphs, compared with sums over a part that are computed from them
LEAST_VARIANCE = 1e-6  # of standardised scores
MOST_POOLED = 2000  # graphs from which pooled directions are started


class SetStatistics:
    """Statistics of a set of graphs, from which those of its parts follow without reading it again."""

    def __init__(self, graphs: GraphSet) -> None:
        self.graphs = graphs

    @cached_property
    def feature_sizes(self) -> np.ndarray:
        """(g, d) largest absolute value of every node feature in each graph."""
        return self.graphs.feature_sizes()

    @cached_property
    def edge_sums(self) -> EdgeSums:
        """Sums over all graphs."""
        return self.graphs.edge_sums()

    def feature_scale(self, rows: np.ndarray) -> np.ndarray:
        """(d,) largest absolute value of each node feature, 1 where it is always 0."""
        scale = self.feature_sizes[rows].max(0).astype(np.float32)
        return np.where(scale > 0, scale, 1).astype(np.float32)

    def edge_statistics(self, rows: np.ndarray) -> EdgeStatistics:
        """Centre and scale of every edge over some of the graphs."""
        rest = np.setdiff1d(np.arange(len(self.graphs)), rows)
        if 2 * len(rest) > len(self.graphs):
            return self.graphs[rows].edge_statistics()
        sums = self.edge_sums
        left = sums.without(self.graphs[rest].edge_sums()) if len(rest) else sums
        if ((sums.squares > FAR_LARGER * left.squares) & (left.having > 0)).any():  # their rounding is in it
            return self.graphs[rows].edge_statistics()
        return left.statistics()


def store_statistics(
    network: nn.Module, facts: SetStatistics, training: Data, weight: np.ndarray | None
) -> None:
    """Write statistics of the training set into the buffers of the network that have their names.

    weight : (classes,) what a graph of each class counts; None where scores are learnt.
    """
    values = {"feature_scale": facts.feature_scale(training.rows), **_of_labels(training.y, weight)}
    buffers = {name.rpartition(".")[2]: buffer for name, buffer in network.named_buffers()}
    if "edge_centre" in buffers:
        statistics = facts.edge_statistics(training.rows)
        values |= zip(("edge_centre", "edge_scale"), statistics, strict=True)
    for name in values.keys() & buffers.keys():
        buffers[name].copy_(torch.as_tensor(values[name]))
    classifier = getattr(network, "classifier", None)
    if isinstance(classifier, EdgeNetwork) and classifier.n_pooled:
        start_pooled(classifier, training)


def _of_labels(y: np.ndarray, weight: np.ndarray | None) -> dict[str, Any]:
    """Shares of classes, and the loss of a network that knows nothing else: an entropy, or a variance."""
    if weight is None:
        return {"label_entropy": np.float64(max(np.var(y), LEAST_VARIANCE))}
    share = weight * np.bincount(y) / (weight * np.bincount(y)).sum()
    entropy = np.float64(-(share * np.log(share)).sum())
    return {"class_weight": weight, "class_share": share, "label_entropy": entropy}


def start_pooled(classifier: EdgeNetwork, training: Data) -> None:
    """Start the pooled directions of a classifier from its training graphs, or from some of very many."""
    some = np.unique(np.linspace(0, len(training) - 1, MOST_POOLED).astype(int))
    rows, codes = training.rows[some], training.y[some]
    step = max(1, CHUNK_CELLS // int(training.sizes[0]) ** 2)
    parts = [training.graphs.batch(rows[i : i + step]) for i in range(0, len(rows), step)]
    evidence = np.concatenate([classifier.evidence(part).numpy() for part in parts])
    subjects = np.asarray(training.graphs.meta.get("subject", np.arange(len(training.graphs))))[rows]
    n_classes, k = classifier.pooled_weight.shape
    found = excess_variance(evidence, codes, n_classes, subject_halves(subjects, codes), k)
    classifier.start_pooled(*map(torch.as_tensor, found))
