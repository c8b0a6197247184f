"""Labels of the graphs a classifier learns from: the classes among them and what each class counts."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.class_weight import compute_class_weight

from cignn._checks import shown
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_checks import refuse_scores
from cignn.graphs import GraphSet


def check_graphs(graphs: Any) -> None:
    """Refuse what is no GraphSet, and say how to make one of it."""
    if isinstance(graphs, GraphSet):
        return
    advice = "make one with GraphSet.from_arrays"
    if isinstance(graphs, Cohort):
        steps = "Connectivity(), ConnectomeGraphs()" if graphs.matrices is None else "ConnectomeGraphs()"
        advice = f"put {steps} before the classifier in a pipeline, or use CohortClassifier(classifier)"
    raise TypeError(f"expected a GraphSet, got {type(graphs).__name__}; {advice}.")


def labelled(graphs: Any, y: Sequence | np.ndarray | None) -> tuple[GraphSet, np.ndarray]:
    """Return the graphs and their labels, ``y`` or their own; refuse what is neither."""
    check_graphs(graphs)
    if not len(graphs):
        raise ValueError("there are no graphs to learn or choose from, got an empty GraphSet.")
    if y is None and graphs.y is None:
        raise ValueError("the graphs carry no labels; pass y or make the GraphSet with y.")
    labels = np.asarray(graphs.y if y is None else y)
    if labels.shape != (len(graphs),):
        raise ValueError(f"y must have one label per graph ({len(graphs)}), got shape {labels.shape}.")
    if pd.isna(labels).any():
        raise ValueError(f"y has no label for graph {int(pd.isna(labels).argmax())}; drop unlabelled graphs.")
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.round(labels))).all():
        raise ValueError("y must hold class labels, got continuous values.")
    return graphs, labels


def class_codes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and every label's place among them."""
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(f"y must hold labels of one kind, got {kinds}.") from None
    if len(classes) < 2:
        raise ValueError(f"fit needs at least two classes, got only {classes.tolist()[0]!r}.")
    refuse_scores(labels)
    return classes, codes


def class_weights(class_weight: Any, classes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(classes,) what a training graph of each class counts."""
    if class_weight is None:
        return np.ones(len(classes), np.float32)
    balanced = isinstance(class_weight, str) and class_weight == "balanced"
    if not balanced and not isinstance(class_weight, dict):
        raise ValueError(f'class_weight must be None, "balanced" or a dict, got {shown(class_weight)}.')
    numbers = balanced or all(isinstance(weight, Real) for weight in class_weight.values())
    weight = compute_class_weight(class_weight, classes=classes, y=classes[codes]) if numbers else np.zeros(1)
    if not (weight > 0).all():
        raise ValueError(f"class_weight must give every class a positive weight, got {class_weight!r}.")
    return weight.astype(np.float32)


def score_weights(class_weight: Any, weight: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(classes,) what a validation graph of each class counts: "balanced" is so on these very graphs."""
    if not isinstance(class_weight, str):
        return weight
    counts = np.bincount(codes, minlength=len(weight))
    return np.divide(len(codes), counts, out=np.zeros(len(weight)), where=counts > 0)
