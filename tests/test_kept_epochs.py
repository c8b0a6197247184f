"""What must hold for what a training tells of the epochs that it kept."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cignn import GraphSet
from cignn.estimators import KeptEpochWarning, make_estimator
from cignn.estimators.kept_epochs import told_by_epochs, told_by_epochs_of

EPOCHS: dict[str, tuple[tuple[Any, ...], str | None]] = {
    "one of the first": (([2], 60, True), "kept epoch 2 of 60: the mask hardly moved from its start"),
    "of a network without a mask": (([3], 60, False), "kept epoch 3 of 60: no later one did better"),
    "in the first twentieth": (([10], 200, True), "kept epoch 10 of 200"),
    "after that": (([11], 200, True), None),
    "soon after a first stage": (([152], 300, True, 150), "kept epoch 152 of 300: the mask"),
    "later": (([20], 60, True), None),
    "the last": (([60], 60, True), "kept the last epoch (60): more epochs may help."),
    "the last, at a rate that falls to it": (([60], 60, True, 0, True), None),
    "one of the first, at such a rate": (([2], 60, True, 0, True), "kept epoch 2 of 60"),
    "one of five": (([1, 20, 30, 60, 25], 60, True), None),
    "three of five": (([1, 2, 30, 3, 25], 60, True), "kept epochs 1, 2, 30, 3, 25 of 60"),
    "the last of three of five": (([60, 60, 30, 60, 2], 60, True), "(60) of 3 of 5 networks: more epochs"),
    "few epochs were asked for": (([1], 9, True), None),
}


@pytest.mark.parametrize(("given", "expected"), EPOCHS.values(), ids=EPOCHS.keys())
def test_the_epochs_tell(given: tuple[Any, ...], expected: str | None) -> None:
    told = told_by_epochs(*given)
    assert told is None if expected is None else told is not None and expected in told


def test_readers_of_a_mask_get_no_advice_for_training() -> None:
    early, last = (SimpleNamespace(best_epoch_=epoch, settings_={"epochs": 60}) for epoch in (2, 60))
    assert told_by_epochs_of(early, mask_only=True) == told_by_epochs_of(early) is not None
    assert told_by_epochs_of(last, mask_only=True) is None is not told_by_epochs_of(last)


@pytest.mark.medium
def test_fit_warns_of_an_epoch_at_either_end_and_not_in_between() -> None:
    upper = np.triu(np.random.default_rng(0).normal(size=(60, 8, 8)), 1)
    upper[::2, 0, 1:4] += 4
    graphs = GraphSet.from_arrays(upper + upper.transpose(0, 2, 1), y=np.arange(60) % 2, aligned=True)
    wrong = graphs[40:].with_y(1 - graphs.y[40:])  # whatever is learnt makes these worse
    quick = {"epochs": 12, "n_estimators": 1, "learning_rate": 0.01, "random_state": 0}
    network = make_estimator("ci-gnn", preset="connectome", **quick)
    with pytest.warns(KeptEpochWarning, match=r"kept epoch [123] of 12: the mask hardly moved") as caught:
        network.fit(graphs[:40], eval_set=wrong)
    assert caught[0].filename == __file__ and issubclass(KeptEpochWarning, ConvergenceWarning)
    with pytest.warns(KeptEpochWarning, match=r"kept the last epoch \(12\): more epochs may help"):
        clone(network).set_params(settings={"learning_rate": 1e-3}).fit(graphs[:40], eval_set=graphs[40:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(network).set_params(epochs=9).fit(graphs[:40], eval_set=wrong)
