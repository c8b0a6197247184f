"""Networks: dense layers with edge weights, encoder, decoders, causal subgraph, classifiers, CI-GNN."""

from cignn.nn.autoencoder import GraphEncoder, InnerProduct, Latent
from cignn.nn.ci_gnn import CIGNN
from cignn.nn.classifiers import GNN
from cignn.nn.contributions import Contributions, contributions, log_odds
from cignn.nn.dir import DIR, DIROutput
from cignn.nn.layers import LAYERS, READOUTS, GATLayer, GCNLayer, GINLayer, strongest_edges
from cignn.nn.model import Ensemble, GraphModel, GraphOutput, Path, SingleModel
from cignn.nn.noise import Noise
from cignn.nn.score_ci_gnn import ScoreCIGNN
from cignn.nn.sib import SIB, SIBOutput
from cignn.nn.subgraph import edge_information, sample_edges
from cignn.nn.subgraph_network import CIGNNOutput

__all__ = [
    "CIGNN",
    "DIR",
    "GNN",
    "LAYERS",
    "READOUTS",
    "SIB",
    "CIGNNOutput",
    "Contributions",
    "DIROutput",
    "Ensemble",
    "GATLayer",
    "GCNLayer",
    "GINLayer",
    "GraphEncoder",
    "GraphModel",
    "GraphOutput",
    "InnerProduct",
    "Latent",
    "Noise",
    "Path",
    "SIBOutput",
    "ScoreCIGNN",
    "SingleModel",
    "contributions",
    "edge_information",
    "log_odds",
    "sample_edges",
    "strongest_edges",
]
