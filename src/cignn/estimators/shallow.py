"""`ShallowGraphClassifier`: support vectors, forests and sparse regression on one vector per graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, l1_min_c

from cignn._arrays import symmetric
from cignn._random import as_random_state
from cignn.estimators.classifier import (
    GraphClassifier,
    checked_probabilities,
    class_codes,
    labelled,
)
from cignn.estimators.explaining import relative_sizes, target_codes
from cignn.estimators.graph_vectors import FEATURES, GraphVectors
from cignn.estimators.persistence import PIPELINE, Saved, first_line, read_pipeline
from cignn.estimators.settings import choice, class_weights, whole, within
from cignn.estimators.shallow_contributions import Linear, explicable
from cignn.estimators.sparse_regression import SparseLogisticRegression
from cignn.estimators.subjects import folds
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

FOLDS = 3  # inside the training graphs, for C and the temperature
MAX_ITER = 20_000
LINEAR = ("linear-svm", "lasso", "logistic")


class Model(NamedTuple):
    """A classifier of vectors, made of the number of trees and classes, and the values of C to search."""

    make: Callable[[int, int], BaseEstimator]
    strengths: Callable[[np.ndarray, np.ndarray], list[float]] | None = None


def _l1_regression(n_classes: int) -> LogisticRegression:
    old = {"penalty": "l1"} if LogisticRegression().penalty == "l2" else {"l1_ratio": 1.0}
    if n_classes == 2:
        return LogisticRegression(solver="liblinear", max_iter=MAX_ITER, tol=1e-3, **old)
    return SparseLogisticRegression(solver="saga", max_iter=MAX_ITER, tol=1e-3, **old)


def _smallest_c(x: np.ndarray, y: np.ndarray) -> float:
    """The C below which every coefficient is zero; 1 where nothing tells the classes apart."""
    try:
        return float(l1_min_c(x, y, loss="log"))
    except ValueError:
        return 1.0


def _per_entry(x: np.ndarray, y: np.ndarray) -> list[float]:
    """|x|² is about the number of entries once they are scaled, and the useful C goes with its inverse."""
    return [value / x.shape[1] for value in (0.1, 1.0, 10.0, 100.0)]


MODELS: dict[str, Model] = {
    "linear-svm": Model(lambda n_trees, n_classes: LinearSVC(dual="auto", max_iter=MAX_ITER), _per_entry),
    # with ties broken it decides by its decision values, as the probabilities do
    "rbf-svm": Model(
        lambda n_trees, n_classes: SVC(kernel="rbf", break_ties=True), lambda x, y: [0.3, 1.0, 3.0, 10.0]
    ),
    "random-forest": Model(lambda n_trees, n_classes: RandomForestClassifier(n_trees)),
    "lasso": Model(
        lambda n_trees, n_classes: _l1_regression(n_classes),
        lambda x, y: [factor * _smallest_c(x, y) for factor in (3.0, 10.0, 30.0, 100.0)],
    ),
    "logistic": Model(lambda n_trees, n_classes: LogisticRegression(max_iter=MAX_ITER), _per_entry),
}


class ShallowGraphClassifier(GraphClassifier):
    """Classify graphs by one vector per graph, with a classifier of scikit-learn.

    The pipeline is `GraphVectors`, ``StandardScaler`` and the model. ``GridSearchCV`` chooses C by the
    accuracy in three folds of the training graphs, in which all scans of a subject (``meta["subject"]``) stay
    together. Probabilities of the SVMs are a softmax of their decision values times one positive number, the
    inverse temperature that fits the labels best in the same folds: a class is predicted exactly when the
    SVM decides for it.

    Parameters
    ----------
    model : {"linear-svm", "rbf-svm", "random-forest", "lasso", "logistic"}, default="linear-svm"
        The classifier; "lasso" and "logistic" are logistic regression with an L1 and an L2 penalty.
    features : {"auto", "connectivity", "statistics"}, default="auto"
        What `GraphVectors` takes from the graphs.
    C : float or "auto", default="auto"
        Inverse strength of regularisation; not used by a forest. "auto" searches four values.
    n_estimators : int, default=500
        Number of trees of a forest.
    class_weight : None, "balanced" or dict, default=None
        What a graph of each class counts, by label.
    device : str, default="auto"
        Not used; accepted so that one call makes any classifier.
    verbose : int, default=0
        Not used; accepted so that one call makes any classifier.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    pipeline_ : Pipeline
        The fitted pipeline; its classes are numbered as ``classes_`` are.
    settings_ : dict
        Every parameter as it was used, with the chosen C and the inverse temperature.
    n_features_in_ : int
        Number of node features.
    node_names_ : list of str or None
        Names of the nodes of aligned graphs.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import ShallowGraphClassifier
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> classifier = ShallowGraphClassifier("linear-svm", random_state=0).fit(graphs)
    >>> [name for name, _ in classifier.pipeline_.steps]
    ['vectors', 'scale', 'model']
    >>> classifier.predict_proba(graphs).shape
    (40, 2)
    """

    def __init__(
        self,
        model: str = "linear-svm",
        *,
        features: str = "auto",
        C: float | str = "auto",
        n_estimators: int = 500,
        class_weight: Any = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.features = features
        self.C = C
        self.n_estimators = n_estimators
        self.class_weight = class_weight
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: GraphSet, y: Sequence | np.ndarray | None = None, eval_set: Any = None) -> Self:
        """Learn from graphs.

        Parameters
        ----------
        X : GraphSet
            Graphs to learn from.
        y : array-like of shape (g,), default=None
            Labels of any kind; by default those of ``X``.
        eval_set : None
            Not used: there is no epoch to choose.

        Returns
        -------
        ShallowGraphClassifier
            The fitted classifier.
        """
        graphs, labels = labelled(X, y)
        classes, codes = class_codes(labels)
        settings = self._settings()
        counts = np.bincount(codes)
        if counts.min() < 2:
            rare = classes.tolist()[counts.argmin()]
            raise ValueError(f"class {rare!r} has only one graph; add graphs or drop the class.")
        weight = class_weights(self.class_weight, classes, codes).astype(np.float64)
        weight /= weight[codes].mean()
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))

        read = GraphVectors(settings["features"]).fit(graphs)
        vectors, settings["features"] = read.transform(graphs), read.features_
        recipe = MODELS[settings["model"]]
        model = recipe.make(settings["n_estimators"], len(classes)).set_params(random_state=seed)
        pipeline = Pipeline([("scale", StandardScaler()), ("model", model)])
        settings["temperature"] = None
        with config_context(enable_metadata_routing=False):  # sample_weight is named by its step
            if recipe.strengths is None:
                pipeline.fit(vectors, codes, model__sample_weight=weight[codes])
            else:
                strengths = [settings["C"]]
                if settings["C"] == "auto":
                    strengths = recipe.strengths(StandardScaler().fit_transform(vectors), codes)
                splits = folds(graphs, codes, classes, FOLDS, seed)
                found = _search(pipeline, strengths, vectors, codes, weight, splits)
                pipeline, settings["C"], settings["temperature"] = found

        self.pipeline_ = Pipeline([("vectors", read), *pipeline.steps])
        self.classes_ = classes
        self.settings_ = settings
        self._remember(graphs, labels)
        return self

    def _settings(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in ("model", "features", "C", "n_estimators")}
        choice(settings, "model", MODELS)
        choice(settings, "features", ("auto", *FEATURES))
        if not (isinstance(settings["C"], str) and settings["C"] == "auto"):
            within(settings, "C", 0, math.inf)
        whole(settings, "n_estimators", 1)
        return settings

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """Return class probabilities.

        Parameters
        ----------
        X : GraphSet
            Graphs of the same kind as those of `fit`.

        Returns
        -------
        ndarray of shape (g, classes)
            Columns in the order of ``classes_``.
        """
        X = self._check_fitted(X)
        if not len(X):
            return np.empty((0, len(self.classes_)))
        try:
            chances = self._chances(self.pipeline_[0].transform(X))
        except ValueError as error:  # scikit-learn's, for numbers that are not finite
            raise ValueError(
                f"the pipeline cannot classify these graphs ({first_line(error)}); look for extreme values "
                "in them, or fit the model again."
            ) from error
        return checked_probabilities(chances)

    def _chances(self, vectors: np.ndarray) -> np.ndarray:
        """(g, classes) probabilities of (g, features) vectors."""
        pipeline = self.pipeline_[1:]
        if hasattr(pipeline, "predict_proba"):
            return pipeline.predict_proba(vectors)
        return softmax(self.settings_["temperature"] * _logits(pipeline.decision_function(vectors)), axis=1)

    # -------------------------------------------------------------- explaining

    @property
    def explain(self) -> Callable[..., Explanations]:
        """Say what every connection did to the decision: ``explain(X, target=None)``.

        ``X`` are aligned graphs of the same kind as those of `fit`; ``target`` is the class to explain, one
        for all graphs or one each, by default the predicted one. In a linear model a connection contributes
        its coefficient times its deviation from the training graphs' mean, and its weight is the size of its
        coefficient, relative to the largest. Other models are followed on their own way to decide, see
        `cignn.estimators.shallow_contributions`, and weights are sizes of contributions. What missing edges
        contribute is part of the base. Models of graphs that are not aligned do not have it.
        """
        if self.model == "rbf-svm" and len(getattr(self, "classes_", ())) > 2:
            raise AttributeError(
                f"'rbf-svm' explains decisions between two classes, these are {len(self.classes_)}; other "
                "models explain any number."
            )
        if getattr(self, "settings_", {}).get("features") == "statistics":
            raise AttributeError(
                f"{self.model!r} on statistics of graphs does not explain its decisions; on aligned graphs, "
                'with features="connectivity", it does.'
            )
        return self._explain

    def _explain(self, X: GraphSet, target: Any = None) -> Explanations:
        """Explain the target class, or the predicted one, of every graph."""
        X = self._check_fitted(X)
        predictions = self.predict(X)
        codes = target_codes(self, target, len(X))
        codes = np.searchsorted(self.classes_, predictions) if codes is None else codes
        vectors = self.pipeline_[0].transform(X)
        found = explicable(self.pipeline_[-1], self.settings_["temperature"]).contributions(
            self.pipeline_[1].transform(vectors.astype(np.float64)), codes
        )
        present = vectors != 0
        sizes = found.values
        if self.model in LINEAR:
            sizes = np.array([self.coefficients(code) for code in range(len(self.classes_))])[codes]
        return Explanations(
            X,
            [relative_sizes(row)[there] for row, there in zip(sizes, present, strict=True)],
            predictions,
            edge_contributions=[row[there] for row, there in zip(found.values, present, strict=True)],
            base=found.base + np.where(present, 0, found.values).sum(1),
            explained=self.classes_[codes],
            reference=self.reference_,
            classes=self.classes_,
        )

    def coefficients(self, code: int = 1) -> np.ndarray:
        """Return the coefficients of a linear model.

        Parameters
        ----------
        code : int, default=1
            Number of a class in ``classes_``.

        Returns
        -------
        ndarray of shape (features,)
            Log-odds of the class per standard deviation of every feature in the training graphs; with more
            than two classes its logit, less the mean of the others.
        """
        if self.model not in LINEAR:
            raise TypeError(f"a linear model has coefficients, {self.model!r} has none.")
        return Linear.of(self.pipeline_[-1], self.settings_["temperature"]).odds_coefficients()[code]

    def without_edges(self, X: GraphSet, gone: Sequence[np.ndarray]) -> GraphSet:
        """Return graphs in which some edges have no evidence for any class.

        Parameters
        ----------
        X : GraphSet
            Graphs of the same kind as those of `fit`.
        gone : sequence of bool arrays of shape (e,)
            One mask per graph, aligned with ``X.edges(i)``: the edges to remove.

        Returns
        -------
        GraphSet
            The graphs with the training mean at these connections, where connections are the features;
            without these edges otherwise.
        """
        X = self._check_fitted(X)
        if self.settings_["features"] != "connectivity":
            return super().without_edges(X, gone)
        mean = self.pipeline_["scale"].mean_
        n = int(X.n_nodes[0]) if len(X) else 0
        fill = symmetric(mean, np.zeros((n, n))) if n else np.zeros((0, 0))
        return X.with_edges([~np.asarray(mask, bool) for mask in gone], fill)

    # ---------------------------------------------------------------- saving

    def _files(self) -> dict[str, bytes]:
        import skops.io

        return {PIPELINE: skops.io.dumps(self.pipeline_)} | self._connection_files()

    @classmethod
    def _from_saved(cls, saved: Saved) -> Self:
        pipeline = read_pipeline(saved)
        estimator = cls._from_config(saved.config)
        estimator._read_connections(saved)
        if not isinstance(pipeline, Pipeline) or len(pipeline[-1].classes_) != len(estimator.classes_):
            raise ValueError("the pipeline does not fit the classes")
        if not isinstance(pipeline[0], GraphVectors) or pipeline[0].features_ not in FEATURES:
            raise ValueError("the pipeline does not read graphs")
        estimator.pipeline_ = pipeline
        # scikit-learn checks a loaded pipeline only when it is used
        tried = estimator._chances(np.zeros((1, pipeline[1].n_features_in_)))
        if tried.shape != (1, len(estimator.classes_)):
            raise ValueError("the pipeline gives no probabilities")
        checked_probabilities(tried)
        return estimator


class Searched(NamedTuple):
    """The pipeline with the best C, fitted on all training graphs, and its temperature where it needs one."""

    pipeline: Pipeline
    C: float
    temperature: float | None


def _search(
    pipeline: Pipeline,
    strengths: list[float],
    vectors: np.ndarray,
    codes: np.ndarray,
    weight: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Searched:
    """Choose C and the temperature on splits of the training graphs; weight : (classes,)."""

    def right(estimator: Pipeline, x: np.ndarray, y: np.ndarray) -> float:
        """Count the graphs that are classified right: their mean over splits ranks as the accuracy does."""
        return float(weight[y] @ (estimator.predict(x) == y))

    params = {"model__sample_weight": weight[codes]}
    search = GridSearchCV(
        pipeline, {"model__C": strengths}, scoring=right, cv=splits, error_score="raise"
    ).fit(vectors, codes, **params)
    best, temperature = search.best_estimator_, None
    if not hasattr(best, "predict_proba"):
        values = cross_val_predict(best, vectors, codes, cv=splits, method="decision_function", params=params)
        temperature = _temperature(_logits(values), codes, weight[codes])
    return Searched(best, float(search.best_params_["model__C"]), temperature)


def _logits(values: np.ndarray) -> np.ndarray:
    """(g, classes) decision values; those of two classes, (g,), become opposite ones."""
    return np.stack([-values, values], 1) / 2 if values.ndim == 1 else values


def _temperature(logits: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """Return the factor of decision values whose softmax gives the labels the highest likelihood.

    A label of one of n graphs of its class counts as a probability of (n + 1) / (n + 2), as in Platt's
    scaling: where the folds are separable, all probabilities would otherwise become 0 or 1. scikit-learn's
    ``CalibratedClassifierCV(method="temperature")`` looks for the factor as far as e¹⁰.
    """
    counts, n_classes = np.bincount(codes, minlength=logits.shape[1]), logits.shape[1]
    doubt = 1 / (counts[codes] + 2)
    targets = np.repeat((doubt / (n_classes - 1))[:, None], n_classes, axis=1)
    targets[np.arange(len(codes)), codes] = 1 - doubt

    def loss(log_factor: float) -> float:
        chances = log_softmax(math.exp(log_factor) * logits, axis=1)
        return -float(np.average((targets * chances).sum(1), weights=weight))

    return math.exp(minimize_scalar(loss, bounds=(-5, 5), method="bounded").x)
