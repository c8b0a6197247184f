"""Protocols: which subjects train, which choose the epoch, which are scored once.

All scans of one subject stay on one side of a split. A seed draws splits of its own: seeds 0, 1 and 2 of a
holdout are three random splits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, train_test_split

from cignn._arrays import digest
from cignn._checks import name_some, nearest, number, whole
from cignn._errors import DataError, Option
from cignn.datasets.tables import MISSING
from cignn.estimators.subjects import classes_of, strata_of

LARGEST = 0.25  # share of the other sites' scans that whole validation sites may take


class Split(NamedTuple):
    """Three disjoint sets of positions in the data, and a name: the repeat, the fold or the site."""

    name: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def development(self) -> np.ndarray:
        """All but the test part, in order: what settings may be searched on."""
        return np.sort(np.concatenate([self.train, self.validation]))

    def digest(self) -> str:
        """Return a fingerprint of the three sets."""
        parts = [np.asarray(part, np.int64) for part in (self.train, self.validation, self.test)]
        return digest(*parts, length=16)


@dataclass(frozen=True)
class Labels:
    """What a protocol may know of the data: (n,) labels, names of subjects and, or None, of sites.

    own_test : (n,) which ones the data themselves set apart for testing, or None.
    """

    y: np.ndarray
    subjects: np.ndarray
    sites: np.ndarray | None = None
    own_test: np.ndarray | None = None

    def __getitem__(self, index: np.ndarray) -> Labels:
        columns = (self.y, self.subjects, self.sites, self.own_test)
        return Labels(*(None if column is None else column[index] for column in columns))  # type: ignore[arg-type]


def labels_of(data: Any) -> Labels:
    """Read labels, subjects and sites of a `Cohort` or a `GraphSet`.

    Subjects of graphs are ``meta["subject"]``, by default each graph its own; sites are ``meta["site"]``, by
    default ``groups``. Groups "train" and "test" are no sites: the data bring test graphs of their own.
    """
    if data.y is None:
        raise ValueError("the data carry no labels; make them with y.")
    y = np.asarray(data.y)
    meta = getattr(data, "meta", {})
    subjects = getattr(data, "subjects", meta.get("subject"))
    subjects = np.arange(len(y)).astype(str) if subjects is None else np.asarray(subjects).astype(str)
    _check_labels(y, subjects)
    groups = getattr(data, "groups", None)
    own_test = None
    if groups is not None and set(np.asarray(groups).tolist()) <= {"train", "test"}:
        marked = np.asarray(groups) == "test"
        groups, own_test = None, marked if marked.any() and not marked.all() else None
    sites = getattr(data, "sites", meta.get("site", groups))
    return Labels(y, subjects, None if sites is None else np.asarray(sites).astype(str), own_test)


# ----------------------------------------------------------------------- protocols


@dataclass(frozen=True)
class Protocol(ABC):
    """A way to split; ``inner``: into how many parts a search of settings splits what is not test data."""

    name: ClassVar[str]
    inner: int = field(default=3, kw_only=True)

    @abstractmethod
    def splits(self, labels: Labels, seed: int) -> list[Split]:
        """Return the splits that ``seed`` draws."""

    @abstractmethod
    def inner_splits(self, labels: Labels, split: Split, seed: int) -> list[Split]:
        """Split the development part of ``split`` again; positions are those of the whole data."""


@dataclass(frozen=True)
class Holdout(Protocol):
    """Random 80/10/10, stratified by label; ``repeats`` of them for every seed.

    validation, test : shares of the subjects. Data with test graphs of their own (groups "train" and "test")
    are tested on these, and ``validation`` is a share of the others.
    """

    name: ClassVar[str] = "holdout"
    repeats: int = 1
    validation: float = 0.1
    test: float = 0.1

    def splits(self, labels: Labels, seed: int) -> list[Split]:
        """One split per repeat, named by its number."""
        number("validation", self.validation, 0, 1)
        number("test", self.test, 0, 1)
        whole("repeats", self.repeats, 1)
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation + test must be less than 1, got {self.validation} + {self.test}; "
                "nothing is left to learn from."
            )
        if labels.own_test is not None:
            return self._around(labels.own_test, labels, seed)
        people = _People.of(labels)
        people.check_counts(3, "holdout needs at least 3 subjects of every class")
        out = []
        for repeat in range(self.repeats):
            rest, test = people.cut(np.arange(len(people)), self.test, _seed(seed, repeat, 0), least=2)
            out.append(_with_validation(people, str(repeat + 1), rest, test, self.validation, seed, repeat))
        return out

    def _around(self, own_test: np.ndarray, labels: Labels, seed: int) -> list[Split]:
        """Splits with the test graphs the data bring; validation is drawn from the others."""
        test, others = np.flatnonzero(own_test), np.flatnonzero(~own_test)
        people = _People.of(labels[others])
        people.check_counts(2, 'holdout needs at least 2 subjects of every class in the group "train"')
        out = []
        for repeat in range(self.repeats):
            train, part = people.cut(np.arange(len(people)), self.validation, _seed(seed, repeat, 1))
            learnt, chosen = others[people.positions(train)], others[people.positions(part)]
            out.append(Split(str(repeat + 1), learnt, chosen, test))
        return out

    def inner_splits(self, labels: Labels, split: Split, seed: int) -> list[Split]:
        """Stratified folds of the development part."""
        return _inner_folds(labels, split, self.inner, self.validation, seed)


@dataclass(frozen=True)
class KFold(Protocol):
    """Stratified folds, each the test part once; ``repeats`` new shuffles for every seed.

    n_splits : folds. validation : share of all subjects.
    """

    name: ClassVar[str] = "kfold"
    n_splits: int = 10
    repeats: int = 1
    validation: float = 0.1

    def splits(self, labels: Labels, seed: int) -> list[Split]:
        """One split per fold and repeat, named "repeat.fold", or "fold" where there is one repeat."""
        number("validation", self.validation, 0, 1)
        whole("repeats", self.repeats, 1)
        whole("n_splits", self.n_splits, 2)
        _refuse_own_test(labels, self.name)
        people = _People.of(labels)
        least = _least_of_folds(self.n_splits)
        wanted = f"kfold with {self.n_splits} folds needs at least {least} subjects of every class"
        fewer = [Option("n_splits", advice="lower {}", step="kfold")] if self.n_splits > 3 else []
        people.check_counts(least, wanted, fewer)
        out = []
        for repeat in range(self.repeats):
            folds = people.folds(np.arange(len(people)), self.n_splits, _seed(seed, repeat, 0))
            for fold, (rest, test) in enumerate(folds):
                name = str(fold + 1) if self.repeats == 1 else f"{repeat + 1}.{fold + 1}"
                draw = repeat * self.n_splits + fold
                out.append(_with_validation(people, name, rest, test, self.validation, seed, draw))
        return out

    def inner_splits(self, labels: Labels, split: Split, seed: int) -> list[Split]:
        """Stratified folds of the development part."""
        return _inner_folds(labels, split, self.inner, self.validation, seed)


@dataclass(frozen=True)
class LeaveOneSiteOut(Protocol):
    """Every site is the test part once; whole other sites, drawn by the seed, choose the epoch.

    So the epoch is chosen for sites that were not learnt from, as the test site is. Where that would take
    more than a quarter of the other scans (few or large sites), validation is a share of every other site.
    Scans that a test subject has at other sites are left out.

    validation : least share of the other sites' subjects.
    """

    name: ClassVar[str] = "loso"
    validation: float = 0.1

    def splits(self, labels: Labels, seed: int) -> list[Split]:
        """One split per site, named by it."""
        number("validation", self.validation, 0, 1)
        _refuse_own_test(labels, self.name)
        sites = _sites(labels)
        out = []
        for draw, site in enumerate(sites):
            test = np.flatnonzero(labels.sites == site)
            others = np.flatnonzero(~np.isin(labels.subjects, labels.subjects[test]))
            missing = set(np.unique(labels.y).tolist()) - set(labels.y[others].tolist())
            if missing:
                raise ValueError(
                    f"without site {site!r} nobody of class {min(missing, key=str)!r} is left to learn from; "
                    "drop the site or merge it with another."
                )
            part = _validation_by_site(labels, others, self.validation, _seed(seed, draw, 1))
            out.append(Split(site, np.setdiff1d(others, part), part, test))
        return out

    def inner_splits(self, labels: Labels, split: Split, seed: int) -> list[Split]:
        """Groups of the other sites, each scored once; stratified folds where there is one other site."""
        whole("inner", self.inner, 2)
        where = split.development
        inside = labels[where]
        assert inside.sites is not None
        sites = np.unique(inside.sites)
        groups = min(self.inner, len(sites))
        if groups < 2:
            return _inner_folds(labels, split, self.inner, self.validation, seed)
        rng = np.random.default_rng(_seed(seed, 0, 2))
        group_of = dict(zip(rng.permutation(sites), np.arange(len(sites)) % groups, strict=True))
        merged = Labels(inside.y, inside.subjects, np.array([str(group_of[s]) for s in inside.sites]))
        out = []
        for one in LeaveOneSiteOut(self.validation).splits(merged, seed):
            rest = np.concatenate([one.train, one.validation])
            part = _validation_by_site(inside, rest, self.validation, _seed(seed, int(one.name), 3))
            out.append(Split(one.name, where[np.setdiff1d(rest, part)], where[part], where[one.test]))
        return out


@dataclass(frozen=True)
class Given(Protocol):
    """Splits of one's own, the same for every seed; parts are positions or masks."""

    name: ClassVar[str] = "given"
    given: tuple[Split, ...] = ()

    def splits(self, labels: Labels, seed: int) -> list[Split]:
        """The splits as they came, checked."""
        n = len(labels.y)
        splits = [Split(s.name, *(_positions(s, part, n) for part in Split._fields[1:])) for s in self.given]
        names = [split.name for split in splits]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{len(twice)} splits are named {twice[0]!r}; give each a name of its own.")
        check_splits(splits, labels)
        return splits

    def inner_splits(self, labels: Labels, split: Split, seed: int) -> list[Split]:
        """Stratified folds of the development part."""
        return _inner_folds(labels, split, self.inner, 0.1, seed)


PROTOCOLS: dict[str, type[Protocol]] = {p.name: p for p in (Holdout, KFold, LeaveOneSiteOut)}


def make_protocol(name: str, **params: Any) -> Protocol:
    """Make the protocol of that name, one of `PROTOCOLS`: ``make_protocol("kfold", n_splits=5)``."""
    if name not in PROTOCOLS:
        raise ValueError(f"there is no protocol {name!r}{nearest(name, PROTOCOLS)}")
    known = [f.name for f in fields(PROTOCOLS[name])]
    for param in params:
        if param not in known:
            raise ValueError(f"{name!r} has no parameter {param!r}{nearest(param, known)}")
    return PROTOCOLS[name](**params)


# -------------------------------------------------------------------- subjects


class _People(NamedTuple):
    """Subjects with their classes and their scans; what is drawn are subjects."""

    has: np.ndarray  # (subjects, classes) bool: a subject may have scans of several
    classes: np.ndarray
    scans: list[np.ndarray]  # positions in the data

    @classmethod
    def of(cls, labels: Labels) -> _People:
        classes, codes = np.unique(labels.y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"the data must have at least two classes, got only {classes[:1].tolist()}.")
        _, first, of_scan = np.unique(labels.subjects, return_index=True, return_inverse=True)
        order = np.argsort(first)  # subjects in the order of the data
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        sorted_scans = np.argsort(place[of_scan], kind="stable")
        counts = np.bincount(of_scan)[order]
        has = classes_of(codes, place[of_scan], len(classes))
        return cls(has, classes, np.split(sorted_scans, np.cumsum(counts)[:-1]))

    def __len__(self) -> int:
        return len(self.has)

    def check_counts(self, least: int, wanted: str, options: Sequence[Option] = ()) -> None:
        counts = self.has.sum(0)
        if counts.min() < least:
            rare = self.classes.tolist()[counts.argmin()]
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
        n_classes = len(self.classes)
        size = min(max(n_classes, round(share * len(self))), len(index) - n_classes)
        if self.has[index].sum(0).min() < 2:
            raise ValueError(
                "too few subjects of a class are left for training and validation; add subjects."
            )
        strata = strata_of(self.has[index], 2, min(size, len(index) - size))
        rest, part = train_test_split(index, test_size=size, stratify=strata, random_state=seed)
        for code in range(n_classes):  # rounding took the last of a rare class, or none: give back, or take
            missing = max(0, least - int(self.has[rest, code].sum()))
            if missing:
                back = part[self.has[part, code]][:missing]
                rest, part = np.append(rest, back), np.setdiff1d(part, back)
            elif not self.has[part, code].any():
                one = rest[self.has[rest, code]][:1]
                rest, part = np.setdiff1d(rest, one), np.append(part, one)
        return rest, part

    def folds(self, index: np.ndarray, n: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        cv = StratifiedKFold(n, shuffle=True, random_state=seed)
        for rest, test in cv.split(index, strata_of(self.has[index], n, len(index))):
            yield index[rest], index[test]

    def positions(self, subjects: np.ndarray) -> np.ndarray:
        """Scans of subjects, in the order of the data."""
        parts = [self.scans[i] for i in subjects]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _with_validation(
    people: _People, name: str, rest: np.ndarray, test: np.ndarray, share: float, seed: int, draw: int
) -> Split:
    train, validation = people.cut(rest, share, _seed(seed, draw, 1))
    return Split(name, *(people.positions(part) for part in (train, validation, test)))


def _least_of_folds(n: int) -> int:
    """Subjects of a class of which every fold leaves two, one to learn from and one to choose the epoch."""
    return 4 if n == 2 else n


def _inner_folds(labels: Labels, split: Split, n: int, share: float, seed: int) -> list[Split]:
    whole("inner", n, 2)
    where = split.development
    people = _People.of(labels[where])
    least = _least_of_folds(n)
    fewer = [Option("inner", advice="lower {}", step="protocol")] if n > 3 else []
    people.check_counts(least, f"inner={n} needs at least {least} subjects of every class", fewer)
    folds = people.folds(np.arange(len(people)), n, _seed(seed, 0, 2))
    splits = [
        _with_validation(people, str(i + 1), rest, test, share, seed, 1000 + i)
        for i, (rest, test) in enumerate(folds)
    ]
    return [Split(s.name, where[s.train], where[s.validation], where[s.test]) for s in splits]


# ----------------------------------------------------------------------- sites


def _sites(labels: Labels) -> list[str]:
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


def _validation_by_site(labels: Labels, others: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Draw whole sites until their share is reached and every class is there; else a share of each site."""
    assert labels.sites is not None
    inside = labels[others]
    sites = np.asarray(inside.sites)
    n_classes = len(np.unique(inside.y))
    rng = np.random.default_rng(seed)

    def complete(chosen: np.ndarray) -> bool:
        return len(np.unique(inside.y[chosen])) == n_classes

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
    people = _People.of(inside)
    _, part = people.cut(np.arange(len(people)), share, seed)
    return others[people.positions(part)]


# ----------------------------------------------------------------------- checks


def _seed(seed: int, draw: int, purpose: int) -> int:
    """A seed of its own for every draw: splits must not depend on how many others are drawn."""
    return int(np.random.SeedSequence([seed, draw, purpose]).generate_state(1)[0])


def _refuse_own_test(labels: Labels, name: str) -> None:
    if labels.own_test is not None:
        raise ValueError(
            f"{name} would mix training and test graphs of data that bring test graphs of their own (groups "
            '"train" and "test"); use "holdout", or take graphs[graphs.groups == "train"].'
        )


def _check_labels(y: np.ndarray, subjects: np.ndarray) -> None:
    missing = pd.isna(y)
    if missing.any():
        raise ValueError(f"there is no label for {name_some(subjects[missing])}; leave out who has none.")
    kinds = {type(label).__name__ for label in y.tolist()}
    if "str" in kinds and len(kinds) > 1:
        raise ValueError(f"labels must be of one kind, got {' and '.join(sorted(kinds))}; use words for all.")


def _positions(split: Split, part: str, n: int) -> np.ndarray:
    """One part of a split of one's own as positions; a mask marks them."""
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
