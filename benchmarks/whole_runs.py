"""Whole runs of the default on ABIDE: a ``fit``, and cross-validation with shuffled labels beside.

Without ABIDE's folder in ``CIGNN_DATA`` the subjects are made up, and only times mean something.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.cohorts import DATA, abide
from benchmarks.timing import Quartiles, Row, seconds
from cignn import Cohort
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.evaluation import KFold, evaluate

MOST_SECONDS = {"cpu": {"fit": 150.0}, "cuda": {"fit": 6.0, "loso": 60.0, "kfold": 60.0}}


def subjects(quick: bool) -> tuple[str, Cohort]:
    """ABIDE's matrices with their sites, or made-up ones."""
    if (DATA / "abide").is_dir() and not quick:
        return "ABIDE", abide("correlation")
    n = 60 if quick else 1102
    return "made-up subjects", make_cohort(n, 20 if quick else 116, data="matrices", random_state=0)


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Time a ``fit``, leave-one-site-out, and 5 folds of 3 seeds; on the CPU only 5 folds of one seed."""
    name, cohort = subjects(quick)
    params: dict[str, Any] = {"device": str(device)} | ({"epochs": 2} if quick else {})
    graphs = ConnectomeGraphs().fit_transform(cohort)
    model = make_estimator("ci-gnn", random_state=0, **params)
    model.fit(graphs)  # the first sets libraries up
    rows = [_row(f"fit of the default, {name}", "fit", seconds(lambda: model.fit(graphs), device), device)]
    protocols: dict[str, tuple[Any, int]] = {"loso": ("loso", 1), "kfold": (KFold(5), 3)}
    if device.type == "cpu":
        protocols = {"kfold": (KFold(2 if quick else 5), 1)}
    shuffled = cohort.with_y(np.random.default_rng(0).permutation(np.asarray(cohort.y)))
    for key, (protocol, seeds) in protocols.items():
        notes = {}
        for labels, data in (("labels", cohort), ("shuffled labels", shuffled)):
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = evaluate(
                    {"ci-gnn": params}, data, protocol, seeds, verbose=0, threads=torch.get_num_threads()
                )
            if labels == "labels":
                spent = time.perf_counter() - started
            notes[f"AUC, {labels}"] = _auc(results)
        rows.append(_row(f"evaluate, {key}, {seeds} seeds, {name}", key, spent, device, notes))
    return rows


def _auc(results: pd.DataFrame) -> str:
    """Mean over splits, and the mean of each seed."""
    auc = results[results["metric"] == "roc_auc"]
    by_seed = ", ".join(f"{value:.3f}" for value in auc.groupby("seed")["value"].mean())
    return f"{auc['value'].mean():.4f} ({by_seed})"


def _row(what: str, key: str, spent: float, device: torch.device, notes: dict[str, str] | None = None) -> Row:
    most = MOST_SECONDS[device.type].get(key)
    figure = Quartiles.of(np.array([spent]))
    target = {} if most is None else {"target": f"<= {most:g}", "met": spent <= most}
    return Row(what, {}, figure, kind="seconds", notes=notes or {}, **target)  # type: ignore[arg-type]
