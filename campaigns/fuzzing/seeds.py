"""Valid samples of everything the package reads, as small as they can be."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.io import savemat

from campaigns.fuzzing.containers import to_npy, zipped
from campaigns.fuzzing.mutators import as_csv
from cignn import Cohort, GraphSet
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import make_ba2motifs
from cignn.estimators import make_estimator
from cignn.estimators.checkpoint import Checkpoint
from cignn.evaluation import evaluate

N, R = 6, 4  # subjects and regions
IDS = [f"sub-{i:03d}" for i in range(1, N + 1)]
LABELS = ["patient", "control"] * (N // 2)
SITES = ["A", "A", "B", "B", "A", "B"]
TINY: dict[str, Any] = {
    "encoder_hidden": (4, 4),
    "classifier_hidden": (4, 4),
    "head_hidden": (4,),
    "n_causal": 3,
    "n_noncausal": 2,
    "epochs": 2,
    "random_state": 0,
    "device": "cpu",
}
CHECKPOINT = "training.ckpt"


# ------------------------------------------------------------------------------- numbers


def series() -> list[np.ndarray]:
    """One (t, R) per subject, of different lengths."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(R, R)) + np.eye(R)
    return [np.round(rng.normal(size=(30 + i % 3, R)) @ mixing, 3).astype(np.float32) for i in range(N)]


def matrices() -> np.ndarray:
    """(N, R, R) correlations."""
    return np.stack([np.corrcoef(one.T) for one in series()]).astype(np.float32)


def cohort() -> Cohort:
    """The subjects, as the readers give them."""
    people = {"age": [20.0 + i for i in range(N)], "sex": ["M", "F"] * (N // 2)}
    return Cohort(series(), y=LABELS, sites=SITES, subjects=IDS, covariates=people)


def graphs() -> GraphSet:
    """Graphs to learn from and to predict."""
    return GraphSet.from_arrays(matrices(), y=np.array([0, 1] * (N // 2)))


# ------------------------------------------------------------------------------- cohorts


def participants(mark: str = "\t") -> bytes:
    """The table beside the files."""
    head = ["participant_id", "site", "age", "sex", "mean_fd", "label"]
    people = zip(IDS, SITES, range(20, 20 + N), "MFMFMF", LABELS, strict=True)
    return as_csv([head, *([i, site, age, sex, 0.1, label] for i, site, age, sex, label in people)], mark)


def regions() -> bytes:
    """A table of regions."""
    rows = [[f"region {i}", i, -i, 2 * i, "DMN" if i % 2 else "VN"] for i in range(R)]
    return as_csv([["name", "x", "y", "z", "system"], *rows])


def as_text(array: np.ndarray, mark: str = ",", header: bool = False) -> bytes:
    """A table of numbers, with names above where they are wanted."""
    names = [[f"region {i}" for i in range(array.shape[1])]] if header else []
    return as_csv([*names, *([f"{value:.4g}" for value in row] for row in array)], mark)


def as_mat(array: np.ndarray, name: str = "ROISignals") -> bytes:
    """A MATLAB file with one variable."""
    out = io.BytesIO()
    savemat(out, {name: array.astype(np.float64)})
    return b"MATLAB 5.0 MAT-file".ljust(116) + out.getvalue()[116:]


def as_npz(**arrays: Any) -> bytes:
    """An archive of arrays."""
    return zipped([(f"{name}.npy", to_npy(np.asarray(array))) for name, array in arrays.items()])


Writer = Callable[[np.ndarray], bytes]
WRITERS: dict[str, Writer] = {
    ".csv": lambda a: as_text(a, ",", header=True),
    ".tsv": lambda a: as_text(a, "\t", header=True),
    ".txt": lambda a: as_text(a, " "),
    ".1D": lambda a: as_text(a, "\t"),
    ".npy": to_npy,
    ".mat": as_mat,
}


def study(ending: str, kind: str = "series") -> dict[str, bytes]:
    """A folder with a table, the regions and one file per subject."""
    data = series() if kind == "series" else list(matrices())
    files = {"participants.tsv": participants(), "regions.csv": regions()}
    return files | {
        f"{kind}/{name}{ending}": WRITERS[ending](one) for name, one in zip(IDS, data, strict=True)
    }


def saved_cohort(folder: Path) -> dict[str, bytes]:
    """What `Cohort.save` writes."""
    path = folder / "study.npz"
    cohort().save(path)
    return {"study.npz": path.read_bytes()}


def as_npy(**arrays: Any) -> dict[str, bytes]:
    """A folder of arrays as somebody makes it with numpy."""
    out = {}
    for name, array in {**arrays, "label": LABELS, "site": SITES, "subject": IDS}.items():
        stream = io.BytesIO()
        values = np.asarray(array)
        np.save(stream, values.astype(np.float32) if values.dtype.kind == "f" else values)
        out[f"{name}.npy"] = stream.getvalue()
    return out


def mapped_cohort(folder: Path) -> dict[str, bytes]:
    """What `Cohort.save` writes for a cohort larger than memory."""
    return _contents(cohort().save(folder / "arrays", mapped=True))


def mapped_graphs(folder: Path) -> dict[str, bytes]:
    """What `GraphSet.save` writes."""
    graphs = make_connectome_pipeline(density=0.3).fit_transform(cohort())
    return _contents(graphs.save(folder / "graphs", mapped=True))


def graph_arrays(folder: Path) -> dict[str, bytes]:
    """The same without the list of arrays and their checksums."""
    numbers = np.unique(cohort().y, return_inverse=True)[1]
    graphs = make_connectome_pipeline(density=0.3).fit_transform(cohort()).with_y(numbers)
    files = _contents(graphs.save(folder / "graphs", mapped=True))
    return {name: content for name, content in files.items() if name != "arrays.json"}


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def abide() -> list[dict[str, bytes]]:
    """All series in one file, and a file each, beside the phenotype table."""
    codes, site = [50002 + i for i in range(N)], ["PITT", "NYU"] * (N // 2)
    ids = [f"{where}_00{code}" for where, code in zip(site, codes, strict=True)]
    arrays = as_npz(
        data=np.concatenate(series()),
        lengths=[len(one) for one in series()],
        file_id=ids,
        label_asd=[1, 0] * (N // 2),
        site=site,
    )
    head = ["SUB_ID", "SITE_ID", "DX_GROUP", "AGE_AT_SCAN", "SEX", "func_mean_fd"]
    rows = [
        [code, where, 1 + i % 2, 20.5 + i, 1 + i % 2, 0.1]
        for i, (code, where) in enumerate(zip(codes, site, strict=True))
    ]
    table = {"Phenotypic_V1_0b_preprocessed1.csv": as_csv([head, *rows])}
    files = {f"{one}_rois_aal.1D": as_text(values, "\t") for one, values in zip(ids, series(), strict=True)}
    return [{"ts_aal.npz": arrays}, {"ts_aal.npz": arrays} | table, files | table]


def rest_meta_mdd() -> dict[str, bytes]:
    """One .mat per subject and a table."""
    ids = [f"S{1 + i % 2}-{1 + i % 2}-{i + 1:04d}" for i in range(N)]
    table = as_csv([["ID", "age", "sex"], *([one, 30 + i, 1 + i % 2] for i, one in enumerate(ids))])
    files = {f"ROISignals_{one}.mat": as_mat(values) for one, values in zip(ids, series(), strict=True)}
    return files | {"people.csv": table}


def srpbs() -> dict[str, bytes]:
    """A study with codes of diagnoses."""
    files = study(".npy")
    rows = [
        [one, site, 30, 1 + i % 2, 4 * (i % 2)] for i, (one, site) in enumerate(zip(IDS, SITES, strict=True))
    ]
    files["participants.tsv"] = as_csv([["participant_id", "site", "age", "sex", "diag"], *rows], "\t")
    del files["regions.csv"]
    return files


# -------------------------------------------------------------------------------- graphs


def ba2motifs() -> dict[str, bytes]:
    """Six graphs in the published form."""
    made = make_ba2motifs(N, random_state=0)
    adj = np.stack([made[i].weights for i in range(N)])
    return {"ba2motifs.npz": as_npz(adj=adj, x=np.ones((N, 25, 2), np.float32), y=made.y)}


def tu(attributes: bool) -> dict[str, bytes]:
    """Two triangles, one with a tail, and a pair."""
    pairs = [(1, 2), (2, 3), (1, 3), (4, 5), (5, 6), (4, 6), (6, 7), (8, 9)]
    both = [pair for a, b in pairs for pair in ((a, b), (b, a))]
    files = {
        "X_A.txt": "".join(f"{a}, {b}\n" for a, b in both),
        "X_graph_indicator.txt": "1\n1\n1\n2\n2\n2\n2\n3\n3\n",
        "X_graph_labels.txt": "1\n-1\n1\n",
    }
    if attributes:
        files |= {
            "X_node_labels.txt": "".join(f"{i % 3}\n" for i in range(9)),
            "X_node_attributes.txt": "".join(f"{i / 3:.2f}, {i}\n" for i in range(9)),
            "X_edge_labels.txt": "1\n" * len(both),
        }
    return {name: text.encode() for name, text in files.items()}


# -------------------------------------------------------------------------------- models


def in_folder(folder: Path) -> dict[str, bytes]:
    """Read all files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def model(estimator: Any, data: Any, folder: Path) -> dict[str, bytes]:
    """Train and save."""
    estimator.fit(data).save(folder / "model")
    return in_folder(folder / "model")


def checkpoints(folder: Path) -> list[dict[str, bytes]]:
    """What a training leaves of itself, after each of its epochs."""
    kept = []
    save = Checkpoint.save

    def save_and_keep(self: Checkpoint, *state: Any) -> None:
        save(self, *state)
        kept.append({CHECKPOINT: self.path.read_bytes()})

    with mock.patch.object(Checkpoint, "save", save_and_keep):
        make_estimator("ci-gnn", **TINY, n_estimators=1, checkpoint=folder / CHECKPOINT).fit(graphs())
    return kept


def store(folder: Path) -> dict[str, bytes]:
    """An evaluation of two methods, one of which failed in part."""
    methods = {name: make_estimator(name, random_state=0) for name in ("linear-svm", "lasso")}
    more = GraphSet.from_arrays(np.concatenate([matrices()] * 3), y=np.array([0, 1] * (3 * N // 2)))
    evaluate(methods, more, "holdout", seeds=(0, 1), store=folder / "run").copy()
    return in_folder(folder / "run")


# ------------------------------------------------------------------------------ settings

SETTINGS = b"""seed = 1
hold_out = 0.0
fisher = false
label = "label"
connectivity = "correlation"
out = "made"
method = "linear-svm"
positive = "patient"

[model]
C = 1.0
features = "auto"

[load]
min_length = 5
constant_rois = "zero"
n_rois = 4

[resolved]
C = 1.0
"""
WORDS = [
    [
        "fit",
        "study",
        "--out",
        "made",
        "--json",
        "--method",
        "linear-svm",
        "--set",
        "C=1.0",
        "--set",
        "features=auto",
    ],
    [
        "fit",
        "study",
        "--out",
        "made",
        "--json",
        "--method",
        "rbf-svm",
        "--set",
        "class_weight=balanced",
        "--set",
        "C=auto",
    ],
    [
        "fit",
        "study",
        "--out",
        "made",
        "--json",
        "--method",
        "linear-svm",
        "--load",
        "min_length=5",
        "--load",
        "n_rois=4",
    ],
    ["predict", "model", "study", "--json", "--load", "constant_rois=zero", "--load", "transpose=false"],
    [
        "predict",
        "model",
        "study",
        "--json",
        "--load",
        "missing=drop_subject",
        "--load",
        "duplicates=keep_first",
    ],
    [
        "predict",
        "model",
        "study",
        "--json",
        "--load",
        "short_series=raise",
        "--load",
        "participants=study/participants.tsv",
    ],
]
NETWORK = [
    "fit",
    "study",
    "--out",
    "made",
    "--json",
    "--method",
    "ci-gnn",
    "--epochs",
    "1",
    "--n-estimators",
    "1",
]
UNTRAINED = [
    *(
        "epochs=2",
        "n_estimators=1",
        "encoder_hidden=[4, 4]",
        "learning_rate=0.01",
        "batch_size=4",
        "n_causal=3",
        "preset=motif",
    ),
    *(
        "checkpoint=none",
        "class_weight=none",
        "validation_fraction=0.2",
        "dropout=0.1",
        "device=cpu",
        "renyi_order=1.01",
    ),
]


def words(given: list[str]) -> bytes:
    """A command line as a file."""
    return json.dumps(given).encode()
