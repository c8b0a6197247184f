"""Calibration, thresholds and operating points of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import write_csv
from cignn.cli import options as opt
from cignn.cli.app import complain, show_table
from cignn.cli.settings import names_in

if TYPE_CHECKING:
    import pandas as pd

    from cignn.evaluation import Store

CALIBRATIONS = ["sigmoid", "isotonic"]
THRESHOLDS = ["accuracy", "balanced_accuracy", "f1", "mcc", "sensitivity@0.8", "specificity@0.9"]
OPERATING, CURVES = "operating_points.csv", "decision_curves.csv"

Calibrate = Annotated[
    str | None,
    typer.Option(
        "--calibrate",
        help="Calibrate probabilities in inner folds of the training subjects: sigmoid or isotonic.",
        autocompletion=opt._words(CALIBRATIONS),
        rich_help_panel=opt.MODEL,
        metavar="HOW",
    ),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        help="Probability of the positive class from which it is predicted: a number, or chosen in inner "
        f"folds by {', '.join(THRESHOLDS)}.",
        autocompletion=opt._words(THRESHOLDS),
        rich_help_panel=opt.MODEL,
        metavar="WHAT",
    ),
]
Specificity = Annotated[
    str | None,
    typer.Option(
        "--specificity",
        help="Show the sensitivity at these specificities, such as 0.8,0.9.",
        metavar="SHARES",
    ),
]


def check_decisions(
    calibrate: str | None, threshold: str | None, specificity: str | None
) -> tuple[str | float | None, list[float]]:
    """Refuse what makes no sense before anything is read; return the threshold and the specificities."""
    if calibrate is not None and calibrate not in CALIBRATIONS:
        raise typer.BadParameter(
            f"must be one of {', '.join(CALIBRATIONS)}, got {calibrate}.", param_hint="'--calibrate'"
        )
    chosen: str | float | None = threshold
    if threshold is not None:
        chosen = _as_number(threshold)
        name, sign, share = threshold.partition("@")
        known = not sign and name in THRESHOLDS
        reached = sign and name in ("sensitivity", "specificity") and _is_share(_as_number(share))
        if not (known or reached or _is_share(chosen)):
            raise typer.BadParameter(
                f"must be a number between 0 and 1 or one of {', '.join(THRESHOLDS)}, got {threshold}.",
                param_hint="'--threshold'",
            )
    shares = [_as_number(word) for word in names_in(specificity)]
    for share_given in shares:
        if not _is_share(share_given):
            raise typer.BadParameter(
                f"must be numbers between 0 and 1, got {share_given}.", param_hint="'--specificity'"
            )
    return chosen, [float(one) for one in shares]


def _as_number(word: str) -> str | float:
    try:
        return float(word)
    except ValueError:
        return word


def _is_share(value: str | float) -> bool:
    return isinstance(value, float) and 0 < value < 1


def with_decisions(
    estimators: dict[str, Any],
    calibrate: str | None,
    threshold: str | float | None,
    positive: Any,
    n_classes: int,
    by: str,
) -> dict[str, Any]:
    """Return methods with calibrated probabilities and a threshold, where these are asked for."""
    if calibrate is None and threshold is None:
        return estimators
    if threshold is not None and n_classes != 2:
        raise typer.BadParameter(
            f"is for two classes, the data have {n_classes}; leave it out.", param_hint="'--threshold'"
        )
    from cignn.estimators import DecisionClassifier

    options: dict[str, Any] = {"calibrate": calibrate, "threshold": threshold, "by": by}
    if n_classes == 2:
        options["positive"] = positive
    return {name: DecisionClassifier(one, **options) for name, one in estimators.items()}


def write_decisions(
    out: Path, store: Store, results: pd.DataFrame, positive: Any, shares: list[float]
) -> pd.DataFrame | None:
    """Write decision curves, and operating points where asked for; return the latter."""
    from cignn.evaluation import decision_curves, operating_points

    rows = store.predictions()
    rows = rows[rows["key"].isin(results["key"])]
    columns = [name for name in rows if str(name).startswith("p_") and rows[name].notna().any()]
    if len(columns) != 2:
        if shares:
            complain("note", "no sensitivity at a specificity: it needs probabilities of two classes.")
        return None
    rows = rows[rows[columns].notna().all(axis=1)]
    write_csv(out / CURVES, decision_curves(rows, positive=positive))
    if not shares:
        return None
    points = operating_points(rows, shares, positive)
    write_csv(out / OPERATING, points)
    return points


def show_points(points: pd.DataFrame | None) -> None:
    """Show sensitivities at given specificities."""
    if points is None:
        return
    from cignn.evaluation.tables import as_mean_std

    cells = [as_mean_std(mean, std) for mean, std in zip(points["sensitivity"], points["std"], strict=True)]
    table = points.assign(cell=cells).pivot_table(
        "cell", "method", "specificity", aggfunc="first", sort=False
    )
    table.columns = [f"at {share:g}" for share in table.columns]
    show_table(table.reset_index(), "sensitivity at a specificity, read off the ROC curve of each test part")
