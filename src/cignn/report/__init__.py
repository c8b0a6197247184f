"""Figures of graphs and their explanations."""

from cignn.report.graphs import draw_graph, draw_graphs

__all__ = ["draw_graph", "draw_graphs"]
