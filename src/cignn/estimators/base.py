"""What every graph classifier with a network inside shares: fit, predict, save."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import nn

from cignn._arrays import digest
from cignn._checks import shown
from cignn._random import as_random_state, torch_seed
from cignn.estimators.checkpoint import Checkpoint, State, saved_seed
from cignn.estimators.classifier import (
    GraphClassifier,
    checked_chances,
    class_codes,
    class_weights,
    labelled,
    score_weights,
    size_of,
)
from cignn.estimators.persistence import WEIGHTS, Saved, read_weights, weight_bytes
from cignn.estimators.settings import rules, within
from cignn.estimators.subjects import set_aside
from cignn.estimators.training import Data, Progress, Stage, train, training_progress
from cignn.explanations import Explanations
from cignn.graphs import GraphSet
from cignn.nn.model import Ensemble

LARGEST_TRIAL = 1000  # nodes: of more, a graph would cost memory that nobody has asked for


class NeuralGraphClassifier(GraphClassifier):
    """A scikit-learn classifier of graphs around a torch network.

    A subclass stores its parameters, resolves them in ``_settings`` (which also checks them), makes its
    network in ``_build`` and says in ``_stages`` how to train it.
    """

    validation_fraction: float
    checkpoint: str | Path | None
    device: str
    verbose: int

    network_: nn.Module

    @abstractmethod
    def _settings(self, graphs: GraphSet) -> dict[str, Any]:
        """Check the parameters and return them with every preset resolved for these graphs."""

    @abstractmethod
    def _build(self, settings: dict[str, Any], n_features: int, n_classes: int) -> nn.Module:
        """Make the network."""

    @abstractmethod
    def _stages(self, settings: dict[str, Any], network: nn.Module) -> list[Stage]:
        """Say how the network is trained."""

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        X: GraphSet,
        y: Sequence | np.ndarray | None = None,
        eval_set: GraphSet | tuple[GraphSet, Sequence] | None = None,
    ) -> Self:
        """Train on graphs.

        Parameters
        ----------
        X : graphs to learn from
        y : (g,) labels of any kind; by default those of ``X``
        eval_set : labelled graphs on which the epoch is chosen, or (graphs, labels); by default a share
            ``validation_fraction`` of ``X`` is set aside, stratified by label; subjects with several graphs
            (``meta["subject"]``) go as a whole
        """
        graphs, labels = labelled(X, y)
        classes, codes = class_codes(labels)
        settings = self._settings(graphs)
        device = resolve_device(self.device)
        path = _path(self.checkpoint)
        seed = self._seed(_of_member(path, 0, settings))
        members = settings.get("n_estimators", 1)
        networks: list[Any] = []
        states: list[State] = []
        with training_progress(self.verbose, members) as progress:
            for member in range(members):
                parts = self._validation(graphs, codes, classes, eval_set, seed + member)
                where = _of_member(path, member, settings)
                told = None if progress is None else partial(progress, member)
                try:
                    network, state = self._train(
                        settings, *parts, classes, seed + member, device, where, told
                    )
                except KeyboardInterrupt:
                    if not networks:
                        raise
                    break  # the members that are ready stay
                networks.append(network)
                states.append(state)
                if state.interrupted:
                    break
        self.interrupted_ = len(networks) < members or states[-1].interrupted
        if len(networks) < members:
            settings["n_estimators"] = len(networks)
        self.network_ = networks[0] if len(networks) == 1 else Ensemble(networks).eval()
        self.classes_ = classes
        self.settings_ = settings
        self._remember(graphs, labels, *_graphs_of(eval_set))
        tables = [pd.DataFrame(state.history) for state in states]
        if len(states) > 1:
            tables = [table.assign(member=member) for member, table in enumerate(tables)]
        self.history_ = pd.concat(tables, ignore_index=True)
        self.best_epoch_ = states[0].best_epoch if len(states) == 1 else [s.best_epoch for s in states]
        return self

    def _train(
        self,
        settings: dict[str, Any],
        training: tuple[GraphSet, np.ndarray],
        held_out: tuple[GraphSet, np.ndarray],
        classes: np.ndarray,
        seed: int,
        device: torch.device,
        checkpoint: Path | None,
        progress: Progress | None,
    ) -> tuple[nn.Module, State]:
        """Make and train one network."""
        graphs, codes = training
        with torch_seed(seed, device):
            network = self._build(settings, graphs.n_features, len(classes))
            weight = class_weights(self.class_weight, classes, codes)
            _fill_buffers(network, graphs, codes, weight)
            network.to(device)
            kept = None
            if checkpoint is not None:  # to read all data for a key takes time: only where it is needed
                sets = graphs.digest(), codes, held_out[0].digest(), held_out[1]
                kept = Checkpoint(checkpoint, digest(settings, seed, weight, *sets), seed)
            count = score_weights(self.class_weight, weight, held_out[1])
            state = train(
                network,
                self._stages(settings, network),
                Data(graphs, codes, settings["batch_size"], device),
                Data(*held_out, settings["batch_size"], device, count),
                learning_rate=settings["learning_rate"],
                weight_decay=settings["weight_decay"],
                ema_decay=settings["ema_decay"],
                checkpoint=kept,
                progress=progress,
            )
        return network, state

    def _seed(self, checkpoint: Path | None) -> int:
        """Draw the seed of a training; one without a random_state goes on with that of its checkpoint."""
        saved = None if checkpoint is None or self.random_state is not None else saved_seed(checkpoint)
        return int(as_random_state(self.random_state).randint(2**31 - 1)) if saved is None else saved

    def _validation(
        self, graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, eval_set: Any, seed: int
    ) -> tuple[tuple[GraphSet, np.ndarray], tuple[GraphSet, np.ndarray]]:
        """Return training and validation graphs with their class numbers."""
        if eval_set is not None:
            pair = eval_set if isinstance(eval_set, tuple) else (eval_set, None)
            if len(pair) != 2:
                raise ValueError(f"eval_set must be graphs or (graphs, labels), got {len(pair)} things.")
            held_out, labels = labelled(*pair)
            held_out = held_out.with_features(graphs.feature_names)
            self._check_nodes(held_out, graphs.n_features, size_of(graphs), graphs.node_names)
            unknown = sorted(set(labels.tolist()) - set(classes.tolist()), key=str)
            if unknown:
                raise ValueError(f"eval_set has labels that the training graphs lack: {unknown}.")
            return (graphs, codes), (held_out, np.searchsorted(classes, labels))
        within({"validation_fraction": self.validation_fraction}, "validation_fraction", 0, 1)
        kept, held = set_aside(graphs, codes, classes, self.validation_fraction, seed)
        return (graphs[kept], codes[kept]), (graphs[held], codes[held])

    def resolved_defaults(self) -> dict[str, Any]:
        """Return the rules behind parameters that are "auto"; see `GraphClassifier.resolved_defaults`."""
        return rules(self.get_params(deep=False))

    # ------------------------------------------------------------ saving

    def _config(self) -> dict[str, Any]:
        return super()._config() | {
            "best_epoch": self.best_epoch_,
            "history": json.loads(self.history_.to_json(orient="split", double_precision=15)),
        }

    def _files(self) -> dict[str, bytes]:
        return {WEIGHTS: weight_bytes(self.network_.state_dict())}

    @classmethod
    def _from_saved(cls, saved: Saved) -> Self:
        weights = read_weights(saved)
        estimator = cls._from_config(saved.config)
        estimator.best_epoch_ = saved.config["best_epoch"]
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
        """Classify a made-up graph: a network believes its settings until it is used, and fails then."""
        n = 3 if self.n_nodes_ is None else self.n_nodes_
        if n <= LARGEST_TRIAL:
            adj, x = np.ones((1, n, n)) - np.eye(n), np.ones((1, n, self.n_features_in_))
            graphs = GraphSet.from_arrays(adj, x, aligned=self.n_nodes_ is not None)
            self._forward(graphs, lambda out: torch.softmax(out.logits, 1), len(self.classes_))

    def _untrained(self, most: int) -> nn.Module:
        """Make the network that the settings tell of, of ``most`` members at the most."""
        members = self.settings_.get("n_estimators", 1)
        if not 1 <= members <= most:
            raise ValueError(f"n_estimators is {members}")
        sizes = self.settings_, self.n_features_in_, len(self.classes_)
        networks: list[Any] = [self._build(*sizes) for _ in range(members)]
        return networks[0] if members == 1 else Ensemble(networks)

    # -------------------------------------------------------------- predicting

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """(g, classes) class probabilities, columns in the order of ``classes_``."""
        X = self._check_fitted(X)
        chances = self._forward(X, lambda out: torch.softmax(out.logits, 1), len(self.classes_))
        return checked_chances(chances)

    @torch.no_grad()
    def _forward(self, graphs: GraphSet, read: Any, width: int) -> np.ndarray:
        """Pass graphs through the network in batches, in any order, and give ``read``'s rows in theirs."""
        device = next(self.network_.parameters()).device
        rows = np.empty((len(graphs), width), np.float64)
        with at_rest(self.network_):
            for index in graphs.batch_indices(self.settings_["batch_size"]) if len(graphs) else []:
                rows[index] = read(self.network_(graphs.batch(index).to(device))).double().cpu().numpy()
        return rows


@contextmanager
def at_rest(network: nn.Module) -> Iterator[None]:
    """Keep dropout, noise and batch statistics out of what is asked inside, whatever mode it was left in."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


def resolve_device(device: Any) -> torch.device:
    """Return the device named; "auto" is CUDA where there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device) if isinstance(device, (str, torch.device)) else None
    except RuntimeError:
        resolved = None
    if resolved is None or resolved.type not in ("cpu", "cuda"):  # others lack the float64 we need
        raise ValueError(f'device must be "auto", "cpu" or "cuda", got {shown(device)}.')
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f'device "{resolved}" was asked for, but no CUDA device is there; use device="auto".'
        )
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f'device "{resolved}" was asked for, but CUDA devices here are numbered 0 to '
            f'{torch.cuda.device_count() - 1}; use device="auto".'
        )
    return resolved


def _check_shapes(weights: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    """Refuse weights that are not those of the network, before memory is asked for it."""
    if weights.keys() != wanted.keys():
        raise ValueError(f"{sorted(weights.keys() ^ wanted.keys())[0]} is too much or missing")
    for name, value in wanted.items():
        if weights[name].shape != value.shape or weights[name].dtype != value.dtype:
            raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, not {tuple(value.shape)}")


def _graphs_of(eval_set: Any) -> list[GraphSet]:
    """The graphs of an eval_set, where there is one."""
    return [] if eval_set is None else [eval_set[0] if isinstance(eval_set, tuple) else eval_set]


def _of_member(checkpoint: Path | None, member: int, settings: dict[str, Any]) -> Path | None:
    """Where the training of one of several networks is kept; that of a single one has the path itself."""
    if checkpoint is None or settings.get("n_estimators", 1) == 1:
        return checkpoint
    return checkpoint.with_name(f"{checkpoint.name}.{member}")


def _path(checkpoint: Any) -> Path | None:
    if checkpoint is None:
        return None
    try:
        os.path.realpath(checkpoint)  # what can be no name is told before the training
        Path(checkpoint).exists()
        return Path(checkpoint)
    except (TypeError, ValueError):
        raise ValueError(f"checkpoint must be a path or None, got {shown(checkpoint)}.") from None
    except OSError as error:
        raise ValueError(f"checkpoint cannot be {shown(checkpoint)} ({error.strerror}).") from None


def _fill_buffers(network: nn.Module, graphs: GraphSet, codes: np.ndarray, weight: np.ndarray) -> None:
    """Write the facts of the training set into those buffers of the network that ask for them."""
    share = weight * np.bincount(codes) / (weight * np.bincount(codes)).sum()
    facts = {
        "feature_scale": _feature_scale(graphs),
        "class_weight": weight,
        "class_share": share,
        "label_entropy": np.float64(-(share * np.log(share)).sum()),
    }
    buffers = {name.rpartition(".")[2]: buffer for name, buffer in network.named_buffers()}
    if "edge_centre" in buffers:
        facts |= zip(("edge_centre", "edge_scale"), graphs.edge_statistics(), strict=True)
    for name in facts.keys() & buffers.keys():
        buffers[name].copy_(torch.as_tensor(facts[name]))


def _feature_scale(graphs: GraphSet) -> np.ndarray:
    """(d,) largest absolute value of each node feature, 1 where it is always 0: keeps features near 1."""
    scale = np.abs(graphs.feature_range()).max(0).astype(np.float32)
    return np.where(scale > 0, scale, 1).astype(np.float32)


CELLS = 1_300_000  # of the edge matrices of a batch: where nothing is learnt, larger batches are quicker


class ExplainingClassifier(NeuralGraphClassifier):
    """Its network's output has ``edge_weights`` (b, n, n) in [0, 1] beside ``logits``."""

    @torch.no_grad()
    def explain(self, X: GraphSet) -> Explanations:
        """Return the weight of every edge of every graph, as the network gave it while it classified."""
        X = self._check_fitted(X)
        device = next(self.network_.parameters()).device
        weights: list[np.ndarray] = [np.empty(0)] * len(X)
        predictions = np.empty(len(X), np.int64)
        for index in X.batch_indices(self._batch_size(X)) if len(X) else []:
            with at_rest(self.network_):
                out = self.network_(X.batch(index).to(device))
            predictions[index] = out.logits.argmax(1).cpu().numpy()
            for i, found in zip(index, out.edge_weights.cpu().numpy(), strict=True):
                source, target = X.edges(i).T
                weights[i] = found[source, target]
        return Explanations(X, weights, self.classes_[predictions])

    def _batch_size(self, graphs: GraphSet) -> int:
        """How many graphs to explain at once."""
        size = self.settings_["batch_size"]
        return max(size, CELLS // int(graphs.n_nodes[0]) ** 2) if graphs.aligned else size
