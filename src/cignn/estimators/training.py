"""The training loop every network of the package goes through.

A network is trained in stages; each says which parameters it trains and by which named losses. The epoch
whose weights are kept is chosen on validation graphs; test graphs never come here.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn._checks import shown
from cignn._progress import progress_bar
from cignn.estimators.checkpoint import Checkpoint, State
from cignn.graphs import GraphBatch, GraphSet

logger = logging.getLogger(__name__)

# bytes: once a block of this size came back, glibc keeps all that are smaller instead of unmapping them
LARGE_BLOCK = 31 * 2**20
VALIDATION = "validation_"  # before the names of scores in the history
WARM_UP = 10  # steps in which the running average of the weights has to forget where they began


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
        ``losses(batch, epoch)`` returns the named terms of a batch, the epoch counted within the stage.
    weights : dict of str to float
        Weights of the terms in the loss. A term without a weight is recorded only.
    choose_from : int or None, default=None
        First epoch of the stage whose weights may be kept; None if none may.
    choose_by : {"accuracy", "loss"}, default="accuracy"
        How the epoch is chosen, see `_choose`.
    patience : int or None, default=None
        Epochs without a better one after which training ends.
    price : callable or None, default=None
        ``price(output, batch)`` is what a batch of validation graphs costs beyond its cross-entropy.
    begin : callable
        Called before the first epoch.
    fast : sequence of Parameter
        Parameters that learn `fast_rate` times as fast as the others and do not decay.
    fast_rate : float, default=1.0
        See `fast`.
    optional : sequence of str
        Terms that are left out of a step in which they are not finite: an estimate beside the task never
        ends a training. The history counts these steps as "skipped_terms".
    """

    name: str
    epochs: int
    parameters: Sequence[nn.Parameter]
    losses: Callable[[GraphBatch, int], dict[str, Tensor]]
    weights: dict[str, float]
    choose_from: int | None = None
    choose_by: str = "accuracy"
    patience: int | None = None
    price: Callable[[Any, GraphBatch], Tensor] | None = None
    begin: Callable[[], None] = lambda: None
    fast: Sequence[nn.Parameter] = ()
    fast_rate: float = 1.0
    optional: Sequence[str] = ()


Progress = Callable[[dict[str, Any]], None]  # gets the row of the history after every epoch


@dataclass
class Data:
    """Graphs with their class numbers, and how they are cut into batches.

    class_weight : (classes,) what a graph of each class counts in `evaluate`; None when all count the same.
    """

    graphs: GraphSet
    y: np.ndarray
    batch_size: int
    device: torch.device
    class_weight: np.ndarray | None = None

    def batches(self, shuffle: bool = False) -> Iterable[GraphBatch]:
        """Yield the batches on the device."""
        for index in self.graphs.batch_indices(self.batch_size, shuffle):
            yield self.graphs.batch(index, self.y).to(self.device)


class RunningAverage:
    """A copy of a network whose weights and batch statistics follow those of the network.

    The tensors are listed once: collecting them at every step would take longer than moving them.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = copy.deepcopy(network)
        pairs = list(zip(self.network.state_dict().values(), network.state_dict().values(), strict=True))
        self._moving = [pair for pair in pairs if pair[0].is_floating_point()]
        self._counts = [pair for pair in pairs if not pair[0].is_floating_point()]

    @torch.no_grad()
    def follow(self, ema_decay: float) -> None:
        """Move a step towards the network, forgetting the past by the factor ``ema_decay``."""
        mine, theirs = zip(*self._moving, strict=True)
        torch._foreach_lerp_(mine, theirs, 1 - ema_decay)
        for count, new in self._counts:
            count.copy_(new)


def train(
    network: nn.Module,
    stages: Sequence[Stage],
    training: Data,
    validation: Data,
    *,
    learning_rate: float,
    weight_decay: float,
    ema_decay: float = 0.0,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
) -> State:
    """Train ``network`` through all stages and leave it with the weights of the chosen epoch.

    What is validated and kept is a running average of the weights with the decay ``ema_decay`` per step; 0
    means the weights themselves. A stage begins with the averaged weights of the one before, so that what it
    does not train stays as it is. Ctrl-C ends the training and keeps the best weights so far.
    """
    state = State()
    keep_memory()
    average = RunningAverage(network)
    optimiser: torch.optim.Optimizer | None = None
    position = [(stage, epoch) for stage in stages for epoch in range(stage.epochs)]
    pending = checkpoint.load(network, average.network) if checkpoint is not None else None
    if pending is not None:
        state = pending.state
    try:
        for stage, epoch in position[state.epoch :]:
            if _settled(state, stage):
                break
            if epoch == 0:
                network.load_state_dict(average.network.state_dict())
            if epoch == 0 or optimiser is None:
                stage.begin()
                optimiser = make_optimiser(stage, learning_rate, weight_decay)
            if pending is not None:
                pending.restore(optimiser, fresh=epoch == 0)
                pending = None
            started = time.perf_counter()
            losses = _train_epoch(network, average, stage, epoch, training, optimiser, ema_decay, state)
            scores = evaluate(average.network, validation, stage.price)
            _record(state, stage, losses, scores, time.perf_counter() - started)
            _choose(state, average.network, stage, epoch, scores)
            if checkpoint is not None:
                checkpoint.save(network, average.network, optimiser, state)
            if progress is not None:
                progress(state.history[-1] | {"epochs": len(position)})
    except KeyboardInterrupt:
        logger.warning(
            "interrupted in epoch %d; keeping the weights of epoch %d", state.epoch + 1, state.best_epoch
        )
        if not state.best_weights:
            raise
        state.interrupted = True
    _check_validation(state, stages)
    if state.best_weights:
        network.load_state_dict(state.best_weights)
    network.eval()
    return state


def _record(
    state: State, stage: Stage, losses: dict[str, float], scores: dict[str, float], seconds: float
) -> None:
    """Write an epoch into the history."""
    row = {"epoch": state.epoch + 1, "stage": stage.name, **losses}
    row |= {f"{VALIDATION}{name}": value for name, value in scores.items()}
    state.history.append(row | {"seconds": seconds})
    state.epoch += 1


def _check_validation(state: State, stages: Sequence[Stage]) -> None:
    """Refuse a training without an epoch to keep; warn of epochs whose validation loss is not finite."""
    bad = [row["epoch"] for row in state.history if not np.isfinite(_cost(row, VALIDATION))]
    remedy = "lower learning_rate and look for extreme values in the validation graphs"
    if bad and not state.best_weights and any(stage.choose_from is not None for stage in stages):
        raise FloatingPointError(
            f"the validation loss is not finite in any epoch that could be kept, first in epoch {bad[0]}; "
            f"{remedy}."
        )
    if bad:
        what = "the validation loss is not finite in %d of %d epochs, first in epoch %d; these were not kept"
        logger.warning(f"{what}; {remedy}", len(bad), len(state.history), bad[0])


def keep_memory() -> None:
    """Let the C library keep freed memory for the next step: to map it anew costs a tenth of a step."""
    torch.empty(LARGE_BLOCK, dtype=torch.uint8)


def _settled(state: State, stage: Stage) -> bool:
    """Whether the stage's patience has passed since the best epoch."""
    waited = state.epoch - state.best_epoch
    return stage.patience is not None and bool(state.best_weights) and waited >= stage.patience


def _train_epoch(
    network: nn.Module,
    average: RunningAverage,
    stage: Stage,
    epoch: int,
    data: Data,
    optimiser: torch.optim.Optimizer,
    ema_decay: float,
    state: State,
) -> dict[str, float]:
    """One pass over the training graphs; returns the mean of every named term over the graphs it is of."""
    train_mode(network, stage)
    sums: dict[str, Any] = {}
    graphs: dict[str, int] = {}
    skipped = 0
    for batch in data.batches(shuffle=True):
        losses = gradient_step(stage, epoch, batch, optimiser)
        state.steps += 1
        average.follow(min(ema_decay, state.steps / (state.steps + WARM_UP)))
        unusable = _unusable(stage, losses)
        skipped += len(unusable)
        for name, value in losses.items():
            if name not in unusable:
                sums[name] = sums.get(name, 0.0) + value * len(batch)
                graphs[name] = graphs.get(name, 0) + len(batch)
    means: dict[str, float] = {name: value.item() / graphs[name] for name, value in sums.items()}
    if not np.isfinite(means["loss"]):
        bad = [name for name, value in means.items() if not np.isfinite(value)]
        raise FloatingPointError(
            f"training diverged in stage {stage.name}, epoch {state.epoch + 1}: {', '.join(bad)} not finite; "
            "lower learning_rate."
        )
    return means | ({"skipped_terms": skipped} if stage.optional else {})


def train_mode(network: nn.Module, stage: Stage) -> None:
    """Switch to training whatever the stage trains, and nothing else."""
    trained = {id(parameter) for parameter in stage.parameters}
    network.train()
    for module in network.modules():
        own = [id(parameter) for parameter in module.parameters()]
        if own and trained.isdisjoint(own):
            module.eval()


def make_optimiser(stage: Stage, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """Adam on the parameters of a stage; fused: one pass over all of them instead of a dozen each."""
    fast = {id(parameter) for parameter in stage.fast}
    groups: list[dict[str, Any]] = [{"params": [p for p in stage.parameters if id(p) not in fast]}]
    if fast:
        rate = learning_rate * stage.fast_rate
        groups.append({"params": list(stage.fast), "lr": rate, "weight_decay": 0.0})
    return torch.optim.Adam(groups, lr=learning_rate, weight_decay=weight_decay, fused=True)


def gradient_step(
    stage: Stage, epoch: int, batch: GraphBatch, optimiser: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Take one step of the stage on a batch; returns every named term and their weighted sum, "loss"."""
    losses = stage.losses(batch, epoch)
    usable = losses.keys() - _unusable(stage, losses)
    weighed = [stage.weights[k] * v for k, v in losses.items() if k in usable and stage.weights.get(k)]
    total = torch.stack(weighed).sum()
    optimiser.zero_grad(set_to_none=True)
    total.backward()
    optimiser.step()
    return {name: value.detach() for name, value in {"loss": total, **losses}.items()}


def _unusable(stage: Stage, losses: dict[str, Tensor]) -> list[str]:
    """The optional terms that are not finite."""
    return [name for name in stage.optional if name in losses and not losses[name].isfinite()]


@torch.no_grad()
def evaluate(
    network: nn.Module, data: Data, price: Callable[[Any, GraphBatch], Tensor] | None = None
) -> dict[str, float]:
    """Accuracy, cross-entropy and price of the network on ``data``, without noise.

    Accuracy and cross-entropy are means over graphs that count by the weight of their class.
    """
    network.eval()
    n_classes = 1 + int(data.y.max())
    per_class = np.ones(n_classes) if data.class_weight is None else data.class_weight
    weight = torch.as_tensor(per_class, dtype=torch.float32, device=data.device)
    sums = {"accuracy": 0.0, "loss": 0.0, "price": 0.0}
    for batch in data.batches():
        out = network(batch)
        counts = weight[batch.y]
        sums["accuracy"] += (counts * (out.logits.argmax(1) == batch.y)).sum().item()
        sums["loss"] += (counts * F.cross_entropy(out.logits, batch.y, reduction="none")).sum().item()  # type: ignore[arg-type]
        sums["price"] += 0.0 if price is None else price(out, batch).item() * len(batch)
    total = float(per_class[data.y].sum())
    return {name: sums[name] / (len(data.graphs) if name == "price" else total) for name in sums}


def _choose(state: State, network: nn.Module, stage: Stage, epoch: int, scores: dict[str, float]) -> None:
    """Keep the network's weights when no earlier epoch did better on the validation graphs.

    Better is a higher accuracy and, at the same accuracy, a lower cross-entropy and price together; by
    "loss", the latter alone: where signal is weak the accuracy of a few validation graphs is mostly luck.
    An epoch whose cost is no number is never kept.
    """
    cost = _cost(scores)
    if stage.choose_from is None or epoch < stage.choose_from or not np.isfinite(cost):
        return
    score = (scores["accuracy"] if stage.choose_by == "accuracy" else 0.0, -cost)
    if not state.best_score or score >= state.best_score:
        state.best_score = score
        state.best_epoch = state.epoch
        state.best_weights = {name: value.detach().clone() for name, value in network.state_dict().items()}


def _cost(scores: dict[str, Any], prefix: str = "") -> float:
    """What validation graphs cost: cross-entropy and price."""
    return scores[f"{prefix}loss"] + scores[f"{prefix}price"]


MemberProgress = Callable[[int, dict[str, Any]], None]  # gets the number of the network too


@contextmanager
def training_progress(verbose: int, members: int = 1) -> Iterator[MemberProgress | None]:
    """Yield what shows the epochs of `train`: a bar with time left and the last scores, or None."""
    if not verbose:
        yield None
        return
    with progress_bar("{task.fields[note]}", period=30) as bar:
        task = bar.add_task("training", total=None, note="")

        def show(member: int, row: dict[str, Any]) -> None:
            note = f"loss {row['loss']:.3f}, validation accuracy {row['validation_accuracy']:.3f}"
            name = row["stage"] if members == 1 else f"{row['stage']} {member + 1}/{members}"
            done = member * row["epochs"] + row["epoch"]  # an early end of a member shows as a leap
            bar.update(task, completed=done, total=members * row["epochs"], description=name, note=note)

        yield show


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
