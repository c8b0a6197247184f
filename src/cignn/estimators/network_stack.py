"""`NetworkStack`: networks of one kind whose weights lie side by side, so that one step trains them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map_only

BETAS = (0.9, 0.999)  # of Adam
EPS = 1e-8
ALIGNED = 4  # numbers: every tensor of a network begins at a multiple of 16 bytes, as fast kernels want it
WARM_UP = 10  # steps in which the running average of the weights has to forget where they began


class Columns:
    """Where the tensors of a network lie in its row of a table."""

    def __init__(self, shapes: Mapping[str, torch.Size]) -> None:
        self.shapes = dict(shapes)
        self.sizes = [-(-shape.numel() // ALIGNED) * ALIGNED for shape in self.shapes.values()]
        self.width = sum(self.sizes)

    def views(self, table: Tensor) -> dict[str, Tensor]:
        """Return the tensors (networks, ...) of a table (networks, width); gradients reach the table."""
        pieces = table.split(self.sizes, 1)
        return {
            name: piece[:, : shape.numel()].view(-1, *shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def table(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the table (networks, width) of tensors (networks, ...)."""
        rows = len(next(iter(tensors.values())))
        some = next(iter(tensors.values()))
        table = some.new_zeros(rows, self.width)
        for name, view in self.views(table).items():
            view.copy_(tensors[name])
        return table


class NetworkStack:
    """Weights, running averages and moments of Adam of networks of one architecture, in tables.

    network : lends its modules to all; tensors : (networks, ...) by the names of its state; trained : the
    names of the parameters that steps move, those that learn faster last; n_fast : how many do.
    """

    def __init__(
        self,
        network: nn.Module,
        tensors: Mapping[str, Tensor],
        trained: Sequence[str],
        n_fast: int = 0,
        steps: Tensor | None = None,
    ) -> None:
        self.network = network
        parts = [{name: tensors[name].shape[1:] for name in trained}]
        parts += [{name: value.shape[1:] for name, value in tensors.items() if name not in parts[0]}]
        self.columns = [Columns(part) for part in parts]
        slow = self.columns[0].sizes[: len(trained) - n_fast]
        self.n_slow = sum(slow)  # columns
        self.weights, self.statistics = (columns.table(tensors) for columns in self.columns)
        self.averages = [self.weights.clone(), self.statistics.clone()]
        self.mean, self.square = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.adam_steps = self.weights.new_zeros(len(self.weights))
        self.steps = torch.zeros_like(self.adam_steps) if steps is None else steps.clone()

    def __len__(self) -> int:
        return len(self.weights)

    def keep(self, rows: Tensor) -> None:
        """Leave out all networks but these."""
        for name in ("weights", "statistics", "mean", "square", "adam_steps", "steps"):
            setattr(self, name, getattr(self, name)[rows])
        self.averages = [table[rows] for table in self.averages]

    def tensors(self, average: bool = False) -> dict[str, Tensor]:
        """Return all tensors (networks, ...) by name, or their running averages; views, not copies."""
        tables = self.averages if average else [self.weights, self.statistics]
        found: dict[str, Tensor] = {}
        for columns, table in zip(self.columns, tables, strict=True):
            found |= columns.views(table)
        return found

    def moments(self) -> dict[str, dict[str, Tensor]]:
        """Return the moments of Adam, (networks, ...) by name; views, not copies."""
        return {name: self.columns[0].views(getattr(self, name)) for name in ("mean", "square")}

    def state_of(self, row: int, average: bool = False) -> dict[str, Tensor]:
        """Return a copy of one network's state."""
        return {name: value[row].clone() for name, value in self.tensors(average).items()}

    # -------------------------------------------------------------------- steps

    def apply(self, function: Callable[..., Any], *stacked: Any, average: bool = False) -> Any:
        """Call a function of the network for every network of the stack, with its weights and arguments.

        function : may ask the network whatever it likes; stacked : arguments with a leading axis of networks.
        With ``average`` the running averages take the weights' place.
        """
        call = _Call(self.network, function)
        weights, statistics = self.averages if average else (self.weights, self.statistics)
        self.leaf = weights.detach().requires_grad_(not average)
        # what the pass may change is a tensor of its own: gradients know by a counter of each tensor whether
        # it was changed, and vmap changes copies of views
        self.changed = {k: v.clone() for k, v in self.columns[1].views(statistics).items()}
        tensors = self.columns[0].views(self.leaf) | self.changed

        def one(tensors: dict[str, Tensor], *args: Any) -> Any:
            return functional_call(call, {f"network.{name}": t for name, t in tensors.items()}, args)

        if len(self) == 1:  # vmap costs a quarter of a small step
            own = tree_map_only(Tensor, lambda value: value[0], (tensors, *stacked))
            return tree_map_only(Tensor, lambda value: value[None], one(*own))
        return vmap(one)(tensors, *stacked)

    def keep_changed(self, endings: tuple[str, ...], share: Tensor) -> None:
        """Move averaged tensors whose names end so towards the values that the last `apply` to them gave.

        share : (networks,), how far, 1 for all the way, 0 for those that stay as they are.
        """
        for name, old in self.columns[1].views(self.averages[1]).items():
            if name.endswith(endings):
                _replace(old, old.lerp(self.changed[name], _by_network(share, old)), share)

    def step(
        self,
        loss: Tensor,
        active: Tensor,
        learning_rate: Tensor,
        fast_rate: Tensor,
        weight_decay: Tensor,
        ema_decay: Tensor,
        decays: bool = True,
    ) -> None:
        """Take a step of Adam down the losses (networks,) of the last `apply`, and move the averages.

        active : (networks,), 1 or 0 for those that stay where they are; decays : whether any weight decay is
        not 0. The other numbers are (networks,).
        """
        (gradient,) = torch.autograd.grad(loss.sum(), self.leaf)
        with torch.no_grad():
            # 0 times a gradient that is no number, or whose square is too large, would be no number either
            gradient.masked_fill_(active[:, None] == 0, 0.0)
            for name, old in self.columns[1].views(self.statistics).items():
                _replace(old, self.changed[name], active)
            self.adam_steps += active
            self.steps += active
            corrections = [1 - beta ** self.adam_steps.clamp(min=1)[:, None] for beta in BETAS]
            for columns, rate, decay in (
                (slice(0, self.n_slow), learning_rate, weight_decay),
                (slice(self.n_slow, None), learning_rate * fast_rate, None),
            ):
                weights, g = self.weights[:, columns], gradient[:, columns]
                if weights.shape[1] == 0:
                    continue
                mean, square = self.mean[:, columns], self.square[:, columns]
                if decay is not None and decays:
                    g = g.addcmul_(weights, decay[:, None])
                mean.lerp_(g, (1 - BETAS[0]) * active[:, None])
                square.lerp_(g.square_(), (1 - BETAS[1]) * active[:, None])
                # in place of the gradient: memory that is asked for anew costs more than arithmetic
                root = corrections[1].sqrt()
                torch.sqrt(square, out=g).add_(EPS * root)
                torch.div(mean, g, out=g)
                weights.addcmul_(g, -rate[:, None] * active[:, None] * root / corrections[0])
            kept = torch.minimum(ema_decay, self.steps / (self.steps + WARM_UP))
            for average, table in zip(self.averages, (self.weights, self.statistics), strict=True):
                average.lerp_(table, ((1 - kept) * active)[:, None])


def _replace(old: Tensor, new: Tensor, active: Tensor) -> None:
    """Put the new values in place of the old ones, (networks, ...), of the active networks."""
    old.copy_(torch.where(_by_network(active, new) > 0, new, old))


def _by_network(values: Tensor, like: Tensor) -> Tensor:
    """View values (networks,) in as many axes as (networks, ...) has."""
    return values.view(-1, *[1] * (like.dim() - 1))


class _Call(nn.Module):
    """Any function of a network as a module, so that `functional_call` can lend it other weights."""

    def __init__(self, network: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.network = network
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def stacked_state(networks: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Return the states of networks of one architecture, (networks, ...) by name."""
    states = [network.state_dict() for network in networks]
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}
