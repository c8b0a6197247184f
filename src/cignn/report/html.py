"""`write_report`: one HTML file that opens by double click, without a network, and can be sent round.

All text of the data is escaped, and the page's own policy (CSP) lets nothing run but its one script and
lets nothing be fetched.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn import __version__
from cignn._arrays import sha256
from cignn._files import write_text
from cignn.datasets.atlas import SYSTEM_NAMES
from cignn.evaluation.explanation import explanation_roc_auc
from cignn.report.graphs import BUDGET, group_of, group_payload, packed, records
from cignn.report.performance import (
    NAMES,
    MethodTable,
    Score,
    calibration_bins,
    leading_metric,
    meanings,
    method_tables,
    own_scores,
    scored_of,
    site_rows,
)
from cignn.report.report_data import ReportData
from cignn.report.style import in_order, system_colours

ALIKE = 0.02  # weights of an edge that spread less than this over graphs are one weight
PROTOCOLS = {"holdout": "random hold-outs", "kfold": "cross-validation", "loso": "leaving one site out"}
SCRIPTS = ("data.js", "charts.js", "table.js", "viewer.js", "subject.js", "main.js")


def write_report(path: str | Path, data: ReportData, *, budget: int = BUDGET) -> Path:
    """Write a report as one self-contained HTML file and return its path.

    data : from `report_of`. budget : bytes that the graphs' edges may take before they are encoded; where all
    do not fit, each graph keeps its heaviest ones and the page says so.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is an .html file, got {path.name!r}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file in it.")
    write_text(path, render_report(data, budget=budget))  # an older report stays until the new one is whole
    return path


def render_report(data: ReportData, *, budget: int = BUDGET) -> str:
    """Return the page of a report."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cignn.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def source(name: str) -> str:
        return environment.loader.get_source(environment, name)[0]  # type: ignore[union-attr]

    script = '"use strict";\n(() => {\n' + "\n".join(source(name) for name in SCRIPTS) + "})();\n"
    digest = base64.b64encode(bytes.fromhex(sha256(script.encode()))).decode()
    group = group_of(data)
    kept = records(data, group, budget)
    payload = _payload(data, kept.layout, kept.kept) | {
        "group": None if group is None else group_payload(data, group)
    }
    return environment.get_template("report.html").render(
        **_context(data),
        style=source("report.css"),
        script=script,
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        payload=embedded_json(payload),
        records="\n".join(kept.lines),
    )


def embedded_json(value: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# ---------------------------------------------------------------- what the script reads


def _payload(data: ReportData, layout: str, kept: int | None) -> dict[str, Any]:
    graphs = data.graphs
    systems = graphs.node_meta.get("system") if graphs.aligned else None
    places = graphs.node_meta.get("coordinates") if graphs.aligned else None
    known = [] if systems is None else in_order(systems)
    colours = system_colours(known, data.colours)
    nodes = None
    if graphs.aligned:
        n = int(graphs.n_nodes[0])
        nodes = {
            "names": _told_apart(graphs.node_names or [f"node {i}" for i in range(n)]),
            "system": None if systems is None else [known.index(str(s)) for s in systems],
            "xyz": None if places is None or not np.isfinite(places).all() else packed(places, "<f4"),
        }
    removal = data.removal
    members = data.member_probabilities
    return {
        "unit": data.unit,
        "classes": data.class_labels,
        "positive": data.positive_number,
        "strength": "connectivity" if data.explanations.connectivity is None else "correlation",
        "calibrated_by": "" if data.predictions is None else " in the evaluation",
        "systems": [{"name": name, "colour": colours[name]} for name in known],
        "nodes": nodes,
        "n_nodes": graphs.n_nodes.tolist(),
        "weighted": bool(graphs.weighted and (graphs.aligned or _varies(data))),
        "layout": layout,
        "kept": kept,
        "subjects": {
            "name": data.names,
            "site": None if data.sites is None else data.sites.tolist(),
            "truth": data.truth.tolist() if (data.truth >= 0).any() else None,
            "predicted": data.predicted.tolist(),
            "held_out": None if data.held_out is None else np.asarray(data.held_out, int).tolist(),
            "probability": _rounded(data.probabilities),
            "members": None if members is None else _rounded(members.transpose(1, 0, 2)),
            "columns": {
                str(name): [_cell(value) for value in column]
                for name, column in graphs.meta.items()
                if name != "subject" and np.ndim(column) == 1
            },
        },
        "removal": None
        if removal is None
        else {
            "shares": removal.shares.tolist(),
            "heaviest": _rounded(removal.heaviest.T),
            "chance": _rounded(removal.chance.T),
        },
        "calibration": [
            [b.low, b.high, b.n, *(round(float(v), 4) for v in b.observed)] for b in calibration_bins(data)
        ],
        "trained_on": data.trained_on and data.held_out is None,
        "alike": alike(data),
    }


def _told_apart(names: list[str]) -> list[str]:
    """Names of nodes; those that several have with the number of the node."""
    counts = pd.Series(names).value_counts()
    return [name if counts[name] == 1 else f"{name} (node {i})" for i, name in enumerate(names)]


def alike(data: ReportData) -> bool:
    """Whether a model weighs the same edges in every graph, whoever it is."""
    group = group_of(data) if len(data.graphs) > 1 else None
    return group is not None and bool(group.weights.std(0, ddof=1).max(initial=0) < ALIKE)


def _varies(data: ReportData) -> bool:
    """Whether edges of ragged graphs have weights worth a column."""
    return any(
        np.ptp(data.graphs.edge_values(i)) > 0 for i in range(len(data.graphs)) if data.graphs.n_edges[i]
    )


def _rounded(values: np.ndarray) -> list:
    return np.round(np.asarray(values, float), 4).tolist()


def _cell(value: Any) -> str:
    if value is None or (np.isscalar(value) and pd.isna(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


# -------------------------------------------------------------- what the template reads


def _context(data: ReportData) -> dict[str, Any]:
    scores = own_scores(data)
    scored = scored_of(data)
    tables = method_tables(data.results, data.missing)
    run = None if data.predictions is None else _run_view(data)
    n_edges = data.graphs.n_edges
    nodes = sorted({int(data.graphs.n_nodes.min()), int(data.graphs.n_nodes.max())})
    right = None
    if data.graphs.edge_truth is not None:
        areas = explanation_roc_auc(data.explanations)
        right = float(np.nanmean(areas)) if np.isfinite(areas).any() else None
    removal = data.removal
    lead = scores.get("balanced_accuracy", Score(np.nan))
    shown = [*scores, *(m for table in tables for m in table.metrics)]
    n_subjects = len(np.unique(data.subjects))
    return {
        "title": data.title,
        "version": __version__,
        "written": datetime.now().strftime("%Y-%m-%d %H:%M"),
        "unit": data.unit,
        "n": len(data.graphs),
        "n_subjects": n_subjects,
        "person": "graph" if data.unit == "graph" else "subject",
        "n_sites": 0 if data.sites is None else len(np.unique(data.sites)),
        "nodes": " to ".join(map(str, nodes)),
        "node_word": "regions" if data.graphs.aligned else "nodes",
        "n_edges": f"{n_edges.mean():,.0f}",
        "aligned": data.graphs.aligned,
        "classes": data.class_labels,
        "labelled": bool((data.truth >= 0).any()),
        "n_scored": 0 if scored is None else scored.n_subjects,
        "run": run,
        "missing": [str(task) for task in data.missing],
        "held_out": data.held_out is not None,
        "trained_on": data.trained_on and data.held_out is None,
        "counts": _counts(data),
        "demographics": _table(data.demographics),
        "exclusions": [str(line) for line in data.exclusions],
        "audit": [] if data.audit is None else list(data.audit),
        "audited": data.audit is not None,
        "metric_names": NAMES,
        "method_tables": [_method_view(table, data) for table in tables],
        "scores": {NAMES.get(name, name): score for name, score in scores.items()},
        "meanings": meanings(shown, data.class_labels, data.positive_number),
        "lead": None if np.isnan(lead.value) or (run is not None and run["unfinished"]) else lead,
        "sites": site_rows(data),
        "calibration": calibration_bins(data),
        "positive": data.class_labels[data.positive_number] if len(data.classes) == 2 else None,
        "tangent": data.explanations.connectivity is not None,
        "explanation_auc": right,
        "removal": None
        if removal is None
        else [
            (float(share), float(a.mean()), float(b.mean()))
            for share, a, b in zip(removal.shares, removal.heaviest, removal.chance, strict=True)
        ],
        "members": 0 if data.member_probabilities is None else len(data.member_probabilities),
        "systems": _system_table(data),
        "alike": alike(data),
        "settings": {str(k): _setting(v) for k, v in data.settings.items()},
        "facts": {str(k): str(v) for k, v in data.facts.items()},
    }


def _run_view(data: ReportData) -> dict[str, Any]:
    """What the page says of the evaluation whose predictions are scored."""
    assert data.predictions is not None
    first = data.predictions.iloc[0]
    method = str(first["method"])
    return {
        "method": method,
        "protocol": PROTOCOLS.get(str(first["protocol"]), str(first["protocol"])),
        "tests": len(data.predictions[["split", "seed"]].drop_duplicates()),
        "unfinished": any(task.method == method for task in data.missing),
    }


def _method_view(table: MethodTable, data: ReportData) -> dict[str, Any]:
    """A table of methods with the scale its intervals are drawn on."""
    lead = leading_metric(table.metrics)
    drawn = [rows[lead] for rows in table.rows.values() if lead in rows and not np.isnan(rows[lead].value)]
    ends = [end for s in drawn for end in (s.value, s.low, s.high) if not np.isnan(end)]
    low = min([0.5, *ends]) if lead != "calibration_error" else 0.0
    scale = (max(-1.0, np.floor(low * 10) / 10), min(1.0, np.ceil(max([0.6, *ends]) * 10) / 10))
    blank = Score(np.nan)
    rows = [
        {
            "method": method,
            "done": table.done[method],
            "lead": scores.get(lead, blank),
            "scores": [scores.get(m, blank) for m in table.metrics],
        }
        for method, scores in table.rows.items()
    ]
    return {
        "data": table.data,
        "protocol": table.protocol,
        "runs": table.runs,
        "complete": table.complete,
        "positive": None if table.positive is None else data.class_name(table.positive),
        "metrics": [NAMES.get(m, m) for m in table.metrics],
        "lead": NAMES.get(lead, lead),
        "scale": scale,
        "rows": rows,
        "failed": table.failed,
    }


def _counts(data: ReportData) -> dict[str, Any] | None:
    """Graphs per site and class, with sums; None where there are neither sites nor labels."""
    labelled = (data.truth >= 0).any()
    if data.sites is None and not labelled:
        return None
    columns = [*data.class_labels, "no known label"] if labelled else []
    numbers = np.where(data.truth >= 0, data.truth, len(data.classes))
    sites = np.full(len(data.graphs), "all") if data.sites is None else data.sites
    rows = []
    for site in [*np.unique(sites), None] if data.sites is not None else [None]:
        here = np.ones(len(sites), bool) if site is None else sites == site
        split = [int((numbers[here] == k).sum()) for k in range(len(columns))]
        rows.append(("all" if site is None else str(site), split, int(here.sum())))
    if labelled and not rows[-1][1][-1]:  # nobody without a label: no column for them
        columns, rows = columns[:-1], [(site, split[:-1], total) for site, split, total in rows]
    return {"columns": columns, "rows": rows}


def _table(frame: pd.DataFrame | None) -> dict[str, Any] | None:
    if frame is None:
        return None
    flat = frame.reset_index()
    return {
        "columns": [str(c) for c in flat],
        "rows": [[_cell(v) for v in row] for row in flat.itertuples(index=False)],
    }


def _system_table(data: ReportData) -> dict[str, Any] | None:
    """Mean weights within and between systems, each with its share of the largest for its shade."""
    if not data.graphs.aligned or "system" not in data.graphs.node_meta:
        return None
    table = data.explanations.by_system()
    names = in_order(data.graphs.node_meta["system"])
    if not 2 <= len(names) <= 20:
        return None
    values = table.loc[names, names].to_numpy(float)
    low, high = np.nanmin(values), np.nanmax(values)
    span = (high - low) or 1.0
    rows = [
        [(None, 0.0) if np.isnan(v) else (float(v), float((v - low) / span)) for v in row] for row in values
    ]
    known = [(name, SYSTEM_NAMES[name]) for name in names if name in SYSTEM_NAMES]
    digits = 2 if high - low >= 0.1 else 3
    return {
        "names": names,
        "rows": rows,
        "low": f"{low:.{digits}f}",
        "high": f"{high:.{digits}f}",
        "digits": digits,
        "long": known,
    }


def _setting(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
