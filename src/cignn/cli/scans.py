"""Scans that fMRIPrep left: how the commands turn them into series."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from cignn.datasets import Atlas

# options of `RoiSeries` that --load takes for scans → what they may be
SCAN_OPTIONS = {
    "names": "str | None",
    "drop": "int",
    "detrend": "bool",
    "band": "Sequence | None",
    "filter": "str",
    "confounds": "str | None",
    "smoothing": "float | None",
    "standardise": "bool",
    "t_r": "float | None",
    "mask": "str | None",
    "radius": "float | None",
    "data_dir": "str | None",
    "n_jobs": "int | None",
    "cache": "str | None",
}
ENTITIES = ("task", "ses", "run", "space", "acq", "dir", "rec", "echo", "res")  # of BIDS, which choose scans
KNOWN = SCAN_OPTIONS | dict.fromkeys(ENTITIES, "str | int")
VOLUMES = (".nii", ".nii.gz")


def are_scans(path: Path) -> bool:
    """Whether a path is a folder of scans rather than of series, matrices or arrays."""
    from cignn.datasets.cohort_arrays import holds_arrays
    from cignn.datasets.scans import holds_scans

    return path.is_dir() and not holds_arrays(path) and holds_scans(path)


def scan_options(path: Path, atlas: str | None, options: Mapping[str, Any], quiet: bool) -> dict[str, Any]:
    """Return the options of `load_cohort` for scans: those of the extraction become its ``extract``."""
    from cignn.connectome import RoiSeries
    from cignn.datasets.named_atlases import is_atlas_name

    if atlas is None:
        raise typer.BadParameter(
            f"{path} holds scans; name the atlas whose regions to extract, such as schaefer200, or give its "
            "volume, such as aal.nii.gz.",
            param_hint="'--atlas'",
        )
    if not is_atlas_name(atlas) and not atlas.lower().endswith(VOLUMES):
        raise typer.BadParameter(
            f"{path} holds scans; expected the name of an atlas or a .nii.gz volume, got '{atlas}'.",
            param_hint="'--atlas'",
        )
    own = {name: value for name, value in options.items() if name in SCAN_OPTIONS}
    if "names" not in own and (tables := regions_beside(path)):
        own["names"] = str(tables[0])
    if isinstance(own.get("band"), list):
        own["band"] = tuple(own["band"])
    extract = RoiSeries(
        atlas, **own, verbose=int(not quiet)
    ).fit()  # says what is wrong before any scan is read
    entities = {name: str(value) for name, value in options.items() if name in ENTITIES}
    left = {name: value for name, value in options.items() if name not in KNOWN or name == "n_jobs"}
    return {"extract": extract, "entities": entities, **left}


def regions_beside(path: Path) -> list[Path]:
    """Return the tables of regions in a data folder."""
    return [path / file for file in ("regions.csv", "regions.tsv") if (path / file).is_file()]


def read_atlas(name: str | None, path: Path) -> Atlas | None:
    """The atlas of that name or file; without one, regions.csv or regions.tsv in the data folder."""
    from cignn.datasets import Atlas
    from cignn.datasets.named_atlases import is_atlas_name, load_atlas
    from cignn.datasets.parcellation import from_image

    if name is None:
        found = regions_beside(path)
        return Atlas.from_table(found[0]) if found else None
    if is_atlas_name(name):
        return load_atlas(name)
    if not Path(name).is_file():
        raise typer.BadParameter(
            f"is the name of an atlas, such as aal116 or schaefer200, a table of regions or a volume, got "
            f"'{name}'.",
            param_hint="'--atlas'",
        )
    return from_image(name).atlas if name.lower().endswith(VOLUMES) else Atlas.from_table(name)


def atlas_for(path: Path, atlas: str | None, settings: Mapping[str, Any]) -> str | None:
    """The atlas given or, for scans, the one that the settings of a run name: its regions are the model's."""
    if atlas is None and "atlas" in settings and are_scans(path):
        return str(settings["atlas"])
    return atlas
