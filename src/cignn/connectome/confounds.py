"""Confound tables: the columns regressed out of a scan's ROI series."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

# as in the paper: head motion (24 terms), white matter and CSF; the band filter does the high-pass
FMRIPREP = {"strategy": ("motion", "wm_csf"), "motion": "full", "wm_csf": "basic"}
_PARAMETERS = {"trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"}

Table: TypeAlias = str | Path | pd.DataFrame | np.ndarray  # one row per volume of the scan
Setting = str | Mapping[str, object] | None


class Confounds(NamedTuple):
    """Confounds of a scan, one row per volume, the first ones included."""

    values: np.ndarray | None  # (volumes, k), or None: nothing to regress out
    keep: np.ndarray | None  # numbers of the volumes to keep, or None: all


def read_confounds(path: Path | None, table: Table | None, setting: Setting) -> Confounds:
    """Return the confounds of one scan.

    path : of the scan, in whose folder fMRIPrep writes its table. table : this scan's own table, or None.
    setting : "auto" takes the own table, else fMRIPrep's, else none; "fmriprep" or a mapping (keywords of
    `nilearn.interfaces.fmriprep.load_confounds`) requires fMRIPrep's; None regresses nothing out.
    """
    if setting is None:
        return Confounds(None, None)
    if table is not None and not isinstance(setting, Mapping) and setting != "fmriprep":
        return Confounds(read_table(table), None)
    beside = None if path is None else find_fmriprep(path)
    if beside is None:
        if setting == "auto":
            return Confounds(None, None)
        raise ValueError("no fMRIPrep confounds (*_desc-confounds_timeseries.tsv) in the folder of the scan")
    from nilearn.interfaces.fmriprep import load_confounds

    options = dict(setting) if isinstance(setting, Mapping) else FMRIPREP
    values, keep = load_confounds(str(path), **options)
    return Confounds(None if values is None else _numbers(values), None if keep is None else np.asarray(keep))


def find_fmriprep(path: Path) -> Path | None:
    """Return the confounds table of fMRIPrep in the folder of a scan, or None."""
    name = path.name
    stem = min((name.split(part)[0] for part in ("_space-", "_desc-", "_res-")), key=len)
    found = sorted(path.parent.glob(f"{stem}_desc-confounds*.tsv")) if stem != name else []
    return found[0] if found else None


def read_table(table: Table) -> np.ndarray:
    """(volumes, k) numbers of a confounds table: a frame, an array, or a file with or without a header.

    Of fMRIPrep's table, which has hundreds of columns, the motion parameters with their expansion, white
    matter and CSF are used.
    """
    if isinstance(table, (str, Path)):
        table = _read_file(Path(table))
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table))
    if _PARAMETERS.issubset(str(column) for column in frame.columns):
        wanted = [
            column
            for column in frame.columns
            if str(column).startswith(("trans_", "rot_")) or column in ("white_matter", "csf")
        ]
        frame = frame[wanted] if len(frame.columns) > len(_PARAMETERS) + 24 else frame
    return _numbers(frame)


def _read_file(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise FileNotFoundError(f"confounds table {path} does not exist")
    separator = {".csv": ",", ".tsv": "\t"}.get(path.suffix, r"\s+")
    comment = "#" if separator == r"\s+" else None
    with path.open(encoding="utf-8") as file:
        first = next((line for line in file if comment is None or not line.startswith(comment)), "")
    fields = [field.strip() for field in re.split(separator, first.strip())]
    header = None if all(_is_number(field) for field in fields) else 0
    return pd.read_csv(
        path, sep=separator, header=header, comment=comment, na_values=["n/a"], skipinitialspace=True
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in ("", "n/a", "na")
    return True


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    words = [str(column) for column in frame.columns if not pd.api.types.is_numeric_dtype(frame[column])]
    if words:
        raise ValueError(f"confounds must be numbers, column {', '.join(words[:3])} is not")
    # a derivative has no value at the first volume: use that of the second
    values = frame.to_numpy(np.float64, copy=True)
    if len(values) > 1:
        values[0] = np.where(np.isnan(values[0]), values[1], values[0])
    return values


def kept_confounds(confounds: Confounds, n_volumes: int, drop: int) -> Confounds:
    """Return the confounds without the first ``drop`` volumes, checked against the scan."""
    values, keep = confounds
    if values is not None:
        if len(values) != n_volumes:
            raise ValueError(
                f"the confounds table has {len(values)} rows, the scan {n_volumes} volumes; "
                f"pass one row per volume, the {drop} dropped ones included"
            )
        values = values[drop:]
        if not np.isfinite(values).all():
            columns = np.flatnonzero(~np.isfinite(values).all(0))
            raise ValueError(f"confounds have NaN or infinite values (column {columns[0]}); repair the table")
        if values.shape[1] >= len(values) - 1:
            raise ValueError(
                f"{values.shape[1]} confounds would explain all of {len(values)} volumes; choose fewer"
            )
    if keep is not None:
        keep = np.sort(keep)
        keep = keep[keep >= drop] - drop
    return Confounds(values, keep)
