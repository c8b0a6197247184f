"""What is imported is declared, what is declared is imported, and a missing browser is said."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.medium

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
USED = {extra: EXTRAS[extra] for extra in ("cluster", "matlab", "molecules")}  # by the package itself
PROVIDERS = packages_distributions()
OURS = {"cignn", "tests", "benchmarks", "campaigns"}


def declared(*lists: list[str]) -> set[str]:
    names = {canonicalize_name(Requirement(line).name) for lines in lists for line in lines}
    return names - {PROJECT["name"]}


def imports(file: Path, at_once: bool = False) -> Iterator[str]:
    """Yield the top-level names a file imports; `at_once`: only what is imported together with the file."""

    def later(node: ast.AST) -> bool:
        """Whether this is a function's body, or only for type checkers."""
        if isinstance(node, ast.If):
            return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)

    def nodes(parent: ast.AST) -> Iterator[ast.AST]:
        for node in ast.iter_child_nodes(parent):
            if not (at_once and later(node)):
                yield node
                yield from nodes(node)

    for node in nodes(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


@cache
def distributions(*folders: str, at_once: bool = False) -> dict[str, str]:
    """Map every distribution that files below the folders import to one of these files."""
    found = {}
    for folder in folders:
        files = sorted((ROOT / folder).rglob("*.py"))
        neighbours = OURS | {file.stem for file in files}
        for file in files:
            for name in set(imports(file, at_once)) - neighbours - sys.stdlib_module_names:
                for provider in PROVIDERS.get(name, [name]):
                    found[canonicalize_name(provider)] = str(file.relative_to(ROOT))
    return found


def test_what_the_package_imports_is_declared() -> None:
    known = declared(PROJECT["dependencies"], *USED.values())
    assert {name: file for name, file in distributions("src").items() if name not in known} == {}


@pytest.mark.parametrize("name", ["dependencies", *USED])
def test_what_is_declared_is_imported(name: str) -> None:
    lines = PROJECT["dependencies"] if name == "dependencies" else USED[name]
    assert declared(lines) - set(distributions("src")) == set()


def test_what_extras_bring_is_imported_only_when_asked_for() -> None:
    extra = declared(*USED.values()) - declared(PROJECT["dependencies"])
    assert {name: file for name, file in distributions("src", at_once=True).items() if name in extra} == {}


def test_what_tests_benchmarks_and_docs_import_is_declared() -> None:
    known = declared(PROJECT["dependencies"], *EXTRAS.values())
    used = distributions("tests", "benchmarks", "campaigns", "docs", "examples")
    assert {name: file for name, file in used.items() if name not in known} == {}


def test_everything_declared_is_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.split("==")[0]) for line in pins if "==" in line}
    assert declared(PROJECT["dependencies"], *EXTRAS.values()) - pinned == set()


def test_every_file_of_the_package_travels_in_the_wheel() -> None:
    package = ROOT / "src" / "cignn"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = {file for pattern in settings["package-data"]["cignn"] for file in package.glob(pattern)}
    files = {file for file in package.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert files - packed == set()


def test_the_hook_before_a_commit_has_the_ruff_that_is_pinned() -> None:
    (pin,) = re.findall(r"^ruff==(.*)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert f"rev: v{pin} " in (ROOT / ".pre-commit-config.yaml").read_text()


# ---------------------------------------------------------------------- a machine without a browser


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH holds a shell, but neither a browser nor make nor apt-get."""
    for name in ("bash", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return os.environ | {"PATH": str(tmp_path)}


def test_the_checks_of_a_submission_fail_without_a_browser(bare: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "run"], env=bare, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "chromium and chromedriver are missing" in done.stderr.splitlines()[-1]


def test_skipped_browser_tests_are_counted_in_one_line(bare: dict[str, str]) -> None:
    line = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "tests/test_html_report.py",
    ]
    done = subprocess.run(
        [*line, "-k", "drawn"], cwd=ROOT, env=bare, capture_output=True, text=True, timeout=300
    )
    assert re.match(r"\d+ browser tests were skipped: install chromium", done.stdout.splitlines()[-2])
