"""The training engine: one loop for a single network and for a stack of them.

A network is trained in stages; each says which parameters it trains and by which named losses. The epoch
whose weights are kept is chosen on validation graphs; test graphs never come here. Networks of one kind go
through the same loop side by side, each with its own graphs, seed, moments, running average and best epoch;
what one of them does is the same whatever else is in the stack.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn._checks import shown
from cignn._progress import progress_bar
from cignn.estimators.captured import Captured, Read
from cignn.estimators.checkpoint import Checkpoint, Saved, State
from cignn.estimators.feeds import Data, Feed, ahead
from cignn.estimators.network_stack import NetworkStack, stacked_state
from cignn.graphs import GraphBatch
from cignn.nn.model import SingleModel
from cignn.nn.noise import Noise

logger = logging.getLogger(__name__)

# bytes: once a block of this size came back, glibc keeps all that are smaller instead of unmapping them
LARGE_BLOCK = 31 * 2**20
VALIDATION = "validation_"  # before the names of scores in the history
VALIDATION_CELLS = {"cpu": 2**21, "cuda": 2**26}  # node pairs that a stack reads at once without learning
COUNT = "graphs of "  # before the names of terms: the number of graphs they are sums over
STALE = 0.75  # share of networks still in training below which those that have ended leave a captured stack


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
        ``numbers(epoch)`` returns, by name, what changes from epoch to epoch, counted within the stage.
    choose_from : int or None, default=None
        First epoch of the stage whose weights may be kept; None if none may.
    choose_by : {"accuracy", "loss"}, default="accuracy"
        How the epoch is chosen, see `_choose`.
    patience : int or None, default=None
        Epochs without a better one after which training ends.
    price : callable or None, default=None
        ``price(output, batch)`` is what each of a batch of validation graphs costs beyond its cross-entropy.
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
    losses: Callable[..., dict[str, Tensor]]
    weights: dict[str, float]
    numbers: Callable[[int], dict[str, float]] = lambda epoch: {}
    choose_from: int | None = None
    choose_by: str = "accuracy"
    patience: int | None = None
    price: Callable[[Any, GraphBatch], Tensor] | None = None
    begin: Callable[[], None] = lambda: None
    fast: Sequence[nn.Parameter] = ()
    fast_rate: float = 1.0
    optional: Sequence[str] = ()


@dataclass
class Training:
    """A network and all that its training depends on; afterwards the network has the weights that were kept.

    class_weight : (classes,) what a validation graph of each class counts. error : why the training failed.
    """

    network: SingleModel
    stages: Sequence[Stage]
    training: Data
    validation: Data
    class_weight: np.ndarray
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


def train(trainings: Sequence[Training], progress: Progress | None = None) -> None:
    """Train networks of one kind together, through all stages.

    Each is left with the weights of its chosen epoch, in evaluation mode, or has an ``error``. What is
    validated and kept is a running average of the weights with the decay ``ema_decay`` per step; 0 means the
    weights themselves. A stage begins with the averaged weights of the one before, so that what it does not
    train stays as it is. Ctrl-C ends the training and keeps the best weights so far.
    """
    keep_memory()
    saved: dict[int, Saved | None] = {}
    groups: dict[int, list[Training]] = {}
    for one in trainings:
        try:
            saved[id(one)] = found = one.load()
        except ValueError as error:
            one.error = error
            continue
        one.state = one.state if found is None else found.state
        groups.setdefault(one.state.epoch, []).append(one)  # checkpoints may be of different epochs
    for same in groups.values():
        if any(one.state.interrupted for one in trainings):  # Ctrl-C is meant for all
            for one in same:
                _interrupt(one, KeyboardInterrupt())
        else:
            TrainingLoop(same, progress).run([saved[id(one)] for one in same])
    for one in trainings:
        one.error = one.error or _check_validation(one)
        if one.state.best_weights:
            one.network.load_state_dict(one.state.best_weights)
        one.network.eval()


class TrainingLoop:
    """Networks of one kind that are trained side by side from the same epoch on."""

    stack: NetworkStack | None = None

    def __init__(self, trainings: Sequence[Training], progress: Progress | None) -> None:
        self.members = list(trainings)  # in the order of the stack's rows
        self.done: list[bool] = [False] * len(trainings)
        # the first lends its modules, so its stages say what is computed; numbers are each one's own
        self.network, self.programs = trainings[0].network, trainings[0].stages
        some = next(self.network.parameters())
        self.device, self.dtype = some.device, some.dtype
        self.progress = progress
        self.feed = Feed(
            [data for one in trainings for data in (one.training, one.validation)],
            self.network.prepare,
            self.device,
            self.dtype,
        )
        self.capture = self.device.type == "cuda" and self.feed.resident

    def run(self, saved: Sequence[Saved | None]) -> None:
        """Train to the end, or to Ctrl-C."""
        try:
            self._train(saved)
        except KeyboardInterrupt as interrupt:
            for one, done in zip(self.members, self.done, strict=True):
                if not done:
                    _interrupt(one, interrupt)

    def _train(self, saved: Sequence[Saved | None]) -> None:
        first, last = self.members[0].state.epoch, self.members[0].epochs
        for position in range(first, last):
            number, epoch = self.members[0].stage_at(position)
            self._end([_settled(one.state, one.stages[number]) for one in self.members])
            if all(self.done):
                return
            if position == first:
                self.begin(number)
                self._restore(saved, fresh=epoch == 0)
            elif epoch == 0:
                self.begin(number, self.stack.tensors(average=True))
            started = time.perf_counter()
            losses = self._train_epoch(position, epoch)
            scores = self._evaluate()
            seconds = (time.perf_counter() - started) / self.done.count(False)
            self._finish_epoch(number, epoch, losses, scores, seconds)

    def begin(self, number: int, tensors: dict[str, Tensor] | None = None) -> None:
        """Begin a stage: its moments are zero, its weights those given or, at first, the networks' own."""
        if tensors is None:
            tensors = stacked_state([one.network for one in self.members])
        self.stages = [one.stages[number] for one in self.members]
        self.stage = stage = self.programs[number]
        stage.begin()
        names = {id(parameter): name for name, parameter in self.network.named_parameters()}
        fast = [names[id(parameter)] for parameter in stage.fast]
        slow = [names[id(p)] for p in stage.parameters if names[id(p)] not in fast]
        taken = [float(one.state.steps) for one in self.members]
        steps = torch.tensor(taken, dtype=self.dtype, device=self.device)
        self.stack = NetworkStack(self.network, tensors, [*slow, *fast], len(fast), steps)
        self._number_networks()

    def _restore(self, saved: Sequence[Saved | None], fresh: bool) -> None:
        """Bring what a checkpoint holds beside the weights back; a stage that is new has no moments."""
        for row, one in enumerate(saved):
            if one is None:
                continue
            parts = [(self.stack.tensors(average=True), one.average)]
            parts += [(self.stack.tensors(), one.average if fresh else one.network)]
            if not fresh:
                parts += [(self.stack.moments()[name], one.moments[name]) for name in ("mean", "square")]
                self.stack.adam_steps[row] = one.adam_steps
            for mine, theirs in parts:
                for name, value in mine.items():
                    value[row] = theirs[name].to(self.device)

    def _number_networks(self) -> None:
        """Collect the numbers that differ from network to network, (networks,) each."""

        def column(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, dtype=self.dtype, device=self.device)

        members, stages = self.members, self.stages
        self.rates = {
            "learning_rate": column([one.learning_rate for one in members]),
            "fast_rate": column([stage.fast_rate for stage in stages]),
            "weight_decay": column([one.weight_decay for one in members]),
            "ema_decay": column([one.ema_decay for one in members]),
        }
        self.decays = any(one.weight_decay for one in members)
        names = [name for name in stages[0].weights if any(stage.weights.get(name) for stage in stages)]
        self.term_weights = {name: column([stage.weights[name] for stage in stages]) for name in names}
        self.numbers = {name: column([0.0] * len(members)) for name in self.stage.numbers(0)}
        self.noise = Noise([torch.Generator(self.device) for _ in members])
        self.captured = Captured(self.noise.generators) if self.capture else None
        self.sums: dict[str, Tensor] = {}

    def _end(self, ended: Sequence[bool]) -> None:
        """Take networks that have ended out of the stack; a captured one keeps a few instead."""
        self.done = [a or b for a, b in zip(self.done, ended, strict=True)]
        left = [row for row, done in enumerate(self.done) if not done]
        if not left or not any(self.done) or self.stack is None:
            return
        if self.capture and len(left) >= STALE * len(self.done):
            return
        self.stack.keep(torch.tensor(left, device=self.device))
        self.members, self.stages = [self.members[i] for i in left], [self.stages[i] for i in left]
        self.done = [False] * len(left)
        self._number_networks()

    # ------------------------------------------------------------------ training

    def _train_epoch(self, position: int, epoch: int) -> list[dict[str, float]]:
        """One pass over the training graphs; returns every network's mean of every term over its graphs."""
        train_mode(self.network, self.stage)
        plans = []
        for one, generator in zip(self.members, self.noise.generators, strict=True):
            rng = np.random.default_rng([one.seed, position])
            generator.manual_seed(int(rng.integers(2**63 - 1)))
            plans.append(one.training.batches(one.batch_size, rng))
        for name in self.numbers:
            now = [stage.numbers(epoch)[name] for stage in self.stages]
            self.numbers[name].copy_(torch.tensor(now))
        for total in self.sums.values():
            total.zero_()
        lengths = [0 if done else len(plan) for done, plan in zip(self.done, plans, strict=True)]
        data = [one.training for one in self.members]
        steps = range(max(lengths))
        # a network with fewer batches than others reads one of them again, and stays where it is
        positions = [[plan[step % len(plan)] for plan in plans] for step in steps]
        taking = [[float(step < n) for n in lengths] for step in steps]
        active = torch.tensor(taking, dtype=self.dtype, device=self.device)
        for batch, now in zip(self.batches(data, positions), active, strict=True):
            self.take(batch, now)
        for one, n in zip(self.members, lengths, strict=True):
            one.state.steps += n
        return self._means()

    def batches(self, data: Sequence[Data], positions: Sequence[Sequence[np.ndarray]]) -> Iterator[Read]:
        """Yield the batches of the networks, step by step."""
        widths = [self.feed.width(data, at) for at in positions]
        own = [self._own_widths(data, at) for at in positions]
        rows = [np.stack([one.rows[i] for one, i in zip(data, at, strict=True)]) for at in positions]
        labels = [np.stack([one.y[i] for one, i in zip(data, at, strict=True)]) for at in positions]
        y = [torch.from_numpy(label.astype(np.int64)).to(self.device, non_blocking=True) for label in labels]
        if self.feed.resident:
            places = [torch.from_numpy(row).to(self.device, non_blocking=True) for row in rows]
            for place, label, width, mine in zip(places, y, widths, own, strict=True):
                yield Read(data, place, label, width, mine)
            return
        makers = [
            partial(self.feed.read, data, at, width) for at, width in zip(positions, widths, strict=True)
        ]
        for found, label, width, mine in zip(ahead(makers), y, widths, own, strict=True):
            yield Read(data, found, label, width, mine)

    def _own_widths(self, data: Sequence[Data], at: Sequence[np.ndarray]) -> list[int] | None:
        """Numbers of nodes each network would pad to alone: its random numbers must not depend on others.

        A captured step draws as many each time, for the largest graph.
        """
        if not self.feed.padded:
            return None
        if self.capture:
            return [int(one.sizes.max()) for one in data]
        return [int(one.sizes[i].max()) for one, i in zip(data, at, strict=True)]

    def take(self, batch: Read, active: Tensor) -> None:
        """Take a step, captured where that is possible."""
        if self.captured is not None:
            self.captured.run(self._step, batch, active)
        else:
            self._step(batch, active)

    def _step(self, batch: Read, active: Tensor) -> None:
        """Take one step of every active network."""
        stage = self.stage
        self.noise.widths = batch.own

        def losses(tensors: dict[str, Tensor], y: Tensor, numbers: dict[str, Tensor]) -> dict[str, Tensor]:
            graphs = GraphBatch.of(tensors | {"y": y}, self.feed.padded)
            return stage.losses(graphs, self.noise, **numbers)

        terms = self.stack.apply(losses, batch.tensors(self.feed), batch.y, self.numbers)
        finite = {name: terms[name].detach().isfinite() for name in stage.optional if name in terms}
        usable = {n: torch.where(finite[n], v, 0.0) if n in finite else v for n, v in terms.items()}
        weighed = [weight * usable[name] for name, weight in self.term_weights.items() if name in usable]
        total = torch.stack(weighed).sum(0)
        self.stack.step(total, active, **self.rates, decays=self.decays)
        with torch.no_grad():
            length = batch.y.shape[1]
            for name, value in {"loss": total, **usable}.items():
                counted = active * finite[name] if name in finite else active
                self._add(name, torch.where(counted > 0, value.detach() * length, 0.0))
                self._add(f"{COUNT}{name}", counted * length)
            for good in finite.values():
                self._add("skipped_terms", active * ~good)

    def _add(self, name: str, value: Tensor) -> None:
        """Add to a sum over the epoch, (networks,)."""
        if name in self.sums:
            self.sums[name] += value
        else:
            self.sums[name] = value.clone()

    def _means(self) -> list[dict[str, float]]:
        """Return the mean of every term over its graphs, and the number of skipped terms."""
        names = list(self.sums)
        table = torch.stack([self.sums[name] for name in names]).double().cpu().numpy()
        rows = []
        for column in table.T:
            values = dict(zip(names, column.tolist(), strict=True))
            row = {}
            for name in names:
                if values.get(f"{COUNT}{name}"):
                    row[name] = values[name] / values[f"{COUNT}{name}"]
            if self.stage.optional:
                row["skipped_terms"] = int(values.get("skipped_terms", 0))
            rows.append(row)
        return rows

    # ---------------------------------------------------------------- validation

    @torch.no_grad()
    def _evaluate(self) -> list[dict[str, float]]:
        """Accuracy, cross-entropy and price of every network on its validation graphs, without noise.

        Accuracy and cross-entropy are means over graphs that count by the weight of their class.
        """
        self.network.eval()
        price = self.stage.price
        data = [one.validation for one in self.members]
        orders = [np.argsort(-one.sizes, kind="stable") for one in data]
        most = max(len(order) for order in orders)
        counts = np.zeros((2, len(data), most), np.float32)  # of graphs, and by their class; 0 fills up
        for row, (one, order) in enumerate(zip(self.members, orders, strict=True)):
            counts[0, row, : len(order)] = 1
            counts[1, row, : len(order)] = one.class_weight[one.validation.y[order]]
        filled = np.stack([np.resize(order, most) for order in orders])
        cells = VALIDATION_CELLS[self.device.type] // (len(data) * self.feed.widest**2)
        cuts = [slice(i, i + max(cells, 1)) for i in range(0, most, max(cells, 1))]

        def score(tensors: dict[str, Tensor], y: Tensor, count: Tensor) -> Tensor:
            batch = GraphBatch.of(tensors | {"y": y}, self.feed.padded)
            out = self.network(batch)
            right = (out.logits.argmax(1) == y).float()
            loss = F.cross_entropy(out.logits, y, reduction="none")
            cost = torch.zeros_like(loss) if price is None else price(out, batch)
            values = torch.stack([right * count[1], loss * count[1], cost * count[0]])
            return torch.where(torch.stack([count[1], count[1], count[0]]) > 0, values, 0.0).double().sum(1)

        weights = torch.from_numpy(counts.swapaxes(0, 1).copy()).to(self.device)
        sums = torch.zeros(len(data), 3, dtype=torch.float64, device=self.device)
        read = self.batches(data, [list(filled[:, part]) for part in cuts])
        for batch, part in zip(read, cuts, strict=True):
            tensors = batch.tensors(self.feed)
            sums += self.stack.apply(score, tensors, batch.y, weights[:, :, part], average=True)
        by_class, graphs = counts[1].sum(1), counts[0].sum(1)
        found = sums.cpu().numpy() / np.stack([by_class, by_class, graphs], 1)
        return [dict(zip(("accuracy", "loss", "price"), row, strict=True)) for row in found.tolist()]

    # --------------------------------------------------------------- bookkeeping

    def _finish_epoch(
        self,
        number: int,
        epoch: int,
        losses: Sequence[dict[str, float]],
        scores: Sequence[dict[str, float]],
        seconds: float,
    ) -> None:
        """Write the epoch into the histories, choose, save and show."""
        failed = [False] * len(self.members)
        for row, one in enumerate(self.members):
            if self.done[row]:
                continue
            stage = one.stages[number]
            one.error = _divergence(stage, one.state.epoch + 1, losses[row])
            failed[row] = one.error is not None
            if failed[row]:
                continue
            _record(one.state, stage, losses[row], scores[row], seconds)
            if _better(one.state, stage, epoch, scores[row]):
                one.state.best_weights = self.stack.state_of(row, average=True)
            if one.checkpoint is not None:
                self._save(row)
        if self.progress is not None:
            self.progress([one for one, done in zip(self.members, self.done, strict=True) if not done])
        self._end(failed)

    def _save(self, row: int) -> None:
        """Write the checkpoint of a network."""
        one = self.members[row]
        assert one.checkpoint is not None
        moments = {kind: {n: v[row] for n, v in part.items()} for kind, part in self.stack.moments().items()}
        states = [self.stack.state_of(row), self.stack.state_of(row, average=True)]
        one.checkpoint.save(*states, moments, int(self.stack.adam_steps[row]), one.state)


def _interrupt(one: Training, interrupt: KeyboardInterrupt) -> None:
    """Keep the best weights of a training that the user has stopped, if it has any."""
    epoch, best = one.state.epoch + 1, one.state.best_epoch
    logger.warning("interrupted in epoch %d; keeping the weights of epoch %d", epoch, best)
    one.state.interrupted = True
    if not one.state.best_weights:
        one.error = interrupt


def _record(
    state: State, stage: Stage, losses: dict[str, float], scores: dict[str, float], seconds: float
) -> None:
    """Write an epoch into the history."""
    row = {"epoch": state.epoch + 1, "stage": stage.name, **losses}
    row |= {f"{VALIDATION}{name}": value for name, value in scores.items()}
    state.history.append(row | {"seconds": seconds})
    state.epoch += 1


def _divergence(stage: Stage, epoch: int, losses: dict[str, float]) -> FloatingPointError | None:
    """The error of a training whose loss is no longer a number."""
    bad = [name for name, value in losses.items() if not np.isfinite(value)]
    if np.isfinite(losses["loss"]):
        return None
    return FloatingPointError(
        f"training diverged in stage {stage.name}, epoch {epoch}: {', '.join(bad)} not finite; "
        "lower learning_rate."
    )


def _check_validation(one: Training) -> FloatingPointError | None:
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


def _settled(state: State, stage: Stage) -> bool:
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


def _better(state: State, stage: Stage, epoch: int, scores: dict[str, float]) -> bool:
    """Whether no earlier epoch did better on the validation graphs; if so, remember this one.

    Better is a higher accuracy and, at the same accuracy, a lower cross-entropy and price together; by
    "loss", the latter alone: where signal is weak the accuracy of a few validation graphs is mostly luck.
    An epoch whose cost is no number is never kept.
    """
    cost = _cost(scores)
    if stage.choose_from is None or epoch < stage.choose_from or not np.isfinite(cost):
        return False
    score = (scores["accuracy"] if stage.choose_by == "accuracy" else 0.0, -cost)
    if state.best_score and score < state.best_score:
        return False
    state.best_score, state.best_epoch = score, state.epoch
    return True


def _cost(scores: dict[str, Any], prefix: str = "") -> float:
    """What validation graphs cost: cross-entropy and price."""
    return scores[f"{prefix}loss"] + scores[f"{prefix}price"]


@contextmanager
def training_progress(verbose: int) -> Iterator[Progress | None]:
    """Yield what shows the epochs of `train`: a bar with time left and the last scores, or None."""
    if not verbose:
        yield None
        return
    with progress_bar("{task.fields[note]}", period=30) as bar:
        task = bar.add_task("training", total=None, note="")

        def show(trainings: list[Training]) -> None:
            rows = [one.state.history[-1] for one in trainings if one.state.history]
            if not rows:
                return
            loss, accuracy = (np.mean([row[k] for row in rows]) for k in ("loss", "validation_accuracy"))
            note = f"loss {loss:.3f}, validation accuracy {accuracy:.3f}"
            name = rows[0]["stage"] + (f", {len(rows)} networks" if len(rows) > 1 else "")
            bar.update(
                task, completed=rows[0]["epoch"], total=trainings[0].epochs, description=name, note=note
            )

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
