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


def classes_of(codes: np.ndarray, of_graph: np.ndarray, n_classes: int) -> np.ndarray:
    """(subjects, classes) bool: which classes a subject's graphs are of.

    codes, of_graph : (g,) numbers of the graphs' classes and subjects.
    """
    has = np.zeros((int(of_graph.max(initial=-1)) + 1, n_classes), bool)
    has[of_graph, codes] = True
    return has


def strata_of(has: np.ndarray, least: int, most: int) -> np.ndarray:
    """(subjects,) what to stratify by: the class, of subjects with several their set of classes.

    Where that is too fine, subjects with several are one stratum, then go with their first class, then
    all are one. has : see `classes_of`. least : subjects of a stratum. most : strata.
    """
    first = has.argmax(1)
    several = has.sum(1) > 1
    if not several.any():
        return first
    sets = np.unique(has, axis=0, return_inverse=True)[1].ravel()
    n_classes = has.shape[1]
    for strata in (np.where(several, n_classes + sets, first), np.where(several, n_classes, first), first):
        counts = np.unique(strata, return_counts=True)[1]
        if counts.min() >= least and len(counts) <= most:
            return strata
    return np.zeros(len(has), np.int64)


class Subjects(NamedTuple):
    """What is drawn: subjects where they have several graphs, else the graphs themselves."""

    has: np.ndarray  # (subjects, classes) bool
    of_graph: np.ndarray  # (g,) number of the subject
    word: str  # for one of them

    def parts(self, kept: np.ndarray, held: np.ndarray) -> Parts:
        """Return the graphs of the drawn subjects; drawn graphs stay in the order of the draw."""
        if self.word == "graph":
            return Parts(kept, held)
        return Parts(*(np.flatnonzero(np.isin(self.of_graph, part)) for part in (kept, held)))

    def check(self, classes: np.ndarray, remedy: str) -> int:
        """Refuse classes that cannot be split; return how many subjects the smallest has."""
        counts = self.has.sum(0)
        if counts.min() < 2:
            rare = classes.tolist()[counts.argmin()]
            number = "only one" if counts.min() else "no"
            raise ValueError(
                f"class {rare!r} has {number} {self.word}; add {self.word}s, drop the class{remedy}."
            )
        return int(counts.min())


def subjects_of(graphs: GraphSet, codes: np.ndarray, n_classes: int) -> Subjects:
    """Read who is who, with the (g,) class numbers of the graphs."""
    names = graphs.meta.get("subject")
    of_graph, word = np.arange(len(graphs)), "graph"
    if names is not None:
        found, number = np.unique(np.asarray(names).astype(str), return_inverse=True)
        if len(found) < len(graphs):
            of_graph, word = number, "subject"
    return Subjects(classes_of(codes, of_graph, n_classes), of_graph, word)


def set_aside(graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, share: float, seed: int) -> Parts:
    """Draw a share of the subjects, stratified by label, to choose the epoch on."""
    subjects = subjects_of(graphs, codes, len(classes))
    subjects.check(classes, " or pass eval_set")
    n = len(subjects.has)
    size = min(max(len(classes), round(float(share) * n)), n - len(classes))
    strata = strata_of(subjects.has, 2, min(size, n - size))
    drawn = train_test_split(np.arange(n), test_size=size, stratify=strata, random_state=seed)
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
    subjects = subjects_of(graphs, codes, len(classes))
    n = min(n, subjects.check(classes, ""))
    cv = StratifiedKFold(n, shuffle=True, random_state=seed)
    strata = strata_of(subjects.has, n, len(subjects.has))
    return [subjects.parts(*fold) for fold in cv.split(strata, strata)]
