"""The stages in which CI-GNN is trained: autoencoder, classifier alone, causal subgraph, classifier again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from cignn.estimators.training import VALIDATION, Stage, Training
from cignn.graphs import GraphBatch
from cignn.information.power_trace import has_way_without_eigenvalues
from cignn.nn.ci_gnn import CIGNN, PRICE_FLOOR
from cignn.nn.noise import Noise
from cignn.nn.subgraph import edge_price, expected_edges
from cignn.nn.subgraph_network import CIGNNOutput

GENERATIVE = "generative"
KEEP_STEP = 0.1
# validation accuracy that subgraphs may lose before the price falls, or one graph if that is more; how many
# times as much it is when the price is gone; the number of epochs over which the accuracy is averaged
FREE_LOST, GONE, LEVEL_EPOCHS = 0.01, 2.0, 3
# share of the epochs at full price that try whether graphs can do with it, and the mean level that says so
TRIAL, LEAST_LEVEL = 0.3, 0.5
# the share of edges that is free where graphs cannot do with fewer: the mask still has to choose
FREE_OTHERWISE = 0.65
# where the learning rate falls, what is left of it in the last epoch, and the share of the epochs, the last
# ones, of which one is kept if it can be: the mask has settled; an earlier one may keep all edges
LAST_RATE, SETTLED = 0.05, 0.2
# how many times `cut_weight` the class of cut graphs counts in the refinement, the one stage that asks for it
REFINED_CUT = 4.0
CLASSIFIER = "classifier."  # before the names of the classifier's tensors
VAE_TERMS = ("features", "adjacency", "kl")
CAUSAL_TERMS = ("independence", "causal")


def make_stages(settings: dict[str, Any], network: CIGNN) -> list[Stage]:
    """Algorithm 1 of the paper: the GraphVAE for E_GC epochs, then the subgraph and the classifier.

    Between them and after them the classifier may be trained alone, which the paper does not do.
    """
    stages = [_generative_stage(settings, network)]
    if _warm_up_epochs(settings):
        stages.append(_warm_up_stage(settings, network))
    stages.append(_classification_stage(settings, network))
    if _refinement_epochs(settings):
        stages.append(_refinement_stage(settings, network, stages[-1]))
    return stages


def _generative_stage(settings: dict[str, Any], network: CIGNN) -> Stage:
    """The autoencoder and the causal terms."""

    def begin() -> None:
        network.noisy = True

    return Stage(
        GENERATIVE,
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
        rate=lambda epoch: _rate(epoch, _warm_up_epochs(settings), settings["rate_decay"]),
        remembered=CLASSIFIER,
    )


def _warm_up_epochs(settings: dict[str, Any]) -> int:
    """Length of the warm-up, which leaves at least one epoch to the classification stage."""
    left = settings["epochs"] - settings["generative_epochs"] - _refinement_epochs(settings)
    return min(math.ceil(settings["warm_up"] * left), left - 1)


def _refinement_epochs(settings: dict[str, Any]) -> int:
    """Length of the refinement, which leaves at least one epoch to the classification stage."""
    left = settings["epochs"] - settings["generative_epochs"]
    return min(math.floor(settings["refinement"] * left), left - 1)


def _refinement_stage(settings: dict[str, Any], network: CIGNN, before: Stage) -> Stage:
    """The classifier alone, from where its warm-up ended, on the subgraphs of the mask that was kept.

    before : the stage that found the mask. A classifier that learns while the mask does is taught by drawn
    and by much too small subgraphs, and where the price is given up in the end it has little time to unlearn.
    """
    epochs = _refinement_epochs(settings)

    def begin() -> None:
        network.noisy = False

    return Stage(
        "refinement",
        epochs,
        list(network.classifier.parameters()),
        network.refinement_losses,
        {"classification": 1.0, "cut": REFINED_CUT * settings["cut_weight"]},
        choose_from=0,
        settled_from=epochs // 2 if settings["rate_decay"] and settings["choose_by"] == "accuracy" else 0,
        choose_by=settings["choose_by"],
        price=before.price,
        cut=before.cut,
        rate=lambda epoch: _rate(epoch, epochs, settings["rate_decay"]),
        begin=begin,
        returns=True,
    )


def _classification_stage(settings: dict[str, Any], network: CIGNN) -> Stage:
    """The subgraph and the classifier and, where the encoder is trained too, all terms together."""
    epochs = settings["epochs"] - settings["generative_epochs"]
    epochs -= _warm_up_epochs(settings) + _refinement_epochs(settings)
    stochastic = settings["mask"] == "stochastic"
    falls = math.ceil(settings["keep_anneal"] * epochs) if stochastic else 0
    settled = math.floor((1 - SETTLED) * epochs) if settings["rate_decay"] else 0
    mask = list(network.subgraph.parameters())
    if network.encoder.node_vectors is not None and settings["train_encoder"]:
        mask.append(network.encoder.node_vectors)

    def losses(
        batch: GraphBatch, noise: Noise, keep: Tensor | None = None, **prices: Tensor
    ) -> dict[str, Tensor]:
        return network.classification_losses(batch, keep, settings["reconstruction"] > 0, noise, **prices)

    trial = math.ceil(TRIAL * (epochs - falls))

    def given_up(epoch: int, training: Training) -> bool:
        relative = stochastic and settings["pricing"] == "relative"
        return relative and is_given_up(training.state.history, epoch - falls, trial, free(training))

    def free(training: Training) -> float:
        return max(FREE_LOST, 1 / len(training.validation))

    def numbers(epoch: int, training: Training) -> dict[str, float]:
        if not stochastic:
            return {}
        if given_up(epoch, training):
            return {"keep": max(settings["keep"], FREE_OTHERWISE), "level": 0.0, "least": 1.0}
        found = {"keep": free_share(epoch, falls, settings["keep"], settings["keep_start"])}
        if settings["pricing"] == "relative":
            level = price_level(training.state.history, epoch - falls, free(training))
            found |= {"level": level, "least": PRICE_FLOOR}
        return found

    def anew(epoch: int, training: Training) -> bool:
        """An epoch of small subgraphs is not kept for its small price once larger ones are asked for."""
        return epoch == falls + trial and given_up(epoch, training)

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
            "consistency": settings["cut_weight"],
        }
        | dict.fromkeys(CAUSAL_TERMS, settings["causal_weight"])
        | dict.fromkeys(VAE_TERMS, settings["reconstruction"]),
        numbers=numbers,
        choose_from=min(epochs - 1, falls),
        anew=anew,
        settled_from=settled,
        choose_by=settings["choose_by"],
        patience=settings["patience"],
        price=price if stochastic else None,
        cut=cut if settings["cut_weight"] else None,
        rate=lambda epoch: _rate(epoch, epochs, settings["rate_decay"]),
        begin=begin,
        heirs=_heirs(settings),
        renews=settings["readout"] != "edges",  # edges under a mask of nodes are read without statistics
        fast=mask if settings["mask_lr_factor"] != 1 else (),
        fast_rate=settings["mask_lr_factor"],
        optional=CAUSAL_TERMS,
        capturable=has_way_without_eigenvalues(settings["renyi_order"]),
    )


def _heirs(settings: dict[str, Any]) -> dict[str, str]:
    """What begins as the classifier is after its warm-up: an encoder of the same kind and size.

    The mask then knows from the start what tells the classes apart.
    """
    alike = [("encoder", "classifier"), ("encoder_hidden", "classifier_hidden")]
    same = all(settings[one] == settings[other] for one, other in alike)
    untrained = settings["generative_epochs"] == 0 and settings["encoder_activation"] == "relu"
    warm = settings["readout"] != "edges" and _warm_up_epochs(settings) > 0
    return {"encoder.layers.": f"{CLASSIFIER}layers."} if same and untrained and warm else {}


def price_level(history: Sequence[Mapping[str, Any]], done: int, free: float) -> float:
    """Return how much the price counts, 1 to 0, as the accuracy on validation graphs falls from its best.

    history : rows of the epochs before; done : how many of them had a price in full, counted from the end of
    its rise, less than 0 before; free : accuracy that may be lost at the full price.

    Both accuracies are means over a few epochs, the best one of all since the classifier began to train.
    Subgraphs that lose what whole graphs told are too small: where every edge counts, as in many molecules,
    they grow again.
    """
    return 1.0 if done < 0 else _level(_accuracies(history), free)


def is_given_up(history: Sequence[Mapping[str, Any]], done: int, trial: int, free: float) -> bool:
    """Return whether the price was hardly ever asked in its trial, the first ``trial`` epochs at full price.

    It is then not asked again: it would hold the accuracy at the loss it allows. Other arguments are those
    of `price_level`.
    """
    if not done >= trial > 0:
        return False
    found = _accuracies(history)
    first = len(found) - done
    return bool(np.mean([_level(found[: first + epoch], free) for epoch in range(trial)]) < LEAST_LEVEL)


def _accuracies(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """On validation graphs, of the epochs since the classifier began to train."""
    rows = [row for row in history if row["stage"] != GENERATIVE]
    name = f"{VALIDATION}accuracy" if rows and f"{VALIDATION}accuracy" in rows[0] else f"{VALIDATION}r2"
    return [row[name] for row in rows]


def _level(scores: Sequence[float], free: float) -> float:
    """How much the price counts after epochs of these scores."""
    if len(scores) < LEVEL_EPOCHS:
        return 1.0
    means = np.convolve(scores, np.ones(LEVEL_EPOCHS) / LEVEL_EPOCHS, "valid")
    lost = means.max() - means[-1]
    return float(np.clip((GONE - lost / free) / (GONE - 1), 0, 1))


def _rate(epoch: int, epochs: int, decay: float) -> float:
    """Factor of the learning rate: 1, over the last share ``decay`` of the epochs falling to `LAST_RATE`."""
    left = (epochs - 1 - epoch) / (decay * epochs) if decay else 1.0
    return LAST_RATE + (1 - LAST_RATE) * min(left, 1.0)


def free_share(epoch: int, falls: int, keep: float, start: float = 0.9) -> float:
    """Return the share r of edges free of charge: ``start`` at first, ``keep`` from epoch ``falls`` on."""
    steps = max(1, math.ceil(round((start - keep) / KEEP_STEP, 6)))
    done = steps if epoch >= falls else epoch * steps // falls
    return max(keep, start - KEEP_STEP * done)
