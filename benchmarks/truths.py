"""Known connections of several kinds, in ABIDE's controls and simulated: who finds them, in whom, how well.

    python -m benchmarks.truths --kinds weak,subtypes,either,direct,site,carriers --seeds 0 1 2
    python -m benchmarks.truths --kinds subtypes --data simulated --methods t ci-gnn
    python -m benchmarks.truths --table            # print what is there

Every method learns from 80 % of the subjects, in which its map of the group is made as well; accuracy and
individual evidence are those of the others. ``ci-gnn`` is one fit: the mean size of its contributions,
``pooled`` that of contributions pooled over connections that go together, as models explain by default, and
``mask`` the mean of its weights; ``group`` is the map of `cignn.explainers.explain_group`. Individual
evidence of linear methods is coefficient × deviation. ``bound`` knows the planted connections and their
signs and reads each subject's own deviation. Rows with shuffled labels stand beside. Finished runs are not
repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.accuracy import read_settings
from benchmarks.cohorts import abide, settings_of, spread
from cignn import Cohort, GraphSet
from cignn._arrays import upper_indices
from cignn.connectome import ConnectomeGraphs, Deconfound
from cignn.datasets import make_cohort, plant_edges
from cignn.estimators import GraphVectors, make_estimator
from cignn.evaluation import subject_score_table, subject_scores
from cignn.explainers.maps import t_values

# a kind of truth: options of `plant_edges` and `make_cohort`, then what differs between brains and simulated
TRUTHS: dict[str, list[dict[str, Any]]] = {
    "weak": [{"effect": 0.05}, {"effect": 0.08}],
    "subtypes": [{"effect": 0.3, "subtypes": 2, "n_edges": 20}],
    "either": [{"effect": 0.3, "either_direction": True}],
    "direct": [{"effect": 0.02, "direct": True}],
    "site": [{"effect": 0.15, "site_effect": 0.3, "n_sites": 2, "confounded": 0.8}],
    "carriers": [{"effect": 0.3, "affected": 0.5}],
}
N_EDGES = {"brains": 40, "simulated": 20}
SIMULATED = {"n_subjects": 500, "n_rois": 60, "data": "matrices"}
TAKEN_OUT = ("site",)  # from connections, inside the training part, where the truth is of the kind "site"
LARGEST_T = 100
KEYS = ("kind", "data", "effect", "shuffled", "method", "settings", "seed")


class Task(NamedTuple):
    """One cohort, split, with connections in standard deviations of the training part."""

    cohort: Cohort
    train: np.ndarray
    test: np.ndarray
    graphs: GraphSet  # of the training part
    held: GraphSet
    x: np.ndarray  # (train, pairs)
    x_held: np.ndarray  # (test, pairs)
    y: np.ndarray  # of the training part, shuffled or not
    steps: list[Any]  # before the graphs are made
    seed: int


class Found(NamedTuple):
    """What a method says."""

    map: np.ndarray | None = None  # (pairs,) of the group; the larger in size the surer
    evidence: np.ndarray | None = None  # (test, pairs) for the patients' class
    predictions: np.ndarray | None = None  # (test,)
    selected: np.ndarray | None = None  # (pairs,) bool


# -------------------------------------------------------------------------------- the data


@cache
def controls() -> Cohort:
    """ABIDE's controls, Fisher z."""
    cohort = abide("correlation")
    return cohort[cohort.y == 0]


def cohort_of(data: str, options: dict[str, Any], seed: int) -> Cohort:
    """Brains or a simulated cohort with planted connections."""
    options = {"n_edges": N_EDGES[data], **options}
    if data == "brains":
        return plant_edges(controls(), fisher=True, random_state=seed, **options)
    return make_cohort(random_state=seed, **SIMULATED, **options)


def prepare(cohort: Cohort, kind: str, seed: int, shuffled: bool, held_out: float) -> Task:
    """Split, take sites out where they are the question, and shuffle the labels of the training part."""
    y = np.asarray(cohort.y)
    train, test = train_test_split(np.arange(len(y)), test_size=held_out, stratify=y, random_state=seed)
    steps: list[Any] = [Deconfound(TAKEN_OUT, fit_on="controls")] if kind == "site, taken out" else []
    pipe = make_pipeline(*steps, ConnectomeGraphs())
    labels = np.random.default_rng(seed).permutation(y[train]) if shuffled else y[train]
    graphs = pipe.fit_transform(cohort[train].with_y(labels), labels)
    held = pipe.transform(cohort[test])
    scale = make_pipeline(GraphVectors(), StandardScaler()).fit(graphs)
    x, x_held = scale.transform(graphs), scale.transform(held)
    return Task(cohort, train, test, graphs, held, x, x_held, labels, steps, seed)


# ------------------------------------------------------------------------------ the methods


def univariate(task: Task) -> Found:
    """Two-sample t; a subject's evidence is t × deviation."""
    t = t_values(task.x, task.y == 1)
    return Found(t, task.x_held * t)


def regression(task: Task) -> Found:
    """Coefficients of logistic regression (L2)."""
    model = LogisticRegression(max_iter=2000).fit(task.x, task.y)
    return Found(model.coef_[0], task.x_held * model.coef_[0], model.predict(task.x_held))


def haufe(task: Task) -> Found:
    """The pattern of logistic regression: covariance of each connection with its score."""
    model = LogisticRegression(max_iter=2000).fit(task.x, task.y)
    score = model.decision_function(task.x)
    return Found(task.x.T @ (score - score.mean()) / len(score), None, model.predict(task.x_held))


def lasso(task: Task) -> Found:
    """Coefficients of logistic regression (L1), its strength chosen on inner folds."""
    model = make_estimator("lasso", random_state=task.seed).fit(task.graphs, task.y)
    coefficients = model.pipeline_["model"].coef_[0]
    return Found(coefficients, task.x_held * coefficients, model.predict(task.held))


def forest(task: Task) -> Found:
    """Importances of a random forest."""
    model = make_estimator("random-forest", random_state=task.seed).fit(task.graphs, task.y)
    return Found(model.pipeline_["model"].feature_importances_, None, model.predict(task.held))


def largest_t(task: Task) -> Found:
    """Logistic regression on the connections of the largest |t| of the training part."""
    chosen = np.argsort(-np.abs(t_values(task.x, task.y == 1)))[:LARGEST_T]
    model = LogisticRegression(max_iter=2000).fit(task.x[:, chosen], task.y)
    coefficients = np.zeros(task.x.shape[1])
    coefficients[chosen] = model.coef_[0]
    return Found(coefficients, task.x_held * coefficients, model.predict(task.x_held[:, chosen]))


def bound(task: Task) -> Found:
    """True sign × deviation at planted connections, else 0: the most that one at a time can tell."""
    pairs = upper_indices(task.cohort.n_rois)
    sets, carries = np.asarray(task.cohort.edge_sets)[:, *pairs], np.asarray(task.cohort.carries)
    evidence = np.zeros(task.x_held.shape)
    for k, planted in enumerate(sets):
        carriers = carries[task.train, k]
        direction = np.sign(carriers @ task.x[:, planted])
        own = np.where(carries[task.test, k] < 0, -1, 1)[:, None]
        evidence[:, planted] = task.x_held[:, planted] * direction * own
    return Found(None, evidence)


METHODS: dict[str, Callable[[Task], Found]] = {
    "t": univariate,
    "coefficients": regression,
    "haufe": haufe,
    "lasso": lasso,
    "random forest": forest,
    f"{LARGEST_T} largest |t|": largest_t,
    "bound": bound,
}
ONE_FIT = ("ci-gnn", "pooled", "mask")
NETWORKS = (*ONE_FIT, "group")


def ci_gnn(task: Task, params: dict[str, Any]) -> dict[str, Found]:
    """One fit: mean size of held-out subjects' contributions, pooled or not, and mean of their weights."""
    model = make_estimator("ci-gnn", random_state=task.seed, **params).fit(task.graphs, task.y)
    plain, pooled = (model.explain(task.held, target=1, pooled=wanted) for wanted in (False, True))
    pairs = upper_indices(task.cohort.n_rois)
    evidence = [np.stack([one.contributions[pairs] for one in found]) for found in (plain, pooled)]
    weights = np.stack([one.weights[pairs] for one in plain])
    predictions = model.predict(task.held)
    found = (Found(np.abs(values).mean(0), values, predictions) for values in evidence)
    return dict(zip(ONE_FIT, (*found, Found(weights.mean(0), weights, predictions)), strict=True))


def group(task: Task, params: dict[str, Any], n_resamples: int) -> Found:
    """The map of `explain_group` of the whole pipeline."""
    from cignn.explainers import explain_group

    steps = [*task.steps, ConnectomeGraphs(), make_estimator("ci-gnn", random_state=task.seed, **params)]
    pipe: Pipeline = make_pipeline(*steps)
    learned = task.cohort[task.train].with_y(task.y)
    found = explain_group(pipe, learned, n_resamples=n_resamples, random_state=task.seed)
    selected = np.zeros((task.cohort.n_rois,) * 2, bool)
    place = {name: i for i, name in enumerate(task.cohort.roi_names)}
    chosen = found.table[found.table["selected"]]
    for source, target in zip(chosen["source"], chosen["target"], strict=True):
        i, j = place.get(source, source), place.get(target, target)
        selected[i, j] = selected[j, i] = True
    pairs = upper_indices(task.cohort.n_rois)
    return Found(found.map[pairs], selected=selected[pairs])


# ------------------------------------------------------------------------------- the scores


def scores(task: Task, found: Found) -> dict[str, Any]:
    """How well the truth is found, in the group and in individuals, and the accuracy."""
    pairs = upper_indices(task.cohort.n_rois)
    truth = np.asarray(task.cohort.edge_truth)[pairs]
    row: dict[str, Any] = {}
    if found.map is not None:
        size = np.abs(found.map)
        row["group ROC-AUC"] = roc_auc_score(truth, size)
        row["group p@k"] = truth[np.argsort(-size, kind="stable")[: truth.sum()]].mean()
        for name in ("site", "induced"):
            others = getattr(task.cohort, f"{name}_truth")
            if others is not None and (among := others[pairs]).any():
                row[f"above {name}"] = roc_auc_score(truth[truth | among], size[truth | among])
    if found.selected is not None:
        row["selected"] = found.selected.sum()
        row["selected and true"] = (found.selected & truth).sum()
    if found.evidence is not None:
        table = subject_score_table(subject_scores(found.evidence, task.cohort[task.test]))
        for role, line in table.iterrows():
            row[f"{role} ROC-AUC"] = line["roc_auc"]
            row[f"{role} p@k"] = line["precision_at_k"]
        row["own against other"] = table["own_against_other"].iloc[0]
    if found.predictions is not None:
        row["accuracy"] = (found.predictions == np.asarray(task.cohort.y)[task.test]).mean()
    return {name: float(value) for name, value in row.items() if not np.isnan(value)}


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Mean ± standard deviation over seeds, one line per truth and method."""
    keys = [key for key in KEYS if key != "seed"]
    frame = pd.DataFrame(rows).drop_duplicates(list(KEYS), keep="last")
    numbers = [name for name in frame if name not in (*KEYS, "seconds")]
    lines = []
    for key, part in frame.groupby(keys, sort=False):
        line = dict(zip(keys, key, strict=True)) | {"seeds": len(part)}
        line |= {name: spread(part[name].dropna().to_numpy()) for name in numbers if part[name].notna().any()}
        lines.append(line | {"seconds": f"{part['seconds'].mean():.0f}"})
    return pd.DataFrame(lines).fillna("").sort_values(keys[:4], kind="stable")


# ----------------------------------------------------------------------------- command line


def work(args: argparse.Namespace, params: dict[str, Any], keep: Callable, done: set[tuple]) -> None:
    """Every method on every truth not yet done."""
    truths = [(kind, options) for kind in args.kinds for options in TRUTHS[kind]]
    truths += [("site, taken out", options) for kind, options in truths if kind == "site"]
    for seed, (kind, options), data in product(args.seeds, truths, args.data):
        for shuffled in [False, True] if seed in args.seeds[: args.shuffled] else [False]:
            label = {"kind": kind, "data": data, "effect": options["effect"], "shuffled": shuffled}
            wanted = {}
            for method in args.methods:
                settings = settings_of(params) if method in NETWORKS else ""
                row = label | {"method": method, "settings": settings, "seed": seed}
                if tuple(row[key] for key in KEYS) not in done:
                    wanted[method] = row
            if wanted:
                task = prepare(cohort_of(data, options, seed), kind, seed, shuffled, args.held_out)
                run(task, wanted, params, args.n_resamples, keep)


def run(
    task: Task, wanted: dict[str, dict[str, Any]], params: dict[str, Any], n_resamples: int, keep: Callable
) -> None:
    """Methods on one cohort; one fit of CI-GNN serves three of them."""

    def timed(names: list[str], method: Callable[[], dict[str, Found]]) -> None:
        started = time.perf_counter()
        for name, found in method().items():
            if name in names:
                keep(wanted[name] | scores(task, found) | {"seconds": time.perf_counter() - started})

    for name in [name for name in wanted if name not in NETWORKS]:
        timed([name], lambda name=name: {name: METHODS[name](task)})  # type: ignore[misc]
    if some := [name for name in ONE_FIT if name in wanted]:
        timed(some, lambda: ci_gnn(task, params))
    if "group" in wanted:
        timed(["group"], lambda: {"group": group(task, params, n_resamples)})


def main() -> None:
    """Run what was asked for and print the table of all finished runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [*METHODS, *NETWORKS]
    parser.add_argument("--kinds", default=",".join(TRUTHS), help=f"of {', '.join(TRUTHS)}")
    parser.add_argument("--data", nargs="+", choices=N_EDGES, default=list(N_EDGES))
    parser.add_argument("--methods", nargs="+", choices=every, default=every)
    parser.add_argument("--without", nargs="+", choices=every, default=[], help="methods to leave out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--shuffled", type=int, default=1, help="seeds, the first ones, also run shuffled")
    parser.add_argument("--held-out", type=float, default=0.2, help="share of subjects to score")
    parser.add_argument("--n-resamples", type=int, default=100, help="of explain_group")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of ci-gnn"
    )
    parser.add_argument("--out", type=Path, default=Path("results/truths.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table and run nothing")
    args = parser.parse_args()
    args.kinds = args.kinds.split(",")
    if unknown := set(args.kinds) - set(TRUTHS):
        parser.error(f"--kinds must be of {', '.join(TRUTHS)}, got {', '.join(sorted(unknown))}.")
    args.methods = [name for name in args.methods if name not in args.without]
    params = read_settings(args.set, "--set", parser)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)

    if not args.table:
        work(args, params, keep, {tuple(row[key] for key in KEYS) for row in rows})
    if rows:
        print(table(rows).to_string(index=False))


if __name__ == "__main__":
    main()
