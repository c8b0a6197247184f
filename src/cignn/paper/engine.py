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

    table : one line per figure: data, row, metric, paper, paper_std, ours, ours_std, runs, difference
    missing : data set → why it is not there and how to get it; failures : tasks that failed, one line each
    claims : what the paper says in words, and where it holds for us
    command : what was run; origins : when and with which versions; markdown, csv : the files written
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
        """Return the page that was written."""
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
    name : one of `names()`, such as "explanation-accuracy", "loso" or "ablation"
    data : the data folder (docs/paper.md says what lies in it); or data set → `GraphSet`, `Cohort` or path;
        by default CIGNN_DATA at full scale and small simulated stand-ins at smoke scale. A set that is not
        there is named with how to get it, and the rest runs
    scale : "smoke" shows in seconds that it runs, with tiny networks on a few graphs; "full" is the paper's
        size
    store : folder in which finished tasks are kept and the tables written; the same command goes on where a
        killed one stopped
    n_jobs, scheduler, verbose : as for `evaluate`
    rows : methods to run, by their names in the table; all by default
    sets : data sets to run on; all by default
    seeds : how many runs, or their seeds; at full scale 3, as in the paper, or what its spec says
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
        _command(name, scale, numbers, spec.kind, rows, sets),
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
    if spec.kind == "loso":  # sites are rows there, the mean the last one
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
    kind: str,
    rows: Sequence[str] | None,
    sets: Sequence[str] | None,
) -> str:
    parts = [f'"{name}"', "data=...", f'scale="{scale}"']
    parts += [f"seeds={list(seeds)}"] if kind not in ("statistics", "demographics") else []
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
