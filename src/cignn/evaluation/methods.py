"""What is evaluated: methods by name, with settings or as estimators, and what identifies them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import hash as content_hash
from sklearn.base import clone, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from cignn.connectome import make_connectome_pipeline
from cignn.datasets import Cohort
from cignn.estimators import GraphEstimator, make_estimator
from cignn.estimators.ci_gnn import CIGNNEstimator
from cignn.estimators.neural import NeuralGraphEstimator
from cignn.explainers import Explainer, make_explainer
from cignn.graphs import GraphSet

# parameters that say how a training runs, not what is learnt; the seed stands for itself
RUNNING = ("random_state", "verbose", "n_jobs", "device", "checkpoint")

Methods = str | Sequence[str] | Mapping[str, Any]


def resolve_methods(methods: Methods) -> dict[str, Any]:
    """Return an unfitted estimator for every name.

    methods : names of `make_estimator`; or name → None, settings (of the method of that name, or of the one
    under the key "method") or an estimator or pipeline.
    """
    methods = _by_name(methods)
    if not methods:
        raise ValueError("there are no methods to evaluate; name at least one, such as 'ci-gnn'.")
    return {str(name): _estimator(str(name), given) for name, given in methods.items()}


def _by_name(given: Methods) -> Mapping[str, Any]:
    """One name or several as a mapping of names to nothing else; mappings as they are."""
    if isinstance(given, Mapping):
        return given
    return dict.fromkeys([given] if isinstance(given, str) else given)


def _estimator(name: str, given: Any) -> Any:
    if given is None or isinstance(given, Mapping):
        settings = dict(given or {})
        return make_estimator(settings.pop("method", name), **settings)
    if isinstance(given, str):
        return make_estimator(given)
    if isinstance(given, type) or not (hasattr(given, "fit") and hasattr(given, "get_params")):
        raise TypeError(
            f"method {name!r} must be settings or a scikit-learn estimator, got {given!r}; "
            'settings are a dict such as {"method": "gin", "epochs": 50}.'
        )
    return clone(given)


def resolve_explainers(explainers: Methods | None) -> dict[str, Explainer]:
    """Return an unfitted explainer for every name; given as methods are."""
    if explainers is None:
        return {}
    out = {}
    for name, given in _by_name(explainers).items():
        if isinstance(given, Explainer):
            out[str(name)] = clone(given)
            continue
        if given is not None and not isinstance(given, (str, Mapping)):
            raise TypeError(f"explainer {name!r} must be settings or an explainer, got {given!r}.")
        settings = {"explainer": given} if isinstance(given, str) else dict(given or {})
        out[str(name)] = make_explainer(settings.pop("explainer", name), **settings)
    return out


def resolve_data(data: Any) -> dict[str, Any]:
    """Return graph sets and cohorts by name; a single one is named "data"."""
    named = dict(data) if isinstance(data, Mapping) else {"data": data}
    if not named:
        raise ValueError("there are no data to evaluate on.")
    for name, one in named.items():
        if not isinstance(one, (GraphSet, Cohort)):
            raise TypeError(f"data {name!r} must be a GraphSet or a Cohort, got {type(one).__name__}.")
    return {str(name): one for name, one in named.items()}


def on_data(estimator: Any, data: Any) -> Any:
    """Put connectivity and graphs before a classifier of graphs when the data are a cohort."""
    if isinstance(data, Cohort) and isinstance(estimator, GraphEstimator):
        return make_connectome_pipeline(estimator)
    return estimator


def with_settings(estimator: Any, settings: Mapping[str, Any]) -> Any:
    """Return a clone with settings of its own or, of a pipeline, of its last step."""
    estimator = clone(estimator)
    known = estimator.get_params(deep=True)
    steps = list(estimator.named_steps) if isinstance(estimator, Pipeline) else []
    last = f"{steps[-1]}__" if steps else ""
    params = {}
    for name, value in settings.items():
        places = [name, last + name, f"{last}settings__{name}"]  # the last are settings of CI-GNN
        if name in steps and isinstance(value, str) and value != "passthrough":
            places.remove(name)  # CI-GNN has a setting "classifier" too, which is a word
        full = next((place for place in places if place in known), None)
        if full is None:
            own = sorted(key for key in known if key.startswith(last))
            raise ValueError(
                f"{type(estimator).__name__} has no parameter {name!r} to search. There are {', '.join(own)}."
            )
        params[full] = value
    return estimator.set_params(**params)


def with_seed(estimator: Any, seed: int) -> Any:
    """Return a clone all of whose randomness comes from ``seed``."""
    estimator = clone(estimator)
    names = [key for key in estimator.get_params(deep=True) if key.split("__")[-1] == "random_state"]
    return estimator.set_params(**dict.fromkeys(names, seed))


def predicts_scores(estimator: Any) -> bool:
    """Whether a method, or the last step of a pipeline, predicts a score rather than classes."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return is_regressor(estimator)


def are_regressors(methods: Mapping[str, Any]) -> bool:
    """Whether the methods predict scores; refuse a mixture of both kinds."""
    kinds = {predicts_scores(one): name for name, one in methods.items()}
    if len(kinds) > 1:
        raise ValueError(
            f"{kinds[True]!r} predicts a score and {kinds[False]!r} classes; evaluate them in two runs."
        )
    return True in kinds


def uses_validation(model: Any) -> bool:
    """Whether a classifier chooses an epoch on validation data; any other may learn from these too."""
    if isinstance(model, GraphEstimator):
        return isinstance(model, NeuralGraphEstimator)
    return "eval_set" in inspect.signature(model.fit).parameters


def was_interrupted(model: Any) -> bool:
    """Whether Ctrl-C cut the training short, of a pipeline that of its last step."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return bool(getattr(model, "interrupted_", False))


def resolve_search(search: Mapping[str, Any] | None, methods: Iterable[str]) -> dict[str, list[dict]]:
    """Return the settings to try for every method that has a grid."""
    methods = list(methods)
    out = {}
    for name, grid in (search or {}).items():
        if name not in methods:
            raise ValueError(
                f"search names {name!r}, which is not evaluated. There are {', '.join(methods)}."
            )
        try:
            out[name] = list(ParameterGrid(grid))
        except (TypeError, ValueError) as error:
            raise ValueError(f"search of {name!r} must be name → values to try, got {grid!r}.") from error
    return out


# --------------------------------------------------------------------- identity


def plain(value: Any) -> Any:
    """Return settings as JSON can hold them; equal settings give the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return value.tolist()
    if isinstance(value, (Path, torch.device, np.dtype)):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, type) or inspect.isroutine(value):
        if inspect.isroutine(value) and "<" in value.__qualname__:  # two of them would be one task
            raise ValueError(
                f"a setting is the function {value.__name__}, which cannot be told from others of that name; "
                "define it by def at the top of a module or script."
            )
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "get_params"):
        params = {k: v for k, v in value.get_params(deep=False).items() if k not in RUNNING}
        if isinstance(value, CIGNNEstimator):
            params["settings"] = params["settings"] or None  # without any, all ways to write it are one
        meant = plain(value.resolved_defaults()) if hasattr(value, "resolved_defaults") else {}
        described = {"class": plain(type(value)), "params": plain(params)}
        return described | ({"resolved_defaults": meant} if meant else {})
    return {"class": plain(type(value)), "content": content_hash(value)}
