"""Tables of the results of `evaluate`, and what keeps rows of different evaluations apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from cignn.evaluation.classification import METRICS, OF_POSITIVE

BLOCK = ("data", "protocol", "split", "seed")
NAMES = ["method", "data", "protocol"]
SETTINGS = "settings_digest"
POSITIVE = "positive"
REMEDY = 'keep those of one evaluation, rows[rows["key"].isin(results["key"])], or give methods other names.'


def summary(
    results: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    *,
    as_text: bool = True,
    digits: int = 3,
) -> pd.DataFrame:
    """Mean ± standard deviation over all tasks (splits and seeds) of each method and metric.

    Parameters
    ----------
    results : DataFrame
        Rows of `evaluate` or `Store.results`.
    metrics : sequence of str or None, default=None
        The metrics to show, all by default.
    as_text : bool, default=True
        Whether cells are text such as "0.712 ± 0.031". Otherwise they are numbers under (metric, "mean"),
        (metric, "std") and (metric, "n").
    digits : int, default=3
        Digits behind the point in cells of text.

    Returns
    -------
    DataFrame
        One row per (data, method), and per protocol and explainer where there are several. A column "failed"
        counts the tasks that failed where there are any. Where a metric is of the positive class, the column
        "positive" names that class.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import summary
    >>> columns = {"method": ["gin"] * 3, "data": "ABIDE", "metric": "accuracy", "value": [0.6, 0.7, 0.8]}
    >>> summary(pd.DataFrame(columns)).loc[("ABIDE", "gin"), "accuracy"]
    '0.700 ± 0.100'
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
    """Mean score of each method (columns) in each block (rows).

    Parameters
    ----------
    results : DataFrame
        Rows of `evaluate` or `Store.results`.
    metric : str, default="accuracy"
        The score.
    block : sequence of str, default=("data", "protocol", "split", "seed")
        The columns that make a block, by default each task. ("data",) compares methods over data sets, as in
        the paper.
    explainer : str, default=""
        Name of the explainer whose scores are taken; "" for scores of the classifier.

    Returns
    -------
    DataFrame of shape (blocks, methods)
        The scores; every method must have one in every block.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import score_table
    >>> results = pd.DataFrame(
    ...     {
    ...         "method": ["gin", "gin", "gcn", "gcn"],
    ...         "data": ["ABIDE", "MUTAG"] * 2,
    ...         "metric": "accuracy",
    ...         "value": [0.7, 0.9, 0.6, 0.8],
    ...     }
    ... )
    >>> score_table(results, block=["data"]).to_numpy().tolist()
    [[0.7, 0.6], [0.9, 0.8]]
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
    """Scores at each site of a leave-one-site-out evaluation: mean ± standard deviation over seeds.

    Parameters
    ----------
    results : DataFrame
        Rows of `evaluate` with ``protocol="loso"``.
    metric : str, default="accuracy"
        The score.
    digits : int, default=3
        Digits behind the point.

    Returns
    -------
    DataFrame
        One row per site and one column per method, after the column "scans", the size of the site. The last
        row is the mean over sites of their means.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import site_table
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "loso", "split": ["NYU", "UCLA"]}
    >>> results = pd.DataFrame(columns | {"n_test": 9, "metric": "accuracy", "value": [0.6, 0.8]})
    >>> site_table(results)["gin"].to_dict()
    {'NYU': '0.600', 'UCLA': '0.800', 'mean over sites': '0.700 ± 0.141'}
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


# ----------------------------------------------------------------------- checks


def refuse_mixtures(rows: pd.DataFrame) -> None:
    """Refuse rows of `evaluate` or a `Store` in which one name stands for several settings or tasks."""
    names = [name for name in NAMES if name in rows]
    if SETTINGS in rows and len(rows):
        counts = rows.groupby(names, sort=False, dropna=False)[SETTINGS].nunique()
        if counts.max() > 1:
            who = _who(names, counts.idxmax())
            raise ValueError(f"{who} stands for {counts.max()} different settings ({SETTINGS}); {REMEDY}")
    if POSITIVE in rows and len(rows):
        counts = rows.groupby(names, sort=False, dropna=False)[POSITIVE].nunique()
        if counts.max() > 1:
            who = _who(names, counts.idxmax())
            raise ValueError(f"scores of {who} are of several positive classes; evaluate with one of them.")
    refuse_repeats(rows)


def refuse_repeats(rows: pd.DataFrame) -> None:
    """Refuse rows in which settings, split and seed belong to several tasks: other data or splits."""
    names = [name for name in [*NAMES, "split", "seed"] if name in rows]
    by = [*names, *([SETTINGS] if SETTINGS in rows else [])]
    if "key" not in rows or not len(rows):
        return
    counts = rows.groupby(by, sort=False, dropna=False)["key"].nunique()
    if counts.max() > 1:
        who = _who(names, counts.idxmax())
        raise ValueError(f"there are {counts.max()} tasks of {who}: other data or splits; {REMEDY}")


def _who(names: list[str], values: object) -> str:
    given = dict(zip(names, values if isinstance(values, tuple) else (values,), strict=False))
    where = ", ".join(f"{name} {value}" for name, value in given.items() if name not in ("method", "data"))
    on = f" on {given['data']!r}" if "data" in given else ""
    return f"method {given['method']!r}{on}{f' ({where})' if where else ''}"


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
