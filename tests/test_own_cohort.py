"""The page "use your own cohort", from files to named connections, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cignn.datasets import make_cohort

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cohorts.md"


def write_study(folder: Path) -> None:
    """A study on disk: 60 subjects of two sites, 24 regions in three systems."""
    cohort = make_cohort(60, n_rois=24, n_edges=6, effect=0.6, n_sites=2, lengths=(60, 90), random_state=0)
    (folder / "series").mkdir(parents=True)
    table = cohort.covariates.assign(
        participant_id=cohort.subjects, label=np.where(cohort.y == 1, "patient", "control"), site=cohort.sites
    )
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    for subject, series in zip(cohort.subjects, cohort.series, strict=True):
        np.savetxt(folder / "series" / f"{subject}.tsv", series, delimiter="\t", fmt="%.5f")
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(0, 30, (24, 3)), columns=["x", "y", "z"]).assign(
        name=[f"region {i}" for i in range(24)], system=["DMN", "VIS", "SMN"] * 8
    ).to_csv(folder / "regions.csv", index=False)


def test_the_page_runs_from_files_to_named_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    write_study(tmp_path / "my_study")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    ex = names["ex"]
    told = pd.read_csv("connections.csv")
    assert len(told) == 50 and told["source"].str.startswith("region").all()
    assert set(told["source_system"]) <= {"DMN", "VIS", "SMN"} and set(told["sign"]) <= {"+", "−"}
    assert ex.by_system().shape == (3, 3)  # type: ignore[attr-defined]
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert "accuracy" in capsys.readouterr().out
