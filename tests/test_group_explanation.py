"""`GroupExplanation`: the table of connections, words, files."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cignn import GroupExplanation
from cignn._arrays import upper_triangle

N, E = 20, 190
SYSTEMS = np.repeat(["default", "motor", "visual", "frontal"], 5)


def make_group(effect=8.0, n_permutations=30, seed=0, **options):
    random = np.random.default_rng(seed)
    planted = np.zeros(E)
    planted[:6] = effect * np.array([1, 1, -1, 1, -1, 1])
    given = {
        "effects": planted / 10,
        "systems": SYSTEMS,
        "node_names": [f"region {i}" for i in range(N)],
        "nuisances": {"motion": planted + random.normal(size=E), "site": random.random(E)},
        "classes": ("control", "patient"),
        "n_subjects": 120,
        "reason": "It came back more often on inner halves.",
    }
    return GroupExplanation.from_maps(
        planted + random.normal(size=E),
        planted + random.normal(size=(40, E)),
        random.normal(size=(n_permutations, E)),
        **{**given, **options},
    )


def test_table_ranks_connections_and_marks_those_that_survive():
    group = make_group()
    table = group.table
    assert len(table) == E
    assert (np.diff(np.abs(table["value"])) <= 0).all()
    assert set(table["target"][:6]) == {f"region {i}" for i in range(1, 7)}
    assert table["selected"][:6].all() and group.n_selected == table["selected"].sum()
    assert_array_equal(table["selected"], table["q"] <= 0.1)
    assert (table["direction"][:6] == np.where(table["effect"][:6] > 0, "higher", "lower")).all()
    assert (table["selection"][:6] == 1).all() and (table["bound"][:6] < 0.1).all()
    assert table["contribution"].isna().all()
    assert group.p == 1 / 31 and make_group(effect=0.0, seed=1).p > 0.1
    assert group.components["nodes"][0].startswith("region 0; region 1; ")
    assert_allclose(group.map, group.map.T)
    assert_allclose(np.sort(upper_triangle(group.map)), np.sort(table["value"]))
    assert_array_equal(group.pattern, group.map)


def test_matrices_of_columns_belong_to_the_nodes_of_the_map():
    group = make_group()
    assert_array_equal(group.matrix("value")[0, 1:], group.map[0, 1:])
    assert group.matrix("selected")[0, 1:7].all() and group.matrix("selected")[1:7, 0].all()
    assert not group.matrix("selected").diagonal().any()
    assert group.matrix("direction")[0, 3] == "lower"
    assert np.isnan(group.matrix("q").diagonal()).all()


def test_summary_says_what_survives_within_the_width():
    text = make_group().summary()
    assert max(map(len, text.splitlines())) <= 80
    for words in ("patient against control: 120 subjects", "survive at q ≤ 0.1", "Reading: use", "inner"):
        assert words in text
    assert "default–default" in text and "Stability: " in text and "Networks: " in text
    assert "WARNING" not in text


def test_summary_says_plainly_that_nothing_survives():
    group = make_group(effect=0.0, seed=1)
    assert group.n_selected == 0 and group.components.empty
    assert "nothing survives at q ≤ 0.1" in group.summary()
    untested = make_group(n_permutations=0)
    assert untested.table["q"].isna().all() and not untested.table["selected"].any()
    assert "not tested, because no labels were permuted" in untested.summary()


def test_a_map_without_signs_says_nothing_about_the_direction_of_systems():
    random = np.random.default_rng(0)
    within = np.equal.outer(SYSTEMS, SYSTEMS)[np.triu_indices(N, 1)]
    values, halves, null = (np.abs(random.normal(size=size)) for size in (E, (4, E), (40, E)))
    group = GroupExplanation.from_maps(values + 3 * within, halves, null, systems=SYSTEMS)
    assert (group.systems["shift_q"] <= 0.1).any() and "Systems higher" not in group.summary()


def test_resembling_a_nuisance_is_a_warning():
    group = make_group()
    group = make_group(nuisances={"motion": -upper_triangle(group.map)})
    assert group.nuisance["flag"].tolist() == [True]
    assert "WARNING: the map resembles that of motion" in group.summary()


def test_nothing_is_selected_on_noise_in_most_cohorts():
    some = [make_group(effect=0.0, seed=seed, nuisances={}).n_selected > 0 for seed in range(40)]
    assert np.mean(some) < 0.25  # at alpha = 0.1


@pytest.mark.parametrize(
    "options", [{}, {"effect": 0.0, "systems": None, "nuisances": {}, "classes": (0, 1)}]
)
def test_what_is_saved_comes_back(tmp_path, options):
    group = make_group(**options)
    again = GroupExplanation.load(group.save(tmp_path / "group.npz"))
    for name in ("table", "systems", "components", "nuisance"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(group, name), check_dtype=False)
    for name in ("map", "pattern", "use"):
        assert_array_equal(getattr(again, name), getattr(group, name))
    assert again.summary() == group.summary() and repr(again) == repr(group)


def test_files_of_another_kind_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", values=np.ones(3))
    with pytest.raises(ValueError, match=r"is not a group explanation; write it with GroupExplanation\.save"):
        GroupExplanation.load(tmp_path / "other.npz")


def test_tables_are_written_as_csv(tmp_path):
    group = make_group()
    paths = group.to_csv(tmp_path / "out")
    assert [path.name for path in paths] == [
        "connections.csv",
        "systems.csv",
        "components.csv",
        "nuisance.csv",
    ]
    assert pd.read_csv(paths[0])["selected"].sum() == group.n_selected
    assert len(pd.read_csv(paths[1])) == 10


def test_names_that_repeat_come_with_node_numbers_and_wrong_sizes_are_refused():
    table = make_group(node_names=["same"] * N).table
    assert {"source_node", "target_node"} <= set(table)
    with pytest.raises(ValueError, match="node_names must have 20 entries"):
        make_group(node_names=["a"])
    with pytest.raises(ValueError, match=r"a map must have n \(n - 1\) / 2 values"):
        GroupExplanation.from_maps(np.ones(4), np.ones((2, 4)), np.ones((2, 4)))
