"""Networks: dense layers with edge weights, encoder, decoders, causal subgraph, classifiers, CI-GNN."""

from cignn.nn.ci_gnn import CIGNN, CIGNNOutput
from cignn.nn.classifier import GraphNetwork
from cignn.nn.decoders import FeatureDecoder, InnerProduct
from cignn.nn.dir import DIR, DIROutput
from cignn.nn.edge_scorer import EdgeScorer
from cignn.nn.encoder import GraphEncoder, Latent, strongest_edges
from cignn.nn.gnn import GNN
from cignn.nn.layers import LAYERS, READOUTS, GATLayer, GCNLayer, GINLayer, NodeNorm
from cignn.nn.model import GraphModel, GraphOutput
from cignn.nn.sib import SIB, SIBOutput
from cignn.nn.subgraph import edge_information, sample_edges

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
