"""How far connections of new subjects lie from those of the training cohort, and recentring."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn._arrays import symmetric, upper_pairs, upper_triangle
from cignn._checks import DataError
from cignn.connectome.combat import chance_free_shift
from cignn.connectome.connectome_graphs import ConnectomeGraphs, TrainingConnections
from cignn.datasets.cohort import Cohort
from cignn.estimators.cohort_classifier import CohortClassifier

MOST = 1.05  # largest absolute value of connections that may be correlations


def recentred(cohort: Cohort, training: TrainingConnections | None) -> Cohort:
    """Shift the connections of each site to the training mean, by what is more than sampling error."""
    if training is None:
        raise DataError(
            "recentring needs the mean of the training connections, which this model does not know",
            remedy="fit and save it again with this version",
        )
    values = upper_triangle(np.asarray(cohort.matrices)).astype(np.float64)
    varies = training.std > 0
    scale = np.where(varies, training.std, 1)
    standard = (values - training.mean) / scale
    for here in site_members(cohort).values():
        part = np.ix_(here, varies)
        standard[part] -= chance_free_shift(standard[part])
    moved = np.where(varies, training.mean + standard * scale, values)
    return cohort.with_matrices(symmetric(moved.astype(np.float32), np.asarray(cohort.matrices)))


def connection_drift(cohort: Cohort, training: TrainingConnections) -> pd.DataFrame:
    """How far each connection lies from the training cohort's, largest shift first."""
    new = TrainingConnections.of(cohort)
    varies = training.std > 0
    scale = np.where(varies, training.std, np.nan)
    names, pairs = np.asarray(cohort.roi_names), upper_pairs(cohort.n_rois)
    table = pd.DataFrame({"source": names[pairs[:, 0]], "target": names[pairs[:, 1]]})
    table["shift"], table["spread"] = (new.mean - training.mean) / scale, new.std / scale
    order = np.argsort(-table["shift"].abs().fillna(0).to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def shift_by_chance(n_new: int, n_training: int) -> float:
    """Mean size of a standardised shift by sampling error alone."""
    return float(np.sqrt(2 / np.pi * (1 / n_new + 1 / n_training)))


def site_members(cohort: Cohort) -> dict[str, np.ndarray]:
    """Positions of the subjects of each site; without sites, of all."""
    sites = np.full(len(cohort), "all") if cohort.sites is None else np.asarray(cohort.sites).astype(str)
    return {str(site): np.flatnonzero(sites == site) for site in np.unique(sites)}


class Learnt(NamedTuple):
    """A cohort with the connections that a model makes graphs of, and the step that makes them."""

    cohort: Cohort
    graphs: ConnectomeGraphs


def prepared(model: CohortClassifier, cohort: Cohort) -> Learnt:
    """The cohort with the connections that the model makes graphs of, and the step that does."""
    given = cohort.matrices is not None
    for _, step in model.steps[:-1]:
        if isinstance(step, ConnectomeGraphs):
            _check_connectivity(cohort, step.connections_, given)
            return Learnt(cohort, step)
        if step is not None and step != "passthrough":
            cohort = step.transform(cohort)
    raise TypeError("validate works on a model that makes graphs of connectivity (ConnectomeGraphs).")


def _check_connectivity(cohort: Cohort, training: TrainingConnections | None, given: bool) -> None:
    """Refuse matrices that are not of the kind of the training connections, as far as values tell."""
    if training is None or not given:
        return
    largest = TrainingConnections.of(cohort).largest
    if (largest <= MOST) != (training.largest <= MOST):
        raise DataError(
            f"the matrices reach {largest:.2f} and those of the training cohort {training.largest:.2f}: they "
            "are not of one kind of connectivity (correlations do not exceed 1, Fisher's z does)",
            remedy="compute them as for the training cohort",
        )
