"""Extraction of one scan: the cleaned series of its regions, and a cache of them."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from cignn._arrays import digest, sha256
from cignn._checks import letters
from cignn.connectome.regions import region_signals
from cignn.datasets.parcellation import Parcellation

if TYPE_CHECKING:
    from nibabel.spatialimages import SpatialHeader, SpatialImage

    Image = str | Path | SpatialImage


# as in the paper: head motion (24 terms), white matter and CSF; the band filter does the high-pass
FMRIPREP = {"strategy": ("motion", "wm_csf"), "motion": "full", "wm_csf": "basic"}
_PARAMETERS = {"trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"}

_DISPLACEMENT = {"framewisedisplacement", "fd"}  # letters of its column

Table: TypeAlias = str | Path | pd.DataFrame | np.ndarray  # one row per volume of the scan
Setting = str | Mapping[str, object] | None


class Confounds(NamedTuple):
    """Confounds of a scan, one row per volume, the first ones included."""

    values: np.ndarray | None  # (volumes, k), or None: nothing to regress out
    keep: np.ndarray | None  # numbers of the volumes to keep, or None: all


def read_confounds(path: Path | None, table: Table | None, setting: Setting) -> Confounds:
    """Return the confounds of one scan.

    path : of the scan, in whose folder fMRIPrep writes its table. table : this scan's own table, or None.
    setting : "auto" takes the own table, else fMRIPrep's, else none; "fmriprep" or a mapping (keywords of
    `nilearn.interfaces.fmriprep.load_confounds`) requires fMRIPrep's; None regresses nothing out.
    """
    if setting is None:
        return Confounds(None, None)
    if table is not None and not isinstance(setting, Mapping) and setting != "fmriprep":
        return Confounds(read_table(table), None)
    beside = None if path is None else find_fmriprep(path)
    if beside is None:
        if setting == "auto":
            return Confounds(None, None)
        raise ValueError("no fMRIPrep confounds (*_desc-confounds_timeseries.tsv) in the folder of the scan")
    from nilearn.interfaces.fmriprep import load_confounds

    options = dict(setting) if isinstance(setting, Mapping) else FMRIPREP
    values, keep = load_confounds(str(path), **options)
    return Confounds(None if values is None else _numbers(values), None if keep is None else np.asarray(keep))


def mean_displacement(path: Path | None, table: Table | None) -> float:
    """Return the mean framewise displacement that the scan's own table or fMRIPrep's gives; NaN for none."""
    for source in (table, None if path is None else find_fmriprep(path)):
        try:
            frame = _read_file(Path(source)) if isinstance(source, (str, Path)) else source
        except (OSError, ValueError):  # `read_confounds` says so where the table is needed
            continue
        if isinstance(frame, pd.DataFrame):
            columns = [column for column in frame if letters(str(column)) in _DISPLACEMENT]
            if columns:
                return float(pd.to_numeric(frame[columns[0]], errors="coerce").mean())
    return np.nan


def find_fmriprep(path: Path) -> Path | None:
    """Return the confounds table of fMRIPrep in the folder of a scan, or None."""
    name = path.name
    stem = min((name.split(part)[0] for part in ("_space-", "_desc-", "_res-")), key=len)
    found = sorted(path.parent.glob(f"{stem}_desc-confounds*.tsv")) if stem != name else []
    return found[0] if found else None


def read_table(table: Table) -> np.ndarray:
    """(volumes, k) numbers of a confounds table: a frame, an array, or a file with or without a header.

    Of fMRIPrep's table, which has hundreds of columns, the motion parameters with their expansion, white
    matter and CSF are used.
    """
    if isinstance(table, (str, Path)):
        table = _read_file(Path(table))
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table))
    if _PARAMETERS.issubset(str(column) for column in frame.columns):
        wanted = [
            column
            for column in frame.columns
            if str(column).startswith(("trans_", "rot_")) or column in ("white_matter", "csf")
        ]
        frame = frame[wanted] if len(frame.columns) > len(_PARAMETERS) + 24 else frame
    return _numbers(frame)


def _read_file(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise FileNotFoundError(f"confounds table {path} does not exist")
    separator = {".csv": ",", ".tsv": "\t"}.get(path.suffix, r"\s+")
    comment = "#" if separator == r"\s+" else None
    with path.open(encoding="utf-8") as file:
        first = next((line for line in file if comment is None or not line.startswith(comment)), "")
    fields = [field.strip() for field in re.split(separator, first.strip())]
    header = None if all(_is_number(field) for field in fields) else 0
    return pd.read_csv(
        path, sep=separator, header=header, comment=comment, na_values=["n/a"], skipinitialspace=True
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in ("", "n/a", "na")
    return True


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    words = [str(column) for column in frame.columns if not pd.api.types.is_numeric_dtype(frame[column])]
    if words:
        raise ValueError(f"confounds must be numbers, column {', '.join(words[:3])} is not")
    # a derivative has no value at the first volume: use that of the second
    values = frame.to_numpy(np.float64, copy=True)
    if len(values) > 1:
        values[0] = np.where(np.isnan(values[0]), values[1], values[0])
    return values


def kept_confounds(confounds: Confounds, n_volumes: int, drop: int) -> Confounds:
    """Return the confounds without the first ``drop`` volumes, checked against the scan."""
    values, keep = confounds
    if values is not None:
        if len(values) != n_volumes:
            raise ValueError(
                f"the confounds table has {len(values)} rows, the scan {n_volumes} volumes; "
                f"pass one row per volume, the {drop} dropped ones included"
            )
        values = values[drop:]
        if not np.isfinite(values).all():
            columns = np.flatnonzero(~np.isfinite(values).all(0))
            raise ValueError(f"confounds have NaN or infinite values (column {columns[0]}); repair the table")
        if values.shape[1] >= len(values) - 1:
            raise ValueError(
                f"{values.shape[1]} confounds would explain all of {len(values)} volumes; choose fewer"
            )
    if keep is not None:
        keep = np.sort(keep)
        keep = keep[keep >= drop] - drop
    return Confounds(values, keep)


_FORMAT = 1  # of the cache's entries; raise it when the computation changes


class Scan(NamedTuple):
    """One scan to extract."""

    subject: str
    image: Image
    table: Table | None  # its own confounds


class Recipe(NamedTuple):
    """The checked parameters of `RoiSeries`."""

    regions: Parcellation
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

    series: np.ndarray  # (volumes kept, r) float32, columns in the order of the regions
    missing: np.ndarray  # numbers of the columns without signal, which are zero
    n_confounds: int
    mean_fd: float = np.nan  # mean framewise displacement, from the table of confounds; not in the cache


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
    result = None if entry is None else _read(entry)
    if result is None:
        result = _clean(_region_means(image.slicer[..., recipe.drop :], recipe), confounds, recipe, t_r)
        if entry is not None:
            _write(entry, result)
    return result._replace(mean_fd=mean_displacement(path, scan.table))


def header_t_r(header: SpatialHeader) -> float:
    """Return the repetition time in seconds that a NIfTI header gives."""
    value = float(header.get_zooms()[3])
    unit = header.get_xyzt_units()[1] if hasattr(header, "get_xyzt_units") else "unknown"
    # 1 without a unit is the default of programs that do not know it
    if not np.isfinite(value) or value <= 0 or (value == 1 and unit == "unknown"):
        raise ValueError("the scan's header does not give the repetition time; pass t_r")
    return value / {"msec": 1e3, "usec": 1e6}.get(unit, 1)


def _region_means(image: SpatialImage, recipe: Recipe) -> np.ndarray:
    """(volumes, r) signal of each region, NaN for those without a voxel in the scan."""
    return region_signals(image, recipe.regions, recipe.mask, recipe.smoothing)


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
