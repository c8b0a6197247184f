"""Scores of individual explanations: carriers against their own truth, others against that of carriers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cignn import Cohort
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_cohort
from cignn.evaluation import precision_at_k, subject_score_table, subject_scores
from cignn.explanations import Explanations

PAIRS = np.triu_indices(12, 1)


def cohort(**options: object) -> Cohort:
    return make_cohort(40, 12, n_edges=5, data="matrices", random_state=0, **options)  # type: ignore[arg-type]


def own(made: Cohort) -> np.ndarray:
    """(n, pairs) the truth of each subject."""
    return np.stack([made.subject_truth(i)[PAIRS] for i in range(len(made))])


def test_scores_are_those_of_each_subject() -> None:
    made = cohort(subtypes=2, affected=0.5)
    evidence = np.random.default_rng(0).normal(size=(40, len(PAIRS[0]))).round(1)  # with ties
    scores = subject_scores(evidence, made)
    planted = made.edge_truth[PAIRS]
    for i, row in scores.iterrows():
        true = own(made)[i] if own(made)[i].any() else planted
        assert row["roc_auc"] == pytest.approx(roc_auc_score(true, evidence[i]))
        if row["role"] == "carriers":
            want = roc_auc_score(true[planted], evidence[i][planted])
            assert row["own_against_other"] == pytest.approx(want)
        else:
            assert np.isnan(row["own_against_other"])
    graphs = ConnectomeGraphs().fit_transform(made)
    carriers = scores["role"] == "carriers"
    ranked = Explanations(graphs, list((evidence - evidence.min()) / np.ptp(evidence)))
    truth = [made.subject_truth(i) | (made.edge_truth & ~made.subject_truth(i).any()) for i in range(40)]
    np.testing.assert_allclose(precision_at_k(ranked, truth), scores["precision_at_k"])
    assert carriers.sum() == 10 and (scores["role"] == "non-carriers").sum() == 10


def test_individual_evidence_and_one_map_for_all_differ_where_nobody_carries() -> None:
    made = cohort(affected=0.5)
    noise = np.random.default_rng(1).normal(size=(40, len(PAIRS[0])))
    individual = subject_score_table(subject_scores(noise + 10 * own(made), made))
    group = subject_score_table(subject_scores(noise[:1].repeat(40, 0) + 10 * made.edge_truth[PAIRS], made))
    assert individual.index.tolist() == ["carriers", "non-carriers", "controls"]
    assert individual.loc["carriers", "roc_auc"] > 0.99 and (individual["roc_auc"][1:] < 0.7).all()
    assert (group["roc_auc"] > 0.99).all()
    assert individual["n"].tolist() == [10, 10, 20] and individual["own_against_other"].isna().all()


def test_contributions_are_counted_towards_the_patients_class() -> None:
    made = cohort(subtypes=2)
    graphs = ConnectomeGraphs().fit_transform(made)
    predictions = np.arange(40) % 2
    towards_patients = np.random.default_rng(2).normal(size=(40, len(PAIRS[0])))
    told = Explanations(
        graphs,
        [np.full(len(PAIRS[0]), 0.5)] * 40,
        predictions,
        classes=np.array([0, 1]),
        edge_contributions=list(towards_patients * np.where(predictions == 1, 1, -1)[:, None]),
        base=np.zeros(40),
    )
    scores = subject_scores(told, made)
    want = subject_scores(towards_patients, made)
    np.testing.assert_allclose(scores["roc_auc"], want["roc_auc"])
    alone = Explanations(graphs, [np.full(len(PAIRS[0]), 0.5)] * 40)
    assert (subject_scores(alone, made)["roc_auc"] == 0.5).all(), "a constant mask says nothing"


def test_bad_arguments() -> None:
    made = cohort()
    with pytest.raises(ValueError, match=r"evidence must have shape \(40, 66\), .* got \(40, 65\)"):
        subject_scores(np.zeros((40, 65)), made)
    with pytest.raises(ValueError, match="needs a cohort with labels, edge_sets and carries"):
        subject_scores(np.zeros((40, 66)), made.with_y(None))
    with pytest.raises(ValueError, match="must explain the 40 subjects, got 3 graphs"):
        subject_scores(Explanations(ConnectomeGraphs().fit_transform(made)[:3], [np.ones(66)] * 3), made)
