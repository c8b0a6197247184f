"""One training step of SIB and of DIR against one of our own GIN with the same widths."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.brains import DENSITY, NODES, make_brains
from benchmarks.timing import Quartiles, Row, Work, in_turn
from cignn import GraphSet
from cignn.datasets import make_ba2motifs
from cignn.estimators import NeuralGraphClassifier, make_estimator
from cignn.estimators.training import keep_memory, train_mode
from cignn.estimators.training_loop import TrainingLoop

BATCH = 32
TARGET = 4.0


def step_of(name: str, graphs: GraphSet, device: torch.device) -> Work:
    """A whole step as ``fit`` takes it: losses, inner loops, gradients, Adam, running average."""
    classifier = make_estimator(name, device=str(device), random_state=0)
    assert isinstance(classifier, NeuralGraphClassifier)
    return one_step(classifier, graphs)


def one_step(classifier: NeuralGraphClassifier, graphs: GraphSet) -> Work:
    """A step of the last stage in which every network of the stack reads all graphs as one batch."""
    trainings = classifier._plan(graphs, graphs.y, graphs).trainings
    loop = TrainingLoop(trainings, None)
    loop.begin(len(trainings[0].stages) - 1)
    train_mode(loop.network, loop.stage)
    everyone = [np.arange(len(graphs))] * len(trainings)
    (batch,) = loop.batches([one.training for one in trainings], [everyone])
    active = torch.ones(len(trainings), device=loop.device)
    for numbers in loop.numbers.values():
        numbers.fill_(0.2)
    keep_memory()
    return lambda: loop.take(batch, active)


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Compare the steps on motif graphs and on brains."""
    sets = {
        f"{BATCH} BA-2Motifs": make_ba2motifs(BATCH, random_state=0),
        f"{BATCH} graphs, {NODES} nodes, {DENSITY:.0%} density": make_brains(BATCH),
    }
    rows = []
    for title, graphs in sets.items():
        for name in ("sib", "dir"):
            ours, gin = in_turn(
                step_of(name, graphs, device), step_of("gin", graphs, device), device, 10 if quick else 60
            )
            ratio = Quartiles.of(ours / gin)
            rows.append(
                Row(
                    f"training step, {title}, {name.upper()} / GIN",
                    {name.upper(): Quartiles.of(ours), "GIN": Quartiles.of(gin)},
                    ratio,
                    f"<= {TARGET}",
                    ratio.median <= TARGET,
                )
            )
    return rows
