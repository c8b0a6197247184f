"""Files of `cignn evaluate` for a paper: predictions, comparisons and permutation tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cignn._arrays import digest
from cignn._checks import name_some
from cignn._files import write_csv
from cignn.cli.app import InterruptedWorkError, complain, show_table
from cignn.cli.reading import missing_tasks, planned

if TYPE_CHECKING:
    import pandas as pd

    from cignn.evaluation import Store

PREDICTIONS, COMPARISON = "predictions.csv", "comparison.csv"
PERMUTATIONS, TRIVIAL = "permutations.csv", "trivial.csv"
PERMUTED = "permutations"  # the folder of the tasks with permuted labels
STEPS: dict[str, Any] = {  # options of `cignn evaluate` with what they are where the file does not say
    "connectivity": None,
    "fisher": False,
    "combat": False,
    "covariates": None,
    "unseen_sites": "grand_mean",
    "missing_covariates": "raise",
    "density": None,
    "deconfound": None,
    "deconfound_on": "all",  # of older files; newer ones say it
    "combat_on": "all",
    "repeated_scans": "raise",
}
OF_COVARIATES = (
    *("covariates", "unseen_sites", "missing_covariates", "deconfound_on", "combat_on", "repeated_scans"),
)
COMPARED = ("accuracy", "balanced_accuracy", "roc_auc", "mae", "r2", "r")  # the first there is decides


def write_predictions(out: Path, store: Store, results: pd.DataFrame) -> None:
    """Write what every method predicted for every scan of its test parts."""
    table = store.predictions()
    table = table[table["key"].isin(set(results["key"]))]
    names = results.drop_duplicates("key").set_index("key")["method"]  # as this evaluation calls them
    table = table.assign(method=table["key"].map(names))
    table = table.rename(columns={"y_true": "label", "y_pred": "prediction"})
    columns = ["subject", "site", "split", "seed", "label", "prediction"]
    if table.duplicated(["key", "subject"]).any():
        scan = table.groupby(["key", "subject"]).cumcount() + 1
        table = table.assign(scan=scan)
        columns.insert(1, "scan")
    chances = [name for name in table if str(name).startswith("p_") and table[name].notna().any()]
    if table["site"].isna().all():
        columns.remove("site")
    write_csv(out / PREDICTIONS, table[[*columns, *chances, "method"]])


def compared(results: pd.DataFrame) -> pd.DataFrame | None:
    """Pairwise tests of methods by several scores; None where there is nothing to compare."""
    import pandas as pd

    from cignn.evaluation import compare_methods

    own = results[(results["explainer"] == "") & (results["metric"] != "error")]
    enough = own["method"].nunique() > 1 and len(own[["split", "seed"]].drop_duplicates()) > 1
    if not enough:
        return None
    tables = []
    metrics = [metric for metric in COMPARED if metric in set(own["metric"])]
    for metric in metrics:
        try:
            tables.append(compare_methods(own, metric).assign(metric=metric))
        except ValueError as error:  # a method failed in some task, or has no such score
            if metric == metrics[0]:
                complain("note", f"methods are not compared: {error}")
                return None
    return pd.concat(tables, ignore_index=True) if tables else None


def write_comparison(out: Path, table: pd.DataFrame | None) -> None:
    """Write the comparison of methods; one of an earlier evaluation does not stay."""
    if table is None:
        (out / COMPARISON).unlink(missing_ok=True)
    else:
        names = ["metric", *(name for name in table if name != "metric")]
        write_csv(out / COMPARISON, table[names])


def permuted_table(
    out: Path,
    methods: dict[str, Any],
    named: dict[str, Any],
    protocol: Any,
    seeds: int,
    results: pd.DataFrame,
    trivial: pd.DataFrame,
    n_permutations: int,
    **running: Any,
) -> pd.DataFrame:
    """Evaluate with permuted labels, resuming what is there, and write and return the tests."""
    import pandas as pd

    from cignn.evaluation import Store, evaluate_permuted, permutation_table

    with Store(out / PERMUTED) as store:
        try:
            permuted = evaluate_permuted(
                methods, named, protocol, seeds, n_permutations=n_permutations, store=store, **running
            )
        except KeyboardInterrupt:
            n = len(store.tasks())
            raise InterruptedWorkError(
                f"the evaluation is done; of the permutations {n} tasks are kept in {out / PERMUTED}; the "
                "same command resumes them."
            ) from None
    both = pd.concat([results, trivial.reindex(columns=results.columns)], ignore_index=True)
    table = permutation_table(both, permuted)
    lost = table[table["n_permutations"] < n_permutations]
    if len(lost):
        row = lost.iloc[0]
        complain(
            "note",
            f"{row['method']} failed in {n_permutations - row['n_permutations']} permutations, which do not "
            "count; --retry-failed runs them again.",
        )
    keys = results.groupby("method")["key"].unique()
    table["tasks"] = [task_digest(keys.get(name, ())) for name in table["method"]]
    write_csv(out / PERMUTATIONS, table)
    return table


def task_digest(keys: Any) -> str:
    """Return a word for the tasks of a method: what was tested is told from a later evaluation."""
    return digest(*sorted(map(str, keys)), length=16) if len(keys) else ""


def read_permutations(folder: Path, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Read the tests of an evaluation; those of tasks that are not its own, or of an older one, are not."""
    table = _read(folder / PERMUTATIONS)
    if table is None or "tasks" not in table:
        return None
    keys = rows.groupby("method")["key"].unique()
    own = {str(name): task_digest(some) for name, some in keys.items()}
    named = table["method"].isin(list(own))
    right = table["tasks"] == table["method"].map(own)
    table = table[~named | right].drop(columns="tasks").reset_index(drop=True)
    return table if set(table["method"]) & set(own) else None


def read_trivial(folder: Path, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Read the scores of methods that need no connection, where they are of the same splits."""
    table = _read(folder / TRIVIAL)
    if table is None:
        return None
    names = ["data", "protocol", "split", "seed"]
    here, there = ({tuple(map(str, row)) for row in one[names].to_numpy()} for one in (table, rows))
    return table.assign(explainer="") if here >= there else None


def evaluation_of(folder: Path, method: str) -> pd.DataFrame:
    """Return the predictions of one method in the evaluation of a folder that was asked for last."""
    from cignn.evaluation import Store

    if not (folder / "results.sqlite").is_file():
        raise FileNotFoundError(f"{folder} is not a folder written by cignn evaluate.")
    keys = [key for key, *_ in planned(folder)]
    with Store(folder) as store:
        rows = store.predictions()
    rows = rows[rows["key"].isin(keys)] if keys else rows
    own = rows[rows["method"] == method]
    if not len(own):
        there = ", ".join(map(str, rows["method"].unique())) or "nothing"
        raise ValueError(f"{folder} has no predictions of {method}; it evaluated {there}.")
    return own.reset_index(drop=True)


def other_settings(evaluated: Mapping[str, Any], model: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """Name the settings in which an evaluation and a model differ; "" where they do not.

    usual : the values where a file of settings does not say.
    """
    pairs = {name: (evaluated.get(name, value), model.get(name, value)) for name, value in usual.items()}
    if not any(any(pairs[name]) for name in ("combat", "deconfound") if name in pairs):
        pairs = {name: pair for name, pair in pairs.items() if name not in OF_COVARIATES}
    pairs |= _other_parameters(evaluated, model)
    return ", ".join(f"{name} ({a} instead of {b})" for name, (a, b) in pairs.items() if a != b)


def _other_parameters(evaluated: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Parameters given to a method in an evaluation or to a model of it, with the values in both."""
    method, used = f"{model.get('method', '')}.", model.get("resolved", {})
    given = evaluated.get("model", {})
    theirs = {name: value for name, value in given.items() if "." not in name}
    theirs |= {name.removeprefix(method): value for name, value in given.items() if name.startswith(method)}
    ours = {name: model[name] for name in ("epochs", "n_estimators") if model.get(name) is not None}
    ours |= model.get("model", {})
    names = [*theirs, *(name for name in ours if name not in theirs)]
    return {
        name: (theirs.get(name, "the default"), ours.get(name, used.get(name, "the default")))
        for name in names
    }


def told_settings(evaluated: Mapping[str, Any]) -> dict[str, str]:
    """Sentences about the settings of an evaluation that its model does not show, for a methods paragraph."""
    out = {}
    chosen = []
    if evaluated.get("calibrate"):
        chosen.append(f"probabilities were calibrated ({evaluated['calibrate']})")
    if evaluated.get("threshold") is not None:
        chosen.append(f"the decision threshold was set by the rule {evaluated['threshold']}")
    if chosen:
        words = " and ".join(chosen)
        out["decisions of the evaluation"] = f"{words[0].upper()}{words[1:]} inside the training part."
    if evaluated.get("views"):
        names = str(evaluated["views"]).replace(",", ", ")
        out["views of the evaluation"] = (
            f"Several views of each subject ({names}) were fused inside the fold."
        )
    return out


def _read(file: Path) -> pd.DataFrame | None:
    import pandas as pd

    try:
        return pd.read_csv(file, dtype={"split": str}) if file.is_file() else None
    except (ValueError, OSError):  # half a file of somebody else
        return None


def show_permutations(table: pd.DataFrame) -> None:
    """Show the tests against permuted labels."""
    from cignn.evaluation.tables import as_mean_std

    shown = table[table["metric"] != "balanced_accuracy"]
    pairs = zip(shown["permuted_mean"], shown["permuted_std"], strict=True)
    columns = {
        "method": shown["method"],
        "score": shown["metric"].replace({"roc_auc": "ROC-AUC", "mae": "MAE", "r2": "R²"}),
        "mean": shown["value"],
        "permuted labels": [as_mean_std(*pair) for pair in pairs],
        "p": shown["p_value"],
    }
    n = int(table["n_permutations"].max())
    title = f"{n} permutation{'s' if n != 1 else ''} of the labels, trained again"
    show_table(type(table)(columns), title, right=["permuted labels"])


def kept_tasks(store: Store, before: int, out: Path, planned: list[list[str]]) -> str:
    """What an interrupt leaves, and what is missing of the evaluation."""
    missing, n_tasks = missing_tasks(planned, store), len(planned)
    new = len(store.tasks()) - before
    some = name_some([str(task).removesuffix(" not yet run") for task in missing], 3)
    lacking = f"; missing: {some}" if missing else ""
    return (
        f"{n_tasks - len(missing)} of {n_tasks} tasks ({new} new) are done and kept in {out}{lacking}; "
        "the same command resumes them; methods are not ranked before all are done."
    )
