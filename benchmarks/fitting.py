"""A whole ``fit`` on a made-up cohort the size of ABIDE: CI-GNN's ensemble beside one plain GIN."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.timing import Quartiles, Row, seconds
from cignn import GraphSet
from cignn.estimators import make_estimator

SUBJECTS, NODES, SAMPLES = 1102, 116, 150
CHANGED, EFFECT = 40, 0.15  # connections moved in one class, and by how much Fisher z
MOST_SECONDS = 600.0


def make_matrices(n_subjects: int, random_state: int = 0) -> GraphSet:
    """Complete connectivity of series that share a few sources; patients differ in a few connections."""
    rng = np.random.default_rng(random_state)
    sources = rng.normal(size=(10, NODES))
    row, column = np.triu_indices(NODES, 1)
    changed = rng.choice(len(row), CHANGED, replace=False)
    y = np.arange(n_subjects) % 2
    graphs = np.zeros((n_subjects, NODES, NODES), np.float32)
    for graph, patient in zip(graphs, y, strict=True):
        series = rng.normal(size=(SAMPLES, 10)) @ sources / 2 + rng.normal(size=(SAMPLES, NODES))
        z = np.arctanh(np.corrcoef(series.T)[row, column])
        z[changed] += EFFECT * patient
        graph[row, column] = np.tanh(z)
        graph += graph.T
    return GraphSet.from_arrays(graphs, y=y, aligned=True)


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Fit each method once by its default settings; ``quick`` takes few subjects, epochs and members."""
    graphs = make_matrices(200 if quick else SUBJECTS)
    few: dict[str, Any] = {"epochs": 2} if quick else {}
    methods = {"ci-gnn": few | ({"n_estimators": 2} if quick else {}), "gin": few}
    times = {}
    for name, params in methods.items():
        model = make_estimator(name, device=str(device), random_state=0, **params)
        times[name] = seconds(lambda model=model: model.fit(graphs), device)  # type: ignore[misc]
    ours, gin = (Quartiles.of(np.array([times[name]])) for name in methods)
    what = f"fit on {len(graphs)} complete graphs of {NODES} nodes"
    return [
        Row(
            f"{what}, CI-GNN / our GIN, one run",
            {"CI-GNN": ours, "GIN": gin},
            Quartiles.of(np.array([times["ci-gnn"] / times["gin"]])),
        ),
        Row(
            f"{what}, CI-GNN",
            {},
            ours,
            f"<= {MOST_SECONDS:g}",
            ours.median <= MOST_SECONDS,
            kind="seconds",
        ),
    ]
