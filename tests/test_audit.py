"""The audit finds what was put into a cohort, says how much of it, and leaves a clean cohort alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from cignn import Cohort
from cignn.datasets import load_abide, make_cohort
from cignn.datasets.likeness import near_identical_pairs
from cignn.evaluation import Audit, audit, evaluate
from cignn.evaluation.probes import SEVERITIES, brief, coded, label_from

pytestmark = pytest.mark.medium


def small(seed: int = 0, n: int = 120, **more: Any) -> Cohort:
    return make_cohort(
        n, 16, **({"n_edges": 5, "n_site_edges": 12, "lengths": (60, 90), "random_state": seed} | more)
    )


def flagged(found: Audit) -> set[str]:
    return {finding.name for finding in found if finding.severity in ("serious", "warning")}


# ------------------------------------------------------------------------ no false alarm


def test_sites_of_one_balance_are_not_told_apart() -> None:
    y, sites = [0, 1] * 6, np.repeat(["A", "B", "C"], 4)
    cohort = Cohort(matrices=small(n=12, data="matrices").matrices, y=y, sites=sites)
    assert audit(cohort)["class balance per site"].message.endswith("share of 1 is 0.50 at every site")
    uneven = cohort.with_y([1, 1, 1, *y[3:]])
    assert "share of 1 from 0.50 (B) to 1.00 (A)" in audit(uneven)["class balance per site"].message


@pytest.mark.parametrize("kind", ["series", "matrices"])
@pytest.mark.parametrize("seed", range(2))
def test_a_clean_cohort_passes(kind: str, seed: int) -> None:
    found = audit(small(seed, data=kind))
    assert flagged(found) == set()
    assert brief(found) == ""
    assert found.worst in ("fine", "unknown")


def test_a_planted_diagnosis_is_no_fault() -> None:
    assert flagged(audit(small(effect=1.0))) == set()


# ------------------------------------------------------------------- sites and covariates


def test_sites_that_tell_the_label_are_named_with_the_number() -> None:
    found = audit(small(site_effect=1.0, confounded=0.8))
    site = found["site → label"]
    assert site.severity == "serious"
    assert site.size == pytest.approx(0.8, abs=0.08)  # 80 % of patients from one site, 20 % of controls
    assert "loso" in site.advice
    assert found["connectivity → site"].severity == "serious"
    assert found["class balance per site"].severity == "serious"
    assert "site → label" in brief(found)
    assert found.worst == "serious"


def test_a_site_effect_alone_is_a_warning_not_a_leak() -> None:
    found = audit(small(site_effect=1.0))
    assert found["connectivity → site"].severity == "warning"
    assert found["connectivity → site"].size > 0.7
    assert flagged(found) == {"connectivity → site"}


def test_motion_in_connectivity_is_found() -> None:
    found = audit(small(motion=3.0))
    assert found["connectivity → motion"].severity == "warning"
    assert found["connectivity → motion"].size > 0.5
    assert "near-identical subjects" not in flagged(found)  # the same artefact does not make two the same


@pytest.mark.parametrize("name", ["age", "sex", "motion"])
def test_a_covariate_that_goes_with_the_label_is_named(name: str) -> None:
    cohort = small()
    rng = np.random.default_rng(0)
    column = "mean_fd" if name == "motion" else name
    if name == "sex":
        cohort.covariates["sex"] = np.where(rng.random(len(cohort)) < 0.2 + 0.6 * cohort.y, "M", "F")
    else:
        cohort.covariates[column] = rng.normal(size=len(cohort)) + 1.5 * cohort.y
    found = audit(cohort)
    assert found[f"{name} → label"].severity == "serious"
    assert (
        {f"{name} → label"}
        <= flagged(found)
        <= {
            f"{name} → label",
            "all of these → label",
            "connectivity → motion",  # the label shows in connectivity, and motion goes with the label
        }
    )
    assert found["all of these → label"].size > 0.65


def test_a_covariate_that_is_missing_in_patients_alone_is_found() -> None:
    cohort = small()
    cohort.covariates["age"] = np.where(cohort.y == 1, np.nan, cohort.covariates["age"])
    assert audit(cohort)["age → label"].size == pytest.approx(1.0, abs=0.01)


def test_a_scan_length_that_goes_with_the_label_is_found() -> None:
    cohort = small()
    series = [one[: 50 + 5 * label] for one, label in zip(cohort.series, cohort.y, strict=True)]
    assert audit(cohort._with(series=series))["scan length → label"].severity == "serious"


def test_a_site_with_one_class_is_named() -> None:
    cohort = small()
    sites = np.where((np.arange(len(cohort)) < 16) & (cohort.y == 1), "lonely", cohort.sites)
    finding = audit(cohort._with(sites=sites))["class balance per site"]
    assert finding.severity in ("warning", "serious")
    assert "one class only at lonely" in finding.message
    assert finding.table.loc["lonely", 0] == 0


# --------------------------------------------------------------------- subjects and splits


@pytest.mark.parametrize("kind", ["series", "matrices"])
@pytest.mark.parametrize("n_rois", [8, 30])
def test_copies_are_found_and_nobody_else(kind: str, n_rois: int) -> None:
    cohort = make_cohort(100, n_rois, n_edges=3, data=kind, lengths=(60, 90), random_state=1)
    twice = cohort[np.r_[:100, 3, 40]]._with(subjects=[f"s{i}" for i in range(102)])
    finding = audit(twice)["near-identical subjects"]
    assert finding.severity == "serious"
    assert sorted(zip(finding.table["first"], finding.table["second"], strict=True)) == [
        ("s3", "s100"),
        ("s40", "s101"),
    ]


def test_a_noisy_copy_with_another_label_is_found() -> None:
    cohort = small(n=80)
    noise = np.random.default_rng(0)
    series = [*cohort.series, cohort.series[7] + noise.normal(0, 0.15, cohort.series[7].shape)]
    again = Cohort(series, y=np.r_[cohort.y, 1 - cohort.y[7]])
    finding = audit(again)["near-identical subjects"]
    assert finding.size == 1
    assert "1 of them with different labels" in finding.message


def test_a_subject_on_both_sides_is_found_by_name_and_by_data() -> None:
    cohort = small(n=60)
    clean = (np.arange(40), np.arange(40, 50), np.arange(50, 60))
    assert audit(cohort, clean)["subjects on both sides of a split"].severity == "fine"
    names = cohort.subjects.copy()
    names[55] = names[2]  # a second scan of subject 2
    by_name = audit(cohort._with(subjects=names), clean)
    assert by_name["subjects on both sides of a split"].size == 1
    assert by_name["repeated subjects"].severity == "warning"
    same = np.r_[:55, 45, 56:60]  # the scan of a validation subject under another name
    by_data = audit(cohort[same]._with(subjects=cohort.subjects), clean)
    assert by_data["subjects on both sides of a split"].severity == "serious"
    masks = tuple(np.isin(np.arange(60), part) for part in clean)
    assert audit(cohort, [masks, masks])["subjects on both sides of a split"].message == "none in 2 splits"
    with pytest.raises(ValueError, match="train, test"):
        audit(cohort, [clean + clean])


def test_no_pair_is_reported_twice_and_none_with_itself() -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 400)).astype(np.float32)
    pairs = near_identical_pairs(np.concatenate([vectors, vectors[:3]]))
    assert list(zip(pairs["first"], pairs["second"], strict=True)) == [(0, 30), (1, 31), (2, 32)]
    with pytest.raises(ValueError, match="near_identical"):
        near_identical_pairs(vectors, 1.5)


def test_rois_without_signal_are_counted_and_compared_with_the_label() -> None:
    cohort = small()
    series = [np.array(one) for one in cohort.series]
    for i in (0, 1):
        series[i][:, 4] = 2.0
    finding = audit(cohort._with(series=series))["ROIs without signal"]
    assert (finding.severity, finding.size) == ("warning", 2)
    assert cohort.roi_names[4] in finding.message
    assert all(f"{cohort.subjects[i]} ({cohort.roi_names[4]})" in finding.message for i in (0, 1))
    assert finding.table["subject"].tolist() == cohort.subjects[:2].tolist()
    assert finding.table["names"].tolist() == [cohort.roi_names[4]] * 2
    for i in np.flatnonzero(cohort.y == 1):
        series[i][:, 4] = 2.0
    assert audit(cohort._with(series=series))["ROIs without signal"].severity == "serious"


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_rois_without_signal_are_seen_in_matrices_too(value: float) -> None:
    cohort = small(data="matrices")
    cohort.matrices[5, 3, :] = cohort.matrices[5, :, 3] = value
    cohort.matrices[5, 3, 3] = 1
    finding = audit(cohort)["ROIs without signal"]
    assert finding.size == 1
    assert cohort.roi_names[3] in finding.message


@pytest.mark.parametrize("kind", ["series", "matrices"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_a_finding(kind: str, value: float) -> None:
    cohort = make_cohort(40, 8, n_edges=3, data=kind, lengths=(60, 90), random_state=1)
    name = "NaN or infinite values"
    assert audit(cohort)[name].severity == "fine"
    for i in (3, 7):
        (cohort.series if kind == "series" else cohort.matrices)[i][0, 1] = value
    finding = audit(cohort)[name]
    assert finding.severity == "serious" and finding.size == 2
    assert all(cohort.subjects[i] in finding.message for i in (3, 7)) and "non_finite=" in finding.advice


def test_the_diagonal_of_matrices_is_nobodys_value() -> None:
    cohort = make_cohort(40, 8, n_edges=3, data="matrices", random_state=1)
    cohort.matrices[:, range(8), range(8)] = np.inf
    assert audit(cohort)["NaN or infinite values"].severity == "fine"


# --------------------------------------------------------------------------- what it returns


def test_little_data_is_no_reason_to_fail() -> None:
    cohort = small()
    bare = Cohort(cohort.series)
    missing = audit(bare)["label"]
    assert missing.severity == "warning" and "--label" in missing.advice
    assert audit(Cohort(cohort.series[:3], y=[0, 1, 1], sites=["a", "a", "b"])).subjects == 3
    assert audit(cohort[:1]).subjects == 1
    alike = audit(Cohort(cohort.series, y=np.zeros(len(cohort), int)))["class balance"]
    assert alike.severity == "serious" and alike.message == "all labels are 0"
    three = audit(cohort.with_y(np.arange(len(cohort)) % 3))
    assert flagged(three) == set()
    gaps = cohort._with(covariates={"age": [np.nan] * len(cohort), "sex": [None] * len(cohort)})
    assert audit(gaps)["age → label"].severity == "unknown"
    same = cohort._with(series=[cohort.series[0]] * len(cohort))
    assert audit(same)["connectivity → site"].severity == "unknown"
    with pytest.raises(TypeError, match="Cohort"):
        audit(np.zeros((3, 4)))
    assert audit(cohort, ([], [0, 1]))["subjects on both sides of a split"].severity == "fine"
    with pytest.raises(ValueError, match="parts of a split must be positions from 0 to"):
        audit(cohort, ([0, 1], [999]))
    with pytest.raises(ValueError, match="no"):
        audit(cohort[[]])


def test_the_result_reads_as_lines_and_as_a_table() -> None:
    found = audit(small(site_effect=1.0, confounded=True))
    table = found.to_frame()
    assert list(table) == ["finding", "severity", "size", "measure", "message", "what to do"]
    assert len(table) == len(found) == len(list(found))
    assert table["severity"].map(SEVERITIES.index).is_monotonic_increasing
    assert (table.loc[table["severity"].isin(["serious", "warning"]), "what to do"] != "").all()
    assert "Audit of 120 subjects: " in repr(found)
    assert all(line in repr(found) for line in brief(found).splitlines())
    with pytest.raises(KeyError, match="no finding"):
        found["weather"]


def test_the_same_cohort_gives_the_same_audit() -> None:
    first, second = (audit(small(site_effect=0.5, confounded=0.7)).to_frame() for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_probes_tell_what_is_there() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    assert label_from(coded(y + rng.normal(0, 1e-3, 200)), y).score > 0.99
    assert abs(label_from(coded(rng.normal(size=200)), y).z) < 3
    assert label_from(coded(np.zeros(200)), y) is None
    assert coded(pd.Series(["a", None, "b"])).shape == (3, 3)


def test_an_evaluation_begins_with_what_the_audit_found(capsys: pytest.CaptureFixture[str]) -> None:
    confounded, clean = small(site_effect=1.0, confounded=0.8, n=80), small(n=80)
    fast = {"random-forest": {"n_estimators": 2}}
    evaluate(fast, {"mine": confounded}, "kfold", verbose=1)
    said = capsys.readouterr().err
    assert said.startswith("audit of mine:")
    assert "site → label: AUC 0." in said and "ComBat" in said
    evaluate(fast, {"mine": clean}, "kfold", verbose=1)
    evaluate(fast, {"mine": confounded}, "kfold", verbose=0)
    assert capsys.readouterr().err == ""


def test_data_that_cannot_be_audited_do_not_stop_an_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    cohort = small(n=60)
    short = cohort._with(series=[cohort.series[0][:2], *list(cohort.series)[1:]])
    with pytest.warns(UserWarning, match="tasks failed"):
        evaluate({"random-forest": {"n_estimators": 2}}, short, verbose=1, seeds=[1, 2])
    assert "could not be made: subject sub-0001 has 2 time points" in capsys.readouterr().err


def test_random_folds_are_inflated_where_site_tells_the_label_and_loso_is_not() -> None:
    # nothing but the scanner differs between the groups
    cohort = small(n=150, n_edges=0, site_effect=1.5, confounded=0.85)
    assert audit(cohort)["site → label"].size > 0.75

    def accuracy(protocol: str) -> float:
        found = evaluate({"linear-svm": {"C": 0.01}}, cohort, protocol, verbose=0)
        return found[found["metric"] == "accuracy"]["value"].mean()

    assert accuracy("kfold") > 0.7
    assert accuracy("loso") < 0.6


def test_an_evaluation_says_when_a_scan_is_trained_on_and_tested(capsys: pytest.CaptureFixture[str]) -> None:
    cohort = small(n=60)
    twice = cohort[np.r_[:60, 5]]._with(subjects=[f"s{i}" for i in range(61)])
    evaluate({"random-forest": {"n_estimators": 2}}, twice, "kfold", verbose=1)
    assert "subjects on both sides of a split: 2 of 61" in capsys.readouterr().err


@pytest.mark.data
def test_abide_holds_scans_that_stand_under_two_names(real_data: Any) -> None:
    cohort = load_abide(real_data("abide"))
    who = cohort[np.isin(cohort.sites, ["UM_1", "YALE", "CALTECH"])]
    finding = audit(who)["near-identical subjects"]
    # their mean framewise displacements are the same to ten digits: one scan under two names
    fd = dict(zip(who.subjects, who.covariates["mean_fd"], strict=True))
    assert [fd[a] == fd[b] for a, b in zip(finding.table["first"], finding.table["second"], strict=True)] == [
        True,
        True,
    ]


def test_a_subject_with_two_scans_counts_once() -> None:
    one = make_cohort(40, 12, n_edges=0, n_sites=2, data="matrices", random_state=0)
    rng = np.random.default_rng(0)
    twice = np.repeat(np.arange(40), 2)
    noisy = np.asarray(one.matrices)[twice]
    noise = rng.normal(0, 0.05, noisy.shape)
    two = one[twice].with_matrices((noisy + (noise + noise.transpose(0, 2, 1)) / 2).astype(np.float32))
    found, single = audit(two), audit(one)
    assert (found.subjects, found.scans) == (40, 80) and "Audit of 40 subjects (80 scans)" in repr(found)
    assert "40 of 40 subjects have more than one scan, 80 scans in all" in found["repeated subjects"].message
    for name in ("site → label", "age → label", "class balance", "class balance per site"):
        assert found[name] == single[name]  # told apart by people, not by scans of the same people
    assert repr(two).startswith("Cohort(80 scans of 40 subjects,")
    table = two.summary()
    assert table["subjects"].iloc[:2].sum() == 40 and table["scans"].iloc[:2].sum() == 80
    pd.testing.assert_frame_equal(table.drop(columns="scans"), one.summary())
