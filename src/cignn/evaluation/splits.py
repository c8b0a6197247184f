"""A split of data in three parts, and what is known of the scans that are split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._arrays import digest
from cignn._checks import DataError, Option, name_some
from cignn.datasets.reading import MISSING
from cignn.datasets.scores import as_scores, is_score, score_strata
from cignn.estimators.subjects import Subjects

LARGEST = 0.25  # share of the other sites' scans that whole validation sites may take
PARTS = ("train", "val", "test")  # groups by which data bring a split of their own


class Split(NamedTuple):
    """Three disjoint sets of positions in the data.

    Parameters
    ----------
    name : str
        Number of the repeat or fold, or the name of the site.
    train : array of shape (n_train,)
        Positions of the scans to learn from.
    validation : array of shape (n_validation,)
        Positions of the scans to choose the epoch on.
    test : array of shape (n_test,)
        Positions of the scans that are scored once.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import Split
    >>> split = Split("1", train=np.array([3, 0]), validation=np.array([1]), test=np.array([2]))
    >>> split.development
    array([0, 1, 3])
    """

    name: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def development(self) -> np.ndarray:
        """All but the test part, in order.

        Returns
        -------
        array of shape (n_train + n_validation,)
            Positions of the scans that settings may be searched on.
        """
        return np.sort(np.concatenate([self.train, self.validation]))

    def digest(self) -> str:
        """Return a fingerprint of the three sets.

        Returns
        -------
        str
            16 hexadecimal digits.
        """
        parts = [np.asarray(part, np.int64) for part in (self.train, self.validation, self.test)]
        return digest(*parts, length=16)


@dataclass(frozen=True)
class Labels:
    """What a splitter may know of n scans: labels, names of subjects and, or None, of sites, each (n,).

    parts : (n,) "train", "val" and "test" where the data bring a split of their own, or None. strata : (n,)
    of similar scores where the labels are a score, or None.
    """

    y: np.ndarray
    subjects: np.ndarray
    sites: np.ndarray | None = None
    parts: np.ndarray | None = None
    strata: np.ndarray | None = None

    @property
    def classes(self) -> np.ndarray:
        """(n,) what splits are stratified by: the labels, or the strata of a score."""
        return self.y if self.strata is None else self.strata

    def as_scores(self) -> Labels:
        """The same scans with labels that are a score, whatever numbers they are."""
        scores = as_scores(self.y, "the labels")
        return replace(self, y=scores, strata=score_strata(scores))

    def __getitem__(self, index: np.ndarray) -> Labels:
        columns = (self.y, self.subjects, self.sites, self.parts, self.strata)
        return Labels(*(None if column is None else column[index] for column in columns))  # type: ignore[arg-type]


def labels_of(data: Any, y: Any = None) -> Labels:
    """Read labels (``y`` where given), subjects and sites of a `Cohort`, a `GraphSet` or an array.

    Subjects of graphs are ``meta["subject"]``, by default each graph its own; sites are ``meta["site"]``, by
    default ``groups``. Groups "train", "val" and "test" are no sites but a split that the data bring.
    """
    if isinstance(data, Labels):
        return data
    y = getattr(data, "y", None) if y is None else y
    if y is None:
        raise ValueError("the data have no labels; pass y.")
    y = np.asarray(y)
    meta = getattr(data, "meta", {})
    subjects = getattr(data, "subjects", meta.get("subject"))
    subjects = np.arange(len(y)).astype(str) if subjects is None else np.asarray(subjects).astype(str)
    _check_labels(y, subjects)
    groups, parts = getattr(data, "groups", None), None
    found = set() if groups is None else set(np.asarray(groups).tolist())
    if found <= set(PARTS):
        groups, parts = None, np.asarray(groups) if {"train", "test"} <= found else None
    sites = getattr(data, "sites", meta.get("site", groups))
    labels = Labels(y, subjects, None if sites is None else np.asarray(sites).astype(str), parts)
    return labels.as_scores() if is_score(y) else labels


def _check_labels(y: np.ndarray, subjects: np.ndarray) -> None:
    missing = pd.isna(y)
    if missing.any():
        raise ValueError(f"labels are missing for {name_some(subjects[missing])}; drop these subjects.")
    types = {type(label).__name__ for label in y.tolist()}
    if "str" in types and len(types) > 1:
        raise ValueError(f"labels must be of one type, got {' and '.join(sorted(types))}; use text for all.")


class People(NamedTuple):
    """Subjects to draw from, in the order of the data, and the names of their classes."""

    drawn: Subjects
    classes: np.ndarray
    scores: bool = False  # whether the classes are strata of a score

    @classmethod
    def of(cls, labels: Labels) -> People:
        """Number the subjects and classes of two classes at least."""
        classes, codes = np.unique(labels.classes, return_inverse=True)
        scores = labels.strata is not None
        if len(classes) < 2 and not scores:
            raise ValueError(f"the data must have at least two classes, got only {classes[:1].tolist()}.")
        return cls(Subjects.of(pd.factorize(labels.subjects)[0], codes, len(classes)), classes, scores)

    @property
    def everybody(self) -> np.ndarray:
        """(subjects,) all their numbers."""
        return np.arange(len(self.drawn.has))

    def check_counts(self, least: int, wanted: str, options: Sequence[Option] = ()) -> None:
        """Refuse classes of fewer subjects; wanted : words of the message. options : what helps."""
        counts = self.drawn.has.sum(0)
        if counts.min() < least:
            rare = self.classes.tolist()[counts.argmin()]
            if self.scores:
                few = f"{wanted.replace('of every class', 'of similar scores')}, there are {counts.min()}"
                raise DataError(few, options=options, remedy="add subjects")
            raise DataError(
                f"{wanted}, class {rare!r} has {counts.min()}",
                values=[rare],
                options=options,
                remedy="add subjects or drop the class",
            )

    def cut(
        self, index: np.ndarray, share: float, seed: int, least: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Split subjects in two, stratified, ``share`` of all subjects in the second part.

        Both parts hold every class. least : of every class in the first part.
        """
        has = self.drawn.has
        if has[index].sum(0).min() < 2:
            raise ValueError(
                "too few subjects of a class are left for training and validation; add subjects."
            )
        rest, part = self.drawn.cut(index, share, seed)
        # where rounding took the last of a rare class, or none, give back or take
        for code in range(has.shape[1]):
            missing = max(0, least - int(has[rest, code].sum()))
            if missing:
                back = part[has[part, code]][:missing]
                rest, part = np.append(rest, back), np.setdiff1d(part, back)
            elif not has[part, code].any():
                one = rest[has[rest, code]][:1]
                rest, part = np.setdiff1d(rest, one), np.append(part, one)
        return rest, part

    def split(self, name: str, rest: np.ndarray, test: np.ndarray, share: float, seed: int) -> Split:
        """A split of scans, with a share of the subjects drawn from the rest for validation."""
        train, validation = self.cut(rest, share, seed)
        return Split(name, *(self.drawn.scans(part) for part in (train, validation, test)))


def sites_of(labels: Labels) -> list[str]:
    """Return the names of two sites or more; refuse scans without a site."""
    if labels.sites is None:
        raise ValueError('loso needs sites, the data have none; pass sites (graphs: groups) or use "kfold".')
    nowhere = labels.subjects[np.isin(np.char.lower(np.char.strip(labels.sites)), list(MISSING))]
    if len(nowhere):
        raise ValueError(
            f"loso needs everyone's site, there is none for {name_some(nowhere)}; drop the subjects or name "
            "their sites."
        )
    sites = np.unique(labels.sites).tolist()
    if len(sites) < 2:
        raise ValueError(f'loso needs at least two sites, the data have only {sites[0]!r}; use "kfold".')
    return sites


def validation_by_site(labels: Labels, others: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Draw whole sites until their share is reached and every class is there; else a share of each site."""
    assert labels.sites is not None
    inside = labels[others]
    sites = np.asarray(inside.sites)
    n_classes = len(np.unique(inside.classes))
    rng = np.random.default_rng(seed)

    def complete(chosen: np.ndarray) -> bool:
        if inside.strata is not None:  # sites differ in their scores: one has them all seldom
            return bool(chosen.any())
        return len(np.unique(inside.classes[chosen])) == n_classes

    def scans(subjects: np.ndarray) -> np.ndarray:
        return np.isin(inside.subjects, subjects)  # one scanned at several sites goes as a whole

    taken = np.zeros(len(others), bool)
    for site in rng.permutation(np.unique(sites)):
        more = taken | scans(inside.subjects[sites == site])
        if not complete(~more) or more.mean() > max(LARGEST, share):
            continue  # too much of what there is to learn from
        taken = more
        if taken.mean() >= share and complete(taken):
            return others[taken]

    taken = np.zeros(len(others), bool)
    for site in np.unique(sites):
        here = np.unique(inside.subjects[sites == site])
        taken |= scans(rng.permutation(here)[: round(share * len(here))])
    if complete(taken) and complete(~taken):
        return others[taken]
    people = People.of(inside)
    _, part = people.cut(people.everybody, share, seed)
    return others[people.drawn.scans(part)]


def checked_splits(given: Sequence[Split], labels: Labels) -> list[Split]:
    """Return the user's splits as positions; refuse repeated names and parts that make no sense."""
    n = len(labels.y)
    splits = [Split(s.name, *(_positions(s, part, n) for part in Split._fields[1:])) for s in given]
    names = [split.name for split in splits]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{len(twice)} splits are named {twice[0]!r}; give each a name of its own.")
    check_splits(splits, labels)
    return splits


def _positions(split: Split, part: str, n: int) -> np.ndarray:
    """Return one part of the user's split, positions or a mask, as positions."""
    index = np.asarray(getattr(split, part))
    if index.dtype == bool and index.shape == (n,):
        return np.flatnonzero(index)
    if not index.size:
        return np.empty(0, np.int64)
    if index.ndim != 1 or index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= n:
        want, got = f"positions from 0 to {n - 1}, or a mask of {n}", name_some(index.ravel())
        raise ValueError(f"the {part} part of split {split.name!r} must be {want}, got {got}.")
    return index


def check_splits(splits: Sequence[Split], labels: Labels) -> None:
    """Refuse splits whose parts are empty or share a subject, or that test a scan twice."""
    for split in splits:
        parts = {"train": split.train, "validation": split.validation, "test": split.test}
        names = {part: set(labels.subjects[index].tolist()) for part, index in parts.items()}
        for part in ("train", "test"):
            if not names[part]:
                raise ValueError(f"split {split.name!r} has nobody in its {part} part.")
        for a, b in (("train", "validation"), ("train", "test"), ("validation", "test")):
            shared = names[a] & names[b]
            if shared:
                raise ValueError(
                    f"split {split.name!r} has subject {min(shared)!r} in both its {a} and its {b} part."
                )
        tested, times = np.unique(split.test, return_counts=True)
        if times.max() > 1:
            raise ValueError(
                f"split {split.name!r} has position {tested[times.argmax()]} twice in its test part."
            )
