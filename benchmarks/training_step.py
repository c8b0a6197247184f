"""One training step of CI-GNN against one of PyTorch Geometric's GIN of the same width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as F
from torch_geometric.data import Batch

from benchmarks.brains import DENSITY, NODES, make_brains
from benchmarks.peers import PygGIN
from benchmarks.timing import Quartiles, Row, Work, in_turn
from cignn import CIGNNClassifier, GraphSet
from cignn.estimators import PRESETS
from cignn.estimators.training import RunningAverage, gradient_step, make_optimiser

BATCH = 32
TARGET = 1.0
SIZES = ("encoder_hidden", "classifier_hidden")


def ci_gnn_step(graphs: GraphSet, device: torch.device, **params: Any) -> Work:
    """A whole step of stage II as `CIGNNClassifier` trains it: losses, gradients, Adam, running average."""
    classifier = CIGNNClassifier(**params)
    settings = classifier._settings(graphs)
    network = classifier._build(settings, graphs.n_features, 2).to(device).train()
    stage = classifier._stages(settings, network)[-1]
    stage.begin()
    optimiser = make_optimiser(stage, settings["learning_rate"], settings["weight_decay"])
    average = RunningAverage(network)
    batch = graphs.batch(y=graphs.y).to(device)

    def step() -> None:
        # a new batch object: nothing it remembers about its graphs is carried from step to step
        gradient_step(stage, stage.epochs - 1, replace(batch), optimiser)
        average.follow(settings["averaging"])

    return step


def gin_step(graphs: GraphSet, device: torch.device, width: int, **params: Any) -> Work:
    """A step of the peer, with the same head, the same graphs and the same fused Adam."""
    settings = CIGNNClassifier(**params)._settings(graphs)
    model = PygGIN(graphs.n_features, 2, width, settings["head_hidden"], settings["dropout"]).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"], fused=True)
    batch = Batch.from_data_list(graphs.to_pyg()).to(device)

    def step() -> None:
        logits = model(batch.x, batch.edge_index, batch.batch, len(graphs))
        loss = F.cross_entropy(logits, batch.y)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Compare the steps at the widths of the default preset and at those of the paper."""
    graphs = make_brains(BATCH)
    rows = []
    for name in ("default", "paper"):
        sizes = {key: PRESETS[name][key] for key in SIZES}
        width = sizes["classifier_hidden"][0]
        ours, theirs = in_turn(
            ci_gnn_step(graphs, device, **sizes), gin_step(graphs, device, width), device, 10 if quick else 60
        )
        ratio = Quartiles.of(ours / theirs)
        encoder, classifier = ("·".join(map(str, sizes[key])) for key in SIZES)
        rows.append(
            Row(
                f"training step, {BATCH} graphs, {NODES} nodes, {DENSITY:.0%} density, "
                f"encoder {encoder}, classifier {classifier} / PyG GIN {width}",
                {"CI-GNN": Quartiles.of(ours), "PyG GIN": Quartiles.of(theirs)},
                ratio,
                f"<= {TARGET}",
                ratio.median <= TARGET,
            )
        )
    return rows
