"""Shared by the transformers of cohorts: checks of their input, and coded covariates."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from cignn._array_files import memory
from cignn._arrays import is_finite, is_symmetric
from cignn._checks import DataError, Option, name_some
from cignn.datasets.atlas import Atlas, places_of
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_repairs import take_rois
from cignn.datasets.labels import control_class, without_site
from cignn.datasets.participants import NUMBERS, known_column, numbers
from cignn.datasets.scores import is_score, same_as_score

PUBLIC = {"motion": "mean_fd"}  # name in lists of covariates → column
NON_FINITE = Option(
    "non_finite", ("drop_subject", "zero"), "repair or drop the subject with {}", "check_cohort"
)


class CohortTransformer(TransformerMixin, BaseEstimator):
    """A transformer whose input is no array, as its tags say."""

    def _check_is_fitted(self) -> None:
        check_is_fitted(self, msg="this %(name)s is not fitted; call fit with the training cohort first.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True  # by scikit-learn
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = []  # matrices are float32
        return tags


def check_cohort_input(X: object, step: str, matrices: bool = False) -> None:
    """Raise unless X is a cohort with subjects and, if ``matrices``, finite matrices."""
    if not isinstance(X, Cohort):
        raise TypeError(f"{step} works on a Cohort, got {type(X).__name__}; make one with Cohort(series=…).")
    if not len(X):
        raise ValueError(f"{step} needs at least one subject, the cohort has none.")
    if not matrices:
        return
    if X.matrices is None:
        raise ValueError(f"{step} needs connectivity, the cohort has series; put Connectivity() before it.")
    bad = ~is_finite(X.matrices)
    if bad.any():
        whom = X.subjects[bad]
        raise DataError(
            f"NaN or infinite values in the matrix of {name_some(whom)}",
            subjects=whom,
            options=[NON_FINITE],
        )


def check_symmetry(X: Cohort) -> None:
    """Raise unless all matrices are symmetric."""
    assert X.matrices is not None
    askew = ~is_symmetric(X.matrices)
    if askew.any():
        whom = X.subjects[askew]
        raise DataError(
            f"the matrix of {name_some(whom)} is not symmetric",
            subjects=whom,
            options=[Option("asymmetric", ("symmetrise",), "symmetrise it with {}", "check_cohort")],
        )


def check_memory(X: Cohort, step: str, pooled: bool = True) -> None:
    """Refuse a cohort on disk that a step which pools all subjects cannot hold in memory."""
    values = len(X) * X.n_rois**2 + (0 if X.lengths is None else int(X.lengths.sum()) * X.n_rois)
    need, have = 32 * values, memory()  # several copies in float64
    if pooled and X.mapped and need > have:
        raise DataError(
            f"{step} needs all {len(X)} subjects in memory, about {need / 2**30:.0f} GiB, and this machine "
            f"has {have / 2**30:.0f} GiB",
            remedy="fit it on fewer subjects or leave the step out",
        )


def check_rois(X: Cohort, n_rois: int) -> None:
    """Raise unless the cohort has as many ROIs as the one a step was fitted on."""
    if X.n_rois != n_rois:
        problem = f"fitted on {n_rois} ROIs, got a cohort with {X.n_rois}"
        raise DataError(problem, values=(X.n_rois,), remedy="use the same atlas")


def with_rois(X: Cohort, roi_names: list[str], atlas: Atlas | None) -> Cohort:
    """Return the cohort with the ROIs of another one: in its order, with its names and atlas.

    ROIs are matched by name. Those of files without a header have no names and are taken in their order.
    """
    check_rois(X, len(roi_names))
    if not X.nameless and X.roi_names != roi_names:
        try:
            places = places_of(roi_names, X.roi_names)
        except ValueError:
            places = None
        if places is None:
            pairs = enumerate(zip(X.roi_names, roi_names, strict=True), 1)
            which = next(f"number {i} is {a!r}, not {b!r}" for i, (a, b) in pairs if a != b)
            raise DataError(
                f"the regions are not those that were learnt from ({which})",
                values=X.roi_names,
                remedy="give the atlas the model was trained with",
            )
        X = take_rois(X, np.array(places))
    if X.roi_names == roi_names and (atlas is None or X.atlas is not None):
        return X
    return X._with(roi_names=roi_names, atlas=atlas if X.atlas is None else X.atlas)


def controls_among(X: Cohort, y: npt.ArrayLike | None, control: object, step: str) -> np.ndarray:
    """(n,) bool: who has the label of the controls, by default found by its name; y : by default X.y."""
    y = X.y if y is None else y
    if y is None:
        raise ValueError('fit_on="controls" needs labels in fit; pass y or give the cohort some.')
    labels = pd.Series(np.asarray(y)).reset_index(drop=True)
    classes = sorted(labels.dropna().unique())
    control = control if control is not None or not classes else control_class(classes)
    controls = (labels == control).to_numpy()
    if not controls.any():
        raise DataError(
            f"no training subject has the label {control!r} of the controls",
            values=classes,
            options=[Option("control", tuple(classes), step=step)],
        )
    return controls


def find_covariate(X: Cohort, name: str) -> pd.Series | None:
    """(n,) a covariate by its public name, NaN where it is missing; None where the cohort has no such.

    "motion" is mean_fd, "site" the cohort's sites; other spellings that tables use (AGE_AT_SCAN) are known.
    """
    if name == "site" and X.sites is not None:
        words = pd.Series(X.sites).astype(str)
        return words.mask(without_site(X.sites, len(X)))
    column = _column_of(X.covariates, name)
    if column is None:
        return None
    values = X.covariates[column]
    name = PUBLIC.get(name, name)
    return numbers(values, name, X.subjects, "the cohort") if name in NUMBERS else values


def _column_of(table: pd.DataFrame, name: str) -> str | None:
    if name in table:
        return name
    words = table[[column for column in table if isinstance(column, str)]]
    return known_column(words, PUBLIC.get(name, name))


def known_covariates(X: Cohort, names: Sequence[str]) -> list[str]:
    """Return the names, each once, or raise for those that the cohort does not have."""
    names = list(dict.fromkeys(names))
    absent = [name for name in names if find_covariate(X, name) is None]
    if absent:
        have = [*map(str, X.covariates.columns), *([] if X.sites is None else ["site"])]
        said = [f"{name} ({PUBLIC[name]})" if name in PUBLIC else name for name in absent]
        others = Option("covariates", advice="name others in {}", step="Deconfound")
        raise DataError(
            f"the cohort has no covariate {name_some(said)}; it has {', '.join(have) or 'none'}",
            values=absent,
            options=[others],
            remedy="add it",
        )
    return names


def refuse_score(X: Cohort, y: npt.ArrayLike | None, names: Sequence[str], fit_on: str) -> None:
    """Raise where the score that is predicted would be taken out, or effects fitted within its values."""
    given = X.y if y is None else np.asarray(y)
    if given is None or len(given) != len(X) or not is_score(given):
        return
    if fit_on != "all":
        raise DataError(
            f"effects of covariates are fitted {'on' if fit_on == 'controls' else ''} "
            f"{fit_on.replace('_', ' ')}, which a score has not".replace("  ", " "),
            options=[Option("fit_on", ("all",), "pass {}", "Deconfound")],
        )
    for name in names:
        values = find_covariate(X, name)
        if values is not None and same_as_score(values, given):
            raise DataError(
                f"{name} is the score that is predicted, without it nothing would be left to predict",
                values=[name],
                options=[Option("covariates", advice="leave it out of {}", step="Deconfound")],
            )


class CovariateColumn(NamedTuple):
    """The coding of a covariate, learned from the training cohort."""

    name: str
    levels: list | None  # of categories; None for numbers
    mean: np.ndarray  # (k,) of its coded columns
    std: float

    @classmethod
    def of(cls, name: str, column: pd.Series) -> CovariateColumn:
        """Learn the coding of one column of the training cohort."""
        if pd.api.types.is_numeric_dtype(column):
            known = column.dropna().to_numpy(np.float64)
            mean, std = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
            if not np.isfinite(std):
                problem = f"{name} has no mean and spread (infinite or huge values)"
                raise DataError(problem, remedy="correct it or leave it out")
            if std == 0:
                _warn_left_out(name)
            return cls(name, None, np.array([mean]), float(std))
        levels = sorted(column.dropna().unique())
        if len(levels) < 2:
            _warn_left_out(name)
        coded = column.dropna().to_numpy()[:, None] == np.array(levels[1:], object)
        return cls(name, levels, coded.mean(0) if len(coded) else np.zeros(0), 1.0)

    @property
    def width(self) -> int:
        """Number of columns it is coded as: k, or 0 for what did not vary in training."""
        return len(self.mean) if self.levels is not None or self.std else 0

    def coded(self, column: pd.Series, subjects: np.ndarray) -> np.ndarray:
        """(n, k) centred numbers, 0 where missing; k is 0 for a covariate that did not vary in training."""
        absent = column.isna().to_numpy()
        if self.levels is None:
            if self.std == 0:
                return np.zeros((len(column), 0))
            values = (column.to_numpy(np.float64, na_value=np.nan)[:, None] - self.mean) / self.std
        else:
            strange = ~column.isin(self.levels).to_numpy() & ~absent
            if strange.any():
                raise DataError(
                    f"{self.name} of {name_some(subjects[strange])} is {column[strange].tolist()[0]!r}, in "
                    f"training it was one of {name_some(self.levels)}",
                    subjects=subjects[strange],
                    values=column[strange],
                    remedy="correct it or leave it out",
                )
            values = (column.to_numpy()[:, None] == np.array(self.levels[1:], object)) - self.mean
        values = values.astype(np.float64)
        values[absent] = 0
        return values


def _warn_left_out(name: str) -> None:
    warnings.warn(
        f"{name} does not vary in the training cohort; it is left out of the covariates.", stacklevel=5
    )
