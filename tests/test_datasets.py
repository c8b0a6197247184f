"""What must hold for the motif generators and the loaders of BA-2Motifs and TU folders."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from cignn.datasets import load_ba2motifs, load_tu, make_ba2motifs, make_spurious_motifs, tu
from cignn.graphs import GraphSet

CYCLE = nx.cycle_graph(5)
HOUSE = nx.house_graph()
CRANE = nx.complete_bipartite_graph(2, 3)
MAKERS = [make_ba2motifs, make_spurious_motifs, partial(make_spurious_motifs, kind="published")]


def assert_truth_is_motif(graphs: GraphSet, motifs: list[nx.Graph]) -> None:
    """The true edges are, up to isomorphism, the motif of the label, on the last five nodes, whole."""
    assert graphs.edge_truth is not None
    for graph, truth in zip(graphs, graphs.edge_truth, strict=True):
        n = len(graph.x)
        np.testing.assert_array_equal(truth, truth.T)
        assert not truth[: n - 5].any()
        np.testing.assert_array_equal(truth[-5:, -5:], graph.weights[-5:, -5:] != 0)
        assert nx.is_isomorphic(nx.from_numpy_array(truth[-5:, -5:].astype(int)), motifs[graph.y])


# ---------------------------------------------------------------------- motifs


def test_the_three_motifs_differ() -> None:
    degrees = [sorted(dict(motif.degree).values()) for motif in (CYCLE, HOUSE, CRANE)]
    assert degrees == [[2, 2, 2, 2, 2], [2, 2, 2, 3, 3], [2, 2, 2, 3, 3]]
    assert not nx.is_isomorphic(HOUSE, CRANE)
    assert sum(nx.triangles(HOUSE).values()) == 3 and not any(nx.triangles(CRANE).values())


def test_ba2motifs_truth_is_exact() -> None:
    graphs = make_ba2motifs(60, random_state=0)
    assert_truth_is_motif(graphs, [CYCLE, HOUSE])
    np.testing.assert_array_equal(graphs.edge_truth.sum((1, 2)), 2 * np.array([5, 6])[graphs.y])


def test_ba2motifs_is_a_tree_a_joint_and_a_motif() -> None:
    graphs = make_ba2motifs(60, random_state=0)
    joints = []
    for graph in graphs:
        whole = nx.from_numpy_array(graph.weights)
        assert nx.is_connected(whole) and nx.is_tree(whole.subgraph(range(20)))
        joint = np.argwhere(graph.weights[:20, 20:])
        assert len(joint) == 1
        joints.append(tuple(joint[0]))
    assert len({base for base, _ in joints}) > 10 and {motif for _, motif in joints} == set(range(5))
    assert set(graphs.n_nodes) == {25} and graphs.n_edges.tolist() == (25 + graphs.y).tolist()
    assert graphs.n_features == 10 and (graphs.batch().x == 1).all()


def test_ba2motifs_bases_prefer_the_well_connected() -> None:
    base = make_ba2motifs(1000, random_state=0).batch().adj[:, :20, :20].sum(2).numpy()
    # Of t edges a node of degree k wins the next with probability k / 2t: its mean grows by 1 + 1 / 2t.
    expected = np.prod([1 + 1 / (2 * t) for t in range(1, 19)])
    np.testing.assert_allclose(base[:, :2].mean(), expected, rtol=0.05)
    np.testing.assert_allclose(base[:, -1], 1)


@pytest.mark.parametrize("n_graphs", [2, 7, 1000])
def test_ba2motifs_classes_are_balanced_and_mixed(n_graphs: int) -> None:
    y = make_ba2motifs(n_graphs, random_state=0).y
    assert len(y) == n_graphs and abs(np.bincount(y)[0] - np.bincount(y)[1]) <= 1
    if n_graphs == 1000:
        assert 400 < (np.diff(y) != 0).sum() < 600


def test_spurious_motif_truth_is_exact() -> None:
    graphs = make_spurious_motifs(90, random_state=0)
    assert_truth_is_motif(graphs, [CYCLE, HOUSE, CRANE])


def ladder(n: int) -> nx.Graph:
    return nx.ladder_graph(n // 2)


def tree(n: int) -> nx.Graph:
    return nx.full_rary_tree(2, n)


def test_spurious_motif_bases_are_what_they_are_called() -> None:
    graphs = make_spurious_motifs(90, bias=1 / 3, random_state=0)
    regular = {"tree": tree, "ladder": ladder, "wheel": nx.wheel_graph}
    assert set(graphs.meta["base"]) == set(regular)
    for graph, name in zip(graphs, graphs.meta["base"], strict=True):
        whole, n = nx.from_numpy_array(graph.weights), len(graph.x) - 5
        assert 15 <= n <= 24 and nx.is_connected(whole)
        assert np.count_nonzero(graph.weights[:n, n:]) == 1
        base = nx.from_numpy_array(graph.weights[:n, :n])
        extra = base.number_of_edges() - regular[name](n).number_of_edges()
        assert 1 <= extra <= 0.08 * base.number_of_edges()
        # Without its extra edges the base is the regular one: nothing was taken away.
        matcher = nx.isomorphism.GraphMatcher(base, regular[name](n))
        assert matcher.subgraph_is_monomorphic()
    assert graphs.n_features == 1 and (graphs.batch().x[..., 0] == graphs.batch().mask).all()
    assert len(set(graphs.n_nodes)) > 5


@pytest.mark.parametrize("bias", [1 / 3, 0.5, 0.9, 1.0])
def test_the_base_goes_with_the_label_in_training_only(bias: float) -> None:
    graphs = make_spurious_motifs(3000, bias=bias, test_fraction=0.4, random_state=0)
    base = np.array([("tree", "ladder", "wheel").index(name) for name in graphs.meta["base"]])
    for group, own in {"train": bias, "test": 1 / 3}.items():
        for label in range(3):
            chosen = base[(graphs.groups == group) & (graphs.y == label)]
            share = np.bincount(chosen, minlength=3) / len(chosen)
            expected = np.full(3, (1 - own) / 2)
            expected[label] = own
            np.testing.assert_allclose(share, expected, atol=4 * np.sqrt(0.25 / len(chosen)))
            if own == 1:
                assert share[label] == 1


@pytest.mark.parametrize(("n_graphs", "test_fraction"), [(3000, 0.2), (100, 0.33), (15, 0.2), (10, 0)])
def test_labels_are_balanced_in_both_groups(n_graphs: int, test_fraction: float) -> None:
    graphs = make_spurious_motifs(n_graphs, test_fraction=test_fraction, random_state=0)
    assert len(graphs) == n_graphs
    assert (graphs.groups == "test").sum() == round(n_graphs * test_fraction)
    for group in set(graphs.groups):
        counts = np.bincount(graphs.y[graphs.groups == group], minlength=3)
        assert counts.max() - counts.min() <= 1
    if n_graphs == 3000:  # groups and labels come in no order
        assert (np.diff(graphs.y) != 0).mean() > 0.6
        assert (graphs.groups[:1500] == "test").sum() > 200


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_graphs(make: Callable[..., GraphSet]) -> None:
    assert make(30, random_state=1).digest() == make(30, random_state=1).digest()
    assert make(30, random_state=1).digest() != make(30, random_state=2).digest()
    assert make(30).digest() != make(30).digest()
    for kind in (np.random.RandomState, np.random.default_rng):
        assert make(30, random_state=kind(0)).digest() == make(30, random_state=kind(0)).digest()
        state = kind(0)
        assert make(30, random_state=state).digest() != make(30, random_state=state).digest()
    assert make(30, random_state=np.int64(1)).digest() == make(30, random_state=1).digest()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("random_state", [None, 0])
def test_numpy_global_state_is_not_touched(make: Callable[..., GraphSet], random_state: int | None) -> None:
    before = np.random.get_state()  # noqa: NPY002
    make(30, random_state=random_state)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


BAD_CALLS = [
    (lambda: make_ba2motifs(1), ValueError, "n_graphs must be at least 2.*got 1"),
    (lambda: make_spurious_motifs(60, bias=0.2), ValueError, r"bias must lie in \[1/3, 1\], got 0.2"),
    (lambda: make_spurious_motifs(60, bias=1.1), ValueError, r"bias must lie in \[1/3, 1\], got 1.1"),
    (
        lambda: make_spurious_motifs(60, bias=float("nan")),
        ValueError,
        r"bias must lie in \[1/3, 1\], got nan",
    ),
    (
        lambda: make_spurious_motifs(60, test_fraction=1),
        ValueError,
        r"test_fraction must lie in \[0, 1\), got 1",
    ),
    (lambda: make_spurious_motifs(10), ValueError, "n_graphs must be at least 15 .*got 10"),
    (lambda: make_spurious_motifs(2, test_fraction=0), ValueError, "n_graphs must be at least 3 .*got 2"),
    (
        lambda: make_spurious_motifs(10, test_fraction=0.8),
        ValueError,
        "n_graphs must be at least 1[56] .*got 10",
    ),
    (lambda: make_ba2motifs(9, random_state=-1), ValueError, "random_state must not be negative, got -1"),
    (lambda: make_ba2motifs(9, random_state="a"), ValueError, "random_state must be None, an int.*got str"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "kind", "words"), BAD_CALLS, ids=[words[:40] for _, _, words in BAD_CALLS])
def test_generators_answer_bad_parameters(call: Callable[[], GraphSet], kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


# ------------------------------------------------------------------ TU folders


TINY = {  # a triangle, a path of two nodes, a lonely node behind it
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n",
    "graph_labels": "1\n-1\n",
}
LABELS = {"node_labels": "4\n2\n2\n4\n9\n2\n"}
ATTRIBUTES = {"node_attributes": "0.5, 1\n1.5, 2\n-2.5, 3\n0, 4\n0, 5\n0, 6e1\n"}
ONE_HOT = [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
NUMBERS = [[0.5, 1], [1.5, 2], [-2.5, 3], [0, 4], [0, 5], [0, 60]]


def write_tu(folder: Path, files: dict[str, str], name: str = "TINY") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, text in files.items():
        (folder / f"{name}_{kind}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("raw", [False, True])
def test_tu_graphs_and_labels(tmp_path: Path, raw: bool) -> None:
    write_tu(tmp_path / "raw" if raw else tmp_path, TINY)
    for folder in (tmp_path, str(tmp_path)):
        graphs = load_tu(folder)
        assert graphs.n_nodes.tolist() == [3, 3] and graphs.n_edges.tolist() == [3, 1]
        assert graphs.y.tolist() == [1, -1] and graphs.y.dtype == np.int64
        assert graphs[1].weights.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
        assert graphs.edge_truth is None and graphs.groups is None and graphs.meta == {}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, [[2], [2], [2], [1], [1], [0]]),
        (LABELS, ONE_HOT),
        (ATTRIBUTES, NUMBERS),
        ({**LABELS, **ATTRIBUTES}, np.concatenate([ONE_HOT, NUMBERS], 1)),
        (
            {"node_labels": "1, 7\n0, 7\n0, 7\n0, 7\n0, 7\n0, 8\n"},
            [[0, 1, 1, 0], *[[1, 0, 1, 0]] * 4, [1, 0, 0, 1]],
        ),
    ],
    ids=["neither", "labels", "attributes", "both", "two columns of labels"],
)
def test_tu_features(tmp_path: Path, more: dict[str, str], expected: list) -> None:
    graphs = load_tu(write_tu(tmp_path, TINY | more))
    np.testing.assert_array_equal(
        np.concatenate([graph.x for graph in graphs]), np.array(expected, np.float32)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(", ", ","),
        lambda text: text.replace(", ", " ,  "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n\n",
        lambda text: "  " + text.replace("\n", "  \n  "),
    ],
    ids=["no spaces", "many spaces", "windows", "no last newline", "blank lines", "indented"],
)
def test_tu_reads_every_way_to_write_it(tmp_path: Path, change: Callable[[str], str]) -> None:
    files = TINY | LABELS | ATTRIBUTES | {"edge_labels": "0\n" * 8}
    plain = load_tu(write_tu(tmp_path / "a", files))
    other = load_tu(write_tu(tmp_path / "b", {kind: change(text) for kind, text in files.items()}))
    assert other.digest() == plain.digest()


def test_tu_self_loops_and_repeats_are_no_edges(tmp_path: Path) -> None:
    graphs = load_tu(write_tu(tmp_path, TINY | {"A": TINY["A"] + "6, 6\n1, 2\n"}))
    assert graphs.digest() == load_tu(write_tu(tmp_path, TINY)).digest()


def test_tu_labels_may_be_fractions(tmp_path: Path) -> None:
    graphs = load_tu(write_tu(tmp_path, TINY | {"graph_labels": "0.5\n2\n"}))
    assert graphs.y.tolist() == [0.5, 2.0]


def test_tu_nodes_in_any_order(tmp_path: Path) -> None:
    order = np.array([5, 0, 3, 1, 4, 2])  # keeps the order within each graph out of order as well
    position = np.argsort(order)
    edges = np.array([[int(n) for n in line.split(",")] for line in TINY["A"].splitlines()]) - 1
    lines = {kind: text.splitlines() for kind, text in (TINY | LABELS).items()}
    marks = {"edge_gt": "1\n1\n0\n0\n0\n0\n1\n1\n"}
    mixed = (
        TINY
        | marks
        | {
            "A": "".join(f"{a + 1}, {b + 1}\n" for a, b in position[edges]),
            "graph_indicator": "".join(lines["graph_indicator"][i] + "\n" for i in order),
            "node_labels": "".join(lines["node_labels"][i] + "\n" for i in order),
        }
    )
    plain = load_tu(write_tu(tmp_path / "a", TINY | LABELS | marks))
    other = load_tu(write_tu(tmp_path / "b", mixed))
    assert plain[0].edge_truth.sum() == 2
    for g, nodes in enumerate([[0, 1, 2], [2, 0, 1]]):  # where each graph's nodes stand in the mixed file
        np.testing.assert_array_equal(other[g].x, plain[g].x[nodes])
        np.testing.assert_array_equal(other[g].weights, plain[g].weights[nodes][:, nodes])
        np.testing.assert_array_equal(other[g].edge_truth, plain[g].edge_truth[nodes][:, nodes])


def test_tu_symmetrize_accepts_edges_listed_once(tmp_path: Path) -> None:
    once = "1, 2\n3, 2\n1, 3\n4, 5\n"
    write_tu(tmp_path, TINY | {"A": once})
    with pytest.raises(ValueError, match="both directions"):
        load_tu(tmp_path)
    graphs = load_tu(tmp_path, symmetrize=True)
    assert graphs.digest() == load_tu(write_tu(tmp_path / "b", TINY)).digest()


def test_tu_true_edges_are_read_where_the_set_has_them(tmp_path: Path) -> None:
    marks = "1\n1\n0\n0\n0\n1\n0\n0\n"  # 1–2 in both directions, 3–1 in one
    graphs = load_tu(write_tu(tmp_path, TINY | {"edge_gt": marks}))
    assert graphs.edge_truth is not None
    assert np.argwhere(np.triu(graphs.edge_truth[0])).tolist() == [[0, 1], [0, 2]]
    assert not graphs.edge_truth[1].any()
    (tmp_path / "TINY_edge_gt.txt").unlink()
    assert load_tu(tmp_path).edge_truth is None


A = TINY["A"]
BAD_FILES = {
    "no line": ({"graph_labels": ""}, "TINY_graph_labels.txt is empty; download"),
    "no edges": ({"A": "\n\n"}, "TINY_A.txt is empty"),
    "a word": (
        {"A": A.replace("2, 3", "2, x")},
        r"TINY_A.txt, line 3: expected 2 finite numbers.*got '2, x'",
    ),
    "a word behind a blank line": (
        {"A": "\n" + A.replace("2, 3", "2, x")},
        "TINY_A.txt, line 4: .*got '2, x'",
    ),
    "spaces": ({"A": A.replace(",", "")}, "TINY_A.txt, line 1: expected 2 .* separated by commas, got '1 2'"),
    "cut line": ({"A": A[:-2]}, "TINY_A.txt, line 8: expected 2 finite numbers.*got '5,'.*repair"),
    "cut number": ({"A": A[:-4]}, "TINY_A.txt, line 8: expected 2 finite numbers.*got '5'"),
    "three ends": ({"A": A.replace("2, 3", "2, 3, 4")}, "TINY_A.txt, line 3: .*got '2, 3, 4'"),
    "fraction": ({"A": A.replace("2, 3", "2, 3.5")}, "TINY_A.txt, line 3: expected whole numbers"),
    "binary": ({"A": "\x00\x01PK"}, "TINY_A.txt, line 1: expected 2 finite numbers"),
    "node 0": ({"A": A + "0, 1\n1, 0\n"}, "TINY_A.txt, line 9: expected nodes from 1 to 6.*got '0, 1'"),
    "unknown node": (
        {"A": A + "5, 7\n7, 5\n"},
        "TINY_A.txt, line 9: expected nodes from 1 to 6.*got '5, 7'; dow",
    ),
    "huge node": ({"A": A + "5, 1e300\n"}, "TINY_A.txt, line 9: expected whole numbers"),
    "across": (
        {"A": A + "3, 4\n4, 3\n"},
        "line 9: expected an edge within one graph, got '3, 4' between graphs 1 and 2",
    ),
    "one way": ({"A": A[:-5]}, "TINY_A.txt, line 7: .*both directions, '5, 4' is not there.*symmetrize=True"),
    "few labels": (
        {"graph_labels": "1\n"},
        "TINY_graph_labels.txt must have one label per graph, expected 2 .*got 1",
    ),
    "many labels": ({"graph_labels": "1\n1\n1\n"}, "TINY_graph_labels.txt .*expected 2 .*got 3; download"),
    "label nan": (
        {"graph_labels": "1\nnan\n"},
        "TINY_graph_labels.txt, line 2: expected a finite number.*got 'nan'",
    ),
    "label pairs": (
        {"graph_labels": "1,2\n1,2\n"},
        "TINY_graph_labels.txt, line 1: expected a finite number",
    ),
    "graph 0": (
        {"graph_indicator": "0\n0\n0\n1\n1\n1\n"},
        "indicator.txt, line 1: expected a graph number from 1, got 0",
    ),
    "graph gap": (
        {"graph_indicator": "1\n1\n1\n3\n3\n3\n", "graph_labels": "1\n1\n1\n"},
        "TINY_graph_indicator.txt gives graph 2 no node",
    ),
    "few nodes": ({"graph_indicator": "1\n1\n1\n2\n"}, "TINY_A.txt, line 7: expected nodes from 1 to 4"),
    "few node labels": (
        {"node_labels": "1\n2\n"},
        "TINY_node_labels.txt must have one line per node, expected 6 as in",
    ),
    "many attributes": (
        {"node_attributes": "1\n" * 7},
        "TINY_node_attributes.txt .*expected 6 .*got 7; download",
    ),
    "nan attribute": (
        {"node_attributes": "1, 2\n3, nan\n" * 3},
        "TINY_node_attributes.txt, line 2: expected 2 finite numbers .*got '3, nan'; repair",
    ),
    "infinite attribute": (
        {"node_attributes": "1\n" * 5 + "inf\n"},
        "TINY_node_attributes.txt, line 6: .*got 'inf'",
    ),
    "missing attribute": (
        {"node_attributes": "1,2\n" * 5 + "1,\n"},
        "TINY_node_attributes.txt, line 6: .*got '1,'",
    ),
    "edge labels": (
        {"edge_labels": "0\n" * 7},
        "TINY_edge_labels.txt .*one line per edge, expected 8 as in TINY_A.txt",
    ),
    "few true edges": (
        {"edge_gt": "0\n" * 4},
        "TINY_edge_gt.txt .*one line per edge, expected 8 as in TINY_A.txt, got 4; download",
    ),
    "half a true edge": (
        {"edge_gt": "0\n" * 7 + "0.5\n"},
        "TINY_edge_gt.txt, line 8: expected 0 or 1, got 0.5; repair",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_tu_names_what_is_wrong_in_one_line(tmp_path: Path, case: str) -> None:
    files, words = BAD_FILES[case]
    write_tu(tmp_path, TINY | files)
    with pytest.raises(ValueError, match=words) as error:
        load_tu(tmp_path)
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_tu_graph_numbers_are_not_believed(tmp_path: Path, missing: str) -> None:
    files = TINY | {"graph_indicator": "1\n1\n1\n2\n2\n2000000000\n"}
    if missing == "keep":
        del files["graph_labels"]
    write_tu(tmp_path, files)
    with pytest.raises(ValueError, match=r"line 6: expected a graph number from 1 to 6, .* got 2000000000"):
        load_tu(tmp_path, missing_labels=missing)


@pytest.mark.parametrize("kind", ["graph_indicator", "graph_labels"])
def test_tu_missing_files(tmp_path: Path, kind: str) -> None:
    (write_tu(tmp_path, TINY) / f"TINY_{kind}.txt").unlink()
    with pytest.raises(ValueError, match=f"TINY_{kind}.txt is missing.*unpack the set again"):
        load_tu(tmp_path)


def test_tu_graphs_without_labels_are_read_where_asked_for(tmp_path: Path) -> None:
    plain = load_tu(write_tu(tmp_path, TINY))
    (tmp_path / "TINY_graph_labels.txt").unlink()
    with pytest.raises(ValueError, match=r"missing_labels=.keep. for graphs to predict"):
        load_tu(tmp_path)
    graphs = load_tu(tmp_path, missing_labels="keep")
    assert graphs.y is None and graphs.digest() == plain.with_y(None).digest()
    with pytest.raises(ValueError, match="missing_labels must be 'error' or 'keep', got 'drop'"):
        load_tu(tmp_path, missing_labels="drop")
    write_tu(tmp_path, {"graph_attributes": "0.1, 0.2\n0.3, 0.4\n"})
    with pytest.raises(
        ValueError, match=r"TINY_graph_attributes.txt holds numbers, not classes: make classes"
    ):
        load_tu(tmp_path)


@pytest.mark.parametrize("symmetrize", [False, True])
def test_tu_degrees_count_neighbours_however_often_an_edge_stands(tmp_path: Path, symmetrize: bool) -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(1, 41, (300, 2))
    listed = edges if symmetrize else np.concatenate([edges, edges[:, ::-1]])
    text = "".join(f"{a}, {b}\n" for a, b in listed)
    write_tu(tmp_path, {"A": text, "graph_indicator": "1\n" * 40, "graph_labels": "0\n"})
    graph = load_tu(tmp_path, symmetrize=symmetrize)[0]
    np.testing.assert_array_equal(graph.x[:, 0], (graph.weights != 0).sum(1))


def test_tu_features_have_names(tmp_path: Path) -> None:
    several = {"node_labels": "1, 7\n0, 7\n0, 7\n0, 7\n0, 7\n0, 12345678\n"}
    for more, names in (
        ({}, ["degree"]),
        (LABELS | ATTRIBUTES, ["label 2", "label 4", "label 9", "attribute 1", "attribute 2"]),
        (several, [f"label {k}" for k in ("0 in column 1", "1 in column 1", "7 in column 2")]),
    ):
        graphs = load_tu(write_tu(tmp_path / str(len(more)) / names[0], TINY | more))
        assert graphs.feature_names is not None and graphs.feature_names[: len(names)] == names
    assert graphs.feature_names[3:] == ["label 12345678 in column 2"]


def test_tu_labels_too_many_for_a_column_each_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tu, "_MOST_CELLS", 17)
    write_tu(tmp_path, TINY | LABELS)
    with pytest.raises(ValueError, match=r"TINY_node_labels.txt has 3 different labels, too many .* 6 nodes"):
        load_tu(tmp_path)


@pytest.mark.parametrize("raw", [False, True])
def test_tu_a_folder_of_folders_is_told_which(tmp_path: Path, raw: bool) -> None:
    write_tu(tmp_path / "TINY" / "raw" if raw else tmp_path / "TINY", TINY)
    with pytest.raises(ValueError, match=r"got none; did you mean .*TINY\.$"):
        load_tu(tmp_path)


def test_tu_files_with_a_dot_are_no_set(tmp_path: Path) -> None:
    write_tu(tmp_path, TINY)
    (tmp_path / "._TINY_A.txt").write_bytes(b"\x00\x05\x16\x07")
    assert len(load_tu(tmp_path)) == 2


def test_tu_wants_one_set_in_one_folder(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"nowhere is not a folder; give the folder that holds NAME_A.txt"
    ):
        load_tu(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"exactly one NAME_A.txt.*got none"):
        load_tu(tmp_path)
    write_tu(tmp_path, TINY)
    write_tu(tmp_path, TINY, "TWO")
    with pytest.raises(ValueError, match=r"exactly one NAME_A.txt.*got TINY_A.txt, TWO_A.txt"):
        load_tu(tmp_path)


# ---------------------------------------------------------------- ba2motifs.npz


def arrays(n_graphs: int = 6, **change: object) -> dict[str, np.ndarray]:
    """The arrays of a small file in the published form."""
    graphs = make_ba2motifs(n_graphs, random_state=0)
    adj = graphs.batch().adj.numpy().astype(np.uint8)
    adj[0, 20, 20] = 1  # as in the published file
    x = np.full((n_graphs, 25, 10), 0.01, np.float32)
    return {"adj": adj, "x": x, "y": graphs.y.astype(np.int8)} | change  # type: ignore[return-value]


def test_ba2motifs_file(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "ba2motifs.npz", **arrays())
    made = make_ba2motifs(6, random_state=0)
    for path in (tmp_path, tmp_path / "ba2motifs.npz", str(tmp_path)):
        graphs = load_ba2motifs(path)
        np.testing.assert_array_equal(graphs.edge_truth, made.edge_truth)
        np.testing.assert_array_equal(graphs.batch().adj, made.batch().adj)
        np.testing.assert_array_equal(graphs.y, made.y)
        assert graphs[0].x.shape == (25, 10) and (graphs[0].x == np.float32(0.01)).all()
        assert_truth_is_motif(graphs, [CYCLE, HOUSE])


def test_ba2motifs_labels_may_stand_in_two_columns(tmp_path: Path) -> None:
    content = arrays()
    np.savez(tmp_path / "plain.npz", **content)  # type: ignore[arg-type]
    np.savez(tmp_path / "two.npz", **content | {"y": np.eye(2)[content["y"]]})  # type: ignore[arg-type]
    assert load_ba2motifs(tmp_path / "two.npz").digest() == load_ba2motifs(tmp_path / "plain.npz").digest()


def test_ba2motifs_pickles_are_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "BA_2Motifs.pkl"
    path.write_bytes(pickle.dumps(tuple(arrays().values())))
    with pytest.raises(ValueError, match=r"BA_2Motifs.pkl is not .*a pickle may run any program: .*np.savez"):
        load_ba2motifs(path)


ONE_WAY = np.triu(np.ones((6, 25, 25)), 1)
BAD_ARRAYS = {
    "no adj": ({"adj": None}, "has no array 'adj', expected adj, x and y"),
    "no y": ({"y": None}, "has no array 'y', expected adj, x and y"),
    "24 nodes": (
        {"adj": np.zeros((6, 24, 24))},
        r"'adj' must hold numbers of shape \(g, 25, 25\).*got float64 of shape",
    ),
    "fewer graphs": (
        {"x": np.zeros((5, 25, 10))},
        r"'x' must hold numbers of shape \(g, 25, d\).*\(5, 25, 10\)",
    ),
    "flat x": ({"x": np.zeros((6, 25))}, r"'x' must hold numbers of shape \(g, 25, d\)"),
    "words": ({"y": np.array(list("abcdef"))}, r"'y' must hold numbers of shape \(g\).*got <U1"),
    "one label": (
        {"y": np.array(1)},
        r"'y' must hold numbers of shape \(g\), one g.*got int64 of shape \(\)",
    ),
    "two columns": ({"y": np.ones((6, 2))}, r"'y' must hold numbers of shape \(g\).*\(6, 2\)"),
    "three classes": ({"y": np.arange(6)}, "'y' must be 0 or 1, got"),
    "pickled": ({"y": np.array([0, 1, None, 0, 0, 0], object)}, "holds Python objects"),
    "one way": ({"adj": ONE_WAY}, "graph 0 is not symmetric"),
    "nan": ({"x": np.full((6, 25, 10), np.nan)}, "graph 0 has NaN or infinite node features"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_ba2motifs_file_with_foreign_arrays(tmp_path: Path, case: str) -> None:
    change, words = BAD_ARRAYS[case]
    path = tmp_path / "some.npz"
    content = {name: array for name, array in arrays(**change).items() if array is not None}
    np.savez(path, **content)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words) as error:
        load_ba2motifs(path)
    assert "\n" not in str(error.value) and "some.npz" in str(error.value)


def test_ba2motifs_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez_compressed(path, **arrays())  # type: ignore[arg-type]
    whole = path.read_bytes()
    scratched = bytearray(whole)
    scratched[200:400] = bytes(200)
    for content in (b"", b"hello", whole[: len(whole) // 2], bytes(scratched)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"some.npz is not a readable .npz file of plain arrays; get"):
            load_ba2motifs(path)
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(ValueError, match=r"is not a readable .npz"):
        load_ba2motifs(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("adj", "text")
    with pytest.raises(ValueError, match=r"some.npz has no array 'adj'"):
        load_ba2motifs(path)
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist; give ba2motifs.npz"):
        load_ba2motifs(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"ba2motifs.npz does not exist"):
        load_ba2motifs(tmp_path)


# ------------------------------------------------------------------- real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "classes", "n_features", "largest"),
    [
        ("MUTAG", {-1: 63, 1: 125}, 7, 28),
        ("PROTEINS", {1: 663, 2: 450}, 3 + 1, 620),
        ("NCI1", {1: 2053, 2: 2057}, 37, 111),
    ],
)
def test_real_tu_sets(
    real_data: Callable[[str], Path], name: str, classes: dict[int, int], n_features: int, largest: int
) -> None:
    folder = real_data(f"tu/{name}")
    graphs = load_tu(folder)
    assert dict(zip(*np.unique(graphs.y, return_counts=True), strict=True)) == classes
    assert graphs.n_features == n_features and graphs.n_nodes.max() == largest
    n_labels = {"MUTAG": 7, "PROTEINS": 3, "NCI1": 37}[name]
    assert all((graph.x[:, :n_labels].sum(1) == 1).all() for graph in graphs[:50])
    n_directed = len((folder / "raw" / f"{name}_A.txt").read_text().splitlines())
    assert 2 * graphs.n_edges.sum() == n_directed
    assert graphs.nbytes < 3 * 2 * n_directed * 8


@pytest.mark.data
def test_real_tu_matches_pytorch_geometric(real_data: Callable[[str], Path]) -> None:
    from torch_geometric.io import read_tu_data

    data, slices, _ = read_tu_data(str(real_data("tu/MUTAG/raw")), "MUTAG")
    graphs = load_tu(real_data("tu/MUTAG"))
    starts = slices["x"].numpy()
    for i in (0, 17, 187):
        np.testing.assert_array_equal(graphs[i].x, data.x[starts[i] : starts[i + 1]].numpy())
        edges = data.edge_index[:, slices["edge_index"][i] : slices["edge_index"][i + 1]].numpy()
        dense = np.zeros((starts[i + 1] - starts[i],) * 2)
        dense[tuple(edges)] = 1
        np.testing.assert_array_equal(graphs[i].weights, dense)


@pytest.mark.data
def test_real_ba2motifs(real_data: Callable[[str], Path]) -> None:
    graphs = load_ba2motifs(real_data("ba2motifs.npz"))
    assert len(graphs) == 1000 and np.bincount(graphs.y).tolist() == [500, 500]
    np.testing.assert_array_equal(graphs.edge_truth.sum((1, 2)) // 2, 5 + graphs.y)
    assert_truth_is_motif(graphs[::40], [CYCLE, HOUSE])
    assert (graphs.batch().adj.diagonal(dim1=1, dim2=2) == 0).all()


@pytest.mark.data
def test_made_ba2motifs_look_like_the_published_ones(real_data: Callable[[str], Path]) -> None:
    real, made = load_ba2motifs(real_data("ba2motifs.npz")), make_ba2motifs(1000, random_state=0)
    assert set(real.n_nodes) == set(made.n_nodes) and real.n_features == made.n_features
    np.testing.assert_allclose(
        made.n_edges.mean(), real.n_edges.mean() + 0.04
    )  # 40 motifs are detached there

    def base_degrees(graphs: GraphSet) -> np.ndarray:
        return np.sort(graphs.batch().adj[:, :20, :20].sum(2).numpy(), axis=1).mean(0)

    np.testing.assert_allclose(base_degrees(made), base_degrees(real), rtol=0.03)
