"""What must hold for explanations: one weight in [0, 1] per edge, whoever found it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from cignn import CIGNNClassifier, GraphSet
from cignn.explanations import EdgeReference, Explanation, Explanations
from examples import random_matrix, tiny

NAMES = ["left", "right", "front", "back"]


def matrix(n: int, edges: dict[tuple[int, int], float]) -> np.ndarray:
    out = np.zeros((n, n), np.float32)
    for (source, target), weight in edges.items():
        out[source, target] = out[target, source] = weight
    return out


@pytest.fixture
def ragged() -> Explanations:
    """Three graphs of 4, 3 and 2 nodes, the last without an edge."""
    graphs = GraphSet.from_arrays(
        [matrix(4, {(0, 1): 1, (1, 2): -2, (0, 3): 0.5}), matrix(3, {(0, 2): 1, (1, 2): 1}), matrix(2, {})],
        y=[1, 0, 1],
    )
    return Explanations(graphs, [[0.2, 0.9, 0.5], [1.0, 0.0], []], np.array(["b", "a", "b"]))


@pytest.fixture
def aligned() -> Explanations:
    """Three graphs on the same four named nodes; edge 2–3 is in the first only."""
    graphs = GraphSet.from_arrays(
        np.stack([matrix(4, {(0, 1): 1, (2, 3): 1}), matrix(4, {(0, 1): -1}), matrix(4, {(0, 1): 1})]),
        node_names=NAMES,
    )
    return Explanations(graphs, [[0.9, 0.6], [0.3], [0.0]])


@pytest.fixture(scope="module")
def world() -> GraphSet:
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 10, 60)
    x = [rng.normal(size=(n, 3)) + i % 2 for i, n in enumerate(sizes)]
    return GraphSet.from_arrays([random_matrix(rng, n, 0.5) for n in sizes], x, np.arange(60) % 2)


@pytest.fixture(scope="module")
def fitted(world: GraphSet) -> CIGNNClassifier:
    return tiny(epochs=8, learning_rate=0.02, ema_decay=0.0).fit(world)


# ---------------------------------------------------------------------- weights


def test_weights_lie_on_the_edges_and_are_symmetric(ragged: Explanations) -> None:
    edges = ragged.graphs.edges(0)
    expected = matrix(4, {tuple(edge): w for edge, w in zip(edges, [0.2, 0.9, 0.5], strict=True)})
    np.testing.assert_array_equal(ragged[0].weights, expected)
    assert ragged[2].weights.shape == (2, 2) and not ragged[2].weights.any()


def test_a_classifier_explains_every_edge_and_nothing_else(world: GraphSet, fitted: CIGNNClassifier) -> None:
    explanations = fitted.explain(world)
    assert isinstance(explanations, Explanations) and len(explanations) == len(world)
    for ex, graph in zip(explanations, world, strict=True):
        np.testing.assert_array_equal(ex.weights, ex.weights.T)
        assert ex.weights.shape == graph.weights.shape and not ex.weights.diagonal().any()
        np.testing.assert_array_equal(ex.weights != 0, graph.weights != 0)
        assert ex.weights.min() >= 0 and ex.weights.max() <= 1
    every = np.concatenate(explanations.edge_weights)
    assert every.size == world.n_edges.sum() and np.ptp(every) > 0.01
    np.testing.assert_array_equal(explanations.predictions, fitted.predict(world))


def test_relabelling_the_nodes_permutes_the_weights(world: GraphSet, fitted: CIGNNClassifier) -> None:
    rng = np.random.default_rng(1)
    orders = [rng.permutation(n) for n in world.n_nodes]
    moved = GraphSet.from_arrays(
        [graph.weights[np.ix_(order, order)] for graph, order in zip(world, orders, strict=True)],
        [graph.x[order] for graph, order in zip(world, orders, strict=True)],
    )
    np.testing.assert_allclose(fitted.predict_proba(moved), fitted.predict_proba(world), atol=1e-5)
    for ex, other, order in zip(fitted.explain(world), fitted.explain(moved), orders, strict=True):
        np.testing.assert_allclose(other.weights, ex.weights[np.ix_(order, order)], atol=1e-5)


# --------------------------------------------------------------------- indexing


KEYS = {
    "list": [2, 0],
    "negative": [-1],
    "slice": slice(1, None),
    "backwards": slice(None, None, -1),
    "mask": np.array([True, False, True]),
    "array": np.array([1, 1]),
    "empty": [],
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_indexing_picks_graphs_weights_and_predictions_together(ragged: Explanations, key: Any) -> None:
    some, expected = ragged[key], np.arange(3)[key]
    assert isinstance(some, Explanations) and len(some) == len(expected)
    np.testing.assert_array_equal(some.predictions, ragged.predictions[expected])
    np.testing.assert_array_equal(some.graphs.n_nodes, ragged.graphs.n_nodes[expected])
    for ex, i in zip(some, expected, strict=True):
        np.testing.assert_array_equal(ex.weights, ragged[int(i)].weights)


def test_a_number_gives_one_explanation(ragged: Explanations, aligned: Explanations) -> None:
    for i in (1, np.int64(1), -2):
        one = ragged[i]
        assert isinstance(one, Explanation)
        assert one.n_nodes == 3 and one.prediction == "a" and one.node_names is None
    assert aligned[0].prediction is None and aligned[0].node_names == NAMES
    assert len(list(ragged)) == 3
    with pytest.raises(IndexError):
        ragged[3]
    with pytest.raises(IndexError):
        ragged[[0, 3]]


def test_repr_tells_how_many_and_their_mean_weight(ragged: Explanations) -> None:
    assert repr(ragged) == "Explanations(3 graphs, mean edge weight 0.52)"
    assert repr(ragged[[]]).startswith("Explanations(0 graphs")
    assert repr(ragged[[2]]) == "Explanations(1 graphs, no edges)"


# -------------------------------------------------------------------- top edges


def test_top_edges_are_those_of_largest_weight_in_order(ragged: Explanations) -> None:
    table = ragged.top_edges(2)
    edges = ragged.graphs.edges(0)
    assert table.columns.tolist() == ["graph", "source", "target", "weight", "connectivity", "sign"]
    assert table["graph"].tolist() == [0, 0, 1, 1]
    assert table["connectivity"].tolist() == [0.5, -2.0, 1.0, 1.0] and table["sign"][1] == "−"
    assert table["weight"].tolist() == pytest.approx([0.9, 0.5, 1.0, 0.0])
    assert table[["source", "target"]].to_numpy()[:2].tolist() == [edges[1].tolist(), edges[2].tolist()]
    for row in table.itertuples():
        assert ragged[row.graph].weights[row.source, row.target] == row.weight


def test_more_edges_than_there_are_give_all_of_them(ragged: Explanations) -> None:
    table = ragged.top_edges(100)
    assert len(table) == 5 and table["graph"].tolist() == [0, 0, 0, 1, 1]
    assert len(ragged[2].top_edges(5)) == 0
    assert ragged[[]].top_edges(5).columns.tolist() == ["graph", "source", "target", "weight"]


def test_top_edges_speak_of_nodes_by_name(aligned: Explanations) -> None:
    expected = pd.DataFrame({"source": ["left", "front"], "target": ["right", "back"], "weight": [0.9, 0.6]})
    told = aligned[0].top_edges()
    pd.testing.assert_frame_equal(told[expected.columns.tolist()], expected, check_dtype=False)
    assert told["sign"].tolist() == ["+", "+"] and aligned[1].top_edges()["sign"].tolist() == ["−"]
    assert aligned.top_edges(1)["source"].tolist() == ["left"] * 3


@pytest.mark.parametrize("k", [0, -3, 2.5])
def test_no_edges_to_show_is_an_error(ragged: Explanations, k: Any) -> None:
    for asked in (ragged, ragged[0]):
        with pytest.raises(ValueError, match=f"k must be a whole number of at least 1, got {k}"):
            asked.top_edges(k)


# ----------------------------------------------------------------- groups, systems


@pytest.fixture
def cohort() -> Explanations:
    """Six complete graphs of four nodes in two systems; edge 0–1 has a large weight in the first three."""
    rng = np.random.default_rng(0)
    pairs = np.array(np.triu_indices(4, 1)).T
    weights = rng.uniform(0.1, 0.2, (6, len(pairs)))
    weights[:3, 0] += 0.7
    adj = np.stack([matrix(4, {(int(a), int(b)): -1 if a else 1 for a, b in pairs})] * 6)
    systems = {"system": np.array(["DMN", "DMN", "VIS", "VIS"])}
    return Explanations(GraphSet.from_arrays(adj, node_names=NAMES, node_meta=systems), list(weights))


def test_systems_are_named_beside_edges_and_averaged_within_and_between(cohort: Explanations) -> None:
    top = cohort.top_edges(1)
    assert top.loc[0, ["source_system", "target_system", "sign"]].tolist() == ["DMN", "DMN", "+"]
    table = cohort[0].by_system()
    assert table.index.tolist() == table.columns.tolist() == ["DMN", "VIS"]
    dense = cohort[0].weights
    assert table.loc["DMN", "DMN"] == pytest.approx(dense[0, 1])
    assert table.loc["VIS", "VIS"] == pytest.approx(dense[2, 3])
    assert table.loc["DMN", "VIS"] == table.loc["VIS", "DMN"] == pytest.approx(dense[:2, 2:].mean())
    pd.testing.assert_frame_equal(cohort.by_system(), cohort.mean().by_system())


def test_systems_nobody_named_are_an_error(aligned: Explanations) -> None:
    with pytest.raises(ValueError, match="the nodes have no systems"):
        aligned.by_system()


def test_groups_are_compared_edge_by_edge(cohort: Explanations) -> None:
    table = cohort.compare([0, 1, 2])
    first = table.iloc[0]
    assert (first["source"], first["target"]) == ("left", "right")
    assert first["difference"] == pytest.approx(first["weight"] - first["other"]) and first["p"] < 0.01
    assert first["weight"] == pytest.approx(np.mean([w[0] for w in cohort.edge_weights[:3]]))
    back = cohort.compare(slice(3, 6), [0, 1, 2])
    assert back["t"].iloc[0] == pytest.approx(-first["t"])
    with pytest.raises(ValueError, match="at least two graphs on each side, got 1 and 5"):
        cohort.compare([4])


def test_one_graph_is_held_against_its_group(cohort: Explanations) -> None:
    table = cohort.against_group(0, slice(3, 6))
    others = np.stack(cohort.edge_weights[3:])
    assert (table["source"][0], table["target"][0]) == ("left", "right")
    assert table["group_mean"][0] == pytest.approx(others[:, 0].mean())
    assert table["z"][0] == pytest.approx(
        (cohort.edge_weights[0][0] - others[:, 0].mean()) / others[:, 0].std(ddof=1), rel=1e-4
    )
    with pytest.raises(ValueError, match="a group needs at least two graphs, got 1"):
        cohort.against_group(0, [1])


def masks(n: int, shift: float, noise: float, subjects: list[str] | None = None) -> Explanations:
    """One mask of ten nodes for n graphs, noise on it, and a shift of its top edge in the first half."""
    rng = np.random.default_rng(0)
    pairs = np.array(np.triu_indices(10, 1)).T
    weights = rng.uniform(0.3, 0.6, len(pairs)) + rng.normal(0, noise, (n, len(pairs)))
    weights[: n // 2, 0] += shift
    meta = {} if subjects is None else {"subject": np.array(subjects)}
    adj = np.repeat(matrix(10, {(int(a), int(b)): 1.0 for a, b in pairs})[None], n, 0)
    return Explanations(GraphSet.from_arrays(adj, aligned=True, meta=meta), list(weights))


@pytest.mark.parametrize("noise", [0.0, 1e-7, 1e-5])
def test_one_mask_for_all_differs_nowhere_however_exactly_it_is_known(noise: float) -> None:
    one = masks(20, 2e-5, noise)
    table = one.compare(slice(10))
    assert (table["p"] == 1).all() and (table["t"] == 0).all()
    assert set(table["note"]) == {"no difference between graphs"}
    assert one.against_group(0)["z"].isna().all()


@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_a_real_difference_stays_significant_whatever_the_scale_of_the_weights(scale: float) -> None:
    real = masks(20, 0.1, 0.02)
    small = Explanations(real.graphs, [w * scale for w in real.edge_weights])
    table = small.compare(slice(10))
    assert table["note"][0] == "" and table["p"][0] < 1e-4 and table["difference"][0] > 0
    assert abs(small.against_group(0)["z"]).max() > 1


def test_a_difference_too_small_to_matter_is_none_however_many_were_compared() -> None:
    table = masks(4000, 3e-4, 2e-3).compare(slice(2000))
    assert (table["p"] == 1).all() and set(table["note"]) == {"negligible"}


def test_subjects_are_compared_not_their_scans() -> None:
    twice = [f"sub-{i // 2}" for i in range(20)]
    once = masks(20, 0.05, 0.05)
    doubled = Explanations(
        masks(20, 0.0, 0.0, twice).graphs, [once.edge_weights[2 * (i // 2)] for i in range(20)]
    )
    single = once[::2]
    by_subject, by_graph = doubled.compare(slice(10)), single.compare(slice(5))
    np.testing.assert_allclose(by_subject["p"], by_graph["p"], rtol=1e-6)
    np.testing.assert_allclose(doubled.against_group(0)["z"], single.against_group(0)["z"], rtol=1e-4)
    with pytest.raises(ValueError, match="at least two subjects on each side, got 1 and 9"):
        doubled.compare([0, 1])


# ------------------------------------------------------------------- group mean


def test_tables_can_show_another_connectivity_than_the_graphs_own(aligned: Explanations) -> None:
    values = np.full((len(aligned), 4, 4), -0.25)
    shown = aligned.with_connectivity(values)
    assert (shown.mean().connectivity == -0.25).all() and (shown[0].connectivity == -0.25).all()
    assert (shown[[1, 0]][0].top_edges(1)["sign"] == "−").all()
    np.testing.assert_array_equal(shown.connectivity_matrix(0) != 0, aligned.graphs.edge_matrix(0) != 0)
    with pytest.raises(ValueError, match="connectivity must be"):
        aligned.with_connectivity(values[:1])


def test_nodes_of_one_name_are_told_apart_by_number(aligned: Explanations) -> None:
    edges = np.array([[0, 1], [2, 3]])
    one = Explanation(edges, np.array([0.4, 0.2]), 4, ["a", "b", "a", "b"])
    assert one.table()[["source_node", "target_node"]].to_numpy().tolist() == edges.tolist()
    assert "source_node" not in aligned[0].table()


def test_the_group_mean_counts_an_absent_edge_as_zero(aligned: Explanations) -> None:
    mean = aligned.mean()
    np.testing.assert_allclose(mean.weights, matrix(4, {(0, 1): 0.4, (2, 3): 0.2}), atol=1e-6)
    assert mean.top_edges(1)[["source", "target"]].to_numpy().tolist() == [["left", "right"]]
    assert (mean.edges[:, 0] < mean.edges[:, 1]).all()


def test_the_group_mean_of_graphs_without_edges_has_none() -> None:
    bare = Explanations(GraphSet.from_arrays(np.zeros((2, 3, 3)), aligned=True), [[], []])
    assert len(bare.mean().edges) == len(bare.mean().top_edges(3)) == 0


def test_the_mean_of_one_is_itself(aligned: Explanations) -> None:
    np.testing.assert_allclose(aligned[[0]].mean().weights, aligned[0].weights)


def test_no_mean_without_aligned_nodes_or_graphs(ragged: Explanations, aligned: Explanations) -> None:
    with pytest.raises(ValueError, match="group mean needs aligned graphs"):
        ragged.mean()
    with pytest.raises(ValueError, match="at least one explanation, got none"):
        aligned[[]].mean()


# ------------------------------------------------------------ PyTorch Geometric


def test_pyg_gets_the_weight_of_each_direction(
    world: GraphSet, fitted: CIGNNClassifier, ragged: Explanations
) -> None:
    for explanations in (ragged, fitted.explain(world)):
        for theirs, ours, graph in zip(explanations.to_pyg(), explanations, explanations.graphs, strict=True):
            assert theirs.validate(raise_on_error=True)
            assert theirs.edge_mask.shape == (2 * len(ours.edges),)
            source, target = theirs.edge_index.numpy()
            np.testing.assert_array_equal(theirs.edge_mask.numpy(), ours.weights[source, target])
            assert set(zip(source.tolist(), target.tolist(), strict=True)) == {
                (i, j) for i, j in np.argwhere(graph.weights).tolist()
            }
            assert torch.equal(theirs.x, torch.from_numpy(graph.x))


# ----------------------------------------------------------------------- errors


def test_weights_that_do_not_fit_the_graphs_are_refused(ragged: Explanations) -> None:
    graphs = ragged.graphs
    with pytest.raises(ValueError, match="expected edge weights for 3 graphs, got 2"):
        Explanations(graphs, [[0.1] * 3, [0.1] * 2])
    with pytest.raises(ValueError, match=r"graph 1 has 2 edges, got weights of shape \(3,\)"):
        Explanations(graphs, [[0.1] * 3, [0.1] * 3, []])
    with pytest.raises(ValueError, match=r"graph 0 has 3 edges, got weights of shape \(1, 3\)"):
        Explanations(graphs, [[[0.1] * 3], [0.1] * 2, []])
    with pytest.raises(ValueError, match=r"expected 3 predictions, one per graph, got \(2,\)"):
        Explanations(graphs, ragged.edge_weights, np.array([0, 1]))


@pytest.mark.parametrize("bad", [1.5, -0.1, np.nan, np.inf])
def test_weights_outside_the_unit_interval_are_refused(ragged: Explanations, bad: float) -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], graph 1 has"):
        Explanations(ragged.graphs, [[0.0, 0.5, 1.0], [0.1, bad], []])


# ---------------------------------------------------------------- contributions


def told(n: int = 8, classes: tuple[str, ...] = ("control", "patient"), seed: int = 0) -> Explanations:
    """Complete graphs of five named nodes in two systems, with contributions to the predicted class."""
    rng = np.random.default_rng(seed)
    pairs = np.array(np.triu_indices(5, 1)).T
    values = rng.normal(size=(n, len(pairs)))
    adj = np.stack(
        [matrix(5, {(int(a), int(b)): v for (a, b), v in zip(pairs, row, strict=True)}) for row in values]
    )
    systems = {"system": np.array(["DMN", "DMN", "VIS", "VIS", "SMN"])}
    graphs = GraphSet.from_arrays(adj, node_names=[*NAMES, "top"], node_meta=systems)
    return Explanations(
        graphs,
        list(rng.uniform(size=values.shape)),
        np.array(classes)[np.arange(n) % len(classes)],
        edge_contributions=list(rng.normal(size=values.shape)),
        base=rng.normal(size=n),
        reference=EdgeReference.of(graphs[: n // 2], "control"),
        classes=np.array(classes),
    )


def test_base_and_contributions_add_up_to_the_log_odds_in_every_view() -> None:
    ex = told()
    assert ex.edge_contributions is not None and ex.base is not None
    for i, one in enumerate(ex):
        np.testing.assert_array_equal(one.contributions, one.contributions.T)
        total = ex.base[i] + one.contributions.sum() / 2
        assert one.log_odds == pytest.approx(total, rel=1e-5) == pytest.approx(ex.log_odds[i], rel=1e-5)
        assert one.select(one.ranking()[:3]).log_odds == pytest.approx(one.log_odds)
    turned = ex.towards("patient")
    assert turned.mean().log_odds == pytest.approx(turned.log_odds.mean(), rel=1e-5)
    table = turned.mean().system_table()
    assert turned.mean().base + table["contribution"].sum() == pytest.approx(turned.log_odds.mean(), rel=1e-5)


def test_edges_are_ranked_by_the_size_of_their_contribution_and_by_weight_on_request() -> None:
    one = told()[3]
    table = one.top_edges(4)
    assert table.columns.tolist()[:7] == [
        "source", "target", "contribution", "role", "deviation", "direction", "weight",
    ]  # fmt: skip
    sizes = np.sort(np.abs(one.edge_contributions))[::-1]
    np.testing.assert_array_equal(np.abs(table["contribution"]), sizes[:4])
    assert ((table["contribution"] > 0) == (table["role"] == "for")).all()
    assert ((table["deviation"] > 0) == (table["direction"] == "higher")).all()
    by_weight = one.top_edges(10, by="weight")["weight"]
    assert by_weight.is_monotonic_decreasing and len(by_weight) == len(one.edges)
    sides = [one.top_edges(10, side=side) for side in ("for", "against")]
    assert sum(map(len, sides)) == len(one.edges)
    assert (sides[0]["contribution"] > 0).all() and (sides[1]["contribution"] < 0).all()
    for bad, message in ({"by": "size"}, "by must be"), ({"side": "left"}, "side must be"):
        with pytest.raises(ValueError, match=message):
            one.top_edges(1, **bad)


def test_deviations_are_distances_in_standard_deviations_of_the_reference() -> None:
    ex = told(40)
    values = np.stack([ex.graphs.edge_values(i) for i in range(20)])
    deviations = np.stack([one.deviations for one in ex[:20]])
    np.testing.assert_allclose(
        deviations, (values - values.mean(0)) / values.std(0, ddof=1), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(ex[:20].mean().deviations, 0, atol=1e-5)
    flat = EdgeReference.of(GraphSet.from_arrays(np.ones((3, 2, 2)) - np.eye(2), aligned=True), "flat")
    assert np.isnan(flat.deviations(np.array([[0, 1]]), np.array([5.0]))).all()


@pytest.mark.parametrize("key", [[2, 0], slice(1, None), np.arange(8) % 3 == 0])
def test_indexing_and_another_connectivity_keep_contributions(key: Any) -> None:
    ex = told()
    some = ex[key].with_connectivity(np.zeros((len(ex[key]), 5, 5)))
    assert some.reference is ex.reference and (some.classes == ex.classes).all()
    for one, i in zip(some, np.arange(8)[key], strict=True):
        other = ex[int(i)]
        np.testing.assert_array_equal(one.edge_contributions, other.edge_contributions)
        np.testing.assert_array_equal(one.deviations, other.deviations)
        assert (one.base, one.explained, one.prediction) == (other.base, other.explained, other.prediction)


def test_what_speaks_for_one_of_two_classes_speaks_against_the_other() -> None:
    ex = told()
    there = ex.towards("patient")
    assert (there.explained == "patient").all() and (there.predictions == ex.predictions).all()
    np.testing.assert_allclose(there.towards("control").log_odds, -there.log_odds)
    same = ex.explained == "patient"
    np.testing.assert_allclose(there.log_odds, np.where(same, ex.log_odds, -ex.log_odds))
    assert there.towards("patient") is there
    with pytest.raises(ValueError, match="label must be"):
        ex.towards("somebody")


def test_with_three_classes_contributions_are_not_turned_and_group_views_say_so() -> None:
    ex = told(9, ("a", "b", "c"))
    with pytest.raises(ValueError, match="only where there are two, got 3 classes"):
        ex.towards("a")
    assert ex.mean().edge_contributions is None and "weight" in ex.compare(slice(4))
    with pytest.raises(ValueError, match="only where there are two"):
        ex.compare(slice(4), by="contribution", target="a")
    same = ex[ex.explained == "b"]
    assert same.mean().explained == "b" and same.mean().edge_contributions is not None
    unknown = Explanations(
        ex.graphs, ex.edge_weights, ex.predictions, edge_contributions=ex.edge_contributions, base=ex.base
    )
    with pytest.raises(ValueError, match="got unknown classes"):
        unknown.towards("a")


def test_systems_have_sums_for_against_and_net() -> None:
    one = told()[0]
    net, table = one.by_system(), one.system_table()
    source, target = one.edges.T
    own = (one.systems[source] == "DMN") & (one.systems[target] == "VIS")
    own |= (one.systems[source] == "VIS") & (one.systems[target] == "DMN")
    assert (
        net.loc["DMN", "VIS"]
        == net.loc["VIS", "DMN"]
        == pytest.approx(one.edge_contributions[own].sum(), rel=1e-5)
    )
    assert np.isnan(net.loc["SMN", "SMN"])  # one node: no edge within
    np.testing.assert_allclose(np.nansum(np.triu(net)), one.edge_contributions.sum(), rtol=1e-5)
    np.testing.assert_allclose(table["for"] + table["against"], table["contribution"])
    assert (table["for"] >= 0).all() and (table["against"] <= 0).all()
    assert table["n_edges"].sum() == len(one.edges) and np.abs(table["contribution"]).is_monotonic_decreasing
    both = told()
    signed = both.by_system(target="patient")
    np.testing.assert_allclose(both.by_system(target="control"), -signed, rtol=1e-5)
    own = np.mean([one.by_system() for one in both], axis=0)  # towards the class of each
    np.testing.assert_allclose(both.by_system(turn=False), own, rtol=1e-4, atol=1e-6)
    assert both.system_table(turn=False)["n_edges"].sum() == len(one.edges)


def test_mean_weights_of_systems_are_there_on_request() -> None:
    one = told()[0]
    source, target = one.edges.T
    own = np.isin(one.systems[source], ["DMN", "VIS"]) & np.isin(one.systems[target], ["DMN", "VIS"])
    own &= one.systems[source] != one.systems[target]
    weights = one.by_system(by="weight")
    assert weights.loc["DMN", "VIS"] == pytest.approx(one.edge_weights[own].mean(), rel=1e-5)


def test_groups_are_compared_by_contributions_towards_one_class() -> None:
    ex = told(20)
    table = ex.compare(slice(10))
    values = ex.aligned_contributions("patient").contributions
    row = table.iloc[0]
    at = [*ex.graphs.node_names].index(row["source"]), [*ex.graphs.node_names].index(row["target"])
    edge = np.flatnonzero((ex.graphs.edges(0) == at).all(1))[0]
    assert row["contribution"] == pytest.approx(values[:10, edge].mean(), rel=1e-4)
    assert row["other"] == pytest.approx(values[10:, edge].mean(), rel=1e-4)
    assert table.columns.tolist()[2:6] == ["contribution", "role", "deviation", "direction"]
    np.testing.assert_allclose(ex.compare(slice(10), target="control")["t"], -table["t"], rtol=1e-6)
    by_weight = ex.compare(slice(10), by="weight")
    assert by_weight.columns.tolist()[:2] == ["source", "target"] and "contribution" not in by_weight


def test_one_graph_against_its_group_counts_towards_its_own_class() -> None:
    ex = told(20)
    table = ex.against_group(3)
    assert ex.explained[3] == "patient"
    expected = np.sort(np.abs(ex.edge_contributions[3]))[::-1]
    np.testing.assert_allclose(np.abs(table["contribution"]), expected)
    values = ex.aligned_contributions("patient").contributions
    others = np.delete(values, 3, 0)
    z = (values[3] - others.mean(0)) / others.std(0, ddof=1)
    order = np.argsort(-np.abs(values[3]), kind="stable")
    np.testing.assert_allclose(table["z"], z[order], rtol=1e-4)


def test_contributions_that_are_the_same_for_everyone_are_no_finding() -> None:
    ex = told(20)
    assert ex.edge_contributions is not None
    rng = np.random.default_rng(1)
    flat = [ex.edge_contributions[0] + rng.normal(0, 1e-6, 10) for _ in range(20)]
    same = Explanations(
        ex.graphs,
        ex.edge_weights,
        edge_contributions=flat,
        base=np.zeros(20),
        explained=np.full(20, "patient"),
    )
    table = same.compare(slice(10))
    assert (table["p"] == 1).all() and set(table["note"]) == {"no difference between graphs"}
    assert same.against_group(0)["z"].isna().all()


def test_pyg_gets_contributions_on_both_directions() -> None:
    ex = told(2)
    for theirs, ours in zip(ex.to_pyg(), ex, strict=True):
        assert theirs.validate(raise_on_error=True)
        source, target = theirs.edge_index.numpy()
        np.testing.assert_array_equal(theirs.edge_contributions.numpy(), ours.contributions[source, target])
        assert theirs.base.item() == pytest.approx(ours.base)


def test_contributions_that_do_not_fit_are_refused(ragged: Explanations, cohort: Explanations) -> None:
    graphs, weights, given = ragged.graphs, ragged.edge_weights, [[0.1] * 3, [-0.1] * 2, []]
    build = functools.partial(Explanations, graphs, weights, ragged.predictions)
    assert build(edge_contributions=given, base=[0.0] * 3).log_odds == pytest.approx([0.3, -0.2, 0])
    with pytest.raises(ValueError, match="expected edge contributions for 3 graphs, got 2"):
        build(edge_contributions=given[:2], base=[0.0] * 3)
    with pytest.raises(ValueError, match=r"graph 1 has 2 edges, got contributions of shape \(1,\)"):
        build(edge_contributions=[given[0], [1.0], []], base=[0.0] * 3)
    with pytest.raises(ValueError, match="must be finite, those of graph 1"):
        build(edge_contributions=[given[0], [1.0, np.nan], []], base=[0.0] * 3)
    with pytest.raises(ValueError, match="need base beside them"):
        build(edge_contributions=given)
    with pytest.raises(ValueError, match="need explained or predictions"):
        Explanations(graphs, weights, edge_contributions=given, base=[0.0] * 3)
    with pytest.raises(ValueError, match="not aligned"):
        build(reference=EdgeReference(np.zeros((4, 4)), np.ones((4, 4)), "a"))
    with pytest.raises(ValueError, match=r"mean of reference must be of shape \(4, 4\)"):
        Explanations(cohort.graphs, cohort.edge_weights, reference=EdgeReference(*np.ones((2, 3, 3)), "a"))
    for ask in (lambda ex: ex.log_odds, lambda ex: ex[0].contributions, lambda ex: ex.top_edges(side="for")):
        with pytest.raises(ValueError, match="weights alone, no contributions"):
            ask(ragged)
