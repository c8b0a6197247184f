"""The progress bar of a training, shown when the estimator is verbose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cignn._progress import progress_bar

Told = Callable[[int, dict[str, Any]], None]  # told the member trained and what was measured in its epoch


@contextmanager
def training_progress(verbose: int, members: int = 1) -> Iterator[Told | None]:
    """Yield what `train` tells its epochs to: a bar with time left and the last scores, or nothing."""
    if not verbose:
        yield None
        return
    with progress_bar("{task.fields[note]}", period=30) as bar:
        task = bar.add_task("training", total=None, note="")

        def show(member: int, row: dict[str, Any]) -> None:
            note = f"loss {row['loss']:.3f}, validation accuracy {row['validation_accuracy']:.3f}"
            name = row["stage"] if members == 1 else f"{row['stage']} {member + 1}/{members}"
            done = member * row["epochs"] + row["epoch"]  # an early end of a member shows as a leap
            bar.update(task, completed=done, total=members * row["epochs"], description=name, note=note)

        yield show
