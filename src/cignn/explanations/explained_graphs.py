"""The data of explanations: of every edge of every graph a weight and a signed contribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self, overload

import numpy as np

from cignn import _checks
from cignn._arrays import Index, positions, upper_indices
from cignn.explanations.explanation import NO_CONTRIBUTIONS, EdgeReference, Explanation
from cignn.graphs import GraphSet


class AlignedWeights(NamedTuple):
    """Weights of all edges that any graph of an aligned set has."""

    edges: np.ndarray  # (e, 2) node numbers, source < target
    weights: np.ndarray  # (g, e) float32, 0 where a graph does not have the edge
    present: np.ndarray  # (g, e) bool


class AlignedContributions(NamedTuple):
    """Contributions, towards one class, of all edges that any graph of an aligned set has."""

    edges: np.ndarray  # (e, 2) node numbers, source < target
    contributions: np.ndarray  # (g, e) float32, 0 where a graph does not have the edge
    present: np.ndarray  # (g, e) bool


PER_GRAPH = (
    "graphs",
    "edge_weights",
    "predictions",
    "connectivity",
    "edge_contributions",
    "base",
    "explained",
)


class ExplainedGraphs:
    """What `Explanations` hold and how they are indexed, aligned and turned towards one class."""

    def __init__(
        self,
        graphs: GraphSet,
        edge_weights: Sequence[np.ndarray],
        predictions: np.ndarray | None = None,
        connectivity: np.ndarray | None = None,
        *,
        edge_contributions: Sequence[np.ndarray] | None = None,
        base: np.ndarray | None = None,
        explained: np.ndarray | None = None,
        reference: EdgeReference | None = None,
        classes: np.ndarray | None = None,
        pooled_edges: int = 0,
        unit: str | None = None,
    ) -> None:
        self.graphs = graphs
        self.edge_weights = _of_edges(graphs, edge_weights, "weights")
        for i, weights in enumerate(self.edge_weights):
            if weights.size and not (weights.min() >= 0 and weights.max() <= 1):
                found = f"{weights.min()} to {weights.max()}"
                raise ValueError(f"edge weights must lie in [0, 1], graph {i} has {found}.")
        self.predictions = _of_graphs(graphs, predictions, "predictions")
        self.connectivity = None if connectivity is None else np.asarray(connectivity, np.float32)
        if self.connectivity is not None:
            _check_nodes(graphs, "connectivity", self.connectivity.shape, (len(graphs),))
        explained = predictions if explained is None else explained
        self.explained = _of_graphs(graphs, explained, "classes in explained")
        self.base = _of_graphs(graphs, None if base is None else np.asarray(base, np.float64), "bases")
        self.edge_contributions = None
        if edge_contributions is not None:
            self.edge_contributions = _of_edges(graphs, edge_contributions, "contributions")
            if self.base is None or self.explained is None:
                missing = "base" if self.base is None else "explained or predictions"
                raise ValueError(f"edge_contributions need {missing} beside them, got none.")
            for i, values in enumerate(self.edge_contributions):
                if not np.isfinite(values).all():
                    raise ValueError(f"edge_contributions must be finite, those of graph {i} are not.")
        self.reference = reference
        if reference is not None:
            _check_nodes(graphs, "the mean of reference", reference.mean.shape)
            _check_nodes(graphs, "the std of reference", reference.std.shape)
        self.classes = None if classes is None else np.asarray(classes)
        self.pooled_edges = pooled_edges
        self.unit = unit

    def __len__(self) -> int:
        return len(self.edge_weights)

    @overload
    def __getitem__(self, key: int | np.integer) -> Explanation: ...

    @overload
    def __getitem__(self, key: Index) -> Self: ...

    def __getitem__(self, key: int | np.integer | Index) -> Explanation | Self:
        if isinstance(key, (int, np.integer)):
            return self._one(range(len(self))[key])
        index = positions(key, len(self))

        def some(values: Any) -> Any:
            if isinstance(values, list):
                return [values[i] for i in index]
            return None if values is None else values[index]

        return self._with(**{name: some(getattr(self, name)) for name in PER_GRAPH})

    def _with(self, **changes: Any) -> Self:
        """The same explanations but for what is given."""
        return type(self)(**(vars(self) | changes))

    def _one(self, i: int) -> Explanation:
        """The explanation of one graph."""
        edges = self.graphs.edges(i)
        return self._of(
            edges,
            self.edge_weights[i],
            i=i,
            prediction=None if self.predictions is None else self.predictions[i],
            connectivity=self._connectivity_of(i),
            edge_contributions=None if self.edge_contributions is None else self.edge_contributions[i],
            base=None if self.base is None else float(self.base[i]),
            explained=None if self.explained is None else self.explained[i],
            deviations=self._deviations_of(i, edges),
        )

    def _of(self, edges: np.ndarray, weights: np.ndarray, *, i: int = 0, **told: Any) -> Explanation:
        """Explanation with the nodes of graph i: edges (e, 2), weights and all else (e,)."""
        names, systems = self.graphs.node_names, self.graphs.node_meta.get("system")
        n_nodes = int(self.graphs.n_nodes[i])
        return Explanation(edges, weights, n_nodes, names, systems=systems, unit=self.unit, **told)

    def with_connectivity(self, connectivity: np.ndarray | None) -> Self:
        """Return the same explanations with other connectivity values in tables of edges.

        This is for graphs whose edge weights are not connectivity. In tangent space they are distances from
        the group's mean, so their mean over the group is 0 by construction.

        Parameters
        ----------
        connectivity : array of shape (g, n, n) or None
            The values; None for the edge weights of the graphs.

        Returns
        -------
        Explanations
            The explanations.
        """
        return self._with(connectivity=connectivity)

    @property
    def log_odds(self) -> np.ndarray:
        """Log-odds of the class explained, (g,): the bases and the sums of all contributions.

        Of a regressor, the predicted scores.
        """
        contributions, base = self._told()
        return base + np.array([values.sum(dtype=np.float64) for values in contributions])

    def _told(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Contributions and bases; an error where there are none."""
        if self.edge_contributions is None or self.base is None:
            raise ValueError(NO_CONTRIBUTIONS)
        return self.edge_contributions, self.base

    def towards(self, label: object) -> Self:
        """Return the contributions towards one class for every graph.

        With two classes, what speaks for one speaks against the other: the signs of graphs explained for the
        other class are turned.

        Parameters
        ----------
        label : object
            The class.

        Returns
        -------
        Explanations
            The explanations, each of this class.
        """
        contributions, base = self._told()
        turned = np.asarray(self.explained != label)
        if self.classes is not None:
            _checks.choice("label", label, self.classes.tolist())
        if not turned.any():
            return self
        if self.classes is None or len(self.classes) != 2:
            found = "unknown classes" if self.classes is None else f"{len(self.classes)} classes"
            raise ValueError(
                "contributions can be turned from one class into another only where there are two, got "
                f"{found}; explain all graphs for one class, with explain(graphs, target=...)."
            )
        signs = np.where(turned, -1, 1)
        return self._with(
            edge_contributions=[values * sign for values, sign in zip(contributions, signs, strict=True)],
            base=base * signs,
            explained=np.full(len(self), label, self.classes.dtype),
        )

    def one_class(self) -> object:
        """Return the class towards which the contributions of all graphs can be told.

        Returns
        -------
        object
            The class explained where it is the same for all graphs, otherwise the last of two classes; None
            where there are no contributions or the model has more than two classes.
        """
        if self.edge_contributions is None or self.explained is None or not len(self):
            return None
        found = np.unique(self.explained)
        if len(found) == 1:
            return found[0]
        return self.classes[-1] if self.classes is not None and len(self.classes) == 2 else None

    def connectivity_matrix(self, i: int) -> np.ndarray:
        """Return the signed connectivity of one graph's edges.

        Parameters
        ----------
        i : int
            Number of the graph.

        Returns
        -------
        ndarray of shape (n, n)
            Symmetric, zero where the graph has no edge.
        """
        own = self.graphs.edge_matrix(i)
        return own if self.connectivity is None else np.where(own != 0, self.connectivity[i], 0)

    def _connectivity_of(self, i: int) -> np.ndarray | None:
        """(e,) signed connectivity of one graph's edges; None where they have none."""
        if self.connectivity is not None:
            return self.connectivity[i][tuple(self.graphs.edges(i).T)]
        return self.graphs.edge_values(i) if self.graphs.weighted else None

    def _deviations_of(self, i: int, edges: np.ndarray) -> np.ndarray | None:
        """(e,) distance of one graph's edges from the reference; None without one."""
        return (
            None if self.reference is None else self.reference.deviations(edges, self.graphs.edge_values(i))
        )

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def aligned_weights(self, purpose: str = "an array of weights") -> AlignedWeights:
        """Return the weights of an aligned set as one array.

        Parameters
        ----------
        purpose : str, default="an array of weights"
            What needs it, for the error where graphs are not aligned.

        Returns
        -------
        AlignedWeights
            The edges that any graph has, of shape (e, 2), their weights and where they exist, both (g, e).
        """
        return AlignedWeights(*self._aligned(self.edge_weights, purpose))

    def aligned_contributions(
        self, target: object = None, purpose: str = "an array of contributions"
    ) -> AlignedContributions:
        """Return the contributions of an aligned set towards one class as one array.

        Parameters
        ----------
        target : object, default=None
            The class. By default that of `one_class`.
        purpose : str, default="an array of contributions"
            What needs it, for the error where graphs are not aligned.

        Returns
        -------
        AlignedContributions
            The edges that any graph has, of shape (e, 2), their contributions and where they exist, both
            (g, e).
        """
        target = self.one_class() if target is None else target
        return AlignedContributions(*self._aligned(self.towards(target)._told()[0], purpose))

    def _aligned(self, of_edges: list[np.ndarray], purpose: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Edges (e, 2) that any graph has, their values and where they exist, both (g, e)."""
        values, present = self._pairs(of_edges, purpose)
        pairs = np.stack(upper_indices(int(self.graphs.n_nodes[0])), 1)
        used = present.any(0)
        return (pairs, values, present) if used.all() else (pairs[used], values[:, used], present[:, used])

    def _pairs(self, of_edges: list[np.ndarray], purpose: str) -> tuple[np.ndarray, np.ndarray]:
        """Values of all pairs of nodes, row by row, and where there are edges, both (g, n_pairs)."""
        if not self.graphs.aligned:
            raise ValueError(f"{purpose} needs aligned graphs (node i the same in each); these are not.")
        if not len(self):
            raise ValueError(f"{purpose} needs at least one explanation, got none.")
        n_pairs = len(upper_indices(int(self.graphs.n_nodes[0]))[0])
        if (self.graphs.n_edges == n_pairs).all():  # all graphs are complete: nothing to find
            return np.stack(of_edges), np.ones((len(self), n_pairs), bool)
        values = np.zeros((len(self), n_pairs), np.float32)
        present = np.zeros((len(self), n_pairs), bool)
        for i, of_graph in enumerate(of_edges):
            at = self._places(i)
            values[i, at], present[i, at] = of_graph, True
        return values, present

    def _places(self, i: int) -> np.ndarray:
        """(e,) numbers of one graph's edges among all pairs of nodes, row by row."""
        source, target = self.graphs.edges(i).T
        return source * (2 * int(self.graphs.n_nodes[i]) - source - 1) // 2 + target - source - 1

    def _mean_of(
        self, matrix: Callable[[int], np.ndarray], edges: np.ndarray, present: np.ndarray
    ) -> np.ndarray:
        """(e,) mean of the graphs' (n, n) matrices at the edges, over the graphs that have them."""
        total = np.zeros((self.graphs.n_nodes[0],) * 2)
        for i in range(len(self)):
            total += matrix(i)
        count = present.sum(0)
        mean = np.divide(total[tuple(edges.T)], count, out=np.full(len(edges), np.nan), where=count > 0)
        return mean.astype(np.float32)


def _of_graphs(graphs: GraphSet, values: np.ndarray | None, what: str) -> np.ndarray | None:
    """(g,) one value per graph."""
    if values is None:
        return None
    given = np.asarray(values)
    if given.shape != (len(graphs),):
        raise ValueError(f"expected {len(graphs)} {what}, one per graph, got {given.shape}.")
    return given


def _of_edges(graphs: GraphSet, values: Sequence[np.ndarray], what: str) -> list[np.ndarray]:
    """Per graph one (e,) array with a value for each edge."""
    if len(values) != len(graphs):
        raise ValueError(f"expected edge {what} for {len(graphs)} graphs, got {len(values)}.")
    out = [np.asarray(of_graph, np.float32) for of_graph in values]
    for i, (of_graph, n_edges) in enumerate(zip(out, graphs.n_edges, strict=True)):
        if of_graph.shape != (n_edges,):
            raise ValueError(f"graph {i} has {n_edges} edges, got {what} of shape {of_graph.shape}.")
    return out


def _check_nodes(graphs: GraphSet, what: str, found: tuple[int, ...], first: tuple[int, ...] = ()) -> None:
    """Refuse matrices that are not of the nodes of aligned graphs."""
    expected = first + (int(graphs.n_nodes.max(initial=0)),) * 2
    if not graphs.aligned:
        raise ValueError(f"{what} must be None, because the graphs are not aligned, got shape {found}.")
    if len(graphs) and found != expected:
        raise ValueError(f"{what} must be of shape {expected}, for the nodes of the graphs, got {found}.")
