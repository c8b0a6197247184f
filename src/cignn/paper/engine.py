"""`reproduce`: run a spec of the paper and set its tables beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from cignn._checks import nearest
from cignn._files import write_csv, write_text
from cignn.evaluation.statistics import critical_difference
from cignn.paper.data import load_sets
from cignn.paper.measure import Origin, Run, measure
from cignn.paper.spec import AXES, Claim, Spec, load_spec

if TYPE_CHECKING:
    from cignn.paper.spec import Method


HOLDOUT = (
    "Random splits 80/10/10, stratified, one per seed, or the split that comes with the data; the epoch is "
    "chosen on the validation part."
)
PROTOCOLS = {
    "loso": "Each site is tested once; the epoch is chosen on other sites that are not trained on.",
    "independence": "Trained on 90 % of the graphs, stage I alone.",
}


def markdown(result: Reproduction) -> str:
    """Return title, tables, claims, notes, what is missing, and how it was made."""
    spec = result.spec
    where, word = f"The paper's {spec.source}", "paper"
    if not spec.source:
        where, word = "Not a table of the paper: the numbers are those of other papers", "published"
    lines = [f"# {spec.title}", "", f"{where}. Difference is ours − {word}.", ""]
    if result.scale == "smoke":
        lines += [
            "**Smoke run: tiny networks, a few graphs. These figures say that it runs, nothing else.**",
            "",
        ]
    table = result.table
    measured = table.groupby("data")["ours"].transform(lambda ours: ours.notna().any()).astype(bool)
    table = table[measured]
    if (table["row"] == "").all():  # one row for each data set: one table
        lines += [*_table(table.assign(row=table["data"]), word), ""]
    else:
        for name, part in table.groupby("data", sort=False):
            lines += [f"## {name}", "", *_table(part, word), ""]
    if result.claims and result.scale == "full":
        lines += ["## What the paper says", ""]
        lines += [f"- {text}: **{verdict}**." for text, verdict in result.claims.items()] + [""]
    notes = [*spec.notes, *(f"Failed: {line}" for line in result.failures)]
    if notes:
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    if result.missing:
        lines += [
            "## Data that are not here",
            "",
            *(f"- **{k}**: {v}" for k, v in result.missing.items()),
            "",
        ]
    lines += ["## How it was made", "", f"`{result.command}`", ""]
    lines += [f"- {_origin(origin)}" for origin in result.origins] + [""]
    if spec.methods and spec.measure != "ranks":
        graphs = f" Brain graphs have density {spec.density:g}." if spec.density is not None else ""
        protocol = PROTOCOLS.get(spec.measure, HOLDOUT)
        lines += [f"{protocol}{graphs} Settings that are not named are the defaults.", ""]
        lines += [f"- {method.row}: {_settings(method)}" for method in spec.methods]
    return "\n".join(lines) + "\n"


def _origin(origin: Origin) -> str:
    """When some of the tasks were run, and with what."""
    packages = ", ".join(f"{name} {version}" for name, version in origin.versions.items() if version)
    tasks = f"{origin.tasks} task{'s' * (origin.tasks > 1)} on " if origin.tasks else ""
    return f"{tasks}{origin.days} with {packages}"


def _settings(method: Method) -> str:
    """Which classifier and explainer a row is, with the settings its spec names."""
    params = ", ".join(f"{name}={value!r}" for name, value in method.params.items())
    text = f"`{method.estimator}`" + (f" ({params})" if params else "")
    text += f", graphs of density {method.density:g}" if method.density is not None else ""
    text += f", explained by `{method.explainer}`" if method.explainer else ""
    text += f", reading the top half of edges by `{method.subgraph_of}`" if method.subgraph_of else ""
    return text + "".join(f"; on {name} {_settings(method.for_data(name))}" for name in method.on)


def _table(part: pd.DataFrame, word: str) -> list[str]:
    """Rows by metrics: for each metric the paper's figure, ours and the difference; word : whose it is."""
    printed = part.groupby("metric", sort=False)["paper"].apply(lambda paper: paper.notna().any())
    heads = [""]
    for metric, known in printed.items():
        heads += [f"{metric}, {word}", "ours", "Δ"] if known else [f"{metric}, ours"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    figures = part.set_index(["row", "metric"])
    for row in dict.fromkeys(part["row"]):
        cells = [str(row)]
        for metric, known in printed.items():
            one = figures.loc[(row, metric)] if (row, metric) in figures.index else pd.Series(dtype=object)
            like = one.get("printed")
            ours = _figure(one.get("ours"), one.get("ours_std"), like=like)
            if known:
                cells.append("" if like is None or pd.isna(like) else str(like))
            cells.append(ours)
            if known:
                cells.append(_figure(one.get("difference"), like=like, sign="+"))
        lines.append(_line(cells))
    return lines


def _figure(value: object, std: object = None, *, like: object = None, sign: str = "") -> str:
    """A number with one digit more than the paper prints, whole where both are whole; empty for none."""
    if value is None or pd.isna(value):
        return ""
    number = float(value)  # type: ignore[arg-type]
    printed = "0.00" if like is None or pd.isna(like) else str(like).split()[0]
    decimals = len(printed.partition(".")[2])
    digits = 0 if not decimals and number.is_integer() else decimals + 1
    spread = "" if std is None or pd.isna(std) else f" ± {float(std):.{digits}f}"  # type: ignore[arg-type]
    return f"{number:{sign}.{digits}f}{spread}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "∣") for cell in cells) + " |"


LEVEL = 0.95
HOLDS, FAILS = "holds", "does not hold"
WITHIN, ONCE, UNKNOWN = "undecided, within the spread,", "undecided, one run has no spread,", "not measured"


class Gap(NamedTuple):
    """How far one figure lies above another, and how far chance alone may take it; NaN where unknown."""

    difference: float
    margin: float


def judge(claim: Claim, ours: pd.DataFrame) -> str:
    """Say where a claim of the paper holds for our figures (data, row, metric, value, std, runs).

    It holds where every difference that it speaks of exceeds its 95 % margin, and does not hold where one
    points the other way by more than that, or is exactly nothing. Margins come from the spread over runs
    (Welch's t), over sites where the claim is about their mean (a paired t), and of ranks from Nemenyi's
    critical difference.
    """
    verdicts: dict[str, list[str]] = {}
    for name in claim.data or dict.fromkeys(ours["data"]):
        verdicts.setdefault(_verdict(_gaps(claim, ours[ours["data"] == name])), []).append(str(name))
    order = (HOLDS, FAILS, WITHIN, ONCE, UNKNOWN)
    parts = [f"{word} on {', '.join(verdicts[word])}" for word in order if word in verdicts]
    return "; ".join(parts) or UNKNOWN


def _verdict(gaps: list[Gap] | None) -> str:
    if gaps is None:
        return UNKNOWN
    if any(gap.difference < -gap.margin or gap.difference == gap.margin == 0 for gap in gaps):
        return FAILS
    if any(np.isnan(gap.margin) for gap in gaps):
        return ONCE
    return HOLDS if all(gap.difference > gap.margin for gap in gaps) else WITHIN


def _gaps(claim: Claim, here: pd.DataFrame) -> list[Gap] | None:
    """The differences that must be positive for a claim to hold on one data set; None without figures."""
    if claim.within:
        return _over_sites(claim, here)
    figures = here[here["metric"] == claim.metric].dropna(subset=["value"]).set_index("row")
    best = claim.best or claim.lowest
    if not figures.index.isin([*claim.order, *filter(None, [best])]).any() or len(figures) < 2:
        return None
    pairs = list(pairwise(claim.order)) or [(best, row) for row in figures.index.drop(best, errors="ignore")]
    if not {row for pair in pairs for row in pair} <= set(figures.index):
        return None
    sign = -1 if claim.lowest else 1
    gaps = []
    for high, low in pairs:
        first, second = figures.loc[high], figures.loc[low]
        if claim.metric == "rank":  # runs are data sets there
            margin = critical_difference(len(figures), int(first["runs"]), 1 - LEVEL)
        else:
            margin = _margin(first, second)
        gaps.append(Gap(sign * float(first["value"] - second["value"]), margin))
    return gaps


def _margin(first: pd.Series, second: pd.Series) -> float:
    """Half the width of Welch's interval of the difference of two means."""
    errors = np.array(
        [one["std"] ** 2 / one["runs"] if one["runs"] > 1 else np.nan for one in (first, second)]
    )
    if np.isnan(errors).any():
        return np.nan
    if not errors.any():
        return 0.0
    freedom = errors.sum() ** 2 / (errors**2 / [first["runs"] - 1, second["runs"] - 1]).sum()
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(errors.sum()))


def _over_sites(claim: Claim, here: pd.DataFrame) -> list[Gap] | None:
    """Differences of methods, which are the metrics here, in the mean over the other rows."""
    figures = here.pivot_table(index="row", columns="metric", values="value")
    if claim.within not in figures.index or not set(claim.order) <= set(figures.columns):
        return None
    gaps = []
    for high, low in pairwise(claim.order):
        differences = figures[high] - figures[low]
        sites = differences.drop(claim.within).dropna()
        if np.isnan(differences[claim.within]):
            return None
        width = stats.t.ppf((1 + LEVEL) / 2, len(sites) - 1) if len(sites) > 1 else np.nan
        gaps.append(Gap(float(differences[claim.within]), float(width * sites.sem())))
    return gaps


SCALES = {"smoke": 1, "full": 3}  # runs; the paper has three
STORE = Path("results") / "paper"


@dataclass(frozen=True)
class Reproduction:
    """A table of the paper with our numbers.

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
    stack: int | str = "auto",
    verbose: int = 1,
) -> Reproduction:
    """Run one table or figure of the paper and write our numbers beside the paper's, as Markdown and CSV.

    Parameters
    ----------
    name : str
        One of `names`, such as "explanation-accuracy", "loso" or "ablation".
    data : str, Path, mapping or None, default=None
        The data folder (docs/paper.md describes it), or a mapping of names of data sets to `GraphSet`,
        `Cohort` or path. None uses the folder in the environment variable CIGNN_DATA at full scale and small
        simulated data at smoke scale. If a data set is missing, the page says how to get it.
    scale : {"smoke", "full"}, default="smoke"
        "smoke" is a quick trial with tiny networks on a few graphs; "full" is the paper's size.
    store : str or Path, default="results/paper"
        Folder for finished tasks and tables. The same call resumes an interrupted run.
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
    stack : int or "auto", default="auto"
        Number of tasks of a neural method that are trained at the same time, as for `evaluate`.
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
    run = Run(scale, store, numbers, n_jobs, scheduler, verbose, stack)
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
