"""The explanation of a group whose score is predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cignn.explanations.explanation import Explanation
    from cignn.explanations.explanation_set import Explanations


def score_map(explanations: Explanations) -> Explanation:
    """Return mean sizes of contributions of aligned graphs, with the sign of what the edges do.

    The signed contributions of a whole group cancel. Positive here means that a stronger connection goes with
    a higher prediction, negative that it goes with a lower one.
    """
    edges, values, present = explanations.aligned_contributions()
    rows = range(len(values))
    connectivity = np.stack([explanations.connectivity_matrix(i)[tuple(edges.T)] for i in rows])
    predicted = np.asarray(explanations.predictions, float)
    together = (predicted - predicted.mean()) @ (connectivity - connectivity.mean(0))
    sizes = np.abs(values).sum(0) / np.maximum(present.sum(0), 1)
    signed = np.where(together < 0, -sizes, sizes).astype(np.float32)
    return replace(explanations.mean(), edge_contributions=signed, base=None)
