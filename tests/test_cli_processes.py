"""Every command in a process of its own: its example as printed, ``--json``, bad input and Ctrl-C."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from cignn import load_cohort, load_model
from cignn.evaluation import Store
from commands import ALL, SCRIPT, command, interrupted, write_studies

pytestmark = pytest.mark.slow

# What an example takes for granted, and what it leaves. `demo`, the longest, has a test of its own.
MADE = {
    "fit": "model/model.safetensors",
    "audit": None,
    "predict": "predictions.csv",
    "explain": "explained/subjects/sub-0037.png",
    "group": "group/connections.csv",
    "evaluate": "results/summary.csv",
    "validate": "validated/predictions.csv",
    "report": "report.html",
    "reproduce": "results/paper/explanation-accuracy-smoke.md",
    "info": None,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with my_study, new_subjects and what the examples of the help texts leave in it."""
    folder = tmp_path_factory.mktemp("examples")
    write_studies(folder)
    for name, made in MADE.items():
        line = example(name)
        done = command(*shlex.split(line)[1:], cwd=folder)
        assert done.code == 0, (line, done.err)
        assert "Traceback" not in done.err and done.out.strip(), line
        assert made is None or (folder / made).stat().st_size > 100, line
    return folder


def example(name: str) -> str:
    """The example as the help of a command prints it."""
    (line,) = re.findall(r"Example: (.+)", command(name, "--help").out)
    assert line.startswith(f"cignn {name}"), "an example shows its command"
    return line.strip()


def test_examples_of_the_help_texts_work_as_printed_and_leave_their_settings(place: Path) -> None:
    assert {*MADE, "demo"} == set(ALL)
    beside = ("model/settings.toml", "predictions.settings.toml", "explained/settings.toml")
    beside += (
        "results/settings.toml",
        "report.settings.toml",
        "group/settings.toml",
        "validated/settings.toml",
    )
    for file in beside:
        assert "# again: cignn" in (place / file).read_text()


# --------------------------------------------------------------------------- --json

JSON = {  # of demo and fit, see their own tests
    "predict": ("predict model new_subjects", {"predictions", "scores", "out"}),
    "explain": ("explain model new_subjects --out ex --no-figures", {"subjects", "group_edges"}),
    "evaluate": ("evaluate my_study --methods linear-svm --out res", {"summary", "failed", "comparison"}),
    "validate": ("validate model other_study", {"scores", "calibration", "drift", "nuisances"}),
    "group": (
        "group my_study --method linear-svm --n-resamples 2 --n-permutations 1 --out map",
        {"reading", "systems", "nuisance", "out"},
    ),
    "audit": ("audit my_study --out findings.csv", {"findings", "worst", "subjects"}),
    "report": ("report model --out short.html --no-audit", {"report", "bytes", "subjects"}),
    "reproduce": ("reproduce data-statistics --sets MUTAG --out paper", {"table", "claims", "csv"}),
    "info": ("info", {"cignn", "torch", "device"}),
}


@pytest.mark.parametrize(("line", "keys"), JSON.values(), ids=JSON.keys())
def test_json_is_all_that_is_written(place: Path, line: str, keys: set[str]) -> None:
    result = command(*line.split(), "--json", cwd=place)
    assert result.code == 0, result.err
    assert result.out.count("\n") == 1 and result.err == ""
    assert keys <= set(json.loads(result.out))


# ------------------------------------------------------------------------- bad input

BAD = {
    "demo": ("demo --graphs 5", "Invalid value for '--graphs'"),
    "fit": ("fit nowhere", "nowhere does not exist"),
    "predict": ("predict my_study new_subjects", "my_study is not a model folder"),
    "explain": ("explain model nowhere", "nowhere does not exist"),
    "validate": ("validate model nowhere", "nowhere does not exist"),
    "group": ("group my_study --reproducibility site", "did you mean sites?"),
    "evaluate": ("evaluate my_study --protcol loso", "did you mean --protocol?"),
    "audit": ("audit my_study --format cohrt", "did you mean cohort?"),
    "report": ("report my_study", "not a folder written by cignn fit or cignn evaluate"),
    "reproduce": ("reproduce explanation-acuracy", "did you mean 'explanation-accuracy'?"),
    "info": ("info --jsn", "did you mean --json?"),
}


@pytest.mark.parametrize(("line", "told"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_two(place: Path, line: str, told: str) -> None:
    result = command(*line.split(), cwd=place)
    assert (result.code, result.out) == (2, "") and told in result.err
    assert result.err.startswith("error ") and result.err.count("\n") == 1


# ---------------------------------------------------------------------------- Ctrl-C

# Work too short to be interrupted in the middle stands still at a step: the command is otherwise its own.
STANDING = """
import importlib, pathlib, sys, time
module, _, name = sys.argv.pop(1).rpartition(".")

def stand(*args, **kwargs):
    pathlib.Path("standing").touch()
    time.sleep(300)

setattr(importlib.import_module(module), name, stand)
from cignn.cli import main
main()
"""


def interrupted_at(step: str, line: str, cwd: Path) -> tuple[int, str, str]:
    """Press Ctrl-C when the command has come to a step."""
    (cwd / "standing").unlink(missing_ok=True)
    program = [sys.executable, "-c", STANDING, step, *line.split()]
    result = interrupted(*program, cwd=cwd, when=(cwd / "standing").exists)
    assert (cwd / "standing").exists(), result.err
    return result.code, result.out, result.err


QUIET = {  # little enough to do over again: nothing is kept, and nothing half
    "predict": ("cignn.cli.predict.prediction_table", "predict model new_subjects --out half.csv"),
    "audit": ("cignn.evaluation.audit", "audit my_study --out half.csv"),
    "info": ("cignn.cli.app._version", "info"),
}


@pytest.mark.parametrize(("step", "line"), QUIET.values(), ids=QUIET.keys())
def test_ctrl_c_in_short_work_leaves_nothing_half(place: Path, step: str, line: str) -> None:
    code, out, err = interrupted_at(step, line, place)
    assert (code, out) == (130, "") and err.splitlines()[-1] == "interrupted nothing was finished."
    assert "Traceback" not in err
    assert not (place / "half.csv").exists()


def test_ctrl_c_in_a_report_leaves_the_older_one(place: Path) -> None:
    before = (place / "report.html").read_bytes()
    code, _, err = interrupted_at("cignn.report.report_of", "report model --out report.html --json", place)
    assert code == 130 and err == "interrupted no report was written, the older report.html stays.\n"
    assert (place / "report.html").read_bytes() == before


def test_ctrl_c_while_a_report_trains_keeps_no_half_model(place: Path) -> None:
    settings = (place / "results" / "settings.toml").read_text()
    long = "epochs = 100000\nn_estimators = 1\npatience = 'none'\ncheckpoint = 'c3'\n"
    (place / "results" / "settings.toml").write_text(f"{settings}\n[model]\n{long}")
    line = [SCRIPT, "report", "results", "--out", "never.html"]
    result = interrupted(*line, cwd=place, when=(place / "c3").exists)
    assert result.code == 130 and "no report was written" in result.err and "Traceback" not in result.err
    assert not (place / "results" / "model").exists() and not (place / "never.html").exists()


def test_ctrl_c_in_a_reproduction_keeps_finished_tasks(place: Path) -> None:
    line = [SCRIPT, *["reproduce", "classification-ba2motifs", "--out", "tables", "--json"]]
    result = interrupted(*line, cwd=place, when=lambda: finished(place / "tables") > 0)
    assert result.code == 130 and result.out == "" and result.err.count("\n") == 1
    assert "finished tasks are kept in tables; the same command resumes them" in result.err
    assert finished(place / "tables") > 0 and not list((place / "tables").glob("*.md"))


def finished(folder: Path) -> int:
    found = list(folder.rglob("results.sqlite"))
    if not found:
        return 0
    with Store(found[0].parent) as store:
        return len(store.tasks())


def test_ctrl_c_in_the_demo_keeps_what_was_drawn(tmp_path: Path) -> None:
    line = [SCRIPT, *["demo", "--graphs", "100", "--subjects", "40", "--json"]]
    picture = tmp_path / "demo" / "explained_graphs.png"
    result = interrupted(*line, cwd=tmp_path, when=complete(picture))
    told = "interrupted six explained graphs and their model are kept in demo; there is no report yet.\n"
    assert (result.code, result.out, result.err) == (130, "", told)
    assert not (tmp_path / "demo" / "report.html").exists()


def complete(picture: Path) -> Callable[[], bool]:
    """A picture that has its last bytes, and had them a second ago: what it belongs to is over."""

    def whole() -> bool:
        return picture.exists() and picture.read_bytes().endswith(b"IEND\xaeB`\x82")

    return lambda: whole() and time.time() - picture.stat().st_mtime > 1


def there_for_a_second(path: Path) -> Callable[[], bool]:
    """Whether a file was first seen a second ago: the epoch that wrote it is over."""
    seen: list[float] = []

    def check() -> bool:
        if not seen and path.exists():
            seen.append(time.monotonic())
        return bool(seen) and time.monotonic() - seen[0] > 1

    return check


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_a_training_keeps_the_best_epoch_and_is_told_once(
    place: Path, sent: signal.Signals
) -> None:
    out, kept = f"half_model_{sent}", f"checkpoint_{sent}"
    words = f"fit my_study --out {out} --epochs 100000 --n-estimators 1 --set patience=none --json"
    line = [SCRIPT, *words.split(), "--set", f"checkpoint={kept}"]
    result = interrupted(*line, cwd=place, when=there_for_a_second(place / kept), sent=sent)
    assert result.code == 130 and json.loads(result.out)["interrupted"] is True
    assert re.fullmatch(rf"interrupted the model of epoch \d+ is kept in {out}\.\n", result.err)
    new = load_cohort(place / "new_subjects", label=None)
    assert load_model(place / out).predict(new).shape == (4,)


def test_ctrl_c_while_explaining_keeps_whole_subjects(place: Path) -> None:
    subjects = place / "half" / "subjects"
    words = "explain model my_study --out half"
    result = interrupted(SCRIPT, *words.split(), cwd=place, when=lambda: any(subjects.glob("*.png")))
    written = len(list(subjects.glob("*.csv")))
    assert result.code == 130 and "of 36 subjects are written into half" in result.err
    assert 1 <= written < 36 and len(pd.read_csv(place / "half" / "probabilities.csv")) == 36


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_an_evaluation_keeps_finished_tasks_and_no_others(
    place: Path, sent: signal.Signals
) -> None:
    out, kept = f"halt_{sent}", f"gin_{sent}"
    words = f"evaluate my_study --methods linear-svm,gin --set epochs=100000 --set gin.checkpoint={kept}"
    result = interrupted(
        SCRIPT, *words.split(), "--out", out, cwd=place, when=(place / kept).exists, sent=sent
    )
    assert result.code == 130 and f"kept in {out}" in result.err
    assert "the same command resumes them" in result.err
    with Store(place / out) as store:
        assert "gin" not in set(store.tasks()["method"])


# ------------------------------------------------------------------------------ start


UNLOADED = """
import sys
sys.argv = ["cignn", *sys.argv[1:]]
from cignn.cli import main
try:
    main()
except SystemExit as ended:
    assert ended.code == {code}, ended.code
heavy = {{"torch", "nilearn", "sklearn", "scipy", "matplotlib"}} & set(sys.modules)
assert not heavy, heavy
"""
WAITLESS = {  # words → exit code, and whether pandas, which reads tables, is not needed either
    "--help": (0, True),
    "fit --help": (0, True),
    "info": (0, True),
    "fit nowhere": (2, True),
    "fit my_study --method ci-gn": (2, False),
    "fit my_study --label diagnosis": (2, False),
    "fit my_study --connectivity tangnt": (2, False),
    "evaluate my_study --methods ci-gnn,ginn": (2, False),
    "group my_study --label diagnosis": (2, False),
    "audit my_study --load min_length=1000": (2, False),
    "predict nowhere new_subjects": (2, True),
}


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    write_studies(folder)
    return folder


@pytest.mark.parametrize(("line", "expected"), WAITLESS.items(), ids=WAITLESS.keys())
def test_help_and_complaints_wait_for_no_torch(studies: Path, line: str, expected: tuple[int, bool]) -> None:
    if line == "info" and torch.cuda.is_available():
        pytest.skip("torch tells the name of a GPU")
    code, no_tables = expected
    program = UNLOADED.format(code=code) + ("assert 'pandas' not in sys.modules" if no_tables else "")
    done = command(program, *line.split(), cwd=studies, program=[sys.executable, "-c"])
    assert done.code == 0, done.err


def test_what_a_training_tells_of_its_epochs_is_one_line(studies: Path) -> None:
    program = (
        "import cignn.cli, cignn.estimators.kept_epochs as kept\n"
        "kept.told_by_epochs = lambda *given: f'kept epoch {given[0][0]} of {given[1]}: as told.'\n"
        "cignn.cli.main()"
    )
    fit = "fit my_study --epochs 1 --set n_estimators=1 --out told --json"
    for words in (fit, "explain told my_study --out weights.csv --json"):  # and whoever looks at the mask
        done = command(program, *words.split(), cwd=studies, program=[sys.executable, "-c"])
        assert done.code == 0 and done.err == "note kept epoch 1 of 1: as told.\n"
