"""What must hold for models on disk, interrupted trainings and checkpoints."""

from __future__ import annotations

import errno
import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from campaigns.fuzzing.containers import reseal
from safetensors.torch import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import examples
from cignn import CIGNNClassifier, GraphSet, _files, load_model
from cignn.cli.app import FailedWorkError
from cignn.cli.fit import save_or_keep
from cignn.estimators import checkpoint as checkpoint_module
from cignn.estimators import persistence
from conftest import Stop

pytestmark = pytest.mark.medium

PAPER = {"preset": "paper", "generative_epochs": 3}


def tiny(**more: Any) -> CIGNNClassifier:
    return examples.tiny(**({"epochs": 6} | more))


def assert_same_model(one: CIGNNClassifier, other: CIGNNClassifier, graphs: GraphSet) -> None:
    """To the last bit, but for the time it took."""
    mine, theirs = (model.history_.drop(columns="seconds") for model in (one, other))
    pd.testing.assert_frame_equal(mine, theirs, check_exact=True)
    assert one.best_epoch_ == other.best_epoch_
    np.testing.assert_array_equal(one.predict_proba(graphs), other.predict_proba(graphs))
    for a, b in zip(one.explain(graphs).edge_weights, other.explain(graphs).edge_weights, strict=True):
        np.testing.assert_array_equal(a, b)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ------------------------------------------------------------- saving, loading


def test_notes_that_no_reader_would_accept_are_refused(tmp_path: Path, fitted: CIGNNClassifier) -> None:
    with pytest.raises(ValueError, match=r"kept as settings\.toml or MODEL_CARD\.md only, got 'study'"):
        fitted.save(tmp_path / "model", notes={"study": "mine"})
    assert not (tmp_path / "model").exists()


def test_a_loaded_model_is_the_saved_one(tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier) -> None:
    fitted.save(tmp_path / "deep" / "model")
    loaded = load_model(str(tmp_path / "deep" / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(graphs), fitted.predict_proba(graphs))
    for a, b in zip(loaded.explain(graphs), fitted.explain(graphs), strict=True):
        np.testing.assert_array_equal(a.weights, b.weights)
        assert a.prediction == b.prediction
    params = {k: v for k, v in fitted.get_params().items() if k not in ("random_state", "checkpoint")}
    assert {name: loaded.get_params()[name] for name in params} == params
    for name in (
        "settings_",
        "best_epoch_",
        "interrupted_",
        "n_features_in_",
        "node_names_",
        "training_digest_",
    ):
        assert getattr(loaded, name) == getattr(fitted, name), name
    pd.testing.assert_frame_equal(loaded.history_, fitted.history_, rtol=1e-9)


def test_a_model_of_two_stages_keeps_its_gaps_in_the_history(tmp_path: Path, graphs: GraphSet) -> None:
    model = tiny(**PAPER).fit(graphs)
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(load_model(tmp_path / "model").history_, model.history_, rtol=1e-9)


LABELS = {
    "ints": np.array([-1, 1]),
    "small ints": np.array([3, 7], dtype=np.int8),
    "strings": np.array(["control", "patient"]),
    "objects": np.array(["control", "patient"], dtype=object),
    "bools": np.array([False, True]),
    "floats": np.array([1.0, 2.0]),
    "not ascii": np.array(["größer", "kleiner"]),
}


@pytest.mark.parametrize("classes", LABELS.values(), ids=LABELS.keys())
def test_labels_keep_their_kind(tmp_path: Path, graphs: GraphSet, classes: np.ndarray) -> None:
    model = tiny(epochs=1).fit(graphs, classes[graphs.y])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, classes)
    np.testing.assert_array_equal(loaded.predict(graphs), model.predict(graphs))


@pytest.mark.parametrize("weights", [{0: 1.0, 1: 5.0}, {np.int64(0): 1.0, np.int64(1): np.float32(5.0)}])
def test_class_weights_survive_so_that_the_model_can_be_trained_again(
    tmp_path: Path, graphs: GraphSet, weights: dict[Any, float]
) -> None:
    model = tiny(epochs=1, class_weight=weights).fit(graphs)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.class_weight == weights
    again = clone(loaded).set_params(random_state=0).fit(graphs)
    np.testing.assert_array_equal(again.predict_proba(graphs), model.predict_proba(graphs))


@pytest.mark.parametrize("device", [torch.device("cpu"), "cuda:99"])
def test_a_model_is_loaded_on_what_there_is(
    tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier, device: Any
) -> None:
    model = pickle.loads(pickle.dumps(fitted)).set_params(device=device)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.device == str(device)
    np.testing.assert_allclose(loaded.predict_proba(graphs), fitted.predict_proba(graphs), rtol=1e-4)


def test_numpy_settings_are_saved_as_numbers(tmp_path: Path, graphs: GraphSet) -> None:
    model = tiny(epochs=1, n_causal=np.int64(4), dropout=np.float32(0.25), encoder_hidden=np.array([4, 4]))
    model.fit(graphs).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.settings_ == model.settings_
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))


def test_node_names_travel_with_the_model(tmp_path: Path) -> None:
    upper = np.triu(np.random.default_rng(0).normal(size=(30, 8, 8)), 1)
    names = [f"Région {i}" for i in range(8)]
    graphs = GraphSet.from_arrays(upper + upper.swapaxes(1, 2), y=np.arange(30) % 2, node_names=names)
    model = tiny(epochs=1).fit(graphs)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.node_names_ == names
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))


def test_a_model_is_two_files_and_a_card_and_nothing_is_unpickled(
    tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.save(tmp_path / "model")
    assert sorted(contents(tmp_path)) == [
        *("model/MODEL_CARD.md", "model/config.json", "model/model.safetensors")
    ]
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["format"] == "cignn model" and config["estimator"] == "CIGNNClassifier"
    assert {"cignn", "torch", "python"} <= set(config["versions"])

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    assert len(load_model(tmp_path / "model").predict(graphs)) == 60


def test_loading_leaves_the_global_generator_alone(tmp_path: Path, fitted: CIGNNClassifier) -> None:
    fitted.save(tmp_path / "model")
    before = torch.get_rng_state()
    load_model(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unfitted_model_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="call fit first"):
        CIGNNClassifier().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_saving_replaces_an_older_model(tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier) -> None:
    tiny(epochs=1, n_causal=3, random_state=5).fit(graphs).save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(graphs), fitted.predict_proba(graphs))
    assert sorted(contents(tmp_path)) == [
        *("model/MODEL_CARD.md", "model/config.json", "model/model.safetensors")
    ]


def test_an_empty_folder_and_a_damaged_model_can_be_saved_over(
    tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier
) -> None:
    (tmp_path / "empty").mkdir()
    fitted.save(tmp_path / "empty")
    (tmp_path / "empty" / "config.json").write_text('{"format": "cig')
    fitted.save(tmp_path / "empty")
    (tmp_path / "empty" / "config.json").unlink()
    fitted.save(tmp_path / "empty")
    assert len(load_model(tmp_path / "empty").predict(graphs)) == 60


FOREIGN: dict[str, dict[str, str]] = {
    "photos": {"photo.jpg": "holidays"},
    "a config of its own": {"config.json": "{}", "thesis.txt": "three years"},
    "another library's model": {"config.json": '{"model_type": "bert"}', "model.safetensors": "weights"},
    "notes beside the model": {"config.json": '{"format": "cignn model"}', "notes.txt": "keep"},
}


@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_not_a_model_is_never_replaced(
    tmp_path: Path, fitted: CIGNNClassifier, files: dict[str, str]
) -> None:
    (tmp_path / "mine").mkdir()
    for name, text in files.items():
        (tmp_path / "mine" / name).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="mine exists and is not a model folder; choose another path"):
        fitted.save(tmp_path / "mine")
    assert contents(tmp_path) == before


def test_a_file_is_never_replaced(tmp_path: Path, fitted: CIGNNClassifier) -> None:
    (tmp_path / "data.csv").write_text("1,2")
    with pytest.raises(ValueError, match="not a model folder"):
        fitted.save(tmp_path / "data.csv")
    assert contents(tmp_path) == {"data.csv": b"1,2"}


def test_a_failing_save_leaves_the_old_model(
    tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.save(tmp_path / "model")
    before = contents(tmp_path)
    other = tiny(epochs=1, random_state=5).fit(graphs)

    def full(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_files, "sync", full)
        words = r"model could not be written \(No space left on device\); the old one is intact"
        with pytest.raises(OSError, match=words):
            other.save(tmp_path / "model")
        with pytest.raises(OSError, match=r"new could not be written \(No space left on device\); free"):
            other.save(tmp_path / "deep" / "new")
    assert contents(tmp_path) == before and [p.name for p in tmp_path.iterdir()] == ["model"]
    other.best_epoch_ = object()  # type: ignore[assignment]  # nothing that JSON could hold
    with pytest.raises(TypeError, match=r"cannot write object into config\.json"):
        other.save(tmp_path / "model")
    assert contents(tmp_path) == before and [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_save_that_was_killed_before_names_were_given_is_finished(
    tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(epochs=1, n_causal=3, random_state=5).fit(graphs).save(tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr(persistence, "_settle", lambda folder, config: None)
        fitted.save(tmp_path / "model", {"settings.toml": "seed = 0"})
        assert not (tmp_path / "model" / "settings.toml").exists()
        half = contents(tmp_path)
        loaded = load_model(tmp_path / "model")  # as from a disk that is read-only
        np.testing.assert_array_equal(loaded.predict_proba(graphs), fitted.predict_proba(graphs))
        assert contents(tmp_path) == half
    load_model(tmp_path / "model")
    names = [*("model/MODEL_CARD.md", "model/config.json", "model/model.safetensors", "model/settings.toml")]
    assert sorted(contents(tmp_path)) == names


@pytest.mark.parametrize("name", ["", "n" * 250, "link", "mine/deep"])
def test_places_for_a_model(
    tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    Path("link").symlink_to("elsewhere")
    Path("elsewhere").mkdir()
    place = Path(name) if name else tmp_path / "mine"
    if not name:
        place.mkdir()
        monkeypatch.chdir(place)
        place = Path("")
    for _ in range(2):
        fitted.save(place)
    assert len(load_model(place).predict(graphs)) == 60


def test_a_place_that_cannot_be_written_is_told_before_a_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    bad = {
        tmp_path / "file" / "model": "could not be written",
        tmp_path / ("n" * 300): "could not be written",
        tmp_path / "lost": "exists and is not a model folder",
        Path("/proc/model"): "could not be written",
    }
    for place, words in bad.items():
        with pytest.raises((ValueError, OSError), match=words):
            persistence.check_model_path(place)
    persistence.check_model_path(tmp_path / "a" / "b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "lost"], "nothing is left behind"


def edit_config(folder: Path, **changes: Any) -> None:
    """Change entries of a config and seal it again; an entry set to ... is removed."""
    config = json.loads((folder / "config.json").read_text()) | changes
    config = {name: value for name, value in config.items() if value is not ...}
    (folder / "config.json").write_bytes(persistence.sealed(config))


def edit_settings(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    settings = {name: value for name, value in (config["settings"] | changes).items() if value is not ...}
    edit_config(folder, settings=settings)


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    reseal(folder)


def flip_a_bit(path: Path, where: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)


def truncate(path: Path, share: float = 0.5) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "weights cut": (lambda f: truncate(f / "model.safetensors"), r"model\.safetensors is damaged"),
    "weights empty": (lambda f: truncate(f / "model.safetensors", 0), r"model\.safetensors is damaged"),
    "weights foreign": (
        lambda f: (f / "model.safetensors").write_bytes(pickle.dumps({"a": 1}) * 50),
        r"model\.safetensors is damaged",
    ),
    "weights missing": (
        lambda f: (f / "model.safetensors").unlink(),
        r"not a whole model folder: model\.safetensors is missing",
    ),
    "weights of another": (
        lambda f: edit_weights(f, lambda weights: weights.update(stranger=weights.pop("class_weight"))),
        "is damaged: config and weights do not fit",
    ),
    "weights no numbers": (
        lambda f: edit_weights(f, lambda weights: weights["class_weight"].fill_(float("nan"))),
        r"model\.safetensors holds weights that are not finite \(class_weight\); fit the model again",
    ),
    "a bit of the weights": (
        lambda f: flip_a_bit(f / "model.safetensors", 0.9),
        r"model\.safetensors is damaged \(its size or checksum",
    ),
    "a digit of the config": (
        lambda f: (f / "config.json").write_text(
            (f / "config.json").read_text().replace('"epochs": 6', '"epochs": 7')
        ),
        r"config\.json is damaged or was changed \(its checksum",
    ),
    "ten million networks": (
        lambda f: edit_settings(f, n_estimators=10**7),
        "is damaged: .*n_estimators is 10000000",
    ),
    "a huge network": (lambda f: edit_settings(f, n_causal=10**12), "is damaged: config and weights do not"),
    "an unknown setting": (
        lambda f: edit_settings(f, colour=1),
        "is damaged: .*the setting colour is unknown or missing",
    ),
    "a lost setting": (
        lambda f: edit_settings(f, dropout=...),
        "is damaged: .*the setting dropout is unknown or missing",
    ),
    "huge labels": (
        lambda f: edit_config(f, classes_dtype="<U100000000"),
        "is damaged: .*are no labels",
    ),
    "nested": (lambda f: (f / "config.json").write_text("[" * 10**5), r"config\.json is damaged"),
    "older": (
        lambda f: edit_config(f, format_version=persistence.FORMAT_VERSION - 1),
        "written by an older cignn .*fit it again",
    ),
    "a path for a file": (
        lambda f: edit_config(f, files={"../other": {"bytes": 1, "sha256": "0" * 64}}),
        r"config\.json is damaged",
    ),
    "config cut": (lambda f: truncate(f / "config.json"), r"config\.json is damaged .*save the model again"),
    "config binary": (
        lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"),
        r"config\.json is damaged",
    ),
    "config missing": (lambda f: (f / "config.json").unlink(), r"config\.json is missing"),
    "config a list": (lambda f: (f / "config.json").write_text("[1]"), "was not written by cignn"),
    "foreign": (lambda f: edit_config(f, format="other"), "was not written by cignn"),
    "newer": (
        lambda f: edit_config(f, format_version=persistence.FORMAT_VERSION + 1),
        "written by a newer cignn .*upgrade cignn",
    ),
    "no version": (lambda f: edit_config(f, format_version=...), "is damaged .*format_version"),
    "unknown kind": (
        lambda f: edit_config(f, estimator="Oracle"),
        "unknown kind of model, 'Oracle'; upgrade",
    ),
    "no kind": (lambda f: edit_config(f, estimator=...), "unknown kind of model, None"),
    "lost classes": (lambda f: edit_config(f, classes=...), "is damaged: .*classes"),
    "other size": (lambda f: edit_config(f, n_features=3), "is damaged: config and weights do not fit"),
    "unknown parameter": (lambda f: edit_config(f, params={"colour": 1}), "is damaged: "),
}


@pytest.mark.parametrize(("spoil", "words"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_or_foreign_model_is_refused_in_one_line(
    tmp_path: Path, fitted: CIGNNClassifier, spoil: Callable[[Path], Any], words: str
) -> None:
    fitted.save(tmp_path / "model")
    spoil(tmp_path / "model")
    with pytest.raises(ValueError, match=words) as caught:
        load_model(tmp_path / "model")
    assert "\n" not in str(caught.value) and str(tmp_path / "model") in str(caught.value)


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no model folder at .*nowhere\."):
        load_model(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"not a whole model folder: config\.json is missing"):
        load_model(tmp_path / "folder")


# ---------------------------------------------------------------- interruption


def test_ctrl_c_keeps_the_best_model_so_far(graphs: GraphSet, stop: Stop) -> None:
    settings = {"keep_anneal": 0.0, "learning_rate": 0.1, "ema_decay": 0.0, "epochs": 10}
    train, held_out = graphs[:40], graphs[40:]
    whole = tiny(**settings).fit(train, eval_set=held_out)
    stop(6, KeyboardInterrupt)
    before = torch.get_rng_state()
    model = tiny(**settings)
    assert model.fit(train, eval_set=held_out) is model
    assert torch.equal(torch.get_rng_state(), before)
    mine, theirs = (one.history_[:6].drop(columns="seconds") for one in (model, whole))
    pd.testing.assert_frame_equal(mine, theirs[list(mine)])
    assert theirs.drop(columns=list(mine)).isna().all(axis=None), "terms of later stages"
    assert 1 <= model.best_epoch_ <= 6
    accuracy = model.score(held_out, held_out.y)
    assert accuracy == pytest.approx(model.history_["validation_accuracy"].max())
    assert not model.network_.training and len(model.explain(held_out)) == 20


@pytest.mark.parametrize(
    ("settings", "after"), [({}, 0), (PAPER, 2), ({"keep_anneal": 1.0, "mask": "stochastic"}, 4)]
)
def test_ctrl_c_before_any_epoch_could_be_kept_ends_the_fit(
    graphs: GraphSet, stop: Stop, settings: dict[str, Any], after: int
) -> None:
    stop(after, KeyboardInterrupt)
    model = tiny(**settings)
    with pytest.raises(KeyboardInterrupt):
        model.fit(graphs)
    with pytest.raises(NotFittedError):
        model.predict(graphs)


def test_another_error_is_not_swallowed(graphs: GraphSet, stop: Stop) -> None:
    stop(5, MemoryError)
    with pytest.raises(MemoryError):
        tiny(keep_anneal=0.0).fit(graphs)


# ----------------------------------------------------------------- checkpoints


KILLS = {
    "default, first epoch": ({}, 0),
    "default, before an epoch could be kept": ({"keep_anneal": 0.9, "mask": "stochastic"}, 2),
    "default, after one was kept": ({"keep_anneal": 0.0, "ema_decay": 0.9}, 4),
    "stage I": (PAPER, 1),
    "end of stage I": (PAPER, 3),
    "stage II": (PAPER, 5),
    "encoder trained in both": (PAPER | {"train_encoder": True, "encoder": "gin"}, 4),
}


@pytest.mark.parametrize(("settings", "after"), KILLS.values(), ids=KILLS.keys())
def test_a_killed_fit_goes_on_to_the_same_numbers(
    tmp_path: Path, graphs: GraphSet, stop: Stop, settings: dict[str, Any], after: int
) -> None:
    whole = tiny(**settings).fit(graphs)
    model = tiny(checkpoint=tmp_path / "runs" / "fit.ckpt", **settings)
    stop(after)
    with pytest.raises(SystemExit):
        model.fit(graphs)
    torch.manual_seed(99)  # a new process has another global state
    counter = stop(None)
    model.fit(graphs)
    assert counter.finished == 6 - after, "an epoch was repeated or left out"
    assert model.history_["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
    assert_same_model(model, whole, graphs)
    assert set(contents(tmp_path)) == {"runs/fit.ckpt"}


def test_without_a_random_state_the_checkpoint_keeps_the_seed(
    tmp_path: Path, graphs: GraphSet, stop: Stop
) -> None:
    model = tiny(**PAPER, checkpoint=tmp_path / "fit.ckpt", random_state=None)
    stop(2)
    with pytest.raises(SystemExit):
        model.fit(graphs)
    seed = checkpoint_module.saved_seed(tmp_path / "fit.ckpt")
    counter = stop(None)
    model.fit(graphs)
    assert counter.finished == 4 and model.history_["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
    other = tiny(**PAPER, checkpoint=tmp_path / "other.ckpt", random_state=None).fit(graphs)
    assert checkpoint_module.saved_seed(tmp_path / "other.ckpt") != seed
    assert not np.array_equal(other.predict_proba(graphs), model.predict_proba(graphs))
    with pytest.raises(ValueError, match="belongs to a training with other settings"):
        clone(model).set_params(settings__dropout=0.1).fit(graphs)


def test_a_fit_killed_again_and_again_still_arrives(tmp_path: Path, graphs: GraphSet, stop: Stop) -> None:
    whole = tiny(**PAPER).fit(graphs)
    model = tiny(**PAPER, checkpoint=str(tmp_path / "fit.ckpt"))
    for _ in range(5):
        stop(1)
        with pytest.raises(SystemExit):
            model.fit(graphs)
    counter = stop(None)
    assert_same_model(model.fit(graphs), whole, graphs)
    assert counter.finished == 1


def test_a_finished_fit_is_not_repeated(tmp_path: Path, graphs: GraphSet, stop: Stop) -> None:
    model = tiny(checkpoint=tmp_path / "fit.ckpt").fit(graphs)
    counter = stop(None)
    again = tiny(checkpoint=tmp_path / "fit.ckpt").fit(graphs)
    assert counter.finished == 0
    assert_same_model(again, model, graphs)


def test_ctrl_c_and_a_checkpoint_go_together(tmp_path: Path, graphs: GraphSet, stop: Stop) -> None:
    whole = tiny(keep_anneal=0.0).fit(graphs)
    stop(3, KeyboardInterrupt)
    model = tiny(keep_anneal=0.0, checkpoint=tmp_path / "fit.ckpt").fit(graphs)
    assert len(model.history_) == 3
    stop(None)
    assert_same_model(model.fit(graphs), whole, graphs)


def test_a_checkpoint_changes_no_number(tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier) -> None:
    assert_same_model(tiny(checkpoint=tmp_path / "fit.ckpt").fit(graphs), fitted, graphs)


KILLED = """
import os, signal, sys
import torch
from cignn.datasets import make_ba2motifs
from cignn.estimators import make_estimator
from cignn.estimators.training_loop import TrainingLoop

torch.set_num_threads(1)
train_epoch, done = TrainingLoop._train_epoch, []

def killed_in_the_fourth_epoch(*args):
    means = train_epoch(*args)
    if len(done) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(means)
    return means

TrainingLoop._train_epoch = killed_in_the_fourth_epoch
settings = eval(sys.argv[2])
make_estimator("ci-gnn", **settings, checkpoint=sys.argv[1]).fit(make_ba2motifs(60, random_state=0))
"""


def test_a_process_killed_by_the_system_goes_on_to_the_same_numbers(
    tmp_path: Path, graphs: GraphSet, stop: Stop
) -> None:
    path = tmp_path / "fit.ckpt"
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), repr(examples.TINY | {"epochs": 6} | PAPER)],
        capture_output=True,
        timeout=120,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    assert path.exists()
    counter = stop(None)
    model = tiny(**PAPER, checkpoint=path).fit(graphs)
    assert counter.finished == 3
    assert_same_model(model, tiny(**PAPER).fit(graphs), graphs)


def test_a_kill_while_writing_leaves_the_last_checkpoint(
    tmp_path: Path, graphs: GraphSet, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writes = tmp_path / "fit.ckpt", []
    real = checkpoint_module.save

    def killed(*content: Any) -> bytes:
        writes.append(content)
        if len(writes) == 4:
            raise SystemExit
        return real(*content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "save", killed)
        with pytest.raises(SystemExit):
            tiny(checkpoint=path).fit(graphs)
    counter = stop(None)
    model = tiny(checkpoint=path).fit(graphs)
    assert counter.finished == 3
    assert_same_model(model, tiny().fit(graphs), graphs)
    assert set(contents(tmp_path)) == {"fit.ckpt"}


def test_a_full_disk_costs_the_checkpoint_and_not_the_training(
    tmp_path: Path, graphs: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fit.ckpt"
    tiny(epochs=2, checkpoint=path).fit(graphs)
    before = path.read_bytes()

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_files, "sync", full)
    path.rename(tmp_path / "kept")
    words = r"fit\.ckpt could not be written \(No space left on device\).* The training goes on without it"
    with pytest.warns(UserWarning, match=words):
        model = tiny(epochs=2, checkpoint=path).fit(graphs)
    assert len(model.history_) == 2
    assert contents(tmp_path) == {"kept": before}


def other_labels(graphs: GraphSet) -> tuple[GraphSet, np.ndarray]:
    return graphs, 1 - graphs.y


OTHERS: dict[str, Callable[[CIGNNClassifier, GraphSet], Any]] = {
    "setting": lambda model, graphs: model.set_params(settings__dropout=0.2).fit(
        graphs[:40], eval_set=graphs[40:]
    ),
    "seed": lambda model, graphs: model.set_params(random_state=1).fit(graphs[:40], eval_set=graphs[40:]),
    "length": lambda model, graphs: model.set_params(epochs=9).fit(graphs[:40], eval_set=graphs[40:]),
    "class weight": lambda model, graphs: model.set_params(class_weight={0: 1, 1: 2}).fit(
        graphs[:40], eval_set=graphs[40:]
    ),
    "graphs": lambda model, graphs: model.fit(graphs[1:41], eval_set=graphs[40:]),
    "order of graphs": lambda model, graphs: model.fit(graphs[:40][::-1], eval_set=graphs[40:]),
    "labels": lambda model, graphs: model.fit(*other_labels(graphs[:40]), eval_set=graphs[40:]),
    "eval graphs": lambda model, graphs: model.fit(graphs[:40], eval_set=graphs[41:]),
    "eval labels": lambda model, graphs: model.fit(graphs[:40], eval_set=other_labels(graphs[40:])),
}


@pytest.mark.parametrize("fit", OTHERS.values(), ids=OTHERS.keys())
def test_a_checkpoint_of_another_training_is_refused(
    tmp_path: Path, graphs: GraphSet, fit: Callable[[CIGNNClassifier, GraphSet], Any]
) -> None:
    path = tmp_path / "fit.ckpt"
    tiny(epochs=2, checkpoint=path).fit(graphs[:40], eval_set=graphs[40:])
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"fit\.ckpt belongs to .* other settings, data or random_state"):
        fit(tiny(epochs=2, checkpoint=path), graphs)
    assert path.read_bytes() == before
    tiny(epochs=2, checkpoint=path).fit(graphs[:40], eval_set=graphs[40:])


def write_model_weights(path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, path)


BAD_FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut": (truncate, "is not a readable checkpoint .*delete it to start anew"),
    "empty": (lambda path: truncate(path, 0), "is not a readable checkpoint .*delete it to start anew"),
    "text": (lambda path: path.write_text("dear diary\n" * 20), "is not a readable checkpoint"),
    "a bit": (lambda path: flip_a_bit(path, 0.9), r"is not a readable checkpoint \(its checksum is another"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is not a file; choose another path"),
    "other weights": (write_model_weights, "is not a training checkpoint; choose another path"),
}


@pytest.mark.parametrize(("spoil", "words"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_damaged_or_foreign_checkpoint_is_refused_in_one_line(
    tmp_path: Path, graphs: GraphSet, spoil: Callable[[Path], Any], words: str
) -> None:
    path = tmp_path / "fit.ckpt"
    tiny(epochs=1, checkpoint=path).fit(graphs)
    spoil(path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=words) as caught:
        tiny(epochs=1, checkpoint=path).fit(graphs)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    assert contents(tmp_path) == before


# ------------------------------------------------------------------ the command line


def test_a_trained_model_that_cannot_be_saved_is_kept_elsewhere(
    tmp_path: Path, graphs: GraphSet, fitted: CIGNNClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    with pytest.raises(FailedWorkError, match=r"could not be written .* is kept in .*cignn-model-") as caught:
        save_or_keep(fitted, Path("file") / "model", {"settings.toml": "seed = 0\n"})
    kept = Path(str(caught.value).rpartition(" in ")[2].rstrip("."))
    np.testing.assert_array_equal(load_model(kept).predict_proba(graphs), fitted.predict_proba(graphs))
    assert (kept / "settings.toml").read_text() == "seed = 0\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["file", kept.name])
