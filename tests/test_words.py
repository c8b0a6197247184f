"""What messages say of many names and of misspelt ones."""

from __future__ import annotations

import pytest

from cignn._checks import closest_name, meant, name_some, nearest


def test_a_few_names_and_how_many_more() -> None:
    assert name_some([]) == "" and name_some("ab") == "a, b"
    assert name_some(range(5)) == "0, 1, 2, 3, 4" and name_some(range(7)) == "0, 1, 2, 3, 4 and 2 more"
    assert name_some((i for i in range(3)), most=2) == "0, 1 and 1 more"


@pytest.mark.parametrize("word", ["random-forst", "Random_Forest", "random forest", "forest"])
def test_the_likest_name_is_found(word: str) -> None:
    known = ["lasso", "random-forest", "gin"]
    assert closest_name(word, known) == "random-forest"
    assert nearest(word, known) == "; did you mean 'random-forest'? There are lasso, random-forest, gin."
    assert meant(word, known) == "did you mean random-forest?"


@pytest.mark.parametrize("word", ["zebra", "", "o", None])
def test_a_name_like_no_other_gets_them_all(word: str | None) -> None:
    assert nearest(word, ["lasso", "gin"]) == ". There are lasso, gin."
    assert meant(word, ["lasso", "gin"]) == "there are lasso, gin." and meant(word, []) == "there are none."
