"""Who and what was left out of a cohort, as a table with one row each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from cignn._checks import name_some

COLUMNS = ["subject", "roi", "reason", "detail"]


def excluded(
    subjects: Iterable[Any], reason: str, details: str | Sequence[str] = "", rois: Iterable[Any] = ()
) -> pd.DataFrame:
    """Return one row per subject, or per ROI that was left out of everyone.

    reason : name of the option that left them out. details : why, in words, for all or for each.
    """
    names = [str(name) for name in subjects]
    regions = [str(name) for name in rois]
    n = len(names) or len(regions)
    each = [details] * n if isinstance(details, str) else list(details)
    columns = zip(names or [""] * n, regions or [""] * n, [reason] * n, each, strict=True)
    return pd.DataFrame(list(columns), columns=COLUMNS, dtype=object)


def as_exclusions(table: Any) -> pd.DataFrame:
    """Return a table of exclusions; refuse one with other columns."""
    table = pd.DataFrame([] if table is None else table, columns=COLUMNS if table is None else None)
    if lacking := [name for name in ("subject", "reason") if name not in table]:
        raise ValueError(f"exclusions must have the columns subject and reason, {lacking[0]} is missing.")
    table = table.reindex(columns=[*COLUMNS, *(name for name in table if name not in COLUMNS)])
    return table.astype(object).where(table.notna(), "").astype(str).reset_index(drop=True)


def joined(*tables: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of several tables in one."""
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else as_exclusions(None)


def exclusion_lines(table: pd.DataFrame) -> list[str]:
    """Say in one line per reason who was left out and why."""
    lines = []
    for (reason, is_roi), rows in table.groupby(["reason", table["subject"] == ""], sort=False):
        what = "left out of everyone" if is_roi else "left out"
        names = rows["subject"].where(rows["subject"] != "", rows["roi"])
        if rows["detail"].nunique() == 1:
            why = f": {rows['detail'].iloc[0]}" if rows["detail"].iloc[0] else ""
            lines.append(f"{what} ({reason}): {name_some(names)}{why}")
        else:
            each = [f"{name} ({why})" for name, why in zip(names, rows["detail"], strict=True)]
            lines.append(f"{what} ({reason}): {name_some(each)}")
    return lines
