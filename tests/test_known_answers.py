"""What must hold for whole evaluations on cohorts whose answer is known: nothing, or nothing but the site."""

from __future__ import annotations

from typing import Any

import pandas as pd
from scipy import stats

from cignn.datasets import make_cohort
from cignn.evaluation import Holdout, Store, evaluate, permutation_test

METHODS: dict[str, Any] = {
    "lasso": {"C": 1.0},
    "linear-svm": {"C": 0.01},
    "gin": {"epochs": 2, "hidden": (8,), "head_hidden": ()},
}
SMALL: dict[str, Any] = {"n_rois": 10, "data": "matrices", "lengths": (30, 40)}


def accuracy(table: pd.DataFrame) -> pd.Series:
    return table[table["metric"] == "accuracy"].groupby("method")["value"].mean()


def test_of_noise_nothing_is_learnt() -> None:
    """Over 20 cohorts p-values are uniform and mean accuracies are those of a coin."""
    p_values, accuracies = [], []
    for seed in range(20):
        noise = make_cohort(200, n_edges=0, random_state=seed, **SMALL)
        with Store() as store:
            table = evaluate(METHODS, noise, Holdout(test_size=0.5), seeds=[seed], store=store, verbose=0)
            tests = permutation_test(store.predictions(), "roc_auc", n_permutations=400)
        p_values.append(tests.set_index("method")["p_value"])
        accuracies.append(accuracy(table))
    for method in METHODS:
        assert stats.kstest([p[method] for p in p_values], "uniform").pvalue > 0.01
    assert (pd.concat(accuracies, axis=1).mean(axis=1) - 0.5).abs().max() <= 0.03


def test_a_site_that_goes_with_the_label_fools_folds_and_not_sites_left_out() -> None:
    cohort = make_cohort(
        200, n_edges=0, n_sites=4, site_effect=0.8, n_site_edges=15, confounded=0.8, random_state=0, **SMALL
    )
    lasso = {"lasso": {"C": 1.0}}
    folds, sites = (evaluate(lasso, cohort, protocol, verbose=0) for protocol in ("kfold", "loso"))
    balanced = sites[sites["metric"] == "balanced_accuracy"]["value"].mean()
    assert accuracy(folds)["lasso"] > 0.6
    assert abs(balanced - 0.5) < 0.07
