"""`DecisionClassifier`: calibrated probabilities and a chosen threshold, learnt inside the training part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from safetensors.numpy import save
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from cignn._checks import choice, number, shown
from cignn._random import as_random_state
from cignn.estimators.classifier import class_codes, classes_config, read_classes
from cignn.estimators.fusion import LEAST, Weights, centred_logits, inner_folds, stacked_weights
from cignn.estimators.model_parts import TOLD, Reader, SavedModel, checked_parts, numbers, packed, whole
from cignn.estimators.persistence import WEIGHTS, Packed, Saved, read_weights

CALIBRATIONS = ("sigmoid", "isotonic")
SAVED = ("calibrate", "threshold", "positive", "n_splits", "by")  # parameters that belong to the model


class Steps(NamedTuple):
    """An increasing function of probabilities: its value at (m,) probabilities, a line between them."""

    at: np.ndarray
    values: np.ndarray

    def __call__(self, chances: np.ndarray) -> np.ndarray:
        """(n,) values at (n,) probabilities; beyond the ends those of the ends."""
        return np.interp(chances, self.at, self.values)


class Counts(NamedTuple):
    """Numbers called positive at thresholds (t,), among positives and negatives, and of all of these."""

    true_positive: np.ndarray
    false_positive: np.ndarray
    positives: int
    negatives: int


def _mcc(c: Counts) -> np.ndarray:
    tn, fn = c.negatives - c.false_positive, c.positives - c.true_positive
    called = c.true_positive + c.false_positive
    below = np.sqrt(called * c.positives * c.negatives * (tn + fn))
    above = c.true_positive * tn - c.false_positive * fn
    return np.divide(above, below, out=np.zeros(len(called)), where=below > 0)


CRITERIA: dict[str, Callable[[Counts], np.ndarray]] = {
    "accuracy": lambda c: (c.true_positive + c.negatives - c.false_positive) / (c.positives + c.negatives),
    "balanced_accuracy": lambda c: (c.true_positive / c.positives + 1 - c.false_positive / c.negatives) / 2,
    "f1": lambda c: 2 * c.true_positive / (c.positives + c.true_positive + c.false_positive),
    "mcc": _mcc,
}
REACHED = ("sensitivity", "specificity")  # "sensitivity@0.8": at least this much of it


class DecisionClassifier(SavedModel, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier with calibrated probabilities and a chosen threshold.

    Probabilities of training subjects by models that had not seen them, from ``n_splits`` inner folds, tell
    how far probabilities come true and which threshold serves best. The classifier itself is fitted on all
    training subjects. So nothing is learnt from the subjects that it is later scored on.

    scikit-learn's ``CalibratedClassifierCV`` and ``TunedThresholdClassifierCV`` take pipelines of cohorts as
    well; pass a splitter such as `KFold` as ``cv``, which keeps the scans of a subject together. This class
    does both with one set of inner folds and knows thresholds that reach a sensitivity or specificity.

    Parameters
    ----------
    estimator : estimator
        A classifier of cohorts or graphs that gives probabilities.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Platt's scaling, here a common slope that is not negative and an intercept for each class; or an
        increasing step function for each class, which needs many subjects. None leaves probabilities as they
        are.
    threshold : str, float or None, default=None
        Of two classes, the probability from which the positive one is predicted: a number; "accuracy",
        "balanced_accuracy", "f1" or "mcc", which it maximises; "sensitivity@0.8", the highest threshold with
        at least this sensitivity, or "specificity@0.9", the lowest with at least this specificity. None
        predicts the most probable class.
    positive : object, default=None
        The positive class of two, or its name as text; by default the second in sorted order.
    n_splits : int, default=5
        Number of inner folds; fewer where a class has fewer subjects.
    by : {"subject", "site"}, default="subject"
        What is held out as a whole in the inner folds.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness of the inner folds.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    estimator_ : estimator
        The classifier fitted on all training subjects.
    threshold_ : float or None
        The threshold of the positive class.
    positive_ : object
        The positive class; None where there are more than two.

    Examples
    --------
    >>> from cignn import CohortClassifier
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import DecisionClassifier, make_estimator
    >>> cohort = make_cohort(40, n_rois=8, n_edges=4, effect=0.8, lengths=(30, 40), random_state=0)
    >>> model = CohortClassifier.make(make_estimator("lasso", C=1.0, random_state=0))
    >>> careful = DecisionClassifier(model, calibrate="sigmoid", threshold="sensitivity@0.8", random_state=0)
    >>> careful = careful.fit(cohort[:30])
    >>> 0 < careful.threshold_ < 1, careful.predict(cohort[30:]).shape
    (True, (10,))
    """

    def __init__(
        self,
        estimator: Any,
        *,
        calibrate: str | None = None,
        threshold: str | float | None = None,
        positive: Any = None,
        n_splits: int = 5,
        by: str = "subject",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.calibrate = calibrate
        self.threshold = threshold
        self.positive = positive
        self.n_splits = n_splits
        self.by = by
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the classifier, the calibration and the threshold.

        Parameters
        ----------
        X : Cohort or GraphSet
            What to learn from.
        y : array-like of shape (n,), default=None
            Labels; by default those of ``X``.

        Returns
        -------
        DecisionClassifier
            The fitted classifier.
        """
        choice("calibrate", self.calibrate, (None, *CALIBRATIONS))
        check_threshold(self.threshold)
        if not hasattr(self.estimator, "predict_proba"):
            name = type(self.estimator).__name__
            raise TypeError(f"calibration and thresholds need probabilities, {name} gives none.")
        labels = np.asarray(X.y if y is None else y)
        self.classes_, codes = class_codes(labels)
        self.positive_ = self._positive()
        if self.threshold is not None and self.positive_ is None:
            raise ValueError(f"threshold is for two classes, there are {len(self.classes_)}; leave it out.")
        self.estimator_ = clone(self.estimator).fit(X, labels)
        self.calibration_: Weights | list[Steps] | None = None
        self.threshold_: float | None = None
        if self.calibrate is None and not isinstance(self.threshold, str):
            self.threshold_ = self.threshold
            return self
        chances = self._unseen(X, labels, codes)
        if self.calibrate == "sigmoid":
            self.calibration_ = stacked_weights(centred_logits(chances)[None], codes, 0.0)
        elif self.calibrate == "isotonic":
            self.calibration_ = [_isotonic(chances[:, k], codes == k) for k in range(len(self.classes_))]
        if not isinstance(self.threshold, str):
            self.threshold_ = self.threshold
        else:
            k = self.classes_.tolist().index(self.positive_)
            self.threshold_ = best_threshold(self._calibrated(chances)[:, k], codes == k, self.threshold)
        return self

    def _positive(self) -> Any:
        """The positive class of two; an error where the one named is not there."""
        known = self.classes_.tolist()
        if len(known) != 2:
            if self.positive is not None:
                raise ValueError(f"positive is for two classes, there are {len(known)}; leave it out.")
            return None
        if self.positive is None:
            return known[1]
        same = [one for one in known if one == self.positive or str(one) == str(self.positive)]
        if not same:
            raise ValueError(f"positive must be {known[0]!r} or {known[1]!r}, got {self.positive!r}.")
        return same[0]

    def _unseen(self, X: Any, labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """(n, classes) probabilities by models that had not seen the subject."""
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        chances = np.zeros((len(labels), len(self.classes_)))
        for kept, held in inner_folds(X, codes, self.n_splits, self.by, seed):
            model = clone(self.estimator).fit(X[kept], labels[kept])
            chances[held] = model.predict_proba(X[held])
        return chances

    def _calibrated(self, chances: np.ndarray) -> np.ndarray:
        if self.calibration_ is None:
            return chances
        if isinstance(self.calibration_, Weights):
            return self.calibration_.probabilities(centred_logits(chances)[None])
        steps = [one(chances[:, k]) for k, one in enumerate(self.calibration_)]
        values = np.stack(steps, axis=1)
        if values.shape[1] == 2:  # both are steps of the same probability: the positive one decides
            return np.stack([1 - values[:, 1], values[:, 1]], axis=1)
        values = np.maximum(values, LEAST)
        return values / values.sum(1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return calibrated class probabilities.

        Parameters
        ----------
        X : Cohort or GraphSet
            Of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n, classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self, "estimator_")
        return self._calibrated(np.asarray(self.estimator_.predict_proba(X)))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of every subject: the positive one from the threshold on.

        Parameters
        ----------
        X : Cohort or GraphSet
            Of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        return self.decide(self.predict_proba(X))

    def decide(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the classes that calibrated probabilities stand for: the positive one from the threshold on.

        Parameters
        ----------
        probabilities : ndarray of shape (n, classes)
            What `predict_proba` returns.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        check_is_fitted(self, "estimator_")
        if self.threshold_ is None:
            return self.classes_[probabilities.argmax(1)]
        k = self.classes_.tolist().index(self.positive_)
        return self.classes_[np.where(probabilities[:, k] >= self.threshold_, k, 1 - k)]

    def explain(self, X: Any, target: Any = None) -> Any:
        """Explain the classifier's decisions; contributions are to its log-odds before calibration.

        Parameters
        ----------
        X : Cohort or GraphSet
            Of the same kind as in `fit`.
        target : label or array-like of shape (n,), default=None
            The class to explain, by default the one that this classifier predicts.

        Returns
        -------
        Explanations
            What ``estimator_.explain`` returns.
        """
        check_is_fitted(self, "estimator_")
        return self.estimator_.explain(X, self.predict(X) if target is None else target)

    # -------------------------------------------------------------------- saving

    @property
    def interrupted_(self) -> bool:
        """Whether Ctrl-C cut the training of the classifier short."""
        return bool(getattr(self.estimator_, "interrupted_", False))

    def trained_on(self, X: Any) -> np.ndarray:
        """Return what the model was trained on.

        Parameters
        ----------
        X : Cohort or GraphSet
            Of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            True for scans or graphs it was trained on, known by their data alone.
        """
        check_is_fitted(self, "estimator_")
        return whole(self.estimator_).trained_on(X)

    def _packed(self) -> Packed:
        check_is_fitted(self, "estimator_", msg="this %(name)s is not fitted yet; call fit first.")
        part = packed(self.estimator_, "its classifier")
        params = {name: getattr(self, name) for name in SAVED}
        config: dict[str, Any] = {
            "estimator": type(self).__name__,
            "params": params,
            "settings": params | {"threshold": self.threshold_},
            "threshold": self.threshold_,
            "positive": self.positive_,
            "part_titles": ["Of the classifier"],
        }
        files = {}
        if isinstance(self.calibration_, Weights):
            weights, intercept = self.calibration_.views.tolist(), self.calibration_.intercept.tolist()
            config["sigmoid"] = {"weight": weights, "intercept": intercept}
        elif self.calibration_ is not None:
            arrays: dict[str, np.ndarray] = {}
            for k, one in enumerate(self.calibration_):
                arrays |= {f"{name}.{k}": np.ascontiguousarray(own) for name, own in one._asdict().items()}
            files[WEIGHTS] = save(arrays)
        same = ("n_nodes", "node_names", *TOLD)
        config |= {name: part.config[name] for name in same if name in part.config}
        return Packed(config | classes_config(self.classes_), files).with_parts([part])

    @classmethod
    def _from_saved(cls, saved: Saved, read: Reader) -> Self:
        config, classes = saved.config, read_classes(saved.config)
        (estimator,) = checked_parts(saved, read, classes, 1)
        model = cls(estimator, **{name: config["params"][name] for name in SAVED})
        choice("calibrate", model.calibrate, (None, *CALIBRATIONS))
        check_threshold(model.threshold)
        model.classes_, model.estimator_ = classes, estimator
        model.positive_, model.threshold_ = config["positive"], config["threshold"]
        if model.positive_ != model._positive():
            raise ValueError(f"its positive class is {shown(model.positive_)}")
        if (model.threshold_ is None) != (model.threshold is None):
            raise ValueError("it has no threshold, or one that nobody asked for")
        if model.threshold_ is not None:
            number("threshold", model.threshold_, 0, 1, include_low=True, include_high=True)
        model.calibration_ = None
        if model.calibrate == "sigmoid":
            weight = numbers(config["sigmoid"]["weight"], 1, "weights")
            intercept = numbers(config["sigmoid"]["intercept"], len(classes), "intercepts")
            model.calibration_ = Weights(weight, intercept, np.ones(1))
        elif model.calibrate == "isotonic":
            model.calibration_ = _read_steps(saved, len(classes))
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        tags.no_validation = True
        return tags


# ----------------------------------------------------------------------- thresholds


def check_threshold(threshold: Any) -> None:
    """Refuse what is no threshold, no criterion and no sensitivity or specificity to reach."""
    if threshold is None:
        return
    if isinstance(threshold, str):
        name, sign, share = threshold.partition("@")
        if not sign and name in CRITERIA:
            return
        if sign and name in REACHED:
            try:
                number("threshold", float(share), 0, 1)
                return
            except ValueError:
                pass
        known = ", ".join([*CRITERIA, *(f"{one}@0.8" for one in REACHED)])
        raise ValueError(f"threshold must be a number in (0, 1) or one of {known}, got {shown(threshold)}.")
    number("threshold", threshold, 0, 1)


def best_threshold(chances: np.ndarray, positive: np.ndarray, wanted: str) -> float:
    """Return the threshold of (n,) probabilities that serves best for (n,) bool labels.

    Candidates lie between probabilities that occur. Of equal ones the one nearest to one half is taken.
    """
    values = np.unique(chances)
    candidates = np.concatenate([[0.0], (values[1:] + values[:-1]) / 2, [1.0]])
    above = chances[:, None] >= candidates
    counts = Counts(
        above[positive].sum(0), above[~positive].sum(0), int(positive.sum()), int((~positive).sum())
    )
    name, sign, share = wanted.partition("@")
    if not sign:
        scores = CRITERIA[name](counts)
        best = np.flatnonzero(np.isclose(scores, scores.max()))
        return float(candidates[best[np.abs(candidates[best] - 0.5).argmin()]])
    sensitivity = counts.true_positive / counts.positives
    specificity = 1 - counts.false_positive / counts.negatives
    if name == "sensitivity":
        return float(candidates[sensitivity >= float(share)].max())
    return float(candidates[specificity >= float(share)].min(initial=1.0))


def _isotonic(chances: np.ndarray, came: np.ndarray) -> Steps:
    found = IsotonicRegression(y_min=0.0, y_max=1.0).fit(chances, came.astype(float))
    return Steps(*(np.asarray(one, np.float64) for one in (found.X_thresholds_, found.y_thresholds_)))


def _read_steps(saved: Saved, n_classes: int) -> list[Steps]:
    """Return the calibration of each class; refuse functions that are not increasing."""
    arrays = {name: one.numpy() for name, one in read_weights(saved).items()}
    if set(arrays) != {f"{name}.{k}" for k in range(n_classes) for name in Steps._fields}:
        raise ValueError(f"it has no calibration of {n_classes} classes")
    steps = [Steps(arrays[f"at.{k}"], arrays[f"values.{k}"]) for k in range(n_classes)]
    for one in steps:
        if one.at.ndim != 1 or not len(one.at) or one.at.shape != one.values.shape:
            raise ValueError("its calibration has no value for each probability")
        if (np.diff(one.at) < 0).any() or (np.diff(one.values) < 0).any():
            raise ValueError("its calibration does not increase")
    return steps
