"""Settings that every neural estimator has, and their checks."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from cignn import _checks
from cignn.estimators.presets import choice, whole, widths, within
from cignn.graphs import GraphSet
from cignn.nn.layers import LAYERS, READOUTS

STEPS = 3000  # gradient steps that epochs="auto" makes room for, within the bounds below
MIN_EPOCHS, MAX_EPOCHS = 60, 200
AUTO_DENSITY = 0.1  # of aligned graphs, which are often complete

# parameters that say how fit runs, not what is fitted
RUNNING = ("class_weight", "validation_fraction", "checkpoint", "device", "verbose", "random_state")


def training_settings(params: dict[str, Any], graphs: GraphSet) -> dict[str, Any]:
    """Return an estimator's parameters without those of `RUNNING`, those of the training checked.

    These are batch_size, epochs ("auto" resolved for ``graphs``), learning_rate, weight_decay and averaging.
    """
    settings = {name: value for name, value in params.items() if name not in RUNNING}
    whole(settings, "batch_size", 1)
    if is_auto(settings["epochs"]):
        settings["epochs"] = auto_epochs(len(graphs), settings["batch_size"])
    whole(settings, "epochs", 1)
    within(settings, "averaging", 0, 1, include_low=True)
    within(settings, "learning_rate", 0, math.inf)
    within(settings, "weight_decay", 0, math.inf, include_low=True)
    return settings


def gnn_settings(params: dict[str, Any], graphs: GraphSet) -> dict[str, Any]:
    """Return `training_settings` with those of a GNN and its head checked too, "auto" resolved."""
    settings = training_settings(params, graphs)
    choices: dict[str, Collection[Any]] = {"kind": LAYERS, "readout": READOUTS}
    for name, options in choices.items():
        if name in settings:
            choice(settings, name, options)
    settings["hidden"] = layer_widths(settings, "hidden")
    settings["head_hidden"] = widths(settings, "head_hidden")
    within(settings, "dropout", 0, 1, include_low=True)
    if is_auto(settings["density"]):
        settings["density"] = AUTO_DENSITY if graphs.aligned else None
    within(settings, "density", 0, 1, include_high=True, optional=True)
    return settings


def rules(params: dict[str, Any]) -> dict[str, Any]:
    """What stands behind those parameters that are "auto"; for `GraphClassifier.stands_for`."""

    rule = {"steps": STEPS, "least": MIN_EPOCHS, "most": MAX_EPOCHS}
    epochs = {"epochs": rule} if is_auto(params.get("epochs")) else {}
    names = ("density", "encoder_density")
    return epochs | {name: AUTO_DENSITY for name in names if is_auto(params.get(name))}


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"; an array, which equals nothing as a whole, is not."""
    return isinstance(value, str) and value == "auto"


def layer_widths(settings: dict[str, Any], name: str) -> tuple[int, ...]:
    """Return the widths of one layer or more."""
    return _checks.widths(name, settings[name], least=1)


def auto_epochs(n_graphs: int, batch_size: int) -> int:
    """Epochs that make about `STEPS` gradient steps, within bounds."""
    steps = -(-n_graphs // batch_size)
    return min(max(MIN_EPOCHS, -(-STEPS // steps)), MAX_EPOCHS)
