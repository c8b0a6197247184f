"""Progress that is shown when it should be, once, and only there."""

from __future__ import annotations

import pytest

from cignn._progress import track, working


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")


def test_a_bar_counts_the_items_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track("abc", "reading", 3, verbose=1)) == ["a", "b", "c"]
    shown = capsys.readouterr()
    assert "reading" in shown.err and "3/3" in shown.err and not shown.out
    assert list(track("abc", "reading", 3, verbose=0)) == ["a", "b", "c"]
    assert not capsys.readouterr().err


def test_only_the_first_of_two_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with working("outer [work]", verbose=1):
        assert list(track("ab", "inner", 2, verbose=1)) == ["a", "b"]
    shown = capsys.readouterr().err
    assert "outer [work]" in shown and "inner" not in shown
    list(track("ab", "later", 2, verbose=1))
    assert "later" in capsys.readouterr().err


def test_an_error_inside_leaves_the_screen_to_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), working("first", verbose=1):
        raise KeyError
    list(track("ab", "second", 2, verbose=1))
    assert "second" in capsys.readouterr().err


def test_a_pipe_is_told_nothing_of_work_without_steps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR")
    with working("something", verbose=1):
        pass
    assert not capsys.readouterr().err
