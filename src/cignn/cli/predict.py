"""`cignn predict`: class probabilities of new subjects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cignn._files import write_csv
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import command
from cignn.cli.models import own_scores, positive_of, prediction_table, read_new, tell_scores
from cignn.cli.reading import (
    as_graphs,
    check_file,
    check_model,
    format_of,
    how_many,
)
from cignn.cli.screen import say, say_json, show_table
from cignn.cli.settings import write_settings

if TYPE_CHECKING:
    import pandas as pd


MOST = 20  # rows shown on the screen
MOST_CLASSES = 5  # whose probabilities fit on it


@command()
def predict(
    context: typer.Context,
    model: opt.ModelFolder,
    new: opt.Subjects,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write; by default the table is shown.", metavar="FILE")
    ] = None,
    positive: opt.Positive = None,
    label: opt.Label = "label",
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Predict the class probabilities of new subjects.

    Example: [bold]cignn predict model new_subjects --out predictions.csv[/]
    """
    check_model(model)
    format_of(new, format)
    from cignn import load_model

    if out is not None:
        check_file(out, ".csv")
    fitted = load_model(model)
    counted = positive_of(fitted, model, positive)
    data = read_new(new, model, format, label, atlas, load, as_json)
    with working("predicting", not as_json):
        classifier, graphs = as_graphs(fitted, data)
        table = prediction_table(fitted, data, classifier.predict_proba(graphs))
    scores = own_scores(table, fitted.classes_, counted)
    if out is not None:
        write_csv(out, table)
        write_settings(out.with_suffix(".settings.toml"), context)
    if as_json:
        say_json({"predictions": table, "positive": counted, "scores": scores, "out": out})
        return
    if out is None:
        show_table(on_screen(table, len(fitted.classes_)), how_many(table["subject"]), most=MOST)
    tell_scores(scores, table, counted)
    if out is not None:
        say(f"probabilities of {how_many(table['subject'])}: {out}")


def on_screen(table: pd.DataFrame, n_classes: int) -> pd.DataFrame:
    """The table with, where classes are many, the probability of the predicted one alone."""
    if n_classes <= MOST_CLASSES:
        return table
    chances = table.iloc[:, -n_classes:]
    return table.drop(columns=chances.columns).assign(probability=chances.max(axis=1))
