"""Test–retest reliability on the page of a report, where subjects have several scans."""

from __future__ import annotations

import numpy as np

from cignn.evaluation.retest import Retest, has_repeats, retest_reliability
from cignn.explanations import Explanations
from cignn.report.report_data import ReportData


def retest_context(data: ReportData) -> dict[str, object]:
    """What the template reads about scans of the same subject; None without any."""
    if data.unit != "scan" or not data.graphs.aligned or not has_repeats(data.subjects):
        return {"retest": None}
    explanations, held = _of_subjects_not_trained_on(data)
    compared: list[Retest] = []
    for part in (data.graphs, explanations if explanations.one_class() is not None else None):
        if part is None:
            continue
        try:
            compared.append(retest_reliability(part))
        except ValueError:  # labels change between scans, or no two subjects have the same scans
            continue
    if not compared:
        return {"retest": None}
    decision = compared[-1].decision
    return {
        "retest": {
            "rows": [_row(one) for one in compared],
            "kind": compared[0].kind,
            "explained": len(compared) > 1,
            "held_out": held,
            "decision": None if np.isnan(decision) else _number(decision),
        }
    }


def _of_subjects_not_trained_on(data: ReportData) -> tuple[Explanations, bool]:
    """Explanations of subjects the model has not seen, where enough of these have repeated scans."""
    held = data.held_out
    if held is not None and has_repeats(data.subjects[np.asarray(held, bool)]):
        return data.explanations[np.asarray(held, bool)], True
    return data.explanations, False


def _row(found: Retest) -> list[str]:
    return [
        found.what,
        f"{found.n_subjects} × {found.n_scans}",
        f"{_number(found.median)} ({_number(found.low)} to {_number(found.high)})",
        _number(found.strangers),
        _number(found.rho),
        _number(found.rho_strangers),
        _number(found.discriminability),
        f"{found.identification:.0%} ({found.chance:.0%})",
    ]


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
