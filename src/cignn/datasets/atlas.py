"""Brain atlases: names, places and functional systems of the regions behind the nodes of a connectome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._arrays import positions
from cignn._checks import letters
from cignn.datasets.reading import MISSING, no_column, read_table

# The nine systems with the colours the paper's figures give them (LaTeX's names as RGB).
SYSTEMS = {
    "VN": "#000000",
    "SMN": "#a60000",
    "DAN": "#ff00de",
    "VAN": "#00ff00",
    "LIN": "#ffff00",
    "FPN": "#0000ff",
    "DMN": "#61ffe0",
    "CBL": "#00bf29",
    "SBN": "#ad5cff",
}
NO_SYSTEM = "none"  # of regions whose system the table leaves empty
SYSTEM_NAMES = {
    "VN": "visual",
    "SMN": "somatomotor",
    "DAN": "dorsal attention",
    "VAN": "ventral attention",
    "LIN": "limbic",
    "FPN": "frontoparietal",
    "DMN": "default mode",
    "CBL": "cerebellum",
    "SBN": "subcortical",
}


@dataclass(frozen=True, eq=False)
class Atlas:
    """The regions of a parcellation, in the order of a cohort's columns.

    Parameters
    ----------
    names : list of R str
        Names of the regions, all different.
    coordinates : ndarray of shape (R, 3), default=None
        Centres of the regions in MNI millimetres.
    systems : ndarray of shape (R,), default=None
        Functional system of each region.
    colours : dict, default={}
        Colour of each system, "#rrggbb".

    Examples
    --------
    >>> from cignn.datasets import Atlas
    >>> atlas = Atlas(["left", "right", "middle"], systems=["A", "A", "B"])
    >>> atlas
    Atlas(3 regions, 2 systems)
    >>> atlas[[2, 0]].names
    ['middle', 'left']
    """

    names: list[str]
    coordinates: np.ndarray | None = None
    systems: np.ndarray | None = None
    colours: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [str(name) for name in self.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"atlas names must differ, got {', '.join(twice[:5])} more than once.")
        object.__setattr__(self, "names", names)
        for name, dtype, shape in (("coordinates", float, (len(names), 3)), ("systems", str, (len(names),))):
            value = getattr(self, name)
            if value is None:
                continue
            array = np.asarray(value, dtype)
            if array.shape != shape:
                raise ValueError(f"atlas {name} must have shape {shape}, got {array.shape}.")
            if dtype is float and np.isinf(array).any():
                raise ValueError(f"atlas {name} must be finite, got infinite ones.")
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Atlas):
            return NotImplemented
        same_places = _same(self.coordinates, other.coordinates) and _same(self.systems, other.systems)
        return self.names == other.names and self.colours == other.colours and same_places

    def __repr__(self) -> str:
        systems = "" if self.systems is None else f", {len(set(self.systems))} systems"
        places = "" if self.coordinates is None else ", with coordinates"
        return f"Atlas({len(self)} regions{systems}{places})"

    def __getitem__(self, index: Any) -> Atlas:
        """Return the atlas of the regions at ``index`` (slice, mask or numbers), in that order."""
        keep = positions(index, len(self))
        coordinates = None if self.coordinates is None else self.coordinates[keep]
        systems = None if self.systems is None else self.systems[keep]
        return Atlas([self.names[i] for i in keep], coordinates, systems, self.colours)

    @classmethod
    def from_table(cls, table: str | Path | pd.DataFrame, colours: dict[str, str] | None = None) -> Atlas:
        """Make an atlas from a table with one row per region, in the order of the cohort's columns.

        Parameters
        ----------
        table : str, Path or DataFrame
            A .csv, .tsv or .txt file or a DataFrame with the column ``name`` and, where known, ``x``, ``y``,
            ``z`` (MNI millimetres) and ``system``; further columns are ignored. A region without a
            ``system`` belongs to the system "none".
        colours : dict, default=None
            Colour of each system, "#rrggbb"; by default the nine systems of `aal116` have theirs.

        Returns
        -------
        Atlas
            The regions in the order of the rows.
        """
        source = "the atlas table" if isinstance(table, pd.DataFrame) else str(table)
        if not isinstance(table, pd.DataFrame):
            table = read_table(table, "regions")
        table = table.rename(columns=lambda column: str(column).strip().lower())
        if "name" not in table:
            raise no_column(source, "name", "regions' names", table)
        have = [axis for axis in "xyz" if axis in table]
        if have and len(have) < 3:
            raise ValueError(
                f"{source} has the columns {', '.join(have)} but needs x, y and z, or none of them."
            )
        names = table["name"].astype(str)
        coordinates = np.stack([_numbers(table[axis], names, source) for axis in have], 1) if have else None
        systems = None
        if "system" in table:
            words = table["system"].astype(object).where(table["system"].notna(), "").astype(str)
            systems = words.where(~words.str.lower().isin(MISSING), NO_SYSTEM).to_numpy(str)
        if colours is None:
            colours = {s: c for s, c in SYSTEMS.items() if systems is not None and s in systems}
        try:
            return cls(names.tolist(), coordinates, systems, dict(colours))
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None

    @classmethod
    def from_labels(cls, labels: Any, names: Sequence[str] | None = None) -> Atlas:
        """Make an atlas from a label volume: its regions in ascending order of their labels, 0 left out.

        Parameters
        ----------
        labels : str, Path or nibabel image
            A NIfTI file or image whose voxels are whole numbers; the coordinates are the centroids of the
            labels in its space.
        names : sequence of str, default=None
            One name per label; by default "label-<number>".

        Returns
        -------
        Atlas
            The regions, without systems.
        """
        import nibabel

        image: Any = nibabel.load(labels) if isinstance(labels, (str, Path)) else labels
        volume = np.asarray(image.dataobj).squeeze()
        if volume.ndim != 3 or not np.array_equal(volume, np.round(volume)):
            got = f"{volume.ndim}-D {volume.dtype} values"
            raise ValueError(f"a label volume must hold whole numbers in three dimensions, got {got}.")
        inside = np.argwhere(volume != 0)
        found, region = np.unique(volume[tuple(inside.T)].astype(int), return_inverse=True)
        if not len(found):
            raise ValueError("the label volume has no label: every voxel is 0.")
        if names is not None and len(names) != len(found):
            raise ValueError(f"expected {len(found)} names, one per label of the volume, got {len(names)}.")
        sums = np.stack([np.bincount(region, inside[:, axis]) for axis in range(3)], axis=1)
        centroids = nibabel.affines.apply_affine(image.affine, sums / np.bincount(region)[:, None])
        return cls([f"label-{n}" for n in found] if names is None else list(names), centroids)


def aal116() -> Atlas:
    """Return the AAL atlas: 116 regions with MNI centroids and nine functional systems.

    The systems are VN, SMN, DAN, VAN, LIN, FPN, DMN (largest overlap with the Yeo-7 networks), CBL
    (cerebellum and vermis) and SBN (caudate, putamen, pallidum, thalamus, hippocampus, amygdala), in the
    colours of the paper's figures.

    Returns
    -------
    Atlas
        The 116 regions in AAL's order.

    Examples
    --------
    >>> from cignn.datasets import aal116
    >>> atlas = aal116()
    >>> atlas
    Atlas(116 regions, 9 systems, with coordinates)
    >>> atlas.names[0], str(atlas.systems[0])
    ('Precentral_L', 'SMN')
    """
    table = resources.files("cignn.datasets") / "data" / "aal116.csv"
    with resources.as_file(table) as path:
        return Atlas.from_table(path)


def numbered(n_rois: int) -> list[str]:
    """Return what regions are called that nobody has named."""
    return [f"ROI-{i:03d}" for i in range(1, n_rois + 1)]


def unnamed(names: Sequence[str]) -> bool:
    """Whether regions have only numbers: those of their columns, or of their labels in a volume."""
    return list(names) == numbered(len(names)) or all(re.fullmatch(r"label-\d+", name) for name in names)


def places_of(wanted: Sequence[str], have: Sequence[str]) -> list[int] | None:
    """(R,) the position of each wanted region in the other list; None where that has other names.

    Only letters and digits are compared, capital or not. Lists that share some names but not all are refused
    where a shared name has different positions: then neither order can be trusted. So are
    lists in another order in which a name repeats.
    """
    want, there = [letters(name) for name in wanted], [letters(name) for name in have]
    if len(set(there)) < len(there) or len(set(want)) < len(want):
        want, there = list(wanted), list(have)
    if len(set(there)) < len(there) and sorted(want) == sorted(there):  # only their order tells some apart
        if want != there:
            twice = next(name for name in there if there.count(name) > 1)
            raise ValueError(
                f"{twice} names more than one region, so the regions cannot be put into another order; "
                "give every region a name of its own."
            )
        return list(range(len(there)))
    place = {name: i for i, name in enumerate(there)}
    if sorted(want) == sorted(there):
        return [place[name] for name in want]
    apart = [i for i, name in enumerate(want) if place.get(name, i) != i]
    if apart:
        odd = next((name for name, key in zip(wanted, want, strict=True) if key not in place), "another")
        first, here, elsewhere = wanted[apart[0]], apart[0] + 1, place[want[apart[0]]] + 1
        raise ValueError(
            f"the data and the atlas name other regions in another order: {first} is number {here} and "
            f"number {elsewhere}, {odd} only in one of them; give both the same names."
        )
    return None


def _numbers(column: pd.Series, names: pd.Series, source: str) -> np.ndarray:
    """(n,) numbers of a column, NaN where it says nothing; a decimal comma counts."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float)
    words = column.astype(object).where(column.notna(), "").astype(str).str.strip()
    known = ~words.str.lower().isin(MISSING)
    numbers = pd.to_numeric(words.str.replace(",", "."), errors="coerce")
    wrong = (known & numbers.isna()).to_numpy()
    if wrong.any():
        at = wrong.argmax()
        raise ValueError(
            f"{source}: {column.name} of {names.iloc[at]} is {words.iloc[at]!r}, expected millimetres."
        )
    return numbers.to_numpy(float)


def _same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b)
