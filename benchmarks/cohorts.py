"""Brains: planted edges on real and simulated noise, and ABIDE beside the shallow baselines, one line a run.

    python -m benchmarks.cohorts planted --effects 0.3 0.15 --seeds 0 1 2 3 4
    python -m benchmarks.cohorts simulated --seeds 0 1 2
    python -m benchmarks.cohorts abide --protocol kfold --seeds 0 1 2
    python -m benchmarks.cohorts abide --protocol loso --seeds 0
    python -m benchmarks.cohorts abide --methods ci-gnn --search dropout=[0.2,0.5,0.8]

Everything is fitted inside the fold; epochs and settings are chosen on parts of the training subjects; the
test subjects are scored once. Finished runs of ABIDE are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.accuracy import read_settings
from cignn import Cohort, GraphSet
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs
from cignn.datasets import load_abide, make_cohort, plant_edges
from cignn.estimators import GraphVectors, make_estimator
from cignn.evaluation import explanation_roc_auc, top_edge_masks
from cignn.explanations import Explanations

DATA = Path(os.environ.get("CIGNN_DATA", "../shared/data"))
METHODS = ("ci-gnn", "linear-svm", "rbf-svm", "lasso", "random-forest")
REMOVED = 0.1  # share of edges taken away to see whether the top ones matter
INNER = 3  # folds of the training subjects on which a search compares settings


class Fold(NamedTuple):
    """Subjects to learn from and to score, and a name."""

    name: str
    train: np.ndarray
    test: np.ndarray


@cache
def abide(kind: str) -> Cohort:
    """ABIDE with its connectivity where that needs no fitting, else with its series."""
    cohort = load_abide(DATA / "abide")
    if kind != "correlation":
        return cohort
    return Connectivity("correlation", fisher=True, constant_rois="zero").fit_transform(cohort)


# ---------------------------------------------------------------------------- planted edges


def planted(effect: float, seed: int, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Random halves of ABIDE's controls, 40 edges of one half moved by Fisher z ± effect."""
    controls = abide("correlation")
    controls = controls[controls.y == 0]
    cohort = plant_edges(controls, n_edges=40, effect=effect, fisher=True, random_state=seed)
    yield known({"data": "ABIDE controls", "effect": effect}, cohort, seed, params)


def simulated(seed: int, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`make_cohort` with 90 and 200 ROIs, and with a site effect that goes along with the label."""
    for name, settings in {
        "90 ROIs": {"n_rois": 90, "effect": 0.15},
        "200 ROIs": {"n_rois": 200, "effect": 0.15},
        "site confounded": {"n_rois": 116, "effect": 0.15, "site_effect": 0.15, "confounded": 0.8},
    }.items():
        cohort = make_cohort(500, data="matrices", random_state=seed, **settings)  # type: ignore[arg-type]
        steps: list[Any] = [ComBat(covariates=(), keep_label=True)] if "site_effect" in settings else []
        yield known({"data": name, "effect": settings["effect"]}, cohort, seed, params, steps)


def known(
    row: dict[str, Any], cohort: Cohort, seed: int, params: dict[str, Any], steps: list[Any] | None = None
) -> dict[str, Any]:
    """Accuracy beside logistic regression in the same split, and how well the planted edges are found."""
    y = np.asarray(cohort.y)
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed)
    pipe = make_pipeline(*(steps or []), ConnectomeGraphs())
    graphs, held = pipe.fit_transform(cohort[train], y[train]), pipe.transform(cohort[test])
    started = time.perf_counter()
    model = make_estimator("ci-gnn", random_state=seed, **params).fit(graphs, y[train])
    row = row | {"seed": seed, "params": params, "seconds": time.perf_counter() - started}
    explanations = model.explain(held)
    upper = np.triu_indices(cohort.n_rois, 1)
    group, truth = explanations.mean().weights[upper], np.asarray(cohort.edge_truth)[upper]
    regression = make_pipeline(GraphVectors(), StandardScaler(), LogisticRegression(max_iter=2000))
    regression.fit(graphs, y[train])
    row |= {
        "accuracy": float((model.predict(held) == y[test]).mean()),
        "logistic regression": float((regression.predict(held) == y[test]).mean()),
        "group ROC-AUC": float(roc_auc_score(truth, group)),
        "precision@k": float(truth[np.argsort(-group)[: truth.sum()]].mean()),
        "individual ROC-AUC": float(np.mean(explanation_roc_auc(explanations))),
        "mean weight": float(group.mean()),
    }
    if cohort.site_truth is not None and np.asarray(cohort.site_truth)[upper].any():
        site = np.asarray(cohort.site_truth)[upper] & ~truth
        row["planted above site ROC-AUC"] = float(roc_auc_score(truth[truth | site], group[truth | site]))
    return row


# ---------------------------------------------------------------------------- ABIDE


def folds(cohort: Cohort, protocol: str, seed: int) -> list[Fold]:
    """Five stratified folds, or one fold a site."""
    y = np.asarray(cohort.y)
    if protocol == "kfold":
        splits = StratifiedKFold(5, shuffle=True, random_state=seed).split(y, y)
        return [Fold(str(k), train, test) for k, (train, test) in enumerate(splits)]
    splits = LeaveOneGroupOut().split(y, y, cohort.sites)
    return [Fold(str(cohort.sites[test[0]]), train, test) for train, test in splits]


def inputs(cohort: Cohort, fold: Fold, kind: str, combat: bool) -> tuple[GraphSet, GraphSet]:
    """Graphs to learn from and to score, everything fitted on the former."""
    steps: list[Any] = []
    if kind != "correlation":
        steps.append(Connectivity(kind, constant_rois="zero"))
    if combat:
        steps.append(ComBat(covariates=(), unseen="grand_mean"))
    pipe = make_pipeline(*steps, ConnectomeGraphs())
    return pipe.fit_transform(cohort[fold.train]), pipe.transform(cohort[fold.test])


def search(graphs: GraphSet, seed: int, params: dict[str, Any], grid: dict[str, list]) -> dict[str, Any]:
    """The settings of CI-GNN of the highest AUC on inner folds of the training subjects, one member each."""
    inner = StratifiedKFold(INNER, shuffle=True, random_state=seed)
    alone = make_estimator("ci-gnn", random_state=seed, **(params | {"n_estimators": 1}))
    own = alone.get_params(deep=False)
    grid = {name if name in own else f"settings__{name}": values for name, values in grid.items()}
    found = GridSearchCV(alone, grid, scoring="roc_auc", cv=inner, refit=False).fit(graphs, graphs.y)
    results = found.cv_results_
    for values, score in zip(results["params"], results["mean_test_score"], strict=True):
        print(f"  inner AUC {score:.4f}  {settings_of(values)}", flush=True)
    return {name.removeprefix("settings__"): value for name, value in found.best_params_.items()}


def score_fold(
    method: str,
    graphs: GraphSet,
    held: GraphSet,
    seed: int,
    params: dict[str, Any],
    grid: dict[str, list] | None = None,
) -> dict[str, Any]:
    """Scores of one method on one fold, its probabilities and, where it explains, what its mask is worth."""
    started = time.perf_counter()
    chosen = search(graphs, seed, params, grid) if method == "ci-gnn" and grid else {}
    settings = params | chosen if method == "ci-gnn" else {}
    model = make_estimator(method, random_state=seed, **settings).fit(graphs)
    seconds = time.perf_counter() - started
    probability = model.predict_proba(held)[:, 1]
    row: dict[str, Any] = {"seconds": seconds, "y": held.y.tolist(), "p": probability.round(5).tolist()}
    if chosen:
        row["chosen"] = settings_of(chosen)
    if method == "ci-gnn":
        explanations = model.explain(held)
        mean = explanations.mean()
        row["mean weight"] = float(np.concatenate(explanations.edge_weights).mean())
        row["group"] = mean.edge_weights.round(4).tolist()
        row["epochs"] = model.best_epoch_
        row |= removed(model, held, explanations, seed)
    return row


def removed(model: Any, held: GraphSet, explanations: Explanations, seed: int) -> dict[str, list[float]]:
    """Probabilities without each subject's top tenth of edges, and without a random tenth."""
    rng = np.random.default_rng(seed)
    by_chance = Explanations(held, [rng.random(n) for n in held.n_edges])
    out = {}
    for name, ranking in {"top": explanations, "random": by_chance}.items():
        left = held.with_edges([~gone for gone in top_edge_masks(ranking, REMOVED)])
        out[f"p without {name}"] = model.predict_proba(left)[:, 1].round(5).tolist()
    return out


def summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Accuracy and AUC of each method: per fold, averaged over folds and seeds, and what masks are worth."""
    out = []
    frame = pd.DataFrame(rows)
    for (protocol, kind, combat, method, settings), part in frame.groupby(
        ["protocol", "connectivity", "combat", "method", "settings"], sort=False
    ):
        by_seed = []
        for _, seed in part.groupby("seed"):
            if protocol == "kfold":
                auc = np.mean([roc_auc_score(r.y, r.p) for r in seed.itertuples()])
                accuracy = np.mean([((np.array(r.p) > 0.5) == r.y).mean() for r in seed.itertuples()])
            else:  # sites differ in size: all subjects together
                y, p = np.concatenate(seed["y"].tolist()), np.concatenate(seed["p"].tolist())
                auc, accuracy = roc_auc_score(y, p), ((p > 0.5) == y).mean()
            by_seed.append((accuracy, auc))
        scores = np.array(by_seed)
        line = {
            "protocol": protocol,
            "input": f"{kind}{' + ComBat' if combat else ''}",
            "method": f"{method} {settings}".strip(),
            "folds": len(part),
            "seeds": len(scores),
            "accuracy": spread(scores[:, 0]),
            "AUC": spread(scores[:, 1]),
            "seconds": f"{part['seconds'].mean():.0f}",
        }
        if method == "ci-gnn":
            line |= mask_worth(part)
        out.append(line)
    return pd.DataFrame(out)


def spread(values: np.ndarray) -> str:
    """Mean ± standard deviation of a sample, as everywhere; of one value nothing is known of the spread."""
    return f"{values.mean():.3f}" + (f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else "")


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Mean, spread and least score over seeds of runs on known edges; settings apart, a seed counts once."""
    frame = pd.DataFrame(rows)
    frame["settings"] = frame.pop("params").map(settings_of)
    keys = ["data", "effect", "settings"]
    frame = frame.drop_duplicates([*keys, "seed"], keep="last")
    seeds = frame.groupby(keys, sort=False).size().rename(("seeds", ""))
    scores = frame.drop(columns="seed").groupby(keys, sort=False).agg(["mean", "std", "min"]).round(3)
    return scores.join(seeds).T


def settings_of(params: dict[str, Any]) -> str:
    """The settings of a run in one line."""
    return " ".join(f"{k}={v}" for k, v in params.items())


def mask_worth(part: pd.DataFrame) -> dict[str, str]:
    """Mean weight, agreement of group masks over seeds, and the loss of AUC by removal."""
    group = part.groupby("seed")["group"].apply(lambda g: np.mean(g.tolist(), axis=0))
    ranks = pd.DataFrame(group.tolist()).T.corr("spearman").to_numpy()
    pairs = ranks[np.triu_indices(len(ranks), 1)]
    drop = {
        name: np.mean(
            [roc_auc_score(r["y"], r["p"]) - roc_auc_score(r["y"], r[name]) for _, r in part.iterrows()]
        )
        for name in ("p without top", "p without random")
    }
    return {
        "mean weight": f"{part['mean weight'].mean():.2f}",
        "rank correlation over seeds": f"{pairs.mean():.2f}" if len(pairs) else "",
        "AUC lost without top": f"{drop['p without top']:.3f}",
        "AUC lost without random": f"{drop['p without random']:.3f}",
    }


# ---------------------------------------------------------------------------- command line


def main() -> None:
    """Run what was asked for and print the table of all finished runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["planted", "simulated", "abide"])
    parser.add_argument("--effects", type=float, nargs="+", default=[0.3, 0.15])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--protocol", choices=["kfold", "loso"], default="kfold")
    parser.add_argument(
        "--connectivity", choices=["correlation", "partial", "tangent"], default="correlation"
    )
    parser.add_argument("--combat", action="store_true", help="harmonise sites inside the fold")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--folds", type=int, nargs="+", help="only these, by number")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of ci-gnn"
    )
    parser.add_argument(
        "--search",
        action="append",
        default=[],
        metavar="NAME=[VALUES]",
        help="values of a setting of ci-gnn to choose from on inner folds of the training subjects",
    )
    parser.add_argument("--out", type=Path, help="results file; by default results/cohorts-WHAT.jsonl")
    args = parser.parse_args()
    params = read_settings(args.set, "--set", parser)
    grid = read_settings(args.search, "--search", parser)
    if grid and args.what != "abide":
        parser.error("--search is for abide alone.")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            parser.error(f"--search {name} needs a list of values, such as {name}=[0.2,0.5].")
    out = args.out or Path(f"results/cohorts-{args.what}.jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print({k: v for k, v in row.items() if not isinstance(v, list)}, flush=True)

    if args.what == "abide":
        run_abide(args, params, grid, rows, keep)
        print(summary(rows).to_string(index=False))
        return
    for seed in args.seeds:
        work = (planted(effect, seed, params) for effect in args.effects)
        for runs in work if args.what == "planted" else [simulated(seed, params)]:
            for row in runs:
                keep(row)
    print(table(rows).to_string())


def run_abide(
    args: argparse.Namespace,
    params: dict[str, Any],
    grid: dict[str, list],
    rows: list[dict[str, Any]],
    keep: Any,
) -> None:
    """Every method on every fold not yet done."""
    cohort = abide(args.connectivity)
    label = {"protocol": args.protocol, "connectivity": args.connectivity, "combat": args.combat}
    settings = settings_of(params | {k: f"one of {v}" for k, v in grid.items()})

    def key(row: dict[str, Any]) -> tuple:
        return tuple(row[k] for k in (*label, "method", "settings", "seed", "fold"))

    done = {key(row) for row in rows}
    for seed in args.seeds:
        for number, fold in enumerate(folds(cohort, args.protocol, seed)):
            names = [
                label
                | {
                    "method": m,
                    "settings": settings if m == "ci-gnn" else "",
                    "seed": seed,
                    "fold": fold.name,
                }
                for m in args.methods
            ]
            names = [name for name in names if key(name) not in done]
            if not names or (args.folds is not None and number not in args.folds):
                continue
            graphs, held = inputs(cohort, fold, args.connectivity, args.combat)
            for name in names:
                keep(name | score_fold(name["method"], graphs, held, seed, params, grid))


if __name__ == "__main__":
    main()
