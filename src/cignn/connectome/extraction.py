"""Extraction of one scan: the cleaned series of its regions, and a cache of them."""

from __future__ import annotations

import os
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cignn._arrays import digest, sha256
from cignn.connectome.confounds import Confounds, Setting, Table, kept_confounds, read_confounds

if TYPE_CHECKING:
    from nibabel.spatialimages import SpatialHeader, SpatialImage

    Image = str | Path | SpatialImage

_FORMAT = 1  # of the cache's entries; raise it when the computation changes


class Scan(NamedTuple):
    """One scan to extract."""

    subject: str
    image: Image
    table: Table | None  # its own confounds


class Recipe(NamedTuple):
    """The checked parameters of `RoiSeries`."""

    atlas: Image
    labels: np.ndarray  # (r,)
    drop: int
    detrend: bool
    low: float | None
    high: float | None
    filter: str
    confounds: Setting
    smoothing: float | None
    standardise: bool
    t_r: float | None
    mask: Image | None
    fixed: str  # digest of atlas and mask


class Extracted(NamedTuple):
    """The series of one scan."""

    series: np.ndarray  # (volumes kept, r) float32, columns in the order of the labels
    missing: np.ndarray  # numbers of the columns without signal, which are zero
    n_confounds: int


class Failed(NamedTuple):
    """Why a scan gave no series."""

    reason: str


def extract(scan: Scan, recipe: Recipe, cache: Path | None = None) -> Extracted | Failed:
    """Extract one scan, or read it from the cache; errors are returned, not raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nilearn's; `RoiSeries` warns once for all subjects
            return _extract(scan, recipe, cache)
    except Exception as error:  # one bad scan must not stop the others
        reason = " ".join(str(error).split()) or type(error).__name__
        return Failed(reason.rstrip("."))


def _extract(scan: Scan, recipe: Recipe, cache: Path | None) -> Extracted:
    from nilearn.image import load_img

    path = Path(scan.image) if isinstance(scan.image, (str, Path)) else None
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    image = load_img(scan.image if path is None else str(path))
    if len(image.shape) != 4:
        raise ValueError(f"the scan must be 4-D, got shape {image.shape}")
    n_volumes = image.shape[3]
    if n_volumes - recipe.drop < 2:
        raise ValueError(f"the scan has {n_volumes} volumes, drop={recipe.drop} leaves too few")
    t_r = recipe.t_r or header_t_r(image.header)
    for edge in (recipe.low, recipe.high):
        if edge is not None and edge >= 0.5 / t_r:
            raise ValueError(
                f"band edge {edge} Hz is not below {0.5 / t_r:.3g} Hz, half the sampling rate at "
                f"t_r={t_r:g} s; lower it or correct t_r"
            )
    confounds = read_confounds(path, scan.table, recipe.confounds)
    confounds = kept_confounds(confounds, n_volumes, recipe.drop)
    entry = None if cache is None else cache / f"{_key(scan, recipe, confounds, t_r)}.npz"
    known = None if entry is None else _read(entry)
    if known is not None:
        return known
    result = _clean(_region_means(image.slicer[..., recipe.drop :], recipe), confounds, recipe, t_r)
    if entry is not None:
        _write(entry, result)
    return result


def header_t_r(header: SpatialHeader) -> float:
    """Return the repetition time in seconds that a NIfTI header gives."""
    value = float(header.get_zooms()[3])
    unit = header.get_xyzt_units()[1] if hasattr(header, "get_xyzt_units") else "unknown"
    # 1 without a unit is the default of programs that do not know it
    if not np.isfinite(value) or value <= 0 or (value == 1 and unit == "unknown"):
        raise ValueError("the scan's header does not give the repetition time; pass t_r")
    return value / {"msec": 1e3, "usec": 1e6}.get(unit, 1)


def _region_means(image: SpatialImage, recipe: Recipe) -> np.ndarray:
    """(volumes, r) mean signal of each label, NaN for labels without a voxel in the scan."""
    from nilearn.image import get_data
    from nilearn.maskers import NiftiLabelsMasker

    masker = NiftiLabelsMasker(
        recipe.atlas,
        mask_img=recipe.mask,
        smoothing_fwhm=recipe.smoothing,
        resampling_target="data",
        reports=False,
    )
    signals = masker.fit_transform(image)
    found = np.unique(get_data(masker.region_atlas_))
    found = found[found != 0].astype(int)
    means = np.full((len(signals), len(recipe.labels)), np.nan)
    means[:, np.searchsorted(recipe.labels, found)] = signals
    return means


def _clean(means: np.ndarray, confounds: Confounds, recipe: Recipe, t_r: float) -> Extracted:
    """Detrend, filter, regress, standardise the regions that have a signal."""
    # before cleaning: rounding errors of a constant would be standardised to a signal
    missing = np.isnan(means).any(0) | (np.ptp(means, axis=0) == 0)
    if missing.all():
        raise ValueError("no region of the atlas has a signal in the scan; are both in the same space?")
    signals = FILTERS[recipe.filter](means[:, ~missing], confounds, recipe, t_r)
    series = np.zeros((len(signals), means.shape[1]), np.float32)
    series[:, ~missing] = signals
    if not np.isfinite(series).all():
        raise ValueError("the cleaned series are not finite; is the scan damaged?")
    n_confounds = 0 if confounds.values is None else confounds.values.shape[1]
    return Extracted(series, np.flatnonzero(missing), n_confounds)


def clean_cosine(signals: np.ndarray, confounds: Confounds, recipe: Recipe, t_r: float) -> np.ndarray:
    """Regress over all frequencies, then keep the cosines of the band.

    Motion affects the signal at every frequency, so all of them help to estimate its effect; a regression
    after the filter would have only the degrees of freedom that the band leaves.
    """
    from nilearn.signal import clean, standardize_signal

    n = len(signals)
    signals = clean(
        signals,
        detrend=recipe.detrend,
        standardize=None,
        confounds=confounds.values,
        sample_mask=confounds.keep,
        filter=False,
    )
    basis = band_cosines(n, t_r, recipe.low, recipe.high)
    if confounds.keep is not None:
        basis = basis[confounds.keep]
    if 2 * basis.shape[1] > len(basis) and confounds.keep is not None:
        raise ValueError(f"scrubbing leaves {len(basis)} of {n} volumes, too few to filter the band")
    if (recipe.low, recipe.high) != (None, None):
        signals = basis @ np.linalg.lstsq(basis, signals, rcond=None)[0]
    return standardize_signal(
        signals, detrend=False, standardize="zscore_sample" if recipe.standardise else None
    )


def clean_butterworth(signals: np.ndarray, confounds: Confounds, recipe: Recipe, t_r: float) -> np.ndarray:
    """Clean as nilearn does: series and confounds through one Butterworth filter, then the regression."""
    from nilearn.signal import clean

    return clean(
        signals,
        detrend=recipe.detrend,
        standardize="zscore_sample" if recipe.standardise else None,
        confounds=confounds.values,
        sample_mask=confounds.keep,
        filter=False if recipe.low is None and recipe.high is None else "butterworth",
        low_pass=recipe.high,
        high_pass=recipe.low,
        t_r=t_r,
    )


FILTERS = {"cosine": clean_cosine, "butterworth": clean_butterworth}


def band_cosines(n: int, t_r: float, low: float | None, high: float | None) -> np.ndarray:
    """(n, k) orthonormal discrete cosines of the band and, beyond each edge, the next one.

    A cosine over n volumes leaks into neighbouring frequencies: a rhythm just inside the band needs the
    cosine just outside.
    """
    number = np.arange(1, n)
    step = 0.5 / (n * t_r)
    frequency = number * step
    inside = (frequency >= (low or 0) - step) & (frequency <= (np.inf if high is None else high) + step)
    return np.cos(np.pi / n * np.outer(np.arange(n) + 0.5, number[inside])) * np.sqrt(2 / n)


# ----------------------------------------------------------------------- cache


def fingerprint(image: Image) -> str:
    """Return a digest of an image: of its file, or of its voxels if it has none."""
    if isinstance(image, (str, Path)):
        return sha256(Path(image))
    return digest(np.asarray(image.dataobj), str(image.get_data_dtype()), np.asarray(image.affine))


def _key(scan: Scan, recipe: Recipe, confounds: Confounds, t_r: float) -> str:
    """Return the digest of scan, confounds, parameters and nilearn's version."""
    import nilearn

    settings = [
        recipe.drop,
        recipe.detrend,
        recipe.low,
        recipe.high,
        recipe.filter,
        recipe.smoothing,
        recipe.standardise,
        t_r,
        recipe.fixed,
        nilearn.__version__,
        _FORMAT,
    ]
    return digest(settings, fingerprint(scan.image), *confounds, length=32)


def _read(entry: Path) -> Extracted | None:
    """Return an entry of the cache, or None if it does not exist or is damaged."""
    try:
        with np.load(entry) as stored:
            return Extracted(stored["series"], stored["missing"], int(stored["n_confounds"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write(entry: Path, result: Extracted) -> None:
    """Write an entry atomically: other processes and later runs read it too."""
    handle, name = tempfile.mkstemp(dir=entry.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        np.savez(file, **result._asdict())
    os.replace(name, entry)
