"""Processes of this machine and workers of a cluster, which do stacks of tasks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from cignn.evaluation.stacks import Stack, run_stack
from cignn.evaluation.tasks import Outcome

IDLE = 20  # seconds after which processes without work end, those of a killed run too
DIED = "TerminatedWorkerError: its process was killed, probably for lack of memory; use fewer processes."


def in_processes(
    stacks: Iterator[Stack],
    data: Mapping[str, Any],
    processes: Callable[[], AbstractContextManager[Parallel]],
    threads: int,
) -> Iterator[Outcome]:
    """Yield outcomes as they come; when a process dies, find the task that kills it and do the others."""
    in_flight: dict[str, Stack] = {}  # by the key of its first task

    def outcomes(some: Iterable[Stack]) -> Iterator[Outcome]:
        def calls() -> Iterator[Any]:
            for stack in some:
                in_flight[stack.tasks[0].key] = stack
                yield delayed(_outcomes)(stack, data[stack.tasks[0].data], threads)

        with processes() as parallel:  # anew after a death: data that lay at the dead are sent again
            for done in parallel(calls()):
                del in_flight[done[0].key]
                yield from done

    def alone(stack: Stack) -> Iterator[Outcome]:
        try:
            yield from outcomes([stack])
        except TerminatedWorkerError:  # by one of its tasks, or by all of them together
            in_flight.clear()
            smaller = stack.smaller()
            if not smaller:
                yield Outcome(stack.tasks[0].key, error=DIED)
            for part in smaller:
                yield from alone(part)

    while True:
        try:
            yield from outcomes(stacks)
            return
        except TerminatedWorkerError:
            suspects = list(in_flight.values())
        in_flight.clear()
        for stack in suspects:  # one at a time: who is alone when a process dies did it
            yield from alone(stack)


def _outcomes(stack: Stack, data: Any, threads: int) -> list[Outcome]:
    return list(run_stack(stack, data, threads))


def gpu_workers(scheduler: str | None, n_jobs: int) -> int:
    """Return how many processes or workers there are where all of them have a GPU, else 0."""
    if scheduler is None:
        return effective_n_jobs(n_jobs) if torch.cuda.is_available() else 0
    with _client(scheduler) as client:
        found = client.run(torch.cuda.is_available)
    return len(found) if all(found.values()) else 0


@contextmanager
def workers(scheduler: str | None, n_jobs: int, threads: int, data: Mapping[str, Any]) -> Iterator[Parallel]:
    """Yield a `Parallel` of processes on this machine or on a Dask cluster; results come as they finish."""
    how = {"return_as": "generator_unordered", "batch_size": 1, "pre_dispatch": "n_jobs"}
    if scheduler is None:
        # copy-on-write: processes share large arrays, and what one writes stays its own
        options = {"inner_max_num_threads": threads, "mmap_mode": "c", "idle_worker_timeout": IDLE}
        with parallel_config("loky", n_jobs=n_jobs, **options):
            yield Parallel(**how)
        return
    with _client(scheduler) as client:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from joblib._dask import DaskDistributedBackend

        class Cluster(DaskDistributedBackend):
            def effective_n_jobs(self, n_jobs: int) -> int:
                # with one, joblib would do all in this process
                return max(2, super().effective_n_jobs(n_jobs))

        try:
            with parallel_config(Cluster(client=client, scatter=list(data.values()))):
                yield Parallel(**how)
        except (KilledWorker, FutureCancelledError) as error:  # the task's own, or data that lay there
            raise TerminatedWorkerError(str(error)) from None


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            'scheduler needs Dask, which is not installed: pip install "cignn[cluster]".'
        ) from None
    client, failure = None, ""
    try:
        client = Client(scheduler, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TypeError: TLS without certificates
        failure = str(error)
    if client is None:
        # What is left of a client stops its loop when it is collected; while the next one starts, that would
        # wait for a lock without end.
        gc.collect()
        advice = "check the address"
        if scheduler.startswith("tls://"):
            advice += " and the certificates that Dask is told of (DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …)"
        raise ValueError(f"no Dask scheduler answers at {scheduler!r} ({failure}); {advice}.")
    with client:
        wide = [address for address, threads in client.nthreads().items() if threads != 1]
        if wide:  # torch's chance is one for all threads of a process
            raise ValueError(
                f"Dask worker {wide[0]} has several threads; start workers with --nthreads 1 "
                "(--nworkers for more of them), else figures depend on what runs beside."
            )
        yield client
