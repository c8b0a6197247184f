"""`TableClassifier`: logistic regression on columns of a cohort's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from safetensors.numpy import save
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from cignn._arrays import digest
from cignn._checks import DataError, Option, choice, name_some, number
from cignn.connectome.covariates import (
    CovariateColumn,
    check_cohort_input,
    find_covariate,
    known_covariates,
)
from cignn.connectome.pipeline import plain_columns, read_columns
from cignn.datasets.cohort import Cohort
from cignn.estimators.classifier import class_codes, classes_config, read_classes
from cignn.estimators.cohort_classifier import fingerprints
from cignn.estimators.explaining import target_codes
from cignn.estimators.graph_estimator import read_fingerprints
from cignn.estimators.model_card import training_facts
from cignn.estimators.model_parts import Reader, SavedModel
from cignn.estimators.persistence import WEIGHTS, Packed, Saved, read_weights
from cignn.estimators.shallow_contributions import Linear


class TableClassifier(SavedModel, ClassifierMixin, BaseEstimator):
    """Classify the subjects of a cohort by columns of its table, with L2 logistic regression.

    Numbers are standardised and categories are coded by the training subjects. It is the model of a view that
    is a table, see `FusedClassifier`, and shows what age, sex or motion alone tell.

    Parameters
    ----------
    columns : sequence of str or None, default=None
        Covariates by name: columns of ``cohort.covariates``, "motion" (``mean_fd``) and "site". None takes
        all columns.
    C : float, default=1.0
        Inverse strength of regularisation.
    missing : {"raise", "mean"}, default="raise"
        What to do with missing values: name the subjects in an error, or take the training mean.
    class_weight : None, "balanced" or dict, default=None
        What a subject of each class counts, by label.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    columns_ : list of str
        The columns used.
    model_ : LogisticRegression
        The regression on coded columns.
    subjects_ : ndarray of shape (n,)
        Hashes of the data of the training subjects; their ids are not kept.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import TableClassifier
    >>> cohort = make_cohort(24, n_rois=6, n_edges=2, data="matrices", random_state=0)
    >>> model = TableClassifier(["age", "sex"]).fit(cohort)
    >>> model.predict_proba(cohort).shape
    (24, 2)
    >>> model.explain(cohort[:2]).columns.tolist()
    ['subject', 'explained', 'base', 'age', 'sex']
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        C: float = 1.0,
        missing: str = "raise",
        class_weight: Any = None,
    ) -> None:
        self.columns = columns
        self.C = C
        self.missing = missing
        self.class_weight = class_weight

    def fit(self, X: Cohort, y: Any = None) -> Self:
        """Learn from a cohort.

        Parameters
        ----------
        X : Cohort
            Subjects to learn from.
        y : array-like of shape (n,), default=None
            Labels; by default those of the cohort.

        Returns
        -------
        TableClassifier
            The fitted classifier.
        """
        check_cohort_input(X, "TableClassifier")
        choice("missing", self.missing, ("raise", "mean"))
        number("C", self.C, 0, np.inf)
        self.classes_, codes = class_codes(np.asarray(X.y if y is None else y))
        names = [str(name) for name in X.covariates.columns] if self.columns is None else list(self.columns)
        if not names:
            raise ValueError("the table has no columns; name some in columns or give a table that has some.")
        self.columns_ = known_covariates(X, names)
        self.coding_ = [CovariateColumn.of(name, self._column(X, name)) for name in self.columns_]
        coded = self._coded(X)
        if not coded.shape[1]:
            raise ValueError(f"{name_some(self.columns_)} do not vary in the training subjects; name others.")
        self.model_ = LogisticRegression(C=self.C, class_weight=self._weights(), max_iter=2000)
        self.model_.fit(coded, codes)
        self.subjects_ = fingerprints(X)
        self.training_facts_ = training_facts(X, self.classes_[codes])
        return self

    def _weights(self) -> Any:
        """Class weights by class number."""
        if not isinstance(self.class_weight, dict):
            return self.class_weight
        return {code: self.class_weight.get(label, 1.0) for code, label in enumerate(self.classes_.tolist())}

    def _column(self, X: Cohort, name: str) -> pd.Series:
        known_covariates(X, [name])
        column = find_covariate(X, name)
        assert column is not None
        absent = column.isna().to_numpy()
        if absent.any() and self.missing == "raise":
            raise DataError(
                f"{name} is missing for {name_some(X.subjects[absent])}",
                subjects=X.subjects[absent],
                options=[Option("missing", ("mean",), step="TableClassifier")],
                remedy="add it, drop the subjects",
            )
        return column

    def _coded(self, X: Cohort) -> np.ndarray:
        """(n, k) coded columns."""
        return np.concatenate([c.coded(self._column(X, c.name), X.subjects) for c in self.coding_], axis=1)

    def predict_proba(self, X: Cohort) -> np.ndarray:
        """Return class probabilities.

        Parameters
        ----------
        X : Cohort
            Subjects with the same columns.

        Returns
        -------
        ndarray of shape (n, classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self, "model_")
        return self.model_.predict_proba(self._coded(X))

    def predict(self, X: Cohort) -> np.ndarray:
        """Return the most probable class of every subject.

        Parameters
        ----------
        X : Cohort
            Subjects with the same columns.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        return self.classes_[self.predict_proba(X).argmax(1)]

    def explain(self, X: Cohort, target: Any = None) -> pd.DataFrame:
        """Say what every column did to the decision.

        Parameters
        ----------
        X : Cohort
            Subjects with the same columns.
        target : label or array-like of shape (n,), default=None
            The class to explain, by default the predicted one.

        Returns
        -------
        DataFrame
            One row per scan: subject, explained (the class), base and the contribution of every column, in
            log-odds of that class. The base and the contributions add up to the log-odds.
        """
        check_is_fitted(self, "model_")
        coded = self._coded(X)
        codes = target_codes(self, target, len(X))
        codes = self.model_.predict_proba(coded).argmax(1) if codes is None else codes
        found = Linear.of(self.model_, None).contributions(coded, codes)
        ends = np.cumsum([0, *(column.width for column in self.coding_)])
        table = {"subject": X.subjects, "explained": self.classes_[codes], "base": found.base}
        for name, start, end in zip(self.columns_, ends[:-1], ends[1:], strict=True):
            table[name] = found.values[:, start:end].sum(1)
        return pd.DataFrame(table)

    def trained_on(self, X: Cohort) -> np.ndarray:
        """Return whose data the model was trained on.

        Parameters
        ----------
        X : Cohort
            Subjects.

        Returns
        -------
        ndarray of shape (n,)
            True for scans it was trained on, known by their data alone.
        """
        check_is_fitted(self, "model_")
        return np.isin(fingerprints(X), self.subjects_)

    # ------------------------------------------------------------------ saving

    def _packed(self) -> Packed:
        check_is_fitted(self, "model_", msg="this %(name)s is not fitted yet; call fit first.")
        weighted = isinstance(self.class_weight, dict)  # JSON would make strings of the labels
        params = {
            "columns": None if self.columns is None else list(self.columns),
            "C": self.C,
            "missing": self.missing,
            "class_weight": list(self.class_weight.items()) if weighted else self.class_weight,
        }
        config = {
            "estimator": type(self).__name__,
            "params": params,
            "settings": params | {"columns": self.columns_},
            "coding": plain_columns(self.coding_),
            "subjects": self.subjects_,
            "training": self.training_facts_,
            "training_digest": digest(sorted(self.subjects_.tolist()), length=16),
        }
        arrays = {"coef": self.model_.coef_, "intercept": self.model_.intercept_}
        files = {WEIGHTS: save({name: np.ascontiguousarray(one) for name, one in arrays.items()})}
        return Packed(config | classes_config(self.classes_), files)

    @classmethod
    def _from_saved(cls, saved: Saved, read: Reader) -> Self:
        config = saved.config
        params = dict(config["params"])
        if isinstance(params["class_weight"], list):
            params["class_weight"] = dict(params["class_weight"])
        model = cls(**params)
        model.classes_, model.coding_ = read_classes(config), read_columns(config["coding"])
        model.columns_ = [str(column.name) for column in model.coding_]
        model.subjects_ = read_fingerprints(config["subjects"])
        model.training_facts_ = dict(config["training"])
        arrays = {name: one.numpy() for name, one in read_weights(saved).items()}
        k = len(model.classes_)
        rows, width = (1 if k == 2 else k), sum(column.width for column in model.coding_)
        shapes = {name: one.shape for name, one in arrays.items()}
        if shapes != {"coef": (rows, width), "intercept": (rows,)}:
            raise ValueError(f"arrays are {shapes} for {k} classes and {width} coded columns")
        model.model_ = LogisticRegression(C=model.C, class_weight=model._weights(), max_iter=2000)
        model.model_.classes_, model.model_.n_features_in_ = np.arange(k), width
        model.model_.coef_, model.model_.intercept_ = arrays["coef"], arrays["intercept"]
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        tags.no_validation = True
        return tags
