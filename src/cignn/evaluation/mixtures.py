"""One name, one thing: rows of different settings or tasks must not be taken for repeats of one."""

from __future__ import annotations

import pandas as pd

NAMES = ["method", "data", "protocol"]
SETTINGS = "settings_digest"
POSITIVE = "positive"
REMEDY = 'keep those of one evaluation, rows[rows["key"].isin(results["key"])], or give methods other names.'


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
