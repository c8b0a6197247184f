"""What the commands show: lines and tables on stdout, progress and complaints on stderr, or JSON."""

from __future__ import annotations

import json
import math
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
SHORT = 20  # letters
COLOURS = {"error": "bold red", "failed": "bold red", "interrupted": "bold yellow", "note": "bold cyan"}
NAMES = {"f1": "F1", "mcc": "MCC", "roc_auc": "ROC-AUC", "p_holm": "p (Holm)"}


def complain(severity: str, message: str) -> None:
    """Write one line (or one per problem) to stderr; a terminal breaks it between words."""
    console = Console(stderr=True)
    line = f"[{COLOURS[severity]}]{severity}[/] {escape(message)}"
    console.print(line, highlight=False, soft_wrap=not console.is_terminal)


def say(line: str) -> None:
    """Write a line to stdout, letter by letter: what is to be copied, a path, stays whole."""
    Console().print(escape(line), highlight=False, soft_wrap=True)


def say_words(text: str, mark: str = "", style: str = "", bold: str = "") -> None:
    """Write a sentence to stdout, after a mark; a terminal breaks it between words, below its start.

    bold : what the sentence begins with.
    """
    console = Console()
    sentence = (f"[bold]{escape(bold)}[/]" if bold else "") + escape(text)
    first = f"[{style}]{escape(mark)}[/]" if style else escape(mark)
    if not console.is_terminal:
        console.print(first + sentence, highlight=False, soft_wrap=True)
        return
    grid = Table.grid()
    grid.add_column(width=len(mark), no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(first, sentence)
    console.print(grid, highlight=False)


def say_json(content: dict[str, Any]) -> None:
    """Write one JSON object to stdout."""
    typer.echo(json.dumps(plain(content), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return what JSON can hold: NaN and infinite numbers become null, tables lists of rows."""
    import numpy as np
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def show_table(table: pd.DataFrame, title: str, digits: int = 3, most: int | None = None) -> None:
    """Write a table to stdout; numbers to the right, at most so many rows."""
    import pandas as pd

    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for k, name in enumerate(table.columns):
        # a row's name stays whole where it is short: headings break before it
        whole = k == 0 and table[name].astype(str).str.len().max() <= SHORT
        right = pd.api.types.is_numeric_dtype(table[name]) and not pd.api.types.is_bool_dtype(table[name])
        justify: Literal["left", "right"] = "right" if right else "left"
        drawn.add_column(escape(_name(name)), justify=justify, overflow="fold", no_wrap=whole)
    for row in table.head(most or len(table)).itertuples(index=False):
        drawn.add_row(*(escape(_cell(value, digits)) for value in row))
    console = Console()
    console.print(f"[bold]{escape(title)}[/]", highlight=False)
    console.print(drawn)
    if most is not None and len(table) > most:
        console.print(f"… and {len(table) - most} more", highlight=False)


def show_facts(facts: dict[str, Any], title: str, digits: int = 3) -> None:
    """Write names and values as a table of two columns."""
    drawn = Table(show_header=False, box=box.SIMPLE)
    for name, value in facts.items():
        drawn.add_row(escape(_name(name)), escape(_cell(value, digits)))
    console = Console()
    if title:
        console.print(f"[bold]{escape(title)}[/]", highlight=False)
    console.print(drawn)


def positive_words(positive: Any) -> str:
    """What a title says of the class, of two, that sensitivity and F1 are of."""
    return "" if positive is None else f"; positive: {positive}"


def _name(name: Any) -> str:
    return NAMES.get(str(name), str(name).replace("_", " "))


def _cell(value: Any, digits: int) -> str:
    if str(value) in ("True", "False"):
        return "yes" if value else "no"
    if isinstance(value, Real) and not isinstance(value, Integral):  # numpy's too
        return "–" if math.isnan(value) else f"{value:.{digits}f}"
    return "–" if value is None else str(value)
