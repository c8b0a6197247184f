"""`ShallowGraphRegressor`: ridge, support vectors and predictive modelling on one vector per graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from cignn._arrays import symmetric
from cignn._random import as_random_state
from cignn.datasets.scores import score_strata
from cignn.estimators.explaining import relative_sizes
from cignn.estimators.graph_vectors import FEATURES, GraphVectors
from cignn.estimators.persistence import PIPELINE, Saved, first_line, read_pipeline
from cignn.estimators.predictive_model import ConnectomePredictiveModel
from cignn.estimators.regressor import FEWEST_GRAPHS, GraphRegressor, Scale, checked_scores, scored
from cignn.estimators.settings import choice, within
from cignn.estimators.shallow_contributions import Found, path_of_kernel
from cignn.estimators.subjects import folds
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

FOLDS = 3  # inside the training graphs, for the strength
CONNECTIONS_ONLY = ("cpm",)  # models that are defined for connections


class Model(NamedTuple):
    """A regressor of standardised scores.

    make : of the threshold; strengths : name of the parameter that is searched, and its values for (g,
    features) scaled vectors; scales : whether features are divided by their standard deviations.
    """

    make: Callable[[float], BaseEstimator]
    strengths: tuple[str, Callable[[np.ndarray], list[float]]] | None = None
    scales: bool = True


MODELS: dict[str, Model] = {
    "mean": Model(lambda threshold: DummyRegressor()),
    # |x|² is about the number of entries once they are scaled, and the useful strengths go with it
    "ridge": Model(
        lambda threshold: Ridge(),
        ("alpha", lambda x: [x.shape[1] * value for value in (0.01, 0.1, 1.0, 10.0)]),
    ),
    "svr": Model(
        lambda threshold: SVR(kernel="linear"),
        ("C", lambda x: [value / x.shape[1] for value in (0.1, 1.0, 10.0, 100.0)]),
    ),
    "rbf-svr": Model(lambda threshold: SVR(kernel="rbf"), ("C", lambda x: [0.3, 1.0, 3.0, 10.0])),
    "cpm": Model(lambda threshold: ConnectomePredictiveModel(threshold), scales=False),
}
LINEAR = ("mean", "ridge", "svr", "cpm")


class ShallowGraphRegressor(GraphRegressor):
    """Predict a score of graphs by one vector per graph, with a regressor of scikit-learn.

    The pipeline is `GraphVectors`, ``StandardScaler`` and the model. The strength of regularisation of ridge
    and support vectors is chosen by the squared error in three folds of the training graphs, in which all
    scans of a subject (``meta["subject"]``) stay together. "cpm" is connectome-based predictive modelling,
    see `ConnectomePredictiveModel`; "mean" predicts the mean of the training scores for everybody.

    Parameters
    ----------
    model : {"mean", "ridge", "svr", "rbf-svr", "cpm"}, default="ridge"
        The regressor; "svr" is linear.
    features : {"auto", "connectivity", "statistics"}, default="auto"
        What `GraphVectors` takes from the graphs; "cpm" needs connectivity.
    strength : float or "auto", default="auto"
        Strength of regularisation: alpha of "ridge", C of "svr" and "rbf-svr"; not used by others. "auto"
        searches four values.
    threshold : float, default=0.01
        Largest p-value of a connection that "cpm" selects; not used by others.
    target : str, default="score"
        Name of the score in explanations and reports.
    device : str, default="auto"
        Not used; accepted so that one call makes any regressor.
    verbose : int, default=0
        Not used; accepted so that one call makes any regressor.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness, which draws the folds.

    Attributes
    ----------
    pipeline_ : Pipeline
        The fitted pipeline, which predicts standardised scores.
    target_scale_ : Scale
        Mean and standard deviation of the training scores.
    settings_ : dict
        Every parameter as it was used, with the chosen strength.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import ShallowGraphRegressor
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> sizes = np.array([graph.weights.sum() for graph in graphs])
    >>> model = ShallowGraphRegressor("ridge", random_state=0).fit(graphs, sizes)
    >>> bool(np.corrcoef(model.predict(graphs), sizes)[0, 1] > 0.5)
    True
    """

    def __init__(
        self,
        model: str = "ridge",
        *,
        features: str = "auto",
        strength: float | str = "auto",
        threshold: float = 0.01,
        target: str = "score",
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.features = features
        self.strength = strength
        self.threshold = threshold
        self.target = target
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: GraphSet, y: Sequence | np.ndarray | None = None, eval_set: Any = None) -> Self:
        """Learn from graphs with scores.

        Parameters
        ----------
        X : GraphSet
            Graphs to learn from.
        y : array-like of shape (g,), default=None
            Scores; by default those of ``X``.
        eval_set : None
            Not used: there is no epoch to choose.

        Returns
        -------
        ShallowGraphRegressor
            The fitted regressor.
        """
        graphs, scores = scored(X, y)
        settings = self._settings()
        if len(graphs) < FEWEST_GRAPHS:
            raise ValueError(f"fit needs at least {FEWEST_GRAPHS} graphs with scores, got {len(graphs)}.")
        scale = Scale.of(scores)
        read = GraphVectors(settings["features"]).fit(graphs)
        vectors, settings["features"] = read.transform(graphs), read.features_
        if settings["model"] in CONNECTIONS_ONLY and read.features_ != "connectivity":
            raise ValueError(
                f"{settings['model']!r} reads connections of aligned graphs, node i the same in each; these "
                'are not, use "ridge" or "svr".'
            )
        recipe = MODELS[settings["model"]]
        steps = [("scale", StandardScaler(with_std=recipe.scales)), ("model", recipe.make(self.threshold))]
        pipeline, values = Pipeline(steps), scale.standardised(scores)
        if recipe.strengths is None:
            pipeline.fit(vectors, values)
        else:
            pipeline, settings["strength"] = self._search(pipeline, graphs, vectors, values, recipe)
        self.pipeline_ = Pipeline([("vectors", read), *pipeline.steps])
        self.target_scale_ = scale
        self.settings_ = settings
        self._remember(graphs, scores)
        return self

    def _settings(self) -> dict[str, Any]:
        self._check_target()
        names = ("model", "features", "strength", "threshold", "target")
        settings = {name: getattr(self, name) for name in names}
        choice(settings, "model", MODELS)
        choice(settings, "features", ("auto", *FEATURES))
        if not (isinstance(settings["strength"], str) and settings["strength"] == "auto"):
            within(settings, "strength", 0, math.inf)
        within(settings, "threshold", 0, 1, include_high=True)
        return settings

    def _search(
        self, pipeline: Pipeline, graphs: GraphSet, vectors: np.ndarray, values: np.ndarray, recipe: Model
    ) -> tuple[Pipeline, float]:
        """The pipeline with the strength that predicts best in folds of the training graphs."""
        assert recipe.strengths is not None
        name, strengths = recipe.strengths
        tried = [self.strength] if self.strength != "auto" else strengths(vectors)
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        codes = score_strata(values)
        splits = folds(graphs, codes, np.arange(codes.max() + 1), FOLDS, seed)
        search = GridSearchCV(
            pipeline, {f"model__{name}": tried}, scoring=_closeness, cv=splits, error_score="raise"
        ).fit(vectors, values)
        return search.best_estimator_, float(search.best_params_[f"model__{name}"])

    def predict(self, X: GraphSet) -> np.ndarray:
        """Predict scores.

        Parameters
        ----------
        X : GraphSet
            Graphs of the same kind as those of `fit`.

        Returns
        -------
        ndarray of shape (g,)
            Scores, in the units of those learnt from.
        """
        X = self._check_fitted(X)
        if not len(X):
            return np.empty(0)
        try:
            values = self.pipeline_.predict(X)
        except ValueError as error:  # scikit-learn's, for numbers that are not finite
            raise ValueError(
                f"the pipeline cannot predict these graphs ({first_line(error)}); look for extreme values in "
                "them, or fit the model again."
            ) from error
        return checked_scores(self.target_scale_.restored(values))

    # -------------------------------------------------------------- explaining

    @property
    def explain(self) -> Callable[..., Explanations]:
        """Say what every connection did to the prediction: ``explain(X)``.

        ``X`` are aligned graphs of the same kind as those of `fit`. In a linear model a connection
        contributes its coefficient times its deviation from the training graphs' mean, and its weight is the
        size of its coefficient, relative to the largest; "rbf-svr" is followed along the deviations, and
        weights are sizes of contributions. What missing edges contribute is part of the base. Contributions
        are in units of the score; base and contributions add up to the prediction. Models of graphs that are
        not aligned do not have it.
        """
        if getattr(self, "settings_", {}).get("features") == "statistics":
            raise AttributeError(
                f"{self.model!r} on statistics of graphs does not explain its predictions; on aligned "
                'graphs, with features="connectivity", it does.'
            )
        return self._explain

    def _explain(self, X: GraphSet) -> Explanations:
        X = self._check_fitted(X)
        vectors = self.pipeline_[0].transform(X)
        found = self._contributions(self.pipeline_[1].transform(vectors.astype(np.float64)))
        present = vectors != 0
        sizes = found.values
        if self.model in LINEAR:
            sizes = np.broadcast_to(self.coefficients(), vectors.shape)
        return self._explanations(
            X,
            [relative_sizes(row)[there] for row, there in zip(sizes, present, strict=True)],
            self.predict(X),
            [row[there] for row, there in zip(found.values, present, strict=True)],
            found.base + np.where(present, 0, found.values).sum(1),
        )

    def _contributions(self, x: np.ndarray) -> Found:
        """Contributions (g, features) to standardised scores and bases (g,)."""
        model = self.pipeline_[-1]
        if self.model == "rbf-svr":
            return path_of_kernel(model, x)
        coef, level = _line(model, x.shape[1])
        return Found(x * coef, np.full(len(x), level))

    def coefficients(self) -> np.ndarray:
        """Return the coefficients of a linear model.

        Returns
        -------
        ndarray of shape (features,)
            What the score changes by per standard deviation of every feature in the training graphs ("cpm":
            per unit of it).
        """
        if self.model not in LINEAR:
            raise TypeError(f"a linear model has coefficients, {self.model!r} has none.")
        return self.target_scale_.scale * _line(self.pipeline_[-1], self.pipeline_[1].n_features_in_)[0]

    def without_edges(self, X: GraphSet, gone: Sequence[np.ndarray]) -> GraphSet:
        """Return graphs in which some edges say nothing about the score.

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
        n = int(X.n_nodes[0]) if len(X) else 0
        fill = symmetric(self.pipeline_["scale"].mean_, np.zeros((n, n))) if n else np.zeros((0, 0))
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
        if not isinstance(pipeline, Pipeline) or not isinstance(pipeline[0], GraphVectors):
            raise ValueError("the pipeline does not read graphs")
        if pipeline[0].features_ not in FEATURES or estimator.model not in MODELS:
            raise ValueError("the pipeline does not fit the settings")
        estimator.pipeline_ = pipeline
        # scikit-learn checks a loaded pipeline only when it is used
        if pipeline[1:].predict(np.zeros((1, pipeline[1].n_features_in_))).shape != (1,):
            raise ValueError("the pipeline gives no scores")
        return estimator


def _closeness(estimator: Pipeline, x: np.ndarray, y: np.ndarray) -> float:
    """Minus the sum of squared errors: its mean over splits ranks as the error of all graphs does."""
    return -float(np.square(estimator.predict(x) - y).sum())


def _line(model: Any, n_features: int) -> tuple[np.ndarray, float]:
    """Coefficients (features,) and intercept of a linear model of standardised scores."""
    if isinstance(model, DummyRegressor):
        return np.zeros(n_features), float(np.ravel(model.constant_)[0])
    return np.ravel(model.coef_).astype(np.float64), float(np.ravel(model.intercept_)[0])
