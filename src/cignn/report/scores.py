"""Reports of predicted scores: predicted against observed, residuals, and the connections behind them."""

from __future__ import annotations

import base64
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cignn import __version__
from cignn._files import write_text
from cignn.evaluation.regression import regression_scores
from cignn.explanations import Explanations
from cignn.explanations.score_map import score_map
from cignn.report.style import INK, PAGE, PALETTE, QUIET, house_style, new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"mae": "MAE", "r2": "R²", "r": "r", "spearman": "Spearman"}
TOP_EDGES = 30  # of the group, in the table
PICTURED = 50  # in the figure
SCREEN_DPI = 150


def draw_scores(
    observed: np.ndarray,
    predicted: np.ndarray,
    target: str = "score",
    *,
    groups: np.ndarray | None = None,
    width: float = PAGE,
    path: str | Path | None = None,
) -> Figure:
    """Draw predicted against observed scores, and residuals against predictions.

    Parameters
    ----------
    observed : array of shape (n,)
        Observed scores.
    predicted : array of shape (n,)
        Predicted scores.
    target : str, default="score"
        Name of the score.
    groups : array of shape (n,), default=None
        What colours the subjects, such as "trained on" and "held out"; at most nine.
    width : float, default=7.2
        Width in inches.
    path : str or Path, default=None
        File to write; the ending chooses the format.

    Returns
    -------
    Figure
        Two panels: the line of equality and the line of least squares on the left, residuals (observed minus
        predicted) on the right.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.report import draw_scores
    >>> figure = draw_scores(np.array([20.0, 30.0, 45.0]), np.array([24.0, 31.0, 39.0]), "age")
    >>> [ax.get_xlabel() for ax in figure.axes]
    ['observed age', 'predicted age']
    """
    observed, predicted = np.asarray(observed, float), np.asarray(predicted, float)
    if observed.shape != predicted.shape or observed.ndim != 1 or not len(observed):
        raise ValueError(
            f"expected as many predictions as scores, got {predicted.shape} and {observed.shape}."
        )
    named = np.full(len(observed), "") if groups is None else np.asarray(groups).astype(str)
    with house_style():
        figure = new_figure(width, width * 0.42)
        left, right = figure.subplots(1, 2)
        for k, name in enumerate(dict.fromkeys(named.tolist())):
            mine, colour = named == name, PALETTE[k % len(PALETTE)]
            style: dict[str, Any] = {"s": 9, "color": colour, "alpha": 0.7, "linewidths": 0}
            left.scatter(observed[mine], predicted[mine], label=name, **style)
            right.scatter(predicted[mine], (observed - predicted)[mine], **style)
        both = np.concatenate([observed, predicted])
        ends = np.array([both.min(), both.max()])
        left.plot(ends, ends, color=QUIET, linewidth=0.8, linestyle="--", zorder=0)
        if len(observed) > 2 and observed.std() > 0:
            slope, level = np.polyfit(observed, predicted, 1)
            left.plot(ends, slope * ends + level, color=INK, linewidth=0.8, zorder=0)
        right.axhline(0, color=QUIET, linewidth=0.8, linestyle="--", zorder=0)
        left.set(xlabel=f"observed {target}", ylabel=f"predicted {target}")
        right.set(xlabel=f"predicted {target}", ylabel="residual (observed − predicted)")
        if groups is not None and len(set(named.tolist())) > 1:
            left.legend(frameon=False)
    return save(figure, path)


def write_score_report(
    path: str | Path,
    table: pd.DataFrame,
    explanations: Explanations,
    *,
    target: str = "score",
    title: str | None = None,
    results: pd.DataFrame | None = None,
    facts: dict[str, object] | None = None,
    atlas: Any = None,
) -> Path:
    """Write the report of a model of scores as one HTML file that opens offline.

    Parameters
    ----------
    path : str or Path
        Name of the file, with the ending .html.
    table : DataFrame
        One row per scan: "subject", "predicted" and, where they are known, "observed", "trained_on", "site".
    explanations : Explanations
        Explanations of these scans, of a regressor.
    target : str, default="score"
        Name of the score.
    title : str, default=None
        Title of the page.
    results : DataFrame, default=None
        Mean scores of methods, one row each, to show as a table.
    facts : dict, default=None
        What to list about the model, by name.
    atlas : Atlas, default=None
        Places of the regions; without, the connections are drawn in a ring.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn import CohortRegressor
    >>> from cignn.datasets import make_cohort
    >>> from cignn.estimators import make_estimator
    >>> from cignn.report import write_score_report
    >>> cohort = make_cohort(24, 8, n_edges=3, score=True, data="matrices", random_state=0)
    >>> model = CohortRegressor.make(make_estimator("cpm")).fit(cohort[:16])
    >>> told = {"subject": cohort.subjects, "observed": cohort.y, "predicted": model.predict(cohort)}
    >>> write_score_report("scores.html", pd.DataFrame(told), model.explain(cohort), target="BDI").name
    'scores.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is an .html file, got {path.name!r}.")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cignn.report", "templates"), autoescape=True, undefined=StrictUndefined
    )
    seen = table.get("trained_on", pd.Series(False, table.index)).astype(bool)
    known = table["observed"].notna() if "observed" in table else pd.Series(False, table.index)
    page = environment.get_template("scores.html").render(
        style=environment.loader.get_source(environment, "report.css")[0],  # type: ignore[union-attr]
        version=__version__,
        written=f"{datetime.now():%Y-%m-%d %H:%M}",
        title=title or f"Connections behind the prediction of {target}",
        target=target,
        n=len(table),
        n_trained=int(seen.sum()),
        scores=_score_rows(table[known & ~seen], table[seen & known]),
        scatter=_scatter(table[known], seen[known], target),
        edges=_edge_rows(explanations),
        brain=_picture_of_group(explanations, atlas),
        subjects=_subject_rows(table, explanations),
        columns=_subject_columns(table),
        results=None if results is None else (list(results), results.astype(object).values.tolist()),
        facts=facts or {},
    )
    write_text(path, page)
    return path


def _score_rows(held_out: pd.DataFrame, trained: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Name, value and that of the mean predictor, of subjects that the model was not trained on."""
    if len(held_out) < 2:
        return []
    observed, predicted = held_out["observed"].to_numpy(float), held_out["predicted"].to_numpy(float)
    own = regression_scores(observed, predicted)
    level = trained["observed"].mean() if len(trained) else observed.mean()
    simple = regression_scores(observed, np.full(len(observed), level))
    return [(NAMES[name], _number(own[name]), _number(simple[name])) for name in NAMES]


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}".replace("-", "−")


def _scatter(table: pd.DataFrame, seen: pd.Series, target: str) -> str | None:
    """The picture of predictions as a data address; None where no score is known."""
    if not len(table):
        return None
    groups = np.where(seen, "trained on", "not trained on")
    return _picture(draw_scores(table["observed"], table["predicted"], target, groups=groups))


def _picture(figure: Figure) -> str:
    content = BytesIO()
    with house_style():
        figure.savefig(content, format="png", dpi=SCREEN_DPI)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


def _picture_of_group(explanations: Explanations, atlas: Any) -> str | None:
    """The group's top connections, on the brain where places are known, else in a ring."""
    from cignn.report.connectogram import draw_connectogram
    from cignn.report.connectome import draw_connectome

    if not explanations.graphs.aligned:
        return None
    mean = score_map(explanations)
    if atlas is not None and atlas.coordinates is not None:
        return _picture(draw_connectome(mean, atlas, top=PICTURED))
    return _picture(draw_connectogram(mean, top=PICTURED))


def _edge_rows(explanations: Explanations) -> list[dict[str, str]]:
    """The group's top connections by the mean size of their contributions."""
    if not explanations.graphs.aligned:
        return []
    top = score_map(explanations).top_edges(TOP_EDGES)
    return [
        {
            "source": str(row.source),
            "target": str(row.target),
            "size": f"{abs(row.contribution):.3g}",
            "role": str(row.role),
            "weight": f"{row.weight:.2f}",
        }
        for row in top.itertuples()
    ]


def _subject_columns(table: pd.DataFrame) -> list[str]:
    wanted = ("subject", "site", "observed", "predicted", "residual", "trained_on")
    return [name for name in wanted if name in table] + ["largest contributions"]


def _subject_rows(table: pd.DataFrame, explanations: Explanations) -> list[list[str]]:
    """One row per scan, the furthest from its observed score first."""
    order = np.arange(len(table))
    if "observed" in table:
        order = np.argsort(-(table["observed"] - table["predicted"]).abs().fillna(-1), kind="stable")
    rows = []
    for i in order:
        row, top = table.iloc[i], explanations[int(i)].top_edges(3)
        told = [f"{e.source}–{e.target} {e.contribution:+.2g}".replace("-", "−") for e in top.itertuples()]
        cells = [_cell(row[name]) for name in _subject_columns(table)[:-1]]
        rows.append([*cells, "; ".join(told)])
    return rows


def _cell(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return "–" if np.isnan(value) else f"{value:.2f}".replace("-", "−")
    return str(value)
