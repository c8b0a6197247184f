"""A training checkpoint: one safetensors file, written atomically, that continues to the same numbers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

FORMAT = "cignn checkpoint"


@dataclass
class State:
    """Where training stands: all a checkpoint must bring back, besides network, optimiser and generators."""

    epoch: int = 0  # finished epochs over all stages
    steps: int = 0  # finished gradient steps
    best_epoch: int = 0
    best_score: tuple[float, ...] = ()
    history: list[dict[str, Any]] = field(default_factory=list)
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    interrupted: bool = False  # by the user, before its end


@dataclass
class Pending:
    """A checkpoint read back, of which the optimiser and the generators wait to be restored."""

    state: State
    optimiser: dict[int, dict[str, Tensor]]
    generators: dict[str, Tensor]

    def restore(self, optimiser: torch.optim.Optimizer, fresh: bool) -> None:
        """Bring the optimiser (unless a new stage begins) and torch's generators to where they were."""
        if not fresh:
            content = optimiser.state_dict()
            content["state"] = self.optimiser
            optimiser.load_state_dict(content)
        torch.set_rng_state(self.generators["cpu"])
        device = optimiser.param_groups[0]["params"][0].device
        if "cuda" in self.generators and device.type == "cuda":
            torch.cuda.set_rng_state(self.generators["cuda"], device)


@dataclass
class Checkpoint:
    """Where a training is kept, the digest of the settings and data it belongs to, and its seed."""

    path: Path
    key: str
    seed: int

    def save(
        self, network: nn.Module, average: nn.Module, optimiser: torch.optim.Optimizer, state: State
    ) -> None:
        """Write all that is needed to go on, or leave the old file as it was."""
        tensors = {f"network.{k}": v for k, v in network.state_dict().items()}
        tensors |= {f"average.{k}": v for k, v in average.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in state.best_weights.items()}
        for i, moments in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{k}": torch.as_tensor(v) for k, v in moments.items()}
        tensors["generator.cpu"] = torch.get_rng_state()
        device = next(network.parameters()).device
        if device.type == "cuda":
            tensors["generator.cuda"] = torch.cuda.get_rng_state(device)
        progress = {
            "epoch": state.epoch,
            "steps": state.steps,
            "best_epoch": state.best_epoch,
            "best_score": list(state.best_score),
            "history": state.history,
        }
        temporary = self.path.with_name(self.path.name + ".tmp")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {
            "format": FORMAT,
            "key": self.key,
            "seed": str(self.seed),
            "progress": json.dumps(progress),
        }
        save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, temporary, metadata)
        os.replace(temporary, self.path)

    def load(self, network: nn.Module, average: nn.Module) -> Pending | None:
        """Bring the network and its average to where the checkpoint left them; None when there is none."""
        if not self.path.exists():
            return None
        metadata, tensors = _read(self.path)
        if metadata["key"] != self.key:
            raise ValueError(
                f"{self.path} belongs to a training with other settings, data or random_state; delete it or "
                "choose another path."
            )
        progress: dict[str, Any] = json.loads(metadata["progress"])
        device = next(network.parameters()).device
        network.load_state_dict(_under(tensors, "network."))
        average.load_state_dict(_under(tensors, "average."))
        state = State(
            progress["epoch"],
            progress["steps"],
            progress["best_epoch"],
            tuple(progress["best_score"]),
            progress["history"],
            {k: v.to(device) for k, v in _under(tensors, "best.").items()},
        )
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _under(tensors, "optimiser.").items():
            i, key = name.split(".", 1)
            moments.setdefault(int(i), {})[key] = value
        return Pending(state, moments, _under(tensors, "generator."))


def saved_seed(path: Path) -> int | None:
    """Return the seed of the training kept at ``path``, None when none is."""
    return int(_read(path, weights=False)[0]["seed"]) if path.exists() else None


def _read(path: Path, weights: bool = True) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in list(file.keys())} if weights else {}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a readable checkpoint ({error}); delete it to start anew.") from None
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is not a training checkpoint; choose another path.")
    return metadata, tensors


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
