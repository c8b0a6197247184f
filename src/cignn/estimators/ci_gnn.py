"""`CIGNNClassifier`: CI-GNN behind fit, predict_proba and explain."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from torch import nn

from cignn._checks import WIDEST
from cignn._random import RandomState
from cignn.estimators.ci_gnn_settings import OUTSIDE, SETTINGS, UNSET, as_settings, resolve
from cignn.estimators.ci_gnn_stages import make_stages
from cignn.estimators.explaining import ExplainingClassifier
from cignn.estimators.neural import NeuralGraphEstimator
from cignn.estimators.settings import (
    AUTO_DENSITY,
    ClassWeight,
    auto_batch_size,
    choice,
    is_auto,
    rules,
    whole,
    widths,
    within,
)
from cignn.estimators.training import Stage
from cignn.graphs import GraphSet
from cignn.nn.autoencoder import ACTIVATIONS
from cignn.nn.ci_gnn import CAUSAL_EFFECTS, CIGNN, PRICES
from cignn.nn.layers import LAYERS, READOUTS
from cignn.nn.subgraph_network import MASK_FORMS, MASK_SOURCES, MASKS

# what epochs="auto" is: so many gradient steps, the usual epochs at least, no more graphs read; within bounds
STEPS, READ_GRAPHS, LEAST_EPOCHS, USUAL_EPOCHS, MOST_EPOCHS = 4000, 360_000, 20, 40, 300
INSIDE = "settings__"  # before the names of settings among the parameters
CHOICES: dict[str, Collection[Any]] = {
    "encoder": LAYERS,
    "classifier": LAYERS,
    "encoder_activation": ACTIVATIONS,
    "readout": (*READOUTS, "edges"),
    "mask": MASKS,
    "causal_effect": CAUSAL_EFFECTS,
    "separate_products": (True, False),
    "train_encoder": (True, False),
    "independence": (True, False),
    "node_vectors": (True, False),
    "causal_noise": (True, False),
    "mask_from": MASK_SOURCES,
    "choose_by": ("accuracy", "loss"),
    "mask_by": MASK_FORMS,
    "pricing": PRICES,
    "node_weights": (True, False),
    "constant": (True, False),
}

ARCHITECTURE = (  # the settings the network itself is made of
    "n_causal",
    "n_noncausal",
    "encoder",
    "encoder_hidden",
    "encoder_activation",
    "encoder_density",
    "classifier",
    "classifier_hidden",
    "head_hidden",
    "readout",
    "dropout",
    "n_pooled",
    "separate_products",
    "mask",
    "temperature",
    "causal_effect",
    "independence",
    "renyi_order",
    "n_nodes",
    "node_vectors",
    "initial_noise",
    "causal_noise",
    "mask_from",
    "mask_by",
    "pricing",
    "node_weights",
    "constant",
)


class CIGNNEstimator(NeuralGraphEstimator):
    """Parameters, settings, network and stages of CI-GNN, which its classifier and its regressor share."""

    preset: str
    settings: Mapping[str, Any] | None
    _network: type[CIGNN]  # what is made of the settings

    # -------------------------------------------------------------- parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to list the settings too, as ``settings__dropout``.

        Returns
        -------
        dict of str to object
            Values by name.
        """
        params = super().get_params(deep=False)
        if deep:
            given = self.settings if isinstance(self.settings, Mapping) else {}
            params |= {f"{INSIDE}{name}": given.get(name, UNSET) for name in SETTINGS}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and settings as ``settings__dropout``.

        Parameters
        ----------
        **params : parameters
            New values by name.

        Returns
        -------
        CIGNNEstimator
            This estimator.
        """
        for name in params:
            if name in SETTINGS:
                raise ValueError(f"{name} is one of the settings; name it {INSIDE}{name}.")
        inside = {name.removeprefix(INSIDE): v for name, v in params.items() if name.startswith(INSIDE)}
        super().set_params(**{name: v for name, v in params.items() if not name.startswith(INSIDE)})
        if inside:
            self.settings = as_settings(self.settings).replace(**inside) or None
        return self

    def resolved_defaults(self) -> dict[str, Any]:
        """Return the values that the preset and "auto" stand for.

        Returns
        -------
        dict of str to dict
            Values by preset. Both presets are listed if "auto" will choose between them in ``fit``.
        """
        params = self.get_params(deep=False)
        given = {name for name in ("epochs", "n_estimators") if not is_auto(params[name])}
        given |= {"preset", *as_settings(self.settings)}
        out = {}
        for aligned in (True, False):
            settings = self._resolved(params, aligned)
            left = {name: value for name, value in settings.items() if name not in given}
            out[settings["preset"]] = left | _rules(settings)
        return {name: left for name, left in out.items() if left}

    def _resolved(self, params: Mapping[str, Any], aligned: bool) -> dict[str, Any]:
        """Return every setting with the values of the preset, see `resolve`."""
        return resolve(params, aligned)

    # ---------------------------------------------------------------- fitting

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        pairs = graphs.aligned and bool(graphs.n_nodes[0] > 1)
        settings = self._resolved(self.get_params(deep=False), aligned=pairs)
        settings["n_nodes"] = int(graphs.n_nodes[0]) if graphs.aligned else None
        if is_auto(settings["encoder_density"]):
            settings["encoder_density"] = AUTO_DENSITY if graphs.aligned else None
        for name, options in CHOICES.items():
            choice(settings, name, options)
        if not pairs and (settings["readout"] == "edges" or settings["node_vectors"]):
            name = "node_vectors" if settings["node_vectors"] else 'readout="edges"'
            if not as_settings(self.settings).keys() & {"node_vectors", "readout"}:
                name = f'preset="{settings["preset"]}"'
            raise ValueError(
                f"{name} needs aligned graphs, node i the same in each, of at least two nodes; these are not."
            )
        if settings["mask_from"] == "nodes" and not settings["node_vectors"]:
            if "mask_from" in as_settings(self.settings):
                raise ValueError('mask_from="nodes" needs node_vectors=True.')
            settings["mask_from"] = "latents"
        if is_auto(settings["batch_size"]):
            settings["batch_size"] = auto_batch_size(len(graphs))
        whole(settings, "batch_size", 1)
        auto = is_auto(settings["epochs"])
        if auto:
            settings["epochs"] = _auto_epochs(len(graphs), settings["batch_size"])
        _check_numbers(settings)
        if auto:
            first = settings["generative_epochs"]  # the refinement is a share of the others
            settings["epochs"] = first + round((settings["epochs"] - first) / (1 - settings["refinement"]))
        return settings

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> CIGNN:
        return self._network(
            n_features,
            n_classes,
            rest=settings["rest_weight"] > 0,
            cut=settings["cut_weight"] > 0,
            limit=settings["logit_weight"] > 0,
            bound=math.inf if settings["bound"] is None else settings["bound"],
            **{name: settings[name] for name in ARCHITECTURE},
        )

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        assert isinstance(network, CIGNN)
        return make_stages(settings, network)

    # ----------------------------------------------------------------- saving

    def _config(self) -> dict[str, Any]:
        config = super()._config()
        config["params"]["settings"] = None if self.settings is None else dict(self.settings)
        return config

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> Self:
        estimator = super()._from_config(config)
        as_settings(estimator.settings)
        different = estimator.settings_.keys() ^ {*SETTINGS, *OUTSIDE, "n_nodes"}
        if different:
            raise ValueError(f"the setting {min(different)} is unknown or missing")
        return estimator


class CIGNNClassifier(CIGNNEstimator, ExplainingClassifier):
    """Classify graphs and show which edges made the decision, by CI-GNN.

    Parameters
    ----------
    preset : {"auto", "motif", "connectome", "paper"}, default="auto"
        Named set of values for all settings. "connectome" is for aligned graphs, in which node i is the same
        region in every graph; "motif" is for all others; "auto" picks one of these two. "paper" follows Zheng
        et al. (2024): their layer sizes, two training stages and soft mask.
    settings : CIGNNSettings, mapping or None, default=None
        Settings that replace those of the preset, such as ``{"dropout": 0.3}``; see `CIGNNSettings`. In a
        grid search they are named ``settings__dropout``.
    epochs : int or "auto", default="auto"
        Number of training epochs, over all stages. "auto" is 60 for "connectome", 450 for "paper"
        and, for "motif", enough for about 4000 gradient steps, from 40 to 300; fewer for more than 9000
        graphs, but at least 20; and those of the refinement besides.
    n_estimators : int or "auto", default="auto"
        Number of networks in the ensemble. Their probabilities and the log-odds of
        their edge weights are averaged. "auto" is 5 for
        "connectome", 5 for "motif" and 1 for "paper". Each has its own validation graphs unless ``fit`` gets
        an ``eval_set``.
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
        The class labels.
    settings_ : dict
        The settings used, with the ``preset`` that was picked.
    network_ : cignn.nn.CIGNN
        The trained network, or an ensemble of them.
    history_ : DataFrame
        One row per epoch: every loss term, the dependence of α and β (HSIC) and the validation scores.
    best_epoch_ : int or list of int
        The epoch that was kept; one per network in an ensemble.
    pool_ : Pool or None
        Connections that go together in the training graphs of patients; `explain` pools their evidence. For
        aligned graphs of two classes; None where nothing goes together.

    Examples
    --------
    >>> from cignn import CIGNNClassifier
    >>> from cignn.datasets import make_ba2motifs
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> clf = CIGNNClassifier(epochs=1, settings={"dropout": 0.3}, random_state=0).fit(graphs)
    >>> clf.settings_["preset"], clf.settings_["dropout"], clf.predict_proba(graphs).shape
    ('motif', 0.3, (40, 2))
    """

    _network = CIGNN
    _pools = True

    def __init__(
        self,
        preset: str = "auto",
        *,
        settings: Mapping[str, Any] | None = None,
        epochs: int | str = "auto",
        n_estimators: int | str = "auto",
        class_weight: ClassWeight = None,
        validation_fraction: float = 0.1,
        checkpoint: str | Path | None = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.preset = preset
        self.settings = settings
        self.epochs = epochs
        self.n_estimators = n_estimators
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.device = device
        self.verbose = verbose
        self.random_state = random_state


SUBGRAPH_WEIGHTS = ("sparsity_weight", "logit_weight", "rest_weight", "cut_weight")


def _auto_epochs(n_graphs: int, batch_size: int) -> int:
    """Epochs that make about `STEPS` gradient steps, at least `USUAL_EPOCHS` but for very many graphs."""
    epochs = max(USUAL_EPOCHS, -(-STEPS // -(-n_graphs // batch_size)))
    return min(max(LEAST_EPOCHS, min(epochs, READ_GRAPHS // n_graphs)), MOST_EPOCHS)


def _rules(settings: dict[str, Any]) -> dict[str, Any]:
    """What stands behind settings that are "auto"."""
    found = rules(settings)
    if is_auto(settings["epochs"]):
        found["epochs"] = {"steps": STEPS, "graphs": READ_GRAPHS, "least": LEAST_EPOCHS}
        found["epochs"] |= {"usual": USUAL_EPOCHS, "most": MOST_EPOCHS}
    return found


def _check_numbers(settings: dict[str, Any]) -> None:
    """Refuse numbers that make no sense; numpy's become Python's."""
    for name in ("epochs", "n_estimators"):
        whole(settings, name, 1)
    for name in ("n_causal", "n_noncausal"):
        whole(settings, name, 1, WIDEST)
    if settings["patience"] is not None:
        whole(settings, "patience", 1)
    whole(settings, "generative_epochs", 0)
    whole(settings, "n_pooled", 0, WIDEST)
    for name in ("encoder_hidden", "classifier_hidden", "head_hidden"):
        settings[name] = widths(settings, name)
    if settings["generative_epochs"] >= settings["epochs"]:
        raise ValueError(
            f"epochs counts both stages and must exceed generative_epochs, got {settings['epochs']} and "
            f"{settings['generative_epochs']}."
        )
    for name in ("dropout", "ema_decay"):
        within(settings, name, 0, 1, include_low=True)
    within(settings, "keep", 0, 1)
    within(settings, "keep_start", 0, 1)
    within(settings, "keep_anneal", 0, 1, include_low=True, include_high=True)
    within(settings, "warm_up", 0, 1, include_low=True)
    within(settings, "refinement", 0, 0.9, include_low=True, include_high=True)
    within(settings, "rate_decay", 0, 1, include_low=True, include_high=True)
    within(settings, "bound", 0, math.inf, optional=True)
    within(settings, "encoder_density", 0, 1, include_high=True, optional=True)
    for name in ("learning_rate", "mask_lr_factor", "initial_noise", "temperature", "renyi_order"):
        within(settings, name, 0, math.inf)
    for name in ("weight_decay", "reconstruction", "causal_weight", *SUBGRAPH_WEIGHTS):
        within(settings, name, 0, math.inf, include_low=True)
    if settings["renyi_order"] == 1:
        raise ValueError(f"renyi_order must be positive and different from 1, got {settings['renyi_order']}.")
