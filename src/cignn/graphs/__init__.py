"""Labelled graphs: `GraphSet` keeps many of them compactly, `GraphBatch` is a dense batch on a device."""

from cignn.graphs.graph_batch import GraphBatch
from cignn.graphs.graph_set import COMMON, MAX_CELLS, EdgeStatistics, Graph, GraphSet

__all__ = ["COMMON", "MAX_CELLS", "EdgeStatistics", "Graph", "GraphBatch", "GraphSet"]
