"""Scores of individual explanations: each subject's evidence against the connections that subject carries."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cignn._arrays import upper_indices
from cignn.datasets import Cohort
from cignn.evaluation.known_edges import roc_area, share_of_true
from cignn.explanations import Explanations

CARRIERS, OTHERS, CONTROLS = "carriers", "non-carriers", "controls"
_SCORES = ["roc_auc", "precision_at_k", "own_against_other"]


def subject_scores(evidence: Explanations | np.ndarray, cohort: Cohort) -> pd.DataFrame:
    """Score each subject's evidence for its label against the connections planted in that subject.

    Carriers are scored against the sets they carry. Patients who carry none and controls are scored against
    all planted connections, as a comparison: evidence that finds these connections in people who do not
    have them is not individual.

    Parameters
    ----------
    evidence : Explanations or array of shape (n, pairs)
        Evidence of every connection for the patients' class, row by row above the diagonal; large values are
        evidence for it, negative ones against it. Of explanations, the contributions towards that class, or
        the weights where there are no contributions.
    cohort : Cohort
        The same subjects, with labels, ``edge_sets`` and ``carries``.

    Returns
    -------
    DataFrame
        One row per subject: "subject"; "role", one of "carriers", "non-carriers" (patients who carry no set)
        and "controls"; "roc_auc" and "precision_at_k" among all connections, k the number of true ones;
        "own_against_other", the ROC-AUC of a carrier's own connections against those of the other sets
        (NaN without others). Areas and shares without true connections are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import subject_scores
    >>> cohort = make_cohort(20, 10, n_edges=4, subtypes=2, data="matrices", random_state=0)
    >>> perfect = np.stack([cohort.subject_truth(i)[np.triu_indices(10, 1)] for i in range(20)])
    >>> scores = subject_scores(perfect, cohort)
    >>> scores[scores["role"] == "carriers"].mean(numeric_only=True).tolist()
    [1.0, 1.0, 1.0]
    """
    if cohort.edge_sets is None or cohort.carries is None or cohort.y is None:
        raise ValueError("subject_scores needs a cohort with labels, edge_sets and carries; simulate one.")
    roles = _roles(cohort.y, cohort.carries)
    values = _evidence(evidence, cohort, np.unique(cohort.y[roles == CARRIERS]))
    sets = cohort.edge_sets[(..., *upper_indices(cohort.n_rois))]
    planted = np.asarray(sets.any(0))
    rows = []
    for name, role, one, carried in zip(cohort.subjects, roles, values, cohort.carries != 0, strict=True):
        own = np.asarray(sets[carried].any(0)) if carried.any() else planted
        beside = roc_area(one[planted], own[planted])
        rows.append((name, role, roc_area(one, own), share_of_true(one, own), beside))
    return pd.DataFrame(rows, columns=["subject", "role", *_SCORES])


def subject_score_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Average the scores of subjects over carriers, non-carriers and controls.

    Parameters
    ----------
    scores : DataFrame
        What `subject_scores` returns, of one or several sets of subjects.

    Returns
    -------
    DataFrame
        One row per role, in this order where it occurs, with the number of subjects "n" and the mean of each
        score.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import subject_score_table, subject_scores
    >>> cohort = make_cohort(20, 10, n_edges=4, affected=0.5, data="matrices", random_state=0)
    >>> same = np.tile(cohort.edge_truth[np.triu_indices(10, 1)], (20, 1))  # one map for everybody
    >>> table = subject_score_table(subject_scores(same, cohort))
    >>> table["n"].to_dict()
    {'carriers': 5, 'non-carriers': 5, 'controls': 10}
    >>> table["roc_auc"].tolist()
    [1.0, 1.0, 1.0]
    """
    by_role = scores.groupby("role", sort=False)
    table = by_role[_SCORES].mean()
    table.insert(0, "n", by_role.size())
    return table.reindex([role for role in (CARRIERS, OTHERS, CONTROLS) if role in table.index])


def _roles(y: np.ndarray, carries: np.ndarray) -> np.ndarray:
    """(n,) carriers, subjects with a label that carriers have, and the others."""
    carriers = (carries != 0).any(1)
    return np.where(carriers, CARRIERS, np.where(np.isin(y, y[carriers]), OTHERS, CONTROLS))


def _evidence(evidence: Explanations | np.ndarray, cohort: Cohort, labels: np.ndarray) -> np.ndarray:
    """(n, pairs) evidence for the label of the carriers; labels : those they have."""
    pairs = upper_indices(cohort.n_rois)
    if not isinstance(evidence, Explanations):
        values, want = np.asarray(evidence), (len(cohort), len(pairs[0]))
        if values.shape != want:
            raise ValueError(
                f"evidence must have shape {want}, subjects and connections, got {values.shape}."
            )
        return values
    if len(evidence) != len(cohort):
        raise ValueError(f"evidence must explain the {len(cohort)} subjects, got {len(evidence)} graphs.")
    if evidence.edge_contributions is None:
        return np.stack([one.weights[pairs] for one in evidence])
    if len(labels) != 1:
        raise ValueError(
            f"carriers must have one label, got {len(labels)}; pass the contributions as an array."
        )
    return np.stack([one.contributions[pairs] for one in evidence.towards(labels[0])])
