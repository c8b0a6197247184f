"""What must hold for the figures of scores and trainings, and for the manners of all figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from cignn import report
from cignn.evaluation import classification_scores, critical_difference, decision_curves
from cignn.evaluation.faithfulness import ExplanationCurve, RemovalCurve
from cignn.report.curves import calibration, wilson
from cignn.report.ranks import cliques, stars
from drawings import axes_of, by_gid, explanation, legend_words, texts

pytestmark = pytest.mark.medium

RNG = np.random.default_rng(0)

# ----------------------------------------------------------------------------- saving, manners

HISTORY = pd.DataFrame(
    {
        "epoch": np.arange(1, 7),
        "stage": ["generative"] * 3 + ["classification"] * 3,
        "kl": [3.0, 2, 1, np.nan, np.nan, np.nan],
        "classification": [np.nan] * 3 + [0.7, 0.5, 0.4],
        "validation_accuracy": [0.5, 0.5, 0.5, 0.6, 0.9, 0.8],
        "validation_price": np.zeros(6),
        "seconds": np.ones(6),
    }
)
SHARES = np.arange(1, 11) / 10
CURVES = pd.DataFrame(
    [
        (method, share, 1 - loss * (1 - share) + 0.01 * seed)
        for method, loss in (("a", 0.5), ("b", 0.2))
        for share in SHARES
        for seed in (0, 1)
    ],
    columns=["method", "share", "accuracy"],
)
RUNS = pd.DataFrame(
    [
        (d, m, 0.5 + 0.1 * i + 0.02 * seed)
        for d in ("X", "Y")
        for i, m in enumerate("pqr")
        for seed in range(3)
    ],
    columns=["data", "method", "value"],
)
METHODS = ["one", "two", "three", "four"]
P_VALUES = pd.DataFrame(
    [[1, 0.2, 0.03, 0.0001], [0.2, 1, 0.005, 0.5], [0.03, 0.005, 1, 0.06], [0.0001, 0.5, 0.06, 1]],
    index=METHODS,
    columns=METHODS,
)
RANKS = pd.Series([1.2, 1.9, 3.0, 3.9], METHODS)
SITES = pd.DataFrame({"site": ["A", "B", "C"], "value": [0.6, 0.9, 0.7], "n": [20, 200, 50]})
PREDICTIONS = pd.DataFrame({"y": RNG.random(300) < 0.5, "probability": RNG.random(300)})
OUT_OF_FOLD = pd.DataFrame(
    {"method": "gin", "data": "d", "protocol": "kfold", "split": np.arange(60) % 3, "seed": 0}
    | {"subject": np.arange(60), "y_true": RNG.permuted([0, 1] * 30), "p_1": RNG.random(60)}
).assign(p_0=lambda t: 1 - t["p_1"], y_pred=lambda t: (t["p_1"] > 0.5).astype(int))
LEARNING = pd.DataFrame(
    {"method": "gin", "metric": "roc_auc", "n": [20, 40, 80, 160], "value": [0.6, 0.65, 0.68, 0.7]}
    | {"low": 0.55, "high": 0.75, "kind": ["measured"] * 3 + ["fitted"], "chance": 0.5}
)
REMOVAL = RemovalCurve(SHARES, 1 - 0.8 * SHARES, 1 - 0.6 * SHARES, 1 - 0.2 * SHARES, 1 - 0.1 * SHARES)

FIGURES: dict[str, Callable[..., Figure]] = {
    "connectome": lambda **k: report.draw_connectome(explanation(), **k),
    "connectomes": lambda **k: report.draw_connectomes({"a": explanation()}, **k),
    "against_group": lambda **k: report.draw_against_group(explanation(), explanation(1), **k),
    "connectogram": lambda **k: report.draw_connectogram(explanation(), **k),
    "system_matrix": lambda **k: report.draw_system_matrix(explanation(), **k),
    "history": lambda **k: report.draw_history(HISTORY, 5, **k),
    "explanation_curves": lambda **k: report.draw_explanation_curves(CURVES, **k),
    "removal_curve": lambda **k: report.draw_removal_curve(REMOVAL, **k),
    "calibration": lambda **k: report.draw_calibration(PREDICTIONS, **k),
    "roc": lambda **k: report.draw_roc(OUT_OF_FOLD, **k),
    "decision_curves": lambda **k: report.draw_decision_curves(decision_curves(OUT_OF_FOLD), **k),
    "learning_curve": lambda **k: report.draw_learning_curve(LEARNING, **k),
    "confusion": lambda **k: report.draw_confusion(OUT_OF_FOLD, class_names={1: "a very long name"}, **k),
    "ablation": lambda **k: report.draw_ablation(RUNS, **k),
    "sensitivity": lambda **k: report.draw_sensitivity(RUNS, setting="method", **k),
    "p_values": lambda **k: report.draw_p_values(P_VALUES, **k),
    "critical_difference": lambda **k: report.draw_critical_difference(RANKS, 10, **k),
    "sites": lambda **k: report.draw_sites(SITES, **k),
    "scores": lambda **k: report.draw_scores(np.arange(9.0), np.arange(9.0) ** 1.1, **k),
}


def test_every_figure_function_is_tried_here() -> None:
    elsewhere = {"draw_graph", "draw_graphs", "draw_molecules"}
    functions = {name for name in report.__all__ if name.startswith("draw_")}
    assert {f"draw_{name}" for name in FIGURES} == functions - elsewhere


def settings_of_pyplot() -> dict:
    """What nilearn does to the backend's name when it is first imported (Agg, agg) does not count."""
    return dict(plt.rcParams) | {"backend": str(plt.rcParams["backend"]).lower()}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_the_width_asked_for_saves_itself_and_leaves_pyplot_alone(
    name: str, tmp_path: Path
) -> None:
    settings = settings_of_pyplot()
    figure = FIGURES[name](width=report.COLUMN, path=tmp_path / "deep" / "figure.svg")
    assert isinstance(figure, Figure) and figure.get_figwidth() == report.COLUMN
    assert settings_of_pyplot() == settings
    assert not plt.get_fignums(), "no window, nothing to close"
    drawn = (tmp_path / "deep" / "figure.svg").read_text()
    assert drawn.startswith("<?xml") and "<text" in drawn, "text stays text"


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_of_a_figure_is_cut(name: str) -> None:
    figure = FIGURES[name]()
    figure.canvas.draw()
    box = figure.get_tightbbox()
    assert box is not None
    width, height = figure.get_size_inches()
    assert box.x0 > -0.01 and box.y0 > -0.01 and box.x1 < width + 0.01 and box.y1 < height + 0.01


def test_a_path_without_an_ending_gives_a_vector_file_and_a_picture(tmp_path: Path) -> None:
    for name in "ab":
        report.draw_ablation(RUNS, path=tmp_path / name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.pdf", "a.png", "b.pdf", "b.png"]
    for ending in (".pdf", ".png"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes(), (
            "same data, same file"
        )


# ----------------------------------------------------------------------------------- training


def test_every_term_of_a_training_has_a_panel_and_the_kept_epoch_is_marked() -> None:
    figure = report.draw_history(HISTORY, 5)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["validation accuracy: 0.9", "KL divergence", "classification"]
    for ax, name in zip(figure.axes, ("validation_accuracy", "kl", "classification"), strict=True):
        curve = ax.lines[0]
        seen = HISTORY[HISTORY[name].notna()]
        np.testing.assert_array_equal(curve.get_xydata(), seen[["epoch", name]])
        (line, *dot) = by_gid(ax, "chosen")
        assert set(line.get_xdata()) == {5}
        assert len(dot) == (0 if name == "kl" else 1), "no dot where the term was not measured"
        (border,) = by_gid(ax, "stage")
        assert border.get_xdata()[0] == 3.5
    assert report.draw_history(HISTORY).axes[0].get_title(loc="left") == "validation accuracy"


def test_the_members_of_a_committee_have_a_line_and_a_mark_each() -> None:
    history = pd.concat([HISTORY.assign(member=member) for member in range(3)])
    ax = report.draw_history(history, [4, 5, 6]).axes[0]
    assert len([line for line in ax.lines if str(line.get_label()).startswith("member")]) == 3
    assert [dot.get_xdata()[0] for dot in by_gid(ax, "chosen")] == [4, 5, 6]
    with pytest.raises(ValueError, match="expected 3 best epochs, one per member, got 1"):
        report.draw_history(history, 4)
    with pytest.raises(ValueError, match="no loss term and no validation score"):
        report.draw_history(HISTORY[["epoch", "stage"]])


# ------------------------------------------------------------------------------------- curves


def test_explanation_curves_show_means_and_list_methods_by_their_area() -> None:
    (ax,) = report.draw_explanation_curves(CURVES).axes
    assert [re.split(r"\s{2,}", word)[0] for word in legend_words(ax.figure)] == ["b", "a"]  # type: ignore[arg-type]
    for line, weight in zip(ax.lines, (0.2, 0.5), strict=True):
        np.testing.assert_allclose(line.get_ydata(), 1 - weight * (1 - SHARES) + 0.005)
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in ax.lines}
    assert len({look[1] for look in looks}) == 2, "methods differ in more than colour"
    assert len(ax.collections) == 2, "a band each"


def test_a_curve_of_the_evaluation_can_be_drawn_as_it_is() -> None:
    curve = ExplanationCurve(SHARES, SHARES**0.5, 0.7)
    (ax,) = report.draw_explanation_curves({"m": curve}).axes
    np.testing.assert_allclose(ax.lines[0].get_xydata(), np.stack([SHARES, SHARES**0.5], 1))
    assert not ax.collections, "one run has no band"
    with pytest.raises(ValueError, match="needs the column share, accuracy; it has method"):
        report.draw_explanation_curves(pd.DataFrame({"method": ["a"]}))


def test_the_removal_curve_stands_beside_chance() -> None:
    left, right = report.draw_removal_curve(REMOVAL).axes
    for ax, ys in ((left, (REMOVAL.random_accuracy, REMOVAL.accuracy)),
                   (right, (REMOVAL.random_probability, REMOVAL.probability))):  # fmt: skip
        for line, y in zip(ax.lines, ys, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), y)


def test_calibration_is_exact_where_the_answer_is_known() -> None:
    p = np.repeat([0.05, 0.25, 0.95], 20)
    y = np.concatenate([np.arange(20) < 1, np.arange(20) < 15, np.arange(20) < 19]).astype(float)
    result = calibration(y, p)
    np.testing.assert_allclose(result.bins["observed"], [0.05, 0.75, 0.95])
    assert result.error == pytest.approx(0.5 / 3)
    upper, lower = report.draw_calibration(pd.DataFrame({"y": y, "probability": p})).axes
    points = upper.containers[0][0]
    np.testing.assert_allclose(points.get_xydata(), [[0.05, 0.05], [0.25, 0.75], [0.95, 0.95]])
    assert lower.patches[0].get_data().values.sum() == 60  # type: ignore[attr-defined]
    assert "error 0.167" in legend_words(upper.figure)  # type: ignore[arg-type]


def test_the_error_of_the_calibration_figure_is_that_of_the_scores() -> None:
    y, p = PREDICTIONS["y"].to_numpy(int), PREDICTIONS["probability"].to_numpy()
    both = np.stack([1 - p, p], 1)
    scores = classification_scores(y, both.argmax(1), np.array([0, 1]), both)
    assert calibration(y, p).error == pytest.approx(scores["calibration_error"])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"y": [0, 2], "probability": [0.1, 0.2]}, "y must hold 0 and 1"),
        ({"y": [0, 1], "probability": [0.1, 1.2]}, r"probability must lie in \[0, 1\], got 0.1 to 1.2"),
        ({"y": [0, 1]}, "needs the column probability"),
        ({"y": [], "probability": []}, "has no rows"),
    ],
)
def test_predictions_that_are_none_are_refused(table: dict[str, list[float]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        report.draw_calibration(pd.DataFrame(table))


def test_wilsons_interval_is_that_of_the_textbook() -> None:
    interval = wilson(np.array([0.5, 1.0]), np.array([10, 10]))
    np.testing.assert_allclose(interval.low, [0.2366, 0.7225], atol=1e-4)
    np.testing.assert_allclose(interval.high, [0.7634, 1.0], atol=1e-4)


# --------------------------------------------------------------------------------- comparisons


def test_bars_are_means_and_differ_in_more_than_colour() -> None:
    ax = axes_of(report.draw_ablation(RUNS), "bars")
    heights = {(patch.get_gid(), round(patch.get_x())): patch.get_height() for patch in ax.patches}
    assert len(heights) == 6
    for (method, group), height in heights.items():
        rows = RUNS[(RUNS["method"] == method) & (RUNS["data"] == "XY"[group])]
        assert height == pytest.approx(rows["value"].mean())
    assert len({patch.get_hatch() for patch in ax.patches}) == 3
    assert sum(len(dots.get_xdata()) for dots in by_gid(ax, "runs")) == len(RUNS)
    assert ax.get_ylim()[0] == 0, "bars begin at zero"
    assert legend_words(ax.figure) == ["p", "q", "r"]  # type: ignore[arg-type]


def test_sensitivity_sorts_its_setting_and_needs_no_second_column() -> None:
    table = pd.DataFrame({"ratio": [0.8, 0.2, 0.5], "value": [0.9, 0.5, 0.7]})
    ax = axes_of(report.draw_sensitivity(table, setting="ratio", setting_label="K / (K + L)"), "bars")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.2", "0.5", "0.8"]
    assert [patch.get_height() for patch in ax.patches] == [0.5, 0.7, 0.9]
    assert ax.get_xlabel() == "K / (K + L)"
    with pytest.raises(ValueError, match="needs the column value"):
        report.draw_sensitivity(table[["ratio"]], setting="ratio")


def test_every_pair_has_its_p_value_and_stars_only_where_it_is_small() -> None:
    ax = axes_of(report.draw_p_values(P_VALUES), "p-values")
    shown = {
        (METHODS[int(text.get_position()[1]) + 1], METHODS[int(text.get_position()[0])]): text.get_text()
        for text in ax.texts
    }
    assert shown == {
        ("two", "one"): ".20",
        ("three", "one"): ".030\n*",
        ("three", "two"): ".005\n**",
        ("four", "one"): "<.001\n***",
        ("four", "two"): ".50",
        ("four", "three"): ".060",
    }
    assert stars(0.04, alpha=0.01) == "" and stars(0.05) == ""
    crooked = P_VALUES.copy()
    crooked.iloc[0, 1] = 0.9
    for table, words in (
        (crooked, "symmetric"),
        (P_VALUES.iloc[:2], "same methods"),
        (P_VALUES * 9, "lie in"),
    ):
        with pytest.raises(ValueError, match=words):
            report.draw_p_values(table)


def test_methods_closer_than_the_critical_difference_are_joined() -> None:
    assert cliques(np.array([1.0, 1.5, 3.0, 3.2]), 1.0) == [(0, 1), (2, 3)]
    assert cliques(np.array([1.0, 2.0, 3.0]), 1.5) == [(0, 1), (1, 2)]
    assert cliques(np.array([1.0, 2.0]), 0.5) == []
    ax = axes_of(report.draw_critical_difference(RANKS[::-1], 10), "ranks")
    critical = critical_difference(4, 10)
    bars = [line.get_xdata() for line in by_gid(ax, "clique")]
    expected = cliques(RANKS.to_numpy(), critical)
    assert len(bars) == len(expected) > 0
    for bar, (first, last) in zip(bars, expected, strict=True):
        np.testing.assert_allclose(bar, [RANKS.iloc[first], RANKS.iloc[last]], atol=0.05)
    assert sorted(line.get_xdata()[0] for line in by_gid(ax, "method")) == sorted(RANKS)
    (scale,) = by_gid(ax, "cd")
    assert np.ptp(scale.get_xdata()) == pytest.approx(critical)
    assert {"one  1.20", "3.90  four"} <= set(texts(ax))
    with pytest.raises(ValueError, match="between 1 and 2"):
        report.draw_critical_difference(pd.Series({"a": 1.0, "b": 5.0}), 3)


def test_sites_are_sorted_with_their_size_interval_and_mean() -> None:
    ax = axes_of(report.draw_sites(SITES), "sites")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["A  (20)", "C  (50)", "B  (200)"]
    dots = next(line for line in ax.lines if line.get_linestyle() == "None")
    np.testing.assert_array_equal(dots.get_xdata(), [0.6, 0.7, 0.9])
    (mean,) = by_gid(ax, "mean")
    assert mean.get_xdata()[0] == pytest.approx(SITES["value"].mean())
    (intervals,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    lengths = [np.ptp(segment[:, 0]) for segment in intervals.get_segments()]
    assert lengths[0] > lengths[1] > lengths[2], "small sites are uncertain"
    plain = axes_of(report.draw_sites(SITES[["site", "value"]], chance=None), "sites")
    assert not plain.collections and not by_gid(plain, "chance")


def test_methods_stand_side_by_side_at_each_site() -> None:
    table = pd.concat([SITES.assign(method="m"), SITES.assign(method="k", value=0.5)])
    figure = report.draw_sites(table)
    assert legend_words(figure) == ["m  (mean 0.733)", "k  (mean 0.500)"]
