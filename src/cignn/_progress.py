"""Progress on stderr: bars with the time left, and a sign of life where the end cannot be foreseen.

One display at a time: what begins while another is shown says nothing. rich is loaded when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

_shown = 0  # displays on the screen


@contextmanager
def progress_bar(note: str | None = None, period: float = 600.0) -> Iterator[Progress]:
    """Yield a bar: description, how many of how many, time left, then ``note``, a template of task fields.

    period : seconds over which the speed is estimated
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns: list[str | ProgressColumn] = ["{task.description}", BarColumn(), MofNCompleteColumn()]
    columns += [TimeRemainingColumn(), *([] if note is None else [TextColumn(note)])]
    with _alone(), Progress(*columns, console=Console(stderr=True), speed_estimate_period=period) as bar:
        yield bar


def track(items: Iterable[T], what: str, total: int, verbose: int) -> Iterator[T]:
    """Yield the items, with a bar when ``verbose``."""
    if not verbose or _shown:
        yield from items
        return
    with progress_bar() as bar:
        yield from bar.track(items, total=total, description=what)


@contextmanager
def working(what: str, verbose: int) -> Iterator[None]:
    """Show on a terminal, when ``verbose``, that work without countable steps goes on."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not verbose or _shown or not console.is_terminal:
        yield
        return
    with _alone(), console.status(escape(what)):
        yield


@contextmanager
def _alone() -> Iterator[None]:
    global _shown
    _shown += 1
    try:
        yield
    finally:
        _shown -= 1
