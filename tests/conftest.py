"""What all tests share: one thread each (pytest-xdist brings the processes), the way to the real data, and
a last line where there was no browser.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_limits

from cignn import CIGNNClassifier, GraphSet
from cignn.datasets import make_ba2motifs
from cignn.estimators.training_loop import TrainingLoop
from commands import Result

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    # whatever the machine says: sums of several threads differ in their last bits from run to run
    threads = os.environ.get("CIGNN_TEST_THREADS", "1")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = threads  # of the commands that tests start
    torch.set_num_threads(int(threads))
    threadpool_limits(int(threads))  # of the libraries that are loaded already


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after the other summaries
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """Say in one line that browser tests were skipped: a line of dots does not show it."""
    yield
    skipped = [report.longreprtext for report in terminalreporter.getreports("skipped")]
    missing = sum("chromium and chromedriver are not installed" in reason for reason in skipped)
    if missing:
        terminalreporter.write_line(
            f"{missing} browser tests were skipped: install chromium and chromedriver to run them "
            "(Debian: apt-get install chromium chromium-driver)",
            yellow=True,
        )


def _data_folder() -> Path:
    return Path(os.environ.get("CIGNN_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """``real_data("tu/MUTAG")`` is its path in the real data folder; the test is skipped where it is not."""

    def find(name: str) -> Path:
        path = _data_folder() / name
        if not path.exists():
            pytest.skip(
                f"real data '{name}' is not in {_data_folder()}; set CIGNN_DATA to the folder with it"
            )
        return path

    return find


@pytest.fixture(scope="session")
def data_folder(real_data: Callable[[str], Path]) -> Path:
    """The real data folder; the test is skipped where there is none."""
    return real_data(".")


@pytest.fixture(scope="session")
def graphs() -> GraphSet:
    """Sixty graphs with a motif each."""
    return make_ba2motifs(60, random_state=0)


@pytest.fixture(scope="module")
def fitted(request: pytest.FixtureRequest, graphs: GraphSet) -> CIGNNClassifier:
    """The test file's own ``tiny`` estimator, trained on `graphs`."""
    return request.module.tiny().fit(graphs)


class Counter:
    """Counts the epochs of trainings and raises ``error`` in the midst of the one after ``after``."""

    def __init__(self, after: int | None, error: type[BaseException]) -> None:
        self.after, self.error, self.finished = after, error, 0

    def around(self, train_epoch: Callable[..., Any]) -> Callable[..., Any]:
        """The method that trains an epoch, counted."""

        def counted(loop: TrainingLoop, *args: Any) -> Any:
            means = train_epoch(loop, *args)
            if self.finished == self.after:
                raise self.error
            self.finished += 1
            return means

        return counted


Stop = Callable[..., Counter]


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """``stop(3)`` breaks the next trainings off in epoch 4, ``stop(None)`` only counts."""
    original = TrainingLoop._train_epoch

    def patch(after: int | None, error: type[BaseException] = SystemExit) -> Counter:
        counter = Counter(after, error)
        monkeypatch.setattr(TrainingLoop, "_train_epoch", counter.around(original))
        return counter

    return patch


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command line in this process: the same, without the wait for imports."""
    from cignn.cli import main

    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["cignn", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code or 0
        assert isinstance(code, int)
        return Result(code, *capsys.readouterr())

    return run
