"""The commands with a score to predict: ``--target``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.commands import command
from typer.testing import CliRunner

from cignn.cli import app
from cignn.datasets import make_cohort

DROP = ["--load", "missing_labels=drop_subject"]
QUICK = ["--epochs", "1", "--n-estimators", "1"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """50 subjects of two sites with a symptom score, one of whom has none."""
    folder = tmp_path_factory.mktemp("scores") / "study"
    cohort = make_cohort(
        50, 8, n_edges=3, effect=0.4, score=True, lengths=(60, 70), n_sites=2, random_state=0
    )
    (folder / "series").mkdir(parents=True)
    for subject, series in zip(cohort.subjects, cohort.series, strict=True):
        np.save(folder / "series" / f"{subject}.npy", series)
    table = pd.DataFrame({"participant_id": cohort.subjects, "site": cohort.sites, "BDI": cohort.y})
    table["group"] = np.where(np.arange(50) % 2, "HC", "MDD")
    table.loc[3, "BDI"] = np.nan
    table.to_csv(folder / "participants.tsv", sep="\t", index=False, na_rep="n/a")
    return folder


def run(*arguments: str, cwd: Path) -> Any:
    """Run a command in this process and return what it printed as JSON."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def model(study: Path) -> Path:
    told = run("fit", "study", "--target", "BDI", *DROP, *QUICK, "--hold-out", "0.3", cwd=study.parent)
    assert told["target"] == "BDI" and set(told["scores"]) == {"mae", "r2", "r", "spearman"}
    assert told["trained_on"] + told["held_out"] == 49
    return study.parent / "model"


def test_new_subjects_get_scores(study: Path, model: Path) -> None:
    told = run("predict", "model", "study", cwd=study.parent)
    table = pd.DataFrame(told["predictions"])
    assert told["target"] == "BDI" and len(table) == 50  # whose score is not known is predicted too
    assert np.isnan(table["observed"].astype(float)[3]) and np.isfinite(table["predicted"]).all()
    known = table[table["observed"].notna()]
    np.testing.assert_allclose(known["residual"], known["observed"] - known["predicted"])
    held_out = known[~known["trained_on"]]
    assert told["scores"]["mae"] == pytest.approx(held_out["residual"].abs().mean())


def test_contributions_are_in_units_of_the_score(study: Path, model: Path) -> None:
    told = run("explain", "model", "study", "--no-figures", cwd=study.parent)
    assert told["target"] == "BDI" and len(told["group_edges"]) == 28
    out = study.parent / "explained"
    table = pd.read_csv(out / "predictions.csv")
    for row in table.head(5).itertuples():
        edges = pd.read_csv(out / "subjects" / f"{row.subject}.csv")
        assert row.base + edges["contribution"].sum() == pytest.approx(row.predicted, rel=1e-4)
        assert set(edges["role"].dropna()) <= {"raises", "lowers"}
    assert set(pd.read_csv(out / "group_edges.csv")["role"].dropna()) <= {"raises", "lowers"}


def test_methods_are_compared_by_their_errors(study: Path) -> None:
    line = "evaluate study --target bdi --protocol kfold --folds 3 --methods ridge,cpm --out results"
    told = run(*line.split(), *DROP, cwd=study.parent)
    out = study.parent / "results"
    summary = pd.DataFrame(told["summary"]).set_index("method")
    assert {"mae mean", "r2 mean", "r mean", "spearman mean"} <= set(summary)
    simple = {row["method"] for row in told["trivial"]}
    assert simple == {"mean", "site's mean"} and told["target"] == "bdi"
    assert {row["metric"] for row in told["comparison"]} == {"mae"}
    assert set(pd.read_csv(out / "sites.csv")["site"]) == {"site-1", "site-2"}
    assert {row["method"] for row in told["nuisances"]} == {"ridge", "cpm"}  # at equal score
    assert {row["n_sites"] for row in told["site_controlled_r2"]} == {2}
    predictions = pd.read_csv(out / "predictions.csv")
    assert len(predictions) == 2 * 49 and not [name for name in predictions if name.startswith("p_")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(study.parent)
        shown = CliRunner().invoke(app, [*line.split(), *DROP], catch_exceptions=False)
    assert all(word in shown.stdout for word in ("MAE", "R²", "Spearman", "site's mean", "site-2"))
    assert "at equal score" in shown.stdout


def test_the_report_of_a_score(study: Path, model: Path) -> None:
    told = run("report", "model", "--out", "report.html", cwd=study.parent)
    page = (study.parent / "report.html").read_text()
    assert told["target"] == "BDI" and set(told["scores"]) == {"mae", "r2", "r", "spearman"}
    for words in (
        "predicted against observed BDI",
        "residuals",
        "Which connections make",
        "sub-0001",
        "raises",
    ):
        assert words.lower() in page.lower()
    assert "<script" not in page and page.count("data:image/png;base64,") == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(study.parent)
        wrong = CliRunner().invoke(app, ["report", "model", "--resamples", "4"])
    assert wrong.exit_code == 2 and "this report is of a score" in " ".join(wrong.output.split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit study --target BDI --method gin", "gin predicts classes, --target needs a method for scores"),
        ("fit study --label group --method ridge", "ridge predicts a score; name its column with --target"),
        ("fit study --target BDI --positive HC", "is for classes, --target predicts a score; leave it out"),
        ("fit study --target BDI --deconfound site,bdi", "BDI is what is predicted"),
        ("group study --target BDI --deconfound bdi", "BDI is what is predicted"),
        ("evaluate study --target BDI --calibrate sigmoid", "is for classes, --target predicts a score"),
    ],
)
def test_wrong_options_are_refused(line: str, words: str, study: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(study.parent)
        done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 2
    assert words in " ".join((done.output + done.stderr).replace("│", " ").split())


def test_missing_scores_and_columns_are_named(study: Path) -> None:
    missing = command("fit", "study", "--target", "BDI", "--method", "ridge", cwd=study.parent)
    assert missing.code == 2
    assert "no BDI for sub-0004; pass --load missing_labels=drop_subject" in missing.words
    unknown = command("fit", "study", "--target", "HAMD", "--method", "ridge", cwd=study.parent)
    assert unknown.code == 2 and "has no column 'HAMD'" in unknown.words
    assert "name that of the scores" in unknown.words and "--label" not in unknown.words


def test_a_saved_model_of_scores_is_validated_and_the_study_audited(study: Path, model: Path) -> None:
    told = run("validate", "model", "study", cwd=study.parent)  # the column is that of the model
    assert told["target"] == "BDI" and told["left_out"] + told["scans"] == 49
    assert {row["metric"] for row in told["scores"]} == {"mae", "r2", "r", "spearman"}
    found = {row["finding"] for row in run("audit", "study", "--target", "BDI", cwd=study.parent)["findings"]}
    assert {"site → score", "score per site", "R² within sites"} <= found
