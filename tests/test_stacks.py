"""What must hold for networks that are trained together: each is what it would be alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cignn import GraphSet
from cignn.estimators import NeuralGraphClassifier, make_estimator
from cignn.estimators.feeds import Data, Feed, even
from cignn.estimators.stacks import Fit, fit_together
from cignn.estimators.training import Training, TrainingLoop, train
from cignn.nn import Noise
from conftest import Stop
from examples import TINY, random_matrix

pytestmark = pytest.mark.medium

STEPS = 20
CI_GNN = TINY | {
    "n_estimators": 1,
    "epochs": STEPS,
    "causal_weight": 0.5,
    "mask": "stochastic",
    "generative_epochs": 0,
}
GNN = {"hidden": (8, 8), "head_hidden": (8,), "epochs": STEPS}
PAPER = CI_GNN | {"preset": "paper", "generative_epochs": 8}
METHODS: dict[str, dict[str, Any]] = {
    "ci-gnn": CI_GNN,
    "paper": PAPER,
    "sib": GNN | {"inner_steps": 2},
    "dir": GNN | {"scorer_hidden": (8,)},
    "gcn": GNN,
    "gat": GNN,
    "gin": GNN,
}
KINDS = ["aligned", "one size", "several sizes"]


def make(method: str, **more: Any) -> NeuralGraphClassifier:
    """A small network of a kind."""
    name = "ci-gnn" if method == "paper" else method
    params = METHODS[method] | {"device": "cpu", "random_state": 0} | more
    made = make_estimator(name, **params)
    assert isinstance(made, NeuralGraphClassifier)
    return made


def draw(kind: str, g: int, seed: int) -> GraphSet:
    """Graphs with random features, whose class moves the first."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 10, g) if kind == "several sizes" else np.full(g, 6)
    y = np.arange(g) % 2
    matrices = [random_matrix(rng, n, 0.7) for n in sizes]
    x = [rng.normal(size=(n, 3)) + label * np.eye(3)[0] for n, label in zip(sizes, y, strict=True)]
    if kind == "aligned":
        return GraphSet.from_arrays(np.stack(matrices), np.stack(x), y, node_names=list("abcdef"))
    return GraphSet.from_arrays(matrices, x, y)


def plan(model: NeuralGraphClassifier, graphs: GraphSet, held_out: int = 8) -> Training:
    """The training of one network, in float64: rounding must not grow to steps of Adam."""
    (training,) = model._plan(graphs[held_out:], None, graphs[:held_out]).trainings
    training.network.double()
    return training


def trained(trainings: Sequence[Training]) -> list[Training]:
    """The same trainings, done together."""
    train(trainings)
    return list(trainings)


def losses(training: Training) -> np.ndarray:
    """Every number of the history but the time."""
    rows = [{k: v for k, v in row.items() if k not in ("seconds", "stage")} for row in training.state.history]
    return np.array([[row[name] for name in sorted(row)] for row in rows], dtype=float)


def assert_same(one: Training, other: Training, rtol: float = 1e-7) -> None:
    """Same history, same epoch, same weights."""
    assert one.error is None and other.error is None
    mine, theirs = one.state.history, other.state.history
    assert [row["stage"] for row in mine] == [row["stage"] for row in theirs]
    for a, b in zip(mine, theirs, strict=True):
        assert a.keys() == b.keys()
        numbers = [name for name in a if name not in ("seconds", "stage")]
        np.testing.assert_allclose(
            [a[name] for name in numbers], [b[name] for name in numbers], rtol=rtol, atol=1e-9
        )
    assert one.state.best_epoch == other.state.best_epoch and one.state.steps == other.state.steps
    for name, value in one.network.state_dict().items():
        torch.testing.assert_close(value, other.network.state_dict()[name], rtol=1e-6, atol=1e-8)


CASES = [(method, kind) for method in METHODS for kind in KINDS if method in ("ci-gnn",) or kind == KINDS[-1]]


def several(method: str, kind: str, **more: Any) -> list[Callable[[], Training]]:
    """Makers of trainings that differ in graphs, number of graphs and of batches, and seed."""
    sizes = ((24, 0), (40, 1), (33, 2))  # of which eight validate
    return [
        lambda g=g, seed=seed: plan(
            make(method, random_state=seed, batch_size=16, **more), draw(kind, g, seed), 8
        )
        for g, seed in sizes
    ]


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_networks_of_a_stack_are_those_trained_alone(method: str, kind: str) -> None:
    """The first network has one batch in an epoch: its history is that of twenty steps."""
    makers = several(method, kind)
    together = trained([maker() for maker in makers])
    assert together[0].state.steps == STEPS and len({one.state.steps for one in together}) > 1
    for maker, one in zip(makers, together, strict=True):
        (alone,) = trained([maker()])
        assert_same(one, alone)
        batch = one.validation.graphs.batch()
        batch = dataclasses.replace(batch, x=batch.x.double(), adj=batch.adj.double())
        with torch.no_grad():
            mine, theirs = (training.network(batch).logits for training in (one, alone))
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)
