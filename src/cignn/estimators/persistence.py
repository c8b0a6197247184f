"""Models on disk: a folder with `model.safetensors` and `config.json`. Nothing is ever unpickled."""

from __future__ import annotations

import json
import os
import platform
import shutil
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


def write_model(path: str | Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write a model folder; an older one at the same place is replaced only once the new one is whole."""
    path = check_model_path(path)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in weights.items()}, temporary / WEIGHTS
        )
        header = {"format": FORMAT, "format_version": FORMAT_VERSION, "versions": _versions()}
        (temporary / CONFIG).write_text(json.dumps(header | config, indent=2, default=_plain) + "\n")
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
    if not path.is_dir() or not {item.name for item in path.iterdir()} <= {CONFIG, WEIGHTS}:
        return False
    try:
        config = json.loads((path / CONFIG).read_text())
    except (OSError, ValueError):
        return True
    return isinstance(config, dict) and config.get("format") == FORMAT


def read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model folder; refuses a damaged, foreign or newer one."""
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no model folder at {path}.")
    for name in (CONFIG, WEIGHTS):
        if not (path / name).is_file():
            raise ValueError(f"{path} is not a whole model folder: {name} is missing.")
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
    try:
        return config, load_file(path / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path / WEIGHTS} is damaged ({error}); save the model again.") from None


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
