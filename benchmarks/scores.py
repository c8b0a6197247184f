"""Scores: a planted one and ABIDE's age, CI-GNN beside ridge, SVR and CPM in the same folds, one line a fit.

    python -m benchmarks.scores --out results/scores.jsonl
    python -m benchmarks.scores age age-shuffled --methods mean ridge cpm --folds 0 1
    python -m benchmarks.scores --write-connections connections.npz
    python -m benchmarks.scores --connections connections.npz --device cuda --out results/scores.jsonl

Everything is fitted inside the fold, the epoch of CI-GNN is chosen on a part of the training subjects, and
the test subjects are scored once. The mean of the training subjects and that of their site stand beside. In
data named "-shuffled" scores are permuted over all subjects first: there is nothing to learn. Fits that the
results file has are not repeated. ``--write-connections`` writes the connectivity of ABIDE to a small file:
a machine that has it needs neither the series nor nilearn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from benchmarks.cohorts import abide
from benchmarks.connections import read_connections, write_connections
from cignn import Cohort, GraphSet
from cignn._arrays import upper_triangle
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import plant_edges
from cignn.estimators import make_estimator
from cignn.estimators.predictive_model import correlations
from cignn.estimators.stacks import Fit, fit_together
from cignn.evaluation import KFold, regression_scores
from cignn.evaluation.regression import REGRESSION_METRICS

KINDS = ("planted", "planted-shuffled", "age", "age-shuffled")
SITE, NETWORK, CORRELATION = "site's mean", "ci-gnn-regressor", "correlation"
SHALLOW = ("mean", "ridge", "svr", "rbf-svr", "cpm")
METHODS = (SITE, *SHALLOW, NETWORK, CORRELATION)
FOLDS = 5
TOP = 40  # connections, for the precision


class Part(NamedTuple):
    """One fold of one kind of data."""

    kind: str
    fold: int
    cohort: Cohort
    graphs: GraphSet
    train: np.ndarray
    test: np.ndarray

    @property
    def known(self) -> bool:
        """Whether it is known which connections tell the score."""
        return self.cohort.edge_truth is not None and not self.kind.endswith("shuffled")


# ------------------------------------------------------------------------ data


def planted(cohort: Cohort, effect: float, seed: int) -> Cohort:
    """ABIDE's controls, 40 connections moved by Fisher z ± effect per standard deviation of a score."""
    controls = cohort[cohort.y == 0]
    return plant_edges(controls, n_edges=40, effect=effect, score=True, fisher=True, random_state=seed)


def data_of(kind: str, cohort: Cohort, effect: float, seed: int) -> Cohort:
    """A planted score or age, permuted where the name says so."""
    made = planted(cohort, effect, seed) if kind.startswith("planted") else cohort.with_target("age")
    return made.with_y(np.random.default_rng(seed).permutation(made.y)) if "shuffled" in kind else made


def parts_of(kind: str, cohort: Cohort, effect: float, seed: int, folds: Sequence[int]) -> list[Part]:
    """The asked ones of five folds."""
    made = data_of(kind, cohort, effect, seed)
    graphs = ConnectomeGraphs().fit_transform(made)
    splits = list(KFold(FOLDS, random_state=seed).split(made))
    return [Part(kind, fold, made, graphs, *splits[fold]) for fold in folds]


# ------------------------------------------------------------------------ fits


def networks(parts: Sequence[Part], seed: int, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Train CI-GNN on several folds, all networks together, and score each."""
    models = [make_estimator(NETWORK, random_state=seed, **params) for _ in parts]
    started = time.perf_counter()
    failures = fit_together(
        [Fit(model, part.graphs[part.train]) for model, part in zip(models, parts, strict=True)]
    )
    seconds = (time.perf_counter() - started) / len(parts)
    for model, part, failure in zip(models, parts, failures, strict=True):
        if failure is not None:
            raise failure
        row = scored(model, part) | {"best_epoch": model.best_epoch_, "seconds": round(seconds, 1)}
        yield row | {"line": model.score_line_.as_list(), "r2_as_trained": _as_trained(model, row)}


def _as_trained(model: Any, row: dict[str, Any]) -> float:
    """R² of what the networks give, before the line that stretches it."""
    (mean, scale), line = model.target_scale_, model.score_line_
    given = mean + (np.array(row["predicted"]) - mean - scale * line.intercept) / line.slope
    return regression_scores(row["y"], given)["r2"]


def shallow(name: str, part: Part, seed: int) -> dict[str, Any]:
    """Fit and score any other method on one fold."""
    started = time.perf_counter()
    if name == SITE:
        return with_predictions(part, _site_means(part))
    if name == CORRELATION:
        matrices = np.asarray(part.cohort.matrices[part.train], float)
        r, _ = correlations(upper_triangle(matrices), part.cohort.y[part.train])
        return _found(np.abs(r)[None], part.cohort)
    model = make_estimator(name, random_state=seed).fit(part.graphs[part.train])
    return scored(model, part) | {"seconds": round(time.perf_counter() - started, 1)}


def scored(model: Any, part: Part) -> dict[str, Any]:
    """Scores of the test subjects and, where it is known, how well the planted connections are found."""
    tested = part.graphs[part.test]
    row = with_predictions(part, model.predict(tested))
    if part.known and getattr(model, "model", None) != "mean":
        explained = model.explain(tested)
        sizes = np.abs(np.stack([upper_triangle(one.contributions) for one in explained]))
        row |= _found(sizes, part.cohort)
    return row


def with_predictions(part: Part, predicted: np.ndarray) -> dict[str, Any]:
    """Scores, the slope of the line through what was observed, and the predictions themselves."""
    y = part.cohort.y[part.test]
    centred = predicted - predicted.mean()
    slope = float(centred @ y / (centred @ centred)) if np.ptp(predicted) > 1e-9 else float("nan")
    row: dict[str, Any] = {**regression_scores(y, predicted), "slope": slope}
    row = {name: None if np.isnan(value) else value for name, value in row.items()}
    return row | {"test": part.test.tolist(), "y": y.tolist(), "predicted": predicted.round(4).tolist()}


def _found(sizes: np.ndarray, cohort: Cohort) -> dict[str, float]:
    """How well the mean size of contributions tells the planted connections from all others."""
    truth, mean = upper_triangle(cohort.edge_truth[None])[0].astype(bool), sizes.mean(0)
    top = np.argsort(-mean, kind="stable")[:TOP]
    return {"roc_auc": float(roc_auc_score(truth, mean)), "precision": float(truth[top].mean())}


def _site_means(part: Part) -> np.ndarray:
    """Mean score of the training subjects of each test subject's site."""
    y, sites = part.cohort.y[part.train], part.cohort.sites
    known = pd.Series(y).groupby(sites[part.train]).mean()
    return known.reindex(sites[part.test]).fillna(y.mean()).to_numpy()


def asked(name: str, part: Part) -> bool:
    """Whether a method has something to say of the data."""
    return part.known if name == CORRELATION else name != SITE or part.cohort.sites is not None


# ---------------------------------------------------------------- command line


def run(args: argparse.Namespace, cohort: Cohort) -> pd.DataFrame:
    """Do every fit that the results file does not have; returns all rows asked for."""
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    params = {name: value for name in ("n_estimators", "epochs") if (value := getattr(args, name))}

    def about(method: str, part: Part) -> dict[str, Any]:
        own = {"effect": args.effect} if part.kind.startswith("planted") else {}
        settings = json.dumps((params if method == NETWORK else {}) | own)
        return {"kind": part.kind, "seed": args.seed, "fold": part.fold, "method": method, "set": settings}

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps({k: v for k, v in row.items() if not isinstance(v, list)}), flush=True)

    done = {_key(row) for row in rows}
    parts = [p for kind in args.data for p in parts_of(kind, cohort, args.effect, args.seed, args.folds)]
    todo = [(m, p) for p in parts for m in args.methods if asked(m, p) and _key(about(m, p)) not in done]
    waiting = [p for m, p in todo if m == NETWORK]
    at_once = args.together or (1 if args.device == "cpu" else len(args.folds))
    for i in range(0, len(waiting), at_once):
        some = waiting[i : i + at_once]
        made = networks(some, args.seed, params | {"device": args.device})
        for part, row in zip(some, made, strict=True):
            keep(about(NETWORK, part) | row)
    others = [(m, p) for m, p in todo if m != NETWORK]
    work = Parallel(args.jobs, return_as="generator")(delayed(shallow)(m, p, args.seed) for m, p in others)
    for (method, part), row in zip(others, work, strict=True):
        keep(about(method, part) | row)
    wanted = {_key(about(m, p)) for p in parts for m in args.methods}
    return pd.DataFrame([row for row in rows if _key(row) in wanted])


def _key(row: dict[str, Any]) -> tuple:
    return tuple(row[name] for name in ("kind", "seed", "fold", "method", "set"))


def table(rows: pd.DataFrame) -> str:
    """Means over folds, and their standard deviations."""
    names = (*REGRESSION_METRICS, "r2_as_trained", "slope", "roc_auc", "precision", "seconds")
    columns = [name for name in names if name in rows]
    groups = rows.groupby(["kind", "method"], sort=False)
    means, spreads = groups[columns].mean().round(3), groups[columns].std().round(3)
    means.insert(0, "folds", groups.size())
    return f"{means.to_string()}\n\nstandard deviations over folds\n{spreads.to_string()}"


def main() -> None:
    """Print a line for every fit, then means over folds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("data", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; by default all")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--effect", type=float, default=0.05, help="Fisher z per standard deviation of the score")
    add("--seed", type=int, default=0)
    add("--folds", type=int, nargs="+", choices=range(FOLDS), default=list(range(FOLDS)), help="by number")
    add("--networks", dest="n_estimators", type=int, help="of CI-GNN's ensemble, instead of its default")
    add("--epochs", type=int, help="of CI-GNN at the most, instead of its default")
    add("--device", default="auto", help="where CI-GNN is trained")
    add("--together", type=int, help="folds trained at once; by default all of a kind, on a CPU one")
    add("--jobs", type=int, default=1, help="fits of other methods at once")
    add("--connections", type=Path, metavar="FILE", help="read this instead of ABIDE's series")
    add("--write-connections", type=Path, metavar="FILE", help="write that file and end")
    add("--out", type=Path, default=Path("results/scores.jsonl"), help="results file")
    args = parser.parse_args()
    if args.write_connections:
        write_connections(args.write_connections)
        return
    args.data = args.data or list(KINDS)
    if unknown := [kind for kind in args.data if kind not in KINDS]:
        parser.error(f"there are no data {unknown[0]!r}; there are {', '.join(KINDS)}.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    cohort = read_connections(args.connections) if args.connections else abide("correlation")
    print(table(run(args, cohort)))


if __name__ == "__main__":
    main()
