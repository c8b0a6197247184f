"""What must hold for the settings of CI-GNN: presets, what replaces them, and scikit-learn's manners."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from cignn import CIGNNClassifier, CIGNNSettings, GraphSet
from cignn.connectome import ConnectomeGraphs, make_connectome_pipeline
from cignn.estimators import PRESETS, DIRClassifier, make_estimator
from cignn.estimators.ci_gnn_settings import EPOCHS, N_ESTIMATORS
from cignn.evaluation.methods import plain, with_settings

NAMES = list(CIGNNSettings().get_params())
ALIGNED = GraphSet.from_arrays(np.ones((4, 3, 3)), y=np.arange(4) % 2, aligned=True)
OTHER = GraphSet.from_arrays(np.ones((4, 3, 3)), y=np.arange(4) % 2)


def written(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_has_the_values_of_the_presets(name: str) -> None:
    value = {preset: getattr(PRESETS[preset], name) for preset in PRESETS}
    others = [f"{p}: {written(value[p])}" for p in ("connectome", "paper") if value[p] != value["motif"]]
    expected = f"default={written(value['motif'])}" + (f" ({', '.join(others)})" if others else "")
    entries = re.findall(rf"^{name} : (.*)$", inspect.getdoc(CIGNNSettings) or "", re.MULTILINE)
    assert len(entries) == 1 and entries[0].endswith(f", {expected}")


def test_help_fits_a_screen_and_says_what_auto_is() -> None:
    text = inspect.getdoc(CIGNNClassifier) or ""
    assert len(text.splitlines()) <= 60
    assert f'is {EPOCHS["connectome"]} for "connectome", {EPOCHS["paper"]} for "paper"' in text
    networks = [f'{N_ESTIMATORS[name]} for "{name}"' for name in ("connectome", "motif", "paper")]
    assert "is {}, {} and {}".format(*networks) in " ".join(text.split()) and EPOCHS["motif"] == "auto"


# ---------------------------------------------------------------------- presets


@pytest.mark.parametrize(
    ("model", "culprit"),
    [
        (CIGNNClassifier("connectome"), 'preset="connectome"'),
        (CIGNNClassifier(settings={"readout": "edges"}), 'readout="edges"'),
        (CIGNNClassifier(settings={"node_vectors": True}), "node_vectors"),
    ],
)
def test_what_needs_aligned_graphs_is_named(model: CIGNNClassifier, culprit: str) -> None:
    with pytest.raises(ValueError, match=f"^{culprit} needs aligned graphs"):
        model.fit(OTHER)


def test_auto_picks_by_the_data_and_a_name_does_not() -> None:
    assert CIGNNClassifier()._settings(ALIGNED)["preset"] == "connectome"
    assert CIGNNClassifier()._settings(OTHER)["preset"] == "motif"
    for name in ("motif", "paper"):
        settings = CIGNNClassifier(name)._settings(ALIGNED)
        assert settings["preset"] == name and settings["readout"] == PRESETS[name].readout != "edges"
    lonely = GraphSet.from_arrays(np.zeros((4, 1, 1)), y=np.arange(4) % 2, aligned=True)
    assert CIGNNClassifier()._settings(lonely)["preset"] == "motif"


@pytest.mark.parametrize("graphs", [ALIGNED, OTHER], ids=["aligned", "other"])
@pytest.mark.parametrize(
    "given", [{"dropout": 0.25}, {"readout": "mean"}, {"patience": None}, {"encoder": "gcn", "keep": 0.3}]
)
def test_setting_one_value_drops_no_other(graphs: GraphSet, given: dict[str, Any]) -> None:
    usual = CIGNNClassifier()._settings(graphs)
    for settings in (given, CIGNNSettings(**given)):
        assert CIGNNClassifier(settings=settings)._settings(graphs) == usual | given


def test_epochs_and_networks_of_a_preset_give_way_to_the_callers() -> None:
    usual = CIGNNClassifier("connectome")._settings(ALIGNED)
    assert (usual["epochs"], usual["n_estimators"]) == (60, 5)
    own = CIGNNClassifier("connectome", epochs=7, n_estimators=2)._settings(ALIGNED)
    assert own == usual | {"epochs": 7, "n_estimators": 2}


def test_a_complete_object_of_a_preset() -> None:
    settings = CIGNNSettings.preset("connectome", dropout=0.3)
    assert list(settings) == NAMES and settings.dropout == 0.3
    assert settings == PRESETS["connectome"].replace(dropout=0.3)
    assert PRESETS["connectome"].dropout == 0.8
    with pytest.raises(ValueError, match="one of 'motif', 'connectome', 'paper', got 'brain'"):
        CIGNNSettings.preset("brain")


# -------------------------------------------------------------------- the object


def test_as_a_mapping_it_holds_what_is_set() -> None:
    settings = CIGNNSettings(dropout=0.3, patience=None)
    assert dict(settings) == {"dropout": 0.3, "patience": None} == settings
    assert len(settings) == 2 and "keep" not in settings and "dropout" in settings
    with pytest.raises(KeyError):
        settings["keep"]
    assert repr(settings) == "CIGNNSettings(dropout=0.3, patience=None)" and repr(settings.keep) == "<preset>"
    assert f"{settings.keep}" == "<preset>"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, clone, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_leaves_the_same_to_the_preset(copied: Any) -> None:
    settings = CIGNNSettings(dropout=0.3)
    other = copied(settings)
    assert other is not settings and dict(other) == {"dropout": 0.3}
    assert other.keep is settings.keep


@pytest.mark.parametrize(
    "use",
    [
        lambda given: CIGNNClassifier(settings=given).fit(OTHER),
        lambda given: CIGNNClassifier().set_params(**{f"settings__{name}": v for name, v in given.items()}),
        lambda given: CIGNNSettings().set_params(**given),
        lambda given: CIGNNSettings.preset("paper", **given),
    ],
    ids=["fit", "set_params", "set_params of the settings", "preset"],
)
def test_unknown_settings_are_refused_with_the_closest(use: Any) -> None:
    with pytest.raises(ValueError, match=r"CI-GNN has no setting 'droput'; did you mean 'dropout'\?"):
        use({"droput": 0.3})
    with pytest.raises(ValueError, match="epochs is a parameter of CIGNNClassifier itself"):
        use({"epochs": 3})


def test_an_attribute_that_is_no_setting_is_refused() -> None:
    with pytest.raises(AttributeError, match="droput"):
        CIGNNSettings().droput = 0.3  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", ["paper", 3, ["dropout"], {1: 2}])
def test_settings_of_another_kind_are_refused(wrong: Any) -> None:
    words = "settings must be a CIGNNSettings, a mapping such as|CI-GNN has no setting 1"
    with pytest.raises(ValueError, match=words):
        CIGNNClassifier(settings=wrong).fit(OTHER)


# ------------------------------------------------------------------- parameters


@pytest.mark.parametrize("start", [None, {"keep": 0.3}, CIGNNSettings(keep=0.3)], ids=str)
def test_settings_can_be_set_through_the_classifier(start: Any) -> None:
    before = copy.deepcopy(start)
    model = clone(CIGNNClassifier(settings=start)).set_params(settings__dropout=0.3)
    assert model.settings == {"dropout": 0.3} | dict(start or {}) and start == before
    assert model.get_params()["settings__dropout"] == 0.3
    assert clone(model).get_params() == model.get_params()
    pipe = make_pipeline(ConnectomeGraphs(), CIGNNClassifier(settings=start))
    pipe.set_params(cignnclassifier__settings__dropout=0.3)
    assert pipe[-1].settings == model.settings


def test_a_setting_taken_for_a_parameter_is_told_its_place() -> None:
    with pytest.raises(ValueError, match=r"dropout is one of the settings; name it settings__dropout\."):
        CIGNNClassifier().set_params(dropout=0.3)


def test_a_preset_given_as_settings_is_not_changed_through_a_classifier() -> None:
    before = dict(PRESETS["motif"])
    CIGNNClassifier(settings=PRESETS["motif"]).set_params(settings__dropout=before["dropout"] / 2)
    assert PRESETS["motif"] == before


def test_a_classifier_shows_what_is_set() -> None:
    assert repr(CIGNNClassifier(settings=CIGNNSettings(keep=0.3))) == (
        "CIGNNClassifier(settings=CIGNNSettings(keep=0.3))"
    )


def test_settings_may_stand_among_the_parameters_of_a_name() -> None:
    model = make_estimator("ci-gnn", epochs=3, dropout=0.3, settings={"dropout": 0.1, "keep": 0.2})
    assert model.get_params(deep=False)["settings"] == {"dropout": 0.3, "keep": 0.2}
    assert make_estimator("ci-gnn").get_params(deep=False)["settings"] is None
    with pytest.raises(ValueError, match=r"'ci-gnn' has no parameter 'droput'; did you mean 'dropout'\?"):
        make_estimator("ci-gnn", droput=0.3)


def test_a_search_may_name_settings_directly() -> None:
    for model in (CIGNNClassifier(), make_pipeline(ConnectomeGraphs(), CIGNNClassifier())):
        found = with_settings(model, {"dropout": 0.3, "epochs": 2})
        last = found[-1] if hasattr(found, "steps") else found
        assert last.settings == {"dropout": 0.3} and last.epochs == 2


def test_a_setting_may_have_the_name_of_a_step() -> None:
    pipe = make_connectome_pipeline(CIGNNClassifier())
    found = with_settings(pipe, {"classifier": "gcn", "graphs": "passthrough"})
    assert found["classifier"].settings == {"classifier": "gcn"} and found["graphs"] == "passthrough"
    assert with_settings(pipe, {"classifier": DIRClassifier()})["classifier"].get_params()["dropout"] == 0.5


def test_a_store_knows_settings_however_they_are_written() -> None:
    ways = ({"dropout": 0.3}, CIGNNSettings(dropout=0.3))
    first, second = (plain(CIGNNClassifier(settings=way)) for way in ways)
    assert first == second != plain(CIGNNClassifier(settings={"dropout": 0.2}))
    as_given = CIGNNClassifier().set_params(**CIGNNClassifier().get_params())
    for nothing in (CIGNNClassifier(settings={}), CIGNNClassifier(settings=CIGNNSettings()), as_given):
        assert plain(nothing) == plain(CIGNNClassifier())
    assert repr(as_given) == "CIGNNClassifier()"
    widths = (plain(CIGNNClassifier(settings={"encoder_hidden": way([8, 8])})) for way in (list, np.array))
    assert next(widths) == next(widths)
