"""Repeated scans: told apart when read, kept together when drawn, and compared with each other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cignn import CohortClassifier
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import Cohort, DataError, check_cohort, load_cohort, make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import audit, intraclass_correlation, retest_reliability
from cignn.evaluation.splits import check_splits, labels_of
from cignn.evaluation.splitters import Holdout, KFold, LeaveOneSiteOut
from cignn.explainers.half_samples import Work, half_samples
from cignn.report import report_of
from cignn.report.html import render_report

SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def series(seed: int, length: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(length + seed, 6)).astype(np.float32)


def write(folder: Path, names: list[str], lines: list[str]) -> Path:
    (folder / "series").mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        np.save(folder / "series" / f"{name}.npy", series(i))
    (folder / "participants.tsv").write_text("\n".join(line.replace(",", "\t") for line in lines))
    return folder


SESSIONS = [f"sub-{i}_ses-{k}" for i in range(1, 5) for k in (1, 2)]
PEOPLE = ["participant_id,label", "sub-1,a", "sub-2,b", "sub-3,a", "sub-4,b"]


# ------------------------------------------------------------------------------ reading


def test_sessions_in_names_of_files_are_scans(tmp_path: Path) -> None:
    got = load_cohort(write(tmp_path, SESSIONS, PEOPLE))
    assert len(got) == 8 and got.subjects.tolist() == np.repeat([f"sub-{i}" for i in range(1, 5)], 2).tolist()
    assert got.covariates["session"].tolist() == [1, 2] * 4 and got.y.tolist() == list("aabbaabb")


@pytest.mark.parametrize("column", ["session", "session_id", "ses"])
@pytest.mark.parametrize("words", [("ses-1", "ses-2"), ("01", "02")])
def test_lines_with_sessions_are_scans(tmp_path: Path, column: str, words: tuple[str, str]) -> None:
    lines = [f"sub-{i},{word},{'ab'[i % 2]},{20 + k}" for i in range(1, 5) for k, word in enumerate(words)]
    got = load_cohort(write(tmp_path, SESSIONS, [f"participant_id,{column},label,age", *lines]))
    assert got.covariates["session"].tolist() == [1, 2] * 4 and got.covariates["age"].tolist() == [20, 21] * 4
    assert len(np.unique(got.subjects)) == 4


def test_runs_of_the_table_are_scans(tmp_path: Path) -> None:
    names = [f"sub-{i}_run-{k}" for i in range(1, 5) for k in (1, 2)]
    lines = [f"sub-{i},{k},{'ab'[i % 2]}" for i in range(1, 5) for k in (1, 2)]
    assert (
        load_cohort(write(tmp_path, names, ["participant_id,run,label", *lines])).covariates["run"].tolist()
    )
    with pytest.raises(DataError, match=r'more than one file for sub-1 .*runs="concatenate"'):
        load_cohort(write(tmp_path, names, PEOPLE))
    got = load_cohort(tmp_path, duplicates="keep")
    assert got.covariates["run"].tolist() == [1, 2] * 4, "names of files say which run"


def test_duplicates_without_a_session_are_refused_in_one_line(tmp_path: Path) -> None:
    lines = [f"sub-{i},{'ab'[i % 2]}" for i in (1, 1, 2, 3)]
    names = [f"sub-{i}" for i in range(1, 4)]
    for head, rows in (
        ("participant_id,label", lines),
        ("participant_id,label,session", [f"{line},1" for line in lines]),
    ):
        with pytest.raises(
            DataError, match=r"the same id occurs more than once for sub-1.*column session or run"
        ) as error:
            load_cohort(write(tmp_path, names, [head, *rows]))
        assert "\n" not in str(error.value)


def test_checks_know_sessions_and_copies_of_a_scan() -> None:
    cohort = make_cohort(6, 5, n_edges=1, n_scans=2, random_state=0)
    assert check_cohort(cohort) is cohort
    with pytest.raises(DataError, match=r"the same id occurs more than once for sub-0001"):
        check_cohort(cohort._with(covariates=cohort.covariates.drop(columns="session")))
    copied = [cohort.series[i] for i in (0, 0, *range(2, 12))]
    copy = cohort._with(series=copied)
    with pytest.raises(
        DataError, match=r"identical data in two scans: sub-0001 \(session 1\) = sub-0001 \(session 2\)"
    ):
        check_cohort(copy)


# ------------------------------------------------------------------------------ drawing


def test_scans_of_a_subject_are_drawn_together() -> None:
    cohort = make_cohort(40, 6, n_edges=2, n_scans=2, random_state=0)
    labels = labels_of(cohort)
    for protocol in (Holdout(n_repeats=3), KFold(4), LeaveOneSiteOut()):
        check_splits(protocol.splits(cohort, 0), labels)
    work = Work.of(make_connectome_pipeline(make_estimator("lasso", random_state=0)), cohort, None, None)
    for permutation in (-1, 0):
        for sample in half_samples(work, 2, permutation, np.random.default_rng(0)):
            inside = np.isin(np.arange(80), sample.rows)
            assert (inside[::2] == inside[1::2]).all() and (sample.labels[::2] == sample.labels[1::2]).all()


# ------------------------------------------------------------------------------ agreement


def test_intraclass_correlations_of_the_textbook() -> None:
    found = [
        float(intraclass_correlation(SHROUT_FLEISS, kind)) for kind in ("ICC(1,1)", "ICC(2,1)", "ICC(3,1)")
    ]
    assert np.round(found, 2).tolist() == [0.17, 0.29, 0.71]  # Shrout and Fleiss 1979, table 4


def test_properties_of_intraclass_correlations() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 3, 4))
    for kind in ("ICC(1,1)", "ICC(2,1)", "ICC(3,1)"):
        found = intraclass_correlation(values, kind)
        np.testing.assert_allclose(intraclass_correlation(2 * values + 3, kind), found, atol=1e-9)
        np.testing.assert_allclose(
            intraclass_correlation(values[rng.permutation(20)], kind), found, atol=1e-9
        )
        np.testing.assert_allclose(intraclass_correlation(values[:, :1].repeat(3, 1), kind), 1)
        assert np.isnan(intraclass_correlation(np.ones((5, 2)), kind))
    shifted = values + np.arange(3)[None, :, None]
    np.testing.assert_allclose(
        intraclass_correlation(shifted, "ICC(3,1)"), intraclass_correlation(values, "ICC(3,1)")
    )
    with pytest.raises(ValueError, match=r"values must be \(subjects, scans\)"):
        intraclass_correlation(np.ones(4))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_reliability_simulated_is_found(share: float) -> None:
    endless = make_cohort(
        100, 8, n_edges=0, n_scans=2, reliability=share, lengths=(9000, 9000), random_state=1
    )
    found = retest_reliability(endless, n_resamples=20)
    assert abs(found.median - share) < 0.1 and abs(found.strangers) < 0.15
    assert found.rho > found.rho_strangers and found.discriminability > 0.6
    assert found.table.shape == (28, 3) and found.low <= found.median <= found.high
    short = make_cohort(100, 8, n_edges=0, n_scans=2, reliability=share, lengths=(60, 60), random_state=1)
    assert retest_reliability(short, n_resamples=1).median < found.median, "sampling lowers it"


def test_sites_alone_are_no_reliability() -> None:
    cohort = make_cohort(
        80, 8, n_edges=2, n_scans=2, reliability=0.0, site_effect=2.0, n_site_edges=20, random_state=0
    )
    found = retest_reliability(cohort, n_resamples=1)
    assert found.median > 0.2, "scans of one site are alike"
    assert abs(found.median - found.strangers) < 0.15, "and so are those of strangers there"


def test_which_scans_are_compared() -> None:
    cohort = make_cohort(10, 6, n_edges=2, n_scans=3, random_state=0)
    keep = np.ones(30, bool)
    keep[[2, 5, 8, 11, 14, 17, 20]] = False  # seven of ten have no third session
    found = retest_reliability(cohort[keep], n_resamples=1)
    assert (found.n_subjects, found.n_scans) == (10, 2)
    changed = np.array(cohort.y)
    changed[0] = 1 - changed[0]
    assert retest_reliability(cohort.with_y(changed), n_resamples=1).n_subjects == 9, "a label that changes"
    with pytest.raises(ValueError, match=r"3 subjects with the same two scans or more.*several scans: none"):
        retest_reliability(cohort[::3])
    with pytest.raises(TypeError, match="a Cohort, a GraphSet or Explanations, got list"):
        retest_reliability([1])


def test_explanations_of_a_subject_are_more_alike_than_those_of_strangers() -> None:
    cohort = make_cohort(80, 12, n_edges=4, effect=0.5, n_scans=2, reliability=0.9, random_state=0)
    model = make_connectome_pipeline(make_estimator("linear-svm", random_state=0))
    model.fit(cohort[:80], cohort.y[:80])
    graphs = model[:-1].transform(cohort[80:])
    explanations = model[-1].explain(graphs)
    found = retest_reliability(explanations, n_resamples=5)
    assert found.what == "contributions" and found.n_subjects == 40
    assert found.rho > found.rho_strangers and found.median > found.strangers
    chances = model[-1].predict_proba(graphs)
    odds = (np.log(chances[:, 1]) - np.log(chances[:, 0])).reshape(40, 2)
    assert found.decision == pytest.approx(float(intraclass_correlation(odds)), abs=1e-6)
    assert "log-odds" in found.summary() and "strangers" in found.summary()


# ------------------------------------------------------------------------------ audit and report


def test_the_audit_and_the_report_show_it() -> None:
    cohort = make_cohort(40, 10, n_edges=3, effect=0.5, n_scans=2, reliability=0.9, random_state=0)
    finding = audit(cohort)["test–retest reliability"]
    assert finding.severity == "fine" and finding.size > 0.3 and len(finding.table) == 45
    json.dumps(audit(cohort).to_frame().to_dict("records"))
    assert "test–retest reliability" not in [one.name for one in audit(cohort[::2])]
    noisy = make_cohort(40, 10, n_edges=3, n_scans=2, reliability=0.0, random_state=0)
    assert audit(noisy)["test–retest reliability"].severity == "warning"
    model = make_connectome_pipeline(make_estimator("lasso", random_state=0)).fit(cohort[:40], cohort.y[:40])
    page = render_report(report_of(model, cohort))
    assert "Do scans of the same subject agree?" in page and "not trained on" in page
    once = render_report(report_of(model, cohort[::2]))
    assert "Do scans of the same subject agree?" not in once


def test_scans_of_sessions_go_through_the_extractor(tmp_path: Path) -> None:
    class Extract:
        def transform(self, scans: pd.DataFrame) -> Cohort:
            self.scans = scans
            kept = scans.iloc[1:]  # the first one fails
            return Cohort([series(i) for i in range(len(kept))], subjects=kept["subject"].tolist())

    for i in range(1, 5):
        for k in (1, 2):
            place = tmp_path / f"sub-{i}" / f"ses-{k}" / "func"
            place.mkdir(parents=True)
            (place / f"sub-{i}_ses-{k}_task-rest_space-MNI_desc-preproc_bold.nii.gz").write_bytes(b"")
    (tmp_path / "participants.tsv").write_text("\n".join(PEOPLE).replace(",", "\t"))
    extract = Extract()
    got = load_cohort(tmp_path, extract=extract)
    assert extract.scans["subject"].tolist()[:2] == ["sub-1_ses-1", "sub-1_ses-2"]
    assert got.subjects.tolist() == np.repeat([f"sub-{i}" for i in range(1, 5)], 2).tolist()[1:]
    assert got.covariates["session"].tolist() == [2, *[1, 2] * 3]
    assert got.exclusions["subject"].tolist() == ["sub-1_ses-1"]


def test_predictions_say_which_scan_they_are_of() -> None:
    from cignn.cli.models import prediction_table

    cohort = make_cohort(24, 6, n_edges=2, n_scans=2, random_state=0)
    model = CohortClassifier.make(make_estimator("lasso", random_state=0)).fit(cohort)
    table = prediction_table(model, cohort, model.predict_proba(cohort))
    assert table["session"].tolist() == [1, 2] * 24 and table["subject"].nunique() == 24
    assert "session" not in prediction_table(model, cohort[::2], model.predict_proba(cohort[::2]))
