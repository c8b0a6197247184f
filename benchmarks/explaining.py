"""Explaining graphs with CI-GNN against PyTorch Geometric's GNNExplainer on its GIN."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.explain import Explainer, GNNExplainer

from benchmarks.brains import make_brains
from benchmarks.peers import PygGIN
from benchmarks.timing import Quartiles, Row, in_turn, seconds
from cignn import CIGNNClassifier

GRAPHS = 200
STEPS = 100  # of GNNExplainer's optimisation, per graph
TARGET = 500.0
BRAINS = 1000
LONGEST = 3.0  # seconds, on two cores


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Time the weights of all graphs and GNNExplainer on one, in turn; then whole explanations of brains."""
    graphs = make_brains(GRAPHS)
    # one epoch: the time of an explanation does not depend on what was learnt
    classifier = CIGNNClassifier(epochs=1, device=str(device), random_state=0).fit(graphs[:64])
    settings = classifier.settings_
    width = settings["classifier_hidden"][0]
    model = PygGIN(graphs.n_features, 2, width, settings["head_hidden"], settings["dropout"])
    explainer = Explainer(
        model.to(device).eval(),
        GNNExplainer(epochs=STEPS),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"},
    )
    repeats = 3 if quick else 10
    data = iter([graph.to(device) for graph in graphs[: repeats + 1].to_pyg()])

    def explain_one() -> None:
        graph = next(data)
        explainer(graph.x, graph.edge_index)

    def weigh() -> None:
        classifier.explain(graphs, contributions=False)

    ours, theirs = in_turn(weigh, explain_one, device, repeats, warm_up=1)
    brains = make_brains(BRAINS)
    both = np.array([seconds(lambda: classifier.explain(brains), device) for _ in range(repeats)])
    whole = Quartiles.of(both)
    ratio = Quartiles.of(theirs / (ours / GRAPHS))
    return [
        Row(
            f"explaining a graph: GNNExplainer, {STEPS} steps ({repeats} graphs) / CI-GNN ({GRAPHS} at once)",
            {"CI-GNN, one graph": Quartiles.of(ours / GRAPHS), "GNNExplainer": Quartiles.of(theirs)},
            ratio,
            f">= {TARGET:.0f}",
            ratio.median >= TARGET,
        ),
        Row(
            f"weights and contributions of {BRAINS} brains, {settings['n_estimators']} networks",
            {"explain": whole},
            whole,
            f"<= {LONGEST:g}",
            whole.median <= LONGEST,
            kind="seconds",
        ),
    ]
