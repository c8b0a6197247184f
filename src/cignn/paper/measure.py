"""Our side of a table: one function for each way to measure, each giving one line per figure."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

from cignn._arrays import digest
from cignn._files import write_text
from cignn.connectome import Connectivity, make_connectome_pipeline
from cignn.datasets import Cohort
from cignn.estimators import make_estimator
from cignn.evaluation import evaluate
from cignn.evaluation.methods import plain
from cignn.evaluation.runner import TaskFailedWarning
from cignn.evaluation.statistics import nemenyi_test
from cignn.evaluation.store import Store, versions
from cignn.paper.data import make_method, make_row_explainer, settings
from cignn.paper.spec import Spec, load_spec

OURS = ["data", "row", "metric", "value", "std", "runs"]
PAPER_DENSITY = 0.1
LAST = 5  # epochs over which HSIC is averaged


class Origin(NamedTuple):
    """Tasks that were run with the same packages: how many, when and with which versions."""

    tasks: int
    days: str
    versions: dict[str, str]


@dataclass
class Run:
    """How a spec is run, and what failed on the way."""

    scale: str
    store: Path
    seeds: Sequence[int]
    n_jobs: int = 1
    scheduler: str | None = None
    verbose: int = 1
    stack: int | str = "auto"
    failures: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)  # of the tasks the figures come from

    def evaluate(self, methods: Mapping[str, Any], data: Mapping[str, Any], **more: Any) -> pd.DataFrame:
        """`evaluate` with this run's store, seeds and processes; failed tasks are noted, the rest stays."""
        how: dict[str, Any] = {"protocol": "holdout", "n_jobs": self.n_jobs, "scheduler": self.scheduler}
        how |= {"stack": self.stack, "verbose": self.verbose} | more
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TaskFailedWarning)
            found = evaluate(dict(methods), dict(data), seeds=self.seeds, store=self.store, **how)
        self.keys |= set(found["key"])
        failed = found[found["metric"] == "error"]
        for (method, where, explainer), part in failed.groupby(["method", "data", "explainer"]):
            who = f"{method} ({explainer})" if explainer else method
            self.failures.append(f"{who} on {where}: {part['error'].iloc[0]} ({len(part)} of its tasks)")
        return found[found["metric"] != "error"]

    def origins(self) -> list[Origin]:
        """Return where the figures come from, most tasks first; without tasks, from here and today."""
        if not self.keys:
            return [Origin(0, date.today().isoformat(), versions())]
        with Store(self.store) as store:
            tasks = store.tasks()
        tasks = tasks[tasks["key"].isin(self.keys)]
        parts = tasks.groupby(tasks["versions"].map(lambda found: json.dumps(found, sort_keys=True)))
        found = [
            Origin(len(part), " to ".join(dict.fromkeys(_days(part["finished"]))), part["versions"].iloc[0])
            for _, part in parts
        ]
        return sorted(found, key=lambda origin: -origin.tasks)


def _days(finished: pd.Series) -> tuple[str, str]:
    """The first and the last day."""
    return finished.min()[:10], finished.max()[:10]


def measure(spec: Spec, sets: Mapping[str, Any], run: Run) -> pd.DataFrame:
    """Return our figures for the data sets that are there: data, row, metric, value, std, runs."""
    lines = MEASURES[spec.measure](spec, sets, run) if sets else []
    return pd.DataFrame(lines, columns=OURS)


# ------------------------------------------------------------------ what the data are


def _statistics(spec: Spec, sets: Mapping[str, Any], run: Run) -> list[tuple]:
    lines = []
    for name, one in sets.items():
        graphs, brain = one, isinstance(one, Cohort)
        if brain:
            measured = Connectivity(constant_rois="zero")
            steps = make_connectome_pipeline(connectivity=measured, density=PAPER_DENSITY)
            graphs = steps.fit_transform(one)
        figures = {
            "edges": graphs.n_edges.mean() * (2 if brain else 1),
            "nodes": graphs.n_nodes.mean(),
            "graphs": len(graphs),
            "classes": len(np.unique(graphs.y)),
        }
        lines += [(name, "", metric, float(value), np.nan, 1) for metric, value in figures.items()]
    return lines


def _demographics(spec: Spec, sets: Mapping[str, Any], run: Run) -> list[tuple]:
    lines = []
    for name, cohort in sets.items():
        labels = np.unique(cohort.y)
        for label, named in zip(labels, spec.class_names.get(name, labels), strict=True):
            table = cohort.covariates[cohort.y == label]
            lines.append((name, str(named), "subjects", float(len(table)), np.nan, 1))
            if "age" in table:
                age = pd.to_numeric(table["age"], errors="coerce")
                lines.append((name, str(named), "age", float(age.mean()), float(age.std()), 1))
            if "sex" in table:
                for metric, letter in (("male", "M"), ("female", "F")):
                    count = float((table["sex"] == letter).sum())
                    lines.append((name, str(named), metric, count, np.nan, 1))
    return lines


# ---------------------------------------------------------------------- what is evaluated


def _classification(spec: Spec, sets: Mapping[str, Any], run: Run) -> list[tuple]:
    found = _classified(spec, sets, run)
    return _summary(found[found["metric"].isin([*spec.metrics, *spec.extra_metrics])], "method")


def _classified(spec: Spec, sets: Mapping[str, Any], run: Run, **more: Any) -> pd.DataFrame:
    """Results of every row on every data set, task by task."""
    parts = []
    for name, one in sets.items():
        rows = [method.for_data(name) for method in spec.methods]
        methods = {row.row: make_method(row, one, run.scale, spec.density) for row in rows}
        parts.append(run.evaluate(methods, {name: one}, **more))
    return pd.concat(parts, ignore_index=True)


def _explanation(spec: Spec, sets: Mapping[str, Any], run: Run) -> list[tuple]:
    wanted, lines = [*spec.metrics, *spec.extra_metrics], []
    for name, one in sets.items():
        by_base: dict[str, list] = {}
        for row in (method.for_data(name) for method in spec.methods):
            by_base.setdefault(json.dumps([row.estimator, row.params], sort_keys=True), []).append(row)
        for rows in by_base.values():  # a classifier is trained once for all that explain it
            base = {rows[0].estimator: make_method(rows[0], one, run.scale, spec.density)}
            explainers = {row.row: make_row_explainer(row, run.scale) for row in rows}
            found = run.evaluate(base, {name: one}, explainers=explainers)
            found = found[found["metric"].isin(wanted)]
            lines += _summary(found[found["explainer"] != ""], "explainer")
            own = found[found["explainer"] == ""]  # of the classifier, in every row that explains it
            lines += [line for row in rows for line in _summary(own.assign(explainer=row.row), "explainer")]
    return lines


def _loso(spec: Spec, sets: Mapping[str, Any], run: Run) -> list[tuple]:
    lines = []
    for name, cohort in sets.items():
        sites = np.unique(cohort.sites)
        labels = np.unique(cohort.y)
        for column, label in (("controls", labels[0]), ("patients", labels[-1])):
            counts = [float(((cohort.sites == site) & (cohort.y == label)).sum()) for site in sites]
            pairs = [*zip(map(str, sites), counts, strict=True), ("Mean", float(np.mean(counts)))]
            lines += [(name, site, column, count, np.nan, 1) for site, count in pairs]
        found = _classified(spec, {name: cohort}, run, protocol="loso")
        found = found[found["metric"] == spec.metrics[0]]
        for (method, site), part in found.groupby(["method", "split"], sort=False):
            lines.append((name, str(site), str(method), *_mean_std(part["value"])))
        for method, part in found.groupby("method", sort=False):
            over_sites = part.groupby("seed")["value"].mean()  # a site counts as a site, as in the paper
            lines.append((name, "Mean", str(method), *_mean_std(over_sites)))
    return lines


def _ranks(spec: Spec, sets: Mapping[str, Any], run: Run) -> list[tuple]:
    wanted, parts = [method.row for method in spec.methods], []
    for name in spec.of:
        other = load_spec(name)
        there = {key: one for key, one in sets.items() if key in other.data}
        chosen = tuple(method for method in other.methods if method.row in wanted)
        if there:
            parts.append(_classified(replace(other, methods=chosen), there, run))
    found = pd.concat(parts, ignore_index=True)
    found = found[found["metric"].isin(spec.metrics)]
    blocks = found.pivot_table(index=["data", "metric", "split", "seed"], columns="method", values="value")
    blocks = blocks.dropna(axis=1, how="any")  # a method that failed somewhere cannot be ranked
    ranks = blocks.rank(axis=1, ascending=False)
    by_data = ranks.groupby("data").mean()
    lines = [
        (
            str(name),
            str(method),
            "rank",
            float(value),
            np.nan,
            int((ranks.index.get_level_values(0) == name).sum()),
        )
        for name, row in by_data.iterrows()
        for method, value in row.items()
    ]
    mean = by_data.mean()
    lines += [
        ("mean", str(method), "rank", float(value), np.nan, len(by_data)) for method, value in mean.items()
    ]
    if "CI-GNN" in mean and len(by_data) > 1:
        # data sets are the blocks: metrics and runs of one are not independent of each other
        p_values = nemenyi_test(by_data, higher_is_better=False).p_values["CI-GNN"].drop("CI-GNN")
        lines += [
            ("Nemenyi", str(method), "p against CI-GNN", float(p), np.nan, len(by_data))
            for method, p in p_values.items()
        ]
    return lines


# ------------------------------------------------------------------------ HSIC over epochs


def _independence(spec: Spec, sets: Mapping[str, Any], run: Run) -> list[tuple]:
    """HSIC(α, β) in stage I: curves of training are no scores of a test part and are kept beside these."""
    marks = [int(metric) for metric in spec.metrics]
    epochs = marks if run.scale == "full" else [1 + i for i in range(len(marks))]
    lines = []
    for name, graphs in sets.items():
        for method in spec.methods:
            stage = {"generative_epochs": epochs[-1], "epochs": epochs[-1] + 1}
            model = make_estimator(method.estimator, **settings(method, run.scale) | stage)
            values = np.array([_kept(run, _hsic, model, graphs, seed, epochs) for seed in run.seeds])
            for metric, column in zip(spec.metrics, values.T, strict=True):
                lines.append((name, method.row, metric, *_mean_std(column)))
    return lines


def _hsic(estimator: Any, graphs: Any, seed: int, epochs: list[int]) -> list[float]:
    model = clone(estimator).set_params(random_state=seed).fit(graphs)
    if getattr(model, "interrupted_", False):
        raise KeyboardInterrupt
    history = model.history_.drop_duplicates("epoch").set_index("epoch")["hsic"]
    return [
        float(history.loc[max(1, e - LAST + 1) : e].mean() if e > LAST else history.loc[e]) for e in epochs
    ]


def _kept(run: Run, work: Callable[..., list[float]], *args: Any) -> list[float]:
    """Return what ``work`` gives, from disk where it was done before."""
    identity = [arg.digest() if hasattr(arg, "digest") else plain(arg) for arg in args]
    file = run.store / "curves" / f"{digest(work.__name__, identity, versions()['cignn'], length=32)}.json"
    if file.exists():
        return json.loads(file.read_text())
    value = work(*args)
    write_text(file, json.dumps(value))
    return value


# ------------------------------------------------------------------------------- helpers


def _summary(found: pd.DataFrame, by: str) -> list[tuple]:
    """Mean and standard deviation over splits and seeds."""
    groups = found.groupby(["data", by, "metric"], sort=False)["value"]
    return [(*map(str, key), *_mean_std(values)) for key, values in groups]


def _mean_std(values: Any) -> tuple[float, float, int]:
    numbers = np.asarray(values, float)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return np.nan, np.nan, 0
    return float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else np.nan, len(numbers)


MEASURES: dict[str, Callable[[Spec, Mapping[str, Any], Run], list[tuple]]] = {
    "statistics": _statistics,
    "demographics": _demographics,
    "classification": _classification,
    "explanation": _explanation,
    "independence": _independence,
    "loso": _loso,
    "ranks": _ranks,
}
