"""CIFTI files that nibabel wrote: what is read equals the array, what is not read is named in one line."""

from __future__ import annotations

import random
import traceback
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nibabel.cifti2 import BrainModelAxis, LabelAxis, ParcelsAxis, ScalarAxis, SeriesAxis

from cignn import load_cohort
from cignn.datasets import DataError, cifti_files
from cignn.datasets.cifti_files import read_dlabel
from cignn.datasets.roi_files import Wanted, read_roi_file
from test_cohort_files import NAMES, R, table, values

N_VERTICES = 40
AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])


def brain(left: range, right: range, n_voxels: int = 4, n_vertices: int = N_VERTICES) -> BrainModelAxis:
    """Some vertices of both hemispheres, and some voxels of one structure below."""
    axis = BrainModelAxis.from_surface(list(left), n_vertices, "CortexLeft")
    if right:
        axis += BrainModelAxis.from_surface(list(right), n_vertices, "CortexRight")
    if n_voxels:
        mask = np.zeros((3, 3, 3), bool)
        mask.ravel()[:n_voxels] = True
        axis += BrainModelAxis.from_mask(mask, "thalamus_left", AFFINE)
    return axis


SCAN = brain(range(36), range(4, 40))  # without the medial wall: four vertices of each side


def parcels(names: list[str]) -> ParcelsAxis:
    models = [(name, brain(range(i, i + 1), range(0), 0)) for i, name in enumerate(names)]
    return ParcelsAxis.from_brain_models(models)


def write(path: Path, data: np.ndarray, *axes: object) -> Path:
    nib.save(nib.Cifti2Image(data.astype(np.float32), axes), path)
    return path


def write_series(path: Path, data: np.ndarray, names: list[str] = NAMES) -> Path:
    return write(path, data, SeriesAxis(0, 0.72, len(data)), parcels(names))


def write_dense(path: Path, data: np.ndarray, axis: BrainModelAxis = SCAN) -> Path:
    return write(path, data, SeriesAxis(0, 0.72, len(data)), axis)


def write_labels(
    path: Path, keys: np.ndarray, names: dict[int, str], axis: BrainModelAxis = SCAN, maps: int = 1
) -> Path:
    table = {key: (name, (1.0, 0.0, 0.0, 1.0)) for key, name in names.items()}
    labels = LabelAxis([f"map {i}" for i in range(maps)], [table] * maps)
    return write(path, np.stack([np.roll(keys, i) for i in range(maps)]), labels, axis)


def lines(folder: Path, n: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    table(n).to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


# ------------------------------------------------------------------------------- of parcels


def test_series_and_names_of_parcels(tmp_path: Path) -> None:
    study = lines(tmp_path, 4)
    (study / "series").mkdir()
    for i in range(4):
        write_series(study / "series" / f"sub-00{i}.ptseries.nii", values(i))
    got = load_cohort(study)
    assert got.roi_names == NAMES and got.subjects.tolist() == [f"sub-00{i}" for i in range(4)]
    for i, subject in enumerate(got):
        np.testing.assert_array_equal(subject.series, values(i))
        assert subject.series.dtype == np.float32


def test_matrices_of_parcels(tmp_path: Path) -> None:
    study = lines(tmp_path, 4)
    (study / "matrices").mkdir()
    truth = [np.corrcoef(values(i), rowvar=False).astype(np.float32) for i in range(4)]
    for i, matrix in enumerate(truth):
        write(study / "matrices" / f"sub-00{i}.pconn.nii", matrix, parcels(NAMES), parcels(NAMES))
    got = load_cohort(study)
    assert got.roi_names == NAMES
    np.testing.assert_array_equal(got.matrices, np.stack(truth))


def test_parcels_in_another_order_are_brought_into_one(tmp_path: Path) -> None:
    study = lines(tmp_path, 4)
    (study / "series").mkdir()
    order = [3, 1, 0, 2, 5, 4]
    for i in range(4):
        turn = order if i == 2 else list(range(R))
        names = [NAMES[k] for k in turn]
        write_series(study / "series" / f"{i:03d}_task-rest.ptseries.nii", values(i)[:, turn], names)
    got = load_cohort(study)
    assert got.roi_names == NAMES
    np.testing.assert_array_equal(got[2].series, values(2))


# --------------------------------------------------------------------------- of grayordinates


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), n=st.integers(2, 7), blocks=st.sampled_from([1, 30, 4096]))
def test_the_mean_over_the_grayordinates_of_each_label(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, blocks: int
) -> None:
    folder = tmp_path_factory.mktemp("dense")
    rng = np.random.default_rng(seed)
    keys = rng.permuted(np.r_[np.arange(1, n + 1), rng.integers(0, n + 1, len(SCAN) - n)]) * 3
    data = rng.normal(100, 5, size=(11, len(SCAN))).astype(np.float32)
    names = {0: "???"} | {3 * k: f"region {k}" for k in range(1, n + 3)}  # two that no grayordinate has
    labels = read_dlabel(write_labels(folder / "a.dlabel.nii", keys, names))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cifti_files, "BLOCK", blocks)
        got = read_roi_file(write_dense(folder / "a.dtseries.nii", data), wanted=Wanted(labels=labels))
    truth = np.stack([data[:, keys == 3 * k].mean(1, dtype=float) for k in range(1, n + 1)], 1)
    np.testing.assert_allclose(got.values, truth, rtol=1e-6)
    assert got.names == [f"region {k}" for k in range(1, n + 1)]


def test_dense_series_become_a_cohort(tmp_path: Path) -> None:
    study = lines(tmp_path, 4)
    (study / "series").mkdir()
    keys = np.arange(len(SCAN)) % 4
    data = [np.random.default_rng(i).normal(size=(40, len(SCAN))).astype(np.float32) for i in range(4)]
    for i in range(4):
        write_dense(study / "series" / f"sub-00{i}_bold.dtseries.nii", data[i])
    dlabel = write_labels(tmp_path / "atlas.dlabel.nii", keys, {0: "???", 1: "a", 2: "b", 3: "c"})
    got = load_cohort(study, dlabel=dlabel)
    assert got.roi_names == ["a", "b", "c"]
    for i, subject in enumerate(got):
        truth = np.stack([data[i][:, keys == k].mean(1) for k in (1, 2, 3)], 1)
        np.testing.assert_allclose(subject.series, truth, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["Medial wall", "L_Medial_Wall", "unknown", "???", "Background+FreeSurfer"])
def test_the_medial_wall_is_no_region(tmp_path: Path, name: str) -> None:
    keys = np.arange(len(SCAN)) % 3 + 1
    path = write_labels(tmp_path / "a.dlabel.nii", keys, {0: "x", 1: "one", 2: name, 3: "three"})
    assert read_dlabel(path).names == ["one", "three"]


def test_the_key_0_is_no_region_whatever_its_name(tmp_path: Path) -> None:
    keys = np.arange(len(SCAN)) % 3
    labels = read_dlabel(write_labels(tmp_path / "a.dlabel.nii", keys, {0: "V1", 1: "V2", 2: "V3"}))
    assert labels.names == ["V2", "V3"] and (labels.regions == keys - 1).all()


def test_labels_of_all_vertices_fit_a_scan_without_the_medial_wall(tmp_path: Path) -> None:
    whole = brain(range(N_VERTICES), range(N_VERTICES), 0)
    keys = np.where(np.arange(N_VERTICES) < 20, 1, 2)
    labels = read_dlabel(
        write_labels(tmp_path / "a.dlabel.nii", np.r_[keys, keys + 2], dict(enumerate("xabcd")), whole)
    )
    data = np.random.default_rng(0).normal(size=(9, len(SCAN)))
    path = write_dense(tmp_path / "a.dtseries.nii", data)
    got = read_roi_file(path, wanted=Wanted(labels=labels)).values
    left, right = data[:, :36], data[:, 36:72]
    parts = [left[:, :20], left[:, 20:], right[:, :16], right[:, 16:]]
    np.testing.assert_allclose(got, np.stack([part.mean(1) for part in parts], 1), rtol=1e-5, atol=1e-6)


def test_one_map_of_several(tmp_path: Path) -> None:
    keys = np.arange(len(SCAN)) % 3 + 1
    path = write_labels(tmp_path / "a.dlabel.nii", keys, dict(enumerate("xabc")), maps=2)
    with pytest.raises(DataError, match=r'holds 2 maps of labels \(map 0, map 1\); pass variable="map 0"'):
        read_dlabel(path)
    np.testing.assert_array_equal(read_dlabel(path, "map 1").regions, np.roll(keys, 1) - 1)


# ----------------------------------------------------------------------------------- refused


def test_grayordinates_without_labels_are_refused(tmp_path: Path) -> None:
    path = write_dense(tmp_path / "a.dtseries.nii", np.ones((5, len(SCAN))))
    words = (
        r"a.dtseries.nii: has series of grayordinates, not of regions; name the .dlabel.nii .* with dlabel"
    )
    with pytest.raises(DataError, match=words) as error:
        read_roi_file(path)
    assert error.value.options[0].name == "dlabel" and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        (brain(range(36), range(36), n_vertices=50), "40 and 50 vertices in CIFTI_STRUCTURE_CORTEX_LEFT"),
        (brain(range(36, 40), range(4, 40)), "no grayordinate of region 0, region 1, region 2, region 3"),
        (brain(range(4), range(0), 0), None),
    ],
)
def test_labels_of_other_grayordinates_are_refused(
    tmp_path: Path, axis: BrainModelAxis, words: str | None
) -> None:
    names = {i + 1: f"region {i}" for i in range(len(axis))}
    labels = read_dlabel(write_labels(tmp_path / "b.dlabel.nii", np.arange(len(axis)) + 1, names, axis))
    path = write_dense(tmp_path / "a.dtseries.nii", np.ones((5, len(SCAN))))
    if words is None:  # a few vertices that the scan has
        assert read_roi_file(path, wanted=Wanted(labels=labels)).values.shape == (5, 4)
        return
    match = rf"a.dtseries.nii: its grayordinates do not match those of b.dlabel.nii \({words}.*give a dlabel"
    with pytest.raises(DataError, match=match) as error:
        read_roi_file(path, wanted=Wanted(labels=labels))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("side", "affine"), [(2, AFFINE), (3, 2 * AFFINE)])
def test_labels_of_another_grid_of_voxels_are_refused(tmp_path: Path, side: int, affine: np.ndarray) -> None:
    axis = BrainModelAxis.from_mask(np.ones((side, side, side), bool), "thalamus_left", affine)
    labels = read_dlabel(write_labels(tmp_path / "b.dlabel.nii", np.ones(side**3), {1: "thalamus"}, axis))
    path = write_dense(tmp_path / "a.dtseries.nii", np.ones((5, len(SCAN))))
    with pytest.raises(DataError, match="another grid of voxels"):
        read_roi_file(path, wanted=Wanted(labels=labels))


@pytest.mark.parametrize("kind", ["dscalar", "dconn", "pscalar", "dlabel", "plabel", "dpconn", "pdconn"])
def test_other_kinds_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"sub-000.{kind}.nii", np.ones((1, R)), ScalarAxis(["a"]), parcels(NAMES))
    with pytest.raises(ValueError, match=rf"is CIFTI of a kind that is not read \(.{kind}.nii\), expected"):
        read_roi_file(path)
    study = lines(tmp_path / "study", 4)
    (study / "series").mkdir()
    path.rename(study / "series" / path.name)
    with pytest.raises(DataError, match=rf"CIFTI of kinds that are not read \(.{kind}.nii\); give .ptseries"):
        load_cohort(study)


def test_a_kind_that_the_ending_does_not_say(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ptseries.nii", np.ones((1, R)), ScalarAxis(["a"]), parcels(NAMES))
    with pytest.raises(ValueError, match=r"must have the axes Series and Parcels.*got Scalar and Parcels"):
        read_roi_file(path)
    rows, columns = parcels(NAMES), parcels(NAMES[::-1])
    path = write(tmp_path / "a.pconn.nii", np.eye(R), rows, columns)
    with pytest.raises(ValueError, match="other regions in its rows than in its columns"):
        read_roi_file(path)
    nib.save(nib.Nifti2Image(np.ones((2, 2, 2)), np.eye(4)), tmp_path / "b.ptseries.nii")
    with pytest.raises(ValueError, match="an image but no CIFTI file"):
        read_roi_file(tmp_path / "b.ptseries.nii")


def test_what_is_no_dlabel(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dlabel must be a .dlabel.nii file, got .*a.ptseries.nii"):
        read_dlabel(write_series(tmp_path / "a.ptseries.nii", values()))
    with pytest.raises(FileNotFoundError, match=r"does not exist; give a .dlabel.nii file"):
        read_dlabel(tmp_path / "nowhere.dlabel.nii")
    path = write(tmp_path / "a.dlabel.nii", np.ones((1, R)), ScalarAxis(["a"]), parcels(NAMES))
    with pytest.raises(ValueError, match="must have the axes Label and BrainModel, got Scalar and Parcels"):
        read_dlabel(path)
    path = write_labels(tmp_path / "c.dlabel.nii", np.zeros(len(SCAN)), {0: "???"})
    with pytest.raises(ValueError, match="no label but the one of no region"):
        read_dlabel(path)


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_end_in_errors_of_our_own(tmp_path: Path) -> None:
    content = write_series(tmp_path / "good.ptseries.nii", values()).read_bytes()
    rng = random.Random(0)
    path = tmp_path / "bad.ptseries.nii"
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 3, 8])):
            damaged[rng.randrange(rng.choice([560, len(damaged)]))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])])
        try:
            read_roi_file(path)
        except (ValueError, OSError) as error:
            refused += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            assert "cignn" in frame.filename and "raise" in (frame.line or ""), frame
            assert str(path) in str(error) and "\n" not in str(error)
    assert refused > 10


# --------------------------------------------------------------------------------- HCP folders


def write_hcp(folder: Path, n: int = 4, runs: tuple[str, ...] = ("rfMRI_REST1_LR",), tail: str = "") -> Path:
    """Lay out files as the pipelines of the HCP do."""
    for i in range(n):
        for k, run in enumerate(runs):
            place = folder / f"10030{i}" / "MNINonLinear" / "Results" / run
            place.mkdir(parents=True, exist_ok=True)
            write_series(place / f"{run}_Atlas{tail}.ptseries.nii", values(10 * k + i) * (k + 1) + 7 * k)
    frame = pd.DataFrame({"Subject": [100300 + i for i in range(n)], "label": ["a", "b"] * (n // 2)})
    frame.to_csv(folder / "participants.csv", index=False)
    return folder


def test_hcp_folders(tmp_path: Path) -> None:
    got = load_cohort(write_hcp(tmp_path))
    assert got.subjects.tolist() == [f"10030{i}" for i in range(4)] and got.roi_names == NAMES
    np.testing.assert_array_equal(got[3].series, values(3))


def test_runs_are_standardised_and_concatenated(tmp_path: Path) -> None:
    write_hcp(tmp_path, runs=("rfMRI_REST1_LR", "rfMRI_REST2_RL"))
    with pytest.raises(DataError, match=r'more than one file for 100300 .*runs="concatenate".*with files'):
        load_cohort(tmp_path)
    got = load_cohort(tmp_path, runs="concatenate")
    assert len(got) == 4
    for i, subject in enumerate(got):
        parts = [values(i), values(10 + i)]
        truth = np.concatenate([(part - part.mean(0)) / part.std(0) for part in parts])
        np.testing.assert_allclose(subject.series, truth, atol=1e-5)
    scans = load_cohort(tmp_path, duplicates="keep")
    assert len(scans) == 8 and len(set(scans.subjects)) == 4
    one = load_cohort(tmp_path, files="*REST2*")
    np.testing.assert_array_equal(one[0].series, values(10) * 2 + 7)
    same = load_cohort(tmp_path, entities={"run": "2"})
    np.testing.assert_array_equal(same[0].series, one[0].series)


def test_what_is_no_further_run_is_not_concatenated(tmp_path: Path) -> None:
    write_hcp(tmp_path, runs=("rfMRI_REST1_LR", "tfMRI_WM_LR"))
    with pytest.raises(DataError, match=r"files of 100300 are not runs of one kind: .* differ in task"):
        load_cohort(tmp_path, runs="concatenate")
    assert len(load_cohort(tmp_path, runs="concatenate", files="rfMRI*")) == 4
    write_hcp(tmp_path, tail="_MSMAll_hp2000_clean")
    with pytest.raises(
        DataError, match=r"files of 2 kinds \(MSMAll_hp2000_clean, none\); pass files="
    ) as error:
        load_cohort(tmp_path, runs="concatenate")
    assert len(load_cohort(tmp_path, files=error.value.options[0].values[0])) == 4


def test_folders_of_dense_series_ask_for_labels(tmp_path: Path) -> None:
    place = tmp_path / "100300" / "MNINonLinear" / "Results" / "rfMRI_REST1_LR"
    place.mkdir(parents=True)
    write_dense(place / "rfMRI_REST1_LR_Atlas.dtseries.nii", np.ones((9, len(SCAN))))
    with pytest.raises(DataError, match=r"series of grayordinates, not of regions; name .* with dlabel"):
        load_cohort(tmp_path)


def test_dense_series_beside_scans_of_fmriprep(tmp_path: Path) -> None:
    keys = np.arange(len(SCAN)) % 3
    dlabel = write_labels(tmp_path / "atlas.dlabel.nii", keys, {0: "???", 1: "a", 2: "b"})
    data = np.random.default_rng(0).normal(size=(4, 40, len(SCAN)))
    for i in range(4):
        place = tmp_path / f"sub-00{i}" / "func"
        place.mkdir(parents=True)
        stem = f"sub-00{i}_task-rest_space"
        (place / f"{stem}-MNI152NLin6Asym_desc-preproc_bold.nii.gz").touch()
        (place / f"sub-00{i}_task-rest_desc-confounds_timeseries.tsv").write_text("a\tb\n1\t2\n")
        write_dense(place / f"{stem}-fsLR_den-91k_bold.dtseries.nii", data[i])
    lines(tmp_path, 4)
    got = load_cohort(tmp_path, dlabel=dlabel)
    np.testing.assert_allclose(got[2].series[:, 0], data[2][:, keys == 1].mean(1), atol=1e-5)
    with pytest.raises(DataError, match=r"holds scans, not series; pass extract=RoiSeries"):
        load_cohort(tmp_path)
    with pytest.raises(DataError, match=r"holds scans, rois is for one file per subject; leave rois out"):
        load_cohort(tmp_path, rois="a")


def test_dense_series_of_folders(tmp_path: Path) -> None:
    write_hcp(tmp_path)
    keys = np.arange(len(SCAN)) % 3
    dlabel = write_labels(tmp_path / "atlas.dlabel.nii", keys, {0: "???", 1: "a", 2: "b"})
    data = {}
    for path in sorted(tmp_path.rglob("*.ptseries.nii")):
        data[path] = np.random.default_rng(len(data)).normal(size=(40, len(SCAN)))
        write_dense(path.with_name(path.name.replace("ptseries", "dtseries")), data[path])
    got = load_cohort(tmp_path, dlabel=dlabel)
    assert got.roi_names == ["a", "b"] and len(got) == 4
    for subject, truth in zip(got, data.values(), strict=True):
        np.testing.assert_allclose(subject.series[:, 1], truth[:, keys == 2].mean(1), atol=1e-5)
