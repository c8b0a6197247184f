"""What training costs as cohorts grow: time, memory, and a cohort larger than memory.

Every fit runs in a process of its own, so that its peak memory is its own. Matrices lie in a folder of
arrays; "in memory" reads them before the fit, "on disk" leaves them there.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.timing import Quartiles, Row
from cignn import CIGNNClassifier, Cohort, GraphSet, load_cohort
from cignn.connectome import ConnectomeGraphs

SUBJECTS, USUAL_ROIS = (250, 1000, 5000, 20_000), 116
ROIS, USUAL_SUBJECTS = (50, 100, 200, 400), 1000
LARGEST = (40_000, 200)
QUICK_SUBJECTS, QUICK_ROIS, QUICK_LARGEST = (64, 128, 256), (20, 40, 80), (512, 40)
MOST_MEMORY = 4.0  # GiB of the process that trains on the largest cohort
POINTS, SOURCES = 100, 10  # time points of made-up series, and what they share
CHUNK = 2**23  # values made at once


class Size(NamedTuple):
    """A cohort to measure."""

    subjects: int
    rois: int

    def __str__(self) -> str:
        return f"{self.subjects} × {self.rois}"

    @property
    def gib(self) -> float:
        """Size of the matrices."""
        return 4 * self.subjects * self.rois**2 / 2**30


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Fit one network for one epoch on cohorts of all sizes."""
    subjects = [Size(n, 20 if quick else USUAL_ROIS) for n in (QUICK_SUBJECTS if quick else SUBJECTS)]
    rois = [Size(64 if quick else USUAL_SUBJECTS, r) for r in (QUICK_ROIS if quick else ROIS)]
    largest = Size(*(QUICK_LARGEST if quick else LARGEST))
    rows = [
        *_growth("subjects", subjects, device),
        *_growth("rois", rois, device),
    ]
    return rows + _larger_than_memory(largest, device)


def _growth(what: str, sizes: list[Size], device: torch.device) -> list[Row]:
    """Time and memory along one side; memory as a multiple of the matrices, by the two largest cohorts."""
    found: dict[str, list[dict[str, Any]]] = {"in memory": [], "on disk": []}
    for size in sizes:
        with made_up(size) as folder:
            for where, rows in found.items():
                rows.append(measured(folder, where == "on disk", device))
    along = np.array([getattr(size, what) for size in sizes])
    fixed = f"{sizes[0].rois} ROIs" if what == "subjects" else f"{sizes[0].subjects} subjects"
    word = "subjects" if what == "subjects" else "ROIs"
    out = []
    for where, rows in found.items():
        steps = np.array([row["seconds"] / row["steps"] for row in rows])
        cost = np.array([row["seconds"] for row in rows])
        exponent = np.polyfit(np.log(along), np.log(cost), 1)[0]
        memory = np.array([row["grown"] for row in rows])
        notes = {
            str(size): f"{row['seconds']:.2f} s an epoch, {1e3 * step:.0f} ms a step, {row['grown']:.2f} GiB "
            f"beyond imports for {size.gib:.2f} GiB of matrices"
            for size, row, step in zip(sizes, rows, steps, strict=True)
        }
        title = f"epoch of {along[0]} to {along[-1]} {word}, {fixed}, {where}"
        out.append(
            Row(f"{title}: time ~ {word} ** exponent", {}, _one(exponent), kind="exponent", notes=notes)
        )
        slope = (memory[-1] - memory[0]) / (sizes[-1].gib - sizes[0].gib)
        out.append(Row(f"{title}: growth of memory / growth of matrices", {}, _one(slope)))
    return out


def _larger_than_memory(size: Size, device: torch.device) -> list[Row]:
    """One epoch on a cohort that stays on disk, and what a whole training would take."""
    room = shutil.disk_usage(tempfile.gettempdir()).free / 2**30
    if room < 1.2 * size.gib:
        print(f"{size}: {1.2 * size.gib:.1f} GiB of disk needed, {room:.1f} GiB free; set TMPDIR", flush=True)
        return []
    with made_up(size) as folder:
        row = measured(folder, True, device)
    step = row["seconds"] / row["steps"]
    networks, epochs = row["n_estimators"], row["epochs"]
    hours = row["seconds"] * epochs * networks / 3600
    notes = {
        "load and check": f"{row['load']:.0f} s",
        "graphs": f"{row['graphs']:.0f} s",
        "fit": f"{row['fit']:.0f} s, of which the epoch of {row['steps']} steps {row['seconds']:.0f} s",
        "step": f"{1e3 * step:.0f} ms",
        "beyond imports": f"{row['grown']:.2f} GiB for {size.gib:.2f} GiB of matrices",
        "whole training": f"at most {hours:.1f} h ({networks} networks × {epochs} epochs)",
    }
    met = row["peak"] <= MOST_MEMORY
    what = f"peak memory of an epoch on {size} matrices on disk"
    return [Row(what, {}, _one(row["peak"]), f"<= {MOST_MEMORY:g}", met, kind="GiB", notes=notes)]


def _one(value: float) -> Quartiles:
    return Quartiles.of(np.array([value]))


# --------------------------------------------------------------------- data and processes


@contextmanager
def made_up(size: Size) -> Iterator[Path]:
    """Write correlations of made-up series and random labels to a folder, which goes afterwards."""
    rng = np.random.default_rng(0)
    n, r = size
    with tempfile.TemporaryDirectory(prefix="cignn-size-") as name:
        folder = Path(name)
        np.save(folder / "label.npy", rng.permutation(np.arange(n) % 2))
        matrices = np.lib.format.open_memmap(folder / "matrices.npy", "w+", np.float32, (n, r, r))
        sources = rng.normal(size=(SOURCES, r)).astype(np.float32) / 2
        step = max(1, CHUNK // r**2)
        for start in range(0, n, step):
            k = min(step, n - start)
            series = rng.standard_normal((k, POINTS, r), np.float32)
            series += rng.standard_normal((k, POINTS, SOURCES), np.float32) @ sources
            series -= series.mean(1, keepdims=True)
            series /= np.linalg.norm(series, axis=1, keepdims=True)
            block = series.swapaxes(1, 2) @ series
            matrices[start : start + k] = (block + block.swapaxes(1, 2)) / 2
            matrices.flush()
        del matrices
        yield folder


def measured(folder: Path, mapped: bool, device: torch.device) -> dict[str, Any]:
    """Fit in a process of its own; returns what `_fit` prints."""
    arguments = [str(folder), str(int(mapped)), str(device), str(torch.get_num_threads())]
    line = [sys.executable, "-m", "benchmarks.size", *arguments]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _fit(folder: Path, mapped: bool, device: str) -> dict[str, Any]:
    """Load the cohort, make graphs and fit for one epoch; times in seconds, memory in GiB."""
    before, started = _peak(), time.perf_counter()
    if mapped:
        cohort = load_cohort(folder)
    else:
        cohort = Cohort(matrices=np.load(folder / "matrices.npy"), y=np.load(folder / "label.npy"))
    loaded = time.perf_counter()
    graphs = ConnectomeGraphs().fit_transform(cohort)
    ready = time.perf_counter()
    few = graphs[:32]  # validation graphs: the same few at every size
    model = CIGNNClassifier(epochs=1, n_estimators=1, device=device, random_state=0).fit(graphs, eval_set=few)
    settings = model.settings_
    return {
        "load": loaded - started,
        "graphs": ready - loaded,
        "fit": time.perf_counter() - ready,
        "seconds": float(model.history_["seconds"].sum()),
        "steps": -(-len(graphs) // settings["batch_size"]),
        "peak": _peak(),
        "grown": _peak() - before,
        **_defaults(graphs),
    }


def _defaults(graphs: GraphSet) -> dict[str, int]:
    """Return epochs and networks of a training by default."""
    settings = CIGNNClassifier()._settings(graphs)
    return {name: int(settings[name]) for name in ("epochs", "n_estimators")}


def _peak() -> float:
    """Return the peak memory of this process in GiB.

    Linux counts in getrusage what the parent had in use when it started this process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 2**20
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**30 if sys.platform == "darwin" else 2**20)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[4]))
    print(json.dumps(_fit(Path(sys.argv[1]), bool(int(sys.argv[2])), sys.argv[3])))
