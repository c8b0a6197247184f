"""The data of a cohort as float32, in memory or on disk: series of differing lengths, and matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from cignn._arrays import is_symmetric
from cignn._checks import name_some
from cignn._mapped import MappedArray, Rows


class SeriesStack(Sequence):
    """Series of differing lengths in one array: ``stack[i]`` is a (t_i, R) view, a selection copies nothing.

    values : (all time points, R) float32; subject i holds rows starts[i] to starts[i] + lengths[i]. Of an
    array on disk ``stack[i]`` is read.
    """

    values: np.ndarray | MappedArray

    def __init__(self, values: Any, lengths: np.ndarray, starts: np.ndarray | None = None) -> None:
        self.values = values if isinstance(values, MappedArray) else as_float32(values, "series")
        self.lengths = _as_lengths(lengths)
        if self.values.ndim != 2 or self.lengths.ndim != 1:
            shape = f"{self.values.shape} and {self.lengths.shape}"
            raise ValueError(
                f"stacked series must be (all time points, ROIs) with (n,) lengths, got {shape}."
            )
        if starts is None and (self.lengths.sum() != len(self.values) or (self.lengths < 0).any()):
            total = self.lengths.sum()
            raise ValueError(f"lengths must add up to the {len(self.values)} time points, got {total}.")
        if not self.values.shape[1]:
            raise ValueError(f"series need at least one ROI, got shape {self.values.shape}.")
        self.starts = np.cumsum(self.lengths) - self.lengths if starts is None else starts

    @classmethod
    def of(cls, series: Any) -> SeriesStack:
        """Stack (n, t, R) or a sequence of (t_i, R); data already stacked is kept as it is."""
        if isinstance(series, SeriesStack):
            return series
        if isinstance(series, np.ndarray) and series.ndim == 3:
            n, t, n_rois = series.shape
            return cls(series.reshape(n * t, n_rois), np.full(n, t))
        arrays = [as_float32(one, f"series {i}") for i, one in enumerate(series)]
        for i, one in enumerate(arrays):
            if one.ndim != 2:
                raise ValueError(f"series {i} must be (time points, ROIs), got shape {one.shape}.")
        widths = sorted({one.shape[1] for one in arrays})
        if len(widths) > 1:
            raise ValueError(f"all series must have the same number of ROIs, got {widths}.")
        lengths = np.array([len(one) for one in arrays], np.int64)
        values = np.empty((lengths.sum(), widths[0] if widths else 1), np.float32)
        for one, start, length in zip(arrays, np.cumsum(lengths) - lengths, lengths, strict=True):
            values[start : start + length] = one
        return cls(values, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            i = range(len(self))[key]
            return np.asarray(self.values[self.starts[i] : self.starts[i] + self.lengths[i]])
        return SeriesStack(self.values, self.lengths[key], self.starts[key])

    @property
    def mapped(self) -> bool:
        """Whether the series stay on disk and are read when they are needed."""
        return isinstance(self.values, MappedArray)

    def rows(self) -> Rows:
        """Return all series one after the other, for a writer: of ``lengths``, and nothing else."""
        return Rows((int(self.lengths.sum()), self.values.shape[1]), iter(self))

    def compact(self) -> SeriesStack:
        """Return the same series in an array that holds nothing else."""
        if self.lengths.sum() == len(self.values) and (np.diff(self.starts) == self.lengths[:-1]).all():
            return self
        values = np.concatenate(list(self)) if len(self) else self.values[:0]
        return SeriesStack(values, self.lengths)

    def __reduce__(self) -> tuple:  # a selection travels to another process without the rest
        if self.mapped:
            return SeriesStack, (self.values, self.lengths, self.starts)
        whole = self.compact()
        return SeriesStack, (whole.values, whole.lengths)


def as_float32(values: Any, what: str) -> np.ndarray:
    """Real numbers as float32, infinite where it cannot hold them; complex ones, dates and words are none."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":  # Python's own numbers, or lists that are not alike
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} must be an array of numbers.") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold real numbers, got {array.dtype}.")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def as_matrices(matrices: Any) -> Any:
    """(n, R, R) float32, in memory or on disk, with a finite diagonal."""
    if isinstance(matrices, MappedArray):
        _check_square(matrices.shape)
        return matrices if finite_diagonal in matrices.steps else matrices.with_step(finite_diagonal)
    shapes = [] if isinstance(matrices, np.ndarray) else [np.shape(one) for one in matrices]
    if len(set(shapes)) > 1:
        usual = Counter(shapes).most_common(1)[0][0]
        odd = next(i for i, shape in enumerate(shapes) if shape != usual)
        raise ValueError(
            f"all matrices must have the same number of ROIs, most have shape {usual}, matrix {odd} has "
            f"{shapes[odd]}; use the same atlas."
        )
    stacked = as_float32(matrices, "matrices")
    _check_square(stacked.shape)
    own = np.arange(stacked.shape[1])
    return stacked if np.isfinite(stacked[:, own, own]).all() else finite_diagonal(stacked.copy())


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or shape[1] != shape[2] or not shape[1]:
        raise ValueError(f"matrices must be (subjects, ROIs, ROIs), got shape {shape}.")


def finite_diagonal(matrices: np.ndarray) -> np.ndarray:
    """(k, R, R) with 0 for what is not finite on the diagonal, in place: nothing reads Fisher's z of 1."""
    own = np.arange(matrices.shape[1])
    diagonal = matrices[:, own, own]
    matrices[:, own, own] = np.where(np.isfinite(diagonal), diagonal, 0)
    return matrices


def _as_lengths(lengths: Any) -> np.ndarray:
    given = np.asarray(lengths)
    with np.errstate(invalid="ignore"):
        whole = given.astype(np.int64) if given.dtype.kind in "iuf" or not given.size else None
    if whole is None or (whole != given).any():
        got = name_some(np.ravel(given), 3)
        raise ValueError(f"lengths must be whole numbers of time points, got {got}.")
    return whole


def looks_turned(series: SeriesStack) -> bool:
    """Whether time seems to run along the columns: neighbours in a row are far more alike than in a column.

    Series move slowly (in ABIDE neighbouring time points correlate by 0.5 to 0.9, neighbouring AAL regions by
    0.2 to 0.4). In doubt not: regions of a fine atlas are alike too, and rows that are all unlike may be
    simulated time points.
    """
    likeness = np.array([_likeness(series[int(i)]) for i in np.linspace(0, len(series) - 1, 30)])
    rows, columns = np.nanmedian(likeness, axis=0) if np.isfinite(likeness).any() else (0, 0)
    return bool(rows > 0.08 and columns > max(0.5, rows + 0.25))


def _likeness(one: np.ndarray) -> tuple[float, float]:
    """How alike neighbouring rows and neighbouring columns are, both centred; NaN where that says nothing."""
    values = one.astype(float)
    values -= values.mean(0)
    values -= values.mean(1, keepdims=True)
    total = (values**2).sum()
    if min(values.shape) < 10 or not (np.isfinite(total) and total > 0):
        return np.nan, np.nan
    rows, columns = (values[1:] * values[:-1]).sum(), (values[:, 1:] * values[:, :-1]).sum()
    return rows / total, columns / total


def are_matrices(series: SeriesStack) -> bool:
    """Whether what should be series is symmetric tables."""
    n_rois = series.values.shape[1]
    square = n_rois > 2 and len(series) > 0 and (series.lengths == n_rois).all()
    return bool(square) and all(one.any() and is_symmetric(one) for one in series)
