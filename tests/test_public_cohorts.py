"""Public cohorts: layouts, selections and what their files may hide, on files made here and on real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from cignn.datasets import aal116, load_abide, load_rest_meta_mdd, load_srpbs

pytestmark = pytest.mark.medium


def values(seed: int, n: int = 40, width: int = 116) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n + seed, width)).astype(np.float32)


# ------------------------------------------------------------------------------------ ABIDE


def phenotype(n: int = 6, **change: Any) -> pd.DataFrame:
    columns = {
        "SUB_ID": [50002 + i for i in range(n)],
        "FILE_ID": [f"Pitt_00{50002 + i}" for i in range(n)],
        "SITE_ID": ["PITT", "UM_1", "UM_2"] * (n // 3),
        "DX_GROUP": [1, 2] * (n // 2),
        "SEX": [1, 2, 2, 1, 1, 2][:n],
        "AGE_AT_SCAN": [10.0 + i for i in range(n)],
        "func_mean_fd": [0.1] * n,
        "FIQ": [100, -9999, 90, 80, 70, 60][:n],
        "qc_rater_1": ["OK", "fail", "OK", "maybe", "OK", "OK"][:n],
    }
    columns |= {f"qc_{part}_rater_{i}": ["OK"] * n for part in ("anat", "func") for i in (2, 3)}
    return pd.DataFrame(columns | change)


def write_pcp(root: Path, n: int = 6, atlas: str = "aal") -> Path:
    folder = root / "ABIDE_pcp" / "dparsf" / "filt_global"
    folder.mkdir(parents=True, exist_ok=True)
    phenotype().to_csv(root / "ABIDE_pcp" / "Phenotypic_V1_0b_preprocessed1.csv")
    for i in range(n):
        header = "\t".join(f"#{code}" for code in range(2001, 2117))
        path = folder / f"Pitt_00{50002 + i}_rois_{atlas}.1D"
        np.savetxt(path, values(i), fmt="%.6f", delimiter="\t", header=header, comments="")
    return root


def test_abide_as_the_connectomes_project_lays_it_out(tmp_path: Path) -> None:
    write_pcp(tmp_path)
    for path in (tmp_path, tmp_path / "ABIDE_pcp" / "dparsf" / "filt_global"):
        got = load_abide(path, columns=["FIQ"])
        assert got.subjects.tolist() == [f"Pitt_00{50002 + i}" for i in range(6)]
        assert got.y.tolist() == [1, 0] * 3 and got.sites.tolist() == ["PITT", "UM_1", "UM_2"] * 2
        np.testing.assert_allclose(got[4].series, values(4), atol=1e-5)
        assert got.roi_names == aal116().names
        assert got.covariates["sex"].tolist() == list("MFFMMF")
        assert got.covariates["age"].tolist() == list(range(10, 16))
        assert got.covariates["FIQ"].isna().tolist() == [False, True] + [False] * 4
    assert set(load_abide(tmp_path, merge_sites=True).sites) == {"PITT", "UM"}
    assert load_abide(tmp_path, selection="quality").subjects.tolist() == [
        f"Pitt_00{50002 + i}" for i in (0, 2, 3, 4, 5)
    ]
    with pytest.warns(UserWarning, match="528 patients and 571 controls, these data give 3 and 3"):
        assert len(load_abide(tmp_path, selection="paper")) == 6


def test_abide_download_goes_through_nilearn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nilearn.datasets

    asked: dict[str, Any] = {}

    def fetch(data_dir: Path, **options: Any) -> None:
        asked.update(options)
        write_pcp(Path(data_dir))

    monkeypatch.setattr(nilearn.datasets, "fetch_abide_pcp", fetch)
    with pytest.raises(FileNotFoundError, match="pass download=True"):
        load_abide(tmp_path / "new")
    assert len(load_abide(tmp_path / "new", download=True)) == 6
    assert asked["derivatives"] == ["rois_aal"] and asked["pipeline"] == "dparsf"
    assert asked["band_pass_filtering"] and asked["global_signal_regression"] and not asked["quality_checked"]


def write_stacked(folder: Path, change: dict[str, Any] | None = None) -> Path:
    data = [values(i) for i in range(6)]
    arrays = {
        "data": np.concatenate(data),
        "lengths": [len(one) for one in data],
        "file_id": [f"Pitt_00{50002 + i}" for i in range(6)],
        "label_asd": [1, 0] * 3,
        "site": ["PITT", "UM_1", "UM_2"] * 2,
    } | (change or {})
    np.savez(folder / "ts_aal.npz", **{name: np.asarray(a) for name, a in arrays.items() if a is not None})
    return folder


def test_abide_in_one_file(tmp_path: Path) -> None:
    write_stacked(tmp_path)
    bare = load_abide(tmp_path / "ts_aal.npz")
    assert bare.y.tolist() == [1, 0] * 3 and bare.covariates.empty
    phenotype().to_csv(tmp_path / "phenotypic.csv", index=False)
    full = load_abide(tmp_path)
    assert full.covariates["age"].tolist() == list(range(10, 16))
    assert load_abide(write_pcp(tmp_path / "b")).y.tolist() == full.y.tolist()


def test_abide_keeps_subjects_with_constant_rois_by_default(tmp_path: Path) -> None:
    data = [values(i) for i in range(6)]
    data[2][:, 7] = 3.0
    write_stacked(tmp_path, {"data": np.concatenate(data)})
    got = load_abide(tmp_path)
    assert len(got) == 6 and (got[2].series[:, 7] == 0).all()
    assert len(load_abide(tmp_path, constant_rois="drop_subject")) == 5
    with pytest.raises(ValueError, match=rf"Pitt_0050004 has 1 constant ROI \({aal116().names[7]}\)"):
        load_abide(tmp_path, constant_rois="raise")


def test_abide_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no \*_rois_aal.1D; pass download=True"):
        load_abide(tmp_path)
    write_pcp(tmp_path, atlas="ho")
    with pytest.raises(ValueError, match="only files of the atlases ho; pass atlas="):
        load_abide(tmp_path)
    write_pcp(tmp_path)
    with pytest.raises(ValueError, match="selection must be None, paper"):
        load_abide(tmp_path, selection="all")
    table = tmp_path / "ABIDE_pcp" / "Phenotypic_V1_0b_preprocessed1.csv"
    phenotype()[:3].to_csv(table)
    with pytest.raises(ValueError, match="no line for Pitt_0050005, Pitt_0050006, Pitt_0050007"):
        load_abide(tmp_path)
    for group in (-9999, None, "ASD"):  # none of them is a control
        phenotype(DX_GROUP=[1, group, 2, 1, 2, 1]).to_csv(table)
        with pytest.raises(
            ValueError, match=r"DX_GROUP must be 1 \(ASD\) or 2 \(TD\), got .* for Pitt_0050003"
        ):
            load_abide(tmp_path)
    phenotype(AGE_AT_SCAN=["ten", *range(10, 15)]).to_csv(table)
    with pytest.raises(ValueError, match="AGE_AT_SCAN must be a number, got 'ten' for Pitt_0050002"):
        load_abide(tmp_path)
    table.unlink()
    with pytest.raises(FileNotFoundError, match="no phenotype table"):
        load_abide(tmp_path)
    write_pcp(tmp_path / "more")
    with pytest.raises(ValueError, match=r"Pitt_0050002 lies in .*; give the folder of one pipeline"):
        load_abide(tmp_path)
    write_stacked(tmp_path / "more", {"site": None})
    with pytest.raises(ValueError, match="has no array 'site'"):
        load_abide(tmp_path / "more")


@pytest.mark.parametrize("wrong", [np.nan, 2, 7, -1, 0.5])
def test_abide_labels_that_are_none_are_no_controls(tmp_path: Path, wrong: float) -> None:
    write_stacked(tmp_path, {"label_asd": [1, 0, 1, 0, wrong, 0]})
    with pytest.raises(ValueError, match=r"label_asd must be 1 \(ASD\) or 0 \(TD\), got .* for Pitt_0050006"):
        load_abide(tmp_path)
    phenotype().to_csv(tmp_path / "phenotypic.csv", index=False)
    with pytest.raises(ValueError, match=r"label_asd must be 1 .* for Pitt_0050006"):
        load_abide(tmp_path)


def test_abide_tables_that_contradict(tmp_path: Path) -> None:
    write_stacked(tmp_path)
    phenotype(DX_GROUP=[1, 2, 1, 2, 1, 1]).to_csv(tmp_path / "phenotypic.csv", index=False)
    with pytest.raises(ValueError, match="DX_GROUP is not what label_asd says of Pitt_0050007"):
        load_abide(tmp_path)
    pd.concat([phenotype(), phenotype(DX_GROUP=2)]).to_csv(tmp_path / "phenotypic.csv", index=False)
    with pytest.raises(ValueError, match=r"SUB_ID 50002, .* has two different DX_GROUP"):
        load_abide(tmp_path)
    text = phenotype().to_csv(index=False).replace("SITE_ID,", "", 1)
    (tmp_path / "phenotypic.csv").write_text(text)
    with pytest.raises(ValueError, match=r"phenotypic.csv, line 2: expected \d+ cells"):
        load_abide(tmp_path)


@pytest.mark.data
def test_real_abide_holds_three_scans_under_two_names(
    real_data: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = real_data("abide")
    pairs = {
        ("KKI_0050805", "KKI_0050808"): (1, 0),
        ("UM_1_0050279", "UM_1_0050286"): (1, 1),
        ("Yale_0050578", "Yale_0050602"): (0, 1),
    }
    left = load_abide(folder, near_duplicates="drop_subject")
    assert len(left) == 1102 - 6 and not {one for pair in pairs for one in pair} & set(left.subjects)
    got = load_abide(folder)
    labels = dict(zip(got.subjects, got.y, strict=True))
    for (first, second), y in pairs.items():
        assert f"{first} ≈ {second}" in caplog.text and (labels[first], labels[second]) == y
    assert caplog.text.count("≈") >= 3 and "labels 1 and 0" in caplog.text


@pytest.mark.data
def test_real_abide(real_data: Callable[[str], Path]) -> None:
    folder = real_data("abide")
    got = load_abide(folder)
    assert len(got) == 1102 and np.bincount(got.y).tolist() == [571, 531] and len(set(got.sites)) == 20
    assert got.series.values.shape == (213733, 116), "the data once, nothing copied"
    with np.load(folder / "ts_aal.npz") as file:
        codes = [int(code[1:]) for code in file["columns"]]
    shipped = pd.read_csv(Path(__file__).parents[1] / "src/cignn/datasets/data/aal116.csv")
    assert shipped["aal_code"].tolist() == codes, "the atlas names the columns"
    dead = [(one.series == 0).all(0).any() for one in got]
    assert sum(dead) == 47
    table = got.summary({0: "TD", 1: "ASD"})
    assert table.loc[("all", "TD"), "sex (M/F)"] == "472/99"


@pytest.mark.data
def test_real_abide_selections_are_the_papers(real_data: Callable[[str], Path]) -> None:
    got = load_abide(real_data("abide"), selection="paper-balanced", merge_sites=True)
    table = got.summary({0: "TD", 1: "ASD"})
    assert table.loc[("all", "ASD")][:3].tolist() == [528, "17.0 ± 8.4", "464/64"]  # the paper's table
    assert table.loc[("all", "TD"), "subjects"] == 536
    assert table.loc[("CMU", "ASD"), "subjects"] == 11 and table.loc[("UM", "ASD"), "subjects"] == 68
    assert len(set(got.sites)) == 17
    again = load_abide(real_data("abide"), selection="paper-balanced", random_state=1)
    assert set(again.subjects) != set(got.subjects)


# ---------------------------------------------------------------------------- REST-meta-MDD

IDS = [f"S{site}-{group}-{i:04d}" for site in (1, 2, 10) for group in (1, 2) for i in (1, 2)]


def write_mdd(folder: Path, width: int = 1833) -> Path:
    for i, name in enumerate(IDS):
        place = folder / f"S{name[1]}"
        place.mkdir(parents=True, exist_ok=True)
        savemat(place / f"ROISignals_{name}.mat", {"ROISignals": values(i, width=width).astype(float)})
    return folder


def test_rest_meta_mdd(tmp_path: Path) -> None:
    got = load_rest_meta_mdd(write_mdd(tmp_path))
    assert got.subjects.tolist() == IDS and got.y.tolist() == [1, 1, 0, 0] * 3
    assert got.sites.tolist() == ["S1"] * 4 + ["S2"] * 4 + ["S10"] * 4
    np.testing.assert_array_equal(got[5].series, values(5, width=1833)[:, :116])
    assert got.roi_names == aal116().names and got.series.values.base is None
    other = load_rest_meta_mdd(tmp_path, columns=slice(116, 212))
    assert other.n_rois == 96 and other.atlas is None
    assert load_rest_meta_mdd(tmp_path, exclude=["S2-1-0001"]).subjects.tolist() == [
        i for i in IDS if i != "S2-1-0001"
    ]


def test_rest_meta_mdd_exclusions(tmp_path: Path) -> None:
    write_mdd(tmp_path, 116)
    still = [0.1, 0.3] + [0.15] * 10
    table = pd.DataFrame({"ID": IDS, "Sex": [1, 2] * 6, "Age": [None] + [30] * 11, "mean_fd": still})
    got = load_rest_meta_mdd(tmp_path, participants=table)
    assert got.covariates["sex"].tolist() == list("MF") * 6 and list(got.covariates)[:3] == [
        "age",
        "sex",
        "mean_fd",
    ]
    assert "S1-1-0002" not in load_rest_meta_mdd(tmp_path, participants=table, max_mean_fd=0.2).subjects
    assert "S1-1-0001" not in load_rest_meta_mdd(tmp_path, participants=table, complete=True).subjects
    few = load_rest_meta_mdd(tmp_path, participants=table, complete=True, min_site_size=4)
    assert set(few.sites) == {"S2", "S10"}
    with pytest.raises(ValueError, match="max_mean_fd needs a table"):
        load_rest_meta_mdd(tmp_path, max_mean_fd=0.2)
    with pytest.raises(ValueError, match=r"table of participants has no line for S10-2-0002; pass missing="):
        load_rest_meta_mdd(tmp_path, participants=table[:-1])
    assert len(load_rest_meta_mdd(tmp_path, participants=table[:-1], missing="drop_subject")) == 11
    with pytest.raises(ValueError, match="no subject is left: site with fewer than 10 subjects"):
        load_rest_meta_mdd(tmp_path, participants=table, selection="paper")


def test_rest_meta_mdd_the_papers_selection(tmp_path: Path) -> None:
    for i in range(24):
        site = 1 if i < 14 else 2
        data = values(i).astype(float)
        if i == 3:
            data[:, 5] = 0
        if i == 4:
            data[0, 0] = np.nan
        savemat(tmp_path / f"ROISignals_S{site}-{i % 2 + 1}-{i:04d}.mat", {"ROISignals": data})
    got = load_rest_meta_mdd(tmp_path, selection="paper")
    assert len(got) == 22 and "S1-2-0003" not in got.subjects and "S1-1-0004" not in got.subjects
    assert set(load_rest_meta_mdd(tmp_path, selection="paper", min_site_size=11).sites) == {"S1"}


def test_rest_meta_mdd_finds_subjects_of_two_sites(tmp_path: Path) -> None:
    write_mdd(tmp_path, 116)
    savemat(tmp_path / "ROISignals_S14-1-0007.mat", {"ROISignals": values(1).astype(float)})
    with pytest.raises(ValueError, match="identical data under two ids: S1-1-0002 = S14-1-0007; pass dupl"):
        load_rest_meta_mdd(tmp_path)
    assert load_rest_meta_mdd(tmp_path, duplicates="keep_first").subjects.tolist() == IDS


def test_rest_meta_mdd_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        load_rest_meta_mdd(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no ROISignals_S<site>"):
        load_rest_meta_mdd(tmp_path)
    with pytest.raises(TypeError, match=r"columns must be a slice, .*, got \[0, 5\]"):
        load_rest_meta_mdd(tmp_path, columns=[0, 5])
    write_mdd(tmp_path, 116)
    with pytest.raises(ValueError, match="exclude names S9-9-9, of whom there is no file"):
        load_rest_meta_mdd(tmp_path, exclude=["S9-9-9"])
    savemat(tmp_path / "ROISignals_S20-1-0001.mat", {"ROISignals": values(50, width=90)})
    with pytest.raises(ValueError, match=r"expected 116 ROIs in each file, got fewer in S20-1-0001 \(90\)"):
        load_rest_meta_mdd(tmp_path)
    savemat(tmp_path / "ROISignals_S1-1-0001.mat", {"ROISignals": values(50)})
    with pytest.raises(ValueError, match="more than one file for S1-1-0001; give the folder of one"):
        load_rest_meta_mdd(tmp_path)


@pytest.mark.data
def test_real_rest_meta_mdd_files(real_data: Callable[[str], Path]) -> None:
    got = load_rest_meta_mdd(real_data("rest_meta_mdd"))
    assert got.subjects.tolist() == [f"S1-1-000{i}" for i in range(1, 5)]
    assert got.y.tolist() == [1] * 4 and set(got.sites) == {"S1"} and got.n_rois == 116


# ------------------------------------------------------------------------------------ SRPBS


def write_srpbs(folder: Path, n: int = 20) -> Path:
    (folder / "series").mkdir(parents=True)
    table = pd.DataFrame(
        {
            "participant_id": [f"sub-{i:04d}" for i in range(n)],
            "site": ["KUT", "UTO"] * (n // 2),
            "diag": [4, 4, 4, 2, 99] + [0] * (n - 5),
            "sex": [1, 2] * (n // 2),
            "age": 30,
        }
    )
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    for i in range(n - 1):  # the last one was never scanned
        np.save(folder / "series" / f"sub-{i:04d}.npy", values(i))
    return folder


def test_srpbs(tmp_path: Path) -> None:
    got = load_srpbs(write_srpbs(tmp_path))
    assert got.y.tolist() == [1] * 3 + [0] * 14 and "sub-0003" not in got.subjects
    assert set(got.covariates["sex"]) == {"M", "F"} and got.roi_names == aal116().names
    assert load_srpbs(tmp_path, patients=2).y.tolist() == [1] + [0] * 14
    paper = load_srpbs(tmp_path, selection="paper")
    assert np.bincount(paper.y).tolist() == [3, 3]
    for label in (0, 1):
        assert sorted(paper.sites[paper.y == label]) == ["KUT", "KUT", "UTO"]
    for same in (4, "4"):
        with pytest.raises(ValueError, match="patients and controls must differ, got 4 for both"):
            load_srpbs(tmp_path, patients=4, controls=same)
    with pytest.raises(ValueError, match="nobody has diag 7, only 0, 2, 4, 99; change patients"):
        load_srpbs(tmp_path, patients=7)
    with pytest.raises(ValueError, match="no file in series/ for sub-0019"):
        load_srpbs(tmp_path, missing="raise")


def test_srpbs_of_116_other_regions_are_not_aal(tmp_path: Path) -> None:
    write_srpbs(tmp_path)
    names = [f"Schaefer-{i}" for i in range(100)] + [f"Tian-{i}" for i in range(16)]
    for file in (tmp_path / "series").iterdir():
        pd.DataFrame(np.load(file), columns=names).to_csv(file.with_suffix(".csv"), index=False)
        file.unlink()
    got = load_srpbs(tmp_path)
    assert got.roi_names == names and got.atlas is None
