""".mat files as DPABI, CONN and MATLAB itself write them: whose they are, and which variable is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from cignn import load_cohort
from cignn.datasets import DataError
from cignn.datasets.mat_worker import table_of
from cignn.datasets.participants import files_of
from cignn.datasets.roi_files import Wanted, read_roi_file
from commands import Result
from test_cohort_files import NAMES, R, table, values

TISSUES = ["Grey Matter", "White Matter", "CSF"]
COVARIATES = ["QC_timeseries", "realignment", "scrubbing", "Effect of rest"]


def study(folder: Path, ids: list[str], kind: str = "series") -> Path:
    (folder / kind).mkdir(parents=True)
    n = len(ids)
    labels = ["patient", "control"] * (n // 2)
    frame = table(n, participant_id=ids, label=labels, site="A", sex="M")
    frame.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


def cells(items: list[Any]) -> np.ndarray:
    """A row of cells, which is what MATLAB makes of {a, b, …}."""
    row = np.empty((1, len(items)), object)
    row[0] = items
    return row


def conn(data: np.ndarray, names: list[str] = NAMES, extra: bool = True) -> dict[str, Any]:
    """The variables of CONN's ROI_Subject001_Condition000.mat: tissues first, covariates last."""
    t = len(data)
    rng = np.random.default_rng(1)
    regions = [column[:, None] for column in data.T]
    before = [rng.normal(size=(t, 1)) for _ in TISSUES] if extra else []
    after = [rng.normal(size=(t, k)) for k in (2, 6, 3, 1)] if extra else []
    words = [*TISSUES, *names, *COVARIATES] if extra else names
    return {
        "data": cells([*before, *regions, *after]),
        "names": cells(words),
        "xyz": cells([rng.normal(size=(1, 3)) for _ in words]),
        "data_sessions": np.ones((t, 1)),
        "conditionsweights": cells([np.ones((t, 1)), np.ones((t, 1))]),
        "source": "somewhere",
        "fields": {"a": 1},
    }


# ---------------------------------------------------------------------------------- whose file


@pytest.mark.parametrize(
    "name",
    [
        "ROISignals_{i:03d}.mat",
        "ROISignals_sub-{i:03d}.mat",
        "ROICorrelation_FisherZ_sub-{i:03d}.mat",
        "ROI_Subject{i:03d}_Condition000.mat",
        "ROI_Subject{i:03d}_Session001.mat",
        "resultsROI_Subject{i:03d}_Condition001.mat",
        "Subject{i:03d}.mat",
        "rest_sub-{i:03d}_aal.mat",
    ],
)
@pytest.mark.parametrize("id", ["{i}", "{i:03d}", "sub-{i:03d}", "sub-{i}", "Subject{i:03d}", "subject_{i}"])
def test_files_of_programs_find_their_subjects(name: str, id: str) -> None:
    numbers = [1, 2, 10, 11, 21, 100]
    paths = [Path(name.format(i=i)) for i in numbers]
    ids = [id.format(i=i) for i in numbers]
    assert files_of(ids, paths) == {one: [path] for one, path in zip(ids, paths, strict=True)}


def test_ids_of_words_find_files_behind_a_prefix() -> None:
    ids = ["S1-1-0001", "S1-1-0002", "NYU_0050952"]
    paths = [Path(f"ROISignals_{name}.mat") for name in ids]
    assert files_of(ids, paths) == {one: [path] for one, path in zip(ids, paths, strict=True)}


def test_other_words_before_a_number_are_nobodys() -> None:
    files = [Path(name) for name in ("scan_1.mat", "x_12_rest.mat", "ROI_1.mat", "network1_Subject.mat")]
    assert files_of(["1", "12"], files) == {"1": [], "12": []}


def test_a_name_that_begins_with_an_id_stays_with_it() -> None:
    assert files_of(["a", "b"], [Path("a_sub-b.mat")]) == {"a": [Path("a_sub-b.mat")], "b": []}


def test_a_folder_of_dpabi(tmp_path: Path) -> None:
    folder = study(tmp_path, [f"sub-{i:03d}" for i in range(4)])
    for i in range(4):
        savemat(folder / "series" / f"ROISignals_sub-{i:03d}.mat", {"ROISignals": values(i)})
    for i, subject in enumerate(load_cohort(folder)):
        np.testing.assert_array_equal(subject.series, values(i))


# ---------------------------------------------------------------------------------------- CONN


def test_a_folder_of_conn(tmp_path: Path) -> None:
    folder = study(tmp_path, [str(i) for i in range(1, 5)])
    for i in range(1, 5):
        savemat(folder / "series" / f"ROI_Subject{i:03d}_Condition000.mat", conn(values(i)))
    got = load_cohort(folder)
    assert got.roi_names == NAMES
    for i, subject in enumerate(got, 1):
        np.testing.assert_array_equal(subject.series, values(i))


def test_several_conditions_are_chosen_by_name(tmp_path: Path) -> None:
    folder = study(tmp_path, [f"{i:02d}" for i in range(1, 5)])
    for i in range(1, 5):
        for k in (0, 1):
            data = conn(values(i + 10 * k))
            savemat(folder / "series" / f"ROI_Subject{i:03d}_Condition{k:03d}.mat", data)
    with pytest.raises(
        DataError, match=r"more than one file for 01 .*by a pattern of their names with files"
    ):
        load_cohort(folder)
    got = load_cohort(folder, files="*Condition001*")
    np.testing.assert_array_equal(got[0].series, values(11))
    with pytest.raises(DataError, match=r"has no file \*Condition7\*, only ROI_Subject001_Condition000.mat"):
        load_cohort(folder, files="*Condition7*")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**16), n=st.integers(2, 6), tall=st.booleans())
def test_a_cell_of_several_columns_is_their_mean(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, tall: bool
) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(12, rng.integers(1, 4))) for _ in range(n)]
    names = [f"atlas.{i} (l)" for i in range(n)]
    content = {"data": cells(parts), "names": cells(names)}
    if tall:
        content = {name: row.T for name, row in content.items()}
    path = tmp_path_factory.mktemp("conn") / "a.mat"
    savemat(path, content)
    about, content_bytes = table_of(str(path))
    got = np.frombuffer(content_bytes, np.float32).reshape(about["shape"])
    np.testing.assert_allclose(got, np.stack([part.mean(1) for part in parts], 1), rtol=1e-5, atol=1e-6)
    assert about["names"] == names


def test_tissues_and_covariates_are_regions_only_by_name(tmp_path: Path) -> None:
    folder = study(tmp_path, [str(i) for i in range(1, 5)])
    for i in range(1, 5):
        names = [f"atlas.{name}" for name in NAMES[:3]] + [f"networks.{name}" for name in NAMES[3:]]
        savemat(folder / "series" / f"ROI_Subject{i:03d}_Session001.mat", conn(values(i), names))
    got = load_cohort(folder, rois=["atlas.*", "CSF"])
    assert got.roi_names == ["CSF", "atlas.roi0", "atlas.roi1", "atlas.roi2"]
    np.testing.assert_array_equal(got[0].series[:, 1:], values(1)[:, :3])
    assert load_cohort(folder, rois="networks.*").roi_names == [f"networks.{name}" for name in NAMES[3:]]
    with pytest.raises(DataError, match=r"has no region cerebellum\*, only .*; change rois"):
        load_cohort(folder, rois="cerebellum*")


def test_a_cell_without_values_is_a_missing_region(tmp_path: Path) -> None:
    content = conn(values(), extra=False)
    content["data"][0, 2] = np.empty((0, 0))
    savemat(tmp_path / "a.mat", content)
    got = read_roi_file(tmp_path / "a.mat").values
    assert np.isnan(got[:, 2]).all() and np.isfinite(np.delete(got, 2, 1)).all()


def test_names_of_the_columns_of_a_table(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"ROISignals": values(), "names": cells(NAMES)})
    assert read_roi_file(tmp_path / "a.mat").names == NAMES
    savemat(tmp_path / "b.mat", {"ROISignals": values(), "names": cells(NAMES[1:])})
    assert read_roi_file(tmp_path / "b.mat").names is None
    savemat(
        tmp_path / "c.mat", {"ROISignals": values(), "names": np.array(["L1", "L2", "R1", "R2", "a", "b"])}
    )
    assert read_roi_file(tmp_path / "c.mat").names == ["L1", "L2", "R1", "R2", "a", "b"]


# -------------------------------------------------------------------------------- which variable


@pytest.mark.parametrize("name", ["xyz", "XYZ", "coords"])
@pytest.mark.parametrize("turned", [False, True])
def test_coordinates_are_no_series(tmp_path: Path, name: str, turned: bool) -> None:
    xyz = np.random.default_rng(0).normal(size=(R, 3))
    xyz = xyz.T if turned else xyz
    savemat(tmp_path / "a.mat", {name: xyz, "ts": values()})
    np.testing.assert_array_equal(read_roi_file(tmp_path / "a.mat").values, values())
    savemat(tmp_path / "b.mat", {name: xyz})
    with pytest.raises(
        ValueError, match=rf"one two-dimensional array of numbers.*got coordinates \({name}\)"
    ):
        read_roi_file(tmp_path / "b.mat")


def test_the_variable_can_be_named(tmp_path: Path) -> None:
    content = {"raw": values(1), "clean": values(2), "t": 2.0, "ROISignals": values(3)}
    savemat(tmp_path / "a.mat", content | {"cells": conn(values(4), extra=False)["data"]})
    for name, i in (("raw", 1), ("clean", 2), ("ROISignals", 3), ("cells", 4)):
        got = read_roi_file(tmp_path / "a.mat", wanted=Wanted(variable=name))
        np.testing.assert_array_equal(got.values, values(i))
    np.testing.assert_array_equal(read_roi_file(tmp_path / "a.mat").values, values(3))
    for name in ("t", "nothing"):
        words = (
            rf"a.mat: has no table of numbers called {name}, only raw, clean, ROISignals, cells; change var"
        )
        with pytest.raises(DataError, match=words):
            read_roi_file(tmp_path / "a.mat", wanted=Wanted(variable=name))


def test_several_candidates_are_listed_with_the_option(tmp_path: Path, call: Callable[..., Result]) -> None:
    folder = study(tmp_path, [f"sub-{i}" for i in range(8)])
    for i in range(8):
        content = {"raw": values(i), "clean": 2 * values(i), "xyz": np.ones((R, 3))}
        savemat(folder / "series" / f"sub-{i}.mat", content)
    with pytest.raises(
        DataError, match=r'holds several arrays \(raw, clean\); pass variable="raw" or "clean"'
    ):
        load_cohort(folder)
    got = load_cohort(folder, variable="clean")
    np.testing.assert_array_equal(got[1].series, 2 * values(1))
    refused = call("audit", str(folder))
    assert refused.code == 2 and "(raw, clean); pass --variable raw or clean." in refused.words
    assert call("audit", str(folder), "--variable", "clean", "--load", "n_rois=6").code == 0
    wrong = call("audit", str(folder), "--variable", "nothing")
    assert wrong.code == 2 and "called nothing, only raw, clean, xyz; change --variable" in wrong.words


def test_the_variable_goes_with_the_model(tmp_path: Path, call: Callable[..., Result]) -> None:
    folder = study(tmp_path / "study", [f"sub-{i}" for i in range(8)])
    for i in range(8):
        savemat(folder / "series" / f"sub-{i}.mat", {"raw": values(i), "clean": values(i + 9)})
    config = tmp_path / "run.toml"
    config.write_text('variable = "raw"\n[load]\nn_rois = 6\n')
    model = str(tmp_path / "model")
    for line in (["--config", str(config)], ["--variable", "clean", "--config", str(config)]):
        done = call("fit", str(folder), "--method", "linear-svm", "--out", model, *line)
        assert done.code == 0, done.err
    kept = Path(model, "settings.toml").read_text()
    assert '[load]\nn_rois = 6\nvariable = "clean"' in kept
    assert call("predict", model, str(folder), "--json").code == 0


def test_a_variable_is_for_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", series=np.stack([values(0, 40)] * 2), label=[0, 1])
    for option in ({"variable": "x"}, {"files": "*"}, {"rois": "a*"}, {"runs": "concatenate"}):
        (name,) = option
        with pytest.raises(DataError, match=rf"is read as arrays, {name} is for one file per subject; leave"):
            load_cohort(tmp_path / "a.npz", **option)
    with pytest.raises(ValueError, match=r"runs must be one of None, 'concatenate', got 'all'"):
        load_cohort(tmp_path / "a.npz", runs="all")


# ---------------------------------------------------------------------------------- version 7.3


HEADER = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."


def write_hdf5(path: Path, content: dict[str, Any]) -> None:
    """Write a file as MATLAB's save(…, '-v7.3') does: HDF5 behind a block of 512 bytes."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        store = file.create_group("#refs#")

        def put(group: Any, name: str, value: Any) -> Any:
            if isinstance(value, str):
                codes = np.array([[ord(letter)] for letter in value], np.uint16)
                item = group.create_dataset(name, data=codes)
                item.attrs["MATLAB_class"] = np.bytes_("char")
                return item
            if value.dtype == object:
                refs = np.empty(value.T.shape, object)
                for place, one in np.ndenumerate(value.T):
                    refs[place] = put(store, f"{name}{len(store)}", one).ref
                item = group.create_dataset(name, data=refs, dtype=h5py.ref_dtype)
                item.attrs["MATLAB_class"] = np.bytes_("cell")
                return item
            empty = not value.size
            item = group.create_dataset(name, data=np.array([0, 0], np.uint64) if empty else value.T)
            item.attrs["MATLAB_class"] = np.bytes_("double")
            if empty:
                item.attrs["MATLAB_empty"] = 1
            return item

        for name, value in content.items():
            put(file, name, value)
        file.create_group("structure").attrs["MATLAB_class"] = np.bytes_("struct")
    with path.open("r+b") as stream:
        stream.write(HEADER.ljust(116) + bytes(8) + b"\x00\x02IM")


def test_tables_of_version_73(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "a.mat", {"ROISignals": values().astype(float), "TR": np.ones((1, 1)), "who": "me"})
    np.testing.assert_array_equal(read_roi_file(tmp_path / "a.mat").values, values())
    write_hdf5(tmp_path / "b.mat", {"one": values(1), "two": values(2), "xyz": np.ones((R, 3))})
    with pytest.raises(DataError, match=r'several arrays \(one, two\); pass variable="one" or "two"'):
        read_roi_file(tmp_path / "b.mat")
    got = read_roi_file(tmp_path / "b.mat", wanted=Wanted(variable="two"))
    np.testing.assert_array_equal(got.values, values(2))


def test_cells_of_version_73(tmp_path: Path) -> None:
    content = {name: value for name, value in conn(values()).items() if isinstance(value, np.ndarray)}
    content["data"][0, 3] = np.empty((0, 0))  # of the first region
    write_hdf5(tmp_path / "ROI_Subject001_Condition000.mat", content)
    got = read_roi_file(tmp_path / "ROI_Subject001_Condition000.mat")
    assert got.names == NAMES and np.isnan(got.values[:, 0]).all()
    np.testing.assert_array_equal(got.values[:, 1:], values()[:, 1:])


def test_a_damaged_file_of_version_73(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "a.mat", {"a": values()})
    content = (tmp_path / "a.mat").read_bytes()
    (tmp_path / "a.mat").write_bytes(content[: len(content) // 3])
    with pytest.raises(ValueError, match=r"a.mat is not a readable MATLAB 7.3 file; save it again"):
        read_roi_file(tmp_path / "a.mat")


def test_version_73_without_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "h5py.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "a.mat"
    path.write_bytes(HEADER.ljust(116) + bytes(8) + b"\x00\x02IM" + bytes(400))
    words = r"a.mat is a MATLAB 7.3 file, which needs h5py: pip install 'cignn\[matlab\]', or save .* '-v7'"
    with pytest.raises(ValueError, match=words) as error:
        read_roi_file(path)
    assert "\n" not in str(error.value)
