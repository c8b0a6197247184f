"""The demographic table of a cohort, as papers print it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from cignn.datasets.cohort import Cohort

_SEXES = {"m": "M", "male": "M", "f": "F", "female": "F"}


def demographic_table(cohort: Cohort, groups: dict[Any, str]) -> pd.DataFrame:
    """Size, age, sex and motion per group, then per site and group; see `Cohort.summary`.

    A subject with several scans is described once, by its first; the column "scans" counts them.
    """
    labels = pd.Series(["all"] * len(cohort) if cohort.y is None else cohort.y)
    order = sorted(labels.dropna().unique())
    sites = [("all", np.ones(len(cohort), bool))]
    if cohort.sites is not None:
        sites += [(site, cohort.sites == site) for site in np.unique(cohort.sites)]
    rows, index = [], []
    repeated = len(np.unique(cohort.subjects)) < len(cohort)
    for site, here in sites:
        for label in order:
            inside = here & (labels == label).to_numpy()
            index.append((str(site), str(groups.get(label, label))))
            once = np.flatnonzero(inside)[~pd.Series(cohort.subjects[inside]).duplicated().to_numpy()]
            scans = {"scans": int(inside.sum())} if repeated else {}
            rows.append({"subjects": len(once)} | scans | _describe(cohort.covariates.iloc[once]))
    return pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(index, names=["site", "group"]))


def _describe(table: pd.DataFrame) -> dict[str, str]:
    out = {}
    if "age" in table:
        out["age"] = _mean_std(table["age"], 1)
    if "sex" in table:
        sex = table["sex"].dropna().map(lambda value: _SEXES.get(str(value).strip().lower(), str(value)))
        if set(sex) <= {"M", "F"}:
            out["sex (M/F)"] = f"{(sex == 'M').sum()}/{(sex == 'F').sum()}"
        else:
            out["sex (M/F)"] = ", ".join(f"{value}: {count}" for value, count in sex.value_counts().items())
    if "mean_fd" in table:
        out["mean FD"] = _mean_std(table["mean_fd"], 2)
    return out


def _mean_std(values: pd.Series, digits: int) -> str:
    numbers = pd.to_numeric(values, errors="coerce").dropna()
    if numbers.empty:
        return "–"
    spread = f" ± {numbers.std():.{digits}f}" if len(numbers) > 1 else ""
    return f"{numbers.mean():.{digits}f}{spread}"
