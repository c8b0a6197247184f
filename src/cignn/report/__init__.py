"""Figures for publication, of explanations, scores and trainings, and the HTML report.

`write_report` writes the result of `report_of` as one HTML file. Every ``draw_`` function takes plain data,
returns a matplotlib Figure and, with ``path``, saves it; `COLUMN` and `PAGE` are the widths of a journal's
column and page in inches.
"""

from cignn.report.comparison import draw_ablation, draw_sensitivity, draw_sites
from cignn.report.connectogram import draw_connectogram
from cignn.report.connectome import draw_against_group, draw_connectome, draw_connectomes
from cignn.report.curves import draw_calibration, draw_explanation_curves, draw_removal_curve
from cignn.report.decisions import draw_decision_curves
from cignn.report.graphs import draw_graph, draw_graphs, draw_molecules, molecule_picture
from cignn.report.history import draw_history
from cignn.report.html import write_report
from cignn.report.learning import draw_learning_curve
from cignn.report.paper_files import write_paper_files
from cignn.report.ranks import draw_critical_difference, draw_p_values
from cignn.report.report_data import ReportData, report_of
from cignn.report.roc import draw_confusion, draw_roc
from cignn.report.scores import draw_scores, write_score_report
from cignn.report.style import COLUMN, PAGE
from cignn.report.systems import draw_system_matrix

__all__ = [
    "COLUMN",
    "PAGE",
    "ReportData",
    "draw_ablation",
    "draw_against_group",
    "draw_calibration",
    "draw_confusion",
    "draw_connectogram",
    "draw_connectome",
    "draw_connectomes",
    "draw_critical_difference",
    "draw_decision_curves",
    "draw_explanation_curves",
    "draw_graph",
    "draw_graphs",
    "draw_history",
    "draw_learning_curve",
    "draw_molecules",
    "draw_p_values",
    "draw_removal_curve",
    "draw_roc",
    "draw_scores",
    "draw_sensitivity",
    "draw_sites",
    "draw_system_matrix",
    "molecule_picture",
    "report_of",
    "write_paper_files",
    "write_report",
    "write_score_report",
]
