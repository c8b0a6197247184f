"""Atlases by name: those that nilearn fetches, with names, coordinates and systems."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cignn._checks import nearest
from cignn.datasets.atlas import NO_SYSTEM, SYSTEMS, Atlas, aal116, places_of
from cignn.datasets.parcellation import (
    Parcellation,
    label_coordinates,
    labels_of,
    map_coordinates,
    spheres,
)

# Yeo's seven networks as atlases spell them → our systems
YEO = {
    "Vis": "VN",
    "SomMot": "SMN",
    "DorsAttn": "DAN",
    "SalVentAttn": "VAN",
    "Limbic": "LIN",
    "Cont": "FPN",
    "Default": "DMN",
}
NOWHERE = ("no network found", "unassigned", "nan", "")  # systems of regions that have none
SCALES = (7, 12, 20, 36, 64, 122, 197, 325, 444)  # of BASC


@dataclass(frozen=True)
class Family:
    """Atlases of one kind: how their names read, how nilearn fetches them, and what it downloads.

    read : of a match of the pattern and the data folder. folder, files : where nilearn keeps it, with the
    groups of the pattern in braces. source : where it comes from.
    """

    example: str
    pattern: str
    read: Callable[[dict[str, str], Any], Parcellation]
    folder: str = ""
    files: tuple[str, ...] = ()
    source: str = ""
    usual: tuple[tuple[str, str], ...] = ()  # what groups are where a name leaves them out


def load_atlas(name: str, data_dir: str | Path | None = None) -> Atlas:
    """Return an atlas by its name: its regions with coordinates and, where they are known, systems.

    `aal116` and the coordinate atlases are built in; nilearn downloads the others when they are first asked
    for. `cignn.connectome.RoiSeries` extracts series by the same names.

    Parameters
    ----------
    name : str
        - "aal116" (or "aal") and "aal3";
        - "schaefer200", or any of 100 to 1000 regions; "schaefer400-17" has the seventeen networks;
          "schaefer200-2mm" is read at 2 mm;
        - "harvard-oxford" (cortical, left and right apart), "harvard-oxford-sub", or nilearn's name behind
          it, as in "harvard-oxford-cort-maxprob-thr50-2mm"; "juelich"; "destrieux";
        - "basc122", or another of its scales;
        - "difumo64" to "difumo1024" and "msdl", which are maps;
        - "power264", "dosenbach160" and "seitzman300", which are coordinates.

        Capitals, "_" for "-", and hyphens before numbers make no difference.
    data_dir : str or Path, default=None
        Where nilearn keeps its data; by default the environment variable NILEARN_DATA, or nilearn_data in
        the home folder.

    Returns
    -------
    Atlas
        The regions in the order of the atlas's labels.

    Raises
    ------
    FileNotFoundError
        If the atlas is not there and cannot be downloaded; the message says which files go where.

    Examples
    --------
    >>> from cignn.datasets import load_atlas
    >>> load_atlas("power264")
    Atlas(264 regions, with coordinates)
    >>> load_atlas("dosenbach160")
    Atlas(160 regions, 6 systems, with coordinates)
    """
    if _spelt(name) in ("aal", "aal116"):
        return aal116()
    return fetch_parcellation(name, data_dir).atlas


def is_atlas_name(name: object) -> bool:
    """Whether a text is the name of an atlas; a file of that name goes before."""
    return isinstance(name, str) and not os.path.isfile(name) and _find(name) is not None


def fetch_parcellation(name: str, data_dir: str | Path | None = None) -> Parcellation:
    """Return an atlas by its name with what tells where its regions are."""
    found = _find(name)
    if found is None:
        examples = [family.example for family in FAMILIES]
        raise ValueError(f"there is no atlas {name!r}{nearest(name, examples)}")
    family, words = found
    try:
        with warnings.catch_warnings():  # of labels without a voxel, which are left out
            warnings.simplefilter("ignore", UserWarning)
            return family.read(words, None if data_dir is None else str(data_dir))
    except OSError as error:  # of requests too
        from nilearn.datasets import get_data_dirs

        files = ", ".join(file.format(**words) for file in family.files)
        folder = family.folder.format(**words)
        places = " or ".join(str(Path(place) / folder) for place in get_data_dirs(data_dir))
        why = (str(error).splitlines() or [""])[0]
        why = type(error).__name__ if len(why) > 100 or not why else why
        raise FileNotFoundError(
            f"the atlas {name} is not on this machine and cannot be downloaded ({why}); put {files} from "
            f"{family.source} into {places}, where nilearn looks for it."
        ) from error


def _spelt(name: str) -> str:
    """A name in one spelling: "Schaefer_200" is "schaefer200", "Harvard Oxford" "harvard-oxford"."""
    plain = re.sub(r"[\s_]+", "-", name.strip().lower())
    return re.sub(r"^([a-z]+)-(?=\d)", r"\1", plain)


def _find(name: str) -> tuple[Family, dict[str, str]] | None:
    for family in FAMILIES:
        if found := re.fullmatch(family.pattern, _spelt(name)):
            return family, {k: v or dict(family.usual).get(k, "") for k, v in found.groupdict().items()}
    return None


# ------------------------------------------------------------------------- how each is read


def _of_labels(fetched: Any, before: str = "", systems: Callable[[str], str] | None = None) -> Parcellation:
    """A label volume with nilearn's table of its labels; before : goes before names that are only numbers."""
    from nilearn.image import load_img

    image = load_img(fetched.maps)
    labels = labels_of(image)
    known = dict(zip(fetched.lut["index"].astype(int), fetched.lut["name"].map(_text), strict=True))
    names = _distinct([before + known.get(int(n), f"label-{n}") for n in labels])
    found = None if systems is None else [systems(name) for name in names]
    atlas = _atlas(names, label_coordinates(image, labels), found)
    return Parcellation("labels", atlas, fetched.maps, labels)


def _atlas(names: Sequence[str], places: np.ndarray, systems: Sequence[str] | None = None) -> Atlas:
    if systems is None:
        return Atlas(_distinct(names), places)
    words = [NO_SYSTEM if str(word).strip().lower() in NOWHERE else str(word).strip() for word in systems]
    colours = {system: colour for system, colour in SYSTEMS.items() if system in words}
    return Atlas(_distinct(names), places, np.array(words), colours)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered from the second on where one repeats."""
    out: list[str] = []
    for name in names:
        k, new = 2, name
        while new in out:
            k, new = k + 1, f"{name} {k}"
        out.append(new)
    return out


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _aal(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_aal

    found = _of_labels(fetch_atlas_aal("SPM12", data_dir=data_dir, verbose=0))
    ours = aal116()
    if len(found.atlas) != len(ours) or (places := places_of(found.atlas.names, ours.names)) is None:
        return found
    return Parcellation("labels", ours[places], found.image, found.labels)


def _aal3(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_aal

    return _of_labels(fetch_atlas_aal("3v2", data_dir=data_dir, verbose=0))


def _schaefer(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_schaefer_2018

    size, networks, mm = (int(words[name]) for name in ("n", "networks", "mm"))
    fetched = fetch_atlas_schaefer_2018(size, networks, mm, data_dir=data_dir, verbose=0)

    def system(name: str) -> str:  # of 7Networks_LH_Vis_1, 17Networks_RH_DefaultA_PFCm_3
        parts = name.split("_")
        return YEO.get(parts[2], parts[2]) if len(parts) > 3 else NO_SYSTEM

    return _of_labels(fetched, systems=system)


def _harvard_oxford(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_harvard_oxford

    name = "sub-maxprob-thr25-2mm" if words["which"] == "sub" else words["which"]
    fetched = fetch_atlas_harvard_oxford(name, data_dir=data_dir, verbose=0)
    if "-prob-" in name:
        names = [_text(label) for label in fetched.labels if label != "Background"]
        return Parcellation("maps", _atlas(names, map_coordinates(fetched.maps)), fetched.maps)
    return _of_labels(fetched)


def _juelich(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_juelich

    name = "maxprob-thr25-2mm"
    return _of_labels(fetch_atlas_juelich(name, data_dir=data_dir, symmetric_split=True, verbose=0))


def _destrieux(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_destrieux_2009

    return _of_labels(fetch_atlas_destrieux_2009(data_dir=data_dir, verbose=0))


def _basc(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_basc_multiscale_2015

    fetched = fetch_atlas_basc_multiscale_2015(resolution=int(words["n"]), data_dir=data_dir, verbose=0)
    return _of_labels(fetched, before="BASC ")


def _difumo(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_difumo

    fetched = fetch_atlas_difumo(int(words["n"]), int(words["mm"]), data_dir=data_dir, verbose=0)
    table = fetched.labels
    systems = [YEO.get(str(word).strip(), str(word)) for word in table["yeo_networks7"]]
    names = [str(name).strip() for name in table["difumo_names"]]
    return Parcellation("maps", _atlas(names, map_coordinates(fetched.maps), systems), fetched.maps)


def _msdl(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_atlas_msdl

    fetched = fetch_atlas_msdl(data_dir=data_dir, verbose=0)
    names = [_text(name) for name in fetched.labels]
    atlas = _atlas(names, np.asarray(fetched.region_coords, float), [_text(n) for n in fetched.networks])
    return Parcellation("maps", atlas, fetched.maps)


def _power(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_coords_power_2011

    rois = fetch_coords_power_2011().rois
    return spheres(_atlas([f"Power {n}" for n in rois["roi"]], rois[["x", "y", "z"]].to_numpy(float)))


def _dosenbach(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_coords_dosenbach_2010

    fetched = fetch_coords_dosenbach_2010(ordered_regions=False)  # as published, and as data sets have them
    places = np.asarray(fetched.rois[["x", "y", "z"]], float)
    names = [_text(name) for name in fetched.labels]
    return spheres(_atlas(names, places, [_text(network) for network in fetched.networks]))


def _seitzman(words: dict[str, str], data_dir: Any) -> Parcellation:
    from nilearn.datasets import fetch_coords_seitzman_2018

    fetched = fetch_coords_seitzman_2018(ordered_regions=False)
    names = [f"{_text(region)} {n}" for n, region in enumerate(fetched.regions, 1)]
    atlas = _atlas(names, np.asarray(fetched.rois, float), [_text(network) for network in fetched.networks])
    return spheres(atlas, np.asarray(fetched.radius, float))


SCHAEFER = "Schaefer2018_{n}Parcels_{networks}Networks_order"
SIZES = r"schaefer(?P<n>[1-9]00|1000)(-(?P<networks>7|17)(networks)?)?(-(?P<mm>[12])mm)?"
HARVARD = r"harvard-?oxford(-(?P<which>sub|(cortl?|sub)-(maxprob-thr(0|25|50)|prob)-[12]mm))?"
LATERAL = "destrieux2009_rois{}_lateralized"
NITRC = "https://www.nitrc.org/frs/download.php"
FAMILIES = (
    Family(
        "aal116", r"aal(116)?", _aal, "aal_SPM12", ("aal/atlas/AAL.nii", "aal/atlas/AAL.xml"),
        "https://www.gin.cnrs.fr/AAL_files/aal_for_SPM12.tar.gz",
    ),
    Family(
        "aal3", r"aal3", _aal3, "aal_3v2", ("AAL3/AAL3v1.nii", "AAL3/AAL3v1.xml"),
        "https://www.gin.cnrs.fr/wp-content/uploads/AAL3v2_for_SPM12.tar.gz",
    ),
    Family(
        "schaefer200", SIZES, _schaefer, "schaefer_2018",
        (f"{SCHAEFER}.txt", f"{SCHAEFER}_FSLMNI152_{{mm}}mm.nii.gz"),
        "https://github.com/ThomasYeoLab/CBIG (Schaefer2018_LocalGlobal/Parcellations/MNI)",
        (("networks", "7"), ("mm", "1")),
    ),
    Family(
        "harvard-oxford", HARVARD, _harvard_oxford, "fsl", ("its folder data/atlases",),
        f"{NITRC}/9902/HarvardOxford.tgz", (("which", "cortl-maxprob-thr25-2mm"),),
    ),
    Family(
        "juelich", r"juelich", _juelich, "fsl", ("its folder data/atlases",), f"{NITRC}/12096/Juelich.tgz"
    ),
    Family(
        "destrieux", r"destrieux(-?2009)?", _destrieux, "destrieux_2009",
        (f"{LATERAL.format('_labels')}.csv", f"{LATERAL.format('')}.nii.gz", "destrieux2009.rst"),
        f"{NITRC}/11942/destrieux2009.tgz",
    ),
    Family(
        "basc122", rf"basc(?P<n>{'|'.join(map(str, SCALES))})", _basc, "basc_multiscale_2015",
        ("its folder template_cambridge_basc_multiscale_nii_sym",),
        "https://ndownloader.figshare.com/files/1861819",
    ),
    Family(
        "difumo64", r"difumo(?P<n>64|128|256|512|1024)(-(?P<mm>[23])mm)?", _difumo, "difumo_atlases",
        ("{n}/labels_{n}_dictionary.csv", "{n}/{mm}mm/maps.nii.gz", "README.md"), "https://osf.io/4k9bf",
        (("mm", "2"),),
    ),
    Family(
        "msdl", r"msdl", _msdl, "msdl_atlas", ("MSDL_rois/msdl_rois_labels.csv", "MSDL_rois/msdl_rois.nii"),
        "https://team.inria.fr/parietal/files/2015/01/MSDL_rois.zip",
    ),
    Family("power264", r"power(264|-?2011)?", _power),
    Family("dosenbach160", r"dosenbach(160|-?2010)?", _dosenbach),
    Family("seitzman300", r"seitzman(300|-?2018)?", _seitzman),
)  # fmt: skip
