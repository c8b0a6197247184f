"""Presets of CI-GNN, and the checks of settings that estimators share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cignn import _checks

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
        "edge_price": 0.3,
        "rest_weight": 1.0,
        "temperature": 1.0,
        "separate_products": True,
        "train_encoder": True,
        "epochs": "auto",
        "generative_epochs": 0,
        "reconstruction": 0.1,
        "causal_weight": 1e-3,
        "order": 1.01,
        "causal_effect": "cmi",
        "independence": True,
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "averaging": 0.99,
        "batch_size": 32,
        "node_vectors": False,
        "choose_by": "accuracy",
        "mask_rate": 1.0,
        "patience": None,
        "pricing": "explained",
        "initial_noise": 1.0,
        "members": 1,
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
        "edge_price": 1.0,
        "rest_weight": 0.0,
        "temperature": 1.0,
        "separate_products": False,
        "train_encoder": False,
        "epochs": 450,
        "generative_epochs": 150,
        "reconstruction": 0.0,
        "causal_weight": 1e-3,
        "order": 1.01,
        "causal_effect": "cmi",
        "independence": True,
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "averaging": 0.0,
        "batch_size": 32,
        "node_vectors": False,
        "choose_by": "accuracy",
        "mask_rate": 1.0,
        "patience": None,
        "pricing": "explained",
        "initial_noise": 1.0,
        "members": 1,
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
    "edge_price": 1.0,
    "pricing": "fixed",
    "rest_weight": 0.0,
    "epochs": 60,
    "learning_rate": 3e-4,
    "mask_rate": 30.0,
    "choose_by": "loss",
    "patience": 8,
    "members": 5,
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
