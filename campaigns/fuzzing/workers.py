"""Processes that read damaged inputs; one that dies or hangs is blamed on its input and replaced."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.fuzzing.cases import CRASH, HANG, Case, Judge, Verdict, make_case
from campaigns.fuzzing.readers import Files, Reader

PATIENCE = 20.0  # seconds for one input; more is a hang
STARTING = 120.0  # seconds until a process has imported everything
MEMORY = 2**31  # bytes a process may take beyond what it has at the start: no sample needs a hundredth of it

Samples = Mapping[str, list[Files]]
Job = tuple[str, int] | Case  # a target and a number, or a case from elsewhere


class Worker:
    """A process and the input that it reads."""

    def __init__(self, seed: int, registry: str, samples: Path, folder: Path) -> None:
        context = get_context("spawn")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.log = folder / "log.txt"
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, seed, registry, samples, folder), daemon=True
        )
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.until = time.monotonic() + STARTING
        self.ready = False

    def give(self, job: Job, patience: float) -> None:
        """Have an input read."""
        self.job, self.until = job, time.monotonic() + patience
        self.pipe.send(job)

    def end(self, abort: bool = False) -> str:
        """End the process; returns what it wrote last, of an abort where it was."""
        if self.process.is_alive():
            if abort and self.process.pid is not None:
                os.kill(self.process.pid, signal.SIGABRT)
                self.process.join(5)
            self.process.kill()
        self.process.join()
        self.pipe.close()
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text.partition("\nExtension modules:")[0][-6000:]  # their names hide where it was


class Answer(NamedTuple):
    """A job and what came of it."""

    job: Job
    verdict: Verdict


def run(
    jobs: Iterable[Job],
    *,
    seed: int,
    registry: str,
    samples: Samples,
    folder: Path,
    n_jobs: int = 1,
    patience: float = PATIENCE,
) -> Iterator[Answer]:
    """Yield what came of each job, in the order they finish.

    registry : the module whose ``TARGETS`` the processes read with.
    """
    todo = iter(jobs)
    made = 0
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "samples.pickle"  # too much for the pipe to a process, if it should die at once
    kept.write_bytes(pickle.dumps(samples))

    def start() -> Worker:
        nonlocal made
        made += 1
        return Worker(seed, registry, kept, folder / f"worker-{made}")

    workers = [start() for _ in range(n_jobs)]
    try:
        while workers:
            events = connection.wait([w.pipe for w in workers], timeout=0.5)
            for worker in list(workers):
                answer = None
                if worker.pipe in events:
                    answer = _received(worker)
                elif time.monotonic() > worker.until:
                    answer = Verdict(HANG, "", f"load {os.getloadavg()[0]:.1f}\n{worker.end(abort=True)}")
                else:
                    continue
                if worker.job is not None and answer is not None:
                    yield Answer(worker.job, answer)
                if not worker.process.is_alive() or (answer is not None and answer.outcome in (CRASH, HANG)):
                    if not worker.ready:
                        raise RuntimeError(f"a process could not start:\n{worker.end()}")
                    workers[workers.index(worker)] = start()
                    continue
                job = next(todo, None)
                if job is None:
                    worker.end()
                    workers.remove(worker)
                else:
                    worker.give(job, patience)
    finally:
        for worker in workers:
            worker.end()


def _received(worker: Worker) -> Verdict | None:
    """Return the verdict that a process sent, None when it says that it is ready, or that it died."""
    try:
        answer = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join(5)
        code = worker.process.exitcode
        return Verdict(CRASH, f"exit code {code}", worker.end())
    if isinstance(answer, Exception):
        raise answer
    worker.ready = True
    return answer


def _serve(pipe: Any, seed: int, registry: str, kept: Path, folder: Path) -> None:
    log = (folder / "log.txt").open("w")
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    faulthandler.enable(log)
    samples: Samples = pickle.loads(kept.read_bytes())
    readers: Mapping[str, Reader] = import_module(registry).TARGETS
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    _limit_memory()
    judge = Judge(folder)
    pipe.send(None)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            case = job if isinstance(job, Case) else make_case(seed, *job, readers[job[0]], samples[job[0]])
            answer: Any = judge(case, readers[case.target])
        except Exception:  # of the campaign itself
            answer = RuntimeError(f"{job}: the campaign is broken\n{traceback.format_exc()}")
        pipe.send(answer)
        if isinstance(job, tuple) and job[1] % 200 == 0:
            gc.collect()
            sys.stdout.flush()
            log.truncate(0)


def _limit_memory() -> None:
    """Let a reader that believes a header run into a limit, not into the machine's."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
