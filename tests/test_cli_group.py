"""`cignn group`: what it writes and tells."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cignn.evaluation
import cignn.explainers
from cignn import GroupExplanation, load_cohort
from commands import write_studies


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_studies(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """Calls of `explain_group`, which is replaced by maps of the class difference without any training."""
    calls: list[dict] = []

    def explain(estimator, data, n_resamples=100, random_state=0, n_permutations=20, alpha=0.1, **other):
        calls.append(
            {"steps": list(estimator.named_steps), "n_resamples": n_resamples, "data": data, **other}
        )
        random = np.random.default_rng(random_state)
        n = data.n_rois
        values = random.normal(size=n * (n - 1) // 2)
        values[:5] += 9
        halves = values + random.normal(size=(n_resamples, len(values)))
        null = random.normal(size=(n_permutations, len(values)))
        classes = np.unique(data.y).tolist()
        return GroupExplanation.from_maps(
            values,
            halves,
            null,
            classes=classes,
            n_subjects=len(data),
            alpha=alpha,
            systems=None if data.atlas is None else data.atlas.systems,
        )

    monkeypatch.setattr(cignn.explainers, "explain_group", explain)
    monkeypatch.setattr(sys.modules["cignn.evaluation.reproducibility"], "explain_group", explain)
    return calls


def test_group_writes_tables_and_tells_what_survives(call, here, asked, monkeypatch) -> None:
    words = "group my_study --method lasso --deconfound age --n-resamples 10 --n-permutations 30"
    result = call(*words.split())
    assert result.code == 0, result.err
    assert "survive at q ≤ 0.1" in result.words and "patient against control: 36 subjects" in result.words
    assert max(map(len, (here / "group" / "summary.txt").read_text().splitlines())) <= 80
    assert asked[0]["n_resamples"] == 10 and "deconfound" in asked[0]["steps"]
    table = pd.read_csv(here / "group" / "connections.csv")
    assert len(table) == 190 and table["selected"][:5].all()
    for name in ("systems.csv", "components.csv", "nuisance.csv", "settings.toml"):
        assert (here / "group" / name).is_file()
    assert GroupExplanation.load(here / "group" / "group.npz").n_selected == table["selected"].sum()


def test_group_measures_reproducibility_and_tells_machines(call, here, asked) -> None:
    words = "group my_study --out found --method lasso --n-resamples 4 --reproducibility halves --splits 2"
    result = call(*words.split(), "--json")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert told["classes"] == ["control", "patient"] and len(told["connections"]) >= 5
    maps = [row["map"] for row in told["reproducibility"]["halves"]]
    assert maps == ["model", "t", "coefficients", "haufe"]
    assert len(pd.read_csv(here / "found" / "reproducibility_halves.csv")) == 16
    study = set(load_cohort("my_study").subjects)
    first, second = (set(one["data"].subjects) for one in asked[1:3])
    assert not first & second and first | second == study


def test_group_refuses_what_it_does_not_know(call, here) -> None:
    result = call("group", "my_study", "--reproducibility", "thirds")
    assert result.code == 2 and "there is no 'thirds'; there are halves, sites." in result.words


def test_a_report_shows_what_survives_and_keeps_it(call, here, asked) -> None:
    fit = "fit my_study --out model --epochs 1 --n-estimators 1 --json"
    assert call(*fit.split()).code == 0
    words = "report model --no-audit --no-files --json --out first.html --resamples 6"
    result = call(*words.split())
    assert result.code == 0, result.err
    assert asked[-1]["n_resamples"] == 6 and len(asked[-1]["data"]) == 36
    found = GroupExplanation.load(here / "first.group.npz")
    assert f"<strong>{found.n_selected} of 190 connections survive" in (here / "first.html").read_text()
    again = "group my_study --out found --method lasso --n-resamples 4 --reproducibility halves --splits 1"
    assert call(*again.split(), "--json").code == 0
    n_calls = len(asked)
    for given in ("first.group.npz", "found"):
        result = call(
            "report", "model", "--no-audit", "--no-files", "--json", "--out", "second.html", "--group", given
        )
        assert result.code == 0, result.err
        page = (here / "second.html").read_text()
        assert "connections survive" in page
        assert ("Does the map come back on other subjects?" in page) == (given == "found")
    assert len(asked) == n_calls, "nothing is trained again"
    result = call("report", "model", "--group", "found", "--resamples", "5")
    assert result.code == 2 and "has no use beside --group" in result.words
    result = call("report", "model", "--group", "my_study", "--no-audit", "--no-files")
    assert result.code == 2 and "my_study is not a folder written by cignn group" in result.words


@pytest.mark.medium
def test_group_explains_a_linear_model_from_end_to_end(call, here) -> None:
    words = "group my_study --method linear-svm --set C=0.01 --n-resamples 4 --n-permutations 3 --json"
    told = json.loads(call(*words.split()).out)
    assert told["classes"] == ["control", "patient"] and told["n_subjects"] == 36
    assert told["reading"] in ("use", "pattern", "size") and told["reason"]
    turned = json.loads(call(*words.split(), "--positive", "control").out)
    assert turned["classes"] == ["patient", "control"]


def test_of_several_classes_one_is_named(call, here, asked) -> None:
    cohort = load_cohort("my_study")
    cohort.with_y(np.array(["a", "b", "c"])[np.arange(len(cohort)) % 3]).save("three.npz")
    words = "group three.npz --method lasso --n-resamples 2 --n-permutations 2"
    refused = call(*words.split())
    assert refused.code == 2 and "there are 3 classes; name the one to explain" in refused.err
    done = call(*words.split(), "--positive", "b")
    assert done.code == 0, done.err
    assert asked[-1]["target"] == "b"
