"""Contributions pooled over edges that go together."""

from __future__ import annotations

import numpy as np
import pytest

from cignn import Explanations, GraphSet
from cignn._arrays import subject_halves
from cignn.explanations.pooling import find_pool

N = 16
PAIRS = N * (N - 1) // 2
SETS = (slice(0, 12), slice(12, 24))


def drawn(n: int, seed: int, size: float = 1.2, sets: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contributions (n, pairs), labels, and which set of edges each graph of class 1 carries."""
    rng = np.random.default_rng(seed)
    y, carried = np.arange(n) % 2, rng.integers(0, 2, n)
    c = rng.normal(size=(n, PAIRS))
    for k, edges in enumerate(SETS[:sets]):
        c[:, edges] += size * ((y == 1) & (carried == k))[:, None]
    return c, y, carried


def explained(
    c: np.ndarray, y: np.ndarray | None, explain: np.ndarray | None = None, keep: np.ndarray | None = None
) -> Explanations:
    """Explanations of complete graphs, or of those that have the edges of keep (g, pairs)."""
    keep = np.ones(c.shape, bool) if keep is None else keep
    adj = np.zeros((len(c), N, N), np.float32)
    adj[:, *np.triu_indices(N, 1)] = keep
    graphs = GraphSet.from_arrays(adj + adj.swapaxes(1, 2), y=y, aligned=True)
    label = np.ones(len(c), int) if explain is None else explain
    signs = np.where(label == 1, 1, -1)
    contributions = [sign * row[has] for sign, row, has in zip(signs, c, keep, strict=True)]
    weights = [np.ones(len(row)) for row in contributions]
    told = {"edge_contributions": contributions, "base": 0.5 * signs, "explained": label}
    return Explanations(graphs, weights, **told, classes=np.array([0, 1]))


def told_apart(ex: Explanations, carried: np.ndarray, y: np.ndarray) -> float:
    """How often an edge of a graph's own set contributes more than one of the other set."""
    shares = []
    for i in np.flatnonzero(y):
        values = ex.edge_contributions[i]
        own, other = (values[SETS[k]] for k in (carried[i], 1 - carried[i]))
        shares.append((own[:, None] > other).mean())
    return float(np.mean(shares))


@pytest.mark.parametrize("seed", range(3))
def test_what_goes_together_tells_whose_set_it_is(seed: int) -> None:
    training, y, _ = drawn(200, seed)
    c, own, carried = drawn(80, seed + 10)
    plain = explained(c, own)
    pooled = plain.pooled(explained(training, y))
    assert told_apart(pooled, carried, own) > told_apart(plain, carried, own) + 0.08
    np.testing.assert_allclose(pooled.log_odds, plain.log_odds, atol=1e-4)
    others = np.stack(pooled.edge_contributions)[own == 0][:, :24]
    assert others.mean() < 0.1, "nothing is made up where nothing is carried"


def test_nothing_is_pooled_where_nothing_goes_together() -> None:
    for seed in range(5):
        training, y, _ = drawn(120, seed, size=0.0)
        c, own, _ = drawn(20, seed + 10, size=0.0)
        pooled = explained(c, own).pooled(explained(training, y))
        np.testing.assert_array_equal(np.stack(pooled.edge_contributions), c.astype(np.float32))


def test_only_edges_that_go_together_are_replaced() -> None:
    training, y, _ = drawn(200, 0)
    pool = find_pool(training, y == 1, subject_halves(np.arange(200), y))
    found = set(pool.edges[pool.pooled].tolist())
    assert set(range(24)) <= found and len(found) < 40


def test_edges_outside_the_pool_count_by_what_is_no_noise_in_them() -> None:
    training, y, _ = drawn(400, 0)
    c, own, _ = drawn(80, 1)
    pooled = np.stack(explained(c, own).pooled(explained(training, y)).edge_contributions)
    outside = slice(40, None)
    assert np.abs(pooled[:, outside]).mean() < 0.5 * np.abs(c[:, outside]).mean()


def test_the_class_explained_does_not_matter() -> None:
    training, y, _ = drawn(200, 0)
    c, own, _ = drawn(20, 1)
    towards = explained(c, own).pooled(explained(training, y))
    turned = explained(c, own, explain=own).pooled(explained(training, y, explain=y))
    np.testing.assert_allclose(
        np.stack(turned.towards(1).edge_contributions), np.stack(towards.edge_contributions), atol=1e-5
    )


def test_edges_that_a_graph_lacks_have_no_contribution() -> None:
    training, y, _ = drawn(200, 0)
    c, own, _ = drawn(40, 1)
    keep = np.random.default_rng(0).random(c.shape) < 0.9
    plain = explained(c, own, keep=keep)
    pooled = plain.pooled(explained(training, y))
    assert [len(row) for row in pooled.edge_contributions] == keep.sum(1).tolist()
    np.testing.assert_allclose(pooled.log_odds, plain.log_odds, atol=1e-4)


def test_few_training_graphs_leave_contributions_as_they_are() -> None:
    training, y, _ = drawn(30, 0)
    c, own, _ = drawn(10, 1)
    pooled = explained(c, own).pooled(explained(training, y))
    np.testing.assert_array_equal(np.stack(pooled.edge_contributions), c.astype(np.float32))


def test_what_cannot_be_pooled_is_refused() -> None:
    c, y, _ = drawn(40, 0)
    with pytest.raises(ValueError, match="needs the labels of the training graphs"):
        explained(c, y).pooled(explained(c, None))
    three = explained(c, y, explain=y)._with(classes=np.arange(3))
    with pytest.raises(ValueError, match=r"explain both sets with explain\(graphs, target="):
        three.pooled(three)
    bare = Explanations(three.graphs, three.edge_weights)
    with pytest.raises(ValueError, match="contributions"):
        bare.pooled(explained(c, y))
