"""Fit several estimators together: networks of one kind are trained in one stack."""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from cignn._arrays import digest
from cignn._checks import whole
from cignn._random import one_thread
from cignn.estimators.feeds import free_memory
from cignn.estimators.training import Training, training_progress
from cignn.estimators.training_loop import train

if TYPE_CHECKING:
    from cignn.estimators.graph_estimator import EvalSet
    from cignn.estimators.neural import NeuralGraphEstimator, Plan
    from cignn.graphs import GraphSet

# networks at once on several cores, which wait for each other less often the more there is to do, and the
# node pairs of a step that is worth its overhead
CPU_NETWORKS, MOST_ON_CPU = 5, 50
CPU_CELLS = 32 * 116**2
# graphs that are not aligned: networks at once, and the node pairs of a batch up to which it saves overhead;
# larger ones are padded to the largest of all networks
PADDED_NETWORKS, PADDED_CELLS = 6, 2**17
COPIES = 24  # of a batch's matrices and features that a step of one network keeps for its gradients
SHARE = 0.6  # of the free memory of a GPU that a stack may take
MOST = 512


class Fit(NamedTuple):
    """An estimator and the arguments of its ``fit``."""

    estimator: NeuralGraphEstimator
    graphs: GraphSet
    y: Any = None
    eval_set: EvalSet = None


def stackable(estimator: Any) -> Hashable | None:
    """What estimators have to share to be trained in one stack; None for one that trains no network."""
    if not hasattr(estimator, "_plan"):
        return None
    own = ("random_state", "checkpoint", "verbose")
    params = {name: v for name, v in estimator.get_params(deep=False).items() if name not in own}
    return digest(type(estimator).__name__, {name: repr(v) for name, v in params.items()})


def fit_together(fits: Sequence[Fit], *, networks: int | str = "auto") -> list[Exception | None]:
    """Fit every estimator in place; returns the exceptions of those that failed, None for the others.

    networks : how many to train at once at the most; "auto" is what memory allows. Ctrl-C keeps what is ready
    in every estimator; those that have nothing yet raise `KeyboardInterrupt`.
    """
    if networks != "auto":
        networks = whole("networks", networks, 1)
    plans: list[Plan | Exception] = []
    for fit in fits:
        try:
            plans.append(fit.estimator._plan(fit.graphs, fit.y, fit.eval_set))
        except Exception as error:
            plans.append(error)
    kinds = _kinds(plan for plan in plans if not isinstance(plan, Exception))
    everything = [one for kind in kinds for one in kind]
    verbose = max((fit.estimator.verbose for fit in fits), default=0)
    with one_thread(), training_progress(verbose, everything) as progress:
        for kind in kinds:
            if any(one.state.interrupted for one in everything):
                for one in kind:
                    one.error = KeyboardInterrupt()
            else:
                _train_kind(kind, networks, progress)
    failures = [_accept(fit.estimator, plan) for fit, plan in zip(fits, plans, strict=True)]
    for failure in failures:
        if isinstance(failure, KeyboardInterrupt):
            raise failure
    return failures  # type: ignore[return-value]


def _accept(estimator: NeuralGraphEstimator, plan: Plan | Exception) -> BaseException | None:
    try:
        if isinstance(plan, Exception):
            return plan
        estimator._accept(plan)
    except (Exception, KeyboardInterrupt) as error:
        return error
    return None


def _kinds(plans: Iterable[Plan]) -> list[list[Training]]:
    """Put the networks that can be trained together together."""
    kinds: dict[Any, list[Training]] = {}
    for plan in plans:
        for one in plan.trainings:
            kinds.setdefault(id(one) if plan.kind is None else plan.kind, []).append(one)
    return list(kinds.values())


def _train_kind(trainings: list[Training], networks: int | str, progress: Any) -> None:
    """Train networks of one kind, as many at once as asked for or as memory allows."""
    size = at_once(trainings[0]) if isinstance(networks, str) else networks
    with _threads(trainings[0]):
        _train_parts(trainings, size, progress)


@contextmanager
def _threads(training: Training) -> Iterator[None]:
    """Train on one thread where most steps are small.

    Several threads wait for each other after each of hundreds of small operations, on a busy machine for many
    times as long as the operations take; and results then do not depend on their number.
    """
    before = torch.get_num_threads()
    try:
        if _small(training, np.median(training.training.sizes)):
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


def _train_parts(trainings: list[Training], size: int, progress: Any) -> None:
    """Train networks of one kind, so many at once, fewer where memory does not suffice."""
    rest = list(trainings)
    while rest:
        some, rest = rest[:size], rest[size:]
        enough = True
        try:
            train(some, progress)
        except torch.cuda.OutOfMemoryError as error:
            enough = False
            if len(some) == 1:
                some[0].error = error.with_traceback(None)  # which would hold the memory
        except Exception as error:  # a file that cannot be read, a device that fails: others go on
            for one in some:
                one.error = one.error or error
        except KeyboardInterrupt as interrupt:  # before the first epoch: networks that are ready are kept
            for one in some:
                one.state.interrupted, one.error = True, interrupt
        if not enough:  # only here, without the exception, is what the networks held free again
            gc.collect()
            torch.cuda.empty_cache()
            size, rest = max(1, len(some) // 2), [one for one in some if one.error is None] + rest
        elif any(one.state.interrupted for one in some):
            for one in rest:
                one.error = KeyboardInterrupt()
            return


def _small(training: Training, size: float) -> bool:
    """Whether steps on a CPU are mostly overhead: graphs of so many nodes that are not aligned."""
    if next(training.network.parameters()).device.type != "cpu" or training.training.graphs.aligned:
        return False
    return min(training.batch_size, len(training.training)) * size**2 <= PADDED_CELLS


def at_once(training: Training) -> int:
    """How many networks of this kind fit into memory."""
    device = next(training.network.parameters()).device
    n = int(training.training.sizes.max())
    length = min(training.batch_size, len(training.training))
    if device.type == "cpu":
        if not training.training.graphs.aligned:
            return PADDED_NETWORKS if _small(training, n) else 1
        least = CPU_NETWORKS if torch.get_num_threads() > 1 else 1
        return max(least, min(MOST_ON_CPU, least * CPU_CELLS // (length * n**2)))
    layers = [parameter for parameter in training.network.parameters() if parameter.dim() == 2]
    width = max([n, 136, *(len(layer) for layer in layers)])
    batch = COPIES * 4 * length * n * width
    weights = 8 * 4 * sum(parameter.numel() for parameter in training.network.parameters())
    return max(1, min(MOST, int(SHARE * free_memory(device)) // (batch + weights)))
