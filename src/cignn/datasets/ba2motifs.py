"""BA-2Motifs as published: a reader for its .npz file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cignn.datasets.arrays import read_npz
from cignn.datasets.reading import named, regular
from cignn.graphs import GraphSet

_NODES = 25
_SHAPES = {"adj": ("g", "25", "25"), "x": ("g", "25", "d"), "y": ("g",)}
_MOTIF = np.arange(_NODES) >= 20
_REMEDY = "get the published ba2motifs.npz again"


def load_ba2motifs(path: str | Path) -> GraphSet:
    """Load the published BA-2Motifs graphs with their edge truth, the edges among nodes 20..24.

    Parameters
    ----------
    path : the .npz file, or the folder that holds ``ba2motifs.npz``. Its arrays are ``adj`` (g, 25, 25),
        ``x`` (g, 25, d) and ``y`` (g,), 0 for the five-cycle and 1 for the house; or y (g, 2), a 1 in the
        column of the class, as in the pickle of the authors, which is not read itself.

    Returns
    -------
    GraphSet of g graphs. Self-loops are dropped (40 graphs of the published file have one, in place of the
    edge that should attach their motif).
    """
    path = named(path)
    path = path / "ba2motifs.npz" if path.is_dir() else path
    path = regular(path, "give ba2motifs.npz or the folder that holds it")
    file = _read(path)
    truth = (file["adj"] != 0) & _MOTIF & _MOTIF[:, None]
    try:
        return GraphSet.from_arrays(file["adj"], file["x"], file["y"].astype(np.int64), edge_truth=truth)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays adj, x and y, their kinds and shapes checked."""
    if path.suffix in (".pkl", ".pickle"):
        raise ValueError(
            f"{path} is not a readable .npz file of numbers; a pickle may run any program: write its arrays "
            "with np.savez('ba2motifs.npz', adj=, x=, y=)."
        )
    arrays = read_npz(path, only=_SHAPES, remedy=_REMEDY)
    if arrays.get("y", np.empty(0)).shape[1:] == (2,) and (np.sort(arrays["y"], axis=1) == [0, 1]).all():
        arrays["y"] = arrays["y"].argmax(1)
    missing = [name for name in _SHAPES if name not in arrays]
    if missing:
        raise ValueError(f"{path} has no array '{missing[0]}', expected adj, x and y; {_REMEDY}.")
    n_graphs = len(arrays["adj"]) if arrays["adj"].ndim else 0
    for name, shape in _SHAPES.items():
        array, fixed = arrays[name], {"g": n_graphs, "25": _NODES}
        fits = array.ndim == len(shape) and all(
            fixed.get(side, got) == got for side, got in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype.kind not in "biuf":
            raise ValueError(
                f"{path}: '{name}' must hold numbers of shape ({', '.join(shape)}), one g for adj, x and y, "
                f"got {array.dtype} of shape {array.shape}; {_REMEDY}."
            )
    if not np.isin(arrays["y"], (0, 1)).all():
        raise ValueError(f"{path}: 'y' must be 0 or 1, got {np.unique(arrays['y'])[:5]}; {_REMEDY}.")
    return arrays
