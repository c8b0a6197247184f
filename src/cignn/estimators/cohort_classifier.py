"""`CohortClassifier`: the pipeline from raw subjects to probabilities and edges, saved as one folder."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors.numpy import save
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from cignn._arrays import digest
from cignn.connectome import Connectivity, make_connectome_pipeline
from cignn.connectome.covariates import check_cohort_input, with_rois
from cignn.connectome.pipeline import loaded_steps, saved_steps
from cignn.datasets.atlas import Atlas, places_of
from cignn.datasets.cohort import Cohort
from cignn.estimators.ci_gnn import CIGNNClassifier
from cignn.estimators.ci_gnn_regressor import CIGNNRegressor
from cignn.estimators.explaining import ExplainingClassifier
from cignn.estimators.graph_estimator import GraphEstimator, read_fingerprints
from cignn.estimators.persistence import (
    PREPARATION,
    REFERENCE,
    ModelError,
    Packed,
    Saved,
    first_line,
    json_bytes,
    parsed,
    read_weights,
    write_folder,
)
from cignn.estimators.regressor import GraphRegressor
from cignn.explanations import Explanations
from cignn.graphs import GraphSet


class CohortClassifier(Pipeline):
    """A scikit-learn pipeline for a `Cohort` that can explain its decisions and be saved.

    `CohortClassifier.make` builds it with the steps of `make_connectome_pipeline`.

    Parameters
    ----------
    steps : list of (str, estimator)
        `Connectivity`, optionally `ComBat` and `Deconfound`, `ConnectomeGraphs` and a classifier of graphs.
    transform_input : list of str, default=None
        See ``sklearn.pipeline.Pipeline``.
    memory : str or object, default=None
        See ``sklearn.pipeline.Pipeline``.
    verbose : bool, default=False
        See ``sklearn.pipeline.Pipeline``.

    Attributes
    ----------
    classifier_ : GraphClassifier
        The fitted classifier of graphs.
    subjects_ : ndarray of shape (n,) or None
        Hashes of the data of the training subjects; their ids are not kept.

    Examples
    --------
    >>> from cignn import CohortClassifier
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> cohort = make_cohort(24, 10, n_edges=3, lengths=(30, 40), random_state=0)
    >>> model = CohortClassifier.make(make_estimator("lasso", random_state=0)).fit(cohort[:20])
    >>> model.predict_proba(cohort[20:]).shape
    (4, 2)
    >>> model.trained_on(cohort).sum()
    np.int64(20)
    """

    subjects_: np.ndarray | None = None

    @classmethod
    def make(cls, classifier: GraphEstimator | None = None, **steps: Any) -> Self:
        """Put the steps together as `make_connectome_pipeline` does.

        Parameters
        ----------
        classifier : GraphClassifier, default=None
            Classifier of graphs. None stands for ``CIGNNClassifier()``.
        **steps : dict
            Options of `make_connectome_pipeline`: ``connectivity``, ``combat``, ``deconfound``,
            ``density``, ``graphs``.

        Returns
        -------
        CohortClassifier
            Not fitted.
        """
        classifier = CIGNNClassifier() if classifier is None else classifier
        return cls(make_connectome_pipeline(classifier, **steps).steps)

    def fit(self, X: Cohort, y: Any = None, **params: Any) -> Self:
        """Learn every step from a cohort.

        Parameters
        ----------
        X : Cohort
            Subjects to learn from.
        y : array-like of shape (n,), default=None
            Labels; by default those of the cohort.
        **params : dict
            Parameters of the steps' ``fit``.

        Returns
        -------
        CohortClassifier
            The fitted pipeline.
        """
        check_cohort_input(X, "CohortClassifier")
        super().fit(X, X.y if y is None else y, **params)
        self.subjects_ = fingerprints(X)
        return self

    @property
    def classifier_(self) -> Any:
        """The fitted classifier of graphs; where the last step searched for one, the best."""
        check_is_fitted(self)
        return getattr(self[-1], "best_estimator_", self[-1])

    @property
    def interrupted_(self) -> bool:
        """Whether Ctrl-C cut the training of the classifier short."""
        return bool(getattr(self.classifier_, "interrupted_", False))

    @property
    def roi_names_(self) -> list[str]:
        """Names of the training cohort's ROIs."""
        return self.classifier_.node_names_

    @property
    def atlas_(self) -> Atlas | None:
        """The training cohort's atlas."""
        check_is_fitted(self)
        return getattr(self[0], "atlas_", None)

    def to_graphs(self, X: Cohort) -> GraphSet:
        """Return the graphs that the classifier sees.

        Parameters
        ----------
        X : Cohort
            Subjects, with the ROIs of the training cohort in any order.

        Returns
        -------
        GraphSet
            One graph per scan.
        """
        check_is_fitted(self)
        return self[:-1].transform(X)

    def explain(self, X: Cohort, target: Any = None, *, pooled: bool = True) -> Explanations:
        """Explain the decision for every subject.

        Parameters
        ----------
        X : Cohort
            Subjects, with the ROIs of the training cohort in any order.
        target : label or array-like of shape (n,), default=None
            The class to explain, one for all subjects or one each. None explains the predicted class.
        pooled : bool, default=True
            Whether to pool the evidence of connections that go together in patients, see
            `ExplainingClassifier.explain`. Linear models have nothing to pool.

        Returns
        -------
        Explanations
            Those of a classifier that explains itself.
        """
        classifier = self.classifier_
        if not hasattr(classifier, "explain"):
            advice = 'use a neural one, such as make_estimator("ci-gnn")'
            if hasattr(classifier, "network_"):
                advice = (
                    'make_explainer("contributions").fit(model.classifier_, model.to_graphs(cohort)) does'
                )
            raise ValueError(f"{type(classifier).__name__} does not explain its decisions; {advice}.")
        options = {"pooled": pooled} if isinstance(classifier, ExplainingClassifier) else {}
        explanations = classifier.explain(self.to_graphs(X), target, **options)
        return explanations.with_connectivity(self.shown_connectivity(X))

    def shown_connectivity(self, X: Cohort) -> np.ndarray | None:
        """Return the correlations that tables of edges show where graphs are of the tangent space.

        A tangent vector says how far a subject is from the group's mean, so the group's mean of these is 0
        by construction and no connectivity.

        Parameters
        ----------
        X : Cohort
            Subjects.

        Returns
        -------
        ndarray of shape (n, R, R) or None
            None for all other graphs, whose weights are what is shown.
        """
        check_is_fitted(self)
        if getattr(self[0], "kind", None) != "tangent":
            return None
        return np.asarray(Connectivity(constant_rois="zero").fit_transform(self.with_rois(X)).matrices)

    def trained_on(self, X: Cohort) -> np.ndarray:
        """Return whose data the model was trained on.

        Parameters
        ----------
        X : Cohort
            Subjects.

        Returns
        -------
        ndarray of shape (n,)
            True for scans it was trained on, known by their data alone.
        """
        if self.subjects_ is None:  # a plain pipeline was fitted: the classifier knows its graphs
            return self.classifier_.trained_on(self.to_graphs(X))
        comparable = X.n_rois == len(self.roi_names_)
        return np.isin(fingerprints(self.with_rois(X) if comparable else X), self.subjects_)

    def with_rois(self, X: Cohort) -> Cohort:
        """Return a cohort with the training cohort's ROIs in its order, with its names and atlas.

        Parameters
        ----------
        X : Cohort
            Subjects. ROIs without names are taken in the order of the training cohort.

        Returns
        -------
        Cohort
            The same subjects.
        """
        return with_rois(X, self.roi_names_, self.atlas_)

    def with_atlas(self, atlas: Atlas) -> Self:
        """Return the same trained model with the names, coordinates and systems of an atlas.

        For a model whose training cohort had no names, or other ones: nothing has to be trained again.

        Parameters
        ----------
        atlas : Atlas
            The R regions of the training cohort. With the model's names in another order, it is brought into
            the model's order; other names replace those of the model, region by region.

        Returns
        -------
        CohortClassifier
            A new model that shares its weights with this one.

        Examples
        --------
        >>> from cignn import CohortClassifier
        >>> from cignn.datasets import Atlas, make_cohort
        >>> from cignn.estimators import make_estimator
        >>> cohort = make_cohort(20, 10, n_edges=3, random_state=0)
        >>> model = CohortClassifier.make(make_estimator("lasso", random_state=0)).fit(cohort)
        >>> named = model.with_atlas(Atlas([f"region {letter}" for letter in "ABCDEFGHIJ"]))
        >>> named.explain(cohort.with_atlas(named.atlas_))[0].top_edges(1)["source"].iloc[0][:6]
        'region'
        """
        names = self.roi_names_
        if len(atlas) != len(names):
            raise ValueError(
                f"the atlas has {len(atlas)} regions, the model {len(names)}; give the atlas of its cohort."
            )
        if not isinstance(self[0], Connectivity):
            raise ValueError("a model is named in its first step, which must be Connectivity().")
        if (places := places_of(names, atlas.names)) is not None:
            atlas = atlas[places]
        named = copy(self)
        named.steps = [(name, copy(step)) for name, step in self.steps]
        named[0].roi_names_, named[0].atlas_ = atlas.names, atlas
        classifier = _renamed(self.classifier_, atlas.names)
        if hasattr(named[-1], "best_estimator_"):
            named[-1].best_estimator_ = classifier
        else:
            named.steps[-1] = (named.steps[-1][0], classifier)
        return named

    # ------------------------------------------------------------------ saving

    def save(self, path: str | Path, notes: Mapping[str, str] | None = None) -> None:
        """Write the fitted model into a folder; nothing in it is pickled.

        Parameters
        ----------
        path : str or Path
            The folder; created if missing. A model that is already there is replaced.
        notes : mapping of str to str, default=None
            Text files to save with the model, by name: ``{"settings.toml": text}``.
        """
        write_folder(path, *self._packed(), notes)

    def _packed(self) -> Packed:
        classifier = self.classifier_
        if not isinstance(classifier, GraphEstimator):
            raise TypeError(
                'the last step of a saved model is a classifier of graphs, such as make_estimator("lasso"), '
                f"got {type(classifier).__name__}."
            )
        steps, arrays = saved_steps(
            step for _, step in self.steps[:-1] if step is not None and step != "passthrough"
        )
        packed = classifier._packed()
        if not steps:
            return packed
        content = {"steps": steps, "subjects": self.subjects_}
        return Packed(
            packed.config, packed.files | {PREPARATION: json_bytes(content), REFERENCE: save(arrays)}
        )

    @classmethod
    def _from_saved(cls, saved: Saved, classifier: GraphEstimator) -> Self:
        """Put a model together from the folder of its classifier."""
        file = saved.place(PREPARATION)
        content = parsed(saved.content(PREPARATION), file)
        arrays = {name: value.numpy() for name, value in read_weights(saved, REFERENCE).items()}
        try:
            steps = loaded_steps(content["steps"], arrays, classifier.n_nodes_ or 0)
            subjects = None if content["subjects"] is None else read_fingerprints(content["subjects"])
        except Exception as error:  # of data of any other form
            raise ModelError(f"{file} is damaged ({first_line(error)}); save the model again.") from None
        model = cls([*steps, ("classifier", classifier)])
        model.subjects_ = subjects
        return model


class CohortRegressor(CohortClassifier):
    """A `CohortClassifier` whose last step predicts a score, such as age, instead of a class.

    `CohortRegressor.make` builds it with the steps of `make_connectome_pipeline`; it is fitted, explained,
    named and saved in the same way.

    Parameters
    ----------
    steps : list of (str, estimator)
        `Connectivity`, optionally `ComBat` and `Deconfound`, `ConnectomeGraphs` and a regressor of graphs.
    transform_input : list of str, default=None
        See ``sklearn.pipeline.Pipeline``.
    memory : str or object, default=None
        See ``sklearn.pipeline.Pipeline``.
    verbose : bool, default=False
        See ``sklearn.pipeline.Pipeline``.

    Attributes
    ----------
    classifier_ : GraphRegressor
        The fitted regressor of graphs.
    subjects_ : ndarray of shape (n,) or None
        Hashes of the data of the training subjects; their ids are not kept.

    Examples
    --------
    >>> from cignn import CohortRegressor
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> cohort = make_cohort(24, 10, n_edges=3, score=True, lengths=(30, 40), random_state=0)
    >>> model = CohortRegressor.make(make_estimator("cpm")).fit(cohort[:20])
    >>> model.predict(cohort[20:]).shape
    (4,)
    """

    @classmethod
    def make(cls, classifier: GraphEstimator | None = None, **steps: Any) -> Self:
        """Put the steps together as `make_connectome_pipeline` does.

        Parameters
        ----------
        classifier : GraphRegressor, default=None
            Regressor of graphs. None stands for ``CIGNNRegressor()``.
        **steps : dict
            Options of `make_connectome_pipeline`: ``connectivity``, ``combat``, ``deconfound``,
            ``density``, ``graphs``.

        Returns
        -------
        CohortRegressor
            Not fitted.
        """
        return super().make(CIGNNRegressor() if classifier is None else classifier, **steps)

    def explain(self, X: Cohort, target: Any = None, *, pooled: bool = True) -> Explanations:
        """Explain the prediction for every subject.

        Parameters
        ----------
        X : Cohort
            Subjects, with the ROIs of the training cohort in any order.
        target : None
            There are no classes to choose from.
        pooled : bool, default=True
            Not used: evidence is pooled over connections of a class.

        Returns
        -------
        Explanations
            Contributions in units of the score, which add up to the prediction with the base.
        """
        if target is not None:
            raise ValueError(f"target is a class to explain, the model predicts a score, got {target!r}.")
        regressor = self.classifier_
        assert isinstance(regressor, GraphRegressor)
        explanations = regressor.explain(self.to_graphs(X))
        return explanations.with_connectivity(self.shown_connectivity(X))


def _renamed(classifier: Any, names: list[str]) -> Any:
    """Return a fitted classifier of graphs whose nodes have other names."""
    named = copy(classifier)
    named.node_names_ = names
    if isinstance(
        getattr(named, "pipeline_", None), Pipeline
    ):  # a shallow one, whose first step reads graphs
        (first, vectors), *others = named.pipeline_.steps
        vectors = copy(vectors)
        vectors.node_names_ = names
        named.pipeline_ = Pipeline([(first, vectors), *others])
    return named


def fingerprints(cohort: Cohort) -> np.ndarray:
    """(n,) a digest of the data of each subject; names do not count."""
    data: Any = cohort.series if cohort.matrices is None else cohort.matrices
    return np.array([digest(np.asarray(one, np.float32), length=16) for one in data], dtype=str)
