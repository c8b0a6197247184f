"""`cignn predict` and `cignn explain`."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import write_csv
from cignn._progress import track, working
from cignn.cli import options as opt
from cignn.cli.app import InterruptedWorkError, command, fits_screen, say, say_json, show_table
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

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from cignn import Explanations
    from cignn.explanations import Explanation


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
SHOWN = 5  # edges of the group on the screen for the class explained, and against it; these columns of theirs
COLUMNS = ("source", "target", "contribution", "deviation", "weight", "connectivity")
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
    the table is predictions.csv.

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
    data = read_new(new, model, format, label, atlas, load, as_json, column)
    fitted = with_names(fitted, data, atlas is not None, as_json)
    with working("predicting", not as_json):
        classifier, graphs = as_graphs(fitted, data)
        table = predicted_table(fitted, data, classifier, graphs)
    listed = out / ("predictions.csv" if of_scores else "probabilities.csv")
    write_csv(listed, table)
    write_settings(out / FILE, context)
    explanations = explained(classifier, graphs, explainer, seed, as_json, wanted, pooled)
    check_contributions(explanations, by)
    explanations = with_correlations(explanations, fitted, data)
    table = with_bases(table, explanations)
    write_csv(listed, table)
    atlas_of = getattr(fitted, "atlas_", None)
    counts = how_many(table["subject"])
    group = write_group(explanations, by, wanted, atlas_of, out, top, picture, counts)
    drawn = (picture, top) if figures else None
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


def check_contributions(explanations: Explanations, by: str) -> None:
    """Refuse to rank by contributions that an explainer does not tell."""
    if by == "contribution" and explanations.edge_contributions is None:
        raise typer.BadParameter(
            "the explainer tells weights alone; leave it out or use --explainer contributions.",
            param_hint="'--by'",
        )


def with_bases(table: pd.DataFrame, explanations: Explanations) -> pd.DataFrame:
    """The predictions with the class explained and its base: base + all contributions = its log-odds."""
    if explanations.edge_contributions is None:
        return table
    if explanations.unit is not None:
        return table.assign(base=explanations.base)
    return table.assign(explained=explanations.explained, base=explanations.base)


def write_group(
    explanations: Explanations,
    by: str,
    wanted: Any,
    atlas: Any,
    out: Path,
    top: int,
    picture: str,
    counts: str,
) -> pd.DataFrame | None:
    """Write the group's edges and figure; None where graphs are not aligned and have no common edges.

    Contributions count towards the class explained of each subject. Towards one class, ``wanted``, those of
    a mixed group cancel: they are ranked by the mean of the subjects that are predicted to be of it.
    """
    if not explanations.graphs.aligned:
        return None
    from cignn.explanations.score_map import score_map

    of_scores = explanations.unit is not None
    mean = score_map(explanations) if of_scores else None
    if mean is None:
        mean = explanations[shown_subjects(explanations, wanted)].mean(turn=False)
    order = mean.ranking(by)
    table, ends = mean.table(order), tuple(mean.edges[order].T)
    if explanations.predictions is not None and not of_scores:
        names = sorted(set(explanations.predictions.tolist()), key=str)
        parts = {name: explanations[explanations.predictions == name].mean(turn=False) for name in names}
        if mean.edge_contributions is not None:
            for name, part in parts.items():
                table[f"contribution_predicted_{name}"] = part.contributions[ends]
        for name, part in parts.items():
            table[f"weight_predicted_{name}"] = part.weights[ends]  # by number: names may repeat
    write_csv(out / "group_edges.csv", table)
    draw(mean, None, atlas, counts, top, out / f"group.{picture}", by)
    return table


def shown_subjects(explanations: Explanations, wanted: Any) -> np.ndarray:
    """(g,) bool: who makes the group: everybody, or those predicted to be of the class that was asked for."""
    import numpy as np

    if wanted is None or explanations.predictions is None:
        return np.ones(len(explanations), bool)
    chosen = np.asarray(explanations.predictions == wanted)
    return chosen if chosen.any() else ~chosen


def write_subjects(
    explanations: Explanations,
    table: pd.DataFrame,
    by: str,
    edges: int | None,
    atlas: Any,
    out: Path,
    drawn: tuple[str, int] | None,
    *,
    quiet: bool,
) -> None:
    """Write each subject's edges and, where ``drawn`` is a format and a number of edges, its figure."""
    (out / "subjects").mkdir(exist_ok=True)
    names = file_names(table["subject"].tolist())
    done = 0
    try:
        for i in track(range(len(names)), "writing subjects", len(names), not quiet):
            one, path = explanations[i], out / "subjects" / f"{names[i]}.csv"
            write_csv(path, one.top_edges(edges or max(len(one.edges), 1), by))
            if drawn is not None:
                picture, top = drawn
                place = path.with_name(f"{names[i]}.{picture}")
                draw(one, explanations[[i]], atlas, title_of(table, i), top, place, by)
            done += 1
    except KeyboardInterrupt:
        counts = how_many(table["subject"])
        raise InterruptedWorkError(f"{done} of {counts} are written into {out}.") from None


def show_group(group: pd.DataFrame, explanations: Explanations, wanted: Any, subjects: pd.Series) -> None:
    """Show the group's top edges: those for and those against the class explained, or by weight."""
    chosen = shown_subjects(explanations, wanted)
    counts = how_many(subjects[chosen]) + ("" if chosen.all() else " predicted so")
    if "contribution" not in group:
        shown = [name for name in COLUMNS if name in group]
        show_table(group[shown].head(2 * SHOWN), f"top edges of {counts}", digits=2)
        return
    explained = "the predicted class" if wanted is None else f"class {wanted}"
    if explanations.unit is not None:
        explained = explanations.unit
    shown = [name for name in COLUMNS[:-1] if name in group]
    for role in explanations[0].roles:
        part = group.loc[group["role"] == role, shown].head(SHOWN)
        if len(part):
            digits = max(2, 1 - math.floor(math.log10(part["contribution"].abs().max())))
            ways = {"contribution": f"{{:+.{digits}f}}", "deviation": "{:+.2f}"}
            signed = {name: part[name].map(way.format) for name, way in ways.items() if name in part}
            title = f"{role} {explained}, mean of {counts}"
            show_table(part.assign(**signed), title, digits=2, right=tuple(ways))
    units = "contributions in log-odds"
    if explanations.unit is not None:
        units = (
            f"sizes of contributions, in units of {explanations.unit}; stronger connections raise or lower it"
        )
    elif explanations.reference is not None:
        units += f"; deviations in standard deviations of training class {explanations.reference.name}"
    say(units)


def draw(
    one: Explanation,
    as_set: Explanations | None,
    atlas: Any,
    title: str,
    top: int,
    path: Path,
    by: str,
) -> None:
    """Draw an explanation on the brain where places are known, as a ring without, as a graph if small."""
    from cignn import report
    from cignn.datasets import aal116

    names = [] if one.node_names is None else list(one.node_names)
    placed = atlas is not None and atlas.coordinates is not None
    if placed or names == aal116().names:
        report.draw_connectome(one, atlas if placed else None, by=by, top=top, title=title, path=path)
    elif as_set is not None and not as_set.graphs.aligned:
        report.draw_graphs(as_set, [title], 1, width=report.COLUMN, path=path)
    else:
        report.draw_connectogram(one, by=by, top=top, title=title, path=path)


def title_of(table: pd.DataFrame, i: int) -> str:
    """Name a subject with the class predicted and its probability."""
    row = table.iloc[i]
    if f"p_{row['predicted']}" not in row:  # a score
        known = f", observed {row['observed']:.4g}" if row.get("observed", math.nan) > -math.inf else ""
        return f"{row['subject']}: {row['predicted']:.4g}{known}"
    title = f"{row['subject']}: {row['predicted']} ({row['p_' + str(row['predicted'])]:.0%})"
    other = "explained" in row and row["explained"] != row["predicted"]
    return f"{title}, for and against {row['explained']}" if other else title


def file_names(subjects: list[str]) -> list[str]:
    """Return a name for the files of each subject: plain letters, each once."""
    out: list[str] = []
    taken: set[str] = set()
    for subject in subjects:
        base = re.sub(r"[^\w.-]+", "_", subject).strip("._") or "subject"
        name, k = base, 2
        while name.lower() in taken:
            name, k = f"{base}_{k}", k + 1
        taken.add(name.lower())
        out.append(name)
    return out
