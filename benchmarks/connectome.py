"""A cohort the size of ABIDE: from series to graphs, and what an epoch on them costs beside a plain GIN."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import torch
from sklearn.pipeline import make_pipeline
from torch.nn import functional as F
from torch_geometric.loader import DataLoader

from benchmarks.peers import PygGIN
from benchmarks.timing import Quartiles, Row, Work, seconds
from cignn import CIGNNClassifier, Cohort, GraphSet
from cignn.connectome import Connectivity, ConnectomeGraphs

SUBJECTS, VOLUMES, ROIS = 1100, 190, 116
BATCH = 32
MOST_SECONDS = 10.0
MOST_GIB = 1.0
RULES: dict[str, dict[str, Any]] = {"every connection": {}, "strongest tenth": {"density": 0.1}}


def make_series_cohort(n_subjects: int, random_state: int = 0) -> Cohort:
    """Series that share a few sources, so that correlations spread as those of brains do."""
    rng = np.random.default_rng(random_state)
    sources = rng.normal(size=(10, ROIS)).astype(np.float32)
    series = np.empty((n_subjects, VOLUMES, ROIS), np.float32)
    for one in series:
        one[:] = rng.normal(size=(VOLUMES, 10)) @ sources / 2 + rng.normal(size=(VOLUMES, ROIS))
    return Cohort(series, y=np.arange(n_subjects) % 2)


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Measure the way to graphs, time and memory, then epochs on those graphs."""
    cohort = make_series_cohort(SUBJECTS)
    rows = [row for rule in RULES for row in way_to_graphs(cohort, rule, 2 if quick else 7)]
    few = cohort[: 256 if quick else SUBJECTS]
    return rows + epochs(few, device, 1 if quick else 3)


def way_to_graphs(cohort: Cohort, rule: str, repeats: int) -> list[Row]:
    """Time series → graphs, and weigh all that is allocated on the way, the graphs included."""

    def work() -> GraphSet:
        return make_pipeline(Connectivity(), ConnectomeGraphs(**RULES[rule])).fit_transform(cohort)

    times = np.array([seconds(work, torch.device("cpu")) for _ in range(repeats)])
    peak = Quartiles.of(np.array([allocated(work) / 2**30]))
    what = f"{SUBJECTS} series of {VOLUMES} × {ROIS} to graphs, {rule}"
    time = Quartiles.of(times)
    met = time.median <= MOST_SECONDS
    return [
        Row(what, {"series to graphs": time}, time, f"<= {MOST_SECONDS:g}", met, kind="seconds"),
        Row(
            f"{what}: memory above the data",
            {},
            peak,
            f"< {MOST_GIB:g}",
            peak.median < MOST_GIB,
            kind="peak GiB",
        ),
    ]


def allocated(work: Work) -> int:
    """Bytes that a call holds at its worst, beyond what was there; numpy tells tracemalloc of its arrays."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - before


def epochs(cohort: Cohort, device: torch.device, repeats: int) -> list[Row]:
    """Time epochs of CI-GNN on both kinds of graphs against the GIN on the sparse ones, in turn.

    The GIN gets the graphs it can stand: on every connection PyTorch Geometric's needs many times longer.
    """
    connectivity = Connectivity().fit_transform(cohort)
    graphs = {rule: ConnectomeGraphs(**rules).fit_transform(connectivity) for rule, rules in RULES.items()}
    gin = gin_epoch(graphs["strongest tenth"], device)
    rows = []
    for rule, ours in graphs.items():
        pairs = [(ci_gnn_epoch(ours, device), seconds(gin, device)) for _ in range(repeats + 1)]
        times = np.array(pairs[1:])  # the first round warms up
        ratio = Quartiles.of(times[:, 0] / times[:, 1])
        rows.append(
            Row(
                f"epoch over {len(cohort)} subjects, CI-GNN on {rule} / PyG GIN on the strongest tenth",
                {"CI-GNN": Quartiles.of(times[:, 0]), "PyG GIN": Quartiles.of(times[:, 1])},
                ratio,
            )
        )
    return rows


def ci_gnn_epoch(graphs: GraphSet, device: torch.device) -> float:
    """Seconds of one epoch as `CIGNNClassifier` trains it by default, validated on a few graphs."""
    classifier = CIGNNClassifier(epochs=1, device=str(device), random_state=0)
    return float(classifier.fit(graphs, eval_set=graphs[:BATCH]).history_["seconds"].mean())


def gin_epoch(graphs: GraphSet, device: torch.device) -> Work:
    """An epoch of the peer the plain way: PyTorch Geometric's own loader, Adam, no validation."""
    settings = CIGNNClassifier()._settings(graphs)
    width = settings["classifier_hidden"][0]
    model = PygGIN(graphs.n_features, 2, width, settings["head_hidden"], settings["dropout"]).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"], fused=True)
    loader = DataLoader(graphs.to_pyg(), batch_size=BATCH, shuffle=True)

    def epoch() -> None:
        for batch in loader:
            batch = batch.to(device)
            logits = model(batch.x, batch.edge_index, batch.batch, batch.num_graphs)
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(logits, batch.y).backward()
            optimiser.step()

    return epoch
