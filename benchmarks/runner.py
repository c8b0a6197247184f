"""What the runner costs beside its tasks, and what a second process brings."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Quartiles, Row, seconds
from cignn import GraphSet
from cignn.datasets import make_ba2motifs
from cignn.evaluation import Store, evaluate

MOST_SHARE = 0.6  # of the time of one process that two may take
MOST_COST = 0.02  # of a run that is not spent in tasks


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Time the same grid in one process and in two, one after the other; starting the two is timed apart."""
    graphs = make_ba2motifs(100 if quick else 400, random_state=0)
    n_tasks, repeats = (8, 1) if quick else (24, 3)
    method = {"gin": {"epochs": 10, "device": str(device)}}

    def two_tasks() -> None:
        evaluate(method, graphs, seeds=2, n_jobs=2, verbose=0)

    cold, warm = (seconds(two_tasks, torch.device("cpu")) for _ in range(2))
    alone, together, cost = [], [], []
    for _ in range(repeats):
        with Store() as store:
            alone.append(seconds(lambda: grid(method, graphs, n_tasks, 1, store), torch.device("cpu")))
            cost.append(1 - store.tasks()["seconds"].sum() / alone[-1])
        two_tasks()  # processes without work have ended meanwhile: start them again
        with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
            together.append(seconds(lambda: grid(method, graphs, n_tasks, 2, store), torch.device("cpu")))
    share = Quartiles.of(np.array(together) / np.array(alone))
    spent = Quartiles.of(np.array(cost))
    times = {
        "one process": Quartiles.of(np.array(alone)),
        "two": Quartiles.of(np.array(together)),
        "starting two": Quartiles.of(np.array([cold - warm])),
    }
    what = f"{n_tasks} trainings of GIN"
    return [
        Row(f"{what}: two processes", times, share, f"<= {MOST_SHARE}", share.median <= MOST_SHARE),
        Row(f"{what}: share of the runner", {}, spent, f"<= {MOST_COST}", spent.median <= MOST_COST),
    ]


def grid(method: Any, graphs: GraphSet, n_tasks: int, n_jobs: int, store: Store) -> None:
    """Do so many tasks."""
    evaluate(method, graphs, seeds=n_tasks, n_jobs=n_jobs, store=store, verbose=0)
