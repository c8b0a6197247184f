"""What must hold for the commands with models that fuse views, or put decisions on another model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cignn import load_cohort, load_model
from cignn.datasets import make_cohort
from cignn.estimators import DecisionClassifier, FusedClassifier, TableClassifier
from cignn.evaluation import validate
from commands import Result, write_studies, write_study

pytestmark = pytest.mark.medium

Call = Callable[..., Result]
FIT = "fit my_study --method linear-svm --set C=0.01 --seed 0"
FUSED = f"{FIT} --views correlation,tangent --view finer=finer --view who=age+sex --out fused --hold-out 0.25"
DECIDED = f"{FIT} --calibrate isotonic --threshold sensitivity@0.8 --positive patient --out decided"
BOTH = f"{FIT} --views correlation,partial --calibrate sigmoid --out both"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    write_studies(folder)
    for name, seed in (("finer", 0), ("finer_elsewhere", 1)):
        size = 40 if seed == 0 else 30
        cohort = make_cohort(size, 12, n_edges=3, lengths=(50, 60), random_state=10 + seed)
        write_study(folder / name, cohort)
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


def told(result: Result) -> dict:
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_a_fusion_is_fitted_and_used(call: Call, here: Path) -> None:
    fitted = told(call(*FUSED.split(), "--json"))
    assert fitted["held_out"] == 9 and set(fitted["shares"]) == {"correlation", "tangent", "finer", "who"}
    model = load_model("fused")
    assert isinstance(model, FusedClassifier) and model.read_ == ["finer"]
    card = Path("fused/MODEL_CARD.md").read_text()
    assert "View finer, weight" in card and "27 graphs of 27 subjects" in card
    assert "shares.finer" in Path("fused/settings.toml").read_text()

    said = told(call("predict", "fused", "new_subjects", "--view", "finer=finer", "--json"))
    table = pd.DataFrame(said["predictions"])
    assert len(table) == 4 and np.allclose(table[["p_control", "p_patient"]].sum(axis=1), 1)
    known = told(call("predict", "fused", "my_study", "--view", "finer=finer", "--json"))
    assert pd.DataFrame(known["predictions"])["trained_on"].sum() == 27 and known["scores"]

    words = "explain fused new_subjects --view finer=finer --edges 3 --out told --json"
    said = told(call(*words.split()))
    assert len(said["by_view"]) == 4 and said["explained_views"] == ["correlation", "tangent", "finer", "who"]
    by_view, chances = pd.read_csv("told/by_view.csv"), pd.read_csv("told/probabilities.csv")
    own = [
        row[f"p_{row['explained']}"] for _, row in chances.assign(explained=by_view["explained"]).iterrows()
    ]
    whole = by_view[["base", "correlation", "tangent", "finer", "who"]].sum(axis=1)
    np.testing.assert_allclose(whole, np.log(own) - np.log1p(-np.array(own)), atol=1e-4)
    assert Path("told/views/finer/group_edges.csv").is_file() and Path("told/views/who.csv").is_file()
    subject = by_view["subject"].iloc[0]
    assert len(pd.read_csv(f"told/views/tangent/subjects/{subject}.csv")) == 3
    assert Path(f"told/views/finer/subjects/{subject}.png").is_file()
    shown = call("explain", "fused", "new_subjects", "--view", "finer=finer", "--no-figures", "--out", "told")
    assert "that each view added" in shown.words

    words = "validate fused other_study --view finer=finer_elsewhere --out scored"
    said = told(call(*words.split(), "--json"))
    assert said["subjects"] == 30 and said["drift"] is None
    assert Path("scored/scores.csv").is_file() and not Path("scored/drift.csv").exists()
    assert "drift is not measured" in call(*words.split()).words


def test_decisions_are_fitted_and_used(call: Call, here: Path) -> None:
    fitted = told(call(*DECIDED.split(), "--json"))
    model = load_model("decided")
    assert isinstance(model, DecisionClassifier) and model.positive_ == "patient"
    assert fitted["threshold"] == model.threshold_
    said = told(call("predict", "decided", "other_study", "--json"))
    table = pd.DataFrame(said["predictions"])
    by_threshold = np.where(table["p_patient"] >= model.threshold_, "patient", "control")
    assert table["predicted"].tolist() == by_threshold.tolist()
    assert said["scores"]["accuracy"] == pytest.approx((table["predicted"] == table["label"]).mean())
    words = "explain decided other_study --no-figures --edges 2 --out why --json"
    told(call(*words.split()))
    chances = pd.read_csv("why/probabilities.csv")
    assert chances["explained"].tolist() == by_threshold.tolist()  # not the class that was more probable
    scored = told(call("validate", "decided", "other_study", "--json"))
    assert scored["drift"]["mean_shift"] > 0
    accuracy = next(row["value"] for row in scored["scores"] if row["metric"] == "accuracy")
    assert accuracy == pytest.approx(said["scores"]["accuracy"])
    assert told(call("validate", "decided", "other_study", "--recentre", "--json"))["recentred"]


def test_the_card_takes_the_scores_of_the_fusion(call: Call, here: Path) -> None:
    words = "evaluate my_study --methods linear-svm --set C=0.01 --views correlation,partial --folds 3"
    told(call(*words.split(), "--protocol", "kfold", "--calibrate", "sigmoid", "--out", "runs", "--json"))
    told(call(*BOTH.split(), "--results", "runs", "--json"))
    card = Path("both/MODEL_CARD.md").read_text()
    assert "Of linear-svm/stacked, trained anew in each of 3 splits" in card
    assert "DecisionClassifier" in card and "differed" not in card
    assert isinstance(load_model("both").estimator_, FusedClassifier)
    told(call("explain", "both", "new_subjects", "--no-figures", "--out", "both_told", "--json"))
    assert set(pd.read_csv("both_told/by_view.csv")) > {"correlation", "partial", "base"}


REFUSED = {
    "a view that is missing": (
        "predict fused new_subjects",
        "the model reads the view 'finer'; give that of",
    ),
    "a view it has not": ("predict both new_subjects --view x=finer", "the model asks for no view 'x'"),
    "columns for a view": ("predict fused new_subjects --view finer=age", "there is no file for the view"),
    "an explainer": ("explain both new_subjects --explainer random", "each is explained by its own model"),
    "no pooling": ("explain both new_subjects --no-pooled", "each is explained by its own model"),
    "recentring": ("validate both other_study --recentre", "reads one kind of them, this one does not"),
    "a report": ("report both", "a report shows one classifier of graphs, and both is made of others"),
    "one view": (f"{FIT} --views correlation --out x", "a fusion needs two views"),
    "scores": ("fit my_study --target age --views correlation,partial", "is for classes"),
    "a threshold": (f"{FIT} --threshold 3 --out x", "must be a number between 0 and 1"),
    "a table": ("explain table my_study", "the model reads a table and no connections"),
}


@pytest.fixture(scope="module")
def models(place: Path) -> None:
    """The models of the tests before, also where these were not run."""
    from typer.testing import CliRunner

    from cignn.cli import app

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in (FUSED, BOTH):
            done = CliRunner().invoke(app, [*line.split(), "--json"])
            assert done.exit_code == 0, done.output
        TableClassifier(["age"]).fit(load_cohort("my_study")).save("table")


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_command_cannot_do_is_told_in_one_line(
    call: Call, here: Path, models: None, words: str, said: str
) -> None:
    result = call(*words.split(), "--json")
    assert result.code == 2 and said in result.words and not result.out
    assert result.err.count("\n") == 1 and "Traceback" not in result.err


def test_a_table_is_validated_too(here: Path, models: None) -> None:
    found = validate(load_model("table"), load_cohort("other_study"))
    assert found.drift is None and len(found.predictions) == 30
