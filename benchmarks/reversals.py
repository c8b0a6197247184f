"""How many decisions on ABIDE the largest contributions of a subject reverse, beside other rankings.

    python -m benchmarks.reversals --folds 0 1 2 3 4 --seeds 0
    python -m benchmarks.reversals --connectivity tangent --combat --methods ci-gnn lasso

Test subjects of five stratified folds; everything is fitted on the others. From each subject a share of its
connections is taken away, put at the mean of the training subjects, and the model predicts again. Rankings:
contributions to the decision, the weights of the mask, |t| × |deviation|, t × deviation towards the decision,
and chance.
"""

from __future__ import annotations

import argparse
import time

import pandas as pd

from benchmarks.cohorts import abide, folds, inputs
from cignn import GraphSet
from cignn.estimators import make_estimator
from cignn.evaluation import reversals, univariate_scores

SHARES = (0.01, 0.02, 0.05)
METHODS = ("ci-gnn", "lasso", "linear-svm")
KEYS = ["method", "share", "ranking"]


def of_fold(method: str, graphs: GraphSet, held: GraphSet, seed: int, shares: list[float]) -> pd.DataFrame:
    """One row per share and ranking, for the test subjects of one fold."""
    model = make_estimator(method, random_state=seed).fit(graphs)
    explanations = model.explain(held)
    others = {
        "|t| × |deviation|": univariate_scores(graphs, held),
        "t × deviation": univariate_scores(graphs, held, explanations.predictions),
    }
    tables = []
    for share in shares:
        table = reversals(model, explanations, others, share, random_state=seed)
        tables.append(table.assign(method=method, share=share))
    return pd.concat(tables, ignore_index=True)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over folds and seeds, and how often contributions reverse as many as each ranking does."""
    means = rows.groupby(KEYS, sort=False)[["reversed", "lost"]].mean().reset_index()
    own = means[means["ranking"] == "contribution"].set_index(["method", "share"])["reversed"]
    keys = pd.MultiIndex.from_frame(means[["method", "share"]])
    means["contributions reverse"] = own.reindex(keys).to_numpy() / means["reversed"]
    return means


def main() -> None:
    """Run the folds and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--connectivity", choices=["correlation", "tangent"], default="correlation")
    parser.add_argument("--combat", action="store_true", help="harmonise sites inside the fold")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["ci-gnn"])
    parser.add_argument("--shares", type=float, nargs="+", default=list(SHARES))
    args = parser.parse_args()
    cohort = abide(args.connectivity)
    done = []
    for seed in args.seeds:
        for number, fold in enumerate(folds(cohort, "kfold", seed)):
            if number not in args.folds:
                continue
            graphs, held = inputs(cohort, fold, args.connectivity, args.combat)
            for method in args.methods:
                started = time.perf_counter()
                done.append(of_fold(method, graphs, held, seed, args.shares).assign(fold=number, seed=seed))
                print(f"seed {seed}, fold {number}, {method}: {time.perf_counter() - started:.0f} s")
            print(summary(pd.concat(done)).round(3).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
