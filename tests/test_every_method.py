"""Every method that decides can be explained, group by group and subject by subject, and reported."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cignn import CohortClassifier, load_model
from cignn.cli.app import app
from cignn.datasets import Cohort, make_cohort
from cignn.estimators import CLASSIFIERS, make_estimator
from cignn.explainers import explain_group, make_explainer
from cignn.report import report_of
from cignn.report.html import render_report
from commands import write_study

KINDS = ("correlation", "partial", "tangent")
NETWORKS = ("gcn", "gat", "gin", "sib", "dir", "ci-gnn")
QUICK: dict[str, dict[str, Any]] = {
    **{name: {"epochs": 2} for name in NETWORKS},
    "random-forest": {"n_estimators": 20},
}
on_every_kind = pytest.mark.parametrize("kind", KINDS)
with_every_method = pytest.mark.parametrize("name", CLASSIFIERS)


@cache
def cohort() -> Cohort:
    return make_cohort(40, 10, n_edges=4, effect=0.6, lengths=(50, 60), random_state=0)


@cache
def fitted(name: str, kind: str) -> CohortClassifier:
    estimator = make_estimator(name, random_state=0, **QUICK.get(name, {}))
    return CohortClassifier.make(estimator, connectivity=kind).fit(cohort()[:30])


@on_every_kind
@with_every_method
def test_contributions_add_up_to_the_decision(name: str, kind: str) -> None:
    model = fitted(name, kind)
    graphs = model.to_graphs(cohort()[30:])
    if hasattr(model.classifier_, "explain"):
        told = model.explain(cohort()[30:], 1)
    else:
        told = make_explainer("contributions").fit(model.classifier_, graphs).explain(graphs, target=1)
    chances = model.predict_proba(cohort()[30:])
    if name == "random-forest":
        chances = np.clip(chances, 0.5 / 20, 1 - 0.5 / 20)  # log-odds of 0 and 1 are not finite
    odds = np.log(chances[:, 1]) - np.log(chances[:, 0])
    summed = np.array([one.base + one.edge_contributions.sum() for one in told])
    np.testing.assert_allclose(summed, odds, atol=2e-2 * max(1, np.abs(odds).max()))
    table = told[0].table()
    assert len(table) == 45 and {"source", "target", "contribution", "role"} <= set(table)


@pytest.mark.parametrize("name", ["linear-svm", "logistic", "random-forest", "gcn"])
def test_a_report_shows_contributions(name: str) -> None:
    data = report_of(fitted(name, "tangent"), cohort())
    page = render_report(data)
    assert data.explanations.edge_contributions is not None and "half way between correlation" in page
    assert "half way between correlation" not in render_report(
        report_of(fitted(name, "correlation"), cohort())
    )


@pytest.mark.parametrize("name", ["linear-svm", "logistic", "random-forest", "rbf-svm"])
def test_groups_are_explained_in_the_tangent_space(name: str) -> None:
    model = CohortClassifier.make(
        make_estimator(name, random_state=0, **QUICK.get(name, {})), connectivity="tangent"
    )
    found = explain_group(model, cohort(), n_resamples=4, n_permutations=2, random_state=0)
    np.testing.assert_allclose(found.map, found.map.T)
    assert found.map.any() and len(found.table) == 45


def test_logistic_regression_has_coefficients() -> None:
    model = fitted("logistic", "correlation").classifier_
    assert model.settings_["C"] > 0 and model.coefficients().shape == (45,) and model.coefficients().all()
    sparse = fitted("lasso", "correlation").classifier_.coefficients()
    assert (sparse == 0).sum() > 0, "the penalty of the lasso is another one"


def call(*words: str) -> Any:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_study(tmp_path / "study", cohort())
    monkeypatch.chdir(tmp_path)
    call(
        "fit", "study", "--method", "svm", "--connectivity", "tangent", "--hold-out", "0.2", "--out", "model"
    )
    assert load_model("model").classifier_.model == "linear-svm", "a short name is enough"
    call("explain", "model", "study", "--out", "explained", "--no-figures")
    assert "contribution" in (tmp_path / "explained" / "group_edges.csv").read_text().splitlines()[0]
    call("report", "model", "study", "--out", "report.html")
    words = ["--protocol", "holdout", "--methods", "svm,logistic", "--connectivity", "tangent"]
    call("evaluate", "study", *words, "--out", "results")
    call("report", "results", "--out", "run.html")
    assert "linear-svm" in (tmp_path / "run.html").read_text(), "an evaluation without networks has a report"


@pytest.mark.slow
@on_every_kind
@with_every_method
def test_the_whole_way_from_the_command_line(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study(tmp_path / "study", cohort())
    monkeypatch.chdir(tmp_path)
    more = [word for key, value in QUICK.get(name, {}).items() for word in ("--set", f"{key}={value}")]
    words = ["--method", name, "--connectivity", kind, *more]
    call("fit", "study", *words, "--out", "model")
    call("explain", "model", "study", "--out", "explained", "--no-figures")
    call("report", "model", "study", "--out", "report.html")
    call("group", "study", *words, "--n-resamples", "4", "--n-permutations", "2", "--out", "group")
    assert (tmp_path / "group" / "connections.csv").is_file() and (tmp_path / "report.html").is_file()
