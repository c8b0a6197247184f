"""What must hold for graph sets and their batches."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score, train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples
from torch import Tensor
from torch_geometric.data import Batch, Data

from cignn.graphs import Graph, GraphBatch, GraphSet, building
from examples import random_matrix

PAIR = torch.tensor([[0, 1], [1, 0]])


def random_truth(rng: np.random.Generator, matrix: np.ndarray) -> np.ndarray:
    upper = np.triu((matrix != 0) & (rng.random(matrix.shape) < 0.5), 1)
    return upper | upper.T


def make_set(sizes: list[int], seed: int = 0) -> GraphSet:
    """A ragged set with signed weights, two features, labels, groups, truth and a column of its own."""
    rng = np.random.default_rng(seed)
    matrices = [random_matrix(rng, n) for n in sizes]
    return GraphSet.from_arrays(
        matrices,
        [rng.normal(size=(n, 2)) for n in sizes],
        np.arange(len(sizes)) % 2,
        groups=[f"site {i % 3}" for i in range(len(sizes))],
        edge_truth=[random_truth(rng, matrix) for matrix in matrices],
        meta={"number": np.arange(len(sizes))},
    )


def make_aligned(n_graphs: int = 6, n_nodes: int = 5, seed: int = 0, **more: object) -> GraphSet:
    rng = np.random.default_rng(seed)
    matrices = np.stack([random_matrix(rng, n_nodes, 0.8) for _ in range(n_graphs)])
    return GraphSet.from_arrays(matrices, y=np.arange(n_graphs) % 2, aligned=True, **more)  # type: ignore[arg-type]


def assert_same_graph(one: Graph, other: Graph) -> None:
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.x, other.x)
    assert one.y == other.y
    assert (one.edge_truth is None) == (other.edge_truth is None)
    if one.edge_truth is not None:
        np.testing.assert_array_equal(one.edge_truth, other.edge_truth)


@pytest.fixture(params=["ragged", "stacked"])
def graphs(request: pytest.FixtureRequest) -> GraphSet:
    if request.param == "ragged":
        return make_set([3, 7, 1, 5, 2, 9, 4, 4])
    names = ["a", "b", "c", "d", "e"]
    return make_aligned(8, groups=list("xxyyzzww"), node_names=names, meta={"number": np.arange(8)})


# -------------------------------------------------------------------- indexing


KEYS = {
    "list": [4, 0, 6],
    "repeats": [2, 2, 5],
    "negative": [-1, -8],
    "slice": slice(1, 7, 2),
    "backwards": slice(None, None, -1),
    "mask": np.arange(8) % 3 == 0,
    "list of bools": [True, False] * 4,
    "array": np.array([7, 3]),
    "ellipsis": (np.array([5, 1]), Ellipsis),
    "empty": [],
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_indexing_picks_what_numpy_picks(graphs: GraphSet, key: object) -> None:
    expected = np.arange(8)[key]  # type: ignore[index]
    some = graphs[key]
    assert isinstance(some, GraphSet)
    assert len(some) == len(expected) and some.shape == expected.shape
    np.testing.assert_array_equal(some.y, graphs.y[expected])
    np.testing.assert_array_equal(some.groups, graphs.groups[expected])
    np.testing.assert_array_equal(some.meta["number"], expected)
    np.testing.assert_array_equal(some.n_nodes, graphs.n_nodes[expected])
    np.testing.assert_array_equal(some.n_edges, graphs.n_edges[expected])
    assert some.node_names == graphs.node_names and some.aligned == graphs.aligned
    for graph, i in zip(some, expected, strict=True):
        assert_same_graph(graph, graphs[int(i)])


@pytest.mark.parametrize("i", [0, 5, np.int64(3), -1, -8])
def test_a_number_gives_one_dense_graph(graphs: GraphSet, i: int) -> None:
    graph = graphs[i]
    assert isinstance(graph, Graph)
    n = graphs.n_nodes[i]
    assert graph.weights.shape == (n, n) and graph.x.shape == (n, graphs.n_features)
    assert graph.weights.dtype == graph.x.dtype == np.float32
    assert graph.y == graphs.y[i]
    np.testing.assert_array_equal(graph.weights, graph.weights.T)
    assert not graph.weights.diagonal().any()


@pytest.mark.parametrize("key", [8, -9, [0, 8], np.array([[0, 1]]), np.ones(3, bool)])
def test_an_index_that_is_not_there_is_an_error(graphs: GraphSet, key: object) -> None:
    with pytest.raises(IndexError):
        graphs[key]


def test_edges_and_weights_agree(graphs: GraphSet) -> None:
    for i, graph in enumerate(graphs):
        source, target = graphs.edges(i).T
        assert (source < target).all() and len(source) == graphs.n_edges[i]
        rebuilt = np.zeros_like(graph.weights)
        rebuilt[source, target] = rebuilt[target, source] = graph.weights[source, target]
        np.testing.assert_array_equal(rebuilt, graph.weights)


def test_edges_are_counted_from_the_end_too(graphs: GraphSet) -> None:
    np.testing.assert_array_equal(graphs.edges(-3), graphs.edges(5))
    assert len(graphs.edges(-3))
    with pytest.raises(IndexError):
        graphs.edges(8)


def test_repr_tells_the_size() -> None:
    assert repr(make_set([3, 5])).startswith("GraphSet(2 graphs, 3–5 nodes")
    assert repr(make_aligned()).startswith("GraphSet(6 aligned graphs, 5 nodes")
    assert repr(make_set([3])[[]]) == "GraphSet(no graphs)"


# ---------------------------------------------------------------- scikit-learn


class EdgeThreshold(ClassifierMixin, BaseEstimator):
    """A toy classifier that reads graph sets: more edges than the mean of the training graphs, or not."""

    def fit(self, X: GraphSet, y: np.ndarray) -> EdgeThreshold:
        assert isinstance(X, GraphSet)
        np.testing.assert_array_equal(X.y, y)
        self.classes_, self.mean_ = np.unique(y), X.n_edges.mean()
        return self

    def predict(self, X: GraphSet) -> np.ndarray:
        return (X.n_edges > self.mean_).astype(int)


@pytest.mark.parametrize("key", [[1, 3], np.array([6, 0]), np.arange(8) > 4, slice(2, 5)])
def test_safe_indexing(graphs: GraphSet, key: object) -> None:
    assert _safe_indexing(graphs, key).digest() == graphs[key].digest()
    assert _num_samples(graphs) == 8


def test_splitters_and_cross_validation() -> None:
    rng = np.random.default_rng(0)
    matrices = [random_matrix(rng, 8, 0.2 + 0.7 * (i % 2)) for i in range(30)]
    graphs = GraphSet.from_arrays(matrices, y=np.arange(30) % 2)
    seen = np.concatenate([graphs[test].n_edges for _, test in KFold(5).split(graphs)])
    np.testing.assert_array_equal(seen, graphs.n_edges)
    for train, test in StratifiedKFold(3).split(graphs, graphs.y):
        assert len(graphs[train]) + len(graphs[test]) == 30
    train_set, test_set = train_test_split(graphs, test_size=10, stratify=graphs.y, random_state=0)
    assert len(train_set) == 20 and len(test_set) == 10 and test_set.y.sum() == 5
    assert cross_val_score(EdgeThreshold(), graphs, graphs.y, cv=5).mean() > 0.9


# -------------------------------------------------------------------- batching


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**16))
def test_ragged_and_stacked_give_the_same_batches(n_graphs: int, n_nodes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    adj = np.stack([random_matrix(rng, n_nodes) for _ in range(n_graphs)])
    truth = np.stack([random_truth(rng, matrix) for matrix in adj])
    x = rng.normal(size=(n_graphs, n_nodes, 3))
    stacked, ragged = (
        GraphSet.from_arrays(adj, x, edge_truth=truth, aligned=aligned) for aligned in (True, False)
    )
    assert stacked.aligned and not ragged.aligned
    index = rng.integers(n_graphs, size=4)
    one, other = stacked.batch(index), ragged.batch(index)
    for a, b in [(one.x, other.x), (one.adj, other.adj), (one.mask, other.mask)]:
        assert torch.equal(a, b)
    assert not one.padded and not other.padded and one.padding is None
    np.testing.assert_array_equal(one.adj.numpy(), adj[index])
    np.testing.assert_array_equal(stacked.edge_truth, ragged.edge_truth)
    np.testing.assert_array_equal(stacked.n_edges, ragged.n_edges)
    for i in range(n_graphs):
        np.testing.assert_array_equal(stacked.edges(i), ragged.edges(i))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**16))
def test_a_batch_is_its_graphs_padded_with_nothing(sizes: list[int], seed: int) -> None:
    graphs = make_set(sizes, seed)
    batch = graphs.batch(y=graphs.y)
    assert len(batch) == len(sizes) and batch.x.shape[1] == max(sizes)
    assert batch.adj.dtype == batch.x.dtype == torch.float32 and batch.mask.dtype == torch.bool
    assert batch.n_nodes.tolist() == sizes
    assert batch.y is not None and batch.y.tolist() == graphs.y.tolist() and batch.y.dtype == torch.int64
    assert batch.padded == (len(set(sizes)) > 1) and (batch.padding is not None) == batch.padded
    for i, graph in enumerate(graphs):
        n = sizes[i]
        np.testing.assert_array_equal(batch.adj[i, :n, :n].numpy(), graph.weights)
        np.testing.assert_array_equal(batch.x[i, :n].numpy(), graph.x)
        assert batch.mask[i].tolist() == [True] * n + [False] * (max(sizes) - n)
    assert batch.adj.count_nonzero() == 2 * graphs.n_edges.sum() == batch.edge_mask.sum()
    assert not batch.x[~batch.mask].any()


def test_batches_are_as_wide_as_their_own_largest_graph() -> None:
    graphs = make_set([3, 9, 2])
    assert graphs.batch([0, 2]).adj.shape == (2, 3, 3)
    assert graphs.batch([-1]).adj.shape == (1, 2, 2)


def test_a_batch_is_asked_for_like_a_set(graphs: GraphSet) -> None:
    for key in KEYS.values():
        if not isinstance(key, tuple):
            assert torch.equal(graphs.batch(key).adj, graphs[key].batch().adj)
    assert graphs.batch([]).adj.shape[0] == 0 and graphs[[]].batch_indices(4) == []
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        graphs.batch_indices(0)


def test_no_gradient_goes_through_the_presence_of_edges() -> None:
    batch = make_set([3, 4]).batch()
    adj = batch.adj.clone().requires_grad_()
    asked = GraphBatch(batch.x, adj, batch.mask)
    assert not asked.edges.requires_grad and torch.equal(asked.edges, batch.edges)
    (adj * asked.edges).sum().backward()
    assert torch.equal(adj.grad, batch.edges)


def test_features_that_are_the_weights_are_batched_once() -> None:
    adj = np.ones((3, 4, 4), np.float32)
    batch = GraphSet.from_arrays(adj, aligned=True).batch([0, 2])
    assert batch.x is batch.adj
    moved = batch.to("cpu")
    assert moved.x is moved.adj


def test_batches_without_labels_and_moved() -> None:
    batch = make_set([3, 4]).batch()
    assert batch.y is None and batch.to("cpu").y is None
    moved = make_set([3, 4]).batch(y=np.array([1, 0])).to("cpu")
    assert moved.y is not None and moved.y.tolist() == [1, 0]
    assert torch.equal(moved.adj, batch.adj) and moved.padded == batch.padded


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 32, 1000])
def test_batch_indices_cover_every_graph_once(batch_size: int, shuffle: bool) -> None:
    sizes = np.random.default_rng(0).integers(2, 30, 101)
    for graphs in (make_set(list(sizes)), make_aligned(101)):
        batches = graphs.batch_indices(batch_size, shuffle)
        np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(101))
        lengths = [len(batch) for batch in batches]
        assert max(lengths) <= batch_size and max(lengths) - min(lengths) <= 1


def test_shuffling_follows_torch_and_nothing_else() -> None:
    graphs = make_set(list(np.random.default_rng(0).integers(2, 30, 50)))

    def order(seed: int) -> list[int]:
        torch.manual_seed(seed)
        return np.concatenate(graphs.batch_indices(8, shuffle=True)).tolist()

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert order(0) == order(0) and order(0) != order(1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    plain = [batch.tolist() for batch in graphs.batch_indices(8)]
    assert plain == [batch.tolist() for batch in graphs.batch_indices(8)]


@pytest.mark.parametrize(("shuffle", "largest"), [(False, 60), (True, 3000)])
def test_similar_sizes_travel_together(shuffle: bool, largest: int) -> None:
    """In training only very different sizes are kept apart: size may go along with the class."""
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(3), np.log(largest), 400)).astype(int)
    graphs = GraphSet.from_edges(np.empty((0, 2)), np.repeat(np.arange(400), sizes))

    def padding(batches: list[np.ndarray]) -> int:
        return sum(int((sizes[batch].max() - sizes[batch]).sum()) for batch in batches)

    torch.manual_seed(0)
    at_random = padding(np.array_split(rng.permutation(400), 20))
    assert padding(graphs.batch_indices(20, shuffle)) < 0.5 * at_random


# -------------------------------------------------------------------- contents


def test_weights_of_both_signs_stay() -> None:
    weights = np.array([[0, -0.5, 0], [-0.5, 0, 2], [0, 2, 0]], np.float32)
    for aligned in (False, True):
        graphs = GraphSet.from_arrays([weights], aligned=aligned)
        np.testing.assert_array_equal(graphs[0].weights, weights)
        assert graphs.n_edges.tolist() == [2]
    graphs = GraphSet.from_edges(
        np.array([(0, 1), (2, 1)]), np.zeros(3, int), edge_weight=np.array([-0.5, 2])
    )
    np.testing.assert_array_equal(graphs[0].weights, weights)


def test_self_loops_and_zero_weights_are_no_edges() -> None:
    weights = np.array([[5, 1.0], [1.0, -3]])
    for aligned in (False, True):
        assert GraphSet.from_arrays([weights], aligned=aligned)[0].weights.tolist() == [[0, 1], [1, 0]]
    graphs = GraphSet.from_edges(
        np.array([(0, 0), (0, 1), (1, 2)]), np.zeros(3, int), edge_weight=np.array([1, 1, 0])
    )
    assert graphs.edges(0).tolist() == [[0, 1]]


def test_a_set_does_not_change_with_the_arrays_it_was_made_of() -> None:
    adj = np.stack([random_matrix(np.random.default_rng(0), 4)])
    graphs = GraphSet.from_arrays(adj, aligned=True)
    digest = graphs.digest()
    adj[:] = 7
    assert graphs.digest() == digest


def test_nearly_symmetric_weights_become_symmetric() -> None:
    matrix = random_matrix(np.random.default_rng(0), 6, 1.0)
    matrix[np.triu_indices(6, 1)] += 1e-6
    matrix[4, 0] = matrix[0, 4] = 0
    matrix[4, 0] = 1e-6  # an edge in one triangle only
    for aligned in (False, True):
        graphs = GraphSet.from_arrays([matrix], aligned=aligned)
        np.testing.assert_array_equal(graphs[0].weights, graphs[0].weights.T)
        assert graphs.n_edges[0] == len(graphs.edges(0)) == 15


def test_edge_lists_in_one_or_both_directions_are_the_same_graph() -> None:
    once = np.array([(0, 1), (2, 1), (3, 4)])
    graph_of_node = np.array([0, 0, 0, 1, 1, 1])
    both = np.concatenate([once, once[:, ::-1], once])
    one, two = (GraphSet.from_edges(edges, graph_of_node) for edges in (once, both))
    assert one.digest() == two.digest()
    assert one.n_nodes.tolist() == [3, 3] and one.n_edges.tolist() == [2, 1]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**16))
def test_the_order_of_the_edge_list_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graphs = make_set([5, 3, 6], seed)
    edges = np.concatenate([graphs.edges(i) + offset for i, offset in enumerate([0, 5, 8])])
    weight = np.concatenate([graph.weights[tuple(graphs.edges(i).T)] for i, graph in enumerate(graphs)])
    truth = np.concatenate([graph.edge_truth[tuple(graphs.edges(i).T)] for i, graph in enumerate(graphs)])
    order = rng.permutation(len(edges))
    turned = np.where(rng.random((len(edges), 1)) < 0.5, edges, edges[:, ::-1])
    other = GraphSet.from_edges(
        turned[order],
        np.repeat([0, 1, 2], [5, 3, 6]),
        np.concatenate([graph.x for graph in graphs]),
        graphs.y,
        edge_weight=weight[order],
        edge_truth=truth[order],
    )
    assert other.digest() == graphs.digest()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**16))
def test_relabelling_nodes_permutes_everything(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, x, order = random_matrix(rng, n), rng.normal(size=(n, 2)), rng.permutation(n)
    truth = random_truth(rng, matrix)
    plain = GraphSet.from_arrays([matrix], [x], edge_truth=[truth])[0]
    turned = GraphSet.from_arrays([matrix[order][:, order]], [x[order]], edge_truth=[truth[order][:, order]])[
        0
    ]
    np.testing.assert_array_equal(turned.weights, plain.weights[order][:, order])
    np.testing.assert_array_equal(turned.x, plain.x[order])
    np.testing.assert_array_equal(turned.edge_truth, plain.edge_truth[order][:, order])


def test_edge_truth_is_stacked_only_where_sizes_agree() -> None:
    assert isinstance(make_set([4, 4]).edge_truth, np.ndarray)
    truth = make_set([3, 5]).edge_truth
    assert isinstance(truth, list) and [t.shape for t in truth] == [(3, 3), (5, 5)]
    assert make_aligned().edge_truth is None and make_aligned()[0].edge_truth is None


def test_edge_truth_marked_in_one_direction_of_a_list_counts() -> None:
    both = np.array([(0, 1), (1, 0), (1, 2), (2, 1)])
    for truth in ([1, 0, 0, 0], [0, 1, 0, 0]):
        graphs = GraphSet.from_edges(both, np.zeros(3, int), edge_truth=np.array(truth))
        assert np.argwhere(graphs[0].edge_truth).tolist() == [[0, 1], [1, 0]]


def test_one_feature_per_node_needs_no_second_dimension() -> None:
    adj = np.stack([random_matrix(np.random.default_rng(0), 4)] * 2)
    x = np.arange(8.0).reshape(2, 4)
    for aligned in (False, True):
        graphs = GraphSet.from_arrays(adj, x, aligned=aligned)
        assert graphs.n_features == 1 and graphs[1].x.tolist() == [[4], [5], [6], [7]]


def test_edge_truth_marked_in_one_triangle_counts() -> None:
    weights = np.ones((3, 3)) - np.eye(3)
    for truth in (np.tril(weights), np.triu(weights)):
        for aligned in (False, True):
            graphs = GraphSet.from_arrays([weights], edge_truth=[truth], aligned=aligned)
            np.testing.assert_array_equal(graphs[0].edge_truth, weights.astype(bool))


def test_one_truth_for_all_aligned_graphs_is_kept_once() -> None:
    shared = np.zeros((5, 5), bool)
    shared[3, 1] = True  # marked in one direction only
    graphs = make_aligned(6, 5, edge_truth=shared)
    plain = make_aligned(6, 5)
    written_out = make_aligned(6, 5, edge_truth=np.stack([shared | shared.T] * 6))
    for some in (graphs, graphs[::2], graphs[[1, 1, 4]][1:], pickle.loads(pickle.dumps(graphs)), graphs[[]]):
        assert some.nbytes == len(some) * 5 * 5 * 4 + 25
        assert some.edge_truth.shape == (len(some), 5, 5)
        assert all((truth == (shared | shared.T)).all() for truth in some.edge_truth)
    assert graphs[2].edge_truth.sum() == 2 and graphs[2].edge_truth.flags.writeable
    assert graphs.digest() == written_out.digest() != plain.digest()
    assert graphs[1:4].digest() == written_out[1:4].digest()
    with pytest.raises(ValueError, match="one edge_truth for all graphs needs aligned graphs"):
        GraphSet.from_arrays([EYE, EYE], edge_truth=shared)
    with pytest.raises(ValueError, match="edge_truth of graph 0 must have 3 rows, got 5"):
        GraphSet.from_arrays([EYE, EYE], edge_truth=shared, aligned=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, bool])
def test_stacked_matrices_are_taken_in_chunks(monkeypatch: pytest.MonkeyPatch, dtype: type) -> None:
    adj = np.stack([random_matrix(np.random.default_rng(i), 6) for i in range(11)])
    adj = (10 * adj).astype(dtype)
    whole = GraphSet.from_arrays(adj, aligned=True)
    monkeypatch.setattr(building, "CHUNK", 4 * 36)
    for matrices in (adj, list(adj), np.asfortranarray(adj), np.repeat(adj, 2, axis=0)[::2], iter(adj)):
        assert GraphSet.from_arrays(matrices, aligned=True).digest() == whole.digest()
    sparse = [csr_array(matrix) for matrix in adj]
    assert GraphSet.from_arrays(sparse, aligned=True).digest() == whole.digest()
    assert GraphSet.from_arrays(torch.from_numpy(adj), aligned=True).digest() == whole.digest()


def test_the_culprit_is_named_in_whatever_chunk_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "CHUNK", 2 * 9)
    for culprit, words in ((ONE_WAY, "is not symmetric"), (NAN, "has NaN"), (EYE + 1e300, "infinite")):
        for aligned in (True, False):
            adj = [EYE] * 4 + [culprit, EYE]
            with pytest.raises(ValueError, match=f"graph 4 .*{words}"):
                GraphSet.from_arrays(np.stack(adj), aligned=aligned)


def test_taking_stacked_matrices_needs_little_more_than_their_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    adj = np.ones((400, 60, 60), np.float32)
    adj[:, 0, 1] = adj[:, 1, 0] = 2
    monkeypatch.setattr(building, "CHUNK", 10 * 60**2)
    tracemalloc.start()
    graphs = GraphSet.from_arrays(adj, y=np.zeros(400), aligned=True, edge_truth=adj[0] > 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graphs.nbytes == adj.nbytes + 3600
    assert peak < 1.3 * adj.nbytes


def test_aligned_rows_as_features_are_kept_once() -> None:
    graphs = make_aligned(6, 5)
    assert graphs.n_features == 5
    np.testing.assert_array_equal(graphs[2].x, graphs[2].weights)
    assert graphs.nbytes == 6 * 5 * 5 * 4
    assert graphs[[0, 3, 5]].nbytes == 3 * 5 * 5 * 4
    assert graphs[::2][1:].nbytes == 2 * 5 * 5 * 4
    assert pickle.loads(pickle.dumps(graphs)).nbytes == copy.deepcopy(graphs).nbytes == graphs.nbytes
    rows = np.stack([graph.weights for graph in graphs])
    assert GraphSet.from_arrays(rows, rows + 1, aligned=True).nbytes == 2 * graphs.nbytes


def test_plain_graphs_are_stored_in_a_few_bytes() -> None:
    edges, n_nodes = np.array([(0, 1), (1, 2)] * 1), 3
    graphs = GraphSet.from_edges(edges, np.zeros(n_nodes, int))
    assert graphs.nbytes == edges.size * 4 + n_nodes * 1 + 2 * 2 * 8  # pairs, features, two pointers
    assert graphs.batch().x.dtype == torch.float32 and graphs[0].x.tolist() == [[1], [1], [1]]
    assert graphs[0].weights.max() == 1


@pytest.mark.parametrize("largest", [255, 256])
def test_whole_number_features_keep_their_value(largest: int) -> None:
    x = np.array([[0], [7], [largest]])
    np.testing.assert_array_equal(GraphSet.from_edges(np.array([(0, 1)]), np.zeros(3, int), x)[0].x, x)


def test_feature_range_spans_every_feature(graphs: GraphSet) -> None:
    x = np.concatenate([graph.x for graph in graphs])
    np.testing.assert_array_equal(graphs.feature_range(), [x.min(0), x.max(0)])


def test_labels_of_any_kind() -> None:
    for y in (["patient", "control"], [1.5, 2.5], [True, False], np.array(["a", 1], object)):
        graphs = make_set([3, 4]).with_y(y)
        assert graphs[1].y == y[1] and graphs[[1]].y.tolist() == [y[1]]
    assert make_set([3, 4]).with_y(None).y is None
    assert make_set([3, 4]).with_y(None)[0].y is None


# ---------------------------------------------------------------------- digest


@pytest.mark.parametrize("aligned", [True, False])
def test_a_fingerprint_is_that_of_one_graph_alone(aligned: bool) -> None:
    rng = np.random.default_rng(0)
    adj = np.stack([random_matrix(rng, 6) for _ in range(5)])
    adj[3] = adj[1]
    x = rng.normal(size=(5, 6, 2)).astype(np.float32)
    x[3] = x[1]
    graphs = GraphSet.from_arrays(adj, x, np.arange(5), aligned=aligned)
    words = graphs.fingerprints()
    assert words[1] == words[3] and len(set(words)) == 4, "the label does not count, all else does"
    np.testing.assert_array_equal(graphs[[4, 1]].fingerprints(), words[[4, 1]])
    weights, features = adj.copy(), x.copy()
    weights[0] *= 2
    features[2, 5, 1] += 1
    other = GraphSet.from_arrays(weights, features, aligned=aligned).fingerprints()
    assert (other == words).tolist() == [False, True, False, True, True]
    assert len(graphs[[]].fingerprints()) == 0


def test_a_fingerprint_does_not_depend_on_how_a_graph_is_kept() -> None:
    rng = np.random.default_rng(0)
    adj = np.stack([random_matrix(rng, 6) for _ in range(3)])
    own = GraphSet.from_arrays(adj, aligned=True)  # features are the weights, kept once
    apart = GraphSet.from_arrays(adj, np.stack([own[i].x for i in range(3)]), aligned=True)
    np.testing.assert_array_equal(own.fingerprints(), apart.fingerprints())
    plain = GraphSet.from_arrays((adj != 0).astype(float))
    one_weighted = GraphSet.from_arrays([*(adj != 0).astype(float), adj[0]])  # now weights are written out
    np.testing.assert_array_equal(plain.fingerprints(), one_weighted.fingerprints()[:3])


def test_digest_knows_weights_features_truth_and_labels() -> None:
    rng = np.random.default_rng(0)
    adj = np.stack([random_matrix(rng, 5, 0.9) for _ in range(3)])
    truth = np.stack([random_truth(rng, matrix) for matrix in adj])
    x, y = rng.normal(size=(3, 5, 2)), np.array([0, 1, 1])
    for aligned in (False, True):

        def digest(adj=adj, x=x, y=y, truth=truth, aligned=aligned) -> str:
            return GraphSet.from_arrays(adj, x, y, edge_truth=truth, aligned=aligned).digest()

        other_adj, other_x, other_truth = adj.copy(), x.copy(), truth.copy()
        pair = tuple(np.argwhere(np.triu(adj[1], 1))[0])
        other_adj[1][pair] = other_adj[1][pair[::-1]] = 9.0
        other_x[2, 0, 0] += 1
        other_truth[1][pair] = other_truth[1][pair[::-1]] = not truth[1][pair]
        changed = [digest(adj=other_adj), digest(x=other_x), digest(truth=other_truth), digest(y=y[::-1])]
        assert len({digest(), *changed}) == 5
        assert digest() == digest(adj=adj.copy(), x=x.copy(), y=y.copy(), truth=truth.copy())


def test_digest_survives_indexing_and_pickling(graphs: GraphSet) -> None:
    assert graphs[:].digest() == graphs[np.arange(8)].digest() == graphs.digest()
    assert graphs[::-1][::-1].digest() == graphs.digest() != graphs[::-1].digest()
    assert pickle.loads(pickle.dumps(graphs)).digest() == graphs.digest()
    assert graphs.with_y([str(label) for label in graphs.y]).digest() != graphs.digest()
    objects = np.array(["a"] * 8, object)
    assert graphs.with_y(objects).digest() == graphs.with_y(objects.copy()).digest()


def test_digest_does_not_depend_on_how_the_same_data_are_kept() -> None:
    rows = make_aligned(4)
    weights = np.stack([graph.weights for graph in rows])
    assert GraphSet.from_arrays(weights, weights, rows.y, aligned=True).digest() == rows.digest()
    named = GraphSet.from_arrays(weights, y=rows.y, node_names=list("abcde"), groups=[1, 1, 2, 2])
    assert named.digest() == rows.digest()
    one, two = np.array([[0, 1.0], [1, 0]]), np.array([[0, 0.5], [0.5, 0]])
    x = [np.array([[1.0], [2.0]]), np.array([[0.5], [2.0]])]
    both = GraphSet.from_arrays([one, two], x, ["a", "long name"])
    # the first graph alone needs no weights, fits into bytes and has a shorter label
    assert both[:1].digest() == GraphSet.from_arrays([one], x[:1], ["a"]).digest()
    objects = GraphSet.from_arrays([one], x[:1], np.array(["a"], object))
    assert objects.digest() == both[:1].digest()
    short = rows.with_y(rows.y.astype(np.int8))
    assert short.digest() == rows.digest() != rows.with_y(rows.y == 1).digest()


# ------------------------------------------------------------ PyTorch Geometric


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 2**16))
def test_pyg_round_trip(sizes: list[int], seed: int) -> None:
    graphs = make_set(sizes, seed)
    data = graphs.to_pyg()
    for item, graph in zip(data, graphs, strict=True):
        assert item.is_undirected() and item.num_nodes == len(graph.x)
        dense = np.zeros_like(graph.weights)
        dense[tuple(item.edge_index.numpy())] = item.edge_weight.numpy()
        np.testing.assert_array_equal(dense, graph.weights)
    assert GraphSet.from_pyg(data).digest() == graphs.digest()


def test_pyg_keeps_signs_truth_and_isolated_nodes() -> None:
    data = Data(
        x=torch.arange(4.0)[:, None],
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_weight=torch.tensor([-1.0, -1.0, 0.5, 0.5]),
        edge_truth=torch.tensor([True, True, False, False]),
        y=torch.tensor([3]),
    )
    graphs = GraphSet.from_pyg([data, data])
    assert graphs.n_nodes.tolist() == [4, 4] and graphs.y.tolist() == [3, 3]
    graph = graphs[1]
    assert graph.weights[0, 1] == -1 and graph.weights[2, 1] == 0.5 and not graph.weights[3].any()
    assert graph.edge_truth is not None
    assert np.argwhere(graph.edge_truth).tolist() == [[0, 1], [1, 0]]
    empty = Data(x=torch.ones(3, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    back = GraphSet.from_pyg(GraphSet.from_pyg([empty]).to_pyg())
    assert back.n_nodes.tolist() == [3] and back.n_edges.tolist() == [0]


@pytest.mark.parametrize("y", [torch.tensor(1), torch.tensor([1]), torch.tensor([[1]]), 1, [1], "HC"])
def test_pyg_labels_in_every_shape(y: object) -> None:
    graphs = GraphSet.from_pyg([Data(x=torch.ones(2, 1), edge_index=PAIR, y=y)] * 2)
    assert graphs.y.tolist() == (["HC", "HC"] if y == "HC" else [1, 1])


def test_pyg_graphs_may_come_one_by_one() -> None:
    data = make_set([3, 4, 2]).to_pyg()
    assert GraphSet.from_pyg(item for item in data).digest() == GraphSet.from_pyg(data).digest()


def test_pyg_edge_features_are_not_read() -> None:
    plain = Data(x=torch.ones(2, 1), edge_index=PAIR)
    by_direction = Data(x=torch.ones(2, 1), edge_index=PAIR, edge_attr=torch.tensor([[1.0], [2.0]]))
    assert GraphSet.from_pyg([by_direction]).digest() == GraphSet.from_pyg([plain]).digest()


def test_aligned_sets_and_words_as_labels_go_to_pyg() -> None:
    graphs = make_aligned(3).with_y(["a", "b", "c"])
    data = graphs.to_pyg()
    back = GraphSet.from_pyg(data)
    assert back.y is not None and back.y.tolist() == ["a", "b", "c"]
    for i in range(3):
        np.testing.assert_array_equal(back[i].weights, graphs[i].weights)
        np.testing.assert_array_equal(back[i].x, graphs[i].x)


def test_pyg_an_edge_that_stands_twice_is_one() -> None:
    twice = torch.cat([PAIR.T, PAIR.T[:, :1]], 1)
    plain, other = (Data(x=torch.ones(2, 1), edge_index=index) for index in (PAIR.T, twice))
    assert GraphSet.from_pyg([other]).digest() == GraphSet.from_pyg([plain]).digest()


@pytest.mark.parametrize("change", [Tensor.to_sparse, Tensor.bfloat16, Tensor.half, Tensor.requires_grad_])
def test_tensors_of_every_kind_are_read(change: Callable[[Tensor], Tensor]) -> None:
    adj, x = torch.ones(3, 3) - torch.eye(3), torch.eye(3)
    plain = GraphSet.from_arrays([adj.numpy()], [x.numpy()])
    read = (change(x.clone()), change(adj.clone()))
    if change is not Tensor.bfloat16:  # which numpy has not
        assert GraphSet.from_arrays([read[1]], [read[0]]).digest() == plain.digest()
    index = adj.nonzero().T
    assert GraphSet.from_pyg([Data(x=read[0], edge_index=index)]).digest() == plain.digest()


def test_matrices_may_come_in_an_array_of_objects() -> None:
    matrices = [np.ones((2, 2)), np.ones((3, 3))]
    objects = np.empty(2, object)
    objects[:] = matrices
    assert GraphSet.from_arrays(objects).digest() == GraphSet.from_arrays(matrices).digest()


def named(names: list[str], x: list[list[float]]) -> GraphSet:
    nodes = np.zeros(len(x), int)
    return GraphSet.from_edges(np.array([(0, 1)]), nodes, np.array(x), [1], feature_names=names)


def test_features_are_found_by_their_names() -> None:
    names = ["label 1", "label 2", "label 5", "attribute 1"]
    graphs = named(["attribute 1", "label 5", "label 1", "label 9"], [[0.5, 1, 0, 0], [1.5, 0, 1, 0]])
    found = graphs.with_features(names)
    assert found.feature_names == names and found.y.tolist() == [1] and found.n_edges.tolist() == [1]
    np.testing.assert_array_equal(found[0].x, [[0, 0, 1, 0.5], [1, 0, 0, 1.5]])
    assert found[[0]].feature_names == found.with_y(None).feature_names == names
    assert found.with_edges([np.array([True])]).feature_names == names
    assert graphs.with_features(None) is graphs and found.with_features(names) is found
    with pytest.raises(
        ValueError, match="have the node feature 'label 5', the training graphs do not; leave out"
    ):
        graphs.with_features(["attribute 1", "label 1"])
    with pytest.raises(ValueError, match="lack the node feature 'degree' of the training graphs"):
        graphs.with_features(["degree"])
    with pytest.raises(
        ValueError, match=r"have the node feature 'attribute 1', .*; pass graphs with the same features"
    ):
        graphs.with_features(["label 1", "label 5"])


# ---------------------------------------------------------------------- errors


EYE = np.zeros((3, 3))
NAN = np.where(np.eye(3) == 1, 0, np.nan)
ONE_WAY = np.triu(np.ones((3, 3)), 1)

BAD = {
    "graph 1 is not symmetric.*transpose": lambda: GraphSet.from_arrays([EYE, ONE_WAY]),
    "graph 0 has NaN or infinite edge weights": lambda: GraphSet.from_arrays([NAN]),
    "graph 1 has NaN or infinite edge weights": lambda: GraphSet.from_edges(
        np.array([(0, 1), (2, 3)]), np.array([0, 0, 1, 1]), edge_weight=np.array([1, np.nan])
    ),
    "graph 1 has NaN or infinite node features": lambda: GraphSet.from_arrays(
        [EYE, EYE], [np.ones((3, 1)), np.array([[1], [np.inf], [1]])]
    ),
    "graph 0 has NaN or infinite node features": lambda: GraphSet.from_arrays(
        [EYE], [np.full((3, 1), np.nan)], aligned=True
    ),
    r"edges must be \(edges, 2\), got shape \(2, 3\); transpose": lambda: GraphSet.from_edges(
        np.zeros((2, 3), int), np.zeros(2)
    ),
    "edges must be whole node numbers": lambda: GraphSet.from_edges(np.array([(0, 0.5)]), np.zeros(2)),
    "graph 1 has 2 node features, graph 0 has 1": lambda: GraphSet.from_arrays(
        [EYE, EYE], [np.ones((3, 1)), np.ones((3, 2))]
    ),
    "graph 0 has NaN or infinite node feat.*": lambda: GraphSet.from_edges(
        PAIR.numpy(), np.zeros(2), np.full((2, 1), 1e300)
    ),
    "graph 0 must be a square matrix of numbers": lambda: GraphSet.from_arrays([EYE.astype(str) + "!"]),
    "graph 0 must be a square matrix of num.*": lambda: GraphSet.from_arrays([EYE * 1j]),
    r"x must be \(nodes, features\), got shape \(2, 1, 1\)": lambda: GraphSet.from_edges(
        PAIR.numpy(), np.zeros(2), np.ones((2, 1, 1))
    ),
    r"edge_weight of graph 0 must have one entry per edge \(2\), got 1": lambda: GraphSet.from_pyg(
        [  # two in all, as many as there are edges
            Data(num_nodes=2, edge_index=PAIR.T, edge_weight=torch.ones(1)),
            Data(num_nodes=2, edge_index=PAIR.T, edge_weight=torch.ones(3)),
        ]
    ),
    r"edge_truth of graph 1 must have one entry per edge \(2\), got 0": lambda: GraphSet.from_pyg(
        [
            Data(num_nodes=2, edge_index=PAIR.T, edge_truth=torch.ones(2)),
            Data(num_nodes=2, edge_index=PAIR.T, edge_truth=torch.ones(0)),
        ]
    ),
    r"x of graph 1 must have one row per node \(3\), got 2": lambda: GraphSet.from_pyg(
        [
            Data(x=torch.ones(2, 1), edge_index=PAIR.T),
            Data(x=torch.ones(2, 1), num_nodes=3, edge_index=PAIR.T),
        ]
    ),
    r"edge_index of graph 0 must hold whole node numbers, got torch.float32": lambda: GraphSet.from_pyg(
        [Data(num_nodes=2, edge_index=PAIR.T.float())]
    ),
    r"x of graph 0 must be \(nodes, features\), got shape \(2, 1, 1\)": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(2, 1, 1), edge_index=PAIR.T)]
    ),
    "expected 1 feature_names, got 2": lambda: named(["a", "b"], [[1], [1]]),
    "node features of graph 0 must be numbers": lambda: GraphSet.from_arrays([EYE], [[["a"], ["b"], ["c"]]]),
    "x must have one entry per graph, got 3": lambda: GraphSet.from_arrays([EYE], 3),  # type: ignore[arg-type]
    "features must be numbers": lambda: GraphSet.from_edges(
        PAIR.numpy(), np.zeros(2), np.array([["a"], ["b"]])
    ),
    r"graph 1 must be a square matrix, got shape \(2, 3\)": lambda: GraphSet.from_arrays([EYE, EYE[:2]]),
    r"adj must be \(graphs, nodes, nodes\), got shape \(3, 3\)": lambda: GraphSet.from_arrays(EYE),
    r"y must have one entry per graph \(2\), got \(3,\)": lambda: GraphSet.from_arrays(
        [EYE, EYE], y=[0, 1, 1]
    ),
    r"groups must have one entry per graph \(1\)": lambda: GraphSet.from_arrays([EYE], groups=[0, 1]),
    r"age must have one entry per graph \(1\)": lambda: GraphSet.from_arrays([EYE], meta={"age": np.ones(2)}),
    r"x must have one entry per graph \(2\), got 1": lambda: GraphSet.from_arrays(
        [EYE, EYE], [np.ones((3, 1))]
    ),
    "x of graph 0 must have 3 rows, got 2": lambda: GraphSet.from_arrays([EYE], [np.ones((2, 1))]),
    r"x must have one row per node \(2\), got 3": lambda: GraphSet.from_edges(
        PAIR.numpy(), np.zeros(2), np.ones((3, 1))
    ),
    "edge_truth of graph 0 must have 3 rows, got 2": lambda: GraphSet.from_arrays(
        [EYE], edge_truth=[EYE[:2, :2]]
    ),
    "edge_truth of graph 0 must be a square matrix": lambda: GraphSet.from_arrays(
        [EYE], edge_truth=[np.ones(3)]
    ),
    r"edge_weight must have one entry per edge \(2\), got 3": lambda: GraphSet.from_edges(
        PAIR.numpy(), np.zeros(2), edge_weight=np.ones(3)
    ),
    r"edge_truth must have one entry per edge \(2\), got 1": lambda: GraphSet.from_edges(
        PAIR.numpy(), np.zeros(2), edge_truth=np.ones(1)
    ),
    "graph 0: edge 0–1 has two different weights.*both directions": lambda: GraphSet.from_edges(
        PAIR.numpy(), np.zeros(2), edge_weight=np.array([1, 2])
    ),
    "graph 1: edge 1–2 has two different weights": lambda: GraphSet.from_edges(
        np.array([(0, 1), (4, 5), (5, 4)]), np.array([0, 0, 0, 1, 1, 1]), edge_weight=np.array([1, 1, 2])
    ),
    "edges name node 5, there are 2": lambda: GraphSet.from_edges(np.array([(0, 5)]), np.zeros(2)),
    "edges name node -1": lambda: GraphSet.from_edges(np.array([(0, -1)]), np.zeros(2)),
    r"edge 0–2 joins two different graphs \(0 and 1\)": lambda: GraphSet.from_edges(
        np.array([(0, 2)]), np.array([0, 0, 1])
    ),
    "graph_of_node must be sorted": lambda: GraphSet.from_edges(PAIR.numpy(), np.array([1, 0])),
    "graph 1 has no nodes": lambda: GraphSet.from_edges(PAIR.numpy(), np.array([0, 2])),
    "graph 0 has no nodes": lambda: GraphSet.from_edges(PAIR.numpy(), np.array([1, 1])),
    "graph_of_node must .* start at 0": lambda: GraphSet.from_edges(PAIR.numpy(), np.array([-1, 0])),
    r"aligned graphs must have the same nodes, got sizes \[2, 3\]": lambda: GraphSet.from_arrays(
        [EYE, EYE[:2, :2]], aligned=True
    ),
    "expected 3 node_names, got 2": lambda: GraphSet.from_arrays([EYE], node_names=["a", "b"]),
    "at least one graph, got none": lambda: GraphSet.from_arrays([]),
    "needs at least one graph, got none": lambda: GraphSet.from_edges(np.empty((0, 2)), np.empty(0)),
    "a graph set needs at least one graph": lambda: GraphSet.from_pyg([]),
    "graph 1 is directed.*to_undirected": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(2, 1), edge_index=index) for index in (PAIR, PAIR[:, :1])]
    ),
    "graph 1 has no edge_weight while others have one": lambda: GraphSet.from_pyg(
        [
            Data(x=torch.ones(2, 1), edge_index=PAIR, edge_weight=torch.ones(2)),
            Data(x=torch.ones(2, 1), edge_index=PAIR),
        ]
    ),
    "graph 2: edge 0–1 has two different weights; graphs are undirected": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(3, 1), edge_index=PAIR, edge_weight=torch.tensor([1.0, k])) for k in (1.0, 1.0, 2)]
    ),
    "list of graphs, got a Batch; pass batch.to_data_list": lambda: GraphSet.from_pyg(
        Batch.from_data_list(make_set([2, 3]).to_pyg())
    ),
    r"list of graphs, got one Data; pass \[data\]": lambda: GraphSet.from_pyg(make_set([2]).to_pyg()[0]),  # type: ignore[arg-type]
    "graph 1 is a Batch.*to_data_list": lambda: GraphSet.from_pyg(
        [make_set([2]).to_pyg()[0], Batch.from_data_list(make_set([2, 3]).to_pyg())]
    ),
    "graph 0 must be torch_geometric.data.Data, got str": lambda: GraphSet.from_pyg("ab"),  # type: ignore[arg-type]
    r"graph 1 has no edge_index.*torch.empty\(2, 0": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(2, 1), edge_index=PAIR), Data(x=torch.ones(2, 1))]
    ),
    r"edge_index of graph 0 must be \(2, edges\), got shape \(3, 2\)": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(2, 1), edge_index=torch.zeros(3, 2, dtype=torch.long))]
    ),
    "edge_index of graph 1 names node 5, it has nodes 0 to 2": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(3, 1), edge_index=PAIR * k) for k in (1, 5, 1)]
    ),
    "graph 1 has no nodes; drop it": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(n, 1), edge_index=PAIR[:, :n]) for n in (2, 0)]
    ),
    "graph 1 has 3 node features, graph 0 has 1": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(2, d), edge_index=PAIR) for d in (1, 3)]
    ),
    "graph 0 has 2 values in y, expected one label": lambda: GraphSet.from_pyg(
        [Data(x=torch.ones(2, 1), edge_index=PAIR, y=torch.tensor([[0, 1]]))]
    ),
}


@pytest.mark.parametrize("words", BAD, ids=lambda words: words[:40])
def test_bad_input_is_answered_in_words(words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BAD[words]()


def test_what_is_known_of_nodes_travels_with_the_graphs():
    adj = np.ones((3, 4, 4), np.float32)
    graphs = GraphSet.from_arrays(adj, aligned=True, node_meta={"system": list("abab")})
    assert graphs[[0, 2]].with_y([0, 1]).node_meta["system"].tolist() == list("abab")
    with pytest.raises(ValueError, match=r"system must have one entry per node \(4\)"):
        GraphSet.from_arrays(adj, aligned=True, node_meta={"system": list("aba")})
    with pytest.raises(ValueError, match="node_meta needs aligned graphs"):
        GraphSet.from_arrays(adj, node_meta={"system": list("abab")})
