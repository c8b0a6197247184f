"""Agreement of explanations: of several methods, between folds and seeds, and with permuted labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.base import clone

from cignn._checks import whole
from cignn._random import as_random_state
from cignn.estimators import FlatMaskWarning
from cignn.evaluation.known_edges import explanation_roc_auc
from cignn.evaluation.removal import edge_ranks, edge_scores
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

if TYPE_CHECKING:
    from cignn.explainers import Explainer


class Agreement(NamedTuple):
    """(g,) rank correlation of all edge weights and overlap of the top edges."""

    rank_correlation: np.ndarray
    top_overlap: np.ndarray


class PermutationCheck(NamedTuple):
    """Explanations of a model beside those of one trained on permuted labels.

    agreement : of the two; roc_auc, permuted_roc_auc : (g,) against the edge truth, None without one. Good
    explanations agree little with those of the permuted model and lie well above its area.
    """

    agreement: Agreement
    roc_auc: np.ndarray | None
    permuted_roc_auc: np.ndarray | None


def rank_correlation(first: Explanations, second: Explanations, *, by: str = "weight") -> np.ndarray:
    """Spearman correlation of the edge weights of each graph in two explanations.

    Parameters
    ----------
    first : Explanations
        Explanations of some graphs.
    second : Explanations
        Other explanations of the same graphs.
    by : {"weight", "contribution", "auto"}, default="weight"
        What is compared: weights, or signed contributions, which must be towards the same classes.

    Returns
    -------
    array of shape (g,)
        The correlations; NaN where the weights of one are constant.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import rank_correlation
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> first, second = (Explanations(triangle, [weights]) for weights in ([0.1, 0.2, 0.9], [0.3, 0.2, 0.1]))
    >>> rank_correlation(first, second).tolist()
    [-1.0]
    """
    _check_same_graphs(first, second)
    pairs = zip(edge_scores(first, by, "for"), edge_scores(second, by, "for"), strict=True)
    return np.array([pearson(rankdata(a), rankdata(b)) for a, b in pairs])


def top_overlap(first: Explanations, second: Explanations, k: int = 10, *, by: str = "weight") -> np.ndarray:
    """Share of the top k edges of one explanation that are among those of another.

    Graphs with k edges or fewer count half of theirs: all would always overlap.

    Parameters
    ----------
    first : Explanations
        Explanations of some graphs.
    second : Explanations
        Other explanations of the same graphs.
    k : int, default=10
        Number of top edges.
    by : {"weight", "contribution", "auto"}, default="weight"
        What ranks the edges: the weight, or the size of the contribution.

    Returns
    -------
    array of shape (g,)
        The shares; NaN for a graph without edges.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import top_overlap
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> first, second = (Explanations(triangle, [weights]) for weights in ([0.1, 0.5, 0.9], [0.6, 0.7, 0.1]))
    >>> top_overlap(first, second, k=2).tolist()
    [0.5]
    """
    whole("k", k, 1)
    _check_same_graphs(first, second)
    counts = first.graphs.n_edges
    places = np.where(counts > k, k, (counts + 1) // 2)
    inside = [edge_ranks(ex, by) < np.repeat(places, counts) for ex in (first, second)]
    graph = np.repeat(np.arange(len(counts)), counts)
    shared = np.bincount(graph, inside[0] & inside[1], minlength=len(counts))
    return np.divide(shared, places, out=np.full(len(counts), np.nan), where=places > 0)


def agreement(first: Explanations, second: Explanations, k: int = 10) -> Agreement:
    """How much two explanations of the same graphs agree.

    Parameters
    ----------
    first : Explanations
        Explanations of some graphs.
    second : Explanations
        Other explanations of the same graphs.
    k : int, default=10
        Number of top edges whose overlap counts.

    Returns
    -------
    Agreement
        Named tuple of ``rank_correlation`` and ``top_overlap``, each (g,).

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import agreement
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> explanations = Explanations(triangle, [[0.1, 0.5, 0.9]])
    >>> agreement(explanations, explanations).top_overlap.tolist()
    [1.0]
    """
    return Agreement(rank_correlation(first, second), top_overlap(first, second, k))


def agreement_table(explanations: Mapping[str, Explanations], k: int = 10) -> pd.DataFrame:
    """Mean agreement of every pair of explanations of the same graphs.

    Parameters
    ----------
    explanations : mapping of str to Explanations
        Explanations by name, such as those of several explainers.
    k : int, default=10
        Number of top edges whose overlap counts.

    Returns
    -------
    DataFrame
        One row per pair: first, second, rank_correlation and top_overlap, means over graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import agreement_table
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> explanations = Explanations(triangle, [[0.1, 0.5, 0.9]])
    >>> agreement_table({"a": explanations, "b": explanations})["top_overlap"].tolist()
    [1.0]
    """
    rows = []
    for a, b in combinations(explanations, 2):
        both = agreement(explanations[a], explanations[b], k)
        rows.append((a, b, _mean(both.rank_correlation), _mean(both.top_overlap)))
    return pd.DataFrame(rows, columns=["first", "second", *Agreement._fields])


def stability(runs: Sequence[Explanations]) -> np.ndarray:
    """Mean rank correlation of one graph's weights over all pairs of runs.

    Parameters
    ----------
    runs : sequence of Explanations
        Explanations of the same graphs by models trained apart, on other seeds or folds.

    Returns
    -------
    array of shape (g,)
        The mean correlations. A constant mask correlates with nothing and counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import Explanations
    >>> from cignn.evaluation import stability
    >>> from cignn.graphs import GraphSet
    >>> triangle = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3)])
    >>> runs = [Explanations(triangle, [weights]) for weights in ([0.1, 0.2, 0.9], [0.3, 0.4, 0.5])]
    >>> stability(runs).round(6).tolist()
    [1.0]
    """
    if len(runs) < 2:
        raise ValueError(f"stability needs at least two runs, got {len(runs)}.")
    for other in runs[1:]:
        _check_same_graphs(runs[0], other)
    out = np.empty(len(runs[0]))
    for i in range(len(out)):
        ranks = [rankdata(run.edge_weights[i]) for run in runs]
        out[i] = np.mean([np.nan_to_num(pearson(a, b)) for a, b in combinations(ranks, 2)])
    return out


def label_permutation_check(
    estimator: Any,
    graphs: GraphSet,
    explained: GraphSet | None = None,
    *,
    explainer: Explainer | None = None,
    y: np.ndarray | None = None,
    k: int = 10,
    random_state: Any = 0,
) -> PermutationCheck:
    """Compare the explanations of a model with those of a clone trained on permuted labels.

    All graphs of a subject (``meta["subject"]``) that share a label get the same new one.

    Parameters
    ----------
    estimator : estimator
        Classifier fitted on ``graphs``.
    graphs : GraphSet
        The graphs it was fitted on.
    explained : GraphSet or None, default=None
        Graphs to explain, by default ``graphs``.
    explainer : Explainer or None, default=None
        By default the estimator's own ``explain``.
    y : array of shape (g,) or None, default=None
        Labels to permute, by default those of the graphs.
    k : int, default=10
        Number of top edges whose overlap counts.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the permutation.

    Returns
    -------
    PermutationCheck
        Named tuple of ``agreement`` (see `agreement`), and ``roc_auc`` and ``permuted_roc_auc``, each (g,),
        against the edge truth or None without one. Good explanations agree little with those of the permuted
        model and lie well above its area.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import label_permutation_check
    >>> from cignn.explainers import make_explainer
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("random-forest", n_estimators=5, random_state=0).fit(graphs)
    >>> check = label_permutation_check(model, graphs, explainer=make_explainer("degree"))
    >>> check.agreement.top_overlap.min().item()  # degrees do not depend on labels
    1.0
    """
    from cignn.explainers import make_explainer

    labels = graphs.y if y is None else np.asarray(y)
    if labels is None:
        raise ValueError("the graphs carry no labels to permute; pass y.")
    explained = graphs if explained is None else explained
    explainer = make_explainer("built-in") if explainer is None else explainer
    own = clone(explainer).fit(estimator, graphs).explain(explained)  # says first what does not fit
    shuffled = permuted_labels(labels, graphs.meta.get("subject"), as_random_state(random_state))
    blind = clone(estimator).fit(graphs, shuffled)
    with warnings.catch_warnings():  # that it says nothing is as it should be
        warnings.simplefilter("ignore", FlatMaskWarning)
        permuted = clone(explainer).fit(blind, graphs).explain(explained)
    areas = [None, None] if explained.edge_truth is None else map(explanation_roc_auc, (own, permuted))
    return PermutationCheck(agreement(own, permuted, k), *areas)


def permuted_labels(
    labels: np.ndarray, subjects: np.ndarray | None, random: np.random.RandomState
) -> np.ndarray:
    """(g,) labels permuted over subjects: scans of one subject that share a label move together.

    Only subjects with as many scans of a label exchange theirs, so that the classes keep their sizes.
    """
    labels = np.asarray(labels)
    if subjects is None or len(np.unique(subjects)) == len(labels):
        return random.permutation(labels)
    pairs = pd.DataFrame({"subject": np.asarray(subjects).astype(str), "label": labels.astype(str)})
    of_scan = pairs.groupby(["subject", "label"], sort=False).ngroup().to_numpy()
    _, first, sizes = np.unique(of_scan, return_index=True, return_counts=True)
    new = labels[first]
    for size in np.unique(sizes):
        new[sizes == size] = random.permutation(new[sizes == size])
    return new[of_scan]


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson correlation; NaN where either is constant."""
    if len(a) < 2:
        return np.nan
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else np.nan


def _mean(values: np.ndarray) -> float:
    return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else np.nan


def _check_same_graphs(first: Explanations, second: Explanations) -> None:
    if len(first) != len(second):
        raise ValueError(f"explanations must be of the same graphs, got {len(first)} and {len(second)}.")
    a, b = first.graphs, second.graphs
    if a is b:
        return
    for i in range(len(a)):
        if a.n_edges[i] != b.n_edges[i]:
            difference = f"has {a.n_edges[i]} edges in one and {b.n_edges[i]} in the other"
        elif not np.array_equal(a.edges(i), b.edges(i)):
            difference = "has other edges in one than in the other"
        elif _subject(a, i) != _subject(b, i) and None not in (_subject(a, i), _subject(b, i)):
            difference = f"is of {_subject(a, i)} in one and of {_subject(b, i)} in the other"
        else:
            continue
        raise ValueError(f"explanations must be of the same graphs, graph {i} {difference}.")


def _subject(graphs: GraphSet, i: int) -> str | None:
    """Whose graph it is, where that is known."""
    return str(graphs.meta["subject"][i]) if "subject" in graphs.meta else None
