"""`SIBClassifier`: the subgraph information bottleneck behind fit, predict_proba and explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from cignn._checks import WIDEST
from cignn.estimators.base import ExplainingClassifier
from cignn.estimators.settings import gnn_settings, whole, within
from cignn.estimators.training import Stage
from cignn.graphs import GraphSet
from cignn.nn.sib import SIB


class SIBClassifier(ExplainingClassifier):
    """Classify graphs by a subgraph of their nodes that tells little else of the graph.

    An edge's weight in an explanation is pᵢpⱼ, the probability that both its nodes are in the subgraph.

    Parameters
    ----------
    layer : layers "gcn", "gat" or "gin"; hidden : their widths (for "gat", multiples of 4)
    head_hidden : widths of the head behind the subgraph's embedding; dropout : in the head
    density : share of strongest edges the network looks at, None for all, "auto" for a tenth of aligned
        graphs and all of others
    information_weight : β of I(G; G_sub); connectivity_weight : of the loss that keeps the subgraph together
    inner_steps : steps of the discriminator that estimates I(G; G_sub), before each step of the network;
        inner_learning_rate : of its Adam; discriminator_hidden : its width
    epochs : "auto" for about 3000 steps, but at least 60 and at most 200 epochs
    learning_rate, weight_decay, batch_size : of Adam; ema_decay : factor by which the running average of the
        weights, which is what is kept, forgets each step; 0 keeps the weights themselves
    class_weight : None, "balanced" or {label: weight}
    validation_fraction : share of graphs set aside in ``fit`` to choose the epoch
    checkpoint : file from which a killed ``fit`` goes on, written after every epoch
    device : "auto", "cpu" or "cuda"
    verbose : show a progress bar
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    classes_, n_features_in_, node_names_ : what was learnt from
    settings_ : every parameter, "auto" resolved
    network_ : the trained `cignn.nn.SIB`
    history_ : one row per epoch with every named loss and the validation scores
    best_epoch_ : the epoch kept, chosen on validation graphs
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
        class_weight: Any = None,
        validation_fraction: float = 0.1,
        checkpoint: str | Path | None = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
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

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> nn.Module:
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
                lambda batch, epoch: network.losses(
                    batch, settings["inner_steps"], settings["inner_learning_rate"]
                ),
                {
                    "classification": 1.0,
                    "information": settings["information_weight"],
                    "connectivity": settings["connectivity_weight"],
                },
                choose_from=0,
            )
        ]
