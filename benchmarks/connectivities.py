"""Correlation, partial correlation or tangent space? Classifiers of ABIDE and maps of planted edges by kind.

    python -m benchmarks.connectivities abide --repeats 20 --out abide.jsonl
    python -m benchmarks.connectivities planted --seeds 10 --out planted.jsonl
    python -m benchmarks.connectivities controls --seeds 1 --out controls.jsonl

ABIDE is divided into five stratified folds, again and again; everything, the tangent space's reference among
it, is fitted on four of them, C is chosen on parts of these, and the fifth is scored once. The same is done
with permuted labels in the first repeats (``--shuffled``). Finished repeats in ``--out`` are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import linalg
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.cohorts import DATA
from cignn import Cohort
from cignn._arrays import upper_pairs, upper_triangle
from cignn.connectome import Connectivity
from cignn.datasets import load_abide, make_cohort
from cignn.evaluation import corrected_interval

KINDS = ("correlation", "partial", "tangent")
FOLDS = 5
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # C times the number of connections
TOLERANCE, STEPS = 1e-7, 30  # nilearn's own for the geometric mean
MODELS: dict[str, Any] = {
    "linear SVM": lambda C: SVC(C=C, kernel="linear"),
    "logistic regression": lambda C: LogisticRegression(C=C, max_iter=1000, tol=1e-3),
}


# ------------------------------------------------------------------------------ connections


def covariances(cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
    """(n, R, R) Ledoit-Wolf covariances of z-scored series, as `Connectivity` has them; (n,) who is whole."""
    out = np.empty((len(cohort), cohort.n_rois, cohort.n_rois))
    whole = np.ones(len(cohort), bool)
    for i, series in enumerate(cohort.series):  # type: ignore[arg-type]
        values = np.asarray(series, np.float64)
        constant = np.ptp(values, axis=0) == 0
        whole[i] = not constant.any()
        centred = values - values.mean(0)
        std = np.where(constant, 1.0, centred.std(0))
        out[i] = ledoit_wolf(np.where(constant, 0.0, centred / std))[0]
    return out, whole


def partial_correlations(covs: np.ndarray) -> np.ndarray:
    """(n, e) partial correlations of (n, R, R) covariances."""
    precisions = np.linalg.inv(covs)
    scale = 1 / np.sqrt(np.diagonal(precisions, axis1=1, axis2=2))
    return upper_triangle(-precisions * scale[:, None, :] * scale[:, :, None])


def geometric_mean(matrices: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Geometric mean of (n, R, R) covariances by nilearn's rule; a good start saves steps."""
    mean, before, step = start, np.inf, 1.0
    for _ in range(STEPS):
        values, vectors = linalg.eigh(mean)
        root, inverse = (vectors * values**power @ vectors.T for power in (0.5, -0.5))
        gradient = np.mean([_log(inverse @ one @ inverse) for one in matrices], axis=0)
        norm = float(np.linalg.norm(gradient))
        values, vectors = linalg.eigh(gradient)
        mean = root @ (vectors * np.exp(step * values) @ vectors.T) @ root
        mean = (mean + mean.T) / 2
        step = step / 2 if norm > before else step
        before = min(norm, before)
        if before / mean.size < TOLERANCE:
            break
    return mean


def _log(matrix: np.ndarray) -> np.ndarray:
    values, vectors = linalg.eigh((matrix + matrix.T) / 2, check_finite=False, driver="evd")
    return vectors * np.log(values) @ vectors.T


def tangent_vectors(covs: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(n, e) connections in the tangent space at a mean."""
    values, vectors = linalg.eigh(mean)
    inverse = vectors * values**-0.5 @ vectors.T
    return np.stack([upper_triangle(_log(inverse @ one @ inverse)) for one in covs])


# ------------------------------------------------------------------------------ classifiers


class Axes(NamedTuple):
    """Training and test subjects on the principal axes of the training subjects.

    Models with an L2 penalty see connections through products of subjects alone, and as many axes as there
    are training subjects hold all of these.
    """

    train: np.ndarray
    test: np.ndarray
    n_connections: int

    @classmethod
    def of(cls, x: np.ndarray, train: np.ndarray, test: np.ndarray) -> Axes:
        """Scale (n, e) connections by the training subjects and turn them."""
        scaled = StandardScaler().fit(x[train])
        inner, outer = scaled.transform(x[train]), scaled.transform(x[test])
        values, vectors = linalg.eigh(inner @ inner.T)
        kept = values > values[-1] * 1e-10
        turn = inner.T @ (vectors[:, kept] / np.sqrt(values[kept]))
        return cls(inner @ turn, outer @ turn, x.shape[1])


def scores(axes: Axes, y_train: np.ndarray, y_test: np.ndarray, seed: int) -> dict[str, Any]:
    """AUC and accuracy of every model; C is chosen in three folds of the training subjects."""
    folds = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(axes.train, y_train))
    out = {}
    for name, make in MODELS.items():
        grid = {"C": [strength / axes.n_connections for strength in STRENGTHS]}
        model = GridSearchCV(make(1.0), grid, cv=folds).fit(axes.train, y_train)
        decided = model.decision_function(axes.test)
        right = float(((decided > 0) == y_test).mean())
        out[name] = {"AUC": float(roc_auc_score(y_test, decided)), "accuracy": right}
    return out


def abide(repeats: int, shuffled: int, done: set[int]) -> Iterator[dict[str, Any]]:
    """Scores of five folds, again and again."""
    cohort = load_abide(DATA / "abide")
    y = np.asarray(cohort.y)
    covs, whole = covariances(cohort)
    plain = Connectivity("correlation", constant_rois="zero").fit_transform(cohort).matrices
    ready = {"correlation": upper_triangle(np.asarray(plain)), "partial": partial_correlations(covs)}
    mean = covs[whole].mean(0)
    for repeat in range(repeats):
        if repeat in done:
            continue
        again = np.random.default_rng(repeat).permutation(y)
        for fold, (train, test) in enumerate(
            StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(y, y)
        ):
            started = time.perf_counter()
            mean = geometric_mean(covs[train][whole[train]], mean)
            inputs = ready | {"tangent": tangent_vectors(covs, mean)}
            for kind, x in inputs.items():
                axes = Axes.of(x, train, test)
                for labels, values in (("true", y), ("shuffled", again))[: 1 + (repeat < shuffled)]:
                    for model, found in scores(axes, values[train], values[test], repeat).items():
                        row = {"repeat": repeat, "fold": fold, "kind": kind, "labels": labels, "model": model}
                        yield row | found | {"seconds": time.perf_counter() - started}


def abide_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Means with their corrected intervals, and differences from correlation in the same folds."""
    out = []
    for (labels, model), part in rows.groupby(["labels", "model"], sort=False):
        for metric in ("AUC", "accuracy"):
            wide = part.pivot_table(index=["repeat", "fold"], columns="kind", values=metric)
            for kind in wide:
                ends = corrected_interval(wide[kind].to_numpy(), 1 / (FOLDS - 1))
                line = {"labels": labels, "model": model, "metric": metric, "kind": kind, "splits": len(wide)}
                line |= {"mean": wide[kind].mean(), "low": ends.low, "high": ends.high}
                if kind != "correlation":
                    gap = (wide[kind] - wide["correlation"]).to_numpy()
                    ends = corrected_interval(gap, 1 / (FOLDS - 1))
                    line |= {"gain": gap.mean(), "gain low": ends.low, "gain high": ends.high}
                    line["better in"] = (gap > 0).mean()
                out.append(line)
    return pd.DataFrame(out)


# ------------------------------------------------------------------------------ planted edges

TRUTHS: dict[str, dict[str, Any]] = {
    "correlations": {"effect": 0.1},
    "partial correlations": {"effect": 0.1, "direct": True},
}


def planted(seeds: int, done: set[int]) -> Iterator[dict[str, Any]]:
    """How well the planted edges lead the maps of a t-test and of logistic regression."""
    for seed in range(seeds):
        if seed in done:
            continue
        for truth, settings in TRUTHS.items():
            cohort = make_cohort(200, 116, n_edges=40, random_state=seed, **settings)
            edges = upper_triangle(np.asarray(cohort.edge_truth))
            inputs = {
                kind: upper_triangle(np.asarray(Connectivity(kind).fit_transform(cohort).matrices))
                for kind in KINDS
            }
            for found in map_scores(inputs, np.asarray(cohort.y) == 1, edges):
                yield {"repeat": seed, "planted in": truth} | found


def controls(seeds: int, done: set[int]) -> Iterator[dict[str, Any]]:
    """The same in ABIDE's controls: in half of them 40 regions take up a share of another one's series."""
    cohort = load_abide(DATA / "abide")
    cohort = cohort[np.asarray(cohort.y) == 0]
    cohort = cohort[covariances(cohort)[1]]
    pairs = upper_pairs(cohort.n_rois)
    for seed in range(seeds):
        if seed in done:
            continue
        for share in (0.1, 0.06):
            rng = np.random.default_rng(seed)
            patients = rng.permutation(len(cohort)) < len(cohort) // 2
            planted_edges = np.isin(np.arange(len(pairs)), rng.choice(len(pairs), 40, replace=False))
            shares = share * rng.choice([-1.0, 1.0], 40)
            series = [
                _mixed(one, pairs[planted_edges], shares) if ill else np.asarray(one)
                for one, ill in zip(cohort.series, patients, strict=True)  # type: ignore[arg-type]
            ]
            moved = Cohort(series)
            own, _ = covariances(moved)
            inputs = {
                "correlation": upper_triangle(np.stack([np.corrcoef(one, rowvar=False) for one in series])),
                "partial": partial_correlations(own),
                "tangent": tangent_vectors(own, geometric_mean(own, own.mean(0))),
            }
            for found in map_scores(inputs, patients, planted_edges):
                yield {"repeat": seed, "planted in": f"ABIDE controls, shares of {share}"} | found


def _mixed(series: np.ndarray, edges: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(t, R) z-scored series in which the first region of every edge takes up a share of the second."""
    values = np.asarray(series, np.float64)
    values = (values - values.mean(0)) / values.std(0)
    out = values.copy()
    for (first, second), share in zip(edges, shares, strict=True):
        out[:, first] += share * values[:, second]
    return out.astype(np.float32)


def map_scores(inputs: dict[str, np.ndarray], patients: np.ndarray, edges: np.ndarray) -> Iterator[dict]:
    """ROC-AUC and precision of the maps of every kind; inputs : (n, e) each, edges : (e,) bool."""
    for kind, values in inputs.items():
        x = StandardScaler().fit_transform(values)
        model = LogisticRegression(C=1 / x.shape[1], max_iter=1000).fit(x, patients)
        maps = {
            "t": np.abs(x[patients].mean(0) - x[~patients].mean(0)),
            "coefficients": np.abs(model.coef_[0]),
        }
        for name, sizes in maps.items():
            top = np.argsort(-sizes)[: edges.sum()]
            found = {"ROC-AUC": float(roc_auc_score(edges, sizes)), "precision": float(edges[top].mean())}
            yield {"kind": kind, "map": name} | found


def planted_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Means and standard deviations over cohorts."""
    found = rows.groupby(["planted in", "kind", "map"], sort=False)[["ROC-AUC", "precision"]]
    return found.agg(["mean", "std", "count"]).reset_index()


def main() -> None:
    """Run what is not yet in the file, and print the table of all that is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["abide", "planted", "controls"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--shuffled", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("connectivities.jsonl"))
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    # the last one in the file may not be whole
    done = {row["repeat"] for row in rows} - {row["repeat"] for row in rows[-1:]}
    rows = [row for row in rows if row["repeat"] in done]
    if given.what == "abide":
        runs = abide(given.repeats, given.shuffled, done)
    else:
        runs = {"planted": planted, "controls": controls}[given.what](given.seeds, done)
    with given.out.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        for row in runs:
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows.append(row)
    table = (abide_table if given.what == "abide" else planted_table)(pd.DataFrame(rows))
    print(table.round(4).to_string(index=False))


if __name__ == "__main__":
    main()
