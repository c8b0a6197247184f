"""From cohort to classifier: the one function that puts a pipeline together, and how a pipeline is saved."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn import covariance
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from cignn.connectome.combat import ComBat
from cignn.connectome.connectivity import _NILEARN, Connectivity
from cignn.connectome.connectome_graphs import ConnectomeGraphs, TrainingConnections
from cignn.connectome.covariates import CovariateColumn
from cignn.connectome.deconfound import FIT_ON, Deconfound, Square
from cignn.datasets.atlas import Atlas


def make_connectome_pipeline(
    classifier: Any = None,
    *,
    connectivity: str | Connectivity = "correlation",
    combat: bool | ComBat = False,
    deconfound: bool | Sequence[str] | Deconfound | None = None,
    density: float | None = None,
    graphs: ConnectomeGraphs | None = None,
) -> Pipeline:
    """Make a pipeline from a cohort to a classifier of its connectivity graphs.

    It computes connectivity, harmonises sites, takes out nuisance covariates, makes graphs and classifies
    them.

    Every step is fitted by ``fit``, so cross-validation fits it on the training subjects only. A cohort that
    holds connectivity matrices passes through ``Connectivity()`` unchanged.

    Parameters
    ----------
    classifier : estimator, default=None
        Classifier of graphs. None leaves it out: the pipeline then turns a cohort into a `GraphSet`.
    connectivity : str or Connectivity, default="correlation"
        Kind of connectivity, or the step itself.
    combat : bool or ComBat, default=False
        Whether to remove site effects with ComBat. True stands for ``ComBat()``.
    deconfound : bool, sequence of str or Deconfound, default=None
        Covariates to regress out of every connection, for instance ``("age", "sex", "motion")``, or the step
        itself. True stands for ``Deconfound()``; None regresses nothing out. The effects are estimated at
        equal label, and on all training subjects where a score is predicted (``Deconfound(fit_on="auto")``).
    density : float, default=None
        Share of the strongest connections of each subject that become edges, in (0, 1]. None keeps all.
    graphs : ConnectomeGraphs, default=None
        The step that makes graphs; give either this or ``density``.

    Returns
    -------
    Pipeline
        Its steps are named "connectivity", "combat" and "deconfound" (where they are asked for), "graphs" and
        "classifier".

    Examples
    --------
    >>> from cignn.connectome import make_connectome_pipeline
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> cohort = make_cohort(24, 10, n_edges=3, lengths=(30, 40), random_state=0)
    >>> pipe = make_connectome_pipeline(make_estimator("lasso", random_state=0), combat=True)
    >>> list(pipe.named_steps)
    ['connectivity', 'combat', 'graphs', 'classifier']
    >>> pipe.fit(cohort, cohort.y).predict_proba(cohort).shape
    (24, 2)
    >>> make_connectome_pipeline(density=0.2).fit_transform(cohort).n_edges[:3]
    array([9, 9, 9])
    """
    if density is not None and graphs is not None:
        raise ValueError("give density or graphs, not both; ConnectomeGraphs(density) is a step with both.")
    if isinstance(connectivity, str):
        connectivity = Connectivity(connectivity)
    steps: list[tuple[str, Any]] = [("connectivity", connectivity)]
    if combat:
        steps.append(("combat", combat if isinstance(combat, ComBat) else ComBat()))
    if isinstance(deconfound, bool):
        deconfound = Deconfound() if deconfound else None
    if deconfound is not None:
        step = deconfound if isinstance(deconfound, Deconfound) else Deconfound(deconfound)
        scores = classifier is not None and is_regressor(classifier)
        if scores and step.fit_on == "auto":  # whole scores of few values look like classes
            step = clone(step).set_params(fit_on="all")
        steps.append(("deconfound", step))
        if combat and "site" in step.covariates:
            warnings.warn(
                "ComBat and Deconfound both take out the site; one of them is enough.", stacklevel=2
            )
    steps.append(("graphs", ConnectomeGraphs(density) if graphs is None else graphs))
    if classifier is not None:
        steps.append(("classifier", classifier))
    return Pipeline(steps)


NAMES: dict[Any, str] = {
    Connectivity: "connectivity",
    ComBat: "combat",
    Deconfound: "deconfound",
    ConnectomeGraphs: "graphs",
}
STEPS: dict[str, Any] = {step.__name__: step for step in NAMES}
RUNNING = ("n_jobs", "verbose")  # parameters that say how a step runs, not what it does
COVARIANCES = ("EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance")
_COMBAT = ("grand_mean_", "effects_", "scale_", "shift_", "spread_")
_DECONFOUND = ("mean_", "effects_", "scale_")


def saved_steps(steps: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return fitted steps as plain data, one dict each, and their arrays, named ``number.name``."""
    states = [state_of(step) for step in steps]
    if states and not _in_order([state.step for state in states]):
        raise TypeError(
            f"a model of these steps cannot be saved; it may have {', '.join(STEPS)}, in this order."
        )
    plain = [{"step": s.step, "params": s.params, "facts": s.facts} for s in states]
    return plain, {f"{i}.{name}": array for i, s in enumerate(states) for name, array in s.arrays.items()}


def loaded_steps(
    plain: list[dict[str, Any]], arrays: Mapping[str, np.ndarray], n_rois: int
) -> list[tuple[str, Any]]:
    """Return the named steps of a pipeline that `saved_steps` took apart."""
    steps = []
    for i, one in enumerate(plain):
        own = {name.partition(".")[2]: a for name, a in arrays.items() if name.startswith(f"{i}.")}
        steps.append(step_from(StepState(one["step"], one["params"], one["facts"], own), n_rois))
    if not _in_order([one["step"] for one in plain]):
        raise ValueError("its steps are not those of a cohort's model")
    return [(NAMES[type(step)], step) for step in steps]


def _in_order(names: list[str]) -> bool:
    """Whether these are some of `STEPS`, each once, in their order and with the last of them."""
    order = [list(STEPS).index(name) for name in names]
    return order == sorted(set(order)) and names[-1:] == ["ConnectomeGraphs"]


class StepState(NamedTuple):
    """A fitted step: its class and parameters, what it learnt as plain values, and as arrays by name."""

    step: str
    params: dict[str, Any]
    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]


def state_of(step: Any) -> StepState:
    """Take a fitted step of a pipeline apart."""
    name = type(step).__name__
    if STEPS.get(name) is not type(step):
        raise TypeError(f"{name} cannot be saved; steps that can are {', '.join(STEPS)}.")
    if not hasattr(step, "n_rois_"):
        raise NotFittedError(f"this {name} is not fitted yet; call fit first.")
    params = {key: value for key, value in step.get_params(deep=False).items() if key not in RUNNING}
    facts: dict[str, Any] = {"n_rois": int(step.n_rois_)}
    arrays: dict[str, np.ndarray] = {}
    if isinstance(step, Connectivity):
        params["covariance_estimator"] = _covariance_state(step.covariance_estimator)
        facts["measured"] = step.measure_ is not None
        facts["roi_names"] = step.roi_names_
        facts["atlas"] = None if step.atlas_ is None else vars(step.atlas_)
        if step.measure_ is not None and step.kind == "tangent":
            arrays = {"mean": step.measure_.mean_, "whitening": step.measure_.whitening_}
    elif isinstance(step, ComBat):
        params["covariates"] = list(step.covariates)
        params["control"] = None if step.control is None else _plain([step.control])[0]
        facts["sites"] = step.sites_.tolist()
        facts["sites_dtype"] = step.sites_.dtype.str
        facts["columns"] = plain_columns(step.columns_)
        arrays = {key: getattr(step, key) for key in _COMBAT}
    elif isinstance(step, Deconfound):
        params["covariates"] = list(step.covariates)
        params["control"] = None if step.control is None else _plain([step.control])[0]
        facts["fit_on"] = step.fit_on_
        facts["columns"] = plain_columns(step.columns_)
        facts["squares"] = [None if square is None else list(square) for square in step.squares_]
        arrays = {key: getattr(step, key) for key in _DECONFOUND}
    elif step.connections_ is not None:
        facts["scans"], facts["largest"] = step.connections_.n, step.connections_.largest
        arrays = {"mean": step.connections_.mean, "std": step.connections_.std}
    return StepState(name, params, facts, {key: np.ascontiguousarray(a) for key, a in arrays.items()})


def step_from(state: StepState, n_rois: int) -> Any:
    """Put a step together again; it transforms as the one that was saved, cohorts of ``n_rois`` regions."""
    if state.step not in STEPS:
        raise ValueError(f"there is no step {state.step!r}; upgrade cignn.")
    params, facts, arrays = dict(state.params), state.facts, state.arrays
    if facts["n_rois"] != n_rois:
        raise ValueError(f"{state.step} is for {facts['n_rois']} regions, the model has {n_rois}")
    _check_arrays(state, n_rois)
    if state.step == "Connectivity":
        params["covariance_estimator"] = _covariance(params["covariance_estimator"])
    elif state.step == "Deconfound":
        params.setdefault("fit_on", "all")  # the default of models that do not say
    step = STEPS[state.step](**params)
    step.n_rois_ = n_rois
    if isinstance(step, Connectivity):
        step.measure_ = _measure(step, arrays) if facts["measured"] else None
        step.roi_names_ = [str(name) for name in facts["roi_names"]]
        step.atlas_ = None if facts["atlas"] is None else Atlas(**facts["atlas"])
        if len(step.roi_names_) != n_rois:
            raise ValueError(f"{len(step.roi_names_)} names for {n_rois} regions")
    elif isinstance(step, ComBat):
        step.sites_ = np.array(facts["sites"], dtype=facts["sites_dtype"])
        step.columns_ = read_columns(facts["columns"])
        for key in _COMBAT:
            setattr(step, key, arrays[key])
    elif isinstance(step, Deconfound):
        step.fit_on_ = facts.get("fit_on", step.fit_on)  # older models say it in their parameters alone
        if step.fit_on_ not in FIT_ON[1:]:
            raise ValueError(f"Deconfound was fitted on {step.fit_on_!r}, not one of {', '.join(FIT_ON[1:])}")
        step.columns_ = read_columns(facts["columns"])
        step.squares_ = [
            None if square is None else Square(*map(float, square)) for square in facts["squares"]
        ]
        for key in _DECONFOUND:
            setattr(step, key, arrays[key])
    elif "scans" in facts:  # not of older models
        learnt = arrays["mean"], arrays["std"]
        step.connections_ = TrainingConnections(int(facts["scans"]), *learnt, float(facts["largest"]))
    return step


def _check_arrays(state: StepState, n_rois: int) -> None:
    """Refuse arrays of another size than the regions, sites and covariates ask for."""
    pairs = n_rois * (n_rois - 1) // 2
    wanted: dict[str, tuple[int, ...]] = {}
    if state.step == "Connectivity" and state.facts["measured"] and state.params["kind"] == "tangent":
        wanted = {"mean": (n_rois, n_rois), "whitening": (n_rois, n_rois)}
    elif state.step == "ConnectomeGraphs" and "scans" in state.facts:
        wanted = {"mean": (pairs,), "std": (pairs,)}
    elif state.step in ("ComBat", "Deconfound"):
        columns = state.facts["columns"]  # a number that never varied has no effect
        if [column["name"] for column in columns] != list(dict.fromkeys(state.params["covariates"])):
            raise ValueError("its columns are not those of its covariates")
        effects = sum(column.width for column in read_columns(columns))
        wanted = {"scale_": (pairs,)}
        if state.step == "ComBat":
            sites = len(state.facts["sites"])
            wanted |= {"grand_mean_": (pairs,), "shift_": (sites, pairs), "spread_": (sites, pairs)}
        else:
            squares = state.facts["squares"]
            if [square is not None for square in squares] != [
                c["levels"] is None and c["std"] > 0 for c in columns
            ]:
                raise ValueError("its squares are not those of its covariates")
            effects += sum(square is not None for square in squares)
            wanted |= {"mean_": (pairs,)}
        wanted |= {"effects_": (effects, pairs)}
    shapes = {name: array.shape for name, array in state.arrays.items()}
    if shapes != wanted:
        raise ValueError(f"arrays of {state.step} are {shapes}, not {wanted}")


def _measure(step: Connectivity, arrays: dict[str, np.ndarray]) -> Any:
    """Return nilearn's estimator, fitted on anything and then given the reference that was saved."""
    from nilearn.connectome import ConnectivityMeasure

    measure = ConnectivityMeasure(
        cov_estimator=step.covariance_estimator, kind=_NILEARN[step.kind], standardize=False
    )
    anything = np.random.default_rng(0).standard_normal((step.n_rois_ + 8, step.n_rois_))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        measure.fit([anything])
    if step.kind == "tangent":
        measure.mean_, measure.whitening_ = arrays["mean"], arrays["whitening"]
    return measure


def _covariance_state(estimator: Any) -> dict[str, Any] | None:
    if estimator is None:
        return None
    name = type(estimator).__name__
    if name not in COVARIANCES or type(estimator) is not getattr(covariance, name):
        raise TypeError(
            f"covariance_estimator {name} cannot be saved; those that can are {', '.join(COVARIANCES)}."
        )
    return {"name": name, "params": estimator.get_params(deep=False)}


def _covariance(saved: dict[str, Any] | None) -> Any:
    if saved is None:
        return None
    if saved["name"] not in COVARIANCES:
        raise ValueError(f"there is no covariance estimator {saved['name']!r}; upgrade cignn.")
    return getattr(covariance, saved["name"])(**saved["params"])


def plain_columns(columns: list[CovariateColumn]) -> list[dict[str, Any]]:
    """Return coded covariates as plain data."""
    levels = [None if c.levels is None else _plain(c.levels) for c in columns]
    return [
        {"name": c.name, "levels": known, "mean": c.mean.tolist(), "std": c.std}
        for c, known in zip(columns, levels, strict=True)
    ]


def read_columns(plain: list[dict[str, Any]]) -> list[CovariateColumn]:
    """Return the coded covariates that `plain_columns` took apart."""
    return [CovariateColumn(c["name"], c["levels"], np.array(c["mean"]), float(c["std"])) for c in plain]


def _plain(values: list) -> list:
    return [v.item() if isinstance(v, np.generic) else v for v in values]
