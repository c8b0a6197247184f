"""What must hold on the way from series to graphs: connectivity, harmonisation, graph sets, pipelines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from cignn import Cohort, GraphSet
from cignn._arrays import symmetric, upper_triangle
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs
from cignn.connectome.combat import chance_free_shift, empirical_bayes
from cignn.connectome.connectivity import KINDS
from cignn.datasets import aal116, check_cohort, make_cohort


def make_series(n: int = 12, n_rois: int = 6, seed: int = 0) -> list[np.ndarray]:
    """Correlated series of differing lengths and units."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=(t, n_rois)) @ rng.normal(size=(n_rois, n_rois)) * 10 + 100
        for t in rng.integers(30, 60, n)
    ]


def make_sites(
    sizes: dict[str, int], seed: int = 0, n_rois: int = 12, shift: float = 0.6, age_effect: float = 0.02
) -> Cohort:
    """Matrices with a shift and a spread of each site, and an effect of age on every other connection."""
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(99)  # the sites are the same whatever the subjects
    p = n_rois * (n_rois - 1) // 2
    sites = np.repeat(list(sizes), list(sizes.values()))
    n = len(sites)
    age, sex = rng.uniform(8, 40, n), rng.choice(["M", "F"], n)
    shifts = {name: world.normal(shift * (i - 1), 0.3 * shift, p) for i, name in enumerate("ABCDEF")}
    spreads = dict(zip("ABCDEF", [1, 2, 0.5, 1, 1, 1], strict=True))
    noise = rng.normal(0, 0.2, (n, p)) * np.array([spreads[s] for s in sites])[:, None]
    effect = np.where(np.arange(p) % 2, age_effect, 0)
    values = 0.3 + np.outer(age - 20, effect) + np.stack([shifts[s] for s in sites]) + noise
    blank = np.broadcast_to(np.eye(n_rois, dtype=np.float32), (n, n_rois, n_rois))
    covariates = pd.DataFrame({"age": age, "sex": sex})
    matrices = symmetric(values, blank)
    return Cohort(matrices=matrices, sites=sites, covariates=covariates, y=rng.integers(0, 2, n))


class TriangleLogistic(ClassifierMixin, BaseEstimator):
    """A classifier of graph sets, quick enough for searches."""

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: GraphSet, y: np.ndarray) -> TriangleLogistic:
        self.model_ = LogisticRegression(C=self.C, max_iter=1000).fit(self._flat(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: GraphSet) -> np.ndarray:
        return self.model_.predict(self._flat(X))

    @staticmethod
    def _flat(X: GraphSet) -> np.ndarray:
        return X.batch().adj.numpy().reshape(len(X), -1)


# ---------------------------------------------------------------- connectivity


def test_correlation_is_numpys() -> None:
    series = make_series()
    matrices = Connectivity().fit_transform(Cohort(series)).matrices
    expected = np.stack([np.corrcoef(one.T) for one in series])
    np.testing.assert_allclose(matrices, expected, atol=1e-5)
    np.testing.assert_array_equal(matrices, matrices.swapaxes(1, 2))
    np.testing.assert_array_equal(matrices[:, range(6), range(6)], 1)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 100), st.floats(-50, 50), st.booleans())
def test_correlation_knows_no_units(factor: float, offset: float, flip: bool) -> None:
    series = make_series(2)
    sign = -1 if flip else 1
    plain = Connectivity().fit_transform(Cohort(series)).matrices
    other = [np.column_stack([sign * factor * one[:, 0] + offset, one[:, 1:]]) for one in series]
    changed = Connectivity().fit_transform(Cohort(other)).matrices
    np.testing.assert_allclose(changed[:, 0, 1:], sign * plain[:, 0, 1:], atol=2e-4)


def test_everything_but_the_data_stays() -> None:
    series = make_series()
    cohort = Cohort(
        series,
        y=np.arange(12) % 2,
        sites=["A", "B"] * 6,
        covariates={"age": np.arange(12)},
        roi_names="abcdef",
    )
    out = Connectivity().fit_transform(cohort)
    assert out.series is None and out.roi_names == list("abcdef")
    for name in ("y", "sites", "subjects"):
        np.testing.assert_array_equal(getattr(out, name), getattr(cohort, name))
    assert out.covariates.equals(cohort.covariates)


def test_fisher_is_arctanh_and_stays_finite() -> None:
    series = make_series(3)
    series[0][:, 1] = series[0][:, 0]  # a perfect correlation
    r = Connectivity().fit_transform(Cohort(series)).matrices
    z = Connectivity(fisher=True).fit_transform(Cohort(series)).matrices
    assert np.isfinite(z).all() and (z[:, range(6), range(6)] == 0).all()
    np.testing.assert_allclose(np.tanh(z[1:, 0, 1:]), r[1:, 0, 1:], atol=1e-5)
    assert z[0, 0, 1] > 5


def test_partial_correlation_sees_through_a_middleman() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3000, 1))
    b = a + 0.5 * rng.normal(size=a.shape)
    c = b + 0.5 * rng.normal(size=a.shape)
    cohort = Cohort([np.hstack([a, b, c]) * [1, 10, 100]] * 2)  # a – b – c, in different units
    r = Connectivity().fit_transform(cohort).matrices[0]
    partial = Connectivity("partial").fit_transform(cohort).matrices[0]
    assert r[0, 2] > 0.7 and abs(partial[0, 2]) < 0.06 and partial[0, 1] > 0.5 and partial[1, 2] > 0.5


def test_partial_and_covariance_are_the_estimators() -> None:
    series = make_series(3)
    plain = EmpiricalCovariance()
    covariance = Connectivity("covariance", covariance_estimator=plain).fit_transform(Cohort(series)).matrices
    np.testing.assert_allclose(covariance[0], np.cov(series[0].T, ddof=0), rtol=1e-3, atol=1e-2)
    partial = Connectivity("partial", covariance_estimator=plain).fit_transform(Cohort(series)).matrices
    precision = np.linalg.inv(np.corrcoef(series[1].T))
    scale = np.sqrt(np.diag(precision))
    expected = -precision / np.outer(scale, scale)
    np.testing.assert_allclose(partial[1][0, 1:], expected[0, 1:], atol=1e-3)


def test_tangent_is_fitted_on_the_training_cohort_only() -> None:
    cohort = Cohort(make_series(20))
    step = Connectivity("tangent").fit(cohort[:12])
    together = step.transform(cohort[12:]).matrices
    alone = np.concatenate([step.transform(cohort[[i]]).matrices for i in range(12, 20)])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    other = Connectivity("tangent").fit(cohort).transform(cohort[12:]).matrices
    assert np.abs(together - other).max() > 1e-3  # the reference does depend on who was in fit


def test_tangent_vectors_of_the_training_cohort_average_to_zero() -> None:
    matrices = Connectivity("tangent").fit_transform(Cohort(make_series(15))).matrices
    np.testing.assert_allclose(matrices.mean(0), 0, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_symmetric_matrices_whatever_the_number_of_jobs(kind: str) -> None:
    cohort = Cohort(make_series(40))
    one = Connectivity(kind).fit_transform(cohort).matrices
    assert one.shape == (40, 6, 6) and one.dtype == np.float32
    np.testing.assert_allclose(one, one.swapaxes(1, 2), atol=1e-4, rtol=1e-5)
    if kind == "tangent":
        two = Connectivity(kind, n_jobs=2, verbose=1).fit_transform(cohort).matrices
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_constant_rois_are_named_or_disconnected() -> None:
    series = make_series(4)
    series[2][:, 3] = 7.1
    cohort = Cohort(series, roi_names=[f"R{i}" for i in range(6)])
    with pytest.raises(
        ValueError, match=r"1 subjects have constant ROIs.*sub-0003 \(R3\).*constant_rois=.zero"
    ):
        Connectivity().fit_transform(cohort)
    for kind in KINDS:
        out = Connectivity(kind, constant_rois="zero").fit_transform(cohort).matrices
        assert np.isfinite(out).all() and (np.delete(out[2, 3], 3) == 0).all()
        np.testing.assert_array_equal(out[2, 3], out[2, :, 3])
        assert out[2, 3, 3] == (1 if kind in ("correlation", "partial") else 0)
        assert (out[0, 3] != 0).all()
        if kind != "tangent":
            whole = Connectivity(kind).fit_transform(cohort[[0, 1, 3]]).matrices
            np.testing.assert_allclose(out[[0, 1, 3]], whole, rtol=1e-5)


def test_ready_matrices_pass_unchanged_or_are_refused() -> None:
    cohort = make_sites({"A": 5})
    assert Connectivity().fit_transform(cohort) is cohort
    for step in (Connectivity("tangent"), Connectivity(fisher=True)):
        with pytest.raises(ValueError, match="needs ROI series, the cohort has ready matrices"):
            step.fit(cohort)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            Connectivity("pearson"),
            "kind must be one of 'correlation', 'partial', 'tangent', 'covariance', got 'pearson'",
        ),
        (Connectivity("tangent", fisher=True), "fisher=True needs correlations"),
        (Connectivity(constant_rois="drop"), "constant_rois must be one of 'raise', 'zero', got 'drop'"),
    ],
)
def test_connectivity_names_the_wrong_setting(step: Connectivity, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        step.fit(Cohort(make_series(3)))


def test_connectivity_names_the_wrong_data() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        Connectivity().transform(Cohort(make_series(3)))
    with pytest.raises(TypeError, match="works on a Cohort, got list"):
        Connectivity().fit(make_series(3))
    with pytest.raises(ValueError, match="fitted on 6 ROIs, got a cohort with 4"):
        Connectivity().fit(Cohort(make_series(3))).transform(Cohort(make_series(3, 4)))
    series = make_series(3)
    series[1][4, 2] = np.nan
    with pytest.raises(ValueError, match="sub-0002 has NaN or infinite values"):
        Connectivity().fit_transform(Cohort(series))
    with pytest.raises(ValueError, match="sub-0001 has 2 time points"):
        Connectivity().fit_transform(Cohort([np.ones((2, 4))]))


# --------------------------------------------------------------- harmonisation


def site_moments(cohort: Cohort, design: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """(sites, p) mean and std of the connections over a site's subjects, at equal age and sex."""
    values = upper_triangle(cohort.matrices)
    if design:
        age = cohort.covariates["age"].to_numpy() - cohort.covariates["age"].mean()
        slope = np.where(np.arange(values.shape[1]) % 2, 0.02, 0)
        values = values - np.outer(age, slope)
    groups = [values[cohort.sites == site] for site in np.unique(cohort.sites)]
    return np.stack([g.mean(0) for g in groups]), np.stack([g.std(0) for g in groups])


def test_combat_equalises_the_sites_of_the_training_cohort() -> None:
    cohort = make_sites({"A": 60, "B": 50, "C": 80})
    before, spread_before = site_moments(cohort)
    after, spread_after = site_moments(ComBat().fit_transform(cohort))
    assert np.ptp(before, axis=0).mean() > 1 and np.ptp(after, axis=0).mean() < 0.1
    ratios = spread_before.mean(1) / spread_before.mean(), spread_after.mean(1) / spread_after.mean()
    assert ratios[0].max() / ratios[0].min() > 3 and ratios[1].max() / ratios[1].min() < 1.1


def test_combat_takes_away_what_the_combat_of_others_takes_away() -> None:
    """Not to the digit: combatlearn shrinks all sites towards one prior, the papers each to its own."""
    combatlearn = pytest.importorskip("combatlearn")
    cohort = make_cohort(120, n_rois=20, n_edges=5, data="matrices", site_effect=0.3, random_state=0)
    train, test = np.arange(80), np.arange(80, 120)
    values = pd.DataFrame(upper_triangle(cohort.matrices))
    before = values.iloc[test].to_numpy()
    peer = combatlearn.ComBat(pd.Series(cohort.sites), method="fortin").fit(values.iloc[train])
    theirs = peer.transform(values.iloc[test]).to_numpy() - before
    ours = upper_triangle(ComBat(()).fit(cohort[train]).transform(cohort[test]).matrices) - before
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.9
    assert np.abs(ours - theirs).mean() < 0.5 * np.abs(theirs).mean()


def test_combat_keeps_the_effect_of_age() -> None:
    rng = np.random.default_rng(1)
    cohort = make_sites({"A": 80, "B": 80})
    # the old are scanned at B: without the covariate, age would go with the site
    order = np.argsort(cohort.covariates["age"] + rng.normal(0, 5, 160))
    sites = np.empty(160, "U1")
    sites[order] = np.repeat(["A", "B"], 80)
    p = upper_triangle(cohort.matrices).shape[1]
    slope_true = np.where(np.arange(p) % 2, 0.02, 0)
    age = cohort.covariates["age"].to_numpy()
    values = np.outer(age, slope_true) + (sites == "B")[:, None] * 0.7 + rng.normal(0, 0.2, (160, p))
    cohort = Cohort(matrices=symmetric(values, cohort.matrices), sites=sites, covariates=cohort.covariates)

    def slopes(cohort: Cohort) -> np.ndarray:
        return np.polyfit(cohort.covariates["age"], upper_triangle(cohort.matrices), 1)[0]

    kept = slopes(ComBat(("age",)).fit_transform(cohort))
    lost = slopes(ComBat(()).fit_transform(cohort))
    assert abs(kept[1::2].mean() - 0.02) < 0.002 and abs(kept[::2].mean()) < 0.002
    assert lost[1::2].mean() < 0.012


def test_combat_applies_training_parameters_to_each_subject_alone() -> None:
    train, test = make_sites({"A": 40, "B": 40, "C": 40}), make_sites({"A": 25, "B": 25, "C": 25}, seed=5)
    step = ComBat().fit(train)
    together = step.transform(test).matrices
    alone = np.concatenate([step.transform(test[[i]]).matrices for i in range(len(test))])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    means, stds = site_moments(step.transform(test))
    assert np.ptp(means, axis=0).mean() < 0.25 < 1 < np.ptp(site_moments(test)[0], axis=0).mean()
    assert stds.mean(1).max() / stds.mean(1).min() < 1.2


def test_combat_leaves_its_input_symmetry_and_diagonal_alone() -> None:
    cohort = make_sites({"A": 20, "B": 20})
    matrices = cohort.matrices.copy()
    out = ComBat().fit_transform(cohort)
    np.testing.assert_array_equal(cohort.matrices, matrices)
    np.testing.assert_array_equal(out.matrices, out.matrices.swapaxes(1, 2))
    np.testing.assert_array_equal(out.matrices[:, range(12), range(12)], 1)
    assert np.abs(out.matrices - matrices).max() > 0.1


def test_combat_does_with_an_unseen_site_what_the_option_says() -> None:
    train, test = make_sites({"A": 40, "B": 40, "C": 40}), make_sites({"B": 10, "F": 30}, seed=3)
    new = test.sites == "F"
    with pytest.raises(
        ValueError, match=r"30 subjects come from sites .*\(F\).*unseen=.pass.*unseen=.grand_mean"
    ):
        ComBat().fit(train).transform(test)
    passed = ComBat(unseen="pass").fit(train).transform(test)
    np.testing.assert_array_equal(passed.matrices[new], test.matrices[new])
    moved = ComBat(unseen="grand_mean").fit(train).transform(test)
    np.testing.assert_array_equal(passed.matrices[~new], moved.matrices[~new])
    goal = site_moments(ComBat().fit_transform(train))[0].mean(0)
    before, after = (np.abs(site_moments(c[new])[0][0] - goal).mean() for c in (test, moved))
    assert before > 1 and after < 0.15
    # the differences between the site's subjects stay
    np.testing.assert_allclose(
        moved.matrices[new] - moved.matrices[new].mean(0),
        test.matrices[new] - test.matrices[new].mean(0),
        atol=1e-5,
    )


def test_combat_does_not_move_a_lone_subject_onto_the_mean() -> None:
    train = make_sites({"A": 60, "B": 60}, shift=0.0, n_rois=20)
    lone = make_sites({"F": 1}, shift=0.0, seed=8, n_rois=20)
    out = ComBat(unseen="grand_mean").fit(train).transform(lone)
    r = np.corrcoef(upper_triangle(lone.matrices)[0], upper_triangle(out.matrices)[0])[0, 1]
    assert r > 0.9


@pytest.mark.parametrize("size", [1, 2])
def test_combat_shifts_small_sites_without_judging_their_spread(size: int) -> None:
    cohort = make_sites({"A": 50, "C": 50, "F": size})
    step = ComBat(()).fit(cohort)
    out = step.transform(cohort)
    assert np.isfinite(out.matrices).all()
    assert (step.spread_[2] == 1).all() and (step.spread_[:2] != 1).all()
    small = cohort.sites == "F"

    def away(cohort: Cohort) -> float:
        values = upper_triangle(cohort.matrices)
        return float(np.abs(values[small].mean(0) - values[~small].mean(0)).mean())

    assert away(out) < 0.3 < 1 < away(cohort)
    assert (out.matrices[small].std(0) > 0).any() == (size == 2)  # two subjects still differ


def test_combat_keeps_the_label_in_fit_and_never_reads_it_in_transform() -> None:
    rng = np.random.default_rng(2)
    cohort = make_sites({"A": 100, "B": 100})
    y = (rng.random(200) < np.where(cohort.sites == "A", 0.8, 0.2)).astype(int)  # patients come from A
    values = 0.5 * y[:, None] + (cohort.sites == "B")[:, None] * 1.0 + rng.normal(0, 0.2, (200, 66))
    cohort = Cohort(matrices=symmetric(values, cohort.matrices), sites=cohort.sites, y=y)

    def difference(out: Cohort) -> float:
        kept = upper_triangle(out.matrices)
        return float(kept[y == 1].mean() - kept[y == 0].mean())

    step = ComBat((), keep_label=True).fit(cohort)
    np.testing.assert_array_equal(
        step.transform(cohort).matrices, step.transform(cohort.with_y(1 - y)).matrices
    )
    assert abs(difference(step.transform(cohort)) - 0.5) < 0.05
    assert difference(ComBat(()).fit_transform(cohort)) < 0.4


def test_empirical_bayes_shrinks_small_sites_more() -> None:
    rng = np.random.default_rng(0)
    true_shift, true_std = rng.normal(1, 0.3, 500), np.sqrt(1 / rng.gamma(10, 1 / 9, 500))
    errors = []
    for n in (4, 400):
        residuals = true_shift + true_std * rng.normal(size=(n, 500))
        shift, variance = empirical_bayes(residuals)
        raw_shift, raw_variance = residuals.mean(0), residuals.var(0, ddof=1)
        assert shift.std() < raw_shift.std() and variance.std() < raw_variance.std()
        errors.append(
            (
                np.abs(shift - true_shift).mean() / np.abs(raw_shift - true_shift).mean(),
                np.abs(variance - true_std**2).mean() / np.abs(raw_variance - true_std**2).mean(),
            )
        )
    assert max(errors[0]) < 0.8  # nearer to the truth than the raw moments
    np.testing.assert_allclose(errors[1], 1, atol=0.05)  # with many subjects the prior does not matter


def test_combat_takes_the_noise_of_a_subject_alone_for_no_shift_of_its_site() -> None:
    noise, shift = np.random.default_rng(0).normal(size=(2, 1, 5000))
    found = chance_free_shift(2 + noise)
    assert found.mean() == pytest.approx(2, abs=0.1)  # what all connections share is the site's
    assert found.std() < 0.2 * noise.std()
    assert chance_free_shift(5 * shift + noise).std() > 0.8 * 5


def test_combat_leaves_connections_that_never_vary() -> None:
    cohort = make_sites({"A": 20, "B": 20})
    cohort.matrices[:, 3, :] = cohort.matrices[:, :, 3] = 0
    out = ComBat().fit_transform(cohort)
    assert (out.matrices[:, 3] == 0).all() and np.isfinite(out.matrices).all()


def test_combat_names_what_is_wrong() -> None:
    cohort = make_sites({"A": 20, "B": 20})
    with pytest.raises(ValueError, match=r"no covariate iq .it has age, sex."):
        ComBat(("age", "iq")).fit(cohort)
    bare = Cohort(matrices=cohort.matrices, sites=cohort.sites)
    with pytest.raises(
        ValueError, match=r"no covariate age, sex .it has none.*or keep none with covariates=\(\)"
    ):
        ComBat().fit(bare)
    assert ComBat(covariates=()).fit_transform(bare).matrices.shape == bare.matrices.shape
    with pytest.raises(ValueError, match="ComBat needs sites"):
        ComBat().fit(Cohort(matrices=cohort.matrices, covariates=cohort.covariates))
    with pytest.raises(ValueError, match="unseen must be one of 'raise', 'pass', 'grand_mean', got 'skip'"):
        ComBat(unseen="skip").fit(cohort)
    with pytest.raises(ValueError, match=r"put Connectivity.. before it"):
        ComBat().fit(Cohort(make_series(3), sites=list("AAB")))
    with pytest.raises(ValueError, match="are too few to estimate noise"):
        ComBat(()).fit(make_sites(dict.fromkeys("ABC", 1)))
    bound = Cohort(
        matrices=cohort.matrices, sites=cohort.sites, covariates={"field": (cohort.sites == "A") * 1.5}
    )
    with pytest.raises(ValueError, match="effects of field cannot be separated from the sites"):
        ComBat(("field",)).fit(bound)
    gap = cohort.covariates.assign(age=cohort.covariates["age"].where(np.arange(40) != 3))
    gappy = Cohort(matrices=cohort.matrices, sites=cohort.sites, covariates=gap)
    with pytest.raises(ValueError, match=r"age is missing for sub-0004.*missing=.mean"):
        ComBat().fit(gappy)
    assert np.isfinite(ComBat(missing="mean").fit_transform(gappy).matrices).all()
    words = gap.assign(age=gap["age"].astype(str).replace("nan", "unknown"))
    worded = Cohort(matrices=cohort.matrices, sites=cohort.sites, covariates=words)
    for same in (gappy, worded):  # numbers written as text are no categories
        assert ComBat(missing="mean").fit(same).columns_[0].levels is None
    words.loc[7, "age"] = "old"
    worded = Cohort(matrices=cohort.matrices, sites=cohort.sites, covariates=words)
    with pytest.raises(ValueError, match="the cohort: age must be a number, got 'old' for sub-0008; correct"):
        ComBat(missing="mean").fit(worded)
    odd = Cohort(
        matrices=cohort.matrices,
        sites=cohort.sites,
        covariates=cohort.covariates.assign(sex=["X"] + ["M"] * 39),
    )
    with pytest.raises(ValueError, match="sex of sub-0001 is 'X', in training it was one of F, M"):
        ComBat().fit(cohort).transform(odd)
    numbered = odd._with(covariates=cohort.covariates.assign(sex=[21] + [1] * 39))
    with pytest.raises(ValueError, match=r"sex of sub-0001, .* is 21, in"):
        ComBat().fit(cohort).transform(numbered)


# ---------------------------------------------------------------------- graphs


def make_connectivity(n: int = 8, n_rois: int = 20, **more: object) -> Cohort:
    return Connectivity().fit_transform(Cohort(make_series(n, n_rois), **more))


def test_graphs_keep_every_connection_with_its_sign() -> None:
    cohort = make_connectivity()
    graphs = ConnectomeGraphs().fit_transform(cohort)
    expected = cohort.matrices * (1 - np.eye(20))
    np.testing.assert_allclose(graphs.batch().adj, expected, atol=1e-7)
    np.testing.assert_array_equal(graphs.batch().x, graphs.batch().adj)
    assert (graphs.n_edges == 190).all() and (expected < 0).any()
    assert graphs.nbytes == 8 * 20 * 20 * 4  # features and weights are one array


def test_graphs_carry_all_that_is_known() -> None:
    atlas = aal116()
    truth = np.zeros((116, 116), bool)
    truth[3, 7] = truth[7, 3] = True
    cohort = Cohort(
        make_series(4, 116),
        y=[0, 1, 0, 1],
        sites=list("AABB"),
        covariates={"age": [1, 2, 3, 4]},
        atlas=atlas,
        edge_truth=truth,
    )
    graphs = ConnectomeGraphs(0.1).fit_transform(Connectivity().fit_transform(cohort))[[2, 3]]
    assert graphs.aligned and graphs.node_names == atlas.names
    assert graphs.y.tolist() == [0, 1] and graphs.groups.tolist() == ["B", "B"]
    assert graphs.meta["subject"].tolist() == ["sub-0003", "sub-0004"] and graphs.meta["age"].tolist() == [
        3,
        4,
    ]
    np.testing.assert_array_equal(graphs.node_meta["system"], atlas.systems)
    np.testing.assert_array_equal(graphs.node_meta["coordinates"], atlas.coordinates)
    np.testing.assert_array_equal(graphs.edge_truth, [truth, truth])
    assert graphs._store.truth.shape == (1, *truth.shape), "kept once for all"
    assert (graphs.n_edges == 667).all()  # 1334 in both directions: the paper's graphs


@pytest.mark.parametrize("sign", ["both", "positive", "negative", "absolute"])
@pytest.mark.parametrize("rule", [{}, {"density": 0.2}, {"threshold": 0.3}, {"neighbours": 3}])
def test_graphs_keep_the_strongest_of_what_the_sign_left(sign: str, rule: dict[str, float]) -> None:
    cohort = make_connectivity()
    graphs = ConnectomeGraphs(sign=sign, **rule).fit_transform(cohort)
    rows, columns = np.triu_indices(20, 1)
    for matrix, graph in zip(cohort.matrices, graphs, strict=True):
        left = {
            "both": matrix,
            "positive": matrix.clip(0),
            "negative": matrix.clip(max=0),
            "absolute": abs(matrix),
        }
        all_weights, weights = left[sign][rows, columns], graph.weights[rows, columns]
        kept = weights != 0
        np.testing.assert_allclose(weights[kept], all_weights[kept], rtol=1e-5)  # never another sign
        if "density" in rule:
            assert kept.sum() == 38
            assert np.abs(all_weights[kept]).min() >= np.abs(all_weights[~kept]).max()
        elif "threshold" in rule:
            np.testing.assert_array_equal(kept, np.abs(all_weights) >= 0.3)
        elif "neighbours" in rule:
            strength = np.abs(left[sign] * (1 - np.eye(20)))
            mine = strength >= np.sort(strength, axis=1)[:, [-3]]
            np.testing.assert_array_equal(kept, ((mine | mine.T) & (strength > 0))[rows, columns])
        else:
            np.testing.assert_array_equal(kept, all_weights != 0)
        np.testing.assert_allclose(graph.x, matrix * (1 - np.eye(20)), atol=1e-6)


def test_thinned_graphs_keep_strong_negative_connections() -> None:
    matrix = np.eye(4)
    for (i, j), r in {(0, 1): -0.9, (0, 2): 0.5, (1, 2): 0.1, (2, 3): -0.2}.items():
        matrix[i, j] = matrix[j, i] = r
    graph = ConnectomeGraphs(2 / 6).fit_transform(Cohort(matrices=matrix[None]))[0]
    assert graph.weights[0, 1] == np.float32(-0.9) and graph.weights[0, 2] == 0.5
    assert np.count_nonzero(graph.weights) == 4


def test_graph_features() -> None:
    cohort = make_connectivity()
    edges = ConnectomeGraphs(0.1, features="edges").fit_transform(cohort)
    np.testing.assert_array_equal(edges.batch().x, edges.batch().adj)
    constant = ConnectomeGraphs(0.1, features="constant").fit_transform(cohort)
    assert constant.n_features == 1 and (constant.batch().x == 1).all()


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"density": 1.7}, r"density must lie in \(0, 1\], got 1.7"),
        ({"density": "a"}, "density must be a number in .*, got 'a'"),
        ({"neighbours": True}, "neighbours must be a whole number of at least 1, got True"),
        ({"density": 0.1, "threshold": 0.2}, "at most one of .*, got density and threshold"),
        ({"sign": "plus"}, "sign must be one of 'both', 'positive', 'negative', 'absolute', got 'plus'"),
        ({"neighbours": 20}, "neighbours must be fewer than the 20 ROIs, got 20"),
        ({"threshold": -0.1}, r"threshold must lie in \[0, inf\), got -0.1"),
        ({"features": "rows"}, "features must be one of"),
    ],
)
def test_graphs_name_the_wrong_setting(settings_: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ConnectomeGraphs(**settings_).fit(make_connectivity())


def test_graphs_need_finite_matrices() -> None:
    with pytest.raises(ValueError, match=r"put Connectivity.. before it"):
        ConnectomeGraphs().fit(Cohort(make_series(3)))
    cohort = make_connectivity()
    cohort.matrices[2, 0, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite values in the matrix of sub-0003"):
        ConnectomeGraphs().fit(cohort)


def test_subjects_whose_matrix_is_not_symmetric_are_named() -> None:
    cohort = make_connectivity()
    cohort.matrices[[2, 5], 0, 1] += 0.1
    with pytest.raises(ValueError, match=r"matrix of sub-0003, sub-0006 is not symmetric; .*symmetrise"):
        ConnectomeGraphs().fit_transform(cohort)
    repaired = check_cohort(cohort, asymmetric="symmetrise", one_class="keep")
    assert len(ConnectomeGraphs().fit_transform(repaired)) == len(cohort)


# ------------------------------------------------------------------- pipelines


def make_study(n: int = 60) -> Cohort:
    """Two classes that differ in the correlation of two ROIs, scanned at two sites."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    series = []
    for label in y:
        one = rng.normal(size=(80, 6))
        one[:, 1] += (1.0 if label else -1.0) * one[:, 0]
        series.append(one)
    return Cohort(
        series,
        y=y,
        sites=rng.choice(["A", "B"], n),
        covariates={"age": rng.uniform(8, 40, n), "sex": rng.choice(["M", "F"], n)},
    )


@pytest.mark.parametrize("kind", ["correlation", "tangent"])
def test_the_whole_way_cross_validates(kind: str) -> None:
    study = make_study()
    pipe = make_pipeline(Connectivity(kind), ComBat(), ConnectomeGraphs(), TriangleLogistic())
    scores = cross_val_score(pipe, study, study.y, cv=3, error_score="raise")
    assert scores.mean() > 0.9


def test_the_steps_can_be_searched_over_and_cloned() -> None:
    study = make_study()
    pipe = make_pipeline(Connectivity(), ComBat(()), ConnectomeGraphs(), TriangleLogistic())
    grid = {"connectivity__kind": ["correlation", "partial"], "connectomegraphs__density": [None, 0.3]}
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(study, study.y)
    assert search.best_score_ > 0.9 and len(search.cv_results_["params"]) == 4
    step = ComBat(("age",), unseen="pass", min_site_size=4)
    assert clone(step).get_params() == step.get_params() and repr(clone(step)) == repr(step)


def test_a_region_known_to_be_absent_is_disconnected_without_asking() -> None:
    rng = np.random.default_rng(0)
    series = rng.normal(size=(6, 40, 5))
    series[2, :, 3] = 0
    with pytest.raises(ValueError, match="1 subjects have constant ROIs"):
        Connectivity().fit_transform(Cohort(series))
    known = check_cohort(Cohort(series, y=[0, 1] * 3), constant_rois="zero")
    matrices = Connectivity().fit_transform(known[1:]).matrices
    assert (matrices[1, 3, [0, 1, 2, 4]] == 0).all() and (matrices[0, 3] != 0).all()
    series[4, :, 1] = 7
    with pytest.raises(ValueError, match=r"1 subjects have constant ROIs.*sub-0005"):
        Connectivity().fit_transform(Cohort(series, zeros_mean_absent=True))


# ------------------------------------------------------------------- real data


@pytest.mark.medium
@pytest.mark.data
def test_abide_goes_to_graphs(real_data) -> None:
    with np.load(real_data("abide/ts_aal.npz")) as stored:
        lengths = stored["lengths"]
        series = np.split(stored["data"], np.cumsum(lengths)[:-1])
        cohort = Cohort(series, y=stored["label_asd"], sites=stored["site"], subjects=stored["file_id"])
    with pytest.raises(ValueError, match="47 subjects have constant ROIs"):
        Connectivity().fit(cohort).transform(cohort)
    graphs = make_pipeline(Connectivity(constant_rois="zero"), ConnectomeGraphs(0.1)).fit_transform(cohort)
    assert len(graphs) == 1102 and (graphs.n_edges == 667).all() and len(set(graphs.groups)) == 20


def test_work_on_the_tangent_space_is_shown_on_a_terminal_when_verbose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    cohort = make_cohort(8, n_rois=6, n_edges=2, lengths=(40, 50), random_state=0)
    Connectivity("tangent", verbose=1).fit(cohort)
    shown = capsys.readouterr()
    assert "reference of the tangent space, 8 subjects" in shown.err and not shown.out
    Connectivity("tangent").fit(cohort)
    assert not capsys.readouterr().err


def test_connectivity_says_its_kind_whatever_the_defaults_are() -> None:
    assert repr(Connectivity()) == "Connectivity(kind='correlation')"
    assert repr(Connectivity("tangent")) == "Connectivity(kind='tangent')"
    assert repr(Connectivity(fisher=True)) == "Connectivity(kind='correlation', fisher=True)"
