"""A model trained at half of ABIDE's sites, validated at the other half.

    python -m benchmarks.validation --seeds 0 1 2 --methods linear-svm lasso
    python -m benchmarks.validation --seeds 0 --methods ci-gnn

Sites are divided at random; each half is trained on once and validated once. Each model is saved, loaded and
validated as it is and recentred (transductive: each new site is shifted to the training mean).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.cohorts import abide
from cignn import CohortClassifier, load_model
from cignn.connectome import ComBat, Connectivity
from cignn.estimators import make_estimator
from cignn.evaluation import validate

SHOWN = ("accuracy", "roc_auc", "sensitivity", "specificity", "brier")


def halves(sites: np.ndarray, seed: int) -> np.ndarray:
    """(n,) bool: who is at the sites of the first half."""
    names = np.random.default_rng(seed).permutation(np.unique(sites))
    return np.isin(sites, names[: len(names) // 2])


def steps_of(args: argparse.Namespace) -> dict[str, Any]:
    """Steps before the classifier."""
    steps: dict[str, Any] = {"connectivity": "correlation"}  # Fisher's z are there already
    if args.connectivity == "tangent":
        steps = {"connectivity": Connectivity("tangent", constant_rois="zero")}
    if args.combat:
        steps["combat"] = ComBat(covariates=(), unseen="grand_mean")
    return steps


def of_half(method: str, cohort: Any, train: np.ndarray, seed: int, args: Any) -> list[dict[str, Any]]:
    """One row as it is and one recentred."""
    started = time.perf_counter()
    model = CohortClassifier.make(make_estimator(method, random_state=seed), **steps_of(args))
    model.fit(cohort[train])
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        model = load_model(folder)
    seconds, rows = time.perf_counter() - started, []
    for recentre in (False, True):
        found = validate(model, cohort[~train], recentre=recentre, n_resamples=500)
        scores = found.scores.set_index("metric")["value"]
        row = {"method": method, "recentred": recentre, "seed": seed, "train": int(train.sum())}
        row |= {name: scores[name] for name in SHOWN}
        row |= {"slope": found.calibration.slope, "intercept": found.calibration.intercept}
        row |= {"same site": np.nan if found.site_auc is None else found.site_auc.value}
        row |= {"shift": found.mean_shift, "by chance": found.shift_by_chance}
        if found.nuisances is not None:
            tested = found.nuisances.set_index("nuisance")
            row |= {name: tested.loc[name, "association"] for name in tested.index}
        rows.append(row | {"trivial": found.scores["trivial"].iloc[0], "seconds": seconds})
    return rows


def main() -> None:
    """Run the halves and print the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", default=["linear-svm", "lasso"])
    parser.add_argument("--connectivity", choices=["correlation", "tangent"], default="correlation")
    parser.add_argument("--combat", action="store_true")
    args = parser.parse_args()
    cohort = abide(args.connectivity)
    rows = []
    for seed in args.seeds:
        first = halves(np.asarray(cohort.sites), seed)
        for train in (first, ~first):
            for method in args.methods:
                rows += of_half(method, cohort, train, seed, args)
        table = pd.DataFrame(rows)
        means = table.groupby(["method", "recentred"], sort=False).mean(numeric_only=True)
        print(means.drop(columns="seed").round(3).T.to_string(), flush=True)


if __name__ == "__main__":
    main()
