"""What must hold for the drawings of graphs."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cignn import Explanations, GraphSet
from cignn.datasets import make_ba2motifs
from cignn.datasets.atlas import Atlas, places_of
from cignn.explanations import Explanation
from cignn.report import draw_graph, draw_graphs
from cignn.report.graphs import EDGE_COLOUR, QUIET_COLOUR, layout
from cignn.report.systems import regions


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def explanations() -> Explanations:
    graphs = make_ba2motifs(7, random_state=0)
    rng = np.random.default_rng(0)
    return Explanations(graphs, [rng.random(n) for n in graphs.n_edges])


def cycle(n: int, first: int = 0) -> np.ndarray:
    at = np.arange(n)
    return np.stack([at, (at + 1) % n], 1) + first


def path(n: int, first: int = 0) -> np.ndarray:
    return np.stack([np.arange(n - 1), np.arange(1, n)], 1) + first


NO_EDGES = np.zeros((0, 2), int)
PARTS = {
    "two cycles": [cycle(5), cycle(6, 5)],
    "a path and a triangle": [path(12), cycle(3, 12)],
    "long paths": [path(15), path(15, 15)],
    "three parts": [cycle(4), path(8, 4), cycle(5, 12)],
    "a lonely node": [cycle(6), NO_EDGES + 6],
    "lonely nodes": [NO_EDGES, NO_EDGES + 1, NO_EDGES + 2],
    "pairs": [path(2, 2 * i) for i in range(6)],
}


def gap(one: np.ndarray, other: np.ndarray) -> float:
    """The widest strip between two sets of points, over many directions; negative where hulls overlap."""
    angle = np.linspace(0, np.pi, 720, endpoint=False)
    directions = np.stack([np.cos(angle), np.sin(angle)])
    a, b = one @ directions, other @ directions
    return float(np.maximum(b.min(0) - a.max(0), a.min(0) - b.max(0)).max())


def part_nodes(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Nodes of each part; a part without edges is one node."""
    nodes: list[np.ndarray] = []
    for part in parts:
        following = sum(len(n) for n in nodes)
        nodes.append(np.unique(part) if len(part) else np.array([following]))
    return nodes


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
def test_the_parts_of_a_graph_in_pieces_do_not_overlap(parts: list[np.ndarray]) -> None:
    nodes = part_nodes(parts)
    position = layout(np.concatenate(parts), sum(len(n) for n in nodes))
    assert np.isfinite(position).all()
    for i, mine in enumerate(nodes):
        for theirs in nodes[:i]:
            assert gap(position[mine], position[theirs]) > 0.5


def test_the_layout_is_deterministic_and_leaves_chance_alone(explanations: Explanations) -> None:
    edges = explanations[0].edges
    before = str(np.random.get_state())  # noqa: NPY002
    first = layout(edges, 25)
    np.testing.assert_array_equal(layout(edges, 25), first)
    assert str(np.random.get_state()) == before  # noqa: NPY002


def test_no_two_nodes_share_a_place_and_distance_follows_the_graph() -> None:
    position = layout(path(10), 10)
    distance = np.linalg.norm(position[:, None] - position, axis=-1)
    assert distance[np.triu_indices(10, 1)].min() > 0.5
    steps = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    np.testing.assert_allclose(distance, steps, atol=0.1)  # a path can be drawn without any stress
    np.testing.assert_allclose(position.mean(0), 0, atol=1e-9)


def test_a_single_node_has_a_place() -> None:
    np.testing.assert_array_equal(layout(NO_EDGES, 1), [[0, 0]])
    ax = draw_graph(Explanation(NO_EDGES, np.zeros(0, np.float32), 1))
    ax.figure.canvas.draw()
    assert len(nodes_of(ax)) == 1


def lines_of(ax: plt.Axes, label: str) -> LineCollection:
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection) and c.get_label() == label]
    return lines


def nodes_of(ax: plt.Axes) -> np.ndarray:
    (nodes,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    return np.asarray(nodes.get_offsets())


def segments(lines: LineCollection) -> set[frozenset[tuple[float, float]]]:
    return {frozenset(tuple(point) for point in segment.tolist()) for segment in lines.get_segments()}


def places(edges: np.ndarray, position: np.ndarray) -> set[frozenset[tuple[float, float]]]:
    return {frozenset(tuple(position[node].tolist()) for node in edge) for edge in edges}


def test_every_edge_and_node_is_drawn_and_true_edges_have_a_band(explanations: Explanations) -> None:
    ex, truth = explanations[0], explanations.graphs[0].edge_truth
    assert truth is not None
    ax = draw_graph(ex, truth)
    position = nodes_of(ax)
    assert len(position) == 25
    assert len(lines_of(ax, "edges").get_segments()) == len(ex.edges)
    assert segments(lines_of(ax, "edges")) == places(ex.edges, position)
    band = lines_of(ax, "truth")
    assert len(band.get_segments()) == truth.sum() // 2
    assert segments(band) == places(np.argwhere(np.triu(truth)), position)
    assert band.get_zorder() < lines_of(ax, "edges").get_zorder()
    assert not any(c.get_label() == "truth" for c in draw_graph(ex, ax=plt.figure().gca()).collections)


def test_heavier_edges_are_thicker_more_orange_and_on_top(explanations: Explanations) -> None:
    ex = explanations[0]
    ax = draw_graph(ex)
    lines, position = lines_of(ax, "edges"), nodes_of(ax)
    weight_at = {
        frozenset(tuple(position[node].tolist()) for node in edge): weight
        for edge, weight in zip(ex.edges, ex.edge_weights, strict=True)
    }
    drawn = np.array([weight_at[frozenset(tuple(p) for p in s.tolist())] for s in lines.get_segments()])
    assert (np.diff(drawn) >= 0).all(), "the top edge is drawn last"
    assert (np.diff(np.asarray(lines.get_linewidths())) > 0).all()
    orange, grey = np.array(to_rgb(EDGE_COLOUR)), np.array(to_rgb(QUIET_COLOUR))
    share = (lines.get_colors()[:, :3] - grey) @ (orange - grey) / np.square(orange - grey).sum()
    np.testing.assert_allclose(share, drawn, atol=0.01)


def test_a_graph_without_true_edges_or_without_edges_can_be_drawn() -> None:
    lonely = Explanation(NO_EDGES, np.zeros(0, np.float32), 4)
    ax = draw_graph(lonely, np.zeros((4, 4), bool))
    ax.figure.canvas.draw()
    assert len(nodes_of(ax)) == 4 and not lines_of(ax, "truth").get_segments()


def test_the_axes_given_are_drawn_into(explanations: Explanations) -> None:
    _, (left, right) = plt.subplots(1, 2)
    assert draw_graph(explanations[0], ax=right) is right
    assert not left.collections and right.collections


@pytest.mark.parametrize(("columns", "rows"), [(3, 3), (7, 1), (2, 4)])
def test_the_grid_has_a_place_for_every_graph(explanations: Explanations, columns: int, rows: int) -> None:
    titles = [f"graph {i}" for i in range(7)]
    figure = draw_graphs(explanations, titles, columns=columns)
    assert len(figure.axes) == columns * rows
    used = [ax for ax in figure.axes if ax.collections]
    assert [ax.get_title() for ax in used] == titles
    assert not any(ax.axison for ax in figure.axes)
    for ax, ex in zip(used, explanations, strict=True):
        assert len(lines_of(ax, "edges").get_segments()) == len(ex.edges)


def legend_words(explanations: Explanations) -> list[str]:
    (legend,) = draw_graphs(explanations).legends
    return [text.get_text() for text in legend.get_texts()]


def test_the_legend_speaks_of_truth_only_where_there_is_one(explanations: Explanations) -> None:
    assert [word.split()[0] for word in legend_words(explanations)] == ["causal", "other", "true"]
    graphs = GraphSet.from_arrays([np.ones((3, 3))])
    plain = Explanations(graphs, [[0.1, 0.5, 0.9]])
    assert [word.split()[0] for word in legend_words(plain)] == ["causal", "other"]


# ------------------------------------------------------------- regions of one name


def test_regions_of_one_name_are_not_put_into_another_order() -> None:
    names = ["insula", "insula", "caudate"]
    assert places_of(names, names) == [0, 1, 2]
    with pytest.raises(ValueError, match="insula names more than one region"):
        places_of(names, ["caudate", "insula", "insula"])
    assert places_of(["a", "b"], ["b", "a"]) == [1, 0]


def test_an_atlas_does_not_give_two_nodes_of_one_name_the_same_place() -> None:
    atlas = Atlas(["insula", "caudate", "vermis"], coordinates=np.eye(3))
    twice = Explanation(np.array([[0, 2]]), np.array([0.5]), 3, ["insula", "insula", "caudate"])
    with pytest.raises(ValueError, match="some nodes share a name"):
        regions(twice, atlas, "safe")
    once = Explanation(np.array([[0, 1]]), np.array([0.5]), 2, ["vermis", "insula"])
    np.testing.assert_array_equal(regions(once, atlas, "safe").coordinates, np.eye(3)[[2, 0]])


def test_contributions_of_a_graph_have_two_colours_and_dashes() -> None:
    edges, values = np.array([[0, 1], [1, 2], [0, 2]]), np.array([0.5, -2.0, 1.0])
    told = {"edge_contributions": values, "base": 0.0, "explained": 1}
    triangle = Explanation(edges, np.array([0.9, 0.1, 0.5]), 3, **told)
    ax = draw_graph(triangle, ax=Figure().subplots(), by="contribution")
    (lines,) = [c for c in ax.collections if c.get_label() == "edges"]
    assert [pattern[1] is not None for pattern in lines.get_linestyles()] == [False, False, True]
    reds, blues = lines.get_colors()[:, 0], lines.get_colors()[:, 2]
    assert (reds[:2] > blues[:2]).all() and reds[2] < blues[2]
    graphs = GraphSet.from_arrays([1 - np.eye(3)])
    one = Explanations(graphs, [np.ones(3)], np.array([1]), edge_contributions=[values], base=[0.0])
    words = [text.get_text() for text in draw_graphs(one, by="auto", width=3).legends[0].get_texts()]
    assert words == ["speaks for the class", "speaks against it"]
