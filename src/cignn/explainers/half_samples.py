"""Half-samples of the subjects of a group, with true or permuted labels or scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs, Deconfound, nuisance_maps
from cignn.datasets.cohort import Cohort
from cignn.datasets.scores import same_as_score, score_strata
from cignn.estimators.ci_gnn import CIGNNEstimator
from cignn.estimators.classifier import GraphClassifier, class_codes, labelled
from cignn.estimators.graph_estimator import GraphEstimator, check_graphs
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.estimators.neural import NeuralGraphEstimator
from cignn.estimators.regressor import GraphRegressor, scored
from cignn.estimators.subjects import Subjects
from cignn.graphs import GraphSet

STEPS = (Connectivity, ComBat, Deconfound, ConnectomeGraphs)
LEAST = 8  # subjects of a class: four in either half
LEAST_SCORED = 20  # subjects with a score: ten in either half


class Work(NamedTuple):
    """Graphs of all subjects and the classifier, or regressor, to clone."""

    classifier: GraphEstimator
    steps: Pipeline | None  # where the labels shape the graphs: to be fitted again for permuted labels
    data: Cohort | GraphSet
    graphs: GraphSet
    x: np.ndarray  # (g, e) connections
    labels: np.ndarray  # (g,) classes or scores
    positive: np.ndarray  # (g,) bool: of the target class; of scores, above the median
    target: Any
    sides: tuple[Any, Any]  # names of the others and of the target
    subjects: Subjects
    nuisances: dict[str, np.ndarray]
    score: str = ""  # name of the score; empty for classes

    @classmethod
    def of(cls, estimator: Any, data: Any, y: Any, target: Any) -> Work:
        """Check estimator and data, and make the graphs; y and target as in `explain_group`."""
        if not isinstance(data, (Cohort, GraphSet)):
            raise TypeError(f"explain_group needs a Cohort or a GraphSet, got {type(data).__name__}.")
        steps, classifier = None, estimator
        if isinstance(estimator, Pipeline):
            steps, classifier = Pipeline(estimator.steps[:-1]), estimator.steps[-1][1]
            steps = clone(steps) if estimator.steps[:-1] else None
        if not isinstance(classifier, (GraphClassifier, GraphRegressor)):
            advice = "; fit it and give its best_estimator_" if isinstance(classifier, BaseSearchCV) else ""
            raise TypeError(
                "explain_group needs a classifier or regressor of graphs, such as CIGNNClassifier(), or a "
                f"pipeline that ends with one, got {type(classifier).__name__}{advice}."
            )
        of_scores = isinstance(classifier, GraphRegressor)
        if of_scores and target is not None:
            raise ValueError(
                f"target names a class, the estimator predicts a score, got {target!r}; leave it out."
            )
        given = data.y if y is None else y
        graphs: Any = data
        nuisances: dict[str, np.ndarray] = {}
        if steps is not None:
            graphs = clone(steps).fit_transform(data, given)
            nuisances = _nuisances(steps, data, given if of_scores else None)
        check_graphs(graphs)
        if not graphs.aligned:
            raise ValueError("a group explanation needs aligned graphs (node i the same in each).")
        kept = steps if steps is not None and _uses_labels(steps) else None
        if isinstance(classifier, GraphRegressor):
            return cls._of_scores(classifier, kept, data, graphs, given, nuisances)
        graphs, labels = labelled(graphs, given)
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
            kept,
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

    @classmethod
    def _of_scores(
        cls,
        regressor: GraphRegressor,
        steps: Pipeline | None,
        data: Any,
        graphs: GraphSet,
        given: Any,
        nuisances: dict[str, np.ndarray],
    ) -> Work:
        """The same where a score is predicted; subjects are stratified by it."""
        graphs, scores = scored(graphs, given)
        strata = score_strata(scores)
        subjects = Subjects.of(_subject_numbers(graphs), strata, int(strata.max(initial=0)) + 1)
        if len(subjects.has) < LEAST_SCORED:
            raise ValueError(
                f"a group explanation of a score needs {LEAST_SCORED} subjects, got {len(subjects.has)}."
            )
        if np.ptp(scores) == 0:
            raise ValueError(f"all scores are {scores[0]:g}; a group explanation needs scores that differ.")
        name = str(regressor.target)
        return cls(
            _single(regressor, graphs),
            steps,
            data,
            graphs,
            connectivity_vector(graphs, int(graphs.n_nodes[0])),
            scores,
            scores > np.median(scores),
            None,
            (f"low {name}", f"high {name}"),
            subjects,
            nuisances,
            name,
        )


# settings of CI-GNN without the terms that reach neither mask nor prediction where the mask needs no latents
BARE = {"reconstruction": 0.0, "causal_effect": None, "independence": False}


def _single(classifier: GraphEstimator, graphs: GraphSet) -> GraphEstimator:
    """An estimator with one network where it has several, without files to write and idle terms."""
    single = clone(classifier)
    if isinstance(single, NeuralGraphEstimator):
        given = single.get_params(deep=False)
        single.set_params(**{k: v for k, v in (("checkpoint", None), ("verbose", 0)) if k in given})
        if "n_estimators" in given:
            single.set_params(n_estimators=1)
        if isinstance(single, CIGNNEstimator) and single._settings(graphs)["mask_from"] == "nodes":
            single.set_params(**{f"settings__{name}": value for name, value in BARE.items()})
    return single


def _nuisances(steps: Pipeline, data: Any, scores: Any = None) -> dict[str, np.ndarray]:
    """Maps of motion, age, sex and site in connections from which nothing was taken out.

    scores : what is predicted, where it is a score, which is no nuisance of itself.
    """
    if not isinstance(data, Cohort):
        return {}
    cohort = data
    if scores is not None:
        told = cohort.covariates
        cohort = cohort._with(
            covariates=told[[name for name in told if not same_as_score(told[name], scores)]]
        )
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
    """Draw complementary halves of the subjects, stratified by class or score."""
    labels = work.labels if permutation < 0 else permuted(work, random)
    codes = score_strata(labels) if work.score else np.unique(labels, return_inverse=True)[1]
    subjects = Subjects.of(work.subjects.of_scan, codes, int(codes.max()) + 1)
    everybody = np.arange(len(subjects.has))
    for _ in range(pairs):
        for half in subjects.cut(everybody, 0.5, int(random.integers(2**31 - 1))):
            yield Sample(subjects.scans(half), labels, permutation)


def permuted(work: Work, random: np.random.Generator) -> np.ndarray:
    """Labels exchanged between subjects; one with scans of several classes keeps these, in any order.

    Subjects exchange their mean score; how their scans differ from it stays theirs.
    """
    if work.score:
        count = np.bincount(work.subjects.of_scan)
        means = np.bincount(work.subjects.of_scan, work.labels) / count
        return work.labels + (random.permutation(means) - means)[work.subjects.of_scan]
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
