"""What an epoch costs as the training set grows."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.timing import Quartiles, Row
from cignn import CIGNNClassifier
from cignn.datasets import make_ba2motifs

SIZES = (250, 500, 1000, 2000, 4000)


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Time epochs of all sizes in turn; the exponent of time over graphs is 1 where cost is linear."""
    sizes = np.array(SIZES[:3] if quick else SIZES)
    rounds = 2 if quick else 4
    graphs = make_ba2motifs(int(sizes[-1]), random_state=0)
    few = graphs[:32]  # validation graphs: the same few at every size
    seconds = np.empty((rounds + 1, len(sizes)))
    for i in range(rounds + 1):  # the first round warms up
        for j, size in enumerate(sizes):
            classifier = CIGNNClassifier(epochs=1, device=str(device), random_state=i)
            seconds[i, j] = classifier.fit(graphs[:size], eval_set=few).history_["seconds"].sum()
    seconds = seconds[1:]
    exponents = np.polyfit(np.log(sizes), np.log(seconds).T, 1)[0]
    per_graph = {f"per graph of {n}": Quartiles.of(t / n) for n, t in zip(sizes, seconds.T, strict=True)}
    what = f"epoch of BA-2Motifs, {sizes[0]} to {sizes[-1]} graphs: time ~ graphs ** exponent"
    return [Row(what, per_graph, Quartiles.of(exponents), "about 1", kind="exponent")]
