"""What must hold for atlases by name: nilearn's fetchers on small folders as nilearn keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from nilearn.maskers import NiftiLabelsMasker, NiftiMapsMasker, NiftiSpheresMasker

import nilearn_folders as folders
from cignn.connectome import RoiSeries
from cignn.datasets import Atlas, aal116, load_atlas
from cignn.datasets.named_atlases import FAMILIES, fetch_parcellation, is_atlas_name
from cignn.datasets.parcellation import from_image, label_coordinates, spheres

NOTHING: dict[str, Any] = {"band": None, "detrend": False, "standardise": False, "confounds": None, "drop": 0}


# ----------------------------------------------------------------------- label volumes


@pytest.mark.parametrize("spelling", ["schaefer100", "schaefer-100", "Schaefer_100-7", "schaefer 100-1mm"])
def test_schaefer_brings_names_places_and_yeos_networks(tmp_path: Path, spelling: str) -> None:
    names = folders.write_schaefer(tmp_path)
    atlas = load_atlas(spelling, tmp_path)
    assert atlas.names == names
    assert atlas.systems.tolist()[:7] == ["VN", "SMN", "DAN", "VAN", "LIN", "FPN", "DMN"]
    assert set(atlas.colours) == {"VN", "SMN", "DAN", "VAN", "LIN", "FPN", "DMN"}
    np.testing.assert_allclose(atlas.coordinates, folders.centres(100))


def test_sizes_networks_and_resolutions_are_in_the_name(tmp_path: Path) -> None:
    folders.write_schaefer(tmp_path, 400, 17, 2)
    atlas = load_atlas("schaefer-400-17-2mm", tmp_path)
    assert len(atlas) == 400
    assert atlas.systems.tolist()[:4] == ["VisCent", "SomMotA", "DefaultB", "TempPar"]


def test_aal_is_ours_in_the_order_of_the_volume(tmp_path: Path) -> None:
    names = [name.upper() for name in aal116().names[::-1]]  # nilearn's may be spelt and sorted otherwise
    folders.write_aal(tmp_path, names)
    found = fetch_parcellation("aal", tmp_path)
    assert found.atlas.names == aal116().names[::-1] and set(found.atlas.systems) == set(aal116().systems)
    assert found.labels.tolist()[:2] == [2001, 2061]
    assert load_atlas("AAL-116", tmp_path / "nowhere") == aal116(), "the table is built in"


def test_harvard_oxford_tells_left_from_right(tmp_path: Path) -> None:
    names = folders.write_harvard_oxford(tmp_path)
    atlas = load_atlas("harvard-oxford", tmp_path)
    assert atlas.names == names and atlas.systems is None
    left = [name.startswith("Left") for name in names]
    assert ((atlas.coordinates[:, 0] < 0) == left).all()


def test_only_regions_of_the_volume_are_listed(tmp_path: Path) -> None:
    folders.write_destrieux(tmp_path)
    assert load_atlas("destrieux", tmp_path).names == ["L G_and_S_frontomargin", "R S_temporal"]


def test_a_label_in_both_hemispheres_is_placed_in_one() -> None:
    data = np.zeros((10, 6, 6), np.int16)
    data[1:3, 1:3, 2], data[7:9, 1:3, 2], data[7, 4, 4] = 5, 5, 900
    places = label_coordinates(nib.Nifti1Image(data, folders.AFFINE), np.array([5, 900]))
    np.testing.assert_allclose(places, [[-14, -14, -12], [8, -4, -4]])


@pytest.mark.parametrize("turn", ["flipped", "another order of axes", "oblique"])
def test_places_do_not_depend_on_how_a_volume_is_stored(turn: str) -> None:
    image = folders.volume([3, 5, 8])
    data, affine = np.asarray(image.dataobj), np.array(image.affine)
    if turn == "flipped":
        data, affine = (
            data[::-1],
            affine @ np.array([[-1, 0, 0, len(data) - 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]),
        )
    elif turn == "another order of axes":
        data, affine = data.transpose(1, 2, 0), affine[:, [1, 2, 0, 3]]
    else:
        angle = np.eye(4)
        angle[:2, :2] = [[0.96, -0.28], [0.28, 0.96]]
        affine = angle @ affine
    places = label_coordinates(nib.Nifti1Image(np.ascontiguousarray(data), affine), np.array([3, 5, 8]))
    expected = folders.centres(3)
    if turn == "oblique":
        expected = expected @ angle[:3, :3].T
    np.testing.assert_allclose(places, expected, atol=1e-5)


# ------------------------------------------------------------------------- maps and spheres


def test_difumo_brings_names_that_differ_and_networks(tmp_path: Path) -> None:
    folders.write_difumo(tmp_path)
    found = fetch_parcellation("difumo64", tmp_path)
    assert found.kind == "maps" and found.atlas.names[:3] == [
        "Lingual gyrus",
        "Lingual gyrus 2",
        "Component 3",
    ]
    assert found.atlas.systems.tolist()[:4] == ["VN", "DMN", "none", "FPN"]
    side = np.where(np.arange(64) % 2 == 0, 2, 7) * 4 - 20
    np.testing.assert_allclose(found.atlas.coordinates[:, 0], side, atol=4)


def test_msdl_has_its_own_places_and_networks(tmp_path: Path) -> None:
    folders.write_msdl(tmp_path)
    atlas = load_atlas("msdl", tmp_path)
    np.testing.assert_array_equal(atlas.coordinates, np.arange(5)[:, None] + np.arange(3))
    assert atlas.systems.tolist() == ["DMN"] * 3 + ["Aud"] * 2


SPHERES = {"power264": (264, None), "dosenbach160": (160, 6), "seitzman300": (300, 14)}


@pytest.mark.parametrize(("name", "expected"), SPHERES.items())
def test_coordinates_are_built_in(name: str, expected: tuple[int, int | None]) -> None:
    atlas = load_atlas(name)
    n, n_systems = expected
    assert len(atlas) == n and atlas.coordinates.shape == (n, 3)
    assert (None if atlas.systems is None else len(set(atlas.systems))) == n_systems


def test_dosenbachs_regions_are_in_the_published_order() -> None:
    assert [name.rsplit(" ", 1)[1] for name in load_atlas("dosenbach160").names] == [
        str(n) for n in range(1, 161)
    ]


# ----------------------------------------------------------------------------- extraction


def scan(shape: tuple[int, int, int] = (10, 9, 6), n_volumes: int = 40) -> nib.Nifti1Image:
    data = np.random.default_rng(0).normal(100, 5, (*shape, n_volumes)).astype(np.float32)
    image = nib.Nifti1Image(data, folders.AFFINE)
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_zooms((4.0, 4.0, 4.0, 2.0))
    return image


def brain_mask() -> nib.Nifti1Image:
    inside = np.ones((10, 9, 6), np.uint8)
    inside[:, :, 4:] = 0
    return nib.Nifti1Image(inside, folders.AFFINE)


@pytest.mark.parametrize("mask", [None, brain_mask()], ids=["whole", "masked"])
def test_series_of_maps_are_nilearns(mask: Any) -> None:
    extract = RoiSeries(folders.maps(5), mask=mask, smoothing=6.0, **NOTHING)
    cohort = extract.transform([scan()])
    masker = NiftiMapsMasker(
        folders.maps(5), mask_img=mask, smoothing_fwhm=6.0, resampling_target="data", standardize=None
    )
    np.testing.assert_allclose(cohort.series[0], masker.fit_transform(scan()), rtol=1e-4)
    assert cohort.roi_names == [f"map-{k}" for k in range(1, 6)] and cohort.atlas.coordinates is not None


@pytest.mark.parametrize("mask", [None, brain_mask()], ids=["whole", "masked"])
@pytest.mark.parametrize("radius", [None, 3.0, 9.0])
def test_series_of_spheres_are_nilearns(mask: Any, radius: float | None) -> None:
    atlas = Atlas(["a", "b", "c"], [[-12, -8, -12], [8.0, -4, -8.5], [0, 0, -10]])
    cohort = RoiSeries(atlas, radius=radius, mask=mask, **NOTHING).transform([scan()])
    masker = NiftiSpheresMasker(
        atlas.coordinates, radius=radius or 5.0, mask_img=mask, allow_overlap=True, standardize=None
    )
    np.testing.assert_allclose(cohort.series[0], masker.fit_transform(scan()), rtol=1e-4)
    assert cohort.roi_names == atlas.names and cohort.atlas == atlas


@pytest.mark.parametrize("kind", ["maps", "spheres"])
def test_regions_out_of_view_are_zero_and_named(kind: str) -> None:
    atlas: Any = Atlas(["in", "out"], [[-12, -8, -12], [200, 0, 0]])
    if kind == "maps":
        data = np.zeros((10, 9, 9, 2), np.float32)
        data[2:4, 2:4, 2:4, 0], data[2:4, 2:4, 8, 1] = 1, 1  # the scan has six slices
        atlas = nib.Nifti1Image(data, folders.AFFINE)
    extract = RoiSeries(atlas, names=["in", "out"], **NOTHING)
    with pytest.warns(UserWarning, match="regions without signal"):
        cohort = extract.transform([scan()])
    assert (cohort.series[0][:, 1] == 0).all() and (cohort.series[0][:, 0] != 0).all()
    assert list(extract.missing_.values()) == [["out"]]


def test_series_are_extracted_by_the_name_of_an_atlas(tmp_path: Path) -> None:
    names = folders.write_harvard_oxford(tmp_path)
    cohort = RoiSeries("harvard-oxford", data_dir=tmp_path, **NOTHING).transform([scan()])
    assert cohort.roi_names == names and cohort.atlas == load_atlas("harvard-oxford", tmp_path)
    masker = NiftiLabelsMasker(folders.volume([1, 2, 3, 4]), resampling_target="data", standardize=None)
    np.testing.assert_allclose(cohort.series[0], masker.fit_transform(scan()), rtol=1e-5)
    folders.write_msdl(tmp_path)
    cohort = RoiSeries("msdl", data_dir=tmp_path, **NOTHING).transform([scan()])
    assert cohort.atlas == load_atlas("msdl", tmp_path)
    named = RoiSeries("msdl", names=list("ABCDE"), data_dir=tmp_path, **NOTHING).transform([scan()])
    assert named.roi_names == list("ABCDE")
    np.testing.assert_array_equal(named.series[0], cohort.series[0])
    with pytest.raises(ValueError, match="names must name the 5 regions of the atlas, got 2 names"):
        RoiSeries("msdl", names=["a", "b"], data_dir=tmp_path).fit()


def test_the_cache_tells_spheres_apart(tmp_path: Path) -> None:
    atlas = Atlas(["a", "b"], [[-12, -8, -12], [8.0, -4, -8]])
    series = [
        RoiSeries(atlas, radius=radius, cache=tmp_path, **NOTHING).transform([scan()]).series[0]
        for radius in (5.0, 9.0, 5.0)
    ]
    assert len(list(tmp_path.glob("*.npz"))) == 2
    np.testing.assert_array_equal(series[0], series[2])


def test_spheres_need_places() -> None:
    with pytest.raises(ValueError, match="spheres need the coordinates of all regions"):
        spheres(Atlas(["a"]))


# -------------------------------------------------------------------------- names beside files

BESIDE = {
    "BIDS": (".tsv", "index\tname\n9\tright\n4\tleft\n"),
    "in the order of labels": (".csv", "name,system\nleft,A\nright,B\n"),
    "a list": (".txt", "4 left 2001\n9 right 2002\n12 other 2003\n"),
    "a list of MRIcron": (".nii.gz.txt", "4\tleft\t2001\n9\tright\t2002\n"),
}


@pytest.mark.parametrize(("ending", "text"), BESIDE.values(), ids=BESIDE.keys())
def test_a_table_beside_the_volume_names_its_labels(tmp_path: Path, ending: str, text: str) -> None:
    folders.save(folders.volume([4, 9]), tmp_path / "own.nii.gz")
    (tmp_path / f"own{ending}").write_text(text)
    found = from_image(tmp_path / "own.nii.gz")
    assert found.atlas.names == ["left", "right"] and found.labels.tolist() == [4, 9]
    np.testing.assert_allclose(found.atlas.coordinates, folders.centres(2))
    cohort = RoiSeries(tmp_path / "own.nii.gz", **NOTHING).transform([scan()])
    assert cohort.roi_names == ["left", "right"]
    given = RoiSeries(tmp_path / "own.nii.gz", names=["L", "R"], **NOTHING).transform([scan()])
    assert given.roi_names == ["L", "R"], "what is given goes before"


def test_names_may_be_a_table_or_an_atlas(tmp_path: Path) -> None:
    folders.save(folders.volume(list(range(1, 117))), tmp_path / "mine.nii.gz")
    regions = RoiSeries(tmp_path / "mine.nii.gz", names="aal116")._regions()
    assert regions.atlas == aal116()
    pd.DataFrame({"name": [f"region {k}" for k in range(116)]}).to_csv(tmp_path / "n.csv", index=False)
    regions = RoiSeries(tmp_path / "mine.nii.gz", names=str(tmp_path / "n.csv"))._regions()
    assert regions.atlas.names[0] == "region 0"


@pytest.mark.parametrize(
    ("ending", "text", "words"),
    [
        (".tsv", "index\tname\n4\tleft\n", "has no index 9, a label of own.nii.gz"),
        (".csv", "name\nleft\n", "has 1 regions, own.nii.gz 2; add a column index"),
        (".txt", "4 left\n", "does not name label 9 of own.nii.gz"),
    ],
)
def test_a_table_that_lacks_labels_is_refused(tmp_path: Path, ending: str, text: str, words: str) -> None:
    folders.save(folders.volume([4, 9]), tmp_path / "own.nii.gz")
    (tmp_path / f"own{ending}").write_text(text)
    with pytest.raises(ValueError, match=words):
        from_image(tmp_path / "own.nii.gz")


# -------------------------------------------------------------------------------- offline


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("HTTPSConnectionPool(host='…'): Max retries exceeded " + "x" * 100)

    monkeypatch.setattr("requests.Session.send", refuse)


DOWNLOADED = [family.example for family in FAMILIES if family.files]


@pytest.mark.parametrize("name", DOWNLOADED)
def test_without_a_network_one_line_says_what_to_put_where(name: str, tmp_path: Path, offline: None) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        fetch_parcellation(name, tmp_path)
    message = str(caught.value)
    family = next(family for family in FAMILIES if family.example == name)
    assert message.startswith(f"the atlas {name} is not on this machine and cannot be downloaded")
    assert str(tmp_path / family.folder) in message and "https://" in message
    assert "{" not in message and "\n" not in message and "ConnectionError" in message


def test_the_line_names_the_files_of_the_size_asked_for(tmp_path: Path, offline: None) -> None:
    with pytest.raises(FileNotFoundError, match="Schaefer2018_300Parcels_17Networks_order_FSLMNI152_1mm"):
        load_atlas("schaefer300-17", tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"256/3mm/maps.nii.gz.* into .*difumo_atlases, where nilearn"
    ):
        load_atlas("difumo256-3mm", tmp_path)


WRITTEN: dict[str, Callable[[Path], object]] = {
    "schaefer100": folders.write_schaefer,
    "harvard-oxford": folders.write_harvard_oxford,
    "difumo64": folders.write_difumo,
    "msdl": folders.write_msdl,
    "destrieux": folders.write_destrieux,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_files_named_are_those_that_nilearn_reads(name: str, tmp_path: Path, offline: None) -> None:
    WRITTEN[name](tmp_path)
    assert len(load_atlas(name, tmp_path)) > 1


@pytest.mark.parametrize("name", ["schaefer250", "difumo65", "aal117", "basc100", "nobody"])
def test_an_unknown_name_is_refused_with_those_there_are(name: str) -> None:
    assert not is_atlas_name(name)
    with pytest.raises(ValueError, match=rf"there is no atlas '{name}'.* There are aal116, .*seitzman300"):
        load_atlas(name)
    with pytest.raises(FileNotFoundError, match=f"atlas {name} does not exist; .* such as schaefer200"):
        RoiSeries(name).fit()


def test_a_file_goes_before_an_atlas_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_atlas_name("msdl")
    (tmp_path / "msdl").write_text("a file")
    assert not is_atlas_name("msdl")
