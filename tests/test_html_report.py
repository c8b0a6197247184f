"""The HTML report, opened in a browser: what is drawn, sorted, filtered and exported, and what never runs."""

from __future__ import annotations

import base64
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline

from cignn import CIGNNClassifier, CohortClassifier, Explanations, GraphSet
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import Audit, Finding, Removal
from cignn.evaluation.tasks import MissingTask
from cignn.report import ReportData, report_of, write_report
from cignn.report.html import embedded_json, render_report
from cignn.report.performance import calibration_bins, mean_interval, method_tables, own_scores, site_rows
from cignn.report.records import edges_of, records

pytestmark = pytest.mark.medium

HOSTILE = "<script>window.hacked = 1</script>"
IMAGE = '"><img src=x onerror="window.hacked = 2">'
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not installed"
)
N = 24  # subjects


def fabricated(n: int = N, n_rois: int = 116, **changes: Any) -> ReportData:
    """A report of a simulated cohort whose explanations are drawn, not learnt."""
    cohort = make_cohort(n, n_rois, data="matrices", n_edges=10, random_state=0)
    graphs = ConnectomeGraphs().transform(cohort)
    rng = np.random.default_rng(0)
    base = rng.random(graphs.n_edges[0]) ** 3
    weights = [np.clip(base + rng.normal(0, 0.03, len(base)), 0, 1) for _ in range(n)]
    probability = rng.random((2, n))
    counts = np.array([0, 1, 2, 5, 10])
    members = np.stack([1 - probability, probability], -1)
    mean = members.mean(0)
    top = mean.max(1) * (1 - counts[:, None] / 20)
    data = ReportData(
        Explanations(graphs, weights),
        np.array([0, 1]),
        mean,
        members,
        Removal(counts, top, np.broadcast_to(mean.max(1), top.shape)),
        held_out=np.arange(n) % 2 == 0,
        class_names={0: "control", 1: "patient"},
        settings={"keep": 0.3},
        facts={"model": "CIGNNClassifier"},
        demographics=cohort.summary(),
    )
    return replace(data, **changes)


def hostile_data() -> ReportData:
    """Names, sites, labels and everything else as an attacker would write them."""
    data = fabricated()
    graphs = data.graphs
    names = [IMAGE if i == 1 else name for i, name in enumerate(graphs.node_names)]
    names[0] = HOSTILE
    subjects = np.array([HOSTILE, "=1+1", *(f"sub-{i}" for i in range(2, N))], dtype=object)
    systems = np.array([IMAGE if s == "VN" else s for s in graphs.node_meta["system"]], dtype=object)
    evil = GraphSet(
        graphs._store,
        graphs.y,
        np.array([HOSTILE, *(["a & b"] * (N - 1))], dtype=object),
        names,
        {"subject": subjects, IMAGE: np.array([HOSTILE] * N, dtype=object)},
        {**graphs.node_meta, "system": systems},
    )
    rows = [{"method": HOSTILE, "data": IMAGE, "protocol": HOSTILE, "metric": "accuracy", "value": 0.5}]
    finding = Finding(HOSTILE, "serious", 1.0, "x", IMAGE, HOSTILE)
    return replace(
        data,
        explanations=Explanations(evil, data.explanations.edge_weights),
        class_names={0: HOSTILE, 1: IMAGE},
        results=pd.DataFrame(rows),
        audit=Audit([finding], N),
        exclusions=[HOSTILE],
        settings={HOSTILE: IMAGE},
        facts={IMAGE: HOSTILE},
        title=HOSTILE,
        demographics=pd.DataFrame({HOSTILE: [IMAGE]}),
    )


# ----------------------------------------------------------------------------- in a browser


class Page:
    """A browser with a report open."""

    def __init__(self, driver: Any, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def open(self, path: Path, fragment: str = "") -> Page:
        self.driver.get("about:blank")
        self.driver.get(path.as_uri() + fragment)
        for _ in range(1000):  # the driver may come back while a large file is still being read
            if self.js("return document.documentElement.dataset.ready") == "yes":
                return self
            time.sleep(0.02)
        raise AssertionError(f"{path.name} did not get ready: {self.complaints()}")

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
        )

    def text(self, selector: str) -> str:
        return self.texts(selector)[0]

    def click(self, selector: str) -> None:
        self.js("document.querySelector(arguments[0]).click()", selector)

    def set(self, selector: str, value: Any) -> None:
        script = "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
        self.js(
            script + "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change'));",
            selector,
            value,
        )

    def drawn(self, selector: str = "#group-viewer") -> int:
        return int(self.js("return document.querySelector(arguments[0]).dataset.edges", selector))

    def column(self, table: str, k: int) -> list[str]:
        return self.texts(f"{table} tbody td:nth-child({k + 1})")

    def export(self, table: str, name: str) -> bytes:
        """What the table's button saves under this name; the browser first makes an empty file of it."""
        file = self.downloads / name
        file.unlink(missing_ok=True)
        self.click(f"{table} .export")
        for _ in range(600):
            if file.exists() and file.stat().st_size and not list(self.downloads.glob("*.crdownload")):
                return file.read_bytes()
            time.sleep(0.05)
        raise AssertionError(f"{name} was not saved; there are {[p.name for p in self.downloads.iterdir()]}")

    def pixels(self, selector: str) -> str:
        return self.js("return document.querySelector(arguments[0] + ' canvas').toDataURL()", selector)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address asked for since the last call, but for the file itself."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("file:", "data:", "blob:", "about:"))]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    downloads = tmp_path_factory.mktemp("downloads")
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    allow = {"behavior": "allow", "downloadPath": str(downloads)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", allow)
    yield Page(driver, downloads)
    driver.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("report") / "report.html", fabricated())


@needs_browser
def test_nothing_complains_and_nothing_is_fetched(page: Page, report: Path) -> None:
    page.requests(), page.complaints()
    page.open(report)
    page.open(report, "#subject-3")
    assert page.text("#one-title") == "sub-0004"
    assert page.complaints() == []
    assert page.requests() == []
    assert page.js("return performance.getEntriesByType('resource').map(e => e.name)") in ([], ["data:,"])


@needs_browser
def test_the_page_may_not_run_or_fetch_anything_else(page: Page, report: Path) -> None:
    page.open(report)
    page.js(
        "const s = document.createElement('script');"
        "s.textContent = 'window.hacked = 3'; document.body.append(s)"
    )
    assert page.js("return window.hacked") is None
    ask = "fetch('http://localhost:9/').then(() => arguments[0]('went'), () => arguments[0]('refused'))"
    assert page.driver.execute_async_script(ask) == "refused"
    told = [line for line in page.complaints() if "Content Security Policy" in line]
    assert any("http://localhost:9/" in line for line in told)  # by the policy, not for want of a server
    assert any("inline script" in line for line in told)
    page.requests()


@needs_browser
def test_the_slider_changes_how_many_edges_are_drawn(page: Page, report: Path) -> None:
    page.open(report)
    slider = "#group-viewer .threshold"
    before = page.pixels("#group-viewer")
    counts = []
    for value in (0, 300, 600, 1000):
        page.set(slider, value)
        counts.append(page.drawn())
        assert page.text("#group-viewer .shown").startswith(f"{counts[-1]} of 6670 edges")
        spoken = page.js("return document.querySelector(arguments[0]).getAttribute('aria-valuetext')", slider)
        assert spoken == page.text("#group-viewer .shown")
    assert counts[0] == 1 and counts[-1] == 6670
    assert counts == sorted(set(counts))
    assert page.pixels("#group-viewer") != before


@needs_browser
def test_the_threshold_named_is_that_of_the_smallest_weight_drawn(page: Page, report: Path) -> None:
    page.open(report)
    page.set("#group-viewer .threshold", 500)
    count = page.drawn()
    mean = np.sort(fabricated().explanations.mean().edge_weights)[::-1]
    assert f"weight {mean[count - 1]:.2f} or more" in page.text("#group-viewer .shown")


@needs_browser
def test_systems_left_out_take_their_edges_with_them(page: Page, report: Path) -> None:
    page.open(report)
    page.set("#group-viewer .threshold", 1000)
    systems = fabricated().graphs.node_meta["system"]
    (box,) = [k for k, name in enumerate(page.texts("#group-viewer fieldset label")) if name == "SMN"]
    page.click(f"#group-viewer fieldset label:nth-child({box + 1}) input")
    left = int((systems != "SMN").sum())
    assert page.drawn() == left * (left - 1) // 2
    assert int(page.js("return document.querySelector('#group-viewer').dataset.nodes")) == left
    page.js("[...document.querySelectorAll('#group-viewer .small button')][1].click()")
    assert page.drawn() == 0
    assert "0 of 0 edges" in page.text("#group-viewer .shown")
    page.js("[...document.querySelectorAll('#group-viewer .small button')][0].click()")
    assert page.drawn() == 6670


@needs_browser
def test_a_node_tells_its_name_under_the_pointer_and_by_key(page: Page, report: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    page.open(report)
    names = set(fabricated().graphs.node_names)
    canvas = page.driver.find_element("css selector", "#group-viewer canvas")
    page.js(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'}); arguments[0].focus()", canvas
    )
    turned = page.pixels("#group-viewer")
    ActionChains(page.driver).send_keys(Keys.ARROW_LEFT).perform()
    assert page.pixels("#group-viewer") != turned
    ActionChains(page.driver).send_keys("n").perform()
    said = page.text("#group-viewer .said")
    assert said.split(" (")[0] in names
    turned = page.pixels("#group-viewer")
    ActionChains(page.driver).drag_and_drop_by_offset(canvas, 60, 20).perform()
    assert page.pixels("#group-viewer") != turned
    found = ""
    for x in range(-140, 141, 14):  # somewhere on this line lies an edge or a node
        ActionChains(page.driver).move_to_element_with_offset(canvas, x, 0).perform()
        if not page.js("return document.querySelector('#group-viewer .tip').hidden"):
            found = page.text("#group-viewer .tip")
            break
    assert any(name in found for name in names)


@needs_browser
def test_the_table_sorts_filters_turns_and_exports(page: Page, report: Path) -> None:
    page.open(report)
    ex = fabricated().explanations
    table = "#edge-table"
    top = ex.mean().top_edges(25)
    assert page.column(table, 0) == list(top["source"])
    assert page.column(table, 1) == list(top["target"])
    head = f"{table} thead th:nth-child(3)"
    assert (
        page.js("return document.querySelector(arguments[0]).getAttribute('aria-sort')", head) == "descending"
    )
    page.click(f"{head} button")
    assert (
        page.js("return document.querySelector(arguments[0]).getAttribute('aria-sort')", head) == "ascending"
    )
    rising = [float(text) for text in page.column(table, 2)]
    assert rising == sorted(rising) and rising[0] < 0.1
    page.click(f"{table} thead th:nth-child(1) button")
    words = page.column(table, 0)
    assert words == sorted(words, key=str.lower)
    assert page.text(f"{table} .count") == "1 to 25 of 6670"
    page.click(f"{table} .after")
    assert page.text(f"{table} .count") == "26 to 50 of 6670"

    page.set(f"{table} input[type=search]", "precuneus_l HIPPOCAMPUS_r")
    assert page.text(f"{table} .count") == "1 to 1 of 1 (6670 in all)"
    page.set(f"{table} input[type=search]", "hippocampus_r")
    assert page.text(f"{table} .count").endswith("of 115 (6670 in all)")
    saved = page.export(table, "edges.csv")
    frame = pd.read_csv(pd.io.common.BytesIO(saved), encoding="utf-8-sig")
    assert len(frame) == 115
    assert list(frame)[:3] == ["source", "target", "weight"] and {"source system", "connectivity"} <= set(
        frame
    )
    assert ((frame["source"] == "Hippocampus_R") | (frame["target"] == "Hippocampus_R")).all()
    all_edges = ex.mean().table().set_index(["source", "target"])["weight"]
    mine = frame.set_index(["source", "target"])["weight"]
    np.testing.assert_allclose(mine, all_edges.loc[mine.index], atol=1e-5)
    page.set(f"{table} input[type=search]", "nowhere")
    assert page.texts(f"{table} .empty") == ["Nothing found."]


@needs_browser
def test_the_class_means_can_be_chosen(page: Page, report: Path) -> None:
    page.open(report)
    assert page.texts("#group-set option") == ["all (24)", "control (12)", "patient (12)"]
    before = page.pixels("#group-viewer")
    page.set("#group-set", "2")
    assert page.pixels("#group-viewer") != before


@needs_browser
def test_a_subject_has_a_page(page: Page, report: Path) -> None:
    data = fabricated()
    page.open(report)
    page.click("#subject-table tbody tr:nth-child(6) a")
    page.js("return 0")
    assert page.text("#one-title") == "sub-0006"
    assert page.js("return document.getElementById('whole').hidden")
    assert page.js("return document.activeElement.id") == "one-title"
    low, high = sorted(data.member_probabilities[:, 5, 1])
    assert page.texts("#one .prob .value")[1] == f"{data.probabilities[5, 1]:.2f} ({low:.2f} to {high:.2f})"
    assert (
        "Calibration: of the 2 scored subjects with a probability of patient between 0.2 and 0.3, 50 % were "
        "patient (95 % interval 9 to 91 %)."
    ) in page.texts("#one p.quiet")
    assert any("trained on this subject" in text for text in page.texts("#one p.notice"))  # odd ones are
    assert page.texts("#one .removal tbody th") == ["0", "1", "2", "5", "10"]
    assert page.column("#one-table", 0)[:3] == list(data.explanations[5].top_edges(3)["source"])
    against = data.explanations.against_group(5, slice(None)).iloc[:3]
    np.testing.assert_allclose(
        [float(t) for t in page.column("#one-table", 2)[:3]], against["weight"], atol=0.008
    )
    np.testing.assert_allclose(
        [float(t) for t in page.column("#one-table", 3)[:3]], against["group_mean"], atol=0.006
    )
    values = np.stack([data.graphs.edge_values(i) for i in range(N)])
    names = [tuple(data.graphs.node_names[k] for k in pair) for pair in data.graphs.edges(5)]
    ends = zip(page.column("#one-table", 0), page.column("#one-table", 1), strict=True)
    rows = [names.index(pair) for pair in ends][:3]
    far = (values[5] - values.mean(0))[rows] / values.std(0, ddof=1)[rows]
    shown = [float(text.replace("−", "-")) for text in page.column("#one-table", 6)[:3]]
    np.testing.assert_allclose(shown, far, atol=0.15)
    before = page.drawn("#one-view")
    page.set("#one-view .threshold", 1000)
    assert page.drawn("#one-view") == 6670 != before
    page.js("location.hash = '#subjects'")
    for _ in range(100):
        if not page.js("return document.getElementById('whole').hidden"):
            break
        time.sleep(0.02)
    assert page.js("return document.getElementById('one').hidden")


@needs_browser
def test_weights_that_are_the_same_for_everyone_are_said_to_be(page: Page, tmp_path: Path) -> None:
    data = fabricated(12, 20)
    alike = Explanations(data.graphs, [data.explanations.edge_weights[0]] * 12)
    page.open(write_report(tmp_path / "alike.html", replace(data, explanations=alike)), "#subject-1")
    words = "gives the edges of all subjects nearly the same weights: these say nothing about this subject"
    assert any(words in text for text in page.texts("#one .notice"))
    assert set(page.column("#one-table", 4)) == {"–"}, "a byte's rounding is no distance from the group"
    assert "it explains the group" in page.text("#explanation")
    assert "it explains the group" not in render_report(data)


@needs_browser
def test_hostile_text_is_shown_and_not_run(page: Page, tmp_path: Path) -> None:
    page.complaints()
    path = write_report(tmp_path / "hostile.html", hostile_data())
    page.open(path)
    assert page.driver.title == HOSTILE
    assert page.text("h1") == HOSTILE
    for shown in (HOSTILE, IMAGE):
        assert (
            shown in page.text("#data")
            and shown in page.text("#performance")
            and shown in page.text("#settings")
        )
    assert HOSTILE in page.column("#subject-table", 0)
    page.set("#edge-table input[type=search]", "window.hacked")
    named = set(page.column("#edge-table", 0))
    assert named & {HOSTILE, IMAGE}
    assert IMAGE in page.texts("#group-viewer fieldset label")
    assert HOSTILE.encode() in page.export("#edge-table", "edges.csv")
    assert b'"\'=1+1"' in page.export("#subject-table", "subjects.csv")  # no formula for a spreadsheet
    page.open(path, "#subject-0")
    assert page.text("#one-title") == HOSTILE
    for fragment in ("", "#subject-0"):
        page.open(path, fragment)
        assert page.js("return window.hacked") is None
        assert page.js("return document.scripts.length") == 3
        assert page.js("return document.querySelectorAll('img, [onerror], iframe, object').length") == 0
    assert page.complaints() == []


@needs_browser
def test_graphs_that_are_not_aligned_have_pages_with_their_own_nodes(page: Page, tmp_path: Path) -> None:
    page.complaints()
    graphs = make_ba2motifs(6, random_state=0)
    rng = np.random.default_rng(0)
    weights = [rng.random(n) for n in graphs.n_edges]
    data = ReportData(Explanations(graphs, weights), np.array([0, 1]), np.full((6, 2), 0.5))
    page.open(write_report(tmp_path / "motifs.html", data))
    assert page.texts("#group-view, #edge-table") == []
    page.open(tmp_path / "motifs.html", "#subject-2")
    assert page.text("#one-title") == "graph 2"
    page.set("#one-view .threshold", 1000)
    assert page.drawn("#one-view") == graphs.n_edges[2]
    assert page.text("#one-table .count").endswith(f"of {graphs.n_edges[2]}")
    assert page.complaints() == []


@needs_browser
def test_nodes_without_places_are_drawn_on_a_ring(page: Page, tmp_path: Path) -> None:
    page.complaints()
    page.open(write_report(tmp_path / "flat.html", fabricated(n_rois=20)))
    assert page.texts("#group-viewer .views") == []
    assert page.drawn() == 60
    page.open(tmp_path / "flat.html", "#subject-1")
    assert page.drawn("#one-view") == 60
    assert page.complaints() == []


@needs_browser
def test_it_fits_a_phone_and_prints_light_with_more_rows(page: Page, report: Path) -> None:
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        for fragment in ("", "#subject-1"):
            page.open(report, fragment)
            assert page.js("return document.documentElement.scrollWidth") <= 390
            widths = page.js("return [...document.querySelectorAll('caption')].map(e => e.offsetWidth)")
            assert widths and max(widths) <= 390, "a caption is read without scrolling"
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.open(report)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    back = "return getComputedStyle(document.body).backgroundColor"
    assert page.js(back) == "rgb(20, 23, 27)"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", **dark})
    assert page.js(back) == "rgb(255, 255, 255)"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    page.js(
        "window.rows = 0; window.addEventListener('beforeprint', () =>"
        "window.rows = document.querySelectorAll('#edge-table tbody tr').length)"
    )
    pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    assert page.js("return window.rows") == 40
    assert len(page.column("#edge-table", 0)) == 25


@needs_browser
def test_everything_to_operate_has_a_name(page: Page, report: Path) -> None:
    for fragment in ("", "#subject-1"):
        page.open(report, fragment)
        nameless = page.js(
            """const operated = 'button, input, select, canvas, svg[role=img], [role=region]';
            return [...document.querySelectorAll(operated)]
            .filter(e => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()))
            .map(e => e.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
        unheaded = page.js(
            "return [...document.querySelectorAll('table')].filter(t => !t.querySelector('th[scope]')).length"
        )
        assert unheaded == 0
        ids = page.js("return [...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))
        broken = page.js(
            """return [...document.querySelectorAll('[aria-describedby], [aria-labelledby]')].flatMap(e =>
            (e.getAttribute('aria-describedby') || e.getAttribute('aria-labelledby')).split(' '))
            .filter(id => !document.getElementById(id))"""
        )
        assert broken == ([] if fragment else ["one-title"])  # the subject's title comes with the subject


THEMES = {name: {"features": [{"name": "prefers-color-scheme", "value": name}]} for name in ("light", "dark")}
FAINT = """
const shade = (text) => {
  const [, kind, inside] = /^(rgba?|color)\\((.*)\\)$/.exec(text);
  const numbers = inside.replace('srgb', '').split(/[ ,/]+/).filter(Boolean).map(Number);
  const [r, g, b, a = 1] = numbers;
  return [...(kind === 'color' ? [r, g, b] : [r / 255, g / 255, b / 255]), a];
};
const light = ([r, g, b]) => [r, g, b].map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const colour = shade(getComputedStyle(e).backgroundColor);
    if (colour[3] === 1) return colour;
  }
  return [1, 1, 1, 1];
};
document.querySelectorAll('details').forEach((e) => (e.open = true));
return [...document.querySelectorAll('body *')]
  .filter((e) => !e.closest('canvas, script, style, noscript, [disabled]') && e.checkVisibility())
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
  .map((e) => {
    const style = getComputedStyle(e);
    const text = light(shade(e.closest('svg') ? style.fill : style.color)), back = light(behind(e));
    return [(Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05), e.outerHTML.slice(0, 90)];
  })
"""


@needs_browser
@pytest.mark.parametrize("theme", THEMES)
def test_every_text_stands_out_from_what_is_behind_it(page: Page, tmp_path: Path, theme: str) -> None:
    finding = Finding("site", "serious", 1.0, "x", "tells", "match")
    audit = Audit([replace(finding, severity=s) for s in ("serious", "warning", "fine", "unknown")], N)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", THEMES[theme])
    try:
        path = write_report(tmp_path / "all.html", fabricated(audit=audit, exclusions=["one"]))
        for fragment in ("", "#subject-1"):
            page.open(path, fragment)
            seen = page.js(FAINT)
            assert len(seen) > 100 and all(ratio <= 21 for ratio, _ in seen)
            assert [(ratio, what) for ratio, what in seen if ratio < 4.5] == []
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@needs_browser
def test_a_screen_reader_finds_names_and_keys_show_where_they_are(page: Page, report: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    roles = {"slider", "button", "checkbox", "combobox", "searchbox", "table", "link", "image", "region"}
    for fragment in ("", "#subject-1"):
        page.open(report, fragment)
        tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        seen = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"] and node["role"]["value"] in roles | {"Canvas", "application"}
        ]
        assert {"slider", "button", "checkbox", "searchbox", "table", "link"} <= {role for role, _ in seen}
        assert ("slider", "Edges shown") in seen
        assert [role for role, name in seen if not name.strip()] == []
        unseen = []
        for _ in range(25):
            ActionChains(page.driver).send_keys(Keys.TAB).perform()
            unseen += page.js(
                """const e = document.activeElement;
                const ring = (one) => one && parseFloat(getComputedStyle(one).outlineWidth) >= 2
                  && getComputedStyle(one).outlineStyle !== 'none';
                return ring(e) || ring(e.closest('label')) ? [] : [e.outerHTML.slice(0, 80)]"""
            )
        assert unseen == []


@needs_browser
def test_a_thousand_subjects_stay_below_30_mb(
    page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = fabricated(40)
    index = np.arange(1000) % 40
    many = replace(
        small,
        explanations=small.explanations[index],
        probabilities=small.probabilities[index],
        member_probabilities=small.member_probabilities[:, index],
        removal=Removal(small.removal.shares, small.removal.top[:, index], small.removal.random[:, index]),
        held_out=None,
    )
    path = write_report(tmp_path / "large.html", many)
    assert path.stat().st_size < 30e6
    started = time.perf_counter()
    page.open(path)
    opened = time.perf_counter() - started
    assert page.text("#subject-table .count").endswith("of 1000")
    started = time.perf_counter()
    page.open(path, "#subject-999")
    line = f"1000 subjects: {path.stat().st_size / 1e6:.1f} MB, opened in {opened:.2f} s"
    with capsys.disabled():
        sys.stderr.write(f"\n{line}, with a subject in {time.perf_counter() - started:.2f} s\n")
    assert page.drawn("#one-view") == 60


# ------------------------------------------------------------------------ without a browser


def test_a_fitted_model_gives_a_report(tmp_path: Path) -> None:
    cohort = make_cohort(40, 20, data="matrices", n_edges=6, effect=0.8, random_state=0)
    quick = CIGNNClassifier(epochs=3, n_estimators=2, settings={"generative_epochs": 1}, random_state=0)
    model = CohortClassifier.make(quick).fit(cohort[:30])
    data = report_of(model, cohort, class_names={0: "control", 1: "patient"})
    assert data.held_out.tolist() == [False] * 30 + [True] * 10
    np.testing.assert_allclose(data.member_probabilities.mean(0), data.probabilities, atol=1e-6)
    np.testing.assert_allclose(data.removal.top[0], data.probabilities.max(1))
    assert data.removal.top.shape == data.removal.random.shape == (len(data.removal.shares), 40)
    assert own_scores(data)["accuracy"].value == (data.predicted == data.truth)[30:].mean()
    page = render_report(data)
    assert "Scored on 10 subjects that it was not trained on." in page
    assert "patient" in page and "not a medical device" in page
    assert "share of patient that is recognised" in page and "guessing gives 0.50" in page
    seen = report_of(model, cohort[:30])
    assert seen.trained_on and seen.held_out is None
    assert "trained on these subjects" in render_report(seen)
    told = report_of(model.classifier_, model.to_graphs(cohort))
    np.testing.assert_array_equal(told.held_out, data.held_out)
    assert report_of(Pipeline(model.steps), cohort[30:]).names == report_of(model, cohort[30:]).names
    path = write_report(tmp_path / "new" / "report.html", data)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_nothing_is_scored_where_nobody_knows_what_was_trained_on() -> None:
    graphs = make_ba2motifs(20, random_state=0)
    model = CIGNNClassifier(epochs=1, random_state=0).fit(graphs[:12])
    assert own_scores(report_of(model, graphs))

    class Stranger:
        """A classifier of somebody's own."""

        classes_, predict_proba, explain = model.classes_, model.predict_proba, model.explain

    data = report_of(Stranger(), graphs)
    assert data.held_out is None and not data.scored.any() and not own_scores(data)
    page = render_report(data)
    assert "Not scored: it is not recorded which graphs the model was trained on" in page
    assert "Scored on" not in page and "balanced accuracy" not in page
    given = report_of(Stranger(), graphs, held_out=np.arange(20) >= 12)
    assert given.scored.sum() == 8 and "Scored on 8 graphs" in render_report(given)


def test_a_model_without_explanations_asks_for_them() -> None:
    class Silent:
        classes_ = np.array([0, 1])

        def predict_proba(self, graphs: GraphSet) -> np.ndarray:
            return np.full((len(graphs), 2), 0.5)

    graphs = make_ba2motifs(4, random_state=0)
    with pytest.raises(
        ValueError, match="does not explain its decisions; use a classifier of make_estimator"
    ):
        report_of(Silent(), graphs)
    given = Explanations(graphs, [np.ones(n) for n in graphs.n_edges])
    assert report_of(Silent(), graphs, explanations=given).member_probabilities is None


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    data = fabricated(4, 20)
    with pytest.raises(ValueError, match=r"probabilities must be \(4, 2\)"):
        replace(data, probabilities=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="held_out must have one entry per graph"):
        replace(data, held_out=np.ones(3, bool))
    with pytest.raises(ValueError, match=r"an .html file, got 'report.pdf'"):
        write_report(tmp_path / "report.pdf", data)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        write_report(tmp_path / "folder.html", data)
    with pytest.raises(TypeError, match="GraphSet or a Cohort, got list"):
        report_of(CIGNNClassifier(), [])


def test_little_data_is_no_reason_to_fail() -> None:
    data = fabricated(2, 6)
    graphs = data.graphs
    bare = GraphSet.from_arrays(np.stack([graphs[i].weights for i in range(2)]), aligned=True)
    plain = ReportData(
        Explanations(bare, data.explanations.edge_weights), np.array(["a", "b", "c"]), np.full((2, 3), 1 / 3)
    )
    page = render_report(plain)
    assert "have no labels and no sites" in page and "No exclusions were recorded" in page
    assert "No comparison with baselines was made" in page
    one = ReportData(plain.explanations[[0]], plain.classes, plain.probabilities[:1])
    assert "1 graph" in render_report(one)
    strange = replace(
        data, explanations=Explanations(graphs.with_y(["x", "y"]), data.explanations.edge_weights)
    )
    assert (strange.truth == -1).all() and own_scores(strange) == {} and calibration_bins(strange) == []
    assert "there are no scores" in render_report(strange)


def test_text_in_json_cannot_end_its_element() -> None:
    value = {"</script><!--": ["\u2028", "&", '"', "<script>"]}
    text = embedded_json(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_weights_survive_their_bytes() -> None:
    data = fabricated(3, 20)
    group = edges_of(data)
    dense = records(data, group)
    assert dense.layout == "dense" and dense.kept is None
    assert dense.columns == ["weight", "connectivity"]
    raw = base64.b64decode(dense.lines[1])
    low, high, _, largest = np.frombuffer(raw[:16], "<f4")
    codes = np.frombuffer(raw[16:], np.uint8).astype(float).reshape(2, len(group.pairs))
    weights = low + (codes[0] - 1) / 254 * (high - low)
    np.testing.assert_allclose(weights, data.explanations.edge_weights[1], atol=0.002)
    signed = (codes[1] - 128) / 127 * largest
    np.testing.assert_allclose(signed, data.graphs.edge_values(1), atol=0.005)

    tight = records(data, group, budget=1000)
    assert (tight.layout, tight.kept) == ("listed", 100)
    raw = base64.b64decode(tight.lines[1])
    assert np.frombuffer(raw[16:20], "<u4")[0] == 100
    ends = np.frombuffer(raw[20:420], "<u2").reshape(2, 100).T
    order = np.argsort(-data.explanations.edge_weights[1], kind="stable")[:100]
    np.testing.assert_array_equal(ends, data.graphs.edges(1)[order])
    assert '"layout":"listed","columns":["weight","connectivity"],"kept":100' in render_report(
        data, budget=1000
    )


def test_absent_edges_are_told_from_light_ones() -> None:
    data = fabricated(3, 20)
    keep = [np.ones(n, bool) for n in data.graphs.n_edges]
    keep[0][5] = False
    thinner = data.graphs.with_edges(keep)
    weights = [np.zeros(int(n)) for n in thinner.n_edges]
    sparse = replace(data, explanations=Explanations(thinner, weights))
    codes = np.frombuffer(base64.b64decode(records(sparse, edges_of(sparse)).lines[0])[16:], np.uint8)
    assert codes[5] == 0 and (codes[:190] > 0).sum() == 189


def test_intervals_of_methods_are_wider_where_training_sets_overlap() -> None:
    rows = pd.DataFrame({"value": [0.6, 0.7, 0.8, 0.7]})
    plain = mean_interval(rows)
    assert plain.value == pytest.approx(0.7)
    overlapping = mean_interval(rows.assign(n_train=80, n_validation=0, n_test=20))
    assert overlapping.high - overlapping.low == pytest.approx(np.sqrt(2) * (plain.high - plain.low))
    assert np.isnan(mean_interval(rows[:1]).low) and np.isnan(mean_interval(rows[:2]).low)
    wild = mean_interval(pd.DataFrame({"value": [0.1, 0.9, 1.0], "metric": "accuracy"}))
    assert wild.low == 0 and wild.high == 1
    assert str(mean_interval(rows.assign(value=np.nan))) == "–"


def method_rows(*rows: tuple[str, str, float]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["method", "metric", "value"])
    return frame.assign(data="d", protocol="kfold")


def test_methods_are_listed_best_first_where_all_have_all_test_sets() -> None:
    frame = method_rows(("poor", "accuracy", 0.5), ("good", "accuracy", 0.9), ("good", "roc_auc", 0.95))
    (table,) = method_tables(frame)
    assert list(table.rows) == ["good", "poor"] and table.complete
    assert table.metrics == ["accuracy", "roc_auc"]
    page = render_report(fabricated(4, 6, results=frame))
    assert "Mean over 1 test set with" in page and "best accuracy first" in page
    explained = frame.assign(explainer=["", "", "gnn-explainer"])
    assert method_tables(explained)[0].metrics == ["accuracy"]
    with pytest.raises(ValueError, match="no column 'metric'"):
        method_tables(frame.drop(columns="metric"))


def test_nothing_is_ranked_where_a_run_failed() -> None:
    frame = method_rows(("poor", "accuracy", 0.5), ("good", "accuracy", 0.9), ("poor", "error", np.nan))
    (table,) = method_tables(frame)
    assert list(table.rows) == ["poor", "good"] and not table.complete
    assert table.failed == {"poor": 1} and table.done == {"poor": 1, "good": 1} and table.runs == 2
    page = render_report(fabricated(4, 6, results=frame))
    assert "poor: 1 run failed and is not in these means" in page
    assert "best accuracy first" not in page and "1 of 2" in page


def test_an_unfinished_evaluation_says_what_is_missing_and_ranks_nothing() -> None:
    frame = method_rows(*[("slow", "accuracy", 0.9)] * 2, *[("quick", "accuracy", 0.6)] * 3)
    missing = [
        MissingTask("slow", "d", "kfold", "3", "0"),
        *(MissingTask("later", "d", "kfold", str(k), "0") for k in (1, 2, 3)),
    ]
    (table,) = method_tables(frame, missing)
    assert list(table.rows) == ["slow", "quick", "later"] and table.runs == 3
    assert table.done == {"slow": 2, "quick": 3, "later": 0}
    page = render_report(fabricated(4, 6, results=frame, missing=missing))
    assert "This evaluation is unfinished: 4 tasks have no scores." in page
    assert "slow (kfold 3, seed 0) not yet run" in page and "2 of 3" in page and "0 of 3" in page
    assert "Unfinished and not ranked" in page and "best accuracy first" not in page
    assert "Mean over 3 test sets" not in page


def run_of(data: ReportData, right: float = 1.0, repeats: int = 1) -> pd.DataFrame:
    """Predictions of a leave-one-site-out run on the subjects of a report, a share of them right."""
    rng = np.random.default_rng(0)
    truth = data.graphs.y
    hit = np.arange(len(truth)) % 10 < 10 * right
    parts = []
    for seed in range(repeats):
        chance = np.where((truth == 1) == hit, 0.85, 0.15)
        chance = np.clip(chance + rng.normal(0, 0.01, len(truth)), 0, 1)
        columns = {"method": "ci-gnn", "data": "d", "protocol": "loso", "split": data.sites, "seed": seed}
        columns |= {"subject": data.subjects, "site": data.sites, "y_true": truth}
        columns |= {"y_pred": (chance > 0.5).astype(int), "p_0": 1 - chance, "p_1": chance}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def test_with_an_evaluation_every_figure_is_the_runs_own() -> None:
    """The model of `fabricated` guesses; the run is always right."""
    alone = fabricated()
    data = replace(alone, predictions=run_of(alone))
    assert own_scores(data)["balanced_accuracy"].value == 1 > own_scores(alone)["balanced_accuracy"].value
    rows = site_rows(data)
    assert sum(row.n for row in rows) == N and all(row.accuracy.value == 1 for row in rows)
    assert {b.observed.value for b in calibration_bins(data)} == {0.0, 1.0}
    page = " ".join(render_report(data).split())
    assert "of ci-gnn, leaving one site out" in page
    assert "The explanations below come from another model" in page
    assert "The model of this report" not in page and "Out-of-fold predictions of ci-gnn" in page
    half = own_scores(replace(alone, predictions=run_of(alone, 0.5)))["accuracy"].value
    assert 0.3 < half < 0.7
    unfinished = replace(data, missing=[MissingTask("ci-gnn", "d", "loso", "site-9", "0")])
    page = " ".join(render_report(unfinished).split())
    assert "these figures are not final" in page and "<dt>balanced accuracy <span" not in page


def test_seeds_of_a_run_are_no_further_subjects() -> None:
    data = fabricated()
    once = replace(data, predictions=run_of(data, 0.6))
    often = replace(data, predictions=run_of(data, 0.6, repeats=5))
    for a, b in zip(site_rows(once), site_rows(often), strict=True):
        assert a == b  # the same right ones, and intervals as wide
    assert [b.n for b in calibration_bins(often)] == [b.n for b in calibration_bins(once)]


def test_the_evaluation_and_the_model_must_know_the_same_classes() -> None:
    data = fabricated()
    wrong = run_of(data).assign(y_true="ASD")
    with pytest.raises(ValueError, match="have different classes; the model knows 0, 1"):
        render_report(replace(data, predictions=wrong))


def test_the_positive_class_can_be_either_and_is_named() -> None:
    data = fabricated()
    other = replace(data, positive=0)
    usual, turned = own_scores(data), own_scores(other)
    assert turned["sensitivity"] == usual["specificity"] and turned["accuracy"] == usual["accuracy"]
    page = render_report(other)
    assert "positive class control" in page and "share of control that is recognised" in page
    assert "frequency of control against" in " ".join(page.split()) and '"positive":0' in page
    assert "share of patient that is recognised" in render_report(data)
    with pytest.raises(ValueError, match="positive must be one of the classes, 0 or 1, got 'MDD'"):
        replace(data, positive="MDD")


def two_scans() -> ReportData:
    """Twelve subjects with two scans each."""
    data = fabricated()
    graphs = data.graphs
    meta = {**graphs.meta, "subject": np.repeat([f"sub-{i}" for i in range(N // 2)], 2)}
    held_out = np.repeat(np.arange(N // 2) % 2 == 0, 2)
    twice = GraphSet(graphs._store, graphs.y, graphs.groups, graphs.node_names, meta, graphs.node_meta)
    weights = data.explanations.edge_weights
    return replace(data, explanations=Explanations(twice, weights), held_out=held_out)


def test_scans_are_not_counted_as_subjects() -> None:
    data = two_scans()
    assert data.unit == "scan" and data.names[:3] == ["sub-0 (scan 1)", "sub-0 (scan 2)", "sub-1 (scan 1)"]
    page = " ".join(render_report(data).split())
    assert f"{N} scans of {N // 2} subjects" in page and "bootstrap over subjects" in page
    assert f"Scored on {N // 4} subjects" in page
    assert sum(row.n for row in site_rows(data)) <= data.scored.sum()


def test_copies_of_scans_do_not_narrow_an_interval() -> None:
    """Two identical scans of everyone say no more than one."""
    one = fabricated(held_out=np.ones(N, bool))
    twice = np.repeat(np.arange(N), 2)
    ex = one.explanations[twice]
    both = ReportData(ex, one.classes, one.probabilities[twice], held_out=np.ones(2 * N, bool))
    for name, score in own_scores(one).items():
        np.testing.assert_allclose(own_scores(both)[name], score)
    assert site_rows(both) == site_rows(one)


def test_regions_of_one_name_and_correlations_are_told_for_what_they_are() -> None:
    data = fabricated(4, 6)
    g = data.graphs
    names = ["a", "a", *(f"r{i}" for i in range(4))]
    named = GraphSet(g._store, g.y, g.groups, names, g.meta, {})
    shown = np.full((4, 6, 6), 0.5)
    page = render_report(
        replace(data, explanations=Explanations(named, data.explanations.edge_weights, None, shown))
    )
    assert '"a (node 0)","a (node 1)","r0"' in page
    assert '"strength":"correlation"' in page and "tangent space" in page
    assert '"strength":"connectivity"' in render_report(data)


def test_only_held_out_subjects_are_scored_at_every_site() -> None:
    data = fabricated()
    rows = site_rows(data)
    assert sum(row.n for row in rows) == data.scored.sum() == N // 2
    for row in rows:
        here = data.scored & (data.sites == row.site)
        assert row.accuracy.value == (data.predicted == data.truth)[here].mean()
        assert 0 <= row.accuracy.low <= row.accuracy.value <= row.accuracy.high <= 1
    assert sum(b.n for b in calibration_bins(data)) == N // 2
    scores = own_scores(data)
    assert all(s.low <= s.value <= s.high for name, s in scores.items() if name != "calibration_error")
    assert np.isnan(scores["calibration_error"].low)


def test_every_network_is_explained_and_a_shallow_method_says_where_it_is() -> None:
    graphs = make_ba2motifs(12, random_state=0)
    network = make_estimator("gcn", random_state=0, epochs=1).fit(graphs)
    assert len(report_of(network, graphs).explanations) == len(graphs)
    words = "'lasso' on statistics of graphs does not explain its decisions; on aligned graphs"
    with pytest.raises(ValueError, match=words):
        report_of(make_estimator("lasso", random_state=0).fit(graphs), graphs)
