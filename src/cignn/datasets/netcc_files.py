"""Connectivity matrices from the .netcc files of AFNI's 3dNetCorr."""

from __future__ import annotations

import re

import numpy as np

from cignn._array_files import UnreadableError
from cignn._checks import MOST, DataError, Option, name_some
from cignn.datasets.reading import Line, read_numbers
from cignn.datasets.roi_tables import RoiTable, counts_up

_SIZE = re.compile(r"#\s*(\d+)\s*#\s*Number of network ROIs", re.IGNORECASE)
_ABOUT = re.compile(r"#\s*(\d+\s*#.*|WITH_ROI_LABELS)\s*", re.IGNORECASE)


def read_netcc(text: str, variable: str | None = None) -> RoiTable:
    """Return one matrix of a .netcc file, (R, R) float32, with the labels of its ROIs.

    variable : name of the matrix ("CC", "FZ", "PC", …). By default the correlations, "CC"; where a file has
    only Fisher's z of them, "FZ", they are computed from it.
    """
    lines = [Line(i, line.strip()) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    size = next((found for line in lines[:1] if (found := _SIZE.match(line.text))), None)
    if size is None:
        raise UnreadableError(
            "must begin with the line '# N  # Number of network ROIs', as 3dNetCorr writes."
        )
    n = int(size[1])
    header: list[Line] = []
    matrices: dict[str, list[Line]] = {}
    rows = header
    for line in lines:
        if not line.text.startswith("#"):
            rows.append(Line(line.number, " ".join(line.text.split())))
        elif not _ABOUT.fullmatch(line.text):
            rows = matrices.setdefault(line.text.lstrip("# ").strip(), [])
    name = _chosen(list(matrices), variable)
    if len(matrices[name]) != n:
        raise UnreadableError(f": the matrix {name} must have {n} rows, got {len(matrices[name])}.")
    values = read_numbers(matrices[name], None, n)
    if name == "FZ" and variable is None:
        values = np.tanh(values)
        np.fill_diagonal(values, 1)  # 3dNetCorr writes 4 there
    with np.errstate(over="ignore"):
        return RoiTable(values.astype(np.float32), _names(header, n))


def _chosen(names: list[str], variable: str | None) -> str:
    if variable is not None:
        found = [name for name in names if name.lower() == variable.lower()]
        if found:
            return found[0]
        problem = f"has no matrix {variable}, only {name_some(names) or 'none'}"
        raise DataError(problem, values=names, options=[Option("variable", advice="change {}")])
    for name in ("CC", "FZ"):
        if name in names:
            return name
    if len(names) == 1:
        return names[0]
    if not names:
        raise UnreadableError("holds no matrix; write it again with 3dNetCorr.")
    problem = f"holds several matrices ({name_some(names)}) and none of them is CC"
    raise DataError(problem, values=names, options=[Option("variable", tuple(names[:MOST]))])


def _names(header: list[Line], n: int) -> list[str] | None:
    """The labels of the ROIs, which come before their numbers; None where they only count."""
    names = header[0].text.split() if header else []
    if len(names) != n:
        raise UnreadableError(f"must name {n} ROIs above the first matrix, got {len(names)} words.")
    return None if counts_up(names) else names
