"""What ABIDE's near-identical scans do to scores: the same folds of all scans, with and without them.

    python -m benchmarks.near_duplicates

Three pairs of scans stand under two names each, two of them with opposite labels. A linear SVM and logistic
regression on Fisher's z, five folds, three seeds; each fold is trained and scored with all scans, without the
second of each pair and without both.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from cignn.connectome import Connectivity
from cignn.datasets import load_abide

ABIDE = Path(os.environ.get("CIGNN_DATA", "../shared/data")) / "abide"
MODELS = {
    "linear SVM": SVC(kernel="linear"),
    "logistic regression": LogisticRegression(C=0.01, max_iter=2000),
}


def main() -> None:
    """Print means over folds and seeds, and the paired differences."""
    cohort = load_abide(ABIDE, near_duplicates="keep")
    left_out = {"none": np.zeros(len(cohort), bool)}
    for option in ("keep_first", "drop_subject"):
        kept = load_abide(ABIDE, near_duplicates=option).subjects
        left_out[option] = ~np.isin(cohort.subjects, kept)
    matrices, y = Connectivity(fisher=True).fit_transform(cohort).matrices, cohort.y
    x = matrices[:, *np.triu_indices(cohort.n_rois, 1)]
    rows = []
    for name, model in MODELS.items():
        for seed in range(3):
            splits = StratifiedKFold(5, shuffle=True, random_state=seed).split(x, y)
            for fold, (train, test) in enumerate(splits):
                for option, gone in left_out.items():
                    a, b = train[~gone[train]], test[~gone[test]]
                    score = model.fit(x[a], y[a]).decision_function(x[b])
                    accuracy, auc = ((score > 0) == y[b]).mean(), roc_auc_score(y[b], score)
                    rows.append((name, option, seed, fold, accuracy, auc))
    table = pd.DataFrame(rows, columns=["model", "left out", "seed", "fold", "accuracy", "AUC"])
    means = table.groupby(["model", "left out"], sort=False)[["accuracy", "AUC"]].mean()
    print(means.round(4).to_string())
    print("difference from all scans, paired:")
    wide = table.pivot(index=["model", "seed", "fold"], columns="left out", values=["accuracy", "AUC"])
    for score in ("accuracy", "AUC"):
        differences = wide[score].drop(columns="none").sub(wide[score]["none"], axis=0)
        print(score, differences.groupby("model").mean().round(4).to_dict("index"))


if __name__ == "__main__":
    main()
