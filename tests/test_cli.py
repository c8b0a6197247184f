"""What must hold for the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cignn.datasets
from cignn import CIGNNClassifier, CohortClassifier, load_model
from cignn.cli.app import show_table
from cignn.cli.columns import fitted_columns
from cignn.cli.predict import on_screen
from cignn.cli.settings import read_settings, to_toml
from cignn.datasets import make_ba2motifs
from cignn.estimators import make_estimator
from cignn.evaluation import evaluate
from commands import Result, command, write_studies


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
    assert "demo" in result.words and "info" in result.words and "not a medical device" in result.words


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


@pytest.mark.medium
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


@pytest.mark.slow
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


# ------------------------------------------------------------------------- all kinds of bad input


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study, a model and an evaluation."""
    folder = tmp_path_factory.mktemp("place")
    write_studies(folder)
    cohort = cignn.datasets.load_cohort(folder / "my_study")
    CohortClassifier.make(make_estimator("lasso")).fit(cohort).save(folder / "model")
    evaluate(["lasso"], {"my_study": cohort}, "holdout", store=folder / "res", verbose=0)
    return folder


DEEP = "[" * 5000 + "]" * 5000
FIT = ("fit", "my_study", "--method", "lasso", "--out", "bad")
GIN = ("fit", "my_study", "--method", "gin", "--out", "bad")
EVALUATE = ("evaluate", "my_study", "--methods", "lasso", "--out", "bad")
VALUES = ("abc", "nan", "inf", "-1.5", "[1]", "{a = 1}", "1979-05-27", "9" * 400, "9" * 5000, DEEP)
NUMBERS = ("nan", "inf", "-inf", "-1", "", "abc", "1e400", "0x1")

BAD_LINES: list[tuple[str, ...]] = [
    *((*FIT, "--load", f"min_length={value}") for value in VALUES),
    *((*FIT, "--load", f"n_rois={value}") for value in VALUES),
    *((*FIT, "--load", f"transpose={value}") for value in VALUES),
    *((*FIT, "--load", f"n_jobs={value}") for value in VALUES if not value.startswith("9")),
    *((*FIT, "--load", f"label={value}") for value in ("3", "nan", "[1]", "true", "none_such")),
    *((*FIT, "--load", f"participants={value}") for value in ("3", "nan", "[1]", "none_such.tsv")),
    *((*FIT, "--load", f"atlas={value}") for value in ("3", "aal116", "[]", "")),
    *((*FIT, "--load", word) for word in ("", "=", "min_length", "colour=red", "extract=1", "entities=a")),
    *((*FIT, "--set", f"C={value}") for value in VALUES if not value.startswith("9")),
    *((*FIT, "--set", f"random_state={value}") for value in ("abc", "nan", "1.5", "[1]", "-1", "9" * 40)),
    *((*FIT, "--set", word) for word in ("", "=3", "C", "colour=red", "class_weight=heavy")),
    *((*GIN, "--set", f"epochs={value}") for value in VALUES if value != "9" * 400),
    *((*GIN, "--set", f"hidden={value}") for value in ("abc", "[1.5]", "[[1]]", "[]", "64", DEEP)),
    *((*GIN, "--set", f"dropout={value}") for value in VALUES),
    *((*FIT, option, value) for option in ("--hold-out", "--density") for value in NUMBERS),
    *((*FIT, option, value) for option in ("--seed", "--epochs") for value in NUMBERS),
    *((*FIT, "--config", value) for value in ("my_study", ".", "", "none.toml", "x" * 300)),
    *((*FIT, option, "") for option in ("--label", "--format", "--connectivity")),
    (*GIN, "--device", ""),
    *((*FIT[:4], "--out", value) for value in ("", ".", "my_study")),
    *((*EVALUATE, option, value) for option in ("--folds", "--seeds", "--repeats") for value in NUMBERS),
    *((*EVALUATE, "--jobs", value) for value in ("nan", "0", "", "abc")),
    *((*EVALUATE, "--stack", value) for value in ("nan", "0", "", "abc", "-1", "1.5")),
    *((*EVALUATE, "--protocol", value) for value in ("", "nan")),
    ("fit", "", "--out", "bad"),
    ("fit", "none_such", "--out", "bad"),
    ("predict", "", "new_subjects"),
    ("predict", "model", ""),
    ("audit", ""),
    ("report", ""),
    ("report", "model", "my_study", "--class-names", "patient"),
    ("report", "model", "my_study", "--class-names", "ill=patient"),
    ("report", "model", "my_study", "--out", ""),
    ("reproduce", "none_such"),
    ("reproduce", ""),
    ("reproduce", "ranks", "--scale", "huge"),
    ("reproduce", "ranks", "--rows", "none_such"),
    ("reproduce", "ranks", "--seeds", "nan"),
]


def check_refused(result: Result) -> None:
    """Exit code 2 and one clear line; notes and progress may stand before it."""
    lines = [line for line in result.err.splitlines() if line.strip() and "━" not in line]
    said = [line for line in lines if not line.startswith("note")]
    assert result.code == 2, result.err[-500:]
    assert len(said) == 1 and said[0].startswith("error "), said
    assert "report it" not in result.err and "Traceback" not in result.err


@pytest.mark.medium
@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: " ".join(line)[:60])
def test_whatever_is_wrong_with_a_line_is_one_clear_line(  # type: ignore[no-untyped-def]
    call, place: Path, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    monkeypatch.chdir(place)
    check_refused(call(*line))
    assert not (place / "bad" / "config.json").exists()


BAD_CONFIGS = {
    "a date": "epochs = 1979-05-27",
    "a date among the parameters": "[model]\nC = 1979-05-27",
    "a time for the reader": "[load]\nmin_length = 07:32:00",
    "deep": f"x = {DEEP}",
    "deep parameters": f"[model]\nC = {DEEP}",
    "deep tables": f"[{'.'.join('a' * 3000)}]\nx = 1",
    "bytes": b"\xff\xfe\x00",
    "a zero": "\0",
    "no table": "model = 'x'",
    "a list for a table": "load = [1]",
    "a number for the command": "fit = 3",
    "many digits": f"seed = {'9' * 5000}",
    "some digits": f"seed = {'9' * 400}",
    "infinite": "hold_out = inf",
    "NaN": "hold_out = nan",
    "a table for a word": "label = {a = 1}",
    "lists in lists": "label = [1, [2, {a = 1}]]",
    "a number for a method": "method = 3",
    "a date for a method": "method = 1979-05-27",
    "a word for a switch": "fisher = 'yes please'",
    "a word for a number": "seed = 'x'",
    "a fraction for a seed": "seed = 1.5",
    "no assignment": "set = ['C']",
    "unknown": "colour = 'red'",
    "not read from files": "json = true",
    "no key": "'' = 1",
}


@pytest.mark.parametrize("content", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_whatever_is_wrong_with_a_config_is_one_clear_line(  # type: ignore[no-untyped-def]
    call, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes
) -> None:
    monkeypatch.chdir(place)
    file = tmp_path / "own.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = [word for word in FIT if word not in ("--method", "lasso")]
    check_refused(call(*line, "--config", file))


BAD_SETTINGS = {
    "data": ("3", "[1]", "1979-05-27", '"\\u0000"'),
    "load": ("'x'", "[1]", "{min_length = 'abc'}", "{min_length = 1979-05-27}"),
    "label": ("3", "[3]"),
    "atlas": ("3",),
    "format": ("3", "[1]", "'none_such'"),
    "methods": ("3", "['gin', 3]"),
    "model": ("'x'", "[1]"),
    "device": ("3",),
    "density": ("1979-05-27", "'x'"),
    "fisher": ("'x'",),
    "connectivity": ("3",),
    "covariates": ("[1]",),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_SETTINGS.items() for value in values]
)
def test_settings_beside_a_result_that_are_of_a_wrong_kind_are_named(  # type: ignore[no-untyped-def]
    call, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.chdir(place)
    shutil.copytree(place / "res", tmp_path / "res")
    given = {"data": "'my_study'", "methods": "'gin'"} | {name: value}
    text = "\n".join(f"{key} = {one}" for key, one in given.items())
    (tmp_path / "res" / "settings.toml").write_text(text)
    result = call("report", tmp_path / "res", "--out", tmp_path / "report.html")
    check_refused(result)
    assert name in result.words or "none_such" in result.words


def test_settings_that_are_no_text_are_as_good_as_none(tmp_path: Path) -> None:
    for content in (b"\xff", f"x = {DEEP}".encode(), b"= ="):
        (tmp_path / "settings.toml").write_bytes(content)
        assert read_settings(tmp_path) == {}


def test_a_path_that_is_no_text_can_be_written_among_the_settings() -> None:
    assert "new_" in to_toml({"data": os.fsdecode(b"new_\xff")}).encode("utf-8").decode("utf-8")


def test_tables_break_lines_between_words_not_within(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    classes = ["schizophrenia_spectrum", "major_depressive_disorder", "healthy_control"]
    table = pd.DataFrame({"subject": [f"sub-{i:04d}" for i in range(3)], "label": classes})
    table = table.assign(trained_on=True, predicted=classes[::-1])
    show_table(table.assign(note="a few words that take their room"), "two columns of long names")
    table = table.assign(site="Site-Munich-North", **{f"p_{name}": 0.25 for name in classes})
    show_table(on_screen(table, 3), "their probabilities would not fit")
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    whole = {"sub-0002", "schizophrenia_", "spectrum", "depressive_", "disorder", "control", "probability"}
    assert whole <= set(printed.split())


def test_a_column_gives_way_where_words_allow_it() -> None:
    cells, widths = fitted_columns([["name", "a-b"], ["label", "left_occipital_pole"]], 16, whole=True)
    assert widths == [4, 12] and cells[1][1] == "left_\noccipital_\npole"
    assert fitted_columns([["name", "x"], ["n", "words that break"]], 12).widths == [4, 8]
    assert fitted_columns([["n", "antidisestablishmentarianism"]], 12).widths is None
