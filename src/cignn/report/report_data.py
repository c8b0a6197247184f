"""`ReportData`: everything a report shows, computed by `report_of` from a fitted model and graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from cignn._progress import working
from cignn.datasets.cohort import Cohort
from cignn.datasets.exclusions import exclusion_lines
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.cohort_classifier import CohortClassifier
from cignn.evaluation.classification import positive_class
from cignn.evaluation.nuisances import NuisanceChecks
from cignn.evaluation.probes import Audit
from cignn.evaluation.removal import Removal
from cignn.evaluation.reproducibility import Reproducibility
from cignn.evaluation.tasks import MissingTask
from cignn.explanations import Explanations, GroupExplanation
from cignn.graphs import GraphSet
from cignn.report.inputs import (
    as_graphs,
    carriers,
    colours,
    explained,
    facts,
    member_probabilities,
    steps_of,
    without_edges,
)
from cignn.report.nuisances import checked_nuisances


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows.

    Parameters
    ----------
    explanations : Explanations
        Explanations of g graphs, with their names, labels (y), sites (groups) and subjects (meta).
    classes : ndarray of shape (k,)
        Labels the model knows.
    probabilities : ndarray of shape (g, k)
        Probabilities of the classes.
    member_probabilities : ndarray of shape (m, g, k), default=None
        Probabilities by each member of an ensemble.
    removal : Removal, default=None
        Probabilities after numbers of edges were removed, from `removal`.
    held_out : bool ndarray of shape (g,), default=None
        Graphs the model was not trained on, None where that is not known. Only these are scored.
    trained_on : bool, default=False
        Whether the model was trained on exactly these graphs.
    results : DataFrame, default=None
        Rows of `evaluate`.
    predictions : DataFrame, default=None
        Rows of `Store.predictions` of one method of these results. With them the scores, the calibration and
        the sites shown are those of the evaluation, each prediction by a model that had not seen the subject;
        the model of this report then only explains.
    missing : sequence of MissingTask, default=()
        Tasks of the evaluation without scores. With any, methods are not ranked.
    positive : object, default=None
        The class, of two, that sensitivity and F1 are of. By default the second in sorted order.
    audit : Audit, default=None
        Findings of `audit`.
    demographics : DataFrame, default=None
        Demographic table.
    exclusions : sequence of str, default=()
        Who was left out and why, one line each.
    class_names : mapping of object to str, default={}
        Names of the labels for readers.
    colours : str or mapping of str to str, default="safe"
        Colours of the systems, as in the figures.
    settings : mapping of str to object, default={}
        Settings of the model, shown as a table.
    facts : mapping of str to object, default={}
        Versions and other facts, shown as a table.
    title : str, default="Connections behind the decisions"
        Title of the report.
    group : GroupExplanation, default=None
        Explanation of the group with its uncertainty, from `explain_group`. Without it the report shows means
        and says that nothing is known about how sure they are.
    reproducibility : sequence of Reproducibility, default=()
        How well maps of disjoint subjects agree, from `reproducibility`.
    carriers : DataFrame, default=None
        How well known connections are found in those who carry them and in others, from
        `subject_score_table`.
    steps : sequence of transformers, default=()
        What comes before the classifier: connectivity, harmonisation, graphs.
    permutations : DataFrame, default=None
        Tests against permuted labels, from `permutation_table`.
    trivial : DataFrame, default=None
        Rows like those of ``results`` of methods that need no connection.
    nuisances : NuisanceChecks, default=None
        Whether the predictions scored follow a nuisance at equal label.
    learning : DataFrame, default=None
        The learning curve, from `LearningCurve.to_frame`.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn import Explanations, GraphSet
    >>> from cignn.report import ReportData
    >>> graphs = GraphSet.from_arrays([1 - np.eye(3)], y=["a"])
    >>> explanations = Explanations(graphs, [np.ones(3)])
    >>> data = ReportData(explanations, np.array(["a", "b"]), np.array([[0.8, 0.2]]))
    >>> data.unit, data.class_labels, data.predicted.tolist()
    ('graph', ['a', 'b'], [0])
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
    positive: object = None
    audit: Audit | None = None
    demographics: pd.DataFrame | None = None
    exclusions: Sequence[str] = ()
    class_names: Mapping[Any, str] = field(default_factory=dict)
    colours: str | Mapping[str, str] = "safe"
    settings: Mapping[str, object] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    title: str = "Connections behind the decisions"
    group: GroupExplanation | None = None
    reproducibility: Sequence[Reproducibility] = ()
    carriers: pd.DataFrame | None = None
    steps: Sequence[Any] = ()
    permutations: pd.DataFrame | None = None
    trivial: pd.DataFrame | None = None
    nuisances: NuisanceChecks | None = None
    learning: pd.DataFrame | None = None

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
            raise ValueError(f"held_out must have one entry per graph ({g}), got {np.shape(self.held_out)}.")
        positive_class(self.classes, self.positive)  # raises for an unknown class
        nodes = int(self.graphs.n_nodes.max(initial=0))
        if self.group is not None and (not self.graphs.aligned or self.group.map.shape != (nodes, nodes)):
            found = self.group.map.shape
            raise ValueError(f"the group's map must have the {nodes} nodes of aligned graphs, got {found}.")
        if self.predictions is not None and not len(self.predictions):
            raise ValueError("predictions of the evaluation must have rows, got none; pass None instead.")

    @property
    def graphs(self) -> GraphSet:
        """The graphs explained."""
        return self.explanations.graphs

    @property
    def subjects(self) -> np.ndarray:
        """Names of the subjects, array of shape (g,); without any, those of the graphs."""
        if "subject" not in self.graphs.meta:
            return np.array([f"graph {i}" for i in range(len(self.graphs))])
        return np.array([str(name) for name in self.graphs.meta["subject"]])

    @property
    def unit(self) -> str:
        """What a graph is: "subject" with one graph per subject, else "scan"; without subjects "graph"."""
        if "subject" not in self.graphs.meta:
            return "graph"
        return "scan" if len(set(self.subjects.tolist())) < len(self.graphs) else "subject"

    @property
    def names(self) -> list[str]:
        """Names of the g graphs; scans of one subject are numbered."""
        names = pd.Series(self.subjects)
        if self.unit != "scan":
            return names.tolist()
        scan = names.groupby(names, sort=False).cumcount() + 1
        return [f"{name} (scan {k})" for name, k in zip(names, scan, strict=True)]

    @property
    def positive_number(self) -> int:
        """Number of the positive class."""
        label = positive_class(self.classes, self.positive)
        return 1 if label is None else self.classes.tolist().index(label)

    @property
    def sites(self) -> np.ndarray | None:
        """Sites, array of str of shape (g,), or None."""
        groups = self.graphs.groups
        return None if groups is None else np.array([str(site) for site in groups])

    def class_name(self, label: object) -> str:
        """Return the name of a label for readers.

        Parameters
        ----------
        label : object
            One of ``classes``.

        Returns
        -------
        str
            Its name in ``class_names``, or the label itself.
        """
        return str(self.class_names.get(label, label))

    @property
    def class_labels(self) -> list[str]:
        """Names of the k classes."""
        return [self.class_name(label) for label in self.classes.tolist()]

    @property
    def reference_name(self) -> str:
        """Name of the controls that deviations are measured from, for readers."""
        reference = self.explanations.reference
        given = "" if reference is None else str(reference.name)
        known = {str(label): self.class_name(label) for label in self.classes.tolist()}
        return known.get(given, given)

    @property
    def predicted(self) -> np.ndarray:
        """Numbers of the most probable classes, array of shape (g,)."""
        return self.probabilities.argmax(1)

    @property
    def truth(self) -> np.ndarray:
        """Numbers of the true classes, array of shape (g,); −1 for missing and unknown labels."""
        if self.graphs.y is None:
            return np.full(len(self.graphs), -1)
        number = {label: k for k, label in enumerate(self.classes.tolist())}
        return np.array([number.get(label, -1) for label in self.graphs.y.tolist()])

    @property
    def scored(self) -> np.ndarray:
        """Graphs that are scored, bool array of shape (g,): labelled and not trained on.

        All labelled graphs where the model was trained on all, none where that is not known.
        """
        known = np.full(len(self.graphs), self.trained_on) if self.held_out is None else self.held_out
        return (self.truth >= 0) & np.asarray(known, bool)


def report_of(
    model: GraphClassifier | CohortClassifier | Pipeline,
    graphs: GraphSet | Cohort,
    cohort: Cohort | None = None,
    results: pd.DataFrame | None = None,
    audit: Audit | None = None,
    *,
    explanations: Explanations | None = None,
    held_out: np.ndarray | None = None,
    predictions: pd.DataFrame | None = None,
    missing: Sequence[MissingTask] = (),
    positive: object = None,
    class_names: Mapping[Any, str] | None = None,
    title: str | None = None,
    group: GroupExplanation | None = None,
    reproducibility: Sequence[Reproducibility] = (),
    steps: Sequence[Any] = (),
    permutations: pd.DataFrame | None = None,
    trivial: pd.DataFrame | None = None,
    learning: pd.DataFrame | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> ReportData:
    """Explain graphs with a fitted model and compute everything its report shows.

    Parameters
    ----------
    model : GraphClassifier, CohortClassifier or Pipeline
        Fitted classifier of graphs with ``explain``, or a model of cohorts that ends in one.
    graphs : GraphSet or Cohort
        Graphs to explain. A cohort becomes graphs by the model's own steps or, for a classifier of graphs, by
        `Connectivity` and `ConnectomeGraphs`.
    cohort : Cohort, default=None
        The cohort of the graphs: its demographic table, exclusions and its atlas's colours are shown.
    results : DataFrame, default=None
        Rows of `evaluate` on these data, with the baselines.
    audit : Audit, default=None
        Findings of `audit` in the cohort.
    explanations : Explanations, default=None
        Explanations of the graphs from `make_explainer`, for models without ``explain``.
    held_out : bool array of shape (g,), default=None
        Graphs the model was not trained on; only these are scored. By default classifiers of this package
        know which they were trained on; for others nothing is scored.
    predictions : DataFrame, default=None
        Rows of `Store.predictions` of one method of ``results``: with them the scores, calibration and sites
        shown are the evaluation's, and the model only explains.
    missing : sequence of MissingTask, default=()
        Tasks of the evaluation without scores. With any, methods are not ranked.
    positive : object, default=None
        The class, of two, that sensitivity and F1 are of. By default the second in sorted order.
    class_names : mapping of object to str, default=None
        Names of the labels, for instance ``{0: "TD", 1: "ASD"}``.
    title : str, default=None
        Title of the report.
    group : GroupExplanation, default=None
        Explanation of the group with its uncertainty, from `explain_group`.
    reproducibility : sequence of Reproducibility, default=()
        How well maps of disjoint subjects agree, from `reproducibility`.
    steps : sequence of transformers, default=()
        What comes before the classifier, by default the steps of the model.
    permutations : DataFrame, default=None
        Tests against permuted labels, from `permutation_table`.
    trivial : DataFrame, default=None
        Rows like those of ``results`` of methods that need no connection.
    learning : DataFrame, default=None
        The learning curve, from `LearningCurve.to_frame`.
    random_state : int, default=0
        Seed of the random edges that are removed.
    verbose : int, default=0
        Whether to say what is being done.

    Returns
    -------
    ReportData
        What `write_report` takes.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.report import report_of
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> data = report_of(model, graphs, class_names={0: "house", 1: "cycle"})
    >>> data.class_labels, data.probabilities.shape
    (['house', 'cycle'], (8, 2))
    """
    if isinstance(graphs, Cohort):
        cohort = graphs if cohort is None else cohort
        if held_out is None and isinstance(model, CohortClassifier):
            held_out = ~model.trained_on(graphs)
    given = graphs
    classifier, graphs = as_graphs(model, graphs)
    if cohort is not None and len(cohort) != len(graphs):
        raise ValueError(
            f"the cohort has {len(cohort)} scans and there are {len(graphs)} graphs; pass the same."
        )
    if not len(graphs):
        raise ValueError("a report needs at least one graph to explain, got none.")
    if explanations is None:
        explanations = explained(classifier, graphs)
        if isinstance(model, CohortClassifier) and isinstance(given, Cohort):
            explanations = explanations.with_connectivity(model.shown_connectivity(given))
    probabilities = np.asarray(classifier.predict_proba(graphs))
    with working("removing edges", bool(verbose)):
        removed = without_edges(classifier, explanations, probabilities, random_state)
    if held_out is None and isinstance(classifier, GraphClassifier):
        held_out = ~classifier.trained_on(graphs)
    digest = getattr(classifier, "training_digest_", None)
    same = digest is not None and digest == graphs.digest()
    all_seen = same if held_out is None else not np.any(held_out)
    more = {} if title is None else {"title": title}
    steps = tuple(steps) or steps_of(model)
    return ReportData(
        explanations,
        np.asarray(classifier.classes_),
        probabilities,
        member_probabilities(classifier, graphs),
        removed,
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
        colours=colours(cohort),
        settings=dict(getattr(classifier, "settings_", {})),
        facts=facts(classifier, explanations, digest, steps),
        group=group,
        reproducibility=reproducibility,
        carriers=carriers(explanations, cohort, held_out),
        steps=steps,
        permutations=permutations,
        trivial=trivial,
        nuisances=checked_nuisances(
            cohort, classifier.classes_, probabilities, held_out, predictions, positive
        ),
        learning=learning,
        **more,
    )
