"""What must hold of whatever is read without complaint, damaged or not; each check says what does not."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import zipfile
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd

from campaigns.fuzzing.readers import Files
from cignn import Cohort, GraphSet


def check_cohort(found: Cohort, reference: Cohort, original: Files, files: Files) -> str | None:
    """What any accepted cohort must be: finite, symmetric, of one shape, nobody with another's label."""
    values = found.matrices if found.matrices is not None else found.series.values
    if not np.isfinite(values).all():
        return "numbers that are not finite"
    if found.matrices is not None and not np.allclose(values, values.swapaxes(1, 2), atol=1e-4, rtol=1e-4):
        return "matrices that are not symmetric"
    for name in {"age", "mean_fd"} & set(found.covariates):
        if np.isinf(pd.to_numeric(found.covariates[name], errors="coerce")).any():
            return f"{name} is infinite"
    return check_shapes(found, reference, original, files)


def check_shapes(found: Cohort, reference: Cohort, original: Files, files: Files) -> str | None:
    """What a cohort must be whose values `Cohort.save` has written, and which come back as they were."""
    tables = [name for name in files if name.endswith((".tsv", ".csv")) and "/" not in name]
    if ragged := [name for name in tables if is_ragged(files[name])]:
        return f"{ragged[0]} has rows and header of different lengths"
    n = len(found)
    if not n or not found.n_rois or len(found.roi_names) != found.n_rois:
        return f"{n} subjects, {found.n_rois} ROIs, {len(found.roi_names)} names"
    if found.series is not None and (np.asarray(found.series.lengths) < 1).any():
        return "series without time points"
    columns = (found.subjects, found.y, found.sites, found.covariates)
    lengths = {len(column) for column in columns if column is not None}
    if lengths != {n}:
        return f"columns of {sorted(lengths)} entries for {n} subjects"
    return _wrong_labels(found, reference, original, files)


def _wrong_labels(found: Cohort, reference: Cohort, original: Files, files: Files) -> str | None:
    """Whether somebody of whom nothing was touched has another label."""
    if found.y is None or reference.y is None:
        return None
    known = dict(zip(map(str, reference.subjects), map(str, reference.y), strict=True))
    for name, label in zip(map(str, found.subjects), map(str, found.y), strict=True):
        if name in known and known[name] != label and _untouched(name, original, files):
            return f"{name} is {label}, was {known[name]}"
    return None


def _untouched(subject: str, original: Files, files: Files) -> bool:
    """Whether tables and archives say the same of a subject as before: its lines, the arrays of labels."""
    number = re.sub(r"\D*0*", "", subject).encode()
    for name, content in original.items():
        there = files.get(name, b"")
        if name.endswith((".tsv", ".csv")) and "/" not in name and name != "regions.csv":
            before, after = content.split(b"\n"), there.split(b"\n")
            mine = [line for line in before if number in re.split(rb"[\t,]", line)[0]]
            if before[0] != after[0] or not all(line in after for line in mine):
                return False
        if name.endswith(".npz") and _label_arrays(content) != _label_arrays(there):
            return False
    return True


def _label_arrays(content: bytes) -> list[bytes] | None:
    """The arrays of names and labels in an archive, as bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return [file.read(name) for name in file.namelist() if re.match("label|subject|file_id", name)]
    except Exception:  # a damaged one says nothing
        return None


def is_ragged(content: bytes) -> bool:
    """Whether a table, without quotes and odd ends of lines, has rows longer or shorter than its header."""
    if re.search(rb'["\x00\x0b\x0c\x1c-\x1e\x80-\xff]|\r(?!\n)', content):
        return False
    lines = [line.rstrip("\r") for line in content.decode().split("\n") if line.strip()]
    mark = next((mark for mark in "\t,;" if lines and mark in lines[0]), None)
    # commas within the cells of a table of tabs are none of its marks
    return mark is not None and len({line.count(mark) for line in lines}) > 1


def check_graphs(found: GraphSet, reference: GraphSet, original: Files, files: Files) -> str | None:
    """Finite weights and features, labels for all, no graph without a node."""
    if not len(found) or (found.n_nodes < 1).any():
        return "no graph, or one without a node"
    for i in range(len(found)):
        graph = found[i]
        if not (np.isfinite(graph.weights).all() and np.isfinite(graph.x).all()):
            return f"graph {i} has numbers that are not finite"
        if not np.array_equal(graph.weights, graph.weights.T):
            return f"graph {i} is not symmetric"
    if found.y is None or len(found.y) != len(found) or not np.isfinite(np.asarray(found.y, float)).all():
        return "labels are missing or not finite"
    touched = [name for name in original if files.get(name) != original[name]]
    if not any("label" in name or "indicator" in name or name.endswith(".npz") for name in touched) and list(
        found.y
    ) != list(reference.y):
        return "other labels"
    return None


def check_digest(
    found: Cohort | GraphSet, reference: Cohort | GraphSet, original: Files, files: Files
) -> str | None:
    """Whatever was damaged behind checksums and accepted changes nothing."""
    return None if found.digest() == reference.digest() else "other data"


def check_same(found: np.ndarray, reference: np.ndarray, original: Files, files: Files) -> str | None:
    """Whatever was damaged behind checksums and accepted changes nothing."""
    return None if np.array_equal(found, reference) else "other probabilities"


def check_chances(found: np.ndarray, reference: np.ndarray, original: Files, files: Files) -> str | None:
    """Probabilities of each subject, whatever the values were changed to."""
    if found.ndim != 2 or len(found) != len(reference):
        return f"probabilities of shape {found.shape}"
    if not (np.isfinite(found).all() and (found >= 0).all() and np.allclose(found.sum(1), 1, atol=1e-4)):
        return "probabilities that are none"
    return None


def check_store(
    found: dict[str, Any], reference: dict[str, Any], original: Files, files: Files
) -> str | None:
    """Numbers where numbers belong."""
    if not pd.api.types.is_float_dtype(found["results"]["value"]):
        return "scores that are no numbers"
    if np.isinf(found["results"]["value"]).any():
        return "infinite scores"
    chances = found["predictions"].filter(regex="^p_")
    if not all(pd.api.types.is_numeric_dtype(chances[name]) for name in chances):
        return "probabilities that are no numbers"
    return None


def check_rows(found: dict[str, Any], reference: dict[str, Any], original: Files, files: Files) -> str | None:
    """Behind checksums that nobody touched every row is one that was written."""
    if _sums(files) == _sums(original):
        for name, table in found.items():
            rows = [set(map(repr, one.to_dict("records"))) for one in (table, reference[name])]
            if not rows[0] <= rows[1]:
                return f"{name} with other rows"
    return check_store(found, reference, original, files)


def _sums(files: Files) -> list[Any]:
    """The checksums of a store."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.deserialize(_settled(files["results.sqlite"]))
            return db.execute("SELECT * FROM checksums").fetchall()
        except (sqlite3.Error, KeyError):
            return []


def _settled(content: bytes) -> bytes:
    """A database without a log beside it, as memory holds it."""
    return content[:18] + b"\x01\x01" + content[20:]


def check_json(found: str, reference: str, original: Files, files: Files) -> str | None:
    """One JSON object, and chances that are some."""
    try:
        content = json.loads(found)
    except ValueError:
        return None if "Usage:" in found else "no JSON on stdout"
    for row in content.get("predictions", []):
        chances = [value for key, value in row.items() if key.startswith("p_")]
        if None in chances or abs(sum(chances) - 1) > 1e-4:
            return "probabilities that are none"
    return None
