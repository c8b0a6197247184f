"""`FusedClassifier`: one model per view of the subjects, fused by what each tells about unseen subjects."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from cignn._checks import choice, name_some, number
from cignn._random import as_random_state
from cignn.connectome import Connectivity
from cignn.connectome.connectivity import KINDS
from cignn.connectome.covariates import check_cohort_input
from cignn.datasets.cohort import Cohort
from cignn.datasets.multi_view import MultiViewCohort
from cignn.estimators.classifier import class_codes, classes_config, read_classes
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.estimators.explaining import target_codes
from cignn.estimators.fused_explanations import FusedExplanations, against_rest, times
from cignn.estimators.fusion import Weights, centred_logits, equal_weights, inner_folds, stacked_weights
from cignn.estimators.model_parts import TOLD, Reader, SavedModel, checked_parts, numbers, packed, whole
from cignn.estimators.persistence import Packed, Saved
from cignn.estimators.shallow import ShallowGraphClassifier
from cignn.estimators.table_classifier import TableClassifier
from cignn.explanations import Explanations

FUSIONS = ("stacking", "mean")
SAVED = ("fusion", "n_splits", "by", "l2")  # parameters that belong to the model


class FusedClassifier(SavedModel, ClassifierMixin, _BaseComposition):
    """Late fusion: a model for every view of the subjects, and weights for what they say.

    A view is a connectivity of the cohort's series, another cohort or a table of a `MultiViewCohort`, or some
    columns of the cohort's own table. Each has its own model. The fusion adds the models' log-odds with
    non-negative weights, which are learnt from training subjects that the models had not seen: in
    ``n_splits`` inner folds, each model is fitted on the other folds and scores the one held out. The weights
    are penalised towards equal ones. Then every model is fitted on all training subjects.

    All that reads labels is fitted inside the inner folds. `Connectivity` reads none; it is fitted once, on
    the training subjects.

    Parameters
    ----------
    views : list of (str, estimator)
        Name and model of each view; `make` writes the list. A model gets the view of that name of a
        `MultiViewCohort`, or the cohort itself where there is none.
    fusion : {"stacking", "mean"}, default="stacking"
        Learnt weights, or the mean of the log-odds, which learns nothing.
    n_splits : int, default=5
        Number of inner folds; fewer where a class has fewer subjects.
    by : {"subject", "site"}, default="subject"
        What is held out as a whole in the inner folds. By site, weights go to views that tell something at
        sites they were not trained on.
    l2 : float, default=10.0
        Strength of the penalty towards equal weights; 0 for none.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness of the inner folds.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    views_ : dict of str to estimator
        The fitted model of each view.
    weights_ : Series
        Factor of each view's log-odds.
    shares_ : Series
        Share of each view in the decision: weight times spread of its log-odds over unseen training subjects,
        relative to the sum; NaN where no view tells anything. Of the mean, one over the number of views.
    intercept_ : ndarray of shape (classes,)
        What the fusion adds to the logits.
    out_of_fold_ : ndarray of shape (views, n, classes) or None
        The logits that the weights were learnt from; None for the mean and for a model that was loaded.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import FusedClassifier, make_estimator
    >>> cohort = make_cohort(40, n_rois=8, n_edges=4, lengths=(30, 40), random_state=0)
    >>> views = {"correlation": "correlation", "partial": "partial", "who": ["age", "sex"]}
    >>> model = FusedClassifier.make(views, make_estimator("lasso", C=0.1), n_splits=3, random_state=0)
    >>> model = model.fit(cohort[:30])
    >>> model.predict_proba(cohort[30:]).shape, round(float(model.shares_.sum()), 6)
    ((10, 2), 1.0)
    """

    def __init__(
        self,
        views: list[tuple[str, Any]],
        *,
        fusion: str = "stacking",
        n_splits: int = 5,
        by: str = "subject",
        l2: float = 10.0,
        random_state: Any = None,
    ) -> None:
        self.views = views
        self.fusion = fusion
        self.n_splits = n_splits
        self.by = by
        self.l2 = l2
        self.random_state = random_state

    @classmethod
    def make(
        cls,
        views: Sequence[str] | Mapping[str, Any],
        classifier: Any = None,
        *,
        fusion: str = "stacking",
        n_splits: int = 5,
        by: str = "subject",
        l2: float = 10.0,
        random_state: Any = None,
        **steps: Any,
    ) -> Self:
        """Make a model for every view.

        Parameters
        ----------
        views : sequence of str, or mapping of str to what the view is
            Kinds of connectivity; or, by name, a kind, a `Connectivity`, a list of columns of the table, or
            an estimator. A name of a `MultiViewCohort`'s view stands for its data: ``{"schaefer":
            "correlation", "anatomy": None}``, where None takes all columns of a table.
        classifier : GraphClassifier, default=None
            Classifier of the connectivity views, a clone for each. None stands for a linear SVM.
        fusion : {"stacking", "mean"}, default="stacking"
            As in the constructor.
        n_splits : int, default=5
            As in the constructor.
        by : {"subject", "site"}, default="subject"
            As in the constructor.
        l2 : float, default=10.0
            As in the constructor.
        random_state : int, RandomState, Generator or None, default=None
            As in the constructor.
        **steps : dict
            Further options of `make_connectome_pipeline` for the connectivity views: ``combat``,
            ``deconfound``, ``density``, ``graphs``.

        Returns
        -------
        FusedClassifier
            Not fitted.
        """
        named = views if isinstance(views, Mapping) else {name: name for name in views}
        base = ShallowGraphClassifier("linear-svm") if classifier is None else classifier
        made = [(str(name), view_model(str(name), view, base, steps)) for name, view in named.items()]
        options = {"n_splits": n_splits, "by": by, "l2": l2, "random_state": random_state}
        return cls(made, fusion=fusion, **options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with those of the views' models as ``view__parameter``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to go into the models.

        Returns
        -------
        dict
            Values by name.
        """
        return self._get_params("views", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, with those of the views' models as ``view__parameter``.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        FusedClassifier
            Itself.
        """
        return self._set_params("views", **params)

    # ------------------------------------------------------------------ learning

    def fit(self, X: Cohort, y: Any = None) -> Self:
        """Learn every view's model and the weights of the fusion.

        Parameters
        ----------
        X : Cohort or MultiViewCohort
            Subjects to learn from.
        y : array-like of shape (n,), default=None
            Labels; by default those of the cohort.

        Returns
        -------
        FusedClassifier
            The fitted classifier.
        """
        check_cohort_input(X, "FusedClassifier")
        choice("fusion", self.fusion, FUSIONS)
        number("l2", self.l2, 0, np.inf, include_low=True)
        names = self._check_views()
        labels = np.asarray(X.y if y is None else y)
        self.classes_, codes = class_codes(labels)
        self.read_ = [name for name in names if isinstance(X, MultiViewCohort) and name in X.views]
        folds = []
        if self.fusion == "stacking":
            seed = int(as_random_state(self.random_state).randint(2**31 - 1))
            folds = inner_folds(X, codes, self.n_splits, self.by, seed)
        self.views_, scores = {}, []
        for name, estimator in self.views:
            fitted, held_out = _fitted(clone(estimator), self._view(X, name), labels, folds)
            self.views_[name] = fitted
            scores.append(held_out)
        self.out_of_fold_ = centred_logits(np.array(scores)) if folds else None
        found = equal_weights(len(names), len(self.classes_))
        if self.out_of_fold_ is not None:
            found = stacked_weights(self.out_of_fold_, codes, self.l2)
        self._take(found, names)
        return self

    def _take(self, found: Weights, names: list[str]) -> None:
        self._fusion = found
        self.weights_ = pd.Series(found.views, names, name="weight")
        self.shares_ = pd.Series(found.shares, names, name="share")
        self.intercept_ = found.intercept

    def _check_views(self) -> list[str]:
        if not isinstance(self.views, Iterable) or not len(self.views):
            raise ValueError('a fusion needs views: FusedClassifier.make(["correlation", "tangent"]).')
        names = [name for name, _ in self.views]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"two views are named {twice[0]!r}; give each a name of its own.")
        without = [name for name, estimator in self.views if not hasattr(estimator, "predict_proba")]
        if without:
            raise TypeError(
                f"the models of views must give probabilities, that of {name_some(without)} does not."
            )
        return names

    def _view(self, X: Cohort, name: str) -> Cohort:
        """Return the data that the model of a view reads."""
        here = isinstance(X, MultiViewCohort) and name in X.views
        if name in self.read_ and not here:
            raise ValueError(
                f"the model reads the view {name!r}, which these subjects do not have; pass "
                f"MultiViewCohort(cohort, {{{name!r}: …}})."
            )
        if not isinstance(X, MultiViewCohort):
            return X
        return X.view(name) if name in self.read_ else X.cohort

    # ---------------------------------------------------------------- predicting

    def view_probabilities(self, X: Cohort) -> dict[str, np.ndarray]:
        """Return what the model of each view says on its own.

        Parameters
        ----------
        X : Cohort or MultiViewCohort
            Subjects.

        Returns
        -------
        dict of str to ndarray of shape (n, classes)
            Probabilities by view, columns in the order of ``classes_``.
        """
        check_is_fitted(self, "views_")
        check_cohort_input(X, "FusedClassifier")
        return {
            name: np.asarray(model.predict_proba(self._view(X, name))) for name, model in self.views_.items()
        }

    def _scores(self, X: Cohort) -> np.ndarray:
        """(views, n, classes) logits of the views."""
        return centred_logits(np.array(list(self.view_probabilities(X).values())))

    def predict_proba(self, X: Cohort) -> np.ndarray:
        """Return class probabilities of the fusion.

        Parameters
        ----------
        X : Cohort or MultiViewCohort
            Subjects.

        Returns
        -------
        ndarray of shape (n, classes)
            Columns in the order of ``classes_``.
        """
        scores = self._scores(X)
        return self._fusion.probabilities(scores)

    def predict(self, X: Cohort) -> np.ndarray:
        """Return the most probable class of every subject.

        Parameters
        ----------
        X : Cohort or MultiViewCohort
            Subjects.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        return self.classes_[self.predict_proba(X).argmax(1)]

    def explain(self, X: Cohort, target: Any = None) -> FusedExplanations:
        """Say what each view, and each connection or column in it, did to the decision.

        Parameters
        ----------
        X : Cohort or MultiViewCohort
            Subjects.
        target : label or array-like of shape (n,), default=None
            The class to explain, by default the one that the fusion predicts.

        Returns
        -------
        FusedExplanations
            Explanations of each view, and what each view added to the log-odds.
        """
        scores = self._scores(X)
        codes = target_codes(self, target, len(X))
        codes = self._fusion.logits(scores).argmax(1) if codes is None else codes
        weighted = self._fusion.views[:, None, None] * scores
        odds = against_rest(weighted, codes)
        explained = self.classes_[codes]
        views: dict[str, Explanations | pd.DataFrame] = {}
        for name, weight in self.weights_.items():
            model = whole(self.views_[str(name)])
            if hasattr(getattr(model, "classifier_", model), "explain"):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    told = model.explain(self._view(X, str(name)), explained)
                for one in caught:
                    warnings.warn(f"view {name}: {one.message}", one.category, stacklevel=2)
                views[str(name)] = times(told, float(weight))
        base = against_rest(np.broadcast_to(self.intercept_, scores.shape[1:]), codes)
        by_view = pd.DataFrame(odds.T, columns=list(self.views_))
        return FusedExplanations(views, by_view, base, explained)

    # -------------------------------------------------------------------- saving

    @property
    def interrupted_(self) -> bool:
        """Whether Ctrl-C cut the training of a view's model short."""
        return any(getattr(model, "interrupted_", False) for model in self.views_.values())

    def trained_on(self, X: Cohort) -> np.ndarray:
        """Return whose data the model was trained on.

        Parameters
        ----------
        X : Cohort or MultiViewCohort
            Subjects.

        Returns
        -------
        ndarray of shape (n,)
            True for scans that the model of a view was trained on, known by their data alone.
        """
        check_is_fitted(self, "views_")
        seen = np.zeros(len(X), bool)
        for name, model in self.views_.items():
            if hasattr(whole(model), "trained_on"):
                seen |= whole(model).trained_on(self._view(X, name))
        return seen

    def _packed(self) -> Packed:
        check_is_fitted(self, "views_", msg="this %(name)s is not fitted yet; call fit first.")
        parts = [packed(model, f"the model of view {name!r}") for name, model in self.views_.items()]
        params = {name: getattr(self, name) for name in SAVED}
        shares = [None if np.isnan(share) else share for share in self.shares_.tolist()]
        config = {
            "estimator": type(self).__name__,
            "params": params,
            "settings": params,
            "views": list(self.views_),
            "read": self.read_,
            "weights": self.weights_.tolist(),
            "shares": shares,
            "intercept": self.intercept_.tolist(),
            "part_titles": [
                f"View {name}, weight {weight:.3g}" + ("" if share is None else f", share {share:.2f}")
                for (name, weight), share in zip(self.weights_.items(), shares, strict=True)
            ],
        }
        told = {name: parts[0].config[name] for name in TOLD}
        return Packed(config | told | classes_config(self.classes_), {}).with_parts(parts)

    @classmethod
    def _from_saved(cls, saved: Saved, read: Reader) -> Self:
        config, names = saved.config, saved.config["views"]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ValueError("its views are no list of names")
        classes = read_classes(config)
        models = checked_parts(saved, read, classes, len(names))
        model = cls(list(zip(names, models, strict=True)), **{name: config["params"][name] for name in SAVED})
        model._check_views()
        choice("fusion", model.fusion, FUSIONS)
        model.classes_, model.views_ = classes, dict(model.views)
        model.read_ = [name for name in names if name in config["read"]]
        shares = [np.nan if share is None else float(share) for share in config["shares"]]
        weights = numbers(config["weights"], len(names), "weights of the views")
        intercept = numbers(config["intercept"], len(classes), "intercepts")
        model.out_of_fold_ = None
        model._take(Weights(weights, intercept, np.array(shares)), names)
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        tags.no_validation = True
        return tags


# ------------------------------------------------------------------------- helpers


def view_model(name: str, view: Any, classifier: Any, steps: Mapping[str, Any]) -> Any:
    """Return the model of a view, not fitted: see `FusedClassifier.make`."""
    if view is None:
        return TableClassifier()
    if isinstance(view, str):
        if view not in KINDS:
            raise ValueError(
                f"view {name!r} must be a kind of connectivity ({', '.join(KINDS)}), a list of columns or an "
                f"estimator, got {view!r}."
            )
        view = Connectivity(view)
    if isinstance(view, Connectivity):
        return CohortClassifier.make(clone(classifier), connectivity=clone(view), **_cloned(steps))
    if hasattr(view, "fit") and hasattr(view, "get_params"):
        return clone(view)
    if isinstance(view, Sequence) and all(isinstance(column, str) for column in view):
        return TableClassifier(list(view))
    raise TypeError(f"view {name!r} must be a kind, columns or an estimator, got {type(view).__name__}.")


def _cloned(steps: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clone(step) if hasattr(step, "get_params") else step for name, step in steps.items()}


def _fitted(model: Any, data: Cohort, labels: np.ndarray, folds: Sequence[Any]) -> tuple[Any, np.ndarray]:
    """Fit a view's model, and return (n, classes) probabilities of scans by models that had not seen them."""
    model.fit(data, labels)
    chances = np.zeros((len(labels), len(np.unique(labels))))
    start, rest = data, model
    if folds and isinstance(model, Pipeline) and isinstance(model[0], Connectivity):
        start, rest = model[0].transform(data), Pipeline(model.steps[1:])  # it reads no labels
    for kept, held in folds:
        unseen = clone(rest).fit(start[kept], labels[kept])
        chances[held] = unseen.predict_proba(start[held])
    return model, chances
