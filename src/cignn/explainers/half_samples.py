"""Half-samples of the subjects of a group, with true or permuted labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs, Deconfound, nuisance_maps
from cignn.datasets.cohort import Cohort
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.ci_gnn import CIGNNClassifier
from cignn.estimators.classifier import GraphClassifier, class_codes, labelled
from cignn.estimators.graph_estimator import check_graphs
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.estimators.subjects import Subjects
from cignn.graphs import GraphSet

STEPS = (Connectivity, ComBat, Deconfound, ConnectomeGraphs)
LEAST = 8  # subjects of a class: four in either half


class Work(NamedTuple):
    """Graphs of all subjects and the classifier to clone."""

    classifier: GraphClassifier
    steps: Pipeline | None  # where the labels shape the graphs: to be fitted again for permuted labels
    data: Cohort | GraphSet
    graphs: GraphSet
    x: np.ndarray  # (g, e) connections
    labels: np.ndarray  # (g,)
    positive: np.ndarray  # (g,) bool: of the target class
    target: Any
    sides: tuple[Any, Any]  # names of the others and of the target
    subjects: Subjects
    nuisances: dict[str, np.ndarray]

    @classmethod
    def of(cls, estimator: Any, data: Any, y: Any, target: Any) -> Work:
        """Check estimator and data, and make the graphs; y and target as in `explain_group`."""
        if not isinstance(data, (Cohort, GraphSet)):
            raise TypeError(f"explain_group needs a Cohort or a GraphSet, got {type(data).__name__}.")
        steps, classifier = None, estimator
        if isinstance(estimator, Pipeline):
            steps, classifier = Pipeline(estimator.steps[:-1]), estimator.steps[-1][1]
            steps = clone(steps) if estimator.steps[:-1] else None
        if not isinstance(classifier, GraphClassifier):
            advice = "; fit it and give its best_estimator_" if isinstance(classifier, BaseSearchCV) else ""
            raise TypeError(
                "explain_group needs a classifier of graphs, such as CIGNNClassifier(), or a pipeline that "
                f"ends with one, got {type(classifier).__name__}{advice}."
            )
        given = data.y if y is None else y
        graphs, nuisances = data, {}
        if steps is not None:
            nuisances = _nuisances(steps, data)
            graphs = clone(steps).fit_transform(data, given)
        check_graphs(graphs)
        graphs, labels = labelled(graphs, given)
        if not graphs.aligned:
            raise ValueError("a group explanation needs aligned graphs (node i the same in each).")
        classes, codes = class_codes(labels)
        if target is None and len(classes) > 2:
            raise ValueError(f"there are {len(classes)} classes; name the one to explain with target=.")
        names = classes.tolist()
        chosen = names[1] if target is None else target
        if chosen not in names:
            raise ValueError(f"target must be one of the classes {names}, got {chosen!r}.")
        rest = [one for one in names if one != chosen]
        subjects = Subjects.of(_subject_numbers(graphs), codes, len(classes))
        fewest = int(subjects.has.sum(0).min())
        if fewest < LEAST:
            label = names[int(subjects.has.sum(0).argmin())]
            raise ValueError(
                f"a group explanation needs {LEAST} subjects of every class, class {label!r} has {fewest}."
            )
        n = int(graphs.n_nodes[0])
        return cls(
            _single(classifier, graphs),
            steps if steps is not None and _uses_labels(steps) else None,
            data,
            graphs,
            connectivity_vector(graphs, n),
            labels,
            labels == chosen,
            chosen,
            (rest[0] if len(rest) == 1 else "others", chosen),
            subjects,
            nuisances,
        )


# settings of CI-GNN without the terms that reach neither mask nor prediction where the mask needs no latents
BARE = {"reconstruction": 0.0, "causal_effect": None, "independence": False}


def _single(classifier: GraphClassifier, graphs: GraphSet) -> GraphClassifier:
    """An estimator with one network where it has several, without files to write and idle terms."""
    single = clone(classifier)
    if isinstance(single, NeuralGraphClassifier):
        given = single.get_params(deep=False)
        single.set_params(**{k: v for k, v in (("checkpoint", None), ("verbose", 0)) if k in given})
        if "n_estimators" in given:
            single.set_params(n_estimators=1)
        if isinstance(single, CIGNNClassifier) and single._settings(graphs)["mask_from"] == "nodes":
            single.set_params(**{f"settings__{name}": value for name, value in BARE.items()})
    return single


def _nuisances(steps: Pipeline, data: Any) -> dict[str, np.ndarray]:
    """Maps of motion, age, sex and site in connections from which nothing was taken out."""
    if not isinstance(data, Cohort):
        return {}
    cohort = data
    for _, step in steps.steps:
        if cohort.matrices is not None:
            break
        if step is None or step == "passthrough":
            continue
        cohort = clone(step).fit_transform(cohort, cohort.y)
        if not isinstance(cohort, Cohort):
            return {}
    return {} if cohort.matrices is None else nuisance_maps(cohort)


def _uses_labels(steps: Pipeline) -> bool:
    """Whether a step is fitted with labels; one that is not known may be."""
    return any(
        getattr(step, "fit_on", "all") != "all"
        or getattr(step, "keep_label", False)
        or not (step in (None, "passthrough") or isinstance(step, STEPS))
        for _, step in steps.steps
    )


def _subject_numbers(graphs: GraphSet) -> np.ndarray:
    """(g,) number of the subject of each graph."""
    if "subject" not in graphs.meta:
        return np.arange(len(graphs))
    return np.unique(np.asarray(graphs.meta["subject"]).astype(str), return_inverse=True)[1]


# ---------------------------------------------------------------------------- half-samples


class Sample(NamedTuple):
    """Graphs to train on and the labels of all; permutation : −1 for the true labels."""

    rows: np.ndarray
    labels: np.ndarray
    permutation: int


def half_samples(work: Work, pairs: int, permutation: int, random: np.random.Generator) -> Iterator[Sample]:
    """Draw complementary halves of the subjects, stratified by class."""
    labels = work.labels if permutation < 0 else permuted(work, random)
    classes, codes = np.unique(labels, return_inverse=True)
    subjects = Subjects.of(work.subjects.of_scan, codes, len(classes))
    everybody = np.arange(len(subjects.has))
    for _ in range(pairs):
        for half in subjects.cut(everybody, 0.5, int(random.integers(2**31 - 1))):
            yield Sample(subjects.scans(half), labels, permutation)


def permuted(work: Work, random: np.random.Generator) -> np.ndarray:
    """Labels exchanged between subjects; one with scans of several classes keeps these, in any order."""
    labels, of_scan = work.labels.copy(), work.subjects.of_scan
    single = work.subjects.has.sum(1) == 1
    own = np.empty(len(single), labels.dtype)
    own[of_scan] = labels
    own[single] = random.permutation(own[single])
    of_one = single[of_scan]
    labels[of_one] = own[of_scan[of_one]]
    for subject in np.flatnonzero(~single):
        scans = of_scan == subject
        labels[scans] = random.permutation(labels[scans])
    return labels
