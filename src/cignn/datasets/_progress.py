"""The progress bar over files or subjects, shown when a loader or transformer is verbose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], total: int, what: str, verbose: int) -> Iterator[T]:
    """Yield the items, with a bar and the time left on stderr when ``verbose``."""
    if not verbose:
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TimeRemainingColumn

    columns: list[str | ProgressColumn] = [
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        for item in items:
            yield item
            bar.advance(task)


@contextmanager
def working(what: str, verbose: int) -> Iterator[None]:
    """Say on stderr, when ``verbose``, that work goes on whose end cannot be foreseen, and for how long."""
    if not verbose:
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(), "{task.description}", TimeElapsedColumn(), console=Console(stderr=True)
    ) as bar:
        bar.add_task(what, total=None)
        yield
