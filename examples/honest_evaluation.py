"""Evaluate a method next to a linear baseline and with shuffled labels.

Two comparisons help to judge an accuracy. First, how good is a simple method on the same folds? Here a t-test
on each training part selects 50 connections for a logistic regression. Second, what is the score if there is
nothing to find? The same evaluation runs on the cohort with shuffled labels. A score above chance there would
mean that test data leaked into the training.
"""

import numpy as np
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cignn.connectome import make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.estimators import GraphVectors
from cignn.evaluation import compare_methods, evaluate, make_protocol, summary

cohort = make_cohort(120, n_rois=40, n_edges=15, effect=0.35, random_state=0)
shuffled = cohort.with_y(np.random.default_rng(0).permutation(cohort.y))

t_test = SelectKBest(f_classif, k=50)  # for two classes F = t²
baseline = make_pipeline(GraphVectors(), t_test, LogisticRegression(max_iter=1000))
methods = {
    "ci-gnn": {"epochs": 15, "n_estimators": 2},
    "t-test + logistic": make_connectome_pipeline(baseline),
}
data = {"cohort": cohort, "labels shuffled": shuffled}
results = evaluate(methods, data, make_protocol("kfold", n_splits=4), seeds=1, verbose=0)

print(summary(results, ["accuracy", "roc_auc"]))
print(compare_methods(results[results["data"] == "cohort"]).to_string(index=False))
