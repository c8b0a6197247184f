"""What must hold for the loader of published Spurious-Motif files and for graphs made like them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from cignn.datasets import load_spmotif, make_spurious_motifs
from cignn.graphs import Graph, GraphSet

SHAPES = [nx.cycle_graph(5), nx.house_graph(), nx.complete_bipartite_graph(2, 3)]
BIASES = ("0.5", "0.7", "0.9")


def arrays() -> dict[str, Any]:
    """The arrays of a small file: each motif behind one node, in three parts."""
    motifs = [np.array([(a + 1, b + 1) for a, b in shape.edges]) for shape in SHAPES]
    edges = [np.concatenate([[(0, 1)], motif]) for motif in motifs]
    x = np.random.default_rng(0).random((18, 4))
    return {
        "edges": np.concatenate(edges).astype(np.uint16),
        "n_edges": np.array([len(one) for one in edges], np.int32),
        "n_nodes": np.array([6, 6, 6], np.int32),
        "y": np.array([0, 1, 2], np.int8),
        "x": x.astype(np.float16),
        "edge_truth": np.concatenate([np.arange(len(one)) > 0 for one in edges]),
        "split": np.array(["train", "val", "test"]),
    }


def changed(name: str, at: Any, value: Any) -> dict[str, Any]:
    """One array of the file with another value at one place."""
    array = arrays()[name]
    array = array.astype({"i": np.int64, "u": np.int64, "U": "<U10"}.get(array.dtype.kind, array.dtype))
    array[at] = value
    return {name: array}


# ------------------------------------------------------------------- the loader


def test_spmotif_file(tmp_path: Path) -> None:
    content = arrays()
    np.savez_compressed(tmp_path / "spmotif_0.5.npz", **content)
    for path in (tmp_path / "spmotif_0.5.npz", str(tmp_path / "spmotif_0.5.npz")):
        graphs = load_spmotif(path)
        assert graphs.y.tolist() == [0, 1, 2] and graphs.groups.tolist() == ["train", "val", "test"]
        assert graphs.n_nodes.tolist() == [6, 6, 6] and graphs.n_edges.tolist() == [6, 7, 7]
        for i, shape in enumerate(SHAPES):
            assert graphs[i].x.dtype == np.float32
            np.testing.assert_array_equal(graphs[i].x, content["x"][6 * i : 6 * i + 6].astype(np.float32))
            truth = graphs[i].edge_truth
            assert not truth[0].any() and graphs[i].weights[0].tolist() == [0, 1, 0, 0, 0, 0]
            np.testing.assert_array_equal(truth[1:, 1:], graphs[i].weights[1:, 1:] != 0)
            assert nx.is_isomorphic(nx.from_numpy_array(truth[1:, 1:].astype(int)), shape)


def test_spmotif_edges_may_come_in_any_order_and_type(tmp_path: Path) -> None:
    content = arrays()
    np.savez(tmp_path / "a.npz", **content)
    starts = np.cumsum(content["n_edges"]) - content["n_edges"]
    order = np.concatenate(
        [np.arange(n)[::-1] + start for start, n in zip(starts, content["n_edges"], strict=True)]
    )
    other = content | {
        "edges": content["edges"][order][:, ::-1].astype(float),
        "edge_truth": content["edge_truth"][order].astype(np.uint8),
        "split": content["split"].astype("S"),
    }
    np.savez(tmp_path / "b.npz", **other)
    assert load_spmotif(tmp_path / "b.npz").digest() == load_spmotif(tmp_path / "a.npz").digest()


BAD_FILES: dict[str, tuple[dict[str, Any], str]] = {
    **{f"no {name}": ({name: None}, f"has no array '{name}', expected n_nodes, .* get") for name in arrays()},
    "few labels": ({"y": np.zeros(2, int)}, r"'y' must hold numbers of shape \(g\), one g for n_nodes, "),
    "few parts": ({"split": np.array(["train"])}, r"'split' must hold words of shape \(g\).*shape \(1,\)"),
    "parts as numbers": ({"split": np.arange(3)}, r"'split' must hold words of shape \(g\).*got int64"),
    "few truths": ({"edge_truth": np.ones(19, bool)}, r"'edge_truth' must hold numbers of shape \(e\)"),
    "an edge index": ({"edges": np.zeros((2, 20), int)}, r"'edges' must hold numbers of shape \(e, 2\)"),
    "flat features": ({"x": np.ones(18)}, r"'x' must hold numbers of shape \(n, d\)"),
    "few features": ({"x": np.ones((17, 4))}, "'n_nodes' must sum to 17, the rows of 'x', got 18"),
    "few edges": (
        {"edges": arrays()["edges"][1:], "edge_truth": arrays()["edge_truth"][1:]},
        "'n_edges' must sum to 19, the rows of 'edges', got 20",
    ),
    "no node": (changed("n_nodes", [0, 1], [0, 12]), "'n_nodes' must be at least 1, got 0 for graph 0"),
    "less than none": (changed("n_edges", [0, 1], [-1, 14]), "must be at least 0, got -1 for graph 0"),
    "a huge graph": (changed("n_nodes", 1, 2**40), "'n_nodes' must sum to 18, .* got 1099511627788"),
    "beyond the numbers": (
        changed("n_nodes", slice(None), 2**62),
        "'n_nodes' must hold whole numbers, got 4.6",
    ),
    "half a node": ({"n_nodes": np.array([6, 5.5, 6.5])}, "'n_nodes' must hold whole numbers, got 5.5"),
    "unknown node": (changed("edges", (6, 1), 6), "edge 0–6 of graph 1, which has 6 nodes, names a node"),
    "negative node": (changed("edges", (0, 0), -1), "edge -1–1 of graph 0, which has 6 nodes, names a node"),
    "self-loop": (changed("edges", (0, 1), 0), "edge 0–0 of graph 0, which .* joins a node to itself"),
    "twice": (changed("edges", 7, [1, 0]), "edge 1–0 of graph 1, which has 6 nodes, is listed twice; get"),
    "no number": ({"x": np.full((18, 4), np.nan)}, "graph 0 has NaN or infinite node features"),
    "infinite": (changed("x", (7, 2), np.inf), "graph 1 has NaN or infinite node features; repair"),
    "unknown part": (
        changed("split", 1, "validation"),
        "'split' must be train, val or test, got validation in entry 1",
    ),
    "unknown class": (changed("y", 2, 3), "'y' must be 0, 1 or 2, got 3 in entry 2; get"),
    "classes in words": ({"y": np.array(["a", "b", "c"])}, r"'y' must hold numbers of shape \(g\).*<U1"),
    "no truth": ({"edge_truth": np.full(20, np.nan)}, "'edge_truth' must be 0 or 1, got nan in entry 0"),
    "pickled": ({"y": np.array([0, 1, None], object)}, "the array 'y' holds Python objects"),
    "nothing": (
        {name: array[:0] for name, array in arrays().items()},
        "a graph set needs at least one graph, got none",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_spmotif_file_with_foreign_arrays(tmp_path: Path, case: str) -> None:
    change, words = BAD_FILES[case]
    path = tmp_path / "some.npz"
    np.savez(path, **{name: array for name, array in (arrays() | change).items() if array is not None})
    with pytest.raises(ValueError, match=words) as error:
        load_spmotif(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_spmotif_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez_compressed(path, **arrays())
    whole = path.read_bytes()
    scratched = bytearray(whole)
    scratched[100:200] = bytes(100)
    for content in (b"", b"hello", whole[: len(whole) // 2], bytes(scratched), pickle.dumps(arrays())):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"some.npz is not a readable .npz .*get the published file"):
            load_spmotif(path)
    (tmp_path / "some.pkl").write_bytes(pickle.dumps(arrays()))
    with pytest.raises(ValueError, match=r"some.pkl .* may run any program: write its arrays .* np.savez"):
        load_spmotif(tmp_path / "some.pkl")
    with pytest.raises(FileNotFoundError, match=r"nowhere.npz does not exist; give a file such as"):
        load_spmotif(tmp_path / "nowhere.npz")
    with pytest.raises(ValueError, match=r"is a folder, expected a regular file; give a file such as spmot"):
        load_spmotif(tmp_path)


# --------------------------------------------------------- graphs made like them

DEPTHS = {"own": {15, 40}, "small": {1, 3, 7, 4, 13}, "test": {15, 31, 63, 40, 121, 364}}  # nodes of trees
REGULAR = {
    "tree": lambda n: n - 1,
    "ladder": lambda n: 3 * n // 2 - 2,
    "wheel": lambda n: 2 * (n - 1),
}  # number of edges


@pytest.fixture(scope="module")
def made() -> GraphSet:
    return make_spurious_motifs(3600, kind="published", bias=0.7, random_state=0)


def joints(graph: Graph) -> np.ndarray:
    """(5,) edges of every node of the motif to the base."""
    return np.count_nonzero(graph.weights[:-5, -5:], axis=0)


def test_published_kind_has_its_own_parts(made: GraphSet) -> None:
    for part, size in {"train": 1800, "val": 600, "test": 1200}.items():
        labels = made.y[made.groups == part]
        assert np.bincount(labels).tolist() == [size // 3] * 3
        assert (np.diff(labels) != 0).mean() > 0.5
    graphs = make_spurious_motifs(
        100, kind="published", test_fraction=0, validation_fraction=0.1, random_state=0
    )
    assert dict(zip(*np.unique(graphs.groups, return_counts=True), strict=True)) == {"train": 90, "val": 10}


def test_published_kind_has_a_base_by_part_and_label(made: GraphSet) -> None:
    sizes, base = made.n_nodes - 5, made.meta["base"]
    test = made.groups == "test"
    small = (made.groups == "train") & (made.y != 0)
    trees = base == "tree"
    assert set(sizes[trees & test]) == DEPTHS["test"] and set(sizes[trees & small]) == DEPTHS["small"]
    assert set(sizes[trees & ~small & ~test]) == DEPTHS["own"]
    assert set(sizes[(base == "ladder") & ~test]) == set(range(16, 23, 2))
    assert set(sizes[(base == "ladder") & test]) == set(range(60, 99, 2))
    assert set(sizes[(base == "wheel") & ~test]) == set(range(15, 20))
    assert set(sizes[(base == "wheel") & test]) == set(range(60, 80))


@pytest.mark.parametrize("bias", [1 / 3, 0.9, 1.0])
def test_published_kind_is_biased_in_training_only(bias: float) -> None:
    graphs = make_spurious_motifs(3600, kind="published", bias=bias, random_state=0)
    base = np.array([("tree", "ladder", "wheel").index(name) for name in graphs.meta["base"]])
    for part, own in {"train": bias, "val": 1 / 3, "test": 1 / 3}.items():
        for label in range(3):
            chosen = base[(graphs.groups == part) & (graphs.y == label)]
            expected = np.full(3, (1 - own) / 2)
            expected[label] = own
            share = np.bincount(chosen, minlength=3) / len(chosen)
            np.testing.assert_allclose(share, expected, atol=4 * np.sqrt(0.25 / len(chosen)))


def test_published_kind_has_the_motif_last_and_joined_by_its_entrance(made: GraphSet) -> None:
    starts = []
    for i in range(0, len(made), 12):
        graph = made[i]
        truth = graph.edge_truth
        assert not truth[:-5].any()
        np.testing.assert_array_equal(truth[-5:, -5:], graph.weights[-5:, -5:] != 0)
        assert_motif(made, i, truth)
        entrance = joints(graph).argmax() if joints(graph).sum() == 1 else None
        if entrance is not None:
            inside = nx.from_numpy_array(truth[-5:, -5:].astype(int))
            assert inside.degree[entrance] == 2  # of a crane one of the three
            assert nx.triangles(inside, entrance) == (made.y[i] == 1)  # of a house the roof
            starts.append((graph.weights[:-5, -5:].any(1).argmax() + 0.5) / (len(graph.x) - 5))
        assert joints(graph).sum() >= 1 and nx.is_connected(nx.from_numpy_array(graph.weights))
    assert len(starts) > 100
    np.testing.assert_allclose(np.mean(starts), 0.5, atol=0.1)  # at any node of the base


def test_published_kind_has_a_random_edge_for_every_twenty(made: GraphSet) -> None:
    sizes = made.n_nodes - 5
    plain = np.array([REGULAR[name](n) for name, n in zip(made.meta["base"], sizes, strict=True)])
    plain += 1 + np.array([5, 6, 6])[made.y]
    lost = plain // 20 - (made.n_edges - plain)  # those within the motif
    pairs = made.n_nodes * (made.n_nodes - 1) // 2 - plain
    expected = (plain // 20 * np.array([5, 4, 4])[made.y] / pairs).sum()
    assert lost.min() == 0 and abs(lost.sum() - expected) < 5 * np.sqrt(expected)
    assert made.n_edges[sizes == 364].min() > 380


def test_published_kind_adds_edges_to_regular_bases(made: GraphSet) -> None:
    shapes = {
        "tree": lambda n: nx.full_rary_tree(3 if n in (4, 13) else 2, n),
        "ladder": lambda n: nx.ladder_graph(n // 2),
        "wheel": nx.wheel_graph,
    }
    seen = set()
    for graph, name in zip(made[:60], made.meta["base"], strict=False):
        n = len(graph.x) - 5
        if n <= 22:
            base = nx.from_numpy_array(graph.weights[:n, :n])
            assert nx.isomorphism.GraphMatcher(base, shapes[name](n)).subgraph_is_monomorphic()
            seen.add(name)
    assert seen == set(shapes)


def test_published_kind_has_uniform_features(made: GraphSet) -> None:
    x = np.concatenate([graph.x for graph in made[:300]])
    assert x.shape[1] == 4 and x.dtype == np.float32 and x.min() >= 0 and x.max() < 1
    assert stats.kstest(x.ravel(), "uniform").pvalue > 1e-6
    assert np.abs(np.corrcoef(x.T) - np.eye(4)).max() < 0.1


BAD_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "hard"}, "kind must be one of 'easy', 'published', got 'hard'"),
    ({"bias": 0.1}, r"bias must lie in \[1/3, 1\], got 0.1"),
    ({"bias": "0.9"}, r"bias must lie in \[1/3, 1\], got '0.9'"),
    ({"n_graphs": 14}, "n_graphs must be at least 18 for test_fraction=0.3333, validation_.*got 14"),
    ({"n_graphs": 2.5}, "n_graphs must be a whole number of at least 1, got 2.5"),
    ({"test_fraction": -0.1}, r"test_fraction must lie in \[0, 1\), got -0.1"),
    ({"validation_fraction": 1.5}, r"validation_fraction must lie in \[0, 1\), got 1.5"),
    ({"validation_fraction": "a"}, r"validation_fraction must be a number in \[0, 1\), got 'a'"),
    ({"test_fraction": 0.5, "validation_fraction": 0.5}, "must leave training graphs, got test_fraction=0.5"),
    ({"kind": "easy", "validation_fraction": 0.1}, 'validation_fraction is for kind="published", got 0.1'),
]


@pytest.mark.parametrize(("change", "words"), BAD_CALLS, ids=[words[:40] for _, words in BAD_CALLS])
def test_published_kind_answers_bad_parameters(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        make_spurious_motifs(**{"n_graphs": 60, "kind": "published"} | change)
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------- real data


@pytest.mark.data
@pytest.mark.parametrize("bias", BIASES)
def test_real_spmotif_files(real_data: Callable[[str], Path], bias: str) -> None:
    graphs = load_spmotif(real_data(f"spmotif_{bias}.npz"))
    sizes = dict(zip(*np.unique(graphs.groups, return_counts=True), strict=True))
    assert sizes == {"train": 9000, "val": 3000, "test": 6000} and graphs.n_features == 4
    for part in sizes:
        assert len(set(np.bincount(graphs.y[graphs.groups == part]))) == 1
    for i in range(0, len(graphs), 600):
        assert_motif(graphs, i, graphs[i].edge_truth)


def assert_motif(graphs: GraphSet, i: int, truth: np.ndarray) -> None:
    """The true edges of graph i are the motif of its label."""
    nodes = np.flatnonzero(truth.any(0))
    assert nx.is_isomorphic(nx.from_numpy_array(truth[np.ix_(nodes, nodes)].astype(int)), SHAPES[graphs.y[i]])


def edge_kinds(graphs: GraphSet) -> np.ndarray:
    """(g, 2) edges within the base, and between base and motif."""
    counts = []
    for i in range(len(graphs)):
        edges, n = graphs.edges(i), graphs.n_nodes[i] - 5
        counts.append([(edges[:, 1] < n).sum(), ((edges[:, 0] < n) & (edges[:, 1] >= n)).sum()])
    return np.array(counts)


@pytest.mark.data
@pytest.mark.parametrize("bias", BIASES)
def test_published_kind_looks_like_the_file(real_data: Callable[[str], Path], bias: str) -> None:
    real = load_spmotif(real_data(f"spmotif_{bias}.npz"))[::3]
    made = make_spurious_motifs(6000, kind="published", bias=float(bias), random_state=0)
    for part in ("train", "val", "test"):
        for label in range(3):
            pair = [one[(one.groups == part) & (one.y == label)] for one in (real, made)]
            kinds = [edge_kinds(one) for one in pair]
            for values in ([one.n_nodes for one in pair], *zip(kinds[0].T, kinds[1].T, strict=True)):
                np.testing.assert_allclose(values[0].mean(), values[1].mean(), rtol=0.1)
                _, found = np.unique(np.concatenate(values), return_inverse=True)
                cells = found // max(1, found.max() // 8)  # a few cells, for enough graphs in each
                table = [
                    np.bincount(one, minlength=cells.max() + 1) for one in np.split(cells, [len(values[0])])
                ]
                assert stats.chi2_contingency(table).pvalue > 1e-6
    x = [np.concatenate([one[i].x.ravel() for i in range(200)]) for one in (real, made)]
    assert stats.ks_2samp(*x).pvalue > 1e-6
