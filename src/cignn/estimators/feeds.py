"""What networks read while they train: batches of prepared graphs, of one or of many networks at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cignn.graphs import GraphBatch, GraphSet
from cignn.graphs.storage import MAX_CELLS, SIZE_BLUR, cut

Prepare = Callable[[GraphBatch], GraphBatch]
CHUNK_CELLS = 2**22  # node pairs of the graphs that are prepared at once
RESIDENT = {"cpu": 2**30, "cuda": 2**35}  # bytes of padded graphs that may stay on a device,
RESIDENT_SHARE = 0.25  # and on a GPU this share of its free memory at the most
SQUARE = ("adj", "strongest")  # tensors (g, n, n)
# node pairs of a batch: with more on a GPU, where many shapes of batches cost more than padding
BATCH_CELLS = {"cpu": MAX_CELLS, "cuda": 2**24}
# a few widths instead of many, where a width costs something: nodes, and steps from one doubling to the next
ROUND_UP, STEPS_OF_DOUBLING = 8, 4


@dataclass
class Data:
    """Graphs with their class numbers: the rows of ``graphs`` that a network reads.

    graphs : may hold more; rows : (g,) which of them; y : (g,) their class numbers; most_cells : node pairs
    of a batch, see `BATCH_CELLS`.
    """

    graphs: GraphSet
    rows: np.ndarray
    y: np.ndarray
    most_cells: int = MAX_CELLS

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property  # asked for at every step
    def sizes(self) -> np.ndarray:
        """(g,) numbers of nodes."""
        return self.graphs.n_nodes[self.rows]

    def batches(self, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Draw the batches of an epoch: positions in ``rows``, graphs of similar size together.

        All have the same length, so that some graphs come twice in an epoch; only where graphs are so large
        that fewer of them make a batch do lengths differ, see `even`.
        """
        sizes = self.sizes
        order = np.argsort(SIZE_BLUR * rng.normal(size=len(self)) - np.log(sizes))
        length = min(batch_size, len(self))
        if even(sizes, batch_size, self.most_cells):
            starts = np.linspace(0, len(self) - length, -(-len(self) // length)).round().astype(int)
            batches = [order[start : start + length] for start in starts]
        else:
            batches = cut(order, sizes, batch_size, self.most_cells)
        return [batches[i] for i in rng.permutation(len(batches))]

    def length(self, batch_size: int) -> int | None:
        """Number of graphs in every batch; None where lengths differ."""
        return min(batch_size, len(self)) if even(self.sizes, batch_size, self.most_cells) else None


def even(sizes: np.ndarray, batch_size: int, most_cells: int = MAX_CELLS) -> bool:
    """Whether all batches have the same length."""
    return bool(sizes.min() == sizes.max() or batch_size * int(sizes.max()) ** 2 <= most_cells)


class Feed:
    """Batches of prepared graphs on a device, for several networks at once.

    data : what each network reads; prepare : computes what depends on the graphs alone. Graphs that fit stay
    on the device, prepared; others are read, prepared and sent batch by batch, ahead of their use.
    """

    def __init__(
        self, data: Sequence[Data], prepare: Prepare, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        self.prepare = prepare
        self.device = device
        self.dtype = dtype
        self.sets = {id(one.graphs): one.graphs for one in data}
        sizes = {int(n) for graphs in self.sets.values() for n in np.unique(graphs.n_nodes)}
        self.padded = len(sizes) > 1
        self.widest = max(sizes, default=1)
        self.resident = self._fits()
        self.pools = {key: self._pool(graphs) for key, graphs in self.sets.items()} if self.resident else {}

    def _fits(self) -> bool:
        """Whether all graphs, prepared, may stay on the device."""
        if any(getattr(graphs, "mapped", False) for graphs in self.sets.values()):
            return False
        if self.device.type == "cpu" and all(graphs.aligned for graphs in self.sets.values()):
            return True
        limit = RESIDENT[self.device.type]
        if self.device.type == "cuda":
            limit = min(limit, int(RESIDENT_SHARE * free_memory(self.device)))
        return sum(map(_pool_bytes, self.sets.values())) <= limit

    def _pool(self, graphs: GraphSet) -> dict[str, Tensor]:
        """The whole set, prepared, on the device."""
        n = int(graphs.n_nodes.max(initial=1))
        whole = self._typed(graphs.batch())
        step = max(1, CHUNK_CELLS // n**2)
        tensors = whole.to(self.device).tensors()
        made: dict[str, Tensor] = {}
        lists: list[Tensor] = []  # of edges, of different lengths
        for start in range(0, len(graphs), step):
            part = GraphBatch.of({k: v[start : start + step] for k, v in tensors.items()}, whole.padded)
            for name, value in self.prepare(part).tensors().items():
                if name == "edge_list":
                    lists.append(value)
                elif name not in tensors:
                    if name not in made:  # at once: chunks put together at the end would be there twice
                        made[name] = value.new_empty(len(graphs), *value.shape[1:])
                    made[name][start : start + step] = value
        return tensors | made | ({"edge_list": torch.cat(_level(lists))} if lists else {})

    def width(self, data: Sequence[Data], positions: Sequence[np.ndarray]) -> int:
        """Number of nodes that batches of these graphs are padded to."""
        if not self.padded:
            return self.widest
        most = max(int(one.sizes[at].max()) for one, at in zip(data, positions, strict=True))
        return min(rounded_up(most) if self.device.type == "cuda" else most, self.widest)

    def gather(self, data: Sequence[Data], rows: Tensor, width: int) -> dict[str, Tensor]:
        """Return the batches (networks, b, ...) of resident graphs; rows : (networks, b) of their sets."""
        pools = [self.pools[id(one.graphs)] for one in data]
        if all(pool is pools[0] for pool in pools):
            found = fitted(pools[0], width, rows.flatten())
            return {name: value.unflatten(0, rows.shape) for name, value in found.items()}
        return _stacked([fitted(pool, width, at) for pool, at in zip(pools, rows, strict=True)])

    def read(self, data: Sequence[Data], positions: Sequence[np.ndarray], width: int) -> dict[str, Tensor]:
        """Return batches (networks, b, ...) of graphs that are not resident."""
        parts = [one.graphs.batch(one.rows[at]) for one, at in zip(data, positions, strict=True)]
        batches = [self.prepare(self._typed(part)) for part in parts]
        found = _stacked([fitted(batch.tensors(), width) for batch in batches])
        return {name: value.to(self.device, non_blocking=True) for name, value in found.items()}

    def _typed(self, batch: GraphBatch) -> GraphBatch:
        """Bring the numbers of a batch to the precision of the networks."""
        tensors = batch.tensors()
        typed = {k: v.to(self.dtype) if v.is_floating_point() else v for k, v in tensors.items()}
        return GraphBatch.of(typed, batch.padded)


def rounded_up(nodes: int) -> int:
    """Return the next larger of a few numbers of nodes: multiples of 8, from 64 on of 16, and so on."""
    step = max(ROUND_UP, 2 ** (nodes.bit_length() - 1) // STEPS_OF_DOUBLING)
    return -(-nodes // step) * step


def _pool_bytes(graphs: GraphSet) -> int:
    """Bytes of a padded set: three matrices, and the features with the sums of neighbours'."""
    n = int(graphs.n_nodes.max(initial=1))
    return 4 * len(graphs) * n * (3 * n + 2 * graphs.n_features)


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that can be had: free ones, and those that torch keeps for the next to ask."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def ahead(makers: Sequence[Callable[[], Any]]) -> Iterator[Any]:
    """Yield what the makers make, in their order; the next is made while the last is used."""
    with ThreadPoolExecutor(1) as reader:
        waiting = [reader.submit(make) for make in makers[:1]]
        for i in range(len(makers)):
            made = waiting.pop().result()
            if i + 1 < len(makers):
                waiting.append(reader.submit(makers[i + 1]))
            yield made


def fitted(tensors: Mapping[str, Tensor], width: int, rows: Tensor | None = None) -> dict[str, Tensor]:
    """Return the tensors of some graphs, or of all, cut or padded to a number of nodes."""
    n = tensors["adj"].shape[1]
    found = {}
    for name, value in tensors.items():
        if name != "edge_list" and width < n:
            value = value[:, :width, :width] if name in SQUARE else value[:, :width]
        value = value if rows is None else value[rows]
        if name == "edge_list":
            value = _trimmed(value) if value.device.type == "cpu" else value
            value = value // n * width + value % n if width != n else value
        elif width > n:
            more = width - n
            ends = (0, more) if value.dim() == 2 else (0, more if name in SQUARE else 0, 0, more)
            value = F.pad(value, ends)
        found[name] = value
    return found


def _trimmed(edges: Tensor) -> Tensor:
    """Cut lists of edges (b, e), 0 for none at their ends, to the longest; a GPU would have to wait."""
    most = int((edges > 0).sum(1).max()) if len(edges) else 0
    return edges[:, : max(most, 1)]


def _stacked(batches: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Stack the tensors (b, ...) of several networks; where some have features of their own, all get them."""
    if len(batches) == 1:
        return {name: value[None] for name, value in batches[0].items()}
    names = max((batch.keys() for batch in batches), key=len)
    return {name: torch.stack(_level([batch.get(name, batch["adj"]) for batch in batches])) for name in names}


def _level(values: list[Tensor]) -> list[Tensor]:
    """Pad lists of edges to the longest; other tensors have the same shape."""
    if values[0].dim() != 2:
        return values
    most = max(value.shape[1] for value in values)
    return [F.pad(value, (0, most - value.shape[1])) for value in values]
