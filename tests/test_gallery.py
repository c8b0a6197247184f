"""What must hold for the gallery: its pictures are there, small and all shown."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import pytest

from cignn import report

pytestmark = pytest.mark.medium

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "figures.md").read_text(encoding="utf-8")
PICTURES = sorted((DOCS / "images" / "figures").glob("*.png"))


def test_every_picture_is_small_and_shown_with_a_description() -> None:
    shown = re.findall(r"!\[([^\]]+)\]\((images/figures/[^)]+)\)", PAGE)
    assert sorted(path for _, path in shown) == [f"images/figures/{file.name}" for file in PICTURES]
    assert all(len(words) > 10 for words, _ in shown)
    assert max(file.stat().st_size for file in PICTURES) < 150_000


def test_every_function_is_in_the_gallery() -> None:
    for name in report.__all__:
        if name.startswith("draw_") and name != "draw_graph":
            assert name in PAGE, f"{name} is missing from docs/figures.md"


def test_the_script_draws_the_pictures_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("make_figures", DOCS / "make_figures.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setattr(script, "DPI", 40)
    script.main()
    assert sorted(file.name for file in tmp_path.iterdir()) == [file.name for file in PICTURES]


def test_invented_numbers_bear_the_name_of_no_method() -> None:
    script = (DOCS / "make_figures.py").read_text(encoding="utf-8")
    for name in ("CI-GNN", "SVM", "GIN", "GCN", "GAT", "DIR", "SIB", "Explainer", "OrphicX"):
        assert name not in script, f"a made-up figure of {name} would pass for a result"
    assert "stand for no real method" in PAGE
