"""What must hold for the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import cignn.datasets
from cignn import CIGNNClassifier, CohortClassifier, load_model
from cignn.datasets import make_ba2motifs
from commands import command


def test_the_installed_command_tells_its_version() -> None:
    result = command("--version")
    assert (result.code, result.out, result.err) == (0, f"cignn {version('cignn')}\n", "")


def test_info_lists_versions_and_the_device(call) -> None:  # type: ignore[no-untyped-def]
    result = call("info")
    assert result.code == 0
    for word in (f"cignn {version('cignn')}", f"torch {version('torch')}", "python", "device"):
        assert word in result.words


def test_without_a_command_help_is_shown(call) -> None:  # type: ignore[no-untyped-def]
    result = call()
    assert "demo" in result.words and "info" in result.words and "no medical device" in result.words


BAD_INPUT = {
    "unknown option": (["demo", "--colour", "red"], "No such option: --colour"),
    "misspelt option": (["demo", "--grphs", "200"], "did you mean --graphs?"),
    "unknown command": (["dmo"], "No such command 'dmo'. Did you mean 'demo'?"),
    "too few graphs": (["demo", "--graphs", "5"], "Invalid value for '--graphs'"),
    "no number": (["demo", "--graphs", "many"], "Invalid value for '--graphs'"),
    "negative seed": (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_ends_with_code_two_and_a_clear_line(  # type: ignore[no-untyped-def]
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.code == 2 and words in result.words and not result.out
    assert "Traceback" not in result.err and result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_bad_input_ends_with_code_two_for_the_installed_command_too(tmp_path: Path) -> None:
    result = command("demo", "--graphs", "5", cwd=tmp_path)
    assert result.code == 2 and "--graphs" in result.words and "100" in result.words
    assert "Traceback" not in result.err and not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder_is_refused(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "notes.txt").write_text("mine")
    result = call("demo", "--out", str(tmp_path / "notes.txt"))
    assert result.code == 2 and "'--out'" in result.words and "is a file" in result.words
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test when anything is trained."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a training began")

    monkeypatch.setattr(CIGNNClassifier, "fit", refuse)


@pytest.mark.usefixtures("untrained")
def test_a_place_that_cannot_be_written_is_refused_before_training(  # type: ignore[no-untyped-def]
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = call("demo", "--out", str(tmp_path / "notes.txt" / "deeper"))
    assert result.code == 2 and "'--out'" in result.words and "cannot write into" in result.words

    def read_only(**kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    result = call("demo", "--out", str(tmp_path / "out"))
    assert result.code == 2 and "cannot write into" in result.words and "Permission denied" in result.words
    assert "Traceback" not in result.err


@pytest.mark.usefixtures("untrained")
def test_a_folder_in_the_place_of_the_model_is_refused_before_training(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("mine")
    result = call("demo", "--out", str(tmp_path))
    assert result.code == 2 and "exists and is not a model folder; choose another path" in result.words
    assert [path.name for path in tmp_path.rglob("*.*")] == ["thesis.txt"]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), FloatingPointError("training diverged")]
)
def test_a_failure_on_the_way_is_told_in_one_line(  # type: ignore[no-untyped-def]
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(cignn.datasets, "make_ba2motifs", fail)
    result = call("demo", "--out", str(tmp_path / "out"))
    assert result.code == 1 and error.args[-1] in result.err and result.err.count("\n") == 1


SOURCE = Path(cignn.__file__).parents[1]
WITHOUT_METADATA = """
import importlib.metadata, runpy, sys
real = importlib.metadata.version

def version(name):
    if name in ("cignn", "nilearn"):
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)

importlib.metadata.version = version
runpy.run_module("cignn", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("how", [["-m", "cignn"], ["-c", WITHOUT_METADATA]], ids=["module", "not installed"])
def test_the_package_runs_as_a_module_installed_or_not(tmp_path: Path, how: list[str]) -> None:
    for arguments, words in (["--version"], f"cignn {cignn.__version__}"), (["info"], cignn.__version__):
        done = subprocess.run(
            [sys.executable, *how, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=300,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
        )
        assert done.returncode == 0, done.stderr
        assert words in done.stdout and not done.stderr
    assert ("not installed" in done.stdout) == ("-c" in how)


def test_an_error_is_told_in_one_line_letter_by_letter(  # type: ignore[no-untyped-def]
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "subjects [a, b] of [/data/old] have no series; " + "drop them " * 20 + "and try again."

    def refuse(*args: object, **kwargs: object) -> None:
        raise ValueError(message)

    monkeypatch.setattr(cignn.datasets, "make_ba2motifs", refuse)
    monkeypatch.setenv("COLUMNS", "80")
    result = call("demo", "--out", str(tmp_path / "out"))
    assert result.code == 2 and result.err == f"error {message}\n" and not result.out


def test_ctrl_c_ends_without_a_traceback(  # type: ignore[no-untyped-def]
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cignn.datasets, "make_ba2motifs", interrupt)
    result = call("demo", "--out", str(tmp_path / "out"))
    assert result.code == 130 and "Traceback" not in result.err


def test_the_demo_trains_saves_and_draws(tmp_path: Path) -> None:
    words = "demo --graphs 100 --subjects 40 --out new/demo --json"
    result = command(*words.split(), cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.err == ""
    figures = json.loads(result.out)
    for name in ("accuracy", "explanation ROC-AUC", "precision@k"):
        assert 0 <= figures[name] <= 1
    assert figures["accuracy"] >= 0.8 and figures["explanation ROC-AUC"] > 0.8, "far above chance, 0.5 each"
    assert figures["training seconds"] > 0
    picture, folder = tmp_path / figures["picture"], tmp_path / figures["model"]
    assert picture.parent == tmp_path / "new" / "demo"
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    model = load_model(folder)
    graphs = make_ba2motifs(10, random_state=1)
    assert set(model.predict(graphs)) <= {0, 1}
    assert np.isfinite(np.concatenate(model.explain(graphs).edge_weights)).all()
    report = tmp_path / figures["report"]
    assert report == tmp_path / "new" / "demo" / "report.html" and "<html" in report.read_text()[:500]
    assert isinstance(load_model(tmp_path / figures["cohort"]["model"]), CohortClassifier)
