"""A process that saves models is killed at random moments; see `campaigns.kills` for more of it."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from campaigns import kills

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("kind", kills.PLACES)
def test_a_whole_model_is_at_the_path_whenever_a_save_is_killed(kind: str) -> None:
    try:
        outcome = kills.run(kind, kills=12, seed=0)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"nothing can be mounted here ({error.stderr.decode().strip()})")
    assert set(outcome) <= {"first", "second"} and outcome.total() == 12


def test_who_reads_while_another_saves_gets_a_whole_model(tmp_path: Path) -> None:
    pair = kills.models()
    chances = [model.predict_proba(kills.COHORT) for model in pair]
    pair[0].save(tmp_path / "model")
    stop = threading.Event()

    def save() -> None:
        while not stop.is_set():
            for model in pair:
                model.save(tmp_path / "model")

    thread = threading.Thread(target=save)
    thread.start()
    try:
        for _ in range(20):
            seen = kills.load_model(tmp_path / "model").predict_proba(kills.COHORT)
            assert any(np.array_equal(seen, one) for one in chances)
    finally:
        stop.set()
        thread.join()
