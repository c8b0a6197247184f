"""Learning curves: scores with fewer subjects to learn from, and what more of them may bring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from cignn._checks import number
from cignn.evaluation.methods import Methods, resolve_data
from cignn.evaluation.power_law import PowerLaw, fit_power_law
from cignn.evaluation.runner import evaluate
from cignn.evaluation.splits import Labels, Split, labels_of
from cignn.evaluation.splitters import KFold, Splitter, _seed, make_protocol
from cignn.evaluation.statistics import corrected_interval

SHARES = (0.1, 0.18, 0.32, 0.56, 1.0)  # evenly spaced on a logarithmic axis
LEAST = 4  # subjects of every class, in the smallest training part
LEADING = ("roc_auc", "accuracy", "r2")  # the metric shown is the first of these
RESAMPLES = 500
LOWEST = {"mcc": -1.0, "r": -1.0, "r2": -np.inf}  # of all other scores 0
CURVE = ["method", "metric", "n", "value", "low", "high", "tasks", "kind", "chance"]


@dataclass(frozen=True, repr=False)
class Subsampled(Splitter):
    """The splits of another protocol with a part of their training subjects; test parts stay as they are.

    The subjects of a smaller part are among those of every larger one. They are drawn at random with the
    same share of every class and, where there are sites, of every site.

    Parameters
    ----------
    protocol : Splitter, default=KFold(5)
        The protocol whose training parts are thinned out.
    shares : tuple of float, default=(0.1, 0.18, 0.32, 0.56, 1.0)
        Shares of the training subjects, in (0, 1].
    validation_size : float, default=0.1
        Not used: the protocol's own holds.
    n_inner : int, default=3
        Not used: the protocol's own holds.
    random_state : int, default=0
        Seed of the splits; `evaluate` uses its own seeds instead.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.evaluation import KFold, Subsampled
    >>> graphs = make_ba2motifs(60, random_state=0)
    >>> splits = Subsampled(KFold(2), (0.5, 1.0)).splits(graphs)
    >>> [(split.name, len(split.test)) for split in splits]
    [('1 | 0.5', 30), ('1 | 1', 30), ('2 | 0.5', 30), ('2 | 1', 30)]
    """

    name: ClassVar[str] = "learning-curve"
    protocol: Splitter = field(default_factory=lambda: KFold(5))
    shares: tuple[float, ...] = SHARES

    def _draw(self, labels: Labels, seed: int) -> list[Split]:
        """Every split of the protocol with every share, named "split | share"."""
        for share in self.shares:
            number("shares", share, 0, 1, include_high=True)
        out = []
        for draw, split in enumerate(self.protocol.splits(labels, seed)):
            rank = _ranks(labels, split, _seed(seed, draw, 7))
            for share in self.shares:
                out.append(_thinned(split, labels, rank, float(share)))
        return out

    def _inner(self, inside: Labels, where: np.ndarray, seed: int) -> list[Split]:
        return self.protocol._inner(inside, where, seed)


def _ranks(labels: Labels, split: Split, seed: int) -> np.ndarray:
    """(n,) of every scan: the share of the training subjects from which on its subject is among them."""
    rng = np.random.default_rng(seed)
    rank = np.full(len(labels.y), np.inf)
    for part in (split.train, split.validation):
        table = pd.DataFrame({"subject": labels.subjects[part], "class": labels.classes[part]})
        table["site"] = "" if labels.sites is None else labels.sites[part]
        people = table.drop_duplicates("subject")
        ranks: dict[str, float] = {}
        for _, some in people.groupby(["class", "site"], sort=True):
            start = rng.random()  # strata of one or two subjects enter at different shares
            order = rng.permutation(some["subject"].to_numpy())
            ranks |= {s: (i + start) / len(order) for i, s in enumerate(order)}
        rank[part] = [ranks[s] for s in table["subject"]]
    return rank


def _thinned(split: Split, labels: Labels, rank: np.ndarray, share: float) -> Split:
    """Return a split with the training subjects whose ranks are below the share."""
    name = f"{split.name} | {share:g}"
    if share == 1:
        return Split(name, split.train, split.validation, split.test)
    parts = [part[rank[part] < share] for part in (split.train, split.validation)]
    kept = labels.classes[parts[0]]
    people = pd.Series(labels.subjects[parts[0]]).groupby(kept).nunique()
    for label in np.unique(labels.classes[split.train]).tolist():
        if int(people.get(label, 0)) < LEAST:
            raise ValueError(
                f"with {share:g} of the training subjects, split {split.name!r} has {people.get(label, 0)} "
                f"of class {label!r}, a learning curve needs {LEAST}; leave out so small a size."
            )
    return Split(name, parts[0], parts[1], split.test)


# ---------------------------------------------------------------------------- curve


@dataclass(frozen=True)
class LearningCurve:
    """Scores with different numbers of subjects to learn from.

    Parameters
    ----------
    results : DataFrame
        Rows of `evaluate`, with the columns split (of the protocol), share (of the training subjects) and n
        (scans learnt from).
    chance : dict of str to float
        What guessing scores, by metric.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import KFold, learning_curve
    >>> cohort = make_cohort(60, n_rois=8, n_edges=4, data="matrices", random_state=0)
    >>> methods = {"lasso": {"C": 1.0}}
    >>> curve = learning_curve(methods, cohort, KFold(2), sizes=[0.5, 1.0], verbose=0)
    >>> curve.table()["n"].max(), curve.chance["roc_auc"]
    (np.float64(30.0), 0.5)
    """

    results: pd.DataFrame
    chance: dict[str, float]

    def leading_metric(self) -> str:
        """Return the metric that is shown where none is named.

        Returns
        -------
        str
            "roc_auc", "accuracy" or "r2", the first that there is.
        """
        return next(name for name in LEADING if name in set(self.results["metric"]))

    def table(self, metric: str | None = None, level: float = 0.95) -> pd.DataFrame:
        """Return the mean score of every method with every number of subjects.

        Parameters
        ----------
        metric : str or None, default=None
            The score, by default the leading one.
        level : float, default=0.95
            Level of the intervals, which are corrected for common training subjects of the splits.

        Returns
        -------
        DataFrame
            One row per method and size: method, metric, n (mean number of scans learnt from), value, low and
            high (NaN with one task), tasks, kind ("measured") and chance.
        """
        metric = self.leading_metric() if metric is None else metric
        rows = []
        for method, own in self._of(metric).groupby("method", sort=False):
            overlap = _overlap(own)
            for _, some in own.groupby("share", sort=True):
                values = some["value"].to_numpy(float)
                ends = corrected_interval(values, overlap, level) if len(values) > 1 else (np.nan, np.nan)
                low, high = np.clip(ends, LOWEST.get(metric, 0.0), 1.0).tolist()
                told = (float(values.mean()), low, high, len(values), "measured", self._chance(metric))
                rows.append((method, metric, float(some["n"].mean()), *told))
        return pd.DataFrame(rows, columns=CURVE)

    def fit(self, method: str | None = None, metric: str | None = None) -> PowerLaw:
        """Fit score = a − b n^(−c) to the means of a method.

        Parameters
        ----------
        method : str or None, default=None
            The method, by default the first.
        metric : str or None, default=None
            The score, by default the leading one.

        Returns
        -------
        PowerLaw
            The law, and the laws of resampled splits, whose spread is widened for common training subjects.
        """
        metric = self.leading_metric() if metric is None else metric
        rows = self._of(metric)
        method = str(rows["method"].iloc[0]) if method is None else method
        rows = rows[rows["method"] == method]
        wide = rows.pivot_table("value", ["split", "seed"], "share").dropna()
        if wide.shape[1] < 3:
            raise ValueError(f"a power law needs three sizes or more, {method!r} has {wide.shape[1]}.")
        n = rows.groupby("share")["n"].mean().reindex(wide.columns)
        return fit_power_law(n.to_numpy(float), wide.to_numpy(float), _overlap(rows), n_resamples=RESAMPLES)

    def extrapolate(self, factors: Sequence[float] = (2.0, 4.0), metric: str | None = None) -> pd.DataFrame:
        """Return what the fitted power laws say, at the sizes measured and beyond.

        This is an extrapolation: it holds if new subjects are like those measured and the law goes on.

        Parameters
        ----------
        factors : sequence of float, default=(2.0, 4.0)
            Multiples of the largest number of subjects measured.
        metric : str or None, default=None
            The score, by default the leading one.

        Returns
        -------
        DataFrame
            Rows as those of `table`, of the kind "fitted".
        """
        metric = self.leading_metric() if metric is None else metric
        parts = []
        for method in self._of(metric)["method"].unique():
            law = self.fit(method, metric)
            n = np.geomspace(law.n.min(), law.n.max() * max([1.0, *factors]), 40)
            n = np.unique(np.concatenate([n, law.n, [f * law.n.max() for f in factors]]))
            low, high = law.interval(n)
            rows = {"method": method, "metric": metric, "n": n, "value": law(n), "low": low, "high": high}
            rows |= {"tasks": 0, "kind": "fitted", "chance": self._chance(metric)}
            parts.append(pd.DataFrame(rows)[CURVE])
        return pd.concat(parts, ignore_index=True)

    def words(self, metric: str | None = None) -> dict[str, str]:
        """Say in a sentence per method what more subjects may bring.

        Parameters
        ----------
        metric : str or None, default=None
            The score, by default the leading one.

        Returns
        -------
        dict of str to str
            Sentences by method.
        """
        metric = self.leading_metric() if metric is None else metric
        table = self.table(metric)
        out = {}
        for method in table["method"].unique():
            last = table[table["method"] == method].iloc[-1]
            try:
                law = self.fit(str(method), metric)
            except ValueError as error:
                out[str(method)] = f"no extrapolation: {error}"
                continue
            out[str(method)] = law.words(float(last["value"]), float(last["low"]), self._chance(metric))
        return out

    def to_frame(self, metric: str | None = None) -> pd.DataFrame:
        """Return what was measured and, where a power law can be fitted, what it says.

        Parameters
        ----------
        metric : str or None, default=None
            The score, by default the leading one.

        Returns
        -------
        DataFrame
            Rows of `table` and of `extrapolate`: what `draw_learning_curve` takes.
        """
        measured = self.table(metric)
        try:
            return pd.concat([measured, self.extrapolate(metric=metric)], ignore_index=True)
        except ValueError:  # fewer than three sizes
            return measured

    def _of(self, metric: str) -> pd.DataFrame:
        rows = self.results[(self.results["metric"] == metric) & self.results["value"].notna()]
        if not len(rows):
            known = sorted(set(self.results["metric"]) - {"error"})
            raise ValueError(f"there is no score {metric!r}. There are {', '.join(known)}.")
        return rows

    def _chance(self, metric: str) -> float:
        return self.chance.get(metric, np.nan)


def learning_curve(
    methods: Methods,
    data: Any,
    protocol: str | Splitter = "kfold",
    seeds: int | Iterable[int] = 1,
    *,
    sizes: Sequence[float] = SHARES,
    **options: Any,
) -> LearningCurve:
    """Evaluate methods with fewer and fewer training subjects, to see whether more data are worth it.

    The test parts are those of the protocol; training parts are thinned out, see `Subsampled`. Scans of a
    subject stay together and, by ``protocol="loso"``, sites are left out, as in `evaluate`. With a store, an
    interrupted run resumes, and tasks of an evaluation with all subjects are not repeated.

    Parameters
    ----------
    methods : str, sequence of str, or mapping
        As for `evaluate`.
    data : GraphSet or Cohort
        The data.
    protocol : {"holdout", "kfold", "loso"} or splitter, default="kfold"
        How the data are split.
    seeds : int or iterable of int, default=1
        Seeds, or their number. Each draws its own splits and subjects.
    sizes : sequence of float or int, default=(0.1, 0.18, 0.32, 0.56, 1.0)
        Shares of the training subjects in (0, 1], or numbers of subjects greater than 1.
    **options : dict
        Further options of `evaluate`: ``store``, ``n_jobs``, ``positive``, ``verbose`` and so on.

    Returns
    -------
    LearningCurve
        Scores by size, intervals, and a power law with its uncertainty.

    Examples
    --------
    >>> from cignn.datasets import make_cohort
    >>> from cignn.evaluation import KFold, learning_curve
    >>> cohort = make_cohort(80, n_rois=8, n_edges=4, effect=0.8, data="matrices", random_state=0)
    >>> curve = learning_curve({"lasso": {"C": 1.0}}, cohort, KFold(2), sizes=[0.3, 0.6, 1.0], verbose=0)
    >>> curve.extrapolate(factors=[2])["n"].max()
    np.float64(80.0)
    """
    named = resolve_data(data)
    if len(named) > 1:
        raise ValueError("a learning curve is of one data set, got several; call it for each.")
    labels = labels_of(next(iter(named.values())))
    base = make_protocol(protocol) if isinstance(protocol, str) else protocol
    thinned = Subsampled(base, shares_of(sizes, labels, base))
    results = evaluate(methods, named, thinned, seeds, **options)
    return curve_of(results, labels)


def curve_of(results: pd.DataFrame, labels: Labels) -> LearningCurve:
    """Return the learning curve of the rows of `evaluate` with the protocol `Subsampled`."""
    own = results[results["explainer"] == ""] if "explainer" in results else results
    pairs = own["split"].astype(str).str.rsplit(" | ", n=1, expand=True)
    rows = own.assign(split=pairs[0], share=pairs[1].astype(float), n=own["n_train"] + own["n_validation"])
    return LearningCurve(rows.reset_index(drop=True), chance_levels(labels))


def _overlap(rows: pd.DataFrame) -> float:
    """Test scans per training scan with all subjects; smaller training parts have fewer of them in common."""
    largest = rows[rows["share"] == rows["share"].max()]
    return float(largest["n_test"].mean() / largest["n"].mean())


def chance_levels(labels: Labels) -> dict[str, float]:
    """What guessing scores: of accuracy the share of the largest class, of others what no knowledge gives."""
    if labels.strata is not None:
        return {"r": 0.0, "r2": 0.0}
    shares = pd.Series(labels.y).value_counts(normalize=True)
    level = {"roc_auc": 0.5, "balanced_accuracy": 1 / len(shares), "mcc": 0.0}
    return level | {"accuracy": float(shares.max())}


def shares_of(sizes: Sequence[float], labels: Labels, protocol: Splitter) -> tuple[float, ...]:
    """Sizes as shares of the training subjects of the first split."""
    if isinstance(sizes, (str, bytes)) or not len(list(sizes)):
        raise ValueError("sizes must be shares in (0, 1] or numbers of subjects, at least one.")
    first = protocol.splits(labels, 0)[0]
    most = len(np.unique(labels.subjects[first.development]))
    out = set()
    for size in sizes:
        share = float(size) if 0 < size <= 1 else float(size) / most
        if not 0 < share <= 1:
            raise ValueError(
                f"sizes must be shares in (0, 1] or numbers up to {most}, the subjects of a training part, "
                f"got {size}."
            )
        out.add(round(share, 6))
    return tuple(sorted(out))
