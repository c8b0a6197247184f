"""What must hold for results on disk: read-only media, damage, and files that no store has written."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cignn.datasets import make_ba2motifs
from cignn.evaluation import Holdout, Split, Store, evaluate, store_file, summary
from cignn.evaluation.tasks import Outcome, Predictions, Score, Task

FILE = "results.sqlite"
TABLES = ("tasks", "results", "predictions")


def add_task(store: Store, i: int, n_test: int = 30) -> None:
    """Keep a task with scores and predictions, without a training."""
    rng = np.random.default_rng(i)
    test = np.arange(n_test)
    split = Split(f"{i % 5}", test + 100, test + 200, test)
    chances = rng.dirichlet([1, 1], n_test)
    said = Predictions(
        *(test, np.array([f"sub-{j:03d}" for j in test]), None, test % 2, chances.argmax(1)),
        *(chances, np.array([0, 1])),
    )
    scores = [Score("", name, float(rng.random())) for name in ("accuracy", "roc_auc", "mcc")]
    task = Task(f"key{i:04d}", f"m{i % 3}", "data", Holdout(), split, i // 5, None, {"method": [f"m{i % 3}"]})
    store.add(task, Outcome(task.key, scores, said, seconds=1.5, peak_memory=10**8, host="here"))


def make_store(folder: Path, n: int = 40) -> Path:
    """Write a store of some pages and return its folder; the log is in the file."""
    with Store(folder) as store:
        for i in range(n):
            add_task(store, i)
    return folder


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """Return everything a store holds."""
    with Store(folder) as store:
        return {name: getattr(store, name)() for name in TABLES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store of forty tasks."""
    return make_store(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """One to damage."""
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


# ------------------------------------------------------------------------------ read-only


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder, and what makes the medium it lies on read-only."""
    place = tmp_path / "medium"
    place.mkdir()
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "none", place], capture_output=True)
    except OSError:
        pytest.skip("there is no mount here: a read-only medium cannot be made")
    if done.returncode:
        pytest.skip("mounting is not allowed here: a read-only medium cannot be made")
    try:
        yield place, lambda: subprocess.run(["mount", "-o", "remount,ro", place], check=True) and None
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("log", ["none", "of a killed run", "with its index"])
def test_results_on_a_read_only_medium_are_read(whole: Path, medium: Any, log: str) -> None:
    place, lock = medium
    make_store(place, 38)
    if log != "none":
        store = Store(place)
        for i in (38, 39):
            add_task(store, i)
        kept = {end: (place / f"{FILE}{end}").read_bytes() for end in ("", "-wal", "-shm")}
        store.close()
        kept = {end: bytes for end, bytes in kept.items() if end != "-shm" or log == "with its index"}
        for end, content in kept.items():
            (place / f"{FILE}{end}").write_bytes(content)
    lock()
    found, expected = read(place), read(whole)
    n = 38 if log == "none" else 40
    assert len(found["tasks"]) == n
    for name in TABLES:
        rows = expected[name][expected[name]["key"].isin(found["tasks"]["key"])].reset_index(drop=True)
        pd.testing.assert_frame_equal(
            found[name].drop(columns="finished", errors="ignore"),
            rows.drop(columns="finished", errors="ignore"),
        )
    assert len(summary(found["results"], ["accuracy"])) == 3
    with Store(place) as store, pytest.raises(PermissionError, match=r"only read; choose another folder\.$"):
        add_task(store, 99)


def test_nothing_is_trained_for_a_store_that_cannot_be_written(medium: Any) -> None:
    place, lock = medium
    graphs = make_ba2motifs(30, random_state=0)
    first = evaluate(["lasso"], graphs, store=place)
    lock()
    pd.testing.assert_frame_equal(evaluate(["lasso"], graphs, store=place), first)
    with pytest.raises(PermissionError, match=r"results\.sqlite cannot be written, only read"):
        evaluate(["lasso"], graphs, seeds=2, store=place)
    with pytest.raises(OSError, match=r"new could not be written \(Read-only file system\)\.$"):
        Store(place / "new")


def test_a_file_that_may_not_be_written_is_read(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where nothing can be mounted."""
    monkeypatch.setattr(store_file.os, "access", lambda *_: False)
    with Store(copy) as store:
        assert store.read_only and len(store.tasks()) == 40
        with pytest.raises(PermissionError, match="only read"):
            store.check_writable()
    (copy / FILE).write_bytes(b"")
    with pytest.raises(ValueError, match="holds no results, and cannot be written"):
        Store(copy)


def test_a_store_of_an_older_version_is_read_and_written(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect(copy / FILE) as db:
        db.execute("DROP TABLE checksums")
        db.execute("PRAGMA user_version = 1")
    db.close()
    with monkeypatch.context() as patch:
        patch.setattr(store_file.os, "access", lambda *_: False)
        assert len(read(copy)["tasks"]) == 40
    with Store(copy) as store:
        add_task(store, 40)
        assert len(store.tasks()) == 41


# -------------------------------------------------------------------------------- damage


def damaged(folder: Path, change: Callable[[bytearray], Any]) -> None:
    """Change the bytes of a store's file."""
    content = bytearray((folder / FILE).read_bytes())
    change(content)
    (folder / FILE).write_bytes(content)


def page_of(content: bytearray, word: bytes) -> slice:
    """The page that holds a word."""
    start = content.index(word) // 4096 * 4096
    return slice(start, start + 4096)


def test_a_damaged_page_is_named_and_the_rest_is_rescued(copy: Path, whole: Path, tmp_path: Path) -> None:
    def change(content: bytearray) -> None:
        content[page_of(content, b"key0003sub-0")] = bytes(4096)

    damaged(copy, change)
    with pytest.raises(ValueError, match="is damaged") as caught:
        read(copy)
    words = str(caught.value)
    assert str(copy / FILE) in words and "\n" not in words
    assert f'Store.rescue("{copy}", "rescued") copies them' in words
    rescued = Store.rescue(copy, tmp_path / "rescued")
    assert 20 < rescued.copied < 40 and rescued.copied + rescued.lost == 40
    assert f"{rescued.copied} of 40 tasks" in words
    found, expected = read(tmp_path / "rescued"), read(whole)
    for name in TABLES:
        rows = expected[name][expected[name]["key"].isin(found["tasks"]["key"])].reset_index(drop=True)
        pd.testing.assert_frame_equal(found[name], rows)
    with pytest.raises(FileExistsError, match="choose another folder"):
        Store.rescue(copy, tmp_path / "rescued")
    with pytest.raises(FileNotFoundError, match=r"there is no store at .*results\.sqlite is missing"):
        Store.rescue(tmp_path / "nowhere", tmp_path / "again")


def test_a_value_that_was_changed_is_noticed(copy: Path, tmp_path: Path) -> None:
    """SQLite itself reads it without a word."""

    def change(content: bytearray) -> None:
        place = content.index(b"sub-017")
        content[place + 4 : place + 7] = b"018"

    damaged(copy, change)
    with Store(copy) as store:
        assert len(store.results()) == 120  # the scores are as they were
        with pytest.raises(ValueError, match=r"predictions of task key\d+ does not hold.*39 of 40"):
            store.predictions()
    assert Store.rescue(copy, tmp_path / "new") == (39, 1)


def test_a_truncated_file_is_named(copy: Path) -> None:
    size = (copy / FILE).stat().st_size
    for share in (0.99, 0.5, 0.1):
        damaged(copy, lambda content, n=int(size * share): content.__delitem__(slice(n, None)))
        with pytest.raises(ValueError, match=r"results\.sqlite is damaged .* of \d+ tasks in it can be read"):
            read(copy)


FOREIGN = {
    "a word for a number": "UPDATE tasks SET seed = 'first'",
    "nothing for a word": "UPDATE tasks SET method = NULL",
    "bytes for a word": "UPDATE tasks SET settings = x'ff00'",
    "text that is not UTF-8": "UPDATE tasks SET host = CAST(x'fffe' AS TEXT)",
    "no JSON": "UPDATE tasks SET settings = '{'",
    "JSON of another kind": "UPDATE tasks SET versions = '[]'",
    "no versions": "UPDATE tasks SET versions = NULL",
    "JSON without a version": "UPDATE tasks SET versions = '{}'",
    "deep JSON": f"UPDATE tasks SET chosen = '{'[' * 100_000}'",
    "classes that are none": "UPDATE tasks SET classes = '3'",
    "no classes": "UPDATE tasks SET classes = NULL",
    "other classes": "UPDATE tasks SET classes = '[0, 1, 2]'",
    "a word for a score": "UPDATE scores SET value = 'good'",
    "a score of nobody": "UPDATE scores SET key = 'nobody' WHERE key = 'key0001'",
    "no label": "UPDATE predictions SET y_true = NULL",
    "a label that is a list": "UPDATE predictions SET y_pred = '[1]'",
    "huge probabilities": f"UPDATE predictions SET probabilities = '[1{'0' * 400}, 0]'",
    "words for probabilities": "UPDATE predictions SET probabilities = '[\"a\", null]'",
    "a column less": "ALTER TABLE tasks DROP COLUMN trace",
    "another column": "ALTER TABLE scores RENAME COLUMN value TO worth",
    "a table less": "DROP TABLE predictions",
    "a view for a table": "DROP TABLE scores; CREATE VIEW scores AS SELECT 1 AS key",
    "a task less": "DELETE FROM tasks WHERE key = 'key0007'",
}


@pytest.mark.parametrize("checked", [True, False], ids=["with checksums", "without"])
@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_rows_that_no_store_writes_are_refused_by_name(copy: Path, change: str, checked: bool) -> None:
    with sqlite3.connect(copy / FILE) as db:
        db.executescript(change if checked else f"{change}; DELETE FROM checksums;")
    db.close()
    with pytest.raises(ValueError, match=r"results\.sqlite is damaged \(.*\); \d+ of \d+ tasks") as caught:
        read(copy)
    assert "\n" not in str(caught.value)


def test_a_write_into_a_damaged_file_is_refused_by_name(copy: Path) -> None:
    def change(content: bytearray) -> None:
        content[4096:-4096] = bytes(len(content) - 8192)

    damaged(copy, change)
    with pytest.raises(ValueError, match=r"results\.sqlite is damaged"), Store(copy) as store:
        add_task(store, 99)


def fuzz(content: bytearray, rng: random.Random) -> None:
    """Overwrite, flip, cut or swap some bytes."""
    for _ in range(rng.choice([1, 1, 1, 3, 30])):
        where = rng.randrange(len(content))
        kind = rng.randrange(5)
        if kind == 0:
            content[where] ^= 1 << rng.randrange(8)
        elif kind == 1:
            content[where : where + 64] = rng.randbytes(len(content[where : where + 64]))
        elif kind == 2:
            start = where // 4096 * 4096
            content[start : start + 4096] = rng.randbytes(4096)
        elif kind == 3 and rng.random() < 0.3:
            del content[max(where, 100) :]
        else:
            where = where // 4096 * 4096 + rng.randrange(12)
            content[where : where + 2] = rng.randbytes(2)
    if rng.random() < 0.2:
        content[rng.randrange(100)] = rng.randrange(256)


@pytest.mark.medium
def test_random_damage_gives_our_error_or_the_right_rows(tmp_path: Path) -> None:
    """Small, so that most bytes mean something."""
    expected = read(make_store(tmp_path / "whole", 6))
    content = (tmp_path / "whole" / FILE).read_bytes()
    rng, refused = random.Random(0), 0
    n = int(os.environ.get("CIGNN_FUZZ", "300"))
    for i in range(n):
        folder = tmp_path / str(i)
        folder.mkdir()
        changed = bytearray(content)
        fuzz(changed, rng)
        (folder / FILE).write_bytes(changed)
        try:
            found = read(folder)
        except (ValueError, OSError) as error:
            assert FILE in str(error) or "newer cignn" in str(error), error
            refused += 1
            continue
        finally:
            shutil.rmtree(folder)
        for name in TABLES:
            pd.testing.assert_frame_equal(found[name], expected[name])
    assert refused > n // 3


def test_what_is_kept_is_json_that_others_read(whole: Path) -> None:
    with sqlite3.connect(whole / FILE) as db:
        (text,) = db.execute("SELECT settings FROM tasks LIMIT 1").fetchone()
    db.close()
    assert json.loads(text) == {"method": ["m0"]}
