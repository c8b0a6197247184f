"""What must hold for the docs site: it builds without a warning, links lead somewhere, nothing is fetched."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import typer

from cignn.cli import app

pytestmark = pytest.mark.medium

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ROOMS = (
    "graphs",
    "explanations",
    "datasets",
    "connectome",
    "estimators",
    "explainers",
    "evaluation",
    "paper",
    "report",
    "information",
    "nn",
)

if any(
    importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings", "latex2mathml")
):
    pytest.skip("the packages of the extra 'docs' are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search("WARNING|ERROR", done.stdout + done.stderr)
    return folder


class Links(HTMLParser):
    """What a page points to (``<a href>``), what it loads, and where one can point to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.goals: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.goals.append(found["href"])
        elif tag == "link":
            self.loads.append(found["href"])
        self.loads += [found[name] for name in ("src", "poster", "data") if name in found]
        if "style" in found:
            self.loads += re.findall(r"url\(([^)]+)\)", found["style"])


links = cache(Links)


def pages_of(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_every_internal_link_and_picture_is_there(site: Path) -> None:
    pages = pages_of(site)
    assert len(pages) >= 23
    lost = []
    for page in pages:
        for goal in [*links(page).goals, *links(page).loads]:
            parts = urlsplit(goal)
            if parts.scheme or (page.name == "404.html" and goal.startswith("/")):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or not target.is_relative_to(site.resolve()):
                lost.append(f"{page.name}: {goal}")
            elif parts.fragment and target.suffix == ".html" and parts.fragment not in links(target).ids:
                lost.append(f"{page.name}: {goal}, no such place")
    assert lost == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in pages_of(site):
        assert [url for url in links(page).loads if urlsplit(url).scheme not in ("", "data")] == [], page
    for sheet in site.rglob("*.css"):
        text = sheet.read_text("utf-8")
        assert not re.search(r"""(url\(\s*["']?|@import\s*["']?)(https?:)?//""", text), sheet


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    anchors = set().union(*(links(page).ids for page in (site / "api").glob("*.html")))
    for module in [importlib.import_module(f"cignn.{room}") for room in ROOMS]:
        for name in module.__all__:
            home = getattr(getattr(module, name), "__module__", module.__name__)
            assert {f"{module.__name__}.{name}", f"{home}.{name}"} & anchors, name
    assert {"cignn.explanations.Explanations.top_edges", "cignn.estimators.CIGNNClassifier.fit"} <= anchors
    page = (site / "api" / "information.html").read_text("utf-8")
    assert "Matrix-based Rényi entropy in bits" in page


def test_names_in_prose_lead_to_the_reference(site: Path) -> None:
    assert "api/evaluation.html#cignn.evaluation.audit.audit" in links(site / "audit.html").goals
    assert "graphs.html#cignn.graphs.GraphSet" in links(site / "api" / "index.html").goals


def test_every_option_of_every_command_is_told(site: Path) -> None:
    page = (site / "commands.html").read_text("utf-8")
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        (part,) = re.findall(rf'<h2 id="{name}".*?(?=<h2|</article)', page, re.S)
        for one in command.params:
            word = one.opts[0] if one.opts[0].startswith("-") else one.metavar
            assert f"<code>{word}</code>" in part and one.help.split()[0] in part


def test_equations_are_drawn_by_the_browser_itself(site: Path) -> None:
    page = (site / "method.html").read_text("utf-8")
    assert page.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') >= 15
    for page in pages_of(site):
        text = page.read_text("utf-8")
        assert "arithmatex" not in text and "\\operatorname" not in text and "$$" not in text


def test_the_page_to_cite_says_what_the_citation_file_says(site: Path) -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    page = (ROOT / "docs" / "cite.md").read_text("utf-8")
    words = " ".join(page.replace("> ", "").replace("*", "").split())
    _, paper = citation.split("preferred-citation:")
    for field in ("title", "journal", "year", "url"):
        (value,) = re.findall(rf'^  {field}: "?(.*?)"?$', paper, re.M)
        assert value in words
    for family, given in re.findall(r"family-names: (\w+)\n +given-names: (\w+)", paper):
        assert f"{given} {family}" in words and f"{family}, {given}" in words


# ------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.add_argument("--disable-dev-shm-usage")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.mark.parametrize(
    "name", ["index", "method", "results", "results/brains", "figures", "gallery", "api/estimators"]
)
def test_a_page_opens_by_double_click_and_fits_a_phone(site: Path, browser: Any, name: str) -> None:
    for width in (1280, 390):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get((site / f"{name}.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in sent if not url.startswith(("file:", "data:"))] == [] and sent
    assert browser.get_log("browser") == []


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None: ...


def test_search_works_where_the_site_is_served(site: Path, browser: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        browser.set_window_size(1280, 900)
        browser.get(f"http://127.0.0.1:{server.server_port}/index.html")
        browser.find_element(By.CSS_SELECTOR, ".md-search__input").send_keys("harmonise")
        found = WebDriverWait(browser, 20).until(
            lambda driver: driver.find_elements(By.CSS_SELECTOR, ".md-search-result__item a")
        )
        assert any("connectome.html" in (one.get_attribute("href") or "") for one in found)
    finally:
        browser.get("about:blank")
        server.shutdown()
        server.server_close()
