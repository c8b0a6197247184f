"""What must hold for the figures: what is drawn is what the data say, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Wedge

from cignn import report
from cignn.datasets.atlas import SYSTEMS, Atlas
from cignn.explanations import Explanation, GroupExplanation
from cignn.report.connectogram import ring, spread
from cignn.report.selection import difference, top_edges, top_nodes
from cignn.report.style import NEGATIVE, POSITIVE, SAFE_SYSTEMS, system_colours, text_on
from cignn.report.systems import GREY, OWN, SHARED
from drawings import AAL, axes_of, explanation, legend_words, part, texts

pytestmark = pytest.mark.medium

# ----------------------------------------------------------------------------- what is drawn


def test_the_top_edges_lie_above_the_threshold_and_the_top_one_comes_last() -> None:
    ex = explanation()
    kept = top_edges(ex, 10)
    assert sorted(kept.edge_weights) == list(kept.edge_weights)
    np.testing.assert_array_equal(kept.edge_weights, np.sort(ex.edge_weights)[-10:])
    assert len(top_edges(ex, None, 0.9).edges) == (ex.edge_weights > 0.9).sum()
    assert len(top_edges(replace(ex, edge_weights=np.zeros(200))).edges) == 0, "weight 0 is no edge"


def test_a_difference_has_the_edges_of_both_and_changes_sign_with_their_order() -> None:
    one, other = explanation(0), explanation(1)
    forth, back = difference(one, other), difference(other, one)
    np.testing.assert_allclose(forth.weights, one.weights - other.weights, atol=1e-6)
    np.testing.assert_allclose(forth.edge_weights, -back.edge_weights)
    assert not difference(one, one).edge_weights.any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"top": 0}, "top must be a whole number of at least 1"),
        ({"top": 2.5}, "top must be"),
        ({"threshold": -1.0}, "threshold must be at least 0, got -1.0"),
        ({"views": "q"}, "views must be different letters out of lrxyz, got 'q'"),
        ({"views": "zz"}, "views must be different"),
        ({"colours": "pretty"}, "colours must be one of 'safe', 'paper' or a dict"),
        ({"width": 0.2}, "width must lie between 1 and 50 inches"),
        ({"path": "figure.docx"}, "can be saved as .pdf"),
        ({"atlas": np.zeros((3, 3))}, r"expected finite coordinates of shape \(116, 3\)"),
        ({"atlas": Atlas(AAL.names)}, "the atlas has no coordinates"),
        ({"other": replace(explanation(), n_nodes=115)}, "same nodes, got 116 and 115"),
        ({"other": replace(explanation(), node_names=AAL.names[::-1])}, "node 0 is 'Precentral_L' in one"),
    ],
)
def test_what_cannot_be_drawn_is_named_in_one_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        report.draw_connectome(explanation(), **change)
    assert "\n" not in str(error.value)


def test_regions_without_a_place_are_asked_for() -> None:
    with pytest.raises(ValueError, match="pass atlas=, an Atlas or an"):
        report.draw_connectome(replace(explanation(), node_names=None))


# -------------------------------------------------------------------------------- connectome


def in_view(view: str) -> np.ndarray:
    assert AAL.coordinates is not None
    x = AAL.coordinates[:, 0]
    return {"l": x <= 0, "r": x >= 0}.get(view, np.ones(116, bool))


@pytest.mark.parametrize("view", "lzrxy")
def test_every_view_draws_its_edges_at_their_places_and_only_nodes_with_edges(view: str) -> None:
    ex = explanation()
    figure = report.draw_connectome(ex, views=view, top=30)
    ax = axes_of(figure, f"|{view}")
    drawn = top_edges(ex, 30)
    inside = in_view(view)[drawn.edges].all(1)
    lines = part(ax, LineCollection, "edges")
    assert len(lines.get_segments()) == inside.sum() > 0
    assert AAL.coordinates is not None
    flat = AAL.coordinates[:, {"z": [0, 1], "y": [0, 2]}.get(view, [1, 2])]
    np.testing.assert_allclose(lines.get_segments(), flat[drawn.edges[inside]])
    shown = np.intersect1d(drawn.edges, np.flatnonzero(in_view(view)))
    nodes = part(ax, PathCollection, "nodes")
    assert {tuple(p) for p in nodes.get_offsets().tolist()} == {tuple(p) for p in flat[shown].tolist()}
    limits = np.sort([ax.get_xlim(), ax.get_ylim()], axis=1).T
    assert (flat >= limits[0]).all() and (flat <= limits[1]).all(), "the whole brain is in the picture"


def test_edges_of_large_weight_are_thick_and_dark_and_nodes_grow_with_their_edges() -> None:
    ex = explanation()
    ax = axes_of(report.draw_connectome(ex, views="z", top=40), "|z")
    lines = part(ax, LineCollection, "edges")
    assert (np.diff(lines.get_linewidths()) > 0).all(), "drawn in the order of their weight"
    assert (np.diff(lines.get_colors()[:, :3].sum(1)) <= 0).all()
    assert AAL.coordinates is not None and AAL.systems is not None
    counts = np.bincount(top_edges(ex, 40).edges.ravel(), minlength=116)
    node_at = {tuple(at): node for node, at in enumerate(AAL.coordinates[:, :2].tolist())}
    nodes = part(ax, PathCollection, "nodes")
    drawn = [node_at[tuple(at)] for at in nodes.get_offsets().tolist()]
    sizes = dict(zip(counts[drawn], nodes.get_sizes(), strict=True))
    assert [sizes[count] for count in sorted(sizes)] == sorted(set(nodes.get_sizes())) and len(sizes) > 1
    for node, colour in zip(drawn, nodes.get_facecolors(), strict=True):
        assert to_hex(colour) == SAFE_SYSTEMS[AAL.systems[node]]


@pytest.mark.parametrize("colours", ["safe", "paper", {"VN": "#123456"}])
def test_the_legend_names_the_systems_drawn_and_shows_their_colours(colours: Any) -> None:
    ex = top_edges(explanation(), 12)
    figure = report.draw_connectome(ex, colours=colours)
    assert ex.systems is not None
    present = set(ex.systems[np.unique(ex.edges)])
    palette = system_colours(AAL.systems, colours)
    assert [word for word in legend_words(figure) if word in SYSTEMS] == [s for s in SYSTEMS if s in present]
    legend = next(legend for legend in figure.legends if legend.get_texts()[0].get_text() in SYSTEMS)
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        assert handle is not None
        assert to_hex(handle.get_markerfacecolor()) == palette[text.get_text()]  # type: ignore[attr-defined]


def test_the_top_nodes_are_named_once_within_the_figure_and_apart_from_each_other() -> None:
    ex = explanation()
    figure = report.draw_connectome(ex, n_labels=6)
    named = [text for ax in figure.axes for text in ax.texts if text.get_text()]
    wanted = {AAL.names[node].replace("_", " ") for node in top_nodes(top_edges(ex, 50), 6)}
    assert sorted(text.get_text() for text in named) == sorted(wanted)
    boxes = [text.get_window_extent() for text in named]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[:i])
    assert not [text for ax in report.draw_connectome(ex, n_labels=0).axes for text in texts(ax)]


def test_groups_share_one_scale_and_the_difference_has_two_colours_and_dashes() -> None:
    large, small = explanation(0), replace(explanation(1), edge_weights=explanation(1).edge_weights / 4)
    figure = report.draw_connectomes({"A": large, "B": small}, top=20)
    widths = [part(axes_of(figure, f"{title}|z"), LineCollection, "edges").get_linewidths() for title in "AB"]
    assert min(widths[0]) > max(widths[1])
    assert {text.get_text() for text in figure.texts} == {"A", "B"}
    with pytest.raises(ValueError, match="at least one explanation"):
        report.draw_connectomes({})

    other = explanation(1)
    figure = report.draw_connectome(large, other=other, views="z", top=60)
    lines = part(axes_of(figure, "|z"), LineCollection, "edges")
    values = top_edges(difference(large, other), 60).edge_weights
    dashed = np.array([pattern[1] is not None for pattern in lines.get_linestyles()])
    np.testing.assert_array_equal(dashed, values < 0)
    assert dashed.any() and not dashed.all()
    top = lines.get_colors()[np.abs(values).argmax()]
    end = POSITIVE if values[np.abs(values).argmax()] > 0 else NEGATIVE
    np.testing.assert_allclose(top[:3], to_rgb(end), atol=0.01)


@pytest.mark.parametrize(("size", "end"), [(1.0, "+1.00"), (0.02, "+0.02"), (0.0038, "+0.004")])
def test_a_scale_shows_at_least_the_first_digit_of_its_ends(size: float, end: str) -> None:
    contributions = explanation(0).edge_weights
    contributions = contributions / contributions.max() * size
    figure = report.draw_connectome(replace(explanation(0), edge_contributions=contributions), views="z")
    ticks = [tick.get_text() for tick in axes_of(figure, "scale").get_xticklabels()]
    assert ticks == [end.replace("+", "−"), "0", end]


def test_a_subject_beside_the_group_shows_what_both_have() -> None:
    group = explanation(0)
    subject = top_edges(group, 15)
    figure = report.draw_against_group(subject, group, views="z", top=20, titles=("sub-1", "patients"))
    for title, n_own in (("sub-1", 0), ("patients", 5)):
        colours = part(axes_of(figure, f"{title}|z"), LineCollection, "edges").get_colors()
        found = [to_hex(colour) for colour in colours]
        assert (found.count(SHARED), found.count(OWN)) == (15, n_own)
    assert "among the top edges of both" in legend_words(figure)
    with pytest.raises(ValueError, match="titles must be two different ones"):
        report.draw_against_group(subject, group, titles=("a", "a"))


def test_an_atlas_in_another_order_is_put_in_order_and_a_plain_array_needs_no_systems() -> None:
    ex = top_edges(explanation(), 20)
    straight = axes_of(report.draw_connectome(ex, views="z"), "|z")
    turned = axes_of(report.draw_connectome(ex, AAL[::-1], views="z"), "|z")
    for ax in (straight, turned):
        ax.figure.canvas.draw()
    np.testing.assert_allclose(
        *(part(ax, LineCollection, "edges").get_segments() for ax in (straight, turned))
    )
    plain = replace(ex, node_names=None, systems=None)
    figure = report.draw_connectome(plain, AAL.coordinates, views="z")
    assert not any(word in SYSTEMS for word in legend_words(figure))


def test_an_explanation_without_edges_is_an_empty_brain() -> None:
    ex = replace(explanation(), edges=np.zeros((0, 2), int), edge_weights=np.zeros(0))
    for figure in (report.draw_connectome(ex), report.draw_connectogram(ex)):
        figure.canvas.draw()
        for ax in figure.axes:
            assert not any(len(c.get_offsets()) for c in ax.collections if c.get_label() == "nodes")


def test_signs_in_names_are_written_as_they_are() -> None:
    names = [f"<b>{name}</b> $x^ {i}" for i, name in enumerate(AAL.names)]
    ex = top_edges(replace(explanation(), node_names=names), 10)
    for figure in (
        report.draw_connectome(ex, AAL.coordinates, n_labels=3, title="a $ b"),
        report.draw_connectogram(ex),
    ):
        figure.canvas.draw()
        words = [text for ax in figure.axes for text in texts(ax) if text.startswith("<b>")]
        assert len(words) >= 3 and set(words) <= {name.replace("_", " ") for name in names}


# ---------------------------------------------------------------------- ring and matrix


def test_the_ring_keeps_systems_together_with_gaps_between_them() -> None:
    assert AAL.systems is not None
    angle = ring(AAL.systems, 116)
    order = np.argsort(-angle)
    systems = AAL.systems[order]
    assert (systems[1:] != systems[:-1]).sum() == len(SYSTEMS) - 1
    steps = -np.diff(angle[order])
    within = systems[1:] == systems[:-1]
    assert steps[within].max() < 0.5 * steps[~within].min()
    assert np.ptp(angle) < 2 * np.pi
    assert len(np.unique(ring(None, 7).round(6))) == 7


def test_the_ring_draws_curves_between_the_nodes_of_its_edges_and_a_band_per_system() -> None:
    ex = explanation()
    figure = report.draw_connectogram(ex, top=25)
    ax, drawn = axes_of(figure, "ring"), top_edges(ex, 25)
    lines = part(ax, LineCollection, "edges")
    angle = ring(AAL.systems, 116)
    assert len(lines.get_segments()) == 25
    for curve, edge in zip(lines.get_segments(), drawn.edges, strict=True):
        ends = np.arctan2(curve[[0, -1], 1], curve[[0, -1], 0])
        np.testing.assert_allclose(np.exp(1j * ends), np.exp(1j * angle[edge]), atol=1e-6)
        assert np.linalg.norm(curve, axis=1).max() < 1, "edges stay inside the ring"
    bands = {p.get_label(): to_hex(p.get_facecolor()) for p in ax.patches if isinstance(p, Wedge)}
    assert bands == SAFE_SYSTEMS
    assert len(part(ax, PathCollection, "nodes").get_offsets()) == len(np.unique(drawn.edges))
    words = texts(ax)
    assert set(SYSTEMS) <= set(words)
    assert len(words) == len(SYSTEMS) + len(np.unique(drawn.edges)), "every node with an edge is named"
    assert len(texts(axes_of(report.draw_connectogram(ex, n_labels=3), "ring"))) == len(SYSTEMS) + 3


@pytest.mark.parametrize("width", [report.COLUMN, report.PAGE])
def test_the_names_around_the_ring_lie_within_the_figure(width: float) -> None:
    figure = report.draw_connectogram(explanation(), width=width)
    figure.canvas.draw()
    for text in axes_of(figure, "ring").texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, text.get_text()


def test_names_around_the_ring_are_spread_until_none_covers_another() -> None:
    crowded = np.array([0.0, 0.01, 0.02, 3.0, -3.1])
    apart = spread(crowded, 0.1)
    assert np.diff(np.sort(apart)).min() > 0.0999 and (np.argsort(apart) == np.argsort(crowded)).all()
    np.testing.assert_array_equal(apart[3:], crowded[3:])
    np.testing.assert_allclose(np.diff(np.sort(spread(np.linspace(0, 1, 10), 9))), 2 * np.pi / 10, rtol=0.05)
    assert spread(np.array([1.0]), 5).tolist() == [1.0]


def test_many_systems_with_long_names_are_all_in_a_legend_within_the_figure() -> None:
    systems = np.array([f"A long name of system {i % 15:02d}" for i in range(116)])
    ex = replace(explanation(), systems=systems)
    for draw in (report.draw_connectome, report.draw_connectogram):
        for width in (report.COLUMN, report.PAGE):
            figure = draw(ex, width=width, top=None)
            figure.canvas.draw()
            assert set(systems) <= set(legend_words(figure))
            for legend in figure.legends:
                box = legend.get_window_extent()
                assert box.x0 > -1 and box.x1 < figure.bbox.x1 + 1


def test_the_difference_ring_dashes_what_the_other_has_more_of() -> None:
    one, other = explanation(0), explanation(1)
    lines = part(axes_of(report.draw_connectogram(one, other=other), "ring"), LineCollection, "edges")
    dashed = [pattern[1] is not None for pattern in lines.get_linestyles()]
    np.testing.assert_array_equal(dashed, top_edges(difference(one, other)).edge_weights < 0)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_the_matrix_shows_the_table_in_the_papers_order_and_leaves_gaps_empty() -> None:
    table = explanation().by_system()
    table.loc["VN", "SBN"] = table.loc["SBN", "VN"] = np.nan
    ax = axes_of(report.draw_system_matrix(table.sample(frac=1, random_state=0)), "matrix")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(SYSTEMS)
    order = list(SYSTEMS)
    shown = np.full((9, 9), np.nan)
    for text in ax.texts:
        column, row = text.get_position()
        shown[int(row), int(column)] = number(text.get_text())
    np.testing.assert_allclose(shown, table.loc[order, order], atol=0.0051)
    assert len(ax.texts) == table.notna().to_numpy().sum() < 81
    chips = [to_hex(patch.get_facecolor()) for patch in ax.patches]
    assert chips[::2] == list(SAFE_SYSTEMS.values())


def test_the_difference_matrix_is_signed_and_symmetric_around_zero() -> None:
    one, other = explanation(0), explanation(1)
    ax = axes_of(report.draw_system_matrix(one, other=other), "matrix")
    image = ax.get_images()[0]
    assert image.norm.vmin == -image.norm.vmax  # type: ignore[operator]
    order = list(SYSTEMS)
    expected = (one.by_system() - other.by_system()).loc[order, order]
    np.testing.assert_allclose(np.ma.filled(image.get_array(), np.nan), expected)
    with pytest.raises(ValueError, match="SBN, VN is in one only"):
        report.draw_system_matrix(
            one, other=pd.DataFrame(np.ones((7, 7)), index=order[1:8], columns=order[1:8])
        )
    with pytest.raises(ValueError, match="same systems, each once"):
        report.draw_system_matrix(pd.DataFrame(np.ones((1, 2)), index=["VN"], columns=["VN", "SMN"]))


# ------------------------------------------------------------------ contributions and groups


def contributing(seed: int = 0) -> Explanation:
    """Drawn contributions, on both sides of 0, whose order is not that of the weights."""
    ex = explanation(seed)
    values = np.random.default_rng(seed + 10).normal(size=len(ex.edges))
    return replace(ex, edge_contributions=values, base=0.0, explained="patient")


def surviving(size: float = 9.0) -> GroupExplanation:
    """A group of AAL's regions whose first four connections have values of this size."""
    rng = np.random.default_rng(0)
    values = rng.normal(0, 0.2, 6670)
    values[:4] = size, -size, size, -size
    null = rng.normal(size=(20, 6670))
    nodes = {"node_names": AAL.names, "systems": AAL.systems}
    return GroupExplanation.from_maps(values, values + null[:4], null, reading="pattern", **nodes)


@pytest.mark.parametrize("draw", [report.draw_connectome, report.draw_connectogram])
def test_contributions_are_drawn_by_size_in_two_colours_around_zero(draw: Any) -> None:
    ex = contributing()
    figure = draw(ex, top=30, **({"views": "z"} if draw is report.draw_connectome else {}))
    lines = part(figure.axes[0], LineCollection, "edges")
    values = np.sort(np.abs(ex.edge_contributions))[-30:]
    own = ex.edge_contributions[np.argsort(np.abs(ex.edge_contributions))[-30:]]
    assert len(lines.get_linewidths()) == 30
    np.testing.assert_array_equal(np.argsort(lines.get_linewidths()), np.argsort(values))
    dashed = [pattern[1] is not None for pattern in lines.get_linestyles()]
    np.testing.assert_array_equal(dashed, own < 0)
    orange = lines.get_colors()[:, 0] > lines.get_colors()[:, 2]
    np.testing.assert_array_equal(orange, own > 0)
    words = [ax.get_title() for ax in figure.axes]
    assert "contribution (log-odds)" in words
    weights = draw(ex, top=30, by="weight")
    assert "edge weight" in [ax.get_title() for ax in weights.axes]


@pytest.mark.parametrize("draw", [report.draw_connectome, report.draw_connectogram])
def test_only_what_survives_in_a_group_has_a_colour(draw: Any) -> None:
    group = surviving()
    assert group.n_selected == 4
    more = {"views": "z"} if draw is report.draw_connectome else {}
    figure = draw(group, top=20, **more)
    colours = [to_hex(colour) for colour in part(figure.axes[0], LineCollection, "edges").get_colors()]
    assert len(colours) == 20 and colours.count(GREY) == 16 and GREY not in colours[-4:]
    assert "pattern of the group\n(grey: q > 0.1)" in [ax.get_title() for ax in figure.axes]
    alone = draw(group, only_surviving=True, **more)
    assert len(part(alone.axes[0], LineCollection, "edges").get_colors()) == 4
    none = draw(surviving(0.1), top=20, **more)
    assert {to_hex(colour) for colour in part(none.axes[0], LineCollection, "edges").get_colors()} == {GREY}
    assert any("no connection survives (q ≤ 0.1)" in ax.get_title() for ax in none.axes)
    empty = draw(surviving(0.1), only_surviving=True, **more)
    assert not len(part(empty.axes[0], LineCollection, "edges").get_paths())
    with pytest.raises(ValueError, match="only_surviving needs to know what survives"):
        draw(contributing(), only_surviving=True)


def test_the_matrix_of_contributions_is_signed_and_that_of_a_group_has_stars() -> None:
    ex, order = contributing(), list(SYSTEMS)
    ax = axes_of(report.draw_system_matrix(ex), "matrix")
    image = ax.get_images()[0]
    assert image.norm.vmin == -image.norm.vmax
    np.testing.assert_allclose(np.ma.filled(image.get_array(), np.nan), ex.by_system().loc[order, order])
    assert axes_of(report.draw_system_matrix(ex, by="weight"), "matrix").get_images()[0].norm.vmin == 0
    group = surviving()
    systems = group.systems.assign(q=1.0, shift_q=1.0)
    systems.loc[3, "shift_q"] = 0.05
    group = replace(group, systems=systems)
    pair = {systems.loc[3, "source_system"], systems.loc[3, "target_system"]}
    ax = axes_of(report.draw_system_matrix(group), "matrix")
    assert len(ax.texts) == 81
    starred = [text.get_position() for text in ax.texts if text.get_text().endswith("*")]
    assert {order[int(k)] for place in starred for k in place} == pair
    coloured = ~np.ma.getmaskarray(ax.get_images()[0].get_array())
    assert coloured.sum() == len(starred)
    alone = axes_of(report.draw_system_matrix(group, only_surviving=True), "matrix")
    assert len(alone.texts) == len(starred) == (1 if len(pair) == 1 else 2)
    with pytest.raises(ValueError, match="the group has no systems"):
        report.draw_system_matrix(replace(group, systems=systems.iloc[:0]))


def test_a_group_beside_a_subject_and_kinds_that_do_not_share_a_scale() -> None:
    figure = report.draw_against_group(contributing(), surviving(), views="z", top=20)
    assert "among the top edges of both" in legend_words(figure)
    with pytest.raises(ValueError, match="one scale holds one kind of value"):
        report.draw_connectomes({"one": contributing(), "other": explanation()})
    with pytest.raises(ValueError, match="these explanations have weights alone"):
        report.draw_connectome(explanation(), by="contribution")


# ---------------------------------------------------------------------------------- colours

# What protanopia … make of linear RGB at full severity (Machado, Oliveira and Fernandes, 2009), row by row.
MACHADO = {
    "full": [1, 0, 0, 0, 1, 0, 0, 0, 1],
    "protanopia": [0.152, 1.053, -0.205, 0.115, 0.786, 0.099, -0.004, -0.048, 1.052],
    "deuteranopia": [0.367, 0.861, -0.228, 0.280, 0.673, 0.047, -0.012, 0.043, 0.969],
    "tritanopia": [1.256, -0.077, -0.179, -0.078, 0.931, 0.148, 0.005, 0.691, 0.304],
}
TO_XYZ = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]


def least_distance(colours: list[str], vision: str) -> float:
    """The smallest CIE76 ΔE between two of the colours as this vision sees them."""
    rgb = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.reshape(MACHADO[vision], (3, 3)).T, 0, 1)
    f = seen @ np.transpose(TO_XYZ) / [0.9505, 1, 1.0888]
    f = np.where(f > 0.008856, np.cbrt(f), 7.787 * f + 16 / 116)
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
    distance = np.linalg.norm(lab[:, None] - lab, axis=-1)
    return float(distance[np.triu_indices(len(colours), 1)].min())


@pytest.mark.parametrize("vision", MACHADO)
def test_the_safe_colours_of_nine_systems_can_be_told_apart(vision: str) -> None:
    least = 25 if vision == "tritanopia" else 35
    assert list(SAFE_SYSTEMS) == list(SYSTEMS)
    assert least_distance(list(SAFE_SYSTEMS.values()), vision) > least
    assert least_distance([POSITIVE, NEGATIVE], vision) > 35 and least_distance([SHARED, OWN], vision) > 35


def test_systems_of_ones_own_get_colours_that_differ() -> None:
    names = [f"network-{i}" for i in range(12)]
    assert len(set(system_colours(names).values())) == 12
    mixed = system_colours(["VN", "new"], "safe")
    assert mixed["VN"] == SAFE_SYSTEMS["VN"] != mixed["new"]
    assert text_on("#000000") == "white" and text_on("#ffd149") != "white"
