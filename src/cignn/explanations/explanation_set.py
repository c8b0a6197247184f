"""`Explanations`: of every edge of every graph a weight and a signed contribution, from any explainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import torch

from cignn._arrays import subject_halves
from cignn.explanations import comparisons
from cignn.explanations.comparisons import NEGLIGIBLE as NEGLIGIBLE
from cignn.explanations.explained_graphs import ExplainedGraphs
from cignn.explanations.explanation import Explanation
from cignn.explanations.pooling import Pool, Unseen, find_pool
from cignn.graphs.storage import Index

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation as PygExplanation


class Explanations(ExplainedGraphs):
    """Explanations of the graphs of a `GraphSet`, in their order.

    Every edge has a weight, which says where the model looks, and, where the explainer tells it, a
    contribution: what the edge adds to the log-odds of the class explained. The base and the contributions
    of a graph add up to the log-odds that the model gives to this class.

    ``ex[i]`` is one `Explanation`; ``ex[mask]``, ``ex[[0, 2]]`` and ``ex[:10]`` are `Explanations`. All
    parameters are also attributes.

    Parameters
    ----------
    graphs : GraphSet
        The graphs explained.
    edge_weights : sequence of arrays of shape (e,)
        One array per graph with a weight in [0, 1] for each edge, in the order of ``graphs.edges(i)``.
    predictions : array of shape (g,), default=None
        The predicted class of each graph.
    connectivity : array of shape (g, n, n), default=None
        Connectivity to show in tables of edges. By default the edge weights of the graphs.
    edge_contributions : sequence of arrays of shape (e,), default=None
        One array per graph with the signed contribution of each edge, in log-odds (nats) of ``explained``.
    base : array of shape (g,), default=None
        Log-odds of that class without any contribution; needed with ``edge_contributions``.
    explained : array of shape (g,), default=None
        The class that each explanation explains. By default the predicted one.
    reference : EdgeReference, default=None
        What is usual among the controls of the training set; for aligned graphs. Tables of edges then show
        how far a graph is from it.
    classes : array of shape (c,), default=None
        All classes of the model. With two, contributions towards one can be turned into those towards the
        other.
    pooled_edges : int, default=0
        Number of edges over which the contributions were pooled. 0 for contributions of single edges.
    unit : str, default=None
        Name of the score that a regressor predicts. Contributions are then in its units, positive where an
        edge raises the prediction; base and contributions add up to the predicted score.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import Explanations, GraphSet
    >>> graphs = GraphSet.from_arrays((1 - np.eye(3))[None])
    >>> explanations = Explanations(graphs, [np.array([0.0, 0.5, 1.0])])
    >>> explanations.top_edges(2)
       graph  source  target  weight
    0      0       1       2     1.0
    1      0       0       2     0.5
    >>> explanations[0].weights.tolist()
    [[0.0, 0.0, 0.5], [0.0, 0.0, 1.0], [0.5, 1.0, 0.0]]
    >>> told = {"edge_contributions": [np.array([-0.5, 0.25, 1.0])], "base": [0.25], "explained": ["a"]}
    >>> explanations = Explanations(graphs, [np.array([0.0, 0.5, 1.0])], **told)
    >>> explanations.top_edges(1, side="against")
       graph  source  target  contribution     role  weight
    0      0       0       1          -0.5  against     0.0
    >>> explanations.log_odds.tolist()
    [1.0]
    """

    def __repr__(self) -> str:
        weights = np.concatenate([np.empty(0, np.float32), *self.edge_weights])
        mean = f"mean edge weight {weights.mean():.2f}" if len(weights) else "no edges"
        told = "" if self.edge_contributions is None else ", with contributions"
        return f"Explanations({len(self)} graphs, {mean}{told})"

    @property
    def weight_ranges(self) -> np.ndarray:
        """Largest less smallest edge weight of each graph, (g,); 0 where there are fewer than two edges."""
        return np.array([float(np.ptp(weights)) if len(weights) else 0.0 for weights in self.edge_weights])

    @property
    def usual_range(self) -> float:
        """Median of `weight_ranges` over graphs of at least two edges; NaN where there are none."""
        several = np.array([len(weights) > 1 for weights in self.edge_weights], bool)
        return float(np.median(self.weight_ranges[several])) if several.any() else float("nan")

    def top_edges(self, k: int = 10, by: str = "auto", side: str = "both") -> pd.DataFrame:
        """Return the k edges of every graph that matter most.

        Parameters
        ----------
        k : int, default=10
            Number of edges per graph.
        by : {"auto", "contribution", "weight"}, default="auto"
            What ranks the edges: the absolute contribution, or the weight. "auto" is the contribution where
            there is one.
        side : {"both", "for", "against"}, default="both"
            Which edges: all, or those that speak for or against the class explained.

        Returns
        -------
        DataFrame
            The column ``graph`` and those of `Explanation.top_edges`.
        """
        tables = [ex.top_edges(k, by, side) for ex in self]
        if not tables:
            return pd.DataFrame(columns=["graph", "source", "target", "weight"])
        out = pd.concat(tables, ignore_index=True)
        out.insert(0, "graph", np.repeat(np.arange(len(tables)), [len(table) for table in tables]))
        return out

    def mean(self, target: object = None, *, turn: bool = True) -> Explanation:
        """Return the mean over aligned graphs: the explanation of the group.

        Contributions of a mixed group towards one class cancel: what speaks for it in some speaks against it
        in others. Take the mean of one class, or ``turn=False``.

        Parameters
        ----------
        target : object, default=None
            The class towards which contributions count. By default the class explained where it is the same
            for all graphs, otherwise the last of two classes. With more classes the mean has no
            contributions, unless all graphs were explained for one class.
        turn : bool, default=True
            Whether the contributions of all graphs are turned towards one class. If not, those of a graph
            count towards the class explained of this graph: what edges do for the decisions, on average.

        Returns
        -------
        Explanation
            Mean weight and contribution of every edge, 0 in graphs that lack it; connectivity and deviation
            are averaged over the others.
        """
        edges, weights, present = self.aligned_weights("a group mean")
        told: dict[str, Any] = {}
        target = self.one_class() if target is None and turn else target
        if target is not None or (not turn and self.edge_contributions is not None):
            contributions, base = (self if target is None else self.towards(target))._told()
            values = self._aligned(contributions, "a group mean")[1]
            mean = values.mean(0, dtype=np.float64).astype(np.float32)
            told = {"edge_contributions": mean, "base": float(base.mean()), "explained": target}
        if self.graphs.weighted:
            told["connectivity"] = self._mean_of(self.connectivity_matrix, edges, present)
        if self.reference is not None:
            own = self._mean_of(self.graphs.edge_matrix, edges, present)
            told["deviations"] = self.reference.deviations(edges, own)
        return self._of(edges, weights.mean(0, dtype=np.float64).astype(np.float32), **told)

    def pooled(self, training: Explanations) -> Self:
        """Return contributions pooled over edges that go together, sharper than those of single edges.

        In the training graphs of a class some edges may go together: those of a subtype, or a set that only
        some patients carry. All of them then tell what each of them is, and the contributions of these edges
        are replaced by what they make of each other (Wiener's filter); those of the other edges shrink by
        the share of noise in them. What goes together has to do so in both halves of the training graphs,
        and to exceed what it is in the other classes; if nothing does, the contributions stay as they are.
        The log-odds stay the same in any case.

        Classifiers that explain themselves do this on their own. It is left to do for the contributions of
        other networks.

        Parameters
        ----------
        training : Explanations
            Explanations of the graphs that the model was trained on, with their labels, by the same model.

        Returns
        -------
        Explanations
            The explanations with pooled contributions.
        """
        two = self.classes is not None and len(self.classes) == 2
        target = self.classes[-1] if two else self.one_class()  # type: ignore[index]
        self._told()
        if training.graphs.y is None:
            raise ValueError("pooled needs the labels of the training graphs, got graphs without y.")
        if target is None or (not two and training.one_class() != target):
            raise ValueError(
                "pooled needs explanations of one class where there are more than two; explain both sets "
                "with explain(graphs, target=...)."
            )
        if self.pooled_edges or training.pooled_edges:
            raise ValueError(
                "the contributions are pooled already; explain both sets with explain(graphs, pooled=False)."
            )
        pool = training._pool(target)
        nodes = [int(ex.graphs.n_nodes[0]) for ex in (self, training) if len(ex)]
        if len(set(nodes)) > 1:
            raise ValueError(f"pooled needs graphs of the same nodes, got {nodes[0]} and {nodes[1]}.")
        return self._pooled(pool, target)

    def _pool(self, target: object, unseen: Unseen | None = None) -> Pool:
        """Find the edges that go together in the labelled graphs of a class."""
        values, _ = self._pairs(self.towards(target)._told()[0], "pooled")
        own = np.asarray(self.graphs.y == target)
        subjects = np.asarray(self.graphs.meta.get("subject", np.arange(len(self))))
        return find_pool(values, own, subject_halves(subjects, own), unseen)

    def _pooled(self, pool: Pool, target: object) -> Self:
        """Pool contributions of aligned graphs; target : the class that the pool was found for."""
        values, present = self._pairs(self.towards(target)._told()[0], "pooled")
        signs = np.where(np.asarray(self.explained == target), 1, -1)
        found = pool.apply(values, present) * signs[:, None]
        rows = [row[self._places(i)] for i, row in enumerate(found)]
        return self._with(edge_contributions=rows, pooled_edges=pool.n_edges)

    def by_system(self, by: str = "auto", target: object = None, *, turn: bool = True) -> pd.DataFrame:
        """Return what the group's edges within and between systems contribute, or their mean weight.

        Parameters
        ----------
        by : {"auto", "contribution", "weight"}, default="auto"
            See `Explanation.by_system`.
        target : object, default=None
            The class towards which contributions count, see `mean`.
        turn : bool, default=True
            Whether contributions are turned towards one class, see `mean`.

        Returns
        -------
        DataFrame
            Like that of `Explanation.by_system`, of the group's `mean`.
        """
        return self.mean(target, turn=turn).by_system(by)

    def system_table(self, target: object = None, *, turn: bool = True) -> pd.DataFrame:
        """Return one row per pair of systems, for the group's mean.

        Parameters
        ----------
        target : object, default=None
            The class towards which contributions count, see `mean`.
        turn : bool, default=True
            Whether contributions are turned towards one class, see `mean`.

        Returns
        -------
        DataFrame
            Like that of `Explanation.system_table`.
        """
        return self.mean(target, turn=turn).system_table()

    def compare(
        self, group: Index, other: Index | None = None, by: str = "auto", target: object = None
    ) -> pd.DataFrame:
        """Compare the mean contribution, or weight, of every edge between two groups of graphs.

        Graphs of one subject (``meta["subject"]``) are averaged first: subjects are compared, not scans.
        Groups made by what the model predicts differ in contributions by construction; take the true classes
        or another variable.

        Parameters
        ----------
        group : mask, indices or slice
            The graphs of the first group.
        other : mask, indices or slice, default=None
            The graphs of the second group. By default all others.
        by : {"auto", "contribution", "weight"}, default="auto"
            What is compared. "auto" is the contribution where all graphs have one towards the same class.
        target : object, default=None
            The class towards which contributions count. By default that of `mean`.

        Returns
        -------
        DataFrame
            One row per edge, sorted by absolute t: the columns of `Explanation.table` for the group's mean,
            the other group's mean ``other``, their ``difference``, Welch's ``t`` and its ``p``, which is not
            corrected for the number of edges. A difference below a thousandth of the top edge's mean value
            is treated as zero: t is 0, p is 1 and ``note`` is "negligible", or "no difference between
            subjects" if the value is the same for all subjects.
        """
        return comparisons.compare(self, group, other, by, target)

    def against_group(self, i: int, group: Index | None = None, by: str = "auto") -> pd.DataFrame:
        """Compare one graph's contributions, or weights, with those of a group.

        Graphs of one subject are averaged first. Contributions count towards the class explained of graph i.

        Parameters
        ----------
        i : int
            Number of the graph.
        group : mask, indices or slice, default=None
            The graphs of the group. By default those of all other subjects.
        by : {"auto", "contribution", "weight"}, default="auto"
            What is compared. "auto" is the contribution where all graphs have one towards the same class.

        Returns
        -------
        DataFrame
            One row per edge, sorted by the absolute contribution or the weight: the columns of
            `Explanation.table`, ``group_mean``, ``group_std`` and ``z``. z is NaN for edges whose value is
            practically the same in the whole group (see `compare`).
        """
        return comparisons.against_group(self, i, group, by)

    def to_pyg(self) -> list[PygExplanation]:
        """Return the explanations as those of PyTorch Geometric.

        Returns
        -------
        list of torch_geometric.explain.Explanation
            One per graph, with ``edge_mask`` on both directions of every edge and, where there are
            contributions, ``edge_contributions`` likewise and ``base``.
        """
        from torch_geometric.explain import Explanation as PygExplanation

        out = []
        for data, ex in zip(self.graphs.to_pyg(), self, strict=True):
            told = {"edge_mask": torch.from_numpy(np.tile(ex.edge_weights, 2))}
            if ex.edge_contributions is not None:
                told["edge_contributions"] = torch.from_numpy(np.tile(ex.edge_contributions, 2))
                told["base"] = torch.tensor(ex.base)
            out.append(PygExplanation(**told, **data.to_dict()))
        return out
