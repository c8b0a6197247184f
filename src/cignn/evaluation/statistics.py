"""Is one method better than another? Tables, ranks and tests on the results of `evaluate`.

`score_table` turns results into blocks × methods; the tests are pure functions of such tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from cignn._checks import number, whole
from cignn.evaluation.classification import METRICS, OF_POSITIVE
from cignn.evaluation.probes import POSITIVE, refuse_mixtures

DIGITS = 12  # to which scores are compared: means of the same numbers in another order are ties
BLOCK = ("data", "protocol", "split", "seed")


class FriedmanTest(NamedTuple):
    """Do all methods rank alike? The chi-square statistic and its p-value."""

    statistic: float
    p_value: float


class NemenyiTest(NamedTuple):
    """Which methods rank differently: p_values (methods × methods), and by how much ranks must differ."""

    p_values: pd.DataFrame
    critical_difference: float
    average_ranks: pd.Series


class TTest(NamedTuple):
    """A mean difference, its t statistic and two-sided p-value, and the ends of its interval."""

    difference: float
    statistic: float
    p_value: float
    low: float
    high: float


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


# ------------------------------------------------------------------------ tables


def summary(
    results: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    *,
    as_text: bool = True,
    digits: int = 3,
) -> pd.DataFrame:
    """Mean ± standard deviation over all tasks (splits and seeds) of each method and metric.

    results : from `evaluate` or `Store.results`. metrics : by default all. as_text : "0.712 ± 0.031", else
    numbers under (metric, "mean" | "std" | "n"). Rows are (data, method), with the protocol and the
    explainer where there are several. Tasks that failed are counted in a column "failed" where there are any;
    where a metric is of the positive class, the column "positive" names that class.
    """
    _check_columns(results, "method", "data", "metric", "value")
    refuse_mixtures(results)
    rows = ["data", "method"]
    if "protocol" in results and results["protocol"].nunique() > 1:
        rows.insert(1, "protocol")
    if "explainer" in results and (results["explainer"] != "").any():
        rows.append("explainer")
    scored = results[results["metric"] != "error"]
    metrics = _ordered(scored["metric"].unique()) if metrics is None else list(metrics)
    for metric in metrics:
        _check_metric(scored, metric)
    scored = scored[scored["metric"].isin(metrics)]
    groups = scored.groupby([*rows, "metric"], sort=False)["value"]
    table = groups.agg(mean="mean", std="std", n="count").unstack("metric")
    table = table.swaplevel(axis=1)[[(m, part) for m in metrics for part in ("mean", "std", "n")]]
    if as_text:
        pairs = {m: zip(table[m]["mean"], table[m]["std"], strict=True) for m in metrics}
        texts = {m: [as_mean_std(mean, std, digits) for mean, std in pairs[m]] for m in metrics}
        table = pd.DataFrame(texts, index=table.index)
    failed = results[(results["metric"] == "error") & (results.get("explainer", "") == "")]
    if len(failed):
        counts = failed.groupby(rows, sort=False).size()
        table = table.reindex(table.index.union(counts.index, sort=False))
        if as_text:
            table = table.fillna("–")
        else:
            numbers = [(metric, "n") for metric in metrics]
            table[numbers] = table[numbers].fillna(0).astype(int)
        table["failed"] = counts.reindex(table.index).fillna(0).astype(int)
    if POSITIVE in results and results[POSITIVE].notna().any() and set(metrics) & set(OF_POSITIVE):
        table[POSITIVE] = results.groupby(rows, sort=False)[POSITIVE].first().reindex(table.index)
    return table


def as_mean_std(mean: float, std: float, digits: int = 3) -> str:
    """Write "mean ± std"; of a single value the mean alone, of none a dash."""
    if np.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" if np.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"


def score_table(
    results: pd.DataFrame, metric: str = "accuracy", block: Sequence[str] = BLOCK, explainer: str = ""
) -> pd.DataFrame:
    """Blocks × methods: the mean score of each method in each block, all methods in all blocks.

    block : what makes a block. By default each task; ("data",) compares methods over data sets, as the paper.
    """
    _check_columns(results, "method", "metric", "value", *block)
    refuse_mixtures(results)
    mine = results[results["explainer"] == explainer] if "explainer" in results else results
    _check_metric(mine, metric)
    values = mine[mine["metric"] == metric]
    table = values.pivot_table("value", list(block), "method", aggfunc="mean", sort=False, dropna=False)
    table = table.dropna(how="all")
    order = [m for m in results["method"].unique() if m in table]
    table = table[order]
    if table.isna().any(axis=None):
        method = table.columns[table.isna().any()][0]
        first = table.index[table[method].isna()].to_frame().iloc[0]
        where = ", ".join(f"{name} {value}" for name, value in first.items())
        raise ValueError(
            f"method {method!r} has no {metric} in block ({where}); leave the method or the block out."
        )
    return table


def site_table(results: pd.DataFrame, metric: str = "accuracy", *, digits: int = 3) -> pd.DataFrame:
    """Sites × methods of a leave-one-site-out evaluation: mean ± std over seeds, and over sites at the end.

    The column "scans" is the size of the site. The last row is the mean over sites of their means.
    """
    sites = results[results["protocol"] == "loso"]
    if not len(sites):
        raise ValueError('the results have no leave-one-site-out tasks; evaluate with protocol="loso".')
    _check_metric(sites, metric)
    refuse_mixtures(sites)
    sites = sites[sites["metric"] == metric]
    names = ["data", "split"] if sites["data"].nunique() > 1 else ["split"]
    groups = sites.groupby([*names, "method"], sort=False)["value"]
    means, stds = groups.mean().unstack("method"), groups.std().unstack("method")
    table = pd.DataFrame(
        {m: [as_mean_std(*pair, digits) for pair in zip(means[m], stds[m], strict=True)] for m in means},
        index=means.index.set_names([*names[:-1], "site"]),
    )
    table.insert(0, "scans", sites.groupby(names, sort=False)["n_test"].first().to_numpy())
    last = {m: as_mean_std(means[m].mean(), means[m].std(), digits) for m in means}
    place: Any = "mean over sites" if len(names) == 1 else ("all", "mean over sites")
    over_all = pd.DataFrame({"scans": [int(table["scans"].sum())]} | {m: [text] for m, text in last.items()})
    over_all.index = table.index[:0].append(pd.Index([place])).set_names(table.index.names)
    return pd.concat([table, over_all])


# ------------------------------------------------------------------------- ranks


def average_ranks(table: pd.DataFrame, *, higher_is_better: bool = True) -> pd.Series:
    """(methods,) mean rank over the blocks of a (blocks, methods) table; 1 is best, ties share ranks."""
    values = _values(table, least_methods=2)
    ranks = stats.rankdata(-values if higher_is_better else values, axis=1)
    return pd.Series(ranks.mean(0), index=table.columns, name="average rank")


def friedman_test(table: pd.DataFrame) -> FriedmanTest:
    """Test whether three methods or more rank alike in a (blocks, methods) table."""
    values = _values(table, least_methods=3)
    if (values == values[:, :1]).all():
        return FriedmanTest(0.0, 1.0)  # all tied everywhere
    out = stats.friedmanchisquare(*values.T)
    return FriedmanTest(float(out.statistic), float(out.pvalue))


def nemenyi_test(table: pd.DataFrame, *, alpha: float = 0.05, higher_is_better: bool = True) -> NemenyiTest:
    """Compare all pairs of methods by their average ranks in a (blocks, methods) table."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    values = _values(table, least_methods=2)
    p_values = posthoc_nemenyi_friedman(values)
    p_values.index = p_values.columns = table.columns
    return NemenyiTest(
        p_values,
        critical_difference(values.shape[1], values.shape[0], alpha),
        average_ranks(table, higher_is_better=higher_is_better),
    )


def critical_difference(n_methods: int, n_blocks: int, alpha: float = 0.05) -> float:
    """Average ranks of two methods must differ by this much: q √(k (k + 1) / 6N) (Demšar 2006)."""
    number("alpha", alpha, 0, 1)
    for name, count in (("n_methods", n_methods), ("n_blocks", n_blocks)):
        whole(name, count, 0)
    if n_methods < 2 or n_blocks < 1:
        raise ValueError(
            f"a critical difference needs at least 2 methods and 1 ranking, got {n_methods} and {n_blocks}."
        )
    q = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


# ------------------------------------------------------------------------- pairs


def corrected_interval(values: np.ndarray, overlap: float, level: float = 0.95) -> Interval:
    """Interval of the mean of (k,) values, two or more, over resampled splits (Nadeau and Bengio 2003).

    overlap : n_test / n_train, 0 where training sets share nobody.
    """
    number("level", level, 0, 1)
    number("overlap", overlap, 0, np.inf, include_low=True)
    v = np.asarray(values, float)
    width = stats.t.ppf((1 + level) / 2, len(v) - 1) * _corrected_error(v, overlap)
    return Interval(float(v.mean() - width), float(v.mean() + width))


def _corrected_error(values: np.ndarray, overlap: float) -> float:
    """Standard error of the mean of (k,) values: training sets overlap, so 1/k alone would be too little."""
    return float(np.sqrt((1 / len(values) + overlap) * values.var(ddof=1)))


def corrected_t_test(differences: np.ndarray, n_train: float, n_test: float, level: float = 0.95) -> TTest:
    """Corrected resampled t-test (Nadeau and Bengio 2003) of (k,) differences over resampled splits.

    Training sets of resampled splits overlap, so the variance of the mean is (1/k + n_test/n_train) times
    that of the differences, not 1/k. n_train : scans learnt from, validation included. level : of the
    interval.
    """
    d = np.asarray(differences, float).round(DIGITS)
    if d.ndim != 1 or len(d) < 2 or np.isnan(d).any():
        raise ValueError(f"the test needs at least two differences and no NaN, got {d.shape}.")
    for name, count in (("n_train", n_train), ("n_test", n_test)):
        number(name, count, 0, np.inf)
    ends = corrected_interval(d, n_test / n_train, level)
    error = _corrected_error(d, n_test / n_train)
    if error == 0:
        same, mean = d[0] == 0, float(d[0])
        return TTest(mean, 0.0 if same else float(np.copysign(np.inf, mean)), 1.0 if same else 0.0, *ends)
    t = d.mean() / error
    return TTest(float(d.mean()), float(t), float(2 * stats.t.sf(abs(t), len(d) - 1)), *ends)


def compare_methods(results: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Corrected resampled t-test of every pair of methods on every data set, over splits and seeds.

    Columns data, protocol, first, second, difference (first − second), statistic, p_value, low and high, the
    95 % interval of the difference, and p_holm, which Holm's method corrects for the number of pairs of that
    data set.
    """
    rows = []
    for (data, protocol), some in results.groupby(["data", "protocol"], sort=False):
        table = score_table(some, metric, ("split", "seed"))
        sizes = some[some["metric"] == metric][["n_train", "n_validation", "n_test"]].mean()
        n_train = sizes["n_train"] + sizes["n_validation"]
        pairs = list(combinations(table.columns, 2))
        if not pairs:
            raise ValueError(f"there is only one method on {data!r}, {table.columns[0]!r}; evaluate two.")
        tests = [
            corrected_t_test((table[a] - table[b]).to_numpy(), n_train, sizes["n_test"]) for a, b in pairs
        ]
        adjusted = holm(np.array([test.p_value for test in tests]))
        for pair, test, p in zip(pairs, tests, adjusted, strict=True):
            rows.append((data, protocol, *pair, *test, p))
    names = ["data", "protocol", "first", "second", *TTest._fields, "p_holm"]
    return pd.DataFrame(rows, columns=names)


def holm(p_values: np.ndarray) -> np.ndarray:
    """(m,) p-values corrected for their number, Holm 1979."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty_like(p)
    out[order] = np.minimum(stepped, 1)
    return out


# ----------------------------------------------------------------------- helpers


def _values(table: pd.DataFrame, least_methods: int) -> np.ndarray:
    values = np.asarray(table, float)
    if values.ndim != 2 or values.shape[1] < least_methods or values.shape[0] < 2:
        raise ValueError(
            f"ranks need at least {least_methods} methods in 2 blocks, got a table of shape {values.shape} "
            "(blocks, methods); two methods are compared by corrected_t_test."
        )
    if np.isnan(values).any():
        raise ValueError("the table has missing scores; leave those blocks or methods out.")
    return values.round(DIGITS)


def _ordered(metrics: np.ndarray) -> list[str]:
    known = [metric for metric in METRICS if metric in metrics]
    return known + [metric for metric in metrics if metric not in METRICS]


def _check_columns(results: pd.DataFrame, *names: str) -> None:
    for name in names:
        if name not in results:
            raise ValueError(f"results must come from evaluate, these have no column {name!r}.")


def _check_metric(results: pd.DataFrame, metric: str) -> None:
    known = [name for name in results["metric"].unique() if name != "error"]
    if not known:
        raise ValueError("the results have no scores, every task failed; the column error says why.")
    if metric not in known:
        raise ValueError(f"the results have no metric {metric!r}. There are {', '.join(known)}.")
