"""One training step of CI-GNN against one of PyTorch Geometric's GIN of the same width.

Then the plain step against the same step with special code in it, see ``SPECIAL``. The networks are written
in plain tensors; special code may take their place where it earns a tenth of a step. Plain / special, one
thread, 32 graphs, over several runs of 10 to 80 steps on a busy machine, where the same code twice gave 1.00
to 1.04:

=======================================================  ============  ============
special code                                             brains        BA-2Motifs
=======================================================  ============  ============
gradient of an inner product by one product, not two     1.06 to 1.16  0.99 to 1.03
strongest edges found once per graph, not at every step  1.02 to 1.13  not used
distance of A from its reconstruction, own gradient      1.07 to 1.11
distance of X from its reconstruction, own gradient      0.99 to 1.00
price of edges, own gradient                             0.97 to 1.00
GIN sums neighbours where vectors are shorter            0.99 to 1.01
latents decoded in two pieces, only one with a gradient  0.97
=======================================================  ============  ============

None is kept: the first two are near a tenth on brains and earn nothing on motifs; a
``torch.autograd.Function`` cannot be stacked over networks without rules of its own, and remembered edges
tie a batch to its set. These two can be measured here again. All of them together, with updates in place:
1.32 to 1.40 on brains, 1.14 to 1.18 on other graphs of 116 nodes, 1.00 to 1.04 on BA-2Motifs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Batch

from benchmarks.brains import DENSITY, NODES, make_brains
from benchmarks.peers import PygGIN
from benchmarks.timing import Quartiles, Row, Work, in_turn
from cignn import CIGNNClassifier, GraphSet
from cignn.datasets import make_ba2motifs
from cignn.estimators import PRESETS, make_estimator
from cignn.estimators.training import RunningAverage, gradient_step, keep_memory, make_optimiser
from cignn.nn import autoencoder
from cignn.nn.autoencoder import InnerProduct, strongest_edges

BATCH = 32
TARGET = 1.0


def ci_gnn_step(graphs: GraphSet, device: torch.device, **params: Any) -> Work:
    """A whole step of stage II as `CIGNNClassifier` trains it: losses, gradients, Adam, running average."""
    classifier = make_estimator("ci-gnn", **params)
    assert isinstance(classifier, CIGNNClassifier)
    settings = classifier._settings(graphs)
    network = classifier._build(settings, graphs.n_features, 2).to(device).train()
    stage = classifier._stages(settings, network)[-1]
    stage.begin()
    optimiser = make_optimiser(stage, settings["learning_rate"], settings["weight_decay"])
    average = RunningAverage(network)
    batch = graphs.batch(y=graphs.y).to(device)
    keep_memory()

    def step() -> None:
        # a new batch object, which remembers nothing of the step before
        gradient_step(stage, stage.epochs - 1, replace(batch), optimiser)
        average.follow(settings["ema_decay"])

    return step


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
        rows.append(
            Row(
                f"training step, {BATCH} graphs, {NODES} nodes, {what} / PyG GIN {width}, {DENSITY:.0%}",
                {"CI-GNN": Quartiles.of(ours), "PyG GIN": Quartiles.of(theirs)},
                ratio,
                f"<= {TARGET}",
                ratio.median <= TARGET,
            )
        )
    return rows + plain_against_special(device, quick)


def plain_against_special(device: torch.device, quick: bool) -> list[Row]:
    """Compare the plain step with the same step that has special code in it."""
    sets = {
        f"{BATCH} complete brains, {NODES} nodes": make_brains(BATCH, density=1.0),
        f"{BATCH} BA-2Motifs": make_ba2motifs(BATCH, random_state=0),
    }
    rows = []
    for title, graphs in sets.items():
        for name, replacements in SPECIAL.items():
            plain, special = in_turn(
                ci_gnn_step(graphs, device),
                patched(ci_gnn_step(graphs, device), replacements()),
                device,
                10 if quick else 60,
            )
            times = {"plain": Quartiles.of(plain), "special": Quartiles.of(special)}
            rows.append(Row(f"training step, {title}, plain / {name}", times, Quartiles.of(plain / special)))
    return rows


Replacements = list[tuple[object, str, Callable[..., Any]]]  # where, of what name, by what


def patched(step: Work, replacements: Replacements) -> Work:
    """The step with parts of the package replaced while it runs."""

    def special() -> None:
        with ExitStack() as stack:
            for place, name, part in replacements:
                stack.enter_context(patch.object(place, name, part))
            step()

    return special


class SymmetricProduct(torch.autograd.Function):
    """g · u_iᵀu_j + b. Its gradient takes one product; autograd, blind to the symmetry, makes two."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        """(b, n, d) → (b, n, n)."""
        ctx.save_for_backward(u, gain)
        return torch.baddbmm(bias, u * gain, u.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of u, the gain and the bias."""
        u, gain = ctx.saved_tensors
        both = torch.bmm(grad + grad.transpose(1, 2), u)
        return both * gain, (both * u).sum() / 2, grad.sum()


def symmetric_product() -> Replacements:
    """Inner products whose gradient is written by hand."""

    def forward(self: InnerProduct, z: Tensor) -> Tensor:
        u = z if self.projection is None else self.projection(z)
        if self.projection is not None:
            u = u * torch.rsqrt(u.shape[-1] + u.square().sum(-1, keepdim=True))
        return SymmetricProduct.apply(u, self.gain, self.bias)

    return [(InnerProduct, "forward", forward)]


def remembered_edges() -> Replacements:
    """Strongest edges that are found at the first step alone."""
    found: list[Tensor] = []

    def remembered(adj: Tensor, density: float, mask: Tensor | None = None) -> Tensor:
        if not found:
            found.append(strongest_edges(adj, density, mask))
        return found[0]

    return [(autoencoder, "strongest_edges", remembered)]


SPECIAL: dict[str, Callable[[], Replacements]] = {
    "inner products with one product in the gradient": symmetric_product,
    "strongest edges remembered": remembered_edges,
}


def gnn_sizes(preset: str) -> dict[str, Any]:
    """The widths of a preset's encoder and classifier, and that of the peer."""
    chosen = PRESETS[preset]
    sizes = {"encoder_hidden": chosen.encoder_hidden, "classifier_hidden": chosen.classifier_hidden}
    return sizes | {"width": chosen.classifier_hidden[0]}
