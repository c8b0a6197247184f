"""`CIGNNClassifier`: CI-GNN behind fit, predict_proba and explain."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from cignn._checks import WIDEST
from cignn._random import RandomState
from cignn.estimators.ci_gnn_settings import OUTSIDE, SETTINGS, UNSET, as_settings, resolve
from cignn.estimators.explaining import ExplainingClassifier
from cignn.estimators.settings import (
    AUTO_DENSITY,
    EPOCH_STEPS,
    MAX_BATCH,
    MIN_BATCH,
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
from cignn.graphs import GraphBatch, GraphSet
from cignn.information.power_trace import has_way_without_eigenvalues
from cignn.nn.autoencoder import ACTIVATIONS
from cignn.nn.ci_gnn import CAUSAL_EFFECTS, CIGNN, MASK_FORMS, MASK_SOURCES, MASKS, PRICES, CIGNNOutput
from cignn.nn.layers import LAYERS, READOUTS
from cignn.nn.noise import Noise
from cignn.nn.subgraph import edge_price, expected_edges

KEEP_STEP = 0.1
# what epochs="auto" is: so many gradient steps or graphs read, whichever is less, within bounds
STEPS, READ_GRAPHS, LEAST_EPOCHS, MOST_EPOCHS = 4000, 150_000, 20, 300
LAST_RATE = 0.05  # of the learning rate, in the last epoch, where it falls
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


class CIGNNClassifier(ExplainingClassifier):
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
        and, for "motif", enough for about 4000 gradient steps or 150,000 graphs read, whichever is less, but
        at least 20 and at most 300.
    n_estimators : int or "auto", default="auto"
        Number of networks in the ensemble. Their probabilities and edge weights are averaged. "auto" is 5 for
        "connectome" and 1 otherwise. Each has its own validation graphs unless ``fit`` gets an ``eval_set``.
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
        CIGNNClassifier
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
            settings = resolve(params, aligned)
            left = {name: value for name, value in settings.items() if name not in given}
            out[settings["preset"]] = left | _rules(settings)
        return {name: left for name, left in out.items() if left}

    # ---------------------------------------------------------------- fitting

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        pairs = graphs.aligned and bool(graphs.n_nodes[0] > 1)
        settings = resolve(self.get_params(deep=False), aligned=pairs)
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
        if is_auto(settings["epochs"]):
            settings["epochs"] = _auto_epochs(len(graphs), settings["batch_size"])
        _check_numbers(settings)
        return settings

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> CIGNN:
        return CIGNN(
            n_features,
            n_classes,
            rest=settings["rest_weight"] > 0,
            cut=settings["cut_weight"] > 0,
            limit=settings["logit_weight"] > 0,
            bound=math.inf if settings["bound"] is None else settings["bound"],
            **{name: settings[name] for name in ARCHITECTURE},
        )

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        """Algorithm 1 of the paper: the GraphVAE for E_GC epochs, then the subgraph and the classifier."""
        assert isinstance(network, CIGNN)
        warm_up = [_warm_up_stage(settings, network)] if _warm_up_epochs(settings) else []
        return [_generative_stage(settings, network), *warm_up, _classification_stage(settings, network)]

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


SUBGRAPH_WEIGHTS = ("sparsity_weight", "logit_weight", "rest_weight", "cut_weight")


def _auto_epochs(n_graphs: int, batch_size: int) -> int:
    """Epochs that make about `STEPS` gradient steps and read no more than `READ_GRAPHS`, within bounds."""
    steps = -(-n_graphs // batch_size)
    return min(max(LEAST_EPOCHS, min(-(-STEPS // steps), READ_GRAPHS // n_graphs)), MOST_EPOCHS)


def _rules(settings: dict[str, Any]) -> dict[str, Any]:
    """What stands behind settings that are "auto"."""
    found = rules(settings)
    if is_auto(settings["epochs"]):
        found["epochs"] = {"steps": STEPS, "graphs": READ_GRAPHS, "least": LEAST_EPOCHS, "most": MOST_EPOCHS}
    if is_auto(settings["batch_size"]):
        found["batch_size"] = {"steps": EPOCH_STEPS, "least": MIN_BATCH, "most": MAX_BATCH}
    return found


VAE_TERMS = ("features", "adjacency", "kl")
CAUSAL_TERMS = ("independence", "causal")


def _generative_stage(settings: dict[str, Any], network: CIGNN) -> Stage:
    """The autoencoder and the causal terms."""

    def begin() -> None:
        network.noisy = True

    return Stage(
        "generative",
        settings["generative_epochs"],
        [*network.encoder.parameters(), *network.decoders.parameters()],
        network.generative_losses,
        dict.fromkeys(VAE_TERMS, 1.0) | dict.fromkeys(CAUSAL_TERMS, settings["causal_weight"]),
        begin=begin,
        optional=CAUSAL_TERMS,
        capturable=has_way_without_eigenvalues(settings["renyi_order"]),
    )


def _warm_up_stage(settings: dict[str, Any], network: CIGNN) -> Stage:
    """The classifier alone, on whole graphs."""
    return Stage(
        "warm-up",
        _warm_up_epochs(settings),
        list(network.classifier.parameters()),
        network.warm_up_losses,
        {"classification": 1.0},
    )


def _warm_up_epochs(settings: dict[str, Any]) -> int:
    left = settings["epochs"] - settings["generative_epochs"]
    return min(math.ceil(settings["warm_up"] * left), left - 1)


def _classification_stage(settings: dict[str, Any], network: CIGNN) -> Stage:
    """The subgraph and the classifier and, where the encoder is trained too, all terms together."""
    epochs = settings["epochs"] - settings["generative_epochs"] - _warm_up_epochs(settings)
    stochastic = settings["mask"] == "stochastic"
    falls = math.ceil(settings["keep_anneal"] * epochs) if stochastic else 0
    mask = list(network.subgraph.parameters())
    if network.encoder.node_vectors is not None and settings["train_encoder"]:
        mask.append(network.encoder.node_vectors)

    def losses(batch: GraphBatch, noise: Noise, keep: Tensor | None = None) -> dict[str, Tensor]:
        return network.classification_losses(batch, keep, settings["reconstruction"] > 0, noise)

    def numbers(epoch: int) -> dict[str, float]:
        return (
            {"keep": free_share(epoch, falls, settings["keep"], settings["keep_start"])} if stochastic else {}
        )

    def price(out: CIGNNOutput, batch: GraphBatch) -> Tensor:
        return settings["sparsity_weight"] * edge_price(out.edge_logits, batch.edges, settings["keep"])

    def cut(out: CIGNNOutput) -> Tensor:
        return expected_edges(out.edge_weights)

    def begin() -> None:
        network.noisy = settings["train_encoder"]

    trained = network if settings["train_encoder"] else nn.ModuleList([network.subgraph, network.classifier])
    return Stage(
        "classification",
        epochs,
        list(trained.parameters()),
        losses,
        {
            "classification": 1.0,
            "edges": settings["sparsity_weight"],
            "logits": settings["logit_weight"],
            "rest": settings["rest_weight"],
            "cut": settings["cut_weight"],
            "consistency": settings["cut_weight"],
        }
        | dict.fromkeys(CAUSAL_TERMS, settings["causal_weight"])
        | dict.fromkeys(VAE_TERMS, settings["reconstruction"]),
        numbers=numbers,
        choose_from=min(epochs - 1, falls),
        choose_by=settings["choose_by"],
        patience=settings["patience"],
        price=price if stochastic else None,
        cut=cut if settings["cut_weight"] else None,
        rate=lambda epoch: _rate(epoch, epochs, settings["rate_decay"]),
        begin=begin,
        fast=mask if settings["mask_lr_factor"] != 1 else (),
        fast_rate=settings["mask_lr_factor"],
        optional=CAUSAL_TERMS,
        capturable=has_way_without_eigenvalues(settings["renyi_order"]),
    )


def _rate(epoch: int, epochs: int, decay: float) -> float:
    """Factor of the learning rate: 1, over the last share ``decay`` of the epochs falling to `LAST_RATE`."""
    left = (epochs - 1 - epoch) / (decay * epochs) if decay else 1.0
    return LAST_RATE + (1 - LAST_RATE) * min(left, 1.0)


def free_share(epoch: int, falls: int, keep: float, start: float = 0.9) -> float:
    """Return the share r of edges free of charge: ``start`` at first, ``keep`` from epoch ``falls`` on."""
    steps = max(1, math.ceil(round((start - keep) / KEEP_STEP, 6)))
    done = steps if epoch >= falls else epoch * steps // falls
    return max(keep, start - KEEP_STEP * done)


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
    within(settings, "rate_decay", 0, 1, include_low=True, include_high=True)
    within(settings, "bound", 0, math.inf, optional=True)
    within(settings, "encoder_density", 0, 1, include_high=True, optional=True)
    for name in ("learning_rate", "mask_lr_factor", "initial_noise", "temperature", "renyi_order"):
        within(settings, name, 0, math.inf)
    for name in ("weight_decay", "reconstruction", "causal_weight", *SUBGRAPH_WEIGHTS):
        within(settings, name, 0, math.inf, include_low=True)
    if settings["renyi_order"] == 1:
        raise ValueError(f"renyi_order must be positive and different from 1, got {settings['renyi_order']}.")
