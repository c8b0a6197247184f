"""Signals of regions: means of the voxels of a label or a sphere, and regressions on maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cignn.datasets.parcellation import Parcellation

if TYPE_CHECKING:
    from nibabel.spatialimages import SpatialImage

ROUNDING = 1e-6  # mm, of distances
FAINT = 1e-6  # of the largest weight of all maps


def region_signals(
    image: SpatialImage, regions: Parcellation, mask: Any = None, smoothing: float | None = None
) -> np.ndarray:
    """(volumes, R) signal of each region of a 4-D scan, NaN for those without a voxel in it.

    mask : voxels outside are left out. smoothing : full width at half maximum in mm.
    """
    return SIGNALS[regions.kind](image, regions, mask, smoothing)


def label_signals(
    image: SpatialImage, regions: Parcellation, mask: Any, smoothing: float | None
) -> np.ndarray:
    """Means of the voxels of each label."""
    from nilearn.image import get_data
    from nilearn.maskers import NiftiLabelsMasker

    assert regions.labels is not None
    masker = NiftiLabelsMasker(
        regions.image,
        mask_img=mask,
        smoothing_fwhm=smoothing,
        resampling_target="data",
        reports=False,
    )
    signals = masker.fit_transform(image)
    found = np.unique(get_data(masker.region_atlas_))
    found = found[found != 0].astype(int)
    means = np.full((len(signals), len(regions.labels)), np.nan)
    means[:, np.searchsorted(regions.labels, found)] = signals
    return means


def map_signals(image: SpatialImage, regions: Parcellation, mask: Any, smoothing: float | None) -> np.ndarray:
    """Coefficients of each volume regressed on all maps: maps overlap, and a mean would mix regions."""
    from nilearn.image import get_data, resample_to_img
    from nilearn.regions import img_to_signals_maps

    maps = resample_to_img(regions.image, image, interpolation="continuous")
    inside = _mask_on(image, mask)
    weights = get_data(maps).reshape(-1, len(regions.atlas))
    if inside is not None:
        weights = weights[get_data(inside).reshape(-1) != 0]
    peaks = np.abs(weights).max(0, initial=0)
    empty = peaks <= FAINT * peaks.max()  # interpolation leaves traces of maps that are out of view
    signals, kept = img_to_signals_maps(_smoothed(image, smoothing), maps, mask_img=inside)
    means = np.full((len(signals), len(regions.atlas)), np.nan)
    means[:, np.asarray(kept, int)] = signals
    means[:, empty] = np.nan
    return means


def sphere_signals(
    image: SpatialImage, regions: Parcellation, mask: Any, smoothing: float | None
) -> np.ndarray:
    """Means of the voxels whose centres are in each sphere, with the voxel that holds the sphere's centre."""
    from nibabel.affines import apply_affine
    from nilearn.image import get_data
    from scipy.spatial import cKDTree

    assert regions.atlas.coordinates is not None and regions.radii is not None
    data = np.asarray(get_data(_smoothed(image, smoothing)))
    mask = _mask_on(image, mask)
    allowed = np.ones(data.shape[:3], bool) if mask is None else get_data(mask) != 0
    voxels = np.argwhere(allowed)
    tree = cKDTree(apply_affine(image.affine, voxels))
    centres = regions.atlas.coordinates
    own = np.round(apply_affine(np.linalg.inv(image.affine), centres)).astype(int)
    means = np.full((data.shape[3], len(centres)), np.nan)
    for k, (centre, radius) in enumerate(zip(centres, regions.radii, strict=True)):
        places = voxels[tree.query_ball_point(centre, radius + ROUNDING)]
        within = (own[k] >= 0).all() and (own[k] < data.shape[:3]).all()
        if within and allowed[tuple(own[k])]:
            places = np.unique(np.concatenate([places, own[k][None]]), axis=0)
        if len(places):
            means[:, k] = data[tuple(places.T)].mean(0, dtype=np.float64)
    return means


SIGNALS = {"labels": label_signals, "maps": map_signals, "spheres": sphere_signals}


def _smoothed(image: SpatialImage, width: float | None) -> SpatialImage:
    from nilearn.image import smooth_img

    return image if width is None else smooth_img(image, width)


def _mask_on(image: SpatialImage, mask: Any) -> Any:
    """The mask in the space of a scan."""
    from nilearn.image import resample_to_img

    return None if mask is None else resample_to_img(mask, image, interpolation="nearest")
