"""`CIGNNClassifier`: CI-GNN behind fit, predict_proba and explain."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from cignn._checks import WIDEST
from cignn.estimators.base import ExplainingClassifier
from cignn.estimators.settings import (
    AUTO_DENSITY,
    auto_epochs,
    choice,
    is_auto,
    resolve,
    rules,
    whole,
    widths,
    within,
)
from cignn.estimators.training import Stage
from cignn.graphs import GraphBatch, GraphSet
from cignn.nn.autoencoder import ACTIVATIONS
from cignn.nn.ci_gnn import CAUSAL_EFFECTS, CIGNN, MASKS, PRICES, CIGNNOutput
from cignn.nn.layers import LAYERS, READOUTS
from cignn.nn.subgraph import edge_information

KEEP_START = 0.9  # the share of edges that is free of charge at first; it falls by steps
KEEP_STEP = 0.1
CHOOSE_BY = ("accuracy", "loss")

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
    "separate_products",
    "mask",
    "temperature",
    "causal_effect",
    "independence",
    "renyi_order",
    "pricing",
    "n_nodes",
    "node_vectors",
    "initial_noise",
)


class CIGNNClassifier(ExplainingClassifier):
    """Classify graphs and show which edges made the decision.

    A parameter left at ``"preset"`` takes the preset's value; `settings_` holds what was used.

    Parameters
    ----------
    preset : "default", set for right explanations on graphs whose causal edges are known, or "paper", the
        paper's sizes, stages and soft mask, with the differences that the page on the method lists
    encoder : "gcn", "gin" or "gat"; encoder_hidden : widths of its layers before the latent heads;
        encoder_activation : "relu" or "sigmoid"; encoder_density : share of strongest edges the encoder
        looks at, None for all
    n_causal, n_noncausal : dimensions K of α and L of β; initial_noise : their σ at the start
    classifier : base classifier "gcn", "gat" or "gin"; classifier_hidden, head_hidden : its widths;
        readout : "sum", "mean" or "max" over nodes, or, for aligned graphs, "edges": an MLP of widths
        ``head_hidden`` reads the masked edges one by one; dropout : in its head
    node_vectors : whether every node of aligned graphs gets a learned vector added to its latent
    mask : "stochastic", edges drawn while training, or "soft", edges weighted; keep : share r of edges that
        is free of charge at the end; keep_anneal : share of stage II in which it falls from 0.9 to there;
        sparsity_weight : weight of the price of the other edges; pricing : "explained", the price grows with
        what the subgraphs explain of the labels, or "fixed"; rest_weight : weight of the demand that edges
        left out tell nothing of the class; temperature : of the edge draws
    separate_products : own projections for the two inner products, reconstruction and subgraph
    train_encoder : whether stage II trains the encoder too
    epochs : E, of both stages, "auto" for about 3000 steps, but at least 60 and at most 200 epochs;
        generative_epochs : E_GC, of stage I
    reconstruction : weight of the GraphVAE terms in stage II; 0 leaves them to stage I
    causal_weight : λ; renyi_order : δ of the Rényi entropies
    causal_effect : "cmi" for I(α;Y|β), "cmi_prediction" for I(α;Ŷ|β), "mi" for I(α;Y), None for none;
        independence : whether I(α;β) is minimised
    learning_rate, weight_decay, batch_size : of Adam; mask_lr_factor : how many times faster the subgraph and
        the node vectors learn; ema_decay : factor by which the running average of the
        weights, which is what is kept, forgets each step; 0 keeps the weights themselves
    class_weight : None, "balanced" or {label: weight}
    validation_fraction : share of graphs set aside in ``fit`` to choose the epoch; choose_by : "accuracy"
        there, then cross-entropy and price of edges, or "loss", these two alone; patience : epochs without
        a better one after which training ends, None for never
    n_estimators : networks trained, whose probabilities and edge weights are averaged; each has validation
        graphs of its own, unless ``fit`` is given an ``eval_set``, as `evaluate` gives it: then they share it
    checkpoint : file from which a killed ``fit`` goes on, written after every epoch
    device : "auto", "cpu" or "cuda"
    verbose : show a progress bar
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    classes_, n_features_in_, node_names_ : what was learnt from
    settings_ : every parameter, presets resolved
    network_ : the trained `cignn.nn.CIGNN`
    history_ : one row per epoch with every named loss, HSIC(α, β) and the validation scores; skipped_terms
        counts the steps' information terms that could not be computed and were left out
    best_epoch_ : the epoch kept, chosen on validation graphs; a list where there are several members
    """

    def __init__(
        self,
        preset: str = "default",
        *,
        encoder: str = "preset",
        encoder_hidden: Sequence[int] | str = "preset",
        encoder_activation: str = "preset",
        encoder_density: float | str | None = "preset",
        n_causal: int | str = "preset",
        n_noncausal: int | str = "preset",
        classifier: str = "preset",
        classifier_hidden: Sequence[int] | str = "preset",
        head_hidden: Sequence[int] | str = "preset",
        readout: str = "preset",
        dropout: float | str = "preset",
        mask: str = "preset",
        keep: float | str = "preset",
        keep_anneal: float | str = "preset",
        sparsity_weight: float | str = "preset",
        rest_weight: float | str = "preset",
        temperature: float | str = "preset",
        separate_products: bool | str = "preset",
        train_encoder: bool | str = "preset",
        epochs: int | str = "preset",
        generative_epochs: int | str = "preset",
        reconstruction: float | str = "preset",
        causal_weight: float | str = "preset",
        renyi_order: float | str = "preset",
        causal_effect: str | None = "preset",
        independence: bool | str = "preset",
        learning_rate: float | str = "preset",
        weight_decay: float | str = "preset",
        ema_decay: float | str = "preset",
        batch_size: int | str = "preset",
        node_vectors: bool | str = "preset",
        choose_by: str = "preset",
        mask_lr_factor: float | str = "preset",
        patience: int | str | None = "preset",
        pricing: str = "preset",
        initial_noise: float | str = "preset",
        n_estimators: int | str = "preset",
        class_weight: Any = None,
        validation_fraction: float = 0.1,
        checkpoint: str | Path | None = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.preset = preset
        self.encoder = encoder
        self.encoder_hidden = encoder_hidden
        self.encoder_activation = encoder_activation
        self.encoder_density = encoder_density
        self.n_causal = n_causal
        self.n_noncausal = n_noncausal
        self.classifier = classifier
        self.classifier_hidden = classifier_hidden
        self.head_hidden = head_hidden
        self.readout = readout
        self.dropout = dropout
        self.mask = mask
        self.keep = keep
        self.keep_anneal = keep_anneal
        self.sparsity_weight = sparsity_weight
        self.rest_weight = rest_weight
        self.temperature = temperature
        self.separate_products = separate_products
        self.train_encoder = train_encoder
        self.epochs = epochs
        self.generative_epochs = generative_epochs
        self.reconstruction = reconstruction
        self.causal_weight = causal_weight
        self.renyi_order = renyi_order
        self.causal_effect = causal_effect
        self.independence = independence
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.ema_decay = ema_decay
        self.batch_size = batch_size
        self.node_vectors = node_vectors
        self.choose_by = choose_by
        self.mask_lr_factor = mask_lr_factor
        self.patience = patience
        self.pricing = pricing
        self.initial_noise = initial_noise
        self.n_estimators = n_estimators
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    # ---------------------------------------------------------------- fitting

    def resolved_defaults(self) -> dict[str, Any]:
        """Return what is left to the preset and to "auto"; see `GraphClassifier.resolved_defaults`."""
        params = self.get_params(deep=False)
        out = {}
        for kind, aligned in (("aligned", True), ("other", False)):
            settings = resolve(params, aligned)
            left = {k: v for k, v in settings.items() if isinstance(params[k], str) and params[k] == "preset"}
            out[kind] = left | rules(settings)
        return {kind: left for kind, left in out.items() if left}

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        pairs = graphs.aligned and bool(graphs.n_nodes[0] > 1)
        settings = resolve(self.get_params(deep=False), aligned=pairs)
        settings["n_nodes"] = int(graphs.n_nodes[0]) if graphs.aligned else None
        if is_auto(settings["encoder_density"]):
            settings["encoder_density"] = AUTO_DENSITY if graphs.aligned else None
        choices: dict[str, Collection[Any]] = {
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
            "choose_by": CHOOSE_BY,
            "pricing": PRICES,
        }
        for name, options in choices.items():
            choice(settings, name, options)
        if not pairs and (settings["readout"] == "edges" or settings["node_vectors"]):
            name = "node_vectors" if settings["node_vectors"] else 'readout="edges"'
            raise ValueError(
                f"{name} needs aligned graphs, node i the same in each, of at least two nodes; these are not."
            )
        whole(settings, "batch_size", 1)
        if is_auto(settings["epochs"]):
            settings["epochs"] = auto_epochs(len(graphs), settings["batch_size"])
        for name in ("epochs", "n_estimators"):
            whole(settings, name, 1)
        for name in ("n_causal", "n_noncausal"):
            whole(settings, name, 1, WIDEST)
        if settings["patience"] is not None:
            whole(settings, "patience", 1)
        whole(settings, "generative_epochs", 0)
        for name in ("encoder_hidden", "classifier_hidden", "head_hidden"):
            settings[name] = widths(settings, name)
        if settings["generative_epochs"] >= settings["epochs"]:
            raise ValueError(
                f"epochs counts both stages and must exceed generative_epochs, got {settings['epochs']} and "
                f"{settings['generative_epochs']}."
            )
        within(settings, "dropout", 0, 1, include_low=True)
        within(settings, "keep", 0, 1)
        within(settings, "keep_anneal", 0, 1, include_low=True, include_high=True)
        within(settings, "ema_decay", 0, 1, include_low=True)
        within(settings, "learning_rate", 0, math.inf)
        within(settings, "mask_lr_factor", 0, math.inf)
        within(settings, "initial_noise", 0, math.inf)
        within(settings, "temperature", 0, math.inf)
        within(settings, "encoder_density", 0, 1, include_high=True, optional=True)
        for name in ("weight_decay", "reconstruction", "causal_weight", "sparsity_weight", "rest_weight"):
            within(settings, name, 0, math.inf, include_low=True)
        within(settings, "renyi_order", 0, math.inf)
        if settings["renyi_order"] == 1:
            raise ValueError(
                f"renyi_order must be positive and different from 1, got {settings['renyi_order']}."
            )
        return settings

    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> nn.Module:
        return CIGNN(
            n_features,
            n_classes,
            rest=settings["rest_weight"] > 0,
            **{name: settings[name] for name in ARCHITECTURE},
        )

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        """Algorithm 1 of the paper: the GraphVAE for E_GC epochs, then the subgraph and the classifier."""
        assert isinstance(network, CIGNN)
        causal = {"independence": settings["causal_weight"], "causal": settings["causal_weight"]}
        vae = ("features", "adjacency", "kl")
        epochs = settings["epochs"] - settings["generative_epochs"]
        stochastic = settings["mask"] == "stochastic"
        subgraph = [*network.subgraph.parameters(), *network.classifier.parameters()]

        mask = list(network.subgraph.parameters())
        if network.encoder.node_vectors is not None and settings["train_encoder"]:
            mask.append(network.encoder.node_vectors)
        falls = math.ceil(settings["keep_anneal"] * epochs) if stochastic else 0

        def keep(epoch: int) -> float | None:
            return free_share(epoch, falls, settings["keep"]) if stochastic else None

        def price(out: CIGNNOutput, batch: GraphBatch) -> Tensor:
            return settings["sparsity_weight"] * edge_information(
                out.edge_logits, batch.edges, settings["keep"]
            )

        def begin() -> None:
            network.noisy = settings["train_encoder"]

        first = Stage(
            "generative",
            settings["generative_epochs"],
            [*network.encoder.parameters(), *network.decoders.parameters()],
            lambda batch, epoch: network.generative_losses(batch),
            dict.fromkeys(vae, 1.0) | causal,
            optional=tuple(causal),
        )
        second = Stage(
            "classification",
            epochs,
            list(network.parameters()) if settings["train_encoder"] else subgraph,
            lambda batch, epoch: network.classification_losses(
                batch, keep(epoch), settings["reconstruction"] > 0
            ),
            {"classification": 1.0, "edges": settings["sparsity_weight"], "rest": settings["rest_weight"]}
            | causal
            | dict.fromkeys(vae, settings["reconstruction"]),
            choose_from=min(epochs - 1, falls),
            choose_by=settings["choose_by"],
            patience=settings["patience"],
            price=price if stochastic else None,
            begin=begin,
            fast=mask if settings["mask_lr_factor"] != 1 else (),
            fast_rate=settings["mask_lr_factor"],
            optional=tuple(causal),
        )
        return [first, second]


def free_share(epoch: int, falls: int, keep: float) -> float:
    """The share r of edges free of charge at ``epoch``: 0.9 first, ``keep`` from epoch ``falls`` on."""
    steps = max(1, math.ceil(round((KEEP_START - keep) / KEEP_STEP, 6)))
    done = steps if epoch >= falls else epoch * steps // falls
    return max(keep, KEEP_START - KEEP_STEP * done)
