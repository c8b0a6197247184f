"""What the page of recipes promises, run: a machine without nilearn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from cignn.datasets import make_cohort

pytestmark = pytest.mark.slow

BLOCKED = """
import sys
for name in ("nilearn", "nibabel", "matplotlib", "rdkit", "torch_geometric"):
    sys.modules[name] = None  # as if it were not installed
from cignn.cli import main
main()
"""


def test_a_machine_without_nilearn_and_matplotlib_trains_evaluates_and_predicts(tmp_path: Path) -> None:
    make_cohort(36, 8, n_edges=4, effect=0.8, n_sites=2, lengths=(30, 40), random_state=0).save(
        tmp_path / "study.npz"
    )
    for line in (
        "evaluate study.npz --protocol kfold --folds 3 --methods lasso --out results --json",
        "fit study.npz --method lasso --results results --out model --json",
        "predict model study.npz --out predictions.csv --json",
    ):
        words = [sys.executable, "-c", BLOCKED, *line.split()]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 36
    assert "95 % interval" in (tmp_path / "model" / "MODEL_CARD.md").read_text()
