"""Models made of other models, such as fusions: what all of them need to be saved and loaded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline

from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.estimators.graph_estimator import GraphEstimator
from cignn.estimators.persistence import Packed, Saved, write_folder

Reader = Callable[[Saved], Any]  # makes a model of the part of a folder
TOLD = ("training", "training_digest")  # what a model says of its data in the words of its first part


class SavedModel:
    """A model that is saved as plain data, and by the parts it is made of."""

    def save(self, path: str | Path, notes: Mapping[str, str] | None = None) -> None:
        """Write the fitted model into a folder, which `load_model` reads; nothing in it is pickled.

        Parameters
        ----------
        path : str or Path
            The folder; made if missing. A model that is already there is replaced.
        notes : mapping of str to str, default=None
            Text files to save with the model, by name: ``{"settings.toml": text}``.
        """
        write_folder(path, *self._packed(), notes)

    @abstractmethod
    def _packed(self) -> Packed:
        """What `save` writes."""

    @classmethod
    @abstractmethod
    def _from_saved(cls, saved: Saved, read: Reader) -> Self:
        """Make a fitted model of a folder; read : makes the models it is made of."""


def whole(model: Any) -> Any:
    """Return a pipeline from cohort to classifier as the class that can be saved, all else as it is."""
    if isinstance(model, Pipeline) and not isinstance(model, CohortClassifier):
        return CohortClassifier(model.steps)
    return model


def packed(model: Any, what: str) -> Packed:
    """Return a part of a model as it is saved; what : its name in an error."""
    model = whole(model)
    if not isinstance(model, (GraphEstimator, CohortClassifier, SavedModel)):
        raise TypeError(
            f"{what} is a {type(model).__name__}, which cannot be saved; a CohortClassifier, a classifier of "
            "graphs or a TableClassifier can."
        )
    return model._packed()


def checked_parts(saved: Saved, read: Reader, classes: np.ndarray, n: int) -> list[Any]:
    """Return the models that a saved one is made of; refuse another number, and other classes."""
    parts = saved.parts()
    if len(parts) != n:
        raise ValueError(f"it has {len(parts)} parts instead of {n}")
    models = [read(part) for part in parts]
    for model in models:
        if getattr(model, "classes_", np.empty(0)).tolist() != classes.tolist():
            raise ValueError("a part has other classes")
    return models


def numbers(values: Any, n: int, what: str) -> np.ndarray:
    """(n,) finite numbers that a config lists; refuse anything else."""
    found = np.array(values, np.float64)
    if not isinstance(values, list) or found.shape != (n,) or not np.isfinite(found).all():
        raise ValueError(f"{what} are no {n} numbers")
    return found
