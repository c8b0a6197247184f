"""Whether predictions follow motion, age, sex or site, as the commands tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cignn.cli.app import show_table

if TYPE_CHECKING:
    import pandas as pd

    from cignn import Cohort, GraphSet
    from cignn.evaluation import Store


class Checked(NamedTuple):
    """Tests of nuisances, and AUC or R² within sites, one row per method each; None where there are none."""

    table: pd.DataFrame | None
    areas: pd.DataFrame | None
    within: pd.DataFrame | None = None


def checked_predictions(
    store: Store, planned: list[list[str]], cohort: Cohort | GraphSet, positive: Any
) -> Checked:
    """Test the out-of-fold predictions of every method of an evaluation."""
    from cignn import Cohort
    from cignn.evaluation.nuisances import nuisance_checks

    predictions = store.predictions()
    predictions = predictions[predictions["key"].isin([key for key, *_ in planned])]
    if not isinstance(cohort, Cohort) or not len(predictions):
        return Checked(None, None)
    found = {
        str(method): nuisance_checks(own, cohort, positive=positive)
        for method, own in predictions.groupby("method", sort=False)
    }
    return joined({name: checks for name, checks in found.items() if checks is not None})


def joined(found: dict[str, Any]) -> Checked:
    """Put the checks of several methods below each other."""
    import pandas as pd

    tables = [checks.table.assign(method=name) for name, checks in found.items()]
    areas = [{"method": n, **checks.auc._asdict()} for n, checks in found.items() if checks.auc is not None]
    table = pd.concat(tables, ignore_index=True) if tables else None
    if table is not None:
        table = table[["method", *(name for name in table if name != "method")]]
    within = [{"method": n, **checks.r2._asdict()} for n, checks in found.items() if checks.r2 is not None]
    tables = [pd.DataFrame(rows) if rows else None for rows in (areas, within)]
    return Checked(table, *tables)


def show_nuisances(checked: Checked, what: str = "label") -> None:
    """Show what predictions owe to nuisances, a row per method; what : "label" or "score"."""
    if checked.table is not None:
        rows = checked.table
        said = [_words(size, p) for size, p in zip(rows["association"], rows["p_holm"], strict=True)]
        wide = rows.assign(said=said).pivot(index="method", columns="nuisance", values="said")
        wide = wide.loc[rows["method"].unique(), rows["nuisance"].unique()]
        show_table(wide.reset_index(), f"predictions follow, at equal {what}: association (p, Holm)")
    if checked.areas is not None:
        columns = {"value": "same site", "low": "low", "high": "high", "overall": "all pairs"}
        shown = checked.areas[["method", *columns, "n_sites"]].rename(columns=columns)
        show_table(shown, "ROC-AUC among subjects of the same site, with 95 % interval")
    if checked.within is not None:
        columns = {"value": "same site", "overall": "all", "r": "r, same site", "overall_r": "r, all"}
        shown = checked.within[["method", "value", "low", "high", "overall", "r", "overall_r", "n_sites"]]
        show_table(shown.rename(columns=columns), "R² among subjects of the same site, with 95 % interval")


def _words(size: float, p: float) -> str:
    if p != p:
        return "–"
    return f"{size:.2f} ({'<0.001' if p < 0.001 else f'{p:.3f}'})".replace("-", "−")
