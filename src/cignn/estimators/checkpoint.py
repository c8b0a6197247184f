"""A training checkpoint: one safetensors file, written atomically, that continues to the same numbers."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from cignn._arrays import digest
from cignn._checks import shown
from cignn._files import replacing

FORMAT = "cignn checkpoint 4"
PARTS = ("network", "average", "best", "earlier", "mean", "square")  # the last two are Adam's moments
ROW = {"epoch", "stage", "validation_loss", "validation_price"}  # what every row of a history has


@dataclass
class State:
    """Where training stands: all a checkpoint must bring back, besides the network and its optimiser."""

    epoch: int = 0  # finished epochs over all stages
    steps: int = 0  # finished gradient steps
    best_epoch: int = 0
    best_score: tuple[float, ...] = ()
    history: list[dict[str, Any]] = field(default_factory=list)
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    earlier: dict[str, Tensor] = field(default_factory=dict)  # what a later stage returns to
    interrupted: bool = False  # by the user, before its end


class Saved(NamedTuple):
    """A checkpoint read back: states of the network by name, its running average, the moments of Adam."""

    state: State
    network: dict[str, Tensor]
    average: dict[str, Tensor]
    moments: dict[str, dict[str, Tensor]]
    adam_steps: int


@dataclass
class Checkpoint:
    """Where a training is kept, the digest of the settings and data it belongs to, and its seed.

    Random numbers need no place: every epoch begins with its own, which follow from the seed.
    """

    path: Path
    key: str
    seed: int

    def save(
        self,
        network: Mapping[str, Tensor],
        average: Mapping[str, Tensor],
        moments: Mapping[str, Mapping[str, Tensor]],
        adam_steps: int,
        state: State,
    ) -> None:
        """Write all that is needed to go on, or leave the old file as it was.

        A training does not end because its checkpoint cannot be written: that is a warning.
        """
        parts = {"network": network, "average": average, "best": state.best_weights}
        parts |= {"earlier": state.earlier, **moments}
        tensors = {f"{part}.{name}": v for part, values in parts.items() for name, v in values.items()}
        progress = {
            "epoch": state.epoch,
            "steps": state.steps,
            "adam_steps": adam_steps,
            "best_epoch": state.best_epoch,
            "best_score": list(state.best_score),
            "history": state.history,
        }
        metadata = {
            "format": FORMAT,
            "key": self.key,
            "seed": str(self.seed),
            "progress": json.dumps(progress),
        }
        tensors = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
        metadata["checksum"] = _checksum(metadata, tensors)
        try:
            with replacing(self.path) as new:
                new.write_bytes(save(tensors, metadata))
        except OSError as error:
            warnings.warn(f"{error} The training goes on without it.", stacklevel=2)

    def load(self, network: nn.Module, trained: Callable[[int], set[str]]) -> Saved | None:
        """Read the checkpoint of a network back; None when there is none.

        trained : ``trained(epoch)`` returns the names of the parameters that an epoch trains.
        """
        if not self.path.exists():
            return None
        metadata, tensors = _read(self.path)
        if metadata.get("key") != self.key:
            raise ValueError(
                f"{self.path} belongs to a training with other settings, data or random_state; delete it or "
                "choose another path."
            )
        try:
            progress = _progress(metadata["progress"])
            wanted = network.state_dict()
            parts = {part: _under(tensors, f"{part}.") for part in PARTS}
            for part, values in parts.items():
                _check_part(part, values, wanted)
            if not parts["mean"].keys() == parts["square"].keys() == trained(max(progress["epoch"] - 1, 0)):
                raise ValueError("its moments are not those of the parameters in training")
            device = next(network.parameters()).device
            state = State(
                progress["epoch"],
                progress["steps"],
                progress["best_epoch"],
                tuple(progress["best_score"]),
                progress["history"],
                {k: v.to(device) for k, v in parts["best"].items()},
                {k: v.to(device) for k, v in parts["earlier"].items()},
            )
        except Exception as error:  # whatever comes of a file with the right key and another content
            raise _unreadable(self.path, error) from None
        moments = {name: parts[name] for name in ("mean", "square")}
        return Saved(state, parts["network"], parts["average"], moments, progress["adam_steps"])


def _check_part(part: str, values: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not those of the network: all of it, or some for moments
    and what is from earlier, or none for best."""
    complete = part in ("network", "average") or (part == "best" and bool(values))
    fits = values.keys() == wanted.keys() if complete else values.keys() <= wanted.keys()
    same = fits and all(value.shape == wanted[name].shape for name, value in values.items())
    if not same or any(value.dtype != wanted[name].dtype for name, value in values.items()):
        raise ValueError(f"its part {part!r} is not that of this network")


def checkpoint_path(checkpoint: Any) -> Path | None:
    """Return the path of a checkpoint; what can be none is refused before the training."""
    if checkpoint is None:
        return None
    try:
        os.path.realpath(checkpoint)
        Path(checkpoint).exists()
        return Path(checkpoint)
    except (TypeError, ValueError):
        raise ValueError(f"checkpoint must be a path or None, got {shown(checkpoint)}.") from None
    except OSError as error:
        raise ValueError(f"checkpoint cannot be {shown(checkpoint)} ({error.strerror}).") from None


def member_path(checkpoint: Path | None, member: int, members: int) -> Path | None:
    """Where the training of one of several networks is kept; that of a single one has the path itself."""
    if checkpoint is None or members == 1:
        return checkpoint
    return checkpoint.with_name(f"{checkpoint.name}.{member}")


def _progress(text: str) -> dict[str, Any]:
    """Return how far a training was; refuses what none has written."""
    progress = json.loads(text)
    counts = [progress[name] for name in ("epoch", "steps", "adam_steps", "best_epoch")]
    rows, scores = progress["history"], progress["best_score"]
    sound = (
        all(type(count) is int and count >= 0 for count in counts)
        and isinstance(scores, list)
        and all(isinstance(score, int | float) for score in scores)
        and isinstance(rows, list)
        and len(rows) == counts[0]
        and all(isinstance(row, dict) and row.keys() >= ROW for row in rows)
    )
    numbers = [value for row in rows for name, value in row.items() if name != "stage"] if sound else [None]
    if not all(
        isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63) for value in numbers
    ):
        raise ValueError("its history is not one of a training")
    return progress


def saved_seed(path: Path) -> int | None:
    """Return the seed of the training kept at ``path``, None when none is."""
    return int(_read(path)[0]["seed"]) if path.exists() else None


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the metadata and tensors of a checkpoint, as they were written."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file; choose another path for the checkpoint.")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
    except Exception as error:  # a damaged header fails in any part of safetensors and torch
        raise _unreadable(path, error) from None
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is not a training checkpoint; choose another path.")
    if metadata.get("checksum") != _checksum(metadata, tensors) or not metadata.get("seed", "").isdecimal():
        raise _unreadable(path, ValueError("its checksum is another"))
    return metadata, tensors


def _unreadable(path: Path, error: Exception) -> ValueError:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"{path} is not a readable checkpoint ({line}); delete it to start anew.")


def _checksum(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of all that a checkpoint holds."""
    said = {name: text for name, text in metadata.items() if name != "checksum"}
    facts = {name: [str(value.dtype), list(value.shape)] for name, value in tensors.items()}
    contents = (tensors[name].contiguous().flatten().view(torch.uint8).numpy() for name in sorted(tensors))
    return digest(said, facts, *contents)


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
