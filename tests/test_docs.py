"""Every block of Python, every command on a page of the docs and every example runs, on made-up data.

What runs is what the page says. The fixtures make it quick: small data where the page speaks of the reader's,
few epochs where it trains, one process where it asks for more.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest

from cignn.cli import demo
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import ci_gnn_settings, registry, shallow
from cignn.estimators import settings as training
from cignn.evaluation import runner
from cignn.paper import data as paper_data
from cignn.paper import engine
from commands import Result
from examples import random_matrix
from made_up import write_world

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^( *)```(.*?)\n(.*?)^\1```$", re.M | re.S)
SHOWN = {"text", "bibtex", "yaml"}  # not code: nothing to run


class Block(NamedTuple):
    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(found[2].strip(), found[3], text[: found.start()].count("\n") + 1)
        for found in FENCE.finditer(text)
    ]


RUNNING = [page for page in PAGES if any(block.language in ("python", "bash") for block in blocks(page))]


# ------------------------------------------------------------------------ the reader's world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_world(folder)
    return folder


def given() -> dict[str, dict[str, Any]]:
    """What the reader of a page has before its first line, by page."""
    rng = np.random.default_rng(0)
    readme = {
        "matrices": np.stack([random_matrix(rng, 6, 0.8) for _ in range(4)]),
        "x": rng.normal(size=(4, 6, 2)),
        "y": [0, 1, 0, 1],
        "names": list("abcdef"),
        "list_of_data": make_ba2motifs(4, random_state=0).to_pyg(),
    }
    cohort = make_cohort(60, 12, n_edges=4, n_sites=3, lengths=(40, 50), random_state=0)
    parts = dict(zip(("train", "validation", "test"), np.array_split(np.arange(60), 3), strict=True))
    return {"README.md": readme, "audit.md": {"cohort": cohort} | parts}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of an epoch or two, small explainers and forests, and no further processes."""
    monkeypatch.setattr(training, "MIN_EPOCHS", 1)
    monkeypatch.setattr(training, "MAX_EPOCHS", 1)
    for preset in ("connectome", "motif"):
        monkeypatch.setitem(ci_gnn_settings.EPOCHS, preset, 2)
        monkeypatch.setitem(ci_gnn_settings.N_ESTIMATORS, preset, 2)
    monkeypatch.setitem(demo.NETWORK, "epochs", 1)
    monkeypatch.setattr(demo.demo, "__defaults__", (Path("demo"), 100, 40, 0, False))
    monkeypatch.setitem(engine.SCALES, "full", 1)
    smoke = {"settings": paper_data.settings, "_small": paper_data._small}
    for name, function in smoke.items():
        monkeypatch.setattr(paper_data, name, lambda what, scale, function=function: function(what, "smoke"))
    forest = shallow.RandomForestClassifier
    monkeypatch.setattr(shallow, "RandomForestClassifier", lambda n, **options: forest(5, **options))
    in_processes = runner._run
    monkeypatch.setattr(
        runner, "_run", lambda todo, data, store, n_jobs, *rest: in_processes(todo, data, store, 1, *rest)
    )


# ------------------------------------------------------------------------------- running


def commands_of(code: str) -> list[list[str]]:
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_command(words: list[str], call: Callable[..., Result]) -> None:
    """Run a command of ours; of others, see that what they ask for exists."""
    if words[0] == "cignn":
        result = call(*words[1:])
        assert result.code == 0, result.err
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
    elif words[:3] == ["python", "-m", words[2]] and words[2].startswith("benchmarks"):
        assert importlib.util.find_spec(words[2]) is not None
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(re.findall(r"\w+", words[2].removeprefix("cignn"))) <= set(extras)
    else:
        raise AssertionError(f"what does '{shlex.join(words)}' need to run in the tests?")


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:.*these data give")
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_the_code_of_the_page_runs(
    page: Path,
    world: Path,
    quick: None,
    call: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(world, folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CIGNN_DATA", raising=False)
    names: dict[str, Any] = given().get(page.name, {})
    with joblib.parallel_config(backend="sequential"):
        for block in blocks(page):
            if block.language == "python":
                code = "\n" * block.line + block.code  # an error names the line of the page
                exec(compile(code, str(page), "exec"), names)
            elif block.language == "bash":
                for words in commands_of(block.code):
                    run_command(words, call)
            elif block.language == "toml":
                Path("run.toml").write_text(block.code)
    AFTERWARDS.get(page.name, lambda names: None)(names)


def after_cohorts(names: dict[str, Any]) -> None:
    told = pd.read_csv("connections.csv")
    assert len(told) == 50 and told["source"].str.startswith("region").all()
    assert told["source_system"].str.startswith("network").all() and set(told["sign"]) <= {"+", "−"}
    assert names["ex"].by_system().shape == (len(set(names["graphs"].node_meta["system"])),) * 2
    assert Path("model/model.safetensors").is_file() and Path("my_study.npz").is_file()
    assert names["cohort"].n_rois == 4 and len(names["cohort"]) == 12  # of the scans
    assert Path("scan_model/model.safetensors").is_file()


def after_evaluation(names: dict[str, Any]) -> None:
    assert names["results"]["value"].notna().any() and len(names["tasks"]) == 2 * 3 * 10 + 5


def after_quick_start(names: dict[str, Any]) -> None:
    assert type(names["clf"]).__name__ == "CIGNNClassifier" and Path("model/model.safetensors").is_file()
    assert Path("explained/probabilities.csv").is_file() and Path("report.html").is_file()


def after_commands(names: dict[str, Any]) -> None:
    wanted = ("demo/report.html", "predictions.csv", "explained/subjects", "report.html", "abide.html")
    assert all(Path(path).exists() for path in wanted)
    assert "seed = 1" in Path("model/settings.toml").read_text()


def after_paper(names: dict[str, Any]) -> None:
    written = {path.name for path in Path("results/paper").glob("*.md")}
    assert written == {"explanation-accuracy-smoke.md", "explanation-accuracy.md", "classification-brain.md"}


AFTERWARDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "cohorts.md": after_cohorts,
    "evaluation.md": after_evaluation,
    "index.md": after_quick_start,
    "command-line.md": after_commands,
    "paper.md": after_paper,
}


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
IN_PROCESS = [script for script in EXAMPLES if script.stem != "dask_cluster"]
LEAVES = {"own_cohort": "report.html", "saved_model": "model", "dask_cluster": "cluster_results"}


def shortened(script: Path) -> str:
    """An example with one epoch where it has several: what is tested is that it runs."""
    return re.sub(r'(epochs"?(?:=|: ))\d+', r"\g<1>1", script.read_text("utf-8"))


def check_what_is_left(script: Path, folder: Path) -> None:
    left = [LEAVES[script.stem]] if script.stem in LEAVES else []
    if (ROOT / "docs" / "images" / "examples" / f"{script.stem}.png").exists():
        left.append(f"{script.stem}.png")
    assert all((folder / name).exists() for name in left)


@pytest.mark.medium
@pytest.mark.parametrize("script", IN_PROCESS, ids=lambda script: script.stem)
def test_the_example_runs(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script.name])
    exec(compile(shortened(script), str(script), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
    check_what_is_left(script, tmp_path)


@pytest.mark.slow
def test_the_example_of_a_cluster_runs(tmp_path: Path) -> None:
    """In a process of its own: its workers import the script."""
    script = tmp_path / "dask_cluster.py"
    script.write_text(shortened(ROOT / "examples" / script.name), "utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "9 tasks" in done.stdout, done.stderr
    check_what_is_left(script, tmp_path)


def test_every_example_is_in_the_gallery() -> None:
    gallery = (ROOT / "docs" / "gallery_pages.py").read_text("utf-8")
    for script in EXAMPLES:
        assert f'"{script.stem}"' in gallery
        assert (ast.get_docstring(ast.parse(script.read_text("utf-8"))) or "").count("\n") >= 3


def test_every_file_that_a_page_names_exists() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:\w+/)*\w+\.py)`", page.read_text("utf-8")):
            assert (ROOT / name).is_file() or (ROOT / "src" / "cignn" / name).is_file(), (
                f"{page.name}: {name}"
            )


def test_the_pictures_of_a_page_stand_in_the_order_of_its_calls() -> None:
    text = (ROOT / "docs" / "figures.md").read_text("utf-8")
    for block, below in re.findall(r"```python\n(.*?)```(.*?)(?=```python|\Z)", text, re.S):
        shown = re.findall(r"images/figures/(\w+)\.png", below)
        called = [name for name in dict.fromkeys(re.findall(r"draw_(\w+)\(", block)) if name in shown]
        assert [name for name in shown if name in called] == called


def test_every_block_says_what_it_is() -> None:
    """Code cannot hide from the tests in a block of no language or of one that they do not know."""
    for page in PAGES:
        for block in blocks(page):
            where = f"{page.name}, line {block.line}"
            assert block.language in {"python", "bash", "toml"} | SHOWN, where
            assert block.language in ("python", "bash") or "cignn " not in block.code, where
        assert len(re.findall(r"^ *```", page.read_text("utf-8"), re.M)) == 2 * len(blocks(page))
    assert {page.name for page in RUNNING} >= set(AFTERWARDS) | {"README.md", "figures.md", "audit.md"}


def test_the_block_of_a_cohort_in_the_readme_imports_what_it_uses() -> None:
    code = next(
        b.code for b in blocks(ROOT / "README.md") if b.language == "python" and "load_cohort(" in b.code
    )
    nodes = list(ast.walk(ast.parse(code)))
    made = {name.asname or name.name for n in nodes if isinstance(n, ast.ImportFrom) for name in n.names}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    made |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    assert {node.id for node in names if isinstance(node.ctx, ast.Load)} <= made | {"range", "len", "print"}


def test_the_registry_is_what_the_readme_says() -> None:
    listed = re.search(r"# (linear-svm, .+)", (ROOT / "README.md").read_text())
    assert listed and set(listed[1].split(", ")) == set(registry.CLASSIFIERS)
