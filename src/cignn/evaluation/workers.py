"""Processes that do tasks: joblib's on this machine, or those of a Dask cluster."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from cignn.evaluation.tasks import Outcome, Task, run_task

IDLE = 20  # seconds after which processes without work end, those of a killed run too
DIED = "TerminatedWorkerError: its process was killed, probably for lack of memory; use fewer processes."


def in_processes(
    tasks: Iterator[Task],
    data: Mapping[str, Any],
    processes: Callable[[], AbstractContextManager[Parallel]],
    threads: int,
) -> Iterator[Outcome]:
    """Yield outcomes as they come; when a process dies, find the task that kills it and do the others."""
    in_flight: dict[str, Task] = {}

    def outcomes(some: Iterable[Task]) -> Iterator[Outcome]:
        def calls() -> Iterator[Any]:
            for task in some:
                in_flight[task.key] = task
                yield delayed(run_task)(task, data[task.data], threads)

        with processes() as parallel:  # anew after a death: data that lay at the dead are sent again
            for outcome in parallel(calls()):
                del in_flight[outcome.key]
                yield outcome

    while True:
        try:
            yield from outcomes(tasks)
            return
        except TerminatedWorkerError:
            suspects = list(in_flight.values())
        in_flight.clear()
        for task in suspects:  # one at a time: who is alone when a process dies did it
            try:
                yield from outcomes([task])
            except TerminatedWorkerError:
                in_flight.clear()
                yield Outcome(task.key, error=DIED)


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
