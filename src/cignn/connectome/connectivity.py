"""Connectivity of ROI series: (t, R) series of each subject → (R, R) matrices."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from cignn._checks import DataError, Option, choice, jobs, name_some
from cignn._mapped import MappedArray, Rows, scratch
from cignn._progress import track, working
from cignn.connectome.covariates import (
    NON_FINITE,
    CohortTransformer,
    check_cohort_input,
    check_memory,
    with_rois,
)
from cignn.datasets.cohort import Cohort

if TYPE_CHECKING:
    from nilearn.connectome import ConnectivityMeasure

KINDS = ("correlation", "partial", "tangent", "covariance")
_NILEARN = {"partial": "partial correlation", "tangent": "tangent", "covariance": "covariance"}
_LARGEST_R = 1 - 1e-6  # Fisher's z of a perfect correlation is infinite
_BLOCK = 32  # subjects in one piece of work: bounds the memory, feeds the processes


class Connectivity(CohortTransformer):
    """Turn a cohort's ROI series into connectivity matrices.

    Correlation, partial correlation and covariance are computed for each subject alone: nothing is fitted.
    The tangent space has a reference, the geometric mean of covariances, which `fit` estimates from the
    training cohort; a subject's matrix does not depend on the other subjects transformed. A cohort that
    already has matrices passes through `Connectivity()` unchanged. The matrices of series on disk are written
    beside them, to a temporary file that is removed with the result; ``save`` the result to keep it.

    Parameters
    ----------
    kind : {"correlation", "partial", "tangent", "covariance"}, default="correlation"
        Pearson's correlation, or the measure of that name of nilearn's `ConnectivityMeasure`.
    fisher : bool, default=False
        Whether to return Fisher's z, arctanh r, with a zero diagonal; for "correlation" and "partial".
    covariance_estimator : scikit-learn covariance estimator, default=None
        Used for all but "correlation". By default Ledoit-Wolf: with few time points per ROI the empirical
        covariance is nearly singular, and its inverse or logarithm is mostly noise.
    standardise : bool, default=None
        Whether to z-score each series before. By default for "partial" and "tangent", where scanner units
        would dominate shrinkage and mean, and not for "covariance".
    constant_rois : {"raise", "zero"}, default="raise"
        What to do with constant ROI series, whose correlations are undefined. "raise": raise an error that
        names subjects and ROIs. "zero": give the ROI no connection (0; the diagonal of correlations is 1);
        the tangent space's reference is then estimated from the other subjects.
    n_jobs : int, default=1
        Number of processes, over subjects, for all but "correlation".
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    measure_ : nilearn.connectome.ConnectivityMeasure or None
        The fitted measure, None for "correlation".
    n_rois_ : int
        Number of ROIs seen in `fit`.
    roi_names_ : list of str
        Names of these ROIs. `transform` brings the ROIs of a cohort into their order.
    atlas_ : Atlas or None
        Atlas of the cohort seen in `fit`, given to cohorts without one.

    References
    ----------
    Varoquaux et al., "Detection of brain functional-connectivity difference in post-stroke patients using
    group-level covariance modeling", MICCAI 2010.

    Examples
    --------
    >>> from cignn.connectome import Connectivity
    >>> from cignn.datasets import make_cohort
    >>> cohort = make_cohort(4, 10, n_edges=3, n_site_edges=3, random_state=0)
    >>> Connectivity("correlation").fit_transform(cohort).matrices.shape
    (4, 10, 10)
    """

    def __init__(
        self,
        kind: str = "correlation",
        *,
        fisher: bool = False,
        covariance_estimator: BaseEstimator | None = None,
        standardise: bool | None = None,
        constant_rois: str = "raise",
        n_jobs: int | None = 1,
        verbose: int = 0,
    ) -> None:
        self.kind = kind
        self.fisher = fisher
        self.covariance_estimator = covariance_estimator
        self.standardise = standardise
        self.constant_rois = constant_rois
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """As scikit-learn writes it, and with the kind where that is the default: reports print it."""
        text = super().__repr__(N_CHAR_MAX)
        if "kind=" in text:
            return text
        opening = f"{type(self).__name__}("
        rest = text.removeprefix(opening)
        return f"{opening}kind={self.kind!r}{'' if rest == ')' else ', '}{rest}"

    def fit(self, X: Cohort, y: npt.ArrayLike | None = None) -> Self:
        """Check the parameters and estimate the reference of the tangent space.

        Parameters
        ----------
        X : Cohort
            Training subjects.
        y : array-like of shape (n,), default=None
            Ignored.

        Returns
        -------
        Connectivity
            The fitted transformer.
        """
        self._check(X)
        self.n_rois_, self.roi_names_, self.atlas_ = X.n_rois, X.roi_names, X.atlas
        self.measure_ = None
        if X.series is None or self.kind == "correlation":
            return self
        constant = self._constant_rois(X)
        if self.kind == "tangent" and not constant.any(1).all():
            X = X[~constant.any(1)]
        elif self.kind != "tangent":
            X = X[:1]  # nothing is learned, but nilearn needs some series to fit
        from nilearn.connectome import ConnectivityMeasure

        measure = ConnectivityMeasure(
            cov_estimator=self.covariance_estimator, kind=_NILEARN[self.kind], standardize=False
        )
        # many small matrices: threads would spend their time waiting
        verbose = self.verbose if self.kind == "tangent" else 0
        check_memory(X, "the tangent space", self.kind == "tangent")
        shown = working(f"reference of the tangent space, {len(X)} subjects", verbose)
        with shown, warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", FutureWarning)
            self.measure_ = measure.fit([self._prepared(series) for series in X.series or ()])
        return self

    def transform(self, X: Cohort) -> Cohort:
        """Compute the connectivity of every subject.

        Parameters
        ----------
        X : Cohort
            Subjects with ROI series, or with matrices, which are returned unchanged.

        Returns
        -------
        Cohort
            The same subjects with matrices of shape (n, R, R), float32.
        """
        self._check(X)
        self._check_is_fitted()
        X = with_rois(X, self.roi_names_, self.atlas_)
        if X.series is None:
            return X
        constant = self._constant_rois(X)
        made = self._blocks(X, constant)
        if isinstance(X.series.values, MappedArray):
            rows = Rows((len(X), X.n_rois, X.n_rois), made)
            return X.with_matrices(scratch(rows, X.series.values.file.path.parent))
        matrices = np.empty((len(X), X.n_rois, X.n_rois), np.float32)
        for start, block in zip(range(0, len(X), _BLOCK), made, strict=True):
            matrices[start : start + _BLOCK] = block
        return X.with_matrices(matrices)

    # ----------------------------------------------------------------- helpers

    def _check(self, X: Cohort) -> None:
        check_cohort_input(X, "Connectivity")
        choice("kind", self.kind, KINDS)
        choice("constant_rois", self.constant_rois, ("raise", "zero"))
        choice("fisher", self.fisher, (True, False))
        choice("standardise", self.standardise, (True, False, None))
        if self.n_jobs is not None:
            jobs("n_jobs", self.n_jobs)
        if self.fisher and self.kind not in ("correlation", "partial"):
            raise ValueError(
                f"fisher=True needs correlations; use kind='correlation' or 'partial', got {self.kind!r}."
            )
        if X.series is None and (self.kind != "correlation" or self.fisher):
            asked = f"kind={self.kind!r}" + (", fisher=True" if self.fisher else "")
            raise ValueError(
                f"Connectivity({asked}) needs ROI series, the cohort has ready matrices; leave the step out "
                f"or use Connectivity(), which passes them through."
            )

    def _prepared(self, series: np.ndarray) -> np.ndarray:
        """(t, R) float64, z-scored if wanted; a constant ROI becomes zero."""
        series = np.asarray(series, np.float64)
        wanted = self.kind in ("partial", "tangent") if self.standardise is None else self.standardise
        if not wanted:
            return series
        centred = series - series.mean(0)
        std = centred.std(0)
        constant = np.ptp(series, axis=0) == 0
        return np.where(constant, 0.0, centred / np.where(constant, 1.0, std))

    def _blocks(self, X: Cohort, constant: np.ndarray) -> Iterator[np.ndarray]:
        """Yield (b, R, R) float32 matrices of `_BLOCK` subjects after the other."""
        assert X.series is not None
        blocks = [slice(start, start + _BLOCK) for start in range(0, len(X), _BLOCK)]
        results: Iterator[np.ndarray]
        if self.kind == "correlation":
            results = (np.array([pearson(one) for one in X.series[block]], np.float32) for block in blocks)
        else:
            results = self._measured(X, blocks)
        correlations = self.kind in ("correlation", "partial")
        for block, matrices in zip(blocks, results, strict=True):
            if self.fisher:
                fisher_z(matrices)
            _disconnect(matrices, constant[block], 1.0 if correlations and not self.fisher else 0.0)
            yield matrices

    def _measured(self, X: Cohort, blocks: list[slice]) -> Iterator[np.ndarray]:
        """Yield (b, R, R) float32 matrices of each block of subjects by nilearn's estimator."""
        assert X.series is not None
        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(_measure)(
                self.measure_, [self._prepared(series) for series in X.series[block]], X.subjects[block]
            )
            for block in blocks
        )
        shown = track(results, f"connectivity ({self.kind})", len(blocks), self.verbose)
        with threadpool_limits(1):
            yield from (np.asarray(result, np.float32) for result in shown)

    def _constant_rois(self, X: Cohort) -> np.ndarray:
        """(n, R) bool: constant series; refused with ``constant_rois="raise"`` unless known to be absent."""
        assert X.series is not None
        constant = np.zeros((len(X), X.n_rois), bool)
        wrong = constant.copy()
        for i, series in enumerate(X.series):
            if len(series) < 3:
                short = f"subject {X.subjects[i]} has {len(series)} time points"
                problem = f"{short}; connectivity needs 3 or more"
                raise DataError(problem, subjects=[X.subjects[i]], values=[len(series)])
            low, high = series.min(0), series.max(0)
            if not np.isfinite(low).all() or not np.isfinite(high).all():
                raise DataError(
                    f"subject {X.subjects[i]} has NaN or infinite values",
                    subjects=[X.subjects[i]],
                    options=[NON_FINITE],
                )
            constant[i] = low == high
            wrong[i] = constant[i] & (low != 0) if X.zeros_mean_absent else constant[i]
        if wrong.any() and self.constant_rois == "raise":
            who = np.flatnonzero(wrong.any(1))
            subjects = [
                f"{X.subjects[i]} ({name_some([X.roi_names[j] for j in np.flatnonzero(wrong[i])], 3)})"
                for i in who
            ]
            raise DataError(
                f"{len(who)} subjects have constant ROIs, whose correlations are undefined: "
                f"{name_some(subjects)}",
                subjects=X.subjects[who],
                values=np.array(X.roi_names)[wrong.any(0)],
                options=[Option("constant_rois", ("zero",))],
                remedy="drop the subjects",
            )
        return constant


def pearson(series: np.ndarray) -> np.ndarray:
    """(R, R) Pearson correlations of (t, R) series, exactly symmetric; 0 for a constant ROI."""
    centred = np.asarray(series, np.float64)
    centred = centred - centred.mean(0)
    norm = np.linalg.norm(centred, axis=0)
    norm[np.ptp(series, axis=0) == 0] = np.inf
    centred /= norm
    r = centred.T @ centred
    r = np.clip((r + r.T) / 2, -1, 1)
    np.fill_diagonal(r, 1)
    return r


def fisher_z(matrices: np.ndarray) -> None:
    """Replace (n, R, R) correlations by arctanh r, in place; the diagonal becomes 0, r = ±1 stays finite."""
    np.clip(matrices, -_LARGEST_R, _LARGEST_R, out=matrices)
    np.arctanh(matrices, out=matrices)
    on_diagonal = np.arange(matrices.shape[1])
    matrices[:, on_diagonal, on_diagonal] = 0


def _measure(measure: ConnectivityMeasure, series: list[np.ndarray], subjects: np.ndarray) -> np.ndarray:
    """(b, R, R) matrices by nilearn's estimator; subjects : (b,) their names, for messages."""
    # nilearn refuses to transform one subject alone, in case it was fitted on that one
    padded = series * 2 if len(series) == 1 else series
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return np.asarray(measure.transform(padded))[: len(series)]
        except (ValueError, np.linalg.LinAlgError) as error:
            raise ValueError(
                f"the connectivity of {name_some(subjects)} cannot be computed "
                f"({str(error).splitlines()[0]}); look for extreme values in the series, and in those that "
                "the tangent space was fitted on."
            ) from error


def _disconnect(matrices: np.ndarray, constant: np.ndarray, diagonal: float) -> None:
    """Give constant ROIs no connection, in place."""
    for i in np.flatnonzero(constant.any(1)):
        matrices[i, constant[i], :] = 0
        matrices[i, :, constant[i]] = 0
        which = np.flatnonzero(constant[i])
        matrices[i, which, which] = diagonal
