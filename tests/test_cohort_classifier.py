"""What must hold for a model that goes from raw subjects to probabilities and edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns.fuzzing.containers import reseal
from sklearn.base import clone
from sklearn.covariance import OAS, GraphicalLasso
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from cignn import CohortClassifier, load_model, save_model
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs, make_connectome_pipeline
from cignn.connectome.pipeline import state_of, step_from
from cignn.datasets import Atlas, Cohort, make_cohort
from cignn.datasets.cohort_repairs import take_rois
from cignn.estimators import CIGNNClassifier, GraphVectors, make_estimator

COHORT = make_cohort(
    40, 20, n_edges=8, effect=0.15, site_effect=0.3, n_site_edges=8, lengths=(60, 80),
    random_state=0,
)  # fmt: skip
TRAIN, NEW = COHORT[:30], COHORT[30:]
TINY = CIGNNClassifier(epochs=2, n_estimators=1, random_state=0)
SVM = make_estimator("linear-svm", random_state=0)

KINDS = {
    "correlation, network": CohortClassifier.make(TINY),
    "fisher, density": CohortClassifier.make(
        SVM, connectivity=Connectivity(fisher=True), graphs=ConnectomeGraphs(0.3)
    ),
    "tangent": CohortClassifier.make(SVM, connectivity=Connectivity("tangent")),
    "partial, own covariance": CohortClassifier.make(
        SVM, connectivity=Connectivity("partial", covariance_estimator=OAS())
    ),
    "combat": CohortClassifier.make(SVM, connectivity=Connectivity(fisher=True), combat=ComBat()),
    "tangent, combat without covariates": CohortClassifier.make(
        SVM, connectivity=Connectivity("tangent"), combat=ComBat(())
    ),
}


@pytest.mark.parametrize("model", KINDS.values(), ids=KINDS.keys())
def test_saved_and_loaded_it_gives_new_subjects_the_same_probabilities(
    model: CohortClassifier, tmp_path: Path
) -> None:
    model = clone(model).fit(TRAIN)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, CohortClassifier)
    endings = {path.suffix for path in (tmp_path / "model").iterdir() if path.name != "MODEL_CARD.md"}
    assert endings <= {".json", ".safetensors", ".skops"}
    expected = model.predict_proba(NEW)
    np.testing.assert_array_equal(loaded.predict_proba(NEW), expected)
    np.testing.assert_allclose(loaded.predict_proba(NEW[3:4]), expected[3:4], atol=1e-6)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    assert loaded.roi_names_ == TRAIN.roi_names and loaded.atlas_ == TRAIN.atlas
    np.testing.assert_array_equal(loaded.classes_, model.classes_)


def test_what_was_learnt_is_the_training_cohorts_not_the_new_ones() -> None:
    """Or the test above would pass for a model that learns from whom it is shown."""
    for kind in ("tangent", "combat"):
        one, other = clone(KINDS[kind]).fit(TRAIN), clone(KINDS[kind]).fit(COHORT[8:38])
        apart = np.abs(
            one.to_graphs(NEW).batch(np.arange(10)).adj - other.to_graphs(NEW).batch(np.arange(10)).adj
        )
        assert apart.max() > 1e-3
        assert np.abs(one.predict_proba(NEW) - other.predict_proba(NEW)).max() > 1e-4


def test_a_model_is_saved_twice_into_the_same_place_and_from_a_loaded_one(tmp_path: Path) -> None:
    model = clone(KINDS["combat"]).fit(TRAIN)
    model.save(tmp_path / "model")
    load_model(tmp_path / "model").save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(NEW), model.predict_proba(NEW))
    (tmp_path / "model" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="not a model folder"):
        model.save(tmp_path / "model")


def test_a_plain_pipeline_is_saved_and_loaded(tmp_path: Path) -> None:
    pipe = make_connectome_pipeline(clone(SVM), combat=True, density=0.3).fit(TRAIN, TRAIN.y)
    save_model(pipe, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert list(loaded.named_steps) == list(pipe.named_steps)
    np.testing.assert_array_equal(loaded.predict_proba(NEW), pipe.predict_proba(NEW))
    np.testing.assert_array_equal(loaded.trained_on(COHORT), np.arange(40) < 30)
    matrices = Connectivity().fit_transform(COHORT)
    short = make_pipeline(ConnectomeGraphs(), clone(SVM)).fit(matrices[:30], TRAIN.y)
    save_model(short, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(matrices[30:]), short.predict_proba(matrices[30:]))
    with pytest.raises(TypeError, match=r"classifier of graphs or a pipeline .*, got StandardScaler"):
        save_model(StandardScaler(), tmp_path / "other")


@pytest.mark.parametrize("left_out", [None, "passthrough"])
def test_a_step_that_is_left_out_is_left_out_of_the_saved_model(left_out: Any, tmp_path: Path) -> None:
    model = clone(KINDS["combat"]).set_params(combat=left_out).fit(TRAIN)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert list(loaded.named_steps) == ["connectivity", "graphs", "classifier"]
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))


def test_a_pipeline_is_saved_only_where_it_can_be_loaded(tmp_path: Path) -> None:
    graphs = make_connectome_pipeline().fit_transform(TRAIN)
    lone = make_pipeline(clone(SVM)).fit(graphs, TRAIN.y)
    save_model(lone, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(graphs), lone.predict(graphs))
    twice = make_pipeline(Connectivity(), Connectivity(), ConnectomeGraphs(), clone(SVM)).fit(TRAIN, TRAIN.y)
    with pytest.raises(
        TypeError, match="may have Connectivity, ComBat, Deconfound, ConnectomeGraphs, in this order"
    ):
        save_model(twice, tmp_path / "other")
    vectors = make_pipeline(Connectivity(), ConnectomeGraphs(), GraphVectors(), SVC()).fit(TRAIN, TRAIN.y)
    with pytest.raises(TypeError, match=r"is a classifier of graphs, .*, got SVC"):
        save_model(vectors, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_classifier_of_a_search_is_the_best_one(tmp_path: Path) -> None:
    model = CohortClassifier.make(GridSearchCV(clone(SVM), {"C": [0.1, 1.0]}, cv=2)).fit(TRAIN)
    assert model[-1].best_params_["C"] == model.classifier_.C
    assert model.trained_on(COHORT).sum() == len(TRAIN) and model.roi_names_ == TRAIN.roi_names
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(NEW), model.predict_proba(NEW))


def test_the_steps_before_a_classifier_have_one_home() -> None:
    assert list(make_connectome_pipeline(SVM, combat=True).named_steps) == [
        "connectivity", "combat", "graphs", "classifier",
    ]  # fmt: skip
    combat, measured, graphs = ComBat(()), Connectivity("tangent"), ConnectomeGraphs(sign="positive")
    pipe = make_connectome_pipeline(connectivity=measured, combat=combat, graphs=graphs)
    assert [step for _, step in pipe.steps] == [measured, combat, graphs]
    with pytest.raises(ValueError, match="give density or graphs, not both"):
        make_connectome_pipeline(density=0.1, graphs=graphs)


def test_it_is_a_pipeline_of_scikit_learn() -> None:
    scores = cross_val_score(KINDS["tangent"], COHORT, COHORT.y, cv=3)
    assert scores.shape == (3,)
    model = clone(KINDS["tangent"]).set_params(classifier__C=0.1, connectivity__kind="covariance").fit(TRAIN)
    assert model.classifier_.settings_["C"] == 0.1 and model.score(NEW) == model.score(NEW, NEW.y)


def test_the_saved_pipeline_of_a_plain_classifier_stays_a_plain_classifier(tmp_path: Path) -> None:
    graphs = ConnectomeGraphs().fit_transform(Connectivity().fit_transform(TRAIN))
    clone(SVM).fit(graphs).save(tmp_path / "model")
    assert not isinstance(load_model(tmp_path / "model"), CohortClassifier)


def test_it_knows_whom_it_was_trained_on_by_their_data_alone(tmp_path: Path) -> None:
    model = clone(KINDS["combat"]).fit(TRAIN)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    renamed = COHORT._with(subjects=[f"x{i}" for i in range(40)])
    np.testing.assert_array_equal(loaded.trained_on(renamed), np.arange(40) < 30)
    content = "".join(path.read_text(errors="replace") for path in (tmp_path / "model").iterdir())
    assert TRAIN.subjects[0] not in content


def test_the_explanation_names_the_training_cohorts_regions() -> None:
    model = clone(KINDS["correlation, network"]).fit(TRAIN)
    nameless = Cohort(list(NEW.series))
    explanations = model.explain(nameless)
    assert explanations.graphs.node_names == TRAIN.roi_names
    assert set(explanations[0].top_edges(3)["source"]) <= set(TRAIN.roi_names)
    np.testing.assert_array_equal(model.predict_proba(nameless), model.predict_proba(NEW))
    with pytest.raises(ValueError, match=r"GNNClassifier does not explain its decisions; make_explainer"):
        CohortClassifier.make(make_estimator("gcn", hidden=(4,), epochs=1)).fit(TRAIN).explain(NEW)
    svm = clone(KINDS["tangent"]).fit(TRAIN).explain(NEW, target=TRAIN.y[0])
    assert svm.edge_contributions is not None and (svm.explained == TRAIN.y[0]).all()


def test_the_same_regions_in_another_order_are_brought_into_the_models() -> None:
    names = [f"Region_{i}" for i in range(COHORT.n_rois)]
    model = clone(KINDS["tangent"]).fit(TRAIN._with(roi_names=names, atlas=None))
    order = np.random.default_rng(0).permutation(COHORT.n_rois)
    shuffled = take_rois(COHORT._with(roi_names=names, atlas=None), order)
    for spelt in (shuffled, shuffled._with(roi_names=[name.lower() for name in shuffled.roi_names])):
        np.testing.assert_array_equal(model.predict_proba(spelt[30:]), model.predict_proba(NEW))
        assert model.trained_on(spelt).tolist() == [True] * 30 + [False] * 10


def test_other_regions_are_refused() -> None:
    model = clone(KINDS["tangent"]).fit(TRAIN)
    with pytest.raises(ValueError, match="fitted on 20 ROIs, got a cohort with 19"):
        model.predict(Cohort([series[:, :19] for series in NEW.series]))
    other = [*NEW.roi_names[:0:-1], "other"]
    swapped = NEW._with(roi_names=other, atlas=Atlas(other))
    with pytest.raises(ValueError, match="not those that were learnt from"):
        model.predict(swapped)
    with pytest.raises(TypeError, match="works on a Cohort, got list"):
        model.predict([1])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        CohortClassifier.make().predict(NEW)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("file", ["preparation.json", "preparation.safetensors"])
def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path, file: str, sealed: bool) -> None:
    clone(KINDS["tangent"]).fit(TRAIN).save(tmp_path / "model")
    (tmp_path / "model" / file).write_text("{")
    if sealed:
        reseal(tmp_path / "model")
    with pytest.raises(ValueError, match=rf"{file} is damaged .*; save the model again"):
        load_model(tmp_path / "model")


def test_a_number_of_regions_is_not_believed(tmp_path: Path) -> None:
    clone(KINDS["tangent"]).fit(TRAIN).save(tmp_path / "model")
    path = tmp_path / "model" / "preparation.json"
    content = json.loads(path.read_text())
    content["steps"][0]["facts"]["n_rois"] = 60_000
    path.write_text(json.dumps(content))
    reseal(tmp_path / "model")
    with pytest.raises(ValueError, match="is for 60000 regions, the model has 20"):
        load_model(tmp_path / "model")


def test_a_step_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    clone(KINDS["tangent"]).fit(TRAIN).save(tmp_path / "model")
    path = tmp_path / "model" / "preparation.json"
    content = json.loads(path.read_text())
    content["steps"][0]["step"] = "Surprise"
    path.write_text(json.dumps(content))
    reseal(tmp_path / "model")
    with pytest.raises(ValueError, match="no step 'Surprise'; upgrade cignn"):
        load_model(tmp_path / "model")


def test_what_cannot_be_saved_as_data_is_refused() -> None:
    with pytest.raises(TypeError, match="StandardScaler cannot be saved"):
        state_of(StandardScaler())
    with pytest.raises(NotFittedError, match="this ComBat is not fitted"):
        state_of(ComBat())
    step = Connectivity("partial", covariance_estimator=GraphicalLasso()).fit(TRAIN[:2])
    with pytest.raises(TypeError, match="GraphicalLasso cannot be saved"):
        state_of(step)


def test_a_cohort_of_matrices_needs_no_measure() -> None:
    matrices = Connectivity().fit_transform(TRAIN)
    step = step_from(state_of(Connectivity().fit(matrices)), TRAIN.n_rois)
    assert step.transform(matrices) is matrices


@pytest.mark.parametrize("name", ["lasso", "random-forest", "gin"])
def test_a_trained_model_takes_the_names_of_an_atlas(tmp_path: Path, name: str) -> None:
    cohort = make_cohort(24, 12, n_edges=3, lengths=(40, 50), random_state=0)
    bare = cohort._with(atlas=None, roi_names=None)
    atlas = Atlas([f"region {letter}" for letter in "ABCDEFGHIJKL"], systems=["left", "right"] * 6)
    quick = {"epochs": 1} if name == "gin" else {}
    model = CohortClassifier.make(make_estimator(name, random_state=0, **quick)).fit(bare)
    named = model.with_atlas(atlas)
    assert named.roi_names_ == atlas.names and named.atlas_ == atlas
    assert model.roi_names_ == bare.roi_names and model.atlas_ is None, "the model itself stays as it was"
    named.save(tmp_path / "model")
    for one in (named, load_model(tmp_path / "model")):
        for given in (bare, bare.with_atlas(atlas)):
            np.testing.assert_array_equal(one.predict_proba(given), model.predict_proba(bare))
            assert one.to_graphs(given).node_names == atlas.names
            assert one.trained_on(given).all()
    if name != "gin":
        assert set(named.explain(bare)[0].top_edges(5)["source_system"]) <= {"left", "right"}
    again = named.with_atlas(atlas[::-1])
    assert again.roi_names_ == atlas.names, "the same names in another order follow the model's"
    with pytest.raises(ValueError, match="the atlas has 3 regions, the model 12; give the atlas of"):
        model.with_atlas(atlas[:3])


def test_a_searched_model_takes_names_too() -> None:
    cohort = make_cohort(24, 8, n_edges=3, lengths=(40, 50), random_state=0)
    search = GridSearchCV(make_estimator("lasso", random_state=0), {"C": [0.1, 1.0]}, cv=2)
    model = CohortClassifier.make(search).fit(cohort)
    named = model.with_atlas(Atlas(list("ABCDEFGH")))
    assert named.to_graphs(cohort.with_atlas(named.atlas_)).node_names == list("ABCDEFGH")
    assert named.classifier_.node_names_ == list("ABCDEFGH") != model.classifier_.node_names_
