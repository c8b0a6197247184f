"""Series and matrices from CIFTI files: of parcels, or of grayordinates together with their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cignn._array_files import UnreadableError, reading, regular
from cignn._checks import MOST, DataError, Option, name_some
from cignn.datasets.roi_tables import RoiTable

if TYPE_CHECKING:
    from nibabel.cifti2.cifti2_axes import BrainModelAxis

PARCELS = (".ptseries.nii", ".pconn.nii")
DENSE = ".dtseries.nii"
READ = (*PARCELS, DENSE)
_KIND = re.compile(r"\.[dp][a-z]*(scalar|series|conn|label|tseries)\.nii$", re.IGNORECASE)
# labels of what is no region, besides the key 0
_NO_REGION = re.compile(r"\?+|unknown|unlabel+ed|background.*|(.*[ _.-])?medial[ _.-]?wall", re.IGNORECASE)
BROKEN = "is not a readable CIFTI file; get or write it again."
BLOCK = 4096  # grayordinates read at once: a dense scan takes half a gigabyte, and time runs fastest in it


class DenseLabels(NamedTuple):
    """The regions of a .dlabel.nii file."""

    path: Path
    axis: BrainModelAxis
    regions: np.ndarray  # (grayordinates,) the number of each one's region, -1 for none
    names: list[str]


@contextmanager
def reading_cifti(path: Path) -> Iterator[None]:
    """Turn what damaged files make nibabel raise into one line that names the file."""
    with reading(path, BROKEN):
        try:
            yield
        except OSError as error:
            if error.errno is not None:  # the system's; nibabel's own have several lines
                raise
            raise UnreadableError(BROKEN) from error


def cifti_kind(path: Path) -> str:
    """Return the ending that names a kind of CIFTI, such as ".dscalar.nii"; "" for other files."""
    found = _KIND.search(path.name)
    return found[0].lower() if found else ""


def read_cifti(path: Path, labels: DenseLabels | None) -> RoiTable:
    """Read a .ptseries.nii, a .pconn.nii, or a .dtseries.nii whose grayordinates have labels.

    labels : of the grayordinates. The series of a region is the mean over its grayordinates.
    """
    kind = cifti_kind(path)
    if kind not in READ:
        raise UnreadableError(
            f"is CIFTI of a kind that is not read ({kind}), expected one of {', '.join(READ)}."
        )
    if kind == DENSE and labels is None:
        raise DataError(
            "has series of grayordinates, not of regions",
            options=[Option("dlabel", advice="name the .dlabel.nii of the regions with {}")],
        )
    image = _opened(path)
    axes = [image.header.get_axis(i) for i in range(len(image.shape))]
    found = [type(axis).__name__.removesuffix("Axis") for axis in axes]
    expected = {
        ".ptseries.nii": ["Series", "Parcels"],
        ".pconn.nii": ["Parcels", "Parcels"],
        DENSE: ["Series", "BrainModel"],
    }[kind]
    if found != expected:
        raise UnreadableError(
            f"must have the axes {' and '.join(expected)}, as its ending says, got {' and '.join(found)}."
        )
    if kind == DENSE:
        assert labels is not None
        return RoiTable(_means(image.dataobj, _matched(labels, axes[1]), len(labels.names)), labels.names)
    names = [str(name) for name in axes[1].name]
    if kind == ".pconn.nii" and names != [str(name) for name in axes[0].name]:
        raise UnreadableError("has other regions in its rows than in its columns; write both in one order.")
    return RoiTable(np.asarray(image.dataobj, np.float32), names)


def _opened(path: Path) -> Any:
    import nibabel

    image = nibabel.load(path)
    if not isinstance(image, nibabel.Cifti2Image):
        raise UnreadableError("is an image but no CIFTI file; rename it, or write it as CIFTI.")
    return image


# ------------------------------------------------------------------------------ grayordinates


def read_dlabel(path: str | Path, variable: str | None = None) -> DenseLabels:
    """Read which grayordinate belongs to which region; variable : the map to read where there are several.

    The key 0 is no region, nor is what the table calls ???, unknown or medial wall.
    """
    path = regular(path, "give a .dlabel.nii file")
    if cifti_kind(path) != ".dlabel.nii":
        raise ValueError(f"dlabel must be a .dlabel.nii file, got {path}.")
    with reading_cifti(path):
        image = _opened(path)
        axes = [image.header.get_axis(i) for i in range(len(image.shape))]
        found = [type(axis).__name__.removesuffix("Axis") for axis in axes]
        if found != ["Label", "BrainModel"]:
            raise UnreadableError(f"must have the axes Label and BrainModel, got {' and '.join(found)}.")
        which = _map([str(name) for name in axes[0].name], variable)
        keys = np.rint(np.asarray(image.dataobj[which])).astype(int).ravel()
        table = {int(key): str(label[0]) for key, label in axes[0].label[which].items()}
        named = {int(key): table.get(int(key), f"label {key}") for key in np.unique(keys) if key != 0}
        kept = [key for key, name in named.items() if not _NO_REGION.fullmatch(name)]
        if not kept:
            raise UnreadableError("has no label but the one of no region.")
        place = np.searchsorted(kept, keys).clip(max=len(kept) - 1)
        regions = np.where(np.asarray(kept)[place] == keys, place, -1)
    return DenseLabels(path, axes[1], regions, [named[key] for key in kept])


def _map(names: list[str], variable: str | None) -> int:
    if variable in names:
        return names.index(str(variable))
    if len(names) == 1:
        return 0
    problem = f"holds {len(names)} maps of labels ({name_some(names)})"
    raise DataError(problem, values=names, options=[Option("variable", tuple(names[:MOST]))])


def _matched(labels: DenseLabels, axis: BrainModelAxis) -> np.ndarray:
    """(grayordinates of the scan,) the region of each: of the same vertex of a surface, or the same voxel."""
    out = np.full(len(axis), -1)
    have = labels.axis
    for name in np.unique(axis.name[axis.vertex >= 0]):  # voxels have -1
        here, there = ((one.vertex >= 0) & (one.name == name) for one in (axis, have))
        if not there.any():
            continue
        if axis.nvertices[name] != have.nvertices[name]:
            raise _unlike(labels, f"{axis.nvertices[name]} and {have.nvertices[name]} vertices in {name}")
        region = np.full(axis.nvertices[name], -1)
        region[have.vertex[there]] = labels.regions[there]
        out[here] = region[axis.vertex[here]]
    here, there = axis.vertex < 0, have.vertex < 0
    if here.any() and (labels.regions[there] >= 0).any():
        if axis.volume_shape != have.volume_shape or not np.allclose(axis.affine, have.affine, atol=1e-3):
            raise _unlike(labels, "another grid of voxels")
        voxels = np.full(axis.volume_shape, -1)
        voxels[tuple(have.voxel[there].T)] = labels.regions[there]
        out[here] = voxels[tuple(axis.voxel[here].T)]
    empty = np.setdiff1d(np.arange(len(labels.names)), out)
    if len(empty):
        raise _unlike(labels, f"no grayordinate of {name_some(labels.names[i] for i in empty)} in the scan")
    return out


def _unlike(labels: DenseLabels, why: str) -> DataError:
    return DataError(
        f"its grayordinates do not match those of {labels.path.name} ({why})",
        options=[Option("dlabel", advice="give a {} of the same surfaces and voxels")],
    )


def _means(data: Any, regions: np.ndarray, n: int) -> np.ndarray:
    """(t, n) float32, the mean over the grayordinates of each region."""
    from scipy.sparse import csr_array

    sums = np.zeros((n, data.shape[0]))
    for start in range(0, len(regions), BLOCK):
        here = regions[start : start + BLOCK]
        inside = np.flatnonzero(here >= 0)
        member = csr_array((np.ones(len(inside)), (here[inside], inside)), shape=(n, len(here)))
        sums += member @ np.asarray(data[:, start : start + BLOCK], np.float64).T
    counts = np.bincount(regions[regions >= 0], minlength=n)
    return (sums / counts[:, None]).T.astype(np.float32)
