"""`ShallowGraphClassifier`: support vectors, forests and sparse regression on one vector per graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, l1_min_c
from torch import Tensor

from cignn._arrays import upper_indices
from cignn._random import as_random_state
from cignn.estimators.classifier import GraphClassifier, checked_chances, class_codes, class_weights, labelled
from cignn.estimators.persistence import PIPELINE, Saved, first_line, read_pipeline
from cignn.estimators.settings import choice, whole, within
from cignn.estimators.subjects import folds
from cignn.graphs import GraphBatch, GraphSet

BATCH = 256  # graphs whose statistics are computed together
LARGE, SPARSE = 1024, 0.05  # nodes from which on, density up to which, walks are counted along the edges
STATISTICS = (
    "nodes",
    "edges",
    "density",
    "degree mean",
    "degree std",
    "degree max",
    "leaves",  # share of nodes with one neighbour
    "isolated",  # share of nodes with none
    "strength mean",  # of a node: the sum of its edge weights
    "strength std",
    "weight mean",
    "weight std",
    "triangles",
    "clustering",  # mean over nodes of the share of their pairs of neighbours that are neighbours
    "squares",  # closed walks of four steps that visit four nodes, divided by 8: cycles of length 4
)


def connectivity_vector(graphs: GraphSet) -> np.ndarray:
    """(g, n(n-1)/2) the weights above the diagonal of every graph of an aligned set, row by row."""
    if not graphs.aligned:
        raise ValueError(
            "a connectivity vector needs aligned graphs (node i the same in each); use statistics."
        )
    n = int(graphs.n_nodes[0]) if len(graphs) else 1
    row, column = upper_indices(n)
    vectors = np.empty((len(graphs), len(row)), np.float32)
    for start in range(0, len(graphs), BATCH):
        index = np.arange(start, min(start + BATCH, len(graphs)))
        vectors[index] = graphs.batch(index).adj.numpy()[:, row, column]
    return vectors


def graph_statistics(graphs: GraphSet) -> np.ndarray:
    """(g, len(STATISTICS) + 3d) numbers that do not depend on the order of the nodes.

    First `STATISTICS`, then the sum, mean and standard deviation over nodes of each of the d node features:
    for one-hot labels, how often each label occurs.
    """
    vectors = np.empty((len(graphs), len(STATISTICS) + 3 * graphs.n_features))
    for index in graphs.batch_indices(BATCH) if len(graphs) else []:
        batch = graphs.batch(index)
        vectors[index] = torch.cat([_structure(batch), _node_features(batch)], 1).numpy()
    return vectors


def _structure(batch: GraphBatch) -> Tensor:
    weights, edges = batch.adj.double(), batch.edges.double()
    nodes, mask = batch.n_nodes.double(), batch.mask.double()
    degree = edges.sum(2)
    n_edges = degree.sum(1) / 2
    degree_mean, degree_std = _moments(degree.unsqueeze(-1), mask)
    strength_mean, strength_std = _moments(weights.sum(2, keepdim=True), mask)
    total = (2 * n_edges).clamp(min=1)
    weight_mean = weights.sum((1, 2)) / total
    weight_std = (weights.square().sum((1, 2)) / total - weight_mean.square()).clamp(min=0).sqrt()
    paths = _two_steps(edges)
    corners = (paths * edges).sum(2)  # twice the triangles at each node
    clustering = corners / (degree * (degree - 1)).clamp(min=1)
    walks = paths.square().sum((1, 2))  # closed, four steps; those that visit fewer than four nodes go
    squares = (walks - 2 * degree.square().sum(1) + 2 * n_edges) / 8
    columns = [
        nodes,
        n_edges,
        n_edges / (nodes * (nodes - 1) / 2).clamp(min=1),
        degree_mean.squeeze(1),
        degree_std.squeeze(1),
        degree.amax(1),
        ((degree == 1) * mask).sum(1) / nodes,
        ((degree == 0) * mask).sum(1) / nodes,
        strength_mean.squeeze(1),
        strength_std.squeeze(1),
        weight_mean,
        weight_std,
        corners.sum(1) / 6,
        clustering.sum(1) / nodes,
        squares,
    ]
    return torch.stack(columns, 1)


def _two_steps(edges: Tensor) -> Tensor:
    """(b, n, n) number of walks of two steps between nodes: whole numbers, hence exact either way."""
    if edges.shape[1] < LARGE or edges.mean() > SPARSE:
        return edges @ edges
    return torch.stack([torch.sparse.mm(one.to_sparse(), one) for one in edges])


def _node_features(batch: GraphBatch) -> Tensor:
    x, mask = batch.x.double(), batch.mask.double()
    mean, std = _moments(x, mask)
    return torch.cat([(x * mask.unsqueeze(-1)).sum(1), mean, std], 1)


def _moments(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over the real nodes, (b, n, d) → two (b, d)."""
    mask, count = mask.unsqueeze(-1), mask.sum(1, keepdim=True)
    mean = (x * mask).sum(1) / count
    return mean, (((x - mean.unsqueeze(1)) * mask).square().sum(1) / count).sqrt()


VECTORS: dict[str, Callable[[GraphSet], np.ndarray]] = {
    "connectivity": connectivity_vector,
    "statistics": graph_statistics,
}
FOLDS = 3  # inside the training graphs, for C and the temperature
MAX_ITER = 20_000


class Kind(NamedTuple):
    """A model, made of settings, a seed and the number of classes, and the values C is chosen from."""

    make: Callable[[dict[str, Any], int, int], Any]
    strengths: Callable[[np.ndarray, np.ndarray], list[float]] | None = None


def _l1_regression(seed: int, n_classes: int) -> LogisticRegression:
    old = {"penalty": "l1"} if LogisticRegression().penalty == "l2" else {"l1_ratio": 1.0}
    solver = "liblinear" if n_classes == 2 else "saga"
    return LogisticRegression(solver=solver, max_iter=MAX_ITER, tol=1e-3, random_state=seed, **old)


def _smallest_c(x: np.ndarray, y: np.ndarray) -> float:
    """The C below which every coefficient is zero; 1 where nothing tells the classes apart."""
    try:
        return float(l1_min_c(x, y, loss="log"))
    except ValueError:
        return 1.0


KINDS: dict[str, Kind] = {
    # |x|² is about the number of entries once they are scaled, and the useful C goes with its inverse
    "linear-svm": Kind(
        lambda settings, seed, n_classes: LinearSVC(dual="auto", max_iter=MAX_ITER, random_state=seed),
        lambda x, y: [value / x.shape[1] for value in (0.1, 1.0, 10.0, 100.0)],
    ),
    "rbf-svm": Kind(
        lambda settings, seed, n_classes: SVC(kernel="rbf", random_state=seed),
        lambda x, y: [0.3, 1.0, 3.0, 10.0],
    ),
    "random-forest": Kind(
        lambda settings, seed, n_classes: RandomForestClassifier(settings["n_estimators"], random_state=seed),
    ),
    "lasso": Kind(
        lambda settings, seed, n_classes: _l1_regression(seed, n_classes),
        lambda x, y: [factor * _smallest_c(x, y) for factor in (3.0, 10.0, 30.0, 100.0)],
    ),
}


class ShallowGraphClassifier(GraphClassifier):
    """Classify graphs by one vector each, without a network.

    Parameters
    ----------
    kind : "linear-svm", "rbf-svm", "random-forest" or "lasso" (logistic regression with an L1 penalty)
    features : "connectivity", the weights above the diagonal of aligned graphs; "statistics", what
        `graph_statistics` counts in graphs and node labels; "auto" for the first where graphs are aligned
    C : inverse strength of regularisation (not of a forest); "auto" chooses among four values by the accuracy
        in three folds of the training graphs, a subject's (``meta["subject"]``) in one of them
    n_estimators : trees of a forest
    class_weight : None, "balanced" or {label: weight}
    device, verbose : taken so that one call makes any classifier; of no use here
    random_state : int, RandomState, Generator or None

    Probabilities of the SVMs are a softmax of their decision values times one positive number, the
    temperature, that fits the labels best in folds of the training graphs: a class is predicted exactly when
    the SVM decides for it.

    Attributes
    ----------
    classes_, n_features_in_, node_names_ : what was learnt from
    settings_ : every parameter, "auto" resolved, the chosen C and the temperature
    pipeline_ : the fitted scikit-learn pipeline, scaling included
    """

    def __init__(
        self,
        kind: str = "linear-svm",
        *,
        features: str = "auto",
        C: float | str = "auto",
        n_estimators: int = 500,
        class_weight: Any = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kind = kind
        self.features = features
        self.C = C
        self.n_estimators = n_estimators
        self.class_weight = class_weight
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    # ---------------------------------------------------------------- fitting

    def fit(self, X: GraphSet, y: Sequence | np.ndarray | None = None, eval_set: Any = None) -> Self:
        """Learn from graphs.

        Parameters
        ----------
        X : graphs to learn from
        y : (g,) labels of any kind; by default those of ``X``
        eval_set : not used: there is no epoch to choose
        """
        graphs, labels = labelled(X, y)
        classes, codes = class_codes(labels)
        settings = self._settings(graphs)
        counts = np.bincount(codes)
        if counts.min() < 2:
            rare = classes.tolist()[counts.argmin()]
            raise ValueError(f"class {rare!r} has only one graph; add graphs or drop the class.")
        weight = class_weights(self.class_weight, classes, codes)[codes].astype(np.float64)
        weight /= weight.mean()
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        vectors = VECTORS[settings["features"]](graphs)

        kind = KINDS[settings["kind"]]
        pipeline = Pipeline([("scale", StandardScaler()), ("model", kind.make(settings, seed, len(classes)))])
        temperature = None
        if kind.strengths is not None:
            scaled = StandardScaler().fit_transform(vectors)
            given = settings["C"]
            strengths = kind.strengths(scaled, codes) if given == "auto" else [given]
            splits = folds(graphs, codes, classes, FOLDS, seed)
            tried = [
                _out_of_fold(pipeline.set_params(model__C=C), vectors, codes, weight, splits)
                for C in strengths
            ]
            best = int(np.argmax([np.average(d.argmax(1) == codes, weights=weight) for d in tried]))
            settings["C"] = float(strengths[best])
            pipeline.set_params(model__C=settings["C"])
            if not hasattr(pipeline, "predict_proba"):
                temperature = _temperature(tried[best], codes, weight)
        pipeline.fit(vectors, codes, model__sample_weight=weight)

        self.pipeline_ = pipeline
        self.classes_ = classes
        self.settings_ = settings | {"temperature": temperature}
        self._remember(graphs, labels)
        return self

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in ("kind", "features", "C", "n_estimators")}
        choice(settings, "kind", KINDS)
        choice(settings, "features", ("auto", *VECTORS))
        if settings["features"] == "auto":
            settings["features"] = "connectivity" if graphs.aligned else "statistics"
        if settings["features"] == "connectivity" and not (graphs.aligned and graphs.n_nodes[0] > 1):
            raise ValueError(
                'features="connectivity" needs aligned graphs of two nodes or more; use "statistics".'
            )
        if not (isinstance(settings["C"], str) and settings["C"] == "auto"):
            within(settings, "C", 0, math.inf)
        whole(settings, "n_estimators", 1)
        return settings

    # -------------------------------------------------------------- predicting

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """(g, classes) class probabilities, columns in the order of ``classes_``."""
        X = self._check_fitted(X)
        if not len(X):
            return np.empty((0, len(self.classes_)))
        vectors = VECTORS[self.settings_["features"]](X)
        try:
            chances = self._chances(vectors)
        except ValueError as error:  # scikit-learn's, of numbers that are none
            raise ValueError(
                f"the pipeline cannot judge these graphs ({first_line(error)}); look for extreme values in "
                "them, or fit the model again."
            ) from error
        return checked_chances(chances)

    def _chances(self, vectors: np.ndarray) -> np.ndarray:
        """(g, classes) what the pipeline makes of vectors."""
        if hasattr(self.pipeline_, "predict_proba"):
            return self.pipeline_.predict_proba(vectors)
        return softmax(self.settings_["temperature"] * _decisions(self.pipeline_, vectors), axis=1)

    # ---------------------------------------------------------------- saving

    def _files(self) -> dict[str, bytes]:
        import skops.io

        return {PIPELINE: skops.io.dumps(self.pipeline_)}

    @classmethod
    def _from_saved(cls, saved: Saved) -> Self:
        pipeline = read_pipeline(saved)
        estimator = cls._from_config(saved.config)
        if not isinstance(pipeline, Pipeline) or len(pipeline[-1].classes_) != len(estimator.classes_):
            raise ValueError("the pipeline is another's")
        if estimator.settings_["features"] not in VECTORS:
            raise ValueError(f"there are no features {estimator.settings_['features']!r}")
        estimator.pipeline_ = pipeline
        # scikit-learn believes what it is given until it is used: what fails then is told now
        tried = estimator._chances(np.zeros((1, pipeline[0].n_features_in_)))
        if tried.shape != (1, len(estimator.classes_)):
            raise ValueError("the pipeline gives no probabilities")
        checked_chances(tried)
        return estimator


def _decisions(pipeline: Pipeline, vectors: np.ndarray) -> np.ndarray:
    """(g, classes) decision values; those of two classes are opposite."""
    values = pipeline.decision_function(vectors)
    return np.stack([-values, values], 1) / 2 if values.ndim == 1 else values


def _out_of_fold(
    pipeline: Pipeline,
    vectors: np.ndarray,
    codes: np.ndarray,
    weight: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """(g, classes) decision values of every graph by a pipeline that did not learn from it."""
    decisions = np.empty((len(codes), codes.max() + 1))
    for train, test in splits:
        fitted = clone(pipeline).fit(vectors[train], codes[train], model__sample_weight=weight[train])
        decisions[test] = _decisions(fitted, vectors[test])
    return decisions


def _temperature(decisions: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """Return the factor of decision values whose softmax gives the labels the highest likelihood."""

    def loss(log_factor: float) -> float:
        chances = log_softmax(math.exp(log_factor) * decisions, axis=1)
        return -float(np.average(chances[np.arange(len(codes)), codes], weights=weight))

    return math.exp(minimize_scalar(loss, bounds=(-5, 5), method="bounded").x)
