"""`CohortClassifier`: from raw subjects to probabilities and edges, kept on disk as one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors.numpy import save
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from cignn._arrays import digest
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs
from cignn.connectome.saving import StepState, state_of, step_from
from cignn.datasets.atlas import Atlas, places_of
from cignn.datasets.cohort import Cohort
from cignn.datasets.cohort_repairs import take_rois
from cignn.estimators.ci_gnn import CIGNNClassifier
from cignn.estimators.classifier import GraphClassifier, words
from cignn.estimators.persistence import (
    PREPARATION,
    REFERENCE,
    ModelError,
    Saved,
    first_line,
    json_bytes,
    parsed,
    read_weights,
    write_folder,
)
from cignn.explanations import Explanations
from cignn.graphs import GraphSet


class CohortClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of graphs with all that comes before it, so that new subjects enter as raw files.

    Parameters
    ----------
    classifier : of graphs, by default `CIGNNClassifier`
    connectivity : `Connectivity`, by default correlation; ready matrices pass through it
    combat : `ComBat` to take site effects out, or None
    graphs : `ConnectomeGraphs`, by default every connection

    All of them are cloned in ``fit``. ``pipeline`` gives the same steps as a scikit-learn pipeline.

    Attributes
    ----------
    pipeline_ : the fitted pipeline; classifier_ : its last step; classes_ : labels
    interrupted_ : whether Ctrl-C cut the training short
    roi_names_, atlas_ : of the training cohort
    subjects_ : fingerprints of the data of the subjects it was trained on (no names are kept)
    """

    def __init__(
        self,
        classifier: GraphClassifier | None = None,
        *,
        connectivity: Connectivity | None = None,
        combat: ComBat | None = None,
        graphs: ConnectomeGraphs | None = None,
    ) -> None:
        self.classifier = classifier
        self.connectivity = connectivity
        self.combat = combat
        self.graphs = graphs

    def pipeline(self) -> Pipeline:
        """Return the steps, unfitted, as a scikit-learn pipeline."""
        steps = [("connectivity", self.connectivity or Connectivity())]
        steps += [] if self.combat is None else [("combat", self.combat)]
        steps += [("graphs", self.graphs or ConnectomeGraphs())]
        steps += [("classifier", self.classifier or CIGNNClassifier())]
        return Pipeline([(name, clone(step)) for name, step in steps])

    def resolved_defaults(self) -> dict[str, Any]:
        """Return the steps that are not given; see `GraphClassifier.resolved_defaults`."""
        return {name: step for name, step in self.pipeline().steps if getattr(self, name) is None}

    def fit(self, X: Cohort, y: Sequence | np.ndarray | None = None) -> Self:
        """Learn every step from a cohort with labels ``y``, by default its own."""
        _check(X)
        self.pipeline_ = self.pipeline().fit(X, X.y if y is None else y)
        self._remember(X.roi_names, X.atlas, fingerprints(X))
        return self

    def _remember(self, roi_names: Sequence[str], atlas: Atlas | None, subjects: np.ndarray) -> None:
        self.roi_names_, self.atlas_, self.subjects_ = list(roi_names), atlas, subjects
        self.classes_ = self.classifier_.classes_

    # -------------------------------------------------------------- predicting

    @property
    def classifier_(self) -> Any:
        """The fitted classifier of graphs."""
        self._check_is_fitted()
        return self.pipeline_[-1]

    @property
    def interrupted_(self) -> bool:
        """Whether Ctrl-C cut the training of the classifier short."""
        return bool(getattr(self.classifier_, "interrupted_", False))

    def to_graphs(self, X: Cohort) -> GraphSet:
        """Return the graphs the classifier sees of these subjects."""
        self._check_is_fitted()
        return self.pipeline_[:-1].transform(self.named(X))

    def predict_proba(self, X: Cohort) -> np.ndarray:
        """(n, classes) class probabilities, columns in the order of ``classes_``."""
        return self.classifier_.predict_proba(self.to_graphs(X))

    def predict(self, X: Cohort) -> np.ndarray:
        """(n,) most probable labels."""
        probabilities = self.predict_proba(X)  # says first whether there is anything to predict with
        return self.classes_[probabilities.argmax(1)]

    def score(
        self,
        X: Cohort,
        y: Sequence | np.ndarray | None = None,
        sample_weight: Sequence | np.ndarray | None = None,
    ) -> float:
        """Accuracy on subjects with labels ``y``, by default their own."""
        graphs = self.to_graphs(X)
        return self.classifier_.score(graphs, y, sample_weight)

    def explain(self, X: Cohort) -> Explanations:
        """Return the weight of every edge of every subject, where the classifier explains itself."""
        if not hasattr(self.classifier_, "explain"):
            advice = 'use a neural one, such as make_estimator("ci-gnn")'
            if hasattr(self.classifier_, "network_"):
                advice = (
                    'make_explainer("gnn-explainer").fit(model.classifier_, model.to_graphs(cohort)) does'
                )
            raise ValueError(f"{type(self.classifier_).__name__} does not explain its decisions; {advice}.")
        return self.classifier_.explain(self.to_graphs(X)).with_connectivity(self.shown_connectivity(X))

    def shown_connectivity(self, X: Cohort) -> np.ndarray | None:
        """(n, R, R) correlations, which tables of edges show where the graphs are of the tangent space.

        A tangent vector says how far a subject is from the group's mean, so the group's mean of these is 0 by
        construction and no connectivity. None for all other graphs, whose weights are what is shown.
        """
        self._check_is_fitted()
        if getattr(self.pipeline_[0], "kind", None) != "tangent":
            return None
        return Connectivity(constant_rois="zero").fit_transform(self.named(X)).matrices

    def named(self, X: Cohort) -> Cohort:
        """Return the cohort with the training cohort's ROIs in its order, with its names and atlas.

        Files without a header have no names: such ROIs are taken to be the training cohort's, in its order.
        """
        _check(X)
        self._check_is_fitted()
        if X.n_rois != len(self.roi_names_):
            raise ValueError(
                f"the model was trained on {len(self.roi_names_)} ROIs, got {X.n_rois}; use the same atlas."
            )
        if not X.nameless and X.roi_names != self.roi_names_:
            X = take_rois(X, self._places(X.roi_names))
        return X._with(roi_names=self.roi_names_, atlas=self.atlas_ if X.atlas is None else X.atlas)

    def _places(self, names: list[str]) -> np.ndarray:
        """(R,) where the training cohort's ROIs stand among these."""
        try:
            places = places_of(self.roi_names_, names)
        except ValueError:
            places = None
        if places is None:
            pairs = enumerate(zip(names, self.roi_names_, strict=True), 1)
            which = next(f"number {i} is {a!r}, not {b!r}" for i, (a, b) in pairs if a != b)
            raise ValueError(
                f"the regions are not those that were learnt from ({which}); give the atlas the model was "
                "trained with."
            )
        return np.array(places)

    def trained_on(self, X: Cohort) -> np.ndarray:
        """(n,) bool: whose data the model was trained on."""
        self._check_is_fitted()
        comparable = X.n_rois == len(self.roi_names_)
        return np.isin(fingerprints(self.named(X) if comparable else X), self.subjects_)

    # ------------------------------------------------------------------ saving

    def save(self, path: str | Path, notes: Mapping[str, str] | None = None) -> None:
        """Write the fitted model into a folder: weights and references as safetensors, the rest as JSON.

        Parameters
        ----------
        path : str or Path
            The folder; made where it is missing. A model that is there is replaced, whole or not at all.
        notes : mapping of str to str, optional
            Texts to keep beside the model by their file names, such as ``settings.toml``.
        """
        self._check_is_fitted()
        states = [state_of(step) for step in self.pipeline_[:-1]]
        atlas = self.atlas_
        content = {
            "steps": [{"step": s.step, "params": s.params, "facts": s.facts} for s in states],
            "roi_names": self.roi_names_,
            "atlas": None
            if atlas is None
            else {
                "names": atlas.names,
                "coordinates": atlas.coordinates,
                "systems": atlas.systems,
                "colours": atlas.colours,
            },
            "subjects": self.subjects_,
        }
        arrays = {f"{i}.{name}": a for i, s in enumerate(states) for name, a in s.arrays.items()}
        files = self.classifier_._files() | {PREPARATION: json_bytes(content), REFERENCE: save(arrays)}
        write_folder(path, self.classifier_._config(), files, notes)

    @classmethod
    def _from_saved(cls, saved: Saved, classifier: GraphClassifier) -> Self:
        """Put a model together from the folder of its classifier."""
        file = saved.path / PREPARATION
        content = parsed(saved.content(PREPARATION), file)
        arrays = {name: value.numpy() for name, value in read_weights(saved, REFERENCE).items()}
        try:
            roi_names = [str(name) for name in content["roi_names"]]
            if classifier.n_nodes_ != len(roi_names):
                raise ValueError(f"{len(roi_names)} regions for {classifier.n_nodes_} nodes")
            states = [
                StepState(s["step"], s["params"], s["facts"], _of_step(arrays, i))
                for i, s in enumerate(content["steps"])
            ]
            steps = [step_from(state, len(roi_names)) for state in states]
            if [type(step) for step in steps if not isinstance(step, ComBat)] != [
                Connectivity,
                ConnectomeGraphs,
            ]:
                raise ValueError("its steps are not those of a cohort's model")
            atlas = None if content["atlas"] is None else Atlas(**content["atlas"])
            subjects = words(content["subjects"])
        except Exception as error:  # whatever comes of plain data of another shape
            raise ModelError(f"{file} is damaged ({first_line(error)}); save the model again.") from None
        found = {type(step).__name__: step for step in steps}
        model = cls(
            classifier,
            connectivity=found.get("Connectivity"),
            combat=found.get("ComBat"),
            graphs=found.get("ConnectomeGraphs"),
        )
        names = {"Connectivity": "connectivity", "ComBat": "combat", "ConnectomeGraphs": "graphs"}
        model.pipeline_ = Pipeline(
            [*((names[type(step).__name__], step) for step in steps), ("classifier", classifier)]
        )
        model._remember(roi_names, atlas, subjects)
        return model

    def _check_is_fitted(self) -> None:
        if not hasattr(self, "pipeline_"):
            raise NotFittedError("this CohortClassifier is not fitted yet; call fit first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "pipeline_")


def fingerprints(cohort: Cohort) -> np.ndarray:
    """(n,) one word for the data of each subject: equal data, equal word, whatever the subject's name."""
    data: Any = cohort.series if cohort.matrices is None else cohort.matrices
    return np.array([digest(np.asarray(one, np.float32), length=16) for one in data], dtype=str)


def _of_step(arrays: dict[str, np.ndarray], i: int) -> dict[str, np.ndarray]:
    return {name.partition(".")[2]: a for name, a in arrays.items() if name.startswith(f"{i}.")}


def _check(X: Any) -> None:
    if not isinstance(X, Cohort):
        raise TypeError(f"CohortClassifier works on a Cohort, got {type(X).__name__}; load_cohort makes one.")
