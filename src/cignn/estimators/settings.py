"""What estimators do with their parameters: checks, what "auto" stands for, what graphs of a class count."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from cignn import _checks
from cignn.graphs import GraphSet
from cignn.nn.layers import LAYERS, READOUTS

ClassWeight = Mapping[Any, float] | str | None

STEPS = 3000  # gradient steps that epochs="auto" makes room for, within the bounds below
MIN_EPOCHS, MAX_EPOCHS = 60, 200
EPOCH_STEPS = 70  # gradient steps in an epoch that batch_size="auto" aims at, within the bounds below
MIN_BATCH, MAX_BATCH = 32, 64
AUTO_DENSITY = 0.1  # of aligned graphs, which are often complete

# parameters that say how fit runs, not what is fitted
RUNNING = ("class_weight", "validation_fraction", "checkpoint", "device", "verbose", "random_state")


def choice(settings: dict[str, Any], name: str, options: Collection[Any]) -> None:
    """Refuse a value that is not one of ``options``; numpy's become Python's."""
    settings[name] = _checks.choice(name, settings[name], options)


def whole(settings: dict[str, Any], name: str, low: int, high: int = _checks.LARGEST) -> None:
    """Refuse a value that is not a whole number from ``low`` to ``high``; numpy's become Python's."""
    settings[name] = _checks.whole(name, settings[name], low, high)


def within(
    settings: dict[str, Any],
    name: str,
    low: float,
    high: float,
    include_low: bool = False,
    include_high: bool = False,
    optional: bool = False,
) -> None:
    """Refuse a number outside the interval; None passes where ``optional``. numpy's become Python's."""
    if settings[name] is not None or not optional:
        settings[name] = _checks.number(name, settings[name], low, high, include_low, include_high)


def widths(settings: dict[str, Any], name: str) -> tuple[int, ...]:
    """Return a sequence of layer widths as a tuple of positive whole numbers."""
    return _checks.widths(name, settings[name])


def training_settings(params: dict[str, Any], graphs: GraphSet) -> dict[str, Any]:
    """Return an estimator's parameters without those of `RUNNING`, those of the training checked.

    These are batch_size, epochs ("auto" resolved for ``graphs``), learning_rate, weight_decay and ema_decay.
    """
    settings = {name: value for name, value in params.items() if name not in RUNNING}
    whole(settings, "batch_size", 1)
    if is_auto(settings["epochs"]):
        settings["epochs"] = auto_epochs(len(graphs), settings["batch_size"])
    whole(settings, "epochs", 1)
    within(settings, "ema_decay", 0, 1, include_low=True)
    within(settings, "learning_rate", 0, math.inf)
    within(settings, "weight_decay", 0, math.inf, include_low=True)
    return settings


def gnn_settings(params: dict[str, Any], graphs: GraphSet) -> dict[str, Any]:
    """Return `training_settings` with those of a GNN and its head checked too, "auto" resolved."""
    settings = training_settings(params, graphs)
    choices: dict[str, Collection[Any]] = {"layer": LAYERS, "readout": READOUTS}
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
    """What stands behind those parameters that are "auto"; for `GraphClassifier.resolved_defaults`."""
    known = {
        "epochs": {"steps": STEPS, "least": MIN_EPOCHS, "most": MAX_EPOCHS},
        "batch_size": {"steps": EPOCH_STEPS, "least": MIN_BATCH, "most": MAX_BATCH},
        "density": AUTO_DENSITY,
        "encoder_density": AUTO_DENSITY,
    }
    return {name: rule for name, rule in known.items() if is_auto(params.get(name))}


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


def auto_batch_size(n_graphs: int) -> int:
    """Graphs in a step: about `EPOCH_STEPS` steps in an epoch, within bounds."""
    return min(max(MIN_BATCH, n_graphs // EPOCH_STEPS), MAX_BATCH)


def class_weights(class_weight: ClassWeight, classes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(classes,) what a training graph of each class counts."""
    if class_weight is None:
        return np.ones(len(classes), np.float32)
    given = class_weight if isinstance(class_weight, dict) else {}
    if class_weight is not given and not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise ValueError(
            f'class_weight must be None, "balanced" or a dict, got {_checks.shown(class_weight)}.'
        )
    numbers = all(isinstance(weight, Real) for weight in given.values())
    weight = compute_class_weight(class_weight, classes=classes, y=classes[codes]) if numbers else np.zeros(1)
    if not (weight > 0).all():
        raise ValueError(f"class_weight must give every class a positive weight, got {class_weight!r}.")
    return weight.astype(np.float32)


def score_weights(class_weight: ClassWeight, weight: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(classes,) what a validation graph of each class counts: "balanced" is so on these very graphs."""
    if not isinstance(class_weight, str):
        return weight
    counts = np.bincount(codes, minlength=len(weight))
    return np.divide(len(codes), counts, out=np.zeros(len(weight)), where=counts > 0)
