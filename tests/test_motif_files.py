"""What must hold for the loader of published Spurious-Motif files and for graphs made like them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from cignn.datasets import load_spmotif
from cignn.graphs import GraphSet

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
        truth = graphs[i].edge_truth
        assert_motif(graphs, i, truth)


def assert_motif(graphs: GraphSet, i: int, truth: np.ndarray) -> None:
    """The true edges of graph i are the motif of its label."""
    nodes = np.flatnonzero(truth.any(0))
    assert nx.is_isomorphic(nx.from_numpy_array(truth[np.ix_(nodes, nodes)].astype(int)), SHAPES[graphs.y[i]])
