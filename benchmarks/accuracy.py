"""Accuracy and explanation quality on data sets with published figures, 80/10/10 splits, one line a run.

    python -m benchmarks.accuracy BA-2Motifs MUTAG --preset auto --seeds 0 1 2 --out results/accuracy.jsonl

The epoch is chosen on the validation graphs, the test graphs are scored once. Finished runs are not repeated.
``--choose`` also prints what choosing the settings on the validation graphs gives: of all finished runs of a
data set and seed, the one with the best validation accuracy, then the lowest cross-entropy there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from cignn import GraphSet
from cignn.datasets import load_ba2motifs, load_tu, make_ba2motifs, make_spurious_motifs
from cignn.estimators import make_estimator
from cignn.evaluation import (
    classification_scores,
    explanation_gap,
    explanation_roc_auc,
    explanation_roc_auc_overall,
    precision_at_k,
    self_consistency,
    superset_sufficiency,
)

DATA = Path(os.environ.get("CIGNN_DATA", "../shared/data"))
SETS: dict[str, Callable[[], GraphSet]] = {
    "BA-2Motifs": lambda: load_ba2motifs(DATA / "ba2motifs.npz"),
    "BA-2Motifs-generated": lambda: make_ba2motifs(1000, random_state=0),
    "Spurious-Motif": lambda: make_spurious_motifs(3000, bias=0.9, random_state=0),
    "MUTAG": lambda: load_tu(DATA / "tu" / "MUTAG"),
    "PROTEINS": lambda: load_tu(DATA / "tu" / "PROTEINS"),
    "NCI1": lambda: load_tu(DATA / "tu" / "NCI1"),
}
SCORES = ("accuracy", "f1", "mcc", "roc_auc", "roc_auc_overall", "gap", "precision_at_k", "superset_worst")
SCORES += ("superset_worst_random", "self_difference", "mean_weight", "weight_std", "seconds")
MOST_GRAPHS = 300  # test graphs, for supersets and explanations of cut graphs


def split(graphs: GraphSet, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices for training, validation and test: 80/10/10, or the set's own test graphs where it has them."""
    y, index = np.asarray(graphs.y), np.arange(len(graphs))
    if graphs.groups is not None:
        rest, test = index[graphs.groups == "train"], index[graphs.groups == "test"]
        train, validation = train_test_split(rest, test_size=0.1, stratify=y[rest], random_state=seed)
        return train, validation, test
    train, rest = train_test_split(index, test_size=0.2, stratify=y, random_state=seed)
    validation, test = train_test_split(rest, test_size=0.5, stratify=y[rest], random_state=seed)
    return train, validation, test


def run(name: str, preset: str, seed: int, params: dict[str, Any]) -> dict[str, Any]:
    """Train once and score the test graphs once."""
    graphs = SETS[name]()
    train, validation, test = split(graphs, seed)
    started = time.perf_counter()
    model = make_estimator("ci-gnn", preset=preset, random_state=seed, **params)
    model.fit(graphs[train], eval_set=graphs[validation])
    seconds = time.perf_counter() - started
    explanations = model.explain(graphs[test])
    row = {"data": name, "preset": preset, "seed": seed, "params": params, "seconds": round(seconds, 1)}
    row |= classification_scores(np.asarray(graphs.y)[test], model.predict(graphs[test]))
    weights = np.concatenate(explanations.edge_weights)
    row |= {
        "mean_weight": float(weights.mean()),
        "best_epoch": model.best_epoch_,
        "epochs": len(model.history_),
    }
    if isinstance(model.best_epoch_, int):
        kept = model.history_.iloc[model.best_epoch_ - 1]
        row |= {f"validation_{name}": float(kept[f"validation_{name}"]) for name in ("accuracy", "loss")}
    some = explanations[np.unique(np.linspace(0, len(test) - 1, MOST_GRAPHS).astype(int))]
    supersets, again = superset_sufficiency(model, some), self_consistency(model, some)
    row["superset_worst"] = float(supersets.worst.mean())
    row["superset_worst_random"] = float(supersets.random_worst.mean())
    row["self_difference"] = float(np.nanmean(again.difference))
    if graphs.edge_truth is not None:
        row["roc_auc"] = float(np.nanmean(explanation_roc_auc(explanations)))
        row["roc_auc_overall"] = explanation_roc_auc_overall(explanations)
        row["gap"] = float(np.nanmean(explanation_gap(explanations)))
        row["precision_at_k"] = float(np.nanmean(precision_at_k(explanations)))
    return row


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Mean ± std over seeds of every score, and the worst seed's explanation."""
    frame = pd.DataFrame(rows)
    frame["params"] = frame["params"].map(lambda p: " ".join(f"{k}={v}" for k, v in p.items()))
    groups = frame.groupby(["data", "preset", "params"], sort=False)
    out = groups.size().rename("seeds").to_frame()
    for score in (name for name in SCORES if name in frame):
        mean, std = groups[score].mean(), groups[score].std().fillna(0)
        out[score] = [f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, std, strict=True)]
    if "roc_auc" in frame:
        out["worst roc_auc"] = groups["roc_auc"].min().round(3)
    return out.replace("nan ± 0.000", "")


def chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the runs of each data set and seed, the best on the validation graphs."""
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        key = row["data"], row["seed"]
        if "validation_accuracy" in row and (key not in best or _merit(row) > _merit(best[key])):
            best[key] = row
    return [row | {"preset": "chosen", "params": {}} for row in best.values()]


def _merit(row: dict[str, Any]) -> tuple[float, float]:
    return row["validation_accuracy"], -row["validation_loss"]


def read_settings(pairs: list[str], option: str, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Values of NAME=VALUE pairs; others end the program with a line that names them."""
    out = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            out[name] = json.loads(value)
        except ValueError:
            parser.error(f"{option} takes NAME=VALUE, a word in quotes ('mask=\"soft\"'), got {pair!r}.")
    return out


def main() -> None:
    """Run what was asked for and print the table of all finished runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="*", choices=[[], *SETS], help="data sets")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the model"
    )
    parser.add_argument("--choose", action="store_true", help="also choose on validation graphs")
    parser.add_argument("--out", type=Path, default=Path("results/accuracy.jsonl"))
    args = parser.parse_args()
    params = read_settings(args.set, "--set", parser)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(r["data"], r["preset"], r["seed"], json.dumps(r["params"])) for r in rows}
    for name in args.data:
        for seed in args.seeds:
            if (name, args.preset, seed, json.dumps(params)) in done:
                continue
            rows.append(run(name, args.preset, seed, params))
            with args.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(rows[-1], flush=True)
    if rows:
        print(table(rows + (chosen(rows) if args.choose else [])).to_string())


if __name__ == "__main__":
    main()
