"""`cignn predict` and `cignn explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import write_csv
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import command, fits_screen, say, say_json, show_table
from cignn.cli.explanation_files import (
    check_contributions,
    show_group,
    show_views,
    with_bases,
    write_group,
    write_subjects,
    write_views,
)
from cignn.cli.models import (
    class_named,
    explained,
    own_scores,
    positive_of,
    prediction_table,
    read_new,
    tell_scores,
    with_correlations,
    with_names,
)
from cignn.cli.reading import (
    as_graphs,
    check_file,
    check_folder,
    check_model,
    format_of,
    how_many,
)
from cignn.cli.scores import (
    Target,
    predicts_scores,
    score_table,
    scores_of_table,
    target_of,
    tell_regression,
)
from cignn.cli.settings import FILE, write_settings
from cignn.cli.views import NewView, with_new_views

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
    view: NewView = None,
    label: opt.Label = "label",
    target: Target = None,
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Predict the class probabilities, or the score, of new subjects.

    Example: [bold]cignn predict model new_subjects --out predictions.csv[/]
    """
    check_model(model)
    format_of(new, format)
    from cignn import load_model

    if out is not None:
        check_file(out, ".csv")
    fitted = load_model(model)
    of_scores = predicts_scores(fitted)
    counted = None if of_scores else positive_of(fitted, model, positive)
    column = target_of(model, target) if of_scores else None
    data = read_new(new, model, format, label, atlas, load, as_json, column)
    data = with_new_views(fitted, data, view, label, as_json)
    fitted = with_names(fitted, data, atlas is not None, quiet=True)
    with working("predicting", not as_json):
        classifier, graphs = as_graphs(fitted, data)
        table = predicted_table(fitted, data, classifier, graphs)
    scores = scores_of_table(table) if of_scores else own_scores(table, fitted.classes_, counted)
    if out is not None:
        write_csv(out, table)
        write_settings(out.with_suffix(".settings.toml"), context)
    if as_json:
        told = {"target": classifier.target} if of_scores else {"positive": counted}
        say_json({"predictions": table} | told | {"scores": scores, "out": out})
        return
    if out is None:
        shown = table if of_scores else on_screen(table, len(fitted.classes_))
        show_table(shown, how_many(table["subject"]), most=MOST, digits=2 if of_scores else 3)
    if of_scores:
        tell_regression(scores, table, classifier.target)
    else:
        tell_scores(scores, table, counted)
    if out is not None:
        what = f"predicted {classifier.target}" if of_scores else "probabilities"
        say(f"{what} of {how_many(table['subject'])}: {out}")


def predicted_table(fitted: Any, data: Any, classifier: Any, graphs: Any) -> pd.DataFrame:
    """One row per subject with what is predicted: a score, or probabilities of classes."""
    if predicts_scores(fitted):
        return score_table(fitted, data, classifier.predict(graphs))
    return prediction_table(fitted, data, classifier.predict_proba(graphs))


def on_screen(table: pd.DataFrame, n_classes: int) -> pd.DataFrame:
    """The table with, where classes are many or have long names, the probability of the predicted alone."""
    if n_classes <= MOST_CLASSES and (n_classes == 2 or fits_screen(table)):
        return table
    chances = table.iloc[:, -n_classes:]
    return table.drop(columns=chances.columns).assign(probability=chances.max(axis=1))


PICTURES = ("png", "pdf", "svg")
BY = ("auto", "contribution", "weight")


@command()
def explain(
    context: typer.Context,
    model: opt.ModelFolder,
    new: opt.Subjects,
    out: Annotated[Path, typer.Option(help="Folder to write into.", file_okay=False)] = Path("explained"),
    target: Annotated[
        str | None,
        typer.Option(
            help="Class to explain, by default the one predicted of each subject; of a model of scores, the "
            "column with the scores.",
            metavar="CLASS|COLUMN",
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            help="What ranks edges: contribution (what they did to the decision) or weight (where the model "
            "looks); auto is the contribution where the explainer tells it.",
            metavar="NAME",
        ),
    ] = "auto",
    pooled: Annotated[
        bool,
        typer.Option(
            help="Pool contributions over edges that go together in patients, where the model knows some."
        ),
    ] = True,
    top: Annotated[int, typer.Option(min=1, help="Number of edges to draw in a figure.", metavar="N")] = 50,
    edges: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of edges to list per subject, top ones first; all by default.",
            metavar="N",
        ),
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw a figure for each subject.")] = True,
    picture: Annotated[
        str, typer.Option(help="Format of the figures: png, pdf or svg.", metavar="ENDING")
    ] = "png",
    explainer: opt.ExplainerName = "auto",
    seed: opt.Seed = 0,
    positive: opt.Positive = None,
    view: NewView = None,
    label: opt.Label = "label",
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Write what speaks for and against each subject's prediction, edge by edge.

    A contribution is what an edge adds to the log-odds of the class explained, a
    deviation its distance from the mean of the training set's controls in their
    standard deviations. The folder then holds probabilities.csv, group_edges.csv
    with its figure, and in subjects/ a table of edges and a figure for each
    subject. Of a model of scores, contributions are in units of the score, and
    the table is predictions.csv. Of a fusion, views/ holds the same for each view,
    and by_view.csv what each added to the log-odds.

    Example: [bold]cignn explain model new_subjects --out explained[/]
    """
    check_model(model)
    format_of(new, format)
    from cignn import load_model

    if picture not in PICTURES:
        raise typer.BadParameter(f"must be png, pdf or svg, got '{picture}'.", param_hint="'--picture'")
    if by not in BY:
        raise typer.BadParameter(f"must be auto, contribution or weight, got '{by}'.", param_hint="'--by'")
    check_folder(out)
    fitted = load_model(model)
    of_scores = predicts_scores(fitted)
    counted = None if of_scores else positive_of(fitted, model, positive)
    wanted = None if of_scores else class_named(fitted.classes_, target)
    column = target_of(model, target) if of_scores else None
    of_views = _of_views(fitted, explainer, pooled)
    data = read_new(new, model, format, label, atlas, load, as_json, column)
    data = with_new_views(fitted, data, view, label, as_json)
    fitted = with_names(fitted, data, atlas is not None, as_json)
    with working("predicting", not as_json):
        classifier, graphs = as_graphs(fitted, data)
        table = predicted_table(fitted, data, classifier, graphs)
    listed = out / ("predictions.csv" if of_scores else "probabilities.csv")
    write_csv(listed, table)
    write_settings(out / FILE, context)
    counts = how_many(table["subject"])
    drawn = (picture, top) if figures else None
    if of_views:
        with working("explaining", not as_json):
            told = fitted.explain(data, wanted)
        atlases = {name: getattr(one, "atlas_", None) for name, one in _inner(fitted).views_.items()}
        by_view = write_views(told, table, by, wanted, atlases, out, picture, top, edges, drawn, as_json)
        scores = own_scores(table, fitted.classes_, counted)
        if as_json:
            content = {"out": out, "subjects": table["subject"].nunique(), "scans": len(table)}
            content |= {"target": wanted, "probabilities": table, "positive": counted, "scores": scores}
            say_json(content | {"by_view": by_view, "explained_views": list(told.views)})
            return
        show_views(by_view, list(atlases), counts)
        tell_scores(scores, table, counted)
        say(f"probabilities, what each view added, and edges of {counts}: {out}")
        return
    if _inner(fitted) is not fitted:  # decisions on the probabilities of a classifier
        classifier, graphs = as_graphs(_inner(fitted), data)
    chosen = wanted
    if _inner(fitted) is not fitted and wanted is None:
        chosen = table["predicted"].to_numpy().astype(fitted.classes_.dtype)
    explanations = explained(classifier, graphs, explainer, seed, as_json, chosen, pooled)
    check_contributions(explanations, by)
    explanations = with_correlations(explanations, _inner(fitted), data)
    table = with_bases(table, explanations)
    write_csv(listed, table)
    atlas_of = getattr(_inner(fitted), "atlas_", None)
    group = write_group(explanations, by, wanted, atlas_of, out, top, picture, counts)
    write_subjects(explanations, table, by, edges, atlas_of, out, drawn, quiet=as_json)
    scores = scores_of_table(table) if of_scores else own_scores(table, fitted.classes_, counted)
    if as_json:
        content = {"out": out, "subjects": table["subject"].nunique(), "scans": len(table)}
        told = {"target": wanted, "probabilities": table, "positive": counted}
        content |= {"target": classifier.target, "predictions": table} if of_scores else told
        content |= {"scores": scores}
        say_json(content | {"group_edges": None if group is None else group.head(top)})
        return
    if group is not None:
        show_group(group, explanations, wanted, table["subject"])
    if of_scores:
        tell_regression(scores, table, classifier.target)
    else:
        tell_scores(scores, table, counted)
    what = "predictions" if of_scores else "probabilities"
    what += ", edges and figures" if figures else " and edges"
    say(f"{what} of {counts}: {out}")


def _inner(fitted: Any) -> Any:
    """The model that decisions are put on, or the model itself."""
    return getattr(fitted, "estimator_", fitted)


def _of_views(fitted: Any, explainer: str, pooled: bool) -> bool:
    """Whether a model fuses views, each of which its own model explains; refuse what these do not do."""
    inner = _inner(fitted)
    if hasattr(inner, "coding_"):
        raise ValueError(
            "the model reads a table and no connections; its explain() in Python tells the rest."
        )
    if not hasattr(inner, "views_"):
        return False
    if explainer != "auto" or not pooled:
        raise typer.BadParameter(
            "the model fuses views, and each is explained by its own model; leave it out.",
            param_hint="'--explainer'" if explainer != "auto" else "'--no-pooled'",
        )
    return True
