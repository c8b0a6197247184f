"""`CIGNNSettings`: architecture and training of CI-GNN, and the presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Self

from cignn import _checks
from cignn.estimators.settings import is_auto


class _Unset(Enum):
    """The value of a setting that is left to the preset: one object in every copy and process."""

    PRESET = "preset"

    def __repr__(self) -> str:
        return "<preset>"

    __str__ = __repr__


UNSET: Any = _Unset.PRESET


@dataclass(kw_only=True, repr=False, eq=False, slots=True)
class CIGNNSettings(Mapping[str, Any]):
    """Settings of CI-GNN's architecture and training, which replace those of a preset.

    A setting that is not given has the value of the preset that `CIGNNClassifier` uses. Each entry below
    gives the default of the preset "motif" and, in parentheses, those of "connectome" and "paper" where they
    differ. The object is a mapping of the settings that are given.

    The encoder computes latent variables α ("causal") and β (the rest) for every node. From α comes the
    probability of every edge, the mask. The base classifier reads the subgraph, that is the graph weighted by
    the mask. The price is a penalty on edges in the subgraph; a soft mask has none.

    Parameters
    ----------
    encoder : {"gcn", "gin", "gat"}, default="gin" (paper: "gcn")
        Kind of layers of the encoder.
    encoder_hidden : sequence of int, default=(64, 64, 64) (connectome: (32,), paper: (128,))
        Widths of the encoder's hidden layers. Where they and their kind are those of the base classifier, the
        encoder begins as the classifier is after its warm-up.
    encoder_activation : {"relu", "sigmoid"}, default="relu" (paper: "sigmoid")
        Activation function of the encoder.
    encoder_density : float, "auto" or None, default="auto" (paper: None)
        Share of the strongest edges that the encoder reads. None reads all edges. "auto" is 0.1 for aligned
        graphs, because in a complete graph all nodes would get nearly the same embedding, and all for others.
    n_causal : int, default=56 (connectome: 128)
        Number K of causal latent variables α of a node.
    n_noncausal : int, default=8
        Number L of other latent variables β of a node.
    initial_noise : float, default=1.0 (connectome: 0.02)
        Standard deviation of α and β before training.
    causal_noise : bool, default=False (paper: True)
        Whether α is drawn at random while training, as β is.
    mask_from : {"latents", "nodes"}, default="latents" (connectome: "nodes")
        What the mask is made of: "latents", the latent variables α of each graph; "nodes", the learned
        vectors of the nodes alone, so that all graphs share one mask; without `node_vectors` "latents".
    mask_by : {"products", "pairs"}, default="pairs" (connectome: "products", paper: "products")
        Whether an edge's probability is made of an inner product of α or by an MLP on both nodes' α.
    node_vectors : bool, default=False (connectome: True)
        Whether to add a learned vector for each node to its latent variables; for aligned graphs.
    separate_products : bool, default=True (paper: False)
        Whether the mask and the autoencoder's reconstruction use two separate projections of the latent
        variables, or plain inner products of them.
    mask : {"stochastic", "soft"}, default="stochastic" (paper: "soft")
        "stochastic" draws the edges of the subgraph at random while training; "soft" multiplies edges by
        their probabilities.
    temperature : float, default=0.3 (connectome: 1.0, paper: 1.0)
        Temperature of the random draws of the stochastic mask.
    keep : float, default=0.3 (connectome: 0.2, paper: 0.5)
        Share r of edges that the subgraph may keep without a price; with `pricing` "relative" 0.65 if so few
        cost accuracy.
    keep_anneal : float, default=0.5 (connectome: 0.0, paper: 0.6)
        Share of the classification stage during which r falls from `keep_start` to `keep`.
    keep_start : float, default=0.8 (connectome: 0.9, paper: 0.9)
        Share r at the beginning of the classification stage, where it falls to `keep`.
    sparsity_weight : float, default=1.0
        Weight of the price in the loss; not used by a soft mask.
    pricing : {"relative", "fixed"}, default="relative" (connectome: "fixed", paper: "fixed")
        "relative" raises the price as subgraphs predict as well as whole graphs did in the warm-up, and
        lowers it again where the accuracy on validation graphs falls. Where it hardly counts in the first
        three tenths of the epochs after r has fallen, r is 0.65 from then on, at the full price.
    logit_weight : float, default=0.02 (connectome: 0.0, paper: 0.0)
        Weight of the loss term that holds the logits of edges between -3 and 3.
    rest_weight : float, default=1.0 (connectome: 0.0, paper: 0.0)
        Weight of the loss term that asks that the edges left out do not predict the class.
    cut_weight : float, default=0.25 (connectome: 0.0, paper: 0.0)
        Weight of the loss term that asks that the heaviest edges to which a graph is cut keep their weights
        and, four times as much, of that which asks in the refinement, if there is one, that such a graph
        keeps its class. With it the best epoch is chosen by the accuracy on cut graphs too.
    warm_up : float, default=0.3 (connectome: 0.0, paper: 0.0)
        Share of the epochs, without those of the refinement, in which the base classifier alone is trained at
        first, on whole graphs.
    refinement : float, default=0.15 (connectome: 0.0, paper: 0.0)
        Share of the epochs, at last, in which the base classifier alone is trained, from where the warm-up
        ended, on the subgraphs of the epoch kept; at most 0.9. It is kept in turn unless what was kept is
        clearly better or, with `choose_by` "loss", better at all.
    node_weights : bool, default=True (connectome: False, paper: False)
        Whether nodes count by the largest weight of their edges: nothing outside the subgraph is read.
    constant : bool, default=True (connectome: False, paper: False)
        Whether every node gets a constant feature beside its own, so that degrees can be read.
    bound : float or None, default=3.0 (connectome: None, paper: None)
        Largest activation in the layers, in standard deviations of the training nodes, None is no bound: with
        one, larger graphs are read as those of the training were.
    classifier : {"gcn", "gin", "gat"}, default="gin"
        Kind of layers of the base classifier; not used if the readout is "edges".
    classifier_hidden : sequence of int, default=(64, 64, 64) (paper: (128, 128, 128))
        Widths of the base classifier's hidden layers.
    readout : {"sum", "mean", "max", "edges"}, default="max" (connectome: "edges", paper: "sum")
        How nodes are pooled into one vector. "edges", for aligned graphs, uses no nodes: a multilayer
        perceptron reads the masked edge weights.
    head_hidden : sequence of int, default=(64, 32) (connectome: (64,))
        Widths of the hidden layers after the readout.
    dropout : float, default=0.3 (connectome: 0.8, paper: 0.5)
        Dropout probability in the layers of `head_hidden`.
    n_pooled : int, default=0 (connectome: 4)
        Number of weighted sums over edges that vary more in one class than in the others; the classifier
        reads how large each is, whether the edges move up or down. A sum is used only if it tells the classes
        of training graphs that it was not made from, and clearly better than a linear model; for the readout
        "edges".
    generative_epochs : int, default=0 (paper: 150)
        Number of epochs E_GC of the first stage, which trains the autoencoder only; they count in ``epochs``.
    train_encoder : bool, default=True (paper: False)
        Whether the classification stage also trains the encoder.
    reconstruction : float, default=0.1 (paper: 0.0)
        Weight of the autoencoder's loss in the classification stage.
    causal_weight : float, default=0.001
        Weight λ of the causal terms, `causal_effect` and `independence`, in the loss.
    causal_effect : {"cmi", "cmi_prediction", "mi", None}, default="cmi"
        Information that is maximised: I(α; Y | β), I(α; Ŷ | β), I(α; Y) or none.
    independence : bool, default=True
        Whether I(α; β) is minimised.
    renyi_order : float, default=1.01
        Order of the Rényi entropies; positive and not 1.
    learning_rate : float, default=0.003 (connectome: 0.0003, paper: 0.001)
        Learning rate of Adam.
    rate_decay : float, default=0.5 (connectome: 0.0, paper: 0.0)
        Share of warm-up, classification stage and refinement, at their ends, in which the learning rate falls
        to 1/20. Where it falls, the epoch is one of the last fifth of the classification stage or the last
        half of the refinement, unless an earlier one is clearly better.
    mask_lr_factor : float, default=1.0 (connectome: 30.0)
        Factor by which the learning rate of the mask and of the node vectors is larger.
    weight_decay : float, default=0.0 (paper: 0.0005)
        Weight decay of Adam.
    batch_size : int or "auto", default="auto" (connectome: 32, paper: 32)
        Number of graphs in a gradient step. "auto" is a seventieth of the graphs, from 32 to 64.
    ema_decay : float, default=0.99 (paper: 0.0)
        Decay per step of the exponential moving average of the network's weights. The average is validated
        and kept; 0 turns averaging off.
    choose_by : {"accuracy", "loss"}, default="accuracy" (connectome: "loss")
        How the best epoch is chosen on validation graphs. "accuracy": by accuracy, ties by "loss"; "loss": by
        cross-entropy plus price.
    patience : int or None, default=None (connectome: 8)
        Number of epochs without improvement after which training stops; None never stops early. A training
        that stops early has no refinement.

    See Also
    --------
    CIGNNClassifier : The estimator that takes these settings.

    Examples
    --------
    >>> from cignn import CIGNNClassifier, CIGNNSettings
    >>> CIGNNSettings(dropout=0.3, readout="mean")
    CIGNNSettings(readout='mean', dropout=0.3)
    >>> CIGNNSettings().dropout
    <preset>
    >>> CIGNNSettings.preset("connectome", dropout=0.3).learning_rate
    0.0003
    >>> CIGNNClassifier("connectome", settings=CIGNNSettings(dropout=0.3))
    CIGNNClassifier(preset='connectome', settings=CIGNNSettings(dropout=0.3))
    """

    encoder: str = UNSET
    encoder_hidden: Sequence[int] = UNSET
    encoder_activation: str = UNSET
    encoder_density: float | str | None = UNSET
    n_causal: int = UNSET
    n_noncausal: int = UNSET
    initial_noise: float = UNSET
    causal_noise: bool = UNSET
    mask_from: str = UNSET
    mask_by: str = UNSET
    node_vectors: bool = UNSET
    separate_products: bool = UNSET
    mask: str = UNSET
    temperature: float = UNSET
    keep: float = UNSET
    keep_anneal: float = UNSET
    keep_start: float = UNSET
    sparsity_weight: float = UNSET
    pricing: str = UNSET
    logit_weight: float = UNSET
    rest_weight: float = UNSET
    cut_weight: float = UNSET
    warm_up: float = UNSET
    refinement: float = UNSET
    node_weights: bool = UNSET
    constant: bool = UNSET
    bound: float | None = UNSET
    classifier: str = UNSET
    classifier_hidden: Sequence[int] = UNSET
    readout: str = UNSET
    head_hidden: Sequence[int] = UNSET
    dropout: float = UNSET
    n_pooled: int = UNSET
    generative_epochs: int = UNSET
    train_encoder: bool = UNSET
    reconstruction: float = UNSET
    causal_weight: float = UNSET
    causal_effect: str | None = UNSET
    independence: bool = UNSET
    renyi_order: float = UNSET
    learning_rate: float = UNSET
    rate_decay: float = UNSET
    mask_lr_factor: float = UNSET
    weight_decay: float = UNSET
    batch_size: int | str = UNSET
    ema_decay: float = UNSET
    choose_by: str = UNSET
    patience: int | None = UNSET

    @classmethod
    def preset(cls, name: str, **values: Any) -> Self:
        """Return all settings of a preset, some of them replaced.

        Parameters
        ----------
        name : {"motif", "connectome", "paper"}
            Name of the preset.
        **values : settings
            Settings that replace those of the preset.

        Returns
        -------
        CIGNNSettings
            An object with every setting given.
        """
        return cls(**PRESETS[_checks.choice("preset", name, PRESETS)]).replace(**values)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return every setting, as scikit-learn's estimators do.

        Parameters
        ----------
        deep : bool, default=True
            Ignored: there are no objects inside.

        Returns
        -------
        dict of str to object
            Value of every setting, ``<preset>`` where it is not given.
        """
        return {name: getattr(self, name) for name in SETTINGS}

    def set_params(self, **values: Any) -> Self:
        """Set settings in place, as scikit-learn's estimators do.

        Parameters
        ----------
        **values : settings
            New values.

        Returns
        -------
        CIGNNSettings
            This object.
        """
        check_names(values)
        for name, value in values.items():
            setattr(self, name, value)
        return self

    def replace(self, **values: Any) -> Self:
        """Return a copy with some settings replaced.

        Parameters
        ----------
        **values : settings
            New values.

        Returns
        -------
        CIGNNSettings
            The copy.
        """
        check_names(values)
        return replace(self, **values)

    def __getitem__(self, name: str) -> Any:
        if name not in SETTINGS or getattr(self, name) is UNSET:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in SETTINGS if getattr(self, name) is not UNSET)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"


SETTINGS = tuple(field.name for field in fields(CIGNNSettings))
OUTSIDE = ("preset", "epochs", "n_estimators")  # what a preset settles besides, parameters of the estimator


def check_names(values: Mapping[str, Any]) -> None:
    """Refuse names that are no settings of CI-GNN."""
    for name in values:
        if name in OUTSIDE:
            raise ValueError(f"{name} is a parameter of CIGNNClassifier itself, not one of its settings.")
        if name not in SETTINGS:
            raise ValueError(f"CI-GNN has no setting {name!r}{_checks.nearest(name, SETTINGS)}")


# what the presets share; each replaces some of it
_COMMON = CIGNNSettings(
    encoder="gin",
    encoder_hidden=(64, 64),
    encoder_activation="relu",
    encoder_density="auto",
    n_causal=56,
    n_noncausal=8,
    initial_noise=1.0,
    causal_noise=True,
    mask_from="latents",
    mask_by="products",
    node_vectors=False,
    separate_products=True,
    mask="stochastic",
    temperature=1.0,
    keep=0.1,
    keep_anneal=0.6,
    keep_start=0.9,
    sparsity_weight=1.0,
    pricing="fixed",
    logit_weight=0.0,
    rest_weight=0.0,
    cut_weight=0.0,
    warm_up=0.0,
    refinement=0.0,
    node_weights=False,
    constant=False,
    bound=None,
    classifier="gin",
    classifier_hidden=(64, 64, 64),
    readout="sum",
    head_hidden=(64, 32),
    dropout=0.5,
    n_pooled=0,
    generative_epochs=0,
    train_encoder=True,
    reconstruction=0.1,
    causal_weight=1e-3,
    causal_effect="cmi",
    independence=True,
    renyi_order=1.01,
    learning_rate=1e-3,
    rate_decay=0.0,
    mask_lr_factor=1.0,
    weight_decay=0.0,
    batch_size=32,
    ema_decay=0.99,
    choose_by="accuracy",
    patience=None,
)
PRESETS: dict[str, CIGNNSettings] = {
    "motif": _COMMON.replace(
        encoder_hidden=(64, 64, 64),
        causal_noise=False,
        mask_by="pairs",
        keep=0.3,
        keep_anneal=0.5,
        keep_start=0.8,
        pricing="relative",
        logit_weight=0.02,
        rest_weight=1.0,
        cut_weight=0.25,
        warm_up=0.3,
        refinement=0.15,
        node_weights=True,
        constant=True,
        bound=3.0,
        readout="max",
        dropout=0.3,
        learning_rate=3e-3,
        rate_decay=0.5,
        temperature=0.3,
        batch_size="auto",
    ),
    "connectome": _COMMON.replace(
        encoder_hidden=(32,),
        n_causal=128,
        initial_noise=0.02,
        causal_noise=False,
        mask_from="nodes",
        node_vectors=True,
        keep=0.2,
        keep_anneal=0.0,
        readout="edges",
        head_hidden=(64,),
        dropout=0.8,
        n_pooled=4,
        learning_rate=3e-4,
        mask_lr_factor=30.0,
        choose_by="loss",
        patience=8,
    ),
    # Section "Implementation details" and table "Architecture of CI-GNN"
    "paper": _COMMON.replace(
        encoder="gcn",
        encoder_hidden=(128,),
        encoder_activation="sigmoid",
        encoder_density=None,
        separate_products=False,
        mask="soft",
        keep=0.5,
        classifier_hidden=(128, 128, 128),
        generative_epochs=150,
        train_encoder=False,
        reconstruction=0.0,
        weight_decay=5e-4,
        ema_decay=0.0,
    ),
}
"""Settings of CI-GNN by the names of the presets."""
# what "auto" means of these parameters of the estimator, by preset
EPOCHS: dict[str, int | str] = {"motif": "auto", "connectome": 60, "paper": 450}
N_ESTIMATORS = {"motif": 5, "connectome": 5, "paper": 1}


def as_settings(given: Mapping[str, Any] | None) -> CIGNNSettings:
    """Return the settings that a mapping, or None, stands for; refuse anything else."""
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(
            'settings must be a CIGNNSettings, a mapping such as {"dropout": 0.3} or None, got '
            f"{_checks.shown(given)}."
        )
    check_names(given or {})
    return CIGNNSettings(**(given or {}))


def with_settings_inside(params: Mapping[str, Any]) -> dict[str, Any]:
    """Move settings that stand among the parameters of `CIGNNClassifier` into its parameter ``settings``."""
    direct = {name: value for name, value in params.items() if name in SETTINGS}
    rest = {name: value for name, value in params.items() if name not in SETTINGS}
    return rest | {"settings": as_settings(rest.get("settings")).replace(**direct)} if direct else rest


def resolve(params: Mapping[str, Any], aligned: bool) -> dict[str, Any]:
    """Return every setting, ``preset``, ``epochs`` and ``n_estimators``, "auto" replaced by the preset's.

    aligned : whether the graphs are, and have pairs of nodes: the preset "auto" is then "connectome".
    """
    name = _checks.choice("preset", params["preset"], ("auto", *PRESETS))
    if name == "auto":
        name = "connectome" if aligned else "motif"
    usual = {"epochs": EPOCHS[name], "n_estimators": N_ESTIMATORS[name]}
    outside = {key: value if is_auto(params[key]) else params[key] for key, value in usual.items()}
    return {"preset": name, **outside, **PRESETS[name], **as_settings(params["settings"])}
