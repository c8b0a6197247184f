"""Several connectivities of ABIDE, each alone and fused, in the same folds: a line of JSON a fold, tables.

    python -m benchmarks.fusion --protocol kfold --seeds 0 1 2 --out results/fusion.jsonl
    python -m benchmarks.fusion --protocol loso --out results/fusion.jsonl
    python -m benchmarks.fusion --protocol kfold --seeds 0 --shuffled --out results/fusion.jsonl
    python -m benchmarks.fusion --out results/fusion.jsonl                    # the tables of what is there

A fold fits one `FusedClassifier`: the models of its views are the single views, the mean of their log-odds is
the trivial fusion. Weights are learnt in inner folds of the training subjects, by whole sites where whole
sites are tested. ``--shuffled`` permutes the labels of the training part. Finished folds are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.metrics import accuracy_score, roc_auc_score

from cignn.connectome import Connectivity
from cignn.datasets import Cohort, load_abide
from cignn.estimators import FusedClassifier, make_estimator
from cignn.estimators.fusion import centred_logits
from cignn.evaluation import KFold, LeaveOneSiteOut, Split, corrected_t_test

DATA = Path(os.environ.get("CIGNN_DATA", "../shared/data"))
KINDS = ("correlation", "partial", "tangent")
FUSIONS = ("mean", "stacking")


def model(method: str, C: float | None, by: str, n_splits: int, seed: int) -> FusedClassifier:
    """The fusion of one method on three kinds of connectivity."""
    views = {kind: Connectivity(kind, constant_rois="zero") for kind in KINDS}
    base = make_estimator(method, random_state=seed, **({} if C is None else {"C": C}))
    return FusedClassifier.make(views, base, by=by, n_splits=n_splits, random_state=seed)


def run_fold(cohort: Cohort, split: Split, made: FusedClassifier, shuffled: int | None) -> dict[str, Any]:
    """Fit one fold and return the probabilities of the test subjects by every view and fusion."""
    train = cohort[split.development]
    y = np.asarray(train.y)
    if shuffled is not None:
        y = np.random.default_rng(shuffled).permutation(y)
    started = time.perf_counter()
    made.fit(train, y)
    seconds = time.perf_counter() - started
    alone = made.view_probabilities(cohort[split.test].with_y(None))
    logits = centred_logits(np.array(list(alone.values())))
    chances = {name: values[:, 1] for name, values in alone.items()}
    chances["mean"] = softmax(logits.mean(0), axis=1)[:, 1]
    chances["stacking"] = made._fusion.probabilities(logits)[:, 1]
    return {
        "y": np.asarray(cohort.y)[split.test].astype(int).tolist(),
        "chances": {name: np.round(values, 5).tolist() for name, values in chances.items()},
        "shares": made.shares_.round(4).to_dict(),
        "n_train": len(split.development),
        "n_test": len(split.test),
        "seconds": round(seconds, 1),
    }


def scores(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """One row per fold and method; a site with one class has no ROC-AUC."""
    out = []
    for row in rows:
        y = np.array(row["y"])
        for name, chances in row["chances"].items():
            p = np.array(chances)
            auc = roc_auc_score(y, p) if len(set(row["y"])) > 1 else np.nan
            keys = {key: row[key] for key in ("protocol", "shuffled", "seed", "split", "n_train", "n_test")}
            out.append(keys | {"method": name, "roc_auc": auc, "accuracy": accuracy_score(y, p > 0.5)})
    return pd.DataFrame(out)


def tables(rows: list[dict[str, Any]]) -> str:
    """Mean scores, shares, and the stacked fusion against each of the others by corrected t-tests."""
    out = []
    for (protocol, shuffled), some in scores(rows).groupby(["protocol", "shuffled"]):
        mine = [row for row in rows if (row["protocol"], row["shuffled"]) == (protocol, shuffled)]
        wide = some.pivot_table(index=["seed", "split"], columns="method", values="roc_auc").dropna()
        sizes = some[["n_train", "n_test"]].mean()
        title = f"{protocol}{', labels of the training part shuffled' if shuffled else ''}"
        out.append(f"{title}: {len(mine)} folds, {np.mean([row['seconds'] for row in mine]):.0f} s each")
        for name in (*KINDS, *FUSIONS):
            if name not in wide:
                continue
            every = some[some["method"] == name]
            pooled = _pooled(mine, name)
            line = f"  {name:<12} ROC-AUC {every['roc_auc'].mean():.3f} ± {every['roc_auc'].std():.3f}"
            line += f", pooled {pooled:.3f}, accuracy {every['accuracy'].mean():.3f}"
            if name not in FUSIONS:
                line += f", share {np.mean([row['shares'][name] for row in mine]):.2f}"
            out.append(line)
        for fusion in FUSIONS:
            for other in [name for name in (*KINDS, "mean") if name != fusion]:
                test = corrected_t_test(
                    (wide[fusion] - wide[other]).to_numpy(), sizes["n_train"], sizes["n_test"]
                )
                ends = f"[{test.low:+.3f}, {test.high:+.3f}]"
                out.append(
                    f"  {fusion} − {other}: {test.difference:+.4f} {ends}, p = {test.p_value:.3f}, "
                    f"better in {int((wide[fusion] > wide[other]).sum())} of {len(wide)}"
                )
    return "\n".join(out)


def _pooled(rows: list[dict[str, Any]], name: str) -> float:
    """ROC-AUC over the test subjects of all folds, mean over seeds."""
    values = []
    for seed in sorted({row["seed"] for row in rows}):
        mine = [row for row in rows if row["seed"] == seed]
        y = np.concatenate([row["y"] for row in mine])
        values.append(roc_auc_score(y, np.concatenate([row["chances"][name] for row in mine])))
    return float(np.mean(values))


def main() -> None:
    """Run the folds that are not there yet, then print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=__doc__)
    parser.add_argument("--protocol", choices=("kfold", "loso"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--method", default="linear-svm")
    parser.add_argument("--C", type=float, default=1e-4, help="of the method; one value, for speed")
    parser.add_argument("--n-splits", type=int, default=3, help="inner folds")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--most", type=int, help="folds to do now")
    parser.add_argument("--out", type=Path, default=Path("results/fusion.jsonl"))
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.is_file() else []
    done = {(row["protocol"], row["shuffled"], row["seed"], row["split"]) for row in rows}
    if args.protocol:
        cohort = load_abide(DATA / "abide")
        protocol: Any = KFold(5) if args.protocol == "kfold" else LeaveOneSiteOut()
        todo = [(s, split) for s in args.seeds for split in protocol.splits(cohort, s)]
        todo = [(s, t) for s, t in todo if (args.protocol, args.shuffled, s, t.name) not in done]
        todo.sort(key=lambda one: (one[0], -len(one[1].test)))  # an unfinished run has most of the subjects
        args.out.parent.mkdir(parents=True, exist_ok=True)
        for seed, split in todo[: args.most]:
            by = "site" if args.protocol == "loso" else "subject"
            made = model(args.method, args.C, by, args.n_splits, seed)
            row = {"protocol": args.protocol, "shuffled": args.shuffled, "seed": seed, "split": split.name}
            row |= run_fold(cohort, split, made, seed if args.shuffled else None)
            rows.append(row)
            with open(args.out, "a") as file:
                file.write(json.dumps(row) + "\n")
    print(tables(rows) if rows else "nothing was measured yet")


if __name__ == "__main__":
    main()
