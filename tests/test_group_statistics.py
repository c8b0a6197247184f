"""Statistics of maps of connections: stability selection, permuted labels, systems, components, nuisances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from cignn._arrays import symmetric, upper_pairs, upper_triangle
from cignn.explanations.group_statistics import (
    connected_components,
    enrichment,
    nuisance_correlation,
    q_values,
    rank_correlation,
    standardised,
)
from cignn.explanations.stability import (
    false_selection_bound,
    largest,
    r_concave_tails,
    selection_frequencies,
    top_count,
)


def test_largest_marks_k_by_size_and_none_of_those_that_tie_for_the_last_place():
    values = np.array([[3.0, -5.0, 1.0, 0.0], [1.0, 2.0, -1.0, 0.0]])
    assert largest(values, 2).tolist() == [[True, True, False, False], [False, True, False, False]]
    assert largest(values, 0).sum() == 0
    assert largest(values, 4).tolist() == (values != 0).tolist()
    assert top_count(6670) == 100 and top_count(780) == 39 and top_count(3) == 1


def test_frequencies_count_half_samples_and_pairs():
    maps = np.random.default_rng(0).normal(size=(12, 30))
    single, simultaneous = selection_frequencies(maps, 4)
    sets = [set(np.argsort(-np.abs(one))[:4]) for one in maps]
    assert_allclose(single, [np.mean([i in one for one in sets]) for i in range(30)])
    both = [sets[2 * j] & sets[2 * j + 1] for j in range(6)]
    assert_allclose(simultaneous, [np.mean([i in one for one in both]) for i in range(30)])
    assert single.sum() == pytest.approx(4)
    assert (simultaneous <= single + 1e-12).all() and (simultaneous >= 2 * single - 1 - 1e-12).all()
    # swapping the halves of a pair, or pairs with each other, changes nothing
    assert_array_equal(selection_frequencies(maps[::-1], 4), (single, simultaneous))
    with pytest.raises(ValueError, match="complementary pairs"):
        selection_frequencies(maps[:5], 4)


def test_bounds_agree_with_published_numbers():
    # R package stabs, bodyfat data: p = 9, q = 2, cutoff 0.75, 50 pairs, unimodal: PFER 0.454
    assert false_selection_bound(0.75, 2, 9, 50, "unimodal") == pytest.approx(0.454, abs=5e-4)
    # Meinshausen and Bühlmann: q² / ((2τ - 1) p)
    assert false_selection_bound(0.9, 50, 1000, 50, "none") == pytest.approx(50**2 / (0.8 * 1000))
    # theorem 2 at τ = 1: 2 / (B + 1) of q² / p
    assert false_selection_bound(1.0, 50, 1000, 50, "unimodal") == pytest.approx(2 / 51 * 2.5)


@pytest.mark.parametrize("k, e", [(1, 45), (15, 300), (100, 6670)])
def test_bounds_fall_with_the_threshold_and_with_stronger_assumptions(k, e):
    tau = np.linspace(0.55, 1, 19)
    none, unimodal, concave = (
        false_selection_bound(tau, k, e, 50, how) for how in ("none", "unimodal", "r-concave")
    )
    for bound in (none, unimodal, concave):
        assert (np.diff(bound) <= 1e-12).all()
        assert (bound > 0).all()
    assert (unimodal <= none).all() and (concave <= unimodal).all()
    every = false_selection_bound(np.linspace(0, 1, 101), k, e, 50)
    assert every[0] == e and (every <= e).all()
    assert (false_selection_bound([0.5, 0.2], k, e, 50, "none") == e).all()


@pytest.mark.parametrize("r", [-0.5, -0.25])
def test_no_r_concave_distribution_exceeds_its_bound_and_one_reaches_it(r):
    random, steps = np.random.default_rng(0), np.arange(21)
    closest = 1.0
    for _ in range(400):
        ends = 21 if random.random() < 0.3 else random.integers(3, 21)
        slopes = np.sort(random.normal(random.uniform(0, 1), random.uniform(0, 0.3), ends - 1))
        convex = np.concatenate([[0], np.cumsum(slopes)])
        convex += random.exponential(0.5) + 1e-3 - convex.min()
        mass = np.zeros(21)
        mass[:ends] = convex ** (1 / r)  # r < 0: f^r is convex
        mass /= mass.sum()
        mean = mass @ steps / 20
        tails = r_concave_tails(float(mean), 20, r)
        own = np.concatenate([[1], 1 - np.cumsum(mass)[:-1]])
        assert (own <= tails * (1 + 1e-3) + 1e-9).all()
        inside = own > 1e-6
        closest = min(closest, float((1 - own / tails)[inside & (tails < 1)].min(initial=1.0)))
    assert closest < 0.2


def test_false_selections_of_noise_stay_below_the_bound():
    random, pairs, k, e, n = np.random.default_rng(1), 25, 15, 300, 60
    thresholds = np.array([0.5, 0.6, 0.75, 0.9])
    counts = np.zeros(len(thresholds))
    labels = np.repeat([-1.0, 1.0], n // 2)
    for _ in range(30):
        noise = random.normal(size=(n, e))
        halves = []
        for _ in range(pairs):
            order = np.concatenate([random.permutation(n // 2), n // 2 + random.permutation(n // 2)])
            first = np.concatenate([order[: n // 4], order[n // 2 : 3 * n // 4]])
            inside = np.isin(np.arange(n), first)
            halves += [inside * labels, ~inside * labels]
        single = selection_frequencies(np.stack(halves) @ noise, k).single
        counts += (single >= thresholds[:, None]).sum(1) / 30
    for how in ("none", "unimodal", "r-concave"):
        assert (counts <= 1.1 * false_selection_bound(thresholds, k, e, pairs, how)).all()


def test_q_values_pool_the_null_and_adjust_as_benjamini_and_hochberg():
    random = np.random.default_rng(0)
    observed, null = random.normal(size=20) * 2, random.normal(size=(7, 20))
    p, q = q_values(observed, null)
    brute = [(1 + (np.abs(null) >= abs(one)).sum()) / (1 + null.size) for one in observed]
    assert_allclose(p, brute)
    order = np.argsort(p)
    steps = p[order] * 20 / np.arange(1, 21)
    assert_allclose(q[order], np.minimum.accumulate(steps[::-1])[::-1].clip(max=1))
    upper = q_values(observed, null, two_sided=False).p
    assert (upper[observed < -2] > 0.9).all()
    assert_allclose(q_values(-observed, null).q, q)


def test_p_values_of_noise_are_uniform_with_and_without_scaling():
    random = np.random.default_rng(2)
    spread = np.exp(random.normal(size=400) * 0.5)
    for scale, factor in ((False, 1.0), (True, 1.0), (True, spread)):
        p = np.concatenate(
            [
                q_values(
                    factor * random.normal(size=400), factor * random.normal(size=(19, 400)), scale=scale
                ).p
                for _ in range(30)
            ]
        )
        assert stats.kstest(p, "uniform").statistic < 0.03
        assert (p < 0.01).mean() < 0.015


def test_false_discoveries_stay_below_alpha_and_scaling_protects_connections_of_small_spread():
    random, shares, caught = np.random.default_rng(3), {True: [], False: []}, {True: 0, False: 0}
    spread = np.where(np.arange(500) < 50, 4.0, 1.0)
    planted = np.arange(500) >= 470
    for _ in range(40):
        observed = spread * random.normal(size=500) + 6.0 * planted
        null = spread * random.normal(size=(20, 500))
        for scale in (True, False):
            selected = q_values(observed, null, scale=scale).q <= 0.1
            shares[scale].append((selected & ~planted).sum() / max(1, selected.sum()))
            caught[scale] += (selected & planted).sum()
    assert np.mean(shares[True]) < 0.14
    assert caught[True] > 2 * caught[False]


def test_standardising_leaves_one_scale_alone_and_removes_the_others():
    random = np.random.default_rng(4)
    spread = np.linspace(0.2, 5, 300)
    scores = standardised(spread * random.normal(size=300), spread * random.normal(size=(200, 300)))
    assert_allclose(scores.null.std(0), 1, atol=0.3)
    even = standardised(np.ones(300), random.normal(size=(30, 300)))
    assert np.ptp(even.observed) < 0.6  # a spread that chance explains is shrunk away
    shifted = standardised(np.full(300, 7.0), 7 + random.normal(size=(50, 300)), two_sided=False)
    assert_allclose(shifted.observed, 0, atol=0.8)


def test_enrichment_is_the_mean_of_each_pair_of_systems_against_the_null():
    random = np.random.default_rng(5)
    systems = np.array(["visual", "motor", "default"])[random.integers(0, 3, 15)]
    values, null = random.normal(size=105), random.normal(size=(199, 105))
    pairs = upper_pairs(15)
    inside = (systems[pairs] == "visual").all(1)
    values[inside] -= 1.5
    table = enrichment(values, systems, null)
    first = table.iloc[0]
    assert (first["source_system"], first["target_system"], first["n"]) == ("visual", "visual", inside.sum())
    assert first["mean"] == pytest.approx(values[inside].mean())
    sizes = np.abs(null[:, inside]).mean(1) / np.abs(null).mean(1)
    own = np.abs(values[inside]).mean() / np.abs(values).mean()
    assert first["enrichment"] == pytest.approx((own - sizes.mean()) / sizes.std(ddof=1))
    assert first["p"] == (1 + (sizes >= own).sum()) / 200
    # a map that is larger everywhere is not enriched anywhere
    assert_allclose(enrichment(10 * values, systems, null)["p"], table["p"])
    assert first["shift"] < -3 and first["shift_p"] <= 0.01
    assert table["n"].sum() == 105 and len(table) == 6
    assert_allclose(np.sort(stats.false_discovery_control(table["p"])), np.sort(table["q"]))
    assert enrichment(values, systems, null, pool=True)["p"].min() < 0.005
    # nodes in another order, with their systems: the same table
    order = random.permutation(15)

    def moved(one):
        return upper_triangle(symmetric(one, np.zeros((*one.shape[:-1], 15, 15)))[..., order, :][..., order])

    again = enrichment(moved(values), systems[order], moved(null))
    assert_allclose(again["p"], table["p"])
    assert_allclose(again["mean"], table["mean"])


def test_enrichment_of_noise_has_uniform_p_values():
    random, systems = np.random.default_rng(6), np.repeat(["a", "b", "c"], 4)
    for pool in (False, True):
        tables = [
            enrichment(random.normal(size=66), systems, random.normal(size=(19, 66)), pool) for _ in range(60)
        ]
        p = np.concatenate([table[name] for table in tables for name in ("p", "shift_p")])
        assert 0.03 < (p <= 0.1).mean() < 0.17


def test_components_are_networks_of_selected_connections():
    pairs = upper_pairs(7).tolist()
    selected = np.isin(range(21), [pairs.index(pair) for pair in ([0, 1], [1, 2], [0, 2], [4, 6])])
    null = np.zeros((4, 21), bool)
    null[0, [pairs.index(pair) for pair in ([0, 1], [1, 2], [2, 3], [3, 4])]] = True
    null[1, pairs.index([0, 5])] = True
    table = connected_components(selected, 7, null)
    assert table["nodes"].tolist() == [(0, 1, 2), (4, 6)]
    assert table["n_edges"].tolist() == [3, 1] and table["n_nodes"].tolist() == [3, 2]
    assert table["p"].tolist() == [2 / 5, 3 / 5]
    assert connected_components(np.zeros(21, bool), 7).empty
    with pytest.raises(ValueError, match="7 nodes have 21 connections"):
        connected_components(np.zeros(20, bool), 7)


def test_nuisances_are_compared_with_their_sign_where_they_have_one():
    random = np.random.default_rng(7)
    values = random.normal(size=500)
    table = nuisance_correlation(
        values, {"motion": -values, "site": np.abs(values), "age": random.normal(size=500)}
    ).set_index("nuisance")
    assert table.loc["motion", "rho"] == pytest.approx(-1) and table.loc["site", "rho"] == pytest.approx(1)
    assert table["flag"].tolist() == [True, True, False]
    assert rank_correlation(values, np.ones(500)) == 0
    assert rank_correlation(values, values**3 + random.normal(size=500)) == pytest.approx(
        stats.spearmanr(values, values**3 + 0).statistic, abs=0.5
    )
    with pytest.raises(ValueError, match="the map of motion must have 500 values"):
        nuisance_correlation(values, {"motion": np.ones(3)})


def test_maps_that_are_not_finite_or_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="maps must be finite"):
        q_values(np.array([1.0, np.nan]), np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"maps under permuted labels \(P, e\)"):
        q_values(np.zeros(3), np.zeros((3, 2)))
