"""Learning curves: thinned training parts, power laws and what is said of more subjects."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")

from cignn.datasets import Cohort, make_cohort
from cignn.evaluation import KFold, LeaveOneSiteOut, Store, Subsampled, evaluate, learning_curve
from cignn.evaluation.learning import LearningCurve, chance_levels
from cignn.evaluation.power_law import fit_power_law
from cignn.evaluation.splits import Labels
from cignn.report import draw_learning_curve
from cignn.report.learning import learning_view

LASSO = {"lasso": {"C": 1.0}}


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(90, n_rois=8, n_edges=5, effect=0.5, n_sites=3, data="matrices", random_state=0)


@pytest.fixture(scope="module")
def curve(cohort: Cohort) -> LearningCurve:
    return learning_curve(LASSO, cohort, KFold(3), sizes=[0.3, 0.6, 1.0], verbose=0)


# --------------------------------------------------------------------------- splits


@pytest.mark.parametrize("protocol", [KFold(3), LeaveOneSiteOut()])
def test_smaller_parts_are_nested_and_tests_stay(cohort: Cohort, protocol) -> None:
    shares = (0.3, 0.6, 1.0)
    thinned = Subsampled(protocol, shares).splits(cohort, 0)
    for i, whole in enumerate(protocol.splits(cohort, 0)):
        some = thinned[3 * i : 3 * i + 3]
        assert [split.name for split in some] == [f"{whole.name} | {share:g}" for share in shares]
        assert all((split.test == whole.test).all() for split in some)
        for small, large in pairwise(some):
            assert set(small.train) < set(large.train) and set(small.validation) <= set(large.validation)
        assert some[-1].digest() == whole.digest()  # stored tasks of an evaluation are these
        for split, share in zip(some, shares, strict=True):
            assert len(split.train) == pytest.approx(share * len(whole.train), abs=6)
            assert cohort.y[split.train].mean() == pytest.approx(cohort.y[whole.train].mean(), abs=0.15)


def test_scans_of_a_subject_stay_together() -> None:
    subjects = np.repeat([f"s{i}" for i in range(60)], 2)
    labels = Labels(np.repeat(np.arange(60) % 2, 2), subjects)
    for split in Subsampled(KFold(3), (0.4, 1.0)).splits(labels, 1):
        assert pd.Series(subjects[split.development]).value_counts().eq(2).all()


def test_sizes_that_make_no_sense_are_refused(cohort: Cohort) -> None:
    with pytest.raises(ValueError, match=r"with 0\.05 of the training subjects, split '1' has"):
        learning_curve(LASSO, cohort, KFold(3), sizes=[0.05, 1.0], verbose=0)
    with pytest.raises(ValueError, match="numbers up to 60, the subjects of a training part, got 100"):
        learning_curve(LASSO, cohort, KFold(3), sizes=[100], verbose=0)
    with pytest.raises(ValueError, match="at least one"):
        learning_curve(LASSO, cohort, KFold(3), sizes=[], verbose=0)
    with pytest.raises(ValueError, match="of one data set"):
        learning_curve(LASSO, {"a": cohort, "b": cohort}, KFold(3), verbose=0)


# ----------------------------------------------------------------------------- curve


def test_the_table_has_every_size_with_its_interval(curve: LearningCurve) -> None:
    table = curve.table()
    assert table["n"].is_monotonic_increasing and table["n"].iloc[-1] == 60
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    assert (table["high"] <= 1).all() and (table["chance"] == 0.5).all() and (table["tasks"] == 3).all()
    assert curve.table("mcc")["metric"].eq("mcc").all()
    with pytest.raises(ValueError, match="there is no score 'auc'"):
        curve.table("auc")


def test_a_store_repeats_nothing(cohort: Cohort, tmp_path: Path) -> None:
    evaluate(LASSO, cohort, KFold(3), store=tmp_path, verbose=0)
    with Store(tmp_path) as store:
        learning_curve(LASSO, cohort, KFold(3), sizes=[0.5, 1.0], store=store, verbose=0)
        assert len(store.tasks()) == 3 + 3  # those with all subjects were there
        again = learning_curve(LASSO, cohort, KFold(3), sizes=[0.5, 1.0], store=store, verbose=0)
        assert len(store.tasks()) == 6
    assert again.results["share"].unique().tolist() == [0.5, 1.0]


def test_numbers_of_subjects_are_shares_of_the_training_part(cohort: Cohort) -> None:
    curve = learning_curve(LASSO, cohort, KFold(3), sizes=[30, 60], verbose=0)
    assert curve.results["share"].unique().tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match="needs three sizes or more, 'lasso' has 2"):
        curve.fit()
    assert curve.words()["lasso"].startswith("no extrapolation")
    assert (curve.to_frame()["kind"] == "measured").all()


def test_chance_is_what_guessing_scores() -> None:
    y = np.array([0] * 30 + [1] * 10)
    assert chance_levels(Labels(y, y.astype(str)))["accuracy"] == 0.75
    assert chance_levels(Labels(np.arange(9) % 3, y.astype(str)))["balanced_accuracy"] == pytest.approx(1 / 3)


# ----------------------------------------------------------------------------- law


@pytest.mark.parametrize(("a", "b", "c"), [(0.8, 2.0, 1.0), (0.75, 0.6, 0.5), (0.7, 0.0, 1.0)])
def test_a_power_law_is_found_again(a: float, b: float, c: float) -> None:
    n = np.array([20.0, 40, 80, 160, 320])
    law = fit_power_law(n, np.tile(a - b * n**-c, (5, 1)), 0.25)
    np.testing.assert_allclose(law(2 * n), a - b * (2 * n) ** -c, atol=1e-3)
    low, high = law.interval(n)
    np.testing.assert_allclose(low, high, atol=1e-9)  # splits that agree leave no doubt


def test_the_law_never_falls_and_stays_possible() -> None:
    rng = np.random.default_rng(0)
    n = np.array([20.0, 40, 80, 160])
    falling = fit_power_law(n, 0.7 - 0.001 * n + rng.normal(size=(6, 4)) / 50, 0.25)
    assert falling.b == 0 and falling.gain()[0] == 0
    steep = fit_power_law(n, 0.5 + 0.003 * n + rng.normal(size=(6, 4)) / 50, 0.25)
    assert steep.a <= 1 and (steep(10 * n) <= 1).all()


def test_more_overlap_means_more_doubt() -> None:
    n = np.array([20.0, 40, 80, 160])
    scores = 0.8 - 2 / n + np.random.default_rng(0).normal(size=(10, 4)) / 30
    widths = []
    for overlap in (0.0, 0.5):
        low, high = fit_power_law(n, scores, overlap).interval(np.array([320.0]))
        widths.append(float(high[0] - low[0]))
    assert widths[1] > widths[0] > 0


@pytest.mark.parametrize(
    ("scores", "low", "words"),
    [
        ([0.55, 0.60, 0.65, 0.70], 0.65, "more subjects are worth it"),
        ([0.70, 0.70, 0.70, 0.70], 0.65, "will hardly help"),
        ([0.52, 0.52, 0.53, 0.53], 0.45, "not measurably better than guessing"),
    ],
)
def test_words_say_what_more_subjects_may_bring(scores: list[float], low: float, words: str) -> None:
    n = np.array([20.0, 40, 80, 160])
    law = fit_power_law(n, np.tile(scores, (5, 1)), 0.25)
    assert words in law.words(scores[-1], low, 0.5)
    noisy = np.tile([0.6, 0.63, 0.65, 0.66], (5, 1)) + np.random.default_rng(0).normal(size=(5, 4)) / 20
    told = fit_power_law(n, noisy, 0.25).words(0.66, 0.6, 0.5)
    assert "95 % interval" in told


# -------------------------------------------------------------------------- figures


def test_the_figure_shows_intervals_the_law_and_guessing(curve: LearningCurve, tmp_path: Path) -> None:
    table = curve.to_frame()
    figure = draw_learning_curve(table, path=tmp_path / "curve.png")
    labels = {text.get_text() for text in figure.axes[0].get_legend().get_texts()}
    assert labels == {"lasso", "guessing"} and (tmp_path / "curve.png").is_file()
    assert set(table["kind"]) == {"measured", "fitted"} and table["n"].max() == pytest.approx(4 * 60)
    with pytest.raises(ValueError, match="of one metric"):
        draw_learning_curve(pd.concat([table, table.assign(metric="mcc")]))
    view = learning_view(table.assign(words="so much"))
    assert view is not None and [n for n, _ in view.rows] == [round(n) for n in curve.table()["n"]]
    assert view.words == [("lasso", "so much")] and learning_view(None) is None


# ------------------------------------------------------------------------- commands


@pytest.mark.medium
def test_the_learning_curve_on_the_command_line(call, tmp_path: Path, monkeypatch, cohort: Cohort) -> None:
    monkeypatch.chdir(tmp_path)
    cohort.save("study.npz")
    words = "evaluate study.npz --methods lasso --set C=1.0 --protocol kfold --folds 3 --learning-curve"
    result = call(*words.split(), "--train-sizes", "0.3,0.6", "--json")
    assert result.code == 0, result.err
    rows = pd.DataFrame(json.loads(result.out)["learning_curve"])
    assert len(rows[rows["kind"] == "measured"]) == 3 and Path("results/learning_curve.png").is_file()
    shown = call(*words.split(), "--train-sizes", "0.3,0.6")
    assert "by number of subjects learnt from" in shown.words and "lasso:" in shown.words

    from cignn.cli.learning import read_learning

    scores = pd.read_csv("results/scores.csv")
    assert read_learning(Path("results"), scores) is not None
    assert read_learning(Path("results"), scores.assign(key="other")) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--train-sizes 0.5", "is for --learning-curve"),
        ("--learning-curve --train-sizes half", "must be shares in (0, 1] or numbers of subjects, got half"),
        ("--learning-curve --train-sizes 0.02", "leave out so small a size"),
    ],
)
def test_wrong_sizes_end_with_one_line(
    call, tmp_path: Path, monkeypatch, cohort: Cohort, words: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cohort.save("study.npz")
    result = call("evaluate", "study.npz", "--methods", "lasso", "--protocol", "kfold", *words.split())
    assert result.code == 2 and said in result.words
