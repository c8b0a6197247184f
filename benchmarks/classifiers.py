"""One training step of SIB and of DIR against one of our own GIN with the same widths."""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmarks.brains import DENSITY, NODES, make_brains
from benchmarks.timing import Quartiles, Row, Work, in_turn
from cignn import GraphSet
from cignn.datasets import make_ba2motifs
from cignn.estimators import NeuralGraphClassifier, make_estimator
from cignn.estimators.training import RunningAverage, gradient_step, make_optimiser

BATCH = 32
TARGET = 4.0


def step_of(name: str, graphs: GraphSet, device: torch.device) -> Work:
    """A whole step as ``fit`` takes it: losses, inner loops, gradients, Adam, running average."""
    classifier = make_estimator(name)
    assert isinstance(classifier, NeuralGraphClassifier)
    settings = classifier._settings(graphs)
    network = classifier._build(settings, graphs.n_features, 2).to(device).train()
    stage = classifier._stages(settings, network)[-1]
    optimiser = make_optimiser(stage, settings["learning_rate"], settings["weight_decay"])
    average = RunningAverage(network)
    batch = graphs.batch(y=graphs.y).to(device)

    def step() -> None:
        gradient_step(stage, 0, replace(batch), optimiser)
        average.follow(settings["ema_decay"])

    return step


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
