"""The training loop: networks of one kind go through their epochs side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from cignn.estimators.captured import Captured, Read, Step
from cignn.estimators.checkpoint import Saved, State
from cignn.estimators.feeds import Data, Feed, ahead, free_memory
from cignn.estimators.network_stack import NetworkStack, stacked_state
from cignn.estimators.training import (
    Progress,
    Training,
    check_validation,
    divergence,
    expect_better,
    interrupt_training,
    keep_better,
    keep_memory,
    record,
    settled,
    train_mode,
)
from cignn.graphs import GraphBatch
from cignn.nn.layers import NodeNorm
from cignn.nn.noise import Noise

# node pairs that a stack reads at once without learning, and the bytes of free memory a GPU needs for each
VALIDATION_CELLS = {"cpu": 2**21, "cuda": 2**26}
VALIDATION_BYTES = 256
COUNT = "graphs of "  # before the names of terms: the number of graphs they are sums over
RENEWED = 10  # batches that batch statistics of the averaged weights are computed from
STALE = 0.75  # share of networks still in training below which those that have ended leave a captured stack


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
        one.state = State() if found is None else found.state
        groups.setdefault(one.state.epoch, []).append(one)  # checkpoints may be of different epochs
    for same in groups.values():
        if any(one.state.interrupted for one in trainings):  # Ctrl-C is meant for all
            for one in same:
                interrupt_training(one, KeyboardInterrupt())
        else:
            TrainingLoop(same, progress).run([saved[id(one)] for one in same])
    for one in trainings:
        one.error = one.error or check_validation(one)
        if one.state.best_weights:
            one.network.load_state_dict(one.state.best_weights)
        one.network.eval()


def validation_cells(device: torch.device) -> int:
    """Node pairs that may be read at once without learning."""
    most = VALIDATION_CELLS[device.type]
    return most if device.type == "cpu" else min(most, free_memory(device) // VALIDATION_BYTES)


class TrainingLoop:
    """Networks of one kind that are trained side by side from the same epoch on."""

    stack: NetworkStack
    captured: Captured | None

    def __init__(self, trainings: Sequence[Training], progress: Progress | None) -> None:
        self.members = list(trainings)  # in the order of the stack's rows
        self.done: list[bool] = [False] * len(trainings)
        self.begun = False
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

    def run(self, saved: Sequence[Saved | None]) -> None:
        """Train to the end, or to Ctrl-C."""
        try:
            self._train(saved)
        except KeyboardInterrupt as interrupt:
            for one, done in zip(self.members, self.done, strict=True):
                if not done:
                    interrupt_training(one, interrupt)
        finally:  # torch or an exception may know this loop for a while: what takes memory is free at once
            self.feed.pools.clear()
            self.captured = None

    def _train(self, saved: Sequence[Saved | None]) -> None:
        first, last = self.members[0].state.epoch, self.members[0].epochs
        for position in range(first, last):
            number, epoch = self.members[0].stage_at(position)
            self._end([settled(one.state, one.stages[number]) for one in self.members])
            if all(self.done):
                return
            if position == first:
                self.begin(number)
                self._restore(saved, fresh=epoch == 0)
            elif epoch == 0:
                self.begin(number, self.stack.tensors(average=True))
            if epoch == 0:
                self._remember(number)
                self._inherit()
                if self.stage.returns and self.stage.choose_by == "accuracy":
                    for one in self.members:
                        expect_better(one)
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
        self.capture = stage.capturable and self.device.type == "cuda" and self.feed.resident
        stage.begin()
        names = {id(parameter): name for name, parameter in self.network.named_parameters()}
        fast = [names[id(parameter)] for parameter in stage.fast]
        slow = [names[id(p)] for p in stage.parameters if names[id(p)] not in fast]
        taken = [float(one.state.steps) for one in self.members]
        steps = torch.tensor(taken, dtype=self.dtype, device=self.device)
        self.stack = NetworkStack(self.network, tensors, [*slow, *fast], len(fast), steps)
        self.begun = True
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

    def _remember(self, number: int) -> None:
        """Keep what a later stage returns to, as it is at the end of the stage before this one."""
        before = self.members[0].stages[number - 1] if number else None
        if before is None or not before.remembered:
            return
        for row, one in enumerate(self.members):
            state = self.stack.state_of(row, average=True)
            one.state.earlier = {k: v for k, v in state.items() if k.startswith(before.remembered)}

    def _inherit(self) -> None:
        """Let a stage begin with the epoch kept, if it does, and its heirs as those they inherit from."""
        for tensors in (self.stack.tensors(), self.stack.tensors(average=True)):
            for row, one in enumerate(self.members if self.stage.returns else []):
                for name, value in (one.state.best_weights | one.state.earlier).items():
                    tensors[name][row] = value
            for name, value in tensors.items():
                for heir, from_whom in self.stage.heirs.items():
                    if name.startswith(heir):
                        value.copy_(tensors[from_whom + name.removeprefix(heir)])

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
        self.numbers = {name: column([0.0] * len(members)) for name in self.stage.numbers(0, members[0])}
        self.noise = Noise([torch.Generator(self.device) for _ in members])
        self.captured = Captured(self.noise.generators) if self.capture else None
        self.sums: dict[str, Tensor] = {}

    def _end(self, ended: Sequence[bool]) -> None:
        """Take networks that have ended out of the stack; a captured one keeps a few instead."""
        self.done = [a or b for a, b in zip(self.done, ended, strict=True)]
        left = [row for row, done in enumerate(self.done) if not done]
        if not left or not any(self.done) or not self.begun:
            return
        if self.capture and len(left) >= STALE * len(self.done):
            return
        self.stack.keep(torch.tensor(left, device=self.device))
        members, stages = [self.members[i] for i in left], [self.stages[i] for i in left]
        # at once: Ctrl-C finds all of them or none
        self.members, self.stages, self.done = members, stages, [False] * len(left)
        self._number_networks()

    # ------------------------------------------------------------------ training

    def _train_epoch(self, position: int, epoch: int) -> list[dict[str, float]]:
        """One pass over the training graphs; returns every network's mean of every term over its graphs."""
        train_mode(self.network, self.stage)
        plans, seeds = [], []
        for one, generator in zip(self.members, self.noise.generators, strict=True):
            rng = np.random.default_rng([one.seed, position])
            generator.manual_seed(int(rng.integers(2**63 - 1)))
            plans.append(one.training.batches(one.batch_size, rng))
            seeds.append(int(rng.integers(2**63 - 1)))
        pairs = list(zip(self.members, self.stages, strict=True))
        numbers = [stage.numbers(epoch, one) for one, stage in pairs]
        for name, values in self.numbers.items():
            values.copy_(torch.tensor([given[name] for given in numbers], dtype=self.dtype))
        rates = [one.learning_rate * stage.rate(epoch) for one, stage in pairs]
        self.rates["learning_rate"].copy_(torch.tensor(rates, dtype=self.dtype))
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
            self.take(self._step, batch, now)
        for one, n in zip(self.members, lengths, strict=True):
            one.state.steps += n
        for generator, seed in zip(self.noise.generators, seeds, strict=True):
            generator.manual_seed(seed)  # it has gone as far as the longest training of the stack
        self._renew(data, [[plan[step % len(plan)] for plan in plans] for step in range(RENEWED)])
        return self._means()

    def batches(self, data: Sequence[Data], positions: Sequence[Sequence[np.ndarray]]) -> Iterator[Read]:
        """Yield the batches of the networks, step by step."""
        widths = [self.feed.width(data, at) for at in positions]
        own = [self._own_widths(data, at) for at in positions]
        rows = [np.stack([one.rows[i] for one, i in zip(data, at, strict=True)]) for at in positions]
        labels = [np.stack([one.y[i] for one, i in zip(data, at, strict=True)]) for at in positions]
        y = [self._labels(label) for label in labels]
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

    def _labels(self, labels: np.ndarray) -> Tensor:
        """Class numbers as they are, scores in the precision of the networks, on the device."""
        whole = labels.dtype.kind != "f"
        given = torch.from_numpy(labels.astype(np.int64) if whole else labels)
        given = given if whole else given.to(self.dtype)
        return given.to(self.device, non_blocking=True)

    def _own_widths(self, data: Sequence[Data], at: Sequence[np.ndarray]) -> list[int] | None:
        """Numbers of nodes each network would pad to alone: its random numbers must not depend on others.

        On CUDA, where steps may be captured, it is as many each time, for the largest graph.
        """
        if not self.feed.padded:
            return None
        if self.device.type == "cuda":
            return [int(one.sizes.max()) for one in data]
        return [int(one.sizes[i].max()) for one, i in zip(data, at, strict=True)]

    def take(self, step: Step, batch: Read, active: Tensor) -> None:
        """Take a step, captured where that is possible."""
        if self.captured is not None:
            self.captured.run(step, batch, active)
        else:
            step(batch, active)

    def _step(self, batch: Read, active: Tensor) -> None:
        """Take one step of every active network."""
        stage = self.stage
        terms = self._terms(batch)
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

    @torch.no_grad()
    def _renew(self, data: Sequence[Data], positions: Sequence[Sequence[np.ndarray]]) -> None:
        """Compute the batch statistics of the averaged weights anew, from these batches.

        Those that steps collect are of the weights of the steps. Their average is not that of the averaged
        weights, and networks that read with it may see other subgraphs than those they were trained on.
        """
        norms = [module for module in self.network.modules() if isinstance(module, NodeNorm)]
        averaged = (self.rates["ema_decay"] > 0).to(self.dtype)
        if not (norms and self.stage.renews and any(one.ema_decay for one in self.members)):
            return
        try:
            for norm in norms:
                norm.momentum = 1.0  # a pass finds the statistics of its batch
            for number, batch in enumerate(self.batches(data, positions)):
                self.take(self._renewal, batch, averaged / (number + 1))  # a mean over the batches
        finally:
            for norm in norms:
                norm.momentum = NodeNorm.momentum

    def _renewal(self, batch: Read, share: Tensor) -> None:
        """Move the batch statistics of the averaged weights by a share (networks,) towards this batch's."""
        self._terms(batch, average=True)
        self.stack.keep_changed(NodeNorm.RUNNING, share)

    def _terms(self, batch: Read, average: bool = False) -> dict[str, Tensor]:
        """Terms of the loss of every network's batch, (networks,) each, by the averaged weights if asked."""
        stage = self.stage
        self.noise.widths = batch.own

        def losses(tensors: dict[str, Tensor], y: Tensor, numbers: dict[str, Tensor]) -> dict[str, Tensor]:
            graphs = GraphBatch.of(tensors | {"y": y}, self.feed.padded)
            return stage.losses(graphs, self.noise, **numbers)

        return self.stack.apply(losses, batch.tensors(self.feed), batch.y, self.numbers, average=average)

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
        """Accuracy (or R²), loss and price of every network on its validation graphs, without noise.

        Accuracy and cross-entropy are means over graphs that count by the weight of their class. Where the
        stage cuts graphs, there is the accuracy on cut graphs too.
        """
        self.network.eval()
        score_name = self.network.score_name
        names = (score_name, "loss", "price", f"cut_{score_name}")[: 3 if self.stage.cut is None else 4]
        data = [one.validation for one in self.members]
        orders = [np.argsort(-one.sizes, kind="stable") for one in data]
        most = max(len(order) for order in orders)
        counts = np.zeros((2, len(data), most), np.float32)  # of graphs, and by their class; 0 fills up
        for row, (one, order) in enumerate(zip(self.members, orders, strict=True)):
            counts[0, row, : len(order)] = 1
            weight = one.class_weight
            counts[1, row, : len(order)] = 1 if weight is None else weight[one.validation.y[order]]
        filled = np.stack([np.resize(order, most) for order in orders])
        length = max(1, validation_cells(self.device) // (len(data) * self.feed.widest**2))
        cuts = [slice(i, i + length) for i in range(0, most, length)]

        weights = torch.from_numpy(counts.swapaxes(0, 1).copy()).to(self.device)
        sums = torch.zeros(len(data), len(names), dtype=torch.float64, device=self.device)
        read = self.batches(data, [list(filled[:, part]) for part in cuts])
        for batch, part in zip(read, cuts, strict=True):
            sums += self._score(batch, weights[:, :, part])  # not captured: large batches, once an epoch
        by_class, graphs = counts[1].sum(1), counts[0].sum(1)
        totals = np.stack([by_class, by_class, graphs, by_class], 1)[:, : len(names)]
        found = sums.cpu().numpy() / totals
        return [dict(zip(names, row, strict=True)) for row in found.tolist()]

    def _score(self, batch: Read, counts: Tensor) -> Tensor:
        """Sums of scores over a batch; counts : (networks, 2, b), of graphs, and of graphs by their class."""
        price, cut = self.stage.price, self.stage.cut

        def score(tensors: dict[str, Tensor], y: Tensor, count: Tensor) -> Tensor:
            graphs = GraphBatch.of(tensors | {"y": y}, self.feed.padded)
            out = self.network(graphs)
            right, loss = self.network.graph_scores(out.logits, y)
            cost = torch.zeros_like(loss) if price is None else price(out, graphs)
            scores = [(right, count[1]), (loss, count[1]), (cost, count[0])]
            if cut is not None:
                left = self.network(graphs, cut(out)).logits
                scores.append((self.network.graph_scores(left, y)[0], count[1]))
            return torch.stack([torch.where(n > 0, v * n, 0.0).double().sum() for v, n in scores])

        return self.stack.apply(score, batch.tensors(self.feed), batch.y, counts, average=True)

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
            one.error = divergence(stage, one.state.epoch + 1, losses[row])
            failed[row] = one.error is not None
            if failed[row]:
                continue
            if stage.anew(epoch, one):
                one.state.best_score = ()  # its weights stay until there are others
            record(one.state, stage, losses[row], scores[row], seconds)
            weights = partial(self.stack.state_of, row, average=True)
            keep_better(one.state, stage, epoch, scores[row], weights, len(one.validation))
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
        network, average = self.stack.state_of(row), self.stack.state_of(row, average=True)
        one.checkpoint.save(network, average, moments, int(self.stack.adam_steps[row]), one.state)
