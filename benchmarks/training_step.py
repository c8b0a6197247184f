"""One training step of CI-GNN against one of PyTorch Geometric's GIN of the same width.

Then a step of a stack of networks against as many steps of one.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch.nn import functional as F
from torch_geometric.data import Batch

from benchmarks.brains import DENSITY, NODES, make_brains
from benchmarks.classifiers import one_step
from benchmarks.peers import PygGIN
from benchmarks.timing import Quartiles, Row, Work, in_turn
from cignn import CIGNNClassifier, GraphSet
from cignn.datasets import make_ba2motifs
from cignn.estimators import PRESETS, make_estimator

BATCH = 32
TARGET, TARGET_OTHERS = 1.0, 1.5  # of brains, and of graphs that are not aligned


def ci_gnn_step(graphs: GraphSet, device: torch.device, networks: int = 1, **params: Any) -> Work:
    """A whole step of stage II as `CIGNNClassifier` trains it: losses, gradients, Adam, running average.

    Every network of the stack reads all graphs as one batch. On a GPU the step is captured.
    """
    classifier = make_estimator("ci-gnn", n_estimators=networks, device=str(device), random_state=0, **params)
    assert isinstance(classifier, CIGNNClassifier)
    return one_step(classifier, graphs)


def gin_step(graphs: GraphSet, device: torch.device, width: int) -> Work:
    """A step of the peer, with the same head, the same graphs and the same fused Adam."""
    settings = CIGNNClassifier()._settings(graphs)
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
    """Compare the steps on graphs whose nodes are nobody in particular, then on brains, sparse and complete.

    The peer reads the sparse graphs each time: on every connection it needs many times longer.
    """
    sparse = make_brains(BATCH)
    cases = [
        (f"{preset} widths, nodes not aligned", make_brains(BATCH, aligned=False), gnn_sizes(preset))
        for preset in ("motif", "paper")
    ]
    for width in (64, 128):
        for density in (DENSITY, 1.0):
            sizes = {} if width == 64 else {"encoder_hidden": (width,), "head_hidden": (width,)}
            widths = "default widths" if width == 64 else f"encoder and head {width}"
            what = f"{widths}, nodes aligned, {density:.0%} density"
            cases.append((what, make_brains(BATCH, density=density), {"width": width} | sizes))
    rows = []
    for what, graphs, sizes in cases:
        width = sizes.pop("width")
        ours, theirs = in_turn(
            ci_gnn_step(graphs, device, **sizes), gin_step(sparse, device, width), device, 10 if quick else 60
        )
        ratio = Quartiles.of(ours / theirs)
        target = TARGET if graphs.aligned else TARGET_OTHERS
        rows.append(
            Row(
                f"training step, {BATCH} graphs, {NODES} nodes, {what} / PyG GIN {width}, {DENSITY:.0%}",
                {"CI-GNN": Quartiles.of(ours), "PyG GIN": Quartiles.of(theirs)},
                ratio,
                f"<= {target}",
                ratio.median <= target,
            )
        )
    return rows + stacked_against_single(device, quick)


def stacked_against_single(device: torch.device, quick: bool) -> list[Row]:
    """Compare a step of several networks, for each of them, with a step of one and with the peer's."""
    sets = {
        f"{BATCH} complete brains, {NODES} nodes": make_brains(BATCH, density=1.0),
        f"{BATCH} BA-2Motifs": make_ba2motifs(BATCH, random_state=0),
    }
    peer = gin_step(make_brains(BATCH), device, 64)
    sizes = (5, 25, 100) if device.type == "cuda" else (2, 5)
    rows = []
    for title, graphs in sets.items():
        alone = {"alone": ci_gnn_step(graphs, device)}
        others = alone | ({"PyG GIN 64": peer} if "brains" in title else {})
        for networks, (name, other) in product(sizes, others.items()):
            work = ci_gnn_step(graphs, device, networks)
            stack, single = in_turn(work, other, device, 10 if quick else 60)
            times = {"each of them": Quartiles.of(stack / networks), name: Quartiles.of(single)}
            what = f"training step, {title}, a network in a stack of {networks} / {name}"
            rows.append(Row(what, times, Quartiles.of(stack / networks / single)))
    return rows


def gnn_sizes(preset: str) -> dict[str, Any]:
    """The widths of a preset's encoder and classifier, and that of the peer."""
    chosen = PRESETS[preset]
    sizes = {"encoder_hidden": chosen.encoder_hidden, "classifier_hidden": chosen.classifier_hidden}
    return sizes | {"width": chosen.classifier_hidden[0]}
