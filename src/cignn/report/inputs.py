"""What a report is made of: a model and its data as graphs, explained, and the facts of the run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from cignn import __version__
from cignn.datasets.atlas import SYSTEMS
from cignn.datasets.cohort import Cohort
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.estimators.explaining import told_by_weights
from cignn.estimators.kept_epochs import told_by_epochs_of
from cignn.estimators.shallow import ShallowGraphClassifier
from cignn.evaluation.carriers import subject_score_table, subject_scores
from cignn.evaluation.removal import Removal, removal
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

STEPS = tuple(k * 10**power for power in range(4) for k in (1, 2, 5))  # numbers of edges removed


def explained(classifier: GraphClassifier, graphs: GraphSet) -> Explanations:
    """Explain graphs by the classifier itself, or a network by its contributions."""
    if hasattr(classifier, "explain"):
        return classifier.explain(graphs)
    if hasattr(classifier, "network_"):
        from cignn.explainers import make_explainer

        return make_explainer("contributions").fit(classifier, graphs).explain(graphs)
    if isinstance(classifier, ShallowGraphClassifier):
        try:
            return classifier.explain(graphs)
        except AttributeError as error:  # it says why it does not
            raise ValueError(str(error)) from None
    raise ValueError(
        f"{type(classifier).__name__} does not explain its decisions; use a classifier of make_estimator, "
        'such as make_estimator("ci-gnn").'
    )


def member_probabilities(classifier: GraphClassifier, graphs: GraphSet) -> np.ndarray | None:
    """(m, g, k) probabilities by each member of an ensemble; None without one."""
    network = getattr(classifier, "network_", None)
    members = [] if network is None else network.networks()
    if len(members) < 2:
        return None
    said = []
    for member in members:
        alone = copy.copy(classifier)
        alone.network_ = member
        said.append(alone.predict_proba(graphs))
    return np.stack(said)


def without_edges(
    classifier: GraphClassifier, explanations: Explanations, probabilities: np.ndarray, seed: int
) -> Removal:
    """Probabilities without 1, 2, 5, 10 and so on of the edges that matter most, up to half of all."""
    most = max(1, explanations.graphs.n_edges.max(initial=0) // 2)
    steps = [0, *(count for count in STEPS if count <= most)]
    given: dict[str, Any] = {"probabilities": probabilities, "random_state": seed}
    return removal(classifier, explanations, steps, n_random=1, **given)


def carriers(
    explanations: Explanations, cohort: Cohort | None, held_out: np.ndarray | None
) -> pd.DataFrame | None:
    """Scores of known connections by role, of the subjects not trained on where carriers are among them."""
    if cohort is None or cohort.carries is None or cohort.y is None or not explanations.graphs.aligned:
        return None
    carrying = (cohort.carries != 0).any(1)
    chosen = np.ones(len(cohort), bool) if held_out is None else np.asarray(held_out, bool)
    chosen = chosen if (chosen & carrying).any() else np.ones(len(cohort), bool)
    if not carrying.any() or len(np.unique(cohort.y[carrying])) > 1:
        return None
    return subject_score_table(subject_scores(explanations[chosen], cohort[chosen]))


def as_graphs(
    model: GraphClassifier | CohortClassifier | Pipeline, data: GraphSet | Cohort
) -> tuple[GraphClassifier, GraphSet]:
    """The classifier at the end of a model, and the data as it sees them."""
    if isinstance(model, CohortClassifier):
        return model.classifier_, model.to_graphs(data) if isinstance(data, Cohort) else data
    if isinstance(model, Pipeline):
        steps, model = model[:-1], model[-1]
        if not isinstance(data, GraphSet):
            data = steps.transform(data)
    if isinstance(data, Cohort):
        from cignn.connectome import make_connectome_pipeline

        data = make_connectome_pipeline().fit_transform(data)
    if not isinstance(data, GraphSet):
        raise TypeError(f"a report is made of a GraphSet or a Cohort, got {type(data).__name__}.")
    return model, data


def colours(cohort: Cohort | None) -> str | dict[str, str]:
    """The figures' own colours, unless the atlas has others than the paper's."""
    given = {} if cohort is None or cohort.atlas is None else dict(cohort.atlas.colours)
    return given if any(SYSTEMS.get(name) != colour for name, colour in given.items()) else "safe"


def steps_of(model: Any) -> tuple[Any, ...]:
    """Return the steps before the classifier of a model; none of a classifier of graphs."""
    steps = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
    return tuple(step for step in steps if step is not None and step != "passthrough")


def weights_facts(explanations: Explanations) -> dict[str, object]:
    """Say that weights hardly tell edges apart, where that is so."""
    told = told_by_weights(explanations)
    return {} if told is None else {"weights": told}


def facts(
    classifier: GraphClassifier, explanations: Explanations, digest: str | None, steps: Sequence[Any] = ()
) -> dict[str, object]:
    """Facts of a run: its steps with the settings that are not the default, its model and the versions.

    explanations : of which it is told if their weights hardly differ within a graph.
    """
    import platform

    import sklearn
    import torch

    facts: dict[str, object] = {type(step).__name__: " ".join(repr(step).split()) for step in steps}
    facts["model"] = type(classifier).__name__
    if digest is not None:
        facts["fingerprint of the training data"] = digest
    if getattr(classifier, "best_epoch_", None) is not None:
        chosen = np.atleast_1d(classifier.best_epoch_)  # one per member of an ensemble
        told = told_by_epochs_of(classifier, mask_only=True)
        facts["epoch chosen on validation data"] = ", ".join(map(str, chosen)) if told is None else told
    if hasattr(classifier, "network_") and hasattr(classifier, "explain"):  # others have no mask
        facts |= weights_facts(explanations)
    versions = {"cignn": __version__, "torch": torch.__version__, "scikit-learn": sklearn.__version__}
    return facts | versions | {"numpy": np.__version__, "python": platform.python_version()}
