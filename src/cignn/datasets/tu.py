"""Graph sets in the TU text format (TUDataset): ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and company.

Files are read with pandas; only when something is wrong does a slower reader look for the line to blame.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from cignn._array_files import named, reading, regular
from cignn._checks import DataError, Option
from cignn.datasets.reading import Line, all_named, is_number, numbered_lines
from cignn.graphs import GraphSet

_AGAIN = "download or unpack the set again"
_EXACT = 2**53  # whole numbers below this survive a float
_MOST_CELLS = 2**31  # of the 0/1 columns of node labels, a byte each


def load_tu(folder: str | Path, *, symmetrize: bool = False, missing_labels: str = "error") -> GraphSet:
    """Load a graph set in TU format.

    Parameters
    ----------
    folder : str or Path
        Holds the text files itself or in a folder ``raw``. NAME is taken from its one ``NAME_A.txt``;
        ``NAME_graph_indicator.txt`` and ``NAME_graph_labels.txt`` must be beside it. Files whose names begin
        with a dot, which some systems add, are not read. Public sets: https://chrsmrrs.github.io/datasets.
    symmetrize : bool, default=False
        Whether to accept edges that are listed in one direction only. By default they are an error, because
        TU files list both directions and a missing one means a damaged file.
    missing_labels : {"error", "keep"}, default="error"
        What to do about a set without ``NAME_graph_labels.txt``; "keep" is for graphs to predict.

    Returns
    -------
    GraphSet
        The graphs, with ``y`` (g,) as in the file. Node features are one 0/1 column per node label, in
        sorted order, then the node attributes; the degree, one column, where a set has neither.
        ``feature_names`` tell them apart ("label 4", "attribute 1", "degree"): a model finds its own in sets
        with fewer labels. ``edge_truth`` is what ``NAME_edge_gt.txt`` says, 0 or 1 for each line of
        ``NAME_A.txt``, where there is such a file (an edge is true if either direction is); see
        `mutagenic_groups` for molecules without one. Edge labels and attributes are checked for their number
        but not used: every edge has the weight 1.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cignn.datasets import load_tu
    >>> files = {"A": "1, 2\\n2, 1\\n3, 4\\n4, 3\\n", "graph_indicator": "1\\n1\\n2\\n2\\n"}
    >>> files |= {"graph_labels": "0\\n1\\n", "node_labels": "5\\n6\\n5\\n5\\n"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, text in files.items():
    ...         _ = (Path(folder) / f"TOY_{name}.txt").write_text(text)
    ...     graphs = load_tu(folder)
    >>> len(graphs), graphs.feature_names
    (2, ['label 5', 'label 6'])
    """
    if missing_labels not in ("error", "keep"):
        raise ValueError(f"missing_labels must be 'error' or 'keep', got {missing_labels!r}.")
    files = _files(named(folder), missing_labels)
    indicator_file = files["graph_indicator"]
    graph_of_node = _read_whole(indicator_file, 1)[:, 0] - 1
    y = _labels(files.get("graph_labels"), graph_of_node, indicator_file)
    edges = _edges(files["A"], graph_of_node, indicator_file, symmetrize)
    for name in ("edge_labels", "edge_attributes"):
        if name in files:
            _check_count(files[name], len(_read(files[name])), len(edges), "edge", files["A"])
    truth = _truth(files["edge_gt"], edges, files["A"]) if "edge_gt" in files else None
    parts, names = [], []
    for part in ("node_labels", "node_attributes"):
        if part in files:
            table = _read(files[part])
            _check_count(files[part], len(table), len(graph_of_node), "node", indicator_file)
            if part == "node_labels":
                names += _label_names(table, files[part])
                parts.append(_one_hot(table))
            else:
                names += [f"attribute {k + 1}" for k in range(table.shape[1])]
                parts.append(table.astype(np.float32))
    if not parts:
        parts, names = [_degrees(edges, len(graph_of_node))], ["degree"]
    x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    order = np.argsort(graph_of_node, kind="stable")  # nearly always sorted already
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return GraphSet.from_edges(
        position[edges], graph_of_node[order], x[order], y, edge_truth=truth, feature_names=names
    )


def _files(folder: Path, missing_labels: str) -> dict[str, Path]:
    """Return the set's files by the part of their name behind ``NAME_``."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; give the folder that holds NAME_A.txt or raw/.")
    found = _sets(folder) or _sets(folder / "raw")
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        inside = [path for path in sorted(folder.iterdir()) if _sets(path) or _sets(path / "raw")]
        hint = f"; did you mean {inside[0]}" if inside and not found else ""
        raise ValueError(f"{folder} must hold exactly one NAME_A.txt, itself or in raw/, got {names}{hint}.")
    prefix = found[0].name.removesuffix("A.txt")
    parts = [
        "graph_indicator",
        "graph_labels",
        "node_labels",
        "node_attributes",
        "edge_labels",
        "edge_attributes",
        "edge_gt",
    ]
    files = {part: found[0].with_name(f"{prefix}{part}.txt") for part in parts}
    if not files["graph_indicator"].is_file():
        raise ValueError(f"{files['graph_indicator']} is missing, it belongs to every TU set; {_AGAIN}.")
    if not files["graph_labels"].is_file() and missing_labels == "error":
        numbers = found[0].with_name(f"{prefix}graph_attributes.txt")
        remedy = _AGAIN
        if numbers.is_file():  # a set for regression
            remedy = f"{numbers.name} holds numbers, not classes: make classes of them, one line per graph"
        keep = Option("missing_labels", ("keep",), "pass {} for graphs to predict")
        raise DataError(f"{files['graph_labels']} is missing", options=[keep], remedy=remedy)
    return {"A": found[0], **{part: path for part, path in files.items() if path.is_file()}}


def _sets(folder: Path) -> list[Path]:
    return all_named(path for path in folder.glob("*_A.txt") if not path.name.startswith("."))


def _labels(path: Path | None, graph_of_node: np.ndarray, indicator_file: Path) -> np.ndarray | None:
    """(g,) graph labels, after a check that graphs are numbered 1..g and have nodes."""
    if graph_of_node.min() < 0:
        row = int((graph_of_node < 0).argmax())
        _blame(indicator_file, row, "expected a graph number from 1", graph_of_node[row] + 1, _AGAIN)
    n_graphs = int(graph_of_node.max()) + 1
    if n_graphs > len(graph_of_node):  # before anything of that size is made
        row = int(graph_of_node.argmax())
        expected = f"expected a graph number from 1 to {len(graph_of_node)}, the number of nodes"
        _blame(indicator_file, row, expected, n_graphs, _AGAIN)
    y = np.zeros(n_graphs) if path is None else _read(path, 1)[:, 0]
    if len(y) != n_graphs:
        raise ValueError(
            f"{path} must have one label per graph, expected {n_graphs} (the highest number in "
            f"{indicator_file.name}), got {len(y)}; {_AGAIN}."
        )
    without = np.bincount(graph_of_node) == 0
    if without.any():
        raise ValueError(f"{indicator_file} gives graph {without.argmax() + 1} no node; {_AGAIN}.")
    if path is None:
        return None
    return y.astype(np.int64) if _is_whole(y).all() else y


def _edges(path: Path, graph_of_node: np.ndarray, indicator_file: Path, symmetrize: bool) -> np.ndarray:
    """(e, 2) edges as listed, with nodes from 0."""
    edges, n_nodes = _read_whole(path, 2) - 1, len(graph_of_node)
    unknown = ((edges < 0) | (edges >= n_nodes)).any(1)
    if unknown.any():
        row = int(unknown.argmax())
        expected = f"expected nodes from 1 to {n_nodes}, as {indicator_file.name} lists them"
        _blame(path, row, expected, _pair(edges[row]), _AGAIN)
    graphs = graph_of_node[edges]
    across = graphs[:, 0] != graphs[:, 1]
    if across.any():
        row = int(across.argmax())
        got = f"{_pair(edges[row])} between graphs {graphs[row, 0] + 1} and {graphs[row, 1] + 1}"
        _blame(path, row, "expected an edge within one graph", got, _AGAIN)
    if not symmetrize:
        there, back = edges @ [n_nodes, 1], edges @ [1, n_nodes]
        known = _distinct(there)
        if not np.array_equal(known, _distinct(back)):
            row = int((~np.isin(back, known)).argmax())
            expected = f"expected each edge in both directions, {_pair(edges[row][::-1])} is not there"
            accept = Option("symmetrize", (True,), "pass {} to accept it")
            _blame(path, row, expected, _pair(edges[row]), _AGAIN, [accept])
    return edges


def _truth(path: Path, edges: np.ndarray, edges_file: Path) -> np.ndarray:
    """(e,) whether each edge as listed is a true one."""
    marks = _read(path, 1)[:, 0]
    _check_count(path, len(marks), len(edges), "edge", edges_file)
    other = ~np.isin(marks, (0, 1))
    if other.any():
        row = int(other.argmax())
        _blame(path, row, "expected 0 or 1", f"{marks[row]:.15g}", f"repair the line, or {_AGAIN}")
    return marks == 1


def _pair(edge: np.ndarray) -> str:
    return f"'{edge[0] + 1}, {edge[1] + 1}'"


def _label_names(labels: np.ndarray, path: Path) -> list[str]:
    """Names of the columns `_one_hot` makes; refuses more of them than memory could hold."""
    columns = [np.unique(column) for column in labels.T]
    n = sum(map(len, columns))
    if n * len(labels) > _MOST_CELLS:
        raise ValueError(
            f"{path} has {n} different labels, too many for a column each on {len(labels)} nodes; take the "
            "file away to use the degrees of nodes."
        )
    several = len(columns) > 1
    return [
        f"label {value:.15g} in column {k}" if several else f"label {value:.15g}"
        for k, values in enumerate(columns, 1)
        for value in values
    ]


def _one_hot(labels: np.ndarray) -> np.ndarray:
    """(nodes, k) labels to (nodes, all their values) 0 or 1."""
    parts = [column[:, None] == np.unique(column) for column in labels.T]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, 1)).view(np.uint8)


def _degrees(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """(nodes, 1) number of neighbours of each node."""
    low, high = edges.min(1), edges.max(1)
    once = _distinct(low[low != high] * n_nodes + high[low != high])
    ends = np.concatenate(np.divmod(once, n_nodes))
    return np.bincount(ends, minlength=n_nodes)[:, None]


def _distinct(keys: np.ndarray) -> np.ndarray:
    """The sorted distinct keys; np.unique takes ten times as long for millions."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) > 0]


# --------------------------------------------------------------------- reading


def _read(path: Path, n_columns: int | None = None) -> np.ndarray:
    """(rows, columns) finite numbers of a comma-separated file; blank lines do not count."""
    with reading(regular(path, _AGAIN), f"is not a readable file of numbers; {_AGAIN}."):
        table = _read_fast(path, n_columns)
    return _read_slowly(path, n_columns) if table is None else table


def _read_fast(path: Path, n_columns: int | None) -> np.ndarray | None:
    """Read with pandas; None where something is wrong."""
    try:
        table = pd.read_csv(
            path, header=None, skipinitialspace=True, dtype=np.float64, quoting=csv.QUOTE_NONE
        ).to_numpy()
    except (ValueError, OverflowError):  # pandas' own errors are ValueErrors too
        return None
    return table if np.isfinite(table).all() and n_columns in (None, table.shape[1]) else None


def _read_slowly(path: Path, n_columns: int | None) -> np.ndarray:
    """Read line by line, to name the one that is wrong."""
    lines = _lines(path)
    if not lines:
        raise ValueError(f"{path} is empty; {_AGAIN}.")
    n_columns = n_columns or lines[0].text.count(",") + 1
    rows = [[_finite(cell) for cell in line.text.split(",")] for line in lines]
    for i, row in enumerate(rows):
        if len(row) != n_columns or None in row:
            numbers = f"{n_columns} finite numbers separated by commas"
            expected = f"expected {'a finite number' if n_columns == 1 else numbers}"
            _blame(path, i, expected, repr(lines[i].text.strip()[:60]), f"repair the line, or {_AGAIN}")
    return np.array(rows, np.float64)


def _finite(cell: str) -> float | None:
    value = float(cell) if cell.strip() and is_number(cell.strip()) else math.nan
    return value if math.isfinite(value) else None


def _lines(path: Path) -> list[Line]:
    return numbered_lines(path.read_text(encoding="utf-8", errors="replace"))


def _read_whole(path: Path, n_columns: int) -> np.ndarray:
    """(rows, columns) whole numbers of a file."""
    table = _read(path, n_columns)
    broken = ~_is_whole(table).all(1)
    if broken.any():
        row = int(broken.argmax())
        _blame(path, row, "expected whole numbers", table[row].tolist(), f"repair the line, or {_AGAIN}")
    return table.astype(np.int64)


def _is_whole(values: np.ndarray) -> np.ndarray:
    return (values == np.round(values)) & (np.abs(values) < _EXACT)


def _check_count(path: Path, got: int, expected: int, thing: str, counted_in: Path) -> None:
    if got != expected:
        raise ValueError(
            f"{path} must have one line per {thing}, expected {expected} as in {counted_in.name}, "
            f"got {got}; {_AGAIN}."
        )


def _blame(
    path: Path, row: int, expected: str, got: object, remedy: str, options: Sequence[Option] = ()
) -> NoReturn:
    """Raise an error that names the line of the row-th (from 0) line that is not blank."""
    source = f"{path}, line {_lines(path)[row].number}"
    raise DataError(f"{expected}, got {got}", values=[got], options=options, remedy=remedy, source=source)
