"""Explanations to draw, and how to find what was drawn in a figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cignn.datasets import aal116
from cignn.explanations import Explanation

AAL = aal116()


def explanation(seed: int = 0, n_edges: int = 200) -> Explanation:
    """Random weights on random edges of the AAL's regions; never two equal weights."""
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.triu_indices(116, 1), 1)
    edges = pairs[np.sort(rng.choice(len(pairs), n_edges, replace=False))]
    return Explanation(edges, rng.random(n_edges), 116, AAL.names, systems=AAL.systems)


def axes_of(figure: Figure, label: str) -> Axes:
    (ax,) = [ax for ax in figure.axes if ax.get_label() == label]
    return ax


def part(ax: Axes, kind: type, label: str) -> Any:
    (found,) = [c for c in ax.collections if isinstance(c, kind) and c.get_label() == label]
    return found


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


def legend_words(figure: Figure) -> list[str]:
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes)]
    return [text.get_text() for legend in legends if legend is not None for text in legend.get_texts()]


def by_gid(ax: Axes, gid: str) -> list[Any]:
    return [line for line in ax.lines if line.get_gid() == gid]
