"""Tables of a report for a paper, as CSV and as LaTeX."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cignn._files import write_csv, write_text
from cignn.report.outcomes import comparison_of, confusion_matrix, p_text, trivial_rows
from cignn.report.performance import NAMES, Score, method_tables, own_scores, site_rows
from cignn.report.report_data import ReportData

PRINTED = ("accuracy", "balanced_accuracy", "sensitivity", "specificity", "roc_auc")  # the CSV has all
ROWS = 30  # of connections in LaTeX; the CSV has all
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi mathrm{o} pi rho varsigma "
    "sigma tau upsilon phi chi psi omega"
)
_CAPITALS = (  # those that look like Latin letters have no command
    "mathrm{A} mathrm{B} Gamma Delta mathrm{E} mathrm{Z} mathrm{H} Theta mathrm{I} mathrm{K} Lambda "
    "mathrm{M} mathrm{N} Xi mathrm{O} Pi mathrm{P} Sigma mathrm{T} Upsilon Phi mathrm{X} Psi Omega"
)
_SYMBOLS = "leq geq neq approx pm times star to gets leftrightarrow infty cdot surd Sigma Delta mu in"
_COMMANDS = dict(
    zip(
        "αβγδεζηθικλμνξοπρςστυφχψω" + "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ" + "≤≥≠≈±×★→←↔∞·√∑∆µ∈",
        f"{_GREEK} {_CAPITALS} {_SYMBOLS}".split(),
        strict=True,
    )
)
# characters that LaTeX takes for commands, or that its usual fonts do not have
LATEX = {sign: "\\" + sign for sign in "&%$#_{}"}
LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {sign: f"${sign}$" for sign in "<>|"} | {"−": "$-$", "²": "$^2$", "³": "$^3$", "°": r"$^\circ$"}
LATEX |= {sign: rf"$\{name}$" for sign, name in _COMMANDS.items()}
_KNOWN = re.compile(r"[ -~\u00a1-\u017f–—‘’“”„…•€]*")  # what pdfLaTeX prints with the packages named


class PaperTable(NamedTuple):
    """A table with numbers, the same in words to print, and its caption."""

    numbers: pd.DataFrame
    printed: pd.DataFrame
    caption: str


def paper_tables(data: ReportData) -> dict[str, PaperTable]:
    """Return the tables that a report has data for, by the names of their files."""
    makers: dict[str, Callable[[ReportData], PaperTable | None]] = {
        "demographics": _demographics,
        "methods": _methods,
        "comparison": _comparison,
        "permutations": _permutations,
        "scores": _scores,
        "sites": _sites,
        "confusion": _confusion,
        "connections": _connections,
        "systems": _systems,
    }
    made = {name: make(data) for name, make in makers.items()}
    return {name: table for name, table in made.items() if table is not None}


def write_tables(folder: Path, tables: dict[str, PaperTable]) -> list[Path]:
    """Write every table as .csv, with all digits, and as .tex, and return the files."""
    files = []
    for name, table in tables.items():
        files += [folder / f"{name}.csv", folder / f"{name}.tex"]
        write_csv(files[-2], table.numbers)
        write_text(files[-1], latex(table.printed, table.caption, name))
    return files


def latex(table: pd.DataFrame, caption: str, name: str) -> str:
    r"""Return a table environment for LaTeX; it needs booktabs, and T1 fonts for letters with accents."""
    words = [escaped(str(column)) for column in table]
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table]
    looks = [_all_numbers(table[column]) if not n else True for column, n in zip(table, numeric, strict=True)]
    rows = [
        " & ".join(escaped(_cell(value)) for value in row) + r" \\" for row in table.itertuples(index=False)
    ]
    needs = [r"% needs \usepackage{booktabs} and \usepackage[T1]{fontenc}"]
    strange = sorted(set(_KNOWN.sub("", "".join([escaped(caption), *words, *rows]))))
    if strange:
        needs.append(f"% and XeLaTeX or LuaLaTeX with a font that has {' '.join(strange)}")
    lines = [
        *needs,
        r"\begin{table}",
        r"\centering\footnotesize",
        rf"\caption{{{escaped(caption)}}}",
        rf"\label{{tab:{name}}}",
        rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in looks)}}}",
        r"\toprule",
        " & ".join(words) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return "–" if np.isnan(value) else f"{value:.3f}".replace("-", "−")
    return "–" if value is None else str(value)


def _all_numbers(column: pd.Series) -> bool:
    """Whether a column of words holds numbers, perhaps with an interval, and so stands to the right."""
    words = column.astype(str).str.strip()
    return bool(words.str.match(r"^(–|[<+\-−]?\s?[\d.,]+( %| \(.*\)| ± .*)?)$").all())


def escaped(text: str) -> str:
    """Return text that LaTeX prints as it stands.

    A bracket or a star at the start would belong to the end of the row before, and two hyphens make a dash.
    """
    plain = "".join(
        sign for sign in " ".join(unicodedata.normalize("NFC", text).split()) if sign.isprintable()
    )
    out = "".join(LATEX.get(sign, sign) for sign in plain).replace("--", "-{}-").replace("--", "-{}-")
    return f"{{{out[0]}}}{out[1:]}" if out[:1] in ("[", "*") else out


# ------------------------------------------------------------------------ tables


def _demographics(data: ReportData) -> PaperTable | None:
    if data.demographics is None:
        return None
    table = data.demographics.reset_index()
    return PaperTable(table, table.astype(object), "Subjects.")


def _methods(data: ReportData) -> PaperTable | None:
    numbers, printed = [], []
    tables = method_tables(data.results, data.missing)
    for table in tables:
        for method, scores in (table.rows | trivial_rows(data, table)).items():
            named = {"data": table.data, "protocol": table.protocol, "method": method}
            numbers += [
                named | {"metric": metric, "mean": s.value, "low": s.low, "high": s.high}
                for metric, s in scores.items()
            ]
            row = {} if len(tables) == 1 else {"data": table.data, "protocol": table.protocol}
            shown = {NAMES[m]: str(scores.get(m, Score(np.nan))) for m in PRINTED if m in table.metrics}
            printed.append(row | {"method": method} | shown)
    if not numbers:
        return None
    text = "Mean scores over test sets with 95 % intervals, corrected for overlapping training sets."
    if any(not table.complete for table in tables):
        text += " The evaluation is unfinished; methods are not ranked."
    return PaperTable(pd.DataFrame(numbers), pd.DataFrame(printed), text)


def _comparison(data: ReportData) -> PaperTable | None:
    table = comparison_of(data, method_tables(data.results, data.missing))
    if table is None:
        return None
    printed = pd.DataFrame(
        {
            "score": [NAMES.get(metric, metric) for metric in table["metric"]],
            "first": table["first"],
            "second": table["second"],
            "difference": [str(Score(*row)) for row in table[["difference", "low", "high"]].to_numpy()],
            "p": table["p_value"].map(p_text),
            "p (Holm)": table["p_holm"].map(p_text),
        }
    )
    text = "Differences of methods (first minus second) with 95 % intervals: corrected resampled t-tests."
    order = ["metric", *(name for name in table if name != "metric")]
    return PaperTable(table[order], printed, text)


def _permutations(data: ReportData) -> PaperTable | None:
    table = data.permutations
    if table is None:
        return None
    printed = pd.DataFrame(
        {
            "method": table["method"],
            "score": [NAMES.get(metric, metric) for metric in table["metric"]],
            "true labels": table["value"].map("{:.3f}".format),
            "permuted labels": [
                f"{mean:.3f} ± {std:.3f}" if std == std else f"{mean:.3f}"
                for mean, std in zip(table["permuted_mean"], table["permuted_std"], strict=True)
            ],
            "p": table["p_value"].map(p_text),
        }
    )
    n = int(table["n_permutations"].max())
    return PaperTable(table, printed, f"Scores against {n} repeats of the evaluation with permuted labels.")


def _scores(data: ReportData) -> PaperTable | None:
    scores = own_scores(data)
    if not scores:
        return None
    numbers = pd.DataFrame(
        [(name, *score) for name, score in scores.items()], columns=["score", "value", "low", "high"]
    )
    printed = pd.DataFrame(
        {"score": [NAMES.get(name, name) for name in scores], "value": map(str, scores.values())}
    )
    who = "the model" if data.predictions is None else str(data.predictions["method"].iloc[0])
    seen = " on the subjects it was trained on" if data.predictions is None and data.trained_on else ""
    return PaperTable(numbers, printed, f"Scores of {who}{seen} with 95 % bootstrap intervals over subjects.")


def _sites(data: ReportData) -> PaperTable | None:
    rows = site_rows(data)
    if not rows:
        return None
    numbers = pd.DataFrame(
        [(row.site, row.n, *row.accuracy, row.balanced.value) for row in rows],
        columns=["site", "subjects", "accuracy", "low", "high", "balanced_accuracy"],
    )
    printed = pd.DataFrame(
        [(row.site, row.n, str(row.accuracy), str(row.balanced)) for row in rows],
        columns=["site", "subjects", "accuracy", "balanced accuracy"],
    )
    return PaperTable(numbers, printed, "Accuracy at each site with its 95 % interval (Wilson).")


def _confusion(data: ReportData) -> PaperTable | None:
    found = confusion_matrix(data)
    if found is None:
        return None
    names = [data.class_labels[int(label)] for label in found.labels.tolist()]
    table = pd.DataFrame(found.counts, columns=[f"predicted {name}" for name in names])
    table.insert(0, "true", names)
    return PaperTable(table, table, "Confusion matrix: numbers of predictions.")


def _connections(data: ReportData) -> PaperTable | None:
    if data.group is None:
        return None
    table = data.group.table
    survived = table[table["selected"]]
    shown = (survived if len(survived) else table).head(ROWS)
    columns = ["source", "target", "value", "direction", "effect", "contribution", "selection", "q"]
    printed = shown[[name for name in columns if name in shown]]
    second = data.class_name(data.group.classes[1])
    what = f"The {len(printed)} largest of {len(survived)} connections that survive"
    if not len(survived):
        what = f"No connection survives; the {len(printed)} largest values"
    text = f"{what}. Direction and effect (standardised mean difference) of {second}."
    return PaperTable(table, printed, text)


def _systems(data: ReportData) -> PaperTable | None:
    if data.group is None or not len(data.group.systems):
        return None
    table = data.group.systems
    names = {"source_system": "first", "target_system": "second", "n": "connections", "mean": "mean"}
    names |= {"p": "p", "q": "q", "shift_p": "p (shift)", "shift_q": "q (shift)"}
    printed = table[[name for name in names if name in table]].rename(columns=names).head(ROWS)
    text = "Pairs of systems in the map of the group, against permuted labels: size of the values, and shift."
    return PaperTable(table, printed, text)
