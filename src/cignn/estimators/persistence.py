"""Models on disk: a folder of `config.json` and the files it lists with their sizes and checksums.

Weights are `model.safetensors`, shallow models `model.skops`; nothing is ever unpickled. A model made of
others, such as a fusion, lists the configs of its parts in its own, and their files have a number before
their name: `part0.model.skops`.

A model is replaced inside its folder, which may be a mount point or behind a link. New files are written
beside the old ones under temporary names first. Replacing `config.json` is the commit: before it, the old
config lists the old files; after it, the new config lists the new ones, which are found under their final or
their temporary names. A process killed at any moment therefore leaves a complete model.
"""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cignn._arrays import digest, sha256
from cignn._files import locked, replacing, unwritten
from cignn.estimators.model_card import CARD, Described, model_card
from cignn.explanations import EdgeReference
from cignn.explanations.pooling import Pool
from cignn.graphs.edge_statistics import EdgeStatistics

FORMAT = "cignn model"
FORMAT_VERSION = 6
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PIPELINE = "model.skops"
PREPARATION = "preparation.json"
REFERENCE = "preparation.safetensors"
CONNECTIONS = "connections.safetensors"  # their statistics in the training graphs and their controls
SETTINGS = "settings.toml"  # options of the command line
STATISTICS = ("centre", "scale", "mean", "std")  # what it holds
POOL = "pool.safetensors"  # connections whose contributions are pooled
CONTENTS = (WEIGHTS, PIPELINE, PREPARATION, REFERENCE, CONNECTIONS, POOL)
FILES = (CONFIG, *CONTENTS, SETTINGS, CARD)
LARGEST_CONFIG = 2**28  # bytes
TRIES = 2
# types in our pipelines that skops does not trust by default
TRUSTED = [
    "cignn.estimators.graph_vectors.GraphVectors",
    "cignn.estimators.predictive_model.ConnectomePredictiveModel",
    "cignn.estimators.sparse_regression.SparseLogisticRegression",
    "sklearn.tree._tree.Tree",
]
_NAME = rf"(part\d{{1,3}}\.){{0,4}}({'|'.join(map(re.escape, CONTENTS))})|{'|'.join(map(re.escape, FILES))}"
_FILE = re.compile(_NAME)
# files under temporary names, and those that `check_model_path` writes to test a folder
_WAITING = re.compile(rf"({_NAME})\.[0-9a-f]{{16}}\.new|\.cignn-.*")


class ModelError(ValueError):
    """A model folder that cannot be used; the message names the file and says what to do."""


class Saved(NamedTuple):
    """A model folder as it was read: its path, its config, and the content of its files."""

    path: Path
    config: dict[str, Any]
    files: dict[str, bytes]
    prefix: str = ""  # of the names of its files, where it is part of another model

    def content(self, name: str) -> bytes:
        """Return the content of a file that the model needs."""
        if name not in self.files:
            raise ModelError(f"{self.path} is not a whole model folder: {self.prefix}{name} is missing.")
        return self.files[name]

    def place(self, name: str) -> Path:
        """Return the path of one of its files."""
        return self.path / f"{self.prefix}{name}"

    def parts(self) -> list[Saved]:
        """Return the models that this one is made of."""
        configs = self.config.get("parts", [])
        if not isinstance(configs, list) or not all(isinstance(one, dict) for one in configs):
            raise ValueError("its parts are no list of configs")
        return [
            Saved(self.path, one, part_files(self.files, i), f"{self.prefix}{_part(i)}")
            for i, one in enumerate(configs)
        ]


class Packed(NamedTuple):
    """A model as it is saved: what it says of itself, and the content of its files."""

    config: dict[str, Any]
    files: dict[str, bytes]

    def with_parts(self, parts: Sequence[Packed]) -> Packed:
        """Return it with the models that it is made of."""
        files = {f"{_part(i)}{name}": one for i, part in enumerate(parts) for name, one in part.files.items()}
        return Packed(self.config | {"parts": [part.config for part in parts]}, self.files | files)


def _part(i: int) -> str:
    return f"part{i}."


def part_files(files: Mapping[str, bytes], i: int) -> dict[str, bytes]:
    """Return the files of a part, by their own names."""
    return {name.removeprefix(_part(i)): one for name, one in files.items() if name.startswith(_part(i))}


# ----------------------------------------------------------------------- writing


def write_folder(
    path: str | Path,
    config: Mapping[str, Any],
    files: Mapping[str, bytes],
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write a model folder or replace the model in it; interrupted, it leaves the old model or the new one.

    Parameters
    ----------
    path : str or Path
        The folder, made where it is missing.
    config : mapping
        What the model says of itself, as plain data.
    files : mapping of str to bytes
        The content of the model's files, by their names.
    notes : mapping of str to str, optional
        Text kept beside the model as ``settings.toml``, and its model card, ``MODEL_CARD.md``; without one,
        a card is written. They may be edited later: reading does not verify them.
    """
    folder = check_model_path(path)
    texts = {name: text.encode() for name, text in (notes or {}).items()}
    if wrong := sorted(set(texts) - {SETTINGS, CARD}):
        raise ValueError(f"notes of a model are kept as {SETTINGS} or {CARD} only, got {wrong[0]!r}.")
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "versions": _versions()}
    config = header | dict(config)
    texts = {CARD: card_text(config, files).encode()} | texts
    config |= {"files": _listed(files), "notes": _listed(texts)}
    contents = {**files, **texts, CONFIG: sealed(config)}
    waiting = {name: folder / _waiting(name, sha256(content)) for name, content in contents.items()}
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            _finish(folder)
            for name, content in contents.items():
                with replacing(waiting[name]) as new:
                    new.write_bytes(content)
            os.replace(waiting[CONFIG], folder / CONFIG)
            waiting = {}  # from here on they are the model
            _settle(folder, config)
    except BaseException as error:
        for place in waiting.values():
            with suppress(OSError):
                place.unlink()
        for one in made:
            with suppress(OSError):
                one.rmdir()
        if isinstance(error, OSError):
            raise unwritten(path, error) from error
        raise


def steps_in(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Return the steps before the classifier, as the files of a model describe them."""
    content = json.loads(files[PREPARATION]) if PREPARATION in files else {}
    return [one for one in content.get("steps", []) if isinstance(one, dict)]


def card_text(config: Mapping[str, Any], files: Mapping[str, bytes], scores: Sequence[str] = ()) -> str:
    """Return the card of a model; scores : lines about an evaluation."""
    return model_card(_described(config, files), scores)


def _described(config: Mapping[str, Any], files: Mapping[str, bytes]) -> Described:
    parts = [_described(one, part_files(files, i)) for i, one in enumerate(config.get("parts", []))]
    return Described(config, steps_in(files), parts)


def weight_bytes(weights: Mapping[str, Tensor]) -> bytes:
    """Return tensors as a safetensors file."""
    return save({name: value.detach().cpu().contiguous() for name, value in weights.items()})


def connection_bytes(statistics: EdgeStatistics, reference: EdgeReference) -> bytes:
    """Return statistics of connections in training graphs, and in their controls, as a safetensors file."""
    arrays = {**statistics._asdict(), "mean": reference.mean, "std": reference.std}
    return weight_bytes({name: torch.from_numpy(np.nan_to_num(values)) for name, values in arrays.items()})


def pool_bytes(pool: Pool) -> bytes:
    """Return a pool of connections as a safetensors file."""
    return weight_bytes({name: torch.from_numpy(np.asarray(one)) for name, one in pool._asdict().items()})


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return plain data, and numpy's numbers and arrays, as JSON."""
    return (json.dumps(content, indent=2, default=_plain) + "\n").encode()


def sealed(config: Mapping[str, Any]) -> bytes:
    """Return a config as JSON with a checksum of its content."""
    content = json.loads(json_bytes(config))
    return json_bytes(content | {"checksum": _checksum(content)})


def check_model_path(path: str | Path) -> Path:
    """Refuse a path that holds anything but a model or cannot be written; nothing is left behind.

    Called before a training, whose result would be lost otherwise.
    """
    path = Path(path)
    try:
        there = path.exists()
        if (there or path.is_symlink()) and not _replaceable(path):
            raise ValueError(f"{path} exists and is not a model folder; choose another path.")
        made = [one for one in (path, *path.parents) if not one.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path, prefix=".cignn-"):
                pass
        finally:
            for one in made:
                with suppress(OSError):
                    one.rmdir()
    except OSError as error:
        raise unwritten(path, error) from error
    return path


def _replaceable(path: Path) -> bool:
    """Whether a folder is empty or holds a model, whole or damaged, and nothing else."""
    if not path.is_dir():
        return False
    if not all(_FILE.fullmatch(item.name) or _WAITING.fullmatch(item.name) for item in path.iterdir()):
        return False
    try:
        config = json.loads((path / CONFIG).read_bytes()) if (path / CONFIG).is_file() else None
    except (OSError, ValueError, RecursionError):
        config = None
    if config is None:
        return not (path / CONFIG).exists() or (path / CONFIG).is_file()
    return isinstance(config, dict) and config.get("format") == FORMAT


def _settle(folder: Path, config: Mapping[str, Any]) -> None:
    """Give the files of a config their final names and remove those of older models."""
    listed = config["files"] | config["notes"]
    for name, facts in listed.items():
        with suppress(OSError):
            os.replace(folder / _waiting(name, facts["sha256"]), folder / name)
    for item in list(folder.iterdir()):
        old = _FILE.fullmatch(item.name) and item.name not in {CONFIG, *listed}
        if old or _WAITING.fullmatch(item.name):
            with suppress(OSError):
                item.unlink()


def _finish(folder: Path) -> None:
    """Complete the save of a process that was killed."""
    with suppress(OSError, ModelError):
        _settle(folder, read_config(folder))


# ----------------------------------------------------------------------- reading


def read_folder(path: str | Path, tries: int = TRIES) -> Saved:
    """Read a model folder; refuses a damaged, foreign, older or newer one.

    tries : how often to read again a model that looks damaged but may just have been replaced, by itself too.
    """
    path = Path(path)
    config = read_config(path)
    try:
        files = {name: _read(path, name, facts) for name, facts in config["files"].items()}
    except ModelError:
        if read_config(path)["checksum"] != config["checksum"]:  # another process has just replaced it
            return read_folder(path)
        if tries:
            return read_folder(path, tries - 1)
        raise
    if any(_WAITING.fullmatch(item.name) for item in path.iterdir()):
        with locked(path) as alone:
            if alone:
                _finish(path)
    return Saved(path, config, files)


def read_config(path: Path) -> dict[str, Any]:
    """Read what a model folder says of itself; refuses a damaged, foreign, older or newer one."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no model folder at {path}.")
    file = path / CONFIG
    if not file.is_file():
        raise ModelError(f"{path} is not a whole model folder: {CONFIG} is missing.")
    if file.stat().st_size > LARGEST_CONFIG:
        raise ModelError(f"{file} is damaged (it is larger than any config); save the model again.")
    config = parsed(file.read_bytes(), file)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ModelError(f"{path} was not written by cignn.")
    version = config.get("format_version")
    if not isinstance(version, int):
        raise ModelError(f"{file} is damaged (no format_version); save the model again.")
    if version != FORMAT_VERSION:
        age, remedy = (
            ("a newer", "upgrade cignn") if version > FORMAT_VERSION else ("an older", "fit it again")
        )
        raise ModelError(
            f"{path} was written by {age} cignn (format {version}, this one reads {FORMAT_VERSION}); "
            f"{remedy}."
        )
    if config.get("checksum") != _checksum(config) or not _is_listing(config):
        raise ModelError(f"{file} is damaged or was changed (its checksum is another); save the model again.")
    return config


def parsed(content: bytes, file: Path) -> Any:
    """Parse JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is damaged ({first_line(error)}); save the model again.") from None


def read_weights(saved: Saved, name: str = WEIGHTS) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file of a model; refuse values that are not finite."""
    content = saved.content(name)
    try:
        weights = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        line = first_line(error)
        raise ModelError(f"{saved.place(name)} is damaged ({line}); save the model again.") from None
    bad = next((key for key, value in weights.items() if not value.isfinite().all()), None)
    if bad is not None:
        raise ModelError(
            f"{saved.place(name)} holds weights that are not finite ({bad}); fit the model again."
        )
    return weights


def read_connections(saved: Saved, n: int | None, control: str) -> tuple[EdgeStatistics, EdgeReference]:
    """Return what `connection_bytes` wrote of graphs of n nodes; control : the name of their controls."""
    arrays = {name: values.numpy() for name, values in read_weights(saved, CONNECTIONS).items()}
    if {name: values.shape for name, values in arrays.items()} != dict.fromkeys(STATISTICS, (n, n)):
        raise ValueError(f"{CONNECTIONS} does not hold {', '.join(STATISTICS)} of {n} nodes")
    centre, scale, mean, std = (arrays[name] for name in STATISTICS)
    return EdgeStatistics(centre, scale), EdgeReference(mean, std, control)


def read_pool(saved: Saved, n: int | None) -> Pool:
    """Return what `pool_bytes` wrote of graphs of n nodes."""
    arrays = {name: values.numpy() for name, values in read_weights(saved, POOL).items()}
    if n is None or arrays.keys() != set(Pool._fields):
        raise ValueError(f"{POOL} does not hold {', '.join(Pool._fields)} of aligned graphs")
    pool, e, m = Pool(**arrays), n * (n - 1) // 2, arrays["edges"].size
    shapes = Pool((m,), (m,), (m, m), (e,), (e,), (e,))  # type: ignore[arg-type]
    kinds = "ibffff"
    for name, values, shape, kind in zip(Pool._fields, pool, shapes, kinds, strict=True):
        if values.shape != shape or values.dtype.kind != kind:
            raise ValueError(f"{name} in {POOL} has shape {values.shape} of {values.dtype}, not {shape}")
    if len(np.unique(pool.edges)) < m or not ((pool.edges >= 0) & (pool.edges < e)).all():
        raise ValueError(f"edges in {POOL} are not numbers of {e} connections, each once")
    if (pool.std <= 0).any() or ((pool.reliability < 0) | (pool.reliability > 1)).any():
        raise ValueError(f"std or reliability in {POOL} is out of range")
    return pool


def read_pipeline(saved: Saved) -> Any:
    """Return the pipeline of a model; refuse types that are not in `TRUSTED`."""
    import skops.io

    file, content = saved.place(PIPELINE), saved.content(PIPELINE)
    try:
        unknown = set(skops.io.get_untrusted_types(data=content)) - set(TRUSTED)
        pipeline = None if unknown else skops.io.loads(content, trusted=TRUSTED)
    except Exception as error:  # a damaged archive fails in any part of skops
        raise ModelError(f"{file} is damaged ({first_line(error)}); save the model again.") from None
    if unknown:
        raise ModelError(
            f"{file} was not written by cignn and is not loaded: it holds {', '.join(sorted(unknown))}."
        )
    return pipeline


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read(folder: Path, name: str, facts: Mapping[str, Any]) -> bytes:
    """Return the content of a listed file, under its own name or the one it had while it was written."""
    places = [folder / name, folder / _waiting(name, facts["sha256"])]
    for place in (*places, places[0]):  # it may move from the second to the first in between
        with suppress(FileNotFoundError):
            if place.is_file() and place.stat().st_size == facts["bytes"]:
                content = place.read_bytes()
                if sha256(content) == facts["sha256"]:
                    return content
    if not any(place.is_file() for place in places):
        raise ModelError(f"{folder} is not a whole model folder: {name} is missing.")
    raise ModelError(
        f"{folder / name} is damaged (its size or checksum is not the one in {CONFIG}); save the model again."
    )


def _is_listing(config: Mapping[str, Any]) -> bool:
    """Whether a config lists known files with their sizes and checksums."""
    lists = [config.get("files"), config.get("notes")]
    return all(
        isinstance(one, dict)
        and all(
            _FILE.fullmatch(name)
            and isinstance(facts, dict)
            and isinstance(facts.get("bytes"), int)
            and re.fullmatch("[0-9a-f]{64}", str(facts.get("sha256")))
            for name, facts in one.items()
        )
        for one in lists
    )


# ----------------------------------------------------------------------- helpers


def _listed(files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    return {name: {"bytes": len(content), "sha256": sha256(content)} for name, content in files.items()}


def _waiting(name: str, checksum: str) -> str:
    return f"{name}.{checksum[:16]}.new"


def _checksum(config: Mapping[str, Any]) -> str:
    content = {name: value for name, value in config.items() if name != "checksum"}
    return digest(content)


def _versions() -> dict[str, str]:
    import sklearn

    import cignn

    modules = {"cignn": cignn, "torch": torch, "numpy": np, "scikit-learn": sklearn}
    return {name: module.__version__ for name, module in modules.items()} | {
        "python": platform.python_version()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} into {CONFIG}.")
