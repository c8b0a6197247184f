"""The tables and figures of the paper as data: what is run, and the numbers the paper prints.

One TOML file each in ``specs/``. A table of numbers is written as the paper prints it, with bars between
columns; ``rows`` and ``columns`` say what its headings name: "data", "row", "metric", or two of them
("data / metric").
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any

import pandas as pd

from cignn._checks import dashed, nearest

MEASURED = ("statistics", "demographics", "classification", "explanation", "independence", "loso", "ranks")
AXES = ("data", "row", "metric")
NUMBERS = [*AXES, "value", "std", "printed"]
_CELL = re.compile(r"^(-?\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?$")


@dataclass(frozen=True)
class Method:
    """One row of a table: which classifier, and what explains it.

    row : the paper's name; estimator, params : of `make_estimator`; explainer : of `make_explainer`, whose
    explanations are scored; subgraph_of : an explainer whose top half of edges is all the classifier reads;
    density : share of connections that brain graphs keep, None for all; on : data set → what differs there;
    paper_row : the row of the paper it is compared with, by default its own.
    """

    row: str
    estimator: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    explainer: str = ""
    explainer_params: dict[str, Any] = field(default_factory=dict)
    subgraph_of: str = ""
    density: float | None = None
    on: dict[str, dict[str, Any]] = field(default_factory=dict)
    paper_row: str = ""

    def for_data(self, name: str) -> Method:
        """Return the method as it is on one data set."""
        other = self.on.get(name, {})
        values = {f.name: getattr(self, f.name) for f in fields(self)} | other
        return Method(**(values | {"params": {**self.params, **other.get("params", {})}, "on": {}}))


@dataclass(frozen=True)
class Claim:
    """What the paper says in words: which row is best, or the order of rows, from high to low, in a metric.

    data : where it says so, by default wherever we measured; within : a row in which metrics, not rows, are
    compared (the sites of a table whose columns are methods).
    """

    text: str
    metric: str = ""
    data: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    best: str = ""
    lowest: str = ""
    within: str = ""


@dataclass(frozen=True)
class Spec:
    """A table or figure of the paper.

    Parameters
    ----------
    name : str
        Name of the spec, such as "loso".
    title : str
        Title of the table.
    source : str
        Where it is in the paper; empty for a table that sets our numbers beside those of other papers.
    measure : str
        What is measured: "statistics", "demographics", "classification", "explanation", "independence",
        "loso" or "ranks".
    data : tuple of str
        Names of the data sets.
    metrics : tuple of str
        Metrics that the paper prints.
    methods : tuple of Method, default=()
        The rows.
    claims : tuple of Claim, default=()
        What the paper says in words.
    notes : tuple of str, default=()
        Remarks below the table.
    numbers : DataFrame
        The paper's numbers, one line each: data, row, metric, value, std and printed.
    extra_metrics : tuple of str, default=()
        Metrics that we add.
    density : float or None, default=None
        Density of brain graphs for all methods that name none.
    runs : int or None, default=None
        Number of runs at full scale where the paper has other than three.
    class_names : dict of str to list of str
        Names of the classes of a data set, in the sorted order of its labels.
    load : dict of str to dict
        Options of the loader of a data set.
    of : tuple of str, default=()
        Specs whose results are ranked.
    also : tuple of str, default=()
        Other names under which it may be looked for.

    Examples
    --------
    >>> from cignn.paper import load_spec
    >>> spec = load_spec("loso")
    >>> spec.measure, spec.data
    ('loso', ('ABIDE', 'REST-meta-MDD'))
    """

    name: str
    title: str
    source: str
    measure: str
    data: tuple[str, ...]
    metrics: tuple[str, ...]
    methods: tuple[Method, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=NUMBERS), compare=False)
    extra_metrics: tuple[str, ...] = ()
    density: float | None = None
    runs: int | None = None
    class_names: dict[str, list[str]] = field(default_factory=dict)
    load: dict[str, dict[str, Any]] = field(default_factory=dict)
    of: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def number(self, data: str, row: str, metric: str) -> float:
        """Return a number of the paper.

        Parameters
        ----------
        data : str
            Data set.
        row : str
            Row of the table.
        metric : str
            Metric.

        Returns
        -------
        float
            The number, NaN where the paper prints none.
        """
        table = self.numbers
        found = table[(table["data"] == data) & (table["row"] == row) & (table["metric"] == metric)]
        return float(found["value"].iloc[0]) if len(found) else float("nan")


def names() -> list[str]:
    """Return the names of all tables and figures that can be run.

    Returns
    -------
    list of str
        The names that `load_spec` and `reproduce` take.

    Examples
    --------
    >>> from cignn.paper import names
    >>> names()[:3]
    ['ablation', 'base-classifiers', 'causal-effect']
    """
    return sorted(
        file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml")
    )


def load_spec(name: str) -> Spec:
    """Read the spec of a table or figure.

    Parameters
    ----------
    name : str
        One of `names`; an unknown name is answered with the nearest.

    Returns
    -------
    Spec
        What is run, and the numbers the paper prints.

    Examples
    --------
    >>> from cignn.paper import load_spec
    >>> load_spec("explanation-accuracy").data
    ('BA-2Motifs',)
    """
    known = names()
    if name not in known:
        other = {word: one for one in known for word in _read(one).get("also", [])}
        hint = other.get(dashed(str(name)))
        end = f"; did you mean {hint!r}? There are {', '.join(known)}." if hint else nearest(name, known)
        raise ValueError(f"the paper has no {name!r}{end}")
    return parse_spec(name, _read(name))


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_folder() / f"{name}.toml").read_text("utf-8"))


def parse_spec(name: str, content: Mapping[str, Any]) -> Spec:
    """Make a spec of what its file says; a key that means nothing is refused."""
    given = dict(content)
    tables = given.pop("table", [])
    methods = tuple(_made(Method, name, one) for one in given.pop("method", []))
    claims = tuple(_made(Claim, name, one) for one in given.pop("claim", []))
    numbers = pd.concat(
        [pd.DataFrame(columns=NUMBERS).astype({"value": float, "std": float})]
        + [parse_numbers(**table) for table in tables],
        ignore_index=True,
    )
    spec = _made(Spec, name, given | {"name": name, "methods": methods, "claims": claims, "numbers": numbers})
    if spec.measure not in MEASURED:
        raise ValueError(f"{name}: measure must be one of {', '.join(MEASURED)}, got {spec.measure!r}.")
    return spec


def parse_numbers(rows: str, columns: str, numbers: str, **constant: str) -> pd.DataFrame:
    """Read a table with bars between its columns into one line per number: data, row, metric, value, std.

    An empty cell, or a figure that prints no number, has no line.
    """
    lines = [[cell.strip() for cell in line.split("|")] for line in numbers.strip().splitlines()]
    out = []
    for line in lines[1:]:
        if len(line) != len(lines[0]):
            raise ValueError(f"row {line[0]!r} has {len(line)} cells, the heading {len(lines[0])}.")
        for heading, cell in zip(lines[0][1:], line[1:], strict=True):
            if not cell:
                continue
            found = _CELL.match(cell)
            if found is None:
                raise ValueError(f"{line[0]!r}, {heading!r}: {cell!r} is not a number or number ± number.")
            place = constant | _named(rows, line[0]) | _named(columns, heading)
            std = float(found.group(2)) if found.group(2) else float("nan")
            value = float(found.group(1))
            out.append(({"row": ""} | place) | {"value": value, "std": std, "printed": cell})
    table = pd.DataFrame(out, columns=NUMBERS).astype({"value": float, "std": float})
    if table[list(AXES)].isna().any(axis=None):
        raise ValueError(f"rows {rows!r}, columns {columns!r} and {constant} must name data, row and metric.")
    return table


def _named(axes: str, heading: str) -> dict[str, str]:
    names_ = [axis.strip() for axis in axes.split(" / ")]
    values = [value.strip() for value in heading.split(" / ", len(names_) - 1)]
    unknown = [axis for axis in names_ if axis not in AXES]
    if unknown or len(values) != len(names_):
        raise ValueError(f"{heading!r} does not say {axes!r}; headings name data, row or metric.")
    return dict(zip(names_, values, strict=True))


def _made(kind: type, name: str, content: Mapping[str, Any]) -> Any:
    known = [f.name for f in fields(kind)]
    for key in content:
        if key not in known:
            raise ValueError(f"{name}: {kind.__name__} has no {key!r}{nearest(key, known)}")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in content.items()})


def _folder() -> Any:
    return resources.files("cignn.paper") / "specs"
