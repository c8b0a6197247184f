"""From a cohort to a classifier of graphs: the one place that puts the steps together."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from cignn.connectome.combat import ComBat
from cignn.connectome.connectivity import Connectivity
from cignn.connectome.connectome_graphs import ConnectomeGraphs


def make_connectome_pipeline(
    classifier: Any = None,
    *,
    connectivity: str | Connectivity = "correlation",
    combat: bool | ComBat = False,
    density: float | None = None,
    graphs: ConnectomeGraphs | None = None,
) -> Pipeline:
    """Make a pipeline that computes connectivity, harmonises sites, makes graphs and classifies them.

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
    density : float, default=None
        Share of the strongest connections of each subject that become edges, in (0, 1]. None keeps all.
    graphs : ConnectomeGraphs, default=None
        The step that makes graphs; give either this or ``density``.

    Returns
    -------
    Pipeline
        Its steps are named "connectivity", "combat" (where there is one), "graphs" and "classifier".

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
    steps.append(("graphs", ConnectomeGraphs(density) if graphs is None else graphs))
    if classifier is not None:
        steps.append(("classifier", classifier))
    return Pipeline(steps)
