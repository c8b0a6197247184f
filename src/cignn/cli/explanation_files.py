"""Explanations as files and on the screen: of the group, of every subject, of the views of a fusion."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cignn._files import write_csv
from cignn._progress import track
from cignn.cli.app import InterruptedWorkError, complain, say, show_table
from cignn.cli.reading import how_many

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from cignn import Explanations
    from cignn.estimators import FusedExplanations
    from cignn.explanations import Explanation

SHOWN = 5  # edges of the group on the screen for the class explained, and against it; these columns of theirs
COLUMNS = ("source", "target", "contribution", "deviation", "weight", "connectivity")


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


# -------------------------------------------------------------------------- views of a fusion


def write_views(
    told: FusedExplanations,
    table: pd.DataFrame,
    by: str,
    wanted: Any,
    atlases: dict[str, Any],
    out: Path,
    picture: str,
    top: int,
    edges: int | None,
    drawn: tuple[str, int] | None,
    quiet: bool,
) -> pd.DataFrame:
    """Write what each view added, and each view's edges or columns; returns the former.

    table : the predictions. atlases : of every view, None where it has none.
    """
    import pandas as pd

    start = pd.DataFrame({"subject": table["subject"], "explained": told.explained, "base": told.base})
    by_view = pd.concat([start, told.by_view.set_index(start.index)], axis=1)
    write_csv(out / "by_view.csv", by_view)
    (out / "views").mkdir(exist_ok=True)
    for view, name in zip(atlases, file_names(list(atlases)), strict=True):
        one = told.views.get(view)
        if one is None:
            complain("note", f"the model of view {view} does not explain itself.")
        elif isinstance(one, pd.DataFrame):
            write_csv(out / "views" / f"{name}.csv", one)
        else:
            check_contributions(one, by)
            place = out / "views" / name
            place.mkdir(exist_ok=True)
            counts = f"{view}, {how_many(table['subject'])}"
            write_group(one, by, wanted, atlases[view], place, top, picture, counts)
            write_subjects(one, with_bases(table, one), by, edges, atlases[view], place, drawn, quiet=quiet)
    return by_view


def show_views(by_view: pd.DataFrame, views: list[str], counts: str) -> None:
    """Show what each view added to the log-odds of the class explained."""
    import pandas as pd

    rows = [
        {"view": view, "mean": by_view[view].mean(), "mean size": by_view[view].abs().mean()}
        for view in views
    ]
    show_table(
        pd.DataFrame(rows), f"log-odds of the class explained that each view added, {counts}", digits=2
    )
