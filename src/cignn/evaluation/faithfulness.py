"""Explanations against the classifier they explain: does its decision hang on the heavy edges?

Every function works with any fitted classifier that has ``predict_proba(GraphSet)``. Edges are kept or
removed for real: nodes and their features stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.pipeline import Pipeline

from cignn import _checks
from cignn._checks import number
from cignn._random import as_random_state
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

SHARES = tuple(round(0.1 * k, 1) for k in range(1, 11))  # the paper's μ
KINDS = ("probability", "label")


class Classifier(Protocol):
    """What the scores ask of a classifier."""

    def predict_proba(self, X: GraphSet, /) -> np.ndarray:
        """(g, classes) class probabilities."""


class ExplanationCurve(NamedTuple):
    """How often the class stays when a share of the edges does: shares, accuracy : (s,); auc : its area."""

    shares: np.ndarray
    accuracy: np.ndarray
    auc: float


class Fidelity(NamedTuple):
    """(g,) what the decision loses without the explanation (plus) and with nothing but it (minus)."""

    plus: np.ndarray
    minus: np.ndarray


class RemovalCurve(NamedTuple):
    """Each (s,): what is left of the decision when a share of edges goes, heaviest first or by chance.

    accuracy : how often the class stays (or is right); probability : of that class, the mean over graphs.
    """

    shares: np.ndarray
    accuracy: np.ndarray
    probability: np.ndarray
    random_accuracy: np.ndarray
    random_probability: np.ndarray


# ------------------------------------------------------------------ what is kept


def top_edge_masks(explanations: Explanations, share: float) -> list[np.ndarray]:
    """One bool mask per graph: its ⌈share · edges⌉ heaviest, aligned with ``graphs.edges(i)``.

    Which of equally heavy edges stay is decided by a fixed scramble of their node numbers: the same in every
    run and whatever the other graphs are, and no favour to the nodes that come first.
    """
    return _first(explanations, edge_ranks(explanations), _checked_share(share))


def edge_ranks(explanations: Explanations) -> np.ndarray:
    """(all edges,) place of every edge in its graph, 0 for the heaviest; graphs one behind the other."""
    pairs = [explanations.graphs.edges(i) for i in range(len(explanations))]
    flat = np.concatenate([np.empty((0, 2), np.int64), *pairs]).astype(np.uint64)
    scramble = (flat[:, 0] << np.uint64(32) | flat[:, 1]) * np.uint64(0x9E3779B97F4A7C15)
    scramble = (scramble ^ scramble >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    weights = np.concatenate([np.empty(0, np.float32), *explanations.edge_weights])
    return _ranks(explanations.graphs.n_edges, -weights, scramble)


def _ranks(counts: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """Place of every edge among those of its graph, by the first key, then the next."""
    graph = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((*reversed(keys), graph))
    place = np.arange(len(graph)) - np.repeat(np.cumsum(counts) - counts, counts)
    ranks = np.empty(len(graph), np.int64)
    ranks[order] = place
    return ranks


def _first(explanations: Explanations, ranks: np.ndarray, share: float) -> list[np.ndarray]:
    counts = explanations.graphs.n_edges
    n_kept = np.ceil(np.round(share * counts, 6)).astype(np.int64)  # 0.1 · 30 is 3, not 3.0000000000000004
    return _split(ranks < np.repeat(n_kept, counts), counts)


def _split(flat: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    return np.split(flat, np.cumsum(counts)[:-1])[: len(counts)]


def _checked_share(share: float) -> float:
    return number("share", share, 0, 1, include_low=True, include_high=True)


# ------------------------------------------------------------------------ scores


def explanation_accuracy(
    classifier: Classifier, explanations: Explanations, shares: Sequence[float] = SHARES
) -> ExplanationCurve:
    """The paper's explanation accuracy: how often the class stays when only the μ heaviest edges do.

    shares : the μ, rising. The area is that under the curve divided by the range of μ: 1 when no class ever
    changes.
    """
    shares_ = np.array([_checked_share(share) for share in shares])
    if len(shares_) < 2 or (np.diff(shares_) <= 0).any():
        raise ValueError(f"shares must be at least two and rise, got {list(shares)}.")
    whole = _classes(classifier, _some(explanations))
    ranks = edge_ranks(explanations)
    accuracy = []
    for share in shares_:
        kept = explanations.graphs.with_edges(_first(explanations, ranks, share))
        accuracy.append((_classes(classifier, kept) == whole).mean())
    heights, steps = np.array(accuracy), np.diff(shares_)
    area = ((heights[1:] + heights[:-1]) / 2) @ steps / steps.sum()
    return ExplanationCurve(shares_, heights, float(area))


def fidelity(
    classifier: Classifier, explanations: Explanations, share: float = 0.3, kind: str = "probability"
) -> Fidelity:
    """What the decision loses without the heaviest ``share`` of edges and with nothing but these.

    kind : "probability", the fall in the probability of the class predicted on the whole graph, or "label", 1
    where the class changes and 0 where it stays. A good explanation has a high plus and a low minus.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
    graphs, keep = _some(explanations), top_edge_masks(explanations, share)
    before = _ask(classifier, graphs)
    rest = _ask(classifier, graphs.with_edges([~mask for mask in keep]))
    alone = _ask(classifier, graphs.with_edges(keep))
    label = before.argmax(1)
    if kind == "label":
        return Fidelity(*((after.argmax(1) != label).astype(float) for after in (rest, alone)))
    row = np.arange(len(label))
    return Fidelity(*(before[row, label] - after[row, label] for after in (rest, alone)))


def characterisation_score(
    plus: float | np.ndarray, minus: float | np.ndarray, plus_weight: float = 0.5, minus_weight: float = 0.5
) -> Any:
    """The weighted harmonic mean of fidelity+ and 1 − fidelity−; 0 where either is not above 0, NaN stays.

    plus, minus : numbers or (g,). Give it means over graphs: a mean of harmonic means is dominated by zeros.
    """
    for name, weight in (("plus_weight", plus_weight), ("minus_weight", minus_weight)):
        number(name, weight, 0, np.inf)
    kept, lost = np.asarray(plus, float), 1 - np.asarray(minus, float)
    good = (kept > 0) & (lost > 0)
    kept_, lost_ = np.where(good, kept, 1), np.where(good, lost, 1)
    score = (plus_weight + minus_weight) / (plus_weight / kept_ + minus_weight / lost_)
    return np.where(good, score, 0.0 * (kept + lost))[()]


def sparsity(explanations: Explanations, threshold: float | None = 0.5) -> np.ndarray:
    """(g,) share of a graph's edges that weigh less than ``threshold``; with None, 1 − their mean weight.

    NaN for a graph without edges.
    """
    if threshold is not None:
        number("threshold", threshold, -np.inf, np.inf)
    light = [1 - w if threshold is None else w < threshold for w in explanations.edge_weights]
    return np.array([values.mean(dtype=np.float64) if len(values) else np.nan for values in light])


def removal_curve(
    classifier: Classifier,
    explanations: Explanations,
    shares: Sequence[float] = (0.0, *SHARES),
    *,
    y: np.ndarray | None = None,
    n_random: int = 5,
    random_state: Any = 0,
) -> RemovalCurve:
    """What is left of the decision when the heaviest share of edges goes, and when edges go by chance.

    y : (g,) labels to be right about; by default the classes predicted on the whole graphs. An explanation
    that matters falls faster than chance, the mean over ``n_random`` orders.
    """
    _checks.whole("n_random", n_random, 1)
    shares_ = np.array([_checked_share(share) for share in shares])
    rng = as_random_state(random_state)
    counts = explanations.graphs.n_edges
    target = _targets(classifier, explanations, y)
    orders = [edge_ranks(explanations)]
    orders += [_ranks(counts, rng.random_sample(counts.sum())) for _ in range(n_random)]
    curves = np.array([_removed(classifier, explanations, ranks, shares_, target) for ranks in orders])
    (accuracy, probability), chance = curves[0], curves[1:].mean(0)
    return RemovalCurve(shares_, accuracy, probability, *chance)


def _removed(
    classifier: Classifier,
    explanations: Explanations,
    ranks: np.ndarray,
    shares: np.ndarray,
    target: np.ndarray,
) -> np.ndarray:
    """(2, s): accuracy and probability of the target class, the first edges by ``ranks`` removed."""
    out = np.empty((2, len(shares)))
    for k, after in enumerate(probabilities_without(classifier, explanations, ranks, shares)):
        out[:, k] = (after.argmax(1) == target).mean(), after[np.arange(len(target)), target].mean()
    return out


def probabilities_without(
    classifier: Classifier,
    explanations: Explanations,
    ranks: np.ndarray,
    shares: Sequence[float] | np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Yield, share by share, (g, classes) probabilities once the first edges by ``ranks`` are gone.

    ranks : see `edge_ranks`; whole : the probabilities of the whole graphs, where they are known already.
    """
    for share in shares:
        gone = _first(explanations, ranks, _checked_share(share))
        if whole is not None and not any(mask.any() for mask in gone):
            yield whole
        else:
            left = explanations.graphs.with_edges([~mask for mask in gone])
            yield np.asarray(_ask(classifier, left))


def _targets(classifier: Classifier, explanations: Explanations, y: np.ndarray | None) -> np.ndarray:
    """(g,) class numbers to hold on to: those of ``y``, else the predicted ones."""
    if y is None:
        return _classes(classifier, _some(explanations))
    if len(y) != len(explanations):
        raise ValueError(f"y must have one label per graph ({len(explanations)}), got {len(y)}.")
    classes = np.asarray(classifier.classes_)  # type: ignore[attr-defined]
    unknown = sorted(set(np.asarray(y).tolist()) - set(classes.tolist()))
    if unknown:
        raise ValueError(f"y has labels that the classifier does not know: {unknown}.")
    return np.searchsorted(classes, y)


def _classes(classifier: Classifier, graphs: GraphSet) -> np.ndarray:
    return _ask(classifier, graphs).argmax(1)


def _ask(classifier: Classifier, graphs: GraphSet) -> np.ndarray:
    """(g, classes) probabilities; explained graphs are those the last step of a pipeline sees."""
    kind = type(classifier)
    if hasattr(kind, "to_graphs") or (isinstance(classifier, Pipeline) and len(classifier) > 1):
        last = "model.classifier_" if hasattr(kind, "to_graphs") else "pipe[-1]"
        raise TypeError(f"a {kind.__name__} is scored by its classifier, which sees the graphs: pass {last}.")
    return classifier.predict_proba(graphs)


def _some(explanations: Explanations) -> GraphSet:
    if not len(explanations):
        raise ValueError("there are no explanations to score, got none.")
    return explanations.graphs
