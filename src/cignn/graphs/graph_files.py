"""Graph sets on disk: named arrays, in one .npz file or in a folder of .npy files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cignn._array_files import named
from cignn._array_folders import array_names, read_arrays, write_arrays
from cignn._mapped import MappedArray
from cignn.graphs.graph_set import GraphSet
from cignn.graphs.storage import Stacked

FORMAT = "cignn_graphs"
MAPPED = ("weights", "x")  # arrays of aligned graphs that stay on disk
_META, _NODES = "meta_", "node_meta_"


def write_graphs(graphs: GraphSet, path: str | Path, mapped: bool) -> Path:
    """Write graphs; an unfinished file or folder never takes the place of a finished one."""
    store = graphs._store
    arrays: dict[str, Any] = {
        FORMAT: np.array(1),
        "y": None if graphs.y is None else _plain(graphs.y),
        "groups": None if graphs.groups is None else _plain(graphs.groups),
        "node_names": None if graphs.node_names is None else np.array(graphs.node_names, str),
        "feature_names": None if graphs.feature_names is None else np.array(graphs.feature_names, str),
        **{f"{_META}{name}": _plain(column) for name, column in graphs.meta.items()},
        **{f"{_NODES}{name}": _plain(column) for name, column in graphs.node_meta.items()},
        "edge_truth": store.truth,
    }
    if isinstance(store, Stacked):
        arrays |= {"x": None if store.x is store.weights else _float32(store.x), "weights": store.weights}
    else:
        arrays |= {"edge_ptr": store.edge_ptr, "x": store.x, "edge_weight": store.weight}
        arrays |= {"pairs": store.pairs, "node_ptr": store.node_ptr}
    return write_arrays(path, arrays, mapped)


def read_graphs(path: str | Path) -> GraphSet:
    """Read graphs; their content is checked as that of new graphs is."""
    path = named(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give what GraphSet.save has written.")
    names = array_names(path)
    if FORMAT not in names or not {"weights", "node_ptr"} & set(names):
        found = ", ".join(names) or "nothing"
        raise ValueError(f"{path} does not hold the arrays of a GraphSet, got {found}; write it with save.")
    arrays = read_arrays(path, mapped=MAPPED if "weights" in names else ())
    try:
        return _aligned(arrays) if "weights" in arrays else _ragged(arrays)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        what = f"there is no array {error}." if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: {what}") from error


def _aligned(arrays: dict[str, Any]) -> GraphSet:
    truth: Any = arrays.get("edge_truth")
    if truth is not None and len(truth) == 1:  # the same for all graphs
        truth = truth[0]
    graphs = GraphSet.from_arrays(
        arrays["weights"],
        arrays.get("x"),
        arrays.get("y"),
        groups=arrays.get("groups"),
        node_names=_listed(arrays.get("node_names")),
        edge_truth=truth,
        aligned=True,
        meta=_columns(arrays, _META),
        node_meta=_columns(arrays, _NODES),
    )
    names = _listed(arrays.get("feature_names"))
    return graphs if names is None else graphs._with(graphs._store, graphs.y, names)


def _ragged(arrays: dict[str, Any]) -> GraphSet:
    node_ptr, edge_ptr = arrays["node_ptr"], arrays["edge_ptr"]
    if node_ptr.shape != edge_ptr.shape or node_ptr.ndim != 1 or not len(node_ptr):
        raise ValueError("node_ptr and edge_ptr must have one entry per graph and one more; write it again.")
    sizes, counts = np.diff(node_ptr), np.diff(edge_ptr)
    if min(sizes.min(initial=0), counts.min(initial=0)) < 0 or counts.sum() != len(arrays["pairs"]):
        raise ValueError("node_ptr and edge_ptr do not fit the edges; write it again.")
    return GraphSet.from_edges(
        arrays["pairs"].astype(np.int64) + np.repeat(node_ptr[:-1], counts)[:, None],
        np.repeat(np.arange(len(sizes)), sizes),
        arrays["x"],
        arrays.get("y"),
        edge_weight=arrays.get("edge_weight"),
        edge_truth=arrays.get("edge_truth"),
        groups=arrays.get("groups"),
        meta=_columns(arrays, _META),
        feature_names=_listed(arrays.get("feature_names")),
    )


def _columns(arrays: dict[str, Any], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _listed(names: np.ndarray | None) -> list[str] | None:
    return None if names is None else names.tolist()


def _float32(x: np.ndarray | MappedArray) -> Any:
    return x if isinstance(x, MappedArray) else x.astype(np.float32, copy=False)


def _plain(column: np.ndarray) -> np.ndarray:
    """Numbers as numbers, with NaN for None; everything else as words, with "n/a" for None."""
    if column.dtype.kind in "biufU":
        return column
    gone = np.array([value is None or value != value for value in column.ravel()]).reshape(column.shape)
    known = column[~gone]
    if column.dtype.kind == "O" and all(isinstance(one, (int, float, np.number)) for one in known.ravel()):
        return np.where(gone, np.nan, column).astype(np.float64) if gone.any() else np.array(column.tolist())
    return np.where(gone, "n/a", column).astype(str)
