"""`cignn predict`: class probabilities of new subjects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import write_csv
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import command
from cignn.cli.reading import (
    as_graphs,
    check_file,
    check_model,
    format_of,
    how_many,
    read_data,
    subject_names,
)
from cignn.cli.screen import complain, positive_words, say, say_json, show_facts, show_table
from cignn.cli.settings import assignments, read_settings, write_settings

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from cignn import Cohort, GraphSet

MOST = 20  # rows shown on the screen
MOST_CLASSES = 5  # whose probabilities fit on it


@command()
def predict(
    context: typer.Context,
    model: opt.ModelFolder,
    new: opt.Subjects,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write; shown on the screen by default.", metavar="FILE")
    ] = None,
    positive: opt.Positive = None,
    label: opt.Label = "label",
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Give new subjects the model's class probabilities.

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


def positive_of(fitted: Any, model: Path, given: str | None) -> Any:
    """Return the class that counts as positive: the one given, else the one the model was scored by."""
    from cignn.evaluation import positive_class

    return positive_class(fitted.classes_, given or read_settings(model).get("positive"))


def tell_scores(scores: dict[str, float], table: pd.DataFrame, positive: Any) -> None:
    """Show scores, or say why labelled subjects have none."""
    if scores:
        words = positive_words(positive)
        show_facts(scores, f"on labelled subjects the model was not trained on{words}")
    elif "label" in table and table.loc[table["label"].notna(), "trained_on"].all():
        complain("note", "no scores: the model was trained on all that have labels.")


def read_new(
    path: Path, model: Path, format: str, label: str, atlas: str | None, load: list[str] | None, quiet: bool
) -> Cohort | GraphSet:
    """Read subjects to predict; the options of the model's own cohort hold unless others are given."""
    options = assignments(load)
    earlier = read_settings(model)
    kept = earlier.get("load", {})
    if isinstance(kept, dict) and str(earlier.get("format", "auto")) == format:
        options = {**{k: v for k, v in kept.items() if k not in ("participants", "selection")}, **options}
    if label == "label":
        label = str(earlier.get("label", label))
    return read_data(path, format=format, label=label, atlas=atlas, load=options, new=True, quiet=quiet)


def prediction_table(model: Any, data: Cohort | GraphSet, chances: np.ndarray) -> pd.DataFrame:
    """One row per subject: subject, site, label, whether it was trained on, predicted, p_<class>."""
    import numpy as np
    import pandas as pd

    columns: dict[str, Any] = {"subject": subject_names(data)}
    sites = getattr(data, "sites", getattr(data, "groups", None))
    if sites is not None:
        columns["site"] = sites
    if data.y is not None and not pd.isna(pd.Series(data.y)).all():
        columns["label"] = data.y
    columns["trained_on"] = model.trained_on(data)
    columns["predicted"] = np.asarray(model.classes_)[chances.argmax(1)]
    columns |= {f"p_{name}": chances[:, k] for k, name in enumerate(model.classes_.tolist())}
    return pd.DataFrame(columns)


def on_screen(table: pd.DataFrame, n_classes: int) -> pd.DataFrame:
    """The table with, where classes are many, the probability of the predicted one alone."""
    if n_classes <= MOST_CLASSES:
        return table
    chances = table.iloc[:, -n_classes:]
    return table.drop(columns=chances.columns).assign(probability=chances.max(axis=1))


def own_scores(table: pd.DataFrame, classes: np.ndarray, positive: Any = None) -> dict[str, float]:
    """Scores on labelled subjects the model was not trained on.

    Empty where both classes are not there, or nobody knows whom the model was trained on.
    """
    import numpy as np

    from cignn.evaluation import classification_scores

    if "label" not in table:
        return {}
    usable = table[table["label"].isin(classes.tolist()) & ~table["trained_on"]]
    if usable["label"].nunique() < 2:
        return {}
    chances = usable[[f"p_{name}" for name in classes.tolist()]].to_numpy()
    y = usable["label"].to_numpy().astype(classes.dtype)
    return classification_scores(y, classes[np.argmax(chances, 1)], classes, chances, positive)
