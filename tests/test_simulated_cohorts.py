"""Simulated cohorts: effects lie where the truth says, as large as asked, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cignn import Cohort
from cignn.datasets import make_cohort, plant_edges


def fisher_z(cohort: Cohort) -> np.ndarray:
    """(n, pairs)"""
    if cohort.matrices is not None:
        matrices = cohort.matrices
    else:
        matrices = np.stack([np.corrcoef(one, rowvar=False) for one in cohort.series])
    above = np.triu_indices(cohort.n_rois, 1)
    return np.arctanh(matrices[:, above[0], above[1]])


def difference(cohort: Cohort, split: np.ndarray) -> np.ndarray:
    z = fisher_z(cohort)
    return z[split].mean(0) - z[~split].mean(0)


def truth(cohort: Cohort, name: str = "edge_truth") -> np.ndarray:
    return getattr(cohort, name)[np.triu_indices(cohort.n_rois, 1)]


@pytest.mark.parametrize("n_rois", [90, 116, 200])
@pytest.mark.parametrize(("kind", "least"), [("series", 0.8), ("matrices", 0.9)])
def test_planted_edges_and_no_others_differ(n_rois: int, kind: str, least: float) -> None:
    made = make_cohort(120, n_rois, n_edges=30, effect=0.4, data=kind, random_state=0)
    planted = truth(made)
    gap = difference(made, made.y == 1)
    assert made.n_rois == n_rois and planted.sum() == 30 and not made.edge_truth.diagonal().any()
    assert np.bincount(made.y).tolist() == [60, 60]
    assert least * 0.4 < np.abs(gap[planted]).mean() < 1.1 * 0.4
    assert (gap[planted] > 0).any() and (gap[planted] < 0).any()
    assert np.abs(gap[~planted]).mean() < 0.05
    assert made.site_truth is None


def test_effect_in_matrices_is_exact() -> None:
    plain = make_cohort(20, 40, n_edges=10, effect=0.0, data="matrices", random_state=3)
    moved = make_cohort(20, 40, n_edges=10, effect=0.2, data="matrices", random_state=3)
    shift = fisher_z(moved) - fisher_z(plain)
    np.testing.assert_allclose(np.abs(shift[plain.y == 1][:, truth(moved)]), 0.2, atol=1e-3)
    assert np.abs(shift[plain.y == 0]).max() < 1e-6 and np.abs(shift[:, ~truth(moved)]).max() < 1e-6


def test_only_some_patients_are_affected() -> None:
    plain = make_cohort(40, 30, n_edges=5, effect=0.0, data="matrices", random_state=3)
    moved = make_cohort(40, 30, n_edges=5, effect=0.2, affected=0.25, data="matrices", random_state=3)
    changed = np.abs(fisher_z(moved) - fisher_z(plain)).max(1) > 0.1
    assert changed.sum() == 5 and (moved.y[changed] == 1).all()


@pytest.mark.parametrize("kind", ["series", "matrices"])
def test_confounded_sites(kind: str) -> None:
    made = make_cohort(
        200, 60, n_edges=20, effect=0.3, site_effect=0.6, n_site_edges=25, n_sites=2, confounded=0.8,
        data=kind, random_state=1,
    )  # fmt: skip
    first = made.sites == "site-1"
    assert first[made.y == 1].mean() == 0.8 and first[made.y == 0].mean() == pytest.approx(0.2)
    of_site = truth(made, "site_truth")
    whole = make_cohort(8, 20, n_edges=2, n_sites=2, confounded=1.0, random_state=0)
    assert ((whole.sites == "site-1") == (whole.y == 1)).all()
    assert of_site.sum() == 25 and not (of_site & truth(made)).any()
    within = difference(made[made.y == 0], first[made.y == 0])
    assert 0.45 < np.abs(within[of_site]).mean() < 0.65
    assert np.abs(within[truth(made)]).mean() < 0.1
    between = np.abs(difference(made, made.y == 1))
    assert between[of_site].mean() > 0.2, "the site's edges go with the label"


def test_sites_have_nothing_to_do_with_the_label_by_default() -> None:
    made = make_cohort(120, 20, n_edges=5, n_sites=3, random_state=0)
    for label in (0, 1):
        assert np.unique(made.sites[made.y == label], return_counts=True)[1].tolist() == [20, 20, 20]
    assert set(make_cohort(10, 20, n_edges=5, n_sites=1, random_state=0).sites) == {"site-1"}


def test_series_look_like_signals() -> None:
    made = make_cohort(30, 50, n_edges=10, lengths=(60, 200), random_state=0)
    assert made.lengths.min() >= 60 and made.lengths.max() <= 200 and len(set(made.lengths)) > 10
    assert 0.8 < np.mean([one.std() for one in made.series]) < 1.2
    lagged = [np.corrcoef(one[1:].ravel(), one[:-1].ravel())[0, 1] for one in made.series]
    assert min(lagged) > 0.3
    z = fisher_z(made)
    same = made.atlas.systems[:, None] == made.atlas.systems
    within = same[np.triu_indices(50, 1)]
    assert z[:, within].mean() > z[:, ~within].mean() + 0.1, "networks hold together"
    assert np.corrcoef(z[0], z[1])[0, 1] < 0.99 and z.std(0).mean() > 0.1, "subjects differ"


def test_motion_raises_connectivity_with_displacement() -> None:
    still = make_cohort(60, 30, n_edges=0, random_state=0)
    moving = make_cohort(60, 30, n_edges=0, motion=3.0, random_state=0)
    mean = fisher_z(moving).mean(1)
    assert mean.mean() > fisher_z(still).mean() + 0.1
    assert np.corrcoef(mean, moving.covariates["mean_fd"])[0, 1] > 0.4


def test_same_seed_same_cohort() -> None:
    made = [make_cohort(8, 20, n_edges=4, random_state=seed).digest() for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


def test_aal_names_for_116_rois() -> None:
    made = make_cohort(4, random_state=0)
    assert made.roi_names[0] == "Precentral_L" and made.atlas.coordinates.shape == (116, 3)


def planted_and_plain(where: str, effect: float = 0.2, **options: Any) -> tuple[Cohort, Cohort]:
    """60 subjects and 30 ROIs, matrices, with planted edges and the same ones without."""
    if where == "simulated":
        size = {"n_subjects": 60, "n_rois": 30, "n_edges": 6, "data": "matrices", "random_state": 3}
        return make_cohort(effect=effect, **size, **options), make_cohort(effect=0, **size, **options)
    base = make_cohort(60, 30, n_edges=0, data="matrices", random_state=3)
    return plant_edges(base, 6, effect, random_state=3, **options), base


WHERE = pytest.mark.parametrize("where", ["simulated", "planted"])


@WHERE
def test_every_patient_carries_one_of_disjoint_sets(where: str) -> None:
    made, plain = planted_and_plain(where, subtypes=3)
    assert made.edge_sets.shape == (3, 30, 30) and made.edge_sets.sum((1, 2)).tolist() == [12, 12, 12]
    np.testing.assert_array_equal(made.edge_sets.sum(0), made.edge_truth)
    assert (made.carries[made.y == 0] == 0).all() and (made.carries[made.y == 1].sum(1) == 1).all()
    assert made.carries.sum(0).tolist() == [10, 10, 10] and made.carries.dtype == np.int8
    moved = np.abs(fisher_z(made) - fisher_z(plain)) > 0.1
    own = np.stack([made.subject_truth(i)[np.triu_indices(30, 1)] for i in range(60)])
    np.testing.assert_array_equal(moved, own)


@WHERE
@pytest.mark.parametrize("subtypes", [1, 2])
def test_no_mean_differs_where_sets_move_in_either_direction(where: str, subtypes: int) -> None:
    made, plain = planted_and_plain(where, subtypes=subtypes, either_direction=True, affected=0.8)
    shift = fisher_z(made) - fisher_z(plain)
    np.testing.assert_allclose(shift[made.y == 1].mean(0), 0, atol=1e-4)
    for i in np.flatnonzero(made.carries.any(1)):
        own = shift[i][made.subject_truth(i)[np.triu_indices(30, 1)]]
        np.testing.assert_allclose(np.abs(own), 0.2, atol=1e-3)
    first = made.edge_sets[0][np.triu_indices(30, 1)]
    up, down = (shift[made.carries[:, 0] == sign][:, first] for sign in (1, -1))
    np.testing.assert_allclose(up, np.broadcast_to(-down[0], up.shape), atol=1e-3)
    assert len(up) == len(down) > 0


@WHERE
def test_a_cohort_remembers_who_carries_what(where: str) -> None:
    made, plain = planted_and_plain(where, affected=0.4)
    carriers = (np.abs(fisher_z(made) - fisher_z(plain)) > 0.1).any(1)
    np.testing.assert_array_equal(made.carries[:, 0] != 0, carriers)
    assert carriers.sum() == 12 and (made.y[carriers] == 1).all()
    assert not made.subject_truth(int(np.flatnonzero(~carriers)[0])).any()


def partial(correlation: np.ndarray, shrinkage: float) -> np.ndarray:
    """(R, R) partial correlations in Fisher z."""
    shrunk = (1 - shrinkage) * correlation.astype(float)
    np.fill_diagonal(shrunk, 1)
    precision = np.linalg.inv(shrunk)
    scale = np.sqrt(np.diag(precision))
    return np.arctanh(-precision / scale / scale[:, None] * (1 - np.eye(len(scale))))


@WHERE
@pytest.mark.parametrize("either", [False, True])
def test_partial_correlations_differ_at_direct_edges_alone(where: str, either: bool) -> None:
    made, plain = planted_and_plain(where, direct=True, effect=0.01, either_direction=either)
    change = np.stack(
        [partial(a, 0.1) - partial(b, 0.1) for a, b in zip(made.matrices, plain.matrices, strict=True)]
    )
    carriers = made.carries[:, 0] != 0
    assert np.abs(change[~carriers]).max() < 1e-4 and np.abs(change[:, ~made.edge_truth]).max() < 1e-4
    np.testing.assert_allclose(np.abs(change[carriers][:, made.edge_truth]), 0.01, atol=1e-4)
    followed = np.abs(made.matrices - plain.matrices)[carriers].mean(0)
    assert (followed[~made.edge_truth & ~np.eye(30, dtype=bool)] > 0).all(), "correlations follow"
    assert not (made.induced_truth & made.edge_truth).any() and not made.induced_truth.diagonal().any()
    if made.induced_truth.any():
        others = ~(made.induced_truth | made.edge_truth | np.eye(30, dtype=bool))
        assert followed[made.induced_truth].mean() > followed[others].mean()


def test_direct_effects_that_are_too_large_stay_possible() -> None:
    made = make_cohort(20, 30, n_edges=10, effect=2.0, direct=True, random_state=0)
    matrices = make_cohort(
        20, 30, n_edges=10, effect=2.0, direct=True, data="matrices", random_state=0
    ).matrices
    assert np.isfinite(fisher_z(made)).all() and made.induced_truth.any()
    assert np.isfinite(matrices).all() and np.abs(matrices).max() <= 1 + 1e-6


def test_direct_planting_needs_correlations_of_series() -> None:
    odd = np.full((4, 6, 6), -0.9) + 1.9 * np.eye(6)
    with pytest.raises(ValueError, match="direct=True needs matrices that are correlations of series"):
        plant_edges(Cohort(matrices=odd), 2, direct=True, random_state=0)


def test_sites_that_go_along_with_the_label_in_given_matrices() -> None:
    made, plain = planted_and_plain(
        "planted", site_effect=0.5, n_site_edges=8, n_sites=2, confounded=0.9, subtypes=2
    )
    first, of_site = made.sites == "site-1", truth(made, "site_truth")
    assert first[made.y == 1].mean() == 0.9 and first[made.y == 0].mean() == pytest.approx(0.1)
    assert of_site.sum() == 8 and truth(made).sum() == 12 and not (of_site & truth(made)).any()
    shift = fisher_z(made) - fisher_z(plain)
    np.testing.assert_allclose(np.abs(shift[first] - shift[~first][0])[:, of_site], 0.5, atol=1e-3)
    dealt, _ = planted_and_plain("planted", confounded=0.5, n_sites=4)
    assert set(dealt.sites) == {"site-1", "site-2", "site-3", "site-4"} and dealt.site_truth is None


@pytest.mark.parametrize("fisher", [False, True])
def test_planting_on_given_matrices(fisher: bool) -> None:
    base = make_cohort(31, 30, n_edges=0, data="matrices", random_state=0)
    if fisher:
        base = base.with_matrices(np.arctanh(base.matrices * (1 - np.eye(30, dtype=np.float32))))
    before = base.matrices.copy()
    made = plant_edges(base, 12, 0.25, fisher=fisher, random_state=5)
    np.testing.assert_array_equal(base.matrices, before)
    assert sorted(np.bincount(made.y)) == [15, 16] and truth(made).sum() == 12
    np.testing.assert_array_equal(made.matrices, made.matrices.swapaxes(1, 2))
    values = [c.matrices if fisher else np.arctanh(c.matrices * (1 - np.eye(30))) for c in (made, base)]
    shift = (values[0] - values[1])[:, *np.triu_indices(30, 1)]
    np.testing.assert_allclose(np.abs(shift[made.y == 1][:, truth(made)]), 0.25, atol=1e-3)
    assert (shift[made.y == 0] == 0).all() and np.abs(shift[:, ~truth(made)]).max() < 1e-6
    assert made.subjects.tolist() == base.subjects.tolist()
    assert plant_edges(base, 12, fisher=fisher, random_state=5).y.tolist() == made.y.tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_subjects": 1}, "n_subjects must be at least 2, got 1"),
        ({"n_rois": 2}, "n_rois must be at least 3"),
        ({"n_rois": 10, "n_edges": 46}, "n_edges .* must be at most .* for 10 ROIs, got 46"),
        ({"data": "graphs"}, "data must be one of series, matrices, got 'graphs'"),
        ({"affected": 1.2}, r"affected must lie in \[0, 1\]"),
        ({"confounded": 1.2}, r"confounded must be a share in \[0, 1\]"),
        ({"confounded": True, "n_sites": 1}, "at least 2 sites, got True of 1"),
        ({"subtypes": 0}, "subtypes must be a whole number of at least 1, got 0"),
        ({"subtypes": 1.5}, "subtypes must be a whole number"),
        ({"lengths": (30, 20)}, "lengths must be"),
    ],
)
def test_bad_arguments(change: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_cohort(**({"n_subjects": 4, "n_rois": 20, "n_edges": 3, "random_state": 0} | change))


def test_planting_needs_correlations() -> None:
    series = make_cohort(4, 10, n_edges=1, random_state=0)
    with pytest.raises(ValueError, match="needs connectivity matrices; apply Connectivity"):
        plant_edges(series)
    large = series.with_matrices(np.full((4, 10, 10), 2.0))
    with pytest.raises(ValueError, match="pass fisher=True"):
        plant_edges(large, 3)
    with pytest.raises(ValueError, match="between 1 and 45"):
        plant_edges(large, 46, fisher=True)
    with pytest.raises(
        ValueError, match="between 1 and 15, the pairs of ROIs for each of 3 subtypes, got 16"
    ):
        plant_edges(large, 16, subtypes=3, fisher=True)
    with pytest.raises(ValueError, match=r"affected must lie in \[0, 1\], got 2"):
        plant_edges(large, 3, affected=2)
