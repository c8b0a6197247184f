"""Tables of numbers from .mat files, read by processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from cignn._array_files import UnreadableError
from cignn._checks import MOST, DataError, Option, name_some
from cignn.datasets import mat_worker
from cignn.datasets.roi_tables import RoiTable

PATIENCE = 15.0  # seconds for a file; the largest of REST-meta-MDD take a tenth of one
SPEED = 10 * 2**20  # bytes a second: large files on slow disks have as much more
WORTHWHILE = 500  # files for which another process is worth its start
WORKER = Path(mat_worker.__file__)
# what CONN puts among its regions: tissues, and covariates of the first level
NO_REGION = re.compile(
    r"gr[ae]y[ _]matter|white[ _]matter|csf|effect of .*|realignment|scrubbing|q[ac]_.*", re.IGNORECASE
)


class MatReader:
    """Reads any number of .mat files, from several threads at once; to be used in a ``with`` statement.

    A process is started when it is needed, and again after one that died.

    Parameters
    ----------
    n_files : int, default=1
        How many files there will be. To start a process takes as long as to read some hundred files, so there
        is one for each so many, and the other threads wait.
    """

    def __init__(self, n_files: int = 1) -> None:
        self._idle: list[subprocess.Popen] = []
        self._free = threading.Semaphore(1 + n_files // WORTHWHILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            _end(self._idle.pop())

    def read(self, path: Path, variable: str | None = None, whole: bool = False) -> RoiTable:
        """Return the table of a variable, or of the file's one table, ``ROISignals`` or CONN's ``data``.

        whole : whether to keep what CONN puts beside the regions, see `NO_REGION`.
        """
        with self._free:
            about, content = self._answer(path, variable)
        if "wrong" in about:
            raise UnreadableError(about["wrong"])
        if "shape" not in about:
            raise _choice(about)
        table = RoiTable(np.frombuffer(content, np.float32).reshape(about["shape"]), about["names"])
        return _regions_of(table) if about["cells"] and not whole else table

    def _answer(self, path: Path, variable: str | None) -> tuple[dict[str, Any], bytearray]:
        """What a process says of a file, and its bytes; where it dies, whether it crashed or was too late."""
        seconds = PATIENCE + path.stat().st_size / SPEED
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _start()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            worker.kill()

        patience = threading.Timer(seconds, give_up)
        patience.start()
        try:
            answer = _ask(worker, path, variable)
        except (OSError, EOFError, ValueError):  # the process is gone
            _end(worker)
            if late.is_set():
                raise UnreadableError(f"was not read within {seconds:.0f} seconds; save it again.") from None
            raise UnreadableError("is damaged: it crashed SciPy's reader; save or get it again.") from None
        except BaseException:
            _end(worker)
            raise
        finally:
            patience.cancel()
        self._idle.append(worker)
        return answer


def _choice(about: dict[str, Any]) -> DataError:
    """What to say of a file with several tables, or without the one asked for."""
    if "several" in about:
        several = about["several"]
        problem = f"holds several arrays ({name_some(several)})"
        return DataError(problem, values=several, options=[Option("variable", tuple(several[:MOST]))])
    problem = f"has no table of numbers called {about['without']}, only {name_some(about['found']) or 'none'}"
    return DataError(problem, values=about["found"], options=[Option("variable", advice="change {}")])


def _regions_of(table: RoiTable) -> RoiTable:
    """Leave out the tissues and covariates of CONN."""
    if table.names is None:
        return table
    keep = [i for i, name in enumerate(table.names) if not NO_REGION.fullmatch(name)]
    if len(keep) in (0, len(table.names)):
        return table
    return RoiTable(table.values[:, keep], [table.names[i] for i in keep])


def _start() -> subprocess.Popen:
    paths = os.pathsep.join(path for path in sys.path if path)  # where this process finds SciPy
    worker = subprocess.Popen(
        [sys.executable, "-P", str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    with suppress(ImportError, AttributeError, OSError):  # Linux alone has pipes of a chosen size
        import fcntl

        assert worker.stdout is not None
        fcntl.fcntl(worker.stdout, fcntl.F_SETPIPE_SZ, 2**20)  # a whole file at once
    return worker


def _ask(worker: subprocess.Popen, path: Path, variable: str | None) -> tuple[dict[str, Any], bytearray]:
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(json.dumps([str(path.absolute()), variable]).encode() + b"\n")
    worker.stdin.flush()
    about = json.loads(worker.stdout.readline() or "")
    content = bytearray(about.get("bytes", 0))
    rest = memoryview(content)
    while len(rest):
        got = worker.stdout.readinto(rest)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        rest = rest[got:]
    return about, content


def _end(worker: subprocess.Popen) -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not sent has no reader any more
                pipe.close()
