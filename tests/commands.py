"""Commands run as a user runs them, and small studies on disk for them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cignn.datasets import Cohort, make_cohort

SCRIPT = Path(sys.executable).parent / "cignn"
ALL = (
    "demo",
    "fit",
    "predict",
    "explain",
    "group",
    "evaluate",
    "audit",
    "reproduce",
    "report",
    "validate",
    "info",
)


class Result:
    """Exit code and what was written, without colours and frames."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.words = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", out + err).split())


def command(*arguments: str, cwd: Path | None = None, program: Sequence[str | Path] = (SCRIPT,)) -> Result:
    """Run the installed command, or another program."""
    done = subprocess.run([*program, *arguments], capture_output=True, text=True, cwd=cwd, timeout=900)
    return Result(done.returncode, done.stdout, done.stderr)


def _hear_signals() -> None:
    """Undo what the tests may run under: in the background or by nohup, children ignore some signals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ends in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, signal.SIG_DFL)


def interrupted(
    *line: str | Path, cwd: Path, when: Callable[[], bool], sent: signal.Signals = signal.SIGINT
) -> Result:
    """Run a program and press Ctrl-C, or send another signal, when something has happened."""
    process = subprocess.Popen(
        line,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_signals,
    )
    try:
        for _ in range(4000):
            if when() or process.poll() is not None:
                break
            time.sleep(0.05)
        process.send_signal(sent)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return Result(process.returncode, out, err)


def write_study(folder: Path, cohort: Cohort, labels: bool = True) -> Path:
    """Write a cohort as people keep theirs: a table, one file per subject and the regions."""
    (folder / "series").mkdir(parents=True)
    table = pd.DataFrame({"participant_id": cohort.subjects, "site": cohort.sites})
    table = table.join(cohort.covariates[["age", "sex", "mean_fd"]])
    if labels:
        table["label"] = np.where(cohort.y == 1, "patient", "control")
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    for subject, series in zip(cohort.subjects, cohort.series, strict=True):
        np.save(folder / "series" / f"{subject}.npy", series)
    if labels:
        assert cohort.atlas is not None
        regions = {"name": [f"region {i}" for i in range(cohort.n_rois)], "system": cohort.atlas.systems}
        pd.DataFrame(regions).to_csv(folder / "regions.csv", index=False)
    return folder


def write_studies(folder: Path) -> None:
    """my_study, 36 labelled subjects of 20 regions, other_study, and new_subjects, four without labels."""
    cohort = make_cohort(40, 20, n_edges=6, effect=0.8, lengths=(50, 60), random_state=0)
    write_study(folder / "my_study", cohort[:36])
    write_study(folder / "new_subjects", cohort[36:], labels=False)
    elsewhere = make_cohort(30, 20, n_edges=6, effect=0.8, lengths=(50, 60), random_state=1)
    write_study(folder / "other_study", elsewhere)
