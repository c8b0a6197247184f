"""Kill a process that saves models, again and again: what is at the path must be a whole model every time.

`python -m campaigns.kills` does it at 300 random moments: in a plain folder, in one that is a mount point and
through a link. A mount needs the rights for it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cignn import CohortClassifier, load_model
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator

PLACES = ("plain", "mounted", "link")
COHORT = make_cohort(24, 6, n_edges=3, lengths=(30, 30), random_state=0)


def models() -> list[CohortClassifier]:
    """Two models that differ in every file, one of them with a file more."""
    gin = make_estimator("gin", random_state=0, epochs=1, hidden=(8,), head_hidden=(8,))
    return [CohortClassifier.make(one).fit(COHORT) for one in (gin, make_estimator("lasso", random_state=0))]


def kill(path: Path, pair: list[CohortClassifier], moment: float) -> None:
    """Save two models by turns in a process of its own and kill it after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            for turn in range(10**6):
                pair[turn % 2].save(path, {"settings.toml": f"turn = {turn % 2}\n"})
        finally:
            os._exit(1)  # no cleaning up of what belongs to the parent
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError("saving failed before it was killed")


def found_at(path: Path, chances: list[np.ndarray]) -> str:
    """Which model is at the path: "first", "second" or what is wrong with it."""
    try:
        seen = load_model(path).predict_proba(COHORT)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    which = [
        name for name, one in zip(("first", "second"), chances, strict=True) if np.array_equal(one, seen)
    ]
    turn = (path / "settings.toml").read_text()
    if not which:
        return "a model that was never saved"
    return which[0] if turn == f"turn = {int(which[0] == 'second')}\n" else "settings of the other model"


@contextmanager
def place_for(kind: str, folder: Path) -> Iterator[Path]:
    """Yield a path of that kind for a model."""
    path = folder / "model"
    if kind == "link":
        (folder / "there").mkdir()
        path.symlink_to(folder / "there")
    if kind != "mounted":
        yield path
        return
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(path)], check=True, capture_output=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=False, capture_output=True)


def run(kind: str, kills: int, seed: int) -> Counter[str]:
    """Kill a saving process so many times; returns how often what was found."""
    draw, outcome, pair = random.Random(seed), Counter[str](), models()
    chances = [one.predict_proba(COHORT) for one in pair]
    with tempfile.TemporaryDirectory() as folder, place_for(kind, Path(folder)) as path:
        started = time.perf_counter()
        for turn in (1, 0):
            pair[turn].save(path, {"settings.toml": f"turn = {turn}\n"})
        both = time.perf_counter() - started
        for _ in range(kills):
            kill(path, pair, draw.uniform(0, 3 * both))
            outcome[found_at(path, chances)] += 1
    return outcome


def main(arguments: Any = None) -> int:
    """Run the campaign; 1 where anything but a whole model was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="in all places together")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--places", default=",".join(PLACES))
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}")
    places, bad = given.places.split(","), 0
    for kind in places:
        try:
            outcome = run(kind, -(-given.kills // len(places)), given.seed)
        except subprocess.CalledProcessError as error:
            print(f"{kind}: not tried, nothing can be mounted here ({error.stderr.decode().strip()})")
            continue
        print(f"{kind}: {outcome.total()} kills; " + ", ".join(f"{what} {n}" for what, n in outcome.items()))
        bad += outcome.total() - outcome["first"] - outcome["second"]
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
