"""Where the paper's data are, how to get those that are not there, and small stand-ins that need none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cignn._words import nearest
from cignn.datasets import (
    Cohort,
    load_abide,
    load_ba2motifs,
    load_rest_meta_mdd,
    load_srpbs,
    load_tu,
    make_ba2motifs,
    make_cohort,
)
from cignn.graphs import GraphSet

FEW = 48  # graphs or subjects of a smoke run
LEAST = 10  # of each class; less is a format example, not a data set


@dataclass(frozen=True)
class Source:
    """A data set of the paper: where it lies below the data folder, how to read it and how to get it."""

    path: str
    load: Callable[..., Any]
    how_to_get: str
    stand_in: Callable[[], Any]


class Loaded(NamedTuple):
    """What could be read, and for each data set that could not the reason and how to get it."""

    sets: dict[str, Any]
    missing: dict[str, str]


def _brain(seed: int) -> Callable[[], Cohort]:
    return lambda: make_cohort(FEW, 12, n_edges=4, effect=0.8, lengths=(40, 60), random_state=seed)


def _motifs(seed: int) -> Callable[[], GraphSet]:
    return lambda: make_ba2motifs(FEW, random_state=seed)


def _tu(name: str, seed: int) -> Source:
    how = f"unpack https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip as tu/{name} in the data folder"
    return Source(f"tu/{name}", load_tu, how, _motifs(seed))


SOURCES: dict[str, Source] = {
    "BA-2Motifs": Source(
        "ba2motifs.npz",
        load_ba2motifs,
        "the published BA-2Motifs graphs as ba2motifs.npz (adj, x, y) in the data folder, see load_ba2motifs",
        _motifs(0),
    ),
    "ABIDE": Source(
        "abide",
        partial(load_abide, selection="paper", merge_sites=True),
        'load_abide("abide", download=True) in the data folder; free, without registration',
        _brain(1),
    ),
    "REST-meta-MDD": Source(
        "rest_meta_mdd",
        partial(load_rest_meta_mdd, selection="paper"),
        "apply at http://rfmri.org/REST-meta-MDD, unpack the series into rest_meta_mdd in the data folder",
        _brain(2),
    ),
    "SRPBS": Source(
        "srpbs",
        partial(load_srpbs, selection="paper"),
        "register at https://bicr-resource.atr.jp/srpbs1600, extract AAL series with RoiSeries into srpbs",
        _brain(3),
    ),
    "MUTAG": _tu("MUTAG", 4),
    "PROTEINS": _tu("PROTEINS", 5),
    "NCI1": _tu("NCI1", 6),
}


def data_folder(data: str | Path | None) -> Path | None:
    """Return the folder given, or the one the environment variable CIGNN_DATA names."""
    where = data if data is not None else os.environ.get("CIGNN_DATA")
    return None if where is None else Path(where)


def load_sets(
    names: tuple[str, ...],
    data: str | Path | Mapping[str, Any] | None,
    scale: str,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Loaded:
    """Read data sets by their names in the paper.

    data : the data folder; or name → `GraphSet`, `Cohort` or path, sets not named being missing; None for
        CIGNN_DATA at full scale and for simulated stand-ins of all sets at smoke scale
    scale : "smoke" takes a few graphs or subjects of each
    options : name → options of its loader
    """
    if isinstance(data, Mapping):
        unknown = [name for name in data if name not in SOURCES]
        if unknown:
            raise ValueError(f"the paper has no data {unknown[0]!r}{nearest(unknown[0], SOURCES)}")
    elif data is not None and not Path(data).is_dir():
        raise FileNotFoundError(f"the data folder {data} does not exist; give one or set CIGNN_DATA.")
    sets, missing = {}, {}
    for name in names:
        try:
            found = _load(name, data, scale, (options or {}).get(name, {}))
            _check(found)
            sets[name] = few(found) if scale == "smoke" else found
        except (FileNotFoundError, ValueError, OSError) as error:
            line = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            missing[name] = f"{line}. To get it: {SOURCES[name].how_to_get}."
    return Loaded(sets, missing)


def _load(name: str, data: Any, scale: str, options: Mapping[str, Any]) -> Any:
    source = SOURCES[name]
    if isinstance(data, Mapping):
        if name not in data:
            raise FileNotFoundError("not among the data given")
        given = data[name]
        return source.load(Path(given), **options) if isinstance(given, (str, Path)) else given
    if data is None and scale == "smoke":
        return source.stand_in()
    folder = data_folder(data)
    if folder is None:
        raise FileNotFoundError("no data folder; pass data= or set CIGNN_DATA")
    path = folder / source.path
    if not path.exists():
        raise FileNotFoundError(f"{source.path} is not in the data folder")
    return source.load(path, **options)


def _check(found: Any) -> None:
    if not isinstance(found, (GraphSet, Cohort)):
        raise ValueError(f"expected a GraphSet or a Cohort, got {type(found).__name__}")
    labels, counts = np.unique(np.asarray(found.y), return_counts=True)
    if len(labels) < 2 or counts.min() < LEAST:
        raise ValueError(f"it holds {len(found)} graphs or subjects, fewer than {LEAST} of a class")


def few(found: Any, n: int = FEW) -> Any:
    """Return about ``n`` graphs or subjects, as many of each class, of at most three sites."""
    if len(found) <= n:
        return found
    index = np.arange(len(found))
    sites = getattr(found, "sites", None)
    if sites is not None and len(np.unique(sites)) > 1:
        values, counts = np.unique(sites, return_counts=True)
        index = index[np.isin(sites, values[np.argsort(-counts, kind="stable")[:3]])]
    y, site = np.asarray(found.y)[index], None if sites is None else sites[index]
    cells = [(label, s) for label in np.unique(y) for s in ([None] if site is None else np.unique(site))]
    share = max(1, n // len(cells))
    chosen = [index[(y == label) & (True if s is None else site == s)][:share] for label, s in cells]
    return found[np.sort(np.concatenate(chosen))]
