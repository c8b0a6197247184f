"""What the README promises, at the size it promises it: slow tests, one training each.

Far above chance and below what is measured: how good the figures are, `benchmarks/` says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from cignn import CIGNNClassifier, GraphSet
from cignn.datasets import load_ba2motifs, make_ba2motifs, make_spurious_motifs
from cignn.evaluation import explanation_roc_auc

pytestmark = pytest.mark.slow


def assert_found(graphs: GraphSet) -> None:
    train, test = train_test_split(np.arange(len(graphs)), test_size=0.1, stratify=graphs.y, random_state=0)
    model = CIGNNClassifier(n_estimators=1, random_state=0).fit(graphs[train])
    assert model.score(graphs[test], graphs.y[test]) >= 0.9
    areas = explanation_roc_auc(model.explain(graphs[test]))
    for label in (0, 1):  # each has evidence of its own: neither is called by the absence of the other's
        assert np.nanmean(areas[graphs.y[test] == label]) >= 0.75


def test_the_motif_preset_finds_the_motifs() -> None:
    assert_found(make_ba2motifs(1000, random_state=0))


@pytest.mark.data
def test_the_motif_preset_finds_the_motifs_of_the_published_file(real_data: Callable[[str], Path]) -> None:
    assert_found(load_ba2motifs(real_data("ba2motifs.npz")))


def test_the_motif_preset_does_not_follow_the_base() -> None:
    """Bases go along with nine labels in ten while training and with none while testing."""
    graphs = make_spurious_motifs(900, bias=0.9, random_state=0)
    model = CIGNNClassifier(n_estimators=1, random_state=0).fit(graphs[graphs.groups == "train"])
    test = graphs[graphs.groups == "test"]
    assert model.score(test, test.y) >= 0.5  # a model of the base alone scores a third


def test_the_independence_term_makes_alpha_and_beta_less_dependent() -> None:
    graphs = make_ba2motifs(300, random_state=0)
    hsic = {}
    for independence in (True, False):
        model = CIGNNClassifier(
            "paper",
            epochs=41,
            settings={"generative_epochs": 40, "causal_weight": 0.1, "independence": independence},
            random_state=0,
        ).fit(graphs)
        hsic[independence] = model.history_["hsic"]
    assert hsic[True][35:40].mean() < hsic[False][35:40].mean()
    assert hsic[True][35:40].mean() < hsic[True][0]
