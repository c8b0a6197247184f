"""From scans to graphs: transformers for ROI series, connectivity, harmonisation, nuisance and graph sets."""

from cignn.connectome.combat import ComBat
from cignn.connectome.connectivity import Connectivity
from cignn.connectome.connectome_graphs import ConnectomeGraphs
from cignn.connectome.deconfound import Deconfound, nuisance_maps
from cignn.connectome.pipeline import make_connectome_pipeline
from cignn.connectome.roi_series import RoiSeries

__all__ = [
    "ComBat",
    "Connectivity",
    "ConnectomeGraphs",
    "Deconfound",
    "RoiSeries",
    "make_connectome_pipeline",
    "nuisance_maps",
]
