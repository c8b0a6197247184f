"""Maps of the connections of aligned graphs: what a model, or the data alone, say of each for the group."""

from __future__ import annotations

import numpy as np

from cignn._arrays import upper_triangle
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.explaining import network_contributions
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.estimators.shallow import LINEAR, ShallowGraphClassifier
from cignn.explanations import Explanations
from cignn.graphs import GraphSet


def effective_coefficients(estimator: GraphClassifier, graphs: GraphSet) -> np.ndarray:
    """Coefficients that describe best how a classifier uses each connection of aligned graphs.

    For every connection its contributions to the log-odds of the second class are regressed, through the
    origin, on its deviations from the training graphs' mean. Coefficients of linear models are exact.

    Parameters
    ----------
    estimator : GraphClassifier
        A fitted classifier of aligned graphs: a network, or a linear model.
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
    linear = isinstance(estimator, ShallowGraphClassifier) and estimator.model in LINEAR
    if linear and len(estimator.classes_) == 2:
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
            "coefficients are those of networks and of linear models, got a "
            f"{type(estimator).__name__} (model {getattr(estimator, 'model', None)!r})."
        )
    return estimator.explain(graphs, target)
