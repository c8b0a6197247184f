"""`DIRClassifier`: invariant rationales behind fit, predict_proba and explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from cignn._random import RandomState
from cignn.estimators.explaining import ExplainingClassifier
from cignn.estimators.settings import ClassWeight, gnn_settings, layer_widths, within
from cignn.estimators.training import Stage
from cignn.graphs import GraphSet
from cignn.nn.dir import DIR


class DIRClassifier(ExplainingClassifier):
    """Classify graphs by a subgraph whose prediction does not depend on the rest of the graph, by DIR.

    Discovering invariant rationales. An edge's weight in an explanation is the sigmoid of its score; the
    share `ratio` of edges with the highest scores is the rationale.

    Parameters
    ----------
    layer : {"gcn", "gat", "gin"}, default="gin"
        Kind of GNN layer.
    hidden : sequence of int, default=(128, 128, 128)
        Widths of the layers; for "gat", multiples of 4.
    scorer_hidden : sequence of int, default=(64, 64)
        Widths of the layers behind the edge scores.
    head_hidden : sequence of int, default=(64, 32)
        Widths of the layers behind the readout.
    readout : {"sum", "mean", "max"}, default="sum"
        How the nodes become a graph.
    dropout : float, default=0.5
        Dropout in the layers behind the readout.
    density : float, "auto" or None, default="auto"
        Share of the strongest edges that the network reads. None reads all edges. "auto" is 0.1 for aligned
        graphs, because in a complete graph all nodes would get nearly the same embedding, and all for others.
    ratio : float, default=0.25
        Share of a graph's edges in its rationale.
    variance_weight : float, default=1.0
        Weight λ of the variance of the risk over interventions.
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
    network_ : cignn.nn.DIR
        The trained network.
    history_ : DataFrame
        One row per epoch with every named loss and the validation scores.
    best_epoch_ : int
        The epoch kept, chosen on validation graphs.

    References
    ----------
    Y.-X. Wu et al., "Discovering invariant rationales for graph neural networks", ICLR 2022.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import DIRClassifier
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> clf = DIRClassifier(epochs=1, random_state=0).fit(graphs)
    >>> len(clf.explain(graphs).edge_weights)
    40
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
        class_weight: ClassWeight = None,
        validation_fraction: float = 0.1,
        checkpoint: str | Path | None = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: RandomState = None,
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

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> DIR:
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
                network.losses,
                {
                    "classification": 1.0,
                    "interventions": 1.0,
                    "variance": settings["variance_weight"],
                    "complement": 1.0,
                },
                choose_from=0,
            )
        ]
