"""Networks: dense layers with edge weights, encoder, decoders, causal subgraph, classifiers, CI-GNN."""

from cignn.nn.autoencoder import FeatureDecoder, GraphEncoder, InnerProduct, Latent
from cignn.nn.ci_gnn import CIGNN, CIGNNOutput
from cignn.nn.classifiers import GNN, GraphNetwork
from cignn.nn.dir import DIR, DIROutput
from cignn.nn.layers import LAYERS, READOUTS, GATLayer, GCNLayer, GINLayer, NodeNorm, strongest_edges
from cignn.nn.model import GraphModel, GraphOutput
from cignn.nn.sib import SIB, SIBOutput
from cignn.nn.subgraph import EdgeScorer, edge_information, sample_edges

__all__ = [
    "CIGNN",
    "DIR",
    "GNN",
    "LAYERS",
    "READOUTS",
    "SIB",
    "CIGNNOutput",
    "DIROutput",
    "EdgeScorer",
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
    "SIBOutput",
    "edge_information",
    "sample_edges",
    "strongest_edges",
]
