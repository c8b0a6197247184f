"""Data and methods of the paper's tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from cignn._checks import nearest
from cignn.connectome import Connectivity, make_connectome_pipeline
from cignn.datasets import (
    Cohort,
    load_abide,
    load_ba2motifs,
    load_rest_meta_mdd,
    load_spmotif,
    load_srpbs,
    load_tu,
    make_ba2motifs,
    make_cohort,
    make_spurious_motifs,
)
from cignn.estimators import make_estimator
from cignn.evaluation.removal import top_edge_masks
from cignn.explainers import Explainer, make_explainer
from cignn.graphs import GraphSet
from cignn.paper.spec import Method

FEW = 48  # graphs or subjects of a smoke run
LEAST = 10  # of each class; less is a format example, not a data set


@dataclass(frozen=True)
class Source:
    """A data set of the paper: where it lies below the data folder, how to read it and how to get it."""

    path: str
    load: Callable[..., Any]
    how_to_get: str
    stand_in: Callable[[], Any]


class Loaded(NamedTuple):
    """What could be read, and for each data set that could not the reason and how to get it."""

    sets: dict[str, Any]
    missing: dict[str, str]


def _brain(seed: int) -> Callable[[], Cohort]:
    return lambda: make_cohort(FEW, 12, n_edges=4, effect=0.8, lengths=(40, 60), random_state=seed)


def _motifs(seed: int) -> Callable[[], GraphSet]:
    return lambda: make_ba2motifs(FEW, random_state=seed)


def _tu(name: str, seed: int) -> Source:
    how = f"unpack https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip as tu/{name} in the data folder"
    return Source(f"tu/{name}", load_tu, how, _motifs(seed))


def _spmotif(bias: float) -> Source:
    file = f"spmotif_{bias}.npz"
    how = f"the published Spurious-Motif graphs of bias {bias} as {file} in the data folder, see load_spmotif"
    made = partial(make_spurious_motifs, FEW, bias=bias, kind="published", random_state=7)
    return Source(file, load_spmotif, how, made)


SOURCES: dict[str, Source] = {
    "BA-2Motifs": Source(
        "ba2motifs.npz",
        load_ba2motifs,
        "the published BA-2Motifs graphs as ba2motifs.npz (adj, x, y) in the data folder, see load_ba2motifs",
        _motifs(0),
    ),
    "ABIDE": Source(
        "abide",
        partial(load_abide, selection="paper", merge_sites=True),
        'load_abide("abide", download=True) in the data folder; free, without registration',
        _brain(1),
    ),
    "REST-meta-MDD": Source(
        "rest_meta_mdd",
        partial(load_rest_meta_mdd, selection="paper"),
        "apply at http://rfmri.org/REST-meta-MDD, unpack the series into rest_meta_mdd in the data folder",
        _brain(2),
    ),
    "SRPBS": Source(
        "srpbs",
        partial(load_srpbs, selection="paper"),
        "register at https://bicr-resource.atr.jp/srpbs1600, extract AAL series with RoiSeries into srpbs",
        _brain(3),
    ),
    "MUTAG": _tu("MUTAG", 4),
    "PROTEINS": _tu("PROTEINS", 5),
    "NCI1": _tu("NCI1", 6),
    **{f"Spurious-Motif-{bias}": _spmotif(bias) for bias in (0.5, 0.7, 0.9)},
}


def data_folder(data: str | Path | None) -> Path | None:
    """Return the folder given, or the one the environment variable CIGNN_DATA names."""
    where = data if data is not None else os.environ.get("CIGNN_DATA")
    return None if where is None else Path(where)


def load_sets(
    names: tuple[str, ...],
    data: str | Path | Mapping[str, Any] | None,
    scale: str,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Loaded:
    """Read data sets by their names in the paper.

    data : the data folder; or name → `GraphSet`, `Cohort` or path, sets not named being missing; None for
        CIGNN_DATA at full scale and for simulated stand-ins of all sets at smoke scale
    scale : "smoke" takes a few graphs or subjects of each
    options : name → options of its loader
    """
    if isinstance(data, Mapping):
        unknown = [name for name in data if name not in SOURCES]
        if unknown:
            raise ValueError(f"the paper has no data {unknown[0]!r}{nearest(unknown[0], SOURCES)}")
    elif data is not None and not Path(data).is_dir():
        raise FileNotFoundError(f"the data folder {data} does not exist; give one or set CIGNN_DATA.")
    sets, missing = {}, {}
    for name in names:
        try:
            found = _load(name, data, scale, (options or {}).get(name, {}))
            _check(found)
            sets[name] = few(found) if scale == "smoke" else found
        except (FileNotFoundError, ValueError, OSError) as error:
            line = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            missing[name] = f"{line}. To get it: {SOURCES[name].how_to_get}."
    return Loaded(sets, missing)


def _load(name: str, data: Any, scale: str, options: Mapping[str, Any]) -> Any:
    source = SOURCES[name]
    if isinstance(data, Mapping):
        if name not in data:
            raise FileNotFoundError("not among the data given")
        given = data[name]
        return source.load(Path(given), **options) if isinstance(given, (str, Path)) else given
    if data is None and scale == "smoke":
        return source.stand_in()
    folder = data_folder(data)
    if folder is None:
        raise FileNotFoundError("no data folder; pass data= or set CIGNN_DATA")
    path = folder / source.path
    if not path.exists():
        raise FileNotFoundError(f"{source.path} is not in the data folder")
    return source.load(path, **options)


def _check(found: Any) -> None:
    if not isinstance(found, (GraphSet, Cohort)):
        raise ValueError(f"expected a GraphSet or a Cohort, got {type(found).__name__}")
    labels, counts = np.unique(np.asarray(found.y), return_counts=True)
    if len(labels) < 2 or counts.min() < LEAST:
        raise ValueError(f"it holds {len(found)} graphs or subjects, fewer than {LEAST} of a class")


def few(found: Any, n: int = FEW) -> Any:
    """Return about ``n`` graphs or subjects, as many of each class, of at most three sites or given parts."""
    if len(found) <= n:
        return found
    index = np.arange(len(found))
    sites = getattr(found, "sites", getattr(found, "groups", None))
    if sites is not None and len(np.unique(sites)) > 1:
        values, counts = np.unique(sites, return_counts=True)
        index = index[np.isin(sites, values[np.argsort(-counts, kind="stable")[:3]])]
    y, site = np.asarray(found.y)[index], None if sites is None else sites[index]
    cells = [(label, s) for label in np.unique(y) for s in ([None] if site is None else np.unique(site))]
    share = max(1, n // len(cells))
    chosen = [index[(y == label) & (True if s is None else site == s)][:share] for label, s in cells]
    return found[np.sort(np.concatenate(chosen))]


# a smoke run shows that everything runs, not what it is worth
_GNN: dict[str, Any] = {"epochs": 2, "hidden": (8, 8), "head_hidden": (8,)}
SMOKE: dict[str, dict[str, Any]] = {
    "linear-svm": {"C": 1.0},
    "rbf-svm": {"C": 1.0},
    "random-forest": {"n_estimators": 5},
    "lasso": {"C": 1.0},
    "gcn": _GNN,
    "gat": _GNN,
    "gin": _GNN,
    "sib": _GNN | {"inner_steps": 1},
    "dir": _GNN | {"scorer_hidden": (8,)},
    "ci-gnn": {
        "epochs": 2,
        "generative_epochs": 0,
        "n_estimators": 1,
        "encoder_hidden": (8,),
        "classifier_hidden": (8, 8),
        "head_hidden": (8,),
    },
    "gnn-explainer": {"steps": 2},
    "pg-explainer": {"epochs": 1, "hidden": 8},
    "rc-explainer": {"epochs": 1, "max_edges": 3, "hidden": 8},
    "orphicx": {"epochs": 1, "hidden": (8,), "n_draws": 1},
    "built-in": {},
}


class SubgraphClassifier(ClassifierMixin, BaseEstimator):
    """A graph classifier that, when tested, reads only the top edges of an explainer.

    base : the classifier, trained on whole graphs; explainer : fitted on it and the training graphs; share :
    of the edges that it reads, the top ones.
    """

    def __init__(self, base: Any, explainer: Explainer, share: float = 0.5) -> None:
        self.base = base
        self.explainer = explainer
        self.share = share

    def fit(self, X: GraphSet, y: Sequence | np.ndarray | None = None, eval_set: Any = None) -> Self:
        """Train the classifier, then the explainer; arguments are the classifier's."""
        self.base_ = clone(self.base).fit(X, y, eval_set=eval_set)
        self.explainer_ = clone(self.explainer).fit(self.base_, X)
        self.classes_ = self.base_.classes_
        return self

    @property
    def interrupted_(self) -> bool:
        """Whether Ctrl-C cut the training of the classifier short."""
        return bool(getattr(self.base_, "interrupted_", False))

    def predict_proba(self, X: GraphSet) -> np.ndarray:
        """(g, classes) probabilities of the subgraphs."""
        kept = top_edge_masks(self.explainer_.explain(X), self.share)
        return self.base_.predict_proba(X.with_edges(kept))

    def predict(self, X: GraphSet) -> np.ndarray:
        """(g,) labels of the subgraphs."""
        return self.classes_[self.predict_proba(X).argmax(1)]


def make_method(method: Method, data: Any, scale: str, density: float | None = None) -> Any:
    """Make the estimator or, for a cohort, the pipeline of a row."""
    density = density if method.density is None else method.density
    model: Any = make_estimator(method.estimator, **settings(method, scale))
    if method.subgraph_of:
        model = SubgraphClassifier(
            model, make_explainer(method.subgraph_of, **_small(method.subgraph_of, scale))
        )
        density = 0.1 if density is None else density  # the edges a GNN reads of brain graphs
    if not isinstance(data, Cohort):
        return model
    return make_connectome_pipeline(model, connectivity=Connectivity(constant_rois="zero"), density=density)


def make_row_explainer(method: Method, scale: str) -> Explainer:
    """Make the explainer of a row."""
    params = method.explainer_params | _small(method.explainer, scale)
    return make_explainer(method.explainer, **params)


def settings(method: Method, scale: str) -> dict[str, Any]:
    """Parameters of the estimator of a row; lists of a spec become tuples."""
    params = {k: tuple(v) if isinstance(v, list) else v for k, v in method.params.items()}
    if scale == "smoke":
        params = params | _small(method.estimator, scale)
        if params.get("preset") == "paper":
            params |= {"epochs": 3, "generative_epochs": 1}
    return params


def _small(name: str, scale: str) -> dict[str, Any]:
    return dict(SMOKE.get(name, {})) if scale == "smoke" else {}
