"""`write_report`: one HTML file that opens in any browser without a network.

All text of the data is escaped, and the page's content security policy allows only its own script to run and
nothing to be fetched.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from cignn import __version__
from cignn._arrays import sha256
from cignn._files import write_text
from cignn.evaluation.known_edges import explanation_roc_auc
from cignn.report.decisions import decision_view
from cignn.report.group import group_context
from cignn.report.learning import learning_view
from cignn.report.methods_text import methods_text
from cignn.report.nuisances import nuisance_context
from cignn.report.outcomes import outcomes_context, trivial_rows
from cignn.report.paper_files import PaperFile, linked, write_paper_files
from cignn.report.payload import cell, payload_of
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
from cignn.report.records import BUDGET, Edges, alike, edges_of, records
from cignn.report.report_data import ReportData
from cignn.report.retest import retest_context

PROTOCOLS = {"holdout": "random hold-outs", "kfold": "cross-validation", "loso": "leaving one site out"}
SCRIPTS = ("data.js", "charts.js", "table.js", "viewer.js", "evidence.js", "subject.js", "main.js", "copy.js")


def write_report(path: str | Path, data: ReportData, *, budget: int = BUDGET, files: bool = False) -> Path:
    """Write a report as one self-contained HTML file.

    Parameters
    ----------
    path : str or Path
        Name of the file, with the ending .html.
    data : ReportData
        Result of `report_of`.
    budget : int, default=21000000
        Bytes that the graphs' edges may take before they are encoded. Where they do not fit, each graph keeps
        its top edges and the page says so.
    files : bool, default=False
        Whether to write what a paper takes from the report as well, by `write_paper_files`: to the folder
        ``NAME_files`` beside ``NAME.html``. The page links to them.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.report import report_of, write_report
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> write_report("report.html", report_of(model, graphs)).name
    'report.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is an .html file, got {path.name!r}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; pass the name of a file in it.")
    links = {}
    if files:
        links = linked(write_paper_files(path.with_name(f"{path.stem}_files"), data), path)
    write_text(path, render_report(data, budget=budget, files=links))  # an older report stays until then
    return path


def render_report(
    data: ReportData, *, budget: int = BUDGET, files: Mapping[str, Sequence[PaperFile]] | None = None
) -> str:
    """Return the HTML text of a report; files : beside it, by their kind."""
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
    edges = edges_of(data)
    kept = records(data, edges, budget)
    payload = payload_of(data, edges, kept)
    return environment.get_template("report.html").render(
        **_context(data, edges),
        methods=methods_text(data),
        files=dict(files or {}),
        style=source("report.css"),
        script=script,
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        payload=embedded_json(payload),
        records="\n".join(kept.lines),
    )


def embedded_json(value: object) -> str:
    """JSON for a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _context(data: ReportData, edges: Edges | None) -> dict[str, object]:
    """Everything the template reads."""
    scores = own_scores(data)
    scored = scored_of(data)
    tables = method_tables(data.results, data.missing)
    run = None if data.predictions is None else _run_view(data)
    removal = data.removal
    lead = scores.get("balanced_accuracy", Score(np.nan))
    shown = [*scores, *(m for table in tables for m in table.metrics)]
    return (
        _data_context(data)
        | group_context(data)
        | retest_context(data)
        | nuisance_context(data.nuisances)
        | outcomes_context(data, tables)
        | {
            "title": data.title,
            "version": __version__,
            "written": datetime.now().strftime("%Y-%m-%d %H:%M"),
            "n_scored": 0 if scored is None else scored.n_subjects,
            "run": run,
            "missing": [str(task) for task in data.missing],
            "held_out": data.held_out is not None,
            "trained_on": data.trained_on and data.held_out is None,
            "metric_names": NAMES,
            "method_tables": [_method_view(table, data) for table in tables],
            "scores": {NAMES.get(name, name): score for name, score in scores.items()},
            "meanings": meanings(shown, data.class_labels, data.positive_number),
            "lead": None if np.isnan(lead.value) or (run is not None and run["unfinished"]) else lead,
            "sites": site_rows(data),
            "calibration": calibration_bins(data),
            "decision": decision_view(data),
            "learning": learning_view(data.learning),
            "tangent": data.explanations.connectivity is not None,
            "explanation_auc": _explanation_auc(data),
            "removal": None
            if removal is None
            else [
                (int(count), float(top.mean()), float(random.mean()))
                for count, top, random in zip(removal.shares, removal.top, removal.random, strict=True)
            ],
            "members": 0 if data.member_probabilities is None else len(data.member_probabilities),
            "alike": alike(edges),
            "settings": {str(k): _setting(v) for k, v in data.settings.items()},
            "facts": {str(k): str(v) for k, v in data.facts.items()},
        }
    )


def _data_context(data: ReportData) -> dict[str, object]:
    """What the template reads about the graphs and subjects."""
    n_edges = data.graphs.n_edges
    nodes = sorted({int(data.graphs.n_nodes.min()), int(data.graphs.n_nodes.max())})
    return {
        "unit": data.unit,
        "n": len(data.graphs),
        "n_subjects": len(np.unique(data.subjects)),
        "person": "graph" if data.unit == "graph" else "subject",
        "n_sites": 0 if data.sites is None else len(np.unique(data.sites)),
        "nodes": " to ".join(map(str, nodes)),
        "node_word": "regions" if data.graphs.aligned else "nodes",
        "n_edges": f"{n_edges.mean():,.0f}",
        "aligned": data.graphs.aligned,
        "classes": data.class_labels,
        "positive": data.class_labels[data.positive_number] if len(data.classes) == 2 else None,
        "labelled": bool((data.truth >= 0).any()),
        "counts": _counts(data),
        "demographics": _table(data.demographics),
        "exclusions": [str(line) for line in data.exclusions],
        "audit": [] if data.audit is None else list(data.audit),
        "audited": data.audit is not None,
    }


def _explanation_auc(data: ReportData) -> float | None:
    """Mean ROC-AUC of known edges: in those who carry them where that is known, else in all graphs."""
    if data.carriers is not None:
        return float(data.carriers["roc_auc"].iloc[0])  # carriers come first
    if data.graphs.edge_truth is None:
        return None
    areas = explanation_roc_auc(data.explanations, by="auto")
    return float(np.nanmean(areas)) if np.isfinite(areas).any() else None


def _run_view(data: ReportData) -> dict[str, object]:
    """The evaluation whose predictions are scored."""
    assert data.predictions is not None
    first = data.predictions.iloc[0]
    method = str(first["method"])
    return {
        "method": method,
        "protocol": PROTOCOLS.get(str(first["protocol"]), str(first["protocol"])),
        "tests": len(data.predictions[["split", "seed"]].drop_duplicates()),
        "unfinished": any(task.method == method for task in data.missing),
    }


def _method_view(table: MethodTable, data: ReportData) -> dict[str, object]:
    """A table of methods with the scale of its intervals."""
    lead = leading_metric(table.metrics)
    drawn = [rows[lead] for rows in table.rows.values() if lead in rows and not np.isnan(rows[lead].value)]
    ends = [end for s in drawn for end in (s.value, s.low, s.high) if not np.isnan(end)]
    low = min([0.5, *ends]) if lead != "calibration_error" else 0.0
    scale = (max(-1.0, np.floor(low * 10) / 10), min(1.0, np.ceil(max([0.6, *ends]) * 10) / 10))
    blank = Score(np.nan)
    rows, trivial = (
        [
            {
                "method": method,
                "done": table.done.get(method, 0),
                "lead": scores.get(lead, blank),
                "scores": [scores.get(m, blank) for m in table.metrics],
            }
            for method, scores in some.items()
        ]
        for some in (table.rows, trivial_rows(data, table))
    )
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
        "trivial": trivial,
        "failed": table.failed,
    }


def _counts(data: ReportData) -> dict[str, object] | None:
    """Graphs per site and class, with sums; None without sites and labels."""
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
    if labelled and not rows[-1][1][-1]:  # no column for unlabelled graphs if there are none
        columns, rows = columns[:-1], [(site, split[:-1], total) for site, split, total in rows]
    return {"columns": columns, "rows": rows}


def _table(frame: pd.DataFrame | None) -> dict[str, object] | None:
    if frame is None:
        return None
    flat = frame.reset_index()
    return {
        "columns": [str(c) for c in flat],
        "rows": [[cell(v) for v in row] for row in flat.itertuples(index=False)],
    }


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
