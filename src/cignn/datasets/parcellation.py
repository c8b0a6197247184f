"""Where the regions of an atlas are: the labels of a volume, maps, or spheres around coordinates."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cignn._arrays import digest, sha256
from cignn.datasets.atlas import Atlas
from cignn.datasets.reading import read_table

RADIUS = 5.0  # mm, of spheres around coordinates
NUMBERS = ("index", "label", "value", "id")  # columns of a table that may hold the label of a region
_ENDING = re.compile(r"\.nii(\.gz)?$", re.IGNORECASE)
_LISTED = re.compile(r"\s*(\d+)\s+(\S+)(\s|$)")  # "1 Precentral_L 2001", "1\t7Networks_LH_Vis_1\t120 …"


@dataclass(frozen=True, eq=False)
class Parcellation:
    """The regions of an atlas and where they are, in the order of the columns that are extracted.

    kind : "labels", "maps" or "spheres". image : path or image, 3-D with labels or 4-D with one map per
    region; None for spheres, whose centres are the atlas's coordinates. labels : (R,) of a label volume,
    ascending. radii : (R,) of spheres, in mm.
    """

    kind: str
    atlas: Atlas
    image: Any = None
    labels: np.ndarray | None = None
    radii: np.ndarray | None = None

    def digest(self) -> str:
        """Return a fingerprint of where the regions are; names do not count."""
        if self.image is None:
            return digest(self.atlas.coordinates, self.radii)
        if isinstance(self.image, (str, Path)):
            return sha256(Path(self.image))
        return digest(
            np.asarray(self.image.dataobj), str(self.image.get_data_dtype()), np.asarray(self.image.affine)
        )


def spheres(atlas: Atlas, radius: float | np.ndarray | None = None) -> Parcellation:
    """Spheres around the coordinates of an atlas; radius : in mm, one for all or one each."""
    if atlas.coordinates is None or np.isnan(atlas.coordinates).any():
        raise ValueError(
            "spheres need the coordinates of all regions; give the atlas x, y and z, or a volume."
        )
    radii = np.broadcast_to(np.asarray(RADIUS if radius is None else radius, float), (len(atlas),))
    return Parcellation("spheres", atlas, radii=np.array(radii))


def from_image(image: Any, names: Sequence[str] | Atlas | None = None) -> Parcellation:
    """Regions of a label volume or of maps, from a file or an image.

    names : of the regions in the order of their labels or maps. By default a table beside the file names
    them, `names_beside`.
    """
    from nilearn.image import load_img

    if isinstance(image, (str, Path)) and not Path(image).is_file():
        raise FileNotFoundError(
            f"atlas {image} does not exist; pass the path of a NIfTI label volume or of maps, or the name of "
            "an atlas such as schaefer200."
        )
    loaded = load_img(str(image) if isinstance(image, Path) else image)
    shape = tuple(n for k, n in enumerate(loaded.shape) if k < 3 or n > 1)
    if len(shape) == 4:
        labels, what, numbers = None, "maps", np.arange(1, shape[3] + 1)
    else:
        numbers = labels = labels_of(loaded)
        what = "labels"
    if names is None and isinstance(image, (str, Path)):
        names = names_beside(Path(image), numbers)
    given = names.names if isinstance(names, Atlas) else names
    if given is not None and len(given) != len(numbers):
        raise ValueError(f"names must name the {len(numbers)} {what} of the atlas, got {len(given)} names.")
    if isinstance(names, Atlas) and names.coordinates is not None:
        return Parcellation(what, names, image, labels)
    known = [f"{what[:-1]}-{n}" for n in numbers] if given is None else [str(name) for name in given]
    places = map_coordinates(loaded) if labels is None else label_coordinates(loaded, labels)
    systems, colours = (names.systems, names.colours) if isinstance(names, Atlas) else (None, {})
    return Parcellation(what, Atlas(known, places, systems, colours), image, labels)


def labels_of(image: Any) -> np.ndarray:
    """(R,) the labels of a label volume in ascending order, without the background 0."""
    data = np.squeeze(np.asarray(image.dataobj))
    labels = np.unique(data)
    if data.ndim != 3 or not np.isfinite(labels).all() or (labels != np.round(labels)).any():
        raise ValueError("atlas must be 4-D maps, or 3-D with whole-number labels and 0 for the background.")
    labels = labels[labels != 0].astype(int)
    if not len(labels):
        raise ValueError("atlas has no label but 0, the background.")
    return labels


def label_coordinates(image: Any, labels: np.ndarray) -> np.ndarray:
    """(R, 3) centres in mm of the labels of a volume, of the left part where one is in both hemispheres.

    nilearn's function goes through the whole volume for every label; here it sees the slab around it. It
    cannot take oblique volumes: there the centres are the means of all voxels of a label.
    """
    from nibabel import Nifti1Image
    from nibabel.affines import apply_affine
    from nilearn.image import reorder_img
    from nilearn.plotting import find_parcellation_cut_coords
    from scipy.ndimage import find_objects

    try:
        image = reorder_img(image)
    except ValueError:
        places = Atlas.from_labels(image).coordinates
        assert places is not None
        return places
    data = np.squeeze(np.asarray(image.dataobj)).astype(np.int32)
    number = np.searchsorted(labels, data)  # labels may be thousands
    number = np.where(data == 0, 0, number + 1)
    centres = []
    for k, box in enumerate(find_objects(number), 1):
        assert box is not None
        slab = (slice(None), *box[1:])  # all of the first axis: it tells left from right
        affine = np.array(image.affine)
        affine[:3, 3] = apply_affine(image.affine, [0, box[1].start - 1, box[2].start - 1])
        part = np.pad((number[slab] == k).astype(np.int32), ((0, 0), (1, 1), (1, 1)))  # with a background
        centres.append(find_parcellation_cut_coords(Nifti1Image(part, affine))[0])
    return np.array(centres, float)


def map_coordinates(image: Any) -> np.ndarray:
    """(R, 3) where in mm the maps of a 4-D image are largest."""
    from nilearn.plotting import find_probabilistic_atlas_cut_coords

    with warnings.catch_warnings():  # a flat map has no peak: nilearn gives its centre of mass and says so
        warnings.simplefilter("ignore", UserWarning)
        return np.asarray(find_probabilistic_atlas_cut_coords(image), float)


def names_beside(path: Path, numbers: np.ndarray) -> Atlas | None:
    """The regions that a table beside a volume names; None where there is none.

    ``atlas.nii.gz`` has it in ``atlas.tsv``, ``atlas.csv`` or ``atlas.txt``: a table with the column name
    and, where its rows are not in the order of the labels, one of `NUMBERS`; or lines of a label and a name.
    numbers : (R,) labels of the regions, or the numbers of maps.
    """
    stem = _ENDING.sub("", path.name)
    places = [path.with_name(f"{stem}{ending}") for ending in (".tsv", ".csv", ".txt")]
    place = next((one for one in [*places, path.with_name(f"{path.name}.txt")] if one.is_file()), None)
    if place is None:
        return None
    listed = [_LISTED.match(line) for line in place.read_text("utf-8", errors="replace").splitlines() if line]
    if place.suffix == ".txt" and listed and all(listed):
        known = {int(found[1]): found[2] for found in listed if found}
        lacking = [int(n) for n in numbers if n not in known]
        if lacking:
            raise ValueError(f"{place} does not name label {lacking[0]} of {path.name}; add a line for it.")
        return Atlas([known[int(n)] for n in numbers])
    table = read_table(place, "regions").rename(columns=lambda column: str(column).strip().lower())
    column = next((name for name in NUMBERS if name in table), None)
    if column is not None:
        rows = {str(value).strip().removesuffix(".0"): i for i, value in enumerate(table[column])}
        lacking = [int(n) for n in numbers if str(n) not in rows]
        if lacking:
            raise ValueError(f"{place} has no {column} {lacking[0]}, a label of {path.name}; add its region.")
        table = table.iloc[[rows[str(n)] for n in numbers]].reset_index(drop=True)
    elif len(table) != len(numbers):
        raise ValueError(
            f"{place} has {len(table)} regions, {path.name} {len(numbers)}; add a column index, the labels."
        )
    return Atlas.from_table(table)
