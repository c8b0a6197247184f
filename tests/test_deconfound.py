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
from cignn.evaluation.prediction_probe import label_predictions


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
        left = connections(Deconfound(covariates, "all").fit_transform(cohort))
        maps = nuisance_maps(cohort.with_matrices(symmetric(left, np.asarray(cohort.matrices))), covariates)
        for name in covariates:
            assert np.abs(maps[name]).max() < 1e-4, name
        np.testing.assert_allclose(left.mean(0), connections(cohort).mean(0), atol=1e-5)


def test_it_is_the_residual_of_least_squares_plus_the_mean() -> None:
    cohort = made()
    values, design = connections(cohort), design_of(cohort)
    expected = values - design @ np.linalg.lstsq(design, values, rcond=None)[0] + values.mean(0)
    for step, one in ((Deconfound(fit_on="all"), cohort), (Deconfound(), cohort.with_y(None))):
        np.testing.assert_allclose(connections(step.fit_transform(one)), expected, atol=1e-5)


def test_new_subjects_are_treated_with_training_effects_one_by_one_and_without_labels() -> None:
    cohort = made(120)
    train, test = cohort[:90], cohort[90:]
    step = Deconfound().fit(train)
    assert step.fit_on_ == "within_classes"
    together = step.transform(test)
    assert connections(together).shape == (30, 28)
    for i in (0, 7):
        np.testing.assert_allclose(together.matrices[i], step.transform(test[[i]]).matrices[0], atol=1e-6)
    np.testing.assert_array_equal(step.transform(test.with_y(None)).matrices, together.matrices)
    np.testing.assert_array_equal(step.transform(test.with_y(1 - test.y)).matrices, together.matrices)
    for names in (1 - train.y, np.where(train.y == 1, "ASD", "TD")):  # which of them is ill does not matter
        other = Deconfound().fit(train.with_y(names))
        np.testing.assert_allclose(other.effects_, step.effects_)
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
    shared = connections(Deconfound(fit_on="all").fit_transform(cohort))
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


# ------------------------------------------------------------- what "auto" stands for


def test_the_default_is_within_classes_of_classes_and_all_of_anything_else() -> None:
    cohort = made(90)
    rng = np.random.default_rng(0)
    scores = rng.normal(10, 3, 90)
    for y, meant in (
        (cohort.y, "within_classes"),
        (np.where(cohort.y == 1, "ASD", "TD"), "within_classes"),
        (cohort.y.astype(float), "within_classes"),
        (rng.integers(0, 3, 90), "within_classes"),
        (np.zeros(90, int), "all"),
        (scores, "all"),
        (np.arange(90), "all"),
    ):
        step, told = Deconfound().fit(cohort, y), Deconfound(fit_on=meant).fit(cohort, y)
        assert step.fit_on_ == told.fit_on_ == meant and step.fit_on == "auto"
        np.testing.assert_array_equal(step.effects_, told.effects_)
        assert clone(step).fit_on == "auto" and not hasattr(clone(step), "fit_on_")
    assert Deconfound().fit(cohort.with_y(None)).fit_on_ == "all"
    assert Deconfound().fit(cohort.with_y(None), cohort.y).fit_on_ == "within_classes"


def test_whole_scores_of_a_regressor_are_no_classes() -> None:
    for deconfound in (True, ("age",), Deconfound(("age",))):
        pipe = make_connectome_pipeline(make_estimator("cpm"), deconfound=deconfound)
        assert pipe.named_steps["deconfound"].fit_on == "all"
    own = Deconfound(("age",))
    assert make_connectome_pipeline(SVM, deconfound=own).named_steps["deconfound"] is own
    assert own.fit_on == "auto"


@pytest.mark.parametrize("change", ["one patient", "a site of patients", "classes are sites", "few"])
def test_tiny_classes_and_sites_of_one_class_are_cleaned_all_the_same(change: str) -> None:
    cohort = made(90)
    y = cohort.y.copy()
    if change == "one patient":
        y = (np.arange(90) == 7).astype(int)
    elif change == "a site of patients":
        y[cohort.sites == "C"] = 1
    elif change == "classes are sites":
        y = (cohort.sites == "C").astype(int)
    else:
        cohort, y = cohort[:12], np.arange(12) % 2
    step = Deconfound().fit(cohort, y)
    left = connections(step.transform(cohort))
    plain = connections(Deconfound(fit_on="all").fit_transform(cohort))
    assert step.fit_on_ == "within_classes" and np.isfinite(left).all()
    assert left.std() < 1.1 * plain.std() + 0.05  # nothing is blown up
    if change in ("one patient", "classes are sites"):
        np.testing.assert_allclose(left, plain, atol=0.02)
    if change == "classes are sites":  # what is the site and what the class nobody can tell
        np.testing.assert_allclose(left, plain, atol=1e-5)


def test_labels_that_say_nothing_cannot_be_learnt_from_what_they_leave() -> None:
    """Effects that were estimated with labels do not carry these labels to other subjects."""
    scores = []
    for seed in range(6):
        cohort = made(150, seed)
        y = np.random.default_rng(seed).permutation(cohort.y)
        shuffled = cohort.with_y(y)
        chances = label_predictions(shuffled, connections(shuffled), Deconfound())
        assert chances is not None
        scores.append(roc_auc_score(y, chances[:, 1]))
    assert abs(np.mean(scores) - 0.5) < 0.09


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


def test_saved_steps_know_what_the_default_stood_for_and_older_ones_mean_what_they_meant() -> None:
    pipe = make_connectome_pipeline(deconfound=("age", "sex")).fit(COHORT, COHORT.y)
    plain, arrays = saved_steps(step for _, step in pipe.steps)
    loaded = dict(loaded_steps(plain, arrays, 12))["deconfound"]
    assert (loaded.fit_on, loaded.fit_on_) == ("auto", "within_classes")
    params, facts = dict(plain[1]["params"]), dict(plain[1]["facts"])
    facts.pop("fit_on")  # as older versions wrote it
    for said, meant in (({"fit_on": "controls"}, "controls"), ({"fit_on": "all"}, "all"), ({}, "all")):
        kept = {name: value for name, value in params.items() if name != "fit_on"} | said
        older = [plain[0], plain[1] | {"params": kept, "facts": facts}, plain[2]]
        step = dict(loaded_steps(older, arrays, 12))["deconfound"]
        assert step.fit_on == step.fit_on_ == meant
        np.testing.assert_array_equal(step.effects_, loaded.effects_)
    for fact in ("auto", "patients"):
        broken = [plain[0], plain[1] | {"facts": facts | {"fit_on": fact}}, plain[2]]
        with pytest.raises(ValueError, match="Deconfound was fitted on"):
            loaded_steps(broken, arrays, 12)


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
