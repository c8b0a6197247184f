"""The regions behind the nodes: where they lie, what they are called, which of them a view shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cignn.datasets.atlas import Atlas, aal116
from cignn.explanations import Explanation
from cignn.report.edges import names_of
from cignn.report.style import QUIET, system_colours

# What of (x, y, z) goes right and up in each view, and in which direction the view looks.
VIEWS = {"l": (1, 2), "r": (1, 2), "x": (1, 2), "y": (0, 2), "z": (0, 1)}
VIEW_NAMES = {"l": "left", "r": "right", "x": "side", "y": "back", "z": "top"}


class Regions(NamedTuple):
    """What is known of the n nodes: coordinates (n, 3), names, system of each or None, its colours."""

    coordinates: np.ndarray
    names: list[str]
    systems: np.ndarray | None
    colours: dict[str, str]

    @property
    def own_colours(self) -> np.ndarray:
        """(n,) colour of each node."""
        if self.systems is None:
            return np.full(len(self.names), QUIET)
        return np.array([self.colours[system] for system in self.systems])


def regions(ex: Explanation, atlas: Atlas | np.ndarray | None, colours: str | Mapping[str, str]) -> Regions:
    """Gather what an explanation and an atlas know of the nodes.

    atlas : an `Atlas`, (n, 3) coordinates, or None where the nodes are the AAL's. An atlas with the same
    names in another order, or with more, is put in the explanation's order.
    """
    names, systems = names_of(ex), ex.systems
    if atlas is None:
        known = aal116()
        if names != known.names:
            raise ValueError(
                "where the nodes lie is not known; pass atlas=, an Atlas with coordinates or an (n, 3) "
                "array in MNI millimetres."
            )
        atlas = known
    if isinstance(atlas, Atlas):
        if atlas.coordinates is None:
            raise ValueError("the atlas has no coordinates; make it with columns x, y and z.")
        if ex.node_names is not None and names != atlas.names and set(names) <= set(atlas.names):
            if len(set(names)) < len(names):
                raise ValueError(
                    "some nodes share a name, so the atlas cannot be put into their order; give every region "
                    "a name of its own."
                )
            atlas = atlas[[atlas.names.index(name) for name in names]]
        elif ex.node_names is None and len(atlas) == ex.n_nodes:
            names = atlas.names
        systems = atlas.systems if systems is None else systems
        places = atlas.coordinates
    else:
        places = np.asarray(atlas, float)
    assert places is not None
    if places.shape != (ex.n_nodes, 3) or not np.isfinite(places).all():
        raise ValueError(
            f"expected finite coordinates of shape ({ex.n_nodes}, 3), one row per node, got {places.shape}."
        )
    if systems is None:
        return Regions(places, names, None, {})
    systems = np.asarray(systems, str)
    return Regions(places, names, systems, system_colours(systems, colours))


def seen(coordinates: np.ndarray, view: str) -> np.ndarray:
    """(n,) whether a node is drawn in this view: those from a side show that hemisphere and the midline."""
    x = coordinates[:, 0]
    return x <= 0 if view == "l" else x >= 0 if view == "r" else np.ones(len(x), bool)


def node_area(counts: np.ndarray, most: int, scale: float) -> np.ndarray:
    """Area of a node in points²: it grows with the number of edges."""
    return scale * (8 + 60 * (counts - 1) / max(most - 1, 1))
