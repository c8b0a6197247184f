"""What a report says about an evaluation beside its scores: ROC curve, confusion matrix, tests of methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cignn.evaluation.resampling import Part
from cignn.evaluation.statistics import compare_methods
from cignn.evaluation.trivial import TRIVIAL
from cignn.report.performance import NAMES, MethodTable, Score, mean_interval, scored_of
from cignn.report.report_data import ReportData
from cignn.report.roc import GRID, Confusion, RocCurve, confusion_of, roc_curves

COMPARED = ("balanced_accuracy", "roc_auc", "accuracy")


def outcomes_context(data: ReportData, tables: list[MethodTable]) -> dict[str, object]:
    """What the template reads."""
    curves, confusion = roc_of(data), confusion_matrix(data)
    compared = comparison_of(data, tables)
    tested = data.permutations
    return {
        "roc": [_roc_view(curve, data) for curve in curves],
        "confusion": None if confusion is None else _confusion_view(confusion, data),
        "comparison": [] if compared is None else _comparison_views(compared),
        "permutations": None if tested is None else _permutation_view(tested),
    }


def parts_of(data: ReportData) -> list[Part]:
    """The predictions that are scored, by test set; scans are told apart where subjects have several."""
    scored = scored_of(data)
    if scored is None:
        return []
    tasks = [scored.take(scored.task == task) for task in np.unique(scored.task)]
    return [Part(one.coded, one.subject, one.subject) for one in tasks]


def roc_of(data: ReportData) -> list[RocCurve]:
    """Mean ROC curves of the predictions that are scored."""
    return roc_curves(parts_of(data))


def confusion_matrix(data: ReportData) -> Confusion | None:
    """Confusion matrix of the predictions that are scored; None without any."""
    parts = parts_of(data)
    if not parts:
        return None
    rows = data.predictions
    scans = int(data.scored.sum())
    if rows is not None:
        scans = rows["position"].nunique() if "position" in rows else rows["subject"].nunique()
    return confusion_of(parts, scans)


def comparison_of(data: ReportData, tables: list[MethodTable]) -> pd.DataFrame | None:
    """Corrected tests of all pairs of methods; None where they are unfinished or there is one method."""
    if data.results is None or not tables or any(not table.complete for table in tables):
        return None
    own = data.results
    own = own[(own["metric"] != "error") & (own.get("explainer", "") == "")]
    needed = {"split", "seed", "data", "protocol", "n_train", "n_validation", "n_test"}
    if own["method"].nunique() < 2 or not needed <= set(own):
        return None
    if len(own[["split", "seed"]].drop_duplicates()) < 2:
        return None
    found = []
    for metric in COMPARED:
        try:
            found.append(compare_methods(own, metric).assign(metric=metric))
        except ValueError:  # a method without probabilities, or scores that are not defined everywhere
            continue
    return pd.concat(found, ignore_index=True) if found else None


def trivial_rows(data: ReportData, table: MethodTable) -> dict[str, dict[str, Score]]:
    """Scores of methods that need no connection, by metric, on the data of a table."""
    if data.trivial is None:
        return {}
    rows = data.trivial
    here = rows[(rows["data"].astype(str) == table.data) & (rows["protocol"] == table.protocol)]
    return {
        str(method): {str(metric): mean_interval(values) for metric, values in some.groupby("metric")}
        for method, some in here.groupby("method", sort=False)
    }


# ------------------------------------------------------------------------- views


def _roc_view(curve: RocCurve, data: ReportData) -> dict[str, object]:
    """A curve as points of a square of 240, from the lower left."""
    band = ""
    if not np.isnan(curve.low).all():
        ends = [*zip(GRID, curve.high, strict=True), *zip(GRID[::-1], curve.low[::-1], strict=True)]
        band = _points(ends)
    return {
        "name": _label_name(curve.label, data),
        "line": _points([(0.0, 0.0), *zip(GRID, curve.sensitivity, strict=True)]),
        "band": band,
        "area": curve.area,
        "tests": curve.tests,
        "left_out": curve.left_out,
        "rows": [
            (f"{GRID[k]:.1f}", Score(curve.sensitivity[k], curve.low[k], curve.high[k]))
            for k in range(10, 100, 10)
        ],
    }


def _points(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{40 + 240 * x:.1f},{250 - 240 * y:.1f}" for x, y in places)


def _confusion_view(found: Confusion, data: ReportData) -> dict[str, object]:
    shares = found.shares
    rows = [
        {
            "name": _label_name(label, data),
            "n": int(found.counts[i].sum()),
            "cells": [
                {"share": float(np.nan_to_num(100 * share)), "count": int(count), "known": share == share}
                for share, count in zip(shares[i], found.counts[i], strict=True)
            ],
        }
        for i, label in enumerate(found.labels.tolist())
    ]
    repeats = f"{found.repeats:.3g}" if found.repeats > 1.001 else ""
    return {"names": [row["name"] for row in rows], "rows": rows, "repeats": repeats}


def _label_name(number: object, data: ReportData) -> str:
    """Name of a class; predictions that are scored have class numbers as labels."""
    return data.class_labels[int(str(number))]


def _comparison_views(table: pd.DataFrame) -> list[dict[str, object]]:
    """One table per score, the one that methods are ranked by first."""
    return [
        {
            "metric": NAMES.get(str(metric), str(metric)),
            "rows": [
                {
                    "first": row.first,
                    "second": row.second,
                    "difference": Score(row.difference, row.low, row.high),
                    "p": p_text(row.p_value),
                    "holm": p_text(row.p_holm),
                }
                for row in some.itertuples()
            ],
        }
        for metric, some in table.groupby("metric", sort=False)
    ]


def _permutation_view(table: pd.DataFrame) -> dict[str, object]:
    """One row per method, with a cell for every score."""
    metrics = [metric for metric in NAMES if metric in set(table["metric"])]
    rows = []
    for method, some in table.groupby("method", sort=False):
        by_metric = {row.metric: row for row in some.itertuples()}
        cells = [_permutation_cell(by_metric.get(metric)) for metric in metrics]
        rows.append({"method": method, "cells": cells, "trivial": method in TRIVIAL})
    n = int(table["n_permutations"].max())
    return {"metrics": [NAMES[metric] for metric in metrics], "rows": rows, "n": n}


def _permutation_cell(row: Any) -> dict[str, object] | None:
    if row is None:
        return None
    spread = "" if np.isnan(row.permuted_std) else f" ± {row.permuted_std:.2f}"
    permuted = f"{row.permuted_mean:.2f}".replace("-", "−") + spread
    return {"value": Score(row.value), "permuted": permuted, "p": p_text(row.p_value)}


def p_text(p: float) -> str:
    """A p-value with three digits, or that it is smaller than these can show."""
    if np.isnan(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
