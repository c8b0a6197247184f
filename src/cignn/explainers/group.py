"""`explain_group`: which connections separate classes or tell a score, from networks of half-samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from sklearn.base import clone

from cignn._arrays import upper_triangle
from cignn._checks import choice, whole
from cignn._progress import track
from cignn._random import RandomState, as_generator
from cignn.datasets.cohort import Cohort
from cignn.estimators.base import NeuralGraphClassifier
from cignn.estimators.explaining import ExplainingClassifier, target_codes
from cignn.estimators.graph_estimator import GraphEstimator
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.estimators.neural import NeuralGraphEstimator
from cignn.estimators.neural_regressor import NeuralGraphRegressor
from cignn.estimators.stacks import Fit, fit_together
from cignn.estimators.training import evaluation_mode
from cignn.explainers.half_samples import Sample, Work, half_samples
from cignn.explainers.readings import READINGS, Modes, Networks, choose
from cignn.explanations import GroupExplanation
from cignn.graphs import GraphBatch, GraphSet
from cignn.nn.contributions import contributions

AT_ONCE = 100  # networks trained together at the most,
CELLS = 2**29  # and node pairs of their half-samples
BATCH_CELLS = 1_300_000
WRONG = 0.1  # share of networks that may fail


def explain_group(
    estimator: Any,
    data: Cohort | GraphSet,
    y: Any = None,
    *,
    target: Any = None,
    n_resamples: int = 100,
    n_permutations: int = 20,
    reading: str = "auto",
    alpha: float = 0.1,
    random_state: RandomState = 0,
    verbose: int = 0,
) -> GroupExplanation:
    """Explain what separates two classes of subjects, or tells a score, with its uncertainty.

    Clones of the estimator are trained on complementary halves of the subjects, with true and with permuted
    labels. The map is made of what these networks use, see ``reading``. A connection is selected if two
    tests agree: its value in the map is larger than with permuted labels, and its contributions tell the
    classes of subjects that the networks were not trained on. The larger of both p-values is corrected by
    Benjamini and Hochberg.

    Steps of a pipeline before the classifier are fitted on all subjects, again for every permutation where
    they use labels. Ensembles of networks are trained with one network per half-sample: the half-samples are
    the ensemble.

    Where the estimator predicts a score, scores are permuted, and contributions to subjects that networks
    were not trained on have to rise with the score. Values are then positive where a stronger connection goes
    with a higher score, and effects are correlations with it.

    Parameters
    ----------
    estimator : estimator
        Pipeline for a cohort, or classifier or regressor for aligned graphs: a network or a linear model. It
        is cloned.
    data : Cohort or GraphSet
        The subjects.
    y : array-like of shape (n,), default=None
        Labels or scores; by default those of the data.
    target : label, default=None
        The class that positive values speak for, against all others. By default the second of two classes;
        of a score there is none.
    n_resamples : int, default=100
        Number of half-samples, in complementary pairs.
    n_permutations : int, default=20
        Number of permutations of the labels, each with a few half-samples. 0 tests nothing.
    reading : {"auto", "use", "pattern", "size"}, default="auto"
        "use" is what the decision is made from: the networks' mean coefficients, sharpened. "pattern" is what
        goes along with the decision: these coefficients smoothed along the covariance of the connections.
        "size" is the mean contribution to the right class, whatever the direction; of a score, by how much
        the contribution rises with it. "auto" takes the one whose
        top connections come back on the other half of the subjects, beyond permuted labels.
    alpha : float, default=0.1
        The q-value up to which connections are selected.
    random_state : int, RandomState, Generator or None, default=0
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    Returns
    -------
    GroupExplanation
        The map and its tables.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.connectome import make_connectome_pipeline
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import explain_group
    >>> cohort = make_cohort(40, n_rois=8, n_edges=2, data="matrices", random_state=0)
    >>> pipe = make_connectome_pipeline(make_estimator("linear-svm", C=0.01, random_state=0))
    >>> group = explain_group(pipe, cohort, n_resamples=4, n_permutations=3, random_state=0)
    >>> group.map.shape, len(group.table)
    ((8, 8), 28)
    """
    choice("reading", reading, ("auto", *READINGS))
    n_resamples = whole("n_resamples", n_resamples, 2)
    n_permutations = whole("n_permutations", n_permutations, 0)
    random = as_generator(random_state)
    work = Work.of(estimator, data, y, target)
    pairs = -(-n_resamples // 2)
    few = max(2, -(-n_resamples // (2 * max(n_permutations, 1) * 2)) + 1)  # pairs of each permutation
    samples = list(half_samples(work, pairs, -1, random))
    for i in range(n_permutations):
        samples += half_samples(work, few, i, random)
    held = _HeldOut(np.zeros(work.x.shape), np.zeros(len(work.x)))
    found = _networks(work, samples, held, random, verbose)
    chosen = choose(found, Modes.of(work.x.astype(np.float64)), reading)
    return GroupExplanation.from_maps(
        chosen.reading.values,
        chosen.reading.halves,
        chosen.reading.null,
        effects=_effects(work),
        contributions=held.towards_truth(work),
        second_p=held.p(work) if n_permutations else None,
        pattern=chosen.pattern.values,
        use=chosen.use.values,
        nuisances=work.nuisances,
        node_names=work.graphs.node_names,
        systems=work.graphs.node_meta.get("system"),
        classes=work.sides,
        n_subjects=len(work.subjects.has),
        alpha=alpha,
        reading=chosen.reading.name,
        reason=chosen.reason.replace("permuted labels", "permuted scores") if work.score else chosen.reason,
        score=work.score,
    )


class _HeldOut(NamedTuple):
    """Contributions of networks to graphs that they were not trained on."""

    total: np.ndarray  # (g, e)
    n_networks: np.ndarray  # (g,)

    def means(self, work: Work) -> tuple[np.ndarray, np.ndarray]:
        """(subjects of the target, e) and (of the others, e) mean contributions to the target."""
        seen = self.n_networks > 0
        means = self.total[seen] / self.n_networks[seen, None]
        return _by_subject(means, seen, work)

    def by_level(self, work: Work) -> tuple[np.ndarray, np.ndarray]:
        """(n, e) mean contributions to subjects, and (n,) their scores in standard deviations."""
        seen = self.n_networks > 0
        means = self.total[seen] / self.n_networks[seen, None]
        of_scan = work.subjects.of_scan[seen]
        return _subject_means(means, of_scan), _levels(_subject_means(work.labels[seen, None], of_scan)[:, 0])

    def towards_truth(self, work: Work) -> np.ndarray:
        """(e,) mean contribution to the true class, both sides of equal weight; of a score, per deviation."""
        if work.score:
            values, level = self.by_level(work)
            return level @ values / max(len(level), 1)
        own, rest = self.means(work)
        if not (len(own) and len(rest)):
            return np.full(self.total.shape[1], np.nan)
        return (own.mean(0) - rest.mean(0)) / 2

    def p(self, work: Work) -> np.ndarray:
        """(e,) p of the hypothesis that contributions do not speak for the true class, one-sided.

        Of a score, that contributions do not rise with it.
        """
        if work.score:
            values, level = self.by_level(work)
            r = np.minimum(_correlations(values, level), 1 - 1e-12)
            freedom = max(len(level) - 2, 1)
            return stats.t.sf(r * np.sqrt(freedom / (1 - r**2)), freedom)
        own, rest = self.means(work)
        with warnings.catch_warnings():  # connections that never contribute
            warnings.simplefilter("ignore", RuntimeWarning)
            p = stats.ttest_ind(own, rest, equal_var=False, alternative="greater").pvalue
        return np.nan_to_num(p, nan=1.0)


def _by_subject(values: np.ndarray, seen: np.ndarray, work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Means of the scans (seen, e) of each subject, of the target class and of the others."""
    parts = []
    for side in (work.positive, ~work.positive):
        chosen = side[seen]
        _, subject, count = np.unique(
            work.subjects.of_scan[seen][chosen], return_inverse=True, return_counts=True
        )
        total = np.zeros((len(count), values.shape[1]))
        np.add.at(total, subject, values[chosen])
        parts.append(total / np.maximum(count, 1)[:, None])
    return parts[0], parts[1]


def _subject_means(values: np.ndarray, of_scan: np.ndarray) -> np.ndarray:
    """(n, e) means of the scans (g, e) of each subject."""
    _, subject, count = np.unique(of_scan, return_inverse=True, return_counts=True)
    total = np.zeros((len(count), values.shape[1]))
    np.add.at(total, subject, values)
    return total / count[:, None]


def _levels(scores: np.ndarray) -> np.ndarray:
    """(n,) scores in standard deviations from their mean; 0 where they are all the same."""
    spread = scores.std()
    return (scores - scores.mean()) / spread if spread > 1e-12 else np.zeros(len(scores))


def _correlations(values: np.ndarray, level: np.ndarray) -> np.ndarray:
    """(e,) correlation of each column (n, e) with levels (n,); 0 where a column does not vary."""
    spread = values.std(0)
    together = level @ values / max(len(level), 1)
    least = 1e-7 * max(float(np.abs(values).max(initial=0)), 1e-12)
    return np.divide(together, spread, out=np.zeros(len(spread)), where=spread > least).clip(-1, 1)


def _effects(work: Work) -> np.ndarray:
    """(e,) standardised mean difference between the target and the others; correlation with a score."""
    if work.score:
        values, scores = (
            _subject_means(one, work.subjects.of_scan)
            for one in (work.x.astype(np.float64), work.labels[:, None])
        )
        return _correlations(values, _levels(scores[:, 0]))
    own, rest = _by_subject(work.x.astype(np.float64), np.ones(len(work.x), bool), work)
    freedom = max(len(own) + len(rest) - 2, 1)
    spread = np.sqrt((((own - own.mean(0)) ** 2).sum(0) + ((rest - rest.mean(0)) ** 2).sum(0)) / freedom)
    difference = own.mean(0) - rest.mean(0)
    return np.divide(difference, spread, out=np.zeros_like(spread), where=spread > 1e-7)


def _networks(
    work: Work, samples: Sequence[Sample], held: _HeldOut, random: np.random.Generator, verbose: int
) -> Networks:
    """Train a clone on every half-sample and read it; pairs of which one fails are left out."""
    size = len(work.graphs) // 2 * int(work.graphs.n_nodes[0]) ** 2
    at_once = max(2, min(AT_ONCE, CELLS // max(size, 1)) // 2 * 2)
    rows: list[tuple[np.ndarray, np.ndarray, int]] = []
    failures: list[Exception] = []
    reader = _Reader(work, work.graphs)
    for start in range(0, len(samples), at_once):
        some = samples[start : start + at_once]
        graphs = _graphs_of(work, some)
        seeds = random.integers(2**31 - 1, size=len(some))
        clones = [clone(work.classifier).set_params(random_state=int(seed)) for seed in seeds]
        for one in clones:
            if isinstance(one, ExplainingClassifier):
                one._pools = False  # contributions are read edge by edge
            if isinstance(one, NeuralGraphRegressor):
                one._stretches = False  # maps of all networks are on one scale
        parts = [graphs[s.permutation][s.rows] for s in some]
        errors = _fit(clones, parts, [s.labels[s.rows] for s in some], verbose)
        for j in track(range(0, len(some), 2), "reading half-samples", len(some) // 2, verbose):
            failed = [error for error in errors[j : j + 2] if error is not None]
            failures += failed
            if not failed:
                if graphs[some[j].permutation] is not reader.graphs:
                    reader = _Reader(work, graphs[some[j].permutation])
                for i in (j, j + 1):
                    rows.append((*reader.read(clones[i], some[i], held), some[i].permutation))
    if failures:
        if len(failures) > WRONG * len(samples):
            raise failures[0]
        warnings.warn(
            f"{len(failures)} of {len(samples)} half-samples could not be learnt from and were left out "
            f"({failures[0]})",
            stacklevel=3,
        )
    coefficients, sizes, permutation = zip(*rows, strict=True)
    return Networks(np.stack(coefficients), np.stack(sizes), np.array(permutation))


def _graphs_of(work: Work, samples: Sequence[Sample]) -> dict[int, GraphSet]:
    """Graphs by permutation: others where steps use the labels."""
    found: dict[int, GraphSet] = {}
    for sample in samples:
        if sample.permutation not in found:
            graphs = work.graphs
            if work.steps is not None and sample.permutation >= 0:
                data = work.data.with_y(sample.labels)
                graphs = clone(work.steps).fit_transform(data, sample.labels)
            found[sample.permutation] = graphs
    return found


def _fit(
    clones: list[GraphEstimator], graphs: list[GraphSet], labels: list[np.ndarray], verbose: int
) -> list[Exception | None]:
    """Fit clones, networks together; returns what went wrong with each."""
    fits: list[tuple[Any, GraphSet, np.ndarray]] = list(zip(clones, graphs, labels, strict=True))
    if all(isinstance(one, NeuralGraphEstimator) for one in clones):
        errors = fit_together([Fit(one.set_params(verbose=verbose), part, own) for one, part, own in fits])
        if any(getattr(one, "interrupted_", False) for one in clones):  # half-trained: no map of the method
            raise KeyboardInterrupt
        return errors
    errors = []
    for one, part, own in track(fits, "fitting half-samples", len(fits), verbose):
        try:
            one.fit(part, own)
            errors.append(None)
        except Exception as error:
            errors.append(error)
    return errors


class _Reader:
    """Reads contributions off classifiers; the batches of graphs stay on their device."""

    def __init__(self, work: Work, graphs: GraphSet) -> None:
        self.work, self.graphs = work, graphs
        self.x = work.x if graphs is work.graphs else connectivity_vector(graphs, int(graphs.n_nodes[0]))
        self.batches: list[tuple[np.ndarray, GraphBatch]] = []

    def read(
        self, classifier: GraphEstimator, sample: Sample, held: _HeldOut
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (e,) and sizes (e,) from the graphs trained on; others are added to ``held``."""
        n_pairs = self.x.shape[1]
        own = np.zeros(len(self.x), bool)
        own[sample.rows] = True
        statistics = classifier.edge_statistics_
        centre, scale = map(upper_triangle, statistics or self.graphs.edge_statistics())
        weight = self._weights(sample, own)
        products, squares, sizes = np.zeros((3, n_pairs))
        for index, values in self._contributions(classifier, None if sample.permutation < 0 else own):
            at = own[index]
            mine, inside = values[at], index[at]
            x = self.x[inside]
            deviations = (x - centre) / scale * (x != 0)
            products += np.einsum("ge,ge->e", mine, deviations)
            squares += np.einsum("ge,ge->e", deviations, deviations)
            sizes += weight[inside] @ mine
            if sample.permutation < 0:
                held.total[index[~at]] += values[~at]
                held.n_networks[index[~at]] += 1
        return np.divide(products, squares, out=np.zeros(n_pairs), where=squares > 0), sizes

    def _weights(self, sample: Sample, own: np.ndarray) -> np.ndarray:
        """(g,) by which contributions to graphs trained on, ``own``, are summed to sizes."""
        if self.work.score:
            weight = np.zeros(len(own))
            weight[own] = _levels(sample.labels[own]) / max(own.sum(), 1)
            return weight
        positive = sample.labels == self.work.target
        return np.where(
            positive, 0.5 / max((positive & own).sum(), 1), -0.5 / max((~positive & own).sum(), 1)
        )

    def _contributions(
        self, classifier: GraphEstimator, only: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions (b,) and contributions (b, e) to the target; only : (g,) bool, of which graphs."""
        graphs, target = self.graphs, self.work.target
        if not isinstance(classifier, NeuralGraphEstimator):
            index = np.arange(len(graphs)) if only is None else np.flatnonzero(only)
            yield index, _explained(classifier, graphs[index], target)
            return
        device = next(classifier.network_.parameters()).device
        if not self.batches:
            size = max(1, BATCH_CELLS // int(graphs.n_nodes[0]) ** 2)
            for start in range(0, len(graphs), size):
                index = np.arange(start, min(start + size, len(graphs)))
                self.batches.append((index, graphs.batch(index).to(device)))
        code, unit = None, 1.0
        if isinstance(classifier, NeuralGraphRegressor):
            unit = classifier.target_scale_.scale
        elif isinstance(classifier, NeuralGraphClassifier):
            code = int(target_codes(classifier, target, 1)[0])  # type: ignore[index]
        upper = torch.triu_indices(*(int(graphs.n_nodes[0]),) * 2, 1, device=device)
        for index, batch in self.batches:
            if only is not None:
                chosen = np.flatnonzero(only[index])
                if not len(chosen):
                    continue
                index, batch = index[chosen], batch.part(torch.as_tensor(chosen, device=device))
            with evaluation_mode(classifier.network_):
                codes = None if code is None else torch.full((len(index),), code, device=device)
                found = contributions(classifier.network_, batch, codes)
            yield index, unit * found.values[:, upper[0], upper[1]].cpu().numpy()


def _explained(classifier: Any, graphs: GraphSet, target: Any) -> np.ndarray:
    """(g, e) contributions by a model that is no network."""
    if not hasattr(classifier, "explain"):
        raise TypeError(
            f"{type(classifier).__name__} cannot be explained by contributions; use a network or a linear "
            'model, such as make_estimator("linear-svm").'
        )
    explanations = classifier.explain(graphs) if target is None else classifier.explain(graphs, target)
    values = connectivity_vector(graphs, int(graphs.n_nodes[0]))
    found = np.zeros(values.shape)
    found[values != 0] = np.concatenate(explanations.edge_contributions or [np.empty(0)])
    return found
