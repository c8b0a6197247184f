"""Cohorts as one .npz file of plain arrays, nothing pickled.

``series`` (all time points, R) + ``lengths`` (n,), or ``series`` (n, t, R), or ``matrices`` (n, R, R);
``label`` and optional ``site``, ``subject`` (n,), ``roi`` (R,); and what `Cohort.save` adds:
``covariate_<name>`` (n,), ``edge_truth``, ``site_truth`` (R, R) and
``atlas_names``, ``atlas_coordinates``, ``atlas_systems``, ``atlas_colours``.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn.datasets.atlas import Atlas
from cignn.datasets.cohort import Cohort, SeriesStack

MISSING = "n/a"  # what BIDS tables write for a missing value
# other names of arrays that would be lost without a word
LIKE = {"site": ("sites", "site_id"), "subject": ("subjects", "subject_id"), "roi": ("rois", "roi_names")}
LIKE_LABELS = ("y", "labels", "target", "targets", "diagnosis", "group", "dx")  # what others call them
_COVARIATE = "covariate_"
FORMAT = "cignn_cohort"  # in files of `Cohort.save`, whose content was looked at before


def write_npz(cohort: Cohort, path: str | Path) -> Path:
    """Write a cohort; an unfinished file never takes the place of a finished one."""
    path = Path(path)
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first.")
    arrays: dict[str, np.ndarray | None] = {FORMAT: np.array(1), "matrices": cohort.matrices}
    if cohort.series is not None:
        stack = cohort.series.compact()
        arrays |= {"series": stack.values, "lengths": stack.lengths}
    arrays |= {
        "label": None if cohort.y is None else _plain(cohort.y),
        "site": None if cohort.sites is None else _plain(cohort.sites),
        "subject": cohort.subjects,
        "roi": np.array(cohort.roi_names, dtype=str),
        "edge_truth": cohort.edge_truth,
        "site_truth": cohort.site_truth,
        "zeros_mean_absent": np.array(True) if cohort.zeros_mean_absent else None,
    }
    arrays |= {f"{_COVARIATE}{name}": _plain(cohort.covariates[name]) for name in cohort.covariates}
    if (atlas := cohort.atlas) is not None:
        arrays |= {
            "atlas_names": np.array(atlas.names, dtype=str),
            "atlas_coordinates": atlas.coordinates,
            "atlas_systems": atlas.systems,
            "atlas_colours": np.array(list(atlas.colours.items()), dtype=str).reshape(-1, 2),
        }
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.npz")
    try:
        np.savez(unfinished, **{name: array for name, array in arrays.items() if array is not None})  # type: ignore[arg-type]
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def read_npz(path: str | Path, label: str | None = "label", transpose: bool = False) -> Cohort:
    """Read a cohort as it stands; `load_cohort` looks at its content as well.

    transpose : the series are (n, R, t)
    """
    path = Path(path)
    arrays = read_arrays(path)
    if ("series" in arrays) == ("matrices" in arrays):
        found = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} must hold one of the arrays series and matrices, got {found}.")
    if label not in (None, "label") and label not in arrays:
        raise ValueError(f"{path} has no array '{label}' to read labels from, got {', '.join(arrays)}.")
    near = [name for name in LIKE_LABELS if name in arrays]
    if label == "label" and label not in arrays and near:
        raise ValueError(f"{path} has no array 'label' but {near[0]!r}; pass label={near[0]!r} or rename it.")
    for name, others in LIKE.items():
        near = [other for other in others if other in arrays and name not in arrays and other != label]
        if near:
            raise ValueError(f"{path} has no array {name!r} but {near[0]!r}; rename it to {name!r}.")
    series: Any = arrays.get("series")
    try:
        if transpose and (series is None or series.ndim != 3):
            raise ValueError("transpose=True is for series (subjects, ROIs, time points); leave it out.")
        series = series.swapaxes(1, 2) if transpose else series
        if series is not None and series.ndim == 2:
            if "lengths" not in arrays:
                raise ValueError(
                    "stacked series (all time points, ROIs) need an array 'lengths' (subjects,)."
                )
            series = SeriesStack(series, arrays["lengths"])
        return Cohort(
            series,
            matrices=arrays.get("matrices"),
            y=None if label is None else _labels(arrays.get(label)),
            sites=arrays.get("site"),
            subjects=arrays.get("subject"),
            covariates=_covariates(arrays),
            roi_names=arrays.get("roi"),  # type: ignore[arg-type]
            atlas=_atlas(arrays),
            edge_truth=arrays.get("edge_truth"),
            site_truth=arrays.get("site_truth"),
            zeros_mean_absent="zeros_mean_absent" in arrays,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def was_saved(path: str | Path) -> bool:
    """Whether `Cohort.save` wrote the file."""
    with zipfile.ZipFile(path) as file:
        return f"{FORMAT}.npy" in file.namelist()


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of an .npz file, or say in one line why not."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; give the .npz file of a cohort.")
    arrays: dict[str, np.ndarray] = {}
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            for name in file.files:
                array = file[name]
                arrays[name] = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        return arrays
    except Exception as error:  # foreign bytes make numpy, zipfile and zlib raise nearly anything
        if "Object arrays" in str(error):
            advice = "save numbers or words (.astype(str))"
            if name == "series":
                advice = "save np.concatenate(series) with lengths=[len(one) for one in series]"
            raise ValueError(f"{path}: the array {name!r} holds Python objects; {advice}.") from error
        raise ValueError(
            f"{path} is not a readable .npz file of plain arrays; write it with cohort.save or np.savez."
        ) from error


def _plain(column: np.ndarray | pd.Series) -> np.ndarray:
    """Numbers as numbers, everything else as text."""
    column = pd.Series(column).infer_objects()
    if pd.api.types.is_bool_dtype(column) and not column.isna().any():
        return column.to_numpy(bool)
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float, na_value=np.nan) if column.isna().any() else column.to_numpy()
    return np.array([MISSING if gone else str(v) for v, gone in zip(column, column.isna(), strict=True)], str)


def _labels(array: np.ndarray | None) -> np.ndarray | None:
    if array is None or array.dtype.kind != "U" or not (array == MISSING).any():
        return array
    return np.array([None if label == MISSING else str(label) for label in array], object)


def _covariates(arrays: dict[str, np.ndarray]) -> pd.DataFrame | None:
    own = ("age", "sex", "mean_fd")  # of files that `Cohort.save` did not write
    columns = {
        name.removeprefix(_COVARIATE): pd.Series(array).replace(MISSING, np.nan)
        if array.dtype.kind == "U"
        else array
        for name, array in arrays.items()
        if name.startswith(_COVARIATE) or name in own
    }
    return pd.DataFrame(columns) if columns else None


def _atlas(arrays: dict[str, np.ndarray]) -> Atlas | None:
    if "atlas_names" not in arrays:
        return None
    colours = {str(system): str(colour) for system, colour in arrays.get("atlas_colours", [])}
    return Atlas(
        arrays["atlas_names"].tolist(), arrays.get("atlas_coordinates"), arrays.get("atlas_systems"), colours
    )
