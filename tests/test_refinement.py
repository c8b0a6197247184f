"""The refinement: the classifier alone learns again, on the subgraphs of the mask that was kept."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cignn import CIGNNClassifier
from cignn.datasets import make_ba2motifs, make_spurious_motifs
from cignn.estimators import PRESETS
from cignn.estimators.checkpoint import State
from cignn.estimators.ci_gnn_stages import make_stages
from cignn.estimators.network_stack import NetworkStack
from cignn.estimators.training import Stage, expect_better, keep_better
from cignn.estimators.training_loop import TrainingLoop
from cignn.nn import CIGNN, Ensemble, Noise
from cignn.nn.model import mean_weights

SMALL = {"classifier_hidden": (8, 8), "encoder_hidden": (8,), "batch_size": 16, "warm_up": 0.5}
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-3}
GRAPHS = make_spurious_motifs(90, random_state=0)


def fitted(epochs: int, refinement: float, **settings: Any) -> CIGNNClassifier:
    """One network of four epochs and those of the refinement."""
    given = SMALL | {"refinement": refinement, **settings}
    return CIGNNClassifier("motif", epochs=epochs, n_estimators=1, settings=given, random_state=0).fit(GRAPHS)


def test_the_mask_stays_and_the_classifier_learns() -> None:
    plain, refined = fitted(4, 0.0), fitted(6, 1 / 3)
    stages = refined.history_["stage"].tolist()
    assert stages == ["warm-up"] * 2 + ["classification"] * 2 + ["refinement"] * 2
    assert refined.best_epoch_ > 4, "few validation graphs: nothing is clearly better"
    for mine, before in zip(
        refined.explain(GRAPHS).edge_weights, plain.explain(GRAPHS).edge_weights, strict=True
    ):
        np.testing.assert_allclose(mine, before, rtol=1e-6)
    assert np.abs(refined.predict_proba(GRAPHS) - plain.predict_proba(GRAPHS)).max() > 1e-4


def test_the_classifier_goes_on_from_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the rest of the network from the epoch kept."""
    warm, refined = fitted(4, 0.0), {}
    step, steps = NetworkStack.step, iter(range(10**6))
    per_epoch = -(-len(GRAPHS) * 9 // 10 // 16)

    def spy(stack: NetworkStack, *args: Any, **more: Any) -> None:
        if next(steps) < 4 * per_epoch:
            step(stack, *args, **more)
        else:
            refined.setdefault("start", stack.state_of(0, average=True))

    states: dict[int, dict[str, torch.Tensor]] = {}
    remember = NetworkStack.state_of

    def record(stack: NetworkStack, row: int, average: bool = False) -> dict[str, torch.Tensor]:
        found = remember(stack, row, average)
        states.setdefault(len(states), found)
        return found

    monkeypatch.setattr(NetworkStack, "step", spy)
    monkeypatch.setattr(NetworkStack, "state_of", record)
    fitted(6, 1 / 3)
    first, start, kept = states[0], refined["start"], warm.network_.state_dict()
    assert all(torch.equal(start[name], first[name]) for name in start if name.startswith("classifier."))
    for name in start:
        if name.startswith(("encoder.", "subgraph.")):
            torch.testing.assert_close(start[name], kept[name])
    assert any(not torch.equal(first[name], kept[name]) for name in first if name.startswith("classifier."))


def test_only_the_classifier_is_trained_and_nothing_is_drawn() -> None:
    torch.manual_seed(0)
    network = CIGNN(1, 2, encoder="gin", mask_by="pairs", dropout=0.0, cut=True, node_weights=True).train()
    network.noisy = False
    batch = replace(GRAPHS[:8].batch(), y=torch.arange(8) % 2)
    found = []
    for seed in (0, 1):
        losses = network.refinement_losses(batch, Noise([torch.Generator().manual_seed(seed)]))
        assert losses.keys() == {"classification", "cut"}
        found.append(losses["classification"].detach())
        (losses["classification"] + losses["cut"]).backward()
    torch.testing.assert_close(*found)
    others = [p for name, p in network.named_parameters() if not name.startswith("classifier.")]
    assert all(p.grad is None for p in others)
    assert all(p.grad is not None for p in network.classifier.parameters())


@pytest.mark.parametrize("settled_from", [0, 1])
@pytest.mark.parametrize(
    ("n_graphs", "refined", "kept"), [(1000, 0.89, 2), (1000, 0.85, 1), (17, 0.8, 2), (17, 0.6, 1)]
)
def test_it_is_kept_unless_what_was_kept_is_clearly_better(
    n_graphs: int, refined: float, kept: int, settled_from: int
) -> None:
    """Of few validation graphs some more are no clear difference, also to an epoch of an unsettled mask."""
    before = Stage("before", 1, [], lambda batch, noise: {}, {}, choose_from=0, settled_from=settled_from)
    stage = Stage("refinement", 1, [], lambda batch, noise: {}, {}, choose_from=0)
    one: Any = SimpleNamespace(
        state=State(), validation=range(n_graphs), stages=[before, stage], stage_at=lambda epoch: (epoch, 0)
    )
    for number, accuracy in enumerate((0.9, refined)):
        one.state.epoch = number + 1
        scores = {"accuracy": accuracy, "loss": 0.0, "price": 0.0, "cut_accuracy": 0.5}
        keep_better(one.state, one.stages[number], 0, scores, dict, n_graphs)
        if number == 0:
            expect_better(one)
    assert one.state.best_epoch == kept


@pytest.mark.parametrize(("refined", "kept"), [(0.9, 6), (0.2, 4)])
def test_training_prefers_its_last_epochs(refined: float, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine validation graphs: a half of them is a clear difference, a tenth is none."""
    evaluate = TrainingLoop._evaluate
    accuracy = iter([1.0, 1.0, 1.0, 1.0, 0.99, refined])

    def spy(loop: TrainingLoop) -> list[dict[str, float]]:
        assert len(evaluate(loop)) == 1
        return [{"accuracy": next(accuracy), "loss": 0.0, "price": 0.0, "cut_accuracy": 1.0}]

    monkeypatch.setattr(TrainingLoop, "_evaluate", spy)
    assert fitted(6, 1 / 3).best_epoch_ == kept


def test_every_second_graph_is_cut_and_nothing_else_is_asked() -> None:
    settings = {**PRESETS["motif"], "epochs": 20}
    before, stage = make_stages(settings, CIGNN(3, 2, mask_by="pairs", cut=True))[-2:]
    assert stage.weights == {"classification": 1.0, "cut": 4 * before.weights["consistency"]}
    assert stage.patience is None and stage.settled_from == 1 and stage.epochs == 3
    by_loss = make_stages({**settings, "choose_by": "loss"}, CIGNN(3, 2, mask_by="pairs", cut=True))[-1]
    assert by_loss.settled_from == 0, "no loss is clearly better"


def test_a_training_without_room_for_it_has_none() -> None:
    assert fitted(2, 0.9).history_["stage"].tolist() == ["classification", "refinement"]
    assert fitted(1, 0.9).history_["stage"].tolist() == ["classification"]


# ------------------------------------------------------------------------- ensembles


def test_an_ensemble_averages_log_odds_of_weights() -> None:
    """A network that tells nothing apart does not change the order; what is no edge has no weight."""
    sure, none = torch.tensor([0.0, 0.02, 0.5, 0.98]), torch.tensor([0.0, 0.5, 0.5, 0.5])
    mean = mean_weights([sure, none])
    assert mean[0] == 0 and mean[2] == 0.5
    torch.testing.assert_close(mean.logit()[1:], sure.logit()[1:] / 2)
    torch.testing.assert_close(mean_weights([sure, sure]), sure)
    torch.testing.assert_close(mean_weights([torch.zeros(1), torch.ones(1)]), torch.full((1,), 0.5), **CLOSE)


def test_two_that_agree_outvote_one_that_is_undecided() -> None:
    right, wrong = torch.tensor([0.03, 0.97]), torch.tensor([0.55, 0.45])
    mean = mean_weights([right, wrong, right])
    assert mean[0] < 0.2 and mean[1] > 0.8


def test_the_networks_of_a_classifier_are_joined_so() -> None:
    graphs = make_ba2motifs(30, random_state=0)
    model = CIGNNClassifier("motif", epochs=2, n_estimators=3, settings=SMALL, random_state=0).fit(graphs)
    network, batch = model.network_, graphs.batch()
    assert isinstance(network, Ensemble)
    with torch.no_grad():
        own = [member(batch).edge_weights for member in network.networks()]
        torch.testing.assert_close(network(batch).edge_weights, mean_weights(own))
