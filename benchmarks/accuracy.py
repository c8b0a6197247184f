"""Classifiers and their explanations on graph sets with published figures: a line of JSON a run, then tables.

    python -m benchmarks.accuracy BA-2Motifs MUTAG --preset auto --seeds 0 1 2 --out results/accuracy.jsonl
    python -m benchmarks.accuracy Spurious-Motif-0.9 --method ci-gnn sib gin --device cuda --stack
    python -m benchmarks.accuracy MUTAG --method ci-gnn gin --seeds 0 --folds 10 --fold 0 1 2 3 4
    python -m benchmarks.accuracy my/Mutagenicity --seeds 0          # a folder in TU format
    python -m benchmarks.accuracy --csv runs.csv                     # the tables of what is there; each run

Splits are 80/10/10 by the seed, the set's own where it has one, or folds; they are the same for all methods.
The epoch is chosen on the validation graphs, the test graphs are scored once. Finished runs are not repeated.
CI-GNN, SIB and DIR explain themselves, other networks are explained by their gradient. Explanations of test
graphs are scored against true edges where there are some, those of molecules over mutagens alone; the scores
"all_…" are over training and validation graphs as well. Trivial masks of the same graphs stand beside them.
``--choose`` also prints what choosing the settings on the validation graphs gives: of all finished runs of a
method on a split, the one with the best validation accuracy, then the lowest cross-entropy there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from benchmarks.graph_sets import PUBLISHED, SETS, Parts, fold, load_set, scored, set_name, split
from cignn import Explanations, GraphSet
from cignn.estimators import CLASSIFIERS, ESTIMATORS, NeuralGraphClassifier, make_estimator
from cignn.estimators.stacks import Fit, fit_together
from cignn.estimators.training import resolve_device
from cignn.evaluation import (
    classification_scores,
    explanation_accuracy,
    explanation_gap,
    explanation_roc_auc,
    explanation_roc_auc_overall,
    precision_at_k,
    self_consistency,
    superset_sufficiency,
)
from cignn.evaluation.tasks import nanmean
from cignn.explainers import make_explainer

KNOWN = ("roc_auc", "roc_auc_overall", "gap", "precision_at_k")  # scores against true edges
MASK_SCORES = (*KNOWN, "acc_auc", "acc@0.3")
SCORES = ("accuracy", "validation_accuracy", "f1", "mcc", *MASK_SCORES, "superset_worst")
SCORES += ("superset_worst_random", "self_difference", "all_roc_auc", "all_roc_auc_overall")
SCORES += ("mean_weight", "weight_range", "best_epoch", "seconds")
WORST = ("accuracy", "roc_auc", "roc_auc_overall")  # the worst run stands beside the mean
OLDER = {"method": "ci-gnn", "folds": 0, "fold": 0}  # what rows of older versions do not name
MOST_GRAPHS = 300  # test graphs, for scores that ask the classifier many times


class Task(NamedTuple):
    """One training: a method with its settings on one split of a set."""

    data: str  # name or path
    method: str
    preset: str
    seed: int
    folds: int  # 0 for a split 80/10/10 or the set's own
    fold: int
    params: dict[str, Any]

    def row(self) -> dict[str, Any]:
        """What stands before the scores."""
        return self._asdict() | {"data": set_name(self.data)}

    def parts(self, graphs: GraphSet) -> Parts:
        """Places of the training, validation and test graphs."""
        return fold(graphs, self.seed, self.folds, self.fold) if self.folds else split(graphs, self.seed)

    def estimator(self, device: str) -> Any:
        """The classifier, not yet fitted."""
        given = {"random_state": self.seed} | self.params
        given |= {"preset": self.preset} if self.preset else {}
        if issubclass(ESTIMATORS[self.method].estimator, NeuralGraphClassifier):
            given |= {"device": device}
        return make_estimator(self.method, **given)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """What tells runs apart."""
    given = OLDER | row
    return (*(given[name] for name in Task._fields[:-1]), json.dumps(given["params"], sort_keys=True))


# ------------------------------------------------------------------------- runs


def run(
    tasks: Sequence[Task], device: str = "cpu", max_test: int | None = None, label: str | None = None
) -> Iterator[dict[str, Any]]:
    """Train the tasks, networks of one kind together, and score the test graphs of each once.

    max_test : test graphs explained, at the most; label : class whose explanations are scored.
    """
    sets = [load_set(task.data) for task in tasks]
    parts = [task.parts(graphs) for task, graphs in zip(tasks, sets, strict=True)]
    models = [task.estimator(device) for task in tasks]
    started = time.perf_counter()
    failures = _fit(models, sets, parts)
    seconds = (time.perf_counter() - started) / len(tasks)
    for task, graphs, part, model, failure in zip(tasks, sets, parts, models, failures, strict=True):
        if failure is not None:
            print(f"failed: {task}: {failure}", file=sys.stderr, flush=True)
            continue
        row = task.row() | {"device": device, "threads": torch.get_num_threads()}
        row |= {"seconds": round(seconds, 1)} | _class_scores(model, graphs, part)
        known = scored(graphs, row["data"], label)
        yield row | _explained(model, graphs, part, known, max_test, task.seed)


def _fit(models: list[Any], sets: list[GraphSet], parts: list[Parts]) -> list[Exception | None]:
    if isinstance(models[0], NeuralGraphClassifier):
        fits = zip(models, sets, parts, strict=True)
        return fit_together(
            [Fit(model, graphs[p.train], None, graphs[p.validation]) for model, graphs, p in fits]
        )
    for model, graphs, part in zip(models, sets, parts, strict=True):
        model.fit(graphs[np.concatenate([part.train, part.validation])])
    return [None] * len(models)


def _class_scores(model: Any, graphs: GraphSet, part: Parts) -> dict[str, Any]:
    y = np.asarray(graphs.y)
    found = classification_scores(y[part.test], model.predict(graphs[part.test]))
    out: dict[str, Any] = {name: found[name] for name in ("accuracy", "f1", "mcc")}
    if isinstance(model, NeuralGraphClassifier):  # others are trained on the validation graphs
        chances = model.predict_proba(graphs[part.validation])
        right = model.classes_[chances.argmax(1)] == y[part.validation]
        out["validation_accuracy"] = float(right.mean())
        own = chances[np.arange(len(right)), np.searchsorted(model.classes_, y[part.validation])]
        out["validation_loss"] = float(-np.log(own.clip(1e-12)).mean())
        out |= {"best_epoch": model.best_epoch_, "epochs": len(model.history_)}
    return out


def _explained(
    model: Any, graphs: GraphSet, part: Parts, known: np.ndarray, max_test: int | None, seed: int
) -> dict[str, Any]:
    """Scores of the explanations of test graphs, and of trivial masks of the same graphs."""
    if hasattr(model, "explain"):
        explainer = make_explainer("built-in", contributions=False)
    elif isinstance(model, NeuralGraphClassifier):
        explainer = make_explainer("gradient")
    else:
        return {}
    explainer.fit(model, graphs[part.train])
    test = part.test[_spread(len(part.test), max_test)]
    tested = graphs[test]
    explanations = explainer.explain(tested)
    few = _spread(len(test), MOST_GRAPHS)
    whole = model.predict_proba(tested[few])
    row = mask_scores(model, explanations, known[test], few, whole)
    supersets = superset_sufficiency(model, explanations[few], probabilities=whole)
    row["superset_worst"] = float(supersets.worst.mean())
    row["superset_worst_random"] = float(supersets.random_worst.mean())
    row["self_difference"] = nanmean(self_consistency(explainer, explanations[few]).difference)
    row["mean_weight"] = float(np.concatenate(explanations.edge_weights).mean())
    row["weight_range"] = explanations.usual_range
    row["n_scored"] = int(known[test].sum())
    if known.any() and graphs.groups is None:
        everywhere = known_scores(explainer.explain(graphs[known]))
        row |= {f"all_{name}": value for name, value in everywhere.items()} | {"all_n": int(known.sum())}
    masks = trivial_masks(model, tested, seed)
    row["masks"] = {name: mask_scores(model, mask, known[test], few, whole) for name, mask in masks.items()}
    return row


def mask_scores(
    model: Any, explanations: Explanations, known: np.ndarray, few: np.ndarray, whole: np.ndarray
) -> dict[str, float]:
    """Scores against true edges over the graphs ``known`` (g,), and explanation accuracy over a few.

    few : places of graphs; whole : (few, classes) their probabilities with all edges.
    """
    curve = explanation_accuracy(model, explanations[few], probabilities=whole)
    row = known_scores(explanations[known]) if known.any() else {}
    return row | {"acc_auc": curve.auc, "acc@0.3": float(curve.accuracy[np.isclose(curve.shares, 0.3)][0])}


def known_scores(explanations: Explanations) -> dict[str, float]:
    """Scores against true edges: means over graphs and, of the ROC curve, over all edges together."""
    return {
        "roc_auc": nanmean(explanation_roc_auc(explanations)),
        "roc_auc_overall": explanation_roc_auc_overall(explanations),
        "gap": nanmean(explanation_gap(explanations)),
        "precision_at_k": nanmean(precision_at_k(explanations)),
    }


def trivial_masks(model: Any, graphs: GraphSet, seed: int) -> dict[str, Explanations]:
    """Masks that know nothing of the classes: what any explanation has to beat."""
    degree = make_explainer("degree").fit(model, graphs).explain(graphs)
    weights = degree.edge_weights
    return {
        "constant": Explanations(graphs, [np.ones(len(values), np.float32) for values in weights]),
        "degree": degree,
        "1/degree": Explanations(graphs, [values.min(initial=1) / values for values in weights]),
        "random": make_explainer("random", random_state=seed).fit(model, graphs).explain(graphs),
    }


def _spread(n: int, most: int | None) -> np.ndarray:
    """Places of at most this many of n graphs, spread evenly."""
    return np.unique(np.linspace(0, n - 1, n if most is None else min(n, most)).astype(int))


# ----------------------------------------------------------------------- tables


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown, for each set: methods beside published figures, then trivial masks of the same graphs."""
    out: list[str] = []
    latest = {key(row): OLDER | row for row in rows}
    frame = pd.DataFrame(list(latest.values()))
    frame["method"] = [_label(row) for row in latest.values()]
    for data, part in frame.groupby("data", sort=False):
        out += [f"### {data}", "", _markdown([*_lines(part, SCORES, WORST), *_published(str(data))]), ""]
        if "masks" in part and part["masks"].notna().any():
            masks = [
                {"method": f"{mask}, {row['method']}", "folds": row["folds"]} | scores
                for row in part[part["masks"].notna()].to_dict("records")
                for mask, scores in row["masks"].items()
            ]
            lines = _lines(pd.DataFrame(masks), MASK_SCORES)
            out += [f"### {data}: trivial masks", "", _markdown(lines), ""]
    return "\n".join(out)


def _label(row: dict[str, Any]) -> str:
    """Method, preset where it is not the usual one, settings and protocol."""
    preset = row.get("preset") or "auto"
    words = [row.get("method", "ci-gnn")] + ([preset] if preset != "auto" else [])
    words += [f"{name}={value}" for name, value in row["params"].items()]
    return " ".join(words) + (f", {row['folds']} folds" if row.get("folds") else "")


def _lines(part: pd.DataFrame, scores: Sequence[str], worst: Sequence[str] = ()) -> list[dict[str, str]]:
    """A line a method: mean ± std over runs, of folds the standard error too, and the worst run."""
    lines = []
    for method, runs in part.groupby("method", sort=False):
        line = {"method": str(method), "n": str(len(runs))}
        for score in scores:
            values = _numbers(runs[score]) if score in runs else np.empty(0)
            if len(values):
                line[score] = _spread_words(values, score, bool((runs["folds"] > 0).all()))
                if score in worst:
                    line[f"worst {score}"] = f"{values.min():.3f}"
        lines.append(line)
    return lines


def _numbers(column: pd.Series) -> np.ndarray:
    """Finite numbers; the epochs of an ensemble are averaged."""
    values = np.array([np.mean(value) if isinstance(value, list) else value for value in column], float)
    return values[np.isfinite(values)]


def _spread_words(values: np.ndarray, score: str, folds: bool) -> str:
    digits = 1 if score in ("seconds", "best_epoch") else 3
    std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    error = f" (se {std / np.sqrt(len(values)):.{digits}f})" if folds and score == "accuracy" else ""
    return f"{values.mean():.{digits}f} ± {std:.{digits}f}{error}"


def _published(data: str) -> list[dict[str, str]]:
    return [
        {"method": f"{method}, published", score: figure}
        for score, figures in PUBLISHED.get(data, {}).items()
        for method, figure in figures.items()
    ]


def _markdown(lines: list[dict[str, str]]) -> str:
    known = ["method", "n", *(f"{word}{score}" for score in SCORES for word in ("", "worst "))]
    names = [name for name in known if any(name in line for line in lines)]
    cells = [names, ["---"] * len(names), *([line.get(name, "") for name in names] for line in lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def single_values(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """One line a run, the last of each: what it was and its scores."""
    latest = {key(row): OLDER | row | {"params": json.dumps(row["params"])} for row in rows}
    names = [*Task._fields, *(name for name in SCORES if name != "best_epoch")]
    frame = pd.DataFrame(list(latest.values())).reindex(columns=names)
    return frame.dropna(axis=1, how="all").round(4)


def chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the runs of each method on each split, the best on the validation graphs."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        split_of = tuple(row.get(name) for name in ("data", "method", "seed", "folds", "fold"))
        if "validation_accuracy" in row and (split_of not in best or _merit(row) > _merit(best[split_of])):
            best[split_of] = row
    return [row | {"preset": "chosen", "params": {}} for row in best.values()]


def _merit(row: dict[str, Any]) -> tuple[float, float]:
    return row["validation_accuracy"], -row["validation_loss"]


# ----------------------------------------------------------------- command line


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


def _arguments() -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="*", help=f"{', '.join(SETS)}, or the path of a set")
    parser.add_argument("--method", nargs="+", choices=CLASSIFIERS, default=["ci-gnn"])
    parser.add_argument("--preset", default="auto", help="of ci-gnn")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folds", type=int, default=0, help="cross-validation in place of 80/10/10")
    parser.add_argument("--fold", type=int, nargs="+", help="only these folds, from 0")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the methods"
    )
    parser.add_argument("--max-test", type=int, help="test graphs explained, at the most; all by default")
    parser.add_argument("--label", help="class whose explanations are scored; in MUTAG that of mutagens")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="of torch on the CPU")
    parser.add_argument("--stack", action="store_true", help="train all runs of a method on a set together")
    parser.add_argument("--choose", action="store_true", help="also choose on validation graphs")
    parser.add_argument("--csv", type=Path, help="also write the single values of all finished runs there")
    parser.add_argument("--out", type=Path, default=Path("results/accuracy.jsonl"))
    args = parser.parse_args()
    if args.folds == 1 or args.folds < 0:
        parser.error(f"--folds takes at least 2, got {args.folds}.")
    wrong = [number for number in args.fold or [] if not 0 <= number < args.folds]
    if wrong:
        parser.error(f"--fold takes numbers from 0 to --folds - 1, got {wrong[0]} with --folds {args.folds}.")
    return args, parser


def planned(args: argparse.Namespace, params: dict[str, Any]) -> list[list[Task]]:
    """The tasks asked for, those of a method on a set together."""
    numbers = (args.fold or range(args.folds)) if args.folds else [0]
    return [
        [
            Task(data, method, args.preset if method == "ci-gnn" else "", seed, args.folds, number, params)
            for seed in args.seeds
            for number in numbers
        ]
        for data in args.data
        for method in args.method
    ]


def work(groups: list[list[Task]], stack: bool, more: Callable[..., Iterator[dict]]) -> Iterator[dict]:
    """Rows of all tasks, group by group or one by one."""
    for tasks in groups:
        for some in [tasks] if stack else [[task] for task in tasks]:
            if some:
                yield from more(some)


def main() -> None:
    """Run what is missing and print the tables of all finished runs."""
    args, parser = _arguments()
    params = read_settings(args.set, "--set", parser)
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {key(row) for row in rows}
    try:  # before the first training
        device = str(resolve_device(args.device))
        groups = [[one for one in tasks if key(one.row()) not in done] for tasks in planned(args, params)]
        for first in (tasks[0] for tasks in groups if tasks):
            first.estimator(device)
            first.parts(load_set(first.data))
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    for row in work(groups, args.stack, lambda some: run(some, device, args.max_test, args.label)):
        rows.append(row)
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps({name: row[name] for name in row if name != "masks"}), flush=True)
    n_failed = sum(map(len, groups)) - len({key(row) for row in rows} - done)
    if rows:
        print(tables(rows + (chosen(rows) if args.choose else [])))
        if args.csv is not None:
            single_values(rows).to_csv(args.csv, index=False)
    if n_failed:
        sys.exit(f"{n_failed} runs failed.")


if __name__ == "__main__":
    main()
