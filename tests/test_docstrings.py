"""Every exported name has an example in its docstring, and it runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")

pytestmark = pytest.mark.medium

DOCS = Path(__file__).resolve().parents[1] / "docs"
spec = importlib.util.spec_from_file_location("validate_docstrings", DOCS / "validate_docstrings.py")
assert spec is not None and spec.loader is not None
validate_docstrings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(validate_docstrings)

EXPORTED = dict(validate_docstrings.exported())
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(path: str) -> doctest.DocTest:
    docstring = EXPORTED[path].__doc__ or ""
    return doctest.DocTestParser().get_doctest(docstring, {}, path, filename=None, lineno=None)


@pytest.mark.parametrize("path", EXPORTED)
def test_the_example_of_an_exported_name_runs(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = examples(path)
    assert test.examples, f"the docstring of {path} has no example"
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
