"""Networks: dense layers with edge weights, encoder, decoders, causal subgraph, classifiers, CI-GNN."""

from cignn.nn.ci_gnn import CIGNN, CIGNNOutput
from cignn.nn.classifier import GraphNetwork
from cignn.nn.decoders import FeatureDecoder, InnerProduct
from cignn.nn.encoder import GraphEncoder, Latent, strongest_edges
from cignn.nn.gnn import GNN
from cignn.nn.layers import LAYERS, READOUTS, GATLayer, GCNLayer, GINLayer, NodeNorm
from cignn.nn.model import GraphModel, GraphOutput, weighted
from cignn.nn.subgraph import edge_information, sample_edges

__all__ = [
    "CIGNN",
    "GNN",
    "LAYERS",
    "READOUTS",
    "CIGNNOutput",
    "FeatureDecoder",
    "GATLayer",
    "GCNLayer",
    "GINLayer",
    "GraphEncoder",
    "GraphModel",
    "GraphNetwork",
    "GraphOutput",
    "InnerProduct",
    "Latent",
    "NodeNorm",
    "edge_information",
    "sample_edges",
    "strongest_edges",
    "weighted",
]
