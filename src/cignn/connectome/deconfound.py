"""Nuisance covariates: take their effects out of connectivity, and map what they do to each connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from cignn._arrays import blocks, symmetric, upper_triangle
from cignn._checks import DataError, Option, choice, name_some, shown
from cignn._mapped import MappedArray, Rows, scratch
from cignn.connectome.combat import UNSEEN, chance_free_shift
from cignn.connectome.covariates import (
    CohortTransformer,
    CovariateColumn,
    check_cohort_input,
    check_memory,
    check_rois,
    controls_among,
    find_covariate,
    known_covariates,
    refuse_score,
)
from cignn.datasets.cohort import Cohort
from cignn.datasets.scores import is_score

FIT_ON = ("auto", "all", "controls", "within_classes")
NUISANCES = ("motion", "age", "sex", "site")
_RANK = 1e-9  # singular values of the design below this share of the largest count as 0


class Square(NamedTuple):
    """The squared term of a number, learned from the training cohort; in standard deviations."""

    low: float  # smallest value in training
    high: float  # largest
    mean: float  # of the squares


class Deconfound(CohortTransformer):
    """Regress nuisance covariates out of every connection.

    Each connection is regressed on the covariates by least squares. What they explain is taken out and the
    mean stays, so the result still is connectivity. Numbers enter with their squares, words and sites as
    categories. Everything is estimated in `fit`, so that it belongs inside the cross-validation; the result
    for a subject of a known site depends neither on the other subjects nor on its own label.

    Where classes differ in a covariate (patients often move more), least squares on all subjects mistakes
    part of what the classes differ in for its effect and takes it out too: at equal label, predictions then
    follow the covariate the other way round. ``fit_on="within_classes"``, the default where there are
    classes, estimates the effects at equal label, as far as the differences of the classes are more than
    sampling error, and leaves least of the covariate in predictions (`nuisance_test`).
    ``fit_on="controls"`` reads controls alone, who may not cover the range of patients.

    Parameters
    ----------
    covariates : sequence of str, default=("age", "sex", "motion", "site")
        Columns of ``cohort.covariates``. "motion" is the mean framewise displacement, ``mean_fd``, and "site"
        stands for ``cohort.sites``. Missing values count as the training mean; a number beyond the range of
        the training cohort counts as the end of the range, because squares do not extrapolate.
    fit_on : {"auto", "all", "controls", "within_classes"}, default="auto"
        Training subjects on whom the effects are estimated: all, controls, or all within their classes.
        "auto" stands for "within_classes" where `fit` gets labels of two classes or more, and for "all"
        without labels and where the labels are a score. Labels are read in `fit` only.
    control : object, default=None
        Label of the controls. None stands for the class with a name such as "TD", "HC" or
        "control", else for 0, else for the first class in sorted order.
    unseen : {"raise", "pass", "grand_mean"}, default="raise"
        What to do with subjects of a site, or of a category, that was not in training. "raise": raise an
        error that names it. "pass": take out what the other covariates explain. "grand_mean": also shift
        the subjects of such a site together to the training mean, as `ComBat` does; the shift is estimated
        from the subjects at hand and shrunk, so a result then depends on the other subjects of the site.

    Attributes
    ----------
    fit_on_ : {"all", "controls", "within_classes"}
        Where the effects were estimated: what "auto" stood for, else ``fit_on``.
    columns_ : list of CovariateColumn
        How each covariate is coded.
    effects_ : ndarray of shape (k, p)
        Effect of each coded column on each connection of the upper triangle.
    mean_ : ndarray of shape (p,)
        Mean of each connection.
    scale_ : ndarray of shape (p,)
        Residual standard deviation of each connection; infinite for one that does not vary.

    See Also
    --------
    ComBat : Removes shift and spread of sites and keeps the effects of covariates.
    nuisance_maps : What each covariate does to each connection.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.connectome import Connectivity, Deconfound
    >>> from cignn.datasets import make_cohort
    >>> cohort = make_cohort(40, 10, n_edges=3, random_state=0)
    >>> connectivity = Connectivity(fisher=True).fit_transform(cohort)
    >>> step = Deconfound(("age", "motion")).fit(connectivity[:30])
    >>> step.fit_on_
    'within_classes'
    >>> step.transform(connectivity[30:]).matrices.shape
    (10, 10, 10)
    >>> plain = Deconfound(("age", "motion"), fit_on="all").fit_transform(connectivity)
    >>> abs(np.corrcoef(plain.matrices[:, 0, 1], cohort.covariates["age"])[0, 1]) < 1e-5
    np.True_
    """

    def __init__(
        self,
        covariates: Sequence[str] = ("age", "sex", "motion", "site"),
        fit_on: str = "auto",
        *,
        control: object = None,
        unseen: str = "raise",
    ) -> None:
        self.covariates = covariates
        self.fit_on = fit_on
        self.control = control
        self.unseen = unseen

    def fit(self, X: Cohort, y: npt.ArrayLike | None = None) -> Self:
        """Estimate the effects of the covariates on every connection.

        Parameters
        ----------
        X : Cohort
            Training subjects with matrices and the covariates.
        y : array-like of shape (n,), default=None
            Labels, not used with ``fit_on="all"``; those of the cohort by default, if it has any. Of a score,
            which only "all" goes with, a covariate that is the score itself is refused.

        Returns
        -------
        Deconfound
            The fitted transformer.
        """
        self._check(X)
        self.fit_on_ = self._resolved(X, y)
        refuse_score(X, y, self.covariates, self.fit_on_)
        labels = self._labels(X, y) if self.fit_on_ == "within_classes" else None
        if self.fit_on_ == "controls":
            X = X[controls_among(X, y, self.control, "Deconfound")]
        self.n_rois_ = X.n_rois
        self.columns_, self.squares_ = [], []
        for name in known_covariates(X, self.covariates):
            values = find_covariate(X, name)
            assert values is not None
            column = CovariateColumn.of(name, values)
            self.columns_.append(column)
            self.squares_.append(_square(column, values, X.subjects))
        design = self._design(X)
        inverse, rank = _pseudo_inverse(design)
        if rank and rank >= len(X) - 1:
            whom = "controls" if self.fit_on_ == "controls" else "subjects"
            raise DataError(
                f"{len(X)} {whom} are too few to estimate the effects of "
                f"{', '.join(self.covariates)} ({rank} columns)",
                values=(len(X),),
                options=[Option("covariates", advice="leave some out of {}", step="Deconfound")],
                remedy="fit on more subjects",
            )
        self.mean_, self.effects_ = self._regress(X, inverse)
        if labels is not None:
            self.effects_ = self._at_equal_label(X, design, labels)
        scale = np.sqrt(
            self._squares(X, _beside_one(design), np.vstack([self.mean_, self.effects_])) / len(X)
        )
        # infinite where nothing varies
        self.scale_ = np.where(scale > 1e-7 * _largest(X), scale, np.inf)
        return self

    def transform(self, X: Cohort) -> Cohort:
        """Take the effects of the covariates out of subjects.

        Parameters
        ----------
        X : Cohort
            Subjects with matrices and the covariates.

        Returns
        -------
        Cohort
            The same subjects with other matrices; diagonals stay as they are. The result of a cohort on disk
            is on disk.
        """
        self._check_is_fitted()
        self._check(X)
        check_rois(X, self.n_rois_)
        design, effects = self._design(X), self.effects_
        strange = self._unseen_sites(X) if self.unseen == "grand_mean" else pd.Series(dtype=object)
        for site in strange.dropna().unique():  # each as one more column
            here = (strange == site).to_numpy()
            shift = self._shift(X[here], design[here])
            design = np.column_stack([design, here])
            effects = np.vstack([effects, shift])
        made = self._cleaned(X, design, effects)
        shape = (len(X), X.n_rois, X.n_rois)
        if isinstance(X.matrices, MappedArray):
            return X.with_matrices(scratch(Rows(shape, made), X.matrices.file.path.parent))
        matrices, start = np.empty(shape, np.float32), 0
        for block in made:
            matrices[start : start + len(block)] = block
            start += len(block)
        return X.with_matrices(matrices)

    def check_columns(self, X: Cohort) -> None:
        """Check the parameters, and that the cohort has the covariates they ask for.

        `fit` and `transform` do so too; this finds out before connectivity is computed.

        Parameters
        ----------
        X : Cohort
            Subjects with covariates, and series or matrices.
        """
        choice("fit_on", self.fit_on, FIT_ON)
        choice("unseen", self.unseen, UNSEEN)
        named = isinstance(self.covariates, Sequence) and not isinstance(self.covariates, str)
        if not named or not all(isinstance(name, str) for name in self.covariates):
            raise ValueError(f"covariates must be a list of names, got {shown(self.covariates)}.")
        known_covariates(X, self.covariates)

    # ----------------------------------------------------------------- helpers

    def _check(self, X: Cohort) -> None:
        check_cohort_input(X, "Deconfound", matrices=True)
        self.check_columns(X)

    def _resolved(self, X: Cohort, y: npt.ArrayLike | None) -> str:
        """What "auto" stands for with these labels."""
        if self.fit_on != "auto":
            return self.fit_on
        labels = pd.Series(dtype=object) if X.y is None and y is None else self._labels(X, y)
        classes = labels.nunique() > 1 and not is_score(labels)
        return "within_classes" if classes else "all"

    def _labels(self, X: Cohort, y: npt.ArrayLike | None) -> pd.Series:
        """(n,) labels of the training subjects."""
        y = X.y if y is None else y
        if y is None:
            raise ValueError(f'fit_on="{self.fit_on}" needs labels in fit; pass y or give the cohort some.')
        return pd.Series(np.ravel(y))

    def _unseen_sites(self, X: Cohort) -> pd.Series:
        """(n,) the site where it was not in training, else missing."""
        for column in self.columns_:
            if column.name == "site" and column.levels is not None:
                values = find_covariate(X, "site")
                assert values is not None
                return values.mask(values.isin(column.levels))
        return pd.Series(dtype=object)

    def _design(self, X: Cohort) -> np.ndarray:
        """(n, k) covariates as numbers, centred on the training subjects."""
        parts = [np.zeros((len(X), 0))]
        for column, square in zip(self.columns_, self.squares_, strict=True):
            values = find_covariate(X, column.name)
            assert values is not None
            strange = np.zeros(len(X), bool)
            if column.levels is not None:
                strange = (values.notna() & ~values.isin(column.levels)).to_numpy()
            if strange.any():
                self._refuse_unseen(column, values[strange], X.subjects[strange])
                values = values.mask(strange)
            coded = column.coded(values, X.subjects)
            if square is not None and coded.shape[1]:
                known = values.notna().to_numpy()[:, None]
                coded = np.where(known, np.clip(coded, square.low, square.high), 0)
                coded = np.hstack([coded, np.where(known, coded**2 - square.mean, 0)])
            parts.append(coded)
        return np.hstack(parts)

    def _refuse_unseen(self, column: CovariateColumn, values: pd.Series, subjects: np.ndarray) -> None:
        """Raise for sites and categories that were not in training, unless they count as the mean."""
        if self.unseen != "raise":
            return
        whom = "the controls of the training cohort" if self.fit_on == "controls" else "the training cohort"
        several = "sites" if column.name == "site" else f"values of {column.name}"
        strange = sorted(values.astype(str).unique())
        options = [Option("unseen", ("pass",), "fit with {} to count them as the mean", "Deconfound")]
        if column.name == "site":
            advice = "with {} to shift each such site to the training mean"
            options.append(Option("unseen", ("grand_mean",), advice, "Deconfound"))
        raise DataError(
            f"{len(subjects)} subjects have {several} that were not in {whom} ({name_some(strange)})",
            subjects=subjects,
            values=strange,
            options=options,
        )

    def _regress(self, X: Cohort, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(p,) mean and (k, p) effects; inverse : (k, n) pseudo-inverse of the centred design."""
        weights = np.vstack([np.full(len(X), 1 / len(X)), inverse])
        total = np.zeros((len(weights), X.n_rois**2))
        start = 0
        for block in blocks(X.matrices):
            stop = start + len(block)
            total += weights[:, start:stop] @ block.reshape(len(block), -1).astype(np.float64)
            start = stop
        total = upper_triangle(total.reshape(-1, X.n_rois, X.n_rois))
        return total[0], total[1:]

    def _squares(self, X: Cohort, columns: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """(p,) sums of squares of what columns (n, k) with effects (k, p) leave of the connections."""
        squares, start = np.zeros(effects.shape[1]), 0
        for block in blocks(X.matrices):
            stop = start + len(block)
            squares += ((upper_triangle(block) - columns[start:stop] @ effects) ** 2).sum(0)
            start = stop
        return squares

    def _at_equal_label(self, X: Cohort, design: np.ndarray, labels: pd.Series) -> np.ndarray:
        """(k, p) effects at equal label, (1 − c) of the plain ones and c of those within classes.

        Within classes, what the classes differ in by sampling error is not taken out and returns as an error
        of the effects, which a classifier finds in the same subjects. Plain effects take all differences of
        the classes for those of the covariates. The two errors cancel with c the James–Stein factor of the
        differences between classes, 1 − E(F) / mean F with E(F) what chance makes of F. Plain effects stay
        where the covariates tell the classes (F is 0), or too few subjects are left to estimate F.
        """
        codes, classes = pd.factorize(labels, use_na_sentinel=False)
        member = np.eye(len(classes))[codes]
        means = member / member.sum(0)
        within = design - member @ (means.T @ design)
        inverse, rank = _pseudo_inverse(within)
        estimates = self._regress(X, np.vstack([inverse, means.T]))[1]
        effects, levels = estimates[: len(inverse)], estimates[len(inverse) :]
        plain = self._squares(X, _beside_one(design), np.vstack([self.mean_, self.effects_]))
        left = self._squares(X, np.hstack([member, within]), np.vstack([levels, effects]))
        free = len(X) - rank - len(classes)
        varies = left > len(X) * (1e-7 * _largest(X)) ** 2
        if len(classes) < 2 or free < 3 or not varies.any():
            return self.effects_
        ratios = (plain - left)[varies] / (len(classes) - 1) / (left[varies] / free)
        factor = max(0.0, 1 - free / (free - 2) / max(float(ratios.mean()), 1e-12))
        return (1 - factor) * self.effects_ + factor * effects

    def _shift(self, X: Cohort, design: np.ndarray) -> np.ndarray:
        """(p,) shift of the subjects of one unseen site at equal covariates, without sampling error."""
        values = upper_triangle(np.asarray(X.matrices)).astype(np.float64)
        varies = np.isfinite(self.scale_)
        residuals = (values - self.mean_ - design @ self.effects_)[:, varies] / self.scale_[varies]
        shift = np.zeros_like(self.mean_)
        if varies.any():
            shift[varies] = chance_free_shift(residuals) * self.scale_[varies]
        return shift

    def _cleaned(self, X: Cohort, design: np.ndarray, effects: np.ndarray) -> Iterator[np.ndarray]:
        """Yield blocks of matrices without the effects."""
        whole = symmetric(effects, np.zeros((len(effects), X.n_rois, X.n_rois)))
        whole = whole.reshape(len(effects), X.n_rois**2)
        start = 0
        for block in blocks(X.matrices):
            explained = design[start : start + len(block)] @ whole
            yield (block - explained.reshape(block.shape)).astype(np.float32)
            start += len(block)


def _pseudo_inverse(design: np.ndarray) -> tuple[np.ndarray, int]:
    """(k, n) pseudo-inverse of a design (n, k), and its rank."""
    left, sizes, right = np.linalg.svd(design, full_matrices=False)
    kept = sizes > _RANK * max(sizes.max(initial=0), 1e-6)
    return (right[kept].T / sizes[kept]) @ left[:, kept].T, int(kept.sum())


def _beside_one(design: np.ndarray) -> np.ndarray:
    """(n, 1 + k) the design with a column for the mean."""
    return np.hstack([np.ones((len(design), 1)), design])


def _largest(X: Cohort) -> float:
    """Largest absolute value of the connections."""
    return max((float(np.abs(block).max(initial=0)) for block in blocks(X.matrices)), default=0) or 1e-30


def _square(column: CovariateColumn, values: pd.Series, subjects: np.ndarray) -> Square | None:
    """Learn the squared term of a number; None for categories and for what does not vary."""
    coded = column.coded(values, subjects)[values.notna().to_numpy()]
    if column.levels is not None or not coded.size:
        return None
    return Square(float(coded.min()), float(coded.max()), float((coded**2).mean()))


def nuisance_maps(cohort: Cohort, covariates: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return what each nuisance covariate does to each connection.

    Parameters
    ----------
    cohort : Cohort
        Subjects with matrices. Those without a covariate are left out of its map.
    covariates : sequence of str, default=None
        Names as in `Deconfound`. None takes those of "motion", "age", "sex" and "site" that the cohort has
        and that vary.

    Returns
    -------
    dict of str to ndarray of shape (p,)
        One map over the connections of the upper triangle for each covariate. For a number, the correlation
        of the connection with it. For two categories, the difference of means, second minus first in sorted
        order, in standard deviations within them. For more categories, the share of variance between them,
        which has no sign.

    Examples
    --------
    >>> from cignn.connectome import Connectivity, nuisance_maps
    >>> from cignn.datasets import make_cohort
    >>> cohort = Connectivity().fit_transform(make_cohort(30, 10, n_edges=3, random_state=0))
    >>> {name: values.shape for name, values in nuisance_maps(cohort).items()}
    {'motion': (45,), 'age': (45,), 'sex': (45,), 'site': (45,)}
    """
    check_cohort_input(cohort, "nuisance_maps", matrices=True)
    check_memory(cohort, "nuisance_maps")
    if covariates is None:
        names = [name for name in NUISANCES if find_covariate(cohort, name) is not None]
    else:
        names = known_covariates(cohort, covariates)
    values = upper_triangle(np.asarray(cohort.matrices)).astype(np.float64)
    maps = {}
    for name in names:
        column = find_covariate(cohort, name)
        assert column is not None
        known = column.notna().to_numpy()
        if column[known].nunique() > 1:
            maps[name] = _map_of(column[known], values[known])
        elif covariates is not None:
            raise DataError(
                f"{name} does not vary in the cohort and has no map",
                options=[Option("covariates", advice="leave it out of {}")],
            )
    return maps


def _map_of(column: pd.Series, values: np.ndarray) -> np.ndarray:
    """(p,) map of one covariate without missing values; see `nuisance_maps`."""
    centred = values - values.mean(0)
    total = (centred**2).sum(0)
    levels, place = np.unique(column.to_numpy(), return_inverse=True)
    if pd.api.types.is_numeric_dtype(column) and len(levels) > 2:
        numbers = column.to_numpy(np.float64)
        numbers = (numbers - numbers.mean()) / np.linalg.norm(numbers - numbers.mean())
        return _divided(numbers @ centred, np.sqrt(total), values)
    members = np.eye(len(levels))[place]
    means = (members.T @ centred) / members.sum(0)[:, None]
    between = members.sum(0) @ means**2
    if len(levels) > 2:
        return _divided(between, total, values)
    within = np.sqrt(np.maximum(total - between, 0) / max(len(values) - 2, 1))
    return _divided(means[1] - means[0], within, values)


def _divided(above: np.ndarray, below: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(p,) the quotient, 0 for a connection that does not vary."""
    varies = below > 1e-7 * np.abs(values).max(initial=1e-30)
    return np.divide(above, below, out=np.zeros_like(above), where=varies)
