"""Scores: a planted one and ABIDE's age, CI-GNN beside ridge, SVR and CPM in the same folds, one line a fit.

    python -m benchmarks.scores planted --effect 0.05
    python -m benchmarks.scores age
    python -m benchmarks.scores age --shuffle --folds 2

Everything is fitted inside the fold, the epoch of CI-GNN is chosen on a part of the training subjects, and
the test subjects are scored once. The mean of the training subjects and, for age, that of their site stand
beside. With ``--shuffle`` scores are permuted over all subjects first: there is nothing to learn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks.cohorts import abide
from cignn import Cohort, GraphSet
from cignn._arrays import upper_triangle
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import plant_edges
from cignn.estimators import make_estimator
from cignn.estimators.predictive_model import correlations
from cignn.evaluation import KFold, regression_scores
from cignn.evaluation.regression import REGRESSION_METRICS

METHODS = ("mean", "ridge", "svr", "rbf-svr", "cpm", "ci-gnn-regressor")
SITE = "site's mean"
TOP = 40  # connections, for the precision


def planted(effect: float, seed: int) -> Cohort:
    """ABIDE's controls, 40 connections moved by Fisher z ± effect per standard deviation of a score."""
    controls = abide("correlation")
    controls = controls[controls.y == 0]
    return plant_edges(controls, n_edges=40, effect=effect, score=True, fisher=True, random_state=seed)


def runs(
    cohort: Cohort, methods: list[str], n_folds: int, of_folds: int, seed: int, params: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Fit every method on the first folds of the same split, a row each."""
    graphs = ConnectomeGraphs().fit_transform(cohort)
    for train, test in list(KFold(of_folds, random_state=seed).split(cohort))[:n_folds]:
        y = cohort.y[test]
        if cohort.sites is not None and cohort.edge_truth is None:
            yield {"method": SITE, **regression_scores(y, _site_means(cohort, train, test))}
        for name in methods:
            started = time.perf_counter()
            own = params if name == "ci-gnn-regressor" else {}
            model = make_estimator(name, random_state=seed, **own).fit(graphs[train])
            row = {"method": name, **regression_scores(y, model.predict(graphs[test]))}
            row["seconds"] = round(time.perf_counter() - started, 1)
            if cohort.edge_truth is not None and name != "mean":
                row |= _found(np.abs(_contributions(model, graphs[test])), cohort)
            yield row
        if cohort.edge_truth is not None:
            r, _ = correlations(upper_triangle(np.asarray(cohort.matrices[train], float)), cohort.y[train])
            yield {"method": "correlation", **_found(np.abs(r)[None], cohort)}


def _contributions(model: Any, graphs: GraphSet) -> np.ndarray:
    """(g, pairs) contributions to the scores of test graphs."""
    return np.stack([upper_triangle(one.contributions) for one in model.explain(graphs)])


def _found(sizes: np.ndarray, cohort: Cohort) -> dict[str, float]:
    """How well the mean size of contributions tells the planted connections from all others."""
    truth, mean = upper_triangle(cohort.edge_truth[None])[0].astype(bool), sizes.mean(0)
    top = np.argsort(-mean, kind="stable")[:TOP]
    return {"roc_auc": float(roc_auc_score(truth, mean)), "precision": float(truth[top].mean())}


def _site_means(cohort: Cohort, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Mean score of the training subjects of each test subject's site."""
    known = pd.Series(cohort.y[train]).groupby(cohort.sites[train]).mean()
    return known.reindex(cohort.sites[test]).fillna(cohort.y[train].mean()).to_numpy()


def main() -> None:
    """Print a line for every fit, then means over folds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", choices=("planted", "age"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--effect", type=float, default=0.05, help="Fisher z per standard deviation of the score"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=5, help="how many of the five folds to test")
    parser.add_argument("--networks", type=int, default=2, help="of CI-GNN's ensemble")
    parser.add_argument("--epochs", type=int, default=60, help="of CI-GNN, at the most")
    parser.add_argument("--shuffle", action="store_true", help="permute the scores first")
    args = parser.parse_args()
    cohort = (
        planted(args.effect, args.seed) if args.data == "planted" else abide("correlation").with_target("age")
    )
    if args.shuffle:
        cohort = cohort.with_y(np.random.default_rng(args.seed).permutation(cohort.y))
    print(json.dumps({"data": args.data, "subjects": len(cohort), "std": float(cohort.y.std())}), flush=True)
    params = {"n_estimators": args.networks, "epochs": args.epochs}
    rows = []
    for row in runs(cohort, args.methods, args.folds, 5, args.seed, params):
        rows.append(row)
        print(json.dumps(row), flush=True)
    columns = [
        c for c in (*REGRESSION_METRICS, "roc_auc", "precision", "seconds") if any(c in r for r in rows)
    ]
    groups = pd.DataFrame(rows).groupby("method", sort=False)[columns]
    print(groups.mean().round(3).to_string())
    print(groups.std().round(3).to_string())


if __name__ == "__main__":
    main()
