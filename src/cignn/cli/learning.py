"""Learning curves of an evaluation: the tasks with fewer subjects, the file, the figure and the words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import write_csv
from cignn.cli.app import InterruptedWorkError, say_words, show_table
from cignn.cli.outputs import task_digest
from cignn.cli.settings import names_in

if TYPE_CHECKING:
    import pandas as pd

    from cignn.evaluation import Store

FILE, FIGURE = "learning_curve.csv", "learning_curve.png"

LearningCurveOption = Annotated[
    bool,
    typer.Option(
        "--learning-curve", help="Repeat the evaluation with fewer and fewer training subjects; resumed, too."
    ),
]
Sizes = Annotated[
    str | None,
    typer.Option(
        "--train-sizes",
        help="Shares of the training subjects, or their numbers, for --learning-curve; by default "
        "0.1,0.18,0.32,0.56,1.",
        metavar="SIZES",
    ),
]


def check_sizes(learning_curve: bool, given: str | None) -> list[float]:
    """Return the sizes asked for, the whole among them; refuse what is none."""
    if given is not None and not learning_curve:
        raise typer.BadParameter("is for --learning-curve; add it.", param_hint="'--train-sizes'")
    try:
        sizes = [float(word) for word in names_in(given)]
        if any(not size > 0 or (size > 1 and size != round(size)) for size in sizes):
            raise ValueError
    except ValueError:
        raise typer.BadParameter(
            f"must be shares in (0, 1] or numbers of subjects, got {given}.", param_hint="'--train-sizes'"
        ) from None
    return sorted({*sizes, 1.0}) if sizes else []


def check_curve(sizes: list[float], data: Any, protocol: Any) -> None:
    """Refuse sizes that the data do not allow before anything is trained."""
    from cignn.evaluation import Subsampled
    from cignn.evaluation.learning import SHARES, shares_of
    from cignn.evaluation.splits import labels_of

    labels = labels_of(data)
    Subsampled(protocol, shares_of(sizes or SHARES, labels, protocol)).splits(labels, 0)


def learning_table(
    out: Path,
    methods: dict[str, Any],
    named: dict[str, Any],
    protocol: Any,
    seeds: int,
    sizes: list[float],
    results: pd.DataFrame,
    store: Store,
    **running: Any,
) -> pd.DataFrame:
    """Evaluate with fewer subjects, resuming what is there; write and return the curve with its words."""
    from cignn.evaluation import learning_curve
    from cignn.evaluation.learning import SHARES
    from cignn.report import draw_learning_curve

    before = len(store.tasks())
    try:
        curve = learning_curve(methods, named, protocol, seeds, sizes=sizes or SHARES, store=store, **running)
    except KeyboardInterrupt:
        n = len(store.tasks()) - before
        raise InterruptedWorkError(
            f"the evaluation is done; {n} tasks of its learning curve are kept in {out}; the same command "
            "resumes them."
        ) from None
    keys = results.groupby("method")["key"].unique()
    table = curve.to_frame()
    table["words"] = table["method"].map(curve.words())
    table["keys"] = [task_digest(keys.get(name, ())) for name in table["method"]]
    write_csv(out / FILE, table)
    draw_learning_curve(table, path=out / FIGURE)
    return table


def read_learning(folder: Path, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Read the learning curve of an evaluation; that of tasks which are not its own is none."""
    import pandas as pd

    try:
        table = pd.read_csv(folder / FILE) if (folder / FILE).is_file() else None
    except (ValueError, OSError):
        table = None
    if table is None or not {"method", "keys", "kind", "value", "n"} <= set(table):
        return None
    own = {str(name): task_digest(some) for name, some in rows.groupby("method")["key"].unique().items()}
    table = table[table["keys"] == table["method"].map(own)].reset_index(drop=True)
    return table if len(table) else None


def show_learning(table: pd.DataFrame, out: Path) -> None:
    """Show the scores by number of subjects, and what more of them may bring."""
    from cignn.evaluation.tables import as_mean_std

    measured = table[table["kind"] == "measured"]
    half = (measured["high"] - measured["low"]) / 2
    cells = [as_mean_std(value, width, 2) for value, width in zip(measured["value"], half, strict=True)]
    rows = measured.assign(cell=cells, size=[str(round(n)) for n in measured["n"]])
    wide = rows.pivot_table("cell", "method", "size", aggfunc="first", sort=False).reset_index()
    name = {"roc_auc": "ROC-AUC", "r2": "R²"}.get(measured["metric"].iloc[0], measured["metric"].iloc[0])
    show_table(wide, f"{name} by number of subjects learnt from, with half of its 95 % interval")
    for _, row in measured.drop_duplicates("method").iterrows():
        say_words(f": {row['words']}", bold=str(row["method"]))
    say_words(f"the curve: {out / FIGURE}")
