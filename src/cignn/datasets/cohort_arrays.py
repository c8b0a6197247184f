"""Cohorts as plain arrays, nothing pickled: in one .npz file, or in a folder of .npy files.

Series and matrices of a folder stay on disk and are read when they are needed. The arrays are the same:
``series`` (all time points, R) + ``lengths`` (n,), or ``series`` (n, t, R), or ``matrices`` (n, R, R);
``label`` and optional ``site``, ``subject`` (n,), ``roi`` (R,); and what `Cohort.save` adds:
``covariate_<name>`` (n,), ``edge_truth``, ``site_truth``, ``induced_truth`` (R, R), ``edge_sets`` (k, R, R),
``carries`` (n, k), ``excluded_<column>`` (rows of the table of exclusions,) and ``atlas_names``,
``atlas_coordinates``, ``atlas_systems``, ``atlas_colours``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._array_files import NUMBERS, NUMBERS_AND_WORDS, regular
from cignn._array_folders import array_names, is_array_folder, read_arrays, write_arrays
from cignn._checks import DataError, Option
from cignn._mapped import MappedArray
from cignn.datasets.atlas import Atlas
from cignn.datasets.cohort import Cohort
from cignn.datasets.series import SeriesStack
from cignn.datasets.truth import BY_ROI

DATA = ("series", "matrices")  # arrays that stay on disk
MISSING = "n/a"  # what BIDS tables write for a missing value
# other names of arrays that would be lost without a word
LIKE = {"site": ("sites", "site_id"), "subject": ("subjects", "subject_id"), "roi": ("rois", "roi_names")}
LIKE_LABELS = ("y", "labels", "target", "targets", "diagnosis", "group", "dx")  # what others call them
_COVARIATE, _EXCLUDED = "covariate_", "excluded_"
# dimensions and kinds of the arrays that are read; labels and covariates have one of numbers or words
_FORMS: dict[str, tuple[tuple[int, ...], str]] = {
    "series": ((2, 3), NUMBERS),
    "matrices": ((3,), NUMBERS),
    "lengths": ((1,), NUMBERS),
    "label": ((1,), NUMBERS_AND_WORDS),
    "site": ((1,), NUMBERS_AND_WORDS),
    "subject": ((1,), NUMBERS_AND_WORDS),
    "roi": ((1,), NUMBERS_AND_WORDS),
    "age": ((1,), NUMBERS_AND_WORDS),
    "sex": ((1,), NUMBERS_AND_WORDS),
    "mean_fd": ((1,), NUMBERS_AND_WORDS),
    "edge_truth": ((2,), NUMBERS),
    "site_truth": ((2,), NUMBERS),
    "induced_truth": ((2,), NUMBERS),
    "edge_sets": ((3,), NUMBERS),
    "carries": ((2,), NUMBERS),
    "zeros_mean_absent": ((0,), NUMBERS),
    "atlas_names": ((1,), "U"),
    "atlas_coordinates": ((2,), NUMBERS),
    "atlas_systems": ((1,), "U"),
    "atlas_colours": ((2,), "U"),
}
FORMAT = "cignn_cohort"  # in files of `Cohort.save`, whose content was looked at before


def write_cohort(cohort: Cohort, path: str | Path, mapped: bool) -> Path:
    """Write a cohort; an unfinished file or folder never takes the place of a finished one."""
    arrays: dict[str, Any] = {
        FORMAT: np.array(1),
        "lengths": cohort.lengths,
        "label": None if cohort.y is None else _plain(cohort.y),
        "site": None if cohort.sites is None else _plain(cohort.sites),
        "subject": cohort.subjects,
        "roi": np.array(cohort.roi_names, dtype=str),
        **{name: getattr(cohort, name) for name in (*BY_ROI, "carries")},
        "zeros_mean_absent": np.array(True) if cohort.zeros_mean_absent else None,
    }
    if len(cohort.exclusions):
        arrays |= {f"{_EXCLUDED}{name}": cohort.exclusions[name].to_numpy(str) for name in cohort.exclusions}
    arrays |= {f"{_COVARIATE}{name}": _plain(cohort.covariates[name]) for name in cohort.covariates}
    if (atlas := cohort.atlas) is not None:
        arrays |= {
            "atlas_names": np.array(atlas.names, dtype=str),
            "atlas_coordinates": atlas.coordinates,
            "atlas_systems": atlas.systems,
            "atlas_colours": np.array(list(atlas.colours.items()), dtype=str).reshape(-1, 2),
        }
    if cohort.series is not None:
        arrays["series"] = cohort.series.rows() if mapped else cohort.series.compact().values
    return write_arrays(path, arrays | {"matrices": cohort.matrices}, mapped)


def read_cohort(path: str | Path, label: str | None = "label", transpose: bool = False) -> Cohort:
    """Read a cohort without checking its content, which `load_cohort` does.

    transpose : the series are (n, R, t)
    """
    path = Path(path) if Path(path).is_dir() else regular(path, "give the .npz file of a cohort")
    names = array_names(path)
    _check_array_names(path, names, label)
    known = [n for n in names if n in _FORMS or n == label or n.startswith((_COVARIATE, _EXCLUDED))]
    arrays = read_arrays(path, known, mapped=DATA)
    series: Any = arrays.get("series")
    try:
        for name, array in arrays.items():
            _check_form(name, array)
        if transpose and (series is None or series.ndim != 3 or isinstance(series, MappedArray)):
            raise DataError(
                "only series (subjects, ROIs, time points) can be transposed"
                + (", and none that stay on disk" if isinstance(series, MappedArray) else ""),
                options=[Option("transpose", (True,), "leave {} out")],
            )
        series = series.swapaxes(1, 2) if transpose else series
        if series is not None and series.ndim == 2:
            if "lengths" not in arrays:
                raise ValueError(
                    "stacked series (all time points, ROIs) need an array 'lengths' (subjects,)."
                )
            series = SeriesStack(series, arrays["lengths"])
        elif isinstance(series, MappedArray):
            n, t, _ = series.shape
            series = SeriesStack(series.flattened(), np.full(n, t))
        return Cohort(
            series,
            matrices=arrays.get("matrices"),
            y=None if label is None else _labels(arrays.get(label)),
            sites=arrays.get("site"),
            subjects=arrays.get("subject"),
            covariates=_covariates(arrays),
            roi_names=arrays.get("roi"),
            atlas=_atlas(arrays),
            **{name: arrays.get(name) for name in (*BY_ROI, "carries")},
            zeros_mean_absent="zeros_mean_absent" in arrays,
            exclusions=_exclusions(arrays),
        )
    except DataError as error:
        raise error.at(path) from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _check_array_names(path: Path, names: list[str], label: str | None) -> None:
    """Refuse a file without data or labels, or with something under a name that would not be read."""
    if ("series" in names) == ("matrices" in names):
        found = ", ".join(names) or "nothing"
        raise ValueError(f"{path} must hold one of the arrays series and matrices, got {found}.")
    if label not in (None, "label") and label not in names:
        problem = f"{path} has no array '{label}' to read labels from, got {', '.join(names)}"
        raise DataError(problem, values=names, options=[Option("label", advice="name another with {}")])
    near = [name for name in LIKE_LABELS if name in names]
    if label == "label" and label not in names and near:
        problem = f"{path} has no array 'label' but {near[0]!r}"
        raise DataError(problem, values=near, options=[Option("label", (near[0],))], remedy="rename it")
    for name, others in LIKE.items():
        near = [other for other in others if other in names and name not in names and other != label]
        if near:
            raise ValueError(f"{path} has no array {name!r} but {near[0]!r}; rename it to {name!r}.")


def _check_form(name: str, array: np.ndarray) -> None:
    """Refuse an array of another kind or number of dimensions than its name says."""
    dimensions, kinds = _FORMS.get(name, ((1,), NUMBERS_AND_WORDS))
    if array.ndim not in dimensions:
        sides = " or ".join(map(str, dimensions))
        raise ValueError(f"the array {name!r} must have {sides} dimensions, got shape {array.shape}.")
    if array.dtype.kind not in kinds:
        raise ValueError(f"the array {name!r} must hold {'words' if kinds == 'U' else 'numbers'}.")


def was_saved(path: str | Path) -> bool:
    """Whether `Cohort.save` wrote the file."""
    return FORMAT in array_names(path)


def holds_arrays(path: Path) -> bool:
    """Whether a folder holds a cohort as arrays."""
    return is_array_folder(path, DATA)


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


def _exclusions(arrays: dict[str, np.ndarray]) -> pd.DataFrame | None:
    columns = {n.removeprefix(_EXCLUDED): array for n, array in arrays.items() if n.startswith(_EXCLUDED)}
    if not columns:
        return None
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("the arrays 'excluded_…' must be of one length; write the file again.")
    return pd.DataFrame(columns)


def _atlas(arrays: dict[str, np.ndarray]) -> Atlas | None:
    if "atlas_names" not in arrays:
        return None
    pairs = arrays.get("atlas_colours", np.empty((0, 2), str))
    if pairs.shape[1] != 2:
        raise ValueError(f"the array 'atlas_colours' must be (systems, 2), got shape {pairs.shape}.")
    colours = {str(system): str(colour) for system, colour in pairs}
    return Atlas(
        arrays["atlas_names"].tolist(), arrays.get("atlas_coordinates"), arrays.get("atlas_systems"), colours
    )
