"""Graphs like functional connectivity: signed weights, node features = connectivity rows."""

from __future__ import annotations

import numpy as np

from cignn import GraphSet

NODES = 116
DENSITY = 0.1
SAMPLES = 100  # time points behind each correlation


def make_brains(
    n_graphs: int, random_state: int = 0, density: float = DENSITY, aligned: bool = True
) -> GraphSet:
    """Correlations of random series, the strongest share of them by absolute value kept.

    Not ``aligned``, node i is nobody in particular, and CI-GNN trains on them as on motifs or molecules.
    """
    rng = np.random.default_rng(random_state)
    above = np.triu_indices(NODES, 1)
    keep = round(density * len(above[0]))
    graphs = np.zeros((n_graphs, NODES, NODES), np.float32)
    for graph in graphs:
        weights = np.corrcoef(rng.normal(size=(NODES, SAMPLES)))[above]
        if keep < len(weights):
            weights[np.argsort(-np.abs(weights))[keep:]] = 0
        graph[above] = weights
        graph += graph.T
    y = np.arange(n_graphs) % 2
    return GraphSet.from_arrays(graphs, None if aligned else graphs, y, aligned=aligned)
