"""`SIBClassifier`: the subgraph information bottleneck behind fit, predict_proba and explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from cignn._checks import WIDEST
from cignn._random import RandomState
from cignn.estimators.explaining import ExplainingClassifier
from cignn.estimators.settings import ClassWeight, gnn_settings, whole, within
from cignn.estimators.training import Stage
from cignn.graphs import GraphSet
from cignn.nn.sib import SIB


class SIBClassifier(ExplainingClassifier):
    """Classify graphs by a subgraph of nodes that carries little other information, by SIB.

    The subgraph information bottleneck. An edge's weight in an explanation is pᵢpⱼ, the probability that both
    its nodes are in the subgraph.

    Parameters
    ----------
    layer : {"gcn", "gat", "gin"}, default="gin"
        Kind of GNN layer.
    hidden : sequence of int, default=(128, 128, 128)
        Widths of the layers; for "gat", multiples of 4.
    head_hidden : sequence of int, default=(64, 32)
        Widths of the layers behind the subgraph's embedding.
    dropout : float, default=0.5
        Dropout in the layers behind the subgraph's embedding.
    density : float, "auto" or None, default="auto"
        Share of the strongest edges that the network reads. None reads all edges. "auto" is 0.1 for aligned
        graphs, because in a complete graph all nodes would get nearly the same embedding, and all for others.
    information_weight : float, default=0.1
        Weight β of I(G; G_sub).
    connectivity_weight : float, default=0.1
        Weight of the loss that keeps the subgraph connected.
    inner_steps : int, default=10
        Steps of the discriminator, which estimates I(G; G_sub), before each step of the network.
    inner_learning_rate : float, default=0.001
        Learning rate of the discriminator's Adam.
    discriminator_hidden : int, default=64
        Width of the discriminator.
    epochs : int or "auto", default="auto"
        Number of training epochs; "auto" makes about 3000 gradient steps, in 60 to 200 epochs.
    learning_rate : float, default=0.001
        Learning rate of Adam.
    weight_decay : float, default=0.0005
        Weight decay of Adam.
    ema_decay : float, default=0.99
        Decay per step of the exponential moving average of the network's weights. The average is validated
        and kept; 0 turns averaging off.
    batch_size : int, default=32
        Number of graphs in a gradient step.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in the loss, by label.
    validation_fraction : float, default=0.1
        Share of the training graphs set aside in ``fit``. The epoch that is best on them is kept.
    checkpoint : str, Path or None, default=None
        File written after every epoch. An interrupted ``fit`` resumes from it.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to train; "auto" uses CUDA if it is available.
    verbose : int, default=0
        Whether to show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Source of all randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    settings_ : dict
        Every parameter as it was used, "auto" resolved.
    network_ : cignn.nn.SIB
        The trained network.
    history_ : DataFrame
        One row per epoch with every named loss and the validation scores.
    best_epoch_ : int
        The epoch kept, chosen on validation graphs.

    References
    ----------
    J. Yu et al., "Graph information bottleneck for subgraph recognition", ICLR 2021.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import SIBClassifier
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> clf = SIBClassifier(epochs=1, inner_steps=1, random_state=0).fit(graphs)
    >>> len(clf.explain(graphs).edge_weights)
    40
    """

    def __init__(
        self,
        *,
        layer: str = "gin",
        hidden: Sequence[int] = (128, 128, 128),
        head_hidden: Sequence[int] = (64, 32),
        dropout: float = 0.5,
        density: float | str | None = "auto",
        information_weight: float = 0.1,
        connectivity_weight: float = 0.1,
        inner_steps: int = 10,
        inner_learning_rate: float = 1e-3,
        discriminator_hidden: int = 64,
        epochs: int | str = "auto",
        learning_rate: float = 1e-3,
        weight_decay: float = 5e-4,
        ema_decay: float = 0.99,
        batch_size: int = 32,
        class_weight: ClassWeight = None,
        validation_fraction: float = 0.1,
        checkpoint: str | Path | None = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.layer = layer
        self.hidden = hidden
        self.head_hidden = head_hidden
        self.dropout = dropout
        self.density = density
        self.information_weight = information_weight
        self.connectivity_weight = connectivity_weight
        self.inner_steps = inner_steps
        self.inner_learning_rate = inner_learning_rate
        self.discriminator_hidden = discriminator_hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.ema_decay = ema_decay
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        settings = gnn_settings(self.get_params(deep=False), graphs)
        for name in ("information_weight", "connectivity_weight"):
            within(settings, name, 0, math.inf, include_low=True)
        within(settings, "inner_learning_rate", 0, math.inf)
        whole(settings, "inner_steps", 1)
        whole(settings, "discriminator_hidden", 1, WIDEST)
        return settings

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> SIB:
        return SIB(
            n_features,
            n_classes,
            settings["layer"],
            settings["hidden"],
            settings["head_hidden"],
            settings["dropout"],
            settings["density"],
            settings["discriminator_hidden"],
        )

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        assert isinstance(network, SIB)
        return [
            Stage(
                "classification",
                settings["epochs"],
                network.outer_parameters(),
                lambda batch, noise: network.losses(
                    batch, settings["inner_steps"], settings["inner_learning_rate"], noise
                ),
                {
                    "classification": 1.0,
                    "information": settings["information_weight"],
                    "connectivity": settings["connectivity_weight"],
                },
                choose_from=0,
            )
        ]
