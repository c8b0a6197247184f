"""Scores of predictions that need no connection: the larger class or the mean, of all and of the site."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from cignn.evaluation.classification import classification_scores
from cignn.evaluation.methods import predicts_scores
from cignn.evaluation.regression import regression_scores
from cignn.evaluation.splits import Labels, Split, labels_of
from cignn.evaluation.tasks import Task

CLASSES = ("majority class", "site's majority")
SCORES = ("mean", "site's mean")  # where scores are predicted
TRIVIAL = (*CLASSES, *SCORES)


def trivial_scores(tasks: Iterable[Task], data: Any) -> pd.DataFrame:
    """Score what needs no connection on the splits of an evaluation of one data set.

    "majority class" predicts the class that most training scans have, "site's majority" the one that most
    training scans of the same site have; probabilities are the shares of the classes. Where scores are
    predicted, these are "mean" and "site's mean". The second is left out where no test scan is from a site of
    the training part, as when sites are left out.

    tasks : of a `plan`, all on ``data``. Returns rows as `evaluate` does, without settings and keys.
    """
    labels = labels_of(data)
    rows: list[tuple] = []
    seen = set()
    for task in tasks:
        place = (task.data, task.protocol.name, task.split.name, task.seed)
        if place in seen:
            continue
        seen.add(place)
        sizes = (len(task.split.train), len(task.split.validation), len(task.split.test))
        scores_of = _scores if predicts_scores(task.estimator) else _classes
        for method, scores in scores_of(task.split, labels, task.positive).items():
            for metric, value in scores.items():
                rows.append((method, *place, "", metric, value, task.positive, *sizes))
    names = ["method", "data", "protocol", "split", "seed", "explainer", "metric", "value", "positive"]
    return pd.DataFrame(rows, columns=[*names, "n_train", "n_validation", "n_test"])


def _classes(split: Split, labels: Labels, positive: Any) -> dict[str, dict[str, float]]:
    """Scores of each trivial method in one split; all but the test part is learnt from."""
    classes = np.unique(labels[split.development].y)
    said = _said(split, labels, lambda y: np.array([(y == label).mean() for label in classes]))
    y = labels[split.test].y
    return {
        name: classification_scores(y, classes[chances.argmax(1)], classes, chances, positive)
        for name, chances in zip(CLASSES, said, strict=False)
    }


def _scores(split: Split, labels: Labels, positive: Any) -> dict[str, dict[str, float]]:
    """The same where scores are predicted."""
    said = _said(split, labels, lambda y: np.array([np.mean(np.asarray(y, float))]))
    y = np.asarray(labels[split.test].y, float)
    return {name: regression_scores(y, one[:, 0]) for name, one in zip(SCORES, said, strict=False)}


def _said(split: Split, labels: Labels, learn: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    """What is learnt from all labels and, where sites are known, from those of a test scan's own site."""
    known, asked = labels[split.development], labels[split.test]
    overall = learn(known.y)
    said = [np.tile(overall, (len(asked.y), 1))]
    if known.sites is not None and asked.sites is not None and np.isin(asked.sites, known.sites).any():
        of_site = {site: learn(known.y[known.sites == site]) for site in np.unique(known.sites)}
        said.append(np.stack([of_site.get(site, overall) for site in asked.sites]))
    return said
