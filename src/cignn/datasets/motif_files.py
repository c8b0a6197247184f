"""Published graphs with a motif each, as .npz files: BA-2Motifs and Spurious-Motif."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cignn._array_files import NUMBERS, UnreadableError, named, read_npz, regular
from cignn._checks import name_some
from cignn.graphs import GraphSet

Shapes = Mapping[str, tuple[str, ...]]  # of arrays by their names: numbers, and letters for what must agree

_BA2MOTIFS: Shapes = {"adj": ("g", "25", "25"), "x": ("g", "25", "d"), "y": ("g",)}
_MOTIF = np.arange(25) >= 20
_SPMOTIF: Shapes = {
    "n_nodes": ("g",),
    "n_edges": ("g",),
    "y": ("g",),
    "split": ("g",),
    "x": ("n", "d"),  # n of all graphs together, as e
    "edges": ("e", "2"),
    "edge_truth": ("e",),
}
_VALUES: dict[str, tuple[Any, ...]] = {
    "y": (0, 1, 2),
    "split": ("train", "val", "test"),
    "edge_truth": (0, 1),
}
_AGAIN = "get the published file again"


def load_ba2motifs(path: str | Path) -> GraphSet:
    """Load the published BA-2Motifs graphs with their edge truth, the edges among nodes 20..24.

    Parameters
    ----------
    path : str or Path
        The .npz file, or the folder that holds ``ba2motifs.npz``. Its arrays are ``adj`` (g, 25, 25), ``x``
        (g, 25, d) and ``y`` (g,), 0 for the five-cycle and 1 for the house; or y (g, 2), a 1 in the column of
        the class, as in the pickle that the authors of PGExplainer published, which is not read itself.

    Returns
    -------
    GraphSet
        The g graphs. Self-loops are dropped (40 graphs of the published file have one, in place of the edge
        that should attach their motif).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cignn.datasets import load_ba2motifs, make_ba2motifs
    >>> made = make_ba2motifs(6, random_state=0)
    >>> adjacency = np.stack([made[i].weights for i in range(6)])
    >>> with tempfile.TemporaryDirectory() as folder:  # with the arrays of the published file
    ...     file = Path(folder) / "ba2motifs.npz"
    ...     np.savez(file, adj=adjacency, x=np.ones((6, 25, 10)), y=made.y)
    ...     graphs = load_ba2motifs(folder)
    >>> bool((graphs.y == made.y).all()), len(graphs.edge_truth)
    (True, 6)
    """
    path = named(path)
    path = path / "ba2motifs.npz" if path.is_dir() else path
    path = regular(path, "give ba2motifs.npz or the folder that holds it")
    remedy = "get the published ba2motifs.npz again"
    file = _read(path, _BA2MOTIFS, remedy)
    if file["y"].shape[1:] == (2,) and (np.sort(file["y"], axis=1) == [0, 1]).all():
        file["y"] = file["y"].argmax(1)
    _check_shapes(path, file, _BA2MOTIFS, remedy)
    if not np.isin(file["y"], (0, 1)).all():
        raise ValueError(f"{path}: 'y' must be 0 or 1, got {np.unique(file['y'])[:5]}; {remedy}.")
    truth = (file["adj"] != 0) & _MOTIF & _MOTIF[:, None]
    try:
        return GraphSet.from_arrays(file["adj"], file["x"], file["y"].astype(np.int64), edge_truth=truth)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def load_spmotif(path: str | Path) -> GraphSet:
    """Load Spurious-Motif graphs as the published tables use them, with their edge truth and given split.

    The motif is the class, and the base agrees with it in training graphs only; `make_spurious_motifs`
    describes and makes such graphs.

    Parameters
    ----------
    path : str or Path
        The .npz file. Its arrays are ``n_nodes``, ``n_edges``, ``y`` (0 cycle, 1 house, 2 crane) and
        ``split`` ("train", "val" or "test"), each (g,), ``x`` (all nodes, d), ``edges`` (all edges, 2), which
        lists each undirected edge once and numbers nodes within their graph, and ``edge_truth`` (all edges,).

    Returns
    -------
    GraphSet
        The g graphs, with ``y`` and ``groups`` (g,), the split, and ``edge_truth``: 5 or 6 edges in each.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cignn.datasets import load_spmotif
    >>> cycle = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    >>> arrays = {"n_nodes": [6, 6], "n_edges": [6, 6], "y": [0, 0], "split": ["train", "test"]}
    >>> arrays |= {"x": np.ones((12, 4)), "edges": 2 * [*cycle, (4, 5)]}
    >>> arrays |= {"edge_truth": 2 * [True, True, True, True, True, False]}
    >>> with tempfile.TemporaryDirectory() as folder:  # with the arrays of the published files
    ...     file = Path(folder) / "spmotif_0.5.npz"
    ...     np.savez(file, **arrays)
    ...     graphs = load_spmotif(file)
    >>> graphs.groups.tolist(), [truth.sum().item() // 2 for truth in graphs.edge_truth]
    (['train', 'test'], [5, 5])
    """
    path = regular(path, "give a file such as spmotif_0.9.npz")
    file = _read(path, _SPMOTIF, _AGAIN)
    _check_shapes(path, file, _SPMOTIF, _AGAIN)
    try:
        return _spmotif_graphs(file)
    except UnreadableError as error:
        raise ValueError(f"{path}: {error}; {_AGAIN}.") from error
    except ValueError as error:  # of GraphSet, which names graph and remedy
        raise ValueError(f"{path}: {error}") from error


def _spmotif_graphs(file: dict[str, np.ndarray]) -> GraphSet:
    n_nodes, n_edges = _counts(file, "n_nodes", 1, "x"), _counts(file, "n_edges", 0, "edges")
    y, edges = _whole(file, "y"), _whole(file, "edges")
    for name, known in _VALUES.items():
        other = ~np.isin(file[name], known)
        if other.any():
            at, listed = int(other.argmax()), f"{', '.join(map(str, known[:-1]))} or {known[-1]}"
            raise UnreadableError(
                f"'{name}' must be {listed}, got {name_some(file[name][[at]])} in entry {at}"
            )
    graph_of_node = np.repeat(np.arange(len(y)), n_nodes)
    graph_of_edge = np.repeat(np.arange(len(y)), n_edges)
    first = np.cumsum(n_nodes) - n_nodes
    numbers = edges + first[graph_of_edge, None]  # over all graphs
    beyond = ((edges < 0) | (edges >= n_nodes[graph_of_edge, None])).any(1)
    for wrong, what in (
        (beyond, "names a node that is not in it"),
        (edges[:, 0] == edges[:, 1], "joins a node to itself"),
        (_repeats(numbers.min(1) * len(graph_of_node) + numbers.max(1)), "is listed twice"),
    ):
        if wrong.any():
            at = int(wrong.argmax())
            graph, pair = graph_of_edge[at], f"{edges[at, 0]}–{edges[at, 1]}"
            raise UnreadableError(f"edge {pair} of graph {graph}, which has {n_nodes[graph]} nodes, {what}")
    return GraphSet.from_edges(
        numbers,
        graph_of_node,
        file["x"].astype(np.float32),
        y,
        edge_truth=file["edge_truth"] != 0,
        groups=file["split"],
    )


def _counts(file: dict[str, np.ndarray], name: str, least: int, counted: str) -> np.ndarray:
    """(g,) how many rows of another array each graph has; their sum must be right."""
    counts, rows = _whole(file, name), len(file[counted])
    if counts.min(initial=least) < least:
        graph = int(counts.argmin())
        raise UnreadableError(f"'{name}' must be at least {least}, got {counts[graph]} for graph {graph}")
    total = counts.sum(dtype=np.float64)  # cannot overflow
    if total != rows:
        raise UnreadableError(f"'{name}' must sum to {rows}, the rows of '{counted}', got {total:.0f}")
    return counts


def _whole(file: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The array of this name as int64."""
    values = file[name].astype(np.float64)
    with np.errstate(invalid="ignore"):
        whole = (values == np.round(values)) & (np.abs(values) < 2**53)
    if not whole.all():
        raise UnreadableError(f"'{name}' must hold whole numbers, got {values[~whole][0]}")
    return file[name].astype(np.int64)


def _repeats(keys: np.ndarray) -> np.ndarray:
    """(k,) bool, True at keys that stand before as well."""
    again = np.zeros(len(keys), bool)
    if (np.diff(np.sort(keys)) == 0).any():
        order = np.argsort(keys, kind="stable")
        again[order[1:]] = np.diff(keys[order]) == 0
    return again


# --------------------------------------------------------------------- reading


def _read(path: Path, shapes: Shapes, remedy: str) -> dict[str, np.ndarray]:
    """Return the arrays of these names."""
    names = f"{', '.join(list(shapes)[:-1])} and {list(shapes)[-1]}"
    if path.suffix in (".pkl", ".pickle"):
        raise ValueError(
            f"{path} is not a readable .npz file of numbers; a pickle may run any program: write its arrays "
            f"{names} with np.savez."
        )
    arrays = read_npz(path, only=shapes, remedy=remedy)
    missing = [name for name in shapes if name not in arrays]
    if missing:
        raise ValueError(f"{path} has no array '{missing[0]}', expected {names}; {remedy}.")
    return arrays


def _check_shapes(path: Path, arrays: dict[str, np.ndarray], shapes: Shapes, remedy: str) -> None:
    """Refuse arrays of other types and shapes; "split" holds words, all others numbers."""
    sides: dict[str, int] = {}
    for name, shape in shapes.items():
        array, kinds, what = arrays[name], NUMBERS, "numbers"
        if name == "split":
            kinds, what = "U", "words"
        fits = array.ndim == len(shape) and all(
            got == (int(side) if side.isdigit() else sides.setdefault(side, got))
            for side, got in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype.kind not in kinds:
            same = [other for other in shapes if shapes[other][0] == shape[0]]
            raise ValueError(
                f"{path}: '{name}' must hold {what} of shape ({', '.join(shape)}), one {shape[0]} for "
                f"{', '.join(same[:-1])} and {same[-1]}, got {array.dtype} of shape {array.shape}; {remedy}."
            )
