"""What every graph classifier with a network inside shares: fit, predict, save."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from torch import nn

from cignn.estimators.checkpoint import Checkpoint
from cignn.estimators.persistence import write_model
from cignn.estimators.progress import training_progress
from cignn.estimators.training import Data, Stage, train
from cignn.graphs import GraphSet


class NeuralGraphClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier of graphs around a torch network.

    A subclass stores its parameters, resolves them in ``_settings`` (which also checks them), makes its
    network in ``_build`` and says in ``_stages`` how to train it.
    """

    class_weight: Any
    validation_fraction: float
    checkpoint: str | Path | None
    device: str
    verbose: int
    random_state: Any

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
            ``validation_fraction`` of ``X`` is set aside, stratified by label
        """
        graphs, labels = _labelled(X, y)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"fit needs at least two classes, got only {classes[0]!r}.")
        settings = self._settings(graphs)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        (graphs, codes), held_out = self._validation(graphs, codes, classes, eval_set, seed)
        device = resolve_device(self.device)

        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            network = self._build(settings, graphs.n_features, len(classes))
            weight = _class_weight(self.class_weight, classes, codes)
            _tell(network, graphs, codes, weight)
            network.to(device)
            stages = self._stages(settings, network)
            key = _digest(
                settings,
                seed,
                weight.tolist(),
                graphs.digest(),
                codes.tolist(),
                held_out[0].digest(),
                held_out[1].tolist(),
            )
            with training_progress(self.verbose, sum(stage.epochs for stage in stages)) as progress:
                state = train(
                    network,
                    stages,
                    Data(graphs, codes, settings["batch_size"], device),
                    Data(*held_out, settings["batch_size"], device),
                    learning_rate=settings["learning_rate"],
                    weight_decay=settings["weight_decay"],
                    averaging=settings["averaging"],
                    checkpoint=None if self.checkpoint is None else Checkpoint(Path(self.checkpoint), key),
                    progress=progress,
                )
        self.network_ = network
        self.classes_ = classes
        self.settings_ = settings
        self.n_features_in_ = graphs.n_features
        self.node_names_ = graphs.node_names
        self.history_ = pd.DataFrame(state.history)
        self.best_epoch_ = state.best_epoch
        self.training_digest_ = graphs.digest()
        return self

    def _validation(
        self, graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, eval_set: Any, seed: int
    ) -> tuple[tuple[GraphSet, np.ndarray], tuple[GraphSet, np.ndarray]]:
        """Return training and validation graphs with their class numbers."""
        if eval_set is not None:
            held_out, labels = (
                _labelled(*eval_set) if isinstance(eval_set, tuple) else _labelled(eval_set, None)
            )
            self._check_features(held_out, graphs.n_features)
            unknown = sorted(set(labels.tolist()) - set(classes.tolist()))
            if unknown:
                raise ValueError(f"eval_set has labels that the training graphs lack: {unknown}.")
            return (graphs, codes), (held_out, np.searchsorted(classes, labels))
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in (0, 1), got {self.validation_fraction}.")
        counts = np.bincount(codes)
        if counts.min() < 2:
            rare = classes[counts.argmin()]
            raise ValueError(
                f"class {rare!r} has only one graph; add graphs, drop the class or pass eval_set."
            )
        size = max(len(classes), round(self.validation_fraction * len(graphs)))
        kept, held = train_test_split(
            np.arange(len(graphs)), test_size=size, stratify=codes, random_state=seed
        )
        return (graphs[kept], codes[kept]), (graphs[held], codes[held])

    # ------------------------------------------------------------ saving

    def save(self, path: str | Path) -> None:
        """Write the fitted model into a folder: weights as safetensors, everything else as JSON."""
        self._check_is_fitted()
        params = self.get_params(deep=False)
        if isinstance(self.class_weight, dict):
            params["class_weight"] = list(self.class_weight.items())  # JSON would make strings of the labels
        config = {
            "estimator": type(self).__name__,
            "params": {k: v for k, v in params.items() if k not in ("random_state", "checkpoint")},
            "settings": self.settings_,
            "classes": self.classes_.tolist(),
            "classes_dtype": self.classes_.dtype.str,
            "n_features": self.n_features_in_,
            "node_names": self.node_names_,
            "best_epoch": self.best_epoch_,
            "training_digest": self.training_digest_,
            "history": json.loads(self.history_.to_json(orient="split", double_precision=15)),
        }
        write_model(path, config, self.network_.state_dict())

    @classmethod
    def _from_saved(cls, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> Self:
        """Make a fitted estimator of what `save` wrote."""
        params = {k: tuple(v) if isinstance(v, list) else v for k, v in config["params"].items()}
        if isinstance(params["class_weight"], tuple):
            params["class_weight"] = dict(params["class_weight"])
        estimator = cls(**params)
        estimator.settings_ = {
            k: tuple(v) if isinstance(v, list) else v for k, v in config["settings"].items()
        }
        estimator.classes_ = np.array(config["classes"], dtype=config["classes_dtype"])
        estimator.n_features_in_ = config["n_features"]
        estimator.node_names_ = config["node_names"]
        estimator.best_epoch_ = config["best_epoch"]
        estimator.training_digest_ = config["training_digest"]
        estimator.history_ = pd.DataFrame(**config["history"])
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced below
            network = estimator._build(estimator.settings_, estimator.n_features_in_, len(estimator.classes_))
        network.load_state_dict(weights)
        device = resolve_device(estimator.device if torch.cuda.is_available() else "cpu")
        estimator.network_ = network.to(device).eval()
        return estimator

    # -------------------------------------------------------------- predicting

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """(g, classes) class probabilities, columns in the order of ``classes_``."""
        X = self._check_fitted(X)
        return self._forward(X, lambda out: torch.softmax(out.logits, 1), len(self.classes_))

    def predict(self, X: GraphSet) -> np.ndarray:
        """(g,) most probable labels."""
        probabilities = self.predict_proba(X)  # says first whether there is anything to predict with
        return self.classes_[probabilities.argmax(1)]

    @torch.no_grad()
    def _forward(self, graphs: GraphSet, read: Any, width: int) -> np.ndarray:
        """Pass graphs through the network in batches, in any order, and give ``read``'s rows in theirs."""
        device = next(self.network_.parameters()).device
        rows = np.empty((len(graphs), width), np.float64)
        for index in graphs.batch_indices(self.settings_["batch_size"]) if len(graphs) else []:
            rows[index] = read(self.network_(graphs.batch(index).to(device))).double().cpu().numpy()
        return rows

    def _check_is_fitted(self) -> None:
        if not hasattr(self, "network_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")

    def _check_fitted(self, X: GraphSet) -> GraphSet:
        self._check_is_fitted()
        if not isinstance(X, GraphSet):
            raise TypeError(
                f"expected a GraphSet, got {type(X).__name__}; make one with GraphSet.from_arrays."
            )
        self._check_features(X, self.n_features_in_)
        return X

    def _check_features(self, graphs: GraphSet, expected: int) -> None:
        if graphs.n_features != expected:
            raise ValueError(
                f"graphs have {graphs.n_features} node features, {type(self).__name__} expects {expected}."
            )


def resolve_device(device: str) -> torch.device:
    """Return the device named; "auto" is CUDA where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise ValueError(f'device must be "auto", "cpu" or "cuda", got {device!r}.') from None
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError('device "cuda" was asked for, but no CUDA device is there; use device="auto".')
    return resolved


def _labelled(graphs: Any, y: Sequence | np.ndarray | None) -> tuple[GraphSet, np.ndarray]:
    if not isinstance(graphs, GraphSet):
        raise TypeError(
            f"expected a GraphSet, got {type(graphs).__name__}; make one with GraphSet.from_arrays."
        )
    if not len(graphs):
        raise ValueError("there are no graphs to learn or choose from, got an empty GraphSet.")
    if y is None and graphs.y is None:
        raise ValueError("the graphs carry no labels; pass y or make the GraphSet with y.")
    labels = np.asarray(graphs.y if y is None else y)
    if labels.shape != (len(graphs),):
        raise ValueError(f"y must have one label per graph ({len(graphs)}), got shape {labels.shape}.")
    if pd.isna(labels).any():
        raise ValueError(f"y has no label for graph {int(pd.isna(labels).argmax())}; drop unlabelled graphs.")
    if labels.dtype.kind == "f" and (labels != np.round(labels)).any():
        raise ValueError("y must hold class labels, got continuous values.")
    return graphs, labels


def _tell(network: nn.Module, graphs: GraphSet, codes: np.ndarray, weight: np.ndarray) -> None:
    """Write the facts of the training set into those buffers of the network that ask for them."""
    share = weight * np.bincount(codes) / (weight * np.bincount(codes)).sum()
    facts = {
        "feature_scale": _feature_scale(graphs),
        "class_weight": weight,
        "class_share": share,
        "label_entropy": np.float64(-(share * np.log(share)).sum()),
    }
    for name, buffer in network.named_buffers(recurse=False):
        if name in facts:
            buffer.copy_(torch.as_tensor(facts[name]))


def _feature_scale(graphs: GraphSet) -> np.ndarray:
    """(d,) largest absolute value of each node feature, 1 where it is always 0: keeps features near 1."""
    scale = np.abs(graphs.feature_range()).max(0).astype(np.float32)
    return np.where(scale > 0, scale, 1).astype(np.float32)


def _class_weight(class_weight: Any, classes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    if class_weight is None:
        return np.ones(len(classes), np.float32)
    if isinstance(class_weight, str) and class_weight != "balanced":
        raise ValueError(f'class_weight must be None, "balanced" or a dict, got {class_weight!r}.')
    weight = compute_class_weight(class_weight, classes=classes, y=classes[codes]).astype(np.float32)
    if not (weight > 0).all():
        raise ValueError(f"class_weight must give every class a positive weight, got {class_weight!r}.")
    return weight


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
