"""`draw_history`: the loss terms and validation scores of a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cignn.report.style import (
    DASHES,
    PAGE,
    PALETTE,
    QUIET,
    house_style,
    need_columns,
    new_figure,
    readable,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOT_TERMS = ("epoch", "stage", "seconds", "member")
TERM_NAMES = {
    "kl": "KL divergence",
    "independence": "independence  I(α; β)",
    "causal": "causal term  −I(α; Y | β)",
    "hsic": "HSIC(α, β)",
    "features": "reconstruction of features",
    "adjacency": "reconstruction of edges",
    "loss": "sum of weighted terms",
    "edges": "sparsity of edges",
    "rest": "class from the other edges",
    "skipped_terms": "terms skipped in a step",
    "validation_loss": "validation cross-entropy",
    "validation_price": "validation sparsity",
}
VALIDATION = "validation_"


def draw_history(
    history: pd.DataFrame,
    best_epoch: int | Sequence[int] | None = None,
    *,
    columns: int | None = None,
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw a training: one panel per loss term and per validation score.

    Parameters
    ----------
    history : DataFrame
        ``classifier.history_``, one row per epoch: epoch, stage, every named term, validation_…. The members
        of an ensemble (column member) are drawn in the same panels.
    best_epoch : int or sequence of int, default=None
        ``classifier.best_epoch_``, the epoch whose weights were kept, which is marked; one per member of an
        ensemble.
    columns : int, default=None
        Panels in a row. By default as many as fit.
    width : float, default=7.2
        Width of the figure in inches.
    path : str or Path, default=None
        File to save to: .pdf, .svg, .png and so on, or without an ending for .pdf and .png.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.report import draw_history
    >>> history = pd.DataFrame({"epoch": [0, 1], "loss": [1.0, 0.5], "validation_accuracy": [0.6, 0.8]})
    >>> figure = draw_history(history, best_epoch=1)
    >>> len(figure.axes)
    2
    """
    from matplotlib.ticker import MaxNLocator

    panels = _history_panels(history)
    members = [table for _, table in history.groupby("member")] if "member" in history else [history]
    chosen = [] if best_epoch is None else np.atleast_1d(np.asarray(best_epoch)).astype(int).tolist()
    if len(chosen) not in (0, len(members)):
        raise ValueError(f"expected {len(members)} best epochs, one per member, got {len(chosen)}.")
    columns = max(1, int(width // 1.75)) if columns is None else columns
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with house_style():
        figure = new_figure(width, 1.35 * rows + 0.3)
        grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
        for ax in grid.flat[len(panels) :]:
            ax.remove()
        for i, (ax, name) in enumerate(zip(grid.flat, panels, strict=False)):
            ax.set_title(TERM_NAMES.get(str(name), readable(name)), loc="left", fontsize=7)
            for member, table in enumerate(members):
                seen = table[table[name].notna()]
                look: dict[str, Any] = {"color": PALETTE[member % len(PALETTE)], "lw": 0.9, "ms": 2.5}
                look["ls"] = DASHES[member // len(PALETTE) % len(DASHES)]
                look["marker"] = "o" if len(seen) == 1 else None  # a line needs two epochs
                ax.plot(seen["epoch"], seen[name], label=f"member {member}", **look)
                if chosen:
                    _mark(ax, seen, name, chosen[member], alone=len(members) == 1)
            _draw_stages(ax, members[0], first=i == 0)
            ax.margins(x=0.03, y=0.12)
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.yaxis.set_major_locator(MaxNLocator(4))
            ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}".replace("-", "−"))
            if i >= len(panels) - columns:
                ax.tick_params(labelbottom=True)
        kept = ", ".join(map(str, chosen))
        figure.supxlabel(f"epoch (kept: {kept})" if chosen else "epoch", fontsize=7)
        return save(figure, path)


def _history_panels(history: pd.DataFrame) -> list[str]:
    """Columns that are drawn: validation scores, then loss terms."""
    need_columns(history, ["epoch"], "the history")
    measured = history.select_dtypes("number").columns
    scores = [name for name in measured if str(name).startswith(VALIDATION)]
    terms = [name for name in measured if name not in NOT_TERMS and name not in scores]
    panels = [name for name in scores + terms if history[name].notna().any()]
    for name in ("validation_price", "skipped_terms"):  # 0 throughout for most classifiers
        if name in panels and not history[name].any():
            panels.remove(name)
    if not panels:
        raise ValueError(
            "the history has no loss term and no validation score; pass a classifier's history_."
        )
    return panels


def _mark(ax: Axes, seen: pd.DataFrame, name: str, epoch: int, alone: bool) -> None:
    """A line at the chosen epoch and a dot on the curve there, with its value in the title of a score."""
    if alone:
        ax.axvline(epoch, color=PALETTE[5], lw=0.8, ls="--", zorder=1).set_gid("chosen")
    value = seen.loc[seen["epoch"] == epoch, name]
    if value.empty:
        return
    ax.plot(epoch, value.iloc[0], "o", ms=3.5, mfc=PALETTE[5], mec="white", mew=0.5, zorder=4, gid="chosen")
    if alone and str(name).startswith(VALIDATION):
        ax.set_title(f"{ax.get_title(loc='left')}: {value.iloc[0]:.3g}", loc="left", fontsize=7)


def _draw_stages(ax: Axes, table: pd.DataFrame, first: bool) -> None:
    """A thin line where one stage of the training follows another; their names in the first panel."""
    if "stage" not in table or table["stage"].nunique() < 2:
        return
    begins = table.groupby("stage", sort=False)["epoch"].min()
    for stage, epoch in begins.items():
        if epoch > table["epoch"].min():
            ax.axvline(epoch - 0.5, color=QUIET, lw=0.5, zorder=0).set_gid("stage")
        if first:
            ax.text(
                epoch,
                0.02,
                f" {readable(stage)}",
                transform=ax.get_xaxis_transform(),
                fontsize=5.5,
                color=QUIET,
                va="bottom",
                ha="left",
            )
