"""Subjects with their ROI series or connectivity matrices: `Cohort` indexes like an array."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._arrays import digest, positions
from cignn._mapped import MappedArray
from cignn.datasets.atlas import Atlas, numbered, places_of
from cignn.datasets.exclusions import as_exclusions, exclusion_lines, joined
from cignn.datasets.labels import as_sites
from cignn.datasets.reading import as_table
from cignn.datasets.scores import is_score, scores_of, without_score
from cignn.datasets.series import SeriesStack, as_matrices
from cignn.datasets.subject import Subject
from cignn.datasets.truth import as_carries, as_sets, as_truth

logger = logging.getLogger(__name__)


class Cohort:
    """Subjects with ROI series or connectivity matrices, labels, sites and covariates.

    ``cohort[3]`` is one `Subject`; ``cohort[mask]``, ``cohort[[0, 2]]`` and ``cohort[:10]`` are cohorts, so
    scikit-learn's splitters, searches and pipelines work on it. A selection does not copy the series. Only
    shapes are checked here; `check_cohort` checks the values. Data are stored as float32. In shapes, n is the
    number of subjects (of scans, if subjects have several), R the number of ROIs and t of time points.

    Parameters
    ----------
    series : sequence of (t_i, R) arrays or ndarray of shape (n, t, R), default=None
        ROI series. Exactly one of ``series`` and ``matrices`` must be given.
    matrices : array-like of shape (n, R, R), default=None
        Connectivity matrices. Values on the diagonal that are not finite become 0.
    y : array-like of shape (n,), default=None
        Class labels, numbers or strings; or scores to predict, see `with_target`.
    sites : array-like of shape (n,), default=None
        Where each subject was scanned. None or NaN among them becomes "n/a".
    subjects : array-like of shape (n,), default=None
        Ids of the subjects; by default "sub-0001", "sub-0002" and so on. Scans of one subject share an id.
    covariates : DataFrame or dict of columns with n rows, default=None
        For instance "age", "sex" and "mean_fd" (mean framewise displacement, a measure of head motion).
    roi_names : sequence of R str, default=None
        Names of the ROIs; by default the atlas's, or "ROI-001", "ROI-002" and so on.
    atlas : Atlas, default=None
        Names, coordinates and functional systems of the R regions, in the same order or with the same names.
    edge_truth : array-like of shape (R, R), default=None
        True for connections that are known to differ between the classes, as in simulated cohorts.
    site_truth : array-like of shape (R, R), default=None
        True for connections that are known to differ between sites.
    induced_truth : array-like of shape (R, R), default=None
        True for connections that differ between the classes only because others do.
    edge_sets : array-like of shape (k, R, R), default=None
        True for the connections of each of k sets that subjects carry as a whole, such as subtypes.
    carries : array-like of shape (n, k), default=None
        Who carries which set: 0 for not, 1 for moved as planted, -1 for moved the other way.
    zeros_mean_absent : bool, default=False
        Whether a series of zeros means that the region was not measured; it then gets no connections.
        Otherwise `cignn.connectome.Connectivity` raises an error.
    exclusions : DataFrame, default=None
        Subjects and ROIs left out of the cohort; see ``Attributes``.

    Attributes
    ----------
    exclusions : DataFrame
        Subjects and ROIs that loaders and `check_cohort` left out, one row each: "subject" (its id; "" for
        a ROI), "roi" (its name; "" for a subject), "reason" (the option that left it out) and "detail" (a
        description). A selection of the cohort keeps the table.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import Cohort
    >>> series = np.random.default_rng(0).normal(size=(4, 60, 5))
    >>> cohort = Cohort(series, y=[0, 1, 0, 1], sites=["A", "A", "B", "B"])
    >>> cohort
    Cohort(4 subjects, 5 ROIs, series of 60 time points, labels 0: 2, 1: 2, 2 sites)
    >>> cohort[cohort.sites == "B"].subjects.tolist()
    ['sub-0003', 'sub-0004']
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
        induced_truth: np.ndarray | None = None,
        edge_sets: np.ndarray | None = None,
        carries: np.ndarray | None = None,
        zeros_mean_absent: bool = False,
        exclusions: pd.DataFrame | None = None,
    ) -> None:
        if (series is None) == (matrices is None):
            raise ValueError("a cohort needs exactly one of series and matrices.")
        self.series = None if series is None else SeriesStack.of(series)
        self.matrices = None if matrices is None else as_matrices(matrices)
        n = len(self)
        self.y = None if y is None else np.array(y)  # a copy: pandas hands out read-only arrays
        self.sites = None if sites is None else as_sites(sites)
        named = [f"sub-{i:04d}" for i in range(1, n + 1)] if subjects is None else [str(s) for s in subjects]
        self.subjects = np.array(named, dtype=str)
        for name, column in (("y", self.y), ("sites", self.sites), ("subjects", self.subjects)):
            if column is not None and column.shape != (n,):
                raise ValueError(f"{name} must have one entry per subject ({n}), got shape {column.shape}.")
        self.covariates = as_table(covariates, self.subjects)
        self.atlas = atlas
        if atlas is not None and len(atlas) != self.n_rois:
            raise ValueError(
                f"the atlas has {len(atlas)} regions, the data {self.n_rois} ROIs; they must be the same."
            )
        if roi_names is None:
            roi_names = numbered(self.n_rois) if atlas is None else atlas.names
        self.roi_names = [str(name) for name in roi_names]
        if len(self.roi_names) != self.n_rois:
            raise ValueError(f"expected {self.n_rois} roi_names, got {len(self.roi_names)}.")
        if atlas is not None and (places := places_of(self.roi_names, atlas.names)) is not None:
            self.atlas = atlas[places]
        self.edge_truth = as_truth("edge_truth", edge_truth, self.n_rois)
        self.site_truth = as_truth("site_truth", site_truth, self.n_rois)
        self.induced_truth = as_truth("induced_truth", induced_truth, self.n_rois)
        self.edge_sets = as_sets(edge_sets, self.n_rois)
        self.carries = as_carries(carries, n, self.edge_sets)
        self.zeros_mean_absent = zeros_mean_absent
        self.exclusions = as_exclusions(exclusions)

    # ----------------------------------------------------------------- reading

    def __len__(self) -> int:
        return len(self.matrices) if self.matrices is not None else len(self.series)  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[int]:
        """Number of subjects, as scikit-learn reads it to index the cohort like an array.

        Returns
        -------
        tuple of one int
            The number of subjects.
        """
        return (len(self),)

    @property
    def n_rois(self) -> int:
        """Number of ROIs.

        Returns
        -------
        int
            The number of ROIs.
        """
        return self.matrices.shape[1] if self.matrices is not None else self.series.values.shape[1]  # type: ignore[union-attr]

    @property
    def nameless(self) -> bool:
        """Whether the ROIs have no other names than their numbers.

        Returns
        -------
        bool
            True where neither names nor an atlas were given.
        """
        return self.roi_names == numbered(self.n_rois)

    @property
    def lengths(self) -> np.ndarray | None:
        """Number of time points of each subject.

        Returns
        -------
        ndarray of shape (n,) or None
            The lengths; None for matrices.
        """
        return None if self.series is None else self.series.lengths

    @property
    def mapped(self) -> bool:
        """Whether the data stay on disk and are read when they are needed.

        Returns
        -------
        bool
            True for a cohort that was loaded from a folder of arrays; see `save`.
        """
        return isinstance(self.matrices, MappedArray) or (self.series is not None and self.series.mapped)

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
            carries=None if self.carries is None else self.carries[index],
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
            parts.append("matrices on disk" if self.mapped else "matrices")
        elif len(self):
            spread = "–".join(str(t) for t in sorted({self.lengths.min(), self.lengths.max()}))
            parts.append(f"series of {spread} time points{' on disk' if self.mapped else ''}")
        if self.y is not None and is_score(self.y):
            parts.append(f"scores from {np.nanmin(self.y):g} to {np.nanmax(self.y):g}")
        elif self.y is not None:
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
            "induced_truth": self.induced_truth,
            "edge_sets": self.edge_sets,
            "carries": self.carries,
            "zeros_mean_absent": self.zeros_mean_absent,
            "exclusions": self.exclusions,
        }
        return Cohort(**(parts | change))

    def with_matrices(self, matrices: np.ndarray | MappedArray) -> Cohort:
        """Return the same subjects with connectivity instead of their data.

        Parameters
        ----------
        matrices : ndarray of shape (n, R, R)
            Connectivity matrices.

        Returns
        -------
        Cohort
            A new cohort of matrices.
        """
        if np.shape(matrices) != (len(self), self.n_rois, self.n_rois):
            want = (len(self), self.n_rois, self.n_rois)
            raise ValueError(f"matrices must have shape {want}, got {np.shape(matrices)}.")
        return self._with(series=None, matrices=matrices)

    def with_y(self, y: Any) -> Cohort:
        """Return the same subjects with other labels.

        Parameters
        ----------
        y : array-like of shape (n,) or None
            The labels.

        Returns
        -------
        Cohort
            A new cohort that shares its data with this one.
        """
        return self._with(y=y)

    def with_target(self, target: str, *, missing: str = "raise") -> Cohort:
        """Return the subjects with a covariate as the score to predict, such as age or a symptom score.

        Parameters
        ----------
        target : str
            Name of the covariate, in these or other capitals; "label" is the cohort's own labels.
        missing : {"raise", "drop_subject", "keep"}, default="raise"
            What to do about subjects without a score; "keep" leaves NaN, for subjects to predict.

        Returns
        -------
        Cohort
            A new cohort whose ``y`` are the scores, as floats; labels become the covariate "label".

        Examples
        --------
        >>> from cignn.datasets import make_cohort
        >>> make_cohort(20, n_rois=10, n_edges=4, data="matrices", random_state=0).with_target("age")
        Cohort(20 subjects, 10 ROIs, matrices, scores from 18.4 to 57.6, 3 sites)
        """
        told = self.covariates
        if self.y is not None and "label" not in told:
            told = told.assign(label=self.y)
        name, scores = scores_of(told, target, self.subjects)
        told = told.drop(columns=name)
        gone, scored = without_score(self.subjects, name, scores, missing)
        return self._with(y=scores, covariates=told)._noting(gone)[scored]

    def with_atlas(self, atlas: Atlas) -> Cohort:
        """Return the same subjects with the names, coordinates and systems of an atlas.

        Parameters
        ----------
        atlas : Atlas
            The R regions. With the cohort's names in another order, it is brought into the cohort's order;
            other names replace those of the cohort.

        Returns
        -------
        Cohort
            A new cohort that shares its data with this one.
        """
        if len(atlas) == self.n_rois and (places := places_of(self.roi_names, atlas.names)) is not None:
            atlas = atlas[places]
        return self._with(atlas=atlas, roi_names=atlas.names)

    def _noting(self, *excluded: pd.DataFrame) -> Cohort:
        """Return the same subjects with further rows in the table of exclusions."""
        for line in exclusion_lines(joined(*excluded)):
            logger.info("%s", line)
        return self._with(exclusions=joined(self.exclusions, *excluded))

    # ------------------------------------------------------------- reading as a whole

    def subject_truth(self, i: int) -> np.ndarray:
        """Return the connections that were planted in one subject.

        Parameters
        ----------
        i : int
            Number of the subject.

        Returns
        -------
        ndarray of shape (R, R)
            True for the connections of all sets the subject carries; nowhere True for who carries none.
        """
        if self.edge_sets is None or self.carries is None:
            raise ValueError("the cohort does not say who carries which connections (edge_sets, carries).")
        return self.edge_sets[self.carries[i] != 0].any(0)

    def summary(self, class_names: dict[Any, str] | None = None) -> pd.DataFrame:
        """Return the demographic table: size, age (mean ± std) and sex of each class, over all and per site.

        Parameters
        ----------
        class_names : dict, default=None
            Name of each label's class, for instance ``{0: "TD", 1: "ASD"}``; by default the label.

        Returns
        -------
        DataFrame
            Rows are (site, class), the whole cohort first under the site "all"; the columns are "subjects"
            and, where the covariates exist, "age", "sex (M/F)" and "mean FD".
        """
        from cignn.datasets.participants import demographic_table

        return demographic_table(self, class_names or {})

    def digest(self) -> str:
        """Return a fingerprint of the subjects and their data.

        Returns
        -------
        str
            16 hexadecimal digits; equal cohorts have equal digests.
        """
        names = np.array(self.roi_names, dtype=str)
        columns = [part for name in self.covariates for part in (np.array(name), self.covariates[name])]
        parts = [self.lengths, self.matrices, self.y, self.sites, self.subjects, names, *columns]
        arrays = [
            part if part is None or isinstance(part, MappedArray) else _words(np.asarray(part))
            for part in (*parts, self.edge_truth, self.site_truth)
        ]
        known = [part for part in (self.induced_truth, self.edge_sets, self.carries) if part is not None]
        # zeros_mean_absent decides what `Connectivity` does with zeros
        return digest(*arrays, *(self.series or ()), self.zeros_mean_absent, *known, length=16)

    def save(self, path: str | Path, *, mapped: bool | None = None) -> Path:
        """Write the cohort to one .npz file or, if it is larger than memory, to a folder of arrays.

        `load_cohort` reads both.

        Parameters
        ----------
        path : str or Path
            The file, to which ".npz" is added where it is missing, or the folder. Arrays that are already in
            the folder are replaced.
        mapped : bool, default=None
            Whether to write a folder of .npy files, whose series or matrices `load_cohort` leaves on disk. By
            default so for a cohort that is on disk itself.

        Returns
        -------
        Path
            The file or folder written.
        """
        from cignn.datasets.cohort_arrays import write_cohort

        return write_cohort(self, path, self.mapped if mapped is None else mapped)


def _words(array: np.ndarray) -> np.ndarray:
    """Return objects as words, of which some may be missing in one way or another."""
    return np.where(pd.isna(array), "n/a", array).astype(str) if array.dtype == object else array
