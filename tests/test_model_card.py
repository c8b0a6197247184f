"""Every saved model has a card: its data, settings, scores where an evaluation is attached, and limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cignn import Cohort, CohortClassifier, load_model
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import make_estimator, save_model
from cignn.estimators.model_card import CARD, NO_SCORES
from cignn.evaluation import KFold, Store, bootstrap_intervals, evaluate, write_model_card

LASSO = {"lasso": {"C": 1.0}}


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    names = {"sites": ["A_1", "B <b>"] * 12, "y": ["ill", "well", "well"] * 8}
    return make_cohort(24, 8, n_edges=4, lengths=(30, 40), random_state=0)._with(**names)


@pytest.fixture(scope="module")
def saved(cohort: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = CohortClassifier.make(make_estimator("lasso", C=1.0), connectivity=Connectivity(fisher=True))
    folder = tmp_path_factory.mktemp("card") / "model"
    model.fit(cohort).save(folder)
    return folder


def test_a_card_says_what_the_model_was_made_of_and_what_it_is_not_for(saved: Path) -> None:
    card = (saved / CARD).read_text("utf-8")
    assert "24 graphs of 24 subjects" in card and "Classes: ill 8, well 16." in card
    assert r"Sites: 2 (A\_1 12, B \<b\> 12)" in card, "names of the data are no Markdown and no HTML"
    assert "fisher = True" in card and "Connectivity" in card and "C = 1.0" in card
    assert load_model(saved).classifier_.training_digest_ in card
    assert "not a medical device" in card and "diagnosis, screening" in card
    assert NO_SCORES in card


def test_every_way_of_saving_writes_a_card_and_loading_does_not_ask_for_it(
    cohort: Cohort, saved: Path, tmp_path: Path
) -> None:
    model = load_model(saved)
    expected = model.predict_proba(cohort)
    save_model(model, tmp_path / "again")
    assert (tmp_path / "again" / CARD).read_bytes() == (saved / CARD).read_bytes(), (
        "a loaded model knows as much"
    )
    (tmp_path / "again" / CARD).write_text("edited")
    np.testing.assert_array_equal(load_model(tmp_path / "again").predict_proba(cohort), expected)
    (tmp_path / "again" / CARD).unlink()
    np.testing.assert_array_equal(load_model(tmp_path / "again").predict_proba(cohort), expected)
    model.save(tmp_path / "again", {CARD: "my own"})
    assert (tmp_path / "again" / CARD).read_text() == "my own"
    graphs = make_ba2motifs(20, random_state=0)
    make_estimator("lasso", C=1.0).fit(graphs).save(tmp_path / "graphs")
    assert "- 20 graphs.\n" in (tmp_path / "graphs" / CARD).read_text()


def test_an_evaluation_is_attached_with_its_intervals(cohort: Cohort, saved: Path) -> None:
    before = {file.name: file.read_bytes() for file in saved.iterdir() if file.name != CARD}
    with Store() as store:
        evaluate(LASSO, cohort, KFold(3), store=store, verbose=0)
        said = store.predictions()
    text = write_model_card(saved, said, positive="ill", note="Other settings.").read_text("utf-8")
    found = bootstrap_intervals(said, ["sensitivity"], positive="ill").iloc[0]
    assert f"| sensitivity | {found['value']:.3f} | {found['low']:.3f} to {found['high']:.3f} |" in text
    assert "Positive class: ill." in text and "Other settings." in text and NO_SCORES not in text
    assert "3 splits (cross-validation); 24 subjects" in text
    assert {file.name: file.read_bytes() for file in saved.iterdir() if file.name != CARD} == before
    assert NO_SCORES in write_model_card(saved).read_text("utf-8"), "without one it says so"
    with pytest.raises(ValueError, match="one method, got lasso, gin"):
        write_model_card(saved, pd.concat([said, said.assign(method="gin")]))


def test_scores_as_labels_are_summarised(tmp_path: Path) -> None:
    cohort = make_cohort(24, 8, n_edges=4, data="matrices", random_state=0)
    graphs = ConnectomeGraphs().transform(cohort).with_y(np.linspace(1, 5, 24))
    make_estimator("ridge").fit(graphs).save(tmp_path / "model")
    assert "Scores from 1 to 5, mean 3" in (tmp_path / "model" / CARD).read_text()


def test_steps_of_sites_are_named(cohort: Cohort, tmp_path: Path) -> None:
    model = CohortClassifier.make(make_estimator("lasso", C=1.0), combat=ComBat(()))
    model.fit(cohort).save(tmp_path / "model")
    assert "- ComBat: " in (tmp_path / "model" / CARD).read_text("utf-8")
