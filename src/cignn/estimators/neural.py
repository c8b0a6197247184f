"""What every classifier and regressor of graphs with a network inside shares: fit, save, load."""

from __future__ import annotations

import json
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from torch import nn

from cignn._arrays import digest
from cignn._random import as_random_state, torch_seed
from cignn.estimators.checkpoint import Checkpoint, checkpoint_path, member_path, saved_seed
from cignn.estimators.feeds import BATCH_CELLS, Data
from cignn.estimators.graph_estimator import (
    EvalSet,
    GraphEstimator,
    check_features,
    check_nodes,
    size_of,
    with_targets,
)
from cignn.estimators.kept_epochs import KeptEpochWarning, told_by_epochs_of
from cignn.estimators.persistence import WEIGHTS, Saved, read_weights, weight_bytes
from cignn.estimators.set_statistics import SetStatistics, store_statistics
from cignn.estimators.settings import rules, within
from cignn.estimators.stacks import Fit, fit_together
from cignn.estimators.subjects import set_aside
from cignn.estimators.training import Stage, Training, evaluation_mode, resolve_device
from cignn.graphs import GraphSet
from cignn.nn.model import Ensemble, GraphModel, SingleModel

# settings that may differ within a stack, and of which only whether they are 0 matters to the program
NUMBERS = {"learning_rate", "weight_decay", "mask_lr_factor", "ema_decay", "patience", "n_estimators"}
SWITCHES = {"causal_weight", "reconstruction", "rest_weight", "information_weight", "variance_weight"}
LARGEST_TRIAL = 1000  # nodes: of more, a graph would cost memory that nobody has asked for


class Target(NamedTuple):
    """What is learnt of some graphs.

    labels : (g,) as they were given; values : (g,) what the network learns, numbers of classes or
    standardised scores; strata : (g,) numbers of classes, or of strata of similar scores, which validation
    graphs are drawn from; names : (strata,) for messages; about : what the estimator keeps of it; n_outputs :
    of the network.
    """

    labels: np.ndarray
    values: np.ndarray
    strata: np.ndarray
    names: np.ndarray
    about: Any
    n_outputs: int


@dataclass
class Plan:
    """What a ``fit`` has to train, and what the estimator remembers of it.

    kind : networks of the same kind can be trained in one stack; None where they cannot.
    """

    trainings: list[Training]
    kind: str | None
    graphs: GraphSet
    target: Target
    settings: dict[str, Any]
    validation: list[GraphSet]


class NeuralGraphEstimator(GraphEstimator):
    """Base of the classifiers and regressors of graphs around a torch network.

    A subclass stores its parameters, checks and resolves them in ``_settings``, makes its network in
    ``_build`` and says in ``_stages`` how to train it. `NeuralGraphClassifier` and `NeuralGraphRegressor` say
    what is learnt.
    """

    validation_fraction: float
    checkpoint: str | Path | None
    device: str
    verbose: int

    network_: GraphModel
    history_: pd.DataFrame
    best_epoch_: int | list[int]
    interrupted_: bool

    @abstractmethod
    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        """Check the parameters and return them with "auto" resolved for these graphs."""

    @abstractmethod
    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> SingleModel:
        """Make the network."""

    @abstractmethod
    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        """Say how the network is trained."""

    @abstractmethod
    def _target(self, X: Any, y: Any) -> tuple[GraphSet, Target]:
        """Check graphs and what is to be learnt of them."""

    @abstractmethod
    def _held_out(self, X: Any, y: Any, target: Target) -> tuple[GraphSet, np.ndarray]:
        """Check validation graphs and return what the network would learn of them."""

    @abstractmethod
    def _weights(
        self, target: Target, training: Data, validation: Data
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What a training and a validation graph of each class counts, (classes,); None for scores."""

    @abstractmethod
    def _learnt(self, target: Target) -> None:
        """Remember what was learnt."""

    @abstractmethod
    def _n_outputs(self) -> int:
        """How many numbers the network gives for a graph."""

    @abstractmethod
    def _decided(self, logits: torch.Tensor) -> torch.Tensor:
        """(b, outputs) logits as what they are read as."""

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        X: GraphSet,
        y: Sequence | np.ndarray | None = None,
        eval_set: EvalSet = None,
    ) -> Self:
        """Train on graphs with labels, or scores.

        Parameters
        ----------
        X : GraphSet
            Graphs to learn from.
        y : array-like of shape (n_graphs,), default=None
            Labels or scores; those of `X` by default.
        eval_set : GraphSet or tuple of GraphSet and labels, default=None
            Validation graphs, on which the best epoch is chosen. By default a share ``validation_fraction``
            of `X` is set aside, stratified by label or score; the graphs of a subject (``meta["subject"]``)
            stay together.

        Returns
        -------
        NeuralGraphEstimator
            The fitted estimator.

        Warns
        -----
        KeptEpochWarning
            If the epoch kept is one of the first, or the last one allowed.
        """
        (failure,) = fit_together([Fit(self, X, y, eval_set)])
        if failure is not None:
            raise failure
        told = told_by_epochs_of(self)
        if told is not None:
            warnings.warn(told, KeptEpochWarning, stacklevel=2)
        return self

    def _plan(self, X: GraphSet, y: Sequence | np.ndarray | None, eval_set: EvalSet) -> Plan:
        """Check the arguments of ``fit`` and make what has to be trained."""
        graphs, target = self._target(X, y)
        settings = self._settings(graphs)
        device = resolve_device(self.device)
        path = checkpoint_path(self.checkpoint)
        members = _members(settings)
        seed = self._seed(member_path(path, 0, members))
        data = Data(graphs, np.arange(len(graphs)), target.values, BATCH_CELLS[device.type])
        facts, trainings = SetStatistics(graphs), []
        for member in range(members):
            parts = self._validation(data, target, eval_set, seed + member)
            place = member_path(path, member, members)
            one = self._training(*parts, settings, facts, target, seed + member, device, place)
            trainings.append(one)
        lengths = {one.training.length(settings["batch_size"]) for one in trainings}
        shapes = (graphs.n_features, target.n_outputs, *lengths, str(device))
        even = len(lengths) == 1 and None not in lengths
        kind = digest(type(self).__name__, _program(settings), shapes) if even else None
        return Plan(trainings, kind, graphs, target, settings, _graphs_of(eval_set))

    def _accept(self, plan: Plan) -> None:
        """Become what was trained; networks that Ctrl-C has left without weights are left out."""
        trained = [one for one in plan.trainings if one.error is None]
        failed = [one.error for one in plan.trainings if one.error is not None]
        wrong = [error for error in failed if not isinstance(error, KeyboardInterrupt)]
        interrupted = len(wrong) < len(failed) or any(one.state.interrupted for one in plan.trainings)
        if wrong and interrupted:
            raise KeyboardInterrupt from wrong[0]
        if wrong or not trained:
            raise failed[0]
        self.interrupted_ = interrupted
        if failed:
            plan.settings["n_estimators"] = len(trained)
        self.network_ = _joined([one.network for one in trained])
        self._learnt(plan.target)
        self.settings_ = plan.settings
        self._remember(plan.graphs, plan.target.labels, *plan.validation)
        tables = [pd.DataFrame(one.state.history) for one in trained]
        best = [one.state.best_epoch for one in trained]
        if len(trained) > 1:
            tables = [table.assign(member=member) for member, table in enumerate(tables)]
        self.history_ = pd.concat(tables, ignore_index=True)
        self.best_epoch_ = best if len(trained) > 1 else best[0]
        self._finish(trained)

    def _finish(self, trained: Sequence[Training]) -> None:
        """Learn what follows from the networks and their validation graphs."""

    def _training(
        self,
        training: Data,
        validation: Data,
        settings: dict[str, Any],
        facts: SetStatistics,
        target: Target,
        seed: int,
        device: torch.device,
        checkpoint: Path | None,
    ) -> Training:
        """Make one network and say how it is trained."""
        with torch_seed(seed, device):
            network = self._build(settings, training.graphs.n_features, target.n_outputs)
        weight, counts = self._weights(target, training, validation)
        store_statistics(network, facts, training, weight)
        network.to(device)
        kept = None
        if checkpoint is not None:  # to read all data for a key takes time: only where it is needed
            sets = [(part.graphs.digest(), part.rows, part.y.tolist()) for part in (training, validation)]
            key = digest(settings, seed, [] if weight is None else weight.tolist(), *sets[0], *sets[1])
            kept = Checkpoint(checkpoint, key, seed)
        return Training(
            network,
            self._stages(settings, network),
            training,
            validation,
            counts,
            seed,
            settings["batch_size"],
            settings["learning_rate"],
            settings["weight_decay"],
            settings["ema_decay"],
            kept,
        )

    def _seed(self, checkpoint: Path | None) -> int:
        """Draw the seed of a training; one without a random_state goes on with that of its checkpoint."""
        saved = None if checkpoint is None or self.random_state is not None else saved_seed(checkpoint)
        return int(as_random_state(self.random_state).randint(2**31 - 1)) if saved is None else saved

    def _validation(self, data: Data, target: Target, eval_set: EvalSet, seed: int) -> tuple[Data, Data]:
        """Return training and validation graphs."""
        graphs, values = data.graphs, data.y
        if eval_set is not None:
            pair = eval_set if isinstance(eval_set, tuple) else (eval_set, None)
            if len(pair) != 2:
                raise ValueError(f"eval_set must be graphs or (graphs, labels), got {len(pair)} things.")
            held_out = with_targets(pair[0], pair[1])[0].with_features(graphs.feature_names)
            check_features(type(self).__name__, held_out, graphs.n_features)
            check_nodes(type(self).__name__, held_out, size_of(graphs), graphs.node_names)
            _, held_values = self._held_out(pair[0], pair[1], target)
            return data, Data(held_out, np.arange(len(held_out)), held_values)
        within({"validation_fraction": self.validation_fraction}, "validation_fraction", 0, 1)
        kept, held = set_aside(graphs, target.strata, target.names, self.validation_fraction, seed)
        kept, held = np.asarray(kept), np.asarray(held)
        return replace(data, rows=kept, y=values[kept]), replace(data, rows=held, y=values[held])

    def resolved_defaults(self) -> dict[str, Any]:
        """Return the rules behind parameters that are "auto".

        A store of results tells tasks apart by the parameters and by this.

        Returns
        -------
        dict of str to object
            Rules by parameter.
        """
        return rules(self.get_params(deep=False))

    # ------------------------------------------------------------ saving

    def _config(self) -> dict[str, Any]:
        return super()._config() | {
            "best_epoch": self.best_epoch_,
            "interrupted": self.interrupted_,
            "history": json.loads(self.history_.to_json(orient="split", double_precision=15)),
        }

    def _files(self) -> dict[str, bytes]:
        return {WEIGHTS: weight_bytes(self.network_.state_dict())} | self._connection_files()

    @classmethod
    def _from_saved(cls, saved: Saved) -> Self:
        weights = read_weights(saved)
        estimator = cls._from_config(saved.config)
        estimator._read_connections(saved)
        estimator.best_epoch_ = saved.config["best_epoch"]
        estimator.interrupted_ = bool(saved.config["interrupted"])
        estimator.history_ = pd.DataFrame(**saved.config["history"])
        with torch.device("meta"):  # asks for no memory, whatever sizes the config tells of
            wanted = estimator._untrained(len(weights)).state_dict()
        _check_shapes(weights, wanted)
        with torch_seed(0):  # the weights drawn here are replaced below
            network = estimator._untrained(len(weights))
        network.load_state_dict(weights)
        try:
            device = resolve_device(estimator.device)
        except ValueError:  # trained on a device that this machine does not have
            device = resolve_device("auto")
        estimator.network_ = network.to(device).eval()
        estimator._try_once()
        return estimator

    def _try_once(self) -> None:
        """Read a made-up graph: wrong settings of a saved network show when it is used."""
        n = 3 if self.n_nodes_ is None else self.n_nodes_
        if n <= LARGEST_TRIAL:
            adj, x = np.ones((1, n, n)) - np.eye(n), np.ones((1, n, self.n_features_in_))
            graphs = GraphSet.from_arrays(adj, x, aligned=self.n_nodes_ is not None)
            self._logits(graphs)

    def _untrained(self, most: int) -> GraphModel:
        """Make the network that the settings describe, of ``most`` members at the most."""
        members = _members(self.settings_)
        if not 1 <= members <= most:
            raise ValueError(f"n_estimators is {members}")
        sizes = self.settings_, self.n_features_in_, self._n_outputs()
        return _joined([self._build(*sizes) for _ in range(members)])

    # -------------------------------------------------------------- predicting

    def _logits(self, graphs: GraphSet, network: GraphModel | None = None) -> np.ndarray:
        """(g, outputs) what the network, or one of its members, gives, graphs of similar size together."""
        network = self.network_ if network is None else network
        device = next(network.parameters()).device
        rows = np.empty((len(graphs), self._n_outputs()), np.float64)
        with torch.no_grad(), evaluation_mode(network):
            for index in graphs.batch_indices(self.settings_["batch_size"]) if len(graphs) else []:
                logits = network(graphs.batch(index).to(device)).logits
                rows[index] = self._decided(logits).double().cpu().numpy()
        return rows


def _check_shapes(weights: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    """Refuse weights that are not those of the network, before memory is asked for it."""
    if weights.keys() != wanted.keys():
        raise ValueError(f"{sorted(weights.keys() ^ wanted.keys())[0]} is too much or missing")
    for name, value in wanted.items():
        if weights[name].shape != value.shape or weights[name].dtype != value.dtype:
            raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, not {tuple(value.shape)}")


def _graphs_of(eval_set: EvalSet) -> list[GraphSet]:
    """The graphs of an eval_set, where there is one."""
    return [] if eval_set is None else [eval_set[0] if isinstance(eval_set, tuple) else eval_set]


def _members(settings: Mapping[str, Any]) -> int:
    """How many networks an estimator has."""
    return settings.get("n_estimators", 1)


def _joined(networks: Sequence[GraphModel]) -> GraphModel:
    """Return one network, or the ensemble of several."""
    return networks[0] if len(networks) == 1 else Ensemble(networks).eval()


def _program(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that networks of one stack have in common, without the numbers each has for itself."""
    common = {name: value for name, value in settings.items() if name not in NUMBERS | SWITCHES}
    switches = {name: settings[name] > 0 for name in SWITCHES & settings.keys()}
    return common | switches | {"fast": settings.get("mask_lr_factor", 1) != 1}
