"""The list of deliberate defects must fit the code, or ``make mutants`` would say nothing."""

from __future__ import annotations

import ast

import pytest
from campaigns.mutants import MUTANTS, ROOT, Mutant


def source(mutant: Mutant) -> str:
    return (ROOT / "src" / "cignn" / mutant.file).read_text(encoding="utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_defect_can_be_put_in(mutant: Mutant) -> None:
    assert source(mutant).count(mutant.old) == 1, (
        "its line has changed: mend the entry of campaigns/mutants.py"
    )
    ast.parse(source(mutant).replace(mutant.old, mutant.new))
    assert mutant.old != mutant.new
    for name in mutant.tests.split():
        assert (ROOT / "tests" / f"test_{name}.py").is_file()


def test_defects_are_told_apart_and_lie_in_every_room() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
    rooms = {mutant.file.split("/")[0] for mutant in MUTANTS}
    assert rooms >= {"information", "nn", "estimators", "explainers", "evaluation", "connectome", "datasets"}
    assert "report" in rooms
