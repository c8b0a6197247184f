"""`GNNClassifier`: GCN, GAT and GIN behind fit and predict_proba."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from cignn._random import RandomState
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.settings import ClassWeight, gnn_settings
from cignn.estimators.training import Stage
from cignn.graphs import GraphSet
from cignn.nn.classifiers import GNN


class GNNClassifier(NeuralGraphClassifier):
    """Classify graphs with a plain graph neural network.

    Parameters
    ----------
    layer : {"gcn", "gat", "gin"}, default="gin"
        Kind of GNN layer.
    hidden : sequence of int, default=(128, 128, 128)
        Widths of the layers; for "gat", multiples of 4.
    head_hidden : sequence of int, default=(64, 32)
        Widths of the layers behind the readout.
    readout : {"sum", "mean", "max"}, default="sum"
        How the nodes become a graph.
    dropout : float, default=0.5
        Dropout in the layers behind the readout.
    density : float, "auto" or None, default="auto"
        Share of the strongest edges that the network reads. None reads all edges. "auto" is 0.1 for aligned
        graphs, because in a complete graph all nodes would get nearly the same embedding, and all for others.
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
    network_ : cignn.nn.GNN
        The trained network.
    history_ : DataFrame
        One row per epoch with every named loss and the validation scores.
    best_epoch_ : int
        The epoch kept, chosen on validation graphs.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import GNNClassifier
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> clf = GNNClassifier("gcn", epochs=1, random_state=0).fit(graphs)
    >>> clf.predict_proba(graphs).shape
    (40, 2)
    """

    def __init__(
        self,
        layer: str = "gin",
        *,
        hidden: Sequence[int] = (128, 128, 128),
        head_hidden: Sequence[int] = (64, 32),
        readout: str = "sum",
        dropout: float = 0.5,
        density: float | str | None = "auto",
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
        self.readout = readout
        self.dropout = dropout
        self.density = density
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
        return gnn_settings(self.get_params(deep=False), graphs)

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> GNN:
        return GNN(
            n_features,
            n_classes,
            settings["layer"],
            settings["hidden"],
            settings["head_hidden"],
            settings["readout"],
            settings["dropout"],
            settings["density"],
        )

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        assert isinstance(network, GNN)
        return [
            Stage(
                "classification",
                settings["epochs"],
                list(network.parameters()),
                network.losses,
                {"classification": 1.0},
                choose_from=0,
            )
        ]
