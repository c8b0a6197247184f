"""From scans to graphs: transformers for ROI series, connectivity, harmonisation and graph sets."""

from cignn.connectome.combat import ComBat
from cignn.connectome.connectivity import Connectivity
from cignn.connectome.connectome_graphs import ConnectomeGraphs
from cignn.connectome.pipeline import make_connectome_pipeline
from cignn.connectome.roi_series import RoiSeries

__all__ = ["ComBat", "Connectivity", "ConnectomeGraphs", "RoiSeries", "make_connectome_pipeline"]
