"""`CIGNNRegressor`: CI-GNN for scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from cignn import CIGNNRegressor, Cohort, CohortRegressor, GraphSet, load_model, save_model
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import make_estimator
from cignn.estimators.checkpoint import Checkpoint
from cignn.estimators.stacks import Fit, fit_together
from cignn.evaluation import KFold, evaluate
from cignn.information import gaussian_gram
from cignn.nn import ScoreCIGNN

QUICK: dict[str, Any] = {"epochs": 3, "random_state": 0, "device": "cpu"}
SMALL = {"encoder_hidden": (8,), "classifier_hidden": (8,), "head_hidden": (8,)}


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return make_cohort(48, 10, n_edges=4, data="matrices", score=True, random_state=0)


@pytest.fixture(scope="module")
def brains(cohort: Cohort) -> GraphSet:
    return make_connectome_pipeline(CIGNNRegressor())[:-1].fit_transform(cohort, cohort.y)


@pytest.fixture(scope="module")
def motifs() -> GraphSet:
    graphs = make_ba2motifs(30, random_state=0)
    return graphs.with_y(np.array([graph.weights.sum() for graph in graphs]) / 3)


@pytest.fixture(scope="module")
def fitted(brains: GraphSet) -> CIGNNRegressor:
    return CIGNNRegressor(n_estimators=2, target="BDI", **QUICK).fit(brains)


def test_presets_are_picked_by_the_graphs(fitted: CIGNNRegressor, motifs: GraphSet) -> None:
    assert fitted.settings_["preset"] == "connectome" and fitted.settings_["choose_by"] == "loss"
    model = CIGNNRegressor(settings=SMALL, **QUICK).fit(motifs)
    assert model.settings_["preset"] == "motif"
    paper = CIGNNRegressor("paper", settings=SMALL | {"generative_epochs": 1}, **QUICK).fit(motifs)
    assert paper.settings_["mask"] == "soft" and paper.predict(motifs).shape == (30,)


@pytest.mark.parametrize("kind", ["ensemble of aligned graphs", "motif"])
def test_contributions_add_up_to_the_prediction(
    kind: str, fitted: CIGNNRegressor, brains: GraphSet, motifs: GraphSet
) -> None:
    model, graphs = fitted, brains
    if kind == "motif":
        model, graphs = CIGNNRegressor(settings=SMALL, **QUICK).fit(motifs), motifs
    explanations = model.explain(graphs)
    predictions = model.predict(graphs)
    np.testing.assert_allclose(explanations.log_odds, predictions, rtol=1e-4, atol=1e-4 * graphs.y.std())
    np.testing.assert_allclose(explanations.predictions, predictions, rtol=1e-4)
    assert predictions.std() > 0 and explanations.unit == model.target
    assert set(explanations[0].table()["role"]) <= {"raises", "lowers", ""}
    alone = model.explain(graphs, contributions=False)
    assert alone.edge_contributions is None


def test_an_ensemble_predicts_the_mean_of_its_networks(fitted: CIGNNRegressor, brains: GraphSet) -> None:
    with torch.no_grad():
        members = [member.eval()(brains.batch()).logits[:, 0] for member in fitted.network_.networks()]
    mean, scale = fitted.target_scale_
    expected = mean + scale * fitted.score_line_.of(torch.stack(members).mean(0).numpy())
    np.testing.assert_allclose(fitted.predict(brains), expected, rtol=1e-5)


def test_the_units_of_the_score_do_not_matter(fitted: CIGNNRegressor, brains: GraphSet) -> None:
    other = clone(fitted).fit(brains, 1000 - 3 * brains.y)  # another direction is another network
    same = clone(fitted).fit(brains, 1000 + 3 * brains.y)
    np.testing.assert_allclose(same.predict(brains), 1000 + 3 * fitted.predict(brains), rtol=1e-4)
    assert other.target_scale_.scale == pytest.approx(3 * fitted.target_scale_.scale)
    assert same.target_scale_.mean == pytest.approx(1000 + 3 * brains.y.mean())


def test_the_same_seed_gives_the_same_numbers(fitted: CIGNNRegressor, brains: GraphSet) -> None:
    assert (clone(fitted).fit(brains).predict(brains) == fitted.predict(brains)).all()


def test_a_network_does_not_depend_on_its_company(fitted: CIGNNRegressor, brains: GraphSet) -> None:
    together = [clone(fitted), clone(fitted).set_params(random_state=1)]
    assert fit_together([Fit(one, brains) for one in together]) == [None, None]
    np.testing.assert_allclose(together[0].predict(brains), fitted.predict(brains), rtol=1e-4)


def test_saved_models_are_the_same(fitted: CIGNNRegressor, brains: GraphSet, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.predict(brains) == fitted.predict(brains)).all()
    assert loaded.score_line_[:2] == fitted.score_line_[:2]
    assert loaded.target == "BDI" and loaded.target_scale_ == fitted.target_scale_
    assert loaded.trained_on(brains).all()
    np.testing.assert_array_equal(loaded.explain(brains).log_odds, fitted.explain(brains).log_odds)


def test_a_cohort_is_predicted_explained_and_saved(cohort: Cohort, tmp_path: Path) -> None:
    model = CohortRegressor.make(CIGNNRegressor(n_estimators=1, **QUICK)).fit(cohort)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, CohortRegressor) and loaded.trained_on(cohort).all()
    predictions = loaded.predict(cohort)
    assert (predictions == model.predict(cohort)).all()
    np.testing.assert_allclose(loaded.explain(cohort).log_odds, predictions, rtol=1e-4)
    with pytest.raises(ValueError, match="the model predicts a score, got 1"):
        loaded.explain(cohort, target=1)


def test_a_checkpoint_continues_to_the_same_numbers(
    brains: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"n_estimators": 1, "settings": {"patience": None}} | QUICK | {"epochs": 4}
    whole = CIGNNRegressor(**settings).fit(brains)
    model, saves, save = CIGNNRegressor(checkpoint=tmp_path / "training", **settings), [], Checkpoint.save

    def interrupted(*args: Any, **kwargs: Any) -> None:
        save(*args, **kwargs)
        saves.append(1)
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", interrupted)
    assert clone(model).fit(brains).interrupted_ and len(saves) == 2
    resumed = clone(model).fit(brains)
    assert len(saves) == 4 and not resumed.interrupted_
    np.testing.assert_allclose(resumed.predict(brains), whole.predict(brains), rtol=1e-6)
    with pytest.raises(ValueError, match="other"):
        clone(model).fit(brains, brains.y[::-1])


def test_the_best_epoch_is_that_of_the_smallest_loss(brains: GraphSet) -> None:
    held_out = brains[:10]
    model = CIGNNRegressor(n_estimators=1, **QUICK).fit(brains[10:], eval_set=(held_out, held_out.y))
    history = model.history_
    cost = history["validation_loss"] + history["validation_price"]
    assert model.best_epoch_ == history["epoch"][cost.idxmin()]
    row = history.set_index("epoch").loc[model.best_epoch_]
    scale = model.target_scale_.scale
    line = model.score_line_
    given = (model.predict(held_out) - model.target_scale_.mean - scale * line.intercept) / line.slope
    error = np.square((held_out.y - model.target_scale_.mean - given) / scale).mean()
    assert row["validation_loss"] == pytest.approx(error, rel=1e-4)
    assert row["validation_r2"] == pytest.approx(1 - error, rel=1e-3, abs=1e-5)


def test_settings_can_be_searched(brains: GraphSet) -> None:
    model = CIGNNRegressor(n_estimators=1, **QUICK)
    search = GridSearchCV(model, {"settings__dropout": [0.2, 0.5]}, cv=2).fit(brains, brains.y)
    assert search.best_params_["settings__dropout"] in (0.2, 0.5)
    assert make_estimator("ci-gnn-regressor", dropout=0.3).settings["dropout"] == 0.3


def test_what_cannot_be_is_refused(brains: GraphSet) -> None:
    with pytest.raises(ValueError, match="n_pooled counts sums that tell classes, a regressor has none"):
        CIGNNRegressor(settings={"n_pooled": 4}, **QUICK).fit(brains)
    with pytest.raises(ValueError, match="must hold numbers, the scores to predict"):
        CIGNNRegressor(**QUICK).fit(brains, ["a"] * 48)
    with pytest.raises(ValueError, match="at least 4 graphs with scores"):
        CIGNNRegressor(**QUICK).fit(brains[:3])


def test_evaluate_trains_and_scores_it(cohort: Cohort) -> None:
    methods = {"ci-gnn-regressor": {"n_estimators": 1, "epochs": 2}, "mean": None}
    results = evaluate(methods, cohort, KFold(2), verbose=0)
    assert set(results["metric"]) == {"mae", "r2", "r", "spearman"} and results["error"].isna().all()


# ------------------------------------------------------------------------ network


def _network(**settings: Any) -> ScoreCIGNN:
    torch.manual_seed(0)
    return ScoreCIGNN(10, encoder="gin", encoder_hidden=(8,), classifier_hidden=(8,), **settings)


def test_the_causal_terms_have_a_gaussian_kernel_on_the_score(motifs: GraphSet) -> None:
    network = _network()
    scores = torch.linspace(-2, 2, 30)
    batch = motifs.batch()
    batch = type(batch).of(batch.tensors() | {"y": scores}, batch.padded)
    torch.testing.assert_close(network.target_gram(None, batch), gaussian_gram(scores[:, None]))
    logits = torch.randn(30, 1)
    torch.testing.assert_close(network.target_gram(logits, batch), gaussian_gram(logits))
    for effect in ("cmi", "cmi_prediction", "mi"):
        losses = _network(causal_effect=effect).classification_losses(batch, keep=0.5)
        assert losses["causal"].isfinite() and losses["independence"].isfinite()


def test_losses_of_scores(motifs: GraphSet) -> None:
    network, batch = _network(rest=True), motifs.batch()
    scores = torch.randn(30)
    batch = type(batch).of(batch.tensors() | {"y": scores}, batch.padded)
    logits = torch.randn(30, 1)
    error = float((logits[:, 0] - scores).square().mean())
    assert float(network.prediction_loss(logits, batch)) == pytest.approx(error)
    assert network.rest_loss(torch.zeros(4, 1)) == 0  # what knows nothing predicts the mean
    losses = network.classification_losses(batch, keep=0.5)
    sum(value for name, value in losses.items() if name != "hsic").backward()
    for name, parameter in network.named_parameters():
        if name.startswith(("subgraph", "classifier")):
            assert parameter.grad is not None and parameter.grad.isfinite().all(), name
