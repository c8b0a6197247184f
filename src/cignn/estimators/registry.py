"""Every classifier by its name, and models from disk."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from cignn._checks import nearest
from cignn.estimators.ci_gnn import CIGNNClassifier, CIGNNEstimator
from cignn.estimators.ci_gnn_regressor import CIGNNRegressor
from cignn.estimators.ci_gnn_settings import SETTINGS, with_settings_inside
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.cohort_classifier import CohortClassifier, CohortRegressor
from cignn.estimators.decision_classifier import DecisionClassifier
from cignn.estimators.dir import DIRClassifier
from cignn.estimators.fused_classifier import FusedClassifier
from cignn.estimators.gnn import GNNClassifier
from cignn.estimators.graph_estimator import GraphEstimator
from cignn.estimators.model_parts import SavedModel, whole
from cignn.estimators.persistence import PREPARATION, ModelError, Saved, first_line, read_folder
from cignn.estimators.regressor import GraphRegressor
from cignn.estimators.shallow import ShallowGraphClassifier
from cignn.estimators.shallow_regressor import ShallowGraphRegressor
from cignn.estimators.sib import SIBClassifier
from cignn.estimators.table_classifier import TableClassifier


@dataclass(frozen=True)
class Method:
    """A class and the parameters that its name in `make_estimator` sets.

    Parameters
    ----------
    estimator : type
        The class of the classifier or regressor.
    settled : dict
        Its parameters that the name says.

    Examples
    --------
    >>> from cignn.estimators import ESTIMATORS
    >>> ESTIMATORS["gin"].settled
    {'layer': 'gin'}
    """

    estimator: type[GraphEstimator]
    settled: dict[str, Any] = field(default_factory=dict)


ESTIMATORS: dict[str, Method] = {
    "linear-svm": Method(ShallowGraphClassifier, {"model": "linear-svm"}),
    "rbf-svm": Method(ShallowGraphClassifier, {"model": "rbf-svm"}),
    "random-forest": Method(ShallowGraphClassifier, {"model": "random-forest"}),
    "lasso": Method(ShallowGraphClassifier, {"model": "lasso"}),
    "logistic": Method(ShallowGraphClassifier, {"model": "logistic"}),
    "gcn": Method(GNNClassifier, {"layer": "gcn"}),
    "gat": Method(GNNClassifier, {"layer": "gat"}),
    "gin": Method(GNNClassifier, {"layer": "gin"}),
    "sib": Method(SIBClassifier),
    "dir": Method(DIRClassifier),
    "ci-gnn": Method(CIGNNClassifier),
    "mean": Method(ShallowGraphRegressor, {"model": "mean"}),
    "ridge": Method(ShallowGraphRegressor, {"model": "ridge"}),
    "svr": Method(ShallowGraphRegressor, {"model": "svr"}),
    "rbf-svr": Method(ShallowGraphRegressor, {"model": "rbf-svr"}),
    "cpm": Method(ShallowGraphRegressor, {"model": "cpm"}),
    "ci-gnn-regressor": Method(CIGNNRegressor),
}
"""Classifiers, and regressors of scores, by the names that `make_estimator` takes."""
CLASSIFIERS = tuple(
    name for name, method in ESTIMATORS.items() if issubclass(method.estimator, GraphClassifier)
)
"""Names of the classifiers among `ESTIMATORS`."""
REGRESSORS = tuple(name for name in ESTIMATORS if name not in CLASSIFIERS)
"""Names of the regressors among `ESTIMATORS`."""
COMPOSED: dict[str, type[SavedModel]] = {
    one.__name__: one for one in (FusedClassifier, DecisionClassifier, TableClassifier)
}  # models that are not of graphs themselves


def make_estimator(name: str, **params: Any) -> GraphEstimator:
    """Make a classifier or regressor by its name.

    Parameters
    ----------
    name : str
        One of `ESTIMATORS`.
    **params : dict
        Parameters of its class. Those of CI-GNN may be settings too:
        ``make_estimator("ci-gnn", dropout=0.3)``.

    Returns
    -------
    GraphEstimator
        Not fitted.

    Examples
    --------
    >>> from cignn.estimators import CLASSIFIERS, REGRESSORS, make_estimator
    >>> CLASSIFIERS[:5]
    ('linear-svm', 'rbf-svm', 'random-forest', 'lasso', 'logistic')
    >>> CLASSIFIERS[5:]
    ('gcn', 'gat', 'gin', 'sib', 'dir', 'ci-gnn')
    >>> REGRESSORS
    ('mean', 'ridge', 'svr', 'rbf-svr', 'cpm', 'ci-gnn-regressor')
    >>> make_estimator("lasso", random_state=0)
    ShallowGraphClassifier(model='lasso', random_state=0)
    """
    if name not in ESTIMATORS:
        raise ValueError(f"there is no method {name!r}{nearest(name, ESTIMATORS)}")
    method = ESTIMATORS[name]
    known = parameters_of(method.estimator)
    for param in params:
        if param in method.settled:
            raise ValueError(f"{param} is settled by the name {name!r}; leave it out.")
        if param not in known:
            raise ValueError(f"{name!r} has no parameter {param!r}{nearest(param, known)}")
    if issubclass(method.estimator, CIGNNEstimator):
        params = with_settings_inside(params)
    return method.estimator(**method.settled, **params)


def parameters_of(estimator: type[GraphEstimator]) -> list[str]:
    """Return the names that `make_estimator` takes for a class: its parameters and those of its settings."""
    own = list(inspect.signature(estimator).parameters)
    return [*own, *SETTINGS] if issubclass(estimator, CIGNNEstimator) else own


def save_model(
    model: GraphEstimator | Pipeline | SavedModel, path: str | Path, notes: Mapping[str, str] | None = None
) -> None:
    """Write a fitted classifier or pipeline into a folder, which `load_model` reads.

    Nothing is pickled. A model that is already there is replaced; if the process is killed meanwhile, the
    folder holds the complete old or new model.

    Parameters
    ----------
    model : GraphEstimator, Pipeline, FusedClassifier, DecisionClassifier or TableClassifier
        A classifier of graphs; the steps of `make_connectome_pipeline` with one at their end; or a model made
        of such models.
    path : str or Path
        The folder; made where it is missing.
    notes : mapping of str to str, default=None
        Text files to save with the model, by name: ``{"settings.toml": text}``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cignn.connectome import make_connectome_pipeline
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import load_model, make_estimator, save_model
    >>> cohort = make_cohort(24, 10, n_edges=3, lengths=(30, 40), random_state=0)
    >>> pipe = make_connectome_pipeline(make_estimator("lasso", random_state=0)).fit(cohort, cohort.y)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(pipe, f"{folder}/model")
    ...     loaded = load_model(f"{folder}/model")
    >>> bool((loaded.predict_proba(cohort) == pipe.predict_proba(cohort)).all())
    True
    """
    if isinstance(model, Pipeline) and isinstance(model.steps[-1][1], GraphRegressor):
        model = CohortRegressor(model.steps) if not isinstance(model, CohortClassifier) else model
    model = whole(model)
    if not isinstance(model, (GraphEstimator, CohortClassifier, SavedModel)):
        raise TypeError(f"a classifier of graphs or a pipeline can be saved, got {type(model).__name__}.")
    model.save(path, notes)


def load_model(path: str | Path) -> Any:
    """Read a model that `save_model` or a model's ``save`` wrote.

    Loading runs no code from the folder. A folder that is damaged, of another kind or from a newer version
    raises an error.

    Parameters
    ----------
    path : str or Path
        The folder.

    Returns
    -------
    GraphEstimator, CohortClassifier, FusedClassifier, DecisionClassifier or TableClassifier
        The fitted model; a `CohortClassifier` where the steps from cohort to graphs were saved with it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import load_model, make_estimator
    >>> graphs = make_ba2motifs(20, random_state=0)
    >>> model = make_estimator("lasso", random_state=0).fit(graphs)
    >>> with TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model")
    ...     loaded = load_model(f"{folder}/model")
    >>> bool((loaded.predict_proba(graphs) == model.predict_proba(graphs)).all())
    True
    """
    return _model_of(read_folder(path))


def _model_of(saved: Saved) -> Any:
    """Make the model of a folder, or of a part of one."""
    kinds = {method.estimator.__name__: method.estimator for method in ESTIMATORS.values()}
    name = saved.config.get("estimator")
    if not isinstance(name, str) or name not in (*kinds, *COMPOSED):
        raise ValueError(f"{saved.path} holds an unknown kind of model, {name!r}; upgrade cignn.")
    try:
        if name in COMPOSED:
            return COMPOSED[name]._from_saved(saved, _model_of)
        classifier = kinds[name]._from_saved(saved)
        if PREPARATION not in saved.files:
            return classifier
        whole = CohortRegressor if isinstance(classifier, GraphRegressor) else CohortClassifier
        return whole._from_saved(saved, classifier)
    except ModelError:
        raise
    except Exception as error:  # whatever comes of a config that says something else than the files
        line = first_line(error)
        raise ModelError(f"{saved.path} is damaged: config and weights do not fit ({line}).") from None
