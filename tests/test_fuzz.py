"""The campaign of damaged inputs: its judges see what they must, and a few hundred inputs find nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns.fuzz import Campaign, drawn, kept_cases, main
from campaigns.fuzzing import targets
from campaigns.fuzzing.cases import CRASH, FINE, FOREIGN, HANG, REFUSED, WRONG, Case, Judge, make_case
from campaigns.fuzzing.checks import check_cohort, is_ragged

import faulty_readers

pytestmark = pytest.mark.medium

SEED, INPUTS = 20260101, 200


def digits(text: str) -> Case:
    return Case("digits", int(text), faulty_readers.SAMPLE, {"digit.txt": text.encode()})


def test_every_kind_of_end_is_told_from_the_others(tmp_path: Path) -> None:
    """A process that dies or hangs is blamed on its input, and the inputs behind it are read all the same."""
    campaign = Campaign(
        faulty_readers.TARGETS, 0, tmp_path / "work", tmp_path / "findings", registry=faulty_readers.__name__
    )
    campaign.run([digits(text) for text in "0123456789"], patience=3.0)
    assert campaign.counts == {
        ("digits", FOREIGN): 3,
        ("digits", CRASH): 1,
        ("digits", HANG): 1,
        ("digits", WRONG): 1,
        ("digits", FINE): 4,
    }
    assert campaign.failed and "digits: hang" in campaign.report()
    kept = {
        path.name: json.loads((path / "finding.json").read_text())
        for path in (tmp_path / "findings").iterdir()
    }
    assert len(kept) == 6
    assert (
        "KeyError" in kept["digits-foreign-0-0"]["detail"]
        and "MemoryError" in kept["digits-foreign-0-4"]["detail"]
    )
    assert "in read" in kept["digits-crash-0-1"]["detail"] and "in read" in kept["digits-hang-0-2"]["detail"]
    again = Campaign(
        faulty_readers.TARGETS, 0, tmp_path / "work", tmp_path / "again", registry=faulty_readers.__name__
    )
    again.run(
        [case for case in kept_cases(tmp_path / "findings", faulty_readers.TARGETS) if case.number != 2]
    )
    assert again.n_bad == 5 and again.counts["digits", CRASH] == 1


# -------------------------------------------------------------------------------- judges


def judged(target: str, tmp_path: Path, **changed: bytes) -> Any:
    reader = targets.TARGETS[target]
    original = reader.samples(tmp_path)[0]
    return Judge(tmp_path / "judge")(Case(target, 0, original, original | changed), reader)


def test_a_table_with_a_name_too_few_must_be_refused(tmp_path: Path) -> None:
    sample = targets.TARGETS["cohort-table"].samples(tmp_path)[0]
    table = sample["participants.tsv"]
    assert not is_ragged(table) and not is_ragged(b'a,"b\n1,2,3\n')
    assert is_ragged(table.replace(b"\tage", b"", 1)) and is_ragged(table + b"sub-9\tA\n")
    reference = targets.TARGETS["cohort-table"].read
    folder = tmp_path / "study"
    for name, content in sample.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    cohort = reference(folder)
    assert check_cohort(cohort, cohort, sample, sample) is None
    short = sample | {"participants.tsv": table.replace(b"\tage", b"", 1)}
    assert "different lengths" in str(check_cohort(cohort, cohort, sample, short))
    healthy = cohort.with_y(["control"] * len(cohort))
    assert "sub-001 is control" in str(check_cohort(healthy, cohort, sample, sample))
    said = sample | {"participants.tsv": table.replace(b"patient", b"control")}
    assert check_cohort(healthy, cohort, sample, said) is None  # as the table says now


def test_refusals_name_their_file(tmp_path: Path) -> None:
    assert judged("cohort-npy", tmp_path, **{"series/sub-001.npy": b"x"}).outcome == REFUSED
    assert judged("ba2motifs", tmp_path).outcome == FINE


# ------------------------------------------------------------------------------ campaigns


def test_a_case_is_known_by_its_seed_and_number(tmp_path: Path) -> None:
    for name in ("cohort-npz", "cohort-mat", "tu", "store", "settings-words"):
        reader = targets.TARGETS[name]
        made = reader.samples(tmp_path)
        first, second = (make_case(7, name, 3, reader, made) for _ in range(2))
        assert first == second and first.what
        assert any(make_case(7, name, k, reader, made).files != first.files for k in range(4, 7))


def test_targets_come_by_their_weights() -> None:
    names = [name for name, _ in drawn(targets.TARGETS, 1000)]  # type: ignore[misc]
    total = sum(reader.weight for reader in targets.TARGETS.values())
    for name, reader in targets.TARGETS.items():
        assert abs(names.count(name) - 1000 * reader.weight / total) <= 1


@pytest.mark.slow
def test_a_few_hundred_damaged_inputs_are_read_or_refused_in_our_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same campaign as ``make fuzz``, bounded: every target, one process, a fixed seed."""
    arguments = [
        "--inputs",
        str(INPUTS),
        "--seed",
        str(SEED),
        "--jobs",
        "1",
        "--findings",
        str(tmp_path / "found"),
    ]
    code = main(arguments)
    told = capsys.readouterr().out
    assert f"seed {SEED}, {INPUTS} inputs" in told
    assert code == 0, told
    assert all(name in told for name in targets.TARGETS)
