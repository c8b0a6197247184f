"""What must hold for commands on the output of fMRIPrep: series, names and motion on the way to a result."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import nilearn_folders as folders
from cignn import load_cohort, load_model
from cignn.cli.scans import SCAN_OPTIONS
from cignn.connectome import RoiSeries
from cignn.datasets import Atlas
from cignn.evaluation import audit
from commands import Result
from made_up import N_VOLUMES, write_confounds

pytestmark = pytest.mark.medium
Call = Callable[..., Result]
N = 24
NAMES = ["Frontal Pole", "Insula", "Cuneus", "Thalamus"]


@pytest.fixture(scope="module")
def derivatives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two dozen small scans, the patients with more motion, and an atlas with a table of names beside it."""
    place = tmp_path_factory.mktemp("bids") / "derivatives" / "fmriprep"
    rng = np.random.default_rng(0)
    place.mkdir(parents=True)
    root = place.parents[1]
    folders.save(folders.volume([1, 2, 3, 4]), root / "own.nii.gz")
    regions = pd.DataFrame({"index": [1, 2, 3, 4], "name": NAMES})
    regions.to_csv(root / "own.tsv", sep="\t", index=False)
    people = [f"sub-{i:02d}" for i in range(1, N + 1)]
    for i, name in enumerate(people):
        func = place / name / "func"
        func.mkdir(parents=True)
        for task in ("rest", "faces")[: 2 if i == 0 else 1]:
            voxels = rng.normal(1000, 10, (10, 5, 4, N_VOLUMES)).astype(np.float32)
            scan = nib.Nifti1Image(voxels, folders.AFFINE)
            scan.header.set_xyzt_units("mm", "sec")
            scan.header.set_zooms((4.0, 4.0, 4.0, 2.0))
            nib.save(scan, func / f"{name}_task-{task}_space-MNI152NLin6Asym_desc-preproc_bold.nii.gz")
            table = func / f"{name}_task-{task}_desc-confounds_timeseries.tsv"
            write_confounds(table, rng)
            if i % 2:
                frame = pd.read_csv(table, sep="\t")
                frame["framewise_displacement"] += 0.5
                frame.to_csv(table, sep="\t", na_rep="n/a", index=False)
    table = pd.DataFrame({"participant_id": people, "label": ["control", "patient"] * (N // 2)})
    table.to_csv(root / "participants.tsv", sep="\t", index=False)  # where BIDS has it
    return place


@pytest.fixture
def here(derivatives: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(derivatives.parents[1])
    return derivatives.parents[1]


REST = ("--load", "task=rest", "--load", "n_jobs=1")
TREE = "derivatives/fmriprep"


def test_a_tree_is_fitted_predicted_and_explained_with_names(call: Call, here: Path) -> None:
    words = ("fit", TREE, "--atlas", "own.nii.gz", *REST, "--load", "cache=cache", "--method", "lasso")
    result = call(*words, "--out", "model", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["trained_on"] == N and len(list(Path("cache").glob("*.npz"))) == N
    assert load_model("model").roi_names_ == NAMES
    told = json.loads(call("predict", "model", TREE, "--json").out)  # the model's atlas and options hold
    assert len(told["predictions"]) == N and all(row["trained_on"] for row in told["predictions"])
    assert call("explain", "model", TREE, "--out", "explained", "--no-figures", "--json").code == 0
    assert set(pd.read_csv("explained/group_edges.csv")["source"]) <= set(NAMES)
    assert call("report", "model", "--no-audit", "--out", "tree.html", "--json").code == 0
    assert "Insula" in Path("tree.html").read_text()


def test_motion_of_the_confounds_reaches_the_audit(call: Call, here: Path) -> None:
    result = call("audit", TREE, "--atlas", "own.nii.gz", *REST, "--json")
    assert result.code == 0, result.err
    findings = {row["finding"]: row for row in json.loads(result.out)["findings"]}
    assert findings["motion → label"]["severity"] == "serious" and findings["motion → label"]["size"] > 0.9
    cohort = load_cohort(TREE, extract=RoiSeries("own.nii.gz"), entities={"task": "rest"})
    assert audit(cohort)["motion → label"].size == pytest.approx(findings["motion → label"]["size"])


def test_an_atlas_given_to_the_loader_names_the_regions_of_scans(here: Path) -> None:
    atlas = Atlas(["A", "B", "C", "D"], systems=["x", "x", "y", "y"])
    cohort = load_cohort(TREE, extract=RoiSeries("own.nii.gz"), entities={"task": "rest"}, atlas=atlas)
    assert cohort.roi_names == list("ABCD") and cohort.atlas.systems.tolist() == ["x", "x", "y", "y"]


def test_scans_take_an_atlas_by_name(call: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NILEARN_DATA", str(here / "nilearn"))
    names = folders.write_harvard_oxford(here / "nilearn")
    words = ("fit", TREE, "--atlas", "harvard-oxford", *REST, "--method", "lasso", "--out", "by_name")
    result = call(*words, "--json")
    assert result.code == 0, result.err
    assert load_model("by_name").roi_names_ == names


def test_the_same_name_names_the_columns_of_series(
    call: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NILEARN_DATA", str(here / "nilearn"))
    names = folders.write_harvard_oxford(here / "nilearn")
    cohort = load_cohort(TREE, extract=RoiSeries("own.nii.gz"), entities={"task": "rest"})
    cohort._with(atlas=None, roi_names=None).save("four.npz")
    for given, expected in (("harvard-oxford", names), ("own.nii.gz", NAMES)):
        words = ("fit", "four.npz", "--atlas", given, "--method", "lasso", "--out", "four", "--json")
        assert call(*words).code == 0
        assert load_model("four").roi_names_ == expected and load_model("four").atlas_.coordinates is not None


WRONG = {
    "no atlas": (TREE, "holds scans; name the atlas whose regions to extract, such as schaefer200"),
    "a table": (
        f"{TREE} --atlas own.tsv",
        "the name of an atlas or a .nii.gz volume, got 'own.tsv'",
    ),
    "no such volume": (f"{TREE} --atlas nowhere.nii.gz", "atlas nowhere.nii.gz does not exist"),
    "several tasks": (f"{TREE} --atlas own.nii.gz", "--load task=… or --load ses=… or --load run=…"),
    "a task nobody did": (f"{TREE} --atlas own.nii.gz --load task=rst", "has no scan with task-rst, only"),
    "a wrong option": (f"{TREE} --atlas own.nii.gz --load smothing=6", "did you mean smoothing?"),
    "a wrong value": (f"{TREE} --atlas own.nii.gz --load band=0.1", "band must be a list or none, got 0.1"),
    "no such label": (f"{TREE} --atlas own.nii.gz --label group", "has no column 'group'"),
    "other data": ("four.npz --load task=rest", "cohort data have no option 'task'"),
    "an unknown atlas": ("four.npz --atlas nobody", "the name of an atlas, such as aal116 or schaefer200"),
}


@pytest.mark.parametrize(("line", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_with_scans_is_told_in_one_line(call: Call, here: Path, line: str, words: str) -> None:
    if not Path("four.npz").exists():
        np.savez("four.npz", matrices=np.tile(np.eye(4), (6, 1, 1)), label=np.arange(6) % 2)
    result = call("fit", *line.split())
    assert result.code == 2 and words in result.words, result.words
    assert result.err.count("\n") == 1


def test_without_a_network_the_command_says_what_to_download(
    call: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr("requests.Session.send", refuse)
    monkeypatch.setenv("NILEARN_DATA", str(here / "empty"))
    result = call("fit", TREE, "--atlas", "schaefer200")
    assert result.code == 2 and "Schaefer2018_200Parcels_7Networks_order.txt" in result.err
    assert str(here / "empty" / "schaefer_2018") in result.err and result.err.count("\n") == 1


def test_every_option_of_the_extraction_can_be_given() -> None:
    parameters = set(inspect.signature(RoiSeries).parameters)
    assert set(SCAN_OPTIONS) == parameters - {"atlas", "verbose"}
