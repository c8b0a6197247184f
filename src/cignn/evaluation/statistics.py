"""Is one method better than another? Ranks and tests; `score_table` makes the tables of scores they take."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from cignn._checks import number, whole
from cignn.evaluation.tables import score_table

DIGITS = 12  # to which scores are compared: means of the same numbers in another order are ties


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


# ------------------------------------------------------------------------- ranks


def average_ranks(table: pd.DataFrame, *, higher_is_better: bool = True) -> pd.Series:
    """Mean rank of each method over blocks; 1 is best, ties share ranks.

    Parameters
    ----------
    table : DataFrame of shape (blocks, methods)
        Scores, such as `score_table` returns.
    higher_is_better : bool, default=True
        Whether the highest score has rank 1.

    Returns
    -------
    Series of shape (methods,)
        The average ranks.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import average_ranks
    >>> average_ranks(pd.DataFrame({"gin": [0.7, 0.9], "gcn": [0.6, 0.9]})).tolist()
    [1.25, 1.75]
    """
    values = _values(table, least_methods=2)
    ranks = stats.rankdata(-values if higher_is_better else values, axis=1)
    return pd.Series(ranks.mean(0), index=table.columns, name="average rank")


def friedman_test(table: pd.DataFrame) -> FriedmanTest:
    """Friedman's test of whether three methods or more rank alike.

    Parameters
    ----------
    table : DataFrame of shape (blocks, methods)
        Scores, such as `score_table` returns.

    Returns
    -------
    FriedmanTest
        Named tuple of ``statistic`` (chi-square) and ``p_value``.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import friedman_test
    >>> table = pd.DataFrame({"gin": [0.7, 0.8, 0.9], "gcn": [0.6, 0.7, 0.8], "gat": [0.5, 0.6, 0.7]})
    >>> round(friedman_test(table).statistic, 6)
    6.0
    """
    values = _values(table, least_methods=3)
    if (values == values[:, :1]).all():
        return FriedmanTest(0.0, 1.0)  # all tied everywhere
    out = stats.friedmanchisquare(*values.T)
    return FriedmanTest(float(out.statistic), float(out.pvalue))


def nemenyi_test(table: pd.DataFrame, *, alpha: float = 0.05, higher_is_better: bool = True) -> NemenyiTest:
    """Nemenyi's test of all pairs of methods by their average ranks.

    Parameters
    ----------
    table : DataFrame of shape (blocks, methods)
        Scores, such as `score_table` returns.
    alpha : float, default=0.05
        Level of the critical difference.
    higher_is_better : bool, default=True
        Whether the highest score has rank 1.

    Returns
    -------
    NemenyiTest
        Named tuple of ``p_values`` (DataFrame, methods × methods), ``critical_difference`` (by how much
        average ranks must differ) and ``average_ranks`` (Series).

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import nemenyi_test
    >>> table = pd.DataFrame({"gin": [0.7, 0.8, 0.9], "gcn": [0.6, 0.7, 0.8], "gat": [0.5, 0.6, 0.7]})
    >>> test = nemenyi_test(table)
    >>> test.average_ranks.tolist(), test.p_values.shape
    ([1.0, 2.0, 3.0], (3, 3))
    """
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
    """Least difference of the average ranks of two methods: q √(k (k + 1) / 6N).

    Parameters
    ----------
    n_methods : int
        Number of methods k, 2 or more.
    n_blocks : int
        Number of rankings N that were averaged.
    alpha : float, default=0.05
        Level of the test.

    Returns
    -------
    float
        The critical difference of Nemenyi's test.

    References
    ----------
    J. Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 2006.

    Examples
    --------
    >>> from cignn.evaluation import critical_difference
    >>> round(critical_difference(n_methods=4, n_blocks=10), 2)
    1.48
    """
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
    """Interval of the mean over resampled splits, whose training sets overlap.

    Parameters
    ----------
    values : array of shape (k,)
        A score or difference in each of two splits or more.
    overlap : float
        Test scans per training scan; 0 where training sets share nobody.
    level : float, default=0.95
        Level of the interval.

    Returns
    -------
    Interval
        Named tuple of ``low`` and ``high``.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import corrected_interval
    >>> low, high = corrected_interval(np.array([0.6, 0.7, 0.8]), overlap=0.1)
    >>> round(low, 3), round(high, 3)
    (0.417, 0.983)
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
    """Corrected resampled t-test of differences over resampled splits.

    Training sets of resampled splits overlap, so the variance of the mean is (1/k + n_test/n_train) times
    that of the differences, not 1/k.

    Parameters
    ----------
    differences : array of shape (k,)
        Differences of two methods in k splits, 2 or more.
    n_train : float
        Scans learnt from in a split, validation included.
    n_test : float
        Scans tested in a split.
    level : float, default=0.95
        Level of the interval.

    Returns
    -------
    TTest
        Named tuple of ``difference`` (the mean), ``statistic`` (t), ``p_value`` (two-sided), and ``low`` and
        ``high``, the ends of the interval of the difference.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.evaluation import corrected_t_test
    >>> test = corrected_t_test(np.array([0.02, 0.04, 0.06]), n_train=90, n_test=10)
    >>> round(test.difference, 3), round(test.p_value, 3)
    (0.04, 0.095)
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

    Parameters
    ----------
    results : DataFrame
        Rows of `evaluate` with two methods or more.
    metric : str, default="accuracy"
        The score to compare.

    Returns
    -------
    DataFrame
        One row per data set and pair: data, protocol, first, second, difference (first − second), statistic,
        p_value, low and high (the 95 % interval of the difference), and p_holm, which Holm's method corrects
        for the number of pairs of that data set.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import compare_methods
    >>> results = pd.DataFrame(
    ...     {
    ...         "method": ["gin"] * 3 + ["gcn"] * 3,
    ...         "data": "ABIDE",
    ...         "protocol": "kfold",
    ...         "split": ["1", "2", "3"] * 2,
    ...         "seed": 0,
    ...         "metric": "accuracy",
    ...         "value": [0.72, 0.74, 0.76, 0.70, 0.70, 0.70],
    ...     }
    ... ).assign(n_train=80, n_validation=10, n_test=10)
    >>> compare_methods(results)[["first", "difference", "p_holm"]].round(3).to_numpy().tolist()
    [['gin', 0.04, 0.095]]
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
