"""What the campaign of damaged inputs found behind the checksums, each as a case of its own."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from campaigns.fuzzing.containers import reseal
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy.io import savemat

from cignn import CIGNNClassifier, CohortClassifier, GraphSet, load_cohort, load_model
from cignn.cli.reading import planned
from cignn.cli.settings import parse_toml, read_settings
from cignn.connectome import ComBat, Connectivity
from cignn.datasets import load_rest_meta_mdd, make_cohort
from cignn.estimators import make_estimator
from cignn.estimators.checkpoint import ROW, Checkpoint, _checksum, _progress
from cignn.estimators.classifier import checked_probabilities
from cignn.estimators.persistence import WEIGHTS
from cignn.evaluation import Holdout, Split, Store, store_file
from cignn.evaluation.tasks import Outcome, Score, Task
from commands import write_study
from examples import tiny

EPOCHS = 4


@pytest.fixture(scope="module")
def few(graphs: GraphSet) -> GraphSet:
    return graphs[:20]


# --------------------------------------------------------------------------- checkpoints


@pytest.fixture(scope="module")
def unfinished(few: GraphSet, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The checkpoint of a training that goes on, of which one epoch is left."""
    kept: list[bytes] = []
    save = Checkpoint.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Checkpoint, "save", lambda self, *state: (save(self, *state), kept.append(self.path.read_bytes()))
        )
        tiny(epochs=EPOCHS, checkpoint=tmp_path_factory.mktemp("fit") / "fit.ckpt").fit(few)
    return kept[-2]


def rewritten(
    path: Path, change: Callable[[dict[str, Any], dict[str, str], dict[str, torch.Tensor]], Any]
) -> None:
    """Change the progress, the metadata or the tensors of a checkpoint, and make its checksum right."""
    with safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in list(file.keys())}
    before = metadata["progress"]
    progress = json.loads(before)
    change(progress, metadata, tensors)
    if metadata["progress"] == before:
        metadata["progress"] = json.dumps(progress)
    metadata["checksum"] = _checksum(metadata, tensors)
    save_file(tensors, path, metadata)


CHANGES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "history of numbers": lambda p, m, t: p.update(history=[0.5] * len(p["history"])),
    "history without losses": lambda p, m, t: p["history"][0].pop("validation_loss"),
    "history of words": lambda p, m, t: p["history"][0].update(validation_loss="low"),
    "history too short": lambda p, m, t: p.update(history=[]),
    "epoch a word": lambda p, m, t: p.update(epoch="1"),
    "steps below zero": lambda p, m, t: p.update(steps=-1),
    "score a word": lambda p, m, t: p.update(best_score=["a"]),
    "progress a list": lambda p, m, t: m.update(progress="[]"),
    "best weights of another network": lambda p, m, t: t.update({"best.x": torch.zeros(1)}),
    "moments of another shape": lambda p, m, t: t.update(
        {k: v[None] for k, v in t.items() if k.startswith("mean.")}
    ),
    "moments of nobody": lambda p, m, t: t.update({"square.nobody": torch.zeros(1)}),
    "moments incomplete": lambda p, m, t: t.pop(next(k for k in t if k.startswith("mean."))),
    "moments of one kind": lambda p, m, t: [t.pop(k) for k in list(t) if k.startswith("square.")],
    "more epochs than there are": lambda p, m, t: p.update(
        epoch=EPOCHS + 1, history=p["history"] + 2 * p["history"][-1:]
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_checkpoint_that_no_training_wrote_is_refused(
    tmp_path: Path, few: GraphSet, unfinished: bytes, change: Callable[[Any, Any, Any], Any]
) -> None:
    path = tmp_path / "fit.ckpt"
    path.write_bytes(unfinished)
    rewritten(path, change)
    with pytest.raises(
        ValueError, match=r"fit\.ckpt is not a readable checkpoint \(.*delete it to start anew"
    ):
        tiny(epochs=EPOCHS, checkpoint=path).fit(few)


def test_a_checkpoint_without_its_key_is_refused(tmp_path: Path, few: GraphSet, unfinished: bytes) -> None:
    path = tmp_path / "fit.ckpt"
    path.write_bytes(unfinished)
    rewritten(path, lambda progress, metadata, tensors: metadata.pop("key"))
    with pytest.raises(ValueError, match=r"fit\.ckpt belongs to a training with other settings"):
        tiny(epochs=EPOCHS, checkpoint=path).fit(few)


def test_a_checkpoint_at_no_possible_place_is_refused_before_the_training(few: GraphSet) -> None:
    with pytest.raises(ValueError, match=r"checkpoint cannot be 'xxx.* \(File name too long\)"):
        tiny(checkpoint="x" * 300).fit(few)


# -------------------------------------------------------------------------------- models


@pytest.fixture(scope="module")
def model(few: GraphSet) -> CIGNNClassifier:
    return tiny(epochs=1).fit(few)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(
    tmp_path: Path, model: CIGNNClassifier, value: float
) -> None:
    model.save(tmp_path / "model")
    file = tmp_path / "model" / WEIGHTS
    weights = load_file(file)
    weights["class_weight"][0] = value
    save_file(weights, file)
    reseal(tmp_path / "model")
    with pytest.raises(
        ValueError, match=r"model\.safetensors holds weights that are not finite \(class_weight\)"
    ):
        load_model(tmp_path / "model")


def test_probabilities_that_are_none_are_refused(
    tmp_path: Path, few: GraphSet, model: CIGNNClassifier
) -> None:
    """Finite weights may be so large that what comes of them is not."""
    model.save(tmp_path / "model")
    file = tmp_path / "model" / WEIGHTS
    weights = load_file(file)
    save_file({k: torch.full_like(v, 3e38) if v.is_floating_point() else v for k, v in weights.items()}, file)
    reseal(tmp_path / "model")
    with pytest.raises(ValueError, match=r"graph 0 .*no probabilities.*fit the model again"):
        load_model(tmp_path / "model").predict_proba(few)


def test_a_pipeline_with_numbers_that_are_none_is_refused_in_our_words(few: GraphSet) -> None:
    for name in ("linear-svm", "lasso"):
        shallow = make_estimator(name, random_state=0).fit(few)
        shallow.pipeline_[1].mean_ = shallow.pipeline_[1].mean_ * np.nan
        with pytest.raises(
            ValueError, match=r"the pipeline cannot classify these graphs \(.*fit the model again"
        ):
            shallow.predict_proba(few)


def test_a_pipeline_that_cannot_be_used_is_refused_when_it_is_read(tmp_path: Path, few: GraphSet) -> None:
    forest = make_estimator("random-forest", n_estimators=2, random_state=0).fit(few)
    forest.pipeline_[-1].estimators_[0].n_classes_ = np.array([2.5])
    forest.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"model is damaged: config and weights do not fit"):
        load_model(tmp_path / "model")


def test_a_tangent_space_that_cannot_be_computed_names_the_subjects() -> None:
    cohort = make_cohort(8, 4, n_edges=2, lengths=(40, 40), random_state=0)
    step = Connectivity("tangent").fit(cohort)
    step.measure_.whitening_ = step.measure_.whitening_ * np.inf
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"connectivity of sub-0001, .* cannot be computed \("),
    ):
        step.transform(cohort)


# ------------------------------------------------------------------------------- cohorts


def test_a_table_of_rest_meta_mdd_is_named(tmp_path: Path) -> None:
    names = ["S1-1-0001", "S1-2-0002"]
    for k, name in enumerate(names):
        savemat(
            tmp_path / f"ROISignals_{name}.mat", {"ROISignals": np.random.default_rng(k).normal(size=(40, 4))}
        )
    (tmp_path / "people.csv").write_text("ID,age\n" + "".join(f"{name},inf\n" for name in names))
    with pytest.raises(ValueError, match=r"people\.csv: age of S1-1-0001.* infinite"):
        load_rest_meta_mdd(tmp_path, participants=tmp_path / "people.csv", columns=slice(0, 4))


# -------------------------------------------------------------------------------- stores


def test_a_store_whose_checksums_are_hidden_is_refused(tmp_path: Path) -> None:
    """A view in their place, or no such table, would let any change pass."""
    for change in (
        "DROP TABLE checksums",
        "ALTER TABLE checksums RENAME TO sums; CREATE VIEW checksums AS SELECT * FROM sums",
    ):
        folder = tmp_path / str(len(change))
        Store(folder).close()
        db = sqlite3.connect(folder / "results.sqlite")
        db.executescript(change)
        db.close()
        with pytest.raises(ValueError, match=r"results\.sqlite .*its tables are not those of a store"):
            Store(folder)


def test_infinite_scores_are_neither_written_nor_believed(tmp_path: Path) -> None:
    split = Split("0", np.arange(2), np.arange(2, 4), np.arange(4, 6))
    task = Task("key", "method", "data", Holdout(), split, 0, None, {"method": ["m"]})
    with Store(tmp_path) as store:
        store.add(task, Outcome("key", [Score("", "accuracy", np.inf), Score("", "mcc", 0.5)], seconds=1.0))
        values = store.results().set_index("metric")["value"]
    assert np.isnan(values["accuracy"]) and values["mcc"] == 0.5
    with pytest.raises(store_file.DamagedError, match=r"scores\.value holds inf"):
        store_file.check_rows("scores", [("key", "", "accuracy", np.inf, None)])


def test_a_network_whose_settings_make_no_sense_is_refused_when_it_is_read(
    tmp_path: Path, fitted: CIGNNClassifier
) -> None:
    for name, value in {"dropout": {"x": 1}, "encoder_density": 1e308, "batch_size": "many"}.items():
        fitted.save(tmp_path / "model")
        path = tmp_path / "model" / "config.json"
        config = json.loads(path.read_text())
        config["settings"][name] = value
        path.write_text(json.dumps(config))
        reseal(tmp_path / "model")
        with pytest.raises(ValueError, match="is damaged: config and weights do not fit"):
            load_model(tmp_path / "model")


def test_infinite_covariates_name_the_table(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", make_cohort(8, 5, n_edges=2, lengths=(20, 20), random_state=0))
    table = (folder / "participants.tsv").read_text().splitlines()
    lines = [f"{line}\t{'iq' if i == 0 else 'inf'}" for i, line in enumerate(table)]
    (folder / "participants.tsv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"participants\.tsv: iq of .* is infinite"):
        load_cohort(folder)


def test_a_key_of_thousands_of_dots_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="nested more than 20 deep"):
        parse_toml("a" + ".a" * 10**6 + " = 1")


def test_a_history_holds_no_number_that_a_table_cannot() -> None:
    row = dict.fromkeys(ROW, 0.5) | {"stage": "classification", "epoch": 1}
    content = {"epoch": 1, "steps": 1, "adam_steps": 1, "best_epoch": 1, "best_score": [0.5, 0.5]}
    content["history"] = [row]
    assert _progress(json.dumps(content)) == content
    content["history"] = [row | {"loss": 10**400}]
    with pytest.raises(ValueError, match="history is not one of a training"):
        _progress(json.dumps(content))


def test_a_page_that_claims_any_memory_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def claims(*_: Any, **__: Any) -> Any:
        raise MemoryError

    with Store(tmp_path) as store:
        monkeypatch.setattr(store_file, "rows_of", claims)
        with pytest.raises(ValueError, match=r"results\.sqlite is damaged \(MemoryError\); 0 of 0 tasks"):
            store.tasks()


def test_pipes_in_the_place_of_files_are_not_waited_for(tmp_path: Path, fitted: CIGNNClassifier) -> None:
    os.mkfifo(tmp_path / "settings.toml")
    os.mkfifo(tmp_path / "tasks.txt")
    assert read_settings(tmp_path) == {} and planned(tmp_path) == []
    (tmp_path / "model").mkdir()
    os.mkfifo(tmp_path / "model" / "config.json")
    with pytest.raises(ValueError, match="exists and is not a model folder"):
        fitted.save(tmp_path / "model")


def test_a_checkpoint_that_can_be_no_name_is_told_before_the_training(few: GraphSet) -> None:
    with pytest.raises(ValueError, match="checkpoint must be a path or None"):
        tiny(checkpoint="a\0b").fit(few)


def test_probabilities_sum_to_one_or_are_none() -> None:
    good = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert checked_probabilities(good) is good
    for bad in ([0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], [np.inf, 0.0]):
        with pytest.raises(ValueError, match="graph 1 no probabilities"):
            checked_probabilities(np.array([[0.5, 0.5], bad]))


def test_covariates_that_a_saved_combat_has_no_columns_of_are_refused(tmp_path: Path) -> None:
    cohort = make_cohort(24, 6, n_edges=2, n_sites=2, lengths=(30, 30), random_state=0)
    model = CohortClassifier.make(make_estimator("lasso", random_state=0), combat=ComBat(("age",)))
    model.fit(cohort).save(tmp_path / "model")
    path = tmp_path / "model" / "preparation.json"
    path.write_text(path.read_text().replace('"name": "age"', '"name": "agx"'))
    reseal(tmp_path / "model")
    with pytest.raises(ValueError, match=r"preparation\.json is damaged \(its columns are not those"):
        load_model(tmp_path / "model")
