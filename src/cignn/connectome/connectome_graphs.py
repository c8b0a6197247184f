"""Connectivity matrices → an aligned `GraphSet`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags

from cignn._arrays import blocks, upper_indices, upper_triangle
from cignn._checks import choice, number, whole
from cignn._mapped import MappedArray, Rows, scratch
from cignn.connectome.covariates import CohortTransformer, check_cohort_input, check_rois, check_symmetry
from cignn.datasets.cohort import Cohort
from cignn.graphs import GraphSet
from cignn.graphs.building import zero_diagonal

SIGNS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "both": lambda weights: weights,
    "positive": lambda weights: np.maximum(weights, 0),
    "negative": lambda weights: np.minimum(weights, 0),
    "absolute": np.abs,
}
FEATURES = ("connectivity", "edges", "constant")


class TrainingConnections(NamedTuple):
    """Mean and standard deviation (p,) of each connection over n scans, and the largest absolute value."""

    n: int
    mean: np.ndarray
    std: np.ndarray
    largest: float

    @classmethod
    def of(cls, X: Cohort) -> TrainingConnections:
        """Measure the connections above the diagonal of a cohort with matrices."""
        total = squares = np.zeros(X.n_rois * (X.n_rois - 1) // 2)
        first, largest = upper_triangle(np.asarray(X.matrices[0])), 0.0  # type: ignore[index]
        for block in blocks(X.matrices):
            values = upper_triangle(block).astype(np.float64)  # sums of differences lose no digits
            total, squares = total + (values - first).sum(0), squares + ((values - first) ** 2).sum(0)
            largest = max(largest, float(np.abs(values).max(initial=0)))
        mean = total / len(X)
        std = np.sqrt(np.maximum(squares / len(X) - mean**2, 0))
        return cls(len(X), mean + first, np.where(std > 1e-6 * largest, std, 0), largest)


class ConnectomeGraphs(CohortTransformer):
    """Make one graph of each subject: ROIs as nodes, connectivity as signed edge weights.

    By default every connection is an edge, so that weak connections can be causal too. At most one of
    ``density``, ``threshold`` and ``neighbours`` selects edges within each graph, by absolute value after
    ``sign`` was applied; the selected edges keep their sign. Where the matrices are on disk, complete graphs
    are read from them; selected edges are written beside them, to a temporary file that is removed with the
    graphs.

    Parameters
    ----------
    density : float, default=None
        Share of all node pairs kept, in (0, 1]. 0.1 gives the paper's graphs (116 ROIs: 667 edges, 1334
        counted in both directions).
    sign : {"both", "positive", "negative", "absolute"}, default="both"
        "positive" and "negative" drop the other sign, "absolute" takes absolute values.
    threshold : float, default=None
        Keep connections with an absolute value of at least this.
    neighbours : int, default=None
        Keep the k strongest connections of each ROI, and so edges that are among those of either end.
    features : {"connectivity", "edges", "constant"}, default="connectivity"
        Node features. "connectivity": the ROI's row of the whole matrix. "edges": its row of the graph.
        "constant": a single 1.

    Attributes
    ----------
    n_rois_ : int
        Number of ROIs seen in `fit`.
    connections_ : TrainingConnections or None
        Mean and standard deviation of each training connection; None for models of older versions.

    Examples
    --------
    >>> from cignn.connectome import Connectivity, ConnectomeGraphs
    >>> from cignn.datasets import make_cohort
    >>> cohort = make_cohort(4, 10, n_edges=3, n_site_edges=3, random_state=0)
    >>> matrices = Connectivity().fit_transform(cohort)
    >>> ConnectomeGraphs(density=0.2).fit_transform(matrices)
    GraphSet(4 aligned graphs, 10 nodes, 9.0 edges, 10 features)
    """

    connections_: TrainingConnections | None = None

    def __init__(
        self,
        density: float | None = None,
        *,
        sign: str = "both",
        threshold: float | None = None,
        neighbours: int | None = None,
        features: str = "connectivity",
    ) -> None:
        self.density = density
        self.sign = sign
        self.threshold = threshold
        self.neighbours = neighbours
        self.features = features

    def fit(self, X: Cohort, y: npt.ArrayLike | None = None) -> Self:
        """Check the parameters, and keep what the training connections are like.

        Graphs do not depend on it; `validate` compares other cohorts with it.

        Parameters
        ----------
        X : Cohort
            Training subjects with matrices.
        y : array-like of shape (n,), default=None
            Ignored.

        Returns
        -------
        ConnectomeGraphs
            The transformer itself.
        """
        self._check(X)
        self.n_rois_ = X.n_rois
        self.connections_ = TrainingConnections.of(X)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def transform(self, X: Cohort) -> GraphSet:
        """Make the graphs.

        Parameters
        ----------
        X : Cohort
            Subjects with matrices.

        Returns
        -------
        GraphSet
            One aligned graph per subject, with labels, sites as groups, subjects and covariates as meta, and
            who carries which planted edges where that is known.
        """
        self._check(X)
        check_rois(X, getattr(self, "n_rois_", X.n_rois))
        weights = self._weights(X)
        node_meta = {}
        if X.atlas is not None:
            node_meta = {"system": X.atlas.systems, "coordinates": X.atlas.coordinates}
        return GraphSet.from_arrays(
            weights,
            self._features(X, weights),
            X.y,
            groups=X.sites,
            node_names=X.roi_names,
            edge_truth=X.edge_truth,
            meta={
                "subject": X.subjects,
                **{str(name): X.covariates[name].to_numpy() for name in X.covariates},
                **_carriers(X),
            },
            node_meta={name: column for name, column in node_meta.items() if column is not None},
        )

    # ----------------------------------------------------------------- helpers

    def _check(self, X: Cohort) -> None:
        check_cohort_input(X, "ConnectomeGraphs", matrices=True)
        choice("sign", self.sign, SIGNS)
        choice("features", self.features, FEATURES)
        rules = {"density": self.density, "threshold": self.threshold, "neighbours": self.neighbours}
        given = [name for name, value in rules.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"give at most one of {', '.join(rules)}, got {' and '.join(given)}.")
        if self.density is not None:
            number("density", self.density, 0, 1, include_high=True)
        if self.threshold is not None:
            number("threshold", self.threshold, 0, math.inf, include_low=True)
        if self.neighbours is not None:
            whole("neighbours", self.neighbours, 1)
            if self.neighbours >= X.n_rois:
                raise ValueError(f"neighbours must be fewer than the {X.n_rois} ROIs, got {self.neighbours}.")

    def _weights(self, X: Cohort) -> Any:
        """(n, R, R) edge weights; edges chosen from matrices on disk are written to a temporary file."""
        if self.sign == "both" and self.density is self.threshold is self.neighbours is None:
            check_symmetry(X)
            return X.matrices
        if isinstance(X.matrices, MappedArray):
            rows = Rows(X.matrices.shape, map(self._chosen, X.matrices.blocks()))
            return scratch(rows, X.matrices.file.path.parent)
        return self._chosen(np.asarray(X.matrices))

    def _chosen(self, matrices: np.ndarray) -> np.ndarray:
        """(k, R, R) edge weights of (k, R, R) matrices."""
        weights = np.empty_like(matrices)
        for i, matrix in enumerate(matrices):
            left = SIGNS[self.sign]((matrix + matrix.T) / 2)
            np.fill_diagonal(left, 0)
            weights[i] = np.where(self._kept(np.abs(left)), left, 0)
        return weights

    def _kept(self, strength: np.ndarray) -> np.ndarray:
        """(R, R) bool: the edges kept, given the absolute weights of a graph."""
        if self.density is not None:
            return strongest(strength, self.density)
        if self.threshold is not None:
            return strength >= self.threshold
        return (
            np.ones(strength.shape, bool) if self.neighbours is None else nearest(strength, self.neighbours)
        )

    def _features(self, X: Cohort, weights: Any) -> Any:
        """(n, R, d) node features; None lets the graph set share its weights as features."""
        if self.features == "constant":
            return np.broadcast_to(np.ones((1, 1, 1), np.float32), (*weights.shape[:2], 1))
        if self.features == "edges" or weights is X.matrices:
            return None
        if isinstance(X.matrices, MappedArray):
            return X.matrices.with_step(zero_diagonal)
        return zero_diagonal(np.array(X.matrices))


def _carriers(X: Cohort) -> dict[str, np.ndarray]:
    """Return who carries each set of planted edges, (n,) each."""
    if X.carries is None:
        return {}
    names = [f"carries {i + 1}" for i in range(X.carries.shape[1])] if X.carries.shape[1] > 1 else ["carries"]
    return dict(zip(names, X.carries.T, strict=True))


def strongest(strength: np.ndarray, density: float) -> np.ndarray:
    """(R, R) bool: the share ``density`` of all pairs with the largest strength, zeros left out."""
    rows, columns = upper_indices(len(strength))
    values = strength[rows, columns]
    most = round(density * len(values))
    order = np.argpartition(-values, most - 1)[:most] if 0 < most < len(values) else np.arange(most)
    order = order[values[order] > 0]
    kept = np.zeros(strength.shape, bool)
    kept[rows[order], columns[order]] = kept[columns[order], rows[order]] = True
    return kept


def nearest(strength: np.ndarray, k: int) -> np.ndarray:
    """(R, R) bool: the k largest of each row of (R, R) strengths, made symmetric."""
    strength = strength.copy()
    np.fill_diagonal(strength, -1)
    best = np.argsort(-strength, axis=1, kind="stable")[:, :k]
    kept = np.zeros(strength.shape, bool)
    np.put_along_axis(kept, best, True, axis=1)
    return kept | kept.T
