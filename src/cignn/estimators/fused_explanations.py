"""`FusedExplanations`: what views, and connections and columns in them, did to a fused decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cignn.explanations import Explanations


@dataclass(frozen=True)
class FusedExplanations:
    """What every view, and every connection or column in it, did to a fused decision.

    Parameters
    ----------
    views : dict of str to Explanations or DataFrame
        Explanations of each view that explains itself, times its weight in the fusion: contributions of
        connections, or of the columns of a table.
    by_view : DataFrame of shape (n, views)
        What each view added to the log-odds of the class explained.
    base : ndarray of shape (n,)
        What the fusion itself added. With two classes, the base and the row of ``by_view`` add up to the
        log-odds of the fusion.
    explained : ndarray of shape (n,)
        The class explained, the same for all views.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import FusedClassifier
    >>> cohort = make_cohort(30, n_rois=6, n_edges=2, lengths=(30, 40), random_state=0)
    >>> model = FusedClassifier.make(["correlation", "partial"], fusion="mean").fit(cohort)
    >>> model.explain(cohort[:2]).by_view.columns.tolist()
    ['correlation', 'partial']
    """

    views: dict[str, Explanations | pd.DataFrame]
    by_view: pd.DataFrame
    base: np.ndarray
    explained: np.ndarray


def against_rest(logits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(..., n) logits of classes less the mean of the others: with two classes, the log-odds."""
    k = logits.shape[-1]
    own = np.take_along_axis(logits, np.broadcast_to(codes[:, None], (*logits.shape[:-1], 1)), -1)[..., 0]
    return own - (logits.sum(-1) - own) / (k - 1)


def times(told: Any, weight: float) -> Any:
    """Return explanations of a view as contributions to the fusion."""
    if isinstance(told, Explanations):
        if told.edge_contributions is None or told.base is None:
            return told
        scaled = [weight * values for values in told.edge_contributions]
        return told._with(edge_contributions=scaled, base=weight * np.asarray(told.base))
    numbers = [c for c in told.columns if c not in ("subject", "explained")]
    return told.assign(**{c: weight * told[c] for c in numbers})
