"""What is damaged: for each reader its samples, how to read them, and what must hold of an answer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.torch import save

from campaigns.fuzzing import seeds
from campaigns.fuzzing.checks import (
    check_chances,
    check_cohort,
    check_digest,
    check_graphs,
    check_json,
    check_rows,
    check_same,
    check_shapes,
    check_store,
)
from campaigns.fuzzing.commands import run_command
from campaigns.fuzzing.containers import reseal
from campaigns.fuzzing.readers import Files, Reader, Samples
from cignn import Cohort, CohortClassifier, GraphSet, load_cohort, load_model
from cignn.connectome import ComBat, Connectivity
from cignn.datasets import Atlas, load_abide, load_ba2motifs, load_rest_meta_mdd, load_srpbs, load_tu
from cignn.estimators import make_estimator
from cignn.estimators.checkpoint import _checksum
from cignn.evaluation.store import FILE, Store
from cignn.evaluation.store_file import TABLES, checksum, rows_of

# -------------------------------------------------------------------------------- cohorts


def read_study(folder: Path) -> Cohort:
    """Read as the commands do: with the regions beside the table."""
    regions = folder / "regions.csv"
    atlas = Atlas.from_table(regions) if regions.exists() else None
    return load_cohort(folder, atlas=atlas, n_jobs=1)


def read_npz(folder: Path) -> Cohort:
    """Read the one archive."""
    return load_cohort(folder / "study.npz")


def read_arrays(folder: Path) -> Cohort:
    """Read a folder of arrays, and all that stays on disk."""
    found = load_cohort(folder)
    if found.series is not None:
        return found._with(series=list(found.series))
    return found._with(matrices=np.asarray(found.matrices))


def read_mdd(folder: Path) -> Cohort:
    """Read with the table of people."""
    return load_rest_meta_mdd(folder, participants=folder / "people.csv", columns=slice(0, seeds.R), n_jobs=1)


def read_abide(folder: Path) -> Cohort:
    """Read either form."""
    return load_abide(folder, n_jobs=1)


# --------------------------------------------------------------------------------- models


def read_model(folder: Path) -> np.ndarray:
    """Load and predict."""
    fitted = load_model(folder)
    data: Any = seeds.cohort() if isinstance(fitted, CohortClassifier) else seeds.graphs()
    chances = fitted.predict_proba(data)
    fitted.predict(data)
    fitted.trained_on(data)
    return chances


def read_checkpoint(folder: Path) -> np.ndarray:
    """Go on with a training, or find that it had finished."""
    path = folder / seeds.CHECKPOINT
    estimator = make_estimator("ci-gnn", **seeds.TINY, n_estimators=1, checkpoint=path)
    return estimator.fit(seeds.graphs()).predict_proba(seeds.graphs())


def seal_checkpoint(folder: Path) -> None:
    """Write the checksum of what a checkpoint holds now."""
    path = folder / seeds.CHECKPOINT
    with safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in list(file.keys())}
    path.write_bytes(save(tensors, metadata | {"checksum": _checksum(metadata, tensors)}))


# ---------------------------------------------------------------------------------- store


def read_store(folder: Path) -> dict[str, pd.DataFrame]:
    """Read all that an evaluation left."""
    with Store(folder) as store:
        tables = {"tasks": store.tasks(), "results": store.results(), "predictions": store.predictions()}
        store.status(list(tables["tasks"]["key"]))
    return tables


def seal_store(folder: Path) -> None:
    """Write the checksums of what a store holds now."""
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as db:
        for (key,) in db.execute("SELECT key FROM tasks").fetchall():
            sums = [checksum(rows_of(db, name, key)) for name in TABLES]
            db.execute("REPLACE INTO checksums VALUES (?, ?, ?, ?)", [key, *sums])
        db.execute("DELETE FROM checksums WHERE key NOT IN (SELECT key FROM tasks)")


# ------------------------------------------------------------------------------- commands


def read_config(folder: Path) -> str:
    """Train as a file of settings says."""
    return run_command(folder, ["fit", "study", "--config", "run.toml", "--json"])


def read_beside(folder: Path) -> str:
    """Predict with a model that has the settings of its training beside it."""
    return run_command(folder, ["predict", "model", "study", "--json"])


def read_words(folder: Path) -> str:
    """Run the words of a command line."""
    return run_command(folder, json.loads((folder / "line.words").read_text()))


# ------------------------------------------------------- samples: functions that make them


def _fixed(*samples: Files) -> Samples:
    return lambda folder: list(samples)


def _studies(*endings: str) -> Samples:
    """Series in each of the formats, and matrices in the first."""
    return _fixed(*map(seeds.study, endings), seeds.study(endings[0], "matrices"))


def _trained(*estimators: Callable[[], Any], cohort: bool = False) -> Samples:
    def make(folder: Path) -> list[Files]:
        out = []
        for make_one in estimators:
            with TemporaryDirectory(dir=folder) as place:
                out.append(seeds.model(make_one(), seeds.cohort() if cohort else seeds.graphs(), Path(place)))
        return out

    return make


def _made(make: Callable[[Path], Files]) -> Samples:
    def samples(folder: Path) -> list[Files]:
        with TemporaryDirectory(dir=folder) as place:
            return [make(Path(place))]

    return samples


def _with_command(name: str, *contents: bytes) -> Samples:
    """A study, a model trained on it, and the file that is damaged."""

    def samples(folder: Path) -> list[Files]:
        study = {f"study/{file}": content for file, content in seeds.study(".npy").items()}
        del study["study/regions.csv"]
        with TemporaryDirectory(dir=folder) as place:
            fitted = seeds.model(
                CohortClassifier.make(make_estimator("linear-svm", random_state=0)),
                seeds.cohort(),
                Path(place),
            )
        model = {f"model/{file}": content for file, content in fitted.items()}
        return [study | model | {name: content} for content in contents]

    return samples


def _tiny(**more: Any) -> Callable[[], Any]:
    return lambda: make_estimator("ci-gnn", **(seeds.TINY | more))


def _named(name: str, **more: Any) -> Callable[[], Any]:
    return lambda: make_estimator(name, random_state=0, **more)


def _prepared(classifier: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: CohortClassifier.make(
        classifier(), connectivity=Connectivity("tangent"), combat=ComBat(("age", "sex"))
    )


def _npz(**arrays: Any) -> Files:
    return {"study.npz": seeds.as_npz(**arrays, label=seeds.LABELS, site=seeds.SITES, subject=seeds.IDS)}


_STACK = np.concatenate(seeds.series())
_EQUAL = np.stack([one[:30] for one in seeds.series()])
_LENGTHS = [len(one) for one in seeds.series()]
_COMMANDS = [*seeds.WORDS, *([*seeds.NETWORK, "--set", word] for word in seeds.UNTRAINED)]

_NETWORKS = _trained(_tiny(n_estimators=1), _named("gin", epochs=1, hidden=(4,)))
_SHALLOW = _trained(_named("linear-svm"), _named("random-forest", n_estimators=3))
_PREPARED = _trained(_prepared(_tiny(n_estimators=1)), _prepared(_named("lasso")), cohort=True)
_ARCHIVES = _fixed(
    _npz(series=_STACK, lengths=_LENGTHS), _npz(series=_EQUAL), _npz(matrices=seeds.matrices())
)


_FOLDERS = _fixed(
    seeds.as_npy(series=_STACK, lengths=_LENGTHS),
    seeds.as_npy(series=_EQUAL),
    seeds.as_npy(matrices=seeds.matrices()),
)


def _cohort(weight: int, samples: Samples, read: Callable[[Path], Cohort], part: str = "") -> Reader:
    """part : "files" of subjects alone, the "tables" beside them, "data" without labels and names, or all."""
    wanted = {
        "files": lambda name: "/" in name,
        "tables": lambda name: "/" not in name,
        "data": lambda name: name not in ("label.npy", "subject.npy"),
    }
    return Reader(samples, read, check_cohort, weight, wanted.get(part, lambda name: True))


def _graphs(weight: int, samples: Samples, read: Callable[[Path], Any]) -> Reader:
    return Reader(samples, read, check_graphs, weight)


def _model(weight: int, samples: Samples) -> Reader:
    return Reader(samples, read_model, check_chances, weight, seal=reseal, unsealed=check_same)


def _command(weight: int, file: str, read: Callable[[Path], str], *contents: bytes) -> Reader:
    return Reader(_with_command(file, *contents), read, check_json, weight, lambda name: name == file)


TARGETS: dict[str, Reader] = {
    "cohort-text": _cohort(10, _studies(".csv", ".tsv", ".txt", ".1D"), read_study, "files"),
    "cohort-npy": _cohort(8, _studies(".npy"), read_study, "files"),
    "cohort-mat": _cohort(2, _studies(".mat"), read_study, "files"),
    "cohort-table": _cohort(12, _studies(".npy"), read_study, "tables"),
    "cohort-npz": _cohort(14, _ARCHIVES, read_npz),
    "cohort-saved": Reader(_made(seeds.saved_cohort), read_npz, check_shapes, 8),
    "cohort-arrays": _cohort(6, _FOLDERS, read_arrays, "data"),
    "cohort-mapped": Reader(_made(seeds.mapped_cohort), read_arrays, check_digest, 6),
    "graphs-mapped": Reader(_made(seeds.mapped_graphs), GraphSet.load, check_digest, 4),
    "graphs-arrays": Reader(
        _made(seeds.graph_arrays), GraphSet.load, check_graphs, 4, lambda name: name != "y.npy"
    ),
    "abide": _cohort(8, _fixed(*seeds.abide()), read_abide),
    "rest-meta-mdd": _cohort(2, _fixed(seeds.rest_meta_mdd()), read_mdd),
    "srpbs": _cohort(4, _fixed(seeds.srpbs()), load_srpbs),
    "ba2motifs": _graphs(5, _fixed(seeds.ba2motifs()), load_ba2motifs),
    "tu": _graphs(8, _fixed(seeds.tu(False), seeds.tu(True)), load_tu),
    "model-network": _model(5, _NETWORKS),
    "model-ensemble": _model(4, _trained(_tiny(n_estimators=2))),
    "model-shallow": _model(4, _SHALLOW),
    "model-cohort": _model(6, _PREPARED),
    "checkpoint": Reader(
        seeds.checkpoints, read_checkpoint, check_chances, 4, seal=seal_checkpoint, unsealed=check_same
    ),
    "store": Reader(_made(seeds.store), read_store, check_store, 6, seal=seal_store, unsealed=check_rows),
    "settings-config": _command(2, "run.toml", read_config, seeds.SETTINGS),
    "settings-beside": _command(2, "model/settings.toml", read_beside, seeds.SETTINGS),
    "settings-words": _command(3, "line.words", read_words, *map(seeds.words, _COMMANDS)),
}
