"""The progress bar of a training, shown when the estimator is verbose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cignn.estimators.training import Progress


@contextmanager
def training_progress(verbose: int, epochs: int) -> Iterator[Progress | None]:
    """Yield what `train` tells its epochs to: a bar with time left and the last scores, or nothing."""
    if not verbose:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns: list[str | ProgressColumn] = [
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    ]
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=epochs, note="")

        def show(row: dict[str, Any]) -> None:
            note = f"loss {row['loss']:.3f}, validation accuracy {row['validation_accuracy']:.3f}"
            bar.update(task, completed=row["epoch"], description=row["stage"], note=note)

        yield show
