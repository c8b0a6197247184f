"""Subjects drawn at random: all scans of one subject stay together, classes keep their shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from cignn.graphs import GraphSet


class Parts(NamedTuple):
    """Two parts: of numbers of subjects, or of positions of scans."""

    kept: np.ndarray
    held: np.ndarray


class Subjects(NamedTuple):
    """Subjects by number: whose the scans are, and of which classes."""

    of_scan: np.ndarray  # (scans,) number of the subject
    has: np.ndarray  # (subjects, classes) bool: a subject may have scans of several

    @classmethod
    def of(cls, of_scan: np.ndarray, codes: np.ndarray, n_classes: int) -> Subjects:
        """Count the classes of every subject; codes : (scans,) numbers of the classes."""
        has = np.zeros((int(of_scan.max(initial=-1)) + 1, n_classes), bool)
        has[of_scan, codes] = True
        return cls(of_scan, has)

    def scans(self, subjects: np.ndarray) -> np.ndarray:
        """Return the positions of all scans of these subjects, in the order of the data."""
        return np.flatnonzero(np.isin(self.of_scan, subjects))

    def cut(self, index: np.ndarray, share: float, seed: int) -> Parts:
        """Hold ``share`` of all subjects, drawn among those of ``index``, stratified by class.

        Both parts have room for every class, of as many subjects of one class each.
        """
        n_classes = self.has.shape[1]
        size = max(1, min(max(n_classes, round(share * len(self.has))), len(index) - n_classes))
        strata = self.strata(index, 2, min(size, len(index) - size))
        return Parts(*train_test_split(index, test_size=size, stratify=strata, random_state=seed))

    def folds(self, n: int, seed: int) -> list[Parts]:
        """Hold every subject in one of n folds, stratified by class."""
        every = np.arange(len(self.has))
        cv = StratifiedKFold(n, shuffle=True, random_state=seed)
        return [Parts(*fold) for fold in cv.split(every, self.strata(every, n, len(every)))]

    def strata(self, index: np.ndarray, least: int, most: int) -> np.ndarray:
        """(subjects of index,) what to stratify by: the class, of subjects with several their set of classes.

        Where that is too fine, subjects with several are one stratum, then go with their first class, then
        all are one. least : subjects of a stratum. most : strata.
        """
        has = self.has[index]
        first, several = has.argmax(1), has.sum(1) > 1
        if not several.any():
            return first
        sets = np.unique(has, axis=0, return_inverse=True)[1].ravel()
        n_classes = has.shape[1]
        for of_several in (n_classes + sets, n_classes, first):
            strata = np.where(several, of_several, first)
            counts = np.unique(strata, return_counts=True)[1]
            if counts.min() >= least and len(counts) <= most:
                return strata
        return np.zeros(len(has), np.int64)


def set_aside(graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, share: float, seed: int) -> Parts:
    """Draw the graphs to choose the epoch on: those of a share of the subjects, stratified by class."""
    subjects = _subjects(graphs, codes, classes, " or pass eval_set")
    parts = _graphs(subjects, subjects.cut(np.arange(len(subjects.has)), float(share), seed))
    left = np.bincount(codes[parts.kept], minlength=len(classes))
    if not left.all():
        raise ValueError(
            f"no graph of class {classes.tolist()[left.argmin()]!r} is left to learn from; lower "
            f"validation_fraction ({share}) or pass eval_set."
        )
    return parts


def folds(graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, n: int, seed: int) -> list[Parts]:
    """Draw n folds of graphs by subject, stratified by class; fewer where a class has fewer subjects."""
    subjects = _subjects(graphs, codes, classes)
    n = min(n, int(subjects.has.sum(0).min()))
    return [_graphs(subjects, fold) for fold in subjects.folds(n, seed)]


def _subjects(graphs: GraphSet, codes: np.ndarray, classes: np.ndarray, remedy: str = "") -> Subjects:
    """Subjects of ``meta["subject"]``, by default each graph its own; two at least of every class."""
    names = np.asarray(graphs.meta.get("subject", np.arange(len(graphs)))).astype(str)
    found, of_graph = np.unique(names, return_inverse=True)
    if len(found) == len(graphs):
        of_graph = np.arange(len(graphs))
    subjects = Subjects.of(of_graph, codes, len(classes))
    counts = subjects.has.sum(0)
    if counts.min() < 2:
        word = "graph" if len(found) == len(graphs) else "subject"
        many, rare = "only one" if counts.min() else "no", classes.tolist()[counts.argmin()]
        raise ValueError(f"class {rare!r} has {many} {word}; add {word}s, drop the class{remedy}.")
    return subjects


def _graphs(subjects: Subjects, drawn: Parts) -> Parts:
    """Graphs of the drawn subjects; where each graph is a subject, in the order of the draw."""
    if len(subjects.has) == len(subjects.of_scan):
        return drawn
    return Parts(*map(subjects.scans, drawn))
