"""`DIRClassifier`: invariant rationales behind fit, predict_proba and explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from cignn.estimators.base import ExplainingClassifier
from cignn.estimators.settings import gnn_settings, layer_widths, within
from cignn.estimators.training import Stage
from cignn.graphs import GraphSet
from cignn.nn.dir import DIR


class DIRClassifier(ExplainingClassifier):
    """Classify graphs by a rationale whose prediction holds whatever the rest is replaced by.

    An edge's weight in an explanation is σ(its score); the rationale is the ``ratio`` heaviest.

    Parameters
    ----------
    layer : layers "gcn", "gat" or "gin"; hidden : their widths (for "gat", multiples of 4)
    scorer_hidden : widths of the layers behind the edge scores
    head_hidden : widths of the head behind the readout; dropout : in the head
    readout : "sum", "mean" or "max" over nodes
    density : share of strongest edges the network looks at, None for all, "auto" for a tenth of aligned
        graphs and all of others
    ratio : share of a graph's edges in its rationale
    variance_weight : λ of the variance of the risk over interventions
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
    network_ : the trained `cignn.nn.DIR`
    history_ : one row per epoch with every named loss and the validation scores
    best_epoch_ : the epoch kept, chosen on validation graphs
    """

    def __init__(
        self,
        *,
        layer: str = "gin",
        hidden: Sequence[int] = (128, 128, 128),
        scorer_hidden: Sequence[int] = (64, 64),
        head_hidden: Sequence[int] = (64, 32),
        readout: str = "sum",
        dropout: float = 0.5,
        density: float | str | None = "auto",
        ratio: float = 0.25,
        variance_weight: float = 1.0,
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
        self.scorer_hidden = scorer_hidden
        self.head_hidden = head_hidden
        self.readout = readout
        self.dropout = dropout
        self.density = density
        self.ratio = ratio
        self.variance_weight = variance_weight
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
        settings["scorer_hidden"] = layer_widths(settings, "scorer_hidden")
        within(settings, "ratio", 0, 1)
        within(settings, "variance_weight", 0, math.inf, include_low=True)
        return settings

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> nn.Module:
        return DIR(
            n_features,
            n_classes,
            settings["layer"],
            settings["hidden"],
            settings["head_hidden"],
            settings["readout"],
            settings["dropout"],
            settings["density"],
            settings["scorer_hidden"],
            settings["ratio"],
        )

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        assert isinstance(network, DIR)
        return [
            Stage(
                "classification",
                settings["epochs"],
                list(network.parameters()),
                lambda batch, epoch: network.losses(batch),
                {
                    "classification": 1.0,
                    "interventions": 1.0,
                    "variance": settings["variance_weight"],
                    "complement": 1.0,
                },
                choose_from=0,
            )
        ]
