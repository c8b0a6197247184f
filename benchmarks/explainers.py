"""Our GNNExplainer and PGExplainer beside PyTorch Geometric's, on the same trained GIN and BA-2Motifs.

    python -m benchmarks.explainers --seeds 0 1 2 3 4 --threads 1

Every seed trains a GIN of its own; PyTorch Geometric explains its twin, weight for weight. Its PGExplainer
starts from the same MLP and sees the same graphs in the same order as ours. Printed are mean ROC-AUCs over
the test graphs and the seconds a graph takes in the same run.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch_geometric.explain import Explainer as PygExplainer
from torch_geometric.explain import GNNExplainer as PygGNNExplainer
from torch_geometric.explain import PGExplainer as PygPGExplainer

from benchmarks.peers import PygTwin
from benchmarks.timing import Quartiles, Row, in_turn
from cignn import Explanations, GraphSet
from cignn._random import torch_seed
from cignn.datasets import load_ba2motifs, make_ba2motifs
from cignn.estimators import GNNClassifier
from cignn.evaluation import explanation_roc_auc
from cignn.explainers import make_explainer
from cignn.explainers.pg_explainer import PGExplainer, edge_mlp

GRAPHS = 200  # explained
STEPS = 100  # of GNNExplainer
WIDTH = 64  # of the GIN's three layers, as in CI-GNN's default
PG = {
    "epochs": 5,
    "learning_rate": 0.003,
    "size_weight": 0.05,
    "entropy_weight": 1.0,
}  # coefficients: PyG's own
PG_GRAPHS = 200  # PGExplainer learns from
WITHIN, FASTER = 0.03, 20.0
MODEL = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}


class Timed(NamedTuple):
    """Explanations, and the seconds a graph took; for PGExplainer those of its training."""

    explanations: Explanations
    seconds: float


def load() -> GraphSet:
    """BA-2Motifs as published where the file is there, else generated."""
    path = Path(os.environ.get("CIGNN_DATA", "../shared/data")) / "ba2motifs.npz"
    return load_ba2motifs(path) if path.exists() else make_ba2motifs(1000, random_state=0)


def train(
    graphs: GraphSet, seed: int, device: str, **params: Any
) -> tuple[GNNClassifier, GraphSet, GraphSet]:
    """A GIN, the graphs it was trained on and `GRAPHS` others."""
    order = np.random.default_rng(seed).permutation(len(graphs))
    training, rest = graphs[order[GRAPHS:]], graphs[order[:GRAPHS]]
    return GNNClassifier("gin", random_state=seed, device=device, **params).fit(training), training, rest


def our_gnn_explainer(model: GNNClassifier, graphs: GraphSet, seed: int, steps: int = STEPS) -> Timed:
    """All graphs at once."""
    explainer = make_explainer("gnn-explainer", steps=steps, random_state=seed).fit(model, graphs)
    started = time.perf_counter()
    explanations = explainer.explain(graphs)
    return Timed(explanations, (time.perf_counter() - started) / len(graphs))


def pyg_gnn_explainer(model: GNNClassifier, graphs: GraphSet, seed: int, steps: int = STEPS) -> Timed:
    """One graph after the other, as PyTorch Geometric does it."""
    twin, device = _twin(model)
    explainer = PygExplainer(
        twin,
        PygGNNExplainer(epochs=steps),
        explanation_type="model",
        edge_mask_type="object",
        model_config=MODEL,
    )
    data = [graph.to(device) for graph in graphs.to_pyg()]
    with torch_seed(seed, device):
        started = time.perf_counter()
        masks = [explainer(graph.x, graph.edge_index).edge_mask for graph in data]
        seconds = (time.perf_counter() - started) / len(data)
    return Timed(_undirected(graphs, masks), seconds)


def our_pg_explainer(model: GNNClassifier, training: GraphSet, graphs: GraphSet, seed: int) -> Timed:
    """Trained graph by graph, as the peer is."""
    explainer = PGExplainer(train_batch_size=1, random_state=seed, **PG)
    started = time.perf_counter()
    explainer.fit(model, training)
    seconds = (time.perf_counter() - started) / len(training)
    return Timed(explainer.explain(graphs), seconds)


def pyg_pg_explainer(model: GNNClassifier, training: GraphSet, graphs: GraphSet, seed: int) -> Timed:
    """The peer, from the same MLP, with the same graphs in the same order and the same draws."""
    twin, device = _twin(model)
    algorithm = PygPGExplainer(PG["epochs"], PG["learning_rate"], edge_size=PG["size_weight"])
    explainer = PygExplainer(
        twin, algorithm, explanation_type="phenomenon", edge_mask_type="object", model_config=MODEL
    )
    own_seed = PGExplainer(random_state=seed).fit(model, training[:1]).seed_
    data = [graph.to(device) for graph in training.to_pyg()]
    targets = [twin(graph.x, graph.edge_index).argmax(1) for graph in data]
    with torch_seed(own_seed, device), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch Geometric makes a float of a loss that has a gradient
        order = np.concatenate(training.batch_indices(1, True))
        mlp = edge_mlp(model.settings_["hidden"][-1], 64).to(device)
        algorithm.mlp = mlp
        algorithm.optimizer = torch.optim.Adam(mlp.parameters(), lr=PG["learning_rate"])
        started = time.perf_counter()
        for epoch in range(PG["epochs"]):
            for i in order[torch.randperm(len(order))]:
                algorithm.train(epoch, twin, data[i].x, data[i].edge_index, target=targets[i])
        seconds = (time.perf_counter() - started) / len(data)
        out = []
        for graph in (g.to(device) for g in graphs.to_pyg()):
            target = twin(graph.x, graph.edge_index).argmax(1)
            out.append(explainer(graph.x, graph.edge_index, target=target).edge_mask)
    return Timed(_undirected(graphs, out), seconds)


def _twin(model: GNNClassifier) -> tuple[PygTwin, torch.device]:
    device = next(model.network_.parameters()).device
    return PygTwin(model.network_).to(device).requires_grad_(False), device  # type: ignore[arg-type]


def _undirected(graphs: GraphSet, masks: list[torch.Tensor]) -> Explanations:
    """Both directions of an edge averaged; `GraphSet.to_pyg` lists all in one, then all in the other."""
    return Explanations(graphs, [mask.cpu().numpy().reshape(2, -1).mean(0) for mask in masks])


def compare(graphs: GraphSet, seed: int, device: str, **params: Any) -> list[dict[str, Any]]:
    """One row per explainer: the two mean ROC-AUCs and the two times."""
    model, training, rest = train(graphs, seed, device, **params)
    some = training[:PG_GRAPHS]
    pairs = {
        "gnn-explainer": (our_gnn_explainer(model, rest, seed), pyg_gnn_explainer(model, rest, seed)),
        "pg-explainer": (
            our_pg_explainer(model, some, rest, seed),
            pyg_pg_explainer(model, some, rest, seed),
        ),
    }
    rows = []
    for name, pair in pairs.items():
        areas = [float(np.nanmean(explanation_roc_auc(timed.explanations))) for timed in pair]
        times = [timed.seconds for timed in pair]
        rows.append(
            {"explainer": name, "seed": seed, "accuracy": model.score(rest, rest.y), "cignn": areas[0]}
            | {"pyg": areas[1], "seconds": times[0], "pyg_seconds": times[1], "faster": times[1] / times[0]}
        )
    return rows


def measure(device: torch.device, quick: bool) -> list[Row]:
    """The time of GNNExplainer on one trained GIN, `GRAPHS` graphs ours, some of them the peer's."""
    model, _, rest = train(load(), 0, str(device), epochs=2, hidden=(WIDTH,) * 3)
    some = rest[: 2 if quick else 10]
    ours, theirs = in_turn(
        lambda: our_gnn_explainer(model, rest, 0),
        lambda: pyg_gnn_explainer(model, some, 0),
        device,
        1 if quick else 5,
        warm_up=1,
    )
    ours, theirs = ours / len(rest), theirs / len(some)
    ratio = Quartiles.of(theirs / ours)
    return [
        Row(
            f"GNNExplainer, {STEPS} steps, GIN {WIDTH}, BA-2Motifs: PyG ({len(some)}) / ours ({GRAPHS})",
            {"ours, one graph": Quartiles.of(ours), "PyG, one graph": Quartiles.of(theirs)},
            ratio,
            f">= {FASTER:.0f}",
            ratio.median >= FASTER,
        )
    ]


def main() -> None:
    """Compare over seeds and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20, help="of the GIN")
    parser.add_argument("--width", type=int, default=WIDTH, help="of its layers")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    graphs, rows = load(), []
    for seed in args.seeds:
        rows += compare(graphs, seed, args.device, epochs=args.epochs, hidden=(args.width,) * 3)
        print(pd.DataFrame(rows[-2:]).to_string(index=False, header=seed == args.seeds[0]), flush=True)
    means = (
        pd.DataFrame(rows).groupby("explainer", sort=False)[["cignn", "pyg", "seconds", "pyg_seconds"]].mean()
    )
    means["difference"] = means["cignn"] - means["pyg"]
    means["within 0.03"] = means["difference"].abs() <= WITHIN
    means["faster"] = means["pyg_seconds"] / means["seconds"]
    print(means.round(4).to_string())


if __name__ == "__main__":
    main()
