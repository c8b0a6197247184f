"""Splitters: which subjects train, which choose the epoch, which are scored once.

All scans of one subject stay on one side of a split. `evaluate` takes the three parts of `Splitter.splits`;
scikit-learn's `cross_val_score` and `GridSearchCV` take a splitter as ``cv``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_consistent_length

from cignn._checks import Option, name_some, nearest, number, whole
from cignn.evaluation.splits import (
    PARTS,
    Labels,
    People,
    Split,
    checked_splits,
    labels_of,
    sites_of,
    validation_by_site,
)


@dataclass(frozen=True, repr=False)
class Splitter(BaseCrossValidator):
    """A way to split; positions in a split are those of the whole data.

    ``validation_size`` is a share of the subjects, ``n_inner`` the number of splits that `evaluate` searches
    settings on, and ``random_state`` draws the splits of `split`, the cross-validator's.
    """

    name: ClassVar[str]
    groups_are: ClassVar[str] = "subjects"  # what ``groups`` of scikit-learn's functions say of the scans
    __metadata_request__split: ClassVar = {"groups": True}  # they are handed on where routing is switched on
    validation_size: float = field(default=0.1, kw_only=True)
    n_inner: int = field(default=3, kw_only=True)
    random_state: int = field(default=0, kw_only=True)

    def splits(self, data: Any, seed: int | None = None) -> list[Split]:
        """Return the splits in three parts: train, validation and test.

        Parameters
        ----------
        data : Cohort or GraphSet
            The data to split.
        seed : int or None, default=None
            Seed of the splits, ``random_state`` by default.

        Returns
        -------
        list of Split
            Named splits; positions are those of the data.
        """
        number("validation_size", self.validation_size, 0, 1)
        seed = whole("random_state", self.random_state, 0) if seed is None else seed
        return self._draw(labels_of(data), seed)

    @abstractmethod
    def _draw(self, labels: Labels, seed: int) -> list[Split]:
        """The splits that a seed draws."""

    def inner_splits(self, data: Any, split: Split, seed: int) -> list[Split]:
        """Split the development part of ``split`` again, for a search of settings."""
        return self._inner(labels_of(data)[split.development], split.development, seed)

    def _inner(self, inside: Labels, where: np.ndarray, seed: int) -> list[Split]:
        """Stratified folds of the scans at the positions ``where``."""
        n = whole("n_inner", self.n_inner, 2)
        people = People.of(inside)
        least = _least_of_folds(n)
        fewer = [Option("n_inner", advice="lower {}", step="protocol")] if n > 3 else []
        people.check_counts(least, f"n_inner={n} needs at least {least} subjects of every class", fewer)
        splits = [
            people.split(str(i + 1), rest, test, self.validation_size, _seed(seed, 1000 + i, 1))
            for i, (rest, test) in enumerate(people.drawn.folds(n, _seed(seed, 0, 2)))
        ]
        return [Split(s.name, where[s.train], where[s.validation], where[s.test]) for s in splits]

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the positions of every training part, validation included, and test part.

        Parameters
        ----------
        X : Cohort, GraphSet or array of shape (n, ...)
            The data to split.
        y : array of shape (n,) or None, default=None
            Labels, by default those of X.
        groups : array of shape (n,) or None, default=None
            Subjects, by default those of X; for `LeaveOneSiteOut` sites, for `PredefinedGroups` "train",
            "val" and "test".

        Yields
        ------
        train : array of shape (n_train,)
            Positions of the scans to learn from.
        test : array of shape (n_test,)
            Positions of the scans to test on.
        """
        check_consistent_length(X, y)
        labels = labels_of(X, y)
        if groups is not None:
            if np.shape(groups) != labels.y.shape:
                raise ValueError(f"groups must have shape {labels.y.shape}, got {np.shape(groups)}.")
            labels = replace(labels, **{self.groups_are: np.asarray(groups).astype(str)})
        for split in self.splits(labels):
            yield split.development, split.test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X : Cohort, GraphSet, array of shape (n, ...) or None, default=None
            The data to split. Only `LeaveOneSiteOut` needs them.
        y : array of shape (n,) or None, default=None
            As for `split`.
        groups : array of shape (n,) or None, default=None
            As for `split`.

        Returns
        -------
        int
            The number of splits.
        """
        return self._n_splits() if X is None else len(list(self.split(X, y, groups)))

    def _n_splits(self) -> int:
        raise ValueError(f"how many splits {self.name} makes depends on the data; pass X, y and groups.")


@dataclass(frozen=True, repr=False)
class Holdout(Splitter):
    """Random hold-out by subject, stratified by class: the paper's 80/10/10.

    Data with groups "train" and "test" are tested on their own test graphs, as `PredefinedGroups` does.

    Parameters
    ----------
    n_repeats : int, default=1
        Number of splits that a seed draws.
    test_size : float, default=0.1
        Share of the subjects to test on.
    validation_size : float, default=0.1
        Share of the subjects to choose the epoch on. It is part of the training part that `split` yields.
    n_inner : int, default=3
        Number of inner splits for a search of settings by `evaluate`.
    random_state : int, default=0
        Seed of the splits; `evaluate` uses its own seeds instead.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.evaluation import Holdout
    >>> graphs = make_ba2motifs(40, random_state=0)
    >>> [(len(train), len(test)) for train, test in Holdout(n_repeats=2, test_size=0.25).split(graphs)]
    [(30, 10), (30, 10)]
    """

    name: ClassVar[str] = "holdout"
    n_repeats: int = 1
    test_size: float = 0.1

    def _draw(self, labels: Labels, seed: int) -> list[Split]:
        """One split per repeat, named by its number."""
        number("test_size", self.test_size, 0, 1)
        whole("n_repeats", self.n_repeats, 1)
        if self.validation_size + self.test_size >= 1:
            raise ValueError(
                f"validation_size + test_size must be less than 1, got {self.validation_size} + "
                f"{self.test_size}; nothing is left to learn from."
            )
        if labels.parts is not None:
            return _predefined(labels, seed, self.n_repeats, self.validation_size)
        people = People.of(labels)
        people.check_counts(3, "holdout needs at least 3 subjects of every class")
        out = []
        for repeat in range(self.n_repeats):
            rest, test = people.cut(people.everybody, self.test_size, _seed(seed, repeat, 0), least=2)
            out.append(
                people.split(str(repeat + 1), rest, test, self.validation_size, _seed(seed, repeat, 1))
            )
        return out

    def _n_splits(self) -> int:
        return self.n_repeats


@dataclass(frozen=True, repr=False)
class KFold(Splitter):
    """Folds of subjects, stratified by class, each the test part once.

    Parameters
    ----------
    n_splits : int, default=10
        Number of folds.
    n_repeats : int, default=1
        Number of times that a seed shuffles the subjects into new folds.
    validation_size : float, default=0.1
        Share of all subjects to choose the epoch on. It is part of the training part that `split` yields.
    n_inner : int, default=3
        Number of inner splits for a search of settings by `evaluate`.
    random_state : int, default=0
        Seed of the splits; `evaluate` uses its own seeds instead.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import KFold
    >>> graphs = make_ba2motifs(30, random_state=0)
    >>> cross_val_score(make_estimator("lasso", C=1.0), graphs, graphs.y, cv=KFold(3)).shape
    (3,)
    """

    name: ClassVar[str] = "kfold"
    n_splits: int = 10
    n_repeats: int = 1

    def _draw(self, labels: Labels, seed: int) -> list[Split]:
        """One split per fold and repeat, named "repeat.fold", or "fold" where there is one repeat."""
        whole("n_repeats", self.n_repeats, 1)
        whole("n_splits", self.n_splits, 2)
        _refuse_parts(labels, self.name)
        people = People.of(labels)
        least = _least_of_folds(self.n_splits)
        wanted = f"kfold with {self.n_splits} folds needs at least {least} subjects of every class"
        fewer = [Option("n_splits", advice="lower {}", step="kfold")] if self.n_splits > 3 else []
        people.check_counts(least, wanted, fewer)
        out = []
        for repeat in range(self.n_repeats):
            for fold, (rest, test) in enumerate(people.drawn.folds(self.n_splits, _seed(seed, repeat, 0))):
                name = str(fold + 1) if self.n_repeats == 1 else f"{repeat + 1}.{fold + 1}"
                chance = _seed(seed, repeat * self.n_splits + fold, 1)
                out.append(people.split(name, rest, test, self.validation_size, chance))
        return out

    def _n_splits(self) -> int:
        return self.n_splits * self.n_repeats


@dataclass(frozen=True, repr=False)
class LeaveOneSiteOut(Splitter):
    """Every site is the test part once; the epoch is chosen on other whole sites.

    So the epoch is chosen on sites that were not used in training, like the test site. If whole sites would
    take more than a quarter of the other scans, the validation part is a share of every other site. Scans of
    a test subject at other sites are left out.

    Parameters
    ----------
    validation_size : float, default=0.1
        Smallest share of the other sites' scans to choose the epoch on. They are part of the training part
        that `split` yields.
    n_inner : int, default=3
        Number of groups of sites on which `evaluate` searches settings.
    random_state : int, default=0
        Seed of the validation sites; `evaluate` uses its own seeds instead.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import LeaveOneSiteOut
    >>> cohort = make_cohort(24, n_rois=6, n_edges=2, n_sites=3, data="matrices", random_state=0)
    >>> splits = LeaveOneSiteOut().splits(cohort)
    >>> [set(cohort.sites[split.test]) == {split.name} for split in splits]
    [True, True, True]
    """

    name: ClassVar[str] = "loso"
    groups_are: ClassVar[str] = "sites"

    def _draw(self, labels: Labels, seed: int) -> list[Split]:
        """One split per site, named by it."""
        _refuse_parts(labels, self.name)
        sites = sites_of(labels)
        out = []
        for draw, site in enumerate(sites):
            test = np.flatnonzero(labels.sites == site)
            others = np.flatnonzero(~np.isin(labels.subjects, labels.subjects[test]))
            missing = set(np.unique(labels.y).tolist()) - set(labels.y[others].tolist())
            if missing and labels.strata is None:
                raise ValueError(
                    f"without site {site!r} nobody of class {min(missing, key=str)!r} is left to learn from; "
                    "drop the site or merge it with another."
                )
            part = validation_by_site(labels, others, self.validation_size, _seed(seed, draw, 1))
            out.append(Split(site, np.setdiff1d(others, part), part, test))
        return out

    def _inner(self, inside: Labels, where: np.ndarray, seed: int) -> list[Split]:
        """Groups of the sites at the positions ``where``, each tested once; folds where there is one site."""
        n = whole("n_inner", self.n_inner, 2)
        assert inside.sites is not None
        sites = np.unique(inside.sites)
        if len(sites) < 2:
            return super()._inner(inside, where, seed)
        rng = np.random.default_rng(_seed(seed, 0, 2))
        group_of = dict(zip(rng.permutation(sites), np.arange(len(sites)) % min(n, len(sites)), strict=True))
        merged = replace(inside, sites=np.array([str(group_of[s]) for s in inside.sites]), parts=None)
        out = []
        for one in self._draw(merged, seed):
            rest = np.concatenate([one.train, one.validation])
            part = validation_by_site(inside, rest, self.validation_size, _seed(seed, int(one.name), 3))
            out.append(Split(one.name, where[np.setdiff1d(rest, part)], where[part], where[one.test]))
        return out


@dataclass(frozen=True, repr=False)
class PredefinedGroups(Splitter):
    """The split that comes with the data: groups "train", "test" and, in some data, "val".

    Spurious-Motif sets have such groups. Without "val", the seed draws validation graphs from "train".

    Parameters
    ----------
    validation_size : float, default=0.1
        Share of the subjects in "train" to choose the epoch on where there is no group "val". The validation
        part belongs to the training part that `split` yields.
    n_inner : int, default=3
        Number of inner splits for a search of settings by `evaluate`.
    random_state : int, default=0
        Seed of the validation graphs; `evaluate` uses its own seeds instead.

    Examples
    --------
    >>> from cignn.datasets import make_spurious_motifs
    >>> from cignn.evaluation import PredefinedGroups
    >>> graphs = make_spurious_motifs(90, random_state=0)
    >>> [(train, test)] = PredefinedGroups().split(graphs)
    >>> set(graphs.groups[train].tolist()), set(graphs.groups[test].tolist())
    ({'train'}, {'test'})
    """

    name: ClassVar[str] = "predefined"
    groups_are: ClassVar[str] = "parts"

    def _draw(self, labels: Labels, seed: int) -> list[Split]:
        found = set() if labels.parts is None else set(labels.parts.tolist())
        if not {"train", "test"} <= found <= set(PARTS):
            got = f"got {name_some(sorted(found))}" if found else "the data have none"
            raise ValueError(
                f'predefined groups are "train", "test" and, if any, "val", {got}; use Holdout().'
            )
        return _predefined(labels, seed, 1, self.validation_size)

    def _n_splits(self) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Given(Splitter):
    """The user's own splits, the same for every seed; parts are positions or masks."""

    name: ClassVar[str] = "given"
    given: tuple[Split, ...] = ()

    def _draw(self, labels: Labels, seed: int) -> list[Split]:
        return checked_splits(self.given, labels)


PROTOCOLS: dict[str, type[Splitter]] = {one.name: one for one in (Holdout, KFold, LeaveOneSiteOut)}
"""Splitters by the names that `make_protocol` and `evaluate` take."""


def make_protocol(name: str, **params: Any) -> Splitter:
    """Make the splitter of a protocol by its name.

    Parameters
    ----------
    name : {"holdout", "kfold", "loso"}
        The protocol.
    **params : dict
        Parameters of the splitter: `Holdout`, `KFold` or `LeaveOneSiteOut`.

    Returns
    -------
    Splitter
        What `evaluate` takes as protocol and scikit-learn's functions as ``cv``.

    Examples
    --------
    >>> from cignn.evaluation import make_protocol
    >>> make_protocol("kfold", n_splits=5).get_n_splits()
    5
    """
    if name not in PROTOCOLS:
        raise ValueError(f"there is no protocol {name!r}{nearest(name, PROTOCOLS)}")
    known = [f.name for f in fields(PROTOCOLS[name])]
    for param in params:
        if param not in known:
            raise ValueError(f"{name!r} has no parameter {param!r}{nearest(param, known)}")
    return PROTOCOLS[name](**params)


# ----------------------------------------------------------------------- helpers


def _predefined(labels: Labels, seed: int, n_repeats: int, share: float) -> list[Split]:
    """Splits by the data's own parts; without "val", every repeat draws validation graphs from "train"."""
    assert labels.parts is not None
    train, val, test = (np.flatnonzero(labels.parts == part) for part in PARTS)
    if len(val):
        return [Split("1", train, val, test)]
    people = People.of(labels[train])
    people.check_counts(2, 'holdout needs at least 2 subjects of every class in the group "train"')
    out = []
    for repeat in range(n_repeats):
        rest, part = people.cut(people.everybody, share, _seed(seed, repeat, 1))
        learnt, chosen = train[people.drawn.scans(rest)], train[people.drawn.scans(part)]
        out.append(Split(str(repeat + 1), learnt, chosen, test))
    return out


def _least_of_folds(n: int) -> int:
    """Subjects of a class of which every fold leaves two, one to learn from and one to choose the epoch."""
    return 4 if n == 2 else n


def _seed(seed: int, draw: int, purpose: int) -> int:
    """A seed of its own for every draw: splits must not depend on how many others are drawn."""
    return int(np.random.SeedSequence([seed, draw, purpose]).generate_state(1)[0])


def _refuse_parts(labels: Labels, name: str) -> None:
    if labels.parts is not None:
        raise ValueError(
            f"{name} would mix training and test graphs of data that bring test graphs of their own (groups "
            '"train" and "test"); use "holdout", or take graphs[graphs.groups == "train"].'
        )
