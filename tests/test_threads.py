"""Threads of one process share torch's generators and the networks: neither may change a number."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from cignn import CIGNNClassifier, GraphSet, load_model
from cignn._random import torch_seed
from cignn.estimators import make_estimator
from cignn.explainers import make_explainer
from examples import tiny

QUICK: dict[str, dict[str, Any]] = {
    "gin": {"hidden": (8, 8), "head_hidden": (8,)},
    "sib": {"hidden": (8, 8), "head_hidden": (8,)},
    "dir": {"hidden": (8, 8), "head_hidden": (8,), "scorer_hidden": (8,)},
}
EXPLAINERS: dict[str, dict[str, Any]] = {
    "gnn-explainer": {"steps": 5},
    "pg-explainer": {"epochs": 4},
    "rc-explainer": {"epochs": 2, "max_edges": 4},
    "orphicx": {"epochs": 4, "hidden": (8,)},
}


def together(works: list[Callable[[], np.ndarray]]) -> list[np.ndarray]:
    """Do each work in a thread of its own, all starting at the same moment."""
    gate = threading.Barrier(len(works))

    def start(work: Callable[[], np.ndarray]) -> np.ndarray:
        gate.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(start, works))


def test_fits_in_threads_give_the_numbers_of_the_same_fits_alone(graphs: GraphSet) -> None:
    def fit(name: str, seed: int) -> Callable[[], np.ndarray]:
        own = {"random_state": seed, "device": "cpu", "epochs": 3}
        make = (
            (lambda: tiny(**own))
            if name == "ci-gnn"
            else (lambda: make_estimator(name, **QUICK[name], **own))
        )
        return lambda: make().fit(graphs).predict_proba(graphs)

    works = [fit(name, seed) for name in ("ci-gnn", "gin", "sib", "dir") for seed in (0, 1)]
    alone = [work() for work in works]
    state = torch.get_rng_state()
    for found, expected in zip(together(works), alone, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_explainers_in_threads_explain_one_network_as_they_do_alone(graphs: GraphSet) -> None:
    model = make_estimator("gin", epochs=2, random_state=0, device="cpu", **QUICK["gin"]).fit(graphs)

    def explain(name: str, seed: int) -> Callable[[], np.ndarray]:
        def work() -> np.ndarray:
            explainer = make_explainer(name, random_state=seed, **EXPLAINERS[name]).fit(model, graphs)
            return np.concatenate(explainer.explain(graphs[:20]).edge_weights)

        return work

    works = [explain(name, seed) for name in EXPLAINERS for seed in (0, 1)]
    alone = [work() for work in works]
    for found, expected in zip(together(works), alone, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert all(parameter.requires_grad for parameter in model.network_.parameters())


def test_a_model_loaded_beside_a_training_does_not_disturb_it(
    graphs: GraphSet, fitted: CIGNNClassifier, tmp_path: Any
) -> None:
    fitted.save(tmp_path / "model")
    alone = tiny(epochs=5).fit(graphs).predict_proba(graphs)

    def load() -> np.ndarray:
        return np.stack([load_model(tmp_path / "model").predict_proba(graphs) for _ in range(5)])

    found, loaded = together([lambda: tiny(epochs=5).fit(graphs).predict_proba(graphs), load])
    np.testing.assert_array_equal(found, alone)
    assert (loaded == fitted.predict_proba(graphs)).all()


def test_a_seed_may_be_set_inside_another() -> None:
    with torch_seed(0):
        first = torch.rand(2)
        with torch_seed(1):
            inside = torch.rand(2)
        second = torch.rand(2)
    with torch_seed(0):
        assert torch.equal(torch.rand(2), first) and torch.equal(torch.rand(2), second)
    with torch_seed(1):
        assert torch.equal(torch.rand(2), inside)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_a_thread_it_does_not_have() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with torch_seed(0):
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=_seed)
    child.start()
    child.join(30)
    ended = child.exitcode == 0
    child.kill()
    done.set()
    thread.join()
    assert ended


def _seed() -> None:
    with torch_seed(0):
        torch.rand(1)
