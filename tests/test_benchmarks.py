"""What must hold for the tables that benchmarks print."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import accuracy, connections, explanation_table, graph_sets, reversals, scores, truths
from benchmarks.accuracy import chosen, known_scores, read_settings, tables, trivial_masks
from benchmarks.cohorts import search, spread, summary, table

from cignn import GraphSet
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_ba2motifs, make_cohort, make_spurious_motifs
from cignn.estimators import CLASSIFIERS, make_estimator


def run(seed: int, accuracy: float, params: dict | None = None) -> dict:
    return {"data": "d", "effect": 0.3, "seed": seed, "params": params or {}, "accuracy": accuracy}


def test_the_spread_is_that_of_a_sample() -> None:
    assert spread(np.array([0.5, 0.6, 0.7])) == "0.600 ± 0.100" and spread(np.array([0.5])) == "0.500"


def test_settings_stand_apart_and_a_repeated_seed_counts_once() -> None:
    rows = [run(0, 0.1), run(0, 0.5), run(1, 0.7), run(0, 0.9, {"epochs": 3})]
    columns = table(rows)
    assert columns.shape[1] == 2
    default, other = (columns[key] for key in (("d", 0.3, ""), ("d", 0.3, "epochs=3")))
    assert default["accuracy"]["mean"] == pytest.approx(0.6) and default["accuracy"]["min"] == 0.5
    assert default["accuracy"]["std"] == pytest.approx(np.std([0.5, 0.7], ddof=1), abs=1e-3)
    assert default["seeds", ""] == 2 and other["accuracy"]["mean"] == 0.9


def test_a_fold_is_scored_and_seeds_are_spread() -> None:
    label = {"protocol": "kfold", "connectivity": "correlation", "combat": False, "method": "lasso"}
    wrong = {0: [0.1, 0.9, 0.9, 0.1], 1: [0.1, 0.9, 0.1, 0.9], 2: [0.1, 0.9, 0.1, 0.9]}
    rows = [
        label | {"settings": "", "seed": seed, "fold": "0", "seconds": 1.0, "y": [0, 1, 0, 1], "p": p}
        for seed, p in wrong.items()
    ]
    (line,) = summary(rows).to_dict("records")
    assert line["accuracy"] == f"{5 / 6:.3f} ± {np.std([0.5, 1, 1], ddof=1):.3f}" and line["seeds"] == 3


def test_settings_are_chosen_by_validation_scores_alone() -> None:
    def one(seed: int, validation: float, loss: float, accuracy: float) -> dict:
        scores = {"validation_accuracy": validation, "validation_loss": loss, "accuracy": accuracy}
        return {"data": "d", "preset": "default", "params": {"dropout": loss}, "seed": seed} | scores

    rows = [one(0, 0.8, 0.5, 0.1), one(0, 0.8, 0.4, 0.2), one(0, 0.7, 0.1, 1.0), one(1, 0.6, 0.9, 0.3)]
    assert [row["accuracy"] for row in chosen(rows)] == [0.2, 0.3]
    assert {row["preset"] for row in chosen(rows)} == {"chosen"}
    unknown = {k: v for k, v in rows[2].items() if not k.startswith("validation")}
    assert chosen([unknown]) == []


def test_a_search_takes_the_setting_that_is_best_on_inner_folds() -> None:
    cohort = make_cohort(60, n_rois=12, effect=1.0, data="matrices", random_state=0)
    graphs = ConnectomeGraphs().fit_transform(cohort)
    params = {"epochs": 8, "encoder_hidden": [4], "n_causal": 4}
    grid = {"learning_rate": [1e-9, 1e-2]}  # with the first nothing is learnt
    assert search(graphs, 0, params, grid) == {"learning_rate": 1e-2}


@pytest.mark.parametrize("pair", ["dropout", "mask=soft", "=", "keep=0.1,0.2"])
def test_a_setting_that_cannot_be_read_is_named(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    assert read_settings(['mask="soft"', "head_hidden=[4]"], "--set", parser) == {
        "mask": "soft",
        "head_hidden": [4],
    }
    with pytest.raises(SystemExit):
        read_settings([pair], "--set", parser)
    assert repr(pair) in capsys.readouterr().err


def test_truths_are_scored_once_and_shuffled_labels_find_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(truths, "SIMULATED", {"n_subjects": 80, "n_rois": 20, "data": "matrices"})
    monkeypatch.setattr(truths, "N_EDGES", {"simulated": 8})
    out = tmp_path / "truths.jsonl"
    call = ["truths", "--kinds", "subtypes,site", "--methods", "t", "coefficients", "bound", "--seeds", "0"]
    monkeypatch.setattr(sys, "argv", [*call, "--out", str(out)])
    truths.main()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 3 * 2 * 3, "methods, shuffled or not; a kind, and sites as they are and taken out"
    of = {(row["kind"], row["method"], row["shuffled"]): row for row in rows}
    assert of["subtypes", "t", False]["group ROC-AUC"] > 0.9 > of["subtypes", "t", True]["group ROC-AUC"]
    assert of["subtypes", "bound", False]["own against other"] > 0.7
    taken_out, raw = (of[kind, "t", False]["above site"] for kind in ("site, taken out", "site"))
    assert taken_out > raw
    truths.main()
    assert len(out.read_text().splitlines()) == len(rows), "finished runs are not repeated"
    assert "coefficients" in capsys.readouterr().out


def test_reversals_are_told_for_every_ranking_and_share() -> None:
    cohort = make_cohort(40, 10, n_edges=3, effect=0.5, data="matrices", random_state=0)
    graphs = ConnectomeGraphs().fit_transform(cohort)
    rows = reversals.of_fold("lasso", graphs[:30], graphs[30:], 0, [0.1, 1.0])
    table = reversals.summary(rows)
    assert set(table["share"]) == {0.1, 1.0}
    own = table[table["ranking"] == "contribution"]
    assert (own["contributions reverse"].dropna() == 1).all()
    everything = table[table["share"] == 1]
    assert everything["reversed"].nunique() == 1  # all connections are gone, whatever ranked them


# -------------------------------------------------------------------- graph sets


def test_folds_test_every_graph_once_and_share_no_graph() -> None:
    graphs = make_ba2motifs(60, random_state=0)
    folds = [graph_sets.fold(graphs, 3, 5, number) for number in range(5)]
    assert sorted(np.concatenate([one.test for one in folds])) == list(range(60))
    for one in folds:
        assert sorted(np.concatenate(one)) == list(range(60))
        assert len(one.validation) == 5, "a tenth of what is not tested"
        assert np.bincount(graphs.y[one.test]).tolist() == [6, 6]
    assert (graph_sets.fold(graphs, 3, 5, 1).validation == folds[1].validation).all()
    given = make_spurious_motifs(90, kind="published", random_state=0)
    with pytest.raises(ValueError, match="brings a split of its own"):
        graph_sets.fold(given, 0, 5, 0)


def test_a_given_split_is_kept() -> None:
    with_val = make_spurious_motifs(90, kind="published", random_state=0)
    for seed in (0, 1):
        for name, part in zip(("train", "val", "test"), graph_sets.split(with_val, seed), strict=True):
            assert (np.sort(part) == np.flatnonzero(with_val.groups == name)).all()
    without = make_spurious_motifs(90, random_state=0)
    parts = graph_sets.split(without, 0)
    assert (np.sort(parts.test) == np.flatnonzero(without.groups == "test")).all()
    assert set(without.groups[parts.validation]) == {"train"} and len(np.unique(np.concatenate(parts))) == 90


def test_true_edges_are_scored_in_the_graphs_of_one_class_that_have_some() -> None:
    truth = np.zeros((4, 3, 3), bool)
    truth[1:, 0, 1] = truth[1:, 1, 0] = True
    graphs = GraphSet.from_arrays(np.ones((4, 3, 3)) - np.eye(3), y=[1, 1, 0, 1], edge_truth=truth)
    assert graph_sets.scored(graphs, "any").tolist() == [False, True, True, True]
    assert graph_sets.scored(graphs, "MUTAG").tolist() == [False, True, False, True]
    assert graph_sets.scored(graphs, "any", "0").tolist() == [False, False, True, False]
    assert not graph_sets.scored(GraphSet.from_arrays(np.ones((2, 3, 3)), y=[0, 1]), "MUTAG").any()


def as_molecules(kinds: list[tuple[str, list[tuple[int, int]]]], each: int) -> GraphSet:
    """Molecules of some kinds, atoms and bonds, in turn; node labels are those of NCI1, X another one."""
    edges, labels = [], []
    for i in range(each * len(kinds)):
        symbols, bonds = kinds[i % len(kinds)]
        edges += [(a + len(labels), b + len(labels)) for a, b in bonds]
        labels += [(i, "ONCX".index(symbol)) for symbol in symbols]
    graph, label = np.array(labels).T
    names = [f"label {number}" for number in (1, 2, 3, 4)]
    return GraphSet.from_edges(np.array(edges), graph, np.eye(4)[label], feature_names=names)


NITRO, ALCOHOL = ("CNOO", [(0, 1), (1, 2), (1, 3)]), ("CCO", [(0, 1), (1, 2)])


RING = [(i, (i + 1) % 6) for i in range(6)]


@pytest.mark.parametrize(
    ("molecule", "hydrogens", "n_true"),
    [
        (ALCOHOL, [3, 2, 1], 0),
        (NITRO, [3, 0, 0, 0], 2),
        (("CCCCCCN", [*RING, (0, 6)]), [0, 1, 1, 1, 1, 1, 2], 2),  # aniline: its N-H bonds
        (("CCN", [(0, 1), (1, 2)]), [3, 0, 0], 0),  # a nitrile, not an amine
        (("CCOO", [(0, 1), (1, 2), (1, 3)]), [3, 0, 0, 0], 0),  # an acid: which oxygen has it is not known
        (("CCX", [(0, 1), (1, 2)]), [3, 2, 0], 0),
    ],
)
def test_molecules_get_the_hydrogens_that_their_bonds_leave(
    molecule: tuple[str, list[tuple[int, int]]], hydrogens: list[int], n_true: int
) -> None:
    heavy = as_molecules([molecule], 2).with_y([1, 0])
    found = graph_sets.with_hydrogens(heavy)
    n = len(hydrogens)
    assert found.edge_truth is not None and found.feature_names[-1] == f"label {graph_sets.HYDROGEN}"
    for i in range(2):
        x, bonds = found[i].x, found[i].weights != 0
        added = x[:, -1] > 0
        np.testing.assert_array_equal(x[~added][:, :-1], heavy[i].x)
        assert bonds[:n, :n].sum() == 2 * len(molecule[1]) and (bonds[added].sum(1) == 1).all()
        assert bonds[:n, added].sum(1).tolist() == hydrogens
        assert found.edge_truth[i].sum() == (2 * n_true if i == 0 else 0), "only of mutagens"


def test_molecules_with_a_known_cause_beside_unknown_ones() -> None:
    molecules = as_molecules([NITRO, ALCOHOL], 400)
    own = np.arange(800) % 4 < 2  # the class of the file: half of each kind
    found = graph_sets.molecules_with_mixed_causes(molecules.with_y(own.astype(int)))
    y = np.asarray(found.y).reshape(-1, 2)
    assert abs(y[:, 0].mean() - 0.9) < 0.06 and (y[:, 1] == own.reshape(-1, 2)[:, 1]).all()
    assert found.edge_truth is not None
    assert [bool(truth.any()) for truth in found.edge_truth] == [bool(one) for one in (y * [1, 0]).ravel()]


def test_molecules_are_labelled_by_any_of_their_alerts() -> None:
    bound, halide = ("CNN", [(0, 1), (1, 2)]), ("CX", [(0, 1)])
    inside = ("CXC", [(0, 1), (1, 2)])  # an atom of two bonds is no alert
    found = graph_sets.molecules_with_alerts(as_molecules([NITRO, bound, halide, ALCOHOL, inside], 200), 1000)
    assert len(found) == 1000 and found.edge_truth is not None
    y = np.asarray(found.y).reshape(-1, 5)
    np.testing.assert_allclose(y.mean(0), [0.9, 0.85, 0.85, 0.2, 0.2], atol=0.1)
    has = np.array([bool(truth.any()) for truth in found.edge_truth]).reshape(-1, 5)
    assert (has[:, 0] == (y[:, 0] == 1)).all() and not has[:, 1:].any(), "the groups alone, in class 1"


def test_molecules_are_labelled_by_their_groups_but_for_some() -> None:
    molecules = as_molecules([NITRO, ALCOHOL], 100)
    for flipped, wrong in ((0.0, (0, 0)), (0.2, (20, 60))):
        found = graph_sets.molecules_with_groups(molecules, flipped, n_graphs=80)
        assert len(found) == 160 and found.edge_truth is not None
        has = np.array([bool(truth.any()) for truth in found.edge_truth])
        assert has.sum() == 80 and wrong[0] <= (has != found.y).sum() <= wrong[1]


@pytest.mark.parametrize(
    ("make", "degrees"),
    [
        (graph_sets.houses_and_grids, [[2, 2, 2, 3, 3], [2, 2, 2, 2, 3, 3, 3, 3, 4]]),
        (graph_sets.cycles_with_chords, [[2] * 6, [2, 2, 2, 2, 3, 3], [2, 2, 2, 2, 3, 3]]),
    ],
)
def test_a_motif_of_the_class_hangs_on_a_tree_by_one_edge(
    make: Callable[..., GraphSet], degrees: list[list[int]]
) -> None:
    graphs = make(24, seed=0)
    assert np.bincount(graphs.y).tolist() == [24 // len(degrees)] * len(degrees)
    assert graphs.edge_truth is not None
    with_triangle = set()
    for number, label in enumerate(np.asarray(graphs.y)):
        edges = graphs.edges(number)
        motif = (edges >= 20).all(1)
        assert graphs.n_nodes[number] == 20 + len(degrees[label])
        assert (graphs.edge_truth[number][tuple(edges.T)] == motif).all()
        assert (edges < 20).all(1).sum() == 19 and ((edges < 20).sum(1) == 1).sum() == 1
        assert sorted(np.bincount(edges[motif].ravel() - 20)) == degrees[label]
        inside = graphs[number].weights[20:, 20:]
        if np.trace(inside @ inside @ inside):
            with_triangle.add(int(label))
    assert with_triangle == ({0} if len(degrees) == 2 else {2})


def test_trivial_masks_are_trivial() -> None:
    graphs = make_ba2motifs(20, random_state=0)
    model = make_estimator("gin", epochs=1, hidden=(4,), random_state=0).fit(graphs)
    scores = {name: known_scores(mask) for name, mask in trivial_masks(model, graphs, 0).items()}
    assert scores["constant"]["roc_auc"] == scores["constant"]["roc_auc_overall"] == 0.5
    assert scores["constant"]["gap"] == 0
    assert scores["degree"]["roc_auc"] + scores["1/degree"]["roc_auc"] == pytest.approx(1, abs=1e-6)
    assert 0.3 < scores["random"]["roc_auc"] < 0.7


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(graph_sets.SETS, "tiny", lambda: make_ba2motifs(40, random_state=0))
    monkeypatch.setitem(
        graph_sets.SETS, "given", lambda: make_spurious_motifs(72, kind="published", random_state=0)
    )


@pytest.mark.medium
@pytest.mark.usefixtures("tiny")
def test_graph_sets_are_scored_by_folds_and_given_splits_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "graphs.jsonl"
    common = ["--seeds", "0", "--set", "epochs=1", "--device", "cpu", "--out", str(out)]

    def call(*words: str) -> list[dict]:
        monkeypatch.setattr(sys, "argv", ["accuracy", *words, *common])
        accuracy.main()
        return [json.loads(line) for line in out.read_text().splitlines()]

    rows = call("tiny", "--method", "ci-gnn", "gin", "--folds", "4", "--fold", "0", "2")
    assert [(row["method"], row["fold"]) for row in rows] == [
        *[("ci-gnn", 0), ("ci-gnn", 2), ("gin", 0), ("gin", 2)]
    ]
    assert len(call("tiny", "--method", "ci-gnn", "gin", "--folds", "4", "--fold", "0", "2")) == 4
    random_masks = {(row["method"], row["fold"]): row["masks"]["random"]["roc_auc"] for row in rows}
    assert random_masks["ci-gnn", 0] == random_masks["gin", 0] != random_masks["gin", 2], "the same graphs"
    rows = call("given", "--method", "dir", "gin", "--stack", "--max-test", "9")[4:]
    assert [row["n_scored"] for row in rows] == [9, 9]
    wanted = {"accuracy", "validation_accuracy", "roc_auc", "roc_auc_overall", "gap", "precision_at_k"}
    wanted |= {"acc_auc", "acc@0.3", "superset_worst", "self_difference", "seconds", "best_epoch"}
    assert all(wanted <= set(row) for row in rows)
    assert all(set(row["masks"]) == {"constant", "degree", "1/degree", "random"} for row in rows)
    told = capsys.readouterr().out
    assert "### tiny: trivial masks" in told and "| gin epochs=1, 4 folds | 2 |" in told and "(se 0." in told


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["nothing"], "got nothing"),
        (["tiny", "--folds", "1"], "--folds takes at least 2"),
        (["tiny", "--folds", "3", "--fold", "3"], "got 3 with --folds 3"),
        (["tiny", "--fold", "0"], "got 0 with --folds 0"),
        (["given", "--folds", "3"], "brings a split of its own"),
        (["tiny", "--set", "epoch=3"], "no parameter 'epoch'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_training(
    words: list[str],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["accuracy", *words, "--out", str(tmp_path / "x.jsonl")])
    with pytest.raises(SystemExit):
        accuracy.main()
    assert what in capsys.readouterr().err.splitlines()[-1]


def test_tables_tell_the_worst_run_the_standard_error_and_published_figures() -> None:
    def one(fold: int, value: float, folds: int = 4, **more: object) -> dict:
        row = {"data": "Spurious-Motif-0.9", "method": "gin", "preset": "", "params": {}, "seed": 0}
        return row | {"folds": folds, "fold": fold, "accuracy": value, "roc_auc": value} | more

    rows = [one(fold, value) for fold, value in enumerate([0.5, 0.7, 0.9, 0.7])]
    found = tables([*rows, rows[0], one(0, 0.6, 0, method="sib", best_epoch=[3, 4])])
    gin, sib = (line for line in found.splitlines() if line.startswith(("| gin", "| sib")))
    std = np.std([0.5, 0.7, 0.9, 0.7], ddof=1)
    assert f"| 4 | 0.700 ± {std:.3f} (se {std / 2:.3f}) | 0.500 |" in gin, "a repeated run counts once"
    assert "0.600 ± 0.000 | 0.600" in sib and "3.5" in sib and "se" not in sib
    assert "| GSAT (PNA), published |" in found and "0.89" in found


def test_single_values_are_a_line_a_run_and_the_last_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"data": "d", "method": "gin", "preset": "", "seed": seed, "folds": 0, "fold": 0, "params": params}
        | {"accuracy": accuracy, "best_epoch": [1, 2]}
        for seed, accuracy, params in [(0, 0.5, {}), (0, 0.6, {}), (1, 0.7, {}), (0, 0.8, {"dropout": 0.1})]
    ]
    older = {"data": "d", "preset": "", "seed": 5, "params": {}, "accuracy": 0.9}
    rows.append(older)
    out, csv = tmp_path / "runs.jsonl", tmp_path / "runs.csv"
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(sys, "argv", ["accuracy", "--out", str(out), "--csv", str(csv)])
    accuracy.main()
    found = pd.read_csv(csv)
    assert found["accuracy"].tolist() == [0.6, 0.7, 0.8, 0.9] and found["seed"].tolist() == [0, 1, 0, 5]
    assert found["params"].tolist() == ["{}", "{}", '{"dropout": 0.1}', "{}"]
    assert found["method"].tolist() == [*["gin"] * 3, "ci-gnn"] and found["folds"].eq(0).all()
    assert not {"best_epoch", "roc_auc"} & set(found)


@pytest.mark.medium
def test_every_set_of_the_explanation_table_has_a_quick_look_without_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph_sets, "DATA", Path("nowhere"))
    for name, load in explanation_table.DATA.items():
        graphs = load(True, 0)
        assert len(graphs) <= 90 and graphs.edge_truth is not None, name
    rows = explanation_table.run("Spurious-Motif-0.9", "gin", 0, True, "cpu", ["gradient", "degree"], [1])
    assert [row["explainer"] for row in rows] == [None, "gradient", "degree"]
    assert all(0 <= row["roc_auc_overall"] <= 1 for row in rows[1:])


def test_the_explanation_table_runs_classifiers_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(data: str, classifier: str, *_: object) -> list[dict]:
        asked.append(classifier)
        key = {"data": data, "classifier": classifier, "seed": 0, "quick": True, "explainer": None}
        return [key | dict.fromkeys(explanation_table.CLASSIFICATION, 1.0)]

    monkeypatch.setattr(explanation_table, "run", run)
    monkeypatch.setattr(
        sys, "argv", ["table", "--quick", "--data", "cohort", "--out", str(tmp_path / "rows")]
    )
    explanation_table.main()
    assert asked == list(CLASSIFIERS), "a regressor cannot be trained on classes"


def test_connections_come_back_from_their_file_and_finished_scores_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    rng = np.random.default_rng(0)
    covariates = {"age": rng.uniform(8, 40, 40), "sex": ["F", "M"] * 20, "mean_fd": rng.random(40)}
    made = make_cohort(40, n_rois=8, n_edges=2, data="matrices", random_state=0)._with(covariates=covariates)
    monkeypatch.setattr(connections, "abide", lambda kind: made)
    file, out = tmp_path / "connections.npz", tmp_path / "scores.jsonl"
    connections.write_connections(file)
    read = connections.read_connections(file)
    assert np.allclose(read.matrices, made.matrices * (1 - np.eye(8)), atol=1e-3)
    assert read.subjects.tolist() == made.subjects.tolist() and read.sites.tolist() == made.sites.tolist()
    assert np.allclose(read.covariates["age"], made.covariates["age"]) and read.y.tolist() == made.y.tolist()

    command = ["scores", "age", "age-shuffled", "--folds", "0", "1", "--connections", str(file)]
    monkeypatch.setattr(sys, "argv", [*command, "--methods", "mean", "site's mean", "--out", str(out)])
    scores.main()
    first = out.read_text().splitlines()
    scores.main()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert out.read_text().splitlines() == first and len(rows) == 2 * 2 * 2
    assert {row["kind"] for row in rows} == {"age", "age-shuffled"}
    means = [row for row in rows if row["method"] == "mean"]
    assert all(row["r"] is None and len(set(row["predicted"])) == 1 for row in means)
    assert "standard deviations over folds" in capsys.readouterr().out
