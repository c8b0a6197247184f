"""Do scans of one subject agree? Test–retest reliability of connections and of explanations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from cignn._arrays import upper_pairs
from cignn._checks import choice, name_some, whole
from cignn.datasets.cohort import Cohort
from cignn.datasets.likeness import connectivity_vectors
from cignn.datasets.occasions import occasions_of
from cignn.estimators.graph_vectors import connectivity_vector
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

KINDS = ("ICC(1,1)", "ICC(2,1)", "ICC(3,1)")
FEWEST = 3  # subjects with repeated scans


def intraclass_correlation(values: np.ndarray, kind: str = "ICC(2,1)") -> np.ndarray:
    """Intraclass correlation of single measurements.

    "ICC(1,1)" is of the one-way model. In the two-way models, "ICC(2,1)" is the absolute agreement of scans
    and "ICC(3,1)" their consistency: a shift of all subjects between scans counts as an error in the former
    only.

    Parameters
    ----------
    values : array-like of shape (n, k) or (n, k, e)
        Measurements of n subjects in k scans, of e connections.
    kind : {"ICC(1,1)", "ICC(2,1)", "ICC(3,1)"}, default="ICC(2,1)"
        The model.

    Returns
    -------
    ndarray of shape () or (e,)
        At most 1; NaN where nothing varies. Below 0 where scans of one subject differ more than subjects do.

    References
    ----------
    P. E. Shrout and J. L. Fleiss, Intraclass correlations: uses in assessing rater reliability, Psychological
    Bulletin 1979.

    Examples
    --------
    >>> from cignn.evaluation import intraclass_correlation
    >>> shifted = [[9, 10], [6, 7], [8, 9], [7, 8]]
    >>> [round(float(intraclass_correlation(shifted, kind)), 2) for kind in ("ICC(2,1)", "ICC(3,1)")]
    [0.77, 1.0]
    """
    choice("kind", kind, KINDS)
    x = np.asarray(values, np.float64)
    if x.ndim not in (2, 3) or min(x.shape[:2]) < 2:
        raise ValueError(
            f"values must be (subjects, scans) or (subjects, scans, connections), got {x.shape}."
        )
    n, k = x.shape[:2]
    mean = x.mean((0, 1))
    of_subject, of_scan = x.mean(1, keepdims=True), x.mean(0, keepdims=True)
    rows = k * np.square(of_subject[:, 0] - mean).sum(0) / (n - 1)
    if kind == "ICC(1,1)":
        within = np.square(x - of_subject).sum((0, 1)) / (n * (k - 1))
        top, bottom = rows - within, rows + (k - 1) * within
    else:
        error = np.square(x - of_subject - of_scan + mean).sum((0, 1)) / ((n - 1) * (k - 1))
        columns = n * np.square(of_scan[0] - mean).sum(0) / (k - 1)
        top, bottom = rows - error, rows + (k - 1) * error
        if kind == "ICC(2,1)":
            bottom = bottom + k * (columns - error) / n
    least = 1e-12 * np.square(x).mean((0, 1))  # what rounding leaves of equal numbers
    return np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > least)


@dataclass(frozen=True)
class Retest:
    """How well scans of one subject agree.

    Parameters
    ----------
    what : str
        "connections" or "contributions".
    kind : str
        Model of the intraclass correlation.
    table : DataFrame
        One row per connection: source, target and icc.
    n_subjects : int
        Number of subjects compared.
    n_scans : int
        Number of scans of each.
    median : float
        Median of the intraclass correlations.
    low : float
        Lower end of its 95 % interval (bootstrap over subjects).
    high : float
        Upper end of the interval.
    strangers : float
        The same median where every scan is paired with one of another subject of the same site and class:
        what sites and classes alone give.
    rho : float
        Mean rank correlation of two scans of one subject over all connections.
    rho_strangers : float
        The same of scans of two subjects, of the same site and class where there are any.
    discriminability : float
        How often two scans of one subject are more alike than scans of two subjects; 0.5 by chance.
    identification : float
        How often, of all subjects' scans of another session, the most similar one is the subject's own.
    decision : float
        Intraclass correlation of the log-odds, of explanations; otherwise NaN.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import retest_reliability
    >>> cohort = make_cohort(20, 8, n_edges=2, n_scans=2, random_state=0)
    >>> found = retest_reliability(cohort)
    >>> found.n_subjects, found.n_scans, found.chance
    (20, 2, 0.05)
    """

    what: str
    kind: str
    table: pd.DataFrame
    n_subjects: int
    n_scans: int
    median: float
    low: float
    high: float
    strangers: float
    rho: float
    rho_strangers: float
    discriminability: float
    identification: float
    decision: float = float("nan")

    @property
    def chance(self) -> float:
        """How often a guess identifies a subject.

        Returns
        -------
        float
            One over the number of subjects.
        """
        return 1 / self.n_subjects

    def summary(self) -> str:
        """Return the result as lines of text.

        Returns
        -------
        str
            Figures with what they are compared with.
        """
        lines = [
            f"Test–retest reliability of {self.what}, {self.n_subjects} subjects with {self.n_scans} scans:",
            f"median {self.kind} {self.median:.2f} (95 % interval {self.low:.2f} to {self.high:.2f}); "
            f"{self.strangers:.2f} with scans of strangers of the same site and class",
            f"rank correlation of a subject's scans {self.rho:.2f}, of strangers' {self.rho_strangers:.2f}",
            f"discriminability {self.discriminability:.2f} (chance 0.50)",
            f"subjects identified {self.identification:.0%} (chance {self.chance:.0%})",
        ]
        if np.isfinite(self.decision):
            lines.append(f"{self.kind} of the log-odds {self.decision:.2f}")
        return "\n".join(lines)


def retest_reliability(
    data: Cohort | GraphSet | Explanations,
    *,
    kind: str = "ICC(2,1)",
    target: Any = None,
    n_resamples: int = 200,
    random_state: int = 0,
) -> Retest:
    """Say how well the scans of one subject agree, beside scans of different subjects.

    Scans are told apart by the covariates "session" and "run", otherwise by their order. Compared are the
    subjects who have the same scans; those whose label changes between scans are left out. Of a cohort of
    series the connections are correlations. Explanations are compared by their contributions: explain
    subjects that the model was not trained on.

    Parameters
    ----------
    data : Cohort, GraphSet or Explanations
        Scans of subjects, of whom three at least have several. Graphs must be aligned.
    kind : {"ICC(1,1)", "ICC(2,1)", "ICC(3,1)"}, default="ICC(2,1)"
        Model of the intraclass correlation, see `intraclass_correlation`.
    target : object, default=None
        The class towards which contributions are told; by default that of `Explanations.one_class`.
    n_resamples : int, default=200
        Number of draws of subjects for the interval of the median.
    random_state : int, default=0
        Seed of the draws and of the pairs of strangers.

    Returns
    -------
    Retest
        One intraclass correlation per connection in ``table``; in words in ``summary()``.

    References
    ----------
    E. W. Bridgeford et al., Eliminating accidental deviations to minimize generalization error and maximize
    replicability, PLOS Computational Biology 2021 (discriminability). E. S. Finn et al., Functional
    connectome fingerprinting, Nature Neuroscience 2015 (identification).

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import retest_reliability
    >>> cohort = make_cohort(30, 8, n_edges=2, n_scans=2, reliability=0.9, random_state=0)
    >>> found = retest_reliability(cohort)
    >>> found.median > found.strangers, found.discriminability > 0.5
    (True, True)
    """
    choice("kind", kind, KINDS)
    whole("n_resamples", n_resamples, 1)
    read = _read(data, target)
    place = _places(read)
    values = read.values[place].astype(np.float64)  # (n, k, e)
    n, k = place.shape
    rng = np.random.default_rng(random_state)
    stratum = read.stratum[place[:, 0]]
    icc = intraclass_correlation(values, kind)
    drawn = []
    for _ in range(n_resamples):
        some = rng.integers(n, size=n)
        drawn.append(_median(intraclass_correlation(values[some], kind)))
    ends = np.nanquantile(drawn, [0.025, 0.975]) if np.isfinite(drawn).any() else [np.nan] * 2
    names = np.array(read.names, dtype=object)[read.pairs]
    alike = _Alike.of(values, stratum)
    decision = np.nan
    if read.decisions is not None:
        decision = float(intraclass_correlation(read.decisions[place], kind))
    return Retest(
        "contributions" if isinstance(data, Explanations) else "connections",
        kind,
        pd.DataFrame({"source": names[:, 0], "target": names[:, 1], "icc": icc}),
        n,
        k,
        _median(icc),
        float(ends[0]),
        float(ends[1]),
        _median(intraclass_correlation(_with_strangers(values, stratum, rng), kind)),
        *alike,
        decision=decision,
    )


def has_repeats(subjects: np.ndarray) -> bool:
    """Whether three subjects or more have several scans; subjects : (n,) names."""
    return int((np.unique(subjects, return_counts=True)[1] > 1).sum()) >= FEWEST


# ----------------------------------------------------------------------------- what is compared


class _Read(NamedTuple):
    """Values of scans and who they are of."""

    values: np.ndarray  # (scans, e)
    pairs: np.ndarray  # (e, 2) numbers of regions
    names: list[str]  # of regions
    subjects: np.ndarray  # (scans,)
    occasions: np.ndarray  # (scans,) words, "" where unknown
    labels: np.ndarray  # (scans,) words
    stratum: np.ndarray  # (scans,) words: site and class
    decisions: np.ndarray | None  # (scans,) log-odds


def _read(data: Cohort | GraphSet | Explanations, target: Any) -> _Read:
    """Take what is compared from any of the three."""
    decisions = None
    if isinstance(data, Cohort):
        values, pairs = connectivity_vectors(data)[0], upper_pairs(data.n_rois)
        names, subjects, covariates = data.roi_names, data.subjects, data.covariates
        y, sites = data.y, data.sites
    elif isinstance(data, (GraphSet, Explanations)):
        graphs = data if isinstance(data, GraphSet) else data.graphs
        if not graphs.aligned or "subject" not in graphs.meta:
            lacking = 'meta["subject"]' if graphs.aligned else "aligned graphs (node i the same in each)"
            raise ValueError(f"test–retest reliability needs {lacking}; these have none.")
        n = int(graphs.n_nodes[0]) if len(graphs) else 0
        names = [str(name) for name in graphs.node_names or range(n)]
        subjects, covariates = np.asarray(graphs.meta["subject"]).astype(str), graphs.meta
        y, sites = graphs.y, graphs.groups
        if isinstance(data, GraphSet):
            values, pairs = connectivity_vector(graphs, n), upper_pairs(n)
        else:
            if data.edge_contributions is None:
                raise ValueError(
                    "test–retest reliability of explanations needs contributions; there are none."
                )
            turned = (
                data
                if target is None and data.one_class() is None
                else data.towards(data.one_class() if target is None else target)
            )
            pairs, values, _ = turned.aligned_contributions(target, "test–retest reliability")
            if turned.base is not None:
                decisions = np.asarray(turned.base, float) + values.sum(1)
    else:
        wanted = "a Cohort, a GraphSet or Explanations"
        raise TypeError(f"test–retest reliability is of {wanted}, got {type(data).__name__}.")
    labels = np.full(len(subjects), "") if y is None else pd.Series(y).astype(str).to_numpy(str)
    where = np.full(len(subjects), "") if sites is None else np.asarray(sites).astype(str)
    stratum = np.char.add(np.char.add(where, "\n"), labels)
    occasions = occasions_of(subjects, covariates)
    return _Read(np.asarray(values), pairs, names, subjects, occasions, labels, stratum, decisions)


def _places(read: _Read) -> np.ndarray:
    """(n, k) positions of the scans compared: of the subjects with the most scans in common."""
    table = pd.DataFrame({"subject": read.subjects, "occasion": read.occasions, "label": read.labels})
    table["place"] = np.arange(len(table))
    order = table.groupby("subject", sort=False).cumcount()
    if (table["occasion"] == "").any() or table.duplicated(["subject", "occasion"]).any():
        table["occasion"] = order.map("{:06d}".format)
    steady = table.groupby("subject", sort=False)["label"].transform("nunique") == 1
    wide = table[steady].pivot(index="subject", columns="occasion", values="place")
    wide = wide.reindex(pd.unique(table["subject"][steady]))
    best = np.empty((0, 0), int)
    columns = wide.notna().sum().sort_values(ascending=False, kind="stable").index
    for k in range(2, len(columns) + 1):
        some = wide[[name for name in wide.columns if name in set(columns[:k])]].dropna()
        if len(some) >= FEWEST and len(some) * (k - 1) > len(best) * (best.shape[1] - 1):
            best = some.to_numpy(int)
    if not len(best):
        several = pd.Series(read.subjects).value_counts()
        found = name_some(several.index[several > 1]) if (several > 1).any() else "none"
        raise ValueError(
            f"test–retest reliability needs {FEWEST} subjects with the same two scans or more and one label; "
            f"subjects with several scans: {found}."
        )
    return best


# ----------------------------------------------------------------------------- figures


def _median(icc: np.ndarray) -> float:
    """Median over connections of those that vary."""
    return float(np.nanmedian(icc)) if np.isfinite(icc).any() else float("nan")


def _with_strangers(values: np.ndarray, stratum: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n, k, e) values whose scans after the first are those of another subject of the stratum, or of any."""
    out = values.copy()
    for scan in range(1, values.shape[1]):
        partner = np.arange(len(values))
        for name in np.unique(stratum):
            here = np.flatnonzero(stratum == name)
            here = rng.permutation(here)
            partner[here] = np.roll(here, 1)
        alone = np.flatnonzero(partner == np.arange(len(values)))
        partner[alone] = (alone + rng.integers(1, len(values), len(alone))) % len(values)
        out[:, scan] = values[partner, scan]
    return out


class _Alike(NamedTuple):
    """The fields of `Retest` that are made of pairs of scans."""

    rho: float
    rho_strangers: float
    discriminability: float
    identification: float

    @classmethod
    def of(cls, values: np.ndarray, stratum: np.ndarray) -> _Alike:
        """Compare all pairs of scans of (n, k, e) values by their rank correlation."""
        n, k, e = values.shape
        ranks = stats.rankdata(values.reshape(n * k, e), axis=1)
        ranks -= ranks.mean(1, keepdims=True)
        norm = np.linalg.norm(ranks, axis=1, keepdims=True)
        unit = np.divide(ranks, norm, out=np.zeros_like(ranks), where=norm > 0)
        alike = unit @ unit.T
        owner, scan = np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
        own = owner[:, None] == owner
        np.fill_diagonal(own, False)
        others = owner[:, None] != owner
        near = others & (stratum[owner][:, None] == stratum[owner])
        wins, pairs, found = 0.0, 0, []
        for i in range(n * k):
            mine, rest = alike[i, own[i]], np.sort(alike[i, others[i]])
            below, not_above = np.searchsorted(rest, mine), np.searchsorted(rest, mine, side="right")
            wins += float((below + not_above).sum()) / 2
            pairs += len(mine) * len(rest)
            for other in range(k):
                if other != scan[i]:
                    found.append(owner[scan == other][alike[i, scan == other].argmax()] == owner[i])
        strangers = alike[near] if near.any() else alike[others]
        return cls(float(alike[own].mean()), float(strangers.mean()), wins / pairs, float(np.mean(found)))
