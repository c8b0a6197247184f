"""Maps of the connections of aligned graphs: what a model, or the data alone, say of each for the group."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression

from cignn._arrays import symmetric, upper_triangle
from cignn._random import RandomState
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.explaining import network_contributions, relative_sizes
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.estimators.shallow import LINEAR, ShallowGraphClassifier
from cignn.explainers.base import Explainer
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

STRENGTH = 1.0  # of L2 regression: C times the number of connections


def effective_coefficients(estimator: GraphClassifier, graphs: GraphSet) -> np.ndarray:
    """Coefficients that describe best how a classifier uses each connection of aligned graphs.

    For every connection its contributions to the log-odds of the second class are regressed, through the
    origin, on its deviations from the training graphs' mean. Coefficients of linear models are exact.

    Parameters
    ----------
    estimator : GraphClassifier
        A fitted classifier of aligned graphs: a network, or a shallow model.
    graphs : GraphSet
        Graphs over which contributions and deviations are compared, usually those of ``fit``.

    Returns
    -------
    ndarray of shape (n_pairs,)
        Log-odds of ``classes_[1]`` per standard deviation of each connection in the training graphs, for the
        pairs of nodes above the diagonal, row by row. 0 where no graph deviates.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import GraphSet
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import effective_coefficients
    >>> x = np.random.default_rng(0).normal(size=(40, 4, 4))
    >>> graphs = GraphSet.from_arrays(x + x.swapaxes(1, 2), y=x[:, 0, 1] > 0, aligned=True)
    >>> model = make_estimator("linear-svm", random_state=0).fit(graphs)
    >>> effective_coefficients(model, graphs).argmax()
    np.int64(0)
    """
    if not graphs.aligned or not len(graphs):
        found = "graphs that are not aligned" if len(graphs) else "no graphs"
        raise ValueError(f"coefficients of connections need aligned graphs, got {found}.")
    if _is_linear(estimator) and len(estimator.classes_) == 2:
        return estimator.coefficients()
    explanations = _explained(estimator, graphs, estimator.classes_[1])
    n = int(graphs.n_nodes[0])
    values = connectivity_vector(explanations.graphs, n)
    present = values != 0
    centre, scale = map(upper_triangle, estimator.edge_statistics_ or graphs.edge_statistics())
    deviations = (values - centre) / scale * present
    contributions = np.zeros(values.shape)
    contributions[present] = np.concatenate(explanations.edge_contributions or [])
    products, squares = (contributions * deviations).sum(0), np.square(deviations).sum(0)
    return np.divide(products, squares, out=np.zeros(len(squares)), where=squares > 0)


def _explained(estimator: GraphClassifier, graphs: GraphSet, target: object) -> Explanations:
    """Contributions towards a class, of a network or of a linear model."""
    if isinstance(estimator, NeuralGraphClassifier):
        return network_contributions(estimator, estimator._check_fitted(graphs), target)
    if not hasattr(estimator, "explain"):
        raise TypeError(
            f"coefficients follow from contributions, which this {type(estimator).__name__} does not explain "
            "its decisions by."
        )
    return estimator.explain(graphs, target)


# ------------------------------------------------------------------- maps of vectors


def standardised(vectors: np.ndarray) -> np.ndarray:
    """(g, pairs) vectors, each connection with mean 0 and standard deviation 1, or 0 where it is constant."""
    wide = vectors.astype(np.float64)
    wide -= wide.mean(0)
    spread = wide.std(0)
    return np.divide(wide, spread, out=np.zeros_like(wide), where=spread > 1e-12)


def t_values(vectors: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """(pairs,) two-sample t of each connection, positive where the graphs ``positive`` (g,) are higher."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = stats.ttest_ind(vectors[positive], vectors[~positive]).statistic
    return np.nan_to_num(found, posinf=0.0, neginf=0.0)


def regression_coefficients(vectors: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """(pairs,) coefficients of logistic regression with an L2 penalty on standardised vectors."""
    # in the basis of the graphs: the same regression with as many numbers as graphs
    variances, basis = np.linalg.eigh(vectors @ vectors.T)
    kept = variances > 1e-9 * variances[-1]
    basis, lengths = basis[:, kept], np.sqrt(variances[kept])
    model = LogisticRegression(C=STRENGTH / vectors.shape[1], max_iter=1000).fit(basis * lengths, positive)
    return vectors.T @ (basis @ (model.coef_[0] / lengths))


def ridge_coefficients(vectors: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(pairs,) coefficients of ridge regression of a score (g,) on standardised vectors."""
    kernel = vectors @ vectors.T
    kernel[np.diag_indices_from(kernel)] += vectors.shape[1] / STRENGTH
    return vectors.T @ np.linalg.solve(kernel, score - score.mean())


def covariance_with(vectors: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(pairs,) covariance of each connection with a score (g,)."""
    return vectors.T @ (score - score.mean()) / len(score)


# ------------------------------------------------------------------- explainers


class _MapExplainer(Explainer):
    """An explainer with one map of the connections for every class; aligned graphs alone have such maps.

    The weight of an edge is the size of the map there, relative to the largest in the graph; with more than
    two classes the map is that of the predicted class against all others.
    """

    aligned_only = True
    map_: np.ndarray

    def __init__(self, random_state: RandomState = None, verbose: int = 0) -> None:
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _map(self, graphs: GraphSet, vectors: np.ndarray, code: int) -> np.ndarray:
        """(pairs,) the map of a class, by its number, on standardised vectors (g, pairs)."""

    def _fit(self, graphs: GraphSet) -> None:
        if not graphs.aligned:
            raise ValueError(
                f"{type(self).__name__} explains connections of aligned graphs (node i the same in each); "
                "these graphs are not."
            )
        n = int(graphs.n_nodes[0])
        vectors = standardised(connectivity_vector(graphs, n))
        codes = [1] if len(self.estimator_.classes_) == 2 else range(len(self.estimator_.classes_))
        maps = np.stack([self._map(graphs, vectors, code) for code in codes])
        matrices = symmetric(maps, np.zeros((len(maps), n, n)))
        self.map_ = matrices[0] if len(maps) == 1 else matrices

    def _positive(self, graphs: GraphSet, code: int) -> np.ndarray:
        """(g,) which graphs are of the class; an error where there are none of it, or of any other."""
        if graphs.y is None:
            raise ValueError(f"{type(self).__name__} learns from labelled graphs; make the GraphSet with y.")
        positive = np.asarray(graphs.y) == self.estimator_.classes_[code]
        if not 0 < positive.sum() < len(positive):
            raise ValueError(
                f"{type(self).__name__} compares classes, got graphs of one class alone; give graphs of both."
            )
        return positive

    def _explain(self, graphs: GraphSet) -> Explanations:
        predictions = self.estimator_.predict(graphs)
        maps = np.abs(np.broadcast_to(self.map_, (len(self.estimator_.classes_), *self.map_.shape[-2:])))
        codes = np.searchsorted(self.estimator_.classes_, predictions)
        weights = [
            relative_sizes(maps[code][tuple(graphs.edges(i).T)])
            for i, code in self._track(enumerate(codes), "explaining", len(codes))
        ]
        return Explanations(graphs, weights, predictions)


class UnivariateExplainer(_MapExplainer):
    """The t of each connection between the classes of the graphs of ``fit``, whatever the classifier.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Not used.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    map_ : ndarray of shape (n, n) or (n_classes, n, n)
        Two-sample t, positive where a connection is higher in ``classes_[1]``; with more than two classes
        that of each class against all others.

    Examples
    --------
    >>> from cignn.connectome import ConnectomeGraphs
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import UnivariateExplainer
    >>> cohort = make_cohort(24, 10, n_edges=3, data="matrices", random_state=0)
    >>> graphs = ConnectomeGraphs().fit_transform(cohort)
    >>> model = make_estimator("lasso", random_state=0).fit(graphs)
    >>> UnivariateExplainer().fit(model, graphs).map_.shape
    (10, 10)
    """

    def _map(self, graphs: GraphSet, vectors: np.ndarray, code: int) -> np.ndarray:
        return t_values(vectors, self._positive(graphs, code))


class CoefficientExplainer(_MapExplainer):
    """The coefficients of a linear classifier; of any other, those of L2 logistic regression beside it.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Not used.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    map_ : ndarray of shape (n, n) or (n_classes, n, n)
        Log-odds of ``classes_[1]`` per standard deviation of each connection; with more than two classes
        those of each class. The regression learns from the graphs of ``fit``.

    Examples
    --------
    >>> from cignn.connectome import ConnectomeGraphs
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import CoefficientExplainer
    >>> cohort = make_cohort(24, 10, n_edges=3, data="matrices", random_state=0)
    >>> graphs = ConnectomeGraphs().fit_transform(cohort)
    >>> model = make_estimator("lasso", random_state=0).fit(graphs)
    >>> CoefficientExplainer().fit(model, graphs).map_.shape
    (10, 10)
    """

    def _map(self, graphs: GraphSet, vectors: np.ndarray, code: int) -> np.ndarray:
        if _is_linear(self.estimator_):
            return self.estimator_.coefficients(code)
        return regression_coefficients(vectors, self._positive(graphs, code))


class HaufeExplainer(_MapExplainer):
    """The pattern of the classifier: covariance of each connection with its log-odds.

    It says what goes along with the decision, not what the decision is made from.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        Not used.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    map_ : ndarray of shape (n, n) or (n_classes, n, n)
        Covariance over the graphs of ``fit`` of each connection, in standard deviations, with the log-odds of
        ``classes_[1]``; with more than two classes with those of each class.

    References
    ----------
    Haufe et al. (2014), "On the interpretation of weight vectors of linear models in multivariate
    neuroimaging", NeuroImage 87, equation (7).

    Examples
    --------
    >>> from cignn.connectome import ConnectomeGraphs
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import HaufeExplainer
    >>> cohort = make_cohort(24, 10, n_edges=3, data="matrices", random_state=0)
    >>> graphs = ConnectomeGraphs().fit_transform(cohort)
    >>> model = make_estimator("lasso", random_state=0).fit(graphs)
    >>> HaufeExplainer().fit(model, graphs).map_.shape
    (10, 10)
    """

    def _map(self, graphs: GraphSet, vectors: np.ndarray, code: int) -> np.ndarray:
        chances = np.clip(np.asarray(self.estimator_.predict_proba(graphs))[:, code], 1e-9, 1 - 1e-9)
        return covariance_with(vectors, np.log(chances) - np.log1p(-chances))


def _is_linear(estimator: GraphClassifier) -> bool:
    """Whether a classifier is a linear function of connections, up to the link."""
    return isinstance(estimator, ShallowGraphClassifier) and estimator.model in LINEAR
