"""Figures of a report for a paper, each as SVG and PDF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cignn.evaluation.decisions import decision_curve
from cignn.report.connectogram import draw_connectogram
from cignn.report.connectome import draw_connectome
from cignn.report.curves import draw_calibration
from cignn.report.decisions import decision_view, draw_decision_curves
from cignn.report.outcomes import roc_of
from cignn.report.performance import calibration_bins, scored_of, site_rows
from cignn.report.report_data import ReportData
from cignn.report.roc import draw_confusion, draw_roc
from cignn.report.style import COLUMN, PALETTE, QUIET, house_style, new_figure, save
from cignn.report.systems import draw_system_matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".pdf")


def write_figures(folder: Path, data: ReportData) -> list[Path]:
    """Draw the figures that a report has data for, and return their files."""
    makers: dict[str, Callable[[ReportData], Figure | None]] = {
        "roc": _roc,
        "confusion": _confusion,
        "calibration": _calibration,
        "decision_curve": _decision_curve,
        "sites": _sites,
        "connectome": _connectome,
        "connectogram": _connectogram,
        "systems": _systems,
        "removal": _removal,
    }
    files = []
    for name, make in makers.items():
        figure = make(data)
        for ending in ENDINGS if figure is not None else ():
            files.append(folder / f"{name}{ending}")
            save(figure, files[-1])  # type: ignore[arg-type]
    return files


def out_of_fold(data: ReportData) -> pd.DataFrame | None:
    """Return the predictions that are scored as rows of `Store.predictions`; None without any."""
    if data.predictions is not None:
        return data.predictions
    chosen = np.flatnonzero(data.scored)
    if not len(chosen):
        return None
    labels = data.classes[np.stack([data.truth[chosen], data.predicted[chosen]])]
    names = {
        "method": str(data.facts.get("model", "model")),
        "data": "",
        "protocol": "holdout",
        "split": "1",
        "seed": 0,
    }
    columns: dict[str, Any] = names | {"position": chosen, "subject": data.subjects[chosen]}
    columns |= {"y_true": labels[0], "y_pred": labels[1]}
    chances = {f"p_{label}": data.probabilities[chosen, k] for k, label in enumerate(data.classes.tolist())}
    return pd.DataFrame(columns | chances)


def _roc(data: ReportData) -> Figure | None:
    rows = out_of_fold(data)
    if rows is None or not roc_of(data):
        return None
    return draw_roc(rows, positive=_positive(data), class_names=_names(data))


def _confusion(data: ReportData) -> Figure | None:
    rows = out_of_fold(data)
    return None if rows is None else draw_confusion(rows, positive=_positive(data), class_names=_names(data))


def _positive(data: ReportData) -> Any:
    return data.classes.tolist()[data.positive_number] if len(data.classes) == 2 else None


def _names(data: ReportData) -> dict[Any, str]:
    return {label: data.class_name(label) for label in data.classes.tolist()}


def _calibration(data: ReportData) -> Figure | None:
    scored = scored_of(data)
    if scored is None or scored.coded.probabilities is None or not calibration_bins(data):
        return None
    if len(data.classes) == 2:
        y, p = scored.coded.truth == 1, scored.coded.probabilities[:, 1]
    else:
        p = scored.coded.probabilities.max(1)
        y = scored.coded.probabilities.argmax(1) == scored.coded.truth
    return draw_calibration(pd.DataFrame({"y": y.astype(int), "probability": np.clip(p, 0, 1)}))


def _decision_curve(data: ReportData) -> Figure | None:
    scored = scored_of(data)
    if scored is None or scored.coded.probabilities is None or decision_view(data) is None:
        return None
    chances = scored.coded.probabilities
    return draw_decision_curves(decision_curve(scored.coded.truth, chances, np.array([0, 1]), positive=1))


def _sites(data: ReportData) -> Figure | None:
    from cignn.report.comparison import draw_sites

    rows = site_rows(data)
    if len(rows) < 2:
        return None
    return draw_sites(
        pd.DataFrame([(row.site, row.accuracy.value, row.n) for row in rows], columns=["site", "value", "n"])
    )


def _shown(data: ReportData) -> Any:
    """The explanation of the group, or the mean over the subjects."""
    return data.explanations.mean() if data.group is None else data.group


def _connectome(data: ReportData) -> Figure | None:
    places = data.graphs.node_meta.get("coordinates") if data.graphs.aligned else None
    if places is None or not np.isfinite(places).all():
        return None
    return draw_connectome(_shown(data), np.asarray(places, float), colours=data.colours)


def _connectogram(data: ReportData) -> Figure | None:
    if not data.graphs.aligned or data.unit == "graph":
        return None
    return draw_connectogram(_shown(data), colours=data.colours)


def _systems(data: ReportData) -> Figure | None:
    if not data.graphs.aligned or len(set(data.graphs.node_meta.get("system", ()))) < 2:
        return None
    return draw_system_matrix(data.explanations if data.group is None else data.group, colours=data.colours)


def _removal(data: ReportData) -> Figure | None:
    """Mean probability as edges are removed, as on the page."""
    if data.removal is None:
        return None
    counts = [str(int(count)) for count in data.removal.shares]
    places = np.arange(len(counts))
    first = "largest contributions" if data.explanations.edge_contributions is not None else "top edges"
    with house_style():
        figure = new_figure(COLUMN, COLUMN * 0.7)
        ax = figure.add_subplot()
        ax.plot(
            places, data.removal.top.mean(1), color=PALETTE[0], marker="o", ms=3.5, label=f"{first} first"
        )
        ax.plot(places, data.removal.random.mean(1), color=QUIET, ls="--", label="random edges")
        ax.set_xticks(places, counts)
        ax.set(xlabel="edges removed", ylabel="mean probability", ylim=(0, 1.02))
        ax.legend(loc="lower left")
    return figure
