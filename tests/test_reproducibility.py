"""Reproducibility of group explanations: halves of subjects or sites, permuted labels, references."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.linear_model import LogisticRegression

from cignn._arrays import upper_triangle
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import reproducibility
from cignn.evaluation.reproducibility import agreement_of_maps, halvings, reference_maps
from cignn.evaluation.splits import Labels
from cignn.graphs import GraphSet


def cohort_of(n=80, seed=0, **options):
    given = {"n_rois": 20, "n_edges": 10, "n_sites": 6, "data": "matrices", "random_state": seed}
    return make_cohort(n, **(given | options))


def difference(estimator, data, seed):
    """A stub of a group explanation: the mean difference of the classes."""
    positive = data.y == data.y.max()
    return upper_triangle(data.matrices[positive].mean(0) - data.matrices[~positive].mean(0))


def labels_with_sites():
    random = np.random.default_rng(0)
    people = np.repeat(np.arange(150), random.integers(1, 4, 150))  # up to three scans each
    sites = random.integers(0, 9, 150)[people]
    return Labels((people % 5 < 2).astype(int), people.astype(str), np.char.add("site", sites.astype(str)))


@pytest.mark.parametrize("by", ["halves", "sites"])
def test_halves_are_disjoint_in_subjects_cover_all_and_keep_the_classes(by):
    labels = labels_with_sites()
    splits = list(halvings(labels, by, 5, 0))
    for first, second in splits:
        assert sorted([*first, *second]) == list(range(len(labels.y)))
        assert not set(labels.subjects[first]) & set(labels.subjects[second])
        assert 0.35 < len(first) / len(labels.y) < 0.65
        assert abs(labels.y[first].mean() - labels.y[second].mean()) < 0.1
        if by == "sites":
            assert not set(labels.sites[first]) & set(labels.sites[second])
    assert len({tuple(first) for first, _ in splits}) == 5
    again = list(halvings(labels, by, 5, 0))
    assert all((a.first == b.first).all() for a, b in zip(splits, again, strict=True))


def test_sites_that_share_a_subject_stay_together():
    labels = labels_with_sites()
    subjects = labels.subjects.copy()
    moved = np.flatnonzero(labels.sites == "site1")[0], np.flatnonzero(labels.sites == "site2")[0]
    subjects[list(moved)] = "traveller"
    for halves in halvings(Labels(labels.y, subjects, labels.sites), "sites", 5, 0):
        for index in halves:
            assert len({"site1", "site2"} & set(labels.sites[index])) in (0, 2)
    everywhere = np.where(np.arange(len(subjects)) % 7 == 0, "traveller", subjects)
    with pytest.raises(ValueError, match="no two parts of the sites have different subjects"):
        next(halvings(Labels(labels.y, everywhere, labels.sites), "sites"))


def test_every_half_has_a_seed_a_model_and_subjects_of_its_own():
    cohort, calls = cohort_of(), []

    def record(estimator, data, seed):
        calls.append((seed, estimator[-1].random_state, set(data.subjects), data))
        return difference(estimator, data, seed)

    found = reproducibility(make_estimator("lasso"), cohort, n_splits=3, n_permutations=2, group_map=record)
    assert len(calls) == 10
    assert len({seed for seed, *_ in calls}) == 10
    assert all(seed == own for seed, own, *_ in calls)
    for first, second in zip(calls[::2], calls[1::2], strict=True):
        assert not first[2] & second[2]
    for index, (_, _, names, data) in enumerate(calls):
        true = cohort.y[np.isin(cohort.subjects, list(names))]
        assert (np.bincount(data.y) == np.bincount(true)).all()
        assert (data.y == true).all() == (index < 6)  # the last four are of permuted labels
    counts = found.table.groupby(["map", "labels"]).size()
    assert (counts.xs("true", level="labels") == 3).all()
    assert (counts.xs("permuted", level="labels") == 2).all()


def test_a_difference_comes_back_and_permuted_labels_do_not():
    cohort = cohort_of(200, effect=0.4, n_edges=20)
    found = reproducibility(
        make_estimator("lasso"), cohort, n_splits=4, n_permutations=4, group_map=difference
    )
    means = found.means.set_index("map")
    assert means.loc["model", "common"] > 3 * found.chance and means.loc["model", "rho"] > 0.1
    assert means.loc["t", "common"] > 3 * found.chance
    assert (means["permuted_rho"].abs() < 0.3).all()
    assert found.n_top == 9 and found.n_connections == 190 and found.chance == pytest.approx(81 / 190)
    text = found.summary()
    assert "haufe" in text and "permuted labels" in text and max(map(len, text.splitlines())) <= 80
    assert repr(found).startswith("Reproducibility(by 'halves', rho 0.")


def test_a_map_of_the_seed_alone_does_not_come_back():
    def noise(estimator, data, seed):
        return np.random.default_rng(seed).normal(size=190)

    found = reproducibility(make_estimator("lasso"), cohort_of(), n_splits=5, group_map=noise)
    assert abs(found.means["rho"][0]) < 0.15


def test_graphs_are_compared_by_site_as_cohorts_are():
    cohort = cohort_of()
    graphs = make_connectome_pipeline().fit_transform(cohort)
    lasso = make_estimator("lasso")

    def mean(estimator, data, seed):
        return reference_maps(estimator, data)["t"]

    first = reproducibility(lasso, cohort, "sites", n_splits=2, n_permutations=0, group_map=mean)
    second = reproducibility(lasso, graphs, "sites", n_splits=2, n_permutations=0, group_map=mean)
    assert_allclose(first.table["rho"], second.table["rho"], atol=1e-6)
    assert first.means["permuted_rho"].isna().all() and "0." in first.summary()


def test_references_are_the_t_map_the_coefficients_and_their_pattern():
    cohort = cohort_of(60, n_rois=8, n_edges=3)
    maps = reference_maps(make_connectome_pipeline(make_estimator("lasso")), cohort)
    values = upper_triangle(cohort.matrices)
    values = (values - values.mean(0)) / values.std(0)
    positive = cohort.y == cohort.y.max()
    assert_allclose(maps["t"], stats.ttest_ind(values[positive], values[~positive]).statistic, rtol=1e-3)
    direct = LogisticRegression(C=1 / 28, max_iter=5000, tol=1e-8).fit(values, positive).coef_[0]
    assert_allclose(maps["coefficients"], direct, atol=2e-3)
    scores = values @ direct
    assert_allclose(maps["haufe"], [np.cov(one, scores, ddof=0)[0, 1] for one in values.T], atol=5e-3)


def test_agreement_counts_common_connections_whatever_their_sign():
    first = np.random.default_rng(0).normal(size=400)
    assert agreement_of_maps(first, first) == (pytest.approx(1), 20)
    assert agreement_of_maps(first, -first) == (pytest.approx(-1), 20)
    assert agreement_of_maps(first, np.zeros(400)) == (0, 0)


def test_what_cannot_be_halved_is_refused():
    lasso = make_estimator("lasso")
    with pytest.raises(ValueError, match="by must be one of 'halves', 'sites', got 'thirds'"):
        reproducibility(lasso, cohort_of(), "thirds")
    with pytest.raises(ValueError, match="two halves need at least 8 subjects of every class"):
        reproducibility(lasso, cohort_of(10), group_map=difference)
    ragged = GraphSet.from_arrays([np.ones((3, 3)) - np.eye(3), np.ones((4, 4)) - np.eye(4)], y=[0, 1])
    with pytest.raises(ValueError, match="needs aligned graphs"):
        reproducibility(lasso, ragged)
    with pytest.raises(ValueError, match="needs two classes, got 3"):
        reproducibility(lasso, cohort_of(30).with_y(np.arange(30) % 3))


@pytest.mark.medium
def test_group_explanations_are_compared_by_default():
    cohort = cohort_of(60, effect=0.6, n_rois=10, n_edges=5)
    svm, quick = make_estimator("linear-svm", C=0.01), {"n_permutations": 2}
    found = reproducibility(svm, cohort, n_splits=1, n_permutations=1, n_resamples=4, options=quick)
    assert found.table["labels"].tolist() == ["true"] * 4 + ["permuted"] * 4
    assert found.means["rho"].between(-1, 1).all() and found.n_connections == 45
