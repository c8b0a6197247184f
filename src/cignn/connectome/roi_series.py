"""`RoiSeries`: from 4-D NIfTI scans and an atlas to a `Cohort`."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from joblib import Parallel, delayed
from sklearn.utils import Tags

from cignn._checks import choice, jobs, number, shown, whole
from cignn._progress import track
from cignn.connectome.covariates import CohortTransformer
from cignn.connectome.extraction import (
    FILTERS,
    Extracted,
    Failed,
    Recipe,
    Scan,
    Setting,
    Table,
    extract,
    fingerprint,
)
from cignn.datasets.atlas import Atlas
from cignn.datasets.cohort import Cohort
from cignn.datasets.exclusions import excluded
from cignn.datasets.named_atlases import fetch_parcellation, is_atlas_name, load_atlas
from cignn.datasets.parcellation import Parcellation, from_image, spheres

if TYPE_CHECKING:
    from cignn.connectome.extraction import Image

    Scans: TypeAlias = Sequence[Image] | pd.DataFrame


class RoiSeries(CohortTransformer):
    """Extract the cleaned series of each region of an atlas from fMRI scans.

    The defaults are the paper's: the first 10 volumes dropped, linear trends removed, motion, white matter
    and CSF regressed out, a band-pass of 0.01–0.1 Hz, and standardised series. Motion correction and
    normalisation to the atlas's space must be done before, by SPM or fMRIPrep.

    Parameters
    ----------
    atlas : str, Path, image or Atlas
        The regions, in the order of the columns: the name of an atlas ("schaefer200", "difumo64",
        "power264", see `cignn.datasets.load_atlas`); a 3-D label volume with 0 as background, by ascending
        label; a 4-D image with one map per region, whose signals are the coefficients of a regression on all
        maps; or an `Atlas` with coordinates, around which spheres are laid.
    names : sequence of str, Atlas or str, default=None
        Names of the regions in that order; as one str, a table with the column name or the name of an atlas.
        By default those of the atlas; those of a file come from a table beside it (``aal.nii.gz`` and
        ``aal.tsv``, ``aal.csv`` or ``aal.txt``), else regions are called "label-1" or "map-1".
    drop : int, default=10
        Number of first volumes left out, of the scan and of its confounds.
    detrend : bool, default=True
        Whether to remove linear trends.
    band : tuple of two floats, default=(0.01, 0.1)
        Lowest and highest frequency in Hz; either may be None. None does not filter.
    filter : {"cosine", "butterworth"}, default="cosine"
        "cosine" regresses the confounds out, then keeps the discrete cosines of the band: sharp edges, as in
        the pipelines behind ABIDE and REST-meta-MDD. "butterworth" is nilearn's `signal.clean`: series and
        confounds pass a fifth-order filter before the regression; the result is uncorrelated with the
        filtered confounds but loses more signal near the edges of the band.
    confounds : {"auto", "fmriprep"}, mapping, sequence of tables or None, default="auto"
        "auto": the scan's own table (column ``confounds`` of the frame passed to `transform`), else
        fMRIPrep's in the folder of the scan, else none, with a warning. "fmriprep", or a mapping of keywords
        of `nilearn.interfaces.fmriprep.load_confounds`: fMRIPrep's, or the subject fails. A sequence: one
        table per scan. None: nothing is regressed out. A table is a path, frame or array with one row per
        volume of the scan, the dropped ones included.
    smoothing : float, default=None
        Full width at half maximum in mm (6 in the paper). None does not smooth.
    standardise : bool, default=True
        Whether to give each series mean 0 and variance 1.
    t_r : float, default=None
        Repetition time in seconds. By default that of the scan's header.
    mask : str, Path or image, default=None
        Voxels outside it are left out of their regions.
    radius : float, default=None
        Of spheres, in mm. By default the atlas's own, else 5.
    data_dir : str or Path, default=None
        Where nilearn keeps atlases that are given by name; by default NILEARN_DATA, or nilearn_data in the
        home folder.
    n_jobs : int, default=1
        Number of processes, over scans.
    cache : str or Path, default=None
        Folder for extracted series, one file per scan; a changed parameter, atlas, scan or table makes a new
        entry. Used instead of nilearn's own cache, which reads and hashes all voxels at every hit.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    failures_ : dict of str to str
        Reason of each subject that failed in the last `transform` and is not in its cohort.
    missing_ : dict of str to list of str
        Names of each subject's regions without signal in the scan, whose series are zero.

    Examples
    --------
    >>> import nibabel
    >>> import numpy as np
    >>> from cignn.connectome import RoiSeries
    >>> labels = np.zeros((4, 4, 4), np.int16)
    >>> labels[0], labels[2] = 1, 2
    >>> atlas = nibabel.Nifti1Image(labels, np.eye(4))
    >>> voxels = np.random.default_rng(0).normal(size=(4, 4, 4, 60))
    >>> scan = nibabel.Nifti1Image(voxels, np.eye(4))
    >>> RoiSeries(atlas, t_r=2.0, confounds=None).transform([scan])
    Cohort(1 subjects, 2 ROIs, series of 50 time points)
    """

    def __init__(
        self,
        atlas: Image | Atlas,
        *,
        names: Sequence[str] | Atlas | str | None = None,
        drop: int = 10,
        detrend: bool = True,
        band: tuple[float | None, float | None] | None = (0.01, 0.1),
        filter: str = "cosine",
        confounds: Setting | Sequence[Table | None] = "auto",
        smoothing: float | None = None,
        standardise: bool = True,
        t_r: float | None = None,
        mask: Image | None = None,
        radius: float | None = None,
        data_dir: str | Path | None = None,
        n_jobs: int | None = 1,
        cache: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        self.atlas = atlas
        self.names = names
        self.drop = drop
        self.detrend = detrend
        self.band = band
        self.filter = filter
        self.confounds = confounds
        self.smoothing = smoothing
        self.standardise = standardise
        self.t_r = t_r
        self.mask = mask
        self.radius = radius
        self.data_dir = data_dir
        self.n_jobs = n_jobs
        self.cache = cache
        self.verbose = verbose

    def fit(self, X: Scans | None = None, y: npt.ArrayLike | None = None) -> Self:
        """Check the parameters; nothing is learned.

        Parameters
        ----------
        X : sequence of scans or DataFrame, default=None
            Ignored.
        y : array-like of shape (n,), default=None
            Ignored.

        Returns
        -------
        RoiSeries
            The transformer itself.
        """
        self._recipe()
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def transform(self, X: Scans) -> Cohort:
        """Extract the series of all scans.

        Parameters
        ----------
        X : sequence of str, Path or image, or DataFrame
            The scans. Subjects are named by ``sub-…`` in the file's name, else by the file. A frame has the
            columns ``path`` and ``subject``, and optionally ``confounds``.

        Returns
        -------
        Cohort
            One subject per scan. Subjects that fail are left out, with a warning that lists the reasons.
            The covariate ``mean_fd`` is the mean of the column framewise_displacement of the confounds, where
            they have one.
        """
        recipe = self._recipe()
        scans = self._scans(X)
        cache = None if self.cache is None else Path(self.cache)
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(extract)(scan, recipe, cache) for scan in scans
        )
        done = dict(
            zip(
                [scan.subject for scan in scans],
                track(results, "extracting series", len(scans), self.verbose),
                strict=True,
            )
        )
        self.failures_ = {name: result.reason for name, result in done.items() if isinstance(result, Failed)}
        kept = {name: result for name, result in done.items() if isinstance(result, Extracted)}
        if not kept:
            raise ValueError(f"all {len(scans)} subjects failed: {_lines(self.failures_)}.")
        atlas = recipe.regions.atlas
        self.missing_ = {
            name: [atlas.names[i] for i in result.missing]
            for name, result in kept.items()
            if len(result.missing)
        }
        self._warn(kept)
        motion = np.array([result.mean_fd for result in kept.values()])
        return Cohort(
            [result.series for result in kept.values()],
            subjects=list(kept),
            covariates=None if np.isnan(motion).all() else {"mean_fd": motion},
            roi_names=atlas.names,
            atlas=atlas,
            zeros_mean_absent=True,
            exclusions=excluded(self.failures_, "extract", list(self.failures_.values())),
        )

    # ---------------------------------------------------------------- settings

    def _recipe(self) -> Recipe:
        """Check the parameters and return those that the extraction of a scan needs."""
        whole("drop", self.drop, 0)
        low, high = _band(self.band)
        choice("filter", self.filter, FILTERS)
        if self.t_r is not None:
            number("t_r, in seconds,", self.t_r, 0, math.inf)
        if self.smoothing is not None:
            number("smoothing, in mm,", self.smoothing, 0, math.inf)
        if self.radius is not None:
            number("radius, in mm,", self.radius, 0, math.inf)
        if self.n_jobs is not None:
            jobs("n_jobs", self.n_jobs)
        if isinstance(self.confounds, str) and self.confounds not in ("auto", "fmriprep"):
            raise ValueError(
                f"confounds must be 'auto', 'fmriprep', None, keywords of load_confounds or a list of "
                f"tables, got {self.confounds!r}."
            )
        own = self.confounds if isinstance(self.confounds, (str, Mapping)) else None
        regions = self._regions()
        return Recipe(
            regions=regions,
            drop=int(self.drop),
            detrend=bool(self.detrend),
            low=low,
            high=high,
            filter=self.filter,
            confounds="auto" if own is None and self.confounds is not None else own,
            smoothing=self.smoothing,
            standardise=bool(self.standardise),
            t_r=self.t_r,
            mask=self.mask,
            fixed=regions.digest() + ("" if self.mask is None else fingerprint(self.mask)),
        )

    def _regions(self) -> Parcellation:
        """Where the regions are, and what they are called."""
        names = self.names
        if isinstance(names, str):
            names = load_atlas(names, self.data_dir) if is_atlas_name(names) else Atlas.from_table(names)
        if isinstance(self.atlas, Atlas):
            found = spheres(self.atlas, self.radius)
        elif isinstance(self.atlas, str) and is_atlas_name(self.atlas):
            found = fetch_parcellation(self.atlas, self.data_dir)
            if found.radii is not None and self.radius is not None:
                found = spheres(found.atlas, self.radius)
        else:
            return from_image(self.atlas, names)
        if names is None:
            return found
        named = names if isinstance(names, Atlas) else Atlas(list(names))
        if len(named) != len(found.atlas):
            raise ValueError(
                f"names must name the {len(found.atlas)} regions of the atlas, got {len(named)} names."
            )
        atlas = Atlas(named.names, found.atlas.coordinates, named.systems, named.colours)
        return replace(found, atlas=atlas)

    def _scans(self, X: Scans) -> list[Scan]:
        """Return subject, scan and own confounds table of each scan."""
        if isinstance(X, (str, Path)):
            raise ValueError(f"scans must be a list of paths or a frame with a column path, got {str(X)!r}.")
        tables: Sequence[Table | None]
        if isinstance(X, pd.DataFrame):
            lacking = [column for column in ("path", "subject") if column not in X.columns]
            if lacking:
                raise ValueError(
                    f"the frame of scans must have the columns path and subject, it lacks {lacking[0]}."
                )
            paths, subjects = list(X["path"]), [str(name) for name in X["subject"]]
            tables = list(X["confounds"]) if "confounds" in X.columns else [None] * len(X)
        else:
            paths = list(X)
            subjects = [_subject(path, i) for i, path in enumerate(paths)]
            tables = [None] * len(paths)
        if not paths:
            raise ValueError("there are no scans to extract series from.")
        if self.confounds is not None and not isinstance(self.confounds, (str, Mapping)):
            tables = list(self.confounds)
            if len(tables) != len(paths):
                raise ValueError(f"confounds must hold one table per scan ({len(paths)}), got {len(tables)}.")
        twice = [name for name, count in Counter(subjects).items() if count > 1]
        if twice:
            raise ValueError(
                f"subject {', '.join(twice[:5])} has more than one scan; name them apart in a frame with the "
                f"columns path and subject."
            )
        tables = [None if _is_missing(table) else table for table in tables]
        return [Scan(*item) for item in zip(subjects, paths, tables, strict=True)]

    def _warn(self, kept: dict[str, Extracted]) -> None:
        """Warn of subjects left out, regions without signal and scans without confounds."""
        if self.failures_:
            warnings.warn(
                f"{len(self.failures_)} of {len(self.failures_) + len(kept)} subjects failed and are left "
                f"out: {_lines(self.failures_)}.",
                stacklevel=4,
            )
        if self.missing_:
            lines = {name: f"{len(rois)} ({', '.join(rois[:5])})" for name, rois in self.missing_.items()}
            warnings.warn(
                f"regions without signal in the scan, whose series are zero: {_lines(lines)}.", stacklevel=4
            )
        bare = [name for name, result in kept.items() if not result.n_confounds]
        if bare and self.confounds is not None:
            warnings.warn(
                f"no confounds found for {len(bare)} subjects ({', '.join(bare[:5])}): nothing was regressed "
                f"out; pass tables in a column confounds, or confounds=None if none are needed.",
                stacklevel=4,
            )


def _band(band: Sequence[float | None] | None) -> tuple[float | None, float | None]:
    """Return the lower and the upper edge in Hz, None for no edge."""
    edges = (None, None) if band is None else band
    pair = isinstance(edges, Sequence) and not isinstance(edges, str) and len(edges) == 2
    try:
        low, high = [
            e if e is None else number("band", e, 0, math.inf) for e in (edges if pair else (-1, -1))
        ]
    except ValueError:
        pair = False
    if not pair or (low is not None and high is not None and low >= high):
        raise ValueError(
            f"band must be (low, high) in Hz above 0 with low < high, None for no edge, got {shown(band)}."
        )
    return low, high


def _subject(path: Image, i: int) -> str:
    """Name a scan's subject by its file: ``sub-…`` where there is one, else the name without ending."""
    if not isinstance(path, (str, Path)):
        return f"sub-{i + 1:04d}"
    name = Path(path).name
    found = re.match(r"sub-[A-Za-z0-9]+", name)
    return found.group() if found else re.sub(r"\.nii(\.gz)?$", "", name)


def _is_missing(table: object) -> bool:
    return table is None or (isinstance(table, float) and np.isnan(table)) or table is pd.NA


def _lines(reasons: Mapping[str, str], most: int = 20) -> str:
    lines = [f"{name}: {reason}" for name, reason in list(reasons.items())[:most]]
    more = len(reasons) - len(lines)
    return "\n  " + "\n  ".join([*lines, f"… and {more} more"] if more else lines)
