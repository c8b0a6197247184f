"""`ReportData`: everything a report shows, gathered once from a fitted model and the graphs it explains."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from cignn import __version__
from cignn._progress import track
from cignn.datasets.atlas import SYSTEMS
from cignn.datasets.cohort import Cohort
from cignn.datasets.exclusions import exclusion_lines
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.evaluation.classification import positive_class
from cignn.evaluation.faithfulness import edge_ranks, probabilities_without
from cignn.evaluation.findings import Audit
from cignn.evaluation.tasks import MissingTask
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

SHARES = (0.0, 0.05, 0.1, 0.2, 0.5)  # of a graph's edges taken away


class Removal(NamedTuple):
    """Probability of the predicted class when edges are taken away, heaviest first or by chance.

    shares : (s,), the first 0; heaviest, chance : (s, g).
    """

    shares: np.ndarray
    heaviest: np.ndarray
    chance: np.ndarray


@dataclass(frozen=True)
class ReportData:
    """What a report shows.

    explanations : of g graphs, with their names, labels (y), sites (groups) and subjects (meta)
    classes : (k,) labels the model knows; class_names : label → what readers call it
    probabilities : (g, k); member_probabilities : (m, g, k) of each member of an ensemble, or None
    removal : what becomes of the decision without the heaviest edges, or None
    held_out : (g,) bool, graphs the model was not trained on, or None where that is not known; only these
        are scored. trained_on : whether the model was trained on exactly these graphs
    positive : the class, of two, that sensitivity and F1 are of; by default the second in sorted order
    results : rows of `evaluate`, or None; audit : findings, or None; demographics : table, or None
    predictions : rows of `Store.predictions` of one method of these results, or None. With them the scores,
        the calibration and the sites shown are those of the evaluation, every prediction by a model that had
        not seen the subject; the model of this report then only explains
    missing : tasks of the evaluation that have no scores: with any, methods are not ranked
    exclusions : lines on who was left out and why; colours : of the systems, as in the figures
    settings, facts : of the run, shown as tables
    """

    explanations: Explanations
    classes: np.ndarray
    probabilities: np.ndarray
    member_probabilities: np.ndarray | None = None
    removal: Removal | None = None
    held_out: np.ndarray | None = None
    trained_on: bool = False
    results: pd.DataFrame | None = None
    predictions: pd.DataFrame | None = None
    missing: Sequence[MissingTask] = ()
    positive: Any = None
    audit: Audit | None = None
    demographics: pd.DataFrame | None = None
    exclusions: Sequence[str] = ()
    class_names: Mapping[Any, str] = field(default_factory=dict)
    colours: str | Mapping[str, str] = "safe"
    settings: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    title: str = "Connections behind the decisions"

    def __post_init__(self) -> None:
        g, k = len(self.explanations), len(self.classes)
        if not g:
            raise ValueError("a report needs at least one explained graph, got none.")
        if self.probabilities.shape != (g, k):
            raise ValueError(
                f"probabilities must be {(g, k)}, (graphs, classes), got {self.probabilities.shape}."
            )
        if self.member_probabilities is not None and self.member_probabilities.shape[1:] != (g, k):
            shape = self.member_probabilities.shape
            raise ValueError(f"member_probabilities must be (members, {g}, {k}), got {shape}.")
        if self.held_out is not None and np.shape(self.held_out) != (g,):
            raise ValueError(f"held_out must have one truth per graph ({g}), got {np.shape(self.held_out)}.")
        positive_class(self.classes, self.positive)  # says which classes there are
        if self.predictions is not None and not len(self.predictions):
            raise ValueError("predictions of the evaluation must have rows, got none; pass None instead.")

    @property
    def graphs(self) -> GraphSet:
        """The graphs explained."""
        return self.explanations.graphs

    @property
    def subjects(self) -> np.ndarray:
        """(g,) names of the subjects; without any each graph is its own."""
        if "subject" not in self.graphs.meta:
            return np.array([f"graph {i}" for i in range(len(self.graphs))])
        return np.array([str(name) for name in self.graphs.meta["subject"]])

    @property
    def unit(self) -> str:
        """What a graph is: "subject" where each is of another one, else "scan"; without names "graph"."""
        if "subject" not in self.graphs.meta:
            return "graph"
        return "scan" if len(set(self.subjects.tolist())) < len(self.graphs) else "subject"

    @property
    def names(self) -> list[str]:
        """(g,) names of the graphs; scans of a subject are numbered."""
        names = pd.Series(self.subjects)
        if self.unit != "scan":
            return names.tolist()
        scan = names.groupby(names, sort=False).cumcount() + 1
        return [f"{name} (scan {k})" for name, k in zip(names, scan, strict=True)]

    @property
    def positive_number(self) -> int:
        """Number of the class, of two, that scores are of."""
        label = positive_class(self.classes, self.positive)
        return 1 if label is None else self.classes.tolist().index(label)

    @property
    def sites(self) -> np.ndarray | None:
        """(g,) sites as words, or None."""
        groups = self.graphs.groups
        return None if groups is None else np.array([str(site) for site in groups])

    def class_name(self, label: Any) -> str:
        """What readers call a label."""
        return str(self.class_names.get(label, label))

    @property
    def class_labels(self) -> list[str]:
        """(k,) names of the classes."""
        return [self.class_name(label) for label in self.classes.tolist()]

    @property
    def predicted(self) -> np.ndarray:
        """(g,) numbers of the most probable classes."""
        return self.probabilities.argmax(1)

    @property
    def truth(self) -> np.ndarray:
        """(g,) numbers of the true classes, −1 where the label is missing or unknown to the model."""
        if self.graphs.y is None:
            return np.full(len(self.graphs), -1)
        number = {label: k for k, label in enumerate(self.classes.tolist())}
        return np.array([number.get(label, -1) for label in self.graphs.y.tolist()])

    @property
    def scored(self) -> np.ndarray:
        """(g,) bool: labelled and not trained on; all that have labels where all were trained on.

        Nothing is scored where it is not known what the model was trained on.
        """
        known = np.full(len(self.graphs), self.trained_on) if self.held_out is None else self.held_out
        return (self.truth >= 0) & np.asarray(known, bool)


def report_of(
    model: Any,
    graphs: GraphSet | Cohort,
    cohort: Cohort | None = None,
    results: pd.DataFrame | None = None,
    audit: Audit | None = None,
    *,
    explanations: Explanations | None = None,
    held_out: np.ndarray | None = None,
    predictions: pd.DataFrame | None = None,
    missing: Sequence[MissingTask] = (),
    positive: Any = None,
    class_names: Mapping[Any, str] | None = None,
    title: str | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> ReportData:
    """Explain graphs with a fitted model and gather what its report shows.

    Parameters
    ----------
    model : fitted classifier of graphs with ``explain``, a `CohortClassifier` or a pipeline that ends in one
    graphs : graphs to explain; or a cohort, which becomes graphs by the model's own steps or, for a bare
        classifier, by `Connectivity` and `ConnectomeGraphs`
    cohort : the cohort behind the graphs: its demographic table and its atlas's colours are shown
    results : rows of `evaluate` on these data, the baselines among them
    audit : what `audit` found in the cohort
    explanations : of the graphs, from `make_explainer`, where the model has no ``explain`` of its own
    held_out : (g,) bool, graphs the model was not trained on; only these are scored. Classifiers of this
        package know by themselves what they were trained on; where nothing is known, nothing is scored
    predictions : rows of `Store.predictions` of one method of ``results``: with them the scores, calibration
        and sites shown are the evaluation's, and the model only explains
    missing : tasks of the evaluation without scores; with any, methods are not ranked
    positive : the class, of two, that sensitivity and F1 are of; by default the second in sorted order
    class_names : label → name, for instance ``{0: "TD", 1: "ASD"}``
    random_state : of the edges taken away by chance
    verbose : 1 shows a progress bar
    """
    if isinstance(graphs, Cohort):
        cohort = graphs if cohort is None else cohort
        if held_out is None and isinstance(model, CohortClassifier):
            held_out = ~model.trained_on(graphs)
    given = graphs
    classifier, graphs = _as_graphs(model, graphs)
    if cohort is not None and len(cohort) != len(graphs):
        raise ValueError(
            f"the cohort has {len(cohort)} scans and there are {len(graphs)} graphs; give the same."
        )
    if not len(graphs):
        raise ValueError("a report needs at least one graph to explain, got none.")
    if explanations is None:
        if not hasattr(classifier, "explain"):
            raise ValueError(
                f"{type(classifier).__name__} does not explain its decisions; pass explanations="
                'make_explainer("gnn-explainer").fit(model, graphs).explain(graphs).'
            )
        explanations = classifier.explain(graphs)
        if isinstance(model, CohortClassifier) and isinstance(given, Cohort):
            explanations = explanations.with_connectivity(model.shown_connectivity(given))
    probabilities = np.asarray(classifier.predict_proba(graphs))
    if held_out is None and isinstance(classifier, GraphClassifier):
        held_out = ~classifier.trained_on(graphs)
    digest = getattr(classifier, "training_digest_", None)
    same = digest is not None and digest == graphs.digest()
    all_seen = same if held_out is None else not np.any(held_out)
    more = {} if title is None else {"title": title}
    return ReportData(
        explanations,
        np.asarray(classifier.classes_),
        probabilities,
        member_probabilities(classifier, graphs),
        removal(classifier, explanations, probabilities, random_state=random_state, verbose=verbose),
        None if all_seen or held_out is None else np.asarray(held_out, bool),
        trained_on=all_seen,
        results=results,
        predictions=predictions,
        missing=tuple(missing),
        positive=positive,
        audit=audit,
        demographics=None if cohort is None else cohort.summary(dict(class_names or {})),
        exclusions=() if cohort is None else tuple(exclusion_lines(cohort.exclusions)),
        class_names=dict(class_names or {}),
        colours=_colours(cohort),
        settings=dict(getattr(classifier, "settings_", {})),
        facts=_facts(classifier, digest),
        **more,
    )


def member_probabilities(classifier: Any, graphs: GraphSet) -> np.ndarray | None:
    """(m, g, k) what each member of an ensemble says by itself; None where there is no ensemble."""
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


def removal(
    classifier: Any,
    explanations: Explanations,
    probabilities: np.ndarray | None = None,
    shares: Sequence[float] = SHARES,
    random_state: int = 0,
    verbose: int = 0,
) -> Removal:
    """Take edges away from every graph, the heaviest or as many by chance, and ask the classifier again.

    probabilities : (g, k) of the whole graphs, where they are known already. verbose : 1 shows a bar.
    """
    graphs = explanations.graphs
    rng = np.random.default_rng(random_state)
    by_chance = Explanations(graphs, [rng.random(n) for n in graphs.n_edges])
    whole = np.asarray(classifier.predict_proba(graphs) if probabilities is None else probabilities)
    every, target = np.arange(len(graphs)), whole.argmax(1)
    left = np.empty((2, len(shares), len(graphs)))
    work = chain.from_iterable(
        probabilities_without(classifier, explanations, edge_ranks(ranking), shares, whole)
        for ranking in (explanations, by_chance)
    )
    for at, after in enumerate(track(work, "removing edges", 2 * len(shares), verbose)):
        left[divmod(at, len(shares))] = after[every, target]
    return Removal(np.array(shares, float), *left)


# ----------------------------------------------------------------------- helpers


def _as_graphs(model: Any, data: GraphSet | Cohort) -> tuple[Any, GraphSet]:
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


def _colours(cohort: Cohort | None) -> str | dict[str, str]:
    """The figures' own colours, unless the atlas has others than the paper's."""
    given = {} if cohort is None or cohort.atlas is None else dict(cohort.atlas.colours)
    return given if any(SYSTEMS.get(name) != colour for name, colour in given.items()) else "safe"


def _facts(classifier: Any, digest: str | None) -> dict[str, Any]:
    import platform

    import sklearn
    import torch

    facts = {"model": type(classifier).__name__}
    if digest is not None:
        facts["fingerprint of the training data"] = digest
    if getattr(classifier, "best_epoch_", None) is not None:
        chosen = np.atleast_1d(classifier.best_epoch_)  # one per network of a ensemble
        facts["epoch chosen on validation data"] = ", ".join(map(str, chosen))
    versions = {"cignn": __version__, "torch": torch.__version__, "scikit-learn": sklearn.__version__}
    return facts | versions | {"numpy": np.__version__, "python": platform.python_version()}
