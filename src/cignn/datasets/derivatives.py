"""Cohorts from the scans that fMRIPrep leaves in a BIDS-derivatives folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from cignn._words import name_some
from cignn.datasets import participants as people
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_checks import Checks
from cignn.datasets.reading import all_named


def holds_scans(path: Path) -> bool:
    """Whether a folder holds scans rather than series or matrices."""
    if any((path / kind).is_dir() for kind in ("series", "matrices")):
        return False
    return next(path.glob("sub-*/**/*_bold.nii*"), None) is not None


def from_scans(
    path: Path,
    label: str | None,
    participants: str | Path | pd.DataFrame | None,
    extract: Any,
    entities: dict[str, str],
    rules: Checks,
) -> Cohort:
    """Find fMRIPrep's scans, have their series extracted and say whose they are."""
    if extract is None:
        raise ValueError(
            f"{path} holds scans, not series; pass extract=RoiSeries(atlas=…) (cignn.connectome)."
        )
    frame, source = people.participants_table(participants, [path, path.parent, path.parent.parent])
    people.labels(frame, label, source)
    frame = people.unique_ids(frame, source, rules)
    scans = _choose_scans(path, entities)
    matched = people.files_of(frame["participant_id"].tolist(), scans)
    chosen = people.one_file_each(
        matched, scans, path, source, rules, "entities={'task': …, 'ses': …, 'run': …} or "
    )
    frame = frame[frame["participant_id"].isin(chosen)].reset_index(drop=True)
    cohort = extract.transform([str(chosen[name]) for name in frame["participant_id"]])
    by_id = {people.bare(name): i for i, name in enumerate(frame["participant_id"])}
    rows = [by_id[people.bare(name)] for name in cohort.subjects]  # a scan that failed is not among them
    return cohort._with(**people.describe(frame.iloc[rows].reset_index(drop=True), label, source))


def _choose_scans(path: Path, entities: dict[str, str]) -> list[Path]:
    scans = all_named(path.glob("sub-*/**/*_desc-preproc_bold.nii.gz"))
    scans = [scan for scan in scans if "_space-" in scan.name]
    if not scans:
        raise ValueError(
            f"{path} holds no sub-*/…_space-…_desc-preproc_bold.nii.gz; give the folder that fMRIPrep wrote."
        )
    for entity, value in entities.items():
        kept = [scan for scan in scans if _entity(scan, entity) == str(value)]
        if not kept:
            have = name_some(sorted({str(_entity(scan, entity)) for scan in scans}))
            raise ValueError(f"{path} has no scan with {entity}-{value}, only {have}; change entities=.")
        scans = kept
    spaces = sorted({str(_entity(scan, "space")) for scan in scans})
    if len(spaces) > 1:
        raise ValueError(
            f"{path} has scans in {len(spaces)} spaces ({name_some(spaces)}); pass entities={{'space': …}}."
        )
    return scans


def _entity(path: Path, name: str) -> str | None:
    parts = dict(part.split("-", 1) for part in path.name.split("_") if "-" in part)
    return parts.get(name)
