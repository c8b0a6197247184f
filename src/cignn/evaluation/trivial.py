"""Scores of predictions that need no connection: the larger class, and the larger class of the site."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from cignn.evaluation.classification import classification_scores
from cignn.evaluation.splits import Labels, Split, labels_of
from cignn.evaluation.tasks import Task

MAJORITY, OF_SITE = "majority class", "site's majority"
TRIVIAL = (MAJORITY, OF_SITE)


def trivial_scores(tasks: Iterable[Task], data: Any) -> pd.DataFrame:
    """Score what needs no connection on the splits of an evaluation of one data set.

    "majority class" predicts the class that most training scans have, "site's majority" the one that most
    training scans of the same site have; probabilities are the shares of the classes. The second is left out
    where no test scan is from a site of the training part, as when sites are left out.

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
        for method, scores in _of_split(task.split, labels, task.positive).items():
            for metric, value in scores.items():
                rows.append((method, *place, "", metric, value, task.positive, *sizes))
    names = ["method", "data", "protocol", "split", "seed", "explainer", "metric", "value", "positive"]
    return pd.DataFrame(rows, columns=[*names, "n_train", "n_validation", "n_test"])


def _of_split(split: Split, labels: Labels, positive: Any) -> dict[str, dict[str, float]]:
    """Scores of each trivial method in one split; all but the test part is learnt from."""
    known, asked = labels[split.development], labels[split.test]
    classes = np.unique(known.y)
    overall = _shares(known.y, classes)
    said = {MAJORITY: np.tile(overall, (len(asked.y), 1))}
    if known.sites is not None and asked.sites is not None and np.isin(asked.sites, known.sites).any():
        of_site = {site: _shares(known.y[known.sites == site], classes) for site in np.unique(known.sites)}
        said[OF_SITE] = np.stack([of_site.get(site, overall) for site in asked.sites])
    return {
        method: classification_scores(asked.y, classes[chances.argmax(1)], classes, chances, positive)
        for method, chances in said.items()
    }


def _shares(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """(k,) share of every class."""
    return np.array([(y == label).mean() for label in classes])
