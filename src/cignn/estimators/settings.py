"""Settings of the neural estimators: the presets of CI-GNN, what "auto" stands for, and checks."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from cignn import _checks
from cignn.graphs import GraphSet
from cignn.nn.layers import LAYERS, READOUTS

PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "encoder": "gin",
        "encoder_hidden": (64, 64),
        "encoder_activation": "relu",
        "encoder_density": "auto",
        "n_causal": 56,
        "n_noncausal": 8,
        "classifier": "gin",
        "classifier_hidden": (64, 64, 64),
        "head_hidden": (64, 32),
        "readout": "sum",
        "dropout": 0.5,
        "mask": "stochastic",
        "keep": 0.1,
        "keep_anneal": 0.6,
        "sparsity_weight": 0.3,
        "rest_weight": 1.0,
        "temperature": 1.0,
        "separate_products": True,
        "train_encoder": True,
        "epochs": "auto",
        "generative_epochs": 0,
        "reconstruction": 0.1,
        "causal_weight": 1e-3,
        "renyi_order": 1.01,
        "causal_effect": "cmi",
        "independence": True,
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "ema_decay": 0.99,
        "batch_size": 32,
        "node_vectors": False,
        "choose_by": "accuracy",
        "mask_lr_factor": 1.0,
        "patience": None,
        "pricing": "explained",
        "initial_noise": 1.0,
        "n_estimators": 1,
    },
    # Section "Implementation details" and table "Architecture of CI-GNN"
    "paper": {
        "encoder": "gcn",
        "encoder_hidden": (128,),
        "encoder_activation": "sigmoid",
        "encoder_density": None,
        "n_causal": 56,
        "n_noncausal": 8,
        "classifier": "gin",
        "classifier_hidden": (128, 128, 128),
        "head_hidden": (64, 32),
        "readout": "sum",
        "dropout": 0.5,
        "mask": "soft",
        "keep": 0.5,
        "keep_anneal": 0.6,
        "sparsity_weight": 1.0,
        "rest_weight": 0.0,
        "temperature": 1.0,
        "separate_products": False,
        "train_encoder": False,
        "epochs": 450,
        "generative_epochs": 150,
        "reconstruction": 0.0,
        "causal_weight": 1e-3,
        "renyi_order": 1.01,
        "causal_effect": "cmi",
        "independence": True,
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "ema_decay": 0.0,
        "batch_size": 32,
        "node_vectors": False,
        "choose_by": "accuracy",
        "mask_lr_factor": 1.0,
        "patience": None,
        "pricing": "explained",
        "initial_noise": 1.0,
        "n_estimators": 1,
    },
}

# what the default preset does differently where node i is the same in every graph, as brain regions are,
# unless a GNN and its readout over nodes are asked for
ALIGNED: dict[str, Any] = {
    "encoder_hidden": (32,),
    "n_causal": 128,
    "initial_noise": 0.02,
    "node_vectors": True,
    "readout": "edges",
    "head_hidden": (64,),
    "dropout": 0.8,
    "keep": 0.2,
    "keep_anneal": 0.0,
    "sparsity_weight": 1.0,
    "pricing": "fixed",
    "rest_weight": 0.0,
    "epochs": 60,
    "learning_rate": 3e-4,
    "mask_lr_factor": 30.0,
    "choose_by": "loss",
    "patience": 8,
    "n_estimators": 5,
}


def resolve(params: dict[str, Any], aligned: bool) -> dict[str, Any]:
    """Return the value of every setting: the caller's, or the preset's where the caller left "preset"."""
    choice(params, "preset", PRESETS)
    preset = PRESETS[params["preset"]]
    if aligned and params["preset"] == "default" and params["readout"] in ("preset", "edges"):
        preset = preset | ALIGNED

    def value(name: str) -> Any:
        given = params[name]
        return preset[name] if isinstance(given, str) and given == "preset" else given

    return {"preset": params["preset"]} | {name: value(name) for name in preset}


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


STEPS = 3000  # gradient steps that epochs="auto" makes room for, within the bounds below
MIN_EPOCHS, MAX_EPOCHS = 60, 200
AUTO_DENSITY = 0.1  # of aligned graphs, which are often complete

# parameters that say how fit runs, not what is fitted
RUNNING = ("class_weight", "validation_fraction", "checkpoint", "device", "verbose", "random_state")


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
    """What stands behind those parameters that are "auto"; for `GraphClassifier.resolved_defaults`."""

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
