"""ComBat: remove the effect of the scanner from connectivity, fitted on training subjects only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from cignn._arrays import symmetric, upper_triangle
from cignn._checks import DataError, Option, choice, name_some, shown, whole
from cignn.connectome.covariates import (
    CohortTransformer,
    CovariateColumn,
    check_cohort_input,
    check_memory,
    check_rois,
    controls_among,
)
from cignn.datasets.cohort import Cohort
from cignn.datasets.labels import without_site
from cignn.datasets.participants import NUMBERS, numbers

UNSEEN = ("raise", "pass", "grand_mean")
_TOLERANCE = 1e-4  # relative change at which the empirical Bayes iteration stops
_MAX_ITERATIONS = 200


class ComBat(CohortTransformer):
    """Remove site effects from connectivity with ComBat.

    Each connection is modelled as grand mean + covariates + shift of the site + spread of the site × noise.
    Shifts and spreads are shrunk towards their distribution over all connections of the site (empirical
    Bayes) and removed; the effect of the covariates stays. Everything is estimated in `fit`, so harmonisation
    belongs inside the cross-validation; the result for a subject of a known site does not depend on the
    other subjects. The model suits Fisher's z better than correlations:
    ``make_pipeline(Connectivity(fisher=True), ComBat(), ...)``.

    Parameters
    ----------
    covariates : sequence of str, default=("age", "sex")
        Columns of ``cohort.covariates`` whose effect is kept; numbers enter linearly, words as categories.
    unseen : {"raise", "pass", "grand_mean"}, default="raise"
        What to do with subjects of a site that was not in the training cohort. "raise": raise an error that
        names the sites. "pass": return them unchanged. "grand_mean": shift the site's subjects together so
        that at equal covariates they lie around the training cohort's grand mean; the shift is estimated from
        the subjects at hand and shrunk, and their spread stays. No label is used, but a subject's result then
        depends on the other subjects of its site.
    keep_label : bool, default=False
        Whether to estimate the shift of a site at equal label, for sites that differ in their share of
        patients. The label is read in `fit` only; `transform` uses none.
    mean_only : bool, default=False
        Whether to remove shifts only and leave spreads.
    min_site_size : int, default=3
        Sites with fewer training subjects are only shifted, not rescaled, and their shift is shrunk by the
        part that is sampling error.
    missing : {"raise", "mean"}, default="raise"
        What to do with subjects without a covariate: raise an error that names them, or use the training
        mean.
    fit_on : {"all", "controls"}, default="all"
        Training subjects on whom everything is estimated; what was learnt is applied to all. With "controls"
        patients cannot be mistaken for an effect of their site, and every site needs ``min_site_size``
        controls.
    control : object, default=None
        Label of the controls. None stands for the class with a name such as "TD", "HC" or
        "control", else for 0, else for the first class in sorted order.
    repeated : {"raise", "first"}, default="raise"
        What to do with training subjects who have several scans, which are not independent: raise an error
        that names them, or estimate on the first scan of each subject at each site. All scans are harmonised.

    Attributes
    ----------
    sites_ : ndarray of shape (s,)
        Sites of the training cohort.
    shift_ : ndarray of shape (s, p)
        Shift of each site and connection of the upper triangle, in units of ``scale_``.
    spread_ : ndarray of shape (s, p)
        Variance of each site and connection, in units of ``scale_`` squared.
    grand_mean_ : ndarray of shape (p,)
        Mean of each connection.
    scale_ : ndarray of shape (p,)
        Residual standard deviation of each connection.

    References
    ----------
    Johnson et al., "Adjusting batch effects in microarray expression data using empirical Bayes methods",
    Biostatistics 2007. Fortin et al., "Harmonization of cortical thickness measurements across scanners and
    sites", NeuroImage 2018.

    Examples
    --------
    >>> from cignn.connectome import ComBat, Connectivity
    >>> from cignn.datasets import make_cohort
    >>> cohort = make_cohort(20, 10, n_edges=3, n_site_edges=3, site_effect=0.5, random_state=0)
    >>> connectivity = Connectivity(fisher=True).fit_transform(cohort)
    >>> harmonised = ComBat().fit(connectivity[:15]).transform(connectivity[15:])
    >>> harmonised.matrices.shape
    (5, 10, 10)
    """

    def __init__(
        self,
        covariates: Sequence[str] = ("age", "sex"),
        *,
        unseen: str = "raise",
        keep_label: bool = False,
        mean_only: bool = False,
        min_site_size: int = 3,
        missing: str = "raise",
        fit_on: str = "all",
        control: object = None,
        repeated: str = "raise",
    ) -> None:
        self.covariates = covariates
        self.unseen = unseen
        self.keep_label = keep_label
        self.mean_only = mean_only
        self.min_site_size = min_site_size
        self.missing = missing
        self.fit_on = fit_on
        self.control = control
        self.repeated = repeated

    def fit(self, X: Cohort, y: npt.ArrayLike | None = None) -> Self:
        """Estimate the grand mean, the effects of covariates, and shift and spread of each site.

        Parameters
        ----------
        X : Cohort
            Training subjects with matrices, sites and covariates.
        y : array-like of shape (n,), default=None
            Labels, used with ``keep_label=True`` and ``fit_on="controls"``. By default those of the cohort.

        Returns
        -------
        ComBat
            The fitted transformer.
        """
        self._check(X)
        kept_rows = self._independent(X)
        X, y = X[kept_rows], None if y is None else np.asarray(y)[kept_rows]
        if self.fit_on == "controls":
            X, y = X[self._controls(X, y)], None
        check_memory(X, "ComBat")
        values = upper_triangle(np.asarray(X.matrices)).astype(np.float64)
        self.n_rois_ = X.n_rois
        self.sites_, site = np.unique(np.asarray(X.sites), return_inverse=True)
        self.columns_ = [CovariateColumn.of(name, self._covariate(X, name)) for name in self.covariates]
        kept = self._design(X)
        sizes = np.bincount(site)
        dummies = np.eye(len(self.sites_))[site]
        label = self._label(X, y)
        design = np.hstack([dummies, kept, label])
        if np.linalg.matrix_rank(design) < design.shape[1]:
            names = [*self.covariates, *(["the label"] if self.keep_label else [])]
            raise DataError(
                f"the effects of {', '.join(names)} cannot be separated from the sites or from each other in "
                f"these {len(X)} subjects",
                values=names,
                options=[Option("covariates", advice="leave some out of {}", step="ComBat")],
            )
        effects = np.linalg.lstsq(design, values, rcond=None)[0]
        n_sites = len(self.sites_)
        self.grand_mean_ = sizes @ effects[:n_sites] / len(X)
        self.effects_ = effects[n_sites : n_sites + kept.shape[1]]
        scale = np.sqrt(np.mean((values - design @ effects) ** 2, axis=0))
        # a connection that never varies (an ROI without signal) is left as it is
        self.scale_ = np.where(scale > 1e-7 * np.abs(values).max(initial=1e-30), scale, np.inf)
        if not np.isfinite(self.scale_).any():
            raise DataError(
                f"{len(X)} subjects are too few to estimate noise beside {design.shape[1]} sites and "
                "covariates",
                remedy="merge sites, drop covariates or leave ComBat out",
            )
        residuals = (values - self.grand_mean_ - design[:, n_sites:] @ effects[n_sites:]) / self.scale_
        self.shift_, self.spread_ = self._estimate(residuals, site, sizes)
        return self

    def transform(self, X: Cohort) -> Cohort:
        """Harmonise subjects.

        Parameters
        ----------
        X : Cohort
            Subjects with matrices, sites and covariates.

        Returns
        -------
        Cohort
            The same subjects with harmonised matrices; diagonals stay as they are.
        """
        self._check(X)
        self._check_is_fitted()
        check_rois(X, self.n_rois_)
        sites = np.asarray(X.sites)
        known = np.isin(sites, self.sites_)
        if not known.all() and self.unseen == "raise":
            strange = np.unique(sites[~known])
            leave, shift = "leave them as they are", "shift each such site to the training mean"
            raise DataError(
                f"{(~known).sum()} subjects come from sites that were not in the training cohort "
                f"({name_some(strange)})",
                subjects=X.subjects[~known],
                values=strange,
                options=[
                    Option("unseen", ("pass",), f"fit with {{}} to {leave}", "ComBat"),
                    Option("unseen", ("grand_mean",), f"with {{}} to {shift}", "ComBat"),
                ],
            )
        check_memory(X, "ComBat")
        values = upper_triangle(np.asarray(X.matrices)).astype(np.float64)
        varies = np.isfinite(self.scale_)
        expected = self.grand_mean_ + self._design(X) @ self.effects_
        residuals = (values - expected) / self.scale_
        place = np.searchsorted(self.sites_, sites[known])
        residuals[known] = (residuals[known] - self.shift_[place]) / np.sqrt(self.spread_[place])
        if self.unseen == "grand_mean":
            for site in np.unique(sites[~known]):
                here = np.ix_(sites == site, varies)
                residuals[here] -= chance_free_shift(residuals[here])
        harmonised = np.where(varies, expected + residuals * np.where(varies, self.scale_, 0), values)
        if self.unseen == "pass":
            harmonised[~known] = values[~known]
        return X.with_matrices(symmetric(harmonised, np.asarray(X.matrices)))

    def check_columns(self, X: Cohort) -> None:
        """Check the parameters, and that the cohort has the sites and covariates they ask for.

        `fit` and `transform` do so too; this finds out before connectivity is computed.

        Parameters
        ----------
        X : Cohort
            Subjects with sites and covariates, and series or matrices.
        """
        choice("unseen", self.unseen, UNSEEN)
        choice("missing", self.missing, ("raise", "mean"))
        choice("fit_on", self.fit_on, ("all", "controls"))
        choice("repeated", self.repeated, ("raise", "first"))
        if self.fit_on == "controls" and self.keep_label is True:
            raise ValueError('keep_label=True has no use with fit_on="controls"; leave one of them out.')
        named = isinstance(self.covariates, Sequence) and not isinstance(self.covariates, str)
        if not named or not all(isinstance(name, str) for name in self.covariates):
            raise ValueError(f"covariates must be a list of names, got {shown(self.covariates)}.")
        for name in ("keep_label", "mean_only"):
            choice(name, getattr(self, name), (True, False))
        whole("min_site_size", self.min_site_size, 2)
        if X.sites is None:
            raise DataError("ComBat needs sites", remedy="give the cohort sites, or leave ComBat out")
        nowhere = without_site(X.sites, len(X))
        if nowhere.any():
            whom = X.subjects[nowhere]
            raise DataError(
                f"ComBat needs the site of every subject, {name_some(whom)} has none",
                subjects=whom,
                options=[Option("missing_sites", ("own_site",), "give them a site with {}", "check_cohort")],
                remedy="drop the subjects",
            )
        absent = [name for name in self.covariates if name not in X.covariates]
        if absent:
            have = ", ".join(map(str, X.covariates.columns)) or "none"
            raise DataError(
                f"the cohort has no covariate {name_some(absent)} (it has {have})",
                values=absent,
                options=[
                    Option("covariates", advice="fit with others in {}", step="ComBat"),
                    Option("covariates", ((),), "keep none with {}", "ComBat"),
                ],
                remedy="add it",
            )
        for name in self.covariates:
            self._covariate(X, name)

    # ----------------------------------------------------------------- helpers

    def _check(self, X: Cohort) -> None:
        check_cohort_input(X, "ComBat", matrices=True)
        self.check_columns(X)

    def _independent(self, X: Cohort) -> np.ndarray:
        """Positions of the scans to estimate on: one of each subject at each site."""
        table = pd.DataFrame({"subject": X.subjects.astype(str), "site": np.asarray(X.sites).astype(str)})
        if self.repeated == "first":
            return np.flatnonzero(~table.duplicated())
        again = table["subject"].duplicated().to_numpy()
        if again.any():
            whom = np.unique(X.subjects[again])
            raise DataError(
                f"ComBat takes scans for independent, and {name_some(whom)} have several",
                subjects=whom,
                options=[
                    Option("repeated", ("first",), "estimate on the first scan of each with {}", "ComBat")
                ],
                remedy="keep one scan of each subject or harmonise with a longitudinal model beforehand",
            )
        return np.arange(len(X))

    def _controls(self, X: Cohort, y: npt.ArrayLike | None) -> np.ndarray:
        """(n,) bool: who is a control; every site must have enough of them."""
        controls = controls_among(X, y, self.control, "ComBat")
        counts = pd.Series(controls).groupby(np.asarray(X.sites)).sum()
        few = counts[counts < self.min_site_size]
        if len(few):
            said = [f"{site} ({count})" for site, count in few.items()]
            raise DataError(
                f'fit_on="controls" needs {self.min_site_size} controls at each site, there are fewer at '
                f"{name_some(said)}",
                values=few.index.tolist(),
                options=[Option("fit_on", ("all",), "fit on everybody with {}", "ComBat")],
                remedy="leave these sites out",
            )
        return controls

    def _covariate(self, X: Cohort, name: str) -> pd.Series:
        column = X.covariates[name]
        if name in NUMBERS:
            column = numbers(column, name, X.subjects, "the cohort")
        if self.missing == "raise" and column.isna().any():
            whom = X.subjects[column.isna()]
            raise DataError(
                f"{name} is missing for {name_some(whom)}",
                subjects=whom,
                options=[
                    Option("missing", ("mean",), "fit with {}", "ComBat"),
                    Option("covariates", advice=f"leave {name} out of {{}}", step="ComBat"),
                ],
                remedy="drop the subjects",
            )
        return column

    def _design(self, X: Cohort) -> np.ndarray:
        """(n, k) covariates as numbers, centred on the training cohort."""
        columns = [column.coded(self._covariate(X, column.name), X.subjects) for column in self.columns_]
        return np.hstack([np.zeros((len(X), 0)), *columns])

    def _label(self, X: Cohort, y: npt.ArrayLike | None) -> np.ndarray:
        if not self.keep_label:
            return np.zeros((len(X), 0))
        y = X.y if y is None else y
        if y is None:
            raise ValueError("keep_label=True needs labels in fit; pass y or give the cohort some.")
        return _centred(np.asarray(y)[:, None] == np.unique(y)[1:])

    def _estimate(
        self, residuals: np.ndarray, site: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(s, p) shift and spread of each site."""
        varies = np.isfinite(self.scale_)
        shift = np.zeros((len(sizes), residuals.shape[1]))
        spread = np.ones_like(shift)
        for s, size in enumerate(sizes):
            here = residuals[site == s][:, varies]
            if size < self.min_site_size:
                shift[s, varies] = chance_free_shift(here)
            else:
                shift[s, varies], estimated = empirical_bayes(here)
                spread[s, varies] = 1.0 if self.mean_only else estimated
        return shift, spread


def empirical_bayes(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p,) shift and (p,) variance of a site, given its (n, p) standardised residuals.

    Johnson et al. (2007): over connections the shifts are normal and the variances inverse gamma; both
    priors are estimated from the site's own connections by moments, the posterior by alternating updates.
    """
    n = len(residuals)
    shift_hat, variance_hat = residuals.mean(0), residuals.var(0, ddof=1)
    prior_mean, prior_variance = shift_hat.mean(), shift_hat.var()
    mean, variance = variance_hat.mean(), variance_hat.var()
    # with one connection, or all alike, there is no prior to shrink towards
    if not len(shift_hat) or variance < 1e-12 or prior_variance < 1e-12:
        return shift_hat, np.maximum(variance_hat, 1e-12)
    shape, rate = 2 + mean**2 / variance, mean + mean**3 / variance
    spread = variance_hat
    for _ in range(_MAX_ITERATIONS):
        shift = (n * prior_variance * shift_hat + spread * prior_mean) / (n * prior_variance + spread)
        squares = (n - 1) * variance_hat + n * (shift_hat - shift) ** 2
        new = (rate + squares / 2) / (n / 2 + shape - 1)
        done = np.max(np.abs(new - spread) / new) < _TOLERANCE
        spread = new
        if done:
            break
    return shift, spread


def chance_free_shift(residuals: np.ndarray) -> np.ndarray:
    """(p,) shift of a site whose spread is taken as 1, without the part that is sampling error.

    residuals : (n, p), standardised. The sampling variance is 1 / n, so a single subject is not moved onto
    the mean.
    """
    observed = residuals.mean(0)
    mean = observed.mean()
    real = max(observed.var() - 1 / len(residuals), 0.0)
    return mean + real / (real + 1 / len(residuals)) * (observed - mean)


def _centred(columns: np.ndarray) -> np.ndarray:
    return columns - columns.mean(0)
