"""Cohorts and graphs that stay on disk: the same numbers as in memory, from a file that may be damaged."""

from __future__ import annotations

import errno
import gc
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cignn import Cohort, CohortClassifier, GraphSet, _array_folders, _arrays, _mapped, load_cohort
from cignn._mapped import MappedArray, Rows, scratch
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs
from cignn.datasets import DataError, check_cohort, make_ba2motifs, make_cohort
from cignn.datasets.likeness import near_duplicates
from cignn.estimators import make_estimator
from cignn.evaluation import audit
from commands import Result

N, R = 24, 10
PICKS: dict[str, Any] = {
    "all": slice(None),
    "slice": slice(3, 17, 2),
    "list": [5, 0, 0, 19],
    "mask": np.arange(N) % 3 == 0,
    "shuffled": np.random.default_rng(1).permutation(N),
    "none": [],
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five matrices: every stream has several."""
    for module in (_arrays, _mapped):
        monkeypatch.setattr(module, "BLOCK", 5 * R**2)


def cohort(data: str = "matrices") -> Cohort:
    return make_cohort(N, R, n_edges=3, n_site_edges=3, lengths=(40, 60), data=data, random_state=0)


def on_disk(one: Cohort, folder: Path, name: str = "arrays") -> Cohort:
    got = load_cohort(one.save(folder / name, mapped=True))
    assert got.mapped and not one.mapped
    return got


def graphs_of(one: Cohort, **params: Any) -> GraphSet:
    return ConnectomeGraphs(**params).fit_transform(Connectivity().fit_transform(one))


def same_graphs(a: GraphSet, b: GraphSet) -> None:
    assert a.digest() == b.digest()
    assert (a.fingerprints() == b.fingerprints()).all()
    for left, right in zip(a.edge_statistics(), b.edge_statistics(), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.feature_range(), b.feature_range())
    np.testing.assert_array_equal(a.n_edges, b.n_edges)
    for left, right in ((a.batch(), b.batch()), (a.batch([3, 1, 1], a.y), b.batch([3, 1, 1], b.y))):
        assert left.adj.equal(right.adj) and left.x.equal(right.x) and left.mask.equal(right.mask)
    assert a.node_names == b.node_names and a.meta.keys() == b.meta.keys()
    for name, column in a.meta.items():
        assert column.astype(str).tolist() == b.meta[name].astype(str).tolist()


# ------------------------------------------------------------------------------- arrays


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("first", PICKS)
@pytest.mark.parametrize("second", ["all", "slice", "none"])
def test_an_array_on_disk_is_indexed_like_one_in_memory(tmp_path: Path, first: str, second: str) -> None:
    values = np.random.default_rng(0).normal(size=(N, R, R)).astype(np.float32)
    np.save(tmp_path / "a.npy", values)
    mapped = MappedArray.open(tmp_path / "a.npy")
    got, wanted = mapped[PICKS[first]][PICKS[second]], values[PICKS[first]][PICKS[second]]
    assert isinstance(got, MappedArray) and got.shape == wanted.shape and got.nbytes == wanted.nbytes
    for again in (got, pickle.loads(pickle.dumps(got))):
        np.testing.assert_array_equal(np.asarray(again), wanted)
    if len(wanted):
        np.testing.assert_array_equal(got[-1], wanted[-1])
        np.testing.assert_array_equal(got[:, 2, [0, 3]], wanted[:, 2, [0, 3]])
        np.testing.assert_array_equal(got[..., 1], wanted[..., 1])
        np.testing.assert_array_equal(np.stack(list(got)), wanted)
    doubled = got.with_step(np.square).with_step(np.negative)
    np.testing.assert_array_equal(np.asarray(doubled), -np.square(wanted))
    assert _arrays.digest(got) == _arrays.digest(wanted)


def test_threads_read_the_same_file(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(200, 50)).astype(np.float32)
    np.save(tmp_path / "a.npy", values)
    mapped = MappedArray.open(tmp_path / "a.npy")
    orders = [np.random.default_rng(i).permutation(200) for i in range(40)]
    with ThreadPoolExecutor(4) as pool:
        for order, got in zip(orders, pool.map(lambda rows: np.asarray(mapped[rows]), orders), strict=True):
            np.testing.assert_array_equal(got, values[order])


@pytest.mark.parametrize("way", ["preadv", "seek"])
def test_files_are_read_where_there_is_no_preadv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    values = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    np.save(tmp_path / "a.npy", values)
    if way == "seek":
        monkeypatch.delattr(os, "preadv", raising=False)
    mapped = MappedArray.open(tmp_path / "a.npy")
    np.testing.assert_array_equal(mapped[[7, 3, 4, 5]], values[[7, 3, 4, 5]])


def test_wrong_indices_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 3), np.float32))
    mapped = MappedArray.open(tmp_path / "a.npy")
    for key in (4, -5, [4], (1, 2), ([0, 1], [0, 1])):
        with pytest.raises(IndexError):
            mapped[key]


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((40, 30), np.float32))
    mapped = MappedArray.open(tmp_path / "a.npy")
    os.truncate(tmp_path / "a.npy", 1000)
    with pytest.raises(OSError, match=r"a.npy is cut off"):
        np.asarray(mapped)


def test_more_than_memory_is_not_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", np.zeros((40, 30), np.float32))
    mapped = MappedArray.open(tmp_path / "a.npy")
    monkeypatch.setattr(_mapped, "memory", lambda: 1000.0)
    assert mapped[:5][2].shape == (30,)
    with pytest.raises(ValueError, match="more than this machine's memory"):
        np.asarray(mapped)


# ----------------------------------------------------------------------------- round trips


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("data", ["series", "matrices"])
@pytest.mark.parametrize("pick", [name for name in PICKS if name != "none"])
def test_a_cohort_comes_back_from_a_folder_as_from_a_file(tmp_path: Path, data: str, pick: str) -> None:
    own = cohort(data)
    one = on_disk(own, tmp_path)
    assert one.digest() == own.digest() == load_cohort(own.save(tmp_path / "one.npz")).digest()
    part, wanted = one[PICKS[pick]], own[PICKS[pick]]
    assert part.mapped and part.digest() == wanted.digest() and part.atlas == wanted.atlas
    for got, subject in zip(part, wanted, strict=True):
        np.testing.assert_array_equal(got.matrix, subject.matrix)
        np.testing.assert_array_equal(got.series, subject.series)
    again = load_cohort(part.save(tmp_path / "part"))
    assert again.mapped and again.digest() == wanted.digest()
    back = load_cohort(part.save(tmp_path / "back", mapped=False))
    assert not back.mapped and back.digest() == wanted.digest()


def test_a_cohort_is_saved_over_itself(tmp_path: Path) -> None:
    own = cohort()
    one = on_disk(own, tmp_path)
    part = load_cohort(one[5:20].save(tmp_path / "arrays"))
    assert part.digest() == own[5:20].digest() and one.digest() == own.digest()
    assert len(list((tmp_path / "arrays").glob("matrices*.npy"))) == 1


SETS: dict[str, Callable[[], GraphSet]] = {
    "complete": lambda: graphs_of(cohort()),
    "sparse": lambda: graphs_of(cohort(), density=0.2),
    "constant": lambda: graphs_of(cohort(), features="constant"),
    "truth of each": lambda: GraphSet.from_arrays(
        np.ones((4, 3, 3)), y=list("abab"), edge_truth=np.arange(36).reshape(4, 3, 3) % 5 == 1, aligned=True
    ),
    "motifs": lambda: make_ba2motifs(12, random_state=0),
    "weighted": lambda: GraphSet.from_arrays(
        [np.full((n, n), 0.5) for n in (3, 1, 4)], groups=["a", "b", "a"]
    ),
}


@pytest.mark.parametrize("which", SETS)
@pytest.mark.parametrize("folder", [True, False])
def test_graphs_come_back(tmp_path: Path, which: str, folder: bool) -> None:
    graphs = SETS[which]()
    path = graphs.save(tmp_path / "graphs", mapped=folder)
    assert path.is_dir() == folder
    got = GraphSet.load(path)
    assert got.mapped == (folder and graphs.aligned) and got.digest() == graphs.digest()
    assert got.feature_names == graphs.feature_names and got.node_names == graphs.node_names
    assert got.node_meta.keys() == graphs.node_meta.keys() and got.meta.keys() == graphs.meta.keys()
    assert got.y is graphs.y is None or got.y.tolist() == graphs.y.tolist()
    assert got.groups is graphs.groups is None or got.groups.tolist() == graphs.groups.tolist()
    assert GraphSet.load(got.save(tmp_path / "again")).digest() == graphs.digest()


def test_columns_of_any_kind_come_back(tmp_path: Path) -> None:
    meta = {
        "age": np.array([1, None, 2.5], object),
        "sex": np.array(["m", None, "f"], object),
        "n": [1, 2, 3],
    }
    graphs = GraphSet.from_arrays(np.ones((3, 2, 2)), y=np.array([0, 1, 1], object), aligned=True, meta=meta)
    got = GraphSet.load(graphs.save(tmp_path / "graphs", mapped=True))
    assert got.y.tolist() == [0, 1, 1] and got.meta["n"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(got.meta["age"], [1, np.nan, 2.5])
    assert got.meta["sex"].tolist() == ["m", "n/a", "f"]


# ----------------------------------------------------------------------- the same numbers


KINDS: list[dict[str, Any]] = [
    {},
    {"fisher": True},
    {"kind": "partial"},
    {"kind": "covariance"},
    {"kind": "tangent"},
    {"kind": "partial", "fisher": True, "n_jobs": 2},
]
EDGES: list[dict[str, Any]] = [
    {},
    {"density": 0.2},
    {"threshold": 0.2, "sign": "positive"},
    {"neighbours": 2, "features": "edges"},
    {"sign": "absolute", "features": "constant"},
]


@pytest.mark.medium
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_connectivity_and_graphs_are_those_in_memory(tmp_path: Path, kind: dict[str, Any]) -> None:
    own = cohort("series")
    one = on_disk(own, tmp_path)
    pick = PICKS["shuffled"][:20]
    a, b = (Connectivity(**kind).fit(each).transform(each[pick]) for each in (own, one))
    assert b.mapped and a.digest() == b.digest()
    for params in EDGES:
        left, right = (ConnectomeGraphs(**params).fit_transform(each) for each in (a, b))
        assert right.mapped and not left.mapped
        same_graphs(left, right)
        same_graphs(left[[7, 2, 11, 4]], right[[7, 2, 11, 4]])
        assert len(pickle.dumps(right)) < 12_000


@pytest.mark.usefixtures("small_blocks")
def test_matrices_need_no_second_copy(tmp_path: Path) -> None:
    own = cohort()
    matrices = np.asarray(own.matrices).copy()
    matrices[:, 0, 1] += 1e-6  # rounding, which graphs take out
    matrices[:, 2, 2] = np.inf
    for each in (own, Cohort(matrices=matrices, y=own.y)):
        one = on_disk(each, tmp_path)
        files = sorted(tmp_path.rglob("*"))
        same_graphs(graphs_of(each), graphs := graphs_of(one))
        assert graphs.mapped and sorted(tmp_path.rglob("*")) == files
        same_graphs(graphs_of(each, density=0.3), graphs_of(one, density=0.3))
        same_graphs(graphs_of(each, features="edges"), graphs_of(one, features="edges"))


@pytest.mark.medium
@pytest.mark.parametrize("name", ["ci-gnn", "gin", "dir", "lasso"])
def test_models_are_those_in_memory(tmp_path: Path, name: str) -> None:
    params = {"epochs": 2} if name != "lasso" else {}
    a, b = cohort(), on_disk(cohort(), tmp_path)
    fits = [make_estimator(name, random_state=0, **params).fit(graphs_of(each)) for each in (a, b)]
    left, right = (fit.predict_proba(graphs_of(each)) for fit, each in zip(fits, (a, b), strict=True))
    np.testing.assert_array_equal(left, right)
    assert fits[0].training_digest_ == fits[1].training_digest_
    assert (fits[0].graphs_ == fits[1].graphs_).all() and fits[1].trained_on(graphs_of(a)).all()
    if name in ("ci-gnn", "dir"):
        pair = [fit.explain(graphs_of(each)) for fit, each in zip(fits, (a, b), strict=True)]
        np.testing.assert_array_equal(pair[0].mean().weights, pair[1].mean().weights)


@pytest.mark.medium
def test_a_pipeline_takes_a_cohort_on_disk(tmp_path: Path) -> None:
    own = cohort("series")
    one = on_disk(own, tmp_path)
    models = [
        CohortClassifier.make(make_estimator("gcn", epochs=2, random_state=0)).fit(each[:16], each.y[:16])
        for each in (own, one)
    ]
    left, right = (m.predict_proba(each[16:]) for m, each in zip(models, (own, one), strict=True))
    np.testing.assert_array_equal(left, right)
    assert models[1].trained_on(one).tolist() == [True] * 16 + [False] * 8


def test_what_pools_all_subjects_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series, matrices = on_disk(cohort("series"), tmp_path, "s"), on_disk(cohort(), tmp_path, "m")
    own = ComBat(covariates=()).fit_transform(cohort())
    assert ComBat(covariates=()).fit_transform(matrices).digest() == own.digest()
    monkeypatch.setattr("cignn.connectome.covariates.memory", lambda: 1e4)
    with pytest.raises(DataError, match=r"ComBat needs all 24 subjects in memory.*; fit it on fewer"):
        ComBat(covariates=()).fit(matrices)
    with pytest.raises(DataError, match="the tangent space needs all 24 subjects in memory"):
        Connectivity("tangent").fit(series)
    assert Connectivity("partial").fit_transform(series).mapped
    monkeypatch.setattr("cignn.datasets.likeness.LARGEST", 1000)
    with pytest.raises(DataError, match="the audit compares all subjects: 24 subjects would take"):
        audit(matrices)


# ------------------------------------------------------------------------ temporary files


def temporary(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"{_mapped.SCRATCH}*"))


def test_temporary_files_go_with_what_they_hold(tmp_path: Path) -> None:
    one = on_disk(cohort("series"), tmp_path)
    graphs = graphs_of(one)[:5]
    assert len(temporary(tmp_path)) == 1
    wanted = graphs.digest()
    child = os.fork() if hasattr(os, "fork") else None
    if child == 0:  # what a forked process forgets stays
        del graphs
        gc.collect()
        os._exit(0)
    if child is not None:
        os.waitpid(child, 0)
    assert len(temporary(tmp_path)) == 1 and graphs.digest() == wanted
    del graphs
    gc.collect()
    assert not temporary(tmp_path)


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    left = tmp_path / f"{_mapped.SCRATCH}abc.npy"
    np.save(left, np.zeros((2, 3), np.float32))
    mine = scratch(Rows((2, 3), [np.ones((2, 3))]), tmp_path)
    assert temporary(tmp_path) == [mine.file.path]
    other = scratch(Rows((2, 3), [np.ones((2, 3))]), tmp_path)
    assert len(temporary(tmp_path)) == 2  # those in use stay
    np.testing.assert_array_equal(mine, other)


def test_where_temporary_files_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(there))
    rows = np.ones((2, 3))
    assert scratch(Rows((2, 3), [rows]), here).file.path.parent == here
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != here)
    assert scratch(Rows((2, 3), [rows]), here).file.path.parent == there
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 10})())
    with pytest.raises(OSError, match=r"temporary arrays of 0.0 GiB do not fit on the disk: .* set TMPDIR"):
        scratch(Rows((2, 3), [rows]), here)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = on_disk(cohort("series"), tmp_path)
    monkeypatch.setattr(_mapped, "write_npy", full)
    with pytest.raises(OSError, match=r"could not be written \(No space left on device\); free some space"):
        Connectivity().fit_transform(one)
    assert not temporary(tmp_path)


# --------------------------------------------------------------------------------- saving


def test_a_save_that_fails_leaves_the_old_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = cohort()
    path = own.save(tmp_path / "arrays", mapped=True)
    count = [0]

    def failing(*arguments: Any) -> int:
        count[0] += 1
        if count[0] == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*arguments)

    write = _array_folders.write_npy
    monkeypatch.setattr(_array_folders, "write_npy", failing)
    files = sorted(path.iterdir())
    for target in (path, tmp_path / "new"):
        count[0] = 0
        with pytest.raises(OSError, match=r"could not be written \(No space left"):
            own[:9].save(target, mapped=True)
    assert sorted(path.iterdir()) == files and not (tmp_path / "new").exists()
    monkeypatch.undo()
    assert load_cohort(path).digest() == own.digest()


@pytest.mark.medium
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("fresh", [True, False])
def test_a_save_that_is_killed_leaves_whole_arrays(tmp_path: Path, fresh: bool) -> None:
    pair = [cohort()[:6], cohort()[6:]._with(sites=None)]
    wanted = {one.digest() for one in pair}
    path = tmp_path / "arrays"
    if not fresh:
        pair[0].save(path, mapped=True)
    for i in range(12):
        child = os.fork()
        if child == 0:
            try:
                for turn in range(1000):
                    pair[turn % 2].save(path, mapped=True)
            finally:
                os._exit(1)
        time.sleep(0.004 * i if fresh else 0.02 + 0.007 * i)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        try:
            assert load_cohort(path).digest() in wanted
        except (FileNotFoundError, ValueError) as error:
            assert fresh and "\n" not in str(error)
        if fresh:
            pair[1].save(path, mapped=True)  # what was left behind is in nobody's way
            assert load_cohort(path).digest() == pair[1].digest()
            assert {item.suffix for item in path.iterdir()} == {".npy", ".json"}
            assert not any(item.name.startswith(".") for item in path.iterdir())
            shutil.rmtree(path)


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    own = cohort()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    (tmp_path / "file").write_text("")
    for name in ("full", "file"):
        with pytest.raises(ValueError, match="exists and is not a folder of arrays; choose another path"):
            own.save(tmp_path / name, mapped=True)
    with pytest.raises(ValueError, match=r"cannot stay on disk, got a.npz; give a folder's name"):
        own.save(tmp_path / "a.npz", mapped=True)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none to write arrays into"):
        own.save(tmp_path / "none" / "arrays", mapped=True)


# -------------------------------------------------------------------------------- damage


def edit_index(folder: Path, change: Callable[[dict], Any]) -> None:
    index = json.loads((folder / "arrays.json").read_text())
    change(index)
    (folder / "arrays.json").write_text(json.dumps(index))


def flip(path: Path, place: int = -5) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 64
    path.write_bytes(content)


def rewrite(folder: Path, change: Callable[[np.ndarray], np.ndarray], name: str = "matrices") -> None:
    """Replace an array as somebody else would: without a list of arrays."""
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
    (folder / "arrays.json").unlink()
    (folder / "cignn_cohort.npy").unlink()


def put(array: np.ndarray, place: Any, value: Any) -> np.ndarray:
    array[place] = value
    return array


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut off": (
        lambda f: os.truncate(f / "matrices.npy", 4000),
        r"matrices.npy: the array should have 24 × 10",
    ),
    "header cut off": (lambda f: os.truncate(f / "matrices.npy", 50), r"matrices.npy is not a readable .npy"),
    "empty": (lambda f: (f / "matrices.npy").write_bytes(b""), "matrices.npy is not a readable .npy file"),
    "too long": (
        lambda f: os.truncate(f / "matrices.npy", 10**5),
        "matrices.npy: the array should have",
    ),
    "a bit": (lambda f: flip(f / "matrices.npy"), r"matrices.npy is damaged or was changed \(its checksum"),
    "a label": (lambda f: flip(f / "label.npy"), "label.npy is damaged or was changed"),
    "missing": (
        lambda f: (f / "matrices.npy").unlink(),
        "is not a whole folder of arrays: matrices.npy is missing",
    ),
    "folder": (
        lambda f: ((f / "site.npy").unlink(), (f / "site.npy").mkdir()),
        "site.npy is a folder, expected",
    ),
    "no list": (lambda f: (f / "arrays.json").write_text("{"), "arrays.json is damaged or no list of arrays"),
    "other list": (
        lambda f: (f / "arrays.json").write_text("[]"),
        "arrays.json is damaged or no list of arrays",
    ),
    "newer": (lambda f: edit_index(f, lambda i: i.update(version=9)), "was written by another cignn"),
    "escape": (
        lambda f: edit_index(f, lambda i: i["arrays"]["site"].update(file="../site.npy")),
        "arrays.json is damaged",
    ),
    "left out": (lambda f: edit_index(f, lambda i: i["arrays"].pop("site")), "arrays.json is damaged"),
    "shape": (
        lambda f: np.save(f / "site.npy", np.load(f / "site.npy")[1:]),
        "site.npy holds 23 values, arrays.json says 24",
    ),
    "float64": (lambda f: rewrite(f, lambda a: a.astype(float)), "must hold float32 row by row, got float64"),
    "columns": (lambda f: rewrite(f, np.asfortranarray), "must hold float32 row by row, got columns first"),
    "complex": (lambda f: rewrite(f, lambda a: a + 1j), "the array holds complex numbers"),
    "objects": (lambda f: rewrite(f, lambda a: a.astype(object)), "the array holds Python objects"),
    "not square": (
        lambda f: rewrite(f, lambda a: a[:, :, :9].copy()),
        r"matrices must be \(subjects, ROIs, ROIs\)",
    ),
    "two sides": (lambda f: rewrite(f, lambda a: a[0]), "'matrices' must have 3 dimensions"),
    "NaN": (lambda f: rewrite(f, lambda a: put(a, (3, 1, 2), np.nan)), "NaN or infinite values in sub-0004"),
    "askew": (lambda f: rewrite(f, lambda a: put(a, (3, 1, 2), 7)), "matrices are not symmetric in sub-0004"),
    "twice": (lambda f: rewrite(f, lambda a: put(a, 4, a[3])), "identical data under two ids"),
    "subjects": (lambda f: rewrite(f, lambda a: a[:20]), r"y must have one entry per subject \(20\)"),
    "both": (
        lambda f: (rewrite(f, np.copy), np.save(f / "series.npy", np.zeros((2, 3), np.float32))),
        "must hold one of the arrays series and matrices",
    ),
    "other name": (
        lambda f: (rewrite(f, np.copy), (f / "label.npy").rename(f / "diagnosis.npy")),
        "has no array 'label' but 'diagnosis'",
    ),
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_folders_are_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    folder = cohort().save(tmp_path / "arrays", mapped=True)
    spoil, words = DAMAGES[damage]
    spoil(folder)
    with pytest.raises((ValueError, OSError), match=words) as caught:
        load_cohort(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("weights", lambda a: put(a, (7, 1, 2), np.inf), "graph 7 has NaN or infinite edge weights"),
        ("weights", lambda a: put(a, (7, 1, 2), 5), "graph 7 is not symmetric"),
        ("weights", lambda a: a[:, :5].copy(), r"adj must be \(graphs, nodes, nodes\)"),
        ("x", lambda a: put(a, (7, 1, 2), np.nan), "graph 7 has NaN or infinite node features"),
        ("x", lambda a: a[:, :5].copy(), r"x must be \(24, 10, features\)"),
        ("y", lambda a: a[:5], "y must have one entry per graph"),
    ],
)
def test_damaged_graphs_are_refused_in_one_line(
    tmp_path: Path, name: str, change: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    folder = graphs_of(cohort(), density=0.3).save(tmp_path / "graphs", mapped=True)
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
    with pytest.raises(ValueError, match=r"damaged or was changed|arrays.json says"):
        GraphSet.load(folder)
    (folder / "arrays.json").unlink()
    with pytest.raises(ValueError, match=words) as caught:
        GraphSet.load(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_what_is_no_graph_set(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none does not exist; give what GraphSet.save has written"):
        GraphSet.load(tmp_path / "none")
    with pytest.raises(ValueError, match="does not hold the arrays of a GraphSet, got nothing"):
        GraphSet.load(tmp_path)
    with pytest.raises(ValueError, match="arrays of a GraphSet, got cignn_cohort"):
        GraphSet.load(cohort().save(tmp_path / "cohort", mapped=True))


# --------------------------------------------------------------- folders that others make


def made(folder: Path, **arrays: np.ndarray) -> Path:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_a_folder_made_with_numpy_is_read(tmp_path: Path) -> None:
    own = cohort("series")
    assert own.series is not None
    stacked = np.concatenate(list(own.series))
    one = load_cohort(made(tmp_path / "a", series=stacked, lengths=own.lengths, label=own.y))
    assert one.mapped and one.y.tolist() == own.y.tolist()
    np.testing.assert_array_equal(one[5].series, own[5].series)
    equal = np.stack([series[:40] for series in own.series])
    two = load_cohort(made(tmp_path / "b", series=equal, label=own.y, site=own.sites))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(two[3:]))[2].series, equal[5])
    for options, words in (
        ({"transpose": True}, "can be transposed, and none that stay on disk"),
        ({"data": "matrices"}, "holds no matrices"),
        ({"n_rois": 7}, "n_rois is 7, the file has 10"),
        ({"min_length": 50}, "fewer than 50 time points"),
    ):
        with pytest.raises(DataError, match=words):
            load_cohort(tmp_path / "b", **options)
    with pytest.raises(ValueError, match="lengths must add up"):
        load_cohort(made(tmp_path / "c", series=stacked, lengths=own.lengths[1:], label=own.y[1:]))


def test_bytes_in_any_order_are_read(tmp_path: Path) -> None:
    own = cohort()
    for order in "<>":
        numbers = {"label": own.y.astype(f"{order}i8"), "site": np.arange(N).astype(f"{order}f8") // 12}
        one = load_cohort(made(tmp_path / f"in {order}", matrices=np.asarray(own.matrices), **numbers))
        assert one.y.tolist() == own.y.tolist() and one.sites.tolist() == [0] * 12 + [1] * 12
    with pytest.raises(ValueError, match="must hold float32 row by row, got >f4"):
        load_cohort(made(tmp_path / "big", matrices=np.asarray(own.matrices).astype(">f4"), label=own.y))


def broken(data: str) -> Cohort:
    """Somebody with NaN, somebody with a constant ROI, and a matrix that is askew."""
    own = cohort(data)
    if own.series is not None:
        own.series[2][5, 3] = np.nan
        own.series[7][:, 4] = 1.5
    else:
        matrices = np.array(own.matrices)
        matrices[2, 3, 5] = matrices[2, 5, 3] = np.inf
        matrices[7, 4] = matrices[7, :, 4] = 0
        matrices[9, 1, 2] += 0.3
        own = own._with(matrices=matrices)
    return own


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("data", ["series", "matrices"])
@pytest.mark.parametrize("rois", ["drop_subject", "drop_roi", "zero"])
@pytest.mark.parametrize("values", ["drop_subject", "zero"])
def test_repairs_are_those_in_memory(tmp_path: Path, data: str, rois: str, values: str) -> None:
    options = {"non_finite": values, "constant_rois": rois, "asymmetric": "symmetrise"}
    path = broken(data).save(tmp_path / "arrays", mapped=True)
    content = (path / f"{data}.npy").read_bytes()
    got, wanted = load_cohort(path, **options), check_cohort(broken(data), **options)
    assert got.mapped and got.digest() == wanted.digest()
    assert got.exclusions.equals(wanted.exclusions)
    assert (path / f"{data}.npy").read_bytes() == content
    if data == "series":
        same_graphs(*(
            ConnectomeGraphs().fit_transform(Connectivity(constant_rois="zero").fit_transform(one))
            for one in (wanted, got)
        ))  # fmt: skip


def test_regions_are_brought_into_order(tmp_path: Path) -> None:
    own = cohort("series")
    order = np.random.default_rng(0).permutation(R)
    names = [own.roi_names[i] for i in order]
    assert own.series is not None
    turned = Cohort([one[:, order] for one in own.series], y=own.y, roi_names=names)
    step = Connectivity().fit(own._with(atlas=None))
    a, b = step.transform(turned), step.transform(on_disk(turned, tmp_path))
    np.testing.assert_array_equal(a.matrices, b.matrices)
    assert a.roi_names == b.roi_names == own.roi_names


@pytest.mark.parametrize(("n_rois", "data"), [(14, "series"), (40, "matrices")])
def test_near_identical_scans_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rois: int, data: str
) -> None:
    own = make_cohort(90, n_rois, n_edges=3, lengths=(80, 90), data=data, random_state=0)
    rng = np.random.default_rng(0)
    parts = [np.array(one) for one in (own.series if own.series is not None else own.matrices)]
    for later, first in ((50, 3), (70, 12)):
        noise = 0.02 * rng.normal(size=parts[first].shape)
        parts[later] = parts[first] + (noise if data == "series" else noise + noise.T)
    own = own._with(**{data: parts if data == "series" else np.stack(parts)})
    wanted = near_duplicates(own)
    assert wanted[["first", "second"]].to_numpy().tolist() == [[3, 50], [12, 70]]
    one = on_disk(own, tmp_path)
    monkeypatch.setattr("cignn.datasets.likeness.LARGEST", 1000)
    monkeypatch.setattr("cignn.datasets.likeness.TILE", 32)
    monkeypatch.setattr("cignn.datasets.likeness.BLOCK", 2000)
    got = near_duplicates(one)
    assert got[["first", "second"]].equals(wanted[["first", "second"]])
    np.testing.assert_allclose(got["correlation"], wanted["correlation"], atol=0.1)
    assert not len(near_duplicates(one[:40]))
    same = one._with(subjects=np.where(np.arange(90) == 50, one.subjects[3], one.subjects))
    assert near_duplicates(same)["first"].tolist() == [12]


# -------------------------------------------------------------------------------- memory


TRAINING = """
import sys
from pathlib import Path
from cignn import load_cohort
from cignn.connectome import ConnectomeGraphs
from cignn.estimators import make_estimator

def peak():  # MiB; getrusage would count what the parent has
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

def train(cohort):
    graphs = ConnectomeGraphs().fit_transform(cohort)
    assert graphs.mapped
    model = make_estimator("gcn", hidden=(4,), epochs=1, random_state=0).fit(graphs[::-1])
    model.predict_proba(graphs[5:])

cohort = load_cohort(sys.argv[1])
train(cohort[:64])
before = peak()
train(cohort)
print(peak() - before, cohort.matrices.nbytes / 2**20)
"""


@pytest.mark.medium
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux")
def test_training_takes_less_memory_than_the_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, n_rois = 2000, 160
    folder = made(tmp_path / "large", label=np.arange(n) % 2, cignn_cohort=np.array(1))
    big = np.lib.format.open_memmap(folder / "matrices.npy", "w+", np.float32, (n, n_rois, n_rois))
    for i in range(n):
        half = rng.normal(size=(n_rois, n_rois)).astype(np.float32)
        big[i] = half + half.T
    del big
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, folder], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    grown, size = map(float, done.stdout.split())
    assert size > 190 and grown < 120


# -------------------------------------------------------------------------- the command line


@pytest.mark.medium
def test_commands_read_a_folder_of_arrays(
    tmp_path: Path, call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (cohort().save("one.npz"), cohort().save("folder", mapped=True)):
        result = call("fit", path, "--method", "lasso", "--out", f"model of {path}", "--json")
        assert result.code == 0, result.err
    a, b = (json.loads(call("predict", f"model of {p}", p, "--json").out) for p in ("one.npz", "folder"))
    assert a["predictions"] == b["predictions"]
    assert call("audit", "folder").code == 0
    result = call("evaluate", "folder", "--methods", "lasso", "--protocol", "holdout", "--out", "results")
    assert result.code == 0
    unlabelled = call("predict", "model of folder", "folder", "--label", "diagnosis", "--json")
    assert unlabelled.code == 0, unlabelled.err
    os.truncate("folder/matrices.npy", 1000)
    result = call("fit", "folder")
    assert result.code == 2 and "matrices.npy: the array should have 24 × 10 × 10 values" in result.words
