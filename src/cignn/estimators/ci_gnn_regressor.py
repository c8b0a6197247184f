"""`CIGNNRegressor`: CI-GNN for scores, behind fit, predict and explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from cignn._random import RandomState
from cignn.estimators.ci_gnn import CIGNNEstimator
from cignn.estimators.ci_gnn_settings import as_settings
from cignn.estimators.neural_regressor import NeuralGraphRegressor
from cignn.estimators.score_line import LINE_RULE
from cignn.estimators.settings import is_auto
from cignn.estimators.training import Stage
from cignn.graphs import GraphSet
from cignn.nn.score_ci_gnn import ScoreCIGNN

# what differs from the presets: R² has no ties that the price could break, pooled sums tell classes, and by
# how much a loss is clearly better, as the refinement asks, is not known
OF_SCORES = {"choose_by": "loss", "n_pooled": 0, "refinement": 0.0}
MORE_EPOCHS = {"connectome": 5 / 2}  # than for classes: the error of a score falls for longer


class CIGNNRegressor(CIGNNEstimator, NeuralGraphRegressor):
    """Predict a score of graphs, such as age or a symptom score, and show which edges made it, by CI-GNN.

    The network is that of `CIGNNClassifier` with one output. It is trained by the squared error of the
    standardised score, and the causal terms take a Gaussian kernel on the score. Networks that are stopped
    early predict too near the mean; a line fitted to predictions of their validation graphs stretches them.
    Contributions of edges are in units of the score; base and contributions of a graph add up to its
    prediction.

    Parameters
    ----------
    preset : {"auto", "motif", "connectome", "paper"}, default="auto"
        Named set of values for all settings, see `CIGNNClassifier`. Three settings differ from theirs: the
        epoch is chosen by the loss (``choose_by``), there are no pooled sums (``n_pooled``) and there is no
        `refinement`.
    settings : CIGNNSettings, mapping or None, default=None
        Settings that replace those of the preset, such as ``{"dropout": 0.3}``; see `CIGNNSettings`. In a
        grid search they are named ``settings__dropout``. "accuracy" of ``choose_by`` is R² here.
    epochs : int or "auto", default="auto"
        Number of training epochs, over all stages. "auto" is 150 for "connectome", where training ends
        earlier if it does not improve, and as for `CIGNNClassifier` otherwise.
    n_estimators : int or "auto", default="auto"
        Number of networks in the ensemble. Their predictions and the log-odds of their
        edge weights are averaged. "auto" is 5 for
        "connectome", 5 for "motif" and 1 for "paper". Each has its own validation graphs unless ``fit`` gets
        an ``eval_set``.
    target : str, default="score"
        Name of the score in explanations and reports.
    validation_fraction : float, default=0.1
        Share of the training graphs set aside in ``fit``, stratified by score. The epoch that is best on them
        is kept.
    checkpoint : str, Path or None, default=None
        File written after every epoch. An interrupted ``fit`` resumes from it.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to train; "auto" uses CUDA if it is available.
    verbose : int, default=0
        Whether to show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Source of all randomness.

    Attributes
    ----------
    target_scale_ : Scale
        Mean and standard deviation of the training scores.
    score_line_ : ScoreLine
        Slope and intercept of the line from what the networks give to the standardised score, with the
        measured slope and its standard error. The slope is 1 where no more is certain.
    settings_ : dict
        The settings used, with the ``preset`` that was picked.
    network_ : cignn.nn.ScoreCIGNN
        The trained network, or an ensemble of them.
    history_ : DataFrame
        One row per epoch: every loss term, the dependence of α and β (HSIC) and the validation scores.
    best_epoch_ : int or list of int
        The epoch that was kept; one per network in an ensemble.

    See Also
    --------
    CIGNNClassifier : The same for classes.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import CIGNNRegressor
    >>> from cignn.datasets import make_ba2motifs
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> degrees = np.array([graph.weights.sum(0).max() for graph in graphs])
    >>> model = CIGNNRegressor(epochs=1, target="degree", random_state=0).fit(graphs, degrees)
    >>> explanations = model.explain(graphs)
    >>> np.allclose(explanations.log_odds, model.predict(graphs), rtol=1e-4)
    True
    """

    _network = ScoreCIGNN

    def __init__(
        self,
        preset: str = "auto",
        *,
        settings: Mapping[str, Any] | None = None,
        epochs: int | str = "auto",
        n_estimators: int | str = "auto",
        target: str = "score",
        validation_fraction: float = 0.1,
        checkpoint: str | Path | None = None,
        device: str = "auto",
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.preset = preset
        self.settings = settings
        self.epochs = epochs
        self.n_estimators = n_estimators
        self.target = target
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def resolved_defaults(self) -> dict[str, Any]:
        """Return the values that the preset and "auto" stand for, and how predictions are stretched.

        Returns
        -------
        dict of str to dict
            Values by preset; "score_line" has the rule of the line, see `score_line_`.
        """
        return super().resolved_defaults() | {"score_line": LINE_RULE}

    def _resolved(self, params: Mapping[str, Any], aligned: bool) -> dict[str, Any]:
        settings = super()._resolved(params, aligned) | OF_SCORES | dict(as_settings(params["settings"]))
        if is_auto(params["epochs"]):
            more = MORE_EPOCHS.get(settings["preset"])
            settings["epochs"] = round(more * settings["epochs"]) if more else settings["epochs"]
        return settings

    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        settings = super()._settings(graphs)
        if settings["n_pooled"]:
            raise ValueError(
                f"n_pooled counts sums that tell classes, a regressor has none, got {settings['n_pooled']}; "
                "leave it out."
            )
        return settings

    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        # cut graphs are part of the loss; to choose the epoch by their price alone would empty the mask
        return [replace(stage, cut=None) for stage in super()._stages(settings, network)]
