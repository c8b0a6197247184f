"""Reproducibility of group explanations: maps from disjoint subjects, beside permuted labels and references.

Two mistakes make any map look reproducible, also with permuted labels: the same seed in both halves, and maps
that have seen subjects of the other half. So each half has a seed and a model of its own, and its map is made
of its own subjects alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from cignn._arrays import upper_triangle
from cignn._checks import choice, whole
from cignn._progress import track
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.evaluation.explanation import permuted_labels
from cignn.evaluation.methods import on_data, predicts_scores, with_seed
from cignn.evaluation.splits import Labels, People, labels_of, sites_of
from cignn.explainers import explain_group
from cignn.explainers.maps import (
    covariance_with,
    regression_coefficients,
    ridge_coefficients,
    standardised,
    t_values,
)
from cignn.explanations.group_statistics import rank_correlation
from cignn.explanations.stability import largest, top_count
from cignn.graphs import GraphSet

BY = ("halves", "sites")
REFERENCES = ("t", "correlation", "coefficients", "haufe")
DRAWS = 200  # random assignments of sites, of which the most even one is taken
LEAST = 4  # subjects of a class in each half

GroupMap = Callable[[Any, Any, int], np.ndarray]  # estimator, data, seed → (e,) map


class Halves(NamedTuple):
    """Positions of the scans of two disjoint halves of the subjects."""

    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Reproducibility:
    """How well maps of disjoint halves of the subjects agree. All parameters are attributes.

    Parameters
    ----------
    table : DataFrame
        One row per split, map and kind of labels: ``split``, ``map`` ("model", "t", "coefficients" or
        "haufe"; "correlation" in place of "t" where a score is predicted), ``labels`` ("true" or
        "permuted"), ``rho`` (Spearman's correlation of the signed maps),
        ``common`` (how many of the ``n_top`` connections of largest absolute value they share), ``n_first``
        and ``n_second`` (scans in each half).
    by : str
        "halves" or "sites".
    n_top : int
        Number of connections whose overlap counts.
    n_connections : int
        Number of connections.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import Reproducibility
    >>> rows = [{"split": 1, "map": "t", "labels": "true", "rho": 0.5, "common": 20}]
    >>> found = Reproducibility(pd.DataFrame(rows), "halves", n_top=100, n_connections=6670)
    >>> round(found.chance, 1)
    1.5
    """

    table: pd.DataFrame
    by: str
    n_top: int
    n_connections: int

    @property
    def chance(self) -> float:
        """Number of common connections that chance gives.

        Returns
        -------
        float
            ``n_top`` squared, divided by the number of connections.
        """
        return self.n_top**2 / self.n_connections

    @property
    def means(self) -> pd.DataFrame:
        """Means over splits, one row per map.

        Returns
        -------
        DataFrame
            ``map``, ``rho``, ``common``, and ``permuted_rho`` and ``permuted_common``, NaN where no labels
            were permuted.
        """
        wide = self.table.pivot_table(index="map", columns="labels", values=["rho", "common"], aggfunc="mean")
        names = [name for name in ("model", *REFERENCES) if name in wide.index]
        out = pd.DataFrame({"map": names})
        for kind, prefix in (("true", ""), ("permuted", "permuted_")):
            for value in ("rho", "common"):
                known = (value, kind) in wide
                out[f"{prefix}{value}"] = wide.loc[names, (value, kind)].to_numpy() if known else np.nan
        return out

    def summary(self) -> str:
        """Return the result as lines of text.

        Returns
        -------
        str
            What was compared, one line per map, and what to compare it with.
        """
        splits = self.table.loc[self.table["labels"] == "true", "split"].nunique()
        how = "no site in both" if self.by == "sites" else "drawn at random"
        top = f"common of {self.n_top}"
        lines = [
            f"Maps of two halves of the subjects, {how}, {splits} times:",
            f"{'map':<14}{'rho':>7}{top:>16}   {'permuted labels: rho':>20}{top:>16}",
        ]
        for row in self.means.to_dict("records"):
            true = f"{row['rho']:>7.2f}{row['common']:>16.1f}"
            permuted = "" if np.isnan(row["permuted_rho"]) else f"{row['permuted_rho']:>20.2f}"
            permuted += "" if np.isnan(row["permuted_common"]) else f"{row['permuted_common']:>16.1f}"
            lines.append(f"{row['map']:<14}{true}   {permuted}".rstrip())
        lines.append(f"By chance {self.chance:.1f} of {self.n_top} are common.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        means = self.means.set_index("map")
        found = "" if "model" not in means.index else f", rho {means.loc['model', 'rho']:.2f}"
        return f"Reproducibility(by {self.by!r}{found})"


def reproducibility(
    estimator: Any,
    data: Any,
    by: str = "halves",
    *,
    n_splits: int = 5,
    n_resamples: int = 100,
    n_permutations: int = 5,
    random_state: int = 0,
    verbose: int = 0,
    options: Mapping[str, Any] | None = None,
    group_map: GroupMap | None = None,
) -> Reproducibility:
    """Compare the group explanations of disjoint halves of the subjects.

    Every step is fitted inside a half, with a seed of its own. The same is done with labels permuted inside
    each half. A t-map, the coefficients of logistic regression (L2) and their Haufe pattern stand beside it;
    of a score, correlations of the connections with it, coefficients of ridge regression and their pattern.

    Parameters
    ----------
    estimator : estimator
        Pipeline for a cohort, or classifier or regressor for aligned graphs; clones of it are fitted.
    data : Cohort or GraphSet
        Labelled data of two classes, or with scores.
    by : {"halves", "sites"}, default="halves"
        "halves" draws subjects at random, stratified by class. "sites" draws whole sites, so that no site is
        in both halves; the halves are of similar size and share of classes.
    n_splits : int, default=5
        Number of times the subjects are divided.
    n_resamples : int, default=100
        Number of half-samples of each group explanation, see `cignn.explainers.explain_group`.
    n_permutations : int, default=5
        Number of splits that are repeated with permuted labels, at most ``n_splits``.
    random_state : int, default=0
        Seed of splits, permutations and models.
    verbose : int, default=0
        Whether to show a progress bar.
    options : mapping of str to object, default=None
        Other parameters of `cignn.explainers.explain_group`: ``{"reading": "use"}``.
    group_map : callable, default=None
        Another explanation: a function of an estimator, data and a seed that returns a map of shape (e,). By
        default the map of `cignn.explainers.explain_group`.

    Returns
    -------
    Reproducibility
        The agreement of every split in ``table``, in words in ``summary()``.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import reproducibility
    >>> cohort = make_cohort(40, n_rois=8, n_edges=2, data="matrices", random_state=0)
    >>> def difference(estimator, data, seed):
    ...     patients = data.y == data.y.max()
    ...     between = data.matrices[patients].mean(0) - data.matrices[~patients].mean(0)
    ...     return between[np.triu_indices(8, 1)]
    >>> found = reproducibility(make_estimator("lasso"), cohort, n_splits=2, group_map=difference)
    >>> found.table["map"].unique().tolist()
    ['model', 't', 'coefficients', 'haufe']
    """
    choice("by", by, BY)
    n_permutations = whole("n_permutations", n_permutations, 0)
    labels = labels_of(data)
    of_scores = predicts_scores(estimator)
    labels = labels.as_scores() if of_scores else labels
    if not of_scores and len(np.unique(labels.y)) != 2:
        raise ValueError(f"reproducibility needs two classes, got {len(np.unique(labels.y))}.")
    if isinstance(data, GraphSet) and not data.aligned:
        raise ValueError("reproducibility needs aligned graphs (node i the same in each); these are not.")
    estimator = on_data(estimator, data)
    explained = _by_group({**(options or {}), "n_resamples": n_resamples}) if group_map is None else group_map
    splits = list(halvings(labels, by, n_splits, random_state))
    tasks = [(i, "true") for i in range(len(splits))]
    tasks += [(i, "permuted") for i in range(min(n_permutations, len(splits)))]
    rows, n_connections = [], 0
    for i, kind in track(tasks, "halves", len(tasks), verbose):
        found: list[dict[str, np.ndarray]] = []
        for side, index in enumerate(splits[i]):
            seeds = np.random.SeedSequence([random_state, i, side, int(kind == "true")]).generate_state(2)
            half = data[index]
            if kind == "permuted":
                new = permuted_labels(
                    labels.y[index], labels.subjects[index], np.random.RandomState(seeds[0])
                )
                half = half.with_y(new)
            own = explained(with_seed(estimator, int(seeds[1])), half, int(seeds[1]))
            found.append({"model": np.asarray(own, np.float64), **reference_maps(estimator, half, of_scores)})
        sizes = {"n_first": len(splits[i].first), "n_second": len(splits[i].second)}
        n_connections = len(found[0]["model"])
        for name in found[0]:
            agreed = agreement_of_maps(found[0][name], found[1][name])
            rows.append({"split": i + 1, "map": name, "labels": kind, **agreed._asdict(), **sizes})
    return Reproducibility(pd.DataFrame(rows), by, top_count(n_connections), n_connections)


class MapAgreement(NamedTuple):
    """Spearman's correlation of two signed maps, and how many of their top connections are common."""

    rho: float
    common: int


def agreement_of_maps(first: np.ndarray, second: np.ndarray) -> MapAgreement:
    """Compare two maps (e,); the top connections are 100, or 5 % where that is fewer."""
    k = top_count(len(first))
    return MapAgreement(rank_correlation(first, second), int((largest(first, k) & largest(second, k)).sum()))


def halvings(data: Any, by: str = "halves", n_splits: int = 5, random_state: int = 0) -> Iterator[Halves]:
    """Yield two disjoint halves of the subjects, several times.

    data : `Cohort`, `GraphSet` or `Labels`. All scans of a subject are in one half. With ``by="sites"`` no
    site is in both halves either.
    """
    labels = labels_of(data)
    people = People.of(labels)
    people.check_counts(2 * LEAST, f"two halves need at least {2 * LEAST} subjects of every class")
    seen: set[bytes] = set()
    for i in range(whole("n_splits", n_splits, 1)):
        seed = int(np.random.SeedSequence([random_state, i]).generate_state(1)[0])
        if by == "sites":
            first = _half_of_sites(labels, np.random.default_rng(seed), seen)
        else:
            first = people.drawn.scans(people.cut(people.everybody, 0.5, seed, LEAST)[0])
        yield Halves(first, np.setdiff1d(np.arange(len(labels.y)), first))


def _half_of_sites(labels: Labels, random: np.random.Generator, seen: set[bytes]) -> np.ndarray:
    """Positions of the sites of one half: of many random assignments the most even one not seen before."""
    sites_of(labels)
    unit = _separable_sites(labels)
    n_units = int(unit.max()) + 1
    if n_units < 2:
        raise ValueError('no two parts of the sites have different subjects; use by="halves".')
    if labels.strata is not None:
        positive = labels.y > np.median(labels.y)
    else:
        positive = labels.y == np.unique(labels.y)[1]
    size, cases = np.bincount(unit), np.bincount(unit, positive)
    sides = random.random((DRAWS, n_units)) < 0.5
    sides ^= sides[:, :1]  # the first unit is always in the second half: halves have no order
    sides = np.unique(sides, axis=0)
    counts = np.stack([sides @ size, ~sides @ size, sides @ cases, ~sides @ cases])
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = counts[2:] / counts[:2]
    uneven = np.abs(counts[0] - counts[1]) / len(unit) + np.abs(shares[0] - shares[1])
    scarce = np.minimum(counts[2:], counts[:2] - counts[2:]).min(0) < LEAST
    uneven = np.where(scarce | ~np.isfinite(uneven), np.inf, uneven)
    if np.isinf(uneven).all():
        raise ValueError(
            f'sites cannot be divided so that each half has {LEAST} scans of each class; use by="halves".'
        )
    order = np.argsort(uneven, kind="stable")
    fresh = [j for j in order if np.isfinite(uneven[j]) and sides[j].tobytes() not in seen]
    best = sides[fresh[0] if fresh else order[0]]
    seen.add(best.tobytes())
    return np.flatnonzero(best[unit])


def _separable_sites(labels: Labels) -> np.ndarray:
    """(scans,) number of the set of sites a scan belongs to: sites that share a subject cannot be parted."""
    site = np.unique(np.asarray(labels.sites), return_inverse=True)[1]
    subject = np.unique(labels.subjects, return_inverse=True)[1]
    n_sites = site.max() + 1
    n = n_sites + subject.max() + 1
    links = sparse.coo_array((np.ones(len(site)), (site, n_sites + subject)), (n, n))
    return csgraph.connected_components(links, directed=False)[1][site]


def _by_group(options: Mapping[str, Any]) -> GroupMap:
    """Return the function that makes the map of a group explanation."""

    def explained(estimator: Any, data: Any, seed: int) -> np.ndarray:
        return upper_triangle(explain_group(estimator, data, random_state=seed, **options).map)

    return explained


def reference_maps(estimator: Any, data: Any, of_scores: bool = False) -> dict[str, np.ndarray]:
    """Return maps that any explanation is compared with: t, coefficients and Haufe pattern, each (e,).

    They are of the graphs that the classifier at the end of the pipeline sees, in standard deviations of each
    connection. Coefficients are those of logistic regression with an L2 penalty; the pattern is the
    covariance of each connection with the log-odds (Haufe et al., NeuroImage 87, 2014, equation (7)). Of a
    score, "correlation" takes the place of t, and ridge regression that of logistic regression.
    """
    graphs = data
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        graphs = clone(Pipeline(estimator.steps[:-1])).fit_transform(data, data.y)
    vectors = standardised(connectivity_vector(graphs, int(graphs.n_nodes[0])))
    if of_scores:
        score = np.asarray(data.y, np.float64)
        level = (score - score.mean()) / max(score.std(), 1e-12)
        coefficients = ridge_coefficients(vectors, level)
        return {
            "correlation": covariance_with(vectors, level),
            "coefficients": coefficients,
            "haufe": covariance_with(vectors, vectors @ coefficients),
        }
    positive = np.asarray(data.y) == np.unique(data.y)[1]
    coefficients = regression_coefficients(vectors, positive)
    return {
        "t": t_values(vectors, positive),
        "coefficients": coefficients,
        "haufe": covariance_with(vectors, vectors @ coefficients),
    }
