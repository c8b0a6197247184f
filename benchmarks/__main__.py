"""Measure how fast cignn is and print the ratios: ``python -m benchmarks [--quick] [--device cuda]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch

from benchmarks import (
    classifiers,
    connectome,
    explainers,
    explaining,
    fitting,
    information,
    runner,
    scaling,
    size,
    training_step,
    whole_runs,
)
from benchmarks.timing import Quartiles, Row
from cignn.estimators.training import resolve_device

BENCHMARKS = {
    "training_step": training_step.measure,
    "classifiers": classifiers.measure,
    "explaining": explaining.measure,
    "explainers": explainers.measure,
    "information": information.measure,
    "scaling": scaling.measure,
    "connectome": connectome.measure,
    "fitting": fitting.measure,
    "runner": runner.measure,
    "size": size.measure,
    "whole_runs": whole_runs.measure,
}


def main() -> None:
    """Parse the command line, measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--quick", action="store_true", help="few repeats: does it run, roughly how fast")
    parser.add_argument("--only", choices=BENCHMARKS, help="one benchmark instead of all")
    parser.add_argument("--threads", type=int, help="of torch on the CPU; by default torch's own choice")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    device = resolve_device(arguments.device)
    torch.manual_seed(0)

    where = environment(device)
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    if where["load"] > 0.5:
        print("the machine is or was busy: trust ratios only, and while others compute those of --threads 1")
    print("medians of works timed in turn, [quartiles]\n")
    rows: dict[str, list[Row]] = {}
    for name, measure in BENCHMARKS.items():
        if arguments.only in (None, name):
            rows[name] = measure(device, arguments.quick)
            for row in rows[name]:
                print(as_text(row), flush=True)
    if arguments.json is not None:
        results = {name: [row.as_dict() for row in measured] for name, measured in rows.items()}
        arguments.json.write_text(json.dumps({"environment": where, "results": results}, indent=2))


def environment(device: torch.device) -> dict[str, Any]:
    """Where the figures were measured; a load beyond the cores means they were disturbed."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    return {
        "device": f"{device.type} ({name})",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
    }


def as_text(row: Row) -> str:
    """Return a row as lines of text: what, the times, the ratio and its target."""
    width = max(len(name) for name in [row.kind, *row.times, *row.notes])
    lines = [row.what]
    lines += [f"  {name:<{width}}  {_milliseconds(time)}" for name, time in row.times.items()]
    lines += [f"  {name:<{width}}  {note}" for name, note in row.notes.items()]
    verdict = {None: "", True: ", met", False: ", missed"}[row.met]
    low, median, high = (f"{value:.3g}" for value in (row.figure.low, row.figure.median, row.figure.high))
    target = f"  (target {row.target}{verdict})" if row.target else ""
    return "\n".join([*lines, f"  {row.kind:<{width}}  {median:>10}  [{low}, {high}]{target}", ""])


def _milliseconds(time: Quartiles) -> str:
    low, median, high = (
        f"{1e3 * value:.{1 if value > 0.01 else 3}f}" for value in (time.low, time.median, time.high)
    )
    return f"{median:>7} ms  [{low}, {high}]"


if __name__ == "__main__":
    main()
