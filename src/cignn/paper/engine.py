"""`reproduce`: run a table or figure of the paper and put our figures beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from cignn._checks import nearest
from cignn._files import write_csv, write_text
from cignn.paper.data import load_sets
from cignn.paper.measure import Origin, Run, measure
from cignn.paper.spec import AXES, Spec, load_spec
from cignn.paper.tables import judge, markdown

SCALES = {"smoke": 1, "full": 3}  # runs; the paper has three
STORE = Path("results") / "paper"


@dataclass(frozen=True)
class Reproduction:
    """A table of the paper with our figures.

    Parameters
    ----------
    spec : Spec
        The table or figure.
    scale : {"smoke", "full"}
        Size of the run.
    table : DataFrame
        One line per figure: data, row, metric, paper, paper_std, ours, ours_std, runs, difference and
        printed.
    missing : dict of str to str
        Data sets that were not there, with the reason and how to get them.
    failures : list of str
        Tasks that failed, one line each.
    claims : dict of str to str
        What the paper says in words, and where it holds for us.
    command : str, default=""
        What was run.
    origins : sequence of Origin, default=()
        When the tasks were run, and with which versions.
    markdown : Path or None, default=None
        The page that was written.
    csv : Path or None, default=None
        The table that was written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cignn.paper import reproduce
    >>> with TemporaryDirectory() as store:
    ...     result = reproduce("data-statistics", store=store, sets=["BA-2Motifs"])
    >>> result.to_markdown().splitlines()[0]
    '# Data statistics'
    """

    spec: Spec
    scale: str
    table: pd.DataFrame
    missing: dict[str, str]
    failures: list[str]
    claims: dict[str, str]
    command: str = ""
    origins: Sequence[Origin] = ()
    markdown: Path | None = None
    csv: Path | None = None

    def to_markdown(self) -> str:
        """Return the page that was written.

        Returns
        -------
        str
            Title, tables, claims, notes, what is missing, and how it was made, as Markdown.
        """
        return markdown(self)

    def __repr__(self) -> str:
        return self.to_markdown()


def reproduce(
    name: str,
    data: str | Path | Mapping[str, Any] | None = None,
    scale: str = "smoke",
    store: str | Path = STORE,
    n_jobs: int = 1,
    *,
    rows: Sequence[str] | None = None,
    sets: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    scheduler: str | None = None,
    verbose: int = 1,
) -> Reproduction:
    """Run one table or figure of the paper and write it as Markdown and CSV, ours beside theirs.

    Parameters
    ----------
    name : str
        One of `names`, such as "explanation-accuracy", "loso" or "ablation".
    data : str, Path, mapping or None, default=None
        The data folder (docs/paper.md says what lies in it), or a mapping of names of data sets to
        `GraphSet`, `Cohort` or path. None is the folder CIGNN_DATA at full scale and small simulated
        stand-ins at smoke scale. A set that is not there is named with how to get it, and the rest runs.
    scale : {"smoke", "full"}, default="smoke"
        "smoke" shows in seconds that it runs, with tiny networks on a few graphs; "full" is the paper's size.
    store : str or Path, default="results/paper"
        Folder in which finished tasks are kept and the tables written; the same command goes on where a
        killed one stopped.
    n_jobs : int, default=1
        Number of processes, as for `evaluate`.
    rows : sequence of str or None, default=None
        Methods to run, by their names in the table; all by default.
    sets : sequence of str or None, default=None
        Data sets to run on; all by default.
    seeds : int, sequence of int or None, default=None
        Number of runs, or their seeds; by default 1 at smoke scale, and at full scale 3, as in the paper, or
        what the spec says.
    scheduler : str or None, default=None
        Address of a Dask cluster, as for `evaluate`.
    verbose : int, default=1
        0 for no progress bar, as for `evaluate`.

    Returns
    -------
    Reproduction
        The table, also written to the store.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cignn.paper import reproduce
    >>> with TemporaryDirectory() as store:
    ...     result = reproduce("data-statistics", store=store, sets=["BA-2Motifs"])
    >>> result.table.loc[result.table["metric"] == "nodes", "paper"].tolist()[0]
    25.0
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be 'smoke' or 'full', got {scale!r}.")
    spec = _narrowed(load_spec(name), rows, sets)
    runs = spec.runs if spec.runs and scale == "full" else SCALES[scale]
    chosen = runs if seeds is None else seeds
    numbers = list(range(chosen)) if isinstance(chosen, int) else [int(seed) for seed in chosen]
    store = Path(store)
    store.mkdir(parents=True, exist_ok=True)
    loaded = load_sets(spec.data, data, scale, spec.load)
    run = Run(scale, store, numbers, n_jobs, scheduler, verbose)
    ours = measure(spec, loaded.sets, run)
    out = store / (name if scale == "full" else f"{name}-smoke")
    result = Reproduction(
        spec,
        scale,
        compare(spec, ours),
        loaded.missing,
        run.failures,
        {claim.text: judge(claim, ours) for claim in spec.claims},
        _command(name, scale, numbers, spec.measure, rows, sets),
        run.origins(),
        out.with_suffix(".md"),
        out.with_suffix(".csv"),
    )
    write_text(out.with_suffix(".md"), result.to_markdown())
    write_csv(out.with_suffix(".csv"), result.table)
    return result


def compare(spec: Spec, ours: pd.DataFrame) -> pd.DataFrame:
    """Put our figures beside the paper's; lines that only one side has stay, with the other empty."""
    theirs = spec.numbers.rename(columns={"value": "paper", "std": "paper_std"})
    same_as = {method.row: method.paper_row for method in spec.methods if method.paper_row}
    again = [theirs[theirs["row"] == old].assign(row=new) for new, old in same_as.items()]
    theirs = pd.concat([theirs, *again], ignore_index=True)
    ours = ours.rename(columns={"value": "ours", "std": "ours_std"})
    table = theirs.merge(ours, on=list(AXES), how="outer", sort=False)
    order = {axis: _order([*theirs[axis], *ours[axis]]) for axis in AXES}
    order["data"] = _order([*spec.data, *order["data"]])
    order["row"] = (
        _order([*(method.row for method in spec.methods), *order["row"]]) if spec.methods else order["row"]
    )
    if spec.measure == "loso":  # sites are rows there, the mean the last one
        order["row"] = {**_order([r for r in [*theirs["row"], *ours["row"]] if r != "Mean"]), "Mean": 10**6}
    table = table.sort_values(
        list(AXES), key=lambda column: column.map(order[column.name]), ignore_index=True
    )
    table["difference"] = table["ours"] - table["paper"]
    columns = [*AXES, "paper", "paper_std", "ours", "ours_std", "runs", "difference", "printed"]
    return table[columns]


def _command(
    name: str,
    scale: str,
    seeds: Sequence[int],
    measure: str,
    rows: Sequence[str] | None,
    sets: Sequence[str] | None,
) -> str:
    parts = [f'"{name}"', "data=...", f'scale="{scale}"']
    parts += [f"seeds={list(seeds)}"] if measure not in ("statistics", "demographics") else []
    parts += [
        f"{word}={list(given)}" for word, given in (("rows", rows), ("sets", sets)) if given is not None
    ]
    return f"reproduce({', '.join(parts)})"


def _order(values: Sequence[str]) -> dict[str, int]:
    return {value: i for i, value in enumerate(dict.fromkeys(values))}


def _narrowed(spec: Spec, rows: Sequence[str] | None, sets: Sequence[str] | None) -> Spec:
    """Return the spec with some of its methods and data sets."""
    if rows is not None:
        known = [method.row for method in spec.methods]
        for row in rows:
            if row not in known:
                raise ValueError(f"{spec.name} has no row {row!r}{nearest(row, known)}")
        spec = replace(spec, methods=tuple(m for m in spec.methods if m.row in rows))
    if sets is not None:
        for one in sets:
            if one not in spec.data:
                raise ValueError(f"{spec.name} has no data {one!r}{nearest(one, spec.data)}")
        spec = replace(spec, data=tuple(one for one in spec.data if one in sets))
    return spec
