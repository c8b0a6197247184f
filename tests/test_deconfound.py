"""What must hold when nuisance covariates are taken out of connections, and of their maps."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cignn import Cohort, CohortClassifier, load_model
from cignn._arrays import symmetric, upper_triangle
from cignn.connectome import ComBat, Connectivity, Deconfound, make_connectome_pipeline, nuisance_maps
from cignn.connectome.pipeline import loaded_steps, saved_steps
from cignn.datasets import DataError, load_abide, load_cohort, make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import evaluate


def made(n: int = 80, seed: int = 0, n_rois: int = 8, sites: str = "ABC") -> Cohort:
    """Connections with known effects of age and its square, sex, motion and site."""
    rng, world = np.random.default_rng(seed), np.random.default_rng(7)
    p = n_rois * (n_rois - 1) // 2
    site = np.array(list(sites))[np.arange(n) % len(sites)]
    age, sex, fd = rng.uniform(8, 40, n), rng.choice(["F", "M"], n), rng.lognormal(-2, 0.4, n)
    y = (fd + rng.normal(0, 0.05, n) > np.median(fd)).astype(int)  # patients move more
    terms = np.column_stack([(age - 20) / 10, ((age - 20) / 10) ** 2, sex == "M", 5 * fd])
    shifts = dict(zip("ABCDEF", world.normal(0, 0.5, (6, p)), strict=True))
    values = 0.3 + terms @ world.normal(0, 0.3, (4, p)) + np.stack([shifts[s] for s in site])
    values += rng.normal(0, 0.1, (n, p))
    blank = np.broadcast_to(np.eye(n_rois, dtype=np.float32), (n, n_rois, n_rois))
    table = pd.DataFrame({"age": age, "sex": sex, "mean_fd": fd})
    return Cohort(matrices=symmetric(values, blank), sites=site, covariates=table, y=y)


def connections(cohort: Cohort) -> np.ndarray:
    return upper_triangle(np.asarray(cohort.matrices)).astype(float)


def design_of(cohort: Cohort) -> np.ndarray:
    """(n, k) the covariates as any statistics program codes them."""
    table = cohort.covariates
    numbers = table[["age", "mean_fd"]].to_numpy()
    dummies = pd.get_dummies(pd.DataFrame({"sex": table["sex"], "site": cohort.sites}), drop_first=True)
    return np.column_stack([np.ones(len(table)), numbers, numbers**2, dummies.to_numpy(float)])


# ---------------------------------------------------------------------- training


@given(st.integers(0, 50), st.sampled_from(["age", "motion", "sex", "site"]))
@settings(max_examples=12, deadline=None)
def test_what_is_left_of_training_subjects_has_nothing_to_do_with_the_covariates(seed: int, one: str) -> None:
    cohort = made(60, seed)
    for covariates in (("age", "sex", "motion", "site"), (one,)):
        left = connections(Deconfound(covariates).fit_transform(cohort))
        maps = nuisance_maps(cohort.with_matrices(symmetric(left, np.asarray(cohort.matrices))), covariates)
        for name in covariates:
            assert np.abs(maps[name]).max() < 1e-4, name
        np.testing.assert_allclose(left.mean(0), connections(cohort).mean(0), atol=1e-5)


def test_it_is_the_residual_of_least_squares_plus_the_mean() -> None:
    cohort = made()
    values, design = connections(cohort), design_of(cohort)
    expected = values - design @ np.linalg.lstsq(design, values, rcond=None)[0] + values.mean(0)
    np.testing.assert_allclose(connections(Deconfound().fit_transform(cohort)), expected, atol=1e-5)


def test_new_subjects_are_treated_with_training_effects_one_by_one_and_without_labels() -> None:
    cohort = made(120)
    train, test = cohort[:90], cohort[90:]
    step = Deconfound().fit(train)
    together = step.transform(test)
    assert connections(together).shape == (30, 28)
    for i in (0, 7):
        np.testing.assert_allclose(together.matrices[i], step.transform(test[[i]]).matrices[0], atol=1e-6)
    np.testing.assert_array_equal(step.transform(test.with_y(None)).matrices, together.matrices)
    other = Deconfound().fit(train.with_y(1 - train.y))
    np.testing.assert_array_equal(other.effects_, step.effects_)
    # what is left is the noise that was put in
    noise = connections(together) - connections(together).mean(0)
    assert 0.08 < noise.std() < 0.14 < (connections(test) - connections(test).mean(0)).std()


def test_a_label_that_goes_along_with_motion_alone_cannot_be_learnt_any_more() -> None:
    cohort = made(700)
    train, test = np.arange(400), np.arange(400, 700)
    scores = []
    for step in (Deconfound(()), Deconfound(("age", "sex", "motion", "site"))):
        learnt, new = step.fit(cohort[train]).transform(cohort[train]), step.transform(cohort[test])
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(
            connections(learnt), cohort.y[train]
        )
        scores.append(roc_auc_score(cohort.y[test], model.decision_function(connections(new))))
    assert scores[0] > 0.7 and 0.35 < scores[1] < 0.65


@pytest.mark.data
@pytest.mark.medium
def test_the_difference_of_classes_in_abide_is_less_motion_afterwards(real_data: Any) -> None:
    cohort = Connectivity(fisher=True).fit_transform(load_abide(real_data("abide")))
    assert list(cohort.covariates) == ["age", "sex", "mean_fd"]
    motion = nuisance_maps(cohort, ["motion"])["motion"]
    resemblance = []
    for one in (cohort, Deconfound().fit_transform(cohort)):
        values = connections(one)
        difference = values[cohort.y == 1].mean(0) - values[cohort.y == 0].mean(0)
        resemblance.append(spearmanr(difference, motion).statistic)
    assert resemblance[0] > 0.4 and abs(resemblance[1]) < 0.25


def test_input_symmetry_and_diagonal_stay() -> None:
    cohort = made()
    before = np.array(cohort.matrices)
    out = np.asarray(Deconfound().fit_transform(cohort).matrices)
    np.testing.assert_array_equal(cohort.matrices, before)
    np.testing.assert_array_equal(out, out.transpose(0, 2, 1))
    np.testing.assert_array_equal(out.diagonal(0, 1, 2), before.diagonal(0, 1, 2))
    assert out.dtype == np.float32


def test_effects_of_controls_leave_the_difference_of_patients() -> None:
    cohort = made(200)
    moved = connections(cohort)
    moved[cohort.y == 1, 0] += 0.5
    cohort = cohort.with_matrices(symmetric(moved, np.asarray(cohort.matrices)))
    step = Deconfound(fit_on="controls").fit(cohort)
    left = connections(step.transform(cohort))
    controls = cohort[cohort.y == 0]
    np.testing.assert_allclose(left[cohort.y == 0].mean(0), connections(controls).mean(0), atol=1e-5)
    np.testing.assert_array_equal(step.effects_, Deconfound().fit(controls).effects_)
    difference = left[cohort.y == 1].mean(0) - left[cohort.y == 0].mean(0)
    shared = connections(Deconfound().fit_transform(cohort))
    weakened = shared[cohort.y == 1].mean(0) - shared[cohort.y == 0].mean(0)
    assert difference[0] == pytest.approx(0.5, abs=0.1) and weakened[0] < difference[0] - 0.05
    words = np.where(cohort.y == 1, "ASD", "TD")
    for control in ("TD", None):  # which is known by its name
        named = Deconfound(fit_on="controls", control=control).fit(cohort, words)
        np.testing.assert_array_equal(named.effects_, step.effects_)
    with pytest.raises(DataError, match="no training subject has the label 'HC' of the controls"):
        Deconfound(fit_on="controls", control="HC").fit(cohort, words)
    with pytest.raises(ValueError, match="needs labels in fit"):
        Deconfound(fit_on="controls").fit(cohort.with_y(None))


# ------------------------------------------------------------------ unusual data


def test_a_missing_number_counts_as_the_training_mean() -> None:
    cohort = made(90)
    table = cohort.covariates.copy()
    table.loc[[3, 5], "age"] = np.nan
    table.loc[80, "mean_fd"] = np.nan
    gappy = cohort._with(covariates=table)
    step = Deconfound(("age", "motion")).fit(gappy[:70])
    assert np.isfinite(step.transform(gappy).matrices).all()
    known = gappy.covariates["age"][:70].dropna()
    filled = table.copy()
    filled.loc[[3, 5], "age"] = known.mean()
    alike = step.transform(cohort._with(covariates=filled)[3:4])
    # the square is that of the mean in one and the mean of the squares in the other
    linear = Deconfound(("age",)).fit(gappy[:70])
    centre = (((known - known.mean()) / known.std(ddof=0)) ** 2).mean()
    apart = connections(step.transform(gappy[3:4]))[0] - connections(alike)[0]
    assert linear.effects_.shape == (2, 28)
    np.testing.assert_allclose(apart, -centre * step.effects_[1], atol=1e-5)


def test_a_number_beyond_the_training_range_counts_as_its_end() -> None:
    cohort = made(90)
    step = Deconfound(("age",)).fit(cohort[:80])
    oldest = cohort.covariates["age"][:80].max()
    one, other = (
        cohort[80:81]._with(covariates=pd.DataFrame({"age": [age]})) for age in (oldest, 10 * oldest)
    )
    np.testing.assert_array_equal(step.transform(one).matrices, step.transform(other).matrices)


def test_an_unseen_site_is_named_and_treated_as_the_option_says() -> None:
    cohort = made(160, sites="ABCD")
    train, test = cohort[cohort.sites != "D"], cohort[cohort.sites == "D"]
    message = r"40 subjects have sites that were not in the training cohort \(D\).*unseen=\"grand_mean\""
    with pytest.raises(DataError, match=message) as caught:
        Deconfound().fit(train).transform(test)
    assert caught.value.values == ("D",) and len(caught.value.subjects) == 40
    passed = Deconfound(unseen="pass").fit(train).transform(test)
    moved = Deconfound(unseen="grand_mean").fit(train).transform(test)
    goal = connections(train).mean(0)
    apart = [np.abs(connections(one).mean(0) - goal).mean() for one in (passed, moved)]
    assert apart[1] < 0.1 < apart[0]
    np.testing.assert_array_equal(  # the label of nobody matters, nor do known sites
        Deconfound(unseen="grand_mean").fit(train).transform(cohort).matrices[cohort.sites == "D"],
        moved.matrices,
    )


def test_sites_without_controls_are_unseen() -> None:
    cohort = made(90)
    y = np.where(cohort.sites == "C", 1, cohort.y)
    with pytest.raises(DataError, match=r"not in the controls of the training cohort \(C\)"):
        Deconfound(fit_on="controls").fit_transform(cohort, y)
    assert Deconfound(fit_on="controls", unseen="grand_mean").fit_transform(cohort, y).matrices.shape


def test_an_unseen_category_is_named_or_counts_as_the_mean() -> None:
    cohort = made()
    odd = cohort._with(covariates=cohort.covariates.assign(sex="X"))[:3]
    with pytest.raises(DataError, match=r"3 subjects have values of sex that were not in .* \(X\)"):
        Deconfound(("sex",)).fit(cohort).transform(odd)
    kept = Deconfound(("sex",), unseen="pass").fit(cohort).transform(odd)
    np.testing.assert_array_equal(kept.matrices, cohort.matrices[:3])
    lacking = cohort._with(covariates=cohort.covariates.assign(sex=None))[:3]
    np.testing.assert_array_equal(Deconfound(("sex",)).fit(cohort).transform(lacking).matrices, kept.matrices)


def test_what_does_not_vary_is_left_out_with_a_warning() -> None:
    cohort = made()
    same = cohort._with(covariates=cohort.covariates.assign(age=20.0), sites=np.full(80, "A"))
    with pytest.warns(UserWarning, match="age does not vary"), pytest.warns(UserWarning, match="site does"):
        step = Deconfound().fit(same)
    rest = Deconfound(("sex", "motion")).fit(same)
    np.testing.assert_allclose(step.effects_, rest.effects_)
    assert set(nuisance_maps(same)) == {"motion", "sex"}
    with pytest.raises(DataError, match="age does not vary"):
        nuisance_maps(same, ["age"])


def test_twice_the_same_covariate_is_once() -> None:
    cohort = made()
    cohort = cohort._with(covariates=cohort.covariates.assign(years=cohort.covariates["age"], one=cohort.y))
    expected = Deconfound(("age",)).fit_transform(cohort).matrices
    for covariates in (("age", "age"), ("age", "years")):
        np.testing.assert_allclose(Deconfound(covariates).fit_transform(cohort).matrices, expected, atol=1e-5)
    assert np.isfinite(Deconfound(("one",)).fit_transform(cohort).matrices).all()  # its square is itself


def test_what_is_wrong_is_said_in_one_line() -> None:
    cohort = made()
    bare = cohort._with(covariates=cohort.covariates[["age"]], sites=None)
    with pytest.raises(DataError, match=r"no covariate sex, motion \(mean_fd\), site; it has age;"):
        Deconfound().fit(bare)
    with pytest.raises(DataError, match="6 subjects are too few to estimate the effects of age, sex"):
        Deconfound().fit(cohort[:6])
    with pytest.raises(ValueError, match="covariates must be a list of names, got 'age'"):
        Deconfound("age").fit(cohort)
    with pytest.raises(ValueError, match="fit_on must be"):
        Deconfound(fit_on="patients").fit(cohort)
    with pytest.raises(ValueError, match="needs connectivity, the cohort has series"):
        Deconfound().fit(make_cohort(8, 6, n_edges=2, random_state=0))
    with pytest.raises(NotFittedError, match="Deconfound is not fitted"):
        Deconfound().transform(cohort)
    with pytest.raises(DataError, match="fitted on 8 ROIs"):
        Deconfound().fit(cohort).transform(made(n_rois=6))


def test_other_spellings_of_covariates_are_found() -> None:
    cohort = made()
    names = {"age": "AGE_AT_SCAN", "sex": "SEX", "mean_fd": "func_mean_fd"}
    other = cohort._with(covariates=cohort.covariates.rename(columns=names))
    np.testing.assert_array_equal(
        Deconfound().fit_transform(other).matrices, Deconfound().fit_transform(cohort).matrices
    )


def test_connections_that_never_vary_stay() -> None:
    cohort = made(sites="ABCD")
    matrices = np.array(cohort.matrices)
    matrices[:, 0, 1:] = matrices[:, 1:, 0] = 0
    cohort = cohort.with_matrices(matrices)
    step = Deconfound(unseen="grand_mean").fit(cohort[cohort.sites != "D"])
    np.testing.assert_allclose(step.transform(cohort).matrices[:, 0, 1:], 0, atol=1e-7)
    assert all((values[:7] == 0).all() for values in nuisance_maps(cohort).values())


def test_a_cohort_on_disk_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = made(90)
    cohort.save(tmp_path / "cohort", mapped=True)
    mapped = load_cohort(tmp_path / "cohort")
    monkeypatch.setattr("cignn._mapped.BLOCK", 500)  # a few subjects at once
    step, own = Deconfound().fit(mapped), Deconfound().fit(cohort)
    out = step.transform(mapped)
    assert mapped.mapped and out.mapped
    np.testing.assert_allclose(out.matrices, own.transform(cohort).matrices, atol=1e-6)


# -------------------------------------------------------------------------- maps


def test_maps_are_what_a_statistics_program_says() -> None:
    cohort = made()
    values, table = connections(cohort), cohort.covariates
    maps = nuisance_maps(cohort)
    assert list(maps) == ["motion", "age", "sex", "site"]
    for name, column in (("motion", "mean_fd"), ("age", "age")):
        expected = [np.corrcoef(table[column], one)[0, 1] for one in values.T]
        np.testing.assert_allclose(maps[name], expected, atol=1e-6)
    men, women = values[table["sex"] == "M"], values[table["sex"] == "F"]
    spread = (len(men) - 1) * men.var(0, ddof=1) + (len(women) - 1) * women.var(0, ddof=1)
    expected = (men.mean(0) - women.mean(0)) / np.sqrt(spread / (len(values) - 2))
    np.testing.assert_allclose(maps["sex"], expected, atol=1e-6)
    means = pd.DataFrame(values).groupby(cohort.sites).transform("mean").to_numpy()
    np.testing.assert_allclose(maps["site"], means.var(0) / values.var(0), atol=1e-6)
    gappy = table.assign(age=table["age"].where(np.arange(80) > 9))
    without = nuisance_maps(cohort._with(covariates=gappy), ["age"])["age"]
    np.testing.assert_allclose(without, nuisance_maps(cohort[10:], ["age"])["age"])
    assert nuisance_maps(Cohort(matrices=cohort.matrices)) == {}


# ---------------------------------------------------------------------- pipeline

COHORT = make_cohort(60, 12, n_edges=4, site_effect=0.3, n_site_edges=4, lengths=(40, 60), random_state=0)
SVM = make_estimator("linear-svm", random_state=0)


def test_the_pipeline_has_the_step_between_combat_and_graphs() -> None:
    pipe = make_connectome_pipeline(SVM, combat=True, deconfound=("age", "motion"))
    assert list(pipe.named_steps) == ["connectivity", "combat", "deconfound", "graphs", "classifier"]
    assert pipe.named_steps["deconfound"].covariates == ("age", "motion")
    assert make_connectome_pipeline(SVM, deconfound=True).named_steps["deconfound"].covariates[-1] == "site"
    assert "deconfound" not in make_connectome_pipeline(SVM, deconfound=False).named_steps
    own = Deconfound(("age",), fit_on="controls")
    assert make_connectome_pipeline(SVM, deconfound=own).named_steps["deconfound"] is own
    with pytest.warns(UserWarning, match="ComBat and Deconfound both take out the site"):
        make_connectome_pipeline(SVM, combat=True, deconfound=("age", "site"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_connectome_pipeline(SVM, deconfound=("age", "site"))


@pytest.mark.parametrize("covariates", [("age", "sex", "motion", "site"), ("age", "age"), ()])
def test_saved_and_loaded_it_predicts_the_same(covariates: tuple[str, ...], tmp_path: Path) -> None:
    step = Deconfound(covariates, fit_on="controls", unseen="grand_mean", control=np.int64(0))
    model = CohortClassifier.make(SVM, connectivity=Connectivity(fisher=True), deconfound=step)
    model = clone(model).fit(COHORT[:40])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    strange = COHORT[40:]._with(sites=np.where(np.arange(20) < 8, "elsewhere", COHORT.sites[40:]))
    for new in (COHORT[40:], strange):
        np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    assert loaded.named_steps["deconfound"].get_params()["fit_on"] == "controls"


def test_a_damaged_step_is_refused() -> None:
    pipe = make_connectome_pipeline(deconfound=("age", "sex"))
    pipe.fit(COHORT, COHORT.y)
    plain, arrays = saved_steps(step for _, step in pipe.steps)
    assert len(loaded_steps(plain, arrays, 12)) == 3
    for change in ({"squares": [None, None]}, {"columns": plain[1]["facts"]["columns"][:1]}):
        broken = [plain[0], plain[1] | {"facts": plain[1]["facts"] | change}, plain[2]]
        with pytest.raises(ValueError, match="are not those of its covariates"):
            loaded_steps(broken, arrays, 12)
    with pytest.raises(ValueError, match="arrays of Deconfound"):
        loaded_steps(plain, arrays | {"1.mean_": np.zeros(3)}, 12)


def test_evaluated_methods_differ_by_what_is_taken_out() -> None:
    methods = {
        "raw": CohortClassifier.make(SVM),
        "clean": CohortClassifier.make(SVM, deconfound=Deconfound(unseen="grand_mean")),
    }
    scores = evaluate(methods, COHORT, "loso")
    assert not (scores["metric"] == "error").any() and set(scores["method"]) == set(methods)


def test_combat_and_deconfound_work_one_after_the_other() -> None:
    with pytest.warns(UserWarning, match="both take out the site"):
        pipe = make_connectome_pipeline(combat=ComBat(), deconfound=("site", "motion"))
    assert len(pipe.fit_transform(COHORT, COHORT.y)) == 60
