"""Folders of xcp_d and C-PAC, files of AFNI and nilearn: written as the program does, read as the array."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cignn import load_cohort
from cignn.datasets import DataError
from cignn.datasets.derivative_files import entities_of
from cignn.datasets.roi_files import Wanted, read_roi_file
from cignn.datasets.scans import holds_scans
from commands import Result
from test_cifti_files import parcels, write, write_series
from test_cohort_files import CODES, NAMES, R, as_text, values

N = 4


def correlations(i: int = 0) -> np.ndarray:
    return np.corrcoef(values(i), rowvar=False)


def people(folder: Path, n: int = N) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(
        {"participant_id": [f"sub-{i:02d}" for i in range(n)], "label": ["a", "b"] * (n // 2)}
    )
    frame.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


def check_series(got: Any, start: int = 0, atol: float = 1e-5) -> None:
    assert got.subjects.tolist() == [f"sub-{i:02d}" for i in range(N)]
    for i, subject in enumerate(got):
        np.testing.assert_allclose(subject.series, values(start + i), atol=atol)


# -------------------------------------------------------------------------------------- xcp_d


def write_xcpd(
    folder: Path, atlas: str = "seg-Gordon", more: str = "", start: int = 0, space: str = "MNI152NLin6Asym"
) -> Path:
    """One subject folder each with series, matrices, confounds and a denoised scan, as xcp_d leaves them."""
    for i in range(N):
        place = folder / f"sub-{i:02d}" / "ses-1" / "func"
        place.mkdir(parents=True, exist_ok=True)
        stem = f"sub-{i:02d}_ses-1_task-rest{more}"
        data = pd.DataFrame(values(start + i), columns=NAMES)
        data.to_csv(place / f"{stem}_space-{space}_{atlas}_stat-mean_timeseries.tsv", sep="\t", index=False)
        matrix = pd.DataFrame(correlations(start + i), NAMES, NAMES).rename_axis("Node")
        relmat = f"{stem}_space-{space}_{atlas}_stat-pearsoncorrelation_relmat.tsv"
        matrix.to_csv(place / relmat, sep="\t")
        matrix[:1].to_csv(place / f"{stem}_space-{space}_{atlas}_stat-reho_bold.tsv", sep="\t")
        data.to_csv(place / f"{stem}_desc-preproc_confounds_timeseries.tsv", sep="\t")
        data.to_csv(place / f"{stem}_motion.tsv", sep="\t")
        (place / f"{stem}_space-{space}_desc-denoised_bold.nii.gz").touch()
    return people(folder)


def test_series_and_matrices_of_xcpd(tmp_path: Path) -> None:
    got = load_cohort(write_xcpd(tmp_path))
    check_series(got)
    assert got.roi_names == NAMES
    got = load_cohort(tmp_path, data="matrices")
    np.testing.assert_allclose(got.matrices, np.stack([correlations(i) for i in range(N)]), atol=1e-6)
    assert got.roi_names == NAMES


def test_the_table_may_be_above(tmp_path: Path) -> None:
    folder = write_xcpd(tmp_path / "derivatives" / "xcp_d")
    (folder / "participants.tsv").rename(tmp_path / "participants.tsv")
    check_series(load_cohort(folder))


@pytest.mark.parametrize("word", ["seg", "atlas"])
def test_one_atlas_of_several(tmp_path: Path, word: str) -> None:
    write_xcpd(tmp_path, f"{word}-Gordon")
    write_xcpd(tmp_path, f"{word}-4S156Parcels", start=10)
    words = rf'files of 2 atlases \(4S156Parcels, Gordon\); pass files="\*_{word}-4S156Parcels_\*"'
    with pytest.raises(DataError, match=words) as error:
        load_cohort(tmp_path)
    (advised,) = error.value.options[0].values
    check_series(load_cohort(tmp_path, files=advised), 10)
    assert load_cohort(tmp_path, files=advised, data="matrices").matrices is not None
    assert not holds_scans(tmp_path)
    check_series(load_cohort(tmp_path, entities={"atlas": "Gordon"}))
    check_series(load_cohort(tmp_path, entities={word: "4S156Parcels"}), 10)
    check_series(load_cohort(tmp_path, files=f"*_{word}-4S156Parcels_*_timeseries.tsv"), 10)
    with pytest.raises(
        DataError, match=r"no file with atlas-AAL, only 4S156Parcels, Gordon; change entities"
    ):
        load_cohort(tmp_path, entities={"atlas": "AAL"})


def test_one_space_of_several(tmp_path: Path) -> None:
    write_xcpd(tmp_path)
    write_xcpd(tmp_path, space="fsLR", start=10)
    with pytest.raises(DataError, match=r"files of 2 spaces \(MNI152NLin6Asym, fsLR\); pass files=."):
        load_cohort(tmp_path)
    check_series(load_cohort(tmp_path, entities={"space": "fsLR"}), 10)


def test_the_command_line_names_the_option_it_has(tmp_path: Path, call: Callable[..., Result]) -> None:
    write_xcpd(tmp_path)
    write_xcpd(tmp_path, "seg-Tian", start=10)
    refused = call("audit", str(tmp_path))
    assert refused.code == 2
    assert "(Gordon, Tian); pass --load files=*_seg-Gordon_*." in refused.words
    assert call("audit", str(tmp_path), "--load", "files=*_seg-Gordon_*").code == 0


def test_the_same_series_in_cifti_are_read_once(tmp_path: Path) -> None:
    write_xcpd(tmp_path, space="fsLR")
    for i in range(N):
        place = tmp_path / f"sub-{i:02d}" / "ses-1" / "func"
        stem = f"sub-{i:02d}_ses-1_task-rest_space-fsLR_seg-Gordon_den-91k_stat"
        write_series(place / f"{stem}-mean_timeseries.ptseries.nii", values(i))
        matrix = place / f"{stem}-pearsoncorrelation_boldmap.pconn.nii"
        write(matrix, correlations(i), parcels(NAMES), parcels(NAMES))
    check_series(load_cohort(tmp_path))
    assert load_cohort(tmp_path, data="matrices").matrices is not None
    for file in [*tmp_path.rglob("*_timeseries.tsv"), *tmp_path.rglob("*_relmat.tsv")]:
        file.unlink()
    check_series(load_cohort(tmp_path), atol=0)
    got = load_cohort(tmp_path, data="matrices")
    np.testing.assert_allclose(got.matrices, np.stack([correlations(i) for i in range(N)]), atol=1e-6)


def test_runs_of_xcpd(tmp_path: Path) -> None:
    write_xcpd(tmp_path, more="_run-1")
    write_xcpd(tmp_path, more="_run-2", start=10)
    with pytest.raises(DataError, match=r'more than one file for sub-00 .*"keep".*runs="concatenate"'):
        load_cohort(tmp_path)
    got = load_cohort(tmp_path, runs="concatenate")
    for i, subject in enumerate(got):
        parts = [values(i), values(10 + i)]
        truth = np.concatenate([(part - part.mean(0)) / part.std(0) for part in parts])
        np.testing.assert_allclose(subject.series, truth, atol=1e-4)
    check_series(load_cohort(tmp_path, entities={"run": "2"}), 10)
    with pytest.raises(DataError, match=r"holds matrices; leave runs out"):
        load_cohort(tmp_path, runs="concatenate", data="matrices")
    write_xcpd(tmp_path, start=20)  # of all runs, which xcp_d writes beside them
    with pytest.raises(
        DataError, match=r"files of sub-00 are not runs of one kind: .* differ in run; choose"
    ):
        load_cohort(tmp_path, runs="concatenate")


def test_lines_of_one_id_are_not_concatenated(tmp_path: Path) -> None:
    write_xcpd(tmp_path, more="_run-1")
    frame = pd.read_csv(tmp_path / "participants.tsv", sep="\t")
    pd.concat([frame, frame[:1]]).to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    with pytest.raises(
        DataError, match="same id occurs more than once for sub-00; keep one line for all runs"
    ):
        load_cohort(tmp_path, runs="concatenate")


def test_a_run_without_signal_stays_at_zero(tmp_path: Path) -> None:
    write_xcpd(tmp_path, more="_run-1")
    write_xcpd(tmp_path, more="_run-2", start=10)
    (path,) = tmp_path.glob("sub-02/**/*_run-2_*_stat-mean_timeseries.tsv")
    frame = pd.read_csv(path, sep="\t")
    frame.assign(roi3=0.1).to_csv(path, sep="\t", index=False)
    got = load_cohort(tmp_path, runs="concatenate")[2].series
    assert (got[len(values(2)) :, 3] == 0).all() and np.isfinite(got).all()


def test_regions_that_were_not_covered_are_told(tmp_path: Path) -> None:
    write_xcpd(tmp_path)
    (path,) = tmp_path.glob("sub-01/**/*_stat-mean_timeseries.tsv")
    frame = pd.read_csv(path, sep="\t")
    frame.assign(roi2=np.nan).to_csv(path, sep="\t", index=False, na_rep="n/a")
    with pytest.raises(DataError, match="sub-01"):
        load_cohort(tmp_path)
    got = load_cohort(tmp_path, non_finite="drop_subject")
    assert got.exclusions["subject"].tolist() == ["sub-01"]


def test_files_without_a_line_are_named(tmp_path: Path) -> None:
    write_xcpd(tmp_path)
    people(tmp_path, 2)
    with pytest.raises(DataError, match=r"no line in the table for sub-02_ses-1_.*; pass missing="):
        load_cohort(tmp_path)
    assert len(load_cohort(tmp_path, missing="drop_subject")) == 2


def test_folders_of_neither_kind(tmp_path: Path) -> None:
    write_xcpd(tmp_path)
    for file in tmp_path.rglob("*_relmat.tsv"):
        file.unlink()
    with pytest.raises(DataError, match="holds no matrices; leave data out"):
        load_cohort(tmp_path, data="matrices")
    with pytest.raises(DataError, match=r"has no folder series/ or matrices/.*folders below with files"):
        load_cohort(people(tmp_path / "empty"))


def test_any_folder_by_the_names_of_its_files(tmp_path: Path) -> None:
    people(tmp_path)
    for i in range(N):
        place = tmp_path / "a" / f"sub-{i:02d}"
        place.mkdir(parents=True)
        np.save(place / "aal.npy", values(i))
        np.save(place / "aal_z.npy", correlations(i))
    check_series(load_cohort(tmp_path, files="aal.npy"), atol=0)
    check_series(load_cohort(tmp_path, files="sub-*/aal.npy"), atol=0)
    got = load_cohort(tmp_path, files="aal_z.npy", data="matrices")
    np.testing.assert_allclose(got.matrices, np.stack([correlations(i) for i in range(N)]), atol=1e-6)
    for i in range(N):
        np.savetxt(tmp_path / "a" / f"sub-{i:02d}" / "x.tsv", values(i), delimiter="\t")
        (tmp_path / "a" / f"sub-{i:02d}" / "._x.tsv").write_bytes(b"\0")  # of another system's folders
    check_series(load_cohort(tmp_path, files="*.tsv"))  # of which participants.tsv is none
    people(tmp_path, 2)
    with pytest.raises(DataError, match=r"no line in the table for a/sub-02/aal.npy, a/sub-03/aal.npy"):
        load_cohort(tmp_path, files="aal.npy")


def test_entities_choose_files_of_a_plain_folder(tmp_path: Path) -> None:
    people(tmp_path)
    (tmp_path / "series").mkdir()
    for i in range(N):
        np.save(tmp_path / "series" / f"sub-{i:02d}_run-1.npy", values(i))
        np.save(tmp_path / "series" / f"sub-{i:02d}_run-2.npy", values(i + 10))
    check_series(load_cohort(tmp_path, entities={"run": "2"}), 10, atol=0)
    assert load_cohort(tmp_path, runs="concatenate").lengths.tolist() == [90, 92, 94, 96]


@pytest.mark.parametrize("wrong", [{"files": ""}, {"variable": 3}, {"rois": ["a", 2]}, {"rois": " "}])
def test_options_that_are_no_words(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a name or pattern, got"):
        load_cohort(write_xcpd(tmp_path), **wrong)


def test_regions_by_names_that_look_like_patterns(tmp_path: Path) -> None:
    people(tmp_path)
    (tmp_path / "series").mkdir()
    names = ["a [1]", "a [2]", "b*", "b", "c", "d"]
    for i in range(N):
        pd.DataFrame(values(i), columns=names).to_csv(tmp_path / "series" / f"{i:02d}.csv", index=False)
    got = load_cohort(tmp_path, rois=["d", "a [1]", "b*"])
    assert got.roi_names == ["a [1]", "b*", "b", "d"]
    np.testing.assert_allclose(got[1].series, values(1)[:, [0, 2, 3, 5]], atol=1e-5)
    for i in range(N):
        (tmp_path / "series" / f"{i:02d}.csv").unlink()
        np.save(tmp_path / "series" / f"{i:02d}.npy", values(i))
    with pytest.raises(DataError, match=r"00.npy: gives its regions no names; leave rois out"):
        load_cohort(tmp_path, rois="a*")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("func/sub-1_task-rest_seg-Gordon_den-91k_x.ptseries.nii", {"atlas": "Gordon", "den": "91k"}),
        ("func/sub-1_desc-a.b.1D", {"desc": "a.b"}),
        (
            "Results/rfMRI_REST1_LR/rfMRI_REST1_LR_Atlas.ptseries.nii",
            {"task": "REST", "run": "1", "dir": "LR"},
        ),
        ("Results/rfMRI_REST2_7T_PA/rfMRI_REST2_7T_PA_Atlas_x.dtseries.nii", {"dir": "PA", "desc": "x"}),
        ("Results/tfMRI_WM_RL/tfMRI_WM_RL_Atlas_MSMAll.ptseries.nii", {"task": "WM", "desc": "MSMAll"}),
    ],
)
def test_entities_of_names(path: str, expected: dict[str, str]) -> None:
    assert expected.items() <= entities_of(Path(path)).items()


# -------------------------------------------------------------------------------------- C-PAC


CPAC: dict[str, tuple[str, Callable[[np.ndarray], str]]] = {
    "3dROIstats -1Dformat": (
        "{stem}_timeseries.1D",
        lambda d: (
            "# 3dROIstats -1Dformat\n#\t" + "\t".join(f"Mean_{c}" for c in CODES) + "\n"
            + "".join(
                f"# /out/rest.nii.gz[{i}]\n\t" + "\t".join(map(str, row)) + "\n" for i, row in enumerate(d)
            )
        ),
    ),
    "cleaned": (
        "{stem}_roi_stats.csv",
        lambda d: "# C-PAC\n#" + ",".join(f"Mean_{c}" for c in CODES) + "\n" + as_text(d, ","),
    ),
    "cleaned, marks of their own": (
        "{stem}_timeseries.1D",
        lambda d: "\t".join(f"#Mean_{c}" for c in CODES) + "\n" + as_text(d, "\t"),
    ),
    "a leading comma": (
        "{stem}_roi_stats.csv",
        lambda d: "#" + ",".join(f"Mean_{c}" for c in CODES) + "\n" + "".join(
            "," + line + "\n" for line in as_text(d, ",").splitlines()
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CPAC)
def test_series_of_cpac(tmp_path: Path, case: str) -> None:
    people(tmp_path / "output" / "pipeline_default")
    name, text = CPAC[case]
    for i in range(N):
        place = tmp_path / "output" / "pipeline_default" / f"sub-{i:02d}_ses-1" / "func"
        place.mkdir(parents=True)
        stem = f"sub-{i:02d}_ses-1_task-rest_atlas-AAL_space-MNI152NLin6ASym_desc-Mean-1"
        (place / name.format(stem=stem)).write_text(text(values(i)))
    got = load_cohort(tmp_path / "output" / "pipeline_default")
    check_series(got)
    assert got.roi_names == [f"Mean_{code}" for code in CODES]
    people(tmp_path / "output")
    check_series(load_cohort(tmp_path / "output"))


@pytest.mark.parametrize(
    ("comment", "names"),
    [
        ("# made by hand", None),  # as many words as columns
        ("# see /a/b ,x,y", None),
        ("#a,b,b", None),
        ("#1,2,3", None),
        ("# a, b, c", ["a", "b", "c"]),
        ("#2001,#2002,#2101", ["2001", "2002", "2101"]),
        ("%a,b,c\n# of a study", ["a", "b", "c"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_which_comments_are_names(tmp_path: Path, comment: str, names: list[str] | None, ending: str) -> None:
    mark = "," if ending == "csv" else " "
    comment = comment if mark == "," else comment.replace(",", " ")
    if mark == " " and comment != "#2001 #2002 #2101":  # spaces could be a sentence's
        names = None
    (tmp_path / f"a.{ending}").write_text(comment + "\n" + as_text(values()[:, :3], mark))
    got = read_roi_file(tmp_path / f"a.{ending}")
    np.testing.assert_allclose(got.values, values()[:, :3], atol=1e-5)
    assert got.names == names


def test_a_first_region_without_values_is_not_lost(tmp_path: Path) -> None:
    rows = as_text(values(), ",").splitlines()
    for head in ("", "# of a study\n", "#" + ",".join(["nothing", *NAMES]) + "\n"):
        (tmp_path / "a.csv").write_text(head + "".join(f",{row}\n" for row in rows))
        got = read_roi_file(tmp_path / "a.csv")
        assert np.isnan(got.values[:, 0]).all() and got.values.shape[1] == R + 1


def test_comments_between_the_numbers_name_nothing(tmp_path: Path) -> None:
    rows = as_text(values(), ",").splitlines()
    (tmp_path / "a.csv").write_text("\n".join([*rows[:5], "#" + ",".join(NAMES), *rows[5:]]))
    got = read_roi_file(tmp_path / "a.csv")
    assert got.names is None and got.values.shape == values().shape


# -------------------------------------------------------------------------------------- AFNI


def netcc(matrices: dict[str, np.ndarray], names: list[str] | None = NAMES, n: int = R) -> str:
    """Write matrices as 3dNetCorr does; without labels, as its first versions did."""
    head = f"# {n}  # Number of network ROIs\n# {len(matrices)}  # Number of netcc matrices\n"
    if names is not None:
        head += "# WITH_ROI_LABELS\n" + "\t".join(f" {name:>10s} " for name in names) + "\n"
    head += "\t".join(f" {i:10d} " for i in range(1, n + 1)) + "\n"
    for name, matrix in matrices.items():
        head += f"# {name}\n" + "\n".join("\t".join(f"{v:12.4f}" for v in row) for row in matrix) + "\n"
    return head


def fisher(matrix: np.ndarray) -> np.ndarray:
    return np.arctanh(np.clip(matrix, -0.9993, 0.9993))


def test_matrices_of_3dnetcorr(tmp_path: Path) -> None:
    people(tmp_path)
    (tmp_path / "matrices").mkdir()
    for i in range(N):
        cc = correlations(i)
        text = netcc({"CC": cc, "FZ": fisher(cc), "PC": cc / 2})
        (tmp_path / "matrices" / f"sub-{i:02d}_000.netcc").write_text(text)
    truth = np.stack([correlations(i) for i in range(N)])
    got = load_cohort(tmp_path)
    assert got.roi_names == NAMES
    np.testing.assert_allclose(got.matrices, truth, atol=1e-4)
    for name, expected in (("FZ", fisher(truth)), ("pc", truth / 2), ("CC", truth)):
        np.testing.assert_allclose(load_cohort(tmp_path, variable=name).matrices, expected, atol=1e-4)
    got = load_cohort(tmp_path, rois=["roi1", "roi4"])
    np.testing.assert_allclose(got.matrices, truth[:, [1, 4]][:, :, [1, 4]], atol=1e-4)
    with pytest.raises(DataError, match=r"_000.netcc: has no matrix BETA, only CC, FZ, PC; change variable"):
        load_cohort(tmp_path, variable="BETA")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), n=st.integers(2, 9), labels=st.booleans())
def test_correlations_from_fishers_z(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, labels: bool
) -> None:
    cc = np.corrcoef(np.random.default_rng(seed).normal(size=(n, 50)))
    path = tmp_path_factory.mktemp("netcc") / "a.netcc"
    names = [f"region{i}" for i in range(n)] if labels else None
    path.write_text(netcc({"PC": cc / 3, "FZ": fisher(cc)}, names, n))
    got = read_roi_file(path)
    np.testing.assert_allclose(got.values, cc, atol=2e-4)
    assert got.names == names
    np.testing.assert_allclose(
        read_roi_file(path, wanted=Wanted(variable="FZ")).values, fisher(cc), atol=1e-4
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2\n2 1\n", "must begin with the line '# N  # Number of network ROIs'"),
        ("", "must begin with the line"),
        (netcc({"CC": np.eye(R)[:4]}), "the matrix CC must have 6 rows, got 4"),
        (netcc({"CC": np.eye(R)[:, :5]}), "line 7: expected 6 numbers, got 5"),
        (netcc({"CC": np.eye(R)}, NAMES[:4]), "must name 6 ROIs above the first matrix, got 4 words"),
        (netcc({}), "holds no matrix"),
        (netcc({"PC": np.eye(R), "B": np.eye(R)}), r'several matrices \(PC, B\).*variable="PC" or "B"'),
    ],
)
def test_bad_netcc(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.netcc").write_text(text)
    with pytest.raises(ValueError, match=words) as error:
        read_roi_file(tmp_path / "a.netcc")
    assert "a.netcc" in str(error.value) and "\n" not in str(error.value)


# ------------------------------------------------------------------------------------- nilearn


@pytest.mark.parametrize("ending", ["npy", "csv", "tsv", "txt"])
@pytest.mark.parametrize("kind", ["series", "matrices"])
def test_what_is_saved_after_nilearn(tmp_path: Path, ending: str, kind: str) -> None:
    from nilearn.connectome import ConnectivityMeasure
    from sklearn.covariance import EmpiricalCovariance

    people(tmp_path)
    (tmp_path / kind).mkdir()
    truth = [values(i).astype(float) for i in range(N)]
    if kind == "matrices":
        measure = ConnectivityMeasure(EmpiricalCovariance(), "correlation", standardize="zscore_sample")
        truth = list(measure.fit_transform(truth))
    for i, data in enumerate(truth):
        path = tmp_path / kind / f"sub-{i:02d}_task-rest.{ending}"
        if ending == "npy":
            np.save(path, data)
        elif ending == "txt":
            np.savetxt(path, data, header=" ".join(NAMES))
        else:
            pd.DataFrame(data, columns=NAMES).to_csv(path, sep=",\t"[ending == "tsv"], index=False)
    got = load_cohort(tmp_path)
    for subject, data in zip(got, truth, strict=True):
        np.testing.assert_allclose(subject.series if kind == "series" else subject.matrix, data, atol=1e-5)
    assert got.roi_names == NAMES or ending == "npy"
