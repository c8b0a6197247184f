"""What a report says of contributions and of the group: in numbers, in words, and in a browser."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cignn import CohortClassifier, Explanations
from cignn._arrays import upper_triangle
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import Removal, Reproducibility, subject_score_table, subject_scores
from cignn.explanations import EdgeReference, GroupExplanation
from cignn.report import ReportData, report_of, write_report
from cignn.report.evidence import evidence, means, pair_sums
from cignn.report.group import system_matrix
from cignn.report.html import render_report
from cignn.report.payload import _evidence
from cignn.report.records import edges_of, encoded, records
from test_html_report import HOSTILE, IMAGE, Page, needs_browser, page  # noqa: F401

import pandas as pd  # isort: skip

pytestmark = pytest.mark.medium

N = 20


def contributing(n_rois: int = 20, **changes: Any) -> ReportData:
    """A report of drawn contributions that add up to the probabilities; the same weights for everybody."""
    cohort = make_cohort(N, n_rois, data="matrices", n_edges=10, random_state=0)
    graphs = ConnectomeGraphs().transform(cohort)
    rng = np.random.default_rng(0)
    n_edges = int(graphs.n_edges[0])
    contributions = rng.normal(0, 0.1, (N, n_edges)) ** 3 * 50
    base = rng.normal(0, 0.2, N)
    log_odds = base + contributions.sum(1)
    contributions[log_odds < 0] *= -1  # of the predicted class
    base[log_odds < 0] *= -1
    chance = 1 / (1 + np.exp(-np.abs(log_odds)))
    predicted = (log_odds < 0).astype(int)
    probabilities = np.stack([np.where(predicted == k, chance, 1 - chance) for k in (0, 1)], 1)
    controls = graphs[np.asarray(graphs.y) == 0]
    explanations = Explanations(
        graphs,
        [rng.random(n_edges)] * N,
        predicted,
        edge_contributions=list(contributions),
        base=base,
        classes=np.array([0, 1]),
        reference=EdgeReference.of(controls, "0"),
    )
    counts = np.array([0, 1, 2, 5])
    top = chance * (1 - counts[:, None] / 10)
    data = ReportData(
        explanations,
        np.array([0, 1]),
        probabilities,
        removal=Removal(counts, top, np.broadcast_to(chance, top.shape)),
        class_names={0: "control", 1: "patient"},
    )
    return replace(data, **changes)


def surveyed(n_rois: int = 20, size: float = 9.0, **told: Any) -> GroupExplanation:
    """A group whose first three connections have values of this size, the others none beyond chance."""
    rng = np.random.default_rng(0)
    data = contributing(n_rois)
    e = n_rois * (n_rois - 1) // 2
    values = rng.normal(0, 0.3, e)
    values[:3] = size, -size, size
    halves = values + 0.3 * rng.normal(size=(20, e))
    null = rng.normal(size=(99, e))
    nodes = {"node_names": data.graphs.node_names, "systems": data.graphs.node_meta["system"]}
    given = {"reading": "pattern", "reason": "It came back.", "n_subjects": N, **nodes, **told}
    return GroupExplanation.from_maps(values, halves, null, effects=values / 9, **given)


# ------------------------------------------------------------------------- numbers


def test_base_and_both_sides_add_up_to_the_log_odds_and_the_pairs_of_systems_to_both_sides() -> None:
    data = contributing()
    found = evidence(data)
    total = found.base + found.plus - found.minus
    np.testing.assert_allclose(total, data.explanations.log_odds, atol=1e-5)
    np.testing.assert_allclose(1 / (1 + np.exp(-total)), data.probabilities.max(1), atol=1e-6)
    sums = pair_sums(data)
    np.testing.assert_allclose(sums.sums.sum(1), np.stack([found.plus, found.minus], 1), rtol=1e-5)
    table = data.explanations[3].by_system().loc[sums.names, sums.names].to_numpy()
    net = sums.sums[3, :, 0] - sums.sums[3, :, 1]
    np.testing.assert_allclose([table[pair] for pair in sums.pairs], net, atol=1e-5)


def test_mean_contributions_speak_for_the_positive_class_whatever_was_predicted() -> None:
    data = contributing()
    found, edges = evidence(data), edges_of(data)
    chosen = means(data, found)
    assert [one.name for one in chosen] == ["patient", "control", "all"]
    for one in chosen:
        expected = data.explanations[one.who].mean(1).edge_contributions
        np.testing.assert_allclose(one.of(edges.contributions), expected, atol=1e-6)
    turned = means(replace(data, positive=0), found)[0]
    assert (turned.name, turned.towards) == ("control", "control")
    np.testing.assert_allclose(turned.of(edges.contributions), -chosen[1].of(edges.contributions))


def test_small_contributions_survive_their_bytes_beside_large_ones() -> None:
    values = np.array([-2.0, 0.0, 0.002, 0.5, -0.01])
    head, codes = encoded("contribution", values)
    largest = np.frombuffer(head, "<f4")[1]
    part = (codes.astype(float) - 128) / 127
    np.testing.assert_allclose(np.sign(part) * part**2 * largest, values, rtol=0.15, atol=1e-9)
    assert (encoded("deviation", np.zeros(0))[1]).shape == (0,)


def test_weights_that_are_the_same_for_everyone_are_sent_once() -> None:
    data = contributing()
    sent = records(data, edges_of(data))
    assert sent.columns == ["contribution", "connectivity"]
    assert len(base64.b64decode(sent.lines[0])) == 16 + 2 * 190
    shown = data.explanations.with_connectivity(np.zeros((N, 20, 20)))
    tangent = replace(data, explanations=shown)
    assert records(tangent, edges_of(tangent)).columns == ["contribution", "connectivity", "deviation"]
    few = records(data, edges_of(data), budget=1000)
    assert few.layout == "listed" and few.kept == 100
    raw = base64.b64decode(few.lines[2])
    ends = np.frombuffer(raw[20:420], "<u2").reshape(2, 100).T
    np.testing.assert_array_equal(ends, data.explanations[2].edges[data.explanations[2].ranking()[:100]])


# --------------------------------------------------------------------------- words


def words_of(data: ReportData) -> str:
    return " ".join(render_report(data).split())


def test_without_resampling_the_report_says_that_nothing_is_known_about_its_means() -> None:
    told = words_of(contributing())
    assert "How sure these means are is not known." in told and "--resamples 100" in told
    assert "survives" not in told.split("<script")[0] and "★" not in told.split("<script")[0]
    assert "Mean net contribution to the log-odds of patient, patient (10)" in told


def test_what_survives_leads_the_group_and_has_stars() -> None:
    group = surveyed(nuisances={"motion": surveyed().table["value"].to_numpy()})
    assert group.n_selected == 3
    told = words_of(contributing(group=group))
    assert "<strong>3 of 190 connections survive.</strong>" in told
    assert "How sure these means are" not in told
    assert "what goes along with the decision" in told and "what the decision is made from" in told
    assert "It came back." in told
    assert told.index("3 of 190 connections") < told.index("Within and between systems")
    assert "Positive values: higher speaks for patient; negative ones: lower speaks for patient." in told
    either = words_of(contributing(group=surveyed(reading="size")))
    assert "Positive values: speaks for the true class" in either


def test_a_map_like_that_of_motion_is_a_warning() -> None:
    own = surveyed()
    motion = upper_triangle(own.map)
    told = words_of(contributing(group=surveyed(nuisances={"motion": motion, "age": -motion[::-1]})))
    assert "their own maps: motion 1.00, age" in told
    assert "Warning: the map resembles that of motion (1.00, above 0.3).</strong>" in told
    assert "take it out with <code>--deconfound motion</code>" in told and "may be age" not in told
    assert "is not known: the subjects have no such columns" in words_of(contributing(group=own))


def test_where_nothing_survives_the_report_says_so_first_and_marks_nothing() -> None:
    group = surveyed(size=0.5)
    assert not group.n_selected
    data = contributing(group=group)
    told = words_of(data).split('<section id="explanation"')[1].split('<section id="subjects"')[0]
    assert told.index("No connection survives.") < 200
    assert "No pair of systems survives." in told and "no finding about the classes" in told
    assert "★" not in told
    cells = [cell for row in system_matrix(data).rows for cell in row]
    assert not any(cell.star or cell.side or cell.shade for cell in cells)
    untested = replace(data, group=replace(group, n_permutations=0))
    assert "No connection was tested:" in words_of(untested)


def test_pairs_of_systems_that_survive_alone_are_coloured() -> None:
    group = surveyed()
    first = group.systems.index[0]
    systems = group.systems.assign(q=1.0, shift_q=1.0)
    systems.loc[first, "q"] = 0.01
    matrix = system_matrix(contributing(group=replace(group, systems=systems)))
    row = systems.loc[first]
    a, b = (matrix.names.index(row[name]) for name in ("source_system", "target_system"))
    for i, cells in enumerate(matrix.rows):
        for j, cell in enumerate(cells):
            assert cell.star == ({i, j} == {a, b}) == bool(cell.side)


def test_flat_weights_of_systems_are_called_flat_and_shaded_alike() -> None:
    data = contributing()
    weights = [np.full(190, 0.4) + 0.01 * (np.arange(190) % 2)] * N
    flat = replace(data, explanations=Explanations(data.graphs, weights))
    told = words_of(flat)
    assert "the model looks at all pairs of systems alike" in told
    shades = [cell.shade for row in system_matrix(flat).rows for cell in row if cell.text != "–"]
    assert max(shades) - min(shades) < 5


def test_the_agreement_of_halves_is_shown_beside_permuted_labels() -> None:
    rows = [("model", "true", 0.61, 31), ("model", "permuted", -0.02, 2), ("t", "true", 0.4, 14)]
    table = pd.DataFrame(rows, columns=["map", "labels", "rho", "common"]).assign(split=1)
    told = words_of(contributing(reproducibility=[Reproducibility(table, "sites", 100, 6670)]))
    assert "no site in both, 1 time:" in told and "1.5 by chance" in told
    for value in ("0.61", "31.0", "−0.02", "2.0", "0.40"):
        assert f'<td class="number">{value}</td>' in told


def test_known_connections_are_scored_in_carriers_beside_those_who_do_not_have_them() -> None:
    cohort = make_cohort(40, 12, n_edges=4, effect=0.8, affected=0.5, data="matrices", random_state=0)
    model = CohortClassifier.make(make_estimator("lasso")).fit(cohort[:24])
    data = report_of(model, cohort)
    held = subject_score_table(subject_scores(data.explanations[24:], cohort[24:]))
    pd.testing.assert_frame_equal(data.carriers, held)
    told = words_of(data)
    assert f"<dd>{held['roc_auc']['carriers']:.2f}</dd>" in told and "ROC-AUC, in carriers" in told
    for role in held.index:
        assert f'<th scope="row">{role}</th><td class="number">{held["n"][role]}</td>' in told


def test_a_group_of_other_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the group's map must have the 20 nodes .* got \(12, 12\)"):
        contributing(group=surveyed(12))


# ------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder / "report.html", contributing(116, group=surveyed(116)))


@needs_browser
def test_a_subjects_page_leads_with_what_speaks_for_and_against(page: Page, report: Path) -> None:  # noqa: F811
    data = contributing(116)
    page.complaints()
    for i in (0, 1):
        page.open(report, f"#subject-{i}")
        one, found = data.explanations[i], evidence(data)
        name = data.class_labels[found.explained[i]]
        assert page.texts("#evidence h4") == [f"For {name}", f"Against {name}"]
        terms = [float(text.replace("−", "-")) for text in page.texts("#evidence .sum b")]
        total = one.log_odds
        expected = [found.base[i], found.plus[i], found.minus[i], total, data.probabilities[i].max()]
        np.testing.assert_allclose(terms, expected, atol=0.0051)
        shown = page.texts("#evidence .side .name")
        for side, start in (("for", 0), ("against", 10)):
            top = one.top_edges(10, side=side)
            assert shown[start] == f"{top['source'][0]} – {top['target'][0]}"
            far = top["deviation"][0]
            words = f"{abs(far):.1f} SD {'lower' if far < 0 else 'higher'} than control"
            assert page.texts("#evidence .side .note")[start] == words
            value = float(page.texts("#evidence .side .value")[start].replace("−", "-"))
            assert value == pytest.approx(top["contribution"][0], rel=0.02)
        assert page.texts("#evidence .notice") == []
        assert page.texts("#one .removal thead th")[1] == "largest contributions first"
        top = one.top_edges(3)
        assert page.column("#one-table", 0)[:3] == list(top["source"])
        assert page.column("#one-table", 3)[:3] == list(top["role"])
        assert page.column("#one-table", 5)[:3] == list(top["direction"])
        nets = one.system_table()
        assert page.texts("#one .pairs tbody th")[0].split(" – ") in (
            [nets["source_system"][0], nets["target_system"][0]],
            [nets["target_system"][0], nets["source_system"][0]],
        )
    assert page.complaints() == []


@needs_browser
def test_only_what_survives_is_drawn_until_all_is_asked_for(page: Page, report: Path) -> None:  # noqa: F811
    page.open(report)
    assert page.drawn() == 3
    assert page.column("#edge-table", 2)[:4] == ["★"] * 3 + ["–"]
    assert page.texts("#group-viewer .legend > span")[-1] == "does not survive"
    labels = "[...document.querySelectorAll('#group-viewer label')]"
    before = page.pixels("#group-viewer")
    page.js(f"{labels}.find(e => e.textContent === 'only what survives').click()")
    page.set("#group-viewer .threshold", 1000)
    assert page.drawn() == 6670 and page.pixels("#group-viewer") != before
    table = surveyed(116).table
    assert page.column("#edge-table", 4)[:3] == list(table["direction"][:3])


@needs_browser
def test_a_map_of_which_nothing_survives_has_no_colours(page: Page, tmp_path: Path) -> None:  # noqa: F811
    path = write_report(tmp_path / "none.html", contributing(116, group=surveyed(116, size=0.5)))
    page.open(path)
    assert page.texts("#group-viewer .legend > span") == ["does not survive"]
    assert page.drawn() == 60
    coloured = """const canvas = document.querySelector('#group-viewer canvas');
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const apart = (k) => [179, 88, 6].reduce((sum, v, c) => sum + Math.abs(pixels[k + c] - v), 0);
    let n = 0;
    for (let k = 0; k < pixels.length; k += 4) if (pixels[k + 3] > 100 && apart(k) < 12) n++;
    return n"""
    assert page.js(coloured) == 0
    assert not any("★" in text for text in page.column("#edge-table", 2))
    page.open(path, "#subject-1")
    assert "No connection survives in the group." in page.text("#evidence .notice")


@needs_browser
def test_a_model_that_hardly_decides_is_said_to(page: Page, tmp_path: Path) -> None:  # noqa: F811
    data = contributing()
    little = [1e-5 * values for values in data.explanations.edge_contributions]
    weak = data.explanations._with(edge_contributions=little, base=np.zeros(N))
    page.open(write_report(tmp_path / "weak.html", replace(data, explanations=weak)), "#subject-1")
    assert any("nearly the same whatever they are" in text for text in page.texts("#evidence .notice"))
    widths = page.js(
        "return [...document.querySelectorAll('.side .fill')].map(e => parseFloat(e.style.width))"
    )
    assert widths and max(widths) < 5


@needs_browser
def test_the_other_reading_is_a_column_of_its_own(page: Page, tmp_path: Path) -> None:  # noqa: F811
    use = np.linspace(-1, 1, 190)
    path = write_report(tmp_path / "both.html", contributing(group=surveyed(use=use)))
    page.open(path)
    heads = page.texts("#edge-table thead th")
    assert heads[heads.index("q") + 1 :][:2] == ["use", "systems"]
    assert "pattern" not in heads


@needs_browser
def test_deviations_in_tangent_space_are_those_of_the_models_own_values(
    page: Page,  # noqa: F811
    tmp_path: Path,
) -> None:
    data = contributing()
    shown = data.explanations.with_connectivity(np.full((N, 20, 20), 0.25))
    path = write_report(tmp_path / "tangent.html", replace(data, explanations=shown))
    page.open(path, "#subject-3")
    top = data.explanations[3].top_edges(3)
    far = [float(text.replace("−", "-")) for text in page.column("#one-table", 4)[:3]]
    np.testing.assert_allclose(far, top["deviation"], atol=0.08)
    assert page.column("#one-table", 7)[:3] == ["0.25"] * 3


@needs_browser
def test_more_than_two_classes_have_for_and_against_too(page: Page, tmp_path: Path) -> None:  # noqa: F811
    page.complaints()
    data = contributing()
    told = {"edge_contributions": data.explanations.edge_contributions, "base": data.explanations.base}
    kinds = np.arange(N) % 3
    weights = data.explanations.edge_weights
    explanations = Explanations(data.graphs, weights, kinds, classes=np.arange(3), **told)
    probabilities = np.full((N, 3), 0.2)
    probabilities[np.arange(N), kinds] = 0.6
    three = ReportData(explanations, np.arange(3), probabilities, class_names={2: "third"})
    page.open(write_report(tmp_path / "three.html", three))
    assert page.texts("#group-set option") == [
        "explained as 0 (7)",
        "explained as 1 (7)",
        "explained as third (6)",
    ]
    page.open(tmp_path / "three.html", "#subject-2")
    assert page.text("#evidence h4") == "For third"
    assert "do not add up" in page.text("#evidence .notice"), "these probabilities are made up"
    assert page.complaints() == []


@needs_browser
def test_a_thousand_subjects_with_contributions_stay_below_30_mb(page: Page, tmp_path: Path) -> None:  # noqa: F811
    small = contributing(116)
    index = np.arange(1000) % N
    rng = np.random.default_rng(0)
    other = small.explanations[index]
    weights = [np.clip(own + rng.normal(0, 0.1, len(own)), 0, 1) for own in other.edge_weights]
    many = replace(
        small,
        explanations=other._with(edge_weights=weights),
        probabilities=small.probabilities[index],
        removal=None,
    )
    path = write_report(tmp_path / "large.html", many)
    assert path.stat().st_size < 30e6
    page.open(path, "#subject-999")
    assert page.drawn("#one-view") == 60
    assert page.text("#one-table .count").endswith("of 6670"), "all edges are there"


@needs_browser
def test_it_fits_a_phone_and_everything_has_a_name(page: Page, report: Path) -> None:  # noqa: F811
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        for fragment in ("", "#subject-1"):
            page.open(report, fragment)
            assert page.js("return document.documentElement.scrollWidth") <= 390
            ids = page.js("return [...document.querySelectorAll('[id]')].map(e => e.id)")
            assert len(ids) == len(set(ids))
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@needs_browser
def test_contributions_of_graphs_that_are_not_aligned_have_pages(page: Page, tmp_path: Path) -> None:  # noqa: F811
    page.complaints()
    graphs = make_ba2motifs(6, random_state=0)
    rng = np.random.default_rng(0)
    weights = [rng.random(n) for n in graphs.n_edges]
    told = {"edge_contributions": [rng.normal(0, 0.1, n) for n in graphs.n_edges], "base": np.zeros(6)}
    explanations = Explanations(graphs, weights, np.zeros(6, int), classes=np.array([0, 1]), **told)
    chance = 1 / (1 + np.exp(-explanations.log_odds))
    names = {0: HOSTILE, 1: IMAGE}
    data = ReportData(explanations, np.array([0, 1]), np.stack([chance, 1 - chance], 1), class_names=names)
    page.open(write_report(tmp_path / "motifs.html", data), "#subject-2")
    assert page.text("#evidence h4") == f"For {HOSTILE}"
    assert page.js("return window.hacked") is None
    assert page.complaints() == []


def test_a_report_says_over_how_many_connections_evidence_is_pooled() -> None:
    data = contributing()
    pooled = replace(data, explanations=data.explanations._with(pooled_edges=7))
    told: Any = [_evidence(one) for one in (data, pooled)]
    assert [one["pooled"] for one in told] == [None, {"n": 7, "name": "patient"}]
