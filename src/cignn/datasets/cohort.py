"""Subjects with their ROI series or connectivity matrices: `Cohort` indexes like an array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._arrays import digest
from cignn._checks import name_some
from cignn.datasets.atlas import Atlas, places_of
from cignn.datasets.tables import check_finite_column, repeated
from cignn.graphs.storage import positions


class Subject(NamedTuple):
    """One subject of a `Cohort`: what ``cohort[i]`` gives for an integer i."""

    subject: str
    series: np.ndarray | None  # (t, R) float32, or None
    matrix: np.ndarray | None  # (R, R) float32, or None
    y: Any  # the label, or None
    site: Any  # or None
    covariates: dict[str, Any]


class SeriesStack(Sequence):
    """Series of differing lengths in one array: ``stack[i]`` is a (t_i, R) view, a selection copies nothing.

    values : (all time points, R) float32; subject i holds rows starts[i] to starts[i] + lengths[i].
    """

    def __init__(self, values: np.ndarray, lengths: np.ndarray, starts: np.ndarray | None = None) -> None:
        self.values = as_float32(values, "series")
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
            return self.values[self.starts[i] : self.starts[i] + self.lengths[i]]
        return SeriesStack(self.values, self.lengths[key], self.starts[key])

    def compact(self) -> SeriesStack:
        """Return the same series in an array that holds nothing else."""
        if self.lengths.sum() == len(self.values) and (np.diff(self.starts) == self.lengths[:-1]).all():
            return self
        values = np.concatenate(list(self)) if len(self) else self.values[:0]
        return SeriesStack(values, self.lengths)

    def __reduce__(self) -> tuple:  # a selection travels to another process without the rest
        whole = self.compact()
        return SeriesStack, (whole.values, whole.lengths)


class Cohort:
    """Subjects with ROI series or connectivity matrices, labels, sites and covariates.

    ``cohort[3]`` is one `Subject`; ``cohort[mask]``, ``cohort[[0, 2]]`` and ``cohort[:10]`` are cohorts, so
    scikit-learn's splitters, searches and pipelines work on it. A selection shares its series with the
    whole. Only shapes are checked here; `check_cohort` looks at the content.

    Parameters
    ----------
    series : sequence of (t_i, R) or (n, t, R) ROI series. Exactly one of ``series`` and ``matrices``.
    matrices : (n, R, R) connectivity matrices; what is not finite on the diagonal becomes 0
    y : (n,) labels of any kind, or None
    sites : (n,) where each subject was scanned, or None; None or NaN among them becomes "n/a"
    subjects : (n,) names; by default "sub-0001", "sub-0002", …
    covariates : DataFrame or dict of columns with n rows: "age", "sex", "mean_fd", …
    roi_names : (R,) names; by default the atlas's, or "ROI-001", "ROI-002", …
    atlas : names, places and systems of the R regions, in their order or with their names, or None
    edge_truth : (R, R) bool, True where an edge is known to make the class, or None
    site_truth : (R, R) bool, True where an edge is known to differ between sites, or None
    zeros_mean_absent : a series of zeros is a region that was not measured, which someone decided to keep:
        it gets no connections; otherwise `Connectivity` asks what to do with it

    Both kinds of data are kept as float32, series stacked in one array.
    """

    def __init__(
        self,
        series: Any = None,
        *,
        matrices: Any = None,
        y: Any = None,
        sites: Any = None,
        subjects: Any = None,
        covariates: Any = None,
        roi_names: Sequence[str] | None = None,
        atlas: Atlas | None = None,
        edge_truth: np.ndarray | None = None,
        site_truth: np.ndarray | None = None,
        zeros_mean_absent: bool = False,
    ) -> None:
        if (series is None) == (matrices is None):
            raise ValueError("a cohort needs exactly one of series and matrices.")
        self.series = None if series is None else SeriesStack.of(series)
        self.matrices = None if matrices is None else _as_matrices(matrices)
        n = len(self)
        self.y = None if y is None else np.array(y)  # a copy: pandas hands out read-only arrays
        self.sites = None if sites is None else _as_sites(sites)
        named = [f"sub-{i:04d}" for i in range(1, n + 1)] if subjects is None else [str(s) for s in subjects]
        self.subjects = np.array(named, dtype=str)
        for name, column in (("y", self.y), ("sites", self.sites), ("subjects", self.subjects)):
            if column is not None and column.shape != (n,):
                raise ValueError(f"{name} must have one entry per subject ({n}), got shape {column.shape}.")
        self.covariates = _as_table(covariates, self.subjects)
        self.atlas = atlas
        if atlas is not None and len(atlas) != self.n_rois:
            raise ValueError(
                f"the atlas has {len(atlas)} regions, the data {self.n_rois} ROIs; they must be the same."
            )
        if roi_names is None:
            roi_names = _numbered(self.n_rois) if atlas is None else atlas.names
        self.roi_names = [str(name) for name in roi_names]
        if len(self.roi_names) != self.n_rois:
            raise ValueError(f"expected {self.n_rois} roi_names, got {len(self.roi_names)}.")
        if atlas is not None and (places := places_of(self.roi_names, atlas.names)) is not None:
            self.atlas = atlas[places]
        self.edge_truth = _as_truth("edge_truth", edge_truth, self.n_rois)
        self.site_truth = _as_truth("site_truth", site_truth, self.n_rois)
        self.zeros_mean_absent = zeros_mean_absent

    # ----------------------------------------------------------------- reading

    def __len__(self) -> int:
        return len(self.matrices) if self.matrices is not None else len(self.series)  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[int]:
        """(number of subjects,): what scikit-learn reads to index the cohort like an array."""
        return (len(self),)

    @property
    def n_rois(self) -> int:
        """Number of ROIs."""
        return self.matrices.shape[1] if self.matrices is not None else self.series.values.shape[1]  # type: ignore[union-attr]

    @property
    def nameless(self) -> bool:
        """Whether the ROIs have no other names than their numbers."""
        return self.roi_names == _numbered(self.n_rois)

    @property
    def lengths(self) -> np.ndarray | None:
        """(n,) number of time points of each subject, or None for matrices."""
        return None if self.series is None else self.series.lengths

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn asks for X[index, ...]
        if isinstance(key, (int, np.integer)):
            i = range(len(self))[key]
            return Subject(
                str(self.subjects[i]),
                None if self.series is None else self.series[i],
                None if self.matrices is None else self.matrices[i],
                None if self.y is None else self.y[i],
                None if self.sites is None else self.sites[i],
                self.covariates.iloc[i].to_dict(),
            )
        index = positions(key, len(self))
        return self._with(
            series=None if self.series is None else self.series[index],
            matrices=None if self.matrices is None else self.matrices[index],
            y=None if self.y is None else self.y[index],
            sites=None if self.sites is None else self.sites[index],
            subjects=self.subjects[index],
            covariates=self.covariates.iloc[index].reset_index(drop=True),
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError(
            "a Cohort is no table of features; use a classifier of graphs such as "
            'make_estimator("linear-svm"), or put a step that makes numbers of it before yours.'
        )

    def __iter__(self) -> Iterator[Subject]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        people = len(np.unique(self.subjects))
        who = f"{people} subjects" if people == len(self) else f"{len(self)} scans of {people} subjects"
        parts = [who, f"{self.n_rois} ROIs"]
        if self.lengths is None:
            parts.append("matrices")
        elif len(self):
            spread = "–".join(str(t) for t in sorted({self.lengths.min(), self.lengths.max()}))
            parts.append(f"series of {spread} time points")
        if self.y is not None:
            counts = pd.Series(self.y).value_counts(sort=False).sort_index()
            parts.append("labels " + ", ".join(f"{label}: {count}" for label, count in counts.items()))
        if self.sites is not None:
            count = len(np.unique(self.sites))
            parts.append(f"{count} site{'s' if count > 1 else ''}")
        return f"Cohort({', '.join(parts)})"

    # --------------------------------------------------------------- new from old

    def _with(self, **change: Any) -> Cohort:
        """Return a cohort that differs in the given arguments of the constructor."""
        parts = {
            "series": self.series,
            "matrices": self.matrices,
            "y": self.y,
            "sites": self.sites,
            "subjects": self.subjects,
            "covariates": self.covariates,
            "roi_names": self.roi_names,
            "atlas": self.atlas,
            "edge_truth": self.edge_truth,
            "site_truth": self.site_truth,
            "zeros_mean_absent": self.zeros_mean_absent,
        }
        return Cohort(**(parts | change))

    def with_matrices(self, matrices: np.ndarray) -> Cohort:
        """Return the same subjects with connectivity, (n, R, R), instead of their data."""
        if np.shape(matrices) != (len(self), self.n_rois, self.n_rois):
            want = (len(self), self.n_rois, self.n_rois)
            raise ValueError(f"matrices must have shape {want}, got {np.shape(matrices)}.")
        return self._with(series=None, matrices=matrices)

    def with_y(self, y: Any) -> Cohort:
        """Return the same subjects with other labels, (n,) or None."""
        return self._with(y=y)

    def with_atlas(self, atlas: Atlas) -> Cohort:
        """Return the same subjects with the names, places and systems of ``atlas``.

        An atlas of the same names in another order is brought into the cohort's; other names are replaced.
        """
        if len(atlas) == self.n_rois and (places := places_of(self.roi_names, atlas.names)) is not None:
            atlas = atlas[places]
        return self._with(atlas=atlas, roi_names=atlas.names)

    # ------------------------------------------------------------- reading as a whole

    def summary(self, groups: dict[Any, str] | None = None) -> pd.DataFrame:
        """Return the demographic table: size, age (mean ± std) and sex, per group and per site and group.

        groups : label → name of the group, for instance ``{0: "TD", 1: "ASD"}``; by default the label.
        Rows are (site, group), the whole cohort first under the site "all"; the columns are "subjects" and,
        where the covariates exist, "age", "sex (M/F)" and "mean FD".
        """
        from cignn.datasets.participants import demographic_table

        return demographic_table(self, groups or {})

    def digest(self) -> str:
        """Return a fingerprint of the subjects and their data: equal cohorts, equal digest."""
        names = np.array(self.roi_names, dtype=str)
        columns = [part for name in self.covariates for part in (np.array(name), self.covariates[name])]
        parts = [self.lengths, self.matrices, self.y, self.sites, self.subjects, names, *columns]
        arrays = [
            None if part is None else _words(np.asarray(part))
            for part in (*parts, self.edge_truth, self.site_truth)
        ]
        # zeros_mean_absent decides what `Connectivity` does with zeros
        return digest(*arrays, *(self.series or ()), self.zeros_mean_absent, length=16)

    def save(self, path: str | Path) -> Path:
        """Write the cohort to one .npz file, which `load_cohort` reads back; returns the path written."""
        from cignn.datasets.cohort_npz import write_npz

        return write_npz(self, path)


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


def _as_lengths(lengths: Any) -> np.ndarray:
    given = np.asarray(lengths)
    with np.errstate(invalid="ignore"):
        whole = given.astype(np.int64) if given.dtype.kind in "iuf" or not given.size else None
    if whole is None or (whole != given).any():
        got = name_some(np.ravel(given), 3)
        raise ValueError(f"lengths must be whole numbers of time points, got {got}.")
    return whole


def _numbered(n_rois: int) -> list[str]:
    return [f"ROI-{i:03d}" for i in range(1, n_rois + 1)]


def _as_matrices(matrices: Any) -> np.ndarray:
    shapes = [] if isinstance(matrices, np.ndarray) else [np.shape(one) for one in matrices]
    if len(set(shapes)) > 1:
        usual = Counter(shapes).most_common(1)[0][0]
        odd = next(i for i, shape in enumerate(shapes) if shape != usual)
        raise ValueError(
            f"all matrices must have the same number of ROIs, most have shape {usual}, matrix {odd} has "
            f"{shapes[odd]}; use the same atlas."
        )
    stacked = as_float32(matrices, "matrices")
    if stacked.ndim != 3 or stacked.shape[1] != stacked.shape[2] or not stacked.shape[1]:
        raise ValueError(f"matrices must be (subjects, ROIs, ROIs), got shape {stacked.shape}.")
    own = np.arange(stacked.shape[1])
    infinite = ~np.isfinite(stacked[:, own, own])  # Fisher's z of 1; nothing reads the diagonal
    if infinite.any():
        stacked = stacked.copy()
        stacked[:, own, own] = np.where(infinite, 0, stacked[:, own, own])
    return stacked


def _as_sites(sites: Any) -> np.ndarray:
    """A copy in which a missing site is a word, so that sites can be sorted and counted."""
    column = np.array(sites, object)  # else NaN among words would be one of them
    if column.ndim != 1 or not pd.isna(column).any():
        return np.array(sites)
    return np.array(["n/a" if pd.isna(site) else _word(site) for site in column.tolist()])


def _word(site: Any) -> str:
    """A site as text; 2.0, which stands beside NaN, is 2."""
    return str(int(site)) if isinstance(site, float) and site.is_integer() else str(site)


def _as_table(covariates: Any, subjects: np.ndarray) -> pd.DataFrame:
    n = len(subjects)
    if covariates is None:
        return pd.DataFrame(index=range(n))
    try:
        table = pd.DataFrame(covariates)
    except (TypeError, ValueError) as error:
        raise ValueError(f"covariates must be a table or columns of equal length ({error}).") from None
    if len(table) != n:
        raise ValueError(f"covariates must have one row per subject ({n}), got {len(table)}.")
    if twice := repeated(table.columns):
        raise ValueError(f"covariates have the column {twice} more than once; keep or rename one.")
    for name in table:
        check_finite_column(table[name].reset_index(drop=True), str(name), subjects, "covariates")
    return table.reset_index(drop=True)


def _as_truth(name: str, truth: Any, n_rois: int) -> np.ndarray | None:
    if truth is None:
        return None
    truth = np.asarray(truth, bool)
    if truth.shape != (n_rois, n_rois) or not np.array_equal(truth, truth.T):
        raise ValueError(f"{name} must be a symmetric ({n_rois}, {n_rois}) array, got shape {truth.shape}.")
    return truth


def _words(array: np.ndarray) -> np.ndarray:
    """Return objects as words, of which some may be missing in one way or another."""
    return np.where(pd.isna(array), "n/a", array).astype(str) if array.dtype == object else array
