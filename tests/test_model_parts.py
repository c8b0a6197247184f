"""What must hold of models made of other models, fusions and decisions, when they are saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from cignn import CohortClassifier, load_model
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import MultiViewCohort, make_ba2motifs, make_cohort
from cignn.estimators import (
    DecisionClassifier,
    FusedClassifier,
    TableClassifier,
    make_estimator,
    save_model,
)
from cignn.estimators.persistence import CARD, CONFIG, WEIGHTS, ModelError, sealed, sha256

COHORT = make_cohort(60, n_rois=8, n_edges=3, effect=0.4, n_sites=3, lengths=(30, 40), random_state=0)
FINER = make_cohort(60, n_rois=10, n_edges=3, lengths=(30, 40), random_state=1)
VOLUMES = pd.DataFrame({"hippocampus": np.random.default_rng(0).normal(size=60)}, index=COHORT.subjects)
BOTH = MultiViewCohort(COHORT, {"finer": FINER, "volumes": VOLUMES})
THREE = np.array(["a", "b", "c"])[np.arange(60) % 3]
SVM = make_estimator("linear-svm", C=1e-2, random_state=0)
VIEWS: dict[str, Any] = {"tangent": "tangent", "finer": "correlation", "volumes": None, "who": ["age", "sex"]}


def fused(**options: Any) -> FusedClassifier:
    return FusedClassifier.make(VIEWS, SVM, n_splits=3, random_state=0, **options)


def decided(**options: Any) -> DecisionClassifier:
    return DecisionClassifier(CohortClassifier.make(SVM), n_splits=3, random_state=0, **options)


MODELS: dict[str, Callable[[], Any]] = {
    "stacked": lambda: fused(deconfound=("motion",)).fit(BOTH[:45]),
    "mean": lambda: fused(fusion="mean").fit(BOTH[:45]),
    "three classes": lambda: fused().fit(BOTH[:45], THREE[:45]),
    "plain pipelines": lambda: FusedClassifier(
        [("z", make_connectome_pipeline(SVM)), ("who", TableClassifier(["age", "site"]))], random_state=0
    ).fit(BOTH[:45]),
    "networks": lambda: FusedClassifier.make(
        ["correlation", "partial"], make_estimator("ci-gnn", epochs=2, random_state=0), fusion="mean"
    ).fit(BOTH[:45]),
    "table": lambda: TableClassifier(["age", "sex", "site"], class_weight={0: 1.0, 1: 2.0}).fit(BOTH[:45]),
    "table of three": lambda: TableClassifier(["age", "motion"]).fit(BOTH[:45], THREE[:45]),
    "sigmoid": lambda: decided(calibrate="sigmoid", threshold="sensitivity@0.8").fit(BOTH[:45]),
    "isotonic": lambda: decided(calibrate="isotonic", positive=0, threshold=0.4).fit(BOTH[:45]),
    "isotonic, three": lambda: decided(calibrate="isotonic").fit(BOTH[:45], THREE[:45]),
    "threshold": lambda: decided(threshold="mcc").fit(BOTH[:45]),
    "fusion decided": lambda: DecisionClassifier(fused(), calibrate="sigmoid", random_state=0).fit(BOTH[:45]),
}


def tables_of(told: Any) -> list[pd.DataFrame]:
    """Everything an explanation says, as tables."""
    if isinstance(told, pd.DataFrame):
        return [told]
    if hasattr(told, "by_view"):
        return [told.by_view, *(table for one in told.views.values() for table in tables_of(one))]
    return [told.top_edges(10_000)]


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_says_the_same(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    for new in (BOTH[45:], BOTH[:45]):
        np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
        np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
        for one, other in zip(tables_of(loaded.explain(new)), tables_of(model.explain(new)), strict=True):
            assert_frame_equal(one, other)
    assert loaded.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_array_equal(loaded.trained_on(BOTH), np.arange(60) < 45)
    again = tmp_path / "again"
    save_model(loaded, again)
    np.testing.assert_array_equal(load_model(again).predict_proba(BOTH), model.predict_proba(BOTH))
    refitted = clone(loaded).fit(BOTH[:45], THREE[:45] if len(model.classes_) == 3 else None)
    assert refitted.predict(BOTH[45:]).shape == (15,)


def test_a_loaded_fusion_knows_its_weights_and_views(tmp_path: Path) -> None:
    model = MODELS["stacked"]()
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    pd.testing.assert_series_equal(loaded.weights_, model.weights_)
    pd.testing.assert_series_equal(loaded.shares_, model.shares_)
    assert loaded.get_params()["finer__classifier__C"] == 1e-2 and loaded.out_of_fold_ is None
    with pytest.raises(ValueError, match="the model reads the view 'finer', which these subjects do not"):
        loaded.predict(COHORT)


def test_views_that_tell_nothing_have_no_shares(tmp_path: Path) -> None:
    model = FusedClassifier([("who", TableClassifier(["age"]))], fusion="mean").fit(COHORT)
    model.shares_[:] = np.nan  # as where all weights are 0
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").shares_.isna().all()


def test_a_decision_about_graphs_is_saved_too(tmp_path: Path) -> None:
    graphs = make_ba2motifs(40, random_state=0)
    model = DecisionClassifier(make_estimator("lasso", C=1.0), calibrate="sigmoid", random_state=0).fit(
        graphs
    )
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    assert loaded.trained_on(graphs).all()


def test_the_card_names_every_part(tmp_path: Path) -> None:
    MODELS["fusion decided"]().save(tmp_path / "model", {"settings.toml": "a = 1\n"})
    card = (tmp_path / "model" / CARD).read_text("utf-8")
    assert "# Model card: DecisionClassifier" in card and "calibrate = sigmoid" in card
    assert "45 graphs of 45 subjects" in card and "not a medical device" in card
    for view in VIEWS:
        assert f"  - View {view}, weight" in card
    assert "columns = (hippocampus)" in card and "kind = tangent" in card


def test_a_model_of_another_kind_replaces_it_without_remains(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    MODELS["stacked"]().save(folder)
    many = {item.name for item in folder.iterdir()}
    MODELS["table"]().save(folder)
    few = {item.name for item in folder.iterdir()}
    assert any(name.startswith("part3.") for name in many)
    assert few == {CONFIG, CARD, WEIGHTS} and load_model(folder).columns_ == ["age", "sex", "site"]


# ------------------------------------------------------------------------ refusals


def test_what_cannot_be_saved_is_told_in_one_line(tmp_path: Path) -> None:
    for model in (fused(), decided(), TableClassifier()):
        with pytest.raises(NotFittedError, match="is not fitted yet; call fit first"):
            model.save(tmp_path / "model")
    foreign = DecisionClassifier(LogisticRegression(), threshold=0.4)
    foreign.fit(np.eye(6), np.arange(6) % 2)
    with pytest.raises(TypeError, match="its classifier is a LogisticRegression, which cannot be saved"):
        foreign.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def resealed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a config as somebody does who also corrects its checksum."""
    config = json.loads((folder / CONFIG).read_text())
    change(config)
    config.pop("checksum")
    (folder / CONFIG).write_bytes(sealed(config))


CHANGES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "fewer parts": ("stacked", lambda c: c["parts"].pop()),
    "no parts": ("stacked", lambda c: c.update(parts=7)),
    "weights": ("stacked", lambda c: c.update(weights=[1.0, 2.0])),
    "endless weights": ("stacked", lambda c: c.update(weights=[float("inf")] * 4)),
    "names": ("stacked", lambda c: c.update(views=["a", "a", "b", "c"])),
    "fusion": ("stacked", lambda c: c["params"].update(fusion="vote")),
    "classes of a part": ("stacked", lambda c: c["parts"][2].update(classes=[0, 7])),
    "a part of no kind": ("stacked", lambda c: c["parts"][2].update(estimator="os.system")),
    "coding": ("table", lambda c: c["coding"].pop()),
    "subjects": ("table", lambda c: c.update(subjects=[1, 2])),
    "threshold": ("sigmoid", lambda c: c.update(threshold=7.0)),
    "no threshold": ("sigmoid", lambda c: c.update(threshold=None)),
    "positive": ("sigmoid", lambda c: c.update(positive="nobody")),
    "slope": ("sigmoid", lambda c: c["sigmoid"].update(weight=["x"])),
    "no calibration": ("sigmoid", lambda c: c.pop("sigmoid")),
    "another calibration": ("sigmoid", lambda c: c["params"].update(calibrate="isotonic")),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name in ("stacked", "table", "sigmoid", "isotonic"):
        MODELS[name]().save(folder / name)
    return {name: folder / name for name in ("stacked", "table", "sigmoid", "isotonic")}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_folder_is_refused_in_one_line(name: str, saved: dict[str, Path], tmp_path: Path) -> None:
    model, change = CHANGES[name]
    folder = copied(saved[model], tmp_path)
    resealed(folder, change)
    with pytest.raises(ValueError, match=r"damaged|unknown kind of model") as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def copied(source: Path, place: Path) -> Path:
    target = place / "copy"
    target.mkdir()
    for item in source.iterdir():
        (target / item.name).write_bytes(item.read_bytes())
    return target


@pytest.mark.parametrize("model", ["stacked", "isotonic"])
def test_a_missing_or_changed_file_is_named(model: str, saved: dict[str, Path], tmp_path: Path) -> None:
    names = [item.name for item in saved[model].iterdir() if item.name not in (CONFIG, CARD)]
    assert names
    for name in names:
        place = tmp_path / name
        place.mkdir()
        folder = copied(saved[model], place)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ModelError, match=f"{name} is damaged"):
            load_model(folder)
        (folder / name).unlink()
        with pytest.raises(ModelError, match=f"{name} is missing"):
            load_model(folder)


def test_a_calibration_that_does_not_increase_is_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.numpy import load, save

    folder = copied(saved["isotonic"], tmp_path)
    arrays = load((folder / WEIGHTS).read_bytes())
    content = save(arrays | {"values.0": np.ascontiguousarray(arrays["values.0"][::-1] + 0.0)})
    (folder / WEIGHTS).write_bytes(content)
    listed = {"bytes": len(content), "sha256": sha256(content)}
    resealed(folder, lambda config: config["files"].update({WEIGHTS: listed}))
    with pytest.raises(ModelError, match="its calibration does not increase"):
        load_model(folder)
