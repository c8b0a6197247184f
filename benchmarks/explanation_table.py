"""All classifiers and all explainers on data with known causal edges: one line of JSON a result, then tables.

    python -m benchmarks.explanation_table --data BA-2Motifs cohort --seeds 0 1 2 --n-jobs 3 --device auto
    python -m benchmarks.explanation_table --table            # print what is there, as Markdown
    python -m benchmarks.explanation_table --quick --out /tmp/quick.jsonl

A task is one classifier on one data set with one seed: it is trained once, the epoch chosen on validation
graphs, and scored on test graphs; SIB, DIR and CI-GNN explain these themselves, GIN (or what ``--explained``
names) is explained by every post-hoc method and reference. Finished tasks are not repeated: a killed run goes
on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from benchmarks.accuracy import known_scores
from benchmarks.graph_sets import SETS, load_set, split
from cignn import Explanations, GraphSet
from cignn.datasets import make_ba2motifs, make_cohort, make_spurious_motifs
from cignn.estimators import CLASSIFIERS, ESTIMATORS, NeuralGraphClassifier, make_estimator
from cignn.estimators.training import resolve_device
from cignn.evaluation import (
    characterisation_score,
    classification_scores,
    explanation_accuracy,
    fidelity,
    self_consistency,
    sparsity,
    superset_sufficiency,
)
from cignn.evaluation.tasks import nanmean
from cignn.explainers import EXPLAINERS, Explainer, make_explainer

EXPLAINED = ("gin",)  # classifiers that post-hoc explainers explain
POST_HOC = [name for name in EXPLAINERS if name != "built-in"]
BEAMS = (1, 2, 4, 8, 16)
SHARE = 0.3  # of edges, for fidelity
MAX_EXPLAINED = 300  # test graphs explained
CLASSIFICATION = ("accuracy", "f1", "mcc")
EXPLANATION = (
    "roc_auc",
    "roc_auc_overall",
    "gap",
    "group_roc_auc",
    "precision_at_k",
    "acc@0.3",
    "acc@0.4",
    "acc@0.5",
    "acc_auc",
    "fidelity+",
    "fidelity-",
    "characterisation",
    "superset_worst",
    "superset_worst_random",
    "superset_label_changes",
    "superset_label_changes_random",
    "self_difference",
    "self_rank_correlation",
    "sparsity",
    "ms_per_graph",
)
# table "Explanation accuracy in terms of AUC on BA2Motif" of the paper: μ = 0.3, 0.4, 0.5 and the area
PAPER = {
    "gnn-explainer": (0.65, 0.85, 0.94, 0.85),
    "pg-explainer": (0.65, 0.87, 0.95, 0.86),
    "rc-explainer": (0.63, 0.85, 0.93, 0.82),
    "orphicx": (0.67, 0.83, 0.96, 0.83),
    "ci-gnn": (0.68, 0.91, 0.96, 0.88),
}
# settings small enough to see that everything runs
QUICK: dict[str, dict[str, Any]] = {
    "gnn-explainer": {"steps": 5},
    "pg-explainer": {"epochs": 1},
    "rc-explainer": {"epochs": 1, "max_edges": 3},
    "orphicx": {"epochs": 1},
}


def planted_cohort(quick: bool, seed: int) -> GraphSet:
    """Brain graphs with every connection an edge, 40 of them planted: a new cohort for every seed."""
    size = {"n_subjects": 40, "n_rois": 20, "n_edges": 8} if quick else {"n_subjects": 600}
    cohort = make_cohort(data="matrices", random_state=seed, **size)
    return GraphSet.from_arrays(cohort.matrices, y=cohort.y, edge_truth=cohort.edge_truth, aligned=True)


def published(
    name: str, made: Callable[[], GraphSet], small: Callable[[], GraphSet]
) -> Callable[[bool, int], GraphSet]:
    """The published set where its file is there, else graphs made the same way; a few for a quick look."""

    def load(quick: bool, seed: int) -> GraphSet:
        try:
            return small() if quick else load_set(name)
        except FileNotFoundError:
            return made()

    return load


def few_motifs() -> GraphSet:
    """Graphs that stand for any set in a quick look."""
    return make_ba2motifs(60, random_state=0)


def no_molecules() -> GraphSet:
    """Molecules cannot be made up."""
    raise SystemExit("MUTAG is not there; unpack it as tu/MUTAG in the folder CIGNN_DATA, or leave it out.")


DATA: dict[str, Callable[[bool, int], GraphSet]] = {
    "BA-2Motifs": published("BA-2Motifs", SETS["BA-2Motifs-generated"], few_motifs),
    "Spurious-Motif": lambda quick, seed: make_spurious_motifs(
        90 if quick else 3000, bias=0.9, random_state=0
    ),
    "Spurious-Motif-0.9": published(
        "Spurious-Motif-0.9",
        SETS["Spurious-Motif-generated"],
        lambda: make_spurious_motifs(90, kind="published", random_state=0),
    ),
    "MUTAG": published("MUTAG", no_molecules, few_motifs),
    "cohort": planted_cohort,
}


# ------------------------------------------------------------------------- runs


def run(
    data: str, classifier: str, seed: int, quick: bool, device: str, post_hoc: list[str], beams: list[int]
) -> list[dict[str, Any]]:
    """Train one classifier, score it and what explains it: a row of scores, then one for each explainer."""
    torch.set_num_threads(1)
    graphs = DATA[data](quick, seed)
    train, validation, test = split(graphs, seed)
    model = _make(classifier, seed, quick, device)
    started = time.perf_counter()
    if isinstance(model, NeuralGraphClassifier):
        model.fit(graphs[train], eval_set=graphs[validation])
    else:
        model.fit(graphs[np.concatenate([train, validation])])
    key = {"data": data, "classifier": classifier, "seed": seed, "quick": quick, "post_hoc": bool(post_hoc)}
    seconds = {"fit_seconds": round(time.perf_counter() - started, 2)}
    tested = graphs[test]
    rows = [key | {"explainer": None} | classification_scores(tested.y, model.predict(tested)) | seconds]
    chosen = np.sort(np.random.default_rng(seed).permutation(len(tested))[:MAX_EXPLAINED])
    names = (["built-in"] if hasattr(model, "explain") else []) + [
        name for name in post_hoc if graphs.aligned or not EXPLAINERS[name].aligned_only
    ]
    for name, explainer, explanations, times in _explain(
        model, names, graphs[train], tested[chosen], seed, quick, beams
    ):
        rows.append(key | {"explainer": name} | explanation_scores(explainer, explanations) | times)
    return rows


def _make(classifier: str, seed: int, quick: bool, device: str) -> Any:
    params: dict[str, Any] = {"random_state": seed}
    if issubclass(ESTIMATORS[classifier].estimator, NeuralGraphClassifier):
        params |= {"device": device} | ({"epochs": 2} if quick else {})
    return make_estimator(classifier, **params)


def _explain(
    model: Any, names: list[str], train: GraphSet, test: GraphSet, seed: int, quick: bool, beams: list[int]
) -> Iterator[tuple[str, Explainer, Explanations, dict[str, float]]]:
    """Name, explanations and times of every explainer of this classifier."""
    for name in names:
        explainer = make_explainer(name, random_state=seed, **QUICK.get(name, {}) if quick else {})
        started = time.perf_counter()
        explainer.fit(model, train)
        fitted = time.perf_counter() - started
        for beam in beams if name == "rc-explainer" else [None]:
            if beam is not None:
                explainer.set_params(beam=beam)
            started = time.perf_counter()
            explanations = explainer.explain(test)
            spent = time.perf_counter() - started
            times = {"explainer_fit_seconds": round(fitted, 2), "ms_per_graph": 1e3 * spent / len(test)}
            yield name if beam in (None, 1) else f"{name}, beam {beam}", explainer, explanations, times


def explanation_scores(explainer: Explainer, explanations: Explanations) -> dict[str, float]:
    """Every score of the table, means over graphs; explanations again of every third of them."""
    model = explainer.estimator_
    curve = explanation_accuracy(model, explanations)
    loss = fidelity(model, explanations, SHARE)
    plus, minus = float(loss.plus.mean()), float(loss.minus.mean())
    scores = {f"acc@{mu}": float(curve.accuracy[curve.shares == mu][0]) for mu in (0.3, 0.4, 0.5)}
    scores |= {"acc_auc": curve.auc, "fidelity+": plus, "fidelity-": minus}
    scores |= {"characterisation": float(characterisation_score(plus, minus))}
    supersets = superset_sufficiency(model, explanations, SHARE)
    scores |= {"superset_worst": float(supersets.worst.mean())}
    scores |= {"superset_worst_random": float(supersets.random_worst.mean())}
    scores |= {"superset_label_changes": float(supersets.label_changes.mean())}
    scores |= {"superset_label_changes_random": float(supersets.random_label_changes.mean())}
    again = self_consistency(explainer, explanations[::3], SHARE)
    scores |= {"self_difference": nanmean(again.difference)}
    scores |= {"self_rank_correlation": nanmean(again.rank_correlation)}
    scores |= {"sparsity": float(np.nanmean(sparsity(explanations)))}
    truth = explanations.graphs.edge_truth
    if truth is not None:
        known = np.array([bool(matrix.any()) for matrix in truth])  # of molecules, mutagens
        scores |= known_scores(explanations[known])
        if explanations.graphs.aligned:
            scores["group_roc_auc"] = _group_roc_auc(explanations)
    return scores


def _group_roc_auc(explanations: Explanations) -> float:
    """ROC-AUC of the mean weight of every node pair over the group, the truth that of the first graph."""
    upper = np.triu_indices(int(explanations.graphs.n_nodes[0]), 1)
    mean = np.mean([ex.weights[upper] for ex in explanations], axis=0)
    return float(roc_auc_score(explanations.graphs.edge_truth[0][upper], mean))  # type: ignore[index]


# ----------------------------------------------------------------------- tables


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown: for each data set the classifiers, then the explainers; mean ± std over seeds."""
    frame = pd.DataFrame(rows)
    out = []
    for data, part in frame.groupby("data", sort=False):
        made = part[part["explainer"].isna()].rename(columns={"classifier": "method"})
        how = part[part["explainer"].notna()].copy()
        built_in = how["explainer"] == "built-in"
        of = np.where(how["classifier"].isin(EXPLAINED), "", " of " + how["classifier"])
        how["method"] = np.where(built_in, how["classifier"], how["explainer"] + of)
        out += [f"### {data}: classifiers", "", _markdown(_summary(made, CLASSIFICATION)), ""]
        if len(how):
            summary = _summary(how, EXPLANATION)
            if data == "BA-2Motifs":
                summary["paper @0.3 / 0.4 / 0.5 / AUC"] = [
                    " / ".join(f"{value:.2f}" for value in PAPER.get(method, ())) for method in summary.index
                ]
            out += [f"### {data}: explainers (post hoc: of {EXPLAINED[0]})", "", _markdown(summary), ""]
    return "\n".join(out)


def _summary(frame: pd.DataFrame, scores: tuple[str, ...]) -> pd.DataFrame:
    groups = frame.groupby("method", sort=False)
    out = groups.size().rename("seeds").to_frame()
    for score in scores:
        if score in frame and frame[score].notna().any():
            mean, std = groups[score].mean(), groups[score].std().fillna(0)
            out[score] = [f"{m:.3g} ± {s:.2g}" if score.startswith("ms") else f"{m:.3f} ± {s:.3f}"
                          for m, s in zip(mean, std, strict=True)]  # fmt: skip
    return out.replace("nan ± 0.000", "–")  # rows of older versions do not have every score


def _markdown(frame: pd.DataFrame) -> str:
    lines = [["method", *frame.columns], ["---"] * (len(frame.columns) + 1)]
    lines += [
        [str(method), *map(str, row)] for method, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Run what is missing and print the tables of all there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--classifiers", nargs="+", choices=CLASSIFIERS, default=list(CLASSIFIERS))
    parser.add_argument("--explained", nargs="*", choices=CLASSIFIERS, default=list(EXPLAINED))
    parser.add_argument("--explainers", nargs="+", choices=POST_HOC, default=POST_HOC)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--beams", type=int, nargs="+", default=list(BEAMS), help="of RC-Explainer")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--n-jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--quick", action="store_true", help="tiny sets, two epochs: does it run")
    parser.add_argument("--table", action="store_true", help="run nothing, print what is there")
    parser.add_argument("--out", type=Path, default=Path("results/explanations.jsonl"))
    args = parser.parse_args()
    device = str(resolve_device(args.device))
    seeds = args.seeds[:1] if args.quick else args.seeds
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {
        (r["data"], r["classifier"], r["seed"], r["quick"], r.get("post_hoc", r["classifier"] in EXPLAINED))
        for r in rows
    }
    tasks = [
        (d, c, s, args.quick, device, args.explainers if c in args.explained else [], args.beams)
        for s in seeds
        for d in args.data
        for c in args.classifiers
        if (d, c, s, args.quick, c in args.explained) not in done
    ]
    work = (delayed(run)(*task) for task in ([] if args.table else tasks))
    for finished in Parallel(n_jobs=args.n_jobs, return_as="generator")(work):
        with args.out.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in finished))
        rows += finished
        print(*(json.dumps(row) for row in finished), sep="\n", flush=True)
    shown = [row for row in rows if row["quick"] == args.quick]
    if shown:
        print("\n" + tables(shown))


if __name__ == "__main__":
    main()
