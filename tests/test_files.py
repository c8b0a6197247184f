"""Files are written whole or not at all."""

import errno
import os

import pandas as pd
import pytest

from cignn._files import replacing, write_csv, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "scores.csv"
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as new:
        new.write_text("half of the new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["scores.csv"]


def test_a_full_disk_is_told_with_the_file_and_that_the_old_one_is_intact(tmp_path):
    path = tmp_path / "scores.csv"
    write_text(path, "old")
    words = r"scores.csv could not be written \(No space left on device\); the old one is intact; free some"
    with pytest.raises(OSError, match=words), replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_text() == "old"


def test_a_link_is_followed_and_modes_are_kept(tmp_path):
    target, link = tmp_path / "there" / "a.csv", tmp_path / "a.csv"
    write_text(target, "old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_name_as_long_as_names_get(tmp_path):
    path = tmp_path / ("n" * 251 + ".csv")
    write_text(path, "whole")
    assert path.read_text() == "whole"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="could not be written"):
        write_text(tmp_path, "")


@pytest.mark.parametrize("word", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\tx"])
def test_words_that_begin_like_a_formula_are_guarded(tmp_path, word):
    table = pd.DataFrame({"subject": [word, "sub-1"], word: [-1.5, 2.0], "number": ["-3", "+4.5e1"]})
    write_csv(tmp_path / "t.csv", table)
    read = pd.read_csv(tmp_path / "t.csv", dtype=str)
    assert read["subject"].tolist() == ["'" + word, "sub-1"]
    assert read.columns.tolist() == ["subject", "'" + word, "number"]
    assert read["'" + word].tolist() == ["-1.5", "2.0"]
    assert read["number"].tolist() == ["-3", "+4.5e1"]


def test_a_sign_alone_is_no_formula(tmp_path):
    write_csv(tmp_path / "t.csv", pd.DataFrame({"sign": ["+", "−", "-"]}))
    assert pd.read_csv(tmp_path / "t.csv")["sign"].tolist() == ["+", "−", "-"]


def test_a_carriage_return_in_a_word_breaks_no_line(tmp_path):
    write_csv(tmp_path / "t.csv", pd.DataFrame({"subject": ["a\rb", "c\nd"]}))
    assert pd.read_csv(tmp_path / "t.csv")["subject"].tolist() == ["a b", "c\nd"]
