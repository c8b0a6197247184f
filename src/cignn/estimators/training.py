"""What a training is made of: stages with named losses, the choice of the epoch, progress and devices.

A network is trained in stages; each says which parameters it trains and by which named losses. The epoch
whose weights are kept is chosen on validation graphs; test graphs never come here. Networks of one kind go
through the same loop side by side, each with its own graphs, seed, moments, running average and best epoch;
what one of them does is the same whatever else is in the stack.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cignn._checks import shown
from cignn._progress import progress_bar
from cignn.estimators.checkpoint import Checkpoint, Saved, State
from cignn.estimators.feeds import Data
from cignn.graphs import GraphBatch
from cignn.nn.model import SingleModel

logger = logging.getLogger(__name__)

# bytes: once a block of this size came back, glibc keeps all that are smaller instead of unmapping them
LARGE_BLOCK = 31 * 2**20
VALIDATION = "validation_"  # before the names of scores in the history
# what the choice of the epoch weighs against accuracies, on whole and on cut graphs together: the price, and
# that training has settled, in accuracy or in graphs, whatever is more
PRICE_WORTH, SETTLED_WORTH, SETTLED_GRAPHS = 0.1, 0.03, 4


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    Parameters
    ----------
    name : str
        Name in the history.
    epochs : int
        Length of the stage.
    parameters : sequence of Parameter
        What the stage trains. A module none of whose parameters is trained is left in evaluation mode: no
        dropout, no moving batch statistics.
    losses : callable
        ``losses(batch, noise, **numbers)`` returns the named terms of a batch.
    weights : dict of str to float
        Weights of the terms in the loss. A term without a weight is recorded only.
    numbers : callable
        ``numbers(epoch, training)`` returns, by name, what changes from epoch to epoch, counted within the
        stage; it may depend on the history of the training.
    choose_from : int or None, default=None
        First epoch of the stage whose weights may be kept; None if none may.
    anew : callable
        ``anew(epoch, training)`` is whether the choice of the epoch begins anew with this one, counted
        within the stage: none before it is kept, because something else is asked of the network now.
    settled_from : int, default=0
        First epoch of the stage in which what is trained has settled: an earlier one is kept only where it
        is clearly better or training ends before.
    choose_by : {"accuracy", "loss"}, default="accuracy"
        How the epoch is chosen, see `keep_better`.
    patience : int or None, default=None
        Epochs without a better one after which training ends.
    price : callable or None, default=None
        ``price(output, batch)`` is what each of a batch of validation graphs costs beyond its cross-entropy.
    cut : callable or None, default=None
        ``cut(output)`` is 1 for the edges of validation graphs that are kept when these are cut to their
        subgraphs, 0 for others. The epoch is then chosen by the accuracy on graphs and on cut graphs.
    rate : callable
        ``rate(epoch)`` is what the learning rate is multiplied by in an epoch of the stage, counted from 0.
    begin : callable
        Called before the first epoch.
    heirs : dict of str to str
        Tensors whose names begin with a key begin the stage as those do whose names begin with its value.
    remembered : str, default=""
        Tensors whose names begin so are remembered as they are at the end of the stage.
    returns : bool, default=False
        Whether the stage begins with the weights of the epoch kept, and what is remembered as it was then.
        Its epochs replace those before unless these are clearly better.
    renews : bool, default=True
        Whether batch statistics are computed anew for the averaged weights before these are validated.
    fast : sequence of Parameter
        Parameters that learn `fast_rate` times as fast as the others and do not decay.
    fast_rate : float, default=1.0
        See `fast`.
    optional : sequence of str
        Terms that are left out of a step in which they are not finite: an estimate beside the task never
        ends a training. The history counts these steps as "skipped_terms".
    capturable : bool, default=True
        Whether a step on CUDA never makes the host wait, so that it can be captured in a CUDA graph.
    """

    name: str
    epochs: int
    parameters: Sequence[nn.Parameter]
    losses: Callable[..., dict[str, Tensor]]
    weights: dict[str, float]
    numbers: Callable[[int, Training], dict[str, float]] = lambda epoch, training: {}
    choose_from: int | None = None
    anew: Callable[[int, Training], bool] = lambda epoch, training: False
    settled_from: int = 0
    choose_by: str = "accuracy"
    patience: int | None = None
    price: Callable[[Any, GraphBatch], Tensor] | None = None
    cut: Callable[[Any], Tensor] | None = None
    rate: Callable[[int], float] = lambda epoch: 1.0
    begin: Callable[[], None] = lambda: None
    heirs: Mapping[str, str] = field(default_factory=dict)
    remembered: str = ""
    returns: bool = False
    renews: bool = True
    fast: Sequence[nn.Parameter] = ()
    fast_rate: float = 1.0
    optional: Sequence[str] = ()
    capturable: bool = True


@dataclass
class Training:
    """A network and all that its training depends on; afterwards the network has the weights that were kept.

    class_weight : (classes,) what a validation graph of each class counts, None for scores. error : why the
    training failed.
    """

    network: SingleModel
    stages: Sequence[Stage]
    training: Data
    validation: Data
    class_weight: np.ndarray | None
    seed: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    ema_decay: float = 0.0
    checkpoint: Checkpoint | None = None
    state: State = field(default_factory=State)
    error: BaseException | None = None

    def stage_at(self, position: int) -> tuple[int, int]:
        """Number of the stage, and the epoch within it, of an epoch of the whole training."""
        for number, stage in enumerate(self.stages):
            if position < stage.epochs:
                return number, position
            position -= stage.epochs
        raise IndexError("the training has no more epochs")

    @property
    def epochs(self) -> int:
        """Number of epochs of all stages."""
        return sum(stage.epochs for stage in self.stages)

    def load(self) -> Saved | None:
        """Read the checkpoint, where there is one."""
        names = {id(parameter): name for name, parameter in self.network.named_parameters()}

        def trained(position: int) -> set[str]:
            return {names[id(parameter)] for parameter in self.stages[self.stage_at(position)[0]].parameters}

        return None if self.checkpoint is None else self.checkpoint.load(self.network, trained)


Progress = Callable[[list[Training]], None]  # called after every epoch with the networks in training


def interrupt_training(one: Training, interrupt: KeyboardInterrupt) -> None:
    """Keep the best weights of a training that the user has stopped, if it has any."""
    epoch, best = one.state.epoch + 1, one.state.best_epoch
    logger.warning("interrupted in epoch %d; keeping the weights of epoch %d", epoch, best)
    one.state.interrupted = True
    if not one.state.best_weights:
        one.error = interrupt


def record(
    state: State, stage: Stage, losses: dict[str, float], scores: dict[str, float], seconds: float
) -> None:
    """Write an epoch into the history."""
    row = {"epoch": state.epoch + 1, "stage": stage.name, **losses}
    row |= {f"{VALIDATION}{name}": value for name, value in scores.items()}
    state.history.append(row | {"seconds": seconds})
    state.epoch += 1


def divergence(stage: Stage, epoch: int, losses: dict[str, float]) -> FloatingPointError | None:
    """The error of a training whose loss is no longer a number."""
    bad = [name for name, value in losses.items() if not np.isfinite(value)]
    if np.isfinite(losses["loss"]):
        return None
    return FloatingPointError(
        f"training diverged in stage {stage.name}, epoch {epoch}: {', '.join(bad)} not finite; "
        "lower learning_rate."
    )


def check_validation(one: Training) -> FloatingPointError | None:
    """The error of a training without an epoch to keep; warn of epochs with a loss that is not finite."""
    state = one.state
    bad = [row["epoch"] for row in state.history if not np.isfinite(_cost(row, VALIDATION))]
    remedy = "lower learning_rate and look for extreme values in the validation graphs"
    if bad and not state.best_weights and any(stage.choose_from is not None for stage in one.stages):
        return FloatingPointError(
            f"the validation loss is not finite in any epoch that could be kept, first in epoch {bad[0]}; "
            f"{remedy}."
        )
    if bad:
        what = "the validation loss is not finite in %d of %d epochs, first in epoch %d; these were not kept"
        logger.warning(f"{what}; {remedy}", len(bad), len(state.history), bad[0])
    return None


def keep_memory() -> None:
    """Let the C library keep freed memory for the next step: to map it anew costs a tenth of a step."""
    torch.empty(LARGE_BLOCK, dtype=torch.uint8)


def settled(state: State, stage: Stage) -> bool:
    """Whether the stage's patience has passed since the best epoch."""
    waited = state.epoch - state.best_epoch
    return stage.patience is not None and bool(state.best_weights) and waited >= stage.patience


def train_mode(network: nn.Module, stage: Stage) -> None:
    """Switch to training whatever the stage trains, and nothing else."""
    trained = {id(parameter) for parameter in stage.parameters}
    network.train()
    for module in network.modules():
        own = [id(parameter) for parameter in module.parameters()]
        if own and trained.isdisjoint(own):
            module.eval()


def keep_better(
    state: State,
    stage: Stage,
    epoch: int,
    scores: dict[str, float],
    weights: Callable[[], dict[str, Tensor]],
    n_graphs: int,
) -> None:
    """Keep the weights of an epoch if no earlier one did better on the validation graphs, n_graphs of them.

    Better is a higher accuracy and, at the same accuracy, a lower cross-entropy and price together; by
    "loss", the latter alone: where signal is weak the accuracy of a few validation graphs is mostly luck.
    Where graphs are also cut to their subgraphs, the accuracy on these counts as much, and a tenth of the
    price is taken off: large masks are cut to nearly whole graphs, whose class is easily told. An epoch
    before training has settled must be clearly better than those after. An epoch whose cost is no number is
    never kept.
    """
    cost = _cost(scores)
    if stage.choose_from is None or epoch < stage.choose_from or not np.isfinite(cost):
        return
    name = next(iter(scores))  # "accuracy", or what a network of scores has instead
    merit = scores[name] if stage.choose_by == "accuracy" else 0.0
    if stage.choose_by == "accuracy" and f"cut_{name}" in scores:
        merit += scores[f"cut_{name}"] - PRICE_WORTH * scores["price"]
    if epoch < stage.settled_from:
        merit -= clear_difference(n_graphs)
    score = (merit, -cost)
    if state.best_score and score < state.best_score:
        return
    # all or nothing, also when Ctrl-C comes while the weights are copied
    state.best_score, state.best_epoch, state.best_weights = score, state.epoch, weights()


def clear_difference(n_graphs: int) -> float:
    """By how much an epoch that is not meant to be kept must be better on so many validation graphs."""
    return max(SETTLED_WORTH, SETTLED_GRAPHS / n_graphs)


def expect_better(one: Training) -> None:
    """Count the epoch kept as less, by as much as makes a clear difference: those that follow are meant.

    One from before its stage had settled counts as so much less already.
    """
    if not one.state.best_score:
        return
    number, epoch = one.stage_at(one.state.best_epoch - 1)
    if epoch >= one.stages[number].settled_from:
        merit, *rest = one.state.best_score
        one.state.best_score = (merit - clear_difference(len(one.validation)), *rest)


def _cost(scores: dict[str, Any], prefix: str = "") -> float:
    """What validation graphs cost: cross-entropy and price."""
    return scores[f"{prefix}loss"] + scores[f"{prefix}price"]


@contextmanager
def training_progress(verbose: int, everything: Sequence[Training]) -> Iterator[Progress | None]:
    """Yield what shows the epochs of `train`: a bar with time left and the last scores, or None.

    everything : all that will be trained, at once or one after the other.
    """
    if not verbose:
        yield None
        return
    with progress_bar("{task.fields[note]}", period=30) as bar:
        task = bar.add_task("training", total=None, note="")

        def show(trainings: list[Training]) -> None:
            rows = [one.state.history[-1] for one in trainings if one.state.history]
            if not rows:
                return
            scored = next(name for name in rows[0] if name.startswith(VALIDATION))
            loss, score = (np.mean([row[k] for row in rows]) for k in ("loss", scored))
            note = f"loss {loss:.3f}, {scored.replace('_', ' ')} {score:.3f}"
            name = rows[0]["stage"] + (f", {len(rows)} networks" if len(rows) > 1 else "")
            now = {id(one) for one in trainings}
            # an early end of a network shows as a leap
            ended = [bool(one.state.epoch) and id(one) not in now for one in everything]
            done = sum(
                one.epochs if end else one.state.epoch for one, end in zip(everything, ended, strict=True)
            )
            total = sum(one.epochs for one in everything)
            bar.update(task, completed=done, total=total, description=name, note=note)

        yield show
        ready = all(one.error is None and not one.state.interrupted for one in everything)
        if ready and any(one.state.epoch < one.epochs for one in everything):  # some ended early
            total = sum(one.epochs for one in everything)
            bar.update(task, completed=total, total=total)


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Switch off dropout, noise and batch statistics, and leave the network in the mode it was in."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


def resolve_device(device: Any) -> torch.device:
    """Return the device named; "auto" is CUDA where there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device) if isinstance(device, (str, torch.device)) else None
    except RuntimeError:
        resolved = None
    if resolved is None or resolved.type not in ("cpu", "cuda"):  # others lack the float64 we need
        raise ValueError(f'device must be "auto", "cpu" or "cuda", got {shown(device)}.')
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f'device "{resolved}" was asked for, but no CUDA device is there; use device="auto".'
        )
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f'device "{resolved}" was asked for, but CUDA devices here are numbered 0 to '
            f'{torch.cuda.device_count() - 1}; use device="auto".'
        )
    return resolved
