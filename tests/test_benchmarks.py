"""What must hold for the tables that benchmarks print."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import reversals, truths
from benchmarks.accuracy import chosen, read_settings
from benchmarks.cohorts import search, spread, summary, table

from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_cohort


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
