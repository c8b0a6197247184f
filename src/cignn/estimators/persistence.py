"""Models on disk: a folder with `config.json` and `model.safetensors`, or `model.skops` for shallow ones.

Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

FORMAT = "cignn model"
FORMAT_VERSION = 1
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PIPELINE = "model.skops"
PREPARATION = "preparation.json"
REFERENCE = "preparation.safetensors"
SETTINGS = "settings.toml"  # what the command line was told
FILES = {CONFIG, WEIGHTS, PIPELINE, PREPARATION, REFERENCE, SETTINGS}
# what skops does not trust by itself and our pipelines hold: the trees of a forest
TRUSTED = ["sklearn.tree._tree.Tree"]


def write_model(path: str | Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write a model folder with the weights of a network."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    _write(path, config, lambda folder: save_file(tensors, folder / WEIGHTS))


def write_pipeline(path: str | Path, config: dict[str, Any], pipeline: Any) -> None:
    """Write a model folder with a fitted scikit-learn pipeline."""
    import skops.io

    _write(path, config, lambda folder: skops.io.dump(pipeline, folder / PIPELINE))


def _write(path: str | Path, config: dict[str, Any], write_content: Callable[[Path], Any]) -> None:
    """Write a model folder with its config."""
    with whole_folder(path) as folder:
        write_content(folder)
        header = {"format": FORMAT, "format_version": FORMAT_VERSION, "versions": _versions()}
        write_json(folder / CONFIG, header | config)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write plain data and numpy's numbers and arrays as JSON."""
    path.write_text(json.dumps(content, indent=2, default=_plain) + "\n")


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder; it takes the place of an older model only once it is whole."""
    path = check_model_path(path)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_model_path(path: str | Path) -> Path:
    """Refuse a place where something else than a model stands."""
    path = Path(path)
    if path.exists() and not _replaceable(path):
        raise ValueError(f"{path} exists and is not a model folder; choose another path.")
    return path


def _replaceable(path: Path) -> bool:
    """Whether a folder is empty or holds a model, whole or damaged, and nothing else."""
    if not path.is_dir() or not {item.name for item in path.iterdir()} <= FILES:
        return False
    try:
        config = json.loads((path / CONFIG).read_text())
    except (OSError, ValueError):
        return True
    return isinstance(config, dict) and config.get("format") == FORMAT


def read_config(path: Path) -> dict[str, Any]:
    """Read what a model folder says of itself; refuses a damaged, foreign or newer one."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no model folder at {path}.")
    _check_file(path, CONFIG)
    try:
        config = json.loads((path / CONFIG).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path / CONFIG} is damaged ({error}); save the model again.") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ValueError(f"{path} was not written by cignn.")
    if not isinstance(config.get("format_version"), int):
        raise ValueError(f"{path / CONFIG} is damaged (no format_version); save the model again.")
    if config["format_version"] > FORMAT_VERSION:
        raise ValueError(
            f"{path} was written by a newer cignn (format {config['format_version']}, this one reads up to "
            f"{FORMAT_VERSION}); upgrade cignn."
        )
    return config


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights in a model folder."""
    _check_file(path, WEIGHTS)
    try:
        return load_file(path / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path / WEIGHTS} is damaged ({error}); save the model again.") from None


def read_pipeline(path: Path) -> Any:
    """Read the pipeline in a model folder, made only of types known beforehand."""
    import skops.io

    _check_file(path, PIPELINE)
    try:
        unknown = set(skops.io.get_untrusted_types(file=path / PIPELINE)) - set(TRUSTED)
        pipeline = None if unknown else skops.io.load(path / PIPELINE, trusted=TRUSTED)
    except Exception as error:  # a damaged archive fails in any part of skops
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path / PIPELINE} is damaged ({line}); save the model again.") from None
    if unknown:
        raise ValueError(
            f"{path / PIPELINE} was not written by cignn and is not loaded: it holds "
            f"{', '.join(sorted(unknown))}."
        )
    return pipeline


def _check_file(path: Path, name: str) -> None:
    if not (path / name).is_file():
        raise ValueError(f"{path} is not a whole model folder: {name} is missing.")


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
