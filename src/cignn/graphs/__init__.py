"""Labelled graphs: `GraphSet` stores many of them compactly, `GraphBatch` is a dense batch on a device."""

from cignn.graphs.edge_statistics import EdgeStatistics
from cignn.graphs.graph_batch import GraphBatch
from cignn.graphs.graph_set import Graph, GraphSet

__all__ = ["EdgeStatistics", "Graph", "GraphBatch", "GraphSet"]
