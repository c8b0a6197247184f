"""Splits inside `fit`: all graphs of one subject (``meta["subject"]``) stay together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from cignn.graphs import GraphSet


class Parts(NamedTuple):
    """Positions of graphs in two parts."""

    kept: np.ndarray
    held: np.ndarray


class Subjects(NamedTuple):
    """What is drawn: subjects where they have several graphs, else the graphs themselves."""

    codes: np.ndarray  # (subjects,) class number; of several labels the first
    of_graph: np.ndarray  # (g,) number of the subject
    word: str  # for one of them

    def parts(self, kept: np.ndarray, held: np.ndarray) -> Parts:
        """Return the graphs of the drawn subjects; drawn graphs stay in the order of the draw."""
        if self.word == "graph":
            return Parts(kept, held)
        return Parts(*(np.flatnonzero(np.isin(self.of_graph, part)) for part in (kept, held)))

    def check(self, classes: np.ndarray, remedy: str) -> int:
        """Refuse classes that cannot be split; return how many subjects the smallest has."""
        counts = np.bincount(self.codes, minlength=len(classes))
        if counts.min() < 2:
            rare = classes.tolist()[counts.argmin()]
            number = "only one" if counts.min() else "no"
            raise ValueError(
                f"class {rare!r} has {number} {self.word}; add {self.word}s, drop the class{remedy}."
            )
        return int(counts.min())


def subjects_of(graphs: GraphSet, codes: np.ndarray) -> Subjects:
    """Read who is who, with the (g,) class numbers of the graphs."""
    names = graphs.meta.get("subject")
    if names is not None:
        _, first, of_graph = np.unique(np.asarray(names).astype(str), return_index=True, return_inverse=True)
        if len(first) < len(graphs):
            return Subjects(codes[first], of_graph, "subject")
    return Subjects(codes, np.arange(len(graphs)), "graph")


def set_aside(graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, share: float, seed: int) -> Parts:
    """Draw a share of the subjects, stratified by label, to choose the epoch on."""
    subjects = subjects_of(graphs, codes)
    subjects.check(classes, " or pass eval_set")
    n = len(subjects.codes)
    size = min(max(len(classes), round(float(share) * n)), n - len(classes))
    drawn = train_test_split(np.arange(n), test_size=size, stratify=subjects.codes, random_state=seed)
    parts = subjects.parts(*drawn)
    left = np.bincount(codes[parts.kept], minlength=len(classes))
    if not left.all():
        raise ValueError(
            f"no graph of class {classes.tolist()[left.argmin()]!r} is left to learn from; lower "
            f"validation_fraction ({share}) or pass eval_set."
        )
    return parts


def folds(graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, n: int, seed: int) -> list[Parts]:
    """Draw n folds, stratified by label; fewer where a class has fewer subjects."""
    subjects = subjects_of(graphs, codes)
    least = subjects.check(classes, "")
    cv = StratifiedKFold(min(n, least), shuffle=True, random_state=seed)
    return [subjects.parts(*fold) for fold in cv.split(subjects.codes, subjects.codes)]
