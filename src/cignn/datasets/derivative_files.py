"""Files of series and matrices in the folders of other programs: xcp_d, C-PAC, the pipelines of the HCP."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from cignn._checks import DataError, Option, name_some
from cignn.datasets.cifti_files import DENSE
from cignn.datasets.reading import all_named
from cignn.datasets.roi_files import ENDINGS, ending_of

PLACES = ("sub-*/**", "pipeline_*/sub-*/**", "*/MNINonLinear/Results/*")
SERIES = ("*_timeseries.tsv", "*_timeseries.csv", "*_timeseries.1D", "*_roi_stats.csv", "*.ptseries.nii")
MATRICES = ("*_relmat.tsv", "*_conmat.tsv", "*_correlations.tsv", "*.pconn.nii", "*.netcc")
# of these all files must have one value: an entity of their names → in words
ALIKE = {"atlas": "atlases", "space": "spaces", "desc": "kinds", "stat": "statistics"}
APART = ("sub", "ses", "run", "dir")  # in which the runs of a subject may differ
_HCP = re.compile(r"[a-z]*fMRI_(?P<task>[A-Za-z]+)(?P<run>\d*)(?:_7T)?(?:_(?P<dir>LR|RL|AP|PA))?")
CHOOSE = Option("files", advice="choose some by a pattern of their names with {}")


class Found(NamedTuple):
    """The files below a folder."""

    series: list[Path]
    matrices: list[Path]
    dense: list[Path]  # series of grayordinates, which need labels


def find_files(path: Path, pattern: str | None = None) -> Found:
    """Look for series and matrices in the places where other programs write them.

    pattern : of names, to choose among these files. If none of them fits, files with such names are looked
    for in all folders below, whatever program wrote them.
    """
    every = [file for place in PLACES for file in path.glob(f"{place}/*") if _may_be_read(file)]
    every = [file for file in every if pattern is None or file.match(pattern)]
    found = _told_apart(every, {file for file in every if _fits(file, SERIES)})
    if pattern is None or any(found):
        return found
    every = [file for file in path.rglob("*") if _may_be_read(file) and file.match(pattern)]
    return _told_apart(every, set(every))


def _told_apart(every: list[Path], series: set[Path]) -> Found:
    matrices = {file for file in every if _fits(file, MATRICES)}
    dense = {file for file in every if ending_of(file) == DENSE}
    return Found(all_named(series - matrices - dense), all_named(matrices), all_named(dense))


def _may_be_read(path: Path) -> bool:
    """Whether a file has a known ending, and is neither hidden nor a table of participants or regions."""
    return bool(ending_of(path)) and path.name[0] != "." and path.stem not in ("participants", "regions")


def _fits(path: Path, patterns: Sequence[str]) -> bool:
    """Whether a name fits, and is not that of confounds, which are series of no atlas."""
    if not any(fnmatchcase(path.name, pattern) for pattern in patterns):
        return False
    return "_timeseries." not in path.name or "atlas" in entities_of(path) or path.name.endswith(".nii")


def entities_of(path: Path) -> dict[str, str]:
    """Return the entities of a file's name, as BIDS or the HCP write them; ``seg`` is ``atlas`` too."""
    stem = path.name[: -len(ending_of(path)) or None]
    run = path.parent.name
    if path.parent.parent.name == "Results" and stem.startswith(run) and (found := _HCP.match(run)):
        about = {name: value for name, value in found.groupdict().items() if value}
        return about | {"desc": stem.removeprefix(run).removeprefix("_Atlas").strip("_") or "none"}
    parts = dict(part.split("-", 1) for part in stem.split("_") if "-" in part)
    return {"atlas": parts["seg"]} | parts if "seg" in parts else parts


def chosen_files(files: Sequence[Path], entities: Mapping[str, str], path: Path) -> list[Path]:
    """Keep the files with these entities, of one atlas, space and kind; of twins in two formats the text."""
    files = with_entities(files, entities, path)
    texts = {_key(file) for file in files if not file.name.endswith(".nii")}
    files = [file for file in files if not (file.name.endswith(".nii") and _key(file) in texts)]
    for name, words in ALIKE.items():
        values = sorted({entities_of(file).get(name, "none") for file in files})
        if len(values) > 1:
            raise DataError(
                f"{path} has files of {len(values)} {words} ({name_some(values)})",
                values=values,
                options=[Option("files", (_pattern(files, name),))],
            )
    return files


def _pattern(files: Sequence[Path], name: str) -> str:
    """A pattern of names that chooses one value of an entity, the first in the alphabet."""
    value, file = min((entities_of(file)[name], file) for file in files if name in entities_of(file))
    if file.parent.parent.name == "Results":  # of the HCP
        return f"*_Atlas_{value}.*" if value != "none" else "*_Atlas.*"
    key = name if f"_{name}-{value}" in file.name else "seg"
    return f"*_{key}-{value}_*" if f"-{value}_" in file.name else f"*_{key}-{value}.*"


def with_entities(files: Sequence[Path], entities: Mapping[str, str], path: Path) -> list[Path]:
    """Keep the files whose names have these entities."""
    kept = list(files)
    for name, value in entities.items():
        have = sorted({entities_of(file).get(name, "none") for file in kept})
        kept = [file for file in kept if entities_of(file).get(name) == str(value)]
        if not kept:
            problem = f"{path} has no file with {name}-{value}, only {name_some(have)}"
            raise DataError(problem, values=have, options=[Option("entities", advice="change {}")])
    return kept


def matching(files: Sequence[Path], pattern: str | None, path: Path) -> list[Path]:
    """Keep the files whose names fit a pattern."""
    kept = [file for file in files if pattern is None or file.match(pattern)]
    if files and not kept:
        problem = f"{path} has no file {pattern}, only {name_some(file.name for file in files)}"
        raise DataError(problem, options=[Option("files", advice="change {}")])
    return kept


def _key(path: Path) -> tuple:
    """What twins share: xcp_d writes the same series as .tsv and as .ptseries.nii, which has a density."""
    about = entities_of(path)
    return (path.parent, *sorted((name, value) for name, value in about.items() if name != "den"))


def check_runs(subjects: Sequence[str], files: Sequence[Path], folder: Path) -> None:
    """Refuse to put files of a subject one after the other that differ in more than session and run."""
    first: dict[str, Path] = {}
    for subject, file in zip(subjects, files, strict=True):
        one, other = entities_of(first.setdefault(subject, file)), entities_of(file)
        odd = [name for name in one | other if one.get(name) != other.get(name) and name not in APART]
        lacking = [name for name in ("ses", "run", "dir") if (name in one) != (name in other)]
        if odd or lacking:
            name = (odd or lacking)[0]
            raise DataError(
                f"files of {subject} are not runs of one kind: {first[subject].name} and {file.name} differ "
                f"in {name}",
                subjects=[subject],
                options=[CHOOSE],
                source=folder,
            )


def no_files(folder: Path, kinds: Sequence[str]) -> DataError:
    """Say that a folder has no file that is read; kinds : of CIFTI that it has instead."""
    if kinds:
        read = ", ".join(ending for ending in ENDINGS if ending.endswith(".nii"))
        problem = f"{folder} holds CIFTI of kinds that are not read ({name_some(kinds)})"
        return DataError(problem, values=kinds, remedy=f"give {read}")
    deeper = any(ending_of(file) for file in folder.rglob("*"))
    advice = "; put those of the folders below into this one" if deeper else ""
    return DataError(f"{folder} holds no file with an ending of {', '.join(ENDINGS)}{advice}")
