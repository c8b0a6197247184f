"""What must hold for the commands on a study: results, settings beside them, bad input, Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cignn import Cohort, GraphSet, load_cohort, load_model, report
from cignn._checks import Option
from cignn.cli import app
from cignn.cli.explanation_files import draw, file_names
from cignn.cli.options import as_flag
from cignn.cli.outputs import other_settings
from cignn.cli.report import _evaluated
from cignn.cli.settings import as_value, to_toml
from cignn.datasets import DataError, aal116, make_ba2motifs, make_cohort, make_spurious_motifs
from cignn.estimators import GNNClassifier
from cignn.evaluation import Store, runner
from cignn.evaluation.stacks import Stack
from cignn.evaluation.tasks import Outcome
from cignn.explanations import Explanation
from cignn.report.performance import method_tables
from commands import ALL, Result, write_studies

pytestmark = pytest.mark.medium

Call = Callable[..., Result]
QUICK = ["--epochs", "1", "--n-estimators", "1"]


def words_of(page: Path) -> str:
    return " ".join(page.read_text().split())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two studies, a network (model) and a support vector machine (svm)."""
    folder = tmp_path_factory.mktemp("studies")
    write_studies(folder)
    for name, column, value in (("elsewhere", "site", "far away"), ("ageless", "age", "n/a")):
        shutil.copytree(folder / "my_study", folder / name)
        table = pd.read_csv(folder / name / "participants.tsv", sep="\t", dtype=str)
        table.loc[:1, column] = value
        table.to_csv(folder / name / "participants.tsv", sep="\t", index=False)
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, ["fit", "my_study", "--hold-out", "0.25", *QUICK, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["model"] == "model" and told["trained_on"] == 27 and told["held_out"] == 9
    assert 0 <= told["scores"]["accuracy"] <= 1 and told["classes"] == ["control", "patient"]
    words = "--method linear-svm --connectivity tangent --combat --covariates age --density 0.5"
    inside = CliRunner().invoke(
        app, ["fit", str(folder / "my_study"), "--out", str(folder / "svm"), *words.split()]
    )
    assert inside.exit_code == 0, inside.output
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


# ----------------------------------------------------------------------- help


@pytest.mark.parametrize("name", ALL)
def test_help_shows_an_example_within_80_columns(
    call: Call, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    result = call(name, "--help")
    assert result.code == 0 and f"Example: cignn {name}" in result.words
    assert max(map(len, result.out.splitlines())) <= 80
    assert "--json" in result.words


# ---------------------------------------------------------------------- models


def test_fit_keeps_all_that_new_subjects_need(here: Path) -> None:
    model, new = load_model("svm"), load_cohort("new_subjects", label=None, one_class="keep")
    assert [type(step).__name__ for step in model[:-1]] == [
        "Connectivity",
        "ComBat",
        "ConnectomeGraphs",
    ]
    assert model[0].kind == "tangent" and model[2].density == 0.5
    assert model.roi_names_[3] == "region 3" and set(model.atlas_.systems) > {"network-1"}
    assert model.predict_proba(new).shape == (4, 2)


def test_the_largest_share_can_be_held_out(call: Call, here: Path) -> None:
    result = call("fit", "my_study", "--out", "small", "--method", "lasso", "--hold-out", "0.8", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["held_out"] == 29


def test_whom_sensitivity_is_of_is_said_and_can_be_set(call: Call, here: Path) -> None:
    words = "fit my_study --out whose --method lasso --hold-out 0.3"
    first = call(*words.split())
    assert first.code == 0 and "subjects held out; positive: patient" in first.words
    turned = call(*words.split(), "--positive", "control", "--json")
    plain = json.loads(call(*words.split(), "--json").out)
    scores = json.loads(turned.out)["scores"]
    assert plain["positive"] == "patient" and json.loads(turned.out)["positive"] == "control"
    assert scores["sensitivity"] == plain["scores"]["specificity"]
    assert scores["specificity"] == plain["scores"]["sensitivity"]
    bad = call(*words.split(), "--positive", "nobody")
    assert bad.code == 2 and "one of the classes, 'control' or 'patient', got 'nobody'" in bad.words


def test_predict_counts_the_patients_the_model_was_scored_by(call: Call, here: Path) -> None:
    words = "fit my_study --out whose --method lasso --hold-out 0.3 --positive control"
    assert call(*words.split()).code == 0
    kept = json.loads(call("predict", "whose", "my_study", "--json").out)
    other = json.loads(call("predict", "whose", "my_study", "--positive", "patient", "--json").out)
    assert kept["positive"] == "control" and other["positive"] == "patient"
    assert kept["scores"]["sensitivity"] == other["scores"]["specificity"]
    assert "positive: control" in call("predict", "whose", "my_study").words


def test_settings_are_written_beside_the_model_and_read_again(call: Call, here: Path) -> None:
    written = tomllib.loads((here / "model" / "settings.toml").read_text())
    assert written["data"] == "my_study" and written["epochs"] == 1 and written["hold_out"] == 0.25
    assert written["resolved"]["readout"] == "edges" and written["resolved"]["best_epoch"] == 1
    result = call("fit", "--config", "model/settings.toml", "--out", "again", "--seed", "1", "--json")
    assert result.code == 0, result.err
    again = tomllib.loads((here / "again" / "settings.toml").read_text())
    assert again["out"] == "again" and again["seed"] == 1, "flags win"
    assert {k: v for k, v in again.items() if k not in ("out", "seed", "resolved")} == {
        k: v for k, v in written.items() if k not in ("out", "seed", "resolved")
    }


def test_a_file_of_settings_holds_tables_of_commands_models_and_readers(call: Call, here: Path) -> None:
    (here / "run.toml").write_text(
        'data = "my_study"\nn_estimators = 1\n[fit]\nepochs = 9\nout = "toml"\n[evaluate]\nseeds = 4\n'
        '[model]\nkeep = 0.15\nencoder_hidden = [8]\ndropout = 0\n[load]\nshort_series = "keep"\n'
    )
    result = call("fit", "--config", "run.toml", "--epochs", "1", "--set", "keep=0.25", "--json")
    assert result.code == 0, result.err
    resolved = load_model("toml").classifier_.settings_
    assert resolved["epochs"] == 1 and resolved["keep"] == 0.25, "flags win"
    assert resolved["encoder_hidden"] == (8,) and resolved["dropout"] == 0, "one by one"
    written = tomllib.loads((here / "toml" / "settings.toml").read_text())
    assert written["model"] == {"keep": 0.25, "encoder_hidden": [8], "dropout": 0}
    assert written["load"] == {"short_series": "keep"}
    (here / "run.toml").write_text('data = "my_study"\nepoch = 9\n')
    result = call("fit", "--config", "run.toml")
    assert result.code == 2 and "fit has no setting 'epoch'; did you mean epochs?" in result.err
    (here / "run.toml").write_text('data = "my_study"\nmembers = 9\n')
    result = call("fit", "--config", "run.toml")
    assert result.code == 2 and "fit has no setting 'members'; there are data, out," in result.err
    assert "load. See" in result.err, "no option that a file cannot set"
    (here / "run.toml").write_text("data = ")
    result = call("fit", "--config", "run.toml")
    assert result.code == 2 and "is not TOML" in result.err and result.err.count("\n") == 1


def test_predict_writes_one_row_per_subject(call: Call, here: Path) -> None:
    result = call("predict", "model", "new_subjects", "--out", "out/predictions.csv")
    assert result.code == 0, result.err
    table = pd.read_csv("out/predictions.csv")
    assert list(table) == ["subject", "site", "trained_on", "predicted", "p_control", "p_patient"]
    new = load_cohort("new_subjects", label=None)
    np.testing.assert_allclose(
        table[["p_control", "p_patient"]], load_model("model").predict_proba(new), atol=1e-6
    )
    assert list(table["subject"]) == list(new.subjects) and not table["trained_on"].any()
    assert (here / "out" / "predictions.settings.toml").is_file()
    result = call("predict", "model", "my_study", "--json")
    told = json.loads(result.out)
    assert sum(row["trained_on"] for row in told["predictions"]) == 27
    fitted = tomllib.loads((here / "model" / "settings.toml").read_text())
    assert fitted["hold_out"] == 0.25 and 0 <= told["scores"]["accuracy"] <= 1


def test_explain_writes_edges_and_a_figure_per_subject_and_of_the_group(call: Call, here: Path) -> None:
    result = call("explain", "model", "new_subjects", "--out", "ex", "--edges", "7")
    assert result.code == 0, result.err
    table = pd.read_csv("ex/probabilities.csv")
    assert len(table) == 4 and np.allclose(table[["p_control", "p_patient"]].sum(axis=1), 1)
    explanations = load_model("model").explain(load_cohort("new_subjects", label=None))
    for i, subject in enumerate(table["subject"]):
        edges = pd.read_csv(f"ex/subjects/{subject}.csv")
        expected = explanations[i].top_edges(7)
        assert list(edges["source"]) == list(expected["source"]) and edges["source"][0].startswith("region ")
        np.testing.assert_allclose(edges["weight"], expected["weight"], atol=1e-6)
        assert (here / "ex" / "subjects" / f"{subject}.png").read_bytes().startswith(b"\x89PNG")
    group = pd.read_csv("ex/group_edges.csv")
    assert len(group) == 190 and (here / "ex" / "group.png").stat().st_size > 5000
    mean = explanations.mean(turn=False)
    np.testing.assert_allclose(group["weight"], mean.edge_weights[mean.ranking()], atol=1e-6)
    assert call("explain", "model", "new_subjects", "--out", "ex", "--by", "weight", "--no-figures").code == 0
    assert pd.read_csv("ex/group_edges.csv")["weight"].is_monotonic_decreasing
    assert pd.read_csv("ex/subjects/sub-0037.csv")["weight"].is_monotonic_decreasing
    assert (here / "ex" / "settings.toml").is_file()


def test_explained_edges_add_up_to_the_log_odds_of_the_class_asked_for(call: Call, here: Path) -> None:
    result = call("explain", "model", "new_subjects", "--out", "odds", "--target", "patient", "--no-figures")
    assert result.code == 0, result.err
    table = pd.read_csv("odds/probabilities.csv")
    assert (table["explained"] == "patient").all()
    for row in table.itertuples():
        edges = pd.read_csv(f"odds/subjects/{row.subject}.csv")
        columns = ["source", "target", "contribution", "role", "deviation", "direction", "weight"]
        assert edges.columns[:7].tolist() == columns
        assert edges["contribution"].abs().is_monotonic_decreasing
        odds = np.log(row.p_patient / row.p_control)
        assert row.base + edges["contribution"].sum() == pytest.approx(odds, abs=0.02)
    group = pd.read_csv("odds/group_edges.csv")
    names = {f"contribution_predicted_{name}" for name in table["predicted"].unique()}
    assert names <= set(group) and group.columns[:7].tolist() == columns
    assert "for class patient" in result.words and "training class control" in result.words
    refused = call("explain", "svm", "new_subjects", "--out", "odds", "--explainer", "degree", "--by",
                   "contribution", "--load", "short_series=keep")  # fmt: skip
    assert refused.code == 2 and "the explainer tells weights alone" in refused.words


def test_regions_of_one_name_keep_their_own_weights(call: Call, here: Path) -> None:
    cohort = load_cohort("my_study")
    names = ["insula" if i < 3 else f"region {i}" for i in range(cohort.n_rois)]
    cohort._with(roi_names=names, atlas=None).save("namesakes.npz")
    assert call("fit", "namesakes.npz", "--out", "namesake_model", *QUICK, "--json").code == 0
    words = "explain namesake_model namesakes.npz --out namesakes --no-figures --json"
    assert call(*words.split()).code == 0
    group = pd.read_csv("namesakes/group_edges.csv")
    model = load_model("namesake_model")
    explanations = model.explain(cohort._with(roi_names=names, atlas=None))
    assert set(map(str, explanations.predictions)) == {c[17:] for c in group if c.startswith("weight_pred")}
    for name in np.unique(explanations.predictions):
        weights = explanations[explanations.predictions == name].mean().weights
        expected = weights[group["source_node"], group["target_node"]]
        np.testing.assert_allclose(group[f"weight_predicted_{name}"], expected, atol=1e-6)


def test_tables_of_edges_show_correlations_where_a_model_sees_tangent_vectors(call: Call, here: Path) -> None:
    fit = ["fit", "my_study", "--connectivity", "tangent", "--out", "tangent_model", *QUICK, "--json"]
    assert call(*fit).code == 0
    assert (
        call("explain", "tangent_model", "my_study", "--out", "tangent", "--no-figures", "--json").code == 0
    )
    group = pd.read_csv("tangent/group_edges.csv").set_index(["source", "target"])["connectivity"]
    cohort = load_cohort("my_study", atlas=None)
    mean = np.mean([np.corrcoef(series.T) for series in cohort.series], axis=0)
    ends = [[int(name.split()[1]) for name in pair] for pair in group.index]
    np.testing.assert_allclose(group, [mean[a, b] for a, b in ends], atol=1e-4)
    assert group.abs().max() > 0.1
    one = pd.read_csv("tangent/subjects/sub-0001.csv").iloc[0]
    a, b = (int(one[end].split()[1]) for end in ("source", "target"))
    assert one["connectivity"] == pytest.approx(np.corrcoef(cohort.series[0].T)[a, b], abs=1e-4)
    assert (
        call("report", "tangent_model", "--no-audit", "--no-files", "--json", "--out", "tangent.html").code
        == 0
    )
    assert "correlations are shown beside it" in words_of(here / "tangent.html")


def test_scans_of_a_subject_are_not_counted_as_subjects(call: Call, here: Path) -> None:
    cohort = load_cohort("my_study")
    cohort._with(subjects=np.repeat([f"sub-{i}" for i in range(18)], 2)).save("scans.npz")
    keep = ["--load", "duplicates=keep"]
    result = call("predict", "model", "scans.npz", *keep)
    assert result.code == 0 and "36 scans of 18 subjects" in result.words
    told = json.loads(call("audit", "scans.npz", "--json").out)
    assert (told["subjects"], told["scans"]) == (18, 36)
    result = call(
        "report", "model", "scans.npz", *keep, "--no-audit", "--no-files", "--json", "--out", "scans.html"
    )
    told = json.loads(result.out)
    assert (told["subjects"], told["scans"]) == (18, 36)
    assert "36 scans of 18 subjects" in words_of(here / "scans.html")


def test_names_in_tables_are_no_formulas(call: Call, here: Path) -> None:
    cohort = load_cohort("my_study")
    cohort._with(subjects=["=1+1", "@sum", *cohort.subjects[2:]]).save("formulas.npz")
    assert call("predict", "model", "formulas.npz", "--out", "formulas.csv", "--json").code == 0
    assert pd.read_csv("formulas.csv")["subject"][:2].tolist() == ["'=1+1", "'@sum"]
    assert call("explain", "model", "formulas.npz", "--out", "formulas", "--no-figures", "--json").code == 0
    assert pd.read_csv("formulas/probabilities.csv")["subject"][0] == "'=1+1"


def test_a_linear_model_explains_itself_and_no_explainer_of_networks_explains_it(
    call: Call, here: Path
) -> None:
    words = ["explain", "svm", "new_subjects", "--out", "ex2", "--no-figures", "--load", "short_series=keep"]
    told = json.loads(call(*words, "--json").out)
    assert {"contribution", "role", "deviation"} <= told["group_edges"][0].keys()
    result = call(*words, "--explainer", "gnn-explainer")
    assert result.code == 2 and "explains networks, the model is none (linear-svm)" in result.err
    result = call(*words, "--explainer", "connectivity", "--json")
    assert result.code == 0 and json.loads(result.out)["subjects"] == 4
    assert not list((here / "ex2" / "subjects").glob("*.png"))


def test_graphs_are_read_predicted_and_explained_too(call: Call, here: Path) -> None:
    graphs = make_ba2motifs(20, random_state=0)
    adj = np.stack([graphs.edge_matrix(i) for i in range(20)])
    np.savez("motifs.npz", adj=adj, x=np.ones((20, 25, 1), np.float32), y=graphs.y)
    assert call("fit", "motifs.npz", "--out", "motif_model", "--epochs", "1", "--json").code == 0
    result = call("explain", "motif_model", "motifs.npz", "--out", "motif_ex", "--json", "--picture", "svg")
    assert result.code == 0, result.err
    assert json.loads(result.out)["group_edges"] is None
    assert (here / "motif_ex" / "subjects" / "graph-0003.svg").read_text().lstrip().startswith("<?xml")
    told = json.loads(result.out)
    assert all(row["trained_on"] for row in told["probabilities"]) and told["scores"] == {}
    result = call("fit", "motifs.npz", "--out", "x", "--fisher")
    assert result.code == 2 and "'--fisher'" in result.err and "the data are graphs" in result.err
    result = call("predict", "motif_model", "new_subjects")
    assert result.code == 2 and "trained on graphs, the data are a cohort" in result.err
    result = call("predict", "model", "motifs.npz")
    assert result.code == 2 and "trained on a cohort, the data are graphs" in result.err


def _spmotif_arrays(graphs: GraphSet) -> dict[str, np.ndarray]:
    """The arrays of the published Spurious-Motif files."""
    edges = [graphs.edges(i) for i in range(len(graphs))]
    truth = [graphs.edge_truth[i][tuple(pairs.T)] for i, pairs in enumerate(edges)]
    arrays = {"n_nodes": graphs.n_nodes, "n_edges": graphs.n_edges, "y": graphs.y, "split": graphs.groups}
    arrays |= {"x": np.concatenate([graph.x for graph in graphs]), "edges": np.concatenate(edges)}
    return arrays | {"edge_truth": np.concatenate(truth)}


def test_a_spurious_motif_file_is_recognised_and_its_split_kept(call: Call, here: Path) -> None:
    graphs = make_spurious_motifs(72, kind="published", random_state=0)
    np.savez("spmotif.npz", **_spmotif_arrays(graphs))
    for method in ("gin", "random-forest"):  # with and without epochs to choose
        quick = ["--epochs", "1"] if method == "gin" else []
        result = call("fit", "spmotif.npz", "--out", method, "--method", method, *quick, "--json")
        assert result.code == 0, result.err
        told = json.loads(result.out)
        assert told["held_out"] == 24 and 0 <= told["scores"]["accuracy"] <= 1
        found = json.loads(call("predict", method, "spmotif.npz", "--json").out)["predictions"]
        assert [row["trained_on"] for row in found] == (graphs.groups != "test").tolist()
    result = call("fit", "spmotif.npz", "--hold-out", "0.2")
    assert result.code == 2 and "has test graphs of its own; leave out --hold-out" in result.err
    words = ("evaluate", "spmotif.npz", "--methods", "gin", "--set", "epochs=1", "--out", "sp_results")
    result = call(*words, "--explainers", "gradient", "--json")
    assert result.code == 0 and "explanation_roc_auc_overall" in result.out
    result = call(*words, "--protocol", "kfold")
    assert result.code == 2 and "test graphs of their own" in result.err
    np.savez("few.npz", **_spmotif_arrays(graphs[:3]))
    result = call("explain", "gin", "few.npz", "--explainer", "gradient", "--out", "sp_ex", "--json")
    assert result.code == 0 and json.loads(result.out)["subjects"] == 3
    np.savez("bad.npz", **_spmotif_arrays(graphs) | {"edge_truth": [True]})
    result = call("fit", "bad.npz", "--out", "x")
    assert result.code == 2 and "'edge_truth' must hold numbers" in result.err
    np.savez("other.npz", y=graphs.y)
    result = call("fit", "other.npz", "--format", "spmotif", "--out", "x")
    assert result.code == 2 and "has no array 'n_nodes'" in result.err


def test_graphs_that_a_model_was_trained_on_are_not_scored(call: Call, here: Path) -> None:
    rng = np.random.default_rng(0)
    graphs = make_ba2motifs(60, random_state=0)
    adj = np.stack([graphs.edge_matrix(i) for i in range(60)])
    parts = {"chance.npz": slice(None), "seen.npz": slice(40), "unseen.npz": slice(40, None)}
    for file, part in parts.items():  # labels that no model can know of graphs it has not seen
        np.savez(
            file, adj=adj[part], x=np.ones((60, 25, 1))[part], y=rng.permutation(np.arange(60) % 2)[part]
        )
    assert call("fit", "seen.npz", "--out", "forest", "--method", "random-forest", "--json").code == 0
    told = json.loads(call("predict", "forest", "chance.npz", "--json").out)
    assert [row["trained_on"] for row in told["predictions"]] == [True] * 40 + [False] * 20
    assert told["scores"]["accuracy"] < 0.8, "that of the graphs not trained on alone"
    result = call("predict", "forest", "unseen.npz")
    assert "on labelled subjects the model was not trained on" in result.words
    result = call("predict", "forest", "seen.npz")
    assert "accuracy" not in result.words and "trained on all subjects that have labels" in result.words


def test_the_report_of_graphs_scores_those_not_trained_on(call: Call, here: Path) -> None:
    graphs = make_ba2motifs(20, random_state=0)
    adj = np.stack([graphs.edge_matrix(i) for i in range(20)])
    np.savez("report_motifs.npz", adj=adj, x=np.ones((20, 25, 1), np.float32), y=graphs.y)
    words = "evaluate report_motifs.npz --methods ci-gnn --set epochs=1 --out graph_results --json"
    assert call(*words.split()).code == 0
    for _ in range(2):  # the second time the model is there already
        assert call("report", "graph_results", "--out", "graphs.html", "--json").code == 0
        page = words_of(here / "graphs.html")
        assert "Scored on 2 graphs in 1 test set, each by a model that had not seen them." in page
        assert (
            'balanced accuracy <span class="quiet">of ci-gnn, random hold-outs, on 2 not trained on' in page
        )


def test_labels_of_another_name_are_read_wherever_they_are(call: Call, here: Path) -> None:
    cohort = make_cohort(24, 8, data="matrices", n_edges=4, effect=0.8, random_state=0)
    np.savez("own.npz", matrices=cohort.matrices, diag=cohort.y)
    np.savez("new.npz", matrices=cohort.matrices)
    words = "fit own.npz --label diag --out own_model --hold-out 0.5 --method lasso --json"
    assert call(*words.split()).code == 0
    told = json.loads(call("predict", "own_model", "own.npz", "--json").out)
    assert [row["label"] for row in told["predictions"]] == cohort.y.tolist() and told["scores"]
    assert "label" not in json.loads(call("predict", "own_model", "new.npz", "--json").out)["predictions"][0]
    words = (
        "evaluate own.npz --label diag --methods ci-gnn --set epochs=1 --set n_estimators=1 --out own_results"
    )
    assert call(*words.split()).code == 0
    result = call("report", "own_results", "--out", "own.html", "--json")
    assert result.code == 0, result.err
    assert "Scored on 2 subjects in 1 test set, each by a model" in words_of(here / "own.html")


# ------------------------------------------------------------------ evaluations


def test_evaluate_keeps_every_task_and_prints_the_summary(call: Call, here: Path) -> None:
    words = (
        "evaluate my_study --protocol kfold --folds 3 --methods linear-svm,gin --set gin.epochs=1 --out res"
    )
    result = call(*words.split())
    assert result.code == 0, result.err
    assert "linear-svm" in result.words and "±" in result.words and "accuracy" in result.words
    with Store("res") as store:
        first = store.tasks()
    assert len(first) == 6 and set(first["data"]) == {"my_study"}
    told = json.loads(call(*words.split(), "--json").out)
    with Store("res") as store:
        assert list(store.tasks()["finished"]) == list(first["finished"]), "nothing is done twice"
    assert [row["method"] for row in told["summary"]] == ["linear-svm", "gin"] and not told["failed"]
    assert len(told["comparison"]) == 1
    assert len(pd.read_csv("res/scores.csv")) == 6 * 8 and (here / "res" / "settings.toml").is_file()


def test_a_report_shows_the_evaluation_that_was_asked_for_last(call: Call, here: Path) -> None:
    words = "evaluate my_study --protocol kfold --folds 3 --methods linear-svm --out twice --set"
    for strength in (0.001, 10.0, 0.001):  # the third is there already
        assert call(*words.split(), f"C={strength}").code == 0
    shown = _evaluated(Path("twice")).scores
    assert shown is not None and set(shown["key"]) == set(pd.read_csv("twice/scores.csv")["key"])
    (table,) = method_tables(shown)
    assert table.runs == 3
    with Store("twice") as store:
        every = store.tasks()
    assert len(every) == 6
    (here / "twice" / "tasks.txt").unlink()
    with pytest.raises(ValueError, match=r"twice: method 'linear-svm'.*2 different settings.*evaluate again"):
        _evaluated(Path("twice"))


def test_failed_tasks_are_told_with_exit_code_one(call: Call, here: Path) -> None:
    words = "evaluate my_study --methods linear-svm --set C=-1 --out failed"
    result = call(*words.split())
    assert result.code == 1 and "1 tasks failed, first linear-svm" in result.err and "got -1" in result.err
    assert list(pd.read_csv("failed/summary.csv")) == ["data", "method", "failed"]


def test_explainers_that_explain_nothing_are_told(call: Call, here: Path) -> None:
    words = "evaluate my_study --methods gin --set epochs=1 --explainers built-in --out unexplained"
    result = call(*words.split())
    assert (
        result.code == 0
        and "built-in did not explain gin: TypeError: GNNClassifier has no explanation" in result.err
    )
    assert "explanations: mean" not in result.out


@pytest.fixture(scope="module")
def asd(place: Path) -> Path:
    """A study of ASD, first in sorted order, and TD at three sites, evaluated by leaving one out."""
    folder = place / "asd"
    shutil.copytree(place / "my_study", folder)
    table = pd.read_csv(folder / "participants.tsv", sep="\t", dtype=str)
    table["label"] = table["label"].map({"patient": "ASD", "control": "TD"})
    table["site"] = [f"site-{i % 3}" for i in range(len(table))]
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


METHODS = "--methods ci-gnn,linear-svm --set epochs=1 --set n_estimators=1"
LOSO = f"evaluate asd --protocol loso {METHODS} --out asd_results"


def test_every_score_of_an_evaluation_names_its_positive_class(call: Call, here: Path, asd: Path) -> None:
    usual = json.loads(call(*LOSO.split(), "--json").out)
    assert usual["positive"] == "TD" and {row["positive"] for row in usual["summary"]} == {"TD"}
    result = call(*LOSO.split(), "--positive", "ASD")
    assert result.code == 0 and "over tasks; positive: ASD" in result.words
    for file in ("summary.csv", "scores.csv"):
        assert set(pd.read_csv(here / "asd_results" / file)["positive"]) == {"ASD"}
    told = json.loads(call(*LOSO.split(), "--positive", "ASD", "--json").out)
    for new, old in zip(told["summary"], usual["summary"], strict=True):
        assert new["sensitivity mean"] == pytest.approx(old["specificity mean"])
    with Store("asd_results") as store:
        assert len(store.tasks()) == 6, "nothing was trained again"
    refused = call(*LOSO.split(), "--positive", "MDD")
    assert refused.code == 2 and "one of the classes, 'ASD' or 'TD', got 'MDD'" in refused.words


def test_the_report_of_a_run_shows_the_runs_own_figures(call: Call, here: Path, asd: Path) -> None:
    assert call(*LOSO.split(), "--positive", "ASD").code == 0
    words = "report asd_results --no-audit --no-files --json --out"
    told = json.loads(call(*words.split(), "asd.html").out)
    assert told["positive"] == "ASD" and told["missing"] == [] and told["subjects"] == 36
    page = words_of(here / "asd.html")
    assert "share of ASD that is recognised" in page and "positive class ASD" in page
    assert "Scored on 36 subjects in 3 test sets" in page
    assert "The explanations below come from another model" in page
    with Store("asd_results") as store:
        said = store.predictions().query("method == 'ci-gnn'")
    right = said["y_true"] == said["y_pred"]
    for site, some in right.groupby(said["site"]):
        row = rf'{site}</th><td class="number">{len(some)}</td>.{{0,300}}?>{some.mean():.2f} '
        assert re.search(row, page)
    scores = pd.read_csv("asd_results/scores.csv").set_index(["method", "metric"]).sort_index()["value"]
    mean = scores.loc[("ci-gnn", "balanced_accuracy")].mean()
    assert f"on 36 not trained on</span></dt><dd>{mean:.2f}" in page
    turned = json.loads(call(*words.split(), "turned.html", "--positive", "TD").out)
    assert turned["positive"] == "TD" and "share of TD that is recognised" in words_of(here / "turned.html")
    refused = call(*words.split(), "no.html", "--positive", "MDD")
    assert refused.code == 2 and "one of the classes, 'ASD' or 'TD', got 'MDD'" in refused.words


def test_a_report_counts_the_patients_the_model_was_scored_by(call: Call, here: Path) -> None:
    fit = ["fit", "my_study", "--out", "counted", "--hold-out", "0.25", *QUICK, "--positive", "control"]
    assert call(*fit).code == 0
    words = "report counted --no-audit --no-files --json --class-names control=healthy --out counted.html"
    assert json.loads(call(*words.split()).out)["positive"] == "control"
    assert "share of healthy that is recognised" in words_of(here / "counted.html")
    assert json.loads(call(*words.split(), "--positive", "patient").out)["positive"] == "patient"
    assert json.loads(call(*words.split(), "--positive", "healthy").out)["positive"] == "control"


def test_an_interrupted_evaluation_says_what_is_missing_and_its_report_too(
    call: Call, here: Path, asd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = LOSO.replace("asd_results", "half").replace("linear-svm", "gin").split()
    real, done = runner.run_stack, []

    def until_ctrl_c(stack: Stack, *rest: Any) -> Iterator[Outcome]:
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(stack)
        return real(stack, *rest)

    planned = Mock(wraps=runner.plan)
    monkeypatch.setattr(runner, "plan", planned)
    monkeypatch.setattr(runner, "run_stack", until_ctrl_c)
    result = call(*words)
    assert planned.call_count == 1, "what is planned is handed on"
    assert result.code == 130 and "4 of 6 tasks (4 new) are done and kept in half; missing: " in result.words
    assert "(loso site-" in result.words and not (here / "half" / "summary.csv").exists()
    result = call("report", "half", "--no-audit", "--no-files", "--out", "half.html")
    assert result.code == 0 and "unfinished, 2 tasks are missing; nothing is ranked" in result.words
    page = words_of(here / "half.html")
    assert "This evaluation is unfinished: 2 tasks have no scores." in page
    assert page.count("seed 0) not yet run") == 2 and "Unfinished and not ranked" in page
    assert "best balanced accuracy first" not in page and "Mean over 3 test sets" not in page
    monkeypatch.setattr(runner, "run_stack", real)
    assert json.loads(call(*words, "--json").out)["missing"] == []
    told = json.loads(call("report", "half", "--no-audit", "--no-files", "--out", "half.html", "--json").out)
    assert told["missing"] == [] and "best balanced accuracy first" in words_of(here / "half.html")


def test_tasks_of_an_older_folder_have_no_names_but_are_counted(call: Call, here: Path, asd: Path) -> None:
    words = "evaluate asd --methods linear-svm --out old"
    assert call(*words.split()).code == 0
    plan = here / "old" / "tasks.txt"
    (line,) = plan.read_text().splitlines()
    assert line.split("\t")[1:] == ["linear-svm", "asd", "holdout", "1", "0"]
    plan.write_text(line.split("\t")[0] + "\n" + "f" * 32 + "\n")
    found = _evaluated(Path("old"))
    assert len(found.scores) == 8 and [task.why for task in found.missing] == ["not yet run"]


def test_failed_tasks_leave_a_summary_that_is_not_final(
    call: Call, here: Path, asd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runner.run_stack

    def breaks(stack: Stack, *rest: Any) -> Iterator[Outcome]:
        (task,) = stack.tasks
        if task.method == "lasso" and task.split.name == "site-1":
            return iter([Outcome(task.key, error="ValueError: no luck")])
        return real(stack, *rest)

    monkeypatch.setattr(runner, "run_stack", breaks)
    result = call("evaluate", "asd", "--protocol", "loso", "--methods", "lasso,linear-svm", "--out", "broken")
    assert result.code == 1 and "unfinished, not to be ranked" in result.words
    assert "2 of 3" in result.words and "3 of 3" in result.words
    (missing,) = _evaluated(Path("broken")).missing
    assert str(missing) == "lasso (loso site-1, seed 0) failed: ValueError: no luck"


def test_audit_tells_findings_and_how_serious_they_are(call: Call, here: Path) -> None:
    result = call("audit", "my_study", "--json", "--out", "findings.csv")
    told = json.loads(result.out)
    assert result.code == 0 and told["subjects"] == 36
    assert {row["finding"] for row in told["findings"]} >= {"near-identical subjects", "site → label"}
    assert len(pd.read_csv("findings.csv")) == len(told["findings"])
    copied = load_cohort("my_study")
    copied = copied[[0, *range(len(copied))]]
    copied._with(subjects=["copy", *copied.subjects[1:]]).save("copied.npz")
    result = call("audit", "copied.npz", "--strict")
    assert result.code == 1 and "near-identical subjects" in result.words and "serious" in result.words


@pytest.mark.parametrize("kind", ["series", "matrices"])
def test_audit_reports_bad_subjects_and_goes_on(call: Call, here: Path, kind: str) -> None:
    study = here / f"bad_{kind}"
    (study / kind).mkdir(parents=True)
    cohort = make_cohort(36, 12, n_edges=3, data=kind, lengths=(50, 60), random_state=0)
    for i, one in enumerate(cohort):
        data = np.array(one.series if kind == "series" else one.matrix)
        if i == 3:
            data[:, 5] = data[5] = 0.0
        if i == 8:
            data[2, 4] = data[4, 2] = np.nan
        np.save(study / kind / f"{one.subject}.npy", data)
    table = {"participant_id": cohort.subjects, "label": np.where(cohort.y == 1, "patient", "control")}
    pd.DataFrame(table).to_csv(study / "participants.tsv", sep="\t", index=False)
    result = call("audit", str(study))
    assert result.code == 0 and "class balance" in result.words
    assert "ROIs without signal: 1 of 36 subjects" in result.words
    assert f"{cohort.subjects[3]} (ROI-006)" in result.words
    assert f"NaN or infinite values: 1 of 36 subjects have some: {cohort.subjects[8]}" in result.words
    refused = call("audit", str(study), "--load", "constant_rois=raise")
    assert refused.code == 2 and "drop_subject, drop_roi or zero" in refused.err  # keep is no remedy


def test_an_atlas_that_was_forgotten_is_suggested_and_taken_later(call: Call, here: Path) -> None:
    cohort = make_cohort(24, 116, n_edges=6, data="matrices", random_state=0)
    cohort._with(atlas=None, roi_names=None).save("unnamed.npz")
    words = "the 116 regions have no names; if they are AAL's, --atlas aal116 names them."
    result = call("fit", "unnamed.npz", "--out", "unnamed", "--method", "lasso")
    assert result.code == 0 and result.err.count(words) == 1
    assert words in call("audit", "unnamed.npz").err
    assert words not in call("audit", "unnamed.npz", "--atlas", "aal116").err
    told = call("explain", "unnamed", "unnamed.npz", "--out", "numbers", "--no-figures")
    assert told.code == 0 and told.err.count(words) == 1
    named = "explain unnamed unnamed.npz --out names --no-figures --atlas aal116"
    result = call(*named.split())
    assert result.code == 0 and words not in result.err
    edges = pd.read_csv("names/group_edges.csv")
    assert set(edges["source"]) <= set(aal116().names) and "source_system" in edges
    numbers = pd.read_csv("numbers/group_edges.csv")
    np.testing.assert_allclose(edges["contribution"], numbers["contribution"])
    assert words in call("report", "unnamed", "--out", "u1.html", "--no-audit", "--no-files").err
    assert (
        call("report", "unnamed", "--out", "u2.html", "--no-audit", "--no-files", "--atlas", "aal116").code
        == 0
    )
    assert "Precentral_L" in (here / "u2.html").read_text()
    assert call("predict", "unnamed", "unnamed.npz", "--atlas", "aal116").code == 0
    call("fit", "unnamed.npz", "--out", "named", "--method", "lasso", "--atlas", "aal116", "--json")
    others = pd.DataFrame({"name": [f"other {i}" for i in range(116)]})
    others.to_csv("others.csv", index=False)
    refused = call("explain", "named", "unnamed.npz", "--atlas", "others.csv")
    assert refused.code == 2 and "not those that were learnt from" in refused.err, "real names are kept"


def test_reproduce_lists_and_runs_tables_of_the_paper(call: Call, here: Path) -> None:
    told = json.loads(call("reproduce", "--json").out)
    assert "explanation-accuracy" in [row["name"] for row in told["names"]]
    result = call("reproduce", "data-statistics", "--out", "paper", "--json")
    told = json.loads(result.out)
    assert result.code == 0 and Path(told["markdown"]).is_file() and told["scale"] == "smoke"
    assert (here / "paper" / "data-statistics-smoke.settings.toml").is_file()
    result = call("reproduce", "explanation-acuracy")
    assert result.code == 2 and "did you mean 'explanation-accuracy'?" in result.err


def test_a_report_explains_a_network_or_else_another_method(call: Call, here: Path) -> None:
    done = call("evaluate", "my_study", "--methods", "linear-svm,lasso", "--out", "baselines")
    assert done.code == 0 and "to look at them: cignn report baselines" in done.words
    assert call("report", "baselines", "--out", "svm.html", "--no-audit", "--no-files").code == 0
    words = "evaluate my_study --methods linear-svm,gin --set epochs=1 --out network"
    assert "to look at them: cignn report network" in call(*words.split()).words
    assert call("report", "network", "--out", "network.html", "--no-audit", "--no-files").code == 0
    assert isinstance(load_model("network/model").classifier_, GNNClassifier)


def test_parameters_in_which_an_evaluation_and_a_model_differ_are_named() -> None:
    given = {"ci-gnn.n_estimators": 1, "lasso.C": 2.0, "dropout": 0.3}
    fitted = {"method": "ci-gnn", "resolved": {"n_estimators": 5, "dropout": 0.3}}
    assert other_settings({"model": given}, fitted, {}) == "n_estimators (1 instead of 5)"
    assert other_settings({}, fitted | {"epochs": 7}, {}) == "epochs (the default instead of 7)"
    assert other_settings({"model": {"epochs": 7}}, fitted | {"epochs": 7}, {}) == ""


def test_a_report_trains_again_after_an_evaluation_with_other_settings(call: Call, here: Path) -> None:
    for hidden in ("[4]", "[6]", "[6]"):
        words = f"evaluate my_study --methods gin --set epochs=1 --set hidden={hidden} --out anew"
        assert call(*words.split()).code == 0
        before = (here / "anew/model/model.safetensors").stat().st_mtime_ns if hidden == "[6]" else 0
        assert call("report", "anew", "--out", "anew.html", "--no-audit", "--no-files").code == 0
        assert load_model("anew/model").classifier_.get_params()["hidden"] == tuple(json.loads(hidden))
    assert (here / "anew/model/model.safetensors").stat().st_mtime_ns == before, "once"
    config = here / "anew" / "model" / "config.json"
    config.write_text("{}")
    refused = call("report", "anew", "--out", "anew.html", "--no-audit", "--no-files")
    assert refused.code == 2 and "or delete anew/model: the report then trains a new one" in refused.err
    shutil.rmtree(config.parent)
    file = here / "anew" / "settings.toml"
    file.write_text(file.read_text().replace("hidden", "old_name"))
    refused = call("report", "anew", "--out", "anew.html", "--no-audit", "--no-files")
    assert refused.code == 2 and "anew/settings.toml: none of gin has a parameter 'old_name'" in refused.err


def test_report_of_a_model_and_of_an_evaluation(call: Call, here: Path) -> None:
    names = "control=healthy,patient=ill"
    result = call("report", "model", "--out", "r1.html", "--json", "--class-names", names)
    assert result.code == 0, result.err
    assert json.loads(result.out)["subjects"] == 36, "the subjects of the run"
    page = (here / "r1.html").read_text()
    assert "healthy" in page and "class balance</strong>: healthy: 44%, ill: 56%" in page
    assert "Connectivity(kind=&#39;correlation&#39;)" in page or "Connectivity(kind='correlation')" in page
    assert "ConnectomeGraphs()" in page, "what was done to the series"
    words = (
        "evaluate my_study --methods ci-gnn,linear-svm --set epochs=1 --set n_estimators=1 --out for_report"
    )
    assert call(*words.split()).code == 0
    result = call("report", "for_report", "--out", "r2.html", "--no-audit", "--no-files", "--json")
    assert result.code == 0, result.err
    assert load_model("for_report/model").trained_on(load_cohort("my_study")).sum() == 36 - 7
    result = call("report", "model", "new_subjects", "--results", "for_report", "--out", "r3.html")
    assert result.code == 0 and str(here / "r3.html") in result.out
    result = call(
        "report",
        "model",
        "--out",
        "r5.html",
        "--load",
        "min_length=55",
        "--load",
        "short_series=drop_subject",
    )
    told = "left out (short_series): "
    assert result.code == 0 and told in result.err and told in (here / "r5.html").read_text()
    assert call("report", "svm", "--out", "r4.html").code == 0
    assert '"evidence":{"explained"' in (here / "r4.html").read_text(), "a linear model explains itself"
    refused = call("report", "svm", "--out", "r6.html", "--explainer", "gnn-explainer")
    assert refused.code == 2 and "fit one such as ci-gnn" in refused.err


# --------------------------------------------------------------------- bad input

BAD = {
    "no such study": ("fit nowhere", "nowhere does not exist"),
    "a misspelt option": ("fit my_study --denisty 0.1", "did you mean --density?"),
    "an option misspelt like several": ("fit my_study --otu model", "did you mean --out?"),
    "a misspelt method": ("fit my_study --method ci-gn", "did you mean 'ci-gnn'?"),
    "a misspelt parameter": ("fit my_study --set epoch=3", "did you mean 'epochs'?"),
    "a parameter without value": ("fit my_study --set epochs", "expected NAME=VALUE"),
    "a misspelt kind": ("fit my_study --connectivity tangnt", "did you mean tangent?"),
    "a misspelt reader option": ("fit my_study --load constant_roi=zero", "did you mean constant_rois?"),
    "a misspelt format": ("fit my_study --format cohrt", "did you mean cohort?"),
    "density out of range": ("fit my_study --density 3", "'--density'"),
    "nearly everyone held out": ("fit my_study --hold-out 0.9", "0.8"),
    "covariates without combat": ("fit my_study --covariates age", "add --combat"),
    "a covariate that the table lacks": (
        "fit my_study --deconfound age,iq",
        "the cohort has no covariate iq; it has age, sex, mean_fd, site; name others in --deconfound, or add",
    ),
    "whose effects are not taken out": ("fit my_study --deconfound-on controls", "says on whom --deconfound"),
    "no label": ("fit new_subjects", "has no column 'label'"),
    "a model in the way": ("fit my_study --out my_study", "not a model folder"),
    "no model": ("predict nowhere new_subjects", "no model folder at nowhere"),
    "not a model": ("predict my_study new_subjects", "my_study is not a model folder"),
    "not a CSV file": ("predict model new_subjects --out p.txt", "ends in .csv"),
    "a misspelt explainer": (
        "explain model new_subjects --explainer gnn-explain",
        "did you mean gnn-explainer?",
    ),
    "an unknown class": ("explain model new_subjects --target nobody", "there is no class 'nobody'"),
    "a strange ranking": ("explain model new_subjects --by size", "auto, contribution or weight"),
    "a strange picture": ("explain model new_subjects --picture gif", "png, pdf or svg"),
    "a misspelt protocol": ("evaluate my_study --protocol los", "did you mean 'loso'?"),
    "a parameter nobody has": ("evaluate my_study --methods lasso --set epochs=3", "none of lasso has"),
    "a method not evaluated": ("evaluate my_study --methods gin --set gat.epochs=3", "not evaluated"),
    "an audit of nothing": ("audit nowhere", "nowhere does not exist"),
    "a report of nothing": ("report my_study", "not a folder written by cignn fit or cignn evaluate"),
    "a label that is none": ("report model --class-names ill=sick", "label of control, patient"),
    "covariates": ("fit my_study --missing-covariates maybe", "must be one of raise, mean, got maybe"),
    "sites": ("fit my_study --unseen-sites maybe", "must be one of raise, pass, grand_mean, got maybe"),
    "no processes": ("evaluate my_study --jobs 0", "'--jobs' / '-j': must be a number of processes"),
    "too many folds": ("evaluate my_study --protocol kfold --folds 30", "lower --folds, "),
    "short series": ("fit my_study --load min_length=55", "pass --load short_series=drop_subject or keep."),
    "a site never seen": ("predict svm elsewhere", "fit with --unseen-sites pass to leave them"),
    "ages that are missing": (
        "fit ageless --combat",
        "fit with --missing-covariates mean, or leave age out of --covariates",
    ),
    "ages that every task needs": (
        "evaluate ageless --combat --methods linear-svm --out no_ages",
        "age is missing for sub-0001, sub-0002; fit with --missing-covariates mean, or leave age",
    ),
    "no arguments": ("fit", "Missing argument"),
}


OPTIONS = [
    (Option("constant_rois", ("drop_subject", "zero")), 'constant_rois="drop_subject" or "zero"',
     "--load constant_rois=drop_subject or zero"),
    (Option("transpose", (True,)), "transpose=True", "--load transpose=true"),
    (Option("n_rois"), "n_rois", "--load n_rois"),
    (Option("label"), "label", "--label"),
    (Option("label", (None,)), "label=None", None),
    (Option("unseen", ("pass",), step="ComBat"), 'unseen="pass"', "--unseen-sites pass"),
    (Option("missing", ("mean",), step="ComBat"), 'missing="mean"', "--missing-covariates mean"),
    (Option("missing", ("drop_subject",)), 'missing="drop_subject"', "--load missing=drop_subject"),
    (Option("covariates", ((),), step="ComBat"), "covariates=()", "--covariates none"),
    (Option("unseen", ("grand_mean",), step="Deconfound"), 'unseen="grand_mean"',
     "--unseen-sites grand_mean"),
    (Option("covariates", step="Deconfound"), "covariates", "--deconfound"),
    (Option("n_splits", step="kfold"), "n_splits", "--folds"),
    (Option("asymmetric", ("symmetrise",), step="check_cohort"),
     'check_cohort(cohort, asymmetric="symmetrise")', "--load asymmetric=symmetrise"),
    (Option("extract"), "extract", None),
]  # fmt: skip


@pytest.mark.parametrize(("option", "python", "flag"), OPTIONS, ids=lambda value: str(value)[:30])
def test_advice_is_given_in_options(option: Option, python: str, flag: str | None) -> None:
    error = DataError("a is wrong", options=[option], remedy="correct it")
    assert str(error) == f"a is wrong; pass {python}, or correct it."
    advice = "" if flag is None else f"pass {flag}, or "
    assert error.described(as_flag) == f"a is wrong; {advice}correct it."


def test_scans_that_are_nearly_the_same_are_noted_with_the_option(call: Call, here: Path) -> None:
    cohort = make_cohort(24, 30, n_edges=3, random_state=0)
    series = [cohort.series[i] for i in range(24)]
    series[7] = series[2] + np.random.default_rng(0).normal(size=series[2].shape) * 0.01
    Cohort(series, y=cohort.y).save("alike.npz")  # comes back unchecked unless a check is asked for
    result = call("audit", "alike.npz", "--load", "missing_labels=keep")
    assert "near-identical scans under two ids: sub-0003 ≈ sub-0008" in result.words
    assert "pass --load near_duplicates=warn, drop_subject, keep_first or keep." in result.words


def test_fisher_needs_correlations(call: Call, here: Path) -> None:
    result = call("fit", "my_study", "--fisher", "--connectivity", "tangent")
    assert result.code == 2 and "'--fisher': needs correlations; use --connectivity cor" in result.err


def test_missing_covariates_can_be_taken_as_the_mean(call: Call, here: Path) -> None:
    words = "fit ageless --combat --missing-covariates mean --method linear-svm --out filled"
    assert call(*words.split()).code == 0
    assert load_model("filled").named_steps["combat"].missing == "mean"


def test_nuisance_is_taken_out_in_fit_evaluate_and_report(call: Call, here: Path) -> None:
    words = "fit my_study --deconfound age,motion,site --deconfound-on controls --positive control"
    done = call(*words.split(), "--method", "linear-svm", "--out", "clean")
    assert done.code == 0, done.err
    step = load_model("clean").named_steps["deconfound"]
    assert list(step.covariates) == ["age", "motion", "site"]
    assert (step.fit_on, step.control, step.unseen) == ("controls", "patient", "raise")
    assert call("predict", "clean", "my_study", "--json").code == 0
    unseen = call("predict", "clean", "elsewhere", "--json")
    assert unseen.code == 2 and "that were not in the controls of the training cohort (far" in unseen.err
    (here / "clean.toml").write_text('deconfound = ["age", "sex", "site"]\nmethods = "gin"\n')
    words = "evaluate my_study --config clean.toml --protocol loso --out cleaned --set epochs=1 --json"
    done = call(*words.split())
    assert done.code == 0, done.err
    assert call("report", "cleaned", "--out", "clean.html", "--no-files", "--json").code == 0
    assert ", without age, sex, site" in (here / "clean.html").read_text(encoding="utf-8"), "nor in the audit"
    step = load_model("cleaned/model").named_steps["deconfound"]
    assert (step.unseen, step.fit_on, step.fit_on_) == ("grand_mean", "auto", "within_classes")


@pytest.mark.parametrize(("words", "told"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_told_in_one_line_with_code_two(call: Call, here: Path, words: str, told: str) -> None:
    result = call(*words.split(), "--json")
    assert result.code == 2 and told in result.err and not result.out
    assert result.err.count("\n") == 1 and "Traceback" not in result.err


def test_an_unforeseen_fault_is_a_failure_in_one_line(
    call: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the sky\nfell")

    monkeypatch.setattr("cignn.datasets.load_cohort", burst)
    result = call("audit", "my_study")
    assert result.code == 1 and result.err.count("\n") == 1
    assert result.err.startswith("failed RuntimeError: the sky (CIGNN_TRACEBACK=1 shows where")


# ----------------------------------------------------------------------- helpers


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("cignn ex", "explain"),
        ("cignn fit --conn", "--connectivity"),
        ("cignn fit my_study --method rb", "rbf-svm"),
        ("cignn evaluate my_study --methods gin,ra", "gin,random-forest"),
        ("cignn reproduce lo", "loso"),
    ],
)
def test_the_shell_completes(call: Call, monkeypatch: pytest.MonkeyPatch, typed: str, offered: str) -> None:
    monkeypatch.setenv("_CIGNN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert call().out.split() == [offered]


def test_regions_with_places_are_drawn_on_the_brain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(report, "draw_connectome", lambda ex, atlas, **how: drawn.append((atlas, how["top"])))
    names = aal116().names
    one = Explanation(np.array([[0, 1], [2, 5]]), np.array([0.2, 0.9]), 116, names)
    draw(one, None, None, "AAL by its names", 3, tmp_path / "a.png", "auto")
    draw(one, None, aal116(), "an atlas", 4, tmp_path / "b.png", "auto")
    assert drawn == [(None, 3), (aal116(), 4)]


def test_file_names_are_plain_and_differ() -> None:
    assert file_names(["sub-01", "../../etc", "a/b", "a b", "A_B", ""]) == [
        *("sub-01", "etc", "a_b", "a_b_2", "A_B_3", "subject")
    ]


def test_values_come_back_from_toml_as_they_went() -> None:
    values = {
        "a b": 'x"\\y\n',
        "t": True,
        "n": 3,
        "f": 0.1,
        "l": [1, 2],
        "word": "ünder",
        "[x]": {"k.d": 1.5},
    }
    assert tomllib.loads(to_toml(values)) == values
    assert [as_value(text) for text in ("3", "0.1", "true", "None", "[1, 2]", "gin", '"4"')] == [
        *(3, 0.1, True, None, [1, 2], "gin", "4")
    ]


def test_the_settings_file_of_the_docs_is_read(call: Call, here: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (here / "docs.toml").write_text(example)
    result = call("fit", "--config", "docs.toml", "--out", "from_docs", *QUICK, "--json")
    assert result.code == 0, result.err
    model = load_model("from_docs")
    assert model[0].fisher and "combat" in model.named_steps
    assert model.classifier_.settings_["keep"] == 0.15
    words = ["--config", "docs.toml", "--out", "eval_docs", "--set", "epochs=1", "--set", "n_estimators=1"]
    result = call("evaluate", *words, "--json")
    assert result.code == 0, result.err
    assert [row["method"] for row in json.loads(result.out)["summary"]] == ["ci-gnn", "rbf-svm"]


def write_paths(folder: Path, node_labels: list[int], n_classes: int, labels: bool = True) -> None:
    """A TU folder of paths of three nodes."""
    folder.mkdir()
    n = 3 * n_classes
    pairs = [(3 * g + k, 3 * g + k + 1) for g in range(n) for k in (1, 2)]
    files = {
        "A": [f"{a}, {b}" for pair in pairs for a, b in (pair, pair[::-1])],
        "graph_indicator": [1 + i // 3 for i in range(3 * n)],
        "node_labels": [node_labels[i % len(node_labels)] for i in range(3 * n)],
    }
    files |= {"graph_labels": [g % n_classes for g in range(n)]} if labels else {}
    for kind, lines in files.items():
        (folder / f"SET_{kind}.txt").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("n_classes", [2, 12])
def test_new_graphs_need_no_labels_and_not_all_node_labels(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_classes: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    write_paths(tmp_path / "old", [1, 2, 5], n_classes)
    write_paths(tmp_path / "new", [5], 4, labels=False)
    assert call("fit", "old", "--method", "random-forest", "--json").code == 0
    result = call("predict", "model", "new")
    assert result.code == 0, result.err
    rows = [line.split() for line in result.out.splitlines() if line.strip().startswith("graph-")]
    assert [row[0] for row in rows] == [f"graph-{i:04d}" for i in range(12)]
    assert all(len(row) == (5 if n_classes == 2 else 4) for row in rows), "one line each"
    assert max(map(len, result.out.splitlines())) <= 80
    told = json.loads(call("predict", "model", "new", "--json").out)["predictions"]
    assert len(told[0]) == 3 + n_classes, "all probabilities"
    result = call("fit", "new", "--out", "other")
    assert result.code == 2 and "--load missing_labels=keep" in result.err
