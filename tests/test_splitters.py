"""What must hold for splits: nobody on two sides, shares and classes kept, sites apart, clear refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from cignn import Cohort, GraphSet
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_spurious_motifs
from cignn.estimators import make_estimator
from cignn.evaluation import (
    PROTOCOLS,
    Holdout,
    KFold,
    LeaveOneSiteOut,
    PredefinedGroups,
    Split,
    make_protocol,
)
from cignn.evaluation.splits import Labels, check_splits, labels_of
from cignn.evaluation.splitters import Given, Splitter

QUICK: dict[str, dict[str, Any]] = {
    "holdout": {"n_repeats": 3},
    "kfold": {"n_splits": 4, "n_repeats": 2},
    "loso": {},
}


def people(n: int = 60, n_sites: int = 6, scans: int = 1, seed: int = 0) -> Labels:
    """n subjects, a third of them patients, each scanned ``scans`` times, in random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.repeat(np.arange(n), scans))
    y, site = np.arange(n) % 3 == 0, np.arange(n) // 3 % n_sites
    return Labels(y[order].astype(int), order.astype(str), np.array([f"s{k}" for k in site[order]]))


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(deadline=None, max_examples=15)
@given(scans=st.integers(1, 3), n_sites=st.integers(2, 8), seed=st.integers(0, 99))
def test_nobody_is_on_two_sides_of_a_split(name: str, scans: int, n_sites: int, seed: int) -> None:
    labels = people(scans=scans, n_sites=n_sites, seed=seed)
    protocol = make_protocol(name, **QUICK[name])
    for split in protocol.splits(labels, seed):
        check_splits([split], labels)
        every = np.concatenate([split.train, split.validation, split.test])
        assert sorted(every) == list(range(len(labels.y)))  # nobody is lost either
        for part in (split.train, split.validation):
            assert set(labels.y[part]) == {0, 1}
        inner = protocol.inner_splits(labels, split, seed)
        check_splits(inner, labels)
        for one in inner:  # settings are searched without the test part
            assert not np.isin(np.concatenate(one[1:]), split.test).any()
        assert sorted(np.concatenate([one.test for one in inner])) == sorted(split.development)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_seed_draws_the_same_splits_again_and_others_draw_others(name: str) -> None:
    protocol, labels = make_protocol(name, **QUICK[name]), people(n_sites=10)
    draw = [[split.digest() for split in protocol.splits(labels, seed)] for seed in (0, 0, 1)]
    assert draw[0] == draw[1]
    assert draw[0] != draw[2]
    assert len(set(draw[0])) == len(draw[0])


def test_a_holdout_is_80_10_10_and_stratified() -> None:
    labels = people(n=300)
    for split in make_protocol("holdout", n_repeats=4).splits(labels, 0):
        assert [len(part) for part in split[1:]] == [240, 30, 30]
        assert [labels.y[part].sum() for part in split[1:]] == [80, 10, 10]


def test_more_repeats_leave_the_first_ones_as_they_were() -> None:
    few, many = (make_protocol("holdout", n_repeats=n).splits(people(), 5) for n in (2, 4))
    assert [s.digest() for s in few] == [s.digest() for s in many[:2]]


def test_folds_test_everybody_once_in_every_repeat() -> None:
    labels = people(scans=2)
    splits = make_protocol("kfold", n_splits=4, n_repeats=2).splits(labels, 0)
    assert [s.name for s in splits] == ["1.1", "1.2", "1.3", "1.4", "2.1", "2.2", "2.3", "2.4"]
    for repeat in (splits[:4], splits[4:]):
        assert sorted(np.concatenate([s.test for s in repeat])) == list(range(len(labels.y)))
        assert {labels.y[s.test].sum() for s in repeat} == {2 * 20 // 4}


def test_leaving_a_site_out_tests_that_site_and_validates_on_whole_others() -> None:
    labels = people(n=120, n_sites=10)
    splits = make_protocol("loso").splits(labels, 0)
    assert [s.name for s in splits] == sorted({f"s{k}" for k in range(10)})
    for split in splits:
        sites = [set(labels.sites[part]) for part in split[1:]]  # type: ignore[index]
        assert sites[2] == {split.name}
        assert not sites[0] & sites[1] and not (sites[0] | sites[1]) & sites[2]
        assert len(split.validation) >= 0.1 * len(split.development)


@pytest.mark.parametrize("n_sites", [2, 3])
def test_with_few_sites_validation_is_a_share_of_each(n_sites: int) -> None:
    labels = people(n=120, n_sites=n_sites)
    for split in make_protocol("loso").splits(labels, 0):
        assert set(labels.sites[split.train]) == set(labels.sites[split.validation])  # type: ignore[index]
        assert len(split.validation) == pytest.approx(0.1 * len(split.development), abs=2)


def test_who_was_scanned_at_two_sites_is_not_learnt_from_when_one_is_tested() -> None:
    labels = people(n=60, n_sites=6)
    subjects = labels.subjects.copy()
    travels = np.flatnonzero(labels.sites == "s0")[0], np.flatnonzero(labels.sites == "s3")[0]
    subjects[travels[1]] = subjects[travels[0]]
    labels = Labels(labels.y, subjects, labels.sites)
    by_site = {split.name: split for split in make_protocol("loso").splits(labels, 0)}
    assert travels[0] in by_site["s0"].test
    assert travels[1] not in by_site["s0"].development
    assert set(travels) <= set(by_site["s1"].development)
    check_splits(list(by_site.values()), labels)


def test_the_search_of_sites_scores_sites_it_did_not_learn_from() -> None:
    labels = people(n=120, n_sites=10)
    protocol = make_protocol("loso", n_inner=3)
    inner = protocol.inner_splits(labels, protocol.splits(labels, 0)[0], 0)
    assert len(inner) == 3
    for one in inner:
        tested = set(labels.sites[one.test])  # type: ignore[index]
        assert not tested & set(labels.sites[np.concatenate([one.train, one.validation])])  # type: ignore[index]


def test_splits_of_leaving_a_site_out_do_not_look_at_the_labels_of_the_test_site() -> None:
    labels = people(n=120, n_sites=10)
    before = make_protocol("loso").splits(labels, 0)[2]
    y = labels.y.copy()
    y[before.test] = 1 - y[before.test]
    after = make_protocol("loso").splits(Labels(y, labels.subjects, labels.sites), 0)[2]
    assert before.digest() == after.digest()


def test_a_set_with_test_graphs_of_its_own_is_tested_on_these() -> None:
    graphs = make_spurious_motifs(90, random_state=0)
    labels = labels_of(graphs)
    protocol = make_protocol("holdout", n_repeats=2)
    splits = [split for seed in (0, 1) for split in protocol.splits(labels, seed)]
    for split in splits:
        check_splits([split], labels)
        assert (
            graphs.groups[split.test].tolist()
            == ["test"] * 18
            == graphs.groups[graphs.groups == "test"].tolist()
        )
        assert set(graphs.groups[split.development]) == {"train"}
        assert len(split.development) == 72 and len(split.validation) == 7
        assert set(graphs.y[split.train]) == set(graphs.y[split.validation]) == {0, 1, 2}
        for inner in protocol.inner_splits(labels, split, 0):
            assert not np.isin(np.concatenate(inner[1:]), split.test).any()
    assert len({split.digest() for split in splits}) == 4, "every seed and repeat validates on others"
    for name in ("kfold", "loso"):
        with pytest.raises(ValueError, match=r'test graphs of their own.*use "holdout".*groups == "train"'):
            make_protocol(name).splits(labels, 0)
    train = graphs[graphs.groups == "train"]
    assert len(make_protocol("kfold", n_splits=3).splits(labels_of(train), 0)) == 3


# ------------------------------------------------------------------ scikit-learn


def two_scans(as_cohort: bool) -> Cohort | GraphSet:
    """24 subjects of three sites, scanned twice."""
    subject = np.repeat(np.arange(24), 2)
    rng = np.random.default_rng(0)
    matrices = np.stack([np.corrcoef(rng.normal(size=(4, 20)) + (i % 2)) for i in subject])
    names, sites = np.array([f"sub-{i}" for i in subject]), np.array(["a", "b", "c"])[subject // 2 % 3]
    if as_cohort:
        return Cohort(matrices=matrices, y=subject % 2, subjects=names, sites=sites)
    return GraphSet.from_arrays(matrices, y=subject % 2, groups=sites, meta={"subject": names})


def parted() -> GraphSet:
    """Graphs that bring their own training, validation and test graphs."""
    graphs = make_spurious_motifs(60, random_state=0)
    groups = np.where(np.arange(len(graphs)) % 5 == 0, "val", graphs.groups)
    groups = np.where(graphs.groups == "test", "test", groups)
    return GraphSet.from_arrays([g.weights for g in graphs], y=graphs.y, groups=groups)


SPLITTERS: dict[str, tuple[Splitter, Any, int]] = {
    f"{name} of {kind}": (splitter, two_scans(kind == "cohort"), n)
    for kind in ("cohort", "graphs")
    for name, splitter, n in (
        ("folds", KFold(3), 3),
        ("repeated folds", KFold(2, n_repeats=2, random_state=7), 4),
        ("hold-outs", Holdout(n_repeats=2, test_size=0.25), 2),
        ("sites", LeaveOneSiteOut(), 3),
    )
} | {"groups": (PredefinedGroups(), parted(), 1), "hold-outs of groups": (Holdout(3), parted(), 1)}


@pytest.mark.parametrize(("splitter", "data", "n"), SPLITTERS.values(), ids=SPLITTERS)
def test_scikit_learn_takes_every_splitter(splitter: Splitter, data: Any, n: int) -> None:
    model = make_estimator("lasso", C=1.0)
    pipe = make_pipeline(ConnectomeGraphs(), model) if isinstance(data, Cohort) else model
    folds = list(splitter.split(data, data.y))
    assert len(folds) == splitter.get_n_splits(data, data.y) == n
    subjects, sites = labels_of(data).subjects, labels_of(data).sites
    for train, test in folds:
        assert not set(subjects[train]) & set(subjects[test])
        if isinstance(splitter, LeaveOneSiteOut):
            assert len(set(sites[test])) == 1 and not set(sites[train]) & set(sites[test])  # type: ignore[index]
        if sites is None:
            assert set(data.groups[test]) == {"test"} and set(data.groups[train]) == {"train", "val"}
    scores = cross_val_score(pipe, data, data.y, cv=splitter)
    by_hand = [clone(pipe).fit(data[a], data.y[a]).score(data[b], data.y[b]) for a, b in folds]
    np.testing.assert_array_equal(scores, by_hand)
    grid = {"C" if pipe is model else f"{type(model).__name__.lower()}__C": [0.1, 1.0]}
    assert GridSearchCV(pipe, grid, cv=splitter).fit(data, data.y).n_splits_ == n


def test_groups_given_to_scikit_learn_are_subjects_or_sites() -> None:
    y, groups = np.arange(40) % 2, np.array([f"g{i}" for i in np.arange(40) // 2 % 5])
    x = np.zeros((40, 3))
    for train, test in KFold(2).split(x, y, np.arange(40) // 4):
        assert not set(train // 4) & set(test // 4)
    tested = [set(groups[test]) for _, test in LeaveOneSiteOut().split(x, y, groups)]
    assert tested == [{f"g{i}"} for i in range(5)]
    parts = np.where(np.arange(40) < 30, "train", "test")
    assert [test.tolist() for _, test in PredefinedGroups().split(x, y, parts)] == [list(range(30, 40))]
    with pytest.raises(ValueError, match=r"groups must have shape \(40,\), got \(39,\)"):
        list(KFold(2).split(x, y, groups[1:]))
    with pytest.raises(ValueError, match=r'predefined groups are "train", "test".*the data have none'):
        list(PredefinedGroups().split(x, y))
    with pytest.raises(ValueError, match="how many splits loso makes depends on the data"):
        LeaveOneSiteOut().get_n_splits()
    assert KFold(4, n_repeats=2).get_n_splits() == 8 and Holdout(3).get_n_splits() == 3
    assert "n_splits=4" in repr(KFold(4))


def test_the_validation_graphs_that_data_bring_choose_the_epoch() -> None:
    graphs = parted()
    for splitter in (Holdout(3), PredefinedGroups()):
        (split,) = splitter.splits(graphs, 5)
        assert [set(graphs.groups[part]) for part in split[1:]] == [{"train"}, {"val"}, {"test"}]


# ------------------------------------------------------------------------ refusals


def test_an_unknown_protocol_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no protocol 'k-fold'; did you mean 'kfold'.*holdout, kfold, loso"):
        make_protocol("k-fold")
    with pytest.raises(ValueError, match=r"'kfold' has no parameter 'folds'\. There are validation_size"):
        make_protocol("kfold", folds=3)


REFUSED: dict[str, tuple[str, dict[str, Any], Labels, str]] = {
    "one site": ("loso", {}, people(n_sites=1), "at least two sites, the data have only 's0'; use \"kfold\""),
    "no sites": ("loso", {}, Labels(people().y, people().subjects), "loso needs sites, the data have none"),
    "few": ("kfold", {"n_splits": 9}, people(n=24), "at least 9 subjects of every class, class 1 has 8"),
    "two folds": ("kfold", {"n_splits": 2}, people(n=9), "at least 4 subjects of every class, class 1 has 3"),
    "two": ("holdout", {}, people(n=6), "at least 3 subjects of every class, class 1 has 2"),
    "one class": (
        "holdout",
        {},
        Labels(np.zeros(9), np.arange(9).astype(str)),
        r"at least two classes, got only \[0",
    ),
    "a class of one site": (
        "loso",
        {},
        Labels(np.array([0, 0, 1, 0, 0, 1]), np.arange(6).astype(str), np.array(list("aabaab"))),
        "without site 'a' nobody of class 0 is left",
    ),
    "share": ("holdout", {"test_size": 1.5}, people(), r"test_size must lie in \(0, 1\), got 1.5"),
    "nothing left": (
        "holdout",
        {"test_size": 0.6, "validation_size": 0.4},
        people(),
        "less than 1, got 0.4 \\+ 0.6",
    ),
    "n_repeats": (
        "kfold",
        {"n_repeats": 0},
        people(),
        "n_repeats must be a whole number of at least 1, got 0",
    ),
    "folds": ("kfold", {"n_splits": 1}, people(), "n_splits must be a whole number of at least 2, got 1"),
}


@pytest.mark.parametrize(("name", "params", "labels", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_split_is_refused_in_one_line(
    name: str, params: dict[str, Any], labels: Labels, words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        make_protocol(name, **params).splits(labels, 0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_splits", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(5))
def test_as_few_subjects_of_a_class_as_folds_ask_for_are_enough(n_splits: int, seed: int) -> None:
    least = max(n_splits, 4 if n_splits == 2 else 3)
    y = np.repeat([0, 1, 2], [least, 3 * least + 1, 20])
    labels = Labels(y, np.arange(len(y)).astype(str))
    for split in make_protocol("kfold", n_splits=n_splits).splits(labels, seed):
        assert set(y[split.train]) == {0, 1, 2}


@pytest.mark.parametrize("share", [0.1, 0.4, 0.5, 0.6, 0.8])
@pytest.mark.parametrize("n", [3, 4, 30])
def test_three_subjects_of_a_class_are_enough_for_a_holdout(share: float, n: int) -> None:
    y = np.repeat([0, 1], [3, n])
    labels = Labels(y, np.arange(len(y)).astype(str))
    for split in make_protocol("holdout", test_size=share, n_repeats=5).splits(labels, 0):
        assert all(set(y[part]) == {0, 1} for part in split[1:])


@pytest.mark.parametrize("name", ["holdout", "kfold"])
@pytest.mark.parametrize("n_once", [0, 1, 2, 15])
def test_subjects_may_have_scans_of_several_classes(name: str, n_once: int) -> None:
    """Twelve subjects before and after a treatment, and some who came once, in any order."""
    subjects = np.r_[np.repeat(np.arange(12), 2), 12 + np.arange(n_once)].astype(str)
    y = np.array([*["pre", "post"] * 12, *["pre"] * n_once])
    order = np.random.default_rng(n_once).permutation(len(y))
    labels = Labels(y[order], subjects[order], None)
    protocol = make_protocol(name, **QUICK[name])
    for seed in range(5):
        splits = protocol.splits(labels, seed)
        check_splits(splits, labels)
        for split in splits:
            assert all(set(labels.y[part]) == {"pre", "post"} for part in split[1:])
            assert sorted(np.concatenate(split[1:])) == list(range(len(y)))
            check_splits(protocol.inner_splits(labels, split, seed), labels)
    few = Labels(y[:4], subjects[:4], None)
    with pytest.raises(ValueError, match=r"subjects of every class, class 'post' has 2; "):
        protocol.splits(few, 0)


@pytest.mark.parametrize("n", [10, 50])
def test_labels_of_other_scans_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        next(KFold(3).split(np.zeros((30, 2)), np.arange(n) % 2))


@pytest.mark.parametrize(("n_splits", "n"), [(3, 3), (2, 4)])
def test_few_subjects_of_all_classes_are_enough(n_splits: int, n: int) -> None:
    y, subjects = np.tile([0, 1], n), np.repeat(np.arange(n), 2)
    splits = list(KFold(n_splits).split(np.zeros(2 * n), y, subjects))
    assert [len(np.unique(subjects[test])) for _, test in splits] == [n // n_splits] * n_splits
    assert all(set(y[train]) == set(y[test]) == {0, 1} for train, test in splits)


def test_splits_of_ones_own_are_checked() -> None:
    labels = Labels(np.array([0, 1, 0, 1]), np.array(["a", "b", "a", "c"]))
    with pytest.raises(ValueError, match="split 'x' has subject 'a' in both its train and its test part"):
        check_splits([Split("x", np.array([0, 1]), np.array([], int), np.array([2, 3]))], labels)
    with pytest.raises(ValueError, match="split 'x' has nobody in its test part"):
        check_splits([Split("x", np.array([0, 1]), np.array([3]), np.array([], int))], labels)
    with pytest.raises(ValueError, match="split 'x' has position 3 twice in its test part"):
        check_splits([Split("x", np.array([0, 1]), np.array([], int), np.array([3, 3]))], labels)


def test_parts_of_ones_own_splits_are_positions_or_masks() -> None:
    labels = Labels(np.array([0, 1, 0, 1]), np.array(["a", "b", "c", "d"]))
    wanted = Split("x", np.array([0, 1]), np.array([], int), np.array([2, 3]))
    late = np.array([False, False, True, True])
    for own in (wanted, Split("x", [0, 1], [], [2, 3]), Split("x", ~late, [], late)):  # type: ignore[arg-type]
        (split,) = Given((own,)).splits(labels, 0)
        assert split.digest() == wanted.digest() and split.validation.dtype.kind == "i"
    for test in ([4], [-1], [2.0], late[:3], [[2, 3]]):
        with pytest.raises(
            ValueError, match="test part of split 'x' must be positions from 0 to 3, or a mask"
        ):
            Given((wanted._replace(test=np.array(test)),)).splits(labels, 0)
    with pytest.raises(ValueError, match="2 splits are named 'x'; give each a name of its own"):
        Given((wanted, wanted)).splits(labels, 0)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([0.0, np.nan, 1.0, np.nan], "labels are missing for b, d; drop"),
        (np.array(["HC", None, "AD", "AD"], object), "labels are missing for b; drop"),
        (np.array(["HC", 1, "AD", "AD"], object), "labels must be of one type, got int and str"),
    ],
)
def test_labels_that_are_missing_or_of_two_kinds_are_refused(y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        labels_of(Cohort(matrices=np.tile(np.eye(3), (4, 1, 1)), y=y, subjects=list("abcd")))


def test_subjects_and_sites_are_read_from_cohorts_and_graphs() -> None:
    matrices = np.tile(np.eye(3), (4, 1, 1))
    cohort = Cohort(matrices=matrices, y=[0, 1, 0, 1], sites=[1, 1, 2, 2], subjects=["a", "b", "a", "c"])
    labels = labels_of(cohort)
    assert labels.subjects.tolist() == ["a", "b", "a", "c"] and labels.sites.tolist() == ["1", "1", "2", "2"]  # type: ignore[union-attr]
    plain = GraphSet.from_arrays(matrices, y=[0, 1, 0, 1])
    assert len(set(labels_of(plain).subjects)) == 4 and labels_of(plain).sites is None
    columns = {"subject": np.array(["a", "b", "a", "c"])}
    named = GraphSet.from_arrays(matrices, y=[0, 1, 0, 1], groups=["x", "x", "y", "y"], meta=columns)
    assert labels_of(named).subjects.tolist() == ["a", "b", "a", "c"]
    assert labels_of(named).sites.tolist() == ["x", "x", "y", "y"]  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="the data have no labels; pass y"):
        labels_of(plain.with_y(None))
